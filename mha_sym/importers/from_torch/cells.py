"""Torch tensors that share memory: writing into one is seen through the others.

Defines `Cell`, a tensor of a trace, and the views `reshaped`, `permuted`, `sliced` and `expanded`.  A write through a
view goes back into what it views, and a view is taken anew after a write.  Where it depends on the layout in memory
whether two tensors share it, as after ``reshape`` and ``contiguous``, neither is read after a write to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sympy

from mha_sym.importers.builder import Builder
from mha_sym.importers.graph import Ref
from mha_sym.importers.sizes import as_size

Size: TypeAlias = sympy.Expr | int
#: how a view is taken from the viewed value, and how the viewed value is made from it and a new view
Get: TypeAlias = Callable[[Ref], Ref]
Put: TypeAlias = Callable[[Ref, Ref], Ref]


@dataclass(eq=False)
class Cell:
    """A tensor.

    Attributes:
        ref: its value in the graph when it was last read.
        base: what it is a view of.
        get, put: how the view is taken, and how what it views changes with it.
        protected: what it is, if writing into it is refused: ``an input``, ``a parameter``.
        version: number of writes that its value takes into account.
        group: all tensors that may share memory with it, itself among them.
        lost: whether a tensor that may share its memory was written to.
    """

    ref: Ref
    base: Cell | None = None
    get: Get | None = None
    put: Put | None = None
    protected: str = ""
    version: int = 0
    group: list[Cell] = field(default_factory=list)
    lost: bool = False

    @property
    def root(self) -> Cell:
        """The tensor that owns the memory."""
        return self if self.base is None else self.base.root

    def read(self, g: Builder) -> Ref:
        """Its present value.

        Raises:
            ImportProblem: if that depends on how tensors lie in memory.
        """
        root = self.root
        if root.lost:
            g.refuse(
                "whether this tensor was written to through another depends on how it lies in memory",
                hint="make a new tensor in place of writing into one: x = x.masked_fill(...)",
            )
        if self.base is not None and self.version != root.version:
            assert self.get is not None  # every view has both
            self.ref = self.get(self.base.read(g))
            self.version = root.version
        return self.ref

    def write(self, g: Builder, new: Ref) -> None:
        """Put another value in its place, as an operation that works in place does.

        Raises:
            ImportProblem: if it is, or may be, an input, a parameter or a buffer.
        """
        root = self.root
        for other in (root, *root.group):
            if other.protected:
                g.refuse(
                    f"this writes into {other.protected}",
                    expected="code that leaves inputs, parameters and buffers as they are",
                    hint="write into a copy: x = x.clone() before x[...] = ..., x = x + 1 in place of x += 1",
                )
            other.lost = other.lost or other is not root
        self._store(g, new, root.version + 1)

    def _store(self, g: Builder, new: Ref, version: int) -> None:
        if self.base is not None:
            assert self.put is not None  # every view has both
            self.base._store(g, self.put(self.base.read(g), new), version)
        self.ref, self.version = new, version

    def view(self, g: Builder, get: Get, put: Put) -> Cell:
        """A view of this tensor."""
        value = self.read(g)
        return Cell(get(value), self, get, put, version=self.root.version)

    def perhaps_shared(self, ref: Ref) -> Cell:
        """A tensor that may or may not be a view of this one."""
        root = self.root
        root.group = root.group or [root]
        made = Cell(ref, group=root.group)
        root.group.append(made)
        return made


def reshaped(g: Builder, cell: Cell, shape: Sequence[Size]) -> Cell:
    """The same entries in row-major order."""
    return cell.view(g, lambda one: g.reshape(one, shape), lambda one, new: g.reshape(new, g.shape(one)))


def permuted(g: Builder, cell: Cell, order: Sequence[int]) -> Cell:
    """Axes in another order."""
    rank = len(g.shape(cell.ref))
    places = [g.axis(cell.ref, n) for n in order]
    back = sorted(range(rank), key=lambda n: places[n]) if len(places) == rank else []
    return cell.view(g, lambda one: g.permute(one, places), lambda _, new: g.permute(new, back))


def sliced(g: Builder, cell: Cell, axis: int, start: Size, length: Size) -> Cell:
    """Positions ``start`` to ``start + length`` of an axis."""

    def put(one: Ref, new: Ref) -> Ref:
        after = as_size(start) + as_size(length)
        rest = sympy.expand(g.shape(one)[axis] - after)
        parts = [new]
        if start != 0:
            parts.insert(0, g.slice(one, axis, 0, start))
        if rest != 0:
            parts.append(g.slice(one, axis, after, rest))
        return g.concat(parts, axis)

    return cell.view(g, lambda one: g.slice(one, axis, start, length), put)


def expanded(g: Builder, cell: Cell, shape: Sequence[Size]) -> Cell:
    """Copies along axes; writing into them is refused, as torch refuses it."""

    def put(_: Ref, __: Ref) -> Ref:
        g.refuse("this writes into one place of memory that stands for several entries", hint="say .clone() before it")

    return cell.view(g, lambda one: g.broadcast(one, shape), put)
