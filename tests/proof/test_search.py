"""The search finds what each of its laws is for: small identities, proved and replayed by the checker."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from mha_sym.proof.checker import Certificate, check
from mha_sym.proof.normal import _direction
from mha_sym.proof.prover import heights, prove_goal, to_write_out
from mha_sym.proof.rewrite import MOST_STEPS, TooLong, match_entry, mentions, without_number
from mha_sym.proof.rules import Context, Definition, Goal
from mha_sym.proof.terms import (
    ONE,
    ZERO,
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Part,
    Perm,
    Size,
    Term,
    Var,
    domain_key,
    equal,
    subst,
    sum_over,
)
from tests.proof.random_terms import BLOCKS, CONTEXT, HK, SIX, THREE, TWO, H, K, S, T, number

s, u, t, p = Var("s", S), Var("u", S), Var("t", T), Var("p", T)
r, q, j, c = Var("r", H), Var("q", H), Var("j", K), Var("c", HK)
a, b = Var("a", TWO), Var("b", THREE)
CTX = replace(
    CONTEXT,
    positive=(
        ((t,), sum_over(s, Entry("m", (t, s)))),
        ((r, j), Entry("w", (Join(HK, (r, j)), Perm("pi", False, r)))),
        ((), Entry("z0", ())),
    ),
)


def e(name: str, *at: Index) -> Entry:
    return Entry(name, at)


def add(*args: Term) -> Add:
    return Add(args)


def mul(*args: Term) -> Mul:
    return Mul(args)


def exp(arg: Term) -> Apply:
    return Apply("exp", arg)


def inv(arg: Term) -> Apply:
    return Apply("inv", arg)


def minus(arg: Term) -> Mul:
    return mul(number(-1), arg)


def over(body: Term, *variables: Var) -> Term:
    for var in reversed(variables):
        body = sum_over(var, body)
    return body


def le(left: Index, right: Index, offset: int = 0) -> Cmp:
    return Cmp("le", left, right, offset)


def eq(left: Index, right: Index) -> Cmp:
    return Cmp("eq", left, right)


def pi(index: Index, inverse: bool = False) -> Perm:
    return Perm("pi", inverse, index)


x, y, z = e("x"), e("y"), e("z")
xs, ys = e("x", s), e("y", s)
row = exp(e("x", t, s))
kept = mul(e("m", t, s), exp(e("x", t, s)))
ex, ey, ez = exp(x), exp(y), exp(z)
w = e("w", Join(HK, (r, j)), pi(r))

PROVED: dict[str, tuple[Term, Term]] = {
    # sums and products
    "distributed": (mul(add(x, y), add(x, minus(y))), add(mul(x, x), minus(mul(y, y)))),
    "nothing left": (add(x, minus(x)), ZERO),
    "an exponential over itself": (mul(ex, inv(ex)), ONE),
    "an exponential over itself beside another factor": (mul(y, ex, inv(mul(ex, z))), mul(y, inv(z))),
    "a sum of an exponential over itself": (over(mul(ex, inv(ex)), s), Size("S")),
    "numbers collected": (add(mul(number(2), x), mul(number(Fraction(1, 2)), x)), mul(number(Fraction(5, 2)), x)),
    "numbers in front of sums collected": (
        add(over(mul(number(2), xs), s), over(mul(e("x", u), number(3)), u)), mul(number(5), over(xs, s))),
    "a number two sums deep": (
        add(over(mul(number(2), xs, e("y", t)), s, t), over(mul(xs, e("y", t)), t, s)),
        over(mul(number(3), xs, e("y", t)), t, s)),
    "no number left but one": (add(mul(number(2), x), minus(x)), x),
    "three alike": (add(x, x, x), mul(number(3), x)),
    "collected to nothing in a sum": (add(x, y, minus(x)), y),
    "what is collected is a product": (add(mul(x, y), mul(y, x)), mul(number(2), y, x)),
    "sums exchanged": (over(mul(e("x", s, t), e("y", t, s)), s, t), over(mul(e("x", s, t), e("y", t, s)), t, s)),
    "three sums exchanged": (
        over(mul(e("x", s, t), e("y", t, r)), s, t, r), over(mul(e("x", s, t), e("y", t, r)), r, s, t)),
    "alike indices in either order": (
        over(mul(e("x", s, t), e("x", u, t)), s, u, t), over(mul(e("x", s, t), e("x", u, t)), u, t, s)),
    "a product of sums": (mul(over(xs, s), over(ys, s)), over(mul(xs, e("y", u)), s, u)),
    "a sum of a sum": (
        over(add(xs, minus(ys), number(2)), s), add(over(xs, s), minus(over(ys, s)), mul(number(2), Size("S")))),
    "a constant summand": (over(mul(x, y), s), mul(Size("S"), x, y)),
    "a sum of nothing": (over(add(xs, minus(xs)), s), ZERO),
    "a factor outside": (over(mul(x, xs), s), mul(x, over(xs, s))),
    "roots of sizes": (mul(Size("d", Fraction(1, 2)), Size("d", Fraction(-3, 2)), x), mul(inv(Size("d")), x)),
    "roots of numbers": (mul(Size("5", Fraction(1, 2)), Size("5", Fraction(1, 2))), number(5)),
    "pairs of positions": (over(e("x", c), c), over(e("x", Join(HK, (r, j))), r, j)),
    "parts of a position": (
        over(mul(e("x", Part(c, HK, 0)), e("y", Part(c, HK, 1))), c), mul(over(e("x", r), r), over(e("y", j), j))),
    "maxima of what is equal": (Bind("max", s, add(xs, xs)), Bind("max", u, mul(number(2), e("x", u)))),
    "functions of what is equal": (Apply("f", add(x, y)), Apply("f", add(y, x, ZERO))),
    # exponentials and inverses
    "exponential of a sum": (exp(add(x, y)), mul(ey, ex)),
    "exponentials of like terms": (mul(exp(x), exp(mul(number(2), x))), exp(mul(number(3), x))),
    "exponentials that cancel": (mul(exp(x), exp(minus(x))), ONE),
    "exponential of nothing": (exp(add(x, minus(x))), ONE),
    "exponential of a sum over an index": (
        mul(exp(over(xs, s)), exp(over(e("x", u), u))), exp(mul(number(2), over(xs, s)))),
    "inverse of an exponential": (inv(exp(add(x, y))), mul(exp(minus(x)), exp(minus(y)))),
    "inverse of a product": (
        inv(mul(number(2), x, Size("d"))), mul(number(Fraction(1, 2)), inv(x), Size("d", Fraction(-1)))),
    "inverse of an inverse": (inv(inv(add(x, y))), add(x, y)),
    "inverse of a number": (inv(number(-4)), number(Fraction(-1, 4))),
    "common factors in an inverse": (inv(add(mul(x, y), mul(y, z))), mul(inv(y), inv(add(x, z)))),
    "a common factor that is one of the addends": (inv(add(x, mul(x, y))), mul(inv(x), inv(add(ONE, y)))),
    "common factors of sums in an inverse": (
        inv(add(over(mul(x, xs), s), mul(x, y))), mul(inv(x), inv(add(over(xs, s), y)))),
    "a factor of a sum in an inverse": (inv(over(mul(x, xs), s)), mul(inv(x), inv(over(xs, s)))),
    # cancelling
    "a row sums to one": (over(mul(row, inv(over(exp(e("x", t, u)), u))), s), ONE),
    "a row sums to one in a larger sum": (
        over(mul(row, inv(over(row, s)), e("v", t)), t, s), over(e("v", t), t)),
    "a row with a kept key": (over(mul(kept, inv(over(kept, s))), s), ONE),
    "a row of pairs sums to one": (
        over(mul(exp(e("x", s, r)), inv(over(exp(e("x", u, q)), q, u))), s, r), ONE),
    "a row against itself twice": (over(mul(row, inv(over(row, s)), inv(over(row, s))), s), inv(over(row, s))),
    "what is positive by assumption": (mul(w, inv(w)), ONE),
    "what is positive without positions": (mul(e("z0"), x, inv(e("z0"))), x),
    "parts of a whole": (add(mul(ex, inv(add(ex, ey))), mul(ey, inv(add(ex, ey)))), ONE),
    "parts of a whole with a factor": (
        add(mul(ex, z, inv(add(ex, ey))), mul(ey, inv(add(ex, ey)), z)), z),
    "three parts of a whole": (
        add(*(mul(one, z, inv(add(ex, ey, ez))) for one in (ex, ey, ez))), z),
    "parts of a whole that are sums": (
        add(mul(over(exp(xs), s), z, inv(add(over(exp(xs), s), ey))), mul(ey, z, inv(add(over(exp(xs), s), ey)))), z),
    "parts of a whole that is assumed": (
        add(mul(w, z, inv(add(w, ey))), mul(ey, z, inv(add(w, ey)))), z),
    "merged blocks of a row": (
        mul(add(over(exp(xs), s), over(exp(e("y", t)), t)), inv(add(over(exp(xs), s), over(exp(e("y", t)), t)))), ONE),
    # brackets
    "a bracket twice": (over(mul(le(r, q), le(r, q), e("x", r)), r), over(mul(le(r, q), e("x", r)), r)),
    "a bracket inside": (mul(le(r, q), exp(mul(le(r, q), x))), mul(le(r, q), exp(x))),
    "a mask inside": (mul(e("m", t, s), exp(mul(x, e("m", t, s)))), mul(exp(x), e("m", t, s))),
    "a mask in a sum inside": (
        mul(e("m", t, s), inv(over(mul(e("m", t, s), exp(e("y", p))), p))),
        mul(e("m", t, s), inv(over(exp(e("y", p)), p)))),
    "orders that meet": (mul(le(r, j), le(j, q), le(r, q), x), mul(le(r, j), le(j, q), x)),
    "orders that meet with room": (mul(le(r, j, 1), le(j, q, 2), le(r, q, 3)), mul(le(j, q, 2), le(r, j, 1))),
    "orders that meet inside": (
        mul(le(r, j), le(j, q), exp(mul(x, le(r, q)))), mul(le(r, j), le(j, q), exp(x))),
    "an order that meets one deeper": (
        mul(le(t, p), inv(over(mul(le(s, t), le(s, p), exp(xs)), s))),
        mul(le(t, p), inv(over(mul(le(s, t), exp(xs)), s)))),
    "equal positions": (over(mul(eq(s, u), xs), s), e("x", u)),
    "equal positions the other way round": (over(mul(eq(u, s), xs, y), s), mul(y, e("x", u))),
    "equal positions of the outer sum": (over(mul(eq(s, u), e("x", s, t)), s, t), over(e("x", u, t), t)),
    "a count of equal positions": (over(eq(r, At(0)), r), ONE),
    "decided": (add(le(At(0), s), eq(s, s), eq(At(1), At(2))), number(2)),
    "pairs part by part": (eq(Join(HK, (r, j)), Join(HK, (q, At(0)))), mul(eq(r, q), eq(j, At(0)))),
    "images of one bijection": (eq(pi(r), pi(q)), eq(r, q)),
    "positions in blocks": (
        add(eq(Inj(r, BLOCKS, 0), Inj(j, BLOCKS, 1)), eq(Inj(r, BLOCKS, 0), Inj(q, BLOCKS, 0))), eq(r, q)),
    # renumbering
    "renumbered": (over(e("x", pi(r)), r), over(e("x", r), r)),
    "renumbered backwards": (over(mul(e("x", pi(r, True)), e("y", r)), r), over(mul(e("x", r), e("y", pi(r))), r)),
    "renumbered together": (
        over(mul(e("x", pi(r)), e("y", pi(r)), e("z", q)), r, q),
        mul(over(mul(e("x", r), e("y", r)), r), over(e("z", q), q))),
    "renumbered inside": (
        over(mul(e("x", pi(r)), e("y", s, pi(r))), s, r), over(mul(e("x", r), e("y", s, r)), s, r)),
    "renumbered pairs": (
        over(mul(e("x", Join(HK, (pi(r), j))), e("y", pi(r))), r, j),
        over(mul(e("x", Join(HK, (r, j))), e("y", r)), j, r)),
    "renumbered in a row": (
        over(mul(exp(e("x", Perm("rho", False, t))), inv(over(exp(e("x", Perm("rho", False, p))), p)), y), t), y),
    # definitions and constants
    "a definition opened": (e("D", s, r), over(mul(e("x", s, t), exp(e("y", t, r))), t)),
    "a definition that stays shut": (mul(e("D", s, r), x), mul(x, e("D", s, r))),
    "a definition of definitions": (
        e("E", t), over(mul(over(mul(e("x", s, p), exp(e("y", p, r))), p), le(s, t, 1)), r, s)),
    "parts of a pair in a definition": (e("F", Join(HK, (r, j))), mul(e("z", r), e("z", j))),
    "a table": (over(e("q", a, At(1)), a), number(Fraction(3, 2))),
    "a table at any place": (mul(e("q", a, b), x), mul(x, e("q", a, b))),
    "a table of two axes": (
        over(mul(e("q", a, b), e("q", a, b)), a, b), number(sum(value**2 for value in CONTEXT.tables["q"].values()))),
}  # fmt: skip
VARIABLES = (s, u, t, p, r, q, j, c, a, b)


def proof(left: Term, right: Term, context: Context = CTX) -> Certificate | tuple[Term, Term]:
    return prove_goal(Goal("small", VARIABLES, left, right), context)


@pytest.mark.parametrize("name", PROVED)
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_it_is_found(name: str, turned: bool) -> None:
    found = proof(*(PROVED[name][::-1] if turned else PROVED[name]))
    assert isinstance(found, Certificate), found
    assert check(found, CTX) == found.goal
    assert len(found.left) + len(found.right) <= 60


OPEN: dict[str, tuple[Term, Term]] = {
    "parts of another whole": (add(mul(ex, inv(add(ex, ey))), mul(ez, inv(add(ex, ey)))), ONE),
    "parts of a whole that may be 0": (add(mul(x, inv(add(x, y))), mul(y, inv(add(x, y)))), ONE),
    "not all parts of a whole": (add(mul(ex, z, inv(add(ex, ey))), mul(ey, inv(add(ex, ey)))), z),
    "a row that may be empty": (over(mul(e("n", t, s), inv(over(e("n", t, s), s))), s), ONE),
    "an order that does not meet": (mul(le(r, j), le(q, j), le(r, q)), mul(le(r, j), le(q, j))),
    "another bijection": (over(mul(e("x", pi(r)), e("y", r)), r), over(mul(e("x", r), e("y", r)), r)),
    "another position": (over(mul(eq(s, u), xs), s), xs),
}


@pytest.mark.parametrize("name", OPEN)
def test_it_is_given_up(name: str) -> None:
    """With the two normal forms, which differ and are as far as it came."""
    found = proof(*OPEN[name])
    assert isinstance(found, tuple)
    assert not equal(*found)


def test_sums_of_fixed_length_are_written_out_only_where_the_other_side_is() -> None:
    plain = Context()
    found = proof(over(e("x", a), a), add(e("x", At(0)), e("x", At(1))), plain)
    assert isinstance(found, Certificate)
    assert {step.rule for step in found.left} == {"enumerate_sum"}
    shut = proof(over(mul(x, e("x", a)), a), mul(x, over(e("x", a), a)), plain)
    assert isinstance(shut, Certificate)
    assert "enumerate_sum" not in {step.rule for step in (*shut.left, *shut.right)}


def test_what_is_shared_stays_shut() -> None:
    found = proof(add(e("D", s, r), e("F", c)), add(e("F", c), e("D", s, r)))
    assert isinstance(found, Certificate)
    assert (found.left, found.right) == ((), ())


def test_what_only_one_side_has_is_opened_alone() -> None:
    definition = CTX.definitions["D"]
    body = subst(definition.body, {one.name: place for one, place in zip(definition.params, (s, r), strict=True)})
    found = proof(add(e("D", s, r), e("F", c)), add(e("F", c), body))
    assert isinstance(found, Certificate)
    assert [step.rule for step in (*found.left, *found.right)].count("unfold") == 1


def test_only_sums_over_what_is_fixed_elsewhere_are_written_out() -> None:
    """The first entries of x stand on the other side, but the sum runs through those of y."""
    fixed, summed = e("x", At(0)), over(mul(e("x", b), e("y", a)), a)
    assert to_write_out(fixed, summed) == frozenset()
    assert to_write_out(fixed, over(e("x", a), a)) == {domain_key(TWO)}


def test_what_stands_higher_is_opened_first() -> None:
    """One side holds the other's definition: only the upper one need be opened."""
    body = CTX.definitions["E"].body
    found = proof(e("E", t), body)
    assert isinstance(found, Certificate)
    assert [step.rule for step in (*found.left, *found.right)].count("unfold") == 1
    assert heights(CTX) == {"D": 1, "E": 2, "F": 1}


LEMMAS = {
    "left": Goal("left", (s, r), e("D", s, r), mul(e("g", s), e("g", r))),
    "right": Goal("right", (s,), add(e("k", s), ONE), e("l", s)),
    "circle": Goal("circle", (s,), e("o", s), mul(number(2), e("o", s))),
}


def test_lemmas_are_used_towards_what_is_simpler() -> None:
    context = replace(CTX, lemmas=LEMMAS)
    for left, right in (
        (e("D", At(0), pi(r)), mul(e("g", pi(r)), e("g", At(0)))), (e("l", u), add(ONE, e("k", u))),
        (e("o", s), e("o", s)),
    ):  # fmt: skip
        found = proof(left, right, context)
        assert isinstance(found, Certificate)
        assert check(found, context) == found.goal
        assert "unfold" not in {step.rule for step in (*found.left, *found.right)}


def rules_of(found: object) -> list[str]:
    assert isinstance(found, Certificate)
    return [step.rule for step in (*found.left, *found.right)]


def test_what_was_proved_of_a_tensor_is_used_where_it_would_be_opened() -> None:
    """Weights that both sides have were replaced by what they equal, on both sides."""
    context = replace(CTX, lemmas=LEMMAS)
    assert rules_of(proof(add(e("D", s, r), e("F", c)), add(e("F", c), e("D", s, r)), context)) == []
    factors = mul(e("z", Part(c, HK, 0)), e("z", Part(c, HK, 1)))
    assert rules_of(proof(mul(e("D", s, r), e("F", c)), mul(e("D", s, r), factors), context)).count("lemma") == 0


def test_the_shorter_of_two_proofs_is_taken() -> None:
    """The last claim said what the left side is, in other terms than the right side."""
    one = replace(CTX, definitions={
        **CTX.definitions, "P": Definition((s,), mul(e("g", s), e("k", s))), "R": Definition((s,), e("P2", s)),
        "P2": Definition((s,), mul(e("k", s), e("g", s))),
    }, lemmas={"last": Goal("last", (s,), e("P", s), e("R", s))})  # fmt: skip
    assert rules_of(proof(e("P", s), mul(e("g", s), e("k", s)), one)) == ["unfold"]
    assert "lemma" in rules_of(proof(e("P", s), e("R", s), one))


def test_a_sum_that_is_known_is_put_in() -> None:
    rows = Goal("rows", (t,), over(e("A", t, s), s), ONE)
    softmax = Definition((t, s), mul(row, inv(over(row, s))))
    context = replace(CTX, definitions={**CTX.definitions, "A": softmax}, lemmas={"rows": rows})
    for left, right in (
        (over(mul(e("A", p, u), add(e("y", u), x)), u), add(over(mul(e("A", p, u), e("y", u)), u), x)),
        (over(mul(x, e("A", p, s), e("y", t)), s, t), mul(x, over(e("y", t), t))),
    ):
        found = rules_of(proof(left, right, context))
        assert "lemma" in found and "unfold" not in found
    false = proof(over(mul(e("A", u, s), e("g", u)), u), e("g", s), replace(context, definitions=CTX.definitions))
    assert not isinstance(false, Certificate)  # the other sum is not known


def test_an_exponential_cancels_against_the_same_below() -> None:
    """It was put over as its inverse, the exponents were added up, and the exponential of 0 was 1."""
    shifted = exp(add(e("x", t, u), e("g", t)))
    softmax = mul(shifted, inv(over(exp(add(e("x", t, s), e("g", t))), s)))
    found = rules_of(proof(softmax, mul(exp(e("x", t, u)), inv(over(row, s)))))
    assert found.count("cancel") == 1 and "inverse_of_exp" not in found
    once = mul(ex, ey, inv(mul(ey, ez)))
    assert rules_of(proof(once, exp(add(x, minus(z))))).count("cancel") == 1
    assert rules_of(proof(mul(ex, ey, inv(mul(ey, ey, ez))), exp(add(x, minus(y), minus(z)))))  # more below than above


def test_where_a_bracket_is_1_nothing_is_multiplied_out() -> None:
    p1 = le(s, t)
    found = proof(mul(p1, exp(add(x, mul(y, add(ONE, minus(p1)))))), mul(p1, exp(x)))
    assert set(rules_of(found)) == {"guard", "arithmetic"}


def test_an_entry_at_bare_variables_is_replaced_rather_than_another() -> None:
    bare, moved = e("u", r), e("v", pi(r))
    assert _direction(bare, moved) == (False, bare)
    assert _direction(moved, bare) == (True, bare)
    assert _direction(bare, e("v", s)) == (False, bare)


def test_a_search_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_sym.proof.rewrite.MOST_STEPS", 3)
    with pytest.raises(TooLong, match="no proof within 3 steps"):
        proof(*PROVED["a definition of definitions"])
    assert MOST_STEPS > 5000


def test_patterns() -> None:
    pattern = e("x", s, Join(HK, (r, At(1))), pi(r))
    assert match_entry(pattern, e("x", u, Join(HK, (q, At(1))), pi(q)), (s, r)) == (u, q)
    for other in (
        e("y", u, Join(HK, (q, At(1))), pi(q)), e("x", u, Join(HK, (q, At(2))), pi(q)), e("x", u, Join(HK, (q, At(1)))),
        e("x", u, Join(HK, (q, At(1))), pi(r)), e("x", u, q, pi(q)), e("x", u, Join(HK, (q, At(1))), q),
    ):  # fmt: skip
        assert match_entry(pattern, other, (s, r)) is None
    assert match_entry(pattern, e("x", u, Join(HK, (q, At(1))), pi(q)), (s, r, t)) is None
    assert match_entry(mul(x), e("x"), ()) is None
    assert match_entry(e("x", Perm("rho", False, t)), e("x", Perm("rho", False, At(3))), (t,)) == (At(3),)


def test_small_questions() -> None:
    assert mentions(over(mul(x, exp(e("y", s))), s), "y") and not mentions(x, "y")
    assert equal(without_number(over(mul(number(2), xs, y), s)), over(mul(xs, y), s))
    assert equal(without_number(mul(number(2), xs)), xs)
    assert without_number(number(7)) == Mul(())


def test_definitions_on_definitions_have_heights() -> None:
    chain = {f"d{n}": Definition((), Entry(f"d{n - 1}", ()) if n else ONE) for n in range(4)}
    assert heights(Context(definitions=chain)) == {f"d{n}": n + 1 for n in range(4)}


def test_a_product_axis_is_split_in_every_sum() -> None:
    six = Var("i", SIX)
    found = proof(over(e("x", six), six), over(e("x", Join(SIX, (a, b))), b, a), Context())
    assert isinstance(found, Certificate)
    assert "split_sum" in {step.rule for step in found.left}
