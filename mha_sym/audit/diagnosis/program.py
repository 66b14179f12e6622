"""One step of a form as a function of arrays, run on many arguments at once.

Defines `Program`, `program_of`, `argument` and `run_on`.  Where a step treats every sample by itself, the arguments of
many are put end to end along the batch axis and computed as one; whether it does is read off its expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mha_sym.audit.pointwise import POINTWISE
from mha_sym.audit.precision import Array
from mha_sym.audit.setting import Setting
from mha_sym.axes import Axis
from mha_sym.errors import NoValue
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import (
    Contract,
    Expr,
    Input,
    Join,
    Map,
    Named,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Transpose,
    inputs,
    walk,
)
from mha_sym.plan import plan_of

#: how many arguments are put end to end at most
_MOST = 256

#: how inputs are called that stand for arguments
_ARGUMENT = "argument "

#: nodes that treat every sample by itself whatever else they do, if no other axis has anything of the batch
_HARMLESS = (Input, Map, Named, Transpose, Repeat, Split)


@dataclass(frozen=True, eq=False)
class Program:
    """A step of a form.

    Attributes:
        expr: what it computes from its arguments, and from weights and masks.
        takes: which of the arguments that it is given it reads.
        batch: the batch axis, if every sample is treated by itself.
    """

    expr: Expr
    takes: tuple[int, ...]
    batch: Axis | None


def argument(number: int, axes: tuple[Axis, ...]) -> Input:
    """What stands for an argument in the expression of a step."""
    return Input(f"{_ARGUMENT}{number}", axes, "mask")  # scores of hidden keys may be minus infinity, as masks may


def program_of(expr: Expr) -> Program:
    """The step that an expression of some arguments is."""
    read = {one.name: one for one in inputs(expr) if one.name.startswith(_ARGUMENT)}
    takes = tuple(sorted(int(name.removeprefix(_ARGUMENT)) for name in read))
    batches = {one for argument in read.values() for one in argument.axes if one.name == "b"}
    batch = batches.pop() if len(batches) == 1 else None
    free = batch is not None and batch.size.is_Symbol and all(_apart(node, batch) for node in walk(expr))
    return Program(expr, takes, batch if free and batch in expr.axes else None)


def _apart(node: Expr, b: Axis) -> bool:
    """Whether a node treats every sample by itself."""
    if any(one != b and b.size in one.size.free_symbols for one in node.axes):
        return False
    if isinstance(node, Scalar):
        return b.size not in node.value.free_symbols
    if isinstance(node, Softmax | Reduce):
        return b not in node.over
    if isinstance(node, Contract):
        return b in node.out or not any(b in one.axes for one in node.args)
    if isinstance(node, Reshape):
        places = [axes.index(b) if b in axes else -1 for axes in (node.arg.axes, node.shape)]
        return places in ([0, 0], [-1, -1])
    if isinstance(node, Join):
        return b not in node.factors
    if isinstance(node, Rename):
        return b not in (node.old, node.new)
    if isinstance(node, Select):
        return b != node.axis_
    return isinstance(node, _HARMLESS) or not any(b in one.axes for one in (node, *node.children))


# ---------------------------------------------------------------- running it


def run_on(program: Program, setting: Setting, many: Sequence[tuple[Array, ...]]) -> list[Array | None]:
    """What a step makes of each of many arguments; None where it has no value."""
    if program.batch is None:
        return [_value(program, setting, one, 1) for one in many]
    found: list[Array | None] = []
    for start in range(0, len(many), _MOST):
        found += _together(program, setting, many[start : start + _MOST])
    return found


def _together(program: Program, setting: Setting, many: Sequence[tuple[Array, ...]]) -> list[Array | None]:
    """The same, computed as one batch; in halves where that has no value."""
    b = program.batch
    assert b is not None  # it is run one by one otherwise
    count, axes = len(many), {one.name: one.axes for one in inputs(program.expr)}
    places = [axes[f"{_ARGUMENT}{n}"].index(b) if b in axes[f"{_ARGUMENT}{n}"] else -1 for n in program.takes]
    joined = []
    for place, values in zip(places, zip(*many, strict=True), strict=True):
        if place < 0 and count > 1:  # an argument without samples is the same for all, or there is nothing to join
            return [_value(program, setting, one, 1) for one in many]
        joined.append(np.concatenate(values, axis=place) if count > 1 else values[0])
    whole = _value(program, setting, tuple(joined), count)
    if whole is not None:
        return list(np.split(whole, count, axis=program.expr.axes.index(b)))
    if count == 1:
        return [None]
    half = count // 2
    return [*_together(program, setting, many[:half]), *_together(program, setting, many[half:])]


def _value(program: Program, setting: Setting, values: tuple[Array, ...], count: int) -> Array | None:
    """The value for ``count`` batches end to end."""
    plan = plan_of([program.expr])
    given = {f"{_ARGUMENT}{n}": value for n, value in zip(program.takes, values, strict=True)}
    arrays = {name: given[name] if name in given else _tiled(program, setting, name, count) for name in plan.inputs}
    try:
        (found,) = evaluate_all(
            [program.expr], arrays, sizes=_sizes(program, setting.sizes, count, plan.sizes), functions=POINTWISE,
            masked_rows="zero",
        )  # fmt: skip
    except NoValue:
        return None
    return np.asarray(found)


def _tiled(program: Program, setting: Setting, name: str, count: int) -> Array:
    """A weight or a mask, as often as there are batches if it has samples."""
    value = setting.arrays[name]
    axes = plan_of([program.expr]).inputs[name].axes
    if count == 1 or program.batch not in axes:
        return value
    return np.concatenate([value] * count, axis=axes.index(program.batch))


def _sizes(program: Program, sizes: Mapping[str, int], count: int, read: frozenset[str]) -> dict[str, int]:
    known = {name: size for name, size in sizes.items() if name in read}
    if count > 1 and program.batch is not None:
        known[program.batch.size.name] *= count
    return known
