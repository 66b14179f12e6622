"""Faults of keys and values that several heads share: which head uses which group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import sympy

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits, Grouped, Site, Slot, along, there
from mha_sym.axes import Axis, axis, blocks, product
from mha_sym.expr import (
    Block,
    Blocks,
    Compare,
    Expr,
    Join,
    Map,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Select,
    Split,
    Table,
    Transpose,
)
from mha_sym.pattern import einsum, rearrange, repeat

_FAMILY = "kv_heads"
#: how heads get the keys and values of their group
_MENDS = {
    "k": "repeat(k, 'b g s k -> b (g n) s k', n=h // g)", "v": "repeat(v, 'b g s v -> b (g n) s v', n=h // g)",
}  # fmt: skip


Spread = Callable[[Grouped, Axis, Expr, str, str], Expr]


def _each(make: Spread, *letters: str) -> Slot:
    """The weights of the groups brought to the heads by ``make``, which gives axes ``... h k``."""

    def before(at: Site) -> Site:
        kv, parts = there(at.kv, "group"), dict[str, Expr]()
        for name, value in kv.weights(at).items():
            if name[-1] in letters:
                lead, feature = " ".join(one.name for one in value.axes[:-2]), value.axes[-1].name
                wide = make(kv, at.d.h, value, lead, feature)
                parts[name] = rearrange(wide, f"{lead} h {feature} -> {lead} (h {feature})")
        return replace(at, w=replace(at.w, **parts))

    return before


def _tiled(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """Head r uses group ``r mod g`` where ``r // n`` is meant."""
    wide = repeat(value, f"{lead} {kv.g.name} {feature} -> {lead} {kv.n.name} {kv.g.name} {feature}", [kv.n])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _first(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """All heads use group 0."""
    only = Select(value, kv.g, 0)
    return Repeat(only, (*only.axes[:-1], h, only.axes[-1]))


def _by_feature(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """Each feature is repeated n times in a row, ``(g k n)``, instead of each group."""
    wide = repeat(value, f"{lead} {kv.g.name} {feature} -> {lead} {kv.g.name} {feature} {kv.n.name}", [kv.n])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _wrong_turns(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """Head r uses group ``r // g mod g``: with ``r = i g + j`` that is the group that i is, taken modulo g."""
    i, j = axis("i", kv.n.size), axis("j", kv.g.size)
    turn = product(axis("p", kv.n.size), kv.g)  # i = p g + group for one p
    group = Reduce("sum", Split(Compare("eq", i, turn), turn), (turn.factors[0],))
    chosen = einsum(f"{lead} {kv.g.name} {feature}, i {kv.g.name} -> {lead} i {feature}", value, group)
    wide = repeat(chosen, f"{lead} i {feature} -> {lead} i j {feature}", [j])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _by_tile(size: int) -> Spread:
    """Heads are taken ``size`` at a time, all with the group of the first: head r uses ``(r - r mod size) // n``."""

    def spread(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
        heads, tile = axis("heads", h.size), axis("tile", h.size)
        places = product(tile, axis("place", size))
        inside = Reduce("sum", Split(Compare("eq", h, places), places), (places.factors[1],))  # h tile: r is in it
        first = Select(Split(Compare("eq", heads, places), places), places.factors[1], 0)  # heads tile: starts it
        each = repeat(value, f"{lead} {kv.g.name} {feature} -> {lead} {kv.g.name} {kv.n.name} {feature}", [kv.n])
        whole = Reshape(each, (*value.axes[:-2], heads, value.axes[-1]))
        pattern = f"h tile, heads tile, {lead} heads {feature} -> {lead} h {feature}"
        return einsum(pattern, inside, first, whole)

    return spread


def _exchanged(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """The stored ``(g k)`` read as ``(k g)``: features of a group are strided."""
    turned = Reshape(value, (*value.axes[:-2], value.axes[-1], kv.g))
    wide = repeat(turned, f"{lead} {feature} {kv.g.name} -> {lead} {kv.g.name} {kv.n.name} {feature}", [kv.n])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _queries_by_place(at: Site) -> Site:
    """Stored query heads ``(g n)`` read as ``(n g)``: those of a group are g apart, keys and values are not."""
    kv, parts = there(at.kv, "group"), dict[str, Expr]()
    for name in ("w_q", "b_q"):
        value = at.w.items().get(name)
        if value is not None:
            lead = value.axes[:-1]
            turned = Transpose(Reshape(value, (*lead, kv.n, kv.g, at.d.k)), (*lead, kv.g, kv.n, at.d.k))
            parts[name] = Reshape(turned, (*lead, at.d.hk))
    return replace(at, w=replace(at.w, **parts))


def _packed(per_group: bool, parts: Mapping[str, Expr], kv: Grouped, k: Axis) -> Expr:
    """Queries ``... g n k``, keys and values ``... g k`` as one stored axis: [Q; K; V], or group by group."""
    lead = parts["q"].axes[:-3]
    keys, values = axis("keys", 1), axis("values", 1)
    if per_group:
        wide = [Repeat(parts[letter], (*lead, kv.g, one, k)) for letter, one in (("k", keys), ("v", values))]
        return Reshape(Blocks((parts["q"], *wide), (kv.n, keys, values)), (*lead, _flat(kv, k)))
    places = [axis("queries", kv.g.size * kv.n.size * k.size)]
    places += [axis(name, kv.g.size * k.size) for name in ("keys", "values")]
    flat = [Reshape(parts[letter], (*lead, place)) for letter, place in zip("qkv", places, strict=True)]
    return Reshape(Blocks(tuple(flat), tuple(places)), (*lead, _flat(kv, k)))


def _flat(kv: Grouped, k: Axis) -> Axis:
    return axis("stored", sympy.expand(kv.g.size * (kv.n.size + 2) * k.size))


def _unpacked(per_group: bool, stored: Expr, kv: Grouped, k: Axis) -> dict[str, Expr]:
    """What `_packed` put together, taken apart: ``... g n k`` and twice ``... g k``."""
    lead = stored.axes[:-1]
    if per_group:
        slot = blocks(kv.n, axis("keys", 1), axis("values", 1))
        each = Reshape(stored, (*lead, kv.g, slot, k))
        taken = [Block(each, slot, n) for n in range(3)]
        return {"q": taken[0], "k": Select(taken[1], taken[1].axes[-2], 0), "v": Select(taken[2], taken[2].axes[-2], 0)}
    places = [axis("queries", kv.g.size * kv.n.size * k.size)]
    places += [axis(name, kv.g.size * k.size) for name in ("keys", "values")]
    whole = Reshape(stored, (*lead, blocks(*places)))
    shapes = ((*lead, kv.g, kv.n, k), (*lead, kv.g, k), (*lead, kv.g, k))
    return {
        letter: Reshape(Block(whole, whole.axes[-1], n), shape)
        for n, (letter, shape) in enumerate(zip("qkv", shapes, strict=True))
    }


def _repacked(per_group: bool) -> Slot:
    """Grouped weights packed one way, ``per_group`` or not, and read in the other."""

    def before(at: Site) -> Site:
        kv, k, parts = there(at.kv, "group"), at.d.k, dict[str, Expr]()
        alone = kv.weights(at)
        for kind in ("w_", "b_"):
            if kind + "k" not in alone or kind + "q" not in at.w.items() or kind + "v" not in alone:
                continue
            queries = Split(Rename(Split(at.w.items()[kind + "q"], at.d.hk), at.d.h, product(kv.g, kv.n)), _groups(kv))
            given = {"q": queries, "k": alone[kind + "k"], "v": Rename(alone[kind + "v"], at.d.v, k)}
            read = _unpacked(not per_group, _packed(per_group, given, kv, k), kv, k)
            parts[kind + "q"] = Join(Rename(Join(read["q"], (kv.g, kv.n)), _groups(kv), at.d.h), (at.d.h, k))
            for letter in "kv":
                parts[kind + letter] = _to_heads(at, read[letter], letter)
        return replace(at, w=replace(at.w, **parts))

    return before


def _pairs_repacked(stored: str, read: str) -> Slot:
    """Keys and values in one array, stored in one order of (two g k) and read in another; g is h without groups."""

    def before(at: Site) -> Site:
        d, kv, parts = at.d, at.kv, dict[str, Expr]()
        alone = kv.weights(at) if kv else {
            name: Split(value, d.hk if name[-1] == "k" else d.hv) for name, value in at.w.items().items()
            if name[-1] in "kv"
        }  # fmt: skip
        known = {"two": axis("two", 2), "g": kv.g if kv else d.h, "k": d.k}
        for kind in ("w_", "b_"):
            if not {kind + "k", kind + "v"} <= set(alone):
                continue
            both = {"k": alone[kind + "k"], "v": along(alone[kind + "v"], d.v, d.k)}
            lead = both["k"].axes[:-2]
            whole = _side_by_side(both, known["two"])
            laid = Transpose(whole, (*lead, *(known[name] for name in stored.split())))
            seen = Reshape(laid, (*lead, *(known[name] for name in read.split())))
            for place, letter in enumerate("kv"):
                value = Transpose(Select(seen, known["two"], place), (*lead, known["g"], d.k))
                parts[kind + letter] = _to_heads(at, value, letter)
        return replace(at, w=replace(at.w, **parts))

    return before


def _side_by_side(parts: Mapping[str, Expr], two: Axis) -> Expr:
    """Keys and values, each ``... g k``, as ``... two g k``."""
    (*lead, g, k), found = parts["k"].axes, []
    for place, letter in enumerate("kv"):
        wide = Repeat(parts[letter], (*lead, two, g, k))
        found.append(Map("mul", (wide, Table(f"place_{letter}", (two,), (1 - place, place)))))
    return found[0] + found[1]


def _to_heads(at: Site, value: Expr, letter: str) -> Expr:
    """Keys or values of the groups, ``... g k``, as canonical weights; of the heads where there are no groups."""
    over = at.d.hk if letter == "k" else at.d.hv
    feature = over.factors[1]
    value = along(value, at.d.k, feature)
    if at.kv is None:
        return Join(value, over.factors)
    each = Repeat(value, (*value.axes[:-2], at.kv.g, at.kv.n, feature))
    return Join(Rename(Join(each, (at.kv.g, at.kv.n)), _groups(at.kv), at.d.h), over.factors)


def _groups(kv: Grouped) -> Axis:
    return product(kv.g, kv.n)


def _viewed(letter: str) -> Slot:
    """Keys or values of the groups viewed straight to ``(b, g, s, k)``, then copied to the heads."""
    feature, token = ("v", "s") if letter == "v" else ("k", "s")

    def split(at: Site, flat: Expr) -> Expr:
        kv = there(at.kv, "group")
        over = at.d.hv if letter == "v" else at.d.hk
        heads = Rename(Split(flat, over), at.d.h, product(kv.g, kv.n))
        alone = Select(Split(heads, product(kv.g, kv.n)), kv.n, 0)  # b s g k, as it is projected
        width = alone.axes[-1]
        seen = Reshape(Join(alone, (kv.g, width)), (at.d.b, kv.g, at.d.s, width))
        each = repeat(seen, f"b {kv.g.name} {token} {feature} -> b {kv.g.name} {kv.n.name} {token} {feature}", [kv.n])
        return Reshape(each, (at.d.b, at.d.h, at.d.s, width))

    return split


def _queries_viewed(at: Site, flat: Expr) -> Expr:
    return Reshape(flat, (at.d.b, at.d.h, at.d.t, at.d.k))


def _fault(name: str, words: str, symptom: str, edit: Slot | Edits, letters: str = "kv") -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=" and ".join(_MENDS[one] for one in letters), step=3,
        stage=letters[0],
        edits=edit if isinstance(edit, Mapping) else {"before": edit}, needs=("groups",), family=_FAMILY,
    )  # fmt: skip


def _misread(name: str, words: str, per_group: bool) -> Fault:
    return Fault(
        name=name, words=words, symptom="Shapes agree; heads get the weights of others, or of keys and values.",
        mend="rearrange(w, '(g slot k) m -> g slot m k', slot=n + 2) for a matrix that is packed group by group",
        step=2, stage="q", edits={"before": _repacked(per_group)}, needs=("groups",), ties={"d_v": "d_k"},
        family=_FAMILY,
    )  # fmt: skip


def _pairs(name: str, stored: str, read: str, words: str) -> Fault:
    return Fault(
        name=name, words=words, symptom="Shapes agree; heads get keys where values are meant, and those of others.",
        mend=f"k, v = rearrange(w, '({stored}) m -> two m (g k)', two=2, g=kv_heads)", step=2, stage="k",
        edits={"before": _pairs_repacked(stored, read)}, ties={"d_v": "d_k"}, family=_FAMILY,
    )  # fmt: skip


_WHY = "Right where there is one group, or one head a group."

FAULTS: tuple[Fault, ...] = (
    _fault(
        "groups_tiled", "Keys and values are tiled: head r uses group r mod g instead of r // n.", _WHY,
        _each(_tiled, "k", "v"),
    ),
    _fault(
        "groups_tiled_in_keys",
        "Keys are tiled over the heads, head r uses group r mod g; values are repeated, r // n.",
        _WHY, _each(_tiled, "k"), "k",
    ),
    _fault(
        "groups_tiled_in_values",
        "Values are tiled over the heads, head r uses group r mod g; keys are repeated, r // n.",
        _WHY, _each(_tiled, "v"), "v",
    ),
    _fault("groups_all_first", "All heads use the first group.", _WHY, _each(_first, "k", "v")),
    _fault(
        "groups_repeated_by_feature", "Features are repeated one by one, as (g d n), instead of whole groups.",
        "Right where there is one head a group.", _each(_by_feature, "k", "v"),
    ),
    Fault(
        name="query_heads_taken_in_turns_by_groups",
        words="Query heads are split as (n g) where (g n) is meant: those of a group are taken g apart.",
        symptom=_WHY, mend="rearrange(q, 'b t (g n k) -> b g n t k', g=g)", step=3, stage="q",
        edits={"before": _queries_by_place}, needs=("groups",), family=_FAMILY,
    ),
    _misread(
        "grouped_blocks_taken_for_groups",
        "Grouped weights packed as [Q; K; V] are read group by group, n queries with their key and value.", False,
    ),
    _misread(
        "grouped_by_group_taken_for_blocks",
        "Grouped weights packed group by group, n queries with their key and value, are read as [Q; K; V].", True,
    ),
    _pairs(
        "keys_and_values_per_head_taken_for_blocks", "g two k", "two g k",
        "Keys and values packed per head, [k1 v1 k2 v2 ...], are cut in halves.",
    ),
    _pairs(
        "key_and_value_blocks_taken_for_per_head", "two g k", "g two k",
        "Keys and values packed as halves [K; V] are read per head, [k1 v1 k2 v2 ...].",
    ),
    _fault(
        "groups_split_by_view", "Keys and values of the groups (B, S, g d) are viewed straight to (B, g, S, d).",
        "Groups mix tokens; right where there is one group.", {"split_k": _viewed("k"), "split_v": _viewed("v")},
    ),
    _fault(
        "all_split_by_view", "Queries, and keys and values of the groups, are viewed straight to (B, heads, T, d).",
        "Heads and groups mix tokens.",
        {"split_q": _queries_viewed, "split_k": _viewed("k"), "split_v": _viewed("v")},
    ),
    _fault(
        "groups_taken_in_turns_of_their_number",
        "Head r uses group (r // g) mod g where r // n is meant, with g groups of n heads each.",
        "Right where there are as many groups as heads in each.", _each(_wrong_turns, "k", "v"),
    ),
    *(
        _fault(
            f"groups_by_tiles_of_{size}",
            f"Heads are taken {size} at a time, all with the group of the first: head r uses (r - r mod {size}) // n.",
            f"Right where {size} divides the number of heads in a group.", _each(_by_tile(size), "k", "v"),
        )
        for size in (2, 4)
    ),
    _fault(
        "groups_split_features_first", "Stored keys and values (g d) are split as (d g).",
        "Right where there is one group.", _each(_exchanged, "k", "v"),
    ),
)  # fmt: skip
