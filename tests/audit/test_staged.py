"""Outputs made step by step are those of the whole forms, whatever the steps share and however they are batched."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from mha_sym.attention.rotary import Rotary
from mha_sym.audit.cases import cases_of
from mha_sym.audit.compare import evidence_of
from mha_sym.audit.diagnosis.course import Course, course_of
from mha_sym.audit.diagnosis.program import argument, program_of, run_on
from mha_sym.audit.diagnosis.staged import Staged
from mha_sym.audit.evidence import predicted
from mha_sym.audit.faults import find_fault
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.recipe import compatible
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.specification import specification
from mha_sym.axes import axis
from mha_sym.expr import Map, Reduce, Reshape, Softmax

ALL = ("x", "w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "heads", "keep", "key_keep")
TURNED = (*ALL[:10], "cos", "sin")
FEW_HEADS = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "kv_heads")
KINDS = {
    "masked": ({"takes": ALL}, {}, "causal and padding"),
    "square": ({"takes": ALL, "tied": ("d_v", "d_model")}, {"B": 2, "T": 7, "h": 3, "d_k": 4}, "causal (boolean)"),
    "as many samples as heads": ({"takes": ALL}, {"B": 3, "T": 5, "h": 3}, "padding (boolean)"),
    "rotary": ({"takes": TURNED, "rotary": Rotary("halves"), "tied": ("d_v",)}, {}, "no mask"),
    "grouped": ({"takes": FEW_HEADS, "layout": "grouped"}, {}, "no mask"),
}  # fmt: skip


def run_of(kind):
    options, sizes, name = KINDS[kind]
    impl = Implementation(call=lambda *given: None, **options)
    case = next(one for one in cases_of(impl) if one.name == name)
    spec, setting = specification(impl, case), draw_setting(impl, case, 0, 0, sizes)
    found = spec.values(setting.arrays, setting.sizes)
    return evidence_of(impl, spec, setting, found, {"y": found["y"]}, name)


def sets_of(on, count):
    course = course_of(on.forms)
    plain = [find_fault(name) for name in course.singles if name not in course.turning]
    pairs = [pair for pair in combinations(plain, 2) if compatible(pair[0].edits, pair[1].edits)]
    return [*((one,) for one in plain), *random.Random(7).sample(pairs, count)]


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_made_step_by_step_are_those_of_whole_forms(kind):
    on = run_of(kind)
    course, sets = Course(on.forms), sets_of(on, 60)
    made, possible = Staged(on, course).outputs({which: which for which in sets})
    forms = {which: on.forms.form(*which) for which in sets}
    whole = predicted(on, {which: form.y for which, form in forms.items() if form is not None})
    assert set(made) == set(whole) and possible == sum(form is not None for form in forms.values())
    for which, value in whole.items():
        np.testing.assert_allclose(made[which], value, rtol=1e-9, atol=1e-9 * np.abs(value).max())


def test_a_part_of_another_layer_is_not_taken_for_this_one():
    on = run_of("masked")
    staged = Staged(on, Course(on.forms))
    faults = [find_fault(name) for name in ("output_bias_dropped", "join_features_first")]
    both, _ = staged.outputs({"one": (faults[0],), "other": (faults[1],), "both": tuple(faults), "none": ()})
    np.testing.assert_allclose(both["both"] - both["other"], both["one"] - both["none"], atol=1e-12)
    assert np.abs(both["both"] - both["other"]).max() > 1e-3


def test_singles_that_change_nothing_or_at_random_are_left_out():
    course = course_of(run_of("masked").forms)
    assert "dropout_active" not in course.singles and "scale_default_for_own" not in course.singles
    assert {"heads_permuted_in_queries", "join_heads_permuted"} <= course.turning <= set(course.singles)


B, H, T, K = axis("b", "B"), axis("h", "h"), axis("t", "T"), axis("k", "d_k")
X = argument(0, (B, H, T, K))


@pytest.mark.parametrize(
    ("expr", "apart"),
    [
        (Softmax(X, (K,)), True), (Softmax(X, (B, K)), False), (Reduce("max", X, (T,)), True),
        (Reshape(X, (B, T, H, K)), True), (Reshape(X, (H, B, T, K)), False),
    ],
)  # fmt: skip
def test_only_steps_that_treat_samples_apart_are_batched(expr, apart):
    program, rng = program_of(expr), np.random.default_rng(3)
    assert (program.batch == B) == apart
    setting = run_of("rotary").setting
    n = {"B": setting.sizes["B"], "h": 3, "T": 5, "d_k": 4}
    setting.sizes.update(n)
    many = [(rng.normal(size=tuple(n.values())),) for _ in range(3)]
    for value, (given,) in zip(run_on(program, setting, many), many, strict=True):
        (alone,) = run_on(program, setting, [(given,)])
        np.testing.assert_allclose(value, alone, rtol=1e-12)


def test_one_without_a_value_takes_none_of_the_others_with_it():
    inverse, setting = program_of(Map("inv", (X,))), run_of("rotary").setting
    setting.sizes.update({"h": 3, "T": 5, "d_k": 4})
    many = [(np.full((setting.sizes["B"], 3, 5, 4), value),) for value in (1.0, 0.0, 2.0)]
    assert [one is None for one in run_on(inverse, setting, many)] == [False, True, False]


def test_exponentials_that_overflow_are_what_they_are_in_whole_forms():
    on = run_of("grouped")
    on.setting.arrays.update({name: 1e3 * on.setting.arrays[name] for name in ("X_q", "X_k", "X_v")})
    which = (find_fault("scale_missing"), find_fault("softmax_without_normalisation"))
    made, _ = Staged(on, Course(on.forms)).outputs({"both": which, "one": which[:1]})
    form = on.forms.form(*which)
    assert not np.isfinite(made["both"]).all() and np.isfinite(made["one"]).all()
    np.testing.assert_array_equal(made["both"], predicted(on, {"y": form.y})["y"])
