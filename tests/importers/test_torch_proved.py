"""Torch modules: what is right is proved for all batch sizes and lengths, what is wrong is refuted at its line."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import CodeProof
from mha_sym.audit.proving.report import sources
from mha_sym.audit.target import as_implementation
from mha_sym.proof.theorem import Verdict
from tests.importers import torch_modules, torch_wrong

#: modules that take x alone, and are multi-head attention
PROVED = [
    "fused, chunk, sdpa causal", "einops", "einsum", "open softmax", "grouped, repeat_interleave", "grouped, expand",
    "grouped, sdpa",
]  # fmt: skip


def proof(module: nn.Module) -> CodeProof:
    return prove_code(as_implementation(module, "module"))


@pytest.mark.parametrize("name", PROVED)
def test_right_module_is_proved(name: str) -> None:
    found = proof(torch_modules.RIGHT[name][0])
    assert found.verdict is Verdict.PROVED, found.problem
    assert {"B", "T"} <= set(found.symbolic)
    assert all(one.agreed and not one.open for one in found.cases)


def test_module_with_a_mask_in_a_buffer_is_proved_as_far_as_the_mask_goes() -> None:
    found = proof(torch_modules.Fused(block=16))
    assert found.verdict is Verdict.PROVED
    (condition,) = found.cases[0].open
    assert condition.startswith("T <= 16 (") and "self.mask[:, :, :t, :t]" in condition


@pytest.mark.parametrize("kdim", [None, 10])
def test_torchs_own_layer_is_proved_in_every_way_of_calling_it(kdim: int | None) -> None:
    layer = nn.MultiheadAttention(20, 4, kdim=kdim, batch_first=True)
    found = proof(layer)
    assert found.verdict is Verdict.PROVED, found.problem
    widths = {"h", "d_k"} if kdim is None else set()
    assert {"B", "S", "T"} | widths <= set(found.symbolic) and len(found.cases) >= 6
    assert not any(one.open for one in found.cases)


@pytest.mark.parametrize("name", torch_wrong.WRONG)
def test_wrong_module_is_refuted_at_its_line(name: str) -> None:
    run = torch_wrong.WRONG[name]
    found = proof(torch_wrong.Layer(run))
    assert found.verdict is Verdict.REFUTED, found.problem
    lines, first = inspect.getsourcelines(run)
    (here,) = (first + n for n, line in enumerate(lines) if line.rstrip().endswith("# here"))
    places = {place.line for place, _ in sources(found) if place.file == torch_wrong.__file__}
    assert here in places, sources(found)


def test_an_unusual_scale_is_found_and_said() -> None:
    found = proof(torch_wrong.Layer(torch_wrong.scaled_twice))
    assert found.verdict is Verdict.PROVED and "scale 1/d_k" in found.conventions


def test_a_module_that_is_right_for_a_batch_of_two_or_more_is_not_proved_for_one() -> None:
    class Odd(torch_wrong.Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = nn.functional.scaled_dot_product_attention(*self.heads(x))
            return self.joined(z if x.shape[0] > 1 else -z)

    found = proof(Odd(torch_wrong.scaled_twice))
    assert found.verdict is Verdict.REFUTED


def test_a_module_that_branches_on_a_size_for_nothing_is_proved() -> None:
    class Careful(torch_wrong.Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.heads(x)
            z = nn.functional.scaled_dot_product_attention(q, k, v) if x.shape[1] > 2 else (
                torch.softmax(q @ k.mT / torch_wrong.D**0.5, -1) @ v
            )
            return self.joined(z)

    found = proof(Careful(torch_wrong.scaled_twice))
    assert found.verdict is Verdict.PROVED


class Projections(nn.Module):
    """Matrices named as where heads are grouped, with as many key heads as query heads."""

    def __init__(self, kv_heads: int = 3) -> None:
        super().__init__()
        self.num_heads, self.num_key_value_heads, self.head_dim = 3, kv_heads, 5
        self.q_proj, self.o_proj = nn.Linear(15, 15), nn.Linear(15, 15)
        self.k_proj, self.v_proj = nn.Linear(15, 5 * kv_heads), nn.Linear(15, 5 * kv_heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (one.view(*x.shape[:2], -1, self.head_dim).transpose(1, 2) for one in made)
        if self.num_key_value_heads != self.num_heads:
            k, v = (one.repeat_interleave(self.num_heads // self.num_key_value_heads, 1) for one in (k, v))
        weights = (q @ k.mT * self.head_dim**-0.5).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))


def test_names_of_grouped_heads_are_plain_heads_where_there_are_as_many_of_both() -> None:
    plain, grouped = proof(Projections()), proof(Projections(kv_heads=1))
    assert plain.verdict is grouped.verdict is Verdict.PROVED
    assert plain.layout.startswith("linear: ") and plain.symbolic == ("B", "T", "d_k", "h")
    assert grouped.layout.startswith("llama: ") and grouped.symbolic == ("B", "T")
