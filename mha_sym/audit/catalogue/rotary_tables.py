"""Tables of rotary positions that are read or laid in a wrong way, as expressions of the right ones.

Defines the tables of positions that are counted wrong (`one_more`, `all_more`, `one_more_after_the_first`) and of pairs
that are laid wrong (`laid_for_other_pairs`, `for_half_of_the_features`).  Row n of a table is that of n steps behind
row 0, which may have any position.
"""

from __future__ import annotations

from mha_sym.attention.rotary import Angles, Rotary, feature_of_pair, find_pairs, pairs_axis
from mha_sym.axes import Axis, axis, blocks
from mha_sym.errors import AxisProblem
from mha_sym.expr import Block, Compare, Expr, Join, Rename, Repeat, Select, as_expr, find_axis
from mha_sym.pattern import einsum

# ---------------------------------------------------------------- positions that are counted wrong


def one_more(angles: Angles) -> Angles:
    """Every token one position later: the step from row 0 to row 1 is added."""
    return _added(angles, _step(angles))


def all_more(angles: Angles) -> Angles:
    """Every token as many positions later as there are tokens."""
    way = Angles(_last_row(angles.cos), _last_row(angles.sin))
    return _added(_added(angles, _added(way, _negated(_row(angles, 0)))), _step(angles))


def one_more_after_the_first(angles: Angles) -> Angles:
    """Every token one position later but the first."""
    later = one_more(angles)
    first = _only(find_axis(angles.cos, "t", "rotary positions"), 0)
    rest = as_expr(1) - first
    return Angles(
        *(one * first + other * rest for one, other in ((angles.cos, later.cos), (angles.sin, later.sin)))
    )  # fmt: skip


def _added(one: Angles, other: Angles) -> Angles:
    """The sum of two angles."""
    return Angles(
        one.cos * other.cos - one.sin * other.sin, one.sin * other.cos + one.cos * other.sin
    )  # fmt: skip


def _negated(angles: Angles) -> Angles:
    return Angles(angles.cos, -angles.sin)


def _row(angles: Angles, n: int) -> Angles:
    token = find_axis(angles.cos, "t", "rotary positions")
    return Angles(Select(angles.cos, token, n), Select(angles.sin, token, n))


def _step(angles: Angles) -> Angles:
    return _added(_row(angles, 1), _negated(_row(angles, 0)))


def _last_row(table: Expr) -> Expr:
    token = find_axis(table, "t", "rotary positions")
    wide = blocks(token, axis("end", 1))
    last = Block(Compare("eq", token, wide, -1), wide, 1)  # the place behind all tokens, and one before it
    rest = " ".join(one.name for one in table.axes if one != token)
    names = " ".join(one.name for one in table.axes)
    return einsum(f"{names}, t -> {rest}", table, Select(last, wide.blocks[1], 0))


def _only(token: Axis, n: int) -> Expr:
    """One at a position of a token, and zero at the others."""
    place = axis("place", 1)
    return Select(Compare("eq", token, place, n), place, 0)


# ---------------------------------------------------------------- pairs that are laid wrong


def laid_for_other_pairs(angles: Angles, pairs: Axis) -> Angles:
    """Tables that have the numbers of pairs where they would be if other features were pairs."""
    return Angles(*(_laid(table, pairs) for table in (angles.cos, angles.sin)))


def _laid(table: Expr, pairs: Axis) -> Expr:
    each = feature_of_pair(table, 0)
    factors = pairs.factors[::-1]
    wide = Join(Repeat(each, (*each.axes[:-1], *factors)), factors)
    return Rename(wide, wide.axes[-1], pairs)


def for_half_of_the_features(angles: Angles, pairs: Axis) -> tuple[Angles, Axis]:
    """The first half of the columns, for half as many features, and the axis of these.

    Raises:
        AxisProblem: if half the features are no pairs.
    """
    half = pairs.size / 2
    if not half.is_Integer or half % 2:
        raise AxisProblem("half the features are no pairs")
    fewer = pairs_axis("turned", Rotary(find_pairs(pairs)), half / 2)
    return Angles(*(_first_columns(table, fewer) for table in (angles.cos, angles.sin))), fewer


def _first_columns(table: Expr, fewer: Axis) -> Expr:
    whole = table.axes[-1]
    halves = blocks(axis("first", whole.size / 2), axis("second", whole.size / 2))
    first = Block(Rename(table, whole, halves), halves, 0)
    return Rename(first, halves.blocks[0], fewer if whole.factors else axis("f", fewer.size / 2))
