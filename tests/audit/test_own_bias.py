"""Code that is right but for a bias that it adds by itself: the bias is measured and told, and is no fault if meant.

The biases here are written out in NumPy, with slopes that are not those of anybody.
"""

from __future__ import annotations

from dataclasses import replace

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


def test_a_causal_mask_that_was_said_is_not_told_as_unsaid():
    one = found(replace(biased(by_distance_and_causal), causal=True))
    assert one.faults[0].meant == "a bias by distance that nobody declared" and "--causal" not in one.mend


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


# ---------------------------------------------------------------- slopes that are those of ALiBi, or nearly


def of_alibi(heads, times=1.0):
    """As the paper has it at powers of two; between them, those of the power below and every other one of twice."""
    near = 2 ** int(np.log2(heads))
    every = [2 ** (-8 * i / near) for i in range(1, near + 1)] + [2 ** (-4 * i / near) for i in range(1, 2 * near, 2)]
    return times * np.array(every[:heads])


def with_slopes(times, causal=True, scaled=False, at=None):
    def bias(heads, t):
        away = np.abs(np.arange(t)[:, None] - np.arange(t))
        line = -of_alibi(heads, times)[:, None, None] * away
        return np.where(np.tri(t) > 0, line, -np.inf) if causal else line

    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        root = np.sqrt(q.shape[-1])
        scores = q @ k.swapaxes(2, 3) / root + bias(heads, x.shape[1]) / (root if scaled else 1.0)
        return merge(softmax(scores) @ v) @ w_o

    return Implementation(call=attention, tied=(), heads=at)


@pytest.mark.parametrize("heads", [4, 6, 5, None])
def test_slopes_of_alibi_are_told_as_such(heads):
    assert "as ALiBi has it" in found(with_slopes(1.0, at=heads)).words


@pytest.mark.parametrize(("causal", "heads"), [(True, 4), (False, 3)])
def test_slopes_that_were_scaled_with_the_scores_are_a_fault(causal, heads):
    one = found(with_slopes(1.0, causal, scaled=True, at=heads))
    assert "= 1/sqrt(d_k): they are added before the scores are scaled" in one.words and not one.faults[0].meant
    assert "as ALiBi" not in one.words and "scale first" in one.mend


def test_slopes_of_the_other_sign_are_a_fault_and_other_factors_are_told():
    turned, doubled = found(with_slopes(-1.0, causal=False)), found(with_slopes(2.0))
    assert "times -1: keys that are far are favoured" in turned.words and not turned.faults[0].meant
    assert "slopes of ALiBi times 2" in doubled.faults[0].meant
    assert "which are not the slopes of ALiBi" in found(biased(by_distance)).words


# ---------------------------------------------------------------- windows


def windowed(before, after, causal=False):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        away = np.arange(x.shape[1]) - np.arange(x.shape[1])[:, None]
        scores = np.where((-before <= away) & (away <= after), q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)
        return merge(softmax(scores) @ v) @ w_o

    return Implementation(call=attention, tied=(), causal=causal)


@pytest.mark.parametrize(("before", "after", "causal"), [(2, 0, False), (2, 0, True), (1, 0, False), (2, 1, False)])
def test_a_window_is_told_by_its_length(before, after, causal):
    one = found(windowed(before, after, causal))
    assert one.name == "sliding_window" and f"a sliding window of {before + after + 1} keys" in one.faults[0].meant
    assert ("later than the position" in one.words and "Later tokens act" in one.symptom) == (after > 0)


def test_a_window_that_sees_later_keys_is_a_fault_of_what_is_to_be_causal():
    one = found(windowed(2, 2, causal=True))
    assert one.name == "window_sees_later_keys" and not one.faults[0].meant and "s >= t - 2" in one.mend


def test_a_window_is_told_before_sets_of_faults_are_tried():
    report = check(windowed(2, 0), name="code", draws=2)
    assert report.text().startswith("DISAGREES   code: right but for a sliding window of 3 keys that nobody declared;")
    assert report.findings.diagnosis.pairs == 0


def test_a_window_with_something_else_wrong_is_not_told_as_right():
    wrong = windowed(2, 0).call
    assert found(Implementation(call=lambda x, w_q, w_k, w_v, w_o, heads: wrong(x, 2 * w_q, w_k, w_v, w_o, heads),
                                tied=())) is None  # fmt: skip
