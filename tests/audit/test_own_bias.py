"""Code that is right but for a bias that it adds by itself: the bias is measured and told, and is no fault if meant.

The biases here are written out in NumPy, with slopes that are not those of anybody.
"""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym import Implementation, check
from mha_sym.audit.cases import cases_of
from mha_sym.audit.diagnosis.own_bias import own_bias
from mha_sym.audit.runs import seen_of
from mha_sym.audit.settle import Wishes
from tests.audit.wrong import merge, softmax, split


def slopes(heads):
    return 0.7 / (1 + np.arange(heads))


def by_distance(heads, t):
    return -slopes(heads)[:, None, None] * np.abs(np.arange(t)[:, None] - np.arange(t))


def by_distance_and_causal(heads, t):
    return np.where(np.tri(t) > 0, by_distance(heads, t), -np.inf)


def by_position(heads, t):
    """One number for every distance and side, as T5 looks it up."""
    table = np.random.default_rng(5).standard_normal((heads, 60))
    return table[:, np.arange(t)[:, None] - np.arange(t) + 30]


def biased(bias, scale=lambda q: q.shape[-1] ** -0.5):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        return merge(softmax(q @ k.swapaxes(2, 3) * scale(q) + bias(heads, x.shape[1])) @ v) @ w_o

    return Implementation(call=attention, tied=())


def found(impl):
    return own_bias(impl, seen_of(impl, cases_of(impl), Wishes(draws=2)).evidence)


@pytest.mark.parametrize(
    ("bias", "name", "meant"),
    [
        (by_distance, "bias_by_distance", "a bias by distance that"),
        (by_distance_and_causal, "bias_by_distance", "a bias by distance and a causal mask that"),
        (by_position, "bias_by_position", "a bias by position that"),
    ],
)  # fmt: skip
def test_a_bias_is_told(bias, name, meant):
    one = found(biased(bias))
    assert one.name == name and one.telling == 2 and one.faults[0].meant == f"{meant} nobody declared"
    assert ("m = 0.7, 0.35, 0.2333 at h = 3" in one.words) == (name == "bias_by_distance")
    assert ("say --causal" in one.mend) == ("causal" in meant)


@pytest.mark.parametrize(
    "impl",
    [biased(by_distance, scale=lambda q: 1.0), biased(lambda heads, t: 0.0, scale=lambda q: 1.0)],
    ids=["bias and no scale", "no bias"],
)
def test_nothing_is_told_where_a_bias_is_not_all(impl):
    assert found(impl) is None


def test_the_headline_says_that_all_else_is_right():
    report = check(biased(by_distance), name="code", draws=2)
    first, _, rest = report.text().partition("\n")
    assert first == "DISAGREES   code: right but for a bias by distance that nobody declared; no fault if that is meant"
    assert "FOUND  bias_by_distance" in rest and "axes={'mask': 'h t s'}" in " ".join(rest.split())
    assert [one.status for one in report.steps].count("wrong") == 1


def test_code_that_takes_its_bias_is_checked_with_any():
    def attention(x, w_q, w_k, w_v, w_o, heads, mask=None):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + (0 if mask is None else mask)) @ v) @ w_o

    report = check(Implementation(call=attention, axes={"mask": "h t s"}, tied=()), draws=1)
    assert report.ok and "additive mask, finite" in {one.case for one in report.compared}
