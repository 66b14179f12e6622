"""Traces against shapes of NumPy and einops, and against the accounting that every change of axes must pass."""

from __future__ import annotations

import copy
import itertools
from collections import Counter

import einops
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_sym.attention.dims import combined_weights, cross_inputs, dims, head_weights, self_inputs
from mha_sym.attention.forms import Options, combined, head_sum, separate
from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product
from mha_sym.errors import AxisProblem
from mha_sym.expr import (
    NODES,
    Block,
    Blocks,
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Join,
    Map,
    Named,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Stack,
    Table,
    Total,
    Transpose,
)
from mha_sym.pattern import rearrange
from mha_sym.trace import CHANGES, Step, change_of, trace, trace_pattern, trace_stages

D = dims(B=2, T=5, S=7, d_model=11, h=3, d_k=4, d_v=6)
FORMS = {
    "combined": (combined, combined_weights),
    "separate": (separate, head_weights),
    "head_sum": (head_sum, head_weights),
}


def form(name: str, symbolic: bool = False) -> Expr:
    make, weights = FORMS[name]
    d = dims(S="S") if symbolic else D
    keep = Compare("le", d.s, d.t)
    return make(d, cross_inputs(d), weights(d, True), Options(keep=keep)).y


def shape(step: Step) -> tuple[int, ...]:
    return tuple(int(one.size) for one in step.axes)


A, B, C = axis("a", 2), axis("b", 3), axis("c", 5)
AB = product(A, B)
X = Input("X", (A, B, C))
R = Index("r", A)
P = Permutation("pi", B)
PARTS = (axis("p", 2), axis("q", 3))
WHOLE = blocks(*PARTS)

#: one of each node, over axes that no two sizes can confuse
SAMPLES: dict[type[Expr], Expr] = {
    Input: X,
    Scalar: Scalar(sympy.Integer(3)),
    Table: Table("I", (A,), (0, 1)),
    Compare: Compare("le", A, B),
    Map: X + Input("y", (B,)),
    Contract: Contract((X, Input("W", (C, AB))), (A, AB)),
    Reduce: Reduce("max", X, (A, C)),
    Softmax: Softmax(X, (C,)),
    Split: Split(Input("Y", (C, AB)), AB),
    Join: Join(X, (A, B)),
    Transpose: Transpose(X, (C, A, B)),
    Repeat: Repeat(Input("y", (B,)), (A, B)),
    Rename: Rename(X, A, axis("z", 2)),
    Reshape: Reshape(X, (axis("u", 10), axis("v", 3))),
    Permute: Permute(X, P),
    Select: Select(X, B, 2),
    Stack: Stack(Select(X, A, R), R),
    Concat: Concat(Select(X, A, R), R, B),
    Total: Total(Select(X, A, R), R),
    Blocks: Blocks((Input("l", (PARTS[0], C)), Input("m", (PARTS[1], C))), PARTS),
    Block: Block(Input("w", (C, WHOLE)), WHOLE, 1),
    Named: Named(X, "Q"),
}


def explained(step: Step) -> Counter[Axis]:
    """The axes that a result must have if ``step.change`` is the whole truth."""
    change = step.change
    if change.reread:
        return Counter(step.axes)
    axes = Counter({one: 1 for array in step.inputs for one in array})
    lost = [*change.summed, *change.maximum, *change.fixed, *change.split]
    if isinstance(step.node, Total):
        lost.remove(step.node.index.axis)  # the family is added up; its axis was never an axis of the body
    axes.subtract(lost)
    axes.update(factor for one in change.split for factor in one.factors)
    axes.update(change.added)
    if isinstance(step.node, Block):
        axes.update([step.node.axis_.blocks[step.node.number]])
    for one in change.joined:
        parts = [part for part in (one.factors or one.blocks) if axes[part] > 0]
        axes.subtract(parts)
        axes.update([one])
    for renaming in change.renamed:
        axes.subtract([renaming.old])
        axes.update([renaming.new])
    return +axes


# ---------------------------------------------------------------- every node


def test_every_node_is_traced() -> None:
    assert set(CHANGES) == set(SAMPLES) == set(NODES)


@pytest.mark.parametrize("node", [n for n in NODES if n not in (Input, Scalar, Table, Compare)])
def test_the_change_explains_the_axes(node: type[Expr]) -> None:
    step = trace(SAMPLES[node])[-1]
    assert explained(step) == Counter(SAMPLES[node].axes)
    assert step.axes == SAMPLES[node].axes


@pytest.mark.parametrize("name", FORMS)
def test_the_changes_of_a_form_explain_its_axes(name: str) -> None:
    for step in trace(form(name)):
        if step.reads:
            assert explained(step) == Counter(step.axes)


@pytest.mark.parametrize(
    ("node", "field", "names"),
    [
        (Contract, "summed", ["b", "c"]),
        (Reduce, "maximum", ["a", "c"]),
        (Softmax, "normalised", ["c"]),
        (Split, "split", ["(a b)"]),
        (Join, "joined", ["(a b)"]),
        (Transpose, "moved", ["c", "a", "b"]),
        (Repeat, "added", ["a"]),
        (Permute, "permuted", ["b"]),
        (Select, "fixed", ["b"]),
        (Stack, "added", ["a"]),
        (Concat, "joined", ["(a b)"]),
        (Total, "summed", ["a"]),
        (Blocks, "joined", ["(p + q)"]),
        (Block, "fixed", ["(p + q)"]),
    ],
)
def test_what_a_node_does(node: type[Expr], field: str, names: list[str]) -> None:
    expr = SAMPLES[node]
    if node is Contract:
        expr = Contract((X, Input("W", (C, B))), (A,))
    assert [one.name for one in getattr(change_of(expr), field)] == names


def test_a_transpose_moves_only_what_stands_elsewhere() -> None:
    swapped = change_of(Transpose(X, (A, C, B)))
    assert [one.name for one in swapped.moved] == ["c", "b"]
    assert change_of(Transpose(X, (A, B, C))).moved == ()


def test_an_unknown_node_is_an_error() -> None:
    class Other(Expr):
        def _axes(self) -> tuple[Axis, ...]:
            return ()

    with pytest.raises(NotImplementedError, match="Other has no row in mha_sym"):
        change_of(Other())


# ---------------------------------------------------------------- forms against arrays


def numpy_shapes() -> dict[str, tuple[int, ...]]:
    """Shapes of the named arrays of a combined layer that NumPy makes."""
    rng = np.random.default_rng(0)
    x_q, x_kv = rng.normal(size=(2, 5, 11)), rng.normal(size=(2, 7, 11))
    w_q, w_k, w_v, w_o = (rng.normal(size=s) for s in ((11, 12), (11, 12), (11, 18), (18, 11)))
    flat = {"Q_flat": x_q @ w_q, "K_flat": x_kv @ w_k, "V_flat": x_kv @ w_v}
    q, k = flat["Q_flat"].reshape(2, 5, 3, 4).swapaxes(1, 2), flat["K_flat"].reshape(2, 7, 3, 4).swapaxes(1, 2)
    v = flat["V_flat"].reshape(2, 7, 3, 6).swapaxes(1, 2)
    scores = q @ k.swapaxes(2, 3) / 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    z = weights @ v
    c = z.swapaxes(1, 2).reshape(2, 5, 18)
    arrays = flat | {"Q": q, "K": k, "V": v, "S": scores, "A": weights, "Z": z, "C": c, "Y": c @ w_o}
    return {name: array.shape for name, array in arrays.items()}


def test_combined_form_has_the_shapes_of_numpy() -> None:
    found = {step.name: shape(step) for step in trace(form("combined"))}
    for name, expected in numpy_shapes().items():
        assert found[name] == expected


def test_one_head_has_the_shapes_of_a_slice() -> None:
    whole = numpy_shapes()
    steps = {step.name: step for step in trace(form("separate"))}
    for name in ("Q", "K", "V", "S", "A", "Z"):
        batch, _, *rest = whole[name]
        assert shape(steps[f"{name}^(r)"]) == (batch, *rest)
        assert [one.name for one in steps[f"{name}^(r)"].family] == ["r"]
    assert shape(steps["Concat"]) == whole["C"]
    assert steps["Concat"].family == ()


@pytest.mark.parametrize("name", FORMS)
def test_steps_read_earlier_steps_and_none_is_made_twice(name: str) -> None:
    y = form(name, symbolic=True)
    steps = trace(y + copy.deepcopy(y))
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        assert all(place < step.number for place in step.reads)
        assert step.inputs == tuple(steps[place - 1].axes for place in step.reads)
    assert [step.operation for step in steps[:-1]] == [step.operation for step in trace(y)]
    assert steps[-1].reads == (len(steps) - 1,) * 2


@pytest.mark.parametrize("name", ["separate", "head_sum"])
def test_what_a_head_does_not_change_comes_before_the_heads(name: str) -> None:
    steps = trace(form(name))
    places = [step.number for step in steps if step.family]
    first_block = [step for step in steps if step.number < places[0]]
    assert {step.name for step in first_block} >= {"X_q", "X_k", "X_v", "W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"}
    gaps = [b - a for a, b in itertools.pairwise(places) if b != a + 1]
    assert len(gaps) == (1 if name == "separate" else 0)  # W_O is stacked in a family of its own


def test_stages_are_marked_where_they_end() -> None:
    d = dims()
    for make, weights in FORMS.values():
        stages = make(d, self_inputs(d), weights(d))
        steps = trace_stages(stages)
        ends = {name: step for step in steps for name in step.stages}
        assert list(ends) == list(stages.items())
        for name, expr in stages.items().items():
            assert ends[name].axes == expr.axes


def test_names_go_to_the_step_that_makes_the_value() -> None:
    inner = Named(Named(Transpose(X, (B, A, C)), "inner", "why"), "outer", "because")
    assert [(s.name, s.reason, s.operation) for s in trace(inner)] == [
        ("X", "", "input"),
        ("outer", "because", "transpose"),
    ]


def test_an_input_keeps_its_name_and_a_second_name_is_a_step() -> None:
    assert [(s.name, s.operation) for s in trace(Named(X, "Q"))] == [("X", "input"), ("Q", "named")]
    moved = Transpose(X, (B, A, C))
    twice = Map("add", (moved, Named(moved, "M")))
    assert [(s.name, s.operation) for s in trace(twice)][-2:] == [("M", "named"), ("", "add")]


def test_numbers_in_a_product_are_no_steps() -> None:
    scaled = X * sympy.Rational(1, 2)
    assert [step.operation for step in trace(scaled)] == ["input", "mul"]
    assert [step.operation for step in trace(Repeat(Scalar(sympy.Integer(1)), (A,)))] == ["scalar", "repeat"]


def test_nested_families_show_both_indices() -> None:
    outer, inner = Index("g", A), Index("r", B)
    one = Map("exp", (Select(Select(X, A, outer), B, inner),))
    steps = trace(Total(Total(one, inner), outer))
    assert [tuple(index.name for index in step.family) for step in steps] == [
        (), ("g",), ("g", "r"), ("g", "r"), ("g",), (),
    ]  # fmt: skip


def test_a_step_is_made_only_for_the_indices_on_which_it_depends() -> None:
    outer, inner = Index("g", A), Index("r", B)
    of_inner = Map("exp", (Select(Input("y", (B, C)), B, inner),))
    of_both = Map("mul", (of_inner, Select(Input("z", (A, C)), A, outer)))
    steps = {step.operation: step for step in trace(Total(Total(of_both, inner), outer))}
    assert [index.name for index in steps["exp"].family] == ["r"]
    assert [index.name for index in steps["mul"].family] == ["g", "r"]


def test_one_head_alone_is_no_family() -> None:
    assert [step.family for step in trace(Select(X, A, R))] == [(), ()]


# ---------------------------------------------------------------- patterns


def test_the_exercise() -> None:
    """(2,5,12) with three heads: (2,5,3,4), then (2,3,5,4)."""
    steps = trace_pattern((2, 5, 12), "b t (h k) -> b t h k", "b t h k -> b h t k", sizes={"h": 3})
    assert [shape(step) for step in steps] == [(2, 5, 12), (2, 5, 3, 4), (2, 3, 5, 4)]
    assert [step.name for step in steps] == ["x", "pattern 1", "pattern 2"]


def test_a_pattern_back_and_forth_ends_where_it_began() -> None:
    there, back = "b t (h k) -> b h t k", "b h t k -> b t (h k)"
    steps = trace_pattern((2, 5, 12), there, back, sizes={"k": 4})
    assert steps[0].axes == steps[-1].axes


def test_a_pattern_that_does_nothing_is_still_told() -> None:
    steps = trace_pattern((2, 5), "b t -> b t")
    assert [(step.name, shape(step)) for step in steps] == [("x", (2, 5)), ("pattern 1", (2, 5))]


def test_a_copy_along_a_new_axis() -> None:
    steps = trace_pattern((5, 7), "t s -> b t s", sizes={"b": 2})
    assert shape(steps[-1]) == (2, 5, 7)
    assert [one.name for one in steps[-1].change.added] == ["b"]


def test_symbolic_sizes_and_axes() -> None:
    d = dims()
    by_axes = trace_pattern((d.b, d.t, d.hk), "b t (h k) -> b h t k")
    width = d.h.size * d.k.size
    by_sizes = trace_pattern(("B", "T", width), "b t (h k) -> b h t k", sizes={"h": "h"})
    assert by_axes[-1].axes == by_sizes[-1].axes == (d.b, d.h, d.t, d.k)
    assert [step.axes for step in trace_pattern((d.b, d.t))] == [(d.b, d.t)]


@pytest.mark.parametrize(
    ("array", "patterns", "sizes", "message"),
    [
        ((2, 5, 12), ["b t (h k) -> b t h k"], {}, "the sizes of h and k do not follow from the shape"),
        ((2, 5, 12), ["b t (h k) -> b t h k"], {"h": 5}, r"\(h k\) of size 12 does not agree with h = 5"),
        ((2, 5, 12), ["b t (h k) -> b t h k"], {"h": 3, "k": 5}, "does not agree with h = 3, k = 5"),
        ((2, 5, 12), ["b t c -> b t c"], {"t": 4}, "t of size 5 does not agree with t = 4"),
        ((2, 5), ["b t (h k) -> b t h k"], {"h": 3}, "the pattern names 3 axes, the array has 2"),
        ((2, 5, 12), ["b t (h k) -> b t h k", "b t k h -> b h t k"], {"h": 3}, "the pattern says 'k' where"),
        ((2, 5, 0), ["b t c -> t b c"], {}, "axis 'c' cannot have size 0"),
        ((2, 5), ["b t b t"], {}, "needs one arrow"),
        ((2, 5), [], {}, "sizes alone have no names"),
    ],
)
def test_patterns_that_do_not_fit(
    array: tuple[int, ...], patterns: list[str], sizes: dict[str, int | str | sympy.Expr], message: str
) -> None:
    with pytest.raises(AxisProblem, match=message):
        trace_pattern(array, *patterns, sizes=sizes)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_random_patterns_have_the_shapes_of_einops(data: st.DataObject) -> None:
    names = list("abcde")[: data.draw(st.integers(1, 5))]
    sizes = dict(zip(names, data.draw(st.permutations([2, 3, 5, 7, 4])), strict=False))

    def side(order: list[str]) -> str:
        groups: list[list[str]] = []
        for name in order:
            if groups and data.draw(st.booleans()):
                groups[-1].append(name)
            else:
                groups.append([name])
        return " ".join(group[0] if len(group) == 1 else f"({' '.join(group)})" for group in groups)

    left = side(names)
    pattern = f"{left} -> {side(data.draw(st.permutations(names)))}"
    array = einops.rearrange(np.arange(np.prod(list(sizes.values()))), f"({' '.join(names)}) -> {left}", **sizes)
    steps = trace_pattern(array.shape, pattern, sizes=sizes)
    assert shape(steps[-1]) == einops.rearrange(array, pattern, **sizes).shape
    for step in steps[1:]:
        assert explained(step) == Counter(step.axes)


def test_a_pattern_of_the_language_is_traced_as_split_transpose_join() -> None:
    q = Input("Q", (axis("t", 5), product(axis("h", 3), axis("k", 4))))
    back = rearrange(rearrange(q, "t (h k) -> h t k"), "h t k -> t (h k)")
    assert [step.operation for step in trace(back)] == ["input", "split", "transpose", "transpose", "join"]
