"""Definitions as they are shown: ``C[b, t, r d_v + j] = Z[b,r,t,j]``, and no quotients and remainders of one position.

Defines `shown_definition`, and `coordinates`, the letters of the positions that a joined one is made of.
"""

from __future__ import annotations

from collections.abc import Iterable

from mha_sym.proof.rules import Definition
from mha_sym.proof.terms import (
    ONE,
    At,
    Cmp,
    Domain,
    Entry,
    Index,
    Perm,
    Term,
    Var,
    children,
    free,
    join,
    subst,
)
from mha_sym.render.formulas.letters import FAMILIES, tidy


def shown_definition(name: str, definition: Definition) -> tuple[Entry, Term]:
    """Both sides of a definition.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> from mha_sym.proof.meaning import domain
        >>> from mha_sym.proof.terms import Part
        >>> c = Var("c", domain(product(axis("h"), axis("k", "d_k"))))
        >>> body = Entry("Z", (Part(c, c.domain, 0), Part(c, c.domain, 1)))
        >>> entry, body = shown_definition("C", Definition((c,), body))
        >>> [var.name for var in entry.at[0].parts], [var.name for var in body.at]
        (['r', 'j'], ['r', 'j'])
    """
    entry = Entry(name, definition.params)
    return _opened(entry, tidy(definition.body, free(entry)))


def coordinates(domains: Iterable[Domain], taken: frozenset[str] = frozenset()) -> list[Var]:
    """A position in each domain, called otherwise than those ``taken``."""
    found: list[Var] = []
    for one in domains:
        letters = (*FAMILIES.get(one.name, (one.name,)), f"{one.name}1", f"{one.name}2")
        used = taken | {v.name for v in found}
        found.append(Var(next(n for n in letters if n not in used), one))
    return found


def _opened(entry: Entry, body: Term) -> tuple[Entry, Term]:
    """The definition with ``r d_k + j`` for a joined position that its body takes apart into r and j."""
    taken = free(entry) | free(body)
    new: dict[str, Index] = {}
    for one in entry.at:
        if isinstance(one, Var) and _takes_apart(body, one):
            parts = [At(0) if part.domain.size == ONE else part for part in coordinates(one.domain.factors, taken)]
            new[one.name] = join(one.domain, tuple(parts))
            taken |= {part.name for part in parts if isinstance(part, Var)}
    shown = subst(entry, new)
    assert isinstance(shown, Entry)
    return shown, tidy(subst(body, new), free(shown)) if new else body


def _takes_apart(term: Term, whole: Var) -> bool:
    """Whether coordinates of a joined position occur in a term."""
    found = isinstance(term, Entry) and any(whole.name in free(one) and not _is_plain(one) for one in term.at)
    if isinstance(term, Cmp):
        found = any(whole.name in free(one) and not _is_plain(one) for one in (term.left, term.right))
    return bool(whole.domain.factors) and (found or any(_takes_apart(child, whole) for child in children(term)))


def _is_plain(index: Index) -> bool:
    """Whether a position is a letter, or the image of one."""
    return isinstance(index.index if isinstance(index, Perm) else index, Var)
