"""Arithmetic put off: array elements that remember how they are made, so that only what is asked for is worked out.

Defines `Graph`, whose `Node`s are elements for `mha_sym.evaluate`: given entries, rational numbers and the operations
on them.  The same operation on the same nodes is the same node.  `Values` works nodes out in an `ExpField` that has a
generator for each given entry below them, and no more.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import sympy

from mha_sym.proof.exp_rational import Beyond, ExpField, ExpRational


class Node:
    """One element: an operation and what it is applied to, ``number`` telling equal nodes."""

    __slots__ = ("args", "graph", "number", "op")

    def __init__(self, graph: Graph, op: str, args: tuple[Any, ...], number: int) -> None:
        self.graph, self.op, self.args, self.number = graph, op, args, number

    def __add__(self, other: Node) -> Node:
        graph = self.graph
        if self is graph.zero:
            return other
        if other is graph.zero:
            return self
        if self.op == other.op == "rational":
            return graph.rational(self.args[0] + other.args[0])
        first, second = (self, other) if self.number <= other.number else (other, self)
        return graph.node("add", (first, second), (first.number, second.number))

    def __mul__(self, other: Node) -> Node:
        graph = self.graph
        if self is graph.one:
            return other
        if other is graph.one:
            return self
        if self is graph.zero or other is graph.zero:
            return graph.zero
        if self.op == other.op == "rational":
            return graph.rational(self.args[0] * other.args[0])
        first, second = (self, other) if self.number <= other.number else (other, self)
        return graph.node("mul", (first, second), (~first.number, second.number))

    def __neg__(self) -> Node:
        return self.graph.minus_one * self


class Graph:
    """All nodes that were made; this is the protocol `mha_sym.backends.Elements`.

    Args:
        limit: how many nodes may be made.

    Raises:
        Beyond: by every operation, once that many have been.

    Example:
        >>> graph = Graph(limit=100)
        >>> x, y = graph.leaf("X", (0,)), graph.leaf("X", (1,))
        >>> x * y + graph.zero is y * x
        True
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nodes: list[Node] = []
        self._known: dict[tuple[Any, ...], Node] = {}
        self.zero, self.one, self.minus_one = map(self.rational, (0, 1, -1))

    def node(self, op: str, args: tuple[Any, ...], key: tuple[Any, ...]) -> Node:
        """The node of an operation, a new one if it was not made before; ``key`` tells it from all others."""
        node = self._known.get(key)
        if node is None:
            if len(self.nodes) >= self.limit:
                raise Beyond("too many operations")
            node = self._known[key] = Node(self, op, args, len(self.nodes))
            self.nodes.append(node)
        return node

    def leaf(self, name: str, place: tuple[int, ...]) -> Node:
        """An entry of a given array."""
        return self.node("leaf", (name, place), ("leaf", name, place))

    def rational(self, value: Fraction | int) -> Node:
        """A rational number."""
        return self.node("rational", (value,), ("rational", value))

    def number(self, value: sympy.Expr) -> Node:
        """A number made of rationals and roots."""
        if value.is_Integer:
            return self.rational(int(value))
        if value.is_Rational:
            return self.rational(Fraction(int(value.p), int(value.q)))
        return self.node("number", (value,), ("number", value))

    def exp(self, x: Node) -> Node:
        """``e^x``."""
        return self.one if x is self.zero else self.node("exp", (x,), ("exp", x.number))

    def inverse(self, x: Node) -> Node:
        """``1/x``, and 0 for 0."""
        if x.op == "rational":
            return self.rational(Fraction(1) / x.args[0]) if x.args[0] else x
        return self.node("inv", (x,), ("inv", x.number))

    def maximum(self, x: Node, y: Node) -> Node:
        """The larger of two."""
        return x if x is y else self.node("max", (x, y), ("max", x.number, y.number))

    def function(self, name: str, *args: Node) -> Node:
        """The value of a function of which nothing is known but its name."""
        return self.node("fn", (name, *args), ("fn", name, *(x.number for x in args)))


def below(nodes: Iterable[Node]) -> list[Node]:
    """All nodes that some nodes are made of, and themselves, in the order in which they were made."""
    found: dict[int, Node] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.number not in found:
            found[node.number] = node
            waiting += _inside(node)
    return [found[number] for number in sorted(found)]


class Values:
    """The values of some nodes.

    Args:
        nodes: what will be asked for, and nothing else will be.
        limit: how many products of terms are allowed in all.
        seed: chooses the point near which maxima are decided.

    Example:
        >>> graph = Graph(limit=100)
        >>> x, y = graph.leaf("X", (0,)), graph.leaf("X", (1,))
        >>> twice = graph.exp(x + y + x)
        >>> Values([twice], limit=100).of(twice)
        exp(2*X[0] + X[1])
    """

    def __init__(self, nodes: Iterable[Node], limit: int, seed: str = "") -> None:
        every = below(nodes)
        leaves = [node for node in every if node.op == "leaf"]
        opaque = [node for node in every if node.op == "fn"]
        names = [f"{name}[{','.join(map(str, place))}]" for name, place in (node.args for node in leaves)]
        names += [f"{node.args[0]}#{n}" for n, node in enumerate(opaque)]
        primes, degree = _roots(node.args[0] for node in every if node.op == "number")
        # The point belongs to the names, so that both sides of a claim meet the same one.
        point = [random.Random(f"{seed}/{name}").getrandbits(40) - (1 << 39) for name in names]
        self.field = ExpField(names, primes, degree, limit, point)
        self._done = {node.number: self.field.generators[n] for n, node in enumerate(leaves)}
        self._spare = list(self.field.generators[len(leaves) :])
        self._functions: list[tuple[str, tuple[ExpRational, ...], ExpRational]] = []

    def of(self, node: Node) -> ExpRational:
        """The value of a node.

        Raises:
            Beyond: for a value that the field does not have, and for too much work.
        """
        waiting = [node]
        while waiting:
            last = waiting[-1]
            if last.number in self._done:
                waiting.pop()
                continue
            args = _addends(last, self._done) if last.op == "add" else _inside(last)
            missing = [x for x in args if x.number not in self._done]
            if missing:
                waiting += missing
            else:
                self._done[last.number] = self._apply(last, [self._done[x.number] for x in args])
        return self._done[node.number]

    def _apply(self, node: Node, args: list[ExpRational]) -> ExpRational:
        match node.op:
            case "rational":
                return self.field.rational(node.args[0])
            case "number":
                return self.field.number(node.args[0])
            case "add":
                return self.field.total(args)
            case "mul":
                return self.field.product(*args)
            case "exp":
                return self.field.exp(*args)
            case "inv":
                return self.field.inverse(*args)
            case "max":
                return self.field.maximum(*args)
            case _:
                return self._opaque(node.args[0], tuple(args))

    def _opaque(self, name: str, args: tuple[ExpRational, ...]) -> ExpRational:
        """A generator of its own for each tuple of arguments, equal ones having the same."""
        for known, others, value in self._functions:
            if known == name and args == others:
                return value
        value = self._spare.pop(0)
        self._functions.append((name, args, value))
        return value


def _inside(node: Node) -> list[Node]:
    """The nodes that a node is made of."""
    return [x for x in node.args if type(x) is Node]


def _addends(node: Node, done: Mapping[int, ExpRational]) -> list[Node]:
    """What a nest of sums adds up, nests that have a value already left whole."""
    found, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        if one.op == "add" and (one is node or one.number not in done):
            waiting += one.args
        else:
            found.append(one)
    return found


def _roots(values: Iterable[sympy.Expr]) -> tuple[list[int], int]:
    """The primes of which roots occur, and a number that the orders of all roots divide."""
    primes: set[int] = set()
    degree = 2
    for value in values:
        for power in value.atoms(sympy.Pow):
            if power.base.is_Integer and power.base > 0 and power.exp.is_Rational and not power.exp.is_Integer:
                primes.update(map(int, sympy.factorint(int(power.base))))
                degree = math.lcm(degree, int(power.exp.q))
    return sorted(primes), degree
