"""Floating-point formats: unit roundoff, how sums are taken, and rounding of drawn values to what a format can hold.

Defines `ROUNDOFF`, `coarser`, `Arithmetic`, `arithmetic`, `rounded` and `growth`.  Bounds built from them judge
implementations; they never decide a theorem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_sym.errors import TargetProblem

Array = NDArray[Any]

#: the unit roundoff u of each format: a rounded result is the exact one times 1 + e with abs(e) <= u
ROUNDOFF: dict[str, float] = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def roundoff(dtype: str) -> float:
    """The unit roundoff of a format.

    Raises:
        TargetProblem: for a format that is not known.

    Example:
        >>> roundoff("float32") == 2.0**-24
        True
    """
    if dtype not in ROUNDOFF:
        raise TargetProblem(f"no floating-point format {dtype!r}", expected=", ".join(ROUNDOFF))
    return ROUNDOFF[dtype]


#: roundings come to so small a part of their bound, or less
_USUAL = 32


def coarser(dtype: str, excess: float) -> str | None:
    """The finest format whose rounding would explain an error of so many bounds of another format.

    Bounds are worst cases, and roundings come nowhere near them: what is near the bound of a format is no rounding.

    Args:
        dtype: the format for which a bound was computed.
        excess: the error in units of that bound.

    Example:
        >>> coarser("float64", 1e6), coarser("float64", 1e9), coarser("float64", 1e13)
        ('float32', 'float16', None)
    """
    wider = sorted((unit, name) for name, unit in ROUNDOFF.items() if unit > roundoff(dtype))
    return next((name for unit, name in wider if unit >= _USUAL * excess * roundoff(dtype)), None)


#: half the smallest positive number of each format: the largest absolute error of a result that underflows
_UNDERFLOW: dict[str, float] = {"float64": 2.0**-1075, "float32": 2.0**-150, "float16": 2.0**-25, "bfloat16": 2.0**-134}

#: roundings of an exponential: libraries are right to a few units, or compute it in a wider format and round once
_EXP_OWN, _EXP_WIDER = 6, 1


@dataclass(frozen=True)
class Arithmetic:
    """What is assumed of the code that is judged: its format, and the format in which it adds up.

    Attributes:
        dtype: the format of inputs, weights and every stage.
        accumulate: the format in which sums and exponentials are computed before they are rounded to ``dtype``.

    Example:
        >>> arithmetic("bfloat16").accumulate, arithmetic("float64").accumulate
        ('float32', 'float64')
    """

    dtype: str
    accumulate: str

    @property
    def u(self) -> float:
        """The unit roundoff of the stages."""
        return roundoff(self.dtype)

    @property
    def wider(self) -> bool:
        """Whether sums are taken in a wider format."""
        return self.accumulate != self.dtype

    @property
    def underflow(self) -> float:
        """The largest absolute error of a result too small for the format."""
        return _UNDERFLOW[self.dtype]

    @property
    def exponential(self) -> int:
        """How many roundings an exponential counts for."""
        return _EXP_WIDER if self.wider else _EXP_OWN

    def error(self, terms: int, roundings: int) -> float:
        """The largest relative error of sums of so many products in all and so many roundings besides.

        Example:
            >>> arithmetic("float64").error(3, 1) == growth(4, 2.0**-53)
            True
        """
        if not self.wider:
            return growth(terms + roundings, self.u)
        return (1 + growth(terms, roundoff(self.accumulate))) * (1 + growth(roundings, self.u)) - 1

    @property
    def words(self) -> str:
        """What is assumed, for the report."""
        if not self.wider:
            return f"every operation rounds to {self.dtype}, sums are taken in any order"
        return (
            f"assumed: sums and exponentials are computed in {self.accumulate} and rounded once to {self.dtype},"
            " stage by stage (Q, K, V, scores, weights, Z, Y)"
        )


def arithmetic(dtype: str, accumulate: str | None = None) -> Arithmetic:
    """The arithmetic of a format; float16 and bfloat16 add up in float32 unless it is said otherwise.

    Raises:
        TargetProblem: for a format that is not known.
    """
    roundoff(dtype)
    usual = "float32" if dtype in ("float16", "bfloat16") else dtype
    roundoff(accumulate or usual)
    return Arithmetic(dtype, accumulate or usual)


def growth(n: int, u: float) -> float:
    """``n u / (1 - n u)``: the largest relative error of a sum of n products, in whatever order it is added up.

    Infinite where ``n u`` reaches one: nothing can then be seen at that precision.

    Example:
        >>> growth(4, 0.125)
        1.0
    """
    return n * u / (1 - n * u) if n * u < 1 else float("inf")


def rounded(values: Array, dtype: str) -> Array:
    """Values that the format holds exactly, as float64.

    Example:
        >>> float(rounded(np.array(1 + 2.0**-9), "bfloat16"))
        1.0
    """
    if dtype != "bfloat16":
        return np.asarray(values, dtype=dtype).astype(np.float64)
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    even = ((bits >> 16) & 1) + np.uint32(0x7FFF)
    return ((bits + even) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
