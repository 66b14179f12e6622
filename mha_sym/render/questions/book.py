"""Questions with their answers and exercises as a page, and as a chapter in LaTeX.

Defines `html_questions` and `latex_questions`.  The answers are given; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from mha_sym.render.formulas.scripts import latex_escape
from mha_sym.render.latex.plain import latex_rows, latex_text, typed
from mha_sym.render.pictures.parts import escaped
from mha_sym.render.questions.question import Answer, Exercise, Finding, Question, Table
from mha_sym.render.vocabulary import Vocabulary
from mha_sym.render.web.math import Writer
from mha_sym.render.web.page import page

#: a question with what it was answered when the book was made
Answered = tuple[Question, Answer]

TITLE = "Check yourself"
WORDS = "Each answer rests on results that were computed when this was written; the commands mark answers of your own."
WRONG = "Not all of this holds: see the findings that are marked so."


def html_questions(answered: Sequence[Answered], links: Mapping[str, str]) -> str:
    """The page."""
    lines = "\n".join(_page(answered, Writer(Vocabulary(), links)))
    return page(TITLE, f'<nav><a href="index.html">All theorems</a></nav>\n<main>\n{lines}\n</main>\n')


def _page(answered: Sequence[Answered], writer: Writer) -> Iterator[str]:
    yield f"<h1>{TITLE}</h1>\n<p>{WORDS}</p>\n<ol>"
    for question, _ in answered:
        yield f'<li><a href="#question-{question.number}">{writer.prose(question.title)}</a></li>'
    yield "</ol>"
    for question, answer in answered:
        yield f'<h2 id="question-{question.number}">{question.number}. {writer.prose(question.title)}</h2>'
        yield from [] if answer.holds else [f'<p class="alarm">{WRONG}</p>']
        yield f'<div class="statement"><p>{writer.prose(answer.short)}</p></div>'
        yield from (f"<p>{writer.prose(one)}</p>" for one in answer.paragraphs)
        yield f"<details><summary>{len(answer.findings)} results</summary><ul>"
        yield from (_finding(one, writer) for one in answer.findings)
        yield "</ul></details>"
        yield from (line for table in answer.tables for line in _table(table, writer))
        yield f"<p>The theorems, step by step: {writer.prose(', '.join(question.theorems))}.</p>"
        yield from _exercises(question, writer)


def _finding(one: Finding, writer: Writer) -> str:
    alarm = "" if one.holds else ' class="alarm"'
    source = f" ({writer.prose(one.theorem)}: <code>{escaped(one.claim)}</code>)" if one.theorem else ""
    return f"<li{alarm}>{writer.prose(one.words)} <strong>{writer.prose(one.result)}</strong>{source}</li>"


def _table(table: Table, writer: Writer) -> Iterator[str]:
    yield f'<div class="scroll" tabindex="0" role="group" aria-label="{escaped(table.title)}">'
    yield f"<table><caption>{writer.prose(table.title)}</caption>"
    head = "".join(f'<th scope="col">{escaped(one)}</th>' for one in table.header)
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{writer.prose(one)}</td>' for one in row)}</tr>"
    yield "</tbody></table></div>"


def _exercises(question: Question, writer: Writer) -> Iterator[str]:
    for one in question.exercises:
        yield f"<h3>Exercise {one.number}.</h3>"
        yield f"<p>{writer.prose(one.prompt)}</p><p><code>{escaped(_command(question, one))}</code></p>"
        yield f"<p>Put your answer where the dots are, written as in <code>{escaped(one.example)}</code>.</p>"
        yield f"<details><summary>Solution</summary><p><code>{escaped(one.solution)}</code></p></details>"


def _command(question: Question, one: Exercise) -> str:
    which = f" --exercise {one.number}" if one.number > 1 else ""
    return f"mha-sym ask {question.number}{which} --answer '...'"


# ---------------------------------------------------------------- LaTeX


def latex_questions(answered: Sequence[Answered], names: Collection[str]) -> Iterator[str]:
    """The lines of the chapter; ``names`` are the theorems that have a place to lead to."""
    yield rf"{{\LARGE\bfseries {TITLE}\par}}"
    yield WORDS
    for question, answer in answered:
        yield rf"\subsection*{{{question.number}. {latex_text(question.title)}}}"
        yield from [] if answer.holds else [rf"{{\color{{alarm}}\bfseries {WRONG}\par}}"]
        yield rf"\textit{{{latex_text(answer.short)}}}\par"
        yield from (latex_text(one) + r"\par" for one in answer.paragraphs)
        yield r"\begin{itemize}"
        for found in answer.findings:
            yield rf"\item {latex_text(found.words)} \textbf{{{latex_text(found.result)}}}" + _source(found, names)
        yield r"\end{itemize}"
        for table in answer.tables:
            yield from (rf"{latex_text(table.title)}:\par", *latex_rows(table))
        for one in question.exercises:
            yield rf"\textbf{{Exercise {one.number}.}} {latex_text(one.prompt)}\par"
            yield rf"{{\small Solution: \texttt{{{typed(one.solution)}}}\par}}"


def _source(one: Finding, names: Collection[str]) -> str:
    if not one.theorem:
        return ""
    shown = latex_escape(one.theorem).replace(r"\_", r"\_\allowbreak{}")
    name = rf"\name{{{shown}}}"
    return rf" (\hyperlink{{theorem.{one.theorem}}}{{{name}}})" if one.theorem in names else f" ({name})"
