"""Proving a theorem: goals from claims, certificates from search, verdicts from the checker alone.

Defines `prove` for a theorem and `Prover` for its claims one by one.  A verdict of proved is given only
after the trusted checker has replayed the certificate.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mha_sym.proof.checker import Certificate, Goal, Rejected, check
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.normal import Normaliser
from mha_sym.proof.refute import refute
from mha_sym.proof.rules import Context, Lemma
from mha_sym.proof.terms import Entry, Term, TermError, children, equal, key
from mha_sym.proof.theorem import Assumption, Claim, Control, Outcome, Report, Theorem, Verdict


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


def prove_goal(goal: Goal, context: Context) -> Certificate | tuple[Term, Term]:
    """A certificate, not yet checked, or the two normal forms that differ.

    Definitions are opened one height at a time, those first that only one side mentions: what both sides
    share stays folded as long as possible, and is never opened when it need not be.
    """
    height = heights(context)
    opened: frozenset[str] = frozenset()
    while True:
        sides = [Normaliser(context, opened), Normaliser(context, opened)]
        left, right = sides[0].run(goal.left), sides[1].run(goal.right)
        if equal(left, right):
            return Certificate(goal, tuple(sides[0].steps), tuple(sides[1].steps))
        shut = [_names(side) & set(height) - opened for side in (left, right)]
        choice = (shut[0] ^ shut[1]) or (shut[0] | shut[1])
        if not choice:
            return left, right
        top = max(height[name] for name in choice)
        opened |= {name for name in choice if height[name] == top}


class Prover:
    """Proves the claims of one theorem in order; each proved one is a lemma for those after it."""

    def __init__(self, theorem: Theorem, recheck: bool = True) -> None:
        self.theorem = theorem
        self.recheck = recheck
        self.meaning = Meaning()
        self.lemmas: dict[str, Lemma] = {}
        for assumption in theorem.assumptions:
            if assumption.positive is not None:
                self.meaning.assume_positive(assumption.positive)

    def claim(self, claim: Claim, fixed: Mapping[str, int] | None = None) -> Outcome:
        """What is known of a claim: refuted if a counterexample turns up, else proved if it can be."""
        start = time.perf_counter()
        found = refute(claim, self.theorem.assumptions, fixed, draws=1)
        if found is not None:
            return Outcome(claim, Verdict.REFUTED, time.perf_counter() - start, counterexample=found)
        stated = goals(self.meaning, claim.name, claim.left, claim.right)
        context = replace(self.meaning.context(), lemmas=dict(self.lemmas))
        certificates, detail = [], ""
        for goal in stated:
            try:
                result = prove_goal(goal, context)
            except TermError as fault:
                detail = f"{fault}, so no proof was looked for"
                break
            if not isinstance(result, Certificate):
                detail = f"{key(result[0])}\n{key(result[1])}"
                break
            certificates.append(result)
            self._keep(result, context)
        verdict = Verdict.UNDECIDED if detail else Verdict.PROVED
        outcome = Outcome(
            claim, verdict, 0.0, tuple(certificates) if not detail else (), context, detail=detail,
            reasons={name: node.reason for name, node in self.meaning.named.items()},
        )
        if verdict is Verdict.PROVED and self.recheck:
            outcome = self._recheck(outcome)
        if verdict is Verdict.UNDECIDED:
            outcome = self._second_try(outcome, self.theorem.assumptions, fixed)
        return replace(outcome, seconds=time.perf_counter() - start)

    def _keep(self, certificate: Certificate, context: Context) -> None:
        """Let the checker decide, and remember what it proved."""
        try:
            lemma = check(certificate, context)
        except Rejected as fault:
            raise ProverFault(f"{self.theorem.name}, {certificate.goal.name}: {fault}") from fault
        self.lemmas[certificate.goal.name] = lemma

    def _second_try(
        self, outcome: Outcome, assumptions: Sequence[Assumption], fixed: Mapping[str, int] | None
    ) -> Outcome:
        found = refute(outcome.claim, assumptions, fixed, draws=6)
        if found is None:
            return outcome
        return replace(outcome, verdict=Verdict.REFUTED, counterexample=found, detail="")

    def _recheck(self, outcome: Outcome) -> Outcome:
        """Confront a proved claim with SymPy at explicit sizes; an abstention is kept with its reason."""
        from mha_sym.proof.witness import recheck  # SymPy forms are built only when asked for

        result = recheck(self.theorem, outcome.claim)
        if result.agrees is False:
            name = f"{self.theorem.name}, {outcome.claim.name}"
            raise ProverFault(f"{name}: proved, but SymPy denies it: {result.detail}")
        if result.agrees is None:
            return replace(outcome, detail=f"not confirmed at explicit sizes: {result.detail}")
        return replace(outcome, rechecked=tuple(result.sizes))


def prove(theorem: Theorem, recheck: bool = True) -> Report:
    """Try every claim and every control of a theorem.

    Args:
        theorem: what to prove.
        recheck: confirm each proved claim at small explicit sizes with SymPy.

    Raises:
        ProverFault: if a certificate does not replay or another engine contradicts it; never a user's mistake.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> x = Input("x", (axis("t"),))
        >>> report = prove(Theorem("twice", "", "", (Claim("twice", x + x, x * 2),)), recheck=False)
        >>> report.verdict.value
        'proved'
    """
    start = time.perf_counter()
    prover = Prover(theorem, recheck)
    claims = tuple(prover.claim(claim) for claim in theorem.claims)
    controls = tuple(_control(theorem, control) for control in theorem.controls)
    return Report(theorem, claims, controls, time.perf_counter() - start)


def _control(theorem: Theorem, control: Control) -> Outcome:
    """A control is tried on its own: nothing that was proved may help it."""
    return Prover(replace(theorem, claims=(), controls=()), recheck=False).claim(control, control.sizes)
