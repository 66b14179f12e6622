"""A second look at a proved claim: both sides written out at small sizes, every entry of every input a symbol.

Defines `recheck` and, for several claims together, `Witness`.  The sides are evaluated by `mha_sym.evaluate` on arrays
of symbolic entries, softmax written out as exponentials over their sum, and compared in the exact arithmetic of
`mha_sym.proof.exp_rational`; nothing of the prover or of its checker is used.  What is not symbolic is drawn: masks of
0 and 1 (as the assumptions allow), the order of a permutation, and which score is the largest where a maximum is
taken.  It proves nothing for all sizes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import sympy

from mha_sym.arrays import all_inputs, size_value
from mha_sym.axes import Axis, Permutation
from mha_sym.backends import Array
from mha_sym.errors import DataProblem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Concat, Expr, Input, Map, Permute, Stack, Total, walk
from mha_sym.plan import least_sizes, plan_of
from mha_sym.proof.collector import collector_off
from mha_sym.proof.deferred import Graph, Node, compare
from mha_sym.proof.exp_rational import Beyond, ExpRational
from mha_sym.proof.theorem import Claim, Theorem


@dataclass(frozen=True)
class _Plan:
    """How sizes get their numbers: counted from ``first``, in an order in which what costs most stays small.

    ``entries`` is how many entries of a claim are expanded at these sizes.
    """

    first: int
    order: tuple[str, ...]
    entries: int


#: the first two are used; the third, small and with one query, if one of them is beyond reach
PLANS = (
    _Plan(1, ("B", "d_model", "h", "d_k", "S", "d_v", "T"), entries=2),
    _Plan(2, ("h", "B", "T", "d_model", "d_k", "S", "d_v"), entries=1),
    _Plan(1, ("T", "h", "d_model", "B", "d_k", "S", "d_v"), entries=2),
)
#: how densely, until the assumptions hold
DENSITIES = (0.5, 0.5, 0.6, 0.7, 0.7, 0.8, 0.8, 0.9, 0.95, 1.0)
#: a second's worth of work, as `ExpField` counts it
SPEED = 7_000_000
#: more operations than this are not written out
NODES = 200_000


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


@dataclass
class _Tally:
    """How many entries were computed alike on both sides, expanded and equal, and left out."""

    alike: int = 0
    expanded: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        left_out = f", {self.left_out} left out" if self.left_out else ""
        return f"{self.alike} entries computed alike, {self.expanded} expanded and equal{left_out}"


def recheck(theorem: Theorem, claim: Claim, *, seed: int = 0, budget: float = 0.5) -> WitnessResult:
    """Compare both sides of a claim exactly at two assignments of small, pairwise distinct sizes.

    Entries that both sides compute by the same operations on the same given entries agree at once.  Of the others, a
    sample that is the same in every run is expanded and compared, as long as the budget lasts.

    Args:
        theorem: whose assumptions the drawn masks respect.
        claim: one of its claims.
        seed: chooses the sample and the draws.
        budget: about so many seconds of expansion, counted in operations: the result does not depend on the machine.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Softmax
        >>> x, c = Input("x", (axis("t"), axis("s"))), Input("c", (axis("t"),))
        >>> shift = Claim("shift", Softmax(x + c, (axis("s"),)), Softmax(x, (axis("s"),)))
        >>> result = recheck(Theorem("shift", "Shift", "", (shift,)), shift)
        >>> result.agrees, result.sizes
        (True, ({'s': 1, 't': 2}, {'s': 2, 't': 3}))
    """
    return Witness(theorem, (claim,), seed=seed, budget=budget).recheck(claim)


class Witness:
    """`recheck` for several claims of a theorem, whose sides are written out together: what they share is made once.

    Args:
        theorem: whose assumptions the drawn masks respect.
        claims: those that may be asked about.
        seed: chooses the sample and the draws.
        budget: about so many seconds of expansion for each claim.
    """

    def __init__(self, theorem: Theorem, claims: Sequence[Claim], *, seed: int = 0, budget: float = 0.5) -> None:
        self.theorem, self.seed, self.budget = theorem, seed, budget
        self._groups: dict[frozenset[str], _Group] = {}
        for unplanned, group in _grouped(claims).items():
            self._groups[unplanned] = _Group(_Facts.of(theorem, group), f"{seed}/{theorem.name}")

    def recheck(self, claim: Claim) -> WitnessResult:
        """What is found of one of the claims; it is written out alone if all of them together are beyond reach."""
        group = self._groups[_unplanned(claim)]
        with collector_off():
            result = _recheck(group, claim, int(self.budget * SPEED))
        if result.agrees is None and len(group.facts.claims) > 1:
            return recheck(self.theorem, claim, seed=self.seed, budget=self.budget)
        return result


def _recheck(group: _Group, claim: Claim, work: int) -> WitnessResult:
    own = plan_of((claim.left, claim.right)).sizes
    enough = 2 if group.facts.least else 1  # where all sizes are fixed there is one case
    tally, done, reasons = _Tally(), list[dict[str, int]](), list[str]()
    for plan in PLANS:
        sizes = {name: size for name, size in group.facts.assign(plan).items() if name in own}
        try:
            group.case(plan).compare(claim, plan.entries, work // 2, tally)
        except _Differs as difference:
            return WitnessResult(False, (sizes,), f"at {_shown(sizes)}: {difference}")
        except Beyond as limit:
            reasons.append(f"at {_shown(sizes)}: {limit}")
        except DataProblem as problem:
            reasons.append(f"at {_shown(sizes)}: {problem.one_line()}")
        else:
            done.append(sizes)
        if len(done) == enough:
            distinct = {tuple(one.items()): one for one in done}
            return WitnessResult(True, tuple(distinct.values()), str(tally))
    return WitnessResult(None, tuple(done), "; ".join(dict.fromkeys(reasons)))


class _Group:
    """Claims that are written out together, and the cases of which that was done."""

    def __init__(self, facts: _Facts, seed: str) -> None:
        self.facts, self.seed = facts, seed
        self._cases: dict[_Plan, _Case | Beyond | DataProblem] = {}

    def case(self, plan: _Plan) -> _Case:
        """All claims at the sizes of a plan, written out when they are first asked for.

        Raises:
            Beyond: if they cannot be.
            DataProblem: if they have no values.
        """
        if plan not in self._cases:
            sizes = self.facts.assign(plan)
            try:
                self._cases[plan] = _Case(self.facts, sizes, f"{self.seed}/{sizes}")
            except (Beyond, DataProblem) as reason:
                self._cases[plan] = reason
        case = self._cases[plan]
        if not isinstance(case, _Case):
            raise case
        return case


def _unplanned(claim: Claim) -> frozenset[str]:
    """Sizes of a claim that no plan keeps small."""
    return plan_of((claim.left, claim.right)).sizes.difference(PLANS[0].order)


def _grouped(claims: Iterable[Claim]) -> dict[frozenset[str], tuple[Claim, ...]]:
    """Claims apart by the sizes that no plan keeps small, so that those of one are no burden to the others."""
    groups: dict[frozenset[str], tuple[Claim, ...]] = {}
    for claim in claims:
        groups[_unplanned(claim)] = (*groups.get(_unplanned(claim), ()), claim)
    return groups


def _shown(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={n}" for name, n in numbers.items()) or "the only one"


# ---------------------------------------------------------------- sizes


@dataclass(frozen=True)
class _Facts:
    """What is needed to write some claims out.

    ``least`` says of each size symbol how small it may be; ``axes`` are the sizes of all axes; ``assumed`` are the
    expressions assumed to be positive that speak of an input of a claim.
    """

    claims: tuple[Claim, ...]
    inputs: dict[str, Input]
    permutations: dict[str, Permutation]
    functions: frozenset[str]
    assumed: tuple[Expr, ...]
    least: dict[str, int]
    axes: frozenset[sympy.Expr]

    @classmethod
    def of(cls, theorem: Theorem, claims: tuple[Claim, ...]) -> _Facts:
        """Gathered by walking the claims and the assumptions."""
        sides = tuple(side for claim in claims for side in (claim.left, claim.right))
        positive = [a.positive for a in theorem.assumptions if a.positive is not None]
        assumed = tuple(p for p in positive if set(all_inputs([p])) & set(all_inputs(sides)))
        nodes = [node for expr in (*sides, *assumed) for node in walk(expr)]
        axes = frozenset(axis.size for node in nodes for axis in _axes(node))
        least = dict.fromkeys(plan_of((*sides, *assumed)).sizes, 1) | least_sizes((*sides, *assumed))
        for node in nodes:
            if isinstance(node, Permute) and node.perm.axis.size.is_Symbol:  # on two it is its own inverse
                least[node.perm.axis.size.name] = max(least[node.perm.axis.size.name], 3)
        return cls(
            claims, all_inputs((*sides, *assumed)), {n.perm.name: n.perm for n in nodes if isinstance(n, Permute)},
            frozenset(n.op.removeprefix("fn:") for n in nodes if isinstance(n, Map) and n.op.startswith("fn:")),
            assumed, least, axes,
        )  # fmt: skip

    def assign(self, plan: _Plan) -> dict[str, int]:
        """The smallest numbers not taken, in order; sizes of names that the plan does not know come first."""
        taken = {int(size) for size in self.axes if size.is_Integer}
        sizes: dict[str, int] = {}
        for name in sorted(self.least, key=lambda n: (plan.order.index(n) if n in plan.order else -1, n)):
            sizes[name] = max(plan.first, self.least[name])
            while sizes[name] in taken:
                sizes[name] += 1
            taken.add(sizes[name])
        return dict(sorted(sizes.items()))


def _axes(node: Expr) -> Iterator[Axis]:
    """The axes that a node has or speaks of."""
    yield from node.axes
    if isinstance(node, Stack | Concat | Total):
        yield node.index.axis


# ---------------------------------------------------------------- one comparison


class _Case:
    """Some claims at certain sizes, with one draw of what is drawn, and the values of all their sides.

    Raises:
        Beyond: if the sides cannot be written out.
    """

    def __init__(self, facts: _Facts, sizes: Mapping[str, int], seed: str) -> None:
        self.facts, self.sizes, self.seed = facts, sizes, seed
        self.random = random.Random(seed)
        self.graph = Graph(NODES)
        self.orders = {n: self._order(size_value(p.axis, sizes)) for n, p in facts.permutations.items()}
        self.arrays = {n: self._symbols(node) for n, node in facts.inputs.items() if not node.boolean}
        self._draw_masks()
        values = iter(self._evaluate([side for claim in facts.claims for side in (claim.left, claim.right)]))
        self.sides = {claim.name: (next(values), next(values)) for claim in facts.claims}

    def compare(self, claim: Claim, entries: int, share: int, tally: _Tally) -> None:
        """Compare the sides and count the entries: so many are expanded, fewer once the work exceeds ``share``.

        Raises:
            _Differs: if an entry differs.
            Beyond: if no entry can be expanded.
        """
        left, right = self.sides[claim.name]
        names = [axis.name for axis in claim.left.axes]
        right = right.transpose([[axis.name for axis in claim.right.axes].index(name) for name in names])
        unlike: dict[tuple[Node, Node], dict[str, int]] = {}
        for place in np.ndindex(*left.shape):
            if left[place] is right[place]:
                tally.alike += 1
            else:
                unlike.setdefault((left[place], right[place]), dict(zip(names, place, strict=True)))
        sample = random.Random(f"{self.seed}/{claim.name}").sample(list(unlike), min(entries, len(unlike)))
        expanded = self._expand(sample, share, unlike)
        tally.expanded += expanded
        tally.left_out += len(unlike) - expanded

    def _expand(self, sample: list[Pair], share: int, places: Mapping[Pair, dict[str, int]]) -> int:
        """How many of the pairs were compared within the work allowed, the first in any case."""
        spent = done = 0
        while done < len(sample) and (spent < share or not done):
            found = compare(*sample[done], limit=10 * share, seed=self.seed)
            if not found.same:
                place, values = _shown(places[sample[done]]), _both(found.left, found.right)
                raise _Differs(f"entry {place} differs{self._drawn()}{values}")
            spent += found.work
            done += 1
        return done

    # ------------------------------------------------------------ arrays

    def _evaluate(self, exprs: list[Expr]) -> list[Array]:
        return evaluate_all(
            exprs, {name: self.arrays[name] for name in all_inputs(exprs)},
            sizes={name: self.sizes[name] for name in plan_of(exprs).sizes}, permutations=self.orders,
            functions={name: self._function(name) for name in self.facts.functions}, exact=self.graph,
            masked_rows="zero",  # what the prover's 1/0 = 0 says
        )  # fmt: skip

    def _function(self, name: str) -> Callable[..., Array]:
        def apply(*arrays: Array) -> Array:
            return np.frompyfunc(partial(self.graph.function, name), len(arrays), 1)(*arrays)

        return apply

    def _shape(self, node: Input) -> tuple[int, ...]:
        shape = tuple(size_value(axis, self.sizes) for axis in node.axes)
        if math.prod(shape) > NODES:
            raise Beyond(f"too many operations: {node.name} has {math.prod(shape)} entries")
        return shape

    def _symbols(self, node: Input) -> Array:
        array = np.empty(self._shape(node), object)
        for place in np.ndindex(*array.shape):
            array[place] = self.graph.leaf(node.name, place)
        return array

    def _order(self, size: int) -> list[int]:
        """An order of some positions, not its own inverse if there are three or more of them."""
        order = list(range(size))
        while size > 2 and all(order[order[n]] == n for n in range(size)):
            self.random.shuffle(order)
        return order if size != 2 else [1, 0]

    def _draw_masks(self) -> None:
        """Draw the Boolean inputs, more and more densely until the assumptions hold."""
        masks = [node for node in self.facts.inputs.values() if node.boolean]
        for density in DENSITIES if masks else ():
            for node in masks:
                array = np.empty(self._shape(node), int)
                for place in np.ndindex(*array.shape):
                    array[place] = self.random.random() < density
                self.arrays[node.name] = array
            if self._assumptions_hold():
                return
        if masks:
            raise Beyond("no masks were found for which the assumptions hold")

    def _assumptions_hold(self) -> bool:
        """Whether what is assumed positive is; an entry with symbols is for some values of them, which is enough."""
        for assumed in self._evaluate(list(self.facts.assumed)):
            if any(node.op == "rational" and node.args[0] <= 0 for node in assumed.flat):
                return False
        return True

    def _drawn(self) -> str:
        return "".join(f", with {name} = {tuple(order)}" for name, order in self.orders.items())


Pair = tuple[Node, Node]


def _both(left: ExpRational, right: ExpRational) -> str:
    """Both values, if they are short enough to be read."""
    return f": {left} and {right}" if left.terms + right.terms <= 12 else ""
