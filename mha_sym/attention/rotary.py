"""Rotary positions: pairs of features of queries and keys, turned by an angle that depends on the position.

Defines `Rotary` (which features are pairs, and how many of them are turned), `turned_dims` (the axis k as pairs of
features) and `turned`.  The cosines and sines are tables, any numbers: that they are those of an angle, and of which
angle, is not said here, and nothing that is proved needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import sympy

from mha_sym.attention.dims import Dims
from mha_sym.axes import Axis, axis, blocks, product, size_symbol
from mha_sym.errors import AxisProblem, Problem
from mha_sym.expr import Block, Blocks, Expr, Input, Join, Rename, Repeat, Select, Split, find_axis

#: which features are a pair: feature j and j + r/2 of the first r, or 2j and 2j + 1
Pairs = Literal["halves", "interleaved"]
#: what a table holds
Tables = Literal["feature", "twice", "pair"]
PAIRS: tuple[Pairs, ...] = ("halves", "interleaved")
TABLES: tuple[Tables, ...] = ("feature", "twice", "pair")

#: the sizes that an axis of pairs is made of: the number of pairs, and of features that are not turned
PAIR_COUNT, REST = "d_pairs", "d_rest"


@dataclass(frozen=True)
class Rotary:
    """The convention of rotary positions.

    Attributes:
        pairs: which features are a pair, ``halves`` or ``interleaved``.
        width: how many features of a head are turned, the first of them; None for all.
        tables: what the tables of cosines and sines hold for r turned features: a number for each ``feature``,
            ``(t, r)``; the same, the number of a pair ``twice``; or one for each ``pair``, ``(t, r/2)``.

    Raises:
        Problem: for pairs or tables of another kind, and for a width that is not even.

    Example:
        >>> print(Rotary("interleaved"))
        rotary positions, interleaved pairs (2j with 2j + 1)
        >>> print(Rotary("halves", width=4))
        rotary positions on the first 4 features of a head, halves (j with j + 2)
    """

    pairs: Pairs = "halves"
    width: int | None = None
    tables: Tables = "feature"

    def __post_init__(self) -> None:
        for said, known in ((self.pairs, PAIRS), (self.tables, TABLES)):
            if said not in known:
                raise Problem(f"rotary positions cannot be {said!r}", expected=" or ".join(known))
        if self.width is not None and (self.width < 2 or self.width % 2):
            raise Problem(f"{self.width} features are no pairs", where="rotary positions", expected="an even number")

    def __str__(self) -> str:
        some = "" if self.width is None else f" on the first {self.width} features of a head"
        half = "d_k/2" if self.width is None else str(self.width // 2)
        kind = f"halves (j with j + {half})" if self.pairs == "halves" else "interleaved pairs (2j with 2j + 1)"
        return f"rotary positions{some}, {kind}"

    def sizes(self, d_k: int) -> dict[str, int]:
        """The sizes of the axis of pairs for heads of ``d_k`` features.

        Raises:
            Problem: if there are fewer features, or they are no pairs.

        Example:
            >>> Rotary(width=4).sizes(6)
            {'d_pairs': 2, 'd_rest': 2}
        """
        width = d_k if self.width is None else self.width
        if width % 2 or width > d_k or (self.width is not None and width == d_k):
            raise Problem(
                f"{width} of {d_k} features cannot be turned", where="rotary positions",
                expected="an even number, of more features than are turned if not all are",
            )  # fmt: skip
        return {PAIR_COUNT: width // 2} if self.width is None else {PAIR_COUNT: width // 2, REST: d_k - width}

    @property
    def features(self) -> sympy.Expr:
        """``d_k`` as a number of pairs, and of features that are left.

        Example:
            >>> Rotary().features
            2*d_pairs
        """
        rest = sympy.Integer(0) if self.width is None else size_symbol(REST)
        return 2 * size_symbol(PAIR_COUNT) + rest

    def resolved(self, sizes: Mapping[str, sympy.Expr | int]) -> dict[str, sympy.Expr | int]:
        """Sizes in which ``d_k`` is a number of pairs, and the number of pairs what is known of it.

        Example:
            >>> Rotary().resolved({"d_model": size_symbol("h") * size_symbol("d_k")})
            {'d_model': 2*d_pairs*h, 'd_k': 2*d_pairs}
        """
        known: dict[str, sympy.Expr | int] = dict(sizes)
        if self.width is not None:
            known[PAIR_COUNT] = self.width // 2
        if "d_k" in known:
            known |= self.sizes(int(known["d_k"]))
        pairs = {size_symbol(name): sympy.sympify(known[name]) for name in (PAIR_COUNT, REST) if name in known}
        d_k = self.features.subs(pairs)
        return {name: sympy.sympify(size).subs(size_symbol("d_k"), d_k) for name, size in {**known, "d_k": d_k}.items()}


@dataclass(frozen=True)
class Angles:
    """The tables ``cos`` and ``sin`` over the axes t, of positions, and those of the pairs; they may have an axis b."""

    cos: Expr
    sin: Expr


#: the axis of the two features of a pair, as one laid behind the other: so does code that puts them together
_ONE_OF_TWO = replace(blocks(axis("c0", 1), axis("c1", 1)), name="c")


def turned_dims(d: Dims, rotary: Rotary) -> Dims:
    """The same axes, k made of pairs: ``(c f)`` for halves and ``(f c)`` for interleaved pairs, c one of two.

    Axes v of the same size are made alike, for parameters that hold keys and values under one letter.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> turned_dims(dims(), Rotary()).k.factors
        (c: 2, f: d_pairs)
        >>> turned_dims(dims(), Rotary("interleaved", width=4)).k.blocks
        (turned: 2*d_pairs, rest: d_rest)
    """
    made = _feature_axis("k", rotary)
    return replace(d, k=made, v=replace(made, name="v") if d.v.size == d.k.size else d.v)


def _feature_axis(name: str, rotary: Rotary) -> Axis:
    if rotary.width is None:
        return pairs_axis(name, rotary, size_symbol(PAIR_COUNT))
    pairs, rest = pairs_axis("turned", rotary, size_symbol(PAIR_COUNT)), axis("rest", size_symbol(REST))
    return Axis(name, pairs.size + rest.size, blocks=(pairs, rest))


def pairs_axis(name: str, rotary: Rotary, count: sympy.Expr) -> Axis:
    """An axis made of so many pairs of features."""
    pair = axis("f", sympy.expand(count))
    return replace(product(*((_ONE_OF_TWO, pair) if rotary.pairs == "halves" else (pair, _ONE_OF_TWO))), name=name)


def find_pairs(pairs: Axis) -> Pairs:
    """Which features are a pair, of an axis made of pairs.

    Raises:
        AxisProblem: if it is not.
    """
    if _ONE_OF_TWO not in pairs.factors:
        raise AxisProblem("the axis is not made of pairs", where="rotary positions", got=repr(pairs))
    return "halves" if pairs.factors[0] == _ONE_OF_TWO else "interleaved"


def with_other_pairs(pairs: Axis) -> Axis:
    """The same features, of which others are pairs: halves for neighbours, or neighbours for halves.

    Example:
        >>> find_pairs(with_other_pairs(pairs_axis("k", Rotary("halves"), sympy.Integer(3))))
        'interleaved'
    """
    return pairs_axis(pairs.name, Rotary("interleaved" if find_pairs(pairs) == "halves" else "halves"), pairs.size / 2)


def tables(d: Dims, rotary: Rotary, batch: bool = False) -> dict[str, Input]:
    """The tables as inputs ``cos`` and ``sin`` over ``(t, k)``, or ``(t, f)`` with one number for each pair.

    Every sample has positions of its own if ``batch`` says so.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> tables(turned_dims(dims(), Rotary()), Rotary(tables="pair"))["cos"].axes
        (t: T, f: d_pairs)
    """
    pairs = turned_axis(d)
    over = pairs if rotary.tables == "feature" else find_pair(pairs)
    return {name: Input(name, (*([d.b] if batch else []), d.t, over)) for name in ("cos", "sin")}


def handed_over(table: Expr, d: Dims, rotary: Rotary) -> Expr:
    """A table of `tables` as code is given it: with the number of a pair for each of its features if it is so.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> d, rotary = turned_dims(dims(), Rotary()), Rotary(tables="twice")
        >>> handed_over(tables(d, rotary)["cos"], d, rotary).axes
        (t: T, k: 2*d_pairs)
    """
    if rotary.tables != "twice":
        return table
    pairs = turned_axis(d)
    twice = Join(Repeat(table, (*table.axes[:-1], *pairs.factors)), pairs.factors)
    return Rename(twice, twice.axes[-1], pairs)


def turned_axis(d: Dims) -> Axis:
    """The features of a head that are turned: all, or the first ones.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> turned_axis(turned_dims(dims(), Rotary(width=4))).size
        2*d_pairs
    """
    return d.k.blocks[0] if d.k.blocks else d.k


def find_pair(pairs: Axis) -> Axis:
    """The axis f, of the pairs, in the axis of their features."""
    return next(a for a in pairs.factors if a != _ONE_OF_TWO)


def turned(x: Expr, token: Axis, angles: Angles) -> Expr:
    """Queries or keys ``(..., token, k)`` turned by the angles of their positions.

    ``q'[t, 0, f] = q[t, 0, f] cos[t, 0, f] - q[t, 1, f] sin[t, 0, f]`` and
    ``q'[t, 1, f] = q[t, 1, f] cos[t, 1, f] + q[t, 0, f] sin[t, 1, f]``; features that are not turned stay.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> d = turned_dims(dims(), Rotary())
        >>> turned(Input("Q", (d.b, d.h, d.t, d.k)), d.t, Angles(**tables(d, Rotary()))).axes
        (b: B, h: h, t: T, k: 2*d_pairs)
    """
    return on_turned(x, lambda part: _turned_pairs(part, part.axes[-1], token, angles))


def on_turned(x: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The features of a head that are turned changed in some way, the others left.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> d = turned_dims(dims(), Rotary(width=4))
        >>> on_turned(Input("Q", (d.b, d.h, d.t, d.k)), lambda part: part * 2).axes
        (b: B, h: h, t: T, k: 2*d_pairs + d_rest)
    """
    feature = x.axes[-1]
    if not feature.blocks:
        return change(x)
    first, rest = (Block(x, feature, n) for n in (0, 1))
    whole = Blocks((change(first), rest), feature.blocks)
    return Rename(whole, whole.axes[-1], feature)


def _turned_pairs(x: Expr, pairs: Axis, token: Axis, angles: Angles) -> Expr:
    """All pairs turned: the first features of the pairs and the second are computed apart."""
    parts = []
    for n in (0, 1):
        mine, other = feature_of_pair(x, n), feature_of_pair(x, 1 - n)
        cos, sin = (_of_position(feature_of_pair(table, n), token) for table in (angles.cos, angles.sin))
        parts.append(mine * cos + (other * sin if n else -(other * sin)))
    return pairs_of(parts[0], parts[1], pairs)


def feature_of_pair(x: Expr, n: int) -> Expr:
    """The first feature of each pair, or the second; a table that has one number for each pair as it is.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> d = turned_dims(dims(), Rotary())
        >>> feature_of_pair(Input("Q", (d.b, d.h, d.t, d.k)), 1).axes
        (b: B, h: h, t: T, f: d_pairs)
    """
    whole = x.axes[-1]
    each = Split(x, whole) if whole.factors else x
    if _ONE_OF_TWO not in each.axes:
        return each
    return Select(Block(each, _ONE_OF_TWO, n), _ONE_OF_TWO.blocks[n], 0)


def pairs_of(first: Expr, second: Expr, pairs: Axis) -> Expr:
    """Features that were taken apart by `feature_of_pair`, as pairs again.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> d = turned_dims(dims(), Rotary())
        >>> q = Input("Q", (d.b, d.h, d.t, d.k))
        >>> pairs_of(feature_of_pair(q, 0), feature_of_pair(q, 1), d.k).axes == q.axes
        True
    """
    lead = first.axes[:-1]
    parts = []
    for part, member in zip((first, second), _ONE_OF_TWO.blocks, strict=True):
        parts.append(Repeat(part, (*lead, *(member if a == _ONE_OF_TWO else a for a in pairs.factors))))
    laid = Blocks(tuple(parts), _ONE_OF_TWO.blocks)
    both = Rename(laid, next(a for a in laid.axes if a.blocks), _ONE_OF_TWO)
    return Rename(Join(both, pairs.factors), product(*pairs.factors), pairs)


def _of_position(table: Expr, token: Axis) -> Expr:
    """A table over the positions t, over those of queries or keys."""
    have = find_axis(table, "t", "rotary positions")
    return table if have == token else Rename(table, have, token)
