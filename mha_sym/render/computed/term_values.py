"""Terms of index notation as numbers, at given positions: in fractions, or in floating point.

Defines `Numbers`, which computes terms, `variables` of positions, and the two kinds of numbers it computes in:
`Fractions`, in which a power of two stands for the exponential, and `Floats`.  It shares nothing with the prover but
the terms themselves: positions, sums and definitions are read here anew.  Where the arrays come from is decided in
`mha_sym.render.computed.samples`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from flint import fmpq

from mha_sym.errors import NotExact
from mha_sym.proof.rules import Context, Definition
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Term,
    Var,
)

#: an array of numbers, or one number
Values = Any
#: positions, one for each place that is looked at
Places = Mapping[str, Any]

#: more bits than this are not written out
BITS = 1 << 14


class Kind(Protocol):
    """Numbers to compute in; ``exp``, ``inverse`` and ``function`` take arrays of them."""

    def number(self, value: Fraction) -> Values:
        """A fraction."""

    def root(self, base: int, power: Fraction) -> Values:
        """A rational power of a positive integer."""

    @property
    def exponentials(self) -> Callable[[Values], Values]:
        """The exponential of every entry."""

    @property
    def inverses(self) -> Callable[[Values], Values]:
        """One over every entry, and 0 for 0."""


class Floats:
    """Ordinary floating point."""

    def number(self, value: Fraction) -> float:
        """The nearest number."""
        return float(value)

    def root(self, base: int, power: Fraction) -> float:
        """A rational power of a positive integer."""
        return math.pow(base, power)

    def exponentials(self, x: Values) -> Values:
        """``e^x``."""
        return np.exp(x)

    def inverses(self, x: Values) -> Values:
        """``1/x``, and 0 for 0."""
        x = np.asarray(x, float)
        return np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)


class Fractions:
    """Fractions, with ``2^(n x)`` in place of ``e^x``: positive, and exp(a + b) = exp(a) exp(b) holds exactly.

    No law of a derivation knows more of the exponential.  Whole numbers stay integers until they are divided.

    Args:
        count: the n; it makes an integer of every exponent, or there is no value.

    Example:
        >>> numbers = Fractions(2)
        >>> numbers.exp(fmpq(3, 2)), numbers.inverse(0), numbers.root(9, Fraction(-1, 2))
        (8, 0, 1/3)
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        #: what the denominators of exponents divide, as far as they were met
        self.needed = count
        self.exponentials, self.inverses = np.frompyfunc(self.exp, 1, 1), np.frompyfunc(self.inverse, 1, 1)

    def number(self, value: Fraction) -> int | fmpq:
        """A fraction."""
        return value.numerator if value.denominator == 1 else fmpq(value.numerator, value.denominator)

    def root(self, base: int, power: Fraction) -> int | fmpq:
        """A rational power of a positive integer, where that is a fraction."""
        root = round(base ** (1 / power.denominator))
        if root**power.denominator != base:
            raise NotExact("a root does not come out even", got=f"{base}^({power})")
        return root**power.numerator if power > 0 else fmpq(1, root**-power.numerator)

    def exp(self, x: int | fmpq) -> fmpq:
        """``2^(n x)``."""
        exponent = fmpq(x) * self.count
        if exponent.q != 1:
            self.needed = math.lcm(self.needed, int(fmpq(x).q))
            raise NotExact("a power of two is not a fraction", got=f"exponent {exponent}")
        if abs(exponent.p) > BITS:
            raise NotExact("too large to be written out", got=f"2^{exponent}")
        return fmpq(2) ** int(exponent.p)

    def inverse(self, x: int | fmpq) -> int | fmpq:
        """``1/x``, and 0 for 0."""
        return 1 / fmpq(x) if x else x


def opaque(name: str, x: Values, kind: Kind) -> Values:
    """Some function for one of which nothing but its name is known: ``(x + c) / (1 + x^2)``, with a c of its own."""
    return (x + crc32(name.encode()) % 97) * kind.inverses(1 + x * x)


@dataclass
class Numbers:
    """Computes terms at some places.

    Attributes:
        kind: the numbers to compute in.
        context: definitions and constants that the terms rest on.
        sizes: a number for every size.
        arrays: what is given, by name.
        orders: for each permutation, where it takes 0, 1, ...

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.proof.meaning import domain
        >>> t = Var("t", domain(axis("t", "T")))
        >>> found = Numbers(Floats(), Context(), {"T": 3}, {"x": np.array([1.0, 2.0, 4.0])})
        >>> found.at(Mul((Bind("sum", t, Entry("x", (t,))), Entry("x", (t,)))), {"t": np.array([0, 2])})
        array([ 7., 28.])
    """

    kind: Kind
    context: Context
    sizes: Mapping[str, int]
    arrays: Mapping[str, Values]
    orders: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tables: dict[tuple[str, tuple[int | None, ...]], Values] = {}
        self._orders = {(name, False): np.array(order) for name, order in self.orders.items()}
        self._orders |= {(name, True): np.argsort(order) for (name, _), order in self._orders.items()}
        self._sizes: dict[Domain, int] = {}
        self._ranges: dict[tuple[int, int], Any] = {}

    def at(self, term: Term, places: Places, depth: int = 1) -> Values:
        """The term where its free variables have these positions: integers, or arrays of at most ``depth`` axes.

        Raises:
            NotExact: for what the numbers do not have.
        """
        match term:  # what occurs most stands first
            case Entry(name, at):
                return self.entry(name, [self.index(one, places) for one in at])
            case Mul(args):
                return _joined(np.multiply, [self.at(one, places, depth) for one in args])
            case Bind():
                return self._bind(term, places, depth)
            case Add(args):
                return _joined(np.add, [self.at(one, places, depth) for one in args])
            case Apply(name, arg):
                return self._apply(name, self.at(arg, places, depth))
            case Size(name, power):
                return self.kind.root(int(name) if name.isdigit() else self.sizes[name], power)
            case Num(value):
                return self.kind.number(value)
            case Cmp(op, left, right, offset):
                here, there = self.index(left, places), self.index(right, places) + offset
                return np.where(here <= there if op == "le" else here == there, *map(self.kind.number, _TRUTH))

    def _bind(self, term: Bind, places: Places, depth: int) -> Values:
        """Along a new first axis, so that what does not depend on the position has fewer axes."""
        size = self.size(term.var.domain)
        body = self.at(term.body, {**places, term.var.name: self.every(size, depth)}, depth + 1)
        if _axes(body) <= depth:
            return body if term.op == "max" else body * self.kind.number(Fraction(size))
        return (np.maximum if term.op == "max" else np.add).reduce(body, axis=0)

    def _apply(self, name: str, value: Values) -> Values:
        if name == "exp":
            return self.kind.exponentials(value)
        if name == "inv":
            return self.kind.inverses(value)
        if name.startswith("fn:"):
            return opaque(name.removeprefix("fn:"), value, self.kind)
        raise NotExact(f"no numbers are known for {name!r}")

    # ------------------------------------------------------------ entries and positions

    def entry(self, name: str, at: Sequence[Any]) -> Values:
        """Entries of a tensor, given, constant or defined; a defined one is computed at its fixed positions only."""
        definition = self.context.definitions.get(name)
        if definition is None:
            return self._given(name)[tuple(at)]
        fixed = tuple([one if isinstance(one, int) else None for one in at])
        found = self._tables.get((name, fixed))
        if found is None:
            found = self._tables[name, fixed] = self._part(definition, fixed)
        return found[tuple([one for one in at if not isinstance(one, int)])]

    def _given(self, name: str) -> Values:
        if name not in self.context.tables:
            return self.arrays[name]
        if (name, ()) not in self._tables:
            self._tables[name, ()] = self._constants(name)
        return self._tables[name, ()]

    def _part(self, definition: Definition, fixed: Sequence[int | None]) -> Values:
        """All entries of a defined tensor at some fixed positions."""
        places: dict[str, Any] = {one.name: at for one, at in zip(definition.params, fixed, strict=True)}
        others = [one for one in definition.params if places[one.name] is None]
        shape = tuple([self.size(one.domain) for one in others])
        places |= {one.name: self.every(shape[n], len(shape) - n - 1) for n, one in enumerate(others)}
        body = self.at(definition.body, places, len(shape))
        if np.shape(body) == shape:
            return np.asarray(body)
        return np.broadcast_to(body, shape)

    def _constants(self, name: str) -> Values:
        cells = self.context.tables[name]
        array = np.empty([1 + max(one) for one in zip(*cells, strict=True)], object)
        for place, value in cells.items():
            array[place] = self.kind.number(value)
        return array if isinstance(self.kind, Fractions) else array.astype(float)

    def index(self, index: Index, places: Places) -> Any:
        """A position as a number, for every place."""
        match index:
            case Var(name, _):
                return places[name]
            case At(number):
                return number
            case Join(domain, parts):
                number = 0
                for one, factor in zip(parts, domain.factors, strict=True):
                    number = number * self.size(factor) + self.index(one, places)
                return number
            case Part(inner, domain, number):
                sizes = [self.size(one) for one in domain.factors]
                return self.index(inner, places) // math.prod(sizes[number + 1 :]) % sizes[number]
            case Inj(inner, domain, number):
                return sum(map(self.size, domain.blocks[:number])) + self.index(inner, places)
            case Perm(name, inverse, inner):
                found = self._orders[name, inverse][self.index(inner, places)]
                return int(found) if found.ndim == 0 else found

    def every(self, size: int, after: int) -> Any:
        """All positions along one axis, with so many axes after it."""
        if (size, after) not in self._ranges:
            self._ranges[size, after] = np.arange(size).reshape((size,) + (1,) * after)
        return self._ranges[size, after]

    def size(self, domain: Domain) -> int:
        """How many positions there are."""
        if domain not in self._sizes:
            self._sizes[domain] = _size(domain.size, self.sizes)
        return self._sizes[domain]


def variables(index: Index) -> list[Var]:
    """The variables in a position, from left to right."""
    match index:
        case Var():
            return [index]
        case Join(_, parts):
            return [var for one in parts for var in variables(one)]
        case Part(inner, _, _) | Inj(inner, _, _) | Perm(_, _, inner):
            return variables(inner)
        case At():
            return []


_TRUTH = (Fraction(1), Fraction(0))


def _size(term: Term, sizes: Mapping[str, int]) -> int:
    found: int
    match term:
        case Num(value):
            return int(value)
        case Size(name, power) if power > 0 and power.denominator == 1:
            found = (int(name) if name.isdigit() else sizes[name]) ** int(power)
            return found
        case Add(args):
            return sum(_size(one, sizes) for one in args)
        case Mul(args):
            return math.prod(_size(one, sizes) for one in args)
    raise NotExact(f"{term} is no number of positions")


def _joined(join: Any, values: Sequence[Values]) -> Values:
    """Small arrays first: what depends on less is joined before it is spread out."""
    if len(values) == 2:
        return join(*values)
    found, *others = sorted(values, key=_axes)
    for one in others:
        found = join(found, one)
    return found


def _axes(value: Values) -> int:
    """How many axes a value has; a number has none."""
    return value.ndim if isinstance(value, np.ndarray) else 0
