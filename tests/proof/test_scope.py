"""Which terms, positions and sizes say something: each condition met and broken."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_sym.proof.rules import Context
from mha_sym.proof.scope import (
    check_domain,
    check_position,
    check_term,
    expanded,
    scope_of,
)
from mha_sym.proof.terms import (
    ONE,
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Term,
    TermError,
    Var,
    domain_key,
    sum_over,
)
from tests.proof.engine import World, place, value
from tests.proof.random_terms import (
    BLOCKS,
    CONTEXT,
    HK,
    KH,
    SIX,
    SIZES,
    STATED,
    THREE,
    TWO,
    H,
    K,
    S,
    T,
    indices,
    number,
)

HALF = Fraction(1, 2)
h, d, t_ = Size("h"), Size("d"), Size("T")
SCOPE = scope_of(tuple(Var(n, one) for n, one in STATED.items()))
r, j, c = Var("r", H), Var("j", K), Var("c", HK)


def refused(do: Any, *args: Any) -> str:
    with pytest.raises(TermError) as refusal:
        do(*args)
    return str(refusal.value)


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Mul((h, d)), Mul((d, h))), (Add((h, h)), Mul((number(2), h))), (Mul((h, h)), Size("h", Fraction(2))),
        (Mul((Add((h, d)), t_)), Add((Mul((t_, h)), Mul((d, t_))))), (Mul((number(2), number(3))), number(6)),
        (Add((h, number(1), number(1))), Add((number(2), h))),
        (Mul((h, Size("h", Fraction(3)))), Size("h", Fraction(4))),
    ],
)  # fmt: skip
def test_equal_sizes(left: Term, right: Term) -> None:
    assert expanded(left) == expanded(right)
    check_position(Var("i", Domain("a", left)), Domain("b", right), {}, None)


DIFFERENT: list[Term] = [
    h, d, Mul((h, d)), Mul((h, h)), Size("h", Fraction(3)), Add((h, d)), Mul((number(2), h)), number(1), number(2),
    Add((h, number(1))), Mul((h, d, t_)), Add((Mul((h, d)), h)),
]  # fmt: skip


def test_different_sizes() -> None:
    assert len({expanded(one) for one in DIFFERENT}) == len(DIFFERENT)
    for one, other in permutations(DIFFERENT, 2):
        index = Var("i", Domain("a", one))
        assert refused(check_position, index, Domain("b", other), {}, None) == "a position outside its axis"


small = st.sampled_from([h, d, number(1), number(2), number(3)])
polynomials = st.recursive(small, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple).flatmap(
    lambda args: st.sampled_from([Add(args), Mul(args)])
), max_leaves=6)  # fmt: skip


@given(polynomials, polynomials)
def test_sizes_agree_where_their_numbers_do(left: Term, right: Term) -> None:
    """At ten pairs of large sizes, where two different polynomials of this degree cannot meet everywhere."""
    worlds = [World({"h": 1000 + 7 * n, "d": 10**6 + 11 * n * n}) for n in range(10)]
    same = all(value(left, world, {}) == value(right, world, {}) for world in worlds)
    assert (expanded(left) == expanded(right)) is same


@pytest.mark.parametrize(
    "size",
    [
        Size("h", Fraction(0)), Size("h", HALF), Size("h", Fraction(-1)), Apply("inv", h), Entry("x", ()), Add(()),
        number(0), number(-1), number(HALF), Mul((number(HALF), h)), Add((h, number(-1))), Add((h, Mul((number(-1),
        d)))), Size("4", HALF), Add((h, Mul((number(-1), h)))), Add((h, Mul((number(HALF), d)))), Cmp("le", At(0),
        At(1)),
    ],
    ids=repr,
)  # fmt: skip
def test_no_axis_has_such_a_size(size: Term) -> None:
    assert refused(check_domain, Domain("a", size)) in ("not the size of an axis", "a size that is no positive integer")


def test_axes_inside_axes() -> None:
    nested = Domain("n", Mul((h, d, t_)), (HK, T)), Domain("n", Add((Mul((h, d)), t_)), (), (HK, T))
    for good in (HK, KH, SIX, BLOCKS, *nested):
        check_domain(good)
    for bad in (
        Domain("n", h, (H, K)), Domain("n", Add((h, d)), (H, K)), Domain("n", Mul((h, d)), (), (H, K)),
        Domain("n", number(5), (TWO, THREE)), Domain("n", number(6), (), (TWO, THREE)),
        Domain("n", Mul((h, d)), (H, Domain("k", Size("d"), (TWO, THREE)))),
    ):  # fmt: skip
        assert refused(check_domain, bad) == "the axes inside have another size"
    both = Domain("n", number(4), (TWO, TWO), (TWO, TWO))  # 2 x 2 and 2 + 2
    assert refused(check_domain, both) == "a product and a concatenation at once"


# ---------------------------------------------------------------- positions

GOOD: list[tuple[Index, Domain]] = [
    (r, H), (At(0), H), (At(7), H), (At(1), TWO), (Join(HK, (r, j)), HK), (Part(c, HK, 1), K),
    (Inj(r, BLOCKS, 0), BLOCKS),
    (Inj(j, BLOCKS, 1), BLOCKS), (Perm("pi", True, r), H), (Perm("sigma", False, Join(HK, (r, j))), HK),
    (Part(Join(HK, (r, j)), KH, 0), K), (Part(Join(HK, (r, j)), KH, 1), H), (Join(HK, (At(2), j)), HK),
    (c, Domain("plain", Mul((h, d)))), (Part(Var("c", HK), HK, 0), H),
]  # fmt: skip
WRONG = Domain("c", h, (H, K))  # which has the key of HK
BAD: list[tuple[Index, Domain, str]] = [
    (r, K, "a position outside its axis"),
    (Var("q", H), H, "a variable that is not in scope"),
    (Var("r", Domain("h", h, ())), Domain("h", Size("d")), "a position outside its axis"),
    (Var("s", H), H, "a variable that is not in scope"),
    (At(-1), H, "a position outside its axis"),
    (At(2), TWO, "a position outside its axis"),
    (Join(HK, (j, r)), HK, "a position outside its axis"),
    (Join(HK, (r,)), HK, "not one position a factor"),
    (Join(HK, (r, j, j)), HK, "not one position a factor"),
    (Join(H, (r,)), H, "not a product axis"),
    (Join(H, ()), H, "not a product axis"),
    (Join(SIX, (At(0), At(3))), SIX, "a position outside its axis"),
    (Part(c, HK, 2), H, "no such factor"),
    (Part(c, HK, -1), K, "no such factor"),
    (Part(r, HK, 0), H, "a position outside its axis"),
    (Inj(r, BLOCKS, 1), BLOCKS, "a position outside its axis"),
    (Inj(r, BLOCKS, 2), BLOCKS, "no such block"),
    (Inj(r, BLOCKS, -1), BLOCKS, "no such block"),
    (Inj(r, H, 0), H, "no such block"),
    (Perm("tau", True, r), H, "no such bijection"),
    (Perm("pi", 2, r), H, "no such bijection"),  # type: ignore[arg-type]
    (Perm("rho", True, r), H, "a position outside its axis"),
    (Part(Join(HK, (r, j)), KH, 2), H, "no such factor"),
    (Part(Join(HK, (r, j)), Domain("c", Mul((d, t_)), (K, T)), 0), K, "a position outside its axis"),
    (Part(Join(HK, (j, r)), KH, 0), K, "a position outside its axis"),
    (Part(Join(HK, (r,)), KH, 0), K, "not one position a factor"),
    (Part(Var("c", WRONG), WRONG, 0), H, "the axes inside have another size"),
    (Part(r, WRONG, 0), H, "the axes inside have another size"),
    ("r", H, "not a position"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("index", "axis"), GOOD, ids=repr)
def test_positions_in_their_axes(index: Index, axis: Domain) -> None:
    check_position(index, axis, CONTEXT.bijections, SCOPE)


@pytest.mark.parametrize(("index", "axis", "reason"), BAD, ids=repr)
def test_positions_outside_their_axes(index: Index, axis: Domain, reason: str) -> None:
    assert refused(check_position, index, axis, CONTEXT.bijections, SCOPE) == reason


@given(st.data(), st.sampled_from([H, K, T, S, HK, KH, SIX, BLOCKS, TWO]), st.sampled_from(SIZES))
def test_what_passes_lies_inside(data: st.DataObject, domain: Domain, sizes: dict[str, int]) -> None:
    """By loops over all places of the variables, at unequal sizes."""
    index = data.draw(indices(STATED, data.draw(st.sampled_from([domain, H, HK, S]))))
    world = World(sizes, CONTEXT)
    try:
        check_position(index, domain, CONTEXT.bijections, SCOPE)
    except TermError:
        assert not isinstance(index, At)
        return
    for n in range(12):
        env = {name: (5 * n + 3) % world.size(one) for name, one in STATED.items()}
        assert 0 <= place(index, world, env) < world.size(domain)


def test_a_lemma_wants_positions_that_certainly_exist() -> None:
    """Stated, position 2 of h is taken to exist; a lemma about all of h is not used there."""
    check_term(Entry("x", (At(2), Join(HK, (At(2), j)))), SCOPE, CONTEXT.bijections, {})
    later, first = Perm("pi", False, At(1)), Perm("pi", False, At(0))
    doubtful = [(At(2), H), (Join(HK, (At(2), j)), HK), (later, H), (Inj(At(1), BLOCKS, 0), BLOCKS), (At(2), TWO)]
    certain = [(At(0), H), (Join(HK, (At(0), j)), HK), (At(1), TWO), (first, H), (r, H)]
    for index, axis in doubtful:
        assert refused(check_position, index, axis, CONTEXT.bijections, None) == "a position outside its axis"
    for index, axis in (*certain, (c, Domain("plain", Mul((d, h))))):
        check_position(index, axis, CONTEXT.bijections, None)
    assert refused(check_position, first, H, Context().bijections, None) == "no such bijection"


# ---------------------------------------------------------------- terms


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (Num(0.5), "a number that is not exact"), (Num(True), "a number that is not exact"),  # type: ignore[arg-type]
        (Size("h", 0.5), "a number that is not exact"), (Size("0"), "a size of zero"),  # type: ignore[arg-type]
        (Size("00"), "a size of zero"), (Cmp("lt", r, r), "no such bracket"),
        (Cmp("le", r, r, 0.5), "no such bracket"),  # type: ignore[arg-type]
        (Bind("prod", r, ONE), "no such binder"), (Entry("x", (At(-3),)), "a position outside its axis"),
        (Entry("later", ()), "a definition that rests on itself, or has other positions"),
        (Entry("pair", (r,)), "a definition that rests on itself, or has other positions"),
        (Entry("pair", (r, r, r)), "a definition that rests on itself, or has other positions"),
        (Cmp("le", r, Var("q", H)), "a variable that is not in scope"),
        (sum_over(Var("s", H), Entry("x", (Var("s", S),))), "a variable that is not in scope"),
        (Add((ONE, Apply("exp", Mul((Num(0.5),))))), "a number that is not exact"),  # type: ignore[arg-type]
    ],
    ids=lambda one: repr(one)[:50],
)  # fmt: skip
def test_terms_that_say_nothing(term: Term, reason: str) -> None:
    assert refused(check_term, term, SCOPE, CONTEXT.bijections, {"later": -1, "pair": 2}) == reason


def test_terms_that_say_something() -> None:
    sizes = (Size("5", HALF), Size("h", Fraction(-1, 2)), number(HALF))
    for term in (*sizes, Entry("x", ()), Entry("pair", (r, c)), Cmp("le", r, c, -3), Bind("max", r, ONE)):
        check_term(term, SCOPE, CONTEXT.bijections, {"later": -1, "pair": 2})


def test_scopes() -> None:
    assert refused(scope_of, (r, Var("r", K))) == "a variable is stated twice"
    assert refused(scope_of, (Var("n", Domain("n", number(0))),)) == "a size that is no positive integer"
    assert scope_of((r, j)) == {"r": domain_key(H), "j": domain_key(K)}
