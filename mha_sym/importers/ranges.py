"""Ranges of whole numbers made of sizes: one function for all front ends.

Defines `counted`.
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
