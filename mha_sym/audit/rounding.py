"""In which coarser format code may compute on the way, if that is how far off it is.

Defines `likely_format`.  What rounding does is measured, by the specification on inputs and weights that are rounded
to the format, and not bounded: bounds are for the worst case and admit gross faults.  It is a hint for a reader, and
judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mha_sym.audit.evidence import Evidence, largest
from mha_sym.audit.precision import ROUNDOFF, Array, rounded, roundoff
from mha_sym.errors import Problem

#: code that rounds every stage is off by so many times what rounded inputs make, at most
_MORE = 4.0
#: and code that rounds one stage alone by one part in so many, at least
_LESS = 64.0
#: what is off by a larger part of the output is no rounding, whatever the format
_PART = 1 / 16


def likely_format(evidence: Sequence[Evidence]) -> str | None:
    """The finest format whose rounding makes errors of the size that was seen in every wrong run; None if none does.

    Args:
        evidence: runs of one implementation.
    """
    wrong = [one for one in evidence if "y" in one.wrong]
    if not wrong or any(one.nan is not None or not _small(one) for one in wrong):
        return None
    coarser = (name for name, unit in sorted(ROUNDOFF.items(), key=lambda one: one[1]) if unit > wrong[0].rounding)
    return next((name for name in coarser if all(_plausible(one, name) for one in wrong)), None)


def _small(on: Evidence) -> bool:
    return on.off(on.found["y"]) <= _PART * largest([on.found["y"]])


def _plausible(on: Evidence, dtype: str) -> bool:
    """Whether the output is off by about as much as it would be with inputs and weights in this format."""
    arrays = {name: _in_format(value, dtype) for name, value in on.setting.arrays.items()}
    try:
        with np.errstate(all="ignore"):
            y = on.spec.values(arrays, on.setting.sizes)["y"]
            made = float(np.abs(y - on.found["y"]).max()) + roundoff(dtype) * largest([on.found["y"]])
    except Problem:  # what is as large as a mask's numbers has no value in a short format
        return False
    return made / _LESS <= on.off(on.found["y"]) <= _MORE * made


def _in_format(value: Array, dtype: str) -> Array:
    with np.errstate(over="ignore"):  # what a format does not hold is infinite in it, and explains nothing
        return rounded(value, dtype) if value.dtype.kind == "f" else value
