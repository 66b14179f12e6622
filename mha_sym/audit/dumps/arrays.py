"""Whether one array of a dump is what it should be: its format, its values, its axes.

Defines `floating`, `finite`, `shaped` and `expected_shape`.  Each refuses in one line that says what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mha_sym.audit.call import letters
from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.precision import ROUNDOFF, Array
from mha_sym.errors import DataProblem


def floating(word: str, stored: Stored, name: str) -> None:
    """Refuse an array that holds no floating-point numbers."""
    if word == "keep":
        return  # looked at where masks are read
    if stored.dtype not in ROUNDOFF:
        hint = "a boolean mask is called keep, true where a query may attend" if word == "mask" else ""
        raise DataProblem(
            f"{word} holds {stored.dtype}", where=name, expected=f"one of {', '.join(ROUNDOFF)}", hint=hint
        )


def finite(word: str, value: Array, axes: list[str], name: str) -> None:
    """Refuse NaN and infinities, saying where the first one is; hidden scores may be minus infinity."""
    allowed = np.isneginf(value) if word == "scores" else np.zeros((), dtype=bool)
    bad = np.argwhere(~(np.isfinite(value) | allowed))
    if len(bad):
        place = ", ".join(f"{one}={int(i)}" for one, i in zip(axes, bad[0], strict=True))
        raise DataProblem(
            f"{word} holds {value[tuple(bad[0])]}", where=f"{name}, {word}[{place}], the first of {len(bad)}",
            expected="finite numbers",
        )  # fmt: skip


def expected_shape(order: str, sizes: Mapping[str, int]) -> tuple[list[str], list[int]]:
    """The axes of an order such as ``b t (h v)``, and their sizes.

    Example:
        >>> expected_shape("b t (h v)", {"B": 2, "T": 5, "h": 3, "d_v": 4})
        (['b', 't', '(h v)'], [2, 5, 12])
    """
    axes = [one for one in order.replace("(", " (").split(" (") if one]
    names: list[str] = []
    for n, part in enumerate(axes):
        if n and ")" in part:
            joined, _, rest = part.partition(")")
            names += [f"({joined})", *rest.split()]
        else:
            names += part.split()
    size = letters(sizes)
    return names, [math.prod(size.get(letter, 1) for letter in one.strip("()").split()) for one in names]


def shaped(word: str, value: Array, order: str, sizes: Mapping[str, int], name: str) -> None:
    """Refuse an array whose axes are not those of ``order``, with what may be the matter."""
    axes, expected = expected_shape(order, sizes)
    if list(value.shape) == expected:
        return
    hint = ""
    if sorted(value.shape) == sorted(expected):
        hint = f"the axes are in another order: say it under [axes] in a TOML file, as in {word} = \"...\""
    elif word == "weights" and value.ndim == 3:
        hint = "averaged over the heads? dump one matrix a head"
    raise DataProblem(
        f"{word} has the wrong axes", where=name, got=str(tuple(value.shape)), hint=hint,
        expected="(" + ", ".join(f"{one}: {n}" for one, n in zip(axes, expected, strict=True)) + ")",
    )  # fmt: skip
