"""What is stored, from the weights that are taken out of it: readings of layouts turned round.

Defines `undone`.  `mha_sym.attention.rows` takes each weight out of a stored parameter by splits, joins, transposes,
blocks and copies; here those steps are undone, last first, and the parts are put together again.  That the two are
inverse to each other is not taken from here: `mha_sym.conversion.statement` states it, and the prover proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mha_sym.axes import Axis, axis, product
from mha_sym.axes import blocks as blocks_axis
from mha_sym.errors import Problem
from mha_sym.expr import Block, Blocks, Expr, Input, Join, Rename, Repeat, Select, Split, Transpose

#: the nodes above an input, the one that reads it first, and the value that they should give
_Chain = tuple[tuple[Expr, ...], Expr]


def undone(readings: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """The stored parameter of which ``readings`` are made, if they are to give ``values``.

    Args:
        readings: expressions of one and the same input, made of steps that move entries and copy none twice but along
            axes of their own; together they read every entry.
        values: what each should give, over the same axes.

    Raises:
        Problem: if a step is none that can be undone, or a part is missing.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> layout = LAYOUTS["torch_packed"]
        >>> read = layout.weights(layout.dims(), "")
        >>> made = [Input(name, one.axes) for name, one in (("Q", read.w_q), ("K", read.w_k), ("V", read.w_v))]
        >>> undone([read.w_q, read.w_k, read.w_v], made).axes
        ((three h k): 3*d_k*h, m: d_model)
    """
    return _undo([(_above(one), value) for one, value in zip(readings, values, strict=True)])


def _above(expr: Expr) -> tuple[Expr, ...]:
    nodes: list[Expr] = []
    while not isinstance(expr, Input):
        nodes.append(expr)
        (expr,) = expr.children
    return tuple(reversed(nodes))


def _undo(chains: Sequence[_Chain]) -> Expr:
    nodes, value = chains[0]
    if not nodes:
        return value
    first = nodes[0]
    if isinstance(first, Block):
        return Blocks(tuple(_undo(part) for part in _parts(chains, len(first.axis_.blocks))), first.axis_.blocks)
    if isinstance(first, Select):
        return _side_by_side([_undo(part) for part in _parts(chains, int(first.axis_.size))], first)
    if any(not other or other[0] != first for other, _ in chains):
        raise Problem("a stored parameter is read in ways that part", where=first.where)
    return _step_back(first, _undo([(rest[1:], wanted) for rest, wanted in chains]))


def _parts(chains: Sequence[_Chain], count: int) -> list[list[_Chain]]:
    """The chains by the block or position that they take, without that step; each of ``count`` must be taken."""

    def place(chain: _Chain) -> int:
        node = chain[0][0]
        assert isinstance(node, Block | Select)
        return node.number if isinstance(node, Block) else int(node.at)  # type: ignore[arg-type]  # never an index

    found = {n: [(nodes[1:], v) for nodes, v in one] for n, one in groupby(sorted(chains, key=place), place)}
    if set(found) != set(range(count)):
        missing = sorted(set(range(count)) - set(found))
        raise Problem(f"part {missing[0]} of {count} of a stored parameter is not given")
    return [found[n] for n in range(count)]


def _side_by_side(parts: Sequence[Expr], node: Select) -> Expr:
    """The parts along an axis that counts them, in the place that it has in what ``node`` reads."""
    before, place = node.arg.axes, node.arg.axes.index(node.axis_)

    def lifted(part: Expr, one: Axis) -> Expr:
        part = transposed(part, tuple(a for a in before if a != node.axis_))
        return Repeat(part, (*before[:place], one, *before[place + 1 :]))

    if len(parts) == 1:
        return lifted(parts[0], node.axis_)
    ones = tuple(axis(f"{node.axis_.name}{n}", 1) for n in range(len(parts)))
    joined = Blocks(tuple(lifted(part, one) for part, one in zip(parts, ones, strict=True)), ones)
    return Rename(joined, blocks_axis(*ones), node.axis_)


def _step_back(node: Expr, value: Expr) -> Expr:
    """What ``node`` reads, if its value is ``value``."""
    match node:
        case Split(axis_=whole):
            return joined(value, whole.factors)
        case Join(factors=factors):
            return split(value, product(*factors))
        case Transpose(arg=arg):
            return transposed(value, arg.axes)
        case Rename(old=old, new=new):
            return renamed(value, new, old)
        case Repeat(arg=arg):
            for one in node.added:
                value = first_copy(value, one)
            return transposed(value, arg.axes)
    raise Problem(f"a step {node.where} of a layout cannot be undone")


# ---------------------------------------------------------------- steps that undo a step before them


def split(value: Expr, whole: Axis) -> Expr:
    """A split; one of what was just joined is nothing at all."""
    return value.arg if isinstance(value, Join) and product(*value.factors) == whole else Split(value, whole)


def joined(value: Expr, factors: tuple[Axis, ...]) -> Expr:
    """A join; one of what was just split is nothing at all."""
    return value.arg if isinstance(value, Split) and value.axis_.factors == factors else Join(value, factors)


def renamed(value: Expr, old: Axis, new: Axis) -> Expr:
    """A renaming; one back to the name before is nothing at all."""
    back = isinstance(value, Rename) and (value.old, value.new) == (new, old)
    return value.arg if back else Rename(value, old, new)  # type: ignore[attr-defined]  # it is a Rename


def transposed(value: Expr, order: tuple[Axis, ...]) -> Expr:
    """A transposition; two become one, and one that moves nothing is nothing at all."""
    value = value.arg if isinstance(value, Transpose) else value
    return value if value.axes == order else Transpose(value, order)


def first_copy(value: Expr, one: Axis) -> Expr:
    """The first position of an axis along which copies lie; of copies that were just made, what was copied."""
    if isinstance(value, Transpose):
        return transposed(first_copy(value.arg, one), tuple(a for a in value.order if a != one))
    if isinstance(value, Repeat) and one in value.added:
        out = tuple(a for a in value.out if a != one)
        return transposed(value.arg, out) if set(out) == set(value.arg.axes) else Repeat(value.arg, out)
    return Select(value, one, 0)
