"""Masks that put a number where scores are hidden, one of which no other fault knows: -20, -50, 3.

Defines `filled_with`, `added_to`, and `FILLS`, both.  The numbers are found by `mha_sym.audit.diagnosis.scales`; those
that people write by a slip are in `mha_sym.audit.catalogue.mask`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import sympy

from mha_sym.audit.catalogue.mask import MEND, added, filled
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits

Fill = Callable[[float], Fault]


def filled_with(value: float) -> Fault:
    """The fault of code that replaces hidden scores by a number that does not hide them.

    Example:
        >>> filled_with(-20.0).symptom
        'A hidden key keeps about 2.1e-09 of the weight that a score of 0 gets.'
    """
    return _fault("mask_fill_number", value, f"Hidden scores are filled with {value:.6g}", filled)


def added_to(value: float) -> Fault:
    """The fault of code that adds a number to hidden scores that does not hide them.

    Example:
        >>> added_to(-20.0).words
        '-20 is added to hidden scores instead of minus infinity.'
    """
    return _fault("mask_number_added", value, f"{value:.6g} is added to hidden scores", added)


FILLS: tuple[Fill, ...] = (filled_with, added_to)


def _fault(name: str, value: float, words: str, edits: Callable[[sympy.Expr], Edits]) -> Fault:
    return Fault(
        name=name, words=f"{words} instead of minus infinity.", mend=MEND, step=4, stage="scores", family="mask",
        symptom=f"A hidden key keeps about {exp(min(value, 0.0)):.2g} of the weight that a score of 0 gets.",
        edits=edits(sympy.Rational(value).limit_denominator(10**12)), needs=("keep",),
    )  # fmt: skip
