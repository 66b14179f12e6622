"""A verifier of Metamath databases, written from the specification: statements, scopes, distinct variables, proofs.

``verify(text)`` returns the labels that were proved, or raises `Wrong`.  It reads normal and compressed proofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

Expression = tuple[str, ...]
Pair = frozenset[str]


class Wrong(Exception):
    """A database that is not right, and where."""


@dataclass(frozen=True)
class Assertion:
    """What an axiom or a theorem says, and what it needs."""

    floating: tuple[tuple[str, str, str], ...]  # label, kind, variable
    essential: tuple[tuple[str, Expression], ...]
    distinct: frozenset[Pair]
    says: Expression


@dataclass
class Scope:
    variables: set[str] = field(default_factory=set)
    hypotheses: list[tuple[str, Expression, bool]] = field(default_factory=list)  # label, expression, floating
    distinct: set[Pair] = field(default_factory=set)


class Verifier:
    def __init__(self, text: str) -> None:
        self.words = self._words(text)
        self.constants: set[str] = set()
        self.scopes = [Scope()]
        self.labels: dict[str, Expression | Assertion] = {}
        self.proved: list[str] = []

    @staticmethod
    def _words(text: str) -> Iterator[str]:
        words = iter(text.split())
        for word in words:
            if word == "$(":
                while word != "$)":
                    word = next(words, "$)")
            else:
                yield word

    def until(self, end: str) -> Expression:
        found = []
        for word in self.words:
            if word == end:
                return tuple(found)
            found.append(word)
        raise Wrong(f"no {end}")

    @property
    def variables(self) -> set[str]:
        return set().union(*(scope.variables for scope in self.scopes))

    def run(self) -> list[str]:
        label = ""
        for word in self.words:
            match word:
                case "$c":
                    self.constants |= set(self.until("$."))
                case "$v":
                    self.scopes[-1].variables |= set(self.until("$."))
                case "${":
                    self.scopes.append(Scope())
                case "$}":
                    self.scopes.pop()
                case "$d":
                    self.scopes[-1].distinct |= {frozenset(pair) for pair in combinations(self.until("$."), 2)}
                case "$f" | "$e":
                    expression = self.until("$.")
                    self.add(label, expression)
                    self.scopes[-1].hypotheses.append((label, expression, word == "$f"))
                case "$a":
                    self.add(label, self.assertion(self.until("$.")))
                case "$p":
                    assertion = self.assertion(self.until("$="))
                    self.prove(label, assertion, self.until("$."))
                    self.add(label, assertion)
                    self.proved.append(label)
                case _:
                    label = word
        if len(self.scopes) != 1:
            raise Wrong("a scope is not closed")
        return self.proved

    def add(self, label: str, what: Expression | Assertion) -> None:
        if label in self.labels or label in self.constants | self.variables:
            raise Wrong(f"{label} twice")
        self.labels[label] = what

    def assertion(self, says: Expression) -> Assertion:
        hypotheses = [one for scope in self.scopes for one in scope.hypotheses]
        essential = tuple((label, expression) for label, expression, floating in hypotheses if not floating)
        known = self.variables
        used = {word for expression in (says, *(e for _, e in essential)) for word in expression if word in known}
        unknown = {word for word in says if word not in known | self.constants}
        if unknown:
            raise Wrong(f"unknown symbols {unknown}")
        floating = tuple((label, e[0], e[1]) for label, e, is_floating in hypotheses if is_floating and e[1] in used)
        distinct = {pair for scope in self.scopes for pair in scope.distinct if pair <= used}
        return Assertion(floating, essential, frozenset(distinct), says)

    # ------------------------------------------------------------ proofs

    def prove(self, label: str, assertion: Assertion, proof: Expression) -> None:
        allowed = {pair for scope in self.scopes for pair in scope.distinct}
        hypotheses = [one for scope in self.scopes for one, *_ in scope.hypotheses]
        stack: list[Expression] = []
        for step in self.steps(assertion, proof, stack):
            if isinstance(step, tuple):
                stack.append(step)
                continue
            what = self.labels.get(step)
            if isinstance(what, tuple) and step in hypotheses:
                stack.append(what)
            elif isinstance(what, Assertion):
                self.apply(f"{label}, {step}", what, stack, allowed)
            else:
                raise Wrong(f"{label}: no statement {step}")
        if stack != [assertion.says]:
            raise Wrong(f"{label}: the proof ends with something else")

    def steps(self, assertion: Assertion, proof: Expression, stack: list[Expression]) -> Iterator[str | Expression]:
        """Labels, and expressions that were proved before and marked."""
        if not proof or proof[0] != "(":
            yield from proof
            return
        end = proof.index(")")
        names = [label for label, *_ in assertion.floating] + [label for label, _ in assertion.essential]
        names += proof[1:end]
        marked: list[Expression] = []
        number = 0
        for letter in "".join(proof[end + 1 :]):
            if letter == "Z":
                marked.append(stack[-1])
            elif letter >= "U":
                number = number * 5 + ord(letter) - ord("U") + 1
            else:
                number, place = 0, number * 20 + ord(letter) - ord("A")
                if place - len(names) >= len(marked):
                    raise Wrong("a mark that is not there")
                yield names[place] if place < len(names) else marked[place - len(names)]

    def apply(self, where: str, what: Assertion, stack: list[Expression], allowed: set[Pair]) -> None:
        count = len(what.floating) + len(what.essential)
        if len(stack) < count:
            raise Wrong(f"{where}: too little on the stack")
        arguments = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        put: dict[str, Expression] = {}
        for (_, kind, variable), argument in zip(what.floating, arguments, strict=False):
            if argument[0] != kind:
                raise Wrong(f"{where}: {argument[0]} for {kind}")
            put[variable] = argument[1:]
        for (_, expression), argument in zip(what.essential, arguments[len(what.floating) :], strict=True):
            if self.put(expression, put) != argument:
                raise Wrong(f"{where}: a hypothesis says something else")
        known = self.variables
        for one, other in what.distinct:
            for a in known.intersection(put[one]):
                for b in known.intersection(put[other]):
                    if a == b or frozenset((a, b)) not in allowed:
                        raise Wrong(f"{where}: {a} and {b} may be one")
        stack.append(self.put(what.says, put))

    @staticmethod
    def put(expression: Expression, new: dict[str, Expression]) -> Expression:
        return tuple(word for one in expression for word in new.get(one, (one,)))


def verify(text: str) -> list[str]:
    """The labels of all that is proved.

    Raises:
        Wrong: if anything is not.
    """
    try:
        return Verifier(text).run()
    except (IndexError, ValueError, StopIteration) as fault:
        raise Wrong(f"cannot be read: {fault!r}") from fault
