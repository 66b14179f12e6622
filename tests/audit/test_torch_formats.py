"""Torch modules that compute in single precision by themselves, or do not run in doubles: judged in that, and told."""

from __future__ import annotations

import pytest
import torch

from mha_sym.audit import check
from mha_sym.audit.frameworks.torch_found import from_module
from tests.audit.test_module_masks import Plain


class Rounded(Plain):
    def forward(self, x):
        return self.attend(x, lambda s: s.float().softmax(-1).type_as(s))


class InSingleOnly(Plain):
    def forward(self, x):
        return self.attend(x, lambda s: (torch.eye(s.shape[-2]) @ s).softmax(-1))  # a product of two formats


class Biased(Plain):
    """Scores times what stands in a table by position, which no attention does."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(9, self.heads)

    def forward(self, x):
        at = torch.arange(x.shape[1])
        bias = self.table((at[None, :] - at[:, None]).clamp(-4, 4) + 4).permute(2, 0, 1)
        return self.attend(x, lambda s: (s * bias).softmax(-1))


class Faint(Plain):
    """Wrong by less than single precision could tell."""

    def forward(self, x):
        return self.attend(x, lambda s: s.softmax(-1) * (1 - 1e-8))


@pytest.mark.parametrize(
    ("kind", "why"), [(Rounded, "it computes in float32 by itself"), (InSingleOnly, "run in float64 it raises")]
)
def test_code_that_computes_in_single_precision_is_judged_in_that(kind, why):
    report = check(kind(), draws=1)
    assert report.ok and report.dtype == "float32", report.text()
    assert any(one.startswith(why) and one.endswith("it is judged in float32") for one in report.notes), report.notes


def test_code_that_computes_in_doubles_is_not_excused_by_single_precision():
    made = from_module(Faint())
    assert made.dtype == "float64" and any("under no layout" in one for one in made.notes)


def test_a_table_that_is_looked_up_by_position_and_misused_is_followed():
    made = from_module(Biased())
    assert any("under no layout" in one for one in made.notes) and any("table of biases" in one for one in made.notes)
