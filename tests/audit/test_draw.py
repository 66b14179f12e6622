"""The sizes drawn: pairwise distinct wherever they can be, by a count written out here."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mha_sym.audit.cases import causal_keep, mask_argument, padding_keep
from mha_sym.audit.draw import SIZES, classes, coincidences, draw_lengths, draw_sizes
from mha_sym.audit.precision import ROUNDOFF, growth, rounded
from mha_sym.errors import DataProblem

SELF = [name for name in SIZES if name not in ("d_key", "d_value")]


@pytest.mark.parametrize("seed", range(40))
def test_free_sizes_are_pairwise_distinct_and_so_are_their_products(seed: int) -> None:
    n = draw_sizes(np.random.default_rng(seed), SIZES, {}, {})
    seen = [n[name] for name in SIZES] + [
        n["h"] * n["d_k"], n["h"] * n["d_v"], n["B"] * n["h"], n["B"] * n["T"], n["B"] * n["S"],
    ]  # fmt: skip
    assert all(a != b for a, b in combinations(seen, 2)), n
    assert min(seen) > 1
    assert n["h"] >= 3  # with two heads a wrong permutation is its own inverse


@pytest.mark.parametrize(("h", "width"), [(1, 8), (2, 2), (8, 64), (12, 64), (4, 4)])
def test_sizes_that_a_module_fixes_coincide_only_among_themselves(h: int, width: int) -> None:
    fixed = {"h": h, "d_k": width, "d_v": width, "d_model": h * width}
    n = draw_sizes(np.random.default_rng(1), SELF, fixed, {})
    assert {name: n[name] for name in fixed} == fixed
    free = [n["B"], n["T"], n["S"], n["B"] * h, n["B"] * n["T"], n["B"] * n["S"], n["T"] * h, n["S"] * h]
    given = {h, width, h * width}
    for a in free[:3]:
        assert a not in given
    if h > 1:
        assert len(set(free)) == len(free)


def test_ties_are_kept_and_nothing_else_coincides() -> None:
    n = draw_sizes(np.random.default_rng(5), SELF, {}, {"d_v": "d_k", "d_model": ("h", "d_k"), "S": "T"})
    assert n["d_v"] == n["d_k"] and n["d_model"] == n["h"] * n["d_k"] and n["S"] == n["T"]
    assert classes(coincidences(n)) == ("T = S", "d_model = h*d_k = h*d_v", "d_k = d_v")


def test_the_same_seed_draws_the_same_sizes() -> None:
    first, second = (draw_sizes(np.random.default_rng(9), SIZES, {}, {}) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", ["T", "h", "B"])
def test_an_empty_axis_is_refused(name: str) -> None:
    with pytest.raises(DataProblem) as raised:
        draw_sizes(np.random.default_rng(0), SELF, {name: 0}, {})
    assert f"{name} cannot be 0" in str(raised.value)


@pytest.mark.parametrize(("batch", "keys"), [(2, 5), (5, 5), (5, 3), (1, 4)])
def test_lengths_are_unequal_and_hide_something(batch: int, keys: int) -> None:
    for seed in range(20):
        lengths = draw_lengths(np.random.default_rng(seed), batch, keys)
        assert len(lengths) == batch and min(lengths) >= 1 and max(lengths) <= keys
        assert min(lengths) < keys
        assert len(set(lengths)) == min(batch, keys)


def test_masks_as_arguments_against_loops() -> None:
    parts = {"t s": causal_keep(3, 4), "b s": padding_keep((2, 4), 4)}
    sizes = {"b": 2, "t": 3, "s": 4, "h": 5}
    got = mask_argument("mask", parts, "b h t s", sizes)
    turned = mask_argument("drop", parts, "s b 1 t", sizes)
    for b in range(2):
        for t in range(3):
            for s in range(4):
                kept = s <= t and s < (2, 4)[b]
                assert all(got[b, r, t, s] == (0 if kept else -np.inf) for r in range(5))
                assert turned[s, b, 0, t] == (not kept)


def test_rounding_and_growth_against_exact_arithmetic() -> None:
    values = np.random.default_rng(0).normal(size=400)
    for dtype, u in ROUNDOFF.items():
        near = rounded(values, dtype)
        assert np.all(np.abs(near - values) <= u * np.abs(values))
        np.testing.assert_array_equal(rounded(near, dtype), near)
    assert growth(10, 2.0**-53) == pytest.approx(10 * 2.0**-53)
    assert growth(300, ROUNDOFF["bfloat16"]) == float("inf")


def test_bfloat16_rounds_as_torch_does() -> None:
    torch = pytest.importorskip("torch", reason="torch is the extra 'torch'")
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    theirs = torch.from_numpy(values).to(torch.bfloat16).double().numpy()
    np.testing.assert_array_equal(rounded(values, "bfloat16"), theirs)
