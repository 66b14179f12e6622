r"""A derivation in a notebook: as HTML whose rules touch nothing else in it, and its claims as LaTeX.

Defines `html_cell`, `latex_cell` and `bundle`, which has these and the other forms; `Derivation` offers them under the
names that notebooks look for.
"""

from __future__ import annotations

from mha_sym.render.breaks import plain
from mha_sym.render.derivation import Derivation
from mha_sym.render.html import Surroundings, html_fragment
from mha_sym.render.html_style import style
from mha_sym.render.markdown import markdown_text
from mha_sym.render.scripts import Latex
from mha_sym.render.unicode import unicode_text

#: the class of what a cell holds
SCOPE = "mha-sym"


def bundle(found: Derivation) -> dict[str, str]:
    """Every form that a notebook may show, by its MIME type."""
    return {
        "text/html": html_cell(found), "text/latex": latex_cell(found), "text/markdown": markdown_text(found),
        "text/plain": unicode_text(found),
    }  # fmt: skip


def html_cell(found: Derivation) -> str:
    """The page without its frame, with rules for what stands inside it only."""
    body = html_fragment(found, Surroundings(prefix=f"{found.name}-"))
    return f'<div class="{SCOPE}" lang="en"><style>{style(SCOPE)}</style>\n{body}</div>'


def latex_cell(found: Derivation) -> str:
    r"""The claims below each other, as SymPy writes formulas for notebooks: ``$\displaystyle ...$``."""
    note = Latex(found.vocabulary.names, found.vocabulary.letters_for)
    rows = r" \\ ".join(f"{plain(note.term(one.left))} &= {plain(note.term(one.right))}" for one in found.claims)
    return rf"$\displaystyle \begin{{aligned}} {rows} \end{{aligned}}$"
