"""Search: brings a term to normal form by steps of `rules`, and records them.  Not trusted.

The normal form is a sum of monomials; a monomial is a nest of sums over indices with a product of atoms
inside; an exponential holds one monomial, an inverse a connected sum.  Defines `Normaliser`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from mha_sym.proof.cancelling import cancel_in_monomial, cancel_in_sum, put_known_sum
from mha_sym.proof.monomial import LAWS, guards
from mha_sym.proof.order import canonical_key
from mha_sym.proof.rewrite import Path, Rewriter, entries, match_entry, mentions, without_number
from mha_sym.proof.rules import RULES, Context, is_bracket
from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Cmp,
    Entry,
    Mul,
    Num,
    Size,
    Term,
    Var,
    at_path,
    children,
    domain_key,
    flat_args,
    free,
    key,
    put_path,
)


class Normaliser(Rewriter):
    """Rewrites one term; ``steps`` is what the checker will replay.

    Args:
        context: what rules may rest on.
        opened: names of the defined tensors that may be unfolded.
        written_out: keys of domains of fixed size whose sums are written out position by position.
    """

    def __init__(
        self, context: Context, opened: frozenset[str], written_out: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(context)
        self.opened = opened
        self.written_out = written_out
        self._done: set[Term] = set()
        self._lemmas: dict[str, list[tuple[str, bool, Entry]]] = {}
        for name, lemma in reversed([*context.lemmas.items()]):  # what was proved last is nearest to what comes next
            back, pattern = _direction(lemma.left, lemma.right)
            if pattern is not None:
                self._lemmas.setdefault(pattern.name, []).append((name, back, pattern))

    @property
    def known(self) -> frozenset[str]:
        """Names of the tensors of which a claim that was proved says what they are."""
        return frozenset(self._lemmas)

    def run(self, term: Term) -> Term:
        """The normal form, its sums in canonical order."""
        if self._has_brackets_inside_and_out(term):
            term = self._without_brackets(term)
        return self.ordered(self.norm(term, ()), (), {}, 0)

    def norm(self, term: Term, path: Path) -> Term:
        """The normal form of a term that stands at a path."""
        if term in self._done:
            return term
        match term:
            case Entry():
                result = self._entry(term, path)
            case Cmp():
                new = self.try_emit("compare", term, path)
                result = term if new is None else self.norm(new, path)
            case Add():
                result = self._add(self._children(term, path), path)
            case Mul():
                result = self._factors(term, path)
                result = self._mul(result, path) if isinstance(result, Mul) else result
            case Bind("sum", _, _):
                result = self._sum(term, path)
            case Bind():
                result = self._children(term, path)
            case Apply("exp", _):
                result = self._exp(self._children(term, path), path)
            case Apply("inv", _):
                result = self._inv(self._children(term, path), path)
            case Apply():
                result = self._children(term, path)
            case _:
                result = term
        self._done.add(result)
        return result

    def _children(self, term: Term, path: Path) -> Term:
        for number, child in enumerate(children(term)):
            new = self.norm(child, (*path, number))
            if new is not child:
                term = put_path(term, (number,), new)
        return term

    def _factors(self, term: Mul, path: Path) -> Term:
        """The factors in normal form; an exponential that is one of an inverse, too, cancels before that is opened."""
        if not any(map(_is_inverse, term.args)):
            return self._children(term, path)
        result: Term = term
        for number, child in enumerate(term.args):
            if not _is_inverse(child):
                result = put_path(result, (number,), self.norm(child, (*path, number)))
        for number, child in enumerate(term.args):
            if isinstance(child, Apply) and _is_inverse(child) and child not in self._done:
                child = Apply("inv", self._below(child.arg, (*path, number, 0)))
                result = put_path(result, (number,), child)
                shared = _shared_exponential(child.arg, flat_args(result, Mul))
                if shared is not None:
                    result = self._without(shared, result, path, number)
                    return self._factors(result, path) if isinstance(result, Mul) else self.norm(result, path)
                result = put_path(result, (number,), self.norm(child, (*path, number)))
        return result

    def _below(self, term: Term, path: Path) -> Term:
        """What stands below an inverse, as a product where it is one."""
        term = self.norm(term, path)
        if isinstance(term, Bind):
            return self.separate(term, path)
        return self._common(term, path) if isinstance(term, Add) else term

    def _without(self, one: Term, term: Term, path: Path, number: int) -> Term:
        """A product without an exponential and its inverse, which is a factor of the inverse at a number."""
        if isinstance(at_path(term, (number, 0)), Mul):
            term = self.within(term, path, (number,), "inverse_of_product")
        term = self.flat(term, path)
        keys = list(map(key, children(term)))
        value, inverse = keys.index(key(one)), keys.index(key(Apply("inv", one)))
        return self.emit("cancel", term, path, value=value, inverse=inverse, given=())

    def _entry(self, term: Entry, path: Path) -> Term:
        new = self._opened(term, path)
        return term if new is None else self.norm(new, path)

    def _opened(self, term: Entry, path: Path) -> Term | None:
        """What an entry is by a claim that was proved, by its definition or by a table; None if it stays."""
        defined = term.name in self.context.definitions
        if defined and term.name not in self.opened:
            return None
        for name, back, pattern in self._lemmas.get(term.name, ()):
            at = match_entry(pattern, term, self.context.lemmas[name].variables)
            if at is not None:
                new = self.try_emit("lemma", term, path, name=name, at=at, back=back)
                if new is not None:
                    return new
        if defined:
            return self.emit("unfold", term, path)
        return self.try_emit("table", term, path) if term.name in self.context.tables else None

    # ------------------------------------------------------------ brackets, before anything is multiplied out

    def _without_brackets(self, term: Term) -> Term:
        """The term opened, with every bracket 1 that stands inside a product with itself; as it is if none does."""
        guarded = self._guarded(self._open(term, ()), ())
        if any(step.rule == "guard" for step in self.steps):
            return guarded
        self.steps.clear()
        return term

    def _has_brackets_inside_and_out(self, term: Term) -> bool:
        """Whether brackets are factors, and others stand in sums of terms, in what is opened."""
        waiting, known, found = [term], set[str](), set[bool]()
        for one in waiting:  # which grows
            found |= set(_brackets_in_sums(one, self.context))
            names = {entry.name for entry in entries(one)} & self.opened - known
            known |= names
            waiting += [self.context.definitions[name].body for name in names if name in self.context.definitions]
        return len(found) == 2

    def _open(self, term: Term, path: Path) -> Term:
        """The term with everything open that may be opened."""
        if isinstance(term, Entry):
            new = self._opened(term, path)
            return term if new is None else self._open(new, path)
        for number, child in enumerate(children(term)):
            term = put_path(term, (number,), self._open(child, (*path, number)))
        return term

    def _guarded(self, term: Term, path: Path) -> Term:
        """The term with every bracket 1 that stands inside a product with itself."""
        if isinstance(term, Mul) and guards(Rewriter(self.context), RULES["arithmetic"](term, self.context), path):
            new: Term | None = self.flat(term, path)
            while new is not None:
                term, new = new, guards(self, new, path)
        for number, child in enumerate(children(term)):
            term = put_path(term, (number,), self._guarded(child, (*path, number)))
        return term

    def _add(self, term: Term, path: Path) -> Term:
        term = self.flat(term, path)
        while isinstance(term, Add):
            seen: dict[str, int] = {}
            for number, arg in enumerate(term.args):
                like = canonical_key(without_number(arg), {})
                if like in seen:
                    break
                seen[like] = number
            else:
                new = cancel_in_sum(self, term, path)
                return term if new is None else self.norm(new, path)
            term = self._collect(term, path, seen[like], number)
        return term

    def _collect(self, term: Add, path: Path, first: int, second: int) -> Term:
        result: Term = term
        for number in (first, second):
            ordered = self.ordered(term.args[number], (*path, number), {}, 0)
            result = put_path(result, (number,), ordered)
            result = self.inside(result, path, (number,), self._number_out)
        result = self.emit("collect", result, path, first=first, second=second)
        last = (len(children(result)) - 1,) if isinstance(result, Add) else ()
        result = self.inside(result, path, last, self.flat)
        merged = at_path(result, last)
        if isinstance(merged, Mul):
            result = put_path(result, last, self._mul(merged, path + last))
        return self.flat(result, path) if isinstance(result, Add) else result

    def _number_out(self, term: Term, path: Path) -> Term:
        """A monomial with its number in front of the sums."""
        if not isinstance(term, Bind) or term.op != "sum":
            return term
        body = self._number_out(term.body, (*path, 0))
        term = Bind(term.op, term.var, body)
        numbers = tuple(n for n, a in enumerate(flat_args(body)) if isinstance(body, Mul) and isinstance(a, Num))
        return self.emit("factor", term, path, positions=numbers) if numbers else term

    def _mul(self, term: Term, path: Path) -> Term:
        term = self.flat(term, path)
        if not isinstance(term, Mul):
            return term if not isinstance(term, Bind | Add) else self.norm(term, path)
        for number, arg in enumerate(term.args):
            if isinstance(arg, Add):
                spread = self.emit("distribute", term, path, position=number)
                return self.norm(spread, path)
        for number, arg in enumerate(term.args):
            if isinstance(arg, Bind) and arg.op == "sum":
                pulled = self.emit("pull", term, path, position=number)
                inner = self._mul(children(pulled)[0], (*path, 0))
                return self._sum(put_path(pulled, (0,), inner), path, inner_done=True)
        return self._monomial(term, path)

    def _sum(self, term: Term, path: Path, inner_done: bool = False) -> Term:
        if not isinstance(term, Bind):
            return term
        if term.var.domain.factors:
            return self.norm(self.emit("split_sum", term, path), path)
        fixed = isinstance(term.var.domain.size, Num)
        if fixed and (self.context.tables or domain_key(term.var.domain) in self.written_out):
            return self.norm(self.emit("enumerate_sum", term, path), path)
        body = term.body if inner_done else self.norm(term.body, (*path, 0))
        term = Bind(term.op, term.var, body)
        if isinstance(body, Add):
            spread = self.emit("sum_of_sum", term, path)
            for number, one in enumerate(children(spread)):
                spread = put_path(spread, (number,), self._sum(one, (*path, number), inner_done=True))
            return self._add(spread, path)
        if body == Num(Fraction(0)) or term.var.name not in free(body):
            return self.norm(self.emit("constant_sum", term, path), path)
        return self._monomial(term, path)

    def _exp(self, term: Term, path: Path) -> Term:
        arg = children(term)[0]
        if isinstance(arg, Add):
            return self._mul(self._children(self.emit("exp_of_sum", term, path), path), path)
        return self.emit("arithmetic", term, path) if arg == Num(Fraction(0)) else term

    def _inv(self, term: Term, path: Path) -> Term:
        arg = children(term)[0]
        if isinstance(arg, Num | Size) or (isinstance(arg, Apply) and arg.name == "inv"):
            return self.emit("arithmetic", term, path)
        if isinstance(arg, Apply) and arg.name == "exp":
            return self.norm(self.emit("inverse_of_exp", term, path), path)
        arg = self._below(arg, (*path, 0))
        term = put_path(term, (0,), arg)
        if isinstance(arg, Mul):
            term = self.emit("inverse_of_product", term, path)
            return self._mul(self._children(term, path), path)
        return term

    def _common(self, term: Add, path: Path) -> Term:
        """Factors common to all monomials of a sum, in front."""
        rows = []
        for number, arg in enumerate(term.args):
            separated = self.separate(arg, (*path, number))
            term = put_path(term, (number,), separated)  # type: ignore[assignment]
            rows.append([key(a) for a in (separated.args if isinstance(separated, Mul) else (separated,))])
        shared = [k for k in dict.fromkeys(rows[0]) if all(k in row for row in rows[1:])]
        if not shared:
            return term
        chosen = tuple(tuple(row.index(k) for k in shared) for row in rows)
        new = self.emit("take_out", term, path, positions=chosen)
        last = len(children(new)) - 1
        return self.inside(new, path, (last,), lambda t, p: self._children(t, p))

    def _monomial(self, term: Term, path: Path) -> Term:
        """Simplify a nest of sums around a product of atoms until no law applies."""
        for law in (*LAWS, put_known_sum, cancel_in_monomial):
            new = law(self, term, path)
            if new is not None:
                return self.norm(new, path)
        return term


def _is_inverse(term: Term) -> bool:
    return isinstance(term, Apply) and term.name == "inv"


def _shared_exponential(below: Term, factors: tuple[Term, ...]) -> Term | None:
    """An exponential that is a factor below an inverse and one of some others."""
    known = set(map(key, factors))
    exponentials = (one for one in flat_args(below, Mul) if isinstance(one, Apply) and one.name == "exp")
    return next((one for one in exponentials if key(one) in known), None)


def _brackets_in_sums(term: Term, context: Context, inside: bool = False) -> Iterator[bool]:
    """Of every bracket whether it stands in a sum of terms."""
    if is_bracket(term, context):
        yield inside
    for child in children(term):
        yield from _brackets_in_sums(child, context, inside or isinstance(term, Add))


def _direction(left: Term, right: Term) -> tuple[bool, Entry | None]:
    """Which side of a lemma is replaced by the other: an entry at bare variables if there is one, else the left."""
    usable = [
        (back, one)
        for back, one, other in ((False, left, right), (True, right, left))
        if isinstance(one, Entry) and not mentions(other, one.name)
    ]
    usable.sort(key=lambda pair: not all(isinstance(index, Var) for index in pair[1].at))
    return usable[0] if usable else (False, None)
