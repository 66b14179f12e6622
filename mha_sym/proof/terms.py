"""Trusted: the terms of index notation, substitution that cannot capture, equality up to renaming and order.

A tensor expression means, at a tuple of positions, a scalar term: sums over bound positions of products
of entries, brackets, exponentials and inverses.  This file imports nothing of the package and decides
nothing about attention; with `rules` and `checker` it is all that a proof has to be believed for.

Conventions: every domain has at least one position; the inverse of zero is zero, as in proof assistants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce


class TermError(Exception):
    """A rule does not apply, or a term is not what it should be; a fault of the prover, never of a user."""


# ---------------------------------------------------------------- positions


@dataclass(frozen=True, slots=True)
class Domain:
    """What a position ranges over: ``0 .. size-1``, perhaps a product or a concatenation of domains."""

    name: str
    size: Term
    factors: tuple[Domain, ...] = ()
    blocks: tuple[Domain, ...] = ()

    def __hash__(self) -> int:  # not of all that is inside: every table that remembers positions asks for it
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Var:
    """A variable position."""

    name: str
    domain: Domain


@dataclass(frozen=True, slots=True)
class At:
    """A fixed position."""

    number: int


@dataclass(frozen=True, slots=True)
class Join:
    """The position ``r*d_k + j`` of a product domain, kept as the tuple ``(r, j)``."""

    domain: Domain
    parts: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """The ``number``-th factor of a position in a product domain."""

    index: Index
    domain: Domain
    number: int


@dataclass(frozen=True, slots=True)
class Inj:
    """A position inside block ``number`` of a concatenated domain."""

    index: Index
    domain: Domain
    number: int


@dataclass(frozen=True, slots=True)
class Perm:
    """The image of a position under a named bijection, or under its inverse."""

    name: str
    inverse: bool
    index: Index


@dataclass(frozen=True, slots=True)
class Digit:
    """Coordinate ``number``, in the shape ``into``, of the row-major place of ``parts`` in the shape ``shape``."""

    parts: tuple[Index, ...]
    shape: tuple[Domain, ...]
    into: tuple[Domain, ...]
    number: int


Index = Var | At | Join | Part | Inj | Perm | Digit


def join(domain: Domain, parts: tuple[Index, ...]) -> Index:
    """``(part 0 of i, part 1 of i, ...)`` is ``i``."""
    first = parts[0]
    if isinstance(first, Part) and _same((first.domain,), (domain,)):
        whole = tuple(Part(first.index, domain, n) for n in range(len(parts)))
        if tuple(map(index_key, whole)) == tuple(map(index_key, parts)):
            return first.index
    return Join(domain, parts)


def part(index: Index, domain: Domain, number: int) -> Index:
    """Part ``number`` of ``(r, j)`` is ``r`` or ``j``."""
    if isinstance(index, Join) and _same(index.domain.factors, domain.factors):
        return index.parts[number]
    if isinstance(index, At):
        sizes = _fixed_sizes(domain.factors)
        return Part(index, domain, number) if sizes is None else At(_digits(index.number, sizes)[number])
    return Part(index, domain, number)


def perm(name: str, inverse: bool, index: Index) -> Index:
    """A bijection undoes its inverse."""
    if isinstance(index, Perm) and index.name == name and index.inverse != inverse:
        return index.index
    return Perm(name, inverse, index)


def digit(parts: tuple[Index, ...], shape: tuple[Domain, ...], into: tuple[Domain, ...], number: int) -> Index:
    """A reshape to the same shape keeps the place, and a reshape back undoes a reshape."""
    if _same(shape, into):
        return parts[number]
    first = parts[0]
    if isinstance(first, Digit) and _same(first.into, shape):
        whole = tuple(Digit(first.parts, first.shape, first.into, n) for n in range(len(parts)))
        if tuple(map(index_key, whole)) == tuple(map(index_key, parts)):
            return digit(first.parts, first.shape, into, number)
    places, sizes, new_sizes = tuple(map(fixed_number, parts)), _fixed_sizes(shape), _fixed_sizes(into)
    if sizes is not None and new_sizes is not None and None not in places:
        return At(_digits(_flat(places, sizes), new_sizes)[number])  # type: ignore[arg-type]
    return Digit(parts, shape, into, number)


def fixed_number(index: Index) -> int | None:
    """The number of a position that is fixed; the first factor of a product is the slowest."""
    if isinstance(index, At):
        return index.number
    if not isinstance(index, Join):
        return None
    places, sizes = tuple(map(fixed_number, index.parts)), _fixed_sizes(index.domain.factors)
    return None if sizes is None or None in places else _flat(places, sizes)  # type: ignore[arg-type]


def _fixed_sizes(domains: tuple[Domain, ...]) -> tuple[int, ...] | None:
    sizes = tuple(d.size for d in domains)
    return tuple(int(s.value) for s in sizes if isinstance(s, Num)) if all(isinstance(s, Num) for s in sizes) else None


def _flat(places: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    return reduce(lambda number, pair: number * pair[1] + pair[0], zip(places, sizes, strict=True), 0)


def _digits(number: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    found: tuple[int, ...] = ()
    for size in reversed(sizes):
        number, digit_ = divmod(number, size)
        found = (digit_, *found)
    return found


def _same(left: tuple[Domain, ...], right: tuple[Domain, ...]) -> bool:
    return tuple(map(domain_key, left)) == tuple(map(domain_key, right))


# ---------------------------------------------------------------- scalars


@dataclass(frozen=True, slots=True)
class Num:
    """An exact rational."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Size:
    """A rational power of a symbolic size, which is at least one."""

    name: str
    power: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a tensor, given or defined."""

    name: str
    at: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Cmp:
    """The bracket ``[left <= right + offset]`` or ``[left = right + offset]``: 1 if it holds, else 0."""

    op: str
    left: Index
    right: Index
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Add:
    """A sum of finitely many terms."""

    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Mul:
    """A product of finitely many terms."""

    args: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """``sum`` or ``max`` of the body over all positions of a variable."""

    op: str
    var: Var
    body: Term


@dataclass(frozen=True, slots=True)
class Apply:
    """``exp``, ``inv``, or an opaque function of one argument."""

    name: str
    arg: Term


Term = Num | Size | Entry | Cmp | Add | Mul | Bind | Apply
ONE, ZERO = Num(Fraction(1)), Num(Fraction(0))


def sum_over(var: Var, body: Term) -> Bind:
    """The sum of the body over a variable."""
    return Bind("sum", var, body)


def children(term: Term) -> tuple[Term, ...]:
    """The scalar terms directly inside."""
    match term:
        case Add(args) | Mul(args):
            return args
        case Bind(_, _, body):
            return (body,)
        case Apply(_, arg):
            return (arg,)
        case _:
            return ()


def rebuild(term: Term, inside: tuple[Term, ...]) -> Term:
    """The same term around other children."""
    match term:
        case Add():
            return Add(inside)
        case Mul():
            return Mul(inside)
        case Bind(op, var, _):
            return Bind(op, var, inside[0])
        case Apply(name, _):
            return Apply(name, inside[0])
        case _:
            return term


def at_path(term: Term, path: tuple[int, ...]) -> Term:
    """The subterm at a path of child numbers."""
    for step in path:
        inside = children(term)
        if not 0 <= step < len(inside):
            raise TermError(f"no child {step}")
        term = inside[step]
    return term


def put_path(term: Term, path: tuple[int, ...], new: Term) -> Term:
    """The term with the subterm at a path replaced."""
    if not path:
        return new
    inside = children(term)
    if not 0 <= path[0] < len(inside):
        raise TermError(f"no child {path[0]}")
    deeper = put_path(inside[path[0]], path[1:], new)
    return rebuild(term, (*inside[: path[0]], deeper, *inside[path[0] + 1 :]))


# ---------------------------------------------------------------- variables


def index_vars(index: Index) -> Iterator[str]:
    """Names of the variables in a position."""
    match index:
        case Var(name, _):
            yield name
        case Join(_, parts) | Digit(parts, _, _, _):
            for inner in parts:
                yield from index_vars(inner)
        case Part(inner, _, _) | Inj(inner, _, _) | Perm(_, _, inner):
            yield from index_vars(inner)


@lru_cache(maxsize=1 << 16)
def free(term: Term) -> frozenset[str]:
    """Names of the free variables."""
    match term:
        case Entry(_, at):
            return frozenset(name for index in at for name in index_vars(index))
        case Cmp(_, left, right, _):
            return frozenset((*index_vars(left), *index_vars(right)))
        case Bind(_, var, body):
            return free(body) - {var.name}
        case _:
            return frozenset().union(*map(free, children(term)))


def subst_index(index: Index, new: Mapping[str, Index]) -> Index:
    """A position with variables replaced, simplified by `join`, `part`, `perm` and `digit`."""
    match index:
        case Var(name, _):
            return new.get(name, index)
        case Join(domain, parts):
            return join(domain, tuple(subst_index(p, new) for p in parts))
        case Part(inner, domain, number):
            return part(subst_index(inner, new), domain, number)
        case Inj(inner, domain, number):
            return Inj(subst_index(inner, new), domain, number)
        case Perm(name, inverse, inner):
            return perm(name, inverse, subst_index(inner, new))
        case Digit(parts, shape, into, number):
            return digit(tuple(subst_index(p, new) for p in parts), shape, into, number)
        case _:
            return index


def subst(term: Term, new: Mapping[str, Index]) -> Term:
    """The term with free variables replaced; a bound variable that would capture is renamed."""
    match term:
        case Entry(name, at):
            return Entry(name, tuple(subst_index(i, new) for i in at))
        case Cmp(op, left, right, offset):
            return Cmp(op, subst_index(left, new), subst_index(right, new), offset)
        case Bind(op, _, _):
            known = free(term)
            new = {name: index for name, index in new.items() if name in known}
            bind = rename_apart(term, frozenset(name for index in new.values() for name in index_vars(index)))
            return Bind(op, bind.var, subst(bind.body, new))
        case _:
            return rebuild(term, tuple(subst(child, new) for child in children(term)))


def fresh_var(var: Var, taken: set[str] | frozenset[str]) -> Var:
    """A variable of the same domain with a name that is not taken."""
    stem, number = var.name.rstrip("0123456789"), 1
    while f"{stem}{number}" in taken:
        number += 1
    return Var(f"{stem}{number}", var.domain)


def rename_apart(bind: Bind, taken: frozenset[str]) -> Bind:
    """The same sum with a bound variable that is not among the names taken."""
    if bind.var.name not in taken:
        return bind
    fresh = fresh_var(bind.var, taken | free(bind.body))
    return Bind(bind.op, fresh, subst(bind.body, {bind.var.name: fresh}))


# ---------------------------------------------------------------- equality


@lru_cache(maxsize=1 << 12)
def domain_key(domain: Domain) -> str:
    """A text equal for domains of the same size and inner structure; names do not matter to positions."""
    inner = [domain_key(d) for d in (*domain.factors, *domain.blocks)]
    kind = "x" if domain.factors else "+" if domain.blocks else ""
    return f"<{kind}{'|'.join(inner) if inner else key(domain.size)}>"


def index_key(index: Index, env: Mapping[str, str] | None = None) -> str:
    """A text equal for equal positions; bound variables go by their label in ``env``."""
    match index:
        case Var(name, domain):
            label = env.get(name) if env else None
            return f"{name!r}{domain_key(domain)}" if label is None else label
        case At(number):
            return f"@{number}"
        case Join(domain, parts):
            return f"J{domain_key(domain)}({','.join(index_key(p, env) for p in parts)})"
        case Part(inner, domain, number):
            return f"P{number}{domain_key(domain)}({index_key(inner, env)})"
        case Inj(inner, domain, number):
            return f"I{number}{domain_key(domain)}({index_key(inner, env)})"
        case Perm(name, inverse, inner):
            return f"p{name!r}{'-' if inverse else '+'}({index_key(inner, env)})"
        case Digit(parts, shape, into, number):
            shapes = "".join(map(domain_key, shape)) + ">" + "".join(map(domain_key, into))
            return f"D{number}{shapes}({','.join(index_key(p, env) for p in parts)})"


def key(term: Term, env: Mapping[str, str] | None = None, depth: int = 0) -> str:
    """A text equal only for terms equal up to bound names, order and grouping of sums and products."""
    match term:
        case Num(value):
            return f"{value}"
        case Size(name, power):
            return f"s{name!r}^{power}"
        case Entry(name, at):
            return f"E{name!r}[{','.join(index_key(i, env) for i in at)}]"
        case Cmp(op, left, right, offset):
            return f"C{op!r}{offset}({index_key(left, env)},{index_key(right, env)})"
        case Add() | Mul():
            sign = "+" if isinstance(term, Add) else "*"
            keys = sorted(key(arg, env, depth) for arg in flat_args(term))
            return keys[0] if len(keys) == 1 else f"{sign}({','.join(keys)})"
        case Bind(op, var, body):
            inner = {**(env or {}), var.name: f"#{depth}"}
            return f"B{op!r}{domain_key(var.domain)}({key(body, inner, depth + 1)})"
        case Apply(name, arg):
            return f"A{name!r}({key(arg, env, depth)})"


def flat_args(term: Term) -> tuple[Term, ...]:
    """The arguments of a sum or product with nested ones of the same kind opened."""
    if not isinstance(term, Add | Mul):
        return (term,)
    kind = type(term)
    return reduce(lambda done, arg: done + (flat_args(arg) if isinstance(arg, kind) else (arg,)), term.args, ())


def equal(left: Term, right: Term) -> bool:
    """Whether two terms are equal up to bound names, order and grouping."""
    return key(left) == key(right)
