"""Every mistake of the catalogue, made by hand in NumPy: refuted for symbolic sizes, and never proved."""

from __future__ import annotations

import pytest

from mha_sym.audit.faults import faults
from mha_sym.audit.prove_code import prove_code
from mha_sym.proof.theorem import Verdict
from tests.audit.implementations import implementation

NAMED = [one.name for one in faults() if not one.random and "groups" not in one.needs]

#: code that asks whether some entries of a mask are infinite, or whether projections are positive, or that calls the
#: error function: outside of the vocabulary
NOT_FOLLOWED = {
    "relu_on_queries", "relu_on_keys", "relu_on_values", "relu_on_projections", "relu_on_output",
    "relu_on_projections_and_output", "gelu_on_projections",
    "mask_scaled_too", "masks_transposed", "masks_ignored", "additive_mask_ignored", "additive_mask_transposed",
    "additive_mask_subtracted", "additive_mask_multiplied", "mask_added_after_softmax",
}  # fmt: skip
#: code that is read, and has rows without keys where the specification has some: no value there to compare
EMPTY_ROWS = {"causal_hides_diagonal_rows_zero"}


@pytest.mark.parametrize("name", NAMED)
def test_a_mistake_is_refuted_and_never_proved(name: str) -> None:
    found = prove_code(implementation(name))
    if name in NOT_FOLLOWED:
        assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    elif name in EMPTY_ROWS:
        assert found.verdict is Verdict.UNDECIDED and found.problem is None
    else:
        assert found.verdict is Verdict.REFUTED, found.problem
