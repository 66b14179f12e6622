"""Faults of rotary positions: each made by hand in NumPy is refuted by numbers and named, and is another function."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.attention.dims import combined_weights, dims, self_inputs
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.rotary import Angles, Rotary, tables, turned_dims
from mha_sym.audit.check import check
from mha_sym.audit.diagnosis.course import Course
from mha_sym.audit.evidence import Forms
from mha_sym.audit.faults import faults, faults_of_positions, find_fault
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.recipe import build, site
from tests.audit.public_positions import FAULTY, KINDS, SAME, first_then_second, turned
from tests.importers.test_rotary import attend, before_the_split, halves, heads, neighbours

TAKES = ("x", "w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o", "heads", "cos", "sin")


def first_four(turn):
    def only(x, cos, sin):
        return np.concatenate([turn(x[..., :4], cos, sin), x[..., 4:]], -1)

    return only


def by_hand(name, turn, other):
    """The mistake of that name, where ``turn`` is right and ``other`` turns other pairs."""

    def attention(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, n, cos, sin):
        b_k = b_k * 0 if name == "key_bias_left_out_under_positions" else b_k
        q, k, v = (heads(x, w, n) + b.reshape(n, 1, -1) for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
        r_q, r_k = turn(q, cos, sin), turn(k, cos, sin)
        back_q, back_k = turn(q, cos, -sin), turn(k, cos, -sin)
        q, k, v = {
            "positions_left_out": (q, k, v), "positions_in_queries_only": (r_q, k, v),
            "positions_in_keys_only": (q, r_k, v), "positions_backwards": (back_q, back_k, v),
            "positions_backwards_in_queries": (back_q, r_k, v), "positions_backwards_in_keys": (r_q, back_k, v),
            "positions_twice": (turn(r_q, cos, sin), turn(r_k, cos, sin), v),
            "positions_twice_in_queries": (turn(r_q, cos, sin), r_k, v),
            "positions_twice_in_keys": (r_q, turn(r_k, cos, sin), v),
            "positions_cos_and_sin_exchanged": (turn(q, sin, cos), turn(k, sin, cos), v),
            "positions_in_other_pairs": (other(q, cos, sin), other(k, cos, sin), v),
            "values_turned_too": (r_q, r_k, turn(v, cos, sin)),
        }.get(name, (r_q, r_k, v))  # fmt: skip
        return attend(q, k, v, w_o) + b_o

    return attention


def named(impl):
    (explanation,) = check(impl).findings.diagnosis.found
    return explanation.faults[0].name, [name for twin in explanation.twins for name in twin.names]


def described(name, rotary, turn, other):
    tied = ("d_v",) if find_fault(name).ties else None
    return Implementation(
        call=by_hand(name, turn, other), takes=TAKES, bias=True, rotary=rotary, name=name, tied=tied, heads=3
    )


#: those that are made above; the others are made in `tests.audit.public_positions`
MADE = {name for case in (*FAULTY.values(), *KINDS.values()) for name in case.names}
EVERY = [one.name for one in faults_of_positions() if one.name not in MADE | {"positions_before_the_split"}]


@pytest.mark.parametrize("name", EVERY)
def test_a_mistake_with_halves_is_named(name):
    found, twins = named(described(name, Rotary("halves"), halves, neighbours))
    assert name in (found, *twins)
    # with cosines and sines exchanged, angles are what is missing to a right one: all goes backwards
    assert found == name or "exchanged" in name


@pytest.mark.parametrize("name", ["positions_in_other_pairs", "positions_twice_in_keys"])
def test_a_mistake_with_neighbours_or_some_of_the_features_is_named(name):
    assert named(described(name, Rotary("interleaved"), neighbours, halves))[0] == name
    some = described(name, Rotary("halves", width=4), first_four(halves), first_four(neighbours))
    assert named(some)[0] == name


@pytest.mark.parametrize("words", KINDS)
def test_a_mistake_of_a_kind_is_named_alone(words):
    report = check(KINDS[words].code, draws=2, **KINDS[words].options)
    assert report.verdict == "disagree", report.text()
    assert [one.name for one in report.faults] == list(KINDS[words].names) and not report.faults[0].twins
    assert find_fault(KINDS[words].names[0]).mend in report.text()


@pytest.mark.parametrize("words", SAME)
def test_positions_that_are_turned_otherwise_with_the_same_scores_are_right(words):
    assert check(SAME[words]).ok


COUNTED = {
    "positions_one_ahead_in_queries": (1, 0), "positions_one_ahead_in_keys": (0, 1),
    "positions_all_ahead_in_queries": (0.5, 0), "positions_one_later_after_the_first": (None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("pairs", ["halves", "interleaved"])
def test_positions_of_each_sample_counted_wrong_are_named_with_a_number_for_every_feature(name, pairs):
    turn = halves if pairs == "halves" else neighbours

    def attention(x, w_q, w_k, w_v, w_o, n, cos, sin):
        angle = np.arctan2(sin, cos)
        step = angle[:, 1:2] - angle[:, :1]

        def at(more):
            count = {None: np.arange(x.shape[1])[:, None] > 0, 0.5: x.shape[1]}.get(more, more)
            return tuple(f(angle + count * step)[:, None] for f in (np.cos, np.sin))

        ahead_q, ahead_k = COUNTED[name]
        q, k = turn(heads(x, w_q, n), *at(ahead_q)), turn(heads(x, w_k, n), *at(ahead_k))
        return attend(q, k, heads(x, w_v, n), w_o)

    takes = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "cos", "sin")
    axes = {"cos": "b t k", "sin": "b t k"}
    rotary = Rotary(pairs, tables="twice" if pairs == "halves" else "feature")
    assert named(Implementation(call=attention, takes=takes, rotary=rotary, axes=axes)) == (name, [])


def test_a_mistake_before_the_split_is_named():
    def attention(x, w_q, w_k, w_v, w_o, n, cos, sin):
        q, k = (before_the_split(x, w, n, cos, sin) for w in (w_q, w_k))
        return attend(q, k, heads(x, w_v, n), w_o)

    takes = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "cos", "sin")
    impl = Implementation(call=attention, takes=takes, rotary="halves", heads=3)
    assert named(impl)[0] == "positions_before_the_split"


def test_faults_of_positions_are_looked_for_where_there_are_positions_only():
    d = turned_dims(dims(), Rotary())
    angles = Angles(**tables(d, Rotary()))
    plain = site(d, self_inputs(d), combined_weights(d, bias=True))
    at = site(d, self_inputs(d), combined_weights(d, bias=True), Options(angles=angles))
    assert build(at) == combined(d, at.x, at.w, Options(angles=angles))
    mine = {one.name for one in faults_of_positions()}
    some = {"values_turned_too", "positions_on_the_last_features"}  # where widths are the same; where some are left
    sized = {one.name for one in faults_of_positions() if one.at_sizes}
    assert mine <= set(Course(Forms(at)).singles) | some | sized and not mine & set(Course(Forms(plain)).singles)
    assert not mine & {one.name for one in faults()}
    assert {"key_bias_dropped", "features_permuted_inside_heads"} <= set(Forms(plain).same) - set(Forms(at).same)
    for one in faults_of_positions():
        assert one.words.endswith(".") and one.symptom and find_fault(one.name) is one


def test_two_mistakes_of_which_one_is_of_positions_are_named_together():
    def attention(x, w_q, w_k, w_v, w_o, n, cos, sin):
        q = first_then_second((x @ w_q).reshape(x.shape[0], n, x.shape[1], -1), cos, sin)
        return attend(q, turned(heads(x, w_k, n), cos, sin, "interleaved"), heads(x, w_v, n), w_o)

    takes = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "cos", "sin")
    impl = Implementation(call=attention, takes=takes, rotary=Rotary("interleaved", tables="pair"))
    (found,) = check(impl, draws=1).faults
    assert found.names == {"split_by_view_of_q + positions_leave_queries_in_another_order"}


def test_a_mistake_that_leaves_no_pairs_goes_together_with_none_of_pairs():
    """Where all features are one head, they are no pairs: such code could not run, and nothing else is raised."""
    d = turned_dims(dims(), Rotary())
    options = Options(angles=Angles(**tables(d, Rotary())))
    forms = Forms(site(d, self_inputs(d), combined_weights(d, bias=True), options))
    one_head = find_fault("one_head_for_all")
    for other in ("positions_in_other_pairs", "positions_before_the_split", "positions_of_queries_and_keys_crossed"):
        assert forms.form(one_head, find_fault(other)) is None
    assert forms.form(one_head, find_fault("positions_left_out")) is not None
