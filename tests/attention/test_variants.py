"""What theorems bend a form with: each helper against plain NumPy, at pairwise distinct sizes."""

from __future__ import annotations

import operator
from typing import Literal

import numpy as np
import pytest

from mha_sym.attention.dims import combined_weights, cross_inputs, dims, split_heads
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.variants import edited, head_blocks, interleaved, keep_mask, position, read_as_each_other
from mha_sym.axes import Index, axis
from mha_sym.evaluate import evaluate
from mha_sym.expr import Input, inputs

d = dims(S="S")
B, T, S, M, H, K, V = 2, 4, 7, 6, 3, 5, 8
SIZES = {"B": B, "T": T, "S": S, "d_model": M, "h": H, "d_k": K, "d_v": V}
w = combined_weights(d, bias=True)
keep = keep_mask(d.b, d.t, d.s)
masks = Options(keep=keep)
layer = combined(d, cross_inputs(d), w, masks)


def drawn() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    arrays = {}
    for node in inputs(layer.y):
        shape = tuple(int(one.size.subs({s: SIZES[str(s)] for s in one.size.free_symbols})) for one in node.over)
        arrays[node.name] = rng.normal(size=shape)
    arrays["keep"] = (rng.random((B, T, S)) < 0.6).astype(float)
    arrays["keep"][:, :, 0] = 1
    return arrays


def test_head_blocks_are_the_slices_of_the_columns_and_rows() -> None:
    arrays = drawn()
    blocks = head_blocks(w, d)
    found = evaluate(blocks.w_q, {"W_Q": arrays["W_Q"]}, sizes={"h": H, "d_k": K})
    rows = evaluate(blocks.w_o, {"W_O": arrays["W_O"]}, sizes={"h": H, "d_v": V})
    for r in range(H):
        assert np.array_equal(found[r], arrays["W_Q"][:, r * K : (r + 1) * K])
        assert np.array_equal(rows[r], arrays["W_O"][r * V : (r + 1) * V])
    assert [e.axes for e in blocks.items().values()] == [e.axes for e in split_heads(w, d).items().values()]


def test_interleaved_reads_every_hth_column() -> None:
    weight = drawn()["W_Q"]
    found = evaluate(interleaved(w.w_q, d, d.k), {"W_Q": weight}, sizes={"h": H, "d_k": K})
    for r in range(H):
        assert np.array_equal(found[:, r], weight[:, r::H])


@pytest.mark.parametrize("op", ["le", "lt", "ge", "gt", "eq", "ne"])
def test_position_compares_each_place_with_the_index(op: Literal["le", "lt", "ge", "gt", "eq", "ne"]) -> None:
    t = axis("t", "T")
    found = evaluate(position(op, t, Index("u", t)) * Input("one", (t,)), {"one": np.ones(T)}, indices={"u": 2})
    assert found.tolist() == [float(getattr(operator, op)(place, 2)) for place in range(T)]


def test_read_as_each_other_moves_nothing() -> None:
    t, h = axis("t", "n"), axis("h", "n")
    values = np.arange(9.0).reshape(3, 3)
    found = read_as_each_other(Input("Q", (t, h)), t, h)
    assert [one.name for one in found.axes] == ["h", "t"]
    assert np.array_equal(evaluate(found, {"Q": values}), values)


@pytest.mark.parametrize("stage", ["q", "k", "v", "scores", "weights", "z"])
def test_a_stage_that_is_replaced_by_itself_changes_nothing(stage: str) -> None:
    arrays = drawn()
    same = edited(d, layer, w, masks, **{stage: layer.items()[stage]})
    before, after = (evaluate(one.y, arrays, sizes=SIZES) for one in (layer, same))
    assert np.allclose(after, before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("stage", ["q", "k", "v", "scores", "weights", "z"])
def test_what_follows_a_changed_stage_is_computed_anew(stage: str) -> None:
    arrays = drawn()
    doubled = edited(d, layer, w, masks, **{stage: layer.items()[stage] * 2})
    before, after = (evaluate(one.y, arrays, sizes=SIZES) for one in (layer, doubled))
    if stage in ("v", "weights", "z"):
        expected = 2 * before - arrays["b_O"]
        assert np.allclose(after, expected, rtol=0, atol=1e-11)
    else:
        read = {name: arrays[name] for name in ("X_q", "X_k", "W_Q", "W_K", "b_Q", "b_K")}
        scores = evaluate(layer.scores, read, sizes={"h": H})
        assert np.allclose(after, by_hand(2 * scores, arrays), rtol=0, atol=1e-11)


def by_hand(scores: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The layer from the scores on, one head after another."""
    y = np.zeros((B, T, M)) + arrays["b_O"]
    for b in range(B):
        for r in range(H):
            values = arrays["X_v"][b] @ arrays["W_V"][:, r * V : (r + 1) * V] + arrays["b_V"][r * V : (r + 1) * V]
            weights = np.exp(scores[b, r]) * arrays["keep"][b]
            y[b] += weights / weights.sum(axis=1, keepdims=True) @ values @ arrays["W_O"][r * V : (r + 1) * V]
    return y
