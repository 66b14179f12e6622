"""Numbers that an implementation must have used, found from its output: the scale, and what fills hidden scores.

Defines `fitted_scale`, `fitted_fill`, and `simple_numbers` near what was found.  Whether it explains all runs is judged
by `mha_sym.audit.diagnosis.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isclose, sqrt

import numpy as np

from mha_sym.audit.catalogue.mask_numbers import Fill
from mha_sym.audit.catalogue.scale_at_sizes import constant_scale
from mha_sym.audit.evidence import Evidence, largest, predicted
from mha_sym.audit.faults import Fault
from mha_sym.audit.precision import Array

#: the first look at scales goes by octaves, so many each way of the declared one
_OCTAVES = 6
#: the first look at what fills hidden scores; below the last one keys are hidden well enough for any format
_FILLS = (4.0, 1.0, -2.0, -4.0, -6.0, -9.0, -12.0, -16.0, -20.0, -24.0, -28.0, -32.0)
#: how often a first guess is made better; each time the number of right digits doubles
_STEPS = 9
#: after the first steps an output must be so many times nearer than the correct form's
_NEARER = 8.0


def fitted_scale(on: Evidence) -> tuple[float, float] | None:
    """The factor with which the output of one run comes out, and how well it is known; None if none comes near."""
    declared = on.spec.scale(on.setting.sizes)
    guesses = [declared * 2.0**n for n in range(-_OCTAVES, _OCTAVES + 1)]
    return _fitted(on, lambda one: constant_scale(one, ()), guesses, 1e-6 * declared)


def fitted_fill(on: Evidence, fill: Fill) -> tuple[float, float] | None:
    """The number with which the output of one run comes out where it stands for hidden scores, or is added to them."""
    if on.forms.at.keep is None:
        return None
    return _fitted(on, fill, _FILLS, 1e-3)  # what is hidden well shows little: the nudge must be larger than rounding


def _fitted(
    on: Evidence, make: Callable[[float], Fault], guesses: Sequence[float], nudge: float
) -> tuple[float, float] | None:
    """The least of ``sum (y(c) - y)^2`` by Gauss and Newton, from the best of some guesses."""
    if on.nan is not None or "y" not in on.wrong:
        return None
    first = _outputs(on, make, guesses)
    number = min(guesses, key=lambda one: _off(on, first[one]))
    known = abs(number)
    for step in range(_STEPS):
        y, moved = _outputs(on, make, [number, number + nudge]).values()
        slope = (moved - y) / nudge
        if not np.isfinite(slope).all() or not slope.any():
            return None
        if step == _STEPS // 2 and _off(on, y) * _NEARER > on.off(on.found["y"]):
            return None
        known = (_off(on, y) + on.rounding * largest([y])) / largest([slope])
        change = float((slope * (on.shown["y"] - y)).sum() / (slope**2).sum())
        if abs(change) <= 1e-15 * abs(number):
            break
        number += change
    return number, known


def _outputs(on: Evidence, make: Callable[[float], Fault], numbers: Sequence[float]) -> dict[float, Array]:
    forms = {one: on.forms.form(make(one)) for one in numbers}
    found = predicted(on, {str(one): form.y for one, form in forms.items() if form is not None})
    return {one: found[str(one)] for one in numbers}


def _off(on: Evidence, y: Array) -> float:
    return on.off(y) if np.isfinite(y).all() else float("inf")


def simple_numbers(value: float, known: float) -> Iterator[float]:
    """Numbers near a value that people write, the plainest first; then the value.

    Args:
        value: what was found.
        known: how far from it the number may be.

    Example:
        >>> list(simple_numbers(0.0883883476483, 1e-12)), next(simple_numbers(0.30000001, 1e-6))
        ([0.08838834764831845, 0.0883883476483], 0.3)
    """
    near = [float(f"{value:.{digits}g}") for digits in (1, 2)]
    if value > 0:
        near += [sqrt(1 / whole) for whole in [round(value**-2)] if whole > 0]
    near += [float(f"{value:.{digits}g}") for digits in (3, 4, 5, 6)]
    close = [one for one in near if isclose(one, value, rel_tol=0, abs_tol=known)]
    yield from dict.fromkeys([*close, value])
