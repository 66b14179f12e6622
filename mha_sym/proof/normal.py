"""Search: brings a term to normal form by steps of `rules`, and records them.  Not trusted.

The normal form is a sum of monomials; a monomial is a nest of sums over indices with a product of atoms
inside; an exponential holds one monomial, an inverse a connected sum.  Defines `Normaliser`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from typing import Any

from mha_sym.proof.checker import Step
from mha_sym.proof.order import canonical_key, nest, nest_order
from mha_sym.proof.rules import RULES, Context, is_bracket
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Entry,
    Index,
    Mul,
    Num,
    Perm,
    Size,
    Term,
    TermError,
    Var,
    at_path,
    children,
    domain_key,
    equal,
    flat_args,
    free,
    index_key,
    index_vars,
    key,
    put_path,
    subst,
)

Path = tuple[int, ...]


class Normaliser:
    """Rewrites one term; ``steps`` is what the checker will replay.

    Args:
        context: what rules may rest on.
        opened: names of the defined tensors that may be unfolded.
    """

    def __init__(self, context: Context, opened: frozenset[str]) -> None:
        self.context = context
        self.opened = opened
        self.steps: list[Step] = []
        self._done: set[Term] = set()
        self._lemmas: dict[str, list[tuple[str, bool, Entry]]] = {}
        for name, lemma in context.lemmas.items():
            back, pattern = _direction(lemma.left, lemma.right)
            if pattern is not None:
                self._lemmas.setdefault(pattern.name, []).append((name, back, pattern))

    def run(self, term: Term) -> Term:
        """The normal form, its sums in canonical order."""
        return self._ordered(self.norm(term, ()), (), {}, 0)

    def emit(self, rule: str, term: Term, path: Path, **args: Any) -> Term:
        """Apply a rule to a term that stands at a path, and record it."""
        new = RULES[rule].apply(term, self.context, **args)
        self.steps.append(Step(rule, path, args))
        return new

    def try_emit(self, rule: str, term: Term, path: Path, **args: Any) -> Term | None:
        """The same, or None where the rule does not apply."""
        try:
            return self.emit(rule, term, path, **args)
        except TermError:
            return None

    def inside(self, term: Term, path: Path, where: Path, work: Callable[[Term, Path], Term]) -> Term:
        """Work on the subterm at ``where`` below a term that stands at ``path``."""
        return put_path(term, where, work(at_path(term, where), path + where))

    # ------------------------------------------------------------ one method a kind of term

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
                result = self._mul(self._children(term, path), path)
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

    def _entry(self, term: Entry, path: Path) -> Term:
        for name, back, pattern in self._lemmas.get(term.name, ()):
            at = match_entry(pattern, term, self.context.lemmas[name].variables)
            if at is not None:
                new = self.try_emit("lemma", term, path, name=name, at=at, back=back)
                if new is not None:
                    return self.norm(new, path)
        if term.name in self.opened and term.name in self.context.definitions:
            return self.norm(self.emit("unfold", term, path), path)
        if term.name in self.context.tables:
            new = self.try_emit("table", term, path)
            return term if new is None else new
        return term

    def _flat(self, term: Term, path: Path) -> Term:
        """Nested sums or products opened and numbers combined."""
        new = RULES["arithmetic"].apply(term, self.context)
        return term if new == term else self.emit("arithmetic", term, path)

    def _add(self, term: Term, path: Path) -> Term:
        term = self._flat(term, path)
        while isinstance(term, Add):
            seen: dict[str, int] = {}
            for number, arg in enumerate(term.args):
                like = canonical_key(_without_number(arg), {})
                if like in seen:
                    break
                seen[like] = number
            else:
                return self._cancel_sum(term, path)
            term = self._collect(term, path, seen[like], number)
        return term

    def _collect(self, term: Add, path: Path, first: int, second: int) -> Term:
        result: Term = term
        for number in (first, second):
            ordered = self._ordered(term.args[number], (*path, number), {}, 0)
            result = put_path(result, (number,), ordered)
            result = self.inside(result, path, (number,), self._number_out)
        result = self.emit("collect", result, path, first=first, second=second)
        last = (len(children(result)) - 1,) if isinstance(result, Add) else ()
        result = self.inside(result, path, last, self._flat)
        merged = at_path(result, last)
        if isinstance(merged, Mul):
            result = put_path(result, last, self._mul(merged, path + last))
        return self._flat(result, path) if isinstance(result, Add) else result

    def _number_out(self, term: Term, path: Path) -> Term:
        """A monomial with its number in front of the sums."""
        if not isinstance(term, Bind):
            return term
        body = self._number_out(term.body, (*path, 0))
        term = Bind(term.op, term.var, body)
        numbers = tuple(n for n, a in enumerate(flat_args(body)) if isinstance(body, Mul) and isinstance(a, Num))
        return self.emit("factor", term, path, positions=numbers) if numbers else term

    def _mul(self, term: Term, path: Path) -> Term:
        term = self._flat(term, path)
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
        assert isinstance(term, Bind)
        if term.var.domain.factors:
            return self.norm(self.emit("split_sum", term, path), path)
        if self.context.tables and isinstance(term.var.domain.size, Num):
            return self.norm(self.emit("enumerate_sum", term, path), path)
        if not inner_done:
            term = put_path(term, (0,), self.norm(term.body, (*path, 0)))
        body = children(term)[0]
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
        if isinstance(arg, Bind):
            arg = self._separate(arg, (*path, 0))
            term = put_path(term, (0,), arg)
        elif isinstance(arg, Add):
            arg = self._common(arg, (*path, 0))
            term = put_path(term, (0,), arg)
        if isinstance(arg, Mul):
            term = self.emit("inverse_of_product", term, path)
            return self._mul(self._children(term, path), path)
        return term

    def _separate(self, term: Term, path: Path) -> Term:
        """A nest of sums as a product of connected ones: what does not depend on an index leaves its sum."""
        if not isinstance(term, Bind):
            return term
        body = self._separate(term.body, (*path, 0))
        if isinstance(body, Mul):
            body = self._flat(body, (*path, 0))
        term = put_path(term, (0,), body)
        args = body.args if isinstance(body, Mul) else (body,)
        out = tuple(n for n, a in enumerate(args) if children(term) and term_var(term) not in free(a))
        if not out or not isinstance(body, Mul):
            return term
        term = self.emit("factor", term, path, positions=out)
        return self._flat(term, path) if isinstance(term, Mul) else term

    def _common(self, term: Add, path: Path) -> Term:
        """Factors common to all monomials of a sum, in front."""
        rows = []
        for number, arg in enumerate(term.args):
            separated = self._separate(arg, (*path, number))
            term = put_path(term, (number,), separated)  # type: ignore[assignment]
            rows.append([key(a) for a in (separated.args if isinstance(separated, Mul) else (separated,))])
        shared = [k for k in dict.fromkeys(rows[0]) if all(k in row for row in rows[1:])]
        if not shared:
            return term
        chosen = tuple(tuple(row.index(k) for k in shared) for row in rows)
        new = self.emit("take_out", term, path, positions=chosen)
        last = len(children(new)) - 1
        return self.inside(new, path, (last,), lambda t, p: self._children(t, p))

    # ------------------------------------------------------------ a monomial: sums outside, atoms inside

    def _monomial(self, term: Term, path: Path) -> Term:
        """Simplify a nest of sums around a product of atoms until no law applies."""
        for law in (
            self._flat_monomial, self._twice, self._merge_exp, self._guards, self._guards_through_order,
            self._implied, self._delta, self._reindex, self._cancel,
        ):  # fmt: skip
            new = law(term, path)
            if new is not None:
                return self.norm(new, path)
        return term

    def _atoms(self, term: Term) -> tuple[list[Var], Path, tuple[Term, ...]]:
        variables, body = nest(term)
        return variables, (0,) * len(variables), body.args if isinstance(body, Mul) else (body,)

    def _within(self, term: Term, path: Path, depth: Path, rule: str, **args: Any) -> Term:
        return self.inside(term, path, depth, lambda t, p: self.emit(rule, t, p, **args))

    def _flat_monomial(self, term: Term, path: Path) -> Term | None:
        _, depth, atoms = self._atoms(term)
        body = at_path(term, depth)
        if not isinstance(body, Mul) or RULES["arithmetic"].apply(body, self.context) == body:
            return None
        return self._within(term, path, depth, "arithmetic")

    def _twice(self, term: Term, path: Path) -> Term | None:
        _, depth, atoms = self._atoms(term)
        seen: dict[str, int] = {}
        for number, atom in enumerate(atoms):
            if is_bracket(atom, self.context):
                first = seen.setdefault(key(atom), number)
                if first != number:
                    return self._within(term, path, depth, "idempotent", first=first, second=number)
        return None

    def _merge_exp(self, term: Term, path: Path) -> Term | None:
        _, depth, atoms = self._atoms(term)
        seen: dict[str, int] = {}
        for number, atom in enumerate(atoms):
            if isinstance(atom, Apply) and atom.name == "exp":
                like = canonical_key(_without_number(atom.arg), {})
                first = seen.setdefault(like, number)
                if first != number:
                    return self._within(term, path, depth, "exp_product", first=first, second=number)
        return None

    def _guards(self, term: Term, path: Path) -> Term | None:
        _, depth, atoms = self._atoms(term)
        for number, atom in enumerate(atoms):
            if is_bracket(atom, self.context):
                for other, where in _occurrences(atoms, key(atom)):
                    if other != number:
                        body = at_path(term, depth)
                        new = self.try_emit("guard", body, path + depth, bracket=number, where=(other, *where))
                        if new is not None:
                            return put_path(term, depth, new)
        return None

    def _guards_through_order(self, term: Term, path: Path) -> Term | None:
        """``[a <= b]`` outside and ``[x <= a]`` beside ``[x <= b]`` deeper inside: the latter is 1."""
        _, depth, atoms = self._atoms(term)
        for number, atom in enumerate(atoms):
            if not (isinstance(atom, Cmp) and atom.op == "le"):
                continue
            for other, where, place in _meetings(atoms, atom):
                if other != number and not where and place != number:
                    implied = _meet(atoms[place], atom)
                    if implied is not None and any(True for o, w in _occurrences(atoms, key(implied)) if w):
                        return self._within(term, path, depth, "chain", first=place, second=number)
                elif other != number and where:
                    new = self._guard_deeper(at_path(term, depth), path + depth, number, (other, *where), place)
                    if new is not None:
                        return put_path(term, depth, new)
        return None

    def _guard_deeper(self, body: Term, path: Path, outer: int, deep: Path, place: int) -> Term | None:
        product = at_path(body, deep)
        if not isinstance(product, Mul):
            return None
        bracket = children(body)[outer]
        implied = _meet(product.args[place], bracket)
        if implied is None or not any(n != place for n, _ in _occurrences(product.args, key(implied))):
            return None
        start = len(self.steps)
        try:
            body = self.emit("spread", body, path, bracket=outer, where=deep)
            body = self.inside(body, path, deep, lambda t, p: self.emit("arithmetic", t, p))
            args = children(at_path(body, deep))
            low = next(n for n, a in enumerate(args) if equal(a, product.args[place]))
            high = next(n for n, a in enumerate(args) if equal(a, bracket))
            body = self._within(body, path, deep, "chain", first=low, second=high)
            args = children(at_path(body, deep))
            for other, where in list(_occurrences(args, key(implied))):
                if where:
                    body = self._within(body, path, deep, "guard", bracket=2, where=(other, *where))
            body = self._within(body, path, deep, "unchain", first=0, second=1, third=2)
            return self.emit("guard", body, path, bracket=outer, where=(*deep, 1))
        except TermError:
            del self.steps[start:]
            return None

    def _implied(self, term: Term, path: Path) -> Term | None:
        """Drop a bracket that two others imply."""
        _, depth, atoms = self._atoms(term)
        keys = {key(a): n for n, a in enumerate(atoms) if isinstance(a, Cmp)}
        for first in keys.values():
            for second in keys.values():
                implied = _meet(atoms[first], atoms[second]) if first != second else None
                third = keys.get(key(implied)) if implied is not None else None
                if third is not None and third not in (first, second):
                    return self._within(term, path, depth, "unchain", first=first, second=second, third=third)
        return None

    def _delta(self, term: Term, path: Path) -> Term | None:
        variables, depth, atoms = self._atoms(term)
        for number, atom in enumerate(atoms):
            if isinstance(atom, Cmp) and atom.op == "eq" and not atom.offset:
                for var in variables:
                    if var in (atom.left, atom.right):
                        inner = self._innermost(term, path, [var.name])
                        new = self.try_emit("delta", at_path(inner, depth[1:]), path + depth[1:], position=number)
                        if new is not None:
                            return put_path(inner, depth[1:], new)
                        term = inner
        return None

    def _reindex(self, term: Term, path: Path) -> Term | None:
        variables, _, atoms = self._atoms(term)
        for level, var in enumerate(variables):
            images = {image for atom in atoms for image in _images(atom, var.name)}
            if len(images) == 1 and None not in images:
                name, inverse = next(iter(images))  # type: ignore[misc]
                new = self.try_emit(
                    "reindex", at_path(term, (0,) * level), path + (0,) * level, name=name, inverse=not inverse
                )
                if new is not None:
                    return put_path(term, (0,) * level, new)
        return None

    # ------------------------------------------------------------ cancelling an inverse

    def _cancel(self, term: Term, path: Path) -> Term | None:
        variables, depth, atoms = self._atoms(term)
        for number, atom in enumerate(atoms):
            if isinstance(atom, Apply) and atom.name == "inv":
                for names, matched in _matches(atom.arg, variables, atoms):
                    new = self._cancel_with(term, path, names, matched, atom)
                    if new is not None:
                        return new
        return None

    def _cancel_with(self, term: Term, path: Path, names: list[str], matched: set[int], inverse: Apply) -> Term | None:
        start = len(self.steps)
        try:
            term = self._innermost(term, path, names)
            variables, depth, atoms = self._atoms(term)
            at = depth[len(names) :]
            inner, place = at_path(term, at), path + at
            for level in range(len(names) - 1, -1, -1):
                inner = self.inside(inner, place, (0,) * level, self._leave)
            args = children(inner)
            value = next(n for n, a in enumerate(args) if isinstance(a, Bind) or n in matched and not names)
            over = next(n for n, a in enumerate(args) if a == inverse)
            for one in (value, over):
                ordered = self._ordered(args[one], (*place, one), {}, 0)
                inner = put_path(inner, (one,), ordered)
            given = self._given(children(inner)[value])
            inner = self.emit("cancel", inner, place, value=value, inverse=over, given=given)
            return put_path(term, at, inner)
        except (TermError, StopIteration):
            del self.steps[start:]
            return None

    def _leave(self, term: Term, path: Path) -> Term:
        """Move out of one sum all factors that do not depend on its index."""
        assert isinstance(term, Bind)
        body = self._flat(term.body, (*path, 0)) if isinstance(term.body, Mul) else term.body
        term = Bind(term.op, term.var, body)
        args = body.args if isinstance(body, Mul) else (body,)
        out = tuple(n for n, a in enumerate(args) if term.var.name not in free(a))
        return self.emit("factor", term, path, positions=out) if out else term

    def _given(self, value: Term) -> tuple[tuple[int, tuple[Index, ...]], ...]:
        """The assumptions of positivity that may speak about a value, with their positions filled in."""
        found = []
        entries = list(_entries(value))
        for number, (variables, term) in enumerate(self.context.positive):
            for pattern in _entries(term):
                for entry in entries:
                    at = match_entry(pattern, entry, variables)
                    if at is not None:
                        found.append((number, at))
        return tuple(dict.fromkeys(found))

    def _cancel_sum(self, term: Add, path: Path) -> Term:
        """``p1 r / (p1 + p2) + p2 r / (p1 + p2) = r``, found among the addends."""
        for inverse in {a for arg in term.args for a in _inverses_of_sums(arg)}:
            rows = [n for n, arg in enumerate(term.args) if inverse in _inverses_of_sums(arg)]
            if len(rows) == len(term.args):
                new = self._cancel_rows(term, path, inverse)
                if new is not None:
                    return self.norm(new, path)
        return term

    def _cancel_rows(self, term: Add, path: Path, inverse: Apply) -> Term | None:
        start = len(self.steps)
        try:
            result: Term = term
            rows = []
            for number, arg in enumerate(term.args):
                separated = self._separate(arg, (*path, number))
                result = put_path(result, (number,), separated)
                rows.append([key(a) for a in children(separated)])
            shared = [k for k in dict.fromkeys(rows[0]) if all(k in row for row in rows[1:])]
            chosen = tuple(tuple(row.index(k) for k in shared) for row in rows)
            result = self.emit("take_out", result, path, positions=chosen)
            last = len(children(result)) - 1
            over = next(n for n, a in enumerate(children(result)) if a == inverse)
            given = self._given(children(result)[last])
            return self.emit("cancel", result, path, value=last, inverse=over, given=given)
        except (TermError, StopIteration):
            del self.steps[start:]
            return None

    # ------------------------------------------------------------ order of sums

    def _arrange(self, term: Term, path: Path, order: list[str]) -> Term:
        """Exchange nested sums until they stand in an order."""
        for target, name in enumerate(order):
            names = [v.name for v in nest(term)[0]]
            for level in range(names.index(name) - 1, target - 1, -1):
                term = self._within(term, path, (0,) * level, "exchange")
        return term

    def _innermost(self, term: Term, path: Path, names: list[str]) -> Term:
        variables, _ = nest(term)
        return self._arrange(term, path, [v.name for v in variables if v.name not in names] + names)

    def _ordered(self, term: Term, path: Path, env: dict[str, str], depth: int) -> Term:
        variables, body = nest(term)
        if variables and len({v.name for v in variables}) == len(variables):
            order = nest_order(variables, body, env, depth)
            term = self._arrange(term, path, [v.name for v in order])
            env = {**env, **{v.name: f"#{depth + n}" for n, v in enumerate(order)}}
            where = (0,) * len(order)
            return self.inside(term, path, where, lambda t, p: self._ordered(t, p, env, depth + len(order)))
        if isinstance(term, Bind):
            env = {**env, term.var.name: f"#{depth}"}
            depth += 1
        for number, child in enumerate(children(term)):
            term = put_path(term, (number,), self._ordered(child, (*path, number), env, depth))
        return term


def term_var(term: Term) -> str:
    """The name of the variable of a sum."""
    return term.var.name if isinstance(term, Bind) else ""


def _without_number(term: Term) -> Term:
    """A monomial without its rational factor."""
    variables, body = nest(term)
    if isinstance(body, Mul):
        rest = tuple(a for a in body.args if not isinstance(a, Num))
        body = rest[0] if len(rest) == 1 else Mul(rest)
    elif isinstance(body, Num):
        body = Mul(())
    for var in reversed(variables):
        body = Bind("sum", var, body)
    return body


def _direction(left: Term, right: Term) -> tuple[bool, Entry | None]:
    """Which side of a lemma is replaced by the other: an entry at bare variables if there is one, else the left."""
    usable = [
        (back, one)
        for back, one, other in ((False, left, right), (True, right, left))
        if isinstance(one, Entry) and not _mentions(other, one.name)
    ]
    usable.sort(key=lambda pair: not all(isinstance(index, Var) for index in pair[1].at))
    return usable[0] if usable else (False, None)


def _mentions(term: Term, name: str) -> bool:
    return any(e.name == name for e in _entries(term))


def _entries(term: Term) -> list[Entry]:
    if isinstance(term, Entry):
        return [term]
    return [e for child in children(term) for e in _entries(child)]


def match_entry(pattern: Term, term: Entry, variables: tuple[Var, ...]) -> tuple[Index, ...] | None:
    """Positions for the variables under which an entry is an instance of a pattern, if there are any."""
    if not isinstance(pattern, Entry) or pattern.name != term.name or len(pattern.at) != len(term.at):
        return None
    found: dict[str, Index] = {}
    names = {v.name for v in variables}

    def fits(left: Index, right: Index) -> bool:
        if isinstance(left, Var) and left.name in names:
            return index_key(found.setdefault(left.name, right)) == index_key(right)
        if hasattr(left, "parts") and type(left) is type(right):
            return len(left.parts) == len(right.parts) and all(map(fits, left.parts, right.parts))  # type: ignore[union-attr]
        if hasattr(left, "index") and type(left) is type(right):
            return fits(left.index, right.index)  # type: ignore[union-attr]
        return index_key(left) == index_key(right)

    if not all(map(fits, pattern.at, term.at)) or set(found) != names:
        return None
    return tuple(found[v.name] for v in variables)


def _occurrences(atoms: tuple[Term, ...], wanted: str) -> list[tuple[int, Path]]:
    """Where a term occurs: the atom's number and the path inside it."""

    def paths(term: Term) -> list[Path]:
        here: list[Path] = [()] if key(term) == wanted else []
        return here + [(n, *rest) for n, child in enumerate(children(term)) for rest in paths(child)]

    return [(number, where) for number, atom in enumerate(atoms) for where in paths(atom)]


def _meet(left: Term, right: Term) -> Cmp | None:
    """``[x <= b]`` of ``[x <= a]`` and ``[a <= b]``."""
    if not (isinstance(left, Cmp) and isinstance(right, Cmp) and left.op == right.op == "le"):
        return None
    if index_key(left.right) != index_key(right.left):
        return None
    return Cmp("le", left.left, right.right, left.offset + right.offset)


def _meetings(atoms: tuple[Term, ...], bracket: Cmp) -> list[tuple[int, Path, int]]:
    """Products, at any depth, with a factor ``[x <= a]`` for ``bracket = [a <= b]``: atom, path, factor."""
    found: list[tuple[int, Path, int]] = []

    def visit(term: Term, number: int, path: Path) -> None:
        if isinstance(term, Mul):
            for place, arg in enumerate(term.args):
                if _meet(arg, bracket) is not None:
                    found.append((number, path, place))
        for n, child in enumerate(children(term)):
            visit(child, number, (*path, n))

    for number, atom in enumerate(atoms):
        if _meet(atom, bracket) is not None:
            found.append((-1, (), number))
        visit(atom, number, ())
    return found


def _images(term: Term, name: str) -> set[tuple[str, bool] | None]:
    """The bijections under which a variable occurs; None for a bare occurrence."""
    if name not in free(term):
        return set()
    if isinstance(term, Entry | Cmp):
        at = term.at if isinstance(term, Entry) else (term.left, term.right)
        return {image for index in at for image in _index_images(index, name)}
    return {image for child in children(term) for image in _images(child, name)}


def _index_images(index: Index, name: str) -> set[tuple[str, bool] | None]:
    match index:
        case Var(found, _):
            return {None} if found == name else set()
        case Perm(perm, inverse, Var(found, _)) if found == name:
            return {(perm, inverse)}
        case _:
            if name not in index_vars(index):
                return set()
            inner = getattr(index, "parts", None) or (getattr(index, "index", At(0)),)
            return {image for part in inner for image in _index_images(part, name)}


def _inverses_of_sums(term: Term) -> set[Apply]:
    _, body = nest(term)
    atoms = body.args if isinstance(body, Mul) else (body,)
    return {a for a in atoms if isinstance(a, Apply) and a.name == "inv" and isinstance(a.arg, Add)}


def _matches(inner: Term, variables: list[Var], atoms: tuple[Term, ...]) -> list[tuple[list[str], set[int]]]:
    """Ways in which the term under an inverse occurs among the atoms: its variables' names there, the atoms."""
    own, body = nest(inner)
    wanted = body.args if isinstance(body, Mul) else (body,)
    found = []
    keys = [canonical_key(a, {}) for a in atoms]
    for choice in permutations(variables, len(own)):
        if any(domain_key(a.domain) != domain_key(b.domain) for a, b in zip(own, choice, strict=True)):
            continue
        new: dict[str, Index] = {a.name: b for a, b in zip(own, choice, strict=True)}
        left = dict(enumerate(keys))
        matched: set[int] = set()
        for one in wanted:
            text = canonical_key(subst(one, new), {})
            place = next((n for n, k in left.items() if k == text), None)
            if place is None:
                break
            matched.add(place)
            del left[place]
        else:
            names = [v.name for v in choice]
            if all(not free(atoms[n]) & set(names) for n in left):
                found.append((names, matched))
    return found
