"""Which part of a line a step changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import pytest

from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Domain,
    Entry,
    Mul,
    Num,
    Size,
    Term,
    Var,
    at_path,
    children,
    key,
    put_path,
)
from mha_sym.proof.theorem import Report
from mha_sym.render.derivation import derivation
from mha_sym.render.formulas.changes import changed, marked

A, B, C, D = (Entry(name, ()) for name in "abcd")
S = Var("s", Domain("s", Size("S")))
U = Var("u", Domain("s", Size("S")))
T = Var("t", Domain("t", Size("T")))


def total(var: Var, body: Term) -> Bind:
    return Bind("sum", var, body)


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        (A, A, ()),
        (A, B, ((),)),
        (Mul((A, B)), Mul((B, A)), ()),
        (Mul((A, B)), Mul((A, C)), ((1,),)),
        (Mul((A, B)), Mul((C, A)), ((0,),)),
        (Mul((A, A)), Mul((A, B)), ((1,),)),
        (Mul((A, Mul((B, C)))), Mul((A, Mul((B, D)))), ((1, 1),)),
        (Mul((A, B)), Mul((C, D)), ((),)),
        (A, Mul((A, B)), ((1,),)),
        (Mul((A, B)), A, ((),)),
        (Mul((A, B, C)), Mul((A, B)), ((),)),
        (Add((A, B)), Add((A, C, D)), ((1,), (2,))),
        (Add((A, Mul((B, C)))), Add((A, Mul((B, D)))), ((1, 1),)),
        (Apply("exp", A), Apply("exp", B), ((),)),
        (Apply("exp", Mul((A, B))), Apply("exp", Mul((A, C))), ((0, 1),)),
        (Apply("exp", A), Apply("inv", A), ((),)),
        (total(S, Entry("x", (S,))), total(U, Entry("x", (U,))), ()),
        (total(S, Mul((A, Entry("x", (S,))))), total(U, Mul((B, Entry("x", (U,))))), ((0, 0),)),
        (total(S, Entry("x", (S,))), total(T, Entry("x", (T,))), ((),)),
        (Mul((Num(Fraction(2)), A)), Add((A, A)), ((),)),
    ],
)
def test_changed(before: Term, after: Term, places: tuple[tuple[int, ...], ...]) -> None:
    assert changed(before, after) == places


def names(term: Term, hidden: tuple[tuple[int, ...], ...] = ()) -> Counter[str]:
    """How often each tensor is named outside some places."""
    for path in hidden:
        term = put_path(term, path, Num(Fraction(0)))
    if isinstance(term, Entry):
        return Counter([term.name])
    return sum((names(child) for child in children(term)), Counter())


def test_what_is_not_new_was_there_before(report: Report) -> None:
    for claim in derivation(report).claims:
        for proof in claim.proofs:
            for before, step in pairwise(proof.steps):
                assert names(step.term, step.changed) <= names(before.term)
                assert step.changed or key(before.term) == key(step.term)


def test_marked_objects_stand_nowhere_else() -> None:
    term = Add((A, Mul((A, Apply("inv", A)))))
    found, ids = marked(term, [(1, 0), (1, 1)])
    assert found == term
    places = [(0,), (1, 0), (1, 1), (1, 1, 0)]
    assert [id(at_path(found, place)) in ids for place in places] == [False, True, False, True]


def test_a_claim_that_is_used_changes_one_factor(proved: Callable[[str], Report]) -> None:
    claims = derivation(proved("combined_projection_eq_separate_heads")).claims
    step = next(step for step in claims[3].proofs[0].steps if step.subject == "Q")
    assert [at_path(step.term, path) for path in step.changed] == [claims[0].right]
