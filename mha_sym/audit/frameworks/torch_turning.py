"""The tables of rotary positions that a torch module makes by itself, or keeps, found in its graph.

Defines `tables_of`.  This runs the module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mha_sym.audit.frameworks.own_tables import Own, own_of
from mha_sym.audit.frameworks.torch_modules import first_output
from mha_sym.axes import size_symbol
from mha_sym.blame import import_torch
from mha_sym.errors import Problem
from mha_sym.importers.graph import Array
from mha_sym.importers.session import HINTS


def tables_of(module: Any, weights: Mapping[str, Array], width: int, dtype: str) -> Own | None:
    """The tables of a module that takes ``x (b, t, m)``, None if it makes none or cannot be followed.

    Args:
        module: the module, in the format and mode in which it is looked at.
        weights: its parameters.
        width: the width of x.
        dtype: the format.
    """
    from mha_sym.importers.from_torch.code import Spec, from_code

    batch, length = size_symbol("B"), size_symbol("T")
    kind = getattr(import_torch(), dtype)
    specs = {name: Spec(tuple(value.shape), kind, "param") for name, value in weights.items()}
    specs["x"] = Spec((batch, length, width), kind)

    def code(given: Mapping[str, Any], size: Callable[[Any], Any]) -> dict[str, Any]:
        del size  # all sizes are those of x
        return {"y": first_output(module, {name: given[name] for name in weights}, (given["x"],), {})}

    try:
        graph = from_code(code, specs, {one: HINTS[one.name] for one in (batch, length)}, type(module).__name__).graph
        return own_of(graph, length)
    except Problem:
        return None
