"""Biases that code computes from positions and adds to its scores, such as those of ALiBi: read as any such bias.

Defines `with_tables_of_biases`.  A value that depends on no input and has an entry for every query and key is written
as a table of itself that is read whole; what is read of a table is an array of which nothing is used
(`mha_sym.importers.lifting.lookups`).  Values in which something is hidden, as in masks, are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    """The graph with every such bias as a table that is read whole; None if there is none.

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
    if not found:
        return None
    builder, new = Builder(notes=graph.notes), list[Ref]()
    for number, node in enumerate(graph.nodes):
        builder.place = node.place
        builder.nodes.append(replace(node, args=tuple(new[ref] for ref in node.args)))
        new.append(len(builder.nodes) - 1)
        if number in found:
            axes, taken = found[number]
            value = builder.map("neg", new[number]) if taken else new[number]
            made = _as_table(builder, value, axes, queries, keys)
            new[number] = builder.map("neg", made) if taken else made
    return builder.graph(**{name: new[ref] for name, ref in graph.outputs.items()})


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
