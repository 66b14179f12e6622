"""Targets that cannot be checked: each gets one clear line, and none a traceback."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mha_sym.audit import Implementation, check, check_target
from mha_sym.errors import DataProblem, Problem, TargetProblem
from tests.audit import right


def problem(target: Any, **options: Any) -> Problem:
    with pytest.raises(Problem) as raised:
        check(target, **options)
    assert "\n" not in raised.value.one_line()
    return raised.value


def returning(edit: Any) -> Any:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        return edit(right.matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads))

    return attention


def test_nan_in_the_output_is_located() -> None:
    def spoilt(y):
        y[1, 2, 3] = np.nan
        y[1, 2, 4] = np.nan
        return y

    found = problem(returning(spoilt))
    assert isinstance(found, DataProblem)
    assert "returns nan in y" in found.what
    assert "y[b=1, t=2, m=3], the first of 2 such entries" in found.where


def test_infinity_is_located_too() -> None:
    def spoilt(y):
        y[0, 1, 2] = np.inf
        return y

    assert "returns inf in y" in problem(returning(spoilt)).what


def test_a_wrong_shape_shows_the_axes() -> None:
    found = problem(returning(lambda y: y[:, :-1]))
    assert "returns y in the wrong shape" in found.what
    assert found.expected.startswith("(b: ") and ", m: " in found.expected
    assert found.got.startswith("(")


def test_exchanged_axes_are_hinted_at() -> None:
    assert "batch_first=False" in problem(returning(lambda y: y.swapaxes(0, 1))).hint
    assert "another order" in problem(returning(lambda y: y.swapaxes(1, 2))).hint


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda y: (y, y), "returns a tuple of 2 where an array was expected"),
        (lambda y: [y], "returns a list of 1 where an array was expected"),
        (lambda y: None, "returns nothing (None) as y"),
        (lambda y: {"out": y}, "a dict with a key 'out' that is no stage"),
        (lambda y: {"weights": y}, "a dict without the output 'y'"),
        (lambda y: (100 * y).astype(int), "returns y as int64"),
        (lambda y: y + 0j, "returns y as complex128"),
        (lambda y: y > 0, "returns y as bool"),
        (lambda y: 3.5, "returns a value of type float as y"),
    ],
)
def test_what_is_no_output_is_named(edit: Any, what: str) -> None:
    assert what in problem(returning(edit)).what


def test_nothing_returned_is_named() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        x @ w_q

    assert "returns nothing (None)" in problem(attention).what


def test_a_tuple_is_understood_when_it_is_described() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = right.all_stages(x, w_q, w_k, w_v, w_o, heads)
        return shown["y"], shown["weights"]

    assert check(Implementation(call=attention, returns=("y", "weights"))).ok
    assert "returns=('y', 'weights')" in problem(attention).hint


def test_an_exception_is_told_with_the_line() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        raise KeyError("no such head")

    found = problem(attention)
    assert "raised KeyError: 'no such head'" in found.what
    file, line = found.where.split(";")[0].rsplit(":", 1)
    assert file == __file__ and int(line) == attention.__code__.co_firstlineno + 1


def test_changing_the_input_is_noticed() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        y = right.matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads)
        x *= 2
        return y

    assert "changes its input 'x' in place" in problem(attention).what

    def on_weights(x, weights, heads):
        w = weights
        w["w_q"] /= 2
        return right.matmul_and_transpose(x, w["w_q"], w["w_k"], w["w_v"], w["w_o"], heads)

    assert "changes its input 'w_q' in place" in problem(on_weights).what


def test_randomness_is_noticed() -> None:
    rng = np.random.default_rng(0)
    found = problem(returning(lambda y: y + 1e-3 * rng.normal(size=y.shape)))
    assert "is random from call to call: y differs" in found.what


def test_an_output_that_comes_and_goes_is_noticed() -> None:
    number = itertools.count()

    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = right.all_stages(x, w_q, w_k, w_v, w_o, heads)
        return {"y": shown["y"], "weights": shown["weights"] if next(number) % 2 == 0 else None}

    assert "is random from call to call: weights differs" in problem(attention).what


@pytest.mark.parametrize("name", ["T", "B", "h", "d_k"])
def test_empty_axes_are_refused(name: str) -> None:
    found = problem(right.matmul_and_transpose, sizes={name: 0})
    assert f"{name} cannot be 0" in found.what


def test_no_heads_are_refused() -> None:
    assert "heads cannot be 0" in problem(right.matmul_and_transpose, heads=0).what
    assert "heads cannot be 2.5" in problem(right.matmul_and_transpose, heads=2.5).what


def test_a_fully_masked_row_is_named_with_its_value() -> None:
    found = problem(right.masked, sizes={"B": 3, "T": 5, "S": 5}, lengths=(4, 0, 2))
    assert "a row keeps no key" in found.what
    assert "b=1, h=0, t=0" in found.got
    assert "the specification has no value (0/0)" in found.expected
    assert "padding" in found.where


def test_lengths_that_do_not_fit_are_refused() -> None:
    found = problem(right.masked, sizes={"B": 3, "T": 5, "S": 5}, lengths=(4, 6, 2))
    assert "3 lengths between 0 and 5" in found.expected


def test_weights_that_do_not_fit_are_refused() -> None:
    layer = right.Linear()
    names = {"w_q": "to_q", "w_k": "to_k", "w_v": "to_v", "w_o": "to_out"}

    def described(**edits: Any) -> Implementation:
        weights = {**layer.parameters, **edits}
        weights = {name: value for name, value in weights.items() if value is not None}
        return Implementation(call=layer, takes=("x",), heads=3, layout="linear", weights=weights, names=names)

    assert "weight 'w_k' is missing" in problem(described(to_k=None)).what
    assert "weight 'scale' has no place in this layout" in problem(described(scale=np.ones(3))).what
    assert "axis '(h k)' of w_q has 13 positions" in problem(described(to_q=np.ones((13, 10)))).what
    assert "no array of floating-point numbers" in problem(described(to_q=np.ones((12, 10), int))).what
    spoilt = layer.parameters["to_q"].copy()
    spoilt[2, 3] = np.nan
    assert "holds NaN" in problem(described(to_q=spoilt)).what


def test_a_description_that_means_nothing_is_refused() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        return x

    for wrong, message in (
        ({"takes": ("x", "bias")}, "'bias' is not understood"),
        ({"takes": ("heads",)}, "takes no input"),
        ({"returns": ("output",)}, "'output' is not understood"),
        ({"layout": "torch"}, "no layout 'torch'"),
        ({"heads": -1}, "heads cannot be -1"),
        ({"d_k": 2.0}, "d_k cannot be 2.0"),
        ({"tied": ("h",)}, "'h' is not understood"),
        ({"call": 3}, "3 cannot be called"),
        ({"scale": float("nan")}, "scale cannot be nan"),
        ({"dtype": "int8"}, "no floating-point format 'int8'"),
        ({"dtype": "bfloat16"}, "NumPy has no bfloat16"),
        ({"axes": {"y": "b h t k"}}, "'b h t k' is no order of the axes of y"),
        ({"axes": {"keep": "b t"}}, "'b t' is no order of the axes of keep"),
        ({"axes": {"out": "b t m"}}, "'out' is not understood"),
    ):
        with pytest.raises(Problem) as raised:
            check(Implementation(**{"call": attention, **wrong}))
        assert message in raised.value.what, wrong


def test_unknown_parameters_are_named() -> None:
    def attention(x, w_q, w_k, w_v, w_o, temperature):
        return x

    found = problem(attention)
    assert "parameter 'temperature'" in found.what and "takes=" in found.hint


def test_the_number_of_heads_is_asked_for() -> None:
    def attention(x, w_q, w_k, w_v, w_o):
        return right.matmul_and_transpose(x, w_q, w_k, w_v, w_o, 3)

    assert "how many heads" in problem(attention).what
    assert check(attention, heads=3).ok
    assert check(attention, heads=6).exit_code == 1


def test_contradicting_what_is_known_is_refused() -> None:
    found = problem(right.linear_layer(), heads=4)
    assert "heads is 3, says its description, not 4" in found.what
    assert "batch_first is True" in problem(right.linear_layer(), batch_first=False).what


def test_nothing_left_to_check_is_no_success() -> None:
    assert "nothing is left to check" in problem(right.causal_by_itself, draws=0).what
    causal = Implementation(call=right.causal_by_itself, causal=True)
    assert "nothing is left to check" in problem(causal, causal=False).what


def test_a_precision_at_which_nothing_shows_is_no_success() -> None:
    wide = Implementation(call=right.matmul_and_transpose, dtype="float16", d_model=1100, heads=3, d_k=8, scale=100)
    assert "nothing can be seen of y at float16" in problem(wide).what


def test_a_problem_after_a_difference_does_not_hide_the_difference() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads, keep=None):
        if keep is not None:
            raise NotImplementedError("no masks yet")
        return 2 * right.matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads)

    report = check(attention)
    assert report.exit_code == 1
    assert isinstance(report.problem, TargetProblem) and "no masks yet" in report.text()


def test_check_target_turns_problems_into_reports() -> None:
    report = check_target("nowhere_at_all:attention")
    assert report.exit_code == 2 and not report.ok
    assert "module nowhere_at_all cannot be imported: ModuleNotFoundError" in report.text()
    assert report.json()["verdict"] == "error"
    assert "nowhere_at_all" in report.json()["problem"]
