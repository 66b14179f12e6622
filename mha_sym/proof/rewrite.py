"""Search, the tools: a term rewritten step by step, the steps recorded; sums put in canonical order.

Defines `Rewriter`, which applies rules and keeps what the checker will replay, and the small questions
about terms that the search asks.  Not trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mha_sym.proof.checker import Step
from mha_sym.proof.order import nest, nest_order
from mha_sym.proof.rules import RULES, Context
from mha_sym.proof.terms import (
    Bind,
    Entry,
    Index,
    Mul,
    Num,
    Term,
    TermError,
    Var,
    at_path,
    children,
    free,
    key,
    put_path,
)

Path = tuple[int, ...]

#: a search that takes more steps is given up: no proof is worth waiting for without end
MOST_STEPS = 20_000


class TooLong(Exception):
    """A search that was given up; what it was about is undecided."""


class Rewriter:
    """Applies rules to one term; ``steps`` is what the checker will replay."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.steps: list[Step] = []

    def emit(self, rule: str, term: Term, path: Path, **args: Any) -> Term:
        """Apply a rule to a term that stands at a path, and record it."""
        if len(self.steps) >= MOST_STEPS:
            raise TooLong(f"no proof within {MOST_STEPS} steps")
        new = RULES[rule](term, self.context, **args)
        self.steps.append(Step(rule, path, args))
        return new

    def try_emit(self, rule: str, term: Term, path: Path, **args: Any) -> Term | None:
        """The same, or None where the rule does not apply."""
        try:
            return self.emit(rule, term, path, **args)
        except TermError:
            return None

    def inside(self, term: Term, path: Path, where: Path, work: Callable[[Term, Path], Term]) -> Term:
        """Work on the subterm at ``where`` below a term that stands at ``path``."""
        return put_path(term, where, work(at_path(term, where), path + where))

    def within(self, term: Term, path: Path, depth: Path, rule: str, **args: Any) -> Term:
        """Apply a rule at a path below a term that stands at a path."""
        return self.inside(term, path, depth, lambda t, p: self.emit(rule, t, p, **args))

    def flat(self, term: Term, path: Path) -> Term:
        """Nested sums or products opened and numbers combined."""
        new = RULES["arithmetic"](term, self.context)
        return term if new == term else self.emit("arithmetic", term, path)

    def separate(self, term: Term, path: Path) -> Term:
        """A nest of sums as a product of connected ones: what does not depend on an index leaves its sum."""
        if not isinstance(term, Bind) or term.op != "sum":
            return term
        body = self.separate(term.body, (*path, 0))
        if isinstance(body, Mul):
            body = self.flat(body, (*path, 0))
        term = Bind(term.op, term.var, body)
        args = body.args if isinstance(body, Mul) else (body,)
        out = tuple(n for n, a in enumerate(args) if term.var.name not in free(a))
        if not out or not isinstance(body, Mul):
            return term
        new = self.emit("factor", term, path, positions=out)
        return self.flat(new, path) if isinstance(new, Mul) else new

    def leave(self, term: Term, path: Path) -> Term:
        """Move out of one sum all factors that do not depend on its index."""
        assert isinstance(term, Bind)
        body = self.flat(term.body, (*path, 0)) if isinstance(term.body, Mul) else term.body
        term = Bind(term.op, term.var, body)
        args = body.args if isinstance(body, Mul) else (body,)
        out = tuple(n for n, a in enumerate(args) if term.var.name not in free(a))
        return self.emit("factor", term, path, positions=out) if out else term

    def arrange(self, term: Term, path: Path, order: list[str]) -> Term:
        """Exchange nested sums until they stand in an order."""
        for target, name in enumerate(order):
            names = [v.name for v in nest(term)[0]]
            for level in range(names.index(name) - 1, target - 1, -1):
                term = self.within(term, path, (0,) * level, "exchange")
        return term

    def innermost(self, term: Term, path: Path, names: list[str]) -> Term:
        """Bring the sums over some variables innermost, in their order."""
        variables, _ = nest(term)
        return self.arrange(term, path, [v.name for v in variables if v.name not in names] + names)

    def ordered(self, term: Term, path: Path, env: dict[str, str], depth: int) -> Term:
        """The same term with every nest of sums in canonical order."""
        variables, body = nest(term)
        if variables and len({v.name for v in variables}) == len(variables):
            order = nest_order(variables, body, env, depth)
            term = self.arrange(term, path, [v.name for v in order])
            env = {**env, **{v.name: f"#{depth + n}" for n, v in enumerate(order)}}
            where = (0,) * len(order)
            return self.inside(term, path, where, lambda t, p: self.ordered(t, p, env, depth + len(order)))
        if isinstance(term, Bind):
            env = {**env, term.var.name: f"#{depth}"}
            depth += 1
        for number, child in enumerate(children(term)):
            term = put_path(term, (number,), self.ordered(child, (*path, number), env, depth))
        return term


def without_number(term: Term) -> Term:
    """A monomial without its rational factor."""
    variables, body = nest(term)
    if isinstance(body, Mul):
        rest = tuple(a for a in body.args if not isinstance(a, Num))
        body = rest[0] if len(rest) == 1 else Mul(rest)
    elif isinstance(body, Num):
        body = Mul(())
    for var in reversed(variables):
        body = Bind("sum", var, body)
    return body


def mentions(term: Term, name: str) -> bool:
    """Whether a tensor of that name occurs in a term."""
    return any(e.name == name for e in entries(term))


def entries(term: Term) -> list[Entry]:
    """All entries in a term, in order."""
    if isinstance(term, Entry):
        return [term]
    return [e for child in children(term) for e in entries(child)]


def match_entry(pattern: Term, term: Entry, variables: tuple[Var, ...]) -> tuple[Index, ...] | None:
    """Positions for the variables under which an entry is an instance of a pattern, if there are any."""
    if not isinstance(pattern, Entry) or pattern.name != term.name or len(pattern.at) != len(term.at):
        return None
    found: dict[str, Index] = {}
    names = {v.name for v in variables}

    def fits(left: Index, right: Index) -> bool:
        if isinstance(left, Var) and left.name in names:
            return key(found.setdefault(left.name, right)) == key(right)
        if hasattr(left, "parts") and type(left) is type(right):
            return len(left.parts) == len(right.parts) and all(map(fits, left.parts, right.parts))  # type: ignore[union-attr]
        if hasattr(left, "index") and type(left) is type(right):
            return fits(left.index, right.index)  # type: ignore[union-attr]
        return key(left) == key(right)

    if not all(map(fits, pattern.at, term.at)) or set(found) != names:
        return None
    return tuple(found[v.name] for v in variables)


def atoms_of(term: Term) -> tuple[list[Var], Path, tuple[Term, ...]]:
    """Of a nest of sums around a product: the variables, the path to the product, its factors."""
    variables, body = nest(term)
    return variables, (0,) * len(variables), body.args if isinstance(body, Mul) else (body,)
