"""Patterns: the same nodes as by hand, the same numbers as einops, and refusals that say what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import einops
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_sym.axes import Axis, axis, product
from mha_sym.errors import AxisProblem
from mha_sym.evaluate import evaluate
from mha_sym.expr import Contract, Expr, Input, Join, Repeat, Select, Split, Transpose
from mha_sym.pattern import einsum, rearrange, repeat

b, t, h, k = axis("b", 2), axis("t", 5), axis("h", 3), axis("k", 4)
hk = product(h, k)
flat = Input("Q", (b, t, hk))


def test_split_and_transpose_are_nodes_of_their_own() -> None:
    assert rearrange(flat, "b t (h k) -> b h t k") == Transpose(Split(flat, hk), (b, h, t, k))


def test_transpose_and_join_are_nodes_of_their_own() -> None:
    heads = Input("Z", (b, h, t, k))
    assert rearrange(heads, "b h t k -> b t (h k)") == Join(Transpose(heads, (b, t, h, k)), (h, k))


def test_a_product_axis_may_stay_whole() -> None:
    assert rearrange(flat, "b t (h k) -> (h k) b t") == Transpose(flat, (hk, b, t))


def test_nothing_to_do_is_no_node() -> None:
    assert rearrange(flat, "b t (h k) -> b t (h k)") is flat


def test_repeat_gives_up_axes_of_size_one() -> None:
    one, uno = axis("one", 1), axis("uno", 1)
    mask = Input("M", (one, t, uno, k))
    assert repeat(mask, "1 t 1 k -> b t k", [b]) == Repeat(Select(Select(mask, one, 0), uno, 0), (b, t, k))


def test_einsum_is_a_contraction() -> None:
    w = Input("W", (hk, k))
    assert einsum("b t (h k), (h k) k -> b t k", flat, w) == Contract((flat, w), (b, t, k))


REFUSED: list[tuple[str, Callable[[], Expr], str]] = [
    (
        "factors in the other order",
        lambda: rearrange(flat, "b t (k h) -> b h t k"),
        "the pattern says '(k h)' where the axis is '(h k)'\n  in:       'b t (k h) -> b h t k'\n"
        "  axes:     (b: 2, t: 5, (h k): 12)\n"
        "  hint:     (h k) has the factors h k in this order; reading them otherwise is a reshape",
    ),
    (
        "too few axes",
        lambda: rearrange(flat, "b t -> t b"),
        "the pattern names 2 axes, the expression has 3\n  in:       'b t -> t b'\n  axes:     (b: 2, t: 5, (h k): 12)",
    ),
    (
        "an axis lost",
        lambda: rearrange(flat, "b t (h k) -> b t h"),
        "a rearrangement keeps every axis\n  in:       'b t (h k) -> b t h'\n  expected: b t h k\n  got:      b t h\n"
        "  hint:     use repeat to add an axis, einsum to sum one away",
    ),
    (
        "no arrow",
        lambda: rearrange(flat, "b t (h k)"),
        "pattern 'b t (h k)' needs one arrow\n  expected: 'b t (h k) -> b h t k'",
    ),
    (
        "not a pattern",
        lambda: rearrange(flat, "b t (h k -> b h t k"),
        "pattern 'b t (h k -> b h t k' cannot be read at '(h k'\n"
        "  expected: names and parenthesised groups, such as 'b t (h k) -> b h t k'",
    ),
    (
        "a new axis that was not given",
        lambda: repeat(Input("M", (t, k)), "t k -> b t k", []),
        "axis 'b' is neither there nor new\n  in:       't k -> b t k'\n  axes:     (t: 5, k: 4)",
    ),
    (
        "a result that no operand has",
        lambda: einsum("t k, k h -> t b", Input("A", (t, k)), Input("B", (k, h))),
        "axis 'b' of the result is in no operand\n  in:       't k, k h -> t b'\n  axes:     (t: 5, k: 4)\n"
        "  axes:     (k: 4, h: 3)",
    ),
    (
        "another number of operands",
        lambda: einsum("t k, k h -> t h", Input("A", (t, k))),
        "the pattern has 2 operands, 1 were given\n  in:       't k, k h -> t h'\n  axes:     (t: 5, k: 4)",
    ),
]


@pytest.mark.parametrize(("build", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_with_the_axes_shown(build: Callable[[], Expr], message: str) -> None:
    with pytest.raises(AxisProblem) as caught:
        build()
    assert str(caught.value) == message


@st.composite
def patterns(draw: st.DrawFn) -> tuple[Input, str]:
    """An input with plain and product axes, and a rearrangement of it."""
    sizes = iter(draw(st.permutations([2, 3, 4, 5, 6])))
    letters = ["a", "c", "d", "e", "f"][: draw(st.integers(2, 5))]
    plain = [axis(letter, next(sizes)) for letter in letters]

    def grouped(axes: list[Axis]) -> list[list[Axis]]:
        groups: list[list[Axis]] = []
        for one in axes:
            if groups and len(groups[-1]) < 3 and draw(st.booleans()):
                groups[-1].append(one)
            else:
                groups.append([one])
        return groups

    left, right = grouped(plain), grouped(list(draw(st.permutations(plain))))
    over = tuple(product(*group) if len(group) > 1 else group[0] for group in left)
    text = [" ".join("(" + " ".join(a.name for a in g) + ")" if len(g) > 1 else g[0].name for g in side)
            for side in (left, right)]  # fmt: skip
    return Input("X", over), f"{text[0]} -> {text[1]}"


@given(patterns())
@settings(max_examples=60, deadline=None)
def test_numbers_are_those_of_einops(case: tuple[Input, str]) -> None:
    x, pattern = case
    shape = tuple(int(a.size) for a in x.axes)
    array = np.arange(float(np.prod(shape))).reshape(shape)
    sizes = {p.name: int(p.size) for a in x.axes for p in a.primitive()}
    mentioned = {n: sizes[n] for n in sizes if n in pattern}
    assert np.array_equal(evaluate(rearrange(x, pattern), {"X": array}), einops.rearrange(array, pattern, **mentioned))
