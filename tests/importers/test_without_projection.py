"""Code that gives the heads side by side, without an output projection, is attention without W_O, or is refuted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mha_sym.audit.check import _described, check
from mha_sym.audit.frameworks.torch_joined import with_projection
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.target import as_implementation
from mha_sym.errors import TargetProblem
from mha_sym.proof.theorem import Verdict


def side_by_side(x, w_q, w_k, w_v, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    e = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1)


def turned_round(x, w_q, w_k, w_v, heads):
    return np.flip(side_by_side(x, w_q, w_k, w_v, heads), -1)


def in_a_dict(x, w_q, w_k, w_v, heads):
    return {"y": side_by_side(x, w_q, w_k, w_v, heads)}


class Packed(nn.Module):
    """Returns its weights, too, as BERT does."""

    def __init__(self, width: int = 15, heads: int = 3) -> None:
        super().__init__()
        self.num_heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def joined(self, z: torch.Tensor) -> torch.Tensor:
        return z.transpose(1, 2).flatten(2)

    def forward(self, x: torch.Tensor) -> Any:
        split = (*x.shape[:2], self.num_heads, -1)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.joined(weights @ v), weights


class FeaturesFirst(Packed):
    def joined(self, z: torch.Tensor) -> torch.Tensor:
        return z.permute(0, 2, 3, 1).flatten(2)


@pytest.mark.parametrize("code", [side_by_side, in_a_dict])
def test_a_function_is_attention_for_every_w_o(code: Callable[..., Any]) -> None:
    impl = _described(code, {}, None, "code")
    found, report = prove_code(impl), check(impl, draws=1)
    assert report.verdict == "agree" and found.verdict is Verdict.PROVED
    assert found.symbolic == ("B", "T", "d_k", "d_model", "d_v", "h")
    assert found.conventions.startswith("multi-head attention without W_O (the heads side by side) with scale")
    assert any("no output projection" in note for note in found.notes)
    assert any("no output projection" in note for note in report.notes)


def test_what_comes_of_code_is_multiplied_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    x, *w = (rng.standard_normal(shape) for shape in ((2, 5, 7), (7, 6), (7, 6), (7, 12), (12, 7)))
    given = dict(zip(("w_q", "w_k", "w_v", "w_o"), w, strict=True))
    made = _described(in_a_dict, {}, None, "code").call(x=x, heads=3, **given)
    assert np.allclose(made["y"], side_by_side(x, *w[:3], 3) @ w[3], rtol=1e-12)


def test_a_wrong_function_is_refuted() -> None:
    assert prove_code(_described(turned_round, {}, None, "code")).verdict is Verdict.REFUTED


@pytest.mark.parametrize("missing", [lambda x, w_q, w_v, heads: x, lambda x, w_q, w_k, w_o, heads: x])
def test_what_lacks_another_weight_is_refused_as_before(missing: Callable[..., Any]) -> None:
    with pytest.raises(TargetProblem, match=r"takes no w_k|takes no w_v"):
        _described(missing, {}, None, "code")


@pytest.mark.parametrize(("make", "verdict"), [(Packed, Verdict.PROVED), (FeaturesFirst, Verdict.REFUTED)])
def test_a_module_is_read_with_a_projection_of_its_own(make: type[Packed], verdict: Verdict) -> None:
    module = make()
    found = prove_code(as_implementation(module, "code"))
    assert found.verdict is verdict
    assert "without W_O" in found.conventions and dict(module.named_parameters()).keys() == {"qkv.weight", "qkv.bias"}
    line = {one.departure.place.what for one in found.cases if one.departure is not None}
    assert line == (set() if verdict is Verdict.PROVED else {"return z.permute(0, 2, 3, 1).flatten(2)"})


def test_only_a_module_without_a_projection_gets_one() -> None:
    for module in (nn.MultiheadAttention(12, 3), nn.Linear(3, 3)):
        assert with_projection(module) is module
