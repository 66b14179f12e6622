"""The catalogue of faults: each is another function than the correct form, or provably the same, and is what it says.

What each fault computes is compared with the same mistake made by hand in `tests.audit.mistakes`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mha_sym.arrays import all_inputs, size_value
from mha_sym.attention.dims import combined_weights, cross_inputs
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.variants import some_key_kept
from mha_sym.audit.equality import proved_equal
from mha_sym.audit.evidence import Forms
from mha_sym.audit.faults import FAMILIES, coinciding, faults, find_fault, holds, symmetries, tied
from mha_sym.audit.formulas import departures
from mha_sym.audit.pointwise import POINTWISE
from mha_sym.audit.recipe import SLOTS, Builder, Grouped, bottom_right, build, compatible, site
from mha_sym.axes import axis
from mha_sym.errors import AxisProblem, Problem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Compare, Input, Scalar, walk
from mha_sym.library import theorem_names
from mha_sym.proof.refute import refute
from mha_sym.proof.theorem import Claim
from tests.audit import mistakes_public  # noqa: F401  adds to MISTAKES
from tests.audit.mistakes import MISTAKES, Layer

FREE = {"B": 3, "T": 5, "S": 7, "d_model": 11, "h": 4, "d_k": 2, "d_v": 3}
ORDER = (2, 0, 3, 1)
#: faults with a function of which exact arithmetic knows nothing
FUNCTIONS = {one.name for one in faults() if one.family == "pointwise"}
EVERY = [one.name for one in (*faults(), *symmetries()) if not one.random]


def ties_for(fault, masks):
    """Which sizes coincide; a mask says how many keys there are, so they must be as many as queries here."""
    more = {"S": "T"} if masks and fault.name == "keys_and_values_from_query_input" else {}
    return {**fault.ties, **more}


def sizes_for(fault, masks=False):
    """Sizes that coincide only where the fault needs it."""
    sizes, ties = dict(FREE), ties_for(fault, masks)
    for name in ("T", "B", "S", "d_v", "d_model"):
        if name in ties:
            other = ties[name]
            sizes[name] = sizes[other] if isinstance(other, str) else sizes[other[0]] * sizes[other[1]]
    return sizes | ({"G": 2, "R": 2} if "groups" in fault.needs else {})


def site_for(fault, masks):
    """A layer with all biases in which the fault is possible, with all masks or none."""
    grouped = "groups" in fault.needs
    g, r = axis("g", "G"), axis("r", "R")
    d = tied(ties_for(fault, masks), **({"h": g.size * r.size} if grouped else {}))
    at = site(d, cross_inputs(d), combined_weights(d, bias=True))
    if "cross" not in fault.needs and fault.name == "scale_default_for_own":
        at = replace(at, scale=at.d.scale * 3)
    if grouped:
        at = replace(at, kv=Grouped(g, r))
    if "from_the_end" in fault.needs and masks:
        return replace(at, causal=bottom_right(d))
    if masks:
        pad = Input("pad", (d.b, d.s), "mask", boolean=True)
        at = replace(at, causal=Compare("le", d.s, d.t), padding=pad, mask=Input("M", (d.t, d.s), "mask"))
    return at


def arrays_for(exprs, sizes, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for name, one in all_inputs(exprs).items():
        shape = [size_value(a, sizes) for a in one.over]
        found[name] = rng.standard_normal(shape) / 2
    if "pad" in found:
        lengths = np.arange(found["pad"].shape[0])[:, None] % 3 + found["pad"].shape[1] - 3
        found["pad"] = np.arange(found["pad"].shape[1])[None, :] < lengths
    if sizes.get("G"):  # every head of a group has the same keys and values
        for name in ("W_K", "W_V", "b_K", "b_V"):
            apart = found[name].reshape(*found[name].shape[:-1], sizes["G"], sizes["R"], -1)
            found[name] = np.repeat(apart[..., :1, :], sizes["R"], axis=-2).reshape(found[name].shape)
    return found


def layer_of(arrays, sizes, at):
    w = {f"w_{one.lower()}": arrays[f"W_{one}"] for one in "QKVO"} | {
        f"b_{one.lower()}": arrays[f"b_{one}"] for one in "QKVO"
    }
    scale = float(at.scale.subs({"d_k": sizes["d_k"]}) if not at.scale.free_symbols else at.scale.xreplace(
        {s: sizes[s.name] for s in at.scale.free_symbols}
    ))  # fmt: skip
    return Layer(
        arrays["X_q"], arrays["X_k"], arrays["X_v"], w, sizes["h"], at.causal is not None, arrays.get("pad"),
        arrays.get("M"), sizes.get("G", 0), scale, ORDER,
    )  # fmt: skip


def value_of(expr, arrays, sizes):
    names = {symbol.name for node in walk(expr) for one in node.axes for symbol in one.size.free_symbols}
    names |= {s.name for node in walk(expr) if isinstance(node, Scalar) for s in node.value.free_symbols}
    known = {name: size for name, size in sizes.items() if name in names}
    given = {name: arrays[name] for name in all_inputs([expr])}
    orders = {"pi": ORDER, "pi_k": tuple(range(sizes["d_k"]))[::-1]}
    return evaluate_all([expr], given, sizes=known, permutations=orders, functions=POINTWISE, masked_rows="zero")[0]


@pytest.mark.parametrize("masks", [False, True], ids=["no masks", "all masks"])
@pytest.mark.parametrize("name", EVERY)
def test_a_fault_is_the_mistake_it_says(name, masks):
    fault = find_fault(name)
    at = site_for(fault, masks)
    if not fault.possible(at):
        assert fault.possible(site_for(fault, not masks))
        return
    sizes = sizes_for(fault, masks)
    right = build(at).y
    faulty = build(at, fault.edits).y
    arrays = arrays_for([right, faulty], sizes)
    with np.errstate(invalid="ignore"):
        by_hand = MISTAKES[name](layer_of(arrays, sizes, at))
    got = value_of(faulty, arrays, sizes)
    there = np.isfinite(by_hand)  # a row that keeps no key has no value
    assert there.any(axis=-1).mean() > 0.5
    assert np.abs(np.where(there, got - by_hand, 0)).max() <= 1e-11 * max(1, np.abs(by_hand[there]).max())


def claim_of(fault):
    """The claim that a fault changes nothing, where it is easiest to look at."""
    at = next(one for masks in (False, True) if fault.possible(one := site_for(fault, masks)))
    keep = at.keep
    assumed = () if keep is None else (some_key_kept(keep, at.d),)
    return at, Claim("y", build(at).y, build(at, fault.edits).y), assumed


#: rows of these keep no key: what code puts there, zero, is no value of the form, which is 0/0
NO_VALUE = {"causal_hides_diagonal_rows_zero", "mask_inverted_rows_zero"}
#: sizes at which a fault shows, where those that are tried first hide it
SHOWS = {"causal_alignment_switches_to_less": {"T": 5, "S": 3}}


@pytest.mark.parametrize("name", [n for one in faults() if (n := one.name) not in NO_VALUE and n not in FUNCTIONS])
def test_a_fault_is_refuted(name):
    _, claim, assumed = claim_of(find_fault(name))
    found = refute(claim, assumed, SHOWS.get(name))
    assert found is not None and found.left != found.right


@pytest.mark.parametrize("name", [one.name for one in symmetries()])
def test_a_symmetry_is_proved_for_all_sizes(name):
    at, claim, _ = claim_of(find_fault(name))
    assert proved_equal(Forms(at), claim.left, claim.right)
    assert find_fault(name).theorem in theorem_names()


def test_no_fault_is_proved_equal_to_the_correct_form():
    for name in ("scale_missing", "join_without_transpose", "split_by_view"):
        at, claim, _ = claim_of(find_fault(name))
        assert not proved_equal(Forms(at), claim.left, claim.right)


#: which block of a stored matrix a position lies in is not known of symbols; their axes are shown instead
NO_FORMULA = {"grouped_blocks_taken_for_groups", "grouped_by_group_taken_for_blocks"}


@pytest.mark.parametrize("name", EVERY)
def test_a_fault_can_be_written_down(name):
    fault = find_fault(name)
    at, _, _ = claim_of(fault)
    shown = departures(build(at), build(at, fault.edits))
    assert shown
    for departure in shown:
        right, faulty = departure.formulas()
        if name not in NO_FORMULA:
            assert faulty.startswith(f"{departure.name}[") and faulty != right
            assert departure.formulas("latex")[1]
        assert "input" in departure.traces()[1]


def test_the_recipe_without_edits_is_the_combined_form():
    for masks in (False, True):
        at = site_for(find_fault("scale_missing"), masks)
        assert build(at) == combined(at.d, at.x, at.w, Options(at.mask, at.keep, at.scale))


def test_every_fault_is_complete():
    names = [one.name for one in (*faults(), *symmetries())]
    assert len(names) == len(set(names)) and len(faults()) >= 120
    for one in (*faults(), *symmetries()):
        assert one.words.endswith(".") and one.symptom and one.mend and one.where and one.family in FAMILIES
        assert set(one.edits) <= set(SLOTS)
    assert {one.family for one in faults()} == set(FAMILIES)
    assert set(MISTAKES) == {*EVERY, "right"}


def test_edits_of_different_slots_go_together_and_others_do_not():
    view, join, missing = (find_fault(n) for n in ("split_by_view", "join_without_transpose", "scale_missing"))
    assert compatible(view.edits, join.edits) and not compatible(missing.edits, find_fault("scale_by_d_k").edits)
    at = site_for(view, False)
    pair = build(at, view.edits, join.edits)
    assert pair.y == Builder(at).build(find_fault("viewed_in_and_out").edits).y


def test_ties_say_where_sizes_coincide():
    assert coinciding({**FREE, "S": 5, "d_model": 8}) == {"S": "T", "d_model": ("h", "d_k")}
    assert not holds(find_fault("query_matrix_transposed").ties, FREE)
    with pytest.raises(AxisProblem):
        d = tied({})
        find_fault("query_matrix_transposed").form(d, cross_inputs(d), combined_weights(d))


def test_an_unknown_fault_is_met_with_close_names():
    with pytest.raises(Problem, match="no fault 'scale_mising'") as caught:
        find_fault("scale_mising")
    assert "scale_missing" in caught.value.hint
