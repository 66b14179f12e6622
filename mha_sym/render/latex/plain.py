"""Words as LaTeX where there may be signs in them that no font of a small TeX installation has.

Defines `latex_text` for sentences, `typed` for what is typed, and `latex_rows` for tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mha_sym.render.formulas.scripts import latex_escape
from mha_sym.render.prose import latex_prose
from mha_sym.render.questions.question import Table

#: signs of results that are no words: in LaTeX they need mathematics
_SIGNS = {
    "√": r"$\surd$", "²": "$^2$", "³": "$^3$", "Σ": r"$\Sigma$", "ᵀ": r"$^{\mathsf{T}}$", "✓": "yes", "✗": "no",
    "→": r"$\to$", "⁻": "$^-$", "π": r"$\pi$", "σ": r"$\sigma$", "≥": r"$\ge$", "≠": r"$\ne$",
}  # fmt: skip


def latex_text(text: str) -> str:
    """A sentence; a sign that no font of a small installation has is left out."""
    found = "".join(_SIGNS.get(sign, sign) for sign in latex_prose(text))
    return re.sub(r"[^\x00-\x7f]", "?", found)


def typed(text: str) -> str:
    """Characters as they are typed."""
    shown = re.sub(r"[^\x00-\x7f]", "?", latex_escape(text)).replace("-", "{-}")
    return re.sub("[,/]", r"\g<0>\\allowbreak{}", shown)


def latex_rows(table: Table) -> Iterator[str]:
    r"""The rows of a table as a list, since its cells may be long; the title is not told.

    Example:
        >>> print(*latex_rows(Table("Sizes", ("call", "T"), (("one", "2"),))))
        \begin{itemize} \item \textbf{one}. $T$: 2. \end{itemize}
    """
    yield r"\begin{itemize}"
    for first, *more in table.rows:
        named = [(name, cell) for name, cell in zip(table.header[1:], more, strict=True) if cell]
        cells = [f"{latex_text(name)}: {latex_text(cell)}" if name else latex_text(cell) for name, cell in named]
        yield rf"\item \textbf{{{latex_text(first)}}}. {'; '.join(cells).removesuffix('.')}."
    yield r"\end{itemize}"
