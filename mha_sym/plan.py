"""What is known of expressions before any array is touched: which values there are and which may be overwritten.

Defines `Plan`, `plan_of` and `least_sizes`.  Reads the expressions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy

from mha_sym.arrays import all_inputs
from mha_sym.axes import Index
from mha_sym.expr import Concat, Expr, Input, Scalar, Select, Stack, Total, walk
from mha_sym.graph import Vertex, graph


@dataclass(frozen=True)
class Plan:
    """The distinct values of some expressions by number; values written alike are one.

    Attributes:
        inputs: the inputs by name.
        sizes: the names of all size symbols.
        nodes: for each number, the node that makes the value.
        number: the number of a node's value, by ``id`` of the node; has the ``nodes``, their children, and the
            expressions themselves.
        free: for each number, the indices that the value depends on.
        once: the numbers of values each of which is read exactly once: by one parent, which has the same free indices
            or binds the one that it lacks.
    """

    inputs: dict[str, Input]
    sizes: frozenset[str]
    nodes: tuple[Expr, ...]
    number: dict[int, int]
    free: tuple[tuple[Index, ...], ...]
    once: frozenset[int]


class _Roots:
    """Expressions as the key of a cache, equal only to the same objects: to compare trees would cost what it saves."""

    def __init__(self, roots: Sequence[Expr]) -> None:
        self.roots = tuple(roots)
        self._ids = tuple(map(id, self.roots))

    def __hash__(self) -> int:
        return hash(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Roots) and self._ids == other._ids


def plan_of(roots: Sequence[Expr]) -> Plan:
    """The plan of these expressions, worked out once for the same objects.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t", "T"),))
        >>> plan = plan_of([-x + x])
        >>> plan.sizes, len(plan.free), sorted(plan.once)
        (frozenset({'T'}), 3, [1, 2])
    """
    return _planned(_Roots(roots))


def least_sizes(exprs: Iterable[Expr]) -> dict[str, int]:
    """How small a size may be, by the name of its symbol, where a position of its axis is named.

    Example:
        >>> from mha_sym.axes import axis
        >>> t = axis("t", "T")
        >>> least_sizes([Select(Input("x", (t,)), t, 2)])
        {'T': 3}
    """
    found: dict[str, int] = {}
    for node in (node for expr in exprs for node in walk(expr)):
        if isinstance(node, Select) and isinstance(node.at, int) and node.axis_.size.is_Symbol:
            name = node.axis_.size.name
            found[name] = max(found.get(name, 1), node.at + 1)
    return found


@lru_cache(maxsize=1024)
def _planned(key: _Roots) -> Plan:
    found = graph(key.roots)
    number = {id(vertex.node): vertex.number for vertex in found.vertices}
    number |= {id(root): n for root, n in zip(key.roots, found.roots, strict=True)}
    readers: list[list[frozenset[Index]]] = [[] for _ in found.vertices]
    for vertex in found.vertices:
        for child, n in zip(vertex.node.children, vertex.children, strict=True):
            number[id(child)] = n
            readers[n].append(vertex.free | _bound(vertex.node))
    for n in found.roots:
        readers[n].append(found.vertices[n].free)
    return Plan(
        inputs=all_inputs(key.roots),
        sizes=frozenset(symbol.name for vertex in found.vertices for symbol in _symbols(vertex)),
        nodes=tuple(vertex.node for vertex in found.vertices),
        number=number,
        free=tuple(tuple(sorted(v.free, key=lambda index: (index.name, index.axis.name))) for v in found.vertices),
        once=frozenset(n for n, read in enumerate(readers) if read == [found.vertices[n].free]),
    )


def _bound(node: Expr) -> frozenset[Index]:
    return frozenset({node.index}) if isinstance(node, Stack | Concat | Total) else frozenset()


def _symbols(vertex: Vertex) -> set[sympy.Symbol]:
    """The size symbols that a node mentions."""
    node = vertex.node
    axes = (*node.axes, *(index.axis for index in _bound(node)))
    found = {symbol for one in axes for symbol in one.size.free_symbols}
    return found | node.value.free_symbols if isinstance(node, Scalar) else found
