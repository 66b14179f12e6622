"""Folding keeps the value and says what it identified; what only looks like a softmax or a triangle stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from mha_sym.axes import size_symbol
from mha_sym.importers import graph as g
from mha_sym.importers.builder import Builder
from mha_sym.importers.constants import read_array, read_number
from mha_sym.importers.fold import fold
from mha_sym.importers.run import run

B, T, H, K, G = (size_symbol(name) for name in ("B", "T", "h", "d_k", "G"))
SIZES = {"B": 2, "T": 5, "h": 3, "d_k": 4, "G": 3}
SHAPE = (B, H, T, T)

SOFTMAX: dict[str, Callable[[Builder, int], int]] = {
    "plain": lambda b, x: b.map("div", b.map("exp", x), b.reduce("sum", b.map("exp", x), [3], keep=True)),
    "maximum of the row": lambda b, x: _open(b, x, b.reduce("max", x, [3], keep=True), 3),
    "maximum of all": lambda b, x: _open(b, x, b.reduce("max", x, [0, 1, 2, 3]), 3),
    "over another axis": lambda b, x: _open(b, x, b.reduce("max", x, [1], keep=True), 1),
    "maximum and minus infinity": lambda b, x: _open(
        b, x, b.map("max", b.size(-sympy.oo), b.reduce("max", x, [3], keep=True)), 3
    ),
}  # fmt: skip

NO_SOFTMAX: dict[str, Callable[[Builder, int], int]] = {
    "sum over two axes": lambda b, x: b.map(
        "div", b.map("exp", x), b.reduce("sum", b.map("exp", x), [2, 3], keep=True)
    ),
    "sum laid along the row": lambda b, x: b.map(
        "div", b.map("exp", x), b.reduce("sum", b.map("exp", b.reduce("sum", x, [0, 1])), [1])
    ),
    "another exponent below": lambda b, x: b.map(
        "div", b.map("exp", x), b.reduce("sum", b.map("exp", b.map("add", x, b.size(1))), [3], keep=True)
    ),
}  # fmt: skip

#: a softmax of the scores less something that is not the maximum of the row: nothing is known to cancel
SHIFT_KEPT: dict[str, Callable[[Builder, int], int]] = {
    "maximum of the column": lambda b, x: _open(b, x, b.reduce("max", x, [2], keep=True), 3),
    "maximum laid along the row": lambda b, x: _open(b, x, b.reduce("max", x, [0, 1, 3]), 3),
    "maximum of something else": lambda b, x: _open(b, x, b.reduce("max", b.map("mul", x, x), [3], keep=True), 3),
}  # fmt: skip


def _open(b: Builder, x: int, shift: int, axis: int) -> int:
    e = b.map("exp", b.map("sub", x, shift))
    return b.map("div", e, b.reduce("sum", e, [axis], keep=True))


def made(code: Callable[[Builder, int], int]) -> tuple[g.Graph, g.Graph]:
    b = Builder()
    graph = b.graph(out=code(b, b.input("x", SHAPE)))
    return graph, fold(graph)


def same_value(*graphs: g.Graph) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 5))
    first, second = (run(one, {"x": x}, SIZES)["out"] for one in graphs)
    assert np.allclose(first, second, rtol=1e-12)


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_softmax_written_out_is_recognised(name: str) -> None:
    graph, folded = made(SOFTMAX[name])
    assert any(isinstance(node.op, g.Softmax) for node in folded.nodes)
    assert not any(node.op == g.Map("exp") for node in folded.nodes)
    assert len(folded.notes.readings) == (name != "plain")
    same_value(graph, folded)


@pytest.mark.parametrize("name", NO_SOFTMAX)
def test_what_only_looks_like_a_softmax_stays(name: str) -> None:
    graph, folded = made(NO_SOFTMAX[name])
    assert not any(isinstance(node.op, g.Softmax) for node in folded.nodes)
    same_value(graph, folded)


@pytest.mark.parametrize("name", SHIFT_KEPT)
def test_only_the_maximum_of_the_row_is_dropped(name: str) -> None:
    graph, folded = made(SHIFT_KEPT[name])
    assert any(node.op == g.Map("sub") for node in folded.nodes) and not folded.notes.readings
    same_value(graph, folded)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "kept", "added"])
@pytest.mark.parametrize("grouped", [False, True])
def test_attention_is_opened_by_its_definition(causal: bool, kind: str, grouped: bool) -> None:
    if causal and kind != "none":
        return
    b = Builder()
    heads = G * 2 if grouped else G
    q, k, v = (b.input(n, (B, h, s, K)) for n, h, s in (("q", heads, T), ("k", G, H), ("v", G, H)))
    mask = {"none": None, "kept": "bool", "added": "float64"}[kind]
    masks = () if mask is None else (b.input("mask", (T, H), mask),)
    graph = b.graph(out=b.attention(q, k, v, *masks, causal=causal, scale=sympy.Float(0.3), grouped=grouped))
    folded = fold(graph)
    assert not any(isinstance(node.op, g.Attention) for node in folded.nodes)
    rng = np.random.default_rng(1)
    wide = 6 if grouped else 3
    arrays = {name: rng.normal(size=(2, heads, n, 4)) for name, heads, n in (("q", wide, 5), ("k", 3, 3), ("v", 3, 3))}
    arrays["mask"] = rng.normal(size=(5, 3)) if kind == "added" else np.arange(15).reshape(5, 3) % 2 == 0
    first, second = (run(one, arrays, SIZES)["out"] for one in (graph, folded))
    assert np.allclose(first, second, rtol=1e-12)


def test_dead_values_go_and_inputs_stay() -> None:
    b = Builder()
    x, y = b.input("x", (T,)), b.input("unused", (H,))
    b.map("exp", y)
    folded = fold(b.graph(out=b.map("neg", x)))
    assert [type(n.op).__name__ for n in folded.nodes] == ["Input", "Input", "Map"]


def test_a_cut_mask_is_made_as_long_as_it_is_cut() -> None:
    """A buffer of 64 positions that is cut to T: no value of 64 positions is left."""
    b = Builder()
    table = b.constant(np.tril(np.ones((1, 1, 64, 64))))
    cut = b.slice(b.slice(table, 2, 0, T), 3, 0, T)
    keep = b.map("eq", cut, b.size(0))
    graph = b.graph(out=b.map("where", keep, b.size(0), b.input("x", SHAPE)))
    folded = fold(graph)
    assert not any(64 in node.shape for node in folded.nodes)
    assert sorted(map(str, folded.notes.conditions)) == ["T <= 64"]
    same_value(graph, folded)


# ---------------------------------------------------------------- numbers and tables

NUMBERS: list[tuple[float, str, list[int], sympy.Expr]] = [
    (6**-0.5, "float64", [6], 1 / sympy.sqrt(6)), (1 / np.sqrt(6), "float64", [24, 6], 1 / sympy.sqrt(6)),
    (float(np.float32(6) ** np.float32(-0.5)), "float32", [6], 1 / sympy.sqrt(6)),
    (24**-0.25, "float64", [4, 6], 24 ** sympy.Rational(-1, 4)), (0.1, "float64", [], sympy.Rational(1, 10)),
    (0.125, "float64", [64], sympy.Rational(1, 8)), (-1e9, "float64", [], sympy.Integer(-(10**9))),
    (1 / 3, "float64", [7], sympy.Rational(1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("value, dtype, sizes, exact", NUMBERS)
def test_a_float_is_read_as_the_number_it_rounds(value: float, dtype: str, sizes: list[int], exact: Any) -> None:
    found, words = read_number(value, dtype, sizes)
    assert found == exact
    assert bool(words) == (sympy.Rational(*value.as_integer_ratio()) != exact)


@pytest.mark.parametrize("value", [0.40825, 6**-0.5 * (1 + 1e-14), 0.3333])
def test_a_float_that_is_near_is_read_as_itself(value: float) -> None:
    found, words = read_number(value, "float64", [6])
    assert found == sympy.Rational(*value.as_integer_ratio()) and not words


TABLES: dict[str, tuple[np.ndarray[Any, Any], bool]] = {
    "lower": (np.tril(np.ones((5, 5), bool)), True), "lower, shifted": (np.tril(np.ones((5, 5)), k=2), True),
    "lower, shifted down": (np.tril(np.ones((5, 5)), k=-1), True),
    "strictly upper": (np.triu(np.ones((4, 4), bool), 1), True),
    "additive": (np.triu(np.full((6, 6), -np.inf), 1)[None, None], True),
    "finite": (np.triu(np.full((3, 3), -1e9), 1), True),
    "identity": (np.eye(4), True), "equal": (np.full((2, 3), 0.5), True), "positions": (np.arange(7), True),
    "not square": (np.tril(np.ones((3, 5))), True), "random": (np.random.default_rng(0).normal(size=(3, 3)), False),
    "one entry off": (np.tril(np.ones((4, 4))) + np.eye(4)[::-1] * 0.0 + np.outer(np.eye(4)[3], np.eye(4)[0]), False),
    "band": (np.tril(np.triu(np.ones((5, 5)), -1), 1), False),
    "three values": (np.tril(np.ones((4, 4))) + np.eye(4), False),
    "backwards": (np.arange(7)[::-1], False),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_recognised_only_where_every_entry_agrees(name: str) -> None:
    value, known = TABLES[name]
    b = Builder()
    ref = read_array(b, value)
    assert (ref is not None) == known
    if ref is not None:
        got = run(b.graph(out=ref), {}, {})["out"]
        assert np.array_equal(got, value) and got.shape == value.shape
        assert bool(b.notes.readings) == (name != "equal")
