"""Torch modules for every number of heads and every width: what is read as a size, and what is left as it is."""

from __future__ import annotations

import pytest
import sympy
import torch
from torch import nn

from mha_sym.audit.frameworks.torch_found import from_module
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.conditions import excluded
from mha_sym.audit.target import as_implementation
from mha_sym.axes import size_symbol
from mha_sym.errors import TargetProblem
from mha_sym.importers.graph import Condition
from mha_sym.proof.theorem import Verdict

B, H = size_symbol("B"), size_symbol("h")


class Attention(nn.Module):
    """Attention that keeps its sizes in attributes, or one of them in its code."""

    def __init__(self, heads: int = 4, features: int = 6, in_code: int | None = None) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.layer_idx = heads, features, heads
        self.scaling, self.in_code = features**-0.5, in_code
        self.q, self.k, self.v, self.o = (nn.Linear(heads * features, heads * features) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:2], -1, self.head_dim)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
        scale = self.scaling if self.in_code is None else float(f"{self.in_code}") ** -0.5
        z = torch.softmax(q @ k.mT * scale, -1) @ v
        return self.o(z.transpose(1, 2).flatten(2))


def test_attributes_that_hold_sizes_become_symbols() -> None:
    module = Attention()
    found = prove_code(as_implementation(module))
    assert found.verdict is Verdict.PROVED
    assert found.symbolic == ("B", "T", "d_k", "h") and not found.fixed
    assert found.notes[-1] == "read as sizes: num_heads as h, head_dim as d_k, scaling as 1/sqrt(d_k)"
    assert all(sizes["h"] > 0 for one in found.cases for sizes in one.agreed)
    assert len({(sizes["h"], sizes["d_k"]) for one in found.cases for sizes in one.agreed}) > 1
    assert (module.num_heads, module.head_dim, module.scaling) == (4, 6, 6**-0.5)


def test_a_size_in_the_code_itself_stays_a_number_and_refutes_nothing() -> None:
    """With other numbers of features it would be wrong; as it is, it is right."""
    found = prove_code(as_implementation(Attention(in_code=6)))
    assert found.verdict is Verdict.PROVED
    assert found.symbolic == ("B", "T") and found.fixed == {"d_k": 6, "d_model": 24, "d_v": 6, "h": 4}


def test_numbers_that_may_stand_for_two_things_are_left_alone() -> None:
    found = prove_code(as_implementation(Attention(heads=5, features=5)))
    assert found.verdict is Verdict.PROVED and found.fixed["h"] == found.fixed["d_k"] == 5


def test_a_product_that_is_not_1_leaves_out_sizes_of_1() -> None:
    assert excluded(Condition(sympy.Ne(B * H, 1))) == {"B": 1, "h": 1}
    assert excluded(Condition(sympy.Ne(B * H, 2))) is None
    assert excluded(Condition(sympy.Ne(B + H, 1))) is None


class MaskOfOneLength(nn.Module):
    """Its mask is not cut to the length of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.n_head, self.c_attn, self.c_proj = 4, nn.Linear(24, 72), nn.Linear(24, 24)
        self.register_buffer("hidden", torch.triu(torch.ones(16, 16, dtype=torch.bool), 1))

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (4, 6)).transpose(1, 2) for one in self.c_attn(x).split(24, -1))
        scores = (q @ k.mT / 6**0.5).masked_fill(self.hidden, float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_the_complaint_is_of_the_width_at_which_the_code_came_farthest():
    with pytest.raises(TargetProblem, match=r"size of tensor a \(16\) must match"):
        from_module(MaskOfOneLength())
