"""Diagnosis names the fault that was made, alone or with provably equal ones, and nothing where nothing is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.diagnosis.fit import orders
from mha_sym.audit.dumps.dump import check_dump
from mha_sym.audit.faults import faults, find_fault
from tests.audit import right
from tests.audit.implementations import implementation, tied_sizes
from tests.audit.mistakes import MISTAKES
from tests.audit.right import RIGHT
from tests.audit.wrong import WRONG, attend, merge, softmax, split

NAMED = [one.name for one in faults() if not one.random and "groups" not in one.needs]

#: at sizes at which two faults run, they may be one function; where it is not proved, it is said
UNPROVED: set[str] = set()


def names(report):
    return [one.names for one in report.faults]


@pytest.mark.parametrize("name", NAMED[::2])  # the corpus has all of them
def test_the_fault_that_was_made_is_named(name):
    report = check(implementation(name), sizes=tied_sizes(find_fault(name)))
    assert report.verdict == "disagree", report.text()
    (found,) = report.faults
    assert name in found.names, report.text()
    # what depends on which length is the greater shows in every other draw
    assert found.telling >= (1 if "switches" in name else 3) and found.difference <= found.bound
    proved = {one for twin in found.twins if twin.proved for one in twin.names}
    assert name == found.name or name in proved or name in UNPROVED, found.twins


PAIRS = [
    ("split_by_view_of_q", "scale_missing"), ("join_without_transpose", "scale_by_d_model"),
    ("softmax_over_queries", "join_features_first"), ("split_features_first_of_v", "scale_after_softmax"),
]  # fmt: skip


def queries_viewed_and_unscaled(x, w_q, w_k, w_v, w_o, heads):
    q = (x @ w_q).reshape(x.shape[0], heads, x.shape[1], -1)
    return merge(softmax(q @ split(x @ w_k, heads).swapaxes(2, 3)) @ split(x @ w_v, heads)) @ w_o


def joined_raw_and_scaled_by_the_model(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return (softmax(q @ k.swapaxes(2, 3) / np.sqrt(x.shape[-1])) @ v).reshape(*x.shape[:2], -1) @ w_o


def softmax_over_queries_and_joined_features_first(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    a = softmax((q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])).swapaxes(2, 3)).swapaxes(2, 3)
    return (a @ v).transpose(0, 2, 3, 1).reshape(*x.shape[:2], -1) @ w_o


def values_strided_and_scaled_late(x, w_q, w_k, w_v, w_o, heads):
    q, k = split(x @ w_q, heads), split(x @ w_k, heads)
    v = (x @ w_v).reshape(*x.shape[:2], -1, heads).transpose(0, 3, 1, 2)
    return merge(softmax(q @ k.swapaxes(2, 3)) / np.sqrt(q.shape[-1]) @ v) @ w_o


@pytest.mark.parametrize(
    ("pair", "code"),
    list(zip(PAIRS, (
        queries_viewed_and_unscaled, joined_raw_and_scaled_by_the_model,
        softmax_over_queries_and_joined_features_first, values_strided_and_scaled_late,
    ), strict=True)),
)  # fmt: skip
def test_two_faults_together_are_named(pair, code):
    report = check(code)
    (found,) = report.faults
    assert {one.name for one in found.faults} == set(pair), report.text()
    assert report.findings is not None and report.findings.diagnosis.pairs > 0


def test_a_fault_of_each_mask_is_named_together():
    def attention(x, w_q, w_k, w_v, w_o, heads, keep=None, key_keep=None):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        scores = scores if keep is None else np.where(keep.T, scores, -1e30)
        scores = scores if key_keep is None else np.where(key_keep[:, None, None, :], -1e30, scores)
        return merge(softmax(scores) @ v) @ w_o

    (found,) = check(attention).faults
    assert {one.name for one in found.faults} == {"causal_mask_transposed", "padding_mask_inverted"}


def test_no_fault_is_named_that_does_not_reproduce_the_output():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        return merge(softmax(np.sin(q @ k.swapaxes(2, 3))) @ v) @ w_o

    report = check(attention)
    assert report.exit_code == 1 and not report.faults and not report.json()["faults"]
    assert "none of the" in report.text() and "known faults" in report.text()
    assert report.findings is not None
    assert report.findings.diagnosis.singles > 40 and report.findings.diagnosis.pairs > 500


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_named_where_nothing_is_wrong(name):
    report = check(RIGHT[name])
    assert report.ok and not report.faults and not report.json()["faults"]


@pytest.mark.parametrize("name", WRONG)
def test_wrong_code_in_the_style_of_public_code_is_named(name):
    (found,) = check(WRONG[name]).faults
    assert found.telling >= 3


def test_faults_that_are_one_function_are_said_to_be():
    (found,) = check(implementation("scale_by_d_k")).faults
    (twin,) = found.twins
    assert twin.names == ("scale_applied_twice",) and twin.proved and "all sizes" in twin.words


def test_faults_that_differ_only_elsewhere_are_told_apart_where_sizes_are_free():
    assert check(implementation("scale_by_d_model")).faults[0].names == {"scale_by_d_model"}
    report = check(implementation("scale_by_d_model"), sizes={"d_model": 12, "h": 4, "d_k": 3})
    (found,) = report.faults
    assert found.names == {"scale_by_d_model", "scale_by_joined_width"}
    assert found.twins[0].proved and "d_model = h d_k" in found.twins[0].words


def test_the_order_of_heads_is_found():
    def attention(x, w_q, w_k, w_v, w_o):
        q, k, v = (split(x @ w, 4) for w in (w_q, w_k, w_v))
        return merge(attend(q[:, [2, 0, 3, 1]], k, v)) @ w_o

    (found,) = check(Implementation(call=attention, heads=4)).faults
    assert found.name == "heads_permuted_in_queries" and found.order == (2, 0, 3, 1)
    assert len(orders(4)) == 23 and len(orders(7)) < 60


def test_the_report_carries_formulas_traces_and_mend():
    report = check(WRONG["joined without transpose"])
    data = json.loads(json.dumps(report.json()))
    assert data["verdict"] == "disagree" and set(data) >= {"steps", "faults", "symmetries", "sizes", "bounds"}
    (fault,) = data["faults"]
    assert fault["name"] == "join_without_transpose" and fault["mend"] == "rearrange(z, 'b h t v -> b t (h v)')"
    assert fault["formula_right"] == "C[b, t, r d_v + j] = Z[b,r,t,j]"
    assert fault["formula"].startswith("C[b, t, r d_v + j] = Z[b, ⌊") and "mod" in fault["formula"]
    assert "\\lfloor" in fault["latex"][0]
    assert "reshape" in fault["traces"][0]["faulty"] and "transpose" in fault["traces"][0]["right"]
    text = report.text(detail=True)
    assert "FAULT  join_without_transpose" in text and "exact to rounding on 3 independent probes" in text
    assert "axes, as they should be" in text
    assert "<table>" in report._repr_html_() and "join_without_transpose" in report._repr_html_()


def shows(**edits):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = right.all_stages(x, w_q, w_k, w_v, w_o, heads)
        return {**shown, **{name: edit(shown[name]) for name, edit in edits.items()}}

    return attention


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (shows(q=lambda q: q / np.sqrt(q.shape[-1])), "scale_on_queries"),
        (shows(k=lambda k: k / np.sqrt(k.shape[-1])), "scale_on_keys"),
        (shows(q=lambda q: q * q.shape[-1] ** -0.25, k=lambda k: k * k.shape[-1] ** -0.25), "scale_in_fourth_roots"),
    ],
)  # fmt: skip
def test_a_symmetry_is_not_a_fault(code, name):
    report = check(code)
    assert report.verdict == "agree" and report.first_wrong is None and not report.faults
    assert [one.name for one in report.symmetries] == [name]
    assert f"by theorem {report.symmetries[0].faults[0].theorem}" in report.text()
    assert report.json()["symmetries"][0]["theorem"] == "scale_moves_between_queries_and_keys"


def every_stage(q, k, v, w_o, b_o):
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    z = softmax(scores) @ v
    shown = {"q": q, "k": k, "v": v, "scores": scores, "weights": softmax(scores), "z": z, "c": merge(z)}
    return {**shown, "y": merge(z) @ w_o + b_o}


def value_bias_in_the_output(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, heads):
    q, k, v = split(x @ w_q + b_q, heads), split(x @ w_k + b_k, heads), split(x @ w_v, heads)
    return every_stage(q, k, v, w_o, b_v @ w_o + b_o)


def no_key_bias(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, heads):
    q, k, v = split(x @ w_q + b_q, heads), split(x @ w_k, heads), split(x @ w_v + b_v, heads)
    return every_stage(q, k, v, w_o, b_o)


def heads_in_reverse(x, w_q, w_k, w_v, w_o, heads):
    w_q, w_k, w_v = (np.concatenate(np.split(w, heads, axis=1)[::-1], axis=1) for w in (w_q, w_k, w_v))
    rows = np.concatenate(np.split(w_o, heads)[::-1])
    return every_stage(*(split(x @ w, heads) for w in (w_q, w_k, w_v)), rows, 0)


def features_in_reverse(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return every_stage(q[..., ::-1], k[..., ::-1], v, w_o, 0)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (value_bias_in_the_output, "value_bias_folded"), (no_key_bias, "key_bias_dropped"),
        (heads_in_reverse, "heads_permuted_with_w_o"), (features_in_reverse, "features_permuted_inside_heads"),
    ],
)  # fmt: skip
def test_the_same_layer_computed_differently_agrees_by_a_theorem(code, name):
    report = check(code)
    assert report.ok and [one.name for one in report.symmetries] == [name]
    assert "same function" in report.text() and {one.status for one in report.steps} == {"ok"}


def test_a_stage_that_no_symmetry_explains_is_wrong():
    report = check(shows(q=lambda q: q / 3))
    assert report.verdict == "disagree" and not report.symmetries
    assert report.first_wrong is not None and report.first_wrong.stage == "q"


@pytest.mark.parametrize(
    ("name", "note"), [("queries_from_key_input", "S = T"), ("split_untransposed_q", "T = h")],
)  # fmt: skip
def test_code_that_runs_only_where_sizes_coincide_is_run_there(name, note):
    def refuse(a):
        if name.startswith("split") and a.x_q.shape[1] != a.heads:
            raise ValueError("shapes")
        return original(a)

    original = MISTAKES[name]
    MISTAKES[name] = refuse
    try:
        report = check(implementation(name))
    finally:
        MISTAKES[name] = original
    assert any(f"it runs only where {note}" in one for one in report.notes), report.notes
    assert name in report.faults[0].names


def test_nan_in_the_first_row_says_why():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        keep = np.tril(np.ones((x.shape[1], x.shape[1]), bool), -1)
        with np.errstate(invalid="ignore"):
            return merge(softmax(np.where(keep, q @ k.swapaxes(2, 3), -np.inf)) @ v) @ w_o

    with pytest.raises(Exception, match="returns nan") as caught:
        check(Implementation(call=attention, causal=True))
    assert "hides the diagonal" in caught.value.hint


def test_a_dump_is_diagnosed_without_running_anything(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"w_q": (10, 12), "w_k": (10, 12), "w_v": (10, 15), "w_o": (15, 10)}
    w = {name: rng.normal(size=shape) / 3 for name, shape in shapes.items()}
    x = rng.normal(size=(2, 7, 10))
    y = WRONG["joined without transpose"](x, **w, heads=3)
    np.savez(tmp_path / "layer.npz", x=x, **w, y=y)
    report = check_dump(tmp_path / "layer.npz", heads=3)
    assert [one.name for one in report.faults] == ["join_without_transpose"]
    assert [one.step for one in report.steps if one.status == "wrong"] == [6]
