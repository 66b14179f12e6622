"""Operations that do nothing under a stated assumption: one function each for all front ends.

Defines `without_nan`.
"""

from __future__ import annotations

from typing import Any

from mha_sym.importers.builder import Builder
from mha_sym.importers.graph import Ref


def without_nan(builder: Builder, ref: Ref, *replaced: Any) -> Ref:
    """An array in which NaN is replaced, and infinities by the numbers of largest size: itself, under an assumption.

    Args:
        builder: makes the graph, and notes the assumption.
        ref: the array.
        replaced: what infinities are replaced by, where code says so itself.

    Raises:
        ImportProblem: if it does.

    Example:
        >>> builder = Builder()
        >>> x = builder.input("x", (3,))
        >>> without_nan(builder, x, None, None) == x, len(builder.notes.assumed)
        (True, 1)
    """
    if any(one is not None for one in replaced):
        builder.refuse(
            "infinities are replaced by numbers of the code's own choice", hint="leave posinf and neginf out"
        )
    words = f"no entry is NaN at {builder.place}, and the number of largest size acts there as infinity does"
    builder.note(assumed=(words,))
    return ref
