"""Search, the laws of a monomial: what simplifies a nest of sums around a product of atoms.

Each law takes a `Rewriter` and returns the changed term, or None where it does not apply.  `LAWS` is the
order in which they are tried.  Not trusted.
"""

from __future__ import annotations

from mha_sym.proof.order import canonical_key
from mha_sym.proof.rewrite import Path, Rewriter, atoms_of, without_number
from mha_sym.proof.rules import RULES, is_bracket
from mha_sym.proof.terms import (
    Apply,
    At,
    Cmp,
    Entry,
    Index,
    Mul,
    Perm,
    Term,
    TermError,
    Var,
    at_path,
    children,
    equal,
    free,
    key,
    put_path,
)


def _flat_monomial(rw: Rewriter, term: Term, path: Path) -> Term | None:
    _, depth, _atoms = atoms_of(term)
    body = at_path(term, depth)
    if not isinstance(body, Mul) or RULES["arithmetic"](body, rw.context) == body:
        return None
    return rw.within(term, path, depth, "arithmetic")


def _twice(rw: Rewriter, term: Term, path: Path) -> Term | None:
    _, depth, atoms = atoms_of(term)
    seen: dict[str, int] = {}
    for number, atom in enumerate(atoms):
        if is_bracket(atom, rw.context):
            first = seen.setdefault(key(atom), number)
            if first != number:
                return rw.within(term, path, depth, "guard", brackets=(first,), where=(number,))
    return None


def _merge_exp(rw: Rewriter, term: Term, path: Path) -> Term | None:
    _, depth, atoms = atoms_of(term)
    seen: dict[str, int] = {}
    for number, atom in enumerate(atoms):
        if isinstance(atom, Apply) and atom.name == "exp":
            like = canonical_key(without_number(atom.arg), {})
            first = seen.setdefault(like, number)
            if first != number:
                return rw.within(term, path, depth, "exp_product", first=first, second=number)
    return None


def guards(rw: Rewriter, term: Term, path: Path) -> Term | None:
    """``[P] f([P]) = [P] f(1)`` in a nest of sums around a product; None if no bracket stands inside its own product.

    Example:
        >>> from mha_sym.proof.rules import Context
        >>> from mha_sym.proof.terms import Add, Domain, Size
        >>> p, a = Cmp("eq", At(0), Var("i", Domain("i", Size("n")))), Entry("a", ())
        >>> guards(Rewriter(Context()), Mul((p, Add((a, p)))), ())
        Mul(args=(Cmp(...), Add(args=(Entry(name='a', at=()), Num(value=Fraction(1, 1))))))
    """
    _, depth, atoms = atoms_of(term)
    for number, atom in enumerate(atoms):
        if is_bracket(atom, rw.context):
            for other, where in _occurrences(atoms, key(atom)):
                if other != number:
                    body = at_path(term, depth)
                    new = rw.try_emit("guard", body, path + depth, brackets=(number,), where=(other, *where))
                    if new is not None:
                        return put_path(term, depth, new)
    return None


def _guards_through_order(rw: Rewriter, term: Term, path: Path) -> Term | None:
    """``[a <= b]`` outside and ``[x <= a]`` beside ``[x <= b]`` deeper inside: the latter is 1."""
    _, depth, atoms = atoms_of(term)
    for number, atom in enumerate(atoms):
        if not (isinstance(atom, Cmp) and atom.op == "le"):
            continue
        for other, where, place in _meetings(atoms, atom):
            new = None
            if other != number and not where and place != number:
                new = _guard_inside(rw, at_path(term, depth), path + depth, (place, number))
            elif other != number and where:
                new = _guard_deeper(rw, at_path(term, depth), path + depth, number, (other, *where), place)
            if new is not None:
                return put_path(term, depth, new)
    return None


def _guard_inside(rw: Rewriter, body: Term, path: Path, pair: tuple[int, int]) -> Term | None:
    """What two factors imply is 1 where it occurs inside others, or is another."""
    args = children(body)
    implied = _meet(args[pair[0]], args[pair[1]])
    if implied is None:
        return None
    for other, where in _occurrences(args, key(implied)):
        if other not in pair:
            new = rw.try_emit("guard", body, path, brackets=pair, where=(other, *where))
            if new is not None:
                return new
    return None


def _guard_deeper(rw: Rewriter, body: Term, path: Path, outer: int, deep: Path, place: int) -> Term | None:
    product = at_path(body, deep)
    if not isinstance(product, Mul):
        return None
    bracket = children(body)[outer]
    implied = _meet(product.args[place], bracket)
    if implied is None or not any(n != place for n, _ in _occurrences(product.args, key(implied))):
        return None
    start = len(rw.steps)
    try:
        body = rw.emit("spread", body, path, brackets=(outer,), where=deep)
        body = rw.inside(body, path, deep, lambda t, p: rw.emit("arithmetic", t, p))
        args = children(at_path(body, deep))
        low = next(n for n, a in enumerate(args) if equal(a, product.args[place]))
        high = next(n for n, a in enumerate(args) if equal(a, bracket))
        for other, where in _occurrences(args, key(implied)):
            if other not in (low, high):
                body = rw.within(body, path, deep, "guard", brackets=(low, high), where=(other, *where))
        return rw.emit("guard", body, path, brackets=(outer,), where=(*deep, high))
    except TermError:
        del rw.steps[start:]
        return None


def _delta(rw: Rewriter, term: Term, path: Path) -> Term | None:
    variables, depth, atoms = atoms_of(term)
    for number, atom in enumerate(atoms):
        if isinstance(atom, Cmp) and atom.op == "eq" and not atom.offset:
            for var in variables:
                if var in (atom.left, atom.right):
                    inner = rw.innermost(term, path, [var.name])
                    new = rw.try_emit("delta", at_path(inner, depth[1:]), path + depth[1:], position=number)
                    if new is not None:
                        return put_path(inner, depth[1:], new)
                    term = inner
    return None


def _reindex(rw: Rewriter, term: Term, path: Path) -> Term | None:
    """Renumber a sum along a bijection if fewer images remain, or as many and the key comes earlier."""
    variables, _, atoms = atoms_of(term)
    for level, var in enumerate(variables):
        images = {image for atom in atoms for image in _images(atom, var.name)} - {None}
        here, place = (0,) * level, path + (0,) * level
        for name, inverse in sorted(image for image in images if image is not None):
            start = len(rw.steps)
            inner = rw.try_emit("reindex", at_path(term, here), place, name=name, inverse=not inverse)
            if inner is not None:
                new = put_path(term, here, inner)
                if _rank(new) < _rank(term):
                    return new
                del rw.steps[start:]
    return None


def _rank(term: Term) -> tuple[int, str]:
    """By how many bijections occur, then by the key: what renumbering makes smaller."""
    text = canonical_key(term, {})
    return text.count("'-(") + text.count("'+("), text


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
    if key(left.right) != key(right.left):
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
            if name not in free(index):
                return set()
            inner = getattr(index, "parts", None) or (getattr(index, "index", At(0)),)
            return {image for part in inner for image in _index_images(part, name)}


#: tried in this order, each until none applies
LAWS = (
    _flat_monomial, _twice, _merge_exp, guards, _guards_through_order, _delta, _reindex,
)  # fmt: skip
