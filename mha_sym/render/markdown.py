r"""A derivation as Markdown with formulas between dollars, as GitHub, notebooks and most editors show it.

Defines `markdown_text`, and `markdown_text_of`, `markdown_formula` and `markdown_table` for other documents.  Formulas
hold no backslash before a sign of punctuation, since Markdown may take it away: a thin space is ``\thinspace``, a new
row ``\cr``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mha_sym.proof.cards import CARDS
from mha_sym.proof.terms import Index, Term
from mha_sym.render import sentences
from mha_sym.render.derivation import ClaimPart, ControlPart, Derivation, Proof
from mha_sym.render.formulas.breaks import plain, rows
from mha_sym.render.formulas.latex_width import latex_width
from mha_sym.render.formulas.scripts import Latex
from mha_sym.render.matrices import same_formula, stage, statement
from mha_sym.render.prose import latex_formula, markdown_prose, markdown_words, pieces
from mha_sym.render.signs import Words, likened, naming, sign_rows
from mha_sym.render.vocabulary import DefinedRow, Vocabulary

#: a formula wider than this, in letters M, is broken; one wider than `BESIDE` has its reason below it
WIDTH, BESIDE = 48.0, 34.0
#: so many rows make a display
ROWS = 10

_SAFE = {
    r"\,": r"\thinspace ", r"\{": r"\lbrace ", r"\}": r"\rbrace ", r"\ ": r"\enspace ", r"\_": "-",
    "< ": r"\lt ", "<": r"\lt ", r"\allowbreak ": "", r"\allowbreak[": "[",
}  # fmt: skip


def markdown_text(found: Derivation) -> str:
    """The whole derivation."""
    return "\n".join(_Writer(found).lines()) + "\n"


class _Writer:
    """Writes one derivation."""

    def __init__(self, found: Derivation) -> None:
        self.found = found
        self.notation = Latex(found.vocabulary.names, found.vocabulary.letters_for)

    def lines(self) -> Iterator[str]:
        found = self.found
        yield f"# {_prose(found.title)}"
        strong = "" if found.good else "**"
        yield from ("", f"`{found.name}`. {strong}{_prose(sentences.verdict(found))}{strong}")
        for one, known in zip(sentences.not_good(found), sentences.known(found), strict=True):
            sides = " and ".join(f"`{side}`" for side in sentences.stuck(one) or ())
            yield from ("", f"**{_prose(known)}**" + (f" The sides came down to {sides}." if sides else ""))
        yield from ("", f"**Theorem.** {_prose(found.words)}")
        yield from ("", f"Source: {markdown_words(sentences.ended(found.source))}") if found.source else ()
        yield from ("", "## Assumptions", "", *self._assumptions())
        yield from ("", "## Notation", "", *self._signs(found.vocabulary))
        if found.vocabulary.defined:
            yield from ("", "## Definitions", *self._definitions(found.vocabulary.defined))
        if found.claims:
            head = ["claim", "what equals what", "why"]
            yield from ("", "## Stage by stage", "", *markdown_table(head, self._stages()))
        for claim in found.claims:
            yield from ("", *self._claim(claim))
        if found.controls:
            yield from ("", "## What is false", "", _prose(sentences.controls(found)), "", *self._controls())
        yield from ("", "## What was checked", "", *self._checks())

    # ------------------------------------------------------------ head and end

    def _assumptions(self) -> Iterator[str]:
        yield f"- {_prose(sentences.sizes(self.found))}"
        for words, positive in self.found.assumptions:
            formula = f": {_inline(self._plain(positive) + ' > 0')}" if positive is not None else ""
            yield f"- {_prose(words[:1].upper() + words[1:])}{formula}."

    def _signs(self, words: Vocabulary) -> Iterator[str]:
        table = []
        for row in sign_rows(words, self.notation):
            range_ = _inline(row.range) if row.range else "one number"
            table.append((_inline(row.sign), range_, _pieces(row.meaning) + (f" `{row.values}`" if row.values else "")))
        yield from markdown_table(["sign", "range or shape", "meaning"], table)
        names = [f"- {_pieces(one)}." for one in naming(self.found, self.notation)]
        yield from ["", *names] if names else []
        if words.named:
            yield from ("", sentences.DEFINED_BELOW)

    def _definitions(self, defined: Sequence[DefinedRow]) -> Iterator[str]:
        if defined:
            formulas = [f"{self._plain(one.entry)} = {self._plain(one.body)}" for one in defined]
            reasons = [_prose(one.words) for one in defined]
            yield ""
            rows = [(_inline(one), reason) for one, reason in zip(formulas, reasons, strict=True)]
            yield from markdown_table(["definition", "meaning"], rows)

    def _controls(self) -> Iterator[str]:
        for control in self.found.controls:
            yield f"- `{control.name}`: {_prose(control.words)}"
            yield from self._says(control)
            yield f"  {_prose(sentences.witness(control))}"

    def _says(self, control: ControlPart) -> Iterator[str]:
        """The false equation, and what it speaks of."""
        says = control.says
        if says is None:
            return
        where = [f"{self._plain(one.entry)} = {self._plain(one.body)}" for one in says.where]
        letters = sentences.not_all(control, list(map(self.notation.letter, says.variables)), "$")
        false = _inline(f"{self._plain(says.left)} = {self._plain(says.right)}")
        alike = _pieces(likened(says, self.notation))
        yield f"  {letters}: {', where '.join([false, *(', '.join(map(_inline, where)) for _ in where[:1])])}."
        yield from [f"  {alike}."] if alike else []

    def _checks(self) -> Iterator[str]:
        for sentence in sentences.checks(self.found, laws=False):
            yield f"- {_prose(sentence)}"
        if self.found.laws:
            laws = ", ".join(f"{CARDS[name].reason} ({_inline(CARDS[name].law)})" for name in self.found.laws)
            yield f"- Laws used, besides definitions and claims: {laws}."

    # ------------------------------------------------------------ claims

    def _stages(self) -> Iterator[Sequence[str]]:
        """A row a claim: its number, the line in matrices where that can be done, its words and the reasons."""
        for claim in self.found.claims:
            same = same_formula(claim, self.notation)
            why = "; ".join(map(_prose, sentences.reasons(claim, self.found.claims, same)))
            parts = [_prose(claim.words)] * bool(claim.words) + [f"*{why}*"] * bool(why)
            yield str(claim.number), _inline(plain(stage(claim, self.notation))), " ".join(parts)

    def _claim(self, claim: ClaimPart) -> Iterator[str]:
        yield f"## Claim {claim.number}, {markdown_words(claim.name)}"
        yield from ("", _prose(claim.words)) if claim.words else ()
        if not claim.good:
            yield from ("", f"**{_prose(sentences.below(claim))}**")
        where = sentences.positions(list(map(self.notation.letter, claim.variables)), "$")
        yield from ("", f"{where.capitalize()}:") if where else ()
        yield from ("", *_display(list(self._rows(statement(claim, self.notation), ""))))
        yield from self._definitions(claim.defined)
        if claim.moves:
            yield from ("", sentences.SAME_ENTRY, "")
            moves = [(one.words, _inline(self._sizes(one.sizes)), _inline(self._at(one.at))) for one in claim.moves]
            yield from markdown_table(["", "sizes", "position"], moves)
        same = same_formula(claim, self.notation) and not claim.moves
        yield from ("", sentences.SAME_FORMULA) if same else ()
        for n, proof in enumerate(() if claim.moves or same else claim.proofs):
            yield from ("", f"Part {n + 1} of {len(claim.proofs)}.") if len(claim.proofs) > 1 else ()
            for block in _blocks(list(self._proof(proof))):
                yield from ("", *_display(block))
        if claim.alike:
            yield from ("", sentences.alike(claim))
        for condition in claim.conditions:
            term = _inline(f"{self._plain(condition.term)} > 0")
            yield from ("", f"Used: {term}, since {sentences.positive_because(condition)}.")

    def _proof(self, proof: Proof) -> Iterator[str]:
        yield from self._rows(self.notation.term(proof.steps[0].term), "")
        for n, one in enumerate(proof.steps[1:], 1):
            formula, reason = self.notation.term(one.term), sentences.because(one, self.found.claims)
            first, *more = self._rows("{}= " + formula, str(n))
            beside = not more and latex_width(formula) <= BESIDE
            yield f"{first} && {_text(reason)}" if beside else first
            yield from more
            if not beside:
                yield rf" & \qquad \qquad {_text(f'({reason})')}"

    def _rows(self, formula: str, number: str) -> Iterator[str]:
        """The rows of a formula in an aligned display."""
        first, *more = rows(formula, WIDTH, measure=latex_width)
        yield (rf"\text{{{number}}}" if number else "") + f" & {first}"
        yield from (rf" & \qquad {row}" for row in more)

    def _plain(self, term: Term) -> str:
        return plain(self.notation.term(term))

    def _sizes(self, sizes: Sequence[Term]) -> str:
        return f"({', '.join(map(self._plain, sizes))})"

    def _at(self, at: Sequence[Index]) -> str:
        return self.notation.at([self.notation.index(one) for one in at])


def markdown_text_of(text: str) -> str:
    r"""A sentence.

    Example:
        >>> print(markdown_text_of("Z^(r) for a_b_c"))
        $Z^{(r)}$ for a\_b\_c
    """
    return _prose(text)


def markdown_formula(latex: str) -> str:
    """A formula for a display."""
    return _safe(latex).strip()


def _safe(formula: str) -> str:
    for sign, word in _SAFE.items():
        formula = formula.replace(sign, word)
    return formula


def _inline(formula: str) -> str:
    return f"${_safe(formula).strip()}$"


def _prose(text: str) -> str:
    return "".join(_safe(part) if n % 2 else part for n, part in _alternating(markdown_prose(text)))


def _pieces(words: Words) -> str:
    return "".join(_inline(one.text) if one.formula else markdown_words(one.text) for one in words)


def _alternating(text: str) -> Iterator[tuple[int, str]]:
    """Words and formulas in turn; formulas stand between dollars that are not escaped."""
    parts = text.replace(r"\$", "\ue0ff").split("$")
    for n, part in enumerate(parts):
        yield n, (f"${part}$" if n % 2 else part.replace("\ue0ff", r"\$"))


def _text(reason: str) -> str:
    """A reason inside a formula."""
    parts = pieces(reason)
    return "".join(latex_formula(p.text) if p.formula else rf"\text{{{_plain_words(p.text)}}}" for p in parts)


def _plain_words(text: str) -> str:
    return "".join(" " if sign in r"\_{}$%&#^~" else sign for sign in text)


def _blocks(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """The lines of a proof in displays that are not too long for those who draw them."""
    start = 0
    for end in range(1, len(lines) + 1):
        new = end == len(lines) or lines[end].startswith(r"\text")
        if new and (end - start >= ROWS or end == len(lines)):
            yield lines[start:end]
            start = end


def _display(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) == 1:
        yield from ("$$", _safe(lines[0]).replace("& ", "").strip(), "$$")
        return
    yield from ("$$", r"\begin{aligned}")
    yield from (_safe(line) + (r" \cr" if n < len(lines) - 1 else "") for n, line in enumerate(lines))
    yield from (r"\end{aligned}", "$$")


def markdown_table(head: Sequence[str], table: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table.

    Example:
        >>> print(*markdown_table(["sign", "meaning"], [["T", "tokens"]]), sep="; ")
        | sign | meaning |; | --- | --- |; | T | tokens |
    """
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in table)
