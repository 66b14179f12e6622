"""Code of which nothing can be proved: one clear line that says what to do, and how the command ends."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from mha_sym.cli import main

MODULES = '''
import numpy as np
import torch
from torch import nn

class Right(nn.Module):
    def __init__(self, width=12, heads=3):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("seen", torch.ones(1))

    def forward(self, x):
        q, k, v = (p.unflatten(2, (self.heads, -1)).transpose(1, 2) for p in self.to_qkv(x).chunk(3, -1))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))

class Branch(Right):
    def forward(self, x):
        return super().forward(x) if x.sum() > -1e9 else -x

class Counts(Right):
    def forward(self, x):
        self.seen += 1
        return super().forward(x) * self.seen

class Writes(Right):
    def forward(self, x):
        x *= 1.0
        return super().forward(x)

class Swallows(Right):
    def forward(self, x):
        try:
            x = x * 2 if self.large(x) else x
        except Exception:
            pass
        return super().forward(x)

    def large(self, x):
        return x.sum() > 1e9

class SwallowsEntries(Swallows):
    def large(self, x):
        return x.numpy().sum() > 1e9

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.h = nn.Embedding(10, 12), nn.ModuleList([Right(), Right()])

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.h:
            x = x + layer(x)
        return x

branch, counts, writes, model = Branch(), Counts(), Writes(), Model()
swallows, entries = Swallows(), SwallowsEntries()

def function(x, w_q, w_k, w_v, w_o, heads):
    split = lambda w: (x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)
    scores = split(w_q) @ split(w_k).swapaxes(-1, -2) / np.sqrt(w_q.shape[1] // heads)
    try:
        if float(scores.max()) > 1e6:
            scores = scores * 0
    except Exception:
        pass
    a = np.exp(scores)
    return (a / a.sum(-1, keepdims=True) @ split(w_v)).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o
'''

#: what is said, and where it stands
SAID = {
    "branch": ("depends on the entries of a tensor", "return super().forward(x) if x.sum()"),
    # what the code caught when it asked for entries, and went another way than it goes with entries
    "swallows": ("depends on the entries of a tensor", "x = x * 2 if self.large(x) else x"),
    "entries": (".numpy() is not supported", ""),
    "function": ("a function outside the vocabulary wants the values of an array", "if float(scores.max()) > 1e6"),
    "counts": ("is random from call to call", ""),
    "writes": ("this writes into the input x", "x *= 1.0"),
    "model": ("hint: say which part of it is meant: --at h.0 (or h.1)", ""),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("targets") / "modules.py"
    place.write_text(MODULES)
    return place


@pytest.mark.parametrize("name", SAID)
def test_what_cannot_be_proved_is_told_and_ends_with_2(file: Path, name: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["check", f"{file}:{name}", "--prove"])
    assert code == 2
    told = " ".join((out.getvalue() + err.getvalue()).split())  # lines are broken where they are long
    words, line = SAID[name]
    assert words in told and line in told and "Traceback" not in told and "PROVED" not in told
    assert not line or f"{file}:" in told.replace("- ", "-")
