"""Which false statements are another way of an array, and where its numbers go."""

from __future__ import annotations

import re
from collections.abc import Callable

from mha_sym.attention.dims import dims
from mha_sym.attention.head_paths import WRONG_PATHS, right_path, wrong_path
from mha_sym.axes import axis, product
from mha_sym.expr import Input, Named, Reshape
from mha_sym.pattern import rearrange
from mha_sym.proof.theorem import Claim, Report
from mha_sym.render.derivation import derivation
from mha_sym.render.pictures.ways import ways_svg, wrong_way
from mha_sym.render.web.page import html_page

T, H, K = axis("t", "T"), axis("h"), axis("k", "d_k")
X = Input("x", (T, product(H, K)))
RIGHT, WRONG = rearrange(X, "t (h k) -> h t k"), Reshape(X, (H, T, K))


def test_controls_that_take_another_way(proved: Callable[[str], Report]) -> None:
    found = {
        name: [one.name for one in derivation(proved(name)).controls if one.ways]
        for name in ("combined_projection_eq_separate_heads", "split_transpose_join_is_identity")
    }
    assert found == {
        "combined_projection_eq_separate_heads": ["raw_reshape", "factors_swapped"],
        "split_transpose_join_is_identity": [
            "join_without_transpose", "positions_merged_into_features", "features_before_heads",
            "split_without_transpose",
        ],
    }  # fmt: skip


def test_the_ways_are_those_of_the_command_that_draws_them(proved: Callable[[str], Report]) -> None:
    controls = {one.name: one.ways for one in derivation(proved("combined_projection_eq_separate_heads")).controls}
    d = dims()
    for name in ("raw_reshape", "factors_swapped"):
        assert WRONG_PATHS[name].theorem == "combined_projection_eq_separate_heads"
        ways = controls[name]
        assert ways is not None
        assert ways == (right_path(d).expr, wrong_path(name, d).expr)


def test_what_is_no_other_way() -> None:
    claims = [Claim("Q", Named(RIGHT, "Q"), RIGHT)]
    assert wrong_way(Claim("c", WRONG, RIGHT), claims) == (RIGHT, WRONG)
    assert wrong_way(Claim("same", RIGHT, RIGHT), claims) is None
    assert wrong_way(Claim("more", WRONG + WRONG, RIGHT), claims) is None
    other = Input("y", X.axes)
    assert wrong_way(Claim("other", Reshape(other, (H, T, K)), RIGHT), claims) is None


def test_what_cannot_be_drawn_is_left_out() -> None:
    big = axis("k", 500)
    wide = Input("x", (T, product(H, big)))
    assert ways_svg(rearrange(wide, "t (h k) -> h t k"), Reshape(wide, (H, T, big)), "Too wide") == ""


def test_the_page_shows_where_each_number_goes(proved: Callable[[str], Report]) -> None:
    page = html_page(derivation(proved("combined_projection_eq_separate_heads")))
    assert len(re.findall("<summary>Which number lands in which cell", page)) == 2
    assert "18 of 24 numbers in a wrong cell" in re.sub(r"<[^>]*>", "", page)
