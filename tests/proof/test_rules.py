"""Evidence for every rule: where it applies, where it must refuse, and that both sides have the same value.

A rule that has no row in `EVIDENCE`, and a side condition that no refusal runs into, fails a test.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mha_sym.proof import rules
from mha_sym.proof.rules import RULES, Goal, is_positive
from mha_sym.proof.scope import check_term, scope_of
from mha_sym.proof.terms import (
    ONE,
    ZERO,
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
    Part,
    Perm,
    Size,
    Term,
    TermError,
    Var,
    at_path,
    children,
    equal,
    free,
    key,
    put_path,
    subst,
    sum_over,
)
from tests.proof.engine import Number, Unclear, World, agree, value
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
    brackets,
    entries,
    indices,
    number,
    numbers,
    sizes,
    sums,
    terms,
    variables,
)

s, t, r, j, c, a = (Var(n, STATED[n]) for n in ("s", "t", "r", "j", "c", "a"))
x, y, z, g = Entry("x", (s, t)), Entry("y", (t, r)), Entry("z", (r,)), Entry("g", ())
m = Entry("m", (s, t))
BLOCK = Entry("v", (Inj(j, BLOCKS, 1),))

LEMMAS = {
    "twice": Goal("twice", (s, t), Add((x, x)), Mul((number(2), x))),
    # the right side binds names that the positions may have
    "moved": Goal(
        "moved", (s, r), Mul((z, sum_over(t, x))),
        sum_over(Var("c", T), Mul((Entry("x", (s, Var("c", T))), Entry("z", (r,)))))
    ),
    "constant": Goal("constant", (c,), ZERO, Add((Entry("w", (c,)), Mul((number(-1), Entry("w", (c,))))))),
    "block": Goal("block", (j,), Mul((number(2), BLOCK)), Add((BLOCK, BLOCK))),
}
POSITIVE = (((s,), sum_over(t, m)), ((), g), ((r,), Entry("z", (r,))), ((a, t), Entry("y", (t, At(0)))))
FULL = replace(CONTEXT, lemmas=LEMMAS, positive=POSITIVE)


def allowed(world: World) -> bool:
    """Whether what is assumed positive is."""
    for stated, term in POSITIVE:
        places: list[dict[str, int]] = [{}]
        for v in stated:
            places = [{**env, v.name: n} for env in places for n in range(world.size(v.domain))]
        if any(value(term, world, env) <= 0 for env in places):
            return False
    return True


def draw_world(numbers_: dict[str, int]) -> World:
    """A world in which the assumptions hold: positive entries where they ask for them."""
    for seed in range(10**6):
        world = World(numbers_, FULL, seed)
        for stated, term in POSITIVE[1:]:
            for n in range(world.size(stated[0].domain) if stated else 1):
                at = {(): (), ("r",): (n,), ("a", "t"): (n, 0)}[tuple(v.name for v in stated)]
                assert isinstance(term, Entry)
                world.drawn[term.name, at] = abs(world.entry(term.name, at)) or Fraction(1)
        for n in range(world.size(T)):
            world.drawn["y", (n, 0)] = abs(world.entry("y", (n, 0))) or Fraction(1)
        if allowed(world):
            return world
    raise AssertionError


WORLDS = [draw_world(one) for one in SIZES]


def places(world: World, seed: int) -> dict[str, int]:
    return {name: (7 * seed + 3 * n) % world.size(d) for n, (name, d) in enumerate({**STATED, "i": S}.items())}


def same_value(left: Term, right: Term, seed: int = 1) -> None:
    """Both sides have one value at unequal small sizes; draws of which nothing can be said do not count."""
    for world in WORLDS:
        env = places(world, seed)
        try:
            values: list[Number] = [value(one, world, env) for one in (left, right)]
            assert agree(*values), f"{values[0]} and {values[1]} at {world.sizes}, {env}"
        except Unclear:
            assume(False)


# ---------------------------------------------------------------- random matches, a strategy a rule

Match = tuple[Term, dict[str, Any]]
some = terms(STATED, 2)
small = terms(STATED, 1)


def without(name: str) -> dict[str, Domain]:
    return {n: d for n, d in STATED.items() if n != name}


@st.composite
def among(draw: st.DrawFn, *named: Term) -> tuple[tuple[Term, ...], tuple[int, ...]]:
    """Some terms in a list with others, and where they are."""
    row: list[Term] = list(draw(st.lists(small, max_size=2)))
    marked: list[tuple[Term, int | None]] = [(one, None) for one in row]
    for n, one in enumerate(named):
        marked.insert(draw(st.integers(0, len(marked))), (one, n))
    where = {n: place for place, (_, n) in enumerate(marked) if n is not None}
    return tuple(one for one, _ in marked), tuple(where[n] for n in range(len(named)))


@st.composite
def a_table_entry(draw: st.DrawFn) -> Match:
    return Entry("q", (At(draw(st.integers(0, 1))), At(draw(st.integers(0, 2))))), {}


@st.composite
def a_lemma(draw: st.DrawFn) -> Match:
    name, back = draw(st.sampled_from(sorted(LEMMAS))), draw(st.booleans())
    lemma = LEMMAS[name]
    at = tuple(draw(indices(STATED, v.domain)) for v in lemma.variables)
    new = dict(zip((v.name for v in lemma.variables), at, strict=True))
    return subst(lemma.right if back else lemma.left, new), {"name": name, "at": at, "back": back}


@st.composite
def some_arithmetic(draw: st.DrawFn) -> Match:
    plain = st.one_of(numbers, sizes, entries(STATED), small)
    nested = st.one_of(plain, st.lists(plain, max_size=3).map(lambda r: Mul(tuple(r))))
    row = tuple(draw(st.lists(nested, max_size=4)))
    inverse = st.one_of(numbers, sizes, small.map(lambda one: Apply("inv", one))).map(lambda one: Apply("inv", one))
    return draw(st.one_of(st.sampled_from([Add(row), Mul(row), Apply("exp", ZERO)]), inverse)), {}


@st.composite
def a_product_with(draw: st.DrawFn, inner: st.SearchStrategy[Term]) -> Match:
    row, (position,) = draw(among(draw(inner)))
    return Mul(row), {"position": position}


@st.composite
def common_factors(draw: st.DrawFn) -> Match:
    shared = tuple(draw(st.lists(small, max_size=2)))
    rows = [draw(among(*shared)) for _ in range(draw(st.integers(1, 3)))]
    return Add(tuple(Mul(row) for row, _ in rows)), {"positions": tuple(where for _, where in rows)}


@st.composite
def like_terms(draw: st.DrawFn) -> Match:
    one = draw(small)
    row, (first, second) = draw(among(*(draw(st.sampled_from([Mul((draw(numbers), one)), one])) for _ in range(2))))
    return Add(row), {"first": first, "second": second}


@st.composite
def a_factored_sum(draw: st.DrawFn) -> Match:
    var = draw(variables())
    out = tuple(draw(terms(without(var.name), 1)) for _ in range(draw(st.integers(0, 2))))
    rest = draw(st.lists(terms({**STATED, var.name: var.domain}, 1), max_size=2))
    row: list[tuple[Term, int | None]] = [(one, None) for one in rest]
    for n, one in enumerate(out):
        row.insert(draw(st.integers(0, len(row))), (one, n))
    positions = tuple(place for place, (_, n) in enumerate(row) if n is not None)
    return sum_over(var, Mul(tuple(one for one, _ in row))), {"positions": positions}


@st.composite
def nested_sums(draw: st.DrawFn) -> Match:
    outer = draw(variables((S, T, H, K, TWO)))
    return sum_over(outer, draw(sums({**STATED, outer.name: outer.domain}, 2, domains=(S, T, H, K, THREE)))), {}


@st.composite
def a_sum_of(draw: st.DrawFn, inner: Callable[[dict[str, Domain]], st.SearchStrategy[Term]], *over: Domain) -> Match:
    var = draw(variables(over or (S, T, H, K, HK, TWO, BLOCKS)))
    return sum_over(var, draw(inner({**STATED, var.name: var.domain}))), {}


@st.composite
def a_constant_sum(draw: st.DrawFn) -> Match:
    var = draw(variables())
    return sum_over(var, draw(terms(without(var.name), 2))), {}


@st.composite
def a_delta(draw: st.DrawFn) -> Match:
    var = draw(variables((S, T, H, K, HK, KH, TWO, SIX, BLOCKS)))
    there = draw(indices(without(var.name), var.domain))
    bracket = draw(st.sampled_from([Cmp("eq", var, there), Cmp("eq", there, var)]))
    rest = draw(st.lists(terms({**STATED, var.name: var.domain}, 2), max_size=2))
    position = draw(st.integers(0, len(rest)))
    row = [*rest[:position], bracket, *rest[position:]]
    body = row[0] if len(row) == 1 and draw(st.booleans()) else Mul(tuple(row))
    return sum_over(var, body), {"position": position}


@st.composite
def a_renumbering(draw: st.DrawFn) -> Match:
    name = draw(st.sampled_from(["pi", "rho", "sigma"]))
    var = draw(variables((CONTEXT.bijections[name],)))
    body = draw(terms({**STATED, var.name: var.domain}, 2))
    return sum_over(var, body), {"name": name, "inverse": draw(st.booleans())}


@st.composite
def two_exponentials(draw: st.DrawFn) -> Match:
    row, (first, second) = draw(among(*(Apply("exp", draw(terms(STATED, 1, 0))) for _ in range(2))))
    return Mul(row), {"first": first, "second": second}


@st.composite
def positives(draw: st.DrawFn, scope: dict[str, Domain], depth: int = 2) -> Term:
    """Terms that are positive in the worlds, and that the rule should see to be."""
    known = Entry("z", (draw(indices(scope, H)),))
    kinds: list[Term] = [number(2), number(Fraction(1, 3)), Size("T", Fraction(-1, 2)), g, known]
    if depth == 0:
        return draw(st.sampled_from(kinds))
    inner = positives(scope, depth - 1)
    var = draw(variables((S, T, H, TWO)))
    below = {**scope, var.name: var.domain}
    match draw(st.sampled_from(["exp", "inv", "add", "mul", "sum", "kept", "first"])):
        case "exp":
            return Apply("exp", draw(terms(scope, 1, 0)))
        case "inv":
            return Apply("inv", draw(inner))
        case "add":
            return Add(tuple(draw(st.lists(inner, min_size=1, max_size=3))))
        case "mul":
            return Mul(tuple(draw(st.lists(inner, min_size=1, max_size=3))))
        case "sum":
            return sum_over(var, draw(positives(below, depth - 1)))
        case "kept":
            row = draw(indices({n: d for n, d in scope.items() if n != "t1"}, S))
            kept = Entry("m", (row, Var("t1", T)))
            return sum_over(Var("t1", T), Mul((draw(positives({**scope, "t1": T}, depth - 1)), kept)))
    first = draw(st.sampled_from([Cmp("le", var, draw(indices(without(var.name), S))), Cmp("eq", var, At(0))]))
    return sum_over(var, Mul((first, draw(positives(below, depth - 1)))))


@st.composite
def a_cancelling(draw: st.DrawFn) -> Match:
    one = draw(positives(STATED))
    row, (first, second) = draw(among(one, Apply("inv", one)))
    return Mul(row), {"value": first, "inverse": second, "given": assumptions(one)}


def assumptions(term: Term) -> tuple[tuple[int, tuple[Index, ...]], ...]:
    """The assumptions about what occurs in a term, at its positions."""
    found: list[tuple[int, tuple[Index, ...]]] = []
    match term:
        case Entry("g"):
            found.append((1, ()))
        case Entry("z", at):
            found.append((2, at))
        case Entry("m", (row, _)):
            found.append((0, (row,)))
    for child in children(term):
        found += assumptions(child)
    return tuple(found)


booleans = st.one_of(brackets(STATED), entries(STATED, ("m",)))


@st.composite
def a_guarded(draw: st.DrawFn, plant: bool) -> Match:
    """A product of a bracket and others, and a place inside one of the others where the bracket is in scope."""
    one, other = draw(booleans), draw(some)
    spots: list[tuple[int, ...]] = []

    def visit(node: Term, path: tuple[int, ...]) -> None:
        spots.append(path)
        if not (isinstance(node, Bind) and node.var.name in free(one)):
            for n, child in enumerate(children(node)):
                visit(child, (*path, n))

    visit(other, ())
    path = draw(st.sampled_from(spots))
    row, (bracket, place) = draw(among(one, put_path(other, path, one) if plant else other))
    return Mul(row), {"brackets": (bracket,), "where": (place, *path)}


@st.composite
def an_ordering(draw: st.DrawFn) -> Match:
    first, second, third = (draw(indices(STATED, draw(st.sampled_from([S, T, H, HK])))) for _ in range(3))
    low, high = draw(st.integers(-1, 2)), draw(st.integers(-1, 2))
    named: list[Term] = [Cmp("le", first, second, low), Cmp("le", second, third, high)]
    implied = Cmp("le", first, third, low + high)
    row, (one, other, last) = draw(among(*named, draw(st.sampled_from([implied, Apply("exp", implied)]))))
    where = (last,) if row[last] == implied else (last, 0)
    return Mul(row), {"brackets": (one, other), "where": where}


@st.composite
def a_decided_bracket(draw: st.DrawFn) -> Match:
    domain = draw(st.sampled_from([S, H, HK, SIX, BLOCKS, TWO]))
    one, other = draw(indices(STATED, domain)), draw(indices(STATED, domain))
    kinds: list[Term] = [
        Cmp("le", one, one, draw(st.integers(0, 2))), Cmp("eq", one, one), Cmp("le", At(0), one),
        Cmp("eq", Join(HK, (r, j)), Join(HK, (draw(indices(STATED, H)), draw(indices(STATED, K))))),
        Cmp("eq", Inj(draw(indices(STATED, H)), BLOCKS, 0), Inj(r, BLOCKS, 0)),
        Cmp("eq", Inj(draw(indices(STATED, K)), BLOCKS, 1), Inj(r, BLOCKS, 0)),
        Cmp("eq", Perm("pi", True, draw(indices(STATED, H))), Perm("pi", True, r)),
        Cmp(draw(st.sampled_from(["le", "eq"])), At(draw(st.integers(0, 3))), At(draw(st.integers(0, 3))),
            draw(st.integers(-1, 1))),
        Cmp("le", At(draw(st.integers(0, 2))), other, draw(st.integers(0, 2))),
    ]  # fmt: skip
    return draw(st.sampled_from(kinds)), {}


# ---------------------------------------------------------------- the evidence


@dataclass(frozen=True)
class Evidence:
    """One place where a rule applies and what it makes of it, refusals by the reason given, and random matches."""

    match: tuple[Term, dict[str, Any], Term]
    refuse: tuple[tuple[str, Term, dict[str, Any]], ...]
    random: st.SearchStrategy[Match]


i, q, s1 = Var("i", S), Var("q", S), Var("s1", S)
xi, xq = Entry("x", (i, t)), Entry("x", (q, t))
late, early = Cmp("le", s, t), Cmp("le", t, r)
later, zs = Entry("x", (At(2), t)), Entry("z", (s,))

EVIDENCE: dict[str, Evidence] = {
    "unfold": Evidence(
        (Entry("F", (Join(HK, (r, j)),)), {}, Mul((z, Entry("z", (j,))))),
        (
            ("not an entry of a defined tensor", x, {}),
            ("not an entry of a defined tensor", sum_over(t, x), {}),
            ("wrong number of positions", Entry("F", ()), {}),
            ("a position outside its axis", Entry("F", (s,)), {}),
            ("a position outside its axis", Entry("F", (At(1),)), {}),
            ("a position outside its axis", Entry("F", (Join(HK, (At(1), j)),)), {}),
            ("a position outside its axis", Entry("F", (Join(HK, (j, r)),)), {}),
        ),
        entries(STATED, ("D", "E", "F")).map(lambda one: (one, {})),
    ),
    "table": Evidence(
        (Entry("q", (At(1), At(2))), {}, number(Fraction(3, 2))),
        (
            ("not an entry of a constant table", x, {}),
            ("not at a fixed place", Entry("q", (At(1), At(3))), {}),
            ("not at a fixed place", Entry("q", (a, At(1))), {}),
            ("not at a fixed place", Entry("q", (At(1),)), {}),
            ("not at a fixed place", Entry("q", (Perm("pi", False, At(1)), At(1))), {}),
        ),
        a_table_entry(),
    ),
    "lemma": Evidence(
        (Add((xi, xi)), {"name": "twice", "at": (i, t)}, Mul((number(2), xi))),
        (
            ("no such lemma", x, {"name": "no such", "at": ()}),
            ("wrong number of positions", Add((x, x)), {"name": "twice", "at": (s,)}),
            ("a position outside its axis", Add((x, x)), {"name": "twice", "at": (s, s)}),
            ("a position outside its axis", Add((later, later)), {"name": "twice", "at": (At(2), t)}),
            ("a position outside its axis", Add((x, x)), {"name": "twice", "at": (Inj(s, BLOCKS, 0), t)}),
            ("the lemma says something else", Add((x, xi)), {"name": "twice", "at": (s, t)}),
            ("the lemma says something else", Add((x, x)), {"name": "twice", "at": (i, t)}),
            ("the lemma says something else", Add((x, x)), {"name": "twice", "at": (s, t), "back": True}),
        ),
        a_lemma(),
    ),
    "arithmetic": Evidence(
        (
            Mul((number(2), Size("T"), Mul((x, number(Fraction(3, 4)))), Size("5", Fraction(3, 2)), Size("T"))), {},
            Mul((number(Fraction(15, 2)), Size("5", Fraction(1, 2)), Size("T", Fraction(2)), x)),
        ),
        (
            ("no arithmetic to do", x, {}),
            ("no arithmetic to do", Apply("exp", ONE), {}),
            ("no arithmetic to do", Apply("fn:f", ZERO), {}),
            ("no arithmetic to do", Apply("inv", Apply("exp", x)), {}),
            ("no arithmetic to do", Apply("inv", Add((ONE, ONE))), {}),
            ("no arithmetic to do", sum_over(s, ZERO), {}),
        ),
        some_arithmetic(),
    ),
    "distribute": Evidence(
        (Mul((x, Add((y, z)), g)), {"position": 1}, Add((Mul((x, y, g)), Mul((x, z, g))))),
        (
            ("not a sum over an index", Add((x, y)), {"position": 0}),
            ("no child 2", Mul((x, Add((y, z)))), {"position": 2}),
            ("no child -1", Mul((x, Add((y, z)))), {"position": -1}),
            ("not a sum over an index", Mul((x, Add((y, z)))), {"position": 0}),
            ("not a sum over an index", Mul((x, Bind("max", s, y))), {"position": 1}),
            ("not a sum over an index", Bind("max", s, Add((x, y))), {"position": 0}),
            ("no child 1", sum_over(s, Add((x, y))), {"position": 1}),
        ),
        a_product_with(st.lists(small, max_size=3).map(lambda row: Add(tuple(row)))),
    ),
    "take_out": Evidence(
        (Add((Mul((x, y)), Mul((z, x)), x)), {"positions": ((0,), (1,), (0,))}, Mul((x, Add((y, z, ONE))))),
        (
            ("one choice of factors an addend", Mul((x, y)), {"positions": ((0,), (0,))}),
            ("one choice of factors an addend", Add((x, y)), {"positions": ((0,),)}),
            ("the factors differ", Add((Mul((x, y)), Mul((y, x)))), {"positions": ((0,), (0,))}),
            ("the factors differ", Add((Mul((x, y)), Mul((y, x)))), {"positions": ((0, 1), (1,))}),
            ("a position is named twice", Add((Mul((x, x)), Mul((x, x)))), {"positions": ((0, 0), (0, 1))}),
            ("no such argument", Add((x, x)), {"positions": ((0,), (1,))}),
        ),
        common_factors(),
    ),
    "collect": Evidence(
        (
            Add((Mul((number(2), x)), y, Mul((x, number(3))))), {"first": 0, "second": 2},
            Add((y, Mul((number(5), x)))),
        ),
        (
            ("no such argument", Mul((x, x)), {"first": 0, "second": 1}),
            ("not like terms", Add((x, y)), {"first": 0, "second": 1}),
            ("not like terms", Add((Mul((x, x)), x)), {"first": 0, "second": 1}),
            ("a position is named twice", Add((x, y)), {"first": 0, "second": 0}),
            ("no such argument", Add((x, x)), {"first": 0, "second": 2}),
            ("no such argument", Add((x, x)), {"first": 0, "second": -1}),
        ),
        like_terms(),
    ),
    "pull": Evidence(
        (Mul((x, sum_over(s, x), y)), {"position": 1}, sum_over(i, Mul((x, xi, y)))),
        (
            ("not a sum over an index", sum_over(s, x), {"position": 0}),
            ("not a sum over an index", Mul((x, y)), {"position": 0}),
            ("not a sum over an index", Mul((x, Bind("max", s, x))), {"position": 1}),
            ("no child 2", Mul((x, sum_over(s, x))), {"position": 2}),
        ),
        a_product_with(sums(STATED, 2)),
    ),
    "factor": Evidence(
        (sum_over(i, Mul((x, xi, y))), {"positions": (0, 2)}, Mul((x, y, sum_over(i, xi)))),
        (
            ("not a sum over an index", Bind("max", i, Mul((x, xi))), {"positions": (0,)}),
            ("a factor depends on the summed index", sum_over(i, xi), {"positions": (0,)}),
            ("a factor depends on the summed index", sum_over(i, Mul((x, xi))), {"positions": (0, 1)}),
            ("a position is named twice", sum_over(i, Mul((x, xi))), {"positions": (0, 0)}),
            ("no such argument", sum_over(i, Mul((x, xi))), {"positions": (2,)}),
            ("no such argument", sum_over(i, Mul((x, xi))), {"positions": (-2,)}),
        ),
        a_factored_sum(),
    ),
    "exchange": Evidence(
        (sum_over(s, sum_over(t, Mul((x, y)))), {}, sum_over(t, sum_over(s, Mul((x, y))))),
        (
            ("not a sum over an index", sum_over(s, x), {}),
            ("not a sum over an index", Bind("max", s, sum_over(t, x)), {}),
            ("not a sum over an index", sum_over(s, Bind("max", t, x)), {}),
            ("not a sum over an index", sum_over(s, Mul((sum_over(t, x),))), {}),
        ),
        nested_sums(),
    ),
    "sum_of_sum": Evidence(
        (sum_over(s, Add((x, y))), {}, Add((sum_over(s, x), sum_over(s, y)))),
        (
            ("not a sum over an index", Bind("max", s, Add((x, y))), {}),
            ("not a sum over an index", sum_over(s, Mul((x, y))), {}),
        ),
        a_sum_of(lambda scope: st.lists(terms(scope, 1), max_size=3).map(lambda row: Add(tuple(row)))),
    ),
    "constant_sum": Evidence(
        (sum_over(c, x), {}, Mul((Mul((Size("d"), Size("h"))), x))),
        (
            ("not a sum over an index", Bind("max", c, x), {}),
            ("the summand depends on the index", sum_over(s, Apply("exp", x)), {}),
            ("the summand depends on the index", sum_over(s, Entry("x", (At(0), Perm("rho", True, s)))), {}),
        ),
        a_constant_sum(),
    ),
    "split_sum": Evidence(
        (
            sum_over(c, Mul((Entry("w", (c,)), Entry("z", (Part(c, HK, 0),))))), {},
            sum_over(r, sum_over(j, Mul((Entry("w", (Join(HK, (r, j)),)), z)))),
        ),
        (
            ("not a sum over an index", Bind("max", c, Entry("w", (c,))), {}),
            ("not over a product axis", sum_over(s, x), {}),
            ("not over a product axis", sum_over(Var("b", BLOCKS), Entry("v", (Var("b", BLOCKS),))), {}),
        ),
        a_sum_of(lambda scope: terms(scope, 2), HK, KH, SIX),
    ),
    "enumerate_sum": Evidence(
        (sum_over(a, Entry("f", (a,))), {}, Add((Entry("f", (At(0),)), Entry("f", (At(1),))))),
        (
            ("not a sum over an index", Bind("max", a, ONE), {}),
            ("not over a plain axis of fixed size", sum_over(s, x), {}),
            ("not over a plain axis of fixed size", sum_over(Var("b", SIX), ONE), {}),
            (
                "not over a plain axis of fixed size",
                sum_over(Var("b", Domain("o", number(5), (), (TWO, THREE))), ONE), {},
            ),
        ),
        a_sum_of(lambda scope: terms(scope, 2), TWO, THREE),
    ),
    "delta": Evidence(
        (sum_over(i, Mul((xi, Cmp("eq", s, i), y))), {"position": 1}, Mul((x, y))),
        (
            ("not a sum over an index", Bind("max", i, Cmp("eq", i, s)), {"position": 0}),
            ("no such argument", sum_over(i, Cmp("eq", i, s)), {"position": 1}),
            ("not a bracket of equality", sum_over(i, Mul((xi, Cmp("le", i, s)))), {"position": 1}),
            ("not a bracket of equality", sum_over(i, Mul((xi, Cmp("eq", i, s, 1)))), {"position": 1}),
            ("not a bracket of equality", sum_over(i, Mul((xi, Cmp("eq", i, s)))), {"position": 0}),
            ("the bracket does not fix the index", sum_over(i, Cmp("eq", q, s)), {"position": 0}),
            ("the bracket does not fix the index", sum_over(i, Cmp("eq", i, i)), {"position": 0}),
            ("a position outside its axis", sum_over(t, Cmp("eq", t, s)), {"position": 0}),
            ("a position outside its axis", sum_over(i, Cmp("eq", i, At(3))), {"position": 0}),
            ("a position outside its axis", sum_over(a, Cmp("eq", a, At(2))), {"position": 0}),
            (
                "the bracket does not fix the index",
                sum_over(r, Cmp("eq", r, Perm("pi", False, r))), {"position": 0},
            ),
            (
                "the bracket does not fix the index",
                sum_over(r, Cmp("eq", Perm("pi", False, r), At(0))), {"position": 0},
            ),
        ),
        a_delta(),
    ),
    "reindex": Evidence(
        (
            sum_over(r, Mul((z, Entry("z", (Perm("pi", True, r),))))), {"name": "pi", "inverse": False},
            sum_over(r, Mul((Entry("z", (Perm("pi", False, r),)), z))),
        ),
        (
            ("not a sum over an index", Bind("max", r, z), {"name": "pi", "inverse": False}),
            ("no such bijection", sum_over(r, z), {"name": "tau", "inverse": False}),
            ("no such bijection", sum_over(r, z), {"name": "pi", "inverse": 2}),
            ("a bijection of another axis", sum_over(r, z), {"name": "rho", "inverse": False}),
            ("a bijection of another axis", sum_over(Var("c", KH), ONE), {"name": "sigma", "inverse": False}),
        ),
        a_renumbering(),
    ),
    "exp_of_sum": Evidence(
        (Apply("exp", Add((x, y))), {}, Mul((Apply("exp", x), Apply("exp", y)))),
        (
            ("nothing to take apart", Apply("fn:exp", Add((x, y))), {}),
            ("nothing to take apart", Apply("exp", Mul((x, y))), {}),
            ("nothing to take apart", Apply("exp", sum_over(s, x)), {}),
        ),
        st.lists(terms(STATED, 1, 0), max_size=3).map(lambda row: (Apply("exp", Add(tuple(row))), {})),
    ),
    "exp_product": Evidence(
        (
            Mul((Apply("exp", x), y, Apply("exp", z))), {"first": 2, "second": 0},
            Mul((y, Apply("exp", Add((z, x))))),
        ),
        (
            ("not two exponentials", Mul((Apply("exp", x), y)), {"first": 0, "second": 1}),
            ("no such argument", Add((Apply("exp", x), Apply("exp", y))), {"first": 0, "second": 1}),
            ("a position is named twice", Mul((Apply("exp", x), y)), {"first": 0, "second": 0}),
        ),
        two_exponentials(),
    ),
    "inverse_of_exp": Evidence(
        (Apply("inv", Apply("exp", x)), {}, Apply("exp", Mul((number(-1), x)))),
        (
            ("nothing to take apart", Apply("exp", Apply("inv", x)), {}),
            ("nothing to take apart", Apply("inv", x), {}),
            ("nothing to take apart", Apply("inv", sum_over(s, Apply("exp", x))), {}),
        ),
        terms(STATED, 2, 0).map(lambda one: (Apply("inv", Apply("exp", one)), {})),
    ),
    "inverse_of_product": Evidence(
        (Apply("inv", Mul((x, y))), {}, Mul((Apply("inv", x), Apply("inv", y)))),
        (
            ("nothing to take apart", Apply("exp", Mul((x, y))), {}),
            ("nothing to take apart", Apply("inv", Add((x, y))), {}),
            ("nothing to take apart", Apply("inv", sum_over(s, Mul((x, y)))), {}),
        ),
        st.lists(small, max_size=3).map(lambda row: (Apply("inv", Mul(tuple(row))), {})),
    ),
    "cancel": Evidence(
        (
            Mul((Apply("exp", x), y, Apply("inv", Apply("exp", x)))), {"value": 0, "inverse": 2},
            y,
        ),
        (
            ("no such argument", Add((g, Apply("inv", g))), {"value": 0, "inverse": 1}),
            ("the factors are not inverse to each other", Mul((x, y)), {"value": 0, "inverse": 1}),
            ("the factors are not inverse to each other", Mul((x, Apply("inv", xi))), {"value": 0, "inverse": 1}),
            ("the factor may be zero", Mul((x, Apply("inv", x))), {"value": 0, "inverse": 1}),
            ("the factor may be zero", Mul((g, Apply("inv", g))), {"value": 0, "inverse": 1}),
            (
                "the factor may be zero",
                Mul((z, Apply("inv", z))), {"value": 0, "inverse": 1, "given": ((2, (At(0),)),)},
            ),
            ("no such assumption", Mul((g, Apply("inv", g))), {"value": 0, "inverse": 1, "given": ((4, ()),)}),
            ("no such assumption", Mul((g, Apply("inv", g))), {"value": 0, "inverse": 1, "given": ((-3, ()),)}),
            ("wrong number of positions", Mul((g, Apply("inv", g))), {"value": 0, "inverse": 1, "given": ((1, (s,)),)}),
            (
                "a position outside its axis",
                Mul((zs, Apply("inv", zs))), {"value": 0, "inverse": 1, "given": ((2, (s,)),)},
            ),
            (
                "the factors are not inverse to each other",
                Mul((g, Apply("inv", x))), {"value": 0, "inverse": 1, "given": ((1, ()),)},
            ),
        ),
        a_cancelling(),
    ),
    "guard": Evidence(
        (
            Mul((x, Apply("exp", Add((late, y))), late)), {"brackets": (2,), "where": (1, 0, 0)},
            Mul((x, Apply("exp", Add((ONE, y))), late)),
        ),
        (
            ("not a bracket", Add((late, Apply("exp", late))), {"brackets": (0,), "where": (1, 0)}),
            ("a bracket does not guard itself", Mul((late, x)), {"brackets": (0,), "where": (0,)}),
            ("a bracket does not guard itself", Mul((late, x)), {"brackets": (0,), "where": ()}),
            ("not a bracket", Mul((x, Apply("exp", x))), {"brackets": (0,), "where": (1, 0)}),
            ("not the same bracket", Mul((late, Apply("exp", early))), {"brackets": (0,), "where": (1, 0)}),
            (
                "not about this index",
                Mul((late, sum_over(s, Mul((late, x))))), {"brackets": (0,), "where": (1, 0, 0)},
            ),
            (
                "not about this index",
                Mul((late, Bind("max", t, late))), {"brackets": (0,), "where": (1, 0)},
            ),
            ("not a bracket", Mul((late, late)), {"brackets": (), "where": (1,)}),
            ("not a bracket", Mul((late, x, late)), {"brackets": (0, 1), "where": (2,)}),
            ("a position is named twice", Mul((late, late)), {"brackets": (0, 0), "where": (1,)}),
            (
                "not the same bracket",
                Mul((late, early, Cmp("le", s, r, 1))), {"brackets": (0, 1), "where": (2,)},
            ),
            ("not the same bracket", Mul((late, early, Cmp("le", r, s))), {"brackets": (0, 1), "where": (2,)}),
            ("not the same bracket", Mul((late, early, Cmp("eq", s, r))), {"brackets": (0, 1), "where": (2,)}),
            (
                "not two brackets of order that meet",
                Mul((early, late, Cmp("le", s, r))), {"brackets": (0, 1), "where": (2,)},
            ),
            (
                "not two brackets of order that meet",
                Mul((late, Cmp("eq", t, r), Cmp("le", s, r))), {"brackets": (0, 1), "where": (2,)},
            ),
            (
                "not two brackets of order that meet",
                Mul((late, Cmp("le", r, j), Cmp("le", s, j))), {"brackets": (0, 1), "where": (2,)},
            ),
            ("not two brackets of order that meet", Mul((m, m, m)), {"brackets": (0, 1), "where": (2,)}),
            (
                "not about this index",
                Mul((late, early, sum_over(t, Cmp("le", s, r)))), {"brackets": (0, 1), "where": (2, 0)},
            ),
            ("no child 4", Mul((late, Apply("exp", late))), {"brackets": (0,), "where": (1, 4)}),
            ("no such argument", Mul((late, Apply("exp", late))), {"brackets": (2,), "where": (1, 0)}),
        ),
        st.one_of(a_guarded(True), an_ordering()),
    ),
    "spread": Evidence(
        (
            Mul((Apply("inv", sum_over(i, xi)), m)), {"brackets": (1,), "where": (0, 0, 0)},
            Mul((Apply("inv", sum_over(i, Mul((m, xi)))), m)),
        ),
        (
            ("not a bracket", Add((late, x)), {"brackets": (0,), "where": (1,)}),
            ("a bracket does not guard itself", Mul((late, x)), {"brackets": (0,), "where": (0,)}),
            ("not a bracket", Mul((x, y)), {"brackets": (0,), "where": (1,)}),
            (
                "not about this index",
                Mul((late, sum_over(t, x))), {"brackets": (0,), "where": (1, 0)},
            ),
        ),
        a_guarded(False),
    ),
    "compare": Evidence(
        (
            Cmp("eq", Join(HK, (r, j)), Join(HK, (At(0), j))), {},
            Mul((Cmp("eq", r, At(0)), Cmp("eq", j, j))),
        ),
        (
            ("no bracket, or an open one", x, {}),
            ("no bracket, or an open one", late, {}),
            ("no bracket, or an open one", Cmp("le", t, t, -1), {}),
            ("no bracket, or an open one", Cmp("eq", t, t, 1), {}),
            ("no bracket, or an open one", Cmp("le", At(1), t), {}),
            ("no bracket, or an open one", Cmp("le", t, At(1)), {}),
            ("no bracket, or an open one", Cmp("eq", Join(HK, (r, j)), Join(KH, (j, r))), {}),
            ("no bracket, or an open one", Cmp("eq", Join(HK, (r, j)), Join(HK, (r, j)), 1), {}),
            ("no bracket, or an open one", Cmp("le", Join(HK, (r, j)), Join(HK, (At(0), j))), {}),
            ("no bracket, or an open one", Cmp("le", Perm("pi", False, r), Perm("pi", False, At(0))), {}),
            ("no bracket, or an open one", Cmp("eq", Perm("pi", False, r), Perm("pi", True, At(0))), {}),
            (
                "no bracket, or an open one",
                Cmp("eq", Inj(r, BLOCKS, 0), Inj(r, Domain("o", Size("o"), (), (H, H)), 0)), {},
            ),
        ),
        a_decided_bracket(),
    ),
}  # fmt: skip


half = Fraction(1, 2)
SQUARE = Domain("c", Mul((Size("h"), Size("h"))), (H, H))
CUBE = Domain("c", Mul((Size("h"), Size("h"), Size("h"))), (H, H, H))

#: more places where a rule applies, and what it makes of them
MORE: tuple[tuple[str, Term, dict[str, Any], Term], ...] = (
    ("unfold", Entry("D", (s, r)), {}, sum_over(t, Mul((x, Apply("exp", y))))),
    ("lemma", Mul((number(2), x)), {"name": "twice", "at": (s, t), "back": True}, Add((x, x))),
    ("arithmetic", Add((x, number(2), Add((y, number(3))))), {}, Add((x, y, number(5)))),
    ("arithmetic", Add((x, number(2), number(-2))), {}, x), ("arithmetic", Add((number(2), number(-2))), {}, ZERO),
    ("arithmetic", Add((x, Add((y,)))), {}, Add((x, y))), ("arithmetic", Add((x, ZERO)), {}, x),
    ("arithmetic", Mul((x, Mul((y,)))), {}, Mul((x, y))),
    ("arithmetic", Add(()), {}, ZERO), ("arithmetic", Mul(()), {}, ONE), ("arithmetic", Mul((x, ONE)), {}, x),
    ("arithmetic", Mul((x, ZERO, Size("T"))), {}, ZERO),
    ("arithmetic", Mul((Size("T"), x, Size("T", Fraction(-1)))), {}, x),
    ("arithmetic", Mul((Size("5", half), Size("5", half))), {}, number(5)),
    ("arithmetic", Mul((x, Size("5", -half))), {}, Mul((number(Fraction(1, 5)), Size("5", half), x))),
    ("arithmetic", Apply("inv", number(-4)), {}, number(Fraction(-1, 4))), ("arithmetic", Apply("inv", ZERO), {}, ZERO),
    ("arithmetic", Apply("inv", Size("T", half)), {}, Size("T", -half)),
    ("arithmetic", Apply("inv", Apply("inv", x)), {}, x), ("arithmetic", Apply("exp", ZERO), {}, ONE),
    ("distribute", Mul((x, Add(()))), {"position": 1}, Add(())), ("distribute", Mul((Add((x, y)),)), {"position": 0},
                                                                  Add((Mul((x,)), Mul((y,))))),
    ("take_out", Add((Mul((x, y)), Mul((y, x)))), {"positions": ((1, 0), (0, 1))}, Mul((x, y, Add((ONE, ONE))))),
    ("collect", Add((Mul((number(2), Mul((number(3), x)))), x)), {"first": 0, "second": 1}, Mul((number(7), x))),
    ("collect", Add((number(2), number(3))), {"first": 1, "second": 0}, Mul((number(5), ONE))),
    ("pull", Mul((sum_over(t, y), x)), {"position": 0},
     sum_over(Var("t1", T), Mul((Entry("y", (Var("t1", T), r)), x)))),
    ("factor", sum_over(i, Mul((x, y))), {"positions": (1, 0)}, Mul((x, y, sum_over(i, ONE)))),
    ("factor", sum_over(i, x), {"positions": (0,)}, Mul((x, sum_over(i, ONE)))),
    ("exchange", sum_over(s, sum_over(Var("s", T), Entry("x", (At(0), Var("s", T))))), {},
     sum_over(t, sum_over(s, Entry("x", (At(0), t))))),
    ("split_sum", sum_over(c, Mul((z, Entry("w", (c,))))), {},
     sum_over(Var("h", H), sum_over(j, Mul((z, Entry("w", (Join(HK, (Var("h", H), j)),))))))),
    ("split_sum", sum_over(Var("b", SIX), sum_over(Var("e", TWO), Entry("u", (Var("b", SIX), Var("e", TWO))))), {},
     sum_over(a, sum_over(Var("o", THREE), sum_over(Var("e", TWO), Entry(
         "u", (Join(SIX, (a, Var("o", THREE))), Var("e", TWO))))))),
    ("split_sum", sum_over(Var("e", SIX), Entry("u", (Var("e", SIX), a))), {},
     sum_over(Var("o", TWO), sum_over(Var("q", THREE), Entry("u", (Join(SIX, (Var("o", TWO), Var("q", THREE))), a))))),
    ("split_sum", sum_over(Var("e", SQUARE), Entry("w", (Part(Var("e", SQUARE), SQUARE, 1),))), {},
     sum_over(r, sum_over(Var("o", H), Entry("w", (Var("o", H),))))),
    ("split_sum", sum_over(Var("e", CUBE), Entry("w", (Part(Var("e", CUBE), CUBE, 1),))), {},
     sum_over(r, sum_over(Var("o", H), sum_over(Var("q", H), Entry("w", (Var("o", H),)))))),
    ("delta", sum_over(i, Cmp("eq", i, s)), {"position": 0}, ONE),
    ("delta", sum_over(i, Mul((Cmp("eq", i, s), xi))), {"position": 0}, x),
    ("delta", sum_over(a, Mul((Entry("f", (a,)), Cmp("eq", At(1), a)))), {"position": 1}, Entry("f", (At(1),))),
    ("reindex", sum_over(r, z), {"name": "pi", "inverse": True}, sum_over(r, Entry("z", (Perm("pi", True, r),)))),
    ("exp_product", Mul((Apply("exp", x), Apply("exp", z))), {"first": 0, "second": 1}, Apply("exp", Add((x, z)))),
    ("exp_of_sum", Apply("exp", Add(())), {}, Mul(())), ("inverse_of_product", Apply("inv", Mul(())), {}, Mul(())),
    ("cancel", Mul((Apply("inv", z), z)), {"value": 1, "inverse": 0, "given": ((2, (r,)),)}, ONE),
    ("guard", Mul((late, x, late)), {"brackets": (2,), "where": (0,)}, Mul((ONE, x, late))),
    ("guard", Mul((m, sum_over(i, Mul((m, xi))))), {"brackets": (0,), "where": (1, 0, 0)},
     Mul((m, sum_over(i, Mul((ONE, xi)))))),
    ("guard", Mul((Cmp("le", s, r, 1), Cmp("le", t, r, 2), x, Cmp("le", s, t, -1))),
     {"brackets": (3, 1), "where": (0,)}, Mul((ONE, Cmp("le", t, r, 2), x, Cmp("le", s, t, -1)))),
    ("guard", Mul((late, early, Cmp("le", r, j), Apply("exp", Cmp("le", s, j)))),
     {"brackets": (0, 1, 2), "where": (3, 0)}, Mul((late, early, Cmp("le", r, j), Apply("exp", ONE)))),
    ("spread", Mul((late, x, early)), {"brackets": (0, 2), "where": (1,)},
     Mul((late, Mul((Cmp("le", s, r), x)), early))),
)  # fmt: skip

DECIDED: tuple[tuple[Term, Term], ...] = (
    (Cmp("le", s, s), ONE), (Cmp("le", s, s, 2), ONE), (Cmp("eq", c, c), ONE), (Cmp("le", At(0), s), ONE),
    (Cmp("le", At(2), At(1), 1), ONE), (Cmp("le", At(1), At(3)), ONE), (Cmp("le", At(2), At(1)), ZERO),
    (Cmp("eq", At(2), At(1), 1), ONE), (Cmp("eq", At(1), At(2)), ZERO), (Cmp("le", At(1), s, 1), ONE),
    (Cmp("eq", Inj(r, BLOCKS, 0), Inj(j, BLOCKS, 1)), ZERO),
    (Cmp("eq", Inj(r, BLOCKS, 0), Inj(At(0), BLOCKS, 0)), Cmp("eq", r, At(0))),
    (Cmp("eq", Perm("pi", True, r), Perm("pi", True, At(0))), Cmp("eq", r, At(0))),
)  # fmt: skip

#: sums with brackets in them that may all the same be zero or negative, for all that is assumed
DOUBTFUL: tuple[Term, ...] = (
    sum_over(t, Mul((m, x))), sum_over(t, Mul((m, Apply("exp", x), x))), sum_over(t, Mul((m, number(-1)))),
    sum_over(t, Mul((Cmp("le", At(0), t), x))), sum_over(t, Mul((Cmp("le", t, At(0)), y))), sum_over(s, m),
    sum_over(t, Mul((m, Cmp("le", At(1), t)))), sum_over(t, Mul((Entry("m", (s, Perm("rho", False, t))), m))),
    sum_over(t, Cmp("eq", t, At(1))), sum_over(t, Cmp("le", t, s, -1)), Bind("max", t, m), sum_over(r, Apply("inv", x)),
    sum_over(t, Add((m, x))), sum_over(t, Mul((m, Apply("fn:exp", x)))),
)  # fmt: skip
CERTAIN: tuple[Term, ...] = (
    sum_over(t, m), sum_over(t, Mul((m, Apply("exp", x)))), sum_over(i, Cmp("eq", i, At(0))), sum_over(t, Mul((g, m))),
    sum_over(t, Mul((Cmp("le", t, s), Apply("exp", x)))), sum_over(t, Mul((Cmp("le", t, s), Size("T")))),
    sum_over(s, g),
    Mul((g, Apply("inv", g), Size("5", Fraction(1, 2)))), Add((g, ONE)), sum_over(r, z), Apply("inv", sum_over(t, m)),
)  # fmt: skip


# ---------------------------------------------------------------- the tests


def test_every_rule_has_evidence() -> None:
    assert set(EVIDENCE) == set(RULES)
    assert all(len(row.refuse) >= 2 for row in EVIDENCE.values())


def conditions() -> set[str]:
    """Every reason for which a rule can refuse: the texts given to `need` and `TermError`."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(rules))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("need", "TermError"):
            found |= {one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return found


def test_every_side_condition_is_run_into() -> None:
    assert conditions() <= {reason for row in EVIDENCE.values() for reason, _, _ in row.refuse}


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_rule_does_what_it_says(name: str) -> None:
    term, args, expected = EVIDENCE[name].match
    made = RULES[name](term, FULL, **args)
    assert equal(made, expected), f"{key(made)}\n{key(expected)}"
    same_value(term, made)


@pytest.mark.parametrize(
    ("name", "term", "args", "expected"), MORE, ids=[f"{row[0]}-{n}" for n, row in enumerate(MORE)]
)
def test_a_rule_does_what_it_says_elsewhere(name: str, term: Term, args: dict[str, Any], expected: Term) -> None:
    made = RULES[name](term, FULL, **args)
    assert equal(made, expected), f"{key(made)}\n{key(expected)}"
    same_value(term, made)


@pytest.mark.parametrize(("term", "expected"), DECIDED, ids=[key(term) for term, _ in DECIDED])
def test_brackets_are_decided(term: Term, expected: Term) -> None:
    assert RULES["compare"](term, FULL) == expected
    same_value(term, expected)


GIVEN = ((0, (s,)), (1, ()), (2, (r,)), (3, (a, t)))


@pytest.mark.parametrize("term", DOUBTFUL, ids=key)
def test_what_may_be_zero_does_not_cancel(term: Term) -> None:
    with pytest.raises(TermError, match="the factor may be zero"):
        RULES["cancel"](Mul((term, Apply("inv", term))), FULL, value=0, inverse=1, given=GIVEN)


@pytest.mark.parametrize("term", CERTAIN, ids=key)
def test_what_is_positive_cancels(term: Term) -> None:
    both = Mul((term, Apply("inv", term)))
    assert RULES["cancel"](both, FULL, value=0, inverse=1, given=GIVEN) == ONE
    same_value(both, ONE)


def test_positivity_by_itself() -> None:
    for term in (number(0), number(-1), Add(()), m, x, Cmp("le", s, s)):
        assert not is_positive(term, FULL, frozenset())
    assert is_positive(number(Fraction(1, 9)), FULL, frozenset())
    assert is_positive(x, FULL, frozenset({key(x)}))
    assert not is_positive(x, FULL, frozenset({key(xi)}))


REFUSALS = [(name, n, *row) for name, one in EVIDENCE.items() for n, row in enumerate(one.refuse)]


@pytest.mark.parametrize(("name", "_n", "reason", "term", "args"), REFUSALS, ids=[f"{r[0]}-{r[1]}" for r in REFUSALS])
def test_a_rule_refuses(name: str, _n: int, reason: str, term: Term, args: dict[str, Any]) -> None:
    with pytest.raises(TermError) as refusal:
        RULES[name](term, FULL, **args)
    assert str(refusal.value) == reason


@pytest.mark.parametrize("name", EVIDENCE)
@settings(max_examples=50)
@given(data=st.data(), seed=st.integers(0, 3))
def test_both_sides_of_a_rule_have_one_value(name: str, data: st.DataObject, seed: int) -> None:
    """At unequal small sizes, by loops: for random terms in which names inside and outside clash."""
    term, args = data.draw(EVIDENCE[name].random)
    try:
        made = RULES[name](term, FULL, **args)
    except TermError as refusal:
        expected = {"compare": "no bracket, or an open one"}
        assert str(refusal) == expected.get(name), "a match that the rule refuses"
        assume(False)
    check_term(made, scope_of(tuple(Var(n, d) for n, d in STATED.items())), FULL.bijections, {})
    same_value(term, made, seed)


ARGUMENTS = {
    "position": st.integers(-1, 2), "first": st.integers(0, 2), "second": st.integers(0, 2),
    "value": st.integers(0, 2), "inverse": st.integers(0, 2) | st.booleans(),
    "brackets": st.lists(st.integers(0, 2), max_size=2).map(tuple),
    "where": st.lists(st.integers(0, 2), max_size=3).map(tuple),
    "positions": st.lists(st.integers(0, 2), max_size=2).map(tuple),
    "name": st.sampled_from([*LEMMAS, "pi", "rho"]), "back": st.booleans(), "given": st.just(()),
}  # fmt: skip


@given(st.data(), terms(STATED, 3), st.sampled_from(sorted(RULES)), st.integers(0, 3))
def test_whatever_applies_anywhere_is_true(data: st.DataObject, term: Term, name: str, seed: int) -> None:
    """A random rule with random arguments at a random place: mostly refused, never wrong."""
    path: list[int] = []
    node = term
    while children(node) and data.draw(st.booleans()):
        path.append(data.draw(st.integers(0, len(children(node)) - 1)))
        node = children(node)[path[-1]]
    args: dict[str, Any] = {}
    for one in list(inspect.signature(RULES[name]).parameters)[2:]:
        if one == "at":
            stated = LEMMAS.get(args["name"], LEMMAS["twice"]).variables
            args[one] = tuple(data.draw(indices(STATED, v.domain)) for v in stated)
        else:
            args[one] = data.draw(ARGUMENTS[one])
    try:
        made = put_path(term, tuple(path), RULES[name](at_path(term, tuple(path)), FULL, **args))
    except (TermError, TypeError, ValueError, IndexError, KeyError):
        return
    same_value(term, made, seed)
