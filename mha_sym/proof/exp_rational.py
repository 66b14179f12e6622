"""Exact arithmetic of quotients of sums ``c e^p``, in which ``exp(a + b) = exp(a) exp(b)`` holds of itself.

Defines `ExpField` and its elements `ExpRational`: ``c`` and ``p`` are polynomials (SymPy's, over the rationals) in
given generators and in roots of primes.  Two elements are equal exactly if they are equal as functions, for
exponentials of different polynomials are linearly independent over the rational functions (and e^c for different
algebraic numbers c over the algebraic numbers, by Lindemann and Weierstrass).  There is no e^x for an x that is not a
polynomial.  Shares no code with the prover.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from flint import arb, ctx, fmpq
from sympy.polys.orderings import lex
from sympy.polys.rings import PolyRing

Poly = Any  # a PolyElement; SymPy carries no types

#: precision with which values are looked at
BITS = 200


class Beyond(Exception):
    """A value that this arithmetic does not have, or more work than was allowed."""


class Exponent:
    """A polynomial as a key: hashed by monomials with numerators, since rationals are slow to hash."""

    __slots__ = ("_hash", "poly")

    def __init__(self, poly: Poly) -> None:
        self.poly = poly
        self._hash = hash(frozenset([(monomial, c.numerator) for monomial, c in poly.items()]))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Exponent) and self._hash == other._hash and bool(self.poly == other.poly)
        )


Terms = dict[Exponent, Poly]  # the sum of c e^p, none of the c zero
Below = tuple[int, ...]  # a denominator: the numbers of its factors in order, repeated if need be


class ExpRational:
    """A sum of ``terms / denominator``, one for each denominator; made by an `ExpField`."""

    __slots__ = ("field", "parts")

    def __init__(self, field: ExpField, parts: Mapping[Below, Terms]) -> None:
        self.field = field
        self.parts = parts

    @property
    def terms(self) -> int:
        """How many terms there are to write, those of denominators not counted."""
        return sum(len(c) + len(e.poly) for terms in self.parts.values() for e, c in terms.items())

    def __add__(self, other: ExpRational) -> ExpRational:
        return self.field.total((self, other))

    def __neg__(self) -> ExpRational:
        return ExpRational(self.field, {d: {e: -c for e, c in terms.items()} for d, terms in self.parts.items()})

    def __sub__(self, other: ExpRational) -> ExpRational:
        return self + -other

    def __mul__(self, other: ExpRational) -> ExpRational:
        return self.field.product(self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpRational) and self.field.is_zero(self - other)

    def __hash__(self) -> int:
        raise TypeError("equal elements may be written differently, so they have no hash")

    def __repr__(self) -> str:
        return str(self.field.as_expr(self))


@lru_cache(maxsize=32)
def _ring(count: int) -> PolyRing:
    """A ring in ``count`` generators; making one takes longer than most of what is done in it."""
    return PolyRing([sympy.Symbol(f"x{n}") for n in range(count)], sympy.QQ, lex)


class ExpField:
    """Elements over some generators; this is the protocol `mha_sym.backends.Elements`.

    Args:
        names: the generators.
        roots: the primes of which roots occur.
        degree: a number that all roots divide: 2 for square roots.
        limit: how much work is allowed in all: numbers added in products of monomials and in sums of exponents, with
            some more for each.
        point: values of the generators, near which `maximum` says which of two elements is the larger.

    Example:
        >>> field = ExpField(["a", "b"])
        >>> a, b = field.generators
        >>> field.exp(a + b) == field.exp(a) * field.exp(b)
        True
        >>> field.exp(a) * field.inverse(field.exp(a) + field.exp(b)) == field.inverse(field.one + field.exp(b - a))
        True
    """

    def __init__(
        self,
        names: Sequence[str],
        roots: Sequence[int] = (),
        degree: int = 2,
        limit: int = 100_000_000,
        point: Sequence[int] | None = None,
    ) -> None:
        self.names, self.primes, self.degree, self.limit, self.point = tuple(names), tuple(roots), degree, limit, point
        self.work = 0
        self.ring = _ring(16 + (len(names) + len(roots)) // 16 * 16)
        self._each = 40 + self.ring.ngens
        self._unit = self.ring.one
        self._nil = Exponent(self.ring.zero)
        self._first_root = len(names)
        self._factors: list[Terms] = []
        self._found: dict[frozenset[Exponent], list[int]] = {}
        self.zero = ExpRational(self, {})
        self.one = self._of({self._nil: self._unit})
        self.generators = tuple(self._poly(self.ring.gens[n]) for n in range(len(names)))

    # ------------------------------------------------------------ elements

    def _of(self, terms: Terms, below: Below = ()) -> ExpRational:
        return ExpRational(self, {below: terms} if terms else {})

    def _poly(self, poly: Poly) -> ExpRational:
        return self._of({self._nil: poly} if poly else {})

    def rational(self, value: Fraction | int) -> ExpRational:
        """The element of a rational number."""
        return self._poly(self.ring.ground_new(sympy.QQ(value.numerator, value.denominator)))

    def number(self, value: sympy.Expr) -> ExpRational:
        """The element of a number made of rationals and rational powers of positive integers.

        Raises:
            Beyond: for another number, and for a root that was not announced.
        """
        if value.is_Rational:
            return self.rational(Fraction(int(value.p), int(value.q)))
        if value.is_Add:
            return self.total(map(self.number, value.args))
        if value.is_Mul:
            return math.prod(map(self.number, value.args), start=self.one)
        if value.is_Pow and value.exp.is_Integer:
            base = self.number(value.base)
            power = math.prod([base] * abs(int(value.exp)), start=self.one)
            return power if value.exp > 0 else self.inverse(power)
        if value.is_Pow and value.base.is_Integer and value.base > 0 and value.exp.is_Rational:
            return self._root(int(value.base), Fraction(int(value.exp.p), int(value.exp.q)))
        raise Beyond(f"{value} is not made of rationals and roots of integers")

    def _root(self, base: int, power: Fraction) -> ExpRational:
        result = self._unit
        for prime, times in sympy.factorint(base).items():
            steps = times * power * self.degree
            if prime not in self.primes or steps.denominator != 1:
                raise Beyond(f"{base}^({power}) is a root that was not announced")
            whole, rest = divmod(int(steps), self.degree)
            rational = Fraction(int(prime)) ** whole
            generator = self.ring.gens[self._first_root + self.primes.index(prime)]
            result = result * generator**rest * sympy.QQ(rational.numerator, rational.denominator)
        return self._poly(result)

    def polynomial(self, x: ExpRational) -> Poly:
        """The element as a polynomial.

        Raises:
            Beyond: if it is none.
        """
        if not x.parts:
            return self.ring.zero
        terms = x.parts.get((), {})
        if len(x.parts) > 1 or len(terms) != 1 or self._nil not in terms:
            raise Beyond("a quotient or an exponential stands where only a polynomial may")
        return terms[self._nil]

    # ------------------------------------------------------------ arithmetic

    def _times(self, x: Poly, y: Poly) -> Poly:
        if x is self._unit:
            return y
        if y is self._unit:
            return x
        self._spend(len(x) * len(y))
        return self._reduced(x * y) if self.primes else x * y

    def _spend(self, monomials: int) -> None:
        self.work += monomials * self._each
        if self.work > self.limit:
            raise Beyond("too many terms")

    def _reduced(self, poly: Poly) -> Poly:
        """With ``s^2 = n`` for every root."""
        places = range(self._first_root, self._first_root + len(self.primes))
        if all(monomial[n] < self.degree for monomial in poly for n in places):
            return poly
        result = self.ring.zero
        for monomial, coefficient in poly.items():
            exponents = list(monomial)
            for n, prime in zip(places, self.primes, strict=True):
                whole, exponents[n] = divmod(exponents[n], self.degree)
                coefficient = coefficient * prime**whole
            result[tuple(exponents)] = result.get(tuple(exponents), sympy.QQ.zero) + coefficient
        result.strip_zero()
        return result

    def _terms_times(self, x: Terms, y: Terms) -> Terms:
        result: Terms = {}
        for p, c in x.items():
            for q, d in y.items():
                _put(result, self._plus(p, q), self._times(c, d))
        return result

    def _plus(self, p: Exponent, q: Exponent) -> Exponent:
        if p is self._nil:
            return q
        if q is self._nil:
            return p
        self._spend(len(p.poly) + len(q.poly))
        return Exponent(p.poly + q.poly)

    def total(self, elements: Iterable[ExpRational]) -> ExpRational:
        """The sum of some elements."""
        parts: dict[Below, Terms] = {}
        for element in elements:
            for below, terms in element.parts.items():
                into = parts.setdefault(below, {})
                for exponent, coefficient in terms.items():
                    _put(into, exponent, coefficient)
        return self._cancelled(parts)

    def product(self, x: ExpRational, y: ExpRational) -> ExpRational:
        """The product of two elements."""
        parts: dict[Below, Terms] = {}
        for d, top in x.parts.items():
            for e, other in y.parts.items():
                into = parts.setdefault(tuple(sorted(d + e)), {})
                for exponent, coefficient in self._terms_times(top, other).items():
                    _put(into, exponent, coefficient)
        return self._cancelled(parts)

    def exp(self, x: ExpRational) -> ExpRational:
        """``e^x`` of a polynomial.

        Raises:
            Beyond: if ``x`` is no polynomial.
        """
        poly = self.polynomial(x)
        return self._of({Exponent(poly) if poly else self._nil: self._unit})

    def inverse(self, x: ExpRational) -> ExpRational:
        """``1/x``, and 0 for 0, as in the prover."""
        if not x.parts:
            return self.zero
        below, terms = self._over_one(x)
        if not terms:
            return self.zero
        top = math.prod((self._of(self._factors[n]) for n in below), start=self.one)
        lead = self._lead(terms)
        content = terms[lead].LC
        scale = {Exponent(-lead.poly) if lead.poly else self._nil: self.ring.ground_new(1 / content)}
        factor = {self._minus(e, lead): c.quo_ground(content) for e, c in terms.items()}
        if factor == {self._nil: self._unit}:
            return top * self._of(scale)
        return top * self._of(scale, (self._number(factor),))

    def maximum(self, x: ExpRational, y: ExpRational) -> ExpRational:
        """The larger of two polynomials near the point of the field.

        Raises:
            Beyond: if they are equal at the point, or no polynomials.
        """
        difference = self.polynomial(x - y)
        if not difference:
            return x
        if self.point is None:
            raise Beyond("no point is given at which to compare")
        with ctx.workprec(BITS):
            value = self._at([arb(number) for number in self.point])(difference)
            if value.contains(0):
                raise Beyond("two numbers are equal at the point where the larger is asked for")
            return x if value > 0 else y

    def _at(self, point: list[arb]) -> Callable[[Poly], arb]:
        """What gives a ball that holds the value of a polynomial at a point."""
        numbers = [*point, *(arb(prime).root(self.degree) for prime in self.primes)]

        def value(poly: Poly) -> arb:
            total = arb(0)
            for monomial, c in poly.items():
                factors = (numbers[n] ** power for n, power in enumerate(monomial) if power)
                total += math.prod(factors, start=arb(fmpq(int(c.numerator), int(c.denominator))))
            return total

        return value

    # ------------------------------------------------------------ denominators

    def _lead(self, terms: Terms) -> Exponent:
        """The first exponent in an order that adding a polynomial to all of them does not change."""
        first, *others = terms
        for one in others:
            if (one.poly - first.poly).LC < 0:
                first = one
        return first

    def _minus(self, p: Exponent, q: Exponent) -> Exponent:
        return self._nil if p is q else Exponent(p.poly - q.poly)

    def _number(self, factor: Terms) -> int:
        """The number of a factor of denominators, a new one if it was not met before."""
        alike = self._found.setdefault(frozenset(factor), [])
        for number in alike:
            if self._factors[number] == factor:
                return number
        self._factors.append(factor)
        alike.append(len(self._factors) - 1)
        return alike[-1]

    def _cancelled(self, parts: dict[Below, Terms]) -> ExpRational:
        """The sum of the parts, those that are a multiple ``c e^p`` of a factor below divided by it."""
        done: dict[Below, Terms] = {}
        waiting = [(below, terms) for below, terms in parts.items() if terms]
        while waiting:
            below, terms = waiting.pop()
            for number in dict.fromkeys(below):
                quotient = self._quotient(terms, self._factors[number])
                if quotient is not None:
                    rest = list(below)
                    rest.remove(number)
                    waiting.append((tuple(rest), quotient))
                    break
            else:
                into = done.setdefault(below, {})
                for exponent, coefficient in terms.items():
                    _put(into, exponent, coefficient)
        return ExpRational(self, {below: terms for below, terms in done.items() if terms})

    def _quotient(self, terms: Terms, factor: Terms) -> Terms | None:
        """``terms / factor`` if that is a single ``c e^p`` and the factor begins with 1."""
        if len(terms) != len(factor) or factor.get(self._nil) != 1:
            return None
        if all(c == 1 for c in factor.values()):
            first = next(iter(terms.values()))
            if any(c != first for c in terms.values()):
                return None
        lead = self._lead(terms)
        coefficient = terms[lead]
        for exponent, c in terms.items():
            expected = factor.get(self._minus(exponent, lead))
            if expected is None or self._times(coefficient, expected) != c:
                return None
        return {lead: coefficient}

    def _over_one(self, x: ExpRational) -> tuple[Below, Terms]:
        """The element over one denominator, the least common multiple of its denominators."""
        common: dict[int, int] = {}
        for below in x.parts:
            for number in below:
                common[number] = max(common.get(number, 0), below.count(number))
        result: Terms = {}
        for below, terms in x.parts.items():
            for number, times in common.items():
                for _ in range(times - below.count(number)):
                    terms = self._terms_times(terms, self._factors[number])
            for exponent, coefficient in terms.items():
                _put(result, exponent, coefficient)
        return tuple(sorted(n for n, times in common.items() for _ in range(times))), result

    def is_zero(self, x: ExpRational) -> bool:
        """Whether the element is the zero function."""
        if len(x.parts) < 2:
            return not x.parts
        return not self._certainly_not_zero(x) and not self._over_one(x)[1]

    def _certainly_not_zero(self, x: ExpRational) -> bool:
        """Whether the value at some point is not zero, shown by balls that hold it; spares most products of sums."""
        numbers = random.Random(0)
        with ctx.workprec(BITS):
            value = self._at([arb(fmpq(numbers.randint(-64, 64), 64)) for _ in self.names])

            def read(terms: Terms) -> arb:
                return sum((value(c) * value(e.poly).exp() for e, c in terms.items()), start=arb(0))

            below = {n: read(self._factors[n]) for n in {n for part in x.parts for n in part}}
            total = arb(0)
            for part, terms in x.parts.items():
                total += read(terms) / math.prod((below[n] for n in part), start=arb(1))
            return bool(total.is_finite() and not total.contains(0))

    def as_expr(self, x: ExpRational) -> sympy.Expr:
        """The element as an ordinary SymPy expression in the named generators."""
        symbols = [*map(sympy.Symbol, self.names)]
        symbols += [sympy.Integer(p) ** sympy.Rational(1, self.degree) for p in self.primes]
        symbols += list(self.ring.symbols[len(symbols) :])

        def read(terms: Terms) -> sympy.Expr:
            return sympy.Add(*(c.as_expr(*symbols) * sympy.exp(e.poly.as_expr(*symbols)) for e, c in terms.items()))

        return sympy.Add(
            *(read(terms) / sympy.Mul(*(read(self._factors[n]) for n in below)) for below, terms in x.parts.items())
        )


def _put(terms: Terms, exponent: Exponent, coefficient: Poly) -> None:
    """Add a term to a sum."""
    if exponent in terms:
        coefficient = terms[exponent] + coefficient
    if coefficient:
        terms[exponent] = coefficient
    else:
        terms.pop(exponent, None)
