"""Marking answers: right ones in every spelling, wrong ones with the axis that went wrong, unreadable ones refused."""

from __future__ import annotations

import einops
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_sym.ask.marking import number, pattern, read_pattern, read_shapes, shapes
from mha_sym.axes import axis, product
from mha_sym.errors import Problem

B, T, H, K = axis("b", 2), axis("t", 5), axis("h", 3), axis("k", 4)
WAY = [(B, T, product(H, K)), (B, T, H, K), (B, H, T, K)]


@pytest.mark.parametrize(
    "text",
    [
        "(2,5,12)->(2,5,3,4)->(2,3,5,4)",
        " ( 2, 5 ,12) -> (2,5,3,4) → (2,3,5,4,) ",
        "(2,5,3,4)->(2,3,5,4)",  # what the task told may be left out
    ],
)
def test_right_shapes(text: str) -> None:
    assert shapes(WAY, told=True)(text).right


@pytest.mark.parametrize(
    ("text", "axis_name", "words"),
    [
        ("(2,5,12)->(2,3,5,4)->(2,3,5,4)", "t", "Shape 2 is wrong at axis 2: it is t, of size 5, and you wrote 3."),
        ("(2,5,12)->(2,5,4,3)->(2,3,5,4)", "h", "Shape 2 is wrong at axis 3: it is h, of size 3, and you wrote 4."),
        ("(2,5,12)->(2,5,3,4)->(2,3,4,5)", "t", "Shape 3 is wrong at axis 3: it is t, of size 5, and you wrote 4."),
        ("(2,5,12)->(2,5,3,5)->(2,3,5,4)", "k", "It would hold 150 numbers, and there are 120."),
        ("(2,5,12)->(10,3,4)->(2,3,5,4)", "b", "Shape 2 has 4 axes (b, t, h, k), and you wrote 3."),
        ("(2,5,12)->(2,5,3,4)", "", "there are 3 shapes on the way, and you wrote 2."),
        ("(2,5,12)->(2,5,3,4)->(2,3,5,4)->(2,3,5,5)", "", "there are 3 shapes on the way, and you wrote 4."),
    ],
)
def test_wrong_shapes_name_the_axis(text: str, axis_name: str, words: str) -> None:
    marked = shapes(WAY, told=True)(text)
    assert not marked.right
    assert marked.axis == axis_name
    assert any(words in one for one in marked.words)


def test_the_first_shape_is_asked_for_where_the_task_did_not_tell_it() -> None:
    assert not shapes(WAY)("(2,5,3,4)->(2,3,5,4)").right


UNREADABLE = [
    "", "   ", "2 5 12", "(2,5,12)->", "(2,-5)", "(2,5.0)", "(2,x)", "__import__('os')", "(2,5)" * 60,
    "(1234567890123)", "((2,5))", "(2,,5)", "()", "(٢,٥)", "(2,5)\x00", "[2,5)", "(2,5", "2,5)",
]  # fmt: skip


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        read_shapes(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_shapes, read_pattern, number(3, {}), pattern("b t (h k) -> b h t k"), shapes(WAY)):
        try:
            read(text)
        except Problem as problem:
            assert problem.what


# ---------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    "text",
    [
        "b t (h k) -> b h t k", "b t (h k)->b h t k", "n s (heads d) -> n heads s d", "  b  t ( h  k ) → b h t k ",
        "k h (t b) -> k t h b",  # the same letters, used otherwise, are other names only if each stands for one axis
    ],
)  # fmt: skip
def test_right_patterns_do_what_ours_does(text: str) -> None:
    marked = pattern("b t (h k) -> b h t k")(text)
    if "(t b)" in text:
        assert not marked.right  # our own letters mean our own axes
        return
    assert marked.right
    x = np.arange(2 * 5 * 12).reshape(2, 5, 12)
    name = text.split("(")[1].split()[0]
    want = x.reshape(2, 5, 3, 4).transpose(0, 2, 1, 3)
    assert np.array_equal(einops.rearrange(x, " ".join(text.replace("→", "->").split()), **{name: 3}), want)


@pytest.mark.parametrize(
    ("text", "axis_name", "words"),
    [
        ("b t (h k) -> b t h k", "h", "Axis 2 on the right is h, where you put t."),
        ("b t (k h) -> b h t k", "h", "(k h) on the left: the first factor is the slowest, so the axis is (h k)."),
        ("b t (h k) -> b h k t", "t", "Axis 3 on the right is t, where you put k."),
        ("b t (h k) -> b h (t k)", "t", "Axis 3 on the right is t, and you wrote (t k)."),
        ("b t (h k) -> b h t", "k", "k is missing on the right."),
        ("b t (h k) -> b h t k s", "s", "s does not belong on the right."),
        ("b t (h k) -> b h t t", "t", "t stands twice on the right."),
        ("b t c -> b h t k", "(h k)", "The left side has the axes b t (h k), and you wrote b t c."),
        ("n s (d g) -> n d g s", "t", "Axis 3 on the right is t, where you put k."),
        ("b t (h k), m -> b h t k", "", "The pattern has 1 operands, and you wrote 2."),
    ],
)
def test_wrong_patterns_name_the_axis(text: str, axis_name: str, words: str) -> None:
    marked = pattern("b t (h k) -> b h t k")(text)
    assert not marked.right
    assert (marked.axis, marked.words) == (axis_name, (words,))


def test_products_of_two() -> None:
    mark = pattern("b h t k, b h s k -> b h t s")
    assert mark("b h t k, b h s k -> b h t s").right
    for numpys in ("bhtk,bhsk->bhts", " nhqd , nhkd -> nhqk "):
        assert mark(numpys).right
    assert mark("bhtk,bhsk->bhst").axis == "t"
    assert mark("b h s k, b h t k -> b h t s").right
    assert mark("n g i d, n g j d -> n g i j").right
    assert mark("b h t k, b h s k -> b h s t").axis == "t"
    assert mark("b h t k, b h t k -> b h t t").axis == "s"
    assert mark("n g i d, n g j e -> n g i j").words == ("k has two names, d and e.",)
    assert mark("n g i d, n g i d -> n g i i").words == ("i stands for t and for s.",)


@pytest.mark.parametrize(
    "text", ["b t (h k)", "b t -> t -> b", "b ... -> ... b", "b t (h k -> b", "b + t -> t", "ä b -> b ä", "x" * 300]
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        read_pattern(text)


# ---------------------------------------------------------------- numbers


def test_numbers() -> None:
    mark = number(1024, {1000: "that is no power of two"})
    assert mark("1024").right
    assert mark(" 1,024 ").right
    assert mark("1000").words == ("1000 is not right: that is no power of two.",)
    assert mark("3").words == ("3 is not right.",)
    for text in ("10,24", "1e3", "-1024", "0x400", "١٠٢٤", "9" * 19, "2**10"):
        with pytest.raises(Problem, match="is not a whole number"):
            mark(text)
