"""Torch modules of any make that take what keys and values are made of besides their input: cross-attention.

Defines `second_input` (the parameter, by its name) and `from_cross_module`.  Names say which matrix is which, shapes
how wide the two inputs are, and runs on random weights the scale and the mask, as for other modules.  This runs the
module.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mha_sym.attention.layouts import LAYOUTS, Layout
from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.frameworks.naming import HEADS, attribute, namings
from mha_sym.audit.frameworks.torch_modules import copied, first_output, parameters_of
from mha_sym.audit.frameworks.undeclared import as_found, as_named, described
from mha_sym.audit.functions import leaving
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.layouts.readings import Reading, Seen, reproducing
from mha_sym.audit.parameters import word_of
from mha_sym.blame import guarded, import_torch
from mha_sym.errors import TargetProblem

#: batch, queries, keys
_RUN_AT = ((2, 5, 7), (3, 7, 4))
_FOUND = "found by names, shapes and a probe in numbers"
#: weights of a module with a matrix each
_MATRICES = ("w_q", "w_k", "w_v", "w_o")


def second_input(module: Any) -> tuple[str, bool] | None:
    """The parameter of ``forward`` that keys and values are made of, and whether it must be given; None without one.

    What may be keys and values kept from before, by its name, is none.
    """
    for parameter in list(inspect.signature(module.forward).parameters.values())[1:]:
        needed = parameter.default is parameter.empty
        if word_of(parameter.name, ()) == "x_kv" and (needed or parameter.name not in ("memory", "kv")):
            return parameter.name, needed
    return None


def from_cross_module(module: Any, name: str = "", heads: int | None = None) -> Implementation | None:
    """A module with two inputs as an implementation that takes both; None for one that is not read so.

    Args:
        module: a torch module.
        name: what reports call it.
        heads: the number of heads, if the module does not say it.

    Raises:
        TargetProblem: if it does not run with the two.
    """
    other, heads = second_input(module), attribute(module, HEADS) or heads
    double = copied(module, "float64")
    weights = parameters_of(double)
    shapes = {one: value.shape for one, value in weights.items()}
    names = next((one for one in namings(shapes) if set(_MATRICES) <= set(one)), None)
    if other is None or heads is None or names is None or not _readable(shapes, names, heads):
        return None
    title = name or type(module).__qualname__
    call = _caller(double, other[0])
    layout = _layout(shapes, names, "p")
    runs = [_run(call, shapes, names, n, title) for n in range(len(_RUN_AT))]
    seen = [_seen(one, names, heads, title) for one in runs]
    readings = reproducing(seen, [layout])
    given = described(names, readings or [Reading(layout)])
    made = Implementation(
        call=call, module=double, heads=heads, weights=weights, framework="torch", name=title,
        trained=_caller(copy.deepcopy(double).train(), other[0]) if module.training else None,
        said=dict.fromkeys(("layout", "scale", "mask", "batch_first"), _FOUND),
        **{**given, "takes": ("weights", "x_q", "x_kv")},
    )  # fmt: skip
    first = next(iter(inspect.signature(module.forward).parameters))
    made = leaving(made, module.forward, (first, other[0]))
    notes = [*made.notes]
    if not other[1]:
        notes.append(f"{other[0]} was handed over in every call: nothing is said of self-attention, without it")
    made = replace(made, layout=_layout(shapes, names, "n"), notes=tuple(notes))
    return as_found(made) if readings else as_named(made, "parameters")


def _readable(shapes: Mapping[str, Sequence[int]], names: Mapping[str, str], heads: int) -> bool:
    """Whether matrices are those of linear maps, with as many key as query heads."""
    q, k, v, o = (shapes[names[one]] for one in _MATRICES)
    linear = len({len(one) for one in (q, k, v, o)}) == 1 and len(q) == 2
    return linear and q[0] == k[0] and v[0] == o[1] and o[0] == q[1] and q[0] % heads == v[0] % heads == 0


def _layout(shapes: Mapping[str, Sequence[int]], names: Mapping[str, str], values: str) -> Layout:
    """How the weights lie: as linear maps, of an input with a width of its own where it has one.

    Args:
        shapes: those of the weights.
        names: which of them is which.
        values: what the width of the input of the values is called: as that of the keys, n, or p if that is apart.
    """
    linear = LAYOUTS["linear"]
    if len({shapes[names[one]][1] for one in ("w_q", "w_k", "w_v")}) == 1:
        return linear
    words = f"{linear.words}, keys and values of an input with a width of its own"
    own = {"w_k": "w_k: (h k) n -> n (h k)", "w_v": f"w_v: (h v) {values} -> {values} (h v)"}
    return Layout("linear, of two widths", words, {**linear.rows, **own}, linear.same)


def _caller(module: Any, other: str) -> Any:
    return lambda weights, x_q, x_kv: first_output(module, weights, (x_q,), {other: x_kv})


def _run(
    call: Any, shapes: Mapping[str, Sequence[int]], names: Mapping[str, str], seed: int, title: str
) -> dict[str, Any]:  # fmt: skip
    """Random weights, both inputs, and what comes of them."""
    torch, rng = import_torch(), np.random.default_rng(seed)
    batch, queries, keys = _RUN_AT[seed]
    found = {one: rng.normal(size=shape) / np.sqrt(shape[-1] if len(shape) > 1 else 4) for one, shape in shapes.items()}
    found["x_q"] = rng.normal(size=(batch, queries, shapes[names["w_q"]][1]))
    found["x_k"] = found["x_v"] = rng.normal(size=(batch, keys, shapes[names["w_k"]][1]))
    tensors = {one: torch.from_numpy(value) for one, value in found.items()}
    weights = {one: tensors[one] for one in shapes}
    with torch.no_grad():
        y = guarded(lambda: call(weights, tensors["x_q"], tensors["x_k"]), f"{title} raised")
    if not isinstance(y, torch.Tensor) or tuple(y.shape) != found["x_q"].shape:
        raise TargetProblem(f"{title} gives no y (b, t, m)", got=str(getattr(y, "shape", type(y))))
    return {**found, "y": y.numpy()}


def _seen(run: Mapping[str, Any], names: Mapping[str, str], heads: int, title: str) -> Seen:
    own = {ours: run[theirs] for ours, theirs in names.items()} | {one: run[one] for one in ("x_q", "x_k", "x_v", "y")}
    return Seen({one: Stored(value, "float64") for one, value in own.items()}, DumpSettings(heads=heads), title)
