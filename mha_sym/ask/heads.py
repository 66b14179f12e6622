"""Questions about heads: one row of weights a head, and why the labels of heads mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mha_sym.ask.bench import Bench, Reports, shape_text
from mha_sym.ask.exercises import pattern_exercise, shapes_exercise, stations
from mha_sym.attention.dims import Dims, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import combined
from mha_sym.count import stored_scores
from mha_sym.evaluate import evaluate, evaluate_all
from mha_sym.expr import Expr, inputs
from mha_sym.render.formulas.size_text import size_text
from mha_sym.render.questions.question import Answer, Finding, Question
from mha_sym.trace import trace

ONE_ROW = "one_weight_per_key_for_every_value_coordinate"
LABELS = "head_permutation_leaves_layer_unchanged"
SUM = "concat_output_eq_sum_over_heads"


def drawn(expr: Expr, seed: int = 0) -> dict[str, Any]:
    """Small numbers for every input of an expression at fixed sizes."""
    rng = np.random.default_rng(seed)
    return {one.name: rng.integers(-4, 5, [int(a.size) for a in one.axes]) / 4 for one in inputs(expr)}


def layer_of(d: Dims, bias: bool = False) -> Any:
    """The stages of a layer whose keys and values come from elsewhere."""
    return combined(d, cross_inputs(d), combined_weights(d, bias))


# ---------------------------------------------------------------- one row of weights


def _row_answer(reports: Reports) -> Answer:
    bench = Bench(reports)
    any_sizes = layer_of(dims(S="S", h=1, d_v=128))
    d = dims(B=1, T=2, S=3, d_model=5, h=1, d_k=4, d_v=128)
    layer = layer_of(d)
    values = evaluate_all({"A": layer.weights, "V": layer.v, "Z": layer.z}, drawn(layer.z))
    a, v, z = (values[name] for name in "AVZ")
    one_by_one = np.stack([v[0, 0, :, j] @ a[0, 0, 0] for j in range(128)])
    gap = float(np.abs(one_by_one - z[0, 0, 0]).max())
    row = " ".join(f"{x:.3f}" for x in a[0, 0, 0])
    return Answer(
        short="A weight says how much of a key's whole value vector goes into the output. It is made of queries and "
        "keys alone, d_v does not come into it, and the same weight multiplies all 128 coordinates.",
        paragraphs=(
            "Z[t, j] = sum over s of A[t, s] V[s, j]. The coordinate j stands at V only. However wide d_v is, the row "
            "A[t, :] is one row: a wide head carries more from the same places. To look at other places with other "
            "weights takes another head.",
            "So heads with equal score rows are one wide head, and in general h heads are not: that is why several "
            "heads of width d_v / h can do what one head of width d_v cannot.",
        ),
        findings=(
            bench.proved(ONE_ROW, "coordinate"),
            bench.proved(ONE_ROW, "stored_weights_128"),
            Finding("count", "Weights of one head with d_v = 128, for B sequences, T queries and S keys:",
                    size_text(stored_scores(any_sizes.y))),
            Finding("evaluate", "At B=1, h=1, T=2, S=3, d_v=128 the weights A and the output Z have the shapes",
                    f"{shape_text(a)} and {shape_text(z)}", a.shape == (1, 1, 2, 3) and z.shape[-1] == 128),
            Finding("evaluate",
                    f"The row of query 0 is {row}. Each of the 128 coordinates computed with this row alone:",
                    f"greatest difference {gap:.1g}", bool(np.allclose(one_by_one, z[0, 0, 0]))),
            bench.refuted(ONE_ROW, "weights_for_every_coordinate"),
            bench.refuted(ONE_ROW, "average_head", "h different heads, replaced by one wide head with their average "
                          "weights:"),
        ),
    )  # fmt: skip


def one_row() -> Question:
    """Question 1."""
    d = dims(B=2, T=5, S=7, d_model=12, h=1, d_k=4, d_v=128)
    return Question(
        1, "one_row_of_weights", "Why does one head with d_v = 128 still have one row of weights for each query?",
        (ONE_ROW,),
        (
            shapes_exercise(
                1, "B = 2, T = 5 queries, S = 7 keys, h = 1, d_k = 4, d_v = 128. Write the shape of the weights, then "
                "that of the head output.", stations(trace(layer_of(d).z), "A", "Z"),
            ),
        ),
        _row_answer,
    )  # fmt: skip


# ---------------------------------------------------------------- labels of heads


def moved(arrays: Mapping[str, Any], d: Dims, order: list[int], *names: str) -> dict[str, Any]:
    """The arrays with the head blocks of some weights in another order."""
    found = dict(arrays)
    for name in names:
        along = 0 if name in ("W_O", "b_Q", "b_K", "b_V") else 1
        blocks = np.split(arrays[name], int(d.h.size), axis=along)
        found[name] = np.concatenate([blocks[n] for n in order], axis=along)
    return found


def _labels_answer(reports: Reports) -> Answer:
    bench = Bench(reports)
    d = dims(B=2, T=4, S=5, d_model=7, h=3, d_k=2, d_v=6)
    y = layer_of(d, bias=True).y
    arrays = drawn(y)
    order, names = [2, 0, 1], ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V")
    before = evaluate(y, arrays)
    all_moved = evaluate(y, moved(arrays, d, order, *names, "W_O"))
    without = evaluate(y, moved(arrays, d, order, *names))
    same, other = float(np.abs(all_moved - before).max()), float(np.abs(without - before).max())
    return Answer(
        short="The output is a sum over heads, and a sum does not know the order of its terms. Renumber the heads in "
        "W_Q, W_K, W_V, their biases and W_O alike, and the layer is the same function.",
        paragraphs=(
            "So 'head 3' names a place in the arrays of one checkpoint and nothing else. Two trainings from different "
            "seeds, or two checkpoints of which one was stored in another order, cannot be compared head by head under "
            "equal numbers; heads have to be matched by what they do.",
            "The symmetry is exact about blocks: whole heads move, features do not cross from head to head, and W_O "
            "moves with the rest. A mask or a gate for each head has to be moved too.",
        ),
        findings=(
            bench.proved(SUM, "output"),
            bench.proved(LABELS, "Z"),
            bench.proved(LABELS, "Y"),
            Finding("evaluate", "Heads 0, 1, 2 stored as 2, 0, 1 in all arrays: the greatest change of the output is",
                    f"{same:.1g}", bool(np.allclose(all_moved, before))),
            Finding("evaluate", "The same, but W_O left as it was: the greatest change is", f"{other:.2f}",
                    not np.allclose(without, before)),
            bench.refuted(LABELS, "w_o_left_alone"),
            bench.refuted(LABELS, "features_across_heads"),
            bench.refuted(LABELS, "mask_of_each_head_left_alone"),
        ),
    )  # fmt: skip


def labels() -> Question:
    """Question 7."""
    return Question(
        7, "head_labels", "Why are head indices only labels?", (LABELS, SUM),
        (
            pattern_exercise(
                1, "To renumber heads, W_O (h v) m has to be opened into heads. Write the pattern.",
                "(h v) m -> h v m",
            ),
            pattern_exercise(
                2, "Write the pattern that opens W_Q m (h k) with the head axis in front.", "m (h k) -> h m k",
            ),
        ),
        _labels_answer,
    )  # fmt: skip
