"""What the scripts of all rules share: the place of a step, the way to it, positions put for variables.

Defines `Place`, `descent`, `substituted`, `settle`, `shaped`, `fronted` and `moved`.  The scripts of the rules are in
`mha_sym.export.coq_sums` and `mha_sym.export.coq_brackets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mha_sym.export.coq_shapes import REFL, Writer, tactic
from mha_sym.proof.rules import RULES, Context
from mha_sym.proof.terms import Add, Apply, At, Bind, Cmp, Entry, Index, Join, Mul, Term, Var, children, subst


@dataclass(frozen=True)
class Place:
    """A term, what the step makes of it, and the step."""

    writer: Writer
    context: Context
    old: Term
    new: Term
    args: Mapping[str, Any]


def descent(writer: Writer, term: Term, path: Sequence[int]) -> str:
    """The tactics that leave what stands at a path to be proved equal."""
    found: list[str] = []
    for number in path:
        match term:
            case Mul(args) | Add(args):
                rest, one = ("in_factors", "in_factor") if isinstance(term, Mul) else ("in_addends", "in_addend")
                found += [f"apply: {rest}"] * number
                found += [f"apply: {one}"] if number < len(args) - 1 else []
            case Bind(op, var, _):
                found.append(f"apply: {'in_sum' if op == 'sum' else 'in_greatest'} => {writer.printer.enter(var.name)}")
            case Apply():
                found.append(writer.into(term))
        term = children(term)[number]
    return tactic(*found)


# ---------------------------------------------------------------- positions put for variables


def _weight(index: Index, new: Mapping[str, int]) -> int:
    """How many nodes a position has if nothing is simplified."""
    match index:
        case Var(name, _):
            return new.get(name, 1)
        case Join(_, parts):
            return 1 + sum(_weight(p, new) for p in parts)
        case At():
            return 1
    return 1 + sum(_weight(i, new) for i in (getattr(index, "index", None), *getattr(index, "parts", ())) if i)


def weight(term: Term, new: Mapping[str, int] | None = None) -> int:
    """How many nodes the positions in a term have, a variable counted as ``new`` says."""
    new = new or {}
    match term:
        case Entry(_, at):
            return sum(_weight(i, new) for i in at)
        case Cmp(_, left, right, _):
            return _weight(left, new) + _weight(right, new)
        case Bind(_, var, body):
            return weight(body, {n: w for n, w in new.items() if n != var.name})
    return sum(weight(child, new) for child in children(term))


def substituted(body: Term, new: Mapping[str, Index]) -> bool:
    """Whether putting positions for variables simplifies any."""
    return weight(subst(body, new)) != weight(body, {name: _weight(index, {}) for name, index in new.items()})


def settle(simplified: bool) -> str:
    """Close an equation that holds by computation, perhaps after the simplification of positions."""
    return "cbv beta; rewrite !positions; reflexivity" if simplified else REFL


# ---------------------------------------------------------------- shapes


def shaped(at: Place, law: str, old: Term, binders: str, proof: str, new: Term | None = None, **args: Any) -> str:
    """The law as a lemma about variables at the places of the step; the kernel's rule says what it makes of them."""
    made = RULES[law](old, at.context, **args) if new is None else new
    name = at.writer.shape(law, binders, (), at.writer.equation(old, made), proof)
    return f"exact: {name}"


def fronted(at: Place, args: Sequence[Term], positions: Sequence[int]) -> tuple[Mul, list[Term]]:
    """The product with some factors in front, and the other factors."""
    rest = [a for n, a in enumerate(args) if n not in positions]
    return Mul((*(args[n] for n in positions), *rest)), rest


def moved(writer: Writer, old: Term, new: Term, law: str) -> str:
    """First ``old = new`` by the order of factors, then the law."""
    if writer.printer.term(old) == writer.printer.term(new):
        return law
    return f"apply: (etrans (y := {writer.printer.term(new)})); [{writer.same(old, new)} | {law}]"
