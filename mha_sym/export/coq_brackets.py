"""Scripts for the rules about exponentials, inverses and brackets.

One function a rule, of the rule's name.  Nothing here decides whether a step is right: Coq does.
"""

from __future__ import annotations

from collections.abc import Sequence

from mha_sym.export.coq_place import Place, descent, fronted, moved, shaped
from mha_sym.export.coq_positive import positive
from mha_sym.export.coq_shapes import branches, hole, holes, plain, tactic
from mha_sym.export.coq_sums import EXP
from mha_sym.export.coq_terms import NotExported
from mha_sym.proof.rules import product
from mha_sym.proof.terms import Add, Apply, Cmp, Entry, Inj, Join, Mul, Num, Perm, Term, children, domain_key, index_key

# ---------------------------------------------------------------- exponentials and inverses


def exp_of_sum(at: Place) -> str:
    """``exp(a + b) = exp(a) exp(b)``."""
    assert isinstance(at.old, Apply)
    x = holes("x", len(children(at.old.arg)))
    proof = f"exact: (exp_of_sum {EXP} {plain(x)})"
    return shaped(at, "exp_of_sum", Apply("exp", Add(x)), at.writer.scalars(*x), proof)


def exp_product(at: Place) -> str:
    """``exp(a) exp(b) = exp(a + b)``."""
    first, second = at.args["first"], at.args["second"]
    x = list(holes("x", len(children(at.old))))
    args: list[Term] = [Apply("exp", h) if n in (first, second) else h for n, h in enumerate(x)]
    front, _ = fronted(at, args, (first, second))
    rest = [h for n, h in enumerate(x) if n not in (first, second)]
    law = f"exact: (exp_product exp_add x{first} x{second} {plain(rest)})"
    proof = moved(at.writer, Mul(tuple(args)), front, law)
    return shaped(at, "exp_product", Mul(tuple(args)), at.writer.scalars(*x), proof, **at.args)


def inverse_of_exp(at: Place) -> str:
    """``1/exp(a) = exp(-a)``."""
    return f"exact: (inverse_of_exp {EXP})"


def inverse_of_product(at: Place) -> str:
    """``1/(a b) = (1/a) (1/b)``."""
    assert isinstance(at.old, Apply)
    x = holes("x", len(children(at.old.arg)))
    proof = f"exact: (inverse_of_product {plain(x)})"
    return shaped(at, "inverse_of_product", Apply("inv", Mul(x)), at.writer.scalars(*x), proof)


def cancel(at: Place) -> str:
    """``a (1/a) = 1``, and a proof that ``a`` is positive."""
    writer, positions = at.writer, (at.args["value"], at.args["inverse"])
    x = list(holes("x", len(children(at.old))))
    args: list[Term] = [Apply("inv", h) if n == positions[1] else h for n, h in enumerate(x)]
    front, rest = fronted(at, args, positions)
    law = f"exact: (cancel {plain([r for r in rest if isinstance(r, Entry)])} E0 P0)"
    proof = f"move=> E0 P0; {moved(writer, Mul(tuple(args)), front, law)}"
    number, over = (f"x{n}" for n in positions)
    statement = writer.equation(Mul(tuple(args)), product(rest))
    name = writer.shape("cancel", writer.scalars(*x), (f"{number} = {over}", f"0 < {number} :> R"), statement, proof)
    value, inverse = (children(at.old)[n] for n in positions)
    assert isinstance(inverse, Apply)
    inner = [writer.same(value, inverse.arg), positive(writer, at.context, value, at.args.get("given", ()))]
    return branches(f"apply: {name}", inner)


# ---------------------------------------------------------------- brackets


def bracket(name: str) -> Entry:
    """A variable of a lemma that is 0 or 1."""
    return Entry(f"!{name}", ())


def idempotent(at: Place) -> str:
    """``[P] [P] = [P]``."""
    positions = at.args["first"], at.args["second"]
    args = [bracket("p_") if n in positions else hole(f"x{n}") for n in range(len(children(at.old)))]
    front, rest = fronted(at, args, positions)
    kept = [h for h in args if h.name != "!p_"]
    proof = moved(at.writer, Mul(tuple(args)), front, f"exact: (idempotent p_ {plain(kept)})")
    binders = f"(p_ : bool) {at.writer.scalars(*kept)}".strip()
    return shaped(at, "idempotent", Mul(tuple(args)), binders, proof, product([bracket("p_"), *rest]))


def _where_one(at: Place, end: str) -> str:
    writer, place, (inner, *below) = at.writer, at.args["bracket"], at.args["where"]
    args = [bracket("p_") if n == place else hole(f"x{n}") for n in range(len(children(at.old)))]
    changed = [hole("y_") if n == inner else a for n, a in enumerate(args)]
    front, rest = fronted(at, args, (place, inner))
    back, _ = fronted(at, changed, (place, inner))
    kept = [r for r in rest if isinstance(r, Entry)]
    close = f"apply: (etrans (guard {plain(kept)} E0)); {writer.same(back, Mul(tuple(changed)))}"
    proof = f"move=> E0; {moved(writer, Mul(tuple(args)), front, close)}"
    scalars = writer.scalars(*(a for a in args if a.name != "!p_"), hole("y_"))
    statement = writer.equation(Mul(tuple(args)), Mul(tuple(changed)))
    name = writer.shape("guard", f"(p_ : bool) {scalars}", (f"(p_ -> x{inner} = y_)",), statement, proof)
    down = descent(writer, children(at.old)[inner], below)
    return tactic(f"apply: {name} => holds", down, end)


def guard(at: Place) -> str:
    """``[P] f([P]) = [P] f(1)``."""
    return _where_one(at, "exact: (guarded _ holds)")


def spread(at: Place) -> str:
    """``[P] f(a) = [P] f([P] a)``."""
    return _where_one(at, "exact: (spread _ holds)")


def _chained(at: Place, positions: Sequence[int], implied: Cmp, back: bool) -> str:
    writer, count = at.writer, len(children(at.old))
    called = dict(zip(positions, ("p_", "q_", "t_"), strict=False))
    args = [bracket(called[n]) if n in called else hole(f"x{n}") for n in range(count)]
    front, rest = fronted(at, args, positions)
    kept = [h for h in args if h.name[0] == "?"]
    law = f"implied {plain(kept)} E0"
    law = f"exact: (esym ({law}))" if back else f"exact: ({law})"
    proof = f"move=> E0; {moved(writer, Mul(tuple(args)), front, law)}"
    made = product([bracket("p_"), bracket("q_"), *([] if back else [bracket("t_")]), *rest])
    binders = f"(p_ q_ t_ : bool) {writer.scalars(*kept)}".strip()
    name = writer.shape("chain", binders, ("(p_ -> q_ -> t_)",), writer.equation(Mul(tuple(args)), made), proof)
    first, second = (children(at.old)[n] for n in positions[:2])
    assert isinstance(first, Cmp) and isinstance(second, Cmp)
    if first.offset < 0 or second.offset < 0:
        raise NotExported("chained brackets with negative offsets are not exported", where="export to Coq")
    ends = [writer.printer.place(i) for i in (first.left, first.right, second.right)]
    return f"apply: {name}; exact: (@ordered {' '.join(ends)} {first.offset} {second.offset})"


def chain(at: Place) -> str:
    """``[a <= b] [b <= c]`` takes ``[a <= c]`` along."""
    positions = at.args["first"], at.args["second"]
    (implied,) = (a for n, a in enumerate(children(at.new)) if n == 2)
    assert isinstance(implied, Cmp)
    return _chained(at, positions, implied, False)


def unchain(at: Place) -> str:
    """``[a <= b] [b <= c] [a <= c]`` drops the last."""
    positions = at.args["first"], at.args["second"], at.args["third"]
    implied = children(at.old)[positions[2]]
    assert isinstance(implied, Cmp)
    return _chained(at, positions, implied, True)


def compare(at: Place) -> str:
    """The value of a bracket, or the same bracket on the parts of its positions."""
    match at.old, at.new:
        case Cmp(), Num(value) if not value:
            if isinstance(at.old.left, Inj) and isinstance(at.old.right, Inj):
                return _apart(at.old.left, at.old.right)
            return "exact: compare_false"
        case Cmp(_, left, right, _), Num():
            same = index_key(left) == index_key(right)
            return "apply: compare_true; by rewrite ?leqnn ?leq_addl ?eqxx" if same else "exact: compare_true"
        case Cmp(_, Join(_, left), Join(), _), _ if len(left) == 2:
            return "exact: compare_pair"
        case Cmp(_, Perm(_, _, _), Perm(), _), _:
            return "exact: compare_permuted"
        case Cmp(_, Inj(_, whole, number), Inj(), _), _ if len(whole.blocks) == 2:
            return "exact: compare_right" if number else "exact: compare_left"
    raise NotExported("a bracket of this kind is not exported", where="export to Coq")


def _apart(left: Inj, right: Inj) -> str:
    if len(left.domain.blocks) != 2 or domain_key(left.domain) != domain_key(right.domain):
        raise NotExported("brackets between more than two blocks are not exported", where="export to Coq")
    return "exact: compare_apart" if left.number < right.number else "exact: compare_apart_back"
