"""Faults of rotary positions: what is turned, which way, how often, and in which pairs.

They are looked for where there are rotary positions, and are no part of the list of faults of all attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mha_sym.attention.rotary import Angles, Rotary, find_pairs, pairs_axis, turned
from mha_sym.audit.faults import POSITIONS, Fault
from mha_sym.audit.recipe import Edits, Site, Slot, there
from mha_sym.axes import Axis, axis, product
from mha_sym.expr import Block, Blocks, Expr, Join, Rename, Repeat, Reshape, Split, Transpose
from mha_sym.pattern import rearrange

_MEND = "q, k = q * cos + rotated(q) * sin, k * cos + rotated(k) * sin, after the split into heads, once"

#: queries or keys, and their token axis, with positions turned into them in some way
Turn = Callable[[Site, Expr, Axis], Expr]


def _angles(at: Site) -> Angles:
    return there(at.angles, "table of rotary positions")


def _right(at: Site, x: Expr, token: Axis) -> Expr:
    return turned(x, token, _angles(at))


def _left(at: Site, x: Expr, token: Axis) -> Expr:
    return x


def _back(at: Site, x: Expr, token: Axis) -> Expr:
    angles = _angles(at)
    return turned(x, token, Angles(angles.cos, -angles.sin))


def _twice(at: Site, x: Expr, token: Axis) -> Expr:
    return _right(at, _right(at, x, token), token)


def _exchanged(at: Site, x: Expr, token: Axis) -> Expr:
    angles = _angles(at)
    return turned(x, token, Angles(angles.sin, angles.cos))


def _both(turn: Turn) -> Slot:
    return _each(turn, turn)


def _each(of_queries: Turn, of_keys: Turn) -> Slot:
    """Queries and keys turned, each in some way."""
    return lambda at, q, k: (of_queries(at, q, at.d.t), of_keys(at, k, at.d.s))


def _values_too(at: Site, qkv: tuple[Expr, Expr, Expr]) -> tuple[Expr, Expr, Expr]:
    """Values turned, too, where they are as many features as keys."""
    q, k, v = qkv
    as_keys = Rename(v, at.d.v, at.d.k)
    return q, k, Rename(_right(at, as_keys, at.d.s), at.d.k, at.d.v)


# ---------------------------------------------------------------- pairs of another kind


def _other_pairs(at: Site, x: Expr, token: Axis) -> Expr:
    """Halves for neighbours, or the other way round, with the tables as they are."""
    feature = at.d.k
    if not feature.blocks:
        return _regrouped(at, x, feature, token)
    first, rest = (Block(x, feature, n) for n in (0, 1))
    whole = Blocks((_regrouped(at, first, feature.blocks[0], token), rest), feature.blocks)
    return Rename(whole, whole.axes[-1], feature)


def _regrouped(at: Site, x: Expr, pairs: Axis, token: Axis) -> Expr:
    other = pairs_axis(pairs.name, Rotary("interleaved" if find_pairs(pairs) == "halves" else "halves"), pairs.size / 2)
    angles = _angles(at)
    seen = Angles(*(_read_as(table, pairs, other) for table in (angles.cos, angles.sin)))
    made = turned(Reshape(x, (*x.axes[:-1], other)), token, seen)
    return Reshape(made, (*x.axes[:-1], pairs))


def _read_as(table: Expr, pairs: Axis, other: Axis) -> Expr:
    """A table that has a number for each feature, its features read in other pairs."""
    whole = table.axes[-1]
    return Reshape(table, (*table.axes[:-1], replace(other, name=whole.name))) if whole.factors else table


def _heads_as_one(at: Site, x: Expr, token: Axis) -> Expr:
    """Turned before the split: pairs are made of the features of all heads, with the tables once for every head."""
    feature, h = at.d.k, at.d.h
    if feature.blocks:
        return _right(at, x, token)  # where some features are left, nobody can do that
    whole = pairs_axis("k", Rotary(find_pairs(feature)), h.size * feature.size / 2)
    flat = rearrange(x, f"b h {token.name} k -> b {token.name} (h k)")
    angles = _angles(at)
    wide = Angles(*(_for_all_heads(table, h, whole) for table in (angles.cos, angles.sin)))
    made = turned(Reshape(flat, (*flat.axes[:-1], whole)), token, wide)
    apart = Split(Reshape(made, (*flat.axes[:-1], product(h, feature))), product(h, feature))
    return Transpose(apart, x.axes)


def _for_all_heads(table: Expr, h: Axis, whole: Axis) -> Expr:
    """A table for one head, laid end to end for all of them."""
    lead, last = table.axes[:-1], table.axes[-1]
    tiled = Join(Repeat(table, (*lead, h, last)), (h, last))
    wide = whole if last.factors else axis("f", h.size * last.size)
    return Reshape(tiled, (*lead, wide))


def _dropped(at: Site) -> Site:
    return replace(at, w=at.w.without("b_k"))


def _fault(name: str, words: str, symptom: str, edits: Edits, *needs: str, **more: object) -> Fault:
    keys = name.endswith(("_in_keys", "_in_queries_only")) or name.startswith("key_bias")
    stage = "v" if name.startswith("values") else "k" if keys else "q"
    return Fault(
        name=name, words=words, symptom=symptom, mend=_MEND, step=4, stage=stage, edits=edits,
        needs=("rotary", *needs), family=POSITIONS, **more,  # type: ignore[arg-type]  # ties, as they are given
    )  # fmt: skip


_ONE_SIDED = "Scores depend on absolute positions."
FAULTS: tuple[Fault, ...] = (
    _fault(
        "positions_left_out", "Neither queries nor keys are turned by their positions.",
        "The order of the tokens does not matter.", {"positions": _both(_left)},
    ),
    _fault("positions_in_queries_only", "Keys are not turned by their positions, queries are.", _ONE_SIDED,
           {"positions": _each(_right, _left)}),
    _fault("positions_in_keys_only", "Queries are not turned by their positions, keys are.", _ONE_SIDED,
           {"positions": _each(_left, _right)}),
    _fault("positions_backwards", "Queries and keys are turned the other way, with the sine negated.",
           "Distances have the wrong sign.", {"positions": _both(_back)}),
    _fault("positions_backwards_in_queries", "Queries are turned the other way, keys are not.",
           "Scores depend on the sum of two positions, not on their distance.", {"positions": _each(_back, _right)}),
    _fault("positions_backwards_in_keys", "Keys are turned the other way, queries are not.",
           "Scores depend on the sum of two positions, not on their distance.", {"positions": _each(_right, _back)}),
    _fault("positions_twice", "Queries and keys are turned twice.", "Distances count twice.",
           {"positions": _both(_twice)}),
    _fault("positions_twice_in_queries", "Queries are turned twice.", _ONE_SIDED,
           {"positions": _each(_twice, _right)}),
    _fault("positions_twice_in_keys", "Keys are turned twice, as when a cache holds keys that were turned.", _ONE_SIDED,
           {"positions": _each(_right, _twice)}),
    _fault("positions_cos_and_sin_exchanged", "Cosines and sines are exchanged.",
           "The same as turned backwards, where the tables are those of angles.", {"positions": _both(_exchanged)}),
    _fault(
        "positions_in_other_pairs",
        "Neighbouring features are turned together where the halves are meant, or the halves where neighbours are.",
        "Weights of another implementation give nonsense; those trained with it are right.",
        {"positions": _both(_other_pairs)},
    ),
    _fault(
        "positions_before_the_split", "Positions are turned in before the split: all heads are taken for one.",
        "Pairs are made of features of different heads.", {"positions": _both(_heads_as_one)},
    ),
    _fault("values_turned_too", "Values are turned by their positions, too.",
           "The output depends on where things stand.", {"heads": _values_too}, ties={"d_v": "d_k"}),
    _fault("key_bias_left_out_under_positions", "The key bias is not added; turned by positions, it matters.",
           "Scores lack what each query says of the distance alone.", {"before": _dropped}, "b_k"),
)  # fmt: skip
