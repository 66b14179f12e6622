"""JAX code as a graph, for one way of calling.

Defines `uses_jax`, `jax_graph` and `compiled`.  JAX is imported only for code that has imported it.  This runs the
user's code.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sympy

from mha_sym.audit.call import _bound, _named
from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import KEEPS, Implementation
from mha_sym.audit.proving.statement import Statement, arguments
from mha_sym.importers.graph import Graph, Role
from mha_sym.importers.lifting.lift import Masked

_LIBRARIES = ("jax", "jaxlib", "flax", "equinox", "keras")


def uses_jax(impl: Implementation) -> bool:
    """Whether the code of an implementation is written with JAX: it, or a function that it calls, names JAX.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     return x
        >>> uses_jax(Implementation(call=attention))
        False
    """
    return "jax" in sys.modules and _names_jax(impl.call, set())


def _names_jax(code: Any, seen: set[int]) -> bool:
    plain = inspect.unwrap(code)
    if id(plain) in seen or len(seen) > 200:
        return False
    seen.add(id(plain))
    if not inspect.isfunction(plain):
        method = vars(type(plain)).get("__call__")
        return _of_jax(plain) or (inspect.isfunction(method) and _names_jax(method, seen))
    found = inspect.getclosurevars(plain)
    values = [*found.globals.values(), *found.nonlocals.values()]
    if any(_of_jax(one) for one in values):
        return True
    return any(inspect.isfunction(one) and _names_jax(one, seen) for one in values)


def _of_jax(value: Any) -> bool:
    name = value.__name__ if inspect.ismodule(value) else str(getattr(type(value), "__module__", ""))
    own = str(getattr(value, "__module__", "") or "") if callable(value) else ""
    return any(one.split(".")[0] in _LIBRARIES for one in (name, own))


def jax_graph(impl: Implementation, case: Case, statement: Statement) -> Graph:
    """The graph of JAX code; its inputs are called like those of the statement.

    Raises:
        ImportProblem: for what is outside the vocabulary, with the user's line.
        Leak: if the code needs the value of a size.
        TargetProblem: if the code itself raises.
    """
    from mha_sym.importers.from_jax.module import from_function
    from mha_sym.importers.from_jax.trace import Spec

    specs = {}
    for name, one in statement.inputs.items():
        expr = one.value if isinstance(one, Masked) else one
        shape = tuple(axis.size for axis in expr.axes)
        boolean = not isinstance(one, Masked) and name in KEEPS
        role: Role = "param" if name in impl.stored.values() else "user"
        specs[name] = Spec(shape, "bool" if boolean else "float64", role)

    def code(arrays: Mapping[str, Any], size: Callable[[sympy.Expr], Any]) -> Any:
        result = _bound(impl, arguments(impl, case, statement, arrays, size))()
        return {word: value for word, value in _named(impl, result).items() if value is not None}

    return from_function(code, specs, name=impl.title, owner=inspect.unwrap(impl.call)).graph


def compiled(impl: Implementation) -> Implementation:
    """The same implementation, each call compiled as a whole: JAX compiles every operation by itself otherwise.

    Only how fast it is at many sizes changes; arrays and sizes are handed over as they were.
    """
    import jax

    from mha_sym.importers.from_jax import trace as jax_trace

    known: dict[Any, Callable[..., Any]] = {}

    @functools.wraps(impl.call)
    def call(*args: Any, **kwargs: Any) -> Any:
        flat, structure = jax.tree.flatten((args, kwargs), is_leaf=lambda one: one is None)
        arrays = [one for one in flat if isinstance(one, np.ndarray)]
        rest = tuple(None if isinstance(one, np.ndarray) else one for one in flat)
        places = tuple(n for n, one in enumerate(flat) if isinstance(one, np.ndarray))

        def whole(given: list[Any]) -> Any:
            own = list(rest)
            for place, one in zip(places, given, strict=True):
                own[place] = one
            again, named = jax.tree.unflatten(structure, own)
            return impl.call(*again, **named)

        return known.setdefault((structure, rest, places), jax_trace.compiled(whole))(arrays)

    return replace(impl, call=call)
