"""One proof script for each rule of the kernel: the law from ``proofs/coq/rules.v`` at the place of a step.

Defines `script`, which proves that a term equals what a step makes of it.  Nothing here decides whether a
step is right: Coq does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mha_sym.export.coq_positive import positive
from mha_sym.export.coq_shapes import (
    REFL,
    I,
    N,
    Writer,
    branches,
    family,
    hole,
    holes,
    plain,
    tactic,
)
from mha_sym.export.coq_terms import NotExported
from mha_sym.proof.checker import Step
from mha_sym.proof.rules import RULES, Context, product, sum_over
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Perm,
    Size,
    Term,
    Var,
    at_path,
    children,
    domain_key,
    index_key,
    subst,
)

EXP = "exp_add exp_positive"


@dataclass(frozen=True)
class Place:
    """A term, what the step makes of it, and the step."""

    writer: Writer
    context: Context
    old: Term
    new: Term
    args: Mapping[str, Any]


def script(
    writer: Writer, context: Context, variables: Iterable[str], whole: Term, after: Term, step: Step
) -> str:
    """A script for ``whole = after``, for all values of some variables: down the path, then the law of the rule."""
    old, new = at_path(whole, step.path), at_path(after, step.path)
    if step.rule not in _SCRIPTS:
        raise NotExported(f"the rule {step.rule!r} is not exported", where="export to Coq")
    with writer.printer.entered(*variables):
        down = descent(writer, whole, step.path)
        return tactic(down, _SCRIPTS[step.rule](Place(writer, context, old, new, step.args)))


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


# ---------------------------------------------------------------- definitions and lemmas


def _unfold(at: Place) -> str:
    assert isinstance(at.old, Entry)
    definition = at.context.definitions[at.old.name]
    new = {v.name: i for v, i in zip(definition.params, at.old.at, strict=True)}
    name = at.writer.printer.names.of("tensor", at.old.name)
    return tactic(f"rewrite /{name}", settle(substituted(definition.body, new)))


def _table(at: Place) -> str:
    return REFL


def _lemma(at: Place) -> str:
    known = at.context.lemmas[at.args["name"]]
    new = {v.name: i for v, i in zip(known.variables, at.args["at"], strict=True)}
    left, right = (known.right, known.left) if at.args.get("back") else (known.left, known.right)
    printer = at.writer.printer
    places = [printer.index(i, v.domain) for i, v in zip(at.args["at"], known.variables, strict=True)]
    law = " ".join([printer.names.of("theorem", at.args["name"]), *places])
    law = f"esym ({law})" if at.args.get("back") else law
    simplified = substituted(left, new) or substituted(right, new)
    first = subst(left, new)
    moved = "" if printer.term(first) == printer.term(at.old) else at.writer.same(at.old, first)
    start = f"have known := {law}" + ("; rewrite !positions in known" if simplified else "")
    if not moved:
        return tactic(start, "exact: known")
    return f"{start}; apply: (@etrans _ _ {printer.term(first)}); [{moved} | exact: known]"


# ---------------------------------------------------------------- sums and products


def _arithmetic(at: Place) -> str:
    match at.old:
        case Apply("inv", Num(value)) if value:
            product_ = Mul((at.old.arg, at.new))
            return f"apply: inverse_of_number; {at.writer.same(product_, Num(value / value))}"
        case Apply("inv", Num()):
            return "exact: invr0"
        case Apply("inv", Size(_, power)):
            return "exact: invrK" if power < 0 else REFL
        case Apply("inv", Apply("inv", _)):
            return "exact: inverse_of_inverse"
        case Apply("exp", _):
            return f"exact: (exp_of_zero {EXP})"
    return at.writer.same(at.old, at.new)


def _shaped(at: Place, law: str, old: Term, binders: str, proof: str, new: Term | None = None, **args: Any) -> str:
    """The law as a lemma about variables at the places of the step; the kernel's rule says what it makes of them."""
    made = RULES[law](old, at.context, **args) if new is None else new
    name = at.writer.shape(law, binders, (), at.writer.equation(old, made), proof)
    return f"exact: {name}"


def _distribute(at: Place) -> str:
    position = at.args["position"]
    x = holes("x", len(children(at.old)))
    y = holes("y", len(children(children(at.old)[position])))
    before, after = x[:position], x[position + 1 :]
    proof = f"exact: (distribute {plain(before)} {plain(y)} {plain(after)})"
    return _shaped(
        at, "distribute", Mul((*before, Add(y), *after)), at.writer.scalars(*before, *y, *after), proof, **at.args
    )


def _take_out(at: Place) -> str:
    writer, chosen = at.writer, at.args["positions"]
    factors = [a.args if isinstance(a, Mul) else (a,) for a in children(at.old)]
    x = holes("x", len(chosen[0]))
    old, rests, hypotheses, inner, binders = [], [], [], [], [*x]
    for number, (args, picked) in enumerate(zip(factors, chosen, strict=True)):
        held = [hole(f"y{number}_{n}") for n in range(len(args))]
        if number == 0:
            for one, place in zip(x, picked, strict=True):
                held[place] = one
        rest = [h for n, h in enumerate(held) if n not in picked]
        rests.append(product(rest))
        binders += rest
        if number:
            names = [held[n] for n in picked]
            binders += names
            hypotheses.append(writer.equation(product(names), product(x)))
            inner.append(writer.same(product([args[n] for n in picked]), product([factors[0][n] for n in chosen[0]])))
        old.append(Mul(tuple(held)) if len(held) > 1 else held[0])
    raw: Term = Add(tuple(old))
    made = Mul((*x, Add(tuple(rests))))
    middle = Add(tuple(Mul((product(x), r)) for r in rests))
    proof = _taken_out(writer, old, chosen, x, rests, middle, made)
    listed = writer.scalars(*binders)
    name = writer.shape("take_out", listed, hypotheses, writer.equation(raw, made), proof)
    return branches(f"apply: {name}", inner) if inner else f"exact: {name}"


def _taken_out(
    writer: Writer, old: Sequence[Term], chosen: Sequence[tuple[int, ...]], x: Sequence[Entry], rests: Sequence[Term],
    middle: Add, made: Term,
) -> str:  # fmt: skip
    """Each addend is the common factor times its rest; then the law."""
    names = [f"H{n}" for n in range(1, len(old))]
    steps = []
    for number, addend in enumerate(old):
        args = addend.args if isinstance(addend, Mul) else (addend,)
        picked = product([args[n] for n in chosen[number]])
        split = writer.same(addend, Mul((picked, rests[number])))
        last = number == len(old) - 1
        done = f"apply: (etrans (y := {writer.printer.term(Mul((picked, rests[number])))})); [{split} | "
        done += f"by rewrite ?H{number}]" if number else "reflexivity]"
        steps.append(done)
        del last
    both = "congr (_ + _)" if len(old) > 1 else ""
    script_ = steps[-1]
    for one in reversed(steps[:-1]):
        script_ = f"apply: (f_equal2 +%R); [{one} | {script_}]"
    del both
    listed = "[:: " + "; ".join(writer.printer.term(r) for r in rests) + "]"
    law = f"apply: (etrans (take_out {writer.printer.term(product(x))} {listed}))"
    end = writer.same(Mul((product(x), Add(tuple(rests)))), made)
    moves = f"move=> {' '.join(names)}" if names else ""
    return tactic(moves, f"apply: (etrans (y := {writer.printer.term(middle)})); [{script_} | {tactic(law, end)}]")


def _collect(at: Place) -> str:
    writer, (first, second) = at.writer, (at.args["first"], at.args["second"])
    args = children(at.old)
    left, right = args[first], args[second]
    rest = [a for n, a in enumerate(args) if n not in (first, second)]
    merged = children(at.new)[-1] if rest else at.new
    total, base = children(merged)
    moved = Add((*rest, Add((left, right))))
    numbers = [_number(left), _number(right)]
    law = tactic(*["apply: in_addends"] * len(rest))
    ends = [
        writer.same(left, Mul((numbers[0], base))), writer.same(right, Mul((numbers[1], base))),
        writer.same(Add((numbers[0], numbers[1])), total),
    ]  # fmt: skip
    end = tactic(law, branches("apply: collect", ends))
    if writer.printer.term(moved) == writer.printer.term(at.old):
        return end
    return f"apply: (etrans (y := {writer.printer.term(moved)})); [{writer.same(at.old, moved)} | {end}]"


def _number(term: Term) -> Num:
    from mha_sym.proof.rules import _parted

    return Num(_parted(term)[0])


def _pull(at: Place) -> str:
    position, x = at.args["position"], holes("x", len(children(at.old)))
    before, after, f = x[:position], x[position + 1 :], family("F")
    proof = f"exact: (pull {plain(before)} F {plain(after)})"
    binders = f"{at.writer.scalars(*before, *after)} {at.writer.families(f)}".strip()
    return _shaped(at, "pull", Mul((*before, sum_over(I, f), *after)), binders, proof, **at.args)


def _factor(at: Place) -> str:
    assert isinstance(at.old, Bind) and isinstance(at.old.body, Mul)
    writer, chosen = at.writer, at.args["positions"]
    args = [hole(f"x{n}") if n in chosen else family(f"F{n}") for n in range(len(at.old.body.args))]
    out, inside = [args[n] for n in chosen], [a for n, a in enumerate(args) if n not in chosen]
    split = Mul((product(out), product(inside)))
    old, middle = sum_over(I, Mul(tuple(args))), Mul((product(out), sum_over(I, product(inside))))
    made = RULES["factor"](old, at.context, positions=chosen)
    first = f"apply: in_sum => i; {writer.same(Mul(tuple(args)), split)}"
    inner_sum = sum_over(I, split)
    proof = f"apply: (etrans (y := {writer.printer.term(inner_sum)})); [{first} | apply: (etrans (factor _ _)); "
    proof += f"{writer.same(middle, made)}]"
    binders = f"{writer.scalars(*sorted(out, key=lambda e: e.name))} {writer.families(*inside)}".strip()
    return _shaped(at, "factor", old, binders, proof, made)


def _exchange(at: Place) -> str:
    return "exact: exchange"


def _sum_of_sum(at: Place) -> str:
    assert isinstance(at.old, Bind)
    f = [family(f"F{n}") for n in range(len(children(at.old.body)))]
    proof = f"exact: (sum_of_sum {plain(f)})"
    return _shaped(at, "sum_of_sum", sum_over(I, Add(tuple(f))), at.writer.families(*f), proof)


def _constant_sum(at: Place) -> str:
    assert isinstance(at.old, Bind)
    domain = at.old.var.domain
    counted = _counted(domain)
    opened = "" if isinstance(counted, Num | Size) else "rewrite ?(natrM, natrD, natrX)"
    end = REFL if isinstance(counted, Num) else at.writer.same(counted, domain.size)
    return tactic("apply: constant_sum", opened, end)


def _counted(domain: Domain) -> Term:
    """The number of positions as it is written for Coq."""
    if domain.factors:
        if isinstance(domain.size, Num):
            return domain.size
        return Mul(tuple(_counted(d) for d in domain.factors))
    return Add(tuple(_counted(d) for d in domain.blocks)) if domain.blocks else domain.size


def _split_sum(at: Place) -> str:
    assert isinstance(at.old, Bind)
    domain, inner, found = at.old.var.domain, at.new, []
    variables = []
    for _ in domain.factors:
        assert isinstance(inner, Bind)
        variables.append(inner.var)
        inner = inner.body
    for number, var in enumerate(variables):
        if number < len(variables) - 1:
            found.append("apply: (etrans (split_sum _))")
        found.append(f"apply: in_sum => {at.writer.printer.enter(var.name)}")
    simplified = substituted(at.old.body, {at.old.var.name: Join(domain, tuple(variables))})
    return tactic(*found, settle(simplified))


def _enumerate_sum(at: Place) -> str:
    assert isinstance(at.old, Bind)
    var, printer = at.old.var, at.writer.printer
    count = len(children(at.new))
    places = "; ".join(printer.index(At(n), var.domain) for n in range(count))
    return f"exact: (enumerate_sum _ (s := [:: {places}]) erefl)"


def _delta(at: Place) -> str:
    assert isinstance(at.old, Bind)
    position, body, var = at.args["position"], at.old.body, at.old.var
    args = body.args if isinstance(body, Mul) else (body,)
    bracket = args[position]
    assert isinstance(bracket, Cmp)
    ahead = bracket.left == var
    e = Var("?e", N)
    f = [family(f"F{n}") for n in range(len(args))]
    before, after = f[:position], f[position + 1 :]
    inner = (*before, Cmp("eq", I, e) if ahead else Cmp("eq", e, I), *after)
    old = sum_over(I, Mul(inner) if isinstance(body, Mul) else inner[0])
    made = RULES["delta"](old, at.context, position=position)
    binders = f"{at.writer.families(*before, *after)} (e : 'I_n)"
    proof = f"exact: ({'delta' if ahead else 'delta_back'} e {plain(before)} {plain(after)})"
    name = at.writer.shape("delta", binders, (), at.writer.equation(old, made), proof)
    there = bracket.right if ahead else bracket.left
    simplified = substituted(product([a for n, a in enumerate(args) if n != position]), {var.name: there})
    return f"exact: {name}" if not simplified else tactic(f"apply: (etrans {_applied(name, before, after)})", settle(True))


def _applied(name: str, before: Sequence[Entry], after: Sequence[Entry]) -> str:
    return f"({name} {' '.join('_' for _ in (*before, *after))} _)"


def _reindex(at: Place) -> str:
    assert isinstance(at.old, Bind) and isinstance(at.new, Bind)
    name, inverse = at.args["name"], at.args["inverse"]
    law = f"(reindex_sum {at.writer.printer.bijection(name, inverse)} _)"
    if not substituted(at.old.body, {at.old.var.name: Perm(name, inverse, at.old.var)}):
        return f"exact: {law}"
    var = at.writer.printer.enter(at.new.var.name)
    return tactic(f"apply: (etrans {law})", f"apply: in_sum => {var}", settle(True))


# ---------------------------------------------------------------- exponentials and inverses


def _exp_of_sum(at: Place) -> str:
    assert isinstance(at.old, Apply)
    x = holes("x", len(children(at.old.arg)))
    proof = f"exact: (exp_of_sum {EXP} {plain(x)})"
    return _shaped(at, "exp_of_sum", Apply("exp", Add(x)), at.writer.scalars(*x), proof)


def _fronted(at: Place, args: Sequence[Term], positions: Sequence[int]) -> tuple[Mul, list[Term]]:
    """The product with some factors in front, and the other factors."""
    rest = [a for n, a in enumerate(args) if n not in positions]
    return Mul((*(args[n] for n in positions), *rest)), rest


def _exp_product(at: Place) -> str:
    first, second = at.args["first"], at.args["second"]
    x = list(holes("x", len(children(at.old))))
    args: list[Term] = [Apply("exp", h) if n in (first, second) else h for n, h in enumerate(x)]
    front, _ = _fronted(at, args, (first, second))
    rest = [h for n, h in enumerate(x) if n not in (first, second)]
    law = f"exact: (exp_product exp_add x{first} x{second} {plain(rest)})"
    proof = _moved(at.writer, Mul(tuple(args)), front, law)
    return _shaped(at, "exp_product", Mul(tuple(args)), at.writer.scalars(*x), proof, **at.args)


def _moved(writer: Writer, old: Term, new: Term, law: str) -> str:
    """First ``old = new`` by the order of factors, then the law."""
    if writer.printer.term(old) == writer.printer.term(new):
        return law
    return f"apply: (etrans (y := {writer.printer.term(new)})); [{writer.same(old, new)} | {law}]"


def _inverse_of_exp(at: Place) -> str:
    return f"exact: (inverse_of_exp {EXP})"


def _inverse_of_product(at: Place) -> str:
    assert isinstance(at.old, Apply)
    x = holes("x", len(children(at.old.arg)))
    proof = f"exact: (inverse_of_product {plain(x)})"
    return _shaped(at, "inverse_of_product", Apply("inv", Mul(x)), at.writer.scalars(*x), proof)


def _cancel(at: Place) -> str:
    writer, positions = at.writer, (at.args["value"], at.args["inverse"])
    x = list(holes("x", len(children(at.old))))
    args: list[Term] = [Apply("inv", h) if n == positions[1] else h for n, h in enumerate(x)]
    front, rest = _fronted(at, args, positions)
    law = f"exact: (cancel {plain([r for r in rest if isinstance(r, Entry)])} E0 P0)"
    proof = f"move=> E0 P0; {_moved(writer, Mul(tuple(args)), front, law)}"
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


def _idempotent(at: Place) -> str:
    positions = at.args["first"], at.args["second"]
    args = [bracket("p") if n in positions else hole(f"x{n}") for n in range(len(children(at.old)))]
    front, rest = _fronted(at, args, positions)
    kept = [h for h in args if h.name != "!p"]
    proof = _moved(at.writer, Mul(tuple(args)), front, f"exact: (idempotent p {plain(kept)})")
    binders = f"(p : bool) {at.writer.scalars(*kept)}".strip()
    return _shaped(at, "idempotent", Mul(tuple(args)), binders, proof, product([bracket("p"), *rest]))


def _where_one(at: Place, end: str) -> str:
    writer, place, (inner, *below) = at.writer, at.args["bracket"], at.args["where"]
    args = [bracket("p") if n == place else hole(f"x{n}") for n in range(len(children(at.old)))]
    changed = [hole("y") if n == inner else a for n, a in enumerate(args)]
    front, rest = _fronted(at, args, (place, inner))
    back, _ = _fronted(at, changed, (place, inner))
    kept = [r for r in rest if isinstance(r, Entry)]
    close = f"apply: (etrans (guard {plain(kept)} E0)); {writer.same(back, Mul(tuple(changed)))}"
    proof = f"move=> E0; {_moved(writer, Mul(tuple(args)), front, close)}"
    scalars = writer.scalars(*(a for a in args if a.name != "!p"), hole("y"))
    statement = writer.equation(Mul(tuple(args)), Mul(tuple(changed)))
    name = writer.shape("guard", f"(p : bool) {scalars}", (f"(p -> x{inner} = y)",), statement, proof)
    down = descent(writer, children(at.old)[inner], below)
    return tactic(f"apply: {name} => holds", down, end)


def _guard(at: Place) -> str:
    return _where_one(at, "exact: (guarded _ holds)")


def _spread(at: Place) -> str:
    return _where_one(at, "exact: (spread _ holds)")


def _chained(at: Place, positions: Sequence[int], implied: Cmp, back: bool) -> str:
    writer, count = at.writer, len(children(at.old))
    called = dict(zip(positions, ("p", "q", "t"), strict=False))
    args = [bracket(called[n]) if n in called else hole(f"x{n}") for n in range(count)]
    front, rest = _fronted(at, args, positions)
    kept = [h for h in args if h.name[0] == "?"]
    law = f"implied {plain(kept)} E0"
    law = f"exact: (esym ({law}))" if back else f"exact: ({law})"
    proof = f"move=> E0; {_moved(writer, Mul(tuple(args)), front, law)}"
    made = product([bracket("p"), bracket("q"), *([] if back else [bracket("t")]), *rest])
    binders = f"(p q t : bool) {writer.scalars(*kept)}".strip()
    name = writer.shape("chain", binders, ("(p -> q -> t)",), writer.equation(Mul(tuple(args)), made), proof)
    first, second = (children(at.old)[n] for n in positions[:2])
    assert isinstance(first, Cmp) and isinstance(second, Cmp)
    if first.offset < 0 or second.offset < 0:
        raise NotExported("chained brackets with negative offsets are not exported", where="export to Coq")
    ends = [writer.printer._place(i) for i in (first.left, first.right, second.right)]
    return f"apply: {name}; exact: (@ordered {' '.join(ends)} {first.offset} {second.offset})"


def _chain(at: Place) -> str:
    positions = at.args["first"], at.args["second"]
    (implied,) = (a for n, a in enumerate(children(at.new)) if n == 2)
    assert isinstance(implied, Cmp)
    return _chained(at, positions, implied, False)


def _unchain(at: Place) -> str:
    positions = at.args["first"], at.args["second"], at.args["third"]
    implied = children(at.old)[positions[2]]
    assert isinstance(implied, Cmp)
    return _chained(at, positions, implied, True)


def _compare(at: Place) -> str:
    match at.old, at.new:
        case Cmp(), Num(value) if not value:
            if isinstance(at.old.left, Inj) and isinstance(at.old.right, Inj):
                return _apart(at.old.left, at.old.right)
            return "exact: compare_false"
        case Cmp(_, left, right, _), Num():
            same = index_key(left) == index_key(right)
            return "apply: compare_true; by rewrite ?leqnn ?leq_addl ?eqxx" if same else "exact: compare_true"
        case Cmp(_, Join(a, left), Join(), _), _ if len(left) == 2:
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


_SCRIPTS: dict[str, Callable[[Place], str]] = {
    "unfold": _unfold, "table": _table, "lemma": _lemma, "arithmetic": _arithmetic, "distribute": _distribute,
    "take_out": _take_out, "collect": _collect, "pull": _pull, "factor": _factor, "exchange": _exchange,
    "sum_of_sum": _sum_of_sum, "constant_sum": _constant_sum, "split_sum": _split_sum,
    "enumerate_sum": _enumerate_sum, "delta": _delta, "reindex": _reindex, "exp_of_sum": _exp_of_sum,
    "exp_product": _exp_product, "inverse_of_exp": _inverse_of_exp, "inverse_of_product": _inverse_of_product,
    "cancel": _cancel, "idempotent": _idempotent, "guard": _guard, "spread": _spread, "chain": _chain,
    "unchain": _unchain, "compare": _compare,
}  # fmt: skip
