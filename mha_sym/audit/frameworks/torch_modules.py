"""Torch modules as implementations: ``nn.MultiheadAttention`` in all its constructor variants but two.

Defines `from_torch`, `prepared` for other modules that an `Implementation` describes, and `undescribed`, the complaint
about all others.  Torch is imported by whoever made the module, never by importing this file.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mha_sym.attention.layouts import LAYOUTS
from mha_sym.audit.frameworks.naming import HEADS, attribute
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.stub import module_stub
from mha_sym.blame import guarded, import_torch
from mha_sym.errors import TargetProblem
from mha_sym.importers.graph import Array, ImportProblem

_TAKES = ("weights", "x_q", "x_k", "x_v", "drop", "mask", "key_drop", "need_weights")


def from_torch(module: Any, name: str = "", dtype: str = "float64") -> Implementation:
    """An ``nn.MultiheadAttention`` as an implementation, per-head weights and all.

    The module is copied, cast to ``dtype`` and put into evaluation mode; the original is left alone.  It is checked
    with its own weights first and with drawn ones after that: a fresh module has biases of zero, which hide faults.

    Args:
        module: an instance, packed or with ``kdim`` or ``vdim`` of its own.
        name: what reports call it.
        dtype: the precision in which it is to compute.

    Raises:
        TargetProblem: for another module, and for ``add_bias_kv`` and ``add_zero_attn``, which append a key.
    """
    torch = import_torch()
    if not isinstance(module, torch.nn.MultiheadAttention):
        raise undescribed(module, name)
    _refuse_appended_keys(module)
    double = copied(module, dtype)
    return Implementation(
        call=_caller(double),
        module=double,
        trained=_caller(copy.deepcopy(double).train()) if module.training else None,
        heads=module.num_heads,
        layout="torch_packed" if module._qkv_same_embed_dim else "torch_separate",
        takes=_TAKES,
        weights=parameters_of(double),
        batch_first=module.batch_first,
        framework="torch",
        dtype=dtype,
        name=name or type(module).__qualname__,
        said={
            "layout": "its attributes kdim and vdim",
            "heads": "its attribute num_heads",
            "batch_first": "its attribute batch_first",
            "scale": "its documentation",
            "mask": "its documentation: True is dropped",
        },
    )


def prepared(impl: Implementation) -> Implementation:
    """An implementation whose ``call`` is a torch module, as a function of its weights.

    The module is copied, cast and put into evaluation mode, as in `from_torch`.
    """
    torch = import_torch()
    module: Any = impl.call
    double = copied(module, impl.dtype)

    def called(one: Any) -> Any:
        return lambda weights, *values: torch.func.functional_call(one, dict(weights), values)

    return replace(
        impl,
        call=called(double),
        module=double,
        trained=called(copy.deepcopy(double).train()) if module.training else None,
        takes=("weights", *impl.arguments),
        weights=parameters_of(double) if impl.weights is None else impl.weights,
        framework="torch",
        name=impl.name or type(module).__qualname__,
    )


def first_output(module: Any, weights: Mapping[str, Any], values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a module with these weights gives; of several outputs the first.

    Raises:
        ImportProblem: if it is followed without values and puts what it makes in the place of a buffer.
    """
    torch = import_torch()
    before = [(one, dict(one._buffers)) for one in module.modules() if one._buffers]
    result = torch.func.functional_call(module, dict(weights), tuple(values), dict(named))
    for part, had in before:
        changed = [(name, one) for name, one in part._buffers.items() if one is not had.get(name)]
        new = [name for name, one in changed if type(one) is not torch.Tensor]  # one with values may be a cache
        if new:
            part._buffers.update(had)
            raise ImportProblem(
                f"{type(part).__name__} writes its buffer {new[0]} whenever it is called",
                expected="a module that is the same after a call, so that it is one function",
                hint=f"return what goes into {new[0]} beside the output, and keep it outside of forward",
            )  # fmt: skip
    while isinstance(result, tuple | list):
        result = result[0]
    return result


def outputs_of(module: Any, weights: Mapping[str, Array], x: Array, named: Mapping[str, Any]) -> int:
    """How many tensors a module returns for ``x`` that belong to it, one inside the other: states, weights."""
    torch = import_torch()
    kind = next(module.parameters()).dtype
    given = {name: torch.from_numpy(value).to(kind) for name, value in weights.items()}
    with torch.no_grad():
        result = torch.func.functional_call(module, given, (torch.from_numpy(x).to(kind),), dict(named))
    return sum(isinstance(one, torch.Tensor) for one in torch.utils._pytree.tree_leaves(result))


@contextlib.contextmanager
def steps_counted() -> Iterator[list[None]]:
    """While this lasts, an entry for each function of torch that is called: how far code came that raises."""
    from torch.overrides import TorchFunctionMode

    steps: list[None] = []

    class Counted(TorchFunctionMode):
        def __torch_function__(self, function: Any, kinds: Any, args: Any = (), named: Any = None) -> Any:
            steps.append(None)
            return function(*args, **(named or {}))

    with Counted():
        yield steps


def required(module: Any) -> list[str]:
    """The parameters of a module's ``forward`` without defaults, the first aside."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters[1:] if one.default is one.empty and one.kind not in kinds]


def undescribed(module: Any, name: str) -> TargetProblem:
    """What to say of a module that nothing is known of: its parameters, and a description to paste."""
    shapes = {one: tuple(value.shape) for one, value in module.named_parameters()}
    fitting = [one.name for one in LAYOUTS.values() if set(one.stored(one.biases(shapes))) == set(shapes)]
    kind = type(module).__name__
    stub = module_stub(kind, shapes)
    if fitting:
        layouts = " or ".join(map(repr, fitting))
        stub = f"Implementation(call={kind}(...), heads=..., layout={layouts}, framework='torch')"
    return TargetProblem(
        f"{name or type(module).__qualname__} is a torch module whose weights I do not know where to find",
        got=", ".join(f"{one} {shape}" for one, shape in shapes.items()) or "no parameters",
        expected="nn.MultiheadAttention, or a description that says names=, which parameter is which weight",
        hint=_parts(module) or f"fill this in and check it instead: {stub}; once heads and names are right, "
        "'mha-sym identify' on that finds layout=",
    )  # fmt: skip


def _parts(module: Any) -> str:
    """The parts of a model that may be attention; nothing for a module that says how many heads it has itself."""
    if attribute(module, HEADS) is not None:
        return ""
    own = import_torch().nn.MultiheadAttention
    every = (path for path, one in module.named_modules() if path and (isinstance(one, own) or _has_heads(one)))
    found = list(itertools.islice(every, 4))
    more = f" (or {', '.join(found[1:3])}{', ...' if len(found) > 3 else ''})" if found[1:] else ""
    return f"say which part of it is meant: --at {found[0]}{more}" if found else ""


def _has_heads(module: Any) -> bool:
    return any(isinstance(vars(module).get(word), int) for word in HEADS)


def copied(module: Any, dtype: str) -> Any:
    """A copy of a module in a format, in evaluation mode."""
    torch = import_torch()
    kind = getattr(torch, dtype)
    return guarded(lambda: copy.deepcopy(module).to(device="cpu", dtype=kind).eval(), "copying the module raised")


def parameters_of(module: Any) -> dict[str, Any]:
    """The parameters of a module as NumPy arrays, by name."""
    return {name: value.detach().double().numpy().copy() for name, value in module.named_parameters()}


def _refuse_appended_keys(module: Any) -> None:
    for option, given in (("add_bias_kv", module.bias_k is not None), ("add_zero_attn", module.add_zero_attn)):
        if given:
            raise TargetProblem(
                f"{option}=True appends a key of its own to every sequence", where="nn.MultiheadAttention",
                expected="a module without it", hint="the specification has no such key yet",
            )  # fmt: skip


def _caller(module: Any) -> Any:
    """The module as a function of its weights, inputs and masks."""
    torch = import_torch()

    def call(
        weights: Mapping[str, Any], x_q: Any, x_k: Any, x_v: Any, drop: Any, mask: Any, key_drop: Any,
        need_weights: bool,
    ) -> dict[str, Any]:  # fmt: skip
        options = {
            "attn_mask": mask if drop is None else drop, "key_padding_mask": key_drop,
            "need_weights": need_weights, "average_attn_weights": False,
        }  # fmt: skip
        x_k, x_v = _as_one(x_q, x_k, x_v, torch)
        result = torch.func.functional_call(module, dict(weights), (x_q, x_k, x_v), options)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TargetProblem(
                "the module does not return (output, weights) as nn.MultiheadAttention does", got=type(result).__name__
            )
        return {"y": result[0], "weights": result[1] if need_weights else None}

    return call


def _as_one(x_q: Any, x_k: Any, x_v: Any, torch: Any) -> tuple[Any, Any]:
    """Keys and values as the very object of the queries where they are equal: the module looks at identity.

    Tensors without entries, as in a trace, are never equal.
    """
    has_entries = type(x_q) is torch.Tensor
    same = has_entries and all(x.shape == x_q.shape and bool(torch.equal(x, x_q)) for x in (x_k, x_v))
    return (x_q, x_q) if same else (x_k, x_v)
