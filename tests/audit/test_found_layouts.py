"""Torch modules with the names of a library: which layout they are judged under, and what is said of it."""

from __future__ import annotations

import pytest
import torch

from mha_sym.audit import check
from mha_sym.errors import Problem


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
