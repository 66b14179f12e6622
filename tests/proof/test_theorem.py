"""What a report makes of its outcomes."""

from __future__ import annotations

from itertools import product

import pytest

from mha_sym.axes import axis
from mha_sym.expr import Input
from mha_sym.proof.checker import Certificate, Goal, Step
from mha_sym.proof.terms import ONE
from mha_sym.proof.theorem import Claim, Control, Outcome, Report, Theorem, Verdict

X = Input("x", (axis("t"),))
CLAIM, CONTROL = Claim("same", X, X), Control("twice", X, X * 2, "One side is doubled.")
PROVED, REFUTED, UNDECIDED = Verdict.PROVED, Verdict.REFUTED, Verdict.UNDECIDED


def report(claims: tuple[Verdict, ...], controls: tuple[Verdict, ...] = ()) -> Report:
    theorem = Theorem("t", "", "", (CLAIM,) * len(claims), (CONTROL,) * len(controls))
    rows = [tuple(Outcome(of, one, 0.0) for one in found) for of, found in ((CLAIM, claims), (CONTROL, controls))]
    return Report(theorem, rows[0], rows[1], 0.0)


@pytest.mark.parametrize("found", list(product(Verdict, repeat=2)))
def test_a_theorem_is_proved_only_if_every_claim_is(found: tuple[Verdict, Verdict]) -> None:
    expected = REFUTED if REFUTED in found else PROVED if set(found) == {PROVED} else UNDECIDED
    assert report(found).verdict is expected
    assert report(found).holds is (expected is PROVED)


def test_nothing_claimed_is_nothing_proved() -> None:
    assert report(()).verdict is UNDECIDED
    assert not report(()).holds


def test_it_holds_if_every_control_is_refuted() -> None:
    assert report((PROVED,), (REFUTED, REFUTED)).holds
    for one in (PROVED, UNDECIDED):
        found = report((PROVED,), (REFUTED, one))
        assert (found.refuted, found.holds, found.verdict) == (1, False, PROVED)


def test_steps_of_both_sides_are_counted() -> None:
    step, goal = Step("arithmetic", ()), Goal("g", (), ONE, ONE)
    outcome = Outcome(CLAIM, PROVED, 0.0, (Certificate(goal, (step,) * 3, (step,)), Certificate(goal, (), (step,))))
    assert outcome.steps == 5
    assert Report(Theorem("t", "", "", (CLAIM,)), (outcome, outcome), (), 0.0).steps == 10
