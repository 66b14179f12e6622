"""Code that masks by itself, of which nobody said so: what else is wrong with it is named alone."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym import Implementation
from mha_sym.audit.cases import cases_of
from mha_sym.audit.diagnosis.diagnose import diagnose
from mha_sym.audit.masks.own_mask import NOTE, as_causal
from mha_sym.audit.runs import seen_of
from mha_sym.audit.settle import Wishes
from tests.audit.wrong import merge, softmax, split


def causal(join=merge, scale=lambda q: q.shape[-1] ** -0.5, cut=split):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (cut(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(2, 3) * scale(q)
        return join(softmax(np.where(np.tri(x.shape[1]) > 0, scores, -1e9)) @ v) @ w_o

    return Implementation(call=attention, tied=())


def judged(impl):
    wishes = Wishes(draws=2)
    return as_causal(impl, wishes, seen_of(impl, cases_of(impl), wishes).evidence)


@pytest.mark.parametrize(
    ("impl", "name"),
    [
        (causal(join=lambda z: z.reshape(z.shape[0], z.shape[2], -1)), "join_without_transpose"),
        (causal(scale=lambda q: 1.0), "scale_missing"),
        (causal(cut=lambda flat, h: flat.reshape(flat.shape[0], h, flat.shape[1], -1)), "split_by_view"),
    ],
)  # fmt: skip
def test_what_else_is_wrong_is_named_alone(impl, name):
    seen = judged(impl)
    (found,) = diagnose(seen.evidence, pairs=False).found
    assert found.name == name and NOTE in seen.notes and seen.impl.causal
    assert seen.impl.said["mask"] == "what it does"


def test_code_that_is_right_but_for_the_mask_is_left_to_the_catalogue():
    assert judged(causal()) is None


def test_two_faults_besides_the_mask_are_no_single_one():
    assert judged(causal(scale=lambda q: 1.0, join=lambda z: z.reshape(z.shape[0], z.shape[2], -1))) is None
