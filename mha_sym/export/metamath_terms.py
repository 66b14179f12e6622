"""Kernel terms as expressions of Metamath, and proofs as trees that share what they repeat.

Defines `Tree`, of which there is one object for each expression or proof, and `Syntax`, which makes them, knows how
each is written, and declares what a file needs.  Laws are in `mha_sym.export.metamath_laws`, files in
`mha_sym.export.metamath`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Term,
    Var,
    domain_key,
)

#: the kinds of expressions, in the order in which a proof names them: numbers, positions, bound variables
KINDS = ("real", "pos", "var")
LETTERS = {"real": "R", "pos": "P", "var": "V"}


class Tree:
    """An axiom, hypothesis or proved statement, by its label, applied to others; made by `Syntax` only."""

    __slots__ = ("kids", "label")

    def __init__(self, label: str, kids: tuple[Tree, ...]) -> None:
        self.label, self.kids = label, kids


@dataclass
class Syntax:
    """All expressions of a file.

    Attributes:
        axioms: how each kind of expression is written: its kind, and its pattern with numbers for its parts.
        variables: the variables of each kind by their labels, in the order of their declaration.
    """

    axioms: dict[str, tuple[str, tuple[str | int, ...]]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    variables: dict[str, dict[str, str]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    _trees: dict[tuple[Any, ...], Tree] = field(default_factory=dict)
    _labels: dict[tuple[str, str], str] = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict)

    # ------------------------------------------------------------ trees

    def make(self, label: str, *kids: Tree) -> Tree:
        """The one tree of a label and its parts."""
        return self._trees.setdefault((label, *map(id, kids)), Tree(label, kids))

    def variable(self, kind: str, token: str) -> Tree:
        """A variable, declared when it is first asked for."""
        label = self.label(f"f.{kind}.{token}")
        self.variables[kind].setdefault(label, token)
        return self.make(label)

    def meta(self, kind: str, number: int) -> Tree:
        """A variable of the laws."""
        return self.variable(kind, f"{LETTERS[kind]}{number}")

    def kind(self, tree: Tree) -> str:
        """Whether a tree is a number, a position or a variable."""
        if tree.label in self.axioms:
            return self.axioms[tree.label][0]
        return next(kind for kind in KINDS if tree.label in self.variables[kind])

    def node(self, label: str, kind: str, pattern: Sequence[str | int], kids: Sequence[Tree]) -> Tree:
        """An expression around parts, numbers before positions before variables; its syntax is declared once."""
        label = self.label(label)
        if label not in self.axioms:
            self.axioms[label] = kind, tuple(pattern)
            counts = dict.fromkeys(KINDS, 0)
            metas = []
            for kid in map(self.kind, kids):
                metas.append(self.meta(kid, counts[kid]))
                counts[kid] += 1
            self.lines.append(f"{label} $a {kind} {self.text(self.make(label, *metas))} $.")
        return self.make(label, *kids)

    def label(self, wanted: str) -> str:
        """A label like a text, another for each text."""
        if ("", wanted) not in self._labels:
            stem = re.sub(r"[^A-Za-z0-9.-]", "_", wanted)
            found, number = stem, 0
            while found in self._labels.values():
                found, number = f"{stem}_{number}", number + 1
            self._labels["", wanted] = found
        return self._labels["", wanted]

    def token(self, wanted: str) -> str:
        """A symbol like a text, another for each text."""
        if wanted not in self._tokens:
            stem = re.sub(r"[^!-#%-~]", "?", wanted)
            found, number = stem, 0
            while found in self._tokens.values():
                found, number = f"{stem}{number}", number + 1
            self._tokens[wanted] = found
        return self._tokens[wanted]

    def text(self, tree: Tree) -> str:
        """How an expression is written."""
        if tree.label not in self.axioms:
            return self.variables[self.kind(tree)][tree.label]
        pattern = self.axioms[tree.label][1]
        return " ".join(one if isinstance(one, str) else self.text(tree.kids[one]) for one in pattern)

    # ------------------------------------------------------------ terms

    def tree(self, term: Term, names: Mapping[str, Tree]) -> Tree:
        """A term; ``names`` are the variables in scope."""
        match term:
            case Num(value):
                return self.node(f"num.{value}", "real", (self.token(str(value)),), ())
            case Size(name, power):
                return self.node(f"size.{name}.{power}", "real", (self.token(f"|{name}|^{power}"),), ())
            case Entry(name, at):
                kids = [self.index(one, names) for one in at]
                return self._list(f"entry.{name}.{len(kids)}", "real", f"{name}[", kids, ",", "]")
            case Cmp(op, left, right, offset):
                pattern = ("[", 0, self.token(f"{'=' if op == 'eq' else '<='}{offset or ''}"), 1, "]")
                return self.node(f"cmp.{op}.{offset}", "real", pattern, [self.index(i, names) for i in (left, right)])
            case Add(args) | Mul(args):
                sign, stem = ("+", "add") if isinstance(term, Add) else ("*", "mul")
                kids = [self.tree(arg, names) for arg in args]
                start = "(" if len(kids) > 1 else f"({sign}"
                return self._list(f"{stem}.{len(kids)}", "real", start, kids, sign, ")")
            case Bind(op, var, body):
                inner = self.inside(term, names)
                kids = [self.tree(body, inner), inner[var.name]]
                return self.node(f"{op}.{domain_key(var.domain)}", "real", (op, 1, self._domain(var.domain), 0), kids)
            case Apply(name, arg):
                return self._list(f"apply.{name}", "real", f"{name}(", [self.tree(arg, names)], ",", ")")

    def inside(self, term: Term, names: Mapping[str, Tree]) -> dict[str, Tree]:
        """The variables in scope one step into a term; one that is bound again gets another name."""
        if not isinstance(term, Bind):
            return dict(names)
        token = self.token(f"{term.var.name}.")
        while self.variable("var", token) in names.values():
            token += "."
        return {**names, term.var.name: self.variable("var", token)}

    def index(self, index: Index, names: Mapping[str, Tree]) -> Tree:
        """A position."""
        match index:
            case Var(name, _):
                found = names[name]
                return found if self.kind(found) == "pos" else self.node("place", "pos", (0,), (found,))
            case At(number):
                return self.node(f"at.{number}", "pos", (f"@{number}",), ())
            case Join(domain, parts):
                kids = [self.index(one, names) for one in parts]
                start = f"<{self._domain(domain)}"
                return self._list(f"join.{domain_key(domain)}.{len(kids)}", "pos", start, kids, ",", ">")
            case Part(inner, domain, number):
                start = f"part{number}{self._domain(domain)}("
                return self._list(f"part.{number}.{domain_key(domain)}", "pos", start, [self.index(inner, names)])
            case Inj(inner, domain, number):
                start = f"in{number}{self._domain(domain)}("
                return self._list(f"inj.{number}.{domain_key(domain)}", "pos", start, [self.index(inner, names)])
            case Perm(name, inverse, inner):
                start = f"{name}{'^-1' if inverse else ''}("
                return self._list(f"perm.{name}.{inverse}", "pos", start, [self.index(inner, names)])

    def _list(
        self, label: str, kind: str, start: str, kids: Sequence[Tree], sign: str = ",", end: str = ")"
    ) -> Tree:
        pattern: list[str | int] = [self.token(start)]
        for number in range(len(kids)):
            pattern += [sign, number] if number else [number]
        return self.node(label, kind, [*pattern, end], kids)

    def _domain(self, domain: Domain) -> str:
        return self.token(f"{domain.name}:{domain_key(domain)}".replace("'", "").replace("Fraction", ""))

    # ------------------------------------------------------------ files

    def occurring(self, *trees: Tree) -> list[Tree]:
        """The variables in expressions or proofs, in the order of their declaration."""
        seen: set[int] = set()
        found: list[Tree] = []
        waiting = list(trees)
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen.add(id(one))
                waiting += one.kids
                if one.label not in self.axioms and one.label.startswith("f."):
                    found.append(one)
        order = {label: (k, n) for k, kind in enumerate(KINDS) for n, label in enumerate(self.variables[kind])}
        return sorted(found, key=lambda one: order[one.label])

    def put(self, tree: Tree, new: Mapping[Tree, Tree]) -> Tree:
        """An expression with variables replaced."""
        if tree in new or not tree.kids:
            return new.get(tree, tree)
        return self.make(tree.label, *(self.put(kid, new) for kid in tree.kids))

    def head(self) -> Iterator[str]:
        """The declarations of symbols, variables and syntax."""
        tokens = {token for kind in KINDS for token in self.variables[kind].values()}
        constants = {one for _, pattern in self.axioms.values() for one in pattern if isinstance(one, str)}
        yield f"$c {' '.join(sorted({'|-', '=', *KINDS} | constants))} $."
        yield f"$v {' '.join(sorted(tokens))} $."
        for kind in KINDS:
            yield from (f"{label} $f {kind} {token} $." for label, token in self.variables[kind].items())
        yield from self.lines


def compressed(proof: Tree, hypotheses: Sequence[Tree]) -> str:
    """A proof in the compressed format: labels in parentheses, then letters; what is used again is marked."""
    uses: dict[int, int] = {}
    waiting = [proof]
    while waiting:
        one = waiting.pop()
        uses[id(one)] = uses.get(id(one), 0) + 1
        if uses[id(one)] == 1:
            waiting += one.kids
    first = {one.label: n for n, one in enumerate(hypotheses)}
    labels: dict[str, int] = {}
    steps: list[str | int] = []
    saved: dict[int, int] = {}

    def write(one: Tree) -> None:
        if id(one) in saved:
            steps.append(-1 - saved[id(one)])  # a mark, numbered once all labels are known
            return
        for kid in one.kids:
            write(kid)
        if one.label in first:
            steps.append(first[one.label])
            return
        steps.append(len(first) + labels.setdefault(one.label, len(labels)))
        if one.kids and uses[id(one)] > 1:
            saved[id(one)] = len(saved)
            steps.append("Z")

    write(proof)
    offset = len(first) + len(labels) - 1
    letters = "".join(one if isinstance(one, str) else _letters(offset - one if one < 0 else one) for one in steps)
    lines = [letters[n : n + 100] for n in range(0, len(letters), 100)]
    return f"( {' '.join(labels)} ) {' '.join(lines)}"


def _letters(number: int) -> str:
    """A number from 0 as letters: A to T end it, U to Y go before."""
    text, number = chr(ord("A") + number % 20), number // 20
    while number:
        number -= 1
        text, number = chr(ord("U") + number % 5) + text, number // 5
    return text


def distinct(syntax: Syntax, proof: Tree) -> str:
    """That the bound variables in a proof differ from each other and do not occur in its free positions."""
    found: Iterable[Tree] = syntax.occurring(proof)
    bound = [syntax.text(one) for one in found if syntax.kind(one) == "var"]
    free = [syntax.text(one) for one in found if syntax.kind(one) != "var"]
    rows = [[*bound]] if len(bound) > 1 else []
    rows += [[one, *bound] for one in free if bound]
    return "".join(f"$d {' '.join(row)} $. " for row in rows)
