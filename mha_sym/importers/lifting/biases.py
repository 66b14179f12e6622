"""Biases that code computes from positions and adds to its scores, such as those of ALiBi: read as any such bias.

Defines `with_tables_of_biases`.  A value that depends on no input and has an entry for every query and key is written
as a table of itself that is read whole; what is read of a table is an array of which nothing is used
(`mha_sym.importers.lifting.lookups`).  Values in which something is hidden, as in masks, are left as they are, but a
distance of positions that is compared with a number, ``s - t > 0``, becomes a comparison of positions, ``s > t + 0``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import sympy

from mha_sym.importers import graph as g
from mha_sym.importers.builder import Builder
from mha_sym.importers.closed import below, closed, needed
from mha_sym.importers.graph import Graph, Ref
from mha_sym.importers.sizes import same

#: numbers of this size may stand for minus infinity
_FILL = 10**4


def with_tables_of_biases(graph: Graph, queries: sympy.Expr, keys: sympy.Expr) -> Graph | None:
    """The graph with every such bias as a table that is read whole, and distances compared; None if there is none.

    Args:
        graph: a folded graph.
        queries: how many there are.
        keys: how many there are.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> t, b = size_symbol("T"), Builder()
        >>> row = b.iota(t)
        >>> away = b.map("sub", b.reshape(row, (1, t)), b.reshape(row, (t, 1)))
        >>> graph = b.graph(y=b.map("add", b.input("x", (t, t)), b.map("abs", away)))
        >>> made = with_tables_of_biases(graph, t, t)
        >>> [one.op for one in made.nodes if isinstance(one.op, g.Take)]
        [Take(axis=0, whole=True)]
    """
    known = closed(graph)
    found: dict[Ref, tuple[tuple[int, int], bool]] = {}
    for number in needed(graph):
        node = graph.nodes[number]
        if node.op in (g.Map("add"), g.Map("sub")) and number not in known:
            for ref in known.intersection(node.args):
                taken = node.op == g.Map("sub") and ref == node.args[1]
                found |= dict(_biases(graph, ref, (queries, keys), taken))
    distances = dict(_distances(graph, known))
    if not found and not distances:
        return None
    builder, new = Builder(notes=graph.notes), list[Ref]()
    for number, node in enumerate(graph.nodes):
        builder.place = node.place
        if number in distances:
            new.append(_compared(builder, distances[number], new))
            continue
        builder.nodes.append(replace(node, args=tuple(new[ref] for ref in node.args)))
        new.append(len(builder.nodes) - 1)
        if number in found:
            axes, taken = found[number]
            value = builder.map("neg", new[number]) if taken else new[number]
            made = _as_table(builder, value, axes, queries, keys)
            new[number] = builder.map("neg", made) if taken else made
    return builder.graph(**{name: new[ref] for name, ref in graph.outputs.items()})


@dataclass(frozen=True)
class _Distance:
    """A comparison ``one - other ? number``, or of the size of the difference."""

    op: str
    one: Ref
    other: Ref
    number: Ref
    size: bool


#: comparisons from the other side
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
#: comparisons of what is near; of a size, both sides must be
_NEAR = ("lt", "le")


def _distances(graph: Graph, known: set[int]) -> Iterator[tuple[int, _Distance]]:
    """The comparisons of a difference of values without inputs with a single number."""
    for number in sorted(known):
        node = graph.nodes[number]
        f = node.op.f if isinstance(node.op, g.Map) else ""
        if f in _TURNED:
            left, right = node.args
            sides = (_distance(graph, f, left, right), _distance(graph, _TURNED[f], right, left))
            yield from ((number, one) for one in sides if one is not None)


def _distance(graph: Graph, op: str, away: Ref, number: Ref) -> _Distance | None:
    """``away ? number`` where that is a difference of positions, or its size, and a number."""
    size = graph.nodes[away].op == g.Map("abs")
    away = graph.nodes[away].args[0] if size else away
    if graph.nodes[away].op != g.Map("sub") or not _is_number(graph, number) or (size and op in ("eq", "ne")):
        return None
    one, other = graph.nodes[away].args
    positions = _is_positions(graph, one) and _is_positions(graph, other)
    return _Distance(op, one, other, number, size) if positions else None


def _is_number(graph: Graph, ref: Ref) -> bool:
    """Whether a value is one number, the same everywhere."""
    made = (graph.nodes[one].op for one in below(graph, ref))
    return not any(isinstance(op, g.Iota) or (isinstance(op, g.Constant) and op.value.ndim > 0) for op in made)


def _is_positions(graph: Graph, ref: Ref) -> bool:
    """Whether a value is whole numbers along an axis."""
    return np.dtype(graph.nodes[ref].dtype).kind == "i" and not _is_number(graph, ref)


def _compared(builder: Builder, one: _Distance, new: Sequence[Ref]) -> Ref:
    """``a - b ? n`` as ``a ? b + n``; ``abs(a - b) < n`` as both ``a < b + n`` and ``b < a + n``, and far as either."""
    a, b, n = (new[ref] for ref in (one.one, one.other, one.number))
    made = builder.map(one.op, a, builder.map("add", b, n))
    if not one.size:
        return made
    back = builder.map(one.op, b, builder.map("add", a, n))
    return builder.map("and" if one.op in _NEAR else "or", made, back)


def _biases(
    graph: Graph, ref: Ref, lengths: tuple[sympy.Expr, sympy.Expr], taken: bool
) -> Iterator[tuple[Ref, tuple[tuple[int, int], bool]]]:
    """The largest parts of what is added in which nothing is hidden: their axes, and whether they are taken away."""
    node = graph.nodes[ref]
    if isinstance(node.op, g.Broadcast):  # the same for every sequence, and perhaps head
        yield from _biases(graph, node.args[0], lengths, taken)
    elif not any(_hides(graph.nodes[one].op) for one in below(graph, ref)):
        axes = _axes(node.shape, *lengths)
        if axes is not None and np.dtype(node.dtype).kind in "fi":
            yield ref, (axes, taken)
    elif node.op in (g.Map("add"), g.Map("sub"), g.Map("where")):
        for n, one in enumerate(node.args[-2:]):
            yield from _biases(graph, one, lengths, taken ^ (n == 1 and node.op == g.Map("sub")))


def _hides(op: g.Op) -> bool:
    """Whether a number may stand for minus infinity."""
    if isinstance(op, g.SizeValue):
        return bool(op.value.is_number) and not bool(abs(op.value) < _FILL)
    return isinstance(op, g.Constant) and op.value.dtype.kind == "f" and not bool((np.abs(op.value) < _FILL).all())


def _axes(shape: g.Shape, queries: sympy.Expr, keys: sympy.Expr) -> tuple[int, int] | None:
    """Which axes run along queries and keys, if that can be told by their sizes."""
    rows = [n for n, size in enumerate(shape) if same(size, queries)]
    columns = [n for n, size in enumerate(shape) if same(size, keys)]
    last = len(shape) - 1
    if columns == [last] and (rows in ([], [last]) and (last == 0 or shape[-2] == 1)):
        return -2, -1  # an entry for every key, the same for all queries
    if same(queries, keys):
        return (rows[0], rows[1]) if len(rows) == 2 else None
    return (rows[0], columns[0]) if len(rows) == len(columns) == 1 else None


def _as_table(builder: Builder, ref: Ref, axes: tuple[int, int], queries: sympy.Expr, keys: sympy.Expr) -> Ref:
    """A value as what is read at every pair of positions in the table of its entries."""
    shape = builder.shape(ref)
    if axes == (-2, -1):
        shape = (*shape[:-2], queries, keys)
        ref, axes = builder.broadcast(ref, shape), (len(shape) - 2, len(shape) - 1)
    order = [*axes, *(n for n in range(len(shape)) if n not in axes)]
    rest = [shape[n] for n in order[2:]]
    table = builder.reshape(builder.permute(ref, order), [sympy.expand(queries * keys), *rest])
    down = builder.map("mul", builder.reshape(builder.iota(queries), (queries, 1)), builder.size(keys))
    place = builder.map("add", down, builder.reshape(builder.iota(keys), (1, keys)))
    builder.nodes.append(
        g.Node(g.Take(0, whole=True), (table, place), (queries, keys, *rest), builder.dtype(ref), builder.place)
    )
    return builder.permute(len(builder.nodes) - 1, [order.index(n) for n in range(len(shape))])
