"""Of which faults it is said that a coarser format would explain them: of none that is gross, and of those formats."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from mha_sym import Implementation, check
from mha_sym.audit.cases import cases_of
from mha_sym.audit.diagnosis.findings import Findings
from mha_sym.audit.rounding import likely_format
from mha_sym.audit.runs import seen_of
from mha_sym.audit.settle import Wishes
from tests.audit.wrong import merge, softmax, split

checking = importlib.import_module("mha_sym.audit.check")
torch = pytest.importorskip("torch")


def computed_in(kind, only_weights=False):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        given = torch.float64 if only_weights else kind
        x, w_q, w_k, w_v, w_o = (torch.from_numpy(np.array(one)).to(given) for one in (x, w_q, w_k, w_v, w_o))
        q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.to(kind).softmax(-1).to(given)
        return ((weights @ v).transpose(1, 2).flatten(2) @ w_o).double().numpy()

    return attention


def altered(scores=lambda s: s, heads_of=split, weights=lambda a: a):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (heads_of(x @ w, heads) for w in (w_q, w_k, w_v))
        return merge(weights(softmax(scores(q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5))) @ v) @ w_o

    return attention


def formats_of(attention):
    impl = Implementation(call=attention)
    return likely_format(seen_of(impl, cases_of(impl), Wishes(draws=2)).evidence)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_code_that_computes_in_a_format_is_told_so(name):
    assert formats_of(computed_in(getattr(torch, name))) == name


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_so_is_code_of_which_a_part_computes_in_it(name):
    assert formats_of(computed_in(getattr(torch, name), only_weights=True)) == name


@pytest.mark.parametrize(
    "attention",
    [
        altered(lambda s: s * 1.5), altered(heads_of=lambda y, h: y.reshape(y.shape[0], h, y.shape[1], -1)),
        altered(weights=lambda a: np.roll(a, 1, -1)), altered(weights=lambda a: a * 0.9),
        altered(lambda s: s - 0.1 * np.abs(np.arange(s.shape[-2])[:, None] - np.arange(s.shape[-1]))),
        altered(lambda s: np.where(np.abs(np.subtract.outer(*map(np.arange, s.shape[-2:]))) < 3, s, -np.inf)),
    ],
    ids=["scale", "view", "shift", "dropped", "bias", "window"],
)  # fmt: skip
def test_of_gross_faults_it_is_never_said(attention):
    assert formats_of(attention) is None


def test_the_report_says_it_only_where_it_was_measured(monkeypatch):
    monkeypatch.setattr(checking, "inquire", lambda *_, **__: Findings())  # that no fault explains it takes seconds
    half, shifted = (check(one, draws=1).notes for one in (computed_in(torch.float16), altered(lambda s: s + s**2)))
    assert any("dtype='float16'" in one for one in half) and not any("rounds" in one for one in shifted)
