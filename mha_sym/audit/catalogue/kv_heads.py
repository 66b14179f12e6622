"""Faults of keys and values that several heads share: which head uses which group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits, Grouped, Site, Slot, there
from mha_sym.axes import Axis, axis, product
from mha_sym.expr import Compare, Expr, Join, Rename, Repeat, Reshape, Select, Split
from mha_sym.pattern import einsum, rearrange, repeat

_FAMILY = "kv_heads"
_MEND = "repeat(k, 'b g s k -> b (g n) s k', n=h // g)"


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
    """Head r uses group ``r // g``: with ``r = i g + j`` that is group i, which exists while i is below g."""
    i, j = axis("i", kv.n.size), axis("j", kv.g.size)
    chosen = einsum(f"{lead} {kv.g.name} {feature}, i {kv.g.name} -> {lead} i {feature}", value, Compare("eq", i, kv.g))
    wide = repeat(chosen, f"{lead} i {feature} -> {lead} i j {feature}", [j])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _exchanged(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """The stored ``(g k)`` read as ``(k g)``: features of a group are strided."""
    turned = Reshape(value, (*value.axes[:-2], value.axes[-1], kv.g))
    wide = repeat(turned, f"{lead} {feature} {kv.g.name} -> {lead} {kv.g.name} {kv.n.name} {feature}", [kv.n])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


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


def _fault(name: str, words: str, symptom: str, edit: Slot | Edits) -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=_MEND, step=3, stage="v" if name.endswith("values") else "k",
        edits=edit if isinstance(edit, Mapping) else {"before": edit}, needs=("groups",), family=_FAMILY,
    )  # fmt: skip


_WHY = "Right where there is one group, or one head a group."

FAULTS: tuple[Fault, ...] = (
    _fault(
        "groups_tiled", "Keys and values are tiled: head r uses group r mod g instead of r // n.", _WHY,
        _each(_tiled, "k", "v"),
    ),
    _fault("groups_tiled_in_keys", "Keys are tiled over the heads, values are repeated.", _WHY, _each(_tiled, "k")),
    _fault("groups_tiled_in_values", "Values are tiled over the heads, keys are repeated.", _WHY, _each(_tiled, "v")),
    _fault("groups_all_first", "All heads use the first group.", _WHY, _each(_first, "k", "v")),
    _fault(
        "groups_repeated_by_feature", "Features are repeated one by one, as (g d n), instead of whole groups.",
        "Right where there is one head a group.", _each(_by_feature, "k", "v"),
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
        "Head r uses group r // g where r // n is meant, with g groups of n heads each.",
        "Right where there are as many groups as heads in each.", _each(_wrong_turns, "k", "v"),
    ),
    _fault(
        "groups_split_features_first", "Stored keys and values (g d) are split as (d g).",
        "Right where there is one group.", _each(_exchanged, "k", "v"),
    ),
)  # fmt: skip
