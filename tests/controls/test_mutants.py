"""A sample of the mutants of every theorem: none is proved by one engine and denied by another."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest

from mha_sym.library import load, theorem_names
from tests.controls.mutants import judged, mutants


@pytest.mark.parametrize("name", theorem_names())
def test_mutants_are_refuted_or_equal(name: str) -> None:
    found = Counter(judged(mutant) for mutant in islice(mutants(load(name), Random(name)), 5))
    assert set(found) <= {"refuted", "equal", "refused", "undecided", "denied by the field alone"}
    assert found["undecided"] + found["denied by the field alone"] <= 1
