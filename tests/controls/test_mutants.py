"""A sample of the mutants of every theorem: none is proved by one engine and denied by another."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest

from mha_sym.library import load, theorem_names
from mha_sym.proof import rules
from tests.controls import mutants as engines
from tests.controls.mutants import EMPTY_ROWS, FAULTS, OPEN, answered, may_keep_nothing, mutants, sample


@pytest.mark.parametrize("name", theorem_names())
def test_mutants_are_refuted_or_equal(name: str) -> None:
    found = Counter(answered(mutant).verdict for mutant in islice(sample(load(name), Random(name)), 3))
    assert found.total() == 3
    assert not any(found[one] for one in FAULTS), found
    assert sum(found[one] for one in OPEN) <= 1, found


def test_there_are_thousands_and_no_two_alike() -> None:
    """Of one theorem of eighteen alone."""
    found = [one.claim for some in mutants(load("combined_layer_eq_separate_layer")).values() for one in some]
    assert len(found) == len(set(found)) > 5000


def test_engines_that_contradict_each_other_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would look like if the prover proved too much."""
    monkeypatch.setattr(engines, "proved_equal", lambda *_: True)
    some = islice(sample(load("split_transpose_join_is_identity"), Random(0)), 8)
    assert {answered(one).verdict for one in some} == {"contradiction"}


def test_rows_that_may_keep_nothing_are_told_apart() -> None:
    """A row of a mask of which nothing is assumed sums to one only where it has a value, and may have none."""
    theorem = load("softmax_rows_sum_to_one")
    some = [one for one in mutants(theorem)["other_input"] if one.claim.name == "masked_rows"]
    assert EMPTY_ROWS in {answered(one).verdict for one in some}
    assert not any(may_keep_nothing(claim, theorem) for claim in theorem.claims)


def test_a_law_that_is_too_good_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """If everything passed for positive, rows that may keep nothing would sum to one."""
    monkeypatch.setattr(rules, "is_positive", lambda *_: True)
    some = mutants(load("softmax_rows_sum_to_one"))["other_input"]
    assert "contradiction" in {answered(one).verdict for one in some}
