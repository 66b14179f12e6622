"""What each node of the language costs: multiply-adds, pointwise operations, entries moved.

Defines `Cost`, the table `COSTS` with a row for every node, and `cost_of`.  `mha_sym.count` adds the costs up over
an expression; nothing here knows of attention, and no formula of a layer is typed in.

* Multiply-adds are the work of contractions only.  Three or more operands are taken two at a time from the left.  An
  axis that only one operand of a pair has, and nothing needs later, is summed away before the product; one that both
  have, in the product.  A product costs the product of the sizes of the distinct axes of its two operands.
* Pointwise operations are the rest of the arithmetic: one an entry of the result for each addition,
  multiplication, negation, exponential, inverse, comparison or opaque function; one an entry of the operand for a
  sum or maximum over axes, or over a family; three an entry for a softmax (exponential, sum, division) and one more
  where a mask removes keys.
* Bytes moved are those of an unfused run: every contraction, pointwise operation, reduction, sum of a family and
  softmax, once for each member if it is in a family, reads each operand once from memory and writes its result
  once, and nothing is kept between two operations.  Splitting, joining, reordering, renaming, copying along an
  axis, selecting, stacking and concatenating are other ways to address the same memory and move nothing; numbers
  such as ``1/sqrt(d_k)`` move nothing.  Every entry has the same number of bytes, masks too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import sympy

from mha_sym.axes import Axis, Size
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

ZERO = sympy.Integer(0)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one node costs, for one member of the families around it; ``moved`` is in entries."""

    multiply_adds: Size = ZERO
    pointwise: Size = ZERO
    moved: Size = ZERO

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.multiply_adds + other.multiply_adds, self.pointwise + other.pointwise, self.moved + other.moved
        )


def cost_of(node: Expr) -> Cost:
    """The cost of one node alone, without the values that it reads.

    Raises:
        NotImplementedError: for a node that `COSTS` does not know.
    """
    if type(node) not in COSTS:
        raise NotImplementedError(f"{type(node).__name__} has no row in mha_sym.count.COSTS")
    return COSTS[type(node)](node)


def entries(axes: Iterable[Axis]) -> Size:
    """The product of the sizes of some axes.

    Example:
        >>> from mha_sym.axes import axis
        >>> entries([axis("t", 5), axis("m", 12)])
        60
    """
    return sympy.Mul(*(one.size for one in axes))


def _held(expr: Expr) -> Size:
    """Entries in memory that reading ``expr`` takes: a copy along an axis is not written out."""
    match expr:
        case Scalar():
            return ZERO
        case Repeat() | Named() | Split() | Join() | Transpose() | Rename() | Permute() | Reshape():
            return _held(expr.arg)
        case _:
            return entries(expr.axes)


def _traffic(node: Expr) -> Size:
    """Entries moved by an operation that reads its operands and writes its result."""
    return sympy.Add(*(_held(child) for child in node.children), entries(node.axes))


def _nothing(node: Expr) -> Cost:
    return Cost()


def _compare(node: Compare) -> Cost:
    return Cost(pointwise=entries(node.axes), moved=entries(node.axes))


def _map(node: Map) -> Cost:
    several = node.op in ("add", "mul")
    operations = len(node.args) - 1 if several else 1
    if operations == 0:
        return Cost()
    return Cost(pointwise=operations * entries(node.axes), moved=_traffic(node))


def _contract(node: Contract) -> Cost:
    """Two operands at a time from the left, each first summed over the axes that only it has and nothing needs."""
    current, cost = _Operand(node.args[0].axes, _held(node.args[0])), Cost()
    for place, arg in enumerate(node.args[1:], start=2):
        needed = {*node.out, *(one for later in node.args[place:] for one in later.axes)}
        left, summing_left = _without(current, needed | set(arg.axes))
        right, summing_right = _without(_Operand(arg.axes, _held(arg)), needed | set(current.axes))
        both = tuple(dict.fromkeys((*left.axes, *right.axes)))
        kept = tuple(one for one in both if one in needed)
        current = _Operand(kept, entries(kept))
        product = Cost(multiply_adds=entries(both), moved=left.held + right.held + current.held)
        cost = cost + summing_left + summing_right + product
    return cost + _without(current, set(node.out))[1]


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a product: its axes, and the entries that it takes in memory."""

    axes: tuple[Axis, ...]
    held: Size


def _without(operand: _Operand, needed: set[Axis]) -> tuple[_Operand, Cost]:
    """The operand summed over the axes that are not needed, and what that costs."""
    kept = tuple(one for one in operand.axes if one in needed)
    if kept == operand.axes:
        return operand, Cost()
    summed = _Operand(kept, entries(kept))
    return summed, Cost(pointwise=entries(operand.axes), moved=operand.held + summed.held)


def _reduce(node: Reduce) -> Cost:
    return Cost(pointwise=entries(node.arg.axes), moved=_traffic(node)) if node.over else Cost()


def _softmax(node: Softmax) -> Cost:
    each = 3 if node.keep is None else 4
    return Cost(pointwise=each * entries(node.axes), moved=_traffic(node))


def _sum_of_family(node: Total) -> Cost:
    members = node.index.axis.size
    return Cost(
        pointwise=members * entries(node.axes), moved=members * _held(node.body) + entries(node.axes)
    )


#: what each node costs; leaves and changes of axes cost nothing, by the conventions of this module
COSTS: dict[type[Expr], Callable[[Any], Cost]] = {
    **dict.fromkeys((Input, Scalar, Table), _nothing),
    **dict.fromkeys((Split, Join, Transpose, Repeat, Rename, Reshape, Permute, Select, Block, Blocks), _nothing),
    **dict.fromkeys((Stack, Concat, Named), _nothing),
    Compare: _compare,
    Map: _map,
    Contract: _contract,
    Reduce: _reduce,
    Softmax: _softmax,
    Total: _sum_of_family,
}
