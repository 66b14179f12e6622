"""A torch module as a graph, for all batch sizes and lengths and all values of its weights.

Defines `from_module`, which traces a module under a `Call`, and `Imported`, what comes of it.  How a module is called
is found in `mha_sym.importers.torch_call`.  Importing this file imports torch.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
from mha_sym.importers import torch_axes, torch_entries, torch_made, torch_sums  # they fill the table
from mha_sym.importers.graph import Array, Graph, ImportProblem, Role
from mha_sym.importers.torch_ops import lowered, output_name
from mha_sym.importers.torch_paths import Other, Paths, operations
from mha_sym.importers.torch_trace import Branch, Sizes, Trace, blamed, trace

TABLES = (torch_axes, torch_entries, torch_made, torch_sums)


@dataclass(frozen=True)
class Tensor:
    """A tensor in a call.

    Attributes:
        name: what the graph calls it.
        shape: its sizes, numbers or expressions of size symbols.
        dtype: ``float`` or ``bool``.
    """

    name: str
    shape: tuple[sympy.Expr | int, ...]
    dtype: str = "float"


@dataclass(frozen=True)
class Call:
    """How a module is called: positional and named arguments, in which a `Tensor` stands for any tensor of its shape.

    Lists, tuples and dicts may hold tensors, too.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {one.name: one for one in _leaves((self.args, dict(self.kwargs)))}

    def filled(self, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with values in place of the tensors."""
        args: tuple[Any, ...] = _filled(self.args, values)
        kwargs: dict[str, Any] = _filled(dict(self.kwargs), values)
        return args, kwargs


def _leaves(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(one)


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, Tensor):
        return values[value.name]
    if isinstance(value, Mapping):
        return {name: _filled(one, values) for name, one in value.items()}
    return type(value)(_filled(one, values) for one in value) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Case:
    """Another graph of the same module, for sizes at which it takes another way.

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
    """A module as a graph.

    Attributes:
        graph: its inputs are the tensors of the call, the parameters, and buffers of any values.
        weights: the values that the module has for parameters and buffers.
        run: the module itself, in float64: takes every input of the graph by name, gives the outputs by name.
        fixed: sizes that the code fixes, one sentence each.
        cases: what runs where the conditions of the graph do not hold.
        seconds: how long torch took to trace the module, all runs together.
        lowering: how long the rest took.
    """

    graph: Graph
    weights: Mapping[str, Array]
    run: Callable[[Mapping[str, Array]], dict[str, Array]]
    fixed: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    seconds: float = 0.0
    lowering: float = 0.0


def from_module(module: torch.nn.Module, call: Call, hints: Sizes, name: str = "") -> Imported:
    """A module as a graph: its parameters and inputs are free, sizes are symbols.

    The module is copied and cast to float64; it stays in training or evaluation mode as it is.

    Args:
        module: the module.
        call: how it is called.
        hints: for every symbol in the shapes of the call a size at which the module runs.  Sizes that are apart show
            what must be equal.
        name: what messages call it.

    Raises:
        ImportProblem: for code that cannot be read as a graph, with its place.
        TargetProblem: if the module itself raises.
    """
    title = name or type(module).__qualname__
    traced = _Traced(_double(module, title), call, title)
    started = time.perf_counter()
    before = _attributes(traced.module)
    found = traced.run(hints)
    if _attributes(traced.module) != before:
        _stateless(module, found, call, hints, title)
    paths = Paths(traced.run, found, hints)
    kept = paths.kept()
    graph = traced.graph(replace(found, branches=kept), hints)
    cases = tuple(traced.case(other) for other in paths.others) if kept else ()
    whole = time.perf_counter() - started
    return Imported(
        graph, traced.weights(), _runner(module, call, title), tuple(_fixed(kept)), cases,
        traced.seconds, whole - traced.seconds,
    )  # fmt: skip


def _fixed(branches: Sequence[Branch]) -> Iterator[str]:
    for branch in branches:
        if branch.fixes:
            where = f", as {branch.place} asks for its value" if branch.place.file else ""
            yield f"{branch.relation.lhs} = {branch.relation.rhs}{where}"


# ---------------------------------------------------------------- tracing


@dataclass
class _Traced:
    """A module under a call, and the time that tracing it took."""

    module: torch.nn.Module
    call: Call
    title: str
    seconds: float = 0.0

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        return dict(self.module.named_parameters())

    @property
    def buffers(self) -> dict[str, torch.Tensor]:
        return dict(self.module.named_buffers())

    def roles(self) -> dict[str, Role]:
        found: dict[str, Role] = dict.fromkeys(self.parameters, "param")
        found |= dict.fromkeys(self.buffers, "buffer")
        return found | dict.fromkeys(self.call.tensors(), "user")

    def constants(self) -> dict[str, Array]:
        """Buffers whose values count: masks, positions and single numbers.  Others may have any values."""
        values = {name: _array(one) for name, one in self.buffers.items()}
        return {name: one for name, one in values.items() if one.dtype.kind != "f" or len(np.unique(one)) <= 2}

    def weights(self) -> dict[str, Array]:
        left = {name: one for name, one in self.buffers.items() if name not in self.constants()}
        return {name: _array(one) for name, one in {**self.parameters, **left}.items()}

    def graph(self, found: Trace, sizes: Sizes) -> Graph:
        return lowered(found, sizes, self.roles(), self.constants())

    def case(self, other: Other) -> Case:
        if other.trace is None:
            return Case(other.where, None, other.problem)
        fixed = {b.relation.lhs: b.relation.rhs for b in other.trace.branches if b.fixes and b.relation.rhs.is_Integer}
        there = replace(other.trace.specialised(fixed), branches=())
        try:
            return Case(other.where, self.graph(there, other.sizes))
        except Problem as problem:
            return Case(other.where, None, problem)

    def run(self, sizes: Sizes) -> Trace:
        started = time.perf_counter()
        try:
            return guarded(lambda: self._understood(sizes), f"tracing {self.title} raised")
        finally:
            self.seconds += time.perf_counter() - started

    def _understood(self, sizes: Sizes) -> Trace:
        """The trace; torch's complaint about what depends on entries comes as ours."""
        try:
            return trace(self._invoke, self._tensors(), sizes)
        except (
            GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException,
            UnsupportedOperatorException,
        ) as trouble:  # fmt: skip
            raise ImportProblem(
                f"what {self.title} does depends on the entries of a tensor, not only on its shape",
                where=str(blamed(trouble)), expected="control flow and shapes that depend on sizes alone",
                hint="compute both sides and choose with torch.where, or give the value when the module is built",
            ) from trouble  # fmt: skip

    def _tensors(self) -> dict[str, tuple[Sequence[sympy.Expr | int], torch.dtype]]:
        found: dict[str, tuple[Sequence[sympy.Expr | int], torch.dtype]] = {}
        for key, one in {**self.parameters, **self.buffers}.items():
            found[key] = (tuple(one.shape), one.dtype)
        for key, tensor in self.call.tensors().items():
            if key in found:
                raise ImportProblem(f"an input of {self.title} has the name of a parameter", got=key)
            found[key] = (tensor.shape, torch.bool if tensor.dtype == "bool" else torch.float64)
        return found

    def _invoke(self, given: Mapping[str, torch.Tensor]) -> Any:
        own = {key: given[key] for key in (*self.parameters, *self.buffers)}
        args, kwargs = self.call.filled(given)
        return torch.func.functional_call(self.module, own, args, kwargs)


# ---------------------------------------------------------------- the module itself


def _array(tensor: torch.Tensor) -> Array:
    plain = tensor.detach().cpu()
    made: Array = plain.float().numpy() if plain.dtype == torch.bfloat16 else plain.numpy()
    return made


def _double(module: torch.nn.Module, title: str) -> torch.nn.Module:
    """A copy in float64, tensors that are plain attributes included."""
    if isinstance(module, torch.jit.ScriptModule):
        raise ImportProblem(f"{title} is compiled to TorchScript", hint="give the module that it was compiled from")
    whole = getattr(module, "_orig_mod", module)  # torch.compile wraps the module
    double: torch.nn.Module = guarded(lambda: copy.deepcopy(whole).to(device="cpu").double(), f"copying {title} raised")
    for part in double.modules():
        for key, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(part, key, value.detach().cpu().double())
    return double


def _runner(
    module: torch.nn.Module, call: Call, title: str
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """The module on arrays, outputs by the names that the graph has; one copy, so that what it keeps is noticed."""
    double = _double(module, title)

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        given = {key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}
        given = {key: one.double() if one.is_floating_point() else one for key, one in given.items()}
        names = [key for key, _ in (*double.named_parameters(), *double.named_buffers()) if key in given]
        args, kwargs = call.filled(given)
        with torch.no_grad():
            own = {key: given[key] for key in names}
            made = guarded(lambda: torch.func.functional_call(double, own, args, kwargs), f"{title} raised")
        tensors = [one for one in torch.utils._pytree.tree_leaves(made) if isinstance(one, torch.Tensor)]
        return {output_name(n): _array(one) for n, one in enumerate(tensors)}

    return run


def _attributes(module: torch.nn.Module) -> list[Any]:
    """Which object every attribute is, and how long the containers are."""
    found = []
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            size = len(value) if isinstance(value, list | dict | set) else 0
            found.append((path, key, id(value), size))
    return found


def _stateless(module: torch.nn.Module, found: Trace, call: Call, hints: Sizes, title: str) -> None:
    """Refuse a module that reads what it kept of a call before: it has run once, and must then do the same."""
    used = _Traced(_double(module, title), call, title)
    rng = np.random.default_rng(0)
    given = {}
    for key, one in call.tensors().items():
        shape = [int(sympy.sympify(n).subs(hints)) for n in one.shape]
        given[key] = torch.from_numpy(rng.normal(size=shape)) if one.dtype == "float" else torch.ones(shape).bool()
    args, kwargs = call.filled(given)
    with torch.no_grad():
        guarded(lambda: used.module(*args, **kwargs), f"{title} raised")
    if operations(used.run(hints), {}) != operations(found, {}):
        raise ImportProblem(
            f"{title} keeps something of a call, and reads it in the next",
            expected="a module whose result depends on its inputs alone",
            hint="keep nothing between calls, or register a buffer in __init__",
        )
