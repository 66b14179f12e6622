"""Counts against loops that count, against torch, and against formulas known from the literature."""

from __future__ import annotations

import itertools
import math

import pytest
import sympy

from mha_sym.attention.dims import (
    combined_weights,
    cross_inputs,
    dims,
    head_weights,
    join_heads,
    self_inputs,
    split_heads,
)
from mha_sym.attention.forms import combined, separate
from mha_sym.axes import axis
from mha_sym.count import (
    count,
    number,
    parameter_expr,
    parameters,
    score_expr,
)
from mha_sym.errors import AxisProblem
from mha_sym.expr import (
    Expr,
    Input,
    Map,
    Reduce,
    Repeat,
    Scalar,
)
from mha_sym.pattern import einsum
from tests.counted import FORMS, SIZES, B, D, S, T, d_k, d_model, d_v, each_bias, each_form, h, layer

# ---------------------------------------------------------------- what is known of attention


@each_form
def test_parameters_without_biases(form: str) -> None:
    assert parameters(layer(form, False).y) == sympy.expand(2 * d_model * h * d_k + 2 * d_model * h * d_v)


@each_form
def test_biases_add_their_entries(form: str) -> None:
    found = count(layer(form, True).y)
    assert found.biases == sympy.expand(2 * h * d_k + h * d_v + d_model)
    assert found.parameters == found.weights + found.biases
    assert found.weights == count(layer(form, False).y).parameters


@each_form
def test_usual_width_gives_four_squares_whatever_the_heads(form: str) -> None:
    d = dims(d_model=h * d_k, d_v=d_k)
    make, weights = FORMS[form]
    assert sympy.expand(parameters(make(d, self_inputs(d), weights(d)).y) - 4 * (h * d_k) ** 2) == 0


def test_equal_widths_of_head_and_model_do_not_give_four_squares() -> None:
    d = dims(d_k="d_model", d_v="d_model")
    assert parameters(combined(d, self_inputs(d), combined_weights(d)).y) == 4 * d_model**2 * h


@each_form
@each_bias
def test_scores_and_multiply_adds(form: str, bias: bool) -> None:
    found = count(layer(form, bias).y)
    assert found.stored_scores == B * h * T * S
    projections = B * T * d_model * h * d_k + B * S * d_model * h * d_k + B * S * d_model * h * d_v
    heads = B * h * T * S * d_k + B * h * T * S * d_v
    assert found.multiply_adds == sympy.expand(projections + heads + B * T * h * d_v * d_model)


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 12])
def test_scores_grow_with_the_heads_of_a_fixed_width_and_parameters_do_not(heads: int) -> None:
    d = dims(d_model=12, h=heads, d_k=12 // heads, d_v=12 // heads)
    found = count(combined(d, self_inputs(d), combined_weights(d)).y)
    assert (found.stored_scores, found.parameters) == (heads * B * T**2, 4 * 12**2)


def test_reading_weights_in_the_other_shape_costs_no_arithmetic() -> None:
    plain = count(layer("separate", True).y)
    split = count(separate(D, cross_inputs(D), split_heads(combined_weights(D, True), D)).y)
    joined = count(combined(D, cross_inputs(D), join_heads(head_weights(D, True), D)).y)
    for other in (split, joined):
        assert (other.parameters, other.multiply_adds, other.pointwise) == (
            plain.parameters, plain.multiply_adds, plain.pointwise,
        )  # fmt: skip


# ---------------------------------------------------------------- loops that count


class Machine:
    """The loops of attention, written out, that count what they would do.

    An operation takes the loops over its result, and the numbers of entries of its operands.
    """

    def __init__(self) -> None:
        self.macs = self.other = self.traffic = self.scores = 0

    def product(self, rows: list[range], summed: range, left: int, right: int) -> None:
        for _ in itertools.product(*rows):
            for _ in summed:
                self.macs += 1
        self.traffic += left + right + math.prod(map(len, rows))

    def entrywise(self, rows: list[range], each: int, *reads: int) -> None:
        for _ in itertools.product(*rows):
            self.other += each
        self.traffic += sum(reads) + math.prod(map(len, rows))

    def layer(self, form: str, bias: bool) -> None:
        b, t, s, m, heads, k, v = (range(size) for size in SIZES.values())
        if form == "combined":
            self.heads(b, t, s, m, range(len(heads) * len(k)), range(len(heads) * len(v)), heads, k, v, bias)
            self.output(b, t, m, range(len(heads) * len(v)), bias)
            return
        for _ in heads:
            self.heads(b, t, s, m, k, v, range(1), k, v, bias)
            if form == "head_sum":
                self.product([b, t, m], v, len(b) * len(t) * len(v), len(v) * len(m))
        if form == "separate":
            self.output(b, t, m, range(len(heads) * len(v)), bias)
        else:
            y = len(b) * len(t) * len(m)
            for _ in itertools.product(heads, b, t, m):
                self.other += 1
            self.traffic += len(heads) * y + y
            if bias:
                self.entrywise([b, t, m], 1, y, len(m))

    def heads(
        self, b: range, t: range, s: range, m: range, wide_k: range, wide_v: range, heads: range, k: range, v: range,
        bias: bool,
    ) -> None:  # fmt: skip
        for tokens, wide in ((t, wide_k), (s, wide_k), (s, wide_v)):
            self.product([b, tokens, wide], m, len(b) * len(tokens) * len(m), len(m) * len(wide))
            if bias:
                self.entrywise([b, tokens, wide], 1, len(b) * len(tokens) * len(wide), len(wide))
        queries, keys = len(b) * len(heads) * len(t), len(b) * len(heads) * len(s)
        self.product([b, heads, t, s], k, queries * len(k), keys * len(k))
        scores = [b, heads, t, s]
        self.entrywise(scores, 1, queries * len(s))  # the scale
        self.scores += queries * len(s)
        self.entrywise(scores, 3, queries * len(s))  # the softmax
        self.product([b, heads, t, v], s, queries * len(s), keys * len(v))

    def output(self, b: range, t: range, m: range, wide: range, bias: bool) -> None:
        self.product([b, t, m], wide, len(b) * len(t) * len(wide), len(wide) * len(m))
        if bias:
            self.entrywise([b, t, m], 1, len(b) * len(t) * len(m), len(m))


@each_form
@each_bias
def test_against_loops_that_count(form: str, bias: bool) -> None:
    machine = Machine()
    machine.layer(form, bias)
    found = count(layer(form, bias).y, itemsize=8).at(SIZES)
    assert found.multiply_adds == machine.macs
    assert found.stored_scores == machine.scores
    assert found.pointwise == machine.other
    assert found.bytes_moved == 8 * machine.traffic


@each_form
@each_bias
def test_parameters_against_arrays(form: str, bias: bool) -> None:
    heads, m, k, v = (SIZES[name] for name in ("h", "d_model", "d_k", "d_v"))
    separate_shapes = [(heads, m, k), (heads, m, k), (heads, m, v), (heads, v, m)]
    bias_shapes = [(heads, k), (heads, k), (heads, v), (m,)] if bias else []
    filled = sum(len(list(itertools.product(*map(range, shape)))) for shape in separate_shapes + bias_shapes)
    assert count(layer(form, bias).y).at(SIZES).parameters == filled


# ---------------------------------------------------------------- torch


@each_bias
@pytest.mark.parametrize(("width", "heads"), [(12, 3), (10, 5)])
def test_parameters_of_torch(bias: bool, width: int, heads: int) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(width, heads, bias=bias)
    d = dims(d_model=width, h=heads, d_k=width // heads, d_v=width // heads)
    found = count(combined(d, self_inputs(d), combined_weights(d, bias)).y)
    assert found.parameters == sum(one.numel() for one in module.parameters())


def test_parameters_of_torch_with_other_widths_of_keys_and_values() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(12, 3, kdim=7, vdim=5, bias=False)
    d = dims(d_model=12, h=3, d_k=4, d_v=4)
    y, z = axis("y", 7), axis("z", 5)
    x_k, x_v = Input("X_k", (d.b, d.s, y)), Input("X_v", (d.b, d.s, z))
    keys = einsum("b s y, y (h k) -> b s (h k)", x_k, Input("W_K", (y, d.hk), "weight"))
    values = einsum("b s z, z (h v) -> b s (h v)", x_v, Input("W_V", (z, d.hv), "weight"))
    others = combined_weights(d)
    assert parameters((keys, values, others.w_q, others.w_o)) == sum(one.numel() for one in module.parameters())


# ---------------------------------------------------------------- counts as expressions of the language


def ones_added(expr: Expr, sizes: dict[str, int]) -> int:
    """The value of a count expression by going through every entry."""
    match expr:
        case Scalar(value=value):
            return int(value)
        case Map(op="add", args=args):
            return sum(ones_added(arg, sizes) for arg in args)
        case Map(op="mul", args=args):
            return math.prod(ones_added(arg, sizes) for arg in args)
        case Reduce(op="sum", arg=Repeat(arg=one, out=out), over=over) if out == over:
            ranges = [range(int(a.size.subs({s: sizes[str(s)] for s in a.size.free_symbols}))) for a in over]
            return sum(ones_added(one, sizes) for _ in itertools.product(*ranges))
    raise AssertionError(expr)


@each_form
@each_bias
def test_count_expressions_are_sums_of_ones(form: str, bias: bool) -> None:
    y = layer(form, bias).y
    found = count(y).at(SIZES)
    assert ones_added(parameter_expr(y), SIZES) == found.parameters
    assert ones_added(score_expr(y), SIZES) == found.stored_scores
    assert parameter_expr(y).axes == score_expr(y).axes == ()


def test_count_expression_of_no_weights_and_of_a_scalar_weight() -> None:
    assert parameter_expr(Input("X", (D.t,))) == Scalar(sympy.Integer(0))
    gain = Input("g", (), "weight")
    assert parameter_expr(gain) == Scalar(sympy.Integer(1))
    assert parameters(gain) == 1


def test_number_takes_sizes_only() -> None:
    assert number(3) == Scalar(sympy.Integer(3))
    assert number(4 * d_model**2).value == 4 * d_model**2
    with pytest.raises(AxisProblem, match="x is not a size"):
        number(sympy.Symbol("x") + d_model)


