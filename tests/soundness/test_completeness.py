"""A sample of random rewrites: what is true is proved, 99 times in a hundred; and no other engine knows the prover."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.proof.random_exprs import RULES
from tests.soundness.completeness import tried
from tests.soundness.rewrites import MORE

ROOT = Path(__file__).parents[2]


def test_rewrites_are_proved_and_every_kind_is_among_them() -> None:
    found = [tried(seed) for seed in range(150)]
    assert Counter(one.verdict for one in found)["proved"] >= 0.99 * len(found), [
        (one.seed, one.verdict) for one in found if one.verdict != "proved"
    ]
    used = {name for one in found for name in one.rewrites}
    assert len(used) >= 0.8 * (len(RULES) + len(MORE)), used


@pytest.mark.parametrize("module", ["field", "witness", "refute"])
def test_no_other_engine_loads_the_prover_or_its_checker(module: str) -> None:
    """They share the language and the statement of a theorem, and nothing that could be wrong in both."""
    code = f"import sys, mha_sym.proof.{module}; print(*(n for n in sys.modules if n.startswith('mha_sym.proof.')))"
    line = [sys.executable, "-c", code]
    found = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
    loaded = {name.removeprefix("mha_sym.proof.") for name in found}
    kernel = {"terms", "rules", "scope", "checker", "meaning", "normal", "rewrite", "order", "monomial", "cancelling"}
    assert "theorem" in loaded
    assert not loaded & (kernel | {"prover", "reader", "schema"})


@pytest.mark.parametrize("module", ["normal", "meaning", "checker", "recheck"])
def test_search_and_checker_load_no_other_engine(module: str) -> None:
    """Else a fault could be in both after all."""
    code = f"import sys, mha_sym.proof.{module}; print(*(n for n in sys.modules if n.startswith('mha_sym.')))"
    line = [sys.executable, "-c", code]
    found = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
    loaded = {name.rpartition(".")[2] for name in found}
    others = {"field", "field_facts", "field_nodes", "exponential_sums", "denominators", "exp_rational", "deferred"}
    assert not loaded & (others | {"witness", "refute", "balls", "evaluate", "compute"})
