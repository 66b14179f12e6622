"""Every mistake of the catalogue, made by hand in NumPy: refuted for symbolic sizes, and never proved."""

from __future__ import annotations

import pytest

from mha_sym.audit.faults import faults
from mha_sym.audit.prove_code import prove_code
from mha_sym.proof.theorem import Verdict
from tests.audit.implementations import implementation

NAMED = [one.name for one in faults() if not one.random and "groups" not in one.needs]

#: code that picks entries by their values, or asks whether some are infinite: outside of the vocabulary
NOT_FOLLOWED = {
    "causal_hides_diagonal_but_first", "mask_scaled_too", "masks_transposed", "masks_ignored", "additive_mask_ignored",
    "additive_mask_transposed", "additive_mask_subtracted", "additive_mask_multiplied", "mask_added_after_softmax",
    "softmax_over_queries", "softmax_over_heads", "softmax_over_batch", "softmax_over_heads_and_keys",
    "causal_hides_diagonal_rows_zero", "mask_inverted_rows_zero",
    "softmax_over_queries_and_keys", "softmax_over_all", "softmax_over_everything",
    "softmax_over_batch_and_queries", "softmax_over_batch_and_heads",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_mistake_is_refuted_and_never_proved(name: str) -> None:
    found = prove_code(implementation(name))
    if name in NOT_FOLLOWED:
        assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    else:
        assert found.verdict is Verdict.REFUTED, found.problem
