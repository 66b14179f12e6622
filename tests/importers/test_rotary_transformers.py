"""The attention of the transformers package with rotary positions is proved for all batches, lengths and weights."""

from __future__ import annotations

import pytest

from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.report import proof_text
from mha_sym.audit.target import as_implementation
from mha_sym.proof.theorem import Verdict
from tests.importers.test_torch_transformers import MODULES

#: what each of them is found to be
CONVENTIONS = {
    "llama": ("llama", "rotary positions, halves (j with j + d_k/2)"),
    "mistral": ("llama", "rotary positions, halves (j with j + d_k/2)"),
    "qwen2": ("llama", "rotary positions, halves (j with j + d_k/2)"),
    "phi3": ("grouped_packed_linear", "rotary positions, halves (j with j + d_k/2)"),
    "neox": ("gpt_neox", "rotary positions on the first 2 features of a head, halves (j with j + 1)"),
    "falcon": ("falcon_7b", "rotary positions, halves (j with j + d_k/2)"),
}


@pytest.mark.parametrize("way", ["eager", "sdpa"])
@pytest.mark.parametrize("name", CONVENTIONS)
def test_module_with_rotary_positions_is_proved(name: str, way: str) -> None:
    layout, rotary = CONVENTIONS[name]
    found = prove_code(as_implementation(MODULES[name](way).eval(), name))
    assert found.verdict is Verdict.PROVED, proof_text(found)
    assert found.symbolic == ("B", "T") and not any(one.open for one in found.cases)
    assert found.layout.startswith(f"{layout}: ") and rotary in found.conventions
    # without a mask, sdpa is told to hide later keys, and eager code hides none
    assert ("causal by itself" in found.conventions) == (way == "sdpa")
    # falcon adds its mask without asking whether there is one
    assert any("handed over as zeros" in note for note in found.notes) == ((name, way) == ("falcon", "eager"))
