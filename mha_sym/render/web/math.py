"""What stands on a page besides tags: terms, positions and sentences with formulas in them.

Defines `Writer`, and `glued`, which keeps formulas together with the signs around them.  Which signs a term needs is
decided in `mha_sym.render.formulas.notation`, how they are drawn in `mha_sym.render.web.mathml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mha_sym.proof.terms import Index, Term
from mha_sym.render.formulas.breaks import LEVELS, MARK, mark
from mha_sym.render.formulas.changes import Path
from mha_sym.render.formulas.coloured import Coloured
from mha_sym.render.formulas.latex_width import latex_width
from mha_sym.render.pictures.parts import escaped
from mha_sym.render.prose import latex_formula, pieces, printed
from mha_sym.render.vocabulary import Vocabulary
from mha_sym.render.web.mathml import formula, mathml

#: formulas narrower than this, in widths of the letter M, are never broken
NARROW = 14.0


@dataclass(frozen=True)
class Writer:
    """Writes what one vocabulary has names for; ``links`` are the pages of names that may occur among words."""

    words: Vocabulary
    links: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def notation(self) -> Coloured:
        """The signs."""
        return Coloured(self.words.names, self.words.letters_for)

    def term(self, term: Term, changed: Sequence[Path] = (), before: str = "") -> str:
        """A term in a box of its own, broken where there is no room; ``before`` is a sign in front of it.

        What was changed is in colour, unless that is everything.
        """
        return self.latex(before + self.notation.coloured(term, changed))

    def equation(self, left: Term, right: Term) -> str:
        """``left = right`` in a box of its own."""
        return self.latex(self.notation.equation(left, right))

    def latex(self, text: str) -> str:
        """A formula in a box of its own."""
        inside = mathml(text, display=True) if latex_width(text) <= NARROW else formula(_breakable(text))
        return f'<span class="formula">{inside}</span>'

    def inline(self, term: Term) -> str:
        """A term among words."""
        return mathml(self.notation.term(term))

    def positive(self, term: Term) -> str:
        """``term > 0`` among words."""
        return formula(f"{self.notation.term(term)} > 0", display=False)

    def sign(self, latex: str) -> str:
        """A formula among words."""
        return mathml(latex)

    def at(self, at: Sequence[Index]) -> str:
        """Positions in brackets."""
        return mathml(self.notation.at([self.notation.index(one) for one in at]))

    def prose(self, text: str) -> str:
        """A sentence with its formulas; names that have pages lead there.

        Example:
            >>> Writer(Vocabulary()).prose("T < S & more")
            '<math alttext="T &lt; S"><mi>T</mi><mo form="infix">&lt;</mo><mi>S</mi></math> &amp; more'
        """
        parts = self._linked.split(text) if self.links else [text]
        return "".join(self.link(part) if n % 2 else self._prose(part) for n, part in enumerate(parts))

    @cached_property
    def _linked(self) -> re.Pattern[str]:
        return re.compile(rf"\b({'|'.join(map(re.escape, self.links))})\b")

    def _prose(self, text: str) -> str:
        drawn = (_drawn(one.text) if one.formula else _words(one.text) for one in pieces(text))
        return glued("".join(drawn))

    def link(self, name: str) -> str:
        """The name, leading to its page."""
        return f'<a href="{escaped(self.links[name])}"><code>{escaped(name)}</code></a>'


def _breakable(text: str) -> str:
    """A wide formula with places to break it before its sign, if it has none, and inside long positions."""
    if not MARK.search(text):
        text = text.replace(" = ", f" {mark(0)}= ", 1)
    return _POSITIONS.sub(_broken, text)


#: a comma is a place to break if the positions in the brackets are wider than this
_WIDE = 12.0
_POSITIONS = re.compile(r"\[[^\[\]]*\]")


def _broken(found: re.Match[str]) -> str:
    if latex_width(found[0]) <= _WIDE:
        return found[0]
    inner = mark(LEVELS)
    return re.sub(r"((?<!\\),(?:\\,)?)", rf"\1{inner}", found[0]).replace(r" + \lfloor", rf" {inner}+ \lfloor")


def glued(text: str) -> str:
    """A text in which a formula is not parted from a bracket before it, nor from a bracket or a stop after it.

    Example:
        >>> glued("at <math><mi>T</mi></math>, it")
        'at <span class="one"><math><mi>T</mi></math>,</span> it'
    """
    return _GLUED.sub(r'<span class="one">\g<0></span>', text)


_FORMULA = "<math(?:(?!</math>).)*</math>"
_GLUED = re.compile(rf"\({_FORMULA}[).,:;]*|{_FORMULA}[).,:;]+")


def _words(text: str) -> str:
    return escaped(printed(text))


def _drawn(text: str) -> str:
    latex = latex_formula(text)
    return mathml(latex) if latex_width(latex) <= NARROW else formula(latex, display=False)
