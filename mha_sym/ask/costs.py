"""The question about counting parameters, biases said."""

from __future__ import annotations

from mha_sym.ask.bench import Bench, Reports
from mha_sym.ask.exercises import number_exercise
from mha_sym.attention.dims import combined_weights, dims, self_inputs
from mha_sym.attention.forms import combined
from mha_sym.count import number_at, parameter_rows, parameters
from mha_sym.expr import Expr
from mha_sym.render.formulas.size_text import size_text
from mha_sym.render.questions.question import Answer, Finding, Question, Table

COUNT = "parameter_count"
SIZES = {"d_model": 12, "h": 3, "d_k": 4, "d_v": 5}


def _layer(bias: bool) -> Expr:
    d = dims()
    return combined(d, self_inputs(d), combined_weights(d, bias)).y


def _number(bias: bool) -> int:
    return number_at(parameters(_layer(bias)), SIZES)


def _answer(reports: Reports) -> Answer:
    bench = Bench(reports)
    rows = parameter_rows(_layer(True))
    table = tuple(
        (row.name, row.role, size_text(row.count), str(number_at(row.count, SIZES))) for row in rows
    )  # fmt: skip
    without, extra = parameters(_layer(False)), parameters(_layer(True)) - parameters(_layer(False))
    return Answer(
        short="Add up the entries of the arrays that are there, one by one, and say whether the biases are among them. "
        f"Without biases it is {size_text(without)}; all four biases are {size_text(extra)} more.",
        paragraphs=(
            "Three slips are common. The biases are counted or left out without a word; the output bias b_O is counted "
            "once for each head, though there is one; and 4 d_model^2 is used where h d_k or h d_v is not d_model. "
            "Each is refuted below. The number of heads is not in the count when the width h d_k is held fixed.",
            "Look at the interface before you count: one switch for all four biases, a switch for those of Q, K and V, "
            "or none for some of them are all in use.",
        ),
        findings=(
            Finding("count", "Entries of the weights that occur in the layer without biases:", size_text(without)),
            Finding("count", "What the biases add:", size_text(extra)),
            bench.proved(COUNT, "without_biases"),
            bench.proved(COUNT, "with_biases"),
            bench.proved(COUNT, "usual_width_with_biases"),
            bench.proved(COUNT, "independent_of_heads"),
            bench.refuted(COUNT, "biases_forgotten"),
            bench.refuted(COUNT, "bias_of_every_head"),
            bench.refuted(COUNT, "square_matrices"),
        ),
        tables=(
            Table(
                f"Every array, counted, at {', '.join(f'{n}={size}' for n, size in SIZES.items())}",
                ("array", "role", "entries", "number"),
                (*table, ("all", "", size_text(parameters(_layer(True))), str(_number(True)))),
            ),
        ),
    )  # fmt: skip


def parameters_question() -> Question:
    """Question 5."""
    plain, biased = _number(False), _number(True)
    outputs = SIZES["d_model"]
    mistakes = {
        plain: "that is the number without biases",
        biased: "that counts the biases too",
        biased - outputs: "the output bias b_O is missing",
        biased + (SIZES["h"] - 1) * outputs: "the output bias is one for the layer, not one for each head",
        4 * outputs**2: "4 d_model^2 holds where h d_k = h d_v = d_model, and here h d_v is not d_model",
        4 * outputs**2 + 4 * outputs: "4 d_model^2 + 4 d_model holds where h d_k = h d_v = d_model, and here it is not",
    }
    given = "A layer has " + ", ".join(f"{name} = {size}" for name, size in SIZES.items())
    return Question(
        5, "parameters", "How many parameters has a layer, with biases neither added nor dropped in silence?", (COUNT,),
        (
            number_exercise(1, f"{given}, and all four biases. How many parameters?", biased, mistakes),
            number_exercise(
                2, f"{given}, and no bias. How many parameters?", plain,
                {biased: "that counts the biases too", 4 * outputs**2: mistakes[4 * outputs**2]},
            ),
        ),
        _answer,
    )  # fmt: skip
