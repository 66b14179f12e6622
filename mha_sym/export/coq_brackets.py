"""Scripts for the rules about exponentials, inverses and brackets.

One function a rule, of the rule's name.  Nothing here decides whether a step is right: Coq does.
"""

from __future__ import annotations

from mha_sym.export.coq_place import Place, descent, fronted, moved, shaped
from mha_sym.export.coq_positive import positive
from mha_sym.export.coq_shapes import branches, hole, holes, plain, tactic
from mha_sym.export.coq_sums import EXP
from mha_sym.export.coq_terms import NotExported
from mha_sym.proof.rules import product
from mha_sym.proof.terms import Add, Apply, Cmp, Entry, Inj, Join, Mul, Num, Perm, Term, children, equal

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


def _where_one(at: Place, end: str) -> str:
    """A factor may be replaced by what it is where some brackets among the other factors are 1."""
    writer, places, (inner, *below) = at.writer, at.args["brackets"], at.args["where"]
    called = dict(zip(places, ("p_", "q_"), strict=False))
    args = [bracket(called[n]) if n in called else hole(f"x{n}") for n in range(len(children(at.old)))]
    changed = [hole("y_") if n == inner else a for n, a in enumerate(args)]
    front, rest = fronted(at, args, (*places, inner))
    back, _ = fronted(at, changed, (*places, inner))
    kept = [r for r in rest if isinstance(r, Entry)]
    law = "guard" if len(places) == 1 else "guard_by_two"
    close = f"apply: (etrans ({law} {plain(kept)} E0)); {writer.same(back, Mul(tuple(changed)))}"
    proof = f"move=> E0; {moved(writer, Mul(tuple(args)), front, close)}"
    binders = f"({' '.join(called.values())} : bool) "
    binders += writer.scalars(*(a for a in args if a.name[0] == "?"), hole("y_"))
    statement = writer.equation(Mul(tuple(args)), Mul(tuple(changed)))
    given = f"({' -> '.join(called.values())} -> x{inner} = y_)"
    name = writer.shape("guard", binders, (given,), statement, proof)
    down = descent(writer, children(at.old)[inner], below)
    truths, holds = _holds(at)
    return tactic(f"apply: {name} => {truths}", down, f"exact: ({end} {holds})")


def _holds(at: Place) -> tuple[str, str]:
    """The names of what is known where the brackets are 1, and the proof that what they say together is true."""
    known = [children(at.old)[n] for n in at.args["brackets"]]
    match known:
        case [_]:
            return "holds", "holds"
        case [Cmp("le", low, middle, offset), Cmp("le", _, high, more)] if offset >= 0 and more >= 0:
            ends = " ".join(at.writer.printer.place(i) for i in (low, middle, high))
            return "holds more", f"(@ordered {ends} {offset} {more} holds more)"
    raise NotExported(
        "chained brackets with negative offsets, or of more than two, are not exported", where="export to Coq"
    )


def guard(at: Place) -> str:
    """``[P] f([P]) = [P] f(1)``, or two brackets of order and what follows from them."""
    return _where_one(at, "guarded _")


def spread(at: Place) -> str:
    """``[P] f(a) = [P] f([P] a)``."""
    return _where_one(at, "spread _")


def compare(at: Place) -> str:
    """The value of a bracket, or the same bracket on the parts of its positions."""
    match at.old, at.new:
        case Cmp(), Num(value) if not value:
            if isinstance(at.old.left, Inj) and isinstance(at.old.right, Inj):
                return _apart(at.old.left, at.old.right)
            return "exact: compare_false"
        case Cmp(_, left, right, _), Num():
            same = equal(left, right)
            return "apply: compare_true; by rewrite ?leqnn ?leq_addl ?eqxx" if same else "exact: compare_true"
        case Cmp(_, Join(_, left), Join(), _), _ if len(left) == 2:
            return "exact: compare_pair"
        case Cmp(_, Perm(_, _, _), Perm(), _), _:
            return "exact: compare_permuted"
        case Cmp(_, Inj(_, whole, number), Inj(), _), _ if len(whole.blocks) == 2:
            return "exact: compare_right" if number else "exact: compare_left"
    raise NotExported("a bracket of this kind is not exported", where="export to Coq")


def _apart(left: Inj, right: Inj) -> str:
    if len(left.domain.blocks) != 2 or not equal(left.domain, right.domain):
        raise NotExported("brackets between more than two blocks are not exported", where="export to Coq")
    return "exact: compare_apart" if left.number < right.number else "exact: compare_apart_back"
