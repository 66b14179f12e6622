"""Modules whose code cannot be followed: those that turn pairs as complex numbers are refused, and said why."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mha_sym.audit.frameworks.torch_found import from_module
from mha_sym.errors import TargetProblem


class Complex(nn.Module):
    """As in the Llama of its makers: neighbours as complex numbers."""

    def __init__(self, sort: bool = False) -> None:
        super().__init__()
        self.num_heads, self.sort = 3, sort
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(12, 12, bias=False) for _ in range(4))
        angles = torch.outer(torch.arange(16.0), torch.tensor([1.0, 0.01]))
        self.turns = torch.polar(torch.ones_like(angles), angles)
        if sort:
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

    def turned(self, x):
        if self.sort:
            cos, sin = (one[: x.shape[2]].repeat_interleave(2, -1) for one in (self.cos, self.sin))
            return x * cos + torch.sort(x, -1).values * sin
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], 2, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[2]]).flatten(3)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (one(x).view(b, t, 3, 4).transpose(1, 2) for one in (self.wq, self.wk, self.wv))
        y = nn.functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


@pytest.mark.parametrize(
    ("sort", "words"), [(False, "turns by complex numbers, which is not understood here"), (True, "aten.sort")]
)
def test_what_is_not_understood_is_said_and_not_called_wrong(sort, words):
    with pytest.raises(TargetProblem) as raised:
        from_module(Complex(sort))
    assert words in raised.value.one_line() and "Complex" in raised.value.one_line()
