"""What the second engine computes at each node: the table `HANDLERS` from node type to function.

A value is a tuple of labels, axes or family indices, and the entries along them; on an axis that is not among
the labels the entries do not depend.  A family is computed for all its members at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy

from mha_sym.axes import Axis, Index
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
from mha_sym.proof.exponential_sums import Beyond, Sums

if TYPE_CHECKING:
    from mha_sym.proof.field import Trial

Label = Axis | Index
Labels = tuple[Label, ...]
Value = tuple[Labels, Sums]


def _input(trial: Trial, node: Input) -> Value:
    return node.over, trial.drawn[node.name]


def _scalar(trial: Trial, node: Scalar) -> Value:
    values = np.empty((), object)
    values[()] = trial.number(node.value)
    return (), trial.field.scalars(values, trial.bits(node.value))


def flat_values(values: Any) -> list[Any]:
    """The cells of a table, row by row."""
    return [one for row in values for one in flat_values(row)] if isinstance(values, tuple) else [values]


def _table(trial: Trial, node: Table) -> Value:
    flat = flat_values(node.values)
    values = np.empty(len(flat), object)
    values[:] = [trial.field.constant(one) for one in flat]
    height = max(map(trial.bits, map(sympy.Rational, flat)))
    return node.over, trial.field.scalars(values.reshape(tuple(map(trial.size, node.over))), height)


def _compare(trial: Trial, node: Compare) -> Value:
    left = np.arange(trial.size(node.left))[:, None]
    right = np.arange(trial.size(node.right)) + node.offset
    truth = {
        "le": left <= right, "lt": left < right, "ge": left >= right, "gt": left > right, "eq": left == right,
        "ne": left != right,
    }[node.op]  # fmt: skip
    return (node.left, node.right), trial.field.integers(truth.astype(np.int64))


def _map(trial: Trial, node: Map) -> Value:
    values = [trial.take(arg) for arg in node.args]
    labels, first = values[0]
    match node.op:
        case "add":
            return trial.together(values, trial.field.add)
        case "mul":
            return trial.together(values, trial.field.mul)
        case "neg":
            return labels, trial.field.neg(first)
        case "exp":
            return labels, trial.field.exp(first)
        case "inv":
            return labels, trial.field.inverse(first)
    labels = tuple(dict.fromkeys(one for have, _ in values for one in have))
    return labels, trial.field.function(node.op, [trial.aligned(one, labels) for one in values])


def _contract(trial: Trial, node: Contract) -> Value:
    """The product from the left; what no later factor and not the result mentions is summed at once."""
    rest = [trial.take(arg) for arg in node.args]
    axes = [set(arg.axes) for arg in node.args]
    value = rest[0]
    for n in range(len(rest)):
        if n:
            value = trial.together([value, rest[n]], trial.field.mul)
        later: set[Axis] = set(node.out).union(*axes[n + 1 :])
        now = [one for one in dict.fromkeys(a for arg in node.args[: n + 1] for a in arg.axes) if one not in later]
        value = trial.total(value, [one for one in now if one not in _gone(axes[:n], axes[n:], node.out)])
    return value


def _gone(before: list[set[Axis]], after: list[set[Axis]], out: tuple[Axis, ...]) -> set[Axis]:
    """Axes that were summed away before: only earlier factors have them."""
    return set().union(*before) - set().union(*after) - set(out)


def _reduce(trial: Trial, node: Reduce) -> Value:
    value = trial.take(node.arg)
    if node.op == "sum":
        return trial.total(value, node.over)
    for axis in reversed(node.over):  # the last innermost
        indices = tuple(one for one in value[0] if one != axis)
        value = indices, trial.field.largest(trial.full(value, (*indices, axis)), len(indices))
    return value


def _softmax(trial: Trial, node: Softmax) -> Value:
    labels, scores = trial.take(node.arg)
    weights: Value = labels, trial.field.exp(scores)
    if node.keep is not None:
        weights = trial.together([weights, trial.take(node.keep)], trial.field.mul)
    labels, sums = trial.total(weights, node.over)
    return trial.together([weights, (labels, trial.field.inverse(sums))], trial.field.mul)


def _regrouped(trial: Trial, node: Split | Join | Reshape) -> Value:
    indices, sums = trial.opened(trial.take(node.arg), node.arg.axes)
    labels = (*indices, *node.axes)
    return labels, sums.reshaped([trial.extent(one) for one in labels])


def _same(trial: Trial, node: Transpose | Repeat | Named) -> Value:
    return trial.take(node.arg)


def _rename(trial: Trial, node: Rename) -> Value:
    labels, sums = trial.take(node.arg)
    return tuple(node.new if one == node.old else one for one in labels), sums


def _permute(trial: Trial, node: Permute) -> Value:
    labels, sums = trial.take(node.arg)
    if node.perm.axis not in labels:
        return labels, sums
    order = trial.orders[node.perm.name]
    if len(order) != trial.size(node.perm.axis):
        raise Beyond(f"permutation {node.perm.name} is one of two axes")
    order = np.argsort(order) if node.perm.inverted else order
    axis = labels.index(node.perm.axis) + 1
    return labels, sums.each(lambda x: x.take(order, axis))


def _select(trial: Trial, node: Select) -> Value:
    labels, sums = trial.take(node.arg)
    if node.axis_ not in labels:
        return labels, sums
    axis, at = labels.index(node.axis_), node.at
    if not isinstance(at, Index):
        if at >= trial.size(node.axis_):
            raise Beyond(f"no position {at} in axis {node.axis_.name}")
        return labels[:axis] + labels[axis + 1 :], sums.each(lambda x: np.asarray(x.take(at, axis + 1)))
    if at not in labels:
        return tuple(at if one == node.axis_ else one for one in labels), sums
    other = labels.index(at)
    rest = tuple(one for one in labels if one not in (node.axis_, at))

    def diagonal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.moveaxis(x.diagonal(0, axis + 1, other + 1), -1, 1)

    return (at, *rest), sums.each(diagonal)


def _stack(trial: Trial, node: Stack) -> Value:
    labels, sums = trial.take(node.body)
    return tuple(node.index.axis if one == node.index else one for one in labels), sums


def _concat(trial: Trial, node: Concat) -> Value:
    value = trial.take(node.body)
    rest = tuple(one for one in value[0] if one not in (node.index, node.along))
    sums = trial.full(value, (*rest, node.index, node.along))
    whole = next(a for a in node.axes if a.factors == (node.index.axis, node.along))
    labels = (*rest, whole)
    return labels, sums.reshaped([trial.extent(one) for one in labels])


def _total(trial: Trial, node: Total) -> Value:
    return trial.total(trial.take(node.body), [node.index])


def _blocks(trial: Trial, node: Blocks) -> Value:
    """The blocks end to end: the entries of each among zeros, added."""
    whole = next(a for a in node.axes if a.blocks == node.parts)
    sizes = [trial.size(one) for one in node.parts]
    values: list[Value] = []
    for arg, part, end in zip(node.args, node.parts, accumulate(sizes), strict=True):
        labels, sums = trial.take(arg)
        rest = tuple(one for one in labels if one != part)
        wide = trial.full((labels, sums), (*rest, part))
        before, after = end - sizes[node.parts.index(part)], sum(sizes) - end
        values.append(((*rest, whole), wide.each(partial(_among_zeros, axis=len(rest) + 1, ends=(before, after)))))
    return trial.together(values, trial.field.add)


def _among_zeros(x: np.ndarray[Any, Any], axis: int, ends: tuple[int, int]) -> np.ndarray[Any, Any]:
    return np.pad(x, [ends if n == axis else (0, 0) for n in range(x.ndim)])


def _block(trial: Trial, node: Block) -> Value:
    labels, sums = trial.take(node.arg)
    if node.axis_ not in labels:
        return labels, sums
    ends = [0, *accumulate(trial.size(one) for one in node.axis_.blocks)]
    at = slice(ends[node.number], ends[node.number + 1])
    piece, axis = node.axis_.blocks[node.number], labels.index(node.axis_)
    cut = sums.each(lambda x: x[(slice(None),) * (axis + 1) + (at,)])
    return tuple(piece if one == node.axis_ else one for one in labels), cut


#: what computes each node
HANDLERS: dict[type[Expr], Callable[[Trial, Any], Value]] = {
    Input: _input, Scalar: _scalar, Table: _table, Compare: _compare, Map: _map, Contract: _contract,
    Reduce: _reduce, Softmax: _softmax, Split: _regrouped, Join: _regrouped, Transpose: _same, Repeat: _same,
    Rename: _rename, Reshape: _regrouped, Permute: _permute, Select: _select, Stack: _stack, Concat: _concat,
    Total: _total, Blocks: _blocks, Block: _block, Named: _same,
}  # fmt: skip


# ---------------------------------------------------------------- what is known of an expression without its value


def of_numbers(node: Expr) -> bool:
    """Whether a node keeps among whole numbers."""
    if isinstance(node, Input):
        return node.boolean
    return not isinstance(node, Softmax) and not (isinstance(node, Map) and node.op not in ("add", "mul", "neg"))


def bare(expr: Expr) -> Expr:
    """What an expression is but for names and the order of its axes."""
    while isinstance(expr, Named | Transpose | Repeat | Rename | Split | Join | Select | Permute):
        expr = expr.arg
    return expr


def sum_of_positive(expr: Expr) -> bool:
    """Whether an expression is made of 0/1 inputs and exponentials so that it is positive where it is not zero."""
    match expr:
        case Input(boolean=boolean):
            return boolean
        case Compare() | Softmax() | Map("exp"):
            return True
        case Scalar(value=value):
            return bool(value.is_positive)
        case Map("add" | "mul" | "inv") | Contract() | Reduce("sum") | Total() | Stack() | Concat() | Named():
            return all(map(sum_of_positive, expr.children))
        case Split() | Join() | Transpose() | Repeat() | Rename() | Permute() | Select():
            return all(map(sum_of_positive, expr.children))
        case _:
            return False
