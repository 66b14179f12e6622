"""The axes of every intermediate, in order of evaluation, with what each step did to them.

Defines `Step`, `Change`, `Trace`, and `trace`, `trace_stages`, `trace_pattern` that make them.  The words in which a
step is told are in `mha_sym.render.trace_text`; nothing is computed here, so sizes may be symbols.

A value that is read twice is one step.  A step that depends on the index r of a family is made for each r; what
does not depend on r comes before the family begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import sympy

from mha_sym.axes import Axis, Index, axis, product
from mha_sym.errors import AxisProblem
from mha_sym.expr import (
    Block,
    Blocks,
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Join,
    Map,
    Named,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Stack,
    Table,
    Total,
    Transpose,
)
from mha_sym.graph import Graph, Vertex, graph
from mha_sym.pattern import members, rearrange, repeat, sides
from mha_sym.shown import Shown


@dataclass(frozen=True, slots=True)
class Renaming:
    """Axis ``old`` is read as the axis ``new``."""

    old: Axis
    new: Axis


@dataclass(frozen=True, slots=True)
class Change:
    """What a step did to the axes; what is empty did not happen.

    Attributes:
        split: product axes that became their factors.
        joined: product axes or concatenations that were made of what was there before.
        summed: axes summed away, or the axis of a family that is added up.
        maximum: axes of which only the largest entry stays.
        moved: axes that stand at another place, in their new order.
        added: axes that no operand has: copies, or the members of a family.
        renamed: axes read as another axis of the same size.
        fixed: axes of which one position, or one block, is taken.
        normalised: axes along which a softmax adds up to one.
        permuted: axes whose positions are taken in another order.
        reread: whether all axes were given up and the entries read anew in row-major order.
    """

    split: tuple[Axis, ...] = ()
    joined: tuple[Axis, ...] = ()
    summed: tuple[Axis, ...] = ()
    maximum: tuple[Axis, ...] = ()
    moved: tuple[Axis, ...] = ()
    added: tuple[Axis, ...] = ()
    renamed: tuple[Renaming, ...] = ()
    fixed: tuple[Axis, ...] = ()
    normalised: tuple[Axis, ...] = ()
    permuted: tuple[Axis, ...] = ()
    reread: bool = False


@dataclass(frozen=True)
class Step:
    """One intermediate value.

    Attributes:
        number: its place, from 1.
        operation: a word for what was done, such as ``contract`` or ``split``.
        node: the node of the expression that was evaluated.
        reads: the numbers of the steps that it reads.
        inputs: the axes of each of them.
        axes: the axes of the result.
        change: what happened on the way from ``inputs`` to ``axes``.
        family: the indices for each position of which the step is made, outermost first.
        name: the name of the value, empty if it has none.
        reason: what a reader is told when the name is replaced by its definition.
        stages: the stages of a form that end here.
    """

    number: int
    operation: str
    node: Expr = field(repr=False)
    reads: tuple[int, ...]
    inputs: tuple[tuple[Axis, ...], ...]
    axes: tuple[Axis, ...]
    change: Change
    family: tuple[Index, ...] = ()
    name: str = ""
    reason: str = ""
    stages: tuple[str, ...] = ()


class Trace(tuple[Step, ...], Shown):
    """The steps in order; a notebook shows them as a picture."""

    __slots__ = ()


class HasStages(Protocol):
    """Named expressions in order, such as the `Stages` of a form of attention."""

    def items(self) -> Mapping[str, Expr]:
        """The stages in order, by name."""


def trace(expr: Expr) -> Trace:
    """The steps that make an expression.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> from mha_sym.expr import Input
        >>> q = Input("Q", (axis("t"), product(axis("h"), axis("k"))))
        >>> for step in trace(rearrange(q, "t (h k) -> h t k")):
        ...     print(step.number, step.operation, step.axes)
        1 input (t: t, (h k): h*k)
        2 split (t: t, h: h, k: k)
        3 transpose (h: h, t: t, k: k)
    """
    run = _Run(graph(expr))
    run.visit(run.graph.roots[0], ())
    return Trace(run.steps)


def trace_stages(stages: HasStages) -> Trace:
    """The steps that make all stages of a form, in their order; the step that ends a stage bears its name.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims, self_inputs
        >>> from mha_sym.attention.forms import combined
        >>> d = dims()
        >>> steps = trace_stages(combined(d, self_inputs(d), combined_weights(d)))
        >>> [step.stages[0] for step in steps if step.stages]
        ['q', 'k', 'v', 'scores', 'weights', 'z', 'c', 'y']
    """
    named = stages.items()
    run = _Run(graph(named.values()))
    for name, root in zip(named, run.graph.roots, strict=True):
        place = run.visit(root, ()) - 1
        run.steps[place] = replace(run.steps[place], stages=(*run.steps[place].stages, name))
    return Trace(run.steps)


class _Run:
    """The steps so far; each vertex of the graph is visited once."""

    def __init__(self, of: Graph) -> None:
        self.graph = of
        self.steps: list[Step] = []
        self.made: dict[int, int] = {}

    def visit(self, number: int, family: tuple[Index, ...], label: Named | None = None) -> int:
        """Make the value, and before it what it reads; its step number."""
        if number not in self.made:
            vertex = self.graph.vertices[number]
            if isinstance(vertex.node, Named) and self._is_nameless(vertex.children[0]):
                # a name is not a step: it goes to the step that makes the value, the outermost of several names
                self.made[number] = self.visit(vertex.children[0], family, label or vertex.node)
            else:
                self.made[number] = self._make(vertex, family, label)
        return self.made[number]

    def _is_nameless(self, number: int) -> bool:
        return number not in self.made and not isinstance(self.graph.vertices[number].node, Input | Table)

    def _make(self, vertex: Vertex, family: tuple[Index, ...], label: Named | None) -> int:
        inner = family
        if isinstance(vertex.node, Stack | Concat | Total):
            for child in vertex.children:
                self._visit_outside(child, family)
            inner = (*family, vertex.node.index)
        reads = tuple(self.visit(child, inner) for child in self._operands(vertex))
        arrays = tuple(self.steps[place - 1].axes for place in reads)
        node = vertex.node
        name = getattr(node, "name", "") if isinstance(node, Input | Table | Named) else ""
        step = Step(
            number=len(self.steps) + 1,
            operation=node.where,
            node=node,
            reads=reads,
            inputs=arrays,
            axes=node.axes,
            change=change_of(node),
            family=tuple(index for index in family if index in vertex.free),
            name=name if label is None else label.name,
            reason="" if label is None else label.reason,
        )
        self.steps.append(step)
        return step.number

    def _operands(self, vertex: Vertex) -> tuple[int, ...]:
        """The children that are steps: a number in a sum or product is not an intermediate value."""
        if not isinstance(vertex.node, Map):
            return vertex.children
        return tuple(c for c in vertex.children if not isinstance(self.graph.vertices[c].node, Scalar))

    def _visit_outside(self, number: int, family: tuple[Index, ...]) -> None:
        """Make what a family reads and does not depend on its index, before the family begins."""
        vertex = self.graph.vertices[number]
        if vertex.free <= set(family):
            self.visit(number, family)
        else:
            for child in self._operands(vertex):
                self._visit_outside(child, family)


# ---------------------------------------------------------------- one array through a chain of patterns

#: a size as it may be given: a number, a size expression, or the name of a symbolic size
SizeLike: TypeAlias = int | str | sympy.Expr


def trace_pattern(
    shape: Sequence[SizeLike | Axis], *patterns: str, sizes: Mapping[str, SizeLike] | None = None
) -> Trace:
    """Follow one array through patterns in the style of einops; the step that ends a pattern is named after it.

    Args:
        shape: the axes of the array, or only their sizes: the left side of the first pattern names them.
        patterns: rearrangements, or copies along new axes, one after the other.
        sizes: what the shape does not say: the size of ``h`` where ``(h k)`` is opened, and of new axes.

    Raises:
        AxisProblem: if a pattern does not describe the array, or a size is missing or does not divide.

    Example:
        >>> steps = trace_pattern((2, 5, 12), "b t (h k) -> b t h k", "b t h k -> b h t k", sizes={"h": 3})
        >>> [[int(axis.size) for axis in step.axes] for step in steps]
        [[2, 5, 12], [2, 5, 3, 4], [2, 3, 5, 4]]
    """
    known = dict(sizes or {})
    expr: Expr = Input("x", _named_axes(shape, patterns[0], known) if patterns else _only_axes(shape))
    for place, pattern in enumerate(patterns, start=1):
        left, right = sides(pattern)
        have = {name for group in left for name in members(group)}
        new = [name for group in right for name in members(group) if name not in have and name in known]
        after = repeat(expr, pattern, [axis(name, known[name]) for name in new]) if new else rearrange(expr, pattern)
        expr = Named(after, f"pattern {place}", pattern)
    return trace(expr)


def _only_axes(shape: Sequence[SizeLike | Axis]) -> tuple[Axis, ...]:
    if not all(isinstance(one, Axis) for one in shape):
        raise AxisProblem("sizes alone have no names", where="trace_pattern", hint="give a pattern, or axes")
    return tuple(one for one in shape if isinstance(one, Axis))


def _named_axes(shape: Sequence[SizeLike | Axis], pattern: str, known: Mapping[str, SizeLike]) -> tuple[Axis, ...]:
    """The axes of an array of which the left side of a pattern gives the names."""
    groups = sides(pattern)[0]
    if len(groups) != len(shape):
        raise AxisProblem(
            f"the pattern names {len(groups)} axes, the array has {len(shape)}",
            where=f"'{pattern}'",
            got=f"shape ({', '.join(map(str, shape))})",
        )
    return tuple(
        one if isinstance(one, Axis) else _group_axis(group, one, known, pattern)
        for group, one in zip(groups, shape, strict=True)
    )


def _group_axis(group: str, size: SizeLike, known: Mapping[str, SizeLike], pattern: str) -> Axis:
    """The axis that ``group`` names, of which the array says only the size."""
    names = members(group)
    whole = axis("_".join(names), size).size
    given = {name: axis(name, known[name]) for name in names if name in known}
    unknown = [name for name in names if name not in given]
    if len(unknown) > 1:
        raise AxisProblem(
            f"the sizes of {' and '.join(unknown)} do not follow from the shape",
            where=f"'{pattern}'",
            got=f"{group} of size {whole}",
            hint=f"give all but one, such as sizes={{{unknown[0]!r}: 3}}",
        )
    rest = sympy.cancel(whole / sympy.Mul(*(one.size for one in given.values())))
    if not (rest.is_integer and rest.is_positive if unknown else rest == 1):
        told = ", ".join(f"{name} = {one.size}" for name, one in given.items())
        raise AxisProblem(
            f"{group} of size {whole} does not agree with {told}",
            where=f"'{pattern}'",
            expected=f"a multiple of {whole / rest}" if unknown else f"size {whole / rest}",
            got=str(whole),
        )
    factors = [given[name] if name in given else axis(name, rest) for name in names]
    return product(*factors) if len(factors) > 1 else factors[0]


# ---------------------------------------------------------------- what a node does to axes


def change_of(node: Expr) -> Change:
    """What one node does to the axes of its operands.

    Raises:
        NotImplementedError: for a node that `CHANGES` does not know.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("X", (axis("t"), axis("m")))
        >>> change_of(Transpose(x, (axis("m"), axis("t")))).moved
        (m: m, t: t)
    """
    if type(node) not in CHANGES:
        raise NotImplementedError(f"{type(node).__name__} has no row in mha_sym.trace.CHANGES")
    return CHANGES[type(node)](node)


def _moved(before: Sequence[Axis], after: Sequence[Axis]) -> tuple[Axis, ...]:
    """Axes that stand at another place among those that both sides have."""
    old, new = [one for one in before if one in after], [one for one in after if one in before]
    return tuple(b for a, b in zip(old, new, strict=True) if a != b)


def _unchanged(node: Expr) -> Change:
    return Change()


def _contract(node: Contract) -> Change:
    every = dict.fromkeys(one for arg in node.args for one in arg.axes)
    return Change(summed=node.summed, moved=_moved(tuple(every), node.out) if len(node.args) == 1 else ())


def _reduce(node: Reduce) -> Change:
    return Change(summed=node.over) if node.op == "sum" else Change(maximum=node.over)


def _repeat(node: Repeat) -> Change:
    return Change(added=node.added, moved=_moved(node.arg.axes, node.out))


def _concat(node: Concat) -> Change:
    return Change(joined=tuple(one for one in node.axes if one not in node.body.axes))


def _blocks(node: Blocks) -> Change:
    return Change(joined=tuple(one for one in node.axes if one.blocks == node.parts))


#: what each node does to axes
CHANGES: dict[type[Expr], Callable[[Any], Change]] = {
    **dict.fromkeys((Input, Scalar, Table, Compare, Map, Named), _unchanged),
    Contract: _contract,
    Reduce: _reduce,
    Softmax: lambda node: Change(normalised=node.over),
    Split: lambda node: Change(split=(node.axis_,)),
    Join: lambda node: Change(joined=(product(*node.factors),)),
    Transpose: lambda node: Change(moved=_moved(node.arg.axes, node.order)),
    Repeat: _repeat,
    Rename: lambda node: Change(renamed=(Renaming(node.old, node.new),)),
    Reshape: lambda node: Change(reread=True),
    Permute: lambda node: Change(permuted=(node.perm.axis,)),
    Select: lambda node: Change(fixed=(node.axis_,)),
    Stack: lambda node: Change(added=(node.index.axis,)),
    Concat: _concat,
    Total: lambda node: Change(summed=(node.index.axis,)),
    Blocks: _blocks,
    Block: lambda node: Change(fixed=(node.axis_,)),
}
