"""Scales that are built at sizes that are numbers: a constant, rounded roots, and other widths that may be d_k.

Defines `constant_scale` and `SCALES_AT_SIZES`.  They are no part of the catalogue: most are right at the sizes that
people test at, and exact arithmetic over all sizes knows no rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isclose, isqrt

import sympy

from mha_sym.attention.rotary import turned_axis
from mha_sym.audit.catalogue.scale import MEND, scaled_by
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site
from mha_sym.errors import AxisProblem

#: how near a whole number a width must come to be called one
_WHOLE = 1e-6
#: the denominator of a fraction that can be read, at most
_SHORT = 10_000


def constant_scale(value: float, widths: Sequence[int], declared: sympy.Expr | None = None) -> Fault:
    """The fault of code that multiplies ``q . k`` by the same number whatever the sizes are.

    Args:
        value: the number.
        widths: the d_k at which it was seen.
        declared: the scale that is meant, if it is another than ``1/sqrt(d_k)``.

    Example:
        >>> fault = constant_scale(0.125, [5, 8])
        >>> fault.words
        'The scores are multiplied by a constant, 0.125, at d_k = 5 and at d_k = 8 alike.'
        >>> fault.symptom
        'Right at d_k = 64 only, where 1/sqrt(d_k) is 0.125.'
    """
    number, exact = f"{value:.10g}", _exact(value)
    seen = " and at ".join(f"d_k = {n}" for n in widths)
    alike = " alike" if len(widths) > 1 else "; other d_k were not run"
    return Fault(
        name="scale_constant", words=f"The scores are multiplied by a constant, {number}, at {seen}{alike}.",
        symptom=f"Right {_right_at(value, number, declared)}.", step=4, stage="scores", family="scale",
        mend=MEND if declared is None else f"scores = q @ k.swapaxes(-1, -2) * ({declared})",
        edits={"masked": scaled_by(lambda at: exact)},
    )  # fmt: skip


def _right_at(value: float, number: str, declared: sympy.Expr | None) -> str:
    """Where a constant is the scale that is meant."""
    if declared is not None:
        return f"where {declared} is {number} only"
    width = value**-2
    whole = isclose(width, round(width), rel_tol=_WHOLE) and round(width) > 0
    return f"at d_k = {round(width)} only, where 1/sqrt(d_k) is {number}" if whole else "at no d_k"


def _exact(value: float) -> sympy.Expr:
    """A number as it would be written, ``1/sqrt(128)`` or 3/10; else the fraction that it is in the machine."""
    width = round(value**-2) if abs(value) > _WHOLE else 0
    if width and isclose(value, width**-0.5, rel_tol=1e-15):
        return 1 / sympy.sqrt(width)
    short = sympy.Rational(value).limit_denominator(_SHORT)
    return short if isclose(value, float(short), rel_tol=1e-15) else sympy.Rational(value)


def _number(size: sympy.Expr) -> int:
    if not size.is_Integer:
        raise AxisProblem(f"{size} is no number")
    return int(size)


def _model_over_heads(at: Site) -> sympy.Expr:
    return 1 / sympy.sqrt(at.d.m.size / at.d.h.size)


def _model_over_heads_floored(at: Site) -> sympy.Expr:
    if not (width := _number(at.d.m.size) // _number(at.d.h.size)):
        raise AxisProblem("there are more heads than features: the code divides by zero")
    return 1 / sympy.sqrt(width)


def _whole_root(at: Site) -> sympy.Expr:
    return sympy.Rational(1, isqrt(_number(at.d.k.size)))


def _turned_features(at: Site) -> sympy.Expr:
    if at.angles is None:
        raise AxisProblem("no features are turned here")
    return 1 / sympy.sqrt(turned_axis(at.d).size)


def _at_sizes(name: str, factor: Callable[[Site], sympy.Expr], words: str, symptom: str) -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=MEND, step=4, stage="scores",
        edits={"masked": scaled_by(factor)}, family="scale", at_sizes=True,
    )  # fmt: skip


_TIED = "Right where d_model = h d_k only, as most code has it."

SCALES_AT_SIZES: tuple[Fault, ...] = (
    _at_sizes(
        "scale_by_model_over_heads", _model_over_heads,
        "The scores are divided by sqrt(d_model / heads), where a head has another width d_k.", _TIED,
    ),
    _at_sizes(
        "scale_by_model_over_heads_floored", _model_over_heads_floored,
        "The scores are divided by sqrt(d_model // heads), where a head has another width d_k.", _TIED,
    ),
    _at_sizes(
        "scale_by_whole_root", _whole_root, "The scores are divided by int(sqrt(d_k)), the root rounded down.",
        "Right where d_k is a square only: 16, 64, 256.",
    ),
    _at_sizes(
        "scale_by_turned_features", _turned_features,
        "The scores are divided by the root of the number of features that are turned, not of all d_k.",
        "Right where rotary positions turn all features of a head.",
    ),
)  # fmt: skip
