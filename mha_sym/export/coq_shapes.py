"""Lemmas of an exported file about the shape of a step: a law of the kernel at the places where it is used.

Defines `Writer`, which collects lemmas, and what a step needs again and again: a variable for each part of a
term, equality up to order, grouping, numbers and bound names.  The laws themselves are proved once, in
``proofs/coq/rules.v``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from mha_sym.export.coq_terms import NotExported, Printer
from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Domain,
    Entry,
    Mul,
    Num,
    Size,
    Term,
    Var,
    flat_args,
    free,
    fresh_var,
    key,
    subst,
)

N = Domain("n", Size("?n_"))
I = Var("?i_", N)  # noqa: E741 -- the summed position of a law
REFL = "reflexivity"


def hole(name: str) -> Entry:
    """A variable of a lemma that stands for a scalar."""
    return Entry(f"?{name}", ())


def holes(stem: str, count: int) -> tuple[Entry, ...]:
    """``x0, x1, ...``."""
    return tuple(hole(f"{stem}{n}") for n in range(count))


def family(name: str) -> Entry:
    """A variable of a lemma that stands for a scalar at each summed position."""
    return Entry(f"?{name}", (I,))


def plain(args: Sequence[Entry]) -> str:
    """The names of variables as a list of Coq."""
    return "[:: " + "; ".join(a.name[1:] for a in args) + "]" if args else "[::]"


def tactic(*parts: str) -> str:
    """Tactics one after the other."""
    return "; ".join(p for p in parts if p)


def branches(first: str, inner: Sequence[str]) -> str:
    """A tactic, and one for each goal that it leaves."""
    return f"{first}; [{' | '.join(inner)}]" if inner else first


@dataclass
class Writer:
    """Lemmas in the order in which they are needed, each shape once.

    Attributes:
        printer: how terms are written.
        lines: definitions and lemmas about the tensors of the theorem.
        shape_lines: lemmas about any terms; they stand above all tensors, so that no name can clash.
        shapes: the names of the latter by their text.
        root_order: the sizes in the order of the list of their roots.
    """


    printer: Printer
    lines: list[str] = field(default_factory=list)
    shape_lines: list[str] = field(default_factory=list)
    shapes: dict[str, str] = field(default_factory=dict)
    root_order: tuple[str, ...] = ()

    def shape(self, stem: str, binders: str, hypotheses: Sequence[str], statement: str, proof: str) -> str:
        """The name of a lemma, written now unless it was before."""
        given = "".join(f"{h} -> " for h in hypotheses)
        text = f"{binders} : {given}{statement}.\nProof. {proof}. Qed."
        if f"{stem}{text}" not in self.shapes:
            name = self.printer.names.fresh(f"{stem}_shape{len(self.shapes)}")
            self.shapes[f"{stem}{text}"] = name
            self.shape_lines.append(f"Lemma {name} {text}")
        return self.shapes[f"{stem}{text}"]

    def scalars(self, *terms: Entry) -> str:
        """The binder of scalar variables."""
        names = " ".join(t.name[1:] for t in terms)
        return f"({names} : R)" if names else ""

    def families(self, *terms: Entry) -> str:
        """The binder of families of scalars."""
        names = " ".join(t.name[1:] for t in terms)
        return f"(n_ : nat) ({names} : 'I_n_ -> R)" if names else "(n_ : nat)"

    def equation(self, left: Term, right: Term) -> str:
        """``left = right``."""
        return f"{self.printer.term(left)} = {self.printer.term(right)} :> R"

    # ------------------------------------------------------------ equal terms

    def same(self, left: Term, right: Term) -> str:
        """A script that closes ``left = right`` for terms equal up to bound names, order, grouping and numbers."""
        if self.printer.term(left) == self.printer.term(right):
            return REFL
        for kind, stem in ((Mul, "product"), (Add, "sum")):
            if isinstance(left, kind) or isinstance(right, kind):
                return self._rearranged(left, right, kind, stem)
        match left, right:
            case Bind(op, var, body), Bind(other, var2, body2) if op == other:
                new = var if var.name not in free(body2) else fresh_var(var, free(body) | free(body2))
                first, second = subst(body, {var.name: new}), subst(body2, {var2.name: new})
                lemma = "in_sum" if op == "sum" else "in_greatest"
                with self.printer.entered():
                    return tactic(f"apply: {lemma} => {self.printer.enter(new.name)}", self.same(first, second))
            case Apply(name, arg), Apply(other, arg2) if name == other:
                return tactic(self.into(left), self.same(arg, arg2))
        raise NotExported(f"two terms that are not equal: {left} and {right}", where="export to Coq")

    def into(self, term: Apply) -> str:
        """The tactic that looks inside a function."""
        return "apply: in_inverse" if term.name == "inv" else f"apply: (in_function {self.printer.function(term.name)})"

    def _rearranged(self, left: Term, right: Term, kind: type[Mul] | type[Add], stem: str) -> str:
        atoms: list[Term] = []
        before = self._abstract(left, kind, atoms)
        first = len(atoms)
        after = self._abstract(right, kind, atoms)
        mates = _mates(atoms, first)
        text = [self.printer.term(atom) for atom in atoms]
        differ = {n: m for n, m in mates.items() if text[n] != text[m]}
        for number, mate in mates.items():
            if number not in differ:
                after = _renamed(after, f"?x{number}", f"?x{mate}")
        shown = [n for n in range(len(atoms)) if n not in mates or n in differ]
        lemma = self._arithmetic(stem, before, after, shown, differ)
        inner = [self.same(atoms[m], atoms[n]) for n, m in differ.items()]
        return branches(f"apply: {lemma}", inner) if inner else f"exact: {lemma}"

    def _abstract(self, term: Term, kind: type[Mul] | type[Add], atoms: list[Term]) -> Term:
        """The same sum or product with variables for all that is not a number or a power of a size."""
        if isinstance(term, kind):
            return kind(tuple(self._abstract(arg, kind, atoms) for arg in term.args))
        if isinstance(term, Num) or (isinstance(term, Size) and kind is Mul):
            return term
        atoms.append(term)
        return hole(f"x{len(atoms) - 1}")

    def _arithmetic(self, stem: str, before: Term, after: Term, shown: list[int], differ: dict[int, int]) -> str:
        """A lemma that two sums or products of variables are equal; ``differ`` pairs variables assumed equal."""
        listed = "; ".join(
            f"x{n}" if n in shown and n not in differ else "0" for n in range(max(shown, default=-1) + 1)
        )
        merged = after
        for number, mate in differ.items():
            merged = _renamed(merged, f"?x{number}", f"?x{mate}")
        powers = stem == "product" and any(isinstance(a, Size) for t in (before, after) for a in flat_args(t))
        arguments = [f"[:: {listed}]" if listed else "[::]", "size_roots" if powers else "[::]"]
        if stem == "product":
            arguments.append("size_roots0" if powers else "isT")
        law = f"@arithmetic_{stem} R {' '.join(arguments)} {self._tree(before)} {self._tree(merged)} isT"
        moves = f"move=> {' '.join(['<-'] * len(differ))}" if differ else ""
        proof = tactic(moves, self._whole_powers() if powers else "", f"exact: ({law})")
        hypotheses = [f"x{m} = x{n}" for n, m in differ.items()]
        binders = self.scalars(*(hole(f"x{n}") for n in shown))
        return self.shape(stem, binders, hypotheses, self.equation(before, after), proof)

    def _whole_powers(self) -> str:
        """A size is a power of its root."""
        known = [f"-?{self.root_law(name)}" for name in self.root_order if self.printer.roots[name] > 1]
        return f"rewrite {' '.join(known)}" if known else ""

    def root_law(self, name: str) -> str:
        """The hypothesis that a power of the root is the size."""
        return self.printer.names.of("hypothesis", f"{self.printer.root(name)}_power")

    def _tree(self, term: Term) -> str:
        match term:
            case Mul(args) | Add(args):
                texts = [self._tree(arg) for arg in args]
                if not texts:
                    return "Unit"
                text = texts.pop()
                while texts:
                    text = f"(Node {texts.pop()} {text})"
                return text
            case Num(value):
                minus = str(value < 0).lower()
                return f"(Leaf (Number {minus} {abs(value.numerator)}%num {value.denominator}%num))"
            case Size(name, power):
                return f"(Leaf (Power {self._power(name, power)}))"
            case Entry(name, _):
                return f"(Leaf (Any {name[2:]}))"
        raise NotExported(f"no leaf: {term}", where="export to Coq")

    def _power(self, name: str, power: Fraction) -> str:
        degree = self.printer.roots[name]
        whole = power.denominator == 1
        exponent = int(power if whole else power * degree)
        return f"{self.root_order.index(name)} {degree if whole else 1} ({_integer(exponent)})"


def _integer(value: int) -> str:
    return f"Posz {value}" if value >= 0 else f"Negz {-value - 1}"


def _mates(atoms: Sequence[Term], first: int) -> dict[int, int]:
    """For each atom from ``first`` on, an equal one before, each used once, as far as there are any."""
    found: dict[int, int] = {}
    keys = [key(atom) for atom in atoms]
    for number in range(first, len(atoms)):
        free_ones = [n for n in range(first) if keys[n] == keys[number] and n not in found.values()]
        if free_ones:
            found[number] = free_ones[0]
    return found


def _renamed(term: Term, old: str, new: str) -> Term:
    match term:
        case Mul(args):
            return Mul(tuple(_renamed(a, old, new) for a in args))
        case Add(args):
            return Add(tuple(_renamed(a, old, new) for a in args))
        case Entry(name, _) if name == old:
            return Entry(new, ())
    return term
