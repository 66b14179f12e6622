"""The sizes of a computation as formulas: parameters, stored scores, multiply-adds, pointwise operations, bytes moved.

Parameters, stored scores, multiply-adds (with the pointwise operations told apart from them), and bytes moved are
different quantities, and none stands for another.  Each is found by walking the expression; no formula is typed
in.  Running time is yet another, and is not here: it depends on the machine and the implementation, and does not
follow from the expression.

Conventions, in force everywhere in this module:

* A value is computed once, however often it is read; values written alike are one value.
* In a family over r a value that depends on r is computed for every r: its work is multiplied by the size of r's
  axis.  One that does not depend on r is the same for all members, and is computed once.  Where nothing binds r, as
  in the scores of one head, the quantities are those of one member.
* Parameters are the entries of the distinct inputs whose role is weight or bias, whether or not all are used.
* Stored scores are the entries of the distinct arrays that a softmax is applied to.
* What a contraction, a softmax and every other node costs is said in `mha_sym.costs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import sympy

from mha_sym.axes import Axis, Index, Size
from mha_sym.costs import Cost, cost_of, entries
from mha_sym.errors import AxisProblem, DataProblem, show_axes
from mha_sym.expr import Expr, Input, Map, Reduce, Repeat, Role, Scalar, Softmax, inputs
from mha_sym.graph import graph
from mha_sym.shown import Shown

Exprs = Expr | Iterable[Expr]


@dataclass(frozen=True)
class Counts(Shown):
    """The quantities of an expression; formulas in the sizes, or integers after `at`.

    Attributes:
        parameters: weights and biases together.
        weights: entries of the inputs whose role is weight.
        biases: entries of the inputs whose role is bias.
        stored_scores: entries of the arrays that a softmax is applied to.
        multiply_adds: one multiplication with one addition each, contractions only.
        pointwise: all other arithmetic.
        bytes_moved: to and from memory, unfused.
        itemsize: bytes of one entry.
    """

    parameters: Size | int
    weights: Size | int
    biases: Size | int
    stored_scores: Size | int
    multiply_adds: Size | int
    pointwise: Size | int
    bytes_moved: Size | int
    itemsize: int = 4

    def at(self, sizes: Mapping[str, int]) -> Counts:
        """The same quantities as integers.

        Args:
            sizes: a positive integer for the name of every symbolic size; names that do not occur are ignored.

        Raises:
            DataProblem: if a size is missing or is not a positive integer.

        Example:
            >>> from mha_sym.attention.dims import combined_weights, dims, self_inputs
            >>> from mha_sym.attention.forms import combined
            >>> d = dims()
            >>> found = count(combined(d, self_inputs(d), combined_weights(d)).y)
            >>> found.at({"B": 2, "T": 5, "d_model": 12, "h": 3, "d_k": 4, "d_v": 4}).parameters
            576
        """
        return replace(self, **{one.name: number_at(getattr(self, one.name), sizes) for one in fields(self)})


def number_at(formula: Size | int, sizes: Mapping[str, int]) -> int:
    """The value of a formula at given sizes.

    Raises:
        DataProblem: if a size is missing or is not a positive integer, or the value is not an integer.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> number_at(4 * size_symbol("d_model") ** 2, {"d_model": 12})
        576
    """
    if isinstance(formula, int):
        return formula
    symbols = sorted(formula.free_symbols, key=str)
    missing = [str(s) for s in symbols if str(s) not in sizes]
    if missing:
        raise DataProblem(
            f"no number for the size {missing[0]}",
            where="count",
            expected=", ".join(map(str, symbols)),
            got=", ".join(f"{name}={size}" for name, size in sizes.items()) or "no sizes",
        )
    for symbol in symbols:
        check_size(str(symbol), sizes[str(symbol)])
    value = formula.subs({symbol: sizes[str(symbol)] for symbol in symbols})
    if not value.is_Integer:
        raise DataProblem(
            f"{formula} is not an integer at these sizes",
            where="count",
            got=str(value),
            hint="a size that is a quotient, such as d_model/h, must come out whole",
        )
    return int(value)


def check_size(name: str, size: Any) -> None:
    """Accept a number as a size.

    Raises:
        DataProblem: if it is not a positive integer.

    Example:
        >>> check_size("h", 3)
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise DataProblem(f"{name} = {size} is not a size", where="count", expected="a positive integer")


def count(expr: Exprs, itemsize: int = 4) -> Counts:
    """All quantities of an expression, or of several computed together.

    Args:
        expr: the expression, such as the output ``y`` of a form.
        itemsize: bytes of one entry: 4 for float32, 8 for float64, 2 for half precision.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims, self_inputs
        >>> from mha_sym.attention.forms import combined
        >>> d = dims()
        >>> count(combined(d, self_inputs(d), combined_weights(d)).y).stored_scores
        B*T**2*h
    """
    roots = _roots(expr)
    weights, biases = (_by_role(roots, role) for role in ("weight", "bias"))
    return Counts(
        parameters=weights + biases,
        weights=weights,
        biases=biases,
        stored_scores=stored_scores(roots),
        multiply_adds=multiply_adds(roots),
        pointwise=pointwise(roots),
        bytes_moved=bytes_moved(roots, itemsize),
        itemsize=itemsize,
    )


# ---------------------------------------------------------------- parameters


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One weight or bias: its name, role, axes, and the product of their sizes."""

    name: str
    role: Role
    axes: tuple[Axis, ...]
    count: Size


def parameter_rows(exprs: Exprs) -> tuple[ParameterRow, ...]:
    """The distinct inputs that are weights or biases, in order of first occurrence.

    Raises:
        AxisProblem: if one name stands for two different inputs.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> [(row.name, row.count) for row in parameter_rows(combined_weights(dims()).w_q)]
        [('W_Q', d_k*d_model*h)]
    """
    found: dict[str, Input] = {}
    for root in _roots(exprs):
        for one in inputs(root):
            if found.setdefault(one.name, one) != one:
                raise AxisProblem(
                    f"input {one.name!r} is two different things",
                    where="parameters",
                    axes=[show_axes(found[one.name].axes), show_axes(one.axes)],
                )
    return tuple(
        ParameterRow(one.name, one.role, one.axes, entries(one.axes))
        for one in found.values()
        if one.role in ("weight", "bias")
    )


def parameters(exprs: Exprs) -> Size:
    """Number of parameters, biases included where the expression has them.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> parameters(combined_weights(dims()).items().values())
        2*d_k*d_model*h + 2*d_model*d_v*h
    """
    return sympy.expand(sympy.Add(*(row.count for row in parameter_rows(exprs))))


def _by_role(exprs: Exprs, role: Role) -> Size:
    return sympy.expand(sympy.Add(*(row.count for row in parameter_rows(exprs) if row.role == role)))


def parameter_expr(exprs: Exprs) -> Expr:
    """The number of parameters as an expression of the language: a one added for every entry of every weight.

    The prover can compare it with `number`, so that a count is a theorem like any other.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> parameter_expr(combined_weights(dims()).w_q)  # doctest: +ELLIPSIS
        Reduce(op='sum', arg=Repeat(arg=Scalar(value=1), ...
    """
    return _added([ones(row.axes) for row in parameter_rows(exprs)])


def ones(axes: Iterable[Axis]) -> Expr:
    """The number of entries over some axes, as the sum of a one for each."""
    over = tuple(axes)
    one = Scalar(sympy.Integer(1))
    return Reduce("sum", Repeat(one, over), over) if over else one


def _added(terms: list[Expr]) -> Expr:
    if not terms:
        return Scalar(sympy.Integer(0))
    return terms[0] if len(terms) == 1 else Map("add", tuple(terms))


def number(formula: Size | int) -> Scalar:
    """A formula in the sizes as a number of the language, to be compared with `parameter_expr`.

    Raises:
        AxisProblem: if something occurs in it that is not a size.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> number(4 * size_symbol("d_model") ** 2).value
        4*d_model**2
    """
    value = sympy.Integer(formula) if isinstance(formula, int) else formula
    for symbol in value.free_symbols:
        if not (symbol.is_integer and symbol.is_positive):
            raise AxisProblem(
                f"{symbol} is not a size",
                where="number",
                got=str(value),
                hint="make symbols of sizes with size_symbol, or take the sizes of the axes",
            )
    return Scalar(value)


# ---------------------------------------------------------------- stored scores


def stored_scores(exprs: Exprs) -> Size:
    """Entries of the arrays that a softmax is applied to.

    Example:
        >>> from mha_sym.attention.dims import cross_inputs, dims, head_weights
        >>> from mha_sym.attention.forms import head_sum
        >>> d = dims(S="S")
        >>> stored_scores(head_sum(d, cross_inputs(d), head_weights(d)).y)
        B*S*T*h
    """
    return sympy.expand(sympy.Add(*(entries(axes) * _members(over) for axes, over in _scores(exprs))))


def score_expr(exprs: Exprs) -> Expr:
    """The number of stored scores as an expression of the language, like `parameter_expr`."""
    terms: list[Expr] = []
    for axes, over in _scores(exprs):
        factors = [ones(axes), *(ones((index.axis,)) for index in sorted(over, key=repr))]
        terms.append(factors[0] if len(factors) == 1 else Map("mul", tuple(factors)))
    return _added(terms)


def _scores(exprs: Exprs) -> list[tuple[tuple[Axis, ...], frozenset[Index]]]:
    """Axes of each distinct argument of a softmax, and the indices of the families around it."""
    vertices = graph(exprs).vertices
    scores = {v.children[0] for v in vertices if isinstance(v.node, Softmax)}
    return [(v.node.axes, v.members) for v in vertices if v.number in scores]


# ---------------------------------------------------------------- work and traffic


def multiply_adds(exprs: Exprs) -> Size:
    """Multiply-adds of all contractions.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> from mha_sym.expr import Input
        >>> from mha_sym.pattern import einsum
        >>> d = dims()
        >>> multiply_adds(einsum("b t m, m k -> b t k", Input("X", (d.b, d.t, d.m)), Input("W", (d.m, d.k), "weight")))
        B*T*d_k*d_model
    """
    return _total(exprs, lambda cost: cost.multiply_adds)


def pointwise(exprs: Exprs) -> Size:
    """All arithmetic that is not a contraction.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> t, s = axis("t", "T"), axis("s", "S")
        >>> pointwise(Softmax(Input("S", (t, s)), (s,)))
        3*S*T
    """
    return _total(exprs, lambda cost: cost.pointwise)


def bytes_moved(exprs: Exprs, itemsize: int = 4) -> Size:
    """Bytes read and written by an unfused run, in the model that the module states.

    Raises:
        DataProblem: if ``itemsize`` is not a positive integer.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> t = axis("t", "T")
        >>> bytes_moved(Input("a", (t,)) + Input("b", (t,)), itemsize=8)
        24*T
    """
    check_size("itemsize", itemsize)
    return sympy.expand(itemsize * _total(exprs, lambda cost: cost.moved))


def _total(exprs: Exprs, part: Callable[[Cost], Size]) -> Size:
    return sympy.expand(sympy.Add(*(part(cost_of(v.node)) * _members(v.members) for v in graph(exprs).vertices)))


def _roots(exprs: Exprs) -> tuple[Expr, ...]:
    return (exprs,) if isinstance(exprs, Expr) else tuple(exprs)


def _members(over: frozenset[Index]) -> Size:
    """How often a value is computed."""
    return entries(index.axis for index in over)
