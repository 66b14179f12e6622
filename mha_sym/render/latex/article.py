r"""A derivation as a LaTeX article that needs nothing beyond the packages of a small TeX installation.

Defines `latex_document`, and its parts `latex_body` and `latex_frame`.  A claim is a line among the stages and a lemma
with its proof.  The preamble defines a few commands (``\step``, ``\sign``, ``\control``, ...), so that the body can be
read and edited; formulas are broken by TeX at the places that are marked with ``\cut``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mha_sym.proof.cards import CARDS
from mha_sym.proof.terms import Index, Term
from mha_sym.proof.theorem import Verdict
from mha_sym.render import sentences
from mha_sym.render.derivation import ClaimPart, ControlPart, Derivation, Proof
from mha_sym.render.formulas.breaks import MARK, level_of, plain
from mha_sym.render.formulas.changes import Path
from mha_sym.render.formulas.coloured import Coloured
from mha_sym.render.formulas.latex_width import BEGIN, END, latex_width
from mha_sym.render.formulas.scripts import latex_escape
from mha_sym.render.matrices import same_formula, stage, statement
from mha_sym.render.prose import latex_prose, latex_words
from mha_sym.render.signs import Words, likened, naming, sign_rows
from mha_sym.render.vocabulary import DefinedRow, Vocabulary

#: formulas narrower than this need no places to be broken at; those wider than a column have the reason below them
NARROW, COLUMN = 22.0, 29.0
#: parts of a claim that are wider do not fit into its column
STAGE = 23.0
#: so wide a sign has its meaning beside it
SIGN = 9.0

PREAMBLE = r"""\documentclass[10pt,a4paper]{article}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage[T1]{fontenc}\usepackage{lmodern}}{}
\usepackage{amsmath,amssymb,amsthm}
\usepackage[a4paper,hmargin=22mm,vmargin=24mm]{geometry}
\IfFileExists{microtype.sty}{\usepackage{microtype}}{}
\IfFileExists{xcolor.sty}{\usepackage{xcolor}}{\newcommand{\definecolor}[3]{}\newcommand{\color}[1]{}}
\IfFileExists{hyperref.sty}{\usepackage[hidelinks,bookmarks=false]{hyperref}}{}
\providecommand{\hypertarget}[2]{#2}\providecommand{\hyperlink}[2]{#2}\providecommand{\hypersetup}[1]{}
\providecommand{\pdfbookmark}[3][]{}
% \running{title}: what stands above the following pages; \outline{title}{name}: an entry of the outline of a PDF
\pagestyle{myheadings}
\newcommand{\running}[1]{\markright{#1}\thispagestyle{plain}}
\newcommand{\outline}[2]{\pdfbookmark[0]{#1}{outline.#2}}
\newtheorem*{theorem}{Theorem}
% lemmas are counted anew in each derivation of a book
\newcounter{derivation}\newtheorem{lemma}{Lemma}
\def\theHlemma{\arabic{derivation}.\arabic{lemma}}
\newcommand{\derivation}{\stepcounter{derivation}\setcounter{lemma}{0}}
\definecolor{faint}{gray}{0.40}
\definecolor{alarm}{rgb}{0.75,0,0}
\definecolor{new}{rgb}{0.60,0.20,0}
% \new ... \old: what a step changed
\newcommand{\new}{\begingroup\color{new}}\newcommand{\old}{\endgroup}
\renewcommand{\labelitemi}{$\bullet$}
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt plus 1pt}
\newcommand{\cut}[1]{\penalty#1\relax}
\newcommand{\formula}[1]{\raggedright\hangindent=2em\hangafter=1\lineskiplimit=2pt\lineskip=4pt
  \binoppenalty=10000\relpenalty=10000$\displaystyle #1$}
% no page ends between a lemma and its proof
\makeatletter
\newcommand{\together}{\@endparpenalty=10000 }
\let\proofalone\proof\renewcommand{\proof}{\@beginparpenalty=10000 \proofalone}
\makeatother
% \beside{reason}: on the right of the last line of a formula, or below it if there is no room
\newcommand{\beside}[1]{\nobreak\hfill\penalty50\hspace{1em}\null\nobreak\hfill
  \parbox[t]{43mm}{\raggedright\footnotesize #1}\parfillskip=0pt }
% \statement{formula}{for which positions}; \start{formula}: the left side;
% \opening: a left side beside the word Proof
\newcommand{\opening}[1]{\hspace*{3mm}\parbox[t]{138mm}{\formula{#1}}\par\nopagebreak}
% \step{number}{formula}{reason}: what it equals, and why; \widestep: the same for a wide formula
\newcommand{\statement}[2]{\par\nopagebreak\leavevmode\hspace*{9mm}\parbox[t]{113mm}{\formula{#1}}%
  \parbox[t]{43mm}{\raggedright\footnotesize #2}\par\together}
\newcommand{\start}[1]{\par\vspace{4pt}\leavevmode\hspace*{9mm}\parbox[t]{156mm}{\formula{#1}}\par\nopagebreak}
\newcommand{\step}[3]{\par\leavevmode\makebox[9mm][l]{\footnotesize\color{faint}#1}\parbox[t]{110mm}{%
  \formula{{}=#2}}\hspace{3mm}\parbox[t]{43mm}{\raggedright\footnotesize #3}\par\vspace{1pt}}
\newcommand{\widestep}[3]{\par\leavevmode\makebox[9mm][l]{\footnotesize\color{faint}#1}\parbox[t]{156mm}{%
  \formula{{}=#2}\beside{#3}}\par\vspace{1pt}}
% \done: the end of a proof, beside its last line
\newcommand{\done}{\hspace*{\fill}\qedhere}
% \stage{number}{formula}{why}: a claim in one line; \widestage: one with a part that is too wide for that
\newcommand{\stage}[3]{\par\leavevmode\makebox[9mm][l]{\footnotesize\color{faint}#1}\parbox[t]{92mm}{%
  \formula{#2}}\hspace{3mm}\parbox[t]{61mm}{\raggedright\footnotesize #3}\par\vspace{2pt}}
\newcommand{\widestage}[3]{\par\leavevmode\makebox[9mm][l]{\footnotesize\color{faint}#1}\parbox[t]{156mm}{%
  \formula{#2}}\par\nopagebreak\leavevmode\hspace*{104mm}\parbox[t]{61mm}{\raggedright\footnotesize #3}\par\vspace{2pt}}
% \sign{sign}{range}{meaning}: a row of the table of notation, \widesign a wide one; \defined{formula}{reason}
\newcommand{\sign}[3]{\par\leavevmode\parbox[t]{38mm}{\raggedright$#1$}\hspace{2mm}\parbox[t]{48mm}{%
  \raggedright$#2$}\hspace{2mm}\parbox[t]{74mm}{\raggedright #3}\par}
\newcommand{\widesign}[3]{\par\leavevmode\parbox[t]{165mm}{\raggedright$#1$}\par\nopagebreak
  \leavevmode\hspace*{40mm}\parbox[t]{48mm}{\raggedright$#2$}\hspace{2mm}\parbox[t]{74mm}{\raggedright #3}\par}
\newcommand{\defined}[2]{\par\leavevmode\parbox[t]{119mm}{\formula{#1}}\hspace{3mm}\parbox[t]{43mm}{%
  \raggedright\footnotesize #2}\par}
\newcommand{\widedefined}[2]{\par\leavevmode\parbox[t]{165mm}{\formula{#1}\beside{#2}}\par}
% \control{name}{what was done wrong}
\newcommand{\control}[2]{\par\vspace{8pt}{\raggedright\textsf{\small #1}\quad #2\par}\nopagebreak}
\newcommand{\name}[1]{\textsf{#1}}
"""


def latex_document(found: Derivation) -> str:
    """The whole document."""
    return latex_frame(found.title, latex_body(found))


def latex_body(found: Derivation) -> Iterator[str]:
    """What stands in the document; its places have the theorem in their names, so that several may be in one."""
    return _Writer(found).lines()


def latex_frame(title: str, lines: Iterable[str], *, outline: bool = False) -> str:
    """A document around some lines; if its PDF is to have an ``outline``, it is to be compiled twice."""
    preamble = PREAMBLE.replace(",bookmarks=false", "") if outline else PREAMBLE
    head = rf"\hypersetup{{pdflang={{en}},pdftitle={{{latex_words(title)}}}}}"
    return "\n".join([preamble.strip(), head, r"\begin{document}", *lines, r"\end{document}"]) + "\n"


class _Writer:
    """Writes one derivation."""

    def __init__(self, found: Derivation) -> None:
        self.found = found
        self.notation = Coloured(found.vocabulary.names, found.vocabulary.letters_for)

    def lines(self) -> Iterator[str]:
        found = self.found
        title = latex_prose(found.title)
        yield rf"\derivation\running{{{title}}}{{\LARGE\bfseries {title}\par}}"
        alarm = "" if found.good else r"\color{alarm}\bfseries "
        yield rf"{{\small {alarm}\name{{{_name(found.name)}}}. {latex_prose(_lemmas(sentences.verdict(found)))}\par}}"
        for one, known in zip(sentences.not_good(found), sentences.known(found), strict=True):
            yield rf"{{\small\color{{alarm}} {latex_prose(_lemmas(known))}{self._stuck(one)}\par}}"
        yield rf"\begin{{theorem}}{latex_prose(found.words)}\end{{theorem}}"
        yield from [rf"{{\small Source: {latex_words(sentences.ended(found.source))}\par}}"] if found.source else []
        yield from _section("Assumptions", _items(self._assumptions()))
        yield from _section("Notation", self._signs(found.vocabulary))
        if found.vocabulary.defined:
            yield from _section("Definitions", map(self._definition, found.vocabulary.defined))
        if found.claims:
            yield from _section("Stage by stage", map(self._stage, found.claims))
        if found.claims:
            yield from _section("Entry by entry", (line for claim in found.claims for line in self._claim(claim)))
        if found.controls:
            shown = (line for control in found.controls for line in self._control(control))
            yield from _section("What is false", [latex_prose(sentences.controls(found)), *shown])
        yield from _section("What was checked", _items(self._checks()))

    # ------------------------------------------------------------ head and end

    def _stuck(self, claim: ClaimPart) -> str:
        sides = sentences.stuck_formulas(claim, self.notation)
        return f" The sides came down to {' and '.join(f'${self._broken(one)}$' for one in sides)}." if sides else ""

    def _assumptions(self) -> Iterator[str]:
        yield latex_prose(sentences.sizes(self.found))
        for words, positive in self.found.assumptions:
            formula = f": ${self._plain(positive)} > 0$" if positive is not None else ""
            yield f"{latex_prose(words[:1].upper() + words[1:])}{formula}."

    def _signs(self, words: Vocabulary) -> Iterator[str]:
        for row in sign_rows(words, self.notation):
            values = f" ${_breakable(row.values)}$" if row.values else ""
            name = "sign" if latex_width(row.sign) <= SIGN else "widesign"
            yield _command(name, row.sign, row.range or r"\text{one number}", _pieces(row.meaning) + values)
        names = [f"{_pieces(one)}." for one in naming(self.found, self.notation)]
        yield from _items(names) if names else []
        if words.named:
            yield rf"\par {sentences.DEFINED_BELOW}"

    def _definition(self, defined: DefinedRow) -> str:
        formula = f"{self._plain(defined.entry)} = {self._formula(defined.body)}"
        return _command(_wide("defined", formula), formula, latex_prose(defined.words))

    def _checks(self) -> Iterator[str]:
        yield from (latex_prose(_lemmas(one)) for one in sentences.checks(self.found, laws=False))
        if self.found.laws:
            cards = [CARDS[name] for name in self.found.laws]
            laws = ", ".join(f"{one.reason} (${one.law}$)" for one in cards)
            yield f"Laws used, besides definitions and claims: {laws}."

    def _control(self, control: ControlPart) -> Iterator[str]:
        """A control, its equation, what that speaks of, and where it fails."""
        words = latex_prose(control.words)
        if control.says is not None:
            letters = list(map(self.notation.letter, control.says.variables))
            words += rf" {sentences.not_all(control, letters, '$')}:"
        yield _command("control", _name(control.name), words)
        if control.says is not None:
            yield _command("start", self._broken(self.notation.equation(control.says.left, control.says.right)))
            for n, one in enumerate(control.says.where):
                yield from () if n else [r"where\par\nopagebreak"]
                yield _command("start", f"{self._plain(one.entry)} = {self._formula(one.body)}")
            if alike := likened(control.says, self.notation):
                yield rf"{{\small {_pieces(alike)}.\par}}"
        witness = sentences.witness(control)
        alarm = "" if control.verdict is Verdict.REFUTED else r"\color{alarm}"
        yield rf"{{\small\raggedright{alarm} {latex_prose(witness[:1].upper() + sentences.ended(witness[1:]))}\par}}"

    # ------------------------------------------------------------ claims

    def _stage(self, claim: ClaimPart) -> str:
        """A claim in one line: what equals what, and why."""
        number = self._link(claim.number, str(claim.number))
        same = same_formula(claim, self.notation)
        why = "; ".join(map(self._because, sentences.reasons(claim, self.found.claims, same)))
        beside = [latex_prose(claim.words)] * bool(claim.words) + [rf"{{\color{{faint}}{why}}}"] * bool(why)
        formula = self._broken(stage(claim, self.notation))
        wide = max(map(latex_width, _CUT.split(formula))) > STAGE
        return _command("widestage" if wide else "stage", number, formula, r"\\".join(beside))

    def _link(self, number: int, text: str) -> str:
        return rf"\hyperlink{{claim.{self.found.name}.{number}}}{{{text}}}"

    def _because(self, reason: str) -> str:
        """A reason; the lemma in it is linked."""
        text = latex_prose(_lemmas(reason))
        return re.sub(r"lemma (\d+)", lambda one: self._link(int(one[1]), f"lemma~{one[1]}"), text)

    def _claim(self, claim: ClaimPart) -> Iterator[str]:
        """The lemma, with its proof if there is one."""
        words = latex_prose(claim.words) if claim.words else ""
        target = rf"\hypertarget{{claim.{self.found.name}.{claim.number}}}{{}}"
        yield rf"\begin{{lemma}}[\name{{{_name(claim.name)}}}]{target}{words}"
        where = sentences.positions(list(map(self.notation.letter, claim.variables)), "$")
        yield from (_command("statement", self._broken(statement(claim, self.notation)), where), r"\end{lemma}")
        if not claim.good:
            yield rf"{{\color{{alarm}}\bfseries {latex_prose(sentences.below(claim))}\par}}"
        yield from map(self._definition, claim.defined)
        if same_formula(claim, self.notation) and not claim.moves:
            yield from (r"\begin{proof}", sentences.SAME_FORMULA, r"\end{proof}")
        elif claim.proofs:
            *lines, last = self._lines(claim)
            lines[0] = re.sub(r"^\\start\b", r"\\opening", lines[0])
            yield from (r"\begin{proof}", *lines, rf"{last.removesuffix('}')}\done}}", r"\end{proof}")

    def _lines(self, claim: ClaimPart) -> Iterator[str]:
        """What stands in a proof; the last line is a command."""
        for condition in claim.conditions:
            term = self._plain(condition.term)
            yield rf"Used: ${term} > 0$, since {sentences.positive_because(condition)}.\par"
        yield from [rf"{sentences.alike(claim)}\par"] if claim.alike else []
        yield from [sentences.SAME_ENTRY] if claim.moves else []
        for move in claim.moves:
            sizes = ", ".join(map(self._plain, move.sizes))
            yield _command("sign", rf"\text{{{move.words}}}", f"({sizes})", f"${self._at(move.at)}$")
        for n, proof in enumerate(claim.proofs if not claim.moves else ()):
            yield from [rf"\par Part {n + 1} of {len(claim.proofs)}."] if len(claim.proofs) > 1 else []
            yield from self._proof(proof)

    def _proof(self, proof: Proof) -> Iterator[str]:
        yield _command("start", self._formula(proof.steps[0].term))
        for n, one in enumerate(proof.steps[1:], 1):
            reason = self._because(sentences.because(one, self.found.claims))
            formula = self._formula(one.term, one.changed)
            yield _command(_wide("step", formula), str(n), formula, reason)

    def _at(self, at: Sequence[Index]) -> str:
        return self.notation.at([self.notation.index(one) for one in at])

    def _plain(self, term: Term) -> str:
        return plain(self.notation.term(term))

    def _formula(self, term: Term, changed: Sequence[Path] = ()) -> str:
        """The term, what was changed in colour."""
        text = self._broken(self.notation.coloured(term, changed))
        return text.replace(BEGIN, r"\new ").replace(END, r"\old ")

    def _broken(self, text: str) -> str:
        """The formula, with places to break it if it may need any."""
        return MARK.sub(lambda found: _cut(level_of(found[0])), text) if latex_width(text) > NARROW else plain(text)


def _lemmas(text: str) -> str:
    """A sentence about claims, which are lemmas here."""
    return re.sub(r"\bclaim", "lemma", text).replace("Claim ", "Lemma ")


def _cut(level: int) -> str:
    return rf"\cut{{{40 * level}}}"


def _wide(command: str, formula: str) -> str:
    """The command for a formula that fits beside its reason, or that for a wider one."""
    return command if latex_width(_CUT.sub("", formula)) <= COLUMN else f"wide{command}"


_CUT = re.compile(r"\\cut\{\d+\}")


def _command(name: str, *arguments: str) -> str:
    return rf"\{name}" + "".join(f"{{{argument}}}" for argument in arguments)


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield rf"\subsection*{{{title}}}"
    yield from lines


def _items(lines: Iterable[str]) -> Iterator[str]:
    yield r"\begin{itemize}"
    yield from (rf"\item {line}" for line in lines)
    yield r"\end{itemize}"


def _pieces(words: Words) -> str:
    return "".join(f"${one.text}$" if one.formula else latex_words(one.text) for one in words)


def _name(name: str) -> str:
    """A name of a theorem, claim or control; it may be broken at its underscores."""
    return latex_escape(name).replace(r"\_", r"\_\allowbreak{}")


def _breakable(text: str) -> str:
    return text.replace("],[", r"],\allowbreak[")
