"""What random rewrites and mutants once brought up: what is proved since, and what is true and not proved, with why."""

from __future__ import annotations

import pytest

from mha_sym.axes import axis
from mha_sym.expr import Compare, Expr, Input, Map, Reduce, Reshape, Softmax, Transpose
from mha_sym.proof.field import confirm
from mha_sym.proof.meaning import Meaning
from mha_sym.proof.prover import Prover
from mha_sym.proof.theorem import Claim, Theorem, Verdict
from tests.controls.mutants import proved_equal

T, S, H, ONE = axis("t", "T"), axis("s", "T"), axis("h"), axis("v", 1)
X, KEEP = Input("x", (T, S)), Input("keep", (T, S), "mask", True)
EARLIER = Compare("le", S, T)


@pytest.mark.parametrize("inner", [Map("neg", (X,)), X * 2, X], ids=["negated", "doubled", "itself"])
@pytest.mark.parametrize("keep", [None, KEEP], ids=["all", "masked"])
def test_any_maximum_may_be_subtracted(inner: Expr, keep: Expr | None) -> None:
    """The search took the maximum of what has a number in front for a sum, and gave up."""
    claim = Claim("maximum", Softmax(X - Reduce("max", inner, (S,)), (S,), keep), Softmax(X, (S,), keep))
    assert proved_equal(claim, Meaning(), {})


def test_a_reshape_across_an_axis_of_one_position_is_a_transposition() -> None:
    """Its position stayed in quotients and remainders, where it is not known to be 0."""
    given = Input("x", (H, ONE))
    assert proved_equal(Claim("size one", Reshape(given, (ONE, H)), Transpose(given, (ONE, H))), Meaning(), {})


NOT_PROVED = {
    # no law says that an order with room holds where one without does
    "offset": (Map("mul", (EARLIER, Compare("le", S, T, 1))), EARLIER),
    "strict": (Map("mul", (EARLIER, Compare("lt", S, T))), Compare("lt", S, T)),
}


@pytest.mark.parametrize("name", NOT_PROVED)
def test_what_is_true_and_not_proved_is_undecided(name: str) -> None:
    """Told as undecided, and never refuted.  If one of these is proved some day, it goes to the test above."""
    claim = Claim(name, *NOT_PROVED[name])
    assert confirm(claim).agrees
    assert Prover(Theorem(name, "", "", (claim,))).claim(claim).verdict is Verdict.UNDECIDED
