"""Modules of cross-attention of their own make: both inputs are handed over, whatever they are called and how wide."""

from __future__ import annotations

import pytest
import torch

from mha_sym.audit import check
from mha_sym.audit.frameworks.cross_modules import second_input
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.target import as_implementation
from mha_sym.errors import TargetProblem
from mha_sym.proof.theorem import Verdict

HEADS = 3


class Cross(torch.nn.Module):
    """What it computes; its subclasses say what its inputs are called."""

    axis = -1

    def __init__(self, width=12, other=20):
        super().__init__()
        self.num_heads = HEADS
        self.q_proj, self.o_proj = torch.nn.Linear(width, 15), torch.nn.Linear(15, width)
        self.k_proj, self.v_proj = torch.nn.Linear(other, 15, bias=False), torch.nn.Linear(other, 15)

    def attend(self, x, seen):
        split = lambda y: y.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # noqa: E731
        q, k, v = split(self.q_proj(x)), split(self.k_proj(seen)), split(self.v_proj(seen))
        return self.o_proj(((q @ k.mT / q.shape[-1] ** 0.5).softmax(self.axis) @ v).transpose(1, 2).flatten(2))


class Encoded(Cross):
    def forward(self, hidden_states, encoder_hidden_states):
        return self.attend(hidden_states, encoder_hidden_states)


class Context(Cross):
    def forward(self, x, context=None):
        return self.attend(x, x if context is None else context)


class Memory(Cross):
    def forward(self, tokens, memory):
        return self.attend(tokens, memory)


class Kept(Cross):
    def forward(self, x, memory=None):
        return self.attend(x, x)


class OverQueries(Context):
    axis = -2


@pytest.mark.parametrize("kind", [Encoded, Context, Memory])
@pytest.mark.parametrize("other", [12, 20])
def test_both_inputs_are_handed_over(kind: type[Cross], other: int) -> None:
    made = as_implementation(kind(12, other))
    assert made.arguments == ("weights", "x_q", "x_kv")
    assert any("nothing is said of self-attention" in one for one in made.notes) == (kind is Context)
    report = check(kind(12, other), draws=2)
    assert report.ok and {one.sizes["T"] != one.sizes["S"] for one in report.compared} == {True}


@pytest.mark.parametrize("other", [12, 20])
def test_cross_attention_of_any_width_is_proved(other: int) -> None:
    found = prove_code(as_implementation(Encoded(12, other)))
    assert found.verdict is Verdict.PROVED and {"S", "T"} <= set(found.symbolic)


def test_what_is_wrong_with_it_is_named() -> None:
    report = check(OverQueries(), draws=1)
    assert "softmax_over_queries" in {one.name for one in report.faults}


def test_what_may_be_kept_from_before_is_no_second_input() -> None:
    assert second_input(Kept()) is None and second_input(Memory()) == ("memory", True)
    assert as_implementation(Kept(12, 12)).arguments == ("weights", "x")


def test_a_module_whose_second_input_is_of_another_kind_is_refused() -> None:
    class Needs(Cross):
        def forward(self, x, positions):
            return self.attend(x, x)

    with pytest.raises(TargetProblem, match="needs positions"):
        as_implementation(Needs(12, 12))
