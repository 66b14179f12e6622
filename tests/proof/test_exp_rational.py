"""The arithmetic of the second look against floating point and against SymPy, and its limits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from mha_sym.attention.dims import dims
from mha_sym.evaluate import evaluate
from mha_sym.expr import Input, Reduce, Scalar, Softmax
from mha_sym.pattern import einsum
from mha_sym.proof.exp_rational import Beyond, ExpField, ExpRational

FIELD = ExpField(["a", "b", "c"], roots=[2, 3], degree=2)
A, B, C = FIELD.generators
root2, root6 = FIELD.number(sympy.sqrt(2)), FIELD.number(sympy.sqrt(6))


def at(x: ExpRational, **values: float) -> float:
    """The value of an element in floating point, by way of SymPy."""
    return float(FIELD.as_expr(x).subs(values))


# ---------------------------------------------------------------- laws


def test_exponentials_add_their_exponents() -> None:
    assert FIELD.exp(A + B * C) == FIELD.exp(A) * FIELD.exp(B * C)
    assert FIELD.exp(A) * FIELD.exp(-A) == FIELD.one
    assert FIELD.exp(A + A) != FIELD.exp(A) + FIELD.exp(A)
    assert FIELD.exp(FIELD.zero) == FIELD.one


def test_exponentials_of_different_numbers_are_independent() -> None:
    e = FIELD.exp(FIELD.one)
    assert e * e != e * FIELD.rational(2)
    assert e * e == FIELD.exp(FIELD.rational(2))
    assert FIELD.exp(root2) * FIELD.exp(-root2) == FIELD.one
    assert FIELD.exp(root2) != FIELD.exp(root6)


def test_roots_are_reduced() -> None:
    assert root2 * root2 == FIELD.rational(2)
    assert FIELD.number(1 / sympy.sqrt(2)) * root2 == FIELD.one
    assert root2 * FIELD.number(sympy.sqrt(3)) == root6
    assert FIELD.number(sympy.sqrt(12)) == FIELD.number(sympy.sqrt(3)) * FIELD.rational(2)
    assert FIELD.inverse(FIELD.one + root2) == root2 + FIELD.rational(-1)
    assert root2 != FIELD.rational(Fraction(14142135623730951, 10**16))


def test_other_roots_have_their_own_degree() -> None:
    field = ExpField(["a"], roots=[2], degree=4)
    fourth = field.number(sympy.Integer(2) ** sympy.Rational(1, 4))
    assert fourth * fourth == field.number(sympy.sqrt(2))
    assert fourth * fourth * fourth * fourth == field.rational(2)


def test_softmax_laws() -> None:
    def softmax(scores: list[ExpRational]) -> list[ExpRational]:
        powers = [FIELD.exp(s) for s in scores]
        return [p * FIELD.inverse(FIELD.total(powers)) for p in powers]

    plain = softmax([A, B, C])
    shifted = softmax([s + A * B for s in (A, B, C)])
    assert FIELD.total(plain) == FIELD.one
    assert all(x == y for x, y in zip(plain, shifted, strict=True))
    assert plain[0] != softmax([A, B])[0]
    assert len(FIELD.total(plain).parts) == 1, "the denominator was cancelled"


def test_common_factors_of_denominators_are_found() -> None:
    row = FIELD.exp(A) + FIELD.exp(B)
    shifted = (FIELD.exp(A + C) + FIELD.exp(B + C)) * FIELD.rational(Fraction(3, 7))
    both = FIELD.inverse(row) + FIELD.inverse(shifted)
    assert len(both.parts) == 1
    assert both == FIELD.inverse(row) * (FIELD.one + FIELD.exp(-C) * FIELD.rational(Fraction(7, 3)))


@pytest.mark.parametrize("shift", [C, -(A * A), A * FIELD.rational(-5), -A, -B, A * B * C + C])
def test_shifted_denominators_coincide_whatever_the_shift(shift: ExpRational) -> None:
    exponents = [A, FIELD.zero, B * FIELD.rational(2), C * C]
    row = FIELD.total(FIELD.exp(e) for e in exponents)
    shifted = FIELD.total(FIELD.exp(e + shift) for e in reversed(exponents))
    assert len((FIELD.inverse(row) + FIELD.inverse(shifted)).parts) == 1
    assert shifted * FIELD.inverse(row) == FIELD.exp(shift)
    assert len((shifted * FIELD.inverse(row)).parts) == 1


def test_rows_that_are_no_multiples_do_not_cancel() -> None:
    row = FIELD.exp(A) + FIELD.exp(B)
    for other in (FIELD.exp(A) + FIELD.exp(C), FIELD.exp(A) + FIELD.exp(B) * FIELD.rational(2)):
        ratio = other * FIELD.inverse(row)
        assert ratio != FIELD.one
        assert ratio != FIELD.exp(A)
        assert ratio * row == other


def test_a_difference_too_small_to_be_seen_is_still_one() -> None:
    tiny = FIELD.exp(FIELD.rational(-(10**6)))  # far below the precision at which values are looked at
    assert FIELD.inverse(A * A + FIELD.one + tiny) != FIELD.inverse(A * A + FIELD.one)


def test_inverse_of_zero_is_zero_as_in_the_prover() -> None:
    assert FIELD.inverse(A + -A) == FIELD.zero
    assert FIELD.inverse((A + B) * (A + B) + -(A * A + B * B) + A * B * FIELD.rational(-2)) == FIELD.zero


def test_quotients_with_different_denominators() -> None:
    left = FIELD.inverse(A + B) + FIELD.inverse(A + -B)
    assert left == A * FIELD.rational(2) * FIELD.inverse(A * A + -(B * B))
    assert left != A * FIELD.inverse(A * A + -(B * B))
    assert FIELD.inverse(left) * left == FIELD.one


def test_equality_that_no_value_denies_is_found_by_multiplying_out() -> None:
    # three denominators whose sum is zero only together: no part is zero, and no value is other than zero
    p, q = A + B, A + FIELD.exp(C)
    zero = FIELD.inverse(p) * FIELD.inverse(q) * (p + -q) + FIELD.inverse(p) + -FIELD.inverse(q)
    assert len(zero.parts) > 1
    assert FIELD.is_zero(zero)


# ---------------------------------------------------------------- against floating point

Tree = Any
LEAVES = st.sampled_from(["a", "b", "c", "root", "half", "minus"])


def trees(depth: int) -> st.SearchStrategy[Tree]:
    if not depth:
        return LEAVES
    inner = trees(depth - 1)
    polynomial = st.one_of(LEAVES, st.tuples(st.sampled_from(["+", "*"]), LEAVES, LEAVES))
    return st.one_of(
        LEAVES, st.tuples(st.sampled_from(["+", "*"]), inner, inner), st.tuples(st.just("exp"), polynomial),
        st.tuples(st.just("inv"), inner),
    )  # fmt: skip


def as_element(tree: Tree) -> ExpRational:
    match tree:
        case str():
            leaves = {"a": A, "b": B, "c": C, "root": root6, "half": FIELD.rational(Fraction(1, 2))}
            return leaves.get(tree, FIELD.rational(-1))
        case ("+", x, y):
            return as_element(x) + as_element(y)
        case ("*", x, y):
            return as_element(x) * as_element(y)
        case ("exp", x):
            return FIELD.exp(as_element(x))
        case _:
            return FIELD.inverse(as_element(tree[1]))


def as_float(tree: Tree, values: dict[str, float]) -> float:
    match tree:
        case str():
            return {**values, "root": math.sqrt(6), "half": 0.5, "minus": -1.0}[tree]
        case ("+", x, y):
            return as_float(x, values) + as_float(y, values)
        case ("*", x, y):
            return as_float(x, values) * as_float(y, values)
        case ("exp", x):
            return math.exp(as_float(x, values))
        case _:
            inner = as_float(tree[1], values)
            return 1 / inner if abs(inner) > 1e-9 else math.nan


@given(trees(3), st.integers(0, 10**6))
def test_elements_have_the_values_of_floating_point(tree: Tree, seed: int) -> None:
    numbers = random.Random(seed)
    values = {name: numbers.uniform(0.3, 1.4) * numbers.choice((-1, 1)) for name in "abc"}
    expected = as_float(tree, values)
    if math.isfinite(expected) and abs(expected) < 1e6:
        assert at(as_element(tree), **values) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(trees(2), trees(2))
def test_equality_is_what_floating_point_says(left: Tree, right: Tree) -> None:
    points = [{"a": 0.71, "b": -0.43, "c": 1.37}, {"a": -1.13, "b": 0.59, "c": 0.23}]
    sides = [[as_float(tree, point) for point in points] for tree in (left, right)]
    if all(math.isfinite(x) for side in sides for x in side):
        same = all(math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9) for x, y in zip(*sides, strict=True))
        assert (as_element(left) == as_element(right)) == same


# ---------------------------------------------------------------- against plain SymPy


def sympy_layer(x: Any, wq: Any, wk: Any, wv: Any, scale: sympy.Expr) -> dict[tuple[int, int], sympy.Expr]:
    """One head of self-attention in SymPy, entry by entry: ``Z[t, j]``."""
    tokens, width = range(2), range(2)
    q, k, v = ([[sum(x[t][m] * w[m][j] for m in width) for j in width] for t in tokens] for w in (wq, wk, wv))
    result = {}
    for t, j in product(tokens, width):
        powers = [sympy.exp(sum(q[t][i] * k[s][i] for i in width) * scale) for s in tokens]
        result[t, j] = sum(p * v[s][j] for s, p in enumerate(powers)) / sum(powers)
    return result


def cancelled(expr: sympy.Expr) -> sympy.Expr:
    """The numerator over a common denominator, exponentials expanded, like terms collected."""
    return sympy.powsimp(sympy.expand(sympy.numer(sympy.together(sympy.expand(expr, mul=False)))), combine="exp")


def test_a_head_agrees_with_sympy_written_out() -> None:
    d = dims(B=1, T=2, d_model=2, h=1, d_k=2, d_v=2)
    inputs = {name: Input(name, over) for name, over in
              (("X", (d.t, d.m)), ("Y", (d.s, d.m)), ("Q", (d.m, d.k)), ("K", (d.m, d.k)), ("V", (d.m, d.v)))}
    q = einsum("t m, m k -> t k", inputs["X"], inputs["Q"])
    k = einsum("s m, m k -> s k", inputs["Y"], inputs["K"])
    v = einsum("s m, m v -> s v", inputs["Y"], inputs["V"])
    scores = einsum("t k, s k -> t s", q, k) * Scalar(d.scale)
    z = einsum("t s, s v -> t v", Softmax(scores, (d.s,)), v)
    names = [f"{n}{i}{j}" for n in "XQKV" for i, j in product(range(2), repeat=2)]
    field = ExpField(names, roots=[2])
    box = {n: np.empty((2, 2), object) for n in "XQKV"}
    for name, element in zip(names, field.generators, strict=True):
        box[name[0]][int(name[1]), int(name[2])] = element
    value = evaluate(z, {**box, "Y": box["X"]}, exact=field)
    symbols = [[[sympy.Symbol(f"{n}{i}{j}") for j in range(2)] for i in range(2)] for n in "XQKV"]
    expected = sympy_layer(*symbols, 1 / sympy.sqrt(2))
    for place, want in expected.items():
        got = field.as_expr(value[place])
        assert cancelled(got - want) == 0
        assert cancelled(got - want * 2) != 0


def test_evaluation_with_elements_keeps_rows_that_sum_to_one() -> None:
    d = dims(T=3)
    scores = Input("S", (d.t, d.s))
    field = ExpField([f"s{n}" for n in range(9)])
    array = np.array(field.generators, object).reshape(3, 3)
    sums = evaluate(Reduce("sum", Softmax(scores, (d.s,)), (d.s,)), {"S": array}, exact=field)
    assert all(x == field.one for x in sums)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("make", [
    lambda: FIELD.exp(FIELD.inverse(A)),
    lambda: FIELD.exp(FIELD.exp(A)),
    lambda: FIELD.number(sympy.sqrt(5)),
    lambda: FIELD.number(sympy.pi),
    lambda: FIELD.number(sympy.Integer(2) ** sympy.Rational(1, 3)),
    lambda: FIELD.maximum(A, B),
])  # fmt: skip
def test_what_is_beyond_the_arithmetic_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(Beyond):
        make()


def test_work_is_limited() -> None:
    field = ExpField([f"x{n}" for n in range(12)], limit=100_000)
    total = field.total(field.generators)
    with pytest.raises(Beyond, match="too many terms"):
        for _ in range(12):
            total = total * total


def test_powers_of_sums_of_exponentials_take_work_and_not_the_machine() -> None:
    """All their exponents have the same monomials: they count as work, and differ in what they are looked up by."""
    field = ExpField([f"x{n}" for n in range(6)], limit=300_000)
    row = field.total(map(field.exp, field.generators))
    power = row * row * row * row
    (exponents,) = power.parts.values()
    assert len({*map(hash, exponents)}) == len(exponents) == math.comb(9, 4)
    assert field.work > 0
    with pytest.raises(Beyond, match="too many terms"):
        for _ in range(8):
            power = power * row


def test_the_larger_of_two_is_decided_at_the_point() -> None:
    field = ExpField(["a", "b"], roots=[2], point=[3, 4])
    a, b = field.generators
    root = field.number(sympy.sqrt(2))
    assert field.maximum(a, b) == b
    assert field.maximum(a * root, b) == a * root  # 3 sqrt(2) = 4.24...
    assert field.maximum(a * a, b * b) == b * b
    assert field.maximum(a, a) == a
    with pytest.raises(Beyond, match="equal at the point"):
        field.maximum(a + field.one, b)
    with pytest.raises(Beyond):
        field.maximum(field.exp(a), b)


def test_nothing_is_zero_however_it_is_written() -> None:
    nothing = FIELD.rational(0)
    assert not nothing.parts and FIELD.exp(nothing) == FIELD.one
    u, v = FIELD.exp(A) + FIELD.one, FIELD.exp(B) + FIELD.one
    apart = FIELD.inverse(u) - FIELD.inverse(v) + (u - v) * (FIELD.inverse(u) * FIELD.inverse(v))
    assert apart.parts, "over denominators of its own"
    assert FIELD.inverse(apart) == FIELD.zero


def test_elements_have_no_hash() -> None:
    with pytest.raises(TypeError, match="no hash"):
        hash(A)
