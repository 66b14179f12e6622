"""Values of a graph as they are lifted, and the moves that all operations need: common axes, one expression.

Defines the kinds of value (`Position`, `Joined`, besides `Lifted`), `Crossing`, and `Lifter`, the state of one lift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from mha_sym.axes import Axis
from mha_sym.expr import Blocks, Expr, Rename, Select, Split
from mha_sym.importers import graph as g
from mha_sym.importers.lifting.lifted import Leaves, Lifted, Names, fit, in_order
from mha_sym.importers.sizes import total


@dataclass(frozen=True)
class Position:
    """Whole numbers that are a position in an axis plus a number made of sizes: what masks are made of."""

    dims: tuple[Leaves, ...]
    axis: Axis
    offset: sympy.Expr | int = 0


@dataclass(frozen=True)
class Joined:
    """Pieces end to end along one array axis, kept apart: the columns of heads that a loop has made, for instance."""

    dim: int
    pieces: tuple[Lifted, ...]


Value = Lifted | Position | Joined


@dataclass(frozen=True)
class Crossing:
    """A reshape in which axes cross: the leaves before and after, and where it stands."""

    before: Leaves
    after: Leaves
    place: g.Place
    node: int


@dataclass
class Lifter:
    """The state of a lift: what each value has become, where axes crossed, what had to be assumed."""

    graph: g.Graph
    inputs: Mapping[str, Any]
    names: Names
    unknown: str = "max"
    literal: bool = False
    made: dict[int, Value] = field(default_factory=dict)
    crossings: list[Crossing] = field(default_factory=list)
    assumed: dict[str, None] = field(default_factory=dict)
    opaque: list[str] = field(default_factory=list)
    number: int = 0

    def assume(self, words: str) -> None:
        """Record what the proof takes for granted."""
        self.assumed[words] = None

    def problem(self, what: str, **more: Any) -> g.ImportProblem:
        """A complaint about the node at hand."""
        return g.ImportProblem(what, where=str(self.graph.nodes[self.number].place), **more)

    def axes_of(self, shape: Sequence[sympy.Expr]) -> tuple[Leaves, ...]:
        """New leaves for a shape."""
        found: list[Leaves] = []
        for size in shape:
            taken = [a.name for dim in found for a in dim]
            found.append((self.names.fresh(size, taken),) if size != 1 else ())
        return tuple(found)

    def open(self, expr: Expr, axis: Axis) -> tuple[Expr, Leaves]:
        """An axis split into its plain axes and concatenations; what has one position is selected."""
        if axis.size == 1:
            return Select(expr, axis, 0), ()
        if axis in self.names.products:
            whole = self.names.products[axis]
            expr, axis = Rename(expr, axis, whole), whole
        if not axis.factors:
            return expr, (axis,)
        found: list[Axis] = []
        expr = Split(expr, axis)
        for one in axis.factors:
            expr, leaves = self.open(expr, one)
            found += leaves
        return expr, tuple(found)

    def widen(self, value: Value, rank: int) -> Value:
        """Leading axes of size 1 until there are as many axes as wanted."""
        if isinstance(value, Joined):
            more = rank - len(value.pieces[0].dims)
            pieces = tuple(replace(p, dims=((),) * more + p.dims) for p in value.pieces)
            return Joined(value.dim + more, pieces)
        return replace(value, dims=((),) * (rank - len(value.dims)) + value.dims)

    def fitted(self, value: Lifted | Position, dims: Sequence[Leaves]) -> Lifted | Position:
        """A value over these leaves."""
        if isinstance(value, Lifted):
            return fit(value, dims)
        place = next(n for n, dim in enumerate(value.dims) if value.axis in dim)
        if len(dims[place]) != 1:
            raise self.problem("positions are compared along an axis that is several")
        return Position(tuple(dims), dims[place][0], value.offset)

    def meet(self, shapes: Sequence[tuple[Leaves, ...]]) -> tuple[Leaves, ...]:
        """For each array axis the finest leaves that any value has, all under names of their own."""
        found: list[Leaves] = []
        for column in zip(*shapes, strict=True):
            best = max(column, key=len)
            found.append(self.apart(best, found))
        return tuple(found)

    def apart(self, leaves: Leaves, others: Sequence[Leaves]) -> Leaves:
        """The leaves, renamed where other axes have their names."""
        taken = {a.name for dim in others for a in dim}
        found: list[Axis] = []
        for one in leaves:
            clash = one.name in taken
            mine = [a.name for a in found]
            still = [a.name for a in leaves if a is not one]
            found.append(self.names.fresh(one.size, [*taken, *mine, *still]) if clash else one)
        return tuple(found)

    def plain(self, value: Value) -> Lifted:
        """A value as one expression."""
        if isinstance(value, Lifted):
            return value
        if isinstance(value, Joined):
            return self.blocks(value)
        raise self.problem("positions are used as numbers")

    def blocks(self, joined: Joined) -> Lifted:
        """Pieces as one expression with a concatenated axis."""
        dim, first = joined.dim, joined.pieces[0]
        if any(p.keep is not None for p in joined.pieces):
            raise self.problem("pieces with minus infinity are laid end to end")
        taken = [a.name for p in joined.pieces for a in p.leaves]
        parts: list[Axis] = []
        for number, piece in enumerate(joined.pieces):
            size = total(a.size for a in piece.dims[dim])
            parts.append(self.names.fresh(size, [*taken, *(p.name for p in parts), f"p{number}"]))
        exprs = []
        for part, piece in zip(parts, joined.pieces, strict=True):
            dims = [(part,) if n == dim else d for n, d in enumerate(first.dims)]
            order = tuple(a for d in dims for a in d)
            exprs.append(in_order(fit(piece, dims).expr, order))
        made = Blocks(tuple(exprs), tuple(parts))
        whole = next(a for a in made.axes if a.blocks == tuple(parts))
        return Lifted(tuple((whole,) if n == dim else d for n, d in enumerate(first.dims)), made)

    def finite(self, value: Value) -> Lifted:
        """A value without infinities."""
        made = self.plain(value)
        if made.keep is not None:
            what = "minus infinity goes into a sum of products"
            raise self.problem(what, hint="mask the scores, and apply softmax to them")
        return made


def size_of(value: Value, dim: int) -> sympy.Expr:
    """The number of positions of an array axis."""
    if isinstance(value, Joined) and dim == value.dim:
        return sympy.expand(sympy.Add(*(size_of(piece, dim) for piece in value.pieces)))
    dims = value.pieces[0].dims if isinstance(value, Joined) else value.dims
    return total(axis.size for axis in dims[dim])
