"""Modules of PyTorch and transformers: the weights of one, converted for another, give the same output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.bert.modeling_bert import BertAttention, BertConfig
from transformers.models.codegen.modeling_codegen import CodeGenAttention, CodeGenConfig
from transformers.models.falcon.modeling_falcon import FalconAttention, FalconConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, GPT2Config
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention, GPTNeoXConfig
from transformers.models.gptj.modeling_gptj import GPTJAttention, GPTJConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig, LlamaRotaryEmbedding
from transformers.models.opt.modeling_opt import OPTAttention, OPTConfig
from transformers.models.phi3.modeling_phi3 import Phi3Attention, Phi3Config

from mha_sym import convert

HEADS, GROUPS, WIDTH, STEPS = 6, 2, 24, 7


def filled(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The module with random parameters, biases too, in double precision."""
    made = torch.Generator().manual_seed(seed)
    for one in module.parameters():
        one.data = torch.randn(one.shape, generator=made, dtype=torch.float64) / 4
    return module.eval().double()


def through(place: Path, one: torch.nn.Module, other: torch.nn.Module, given: str, wanted: str, **options: Any) -> None:
    """Put the weights of one module into another by way of two files."""
    state = {f"layer.{name}": value.contiguous() for name, value in one.state_dict().items()}
    save_file(state, place / "in.safetensors")
    convert(place / "in.safetensors", place / "out.safetensors", given, wanted, **{"heads": HEADS, **options})
    found = load_file(place / "out.safetensors")
    keep = other.state_dict() if wanted == "bert" else {}  # with LayerNorm and so on beside
    other.load_state_dict(keep | {name.removeprefix("layer."): value for name, value in found.items()}, strict=True)


def inputs(seed: int = 1) -> torch.Tensor:
    return torch.randn((5, STEPS, WIDTH), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def later() -> torch.Tensor:
    """What to add to scores so that no later position is seen."""
    return torch.full((STEPS, STEPS), float("-inf"), dtype=torch.float64).triu(1)


def turned(width: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of positions, for heads of so many features."""
    config = LlamaConfig(hidden_size=WIDTH, num_attention_heads=HEADS, head_dim=width)
    return LlamaRotaryEmbedding(config)(inputs(), torch.arange(STEPS)[None])


def unturned() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones((1, STEPS, 4), dtype=torch.float64), torch.zeros((1, STEPS, 4), dtype=torch.float64)


def eager(config: Any) -> Any:
    config._attn_implementation = "eager"
    return config


def assert_close(one: torch.Tensor, other: torch.Tensor, bound: float = 1e-9) -> None:
    torch.testing.assert_close(one, other, rtol=bound, atol=bound)
    assert one.abs().max() > 0.1


def test_gpt2_in_nn_multihead_attention(tmp_path: Path) -> None:
    one = filled(GPT2Attention(eager(GPT2Config(n_embd=WIDTH, n_head=HEADS)), layer_idx=0))
    other = filled(torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), 2)
    through(tmp_path, one, other, "gpt2", "torch_packed")
    x = inputs()
    assert_close(one(x, attention_mask=later()[None, None])[0], other(x, x, x, attn_mask=later())[0])


def test_nn_multihead_attention_in_bert(tmp_path: Path) -> None:
    one = filled(torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    other = filled(BertAttention(eager(BertConfig(hidden_size=WIDTH, num_attention_heads=HEADS))), 2)
    through(tmp_path, one, other, "torch_packed", "bert")
    x = inputs()
    inner = other.self(x)[0]
    assert_close(one(x, x, x)[0], other.output.dense(inner))


def test_gpt_neox_in_llama(tmp_path: Path) -> None:
    settings = {"hidden_size": WIDTH, "num_attention_heads": HEADS}
    neox = GPTNeoXConfig(**settings, rotary_pct=1.0, attention_bias=True)
    one = filled(GPTNeoXAttention(eager(neox), layer_idx=0))
    llama = LlamaConfig(**settings, num_key_value_heads=HEADS, attention_bias=True)
    other = filled(LlamaAttention(eager(llama), layer_idx=0), 2)
    through(tmp_path, one, other, "gpt_neox", "llama")
    x, places, mask = inputs(), turned(), later()[None, None]
    one_y = one(x, attention_mask=mask, position_embeddings=places)[0]
    assert_close(one_y, other(x, attention_mask=mask, position_embeddings=places)[0])


def test_codegen_in_gptj_and_back(tmp_path: Path) -> None:
    """In each of four shards lie the queries, values and keys of two heads."""
    settings = {"n_embd": WIDTH, "n_head": 8, "rotary_dim": 2}
    one = filled(CodeGenAttention(eager(CodeGenConfig(**settings)), layer_idx=0))
    other = filled(GPTJAttention(eager(GPTJConfig(**settings)), layer_idx=0), 2)
    again = filled(CodeGenAttention(eager(CodeGenConfig(**settings)), layer_idx=0), 3)
    through(tmp_path, one, other, "codegen", "opt", heads=8)
    through(tmp_path, other, again, "opt", "codegen", heads=8, force=True)
    angles = torch.arange(STEPS, dtype=torch.float64)[None, :, None]
    call = {"attention_mask": later()[None, None], "position_embeddings": (angles.sin(), angles.cos())}
    y = one(inputs(), **call)[0]
    assert_close(y, other(inputs(), **call)[0])
    assert torch.equal(y, again(inputs(), **call)[0])


def grouped(kind: Callable[..., torch.nn.Module], config: Any, seed: int = 0, **more: Any) -> torch.nn.Module:
    return filled(kind(eager(config), layer_idx=0, **more), seed)


def llama_of(groups: int, **settings: Any) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=groups, head_dim=10, **settings
    )


def test_grouped_llama_in_phi3(tmp_path: Path) -> None:
    """Heads of 10 features each, 6 of them on a width of 24, which read 2 key heads; positions turned."""
    one = grouped(LlamaAttention, llama_of(GROUPS))
    settings = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "head_dim": 10}
    other = grouped(Phi3Attention, Phi3Config(**settings, pad_token_id=0), 2)
    through(tmp_path, one, other, "llama", "phi3")
    x, places, mask = inputs(), turned(10), later()[None, None]
    one_y = one(x, attention_mask=mask, position_embeddings=places)[0]
    assert_close(one_y, other(x, attention_mask=mask, position_embeddings=places)[0])


def test_grouped_llama_in_one_of_as_many_key_heads(tmp_path: Path) -> None:
    """Each key head copied; then the biases of OPT, as zeros, and no turning of positions."""
    one = grouped(LlamaAttention, LlamaConfig(hidden_size=WIDTH, num_attention_heads=HEADS, num_key_value_heads=GROUPS))
    opt = OPTConfig(hidden_size=WIDTH, num_attention_heads=HEADS)
    other = grouped(OPTAttention, opt, 2)
    through(tmp_path, one, other, "llama", "opt", repeat_kv=True, zero_biases=True)
    x, mask = inputs(), later()[None, None]
    one_y = one(x, attention_mask=mask, position_embeddings=unturned())[0]
    assert_close(one_y, other(x, attention_mask=mask)[0])


def test_falcon_in_llama(tmp_path: Path) -> None:
    settings: Mapping[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": HEADS}
    falcon = FalconConfig(**settings, num_kv_heads=GROUPS, new_decoder_architecture=True, bias=False, alibi=False)
    one = grouped(FalconAttention, falcon)
    other = grouped(LlamaAttention, LlamaConfig(**settings, num_key_value_heads=GROUPS), 2)
    through(tmp_path, one, other, "falcon_grouped", "llama")
    x, places, mask = inputs(), turned(), later()[None, None]
    one_y = one(x, alibi=None, attention_mask=mask, position_embeddings=places)[0]
    other_y = other(x, attention_mask=mask, position_embeddings=places)[0]
    assert_close(one_y, other_y, 1e-5)  # Falcon rounds its softmax to single precision


@pytest.mark.parametrize("wrong", ["mpt", "torch_packed"])
def test_a_wrong_layout_is_another_function(wrong: str, tmp_path: Path) -> None:
    """What the tests above would notice: rows of GPT-NeoX taken for [Q; K; V]."""
    settings = {"hidden_size": WIDTH, "num_attention_heads": HEADS}
    one = filled(GPTNeoXAttention(eager(GPTNeoXConfig(**settings, rotary_pct=1.0)), layer_idx=0))
    other = filled(LlamaAttention(eager(LlamaConfig(**settings, attention_bias=True)), layer_idx=0), 2)
    names = {"mpt": ("Wqkv.", "out_proj."), "torch_packed": ("in_proj_", "out_proj.")}[wrong]
    state = {
        name.replace("query_key_value.", names[0]).replace("dense.", names[1]): value.contiguous()
        for name, value in one.state_dict().items()
    }
    save_file(state, tmp_path / "in.safetensors")
    convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", wrong, "llama", heads=HEADS)
    other.load_state_dict(load_file(tmp_path / "out.safetensors"))
    x, places, mask = inputs(), turned(), later()[None, None]
    one_y = one(x, attention_mask=mask, position_embeddings=places)[0]
    other_y = other(x, attention_mask=mask, position_embeddings=places)[0]
    assert (one_y - other_y).abs().max() > 0.01
