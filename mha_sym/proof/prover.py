"""Proving a theorem: goals from claims, certificates from search, verdicts from the checker alone.

Defines `prove_goal`, `prove_claim` and `prove`.  A verdict of proved is given only after the trusted
checker has replayed the certificate.
"""

from __future__ import annotations

import time
from dataclasses import replace

from mha_sym.proof.checker import Certificate, Goal, check
from mha_sym.proof.normal import Normaliser
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Entry, Term, children, equal


def heights(context: Context) -> dict[str, int]:
    """How many definitions stand below each defined name."""
    found: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in found:
            below = _names(context.definitions[name].body) & set(context.definitions)
            found[name] = 1 + max((height(n) for n in below), default=0)
        return found[name]

    for name in context.definitions:
        height(name)
    return found


def _names(term: Term) -> set[str]:
    if isinstance(term, Entry):
        return {term.name}
    return {name for child in children(term) for name in _names(child)}


def prove_goal(goal: Goal, context: Context) -> Certificate | tuple[Term, Term]:
    """A certificate, not yet checked, or the two normal forms that differ.

    Definitions are opened one height at a time, those first that only one side mentions: what both sides
    share stays folded as long as possible, and is never opened when it need not be.
    """
    height = heights(context)
    opened: frozenset[str] = frozenset()
    while True:
        sides = [Normaliser(context, opened), Normaliser(context, opened)]
        left, right = sides[0].run(goal.left), sides[1].run(goal.right)
        if equal(left, right):
            return Certificate(goal, tuple(sides[0].steps), tuple(sides[1].steps))
        shut = [_names(side) & set(height) - opened for side in (left, right)]
        choice = (shut[0] ^ shut[1]) or (shut[0] | shut[1])
        if not choice:
            return left, right
        top = max(height[name] for name in choice)
        opened |= {name for name in choice if height[name] == top}
