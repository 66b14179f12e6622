"""check --prove: what is printed, what is in the JSON, how it ends; and modules of any make without a description."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mha_sym.cli import main

RIGHT = '''
import numpy as np

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def attention(x, w_q, w_k, w_v, w_o, heads):
    b, t, _ = x.shape
    q, k, v = (np.reshape(x @ w, (b, t, heads, -1)).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    keep = np.tril(np.ones((t, t), bool))
    z = softmax(np.where(keep, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -1e30)) @ v
    return z.swapaxes(1, 2).reshape(b, t, -1) @ w_o

def in_einsums(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (np.einsum("btm,mhk->bthk", x, w.reshape(w.shape[0], heads, -1)) for w in (w_q, w_k, w_v))
    s = np.einsum("bthk,bshk->bhts", q, k) * q.shape[-1] ** -0.5
    a = softmax(np.where(np.arange(x.shape[1])[:, None] >= np.arange(x.shape[1]), s, -np.inf))
    return np.einsum("bhts,bshv,hvm->btm", a, v, w_o.reshape(heads, -1, w_o.shape[1]))

def crossed(x, w_q, w_k, w_v, w_o, heads):
    b, t, _ = x.shape
    q, k, v = (np.reshape(x @ w, (b, heads, t, -1)) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
    return z.swapaxes(1, 2).reshape(b, t, -1) @ w_o

def sorted_attention(x, w_q, w_k, w_v, w_o, heads):
    return attention(np.sort(x, axis=1), w_q, w_k, w_v, w_o, heads)
'''

MODULES = '''
import math

import torch
from torch import nn


class Mine(nn.Module):
    """Its own names, its own way of splitting."""

    def __init__(self, width=12, heads=3):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)

    def split(self, x):
        b, t, _ = x.shape
        return (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.to_qkv(x).chunk(3, dim=-1))

    def forward(self, x):
        q, k, v = self.split(x)
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return self.mix((weights @ v).transpose(1, 2).flatten(2))


class Gpt(nn.Module):
    """Causal by a buffer, which is cut to the length."""

    def __init__(self, width=12, heads=3, block=16):
        super().__init__()
        self.n_head = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (a.view(b, t, self.n_head, c // self.n_head).transpose(1, 2) for a in self.c_attn(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, t, c))


class Wrong(Mine):
    def split(self, x):
        b, t, _ = x.shape
        return (part.reshape(b, self.heads, t, -1) for part in self.to_qkv(x).chunk(3, dim=-1))


mine, gpt, wrong = Mine(), Gpt(), Wrong()
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("targets")
    (place / "mine.py").write_text(RIGHT)
    (place / "modules.py").write_text(MODULES)
    return place


def called(*line: str) -> tuple[int, str, str]:
    """The command in this process: how it ends, and what it writes to both streams."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["check", *line])
    return code, out.getvalue(), err.getvalue()


def run(folder: Path, target: str, *options: str, end: int = 0) -> str:
    code, out, err = called(f"{folder}/{target}", "--prove", *options)
    assert code == end, out + err
    return out


def proof(folder: Path, target: str, *options: str, end: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(folder, target, *options, "--json", end=end))["proof"]
    return found


def test_json_of_a_proof(folder: Path) -> None:
    found = proof(folder, "mine.py:attention", "--causal")
    assert found["verdict"] == "proved" and found["fixed"] == {} and found["source"] == []
    assert found["symbolic"] == ["B", "T", "d_k", "d_model", "d_v", "h"]
    assert found["layout"].startswith("combined:")
    assert any("counts as minus infinity" in words for words in found["assumptions"])
    assert any("over real numbers" in words for words in found["assumptions"])
    (case,) = found["cases"]
    assert sum(one["steps"] for one in case["outputs"]) > 20 and len(case["validated_at"]) >= 6
    assert any(sizes["T"] == 1 for sizes in case["validated_at"]) and any(s["B"] == 1 for s in case["validated_at"])


def test_text_of_a_proof(folder: Path) -> None:
    text = run(folder, "mine.py:attention", "--causal")
    assert "AGREES" in text
    assert re.search(r"PROVED +\S+mine.py:attention is multi-head attention for all B, T, d_k, d_model, d_v, h", text)
    assert "scale 1/sqrt(d_k), no biases, causal by itself" in text


def test_a_refutation_names_the_line(folder: Path) -> None:
    found = proof(folder, "mine.py:crossed", end=1)
    assert found["verdict"] == "refuted"
    crossing = found["source"][0]
    assert crossing["file"] == f"{folder}/mine.py"
    assert "(b, heads, t, -1)" in (folder / "mine.py").read_text().splitlines()[crossing["line"] - 1]
    assert "axes (t h) are read as (h" in crossing["what"]
    assert found["cases"][0]["first_wrong"] == "q"
    counter = found["cases"][0]["outputs"][0]["counterexample"]
    assert counter["left"] != counter["right"] and max(counter["sizes"].values()) <= 3
    assert "split_by_view" in run(folder, "mine.py:crossed", end=1)


def test_code_outside_of_the_vocabulary_is_refuted_only_by_running_it(folder: Path) -> None:
    found = proof(folder, "mine.py:sorted_attention", "--causal", end=1)
    assert found["verdict"] == "refuted" and "numpy.sort is not in the vocabulary" in found["problem"]
    entry, *_ = found["ran"]
    assert entry["difference"] > 1e6 * entry["bound"] and not any(one["outputs"] for one in found["cases"])


def test_two_implementations_against_each_other(folder: Path) -> None:
    other = f"{folder}/mine.py:in_einsums"
    found = proof(folder, "mine.py:attention", "--causal", "--against", other)
    assert found["verdict"] == "proved" and found["against"] == other
    wrong = f"{folder}/mine.py:crossed"
    text = run(folder, "mine.py:attention", "--causal", "--against", wrong, end=1)
    first, *_, last = [line for line in text.splitlines() if line[:1].isupper()]
    assert first == f"REFUTED     {folder}/mine.py:attention is not equal to {wrong}" and last.startswith("AGREES")
    code, _, err = called(other, "--against", wrong)
    assert code == 2 and "--prove" in err


def test_a_module_with_names_of_its_own_needs_no_description(folder: Path) -> None:
    found = proof(folder, "modules.py:mine")
    assert found["verdict"] == "proved" and {"B", "T"} <= set(found["symbolic"])
    assert found["layout"].startswith("packed_linear")
    assert any("w_qkv is to_qkv.weight" in words for words in found["notes"])
    assert any("read as sqrt" in w or "scale" in w for w in (*found["assumptions"], found["specification"]))


def test_a_causal_module_is_found_to_be_causal(folder: Path) -> None:
    found = proof(folder, "modules.py:gpt")
    assert found["verdict"] == "proved" and "causal by itself" in found["specification"]
    assert any("T <= 16" in words for words in found["assumptions"])
    assert any("triangle" in words for words in found["assumptions"])
    assert any("with gradients and without" in words for words in found["assumptions"])


def test_a_condition_on_sizes_stands_in_the_headline(folder: Path) -> None:
    headline = next(line for line in run(folder, "modules.py:gpt").splitlines() if line.startswith("PROVED"))
    assert headline.endswith("and all weights, where T <= 16")


def test_a_wrong_module_is_read_by_its_names_and_refuted(folder: Path) -> None:
    found = proof(folder, "modules.py:wrong", end=1)
    assert found["verdict"] == "refuted" and found["cases"][0]["first_wrong"] == "q"
    assert "reshape(b, self.heads, t, -1)" in found["source"][0]["what"]
