"""Scores with a bias by position: the probe sees it where there is one, and nothing in code without."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit.check import check
from mha_sym.audit.functions import from_function
from tests.importers.test_rotary import heads


def attention(slope, hidden=False):
    def attend(x, w_q, w_k, w_v, w_o, heads_):
        q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
        t = np.arange(x.shape[1])
        scores = q @ k.swapaxes(-1, -2) / (q.shape[-1] ** 0.5 if slope else 1)  # the scale is a mistake of another kind
        scores = scores - slope * np.abs(t[:, None] - t)
        scores = np.where(t[:, None] >= t, scores, -np.inf) if hidden else scores
        a = np.exp(scores - scores.max(-1, keepdims=True))
        z = a / a.sum(-1, keepdims=True) @ v
        return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

    return attend


TAKES = ("x", "w_q", "w_k", "w_v", "w_o", "heads")


@pytest.mark.parametrize("hidden", [False, True])
def test_a_bias_by_position_is_seen_and_a_causal_mask_beside_it(hidden):
    report = check(from_function(attention(0.5, hidden), takes=TAKES, heads=3), draws=1)
    causes = [one.cause for one in report.probes if not one.ok]
    assert any("bias by position" in one for one in causes)
    assert any("causal by itself" in one for one in causes) is hidden


def test_a_causal_mask_is_no_bias_and_what_else_is_wrong_is_named():
    report = check(from_function(attention(0.0, hidden=True), takes=TAKES, heads=3), draws=1)
    assert [one.name for one in report.faults] == ["scale_missing"]
    assert not any("bias by position" in one.cause for one in report.probes)
    assert any("nothing was said of a causal mask" in note for note in report.notes)
