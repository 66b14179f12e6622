"""Expressions as graphs: every distinct value once, with the family indices on which it depends.

Defines `Graph`, `Vertex` and `graph`, from which `mha_sym.trace` and `mha_sym.count` read.  Two nodes that are
written alike are one value, whether or not they are the same object in memory.  Nothing is simplified: values
that are equal by a theorem, and not by how they are written, stay apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from mha_sym.axes import Index
from mha_sym.expr import Concat, Expr, Select, Stack, Total, walk


@dataclass(frozen=True, slots=True)
class Vertex:
    """One distinct value.

    Attributes:
        number: its place in `Graph.vertices`; the values that it reads have smaller numbers.
        node: the node that makes it.
        children: the numbers of the values that it reads, in the order of ``node.children``.
        free: the indices on which it depends, "head r"; a family over r binds r.
        members: those of them for which every member is wanted, because a family binds them further up; for the
            others, as for all of ``free`` in an expression about one head, it is wanted at one position.
    """

    number: int
    node: Expr
    children: tuple[int, ...]
    free: frozenset[Index]
    members: frozenset[Index] = frozenset()


@dataclass(frozen=True, slots=True)
class Graph:
    """The distinct values of some expressions, children before parents, and the numbers of the expressions."""

    vertices: tuple[Vertex, ...]
    roots: tuple[int, ...]


def graph(exprs: Expr | Iterable[Expr]) -> Graph:
    """The distinct values of one or several expressions.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> t = axis("t")
        >>> found = graph(Input("X", (t,)) + Input("X", (t,)))
        >>> [type(v.node).__name__ for v in found.vertices], found.roots
        (['Input', 'Map'], (1,))
    """
    roots = (exprs,) if isinstance(exprs, Expr) else tuple(exprs)
    by_id: dict[int, int] = {}
    by_key: dict[Hashable, int] = {}
    vertices: list[Vertex] = []
    for root in roots:
        for node in walk(root):
            if id(node) in by_id:
                continue
            key = _key(node, by_id)
            if key not in by_key:
                by_key[key] = len(vertices)
                vertices.append(_vertex(node, vertices, by_id))
            by_id[id(node)] = by_key[key]
    return Graph(_with_members(vertices), tuple(by_id[id(root)] for root in roots))


def _key(node: Expr, numbers: dict[int, int]) -> Hashable:
    """What the node is, with the values that it reads replaced by their numbers.

    Comparing the nodes themselves would unfold every shared value again and again.
    """

    def short(value: Any) -> Hashable:
        if isinstance(value, Expr):
            return ("value", numbers[id(value)])
        if isinstance(value, tuple):
            return tuple(short(item) for item in value)
        return (type(value), value)

    return (type(node), *(short(getattr(node, one.name)) for one in fields(node) if one.init))


def _vertex(node: Expr, vertices: list[Vertex], numbers: dict[int, int]) -> Vertex:
    children = tuple(numbers[id(child)] for child in node.children)
    free = frozenset[Index]().union(*(vertices[number].free for number in children))
    if isinstance(node, Select) and isinstance(node.at, Index):
        free |= {node.at}
    free -= _bound_by(node)
    return Vertex(len(vertices), node, children, free)


def _bound_by(node: Expr) -> frozenset[Index]:
    return frozenset({node.index}) if isinstance(node, Stack | Concat | Total) else frozenset()


def _with_members(vertices: list[Vertex]) -> tuple[Vertex, ...]:
    """The vertices with ``members``, found from the top down: a child is bound by what binds its parents."""
    bound: list[frozenset[Index]] = [frozenset()] * len(vertices)
    for one in reversed(vertices):
        for child in one.children:
            bound[child] |= bound[one.number] | _bound_by(one.node)
    return tuple(replace(one, members=one.free & bound[one.number]) for one in vertices)
