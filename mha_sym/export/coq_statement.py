"""The part of an exported file above its proofs: sizes, what is given, definitions, assumptions.

Defines `Statement`, which gathers what a theorem speaks of, and `preamble`, which writes it.  The proofs are in
`mha_sym.export.coq`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mha_sym.export.coq_shapes import Writer
from mha_sym.export.coq_terms import TAKEN, Names, Printer, numeral, rational, root_degrees
from mha_sym.expr import Input, Table
from mha_sym.proof.meaning import Meaning, domain, goals
from mha_sym.proof.terms import Apply, Bind, Cmp, Domain, Entry, Index, Size, Term, Var, children
from mha_sym.proof.theorem import Theorem


@dataclass(frozen=True)
class Statement:
    """What a theorem speaks of, and every term that its proofs pass through."""

    meaning: Meaning
    terms: tuple[Term, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbolic sizes, as numbers of positions or as scalars, sorted."""
        found: set[str] = set()
        for term in self.terms:
            found |= _symbols(term)
        return tuple(sorted(name for name in found if not name.isdigit()))

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of one number that are applied, but for the inverse."""
        return tuple(sorted({name for term in self.terms for name in _functions(term)} - {"inv"}))


def statement(theorem: Theorem, passed: Iterable[Term]) -> Statement:
    """What a theorem speaks of, gathered in the order in which the prover meets it."""
    meaning = Meaning()
    for assumption in theorem.assumptions:
        if assumption.positive is not None:
            meaning.assume_positive(assumption.positive)
    for claim in theorem.claims:
        goals(meaning, claim.name, claim.left, claim.right)
    bodies = [d.body for d in meaning.definitions.values()]
    return Statement(meaning, (*bodies, *(term for _, term in meaning.positive), *passed))


def writer_for(stated: Statement, laws: str) -> Writer:
    """A writer that knows the tensors; ``laws`` is the text of the laws, whose names are not to be hidden."""
    meaning = stated.meaning
    over = {
        name: tuple(map(domain, what.over)) for name, what in meaning.given.items() if isinstance(what, Input | Table)
    }
    over |= {name: tuple(v.domain for v in one.params) for name, one in meaning.definitions.items()}
    roots = root_degrees([*stated.terms, *map(Size, stated.symbols)])
    named = re.findall(r"^(?:Lemma|Definition|Fixpoint|Inductive|Section) (\w+)", laws, re.MULTILINE)
    names = Names(used={*TAKEN, *named, "Any", "Number", "Power", "Unit", "Leaf", "Node", "Fraction"})
    return Writer(Printer(names, over, frozenset(meaning.booleans), roots), root_order=tuple(sorted(roots)))


def preamble(writer: Writer, stated: Statement) -> list[str]:
    """The lines above the first step: the field, the sizes, the exponential; the tensors and assumptions.

    The lemmas about shapes stand between, where there are no tensors yet; so this is called when all are known.
    """
    top = [*_sizes(writer, stated), *_exponential(stated)]
    below = [*_given(writer, stated), *_defined(writer, stated), *_assumed(writer, stated)]
    return [*top, "(* the laws at the shapes of the steps *)", *writer.shape_lines, *below]


def forall(printer: Printer, variables: Iterable[Var], text: str) -> str:
    """``forall (t : 'I_T), text``."""
    binders = " ".join(printer.binder(v) for v in variables)
    return f"(forall {binders}, {text})" if binders else f"({text})"


# ---------------------------------------------------------------- sizes


def _symbols(term: Term) -> set[str]:
    found = {term.name} if isinstance(term, Size) else set()
    for index in _places(term):
        for one in _domains(index):
            found |= _of_domain(one)
    for child in children(term):
        found |= _symbols(child)
    return found


def _of_domain(one: Domain) -> set[str]:
    return _symbols(one.size).union(*map(_of_domain, (*one.factors, *one.blocks)))


def _places(term: Term) -> tuple[Index, ...]:
    match term:
        case Entry(_, at):
            return at
        case Cmp(_, left, right, _):
            return (left, right)
        case Bind(_, var, _):
            return (var,)
    return ()


def _domains(index: Index) -> Iterator[Domain]:
    if hasattr(index, "domain"):
        yield index.domain
    for inner in (*getattr(index, "parts", ()), *((index.index,) if hasattr(index, "index") else ())):
        yield from _domains(inner)


def _sizes(writer: Writer, stated: Statement) -> list[str]:
    printer, names = writer.printer, writer.printer.names
    lines = ["Variable R : realFieldType."]
    for name in stated.symbols:
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
            proofs.append(_positive(names, name))
    listed = f"[:: {'; '.join(texts)}]" if texts else "[::]"
    proof = " ".join(f"rewrite (lt0r_neq0 ({p})) andTb;" for p in proofs)
    return [
        f"Definition size_roots : seq R := {listed}.",
        "Lemma size_roots0 : all (fun r => r != 0) size_roots.",
        f"Proof. rewrite /size_roots [all _ _]/=; {proof} exact: isT. Qed.",
    ]


def _positive(names: Names, name: str) -> str:
    """A proof that a size is positive."""
    if not name.isdigit():
        return f"positive_size R {names.of('hypothesis', f'{name}_gt0')}"
    return "positive_number R _" if numeral(int(name)).isdigit() else "positive_binary R _"


# ---------------------------------------------------------------- tensors, definitions, assumptions


def _exponential(stated: Statement) -> list[str]:
    if "exp" not in stated.functions:
        return []
    return [
        "Variable exp : R -> R.",
        "Hypothesis exp_add : forall x y, exp (x + y) = exp x * exp y.",
        "Hypothesis exp_positive : forall x, 0 < exp x.",
    ]


def _given(writer: Writer, stated: Statement) -> list[str]:
    printer, names, meaning, lines = writer.printer, writer.printer.names, stated.meaning, ["(* what is given *)"]
    lines += [f"Variable {printer.function(name)} : R -> R." for name in stated.functions if name != "exp"]
    for name, what in meaning.given.items():
        if isinstance(what, Input):
            types = [*map(printer.ordinal, printer.over[name]), "bool" if name in meaning.booleans else "R"]
            lines.append(f"Variable {names.of('tensor', name)} : {' -> '.join(types)}.")
        elif isinstance(what, Table):
            lines.append(_table(printer, name, what))
    for name, where in meaning.bijections.items():
        lines.append(f"Variable {names.of('bijection', name)} : 'S_{printer.count(where)}.")
    return lines


def _functions(term: Term) -> set[str]:
    found = {term.name} if isinstance(term, Apply) else set()
    return found.union(*map(_functions, children(term)))


def _table(printer: Printer, name: str, table: Table) -> str:
    """A constant table as nested lists, read by the numbers of the positions."""
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


def _defined(writer: Writer, stated: Statement) -> list[str]:
    """The definitions, each after those that it mentions."""
    printer, definitions = writer.printer, stated.meaning.definitions
    lines, done = ["(* definitions *)"], set[str]()

    def write(name: str) -> None:
        if name in done or name not in definitions:
            return
        done.add(name)
        definition = definitions[name]
        for inner in _mentioned(definition.body):
            write(inner)
        binders = "".join(f" {printer.binder(v)}" for v in definition.params)
        body = printer.term(definition.body)
        lines.append(f"Definition {printer.names.of('tensor', name)}{binders} : R := {body}.")

    for name in definitions:
        write(name)
    return lines


def _mentioned(term: Term) -> Iterator[str]:
    if isinstance(term, Entry):
        yield term.name
    for child in children(term):
        yield from _mentioned(child)


def _assumed(writer: Writer, stated: Statement) -> list[str]:
    printer, lines = writer.printer, []
    for number, (variables, term) in enumerate(stated.meaning.positive):
        law = printer.names.of("assumption", f"assumed{number}")
        lines.append(f"Hypothesis {law} : {forall(printer, variables, f'0 < {printer.term(term)} :> R')}.")
    return ["(* assumptions *)", *lines] if lines else []
