"""Torch code as a graph, for all sizes that are symbols and all values of the tensors that it is given.

Defines `from_code`, `Spec`, what a tensor is, and `Imported`, what comes of it.  This runs the user's code.  Importing
this file imports torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import sympy
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from mha_sym.blame import guarded
from mha_sym.errors import Problem
from mha_sym.importers.from_torch import axes as torch_axes  # they fill the table
from mha_sym.importers.from_torch import entries as torch_entries  # they fill the table
from mha_sym.importers.from_torch import made as torch_made  # they fill the table
from mha_sym.importers.from_torch import sums as torch_sums  # they fill the table
from mha_sym.importers.from_torch.ops import OPERATIONS, lowered
from mha_sym.importers.from_torch.paths import Other, Paths
from mha_sym.importers.from_torch.trace import Asked, Branch, Size, Sizes, Trace, blamed, output_names, trace
from mha_sym.importers.graph import Array, Graph, ImportProblem, Role, Unfollowed

TABLES = (torch_axes, torch_entries, torch_made, torch_sums)
__all__ = ["OPERATIONS", "TABLES", "Case", "Code", "Imported", "Spec", "Tracer", "array_of", "from_code"]

#: takes tensors by name, and a function that gives a size of ours as torch has it: a symbolic integer, or a number
Code: TypeAlias = Callable[[Mapping[str, torch.Tensor], Callable[[Size], Any]], Any]


@dataclass(frozen=True)
class Spec:
    """A tensor that code is given.

    Attributes:
        shape: its sizes, numbers or expressions of size symbols.
        dtype: torch's dtype.
        role: where it comes from.
        value: its entries, if they count: a mask in a buffer.  Without them they may be any.
    """

    shape: tuple[Size, ...]
    dtype: torch.dtype = torch.float64
    role: Role = "user"
    value: Array | None = None


@dataclass(frozen=True)
class Case:
    """Another graph of the same code, for sizes at which it takes another way.

    Attributes:
        where: the relations that hold there.
        graph: what it does; sizes that are numbers there are numbers in it.  None if it refuses these sizes.
        problem: why it does.
    """

    where: tuple[Any, ...]
    graph: Graph | None
    problem: Problem | None = None


@dataclass(frozen=True)
class Imported:
    """Torch code as a graph.

    Attributes:
        graph: its inputs are the tensors that are given and have no values.
        run: the code itself: takes every input of the graph by name and the sizes, gives the outputs by name.
        fixed: sizes that the code fixes, and the sentences that say where.
        cases: what runs where the conditions of the graph do not hold.
        seconds: how long torch took to trace the code, all runs together.
        lowering: how long the rest took.
    """

    graph: Graph
    run: Callable[[Mapping[str, Array], Sizes], dict[str, Array]]
    fixed: Mapping[sympy.Symbol, str]
    cases: tuple[Case, ...] = ()
    seconds: float = 0.0
    lowering: float = 0.0


def from_code(code: Code, specs: Mapping[str, Spec], hints: Sizes, name: str = "") -> Imported:
    """Code as a graph: the tensors are free, sizes are symbols.

    Args:
        code: what is imported.
        specs: the tensors that it is given.
        hints: for every symbol a size at which it runs.  Sizes that are apart show what must be equal.
        name: what messages call it.

    Raises:
        Asked: for code that cannot be read as a graph as long as sizes that it takes for numbers are none.
        ImportProblem: for other code that cannot be read as a graph, with its place.
        TargetProblem: if the code itself raises.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> t = size_symbol("T")
        >>> made = from_code(lambda x, _: x["x"].softmax(-1), {"x": Spec((t, 2 * t))}, {t: 5})
        >>> made.graph.nodes[-1].op, made.graph.nodes[-1].shape
        (Softmax(axis=1), (T, 2*T))
    """
    started = time.perf_counter()
    tracer = Tracer(code, specs, name)
    found = tracer.run(hints)
    paths = Paths(tracer.run, found, hints)
    kept = paths.kept()
    try:
        graph = tracer.graph(replace(found, branches=kept), hints)
    except Unfollowed:
        raise
    except ImportProblem as problem:
        raise Asked.at(kept, problem.what) or problem from problem
    cases = tuple(tracer.case(other) for other in paths.others) if kept else ()
    rest = time.perf_counter() - started - tracer.seconds
    return Imported(graph, tracer.numbers, dict(_fixed(kept)), cases, tracer.seconds, rest)


def _fixed(branches: Sequence[Branch]) -> Iterator[tuple[sympy.Symbol, str]]:
    for branch in branches:
        if branch.fixes:
            where = f", as its value is asked for at {branch.place}" if branch.place.file else ""
            for symbol in sorted(branch.relation.free_symbols, key=str):
                yield symbol, f"{branch.relation.lhs} = {branch.relation.rhs}{where}"


@dataclass
class Tracer:
    """Code that is traced at several sizes, and the time that this took."""

    code: Code
    specs: Mapping[str, Spec]
    title: str
    seconds: float = 0.0

    def run(self, sizes: Sizes) -> Trace:
        """The trace at these sizes."""
        started = time.perf_counter()
        try:
            return guarded(lambda: self._understood(sizes), f"tracing {self.title} raised")
        finally:
            self.seconds += time.perf_counter() - started

    def _understood(self, sizes: Sizes) -> Trace:
        """The trace; torch's complaint about what depends on entries comes as ours."""
        try:
            return trace(self.code, {key: (one.shape, one.dtype) for key, one in self.specs.items()}, sizes)
        except (
            GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException,
            UnsupportedOperatorException,
        ) as trouble:  # fmt: skip
            raise ImportProblem(
                f"what {self.title} does depends on the entries of a tensor, not only on its shape",
                where=str(blamed(trouble)), expected="control flow and shapes that depend on sizes alone",
                hint="compute both sides and choose with torch.where, or give the value when the module is built",
            ) from trouble  # fmt: skip

    def graph(self, found: Trace, sizes: Sizes) -> Graph:
        """The graph of a trace."""
        values = {key: one.value for key, one in self.specs.items() if one.value is not None}
        return lowered(found, sizes, {key: one.role for key, one in self.specs.items()}, values)

    def case(self, other: Other) -> Case:
        """The graph of what runs on the other side of a branch."""
        if other.trace is None:
            return Case(other.where, None, other.problem)
        fixed = {b.relation.lhs: b.relation.rhs for b in other.trace.branches if b.fixes and b.relation.rhs.is_Integer}
        there = replace(other.trace.specialised(fixed), branches=())
        try:
            return Case(other.where, self.graph(there, other.sizes))
        except Problem as problem:
            return Case(other.where, None, problem)

    def numbers(self, arrays: Mapping[str, Array], sizes: Sizes) -> dict[str, Array]:
        """The code on arrays, outputs by the names that the graph has."""
        given = {key: self._tensor(key, value) for key, value in arrays.items() if key in self.specs}

        def size(value: Size) -> int:
            return int(sympy.sympify(value).subs(sizes))

        def work() -> Any:
            with torch.no_grad():
                return self.code(given, size)

        made = guarded(work, f"{self.title} raised")
        tensors = [one for one in torch.utils._pytree.tree_leaves(made) if isinstance(one, torch.Tensor)]
        return {name: array_of(one) for name, one in zip(output_names(made), tensors, strict=True)}

    def _tensor(self, key: str, value: Array) -> torch.Tensor:
        return torch.from_numpy(np.array(value)).to(self.specs[key].dtype)


def array_of(tensor: torch.Tensor) -> Array:
    """The entries of a tensor."""
    plain = tensor.detach().cpu()
    made: Array = plain.float().numpy() if plain.dtype == torch.bfloat16 else plain.numpy()
    return made
