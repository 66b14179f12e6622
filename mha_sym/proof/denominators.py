"""Inverses of exponential sums, and when two arrays of them are equal.

Defines `Field`, which adds both to `Arithmetic`.  A sum of several exponentials below a fraction becomes a symbol
D, known by what it is made of up to a factor ``c exp(a)``.  Where two arrays differ as they are written, the
symbols are multiplied out; that they differ is also seen from their images in one finite field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from mha_sym.proof.exponential_sums import Arithmetic, Array, Beyond, Pair, Sums, Unlucky, one_by_one

Below = tuple[int, ...]
Terms = dict[Pair, Pair]  # coefficients by exponent
Fractions = dict[tuple[Pair, Below], Pair]  # coefficients by exponent and the symbols below the fraction

WORK = 1 << 16  # products of terms when denominators are multiplied out


@dataclass
class Field(Arithmetic):
    """Arithmetic of exponential sums with division and equality.

    Attributes:
        work: how many products it took to multiply denominators out.
        added: the most that this added to a height.
    """

    work: int = 0
    added: float = 0
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _made_of: list[tuple[Array, Array]] = field(default_factory=list)  # exponents and coefficients, (2, terms)
    _heights: list[float] = field(default_factory=list)
    _generator: int = 0

    # ------------------------------------------------------------ inverses

    def inverse(self, x: Sums) -> Sums:
        """``1/x``, and 0 for 0."""
        x = self.merged(x)
        below = x.below or (x.e is None and x.height > 0)
        if x.c.shape[-1] == 1:
            e = None if x.e is None else -x.e % self.modulus(x.e)
            return Sums(self._inverses(x.c), e, None if x.d is None else -x.d, x.height, below)
        shape, height = x.shape, (x.height + 1) * x.c.shape[-1]
        flat = x.reshaped((prod(shape),))
        common: list[Below] | None = None
        if flat.d is not None:
            flat, common = self._over_one_each(flat)
        symbols, e, c = self._alike(flat)
        self._heights += [height] * (len(self._numbers) - len(self._heights))
        d = symbols[None, :, None, None]
        if common is not None:
            most = max(map(len, common))
            above = np.array([[*(-n for n in one), *(0 for _ in range(most - len(one)))] for one in common], np.int64)
            d = np.concatenate([d, above.reshape((1, len(common), 1, most))], -1)
        made = Sums(self._inverses(c)[..., None], (-e % self.modulus(e))[..., None], d, height, below)
        return made.reshaped(shape)

    def _inverses(self, c: Array) -> Array:
        if (c <= 1).all():
            if (c[0] != c[1]).any():
                raise Unlucky
            return c
        if (c.any(0) != c.all(0)).any():
            raise Unlucky
        result, power = np.ones_like(c), c
        exponent = self.modulus(c) - 2
        for bit in range(int(max(self.primes)).bit_length()):
            result = np.where((exponent >> bit) & 1, result * power % self.modulus(c), result)
            power = power * power % self.modulus(c)
        return np.where(c.any(0), result, 0)

    def _alike(self, flat: Sums) -> tuple[Array, Array, Array]:
        """Rows as ``c exp(e) D``: the number of D (0 for 1), e and c; D is one for all sums alike up to a factor."""
        assert flat.e is not None
        there = flat.c.any(0)
        counts = there.sum(-1)
        table = np.array([[pow(n, -1, p) for n in range(1, flat.c.shape[-1] + 1)] for p in self.primes], np.int64)
        inverses = table[:, np.maximum(counts, 1) - 1]
        mean = np.where(there, flat.e, 0).sum(-1) % self.modulus(inverses) * inverses % self.modulus(inverses)
        e = np.where(there, (flat.e - mean[..., None]) % self.modulus(flat.e), -1)
        order = np.argsort(np.where(there, e[0] + (e[1] << 31), np.iinfo(np.int64).max), -1)[None]
        e, c = np.take_along_axis(e, order, -1), np.take_along_axis(flat.c, order, -1)
        lead = c[..., 0]
        c = c * self._inverses(lead)[..., None] % self.modulus(c)
        rows = np.ascontiguousarray(np.concatenate([e, c]).transpose(1, 0, 2))
        symbols = [
            self._symbol(rows[n, :, :count]) if count > 1 else 0 for n, count in enumerate(counts.tolist())
        ]
        return np.array(symbols, np.int64), mean, lead

    def _symbol(self, made_of: Array) -> int:
        key = made_of.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self._made_of.append((made_of[:2], made_of[2:]))
            if len(self._numbers) >= len(self.marks):
                limits = np.iinfo(np.int64)
                more = self.rng.integers(limits.min, limits.max, len(self.marks) + 64, np.int64)
                self.marks = np.concatenate([self.marks, more])
        return self._numbers[key]

    def _over_one_each(self, flat: Sums) -> tuple[Sums, list[Below]]:
        """Every row over one denominator: the numerators, and the symbols below."""
        rows = [self.over_one(self.entry(flat, n)) for n in range(one_by_one(flat.shape[0]))]
        most = max([1, *(len(numerator) for numerator, _ in rows)])
        e, c = np.zeros((2, len(rows), most), np.int64), np.zeros((2, len(rows), most), np.int64)
        for n, (numerator, _) in enumerate(rows):
            if numerator:
                e[:, n, : len(numerator)] = np.array(list(numerator)).T
                c[:, n, : len(numerator)] = np.array(list(numerator.values())).T
        return Sums(c, e), [common for _, common in rows]

    def plain(self, x: Sums) -> Sums:
        """As in `Arithmetic`, after what stands above and below the fractions was cancelled."""
        x = self.merged(x)
        return super().plain(x if x.d is None else self._simplified(x))

    def _simplified(self, x: Sums) -> Sums:
        flat = x.reshaped((prod(x.shape),))
        rows = [self._cancelled(self.entry(flat, n)) for n in range(one_by_one(flat.shape[0]))]
        most = max([1, *map(len, rows)])
        wide = max([1, *(len(below) for row in rows for _, below in row)])
        c, e = np.zeros((2, len(rows), most), np.int64), np.zeros((2, len(rows), most), np.int64)
        d = np.zeros((1, len(rows), most, wide), np.int64)
        for n, row in enumerate(rows):
            for k, ((exponent, below), coefficient) in enumerate(row.items()):
                c[:, n, k], e[:, n, k], d[0, n, k, : len(below)] = coefficient, exponent, below
        return Sums(c, e, d, x.height, x.below).reshaped(x.shape)

    # ------------------------------------------------------------ one entry at a time

    def entry(self, flat: Sums, n: int) -> Fractions:
        """One entry of an array with one axis, term by term."""
        found: Fractions = {}
        for k in np.flatnonzero(flat.c[:, n].any(0)).tolist():
            e = (0, 0) if flat.e is None else _pair(flat.e[:, n, k])
            found[e, _reduced(() if flat.d is None else flat.d[0, n, k].tolist())] = _pair(flat.c[:, n, k])
        return found

    def over_one(self, terms: Fractions) -> tuple[Terms, Below]:
        """An entry over one denominator: the numerator, and the symbols below it.

        Raises:
            Beyond: if that takes too many products.
        """
        terms = self._cancelled(terms)
        counts = {below: _counted(below) for _, below in terms}
        common: dict[int, int] = {}
        for symbol in {n for one in counts.values() for n in one}:
            common[symbol] = max(one.get(symbol, 0) for one in counts.values())
        result: Terms = {}
        self.added = max(self.added, self._added(common, counts.values()))
        for (e, below), c in terms.items():
            rows = {e: c}
            for symbol, most in common.items():
                for _ in range(most - counts[below].get(symbol, 0)):
                    rows = self._times(rows, self._terms_of(symbol))
            for exponent, number in rows.items():
                self._put(result, exponent, number)
        self.terms = max(self.terms, len(result))
        return result, _reduced([n if most > 0 else -n for n, most in common.items() for _ in range(abs(most))])

    def _added(self, common: dict[int, int], counts: Iterable[dict[int, int]]) -> float:
        missing = {n: most - min(one.get(n, 0) for one in counts) for n, most in common.items()}
        return sum(times * self._heights[n - 1] for n, times in missing.items())

    @property
    def symbols(self) -> int:
        """How many symbols there are."""
        return len(self._numbers)

    def _terms_of(self, symbol: int) -> Terms:
        e, c = self._made_of[symbol - 1]
        return {(a, b): (x, y) for a, b, x, y in zip(*e.tolist(), *c.tolist(), strict=True)}

    def _cancelled(self, terms: Fractions) -> Fractions:
        """The same with ``c exp(e) D / D`` read as ``c exp(e)``, so that less has to be multiplied out."""
        groups: dict[Below, Terms] = {}
        for (e, below), c in terms.items():
            groups.setdefault(below, {})[e] = c
        waiting = sorted(groups, key=len)
        while waiting:
            below = waiting.pop()
            for symbol in {n for n in below if n > 0}:
                quotient = self._quotient(groups[below], symbol)
                if quotient is not None:
                    rest = list(below)
                    rest.remove(symbol)
                    del groups[below]
                    self._put(groups.setdefault(tuple(rest), {}), *quotient)
                    waiting = sorted({*waiting, tuple(rest)}, key=len)
                    break
        return {(e, below): c for below, rows in groups.items() for e, c in rows.items()}

    def _quotient(self, rows: Terms, symbol: int) -> tuple[Pair, Pair] | None:
        """The exponent and the coefficient of ``c exp(e)``, if rows are that times a symbol."""
        made_of, (first, second) = self._made_of[symbol - 1], self.primes
        if made_of[0].shape[-1] != len(rows):
            return None
        inverse = [pow(len(rows), -1, p) for p in self.primes]
        mean = tuple(sum(e[n] for e in rows) * inverse[n] % p for n, p in enumerate(self.primes))
        shifted = sorted(((e[0] - mean[0]) % first + ((e[1] - mean[1]) % second << 31), c) for e, c in rows.items())
        lead = shifted[0][1]
        exponents, coefficients = made_of
        if [e for e, _ in shifted] != (exponents[0] + (exponents[1] << 31)).tolist():
            return None
        wanted = zip(*coefficients.tolist(), strict=True)
        for (_, c), (a, b) in zip(shifted, wanted, strict=True):
            if (a * lead[0] - c[0]) % first or (b * lead[1] - c[1]) % second:
                return None
        return _pair(mean), lead

    def _times(self, left: Terms, right: Terms) -> Terms:
        self.work += len(left) * len(right)
        if self.work > WORK:
            raise Beyond("too many products of denominators")
        found: Terms = {}
        first, second = self.primes
        for e, c in left.items():
            for other, number in right.items():
                where = ((e[0] + other[0]) % first, (e[1] + other[1]) % second)
                self._put(found, where, (c[0] * number[0] % first, c[1] * number[1] % second))
        return found

    def _put(self, into: Terms, e: Pair, c: Pair) -> None:
        before = into.get(e, (0, 0))
        after = (before[0] + c[0]) % self.primes[0], (before[1] + c[1]) % self.primes[1]
        if after == (0, 0):
            into.pop(e, None)
        else:
            into[e] = after

    # ------------------------------------------------------------ equality

    def differing(self, x: Sums, y: Sums) -> tuple[int, ...] | None:
        """A place where two arrays of one shape differ, or None.

        Raises:
            Beyond: if multiplying out the denominators takes too long.
        """
        difference = self.merged(self.add(x, self.neg(y)))
        shape = difference.shape
        flat = difference.reshaped((prod(shape),))
        open_ = np.flatnonzero(flat.c.any((0, 2)))
        if not len(open_):
            return None
        certain = np.flatnonzero(self._images(flat.each(lambda a: a[:, open_])))
        for n in open_[certain[:1]].tolist() or open_.tolist():
            if len(certain) or self.over_one(self.entry(flat, n))[0]:
                return tuple(int(i) for i in np.unravel_index(n, shape))
        return None

    def _images(self, flat: Sums) -> Array:
        """The entries with ``exp(a)`` read as ``g^a`` modulo the larger prime, where a counts modulo the smaller.

        That respects sums and products, so what is equal has one image; the converse is not relied on.
        """
        p = self.primes[0]
        if flat.e is None:
            return np.asarray(flat.c.any((0, 2)), np.int64)
        values = flat.c[0] * self._powers(flat.e[1]) % p
        if flat.d is not None:
            above = self._symbols_images()
            if 0 in above:
                raise Unlucky
            # the symbol n is found at the place n from the left below a fraction, from the right above one
            factors = np.array([1, *(pow(n, -1, p) for n in above), *above[::-1]], np.int64)
            for n in range(flat.d.shape[-1]):
                values = values * factors[flat.d[0, ..., n]] % p
        return np.asarray(values.sum(-1) % p, np.int64)

    def _symbols_images(self) -> list[int]:
        """The images of all symbols, worked out together."""
        p, ends = self.primes[0], np.cumsum([e.shape[-1] for e, _ in self._made_of])
        e, c = (np.concatenate([one[n] for one in self._made_of], -1) for n in (0, 1))
        values = c[0] * self._powers(e[1]) % p
        return [int(n) for n in np.add.reduceat(values, [0, *ends[:-1]]) % p]

    def _powers(self, exponents: Array) -> Array:
        p = self.primes[0]
        while self._generator in (0, 1):
            self._generator = int(self.rng.integers(2, p - 1)) ** 2 % p
        result: Array = np.ones(exponents.shape, np.int64)
        power = self._generator
        for bit in range(p.bit_length()):
            result = np.asarray(np.where((exponents >> bit) & 1, result * power % p, result), np.int64)
            power = power * power % p
        return result


def _pair(values: Sequence[int] | Array) -> Pair:
    return int(values[0]), int(values[1])


def _counted(below: Below) -> dict[int, int]:
    """How often each symbol stands below the fraction; negative above it."""
    counts: Counter[int] = Counter()
    for n in below:
        counts[abs(n)] += 1 if n > 0 else -1
    return {n: times for n, times in counts.items() if times}


def _reduced(below: Iterable[int]) -> Below:
    """The symbols below a fraction, what stands above and below cancelled, sorted."""
    counts = _counted(tuple(n for n in below if n))
    return tuple(sorted(n if times > 0 else -n for n, times in counts.items() for _ in range(abs(times))))
