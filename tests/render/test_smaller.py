"""Counterexamples on a page: no position in them can be done without, and they refute what they refuted."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mha_sym.axes import axis
from mha_sym.expr import Input, Reduce
from mha_sym.proof.theorem import Claim, Control, Counterexample, Report
from mha_sym.render.computed.smaller import smaller
from mha_sym.render.derivation import ControlPart, derivation

T, S = axis("t", "T"), axis("s", "S")
X = Input("X", (T, S))


def control(report: Report, name: str) -> ControlPart:
    return next(one for one in derivation(report).controls if one.name == name)


def test_a_batch_of_two_becomes_one_and_numpy_says_that_the_sides_differ(proved: Callable[[str], Report]) -> None:
    found = control(proved("head_circuits_determine_layer"), "query_bias_left_out")
    assert set(found.sizes.values()) == {1}
    x, w, b = (np.asarray(found.given[name], float) for name in ("X_k", "W_K", "b_Q"))
    assert float(found.left) == pytest.approx(float((x[0] @ w)[0] @ b)) and found.right == "0"


def test_heads_and_columns_go_together(proved: Callable[[str], Report]) -> None:
    """W_O has a row block a head: Concat W_O summed by hand, and the mean over heads instead of the sum."""
    found = control(proved("concat_output_eq_sum_over_heads"), "heads_averaged")
    z, w = np.asarray(found.inputs["Z"]), np.asarray(found.inputs["W_O"])
    heads = found.sizes["h"]
    assert heads == 2 and w.shape == (heads * found.sizes["d_v"], found.sizes["d_model"])
    width = z.shape[3]
    total = sum(Fraction(int(z[r, 0, 0, j] * w[r * width + j, 0])) for r in range(heads) for j in range(width))
    assert (Fraction(found.left), Fraction(found.right)) == (total, total / heads)


def _found(sizes: dict[str, int], values: Any, **more: Any) -> Counterexample:
    return Counterexample(sizes, {"t": 0, "s": 0}, "1", "2", {"X": values}, **more)


def test_what_stays() -> None:
    double = Claim("double", X + X, X)
    found = _found({"T": 2, "S": 2}, [[0, 0], [0, 3]])
    assert smaller(double, [], found).inputs == {"X": [[3]]}
    assert smaller(double, [], found).index == {"t": 0, "s": 0}
    fixed = Control("double", X + X, X, "", sizes={"T": 2})
    assert smaller(fixed, [], found).sizes == {"T": 2, "S": 1}
    assert smaller(Claim("same", X, X), [], found) is found


def test_what_is_assumed_holds() -> None:
    """Without either number their sum is not above 2."""
    y = Input("Y", (S,))
    found = Counterexample({"S": 2}, {"s": 0}, "2", "1", {"Y": [1, 2]})
    assert smaller(Claim("double", y + y, y), [Reduce("sum", y, (S,)) - 2], found) is found
    assert smaller(Claim("double", y + y, y), [Reduce("sum", y, (S,)) - 1], found).inputs == {"Y": [2]}
