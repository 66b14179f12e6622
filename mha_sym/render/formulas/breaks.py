"""Where a formula may be broken, and breaking it.

Defines `mark`, the mark that is written into a formula wherever a new line may begin, `plain`, which takes the marks
away, and `rows`, which breaks at them.  What a formula says is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

#: the characters used as marks; they say how deep inside a formula they stand, and mean nothing in Unicode
FIRST, LEVELS = 0xE000, 24
#: what one more line costs; a break costs 1 at the outermost level, and three times as much at each one further in
LINE = 8
MARK = re.compile(f"[{chr(FIRST)}-{chr(FIRST + LEVELS - 1)}]")


def mark(level: int) -> str:
    """The mark at which a formula may be broken, ``level`` deep inside."""
    return chr(FIRST + min(level, LEVELS - 1))


def level_of(found: str) -> int:
    """How deep inside a mark stands."""
    return ord(found) - FIRST


def deeper(text: str, by: int = 2) -> str:
    """The text with its marks further inside.

    Example:
        >>> deeper(f"a{mark(1)}b") == f"a{mark(3)}b"
        True
    """
    return MARK.sub(lambda found: mark(level_of(found[0]) + by), text)


def plain(text: str) -> str:
    """The text on one line, without marks.

    Example:
        >>> plain(f"a {mark(0)}+ b")
        'a + b'
    """
    return MARK.sub("", text)


def rows(text: str, width: float, indent: float = 2, measure: Callable[[str], float] = len) -> list[str]:
    """The text in few lines that are no wider than ``width``, broken at the best of its marks.

    Args:
        text: the formula, with marks.
        width: how wide a line may be; a piece without a mark may be wider.
        indent: how much less lines after the first may have.
        measure: the width of a piece.

    Example:
        >>> rows(f"a {mark(0)}+ b {mark(1)}c {mark(0)}+ d", 5)
        ['a + b', 'c', '+ d']
        >>> rows(f"a {mark(0)}+ b {mark(1)}c {mark(0)}+ d", 7)
        ['a + b c', '+ d']
    """
    levels = [0, *map(level_of, MARK.findall(text))]
    pieces = MARK.split(text)
    widths = [measure(piece) for piece in pieces]
    best: list[tuple[tuple[float, float, float], int]] = [((0, 0, 0), 0)]
    for end in range(1, len(pieces) + 1):
        choices = []
        line = measure(pieces[end - 1].rstrip()) - widths[end - 1]
        for start in reversed(range(end)):
            line += widths[start]
            spare = width - (indent if start else 0) - line
            over, cost, ragged = best[start][0]
            new = (over + max(0, -spare), cost + LINE + 3 ** levels[start], ragged + max(0, spare) ** 2)
            choices.append((new, start))
            if spare < -width:
                break
        best.append(min(choices))
    cuts = [len(pieces)]
    while cuts[-1]:
        cuts.append(best[cuts[-1]][1])
    cuts.reverse()
    return ["".join(pieces[start:end]).strip() for start, end in pairwise(cuts)]
