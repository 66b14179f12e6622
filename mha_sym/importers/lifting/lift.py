"""From a graph to an expression with named axes: which axes every array axis is made of, operation by operation.

Defines `lift`.  Input axes get the axes that the caller names; all others follow.  What the language cannot say is
refused with its place in the user's source.  Nothing here is trusted to be right: what comes out is compared with the
user's code in numbers, and proved about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy

from mha_sym.errors import AxisProblem
from mha_sym.expr import Expr, Scalar
from mha_sym.importers import graph as g
from mha_sym.importers.closed import needed
from mha_sym.importers.lifting.lifted import Leaves, Lifted, Names
from mha_sym.importers.lifting.scalars import COMPARED, TURNED, ZERO, against, comparison, scalar_map
from mha_sym.importers.lifting.sums import Sums
from mha_sym.importers.lifting.values import Crossing, Joined, Position, Value
from mha_sym.importers.sizes import same, total


@dataclass(frozen=True)
class Masked:
    """An input whose entries are numbers or minus infinity: ``value`` where ``keep`` is 1, minus infinity elsewhere."""

    value: Expr
    keep: Expr


@dataclass(frozen=True)
class Lift:
    """The outputs as values over named axes, and where axes crossed on the way there.

    Attributes:
        outputs: by name.
        crossings: reshapes that no splitting and joining of axes can be.
        values: every value of the graph that is an expression, by its number.
        assumed: what was taken for granted, one sentence each.
        opaque: inputs that stand for row maxima, of which nothing is known: what is proved holds for any values of
            theirs, but what is refuted may not be.
    """

    outputs: dict[str, Lifted]
    crossings: tuple[Crossing, ...]
    values: dict[int, Lifted]
    assumed: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()


def lift(
    graph: g.Graph, inputs: Mapping[str, Expr | Masked], names: Names | None = None, unknown: str = "max",
    literal: bool = False,
) -> Lift:  # fmt: skip
    """The outputs of a graph as expressions.

    Args:
        graph: a folded graph: no attention, no constants that are masks.
        inputs: an expression for each input, with one axis for each array axis: a product axis where it is made of
            several, a concatenated axis where it has blocks.
        names: letters for new axes by size.
        unknown: what inputs that stand for maxima are called, with a number.
        literal: whether a fill such as -1e9 is the number that it is, and not minus infinity.

    Raises:
        ImportProblem: for what the language has no expression for.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> from mha_sym.importers.builder import Builder
        >>> t, m = axis("t", "T"), axis("m")
        >>> b = Builder()
        >>> x = b.input("x", (t.size, m.size))
        >>> made = lift(b.graph(y=b.matmul(x, b.swap(x, 0, 1))), {"x": Input("x", (t, m))})
        >>> made.outputs["y"].expr.axes
        (t: T, t2: T)
    """
    work = _Lifter(graph, inputs, names or Names(), unknown, literal)
    for one in inputs.values():
        value = one.value if isinstance(one, Masked) else one
        work.names.learn(leaf for a in value.axes for leaf in a.primitive() if leaf.size != 1)
    for number in needed(graph):
        work.node(number)
    outputs = {name: work.plain(work.made[ref]) for name, ref in graph.outputs.items()}
    values = {n: v for n, v in work.made.items() if isinstance(v, Lifted)}
    return Lift(outputs, tuple(work.crossings), values, tuple(work.assumed), tuple(work.opaque))


class _Lifter(Sums):
    """All operations."""

    def node(self, number: int) -> None:
        """Lift one value."""
        node = self.graph.nodes[number]
        self.number = number
        args = [] if isinstance(node.op, g.Given) else [self.made[n] for n in node.args]
        try:
            self.made[number] = _HANDLERS[type(node.op)](self, node, *args)
        except AxisProblem as problem:
            raise g.ImportProblem(f"this is no expression: {problem.what}", where=str(node.place)) from problem

    def input(self, node: g.Node) -> Value:
        """An input under the axes that were named for it; axes of size 1 are gone."""
        assert isinstance(node.op, g.Input)
        given = self.inputs[node.op.name]
        if isinstance(given, Masked):
            value = self.opened(node, given.value)
            return replace(value, keep=self.opened(node, given.keep).expr)
        return self.opened(node, given)

    def opened(self, node: g.Node, expr: Expr) -> Lifted:
        """An expression for an input, all its axes opened."""
        assert isinstance(node.op, g.Input | g.Given)
        dims: list[Leaves] = []
        for one, size in zip(expr.axes, node.shape, strict=True):
            if not same(one.size, size):
                raise self.problem(f"axis {one.name} of {node.op.name} has size {size}", expected=str(one.size))
            expr, leaves = self.open(expr, one)
            dims.append(leaves)
        return Lifted(tuple(dims), expr)

    def given(self, node: g.Node, *args: Value) -> Value:
        """What its argument holds may be any array."""
        assert isinstance(node.op, g.Given)
        expr = self.inputs[node.op.name]
        assert not isinstance(expr, Masked)
        return self.opened(node, expr)

    def constant(self, node: g.Node) -> Value:
        """A number, or an array whose entries are all the same number."""
        assert isinstance(node.op, g.Constant)
        values = node.op.value
        if values.size and (values == values.flat[0]).all():
            return self.scalar(float(values.flat[0]), self.axes_of(node.shape))
        what = f"a constant array of shape {values.shape} was not recognised"
        raise self.problem(what, hint="hand it over as a parameter")

    def scalar(self, value: float, dims: tuple[Leaves, ...] = ()) -> Lifted:
        """A float as the rational that it is; minus infinity as what keeps nothing."""
        if value == -float("inf"):
            return Lifted(dims, ZERO, ZERO)
        if value != value or value == float("inf"):
            raise self.problem(f"{value} is no real number")
        return Lifted(dims, Scalar(sympy.Rational(value)))

    def size(self, node: g.Node) -> Value:
        """A number made of sizes."""
        assert isinstance(node.op, g.SizeValue)
        value = node.op.value
        return self.scalar(float(value)) if value.has(sympy.Float) or value.is_infinite else Lifted((), Scalar(value))

    def iota(self, node: g.Node) -> Value:
        """Positions of an axis."""
        dims = self.axes_of(node.shape)
        return Position(dims, dims[0][0]) if dims[0] else Lifted(((),), ZERO)

    def map(self, node: g.Node, *args: Value) -> Value:
        """A scalar function; pieces that lie end to end are mapped one by one."""
        assert isinstance(node.op, g.Map)
        rank = len(node.shape)
        wide = [self.widen(a, rank) for a in args]
        joined = next((a for a in wide if isinstance(a, Joined)), None)
        if joined is None:
            return self.mapped(node.op.f, [a for a in wide if not isinstance(a, Joined)])
        pieces, start = [], sympy.Integer(0)
        for piece in joined.pieces:
            length = total(a.size for a in piece.dims[joined.dim])
            parts = [self.cut(a, joined.dim, start, length, node.shape[joined.dim]) for a in wide]
            pieces.append(self.plain(self.mapped(node.op.f, parts)))
            start = sympy.expand(start + length)
        return Joined(joined.dim, tuple(pieces))

    def mapped(self, f: str, args: Sequence[Lifted | Position]) -> Value:
        """A scalar function of values of one rank, brought to the same leaves."""
        dims = self.meet([a.dims for a in args])
        ready = [self.fitted(a, dims) for a in args]
        if any(isinstance(a, Position) for a in ready):
            return self.positions(f, ready, dims)
        plain = [a for a in ready if isinstance(a, Lifted)]
        made = scalar_map(f, plain, dims, None if self.literal else self.assume)
        if made is None:
            rounds = f == "trunc"
            what = "a cast from float to integer rounds" if rounds else f"{f} of these is not in the language"
            raise self.problem(what, expected="positions in a table, made of no entries" if rounds else "")
        return made

    def positions(self, f: str, args: Sequence[Lifted | Position], dims: tuple[Leaves, ...]) -> Value:
        """Comparisons of positions with each other and with numbers, and a number added to them."""
        one, other = (*args, None)[:2]
        number = next((_whole(a) for a in args if isinstance(a, Lifted)), None)
        if f == "float" and isinstance(one, Position):
            return one
        if f in COMPARED and isinstance(one, Position) and isinstance(other, Position):
            return Lifted(dims, comparison(f, one.axis, other.axis, other.offset - one.offset))
        if f in ("add", "sub"):
            if number is not None and isinstance(one, Position):
                return replace(one, offset=sympy.expand(one.offset + (number if f == "add" else -number)))
            if number is not None and f == "add" and isinstance(other, Position):
                return replace(other, offset=sympy.expand(other.offset + number))
        if f in COMPARED and number is not None and isinstance(one, Position):
            return Lifted(dims, against(f, one.axis, number - one.offset))
        if f in COMPARED and number is not None and isinstance(other, Position):
            return Lifted(dims, against(TURNED.get(f, f), other.axis, number - other.offset))
        raise self.problem(f"{f} of positions is not in the language", expected="positions compared with one another")

    def take(self, node: g.Node, *args: Value) -> Value:
        """What is looked up by positions was replaced before."""
        raise self.problem(
            "a table is looked up by the entries of an array", expected="a formula of positions, and a table of numbers"
        )

    def attention(self, node: g.Node, *args: Value) -> Value:
        """Expanded before."""
        raise self.problem("scaled dot-product attention was not expanded")


def _whole(value: Lifted) -> sympy.Expr | None:
    """A whole number made of sizes."""
    number = sympy.expand(value.expr.value) if isinstance(value.expr, Scalar) else None
    if number is None or not number.is_polynomial():
        return None
    return number if all(c.is_Integer for c in number.as_coefficients_dict().values()) else None


_HANDLERS: dict[type[Any], Any] = {
    g.Input: _Lifter.input, g.Constant: _Lifter.constant, g.SizeValue: _Lifter.size, g.Iota: _Lifter.iota,
    g.Map: _Lifter.map, g.Contract: _Lifter.contract, g.Reduce: _Lifter.reduce, g.Reshape: _Lifter.reshape,
    g.Permute: _Lifter.permute, g.Broadcast: _Lifter.broadcast, g.Slice: _Lifter.slice, g.Concat: _Lifter.concat,
    g.Gather: _Lifter.gather, g.Take: _Lifter.take, g.Given: _Lifter.given, g.Softmax: _Lifter.softmax,
    g.Attention: _Lifter.attention,
}  # fmt: skip
