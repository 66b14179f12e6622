"""Layers of Flax, Equinox and Keras as functions of their weights.

Defines `opened`.  Nothing is imported here: a layer cannot be there unless its library is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mha_sym.importers.from_jax.trace import path_name
from mha_sym.importers.graph import Array, ImportProblem


@dataclass(frozen=True)
class Opened:
    """A layer, and how to call it with other weights.

    Attributes:
        weights: its floats by their paths, such as ``query.kernel``.
        call: takes such weights, and the arguments of the layer.
    """

    weights: Mapping[str, Array]
    call: Callable[..., Any]


def opened(layer: Any) -> Opened:
    """A layer as a function of its weights; dropout stays as the layer has it.

    Known are Flax linen modules that are bound to variables, Flax nnx modules, Equinox modules, Keras layers on the
    JAX backend, and pytrees of arrays that are callable.

    Raises:
        ImportProblem: for a linen module without weights, and for what is none of these.
    """
    for library, kind, read in (
        ("flax.linen", "Module", _linen), ("flax.nnx", "Module", _nnx), ("equinox", "Module", _equinox),
        ("keras", "Layer", _keras),
    ):  # fmt: skip
        made_by = getattr(sys.modules.get(library), kind, None)
        if made_by is not None and isinstance(layer, made_by):
            return read(layer)
    raise ImportProblem(
        f"{type(layer).__name__} is no layer that is known", expected="a layer of Flax, Equinox or Keras",
        hint="give a function of the inputs and the weights",
    )  # fmt: skip


def _tree(tree: Any, call: Callable[..., Any]) -> Opened:
    """``call`` takes a tree like this one; its floats are the weights."""
    flat, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = {path_name(path): leaf for path, leaf in flat}
    weights = {
        name: np.asarray(leaf, np.float64) for name, leaf in leaves.items()
        if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    }  # fmt: skip

    def called(given: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        own = [given.get(name, leaf) for name, leaf in leaves.items()]
        return call(jax.tree_util.tree_unflatten(structure, own), *args, **kwargs)

    return Opened(weights, called)


def _linen(layer: Any) -> Opened:
    if layer.scope is None:
        raise ImportProblem(
            f"{type(layer).__name__} has no weights yet", expected="a module that is bound to its variables",
            hint="variables = module.init(key, x); then give module.bind(variables)",
        )  # fmt: skip
    module, variables = layer.unbind()
    parameters = variables.get("params", {})
    rest = {name: value for name, value in variables.items() if name != "params"}
    return _tree(parameters, lambda own, *args, **kwargs: module.apply({"params": own, **rest}, *args, **kwargs))


def _nnx(layer: Any) -> Opened:
    nnx = sys.modules["flax.nnx"]
    definition, parameters, rest = nnx.split(layer, nnx.Param, ...)
    plain = nnx.to_pure_dict(parameters)

    def call(own: Any, *args: Any, **kwargs: Any) -> Any:
        state = jax.tree.map(lambda one: one, parameters)
        nnx.replace_by_pure_dict(state, own)
        return nnx.merge(definition, state, rest)(*args, **kwargs)

    return _tree(plain, call)


def _equinox(layer: Any) -> Opened:
    equinox = sys.modules["equinox"]
    arrays, rest = equinox.partition(layer, equinox.is_array)
    return _tree(arrays, lambda own, *args, **kwargs: equinox.combine(own, rest)(*args, **kwargs))


def _keras(layer: Any) -> Opened:
    keras = sys.modules["keras"]
    if keras.backend.backend() != "jax":
        raise ImportProblem(
            f"Keras runs on {keras.backend.backend()} here", expected="Keras on JAX",
            hint="set KERAS_BACKEND=jax in the environment before Keras is imported",
        )  # fmt: skip
    names = ["/".join(one.path.split("/")[-2:]) for one in layer.trainable_variables]
    others = [one.value for one in layer.non_trainable_variables]

    def call(own: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        return layer.stateless_call([own[name] for name in names], others, *args, **kwargs)[0]

    return _tree(dict(zip(names, (one.value for one in layer.trainable_variables), strict=True)), call)
