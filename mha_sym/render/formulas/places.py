"""Positions of product axes written shorter: digits side by side as one, no zeros in front, no axis of one position.

Defines `merged`, the same row-major place, `digit_or_less`, and `occurring`, the compound places that digits are taken
of.  Domains made here are for writing only: they have the right sizes, and no names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mha_sym.proof.terms import (
    ONE,
    At,
    Domain,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Term,
    equal,
    fields,
    fixed_number,
)

_CLOSED = (str, int, bool, Domain)


def merged(index: Index) -> Index:
    """The same place, written shorter.

    Example:
        >>> from mha_sym.proof.terms import Size, Var
        >>> h, k = Domain("h", Size("h")), Domain("k", Size("d_k"))
        >>> c = Var("c", Domain("c", Mul((h.size, k.size)), (h, k)))
        >>> merged(Join(c.domain, (Part(c, c.domain, 0), Part(c, c.domain, 1)))) == c
        True
    """
    number = fixed_number(index)
    if number is not None:
        return At(number)
    match index:
        case Join(domain, parts):
            return _joined(list(zip(map(merged, parts), domain.factors, strict=True)))
        case Part(inner, domain, n):
            return _digit(merged(inner), list(domain.factors), n)
        case Inj(inner, domain, n):
            return _in_block(Inj(merged(inner), domain, n))
        case Perm(name, inverse, inner):
            return Perm(name, inverse, merged(inner))
    return index


def _in_block(index: Inj) -> Index:
    """A place in a block; where that and all blocks before have fixed sizes, its number."""
    before = [one.size for one in index.domain.blocks[: index.number]]
    if not isinstance(index.index, At) or not all(isinstance(one, Num) for one in before):
        return index
    return At(index.index.number + sum(int(one.value) for one in before if isinstance(one, Num)))


def _joined(pairs: list[tuple[Index, Domain]]) -> Index:
    """The place of some digits, each with its range."""
    opened: list[tuple[Index, Domain]] = []
    for index, domain in pairs:
        if isinstance(index, Join) and _same_size(index.domain, domain):
            opened += zip(index.parts, index.domain.factors, strict=True)
        elif domain.size != ONE:
            opened.append((index, domain))
    kept: list[tuple[Index, Domain]] = []
    for pair in opened:
        both = _side_by_side(kept[-1], pair) if kept else None
        if both is None:
            kept.append(pair)
        else:
            kept[-1] = both
    while kept and kept[0][0] == At(0):
        kept.pop(0)
    if len(kept) < 2:
        return kept[0][0] if kept else At(0)
    return Join(_together([domain for _, domain in kept]), tuple(index for index, _ in kept))


def _side_by_side(one: tuple[Index, Domain], other: tuple[Index, Domain]) -> tuple[Index, Domain] | None:
    """Two digits of one place that follow each other, as one digit."""
    (left, left_range), (right, right_range) = one, other
    if not isinstance(left, Part) or not isinstance(right, Part) or not equal(left.index, right.index):
        return None
    before, after = left.domain.factors[: left.number + 1], right.domain.factors[right.number :]
    if not _sizes(left.domain.factors[left.number + 1 :], after):  # the second digit is not the one that follows
        return None
    if not (_same_size(before[-1], left_range) and _same_size(after[0], right_range)):
        return None
    wide = _together([before[-1], after[0]])
    return _digit(left.index, [*before[:-1], wide, *after[1:]], left.number), wide


def _digit(index: Index, shape: list[Domain], n: int) -> Index:
    """Digit ``n`` of a place in a shape; of a shape of one axis it is the place itself."""
    if len(shape) == 1:
        return index
    if isinstance(index, Join) and _alike(index.domain.factors, shape):
        return index.parts[n]
    return Part(index, _together(shape), n)


def _alike(one: Sequence[Domain], other: Sequence[Domain]) -> bool:
    """Whether two shapes are the same, axis by axis."""
    return len(one) == len(other) and all(map(_same_size, one, other))


def _together(domains: Sequence[Domain]) -> Domain:
    sizes = [one.size for one in domains]
    return Domain("c", Mul(tuple(sizes)) if len(sizes) > 1 else sizes[0], tuple(domains))


def _sizes(one: Sequence[Domain], other: Sequence[Domain]) -> bool:
    """Whether two shapes have the same number of positions, seen from their sizes."""
    return equal(_product(one), _product(other))


def _product(domains: Sequence[Domain]) -> Term:
    return Mul((ONE, ONE, *(factor for one in domains for factor in _factors(one.size))))


def _factors(size: Term) -> tuple[Term, ...]:
    return size.args if isinstance(size, Mul) else () if size == ONE else (size,)


def _same_size(one: Domain, other: Domain) -> bool:
    return _sizes([one], [other])


def digit_or_less(index: Join) -> Index | None:
    """A place of which this one is the first digits, the others zero: ``c`` for ``⌊c/4⌋ 4``; it is not larger.

    Example:
        >>> from mha_sym.proof.terms import Num, Size, Var
        >>> from fractions import Fraction
        >>> r = Var("r", Domain("r", Size("h")))
        >>> shape = Domain("c", Size("n"), (Domain("tile", Size("n")), Domain("place", Num(Fraction(4)))))
        >>> digit_or_less(Join(shape, (Part(r, shape, 0), At(0)))) == r
        True
    """
    first, rest = index.parts[0], index.parts[1:]
    if not isinstance(first, Part) or first.number or any(one != At(0) for one in rest):
        return None
    return first.index if _sizes(first.domain.factors[1:], index.domain.factors[1:]) else None


def occurring(node: Any) -> Iterator[Index]:
    """Every compound place of which a digit is taken, as often as it occurs in a term or position."""
    if isinstance(node, Part) and isinstance(node.index, Join):
        yield node.index
    if not isinstance(node, _CLOSED) and not (hasattr(node, "numerator")):
        for one in fields(node):
            yield from occurring(one)
