"""Plain text in columns, for the tables of a trace and of counts.

Defines `columns`.  No colour and no folding to a window: the same text goes to a terminal, a file and a test.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest


def columns(header: Sequence[str], rows: Sequence[Sequence[str] | str], right: Collection[int] = ()) -> str:
    """Rows of cells under a header; a cell may have several lines, and a row that is a text is a line of its own.

    Args:
        header: the heads of the columns.
        rows: one cell a column each, or a text.
        right: the numbers of the columns that are set flush right.

    Example:
        >>> print(columns(["step", "axes"], [["1", "(b, t)"], "then", ["12", "(t, b)"]], right=[0]))
        step  axes
        ────  ──────
           1  (b, t)
        then
          12  (t, b)
    """
    cells = [row for row in (header, *rows) if not isinstance(row, str)]
    widths = [max(len(line) for row in cells for line in row[place].split("\n")) for place in range(len(header))]
    lines = [*_lines(header, widths, right), "  ".join("─" * width for width in widths)]
    for row in rows:
        lines += [row] if isinstance(row, str) else _lines(row, widths, right)
    return "\n".join(lines)


def _lines(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> list[str]:
    lines = []
    for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
        placed = [
            part.rjust(width) if place in right else part.ljust(width)
            for place, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        lines.append("  ".join(placed).rstrip())
    return lines
