"""Arithmetic put off: array elements that remember how they are made, so that only what is asked for is worked out.

Defines `Graph`, whose `Node`s are elements for `mha_sym.evaluate`: given entries, rational numbers and the operations
on them.  The same operation on the same nodes is the same node.  `Values` works nodes out in an `ExpField` that has a
generator for each given entry below them, and no more.  `compare` decides whether two nodes are the same function,
opening no more than it must of what both are made of.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
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
        return graph.binary("add", graph.sums, self, other)

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
        return graph.binary("mul", graph.products, self, other)

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
        self.sums: dict[int, Node] = {}
        self.products: dict[int, Node] = {}
        self._known: dict[tuple[Any, ...], Node] = {}
        self.zero, self.one, self.minus_one = map(self.rational, (0, 1, -1))

    def binary(self, op: str, known: dict[int, Node], x: Node, y: Node) -> Node:
        """The node of a sum or product of two nodes in either order."""
        m, n = x.number, y.number
        key = m * self.limit + n if m < n else n * self.limit + m
        node = known.get(key)
        if node is None:
            node = known[key] = self._new(op, (x, y))
        return node

    def _new(self, op: str, args: tuple[Any, ...]) -> Node:
        if len(self.nodes) >= self.limit:
            raise Beyond("too many operations")
        node = Node(self, op, args, len(self.nodes))
        self.nodes.append(node)
        return node

    def _node(self, op: str, args: tuple[Any, ...], key: tuple[Any, ...]) -> Node:
        """The node of another operation; ``key`` tells it from all others."""
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = self._new(op, args)
        return node

    def leaf(self, name: str, place: tuple[int, ...]) -> Node:
        """An entry of a given array."""
        return self._node("leaf", (name, place), ("leaf", name, place))

    def rational(self, value: Fraction | int) -> Node:
        """A rational number."""
        return self._node("rational", (value,), ("rational", value))

    def number(self, value: sympy.Expr) -> Node:
        """A number made of rationals and roots."""
        if value.is_Integer:
            return self.rational(int(value))
        if value.is_Rational:
            return self.rational(Fraction(int(value.p), int(value.q)))
        return self._node("number", (value,), ("number", value))

    def exp(self, x: Node) -> Node:
        """``e^x``."""
        return self.one if x is self.zero else self._node("exp", (x,), ("exp", x.number))

    def inverse(self, x: Node) -> Node:
        """``1/x``, and 0 for 0."""
        if x.op == "rational":
            return self.rational(Fraction(1) / x.args[0]) if x.args[0] else x
        return self._node("inv", (x,), ("inv", x.number))

    def maximum(self, x: Node, y: Node) -> Node:
        """The larger of two."""
        return x if x is y else self._node("max", (x, y), ("max", x.number, y.number))

    def function(self, name: str, *args: Node) -> Node:
        """The value of a function of which nothing is known but its name."""
        return self._node("fn", (name, *args), ("fn", name, *(x.number for x in args)))


def below(nodes: Iterable[Node], closed: Set[int] = frozenset()) -> list[Node]:
    """What some nodes are made of, and themselves, in the order in which they were made; closed ones stay whole."""
    found: dict[int, Node] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node.number not in found:
            found[node.number] = node
            if node.number not in closed:
                waiting += _inside(node)
    return [found[number] for number in sorted(found)]


class Values:
    """The values of some nodes.

    Args:
        nodes: what will be asked for, and nothing else will be.
        limit: how much work is allowed in all, as `ExpField` counts it.
        seed: chooses the point near which maxima are decided.
        closed: numbers of nodes that are taken for given entries.

    Example:
        >>> graph = Graph(limit=100)
        >>> x, y = graph.leaf("X", (0,)), graph.leaf("X", (1,))
        >>> twice = graph.exp(x + y + x)
        >>> Values([twice], limit=100).of(twice)
        exp(2*X[0] + X[1])
    """

    def __init__(self, nodes: Iterable[Node], limit: int, seed: str = "", closed: Set[int] = frozenset()) -> None:
        every = below(nodes, closed)
        leaves = [node for node in every if node.op == "leaf" or node.number in closed]
        opaque = [node for node in every if node.op == "fn" and node.number not in closed]
        names = [_name(node) for node in (*leaves, *opaque)]
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


def _name(node: Node) -> str:
    if node.op != "leaf":
        return f"{node.op}#{node.number}"
    name, place = node.args
    return f"{name}[{','.join(map(str, place))}]"


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


# ---------------------------------------------------------------- comparison


@dataclass(frozen=True)
class Comparison:
    """Whether two nodes are the same function, both values as they were compared last, and the work it took."""

    same: bool
    left: ExpRational
    right: ExpRational
    work: int


def compare(left: Node, right: Node, limit: int, seed: str = "") -> Comparison:
    """Whether two nodes are the same function of the given entries.

    First what both are made of stays closed, a symbol of its own; then only the exponents that both have in common;
    then nothing.  What agrees for all values of the symbols agrees for those that they have.

    Raises:
        Beyond: if the values with nothing closed are not to be had, or take too much work.

    Example:
        >>> graph = Graph(limit=100)
        >>> x, y = graph.leaf("X", (0,)), graph.leaf("X", (1,))
        >>> weight = graph.exp(x) * graph.inverse(graph.exp(x) + graph.exp(y))
        >>> compare(weight * x + weight * y, weight * (x + y), limit=10_000).same
        True
    """
    work = 0
    for closed in _closings(left, right):
        values = Values((left, right), limit, seed, closed)
        try:
            sides = values.of(left), values.of(right)
            same = sides[0] == sides[1]
        except Beyond:
            if closed:
                continue
            raise
        finally:
            work += values.field.work
        if same or not closed:
            break
    return Comparison(same, *sides, work)


def _closings(left: Node, right: Node) -> Iterator[Set[int]]:
    """What may stay closed, most first, nothing last."""
    mine, yours = below((left,)), below((right,))
    shared = {node.number for node in mine} & {node.number for node in yours}
    inner = {node.number for node in mine if node.number in shared and node.op not in ("leaf", "rational", "number")}
    exponents = {node.args[0].number for node in (*mine, *yours) if node.op == "exp"} & inner
    for closed in (inner, exponents):
        if closed and _may_close(below((left, right), closed), closed):
            yield closed
    yield frozenset()


def _may_close(nodes: Iterable[Node], closed: Set[int]) -> bool:
    """Whether symbols for the closed nodes say nothing that their values do not.

    They would, if a divisor were zero for these values only, or a maximum were another; so divisors must be
    positive by their form, and there must be no maximum.
    """
    positive: set[int] = set()
    for node in nodes:
        if _is_positive(node, positive):
            positive.add(node.number)
    opened = [node for node in nodes if node.number not in closed]
    return all(node.op != "max" and (node.op != "inv" or node.args[0].number in positive) for node in opened)


def _is_positive(node: Node, known: Set[int]) -> bool:
    """Whether a node is positive by its form; those that it is made of come first."""
    if node.op == "rational":
        return bool(node.args[0] > 0)
    return node.op == "exp" or (node.op in ("add", "mul", "inv") and all(x.number in known for x in _inside(node)))
