"""What the second engine has to know of a claim before it draws: inputs, permutations, roots, and sizes for its axes.

Defines `Facts`.  Nothing of the prover is used here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import sympy

from mha_sym.axes import Axis, Permutation
from mha_sym.expr import Concat, Expr, Input, Permute, Scalar, Select, Stack, Total, walk
from mha_sym.proof.exponential_sums import Beyond
from mha_sym.proof.theorem import Assumption, Claim

#: how often sizes are drawn again because two axes of different sizes came out alike
AGAIN = 8


class Numbered:
    """Numbers for nodes: one for those that are written alike, so that what two claims share is found."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._seen: dict[int, tuple[Expr, int]] = {}  # the node is kept, so that no other can have its id

    def __call__(self, node: Expr) -> int:
        """The number of a node."""
        if id(node) not in self._seen:
            key = (type(node), *(self._part(getattr(node, one.name)) for one in fields(node) if one.init))
            self._seen[id(node)] = node, self._numbers.setdefault(key, len(self._numbers))
        return self._seen[id(node)][1]

    def _part(self, value: object) -> object:
        """A field of a node, with a number for each expression in it."""
        if isinstance(value, Expr):
            return "node", self(value)
        if isinstance(value, tuple) and any(isinstance(one, Expr) for one in value):
            return tuple(map(self._part, value))
        return value


@dataclass(frozen=True)
class Facts:
    """The parts of some claims: their inputs, permutations, sizes with the least that each may be, and roots.

    ``numbers`` are the fixed sizes of axes, ``composed`` those that are made of symbols, such as ``d_k*h``.
    """

    claims: tuple[Claim, ...]
    inputs: dict[str, Input]
    permutations: dict[str, Permutation]
    assumed: tuple[Expr, ...]
    least: dict[str, int]
    numbers: frozenset[int]
    composed: tuple[sympy.Expr, ...]
    roots: tuple[sympy.Pow, ...]
    numbered: Numbered = field(default_factory=Numbered, compare=False)

    @classmethod
    def of(cls, claims: tuple[Claim, ...], assumptions: Sequence[Assumption]) -> Facts:
        """Those of some claims and of the assumptions about their inputs.

        Raises:
            Beyond: if one name stands for two inputs.
        """
        own = [node for claim in claims for side in (claim.left, claim.right) for node in walk(side)]
        names = {node.name for node in own if isinstance(node, Input)}
        assumed = tuple(
            a.positive for a in assumptions
            if a.positive is not None and names & {n.name for n in walk(a.positive) if isinstance(n, Input)}
        )  # fmt: skip
        nodes = own + [node for one in assumed for node in walk(one)]
        axes = {one for node in nodes for one in _axes_of(node)}
        symbols = {s for one in axes for s in one.size.free_symbols}
        values = [node.value for node in nodes if isinstance(node, Scalar)]
        least = dict.fromkeys((s.name for s in symbols.union(*(v.free_symbols for v in values))), 2)
        for node in nodes:
            if isinstance(node, Permute) and node.perm.axis.size.is_Symbol:
                least[node.perm.axis.size.name] = max(3, least[node.perm.axis.size.name])
            if isinstance(node, Select) and isinstance(node.at, int) and node.axis_.size.is_Symbol:
                least[node.axis_.size.name] = max(node.at + 1, least[node.axis_.size.name])
        inputs = {n.name: n for n in nodes if isinstance(n, Input)}
        if any(inputs[n.name] != n for n in nodes if isinstance(n, Input)):
            raise Beyond("one name stands for two inputs")
        roots = tuple(p for v in values for p in v.atoms(sympy.Pow) if not p.exp.is_Integer)
        return cls(
            claims, inputs, {n.perm.name: n.perm for n in nodes if isinstance(n, Permute)}, assumed, least,
            frozenset(int(one.size) for one in axes if one.size.is_Integer),
            tuple({one.size for one in axes if not (one.size.is_Integer or one.size.is_Symbol)}), roots,
        )  # fmt: skip

    def draw_sizes(self, rng: np.random.Generator, fixed: Mapping[str, int], more: int) -> dict[str, int]:
        """Sizes pairwise distinct, and distinct from all numbers that are sizes of axes.

        Where that can be had in a few draws, so are the sizes of axes that are products or sums: then no two axes can
        be taken for each other.
        """
        for _ in range(AGAIN):
            sizes = self._drawn(rng, fixed, more)
            made = [one.subs({s: sizes[s.name] for s in one.free_symbols}) for one in self.composed]
            if len({*made, *sizes.values(), *self.numbers}) == len(made) + len({*sizes.values(), *self.numbers}):
                break
        return sizes

    def _drawn(self, rng: np.random.Generator, fixed: Mapping[str, int], more: int) -> dict[str, int]:
        sizes = {name: fixed[name] for name in self.least if name in fixed}
        taken = {*sizes.values(), *self.numbers}
        free = [name for name in self.least if name not in sizes]
        pool = [n for n in range(2, 64) if n not in taken][: len(free) + 1 + more]
        order = [int(n) for n in rng.permutation(pool)]
        for name in sorted(free, key=lambda n: (-self.least[n], n)):
            number = next((n for n in order if n >= self.least[name]), None)
            if number is None:
                number = next(n for n in range(self.least[name], 1 << 16) if n not in {*taken, *sizes.values()})
            else:
                order.remove(number)
            sizes[name] = number
        return {name: sizes[name] for name in sorted(sizes)}


def _axes_of(node: Expr) -> Iterable[Axis]:
    """The axes that a node has or speaks of."""
    yield from node.axes
    if isinstance(node, Stack | Concat | Total):
        yield node.index.axis
