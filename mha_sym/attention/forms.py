"""Forms of multi-head attention: combined projection, separate heads, sum over heads.

Each form returns its `Stages`, expressions under the names that the field gives them.  A form does not
compute anything; proof, numbers, trace, counts and writing read the same stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from mha_sym.attention.dims import Dims, Weights
from mha_sym.attention.rotary import Angles, turned
from mha_sym.axes import Axis, Index
from mha_sym.expr import Concat, Expr, Named, Scalar, Select, Softmax, Stack, Total
from mha_sym.pattern import einsum, rearrange


@dataclass(frozen=True)
class Stages:
    """The named values on the way through a layer.

    Shapes, in the combined form: ``q (b,h,t,k)``, ``k (b,h,s,k)``, ``v (b,h,s,v)``, ``scores`` and
    ``weights (b,h,t,s)``, ``z (b,h,t,v)``, ``c (b,t,(h v))``, ``y (b,t,m)``.  The separate form has the
    same as families over head r, stacked.
    """

    q: Expr
    k: Expr
    v: Expr
    scores: Expr
    weights: Expr
    z: Expr
    c: Expr
    y: Expr

    def items(self) -> dict[str, Expr]:
        """The stages in order, by name."""
        return {name: getattr(self, name) for name in ("q", "k", "v", "scores", "weights", "z", "c", "y")}


@dataclass(frozen=True)
class Options:
    """What a layer does besides the weights: the additive mask, the mask of kept keys, the scale, rotary positions.

    ``mask`` is added to the scores; ``keep`` is 0 or 1 and removes keys; ``scale`` multiplies ``q . k``
    (``1/sqrt(d_k)`` if omitted).  Both masks may lack any of the axes b, h, t, s.  ``angles`` turn queries and keys.
    """

    mask: Expr | None = None
    keep: Expr | None = None
    scale: sympy.Expr | None = None
    angles: Angles | None = None


def _bias(value: Expr, bias: Expr | None) -> Expr:
    return value if bias is None else value + bias


def project(x: Expr, token: Axis, w: Expr, feature: Axis, b: Expr | None, d: Dims) -> Expr:
    """``X W + b``: from ``(b, token, m)`` to ``(b, token, feature)``; keys and values may have a width of their own."""
    width = x.axes[-1].name
    pattern = f"b {token.name} {width}, {width} {feature.name} -> b {token.name} {feature.name}"
    return _bias(einsum(pattern, x, w), b)


def combined(d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options = Options()) -> Stages:
    """One projection for all heads, split and transposed; heads joined again before W_O.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims, self_inputs
        >>> d = dims()
        >>> combined(d, self_inputs(d), combined_weights(d)).z.axes
        (b: B, h: h, t: T, v: d_v)
    """
    product_of = "definition of the product"
    q_flat = Named(project(x[0], d.t, w.w_q, d.hk, w.b_q, d), "Q_flat", product_of)
    k_flat = Named(project(x[1], d.s, w.w_k, d.hk, w.b_k, d), "K_flat", product_of)
    v_flat = Named(project(x[2], d.s, w.w_v, d.hv, w.b_v, d), "V_flat", product_of)
    split = "split of the feature axis, then transpose"
    q = Named(rearrange(q_flat, "b t (h k) -> b h t k"), "Q", split)
    k = Named(rearrange(k_flat, "b s (h k) -> b h s k"), "K", split)
    v = Named(rearrange(v_flat, "b s (h v) -> b h s v"), "V", split)
    turned_q, turned_k = with_positions(d, q, k, o)
    scores, weights, z = attend(d, turned_q, turned_k, v, o, "b h")
    c = Named(rearrange(z, "b h t v -> b t (h v)"), "C", "transpose back, then join")
    y = Named(_bias(einsum("b t (h v), (h v) m -> b t m", c, w.w_o), w.b_o), "Y", product_of)
    return Stages(turned_q, turned_k, v, scores, weights, z, c, y)


def with_positions(d: Dims, q: Expr, k: Expr, o: Options, name: str = "{}") -> tuple[Expr, Expr]:
    """Queries and keys of heads with their positions turned into them, where there are rotary positions."""
    if o.angles is None:
        return q, k
    reason = "pairs of features turned by the angles of the position"
    return (
        Named(turned(q, d.t, o.angles), name.format("Q_rot"), reason),
        Named(turned(k, d.s, o.angles), name.format("K_rot"), reason),
    )


def attend(
    d: Dims, q: Expr, k: Expr, v: Expr, o: Options, lead: str, name: str = "{}", shared: str = ""
) -> tuple[Expr, Expr, Expr]:
    """Scores, weights and head outputs of heads that are already split.

    ``lead`` names the leading axes, ``"b h"`` for all heads at once and ``"b"`` for one of them; ``shared`` those of
    keys and values where several query heads read the same.
    """
    scale = Scalar(d.scale if o.scale is None else o.scale)
    shared = shared or lead
    scores: Expr = einsum(f"{lead} t k, {shared} s k -> {lead} t s", q, k) * scale
    scores = Named(_bias(scores, o.mask), name.format("S"), "definition of the scores")
    weights = Named(Softmax(scores, (d.s,), o.keep), name.format("A"), "softmax over the keys")
    pattern = f"{lead} t s, {shared} s v -> {lead} t v"
    z = Named(einsum(pattern, weights, v), name.format("Z"), "weighted sum of the values")
    return scores, weights, z


def at_head(expr: Expr | None, d: Dims, r: Index) -> Expr | None:
    """The part of a mask or weight that belongs to head ``r``; all of it if heads share it."""
    return Select(expr, d.h, r) if expr is not None and d.h in expr.axes else expr


def _head(d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options, r: Index) -> tuple[Expr, ...]:
    """One head: Q, K, V, scores, weights and output of head ``r``."""
    product_of = "definition of the product"
    name = "{}^(" + r.name + ")"
    q = Named(project(x[0], d.t, Select(w.w_q, d.h, r), d.k, at_head(w.b_q, d, r), d), name.format("Q"), product_of)
    k = Named(project(x[1], d.s, Select(w.w_k, d.h, r), d.k, at_head(w.b_k, d, r), d), name.format("K"), product_of)
    v = Named(project(x[2], d.s, Select(w.w_v, d.h, r), d.v, at_head(w.b_v, d, r), d), name.format("V"), product_of)
    inner = replace(o, mask=at_head(o.mask, d, r), keep=at_head(o.keep, d, r))
    turned_q, turned_k = with_positions(d, q, k, o, name)
    return (turned_q, turned_k, v, *attend(d, turned_q, turned_k, v, inner, "b", name))


def _stacked(body: Expr, r: Index) -> Expr:
    """The family ``body^(r)`` with its head axis behind the batch axis: ``(b, h, ...)``."""
    stack = Stack(body, r)
    names = [a.name for a in stack.axes]
    return rearrange(stack, " ".join(names) + " -> " + " ".join([names[1], names[0], *names[2:]]))


def separate(d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options = Options()) -> Stages:
    """Every head on its own, with its own matrices; the outputs concatenated, then W_O.

    ``w`` holds separate weights; W_O is used as one matrix, as which it may be given, or its row blocks are stacked.

    Example:
        >>> from mha_sym.attention.dims import dims, head_weights, self_inputs
        >>> d = dims()
        >>> separate(d, self_inputs(d), head_weights(d)).c.axes
        (b: B, t: T, (h v): d_v*h)
    """
    r = d.head
    parts = _head(d, x, w, o, r)
    c = Named(Concat(parts[-1], r, d.v), "Concat", "concatenation of the heads")
    w_o = w.w_o if d.hv in w.w_o.axes else Concat(Select(w.w_o, d.h, r), r, d.v)
    y = _bias(einsum("b t (h v), (h v) m -> b t m", c, w_o), w.b_o)
    named = Named(y, "Y_sep", "definition of the product")
    q, k, v, scores, weights, z = (_stacked(part, r) for part in parts)
    return Stages(q, k, v, scores, weights, z, c, named)


def head_sum(d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options = Options()) -> Stages:
    """Every head on its own, each multiplied by its block of W_O, and the results added up.

    Example:
        >>> from mha_sym.attention.dims import dims, head_weights, self_inputs
        >>> d = dims()
        >>> head_sum(d, self_inputs(d), head_weights(d)).y.axes
        (b: B, t: T, m: d_model)
    """
    r = d.head
    parts = _head(d, x, w, o, r)
    each = Named(einsum("b t v, v m -> b t m", parts[-1], Select(w.w_o, d.h, r)), "H^(r)", "definition of the product")
    y = Named(_bias(Total(each, r), w.b_o), "Y_sum", "sum over the heads")
    q, k, v, scores, weights, z = (_stacked(part, r) for part in parts)
    c = Named(Concat(parts[-1], r, d.v), "Concat", "concatenation of the heads")
    return Stages(q, k, v, scores, weights, z, c, y)
