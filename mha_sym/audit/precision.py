"""Floating-point formats: unit roundoff, and rounding of drawn values to what a format can hold.

Defines `ROUNDOFF`, `rounded` and `growth`.  Bounds built from them judge implementations; they never decide a theorem.
"""

from __future__ import annotations

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
