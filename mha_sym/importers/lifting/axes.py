"""Operations on array axes as moves of named axes: reshape, transpose, broadcast, slice, concatenation.

Defines `AxisMoves`.  What the sizes tell to be a split or a join of whole axes is bookkeeping; a slice is a position of
an axis, or a block of one that is known to be made of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy

from mha_sym.axes import Axis
from mha_sym.expr import Block, Expr, Select
from mha_sym.importers import graph as g
from mha_sym.importers.lifting.lifted import Leaves, Lifted, recut, regroup
from mha_sym.importers.lifting.scalars import ZERO
from mha_sym.importers.lifting.values import Crossing, Joined, Lifter, Position, Value, size_of
from mha_sym.importers.sizes import nonnegative, quotient, same, total


class AxisMoves(Lifter):
    """The part of a lift that moves axes."""

    def reshape(self, node: g.Node, arg: Value) -> Value:
        """A reshape; where it crosses axes that is remembered with its place."""
        if isinstance(arg, Joined):
            pieces = self.reshaped_pieces(arg, node.shape)
            if pieces is not None:
                return pieces
            arg = self.blocks(arg)
        if isinstance(arg, Position):
            return self.moved_position(arg, node.shape)
        made = regroup(arg, node.shape, self.names)
        pieces = self.opened_blocks(arg, node.shape) if made.crossed else None
        if pieces is not None:
            return pieces
        for before, after in (pair for pair in made.crossed if len(pair[0]) > 1):
            self.crossings.append(Crossing(before, after, node.place, self.number))
        return made.value

    def opened_blocks(self, arg: Lifted, shape: Sequence[sympy.Expr]) -> Joined | None:
        """A reshape that opens a concatenation of equal blocks, ``[Q | K | V]`` as ``(three, ...)``: block by block."""
        for dim, leaves in enumerate(arg.dims):
            if len(leaves) == 1 and leaves[0].blocks and arg.keep is None:
                parts = [self.block_at(arg, dim, n) for n in range(len(leaves[0].blocks))]
                made = self.reshaped_pieces(Joined(dim, tuple(parts)), shape)
                if made is not None:
                    return made
        return None

    def block_at(self, arg: Lifted, dim: int, number: int) -> Lifted:
        """One block of an array axis that is a concatenation."""
        whole = arg.dims[dim][0]
        expr, leaves = self.open(Block(arg.expr, whole, number), whole.blocks[number])
        return Lifted(tuple(leaves if n == dim else d for n, d in enumerate(arg.dims)), expr)

    def reshaped_pieces(self, arg: Joined, shape: Sequence[sympy.Expr]) -> Joined | None:
        """Each piece reshaped, where the axes before that of the pieces stay: what lies end to end still does."""
        before = [total(a.size for a in d) for d in arg.pieces[0].dims[: arg.dim]]
        place, left = 0, list(shape)
        while before and left:
            new = left[0] == 1 and before[0] != 1  # an axis of size 1 put in between
            if not new and not same(left[0], before[0]):
                break
            left, before, place = left[1:], before if new else before[1:], place + 1
        if before:
            return None
        inner = total(total(a.size for a in d) for d in arg.pieces[0].dims[arg.dim + 1 :])
        while left and left[0] == 1 and len(left) > 1 and not all(
            p.dims[arg.dim] == () for p in arg.pieces
        ):  # axes of size 1 put in before the axis of the pieces
            left, place = left[1:], place + 1
        beyond = total(left[1:])
        found = []
        for piece in arg.pieces:  # what lies behind goes into the axis of the pieces, or comes out of it
            size = quotient(total([inner, *(a.size for a in piece.dims[arg.dim])]), beyond)
            if size is None:
                return None
            made = regroup(piece, [*shape[:place], size, *left[1:]], self.names)
            if any(len(before) > 1 for before, _ in made.crossed):
                return None
            found.append(made.value)
        return Joined(place, tuple(found))

    def moved_position(self, arg: Position, shape: Sequence[sympy.Expr]) -> Position:
        """Positions whose axis stays whole in a reshape."""
        made = regroup(Lifted(arg.dims, ZERO), shape, self.names)
        if made.crossed or not any(dim == (arg.axis,) for dim in made.value.dims):
            raise self.problem("positions are reshaped")
        return replace(arg, dims=made.value.dims)

    def permute(self, node: g.Node, arg: Value) -> Value:
        """Array axes in another order; the leaves inside stay together."""
        assert isinstance(node.op, g.Permute)
        order = node.op.order
        if isinstance(arg, Joined):
            pieces = tuple(replace(p, dims=tuple(p.dims[n] for n in order)) for p in arg.pieces)
            return Joined(order.index(arg.dim), pieces)
        return replace(arg, dims=tuple(arg.dims[n] for n in order))

    def broadcast(self, node: g.Node, arg: Value) -> Value:
        """Copies along new axes: the expression lacks them."""
        wide = self.widen(arg, len(node.shape))
        if isinstance(wide, Joined):
            return Joined(wide.dim, tuple(self.copied(p, node.shape, wide.dim) for p in wide.pieces))
        made: Value = self.copied(wide, node.shape)
        return made

    def copied(self, value: Any, shape: Sequence[sympy.Expr], besides: int = -1) -> Any:
        """A value with new leaves where it had an axis of size 1, of which it does not depend."""
        dims = list(value.dims)
        for n, size in enumerate(shape):
            if not dims[n] and size != 1 and n != besides:
                dims[n] = (self.names.fresh(size, [a.name for d in dims for a in d]),)
        return replace(value, dims=tuple(dims))

    def slice(self, node: g.Node, arg: Value) -> Value:
        """Part of an axis."""
        assert isinstance(node.op, g.Slice)
        op = node.op
        return self.sliced(arg, op.axis, op.start, op.length, size_of(arg, op.axis))

    def sliced(self, arg: Value, dim: int, start: sympy.Expr, length: sympy.Expr, whole: sympy.Expr) -> Value:
        """``length`` positions from ``start`` of an array axis of ``whole`` positions."""
        if isinstance(arg, Joined):
            return self.sliced_pieces(arg, dim, start, length, whole)
        if isinstance(arg, Position):
            return self.sliced_position(arg, dim, start, length)
        if same(length, total(a.size for a in arg.dims[dim])):
            return arg
        for depth, leaf in enumerate(arg.dims[dim]):
            outside, rest = arg.dims[dim][:depth], arg.dims[dim][depth + 1 :]
            inner = total(a.size for a in rest)
            first, count = quotient(start, inner), quotient(length, inner)
            at = None if first is None or count is None else _inside(first, count, leaf, outside)
            part = None if at is None or count is None else self.part(arg, leaf, at[-1], count)
            if at is not None and part is not None:
                return self.without(part, dim, list(zip(outside, at, strict=False)), rest)
        again = self.recut_evenly(arg, dim, start, length)
        if again is not None:
            return again
        raise self.problem(
            f"positions {start} to {start + length} cut an axis where nothing is known to begin",
            got=" ".join(f"{a.name}: {a.size}" for a in arg.dims[dim]),
            hint="say with --layout how the parameters lie",
        )  # fmt: skip

    def recut_evenly(self, arg: Lifted, dim: int, start: sympy.Expr, length: sympy.Expr) -> Lifted | None:
        """One of some parts of equal length, which begin where no axis does: the axis read as parts, axes crossing."""
        leaves = arg.dims[dim]
        parts, number = quotient(total(a.size for a in leaves), length), quotient(start, length)
        if parts is None or number is None or not (parts.is_Integer and number.is_Integer):
            return None
        part = self.names.fresh(parts, [a.name for a in arg.leaves])
        inner = self.names.fresh(length, [part.name, *(a.name for a in arg.leaves)]) if length != 1 else None
        new = (part,) if inner is None else (part, inner)
        first = sum(len(d) for d in arg.dims[:dim])
        made = recut(arg, first, first + len(leaves), new)
        if len(leaves) > 1:
            self.crossings.append(Crossing(leaves, new, self.graph.nodes[self.number].place, self.number))
        keep = None if made.keep is None else _at(made.keep, part, int(number))
        dims = tuple(new[1:] if n == dim else d for n, d in enumerate(arg.dims))
        return replace(made, dims=dims, expr=_at(made.expr, part, int(number)), keep=keep)

    def without(
        self, part: tuple[Lifted, Leaves], dim: int, outside: Sequence[tuple[Axis, sympy.Expr]], rest: Leaves
    ) -> Lifted:
        """A value whose axis ``dim`` is a cut leaf and what lies inside it, at fixed positions of what lies outside."""
        value, new = part
        for one, at in outside:
            keep = None if value.keep is None else _at(value.keep, one, int(at))
            value = replace(value, expr=_at(value.expr, one, int(at)), keep=keep)
        dims = tuple((*new, *rest) if n == dim else d for n, d in enumerate(value.dims))
        return replace(value, dims=dims)

    def part(
        self, value: Lifted, leaf: Axis, start: sympy.Expr, length: sympy.Expr
    ) -> tuple[Lifted, Leaves] | None:
        """Positions of one leaf: one position, or blocks of a concatenated axis."""
        if leaf not in value.expr.axes and value.keep is None:
            if length == 1:
                return value, ()
            return value, (self.names.fresh(length, [a.name for a in value.leaves]),)
        if leaf.blocks:
            return self.block(value, leaf, start, length)
        if length == 1 and start.is_Integer:
            keep = None if value.keep is None else _at(value.keep, leaf, int(start))
            return replace(value, expr=_at(value.expr, leaf, int(start)), keep=keep), ()
        return None

    def block(
        self, value: Lifted, leaf: Axis, start: sympy.Expr, length: sympy.Expr
    ) -> tuple[Lifted, Leaves] | None:
        """One block, or adjacent ones, of a concatenated axis."""
        begin = sympy.Integer(0)
        for number, one in enumerate(leaf.blocks):
            if same(begin, start) and same(one.size, length) and value.keep is None:
                expr, leaves = self.open(Block(value.expr, leaf, number), one)
                return replace(value, expr=expr), leaves
            begin = begin + one.size
        return None

    def sliced_pieces(self, arg: Joined, dim: int, start: sympy.Expr, length: sympy.Expr, whole: sympy.Expr) -> Value:
        """A slice of what lies end to end: some of the pieces."""
        if dim != arg.dim:
            pieces = [self.plain(self.sliced(p, dim, start, length, whole)) for p in arg.pieces]
            return Joined(arg.dim, tuple(pieces))
        begin, found = sympy.Integer(0), []
        end = sympy.expand(start + length)
        for piece in arg.pieces:
            size = total(a.size for a in piece.dims[dim])
            if (begin - start).expand().is_nonnegative and (end - begin - size).expand().is_nonnegative:
                found.append(piece)
            begin = sympy.expand(begin + size)
        if found and same(sympy.Add(*(total(a.size for a in p.dims[dim]) for p in found)), length):
            return found[0] if len(found) == 1 else Joined(dim, tuple(found))
        return self.sliced(self.blocks(arg), dim, start, length, whole)

    def sliced_position(self, arg: Position, dim: int, start: sympy.Expr, length: sympy.Expr) -> Position:
        """The first positions of an axis are positions of a shorter one."""
        if arg.axis not in arg.dims[dim]:
            raise self.problem("positions are cut")
        new = self.names.fresh(length, [a.name for d in arg.dims for a in d if a != arg.axis])
        dims = tuple((new,) if n == dim else d for n, d in enumerate(arg.dims))
        return Position(dims, new, sympy.expand(arg.offset + start))

    def concat(self, node: g.Node, *args: Value) -> Value:
        """Pieces end to end, kept apart."""
        assert isinstance(node.op, g.Concat)
        pieces: list[Lifted] = []
        for one in args:
            same_axis = isinstance(one, Joined) and one.dim == node.op.axis
            pieces += one.pieces if isinstance(one, Joined) and same_axis else [self.plain(one)]
        return Joined(node.op.axis, tuple(pieces))

    def gather(self, node: g.Node, arg: Value) -> Value:
        """Listed positions: slices of one position, end to end."""
        assert isinstance(node.op, g.Gather)
        axis = node.op.axis
        whole = size_of(arg, axis)
        one = sympy.Integer(1)
        parts = [self.sliced(arg, axis, sympy.Integer(p), one, whole) for p in node.op.positions]
        if len(parts) == 1:
            return parts[0]
        return Joined(axis, tuple(self.plain(p) for p in parts))

    def cut(self, value: Value, dim: int, start: sympy.Expr, length: sympy.Expr, whole: sympy.Expr) -> Any:
        """The part of a value beside one piece; what is the same along the axis stays."""
        if isinstance(value, Position) or (isinstance(value, Lifted) and not value.dims[dim]):
            return value
        return self.sliced(value, dim, start, length, whole)


def _inside(
    first: sympy.Expr, count: sympy.Expr, leaf: Axis, outside: Leaves
) -> tuple[sympy.Expr, ...] | None:
    """Where in the leaf, and in those outside of it, ``count`` positions begin; None if they are not in one place."""
    if not outside or first == 0:
        here = (sympy.Integer(0),) * len(outside) + (first,)
        return here if not outside or nonnegative(leaf.size - count) else None
    if not (first.is_Integer and leaf.size.is_Integer and count.is_Integer):
        return None
    beyond, at = divmod(int(first), int(leaf.size))
    if at + count > leaf.size:
        return None
    found = _inside(sympy.Integer(beyond), sympy.Integer(1), outside[-1], outside[:-1])
    return None if found is None else (*found, sympy.Integer(at))


def _at(expr: Expr, axis: Axis, position: int) -> Expr:
    return Select(expr, axis, position) if axis in expr.axes else expr
