"""A proved theorem as a file for any Metamath verifier: its laws as axiom schemes, its goals proved by instances.

Defines `metamath_file`.  The file needs no library.  A verifier confirms that each line of a proof follows from the
one before by one law at one place, the conditions on bound variables included, and that the lines lead from the left
side to the right.  It does not confirm that the laws are true (Coq proves them, see `mha_sym.export.coq`), that
positions lie in their axes, or that what is cancelled is positive.  Laws are stated as generally as a step allows;
those that put positions for variables, and those that two expressions are alike up to order and bound names, name what
they speak of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mha_sym.errors import Problem
from mha_sym.export.metamath_laws import law_of
from mha_sym.export.metamath_terms import Syntax, Tree, compressed, distinct
from mha_sym.proof.checker import Certificate, Step, apply_step
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Term, Var, children
from mha_sym.proof.theorem import Report, Verdict

#: equality, once and for all
LOGIC = (
    "eq.refl $a |- R0 = R0 $.",
    "${ eq.sym.e $e |- R0 = R1 $. eq.sym $a |- R1 = R0 $. $}",
    "${ eq.trans.e $e |- R0 = R1 $. eq.trans.f $e |- R1 = R2 $. eq.trans $a |- R0 = R2 $. $}",
)


class NotWritten(Problem):
    """A theorem that has no Metamath file, and why."""


@dataclass(frozen=True)
class _Equation:
    """``left = right``, and its proof."""

    left: Tree
    right: Tree
    proof: Tree


def metamath_file(report: Report) -> str:
    """The text of a Metamath database that proves the goals of a theorem.

    Args:
        report: what `mha_sym.proof.prover.prove` returns for a theorem that it has proved.

    Raises:
        NotWritten: if a claim is not proved.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> from mha_sym.proof.prover import prove
        >>> from mha_sym.proof.theorem import Claim, Theorem
        >>> x = Input("x", (axis("T"),))
        >>> text = metamath_file(prove(Theorem("twice", "", "", (Claim("double", x + x, x * 2),)), recheck=False))
        >>> print(text[text.index("goal.double"):].split("$=")[0])
        goal.double $p |- ( x[ 'T ] + x[ 'T ] ) = ( x[ 'T ] * 2 )
    """
    if report.verdict is not Verdict.PROVED:
        raise NotWritten("only proved theorems are written", where=report.theorem.name, got=report.verdict.value)
    file = _File()
    for outcome in report.claims:
        lemmas = dict(outcome.context.lemmas)
        for certificate in outcome.certificates:
            file.goal(certificate, replace(outcome.context, lemmas=lemmas))
            lemmas[certificate.goal.name] = certificate.goal
    title = re.sub(r"[^ -#%-~]", "?", f"{report.theorem.name}: {report.theorem.title}")
    return "\n".join([f"$( {title} $)", *file.syntax.head(), *LOGIC, *file.lines, ""])


@dataclass
class _File:
    """The statements of a file in order."""

    syntax: Syntax = field(default_factory=Syntax)
    lines: list[str] = field(default_factory=list)
    laws: dict[str, str] = field(default_factory=dict)
    goals: dict[str, tuple[str, tuple[Var, ...], Tree, Tree]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(3):
            self.syntax.meta("real", number)

    # ------------------------------------------------------------ goals

    def goal(self, certificate: Certificate, context: Context) -> None:
        """A goal, with its certificate as the proof."""
        goal, syntax = certificate.goal, self.syntax
        names = {v.name: syntax.variable("pos", syntax.token(f"'{v.name}")) for v in goal.variables}
        left = self._side(goal.left, certificate.left, context, names)
        right = self._side(goal.right, certificate.right, context, names)
        rows = [left]
        if left.right is not right.right:
            rows.append(self._law("alike", left.right, right.right))
        whole = self._chain([*rows, self._turned(right)])
        label, statement = syntax.label(f"goal.{goal.name}"), self._statement(whole.left, whole.right)
        proof = compressed(whole.proof, syntax.occurring(whole.left, whole.right))
        self._add(distinct(syntax, whole.proof), f"{label} $p {statement} $= {proof} $.")
        self.goals[goal.name] = label, goal.variables, whole.left, whole.right

    def _add(self, conditions: str, line: str) -> None:
        self.lines.append(f"${{ {conditions}{line} $}}" if conditions else line)

    def _statement(self, left: Tree, right: Tree) -> str:
        return f"|- {self.syntax.text(left)} = {self.syntax.text(right)}"

    def _side(self, term: Term, steps: Iterable[Step], context: Context, names: dict[str, Tree]) -> _Equation:
        """One side of a goal equals what its steps make of it."""
        tree = self.syntax.tree(term, names)
        rows = [_Equation(tree, tree, self.syntax.make("eq.refl", tree))]
        for step in steps:
            after = apply_step(term, step, context)
            row = self._step(term, after, step, step.path, names)
            if row.left is not row.right:
                rows.append(row)
            term = after
        return self._chain(rows[1:] or rows)

    # ------------------------------------------------------------ steps

    def _step(self, old: Term, new: Term, step: Step, path: tuple[int, ...], names: dict[str, Tree]) -> _Equation:
        """A step: its law where it is used, congruence from there to the root."""
        if not path:
            trees = self.syntax.tree(old, names), self.syntax.tree(new, names)
            return self._lemma(*trees, step, names) if step.rule == "lemma" else self._law(step.rule, *trees)
        number = path[0]
        inner = self._step(
            children(old)[number], children(new)[number], step, path[1:], self.syntax.inside(old, names)
        )
        return self._congruence(self.syntax.tree(old, names), number, inner)

    def _law(self, rule: str, old: Tree, new: Tree) -> _Equation:
        """An instance of a law, which is stated first if it was not before."""
        if old is new:
            return _Equation(old, new, self.syntax.make("eq.refl", old))
        law = law_of(self.syntax, rule, old, new)
        text = f"$a {self._statement(law.left, law.right)} $."
        key = f"{rule} {law.distinct}{text}"
        if key not in self.laws:
            self.laws[key] = self.syntax.label(f"law.{rule}.{len(self.laws)}")
            self._add(law.distinct, f"{self.laws[key]} {text}")
        put = [law.put[one] for one in self.syntax.occurring(law.left, law.right)]
        return _Equation(old, new, self.syntax.make(self.laws[key], *put))

    def _lemma(self, old: Tree, new: Tree, step: Step, names: dict[str, Tree]) -> _Equation:
        """What was proved before, at some positions; what it says there is alike to what the step says."""
        syntax = self.syntax
        label, variables, left, right = self.goals[step.args["name"]]
        at = [syntax.index(one, names) for one in step.args["at"]]
        put = {syntax.variable("pos", syntax.token(f"'{v.name}")): one for v, one in zip(variables, at, strict=True)}
        taken = {*syntax.occurring(*at)}
        for one in syntax.occurring(left, right):
            if one in taken and syntax.kind(one) == "var":  # a bound variable must not occur in the positions
                token = syntax.text(one)
                while syntax.variable("var", token) in taken:
                    token += "."
                put[one] = syntax.variable("var", token)
        made = syntax.make(label, *(put.get(one, one) for one in syntax.occurring(left, right)))
        found = _Equation(syntax.put(left, put), syntax.put(right, put), made)
        if step.args.get("back"):
            found = self._turned(found)
        rows = [self._law("alike", old, found.left), found, self._law("alike", found.right, new)]
        return self._chain([row for row in rows if row.left is not row.right] or rows[:1])

    def _congruence(self, tree: Tree, number: int, inner: _Equation) -> _Equation:
        """The same around both sides."""
        syntax = self.syntax
        label = syntax.label(f"in.{tree.label}.{number}")
        kids = list(tree.kids)
        kids[number] = inner.right
        new = syntax.make(tree.label, *kids)
        if label not in self.laws:
            self.laws[label] = label
            counts = dict.fromkeys(("real", "pos", "var"), 0)
            metas = []
            for kind in map(syntax.kind, tree.kids):
                metas.append(syntax.meta(kind, counts[kind]))
                counts[kind] += 1
            other = syntax.meta("real", counts["real"])
            changed = [*metas[:number], other, *metas[number + 1 :]]
            sides = syntax.make(tree.label, *metas), syntax.make(tree.label, *changed)
            given = f"{label}.e $e {self._statement(metas[number], other)} $."
            self.lines.append(f"${{ {given} {label} $a {self._statement(*sides)} $. $}}")
        reals = [kid for kid in tree.kids if syntax.kind(kid) == "real"]
        rest = [kid for kid in tree.kids if syntax.kind(kid) != "real"]
        return _Equation(tree, new, syntax.make(label, *reals, inner.right, *rest, inner.proof))

    # ------------------------------------------------------------ equality

    def _turned(self, row: _Equation) -> _Equation:
        return _Equation(row.right, row.left, self.syntax.make("eq.sym", row.left, row.right, row.proof))

    def _chain(self, rows: list[_Equation]) -> _Equation:
        """Equations one after the other as one; halved, so that no proof is deep."""
        if len(rows) == 1:
            return rows[0]
        first, last = self._chain(rows[: len(rows) // 2]), self._chain(rows[len(rows) // 2 :])
        if first.right is not last.left:
            raise NotWritten("a step does not begin where the one before ends")
        made = self.syntax.make("eq.trans", first.left, first.right, last.right, first.proof, last.proof)
        return _Equation(first.left, last.right, made)
