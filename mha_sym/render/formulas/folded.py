"""Terms folded for reading: constants put together, complements undone, sums over one position taken, places merged.

Defines `folded`, every step of which is an equality that holds at all sizes, `Stack`, entries of several arrays of
which a number says which is meant, and `either`, which reads a term as one of two by a condition.  Nothing is proved
with what is made here, and nothing is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import sympy

from mha_sym.proof.order import nest
from mha_sym.proof.terms import (
    ONE,
    ZERO,
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Entry,
    Index,
    Join,
    Mul,
    Num,
    Part,
    Size,
    Term,
    Var,
    equal,
    fixed_number,
    flat_args,
    free,
    key,
    rebuild,
    subst,
    sum_over,
)
from mha_sym.render.formulas.places import digit_or_less, merged

#: the values of constant tables, by name and place
Tables = Mapping[str, Mapping[tuple[int, ...], Fraction]]

_HALF = Fraction(1, 2)
_MINUS = Num(Fraction(-1))


@dataclass(frozen=True)
class Stack:
    """Arrays behind one another: ``W_QKV[n, ...]`` is an entry of the n-th of ``W_Q, W_K, W_V``."""

    name: str
    parts: tuple[str, ...]


@dataclass
class Folder:
    """Folds terms that rest on the same tables and 0/1 arrays; ``stacks`` are those that were made."""

    tables: Tables = field(default_factory=dict)
    booleans: frozenset[str] = frozenset()
    stacks: dict[str, Stack] = field(default_factory=dict)

    def folded(self, term: Term) -> Term:
        """The same value, written shorter.

        Example:
            >>> x = Entry("x", ())
            >>> Folder().folded(Add((ONE, Mul((_MINUS, Add((ONE, Mul((_MINUS, x)))))))))
            Entry(name='x', at=())
        """
        match term:
            case Entry(name, at):
                return self._entry(name, tuple(merged(one) for one in at))
            case Cmp(op, left, right, offset):
                return Cmp(op, merged(left), merged(right), offset)
            case Bind():
                variables, body = nest(term)
                if not variables:
                    return rebuild(term, (self.folded(term.body),))
                return _summed(variables, self.folded(body), self)
            case Add():
                return self._sum(tuple(map(self.folded, flat_args(term))))
            case Mul():
                return _product(tuple(map(self.folded, flat_args(term))))
            case Apply(name, arg):
                inside = self.folded(arg)
                return _inverted(inside) if name == "inv" else Apply(name, inside)
        return term

    def _entry(self, name: str, at: tuple[Index, ...]) -> Term:
        """An entry; of a constant table its value, where the place is known."""
        numbers = tuple(fixed_number(one) for one in at)
        if name in self.tables and None not in numbers:
            return Num(self.tables[name][numbers])  # type: ignore[index]  # none of them is None
        return Entry(name, at)

    def _sum(self, args: Sequence[Term]) -> Term:
        """Addends put together; what is chosen by tables becomes an entry of a `Stack`."""
        opened = [one for arg in args for one in _opened(arg)]
        opened = list(self._chosen(opened))
        total, found = Fraction(0), dict[str, tuple[Fraction, Term]]()
        for arg in opened:
            number, rest = _coefficient(arg)
            if rest == ONE:
                total += number
            else:
                before = found.get(key(rest), (Fraction(0), rest))
                found[key(rest)] = (before[0] + number, before[1])
        addends = [_product((Num(number), rest)) for number, rest in found.values() if number]
        if total == 1 and len(addends) == 1 and (turned := _complement(addends[0])) is not None:
            return turned
        if total:
            first = total > 0 and all(_coefficient(one)[0] < 0 for one in addends)
            addends = [Num(total), *addends] if first else [*addends, Num(total)]
        return Add(tuple(addends)) if len(addends) > 1 else addends[0] if addends else ZERO

    def _chosen(self, args: Sequence[Term]) -> Iterator[Term]:
        """Addends ``W_n[...] place_n[p]``, each place_n one at a place of its own, as ``W[p, ...]``."""
        groups: dict[str, list[tuple[int, Entry, Index]]] = {}
        kept = list[tuple[str, Term]]()
        for arg in args:
            picked = self._picked(arg)
            if picked is None:
                kept.append(("", arg))
                continue
            _, entry, place = picked
            label = f"{key(place)}{key(entry.at)}{entry.name[:1]}"
            if label not in groups:
                kept.append((label, arg))
            groups.setdefault(label, []).append(picked)
        for label, arg in kept:
            if not label:
                yield arg
                continue
            chosen = sorted(groups[label], key=lambda one: one[0])
            names = tuple(entry.name for _, entry, _ in chosen)
            if [number for number, _, _ in chosen] != list(range(len(chosen))):
                yield from (Mul((entry, Cmp("eq", place, At(number)))) for number, entry, place in chosen)
                continue
            yield Entry(self._stack(names).name, (chosen[0][2], *chosen[0][1].at))

    def _picked(self, arg: Term) -> tuple[int, Entry, Index] | None:
        """An addend ``W[...] place_n[p]`` as n, the entry, and p."""
        entries = [one for one in flat_args(arg, Mul) if isinstance(one, Entry)]
        if len(entries) != 2 or len(flat_args(arg, Mul)) != 2:
            return None
        for entry, place in (entries, entries[::-1]):
            cells = self.tables.get(place.name, {})
            ones = [cell for cell, value in cells.items() if value == 1]
            if len(place.at) == 1 and len(ones) == 1 and sum(map(abs, cells.values())) == 1:
                return ones[0][0], entry, place.at[0]
        return None

    def _stack(self, names: tuple[str, ...]) -> Stack:
        stem = names[0][: max(1, len(names[0]) - 1)]
        name = stem + "".join(one.removeprefix(stem) for one in names)
        return self.stacks.setdefault(name, Stack(name, names))

    # ------------------------------------------------------------ conditions

    def either(self, term: Term) -> tuple[Term, Term, Term] | None:
        """A sum as a condition that is 0 or 1, what it is where that is 1, and what it is elsewhere."""
        if not isinstance(term, Add):
            return None
        args = flat_args(term)
        for condition in self._conditions(args[0]):
            parts = [_without(arg, condition) for arg in args]
            negated = self.folded(Add((ONE, Mul((_MINUS, condition)))))
            others = [_without(arg, negated) for arg in args]
            if all((one is None) != (other is None) for one, other in zip(parts, others, strict=True)) and any(others):
                yes, no = ([one for one in some if one is not None] for some in (parts, others))
                return condition, self._sum(yes), self._sum(no)
        return None

    def _conditions(self, arg: Term) -> Iterator[Term]:
        """Factors of an addend that are 0 or 1: all together first, then one by one."""
        bits = [one for one in flat_args(arg, Mul) if self._is_bit(one)]
        if len(bits) > 1:
            yield Mul(tuple(bits))
        yield from bits

    def _is_bit(self, term: Term) -> bool:
        match term:
            case Cmp():
                return True
            case Entry(name, _):
                return name in self.booleans
            case Add((first, second)):
                number, rest = _coefficient(second)
                return first == ONE and number == -1 and self._is_bit(rest)
            case Mul(args):
                return all(map(self._is_bit, args))
        return False


def _without(arg: Term, condition: Term) -> Term | None:
    """What is left of a product without some of its factors; None if it has them not."""
    rest = list(flat_args(arg, Mul))
    for one in flat_args(condition, Mul):
        place = next((n for n, factor in enumerate(rest) if equal(factor, one)), None)
        if place is None:
            return None
        del rest[place]
    return _product(rest)


# ---------------------------------------------------------------- sums and products


def _opened(arg: Term) -> Iterator[Term]:
    """The addends of minus a sum, each with its sign; anything else as it is."""
    number, rest = _coefficient(arg)
    if number == -1 and isinstance(rest, Add):
        yield from (_product((_MINUS, one)) for one in flat_args(rest))
    else:
        yield arg


def _coefficient(term: Term) -> tuple[Fraction, Term]:
    """A product as its number and the rest."""
    number, rest = Fraction(1), list[Term]()
    for one in flat_args(term, Mul):
        match one:
            case Num(value):
                number *= value
            case Apply("inv", Num(value)):
                number /= value
            case _:
                rest.append(one)
    return number, rest[0] if len(rest) == 1 else Mul(tuple(rest)) if rest else ONE


def _complement(term: Term) -> Term | None:
    """``1 - [s <= t]`` is ``[t < s]``."""
    number, rest = _coefficient(term)
    if number == -1 and isinstance(rest, Cmp) and rest.op == "le":
        return Cmp("le", rest.right, rest.left, -rest.offset - 1)
    return None


def _inverted(arg: Term) -> Term:
    match arg:
        case Num(value):
            return Num(1 / value) if value else ZERO
        case Size(name, power):
            return Size(name, -power)
        case Mul():
            args = flat_args(arg)
            return _product([_inverted(one) if isinstance(one, Num | Size) else Apply("inv", one) for one in args])
    return Apply("inv", arg)


def _product(args: Sequence[Term]) -> Term:
    """Factors with their numbers, roots and sizes put together: ``√2 / (2 √d)`` is ``1 / √(2 d)``."""
    args = [one for arg in args for one in flat_args(arg, Mul)]
    number, rest = _coefficient(Mul(tuple(args)))
    if not number:
        return ZERO
    sizes, others = dict[str, Fraction](), list[Term]()
    for one in flat_args(rest, Mul):
        match one:
            case Size(name, power):
                sizes[name] = sizes.get(name, Fraction(0)) + power
            case Num():
                pass
            case _:
                others.append(one)
    number, scale = _scale(number, sizes)
    above, below = number.numerator, number.denominator
    factors: list[Term] = [Num(Fraction(above))] if above != 1 else []
    factors += [Apply("inv", Num(Fraction(below)))] if below != 1 else []
    factors += [*others, *scale]
    return Mul(tuple(factors)) if len(factors) > 1 else factors[0] if factors else ONE


def _scale(number: Fraction, sizes: Mapping[str, Fraction]) -> tuple[Fraction, list[Term]]:
    """Powers of sizes, the square roots under one sign, and the number that is then before them."""
    under = Fraction(1)  # what stands under the root besides symbols
    rooted, scale = dict[str, int](), list[Term]()
    for name, power in sizes.items():
        if not name.isdigit():
            if abs(power) == _HALF:
                rooted[name] = 1 if power > 0 else -1
            elif power:
                scale.append(Size(name, power))
        elif (2 * power).denominator == 1:
            whole, half = divmod(int(2 * power), 2)
            number *= Fraction(int(name)) ** whole
            under *= Fraction(int(name)) ** half
        else:
            scale.append(Size(name, power))
    under *= number**2  # |number| goes under the root, and comes out again as far as it is a square
    outside, above, below = _squares(under)
    sign = -1 if number < 0 else 1
    if above == below == 1 and len(rooted) < 2:
        return sign * outside, [*scale, *(Size(name, _HALF * one) for name, one in rooted.items())]
    for direction, left in ((1, above), (-1, below)):
        names = [name for name, one in rooted.items() if one == direction]
        if left == 1 and len(names) < 2:
            scale += [Size(name, _HALF * direction) for name in names]
            continue
        inside: list[Term] = [Num(Fraction(left))] if left != 1 else []
        inside += [Size(name) for name in names]
        root = Apply("sqrt", Mul(tuple(inside)) if len(inside) > 1 else inside[0])
        scale.append(root if direction > 0 else Apply("inv", root))
    return sign * outside, scale


def _squares(value: Fraction) -> tuple[Fraction, int, int]:
    """A positive fraction as ``outside**2 * above / below``, both without squares.

    Example:
        >>> _squares(Fraction(18, 5))
        (Fraction(3, 1), 2, 5)
    """
    parts = [_square_part(n) for n in (value.numerator, value.denominator)]
    return Fraction(parts[0][0], parts[1][0]), parts[0][1], parts[1][1]


def _square_part(number: int) -> tuple[int, int]:
    """``number = square**2 * rest``."""
    square, root = sympy.sqrt(sympy.Integer(number)).as_coeff_Mul()
    return int(square), int(root**2)


# ---------------------------------------------------------------- sums over positions


def _summed(variables: Sequence[Var], body: Term, folder: Folder) -> Term:
    """Nested sums; a position that a bracket fixes is put in, and its sum is gone."""
    waiting = list(variables)
    while True:
        if body == ZERO:
            return ZERO
        found = next((pair for var in waiting if (pair := _fixed(var, body)) is not None), None)
        if found is None:
            break
        waiting.remove(found[0])
        body = folder.folded(found[1])
    if len(waiting) == 1 and isinstance(body, Cmp) and (left := _one_digit(waiting[0], body)) is not None:
        return left
    for var in reversed(waiting):
        body = sum_over(var, body)
    return body


def _fixed(var: Var, body: Term) -> tuple[Var, Term] | None:
    """``Σ_v [v = e] f(v)`` is ``f(e)`` where e is surely in the range of v."""
    factors = flat_args(body, Mul)
    for n, one in enumerate(factors):
        if isinstance(one, Cmp) and one.op == "eq" and not one.offset:
            for mine, other in ((one.left, one.right), (one.right, one.left)):
                if mine == var and var.name not in free(other) and _below(other, var.domain.size):
                    rest = (*factors[:n], *factors[n + 1 :])
                    return var, subst(Mul(rest) if rest else ONE, {var.name: other})
    return None


def _one_digit(var: Var, bracket: Cmp) -> Term | None:
    """``Σ_p [x = p G + g]`` is ``[x mod G = g]``, and ``Σ_g`` of it is ``[⌊x/G⌋ = p]``."""
    if bracket.op != "eq" or bracket.offset:
        return None
    for whole, other in ((bracket.left, bracket.right), (bracket.right, bracket.left)):
        if not isinstance(whole, Join) or len(whole.parts) != 2 or var.name in free(other):
            continue
        place = next((n for n, one in enumerate(whole.parts) if one == var), None)
        if place is None or var.name in free(whole.parts[1 - place]):
            continue
        if place == 1 or _below(other, var.domain.size) or _below(other, whole.domain.size):
            return Cmp("eq", Part(other, whole.domain, 1 - place), whole.parts[1 - place])
    return None


def _below(index: Index, size: Term) -> bool:
    """Whether a position is surely less than a size."""
    number = fixed_number(index)
    if number is not None:
        return number == 0 or (isinstance(size, Num) and number < size.value)
    match index:
        case Var(_, domain):
            return _at_most(domain.size, size)
        case Part(inner, domain, place):
            return _at_most(domain.factors[place].size, size) or _below(inner, size)
        case Join(domain, _):
            less = digit_or_less(index)
            return _at_most(domain.size, size) or (less is not None and _below(less, size))
    return False


def _at_most(one: Term, other: Term) -> bool:
    both = isinstance(one, Num) and isinstance(other, Num)
    return equal(one, other) or (both and one.value <= other.value)  # type: ignore[union-attr]
