"""The way of an entry through axes: which station moves it where.

Defines `Move`, `moves_of` and `stations`.  What is drawn of it is decided by the renderers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mha_sym.axes import Axis
from mha_sym.expr import Expr, Input, Join, Permute, Rename, Repeat, Reshape, Split, Transpose
from mha_sym.proof.meaning import Meaning, domain, positions
from mha_sym.proof.terms import Entry, Index, Term


@dataclass(frozen=True)
class Move:
    """One station on the way of an entry through axes: what was done, and the axes and the position after it."""

    words: str
    sizes: tuple[Term, ...]
    at: tuple[Index, ...]


_MOVES: dict[type[Expr], str] = {
    Split: "split", Join: "join", Transpose: "transpose", Reshape: "reshape", Repeat: "repeat", Rename: "rename",
    Permute: "permute",
}  # fmt: skip


def moves_of(expr: Expr) -> list[Move]:
    """The stations of an entry of an expression that only rearranges axes, from what is given to the result.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> x = Input("x", (axis("t"), product(axis("h"), axis("k"))))
        >>> [one.words for one in moves_of(Split(x, x.axes[1]))]
        ['given', 'split']
    """
    places: dict[str, Index] = {}
    taken: set[str] = set()
    for axis in expr.axes:
        (variables, index), *_ = positions(axis, taken, opened=True)
        places[axis.name] = index
        taken |= {v.name for v in variables}
    found: list[Move] = []
    while type(expr) in _MOVES:
        inner: Expr = expr.children[0]
        found.append(_move(_MOVES[type(expr)], expr.axes, places))
        probe = Meaning().at(replace(expr, arg=Input("probe", inner.axes)), places, {})  # type: ignore[call-arg]
        assert isinstance(probe, Entry)
        places = {axis.name: index for axis, index in zip(inner.axes, probe.at, strict=True)}
        expr = inner
    return [_move("given", expr.axes, places), *reversed(found)] if found else []


def stations(expr: Expr) -> list[Expr]:
    """The expression at every station of `moves_of`.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> x = Input("x", (axis("t"), product(axis("h"), axis("k"))))
        >>> stations(Split(x, x.axes[1])) == [x, Split(x, x.axes[1])]
        True
    """
    found = [expr]
    while type(found[-1]) in _MOVES:
        found.append(found[-1].children[0])
    return found[::-1]


def _move(words: str, axes: Sequence[Axis], places: Mapping[str, Index]) -> Move:
    return Move(words, tuple(domain(a).size for a in axes), tuple(places[a.name] for a in axes))
