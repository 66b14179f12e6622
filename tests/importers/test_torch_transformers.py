"""The attention of the transformers package, from small configurations with random weights: imported, run, proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    FalconConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    T5Config,
)
from transformers.models.bert.modeling_bert import BertSelfAttention
from transformers.models.falcon.modeling_falcon import FalconAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.mistral.modeling_mistral import MistralAttention
from transformers.models.phi3.modeling_phi3 import Phi3Attention
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention
from transformers.models.t5.modeling_t5 import T5Attention

from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.pair import prove_equal
from mha_sym.audit.proving.report import assumptions
from mha_sym.audit.target import as_implementation
from mha_sym.importers.from_torch.code import Imported
from mha_sym.importers.from_torch.module import Call, Tensor, from_module
from mha_sym.proof.theorem import Verdict
from tests.importers.test_torch import SIZES, B, T, agree

HINTS = {B: 3, T: 5}
#: width, and the width of the rotary tables
WIDTH = {"neox": 32, "t5": 20}
ROTARY = {"neox": 2, "llama": 6, "mistral": 6, "qwen2": 6, "phi3": 6, "falcon": 6}


def small(kind: Any, implementation: str, **settings: Any) -> Any:
    """A configuration of that size, with the implementation of attention that it is to use."""
    config = kind(**settings)
    config._attn_implementation = implementation
    return config


def _llama_like(kind: Any, module: Any, **more: Any) -> Callable[[str], nn.Module]:
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, **more}
    return lambda way: module(small(kind, way, **sizes), layer_idx=0)


MODULES: dict[str, Callable[[str], nn.Module]] = {
    "gpt2": lambda way: GPT2Attention(small(GPT2Config, way, n_embd=24, n_head=4, n_positions=16), layer_idx=0),
    "bert": lambda way: BertSelfAttention(small(BertConfig, way, hidden_size=24, num_attention_heads=4)),
    "t5": lambda way: T5Attention(small(T5Config, way, d_model=20, num_heads=4, d_kv=6)),
    "neox": lambda way: GPTNeoXAttention(small(GPTNeoXConfig, way, hidden_size=32, num_attention_heads=4), layer_idx=0),
    "llama": _llama_like(LlamaConfig, LlamaAttention),
    "mistral": _llama_like(MistralConfig, MistralAttention),
    "qwen2": _llama_like(Qwen2Config, Qwen2Attention),
    "phi3": _llama_like(Phi3Config, Phi3Attention, pad_token_id=0),
    "falcon": lambda way: FalconAttention(
        small(FalconConfig, way, hidden_size=24, num_attention_heads=4, alibi=False), layer_idx=0
    ),
}  # fmt: skip


def call(name: str, masked: bool) -> Call:
    """The arguments that the model around it hands over."""
    named: dict[str, Any] = {"hidden_states": Tensor("x", (B, T, WIDTH.get(name, 24)))}
    if name in ROTARY:
        named["position_embeddings"] = tuple(Tensor(n, (B, T, ROTARY[name])) for n in ("cos", "sin"))
    named["position_bias" if name == "t5" else "attention_mask"] = Tensor("mask", (B, 1, T, T)) if masked else None
    if name == "t5" and masked:
        named["position_bias"] = Tensor("mask", (1, 4, T, T))
    if name == "falcon":
        named["alibi"] = None
    return Call((), named)


def read(name: str, way: str, masked: bool) -> Imported:
    return from_module(MODULES[name](way).eval(), call(name, masked), HINTS, name)


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("way", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODULES)
def test_imported_module_gives_what_it_gives(name: str, way: str, masked: bool) -> None:
    if (name, way, masked) == ("falcon", "eager", False):
        masked = True  # it adds its mask without asking whether there is one
    made = read(name, way, masked)
    single = any("float32" in cast for cast in made.graph.notes.casts)  # some take the softmax in that
    assert single == (way == "eager" and name in ("neox", "llama", "mistral", "qwen2", "phi3"))
    conditions = {str(one) for one in made.graph.notes.conditions}
    grouped = way == "sdpa" and masked and name in ("llama", "mistral", "qwen2", "phi3")
    assert not made.fixed and conditions == ({"T != 1", "T > 1"} if grouped else set())
    assert agree(made, close=1e-4 if single else 1e-11) == len([t for _, t, _ in SIZES if t > 1 or not grouped])
    for case in made.cases:  # with one token, torch is asked for grouped attention in another way
        assert case.graph is not None and {str(one) for one in case.where} == {"Eq(T, 1)"}


def biased(kind: type[T5Attention], way: str = "eager", decoder: bool = False) -> T5Attention:
    """The attention of T5's first layer, which computes its bias."""
    config = small(T5Config, way, d_model=20, num_heads=4, d_kv=6, is_decoder=decoder)
    return kind(config, has_relative_attention_bias=True, layer_idx=0).eval()


@pytest.mark.parametrize(("way", "decoder"), [("eager", False), ("sdpa", True)])
def test_a_bias_that_is_looked_up_by_position_is_any_bias_of_query_key_and_head(way: str, decoder: bool) -> None:
    module = biased(T5Attention, way, decoder)
    made = from_module(module, Call((Tensor("x", (B, T, 20)),)), HINTS)
    # torch's function is asked in another way where there is one query
    assert agree(made, close=1e-11) == len([t for _, t, _ in SIZES if t > 1 or way == "eager"])
    found = prove_code(as_implementation(module, "t5"))
    assert found.verdict is Verdict.PROVED and {"B", "T"} <= set(found.symbolic) and not found.cases[0].open
    assert found.conventions.endswith("position_bias[query, key, head] added to the scores")
    (said,) = [one for one in assumptions(found) if one.startswith("position_bias is what the code looks up")]
    assert "modeling_t5.py:" in said and "any formula, and any table" in said


class Swapped(T5Attention):
    def compute_bias(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return super().compute_bias(*args, **kwargs).transpose(2, 3)


class Summed(T5Attention):
    def compute_bias(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        right = super().compute_bias(*args, **kwargs)
        return right + right.transpose(2, 3)


class OfOneHead(T5Attention):
    def compute_bias(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return super().compute_bias(*args, **kwargs)[:, :1]


class Doubled(T5Attention):
    def compute_bias(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return 2 * super().compute_bias(*args, **kwargs)


@pytest.mark.parametrize("wrong", [Swapped, Summed, OfOneHead, Doubled])
def test_a_bias_over_other_positions_or_heads_is_refuted(wrong: type[T5Attention]) -> None:
    found = prove_code(as_implementation(biased(wrong), wrong.__name__))
    assert found.verdict is Verdict.REFUTED, found.problem
    assert found.cases[0].outcomes[0].counterexample is not None


class Backward(T5Attention):
    """Another formula for what is looked up: distances with the other sign."""

    def compute_bias(self, query_length: int, key_length: int, **_: Any) -> torch.Tensor:
        away = torch.arange(query_length)[:, None] - torch.arange(key_length)[None, :]
        bucket = self._relative_position_bucket(away, True, 32, 128)
        return self.relative_attention_bias(bucket).permute([2, 0, 1]).unsqueeze(0)


def test_two_biases_are_one_only_where_the_same_formula_looks_them_up() -> None:
    one = as_implementation(biased(T5Attention), "one")
    assert prove_equal(one, as_implementation(biased(T5Attention, "sdpa"), "sdpa")).verdict is Verdict.PROVED
    found = prove_equal(one, as_implementation(biased(Backward), "backward"))
    assert found.verdict is Verdict.UNDECIDED and found.problem is None


class ByEntries(T5Attention):
    """Looks up by what stands at a position, not by where it is."""

    def forward(self, x: torch.Tensor) -> Any:
        rows = (x[0, :, :1] * 3).long().clamp(0, 31).expand(-1, x.shape[1])
        return super().forward(x, position_bias=self.relative_attention_bias(rows).permute(2, 0, 1)[None])


def test_a_lookup_by_the_entries_of_the_input_is_refused() -> None:
    found = prove_code(as_implementation(biased(ByEntries), "by entries"))
    assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    assert "from float to integer rounds" in found.problem.what and __file__ in str(found.problem.where)


@pytest.mark.parametrize("way", ["eager", "sdpa"])
@pytest.mark.parametrize(("name", "layout"), [("gpt2", "gpt2"), ("t5", "t5"), ("bert", "linear")])
def test_module_is_proved_to_be_attention(name: str, layout: str, way: str) -> None:
    found = prove_code(as_implementation(MODULES[name](way).eval(), name))
    assert found.verdict is Verdict.PROVED, found.problem
    assert ("without W_O" in found.conventions) == (name == "bert")  # that stands in another module there
    assert found.layout.startswith(f"{layout}: ")
    # T5's width is not heads times features here, and its code has heads and features in numbers then
    assert found.symbolic == (("B", "T") if name == "t5" else ("B", "T", "d_k", "h"))
    assert not any(one.open for one in found.cases)
