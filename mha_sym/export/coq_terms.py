"""Kernel terms as expressions of Coq with mathcomp: sizes, positions, scalars, and names that cannot clash.

Defines `Names`, `Printer`, and how a size with a root is written.  Proof scripts are in
`mha_sym.export.coq_rules`, files in `mha_sym.export.coq`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from mha_sym.errors import Problem
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
    children,
    key,
)

#: words that a name in an exported file must not be: Coq's own, and what the proof scripts say
_WORDS = """
    as at cofix else end exists exists2 fix for forall fun if in is let match mod Prop return Set SProp then Type
    using where with by of have suff suffices without pose set move apply exact case elim rewrite split first congr
    cbv beta reflexivity Lemma Proof Qed Definition Theorem Variable Hypothesis Section End Statement Print
    Assumptions R exp isT erefl esym etrans seq nat bool Ordinal Posz Negz lshift rshift nth map val GRing Num Order
    known holds more row E0 n0 exp_add exp_positive size_roots size_roots0 natrM natrD natrX invr0 invrK ltr01 leq0n
    leqnn leq_addl eqxx andTb lt0r_neq0 f_equal2 realFieldType inE all is_true negb addn muln expn
"""
TAKEN = frozenset(_WORDS.split())
#: what the variables of the lemmas about shapes are called; a size of such a name would be hidden by them
HIDDEN = re.compile(r"[xyFKP]\d+|F|[a-z]_")


class NotExported(Problem):
    """A theorem that the Coq export cannot write, and why."""


@dataclass
class Names:
    """Identifiers of an exported file; each belongs to one thing, so that none can hide another.

    Example:
        >>> names = Names()
        >>> names.of("tensor", "b"), names.of("position", "b"), names.of("tensor", "b")
        ('b', 'b1', 'b')
    """

    given: dict[tuple[str, str], str] = field(default_factory=dict)
    used: set[str] = field(default_factory=lambda: set(TAKEN))

    def of(self, kind: str, name: str) -> str:
        """The identifier of a thing, always the same one."""
        if (kind, name) not in self.given:
            hidden = kind in ("size", "root") and HIDDEN.fullmatch(name) is not None
            self.given[kind, name] = self.fresh(f"{name}_size" if hidden else name)
        return self.given[kind, name]

    def fresh(self, name: str) -> str:
        """An identifier like ``name`` that nothing has yet."""
        stem = re.sub(r"[^A-Za-z0-9_']", "_", name)
        stem = stem if re.match(r"[A-Za-z_]", stem) and stem.strip("_'") else f"x_{stem.strip('_')}"
        found, number = stem, 0
        while found in self.used:
            number += 1
            found = f"{stem}{number}" if not stem[-1].isdigit() else f"{stem}_{number}"
        self.used.add(found)
        return found


def sizes(term: Term) -> Iterable[Size]:
    """The powers of sizes in a term; the domains of its sums are not looked into."""
    if isinstance(term, Size):
        yield term
    for child in children(term):
        yield from sizes(child)


def root_degrees(every: Iterable[Term]) -> dict[str, int]:
    """For each size that occurs as a scalar, the least root that all its powers are whole powers of."""
    found: dict[str, int] = {}
    for term in every:
        for one in sizes(term):
            found[one.name] = lcm(found.get(one.name, 1), one.power.denominator)
    return found


@dataclass
class Printer:
    """Terms as text of Coq.

    Attributes:
        names: the identifiers.
        over: the domains of the positions of each tensor.
        booleans: tensors that are 0 or 1, and are functions to bool in Coq.
        roots: the degree of the root of each size that is written as a power of it.
        scope: what the positions that a proof has introduced are called, where the name alone would be ambiguous.
    """

    names: Names
    over: Mapping[str, tuple[Domain, ...]]
    booleans: frozenset[str] = frozenset()
    roots: Mapping[str, int] = field(default_factory=dict)
    scope: dict[str, str] = field(default_factory=dict)

    # ------------------------------------------------------------ sizes and positions

    def count(self, domain: Domain) -> str:
        """How many positions a domain has, a natural number.  A product is nested to the right."""
        if domain.factors:
            return self._nested("*", domain.factors)
        if domain.blocks:
            return self._nested("+", domain.blocks)
        return self.natural(domain.size)

    def _nested(self, sign: str, inner: tuple[Domain, ...]) -> str:
        text = self.count(inner[-1])
        for one in reversed(inner[:-1]):
            text = f"({self.count(one)} {sign} {text})"
        return text

    def natural(self, size: Term) -> str:
        """A size as a natural number; equal sizes are written alike."""
        match size:
            case Num(value) if value.denominator == 1 and value >= 0:
                return numeral(int(value))
            case Size(name, power) if power == 1:
                return self.size(name)
            case Size(name, power) if power.denominator == 1 and power > 0:
                return f"({self.size(name)} ^ {power})"
            case Mul(args) | Add(args) if args:
                sign = "*" if isinstance(size, Mul) else "+"
                texts = [self.natural(arg) for arg in sorted(args, key=key)]
                text = texts.pop()
                while texts:
                    text = f"({texts.pop()} {sign} {text})"
                return text
        raise NotExported(f"a size that is not a whole number of sizes: {size}", where="export to Coq")

    def size(self, name: str) -> str:
        """A symbolic size, or a number."""
        if name.isdigit():
            return numeral(int(name))
        return name.removeprefix("?") if name.startswith("?") else self.names.of("size", name)

    def ordinal(self, domain: Domain) -> str:
        """The type of positions in a domain."""
        return f"'I_{self.count(domain)}"

    def binder(self, var: Var) -> str:
        """``(t : 'I_T)``."""
        return f"({self.var(var.name)} : {self.ordinal(var.domain)})"

    def var(self, name: str) -> str:
        """A variable position."""
        if name.startswith("?"):
            return name.removeprefix("?")
        return self.scope.get(name) or self.names.of("position", name)

    @contextmanager
    def entered(self, *names: str) -> Iterator[None]:
        """Positions that a proof introduces; one that hides another in the term is called otherwise here."""
        before = dict(self.scope)
        for name in names:
            self.enter(name)
        try:
            yield
        finally:
            self.scope.clear()
            self.scope.update(before)

    def enter(self, name: str) -> str:
        """Introduce a position until `entered` ends; how it is called."""
        if name.startswith("?"):
            return self.var(name)
        found = self.names.of("position", name)
        while found in self.scope.values():
            found = self.names.of("position", f"{found}'")
        self.scope[name] = found
        return found

    @contextmanager
    def bound(self, name: str) -> Iterator[None]:
        """Inside a term, a bound position has its own name again."""
        before = self.scope.pop(name, None)
        try:
            yield
        finally:
            if before is not None:
                self.scope[name] = before

    def index(self, index: Index, domain: Domain | None) -> str:
        """A position in a domain, which only a fixed position needs."""
        own = _domain_of(index)
        if domain is not None and own is not None and self.count(own) != self.count(domain):
            raise NotExported(
                "raw reshapes between unequal shapes are not exported to Coq", where="export to Coq",
                got=f"a position of {self.count(own)} read as one of {self.count(domain)}",
            )  # fmt: skip
        match index:
            case Var(name, _):
                return self.var(name)
            case At(number) if domain is not None and number >= 0:
                return f"(@Ordinal {self.count(domain)} {numeral(number)} {_below(domain, number)})"
            case Join(whole, parts):
                texts = [self.index(p, d) for p, d in zip(parts, whole.factors, strict=True)]
                text = texts.pop()
                while texts:
                    text = f"(pair_at {texts.pop()} {text})"
                return text
            case Part(inner, whole, number):
                text = self.index(inner, whole)
                for _ in range(number):
                    text = f"(inner {text})"
                return text if number == len(whole.factors) - 1 else f"(outer {text})"
            case Inj(inner, whole, number):
                return self._injected(self.index(inner, whole.blocks[number]), whole, number)
            case Perm(name, inverse, inner):
                return f"({self.bijection(name, inverse)} {self.index(inner, domain)})"
        raise NotExported(
            f"a position that the Coq export does not know: {type(index).__name__}", where="export to Coq"
        )  # fmt: skip

    def _injected(self, text: str, whole: Domain, number: int) -> str:
        blocks = whole.blocks
        if number < len(blocks) - 1:
            text = f"(lshift {self._nested('+', blocks[number + 1 :])} {text})"
        for one in reversed(blocks[:number]):
            text = f"(rshift {self.count(one)} {text})"
        return text

    def bijection(self, name: str, inverse: bool) -> str:
        """A bijection or its inverse, as a permutation."""
        text = self.names.of("bijection", name)
        return f"({text}^-1)%g" if inverse else text

    # ------------------------------------------------------------ scalars

    def term(self, term: Term) -> str:
        """A scalar of the field."""
        match term:
            case Num(value):
                return rational(value)
            case Size(name, power):
                return self.power(name, power)
            case Entry(name, _):
                entry = self.entry(term)
                return f"{entry}%:R" if name.startswith("!") or name in self.booleans else entry
            case Cmp():
                return f"{self.bracket(term)}%:R"
            case Add(args):
                return self._chain("+", args) if args else "0"
            case Mul(args):
                return self._chain("*", args) if args else "1"
            case Bind(op, var, body) if op in ("sum", "max"):
                with self.bound(var.name):
                    if op == "max":
                        return f"(greatest (fun {self.binder(var)} => {self.term(body)}))"
                    return f"(\\sum_({self.var(var.name)} < {self.count(var.domain)}) {self.term(body)})"
            case Apply("inv", arg):
                return f"({self.term(arg)})^-1" if not self.term(arg).startswith("(") else f"{self.term(arg)}^-1"
            case Apply(name, arg):
                return f"({self.function(name)} {self.term(arg)})"
        raise NotExported(f"a term that the Coq export does not know: {term}", where="export to Coq")

    def function(self, name: str) -> str:
        """``exp``, or an opaque function."""
        return "exp" if name == "exp" else self.names.of("function", name)

    def _chain(self, sign: str, args: tuple[Term, ...]) -> str:
        texts = [self.term(arg) for arg in args]
        text = texts.pop()
        while texts:
            text = f"({texts.pop()} {sign} {text})"
        return text

    def entry(self, term: Entry) -> str:
        """An entry of a tensor; names that begin with ``?`` or ``!`` are variables of a lemma, taken as they are."""
        if term.name[0] in "?!":
            places = [self.index(i, None) for i in term.at]
            return f"({' '.join([term.name[1:], *places])})" if places else term.name[1:]
        places = [self.index(i, d) for i, d in zip(term.at, self.over[term.name], strict=True)]
        name = self.names.of("tensor", term.name)
        return f"({' '.join([name, *places])})" if places else name

    def bracket(self, term: Cmp) -> str:
        """A comparison of the numbers of two positions, a truth value."""
        left, right = (self.place(i) for i in (term.left, term.right))
        low = f"({-term.offset} + {left})" if term.offset < 0 else left
        high = f"({term.offset} + {right})" if term.offset > 0 else right
        return f"({low} <= {high})%N" if term.op == "le" else f"({low} == {high} :> nat)%N"

    def place(self, index: Index) -> str:
        """The number of a position."""
        return str(index.number) if isinstance(index, At) else self.index(index, None)

    def power(self, name: str, power: Fraction) -> str:
        """A rational power of a size."""
        if power.denominator == 1:
            return integer_power(f"{self.size(name)}%:R", int(power))
        return integer_power(self.root(name), int(power * self.roots[name]))

    def root(self, name: str) -> str:
        """The positive root of a size."""
        degree = self.roots[name]
        return self.names.of("root", f"sqrt_{name}" if degree == 2 else f"root{degree}_{name}")


def integer_power(base: str, power: int) -> str:
    """``x``, ``x ^+ 2``, ``x^-1``, ``(x ^+ 2)^-1``."""
    text = base if abs(power) == 1 else f"({base} ^+ {abs(power)})"
    return text if power > 0 else f"{text}^-1"


def rational(value: Fraction) -> str:
    """``0``, ``1``, ``2%:R``, ``- 1``, ``(2%:R / 3%:R)``."""
    above = abs(value.numerator)
    over = str(above) if above < 2 else f"{numeral(above)}%:R"
    text = f"(- {over})" if value < 0 else over
    return text if value.denominator == 1 else f"({text} / {numeral(value.denominator)}%:R)"


def _domain_of(index: Index) -> Domain | None:
    """The domain that a position belongs to by itself; None for a fixed one."""
    match index:
        case Var(_, domain) | Join(domain, _) | Inj(_, domain, _):
            return domain
        case Part(_, domain, number):
            return domain.factors[number]
        case Perm(_, _, inner):
            return _domain_of(inner)
    return None


def _below(domain: Domain, number: int) -> str:
    """A proof that a fixed position is one of the domain."""
    size = domain.size
    if isinstance(size, Num) and not numeral(int(size.value)).isdigit() and not domain.factors:
        return f"(below (i := {number}%num) (n := {size.value}%num) isT)"
    return "isT"


def numeral(number: int) -> str:
    """A natural number; Coq counts to small ones in ones, so that large ones are written in binary."""
    return str(number) if number < 100 else f"(binary {number})"
