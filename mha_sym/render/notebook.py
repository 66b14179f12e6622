r"""A derivation in a notebook: as HTML whose rules touch nothing else in it, and its claims as LaTeX.

Defines `bundle`, which has all forms of a derivation, or of a theorem that was not tried yet, and its parts `html_cell`
and `latex_cell`.  `Derivation`, `Report` and `Theorem` offer them under the names that notebooks look for.
"""

from __future__ import annotations

from mha_sym.proof.theorem import Outcome, Report, Theorem, Verdict
from mha_sym.render.breaks import plain
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.html import Surroundings, html_fragment
from mha_sym.render.html_math import Writer
from mha_sym.render.html_style import style
from mha_sym.render.markdown import markdown_text
from mha_sym.render.scripts import Latex, Unicode
from mha_sym.render.svg_parts import escaped
from mha_sym.render.unicode import unicode_text

#: the class of what a cell holds
SCOPE = "mha-sym"


def bundle(found: Derivation | Report | Theorem) -> dict[str, str]:
    """Every form that a notebook may show, by its MIME type: of a derivation, or of a mere statement."""
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
