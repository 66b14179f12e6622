"""Which angles the rotary tables are of that code makes by itself: a proof is for any, so that these are told in words.

Defines `of_which_angles`, and `at_a_few` for tables at any sizes.  It looks at numbers, of a few positions, and decides
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mha_sym.importers.graph import Array

#: so many positions are looked at, or fewer if there are fewer
_POSITIONS = (8, 3)
#: how far an entry, and the quotient of two frequencies, may be off; many frequencies are kept in single precision
_ENTRY, _QUOTIENT = 1e-2, 1e-3
#: bases whose frequencies are looked for with a sign exchanged: angles are known up to whole turns only
_BASES = (100, 1000, 10_000, 100_000, 500_000, 1_000_000)


def of_which_angles(cos: Array, sin: Array) -> str:
    """What angles the tables are of, in a sentence.

    Args:
        cos: cosines ``(position, pair)`` of at least three positions.
        sin: sines, likewise.

    Example:
        >>> angles = np.outer(np.arange(5), 10000.0 ** (-np.arange(3) / 3))
        >>> of_which_angles(np.cos(angles), np.sin(angles))
        'its tables are those of base 10000'
        >>> of_which_angles(np.cos(angles**2), np.sin(angles**2))
        'its tables are not those of any base: the angle at position t is not t times a frequency; is that meant?'
    """
    turns = cos + 1j * sin
    once = turns[1] / turns[0]
    steps = np.arange(len(turns))[:, None]
    if np.abs(turns - turns[0] * once**steps).max() > _ENTRY:
        return (
            "its tables are not those of any base: the angle at position t is not t times a frequency; is that meant?"
        )
    later = "" if np.abs(turns[0] - 1).max() < _ENTRY else ", which do not begin with position 0"
    return _of_frequencies(np.angle(once)) + later


def _of_frequencies(found: Array) -> str:
    """What the frequencies of pairs are, known up to whole turns."""
    share = np.arange(len(found)) / len(found)
    if len(found) == 1 and _near(found, np.ones(1)):
        return "its tables are those of any base: there is one pair of features, and its frequency is 1"
    if len(found) > 1 and found[-1] > 0:
        base = float(found[-1] ** (-1 / share[-1]))
        if base > 1 and _near(found, base**-share):
            return f"its tables are those of base {_digits(base)}"
    for known in _BASES:
        away = np.exp(1j * found) - np.exp(1j * known**share)
        if np.abs(away).max() < _ENTRY:
            return (
                f"its tables are those of the frequencies {known}^(2i/d), which grow with i, where {known}^(-2i/d) is "
                "usual: the sign of the exponent is wrong, or is that meant?"
            )
    some = ", ".join(f"{one:.4g}" for one in found[:4]) + (", ..." if len(found) > 4 else "")
    return f"its tables are not those of any base: the frequencies are not base^(-2i/d) but {some}; is that meant?"


def _near(found: Array, wanted: Array) -> bool:
    return bool((np.abs(found - wanted) < _QUOTIENT * np.abs(wanted)).all())


def _digits(base: float) -> str:
    """A base to as many digits as single precision leaves of it."""
    rounded = float(f"{base:.3g}")
    return f"{rounded if abs(rounded - base) < _QUOTIENT * base else base:.10g}"


def at_a_few(table: Callable[[str, Mapping[str, int]], Array], names: Mapping[str, int]) -> str:
    """The same of tables that are functions of their sizes; nothing if they hold no three positions.

    Args:
        table: gives the table ``cos`` or ``sin`` at some sizes.
        names: the sizes besides the number of positions.
    """
    for length in _POSITIONS:
        try:
            cos, sin = (table(name, {**names, "T": length, "S": length}) for name in ("cos", "sin"))
        except (IndexError, ValueError):  # NumPy's complaint: there are fewer positions
            continue
        if len(cos) >= length:
            return of_which_angles(cos, sin)
    return ""
