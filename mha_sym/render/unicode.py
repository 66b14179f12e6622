"""A derivation as plain text for a terminal, about a hundred columns wide.

Defines `unicode_text`.  The lines of a proof stand below each other with their signs of equality aligned; the reason
stands at the right, or in braces below where there is no room.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from mha_sym.proof.terms import Term
from mha_sym.proof.theorem import Verdict
from mha_sym.render import sentences
from mha_sym.render.derivation import ClaimPart, ControlPart, Derivation, Proof
from mha_sym.render.formulas.breaks import plain, rows
from mha_sym.render.formulas.scripts import Unicode
from mha_sym.render.matrices import same_formula, stage, statement
from mha_sym.render.prose import unicode_prose
from mha_sym.render.signs import likened, naming, only, said, sign_rows
from mha_sym.render.vocabulary import DefinedRow, Vocabulary

WIDTH = 98
#: where the formulas of a proof begin, and the farthest column at which reasons may
FORMULA, REASON = 7, 62
#: a left side longer than this does not push the others to the right
LEFT = 24
#: so many definitions stand below a false equation where there are no details
TOLD = 3
#: stands for a space at which no line is broken
KEPT = "\u00a0"


def unicode_text(found: Derivation, *, detail: bool = True) -> str:
    """The whole derivation, or with one line a claim instead of its steps if not ``detail``."""
    return "\n".join(line.rstrip() for line in _Writer(found).lines(detail)) + "\n"


class _Writer:
    """Writes one derivation."""

    def __init__(self, found: Derivation) -> None:
        self.found = found
        self.notation = Unicode(found.vocabulary.names, found.vocabulary.letters_for)

    def lines(self, detail: bool) -> Iterator[str]:
        found = self.found
        yield from (found.title, "═" * len(found.title))
        yield from _wrap(f"{found.name}. {_prose(sentences.verdict(found))}")
        for one, known in zip(sentences.not_good(found), sentences.known(found), strict=True):
            sides = sentences.stuck(one)
            yield from _item(_prose(known) + (f" The sides came down to {' and '.join(sides)}." if sides else ""))
        yield from ("", *_paragraph(found.words))
        if found.source:
            yield from ("", *_wrap(f"Source: {sentences.ended(found.source)}", "  ", "  "))
        yield from ("", *_heading("Assumptions"), *self._assumptions())
        told = found.vocabulary if detail else only(found.vocabulary, "letters", "bijections", "given")
        yield from ("", *_heading("Notation"), *self._signs(told))
        if found.vocabulary.defined:
            yield from ("", *_heading("Definitions"), *self._definitions(found.vocabulary.defined))
        if not detail:
            yield from ("", *_heading("Stage by stage"))
            yield from (line for claim in found.claims for line in self._stage(claim))
        for claim in found.claims if detail else ():
            yield from ("", *self._claim(claim))
        if found.controls:
            yield from ("", *_heading("What is false"), *self._controls(detail))
        yield from ("", *_heading("What was checked"))
        for sentence in sentences.checks(found):
            yield from _item(_prose(sentence))

    # ------------------------------------------------------------ head

    def _assumptions(self) -> Iterator[str]:
        yield from _item(_prose(sentences.sizes(self.found)))
        for words, positive in self.found.assumptions:
            formula = f": {self._plain(positive)} > 0" if positive is not None else ""
            yield from _item(f"{_prose(words[:1].upper() + words[1:])}{formula}.")

    def _signs(self, words: Vocabulary) -> Iterator[str]:
        rows_ = sign_rows(words, self.notation)
        yield from _columns([[r.sign, r.range or "one number", f"{said(r.meaning)} {r.values}"] for r in rows_])
        names = [said(one) for one in naming(self.found, self.notation)]
        yield from [""] if names else []
        for name in names:
            yield from _item(f"{name}.")
        if words.named:
            yield from ("", *_wrap(sentences.DEFINED_BELOW, "  ", "  "))

    def _definitions(self, defined: Sequence[DefinedRow]) -> Iterator[str]:
        width = max((len(self._plain(one.entry)) for one in defined), default=0)
        for one in defined:
            yield from self._definition(one, min(width, LEFT))

    def _definition(self, one: DefinedRow, width: int) -> Iterator[str]:
        left, reason = f"  {self._plain(one.entry):<{width}} = ", unicode_prose(one.words)
        first, *more = rows(self.notation.term(one.body), WIDTH - len(left))
        fits = not more and max(len(left + first), REASON) + 2 + len(reason) <= WIDTH
        yield f"{left + first:<{REASON}}  {reason}" if fits else left + first
        yield from (" " * (len(left) + 2) + row for row in more)
        if not fits:
            yield f"{' ' * len(left)}{{ {reason} }}"

    def _plain(self, term: Term) -> str:
        return plain(self.notation.term(term))

    # ------------------------------------------------------------ claims

    def _stage(self, claim: ClaimPart) -> Iterator[str]:
        """What equals what, and why; before that what is new in it."""
        new = list(self._definitions(claim.new))
        yield from (*[""] * (claim.number > 1), *new, "") if new else ()
        number = f"{claim.number:>3} "
        same = same_formula(claim, self.notation)
        first, *more = rows(stage(claim, self.notation), WIDTH - len(number))
        yield number + first
        yield from (" " * (len(number) + 2) + row for row in more)
        indent = " " * (len(number) + 2)
        if not claim.good:
            yield from _wrap(_prose(sentences.below(claim)), indent, indent)
        yield from _wrap(_prose(claim.words), indent, indent) if claim.words else ()
        yield from _wrap(sentences.SAME_FORMULA, indent, indent) if same else ()
        why = "; ".join(sentences.reasons(claim, self.found.claims, same))
        told = _wrap(f"{{ {_prose(why)}{KEPT}}}", indent, f"{indent}  ") if why else ()
        yield from (line.replace(KEPT, " ") for line in told)

    def _claim(self, claim: ClaimPart) -> Iterator[str]:
        title = f"Claim {claim.number}, {claim.name}" + (f": {_prose(claim.words)}" if claim.words else "")
        wrapped = _wrap(title)
        yield from (*wrapped, "─" * max(map(len, wrapped)))
        if not claim.good:
            yield from _wrap(_prose(sentences.below(claim)))
        same = same_formula(claim, self.notation)
        *before, last = rows(statement(claim, self.notation), WIDTH - 4)
        yield from (f"  {'  ' * bool(n)}{row}" for n, row in enumerate(before))
        yield from self._end(f"  {'  ' * bool(before)}{last}", claim)
        yield from self._matrices(claim)
        yield from [""] if claim.defined else []
        yield from self._definitions(claim.defined)
        if same and not claim.moves:
            yield from ("", *_wrap(sentences.SAME_FORMULA, "  ", "  "))
        for n, proof in enumerate(claim.proofs if not (claim.moves or same) else ()):
            if len(claim.proofs) > 1:
                yield from ("", f"  part {n + 1} of {len(claim.proofs)}")
            yield from ("", *self._proof(proof))
        if claim.moves:
            yield from ("", f"  {sentences.SAME_ENTRY}")
            yield from _columns([self._move(one.words, one.sizes, one.at) for one in claim.moves], indent="      ")
        if claim.alike:
            yield from ("", f"  {sentences.alike(claim)}")
        yield from [""] if claim.conditions else []
        for condition in claim.conditions:
            used = f"Used: {self._plain(condition.term)} > 0, since {sentences.positive_because(condition)}."
            yield from _wrap(used, "  ", "    ")

    def _matrices(self, claim: ClaimPart) -> Iterator[str]:
        """The same at the height of matrices, if that can be written."""
        text = stage(claim, self.notation)
        if text != statement(claim, self.notation):
            first, *more = rows(text, WIDTH - 15)
            yield from (f"  in matrices: {first}", *(" " * 17 + row for row in more))

    def _end(self, line: str, claim: ClaimPart) -> Iterator[str]:
        """The end of a statement, with the positions for which it is made."""
        where = sentences.positions(list(map(self.notation.letter, claim.variables)))
        yield from _beside(line, where, "    ")

    def _move(self, words: str, sizes: Sequence[Term], at: Sequence[object]) -> list[str]:
        indices = [self.notation.index(one) for one in at]  # type: ignore[arg-type]
        return [words, f"({', '.join(map(self._plain, sizes))})", self.notation.at(indices)]

    def _proof(self, proof: Proof) -> Iterator[str]:
        claims = self.found.claims
        lines = [
            (rows(self.notation.term(one.term), WIDTH - FORMULA), unicode_prose(sentences.because(one, claims)))
            for one in proof.steps
        ]
        single = [len(found[0]) for found, reason in lines if len(found) == 1 and reason]
        column = min(max(single, default=0) + 2, REASON - FORMULA)
        for n, (found, reason) in enumerate(lines):
            beside = len(found) == 1 and len(found[0]) + 2 <= column and FORMULA + column + len(reason) <= WIDTH
            first = f"{found[0]:<{column}}{reason}" if beside else found[0]
            yield f"{n or '':>4} {'=' if n else ' '} {first}"
            yield from (" " * (FORMULA + 2) + row for row in found[1:])
            if reason and not beside:
                yield f"{' ' * FORMULA}{{ {reason} }}"

    # ------------------------------------------------------------ controls

    def _says(self, control: ControlPart, detail: bool) -> Iterator[str]:
        """The false equation, and what it speaks of."""
        says = control.says
        if says is None:
            return
        letters = sentences.positions(list(map(self.notation.letter, says.variables)))
        shown = [self.notation.equation(says.left, says.right)]
        told = says.where if detail or len(says.where) <= TOLD else ()
        shown += [self.notation.equation(one.entry, one.body) for one in told]
        begin = "    False: " if control.verdict is Verdict.REFUTED else "    Not refuted: "
        for n, text in enumerate(shown):
            start = "      where " if n else begin
            first, *more = rows(text, WIDTH - len(start))
            indent = " " * (len(start) + 2)
            *lines, last = [x for row in (start + first, *(indent + one for one in more)) for x in _cut(row, indent)]
            yield from (*lines, *(_beside(last, "" if n else letters, indent)))
        alike = said(likened(says, self.notation)) if told else ""
        yield from _wrap(f"{alike}.", "      ", "        ") if alike else ()

    def _controls(self, detail: bool) -> Iterator[str]:
        yield from _paragraph(sentences.controls(self.found))
        for control in self.found.controls:
            yield ""
            yield from _item(f"{control.name}: {_prose(control.words)}")
            yield from self._says(control, detail)
            yield from _wrap(_prose(sentences.witness(control)), "    ", "      ")


def _beside(line: str, words: str, indent: str) -> list[str]:
    """A line with words beside it, or below it if there is no room."""
    if not words:
        return [line]
    return [f"{line}    {words}"] if len(line) + 4 + len(words) <= WIDTH else [line, indent + words]


def _wrap(text: str, start: str = "", indent: str = "") -> list[str]:
    """The text in lines, the first after ``start``, the others after ``indent``."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace(KEPT, " ") for line in lines]


def _cut(row: str, indent: str) -> list[str]:
    """A row of a formula; one that has no place to break it is broken at spaces."""
    if len(row) <= WIDTH:
        return [row]
    start = row[: len(row) - len(row.lstrip())]
    return textwrap.wrap(row.lstrip(), WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)


def _prose(text: str) -> str:
    """The text with its formulas in Unicode, in which no line is broken."""
    return unicode_prose(text, KEPT)


def _heading(text: str) -> Iterator[str]:
    yield from (text, "─" * len(text))


def _paragraph(text: str) -> list[str]:
    return _wrap(_prose(text), "  ", "  ")


def _item(text: str) -> list[str]:
    return _wrap(text, "  - ", "    ")


def _columns(table: Sequence[Sequence[str]], indent: str = "  ") -> Iterator[str]:
    """Three columns, the last of them wrapped."""
    widths = [max((len(row[n]) for row in table), default=0) for n in range(2)]
    for one, two, three in table:
        start = f"{indent}{one:<{widths[0]}}  {two:<{widths[1]}}  "
        yield from _wrap(three, start, " " * len(start)) or [start]
