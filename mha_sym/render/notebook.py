r"""A derivation in a notebook: as HTML whose rules touch nothing else in it, and its claims as LaTeX.

Defines `bundle`, which has all forms of a derivation, of a theorem that was not tried yet, of a trace, or of
counts, and its parts `html_cell` and `latex_cell`.  What is `mha_sym.shown.Shown` offers them under the names that
notebooks look for.
"""

from __future__ import annotations

from dataclasses import fields

import sympy

from mha_sym.count import Counts
from mha_sym.proof.theorem import Outcome, Report, Theorem, Verdict
from mha_sym.render.count_text import count_table
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.scripts import Latex, Unicode
from mha_sym.render.latex.plain import latex_text
from mha_sym.render.markdown import markdown_text
from mha_sym.render.pictures.parts import escaped
from mha_sym.render.pictures.svg import axes_text, trace_svg
from mha_sym.render.prose import latex_formula
from mha_sym.render.trace_text import trace_table, words
from mha_sym.render.unicode import unicode_text
from mha_sym.render.web.math import Writer
from mha_sym.render.web.page import Surroundings, html_fragment
from mha_sym.render.web.style import style
from mha_sym.trace import Step, Trace

#: the class of what a cell holds
SCOPE = "mha-sym"


def bundle(found: Derivation | Report | Theorem | Trace | Counts) -> dict[str, str]:
    """Every form that a notebook may show, by its MIME type: of a derivation, a mere statement, a trace, or counts."""
    if isinstance(found, Trace):
        return _trace(found)
    if isinstance(found, Counts):
        return _counts(found)
    if isinstance(found, Theorem):
        return _statement(found)
    if isinstance(found, Report):
        found = derivation(found)
    return {
        "text/html": html_cell(found), "text/latex": latex_cell(found), "text/markdown": markdown_text(found),
        "text/plain": unicode_text(found),
    }  # fmt: skip


def _statement(theorem: Theorem) -> dict[str, str]:
    """What a theorem claims, of which nothing is known yet."""
    untried = tuple(Outcome(one, Verdict.UNDECIDED, 0.0) for one in theorem.claims)
    found = derivation(Report(theorem, untried, (), 0.0))
    writer, note = Writer(found.vocabulary), Unicode(found.vocabulary.names, found.vocabulary.letters_for)
    claims = "".join(
        f'<li>{writer.equation(one.left, one.right)}<span class="why">{writer.prose(one.words)}</span></li>'
        for one in found.claims
    )
    lines = [f"{theorem.name}: {theorem.words}", *(f"  {plain(note.equation(c.left, c.right))}" for c in found.claims)]
    body = (
        f'<p><strong>{writer.prose(found.title)}</strong> (<code>{escaped(found.name)}</code>, not tried yet). '
        f'{writer.prose(found.words)}</p>\n<ul class="rows">{claims}</ul>\n'
    )
    return {"text/html": _cell(body), "text/latex": latex_cell(found), "text/plain": "\n".join(lines)}


def _counts(counts: Counts) -> dict[str, str]:
    """The quantities as a table."""
    text = count_table(counts)
    rows = [
        rf"\text{{{latex_text(one.name.replace('_', ' '))}}} & {_number(getattr(counts, one.name))}"
        for one in fields(counts)
    ]
    table = rf"\begin{{array}}{{ll}} {(chr(92) * 2 + ' ').join(rows)} \end{{array}}"
    cell = _cell(f"<pre>{escaped(text)}</pre>")
    return {"text/html": cell, "text/latex": rf"$\displaystyle {table}$", "text/plain": text}


def _number(count: sympy.Expr | int) -> str:
    """A count, with sizes as the field writes them."""
    if isinstance(count, int):
        return str(count)
    return str(sympy.latex(count, symbol_names={one: latex_formula(str(one)) for one in count.free_symbols}))


def _trace(steps: Trace) -> dict[str, str]:
    """The picture of a trace, and its steps."""
    text = trace_table(steps)
    rows = [
        rf"{step.number} & \text{{{latex_text(step.name or step.operation)}}} & {_axes(step)} & "
        rf"\text{{{latex_text(words(step, steps))}}}"
        for step in steps
    ]
    body = f'{trace_svg(steps)}\n<details><summary>The steps</summary><pre>{escaped(text)}</pre></details>\n'
    table = rf"\begin{{array}}{{rlll}} {(chr(92) * 2 + ' ').join(rows)} \end{{array}}"
    return {"text/html": _cell(body), "text/latex": rf"$\displaystyle {table}$", "text/plain": text}


def _axes(step: Step) -> str:
    return latex_formula(axes_text(step.axes).replace("·", " "))


def html_cell(found: Derivation) -> str:
    """The page without its frame, with rules for what stands inside it only."""
    return _cell(html_fragment(found, Surroundings(prefix=f"{found.name}-")))


def _cell(body: str) -> str:
    return f'<div class="{SCOPE}" lang="en"><style>{style(SCOPE)}</style>\n{body}</div>'


def latex_cell(found: Derivation) -> str:
    r"""The claims below each other, as SymPy writes formulas for notebooks: ``$\displaystyle ...$``."""
    note = Latex(found.vocabulary.names, found.vocabulary.letters_for)
    rows = r" \\ ".join(f"{plain(note.term(one.left))} &= {plain(note.term(one.right))}" for one in found.claims)
    return rf"$\displaystyle \begin{{aligned}} {rows} \end{{aligned}}$"
