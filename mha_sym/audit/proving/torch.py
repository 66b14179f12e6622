"""A torch implementation as a graph, for one way of calling.

Defines `traced`.  Torch is imported by whoever made the implementation, never by importing this file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sympy

from mha_sym.audit.call import _bound, _named
from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import KEEPS, Implementation
from mha_sym.audit.proving.statement import Statement, arguments
from mha_sym.axes import Axis
from mha_sym.importers.graph import Graph, Place
from mha_sym.importers.lifting.lift import Masked
from mha_sym.importers.session import HINTS, Leak


def traced(impl: Implementation, case: Case, statement: Statement) -> Graph:
    """The graph of torch code: its inputs are called like the entries of ``statement.inputs``.

    Raises:
        Leak: if the code needs the value of a size.
        ImportProblem: for code that cannot be read as a graph.
        TargetProblem: if the code itself raises.
    """
    import torch

    from mha_sym.importers.from_torch.code import Spec, from_code
    from mha_sym.importers.from_torch.trace import Asked

    axes = {name: _axes(one) for name, one in statement.inputs.items()}
    floats = getattr(torch, impl.dtype)
    specs = {
        name: Spec(tuple(a.size for a in row), torch.bool if _is_boolean(statement.inputs[name], name) else floats)
        for name, row in axes.items()
    }

    def code(given: Mapping[str, Any], size: Callable[[Any], Any]) -> dict[str, Any]:
        result = _bound(impl, arguments(impl, case, statement, given, size))()
        return {word: value for word, value in _named(impl, result).items() if value is not None}

    sizes = [statement.dims.h.size, *(a.size for row in axes.values() for a in row)]
    symbols = sorted({symbol for size in sizes for symbol in size.free_symbols}, key=str)
    try:
        with _equal_as_objects(torch):
            found = from_code(code, specs, {symbol: HINTS.get(symbol.name, 3) for symbol in symbols}, impl.title)
    except Asked as problem:
        free = (one.relation.free_symbols for one in problem.branches)
        raise Leak(frozenset().union(*free), problem.branches[0].place) from problem
    if found.fixed:
        raise Leak(frozenset(found.fixed), _asked_at(found.graph))
    return found.graph


@contextlib.contextmanager
def _equal_as_objects(torch: Any) -> Iterator[None]:
    """While this lasts, tensors without values are equal if they are one object.

    Whoever wraps a module that looks at the identity of its inputs asks whether they are equal.
    """
    saved = torch.equal
    torch.equal = lambda one, other: one is other
    try:
        yield
    finally:
        torch.equal = saved


def _axes(one: Any) -> tuple[Axis, ...]:
    return (one.value if isinstance(one, Masked) else one).axes


def _is_boolean(one: Any, name: str) -> bool:
    return not isinstance(one, Masked) and name in KEEPS


def _asked_at(graph: Graph) -> Place:
    """Where the value of a size was asked for."""
    places = [one.place for one in graph.notes.conditions if isinstance(one.relation, sympy.Eq) and one.place.file]
    return places[0] if places else Place()
