"""A derivation as data: statement, assumptions, notation, the lines of every claim, controls, what was checked.

Defines `Derivation` and its parts, and `derivation`, which makes it from a report.  Formulas are terms here; how they
look is decided by the renderers, of which `mha_sym.render.derive` has the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from mha_sym.expr import Expr, Input, inputs
from mha_sym.proof.cards import CARDS
from mha_sym.proof.checker import Goal
from mha_sym.proof.meaning import Meaning, goals, positions
from mha_sym.proof.terms import Index, Term
from mha_sym.proof.theorem import Claim, Counterexample, Outcome, Report, Verdict
from mha_sym.render.computed.line_check import Checked, check_lines
from mha_sym.render.false_equations import FalseEquation, false_equation
from mha_sym.render.formulas.aligned import aligned
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.changes import Keys, changed
from mha_sym.render.formulas.letters import FAMILIES, tidy
from mha_sym.render.formulas.occurring import names_of
from mha_sym.render.formulas.scripts import Unicode
from mha_sym.render.matrices import Height, matrices_of
from mha_sym.render.pictures.moves import Move, moves_of
from mha_sym.render.pictures.ways import wrong_way
from mha_sym.render.reading import Condition, Reading, read
from mha_sym.render.report_json import scope
from mha_sym.render.vocabulary import DefinedRow, Vocabulary, named_rows, names_in, vocabulary
from mha_sym.shown import Shown

#: what is assumed besides where keys are masked
REAL = "All given numbers are real. Entries of {} are 0 or 1: 0 where code adds minus infinity to a score"
#: a claim with more goals than this is shown by the first of them
SHOWN = 3
#: with more definitions than this, each stands with the claim that needs it first
DEFINITIONS = 30
#: inputs of a counterexample with more numbers than this are left to the form that programs read
NUMBERS = 120


@dataclass(frozen=True)
class Step:
    """One line: the term, why it equals the line before, by which rule, and the tensor opened or the claim used.

    ``changed`` are the places in the term that the line before has not (see `mha_sym.render.formulas.changes`).
    """

    term: Term
    reason: str = ""
    rule: str = ""
    subject: str = ""
    changed: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Proof:
    """The lines from the left to the right side of a goal."""

    goal: Goal
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class ClaimPart:
    """A claim: its statement for all ``variables``, its proofs, and how many others go in the same way.

    ``moves`` is the way of the left side's entry, where nothing happens but axes being rearranged, and ``way`` is that
    side; ``counterexample`` has the values rounded, and the inputs of the claim; ``stuck`` are the terms to which the
    sides of an undecided claim came down; ``defined`` are the definitions that belong here, if there are too many for
    one table, but for those that its lines show, which are ``opened``; ``rechecked`` are the sizes at which both sides
    were written out with symbols, ``height`` are its lines in matrices, if it has such, and ``checked`` is what came
    out when every line was computed.
    """

    number: int
    name: str
    words: str
    verdict: Verdict
    left: Term
    right: Term
    variables: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    alike: int = 0
    moves: tuple[Move, ...] = ()
    conditions: tuple[Condition, ...] = ()
    counterexample: Counterexample | None = None
    rechecked: tuple[dict[str, int], ...] = ()
    defined: tuple[DefinedRow, ...] = ()
    opened: tuple[DefinedRow, ...] = ()
    checked: Checked = field(default_factory=Checked)
    way: Expr | None = None
    stuck: tuple[Term, Term] | None = None
    height: Height | None = None

    @property
    def good(self) -> bool:
        """Proved, and no line of it denied by numbers."""
        return self.verdict is Verdict.PROVED and not self.checked.wrong

    @property
    def new(self) -> tuple[DefinedRow, ...]:
        """All definitions that belong here, each after those it rests on."""
        rows = {row.entry.name: row for row in (*self.opened, *self.defined)}
        order: dict[str, None] = {}

        def put(name: str) -> None:
            for other in names_of(rows[name].body):
                if other in rows and other not in order:
                    put(other)
            order[name] = None

        for name in rows:
            put(name)
        return tuple(rows[name] for name in order)


@dataclass(frozen=True)
class ControlPart:
    """A false neighbour: what was done wrong, and where that shows.

    ``place`` is the position by its letters, ``given`` the inputs that are not zero, ``zeros`` whether there are
    others, ``unshown`` how many numbers are too many to be shown, ``inputs`` all inputs; ``left`` and ``right`` are
    exact, or begin with ``≈`` and are rounded from enclosures.  ``says`` is the statement as an equation.  ``ways`` are
    the right way of an array and a wrong one, if that is what was done wrong.
    """

    name: str
    words: str
    verdict: Verdict
    sizes: Mapping[str, int]
    place: Mapping[str, int]
    left: str
    right: str
    given: Mapping[str, Any]
    permutations: Mapping[str, tuple[int, ...]]
    zeros: bool = False
    unshown: int = 0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    ways: tuple[Expr, Expr] | None = None
    says: FalseEquation | None = None


@dataclass(frozen=True)
class Derivation(Shown):
    """Everything that a document about a theorem says.

    Attributes:
        scope: the sizes for which it is stated, in words.
        assumptions: each in words, and as a term that is positive where that is meant.
        laws: names of the rules that the lines use, in order of first use.
        applications: how many applications of rules the checker replayed.
    """

    name: str
    title: str
    words: str
    source: str
    verdict: Verdict
    scope: str
    assumptions: tuple[tuple[str, Term | None], ...]
    vocabulary: Vocabulary
    claims: tuple[ClaimPart, ...]
    controls: tuple[ControlPart, ...]
    laws: tuple[str, ...]
    applications: int

    @property
    def good(self) -> bool:
        """Proved, and no line of it denied by numbers."""
        return self.verdict is Verdict.PROVED and all(one.good for one in self.claims)

    @property
    def refuted(self) -> int:
        """How many controls are refuted."""
        return sum(one.verdict is Verdict.REFUTED for one in self.controls)


def derivation(report: Report) -> Derivation:
    """The derivation of a theorem that was tried, proved or not.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> from mha_sym.proof.prover import prove
        >>> from mha_sym.proof.theorem import Claim, Theorem
        >>> x = Input("x", (axis("t", "T"),))
        >>> report = prove(Theorem("twice", "Twice", "x + x is 2 x.", (Claim("twice", x + x, x * 2),)), recheck=False)
        >>> [step.reason for step in derivation(report).claims[0].proofs[0].steps]
        ['', 'like terms']
    """
    theorem = report.theorem
    meaning, stated = _stated(report)
    claims = [_claim(n + 1, o, stated[n]) for n, o in enumerate(report.claims)]
    exprs = [side for claim in theorem.claims for side in (claim.left, claim.right)]
    assumed = [(one.words, _positive(one.positive, meaning)) for one in theorem.assumptions]
    masks = [name for name, one in meaning.given.items() if isinstance(one, Input) and one.boolean]
    assumed += [(REAL.format(" and ".join(masks)), None)] * bool(masks)
    places = [index for claim in claims for move in claim.moves for index in move.at]
    groups = [*(list(_terms([one])) for one in claims), [term for _, term in assumed if term is not None]]
    controls = [_control(one, theorem.claims, meaning) for one in report.controls]
    false = [one.says for one in controls if one.says is not None]
    exprs += [side for control in theorem.controls for side in (control.left, control.right)]
    words = vocabulary(groups, meaning, exprs, places, [term for one in false for term in one.terms])
    words = replace(words, names={**words.names, **{n: s for one in false for n, s in one.symbols.items()}})
    controls = [_with_sizes(one, words) for one in controls]
    note = Unicode(words.names, words.letters_for)
    claims = [_told_apart(one, note) for one in claims]
    claims = [replace(one, height=matrices_of(one, words.names)) for one in claims]
    claims = list(_checked(claims, report, meaning))
    if len(words.defined) > DEFINITIONS:
        claims = list(_with_definitions(claims, words, meaning))
        words = replace(words, defined=(), named=tuple(named_rows(words.defined, words.names)))
    used = dict.fromkeys(s.rule for c in claims for p in c.proofs for s in p.steps)
    return Derivation(
        name=theorem.name, title=theorem.title or theorem.name, words=theorem.words, source=theorem.source,
        verdict=report.verdict, scope=scope(theorem.claims), assumptions=tuple(assumed), vocabulary=words,
        claims=tuple(claims), controls=tuple(controls),
        laws=tuple(rule for rule in used if rule in CARDS and rule not in ("unfold", "lemma", "table", "arithmetic")),
        applications=report.steps,
    )  # fmt: skip


# ---------------------------------------------------------------- claims


def _stated(report: Report) -> tuple[Meaning, list[tuple[Goal, ...]]]:
    """The goals of all claims under the names that the certificates use: claims that came to nothing come last."""
    meaning = Meaning()
    for assumption in report.theorem.assumptions:
        if assumption.positive is not None:
            meaning.assume_positive(assumption.positive)
    made: dict[int, tuple[Goal, ...]] = {}
    for n in sorted(range(len(report.claims)), key=lambda n: report.claims[n].context is None):
        claim = report.claims[n].claim
        made[n] = goals(meaning, claim.name, claim.left, claim.right)
    return meaning, [made[n] for n in range(len(report.claims))]


def _claim(number: int, outcome: Outcome, stated: Sequence[Goal]) -> ClaimPart:
    claim, certificates = outcome.claim, outcome.certificates
    shown = certificates if len(certificates) <= SHOWN else certificates[:1]
    readings = [read(one, outcome.context, outcome.reasons) for one in shown]
    goal, names = stated[0], frozenset(v.name for v in stated[0].variables)
    trivial = bool(readings) and all(r.lines[-1].rule == "arithmetic" and len(r.lines) == 2 for r in readings)
    moves = tuple(moves_of(claim.left)) if trivial else ()
    return ClaimPart(
        number, claim.name, claim.words, outcome.verdict, tidy(goal.left, names), tidy(goal.right, names),
        variables=tuple(v.name for v in goal.variables), proofs=tuple(map(_proof, readings)),
        alike=len(certificates) - len(shown), moves=moves, way=claim.left if moves else None,
        conditions=tuple(Condition(tidy(c.term), c.assumed) for r in readings for c in r.conditions),
        counterexample=outcome.counterexample and _for_readers(claim, outcome.counterexample),
        rechecked=outcome.rechecked, stuck=outcome.normal_forms,
    )  # fmt: skip


def _for_readers(claim: Claim, found: Counterexample) -> Counterexample:
    """The counterexample with its position by the letters of a page, its values rounded, and the claim's inputs."""
    left, right = _values(found)
    return replace(found, index=_place(found), left=left, right=right, inputs=_drawn(claim, found))


def _drawn(claim: Claim, found: Counterexample) -> dict[str, Any]:
    """The inputs that occur in the claim."""
    used = {one.name for side in (claim.left, claim.right) for one in inputs(side)}
    return {name: values for name, values in found.inputs.items() if name in used}


def _values(found: Counterexample) -> tuple[str, str]:
    """Both sides as a reader needs them; as exact as they are if they look the same otherwise."""
    left, right = _value(found.left), _value(found.right)
    return (found.left, found.right) if left == right else (left, right)


def _checked(claims: Sequence[ClaimPart], report: Report, meaning: Meaning) -> Iterator[ClaimPart]:
    """The claims, with what came out when their lines were computed."""
    proved = [(shown, known.claim) for shown, known in zip(claims, report.claims, strict=True) if shown.proofs]
    found = iter(check_lines(proved, report.theorem, meaning.context()))
    for one in claims:
        yield replace(one, checked=next(found)) if one.proofs else one


def _proof(reading: Reading) -> Proof:
    names = frozenset(v.name for v in reading.goal.variables)
    steps: list[Step] = []
    for line in reading.lines:
        term = tidy(line.term, names)
        term = aligned(steps[-1].term, term) if steps else term
        steps.append(Step(term, line.reason, line.rule, line.name))
    return Proof(reading.goal, tuple(steps))


def _told_apart(claim: ClaimPart, notation: Unicode) -> ClaimPart:
    """The claim without lines that look like the line before them; each line knows what it changed."""
    proofs = []
    for proof in claim.proofs:
        steps = proof.steps
        inner = [after for before, after in pairwise(steps[1:-1]) if not _alike(before.term, after.term, notation)]
        proofs.append(replace(proof, steps=tuple(_compared([*steps[:2], *inner, *steps[2:][-1:]]))))
    return replace(claim, proofs=tuple(proofs))


def _alike(one: Term, other: Term, notation: Unicode) -> bool:
    """Whether two terms look the same; where other tensors are in one of them they need not be written."""
    if sorted(names_of(one)) != sorted(names_of(other)):
        return False
    return plain(notation.term(one)) == plain(notation.term(other))


def _compared(steps: Sequence[Step]) -> Iterator[Step]:
    yield from steps[:1]
    keys = Keys()
    for before, step in pairwise(steps):
        yield replace(step, changed=changed(before.term, step.term, keys))


def _terms(claims: Iterable[ClaimPart]) -> Iterator[Term]:
    for claim in claims:
        yield from (claim.left, claim.right)
        for proof in claim.proofs:
            yield from (step.term for step in proof.steps)
        yield from (condition.term for condition in claim.conditions)


def _with_definitions(claims: Sequence[ClaimPart], words: Vocabulary, meaning: Meaning) -> Iterator[ClaimPart]:
    """The claims, each with the definitions that it is the first to need, but for those that its lines show."""
    rows = {row.entry.name: row for row in words.defined}
    known: set[str] = set()
    for claim in claims:
        shown = set(_opened(claim))
        used = set(names_in(_terms([claim]), meaning.definitions)) & set(rows) - known
        known |= used
        opened, defined = (tuple(rows[n] for n in rows if n in those) for those in (used & shown, used - shown))
        yield replace(claim, opened=opened, defined=defined)


def _opened(claim: ClaimPart) -> Iterator[str]:
    """The tensors that stand in a line and of which the next line has the definition; not the other way round."""
    for proof in claim.proofs:
        for before, step in pairwise(proof.steps):
            if step.rule == "unfold" and step.subject in names_of(before.term):
                yield step.subject


def _positive(expr: Expr | None, meaning: Meaning) -> Term | None:
    if expr is None:
        return None
    places: dict[str, Index] = {}
    taken: set[str] = set()
    for axis in expr.axes:
        (variables, index), *_ = positions(axis, taken)
        places[axis.name] = index
        taken |= {v.name for v in variables}
    return tidy(meaning.at(expr, places, {}))


# ---------------------------------------------------------------- controls


def _control(outcome: Outcome, claims: Sequence[Claim], meaning: Meaning) -> ControlPart:
    claim, found = outcome.claim, outcome.counterexample
    says = false_equation(claim, found, meaning)
    if found is None:
        return ControlPart(claim.name, claim.words, outcome.verdict, {}, {}, "", "", {}, {}, says=says)
    left, right = _values(found)
    drawn = _drawn(claim, found)
    given = {name: values for name, values in drawn.items() if np.any(np.asarray(values))}
    many = sum(np.asarray(values).size for values in given.values())
    return ControlPart(
        claim.name, claim.words, outcome.verdict, found.sizes, _place(found), left, right,
        given if many <= NUMBERS else {}, found.permutations, len(given) < len(drawn) and many <= NUMBERS,
        many if many > NUMBERS else 0, drawn,
        wrong_way(claim, claims), says,
    )  # fmt: skip


def _with_sizes(control: ControlPart, words: Vocabulary) -> ControlPart:
    """The control with words for the sizes that it alone has."""
    rows = [row for row in words.sizes_besides if row.name in control.sizes]
    told = [f"{row.name} is the number of {row.words}" for row in rows]
    return replace(control, words=f"{control.words} Here {'; '.join(told)}.") if told else control


def _place(found: Counterexample) -> dict[str, int]:
    """Where a statement fails, by the letters of positions."""
    return {FAMILIES.get(_letter(name), (_letter(name),))[0]: n for name, n in found.index.items()}


def _letter(axis_name: str) -> str:
    """The letter of a position in an axis of that name."""
    return {"h": "r", "k": "j", "v": "j"}.get(axis_name, axis_name if axis_name.isidentifier() else "c")


_BALL = re.compile(r"\[?(-?[0-9.e+-]+)(?: \+/- [^\]]*\])?")


def _value(text: str) -> str:
    """An exact number as it is, an enclosure rounded to what a reader needs."""
    if "." not in text:
        return text
    found = _BALL.fullmatch(text)
    if found is None:
        return text
    exact = "+/-" not in text
    value = f"{float(found[1]):.6g}"
    return value if exact else f"≈ {value}"
