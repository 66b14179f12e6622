"""Ranges of whole numbers made of sizes, and positions turned round: one function each for all front ends.

Defines `counted` and `rolled`.
"""

from __future__ import annotations

import sympy

from mha_sym.importers.builder import Builder
from mha_sym.importers.graph import Ref
from mha_sym.importers.sizes import quotient


def counted(builder: Builder, start: sympy.Expr, stop: sympy.Expr, step: sympy.Expr) -> Ref:
    """``start, start + step, ...`` before ``stop``.

    Raises:
        ImportProblem: if how many there are is no size for all values of the symbols.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> b, pairs = Builder(), size_symbol("d_pairs")
        >>> b.shape(counted(b, sympy.Integer(0), 2 * pairs, sympy.Integer(2)))
        (d_pairs,)
    """
    span = sympy.expand(stop - start)
    count = quotient(span, step)
    if count is None:
        if not (span.is_Integer and step.is_Integer and step != 0):
            builder.refuse(f"{span} is no multiple of the step {step} for all sizes")
        count = sympy.ceiling(span / step)
    made = builder.iota(count)
    made = made if step == 1 else builder.map("mul", made, builder.size(step))
    return made if start == 0 else builder.map("add", made, builder.size(start))


def rolled(builder: Builder, ref: Ref, axis: int, shift: sympy.Expr) -> Ref:
    """Positions moved on by a number of places, the last ones to the front; that there are more is a condition.

    Raises:
        ImportProblem: if the number of places is not a fixed one.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> b = Builder()
        >>> made = rolled(b, b.input("x", (size_symbol("T"), 3)), 0, sympy.Integer(-2))
        >>> b.shape(made)
        (T, 3)
    """
    axis = builder.axis(ref, axis)
    length = builder.shape(ref)[axis]
    if not shift.is_Integer:
        builder.refuse(f"positions are turned round by {shift} places", expected="a fixed number of places")
    places = shift % length if length.is_Integer else shift
    if places == 0:
        return ref
    first = sympy.expand(-places if places < 0 else length - places)  # this comes to the front
    end, start = builder.slice(ref, axis, first, length - first), builder.slice(ref, axis, 0, first)
    return builder.concat([end, start], axis)
