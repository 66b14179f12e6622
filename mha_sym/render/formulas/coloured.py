"""Terms in LaTeX with what a step changed between two marks, which a renderer turns into a colour.

Defines `Coloured`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mha_sym.proof.terms import Term
from mha_sym.render.formulas.changes import Path, marked
from mha_sym.render.formulas.latex_width import BEGIN, END
from mha_sym.render.formulas.notation import Written
from mha_sym.render.formulas.scripts import Latex


@dataclass(frozen=True)
class Coloured(Latex):
    """LaTeX in which the objects with some ids stand between `BEGIN` and `END`."""

    marked: frozenset[int] = field(default_factory=frozenset)

    def _written(self, term: Term, level: int) -> Written:
        """The term, marked if it is one of these objects."""
        text, kind = super()._written(term, level)
        return (f"{BEGIN}{text}{END}", kind) if id(term) in self.marked else (text, kind)

    def coloured(self, term: Term, changed: Sequence[Path]) -> str:
        """The term with what was changed marked, unless that is everything.

        Example:
            >>> from mha_sym.proof.terms import Entry, Mul
            >>> text = Coloured().coloured(Mul((Entry("a", ()), Entry("b", ()))), [(1,)])
            >>> text.endswith(f"{BEGIN}b{END}")
            True
        """
        if not any(changed):
            return self.term(term)
        own, ids = marked(term, [path for path in changed if path])
        return replace(self, marked=ids).term(own)
