"""Sums as expressions: contraction, reduction, softmax; over pieces end to end they are sums over the pieces.

Defines `Sums`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from mha_sym.expr import Contract, Expr, Input, Reduce, Scalar, Softmax
from mha_sym.importers import graph as g
from mha_sym.importers.lifting.axes import AxisMoves
from mha_sym.importers.lifting.lifted import Leaves, Lifted, fit, in_order
from mha_sym.importers.lifting.scalars import ONE, plus, times
from mha_sym.importers.lifting.values import Joined, Value, size_of
from mha_sym.importers.sizes import total


class Sums(AxisMoves):
    """The part of a lift that adds up."""

    def contract(self, node: g.Node, *args: Value) -> Value:
        """A sum of products; over pieces that lie end to end it is the sum of the sums over the pieces."""
        assert isinstance(node.op, g.Contract)
        labels, out = node.op.labels, node.op.out
        for row, arg in zip(labels, args, strict=True):
            if isinstance(arg, Joined):
                label = row[arg.dim]
                pieces = self.pieces(node, arg, label, args)
                if label in out:
                    return Joined(out.index(label), tuple(self.plain(p) for p in pieces))
                return self.added([self.plain(p) for p in pieces])
        ready = [self.finite(a) for a in args]
        target: dict[int, Leaves] = {}
        for row, arg in zip(labels, ready, strict=True):
            for label, dim in zip(row, arg.dims, strict=True):
                if len(dim) > len(target.get(label, ())):
                    target[label] = dim
        done: list[Leaves] = []
        for label, leaves in target.items():
            target[label] = self.apart(leaves, done)
            done.append(target[label])
        fitted = [fit(a, [target.get(n, ()) for n in row]) for row, a in zip(labels, ready, strict=True)]
        return self.summed([a.expr for a in fitted], target, out)

    def summed(self, exprs: list[Expr], target: Mapping[int, Leaves], out: Sequence[int]) -> Lifted:
        """The sum over all labels that are not in the result."""
        have = {a for e in exprs for a in e.axes}
        kept = [a for n in out for a in target.get(n, ()) if a in have]
        lost = [a.size for n, dim in target.items() if n not in out for a in dim if a not in have]
        if lost:
            exprs = [*exprs, Scalar(total(lost))]
        return Lifted(tuple(target.get(n, ()) for n in out), Contract(tuple(exprs), tuple(kept)))

    def pieces(self, node: g.Node, joined: Joined, label: int, args: Sequence[Value]) -> list[Value]:
        """The contraction once for every piece, the other operands cut to fit it."""
        assert isinstance(node.op, g.Contract)
        found, start = [], sympy.Integer(0)
        for piece in joined.pieces:
            length = total(a.size for a in piece.dims[joined.dim])
            parts: list[Value] = []
            for row, arg in zip(node.op.labels, args, strict=True):
                if label in row and arg is not joined:
                    dim = row.index(label)
                    parts.append(self.sliced(arg, dim, start, length, size_of(arg, dim)))
                else:
                    parts.append(piece if arg is joined else arg)
            found.append(self.contract(node, *parts))
            start = sympy.expand(start + length)
        return found

    def added(self, pieces: Sequence[Lifted]) -> Lifted:
        """The sum of values of one shape."""
        dims = self.meet([p.dims for p in pieces])
        order = tuple(a for d in dims for a in d)
        return Lifted(dims, plus([self.finite(fit(p, dims)).expr for p in pieces], order))

    def reduce(self, node: g.Node, arg: Value) -> Value:
        """A sum or maximum over whole array axes."""
        assert isinstance(node.op, g.Reduce)
        op, axes = node.op.op, node.op.axes
        if isinstance(arg, Joined) and op == "sum" and arg.dim in axes:
            return self.added([self.plain(self.reduce(node, p)) for p in arg.pieces])
        if isinstance(arg, Joined) and arg.dim not in axes:
            pieces = [self.plain(self.reduce(node, p)) for p in arg.pieces]
            return Joined(arg.dim - sum(n < arg.dim for n in axes), tuple(pieces))
        value = self.plain(arg)
        if op == "max" and value.keep is not None:
            return self.some_number(value, axes)
        value = self.finite(value)
        rest = tuple(d for n, d in enumerate(value.dims) if n not in axes)
        over = tuple(a for n in axes for a in value.dims[n])
        here = tuple(a for a in over if a in value.expr.axes)
        expr = Reduce(op, value.expr, here) if here else value.expr
        lost = [a.size for a in over if a not in here]
        if lost and op == "sum":
            expr = times([expr, Scalar(total(lost))], expr.axes)
        return Lifted(rest, expr)

    def some_number(self, value: Lifted, axes: Sequence[int]) -> Lifted:
        """The maximum of what is not minus infinity, as numbers of which nothing is known."""
        rest = tuple(d for n, d in enumerate(value.dims) if n not in axes)
        name = f"{self.unknown}{len(self.opaque) + 1}"
        while name in self.inputs:
            name += "_"
        self.opaque.append(name)
        self.assume("a maximum over scores of which some are minus infinity is a number")
        return Lifted(rest, Input(name, tuple(a for d in rest for a in d)))

    def softmax(self, node: g.Node, arg: Value) -> Value:
        """Softmax; what is minus infinity is not kept."""
        assert isinstance(node.op, g.Softmax)
        if isinstance(arg, Joined) and arg.dim != node.op.axis:
            return Joined(arg.dim, tuple(self.plain(self.softmax(node, p)) for p in arg.pieces))
        value = self.plain(arg)
        over = value.dims[node.op.axis]
        if not over:
            return Lifted(value.dims, ONE)
        have = {*value.expr.axes, *(() if value.keep is None else value.keep.axes), *over}
        order = tuple(a for a in value.leaves if a in have)
        return Lifted(value.dims, Softmax(in_order(value.expr, order), over, value.keep))
