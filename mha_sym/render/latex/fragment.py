r"""A derivation in LaTeX for ``\input`` into a paper: no preamble, labels, nothing needed but amsmath and amsthm.

Defines `latex_fragment`.  Labels are ``thm:NAME``, and for each claim ``lem:NAME:CLAIM`` and ``eq:NAME:CLAIM``.  The
paper's own environment ``lemma`` is used if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mha_sym.render import sentences
from mha_sym.render.derivation import ClaimPart, Derivation, Step
from mha_sym.render.formulas.breaks import plain, rows
from mha_sym.render.formulas.latex_width import latex_width
from mha_sym.render.formulas.scripts import Latex, latex_escape
from mha_sym.render.matrices import same_formula, stage
from mha_sym.render.prose import latex_prose, latex_words
from mha_sym.render.signs import Words, naming, only, sign_rows
from mha_sym.render.vocabulary import DefinedRow, Vocabulary

#: widths of the letter M: of a row, and of the widest formula with the widest reason if they stand side by side
LINE, BESIDE = 28.0, 30.0


class _Narrow(Latex):
    """The script of a page with wide margins."""

    FRACTION = 22.0


def latex_fragment(found: Derivation) -> str:
    """The theorem, what its signs mean, and its claims with their proofs."""
    return "\n".join(_Writer(found).lines()) + "\n"


class _Writer:
    """Writes one fragment."""

    def __init__(self, found: Derivation) -> None:
        self.found = found
        self.notation = _Narrow(found.vocabulary.names, found.vocabulary.letters_for)

    def lines(self) -> Iterator[str]:
        """The whole text."""
        found = self.found
        yield f"% {found.name}; needs amsmath and amsthm."
        yield r"\ifcsname lemma\endcsname\else\newtheorem{lemma}{Lemma}\fi"
        yield r"\begingroup\emergencystretch=4em\raggedright"
        yield rf"\paragraph{{{latex_prose(found.title)}.}}\label{{thm:{_label(found.name)}}}"
        yield latex_prose(found.words) + " " + _verdict(found)
        for one, known in zip(sentences.not_good(found), sentences.known(found), strict=True):
            yield rf"\textbf{{{latex_prose(known)}}}{self._stuck(one)}"
        yield from [f"({latex_words(sentences.ended(found.source).rstrip('.'))}.)"] if found.source else []
        yield ""
        yield latex_prose(sentences.sizes(found))
        for words, positive in found.assumptions:
            formula = f": ${plain(self.notation.term(positive))} > 0$" if positive is not None else ""
            yield f"{latex_prose(words[:1].upper() + words[1:])}{formula}."
        yield from self._signs(found.vocabulary)
        yield from self._definitions(found.vocabulary.defined)
        for claim in found.claims:
            yield from ("", *self._claim(claim))
        yield r"\par\endgroup"

    def _stuck(self, claim: ClaimPart) -> str:
        sides = sentences.stuck_formulas(claim, self.notation)
        return f" The sides came down to {' and '.join(f'${plain(one)}$' for one in sides)}." if sides else ""

    def _signs(self, words: Vocabulary) -> Iterator[str]:
        """What positions and signs range over, what is given, and how names are to be read."""
        note = self.notation
        positions = [f"${row.range}$ ({_pieces(row.meaning)})" for row in sign_rows(only(words, "letters"), note)]
        given = [
            f"${row.sign}$ of shape ${row.range}$ ({_pieces(row.meaning)})" if row.range else f"${row.sign}$"
            for row in sign_rows(only(words, "given"), note)
        ]
        others = [f"${row.sign}$ ({_pieces(row.meaning)})" for row in sign_rows(only(words, "bijections"), note)]
        named = [
            f"${row.sign}$ of shape ${row.range}$ ({_pieces(row.meaning)})"
            for row in sign_rows(only(words, "named"), note)
        ]
        yield from (f"{title}: {', '.join(rows)}." for title, rows in (
            ("Positions", positions), ("Given", [*given, *others]), ("Defined below", named)) if rows)  # fmt: skip
        yield from (f"{_pieces(one)}." for one in naming(self.found, note))

    def _definitions(self, defined: tuple[DefinedRow, ...]) -> Iterator[str]:
        if defined:
            yield "Write"
            yield r"\begin{gather*}"
            lines = [r" \\ ".join(self._rows(self.notation.equation(one.entry, one.body))) for one in defined]
            yield " \\\\\n".join(lines) + "."
            yield r"\end{gather*}"

    def _claim(self, claim: ClaimPart) -> Iterator[str]:
        """A lemma, in matrices where that can be done, and its proof entry by entry."""
        name = _label(claim.name)
        yield rf"\begin{{lemma}}[{latex_escape(claim.name)}]\label{{lem:{_label(self.found.name)}:{name}}}"
        yield f"{latex_prose(claim.words.rstrip('.'))}:" if claim.words else ""
        yield rf"\begin{{equation}}\label{{{self._target(claim)}}}"
        first, *more = self._rows(stage(claim, self.notation))
        body = first if not more else r"\begin{gathered}" + r" \\ ".join([first, *more]) + r"\end{gathered}"
        yield from (body, r"\end{equation}", r"\end{lemma}")
        if not claim.good:
            yield rf"\textbf{{{latex_prose(sentences.below(claim))}}}"
        yield from self._definitions(claim.defined)
        if claim.proofs:
            yield from (r"\begin{proof}", *self._inside(claim), r"\end{proof}")

    def _inside(self, claim: ClaimPart) -> Iterator[str]:
        for condition in claim.conditions:
            term = plain(self.notation.term(condition.term))
            yield f"Used: ${term} > 0$, since {sentences.positive_because(condition)}."
        yield from [sentences.alike(claim)] if claim.alike else []
        if same_formula(claim, self.notation):
            yield sentences.SAME_FORMULA
            return
        letters = [self.notation.letter(name) for name in claim.variables]
        yield f"{sentences.positions(letters, '$').capitalize() or 'In numbers'}:"
        for proof in claim.proofs:
            yield from (r"\begin{align*}", *self._proof(proof.steps), r"\end{align*}")

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
    return text if found.good else rf"\textbf{{{text}}}"


def _pieces(words: Words) -> str:
    return "".join(f"${one.text}$" if one.formula else latex_words(one.text) for one in words)


def _label(name: str) -> str:
    """A name as it may stand in a label."""
    return re.sub(r"[^A-Za-z0-9.:-]", "-", name)
