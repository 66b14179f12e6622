"""Trusted: which terms say something at all; the checker accepts no statement, definition or assumption else.

A term is well formed where each variable has the domain of its binder and each position lies in the axis it
is used in.  Rules keep terms well formed; what comes from outside (statements, definitions, assumptions, the
positions at which a lemma is used) is looked at here.  A fixed position in an axis of symbolic size is taken
to exist where a statement mentions it, but no lemma or definition is used at it, except at position 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import chain, product
from math import prod

from mha_sym.proof.terms import (  # isort: skip
    Add, At, Bind, Cmp, Domain, Entry, Index, Inj, Join, Mul, Num, Part, Perm, Size, Term, TermError, Var,
    children, domain_key,
)  # fmt: skip

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
    match size:
        case Num(value):
            rows: list[Monomial] = [((), value)]
        case Size(name, power) if power.denominator == 1 and power > 0:
            rows = [((name,) * int(power), Fraction(1))]
        case Add(args):
            rows = [row for arg in args for row in expanded(arg)]
        case Mul(args):
            rows = [(tuple(sorted(chain(*(names for names, _ in one)))), prod((c for _, c in one), start=Fraction(1)))
                    for one in product(*map(expanded, args))]
        case _:
            raise TermError("not the size of an axis")
    found = dict.fromkeys((monomial for monomial, _ in rows), Fraction(0))
    for monomial, number in rows:
        found[monomial] += number
    return tuple(sorted((monomial, number) for monomial, number in found.items() if number))


@lru_cache(maxsize=1 << 12)
def check_domain(domain: Domain) -> None:
    """Refuse a size that is not a positive integer, or not the product or sum of the sizes inside."""
    need(not (domain.factors and domain.blocks), "a product and a concatenation at once")
    for one in (*domain.factors, *domain.blocks):
        check_domain(one)
    check_term(domain.size, {}, {}, {})
    size, sizes = expanded(domain.size), tuple(one.size for one in domain.factors or domain.blocks)
    need(bool(size) and all(c > 0 and c.denominator == 1 for _, c in size), "a size that is no positive integer")
    need(not sizes or expanded((Mul if domain.factors else Add)(sizes)) == size, "the axes inside have another size")


# ---------------------------------------------------------------- positions


def check_position(index: Index, axis: Domain | None, bijections: Bijections, scope: Scope | None) -> None:
    """Refuse a position that may lie outside an axis, if one is given.

    In a ``scope``, where a statement is read, its variables are looked up and its fixed positions taken to exist;
    without one, variables are believed, and fixed positions must be certain to exist.
    """
    own, inside, axes = axis, tuple[Index, ...](), tuple[Domain, ...]()
    match index:
        case At(number):
            size = axis.size if axis else None
            exists = number < size.value if isinstance(size, Num) else number == 0 or scope is not None
            need(number >= 0 and exists, "a position outside its axis")
        case Var(name, own):
            need(scope is None or scope.get(name) == domain_key(own), "a variable that is not in scope")
        case Join(own, inside):
            axes = own.factors
            need(bool(axes), "not a product axis")
        case Part(inner, domain, number):
            need(0 <= number < len(domain.factors), "no such factor")
            check_domain(domain)
            own, inside, axes = domain.factors[number], (inner,), (domain,)
        case Inj(inner, own, number):
            need(0 <= number < len(own.blocks), "no such block")
            inside, axes = (inner,), (own.blocks[number],)
        case Perm(name, inverse, inner):
            need(name in bijections and isinstance(inverse, bool), "no such bijection")
            own, inside, axes = bijections[name], (inner,), (bijections[name],)
        case _:
            raise TermError("not a position")
    if own is not None:
        check_domain(own)
        need(axis is None or own is axis or expanded(own.size) == expanded(axis.size), "a position outside its axis")
    need(len(inside) == len(axes), "not one position a factor")
    for one, domain in zip(inside, axes, strict=True):
        check_position(one, domain, bijections, scope)


# ---------------------------------------------------------------- terms


def check_term(
    term: Term, scope: Scope, bijections: Bijections, lengths: Mapping[str, int], path: tuple[int, ...] = ()
) -> None:
    """Refuse a term that is not well formed at a path; ``lengths`` says how many positions entries of a name have."""
    at: tuple[Index, ...] = ()
    match term:
        case Entry(name, at):
            need(lengths.get(name, len(at)) == len(at), "a definition that rests on itself, or has other positions")
        case Num(value) | Size(_, value):
            need(isinstance(value, Fraction), "a number that is not exact")
            need(isinstance(term, Num) or not term.name.isdigit() or int(term.name) > 0, "a size of zero")
        case Cmp(op, left, right, offset):
            need(op in ("le", "eq") and isinstance(offset, int), "no such bracket")
            at = (left, right)
        case Bind(op, var, _):
            need(op in ("sum", "max"), "no such binder")
            check_domain(var.domain)
            scope = {**scope, var.name: domain_key(var.domain)}
    for index in at:
        check_position(index, None, bijections, scope)
    for number, child in enumerate(children(term)):
        if path[:1] in ((), (number,)):
            check_term(child, scope, bijections, lengths, path[1:])


def scope_of(variables: tuple[Var, ...]) -> Scope:
    """The scope of stated variables."""
    for one in variables:
        check_domain(one.domain)
    need(len({one.name for one in variables}) == len(variables), "a variable is stated twice")
    return {one.name: domain_key(one.domain) for one in variables}
