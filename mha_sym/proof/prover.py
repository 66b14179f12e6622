"""Proving a theorem: goals from claims, certificates from search, verdicts from the checker alone.

Defines `prove` for a theorem and `Prover` for its claims one by one.  A verdict of proved is given only
after the trusted checker has replayed the certificate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from mha_sym.errors import TheoremProblem
from mha_sym.proof.checker import Certificate, Goal, Rejected, check
from mha_sym.proof.collector import collector_off
from mha_sym.proof.field import FieldResult, Points
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.normal import Normaliser
from mha_sym.proof.refute import possible, refute
from mha_sym.proof.rewrite import TooLong
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import (
    At,
    Bind,
    Entry,
    Index,
    Inj,
    Num,
    Part,
    Perm,
    Term,
    TermError,
    children,
    domain_key,
    equal,
    free,
)
from mha_sym.proof.theorem import Claim, Control, Outcome, Report, Theorem, Verdict

if TYPE_CHECKING:
    from mha_sym.proof.witness import Witness, WitnessResult


#: why nothing is said to be proved that rests on what never seems to hold
NO_VALUES = "no values were found for which all assumptions hold, and from what never holds anything follows"


class ProverFault(Exception):
    """Two parts of the prover contradict each other, or a certificate does not replay: a fault of mha_sym."""


def heights(context: Context) -> dict[str, int]:
    """How many definitions stand below each defined name."""
    found: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in found:
            below = _names(context.definitions[name].body) & set(context.definitions)
            found[name] = 1 + max((height(n) for n in below), default=0)
        return found[name]

    for name in context.definitions:
        height(name)
    return found


def _names(term: Term) -> set[str]:
    if isinstance(term, Entry):
        return {term.name}
    return {name for child in children(term) for name in _names(child)}


def to_write_out(left: Term, right: Term) -> frozenset[str]:
    """Keys of the domains over which one side adds up what the other side has position by position.

    Code that loops over heads has the entries of head 0, head 1, ... where a formula has a sum over the heads.
    """
    fixed = {place for side in (left, right) for place, index in _places(side) if _has_number(index)}
    found = set()
    for side in (left, right):
        for bind in _sums(side):
            used = any(place in fixed and bind.var.name in free(index) for place, index in _places(bind.body))
            if used and isinstance(bind.var.domain.size, Num):
                found.add(domain_key(bind.var.domain))
    return frozenset(found)


def _places(term: Term) -> Iterator[tuple[tuple[str, int], Index]]:
    """Every position in an entry, with the name of the tensor and the number of the position."""
    if isinstance(term, Entry):
        yield from (((term.name, number), index) for number, index in enumerate(term.at))
    for child in children(term):
        yield from _places(child)


def _has_number(index: Index) -> bool:
    inside = getattr(index, "parts", None) or ((index.index,) if isinstance(index, Part | Inj | Perm) else ())
    return isinstance(index, At) or any(map(_has_number, inside))


def _sums(term: Term) -> Iterator[Bind]:
    if isinstance(term, Bind) and term.op == "sum":
        yield term
    for child in children(term):
        yield from _sums(child)


def prove_goal(goal: Goal, context: Context) -> Certificate | tuple[Term, Term]:
    """A certificate, not yet checked, or the two normal forms that differ.

    What is known of one of the sides as a whole may be a detour, so that a proof without it is looked for as well, and
    is taken if it is not much longer.
    """
    sides = _names(goal.left) | _names(goal.right)
    others = {name: one for name, one in context.lemmas.items() if not _is_about(one, sides)}
    found = _search_goal(goal, context)
    if not isinstance(found, Certificate) or _lemmas_of(found) <= others.keys():
        return found
    without = _search_goal(goal, replace(context, lemmas=others))
    short = isinstance(without, Certificate) and _length(without) <= DIRECT * _length(found)
    return without if short else found


#: a proof without another claim about a side is better, if it takes at most so many times as many steps
DIRECT = 1.25


def _is_about(lemma: Goal, names: set[str]) -> bool:
    return any(isinstance(one, Entry) and one.name in names for one in (lemma.left, lemma.right))


def _lemmas_of(certificate: Certificate) -> set[str]:
    """The names of the claims that a proof uses."""
    return {step.args["name"] for step in (*certificate.left, *certificate.right) if step.rule == "lemma"}


def _length(certificate: Certificate) -> int:
    return len(certificate.left) + len(certificate.right)


def _search_goal(goal: Goal, context: Context) -> Certificate | tuple[Term, Term]:
    """A certificate, or the two normal forms that differ.

    Definitions are opened one height at a time, those first that only one side mentions: what both sides
    share stays folded as long as possible, and is never opened when it need not be.
    """
    height = heights(context)
    opened: frozenset[str] = frozenset()
    written_out: frozenset[str] = frozenset()
    while True:
        sides = [Normaliser(context, opened, written_out) for _ in range(2)]
        left, right = sides[0].run(goal.left), sides[1].run(goal.right)
        if equal(left, right):
            return Certificate(goal, tuple(sides[0].steps), tuple(sides[1].steps))
        mine, others = (_names(side) & set(height) - opened for side in (left, right))
        choice = (mine ^ others) or mine
        if not choice:
            more = to_write_out(left, right) - written_out
            if not more:
                return left, right
            written_out |= more
            continue
        known = choice & sides[0].known
        top = max(height[name] for name in known or choice)
        opened |= {name for name in known or choice if height[name] == top}


class Prover:
    """Proves the claims of one theorem in order; each proved one is a lemma for those after it."""

    def __init__(self, theorem: Theorem, recheck: bool = True) -> None:
        self.theorem = theorem
        self.recheck = recheck
        self.points = Points(theorem.claims, theorem.assumptions)
        self.witness: Witness | None = None
        self.meaning = Meaning()
        self.lemmas: dict[str, Goal] = {}
        for assumption in theorem.assumptions:
            if assumption.positive is not None:
                self.meaning.assume_positive(assumption.positive)

    def claim(self, claim: Claim) -> Outcome:
        """What is known of a claim: proved if it can be and nothing denies it, else refuted if it can be.

        What random points of finite fields deny is refuted at once, if a counterexample is found; the search is slower.
        """
        start = time.process_time()
        points = self.points.confirm(claim)
        found = self._refuted(claim) if points.agrees is False else None
        outcome = found or self._search(claim)
        if outcome.verdict is Verdict.PROVED and not self._possible:
            outcome = Outcome(claim, Verdict.UNDECIDED, 0.0, detail=NO_VALUES)
        elif outcome.verdict is Verdict.PROVED:
            outcome = self._confront(outcome, points)
        elif found is None and points.agrees is not False:
            outcome = self._refuted(claim) or outcome
        return replace(outcome, seconds=time.process_time() - start)

    @cached_property
    def _possible(self) -> bool:
        """Whether the assumptions hold for some values."""
        return all(one.positive is None for one in self.theorem.assumptions) or possible(self.theorem.assumptions)

    def _refuted(self, claim: Claim) -> Outcome | None:
        """The claim as refuted, if a counterexample turns up."""
        found = refute(claim, self.theorem.assumptions, draws=6)
        return None if found is None else Outcome(claim, Verdict.REFUTED, 0.0, counterexample=found)

    def control(self, control: Control) -> Outcome:
        """What is known of a control: refuted if a counterexample turns up, else what is known of it as a claim."""
        start = time.process_time()
        found = refute(control, self.theorem.assumptions, control.sizes)
        if found is not None:
            return Outcome(control, Verdict.REFUTED, time.process_time() - start, counterexample=found)
        return self.claim(control)

    def _search(self, claim: Claim) -> Outcome:
        """Certificates for all goals of a claim, replayed; or undecided, with the normal forms that differ."""
        stated = goals(self.meaning, claim.name, claim.left, claim.right)
        context = replace(self.meaning.context(), lemmas=dict(self.lemmas))
        certificates = []
        for goal in stated:
            try:
                result = prove_goal(goal, context)
            except TermError as fault:
                return Outcome(claim, Verdict.UNDECIDED, 0.0, detail=f"{fault}, so no proof was looked for")
            except TooLong as limit:
                return Outcome(claim, Verdict.UNDECIDED, 0.0, detail=str(limit))
            if not isinstance(result, Certificate):
                return Outcome(claim, Verdict.UNDECIDED, 0.0, normal_forms=result)
            certificates.append(result)
            self._keep(result, context)
        reasons = {name: node.reason for name, node in self.meaning.named.items()}
        return Outcome(claim, Verdict.PROVED, 0.0, tuple(certificates), context, reasons=reasons)

    def _keep(self, certificate: Certificate, context: Context) -> None:
        """Let the checker decide, and remember what it proved."""
        try:
            lemma = check(certificate, context)
        except Rejected as fault:
            raise ProverFault(f"{self.theorem.name}, {certificate.goal.name}: {fault}") from fault
        self.lemmas[certificate.goal.name] = lemma

    def _confront(self, outcome: Outcome, points: FieldResult) -> Outcome:
        """Ask the other engines about a proved claim; an abstention is kept with its reason, a denial is a fault."""
        self._deny(points.agrees, outcome, "the engine of finite fields", points.detail)
        notes = [] if points.agrees else [f"not confirmed at random points: {points.detail}"]
        outcome = replace(outcome, bound=points.bound)
        if self.recheck:
            explicit = self._explicit(outcome.claim)
            self._deny(explicit.agrees, outcome, "SymPy at explicit sizes", explicit.detail)
            notes += [] if explicit.agrees else [f"not confirmed at explicit sizes: {explicit.detail}"]
            outcome = replace(outcome, rechecked=tuple(explicit.sizes) if explicit.agrees else ())
        return replace(outcome, detail="; ".join(notes))

    def _explicit(self, claim: Claim) -> WitnessResult:
        """What SymPy says at explicit sizes; the claims of the theorem are written out together."""
        from mha_sym.proof.witness import Witness, recheck  # SymPy forms are built only when asked for

        if claim not in self.theorem.claims:
            return recheck(self.theorem, claim)
        if self.witness is None:
            self.witness = Witness(self.theorem, self.theorem.claims)
        return self.witness.recheck(claim)

    def _deny(self, agrees: bool | None, outcome: Outcome, engine: str, detail: str) -> None:
        if agrees is False:
            name = f"{self.theorem.name}, {outcome.claim.name}"
            fault = ProverFault(f"{name}: proved, but {engine} denies it: {detail}")
            for part in (outcome.claim, self.theorem.assumptions, *outcome.certificates):
                fault.add_note(repr(part))  # so that a report of the fault says all that is needed to see it again
            raise fault


def prove(theorem: Theorem, recheck: bool = True) -> Report:
    """Try every claim and every control of a theorem.

    Args:
        theorem: what to prove.
        recheck: confirm each proved claim at small explicit sizes with SymPy, too.

    Raises:
        TheoremProblem: for anything but a theorem.
        ProverFault: if a certificate does not replay or another engine contradicts it; never a user's mistake.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> x = Input("x", (axis("t"),))
        >>> report = prove(Theorem("twice", "", "", (Claim("twice", x + x, x * 2),)), recheck=False)
        >>> report.verdict.value
        'proved'
    """
    if not isinstance(theorem, Theorem):
        raise TheoremProblem(
            "what is proved is a theorem", where="prove", expected="a Theorem", got=repr(theorem),
            hint="mha_sym.library.load makes one of the name of a theorem, or of a path to its file",
        )
    start = time.process_time()
    prover = Prover(theorem, recheck)
    with collector_off():
        claims = tuple(prover.claim(claim) for claim in theorem.claims)
        controls = tuple(_control(theorem, control) for control in theorem.controls)
    return Report(theorem, claims, controls, time.process_time() - start)


def _control(theorem: Theorem, control: Control) -> Outcome:
    """A control is tried on its own: nothing that was proved may help it."""
    return Prover(replace(theorem, claims=(), controls=()), recheck=False).control(control)
