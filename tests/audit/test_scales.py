"""A scale is named as what it is, although others coincide with it at single sizes.

The code here is plain NumPy with a scale handed in; sizes are drawn, and a constant is not taken for a formula.
"""

from __future__ import annotations

from math import isqrt, sqrt

import numpy as np
import pytest

from mha_sym import Implementation
from mha_sym.attention.rotary import Rotary
from mha_sym.audit.cases import cases_of
from mha_sym.audit.catalogue.scale_at_sizes import SCALES_AT_SIZES, constant_scale
from mha_sym.audit.diagnosis.diagnose import diagnose
from mha_sym.audit.diagnosis.probes import another_scale
from mha_sym.audit.diagnosis.scales import fitted_scale, simple_numbers
from mha_sym.audit.runs import further, seen_of
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.settle import Wishes
from tests.audit.wrong import merge, softmax, split


def scaled(scale, turn=lambda q, cos, sin: q):
    """Attention whose scores are multiplied by ``scale(d_model, heads, d_k)``."""

    def attention(x, w_q, w_k, w_v, w_o, heads, cos=None, sin=None):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        q, k = (turn(one, cos, sin) for one in (q, k))
        return merge(softmax(q @ k.swapaxes(2, 3) * scale(x.shape[-1], heads, q.shape[-1])) @ v) @ w_o

    return attention


def found(impl, draws=3):
    seen = seen_of(impl, cases_of(impl), Wishes(draws=draws))
    return diagnose(seen.evidence, further(seen), pairs=False).found


def of(scale, **known):
    return Implementation(call=scaled(scale), takes=("x", "w_q", "w_k", "w_v", "w_o", "heads"), tied=(), **known)


@pytest.mark.parametrize(
    ("scale", "name"),
    [
        (lambda m, h, k: 0.125, "scale_constant"),  # 1/d_k where d_k = 8, which is drawn first, and next
        (lambda m, h, k: 1 / k, "scale_by_d_k"),
        (lambda m, h, k: 1 / sqrt(m / h), "scale_by_model_over_heads"),
        (lambda m, h, k: 1 / sqrt(m // h), "scale_by_model_over_heads_floored"),
        (lambda m, h, k: 1 / isqrt(k), "scale_by_whole_root"),
    ],
)  # fmt: skip
def test_a_scale_is_named_as_what_it_is(scale, name):
    (one,) = found(of(scale))
    assert one.name == name and one.telling >= 2 and not one.proviso


def test_a_constant_is_told_with_where_it_is_right():
    (one,) = found(of(lambda m, h, k: 0.125))
    assert "a constant, 0.125, at d_k = 8 and at d_k = 9 alike" in one.words
    assert one.symptom == "Right at d_k = 64 only, where 1/sqrt(d_k) is 0.125."


def test_further_draws_tell_a_constant_from_a_formula_that_the_first_draw_shows():
    (one,) = found(of(lambda m, h, k: 0.125), draws=1)
    assert one.name == "scale_constant" and one.probes == 3


def test_a_constant_of_code_with_another_scale_is_told_with_that_one():
    assert constant_scale(0.25, [5], declared=1).symptom == "Right where 1 is 0.25 only."


def test_a_width_that_is_fixed_leaves_a_formula_open_and_it_is_said():
    (one,) = found(of(lambda m, h, k: 0.2, d_k=5, d_v=3, d_model=11, heads=4))
    assert one.name == "scale_by_d_k" and "d_k is 5 in all of them" in one.confidence


def turn_first_four(x, cos, sin):
    """Features j and j + 2 of the first four turned; ``cos`` and ``sin`` are (t, 4)."""
    half = np.concatenate([-x[..., 2:4], x[..., :2]], axis=-1)
    return np.concatenate([x[..., :4] * cos + half * sin, x[..., 4:]], axis=-1)


def test_the_root_of_the_turned_features_is_named():
    impl = Implementation(
        call=scaled(lambda m, h, k: 0.5, turn_first_four), rotary=Rotary("halves", width=4), tied=(),
        takes=("x", "w_q", "w_k", "w_v", "w_o", "heads", "cos", "sin"),
    )  # fmt: skip
    (one,) = found(impl)
    assert one.name == "scale_by_turned_features"


def test_widths_are_not_the_same_three_times_running():
    impl = of(lambda m, h, k: 1.0)
    (case,) = cases_of(impl)
    for seed in range(12):
        sizes = [draw_setting(impl, case, seed, draw).sizes for draw in range(3)]
        assert all(len({one[name] for one in sizes}) > 1 for name in ("h", "d_k", "d_v", "d_model"))


def test_a_scale_that_has_no_name_is_told_by_its_number():
    impl = of(lambda m, h, k: 1 / (k + 1))
    seen = seen_of(impl, cases_of(impl), Wishes(draws=3))
    first = seen.evidence[0]
    scale, known = fitted_scale(first)
    assert abs(scale - 1 / 9) <= known < 1e-12 and not diagnose(seen.evidence, pairs=False).found
    assert "0.111111 where 0.353553 is declared" in another_scale(first).cause


def test_no_scale_is_found_where_something_else_is_wrong():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        return merge(softmax(np.sin(q @ k.swapaxes(2, 3))) @ v) @ w_o

    impl = Implementation(call=attention, tied=())
    (first, *_) = seen_of(impl, cases_of(impl), Wishes(draws=1)).evidence
    assert fitted_scale(first) is None or another_scale(first) is None


def test_numbers_that_people_write_come_first():
    assert next(simple_numbers(0.12500000000000003, 1e-12)) == 0.125
    assert next(simple_numbers(128**-0.5, 1e-12)) == 128**-0.5
    assert list(simple_numbers(0.2345678, 1e-12)) == [0.2345678]


def test_every_one_is_complete():
    for one in (*SCALES_AT_SIZES, constant_scale(0.3, [5])):
        assert one.words.endswith(".") and one.symptom.endswith(".") and one.mend and one.step == 4


# ---------------------------------------------------------------- numbers where scores are hidden


def filling(number, added=False):
    def attention(x, w_q, w_k, w_v, w_o, heads, keep=None):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        if keep is not None:
            scores = np.where(keep, scores, scores + number if added else number)
        return merge(softmax(scores) @ v) @ w_o

    return Implementation(call=attention, tied=())


@pytest.mark.parametrize(("number", "added"), [(-20.0, False), (-3.5, False), (-15.0, True)])
def test_a_number_that_does_not_hide_is_named(number, added):
    (one,) = found(filling(number, added), draws=2)
    assert one.name == ("mask_number_added" if added else "mask_fill_number") and not one.cases
    assert f"{number:g}" in one.words and "instead of minus infinity" in one.words


def test_a_number_that_hides_is_no_fault():
    impl = filling(-60.0)
    assert seen_of(impl, cases_of(impl), Wishes(draws=1)).right
