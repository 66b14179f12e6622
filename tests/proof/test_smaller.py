"""Counterexamples are small: no position in them can be done without, and they refute what they refuted."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
import sympy

from mha_sym.axes import Permutation, axis, blocks, product, size_symbol
from mha_sym.expr import Blocks, Input, Permute, Reduce, Scalar
from mha_sym.library import load
from mha_sym.proof.refute import refute
from mha_sym.proof.smaller import Arrays, fewer_positions, settled
from mha_sym.proof.theorem import Assumption, Claim, Counterexample

T, S = axis("t", "T"), axis("s", "S")
X = Input("X", (T, S))


def refuted(theorem: str, control: str) -> Counterexample:
    stated = load(theorem)
    one = next(found for found in stated.controls if found.name == control)
    found = refute(one, stated.assumptions, one.sizes)
    assert found is not None
    return found


def test_a_batch_of_two_becomes_one_and_numpy_says_that_the_sides_differ() -> None:
    found = refuted("head_circuits_determine_layer", "query_bias_left_out")
    assert set(found.sizes.values()) == {1}
    x, w, b = (np.asarray(found.inputs[name], float) for name in ("X_k", "W_K", "b_Q"))
    assert float(found.left) == pytest.approx(float((x[0] @ w)[0] @ b)) and found.right == "0"


def test_heads_and_columns_go_together() -> None:
    """W_O has a row block a head: Concat W_O summed by hand, and the mean over heads instead of the sum."""
    found = refuted("concat_output_eq_sum_over_heads", "heads_averaged")
    z, w = np.asarray(found.inputs["Z"]), np.asarray(found.inputs["W_O"])
    heads = found.sizes["h"]
    assert heads == 2 and w.shape == (heads * found.sizes["d_v"], found.sizes["d_model"])
    width = z.shape[3]
    total = sum(Fraction(int(z[r, 0, 0, j] * w[r * width + j, 0])) for r in range(heads) for j in range(width))
    assert (Fraction(found.left), Fraction(found.right)) == (total, total / heads)


def test_what_is_assumed_holds() -> None:
    """A sum above 5 of numbers below 3 takes three; of the six that are drawn one goes only after another."""
    y = Input("Y", (T,))
    claim = Claim("double", Reduce("sum", y, (T,)), Reduce("sum", y + y, (T,)))
    found = refute(claim, [Assumption("a sum above 5", Reduce("sum", y, (T,)) - 5)])
    assert found is not None and sum(found.inputs["Y"]) > 5 and found.sizes == {"T": 3}


def kept(least: Mapping[str, int], wanted: int = 3) -> tuple[Mapping[str, int], object]:
    """What stays of two rows of which the last has the wanted number, if it has to stay."""

    def differs(_: Mapping[str, int], arrays: Arrays) -> bool:
        return wanted in arrays["X"]

    sizes, arrays = fewer_positions({"T": 2, "S": 2}, {"X": np.array([[0, 0], [0, 3]])}, [X], least, differs)
    return sizes, arrays["X"].tolist()


def test_what_stays() -> None:
    assert kept({}) == ({"T": 1, "S": 1}, [[3]])
    assert kept({"T": 2}) == ({"T": 2, "S": 1}, [[0], [3]])
    assert kept({}, wanted=7) == ({"T": 2, "S": 2}, [[0, 0], [0, 3]])


def test_a_position_of_a_product_axis_goes_from_every_block() -> None:
    """Feature 0 of every head, as NumPy slices it out of the blocks."""
    heads, width = axis("h"), axis("k", "d_k")
    w = Input("W", (product(heads, width),))
    values = np.array([1, 2, 3, 4, 5, 6])
    found = fewer_positions({"h": 3, "d_k": 2}, {"W": values}, [w], {"h": 3}, lambda _, one: 6 in one["W"])
    assert found[0] == {"h": 3, "d_k": 1} and found[1]["W"].tolist() == values[1::2].tolist()


def test_an_axis_of_blocks_is_one_axis() -> None:
    """Rows leave a tensor over past and new positions, columns of a block do not, also in a product with heads."""
    heads, cached = axis("h"), blocks(axis("past", "P"), axis("new", "N"))
    sizes = {"T": 2, "h": 3, "P": 2, "N": 3}
    for along, width in ((cached, 5), (product(heads, cached), 15), (product(cached, heads), 15)):
        given = Input("X", (T, along))
        values = np.arange(2 * width).reshape(2, width) - width
        found = fewer_positions(sizes, {"X": values}, [given], {"h": 3}, lambda _, one: 0 in one["X"])
        assert found[0] == {**sizes, "T": 1} and found[1]["X"].tolist() == [values[1].tolist()]


def test_scores_over_a_cache_are_not_those_without_their_scale() -> None:
    """The width d_k is no axis of the scores; it is 1 in no counterexample, and NumPy says that the sides differ."""
    scores, width = Input("S", (T, blocks(axis("past", "P"), axis("new", "N")))), size_symbol("d_k")
    found = refute(Claim("unscaled", scores * Scalar(1 / sympy.sqrt(width)), scores))
    assert found is not None and found.sizes["d_k"] > 1
    given = np.asarray(found.inputs["S"], float)
    assert given.shape == (found.sizes["T"], found.sizes["P"] + found.sizes["N"])
    assert np.any(given / np.sqrt(found.sizes["d_k"]) != given)


def test_positions_of_permuted_axes_and_of_blocks_stay() -> None:
    pi = Permutation("pi", T)
    assert settled([Permute(X, pi)]) == {"T"}
    other = axis("u", "U")
    beside = Blocks((X, Input("Y", (T, other))), (S, other))
    assert settled([beside]) >= {"T", "S", "U"} and settled([X + X]) == set()
