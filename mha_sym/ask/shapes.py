"""Questions about shapes: where (B, h, T, T) comes from, separate and combined matrices, what must divide what."""

from __future__ import annotations

import numpy as np

from mha_sym.ask.bench import Bench, Reports, refusal, shape_text
from mha_sym.ask.exercises import pattern_exercise, shapes_exercise, stations
from mha_sym.attention.dims import combined_weights, dims, head_weights, join_heads, self_inputs
from mha_sym.attention.forms import combined
from mha_sym.evaluate import evaluate, evaluate_all
from mha_sym.expr import inputs
from mha_sym.pattern import einsum, rearrange
from mha_sym.render.pictures.svg import axes_text
from mha_sym.render.questions.question import Answer, Finding, Question, Table
from mha_sym.render.trace_text import words
from mha_sym.trace import Step, trace, trace_pattern

HEADS = "combined_projection_eq_separate_heads"
BLOCKS = "split_columns_inverse_join_columns"
LAYERS = "combined_layer_eq_separate_layer"
COSTS = "score_entries_and_costs"
COUNT = "parameter_count"


# ---------------------------------------------------------------- where (B, h, T, T) comes from


def _scores_steps(**sizes: int) -> tuple[Step, ...]:
    d = dims(**sizes)
    return trace(combined(d, self_inputs(d), combined_weights(d)).scores)


def _scores_answer(reports: Reports) -> Answer:
    bench = Bench(reports)
    steps = _scores_steps()
    product = next(step for step in steps if step.operation == "contract" and step.inputs[0] and len(step.axes) == 4)
    given = " and ".join(f"({axes_text(axes)})" for axes in product.inputs)
    summed = ", ".join(one.name for one in product.change.summed)
    d = dims()
    keys = combined(d, self_inputs(d), combined_weights(d)).k
    q = rearrange(combined(d, self_inputs(d), combined_weights(d)).q, "b h t k -> b t h k")
    within = "the product of queries (b t h k) with keys (b h s k), axes paired by place"
    return Answer(
        short="Q has the axes (b, h, t, k) and K has (b, h, s, k). Their product sums over k and keeps the rest: "
        "(b, h, t, s). In self-attention s runs over the same T tokens as t, so the shape is (B, h, T, T).",
        paragraphs=(
            "Each axis has a reason. b and h are in both factors and are not summed, so every sequence and every head "
            "has scores of its own. k is in both and is summed: that is the inner product of a query and a key. t is "
            "in Q only and s is in K only, so both stay, and there is a score for each pair of a query and a key.",
            "The last two axes are equally long and still two axes: t says who asks, s says who is asked. The softmax "
            "runs over s. With keys from elsewhere the shape is (B, h, T, S).",
        ),
        findings=(
            Finding("trace", f"Queries and keys, {given}, summed over {summed}, give", f"({axes_text(product.axes)})"),
            bench.proved(HEADS, "scores"),
            bench.proved(COSTS, "stored_scores", "The entries of the scores, added up one by one, are B h T^2."),
            bench.refuted(COSTS, "one_score_for_all_heads"),
            refusal(f"If the transpose is forgotten, {within}:",
                    lambda: einsum("b h t k, b h s k -> b h t s", q, keys)),
        ),
        tables=(_trace_table(steps),),
    )  # fmt: skip


def _trace_table(steps: tuple[Step, ...]) -> Table:
    rows = tuple((str(s.number), s.name, f"({axes_text(s.axes)})", words(s, steps)) for s in steps)
    return Table("The axes from the input to the scores", ("step", "value", "axes", "what happened"), rows)


def scores() -> Question:
    """Question 2."""
    sizes = {"B": 2, "T": 5, "d_model": 12, "h": 3, "d_k": 4, "d_v": 4}
    found = stations(_scores_steps(**sizes), "Q_flat", "Q", "S")
    return Question(
        2, "scores_shape", "Where does the shape (B, h, T, T) come from?", (HEADS, COSTS),
        (
            shapes_exercise(
                1, "The projected queries have the shape (2,5,12), and there are h = 3 heads. Write the shapes on the "
                "way to the scores: projection -> split -> transpose -> scores of self-attention.", found, told=True,
            ),
            pattern_exercise(
                2, "Write the scores as one einsum of queries (b h t k) and keys (b h s k).",
                "b h t k, b h s k -> b h t s",
            ),
            pattern_exercise(3, "Write the way from the projection (b t (h k)) to the heads.", "b t (h k) -> b h t k"),
        ),
        _scores_answer,
    )  # fmt: skip


# ---------------------------------------------------------------- separate and combined matrices


def _matrices_answer(reports: Reports) -> Answer:
    bench = Bench(reports)
    d = dims(d_model=3, h=2, d_k=4, d_v=4)
    separate = head_weights(d)
    joined = join_heads(separate, d)
    heads, rows, columns = np.ogrid[0:2, 0:3, 0:4]
    stored = heads * 100.0 + rows * 10 + columns  # its digits say where an entry was: head, row, column
    wide = evaluate(joined.w_q, {"W_Q": stored})
    same = evaluate(rearrange(rearrange(separate.w_q, "h m k -> m h k"), "m h k -> m (h k)"), {"W_Q": stored})
    shown = tuple(
        (f"m = {n}", *(" ".join(f"{int(x):03d}" for x in part) for part in np.split(row, 2)))
        for n, row in enumerate(wide)
    )
    return Answer(
        short="Lay them side by side: W_Q = [W_Q^(0) | ... | W_Q^(h - 1)], and W_K and W_V likewise; stack the blocks "
        "of W_O. As patterns: h m k -> m (h k) for W_Q, W_K and W_V, and h v m -> (h v) m for W_O.",
        paragraphs=(
            "Column r d_k + j of the combined matrix is column j of head r: the head is the slow factor. That is the "
            "order in which the split of the projection, b t (h k) -> b t h k, reads it. Moving the head axis next to "
            "the feature axis comes first; a reshape of (h, d_model, d_k) alone would mix rows of different heads.",
            "For W_O the head axis stands in front already, (h, d_v, d_model), and no transpose is needed. Biases are "
            "joined as h k -> (h k); the output bias belongs to no head and stays as it is.",
        ),
        findings=(
            bench.proved(BLOCKS, "split_join_W_Q"),
            bench.proved(BLOCKS, "join_split_W_Q"),
            bench.proved(BLOCKS, "split_join_W_O"),
            bench.proved(LAYERS, "Y_biased", "The layer computes the same with either kind of matrices, biases too."),
            bench.refuted(BLOCKS, "interleaved_columns_written"),
            bench.refuted(BLOCKS, "reshaped_without_transpose"),
            Finding(
                "evaluate", "Two 3 x 4 matrices joined by the form, and by the pattern h m k -> m (h k):",
                "the same numbers" if np.array_equal(wide, same) else "different numbers", np.array_equal(wide, same),
            ),
        ),
        tables=(Table(
            "W_Q made of two heads with 3 rows and 4 columns each; the digits of an entry say where it was, all "
            "counted from 0: 123 is the entry of head 1 in row 2 and column 3",
            ("row", "columns 0 to 3", "columns 4 to 7"), shown),
        ),
    )  # fmt: skip


def matrices() -> Question:
    """Question 3."""
    steps = trace_pattern((3, 10, 4), "h m k -> m h k", "m h k -> m (h k)")
    return Question(
        3, "separate_to_combined", "How do separate matrices for Q, K and V become combined ones?", (BLOCKS, LAYERS),
        (
            pattern_exercise(
                1, "The query matrices of the heads are stored as (h m k). Write the pattern that makes the combined "
                "matrix.", "h m k -> m (h k)",
            ),
            pattern_exercise(
                2, "The output matrices of the heads are stored as (h v m). Write the pattern that makes W_O.",
                "h v m -> (h v) m",
            ),
            shapes_exercise(
                3, "Three heads, d_model = 10, d_k = 4, stored as (3,10,4). Write the shapes: stored -> transposed -> "
                "joined.", stations(steps, "x", "pattern 1", "pattern 2"), told=True,
            ),
        ),
        _matrices_answer,
    )  # fmt: skip


# ---------------------------------------------------------------- what must divide what


def _divisible_answer(reports: Reports) -> Answer:
    bench = Bench(reports)
    d = dims(B=1, T=4, d_model=7, h=3, d_k=2, d_v=5)
    layer = combined(d, self_inputs(d), combined_weights(d))
    rng = np.random.default_rng(0)
    arrays = {one.name: rng.integers(-3, 4, [int(a.size) for a in one.axes]) * 1.0 for one in inputs(layer.y)}
    values = evaluate_all({"Z": layer.z, "Y": layer.y}, arrays)
    shapes = ", ".join(f"{name} {shape_text(value)}" for name, value in values.items())
    return Answer(
        short="Never, as far as attention goes: d_k and d_v are chosen freely, and W_O brings h d_v back to d_model. "
        "h must divide d_model only where an interface sets d_k = d_v = d_model / h without asking.",
        paragraphs=(
            "What has to hold is that a feature axis which is split into heads has the size h d_k, because it was made "
            "that way: W_Q has h d_k columns. Whether h d_k is also d_model is a second matter. The original paper "
            "chooses d_k = d_v = d_model / h so that the cost does not grow with the number of heads; many interfaces "
            "take only d_model and h, and must then refuse a width that h does not divide.",
            "One identity rests on the convention: 4 d_model^2 parameters. With other widths it is wrong.",
        ),
        findings=(
            bench.proved(LAYERS, "Y", "The layer of joined heads is the layer of separate heads: for every d_model, h, "
                         "d_k and d_v, all independent of each other."),
            Finding("evaluate", "A layer with d_model = 7, h = 3, d_k = 2, d_v = 5 runs, and gives", shapes,
                    values["Y"].shape == (1, 4, 7)),
            refusal("Splitting 10 features themselves into 3 heads:",
                    lambda: trace_pattern((2, 5, 10), "b t (h k) -> b t h k", sizes={"h": 3})),
            bench.proved(COUNT, "usual_width", "With h d_k = h d_v = d_model = d there are 4 d^2 parameters."),
            bench.refuted(COUNT, "square_matrices", "4 d_model^2 for any d_k and d_v:"),
        ),
    )  # fmt: skip


def divisible() -> Question:
    """Question 4."""
    d = dims(B=2, T=5, d_model=10, h=3, d_k=4, d_v=4)
    steps = trace(combined(d, self_inputs(d), combined_weights(d)).q)
    return Question(
        4, "divisibility", "When must h divide d_model, and when is that only a convention?", (LAYERS, COUNT),
        (
            shapes_exercise(
                1, "x has the shape (2,5,10), so d_model = 10; there are h = 3 heads of d_k = 4. Write the shapes: "
                "x -> projected queries -> split -> transposed.", stations(steps, "X", "Q_flat", "Q"), told=True,
            ),
        ),
        _divisible_answer,
    )  # fmt: skip
