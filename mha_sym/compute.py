"""What evaluation computes at each node: the table `HANDLERS` from node type to function, and the `Run` they share.

Axes go through einops, contractions through matrix multiplication; families are computed member by member, as separate
heads are.  Nothing is simplified or reordered on the way.  The arrays were checked before (`mha_sym.arrays`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np
from einops import rearrange

from mha_sym.arrays import check_permutation, size_value, substituted, whole
from mha_sym.axes import Axis, Index
from mha_sym.backends import Array, Backend, is_traced
from mha_sym.contraction import Operand, contract
from mha_sym.errors import DataProblem, NoValue, show_axes
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
from mha_sym.plan import Plan

MaskedRows = Literal["refuse", "zero"]
Env = Mapping[Index, int]


class Value(NamedTuple):
    """An array, and whether nobody else reads it, so that it may be overwritten."""

    array: Array
    owned: bool


# ---------------------------------------------------------------- the run


@dataclass(frozen=True)
class Run:
    """One evaluation: its arrays, sizes and backend, and the values that are read more than once."""

    backend: Backend
    sizes: Mapping[str, int]
    arrays: Mapping[str, Array]
    permutations: Mapping[str, Sequence[int]]
    functions: Mapping[str, Callable[..., Array]]
    masked_rows: MaskedRows
    plan: Plan
    memo: dict[tuple[int, ...], Value] = field(default_factory=dict)

    def free_positions(self, roots: Iterable[Expr], given: Mapping[str, int]) -> dict[Index, int]:
        """The positions of the indices that no root binds."""
        env: dict[Index, int] = {}
        for index in {index: None for root in roots for index in self.plan.free[self.plan.number[id(root)]]}:
            size = self.size(index.axis)
            if index.name not in given:
                raise DataProblem(
                    f"index {index.name!r} is bound by nothing", expected=f"a position of axis {index.axis.name!r}",
                    hint=f"give indices={{{index.name!r}: ...}}, or bind it with Stack, Concat or Total",
                )
            env[index] = whole(given[index.name], f"index {index.name!r}", 0, size - 1)
        surplus = sorted(set(given) - {index.name for index in env})
        if surplus:
            raise DataProblem(f"nothing reads the index {surplus[0]!r}", got=", ".join(given))
        return env

    def take(self, node: Expr, env: Env) -> Value:
        """The value of a node; computed at most once for each position of its free indices."""
        number = self.plan.number[id(node)]
        once = number in self.plan.once
        free = self.plan.free[number]
        key = (number, *[env[index] for index in free]) if free else (number,)
        if key in self.memo:
            return self.memo.pop(key) if once else self.memo[key]
        made_by = self.plan.nodes[number]
        handler = HANDLERS.get(type(made_by))
        if handler is None:
            raise NotImplementedError(f"evaluate has no entry for the node {type(made_by).__name__}")
        array, owned = handler(made_by, self, env)
        value = Value(self.backend.wrap(array), owned and once)
        if not once:
            self.memo[key] = value
        return value

    def prepare(self, env: Env) -> None:
        """Compute all that depends on no other index, leaves first: a deep expression needs no deep recursion."""
        for number, free in enumerate(self.plan.free):
            if all(index in env for index in free):
                node = self.plan.nodes[number]
                self.memo[(number, *(env[index] for index in free))] = self.take(node, env)

    def size(self, axis: Axis) -> int:
        """The number of positions of an axis."""
        return size_value(axis, self.sizes)

    def members(self, node: Stack | Concat | Total, env: Env) -> Iterable[Value]:
        """The body of a family, member by member."""
        for position in range(self.size(node.index.axis)):
            yield self.take(node.body, {**env, node.index: position})


def _aligned(array: Array, axes: tuple[Axis, ...], out: tuple[Axis, ...]) -> Array:
    """The array with its axes in the order of ``out``, and axes of size one for those it lacks."""
    if axes == out:
        return array
    left = " ".join(f"x{out.index(a)}" for a in axes)
    right = " ".join(f"x{n}" if a in axes else "1" for n, a in enumerate(out))
    return rearrange(array, f"{left} -> {right}")


# ---------------------------------------------------------------- leaves


def _input(node: Input, run: Run, env: Env) -> Value:
    return Value(run.arrays[node.name], False)


def _scalar(node: Scalar, run: Run, env: Env) -> Value:
    return Value(run.backend.number(substituted(node.value, run.sizes, "a scalar")), False)


def _table(node: Table, run: Run, env: Env) -> Value:
    shape = tuple(run.size(a) for a in node.over)
    values = np.empty(shape, object)
    for place in np.ndindex(*shape):
        entry: Any = node.values
        for i in place:
            entry = entry[i]
        values[place] = entry
    return Value(run.backend.constant(values), False)


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "le": np.less_equal, "lt": np.less, "ge": np.greater_equal, "gt": np.greater, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def _compare(node: Compare, run: Run, env: Env) -> Value:
    left, right = np.arange(run.size(node.left)), np.arange(run.size(node.right))
    return Value(run.backend.constant(_COMPARISONS[node.op](left[:, None], right + node.offset)), False)


# ---------------------------------------------------------------- arithmetic


def _map(node: Map, run: Run, env: Env) -> Value:
    if node.op.startswith("fn:"):
        return _function(node, run, env)
    values = [run.take(arg, env) for arg in node.args]
    arrays = [_aligned(v.array, arg.axes, node.axes) for v, arg in zip(values, node.args, strict=True)]
    if node.op in ("add", "mul"):
        return _fold(node, run, values, arrays)
    if node.op == "inv":
        _refuse_zero(node, run, arrays[0])
    operation = getattr(run.backend, node.op)
    return Value(operation(arrays[0], into=values[0].owned), True)


def _fold(node: Map, run: Run, values: Sequence[Value], arrays: list[Array]) -> Value:
    """The sum or product of all arguments, gathered in one that has all axes, if possible in one that is owned."""
    full = [n for n, arg in enumerate(node.args) if len(arg.axes) == len(node.axes)]
    start = next((n for n in full if values[n].owned), full[0])
    result, owned = arrays[start], values[start].owned
    operation = run.backend.add if node.op == "add" else run.backend.mul
    for n, array in enumerate(arrays):
        if n != start:
            result, owned = run.backend.wrap(operation(result, array, into=owned)), True
    return Value(result, owned)


def _function(node: Map, run: Run, env: Env) -> Value:
    name = node.op.removeprefix("fn:")
    if name not in run.functions:
        raise DataProblem(
            f"no function {name!r} is given", expected="what it computes", hint=f"give functions={{{name!r}: ...}}"
        )
    arrays = [_aligned(run.take(arg, env).array, arg.axes, node.axes) for arg in node.args]
    result = run.backend.wrap(run.functions[name](*arrays))
    expected = tuple(run.size(a) for a in node.axes)
    if tuple(result.shape) != expected:
        raise DataProblem(f"function {name!r} changed the shape", expected=str(expected), got=str(tuple(result.shape)))
    return Value(result, False)


def _refuse_zero(node: Map, run: Run, array: Array) -> None:
    if run.backend.exact or is_traced(array):
        return  # exact elements refuse it themselves; nothing is known of traced ones
    zero = np.argwhere(~run.backend.to_numpy(run.backend.truth(array)))
    if len(zero):
        raise NoValue("the inverse of 0 is asked for", where=f"inv at {_place(node.axes, zero[0])}")


def _contract(node: Contract, run: Run, env: Env) -> Value:
    operands = [Operand(run.take(arg, env).array, tuple(a.name for a in arg.axes)) for arg in node.args]
    result = contract(run.backend, operands, tuple(a.name for a in node.out))
    return Value(result, len(operands) > 1)


def _dims(node: Expr, over: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(node.axes.index(a) for a in over)


def _reduce(node: Reduce, run: Run, env: Env) -> Value:
    array = run.take(node.arg, env).array
    if not node.over:
        return Value(array, False)
    operation = run.backend.total if node.op == "sum" else run.backend.largest
    return Value(operation(array, _dims(node.arg, node.over)), True)


def _softmax(node: Softmax, run: Run, env: Env) -> Value:
    value = run.take(node.arg, env)
    keep = None
    if node.keep is not None:
        keep = run.backend.truth(_aligned(run.take(node.keep, env).array, node.keep.axes, node.axes))
    done = run.backend.softmax(value.array, _dims(node, node.over), keep, into=value.owned)
    if done.wild is not None and done.wild.any():
        raise NoValue("scores are no finite numbers", where="softmax", got=_rows(node, done.wild))
    if done.dead is not None and done.dead.any() and run.masked_rows == "refuse":
        raise NoValue(
            "a row keeps no key", where="softmax over " + ", ".join(a.name for a in node.over),
            expected="at least one key kept in every row; without one the specification has no value (0/0)",
            got=_rows(node, done.dead), axes=[show_axes(node.axes)],
            hint="keep a key, or say masked_rows='zero' for weights 0 there",
        )
    return Value(done.weights, True)


def _rows(node: Softmax, bad: np.ndarray[Any, Any]) -> str:
    """The first rows of a softmax that are bad, and their number."""
    rows = tuple(a for a in node.axes if a not in node.over)
    places = np.argwhere(bad)[:, [n for n, a in enumerate(node.axes) if a not in node.over]]
    shown = "; ".join(_place(rows, place) for place in places[:3])
    return f"at {shown}" + (f"; ... {len(places)} rows in all" if len(places) > 3 else "")


def _place(axes: Sequence[Axis], place: Iterable[int]) -> str:
    return ", ".join(f"{a.name}={i}" for a, i in zip(axes, place, strict=True)) or "the only one"


# ---------------------------------------------------------------- axes


def _split(node: Split, run: Run, env: Env) -> Value:
    value = run.take(node.arg, env)
    inner = " ".join(f"y{n}" for n in range(len(node.axis_.factors)))
    left = " ".join(f"({inner})" if a == node.axis_ else f"x{n}" for n, a in enumerate(node.arg.axes))
    sizes = {f"y{n}": run.size(a) for n, a in enumerate(node.axis_.factors)}
    return Value(rearrange(value.array, f"{left} -> {left.replace('(', '').replace(')', '')}", **sizes), value.owned)


def _join(node: Join, run: Run, env: Env) -> Value:
    value = run.take(node.arg, env)
    names = [f"x{n}" for n in range(len(node.arg.axes))]
    start = node.arg.axes.index(node.factors[0])
    end = start + len(node.factors)
    right = [*names[:start], "(" + " ".join(names[start:end]) + ")", *names[end:]]
    return Value(rearrange(value.array, f"{' '.join(names)} -> {' '.join(right)}"), value.owned)


def _transpose(node: Transpose, run: Run, env: Env) -> Value:
    value = run.take(node.arg, env)
    return Value(_aligned(value.array, node.arg.axes, node.order), value.owned)


def _repeat(node: Repeat, run: Run, env: Env) -> Value:
    array = _aligned(run.take(node.arg, env).array, node.arg.axes, node.out)
    return Value(run.backend.expand(array, [run.size(a) for a in node.out]), False)


def _same(node: Rename | Named, run: Run, env: Env) -> Value:
    return run.take(node.arg, env)


def _reshape(node: Reshape, run: Run, env: Env) -> Value:
    value = run.take(node.arg, env)
    return Value(value.array.reshape(tuple(run.size(a) for a in node.shape)), value.owned)


def _permute(node: Permute, run: Run, env: Env) -> Value:
    order = check_permutation(node.perm, run.permutations, run.size(node.perm.axis))
    return Value(run.backend.take(run.take(node.arg, env).array, order, node.axes.index(node.perm.axis)), True)


# ---------------------------------------------------------------- families and blocks


def _slice(array: Array, dim: int, at: int | slice) -> Array:
    return array[(slice(None),) * dim + (at,)]


def _select(node: Select, run: Run, env: Env) -> Value:
    value = run.take(node.arg, env)
    at = env[node.at] if isinstance(node.at, Index) else node.at
    if at >= run.size(node.axis_):
        raise DataProblem(f"no position {at} in axis {node.axis_.name!r}", expected=f"0 to {run.size(node.axis_) - 1}")
    return Value(_slice(value.array, node.arg.axes.index(node.axis_), at), value.owned)


def _stack(node: Stack, run: Run, env: Env) -> Value:
    return Value(run.backend.stack([v.array for v in run.members(node, env)]), True)


def _concat(node: Concat, run: Run, env: Env) -> Value:
    parts = [v.array for v in run.members(node, env)]
    return Value(run.backend.concat(parts, node.body.axes.index(node.along)), True)


def _total(node: Total, run: Run, env: Env) -> Value:
    members = iter(run.members(node, env))
    result, owned = next(members)
    for member in members:
        result, owned = run.backend.wrap(run.backend.add(result, member.array, into=owned)), True
    return Value(result, owned)


def _blocks(node: Blocks, run: Run, env: Env) -> Value:
    parts = [run.take(arg, env).array for arg in node.args]
    return Value(run.backend.concat(parts, node.args[0].axes.index(node.parts[0])), True)


def _block(node: Block, run: Run, env: Env) -> Value:
    value = run.take(node.arg, env)
    ends = [0, *accumulate(run.size(a) for a in node.axis_.blocks)]
    at = slice(ends[node.number], ends[node.number + 1])
    return Value(_slice(value.array, node.arg.axes.index(node.axis_), at), value.owned)


#: what computes each node
HANDLERS: dict[type[Expr], Callable[[Any, Run, Env], Value]] = {
    Input: _input, Scalar: _scalar, Table: _table, Compare: _compare,
    Map: _map, Contract: _contract, Reduce: _reduce, Softmax: _softmax,
    Split: _split, Join: _join, Transpose: _transpose, Repeat: _repeat, Rename: _same, Reshape: _reshape,
    Permute: _permute, Select: _select, Stack: _stack, Concat: _concat, Total: _total,
    Blocks: _blocks, Block: _block, Named: _same,
}  # fmt: skip
