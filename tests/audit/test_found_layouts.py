"""Torch modules with the names of a library: which layout they are judged under, and what is said of it."""

from __future__ import annotations

import pytest
import torch

from mha_sym.audit import check
from mha_sym.audit.proving.pair import prove_target
from mha_sym.errors import Problem
from mha_sym.proof.theorem import Verdict


class Grouped(torch.nn.Module):
    """Six heads of width 4 that share two keys and values, under the names of Llama."""

    def __init__(self, width=20, heads=6, groups=2):
        super().__init__()
        self.num_heads, self.num_kv_heads = heads, groups
        for name, rows in (("q", heads), ("k", groups), ("v", groups)):
            setattr(self, f"{name}_proj", torch.nn.Linear(width, rows * 4, bias=False))
        self.o_proj = torch.nn.Linear(heads * 4, width, bias=False)

    def spread(self, one):
        return one.repeat_interleave(3, 1)

    def spread_values(self, one):
        return self.spread(one)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (one(x).view(b, t, -1, 4).transpose(1, 2) for one in (self.q_proj, self.k_proj, self.v_proj))
        weights = (q @ self.spread(k).mT / 2).softmax(-1)
        return self.o_proj((weights @ self.spread_values(v)).transpose(1, 2).reshape(b, t, -1))


class Packed(torch.nn.Module):
    """Five heads of width 4, under the names of nanoGPT."""

    order = (0, 1, 2)

    def __init__(self, width=20, heads=5):
        super().__init__()
        self.n_head = heads
        self.c_attn, self.c_proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def out(self, z):
        return self.c_proj(z)

    def forward(self, x):
        parts = self.c_attn(x).chunk(3, -1)
        q, k, v = (parts[n].unflatten(-1, (self.n_head, -1)).transpose(1, 2) for n in self.order)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class KeysFirst(Packed):
    order = (1, 0, 2)


class OutTransposed(Packed):
    def out(self, z):
        return z @ self.c_proj.weight + self.c_proj.bias


class AsManyKeys(Grouped):
    def __init__(self):
        super().__init__(groups=6)

    def spread(self, one):
        return one


class Tiled(Grouped):
    def spread(self, one):
        return one.repeat(1, 3, 1, 1)


class ValuesTiled(Grouped):
    def spread_values(self, one):
        return one.repeat(1, 3, 1, 1)


@pytest.mark.parametrize("options", [{}, {"layout": "llama"}, {"layout": "llama", "heads": 6, "kv_heads": 2}])
def test_wrong_code_with_fewer_keys_is_judged_under_the_grouped_layout(options):
    report = check(ValuesTiled(), **options)
    named = {name for one in report.faults for name in (one.name, *(n for twin in one.twins for n in twin.names))}
    assert report.verdict == "disagree" and "groups_tiled_in_values" in named, report.text()


def test_the_layout_that_was_said_decides():
    assert check(Tiled(), draws=1).ok  # under another layout it is attention
    said = check(Tiled(), layout="llama")
    assert "groups_tiled" in {one.name for one in said.faults}, said.text()
    assert any(note.startswith("its layout is what was said; under that one it does not") for note in said.notes)
    right = check(Grouped(), layout="llama", draws=1)
    assert right.ok and ("layout", "the user") in {(one.name, one.said_by) for one in right.conventions}
    with pytest.raises(Problem, match="not those of layout timm_vit"):
        check(Grouped(), layout="timm_vit")


@pytest.mark.parametrize(
    ("made", "library", "layout"),
    [
        (KeysFirst, "nanogpt (nanoGPT)", "nanogpt [K; Q; V]"),
        (OutTransposed, "nanogpt (nanoGPT)", "nanogpt, W_O transposed"),
        (Tiled, "llama (Llama)", "grouped_strided_linear"),
    ],
)
def test_a_layout_that_the_names_of_a_library_do_not_mean_is_asked_about(made, library, layout):
    report = check(made(), draws=1, name="layer")
    assert report.ok and report.text().startswith(f"AGREES      layer under layout {layout} (see the note): ")
    note = f"its names are those of {library}, but its weights lie otherwise, as {layout}: a checkpoint of theirs"
    assert any(one.startswith(note) for one in report.notes), report.notes


@pytest.mark.parametrize("made", [Packed, Grouped, AsManyKeys])
def test_the_layout_of_the_library_is_not_asked_about(made):
    report = check(made(), draws=1, name="layer")
    assert report.ok and report.target == "layer" and not any("checkpoint" in one for one in report.notes)


def test_a_proof_says_it_too():
    proof = prove_target(f"{__name__}:OutTransposed")
    assert proof.verdict is Verdict.PROVED
    assert proof.target.endswith("under layout nanogpt, W_O transposed (see the note)")
