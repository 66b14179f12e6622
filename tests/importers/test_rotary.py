"""Code with rotary positions: what is right is proved for all sizes, what is wrong is refuted, in NumPy and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mha_sym.attention.rotary import Rotary
from mha_sym.audit.check import check
from mha_sym.audit.faults import find_fault
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.pair import prove_equal
from mha_sym.audit.target import as_implementation
from mha_sym.errors import TargetProblem
from mha_sym.proof.theorem import Verdict

Turn = Callable[[Any, Any, Any], Any]


def heads(x, w, n):
    return (x @ w).reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def attend(q, k, v, w_o):
    a = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    z = a / a.sum(-1, keepdims=True) @ v
    return z.transpose(0, 2, 1, 3).reshape(*z[:, 0].shape[:2], -1) @ w_o


def half_turned(x):
    one, other = np.split(x, 2, -1)
    return np.concatenate([-other, one], -1)


def halves(x, cos, sin):
    return x * cos + half_turned(x) * sin


def neighbours(x, cos, sin):
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return x * cos + np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape) * sin


def neighbours_in_pairs(x, cos, sin):
    """With tables (t, r/2), even features and odd ones apart."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    one, other = pairs[..., 0], pairs[..., 1]
    return np.stack([one * cos - other * sin, one * sin + other * cos], -1).reshape(x.shape)


def halves_of_half_a_table(x, cos, sin):
    """With tables (t, r) of which only the first half is looked at."""
    one, other = np.split(x, 2, -1)
    cos, sin = (np.split(table, 2, -1)[0] for table in (cos, sin))
    return np.concatenate([one * cos - other * sin, other * cos + one * sin], -1)


def first_four(x, cos, sin):
    return np.concatenate([halves(x[..., :4], cos, sin), x[..., 4:]], -1)


def layer(turn: Turn) -> Callable[..., Any]:
    def attention(x, w_q, w_k, w_v, w_o, heads_, cos, sin):
        q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
        return attend(turn(q, cos, sin), turn(k, cos, sin), v, w_o)

    return attention


_TAKES = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "cos", "sin")

RIGHT: dict[str, tuple[Turn, Rotary]] = {
    "halves": (halves, Rotary("halves")),
    "interleaved": (neighbours, Rotary("interleaved")),
    "interleaved, a number for each pair": (neighbours_in_pairs, Rotary("interleaved", tables="pair")),
    "halves of half a table": (halves_of_half_a_table, Rotary("halves")),
    "the first four features": (first_four, Rotary("halves", width=4)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_proved(name: str) -> None:
    turn, rotary = RIGHT[name]
    found = prove_code(Implementation(call=layer(turn), takes=_TAKES, rotary=rotary, tied=("d_v",)))
    assert found.verdict is Verdict.PROVED, found.problem
    assert {"B", "T", "d_model", "h"} <= set(found.symbolic) and str(rotary) in found.conventions
    assert ("d_pairs" in found.symbolic) == (rotary.width is None)


def test_right_code_with_groups_and_positions_of_each_sample_is_proved() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads_, kv_heads, cos, sin):
        q, k, v = (heads(x, w, n) for w, n in ((w_q, heads_), (w_k, kv_heads), (w_v, kv_heads)))
        q, k = (halves(one, cos[:, None], sin[:, None]) for one in (q, k))
        k, v = (np.repeat(one, heads_ // kv_heads, axis=1) for one in (k, v))
        return attend(q, k, v, w_o)

    found = prove_code(
        Implementation(
            call=attention, takes=(*_TAKES[:6], "kv_heads", "cos", "sin"), layout="grouped", tied=("d_v",),
            axes={"cos": "b t k", "sin": "b t k"}, rotary="halves",
        )
    )  # fmt: skip
    assert found.verdict is Verdict.PROVED, found.problem
    assert {"B", "T", "d_pairs", "G", "R"} <= set(found.symbolic)


def before_the_split(x, w, n, cos, sin):
    """All heads as one, and its two halves."""
    cos, sin = (np.concatenate([table] * 3, -1) for table in (cos, sin))
    flat = halves(x @ w, cos, sin)
    return flat.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def wrong(name: str) -> Callable[..., Any]:
    def attention(x, w_q, w_k, w_v, w_o, heads_, cos, sin):
        q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
        turned = {
            "values, too": lambda: (halves(q, cos, sin), halves(k, cos, sin), halves(v, cos, sin)),
            "queries the other way": lambda: (halves(q, cos, -sin), halves(k, cos, sin), v),
            "keys left": lambda: (halves(q, cos, sin), k, v),
            "queries left": lambda: (q, halves(k, cos, sin), v),
            "queries twice": lambda: (halves(halves(q, cos, sin), cos, sin), halves(k, cos, sin), v),
            "cosine for sine": lambda: (halves(q, sin, cos), halves(k, sin, cos), v),
            "neighbours for halves": lambda: (neighbours(q, cos, sin), neighbours(k, cos, sin), v),
            "all heads as one": lambda: (
                before_the_split(x, w_q, heads_, cos, sin), before_the_split(x, w_k, heads_, cos, sin), v
            ),
        }[name]  # fmt: skip
        return attend(*turned(), w_o)

    return attention


WRONG = [
    "values, too", "queries the other way", "keys left", "queries left", "queries twice", "cosine for sine",
    "neighbours for halves", "all heads as one",
]  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_code_is_refuted(name: str) -> None:
    impl = Implementation(call=wrong(name), takes=_TAKES, rotary="halves", tied=("d_v",), heads=3)
    found = prove_code(impl)
    assert found.verdict is Verdict.REFUTED, found.problem


def test_code_turned_in_halves_is_refuted_as_interleaved() -> None:
    found = prove_code(Implementation(call=layer(halves), takes=_TAKES, rotary="interleaved", tied=("d_v",)))
    assert found.verdict is Verdict.REFUTED, found.problem


def test_two_ways_of_turning_are_proved_equal() -> None:
    one, other = (
        Implementation(call=layer(turn), takes=_TAKES, rotary="halves", tied=("d_v",))
        for turn in (halves, halves_of_half_a_table)
    )
    assert prove_equal(one, other).verdict is Verdict.PROVED
    with pytest.raises(TargetProblem, match="other positions"):
        prove_equal(one, Implementation(call=layer(neighbours), takes=_TAKES, rotary="interleaved", tied=("d_v",)))


def test_numbers_judge_code_with_positions() -> None:
    for turn, rotary in RIGHT.values():
        assert check(Implementation(call=layer(turn), takes=_TAKES, rotary=rotary, tied=("d_v",))).ok


def test_a_key_bias_is_not_without_effect() -> None:
    def attention(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, heads_, cos, sin):
        q, k, v = (
            heads(x, w, heads_) + b.reshape(heads_, 1, -1) for w, b in ((w_q, b_q), (w_k, b_k * 0), (w_v, b_v))
        )
        return attend(halves(q, cos, sin), halves(k, cos, sin), v, w_o) + b_o

    takes = ("x", "w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "heads", "cos", "sin")
    impl = Implementation(call=attention, takes=takes, bias=True, rotary="halves", tied=("d_v",))
    assert prove_code(impl).verdict is Verdict.REFUTED
    assert find_fault("key_bias_dropped").needs == ("b_k", "unturned")


# ---------------------------------------------------------------- torch


class Turned(nn.Module):
    """A module that is handed tables, as people write it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.num_heads, self.way = 3, way
        self.qkv, self.out = nn.Linear(18, 54), nn.Linear(18, 18)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if self.way == "pairs":
            one, other = x[..., ::2], x[..., 1::2]
            return torch.stack((one * cos - other * sin, one * sin + other * cos), -1).flatten(-2)
        one, other = x.chunk(2, -1)
        return x * cos + torch.cat((-other, one), -1) * (sin if self.way == "halves" else -sin)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 3, 6).permute(2, 0, 3, 1, 4).unbind()
        q = self.turned(q, cos[:, None], sin[:, None])
        k = k if self.way == "keys left" else self.turned(k, cos[:, None], sin[:, None])
        z = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(z.transpose(1, 2).reshape(b, t, 18))


@pytest.mark.parametrize("way", ["halves", "pairs"])
def test_module_that_is_handed_tables_is_proved(way: str) -> None:
    impl = as_implementation(Turned(way))
    assert check(impl).ok
    found = prove_code(impl)
    assert found.verdict is Verdict.PROVED, found.problem
    kind = "halves (j with j + d_k/2)" if way == "halves" else "interleaved pairs (2j with 2j + 1)"
    assert f"rotary positions, {kind}" in found.conventions and {"B", "T"} <= set(found.symbolic)


def test_module_that_leaves_its_keys_is_refuted() -> None:
    found = prove_code(as_implementation(Turned("keys left")))
    assert found.verdict is Verdict.REFUTED, found.problem
