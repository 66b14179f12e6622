"""The number by which an implementation must have multiplied the scores, found from its output.

Defines `fitted_scale`, and `simple_numbers` near what was found.  Whether it explains all runs is judged by
`mha_sym.audit.diagnosis.search`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose, sqrt

import numpy as np

from mha_sym.audit.catalogue.scale_at_sizes import constant_scale
from mha_sym.audit.evidence import Evidence, largest, predicted
from mha_sym.audit.precision import Array

#: the first look goes by octaves, so many each way of the declared scale
_OCTAVES = 6
#: how often a first guess is made better; each time the number of right digits doubles
_STEPS = 9
#: the relative change of the scale by which it is seen how the output moves
_NUDGE = 1e-6
#: after the first steps an output must be so many times nearer than the correct form's
_NEARER = 8.0


def fitted_scale(on: Evidence) -> tuple[float, float] | None:
    """The factor with which the output of one run comes out, and how well it is known; None if none comes near.

    It is the least of ``sum (y(c) - y)^2`` by Gauss and Newton, from the best of some octaves.
    """
    if on.nan is not None or "y" not in on.wrong:
        return None
    declared = on.spec.scale(on.setting.sizes)
    guesses = [declared * 2.0**n for n in range(-_OCTAVES, _OCTAVES + 1)]
    first = _outputs(on, guesses)
    scale = min(guesses, key=lambda one: _off(on, first[one]))
    known = abs(scale)
    for step in range(_STEPS):
        both = _outputs(on, [scale, scale * (1 + _NUDGE)])
        y, moved = both.values()
        slope = (moved - y) / (scale * _NUDGE)
        if not np.isfinite(slope).all() or not slope.any():
            return None
        if step == _STEPS // 2 and _off(on, y) * _NEARER > on.off(on.found["y"]):
            return None
        known = (_off(on, y) + on.rounding * largest([y])) / largest([slope])
        change = float((slope * (on.shown["y"] - y)).sum() / (slope**2).sum())
        if abs(change) <= 1e-15 * abs(scale):
            break
        scale += change
    return scale, known


def _outputs(on: Evidence, scales: Sequence[float]) -> dict[float, Array]:
    forms = {scale: on.forms.form(constant_scale(scale, ())) for scale in scales}
    found = predicted(on, {str(scale): form.y for scale, form in forms.items() if form is not None})
    return {scale: found[str(scale)] for scale in scales}


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
