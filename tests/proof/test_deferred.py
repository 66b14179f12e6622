"""Arithmetic put off: equal operations are one node, values are those of the field, and what may stay closed."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import sympy

from mha_sym.proof.deferred import Graph, Node, Values, _is_positive, _may_close, below, compare
from mha_sym.proof.exp_rational import Beyond


def leaves(graph: Graph, count: int) -> list[Node]:
    return [graph.leaf("x", (n,)) for n in range(count)]


def test_equal_operations_are_one_node() -> None:
    graph = Graph(1000)
    x, y, z = leaves(graph, 3)
    assert x + y is y + x
    assert x * y is y * x
    assert x + y is not x * y
    assert (x + y) + z is not x + (y + z), "regrouping is left to the field"
    assert graph.leaf("x", (0,)) is x
    assert graph.leaf("x", (0, 0)) is not x
    assert graph.exp(x) is graph.exp(x)
    assert graph.exp(x) is not graph.inverse(x)
    assert graph.maximum(x, y) is not graph.exp(x)


def test_constants_are_folded_and_zero_takes_all() -> None:
    graph = Graph(1000)
    (x,) = leaves(graph, 1)
    half = graph.number(sympy.Rational(1, 2))
    assert half + half is graph.one
    assert graph.inverse(half) is graph.rational(2)
    assert graph.zero * x is graph.zero
    assert x * graph.one is x
    assert x + graph.zero is x
    assert graph.exp(graph.zero) is graph.one
    assert graph.inverse(graph.zero) is graph.zero
    assert -graph.rational(Fraction(2, 3)) is graph.rational(Fraction(-2, 3))


def test_only_what_is_asked_for_gets_a_generator() -> None:
    graph = Graph(1000)
    x, y, _ = leaves(graph, 3)
    wanted = graph.exp(x) * y
    assert [node.op for node in below([wanted])] == ["leaf", "leaf", "exp", "mul"]
    assert Values([wanted], 10**6).field.names == ("x[0]", "x[1]")


def test_long_sums_do_not_exhaust_the_stack() -> None:
    graph = Graph(20_000)
    total = graph.zero
    for n in range(3000):
        total = total + graph.leaf("x", (n % 7,)) * graph.leaf("x", (n % 5,))
    other = graph.zero
    for n in reversed(range(3000)):
        other = graph.leaf("x", (n % 5,)) * graph.leaf("x", (n % 7,)) + other
    assert total is not other
    assert compare(total, other, 10**9).same


def test_values_are_those_of_floating_point() -> None:
    numbers = random.Random(5)
    for _ in range(30):
        graph = Graph(1000)
        nodes = leaves(graph, 3)
        point = [numbers.uniform(0.5, 1.5) for _ in nodes]
        pairs = list(zip(nodes, point, strict=True))
        for _ in range(7):
            (x, u), (y, v) = numbers.choice(pairs), numbers.choice(pairs)
            new = {"+": (x + y, u + v), "*": (x * y, u * v), "/": (graph.inverse(x), 1 / u)}
            pairs.append(new[numbers.choice("++**/")])
        node, expected = pairs[-1]
        value = Values([node], 10**8).of(node)
        names = {sympy.Symbol(f"x[{n}]"): u for n, u in enumerate(point)}
        assert float(value.field.as_expr(value).subs(names)) == pytest.approx(expected, rel=1e-8)


def test_too_many_operations_are_refused() -> None:
    graph = Graph(10)
    x, y, *_ = leaves(graph, 4)
    with pytest.raises(Beyond, match="too many operations"):
        for _ in range(20):
            x = x * y


def test_what_takes_too_much_work_is_no_answer() -> None:
    graph = Graph(1000)
    x, y, z, w = leaves(graph, 4)
    left, right = (x + y) * (z + w), (z + w) * y + (w + z) * x
    assert compare(left, right, limit=1000).same
    with pytest.raises(Beyond):
        compare(left, right, limit=1)


# ---------------------------------------------------------------- functions of which nothing is known


def test_unknown_functions_are_congruent() -> None:
    graph = Graph(1000)
    x, y, _ = leaves(graph, 3)
    f, same = graph.function("norm", (x + y) * (x + y)), graph.function("norm", x * x + y * y + (x * y + x * y))
    assert f is not same
    assert compare(f + x, x + same, 10**6).same
    assert not compare(f, graph.function("norm", x * x + y * y), 10**6).same
    assert not compare(f, graph.function("gate", (x + y) * (x + y)), 10**6).same
    assert not compare(graph.function("f", x, y), graph.function("f", y, x), 10**6).same


# ---------------------------------------------------------------- what stays closed


def test_what_both_sides_share_is_not_opened() -> None:
    graph = Graph(1000)
    x, y, z = leaves(graph, 3)
    shared = graph.exp(graph.inverse(x))  # no value in the field: opening it would be refused
    assert compare(shared * y + shared * z, shared * (y + z), 10**6).same
    with pytest.raises(Beyond):
        compare(shared * y, shared * z, 10**6)


def test_shared_exponents_stay_closed_where_sums_must_be_opened() -> None:
    graph = Graph(10_000)
    big = graph.one
    for x in leaves(graph, 12):
        big = big * (x + graph.one) * (x * x + graph.one)  # too much to multiply out
    other = graph.leaf("y", (0,))
    row = graph.exp(big) + graph.exp(other)
    weights = [graph.exp(big) * graph.inverse(row), graph.exp(other) * graph.inverse(row)]
    assert compare(weights[0] + weights[1], graph.one * graph.inverse(row) * row, 10**5).same


def test_a_zero_that_both_sides_share_is_opened_before_it_is_divided_by() -> None:
    graph = Graph(1000)
    x, y, _ = leaves(graph, 3)
    zero = (x + y) * (x + y) + -(x * x + y * y + (x * y + x * y))
    left, right = zero * graph.inverse(zero) + zero, graph.one + zero
    assert not compare(left, right, 10**6).same, "0/0 is 0, not 1"


@pytest.mark.parametrize("seed", range(12))
def test_maxima_are_not_taken_of_closed_nodes(seed: int) -> None:
    graph = Graph(1000)
    x, y, _ = leaves(graph, 3)
    score = x * y
    lower = score + -graph.one
    assert compare(graph.maximum(lower, score), score, 10**6, seed=f"{seed}").same
    assert compare(graph.maximum(score, lower) + x, x + score, 10**6, seed=f"{seed}").same
    assert not compare(graph.maximum(score, lower), lower, 10**6, seed=f"{seed}").same


def test_both_regions_of_a_maximum_are_met() -> None:
    graph = Graph(1000)
    x, y, _ = leaves(graph, 3)
    largest = graph.maximum(x, y)
    found = {compare(largest, x, 10**6, seed=f"{seed}").same for seed in range(12)}
    assert found == {True, False}


def test_what_is_out_of_reach_while_closed_is_opened() -> None:
    """An exponential of a quotient is none; of ``1/(e^x e^-x)`` it is, once that is known to be 1."""
    graph = Graph(1000)
    x, y = leaves(graph, 2)
    unit = graph.exp(x) * graph.exp(graph.minus_one * x)
    left, right = graph.exp(graph.inverse(unit) * y), graph.exp(unit * y)
    found = compare(left, right, 10_000)
    assert found.same and found.left == found.right
    assert not compare(left, right * graph.rational(2), 10_000).same
    with pytest.raises(Beyond):
        compare(graph.exp(graph.inverse(graph.exp(x)) * y), graph.exp(x), 10_000)


def test_work_is_what_the_fields_did() -> None:
    graph = Graph(1000)
    x, y, z = leaves(graph, 3)
    assert compare(x, x, 10_000).work == Values((x,), 10_000).field.work
    open_ = compare(x * (y + z), x * y + x * z, 10_000)
    values = Values((x * (y + z), x * y + x * z), 10_000)
    values.of(x * (y + z)), values.of(x * y + x * z)
    assert open_.same and open_.work == values.field.work > 0


def test_what_is_positive_by_its_form() -> None:
    graph = Graph(1000)
    (x,) = leaves(graph, 1)
    weight, half = graph.exp(x), graph.rational(Fraction(1, 2))
    known = {weight.number, half.number}
    for node in (weight, half, weight + half, weight * half, graph.inverse(weight + half)):
        assert _is_positive(node, {*known, (weight + half).number})
    for node in (x, graph.zero, graph.minus_one, weight + x, graph.maximum(weight, half), graph.inverse(x)):
        assert not _is_positive(node, known)


def test_what_is_closed_may_divide_by_anything() -> None:
    """It has one value on both sides, whatever that is; what stays open must divide by what is positive."""
    graph = Graph(1000)
    x, y = leaves(graph, 2)
    quotient, larger = graph.inverse(x), graph.maximum(x, y)
    closed = {quotient.number, larger.number}
    assert _may_close(below([quotient * larger], closed), closed)
    assert not _may_close(below([graph.inverse(larger)], closed), closed)
    assert not _may_close(below([graph.maximum(quotient, x)], closed), closed)
