r"""Code beside the form that it should compute, in the forms that are no web page: Markdown, LaTeX, and JSON.

Defines `comparison_markdown`, `comparison_latex` and `comparison_json`, which say the same as the page, and
`COMPARISONS`, the list of all forms.  Pictures are tables of axes here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mha_sym.render.comparison import CODE, Comparison, Fork, Mistake, around, comparison_page, parting
from mha_sym.render.latex.article import latex_frame
from mha_sym.render.latex.plain import latex_rows, latex_text, typed
from mha_sym.render.markdown import markdown_formula, markdown_table, markdown_text_of
from mha_sym.render.pictures.svg import axes_text
from mha_sym.render.questions.question import Table
from mha_sym.render.trace_text import words as step_words
from mha_sym.trace import Step, trace

#: before the two definitions of a value, and before their axes
WORDS = ("As it should be:", "In the code:")
AXES = ("The axes as they should be:", "The axes in the code:")


def _stations(fork: Fork) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The steps of the right way, none if the value should not be there, and those of the code."""
    return () if fork.right is None else tuple(trace(fork.right)), tuple(trace(fork.wrong))


def _rows(steps: Sequence[Step]) -> Iterator[tuple[str, str, str]]:
    for n, step in enumerate(steps, 1):
        yield str(n), step_words(step, steps), f"({axes_text(step.axes)})"


def _told(fork: Fork) -> str:
    """Where the ways part, in a sentence."""
    right, wrong = _stations(fork)
    return f"There should be no {fork.name} here." if fork.right is None else parting(right, wrong)


# ---------------------------------------------------------------- Markdown


def comparison_markdown(found: Comparison) -> str:
    """The page as Markdown.

    Example:
        >>> print(comparison_markdown(Comparison("mine.py:attention", False, "It disagrees.")))
        # `mine.py:attention`
        <BLANKLINE>
        **It disagrees.**
        <BLANKLINE>
    """
    return "\n".join(_markdown(found)) + "\n"


def _markdown(found: Comparison) -> Iterator[str]:
    yield from (f"# `{found.title}`", "")
    verdict = around(found.verdict, found.title, markdown_text_of, "`{}`".format)
    yield verdict if found.good else f"**{verdict}**"
    for one in found.known:
        yield from ("", markdown_text_of(one))
    for mistake in found.mistakes:
        yield from ("", f"## What is wrong: `{mistake.name}`", "", *_markdown_mistake(mistake))
    for table in found.tables:
        rows = [[markdown_text_of(cell) for cell in row] for row in table.rows]
        yield from ("", f"## {markdown_text_of(table.title)}", "", *markdown_table(table.header, rows))
    if found.text:
        yield from ("", "## The whole report", "", "```text", found.text, "```")


def _markdown_mistake(mistake: Mistake) -> Iterator[str]:
    rows = [(f"**{name}**", f"`{text}`" if name in CODE else markdown_text_of(text)) for name, text in mistake.rows]
    yield from markdown_table(("", ""), rows)
    for fork in mistake.forks:
        yield from ("", f"### How {markdown_text_of(fork.name)} is made")
        for word, latex in zip(WORDS, fork.formulas, strict=True):
            yield from ("", word, "", "$$", markdown_formula(latex), "$$") if latex else ()
        yield from ("", markdown_text_of(_told(fork)))
        for word, steps in zip(AXES, _stations(fork), strict=True):
            rows_ = [[markdown_text_of(cell) for cell in row] for row in _rows(steps)]
            yield from ("", word, "", *markdown_table(("step", "what happens", "axes"), rows_)) if rows_ else ()


# ---------------------------------------------------------------- LaTeX


def comparison_latex(found: Comparison) -> str:
    """The page as a LaTeX document."""
    return latex_frame(found.title, _latex(found))


def comparison_cell(found: Comparison) -> str:
    r"""The verdict and the two definitions of every value, for a notebook.

    Example:
        >>> print(comparison_cell(Comparison("mine.py:attention", True, "It agrees.")))
        $\displaystyle \begin{aligned} & \text{It agrees.} \end{aligned}$
    """
    rows = [rf"& \text{{{latex_text(found.verdict)}}}"]
    for fork in (fork for mistake in found.mistakes for fork in mistake.forks):
        rows += [rf"& \text{{{word}}}\quad {latex}" for word, latex in zip(WORDS, fork.formulas, strict=True) if latex]
    return rf"$\displaystyle \begin{{aligned}} {(chr(92) * 2 + ' ').join(rows)} \end{{aligned}}$"


def _latex(found: Comparison) -> Iterator[str]:
    yield rf"{{\raggedright\LARGE\bfseries {_code(found.title)}\par}}"
    verdict = around(found.verdict, found.title, latex_text, _code)
    yield rf"{{{'' if found.good else chr(92) + 'color{alarm}'}\bfseries {verdict}\par}}"
    yield from (latex_text(one) + r"\par" for one in found.known)
    for mistake in found.mistakes:
        yield rf"\section*{{What is wrong: {_code(mistake.name)}}}"
        yield from _latex_mistake(mistake)
    for table in found.tables:
        yield from (rf"\section*{{{latex_text(table.title)}}}", *latex_rows(table))


def _latex_mistake(mistake: Mistake) -> Iterator[str]:
    yield r"\begin{itemize}"
    for name, text in mistake.rows:
        yield rf"\item \textbf{{{latex_text(name)}}}: {_code(text) if name in CODE else latex_text(text)}"
    yield r"\end{itemize}"
    for fork in mistake.forks:
        yield rf"\subsection*{{How {latex_text(fork.name)} is made}}"
        for word, formula in zip(WORDS, fork.formulas, strict=True):
            yield from (rf"{word}\par", rf"\statement{{{formula}}}{{}}") if formula else ()
        yield latex_text(_told(fork)) + r"\par"
        for word, steps in zip(AXES, _stations(fork), strict=True):
            rows = tuple(_rows(steps))
            yield from (rf"{word}\par", *latex_rows(Table(word, ("step", "", "axes"), rows))) if rows else ()


def _code(text: str) -> str:
    return rf"\texttt{{{typed(text)}}}"


# ---------------------------------------------------------------- JSON


def comparison_json(found: Comparison) -> str:
    """The page as data: ``title``, ``agrees``, ``verdict``, ``known``, ``mistakes`` with both ways, ``tables``.

    Example:
        >>> json.loads(comparison_json(Comparison("mine.py:attention", True, "It agrees.")))["agrees"]
        True
    """
    data = {
        "format": "mha_sym-comparison", "version": 1, "title": found.title, "agrees": found.good,
        "verdict": found.verdict, "known": list(found.known), "mistakes": list(map(_mistake_json, found.mistakes)),
        "tables": [{"title": one.title, "header": one.header, "rows": one.rows} for one in found.tables],
        "text": found.text,
    }  # fmt: skip
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def _mistake_json(mistake: Mistake) -> dict[str, Any]:
    rows = {re.sub(r"\W", "_", name): text for name, text in mistake.rows}
    return {"name": mistake.name, **rows, "values": list(map(_fork_json, mistake.forks))}


def _fork_json(fork: Fork) -> dict[str, Any]:
    right, wrong = (
        {"latex": latex, "steps": [{"what": what, "axes": axes} for _, what, axes in _rows(steps)]}
        for latex, steps in zip(fork.formulas, _stations(fork), strict=True)
    )
    return {"name": fork.name, "should_be": right if fork.right is not None else None, "is": wrong, "part": _told(fork)}


#: every form of a page about code, by its name
COMPARISONS: dict[str, Callable[[Comparison], str]] = {
    "html": comparison_page, "latex": comparison_latex, "markdown": comparison_markdown, "json": comparison_json,
}  # fmt: skip
