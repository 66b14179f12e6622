"""Lifting keeps the value: random graphs, run as graphs and evaluated as expressions, at sizes apart and of 1."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import sympy

from mha_sym.attention.dims import dims
from mha_sym.axes import Axis, axis, blocks, product, size_symbol
from mha_sym.evaluate import evaluate
from mha_sym.expr import Expr, Input, Table
from mha_sym.importers.builder import Builder
from mha_sym.importers.fold import fold
from mha_sym.importers.graph import Graph, ImportProblem
from mha_sym.importers.lifting.lift import lift
from mha_sym.importers.lifting.lifted import in_order
from mha_sym.importers.resize import resized
from mha_sym.importers.run import run

D = dims(h=3)
QKV = axis("c", "d_k")
SIZES = [{"B": 2, "T": 5, "d_k": 4, "d_model": 7}, {"B": 1, "T": 3, "d_k": 2, "d_model": 1}, {"B": 4, "T": 1, "d_k": 1}]

INPUTS: dict[str, Expr] = {
    "x": Input("x", (D.b, D.t, D.hk)), "y": Input("y", (D.b, D.h, D.t, D.k)), "w": Input("w", (D.hk, D.m)),
    "packed": Input("packed", (D.t, blocks(axis("one", 2), axis("two", "d_k"), axis("three", 2)))),
}  # fmt: skip


class Random:
    """A graph made by random operations, each possible where it is done."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.b = Builder()
        self.live = [self.b.input(name, [a.size for a in e.axes]) for name, e in INPUTS.items()]

    def grow(self, steps: int) -> Graph:
        for _ in range(steps):
            one = self.rng.choice(self.live[-5:])
            made = getattr(self, self.rng.choice(("turn", "join", "split", "add", "double", "total", "soft", "part",
                                                  "pieces", "masked", "product_")))(one)  # fmt: skip
            if made is not None:
                self.live.append(made)
        return self.b.graph(out=self.live[-1])

    def turn(self, one: int) -> int:
        order = list(range(len(self.b.shape(one))))
        self.rng.shuffle(order)
        return self.b.permute(one, order)

    def join(self, one: int) -> int | None:
        shape = list(self.b.shape(one))
        if len(shape) < 2:
            return None
        n = self.rng.randrange(len(shape) - 1)
        return self.b.reshape(one, [*shape[:n], shape[n] * shape[n + 1], *shape[n + 2 :]])

    def split(self, one: int) -> int | None:
        """Any size of three factors split anywhere, often across the axes it is made of."""
        shape = list(self.b.shape(one))
        n = self.rng.randrange(len(shape)) if shape else 0
        factors = list(sympy.Mul.make_args(shape[n])) if shape else []
        if len(factors) < 2:
            return None
        self.rng.shuffle(factors)
        return self.b.reshape(one, [*shape[:n], factors[0], sympy.Mul(*factors[1:]), *shape[n + 1 :]])

    def add(self, one: int) -> int:
        """With itself reduced, broadcast back."""
        axis_ = self.rng.randrange(len(self.b.shape(one))) if self.b.shape(one) else None
        other = one if axis_ is None else self.b.reduce("sum", one, [axis_], keep=True)
        return self.b.map(self.rng.choice(("add", "sub", "mul")), one, other)

    def double(self, one: int) -> int:
        return self.b.map("div", one, self.b.size(sympy.sqrt(size_symbol("d_k"))))

    def total(self, one: int) -> int | None:
        return self.b.reduce("sum", one, [0]) if len(self.b.shape(one)) > 2 else None

    def soft(self, one: int) -> int | None:
        return self.b.softmax(one, self.rng.randrange(len(self.b.shape(one)))) if self.b.shape(one) else None

    def part(self, one: int) -> int | None:
        """One position, of an axis of three or of any axis."""
        shape = self.b.shape(one)
        if not shape:
            return None
        n = self.rng.randrange(len(shape))
        return self.b.select(one, n, self.rng.randrange(3) if shape[n] == 3 else 0)

    def pieces(self, one: int) -> int | None:
        """Cut along an axis of three, turned around, and laid end to end again."""
        shape = self.b.shape(one)
        if 3 not in shape:
            return None
        n = shape.index(sympy.Integer(3))
        return self.b.concat([self.b.slice(one, n, at, 1) for at in (2, 0, 1)], n)

    def masked(self, one: int) -> int | None:
        """What is later is hidden, and the rest taken apart by a softmax."""
        shape = self.b.shape(one)
        if len(shape) < 2:
            return None
        rows = self.b.reshape(self.b.iota(shape[-2]), (shape[-2], 1))
        keep = self.b.map("le", self.b.reshape(self.b.iota(shape[-1]), (1, shape[-1])), rows)
        return self.b.softmax(self.b.map("where", keep, one, self.b.size(-sympy.oo)), -1)

    def product_(self, one: int) -> int | None:
        """With itself, over one axis."""
        shape = self.b.shape(one)
        if not 1 <= len(shape) <= 3:
            return None
        n = self.rng.randrange(len(shape))
        left, right = [f"l{i}" for i in range(len(shape))], [f"r{i}" for i in range(len(shape))]
        left[n] = right[n] = "sum"
        return self.b.contract([left, right], [x for x in (*left, *right) if x != "sum"], [one, one])


def compared(graph: Graph, inputs: Mapping[str, Expr], sizes: Mapping[str, int]) -> None:
    """The graph run, and the expression it is lifted to evaluated, on the same numbers."""
    values = {**dict.fromkeys(("B", "T", "d_k", "d_model"), 2), **sizes}
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.normal(size=[int(a.size.subs({size_symbol(n): v for n, v in values.items()})) for a in e.axes])
        for name, e in inputs.items()
    }
    lifted = lift(fold(graph), inputs).outputs["out"]
    assert lifted.keep is None
    expr = in_order(lifted.expr, lifted.leaves)
    used = {name: array for name, array in arrays.items() if name in _names(expr)}
    known = {s.name for e in (expr, *inputs.values()) for a in e.axes for s in a.size.free_symbols}
    fixed = {name: value for name, value in values.items() if name in known and name in _sizes(expr)}
    got = evaluate(resized(expr, fixed), used)
    expected = run(graph, arrays, values)["out"]
    assert np.allclose(np.asarray(got).reshape(expected.shape), expected, rtol=1e-9, atol=1e-9)


def _names(expr: Expr) -> set[str]:
    own = {expr.name} if isinstance(expr, Input | Table) else set()
    return own.union(*map(_names, expr.children)) if expr.children else own


def _sizes(expr: Expr) -> set[str]:
    own = {s.name for a in expr.axes for s in a.size.free_symbols}
    return own.union(*map(_sizes, expr.children)) if expr.children else own


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_keep_their_value(seed: int) -> None:
    graph = Random(seed).grow(9)
    for sizes in SIZES:
        if sizes["T"] == 1 and seed % 3:
            continue
        try:
            compared(graph, INPUTS, sizes)
        except ImportProblem as problem:  # one of the sixty
            assert "cut an axis" in str(problem) or "end to end" in str(problem)


def test_blocks_of_a_packed_axis_are_slices() -> None:
    b = Builder()
    x = b.input("packed", [a.size for a in INPUTS["packed"].axes])
    parts = b.split(x, 1, [2, size_symbol("d_k"), 2])
    graph = b.graph(out=b.matmul(b.swap(parts[0], 0, 1), b.map("mul", parts[2], b.size(3))))
    compared(graph, {"packed": INPUTS["packed"]}, SIZES[0])


def test_a_crossing_reshape_is_remembered_with_its_line() -> None:
    b = Builder()
    x = b.input("x", [a.size for a in INPUTS["x"].axes])
    crossed = b.reshape(x, (size_symbol("B"), 3, size_symbol("T"), -1))
    made = lift(b.graph(out=crossed), {"x": INPUTS["x"]})
    (one,) = made.crossings
    assert [a.name for a in one.before] == ["t", "h"] and [a.size for a in one.after] == [3, size_symbol("T")]
    b = Builder()
    x = b.input("x", [a.size for a in INPUTS["x"].axes])
    whole = lift(b.graph(out=b.reshape(x, (size_symbol("B"), size_symbol("T"), 3, -1))), {"x": INPUTS["x"]})
    assert not whole.crossings


def test_cutting_a_plain_axis_is_refused() -> None:
    b = Builder()
    x = b.input("y", [a.size for a in INPUTS["y"].axes])
    with pytest.raises(ImportProblem, match="cut an axis where nothing is known to begin"):
        lift(b.graph(out=b.slice(x, 2, 1, 2)), {"y": INPUTS["y"]})


def test_names_of_new_axes_follow_sizes() -> None:
    b = Builder()
    x = b.input("x", (size_symbol("T"), size_symbol("T")))
    t, s = axis("t", "T"), axis("s", "T")
    made = lift(b.graph(out=b.matmul(x, x)), {"x": Input("x", (t, s))}).outputs["out"]
    assert [a.name for a in made.leaves] == ["t", "t2"] or [a.name for a in made.leaves] == ["t", "s"]
    assert product(t, s).size == size_symbol("T") ** 2


def test_input_with_other_sizes_is_refused() -> None:
    b = Builder()
    x: Any = b.input("x", (size_symbol("B"),))
    with pytest.raises(ImportProblem, match="has size B"):
        lift(b.graph(out=x), {"x": Input("x", (Axis("t", size_symbol("T")),))})
