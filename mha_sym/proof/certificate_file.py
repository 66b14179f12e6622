"""Certificates as files: what a theorem states, written down with its steps so that others can check them.

Defines `write` for a report of `mha_sym.proof.prover`, `read`, `statement`, which states a theorem without proving it,
and `difference`, which compares two statements.  The format is described in `mha_sym.proof.schema`; rechecking a
file is in `mha_sym.proof.recheck`, which needs nothing of this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from mha_sym.errors import TheoremProblem
from mha_sym.proof import schema
from mha_sym.proof.checker import Certificate, Step
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.reader import digest, read
from mha_sym.proof.rules import Context
from mha_sym.proof.schema import Assumed, Document, Node, Statement
from mha_sym.proof.theorem import Report, Theorem, Verdict

__all__ = ["difference", "document", "dump", "read", "statement", "write"]

#: arguments of rules that a step may leave out
_DEFAULTS: dict[str, Any] = {"back": False, "given": ()}


def write(report: Report) -> str:
    """The certificate of a theorem that was proved, as the text of a file.

    Raises:
        TheoremProblem: if the theorem was not proved.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> from mha_sym.proof.prover import prove
        >>> from mha_sym.proof.theorem import Claim
        >>> x = Input("x", (axis("t"),))
        >>> report = prove(Theorem("twice", "", "", (Claim("twice", x + x, x * 2),)), recheck=False)
        >>> read(write(report)).statement == statement(report.theorem)
        True
    """
    return dump(document(report))


def document(report: Report) -> Document:
    """What the file of a proved theorem holds.

    Raises:
        TheoremProblem: if the theorem was not proved.
    """
    if report.verdict is not Verdict.PROVED:
        raise TheoremProblem(
            f"{report.theorem.name} has no certificate", expected="a theorem that is proved", got=report.verdict.value
        )
    certificates: tuple[Certificate, ...] = tuple(c for outcome in report.claims for c in outcome.certificates)
    return Document(statement(report.theorem), certificates)


def statement(theorem: Theorem) -> Statement:
    """What a theorem says, goal by goal, with what it takes for granted; nothing is proved."""
    meaning = Meaning()
    assumptions = []
    for one in theorem.assumptions:
        before = len(meaning.positive)
        if one.positive is not None:
            meaning.assume_positive(one.positive)
        assumptions.append(Assumed(one.words, tuple(meaning.positive[before:])))
    stated = tuple(goal for claim in theorem.claims for goal in goals(meaning, claim.name, claim.left, claim.right))
    return Statement(theorem.name, theorem.title, theorem.words, tuple(assumptions), meaning.context(), stated)


def difference(one: Statement, other: Statement) -> str:
    """Where two statements first differ, in a few words; empty if nowhere.

    Names of variables and the order of factors count: whoever changed them did not write the same statement.
    """
    for part in ("name", "title", "words"):
        if getattr(one, part) != getattr(other, part):
            return f"the {part} of the theorem"
    if one.assumptions != other.assumptions:
        return "the assumptions"
    for row in fields(Context):
        if getattr(one.context, row.name) != getattr(other.context, row.name):
            return f"the {row.name}"
    for left, right in zip(one.goals, other.goals, strict=False):
        if left != right:
            return f"goal {left.name}" if left.name == right.name else f"goal {left.name} for {right.name}"
    return "" if len(one.goals) == len(other.goals) else "the number of goals"


# ---------------------------------------------------------------- writing


def dump(found: Document) -> str:
    """The text of a file, one node or step a line; the same text for the same document."""
    first, rest = {"format": schema.FORMAT, "version": schema.VERSION}, _Table().members(found)
    return "\n".join(_lines({**first, "sha256": digest({**first, **rest}), **rest})) + "\n"


class _Table:
    """The distinct nodes of terms in a list, children before parents."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._by_row: dict[str, int] = {}
        self._by_id: dict[int, tuple[int, Node]] = {}  # the node is kept, so that its id stays its own

    def number(self, node: Node) -> int:
        """The number of a node's row, a new one if there is none like it."""
        if id(node) in self._by_id:
            return self._by_id[id(node)][0]
        kind = _KINDS[type(node)]
        row = [kind]
        for name, holds in schema.NODES[kind][1].items():
            row.append(self.plain(holds, getattr(node, name)))
        number = self._by_row.setdefault(json.dumps(row), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        self._by_id[id(node)] = (number, node)
        return number

    def plain(self, holds: str, value: Any) -> Any:
        """A field or argument as JSON."""
        if holds in schema.SORTS:
            return self.number(value)
        if holds in schema.PLURALS:
            return [self.number(node) for node in value]
        if holds == "instances":
            return [[number, self.plain("indices", at)] for number, at in value]
        if holds == "choices":
            return [list(numbers) for numbers in value]
        return str(value) if isinstance(value, Fraction) else list(value) if isinstance(value, tuple) else value

    def members(self, found: Document) -> dict[str, Any]:
        """All members but format, version and digest."""
        stated = found.statement
        assumptions = [
            {"words": one.words, "positive": [self._assumed(*pair) for pair in one.positive]}
            for one in stated.assumptions
        ]
        theorem = {"name": stated.name, "title": stated.title, "words": stated.words, "assumptions": assumptions}
        context = self._context(stated.context)
        goals_ = [
            self._goal(goal, certificate) for goal, certificate in zip(stated.goals, found.certificates, strict=True)
        ]
        return {"theorem": theorem, "nodes": self.rows, "context": context, "goals": goals_}

    def _assumed(self, variables: Iterable[Node], term: Node) -> dict[str, Any]:
        return {"variables": self.plain("indices", variables), "term": self.number(term)}

    def _context(self, context: Context) -> dict[str, Any]:
        return {
            "definitions": {
                name: {"params": self.plain("indices", one.params), "body": self.number(one.body)}
                for name, one in context.definitions.items()
            },
            "booleans": sorted(context.booleans),
            "tables": {
                name: [[list(place), str(value)] for place, value in cells.items()]
                for name, cells in context.tables.items()
            },
            "bijections": {name: self.number(domain) for name, domain in context.bijections.items()},
        }

    def _goal(self, goal: Any, certificate: Certificate) -> dict[str, Any]:
        if goal != certificate.goal:
            raise ValueError(f"the certificate of {goal.name} is one of another goal")
        return {
            "name": goal.name,
            "variables": self.plain("indices", goal.variables),
            "left": self.number(goal.left),
            "right": self.number(goal.right),
            "left_steps": [self._step(step) for step in certificate.left],
            "right_steps": [self._step(step) for step in certificate.right],
        }

    def _step(self, step: Step) -> list[Any]:
        args = {**{name: _DEFAULTS[name] for name in schema.ARGUMENTS[step.rule] if name in _DEFAULTS}, **step.args}
        return [
            step.rule,
            list(step.path),
            {name: self.plain(holds, args[name]) for name, holds in schema.ARGUMENTS[step.rule].items()},
        ]


_KINDS = {make: kind for kind, (make, _) in schema.NODES.items()}
#: members whose items stand on lines of their own
_OPEN = {
    "theorem", "assumptions", "nodes", "context", "definitions", "goals", "goal", "left_steps", "right_steps",
}  # fmt: skip


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """JSON on several lines: the large objects and lists opened, all else on one line."""
    if isinstance(value, Mapping) and (not name or name in _OPEN) and value:
        yield from _block("{", "}", [(_quoted(key) + ": ", _lines(item, key)) for key, item in value.items()])
    elif isinstance(value, list) and name in _OPEN and value:
        inner = "goal" if name == "goals" else "item"
        yield from _block("[", "]", [("", _lines(item, inner)) for item in value])
    else:
        yield _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _block(start: str, end: str, items: list[tuple[str, Iterator[str]]]) -> Iterator[str]:
    yield start
    for number, (label, lines) in enumerate(items):
        rows = list(lines)
        rows[0] = label + rows[0]
        rows[-1] += "," if number + 1 < len(items) else ""
        yield from (" " + row for row in rows)
    yield end
