"""Trusted: which terms say something at all; the checker accepts no statement, definition or assumption else.

A term is well formed where each variable has the domain of its binder and each position lies in the axis it
is used in.  Rules keep terms well formed; what comes from outside (statements, definitions, assumptions, the
positions at which a lemma is used) is looked at here.  A fixed position in an axis of symbolic size is taken
to exist where a statement mentions it, but no lemma or definition is used at it, except at position 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from fractions import Fraction
from functools import lru_cache
from itertools import chain, product
from math import prod

from mha_sym.proof.terms import (
    Add,
    At,
    Bind,
    Cmp,
    Digit,
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
    TermError,
    Var,
    children,
    domain_key,
)

Scope = Mapping[str, str]  # the `domain_key` of every variable in scope, by name
Bijections = Mapping[str, Domain]
Monomial = tuple[tuple[str, ...], Fraction]


def need(condition: bool, why: str) -> None:
    """A side condition."""
    if not condition:
        raise TermError(why)


# ---------------------------------------------------------------- sizes


@lru_cache(maxsize=1 << 12)
def expanded(size: Term) -> tuple[Monomial, ...]:
    """A size multiplied out, equal only for equal sizes: its products of symbols, each with its number."""
    rows: list[Monomial] = []
    match size:
        case Num(value):
            rows = [((), value)]
        case Size(name, power) if power.denominator == 1 and power > 0:
            rows = [((name,) * int(power), Fraction(1))]
        case Add(args):
            rows = [row for arg in args for row in expanded(arg)]
        case Mul(args):
            for one in product(*map(expanded, args)):
                rows.append((tuple(sorted(chain(*(m for m, _ in one)))), prod((c for _, c in one), start=Fraction(1))))
        case _:
            raise TermError("not the size of an axis")
    found: dict[tuple[str, ...], Fraction] = {}
    for monomial, number in rows:
        found[monomial] = found.get(monomial, Fraction(0)) + number
    return tuple(sorted((m, c) for m, c in found.items() if c))


def as_large(left: Domain, right: Domain) -> bool:
    """Whether two domains have equally many positions, for all sizes."""
    return domain_key(left) == domain_key(right) or expanded(left.size) == expanded(right.size)


@lru_cache(maxsize=1 << 12)
def check_domain(domain: Domain) -> None:
    """Refuse a size that is not a positive integer, or not the product or sum of the sizes inside."""
    need(not (domain.factors and domain.blocks), "a product and a concatenation at once")
    inner = domain.factors or domain.blocks
    for one in inner:
        check_domain(one)
    size, sizes = expanded(domain.size), tuple(one.size for one in inner)
    need(bool(size) and all(c > 0 and c.denominator == 1 for _, c in size), "a size that is no positive integer")
    whole = Mul(sizes) if domain.factors else Add(sizes) if domain.blocks else domain.size
    need(expanded(whole) == size, "the axes inside have another size")


# ---------------------------------------------------------------- positions


def domain_of(index: Index) -> Domain | None:
    """The axis that a position belongs to by itself; None for a fixed one."""
    match index:
        case Var(_, domain) | Join(domain, _) | Inj(_, domain, _):
            return domain
        case Part(_, domain, number):
            need(0 <= number < len(domain.factors), "no such factor")
            return domain.factors[number]
        case Digit(_, _, into, number):
            need(0 <= number < len(into), "no such coordinate")
            return into[number]
        case Perm(_, _, inner):
            return domain_of(inner)
        case _:
            return None


def check_position(index: Index, axis: Domain, scope: Scope | None, bijections: Bijections) -> None:
    """Refuse a position that may lie outside an axis.

    In a ``scope``, where a statement is read, its variables and bijections are looked up and its fixed positions
    taken to exist; without one, these are believed, and fixed positions must be certain to exist.
    """
    own = domain_of(index)
    if own is not None:
        check_domain(own)
        need(as_large(own, axis), "a position outside its axis")
    inside: tuple[Index, ...] = ()
    axes: tuple[Domain, ...] = ()
    match index:
        case At(number):
            exists = number < axis.size.value if isinstance(axis.size, Num) else number == 0 or scope is not None
            need(number >= 0 and exists, "a position outside its axis")
        case Var(name, domain):
            need(scope is None or scope.get(name) == domain_key(domain), "a variable that is not in scope")
        case Join(domain, parts):
            inside, axes = parts, domain.factors
            need(bool(axes), "not a product axis")
        case Part(inner, domain, _):
            inside, axes = (inner,), (domain,)
        case Inj(inner, domain, number):
            need(0 <= number < len(domain.blocks), "no such block")
            inside, axes = (inner,), (domain.blocks[number],)
        case Perm(name, inverse, inner):
            known = scope is None or (name in bijections and isinstance(inverse, bool))
            need(known, "no such bijection")
            permuted = bijections.get(name, axis)
            need(axis is _ANY or as_large(permuted, axis), "a position outside its axis")
            inside, axes = (inner,), (permuted,)
        case Digit(parts, shape, into, _):
            counts = [expanded(Mul(tuple(d.size for d in every))) for every in (shape, into)]
            need(counts[0] == counts[1], "a reshape that changes the number of entries")
            inside, axes = parts, shape
        case _:
            raise TermError("not a position")
    need(len(inside) == len(axes), "not one position a factor")
    for one, domain in zip(inside, axes, strict=True):
        check_position(one, domain, scope, bijections)


# ---------------------------------------------------------------- terms


def check_term(term: Term, scope: Scope, bijections: Bijections, unknown: Set[str] = frozenset()) -> None:
    """Refuse a term that is not well formed, or that mentions a name that is ``unknown``."""
    at: tuple[Index, ...] = ()
    match term:
        case Num(value):
            need(isinstance(value, Fraction), "a number that is not exact")
        case Size(name, power):
            need(isinstance(power, Fraction), "a power that is not exact")
            need(not (name.isdigit() and int(name) == 0), "a size of zero")
        case Entry(name, at):
            need(name not in unknown, "a definition that rests on itself")
        case Cmp(op, left, right, offset):
            need(op in ("le", "eq") and isinstance(offset, int), "no such bracket")
            at = (left, right)
        case Bind(op, var, _):
            need(op in ("sum", "max"), "no such binder")
            check_domain(var.domain)
            scope = {**scope, var.name: domain_key(var.domain)}
        case _:
            pass
    for index in at:
        check_position(index, domain_of(index) or _ANY, scope, bijections)
    for child in children(term):
        check_term(child, scope, bijections, unknown)


_ANY = Domain("any", Size("any"))  # of a fixed position alone no more is known than that it is not negative


def scope_at(term: Term, path: tuple[int, ...], scope: Scope) -> Scope:
    """The scope at a path inside a term."""
    for number in path:
        if isinstance(term, Bind):
            scope = {**scope, term.var.name: domain_key(term.var.domain)}
        term = children(term)[number]
    return scope


def scope_of(variables: tuple[Var, ...]) -> Scope:
    """The scope of stated variables."""
    for one in variables:
        check_domain(one.domain)
    scope = {v.name: domain_key(v.domain) for v in variables}
    need(len(scope) == len(variables), "a variable is stated twice")
    return scope
