"""Trusted: the laws that a proof may use, one row each, and the context in which they hold.

A rule takes the term at a place and its arguments, checks its side conditions, and returns the new term,
or raises `TermError`.  Which rule to use where is decided elsewhere and is not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import floor, prod
from typing import Any

from mha_sym.proof.scope import check_position, need

from mha_sym.proof.terms import (  # isort: skip
    ONE, ZERO, Add, Apply, At, Bind, Cmp, Domain, Entry, Index, Inj, Join, Mul, Num, Perm, Size, Term, TermError, Var,
    at_path, children, equal, fixed_number, flat_args, free, fresh_var, join, key, put_path, rename_apart, subst,
    sum_over,
)  # fmt: skip


@dataclass(frozen=True)
class Definition:
    """``name[params] := body``."""

    params: tuple[Var, ...]
    body: Term


@dataclass(frozen=True)
class Goal:
    """``left = right`` for all positions of the variables: to be proved, or proved before and used as a lemma."""

    name: str
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
    lemmas: Mapping[str, Goal] = field(default_factory=dict)


def _parts(term: Term, kind: type[Add] | type[Mul], *positions: int) -> tuple[list[Term], list[Term]]:
    """The addends or factors at some positions, and the others; any other term is one of itself."""
    args = children(term) if isinstance(term, kind) else (term,)
    need(len(set(positions)) == len(positions), "a position is named twice")
    need(all(0 <= p < len(args) for p in positions), "no such argument")
    return [args[p] for p in positions], [a for n, a in enumerate(args) if n not in positions]


def _sum(term: Term) -> Bind:
    if not isinstance(term, Bind) or term.op != "sum":
        raise TermError("not a sum over an index")
    return term


def product(args: Sequence[Term]) -> Term:
    """The product of some terms."""
    return args[0] if len(args) == 1 else Mul(tuple(args)) if args else ONE


# ---------------------------------------------------------------- definitions and lemmas


def unfold(term: Term, context: Context) -> Term:
    """``x[i] = body[i]`` for ``x[p] := body``."""
    if not isinstance(term, Entry) or term.name not in context.definitions:
        raise TermError("not an entry of a defined tensor")
    definition = context.definitions[term.name]
    return subst(definition.body, _instance(context, definition.params, term.at))


def _instance(context: Context, variables: tuple[Var, ...], at: tuple[Index, ...]) -> dict[str, Index]:
    need(len(at) == len(variables), "wrong number of positions")
    for index, var in zip(at, variables, strict=True):
        check_position(index, var.domain, context.bijections, None)
    return {var.name: index for var, index in zip(variables, at, strict=True)}


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
    new = _instance(context, known.variables, at)
    left, right = subst(known.left, new), subst(known.right, new)
    need(equal(right if back else left, term), "the lemma says something else")
    return left if back else right


# ---------------------------------------------------------------- sums and products


def arithmetic(term: Term, _: Context) -> Term:
    """Nesting opened, numbers and powers of sizes combined, ``0 a = 0``, ``1/(1/a) = a``, ``exp 0 = 1``."""
    match term:
        case Mul():
            return _multiply(flat_args(term))
        case Add():
            rest = [a for a in flat_args(term) if not isinstance(a, Num)]
            total = sum((a.value for a in flat_args(term) if isinstance(a, Num)), Fraction(0))
            every = (*rest, Num(total)) if total or not rest else tuple(rest)
            return every[0] if len(every) == 1 else Add(every)
        case Apply("inv", Num(value)):
            return Num(1 / value) if value else ZERO
        case Apply("inv", Size(name, power)):
            return Size(name, -power)
        case Apply("inv", Apply("inv", arg)):
            return arg
        case Apply("exp", Num(value)) if not value:
            return ONE
    raise TermError("no arithmetic to do")


def _multiply(args: tuple[Term, ...]) -> Term:
    number = prod((a.value for a in args if isinstance(a, Num)), start=Fraction(1))
    powers = {a.name: Fraction(0) for a in args if isinstance(a, Size)}
    for size in (a for a in args if isinstance(a, Size)):
        powers[size.name] += size.power
    for name in filter(str.isdigit, powers):  # a root of a fixed size: 5^(3/2) = 5 * 5^(1/2)
        number *= Fraction(name) ** floor(powers[name])
        powers[name] -= floor(powers[name])
    sizes: list[Term] = [Size(name, powers[name]) for name in sorted(powers) if powers[name]]
    rest = [a for a in args if not isinstance(a, Num | Size)]
    return product([*([Num(number)] if number != 1 else []), *sizes, *rest]) if number else ZERO


def linear(term: Term, _: Context, position: int = 0) -> Term:
    """``f(a + b) = f(a) + f(b)``, ``f(sum_i a) = sum_i f(a)``, where ``f`` multiplies by other factors, or sums."""
    outer = free(put_path(term, (position,), ONE)) if isinstance(term, Mul) else {_sum(term).var.name}
    inner = at_path(term, (position,))
    if isinstance(inner, Add):
        return Add(tuple(put_path(term, (position,), one) for one in inner.args))
    bind = rename_apart(_sum(inner), outer)
    return sum_over(bind.var, put_path(term, (position,), bind.body))


def take_out(term: Term, _: Context, positions: tuple[tuple[int, ...], ...]) -> Term:
    """``a b + a c = a (b + c)``, the factors named by their positions in each addend."""
    need(isinstance(term, Add) and len(positions) == len(children(term)), "one choice of factors an addend")
    split = [_parts(one, Mul, *chosen) for one, chosen in zip(children(term), positions, strict=True)]
    need(all(equal(product(out), product(split[0][0])) for out, _ in split), "the factors differ")
    return Mul((*split[0][0], Add(tuple(product(rest) for _, rest in split))))


def collect(term: Term, _: Context, first: int, second: int) -> Term:
    """``2 a + 3 a = 5 a`` for two addends that agree but for a rational factor."""
    pair, rest = _parts(term, Add, first, second)
    numbers, bases = zip(*map(_parted, pair), strict=True)
    need(equal(*bases), "not like terms")
    merged = Mul((Num(sum(numbers)), bases[0]))
    return Add((*rest, merged)) if rest else merged


def _parted(term: Term) -> tuple[Fraction, Term]:
    args = flat_args(term, Mul)
    number = prod((a.value for a in args if isinstance(a, Num)), start=Fraction(1))
    return number, product([a for a in args if not isinstance(a, Num)])


def factor(term: Term, _: Context, positions: tuple[int, ...]) -> Term:
    """``sum_i a b = a sum_i b`` for factors ``a`` that do not depend on ``i``."""
    bind = _sum(term)
    out, rest = _parts(bind.body, Mul, *positions)
    need(bind.var.name not in free(tuple(out)), "a factor depends on the summed index")
    return product([*out, sum_over(bind.var, product(rest))])


def constant_sum(term: Term, _: Context) -> Term:
    """``sum_{i<n} a = n a`` for ``a`` that does not depend on ``i``."""
    bind = _sum(term)
    need(bind.var.name not in free(bind.body), "the summand depends on the index")
    return Mul((bind.var.domain.size, bind.body))


def split_sum(term: Term, _: Context) -> Term:
    """``sum_c f(c) = sum_r sum_j f((r, j))`` over a product axis."""
    var, taken, new = _sum(term).var, {*free(_sum(term).body), _sum(term).var.name}, list[Var]()
    need(bool(var.domain.factors), "not over a product axis")
    for one in var.domain.factors:
        new.append(fresh_var(Var(one.name, one), taken) if one.name in taken else Var(one.name, one))
        taken.add(new[-1].name)
    body = subst(_sum(term).body, {var.name: join(var.domain, tuple(new))})
    return reduce(lambda inner, one: sum_over(one, inner), reversed(new), body)


def enumerate_sum(term: Term, _: Context) -> Term:
    """``sum_{i<n} f(i) = f(0) + ... + f(n-1)`` over an axis of fixed size."""
    match _sum(term):
        case Bind(_, Var(name, Domain(_, Num(size), (), ())), body):
            return Add(tuple(subst(body, {name: At(n)}) for n in range(int(size))))
    raise TermError("not over a plain axis of fixed size")


def delta(term: Term, context: Context, position: int) -> Term:
    """``sum_i [i = e] f(i) = f(e)`` for ``e`` in the range of ``i`` that does not depend on ``i``."""
    var = _sum(term).var
    (bracket,), rest = _parts(_sum(term).body, Mul, position)
    if not isinstance(bracket, Cmp) or bracket.op != "eq" or bracket.offset:
        raise TermError("not a bracket of equality")
    there = bracket.right if bracket.left == var else bracket.left
    need(var in (bracket.left, bracket.right) and var.name not in free(there), "the bracket does not fix the index")
    return subst(product(rest), _instance(context, (var,), (there,)))


def reindex(term: Term, context: Context, name: str, inverse: bool) -> Term:
    """``sum_i f(i) = sum_i f(pi(i))`` for a bijection ``pi`` of the axis of ``i``."""
    var = _sum(term).var
    need(name in context.bijections and isinstance(inverse, bool), "no such bijection")
    need(equal(context.bijections[name], var.domain), "a bijection of another axis")
    return sum_over(var, subst(_sum(term).body, {var.name: Perm(name, inverse, var)}))


# ---------------------------------------------------------------- exponentials and inverses


def apart(term: Term, _: Context) -> Term:
    """``exp(a + b) = exp(a) exp(b)``, ``1/(a b) = (1/a) (1/b)``, ``1/exp(a) = exp(-a)``."""
    match term:
        case Apply("exp" as name, Add(args)) | Apply("inv" as name, Mul(args)):
            return Mul(tuple(Apply(name, one) for one in args))
        case Apply("inv", Apply("exp", arg)):
            return Apply("exp", Mul((Num(Fraction(-1)), arg)))
    raise TermError("nothing to take apart")


def exp_product(term: Term, _: Context, first: int, second: int) -> Term:
    """``exp(a) exp(b) = exp(a + b)``."""
    match _parts(term, Mul, first, second):
        case [Apply("exp", left), Apply("exp", right)], rest:
            return product([*rest, Apply("exp", Add((left, right)))])
    raise TermError("not two exponentials")


def cancel(term: Term, context: Context, value: int, inverse: int, given: tuple[Any, ...] = ()) -> Term:
    """``a (1/a) = 1`` for ``a`` that is certainly positive, perhaps by assumptions ``given``."""
    (number, over), rest = _parts(term, Mul, value, inverse)
    need(equal(Apply("inv", number), over), "the factors are not inverse to each other")
    known = frozenset(key(hypothesis(context, *one)) for one in given)
    need(is_positive(number, context, known), "the factor may be zero")
    return product(rest)


def hypothesis(context: Context, number: int, at: tuple[Index, ...]) -> Term:
    """An assumption of positivity at given positions."""
    need(0 <= number < len(context.positive), "no such assumption")
    variables, term = context.positive[number]
    return subst(term, _instance(context, variables, at))


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
        case Bind("sum", var, body):  # of what is positive, times brackets that are all 1 at some position
            brackets = [a for a in flat_args(body, Mul) if is_bracket(a, context)]
            first = all(decided(subst(a, {var.name: At(0)})) for a in brackets)
            rest = product([a for a in flat_args(body, Mul) if a not in brackets])
            return (first or key(sum_over(var, product(brackets))) in known) and is_positive(rest, context, known)
    return False


def is_bracket(term: Term, context: Context) -> bool:
    """Whether a term is 0 or 1 by declaration."""
    return isinstance(term, Cmp) or (isinstance(term, Entry) and term.name in context.booleans)


def decided(term: Term) -> bool | None:
    """Whether a bracket holds, where its positions tell: ``i <= i + 2``, ``0 <= i``, ``1 = 2 + 3``."""
    match term:
        case Cmp(op, At(left), At(right), offset):
            return left <= right + offset if op == "le" else left == right + offset
        case Cmp(op, left, right, offset) if equal(left, right) and (offset == 0 or (op == "le" and offset > 0)):
            return True
        case Cmp("le", At(left), _, offset) if left <= offset:
            return True
        case Cmp("eq", Inj(_, whole, number), Inj(_, other, block), 0) if equal(whole, other) and number != block:
            return False
    return None


# ---------------------------------------------------------------- brackets


def guard(term: Term, context: Context, brackets: tuple[int, ...], where: tuple[int, ...]) -> Term:
    """``[P] f([P]) = [P] f(1)``: where the first is 0, both sides are 0.  ``[a <= b] [b <= c]`` say ``[a <= c]``."""
    need(equal(_known(term, context, brackets, where), at_path(term, where)), "not the same bracket")
    return put_path(term, where, ONE)


def spread(term: Term, context: Context, brackets: tuple[int, ...], where: tuple[int, ...]) -> Term:
    """``[P] f(a) = [P] f([P] a)``: where the bracket is 0, both sides are 0."""
    return put_path(term, where, Mul((_known(term, context, brackets, where), at_path(term, where))))


def _known(term: Term, context: Context, brackets: tuple[int, ...], where: tuple[int, ...]) -> Term:
    """What some factors say that are brackets, at a path into another factor."""
    known, _ = _parts(term, Mul, *brackets)
    need(bool(known) and all(is_bracket(one, context) for one in known), "not a bracket")
    need(bool(where) and where[0] not in brackets, "a bracket does not guard itself")
    for end in range(len(where)):
        node = at_path(term, where[:end])
        need(not isinstance(node, Bind) or node.var.name not in free(tuple(known)), "not about this index")
    return reduce(_composed, known)


def _composed(left: Term, right: Term) -> Term:
    match left, right:
        case Cmp("le", low, middle, offset), Cmp("le", between, high, more) if equal(middle, between):
            return Cmp("le", low, high, offset + more)
    raise TermError("not two brackets of order that meet")


def compare(term: Term, _: Context) -> Term:
    """The value of a bracket that its positions decide, or the same bracket on their parts."""
    if decided(term) is not None:
        return ONE if decided(term) else ZERO
    match term:
        case Cmp("eq", Join(a, left), Join(b, right), 0) if equal(a, b):
            return Mul(tuple(Cmp("eq", x, y) for x, y in zip(left, right, strict=True)))
        case Cmp("eq", Inj(left, a, _), Inj(right, b, _), 0) if equal(a, b):  # of one block, since it is not decided
            return Cmp("eq", left, right)
        case Cmp("eq", Perm(a, x, left), Perm(b, y, right), 0) if (a, x) == (b, y):
            return Cmp("eq", left, right)
    raise TermError("no bracket, or an open one")


#: every rule by its name; `mha_sym.proof.cards` says of each what it means; one law may go by several names
RULES: dict[str, Callable[..., Term]] = {
    rule.__name__: rule for rule in (
        unfold, table, lemma, arithmetic, take_out, collect, factor, constant_sum, split_sum, enumerate_sum, delta,
        reindex, exp_product, cancel, guard, spread, compare,
    )
}  # fmt: skip
RULES |= dict.fromkeys(("distribute", "sum_of_sum", "pull", "exchange"), linear)
RULES |= dict.fromkeys(("exp_of_sum", "inverse_of_product", "inverse_of_exp"), apart)
