"""Trusted: the terms of index notation, substitution that cannot capture, equality up to renaming and order.

A tensor expression means, at a tuple of positions, a scalar term: sums over bound positions of products
of entries, brackets, exponentials and inverses.  This file imports nothing of the package and decides
nothing about attention; with `scope`, `rules` and `checker` it is all that a proof has to be believed for.

Conventions: every domain has at least one position; the inverse of zero is zero, as in proof assistants.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, TypeVar


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
    """The ``number``-th factor of a position in a product domain.

    The position may belong to another product of the same size: such a raw reshape keeps its row-major place.
    """

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


Index = Var | At | Join | Part | Inj | Perm


def join(domain: Domain, parts: tuple[Index, ...]) -> Index:
    """``(part 0 of i, part 1 of i, ...)`` is ``i``."""
    first = parts[0]
    if isinstance(first, Part) and equal(parts, tuple(Part(first.index, domain, n) for n in range(len(parts)))):
        return first.index
    return Join(domain, parts)


def part(index: Index, domain: Domain, number: int) -> Index:
    """Part ``number`` of ``(r, j)`` is ``r`` or ``j``; with fixed sizes it is computed."""
    if isinstance(index, Join) and equal(index.domain.factors, domain.factors):
        return index.parts[number]
    place, sizes = fixed_number(index), _fixed_sizes(domain.factors)
    return Part(index, domain, number) if place is None or not sizes else At(_digits(place, sizes)[number])


def perm(name: str, inverse: bool, index: Index) -> Index:
    """A bijection undoes its inverse."""
    if isinstance(index, Perm) and index.name == name and index.inverse != inverse:
        return index.index
    return Perm(name, inverse, index)


def fixed_number(index: Index) -> int | None:
    """The number of a position that is fixed; the first factor of a product is the slowest."""
    if not isinstance(index, Join):
        return index.number if isinstance(index, At) else None
    places = [place for place in map(fixed_number, index.parts) if place is not None]
    sizes = _fixed_sizes(index.domain.factors)
    return _flat(places, sizes) if sizes and len(places) == len(index.parts) else None


def _fixed_sizes(domains: tuple[Domain, ...]) -> list[int]:
    """The sizes if all are numbers, else none."""
    sizes = [int(one.size.value) for one in domains if isinstance(one.size, Num)]
    return sizes if len(sizes) == len(domains) else []


def _flat(places: list[int], sizes: list[int]) -> int:
    return reduce(lambda number, pair: number * pair[1] + pair[0], zip(places, sizes, strict=True), 0)


def _digits(number: int, sizes: list[int]) -> list[int]:
    *outer, last = sizes
    return [*(_digits(number // last, outer) if outer else []), number % last]


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
Node = TypeVar("Node", bound=Term | Index)


def sum_over(var: Var, body: Term) -> Bind:
    """The sum of the body over a variable."""
    return Bind("sum", var, body)


def children(term: Term) -> tuple[Term, ...]:
    """The scalar terms directly inside."""
    if isinstance(term, (Add, Mul)):
        return term.args
    return fields(term)[-1:] if isinstance(term, (Bind, Apply)) else ()


def rebuild(term: Term, inside: tuple[Term, ...]) -> Term:
    """The same term around other children."""
    if isinstance(term, (Add, Mul)):
        return type(term)(inside)
    made: Term = type(term)(*fields(term)[:-1], *inside) if inside else term
    return made


def at_path(term: Term, path: tuple[int, ...]) -> Term:
    """The subterm at a path of child numbers."""
    for step in path:
        if not 0 <= step < len(inside := children(term)):
            raise TermError(f"no child {step}")
        term = inside[step]
    return term


def put_path(term: Term, path: tuple[int, ...], new: Term) -> Term:
    """The term with the subterm at a path replaced."""
    if not path:
        return new
    inside = list(children(term))
    inside[path[0]] = put_path(at_path(term, path[:1]), path[1:], new)
    return rebuild(term, tuple(inside))


# ---------------------------------------------------------------- variables


def fields(node: Any) -> tuple[Any, ...]:
    """What a node is made of, in order; a tuple is made of its items."""
    return node if isinstance(node, tuple) else tuple([getattr(node, name) for name in node.__slots__])


@lru_cache(maxsize=1 << 16)
def free(node: Any) -> frozenset[str]:
    """Names of the free variables of a term or a position."""
    match node:
        case Var(name, _):
            return frozenset((name,))
        case Bind(_, var, body):
            return free(body) - {var.name}
        case _ if type(node) in _CLOSED:
            return frozenset()
    return frozenset().union(*map(free, fields(node)))


def subst(node: Node, new: Mapping[str, Index]) -> Node:
    """A term or a position with free variables replaced; a bound variable that would capture is renamed.

    Positions are simplified by `join`, `part` and `perm`.
    """
    put: Any = _put(node, new)
    return put  # type: ignore[no-any-return]


def _put(node: Any, new: Mapping[str, Index]) -> Any:
    match node:
        case Var(name, _):
            return new.get(name, node)
        case Bind(op, _, _):
            new = {name: index for name, index in new.items() if name in free(node)}
            bind = rename_apart(node, free(tuple(new.values())))
            return Bind(op, bind.var, _put(bind.body, new))
        case _ if not new or type(node) in _CLOSED:
            return node
    made: Any = _MADE.get(type(node), type(node))
    return made(*[_put(one, new) for one in fields(node)])


_MADE: dict[type, Any] = {Join: join, Part: part, Perm: perm, tuple: lambda *items: items}
_CLOSED = (str, int, bool, Fraction, Domain)  # what has no variable in it


def fresh_var(var: Var, taken: Set[str]) -> Var:
    """A variable of the same domain with a name that is not taken."""
    stem, number = var.name.rstrip("0123456789"), 1
    while f"{stem}{number}" in taken:
        number += 1
    return Var(f"{stem}{number}", var.domain)


def rename_apart(bind: Bind, taken: Set[str]) -> Bind:
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


def key(node: Any, env: Mapping[str, str] | None = None, depth: int = 0) -> str:
    """A text equal only for terms or positions equal up to bound names, order and grouping of sums and products.

    A bound variable goes by its label in ``env``; ``depth`` are the binders outside.
    """
    match node:
        case Var(name, domain):
            return env[name] if env and name in env else f"{name!r}{domain_key(domain)}"
        case _ if type(node) in _CLOSED:
            return domain_key(node) if isinstance(node, Domain) else repr(node)
        case tuple():
            return f"[{','.join([key(one, env, depth) for one in node])}]"
        case Add() | Mul():
            keys = sorted(key(arg, env, depth) for arg in flat_args(node))
            return keys[0] if len(keys) == 1 else f"{type(node).__name__}({','.join(keys)})"
        case Bind(op, var, body):
            inner = {**(env or {}), var.name: f"#{depth}"}
            return f"B{op!r}{domain_key(var.domain)}({key(body, inner, depth + 1)})"
    return f"{type(node).__name__}({','.join([key(one, env, depth) for one in fields(node)])})"


def flat_args(term: Term, kind: type | None = None) -> tuple[Term, ...]:
    """The arguments of a sum or product with nested ones of the same kind opened; any other term is itself one.

    A ``kind`` says which of the two a term is read as: its addends or its factors.
    """
    kind = kind or type(term)
    if not isinstance(term, (Add, Mul)) or not isinstance(term, kind):
        return (term,)
    return tuple(one for arg in term.args for one in flat_args(arg, kind))


def equal(left: Any, right: Any) -> bool:
    """Whether two terms or positions are equal up to bound names, order and grouping."""
    return key(left) == key(right)
