"""Scalar functions of imported code as expressions: arithmetic, truth values, and what is minus infinity.

Defines `scalar_map`.  Minus infinity is no number of the language: a value that may be minus infinity carries a 0/1
expression that says where it is not, and only masks, sums and softmax know what to do with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sympy

from mha_sym.axes import Axis, blocks
from mha_sym.expr import Block, Compare, Expr, Map, Scalar, Select, is_boolean
from mha_sym.importers.lifting.lifted import Leaves, Lifted, in_order
from mha_sym.importers.sizes import same

ZERO, ONE = Scalar(sympy.Integer(0)), Scalar(sympy.Integer(1))
#: a number as low as this, put where a key is hidden, stands for minus infinity
FILL = -(10**9)
#: comparisons
COMPARED = ("le", "lt", "ge", "gt", "eq", "ne")
#: the same with sides exchanged
TURNED = {"le": "ge", "ge": "le", "lt": "gt", "gt": "lt"}

Assume = Callable[[str], None] | None


def scalar_map(f: str, args: Sequence[Lifted], dims: tuple[Leaves, ...], assume: Assume) -> Lifted | None:
    """``f`` of values over the same leaves; None if the language has no expression for it.

    Args:
        f: a name of `mha_sym.importers.graph.SCALAR`.
        args: the values, their expressions under the names of ``dims``.
        dims: the leaves of the result.
        assume: is given a sentence for what has to be taken for granted; None if nothing may be.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> t = axis("t")
        >>> x = Lifted(((t,),), Input("x", (t,)))
        >>> scalar_map("mul", [x, Lifted((), ONE)], x.dims, lambda words: None).expr.name
        'x'
    """
    order = tuple(axis for dim in dims for axis in dim)
    special = {"where": _where, "mul": _scaled_fill, "exp": _exp, "max": _max, "isneginf": _hidden}.get(f)
    made = special(args, order, assume) if special is not None else None
    if made is not None:
        return replace(made, dims=dims)
    keeps = [a.keep for a in args if a.keep is not None]
    if keeps and not _passes(f, args):
        return None
    exprs = [a.expr for a in args]
    result = _truth(f, exprs, order) if f in (*COMPARED, "not", "and", "or") else _number(f, exprs, order)
    return None if result is None else Lifted(dims, result, times(keeps, order) if keeps else None)


def times(args: Sequence[Expr], order: Leaves) -> Expr:
    """The product of expressions, copied along axes where none has them all."""
    if any(a == ZERO for a in args):
        return ZERO
    return _pointwise("mul", [a for a in args if a != ONE], ONE, order)


def plus(args: Sequence[Expr], order: Leaves) -> Expr:
    """The sum of expressions."""
    return _pointwise("add", [a for a in args if a != ZERO], ZERO, order)


def comparison(op: str, left: Axis, right: Axis, offset: sympy.Expr | int) -> Expr:
    """``[left op right + offset]``, of whole numbers, by ``<=`` and ``>=`` alone: one thing is written in one way.

    An offset made of sizes is what a position is counted from: ``s <= t + S - T`` is ``T + s <= S + t``, with s behind
    T positions and t behind S.

    Example:
        >>> from mha_sym.axes import axis
        >>> s, t = axis("s", "S"), axis("t", "T")
        >>> comparison("lt", s, t, 1).op
        'le'
        >>> comparison("le", s, t, s.size - t.size).axes
        (s: S, t: T)
    """
    if op in ("lt", "gt"):
        op, offset = ("le", offset - 1) if op == "lt" else ("ge", offset + 1)
    number, sizes = sympy.expand(offset).as_coeff_Add()
    ahead = sympy.Add(*(one for one in sympy.Add.make_args(sizes) if not one.could_extract_minus_sign()))
    behind = sympy.expand(ahead - sizes)
    one, other = _counted_from(behind, left, right), _counted_from(ahead, right, left)
    made: Expr = Compare(op, one, other, int(number))  # type: ignore[arg-type]
    made = made if one == left else Block(made, one, 1)
    return made if other == right else Block(made, other, 1)


def _counted_from(start: sympy.Expr, axis: Axis, beside: Axis) -> Axis:
    """An axis behind so many positions: those of the axis beside it, if they are as many."""
    if start == 0:
        return axis
    return blocks(beside if same(beside.size, start) else Axis("before", start), axis)


def against(op: str, axis: Axis, number: sympy.Expr | int) -> Expr:
    """``[position in axis op number]``."""
    first = Axis("first", sympy.Integer(1))
    return Select(comparison(op, axis, first, number), first, 0)


def negation(arg: Expr) -> Expr:
    """``1 - x`` for a truth value."""
    if isinstance(arg, Scalar):
        return Scalar(1 - arg.value)
    match arg:
        case Compare(op="le" | "ge" | "eq" | "ne", left=left, right=right, offset=offset):
            opposite = {"le": "gt", "ge": "lt", "eq": "ne", "ne": "eq"}[arg.op]
            return comparison(opposite, left, right, offset)
        case Block(arg=Compare() | Block() as inner, axis_=whole, number=number):
            return Block(negation(inner), whole, number)
        case Select(arg=Compare() | Block() as inner, axis_=whole, at=at):
            return Select(negation(inner), whole, at)
        case Map(op="add", args=(Scalar(value=one), Map(op="neg", args=(inner,)))) if one == 1:
            return inner
    return Map("add", (ONE, Map("neg", (arg,))))


def _pointwise(op: str, args: list[Expr], empty: Expr, order: Leaves) -> Expr:
    if len(args) < 2:
        return args[0] if args else empty
    if all(isinstance(a, Scalar) for a in args):
        values = [a.value for a in args if isinstance(a, Scalar)]
        return Scalar(sympy.Add(*values) if op == "add" else sympy.Mul(*values))
    have = {axis for a in args for axis in a.axes}
    if not any(len(a.axes) == len(have) for a in args):
        widest = max(range(len(args)), key=lambda n: len(args[n].axes))
        args = [*args]
        args[widest] = in_order(args[widest], tuple(a for a in order if a in have))
    return Map(op, tuple(args))


def _passes(f: str, args: Sequence[Lifted]) -> bool:
    """Whether minus infinity in the arguments is minus infinity in the result, and nowhere else."""
    if f in ("add", "float"):
        return True
    if f == "sub":
        return args[1].keep is None
    if f in ("mul", "div"):
        one, other = args if args[1].keep is None else (args[1], args[0])
        positive = isinstance(other.expr, Scalar) and bool(other.expr.value.is_positive)
        return other.keep is None and positive and (f == "mul" or one is args[0])
    return False


# ---------------------------------------------------------------- minus infinity


def _where(args: Sequence[Lifted], order: Leaves, assume: Assume) -> Lifted | None:
    """``where(c, x, y)``: a choice, or a mask where one side is minus infinity or a number that stands for it."""
    if not is_boolean(args[0].expr):
        return None
    chosen = args[0].expr
    yes, no = (_filled(a, assume) for a in args[1:])
    opposite = negation(chosen)
    if no.keep == ZERO:
        return replace(yes, keep=times([chosen, *([] if yes.keep is None else [yes.keep])], order))
    if yes.keep == ZERO:
        return replace(no, keep=times([opposite, *([] if no.keep is None else [no.keep])], order))
    if yes.keep is not None or no.keep is not None:
        kept = [times([c, *([] if a.keep is None else [a.keep])], order) for c, a in ((chosen, yes), (opposite, no))]
        keep = negation(times([negation(kept[0]), negation(kept[1])], order))
    elif is_boolean(yes.expr) and is_boolean(no.expr):
        both = [negation(times([c, a.expr], order)) for c, a in ((chosen, yes), (opposite, no))]
        return Lifted((), negation(times(both, order)))
    else:
        keep = None
    return Lifted((), plus([times([chosen, yes.expr], order), times([opposite, no.expr], order)], order), keep)


def _filled(value: Lifted, assume: Assume) -> Lifted:
    """A number far below all scores as minus infinity."""
    fill = isinstance(value.expr, Scalar) and value.expr.value.is_Rational and bool(value.expr.value <= FILL)
    if assume is not None and fill and isinstance(value.expr, Scalar):
        assume(_words(value.expr.value))
        return Lifted(value.dims, ZERO, ZERO)
    return value


def _words(value: sympy.Expr) -> str:
    return f"a score of {float(value):.6g} counts as minus infinity"


def _scaled_fill(args: Sequence[Lifted], order: Leaves, assume: Assume) -> Lifted | None:
    """``(1 - keep) * -1e9``, which is added to the scores, as a mask."""
    if assume is None:
        return None
    for one, other in (args, args[::-1]):
        value = other.expr.value if isinstance(other.expr, Scalar) else None
        if value is not None and value.is_Rational and value <= FILL and is_boolean(one.expr) and one.keep is None:
            assume(_words(value))
            return Lifted((), ZERO, negation(one.expr))
    return None


def _exp(args: Sequence[Lifted], order: Leaves, assume: Assume) -> Lifted | None:
    if args[0].keep is None:
        return None
    return Lifted((), times([args[0].keep, Map("exp", (args[0].expr,))], order))


def _max(args: Sequence[Lifted], order: Leaves, assume: Assume) -> Lifted | None:
    """The maximum of a value and minus infinity."""
    for one, other in (args, args[::-1]):
        if other.keep == ZERO:
            return one
    return None


def _hidden(args: Sequence[Lifted], order: Leaves, assume: Assume) -> Lifted | None:
    keep = args[0].keep
    return Lifted((), ZERO if keep is None else negation(keep))


# ---------------------------------------------------------------- truth values and numbers


def _truth(f: str, args: Sequence[Expr], order: Leaves) -> Expr | None:
    if f in COMPARED:
        return _against_number(f, args)
    if not all(map(is_boolean, args)):
        return None
    if f == "not":
        return negation(args[0])
    if f == "and":
        return times(args, order)
    return negation(times([negation(args[0]), negation(args[1])], order))


def _against_number(f: str, args: Sequence[Expr]) -> Expr | None:
    """A truth value compared with a number: itself, its negation, or always the same."""
    one, other = args
    if isinstance(one, Scalar) and not isinstance(other, Scalar):
        one, other, f = other, one, TURNED.get(f, f)
    if not isinstance(other, Scalar) or not is_boolean(one) or not other.value.is_Rational:
        return None
    number = other.value
    holds = {"le": sympy.Le, "lt": sympy.Lt, "ge": sympy.Ge, "gt": sympy.Gt, "eq": sympy.Eq, "ne": sympy.Ne}[f]
    at = bool(holds(0, number)), bool(holds(1, number))
    return {(False, True): one, (True, False): negation(one), (True, True): ONE, (False, False): ZERO}[at]


def _number(f: str, args: Sequence[Expr], order: Leaves) -> Expr | None:
    if f == "float":
        return args[0]
    if f == "add":
        return plus(args, order)
    if f == "sub":
        return plus([args[0], _negative(args[1])], order)
    if f == "mul":
        return times(args, order)
    if f == "div":
        return times([args[0], _inverse(args[1])], order)
    if f in ("max", "min"):  # (a + b +- |a - b|)/2
        apart = Map("fn:abs", (plus([args[0], _negative(args[1])], order),))
        both = plus([*args, apart if f == "max" else _negative(apart)], order)
        return times([Scalar(sympy.Rational(1, 2)), both], order)
    return _unary(f, args)


def _negative(arg: Expr) -> Expr:
    return Scalar(-arg.value) if isinstance(arg, Scalar) else Map("neg", (arg,))


def _inverse(arg: Expr) -> Expr:
    if isinstance(arg, Scalar) and arg.value != 0:
        return Scalar(1 / arg.value)
    return Map("inv", (arg,))


def _unary(f: str, args: Sequence[Expr]) -> Expr | None:
    arg = args[0]
    if f == "neg":
        return _negative(arg)
    if f == "exp":
        return Map("exp", (arg,))
    if f == "pow":
        return _power(arg, args[1])
    if f == "sqrt" and isinstance(arg, Scalar):
        return Scalar(sympy.sqrt(arg.value))
    if f in ("sqrt", "log", "abs", "sin", "cos", "tanh"):
        return Map(f"fn:{f}", (arg,))
    return None


def _power(base: Expr, exponent: Expr) -> Expr | None:
    if not isinstance(exponent, Scalar):
        return None
    power: Any = exponent.value
    if isinstance(base, Scalar):
        return Scalar(base.value**power)
    if power.is_Integer and 1 <= power <= 8:
        return Map("mul", (base,) * int(power)) if power > 1 else base
    return Map("inv", (base,)) if power == -1 else None
