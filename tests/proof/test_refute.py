"""Counterexamples: every control of the library has one, it is one by plain evaluation, and what is true has none."""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from flint import arb

from mha_sym.axes import Axis, Permutation, axis
from mha_sym.evaluate import evaluate
from mha_sym.expr import Compare, Expr, Input, Map, Permute, Reduce, Repeat, Scalar, Select, Softmax, Transpose, as_expr
from mha_sym.library import load, theorem_names
from mha_sym.proof.balls import REAL, Balls, surely_different
from mha_sym.proof.collector import collector_off
from mha_sym.proof.refute import FIRST, _functions, _Search, possible, refute
from mha_sym.proof.theorem import Assumption, Claim, Counterexample

T, S, H = axis("t", "T"), axis("s", "S"), axis("h")
x, y = Input("x", (T,)), Input("y", (T,))
E, KEEP = Input("e", (T, S)), Input("keep", (T, S), "mask", True)
ROWS = Assumption("every row keeps a key", Reduce("sum", KEEP, (S,)))


def sides(claim: Claim, found: Counterexample) -> list[float]:
    """Both sides at the place of a counterexample, in floating point."""
    values = []
    for side in (claim.left, claim.right):
        made = evaluate(
            side, {name: np.asarray(value, float) for name, value in found.inputs.items() if name in names(side)},
            sizes={name: size for name, size in found.sizes.items() if name in symbols(side)},
            permutations=found.permutations,
        )  # fmt: skip
        values.append(float(np.asarray(made)[tuple(found.index[one.name] for one in side.axes)]))
    return values


def names(expr: Expr) -> set[str]:
    return ({expr.name} if isinstance(expr, Input) else set()) | {n for child in expr.children for n in names(child)}


def symbols(expr: Expr) -> set[str]:
    from mha_sym.plan import plan_of

    return set(plan_of((expr,)).sizes)


def told(text: str) -> float:
    """The value that is told, a fraction or a ball."""
    ball = re.fullmatch(r"\[?([-0-9.e]+)(?: \+/- .*)?\]?", text)
    return float(ball[1]) if ball else float(Fraction(text))


def checked(claim: Claim, assumptions: Sequence[Assumption] = (), **fixed: int) -> Counterexample:
    """A counterexample, after a look at it from outside."""
    found = refute(claim, assumptions, fixed, draws=6)
    assert found is not None
    left, right = sides(claim, found)
    assert (left, right) == pytest.approx((told(found.left), told(found.right)), rel=1e-9, abs=1e-9)
    assert abs(left - right) > 1e-6
    return found


@pytest.mark.parametrize("name", theorem_names())
def test_every_control_has_a_counterexample(name: str) -> None:
    theorem = load(name)
    for control in theorem.controls:
        found = checked(control, theorem.assumptions, **(control.sizes or {}))
        assert dict(control.sizes or {}).items() <= found.sizes.items()
        assert max(found.sizes.values(), default=1) <= 7, "it is not made small"


@pytest.mark.parametrize("name", theorem_names())
def test_no_claim_has_one(name: str) -> None:
    theorem = load(name)
    assert all(refute(claim, theorem.assumptions, draws=1) is None for claim in theorem.claims[:4])


def test_it_is_as_small_as_can_be() -> None:
    found = checked(Claim("one", x + y, x))
    assert (found.sizes, found.inputs["x"]) == ({"T": 1}, [0])
    swapped = checked(Claim("swapped", Input("a", (T, H)), Repeat(Select(Input("a", (T, H)), H, 0), (T, H))))
    assert swapped.sizes == {"T": 1, "h": 2}


def test_masks_keep_everything_where_nothing_less_is_allowed() -> None:
    """At the first draw already, after a few that are not allowed."""
    everything = Assumption("nothing is masked", Reduce("sum", KEEP, (T, S)) * 2 - T.size * S.size * 2 + 1)
    assert refute(Claim("one", E + E, E), (everything,), draws=1) is not None
    assert refute(Claim("masked", E * KEEP, E + E), (everything,), draws=1) is not None
    assert refute(Claim("all", KEEP, Repeat(as_expr(1), (T, S))), (everything,)) is None


def only_if(kept: int, positions: int, *others: Axis) -> Claim:
    """What is false where a row of a mask keeps exactly so many positions, and nowhere else."""
    row = axis("u", positions)
    count = Reduce("sum", Input("keep", (*others, row), "mask", True), (row,))
    others_ = Map("mul", tuple(count - n for n in range(positions + 1) if n != kept))
    return Claim("only if", others_, Repeat(as_expr(0), others_.axes))


@pytest.mark.parametrize("others", [(), (T,), (axis("b", "B"), T)], ids=len)
def test_rows_that_random_masks_seldom_have_are_tried(others: tuple[Axis, ...]) -> None:
    """Of random masks one row in a million has a single key, or none."""
    for kept in (0, 1):
        found = checked(only_if(kept, 24, *others))
        assert kept in np.asarray(found.inputs["keep"]).sum(-1, keepdims=True)
        assert set(found.sizes.values()) <= {1}
    row = axis("u", 24)
    some_key = Assumption("some key", Reduce("sum", Input("keep", (*others, row), "mask", True), (row,)))
    assert refute(only_if(0, 24, *others), (some_key,)) is None
    checked(only_if(1, 24, *others), (some_key,))


def test_columns_may_be_empty_too() -> None:
    wide = Input("keep", (axis("u", 24), axis("v", 3)), "mask", True)
    checked(Claim("columns", Reduce("max", wide, (axis("u", 24),)), Repeat(as_expr(1), (axis("v", 3),))))
    alone = Input("alone", (), "mask", True)
    checked(Claim("alone", alone, as_expr(1)))


def test_whether_assumptions_may_hold() -> None:
    large, mask = axis("u", 5), Input("m", (T, axis("u", 5)), "mask", True)
    count = Reduce("sum", mask, (large,))
    for hold in ([], [x], [x, y - x], [x - 900], [x * 0 + 1, Map("neg", (x,)) - 900], [count], [count, count * -1 + 5]):
        assert possible([Assumption("", one) for one in hold])
    for never in ([x * 0], [x, Map("neg", (x,))], [count - 5], [x - y, y - x], [count, count * -1 + 1]):
        assert not possible([Assumption("", one) for one in never])
    third = Select(x, T, 2)
    assert possible([Assumption("", third)]) and not possible([Assumption("", third - third)])
    assert possible([Assumption("in words")])


def test_fixed_sizes_stay() -> None:
    assert checked(Claim("one", x + y, x), T=6).sizes == {"T": 6}


def test_sizes_are_distinct_at_first_so_that_axes_cannot_be_confused() -> None:
    assert len({FIRST[name] for name in ("T", "S", "d_model", "h", "d_v", "d_k")}) == 6
    assert FIRST["h"] >= 3


def test_sides_with_axes_in_another_order() -> None:
    same = Claim("same", E, Transpose(E, (S, T)))
    assert refute(same) is None
    checked(Claim("not", E, Transpose(E * 2, (S, T))))


def test_sizes_of_each_draw() -> None:
    """Pairwise distinct, larger from the third draw on, one token at the sixth; never below what positions ask for."""
    axes = tuple(axis(name, size) for name, size in (("b", "B"), ("t", "T"), ("s", "S"), ("h", "h"), ("n", "N")))
    given = Input("x", axes)
    search = _Search(Claim("same", given, given), (), {})
    first = {"B": 2, "T": 4, "S": 5, "h": 3, "N": 7}
    assert search.first_sizes(0) == search.first_sizes(1) == first
    for draw in (2, 3, 4):
        assert search.first_sizes(draw) == {n: size + draw for n, size in (first | {"B": 1, "N": 2}).items()}
    assert search.first_sizes(5) == {"B": 6, "T": 1, "S": 1, "h": 8, "N": 7}
    late = Select(given, axes[1], 5)
    fixed = _Search(Claim("late", late, late), (), {"S": 9, "unknown": 3})
    assert fixed.first_sizes(0) == first | {"T": 6, "S": 9}
    assert fixed.first_sizes(5) == {"B": 6, "T": 6, "S": 9, "h": 8, "N": 7}
    names = tuple(axis(letter) for letter in "acefgijklp")
    many = Input("y", names)
    sizes = _Search(Claim("many", many, many), (), {}).first_sizes(0)
    assert sorted(sizes.values()) == [2, 3, 4, 5, 7, 8, 9, 10, 11, 12]


def test_masks_are_0_or_1_and_other_inputs_small_integers() -> None:
    search = _Search(Claim("masked", E, E * KEEP), (), {})
    for seed in range(6):
        for low, high in ((-2, 3), (0, 3)):
            trial = search.draw({"T": 30, "S": 40}, seed, low, high)
            assert trial is not None
            assert set(np.unique(trial.arrays["keep"])) == ({0, 1} if seed % 2 == 0 or seed == 1 else {1})
            assert set(np.unique(trial.arrays["e"])) == set(range(low, high))
    assert search.turns(3) == [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)]
    assert _Search(Claim("none", E, E), (), {}).turns(2) == [(0, 0), (1, 0)]


def test_a_permutation_is_not_its_inverse() -> None:
    perm = Permutation("pi", H)
    given = Input("a", (H,))
    found = checked(Claim("inverse", Permute(given, perm), Permute(given, perm.inverse())))
    assert found.sizes == {"h": 3}
    order = found.permutations["pi"]
    assert sorted(order) == [0, 1, 2] and any(order[order[n]] != n for n in range(3))
    checked(Claim("itself", Permute(given, perm), given))


def test_assumptions_hold_where_they_are_made() -> None:
    weights = Softmax(E, (S,), KEEP)
    even = Claim("even", weights, Map("mul", (weights, as_expr(sympy.Rational(1, 2)))))
    found = checked(even, (ROWS,))
    assert all(any(row) for row in found.inputs["keep"])
    assert refute(Claim("some", Reduce("max", KEEP, (S,)), Repeat(as_expr(1), (T,))), (ROWS,)) is None
    checked(Claim("all", KEEP, Repeat(as_expr(1), (T, S))), (ROWS,))


def test_what_has_no_value_is_no_counterexample() -> None:
    """0/0 in a row that keeps nothing."""
    rows = Claim("rows", Reduce("sum", Softmax(E, (S,), KEEP), (S,)), Repeat(as_expr(1), (T,)))
    assert refute(rows, draws=6) is None
    zero = Map("add", (x, Map("neg", (x,))))
    assert refute(Claim("zero", Map("inv", (zero,)), x)) is None


def test_equal_exponentials_do_not_differ() -> None:
    power = Map("exp", (x + y,))
    assert refute(Claim("law", power, Map("mul", (Map("exp", (x,)), Map("exp", (y,)))))) is None
    checked(Claim("no law", power, Map("add", (Map("exp", (x,)), Map("exp", (y,))))))
    checked(Claim("roots", x * sympy.sqrt(2), x * sympy.sqrt(3)))


def test_rows_that_never_have_a_value() -> None:
    """Of ``t < u`` the row of ``u = 0`` keeps nothing at any size."""
    earlier = Compare("lt", T, axis("u", "T"))
    wide = Repeat(x, earlier.axes)
    assert refute(Claim("none", Softmax(wide, (T,), earlier), Scalar(0) * wide)) is None


@pytest.mark.parametrize(
    ("value", "about"),
    [(sympy.Rational(2, 3), 2 / 3), (sympy.sqrt(2), 2**0.5), (2 * sympy.sqrt(3) + 1, 2 * 3**0.5 + 1),
     (sympy.Rational(1, 2) ** sympy.Rational(1, 3), 0.5 ** (1 / 3)), (sympy.Integer(-4), -4.0),
     (sympy.cos(2), np.cos(2)), (1 + sympy.sin(sympy.sqrt(5)), 1 + np.sin(5**0.5))],
)  # fmt: skip
def test_numbers_as_balls(value: Any, about: float) -> None:
    made = Balls().number(value)
    assert made.contains(arb(about)) or float(made.mid()) == pytest.approx(about, rel=1e-14)
    assert made.rad() < 1e-30


def test_functions_of_real_numbers_are_computed() -> None:
    assert _functions(None) is REAL and _functions(None)["abs"](-2.0) == 2
    found = refute(Claim("abs", Map("fn:abs", (x,)), x))
    assert found is not None and found.left != found.right


def test_balls() -> None:
    balls = Balls()
    third = balls.ball(Fraction(1, 3))
    assert (third * 3).contains(1) and third.rad() > 0
    assert surely_different(third, balls.ball(Fraction(1, 3) + Fraction(1, 10**30)))
    assert not surely_different(third, balls.number(sympy.Rational(1, 3)))
    assert not surely_different(balls.inverse(third - third), balls.one)  # not a number differs from nothing
    assert not surely_different(balls.one, balls.inverse(balls.zero))
    assert balls.maximum(balls.zero, balls.one) == 1 and balls.exp(balls.one).contains(balls.exp(balls.one).mid())
    assert float(balls.exp(balls.one).mid()) == pytest.approx(np.e)
    for other in (sympy.Symbol("n"), sympy.Integer(2) ** sympy.sqrt(2)):
        with pytest.raises(ValueError, match="made of rationals"):
            balls.number(other)


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_put_back_as_it_was(on: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        with pytest.raises(KeyError), collector_off():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()
