"""Where refuted code departs from the specification: the first stage that it does not compute, and the user's line.

Defines `departure`.  A proof or a counterexample decides that the code is wrong; this only helps to find where, in
numbers.  The line is that of the earliest value which, put right, puts the output right; where no single one does, of
the first value from which on nothing is right any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, takewhile

import numpy as np

from mha_sym.audit.call import _stages
from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import MASKS, STAGES, Implementation
from mha_sym.audit.proving.imported import Import, graph_arguments
from mha_sym.audit.proving.looks import Looks, looks_of
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import specification
from mha_sym.importers import graph as g
from mha_sym.importers.fold import pruned
from mha_sym.importers.graph import Array
from mha_sym.importers.run import run

#: operations that only move entries
_MOVES = (g.Reshape, g.Permute)
#: so many values are put right together at most
_TOGETHER = 3


@dataclass(frozen=True)
class Departure:
    """The stages that the code computes, the first that it does not, and the line of the first wrong value."""

    right: tuple[str, ...]
    first: str
    place: g.Place


def departure(impl: Implementation, case: Case, found: Import, setting: Setting) -> Departure | None:
    """Where the code departs, None if it computes every stage."""
    spec = specification(impl, case)
    expected = spec.values(setting.arrays, setting.sizes)
    work = _Work(impl, found.graph, setting, looks_of(impl, spec, expected, setting), expected["y"])
    number = work.first_wrong()
    if number is None:
        return None
    floats = [value for value in work.values if value.size > 1 and value.dtype.kind == "f"]
    seen = {stage: any(_same(value, expected[stage]) for value in floats) for stage in STAGES}
    first = next((stage for stage in STAGES if not seen[stage]), "y")
    return Departure(tuple(takewhile(seen.__getitem__, STAGES)), first, found.graph.nodes[number].place)


def _same(value: Array, wanted: Array) -> bool:
    """Whether an array is a stage but for the order of its axes, batch and heads in one axis, and a positive factor."""
    if value.ndim == 3 and wanted.ndim == 4 and value.shape[0] == wanted.shape[0] * wanted.shape[1]:
        value = value.reshape(wanted.shape[0], wanted.shape[1], *value.shape[1:])
    if sorted(value.shape) != sorted(wanted.shape):
        return False
    orders = permutations(range(value.ndim))
    fitting = (value.transpose(order) for order in orders if tuple(value.shape[n] for n in order) == wanted.shape)
    return any(_proportional(one, wanted) for one in fitting)


def _proportional(one: Array, other: Array) -> bool:
    finite = np.isfinite(one) & np.isfinite(other)
    norms = [float(np.linalg.norm(array[finite])) for array in (one, other)]
    if not all(norms):
        return False
    return bool(np.allclose(one[finite] / norms[0], other[finite] / norms[1], rtol=1e-9, atol=1e-12))


class _Work:
    """A graph on one draw: the value of every node, and what the outputs are when some are replaced."""

    def __init__(self, impl: Implementation, graph: g.Graph, setting: Setting, looks: Looks, y: Array) -> None:
        self.impl, self.graph, self.setting, self.looks, self.y = impl, graph, setting, looks, y
        everything = g.Graph(graph.nodes, {str(n): n for n in range(len(graph.nodes))})
        self.arguments = graph_arguments(impl, graph, setting)
        values = run(everything, self.arguments, setting.sizes)
        self.values = [values[str(n)] for n in range(len(graph.nodes))]
        self.users: list[list[int]] = [[] for _ in graph.nodes]
        for number, node in enumerate(graph.nodes):
            for ref in set(node.args):
                self.users[ref].append(number)
        self.names = [self.looks.names(value) for value in self.values]

    def first_wrong(self) -> int | None:
        """The node of the first wrong value; None if the output is right."""
        if self.repaired({}):
            return None
        found = (next(self.mended(), None), self.unmended())
        return min((number for number in found if number is not None), default=None)

    # ------------------------------------------------------------ values put right

    def repaired(self, instead: Mapping[int, Array]) -> bool:
        """Whether the output is right with other values in place of some."""
        after = set(instead)
        for number, users in enumerate(self.users):
            after |= set(users) if number in after else set()
        nodes = list(self.graph.nodes)
        for number, node in enumerate(nodes):
            value = instead.get(number, self.values[number])
            if number in instead or number not in after:
                nodes[number] = replace(node, op=g.Constant(value), args=())
        graph = pruned(replace(self.graph, nodes=tuple(nodes)))
        outputs = run(graph, self.arguments, self.setting.sizes)
        got = _stages(self.impl, outputs, self.setting.sizes, finite=False)["y"]
        return got.shape == self.y.shape and bool(np.allclose(got, self.y, rtol=1e-8, atol=1e-10))

    def mended(self) -> Iterator[int]:
        """Nodes, the earliest first, which put right put the output right: alone, or with others of their line."""
        for number, value in enumerate(self.values):
            op, names = self.graph.nodes[number].op, self.names[number]
            if isinstance(op, g.Input | g.Constant):
                continue
            instead = self.looks.others(names, isinstance(op, _MOVES), isinstance(op, g.Contract))
            if any(self.repaired({number: look}) for look in self.looks.of_shape(value, instead)):
                yield number
            together = self.alike(number)
            if len(together) > 1:
                mending = (one for one in self.jointly(together) if self.repaired(one))
                yield from (n for one in mending for n in together if not np.array_equal(one[n], self.values[n]))

    def alike(self, number: int) -> list[int]:
        """The nodes that are made like this one in the same line, if this is the first; none if all seem right."""
        mine = self.graph.nodes[number]
        if isinstance(mine.op, g.Input | g.Constant | g.SizeValue):
            return []
        found = [n for n, node in enumerate(self.graph.nodes) if _kind(node) == _kind(mine)]
        first = found[0] == number and len(found) <= _TOGETHER
        weights = any(name[:2] in ("w_", "b_") for name in self.names[number])
        doubtful = weights or isinstance(mine.op, _MOVES) or not all(self.names[n] for n in found)
        return found if first and doubtful else []

    def jointly(self, numbers: Sequence[int]) -> Iterator[dict[int, Array]]:
        """Queries, keys and values, or their weights, in place of these, each in one of them."""
        for kind in self.looks.together():
            for order in permutations(kind, len(numbers)):
                pairs = list(zip(order, numbers, strict=True))
                each = [self.looks.as_one(name, self.values[n]) for name, n in pairs]
                fitting = all(name[:2] in ("w_", "b_") or name in (self.names[n] or name) for name, n in pairs)
                if all(each) and fitting:
                    yield {n: looks[0] for n, looks in zip(numbers, each, strict=True)}

    # ------------------------------------------------------------ where nothing is right any more

    def unmended(self) -> int | None:
        """The first value that is not right, nor all that is made of it, while all that it is made of is.

        Masks and tables, and what is made of these alone, count as right.
        """
        right = [bool(names) for names in self.names]
        for number in reversed(range(len(right))):
            users = self.users[number]
            right[number] = right[number] or (bool(users) and all(right[n] for n in users))
        weighty = self.weighty()
        for number, node in enumerate(self.graph.nodes):
            right[number] = right[number] or number not in weighty or isinstance(node.op, g.Input)
            if not right[number] and all(right[n] for n in node.args):
                return number
        return None

    def weighty(self) -> set[int]:
        """The values that depend on inputs or weights."""
        plain = {*MASKS, "cos", "sin"}
        found: set[int] = set()
        for number, node in enumerate(self.graph.nodes):
            if (isinstance(node.op, g.Input) and node.op.name not in plain) or found & set(node.args):
                found.add(number)
        return found


def _kind(node: g.Node) -> tuple[type[g.Op], int, g.Place, tuple[g.Place, ...]]:
    """What nodes have in common that are made alike in one line."""
    return type(node.op), len(node.shape), node.place, node.place.callers
