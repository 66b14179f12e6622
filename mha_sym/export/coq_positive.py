"""Scripts that a term is positive, along the same cases as the kernel's `is_positive`.

Defines `positive`.  Coq decides whether they prove it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mha_sym.export.coq_shapes import I, Writer, branches, tactic
from mha_sym.export.coq_terms import NotExported, numeral
from mha_sym.proof.rules import Context, hypothesis, is_bracket, is_positive, product
from mha_sym.proof.terms import Add, Apply, Bind, Cmp, Domain, Entry, Mul, Num, Size, Term, flat_args, key, sum_over

Given = Sequence[tuple[int, tuple[Any, ...]]]


def positive(writer: Writer, context: Context, term: Term, given: Given) -> str:
    """A script for ``0 < term``, perhaps by assumptions ``given``."""
    known = _known(writer, context, term, given)
    if known:
        return known
    match term:
        case Num(value):
            over = "exact: ltr01" if value.numerator == 1 else f"exact: {_number(value.numerator)}"
            under = f"apply: positive_inverse; exact: {_number(value.denominator)}"
            return over if value.denominator == 1 else f"apply: positive_product; [{over} | {under}]"
        case Size(name, power):
            return _power(writer, name, power)
        case Apply("exp", _):
            return "exact: exp_positive"
        case Apply("inv", arg):
            return tactic("apply: positive_inverse", positive(writer, context, arg, given))
        case Add(args) | Mul(args) if args:
            law = "positive_addition" if isinstance(term, Add) else "positive_product"
            script = positive(writer, context, args[-1], given)
            for arg in reversed(args[:-1]):
                script = branches(f"apply: {law}", [positive(writer, context, arg, given), script])
            return script
        case Bind("sum", var, body):
            keys = frozenset(key(hypothesis(context, *one)) for one in given)
            if is_positive(body, context, keys):
                with writer.printer.entered():
                    name = writer.printer.enter(var.name)
                    start = f"apply: (positive_sum {nonempty(writer, var.domain)}) => {name}"
                    return tactic(start, positive(writer, context, body, given))
            return _row(writer, context, term, given)
    raise NotExported(f"no proof that this is positive: {term}", where="export to Coq")


def _known(writer: Writer, context: Context, term: Term, given: Given) -> str:
    """By an assumption."""
    for number, at in given:
        assumed = hypothesis(context, number, at)
        if key(assumed) != key(term):
            continue
        variables = context.positive[number][0]
        places = [writer.printer.index(i, v.domain) for i, v in zip(at, variables, strict=True)]
        law = " ".join([writer.printer.names.of("assumption", f"assumed{number}"), *places])
        if writer.printer.term(assumed) == writer.printer.term(term):
            return f"exact: ({law})"
        return f"apply: (positive_same _ ({law})); {writer.same(term, assumed)}"
    return ""


def _number(number: int) -> str:
    """The law by which a number is positive, as it is written."""
    return "positive_number" if numeral(number).isdigit() else "(positive_binary R _)"


def _power(writer: Writer, name: str, power: Any) -> str:
    printer = writer.printer
    if power.denominator == 1:
        law = (
            "positive_number"
            if name.isdigit()
            else f"(positive_size R {printer.names.of('hypothesis', f'{name}_gt0')})"
        )
    else:
        law = printer.names.of("hypothesis", f"{printer.root(name)}_gt0")
        power *= printer.roots[name]
    inverse = "apply: positive_inverse" if power < 0 else ""
    return tactic(inverse, "apply: positive_power" if abs(power) != 1 else "", f"exact: {law}")


def nonempty(writer: Writer, domain: Domain) -> str:
    """A proof that a domain has a position."""
    inner = domain.factors or domain.blocks
    if inner:
        proof = nonempty(writer, inner[-1])
        for one in reversed(inner[:-1]):
            first = nonempty(writer, one)
            rest = f"(positive_pair {first} {proof})" if domain.factors else f"(positive_joined _ {first})"
            proof = rest
        return proof
    return _counted(writer, domain.size)


def _counted(writer: Writer, size: Term) -> str:
    match size:
        case Num(value):
            return f"(below (i := 0%num) (n := {value}%num) isT)" if value >= 100 else "isT"
        case Size(name, power) if power == 1:
            return writer.printer.names.of("hypothesis", f"{name}_gt0")
        case Mul(args):
            ordered = sorted(args, key=key)
            proof = _counted(writer, ordered[-1])
            for one in reversed(ordered[:-1]):
                proof = f"(positive_pair {_counted(writer, one)} {proof})"
            return proof
    raise NotExported(f"no proof that a domain of size {size} has a position", where="export to Coq")


def _row(writer: Writer, context: Context, term: Bind, given: Given) -> str:
    """A sum of brackets times positive factors with a bracket that is 1 somewhere."""
    args = flat_args(term.body, Mul)
    brackets = [a for a in args if is_bracket(a, context)]
    others = [a for a in args if not is_bracket(a, context)]
    known = _known(writer, context, sum_over(term.var, product(brackets)), given)
    law = _row_shape(writer, [is_bracket(a, context) for a in args], bool(known))
    with writer.printer.entered():
        var = writer.printer.enter(term.var.name)
        inner = [f"move=> {var}; {positive(writer, context, a, given)}" for a in others]
    if known:
        return branches(f"apply: {law}", [known, *inner])
    truths = " ".join(f"(fun {writer.printer.binder(term.var)} => {_truth(writer, b)})" for b in brackets)
    place = f"{'_ ' * len(others)}{nonempty(writer, term.var.domain)}"
    start = f"apply: (@{law} {writer.printer.count(term.var.domain)} {truths} {place})"
    return branches(start, ["by rewrite ?leq0n ?leqnn ?leq_addl ?eqxx", *inner])


def _truth(writer: Writer, bracket: Term) -> str:
    if isinstance(bracket, Cmp):
        return writer.printer.bracket(bracket)
    assert isinstance(bracket, Entry)
    return writer.printer.entry(bracket)


def _row_shape(writer: Writer, is_bracket: Sequence[bool], known: bool) -> str:
    """The law at the places of the brackets: they are assumed to be 1 somewhere, or are 1 at the first position."""
    held = [Entry(f"!K{n}" if bracket else f"?F{n}", (I,)) for n, bracket in enumerate(is_bracket)]
    keep = [h for h, bracket in zip(held, is_bracket, strict=True) if bracket]
    rest = [h for h, bracket in zip(held, is_bracket, strict=True) if not bracket]
    body = Mul(tuple(held))
    binders = f"(n_ : nat) ({' '.join(k.name[1:] for k in keep)} : 'I_n_ -> bool)"
    binders += f" ({' '.join(r.name[1:] for r in rest)} : 'I_n_ -> R)" if rest else ""
    row = f"0 < {writer.printer.term(sum_over(I, product(keep)))} :> R"
    if not known:
        binders += " (n0 : (0 < n_)%N)"
        row = " && ".join(f"K{h.name[2:]} (Ordinal n0)" for h in keep)
    hypotheses = [row, *(f"(forall i_ : 'I_n_, 0 < {r.name[1:]} i_ :> R)" for r in rest)]
    statement = f"0 < {writer.printer.term(sum_over(I, body))} :> R"
    proof = _row_proof(writer, body, keep, rest, known)
    return writer.shape("positive_row", binders, hypotheses, statement, proof)


def _row_proof(writer: Writer, body: Term, keep: Sequence[Entry], rest: Sequence[Entry], known: bool) -> str:
    weights, kept = writer.printer.term(product(rest)), " && ".join(f"K{h.name[2:]} i_" for h in keep)
    order = writer.same(body, Mul((product(keep), product(rest))))
    law = "positive_row" if known else "positive_first"
    law += f" (K := fun i_ : 'I_n_ => {kept}) (F := fun i_ : 'I_n_ => {weights})"
    ready = "exact: row"
    if known and len(keep) > 1:
        ready = "apply: (positive_same _ row); apply: in_sum => i_; rewrite ?both; reflexivity"
    use = f"apply: ({law}{'' if known else ' (n0 := n0)'}); [{ready} | move=> i_; {_all_positive(rest)}]"
    names = " ".join(["row", *(f"P{n}" for n in range(len(rest)))])
    start = f"move=> {names}; apply: (positive_same (y := \\sum_(i_ < n_) ({kept})%:R * {weights}))"
    return branches(start, [f"apply: in_sum => i_; rewrite ?both; {order}", use])


def _all_positive(rest: Sequence[Entry]) -> str:
    """The product of the weights is positive since each is."""
    script = f"exact: P{len(rest) - 1}" if rest else "exact: ltr01"
    for number in reversed(range(len(rest) - 1)):
        script = f"apply: positive_product; [exact: P{number} | {script}]"
    return script
