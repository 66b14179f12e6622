"""Tables looked up by position, such as a bias for every bucket of distances: any function of the positions.

Defines `looked_up`, `Lookup`, and `at`, where in a table is looked.  What a table holds where a formula of positions
points is an array of its own: of it nothing is used but which axes count positions.  What is proved then holds whatever
the formula and the table are; what is refuted may not, as not every array comes of a formula and a table.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from mha_sym.importers import graph as g
from mha_sym.importers.closed import below, closed, content, needed, part
from mha_sym.importers.fold import pruned
from mha_sym.importers.run import value_of

#: what is looked up
BIAS = "position_bias"


@dataclass(frozen=True)
class Lookup:
    """What is looked up.

    Attributes:
        name: the input that stands for it.
        shape: its shape.
        node: where in the graph it is.
        counting: the axes that positions run along, in order; of more than two those that are longer than 1.
        place: where the table is read.
        formula: where the positions in the table are computed.
        computed: whether it is no table in the code, but an entry for every query and key that it computes.
        same: equal for two that look up the same table at the same formula, and so hold the same.
    """

    name: str
    shape: g.Shape
    node: int
    counting: tuple[int, ...]
    place: g.Place
    formula: tuple[g.Place, ...]
    same: Hashable
    computed: bool = False

    def words(self) -> str:
        """What is taken as the code has it, in one sentence."""
        if self.computed:
            return (
                f"{self.name} is what the code computes from positions at {self.place}, an entry for every query and "
                "key: what is proved holds for any such numbers"
            )
        lines = sorted({one.line for one in self.formula if one.file == self.place.file and one.line})
        span = f", lines {lines[0]} to {lines[-1]}" if lines else ""
        return (
            f"{self.name} is what the code looks up in a table at {self.place}; which entry stands for which query and "
            f"key is taken as the code computes it from their positions{span}: any formula, and any table"
        )


def looked_up(graph: g.Graph, name: str = BIAS) -> tuple[g.Graph, tuple[Lookup, ...]]:
    """The graph with an input in place of every table that is read at a formula of positions.

    Args:
        graph: a folded graph.
        name: what the inputs are called, from the second on with a number.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> from mha_sym.importers.builder import Builder
        >>> t, b = size_symbol("T"), Builder()
        >>> row = b.iota(t)
        >>> away = b.map("sub", b.reshape(row, (1, t)), b.reshape(row, (t, 1)))
        >>> table = b.constant([[0.5, 1.5]] * 9)
        >>> graph, (found,) = looked_up(b.graph(y=b.take(table, 0, b.map("abs", away))))
        >>> found.name, found.shape, found.counting
        ('position_bias', (T, T, 2), (0, 1))
    """
    known, alive = closed(graph), set(needed(graph))
    nodes = list(graph.nodes)
    found: list[Lookup] = []
    for number, node in enumerate(graph.nodes):
        if isinstance(node.op, g.Take) and number in alive and known.issuperset(node.args):
            called = f"{name}{len(found) + 1}" if found else name
            found.append(_lookup(graph, number, called))
            nodes[number] = replace(node, op=g.Input(called, "buffer"), args=())
    return pruned(g.Graph(tuple(nodes), graph.outputs, graph.notes)), tuple(found)


def at(graph: g.Graph, found: Lookup) -> g.Array:
    """The positions in the table, where they depend on no size."""
    return value_of(part(graph, graph.nodes[found.node].args[1]), {})


def _lookup(graph: g.Graph, number: int, name: str) -> Lookup:
    node = graph.nodes[number]
    assert isinstance(node.op, g.Take)
    index = graph.nodes[node.args[1]]
    longer = [n for n, size in enumerate(index.shape) if size != 1]
    counting = tuple(node.op.axis + n for n in (range(2) if len(index.shape) == 2 else longer))
    places = dict.fromkeys(graph.nodes[n].place for n in below(graph, node.args[1]))
    same = content(part(graph, number))
    return Lookup(name, node.shape, number, counting, node.place, tuple(places), same, node.op.whole)
