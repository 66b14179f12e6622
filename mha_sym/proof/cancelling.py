"""Search, cancelling: a value against its inverse, inside a product or across the addends of a sum, and known sums.

Defines `cancel_in_monomial`, `cancel_in_sum` and `put_known_sum`.  Not trusted.
"""

from __future__ import annotations

from itertools import permutations

from mha_sym.proof.order import canonical_key, nest
from mha_sym.proof.rewrite import Path, Rewriter, atoms_of, entries, match_entry
from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Entry,
    Index,
    Mul,
    Term,
    TermError,
    Var,
    at_path,
    children,
    domain_key,
    free,
    key,
    put_path,
    subst,
)


def cancel_in_monomial(rw: Rewriter, term: Term, path: Path) -> Term | None:
    """``sum_k a_k / (sum_k a_k) = 1``, found among the factors of a monomial."""
    variables, _, atoms = atoms_of(term)
    inverses = [a for a in atoms if isinstance(a, Apply) and a.name == "inv"]
    known = [(canonical_key(a, {}), free(a)) for a in atoms] if inverses else []
    for atom in inverses:
        for names in _matches(atom.arg, variables, known):
            new = _cancel_with(rw, term, path, names, atom)
            if new is not None:
                return new
    return None


def _cancel_with(
    rw: Rewriter, term: Term, path: Path, names: list[str], inverse: Apply
) -> Term | None:
    start = len(rw.steps)
    try:
        term = rw.innermost(term, path, names)
        _, depth, _ = atoms_of(term)
        at = depth[len(names) :]
        inner, place = at_path(term, at), path + at
        for level in range(len(names) - 1, -1, -1):
            inner = rw.inside(inner, place, (0,) * level, rw.leave)
        args = children(inner)
        wanted = canonical_key(inverse.arg, {})
        value = next(n for n, a in enumerate(args) if canonical_key(a, {}) == wanted)
        over = next(n for n, a in enumerate(args) if a == inverse)
        for one in (value, over):
            ordered = rw.ordered(args[one], (*place, one), {}, 0)
            inner = put_path(inner, (one,), ordered)
        given = _given(rw, children(inner)[value])
        inner = rw.emit("cancel", inner, place, value=value, inverse=over, given=given)
        return put_path(term, at, inner)
    except (TermError, StopIteration):
        del rw.steps[start:]
        return None


def _given(rw: Rewriter, value: Term) -> tuple[tuple[int, tuple[Index, ...]], ...]:
    """The assumptions of positivity that may speak about a value, with their positions filled in."""
    found = []
    occurring = list(entries(value))
    for number, (variables, term) in enumerate(rw.context.positive):
        for pattern in entries(term):
            for entry in occurring:
                at = match_entry(pattern, entry, variables)
                if at is not None:
                    found.append((number, at))
    return tuple(dict.fromkeys(found))


def put_known_sum(rw: Rewriter, term: Term, path: Path) -> Term | None:
    """``sum_s b a_s = b c`` where ``sum_s a_s = c`` was proved before, as it is of the weights of a row."""
    for name, goal in rw.context.lemmas.items():
        if not (isinstance(goal.left, Bind) and isinstance(goal.left.body, Entry)):
            continue
        variables, _, atoms = atoms_of(term)
        for var in variables:
            depending = [one for one in atoms if var.name in free(one)]
            if not (len(depending) == 1 and isinstance(depending[0], Entry)):
                continue
            if domain_key(var.domain) == domain_key(goal.left.var.domain):
                at = match_entry(goal.left.body, depending[0], (*goal.variables, goal.left.var))
                if at is not None and at[-1] == var:
                    return _put_known_sum(rw, term, path, var, name, at[:-1])
    return None


def _put_known_sum(
    rw: Rewriter, term: Term, path: Path, var: Var, name: str, at: tuple[Index, ...]
) -> Term:
    term = rw.innermost(term, path, [var.name])
    _, depth, _ = atoms_of(term)
    place = depth[1:]
    term = rw.inside(term, path, place, rw.leave)
    if isinstance(product := at_path(term, place), Mul):
        place = (*place, next(n for n, one in enumerate(product.args) if isinstance(one, Bind)))
    return rw.within(term, path, place, "lemma", name=name, at=at, back=False)


def cancel_in_sum(rw: Rewriter, term: Add, path: Path) -> Term | None:
    """``p1 r / (p1 + p2) + p2 r / (p1 + p2) = r``, found among the addends."""
    for inverse in {a for arg in term.args for a in _inverses_of_sums(arg)}:
        rows = [n for n, arg in enumerate(term.args) if inverse in _inverses_of_sums(arg)]
        if len(rows) == len(term.args):
            new = _cancel_rows(rw, term, path, inverse)
            if new is not None:
                return new
    return None


def _cancel_rows(rw: Rewriter, term: Add, path: Path, inverse: Apply) -> Term | None:
    start = len(rw.steps)
    try:
        result: Term = term
        rows = []
        for number, arg in enumerate(term.args):
            separated = rw.separate(arg, (*path, number))
            result = put_path(result, (number,), separated)
            rows.append([key(a) for a in children(separated)])
        shared = [k for k in dict.fromkeys(rows[0]) if all(k in row for row in rows[1:])]
        chosen = tuple(tuple(row.index(k) for k in shared) for row in rows)
        result = rw.emit("take_out", result, path, positions=chosen)
        last = len(children(result)) - 1
        over = next(n for n, a in enumerate(children(result)) if a == inverse)
        given = _given(rw, children(result)[last])
        return rw.emit("cancel", result, path, value=last, inverse=over, given=given)
    except (TermError, StopIteration):
        del rw.steps[start:]
        return None


def _inverses_of_sums(term: Term) -> set[Apply]:
    _, body = nest(term)
    atoms = body.args if isinstance(body, Mul) else (body,)
    return {a for a in atoms if isinstance(a, Apply) and a.name == "inv" and isinstance(a.arg, Add)}


def _matches(inner: Term, variables: list[Var], known: list[tuple[str, frozenset[str]]]) -> list[list[str]]:
    """Ways in which the term under an inverse occurs among the atoms: the names of its variables there.

    Of the atoms their keys and the names in them are ``known``.
    """
    own, body = nest(inner)
    wanted = body.args if isinstance(body, Mul) else (body,)
    found = []
    for choice in permutations(variables, len(own)):
        if any(domain_key(a.domain) != domain_key(b.domain) for a, b in zip(own, choice, strict=True)):
            continue
        new: dict[str, Index] = {a.name: b for a, b in zip(own, choice, strict=True)}
        left = dict(enumerate(known))
        for one in wanted:
            text = canonical_key(subst(one, new), {})
            place = next((n for n, (k, _) in left.items() if k == text), None)
            if place is None:
                break
            del left[place]
        else:
            names = [v.name for v in choice]
            if all(occurring.isdisjoint(names) for _, occurring in left.values()):
                found.append(names)
    return found
