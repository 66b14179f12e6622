"""A certificate as a reader's chain: left side = ... = right side, with the reason of each link.

Defines `Line`, `Chain` and `chain`.  Every line is a term that the replay passes through; steps that a
reader would skip are merged into the line before, repeated uses of one law into one line.  Nothing is
proved here, and nothing printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mha_sym.proof.cards import CARDS
from mha_sym.proof.checker import Certificate, Goal, Step, apply_step
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Entry, Term, at_path, key


@dataclass(frozen=True)
class Line:
    """A term, and why it equals the one before: the law, and what was opened or used.

    ``name`` is the tensor whose definition was opened, or the claim that was used; ``reason`` is in words.
    """

    term: Term
    rule: str = ""
    name: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Chain:
    """A goal and the lines from its left to its right side."""

    goal: Goal
    lines: tuple[Line, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """The laws used, in order of first use."""
        return tuple(dict.fromkeys(line.rule for line in self.lines if line.rule))


def chain(certificate: Certificate, context: Context, reasons: Mapping[str, str] | None = None) -> Chain:
    """The chain of a certificate; ``reasons`` says in words why a name may be replaced by its definition."""
    goal = certificate.goal
    down = _lines(goal.left, certificate.left, context, reasons or {})
    up = _lines(goal.right, certificate.right, context, reasons or {})
    lines = list(down)
    for before, line in zip(reversed(up[:-1]), reversed(up[1:]), strict=True):
        lines.append(Line(before.term, line.rule, line.name, line.reason))
    kept = lines[:1]
    for line in lines[1:]:
        if key(line.term) == key(kept[-1].term):
            continue
        kept.append(line)
    if len(kept) == 1:
        kept.append(Line(goal.right, "arithmetic", "", "the same entry"))
    return Chain(goal, tuple(kept))


def _lines(term: Term, steps: Sequence[Step], context: Context, reasons: Mapping[str, str]) -> list[Line]:
    lines = [Line(term)]
    before = term
    for step, after in _replayed(term, steps, context):
        name = _name(step, before)
        before = after
        previous = lines[-1]
        if (CARDS[step.rule].silent and len(lines) > 1) or (previous.rule == step.rule and previous.name == name):
            lines[-1] = Line(after, previous.rule, previous.name, previous.reason)
        else:
            lines.append(Line(after, step.rule, name, _reason(step.rule, name, reasons)))
    return lines


def _reason(rule: str, name: str, reasons: Mapping[str, str]) -> str:
    return reasons[name] if rule == "unfold" and name in reasons else CARDS[rule].reason


def _replayed(term: Term, steps: Iterable[Step], context: Context) -> Iterable[tuple[Step, Term]]:
    for step in steps:
        term = apply_step(term, step, context)
        yield step, term


def _name(step: Step, before: Term) -> str:
    """The tensor that is opened, or the claim that is used."""
    if step.rule == "lemma":
        return str(step.args["name"])
    place = at_path(before, step.path)
    return place.name if isinstance(place, Entry) else ""
