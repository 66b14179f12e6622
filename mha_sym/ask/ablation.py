"""The question about head ablation: at which place, for which inputs, and what kind of statement comes of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mha_sym.ask.bench import Bench, Reports
from mha_sym.ask.exercises import number_exercise, shapes_exercise
from mha_sym.ask.heads import drawn, layer_of
from mha_sym.attention.dims import combined_weights, dims
from mha_sym.attention.variants import edited
from mha_sym.count import number_at, parameters
from mha_sym.evaluate import evaluate
from mha_sym.expr import Input
from mha_sym.render.questions.question import Answer, Finding, Question, Table

ABLATION = "head_ablation_locations"
AVERAGE = "zeroed_scores_leave_the_average"
PRUNING = "head_pruning_is_a_smaller_layer"
SUM = "concat_output_eq_sum_over_heads"
GONE, HEADS = 1, 3

_SAME, _LEFT = "removes the head too", "leaves the plain average of V^(r)"

#: place of the zero, where that is in the computation, what it does, the theorem that says so, its claim, and its
#: control that it is not the removal of the head
_PLACES = (
    ("head output Z^(r)", "after the weighted sum, before the join", "removes the head", ABLATION, "", ""),
    ("weights A^(r)", "after the softmax", _SAME, ABLATION, "zero_A", ""),
    ("values V^(r)", "after the projection and its bias", _SAME, ABLATION, "zero_V", ""),
    ("row block r of W_O", "in the weights", _SAME, ABLATION, "zero_rows_of_W_O", ""),
    ("column block r of W_V and of b_V", "in the weights", _SAME, ABLATION, "gate_columns_and_bias", ""),
    ("column block r of W_V, but not b_V", "in the weights", "leaves b_V", ABLATION, "", "columns_without_value_bias"),
    ("scores S^(r)", "before the softmax", _LEFT, AVERAGE, "zero_scores", "zero_scores_is_zero_Z"),
    ("queries Q^(r)", "after the projection and its bias", _LEFT, AVERAGE, "zero_Q", "zero_Q_is_zero_Z"),
    ("keys K^(r)", "after the projection and its bias", _LEFT, AVERAGE, "zero_K", "zero_K_is_zero_Z"),
)

_EXPERIMENTS = Table(
    "Four experiments that are all called ablation",
    ("experiment", "what changes", "what stays", "what mha_sym does of it"),
    (
        (
            "zeroing for one input", "Z^(r) in one run, for one sequence", "all weights, every other input",
            "all of it: a gate on Z^(r)",
        ),
        (
            "pruning at evaluation", "the function, for every input: the blocks of head r are taken out",
            "the other weights, as they were trained beside head r",
            "the function: proved equal to a layer of h - 1 heads, the saving counted; what it costs on a task is not",
        ),
        (
            "fine-tuning after pruning", "the weights that were left, by more training", "the h - 1 heads, their sizes",
            "the layer it starts from; training is not run",
        ),
        (
            "training with fewer heads", "everything from the first step on; d_k too where it is d_model / h",
            "the recipe and the data, at most", "the form and its counts; training is not run",
        ),
    ),
)


def _answer(reports: Reports) -> Answer:
    bench = Bench(reports)
    places, found = [], []
    for place, where, follows, theorem, claim, control in _PLACES:
        known = []
        if claim:
            found.append(bench.proved(theorem, claim))
            known.append("proved" if found[-1].holds else "NOT PROVED")
        if control:
            found.append(bench.refuted(theorem, control))
            known.append("as removal refuted" if found[-1].holds else "NOT REFUTED")
        places.append((place, where, follows, ", ".join(known) or "what is meant by it"))
    return Answer(
        short="Say which array is set to zero, at which step, for which inputs. Zeroing Z^(r), A^(r), V^(r) or row "
        "block r of W_O is one and the same removal of head r; zeroing its scores, queries or keys is another thing, "
        "which leaves the plain average of its values.",
        paragraphs=(
            "Zero scores are not zero weights: the softmax of equal scores is uniform over the allowed keys. The head "
            "goes on speaking, and says the average. That holds for zeroed queries and keys too, if what is zeroed is "
            "the array after its bias.",
            "The place is half of the description. The other half is for which inputs, and whether anything is trained "
            "afterwards: the second table tells four experiments apart. The first two are computations on given "
            "weights, which this tool executes. The last two train, which it does not.",
            "What such experiments find, that a head can go without harm, that pruned layers recover, that fewer heads "
            "do as well, is evidence about a stated model, task and metric. It is no law of attention: another model, "
            "task or metric may show the opposite. Only what is marked proved below holds for all weights and inputs.",
        ),
        findings=(
            *found,
            bench.proved(SUM, "layer", "The output is a sum of one term for each head: a removal takes one term away."),
            bench.proved(PRUNING, "pruning"),
            bench.proved(PRUNING, "saving"),
            bench.refuted(AVERAGE, "average_over_all_keys"),
            *_runs(),
        ),
        tables=(Table("Where the zero is", ("what is zero", "where that is", "what it does", "known"), tuple(places)),
                _EXPERIMENTS),
    )  # fmt: skip


def _runs() -> tuple[Finding, ...]:
    """One small layer, run with head 1 on, off for one sequence, off for all, taken out, and with its scores zero."""
    d = dims(B=2, T=4, S=5, d_model=7, h=HEADS, d_k=2, d_v=6)
    layer, weights = layer_of(d), combined_weights(d)
    gate = Input("g", (d.b, d.h), "gate")
    gated = edited(d, layer, weights, z=layer.z * gate).y
    scored = edited(d, layer, weights, scores=layer.scores * gate).y
    arrays = drawn(layer.y)
    on, once, off = np.ones((2, HEADS)), np.ones((2, HEADS)), np.ones((2, HEADS))
    once[0, GONE] = off[:, GONE] = 0
    full, first, all_off = (evaluate(gated, arrays | {"g": g}) for g in (on, once, off))
    flat = evaluate(scored, arrays | {"g": off})
    touched = [n for n in range(2) if not np.array_equal(full[n], first[n])]
    few = evaluate(layer_of(dims(B=2, T=4, S=5, d_model=7, h=HEADS - 1, d_k=2, d_v=6)).y, _without(arrays))
    gap, apart = float(np.abs(few - all_off).max()), float(np.abs(flat - all_off).max())
    return (
        Finding("evaluate", f"Head {GONE} zeroed for sequence 0 of 2: the output changes for",
                f"sequence {' and '.join(map(str, touched))}" if touched else "none", touched == [0]),
        Finding("evaluate",
                f"Head {GONE} zeroed for all, against a layer of the other {HEADS - 1} heads: they differ by",
                f"{gap:.1g} at most", bool(np.allclose(few, all_off))),
        Finding("evaluate", f"The scores of head {GONE} zeroed, against the head zeroed: they differ by",
                f"{apart:.2f} at most", not np.allclose(flat, all_off)),
    )  # fmt: skip


def _without(arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a layer without head `GONE`."""
    found = dict(arrays)
    for name, along in (("W_Q", 1), ("W_K", 1), ("W_V", 1), ("W_O", 0)):
        blocks = np.split(arrays[name], HEADS, axis=along)
        found[name] = np.concatenate([one for n, one in enumerate(blocks) if n != GONE], axis=along)
    return found


def ablation() -> Question:
    """Question 6."""
    sizes = {"d_model": 12, "d_k": 4, "d_v": 5}
    three, two = dims(h=3, **sizes), dims(h=2, **sizes)
    counts = [number_at(parameters(layer_of(d, bias).y), {}) for bias in (False, True) for d in (three, two)]
    saved, saved_biased = counts[0] - counts[1], counts[2] - counts[3]
    given = "A layer with d_model = 12, h = 3, d_k = 4, d_v = 5"
    return Question(
        6, "head_ablation", "Where exactly is a head ablated, and what does the ablation say?",
        (ABLATION, AVERAGE, PRUNING, SUM),
        (
            shapes_exercise(
                1, f"{given} is pruned by one head. Write the shape of W_O before and after.",
                [combined_weights(d).w_o.axes for d in (three, two)],
            ),
            number_exercise(
                2, f"{given} and no biases is pruned by one head. How many parameters are saved?", saved,
                {
                    saved_biased: "that counts the biases of the head too",
                    counts[0] // 4: "that is a quarter; the layer loses one head of three",
                    4 * sizes["d_model"] * sizes["d_k"]: "d_v is not d_k",
                },
            ),
            number_exercise(
                3, f"{given} and all biases is pruned by one head. How many parameters are saved?", saved_biased,
                {
                    saved: "that leaves out the biases of the head",
                    saved_biased + sizes["d_model"]: "the output bias stays",
                    counts[2] // 3: "the output bias stays, so it is not a third",
                },
            ),
        ),
        _answer,
    )  # fmt: skip
