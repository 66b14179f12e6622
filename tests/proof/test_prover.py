"""The prover on random expressions: correct rewrites stay proved, wrong edits never are.

Judges are the second engine (`mha_sym.proof.field`) and floating point: what the prover proves they must confirm.
"""

from __future__ import annotations

import time
from random import Random

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_sym.axes import Index, Permutation, axis, product, size_symbol
from mha_sym.errors import AxisProblem, TheoremProblem
from mha_sym.expr import (
    Compare,
    Contract,
    Expr,
    Input,
    Map,
    Named,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Scalar,
    Select,
    Softmax,
    Total,
)
from mha_sym.library import load, theorem_names
from mha_sym.proof.checker import Certificate, check
from mha_sym.proof.field import confirm
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.prover import Prover, prove, prove_goal, to_write_out
from mha_sym.proof.theorem import Assumption, Claim, Theorem, Verdict
from tests.proof.random_exprs import Names, axes_of, edited, expression, rewritten

T, S, H, K = axis("t", "T"), axis("s", "S"), axis("h"), axis("k", "d_k")
X, C = Input("X", (T, S)), Input("c", (T,))


def proved(left: Expr, right: Expr, assumptions: tuple[Assumption, ...] = ()) -> bool:
    """Whether search finds a proof that the checker accepts, without looking for counterexamples first."""
    meaning = Meaning()
    for one in assumptions:
        if one.positive is not None:
            meaning.assume_positive(one.positive)
    for goal in goals(meaning, "claim", left, right):
        result = prove_goal(goal, meaning.context())
        if not isinstance(result, Certificate):
            return False
        check(result, meaning.context())
    return True


def test_what_is_written_out_is_what_the_other_side_has_one_by_one() -> None:
    """Sums over axes of a number of positions, of an entry that elsewhere has a fixed position in the same place."""
    three, other = axis("h", 3), axis("f", 3)

    def written(left: Expr, right: Expr) -> frozenset[str]:
        meaning = Meaning()
        (goal,) = goals(meaning, "claim", left, right)
        return to_write_out(goal.left, goal.right)

    for one, found in ((three, 1), (H, 0)):
        given, beside = Input("x", (one, K)), Input("y", (one, K))
        total = Reduce("sum", given, (one,))
        assert len(written(total, Select(given, one, 0))) == found
        assert len(written(Select(given, one, 0), total)) == found
        assert written(total, total) == written(total, Select(beside, one, 0)) == frozenset()
    wide = Input("z", (three, other))
    assert written(Reduce("sum", wide, (three,)), Select(wide, three, 0)) != frozenset()
    assert written(Reduce("sum", wide, (three, other)), Select(Reduce("sum", wide, (other,)), three, 0)) == (
        written(Reduce("sum", wide, (three,)), Select(wide, three, 0)))


def test_seconds_are_those_of_the_processor_from_the_beginning() -> None:
    before = time.process_time()
    report = prove(Theorem("twice", "", "", (Claim("twice", X + X, X * 2),)), recheck=False)
    spent = time.process_time() - before
    assert 0 <= report.claims[0].seconds <= report.seconds <= spent


def judged(left: Expr, right: Expr, assumptions: tuple[Assumption, ...] = ()) -> bool | None:
    return confirm(Claim("claim", left, right), assumptions).agrees


# ---------------------------------------------------------------- random expressions


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_a_correct_rewrite_stays_proved(rng: Random) -> None:
    one = expression(rng, axes_of(rng), rng.randint(2, 10))
    other, steps = rewritten(rng, one, rng.randint(1, 4))
    assert proved(one, other), steps


def test_two_rewrites_of_one_expression_are_proved_equal() -> None:
    """Both sides rewritten, four times each, from up to 14 nodes."""
    missed = []
    for seed in range(60):
        rng = Random(seed)
        names = Names()
        base = expression(rng, axes_of(rng), rng.randint(5, 14), names)
        (left, first), (right, second) = (rewritten(rng, base, 4, names) for _ in range(2))
        if not proved(left, right):
            missed.append((seed, first, second))
    assert not missed, missed


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_a_wrong_edit_is_never_proved(rng: Random) -> None:
    one = expression(rng, axes_of(rng), rng.randint(2, 8))
    other, _ = rewritten(rng, one, rng.randint(0, 2))
    found = edited(rng, other)
    if found is not None and proved(one, found[0]):  # some edits change nothing: a factor of 1, a shift of a softmax
        assert judged(one, found[0]) is not False, found[1]


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_verdicts_of_wrong_edits(rng: Random) -> None:
    """Refuted or undecided, unless the edit changes nothing."""
    one = expression(rng, axes_of(rng), rng.randint(2, 6))
    found = edited(rng, one)
    if found is None:
        return
    claim = Claim("claim", one, found[0])
    outcome = Prover(Theorem("t", "", "", (claim,)), recheck=True).claim(claim)
    judge = judged(one, found[0])
    if outcome.verdict is Verdict.PROVED:
        assert judge is not False
        assert outcome.certificates
    if outcome.verdict is Verdict.REFUTED:
        assert outcome.counterexample is not None
        assert judge is not True or any(node.boolean for node in _inputs(one))  # a mask may hide it from the judge


def _inputs(expr: Expr) -> list[Input]:
    own = [expr] if isinstance(expr, Input) else []
    return own + [one for child in expr.children for one in _inputs(child)]


@pytest.mark.parametrize("name", theorem_names())
def test_mutants_of_theorems_are_not_proved(name: str) -> None:
    """One side of a claim edited at a random place; the judges see the same assumptions."""
    theorem = load(name)
    rng = Random(name)
    tried = 0
    while tried < 5:
        claim = rng.choice(theorem.claims)
        found = edited(rng, claim.right)
        if found is None:
            continue
        tried += 1
        try:
            if proved(claim.left, found[0], theorem.assumptions):
                assert judged(claim.left, found[0], theorem.assumptions) is not False, (claim.name, found[1])
        except AxisProblem as clash:  # the edit brings a permutation of the name of another
            assert "two different things" in str(clash)


# ---------------------------------------------------------------- what only looks proved


def test_fixed_falsehoods() -> None:
    """Small traps, each a step that a careless prover would take."""
    t, u = axis("t", "T"), axis("u", "T")
    square = Input("M", (t, u))
    pi, x, v = Permutation("pi", H), Input("x", (H, T)), Input("v", (H,))
    flipped = Rename(Rename(Rename(square, t, axis("w", "T")), u, t), axis("w", "T"), u)
    keep = Input("keep", (T, S), "mask", True)
    ones = Repeat(Scalar(sympy.Integer(1)), (T,))
    d = size_symbol("d")
    traps: list[tuple[Expr, Expr]] = [
        (square, flipped),
        (Permute(x, pi), Permute(x, pi.inverse())),
        (Permute(Permute(x, pi), pi), x),
        (Contract((Permute(x, pi), v), (T,)), Contract((x, v), (T,))),
        (Softmax(X, (S,)), Softmax(X, (T,))),
        (Softmax(X + Input("q", (S,)), (S,)), Softmax(X, (S,))),
        (Reduce("sum", Softmax(X, (S,), keep), (S,)), ones),  # a row may keep nothing
        (C * Map("inv", (C,)), ones),  # c may be 0
        (Map("exp", (X + X,)), Map("exp", (X,)) * 2),
        (Map("inv", (C + C,)), Map("inv", (C,)) + Map("inv", (C,))),
        (Scalar(sympy.sqrt(d)) * C, Scalar(d) * C),
        (Compare("le", T, axis("u", "T")), Compare("ge", T, axis("u", "T"))),
        (Compare("le", S, T) * Compare("le", S, T), Compare("lt", S, T)),
        (Softmax(X, (S,), Compare("le", S, T)), Softmax(X, (S,), Compare("le", S, T, 1))),
        (Reduce("max", X + X, (S,)), Reduce("max", X, (S,))),
        (Map("fn:f", (X * 2,)), Map("fn:f", (X,)) * 2),
        (Total(Select(x, H, 0), Index("r", H)), Total(Select(x, H, Index("r", H)), Index("r", H))),
        (Reduce("sum", x, (H,)), Select(x, H, 0)),
    ]
    for left, right in traps:
        assert not proved(left, right), (left, right)


def test_assumptions_are_needed_and_enough() -> None:
    keep = Input("keep", (T, S), "mask", True)
    total, ones = Reduce("sum", Softmax(X, (S,), keep), (S,)), Repeat(Scalar(sympy.Integer(1)), (T,))
    row = Assumption("a key is kept", Reduce("sum", keep, (S,)))
    other = Assumption("another mask keeps a key", Reduce("sum", Input("other", (T, S), "mask", True), (S,)))
    column = Assumption("every key is kept by a query", Reduce("sum", keep, (T,)))
    first = Assumption("the first row keeps a key", Select(Reduce("sum", keep, (S,)), T, 0))
    assert proved(total, ones, (row,))
    for wrong in ((), (other,), (column,), (first,)):
        assert not proved(total, ones, wrong)
    assert proved(Select(total, T, 0), Select(ones, T, 0), (first,))


def test_definitions_that_share_a_name_are_kept_apart() -> None:
    """The same name for two values, one inside the other, or beside an input of that name."""
    inner, outer = Named(X, "N"), Named(Named(X, "N") * 2, "N")
    assert proved(outer, X + X)
    assert proved(outer, inner + inner)
    assert not proved(outer, inner)
    assert not proved(Named(X, "N"), Named(X * 2, "N"))
    assert proved(Named(X, "X"), X)
    assert not proved(Named(X * 2, "X"), X)


def test_maxima_over_unlike_axes_are_not_collected() -> None:
    """They look alike but for the axis; the search once ran into a rule that refuses."""
    over_h, over_k = (Reduce("max", Repeat(C, (T, one)), (one,)) for one in (H, K))
    assert proved(over_h + over_k, over_k + over_h)
    assert not proved(over_h + over_k, over_h * 2)


def test_positions_of_symbolic_axes() -> None:
    """Position 0 is always there; what is named is opened at no other, which may not exist."""
    named = Named(X, "N")
    assert proved(Select(named, T, 0), Select(X, T, 0))
    claim = Claim("c", Select(named, T, 2), Select(X, T, 2))
    assert prove(Theorem("t", "", "", (claim,)), recheck=False).verdict is not Verdict.REFUTED
    assert not proved(Select(X, T, 0), Select(X, T, 1))


def test_a_renamed_product_axis_is_the_same_positions() -> None:
    c, hk = axis("c", size_symbol("h") * size_symbol("d_k")), product(H, K)
    w = Input("w", (c,))
    assert proved(Rename(Named(w, "N"), c, hk), Rename(w, c, hk))
    swapped = product(K, H)
    assert proved(Rename(Rename(w, c, hk), hk, swapped), Rename(w, c, swapped))


def test_a_sum_of_fixed_length_is_written_out_where_the_other_side_has_it_position_by_position() -> None:
    """As code that loops over heads: X_0 C + X_1 C + X_2 C against sum_r X_r C; and not over an axis left out."""
    three, long = axis("r", 3), axis("t", "T")
    x = Input("x", (three, long))
    each = [Select(x, three, n) * Select(x, three, n) for n in range(3)]
    total = Reduce("sum", x * x, (three,))
    assert proved(each[0] + each[1] + each[2], total)
    assert not proved(each[0] + each[1], total)
    assert not proved(each[0] + each[1] + each[1], total)


def test_a_family_of_which_only_the_number_counts_is_refuted_too() -> None:
    """Its size stands in no axis of any value: the refuter once did not know of it."""
    many = Total(X, Index("r", H))
    claim = Claim("c", many, X)
    outcome = prove(Theorem("t", "", "", (claim,)), recheck=False).claims[0]
    assert outcome.verdict is Verdict.REFUTED and outcome.counterexample is not None
    assert outcome.counterexample.sizes["h"] > 1
    assert proved(many, X * H.size)


def test_only_theorems_are_proved() -> None:
    with pytest.raises(TheoremProblem, match="what is proved is a theorem") as caught:
        prove("softmax_rows_sum_to_one")  # type: ignore[arg-type]
    assert "mha_sym.library.load" in caught.value.hint
