"""The axes of an attention layer under their fixed letters, and its weights in both shapes.

Defines `Dims` (b batch, t query position, s key position, m model feature, h head, k head feature of
queries and keys, v head feature of values), `Weights`, and the constructors of symbolic weights.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import sympy

from mha_sym.axes import Axis, Index, axis, product
from mha_sym.expr import Concat, Expr, Input, Rename, Select, Split, Stack


@dataclass(frozen=True)
class Dims:
    """The seven axes of a layer; sizes are symbols unless given.

    Example:
        >>> d = dims(T=5, h=3)
        >>> d.t, d.h, d.hk
        (t: 5, h: 3, (h k): 3*d_k)
    """

    b: Axis
    t: Axis
    s: Axis
    m: Axis
    h: Axis
    k: Axis
    v: Axis

    @property
    def hk(self) -> Axis:
        """The joined axis of queries and keys, ``(h k)``."""
        return product(self.h, self.k)

    @property
    def hv(self) -> Axis:
        """The joined axis of values and head outputs, ``(h v)``."""
        return product(self.h, self.v)

    @property
    def scale(self) -> sympy.Expr:
        """``1/sqrt(d_k)``."""
        return 1 / sympy.sqrt(self.k.size)

    @property
    def head(self) -> Index:
        """The index ``r`` of "head r"."""
        return Index("r", self.h)


def dims(
    B: int | sympy.Expr | str = "B",
    T: int | sympy.Expr | str = "T",
    S: int | sympy.Expr | str | None = None,
    d_model: int | sympy.Expr | str = "d_model",
    h: int | sympy.Expr | str = "h",
    d_k: int | sympy.Expr | str = "d_k",
    d_v: int | sympy.Expr | str = "d_v",
) -> Dims:
    """Axes of a layer; ``S`` is the number of keys, ``T`` (self-attention) if omitted.

    Example:
        >>> dims().s
        s: T
    """
    return Dims(
        b=axis("b", B), t=axis("t", T), s=axis("s", T if S is None else S), m=axis("m", d_model),
        h=axis("h", h), k=axis("k", d_k), v=axis("v", d_v),
    )  # fmt: skip


@dataclass(frozen=True)
class Weights:
    """W_Q, W_K, W_V, W_O and the biases, any of which may be missing.

    Combined: ``W_Q (m, (h k))``, ``W_K (m, (h k))``, ``W_V (m, (h v))``, ``W_O ((h v), m)``,
    ``b_Q ((h k))``, ``b_K ((h k))``, ``b_V ((h v))``, ``b_O (m)``.
    Separate: ``W_Q (h, m, k)``, ..., ``W_O (h, v, m)``, ``b_Q (h, k)``, ..., one slice a head.
    """

    w_q: Expr
    w_k: Expr
    w_v: Expr
    w_o: Expr
    b_q: Expr | None = None
    b_k: Expr | None = None
    b_v: Expr | None = None
    b_o: Expr | None = None

    def items(self) -> dict[str, Expr]:
        """The weights that are there, by field name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}

    def without(self, *names: str) -> Weights:
        """The same weights, some of them dropped."""
        none: dict[str, Any] = dict.fromkeys(names)
        return replace(self, **none)


def combined_weights(d: Dims, bias: bool = False) -> Weights:
    """Symbolic combined weights, one matrix for all heads.

    Example:
        >>> combined_weights(dims()).w_q.axes
        (m: d_model, (h k): d_k*h)
    """
    w = Weights(
        w_q=Input("W_Q", (d.m, d.hk), "weight"),
        w_k=Input("W_K", (d.m, d.hk), "weight"),
        w_v=Input("W_V", (d.m, d.hv), "weight"),
        w_o=Input("W_O", (d.hv, d.m), "weight"),
    )
    if not bias:
        return w
    return replace(
        w,
        b_q=Input("b_Q", (d.hk,), "bias"),
        b_k=Input("b_K", (d.hk,), "bias"),
        b_v=Input("b_V", (d.hv,), "bias"),
        b_o=Input("b_O", (d.m,), "bias"),
    )


def head_weights(d: Dims, bias: bool = False) -> Weights:
    """Symbolic separate weights, one matrix a head, as families over ``h``.

    Example:
        >>> head_weights(dims()).w_o.axes
        (h: h, v: d_v, m: d_model)
    """
    w = Weights(
        w_q=Input("W_Q", (d.h, d.m, d.k), "weight"),
        w_k=Input("W_K", (d.h, d.m, d.k), "weight"),
        w_v=Input("W_V", (d.h, d.m, d.v), "weight"),
        w_o=Input("W_O", (d.h, d.v, d.m), "weight"),
    )
    if not bias:
        return w
    return replace(
        w,
        b_q=Input("b_Q", (d.h, d.k), "bias"),
        b_k=Input("b_K", (d.h, d.k), "bias"),
        b_v=Input("b_V", (d.h, d.v), "bias"),
        b_o=Input("b_O", (d.m,), "bias"),
    )


def self_inputs(d: Dims) -> tuple[Expr, Expr, Expr]:
    """The input X of self-attention as seen by queries, keys and values: its token axis is ``t`` or ``s``."""
    x = Input("X", (d.b, d.t, d.m))
    keys = Rename(x, d.t, d.s)
    return x, keys, keys


def cross_inputs(d: Dims) -> tuple[Expr, Expr, Expr]:
    """Separate inputs X_q, X_k, X_v of a layer whose keys and values come from elsewhere."""
    return (
        Input("X_q", (d.b, d.t, d.m)),
        Input("X_k", (d.b, d.s, d.m)),
        Input("X_v", (d.b, d.s, d.m)),
    )


def split_heads(w: Weights, d: Dims) -> Weights:
    """Combined weights read as one slice a head: column blocks of W_Q, W_K, W_V, row blocks of W_O.

    Example:
        >>> split_heads(combined_weights(dims()), dims()).w_q.axes
        (h: h, m: d_model, k: d_k)
    """
    r = d.head
    joined = {"w_q": d.hk, "w_k": d.hk, "w_v": d.hv, "w_o": d.hv, "b_q": d.hk, "b_k": d.hk, "b_v": d.hv}
    parts: dict[str, Any] = {
        name: Stack(Select(Split(expr, joined[name]), d.h, r), r) if name in joined else expr
        for name, expr in w.items().items()
    }
    return Weights(**parts)


def join_heads(w: Weights, d: Dims) -> Weights:
    """Separate weights laid side by side: ``W_Q = [W_Q^(1) | ... | W_Q^(h)]``, and W_O stacked.

    Example:
        >>> join_heads(head_weights(dims()), dims()).w_o.axes
        ((h v): d_v*h, m: d_model)
    """
    r = d.head
    along = {"w_q": d.k, "w_k": d.k, "w_v": d.v, "w_o": d.v, "b_q": d.k, "b_k": d.k, "b_v": d.v}
    parts: dict[str, Any] = {
        name: Concat(Select(expr, d.h, r), r, along[name]) if name in along else expr
        for name, expr in w.items().items()
    }
    return Weights(**parts)
