"""The search and the checker alone, without refuting first, must not prove a single control."""

from __future__ import annotations

import pytest

from mha_sym.library import load, theorem_names
from mha_sym.proof.checker import Certificate, check
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.prover import prove_goal
from mha_sym.proof.theorem import Claim, Theorem


def proved_by_search(theorem: Theorem, claim: Claim) -> bool:
    meaning = Meaning()
    for assumption in theorem.assumptions:
        if assumption.positive is not None:
            meaning.assume_positive(assumption.positive)
    for goal in goals(meaning, claim.name, claim.left, claim.right):
        result = prove_goal(goal, meaning.context())
        if not isinstance(result, Certificate):
            return False
        check(result, meaning.context())
    return True


@pytest.mark.parametrize("name", theorem_names())
def test_no_control_is_proved_by_search_alone(name: str) -> None:
    theorem = load(name)
    assert theorem.controls
    proved = [c.name for c in theorem.controls if proved_by_search(theorem, c)]
    assert not proved


@pytest.mark.parametrize("name", theorem_names())
def test_every_claim_is_proved_on_its_own(name: str) -> None:
    """Lemmas shorten proofs; no claim needs them, so a wrong lemma could not be what carries a theorem."""
    theorem = load(name)
    undecided = [c.name for c in theorem.claims if not proved_by_search(theorem, c)]
    assert not undecided
