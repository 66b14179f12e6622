"""A second look at a proved claim: both sides written out at small sizes, every entry of every input a symbol.

Defines `recheck`.  The sides are evaluated by `mha_sym.evaluate` on arrays of symbolic entries, softmax written out
as exponentials over their sum, and compared in the exact arithmetic of `mha_sym.proof.exp_rational`; nothing of the
prover or of its checker is used.  What is not symbolic is drawn: masks of 0 and 1 (as the assumptions allow), the order
of a permutation, and which score is the largest where a maximum is taken.  It proves nothing for all sizes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from mha_sym.arrays import all_inputs, size_value
from mha_sym.axes import Axis, Permutation
from mha_sym.backends import Array
from mha_sym.errors import DataProblem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Compare, Concat, Expr, Input, Map, Permute, Scalar, Select, Stack, Total, walk
from mha_sym.proof.deferred import Graph, Node, Values, below
from mha_sym.proof.exp_rational import Beyond
from mha_sym.proof.theorem import Claim, Theorem

#: sizes in the order in which they are given 1, 2, 3, ... and 2, 3, 4, ...: what costs most comes first and stays small
ORDERS = (
    ("B", "d_model", "h", "S", "T", "d_k", "d_v"),
    ("T", "B", "d_model", "h", "S", "d_k", "d_v"),
)
#: how often what is not symbolic is drawn, at each assignment of sizes
DRAWS = 2
#: so many products of terms take about a second
SPEED = 60_000
#: an array of more entries than this is not worth writing out
NODES = 100_000
#: entries compared at once share a ring of at most so many generators
GENERATORS = 150


@dataclass(frozen=True)
class WitnessResult:
    """What the comparison at small sizes says.

    Attributes:
        agrees: whether the sides agree; None if that could not be found out.
        sizes: the assignments of sizes at which they were compared.
        detail: where they differ, or why nothing can be said, or how much was compared.
    """

    agrees: bool | None
    sizes: tuple[dict[str, int], ...]
    detail: str


class _Differs(Exception):
    """An entry at which the sides are different functions of the inputs."""


def recheck(theorem: Theorem, claim: Claim, *, seed: int = 0, budget: float = 0.5) -> WitnessResult:
    """Compare both sides of a claim exactly at two assignments of small, pairwise distinct sizes.

    Entries that are computed in the same way on both sides agree at once.  Of the others, a sample that is the same in
    every run, as many as the budget allows, is expanded and compared.

    Args:
        theorem: whose assumptions the drawn masks respect.
        claim: one of its claims.
        seed: chooses the sample and the draws.
        budget: seconds, roughly, counted in operations, so that the result does not depend on the machine.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Softmax
        >>> x, c = Input("x", (axis("t"), axis("s"))), Input("c", (axis("t"),))
        >>> shift = Claim("shift", Softmax(x + c, (axis("s"),)), Softmax(x, (axis("s"),)))
        >>> result = recheck(Theorem("shift", "Shift", "", (shift,)), shift)
        >>> result.agrees, result.sizes
        (True, ({'s': 1, 't': 2}, {'s': 2, 't': 3}))
    """
    facts = _Facts.of(theorem, claim)
    done: list[dict[str, int]] = []
    notes: list[str] = []
    for sizes in facts.assignments():
        for draw in range(DRAWS if facts.drawn else 1):
            case = _Case(facts, sizes, f"{seed}/{theorem.name}/{claim.name}/{sizes}/{draw}", budget)
            try:
                notes.append(case.compare())
            except _Differs as difference:
                return WitnessResult(False, (sizes,), f"at {_shown(sizes)}: {difference}")
            except (Beyond, DataProblem) as problem:
                return WitnessResult(None, tuple(done), f"at {_shown(sizes)}: {_reason(problem)}")
        done.append(sizes)
    return WitnessResult(True, tuple(done), "; ".join(dict.fromkeys(notes)))


def _reason(problem: Beyond | DataProblem) -> str:
    return problem.one_line() if isinstance(problem, DataProblem) else str(problem)


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={n}" for name, n in sizes.items()) or "its fixed sizes"


# ---------------------------------------------------------------- sizes


@dataclass(frozen=True)
class _Facts:
    """A claim with what is needed to write it out: inputs, permutations, assumptions, sizes and how small they may be."""

    claim: Claim
    inputs: dict[str, Input]
    permutations: dict[str, Permutation]
    assumed: tuple[Expr, ...]
    least: dict[str, int]
    axes: frozenset[sympy.Expr]
    functions: frozenset[str]

    @classmethod
    def of(cls, theorem: Theorem, claim: Claim) -> _Facts:
        """Gathered by walking the claim, and the assumptions that speak of an input of it."""
        sides = (claim.left, claim.right)
        own = all_inputs(sides)
        positive = [a.positive for a in theorem.assumptions if a.positive is not None]
        assumed = tuple(p for p in positive if set(all_inputs([p])) & set(own))
        nodes = [node for expr in (*sides, *assumed) for node in walk(expr)]
        axes = {axis.size for node in nodes for axis in _axes(node)}
        symbols = set().union(*(size.free_symbols for size in axes), *(_numbers(node) for node in nodes))
        least = dict.fromkeys(sorted(symbol.name for symbol in symbols), 1)
        perms = {node.perm.name: node.perm for node in nodes if isinstance(node, Permute)}
        for axis in [p.axis for p in perms.values()]:
            if axis.size.is_Symbol:  # on two positions a permutation is its own inverse
                least[axis.size.name] = 3
        for node in nodes:
            if isinstance(node, Select) and isinstance(node.at, int) and node.axis_.size.is_Symbol:
                least[node.axis_.size.name] = max(least[node.axis_.size.name], node.at + 1)
        functions = {node.op.removeprefix("fn:") for node in nodes if isinstance(node, Map) and ":" in node.op}
        every = all_inputs((*sides, *assumed))
        return cls(claim, every, perms, assumed, least, frozenset(axes), frozenset(functions))

    @property
    def drawn(self) -> bool:
        """Whether anything is drawn, and not a symbol."""
        return bool(self.permutations) or any(node.boolean for node in self.inputs.values())

    def assignments(self) -> Iterator[dict[str, int]]:
        """Two assignments of sizes; one, the empty one, if all sizes are fixed."""
        if not self.least:
            yield {}
            return
        for start, order in enumerate(ORDERS, 1):
            yield dict(sorted(self._assign(start, order).items()))

    def _assign(self, start: int, order: tuple[str, ...]) -> dict[str, int]:
        names = sorted(self.least, key=lambda n: (order.index(n) if n in order else -1, n))
        taken = {int(size) for size in self.axes if size.is_Integer}
        sizes: dict[str, int] = {}
        for name in names:
            value = max(start, self.least[name])
            while value in taken:
                value += 1
            sizes[name] = value
            taken.add(value)
        return sizes


def _axes(node: Expr) -> Iterator[Axis]:
    """The axes that a node has or speaks of."""
    yield from node.axes
    if isinstance(node, Stack | Concat | Total):
        yield node.index.axis
    if isinstance(node, Compare):
        yield from (node.left, node.right)


def _numbers(node: Expr) -> set[sympy.Symbol]:
    return set(node.value.free_symbols) if isinstance(node, Scalar) else set()


# ---------------------------------------------------------------- one comparison


class _Case:
    """The claim at certain sizes with certain draws."""

    def __init__(self, facts: _Facts, sizes: Mapping[str, int], seed: str, budget: float) -> None:
        self.facts, self.sizes, self.seed = facts, sizes, seed
        self.random = random.Random(seed)
        self.graph = Graph(NODES)
        self.work = int(budget * SPEED)

    def compare(self) -> str:
        """How many entries were compared, all of which agree.

        Raises:
            _Differs: if one does not.
            Beyond: if not even one could be compared.
        """
        left, right = self._written_out()
        order = [left.names.index(name) for name in right.names]
        pairs = list(zip(left.array.transpose(order).flat, right.array.flat, strict=True))
        places = list(np.ndindex(*right.array.shape))
        unlike = {pair: place for pair, place in zip(pairs, places, strict=True) if pair[0] is not pair[1]}
        sample = list(unlike)
        self.random.shuffle(sample)
        done = 0
        for batch in self._batches(sample):
            values = Values([node for pair in batch for node in pair], self.work, self.seed)
            for pair in batch:
                try:
                    same = values.of(pair[0]) == values.of(pair[1])
                except Beyond:
                    if done:
                        break
                    raise
                if not same:
                    place = dict(zip(right.names, map(int, unlike[pair]), strict=True))
                    raise _Differs(f"the sides differ in entry {_shown(place)}")
                done += 1
            self.work -= values.field.work
        agreed = len(pairs) - len(unlike)
        return f"..."

    def _batches(self, sample: list[tuple[Node, Node]]) -> Iterator[list[tuple[Node, Node]]]:
        """Some pairs at a time, which have few given entries among them."""
        batch: list[tuple[Node, Node]] = []
        leaves: set[int] = set()
        for pair in sample:
            own = {node.number for node in below(pair) if node.op == "leaf"}
            if batch and len(leaves | own) > GENERATORS:
                yield batch
                batch, leaves = [], set()
            batch.append(pair)
            leaves |= own
        if batch:
            yield batch
