"""Trusted: the laws that a proof may use, one row each, and the context in which they hold.

A rule takes the term at a place and its arguments, checks its side conditions, and returns the new term,
or raises `TermError`.  Which rule to use where is decided elsewhere and is not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from mha_sym.proof.scope import check_position, need
from mha_sym.proof.terms import (
    ONE,
    ZERO,
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
    TermError,
    Var,
    at_path,
    children,
    domain_key,
    equal,
    fixed_number,
    flat_args,
    free,
    fresh_var,
    index_key,
    index_vars,
    join,
    key,
    put_path,
    rename_apart,
    subst,
    sum_over,
)


@dataclass(frozen=True)
class Definition:
    """``name[params] := body``."""

    params: tuple[Var, ...]
    body: Term


@dataclass(frozen=True)
class Lemma:
    """An equation that was proved before, for all values of its variables."""

    variables: tuple[Var, ...]
    left: Term
    right: Term


@dataclass(frozen=True)
class Context:
    """What a statement takes for granted: definitions, 0/1 tensors, tables, bijections, positive terms, lemmas."""

    definitions: Mapping[str, Definition] = field(default_factory=dict)
    booleans: frozenset[str] = frozenset()
    tables: Mapping[str, Mapping[tuple[int, ...], Fraction]] = field(default_factory=dict)
    bijections: Mapping[str, Domain] = field(default_factory=dict)
    positive: tuple[tuple[tuple[Var, ...], Term], ...] = ()
    lemmas: Mapping[str, Lemma] = field(default_factory=dict)


def _parts(term: Term, kind: type[Add] | type[Mul], *positions: int) -> tuple[list[Term], list[Term]]:
    """The arguments at some positions, and the others."""
    if not isinstance(term, kind):
        raise TermError(f"not a {kind.__name__}")
    need(len(set(positions)) == len(positions), "a position is named twice")
    need(all(0 <= p < len(term.args) for p in positions), "no such argument")
    return [term.args[p] for p in positions], [a for n, a in enumerate(term.args) if n not in positions]


def _sum(term: Term) -> Bind:
    if not isinstance(term, Bind) or term.op != "sum":
        raise TermError("not a sum over an index")
    return term


def _function(term: Term, name: str) -> Term:
    if not isinstance(term, Apply) or term.name != name:
        raise TermError(f"not {name}(...)")
    return term.arg


def product(args: Sequence[Term]) -> Term:
    """The product of some terms."""
    return args[0] if len(args) == 1 else Mul(tuple(args)) if args else ONE


# ---------------------------------------------------------------- definitions and lemmas


def unfold(term: Term, context: Context) -> Term:
    """``x[i] = body[i]`` for ``x[p] := body``."""
    if not isinstance(term, Entry) or term.name not in context.definitions:
        raise TermError("not an entry of a defined tensor")
    definition = context.definitions[term.name]
    return subst(definition.body, _instance(definition.params, term.at))


def _instance(variables: tuple[Var, ...], at: tuple[Index, ...]) -> dict[str, Index]:
    need(len(at) == len(variables), "wrong number of positions")
    need(all(map(inside, at, variables)), "a position outside its axis")
    return {v.name: i for v, i in zip(variables, at, strict=True)}


def inside(index: Index, var: Var) -> bool:
    """Whether a position certainly lies in the domain of a variable."""
    try:
        check_position(index, var.domain, None, {})
    except TermError:
        return False
    return True


def table(term: Term, context: Context) -> Term:
    """An entry of a constant table at a fixed place is its value there."""
    if not isinstance(term, Entry) or term.name not in context.tables:
        raise TermError("not an entry of a constant table")
    place = tuple(n for n in map(fixed_number, term.at) if n is not None)
    need(len(place) == len(term.at) and place in context.tables[term.name], "not at a fixed place")
    return Num(context.tables[term.name][place])


def lemma(term: Term, context: Context, name: str, at: tuple[Index, ...], back: bool = False) -> Term:
    """``left = right`` was proved for all positions; used at some, in one direction or ``back``."""
    need(name in context.lemmas, "no such lemma")
    known = context.lemmas[name]
    new = _instance(known.variables, at)
    left, right = (known.right, known.left) if back else (known.left, known.right)
    need(equal(subst(left, new), term), "the lemma says something else")
    return subst(right, new)


# ---------------------------------------------------------------- sums and products


def arithmetic(term: Term, _: Context) -> Term:
    """Nesting opened, numbers and powers of sizes combined, ``0 a = 0``, ``1/(1/a) = a``, ``exp 0 = 1``."""
    if isinstance(term, Mul):
        return _multiply(flat_args(term))
    if isinstance(term, Add):
        args = flat_args(term)
        total = sum((a.value for a in args if isinstance(a, Num)), Fraction(0))
        rest = tuple(a for a in args if not isinstance(a, Num))
        every = (*rest, Num(total)) if total or not rest else rest
        return every[0] if len(every) == 1 else Add(every)
    if isinstance(term, Apply) and term.name == "inv":
        match term.arg:
            case Num(value):
                return Num(1 / value) if value else ZERO
            case Size(name, power):
                return Size(name, -power)
            case Apply("inv", arg):
                return arg
    if isinstance(term, Apply) and term.name == "exp" and term.arg == ZERO:
        return ONE
    raise TermError("no arithmetic to do")


def _multiply(args: tuple[Term, ...]) -> Term:
    number, powers = Fraction(1), dict[str, Fraction]()
    for arg in args:
        if isinstance(arg, Num):
            number *= arg.value
        elif isinstance(arg, Size):
            powers[arg.name] = powers.get(arg.name, Fraction(0)) + arg.power
    if number == 0:
        return ZERO
    for name in [n for n in powers if n.isdigit()]:  # a root of a fixed size: 5^(3/2) = 5 * 5^(1/2)
        whole = powers[name].numerator // powers[name].denominator
        number, powers[name] = number * Fraction(name) ** whole, powers[name] - whole
    rest: list[Term] = [a for a in args if not isinstance(a, Num | Size)]
    sizes: list[Term] = [Size(name, powers[name]) for name in sorted(powers) if powers[name]]
    first: list[Term] = [Num(number)] if number != 1 else []
    return product(first + sizes + rest)


def distribute(term: Term, _: Context, position: int) -> Term:
    """``a (b + c) = a b + a c``, the sum at a position."""
    (inner,), _rest = _parts(term, Mul, position)
    need(isinstance(inner, Add) and isinstance(term, Mul), "not a product with a sum in it")
    before, after = term.args[:position], term.args[position + 1 :]  # type: ignore[union-attr]
    return Add(tuple(Mul((*before, one, *after)) for one in children(inner)))


def take_out(term: Term, _: Context, positions: tuple[tuple[int, ...], ...]) -> Term:
    """``a b + a c = a (b + c)``, the factors named by their positions in each addend."""
    need(isinstance(term, Add) and len(positions) == len(children(term)), "one choice of factors an addend")
    taken, left = [], []
    for arg, chosen in zip(children(term), positions, strict=True):
        picked, rest = _parts(arg if isinstance(arg, Mul) else Mul((arg,)), Mul, *chosen)
        taken.append(picked)
        left.append(product(rest))
    need(all(equal(product(t), product(taken[0])) for t in taken), "the factors differ")
    return Mul((*taken[0], Add(tuple(left))))


def collect(term: Term, _: Context, first: int, second: int) -> Term:
    """``2 a + 3 a = 5 a`` for two addends that agree but for a rational factor."""
    (left, right), rest = _parts(term, Add, first, second)
    pairs = [_parted(t) for t in (left, right)]
    need(equal(pairs[0][1], pairs[1][1]), "not like terms")
    merged = Mul((Num(pairs[0][0] + pairs[1][0]), pairs[0][1]))
    return Add((*rest, merged)) if rest else merged


def _parted(term: Term) -> tuple[Fraction, Term]:
    args, number = [], Fraction(1)
    for arg in flat_args(term) if isinstance(term, Mul) else (term,):
        if isinstance(arg, Num):
            number *= arg.value
        else:
            args.append(arg)
    return number, product(args)


def pull(term: Term, _: Context, position: int) -> Term:
    """``a sum_i b = sum_i a b``; the index is renamed where ``a`` has one of that name."""
    (inner,), rest = _parts(term, Mul, position)
    bind = rename_apart(_sum(inner), frozenset().union(*map(free, rest)))
    args = list(children(term))
    args[position] = bind.body
    return sum_over(bind.var, Mul(tuple(args)))


def factor(term: Term, _: Context, positions: tuple[int, ...]) -> Term:
    """``sum_i a b = a sum_i b`` for factors ``a`` that do not depend on ``i``."""
    bind = _sum(term)
    out, inside = _parts(bind.body, Mul, *positions)
    need(all(bind.var.name not in free(t) for t in out), "a factor depends on the summed index")
    return product([*out, sum_over(bind.var, product(inside))])


def exchange(term: Term, _: Context) -> Term:
    """``sum_i sum_j a = sum_j sum_i a``."""
    outer = _sum(term)
    inner = _sum(rename_apart(_sum(outer.body), frozenset({outer.var.name})))
    return sum_over(inner.var, sum_over(outer.var, inner.body))


def sum_of_sum(term: Term, _: Context) -> Term:
    """``sum_i (a + b) = sum_i a + sum_i b``."""
    bind = _sum(term)
    need(isinstance(bind.body, Add), "the summand is not a sum")
    return Add(tuple(sum_over(bind.var, one) for one in children(bind.body)))


def constant_sum(term: Term, _: Context) -> Term:
    """``sum_{i<n} a = n a`` for ``a`` that does not depend on ``i``."""
    bind = _sum(term)
    need(bind.var.name not in free(bind.body), "the summand depends on the index")
    return Mul((bind.var.domain.size, bind.body))


def split_sum(term: Term, _: Context) -> Term:
    """``sum_c f(c) = sum_r sum_j f((r, j))`` over a product axis."""
    bind = _sum(term)
    domain = bind.var.domain
    need(bool(domain.factors), "not over a product axis")
    taken, new = set(free(bind.body)) | {bind.var.name}, []
    for one in domain.factors:
        new.append(fresh_var(Var(one.name, one), taken) if one.name in taken else Var(one.name, one))
        taken.add(new[-1].name)
    body = subst(bind.body, {bind.var.name: join(domain, tuple(new))})
    for var in reversed(new):
        body = sum_over(var, body)
    return body


def enumerate_sum(term: Term, _: Context) -> Term:
    """``sum_{i<n} f(i) = f(0) + ... + f(n-1)`` over an axis of fixed size."""
    bind = _sum(term)
    size = bind.var.domain.size
    if not isinstance(size, Num) or bind.var.domain.factors or bind.var.domain.blocks:
        raise TermError("not over a plain axis of fixed size")
    return Add(tuple(subst(bind.body, {bind.var.name: At(n)}) for n in range(int(size.value))))


def delta(term: Term, _: Context, position: int) -> Term:
    """``sum_i [i = e] f(i) = f(e)`` for ``e`` in the range of ``i`` that does not depend on ``i``."""
    bind = _sum(term)
    (bracket,), rest = _parts(bind.body if isinstance(bind.body, Mul) else Mul((bind.body,)), Mul, position)
    if not isinstance(bracket, Cmp) or bracket.op != "eq" or bracket.offset:
        raise TermError("not a bracket of equality")
    for here, there in ((bracket.left, bracket.right), (bracket.right, bracket.left)):
        if here == bind.var and bind.var.name not in index_vars(there) and inside(there, bind.var):
            return subst(product(rest), {bind.var.name: there})
    raise TermError("the bracket does not fix the summed index")


def reindex(term: Term, context: Context, name: str, inverse: bool) -> Term:
    """``sum_i f(i) = sum_i f(pi(i))`` for a bijection ``pi`` of the axis of ``i``."""
    bind = _sum(term)
    need(name in context.bijections and isinstance(inverse, bool), "no such bijection")
    need(domain_key(context.bijections[name]) == domain_key(bind.var.domain), "a bijection of another axis")
    return sum_over(bind.var, subst(bind.body, {bind.var.name: Perm(name, inverse, bind.var)}))


# ---------------------------------------------------------------- exponentials and inverses


def exp_of_sum(term: Term, _: Context) -> Term:
    """``exp(a + b) = exp(a) exp(b)``."""
    inner = _function(term, "exp")
    need(isinstance(inner, Add), "the exponent is not a sum")
    return Mul(tuple(Apply("exp", one) for one in children(inner)))


def exp_product(term: Term, _: Context, first: int, second: int) -> Term:
    """``exp(a) exp(b) = exp(a + b)``."""
    pair, rest = _parts(term, Mul, first, second)
    return product([*rest, Apply("exp", Add(tuple(_function(one, "exp") for one in pair)))])


def inverse_of_exp(term: Term, _: Context) -> Term:
    """``1/exp(a) = exp(-a)``."""
    return Apply("exp", Mul((Num(Fraction(-1)), _function(_function(term, "inv"), "exp"))))


def inverse_of_product(term: Term, _: Context) -> Term:
    """``1/(a b) = (1/a) (1/b)``."""
    inner = _function(term, "inv")
    need(isinstance(inner, Mul), "not the inverse of a product")
    return Mul(tuple(Apply("inv", one) for one in children(inner)))


def cancel(term: Term, context: Context, value: int, inverse: int, given: tuple[Any, ...] = ()) -> Term:
    """``a (1/a) = 1`` for ``a`` that is certainly positive, perhaps by assumptions ``given``."""
    (number, over), rest = _parts(term, Mul, value, inverse)
    need(equal(number, _function(over, "inv")), "the factors are not inverse to each other")
    known = frozenset(key(hypothesis(context, *one)) for one in given)
    need(is_positive(number, context, known), "the factor may be zero")
    return product(rest)


def hypothesis(context: Context, number: int, at: tuple[Index, ...]) -> Term:
    """An assumption of positivity at given positions."""
    need(0 <= number < len(context.positive), "no such assumption")
    variables, term = context.positive[number]
    return subst(term, _instance(variables, at))


def is_positive(term: Term, context: Context, known: frozenset[str]) -> bool:
    """Whether a term is certainly greater than zero; ``known`` are keys of terms assumed so."""
    if key(term) in known:
        return True
    match term:
        case Num(value):
            return value > 0
        case Size() | Apply("exp", _):
            return True
        case Apply("inv", arg):
            return is_positive(arg, context, known)
        case Add(args) | Mul(args):
            return bool(args) and all(is_positive(a, context, known) for a in args)
        case Bind("sum", _, body):
            return is_positive(body, context, known) or _row_kept(term, context, known)
        case _:
            return False


def _row_kept(term: Bind, context: Context, known: frozenset[str]) -> bool:
    """Whether a sum of brackets times positive factors has a bracket that is 1 somewhere."""
    args = flat_args(term.body) if isinstance(term.body, Mul) else (term.body,)
    brackets = [a for a in args if is_bracket(a, context)]
    if not all(a in brackets or is_positive(a, context, known) for a in args):
        return False
    if key(sum_over(term.var, product(brackets))) in known:
        return True
    return all(_holds(subst(a, {term.var.name: At(0)})) for a in brackets)


def is_bracket(term: Term, context: Context) -> bool:
    """Whether a term is 0 or 1 by declaration."""
    return isinstance(term, Cmp) or (isinstance(term, Entry) and term.name in context.booleans)


def _holds(term: Term) -> bool:
    """Whether a bracket is certainly 1: ``i <= i + 2``, ``0 <= i``."""
    if not isinstance(term, Cmp):
        return False
    low, same = 0, index_key(term.left) == index_key(term.right)
    if isinstance(term.right, At):
        low = term.right.number
    if term.op == "le":
        return (same and term.offset >= 0) or (isinstance(term.left, At) and term.left.number <= low + term.offset)
    return same and term.offset == 0


# ---------------------------------------------------------------- brackets


def idempotent(term: Term, context: Context, first: int, second: int) -> Term:
    """``[P] [P] = [P]``."""
    (left, right), rest = _parts(term, Mul, first, second)
    need(is_bracket(left, context) and equal(left, right), "not the same bracket twice")
    return product([left, *rest])


def guard(term: Term, context: Context, bracket: int, where: tuple[int, ...]) -> Term:
    """``[P] f([P]) = [P] f(1)``: where the first is 0, both sides are 0."""
    need(equal(_guarding(term, context, bracket, where), at_path(term, where)), "not the same bracket")
    return put_path(term, where, ONE)


def spread(term: Term, context: Context, bracket: int, where: tuple[int, ...]) -> Term:
    """``[P] f(a) = [P] f([P] a)``: where the bracket is 0, both sides are 0."""
    return put_path(term, where, Mul((_guarding(term, context, bracket, where), at_path(term, where))))


def _guarding(term: Term, context: Context, bracket: int, where: tuple[int, ...]) -> Term:
    """The bracket, if it is one that says the same at a path into another factor."""
    (known,), _rest = _parts(term, Mul, bracket)
    need(is_bracket(known, context), "not a bracket")
    need(bool(where) and where[0] != bracket, "a bracket does not guard itself")
    for end in range(len(where)):
        node = at_path(term, where[:end])
        need(not isinstance(node, Bind) or node.var.name not in free(known), "the bracket is not about this index")
    return known


def chain(term: Term, _: Context, first: int, second: int) -> Term:
    """``[a <= b] [b <= c]`` may take ``[a <= c]`` along."""
    (left, right), rest = _parts(term, Mul, first, second)
    return product([left, right, _composed(left, right), *rest])


def unchain(term: Term, _: Context, first: int, second: int, third: int) -> Term:
    """``[a <= b] [b <= c] [a <= c]`` may drop the last."""
    (left, right, implied), rest = _parts(term, Mul, first, second, third)
    need(equal(_composed(left, right), implied), "the bracket is not implied")
    return product([left, right, *rest])


def _composed(left: Term, right: Term) -> Cmp:
    if not (isinstance(left, Cmp) and isinstance(right, Cmp) and left.op == right.op == "le"):
        raise TermError("not two brackets of order")
    need(index_key(left.right) == index_key(right.left), "the brackets do not meet")
    return Cmp("le", left.left, right.right, left.offset + right.offset)


def compare(term: Term, _: Context) -> Term:
    """The value of a bracket that its positions decide, or the same bracket on their parts."""
    if not isinstance(term, Cmp):
        raise TermError("not a bracket")
    if _holds(term):
        return ONE
    match term:
        case Cmp(op, At(left), At(right), offset):
            return ONE if (left <= right + offset if op == "le" else left == right + offset) else ZERO
        case Cmp("eq", Join(a, left), Join(b, right), 0) if domain_key(a) == domain_key(b):
            return Mul(tuple(Cmp("eq", x, y) for x, y in zip(left, right, strict=True)))
        case Cmp("eq", Inj(left, a, m), Inj(right, b, n), 0) if domain_key(a) == domain_key(b):
            return Cmp("eq", left, right) if m == n else ZERO
        case Cmp("eq", Perm(a, x, left), Perm(b, y, right), 0) if (a, x) == (b, y):
            return Cmp("eq", left, right)
        case _:
            raise TermError("the bracket stays open")


#: every rule by its name; `mha_sym.proof.cards` says of each what it means
RULES: dict[str, Callable[..., Term]] = {
    rule.__name__: rule
    for rule in (
        unfold, table, lemma, arithmetic, distribute, take_out, collect, pull, factor, exchange, sum_of_sum,
        constant_sum, split_sum, enumerate_sum, delta, reindex, exp_of_sum, exp_product, inverse_of_exp,
        inverse_of_product, cancel, idempotent, guard, spread, chain, unchain, compare,
    )
}  # fmt: skip
