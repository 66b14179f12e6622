"""A second engine, which shares no code with the prover: claims at random points of finite fields.

Both sides are evaluated exactly, modulo two random primes above ``2**29``, at random sizes that are pairwise
distinct and not 1 unless the claim fixes them, with random masks that satisfy the assumptions and permutations that
are not their own inverses.  Exponentials are carried as exponential sums (`mha_sym.proof.exponential_sums`), so that
``exp(a + b) = exp(a) exp(b)`` and nothing else is known of them.  Maxima and functions of which nothing is known are
random values that depend on their arguments.  As in proofs, the inverse of 0 is 0, and a row of a softmax that keeps
nothing has weights 0.

What an answer means.  A claim that is true has no exceptions: where the sides differ, it is false (unless a maximum
took part, or a quotient of exponentials in an exponent, of which more is true than is known here: no answer then).
Where they agree, the claim may still be false, with a probability of at most ``bound`` at these sizes, masks and
permutations; of others nothing is said.  A polynomial of degree n that is not zero vanishes at a random point modulo
p with probability at most n/p (Schwartz and Zippel), and that has to happen for both primes in every trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import log2, prod
from typing import Any

import numpy as np
import sympy

from mha_sym.axes import Axis, Index
from mha_sym.expr import Expr, Input, walk
from mha_sym.proof.denominators import Field
from mha_sym.proof.exponential_sums import LARGEST, Beyond, Sums, Unlucky, find_primes, spacing
from mha_sym.proof.field_facts import Facts
from mha_sym.proof.field_nodes import HANDLERS, Label, Labels, Value, bare, of_numbers, sum_of_positive
from mha_sym.proof.theorem import Assumption, Claim

#: what part of a mask is 1, trial by trial; more if the assumptions do not hold
DENSITIES = (0.85, 0.5)


@dataclass(frozen=True)
class FieldResult:
    """What random points say of a claim.

    Attributes:
        agrees: whether the sides agreed at all points; None if something was out of reach.
        sizes: the sizes that were drawn, one assignment a trial.
        bound: if they agreed, at most the probability that a false claim does so at these sizes.
        detail: where they differ, or what was out of reach.
    """

    agrees: bool | None
    sizes: tuple[dict[str, int], ...]
    bound: float
    detail: str = ""


def confirm(
    claim: Claim,
    assumptions: Sequence[Assumption] = (),
    fixed: Mapping[str, int] | None = None,
    trials: int = 2,
    seed: int = 0,
) -> FieldResult:
    """Compare both sides of a claim exactly at random points of finite fields.

    Args:
        claim: two expressions with the same axes.
        assumptions: what the masks that are drawn have to satisfy.
        fixed: sizes that are given, by symbol.
        trials: how many independent points, each at other sizes.
        seed: chooses them; the same answer for the same seed.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Softmax
        >>> x, c = Input("x", (axis("t"), axis("s"))), Input("c", (axis("t"),))
        >>> left, right = Softmax(x + c, (axis("s"),)), Softmax(x, (axis("s"),))
        >>> confirm(Claim("shift", left, right)).agrees, confirm(Claim("no shift", x + c, x)).agrees
        (True, False)
    """
    try:
        group = _Group(Facts.of((claim,), assumptions), fixed or {}, seed)
    except Beyond as limit:
        return FieldResult(None, (), 1.0, str(limit))
    return group.confirm(claim, trials)


class Points:
    """`confirm` for the claims of a theorem; those of the same sizes are compared at the same points.

    What such claims share is evaluated once.  Whatever is not agreement is found again for the claim alone.

    Args:
        claims: those that may be asked about.
        assumptions: what the masks that are drawn have to satisfy.
    """

    def __init__(self, claims: Sequence[Claim], assumptions: Sequence[Assumption] = ()) -> None:
        self.assumptions = tuple(assumptions)
        self._groups: dict[str, _Group] = {}
        for together in _of_the_same_sizes(claims, self.assumptions):
            try:
                group = _Group(Facts.of(together, self.assumptions), {}, 0)
            except Beyond:  # one name stands for two inputs in two of the claims
                continue
            self._groups |= dict.fromkeys((claim.name for claim in together), group)

    def confirm(self, claim: Claim) -> FieldResult:
        """What random points say of one of the claims."""
        group = self._groups.get(claim.name)
        if group is not None and claim in group.facts.claims:
            found = group.confirm(claim)
            if found.agrees:
                return found
        return confirm(claim, self.assumptions)


def _of_the_same_sizes(claims: Iterable[Claim], assumptions: Sequence[Assumption]) -> list[tuple[Claim, ...]]:
    """The claims that can be compared at sizes that were drawn for one of them."""
    alike: dict[tuple[object, ...], tuple[Claim, ...]] = {}
    for claim in claims:
        try:
            facts = Facts.of((claim,), assumptions)
        except Beyond:
            continue
        sizes = (frozenset(facts.least.items()), facts.numbers)
        alike[sizes] = (*alike.get(sizes, ()), claim)
    return list(alike.values())


class _Group:
    """Some claims, and the points at which they are compared."""

    def __init__(self, facts: Facts, fixed: Mapping[str, int], seed: int) -> None:
        self.facts, self.fixed, self.seed = facts, fixed, seed
        self._trials: dict[tuple[int, int], Trial] = {}

    def confirm(self, claim: Claim, trials: int = 2) -> FieldResult:
        """Compare the sides of one of the claims at so many points."""
        done: list[dict[str, int]] = []
        bound = 1.0
        try:
            for turn in range(trials):
                sizes, found = self._try(claim, turn)
                done.append(sizes)
                if found.place is not None:
                    at = ", ".join(f"{a.name}={n}" for a, n in zip(claim.left.axes, found.place, strict=True))
                    verdict = None if found.loose else False
                    return FieldResult(verdict, tuple(done), 1.0, f"the sides differ at {at or 'the only place'}")
                bound *= found.bound
        except Beyond as limit:
            return FieldResult(None, tuple(done), 1.0, str(limit))
        return FieldResult(True, tuple(done), bound)

    def _try(self, claim: Claim, turn: int) -> tuple[dict[str, int], _Found]:
        """One comparison, drawn again where a number was zero by accident."""
        for attempt in range(8):
            try:
                trial = self._trial(turn, attempt)
                return dict(trial.sizes), trial.compare(claim)
            except Unlucky:
                continue
        raise Beyond("no point without an accidental zero was found")

    def _trial(self, turn: int, attempt: int) -> Trial:
        if (turn, attempt) not in self._trials:
            rng = np.random.default_rng([self.seed, turn, attempt])
            trial = Trial(self.facts, self.facts.draw_sizes(rng, self.fixed, turn), rng, turn)
            trial.draw()
            self._trials[turn, attempt] = trial
        return self._trials[turn, attempt]


# ---------------------------------------------------------------- one trial


@dataclass(frozen=True)
class _Found:
    """Where the sides differ, if they do; whether that says nothing; and how probable it is that they should."""

    place: tuple[int, ...] | None
    loose: bool
    bound: float


@dataclass
class Trial:
    """Some claims at certain sizes and one random point."""

    facts: Facts
    sizes: Mapping[str, int]
    rng: np.random.Generator
    turn: int = 0
    drawn: dict[str, Sums] = field(default_factory=dict)
    memo: dict[int, Value] = field(default_factory=dict)
    extents: dict[int, int] = field(default_factory=dict)
    orders: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    radicands: set[int] = field(default_factory=set)

    def draw(self) -> None:
        """Draw the primes and everything that the claims take in.

        Raises:
            Beyond: if something is out of reach.
            Unlucky: if a number was zero by accident.
        """
        self.radicands = {int(q) for p in self.facts.roots for q in sympy.factorint(self._positive(p.base))}
        self.field = Field(find_primes(self.rng, self.radicands), self.rng)
        self.orders = {name: self._order(self.size(p.axis)) for name, p in self.facts.permutations.items()}
        self._draw_inputs()

    def compare(self, claim: Claim) -> _Found:
        """Evaluate both sides of a claim and compare them.

        Raises:
            Beyond: if something is out of reach.
            Unlucky: if a number was zero by accident.
        """
        left, right = (self.full(self.take(side), claim.left.axes) for side in (claim.left, claim.right))
        place = self.field.differing(left, right)
        return _Found(place, self.field.loose, self._chance(left.height + right.height))

    def _chance(self, height: float) -> float:
        """At most the probability that sides which differ seem to agree.

        A coefficient that is not zero has to vanish, or an exponent or a symbol to meet one of the others, modulo
        both primes; or all integers of that coefficient are multiples of both, which for a number of n bits are at
        most n/58 of the pairs that could have been drawn: there are more than 2000000/m of those that are -1 modulo m.
        """
        height += self.field.added
        chances = height * (1 + self.field.terms + self.field.symbols) / min(self.field.primes)
        integers = height // 58 * spacing(self.radicands) / 2_000_000
        return min(1.0, chances * chances + integers)

    # ------------------------------------------------------------ sizes and numbers

    def size(self, axis: Axis) -> int:
        """The number of positions of an axis."""
        if id(axis) not in self.extents:
            value = self._rational(axis.size)
            if value.denominator != 1 or value < 1:
                raise Beyond(f"axis {axis.name} has size {value}")
            self.extents[id(axis)] = int(value)
        return self.extents[id(axis)]

    def _rational(self, value: sympy.Expr) -> Fraction:
        if value.is_Rational:
            return Fraction(int(value.p), int(value.q))
        if value.is_Symbol:
            return Fraction(self.sizes[value.name])
        if value.is_Add:
            return sum(map(self._rational, value.args), Fraction(0))
        if value.is_Mul:
            return prod(map(self._rational, value.args), start=Fraction(1))
        if value.is_Pow and value.exp.is_Integer:
            return self._rational(value.base) ** int(value.exp)
        raise Beyond(f"{value} is not rational")

    def _positive(self, base: sympy.Expr) -> int:
        """A radicand, as an integer with the same primes."""
        value = self._rational(base)
        if value <= 0:
            raise Beyond(f"a root of {value}")
        return value.numerator * value.denominator

    def number(self, value: sympy.Expr) -> tuple[int, int]:
        """A scalar modulo the two primes."""
        if value.is_Add or value.is_Mul:
            rows = [self.number(one) for one in value.args]
            join = sum if value.is_Add else prod
            first, second = (join(row[n] for row in rows) % p for n, p in enumerate(self.field.primes))
            return first, second
        if value.is_Pow and not value.exp.is_Integer:
            if not value.exp.is_Rational:
                raise Beyond(f"{value} is not a root")
            base = self._rational(value.base)
            above, below = (self.field.root(n, value.exp) for n in (base.numerator, base.denominator))
            first, second = (above[n] * pow(below[n], -1, p) % p for n, p in enumerate(self.field.primes))
            return first, second
        if value.is_Pow and not value.base.is_Symbol and not value.base.is_Rational:
            base_ = self.number(value.base)
            first, second = (pow(base_[n], int(value.exp), p) for n, p in enumerate(self.field.primes))
            return first, second
        exact = self._rational(value)
        return self.field.constant(sympy.Rational(exact.numerator, exact.denominator))

    def bits(self, value: sympy.Expr) -> float:
        """At most the bits of the integers in a scalar."""
        if value.is_Add or value.is_Mul:
            return len(value.args) + sum(map(self.bits, value.args))
        if value.is_Pow:
            return abs(float(value.exp)) * self.bits(value.base)
        exact = self._rational(value)
        return log2(abs(exact.numerator) + 1) + log2(exact.denominator)

    # ------------------------------------------------------------ draws

    def _order(self, size: int) -> np.ndarray[Any, Any]:
        """A permutation that is not its own inverse, if there is one."""
        order = self.rng.permutation(size)
        while size > 2 and (order[order] == np.arange(size)).all():
            order = self.rng.permutation(size)
        return order

    def _draw_inputs(self) -> None:
        masks = [one for one in self.facts.inputs.values() if one.boolean]
        for one in self.facts.inputs.values():
            if not one.boolean:
                self.drawn[one.name] = self.field.drawn(self._shape(one))
        for density in (DENSITIES[self.turn % 2], 0.7, 0.9, 1.0):
            single = False
            for one in masks:
                bits = self._mask(self._shape(one), density)
                if bits.size == 1 and density == DENSITIES[1]:  # 0, 1, 0, ...
                    bits, single = np.full(bits.shape, single), not single
                self.drawn[one.name] = self.field.integers(bits.astype(np.int64))
            self.memo.clear()
            if all(map(self._allowed, self.facts.assumed)):
                self.memo.clear()
                return
        raise Beyond("no masks were found that satisfy the assumptions")

    def _shape(self, node: Input) -> tuple[int, ...]:
        shape = tuple(map(self.size, node.over))
        if prod(shape) > LARGEST:
            raise Beyond("too many entries")
        return shape

    def _mask(self, shape: tuple[int, ...], density: float) -> np.ndarray[Any, Any]:
        """Random bits, in every other trial few of them 0, and not all 1 in the others."""
        size = prod(shape)
        if density == DENSITIES[0]:
            return np.asarray(self.rng.permutation(size).reshape(shape) >= size // 6)
        bits = np.asarray(self.rng.random(shape) < density)
        while density == DENSITIES[1] and size > 1 and bits.all():
            bits = np.asarray(self.rng.random(shape) < density)
        return bits

    def _allowed(self, assumed: Expr) -> bool:
        """Whether an expression is positive at all places, or for some reals near the point drawn.

        What holds of numbers alone is decided.  An input that is positive is any number as far as identities go; of
        what is made of such inputs only that it is not zero is seen, and a difference then says nothing.
        """
        _, value = self.take(assumed)
        if all(map(of_numbers, walk(assumed))):
            signed = np.where(value.c > min(self.field.primes) // 2, -1, value.c)
            return bool((signed > 0).all())
        if not isinstance(bare(assumed), Input):
            self.field.loose = self.field.loose or not sum_of_positive(assumed)
        return bool(self.field.merged(value).c.any(axis=(0, -1)).all())

    # ------------------------------------------------------------ labels

    def extent(self, label: Label) -> int:
        """The number of positions that a label stands for."""
        return self.size(label if isinstance(label, Axis) else label.axis)

    def aligned(self, value: Value, labels: Labels) -> Sums:
        """With axes in the order of some labels, of size one where the entries do not depend on them."""
        have, sums = value
        order = [have.index(one) for one in labels if one in have]
        shape = [self.extent(one) if one in have else 1 for one in labels]
        return sums.moved(order).reshaped(shape)

    def full(self, value: Value, labels: Labels) -> Sums:
        """The same, with all entries written out."""
        if set(value[0]) - set(labels):
            raise Beyond("an index is bound by nothing")
        return self.aligned(value, labels).widened([self.extent(one) for one in labels])

    def opened(self, value: Value, axes: Sequence[Axis]) -> tuple[Labels, Sums]:
        """All entries along the axes, with the family indices in front."""
        indices = tuple(one for one in value[0] if isinstance(one, Index))
        return indices, self.full(value, (*indices, *axes))

    def take(self, node: Expr) -> Value:
        """The value of a node."""
        number = self.facts.numbered(node)
        if number not in self.memo:
            self.memo[number] = HANDLERS[type(node)](self, node)
        return self.memo[number]

    def together(self, values: Sequence[Value], join: Callable[[Sums, Sums], Sums]) -> Value:
        """Sums or products of several values, entry by entry."""
        labels = tuple(dict.fromkeys(one for have, _ in values for one in have))
        result = self.aligned(values[0], labels)
        for one in values[1:]:
            result = join(result, self.aligned(one, labels))
        return labels, result

    def total(self, value: Value, over: Sequence[Label]) -> Value:
        """The sum over some labels; over one on which nothing depends it multiplies by a size."""
        labels, sums = value
        count = prod(self.extent(one) for one in over if one not in labels)
        summed = self.field.total(sums, tuple(n for n, one in enumerate(labels) if one in over))
        if count > 1:
            summed = self.field.mul(summed, self.field.integers(np.full((1,) * len(summed.shape), count)))
        return tuple(one for one in labels if one not in over), summed
