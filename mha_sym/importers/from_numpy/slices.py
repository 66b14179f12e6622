"""Slices of NumPy's arrays without values, by Python's rules.

Defines `counted` and `sliced`.
"""

from __future__ import annotations

from typing import Any

import sympy

from mha_sym.importers.graph import Ref
from mha_sym.importers.session import Session, exact
from mha_sym.importers.sizes import quotient


def counted(session: Session, at: Any, size: sympy.Expr) -> sympy.Expr:
    """A position counted from the front."""
    return sympy.expand(at + size) if not session.decide(sympy.Ge(at, 0)) else at


def sliced(session: Session, ref: Ref, axis: int, key: slice) -> Ref:
    """``x[start:stop]`` along an axis, with Python's rules; a step turns into a list of positions."""
    builder = session.here()
    size = builder.shape(ref)[axis]
    step = 1 if key.step is None else key.step
    if step != 1:
        if not size.is_Integer:
            return _one_of_each(session, ref, axis, key)
        return builder.gather(ref, axis, list(range(int(size))[key]))
    bounds = []
    for value, default in ((key.start, sympy.Integer(0)), (key.stop, size)):
        number = default if value is None else counted(session, exact(value), size)
        beyond = number != default and session.decide(sympy.Gt(number, size))
        bounds.append(size if beyond else number)
    return builder.slice(ref, axis, bounds[0], sympy.expand(bounds[1] - bounds[0]))


def _one_of_each(session: Session, ref: Ref, axis: int, key: slice) -> Ref:
    """``x[0::2]`` along an axis of symbolic size: one position of each two, where they fill the axis."""
    builder, shape = session.here(), list(session.builder.shape(ref))
    first = 0 if key.start is None else key.start
    count = quotient(shape[axis], sympy.Integer(key.step)) if key.step > 0 else None
    if count is None or key.stop is not None or not isinstance(first, int) or not 0 <= first < key.step:
        session.leak(shape[axis])
    apart = builder.reshape(ref, [*shape[:axis], count, key.step, *shape[axis + 1 :]])
    return builder.select(apart, axis + 1, first)
