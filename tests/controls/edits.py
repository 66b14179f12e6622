"""Systematic edits: every way in which one node of an expression may be got wrong, with what it is called.

`edits` yields them for one node.  Each has the axes of the node again, in any order; whether it changes the value is
for the engines to say (a factor of 1, a shift of a softmax and the like change nothing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import sympy

from mha_sym.axes import Axis, Permutation
from mha_sym.errors import AxisProblem
from mha_sym.expr import (
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Join,
    Map,
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
    Total,
    Transpose,
    is_boolean,
    walk,
)

Edit = Callable[[Expr, "Around"], Iterator[Expr]]


@dataclass(frozen=True)
class Around:
    """What else an expression speaks of: its inputs, its permutations, and the sizes in its scalars."""

    inputs: tuple[Input, ...]
    permutations: tuple[Permutation, ...]
    sizes: tuple[sympy.Symbol, ...]

    @classmethod
    def of(cls, exprs: Sequence[Expr]) -> Around:
        nodes = [node for expr in exprs for node in walk(expr)]
        perms = {node.perm.axis: node.perm for node in nodes if isinstance(node, Permute)}
        symbols = {s for node in nodes for one in node.axes for s in one.size.free_symbols}
        return cls(
            tuple(dict.fromkeys(node for node in nodes if isinstance(node, Input))),
            tuple(perms.values()) or _fresh_permutations(nodes),
            tuple(sorted(symbols, key=str)),
        )


def _fresh_permutations(nodes: Sequence[Expr]) -> tuple[Permutation, ...]:
    """Permutations of heads and of tokens, for expressions that have none."""
    plain = {one for node in nodes for one in node.axes if one.is_plain and one.size.is_Symbol}
    chosen = sorted((one for one in plain if one.name in ("h", "t")), key=lambda one: one.name)
    return tuple(Permutation(f"wrong_{one.name}", one) for one in chosen)


def edits(node: Expr, around: Around) -> Iterator[tuple[str, Expr]]:
    """All edits of a node, by name; those that cannot be built are left out.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t"),))
        >>> sorted({name for name, _ in edits(x * 2, Around.of([x]))})
        ['added', 'factor_dropped', 'permuted', 'scaled', 'sign']
    """
    for edit in EDITS:
        made = edit(node, around)
        while True:
            try:
                new = next(made)
            except StopIteration:
                break
            except AxisProblem:  # ends the generator: its later variants are of the same kind
                break
            if new != node and set(new.axes) == set(node.axes):
                yield edit.__name__.strip("_"), new if new.axes == node.axes else Transpose(new, node.axes)


# ---------------------------------------------------------------- axes


def _axes_swapped(e: Expr, _: Around) -> Iterator[Expr]:
    """Two axes of one size exchanged."""
    for one, two in combinations(e.axes, 2):
        if one.size == two.size and one.is_plain and two.is_plain:
            spare = Axis("spare", one.size)
            yield Rename(Rename(Rename(e, one, spare), two, one), spare, two)


def _raw(e: Expr, _: Around) -> Iterator[Expr]:
    """A transpose done as a reshape."""
    if isinstance(e, Transpose) and e.order != e.arg.axes and not any(a.blocks for a in e.axes):
        yield Reshape(e.arg, e.order)


def _interleaved(e: Expr, _: Around) -> Iterator[Expr]:
    """The factors of a product axis read in the wrong order."""
    if isinstance(e, Split):
        yield Reshape(e.arg, tuple(p for a in e.arg.axes for p in (a.factors[::-1] if a == e.axis_ else (a,))))
    if isinstance(e, Join):
        start = e.arg.axes.index(e.factors[0])
        before, after = e.arg.axes[:start], e.arg.axes[start + len(e.factors) :]
        yield Reshape(Transpose(e.arg, (*before, *e.factors[::-1], *after)), e.axes)
    if isinstance(e, Concat):
        stacked = Stack(e.body, e.index)
        rest = tuple(a for a in stacked.axes if a not in (e.index.axis, e.along))
        whole = next(a for a in e.axes if a.factors)
        yield Reshape(Transpose(stacked, (*rest, e.along, e.index.axis)), (*rest, whole))


def _other_axis(e: Expr, _: Around) -> Iterator[Expr]:
    """A softmax over another axis."""
    if isinstance(e, Softmax):
        for one in e.axes:
            if (one,) != e.over:
                yield replace(e, over=(one,))


# ---------------------------------------------------------------- factors, indices, sums


def _factor_dropped(e: Expr, _: Around) -> Iterator[Expr]:
    if isinstance(e, Map) and len(e.args) > 1:
        for n in range(len(e.args)):
            rest = e.args[:n] + e.args[n + 1 :]
            kept = rest[0] if len(rest) == 1 else Map(e.op, rest)
            yield kept if set(kept.axes) == set(e.axes) else Repeat(kept, e.axes)
    if isinstance(e, Contract) and len(e.args) > 1:
        for n in range(len(e.args)):
            rest = e.args[:n] + e.args[n + 1 :]
            if set(e.out) <= {a for arg in rest for a in arg.axes}:
                yield Contract(rest, e.out)


def _factor_twice(e: Expr, _: Around) -> Iterator[Expr]:
    if isinstance(e, Contract):
        yield from (Contract((*e.args, arg), e.out) for arg in e.args)


def _index_changed(e: Expr, _: Around) -> Iterator[Expr]:
    """Always the first slice in place of the r-th, and the second in place of the first."""
    if isinstance(e, Select):
        yield replace(e, at=e.at + 1 if isinstance(e.at, int) else 0)


def _not_summed(e: Expr, _: Around) -> Iterator[Expr]:
    """The maximum, or the first entry, in place of the sum; one factor of a sum left out of it."""
    if isinstance(e, Reduce) and e.op == "sum" and len(e.over) == 1:
        yield replace(e, op="max")
        yield Select(e.arg, e.over[0], 0)
    if isinstance(e, Total) and not any(isinstance(n, Stack | Concat | Total) for n in walk(e.body)):
        yield Select(Stack(e.body, e.index), e.index.axis, 0)
    if isinstance(e, Contract):
        yield from (_first_of(e, one) for one in e.summed)


def _first_of(e: Contract, one: Axis) -> Expr:
    return Contract(tuple(Select(a, one, 0) if one in a.axes else a for a in e.args), e.out)


# ---------------------------------------------------------------- signs and scales


def _sign(e: Expr, _: Around) -> Iterator[Expr]:
    if not is_boolean(e):
        yield Map("neg", (e,))
    if isinstance(e, Map) and e.op == "exp":
        yield Map("exp", (Map("neg", e.args),))
    if isinstance(e, Softmax):
        yield replace(e, arg=Map("neg", (e.arg,)))


def _scaled(e: Expr, around: Around) -> Iterator[Expr]:
    if is_boolean(e):
        return
    for size in around.sizes:
        yield Map("mul", (e, Scalar(1 / sympy.sqrt(size))))
    yield Map("mul", (e, Scalar(sympy.Integer(2))))


def _scale_changed(e: Expr, around: Around) -> Iterator[Expr]:
    if isinstance(e, Scalar) and e.value not in (0, 1):
        yield from (Scalar(e.value**2), Scalar(1 / e.value), Scalar(e.value + 1))
        for size in around.sizes:
            for one in e.value.free_symbols - {size}:
                yield Scalar(e.value.subs(one, size))


# ---------------------------------------------------------------- masks, biases, inputs


def _mask(e: Expr, _: Around) -> Iterator[Expr]:
    if isinstance(e, Compare):
        for op in ("le", "lt", "ge", "gt", "eq", "ne"):
            yield replace(e, op=op)
        yield from (replace(e, offset=e.offset + n) for n in (1, -1))
    if isinstance(e, Softmax) and e.keep is not None:
        yield replace(e, keep=None)
    if isinstance(e, Softmax) and e.keep is None:
        for one in e.axes:
            if one not in e.over and len(e.over) == 1:
                yield replace(e, keep=Compare("le", e.over[0], one))


def _after_softmax(e: Expr, _: Around) -> Iterator[Expr]:
    """The mask multiplied with the weights after they were normalised, in place of before."""
    if isinstance(e, Softmax) and e.keep is not None:
        yield Map("mul", (replace(e, keep=None), e.keep))


def _not_normalised(e: Expr, _: Around) -> Iterator[Expr]:
    if isinstance(e, Softmax):
        power = Map("exp", (e.arg,))
        yield power if e.keep is None else Map("mul", (power, e.keep))


def _added(e: Expr, _: Around) -> Iterator[Expr]:
    """A bias that does not belong there, along all axes or one."""
    if not is_boolean(e):
        for over in dict.fromkeys((e.axes, *((one,) for one in e.axes))):
            yield Map("add", (e, Input("extra", over)))


def _other_input(e: Expr, around: Around) -> Iterator[Expr]:
    """Another input of the same axes, or one that occurs nowhere else."""
    if isinstance(e, Input):
        yield replace(e, name="other")
        for one in around.inputs:
            if set(one.over) == set(e.over) and one.boolean == e.boolean:
                yield one


def _permuted(e: Expr, around: Around) -> Iterator[Expr]:
    """A permutation for its inverse, left out, done twice, or done where it does not belong."""
    if isinstance(e, Permute):
        yield from (Permute(e.arg, e.perm.inverse()), e.arg, Permute(e, e.perm))
    for perm in around.permutations:
        if perm.axis in e.axes and not is_boolean(e):
            yield Permute(e, perm)


EDITS: tuple[Edit, ...] = (
    _axes_swapped, _raw, _interleaved, _other_axis, _factor_dropped, _factor_twice, _index_changed, _not_summed,
    _sign, _scaled, _scale_changed, _mask, _after_softmax, _not_normalised, _added, _other_input, _permuted,
)  # fmt: skip
