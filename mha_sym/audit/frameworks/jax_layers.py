"""Attention layers of Flax and Equinox as implementations, and JAX made to compute in float64.

Defines `from_jax` (Flax ``nnx.MultiHeadAttention`` and ``linen.MultiHeadDotProductAttention``, Equinox
``nn.MultiheadAttention``) and `in_doubles`.  Plain JAX functions need no adapter.  Nothing is imported here: a layer
cannot be there unless its library is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from mha_sym.audit.implementation import Implementation
from mha_sym.errors import TargetProblem

Result = TypeVar("Result")

_INPUTS = ("weights", "x_q", "x_k", "x_v")
_PARTS = ("query", "key", "value", "out")


def in_doubles(work: Callable[[], Result]) -> Callable[[], Result]:
    """The same work with the 64-bit numbers of JAX switched on: it silently makes float32 of float64 otherwise.

    Example:
        >>> in_doubles(lambda: 3)()
        3
    """
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "enable_x64"):
        return work

    def inside() -> Result:
        with jax.enable_x64(True):
            return work()

    return inside


def from_jax(layer: Any, name: str = "") -> Implementation | None:
    """A layer of Flax or Equinox as an implementation; None for anything else.

    It is checked without dropout; the layer itself is left alone.  A Flax linen module has no weights until it is
    bound to some: unbound, it is checked with drawn ones.  All are made to compute in float64 but that of nnx, which
    calls JAX's own attention, whose softmax is in float32 whatever it is handed.

    Raises:
        TargetProblem: for options that make it another function, such as ``normalize_qk``.
    """
    for library, kind, read in (
        ("flax.nnx", "MultiHeadAttention", _from_nnx),
        ("flax.linen", "MultiHeadDotProductAttention", _from_linen),
        ("equinox.nn", "MultiheadAttention", _from_equinox),
    ):
        made_by = getattr(sys.modules.get(library), kind, None)
        if made_by is not None and isinstance(layer, made_by):
            return read(layer, name or f"{library}.{type(layer).__name__}")
    return None


def _refuse(layer: Any, name: str, *attributes: str) -> None:
    for attribute in attributes:
        if getattr(layer, attribute, False):
            raise TargetProblem(
                f"{attribute}={getattr(layer, attribute)!r} makes it another function", where=name,
                expected=f"a layer without {attribute}",
            )  # fmt: skip


def _notes(rate: float) -> tuple[str, ...]:
    return (f"it has dropout {rate}; it was checked without",) if rate else ()


def _said(who: str) -> dict[str, str]:
    return {"layout": "its library", "heads": who, "scale": "its documentation", "mask": "its documentation"}


# ---------------------------------------------------------------- Flax


def _from_nnx(layer: Any, name: str) -> Implementation:
    nnx: Any = sys.modules["flax.nnx"]
    _refuse(layer, name, "normalize_qk", "decode")
    weights = {}
    for part in _PARTS:
        for kind in ("kernel", "bias"):
            parameter = getattr(getattr(layer, part), kind)
            if parameter is not None:
                weights[f"{part}.{kind}"] = np.asarray(parameter.get_value(), dtype=np.float64)

    def call(given: Mapping[str, Any], x_q: Any, x_k: Any, x_v: Any, keep: Any, causal: bool) -> Any:
        copy = nnx.clone(layer)
        copy.dtype = None  # that of what it is handed
        for path, value in given.items():
            part, kind = path.split(".")
            getattr(copy, part).dtype = None
            getattr(getattr(copy, part), kind).set_value(_array(value))
        return copy(_array(x_q), _array(x_k), _array(x_v), mask=keep, is_causal=causal, deterministic=True)

    grouped = weights["key.kernel"].shape[1] != weights["query.kernel"].shape[1]
    names = {f"{one}/{kind}": f"{own}.{kind}" for one, own in zip(_KERAS, _PARTS, strict=True) for kind in _KINDS}
    return Implementation(
        call=call, takes=(*_INPUTS, "keep", "causal"), weights=weights, heads=layer.num_heads,
        kv_heads=weights["key.kernel"].shape[1] if grouped else None,
        layout="keras_grouped" if grouped else "flax", names=names if grouped else {}, axes={"keep": "b 1 t s"},
        dtype="float32", name=name, said=_said("its attribute num_heads"), notes=_notes(layer.dropout_rate),
    )  # fmt: skip


_KINDS = ("kernel", "bias")
_KERAS = ("query", "key", "value", "attention_output")


def _from_linen(layer: Any, name: str) -> Implementation:
    _refuse(layer, name, "normalize_qk", "decode")
    bare = layer.clone(parent=None, dtype=None)
    own = dict(layer.variables["params"]) if layer.scope is not None else None
    weights = None
    if own is not None:
        weights = {
            f"{part}.{kind}": np.asarray(value, dtype=np.float64)
            for part in _PARTS for kind, value in own[part].items()
        }  # fmt: skip

    def call(given: Mapping[str, Any], x_q: Any, x_k: Any, x_v: Any, keep: Any) -> Any:
        parameters: dict[str, dict[str, Any]] = {part: {} for part in _PARTS}
        for path, value in given.items():
            part, kind = path.split(".")
            parameters[part][kind] = _array(value)
        inputs = (_array(x_q), _array(x_k), _array(x_v))
        return bare.apply({"params": parameters}, *inputs, mask=keep, deterministic=True)

    heads, width = layer.num_heads, layer.qkv_features
    return Implementation(
        call=call, takes=(*_INPUTS, "keep"), weights=weights, heads=heads, layout="flax", axes={"keep": "b 1 t s"},
        bias=layer.use_bias, d_model=layer.out_features, d_k=None if width is None else width // heads,
        tied=None if weights is not None else ("d_v", "d_model") if width is None else ("d_v",),
        name=name, said=_said("its attribute num_heads"), notes=_notes(layer.dropout_rate),
    )  # fmt: skip


def _array(value: Any) -> Any:
    return sys.modules["jax"].numpy.asarray(value)


# ---------------------------------------------------------------- Equinox


def _from_equinox(layer: Any, name: str) -> Implementation:
    equinox: Any = sys.modules["equinox"]
    jax: Any = sys.modules["jax"]
    if len({getattr(layer, one) for one in _WIDTHS}) > 1:
        raise TargetProblem(
            "its inputs and output have widths of their own", where=name,
            got=", ".join(f"{one}={getattr(layer, one)}" for one in _WIDTHS),
            hint="describe it with Implementation(call=..., layout=...)",
        )  # fmt: skip
    weights, quiet = {}, equinox.nn.inference_mode(layer)
    for part in _PROJECTIONS:
        for kind in ("weight", "bias"):
            value = getattr(getattr(layer, part), kind)
            if value is not None:
                weights[f"{part}.{kind}"] = np.asarray(value, dtype=np.float64)
    paths = tuple(weights)

    def find(one: Any) -> list[Any]:
        return [getattr(getattr(one, path.split(".")[0]), path.split(".")[1]) for path in paths]

    def call(given: Mapping[str, Any], x_q: Any, x_k: Any, x_v: Any, keep: Any) -> Any:
        own = equinox.tree_at(find, quiet, [_array(given[path]) for path in paths])
        if keep is None:
            return jax.vmap(own)(x_q, x_k, x_v)
        return jax.vmap(own)(x_q, x_k, x_v, keep)

    return Implementation(
        call=call, takes=(*_INPUTS, "keep"), weights=weights, heads=layer.num_heads, layout="equinox",
        axes={"keep": "b t s"}, name=name, said=_said("its attribute num_heads"), notes=_notes(layer.dropout.p),
    )  # fmt: skip


_WIDTHS = ("query_size", "key_size", "value_size", "output_size")
_PROJECTIONS = ("query_proj", "key_proj", "value_proj", "output_proj")
