"""The equations of einsum, which every framework writes alike.

Defines `labels_of`.  What is summed is decided by `mha_sym.importers.builder.Builder.contract`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from mha_sym.importers.builder import Builder

Label = Hashable


@dataclass(frozen=True, slots=True)
class Labels:
    """A label for each axis of each operand, and of the result."""

    rows: tuple[tuple[Label, ...], ...]
    out: tuple[Label, ...]


def labels_of(g: Builder, equation: str, ranks: Sequence[int]) -> Labels:
    """The labels of an equation; axes under an ellipsis are counted from the last, so that they meet from there.

    Without an arrow the result has the axes under ellipses, and then every letter that occurs once, in their order.

    Args:
        g: refuses what does not fit, at its place.
        equation: as in ``b h t k, b h s k -> b h t s``, with or without spaces.
        ranks: how many axes each operand has.

    Raises:
        ImportProblem: for another number of operands or of axes.

    Example:
        >>> labels_of(Builder(), "...tk,k", (3, 1))
        Labels(rows=((('...', -1), 't', 'k'), ('k',)), out=(('...', -1), 't'))
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        g.refuse(f"the equation {equation!r} has {len(texts)} operands, {len(ranks)} were given")
    rows = tuple(_row(g, text, rank) for text, rank in zip(texts, ranks, strict=True))
    hidden = max((len(row) - _letters(text) for row, text in zip(rows, texts, strict=True)), default=0)
    if not arrow:
        right = "..." + "".join(c for c in sorted(set(left) - set(",.")) if left.count(c) == 1)
    return Labels(rows, _row(g, right, _letters(right) + (hidden if "..." in right else 0)))


def _letters(text: str) -> int:
    return len(text.replace("...", ""))


def _row(g: Builder, text: str, rank: int) -> tuple[Label, ...]:
    before, dots, after = text.partition("...")
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        g.refuse(f"{text!r} names {len(before) + len(after)} axes, the operand has {rank}")
    return (*before, *(("...", n) for n in range(-hidden, 0)), *after)
