r"""A derivation in LaTeX for ``\input`` into a paper: no preamble, labels, nothing needed but amsmath.

Defines `latex_fragment`.  Labels are ``thm:NAME`` and ``eq:NAME:CLAIM``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mha_sym.proof.theorem import Verdict
from mha_sym.render import sentences
from mha_sym.render.breaks import plain, rows
from mha_sym.render.derivation import ClaimPart, Derivation, Step
from mha_sym.render.latex_width import latex_width
from mha_sym.render.prose import latex_prose, latex_words
from mha_sym.render.scripts import Latex
from mha_sym.render.vocabulary import DefinedRow

#: widths of the letter M: of a row, and of the widest formula with the widest reason if they stand side by side
LINE, BESIDE = 28.0, 30.0


def latex_fragment(found: Derivation) -> str:
    """The theorem, what its signs mean, and its claims with their proofs."""
    return "\n".join(_Writer(found).lines()) + "\n"


class _Writer:
    """Writes one fragment."""

    def __init__(self, found: Derivation) -> None:
        self.found = found
        self.notation = Latex(found.vocabulary.names, found.vocabulary.letters_for)

    def lines(self) -> Iterator[str]:
        """The whole text."""
        found = self.found
        yield f"% {found.name}; needs amsmath."
        yield rf"\paragraph{{{latex_prose(found.title)}.}}\label{{thm:{_label(found.name)}}}"
        yield latex_prose(found.words) + " " + _verdict(found)
        yield from [f"({latex_words(sentences.ended(found.source).rstrip('.'))}.)"] if found.source else []
        yield ""
        yield latex_prose(sentences.sizes(found))
        for words, positive in found.assumptions:
            formula = f": ${plain(self.notation.term(positive))} > 0$" if positive is not None else ""
            yield f"{latex_prose(words[:1].upper() + words[1:])}{formula}."
        yield from self._positions()
        yield from self._definitions(found.vocabulary.defined)
        for claim in found.claims:
            yield from ("", *self._claim(claim))

    def _positions(self) -> Iterator[str]:
        ranges = []
        for row in self.found.vocabulary.letters:
            names = ", ".join(self.notation.letter(name) for name in row.letters)
            ranges.append(rf"$0 \le {names} < {plain(self.notation.term(row.size))}$ ({latex_words(row.words)})")
        if ranges:
            yield f"Positions: {', '.join(ranges)}."

    def _definitions(self, defined: tuple[DefinedRow, ...]) -> Iterator[str]:
        if defined:
            yield "Write"
            yield r"\begin{gather*}"
            lines = [r" \\ ".join(self._rows(self.notation.equation(one.entry, one.body))) for one in defined]
            yield " \\\\\n".join(lines) + "."
            yield r"\end{gather*}"

    def _claim(self, claim: ClaimPart) -> Iterator[str]:
        letters = [self.notation.letter(name) for name in claim.variables]
        where = f" ({sentences.positions(letters, '$')})" if letters else ""
        yield f"{latex_prose(claim.words.rstrip('.') or claim.name)}{where}:"
        if claim.verdict is not Verdict.PROVED:
            yield rf"\textbf{{{latex_prose(sentences.undecided(claim))}}}"
        yield rf"\begin{{equation}}\label{{{self._target(claim)}}}"
        first, *more = self._rows(self.notation.equation(claim.left, claim.right))
        body = first if not more else r"\begin{gathered}" + r" \\ ".join([first, *more]) + r"\end{gathered}"
        yield from (body, r"\end{equation}")
        yield from self._definitions(claim.defined)
        for proof in claim.proofs:
            yield r"\textit{Proof.}"
            yield r"\begin{align*}"
            yield from self._proof(proof.steps)
            yield r"\end{align*}"
        yield from [sentences.alike(claim)] if claim.alike else []
        for condition in claim.conditions:
            term = plain(self.notation.term(condition.term))
            yield f"Used: ${term} > 0$, since {sentences.positive_because(condition)}."

    def _proof(self, steps: tuple[Step, ...]) -> Iterator[str]:
        """The lines; reasons stand beside all of them or below all of them."""
        formulas = [self._rows(("{}= " if n else "") + self.notation.term(one.term)) for n, one in enumerate(steps)]
        reasons = ["", *map(self._because, steps[1:])]
        widths = (latex_width(row) for found in formulas for row in found)
        beside = max(widths) + max(map(latex_width, reasons)) <= BESIDE and all(len(found) == 1 for found in formulas)
        lines = [
            row for found, reason in zip(formulas, reasons, strict=True) for row in _aligned(found, reason, beside)
        ]
        yield " \\\\\n".join(lines)

    def _because(self, step: Step) -> str:
        if step.rule == "lemma":
            claim = next(one for one in self.found.claims if one.name == step.subject)
            return rf"by~\eqref{{{self._target(claim)}}}"
        return latex_prose(step.reason)

    def _rows(self, formula: str) -> list[str]:
        return rows(formula, LINE, measure=latex_width)

    def _target(self, claim: ClaimPart) -> str:
        return f"eq:{_label(self.found.name)}:{_label(claim.name)}"


def _aligned(formula: list[str], reason: str, beside: bool) -> Iterator[str]:
    """The rows of one line, the reason beside or below."""
    first, *more = formula
    yield f" & {first}" + (rf" && \text{{{reason}}}" if beside and reason else "")
    yield from (rf" & \qquad {row}" for row in more)
    if reason and not beside:
        yield rf" & \qquad\qquad \text{{({reason})}}"


def _verdict(found: Derivation) -> str:
    text = latex_prose(sentences.verdict(found))
    return text if found.verdict is Verdict.PROVED else rf"\textbf{{{text}}}"


def _label(name: str) -> str:
    """A name as it may stand in a label."""
    return re.sub(r"[^A-Za-z0-9.:-]", "-", name)
