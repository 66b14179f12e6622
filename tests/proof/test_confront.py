"""What the other engines say of a proved claim: a denial is a fault and stops everything, an abstention is kept."""

from __future__ import annotations

import pytest

from mha_sym.axes import axis
from mha_sym.errors import TheoremProblem
from mha_sym.expr import Input, Map, Reduce, Repeat, as_expr
from mha_sym.proof import prover, witness
from mha_sym.proof.field import FieldResult
from mha_sym.proof.prover import Prover, ProverFault, prove
from mha_sym.proof.theorem import Assumption, Claim, Control, Theorem, Verdict
from mha_sym.proof.witness import WitnessResult

x = Input("x", (axis("t"),))
TRUE = Theorem("twice", "", "", (Claim("twice", x + x, x * 2),))


def test_all_engines_agree_on_a_true_claim() -> None:
    (outcome,) = prove(TRUE).claims
    assert outcome.verdict is Verdict.PROVED
    assert len(outcome.rechecked) == 2
    assert 0 < outcome.bound < 1e-9
    assert outcome.detail == ""


def test_a_denial_by_the_finite_fields_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover.Points, "confirm", lambda *_: FieldResult(False, (), 1.0, "the sides differ at t=1"))
    with pytest.raises(ProverFault, match=r"proved, but the engine of finite fields denies it: the sides"):
        prove(TRUE)


def test_a_denial_by_sympy_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness.Witness, "recheck", lambda *_: WitnessResult(False, (), "at t=2: x[0]"))
    with pytest.raises(ProverFault, match=r"proved, but SymPy at explicit sizes denies it: at t=2"):
        prove(TRUE)
    assert prove(TRUE, recheck=False).verdict is Verdict.PROVED


def test_abstentions_are_kept_and_do_not_count_as_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover.Points, "confirm", lambda *_: FieldResult(None, (), 1.0, "out of reach"))
    monkeypatch.setattr(witness.Witness, "recheck", lambda *_: WitnessResult(None, ({"t": 2},), "too large"))
    (outcome,) = prove(TRUE).claims
    assert outcome.verdict is Verdict.PROVED
    assert outcome.rechecked == ()
    assert outcome.bound == 1.0
    assert outcome.detail == "not confirmed at random points: out of reach; not confirmed at explicit sizes: too large"


def test_only_theorems_are_proved() -> None:
    with pytest.raises(TheoremProblem, match="what is proved is a theorem") as refused:
        prove("twice")  # type: ignore[arg-type]
    assert refused.value.where == "prove"


def test_what_is_assumed_is_used() -> None:
    kept = Reduce("sum", Input("keep", (axis("t"), axis("s")), "mask", True), (axis("s"),))
    claim = Claim("kept", Map("mul", (kept, Map("inv", (kept,)))), Repeat(as_expr(1), kept.axes))
    (outcome,) = prove(Theorem("kept", "", "", (claim,), (), (Assumption("Some key.", kept),))).claims
    assert outcome.verdict is Verdict.PROVED and outcome.rechecked
    assert prove(Theorem("kept", "", "", (claim,))).verdict is not Verdict.PROVED


def test_only_claims_are_looked_at_by_sympy() -> None:
    """A control that holds is a mistake of whoever wrote it; what it costs to say so is little."""
    (claim,) = TRUE.claims
    report = prove(Theorem("twice", "", "", (claim,), (Control("twice", claim.left, claim.right),)))
    assert report.claims[0].rechecked and not report.controls[0].rechecked
    assert report.controls[0].verdict is Verdict.PROVED and not report.holds
    assert Prover(TRUE).recheck


def test_a_false_claim_is_refuted_though_no_counterexample_was_looked_for_first() -> None:
    (outcome,) = prove(Theorem("no", "", "", (Claim("no", x + x, x),))).claims
    assert outcome.verdict is Verdict.REFUTED
    assert outcome.counterexample is not None
