"""Terms of index notation as text, whatever the script: signs, fractions, parentheses, and where lines may be broken.

Defines `Symbol` (how a tensor's name is written) and `Notation`, of which `mha_sym.render.formulas.scripts` has the two
kinds. Two terms that differ in more than the order and grouping of factors and the names of bound positions are written
differently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from mha_sym.proof.terms import (
    ONE,
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
    fixed_number,
    flat_args,
    free,
)
from mha_sym.render.formulas.breaks import deeper, mark, plain
from mha_sym.render.formulas.size_text import ORDER

#: how tightly a written term holds together
SUM, PRODUCT, FACTOR = range(3)

Written = tuple[str, int]


@dataclass(frozen=True)
class Symbol:
    """How the name of a tensor is written.

    Attributes:
        root: the name itself, such as ``W_Q`` or ``Concat``.
        block: the block of a concatenation that is meant, if any.
        number: 0 for the first tensor of that name in a text, 1 for the next, and so on.
        numbered: whether these are told apart by numbers instead of primes.
        label: the label of a family in the name, as in ``Q^(r)``.
        heads: how many of its positions, the first ones, say which member of a family is meant; they are written
            above if the name has a label, and before the others if not.
        given: whether it is given, and not defined by others.
    """

    root: str
    block: str = ""
    number: int = 0
    numbered: bool = False
    label: str = ""
    heads: int = 0
    given: bool = False


@dataclass(frozen=True)
class Notation(ABC):
    """Writes terms; ``names`` says how tensors are called, ``letters`` how positions are."""

    names: Mapping[str, Symbol] = field(default_factory=dict)
    letters: Mapping[str, str] = field(default_factory=dict)
    #: what was written of which object, and how deep: lines share most of their parts, and the parts live as long
    known: dict[tuple[int, int], tuple[Term, Written]] = field(default_factory=dict, repr=False, compare=False)

    #: between factors; between two numbers; signs, and what stands for anything
    SPACE, DOT, MINUS = " ", "·", "-"
    LEAST, TIMES, ANY, OR = "≤", "×", "…", " or "

    # ------------------------------------------------------------ what scripts differ in

    @abstractmethod
    def name(self, symbol: Symbol, labels: Sequence[str] = ()) -> str:
        """A tensor's name, with the labels above it."""

    @abstractmethod
    def letter(self, name: str) -> str:
        """The name of a position."""

    @abstractmethod
    def size_name(self, name: str) -> str:
        """The symbol of a size."""

    @abstractmethod
    def permuted(self, name: str, inverse: bool, index: str) -> str:
        """The image of a position under a bijection."""

    @abstractmethod
    def at(self, indices: Sequence[str], family: Sequence[str] = ()) -> str:
        """The positions of an entry, in brackets, after those that say which member of a family it belongs to."""

    @abstractmethod
    def number(self, value: Fraction) -> str:
        """A rational that is not negative."""

    @abstractmethod
    def power(self, base: str, exponent: Fraction) -> str:
        """A positive power."""

    @abstractmethod
    def binder(self, op: str, letter: str, size: str) -> str:
        """``sum`` or ``max`` over a position, up to the body; with the size of its range if that is given."""

    @abstractmethod
    def compare(self, op: str, left: str, right: str) -> str:
        """The bracket that is 1 or 0."""

    @abstractmethod
    def quotient(self, number: str, size: str) -> str:
        """How often a size goes into a number."""

    @abstractmethod
    def remainder(self, number: str, size: str) -> str:
        """What is left then."""

    @abstractmethod
    def apply(self, name: str, arg: Term, level: int) -> str:
        """The value of a function."""

    @abstractmethod
    def ratio(self, above: Sequence[Term], below: Sequence[Term], alone: bool, level: int) -> str:
        """A quotient of products; ``alone`` if nothing else stands beside it."""

    def group(self, text: str) -> str:
        """The text in parentheses of the size it needs."""
        return f"({text})"

    # ------------------------------------------------------------ terms

    def term(self, term: Term) -> str:
        """The term, with marks where it may be broken."""
        return self.written(term, 0)[0]

    def equation(self, left: Term, right: Term) -> str:
        """``left = right``, with marks where it may be broken."""
        return f"{deeper(self.term(left), 1)} {mark(0)}= {deeper(self.term(right), 1)}"

    def written(self, term: Term, level: int) -> Written:
        """The term and how tightly it holds together; ``level`` says how deep inside another it stands."""
        found = self.known.get((id(term), level))
        if found is None:
            found = self.known[id(term), level] = term, self._written(term, level)
        return found[1]

    def _written(self, term: Term, level: int) -> Written:
        match term:
            case Num(value):
                if value < 0:
                    return self.MINUS + self.number(-value), SUM
                return self.number(value), FACTOR if value.denominator == 1 else PRODUCT
            case Size(name, power) if power > 0:
                return self.power(self.size_name(name), power), FACTOR
            case Entry(name, at):
                return self._entry(name, at), FACTOR
            case Cmp(op, left, right, offset):
                return self.compare(op, self.index(left), self._shifted(right, offset)), FACTOR
            case Add():
                return self._sum(flat_args(term), level), SUM
            case Bind(op, var, body):
                # The range of a position is that of the tensors it stands in; if it stands in none it must be told.
                size = "" if var.name in free(body) else self._range(var.domain)
                return self.binder(op, self.letter(var.name), size) + self.inside(body, PRODUCT, level), PRODUCT
            case Apply(name, arg) if name != "inv":
                return self.apply(name.removeprefix("fn:"), arg, level), FACTOR
            case _:
                return self._product(flat_args(term) if isinstance(term, Mul) else (term,), level)

    def inside(self, term: Term, least: int, level: int) -> str:
        """The term as an operand, in parentheses if it does not hold together well enough."""
        text, kind = self.written(term, level)
        return text if kind >= least else self.group(deeper(text))

    def _sum(self, args: Sequence[Term], level: int) -> str:
        text = ""
        signed = [_sign(arg) for arg in args]
        first = next((n for n, (negative, _) in enumerate(signed) if not negative), 0)
        for n, (negative, rest) in enumerate([signed[first], *signed[:first], *signed[first + 1 :]]):
            operand = self.inside(rest, PRODUCT, level)
            if n:
                text += f" {mark(level)}{self.MINUS if negative else '+'} {operand}"
            else:
                text = f"{self.MINUS}{operand}" if negative else operand
        return text

    def _product(self, args: Sequence[Term], level: int) -> Written:
        negative, rest = _sign(Mul(tuple(args)) if len(args) > 1 else args[0])
        if negative:
            return f"{self.MINUS}{self.inside(rest, PRODUCT, level)}", SUM
        parts = _fractions(_sorted_sizes(args))
        pieces = []
        for n, (above, below) in enumerate(parts):
            if below:
                text = self.ratio(above, below, len(parts) == 1, level)
            else:
                text = self.factors(above, n == len(parts) - 1, level, first=not n)
            pieces.append(text)
        return f"{mark(level + 1)}{self.SPACE}".join(pieces), PRODUCT

    def factors(self, args: Sequence[Term], last: bool, level: int, first: bool = True) -> str:
        """Factors side by side; a sum over an index needs no parentheses at the end, if that is the ``last``."""
        pieces = []
        for n, arg in enumerate(args):
            open_end = last and n == len(args) - 1 and isinstance(arg, Bind)
            text = self.inside(arg, PRODUCT if open_end else FACTOR, level)
            follows = n > 0 or not first
            if isinstance(arg, Num) and len(args) > n + 1 and (follows or arg.value == 1):
                text = f"{text} {self.DOT}"
            pieces.append(f"{self.DOT} {text}" if isinstance(arg, Num) and follows else text)
        return f"{mark(level + 1)}{self.SPACE}".join(pieces)

    # ------------------------------------------------------------ positions

    def _entry(self, name: str, at: Sequence[Index]) -> str:
        symbol = self.names.get(name, Symbol(name))
        indices = [self.index(one) for one in at]
        family, places = indices[: symbol.heads], indices[symbol.heads :]
        if symbol.label:
            return self.name(symbol, family or [symbol.label]) + self.at(places)
        return self.name(symbol) + self.at(places, family)

    def index(self, index: Index) -> str:
        """A position: ``t``, ``r d_k + j``, ``⌊c/d_k⌋``."""
        return self._index(index)[0]

    def _index(self, index: Index) -> Written:
        number = fixed_number(index)
        if number is not None:
            return str(number), FACTOR
        match index:
            case Join(domain, parts):
                return self._place(parts, domain.factors)
            case Part(inner, domain, number):
                return self._coordinate(self._index(inner), domain.factors, number)
            case Inj(inner, domain, number):
                before = [(self._size((one,)), FACTOR) for one in domain.blocks[:number]]
                return _plus([*before, self._index(inner)])
            case Perm(name, inverse, inner):
                return self.permuted(name, inverse, self.index(inner)), FACTOR
            case Var(name, _):
                return self.letter(name), FACTOR
            case At(fixed):
                return str(fixed), FACTOR

    def _place(self, parts: Sequence[Index], shape: Sequence[Domain]) -> Written:
        """The row-major place of some coordinates: ``r d_k + j``."""
        addends: list[Written] = []
        for n, one in enumerate(parts):
            index, kind = self._index(one)
            if n == len(parts) - 1:
                if not (addends and shape[n].size == ONE):  # an axis of size one adds nothing
                    addends.append((index, kind))
                continue
            held = index if kind == FACTOR else f"({index})"
            number, sizes = _collected(shape[n + 1 :])
            texts = [str(number)] * (number != 1) + [held] + [self.size(size) for size in sizes]
            if index.isdigit():
                texts = [*texts[:-1], self.DOT, texts[-1]] if sizes else [str(number), self.DOT, held]
            addends.append((self.SPACE.join(texts), PRODUCT))
        return _plus(addends)

    def _coordinate(self, place: Written, shape: Sequence[Domain], number: int) -> Written:
        """Coordinate ``number`` of a place in a shape: ``⌊c/d_k⌋`` or ``c mod d_k``."""
        text, kind = place
        if shape[number].size == ONE:
            return "0", FACTOR
        if number < len(shape) - 1 and _collected(shape[number + 1 :]) != (1, []):
            held = text if kind == FACTOR else f"({text})"
            text, kind = self.quotient(held, self._size(shape[number + 1 :])), FACTOR
        if number:
            held = text if kind == FACTOR else f"({text})"
            text, kind = self.remainder(held, self._size(shape[number : number + 1])), PRODUCT
        return text, kind

    def _range(self, domain: Domain) -> str:
        """How many positions there are, for a product axis factor by factor."""
        if not domain.factors:
            return plain(self.term(domain.size))
        return self.SPACE.join(self.size(one.size) for one in domain.factors)

    def size(self, size: Term) -> str:
        """A size, as a factor."""
        text, kind = self.written(size, 0)
        return plain(text if kind == FACTOR else self.group(text))

    def _size(self, domains: Sequence[Domain]) -> str:
        """The product of some sizes, as one thing."""
        number, sizes = _collected(domains)
        texts = [str(number)] * (number != 1 or not sizes) + [self.size(size) for size in sizes]
        return texts[0] if len(texts) == 1 else f"({self.SPACE.join(texts)})"

    def _shifted(self, index: Index, offset: int) -> str:
        text = self.index(index)
        return text if not offset else f"{text} {'+' if offset > 0 else self.MINUS} {abs(offset)}"


def _plus(addends: Sequence[Written]) -> Written:
    return addends[0] if len(addends) == 1 else (" + ".join(text for text, _ in addends), SUM)


def _collected(domains: Iterable[Domain]) -> tuple[int, list[Term]]:
    """The product of some sizes: its number, and its other factors in order."""
    number, others = 1, list[Term]()
    for one in domains:
        for factor in flat_args(one.size) if isinstance(one.size, Mul) else (one.size,):
            if isinstance(factor, Num):
                number *= int(factor.value)
            else:
                others.append(factor)
    return number, _sorted_sizes(others)


def _sign(term: Term) -> tuple[bool, Term]:
    """Whether a term is written with a minus sign, and what comes after it."""
    match term:
        case Num(value) if value < 0:
            return True, Num(-value)
        case Mul():
            first, *rest = flat_args(term)
            if isinstance(first, Num) and first.value < 0 and rest:
                others = rest if first.value == -1 else [Num(-first.value), *rest]
                return True, Mul(tuple(others)) if len(others) > 1 else others[0]
    return False, term


def _sorted_sizes(args: Sequence[Term]) -> list[Term]:
    """Sizes that stand side by side in the order in which the field writes them, all else as it was."""
    found: list[Term] = []
    run: list[Size] = []
    for arg in args:
        if isinstance(arg, Size):
            run.append(arg)
        else:
            found += [*sorted(run, key=lambda one: rank(one.name)), arg]
            run = []
    return found + sorted(run, key=lambda one: rank(one.name))


def rank(size: str) -> tuple[int, str]:
    """The place of a size in a product, as a key for sorting.

    Example:
        >>> sorted(("d_k", "p", "h", "B"), key=rank)
        ['B', 'h', 'd_k', 'p']
    """
    return ORDER.index(size) if size in ORDER else len(ORDER), size


def _fractions(args: Sequence[Term]) -> list[tuple[list[Term], list[Term]]]:
    """Factors as a sequence of fractions, each with what stands above and below its line.

    What follows a fraction starts anew, but what follows a mere inverse goes above it; the inverse of a size goes
    below everything up to the next fraction.
    """
    parts: list[tuple[list[Term], list[Term]]] = [([], [])]
    inverses: list[Term] = []
    led = False  # by an inverse: what follows it goes above
    for arg in args:
        above, below = parts[-1]
        under = _inverse(arg)
        if isinstance(under, Size):
            inverses.append(under)
        elif under is not None:
            led = led or not above
            below += [*inverses, under]
            inverses = []
        elif below and not led:
            parts.append(([arg], []))
        else:
            above.append(arg)
    parts[-1][1].extend(inverses)
    return parts


def _inverse(term: Term) -> Term | None:
    match term:
        case Apply("inv", arg):
            return arg
        case Size(name, power) if power < 0:
            return Size(name, -power)
        case _:
            return None

