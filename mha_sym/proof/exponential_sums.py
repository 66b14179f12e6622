"""Arrays of exponential sums modulo two primes: ``sum_k c_k exp(e_k) / (D_k1 D_k2 ...)`` at every entry.

Defines `Sums`, such an array, and `Arithmetic`, their sums, products and exponentials at one random point.
Exponents are known by their residues, so that ``exp(a) exp(b) = exp(a + b)``.  Inverses and the comparison of
arrays are in `mha_sym.proof.denominators`.  Nothing of the prover is used here, and no expression is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import log2, prod

import numpy as np
import sympy
from numpy.typing import NDArray

Array = NDArray[np.int64]
Pair = tuple[int, int]

LARGEST = 1 << 22  # entries of an array
ONE_BY_ONE = 1 << 14  # entries that are worked on one by one
_SMALL = np.array(list(sympy.primerange(200)), np.int64)
_LAST = np.iinfo(np.int64).max
_ODD = np.int64(0x5851F42D4C957F2D)


class Beyond(Exception):
    """Something that this arithmetic does not say."""


class Unlucky(Exception):
    """A number is zero modulo one of the primes only: draw again."""


def one_by_one(count: int) -> int:
    """The number of entries to be worked on one by one.

    Raises:
        Beyond: if that takes too long.
    """
    if count > ONE_BY_ONE:
        raise Beyond("too many entries")
    return count


@dataclass(frozen=True)
class Sums:
    """An array of exponential sums.

    Attributes:
        c: the coefficients, shape ``(2, *shape, terms)``: residues modulo the two primes.
        e: the exponents, of the same shape; None if all are 0, and then there is one term.
        d: below the fraction, shape ``(1, *shape, terms, most)``: numbers of symbols D, negative above it, 0 for none.
        height: at most the degree of numerators and denominators, coefficients and exponents, in what was drawn, and
            at most the bits of the integers in them.
        below: whether something that was drawn stands below a fraction.
    """

    c: Array
    e: Array | None = None
    d: Array | None = None
    height: float = 0
    below: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of entries along each axis."""
        return tuple(self.c.shape[1:-1])

    def each(self, do: Callable[[Array], Array]) -> Sums:
        """The same rearrangement of the entries of all arrays; entries are the axes from the second on."""
        parts = [None if one is None else do(one) for one in (self.c, self.e, self.d)]
        assert parts[0] is not None
        return Sums(parts[0], parts[1], parts[2], self.height, self.below)

    def reshaped(self, shape: Sequence[int]) -> Sums:
        """The entries in row-major order in another shape."""
        inner = len(self.shape) + 1
        return self.each(lambda x: x.reshape((x.shape[0], *shape, *x.shape[inner:])))

    def moved(self, order: Sequence[int]) -> Sums:
        """The axes of the entries in another order."""
        inner = len(order) + 1
        return self.each(lambda x: x.transpose((0, *(n + 1 for n in order), *range(inner, x.ndim))))

    def widened(self, shape: Sequence[int]) -> Sums:
        """Axes of size one repeated."""
        inner = len(self.shape) + 1
        if prod(shape) > LARGEST:
            raise Beyond("too many entries")
        return self.each(lambda x: np.broadcast_to(x, (x.shape[0], *shape, *x.shape[inner:])))


def spacing(radicands: Iterable[int]) -> int:
    """What `find_primes` divides by, so that numbers made of some primes have roots."""
    return 8 * prod({n for n in radicands if n > 2})


def find_primes(rng: np.random.Generator, radicands: Iterable[int]) -> Pair:
    """Two random primes ``2 q + 1`` and ``q`` above ``2**29``, modulo which given primes are squares.

    Both are -1 modulo 8 and modulo the given primes, so that these are squares by reciprocity.

    Raises:
        Beyond: if there are too many of those.
    """
    step = spacing(radicands)
    while step < 1 << 24:
        drawn = (rng.integers(1 << 29, (1 << 30) - step, 256) // step + 1) * step - 1
        divisible = (drawn[:, None] % _SMALL == 0) | ((2 * drawn[:, None] + 1) % _SMALL == 0)
        for q in map(int, drawn[~divisible.any(axis=1)]):
            if sympy.isprime(q) and sympy.isprime(2 * q + 1):
                return 2 * q + 1, q
    raise Beyond("roots of large numbers")


@dataclass
class Arithmetic:
    """Arithmetic of `Sums`; remembers the random values that stand for opaque ones.

    Attributes:
        primes: what `find_primes` found.
        rng: where random values come from.
        loose: whether a value was taken for an opaque one, so that a difference says nothing.
        terms: the most terms that an entry had.
        marks: a random number for each symbol D, by which terms are told apart; the first is for none.
    """

    primes: Pair
    rng: np.random.Generator
    loose: bool = False
    terms: int = 1
    marks: Array = field(default_factory=lambda: np.zeros(1, np.int64))
    _opaque: dict[tuple[object, ...], Pair] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._both = np.array(self.primes, np.int64)

    # ------------------------------------------------------------ numbers

    def modulus(self, like: Array) -> Array:
        """The primes, to be broadcast along the first axis of an array."""
        return self._both.reshape((2,) + (1,) * (like.ndim - 1))

    def constant(self, value: sympy.Rational | int) -> Pair:
        """A rational number."""
        exact = sympy.Rational(value)
        first, second = (int(exact.p) * pow(int(exact.q), -1, p) % p for p in self.primes)
        return first, second

    def root(self, base: int, power: sympy.Rational) -> Pair:
        """A rational power of a positive integer, so that powers of a product are products of powers."""
        first, second = (self._root(base, power, p) for p in self.primes)
        return first, second

    def _root(self, base: int, power: sympy.Rational, p: int) -> int:
        half = (p - 1) // 2  # odd, and the order of the squares: among them every root is unique
        step = int(power.p) * pow(int(power.q), -1, half) % half
        return int(prod((pow(int(q), step * times, p) for q, times in sympy.factorint(base).items()), start=1) % p)

    def scalars(self, values: np.ndarray[tuple[int, ...], np.dtype[np.object_]], height: float = 0) -> Sums:
        """An array of pairs of residues."""
        c = np.empty((2, *values.shape, 1), np.int64)
        for place in np.ndindex(*values.shape):
            c[(slice(None), *place, 0)] = values[place]
        return Sums(c, height=height)

    def integers(self, values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Sums:
        """An array of small integers."""
        c = np.broadcast_to(np.asarray(values, np.int64), (2, *values.shape))[..., None]
        return Sums(c % self.modulus(c))

    def drawn(self, shape: tuple[int, ...]) -> Sums:
        """An array of random residues."""
        return Sums(np.stack([self.rng.integers(0, p, (*shape, 1)) for p in self.primes]), height=1)

    def opaque(self, *keys: object) -> Pair:
        """A random value that is the same for the same keys."""
        if keys not in self._opaque:
            first, second = (int(self.rng.integers(1, p)) for p in self.primes)
            self._opaque[keys] = first, second
        return self._opaque[keys]

    # ------------------------------------------------------------ sums and products

    def add(self, x: Sums, y: Sums) -> Sums:
        """Entry by entry; the shapes are alike up to axes of size one."""
        height = 1 + (x.height + y.height if x.below or y.below else max(x.height, y.height))
        if x.e is None and y.e is None:
            c = x.c + y.c
            return Sums(c % self.modulus(c), height=height, below=x.below or y.below)
        shape = np.broadcast_shapes(x.shape, y.shape)
        x, y = _with_exponents(x.widened(shape)), _with_exponents(y.widened(shape))
        assert x.e is not None
        assert y.e is not None
        c, e = np.concatenate([x.c, y.c], -1), np.concatenate([x.e, y.e], -1)
        d = None
        if x.d is not None or y.d is not None:
            most = max(x.d.shape[-1] if x.d is not None else 0, y.d.shape[-1] if y.d is not None else 0)
            d = np.concatenate([_padded(x, most), _padded(y, most)], -2)
        return self.merged(Sums(c, e, d, height, x.below or y.below))

    def neg(self, x: Sums) -> Sums:
        """The negatives."""
        return Sums(-x.c % self.modulus(x.c), x.e, x.d, x.height, x.below)

    def mul(self, x: Sums, y: Sums) -> Sums:
        """Entry by entry; the shapes are alike up to axes of size one."""
        height, below = x.height + y.height, x.below or y.below
        shape = np.broadcast_shapes(x.shape, y.shape)
        terms = x.c.shape[-1] * y.c.shape[-1]
        if prod(shape) * terms > LARGEST:
            raise Beyond("too many entries")
        if x.e is None and y.e is None:
            c = x.c * y.c
            return Sums(c % self.modulus(c), height=height, below=below)
        x, y = _with_exponents(x), _with_exponents(y)
        assert x.e is not None
        assert y.e is not None
        c = (x.c[..., :, None] * y.c[..., None, :]).reshape((2, *shape, terms))
        e = (x.e[..., :, None] + y.e[..., None, :]).reshape((2, *shape, terms))
        d = None
        if x.d is not None or y.d is not None:
            one, two = _padded(x, 0)[..., :, None, :], _padded(y, 0)[..., None, :, :]
            whole = np.broadcast_shapes(one.shape[:-1], two.shape[:-1])
            both = [np.broadcast_to(part, (*whole, part.shape[-1])) for part in (one, two)]
            d = np.concatenate(both, -1).reshape((1, *shape, terms, -1))
        found = Sums(c % self.modulus(c), e % self.modulus(e), d, height, below)
        return self.merged(found) if min(x.c.shape[-1], y.c.shape[-1]) > 1 else found

    def total(self, x: Sums, axes: tuple[int, ...]) -> Sums:
        """The sum over some axes of the entries."""
        if not axes:
            return x
        count = prod(x.shape[n] for n in axes)
        height = x.height * count if x.below else x.height + log2(count)
        if x.e is None:
            c = x.c.sum(axis=tuple(n + 1 for n in axes))
            return Sums(c % self.modulus(c), height=height, below=x.below)
        kept = [n for n in range(len(x.shape)) if n not in axes]
        shape, inner = tuple(x.shape[n] for n in kept), x.c.ndim - 1
        x = x.moved((*kept, *axes))
        flat = x.each(lambda a: a.reshape((a.shape[0], *shape, count * a.shape[inner], *a.shape[inner + 1 :])))
        return self.merged(Sums(flat.c, flat.e, flat.d, height, x.below))

    def merged(self, x: Sums) -> Sums:
        """With the terms of one exponent and denominator together, and those that are zero left out."""
        if x.e is None:
            return x
        shape, terms = x.shape, x.c.shape[-1]
        rows = prod(shape)
        c, e = x.c.reshape(2, rows * terms), x.e.reshape(2, rows * terms)
        keys = self._keys(e, None if x.d is None else x.d.reshape(rows * terms, -1))
        keys = np.where(c.any(0), keys, _LAST).reshape(rows, terms)
        order = (np.argsort(keys, 1, kind="stable") + np.arange(rows)[:, None] * terms).ravel()
        keys = keys.ravel()[order]
        new = np.ones(rows * terms, bool)
        new[1:] = keys[1:] != keys[:-1]
        new[::terms] = True
        starts = np.flatnonzero(new)
        c = np.add.reduceat(c[:, order], starts, 1)
        c %= self.modulus(c)
        kept = c.any(0) & (keys[starts] != _LAST)
        where, row = order[starts][kept], (starts // terms)[kept]
        counts = np.bincount(row, minlength=rows)
        most = max(1, int(counts.max(initial=0)))
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        made_c, made_e = np.zeros((2, rows, most), np.int64), np.zeros((2, rows, most), np.int64)
        made_c[:, row, place], made_e[:, row, place] = c[:, kept], e[:, where]
        made_d = None
        if x.d is not None and x.d.any():
            made_d = np.zeros((1, rows, most, x.d.shape[-1]), np.int64)
            made_d[:, row, place] = x.d.reshape(rows * terms, -1)[where]
        self.terms = max(self.terms, most)
        if made_d is None and not made_e.any():
            return Sums(made_c.reshape((2, *shape, most)), None, None, x.height, x.below)
        return Sums(made_c, made_e, made_d, x.height, x.below).reshaped(shape)

    def _keys(self, e: Array, d: Array | None) -> Array:
        """One number for each exponent and denominator, 0 for none."""
        keys: Array = (e[0] + (e[1] << 31)) * _ODD
        return keys if d is None else np.asarray(keys + (np.sign(d) * self.marks[np.abs(d)]).sum(-1))

    # ------------------------------------------------------------ exponentials

    def exp(self, x: Sums) -> Sums:
        """``e^x``, of an exponential sum by a linear fingerprint of it."""
        plain = self.plain(x)
        one = np.ones_like(plain.c)
        return Sums(one, plain.c, None, x.height, x.below)

    def plain(self, x: Sums) -> Sums:
        """The values, exponential sums by a fingerprint: every exponential stands for a random number.

        What stands below a fraction can be written in several ways, so there a difference says nothing.
        """
        x = self.merged(x)
        if x.e is None:
            return x
        self.loose = self.loose or x.d is not None
        shape, terms = x.shape, x.c.shape[-1]
        keys = self._keys(x.e.reshape(2, -1), None if x.d is None else x.d.reshape(prod(shape) * terms, -1))
        found, where = np.unique(keys, return_inverse=True)
        one_by_one(len(found))
        values = np.array([(1, 1) if key == 0 else self.opaque("exponential", key) for key in found.tolist()], np.int64)
        c = x.c * values[where].T.reshape((2, *shape, terms)) % self.modulus(x.c)
        c = c.sum(-1, keepdims=True)
        return Sums(c % self.modulus(c), None, None, x.height, x.below)

    def largest(self, x: Sums, axis: int) -> Sums:
        """The maximum over one axis as an opaque value of the entries, whatever their order."""
        self.loose = True
        flat = np.moveaxis(self._packed(x), axis, -1)
        values = np.empty(flat.shape[:-1], object)
        one_by_one(values.size)
        for place in np.ndindex(*values.shape):
            values[place] = self.opaque("max", *sorted(flat[place].tolist()))
        return Sums(self.scalars(values).c, None, None, 1, False)

    def function(self, name: str, args: Sequence[Sums]) -> Sums:
        """An opaque function of some arguments, entry by entry."""
        flat = np.broadcast_arrays(*map(self._packed, args))
        values = np.empty(flat[0].shape, object)
        one_by_one(values.size)
        for place in np.ndindex(*values.shape):
            values[place] = self.opaque("function", name, *(int(one[place]) for one in flat))
        return Sums(self.scalars(values).c, None, None, max(one.height for one in args) + 1, False)

    def _packed(self, x: Sums) -> Array:
        c = self.plain(x).c[..., 0]
        return np.asarray(c[0] + (c[1] << 31))


def _with_exponents(x: Sums) -> Sums:
    return x if x.e is not None else Sums(x.c, np.zeros_like(x.c), x.d, x.height, x.below)


def _padded(x: Sums, most: int) -> Array:
    """What stands below the fractions, at least so many places wide."""
    if x.d is None:
        return np.zeros((1, *x.c.shape[1:], most), np.int64)
    wide = [(0, 0)] * (x.d.ndim - 1) + [(0, max(0, most - x.d.shape[-1]))]
    return np.pad(x.d, wide)
