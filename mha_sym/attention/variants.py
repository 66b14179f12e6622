"""Ways to bend a form that several theorems share: named head blocks, masks, edits of one stage.

Defines `weight_name`, `changed_weight`, `head_blocks`, `keep_mask` and its assumption `some_key_kept`, `position`,
`on_blocks`, `read_as_each_other`, `interleaved`, `edited` (change a stage and go on from there) and `stage_claims`.  It
defines no form of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from mha_sym.attention.dims import Dims, Weights, split_heads
from mha_sym.attention.forms import Options, Stages, attend
from mha_sym.axes import Axis, Index, axis
from mha_sym.expr import (
    Compare,
    Expr,
    Input,
    Join,
    Named,
    Reduce,
    Rename,
    Reshape,
    Select,
    Softmax,
    Split,
    Stack,
    Transpose,
)
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.theorem import Assumption, Claim

#: how each stage is called in the name of a claim
STAGE_NAMES = {
    "q": "Q", "k": "K", "v": "V", "scores": "scores", "weights": "weights", "z": "Z", "c": "C", "y": "Y",
}  # fmt: skip


def weight_name(name: str) -> str:
    """What a weight is called in formulas, by its name in `Weights`.

    Example:
        >>> weight_name("w_q"), weight_name("b_o")
        ('W_Q', 'b_O')
    """
    return f"{'b' if name.startswith('b') else 'W'}_{name[-1].upper()}"


def changed_weight(name: str, expr: Expr, how: str) -> Named:
    """A weight made of the one of that name in `Weights`, under its name with a prime: ``W_Q'``.

    Args:
        name: such as ``w_q``.
        expr: the new weight.
        how: what was done to the old one, as a reason for ``W_Q' = ...``.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> changed_weight("w_q", combined_weights(dims()).w_q * 2, "the weights doubled").name
        "W_Q'"
    """
    return Named(expr, f"{weight_name(name)}'", how, f"{weight_name(name)}, {how}")


def head_blocks(w: Weights, d: Dims) -> Weights:
    """Combined weights read one slice a head, each slice under its name: ``W_Q^(r)``, ..., ``W_O^(r)``.

    Slice r of ``W_Q (m, (h k))`` is its column block ``W_Q[m, r*d_k + j]``; of ``W_O ((h v), m)`` its row block.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> d = dims()
        >>> head_blocks(combined_weights(d), d).w_k.axes
        (h: h, m: d_model, k: d_k)
    """
    parts = split_heads(w, d).items()
    for name, expr in parts.items():
        if isinstance(expr, Stack):
            reason = {"w_o": "row blocks"}.get(name, "column blocks" if name.startswith("w") else "blocks of the bias")
            parts[name] = Stack(Named(expr.body, f"{weight_name(name)}^({expr.index.name})", reason), expr.index)
    return Weights(**parts)


def interleaved(expr: Expr, d: Dims, feature: Axis) -> Expr:
    """The axis ``(h feature)`` read with its factors swapped: head r gets the columns r, r + h, r + 2h, ...

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> d = dims()
        >>> interleaved(combined_weights(d).w_q, d, d.k).axes
        (m: d_model, h: h, k: d_k)
    """
    swapped: list[Axis] = []
    split: list[Axis] = []
    for one in expr.axes:
        joined = one.factors == (d.h, feature)
        swapped += (feature, d.h) if joined else (one,)
        split += (d.h, feature) if joined else (one,)
    return Transpose(Reshape(expr, tuple(swapped)), tuple(split))


def keep_mask(*over: Axis) -> Input:
    """An arbitrary mask of kept keys, 0 or 1 everywhere: minus infinity, in code, where it is 0."""
    return Input("keep", over, "mask", boolean=True)


def some_key_kept(keep: Expr, d: Dims) -> Assumption:
    """No row of the mask is empty: ``sum_s keep > 0``."""
    return Assumption("every query keeps at least one key", positive=Reduce("sum", keep, (d.s,)))


def position(op: Literal["le", "lt", "ge", "gt", "eq", "ne"], along: Axis, index: Index) -> Expr:
    """The 0/1 vector ``[position op index]`` over the axis of the index.

    Example:
        >>> d_t = axis("t", "T")
        >>> position("gt", d_t, Index("u", d_t)).axes
        (t: T,)
    """
    other = axis("position", along.size)
    return Rename(Select(Compare(op, other, along), along, index), other, along)


def on_blocks(weight: Expr, gate: Expr, along: Axis) -> Expr:
    """Every head's block of a weight, along an axis (heads, width), times the gate of the head.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> d = dims()
        >>> on_blocks(combined_weights(d).w_o, Input("g", (d.h,), "gate"), d.hv).axes
        ((h v): d_v*h, m: d_model)
    """
    return Join(Split(weight, along) * gate, along.factors)


def read_as_each_other(expr: Expr, one: Axis, other: Axis) -> Expr:
    """Two axes of the same size, each read as the other, nothing moved: ``(b, t, h)`` read as ``(b, h, t)``.

    Example:
        >>> t, h = axis("t", "n"), axis("h", "n")
        >>> read_as_each_other(Input("Q", (t, h)), t, h).axes
        (h: n, t: n)
    """
    aside = axis("aside", one.size)
    return Rename(Rename(Rename(expr, one, aside), other, one), aside, other)


def edited(d: Dims, stages: Stages, w: Weights, o: Options = Options(), **changed: Expr) -> Stages:  # noqa: B008
    """The layer with some stages changed and everything after them computed anew, in the combined form.

    Args:
        d: the axes.
        stages: the layer before the change.
        w: the weights, of which W_O and b_O are used.
        o: the mask, kept keys and scale for what is computed anew.
        changed: new stages by name, each with the axes of the old one.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims, self_inputs
        >>> from mha_sym.attention.forms import combined
        >>> d = dims()
        >>> layer = combined(d, self_inputs(d), combined_weights(d))
        >>> edited(d, layer, combined_weights(d), z=layer.z * 0).y.axes
        (b: B, t: T, m: d_model)
    """
    s = replace(stages, **changed)
    if {"q", "k"} & changed.keys():
        s = replace(s, scores=attend(d, s.q, s.k, s.v, o, "b h")[0])
    if {"q", "k", "scores"} & changed.keys():
        s = replace(s, weights=Named(Softmax(s.scores, (d.s,), o.keep), "A", "softmax over the keys"))
    if "z" not in changed:
        z = einsum("b h t s, b h s v -> b h t v", s.weights, s.v)
        s = replace(s, z=Named(z, "Z", "weighted sum of the values"))
    c = Named(rearrange(s.z, "b h t v -> b t (h v)"), "C", "transpose back, then join")
    y = einsum("b t (h v), (h v) m -> b t m", c, w.w_o)
    y = y if w.b_o is None else y + w.b_o
    return replace(s, c=c, y=Named(y, "Y", "definition of the product"))


def stage_claims(left: Stages, right: Stages, words: dict[str, str], suffix: str = "") -> tuple[Claim, ...]:
    """One claim a stage, in the order of ``words``, which maps stages to sentences."""
    sides = (left.items(), right.items())
    return tuple(
        Claim(STAGE_NAMES[stage] + suffix, sides[0][stage], sides[1][stage], text) for stage, text in words.items()
    )
