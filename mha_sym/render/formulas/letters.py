"""The letters of bound positions: the ones that the field uses, and no letter twice where it would mislead.

Defines `FAMILIES`, the letters for axes alike, and `tidy`, which chooses among them and drops factors 1.  What
positions mean is said in `mha_sym.render.vocabulary`.
"""

from __future__ import annotations

from operator import is_

from mha_sym.proof.meaning import LETTERS
from mha_sym.proof.rules import product
from mha_sym.proof.terms import ONE, Bind, Mul, Num, Size, Term, Var, children, free, rebuild, subst

#: letters for positions in axes alike, by the first of them
FAMILIES = {letters[0]: letters for letters in LETTERS.values()}


def tidy(term: Term, taken: frozenset[str] = frozenset()) -> Term:
    """The same term, no bound position called like one around it or like one in ``taken``, none ``m1``, no factor 1.

    Sizes and numbers stand in front of sums and not inside.

    Example:
        >>> from mha_sym.proof.meaning import domain
        >>> from mha_sym.axes import axis
        >>> from mha_sym.proof.terms import Entry
        >>> s = Var("s", domain(axis("s", "S")))
        >>> tidy(Bind("max", s, Entry("E", (s,))), frozenset("s")).var.name
        'u'
    """
    return _tidied(term, taken | free(term))


def _tidied(term: Term, taken: frozenset[str]) -> Term:
    """The same where all that is free in the term is taken; parts in which nothing is renamed stay the same objects."""
    if not isinstance(term, Bind):
        inside = children(term)
        told = tuple([_tidied(child, taken) for child in inside])
        if isinstance(term, Mul) and ONE in told:
            return product([one for one in told if one != ONE])
        return term if all(map(is_, told, inside)) else rebuild(term, told)
    var, body = term.var, term.body
    if var.name in taken or var.name[-1:].isdigit():
        letters = (*FAMILIES.get(var.domain.name, (var.domain.name,)), var.name)
        name = next((letter for letter in letters if letter not in taken), "") or _numbered(var.domain.name, taken)
        var = Var(name, var.domain)
        body = subst(body, {term.var.name: var})
    body = _tidied(body, taken | {var.name})
    if term.op == "sum" and isinstance(body, Mul):
        return _sizes_first(var, body)
    return term if body is term.body and var is term.var else Bind(term.op, var, body)


def _sizes_first(var: Var, body: Mul) -> Term:
    """A sum with the sizes and numbers of its summand in front, if there is anything else in that."""
    outside = [one for one in body.args if isinstance(one, Num | Size)]
    inside = [one for one in body.args if not isinstance(one, Num | Size)]
    if not outside or not inside:
        return Bind("sum", var, body)
    return Mul((*outside, Bind("sum", var, product(inside))))


def _numbered(letter: str, used: frozenset[str]) -> str:
    number = 1
    while f"{letter}{number}" in used:
        number += 1
    return f"{letter}{number}"
