"""Terms of expressions against the evaluation of the same expressions, and what has no meaning."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product as pairs
from random import Random
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product, size_symbol
from mha_sym.errors import AxisProblem, NoValue
from mha_sym.evaluate import evaluate
from mha_sym.expr import (
    Blocks,
    Compare,
    Expr,
    Input,
    Map,
    Named,
    Permute,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Stack,
    Table,
    Total,
    inputs,
    walk,
)
from mha_sym.proof.checker import Certificate, check
from mha_sym.proof.meaning import Meaning, domain, goals, positions, size_term
from mha_sym.proof.prover import heights, prove_goal
from mha_sym.proof.terms import Add, Apply, At, Entry, Join, Mul, Num, Part, Size, Var, key
from tests.proof.engine import Unclear, World, ball, place, value
from tests.proof.random_exprs import Names, axes_of, expression, rewritten

SIZES = {"B": 2, "T": 4, "S": 5, "h": 3, "d_k": 2, "d_model": 6, "P": 3, "N": 2}
H, T, S, K = axis("h"), axis("t", "T"), axis("s", "S"), axis("k", "d_k")
X = Input("X", (T, S))


def extent(one: Axis) -> int:
    return int(one.size.subs({s: SIZES[s.name] for s in one.size.free_symbols}))


def arrays_of(expr: Expr, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        one.name: rng.integers(0 if one.boolean else -2, 2 if one.boolean else 3, tuple(map(extent, one.over)))
        for one in inputs(expr)
    }


def world_of(expr: Expr, meaning: Meaning, arrays: dict[str, Any]) -> World:
    """A world in which the entries are those of the arrays; an expression may permute what a position does not see."""
    permuted = {node.perm.name: domain(node.perm.axis) for node in walk(expr) if isinstance(node, Permute)}
    context = meaning.context()
    world = World(SIZES, replace(context, bijections={**permuted, **context.bijections}))
    for one in inputs(expr):
        for at in np.ndindex(*arrays[one.name].shape):
            world.drawn[one.name, at] = Fraction(int(arrays[one.name][at]))
    return world


def numbers(expr: Expr, arrays: dict[str, Any], world: World) -> Any:
    """The values by evaluation, in floating point."""
    used = {s.name for node in walk(expr) for one in node.axes for s in one.size.free_symbols}
    used |= {s.name for node in walk(expr) if isinstance(node, Scalar) for s in node.value.free_symbols}
    used |= {node.index.axis.size.name for node in walk(expr) if hasattr(node, "index")}
    names = {node.perm.name: node.perm.axis for node in walk(expr) if isinstance(node, Permute)}
    perms = {name: [world.image(name, False, n) for n in range(extent(one))] for name, one in names.items()}
    return evaluate(
        expr, {n: a.astype(float) for n, a in arrays.items()}, sizes={n: SIZES[n] for n in used}, permutations=perms,
        masked_rows="zero",
    )  # fmt: skip


def entries_agree(expr: Expr, seed: int, most: int = 12) -> None:
    """The term at some positions has the value that evaluation finds there."""
    meaning, rng = Meaning(), Random(seed)
    rows = [positions(one, {f"v{n}"}) for n, one in enumerate(expr.axes)]
    for row in pairs(*rows):
        taken: dict[str, int] = {}
        places: dict[str, Any] = {}
        ok = True
        for one, (variables, index) in zip(expr.axes, row, strict=True):
            ok = ok and not any(v.name in taken for v in variables)
            taken.update(dict.fromkeys((v.name for v in variables), 0))
            places[one.name] = index
        if not ok:  # two axes called alike at first choice: fixed positions do as well
            places = {one.name: At(0) for one in expr.axes} if not any(a.blocks for a in expr.axes) else {}
        if len(places) < len(expr.axes):
            continue
        term = meaning.at(expr, places, {})
        arrays = arrays_of(expr, seed)
        world = world_of(expr, meaning, arrays)
        try:
            wanted = numbers(expr, arrays, world)
        except NoValue:  # the inverse of 0, which is 0 for terms alone
            assume(False)
        for _ in range(most):
            env = {v.name: rng.randrange(world.size(v.domain)) for variables, _ in row for v in variables}
            at = tuple(place(places[one.name], world, env) for one in expr.axes)
            try:
                found = float(ball(value(term, world, env)))
            except Unclear:
                assume(False)
            assert found == pytest.approx(wanted[at], rel=1e-6, abs=1e-6), (key(term), at)


@settings(max_examples=120)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_term_of_an_expression_has_its_values(rng: Random, seed: int) -> None:
    expr = expression(rng, axes_of(rng), rng.randint(2, 8))
    if all(map(_small, (node for node in walk(expr)))):
        entries_agree(expr, seed)


def _small(node: Expr) -> bool:
    """Not an exponential of an exponential, which floating point does not hold."""
    inner = [one for child in node.children for one in walk(child)]
    return not (isinstance(node, Map) and node.op == "exp" and any(isinstance(n, Map) and n.op == "exp" for n in inner))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_term_of_a_rewrite_has_the_values_of_the_first(rng: Random, seed: int) -> None:
    """Rewrites bring in reshapes, renames, blocks and families, which plain expressions seldom have."""
    names = Names()
    expr, _ = rewritten(rng, expression(rng, axes_of(rng), rng.randint(2, 5), names), 2, names)
    if all(map(_small, walk(expr))):
        entries_agree(expr, seed, 4)


def test_reshapes_cross_axes_in_row_major_order() -> None:
    hk = product(H, K)
    w = Input("W", (T, hk))
    for shape in ((hk, T), (H, T, K), (K, T, H), (product(T, H), K), (product(K, H), T), (K, product(H, T))):
        entries_agree(Reshape(w, shape), 0, 40)
        entries_agree(Reshape(Reshape(w, shape), (T, hk)), 0, 40)
    part = blocks(axis("past", "P"), axis("new", "N"))
    inside = Input("U", (product(H, part), T))
    for shape in ((T, product(H, part)), (H, part, T), (product(H, T), part), (product(H, part), T)):
        entries_agree(Reshape(inside, shape), 0)
    several = Input("V", (product(H, T), S))
    entries_agree(Reshape(several, (H, product(T, S))), 0, 40)
    entries_agree(Compare("le", part, T), 0)


def test_only_what_crosses_becomes_arithmetic_on_positions() -> None:
    """The axes before, after and between stay as they are, whatever they are called."""
    u = axis("u", "T")
    for before, after, kept in (
        ((H, T, K, S), (T, H, K, S), {2, 3}), ((H, T, K, S), (H, T, S, K), {0, 1}),
        ((S, H, K, T), (S, K, H, T), {0, 3}),
        ((H, K, S, T), (K, H, T, S), set()), ((T, H, K), (u, H, K), {0, 1, 2}), ((H, T, K), (T, H, K), {2}),
        ((T, H, S, K), (product(u, H), K, S), {0, 1}), ((H, T), (product(T, H),), set()),
    ):  # fmt: skip
        moved = Reshape(Input("x", before), after)
        entries_agree(moved, 0, 4)
        (goal,) = goals(Meaning(), "claim", moved, moved)
        assert isinstance(goal.left, Entry)
        found = {n for n, index in enumerate(goal.left.at) if isinstance(index, Var)}
        taken_apart = {n for n, index in enumerate(goal.left.at) if isinstance(index, Part)}
        if any(one.factors for one in after):  # of which the positions are parts
            taken_apart -= kept
            found |= kept
        assert (found, taken_apart) == (kept, set(range(len(before))) - kept)


def test_positions_are_called_as_people_call_them() -> None:
    axes = (axis("b", "B"), H, T, S, K, axis("v", "d_v"), axis("m", "d_model"), product(axis("g"), axis("f")))
    (goal,) = goals(Meaning(), "claim", Input("x", axes), Input("x", axes))
    assert [one.name for one in goal.variables] == ["b", "r", "t", "s", "j", "i", "m", "g", "f"]
    assert [one.name for one in domain(axes[-1]).factors] == ["g", "f"]
    assert (domain(axes[-1]).name, domain(H).name, domain(S).name, domain(T).name) == ("c", "r", "s", "t")
    assert positions(axis("o", 1), set()) == [((), At(0))]
    (again,) = positions(H, {"r", "q"})
    assert again[0][0].name == "r1"


def test_an_axis_of_one_position_crosses_nothing() -> None:
    """Wherever it stands before and after, what is read is where it was: no arithmetic on positions."""
    one, other = axis("a", 1), axis("c", 1)
    for before in ((one, H, K), (H, one, K), (H, K, one), (one, H, other, K), (product(H, one), K)):
        for after in ((H, K), (other, H, K), (H, K, other), (H, product(other, K)), (product(one, H), K, other)):
            moved = Reshape(Input("x", before), after)
            entries_agree(moved, 0)
            (goal,) = goals(Meaning(), "claim", moved, moved)
            assert isinstance(goal.left, Entry)
            assert all(isinstance(i, Var | At) or (isinstance(i, Join) and i.parts[1] == At(0)) for i in goal.left.at)
    alone = Reshape(Input("x", (one, other)), (one,))
    entries_agree(alone, 0)
    entries_agree(Reshape(Input("x", (one, product(K, other), H)), (product(H, K), other)), 0, 40)


@pytest.mark.parametrize("op", ["le", "lt", "ge", "gt", "eq", "ne"])
@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_comparisons(op: Any, offset: int) -> None:
    entries_agree(Compare(op, T, S, offset), 0, 30)


def test_permutations_and_their_inverses() -> None:
    x, pi = Input("x", (H, T)), Permutation("pi", H)
    for perm in (pi, pi.inverse()):
        entries_agree(Permute(x, perm), 0, 30)
        entries_agree(Permute(Permute(x, perm), perm), 1, 30)


def test_an_index_is_its_name_and_its_axis() -> None:
    """Two indices called r, over two axes of one size, one inside the other's family."""
    g = axis("g", "h")
    x, y = Input("x", (H,)), Input("y", (g,))
    over_h, over_g = Index("r", H), Index("r", g)
    both = Map("mul", (Select(x, H, over_h), Select(y, g, over_g)))
    entries_agree(Total(Total(both, over_h), over_g), 0)
    entries_agree(Stack(Total(both, over_h), over_g), 0)
    entries_agree(Stack(Stack(both, over_h), over_g), 0)
    entries_agree(Total(Total(Map("mul", (both, Select(x, H, over_h))), over_g), over_h), 0)


def test_names_of_values_inside_families() -> None:
    x, r = Input("x", (H, T)), Index("r", H)
    entries_agree(Stack(Named(Select(x, H, r), "N"), r), 0)
    entries_agree(Total(Named(Map("mul", (Select(x, H, r), Named(Select(x, H, r), "N"))), "N"), r), 0)


# ---------------------------------------------------------------- what has no meaning, or must not


def refused(left: Expr, right: Expr) -> str:
    with pytest.raises(AxisProblem) as problem:
        goals(Meaning(), "claim", left, right)
    return problem.value.what


def test_one_name_is_one_thing() -> None:
    u, two = axis("u", "T"), axis("a", 2)
    x, other = Input("x", (T,)), Rename(Input("x", (u,)), u, T)
    table, same = Table("c", (two,), (1, 2)), Table("c", (two,), (3, 4))
    mask, number = Input("m", (T,), "mask", True), Input("m", (T,))
    for left, right in ((x, other), (table, same), (mask, number), (Input("c", (two,)), table)):
        assert "two different things" in refused(left, right)
        assert "two different things" in refused(right, left)
    pi, sigma = Permutation("pi", H), Permutation("pi", T)
    y = Input("y", (H, T))
    assert "two different things" in refused(Permute(y, pi), Permute(y, sigma))


def test_a_value_called_like_an_input_is_not_the_input() -> None:
    """In whichever order the two are met."""
    x, named = Input("Q", (T,)), Named(Input("x", (T,)), "Q")
    for left, right in ((x, named), (named, x)):
        meaning = Meaning()
        try:
            (goal,) = goals(meaning, "claim", left, right)
        except AxisProblem as clash:
            assert "two different things" in clash.what
            continue
        result = prove_goal(goal, meaning.context())
        assert not isinstance(result, Certificate)


def test_values_of_one_name_are_told_apart() -> None:
    meaning = Meaning()
    inner, outer = Named(X, "N"), Named(Map("neg", (Named(X, "N"),)), "N")
    (goal,) = goals(meaning, "claim", outer, inner)
    assert key(goal.left) != key(goal.right)
    assert sorted(heights(meaning.context()).values()) == [1, 2]


def test_functions_of_several_arguments_are_refused() -> None:
    y, z = Input("y", (T, S)), Input("z", (T, S))
    assert "several arguments" in refused(Map("fn:f", (X, y)), Map("fn:f", (X, z)))


@pytest.mark.parametrize(
    "symbol",
    [
        sympy.Symbol("3", integer=True, positive=True), sympy.Symbol("٣", integer=True, positive=True),
        sympy.Symbol("c"), sympy.Symbol("c", real=True), sympy.Symbol("c", integer=True),
        sympy.Symbol("c", positive=True),
    ],
    ids=repr,
)  # fmt: skip
def test_only_sizes_are_symbols(symbol: sympy.Symbol) -> None:
    """A symbol that reads like a number would be that number; one that may be 0 or negative would cancel."""
    for one in (symbol, sympy.sqrt(symbol), 1 / symbol, symbol + 1):
        with pytest.raises(AxisProblem):
            size_term(one)


def test_size_terms() -> None:
    d, h = size_symbol("d"), size_symbol("h")
    world = World({"d": 7, "h": 3})
    for one in (
        d, d * h, d + h, d / h, 1 / (d + h), (d + h) ** 2, sympy.sqrt(d), d ** sympy.Rational(-3, 2), sympy.sqrt(5) * d,
        sympy.Rational(2, 3) * d - h, sympy.sqrt(sympy.Rational(2, 3)), sympy.Integer(4),
    ):  # fmt: skip
        wanted = one.subs({d: 7, h: 3})
        assert float(ball(value(size_term(one), world, {}))) == pytest.approx(float(wanted))
    for bad in (sympy.sqrt(d + h), 2**d, sympy.sqrt(-d), sympy.I, sympy.Integer(-1) ** sympy.Rational(1, 3), sympy.pi):
        with pytest.raises(AxisProblem):
            size_term(bad)


def test_roots_of_negative_numbers_are_no_sizes() -> None:
    with pytest.raises(AxisProblem):
        size_term(sympy.Integer(-2) ** sympy.Rational(1, 3))
    assert isinstance(size_term(sympy.sqrt(6)), Size)
    assert isinstance(size_term(sympy.Rational(1, 2)), Num)
    assert isinstance(size_term(1 / (size_symbol("d") + 1)), Apply)


def test_maxima_over_blocks_are_refused() -> None:
    whole = blocks(axis("past", "P"), axis("new", "N"))
    x = Input("x", (whole, T))
    from mha_sym.expr import Reduce

    assert "not in the proof language" in refused(Reduce("max", x, (whole,)), Reduce("max", x, (whole,)))
    entries_agree(Reduce("sum", x, (whole,)), 0)
    entries_agree(Softmax(x, (whole,)), 0)
    entries_agree(Blocks((Input("p", (axis("past", "P"), T)), Input("n", (axis("new", "N"), T))), whole.blocks), 0)


def test_goals_cover_every_entry_once() -> None:
    """One goal a block and a place of a table, together all positions."""
    whole = blocks(axis("past", "P"), axis("new", "N"))
    stated = goals(Meaning(), "claim", *(Input("x", (whole, T, product(H, K))),) * 2)
    assert [goal.name for goal in stated] == ["claim#1", "claim#2"]
    places = set()
    for goal in stated:
        world = World(SIZES)
        for env in pairs(*(range(world.size(v.domain)) for v in goal.variables)):
            names = dict(zip((v.name for v in goal.variables), env, strict=True))
            assert isinstance(goal.left, Entry)
            places.add(tuple(place(i, world, names) for i in goal.left.at))
    assert places == set(np.ndindex(5, 4, 6))
    two, three = axis("a", 2), axis("b", 3)
    table = Table("c", (two, three), ((1, 2, 3), (4, 5, 6)))
    assert len(goals(Meaning(), "claim", table, table)) == 6
    beside = goals(Meaning(), "claim", Repeat(table, (two, three, T)), Repeat(table, (two, three, T)))
    assert [len(goal.variables) for goal in beside] == [1] * 6, "an axis of any size is not written out"
    flat = Reshape(table, (product(three, two),))
    assert len(goals(Meaning(), "claim", flat, flat)) == 6


def test_a_proof_rests_on_all_that_was_gathered() -> None:
    """Definitions come before what mentions them, which the checker asks for."""
    meaning = Meaning()
    deep: Expr = X
    for n in range(5):
        deep = Named(Map("add", (deep, deep)), f"N{n}")
    (goal,) = goals(meaning, "claim", deep, Map("mul", (X, Scalar(sympy.Integer(32)))))
    result = prove_goal(goal, meaning.context())
    assert isinstance(result, Certificate)
    assert check(result, meaning.context())
    assert list(meaning.definitions) == [f"N{n}" for n in range(5)]


def test_domains_by_structure() -> None:
    hk = product(H, K)
    assert domain(hk).factors == (domain(H), domain(K))
    assert isinstance(domain(hk).size, Mul)
    assert isinstance(domain(blocks(H, K)).size, Add)
    assert goals(Meaning(), "c", Repeat(Scalar(sympy.Integer(1)), (hk,)), Repeat(Scalar(sympy.Integer(1)), (hk,)))
