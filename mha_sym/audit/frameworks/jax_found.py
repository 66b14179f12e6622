"""Modules of Flax and Equinox of any make as implementations: what their weights mean is found by a probe.

Defines `from_jax_module`.  Nothing is imported here: a module cannot be there unless its library is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from mha_sym.audit.frameworks.naming import HEADS, attribute
from mha_sym.audit.frameworks.probe import Probed, found
from mha_sym.audit.implementation import Implementation
from mha_sym.errors import TargetProblem

_MODULES = (("flax.linen", "Module"), ("flax.nnx", "Module"), ("equinox", "Module"))


def from_jax_module(module: Any, name: str = "") -> Implementation | None:
    """A module that takes ``x (b,t,m)``, or ``x (t,m)``, as an implementation; None for what is no module.

    Raises:
        TargetProblem: for a module that does not say its number of heads, or of which no reading is attention.
    """
    kinds = [getattr(sys.modules.get(library), kind, None) for library, kind in _MODULES]
    if not any(kind is not None and isinstance(module, kind) for kind in kinds):
        return None
    from mha_sym.importers.from_jax.layers import opened  # it imports JAX, which is there

    title = name or type(module).__qualname__
    heads = attribute(module, HEADS)
    if heads is None:
        raise TargetProblem(
            f"{title} does not say how many heads it has", expected="an attribute such as num_heads",
            hint="describe it with Implementation(call=..., heads=..., layout=...)",
        )  # fmt: skip
    layer, jax = opened(module), sys.modules["jax"]

    def call(weights: Mapping[str, Any], x: Any) -> Any:
        def one(tokens: Any) -> Any:
            result = layer.call(weights, tokens)
            return result[0] if isinstance(result, tuple | list) else result

        return (jax.vmap(one) if unbatched else one)(jax.numpy.asarray(x))

    widths = tuple(dict.fromkeys(size for value in layer.weights.values() for size in value.shape))
    unbatched = isinstance(module, getattr(sys.modules.get("equinox"), "Module", ()))
    return found(Probed(call, layer.weights, (heads,), widths, title))
