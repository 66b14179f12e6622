"""Every layout to another and back is proved for all sizes, and conversions that are wrong are refuted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mha_sym.arrays import size_value
from mha_sym.attention.conversion import Conversion, conversion
from mha_sym.attention.conversion_theorem import theorem
from mha_sym.attention.layouts import LAYOUTS, Layout
from mha_sym.attention.spelled import group_order, spelled, ungrouped
from mha_sym.axes import product
from mha_sym.checkpoint.move import moved
from mha_sym.errors import Problem
from mha_sym.expr import Expr, Input, Map, Reshape, Transpose, inputs
from mha_sym.pattern import rearrange
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Report

SIZES = {"d_model": 11, "h": 6, "G": 2, "R": 3, "d_k": 4, "d_v": 5, "d_key": 7, "d_value": 13}


def biases(*layouts: Layout) -> str:
    return "".join(letter for letter in "qkvo" if all(f"b_{letter}" in one.rows for one in layouts))


def proved(made: Conversion) -> Report:
    report = prove(theorem(made), recheck=False)
    assert report.verdict == "proved", [one.claim.name for one in report.claims if one.verdict != "proved"]
    return report


@pytest.mark.parametrize("name", LAYOUTS)
def test_from_and_to_every_layout(name: str) -> None:
    """The layouts in the middle are unlike each other: one that packs by head, and one of grouped heads."""
    for middle in ("packed_by_head", "grouped_linear"):
        one, other = LAYOUTS[name], LAYOUTS[middle]
        shared = biases(one, other)
        for made in (conversion(one, other, shared), conversion(other, one, shared)):
            report = proved(made)
            assert len(report.claims) >= 4 + len(shared) + len(made.given)


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if layout.grouped])
def test_copied_key_heads(name: str) -> None:
    one, other = LAYOUTS[name], LAYOUTS["gpt2"]
    proved(conversion(one, other, biases(one, other), own_heads=False))


def test_a_theorem_is_confirmed_at_explicit_sizes_too() -> None:
    report = prove(theorem(conversion(LAYOUTS["falcon_grouped"], LAYOUTS["grouped_strided"], "qkvo")))
    assert report.verdict == "proved"
    assert all(one.rechecked for one in report.claims)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_spelled_in_blocks_reads_the_same_entries(name: str) -> None:
    """What is proved of blocks holds for the patterns of the table: both readings on arrays of distinct numbers."""
    layout = LAYOUTS[name]
    sizes = SIZES | ({"d_v": 4} if layout.same else {}) | ({"h": 12, "L": 3} if layout.shards else {})
    d, shared = layout.dims(), biases(layout)
    numbers = iter(range(1, 99))
    shapes = {n: [size_value(a, sizes) for a in one.axes] for n, one in layout.parameters(d, shared).items()}
    arrays = {n: np.arange(np.prod(s), dtype="u4").reshape(s) + 10_000 * next(numbers) for n, s in shapes.items()}
    plain, blocks = layout.weights(d, shared).items(), spelled(layout).weights(d, shared).items()
    for target, expr in plain.items():
        read = {one.name: arrays[one.name] for one in inputs(expr)}
        found = [moved(one, read, sizes, np.dtype("u4")) for one in (expr, blocks[target])]
        np.testing.assert_array_equal(*found, err_msg=target)


# ---------------------------------------------------------------- what is false


def refuted(made: Conversion) -> set[str]:
    """The claims that are refuted; none may be proved by accident of a wrong conversion alone."""
    report = prove(theorem(made), recheck=False)
    return {one.claim.name for one in report.claims if one.verdict == "refuted"}


def test_a_weight_in_the_place_of_another_is_refuted() -> None:
    right = conversion(LAYOUTS["gpt_neox"], LAYOUTS["opt"], "qkvo")
    names = ["q_proj.weight", "k_proj.weight"]
    swapped = {**right.made, names[0]: right.made[names[1]], names[1]: right.made[names[0]]}
    assert refuted(_with_made(right, swapped)) == {"kept_W_Q", "kept_W_K", "back_query_key_value_weight"}


def test_heads_and_features_exchanged_are_refuted() -> None:
    """Rows taken for (k h) where they are (h k): the right shape, and right at one head or one feature only."""
    right = conversion(LAYOUTS["linear"], LAYOUTS["combined"], "")
    d, w = right.d, right.given["w_q"]
    mixed = Transpose(Reshape(w, (product(d.k, d.h), d.m)), (d.m, product(d.k, d.h)))
    made = {**right.made, "w_q": Reshape(rearrange(mixed, "m (k h) -> m h k"), (d.m, d.hk))}
    assert refuted(_with_made(right, made)) == {"kept_W_Q", "back_w_q"}


def test_groups_in_another_order_are_refuted() -> None:
    """W_K and W_V as they are, and W_Q not put in order: query heads read the wrong keys."""
    strided, plain = LAYOUTS["grouped_strided"], LAYOUTS["grouped"]
    right = conversion(plain, strided, "")
    assert (group_order(right.source), group_order(right.target)) == ("g r", "r g")
    unordered = {**right.made, "w_q": right.given["w_q"]}
    assert refuted(_with_made(right, unordered)) == {"kept_W_Q", "back_w_q"}


def test_shards_in_another_order_are_refuted() -> None:
    """Keys read where the queries of a shard lie."""
    right = conversion(LAYOUTS["codegen"], LAYOUTS["opt"], "")
    names = ["q_proj.weight", "k_proj.weight"]
    swapped = {**right.made, names[0]: right.made[names[1]], names[1]: right.made[names[0]]}
    assert refuted(_with_made(right, swapped)) == {"kept_W_Q", "kept_W_K", "back_qkv_proj_weight"}


def _with_made(right: Conversion, made: dict[str, Expr]) -> Conversion:
    found = replace(right)
    found.__dict__["made"] = made  # in the place of the cached value
    return found


# ---------------------------------------------------------------- what cannot be stored


def test_biases_that_a_layout_cannot_store() -> None:
    with pytest.raises(Problem, match="layout t5 stores no b_q, b_v"):
        conversion(LAYOUTS["bert"], LAYOUTS["t5"], "qv")
    with pytest.raises(Problem, match="stores b_k with others in b_qkv, and there is none"):
        conversion(LAYOUTS["opt"], LAYOUTS["packed"], "qvo")
    made = conversion(LAYOUTS["opt"], LAYOUTS["packed"], "qvo", "k")
    assert "b_qkv" in made.made
    proved(made)


def test_groups_and_shards_are_two_ways_to_count_heads() -> None:
    with pytest.raises(Problem, match="heads are counted in groups by one layout and in shards by the other"):
        conversion(LAYOUTS["llama"], LAYOUTS["codegen"], "", own_heads=False)
    proved(conversion(LAYOUTS["llama"], LAYOUTS["codegen"], ""))


def test_heads_without_groups() -> None:
    for layout in LAYOUTS.values():
        alone = ungrouped(spelled(layout))
        assert not alone.grouped
        assert alone.stored("qkvo") == layout.stored("qkvo")


def test_a_conversion_that_computes_is_refused() -> None:
    w = Input("w", LAYOUTS["linear"].dims().hk.factors)
    with pytest.raises(Problem, match="a conversion moves entries, and mul computes with them"):
        moved(Map("mul", (w, w)), {"w": np.ones((2, 3), "u4")}, {"h": 2, "d_k": 3}, np.dtype("u4"))
