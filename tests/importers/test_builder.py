"""What each operation of a graph needs is checked where the graph is built, and told with the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from mha_sym.axes import size_symbol
from mha_sym.importers.builder import Builder
from mha_sym.importers.einsum_labels import labels_of
from mha_sym.importers.graph import ImportProblem, Place
from mha_sym.importers.run import run
from mha_sym.importers.sizes import nonnegative, quotient, same

B, T, H, K = (size_symbol(name) for name in ("B", "T", "h", "d_k"))
LINE = Place("mine.py", 12, "q.reshape(b, t, h, k)")


def builder() -> tuple[Builder, int, int]:
    b = Builder(place=LINE)
    return b, b.input("x", (B, T, H * K)), b.input("w", (H * K, 6))


REFUSED: dict[str, Callable[[Builder, int, int], Any]] = {
    "keeps the number of entries": lambda b, x, w: b.reshape(x, (B, T, H, K, 2)),
    "do not divide by": lambda b, x, w: b.reshape(x, (B, 5, -1)),
    "do not fit together": lambda b, x, w: b.map("add", x, w),
    "names every axis once": lambda b, x, w: b.permute(x, (0, 1, 1)),
    "there is no axis 3": lambda b, x, w: b.reduce("sum", x, [3]),
    "a slice leaves the axis": lambda b, x, w: b.slice(w, 1, 2, 5),
    "does not split into": lambda b, x, w: b.split(x, 2, 5),
    "do not fill": lambda b, x, w: b.split(w, 1, [2, 3]),
    "agree in their other axes": lambda b, x, w: b.concat([w, b.swap(w, 0, 1)], 0),
    "is in no operand": lambda b, x, w: b.contract(["btc", "cn"], "btz", [x, w]),
    "labels and axes": lambda b, x, w: b.contract(["bb", "cn"], "bn", [w, w]),
    "is not in the axis": lambda b, x, w: b.gather(w, 1, [0, 6]),
    "of symbolic size": lambda b, x, w: b.gather(x, 1, [0]),
    "not in the vocabulary": lambda b, x, w: b.map("erf", x),
    "cannot drop axes": lambda b, x, w: b.broadcast(x, (T, H * K)),
    "whole numbers": lambda b, x, w: b.take(w, 0, x),
    "exclude each other": lambda b, x, w: b.attention(x, x, x, b.constant(True), causal=True),
    "no multiple of": lambda b, x, w: b.attention(
        b.reshape(x, (B, 1, T, H * K)), *(b.broadcast(b.reshape(x, (B, 1, T, H * K)), (B, 2, T, H * K)),) * 2,
        grouped=True,
    ),
    "two inputs are called": lambda b, x, w: b.input("x", (B,)),
    "has 1 operands, 2 were given": lambda b, x, w: labels_of(b, "...c", (3, 2)),
    "the operand has 3": lambda b, x, w: labels_of(b, "bc,cn->bn", (3, 2)),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused_with_the_line(words: str) -> None:
    with pytest.raises(ImportProblem, match=words) as caught:
        REFUSED[words](*builder())
    assert caught.value.where == "mine.py:12, q.reshape(b, t, h, k)"


@pytest.mark.parametrize("equation", [
    "...tk,...sk->...ts", "ab,bc", "...ab,bc", "ba", "a...,...->a...", " bhtd, bhsd -> bhts", "...,...", "Ba,ac",
])  # fmt: skip
def test_an_equation_means_what_it_means_to_numpy(equation: str) -> None:
    rng = np.random.default_rng(0)
    named = {letter: 2 + n for n, letter in enumerate("tksabchdBn")}
    texts = equation.replace(" ", "").split("->")[0].split(",")
    hidden = [(4, 3)[n % 2 :] for n in range(len(texts))]  # axes under an ellipsis meet from the last
    arrays = []
    for text, more in zip(texts, hidden, strict=True):
        head, dots, tail = text.partition("...")
        arrays.append(rng.normal(size=[*map(named.get, head), *(more if dots else ()), *map(named.get, tail)]))
    b = Builder()
    refs = [b.input(f"x{n}", one.shape) for n, one in enumerate(arrays)]
    labels = labels_of(b, equation, [one.ndim for one in arrays])
    made = run(b.graph(y=b.contract(labels.rows, labels.out, refs)), {f"x{n}": a for n, a in enumerate(arrays)}, {})
    np.testing.assert_allclose(made["y"], np.einsum(equation, *arrays), rtol=1e-12)


def test_what_depends_on_the_sizes_is_a_condition() -> None:
    b, x, _ = builder()
    b.slice(x, 1, 0, 8)
    (one,) = b.notes.conditions
    assert str(one) == "8 <= T" and one.place == LINE
    with pytest.raises(ImportProblem, match="cannot hold"):
        b.condition(sympy.false)


def test_casts_are_recorded() -> None:
    b, x, _ = builder()
    b.cast(x, "float32")
    assert b.notes.casts == (f"float64 to float32 at {LINE}",)
    assert b.dtype(b.cast(b.constant(np.ones(3, bool)), "float64")) == "float64" and len(b.notes.casts) == 1


def test_sizes_are_compared_as_polynomials() -> None:
    assert same(H * (K + 1), K * H + H) and not same(H, K)
    assert nonnegative(T * K - 1) and nonnegative(2 * T - 2) and not nonnegative(T - 2) and not nonnegative(T - H)
    assert quotient(6 * H * K, 2 * K) == 3 * H and quotient(H, sympy.Integer(2)) is None
    assert quotient(H * K + K, K) == H + 1
