"""Both sides of every branch that code takes on a size: which conditions a trace really stands under.

Defines `Paths`.  A trace is right where every answer that it was given about the sizes holds.  The code is run again
at sizes with another answer, and where the same operations run there, the condition is dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from mha_sym.errors import Problem
from mha_sym.importers.from_torch.trace import Branch, Sizes, Trace
from mha_sym.importers.sizes import nonnegative, same

#: operations that change nothing, and that code leaves out where a size is 1
_NOTHING = ("contiguous", "alias", "detach", "clone", "lift_fresh_copy", "_set_grad_enabled")
#: sizes that are tried on the way to the other side of a branch, besides the numbers that stand in it
_TRIED = (1, 2, 4, 6, 8)
_MOST_RUNS = 12


@dataclass(frozen=True)
class Other:
    """What runs on the other side of a branch.

    Attributes:
        where: the relations that led there.
        sizes: sizes at which they hold.
        trace: what ran, None if the code refuses these sizes.
        problem: why it does.
    """

    where: tuple[Any, ...]
    sizes: Sizes
    trace: Trace | None
    problem: Problem | None = None


@dataclass
class Paths:
    """Runs of some code at sizes that answer its questions in other ways.

    Attributes:
        run: traces at given sizes.
        first: the trace in question.
        hints: the sizes at which it was made.
        others: filled by `kept`: what runs elsewhere, where that is something else.
    """

    run: Callable[[Sizes], Trace]
    first: Trace
    hints: Sizes
    others: list[Other] = field(default_factory=list)
    runs: int = 0

    def kept(self) -> tuple[Branch, ...]:
        """The branches of the first trace without which it would not be right, each once."""
        found = []
        for n, branch in enumerate(self.first.branches):
            before = [one.relation for one in self.first.branches[:n]]
            if branch.fixes or not self._same_beyond([*before, sympy.Not(branch.relation)]):
                found.append(branch)
        unique = {branch.relation: branch for branch in reversed(found)}
        return tuple(reversed(unique.values()))

    def _same_beyond(self, region: list[Any]) -> bool:
        """Whether the same operations run wherever these relations hold."""
        sizes = _inside(region, self.hints)
        if sizes == {}:
            return True  # there are no such sizes
        if sizes is None or self.runs >= _MOST_RUNS:
            return False
        self.runs += 1
        try:
            other = self.run(sizes)
        except Problem as problem:
            self.others.append(Other(tuple(region), sizes, None, problem))
            return False
        return self._agrees(other, region, sizes)

    def _agrees(self, other: Trace, region: list[Any], sizes: Sizes) -> bool:
        """Whether another trace, and all beyond its branches, are the first one."""
        fixed: dict[Any, Any] = {}
        known, same_everywhere = list(region), True
        for branch in other.branches:
            if branch.fixes and not _implied(branch.relation, region):
                same_everywhere = False
            elif branch.fixes:
                fixed[branch.relation.lhs] = branch.relation.rhs
            elif branch.relation not in known:
                same_everywhere &= self._same_beyond([*known, sympy.Not(branch.relation)])
                known.append(branch.relation)
        if operations(self.first, fixed) == operations(other, fixed):
            return same_everywhere
        self.others.append(Other(tuple(known), sizes, other))
        return False


def _inside(region: Sequence[Any], hints: Sizes) -> dict[sympy.Symbol, int] | None:
    """Sizes at which all relations hold; ``{}`` if there are none, None if none were found."""
    everything = sympy.And(*region)
    if everything == sympy.false:
        return {}
    numbers = {abs(int(n)) for one in region for n in one.atoms(sympy.Integer)}
    near = {n + more for n in numbers for more in (-1, 0, 1)} | set(_TRIED)
    asked = sorted(everything.free_symbols, key=str)
    for values in itertools.product(sorted(n for n in near if n > 0), repeat=len(asked)):
        found = dict(zip(asked, values, strict=True))
        if everything.subs(found) == sympy.true:
            return {**hints, **found}
    return None


def _implied(equal: Any, region: Sequence[Any]) -> bool:
    """Whether relations make a size the number that it was fixed to."""
    if not isinstance(equal, sympy.Eq):
        return False
    for one in region:
        if isinstance(one, sympy.Eq):
            ratio = sympy.cancel((one.lhs - one.rhs) / (equal.lhs - equal.rhs))
            if ratio.is_number and ratio != 0:
                return True
        value = _at_least_zero(one)
        if equal.rhs == 1 and value is not None and _fails_beyond_one(value, equal.lhs):
            return True
    return False


def _fails_beyond_one(value: sympy.Expr, size: sympy.Symbol) -> bool:
    """Whether an expression is below zero for every size but 1."""
    return nonnegative(sympy.expand(-value.subs(size, size + 1) - 1))


def _at_least_zero(relation: Any) -> sympy.Expr | None:
    """What is at least zero where an inequality between integers holds."""
    if isinstance(relation, sympy.Ge | sympy.Gt):
        return relation.lhs - relation.rhs - (1 if isinstance(relation, sympy.Gt) else 0)
    if isinstance(relation, sympy.Le | sympy.Lt):
        return relation.rhs - relation.lhs - (1 if isinstance(relation, sympy.Lt) else 0)
    return None


# ---------------------------------------------------------------- the operations of two traces


def operations(trace: Trace, fixed: Mapping[Any, Any]) -> list[Any]:
    """What ran, in a form in which equal programs are equal, with some sizes made into numbers."""
    numbers: dict[torch.fx.Node, Any] = {}
    rows: list[Any] = []
    for node in trace.graph.nodes:
        size = node.meta.get("val")
        if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
            numbers[node] = _plain(trace.exact(size), fixed)
        elif node.op == "placeholder":
            numbers[node] = ("given", len(numbers))
        elif str(getattr(node.target, "__name__", "")).partition(".")[0] in _NOTHING:
            numbers[node] = _value(node.args[0], numbers, fixed)
        else:
            numbers[node] = ("made", len(rows))
            rows.append((node.op, str(node.target), _row(node, trace, numbers, fixed)))
    return rows


def _row(node: torch.fx.Node, trace: Trace, numbers: Mapping[torch.fx.Node, Any], fixed: Mapping[Any, Any]) -> Any:
    if node.op == "get_attr":
        value = trace.constants[str(node.target)]
        return (tuple(value.shape), value.detach().cpu().numpy().tobytes())
    args, kwargs = list(node.args), dict(node.kwargs)
    if "scaled_dot_product_attention" in str(node.target) and _single(trace, args[:2], fixed):
        args, kwargs = [False if one is True else one for one in args], {**kwargs, "is_causal": False}
        kwargs = {name: one for name, one in kwargs.items() if one is not False}
        args = args[:3] if args[3:] == [None, 0.0, False] else args
    return (_value(args, numbers, fixed), _value(kwargs, numbers, fixed))


def _single(trace: Trace, nodes: Sequence[Any], fixed: Mapping[Any, Any]) -> bool:
    """Whether there is one query and one key, so that nothing is hidden by causality."""
    lengths = [_plain(trace.exact(node.meta["val"].shape[-2]), fixed) for node in nodes]
    return all(same(sympy.sympify(one), sympy.Integer(1)) for one in lengths)


def _plain(value: Any, fixed: Mapping[Any, Any]) -> Any:
    return value.subs(fixed) if isinstance(value, sympy.Basic) else value


def _value(value: Any, numbers: Mapping[torch.fx.Node, Any], fixed: Mapping[Any, Any]) -> Any:
    if isinstance(value, torch.fx.Node):
        return numbers[value]
    if isinstance(value, list | tuple):
        return tuple(_value(one, numbers, fixed) for one in value)
    if isinstance(value, Mapping):
        return tuple(sorted((name, _value(one, numbers, fixed)) for name, one in value.items()))
    return sympy.Integer(value) if isinstance(value, int) and not isinstance(value, bool) else value
