"""The parts of a graph that depend on no input: made of numbers, sizes and positions alone.

Defines `closed` (which values these are), `below`, `part` (what a value is made of, as nodes of a graph), `content`
(equal for parts that hold the same), and `needed`, what a proof looks at.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from mha_sym.importers import graph as g


def closed(graph: g.Graph) -> set[int]:
    """The values that are made of numbers, sizes and positions alone.

    Example:
        >>> from mha_sym.importers.builder import Builder
        >>> b = Builder()
        >>> x, row = b.input("x", (3,)), b.iota(3)
        >>> closed(b.graph(y=b.map("mul", x, b.map("cos", row))))
        {1, 2}
    """
    known: set[int] = set()
    for number, node in enumerate(graph.nodes):
        if not isinstance(node.op, g.Input | g.Given) and known.issuperset(node.args):
            known.add(number)
    return known


def below(graph: g.Graph, ref: int) -> set[int]:
    """The nodes that a value is made of, and itself."""
    seen, waiting = {ref}, [ref]
    while waiting:
        new = set(graph.nodes[waiting.pop()].args) - seen
        waiting += new
        seen |= new
    return seen


def part(graph: g.Graph, top: int) -> tuple[g.Node, ...]:
    """What a value is made of, and itself at the end, counted anew."""
    inside = sorted(below(graph, top))
    place = {old: new for new, old in enumerate(inside)}
    return tuple(replace(graph.nodes[n], args=tuple(place[a] for a in graph.nodes[n].args)) for n in inside)


def content(nodes: Sequence[g.Node]) -> Hashable:
    """Values by what they are, not by where they stand."""
    return tuple((_entries(one.op), one.args, one.shape, one.dtype) for one in nodes)


def _entries(op: g.Op) -> Hashable:
    return (op.value.shape, str(op.value.dtype), op.value.tobytes()) if isinstance(op, g.Constant) else op


def needed(graph: g.Graph) -> list[int]:
    """Inputs, and what outputs are made of, in order; of what is taken as an arbitrary array nothing is looked at."""
    found = {n for n, node in enumerate(graph.nodes) if isinstance(node.op, g.Input)}
    waiting = list(graph.outputs.values())
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += () if isinstance(graph.nodes[one].op, g.Given) else graph.nodes[one].args
    return sorted(found)
