"""Trusted: replays a certificate; the only way in which an equation becomes proved.

A certificate turns both sides of a goal, step by step, into the same term.  Nothing but `rules` decides
whether a step is right, and nothing but equality up to bound names and order ends a proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from mha_sym.proof.rules import RULES, Context
from mha_sym.proof.rules import Goal as Goal
from mha_sym.proof.scope import Scope, check_domain, check_term, need, scope_of
from mha_sym.proof.terms import Term, TermError, at_path, equal, put_path


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a rule: its name, the place as child numbers from the root, its arguments."""

    rule: str
    path: tuple[int, ...]
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Certificate:
    """A goal and the steps that bring each of its sides to a common term."""

    goal: Goal
    left: tuple[Step, ...]
    right: tuple[Step, ...]


class Rejected(Exception):
    """A certificate that does not replay: the step, and why."""


def apply_step(term: Term, step: Step, context: Context) -> Term:
    """The term after one step.

    Raises:
        Rejected: if the rule is unknown or does not apply there.
    """
    try:
        return put_path(term, step.path, RULES[step.rule](at_path(term, step.path), context, **step.args))
    except (TermError, TypeError, ValueError, LookupError) as fault:
        raise Rejected(f"{step.rule} at {step.path}: {fault}") from fault


def replay(term: Term, steps: Iterable[Step], context: Context, scope: Scope) -> Term:
    """The term after all steps; ``scope`` are the domains of its variables."""
    for step in steps:
        term = apply_step(term, step, context)
        if step.rule == "lemma" and step.args["at"]:  # the only rule that may bring positions along
            check_term(term, scope, context.bijections, {}, step.path)
    return term


def check(certificate: Certificate, context: Context) -> Goal:
    """The equation as a lemma, if the certificate proves it.

    Raises:
        Rejected: if the goal or the context says nothing, a step does not apply, or the two ends differ.
    """
    return check_all((certificate,), context)[certificate.goal.name]


def check_all(certificates: Iterable[Certificate], context: Context) -> dict[str, Goal]:
    """Check goals in order; each proved one may be used as a lemma by those after it.

    Raises:
        Rejected: as `check` does, for the first that is not right.
    """
    proved: dict[str, Goal] = {}
    name = "what is taken for granted"
    try:
        check_context(context)
        for certificate in certificates:
            name, known = certificate.goal.name, replace(context, lemmas={**context.lemmas, **proved})
            proved[name] = _prove(certificate, known)
    except (TermError, ValueError) as fault:
        raise Rejected(f"{name}: {fault}") from fault
    return proved


def _prove(certificate: Certificate, context: Context) -> Goal:
    goal, ends = certificate.goal, []
    for term, steps in ((goal.left, certificate.left), (goal.right, certificate.right)):
        check_term(term, scope_of(goal.variables), context.bijections, lengths(context))
        ends.append(replay(term, steps, context, scope_of(goal.variables)))
    if not equal(*ends):
        raise Rejected("the two sides end in different terms")
    return goal


def check_context(context: Context) -> None:
    """Refuse definitions that rest on themselves or on variables of others, and names that are two things."""
    known = lengths(context) | dict.fromkeys(context.definitions, -1)
    names = [*context.definitions, *context.booleans, *context.tables]
    need(len(set(names)) == len(names), "one name")
    for name, definition in context.definitions.items():
        check_term(definition.body, scope_of(definition.params), context.bijections, known)
        known[name] = len(definition.params)
    for variables, term in context.positive:
        check_term(term, scope_of(variables), context.bijections, known)
    for domain in context.bijections.values():
        check_domain(domain)


def lengths(context: Context) -> dict[str, int]:
    """How many positions the entries of each table and each defined tensor have."""
    tables = {name: len(place) for name, table in context.tables.items() for place in table}
    return tables | {name: len(one.params) for name, one in context.definitions.items()}
