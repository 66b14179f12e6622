"""Faults of rotary positions: what is turned, which way, how often, and in which pairs.

They are looked for where there are rotary positions, and are no part of the list of faults of all attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mha_sym.attention.rotary import (
    Angles,
    Rotary,
    feature_of_pair,
    find_pairs,
    on_turned,
    pairs_axis,
    pairs_of,
    turned,
    turned_axis,
    with_other_pairs,
)
from mha_sym.audit.catalogue.rotary_stored import converted, of_a_head, of_all_heads, of_the_model
from mha_sym.audit.catalogue.rotary_tables import (
    all_more,
    for_half_of_the_features,
    laid_for_other_pairs,
    one_more,
    one_more_after_the_first,
)
from mha_sym.audit.faults import POSITIONS, Fault
from mha_sym.audit.recipe import Edits, Site, Slot, there
from mha_sym.axes import Axis, axis, product
from mha_sym.errors import AxisProblem
from mha_sym.expr import Block, Blocks, Expr, Join, Rename, Repeat, Reshape, Split, Transpose
from mha_sym.pattern import rearrange

_MEND = "q, k = q * cos + rotated(q) * sin, k * cos + rotated(k) * sin, after the split into heads, once"

_CONVERT = "rearrange(w_q, '(h pair two) m -> (h two pair) m', h=h, two=2), and w_k the same with h=kv_heads"

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


# ---------------------------------------------------------------- positions and pairs of another kind


def _by(read: Callable[[Angles], Angles]) -> Turn:
    """Turned by tables that are read in some way."""
    return lambda at, x, token: turned(x, token, read(_angles(at)))


def _by_tables_of_other_pairs(at: Site, x: Expr, token: Axis) -> Expr:
    return turned(x, token, laid_for_other_pairs(_angles(at), turned_axis(at.d)))


def _other_pairs(at: Site, x: Expr, token: Axis) -> Expr:
    """Halves for neighbours, or the other way round, with the tables as they are."""
    return on_turned(x, lambda part: _regrouped(at, part, part.axes[-1], token))


def _regrouped(at: Site, x: Expr, pairs: Axis, token: Axis) -> Expr:
    other = with_other_pairs(pairs)
    angles = _angles(at)
    seen = Angles(*(_read_as(table, pairs, other) for table in (angles.cos, angles.sin)))
    made = turned(Reshape(x, (*x.axes[:-1], other)), token, seen)
    return Reshape(made, (*x.axes[:-1], pairs))


def _other_pairs_by_laid_tables(at: Site, x: Expr, token: Axis) -> Expr:
    """Neighbours turned by tables that are laid for halves, twice over, or halves by tables laid for neighbours."""

    def turn(part: Expr) -> Expr:
        pairs = part.axes[-1]
        other = with_other_pairs(pairs)
        made = turned(Reshape(part, (*part.axes[:-1], other)), token, laid_for_other_pairs(_angles(at), other))
        return Reshape(made, part.axes)

    return on_turned(x, turn)


def _read_as(table: Expr, pairs: Axis, other: Axis) -> Expr:
    """A table that has a number for each feature, its features read in other pairs."""
    whole = table.axes[-1]
    return Reshape(table, (*table.axes[:-1], replace(other, name=whole.name))) if whole.factors else table


def _left_in_another_order(at: Site, x: Expr, token: Axis) -> Expr:
    """Turned as it should be, then neighbours laid as halves, or halves as neighbours."""
    return on_turned(_right(at, x, token), _laid_otherwise)


def _laid_otherwise(x: Expr) -> Expr:
    pairs, lead = x.axes[-1], x.axes[:-1]
    return Reshape(Transpose(Split(x, pairs), (*lead, *reversed(pairs.factors))), (*lead, pairs))


def _crossed(at: Site, q: Expr, k: Expr) -> tuple[Expr, Expr]:
    """The second features of the queries are those of the keys, and the first ones of the keys those of the queries."""
    q, k = _right(at, q, at.d.t), _right(at, k, at.d.s)
    if at.d.k.blocks:
        raise AxisProblem("where some features are left, nobody crosses the others")
    both = pairs_of(feature_of_pair(q, 0), Rename(feature_of_pair(k, 1), at.d.s, at.d.t), at.d.k)
    return both, Rename(both, at.d.t, at.d.s)


# ---------------------------------------------------------------- how many features, and which


def _last_features(at: Site, x: Expr, token: Axis) -> Expr:
    """The last features of a head are turned where the first ones are meant."""
    pairs, rest = there(at.d.k.blocks or None, "feature that is not turned")
    turned_last = Axis("k", at.d.k.size, blocks=(rest, pairs))
    whole = Rename(x, at.d.k, turned_last)
    made = Blocks((Block(whole, turned_last, 0), _right(at, Block(whole, turned_last, 1), token)), (rest, pairs))
    return Rename(made, made.axes[-1], at.d.k)


def _half_of_the_features(at: Site, x: Expr, token: Axis) -> Expr:
    """Half as many features are turned, by the first columns of the tables."""

    def change(part: Expr) -> Expr:
        angles, fewer = for_half_of_the_features(_angles(at), part.axes[-1])
        halves = Axis("halves", part.axes[-1].size, blocks=(fewer, axis("left", fewer.size)))
        whole = Rename(part, part.axes[-1], halves)
        made = Blocks((turned(Block(whole, halves, 0), token, angles), Block(whole, halves, 1)), halves.blocks)
        return Rename(made, made.axes[-1], part.axes[-1])

    return on_turned(x, change)


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
    keys = name.endswith(("_in_keys", "_in_queries_only")) or name.startswith("key") or "_keys_in_" in name
    stage = "v" if name.startswith("values") else "k" if keys else "q"
    mend = str(more.pop("mend", _MEND))
    return Fault(
        name=name, words=words, symptom=symptom, mend=mend, step=4, stage=stage, edits=edits,
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
    # ------------------------------------------------ positions counted wrong
    _fault("positions_one_ahead_in_queries", "Queries stand one position later than the keys of the same tokens.",
           "Every distance is one too much.", {"positions": _each(_by(one_more), _right)}),
    _fault("positions_one_ahead_in_keys", "Keys stand one position later than the queries of the same tokens.",
           "Every distance is one too little.", {"positions": _each(_right, _by(one_more))}),
    _fault(
        "positions_all_ahead_in_queries",
        "Queries stand later than keys by the number of tokens: an offset was raised in between.",
        "Every distance is too much by the number of tokens.", {"positions": _each(_by(all_more), _right)},
    ),
    _fault("positions_all_ahead_in_keys", "Keys stand later than queries by the number of tokens.",
           "Every distance is too little by the number of tokens.", {"positions": _each(_right, _by(all_more))}),
    _fault(
        "positions_one_later_after_the_first",
        "All tokens but the first stand one position later: a counter of tokens was raised before it was read.",
        "Right for the first tokens that come together, wrong for each that follows.",
        {"positions": _both(_by(one_more_after_the_first))},
    ),
    # ------------------------------------------------ pairs and features that are others
    _fault(
        "positions_tables_of_other_pairs",
        "The tables hold the number of each pair as if other features were pairs: one after the other, or twice over.",
        "Two features of a pair are turned by different angles.", {"positions": _both(_by_tables_of_other_pairs)},
    ),
    _fault(
        "positions_in_other_pairs_than_their_tables",
        "Neighbouring features are turned together by tables laid for halves, or halves by tables laid for neighbours.",
        "Two features of a pair are turned by different angles.", {"positions": _both(_other_pairs_by_laid_tables)},
        mend="cos = repeat(cos, 't p -> t (p two)', two=2) for neighbours, '(two p)' for halves",
    ),
    _fault(
        "positions_leave_queries_in_another_order",
        "Queries that were turned are put together in another order: first features, then second ones, or by turns.",
        "Wrong where nothing is turned, too.", {"positions": _each(_left_in_another_order, _right)},
    ),
    _fault("positions_leave_keys_in_another_order",
           "Keys that were turned are put together in another order: first features, then second ones, or by turns.",
           "Wrong where nothing is turned, too.", {"positions": _each(_right, _left_in_another_order)}),
    _fault(
        "positions_of_queries_and_keys_crossed",
        "The second features of queries are computed from keys, and the first ones of keys from queries.",
        "Queries change with the key projection.", {"positions": _crossed},
    ),
    _fault("positions_on_the_last_features", "The last features of a head are turned where the first ones are meant.",
           "Weights of another implementation give nonsense.", {"positions": _both(_last_features)}),
    _fault("positions_on_half_of_the_features", "Half as many features are turned, by the first columns of the tables.",
           "Weights of another implementation give nonsense.", {"positions": _both(_half_of_the_features)},
           at_sizes=True),
    # ------------------------------------------------ weights converted for the other pairs
    _fault(
        "keys_converted_for_as_many_heads_as_queries",
        "The rows of W_K are permuted for the other pairs in as many pieces as there are query heads, not groups.",
        "Only the keys are wrong.", converted(of_a_head, of_all_heads), "groups", at_sizes=True, mend=_CONVERT,
    ),
    _fault(
        "stored_rows_converted_by_d_model_over_h",
        "The rows of W_Q and W_K are permuted for the other pairs in pieces of d_model / h, not of d_k.",
        "Right where d_model = h d_k.", converted(of_the_model, of_the_model), at_sizes=True, mend=_CONVERT,
    ),
    _fault(
        "stored_rows_converted_over_the_whole_head",
        "All rows of a head are permuted for the other pairs, where only the first of them are turned.",
        "Features that are turned and others change places.", converted(of_a_head, of_a_head), at_sizes=True,
        mend=_CONVERT,
    ),
)  # fmt: skip
