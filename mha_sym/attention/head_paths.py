"""The way of an array into heads and back, and the ways that look like it and are wrong.

Defines `HeadPath`, `right_path` and the table `WRONG_PATHS`.  Each path only moves numbers about; that a wrong one is
wrong is refuted in the theorems ``combined_projection_eq_separate_heads`` and ``split_transpose_join_is_identity``,
under the names used here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mha_sym.attention.dims import Dims
from mha_sym.attention.variants import interleaved
from mha_sym.errors import DataProblem
from mha_sym.expr import Expr, Input, Reshape
from mha_sym.pattern import rearrange


@dataclass(frozen=True)
class HeadPath:
    """One way of an array: what it is called, the expression at its end, and what is done, in shapes."""

    title: str
    expr: Expr
    words: str


@dataclass(frozen=True)
class WrongPath:
    """A way that is wrong.

    Attributes:
        title: what it is called.
        words: what is done, in shapes.
        make: the expression at its end.
        theorem: the theorem whose control of the same name refutes it.
        back: whether it is a way back, from the heads to the joined features.
        sizes: sizes at which it is small enough to be drawn.
    """

    title: str
    words: str
    make: Callable[[Dims], Expr] = field(repr=False)
    theorem: str = "combined_projection_eq_separate_heads"
    back: bool = False
    sizes: Mapping[str, int] = field(default_factory=lambda: {"B": 1, "T": 4, "h": 2, "d_k": 3})


def flat(d: Dims) -> Input:
    """The joined features ``(b, t, (h k))``."""
    return Input("Q_flat", (d.b, d.t, d.hk))


def apart(d: Dims) -> Input:
    """The features of every head, ``(b, h, t, k)``."""
    return Input("Z", (d.b, d.h, d.t, d.k))


def right_path(d: Dims, back: bool = False) -> HeadPath:
    """The right way into heads, or back.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> right_path(dims()).expr.axes
        (b: B, h: h, t: T, k: d_k)
    """
    if back:
        words = "(B, h, T, d_k) transposed to (B, T, h, d_k), then joined to (B, T, h·d_k)"
        return HeadPath("Right: transpose back, then join", rearrange(apart(d), "b h t k -> b t (h k)"), words)
    words = "(B, T, h·d_k) split into (B, T, h, d_k), then transposed to (B, h, T, d_k)"
    return HeadPath("Right: split, then transpose", rearrange(flat(d), "b t (h k) -> b h t k"), words)


def wrong_path(name: str, d: Dims) -> HeadPath:
    """A wrong way, by its name in `WRONG_PATHS`.

    Raises:
        DataProblem: if it is not possible at these sizes.
    """
    found = WRONG_PATHS[name]
    return HeadPath(f"Wrong: {found.title}", found.make(d), found.words)


def _untransposed(d: Dims) -> Expr:
    if d.t.size != d.h.size:
        raise DataProblem(
            "a transpose can be left out unnoticed only where there are as many tokens as heads",
            expected="T = h", got=f"T = {d.t.size}, h = {d.h.size}",
        )  # fmt: skip
    return Reshape(rearrange(flat(d), "b t (h k) -> b t h k"), (d.b, d.h, d.t, d.k))


WRONG_PATHS: dict[str, WrongPath] = {
    "raw_reshape": WrongPath(
        "raw reshape", "(B, T, h·d_k) reshaped straight to (B, h, T, d_k)",
        lambda d: Reshape(flat(d), (d.b, d.h, d.t, d.k)),
    ),
    "factors_swapped": WrongPath(
        "factors swapped", "(B, T, h·d_k) split into (B, T, d_k, h), then transposed to (B, h, T, d_k)",
        lambda d: rearrange(interleaved(flat(d), d, d.k), "b t h k -> b h t k"),
    ),
    "transpose_left_out": WrongPath(
        "transpose left out", "(B, T, h, d_k) passes for (B, h, T, d_k), since T = h", _untransposed,
        sizes={"B": 1, "T": 3, "h": 3, "d_k": 2},
    ),
    "join_without_transpose": WrongPath(
        "join without transpose", "(B, h, T, d_k) reshaped straight to (B, T, h·d_k)",
        lambda d: Reshape(apart(d), (d.b, d.t, d.hk)), theorem="split_transpose_join_is_identity", back=True,
    ),
}  # fmt: skip
