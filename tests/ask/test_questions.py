"""The seven questions: each answered by results that hold, and by results that are computed when it is asked."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mha_sym.ask import ablation, bench, find_question, questions
from mha_sym.ask.bench import Bench, counterexample_text, refusal
from mha_sym.ask.heads import drawn, layer_of
from mha_sym.attention.dims import dims
from mha_sym.cli import main
from mha_sym.errors import Problem
from mha_sym.evaluate import evaluate
from mha_sym.library import load, theorem_names
from mha_sym.proof.prover import Prover, prove
from mha_sym.proof.theorem import Counterexample, Verdict
from mha_sym.render.questions.question import Answer, Finding, Question
from mha_sym.render.questions.text import question_text

ALL = questions()
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def answers() -> dict[int, Answer]:
    return {one.number: one.answer() for one in ALL}


def test_there_are_seven_in_order() -> None:
    assert [one.number for one in ALL] == list(range(1, 8))
    assert len({one.name for one in ALL}) == 7


@pytest.mark.parametrize("question", ALL, ids=lambda one: one.name)
def test_every_finding_holds_and_names_what_there_is(question: Question, answers: dict[int, Answer]) -> None:
    answer = answers[question.number]
    assert answer.holds
    assert set(question.theorems) <= set(theorem_names())
    assert {"prove", "refute"} <= {one.how for one in answer.findings}
    assert {one.theorem for one in answer.findings} - {""} == set(question.theorems)
    for one in answer.findings:
        if one.theorem:
            stated = load(one.theorem)
            names = [c.name for c in (stated.claims if one.how == "prove" else stated.controls)]
            assert one.claim in names


@pytest.mark.parametrize("question", ALL, ids=lambda one: one.name)
def test_every_solution_is_right_and_every_exercise_can_be_failed(question: Question) -> None:
    assert [one.number for one in question.exercises] == list(range(1, len(question.exercises) + 1))
    wrong = {"shapes": "(1,1)->(1,1)", "pattern": "a b -> b a", "number": "1"}
    for one in question.exercises:
        assert one.mark(one.solution).right
        assert not one.mark(wrong[one.form]).right
        assert not one.mark(one.example).right


def test_text_fits_a_terminal(answers: dict[int, Answer]) -> None:
    for one in ALL:
        text = question_text(one, answers[one.number])
        assert max(map(len, text.splitlines())) <= 112, one.name
        assert "✗" not in text


# ---------------------------------------------------------------- the solutions, worked out anew


def solutions(number: int) -> list[str]:
    return [one.solution for one in find_question(number).exercises]


def test_solutions_against_numpy() -> None:
    b, t, h, k, m = 2, 5, 3, 4, 12
    q = np.zeros((b, t, m))
    split = q.reshape(b, t, h, k)
    heads = split.transpose(0, 2, 1, 3)
    chain = [q, split, heads, heads @ heads.transpose(0, 1, 3, 2)]
    assert solutions(2)[0] == "->".join(str(one.shape).replace(" ", "") for one in chain)
    stored = np.zeros((3, 10, 4))
    chain = [stored, stored.transpose(1, 0, 2), stored.transpose(1, 0, 2).reshape(10, 12)]
    assert solutions(3)[2] == "->".join(str(one.shape).replace(" ", "") for one in chain)
    x = np.zeros((2, 5, 10))
    flat = x @ np.zeros((10, 12))
    chain = [x, flat, flat.reshape(2, 5, 3, 4), flat.reshape(2, 5, 3, 4).transpose(0, 2, 1, 3)]
    assert solutions(4) == ["->".join(str(one.shape).replace(" ", "") for one in chain)]
    a = np.zeros((2, 1, 5, 4)) @ np.zeros((2, 1, 7, 4)).transpose(0, 1, 3, 2)
    assert solutions(1) == ["->".join(str(one.shape).replace(" ", "") for one in (a, a @ np.zeros((2, 1, 7, 128))))]


def entries(h: int, d_model: int, d_k: int, d_v: int, bias: bool) -> int:
    arrays: list[tuple[int, ...]] = [(d_model, d_k)] * (2 * h) + [(d_model, d_v), (d_v, d_model)] * h
    if bias:
        arrays += [(d_k,)] * (2 * h) + [(d_v,)] * h + [(d_model,)]
    return sum(int(np.prod(shape)) for shape in arrays)


def test_counts_against_arrays() -> None:
    assert solutions(5) == [str(entries(3, 12, 4, 5, bias)) for bias in (True, False)]
    saved = [entries(3, 12, 4, 5, bias) - entries(2, 12, 4, 5, bias) for bias in (False, True)]
    assert solutions(6)[1:] == [str(n) for n in saved]


def layer_by_loops(arrays: dict[str, Any], gate: np.ndarray[Any, Any], h: int, d_k: int, d_v: int) -> Any:
    """Cross-attention head by head and query by query, each head's output times its gate for each sequence."""
    x_q, x_k, x_v = (arrays[name] for name in ("X_q", "X_k", "X_v"))
    y = np.zeros((*x_q.shape[:2], arrays["W_O"].shape[1]))
    for b, r, t in itertools.product(range(len(x_q)), range(h), range(x_q.shape[1])):
        cols, vals = slice(r * d_k, (r + 1) * d_k), slice(r * d_v, (r + 1) * d_v)
        scores = (x_k[b] @ arrays["W_K"][:, cols]) @ (x_q[b, t] @ arrays["W_Q"][:, cols]) / np.sqrt(d_k)
        weights = np.exp(scores - scores.max())
        z = weights / weights.sum() @ (x_v[b] @ arrays["W_V"][:, vals])
        y[b, t] += gate[b, r] * z @ arrays["W_O"][vals]
    return y


def test_the_runs_of_the_ablation_against_loops() -> None:
    y = layer_of(dims(B=2, T=4, S=5, d_model=7, h=3, d_k=2, d_v=6)).y
    arrays = drawn(y)
    assert np.allclose(evaluate(y, arrays), layer_by_loops(arrays, np.ones((2, 3)), 3, 2, 6))
    few = layer_of(dims(B=2, T=4, S=5, d_model=7, h=2, d_k=2, d_v=6)).y
    gate = np.ones((2, 3))
    gate[:, ablation.GONE] = 0
    assert np.allclose(evaluate(few, ablation._without(arrays)), layer_by_loops(arrays, gate, 3, 2, 6))


# ---------------------------------------------------------------- live, and honest


def test_an_answer_is_computed_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a prover that decides nothing, no answer holds, and it says so."""
    original = Prover.claim

    def undecided(self: Any, claim: Any) -> Any:
        return replace(original(self, claim), verdict=Verdict.UNDECIDED, counterexample=None)

    monkeypatch.setattr(Prover, "claim", undecided)
    question = find_question(5)
    answer = question.answer()
    assert not answer.holds
    assert {one.result for one in answer.findings if not one.holds} == {"undecided"}
    assert "NOT ALL OF THIS HOLDS" in question_text(question, answer)
    assert main(["ask", "5"]) == 1


def test_the_digits_of_a_joined_matrix_say_where_an_entry_was(answers: dict[int, Answer]) -> None:
    (table,) = answers[3].tables
    assert "123 is the entry of head 1 in row 2 and column 3" in table.title
    entries = [" ".join(row[1:]).split() for row in table.rows]
    assert entries == [[f"{r}{m}{j}" for r in range(2) for j in range(4)] for m in range(3)]


def test_heads_are_counted_from_0(answers: dict[int, Answer]) -> None:
    said = [text for one in answers.values() for text in (one.short, *one.paragraphs)]
    assert not [text for text in said if re.search(r"\^\(1\)|\^\(h\)", text)]
    assert "[W_Q^(0) | ... | W_Q^(h - 1)]" in answers[3].short


def test_an_answer_without_findings_is_none() -> None:
    assert not Answer("because").holds
    assert not Answer("because", findings=(Finding("prove", "", "undecided", holds=False),)).holds


def test_something_that_is_not_refused_is_reported() -> None:
    assert not refusal("this", lambda: None).holds


def test_each_claim_is_proved_once() -> None:
    asked = Bench()
    first = asked.proved("parameter_count", "with_biases")
    assert asked.proved("parameter_count", "with_biases") == first
    assert first.result == "proved for all sizes"
    assert asked.proved("numerical_axis_trace", "identity").result.startswith("proved at ")


def test_what_reports_say_is_not_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    question = find_question(5)
    anew = question.answer()
    reports = {"parameter_count": prove(load("parameter_count"), recheck=False)}
    monkeypatch.setattr(bench, "Prover", None)
    assert question.answer(reports) == anew
    refuted = replace(reports["parameter_count"].claims[0], verdict=Verdict.UNDECIDED)
    odd = replace(reports["parameter_count"], claims=(refuted, *reports["parameter_count"].claims[1:]))
    assert not question.answer({"parameter_count": odd}).holds


def test_values_of_counterexamples() -> None:
    found = Counterexample({}, {}, "1.00000000000", "-3/4")
    assert counterexample_text(found) == "left 1, right -3/4"


# ---------------------------------------------------------------- the command


def test_command_lists_and_answers(capsys: Capture) -> None:
    assert main(["ask"]) == 0
    listed = capsys.readouterr().out
    for one in ALL:
        assert all(name in listed for name in one.theorems)
    assert main(["ask", "5"]) == 0
    assert "mha-sym derive parameter_count" in capsys.readouterr().out


def test_command_prints_json(capsys: Capture) -> None:
    assert main(["ask", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["questions"]) == 7
    assert main(["ask", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["holds"] is True
    assert {"how", "words", "result", "holds", "theorem", "claim"} == set(found["findings"][0])
    assert main(["ask", "2", "--answer", "(2,5,12)->(2,3,5,4)", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["right"], found["axis"]) == (False, "t")


def test_command_marks_answers(capsys: Capture) -> None:
    assert main(["ask", "2", "--answer", "(2,5,12)->(2,5,3,4)->(2,3,5,4)->(2,3,5,5)"]) == 0
    assert "Right" in capsys.readouterr().out
    assert main(["ask", "2", "--exercise", "3", "--answer", "b t (h k) -> b t h k"]) == 1
    assert "Axis 2 on the right is h, where you put t." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["ask", "8"], "mha-sym: there is no question 8; expected: 1 to 7\n"),
        (["ask", "0"], "mha-sym: there is no question 0; expected: 1 to 7\n"),
        (["ask", "4", "--exercise", "2", "--answer", "x"],
         "mha-sym: question 4 has no exercise 2; expected: exercise 1\n"),
        (["ask", "--answer", "x"],
         "mha-sym ask: --answer needs the number of a question: mha-sym ask N --answer TEXT.\n"),
        (["ask", "4", "--answer", "open('x')"], "mha-sym: \"open('x')\" is not a shape; "
         "expected: sizes with commas between them and -> between shapes: (2,6)->(2,3,2)\n"),
        (["ask", "x"], "mha-sym ask: Invalid value for '[N]': 'x' is not a valid integer.\n"),
    ],
)  # fmt: skip
def test_command_refuses(args: list[str], message: str, capsys: Capture) -> None:
    assert main(args) == 2
    assert capsys.readouterr().err == message


def test_unknown_question_is_a_problem() -> None:
    with pytest.raises(Problem, match="there is no question 9"):
        find_question(9)
