"""The chance that a false claim passes at random points is larger with inverses, with more terms, with more factors."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import sympy

from mha_sym.axes import Axis, Permutation, axis, size_symbol
from mha_sym.expr import Compare, Expr, Input, Map, Permute, Reduce, Repeat, Scalar, Select, Softmax, Transpose
from mha_sym.proof.field import Trial, confirm
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


# ---------------------------------------------------------------- against what was worked out by other means

W = axis("w", 32)
X, Y, ROW = GIVEN[0], GIVEN[1], Input("w", (T, W))


def inv(of: Expr) -> Expr:
    return Map("inv", (of,))


def exp(of: Expr) -> Expr:
    return Map("exp", (of,))


def times(*of: Expr) -> Expr:
    return Map("mul", of)


def trial_of(*sides: Expr) -> tuple[Trial, float]:
    """A trial in which sides were compared that are equal, and the chance that unequal ones would have agreed."""
    claim = Claim("same", sides[0], sides[-1])
    facts, rng = Facts.of((claim,), ()), np.random.default_rng(0)
    trial = Trial(facts, facts.draw_sizes(rng, {}, 0), rng)
    trial.draw()
    found = trial.compare(claim)
    assert found.place is None
    return trial, found.bound


def degree(side: Expr) -> tuple[int, int]:
    """The degrees of numerator and denominator at a place, by SymPy: of sums, products and inverses of inputs."""

    def value(node: Expr, at: dict[str, int]) -> sympy.Expr:
        match node:
            case Input(name=name, over=over):
                return sympy.Symbol(f"{name}_{[at[one.name] for one in over]}")
            case Scalar(value=number):
                return number
            case Reduce(arg=arg, over=(one,)):
                return sympy.Add(*(value(arg, {**at, one.name: n}) for n in range(int(one.size))))
            case Map(op=op, args=args):
                some = [value(arg, at) for arg in args]
                return 1 / some[0] if op == "inv" else sympy.Add(*some) if op == "add" else sympy.Mul(*some)
        raise TypeError(node)

    above, below = (sympy.Poly(one, *one.free_symbols) if one.free_symbols else None
                    for one in sympy.fraction(sympy.together(value(side, {"t": 0}))))  # fmt: skip
    return tuple(0 if one is None else int(one.total_degree()) for one in (above, below))  # type: ignore[return-value]


FEW = axis("w", 6)
SIX = Input("w", (T, FEW))
FRACTIONS = {
    "product": times(*GIVEN[:5]), "inverse": inv(X), "inverse of a sum": inv(X + Y + times(X, X)),
    "sum of inverses": Reduce("sum", inv(SIX), (FEW,)), "inverse of that": inv(Reduce("sum", inv(SIX), (FEW,))),
    "tower": inv(X + inv(Y + inv(GIVEN[2] + inv(GIVEN[3] + 1)))),
    "sums of many": Map("add", tuple(map(inv, GIVEN[:7]))),
    "products of sums": times(inv(X) + inv(Y), inv(GIVEN[2]) + inv(GIVEN[3])),
}  # fmt: skip


@pytest.mark.parametrize("name", FRACTIONS)
def test_no_degree_is_below_that_of_the_fractions(name: str) -> None:
    """Two sides a/b and c/d differ where a d - b c is not zero, which is of so high a degree."""
    side = FRACTIONS[name]
    trial, bound = trial_of(side, side)
    above, below = degree(side)
    assert trial.take(side)[1].height >= max(above, below)
    assert bound >= ((above + below) / min(trial.field.primes)) ** 2


SUM = Reduce("sum", exp(ROW), (W,))
#: terms, symbols, what denominators add, height of the left side, worked out by hand
BY_HAND: dict[str, tuple[tuple[Expr, ...], tuple[int, int, float, float]]] = {
    "product": ((times(X, Y), times(Y, X)), (1, 0, 0, 1 + 1)),
    "sum": ((X + Y, Y + X), (1, 0, 0, 1 + 1)),
    "fraction": ((X + inv(Y), inv(Y) + X), (1, 0, 0, 1 + (1 + 1))),
    "number": ((X * sympy.Integer(2) ** 600,), (1, 0, 0, 1 + 600)),
    "root": ((X * (sympy.Integer(2) ** 600 * sympy.sqrt(3)),), (1, 0, 0, 1 + 602 + 1)),
    "sum of 32": ((Reduce("sum", ROW, (W,)),), (1, 0, 0, 1 + 5)),
    "sum of 32 fractions": ((Reduce("sum", inv(ROW), (W,)),), (1, 0, 0, 32)),
    "exponentials": ((exp(X) + exp(Y), exp(Y) + exp(X)), (2, 0, 0, 1 + 1)),
    "exponential of a sum": ((exp(X + Y), times(exp(X), exp(Y))), (1, 0, 0, 2)),
    "one over a sum": ((inv(SUM),), (32, 3, 0, (1 + 5 + 1) * 32)),  # a symbol for each of the three rows
    "softmax": ((Softmax(ROW, (W,)), times(exp(ROW), inv(Repeat(SUM, ROW.axes)))), (32, 3, 0, 1 + (1 + 5 + 1) * 32)),
    "two fractions": ((inv(exp(X) + exp(Y)) + inv(exp(X) + 1), times(exp(X) * 2 + exp(Y) + 1, inv(
        times(exp(X) + exp(Y), exp(X) + 1)))), (5, 9, 32, 1 + (2 + 1) * 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_what_a_chance_is_made_of(name: str) -> None:
    sides, (terms, symbols, added, height) = BY_HAND[name]
    trial, bound = trial_of(*sides)
    assert (trial.field.terms, trial.field.symbols, trial.field.added) == (terms, symbols, added)
    heights = [trial.take(side)[1].height for side in (sides[0], sides[-1])]
    assert heights[0] == pytest.approx(height, abs=1e-9)
    assert bound == trial._chance(sum(heights))


@pytest.mark.parametrize(("height", "added", "terms", "symbols"), [(7, 0, 1, 0), (31, 50, 4, 9), (600, 1, 2, 3)])
def test_a_chance_by_hand(height: int, added: int, terms: int, symbols: int) -> None:
    """All ways in which a difference may vanish, for both primes; and 58 bits of an integer for each pair of them."""
    trial, _ = trial_of(X * sympy.sqrt(3), X * sympy.sqrt(3))
    trial.field.added, trial.field.terms = added, terms
    trial.field._numbers = {bytes([n]): n for n in range(symbols)}
    least = min(trial.field.primes)
    assert 2**29 < least < 2**30 and max(trial.field.primes) == 2 * least + 1
    both = Fraction((height + added) * (1 + terms + symbols), least) ** 2
    pairs = Fraction((height + added) // 58 * 8 * 3, 2_000_000)  # primes that are -1 modulo 8 and 3
    assert trial._chance(height) == pytest.approx(float(both + pairs), rel=1e-12)
    assert trial._chance(1e12) == 1.0


def test_there_are_as_many_pairs_of_primes_as_is_said() -> None:
    """Of q and 2 q + 1, q = 7 modulo 8, at the end of the range, where there are fewest."""
    width = 1 << 19
    q = np.arange((1 << 30) - width + 7, 1 << 30, 8)
    for prime in sympy.primerange(3, 46341):  # up to the root of 2**31
        q = q[(q % prime > 0) & ((2 * q + 1) % prime > 0)]
    assert len(q) * ((1 << 29) / width) > 2_000_000 / 8


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
    third = Input("x", (Axis("t", size_symbol("T") / 3),))
    for size, agrees in ((2, None), (3, True), (4, None), (5, None), (6, True)):
        assert confirm(Claim("third", third, third), fixed={"T": size}).agrees is agrees
    later = Input("x", (Axis("t", size_symbol("T") - 5),))
    for size, agrees in ((4, None), (5, None), (6, True)):
        assert confirm(Claim("later", later, later), fixed={"T": size}).agrees is agrees
    found = confirm(Claim("no", Scalar(2) * GIVEN[0], GIVEN[0]))
    assert found.detail in {f"the sides differ at t={n}" for n in range(3)}
    assert confirm(Claim("no", Reduce("sum", GIVEN[0], (T,)), Reduce("sum", GIVEN[0] * 2, (T,)))).detail == (
        "the sides differ at the only place")
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


def test_the_inverse_of_nothing_beside_something_is_nothing() -> None:
    u = axis("u", "T")
    x, earlier = Input("x", (axis("t", "T"), u)), Compare("le", axis("t", "T"), u)
    for one in (x, Map("exp", (x,)), x + 1):
        assert confirm(Claim("kept", inv(times(one, earlier)), times(earlier, inv(one)))).agrees
        assert confirm(Claim("all", inv(times(one, earlier)), inv(one))).agrees is False


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
