"""Every line of a derivation once more as numbers: in fractions against the line before, in floats against einops.

Defines `Checked`, what came out for a claim, and `check_lines`.  No theorem rests on it: it ties what is printed, line
by line and at both heights, to the expressions that run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mha_sym.errors import NotExact, Problem
from mha_sym.expr import Expr, Input
from mha_sym.proof.checker import Goal
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Entry, Index, Term, Var
from mha_sym.proof.theorem import Claim, Theorem
from mha_sym.render.computed.matrix_values import differing
from mha_sym.render.computed.samples import Sample, samples
from mha_sym.render.computed.term_values import Floats, Fractions, Numbers, Values, variables
from mha_sym.render.pictures.moves import stations

if TYPE_CHECKING:
    from mha_sym.render.derivation import ClaimPart

#: entries of a claim at which its lines are compared with einops, drawn at random; in fractions it is the first of them
ENTRIES = 3
#: agreement beyond so many digits is not told apart: it is what rounding leaves; less than that other is not rounding
MOST, ENOUGH = 12, 7


@dataclass(frozen=True)
class Checked:
    """What came out when the lines of a claim were computed.

    Attributes:
        lines: how many lines there are, entry by entry.
        matrices: how many lines at the height of matrices.
        sizes: at which they were computed in fractions, each equal to the one before.
        digits: to how many digits of the largest entry all of them agree, in float64, with what einops computes.
        wrong: where that is not so, in words that begin with the line.
        left_out: why something was not computed.
    """

    lines: int = 0
    matrices: int = 0
    sizes: tuple[dict[str, int], ...] = ()
    digits: int | None = None
    wrong: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def check_lines(
    claims: Sequence[tuple[ClaimPart, Claim]], theorem: Theorem, context: Context
) -> list[Checked]:
    """Compute every line of some claims.

    Args:
        claims: what is shown of each, and the claim itself.
        theorem: whose assumptions the numbers respect.
        context: what the terms rest on.
    """
    sides = [side for _, claim in claims for side in (claim.left, claim.right)]
    assumed = [one.positive for one in theorem.assumptions if one.positive is not None]
    try:
        cases = [_Case(one, context, sides) for one in samples(sides, assumed, theorem.name)] if sides else []
    except Problem as problem:
        return [Checked(left_out=(problem.one_line(),)) for _ in claims]
    return [_Claim(shown, claim, cases, bool(context.tables)).checked() for shown, claim in claims]


class _Case:
    """A sample, and what computes terms and expressions there."""

    def __init__(self, sample: Sample, context: Context, sides: Sequence[Expr]) -> None:
        self.sample, self.context = sample, context
        self.floats = Numbers(Floats(), context, sample.sizes, sample.normal, sample.orders)
        self.exact = self._exact(sample.roots)
        self._places: dict[tuple[str, int], Any] = {}
        self.sides = sides

    @cached_property
    def values(self) -> dict[int, Values]:
        """What einops makes of every side."""
        return dict(zip(map(id, self.sides), self.sample.values(self.sides), strict=True))

    def places(self, variables: Sequence[Var]) -> dict[str, Any]:
        """Positions for every variable, the same for the same letter, so that claims share what they are made of."""
        found = {}
        for one in variables:
            letter, size = one.name, self.floats.size(one.domain)
            if (letter, size) not in self._places:
                drawn = random.Random(f"{letter}{self.sample.sizes}")
                self._places[letter, size] = np.array([drawn.randrange(size) for _ in range(ENTRIES)])
            found[letter] = self._places[letter, size]
        return found

    def place(self, variables: Sequence[Var]) -> dict[str, int]:
        """The first of them."""
        return {name: int(at[0]) for name, at in self.places(variables).items()}

    def _exact(self, count: int) -> Numbers:
        return Numbers(Fractions(count), self.context, self.sample.sizes, self.sample.integers, self.sample.orders)

    def exactly(self, compute: Callable[[Numbers], Any]) -> Any:
        """What is computed in fractions, with such powers of two that exponents come out whole.

        Raises:
            NotExact: if there are none.
        """
        while True:
            kind = self.exact.kind
            assert isinstance(kind, Fractions)
            try:
                return compute(self.exact)
            except NotExact:
                if kind.needed == kind.count:
                    raise
                self.exact = self._exact(kind.needed)


@dataclass
class _Claim:
    """One claim, and what was found of its lines."""

    shown: ClaimPart
    claim: Claim
    cases: Sequence[_Case]
    tabled: bool = False
    digits: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.height = self.shown.height
        self.entries = dict(_entries(self.claim, self.tabled))

    def checked(self) -> Checked:
        """All that is found."""
        done = [dict(case.sample.sizes) for case in self.cases if self._in_fractions(case)]
        self._in_floats(self.cases[0])
        matrices = len(self.height.lines) if self.height else 0
        wrong, left_out = (tuple(dict.fromkeys(one)) for one in (self.wrong, self.left_out))
        return Checked(self._count(), matrices, tuple(done), min(self.digits, default=None), wrong, left_out)

    def _count(self) -> int:
        shown = self.shown
        entries = [len(shown.moves)] if shown.moves else [len(proof.steps) for proof in shown.proofs]
        return sum(entries)

    # ------------------------------------------------------------ in fractions

    def _in_fractions(self, case: _Case) -> bool:
        """Whether every line could be computed; what is not as the line before is noted."""
        try:
            for part, goal, terms in self._chains():
                places = case.place(goal.variables)
                values = case.exactly(partial(_values, terms, places))
                for n, (before, after) in enumerate(pairwise(values), 1):
                    if not np.all(before == after):
                        self._note(f"{part}line {n} does not equal the line before it", case)
            self._matrices(case)
        except NotExact as limit:
            self.left_out.append(limit.one_line())
            return False
        return True

    def _chains(self) -> Iterator[tuple[str, Goal, list[Term]]]:
        """Every proof: which part it is if there are several, what it proves, and its lines."""
        several = len(self.shown.proofs) > 1
        for n, proof in enumerate(self.shown.proofs, 1):
            yield f"part {n}, " * several, proof.goal, [step.term for step in proof.steps]

    def _matrices(self, case: _Case) -> None:
        if self.height is None:
            return
        goal = self.shown.proofs[0].goal
        places, height = case.place(goal.variables), self.height
        for n in case.exactly(partial(differing, height, places)):
            self._note(f"line {n} in matrices is not what its entries are", case)

    def _note(self, what: str, case: _Case) -> None:
        sizes = ", ".join(f"{name}={n}" for name, n in case.sample.sizes.items())
        self.wrong.append(f"{what} at {sizes or 'the given sizes'}")

    # ------------------------------------------------------------ against einops

    def _in_floats(self, case: _Case) -> None:
        """Compare every line with what einops makes of both sides."""
        numbers = case.floats
        left, right = case.values[id(self.claim.left)], case.values[id(self.claim.right)]
        largest = float(np.max(np.abs(left)))
        for part, goal, terms in self._chains():
            places = case.places(goal.variables)
            at = [numbers.index(one, places) for one in self.entries[goal.name]]
            by_name = dict(zip((axis.name for axis in self.claim.left.axes), at, strict=True))
            expected = left[tuple(at)], right[tuple(by_name[axis.name] for axis in self.claim.right.axes)]
            for n, term in enumerate(terms):
                value = numbers.at(term, places)
                self._agreement(max(_apart(value, one) for one in expected), largest, f"{part}line {n}", case)
        self._moved(case, largest)

    def _moved(self, case: _Case, largest: float) -> None:
        """Where axes are rearranged: every station holds the number that the result holds."""
        if not self.shown.moves:
            return
        values = case.sample.values(stations(self.claim.left))
        places = case.places([var for one in self.shown.moves[-1].at for var in variables(one)])
        found = [
            value[tuple(case.floats.index(one, places) for one in move.at)]
            for move, value in zip(self.shown.moves, values, strict=True)
        ]
        for n, value in enumerate(found):
            self._agreement(_apart(value, found[-1]), largest, f"step {n}", case)

    def _agreement(self, apart: float, largest: float, line: str, case: _Case) -> None:
        found = _digits(apart, largest)
        self.digits.append(found)
        if found < ENOUGH:
            self._note(f"{line} agrees with einops to {found} digits only", case)


def _values(terms: Sequence[Term], places: Mapping[str, Any], numbers: Numbers) -> list[Values]:
    return [numbers.at(one, places) for one in terms]


def _entries(claim: Claim, tabled: bool) -> Iterator[tuple[str, tuple[Index, ...]]]:
    """Which entry of a claim every goal is about; where there are constant tables, goals may go place by place."""
    probe = Input("", claim.left.axes)
    for goal in goals(Meaning(), claim.name, probe + claim.left if tabled else probe, probe):
        assert isinstance(goal.right, Entry)
        yield goal.name, goal.right.at


def _apart(one: Values, other: Values) -> float:
    return float(np.max(np.abs(np.subtract(one, other))))


def _digits(apart: float, largest: float) -> int:
    """To how many digits of the largest entry two values agree, at most `MOST`."""
    if not apart:
        return MOST
    return max(0, min(MOST, math.floor(-math.log10(apart / largest)))) if largest else 0
