"""Grouped heads: several query heads read one key and value head, which is never copied.

Defines `Groups` (the axes g of key and value heads and r of query heads for each of them), `grouped_weights`, the form
`grouped`, and `copied`: the ordinary weights with which ordinary attention is the same function.  Query head ``i`` is
the pair ``(g, r)`` with ``i = g R + r``, so it reads key and value head ``floor(i / R)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mha_sym.attention.dims import Dims, Weights, dims
from mha_sym.attention.forms import Options, Stages, attend, project, with_positions
from mha_sym.axes import Axis, axis, product
from mha_sym.expr import Expr, Input, Join, Named, Rename, Split, find_axis
from mha_sym.pattern import einsum, rearrange, repeat


@dataclass(frozen=True)
class Groups:
    """The axes of a layer with grouped heads; ``d.h`` has as many positions as g and r together.

    Example:
        >>> grouped_dims().d.h
        h: G*R
    """

    d: Dims
    g: Axis
    r: Axis


def grouped_dims() -> Groups:
    """Axes of symbolic sizes, as many keys as queries unless they are told apart: ``S`` is a size of its own."""
    g, r = axis("g", "G"), axis("r", "R")
    return Groups(replace(dims(S="S"), h=axis("h", g.size * r.size)), g, r)


def grouped_weights(a: Groups, bias: bool = False) -> Weights:
    """W_Q ``(m, (g r k))``, W_K ``(m, (g k))``, W_V ``(m, (g v))``, W_O ``((h v), m)``, and biases to match.

    Example:
        >>> grouped_weights(grouped_dims()).w_k.axes
        (m: d_model, (g k): G*d_k)
    """
    d, g, r = a.d, a.g, a.r
    queries, keys, values = product(g, r, d.k), product(g, d.k), product(g, d.v)
    w = Weights(
        w_q=Input("W_Q", (d.m, queries), "weight"), w_k=Input("W_K", (d.m, keys), "weight"),
        w_v=Input("W_V", (d.m, values), "weight"), w_o=Input("W_O", (d.hv, d.m), "weight"),
    )  # fmt: skip
    if not bias:
        return w
    return replace(
        w, b_q=Input("b_Q", (queries,), "bias"), b_k=Input("b_K", (keys,), "bias"),
        b_v=Input("b_V", (values,), "bias"), b_o=Input("b_O", (d.m,), "bias"),
    )  # fmt: skip


def grouped(a: Groups, x: tuple[Expr, Expr, Expr], w: Weights, o: Options = Options()) -> Stages:  # noqa: B008
    """The layer with one K and V for every group of query heads.

    Shapes: ``q (b,g,r,t,k)``, ``k (b,g,s,k)``, ``v (b,g,s,v)``, ``scores`` and ``weights (b,g,r,t,s)``,
    ``z (b,g,r,t,v)``, ``c (b,t,(h v))``, ``y (b,t,m)``.  Masks have the axes b, h, t, s, any of which may be missing.

    Example:
        >>> from mha_sym.attention.dims import cross_inputs
        >>> a = grouped_dims()
        >>> grouped(a, cross_inputs(a.d), grouped_weights(a)).weights.axes
        (b: B, g: G, r: R, t: T, s: S)
    """
    d = a.d
    product_of, split = "definition of the product", "split of the feature axis, then transpose"
    flat = [
        Named(project(x[n], token, weight, weight.axes[-1], bias, d), name, product_of)
        for n, (token, weight, bias, name) in enumerate(
            ((d.t, w.w_q, w.b_q, "Q_flat"), (d.s, w.w_k, w.b_k, "K_flat"), (d.s, w.w_v, w.b_v, "V_flat"))
        )
    ]
    q = Named(rearrange(flat[0], "b t (g r k) -> b g r t k"), "Q", split)
    k = Named(rearrange(flat[1], "b s (g k) -> b g s k"), "K", split)
    v = Named(rearrange(flat[2], "b s (g v) -> b g s v"), "V", split)
    inner = replace(o, mask=_by_group(o.mask, a), keep=_by_group(o.keep, a))
    turned = with_positions(d, q, k, o)
    scores, weights, z = attend(d, *turned, v, inner, "b g r", shared="b g")
    c = Named(rearrange(as_heads(z, a), "b h t v -> b t (h v)"), "C", "transpose back, then join")
    y = einsum("b t (h v), (h v) m -> b t m", c, w.w_o)
    return Stages(*turned, v, scores, weights, z, c, Named(y if w.b_o is None else y + w.b_o, "Y", product_of))


def _by_group(mask: Expr | None, a: Groups) -> Expr | None:
    """A mask with its head axis read as the pair (g, r)."""
    if mask is None or a.d.h not in mask.axes:
        return mask
    pair = Rename(mask, a.d.h, product(a.g, a.r))
    order = " ".join(one.name for one in pair.axes)
    return rearrange(pair, f"{order} -> {order.replace('(g r)', 'g r')}")


def as_heads(expr: Expr, a: Groups) -> Expr:
    """Adjacent axes g and r read as the one axis h.

    Example:
        >>> a = grouped_dims()
        >>> as_heads(Input("Z", (a.g, a.r, a.d.v)), a).axes
        (h: G*R, v: d_v)
    """
    order = " ".join(one.name for one in expr.axes)
    joined = rearrange(expr, f"{order} -> {order.replace('g r', '(g r)')}")
    return Rename(joined, find_axis(joined, "(g r)", "as_heads"), a.d.h)


def copied(w: Weights, a: Groups) -> Weights:
    """The combined weights of the same function: every key and value head copied for its query heads.

    Example:
        >>> a = grouped_dims()
        >>> copied(grouped_weights(a), a).w_v.axes
        (m: d_model, (h v): G*R*d_v)
    """
    parts = w.items()
    for name, feature in {"w_q": a.d.k, "w_k": a.d.k, "w_v": a.d.v, "b_q": a.d.k, "b_k": a.d.k, "b_v": a.d.v}.items():
        if name in parts:
            parts[name] = _copied(parts[name], a, feature)
    return Weights(**parts)


def _copied(expr: Expr, a: Groups, feature: Axis) -> Expr:
    """One weight or bias whose last axis is ``(g r feature)`` or ``(g feature)``, with ``(h feature)`` instead."""
    opened: Expr = Split(expr, expr.axes[-1])
    order = " ".join(one.name for one in opened.axes)
    if a.r not in opened.axes:
        opened = repeat(opened, f"{order} -> {order.replace('g', 'g r')}", [a.r])
    heads = as_heads(opened, a)
    return Join(heads, (a.d.h, feature))
