r"""A derivation in LaTeX for ``\input`` into a paper: no preamble, labels, nothing needed but amsmath and amsthm.

Defines `latex_fragment`.  Labels are ``thm:NAME``, and for each claim ``lem:NAME:CLAIM`` and ``eq:NAME:CLAIM``.  The
paper's own environment ``lemma`` is used if it has one.  Formulas are broken by TeX where the column of the paper ends,
be it one of two; the commands for that are defined in a group, so that nothing of the paper is changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mha_sym.render import sentences
from mha_sym.render.derivation import ClaimPart, Derivation, Step
from mha_sym.render.formulas.breaks import MARK, level_of, plain
from mha_sym.render.formulas.latex_width import latex_width
from mha_sym.render.formulas.scripts import Latex, latex_escape
from mha_sym.render.matrices import same_formula, stage
from mha_sym.render.prose import latex_prose, latex_words
from mha_sym.render.signs import Words, naming, only, sign_rows
from mha_sym.render.vocabulary import DefinedRow, Vocabulary

#: formulas narrower than this, in widths of the letter M, fit into a column of two and need no places to be broken at
NARROW = 16.0
#: reasons narrower than this are not broken
REASON = 22.0

#: ``\cut``: where a formula may be broken; ``\broken``: such a formula; ``\shown``: one alone; ``\follows``: one with
#: its reason, at the right of its last line or below it; ``\done``: the end of a proof, in the line of that reason
COMMANDS = r"""\def\cut#1{\penalty#1\relax}%
\def\broken#1{\binoppenalty=10000 \relpenalty=10000 \lineskiplimit=2pt \lineskip=4pt $\displaystyle #1$}%
\def\shown#1{\par\vskip 2pt{\noindent\leftskip=1em\hangindent=1.5em\hangafter=1 \broken{#1}\par}\vskip 2pt plus 1pt}%
\def\follows#1#2{\par{\noindent\leftskip=1em\hangindent=1.5em\hangafter=1 \broken{#1}%
  \nobreak\hfill\penalty50\hspace{1em}\null\nobreak\hfill{\footnotesize #2}\parfillskip=0pt\par}\vskip 2pt plus 1pt}%
\def\done{\ifcsname qedhere\endcsname\qedhere\fi}"""


class _Narrow(Latex):
    """The script of a page with wide margins."""

    FRACTION = 16.0


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
        yield COMMANDS
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
            yield from (rf"\shown{{{self._broken(self.notation.equation(one.entry, one.body))}}}" for one in defined)

    def _claim(self, claim: ClaimPart) -> Iterator[str]:
        """A lemma, in matrices where that can be done, and its proof entry by entry."""
        name = _label(claim.name)
        yield rf"\begin{{lemma}}[{latex_escape(claim.name)}]\label{{lem:{_label(self.found.name)}:{name}}}"
        yield f"{latex_prose(claim.words.rstrip('.'))}:" if claim.words else ""
        yield rf"\begin{{equation}}\label{{{self._target(claim)}}}"
        formula = self._broken(stage(claim, self.notation))
        wide = rf"\parbox{{\dimexpr\linewidth-5em}}{{\centering\broken{{{formula}}}}}"
        yield from (wide if r"\cut" in formula else formula, r"\end{equation}", r"\end{lemma}")
        if not claim.good:
            yield rf"\textbf{{{latex_prose(sentences.below(claim))}}}"
        yield from self._definitions(claim.defined)
        if claim.proofs:
            *lines, last = self._inside(claim)
            end = rf"{last.removesuffix('}')}\done}}" if last.startswith(r"\follows") else last
            yield from (r"\begin{proof}", *lines, end, r"\end{proof}")

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
            yield from self._proof(proof.steps)

    def _proof(self, steps: tuple[Step, ...]) -> Iterator[str]:
        """The lines, each with its reason."""
        yield rf"\shown{{{self._broken(self.notation.term(steps[0].term))}}}"
        for step in steps[1:]:
            reason = self._because(step)
            whole = rf"\mbox{{{reason}}}" if latex_width(reason) <= REASON else reason
            yield rf"\follows{{{{}}= {self._broken(self.notation.term(step.term))}}}{{{whole}}}"

    def _because(self, step: Step) -> str:
        if step.rule == "lemma":
            claim = next(one for one in self.found.claims if one.name == step.subject)
            return rf"by~\eqref{{{self._target(claim)}}}"
        return latex_prose(step.reason)

    def _broken(self, text: str) -> str:
        """The formula, with places to break it if it may need any."""
        if latex_width(text) <= NARROW:
            return plain(text)
        return MARK.sub(lambda found: rf"\cut{{{40 * level_of(found[0])}}}", text)

    def _target(self, claim: ClaimPart) -> str:
        return f"eq:{_label(self.found.name)}:{_label(claim.name)}"


def _verdict(found: Derivation) -> str:
    text = latex_prose(sentences.verdict(found))
    return text if found.good else rf"\textbf{{{text}}}"


def _pieces(words: Words) -> str:
    return "".join(f"${one.text}$" if one.formula else latex_words(one.text) for one in words)


def _label(name: str) -> str:
    """A name as it may stand in a label."""
    return re.sub(r"[^A-Za-z0-9.:-]", "-", name)
