"""What an import may not do silently: freeze a size, leave sizes of 1 out, read numbers too kindly, skip empty rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mha_sym.audit.frameworks.onnx_files import from_onnx
from mha_sym.audit.functions import from_function
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving import imported as proof_import
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.report import assumptions
from mha_sym.audit.target import as_implementation
from mha_sym.errors import Problem, TargetProblem
from mha_sym.proof.theorem import Verdict
from tests.importers.test_onnx_proofs import LAYER, saved


def attention(x, w_q, w_k, w_v, w_o, heads, keep=None, scale=None):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores if keep is None else np.where(keep, scores, -np.inf)
    weights = np.exp(scores)
    z = weights / weights.sum(-1, keepdims=True) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def causal(x, w_q, w_k, w_v, w_o, heads):
    length = x.shape[1]
    return attention(x, w_q, w_k, w_v, w_o, heads, np.tril(np.ones((length, length), bool)))


def test_rows_without_a_key_are_a_condition_where_masks_are_any_and_none_where_they_are_causal() -> None:
    def masked(x, w_q, w_k, w_v, w_o, heads, keep):
        return attention(x, w_q, w_k, w_v, w_o, heads, keep)

    words = "every query keeps at least one key"
    assert any(words in one for one in assumptions(prove_code(from_function(masked))))
    found = prove_code(Implementation(call=causal, causal=True))
    assert found.verdict is Verdict.PROVED
    assert not any(words in one for one in assumptions(found))  # a query always has itself


def test_an_import_is_compared_with_the_code_at_sizes_of_one_and_at_sizes_apart() -> None:
    def plain(x, w_q, w_k, w_v, w_o, heads):
        return attention(x, w_q, w_k, w_v, w_o, heads)

    (case,) = prove_code(from_function(plain)).cases
    for name in ("B", "T", "h", "d_k"):
        assert any(sizes[name] == 1 for sizes in case.agreed), name
    apart = case.agreed[0]
    assert len({apart[name] for name in ("B", "T", "h", "d_k", "d_v", "d_model")}) == 6


def test_an_import_that_is_not_the_code_is_refused_before_anything_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(x, w_q, w_k, w_v, w_o, heads):
        return attention(x, w_q, w_k, w_v, w_o, heads)

    original = proof_import._front_end

    def other(impl: Implementation) -> Any:
        def read(_: Implementation, case: Any, statement: Any) -> Any:
            return original(impl)(Implementation(call=causal), case, statement)  # the graph of other code

        return read

    monkeypatch.setattr(proof_import, "_front_end", other)
    with pytest.raises(TargetProblem, match="does not give what the code gives"):
        prove_code(from_function(plain))


@pytest.mark.parametrize(("ulps", "reads"), [(0, True), (2, True), (40, False)])
def test_a_float_is_a_root_only_within_two_units_of_its_last_place_and_it_is_said(ulps: int, reads: bool) -> None:
    number = 6**-0.5
    for _ in range(ulps):
        number = float(np.nextafter(number, 1))

    def literal(x, w_q, w_k, w_v, w_o):
        return attention(x, w_q, w_k, w_v, w_o, 4, scale=number)

    found = prove_code(Implementation(call=literal, heads=4, d_k=6))
    said = [one for one in assumptions(found) if f"{number!r} read as sqrt(6)/6" in one]
    assert bool(said) is reads
    assert (found.verdict is Verdict.PROVED) is reads


def test_a_file_that_froze_a_length_is_not_proved_for_others(tmp_path: Path) -> None:
    frozen = LAYER.replace("[0,0,4,6]", "[3,5,4,6]")  # as exporters do that run code once
    assert frozen != LAYER
    with pytest.raises(Problem) as told:
        found = prove_code(from_onnx(saved(tmp_path, frozen)))
        assert found.verdict is not Verdict.PROVED
        raise found.problem or AssertionError("it says nothing of it")
    assert told.value.what


class Keeps(nn.Module):
    """A layer with a buffer that it may write."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.num_heads, self.way = 3, way
        self.qkv, self.out = nn.Linear(18, 54), nn.Linear(18, 18)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        if self.way == "in place":
            self.calls += 1
        if self.way == "anew":
            self.calls = self.calls + 1
        q, k, v = (one.view(*x.shape[:2], 3, 6).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / 6**0.5
        scores = scores if mask is None else scores + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(*x.shape[:2], 18))


@pytest.mark.parametrize("way", ["in place", "anew"])
def test_a_module_that_writes_its_buffer_is_not_proved(way: str) -> None:
    module = Keeps(way)
    found = prove_code(as_implementation(module), causal=False)
    assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    assert "writes" in found.problem.what and "\n" not in found.problem.one_line()
    assert type(module.calls) is torch.Tensor  # nothing of the trace is left in it


def test_a_mask_without_a_default_is_handed_over_and_proved_about() -> None:
    found = prove_code(as_implementation(Keeps("")))
    assert found.verdict is Verdict.PROVED
    assert [case.case for case in found.cases] == ["no mask", "causal (additive)"]
    assert "mask was handed over as None, where nothing else is said" in found.notes


def test_another_parameter_without_a_default_is_named() -> None:
    class Asks(nn.Linear):
        num_heads = 2

        def forward(self, x: torch.Tensor, layer: int) -> torch.Tensor:
            return super().forward(x) * layer

    with pytest.raises(TargetProblem, match="needs layer besides its input"):
        as_implementation(Asks(6, 6))
