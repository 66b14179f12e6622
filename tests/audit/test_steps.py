"""The nine steps: all are there, the one that is wrong is the wrong one, and what cannot be seen is said."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.diagnosis.explanation import Diagnosis
from mha_sym.audit.diagnosis.steps import HIDDEN, STEP_NAMES, nine_steps
from mha_sym.audit.faults import faults, find_fault
from tests.audit import right
from tests.audit.implementations import implementation, tied_sizes
from tests.audit.right import RIGHT
from tests.audit.wrong import merge, softmax, split

SOME = [
    "query_bias_dropped", "weights_in_order_kqv", "split_by_view", "scale_missing", "mask_inverted",
    "softmax_over_heads", "join_without_transpose", "join_features_first", "output_bias_in_every_head",
]  # fmt: skip


def statuses(report):
    return {one.step: one.status for one in report.steps}


@pytest.mark.parametrize("name", SOME)
def test_the_step_of_the_fault_is_wrong_and_no_other_before_nine(name):
    report = check(implementation(name), sizes=tied_sizes(find_fault(name)))
    found = statuses(report)
    assert list(found) == list(range(1, 10))
    assert [n for n, status in found.items() if status == "wrong" and n < 9] == [find_fault(name).step]


@pytest.mark.parametrize("name", [name for name in RIGHT if name != "owns its weights"])
def test_correct_code_passes_every_step(name):
    found = statuses(check(RIGHT[name]))
    hidden = [n for n, status in found.items() if status == HIDDEN]
    assert "wrong" not in found.values() and set(hidden) <= {9}


def test_weights_that_cannot_be_changed_hide_step_nine():
    report = check(RIGHT["owns its weights"])
    (ninth,) = (one for one in report.steps if one.step == 9)
    assert ninth.status == HIDDEN and "let the function take its weights" in ninth.detail


def unknown(**shown):
    """Something that is no known fault; some of its stages are shown."""

    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = np.sin(q @ k.swapaxes(2, 3))
        z = softmax(scores) @ v
        every = {"q": q, "k": k, "v": v, "scores": scores, "weights": softmax(scores), "z": z, "c": merge(z)}
        return {**{name: every[name] for name in shown.get("stages", ())}, "y": merge(z) @ w_o}

    return attention


def test_a_black_box_says_what_would_make_its_steps_visible():
    found = check(unknown()).steps
    assert [one.status for one in found] == ["ok", "ok", *[HIDDEN] * 5, "wrong", "ok"]
    assert all("return a dict" in one.detail for one in found[2:7])
    assert "first at y[" in found[7].detail and "earlier stages are not shown" in found[7].detail


def test_stages_that_are_shown_place_the_first_deviation():
    report = check(unknown(stages=("q", "k", "v", "scores", "weights", "z", "c")))
    found = report.steps
    assert [one.status for one in found] == ["ok", "ok", "ok", "wrong", "ok", "ok", "ok", "ok", "ok"]
    assert "first at scores[" in found[3].detail
    assert "follows from what is shown before it" in found[5].detail
    assert "the first differing step is 4" in " ".join(report.text().split())


def test_a_fault_too_small_for_the_format_is_invisible_and_not_ok():
    report = check(Implementation(call=right.matmul_and_transpose, dtype="float16"))
    assert report.ok and report.findings is not None
    assert report.findings.diagnosis.invisible  # some faults move the output by less than the bound of float16
    told = " ".join(one.detail for one in report.steps)
    assert "invisible here" in told


def test_the_output_is_said_to_be_sensitive_to_every_fault_of_a_step():
    report = check(right.masked)
    (fourth,) = (one for one in report.steps if one.step == 4)
    assert "known faults of this step would move it by at least" in fourth.detail
    assert report.findings is not None
    effects = report.findings.diagnosis.effects
    assert effects["scale_missing"] > 1e6 and "scale_default_for_own" not in effects  # no fault here


def test_without_evidence_nothing_is_called_ok():
    assert {one.status for one in nine_steps((), Diagnosis(), (), {})} == {HIDDEN}
    assert [one.step for one in nine_steps((), Diagnosis(), (), {})] == list(STEP_NAMES)


def test_every_fault_belongs_to_a_step():
    assert {one.step for one in faults()} <= set(STEP_NAMES)
