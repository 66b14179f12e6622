"""Numbers against loops over indices, einops, NumPy's einsum and exact arithmetic, at sizes that are all different."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import einops
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_sym.arrays import size_value
from mha_sym.attention.dims import combined_weights, cross_inputs, dims, head_weights, join_heads, self_inputs
from mha_sym.attention.forms import Options, Stages, combined, head_sum, separate
from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product
from mha_sym.compute import HANDLERS
from mha_sym.errors import AxisProblem, DataProblem
from mha_sym.evaluate import evaluate, evaluate_all, read_sizes
from mha_sym.exact import Rationals
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
    inputs,
    walk,
)
from mha_sym.pattern import einsum, rearrange

SIZES = {"B": 2, "h": 3, "d_k": 4, "T": 5, "d_v": 6, "S": 7, "d_model": 8}
B, T, S = axis("b", "B"), axis("t", "T"), axis("s", "S")
M, H, K, V = axis("m", "d_model"), axis("h"), axis("k", "d_k"), axis("v", "d_v")
R = Index("r", H)


def shape(axes: tuple[Axis, ...], sizes: Mapping[str, int] = SIZES) -> tuple[int, ...]:
    return tuple(size_value(a, sizes) for a in axes)


def draw(*exprs: Expr, seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays for the inputs; masks of 0 and 1 keep position 0, so that no row is empty."""
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for one in (node for expr in exprs for node in inputs(expr)):
        if one.boolean:
            kept = rng.random(shape(one.axes)) < 0.6
            kept[..., 0] = True
            found.setdefault(one.name, kept)
        else:
            found.setdefault(one.name, rng.standard_normal(shape(one.axes)))
    return found


# ---------------------------------------------------------------- every node


@dataclass
class Case:
    """A node, and its entry at a position, written without the code under test."""

    expr: Expr
    entry: Callable[..., float]
    permutations: Mapping[str, tuple[int, ...]] | None = None


X = Input("X", (T, S))
Y = Input("Y", (S, T))
Q = Input("Q", (B, product(H, K), T))
W = Input("W", (H, T, K))
TABLE = ((1, sympy.Rational(1, 3)), (-2, 0), (5, 7))
NEW, PAST = axis("new", "S"), axis("past", "B")
CASES: dict[str, Case] = {
    "input": Case(X, lambda a, t, s: a["X"][t, s]),
    "scalar": Case(Scalar(1 / sympy.sqrt(K.size) + H.size), lambda a: 0.5 + 3),
    "table": Case(Table("P", (axis("i", 3), axis("j", 2)), TABLE), lambda a, i, j: float(TABLE[i][j])),
    "compare": Case(Compare("le", S, T, 1), lambda a, s, t: s <= t + 1),
    "compare lt": Case(Compare("lt", S, T, -2), lambda a, s, t: s < t - 2),
    "compare ge": Case(Compare("ge", S, T), lambda a, s, t: s >= t),
    "compare gt": Case(Compare("gt", S, T), lambda a, s, t: s > t),
    "compare eq": Case(Compare("eq", S, T, 2), lambda a, s, t: s == t + 2),
    "compare ne": Case(Compare("ne", S, T), lambda a, s, t: s != t),
    "add": Case(Map("add", (Input("c", (S,)), X, Y)), lambda a, t, s: a["c"][s] + a["X"][t, s] + a["Y"][s, t]),
    "mul": Case(Map("mul", (Scalar(K.size), X, Y)), lambda a, t, s: 4 * a["X"][t, s] * a["Y"][s, t]),
    "sub": Case(X - Rename(Rename(Input("Z", (T, NEW)), NEW, S), T, T), lambda a, t, s: a["X"][t, s] - a["Z"][t, s]),
    "neg": Case(-(X + 1), lambda a, t, s: -(a["X"][t, s] + 1)),
    "exp": Case(Map("exp", (X,)), lambda a, t, s: math.exp(a["X"][t, s])),
    "inv": Case(Map("inv", (X,)), lambda a, t, s: 1 / a["X"][t, s]),
    "contract": Case(
        Contract((Q, Input("G", (S, T))), (S, product(H, K), B)),
        lambda a, s, c, b: sum(a["Q"][b, c, t] * a["G"][s, t] for t in range(5)),
    ),
    "sum": Case(Reduce("sum", Q, (B, T)), lambda a, c: sum(a["Q"][b, c, t] for b in range(2) for t in range(5))),
    "max": Case(Reduce("max", Q, (product(H, K),)), lambda a, b, t: max(a["Q"][b, c, t] for c in range(12))),
    "softmax": Case(
        Softmax(X, (S,)), lambda a, t, s: math.exp(a["X"][t, s]) / sum(math.exp(x) for x in a["X"][t])
    ),
    "softmax over two": Case(
        Softmax(X, (T, S)), lambda a, t, s: math.exp(a["X"][t, s]) / sum(math.exp(x) for x in a["X"].flat)
    ),
    "softmax kept": Case(
        Softmax(X, (S,), Compare("le", S, T)),
        lambda a, t, s: math.exp(a["X"][t, s]) / sum(math.exp(a["X"][t, u]) for u in range(t + 1)) if s <= t else 0,
    ),
    "split": Case(Split(Q, product(H, K)), lambda a, b, h, k, t: a["Q"][b, 4 * h + k, t]),
    "join": Case(Join(W, (H, T)), lambda a, c, k: a["W"][c // 5, c % 5, k]),
    "transpose": Case(Transpose(W, (K, H, T)), lambda a, k, h, t: a["W"][h, t, k]),
    "repeat": Case(Repeat(X, (S, H, T, B)), lambda a, s, h, t, b: a["X"][t, s]),
    "repeat of a number": Case(Repeat(Scalar(K.size), (T, S)), lambda a, t, s: 4),
    "rename": Case(Rename(X, S, NEW), lambda a, t, n: a["X"][t, n]),
    "reshape": Case(
        Reshape(Q, (B, T, H, K)), lambda a, b, t, h, k: a["Q"].flat[((b * 5 + t) * 3 + h) * 4 + k]
    ),
    "permute": Case(Permute(W, Permutation("pi", H)), lambda a, h, t, k: a["W"][(1, 2, 0)[h], t, k], {"pi": (1, 2, 0)}),
    "permute back": Case(
        Permute(W, Permutation("pi", H).inverse()), lambda a, h, t, k: a["W"][(2, 0, 1)[h], t, k], {"pi": (1, 2, 0)}
    ),
    "select": Case(Select(W, T, 3), lambda a, h, k: a["W"][h, 3, k]),
    "stack": Case(Stack(Select(W, H, R) + Input("c", (K,)), R), lambda a, h, t, k: a["W"][h, t, k] + a["c"][k]),
    "concat": Case(Concat(Select(W, H, R), R, K), lambda a, t, c: a["W"][c // 4, t, c % 4]),
    "total": Case(Total(Select(W, H, R), R), lambda a, t, k: sum(a["W"][h, t, k] for h in range(3))),
    "total of a constant": Case(Total(X, R), lambda a, t, s: 3 * a["X"][t, s]),
    "blocks": Case(
        Blocks((Input("P", (T, PAST)), Input("N", (T, NEW))), (PAST, NEW)),
        lambda a, t, c: a["P"][t, c] if c < 2 else a["N"][t, c - 2],
    ),
    "block": Case(Block(Input("C", (blocks(PAST, NEW), T)), blocks(PAST, NEW), 1), lambda a, n, t: a["C"][n + 2, t]),
    "named": Case(Named(X, "S"), lambda a, t, s: a["X"][t, s]),
}


def by_loops(case: Case, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    result = np.empty(shape(case.expr.axes))
    for place in np.ndindex(*result.shape):
        result[place] = case.entry(arrays, *place)
    return result


@pytest.mark.parametrize("name", CASES)
def test_node_against_its_entries(name: str) -> None:
    case = CASES[name]
    arrays = draw(case.expr)
    result = evaluate(case.expr, arrays, sizes=used(case.expr), permutations=case.permutations)
    assert result.shape == shape(case.expr.axes)
    np.testing.assert_allclose(result, by_loops(case, arrays), rtol=1e-14, atol=1e-14)


def used(*exprs: Expr) -> dict[str, int]:
    """All sizes that the expressions mention, for those that no array tells."""
    axes = {a for e in exprs for n in walk(e) for a in (*n.axes, *((n.index.axis,) if isinstance(n, Total) else ()))}
    symbols = {s.name for a in axes for s in a.size.free_symbols}
    symbols |= {s.name for e in exprs for n in walk(e) if isinstance(n, Scalar) for s in n.value.free_symbols}
    return {name: SIZES[name] for name in symbols}


def test_every_node_is_computed_and_tested() -> None:
    assert set(HANDLERS) == set(NODES)
    assert {type(node) for case in CASES.values() for node in walk(case.expr)} == set(NODES)


def test_unknown_node_is_named() -> None:
    class Strange(Expr):
        def _axes(self) -> tuple[Axis, ...]:
            return ()

    with pytest.raises(NotImplementedError, match="evaluate has no entry for the node Strange"):
        evaluate(Strange(), {})


def test_opaque_function() -> None:
    arrays = draw(X)
    expr = Map("fn:gate", (X, Input("c", (S,))))
    arrays["c"] = np.arange(7.0)
    result = evaluate(expr, arrays, functions={"gate": lambda x, c: np.tanh(x) * c})
    np.testing.assert_array_equal(result, np.tanh(arrays["X"]) * np.arange(7.0))
    with pytest.raises(DataProblem, match="no function 'gate' is given"):
        evaluate(expr, arrays)
    with pytest.raises(DataProblem, match="function 'gate' changed the shape"):
        evaluate(expr, arrays, functions={"gate": lambda x, c: x[0]})


# ---------------------------------------------------------------- whole layers


def layer_by_loops(a: Mapping[str, np.ndarray], scale: float, bias: Callable[..., float]) -> np.ndarray:
    """Multi-head attention from separate weights, a number at a time."""
    n_b, n_t, n_m = a["X_q"].shape
    n_s, (n_h, _, n_k), n_v = a["X_k"].shape[1], a["W_Q"].shape, a["W_V"].shape[2]
    y = np.zeros((n_b, n_t, n_m))
    for b, t, h in itertools.product(range(n_b), range(n_t), range(n_h)):
        q = [a["b_Q"][h, k] + sum(a["X_q"][b, t, m] * a["W_Q"][h, m, k] for m in range(n_m)) for k in range(n_k)]
        e = []
        for s in range(n_s):
            key = [a["b_K"][h, k] + sum(a["X_k"][b, s, m] * a["W_K"][h, m, k] for m in range(n_m)) for k in range(n_k)]
            e.append(math.exp(scale * sum(x * y for x, y in zip(q, key, strict=True)) + bias(b, h, t, s)))
        for v in range(n_v):
            value = [
                a["b_V"][h, v] + sum(a["X_v"][b, s, m] * a["W_V"][h, m, v] for m in range(n_m)) for s in range(n_s)
            ]
            z = sum(x * y for x, y in zip(e, value, strict=True)) / sum(e)
            for m in range(n_m):
                y[b, t, m] += z * a["W_O"][h, v, m]
    return y + a["b_O"]


def forms(options: Options) -> dict[str, Stages]:
    d = dims(S="S")
    x, w = cross_inputs(d), head_weights(d, bias=True)
    return {
        "combined": combined(d, x, join_heads(w, d), options),
        "separate": separate(d, x, w, options),
        "head sum": head_sum(d, x, w, options),
    }


def test_forms_against_loops_with_an_additive_mask() -> None:
    mask = Input("mask", (H, T, S), "mask")
    found = forms(Options(mask=mask))
    arrays = draw(*(stages.y for stages in found.values()))
    expected = layer_by_loops(arrays, 0.5, lambda b, h, t, s: arrays["mask"][h, t, s])
    for name, y in evaluate_all({name: stages.y for name, stages in found.items()}, arrays).items():
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12, err_msg=name)


def test_forms_against_loops_with_kept_keys_and_another_scale() -> None:
    keep = Map("mul", (Repeat(Input("pad", (B, S), boolean=True), (B, T, S)), Compare("le", S, T, 2)))
    found = forms(Options(keep=keep, scale=sympy.Rational(1, 3)))
    arrays = draw(*(stages.y for stages in found.values()))

    def minus_infinity(b: int, h: int, t: int, s: int) -> float:
        return 0.0 if arrays["pad"][b, s] and s <= t + 2 else -math.inf

    expected = layer_by_loops(arrays, 1 / 3, minus_infinity)
    for stages in found.values():
        np.testing.assert_allclose(evaluate(stages.y, arrays), expected, rtol=0, atol=1e-12)


def test_stages_together_are_the_stages_alone() -> None:
    """No value is overwritten that another expression still reads, and no array that was given."""
    for name, stages in forms(Options(mask=Input("mask", (T, S), "mask"))).items():
        parts = stages.items()
        arrays = draw(*parts.values())
        before = {key: array.copy() for key, array in arrays.items()}
        together = evaluate_all(parts, arrays)
        for part, expr in parts.items():
            needed = {one.name for one in inputs(expr)}
            alone = evaluate(expr, {k: v for k, v in arrays.items() if k in needed}, sizes={"h": 3})
            np.testing.assert_array_equal(together[part], alone, err_msg=f"{name} {part}")
        for key, array in arrays.items():
            np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize("name", CASES)
def test_result_shares_no_memory_with_what_was_given(name: str) -> None:
    case = CASES[name]
    arrays = draw(case.expr)
    result = evaluate(case.expr, arrays, sizes=used(case.expr), permutations=case.permutations)
    assert result.flags.writeable
    assert not any(np.shares_memory(result, array) for array in arrays.values())


def test_values_written_alike_are_computed_once() -> None:
    calls = []
    expr = Map("fn:count", (Input("X", (T, S)),))
    again = Map("fn:count", (Input("X", (T, S)),))
    evaluate_all([Named(expr, "A"), expr + again], draw(X), functions={"count": lambda x: calls.append(1) or x})
    assert len(calls) == 1


def test_members_of_a_family_are_computed_once_each() -> None:
    calls = []
    inner = Map("fn:count", (Select(W, H, R),))
    exprs = [Stack(inner, R), Total(inner, R), Concat(inner, R, K)]
    stacked, total, beside = evaluate_all(
        exprs, draw(W), functions={"count": lambda x: calls.append(1) or np.exp(x)}
    )
    assert len(calls) == 3
    np.testing.assert_allclose(stacked.sum(axis=0), total, rtol=1e-14)
    np.testing.assert_array_equal(beside, np.concatenate(list(stacked), axis=1))


def test_what_a_family_does_not_change_is_computed_once() -> None:
    calls = []
    same = Map("fn:count", (Input("c", (K,)),))
    arrays = draw(W, same)
    result = evaluate(
        Stack(Select(W, H, R) + same, R), arrays, functions={"count": lambda x: calls.append(1) or 2 * x}
    )
    assert len(calls) == 1
    np.testing.assert_array_equal(result, arrays["W"] + 2 * arrays["c"])


def test_deep_expressions() -> None:
    expr: Expr = X
    for _ in range(600):
        expr = -expr
    arrays = draw(X)
    np.testing.assert_array_equal(evaluate(expr, arrays), arrays["X"])


def test_family_in_a_family() -> None:
    u = Index("u", T)
    body = Map("mul", (Select(Select(W, H, R), T, u), Select(Input("V", (T, K)), T, u)))
    arrays = draw(body)
    result = evaluate(Stack(Total(body, u), R), arrays)
    np.testing.assert_allclose(result, np.einsum("htk,tk->hk", arrays["W"], arrays["V"]), rtol=1e-13)


def test_free_index_at_a_position() -> None:
    arrays = draw(W)
    np.testing.assert_array_equal(evaluate(Select(W, H, R), arrays, indices={"r": 2}), arrays["W"][2])
    with pytest.raises(DataProblem, match="index 'r' is bound by nothing"):
        evaluate(Select(W, H, R), arrays)
    with pytest.raises(DataProblem, match="index 'r' cannot be 3"):
        evaluate(Select(W, H, R), arrays, indices={"r": 3})
    with pytest.raises(DataProblem, match="nothing reads the index 'r'"):
        evaluate(Stack(Select(W, H, R), R), arrays, indices={"r": 1})


def test_float32_stays_float32() -> None:
    found = forms(Options(mask=Input("mask", (T, S), "mask"), keep=Compare("le", S, T)))["combined"]
    arrays = {name: array.astype(np.float32) for name, array in draw(found.y).items()}
    for name, value in evaluate_all(found.items(), arrays).items():
        assert value.dtype == np.float32, name


# ---------------------------------------------------------------- patterns and contractions against others


NAMES = ("a", "b", "c", "d", "e")
LENGTHS = dict(zip(NAMES, (2, 3, 5, 4, 7), strict=True))


@st.composite
def sides(draw_: Any) -> tuple[list[list[str]], list[list[str]]]:
    """Groups of names on the left and, in another order and grouped otherwise, on the right."""

    def grouped(names: list[str]) -> list[list[str]]:
        groups: list[list[str]] = [[names[0]]]
        for name in names[1:]:
            if draw_(st.booleans()):
                groups.append([name])
            else:
                groups[-1].append(name)
        return groups

    names = draw_(st.permutations(NAMES))[: draw_(st.integers(1, 5))]
    return grouped(list(names)), grouped(list(draw_(st.permutations(names))))


def spelled(groups: list[list[str]]) -> str:
    return " ".join("(" + " ".join(g) + ")" if len(g) > 1 else g[0] for g in groups)


@given(sides())
@settings(deadline=None, max_examples=150)
def test_rearrange_is_that_of_einops(pair: tuple[list[list[str]], list[list[str]]]) -> None:
    left, right = pair
    pattern = f"{spelled(left)} -> {spelled(right)}"
    plain = {name: axis(name, f"n_{name}") for name in NAMES}
    over = tuple(product(*(plain[n] for n in g)) if len(g) > 1 else plain[g[0]] for g in left)
    array = np.random.default_rng(0).standard_normal([math.prod(LENGTHS[n] for n in g) for g in left])
    lengths = {name: LENGTHS[name] for g in left for name in g}
    result = evaluate(
        rearrange(Input("x", over), pattern), {"x": array}, sizes={f"n_{name}": n for name, n in lengths.items()}
    )
    np.testing.assert_array_equal(result, einops.rearrange(array, pattern, **lengths))


@st.composite
def contractions(draw_: Any) -> tuple[list[list[str]], list[str]]:
    subset = st.lists(st.sampled_from(NAMES), unique=True, max_size=4)
    operands = draw_(st.lists(subset, min_size=1, max_size=4))
    names = sorted({name for operand in operands for name in operand})
    out = draw_(st.lists(st.sampled_from(names), unique=True)) if names else []
    return operands, out


@given(contractions(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=300)
def test_contraction_is_that_of_einsum(case: tuple[list[list[str]], list[str]], seed: int) -> None:
    operands, out = case
    plain = {name: axis(name, LENGTHS[name]) for name in NAMES}
    args = [Input(f"x{n}", tuple(plain[name] for name in names)) for n, names in enumerate(operands)]
    rng = np.random.default_rng(seed)
    arrays = {arg.name: rng.integers(-4, 5, shape(arg.axes)).astype(float) for arg in args}
    result = evaluate(Contract(tuple(args), tuple(plain[name] for name in out)), arrays)
    pattern = ",".join("".join(names) for names in operands) + "->" + "".join(out)
    np.testing.assert_array_equal(result, np.einsum(pattern, *arrays.values()))  # integers: exact in floating point


def test_contraction_with_a_product_axis() -> None:
    hv = product(H, V)
    z, w = Input("Z", (B, H, T, V)), Input("W_O", (hv, M))
    expr = einsum("b t (h v), (h v) m -> b t m", rearrange(z, "b h t v -> b t (h v)"), w)
    arrays = draw(expr)
    blocks_of = arrays["W_O"].reshape(3, 6, 8)
    np.testing.assert_allclose(
        evaluate(expr, arrays, sizes={"h": 3}), np.einsum("bhtv,hvm->btm", arrays["Z"], blocks_of), rtol=0, atol=1e-12
    )


# ---------------------------------------------------------------- softmax in floating point


def test_softmax_of_large_scores_is_finite() -> None:
    x = np.array([[1e300, -1e300, 0.0], [700.0, 800.0, 750.0]])
    result = evaluate(Softmax(Input("x", (axis("i"), axis("j"))), (axis("j"),)), {"x": x})
    expected = [[1, 0, 0], [math.exp(-100), 1, math.exp(-50)]]
    np.testing.assert_allclose(result, expected, rtol=1e-13)


def masked_row() -> tuple[Expr, dict[str, np.ndarray]]:
    expr = Softmax(Input("x", (B, T, S)), (S,), Input("keep", (B, T, S), boolean=True))
    arrays = draw(expr)
    arrays["keep"][1, 3] = False
    arrays["keep"][0, 2] = False
    return expr, arrays


def test_fully_masked_rows_are_refused_by_name() -> None:
    expr, arrays = masked_row()
    with pytest.raises(DataProblem) as found:
        evaluate(expr, arrays)
    assert str(found.value) == "\n".join(
        [
            "a row keeps no key",
            "  in:       softmax over s",
            "  expected: at least one key kept in every row; without one the specification has no value (0/0)",
            "  got:      at b=0, t=2; b=1, t=3",
            "  axes:     (b: B, t: T, s: S)",
            "  hint:     keep a key, or say masked_rows='zero' for weights 0 there",
        ]
    )


def test_many_masked_rows_are_counted() -> None:
    expr, arrays = masked_row()
    arrays["keep"][:] = False
    with pytest.raises(DataProblem, match=r"at b=0, t=0; b=0, t=1; b=0, t=2; \.\.\. 10 rows in all"):
        evaluate(expr, arrays)


def test_fully_masked_rows_can_be_zero() -> None:
    expr, arrays = masked_row()
    result = evaluate(expr, arrays, masked_rows="zero")
    assert not result[1, 3].any()
    assert not result[0, 2].any()
    others = np.ones((2, 5), bool)
    others[1, 3] = others[0, 2] = False
    np.testing.assert_allclose(result.sum(axis=-1)[others], 1, rtol=1e-14)
    assert not result[~arrays["keep"]].any()


def test_minus_infinity_in_an_additive_mask_removes_a_key() -> None:
    mask, keep = Input("mask", (T, S), "mask"), Input("keep", (T, S), boolean=True)
    x = Input("x", (T, S))
    arrays = draw(x, keep)
    additive = {"x": arrays["x"], "mask": np.where(arrays["keep"], 0.0, -np.inf)}
    np.testing.assert_array_equal(evaluate(Softmax(x + mask, (S,)), additive), evaluate(Softmax(x, (S,), keep), arrays))
    additive["mask"][4] = -np.inf
    with pytest.raises(DataProblem, match=r"a row keeps no key(.|\n)*at t=4"):
        evaluate(Softmax(x + mask, (S,)), additive)


def test_scores_that_overflow_are_reported() -> None:
    x = Input("x", (T, S))
    arrays = {"x": np.ones((5, 7), np.float32)}
    arrays["x"][3, 1] = 3e38
    scaled = Map("fn:large", (x,))
    with pytest.raises(DataProblem, match=r"scores are no finite numbers(.|\n)*at t=3"):
        evaluate(Softmax(scaled, (S,)), arrays, functions={"large": lambda a: np.where(a > 2, np.float32(np.inf), a)})


# ---------------------------------------------------------------- sizes


def test_sizes_are_read_off_plain_axes_products_and_sums() -> None:
    cache = Input("C", (blocks(axis("past", "P"), axis("new", "N")), product(H, K)))
    found = read_sizes([cache, W], {"C": np.ones((9, 12)), "W": np.ones((3, 5, 4))}, {"P": 2})
    assert found == {"P": 2, "N": 7, "h": 3, "T": 5, "d_k": 4}


def test_square_sizes_are_solved() -> None:
    assert read_sizes(Input("x", (axis("q", K.size**2),)), {"x": np.ones(9)}) == {"d_k": 3}


def test_numpy_integers_are_sizes() -> None:
    found = read_sizes(Input("x", (product(H, K),)), {"x": np.ones(12)}, {"h": np.int64(3)})
    assert found == {"h": 3, "d_k": 4}
    assert type(found["h"]) is int


def problem(expr: Expr, arrays: Any, **options: Any) -> str:
    with pytest.raises(DataProblem) as found:
        evaluate(expr, arrays, **options)
    assert "\n" not in found.value.one_line()
    return str(found.value)


SIZE_PROBLEMS: dict[str, tuple[Expr, Any, dict[str, int], list[str]]] = {
    "two sizes of one symbol": (
        Contract((X, Input("V", (S, V))), (T, V)),
        {"X": np.ones((5, 7)), "V": np.ones((8, 6))},
        {},
        ["axis 's' of V has 8 positions, not 7", "expected: S = 7 by axis 's' of X", "got:      8"],
    ),
    "a product that does not come out": (
        Contract((Input("Q", (T, product(H, K))), W), (T,)),
        {"Q": np.ones((5, 13)), "W": np.ones((3, 5, 4))},
        {},
        [
            "axis '(h k)' of Q has 13 positions, not 12",
            "expected: d_k*h = 12, since d_k = 4 by axis 'k' of W, h = 3 by axis 'h' of W",
        ],
    ),
    "a product with no whole factor": (
        Input("Q", (T, product(H, K))),
        {"Q": np.ones((5, 13))},
        {"h": 3},
        ["axis '(h k)' of Q has 13 positions, which no size d_k makes", "expected: d_k*h, h = 3"],
    ),
    "a sum that leaves nothing": (
        Input("C", (blocks(PAST, NEW),)),
        {"C": np.ones(5)},
        {"B": 5},
        ["axis '(past + new)' of C has 5 positions, which no size S makes", "B + S, B = 5"],
    ),
    "sizes that cannot be told apart": (
        Input("Q", (T, product(H, K))),
        {"Q": np.ones((5, 12))},
        {},
        ["the sizes d_k and h cannot be told apart", "d_k*h = 12", "give one of them, as in sizes={'d_k': ...}"],
    ),
    "a size against an array": (
        X, {"X": np.ones((5, 7))}, {"T": 6}, ["axis 't' of X has 5 positions, not 6", "expected: T = 6 by sizes="],
    ),
    "a fixed size": (
        Input("x", (axis("t", 5),)), {"x": np.ones(6)}, {},
        ["axis 't' of x has 6 positions, not 5", "expected: the expression fixes it"],
    ),
    "no heads": (X, {"X": np.ones((5, 7))}, {"T": 0}, ["size T cannot be 0", "an integer, at least 1"]),
    "half a head": (X, {"X": np.ones((5, 7))}, {"T": 2.5}, ["size T cannot be 2.5"]),
    "true": (X, {"X": np.ones((5, 7))}, {"T": True}, ["size T cannot be True"]),
    "a size that is not there": (X, {"X": np.ones((5, 7))}, {"t": 5}, ["no size is called t", "expected: S, T"]),
    "an unknown size": (
        Repeat(X, (H, T, S)), {"X": np.ones((5, 7))}, {}, ["size h is not known", "give sizes={'h': ...}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZE_PROBLEMS)
def test_sizes_that_do_not_fit(name: str) -> None:
    expr, arrays, sizes, texts = SIZE_PROBLEMS[name]
    message = problem(expr, arrays, sizes=sizes)
    for text in texts:
        assert text in message, message


# ---------------------------------------------------------------- bad arrays


def changed(place: tuple[int, ...], value: float) -> np.ndarray:
    array = np.ones((5, 7))
    array[place] = value
    return array


ADDITIVE = Input("X", (T, S), "mask")
KEEP = Input("X", (T, S), boolean=True)
ARRAY_PROBLEMS: dict[str, tuple[Expr, Any, list[str]]] = {
    "missing": (X + Y, {"X": np.ones((5, 7))}, ["no array for Y", "expected: X, Y", "Y(s: S, t: T)"]),
    "surplus": (X, {"X": np.ones((5, 7)), "x": 1}, ["nothing reads the arrays x", "expected: X"]),
    "rank": (X, {"X": np.ones(35)}, ["input 'X' has 1 axes, not 2", "got:      shape (35,)", "X(t: T, s: S)"]),
    "empty": (X, {"X": np.ones((5, 0))}, ["axis 's' of X is empty", "got:      shape (5, 0)", "sizes start at 1"]),
    "NaN": (X, {"X": changed((2, 3), np.nan)}, ["input 'X' holds NaN", "in:       X[t=2, s=3]", "X(t: T, s: S)"]),
    "infinity": (X, {"X": changed((4, 1), -np.inf)}, ["holds an infinity", "X[t=4, s=1]", "only an additive mask"]),
    "mask with +inf": (ADDITIVE, {"X": changed((4, 1), np.inf)}, ["holds an infinity", "X[t=4, s=1]", "got:      inf"]),
    "mask with NaN": (ADDITIVE, {"X": changed((0, 1), np.nan)}, ["input 'X' holds NaN", "X[t=0, s=1]"]),
    "integers": (X, {"X": np.ones((5, 7), int)}, ["input 'X' holds int64", "cast it to float64"]),
    "complex": (X, {"X": np.ones((5, 7), complex)}, ["input 'X' holds complex128", "give the real part"]),
    "Booleans": (X, {"X": np.ones((5, 7), bool)}, ["input 'X' holds bool", "declare the input with boolean=True"]),
    "objects": (X, {"X": np.ones((5, 7), object)}, ["input 'X' holds object", "exact=Rationals()"]),
    "text": (X, {"X": np.full((5, 7), "a")}, ["input 'X' holds <U1", "a floating dtype"]),
    "half a mask": (KEEP, {"X": changed((3, 6), 0.5)}, ["other values than 0 and 1", "X[t=3, s=6]", "got:      0.5"]),
    "NaN in a 0/1 mask": (KEEP, {"X": changed((3, 6), np.nan)}, ["other values than 0 and 1", "got:      nan"]),
    "a list": (Input("x", ()), {"x": [1.0]}, ["input 'x' is not an array", "got:      builtins.list"]),
    "a matrix": (X, {"X": np.ma.ones((5, 7))}, ["input 'X' is not an array", "MaskedArray"]),
    "two dtypes": (
        Map("add", (X, Y)), {"X": np.ones((5, 7)), "Y": np.ones((7, 5), np.float32)},
        ["inputs 'X' and 'Y' differ in dtype", "X: float64, Y: float32"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAY_PROBLEMS)
def test_arrays_that_do_not_fit(name: str) -> None:
    expr, arrays, texts = ARRAY_PROBLEMS[name]
    message = problem(expr, arrays)
    for text in texts:
        assert text in message, message


def test_many_bad_entries_are_counted() -> None:
    array = np.ones((5, 7))
    array[3] = np.nan
    assert "X[t=3, s=0]\n  got:      nan; 7 such entries" in problem(X, {"X": array})


@pytest.mark.parametrize("dtype", [bool, int, np.uint8, float, np.float32])
def test_masks_of_0_and_1_may_have_any_real_dtype(dtype: type) -> None:
    expr = Softmax(X, (S,), Input("keep", (T, S), boolean=True))
    arrays = draw(expr)
    expected = evaluate(expr, arrays)
    np.testing.assert_array_equal(evaluate(expr, {**arrays, "keep": arrays["keep"].astype(dtype)}), expected)


def test_finite_values_whose_sum_overflows_are_accepted() -> None:
    assert evaluate(-X, {"X": np.full((5, 7), 1e308)})[0, 0] == -1e308


def test_one_name_for_two_inputs_is_refused() -> None:
    with pytest.raises(AxisProblem, match="input 'X' is two different things"):
        evaluate_all([X, Input("X", (S, T))], {"X": np.ones((5, 7))})


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        ({}, "no permutation 'pi' is given"),
        ({"pi": [0, 1]}, "permutation 'pi' is no bijection of axis 'h'"),
        ({"pi": [0, 1, 1]}, "each of 0 to 2 once"),
        ({"pi": [0, 1, 3]}, "an entry of permutation 'pi' cannot be 3"),
        ({"pi": [0, 1.5, 2]}, "an entry of permutation 'pi' cannot be 1.5"),
    ],
)
def test_permutations_that_do_not_fit(given_: Any, text: str) -> None:
    expr = Permute(W, Permutation("pi", H))
    assert text in problem(expr, draw(expr), permutations=given_)


def test_inverse_of_zero_is_refused() -> None:
    assert "inv at t=4, s=2" in problem(Map("inv", (X,)), {"X": changed((4, 2), 0)})


def test_position_outside_a_symbolic_axis_is_refused() -> None:
    assert "no position 9 in axis 't'" in problem(Select(X, T, 9), draw(X))


def test_scalar_without_a_real_value_is_refused() -> None:
    assert "a scalar is not a real number" in problem(Scalar(sympy.sqrt(1 - T.size)), {}, sizes={"T": 5})


# ---------------------------------------------------------------- exact arithmetic


def fractions(array: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda x: Fraction(int(x), 7), otypes=[object])(array)


def exact_draw(*exprs: Expr) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        one.name: fractions(rng.integers(-9, 10, shape(one.axes)))
        for expr in exprs
        for one in inputs(expr)
        if not one.boolean
    }


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("exp", "scalar") and not n.startswith("softmax")])
def test_node_in_fractions(name: str) -> None:
    case = CASES[name]
    arrays = {key: array + Fraction(1, 3) for key, array in exact_draw(case.expr).items()}
    result = evaluate(
        case.expr, arrays, sizes=used(case.expr), permutations=case.permutations, exact=Rationals()
    )
    for place in np.ndindex(*result.shape):
        entry = case.entry(arrays, *place)
        assert isinstance(result[place], Fraction)
        assert result[place] == entry if name != "table" else math.isclose(result[place], entry)


def test_largest_fraction_over_axes_apart() -> None:
    arrays = exact_draw(Q)
    result = evaluate(Reduce("max", Q, (B, T)), arrays, sizes={"h": 3}, exact=Rationals())
    assert list(result) == [max(arrays["Q"][:, c].flat) for c in range(12)]


def test_linear_parts_agree_exactly() -> None:
    d = dims(S="S")
    w = head_weights(d, bias=True)
    both = [combined(d, cross_inputs(d), join_heads(w, d)), separate(d, cross_inputs(d), w)]
    for part in ("q", "k", "v", "scores"):
        pair = [getattr(stages, part) for stages in both]
        left, right = evaluate_all(pair, exact_draw(*pair), exact=Rationals())
        assert (left == right).all()


class Formal:
    """A quotient of sums of ``c * exp(x)``, kept as they are: exact, with an exponential of every number."""

    def __init__(self, above: dict[Fraction, Fraction], below: dict[Fraction, Fraction] | None = None) -> None:
        self.above, self.below = above, below or {Fraction(0): Fraction(1)}

    @staticmethod
    def times(x: dict[Fraction, Fraction], y: dict[Fraction, Fraction]) -> dict[Fraction, Fraction]:
        result: dict[Fraction, Fraction] = {}
        for (e, c), (f, d) in itertools.product(x.items(), y.items()):
            result[e + f] = result.get(e + f, Fraction(0)) + c * d
        return {e: c for e, c in result.items() if c}

    @staticmethod
    def plus(x: dict[Fraction, Fraction], y: dict[Fraction, Fraction]) -> dict[Fraction, Fraction]:
        return {e: c for e in {*x, *y} if (c := x.get(e, Fraction(0)) + y.get(e, Fraction(0)))}

    def __add__(self, other: Formal) -> Formal:
        if self.below == other.below:
            return Formal(self.plus(self.above, other.above), self.below)
        crossed = self.plus(self.times(self.above, other.below), self.times(other.above, self.below))
        return Formal(crossed, self.times(self.below, other.below))

    def __mul__(self, other: Formal) -> Formal:
        return Formal(self.times(self.above, other.above), self.times(self.below, other.below))

    def __neg__(self) -> Formal:
        return Formal({e: -c for e, c in self.above.items()}, self.below)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formal) and self.times(self.above, other.below) == self.times(other.above, self.below)

    __hash__ = None  # type: ignore[assignment]

    def value(self) -> float:
        above, below = (sum(float(c) * math.exp(e) for e, c in part.items()) for part in (self.above, self.below))
        return above / below


class FormalElements:
    zero, one = Formal({}), Formal({Fraction(0): Fraction(1)})

    def exp(self, x: Formal) -> Formal:
        assert set(x.above) <= {0}
        assert x.below == self.one.above
        return Formal({x.above.get(Fraction(0), Fraction(0)): Fraction(1)})

    def inverse(self, x: Formal) -> Formal:
        assert x.above
        return Formal(x.below, x.above)

    def number(self, value: sympy.Expr) -> Formal:
        return Formal({Fraction(0): Fraction(int(value.p), int(value.q))} if value else {})


def formal(array: np.ndarray) -> np.ndarray:
    number = lambda x: Formal({Fraction(0): Fraction(int(x), 2)} if x else {})  # noqa: E731
    return np.vectorize(number, otypes=[object])(array)


def formal_layer(keep: Expr | None) -> tuple[list[Stages], dict[str, np.ndarray], dict[str, np.ndarray]]:
    d = dims(B=1, T=2, S=3, d_model=2, h=2, d_k=4, d_v=1)
    w = head_weights(d, bias=True)
    x, o = cross_inputs(d), Options(keep=keep)
    stages = [combined(d, x, join_heads(w, d), o), separate(d, x, w, o), head_sum(d, x, w, o)]
    rng = np.random.default_rng(3)
    raw = {one.name: rng.integers(-2, 3, shape(one.axes)) for s in stages for one in inputs(s.y)}
    return stages, {name: formal(a) for name, a in raw.items()}, {name: a / 2 for name, a in raw.items()}


@pytest.mark.parametrize("keep", [None, Compare("le", axis("s", 3), axis("t", 2), 1)])
def test_layers_agree_exactly_with_a_formal_exponential(keep: Expr | None) -> None:
    stages, arrays, numbers = formal_layer(keep)
    left, middle, right = evaluate_all([s.y for s in stages], arrays, exact=FormalElements())
    assert all(x == y == z for x, y, z in zip(left.flat, middle.flat, right.flat, strict=True))
    floating = evaluate(stages[0].y, numbers)
    np.testing.assert_allclose([x.value() for x in left.flat], floating.ravel(), rtol=1e-12)


def test_rows_sum_to_one_exactly() -> None:
    stages, arrays, _ = formal_layer(None)
    weights = stages[0].weights
    needed = {one.name for one in inputs(weights)}
    given_ = {name: a for name, a in arrays.items() if name in needed}
    rows = evaluate(Reduce("sum", weights, (axis("s", 3),)), given_, exact=FormalElements())
    assert all(x == FormalElements.one for x in rows.flat)


def test_exact_masks_and_masked_rows() -> None:
    rows = axis("t"), axis("s")
    expr = Softmax(Input("x", rows), rows[1:], Input("keep", rows, boolean=True))
    keep = np.array([[1, 0, 1], [0, 0, 0]])
    arrays = {"x": formal(np.array([[1, 2, 3], [1, 1, 1]])), "keep": keep}
    assert "at t=1" in problem(expr, arrays, exact=FormalElements())
    for mask in (keep, keep.astype(bool), formal(2 * keep)):
        result = evaluate(expr, {**arrays, "keep": mask}, exact=FormalElements(), masked_rows="zero")
        assert all(x == FormalElements.zero for x in (*result[1], result[0, 1]))
        assert math.isclose(result[0, 0].value(), 1 / (1 + math.e))
    assert "other values than 0 and 1" in problem(expr, {**arrays, "keep": formal(keep)}, exact=FormalElements())


def test_integers_are_exact() -> None:
    result = evaluate(X + Scalar(sympy.Rational(1, 2)), {"X": np.arange(35).reshape(5, 7)}, exact=Rationals())
    assert result[4, 6] == Fraction(69, 2)


def test_what_is_not_exact_is_refused() -> None:
    arrays = exact_draw(X)
    assert "holds float64" in problem(X, {"X": np.ones((5, 7))}, exact=Rationals())
    arrays["X"][1, 1] = 0.5
    assert "input 'X' holds a rounded number\n  in:       X[t=1, s=1]" in problem(X, arrays, exact=Rationals())
    assert "a scalar is not a fraction" in problem(Scalar(sympy.sqrt(K.size)), {}, sizes={"d_k": 3}, exact=Rationals())
    assert "an exponential of a fraction" in problem(Map("exp", (X,)), exact_draw(X), exact=Rationals())
    zeros = np.full((5, 7), Fraction(0))
    assert "the inverse of 0" in problem(Map("inv", (X,)), {"X": zeros}, exact=Rationals())
    assert "have no order" in problem(Reduce("max", X, (S,)), {"X": formal(zeros)}, exact=FormalElements())


# ---------------------------------------------------------------- the shape of the code


def test_no_framework_is_imported_for_numpy() -> None:
    code = "import sys, mha_sym.evaluate; print([m for m in ('torch', 'jax') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_combined_weights_in_self_attention() -> None:
    d = dims()
    w = combined_weights(d)
    expr = combined(d, self_inputs(d), w).y
    arrays = draw(expr)
    q, k, v = (arrays["X"] @ arrays[name] for name in ("W_Q", "W_K", "W_V"))
    z = np.zeros((2, 5, 18))
    for b, h in itertools.product(range(2), range(3)):
        columns, values = slice(4 * h, 4 * h + 4), slice(6 * h, 6 * h + 6)
        e = np.exp(q[b][:, columns] @ k[b][:, columns].T / 2)
        z[b][:, values] = e / e.sum(axis=1, keepdims=True) @ v[b][:, values]
    result = evaluate(expr, arrays, sizes={"h": 3})
    np.testing.assert_allclose(result, z @ arrays["W_O"], rtol=0, atol=1e-12)
