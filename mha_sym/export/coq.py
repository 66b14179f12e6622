"""A proved theorem as a file of Coq: its statement for all sizes, one lemma a step of its certificates, their chain.

Defines `coq_file`.  The file needs Debian 12's ``coq`` and ``libcoq-mathcomp-algebra`` and nothing else; it holds
a copy of ``proofs/coq/rules.v``.  It proves nothing here: ``coqc FILE.v`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from mha_sym.expr import Input, Table
from mha_sym.export.coq_rules import script
from mha_sym.export.coq_shapes import Writer
from mha_sym.export.coq_terms import NotExported, Names, Printer, rational, root_degrees
from mha_sym.library import proofs_directory
from mha_sym.proof.checker import Certificate, Goal, Step, apply_step
from mha_sym.proof.meaning import Meaning, domain, goals
from mha_sym.proof.rules import Context, Lemma
from mha_sym.proof.terms import Apply, Bind, Cmp, Domain, Entry, Index, Mul, Num, Size, Term, Var, children
from mha_sym.proof.theorem import Report, Theorem, Verdict


@dataclass(frozen=True)
class _Side:
    """The terms that one side of a goal passes through, and the steps between them."""

    terms: tuple[Term, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Proof:
    """A goal with both sides replayed."""

    claim: str
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
        >>> x = Input("x", (axis("t"),))
        >>> text = coq_file(prove(Theorem("twice", "", "", (Claim("twice", x + x, x * 2),)), recheck=False))
        >>> print(text[text.index("Theorem twice :"):].split("Proof")[0].strip())
        Theorem twice :
          (forall (t1 : 'I_t), ((x t1) + (x t1)) = ((x t1) * 2%:R) :> R).
    """
    if report.verdict is not Verdict.PROVED:
        raise NotExported("only proved theorems are exported", where=report.theorem.name, got=report.verdict.value)
    proofs = tuple(_proofs(report))
    meaning = _meaning(report.theorem)
    context = meaning.context()
    writer = _writer(meaning, context, proofs)
    name = writer.printer.names.fresh(report.theorem.name)
    preamble = [*_sizes(writer, context, proofs), *_given(writer, meaning), *_defined(writer, context)]
    preamble += _assumed(writer, report.theorem, context)
    for proof in proofs:
        _prove(writer, proof)
    body = [*preamble, "", *writer.lines, "", _conclusion(writer, report.theorem, proofs, name)]
    return "\n".join([_rules(), *_title(report.theorem), "Section Statement.", *body, f"Print Assumptions {name}.", ""])


def _rules() -> str:
    path = proofs_directory() / "coq" / "rules.v"
    return path.read_text(encoding="utf-8")


def _title(theorem: Theorem) -> list[str]:
    words = [theorem.title, theorem.words, *(a.words for a in theorem.assumptions)]
    return ["", f"(* {_comment(' '.join(w for w in words if w))} *)"]


def _comment(text: str) -> str:
    """Text that neither ends a comment of Coq nor opens a string in it."""
    return text.replace('"', "'").replace("(*", "( *").replace("*)", "* )")


# ---------------------------------------------------------------- what is to be written


def _proofs(report: Report) -> Iterator[_Proof]:
    for outcome in report.claims:
        lemmas: dict[str, Lemma] = dict(outcome.context.lemmas)
        for certificate in outcome.certificates:
            goal = certificate.goal
            context = replace(outcome.context, lemmas=lemmas)
            yield _replayed(outcome.claim.words, certificate, context)
            lemmas = {**lemmas, goal.name: Lemma(goal.variables, goal.left, goal.right)}


def _replayed(words: str, certificate: Certificate, context: Context) -> _Proof:
    goal = certificate.goal
    left, right = (
        _side(term, steps, context)
        for term, steps in ((goal.left, certificate.left), (goal.right, certificate.right))
    )  # fmt: skip
    return _Proof(words, goal, context, left, right)


def _side(term: Term, steps: tuple[Step, ...], context: Context) -> _Side:
    terms = [term]
    for step in steps:
        terms.append(apply_step(terms[-1], step, context))
    return _Side(tuple(terms), steps)


def _meaning(theorem: Theorem) -> Meaning:
    """The tensors and definitions of a theorem, gathered in the order in which the prover meets them."""
    meaning = Meaning()
    for assumption in theorem.assumptions:
        if assumption.positive is not None:
            meaning.assume_positive(assumption.positive)
    for claim in theorem.claims:
        goals(meaning, claim.name, claim.left, claim.right)
    return meaning


def _every_term(context: Context, proofs: Iterable[_Proof]) -> Iterator[Term]:
    yield from (d.body for d in context.definitions.values())
    yield from (term for _, term in context.positive)
    for proof in proofs:
        yield from (*proof.left.terms, *proof.right.terms)


def _writer(meaning: Meaning, context: Context, proofs: tuple[_Proof, ...]) -> Writer:
    over: dict[str, tuple[Domain, ...]] = {
        name: tuple(map(domain, what.over)) for name, what in meaning.given.items() if isinstance(what, Input | Table)
    }
    over |= {name: tuple(v.domain for v in one.params) for name, one in context.definitions.items()}
    every = list(_every_term(context, proofs))
    counted = [Size(name) for name in _symbols(context, proofs)]
    roots = root_degrees([*every, *counted])
    printer = Printer(Names(), over, context.booleans, roots)
    return Writer(printer, root_order=tuple(sorted(roots)))


# ---------------------------------------------------------------- sizes


def _symbols(context: Context, proofs: Iterable[_Proof]) -> list[str]:
    """The symbolic sizes, as numbers of positions or as scalars."""
    found: dict[str, None] = {}

    def visit(term: Term) -> None:
        if isinstance(term, Size):
            found.setdefault(term.name)
        if isinstance(term, Bind):
            visit_domain(term.var.domain)
        for index in _places(term):
            for one in _domains(index):
                visit_domain(one)
        for child in children(term):
            visit(child)

    def visit_domain(one: Domain) -> None:
        visit(one.size)
        for inner in (*one.factors, *one.blocks):
            visit_domain(inner)

    for term in _every_term(context, proofs):
        visit(term)
    for proof in proofs:
        for var in proof.goal.variables:
            visit_domain(var.domain)
    return sorted(name for name in found if not name.isdigit())


def _places(term: Term) -> tuple[Index, ...]:
    match term:
        case Entry(_, at):
            return at
        case Cmp(_, left, right, _):
            return (left, right)
    return ()


def _domains(index: Index) -> Iterator[Domain]:
    if hasattr(index, "domain"):
        yield index.domain
    for inner in (*getattr(index, "parts", ()), *((index.index,) if hasattr(index, "index") else ())):
        yield from _domains(inner)


def _sizes(writer: Writer, context: Context, proofs: tuple[_Proof, ...]) -> list[str]:
    printer, names = writer.printer, writer.printer.names
    symbols = _symbols(context, proofs)
    lines = ["Variable R : realFieldType.", "(* sizes *)"] if symbols else ["Variable R : realFieldType."]
    for name in symbols:
        size = printer.size(name)
        lines += [f"Variable {size} : nat.", f"Hypothesis {names.of('hypothesis', f'{name}_gt0')} : (0 < {size})%N."]
    for name, degree in sorted(printer.roots.items()):
        if degree > 1:
            root, size = printer.root(name), printer.power(name, Fraction(1))
            positive = names.of("hypothesis", f"{root}_gt0")
            lines += [f"Variable {root} : R.", f"Hypothesis {positive} : 0 < {root}."]
            lines.append(f"Hypothesis {writer.root_law(name)} : {root} ^+ {degree} = {size}.")
    return [*lines, *_roots(writer)]


def _roots(writer: Writer) -> list[str]:
    """The list of the roots of sizes, none of them zero."""
    printer, names = writer.printer, writer.printer.names
    texts, proofs = [], []
    for name in writer.root_order:
        if printer.roots[name] > 1:
            texts.append(printer.root(name))
            proofs.append(names.of("hypothesis", f"{printer.root(name)}_gt0"))
        else:
            texts.append(f"{printer.size(name)}%:R")
            proofs.append("positive_number R _" if name.isdigit() else
                          f"positive_size R {names.of('hypothesis', f'{name}_gt0')}")  # fmt: skip
    proof = " ".join(f"rewrite (lt0r_neq0 ({p})) andTb;" for p in proofs)
    return [
        f"Definition size_roots : seq R := [:: {'; '.join(texts)}]." if texts else "Definition size_roots : seq R := [::].",
        "Lemma size_roots0 : all (fun r => r != 0) size_roots.",
        f"Proof. rewrite /size_roots [all _ _]/=; {proof} exact: isT. Qed.",
    ]


# ---------------------------------------------------------------- tensors, definitions, assumptions


def _given(writer: Writer, meaning: Meaning) -> list[str]:
    printer, names, lines = writer.printer, writer.printer.names, ["(* what is given *)"]
    every = [d.body for d in meaning.definitions.values()]
    functions = sorted(_functions([*every, *(t for _, t in meaning.positive)]))
    if True:
        lines += [
            "Variable exp : R -> R.",
            "Hypothesis exp_add : forall x y, exp (x + y) = exp x * exp y.",
            "Hypothesis exp_positive : forall x, 0 < exp x.",
        ]
    lines += [f"Variable {printer.function(name)} : R -> R." for name in functions if name not in ("exp", "inv")]
    for name, what in meaning.given.items():
        if isinstance(what, Input):
            types = [*map(printer.ordinal, printer.over[name]), "bool" if name in meaning.booleans else "R"]
            lines.append(f"Variable {names.of('tensor', name)} : {' -> '.join(types)}.")
        elif isinstance(what, Table):
            lines.append(_table(printer, name, what))
    for name, where in meaning.bijections.items():
        lines.append(f"Variable {names.of('bijection', name)} : 'S_{printer.count(where)}.")
    return lines


def _functions(terms: Iterable[Term]) -> set[str]:
    found: set[str] = set()
    for term in terms:
        if isinstance(term, Apply):
            found.add(term.name)
        found |= _functions(children(term))
    return found


def _table(printer: Printer, name: str, table: Table) -> str:
    variables = [Var(f"?i{n}", d) for n, d in enumerate(printer.over[name])]
    binders = "".join(f" {printer.binder(v)}" for v in variables)
    value = _cells(table.values)
    for number in range(len(variables)):
        default = "0" if number == len(variables) - 1 else "[::]"
        value = f"(nth {default} {value} i{number})"
    return f"Definition {printer.names.of('tensor', name)}{binders} : R := {value}."


def _cells(values: Any) -> str:
    if isinstance(values, tuple):
        return f"[:: {'; '.join(map(_cells, values))}]"
    return rational(Fraction(int(values.p), int(values.q)) if hasattr(values, "p") else Fraction(values))


def _defined(writer: Writer, context: Context) -> list[str]:
    """The definitions, each after those that it mentions."""
    printer, lines, done = writer.printer, ["(* definitions *)"], set[str]()

    def write(name: str) -> None:
        if name in done or name not in context.definitions:
            return
        done.add(name)
        definition = context.definitions[name]
        for inner in _mentioned(definition.body):
            write(inner)
        binders = "".join(f" {printer.binder(v)}" for v in definition.params)
        body = printer.term(definition.body)
        lines.append(f"Definition {printer.names.of('tensor', name)}{binders} : R := {body}.")

    for name in context.definitions:
        write(name)
    return lines


def _mentioned(term: Term) -> Iterator[str]:
    if isinstance(term, Entry):
        yield term.name
    for child in children(term):
        yield from _mentioned(child)


def _assumed(writer: Writer, theorem: Theorem, context: Context) -> list[str]:
    printer, lines = writer.printer, []
    for number, (variables, term) in enumerate(context.positive):
        law = printer.names.of("assumption", f"assumed{number}")
        lines.append(f"Hypothesis {law} : {_forall(printer, variables, f'0 < {printer.term(term)} :> R')}.")
    return ["(* assumptions *)", *lines] if lines else []


def _forall(printer: Printer, variables: Iterable[Var], text: str) -> str:
    binders = " ".join(printer.binder(v) for v in variables)
    return f"forall {binders}, {text}" if binders else text


# ---------------------------------------------------------------- steps and their chain


def _prove(writer: Writer, proof: _Proof) -> None:
    printer, goal = writer.printer, proof.goal
    name = printer.names.of("theorem", goal.name)
    binders = "".join(f" {printer.binder(v)}" for v in goal.variables)
    variables = " ".join(printer.var(v.name) for v in goal.variables)
    bound = [v.name for v in goal.variables]
    used: list[list[str]] = []
    for label, side in (("left", proof.left), ("right", proof.right)):
        used.append([])
        for number, step in enumerate(side.steps):
            before, after = side.terms[number], side.terms[number + 1]
            if printer.term(before) == printer.term(after):
                continue
            law = printer.names.fresh(f"{name}_{label}_{number + 1}_{step.rule}")
            text = script(writer, proof.context, bound, before, after, step)
            equation = writer.equation(before, after)
            writer.lines.append(f"Lemma {law}{binders} : {equation}.\nProof. {text}. Qed.")
            used[-1].append(f"{law} {variables}".strip())
    with printer.entered(*bound):
        end = writer.same(proof.left.terms[-1], proof.right.terms[-1])
    chain = [f"apply: (etrans ({law}))" for law in used[0]]
    chain += [f"apply: (esym (etrans ({law}) _)); apply: esym" for law in ()]
    back = _back(used[1])
    last = f"{back}; {end}" if back else end
    writer.lines.append(f"(* {_comment(proof.claim)} *)" if proof.claim else "")
    writer.lines.append(f"Theorem {name}{binders} : {writer.equation(goal.left, goal.right)}.")
    writer.lines.append(f"Proof. {'; '.join([*chain, last])}. Qed.")


def _back(laws: list[str]) -> str:
    """From the last term of the right side back to its first: what is left is that the two ends are equal."""
    if not laws:
        return ""
    return "; ".join(["apply: esym", *(f"apply: (etrans ({law}))" for law in laws), "apply: esym"])


def _conclusion(writer: Writer, theorem: Theorem, proofs: tuple[_Proof, ...], name: str) -> str:
    printer = writer.printer
    parts = [
        f"(forall {' '.join(printer.binder(v) for v in p.goal.variables)}, {writer.equation(p.goal.left, p.goal.right)})"
        if p.goal.variables else f"({writer.equation(p.goal.left, p.goal.right)})" for p in proofs
    ]  # fmt: skip
    laws = [printer.names.of("theorem", p.goal.name) for p in proofs]
    proof = f"exact: {laws[-1]}"
    for law in reversed(laws[:-1]):
        proof = f"split; first exact: {law}.\n{proof}"
    statement = " /\\\n  ".join(parts)
    return f"Theorem {name} :\n  {statement}.\nProof.\n{proof}.\nQed.\nEnd Statement."
