"""Questions, answers and marked exercises as plain text and as JSON.

Defines `list_text`, `question_text`, `marked_text`, and `list_json`, `question_json`, `marked_json`.  What is shown is
in `mha_sym.render.questions.question`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from mha_sym.render.columns import columns
from mha_sym.render.prose import unicode_prose
from mha_sym.render.questions.question import Answer, Exercise, Finding, Marked, Question, Table

_WIDTH = 96
_CELLS = 100
_HOW = {
    "prove": "proof", "refute": "refutation", "count": "count", "trace": "trace", "evaluate": "run", "build": "refusal",
}  # fmt: skip
_FORMS = {"shapes": "shapes", "pattern": "an einops pattern", "number": "a whole number"}


def list_text(questions: Sequence[Question]) -> str:
    """The questions, one a row, with the theorems that answer them."""
    rows = [[str(one.number), _cell(one.title, 60), "\n".join(one.theorems)] for one in questions]
    table = columns(["", "question", "theorems"], rows, right=[0])
    return f"{table}\n\nmha-sym ask N answers question N; mha-sym ask N --answer TEXT checks an answer of yours."


def question_text(question: Question, answer: Answer) -> str:
    """A question with its answer: the short answer, the reasons, what the library found, tables, exercises."""
    parts = [f"{question.number}. {question.title}", _folded(answer.short), *map(_folded, answer.paragraphs)]
    if not answer.holds:
        parts.insert(1, "NOT ALL OF THIS HOLDS: see the findings marked with ✗.")
    parts.append("\n".join(["Found just now:", *map(_finding, answer.findings)]))
    parts += map(_table, answer.tables)
    theorems = "\n".join(f"  mha-sym derive {name}" for name in question.theorems)
    parts.append(f"The theorems, step by step:\n{theorems}")
    parts.append("\n".join(["Check yourself:", *(_exercise(question, one) for one in question.exercises)]))
    return "\n\n".join(parts)


def marked_text(exercise: Exercise, answer: str, marked: Marked) -> str:
    """What is said of a reader's answer."""
    sign = "✓" if marked.right else "✗"
    lines = [_folded(exercise.prompt), "", f"{sign} {answer.strip()}", *(_folded(one, "  ") for one in marked.words)]
    return "\n".join(lines)


def _folded(text: str, indent: str = "") -> str:
    return textwrap.fill(
        unicode_prose(text), _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _cell(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(unicode_prose(text), width, break_long_words=False, break_on_hyphens=False)) or ""


def _finding(one: Finding) -> str:
    sign = ("≠" if one.how == "refute" else "✓") if one.holds else "✗"
    head = f"  {sign} {_HOW[one.how]:<11}"
    source = f"  [{one.theorem}: {one.claim}]" if one.theorem else ""
    text = f"{one.words}" + (" " if one.words.endswith(":") else " — " if one.words.endswith(".") else " ")
    lines = textwrap.wrap(
        unicode_prose(text + one.result), _WIDTH, initial_indent=head, subsequent_indent=" " * len(head),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join([*lines, *([" " * (len(head) - 2) + source] if source else [])])


def _table(table: Table) -> str:
    """The table, its cells folded so that all columns together fit."""
    count = len(table.header)
    natural = [max(len(row[n]) for row in (table.header, *table.rows)) for n in range(count)]
    room = _CELLS - 2 * (count - 1)
    widths = list(_shares(natural, room))
    rows = [[_cell(cell, width) for cell, width in zip(row, widths, strict=True)] for row in table.rows]
    return f"{_folded(table.title)}:\n\n{columns(table.header, rows)}"


def _shares(natural: Sequence[int], room: int) -> Iterator[int]:
    """Narrow columns keep their width, wide ones share the rest."""
    left, wide = room, len(natural)
    narrow: set[int] = set()
    for place in sorted(range(len(natural)), key=natural.__getitem__):
        if natural[place] <= left // wide:
            narrow.add(place)
            left, wide = left - natural[place], wide - 1
    for place, width in enumerate(natural):
        yield width if place in narrow else max(8, left // wide)


def _exercise(question: Question, one: Exercise) -> str:
    which = f" --exercise {one.number}" if one.number > 1 else ""
    how = f"mha-sym ask {question.number}{which} --answer '...'"
    lines = textwrap.wrap(
        unicode_prose(one.prompt), _WIDTH, initial_indent=f"  {one.number}. ", subsequent_indent="     ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join([*lines, f"     {how}   ({_FORMS[one.form]}, written as in {one.example})"])


# ---------------------------------------------------------------- JSON


def list_json(questions: Sequence[Question]) -> dict[str, Any]:
    """The questions without their answers."""
    return {"questions": [_question(one) for one in questions]}


def question_json(question: Question, answer: Answer) -> dict[str, Any]:
    """A question with its answer."""
    return {
        **_question(question),
        "holds": answer.holds,
        "answer": answer.short,
        "paragraphs": list(answer.paragraphs),
        "findings": [asdict(one) for one in answer.findings],
        "tables": [
            {"title": one.title, "header": list(one.header), "rows": [list(row) for row in one.rows]}
            for one in answer.tables
        ],
    }


def marked_json(question: Question, exercise: Exercise, answer: str, marked: Marked) -> dict[str, Any]:
    """What is said of a reader's answer; ``axis`` is null if no axis went wrong."""
    return {
        "question": question.number,
        "exercise": exercise.number,
        "prompt": exercise.prompt,
        "answer": answer,
        "right": marked.right,
        "words": list(marked.words),
        "axis": marked.axis or None,
    }


def _question(one: Question) -> dict[str, Any]:
    return {
        "number": one.number,
        "name": one.name,
        "question": one.title,
        "theorems": list(one.theorems),
        "exercises": [
            {"number": e.number, "prompt": e.prompt, "form": e.form, "example": e.example} for e in one.exercises
        ],
    }
