"""Scripts for the rules about definitions, lemmas, sums and products.

One function a rule, of the rule's name.  Nothing here decides whether a step is right: Coq does.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from mha_sym.export.coq_place import Place, settle, shaped, substituted
from mha_sym.export.coq_shapes import REFL, I, N, branches, family, hole, holes, plain, tactic
from mha_sym.proof.rules import RULES, product
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Join,
    Mul,
    Num,
    Perm,
    Size,
    Term,
    Var,
    children,
    flat_args,
    subst,
    sum_over,
)

#: what the laws of the exponential rest on
EXP = "exp_add exp_positive"


# ---------------------------------------------------------------- definitions and lemmas


def unfold(at: Place) -> str:
    """An entry of a defined tensor is its definition there."""
    assert isinstance(at.old, Entry)
    definition = at.context.definitions[at.old.name]
    new = {v.name: i for v, i in zip(definition.params, at.old.at, strict=True)}
    name = at.writer.printer.names.of("tensor", at.old.name)
    return tactic(f"rewrite /{name}", settle(substituted(definition.body, new)))


def table(at: Place) -> str:
    """An entry of a constant table is computed."""
    return REFL


def lemma(at: Place) -> str:
    """What was proved before, at some positions, forwards or back."""
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


def arithmetic(at: Place) -> str:
    """Order, grouping, numbers and powers of sizes, decided by computation."""
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


def distribute(at: Place) -> str:
    """``a (b + c) = a b + a c``."""
    position = at.args["position"]
    x = holes("x", len(children(at.old)))
    y = holes("y", len(children(children(at.old)[position])))
    before, after = x[:position], x[position + 1 :]
    proof = f"exact: (distribute {plain(before)} {plain(y)} {plain(after)})"
    return shaped(
        at, "distribute", Mul((*before, Add(y), *after)), at.writer.scalars(*before, *y, *after), proof, **at.args
    )


def take_out(at: Place) -> str:
    """Each addend is the common factor times its rest; then the law."""
    writer, chosen = at.writer, at.args["positions"]
    addends = [a.args if isinstance(a, Mul) else (a,) for a in children(at.old)]
    picked = [product([args[n] for n in places]) for args, places in zip(addends, chosen, strict=True)]
    rests = [
        product([a for n, a in enumerate(args) if n not in places])
        for args, places in zip(addends, chosen, strict=True)
    ]  # fmt: skip
    split = [Mul((picked[0], rest)) for rest in rests]
    parts = [writer.same(addend, new) for addend, new in zip(children(at.old), split, strict=True)]
    script = parts[-1]
    for one in reversed(parts[:-1]):
        script = f"apply: (f_equal2 +%R); [{one} | {script}]"
    common, listed = writer.printer.term(picked[0]), "; ".join(map(writer.printer.term, rests))
    law = f"apply: (etrans (take_out {common} [:: {listed}]))"
    end = tactic(law, writer.same(Mul((picked[0], Add(tuple(rests)))), at.new))
    return f"apply: (etrans (y := {writer.printer.term(Add(tuple(split)))})); [{script} | {end}]"


def collect(at: Place) -> str:
    """``2 a + 3 a = 5 a``, with both addends brought to that form first."""
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
    """The rational factor of an addend."""
    args = flat_args(term, Mul)
    return Num(prod((a.value for a in args if isinstance(a, Num)), start=Fraction(1)))


def pull(at: Place) -> str:
    """``a sum_i b = sum_i a b``."""
    position, x = at.args["position"], holes("x", len(children(at.old)))
    before, after, f = x[:position], x[position + 1 :], family("F")
    proof = f"exact: (pull {plain(before)} F {plain(after)})"
    binders = f"{at.writer.scalars(*before, *after)} {at.writer.families(f)}".strip()
    return shaped(at, "pull", Mul((*before, sum_over(I, f), *after)), binders, proof, **at.args)


def factor(at: Place) -> str:
    """``sum_i a b = a sum_i b``."""
    assert isinstance(at.old, Bind) and isinstance(at.old.body, Mul)
    writer, chosen = at.writer, at.args["positions"]
    args = [hole(f"x{n}") if n in chosen else family(f"F{n}") for n in range(len(at.old.body.args))]
    out, inside = [args[n] for n in chosen], [a for n, a in enumerate(args) if n not in chosen]
    split = Mul((product(out), product(inside)))
    old, middle = sum_over(I, Mul(tuple(args))), Mul((product(out), sum_over(I, product(inside))))
    made = RULES["factor"](old, at.context, positions=chosen)
    first = f"apply: in_sum => i_; {writer.same(Mul(tuple(args)), split)}"
    inner_sum = sum_over(I, split)
    proof = f"apply: (etrans (y := {writer.printer.term(inner_sum)})); [{first} | apply: (etrans (factor _ _)); "
    proof += f"{writer.same(middle, made)}]"
    binders = f"{writer.scalars(*sorted(out, key=lambda e: e.name))} {writer.families(*inside)}".strip()
    return shaped(at, "factor", old, binders, proof, made)


def exchange(at: Place) -> str:
    """``sum_i sum_j a = sum_j sum_i a``."""
    return "exact: exchange"


def sum_of_sum(at: Place) -> str:
    """``sum_i (a + b) = sum_i a + sum_i b``."""
    assert isinstance(at.old, Bind)
    f = [family(f"F{n}") for n in range(len(children(at.old.body)))]
    proof = f"exact: (sum_of_sum {plain(f)})"
    return shaped(at, "sum_of_sum", sum_over(I, Add(tuple(f))), at.writer.families(*f), proof)


def constant_sum(at: Place) -> str:
    """``sum_{i<n} a = n a``, and ``n`` is the product of the sizes."""
    assert isinstance(at.old, Bind)
    domain = at.old.var.domain
    counted = _counted(domain)
    opened = "" if isinstance(counted, Num | Size) else "rewrite ?(natrM, natrD, natrX)"
    end = REFL if isinstance(counted, Num) else at.writer.same(counted, domain.size)
    return tactic("apply: constant_sum", opened, end)


def _counted(domain: Domain) -> Term:
    """The number of positions as it is written for Coq."""
    if domain.factors:
        return Mul(tuple(_counted(d) for d in domain.factors))
    return Add(tuple(_counted(d) for d in domain.blocks)) if domain.blocks else domain.size


def split_sum(at: Place) -> str:
    """``sum_c f(c) = sum_r sum_j f((r, j))``."""
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


def enumerate_sum(at: Place) -> str:
    """``sum_{i<n} f(i) = f(0) + ... + f(n-1)``."""
    assert isinstance(at.old, Bind)
    var, printer = at.old.var, at.writer.printer
    count = len(children(at.new))
    places = "; ".join(printer.index(At(n), var.domain) for n in range(count))
    return f"exact: (enumerate_sum _ (s := [:: {places}]) erefl)"


def delta(at: Place) -> str:
    """``sum_i [i = e] f(i) = f(e)``."""
    assert isinstance(at.old, Bind)
    position, body, var = at.args["position"], at.old.body, at.old.var
    args = body.args if isinstance(body, Mul) else (body,)
    bracket = args[position]
    assert isinstance(bracket, Cmp)
    ahead = bracket.left == var
    e = Var("?e_", N)
    f = [family(f"F{n}") for n in range(len(args))]
    before, after = f[:position], f[position + 1 :]
    inner: tuple[Term, ...] = (*before, Cmp("eq", I, e) if ahead else Cmp("eq", e, I), *after)
    old = sum_over(I, Mul(inner) if isinstance(body, Mul) else inner[0])
    made = RULES["delta"](old, at.context, position=position)
    binders = f"{at.writer.families(*before, *after)} (e_ : 'I_n_)"
    proof = f"exact: ({'delta' if ahead else 'delta_back'} e_ {plain(before)} {plain(after)})"
    name = at.writer.shape("delta", binders, (), at.writer.equation(old, made), proof)
    there = bracket.right if ahead else bracket.left
    simplified = substituted(product([a for n, a in enumerate(args) if n != position]), {var.name: there})
    return (
        f"exact: {name}" if not simplified else tactic(f"apply: (etrans {_applied(name, before, after)})", settle(True))
    )


def _applied(name: str, before: Sequence[Entry], after: Sequence[Entry]) -> str:
    return f"({name} {' '.join('_' for _ in (*before, *after))} _)"


def reindex(at: Place) -> str:
    """``sum_i f(i) = sum_i f(pi(i))``."""
    assert isinstance(at.old, Bind) and isinstance(at.new, Bind)
    name, inverse = at.args["name"], at.args["inverse"]
    law = f"(reindex_sum {at.writer.printer.bijection(name, inverse)} _)"
    if not substituted(at.old.body, {at.old.var.name: Perm(name, inverse, at.old.var)}):
        return f"exact: {law}"
    var = at.writer.printer.enter(at.new.var.name)
    return tactic(f"apply: (etrans {law})", f"apply: in_sum => {var}", settle(True))
