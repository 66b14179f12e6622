"""Ways of an array that only move its numbers: where a false statement takes another way than the right one.

Defines `SMALL`, sizes at which single numbers are drawn, `wrong_way`, which finds both ways of a control, and
`ways_svg`, which draws them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mha_sym.errors import Problem
from mha_sym.expr import Expr, Input, Join, Named, Reshape, Split, Transpose
from mha_sym.proof.theorem import Claim
from mha_sym.render.pictures.cells import Path, cells_svg

#: sizes at which single numbers are drawn
SMALL = {"B": 1, "T": 4, "S": 3, "h": 2, "d_k": 3, "d_v": 3, "d_model": 5, "n": 3}

#: nodes that move numbers and do nothing else
Move = Split | Join | Transpose | Reshape


def wrong_way(control: Claim, claims: Iterable[Claim]) -> tuple[Expr, Expr] | None:
    """The right way and the wrong one, if a side of the control moves what a claim moves elsewhere, to the same axes.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> from mha_sym.pattern import rearrange
        >>> t, h, k = axis("t", "T"), axis("h"), axis("k", "d_k")
        >>> x = Input("x", (t, product(h, k)))
        >>> right, wrong = rearrange(x, "t (h k) -> h t k"), Reshape(x, (h, t, k))
        >>> wrong_way(Claim("raw", wrong, right), [Claim("Q", Named(right, "Q"), right)]) == (right, wrong)
        True
    """
    known = [_way(side) for claim in claims for side in (claim.left, claim.right)]
    for side in (control.left, control.right):
        found = _way(side)
        for one in known if found.moves else ():
            same = one.start == found.start and set(one.end.axes) == set(found.end.axes)
            if same and one.moves and one.over("x") != found.over("x"):
                name = one.name or found.name or "x"
                return one.over(name), found.over(name)
    return None


@dataclass(frozen=True)
class _Way:
    """What is moved, what it is called, and the nodes that move it, the last one first."""

    start: Expr
    name: str
    end: Expr
    moves: tuple[Move, ...]

    def over(self, name: str) -> Expr:
        """The way of an input of that name."""
        expr: Expr = Input(name, self.start.axes)
        for node in reversed(self.moves):
            expr = replace(node, arg=expr)
        return expr


def _way(expr: Expr) -> _Way:
    node = expr.arg if isinstance(expr, Named) else expr
    moves: list[Move] = []
    while isinstance(node, Move):
        moves.append(node)
        node = node.arg
    start = node.arg if isinstance(node, Named) else node
    return _Way(start, node.name if isinstance(node, Named | Input) else "", expr, tuple(moves))


def ways_svg(right: Expr, wrong: Expr, title: str, key: str = "", words: tuple[str, str] = ("Right", "Wrong")) -> str:
    """Both ways side by side, number by number; nothing if they cannot be drawn."""
    try:
        return cells_svg([Path(words[0], right), Path(words[1], wrong)], SMALL, title=title, key=key)
    except Problem:
        return ""
