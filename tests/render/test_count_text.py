"""The table and the JSON of counts, word for word."""

from __future__ import annotations

import json

import pytest

from mha_sym.attention.dims import combined_weights, dims, self_inputs
from mha_sym.attention.forms import combined
from mha_sym.count import Counts, count
from mha_sym.errors import DataProblem
from mha_sym.render.count_text import count_json, count_table

SIZES = {"B": 2, "T": 5, "d_model": 11, "h": 3, "d_k": 4, "d_v": 6}


def counts(bias: bool, itemsize: int = 4) -> Counts:
    d = dims()
    return count(combined(d, self_inputs(d), combined_weights(d, bias)).y, itemsize)


def test_table_with_numbers() -> None:
    assert count_table(counts(bias=True), SIZES, bias=True) == """\
With biases; 4 bytes an entry; at B=2, T=5, d_model=11, h=3, d_k=4, d_v=6.

quantity              number  formula
────────────────────  ──────  ──────────────────────────────────────────────────────────────────────────
parameters               713  2·d_model·h·d_k + 2·d_model·h·d_v + 2·h·d_k + h·d_v + d_model
                              entries of all weights and biases that occur
  weights                660  2·d_model·h·d_k + 2·d_model·h·d_v
                              entries of the weight matrices
  biases                  53  2·h·d_k + h·d_v + d_model
                              entries of the bias vectors
stored scores            150  B·T²·h
                              entries of the arrays that softmax is applied to
multiply-adds          8,100  B·T²·h·d_k + B·T²·h·d_v + 2·B·T·d_model·h·d_k
                              + 2·B·T·d_model·h·d_v
                              one multiplication and one addition each, in products
pointwise operations   1,130  4·B·T²·h + 2·B·T·h·d_k + B·T·h·d_v + B·T·d_model
                              all other arithmetic: biases, scale, masks, softmax
bytes moved           17,252  24·B·T²·h + 32·B·T·h·d_k + 24·B·T·h·d_v + 24·B·T·d_model
                              + 8·d_model·h·d_k + 8·d_model·h·d_v + 8·h·d_k + 4·h·d_v
                              + 4·d_model
                              every operation reads its operands, writes its result; unfused
running time                  does not follow from the expression: it depends on the machine; measure it
"""[:-1]


def test_table_without_numbers_has_no_column_for_them() -> None:
    lines = count_table(counts(bias=False)).split("\n")
    assert lines[0] == "Without biases; 4 bytes an entry."
    assert lines[2].split() == ["quantity", "formula"]
    assert lines[4].split(None, 1) == ["parameters", "2·d_model·h·d_k + 2·d_model·h·d_v"]
    assert lines[8].split() == ["biases", "0"]


def test_a_quantity_says_which_sizes_it_needs() -> None:
    table = count_table(counts(bias=False, itemsize=2), {"B": 2, "T": 5})
    assert "2 bytes an entry; at B=2, T=5." in table
    assert "needs d_model, h, d_k, d_v  2·d_model·h·d_k" in table
    assert "needs h  B·T²·h" in table


def test_json_is_plain_data() -> None:
    found = json.loads(json.dumps(count_json(counts(bias=True), SIZES)))
    assert found["bias"] is True
    assert found["itemsize"] == 4
    assert found["sizes"] == SIZES
    assert found["quantities"]["stored_scores"] == {
        "formula": "B·T²·h",
        "value": 150,
        "unit": "entries",
        "meaning": "entries of the arrays that softmax is applied to",
    }
    assert list(found["quantities"]) == [
        "parameters", "weights", "biases", "stored_scores", "multiply_adds", "pointwise", "bytes_moved", "running_time",
    ]  # fmt: skip
    assert found["quantities"]["running_time"]["value"] is None


def test_json_has_null_where_a_size_is_missing() -> None:
    found = count_json(counts(bias=False), {"T": 5})
    assert [one["value"] for one in found["quantities"].values()] == [None, None, 0, None, None, None, None, None]


def test_counts_that_are_integers_already_are_shown() -> None:
    numbers = counts(bias=True).at(SIZES)
    assert "parameters            713" in count_table(numbers)
    assert count_json(numbers)["quantities"]["parameters"]["value"] == 713


def test_the_convention_that_is_said_must_be_the_one_that_was_counted() -> None:
    with pytest.raises(ValueError, match="bias=True, but 0 bias entries were counted"):
        count_table(counts(bias=False), bias=True)
    with pytest.raises(ValueError, match="bias=False"):
        count_json(counts(bias=True), bias=False)


def test_a_size_of_zero_is_refused() -> None:
    with pytest.raises(DataProblem, match="h = 0 is not a size"):
        count_table(counts(bias=False), SIZES | {"h": 0})
