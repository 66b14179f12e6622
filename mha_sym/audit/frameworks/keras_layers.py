"""Attention layers of Keras as implementations, whatever its backend.

Defines `from_keras` (``keras.layers.MultiHeadAttention`` and ``GroupQueryAttention``).  Nothing is imported here: a
layer cannot be there unless Keras is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from mha_sym.audit.implementation import Implementation
from mha_sym.errors import TargetProblem

_PARTS = ("query", "key", "value", "attention_output")


def from_keras(layer: Any, name: str = "") -> Implementation | None:
    """A layer of Keras as an implementation, with the weights returned beside the output; None for anything else.

    It is made again from its configuration at the sizes of each call; a layer that is built is checked with its own
    weights first.  Dropout is off.  It computes in float32: the attention that its backends ship does so in any case.

    Raises:
        TargetProblem: for options that make it another function, such as ``use_gate`` or ``sliding_window``.
    """
    layers = getattr(sys.modules.get("keras"), "layers", None)
    if layers is None or not isinstance(layer, layers.MultiHeadAttention | layers.GroupQueryAttention):
        return None
    title = name or f"keras.layers.{type(layer).__name__}"
    settings = layer.get_config()
    for option in ("use_gate", "sliding_window", "attention_axes", "output_shape"):
        if settings.get(option) not in (None, False, (1,), [1]):  # axis 1 is that of the tokens
            raise TargetProblem(
                f"{option}={settings[option]!r} makes it another function", where=title,
                expected=f"a layer without {option}",
            )  # fmt: skip
    grouped = isinstance(layer, layers.GroupQueryAttention)
    sizes = {"d_k": settings["head_dim"]} if grouped else {"d_k": settings["key_dim"]}
    rate = settings["dropout"]
    return Implementation(
        call=_caller(layer, settings), takes=("weights", "x_q", "x_k", "x_v", "keep", "causal", "need_weights"),
        weights=_own(layer) if layer.built else None, axes={"keep": "b t s"}, bias=settings["use_bias"],
        heads=settings["num_query_heads"] if grouped else settings["num_heads"],
        kv_heads=settings["num_key_value_heads"] if grouped else None, layout="keras_grouped" if grouped else "keras",
        dtype="float32", name=title,
        d_v=settings["head_dim"] if grouped else settings["value_dim"] or settings["key_dim"],
        said={"layout": "its library", "heads": "its configuration", "scale": "its documentation"},
        notes=(f"it has dropout {rate}; it was checked without",) if rate else (), **sizes,
    )  # fmt: skip


def _variables(layer: Any) -> dict[str, Any]:
    """The parameters by the last two parts of their paths, ``query/kernel``."""
    return {"/".join(one.path.split("/")[-2:]): one for one in layer.trainable_variables}


def _own(layer: Any) -> dict[str, Any]:
    return {path: _numpy(one.value).astype(np.float64) for path, one in _variables(layer).items()}


def _numpy(value: Any) -> Any:
    """An array of any backend; Keras' own way of saying it warns with torch.  What JAX traces stays as it is."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.core.Tracer):
        return value
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _caller(layer: Any, settings: Mapping[str, Any]) -> Any:
    """The layer as a function of its weights, inputs and masks."""

    def call(
        weights: Mapping[str, Any], x_q: Any, x_k: Any, x_v: Any, keep: Any, causal: bool, need_weights: bool
    ) -> dict[str, Any]:
        again = type(layer).from_config({**settings, "dtype": "float32", "name": None})
        again.build(x_q.shape, x_v.shape, x_k.shape)
        for path, variable in _variables(again).items():
            variable.assign(weights[path])
        found = again(
            x_q, x_v, key=x_k, attention_mask=keep, use_causal_mask=causal, return_attention_scores=need_weights,
            training=False,
        )  # fmt: skip
        y, shown = found if need_weights else (found, None)
        return {"y": _numpy(y), "weights": None if shown is None else _numpy(shown)}

    return call
