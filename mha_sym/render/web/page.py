"""A derivation as a web page that needs nothing else: no script, no network, no font of its own.

Defines `html_page`, a whole page, and `html_fragment`, the same without its frame, for a notebook.  A claim is one line
that says what equals what and why; it opens into its chain.  The text is well-formed XML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mha_sym.proof.cards import CARDS
from mha_sym.proof.theorem import Verdict
from mha_sym.render import sentences
from mha_sym.render.derivation import ClaimPart, ControlPart, Derivation, Proof, Step
from mha_sym.render.matrices import same_formula, stage, statement
from mha_sym.render.pictures.parts import escaped
from mha_sym.render.pictures.svg import trace_svg
from mha_sym.render.pictures.ways import ways_svg
from mha_sym.render.signs import SignRow, Words, likened, naming, only, sign_rows
from mha_sym.render.vocabulary import DefinedRow, Vocabulary
from mha_sym.render.web.math import Writer, glued
from mha_sym.render.web.style import style
from mha_sym.trace import trace

#: so many definitions stand open on a page; more are folded
OPEN = 6

#: what a page may load: nothing; scripts are refused too
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Surroundings:
    """What a page is part of.

    Attributes:
        home: where the index is.
        links: the pages of other theorems, by name.
        titles: what the other theorems are called, by name; by their names if that is not told.
        related: theorems that belong to this one, and why.
        before, after: the neighbouring pages with their titles, if there are such.
        prefix: what the names of places on the page begin with, if there may be others like it on the same page.
    """

    home: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    related: tuple[tuple[str, str], ...] = ()
    before: tuple[str, str] | None = None
    after: tuple[str, str] | None = None
    prefix: str = ""


ALONE = Surroundings()


def html_page(found: Derivation, around: Surroundings = ALONE) -> str:
    """The whole page."""
    body = html_fragment(found, around)
    nav = f'<nav><a href="{escaped(around.home)}">All theorems</a></nav>\n' if around.home else ""
    return page(found.title, f"{nav}<main>\n{body}</main>\n{_neighbours(around)}")


def _neighbours(around: Surroundings) -> str:
    """Where to read on, at the foot of the page."""
    said = [("prev", "Before", around.before), ("next", "Next", around.after)]
    links = [
        f'<a rel="{rel}" href="{escaped(one[0])}">{word}: {Writer(Vocabulary()).prose(one[1])}</a>'
        for rel, word, one in said
        if one is not None
    ]
    return f'<nav class="foot" aria-label="Neighbouring pages">{"".join(links)}</nav>\n' if links else ""


def page(title: str, body: str) -> str:
    """A page with a title around something; also for pages that are no derivation.

    Example:
        >>> page("A & B", "<p>C</p>").splitlines()[1]
        '<html lang="en" xmlns="http://www.w3.org/1999/xhtml">'
    """
    return (
        '<!DOCTYPE html>\n<html lang="en" xmlns="http://www.w3.org/1999/xhtml">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>\n'
        '<meta name="color-scheme" content="light dark"/>\n<link rel="icon" href="data:,"/>\n'
        f"<title>{escaped(title)}</title>\n<style>{style()}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def html_fragment(found: Derivation, around: Surroundings = ALONE) -> str:
    """What stands on the page, without its frame."""
    links = {name: page for name, page in around.links.items() if name != found.name}
    return "\n".join(_Page(found, around, Writer(found.vocabulary, links)).lines()) + "\n"


@dataclass(frozen=True)
class _Page:
    """Writes one page."""

    found: Derivation
    around: Surroundings
    writer: Writer
    stages: dict[int, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        found, prose = self.found, self.writer.prose
        yield f"<h1>{prose(found.title)}</h1>"
        yield f'<p class="verdict {"good" if found.good else "alarm"}">{prose(sentences.verdict(found))}</p>'
        yield from [] if found.good else self._known()
        yield f'<div class="statement"><p><strong>Theorem</strong> (<code>{escaped(found.name)}</code>). '
        yield f"{prose(found.words)}</p></div>"
        if found.source:
            yield f'<p class="faint">Source: {escaped(sentences.ended(found.source))}</p>'
        yield from self._related()
        yield from ("<h2>Assumptions</h2>", *_list(self._assumptions()))
        yield from ("<h2>Notation</h2>", *self._signs(found.vocabulary))
        yield from ("<h2>Stage by stage</h2>", *self._claims())
        if found.controls:
            yield from ("<h2>What is false</h2>", f"<p>{prose(sentences.controls(found))}</p>")
            yield from ('<ul class="controls">', *map(self._control, found.controls), "</ul>")
        yield from ("<h2>What was checked</h2>", *_list(self._checks()))

    def _place(self, number: int) -> str:
        """The name of the place of a claim."""
        return escaped(f"{self.around.prefix}claim-{number}")

    # ------------------------------------------------------------ head and end

    def _known(self) -> Iterator[str]:
        """What is known of a theorem that is not proved, claim by claim."""
        open_ = [one for one in self.found.claims if not one.good]
        known = [self.writer.prose(sentences.undecided(one)) + _stuck(one) for one in open_]
        places = [f'<a href="#{self._place(one.number)}">Claim {one.number}</a>' for one in open_]
        yield from _list((f"{place}: {what}" for place, what in zip(places, known, strict=True)), "alarm")

    def _related(self) -> Iterator[str]:
        if self.around.related:
            items = (f"{self._other(name)}: {self.writer.prose(why)}" for name, why in self.around.related)
            yield from ('<p class="faint">See also:</p>', *_list(items))

    def _other(self, name: str) -> str:
        """The title of another theorem, leading to its page."""
        title = self.around.titles.get(name)
        if title is None:
            return self.writer.link(name)
        return f'<a href="{escaped(self.around.links[name])}">{self.writer.prose(title)}</a>'

    def _assumptions(self) -> Iterator[str]:
        yield self.writer.prose(sentences.sizes(self.found))
        for words, positive in self.found.assumptions:
            formula = f": {self.writer.positive(positive)}" if positive is not None else ""
            yield f"{self.writer.prose(words[:1].upper() + words[1:])}{formula}."

    def _signs(self, words: Vocabulary) -> Iterator[str]:
        note = self.writer.notation
        yield from self._table(only(words, "letters", "bijections", "given"))
        if words.named:
            yield f"<details><summary>{len(words.named)} signs that are defined on the way</summary>"
            yield from (*self._table(only(words, "named")), "</details>")
        names = [f"{self._pieces(one)}." for one in naming(self.found, note)]
        yield from _list(names) if names else []
        if words.defined:
            several = f"{len(words.defined)} definitions"
            yield f"<details{_open(len(words.defined) <= OPEN)}><summary>{several}</summary>"
            yield from ('<ul class="rows">', *map(self._definition, words.defined), "</ul></details>")
        if words.named:
            yield f"<p>{sentences.DEFINED_BELOW}</p>"

    def _table(self, words: Vocabulary) -> Iterator[str]:
        note = self.writer.notation
        rows = [(self.writer.sign(r.sign), self._range(r), self._meaning(r)) for r in sign_rows(words, note)]
        if rows:
            head = "".join(f'<th scope="col">{name}</th>' for name in ("Sign", "Range or shape", "Meaning"))
            yield f'<table class="signs"><thead><tr>{head}</tr></thead>'
            yield "<tbody>"
            yield from (f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
            yield "</tbody></table>"

    def _range(self, row: SignRow) -> str:
        return self.writer.sign(row.range) if row.range else "one number"

    def _meaning(self, row: SignRow) -> str:
        values = f" <code>{escaped(row.values)}</code>" if row.values else ""
        return self._pieces(row.meaning) + values

    def _pieces(self, words: Words) -> str:
        return glued("".join(self.writer.sign(one.text) if one.formula else escaped(one.text) for one in words))

    def _definition(self, defined: DefinedRow) -> str:
        formula = self.writer.equation(defined.entry, defined.body)
        return f'<li>{formula}<span class="why">{self.writer.prose(defined.words)}</span></li>'

    def _checks(self) -> Iterator[str]:
        yield from map(self.writer.prose, sentences.checks(self.found, laws=False))
        if self.found.laws:
            cards = [CARDS[name] for name in self.found.laws]
            laws = ", ".join(f"{escaped(one.reason)} ({self.writer.sign(one.law)})" for one in cards)
            yield glued(f"Laws used, besides definitions and claims: {laws}.")

    def _control(self, control: ControlPart) -> str:
        words, witness = self.writer.prose(control.words), self.writer.prose(_sentence(sentences.witness(control)))
        alarm = "" if control.verdict is Verdict.REFUTED else ' class="alarm"'
        told = f"<p><code>{escaped(control.name)}</code>: {words}</p>{''.join(self._says(control))}"
        return f"<li>{told}<p{alarm}>{witness}</p>{self._picture(control)}</li>"

    def _says(self, control: ControlPart) -> Iterator[str]:
        """The false equation, and what it speaks of."""
        says = control.says
        if says is None:
            return
        letters = [self.writer.sign(self.writer.notation.letter(name)) for name in says.variables]
        yield glued(f'<p class="range">{sentences.not_all(control, letters)}:</p>')
        yield self.writer.equation(says.left, says.right)
        if says.where:
            equations = (self.writer.equation(one.entry, one.body) for one in says.where)
            yield f"<p>where</p><ul class=\"rows\">{''.join(f'<li>{one}</li>' for one in equations)}</ul>"
        if alike := likened(says, self.writer.notation):
            yield f"<p>{self._pieces(alike)}.</p>"

    def _picture(self, control: ControlPart) -> str:
        """Which number lands in which cell, folded, if all that happens is that numbers are moved."""
        if control.ways is None:
            return ""
        title = f"Where the numbers go: {control.name}"
        picture = ways_svg(*control.ways, title, f"{self.around.prefix}{control.name}")
        if not picture:
            return ""
        box = f'<div class="scroll" tabindex="0" role="group" aria-label="{escaped(title)}">{picture}</div>'
        return f"<details><summary>Which number lands in which cell</summary>{box}</details>"

    # ------------------------------------------------------------ claims

    def _claims(self) -> Iterator[str]:
        yield (
            "<p>Each line says what equals what, and why, in matrices where that can be done: for every sequence of a "
            "batch, heads as labels. It opens into the steps, entry by entry; where only a part of a step is new, that "
            'part is <strong style="color:var(--new)">in colour</strong>.</p>'
        )
        for claim in self.found.claims:
            yield f'<details class="claim" id="{self._place(claim.number)}"{_open(not claim.good)}>'
            yield f"<summary>{self._headline(claim)}</summary>"
            yield from [] if claim.good else [f'<p class="alarm">{self.writer.prose(sentences.below(claim))}</p>']
            yield from self._inside(claim)
            yield "</details>"

    def _headline(self, claim: ClaimPart) -> str:
        words = self.writer.prose(claim.words) if claim.words else f"<code>{escaped(claim.name)}</code>"
        head = f'<h3><span class="number">{claim.number}</span> {words}</h3>'
        same = same_formula(claim, self.writer.notation)
        why = "; ".join(map(self.writer.prose, sentences.reasons(claim, self.found.claims, same)))
        line = self.writer.latex(self._stage(claim))
        return head + line + (f'<span class="why">{why}</span>' if why else "")

    def _stage(self, claim: ClaimPart) -> str:
        """The line of a claim, made once."""
        if claim.number not in self.stages:
            self.stages[claim.number] = stage(claim, self.writer.notation)
        return self.stages[claim.number]

    def _entry(self, claim: ClaimPart) -> str:
        """The statement of a claim entry by entry, as `_stage` is in matrices."""
        return statement(claim, self.writer.notation)

    def _inside(self, claim: ClaimPart) -> Iterator[str]:
        letters = [self.writer.sign(self.writer.notation.letter(name)) for name in claim.variables]
        where, again = sentences.positions(letters) or "in numbers", self._stage(claim) != self._entry(claim)
        where = where.capitalize() if claim.verdict is Verdict.PROVED else f"Claimed {where}"
        yield glued(f'<p class="range">{where}{":" if again or claim.proofs else "."}</p>')
        yield from [self.writer.latex(self._entry(claim))] if again else []
        if claim.defined:
            yield from ('<p class="range">where</p><ul class="rows">', *map(self._definition, claim.defined), "</ul>")
        if claim.moves:
            yield from (f"<p>{sentences.SAME_ENTRY}</p>", *self._moves(claim))
        same = same_formula(claim, self.writer.notation) and not claim.moves
        yield from [f"<p>{sentences.SAME_FORMULA}</p>"] if same else []
        for n, proof in enumerate(() if claim.moves or same else claim.proofs):
            yield from [f"<p>Part {n + 1} of {len(claim.proofs)}.</p>"] if len(claim.proofs) > 1 else []
            yield from self._chain(proof)
        if claim.alike:
            yield f"<p>{sentences.alike(claim)}</p>"
        for condition in claim.conditions:
            used = self.writer.positive(condition.term)
            yield f"<p>Used: {used}, since {sentences.positive_because(condition)}.</p>"
        if not sentences.checked_in_all_ways(claim):
            yield f'<p class="checked">{self.writer.prose(sentences.checked(claim))}</p>'

    def _moves(self, claim: ClaimPart) -> Iterator[str]:
        yield '<div class="scroll" tabindex="0" role="group" aria-label="Axes, step by step"><table>'
        head = "".join(f'<th scope="col">{name}</th>' for name in ("Step", "Axes", "Entry at"))
        yield f"<thead><tr>{head}</tr></thead><tbody>"
        for move in claim.moves:
            sizes = ",".join(map(self.writer.notation.term, move.sizes))
            yield f"<tr><td>{escaped(move.words)}</td><td>{self.writer.sign(f'({sizes})')}</td>"
            yield f"<td>{self.writer.at(move.at)}</td></tr>"
        yield "</tbody></table></div>"
        if claim.way is not None:
            picture = trace_svg(trace(claim.way), title=f"Axes of the left side of claim {claim.number}")
            yield f'<div class="scroll" tabindex="0" role="group" aria-label="Picture of the axes">{picture}</div>'

    def _chain(self, proof: Proof) -> Iterator[str]:
        yield '<ol class="chain">'
        yield f"<li><span></span>{self.writer.term(proof.steps[0].term)}</li>"
        for n, step in enumerate(proof.steps[1:], 1):
            formula = self.writer.term(step.term, step.changed, before="{}=")
            yield f'<li><span class="number">{n}</span>{formula}<span class="why">{self._because(step)}</span></li>'
        yield "</ol>"

    def _because(self, step: Step) -> str:
        """The reason of a step; a claim is linked."""
        if step.rule != "lemma":
            return self.writer.prose(step.reason)
        number = next(one.number for one in self.found.claims if one.name == step.subject)
        return f'by <a href="#{self._place(number)}">claim {number}</a>'


def _sentence(text: str) -> str:
    return text[:1].upper() + sentences.ended(text[1:])


def _open(open_: bool) -> str:
    return ' open="open"' if open_ else ""


def _stuck(claim: ClaimPart) -> str:
    """What the sides of an undecided claim came down to, as it is typed."""
    sides = sentences.stuck(claim)
    return f" The sides came down to {' and '.join(f'<code>{escaped(one)}</code>' for one in sides)}." if sides else ""


def _list(items: Iterable[str], name: str = "") -> Iterator[str]:
    yield f'<ul class="{name}">' if name else "<ul>"
    yield from (f"<li>{item}</li>" for item in items)
    yield "</ul>"
