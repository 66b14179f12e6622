"""A sample of forged certificates; and that what is false would be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from mha_sym.axes import axis
from mha_sym.expr import Input, Reduce, Softmax
from mha_sym.proof.certificate_file import statement
from mha_sym.proof.theorem import Assumption, Claim, Theorem
from tests.soundness import fields, forged

FOUR = ("softmax_rows_sum_to_one", "score_entries_and_costs", "split_columns_inverse_join_columns", "parameter_count")
T, S = axis("t", "T"), axis("s", "S")
KEEP = Input("keep", (T, S), "mask", True)


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(forged, "theorem_names", lambda: FOUR)
    forged.certificates.cache_clear()
    yield
    forged.certificates.cache_clear()


@pytest.mark.usefixtures("four")
def test_what_is_accepted_is_true() -> None:
    found = Counter(verdict for _, verdict in map(forged.tried, range(200)))
    assert set(found) <= {"unreadable", "rejected", "accepted and true", "accepted, not evaluated"}, found
    assert min(found["rejected"], found["accepted and true"]) > 5, found


@pytest.mark.usefixtures("four")
def test_no_field_can_be_changed_unnoticed() -> None:
    fields.fields.cache_clear()
    found = Counter(fields.tried(place)[2] for place in islice(fields.every(), 200))
    assert not set(found) & set(fields.FAULTS), found
    assert min(found["rejected"], found["unreadable"], found["another statement"]) > 5, found
    fields.fields.cache_clear()


def false(left: Reduce | Input, right: Reduce | Input, *assumed: Assumption) -> str:
    return forged.false_goal(statement(Theorem("x", "", "", (Claim("x", left, right),), assumptions=assumed)))


def test_a_false_statement_is_seen() -> None:
    x, y = Input("x", (T,)), Input("y", (T,))
    assert false(x, y) == "x"
    assert false(x, x) == ""


def test_a_statement_is_false_only_where_its_assumptions_hold() -> None:
    rows = Reduce("sum", Softmax(Input("x", (T, S)), (S,), KEEP), (S,))
    ones = Reduce("max", Input("one", (T, S), "mask", True), (S,))
    every = Assumption("all ones", Input("one", (T, S), "mask", True))
    kept = Assumption("a key is kept", KEEP)
    assert false(rows, ones) == "x"
    assert false(rows, ones, every, kept) == ""


def test_evaluation_gives_up_on_what_has_no_sizes() -> None:
    stated = statement(Theorem("x", "", "", (Claim("x", Input("x", (T,)), Input("y", (T,))),)))
    goal = stated.goals[0]
    halves = replace(goal.variables[0], domain=replace(goal.variables[0].domain, size=replace(
        goal.variables[0].domain.size, power=goal.variables[0].domain.size.power / 2)))  # fmt: skip
    assert forged.false_goal(replace(stated, goals=(replace(goal, variables=(halves,)),))) == ""
