"""The chance that a false claim passes at random points is larger with inverses, with more terms, with more factors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mha_sym.axes import Axis, Permutation, axis, size_symbol
from mha_sym.expr import Compare, Expr, Input, Map, Permute, Reduce, Scalar, Select, Softmax, Transpose
from mha_sym.proof.field import confirm
from mha_sym.proof.field_facts import Facts
from mha_sym.proof.theorem import Assumption, Claim

T = axis("t", 3)
GIVEN = tuple(Input(f"x{n}", (T,)) for n in range(16))


def bound(op: str, of: Callable[[Expr], Expr], count: int = 16) -> float:
    """That of a sum or a product of so many terms against the same in another order."""
    terms = tuple(of(one) for one in GIVEN[:count])
    found = confirm(Claim("same", Map(op, terms), Map(op, terms[::-1])))
    assert found.agrees
    return found.bound


def test_fractions_add_their_degrees() -> None:
    """Over one denominator a sum of fractions is of all their degrees together, and what is divided by may be 0."""
    plain = bound("add", lambda x: x)
    assert bound("add", lambda x: Map("inv", (x,))) > 1e6 * plain
    assert bound("add", lambda x: Map("inv", (x + 1,))) > 1e6 * plain


def test_more_factors_are_of_a_higher_degree() -> None:
    few, many = (bound("mul", lambda x: x, count) for count in (2, 16))
    assert many > 100 * few
    assert bound("mul", lambda x: Map("mul", (x, x))) > 2 * many


def test_no_bound_is_below_what_a_polynomial_may_do() -> None:
    """One of degree n vanishes at n of p numbers: by two primes below 2^31, in two trials."""
    for count in (1, 2, 16):
        assert bound("mul", lambda x: x, count) >= (count / 2**31) ** 4
    assert 0 < bound("add", lambda x: x, 1) < 1e-25


def test_sizes_are_large_enough_to_tell_axes_apart() -> None:
    """Two or more; three where something is permuted, for of two every permutation is its own inverse."""
    t, h, s = axis("t", "T"), axis("h"), axis("s", "S")
    given = Input("x", (t, h, s))
    permuted = Permute(given, Permutation("pi", h))
    facts = Facts.of((Claim("one", Select(permuted, s, 4), Select(given, s, 4) * size_symbol("n")),), ())
    assert facts.least == {"T": 2, "h": 3, "S": 5, "n": 2}
    for seed in range(40):
        found = confirm(Claim("same", permuted, Transpose(Transpose(permuted, (s, h, t)), (t, h, s))), seed=seed)
        for sizes in found.sizes:
            assert min(sizes.values()) >= 2 and sizes["h"] >= 3
            assert len(set(sizes.values())) == 3


def test_what_is_out_of_reach_is_no_answer() -> None:
    half = Input("x", (Axis("t", size_symbol("T") / 3),))
    assert any(confirm(Claim("half", half, half), seed=seed).agrees is None for seed in range(5))
    assert confirm(Claim("no", Scalar(2) * GIVEN[0], GIVEN[0])).detail.startswith("the sides differ at t=")
    with pytest.raises(Exception, match="one name stands for two inputs"):
        Facts.of((Claim("two", Input("x", ()), Map("neg", (Input("x", (), boolean=True),))),), ())


def test_the_inverse_of_nothing_is_nothing() -> None:
    """As in proofs; of numbers, of sums of exponentials, in a row that keeps nothing."""
    x, y = GIVEN[:2]
    t, s = axis("t", "T"), axis("s", "T")
    power = Map("exp", (x,))
    rows = Reduce("sum", Softmax(Input("e", (t, s)), (s,), Compare("lt", s, t)), (s,))
    for nothing in (
        Map("inv", (x - x,)), Map("mul", (Map("inv", (power - power,)), y)), Select(rows, t, 0),
        Map("inv", (Map("neg", (x - x,)),)),
    ):  # fmt: skip
        assert confirm(Claim("nothing", nothing, nothing * 0)).agrees
        assert confirm(Claim("one", nothing, nothing * 0 + 1)).agrees is False


def test_a_position_that_is_not_there_is_no_answer() -> None:
    t = axis("t", "T")
    third = Select(Input("x", (t,)), t, 2)
    assert confirm(Claim("third", third, third)).agrees
    assert confirm(Claim("third", third, third), fixed={"T": 3}).agrees
    assert confirm(Claim("third", third, third), fixed={"T": 2}).agrees is None


def test_what_is_assumed_of_others_is_not_asked_for() -> None:
    """Nor what is only said in words."""
    never = Assumption("never", Map("neg", (Input("m", (T,), boolean=True),)))
    claim = Claim("same", GIVEN[0] * 2, GIVEN[0] + GIVEN[0])
    assert Facts.of((claim,), (never, Assumption("in words"))).assumed == ()
    assert confirm(claim, (never, Assumption("in words"))).agrees
