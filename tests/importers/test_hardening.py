"""Code of which nothing can be proved: one clear line that says what to do, and how the command ends."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from mha_sym.cli import main

MODULES = '''
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
'''

#: what is said, and where it stands
SAID = {
    "branch": ("depends on the entries of a tensor", "return super().forward(x) if x.sum()"),
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
