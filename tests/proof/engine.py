"""A reference evaluator of terms: plain loops over positions at small sizes, exact numbers, nothing of the rules.

Numbers are fractions as long as they can be, and real balls of 320 bits from the first exponential or root on;
``1/0`` is 0.  `value` gives the value of a term in a `World`, `agree` says whether two values are the same real
number (balls that do not meet are certainly different; balls of radius below 1e-60 that meet count as equal).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

from mha_sym.proof import terms
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Add, Apply, At, Bind, Cmp, Domain, Entry, Inj, Mul, Num, Part, Perm, Size, Var

BITS = 320
TINY = Fraction(1, 10**60)

Number = Any


class Unclear(Exception):
    """A ball that holds zero, or two balls that meet where an order is needed: nothing is known of this draw."""


def ball(x: Number) -> Any:
    """A number as a ball."""
    return arb(fmpq(x.numerator, x.denominator)) if isinstance(x, Fraction) else x


def plus(x: Number, y: Number) -> Number:
    return x + y if isinstance(x, Fraction) and isinstance(y, Fraction) else ball(x) + ball(y)


def times(x: Number, y: Number) -> Number:
    if 0 in [n for n in (x, y) if isinstance(n, Fraction)]:
        return Fraction(0)
    return x * y if isinstance(x, Fraction) and isinstance(y, Fraction) else ball(x) * ball(y)


def inverse(x: Number) -> Number:
    if isinstance(x, Fraction):
        return 1 / x if x else Fraction(0)
    if x.contains(0):
        raise Unclear
    return 1 / x


def power(base: int, exponent: Fraction) -> Number:
    if exponent.denominator == 1:
        return Fraction(base) ** int(exponent)
    return ball(Fraction(base)) ** ball(exponent)


def agree(x: Number, y: Number) -> bool:
    """Whether two numbers are equal; certain if not.

    Raises:
        Unclear: if the balls are too wide to tell.
    """
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return bool(x == y)
    x, y = ball(x), ball(y)
    if not x.overlaps(y):
        return False
    tiny = ball(TINY)
    if not (x.rad() < tiny * (1 + abs(x.mid())) and y.rad() < tiny * (1 + abs(y.mid()))):
        raise Unclear
    return True


@dataclass
class World:
    """Sizes, and values of all that a term may mention; entries are drawn when they are first read."""

    sizes: Mapping[str, int]
    context: Context = field(default_factory=Context)
    seed: int = 0
    drawn: dict[tuple[str, tuple[int, ...]], Number] = field(default_factory=dict)

    def size(self, domain: Domain) -> int:
        found = value(domain.size, self, {})
        assert isinstance(found, Fraction)
        assert found.denominator == 1
        assert found >= 1
        return int(found)

    def entry(self, name: str, at: tuple[int, ...]) -> Number:
        if name in self.context.tables:
            return self.context.tables[name][at]
        if name in self.context.definitions and (name, at) not in self.drawn:
            definition = self.context.definitions[name]
            names = [v.name for v in definition.params]
            self.drawn[name, at] = value(definition.body, self, dict(zip(names, at, strict=True)))
        if (name, at) not in self.drawn:
            rng = random.Random(f"{self.seed}/{name}/{at}")
            number = rng.randint(0, 1) if name in self.context.booleans else rng.choice([-3, -2, -1, 0, 1, 2, 3, 5])
            self.drawn[name, at] = Fraction(number, 1 if name in self.context.booleans else rng.choice([1, 1, 2, 3]))
        return self.drawn[name, at]

    def image(self, name: str, inverse: bool, place: int) -> int:
        """Where a bijection takes a place; drawn so that it is not its own inverse where that can be."""
        count = self.size(self.context.bijections[name])
        order = [*range(1, count), 0]  # a cycle
        rng = random.Random(f"{self.seed}/{name}/{count}")
        names = rng.sample(range(count), count)
        images = {names[n]: names[order[n]] for n in range(count)}
        return {b: a for a, b in images.items()}[place] if inverse else images[place]

    def function(self, name: str, x: Number) -> Number:
        """An opaque function: a cubic that its name chooses, so that different arguments rarely have one value."""
        rng = random.Random(f"{self.seed}/{name}")
        total: Number = Fraction(0)
        for coefficient in [rng.randint(1, 9) for _ in range(4)]:
            total = plus(times(total, x), Fraction(coefficient))
        return total


def place(index: terms.Index, world: World, env: Mapping[str, int]) -> int:
    """The number of a position."""
    match index:
        case Var(name, _):
            return env[name]
        case At(number):
            return number
        case terms.Join(domain, parts):
            return _flat([place(p, world, env) for p in parts], [world.size(d) for d in domain.factors])
        case Part(inner, domain, number):
            return _digits(place(inner, world, env), [world.size(d) for d in domain.factors])[number]
        case Inj(inner, domain, number):
            return sum(world.size(d) for d in domain.blocks[:number]) + place(inner, world, env)
        case Perm(name, inverse, inner):
            return world.image(name, inverse, place(inner, world, env))
    raise TypeError(index)


def _flat(places: list[int], sizes: list[int]) -> int:
    number = 0
    for at, size in zip(places, sizes, strict=True):
        number = number * size + at
    return number


def _digits(number: int, sizes: list[int]) -> list[int]:
    found = []
    for size in reversed(sizes):
        found.append(number % size)
        number //= size
    return found[::-1]


def value(term: terms.Term, world: World, env: Mapping[str, int]) -> Number:
    """The value of a term; ``env`` are the numbers of its free variables.

    Raises:
        Unclear: if balls are too wide to say whether something is zero, or which number is larger.
    """
    ctx.prec = BITS  # others may have changed it
    match term:
        case Num(number):
            return Fraction(number)
        case Size(name, exponent):
            return power(int(name) if name.isdigit() else world.sizes[name], exponent)
        case Entry(name, at):
            return world.entry(name, tuple(place(i, world, env) for i in at))
        case Cmp(op, left, right, offset):
            here, there = place(left, world, env), place(right, world, env) + offset
            return Fraction(int({"le": here <= there, "eq": here == there}[op]))
        case Add(args):
            total: Number = Fraction(0)
            for arg in args:
                total = plus(total, value(arg, world, env))
            return total
        case Mul(args):
            total = Fraction(1)
            for arg in args:
                total = times(total, value(arg, world, env))
            return total
        case Bind(op, var, body):
            rows = [value(body, world, {**env, var.name: n}) for n in range(world.size(var.domain))]
            return _gathered(op, rows)
        case Apply("exp", arg):
            x = value(arg, world, env)
            return Fraction(1) if isinstance(x, Fraction) and x == 0 else ball(x).exp()
        case Apply("inv", arg):
            return inverse(value(arg, world, env))
        case Apply(name, arg):
            return world.function(name, value(arg, world, env))
    raise TypeError(term)


def _gathered(op: str, rows: list[Number]) -> Number:
    assert op in ("sum", "max")
    total = rows[0]
    for row in rows[1:]:
        if op == "sum":
            total = plus(total, row)
        elif isinstance(total, Fraction) and isinstance(row, Fraction):
            total = max(total, row)
        else:
            x, y = ball(total), ball(row)
            if x.overlaps(y) and not agree(x, y):
                raise Unclear
            total = row if y > x else total
    return total
