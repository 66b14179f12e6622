"""A proved theorem as a file of Coq: its statement for all sizes, one lemma a step of its certificates, their chain.

Defines `coq_file`.  The file needs Debian 12's ``coq`` and ``libcoq-mathcomp-algebra`` and nothing else; it holds
a copy of ``proofs/coq/rules.v``.  Nothing is proved here: ``coqc -q -w none FILE.v`` does that, and prints what
the theorem rests on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mha_sym.export.coq_rules import script
from mha_sym.export.coq_shapes import Writer
from mha_sym.export.coq_statement import Statement, forall, preamble, statement, writer_for
from mha_sym.export.coq_terms import NotExported
from mha_sym.library import proofs_directory
from mha_sym.proof.checker import Certificate, Goal, Step, apply_step
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Entry, Term, Var
from mha_sym.proof.theorem import Report, Theorem, Verdict


@dataclass(frozen=True)
class _Side:
    """The terms that one side of a goal passes through, and the steps between them."""

    terms: tuple[Term, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Proof:
    """A goal with both sides replayed; ``words`` is the claim as a sentence."""

    words: str
    goal: Goal
    context: Context
    left: _Side
    right: _Side


def coq_file(report: Report) -> str:
    """The text of a file in which Coq checks the certificates of a theorem.

    Args:
        report: what `mha_sym.proof.prover.prove` returns for a theorem that it has proved.

    Raises:
        NotExported: if a claim is not proved, or a step or a position is of a kind that the export does not know.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> from mha_sym.proof.prover import prove
        >>> from mha_sym.proof.theorem import Claim, Theorem
        >>> x = Input("x", (axis("T"),))
        >>> text = coq_file(prove(Theorem("twice", "", "", (Claim("double", x + x, x * 2),)), recheck=False))
        >>> print(text[text.index("Theorem twice :"):].split("Proof")[0].strip())
        Theorem twice :
          (forall (T1 : 'I_T), ((x T1) + (x T1)) = ((x T1) * 2%:R) :> R).
    """
    theorem = report.theorem
    if report.verdict is not Verdict.PROVED:
        raise NotExported("only proved theorems are exported", where=theorem.name, got=report.verdict.value)
    laws = (proofs_directory() / "coq" / "rules.v").read_text(encoding="utf-8")
    proofs = tuple(_proofs(report))
    stated = statement(theorem, _passed(proofs))
    writer = writer_for(stated, laws)
    name = writer.printer.names.fresh(theorem.name)
    _name_in_order(writer, stated)
    for proof in proofs:
        _prove(writer, proof)
    end = _conclusion(writer, proofs, name)
    top = preamble(writer, stated)
    return "\n".join([laws, _title(theorem), "Section Statement.", *top, *writer.lines, end, ""])


def _name_in_order(writer: Writer, stated: Statement) -> None:
    """Give sizes and tensors their own names before positions get theirs."""
    for name in stated.symbols:
        writer.printer.size(name)
    for name in writer.printer.over:
        writer.printer.names.of("tensor", name)


def _title(theorem: Theorem) -> str:
    words = [theorem.title, theorem.words, *(a.words for a in theorem.assumptions)]
    return f"(* {_comment(' '.join(w for w in words if w))} *)"


def _comment(text: str) -> str:
    """Text that neither ends a comment of Coq nor opens a string in it."""
    return text.replace('"', "'").replace("(*", "( *").replace("*)", "* )")


def _passed(proofs: tuple[_Proof, ...]) -> Iterator[Term]:
    for proof in proofs:
        yield Entry("", proof.goal.variables)  # for the sizes of the positions that the statement speaks of
        yield from (*proof.left.terms, *proof.right.terms)


def _proofs(report: Report) -> Iterator[_Proof]:
    """The certificates in order; each goal is a lemma for those after it."""
    for outcome in report.claims:
        lemmas = dict(outcome.context.lemmas)
        for certificate in outcome.certificates:
            goal = certificate.goal
            yield _replayed(outcome.claim.words, certificate, replace(outcome.context, lemmas=lemmas))
            lemmas = {**lemmas, goal.name: goal}


def _replayed(words: str, certificate: Certificate, context: Context) -> _Proof:
    goal = certificate.goal
    left, right = _side(goal.left, certificate.left, context), _side(goal.right, certificate.right, context)
    return _Proof(words, goal, context, left, right)


def _side(term: Term, steps: tuple[Step, ...], context: Context) -> _Side:
    terms = [term]
    for step in steps:
        terms.append(apply_step(terms[-1], step, context))
    return _Side(tuple(terms), steps)


# ---------------------------------------------------------------- steps and their chain


def _prove(writer: Writer, proof: _Proof) -> None:
    """One lemma a step, then the goal as their chain."""
    goal = proof.goal
    name = writer.printer.names.of("theorem", goal.name)
    lines = _Lines(writer, name, goal.variables)
    down, back = _steps(lines, proof, proof.left, "left"), _steps(lines, proof, proof.right, "right")
    first, last = proof.left.terms[-1], proof.right.terms[-1]
    end = "reflexivity"
    if lines.of(first) != lines.of(last):
        with writer.printer.entered(*(v.name for v in goal.variables)):
            end = f"{lines.opened(first, last)}; {writer.same(first, last)}"
    chain = [f"apply: (etrans ({law}))" for law in down]
    if back:
        chain += ["apply: esym", *(f"apply: (etrans ({law}))" for law in back), "apply: esym"]
    if proof.words:
        writer.lines.append(f"(* {_comment(proof.words)} *)")
    change = f"change ({lines.of(goal.left)} = {lines.of(goal.right)} :> R)"
    writer.lines.append(f"Theorem {name}{lines.binders} : {writer.equation(goal.left, goal.right)}.")
    writer.lines.append(f"Proof. {'; '.join([change, *chain, end])}. Qed.")


@dataclass
class _Lines:
    """The terms that a proof passes through, each written once, as a definition."""

    writer: Writer
    name: str
    variables: tuple[Var, ...]
    known: dict[str, str] = field(default_factory=dict)

    @property
    def binders(self) -> str:
        """The variables of the goal, as arguments."""
        return "".join(f" {self.writer.printer.binder(v)}" for v in self.variables)

    def at(self, name: str) -> str:
        """A definition or lemma at the variables of the goal."""
        return " ".join([name, *(self.writer.printer.var(v.name) for v in self.variables)])

    def of(self, term: Term) -> str:
        """A term, by its name."""
        return self.at(self._name(term))

    def opened(self, *terms: Term) -> str:
        """The tactic that opens the names of terms."""
        return f"rewrite {' '.join(dict.fromkeys(f'/{self._name(term)}' for term in terms))}"

    def _name(self, term: Term) -> str:
        text = self.writer.printer.term(term)
        if text not in self.known:
            self.known[text] = self.writer.printer.names.fresh(f"{self.name}_line{len(self.known)}")
            self.writer.lines.append(f"Definition {self.known[text]}{self.binders} : R := {text}.")
        return self.known[text]


def _steps(lines: _Lines, proof: _Proof, side: _Side, label: str) -> list[str]:
    """A lemma for each step, and what to say to use it; a step that Coq does not see needs none."""
    writer, used = lines.writer, []
    bound = [v.name for v in lines.variables]
    for number, step in enumerate(side.steps):
        before, after = side.terms[number], side.terms[number + 1]
        if lines.of(before) == lines.of(after):
            continue
        law = writer.printer.names.fresh(f"{lines.name}_{label}{number + 1}_{step.rule}")
        text = f"{lines.opened(before, after)}; {script(writer, proof.context, bound, before, after, step)}"
        equation = f"{lines.of(before)} = {lines.of(after)}"
        writer.lines.append(f"Lemma {law}{lines.binders} : {equation}.\nProof. {text}. Qed.")
        used.append(lines.at(law))
    return used


def _conclusion(writer: Writer, proofs: tuple[_Proof, ...], name: str) -> str:
    """The theorem: all its goals together."""
    printer = writer.printer
    parts = [forall(printer, p.goal.variables, writer.equation(p.goal.left, p.goal.right)) for p in proofs]
    laws = [printer.names.of("theorem", p.goal.name) for p in proofs]
    proof = "".join(f"split; first exact: {law}.\n" for law in laws[:-1]) + f"exact: {laws[-1]}."
    statement_ = " /\\\n  ".join(parts)
    return f"\nTheorem {name} :\n  {statement_}.\nProof.\n{proof}\nQed.\nEnd Statement.\nPrint Assumptions {name}."
