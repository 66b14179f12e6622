"""The order of sums: keys that do not depend on it, and that tell apart what differs."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mha_sym.proof.order import TRIES, canonical_key, nest, nest_order
from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Cmp,
    Domain,
    Entry,
    Mul,
    Size,
    Term,
    Var,
    children,
    free,
    put_path,
    rebuild,
    sum_over,
)
from tests.proof.engine import Unclear, World, agree, value
from tests.proof.random_terms import CONTEXT, SIZES, STATED, H, K, S, T, terms
from tests.proof.test_terms import edits, renamed

WORLDS = [World(sizes, CONTEXT, seed) for seed, sizes in enumerate(SIZES)]


def exchanged(term: Term, rng: Any) -> Term:
    """The same with directly nested sums in another order, everywhere."""
    term = rebuild(term, tuple(exchanged(c, rng) for c in children(term)))
    own, body = nest(term)
    if len({v.name for v in own}) < len(own):  # one shadows another: their order matters
        return term
    rng.shuffle(own)
    for var in own:
        body = sum_over(var, body)
    return body


@settings(max_examples=60)
@given(terms(STATED, 4), st.randoms(use_true_random=False))
def test_the_key_does_not_depend_on_names_or_order(term: Term, rng: Any) -> None:
    assert canonical_key(renamed(exchanged(term, rng), {}, rng), {}) == canonical_key(renamed(term, {}, rng), {})


@settings(max_examples=60)
@given(st.data(), terms(STATED, 3), st.randoms(use_true_random=False))
def test_equal_keys_are_equal_values(data: st.DataObject, term: Term, rng: Any) -> None:
    other = exchanged(data.draw(edits(term)), rng)
    assume(free(other) <= set(STATED))
    if canonical_key(other, {}) == canonical_key(term, {}):
        for world in WORLDS:
            env = {name: 1 % world.size(d) for name, d in STATED.items()}
            try:
                assert agree(value(other, world, env), value(term, world, env))
            except Unclear:
                assume(False)


def network(edges: list[tuple[int, int]], order: tuple[int, ...]) -> Term:
    """``sum_{i0, i1, ...} prod x[i, j]`` over the edges of a graph, its indices in an order."""
    body: Term = Mul(tuple(Entry("x", (Var(f"i{a}", H), Var(f"i{b}", H))) for a, b in edges))
    for n in reversed(order):
        body = sum_over(Var(f"i{n}", H), body)
    return body


GRAPHS = {
    "a path": [(0, 1), (1, 2), (2, 3)],
    "a circle": [(0, 1), (1, 2), (2, 3), (3, 0)],
    "two circles of two": [(0, 1), (1, 0), (2, 3), (3, 2)],
    "a star": [(0, 1), (0, 2), (0, 3)],
    "loops": [(0, 0), (1, 1), (2, 3)],
    "both ways": [(0, 1), (1, 0), (2, 3), (3, 1)],
}


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_alike_indices_are_told_apart_by_what_they_tie(edges: list[tuple[int, int]]) -> None:
    assert len({canonical_key(network(edges, order), {}) for order in permutations(range(4))}) == 1


def test_alike_indices_are_told_apart_beside_one_that_is_not() -> None:
    path = [(0, 1), (1, 2), (2, 0), (3, 3), (3, 4)]  # a circle of three, and two of which each is alone
    some = list(permutations(range(5)))[::7]
    assert len({canonical_key(network(path, order), {}) for order in some}) == 1


def test_a_sum_is_no_product() -> None:
    x, y = Entry("x", ()), Entry("y", ())
    assert canonical_key(Add((x, y)), {}) != canonical_key(Mul((x, y)), {})


def test_different_graphs_have_different_keys() -> None:
    keys = {name: canonical_key(network(edges, (0, 1, 2, 3)), {}) for name, edges in GRAPHS.items()}
    assert len(set(keys.values())) == len(GRAPHS)


def test_many_alike_indices_are_no_crash() -> None:
    """Many indices that nothing tells apart have more orders than are tried, or held; any of them will do here."""
    own = [Var(f"i{n}", H) for n in range(16)]
    body: Term = Mul(tuple(Entry("x", (v,)) for v in own))
    assert len(list(permutations(own[:7]))) > TRIES
    assert {v.name for v in nest_order(own, body, {}, 0)} == {v.name for v in own}
    forth = back = body
    for v in own:
        forth = sum_over(v, forth)
    for v in reversed(own):
        back = sum_over(v, back)
    assert canonical_key(forth, {}) == canonical_key(back, {})


def test_shadowed_sums_keep_their_order() -> None:
    i = Var("i", H)
    x = Entry("x", (i,))
    twice = sum_over(Var("i", K), sum_over(i, x))
    other = sum_over(i, sum_over(Var("i", K), x))
    assert canonical_key(twice, {}) != canonical_key(other, {})


def test_maxima_stay_where_they_are() -> None:
    x = Entry("x", (Var("s", S), Var("t", T)))
    inner = Bind("max", Var("s", S), sum_over(Var("t", T), x))
    outer = sum_over(Var("t", T), Bind("max", Var("s", S), x))
    assert canonical_key(inner, {}) != canonical_key(outer, {})
    assert canonical_key(Bind("max", Var("s", S), Bind("max", Var("t", T), x)), {}) != canonical_key(
        Bind("max", Var("t", T), Bind("max", Var("s", S), x)), {}
    )


def test_the_domain_of_an_index_matters() -> None:
    """Also where a maximum binds it, and where nothing else shows it."""
    for op in ("sum", "max"):
        keys = {
            canonical_key(Bind(op, Var("i", d), Apply("exp", Cmp("le", Var("i", d), Var("i", d)))), {})
            for d in (H, K, Domain("h", Size("H")))
        }
        assert len(keys) == 3


def test_the_key_at_a_path_is_that_of_the_term_there() -> None:
    """Labels of outer indices are by depth, so equal subterms in unlike places may differ, unlike ones never meet."""
    rng = Random(0)
    s, t = Var("s", S), Var("t", T)
    term = sum_over(s, Mul((Entry("x", (s, t)), sum_over(t, Entry("x", (s, t))))))
    changed = put_path(term, (0, 0), Entry("x", (s, Var("s", T))))
    assert canonical_key(term, {}) != canonical_key(changed, {})
    assert canonical_key(exchanged(term, rng), {"t": "#9"}) != canonical_key(term, {})
