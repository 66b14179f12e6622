"""A parameter called ``mask`` is added, or is boolean: which one is found out, and no wrong code becomes right so."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mha_sym.audit import Implementation, check, from_function
from mha_sym.audit.proving.code import prove_code
from mha_sym.proof.theorem import Verdict
from tests.audit.wrong import merge, softmax, split


def attention(x, w_q, w_k, w_v, w_o, heads, hide):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return merge(softmax(hide(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))) @ v) @ w_o


def added(x, w_q, w_k, w_v, w_o, heads, mask=None):
    return attention(x, w_q, w_k, w_v, w_o, heads, lambda s: s if mask is None else s + mask)


def kept(x, w_q, w_k, w_v, w_o, heads, attn_mask=None):
    return attention(x, w_q, w_k, w_v, w_o, heads, lambda s: s if attn_mask is None else np.where(attn_mask, s, -1e30))


def dropped(x, w_q, w_k, w_v, w_o, heads, mask=None):
    return attention(x, w_q, w_k, w_v, w_o, heads, lambda s: s if mask is None else np.where(~mask, s, -1e30))


def filled(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, mask=None):
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    scores = scores if mask is None else scores.masked_fill(mask == 0, -1e9)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ w_o


@pytest.mark.parametrize("code, word", [(kept, "keep"), (dropped, "drop"), (filled, "keep")])
def test_a_boolean_mask_is_found_to_be_one(code, word):
    report = check(code, draws=1)
    assert report.ok, report.text()
    meaning = "may not attend" if word == "drop" else "may attend"
    words = f"its mask was found to be boolean, true where a query {meaning}; it was checked as {word}"
    assert words in report.notes


def test_a_mask_that_is_added_is_left_as_it_is():
    report = check(added, draws=1)
    assert report.ok and not any("boolean" in note for note in report.notes)


def keep_always(x, w_q, w_k, w_v, w_o, heads, keep):
    return attention(x, w_q, w_k, w_v, w_o, heads, lambda s: np.where(keep, s, -np.inf))


def mask_always(x, w_q, w_k, w_v, w_o, heads, mask):
    return keep_always(x, w_q, w_k, w_v, w_o, heads, mask)


def both_always(x, w_q, w_k, w_v, w_o, heads, key_drop, mask):
    hidden = key_drop[:, None, None, :]
    return attention(x, w_q, w_k, w_v, w_o, heads, lambda s: np.where(hidden, -np.inf, s + mask))


def transposed(x, w_q, w_k, w_v, w_o, heads, keep):
    return attention(x, w_q, w_k, w_v, w_o, heads, lambda s: np.where(keep.T, s, -1e9))


@pytest.mark.parametrize(
    ("code", "handed"),
    [
        (keep_always, ["keep, all True"]), (mask_always, ["mask, all True"]),
        (both_always, ["key_drop, all False", "mask, zeros"]),
    ],
)  # fmt: skip
def test_a_mask_without_a_default_is_handed_over_in_every_case(code, handed):
    report = check(code, draws=1)
    assert report.ok and "no mask" in {one.case for one in report.compared}, report.text()
    words = "{} has no default: where nothing is hidden it was handed over as {}"
    assert set(report.notes) >= {words.format(*one.split(", ")) for one in handed}
    proof = prove_code(from_function(code) if code is not mask_always else Implementation(call=keep_always))
    assert proof.verdict is Verdict.PROVED and "no mask" in {one.case for one in proof.cases}


def test_what_is_wrong_with_such_a_mask_is_not_found_where_nothing_is_hidden():
    (fault,) = check(transposed).faults
    assert fault.name == "causal_mask_transposed" and "no mask" not in fault.cases
    said = Implementation(call=lambda *values: keep_always(*values), takes=("x", *"qkvo", "heads", "keep"),
                          names={f"w_{one}": one for one in "qkvo"}, needs=("keep",))  # fmt: skip
    assert check(said, draws=1).ok


def test_a_mask_without_effect_is_no_boolean_one():
    def ignored(x, w_q, w_k, w_v, w_o, heads, mask=None):
        return added(x, w_q, w_k, w_v, w_o, heads)

    report = check(ignored, draws=1)
    assert report.faults[0].name in ("masks_ignored", "additive_mask_ignored") and not report.notes


def test_what_a_description_says_is_not_guessed():
    said = Implementation(call=kept, takes=("x", "w_q", "w_k", "w_v", "w_o", "heads", "mask"))
    assert check(said, draws=1).verdict == "disagree"


def test_code_that_hides_later_keys_whatever_mask_it_is_given_is_wrong():
    """A causal mask alone would not show it; nor is an additive mask taken for a boolean one then."""

    def own_triangle(x, w_q, w_k, w_v, w_o, heads, keep=None):
        later = np.tri(x.shape[1], dtype=bool)
        return attention(x, w_q, w_k, w_v, w_o, heads, lambda s: s if keep is None else np.where(later, s, -np.inf))

    report = check(own_triangle)
    assert not report.ok and {one.case for one in report.compared if not one.ok} == {"boolean mask, any keys"}

    def additive(x, w_q, w_k, w_v, w_o, heads, mask=None):
        return own_triangle(x, w_q, w_k, w_v, w_o, heads, mask)

    report = check(additive)
    assert not report.ok and not any("boolean" in note for note in report.notes)


def test_any_keys_are_hidden_only_where_all_else_is_right():
    report = check(kept)
    assert report.ok and {one.case for one in report.compared} >= {"causal (boolean)", "boolean mask, any keys"}
    inverted = check(lambda x, w_q, w_k, w_v, w_o, heads, keep=None: dropped(x, w_q, w_k, w_v, w_o, heads, keep))
    assert not inverted.ok and "boolean mask, any keys" not in {one.case for one in inverted.compared}
