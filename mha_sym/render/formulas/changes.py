"""What a step changed: the places at which a line differs from the line before it.

Defines `changed`, which compares two terms, `Keys`, by which it knows equal ones, and `marked`, which makes the objects
at some places of a term its own, so that a writer can tell them from equal ones elsewhere.  How a change is shown is
decided by the renderers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields

from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Mul,
    Term,
    at_path,
    children,
    domain_key,
    flat_args,
    key,
    put_path,
    subst,
)

Path = tuple[int, ...]


class Keys:
    """Remembers what `mha_sym.proof.terms.key` says of terms, for as long as it lives: lines share most of their parts.

    Example:
        >>> from mha_sym.proof.terms import ONE
        >>> Keys()(ONE) == key(ONE)
        True
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Term, str]] = {}

    def __call__(self, term: Term) -> str:
        """The key of a term; the term is kept, so that no other object is taken for it."""
        found = self._known.get(id(term))
        if found is None:
            found = self._known[id(term)] = (term, key(term))
        return found[1]


def changed(before: Term, after: Term, keys: Keys | None = None) -> tuple[Path, ...]:
    """Paths into ``after`` of the smallest parts that are new; the empty path alone if all of it is.

    Factors and addends are compared whatever their order, and positions that are bound whatever their name.

    Args:
        before: a line.
        after: the line after it.
        keys: what is remembered of other lines.

    Example:
        >>> from mha_sym.proof.terms import Entry
        >>> a, b, c = (Entry(name, ()) for name in "abc")
        >>> changed(Mul((a, b)), Mul((a, c)))
        ((1,),)
        >>> changed(a, b), changed(Add((a, b)), Add((b, a)))
        (((),), ())
    """
    keys = Keys() if keys is None else keys
    return () if keys(before) == keys(after) else _changed(before, after, keys)


def _changed(before: Term, after: Term, keys: Keys) -> tuple[Path, ...]:
    """The paths, if the terms are not the same."""
    match before, after:
        case Bind(op, var, body), Bind(other, new, inner) if op == other and _alike(before, after):
            return _below(_changed(subst(body, {var.name: new}) if var.name != new.name else body, inner, keys))
        case Apply(name, arg), Apply(other, inner) if name == other:
            return _below(_changed(arg, inner, keys))
        case _, Add() | Mul():
            return _among(flat_args(before) if type(before) is type(after) else (before,), after, keys)
        case _:
            return ((),)


def _alike(before: Bind, after: Bind) -> bool:
    """Whether both bind a position of the same axis."""
    return domain_key(before.var.domain) == domain_key(after.var.domain)


def _below(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Places inside the only child; if all of the child is new, so is what holds it and nothing else."""
    return ((),) if list(paths) == [()] else tuple((0, *path) for path in paths)


def _among(old: Sequence[Term], after: Term, keys: Keys) -> tuple[Path, ...]:
    """The factors or addends of ``after`` that are not among the old ones, or what is new in them."""
    texts, args = list(map(keys, old)), list(_flat(after, type(after)))
    known = Counter(texts)
    new: list[tuple[Path, Term]] = []
    for path, arg in args:
        text = keys(arg)
        if known[text]:
            known[text] -= 1
        else:
            new.append((path, arg))
    gone = [arg for text, arg in zip(texts, old, strict=True) if known[text] > 0 and not known.subtract([text])]
    if not new or len(new) == len(args) != len(gone):
        return ((),)
    if len(gone) != len(new):
        return tuple(path for path, _ in new)
    found = [(path, _changed(was, arg, keys)) for was, (path, arg) in zip(gone, new, strict=True)]
    paths = tuple((*path, *inner) for path, inside in found for inner in inside)
    whole = all(list(inside) == [()] for _, inside in found)
    return ((),) if whole and len(new) == len(args) else paths


def _flat(term: Term, kind: type[Term], path: Path = ()) -> Iterator[tuple[Path, Term]]:
    """Factors or addends with their places, nested ones opened."""
    if not isinstance(term, kind):
        yield path, term
        return
    for n, child in enumerate(children(term)):
        yield from _flat(child, kind, (*path, n))


def marked(term: Term, paths: Sequence[Path]) -> tuple[Term, frozenset[int]]:
    """The same term, and the ids of the objects at the places, which stand nowhere else in it.

    An inverse is marked by what stands below its line, since that is what is written.

    Example:
        >>> from mha_sym.proof.terms import Entry
        >>> a = Entry("a", ())
        >>> found, ids = marked(Mul((a, a)), [(1,)])
        >>> [id(arg) in ids for arg in found.args]
        [False, True]
    """
    places = []
    for path in paths:
        place = at_path(term, path)
        while isinstance(place, Apply) and place.name == "inv":
            path, place = (*path, 0), place.arg
        term = put_path(term, path, _copy(place))
        places.append(path)
    return term, frozenset(id(at_path(term, path)) for path in places)


def _copy(term: Term) -> Term:
    return type(term)(*(getattr(term, one.name) for one in fields(term)))
