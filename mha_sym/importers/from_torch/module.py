"""A torch module as a graph, for all batch sizes and lengths and all values of its weights.

Defines `from_module`, which traces a module under a `Call`.  Importing this file imports torch.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
import torch

from mha_sym.blame import guarded
from mha_sym.importers.from_torch.code import Code, Imported, Spec, Tracer, array_of, from_code
from mha_sym.importers.from_torch.paths import operations
from mha_sym.importers.from_torch.trace import Size, Sizes
from mha_sym.importers.graph import Array, ImportProblem


@dataclass(frozen=True)
class Tensor:
    """A tensor in a call.

    Attributes:
        name: what the graph calls it.
        shape: its sizes, numbers or expressions of size symbols.
        dtype: ``float`` or ``bool``.
    """

    name: str
    shape: tuple[Size, ...]
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


def from_module(
    module: torch.nn.Module, call: Call, hints: Sizes, name: str = "",
    attributes: Mapping[str, Size] | None = None, shapes: Mapping[str, tuple[Size, ...]] | None = None,
) -> Imported:  # fmt: skip
    """A module as a graph: its parameters and inputs are free, sizes are symbols.

    The module is copied and cast to float64; it stays in training or evaluation mode as it is.

    Args:
        module: the module.
        call: how it is called.
        hints: for every symbol in the shapes a size at which the module runs.  Sizes that are apart show what must be
            equal.
        name: what messages call it.
        attributes: for attributes that hold a number, such as ``num_heads`` or ``inner.head_dim``, the size that they
            are to have instead.
        shapes: for parameters whose shape follows from these sizes, the shape.

    Raises:
        ImportProblem: for code that cannot be read as a graph, with its place.
        TargetProblem: if the module itself raises.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> b = size_symbol("B")
        >>> made = from_module(torch.nn.Linear(3, 5), Call((Tensor("x", (b, 3)),)), {b: 4})
        >>> sorted(made.graph.inputs()), made.graph.nodes[-1].shape
        (['bias', 'weight', 'x'], (B, 5))
    """
    title = name or type(module).__qualname__
    double = double_of(module, title)
    specs = _specs(double, call, dict(shapes or {}), title)
    code = _code(double, call, dict(attributes or {}))
    before = _attributes(double)
    found = from_code(code, specs, hints, title)
    if _attributes(double) != before:
        _stateless(double_of(module, title), call, specs, dict(attributes or {}), hints, title)
    return found


def weights_of(module: torch.nn.Module) -> dict[str, Array]:
    """The values that a module has for its parameters, and for buffers whose entries may be any."""
    free = {name: one for name, one in module.named_buffers() if _counted(one) is None}
    return {name: array_of(one) for name, one in {**dict(module.named_parameters()), **free}.items()}


def _specs(
    module: torch.nn.Module, call: Call, shapes: dict[str, tuple[Size, ...]], title: str
) -> dict[str, Spec]:
    found = {
        name: Spec(shapes.get(name, tuple(one.shape)), one.dtype, "param") for name, one in module.named_parameters()
    }
    for name, one in module.named_buffers():
        found[name] = Spec(tuple(one.shape), one.dtype, "buffer", _counted(one))
    for name, tensor in call.tensors().items():
        if name in found:
            raise ImportProblem(f"an input of {title} has the name of a parameter", got=name)
        found[name] = Spec(tensor.shape, torch.bool if tensor.dtype == "bool" else torch.float64)
    return found


def _counted(buffer: torch.Tensor) -> Array | None:
    """The entries of a buffer, if they count: masks, positions and single numbers."""
    value = array_of(buffer)
    return value if value.dtype.kind != "f" or len(np.unique(value)) <= 2 else None


def _code(module: torch.nn.Module, call: Call, attributes: Mapping[str, Size]) -> Code:
    """The module as a function of all its tensors."""

    def code(given: Mapping[str, torch.Tensor], size: Callable[[Size], Any]) -> Any:
        own = [key for key, _ in (*module.named_parameters(), *module.named_buffers()) if key in given]
        args, kwargs = call.filled(given)
        with _attributes_set(module, {key: size(value) for key, value in attributes.items()}):
            return torch.func.functional_call(module, {key: given[key] for key in own}, args, kwargs)

    return code


@contextlib.contextmanager
def _attributes_set(module: torch.nn.Module, values: Mapping[str, Any]) -> Iterator[None]:
    """Other numbers in attributes, and the old ones again afterwards."""
    owners = {key: (module.get_submodule(key.rpartition(".")[0]), key.rpartition(".")[2]) for key in values}
    before = {key: vars(owner)[name] for key, (owner, name) in owners.items()}
    try:
        for key, (owner, name) in owners.items():
            vars(owner)[name] = values[key]
        yield
    finally:
        for key, (owner, name) in owners.items():
            vars(owner)[name] = before[key]


def double_of(module: torch.nn.Module, title: str) -> torch.nn.Module:
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


# ---------------------------------------------------------------- state


def _attributes(module: torch.nn.Module) -> list[Any]:
    """Which object every attribute is, and how long the containers are."""
    found = []
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            size = len(value) if isinstance(value, list | dict | set) else 0
            found.append((path, key, id(value), size))
    return found


def _stateless(
    module: torch.nn.Module, call: Call, specs: Mapping[str, Spec], attributes: Mapping[str, Size], hints: Sizes,
    title: str,
) -> None:  # fmt: skip
    """Refuse a module that reads what it kept of a call before: it runs once on numbers, and must then do the same."""
    used = double_of(module, title)
    fresh = Tracer(_code(module, call, attributes), specs, title).run(hints)
    code = Tracer(_code(used, call, attributes), specs, title)
    rng = np.random.default_rng(0)
    code.numbers({key: rng.random([int(sympy.sympify(n).subs(hints)) for n in one.shape]) if one.value is None
                  else one.value for key, one in specs.items()}, hints)  # fmt: skip
    if operations(code.run(hints), {}) != operations(fresh, {}):
        raise ImportProblem(
            f"{title} keeps something of a call, and reads it in the next",
            expected="a module whose result depends on its inputs alone",
            hint="keep nothing between calls, or register a buffer in __init__",
        )
