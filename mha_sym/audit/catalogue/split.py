"""Faults of splitting the features into heads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy

from mha_sym.attention.variants import interleaved, read_as_each_other
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits, Site, Slot
from mha_sym.axes import axis
from mha_sym.expr import Expr, Rename, Reshape, Softmax
from mha_sym.pattern import einsum, rearrange

_FAMILY = "split"
_LETTERS = {"q": ("t", "k"), "k": ("s", "k"), "v": ("s", "v")}


def viewed(letter: str) -> Slot:
    """``(b t (h k))`` read as ``(b h t k)`` without moving an entry."""
    token, feature = _LETTERS[letter]

    def split(at: Site, flat: Expr) -> Expr:
        d = at.d
        return Reshape(flat, (d.b, d.h, d.t if token == "t" else d.s, d.k if feature == "k" else d.v))

    return split


def features_first(letter: str) -> Slot:
    """``(b t (k h))``: head r gets the columns r, r + h, ..."""
    token, feature = _LETTERS[letter]

    def split(at: Site, flat: Expr) -> Expr:
        apart = interleaved(flat, at.d, at.d.k if feature == "k" else at.d.v)
        return rearrange(apart, f"b {token} h {feature} -> b h {token} {feature}")

    return split


def untransposed(letter: str) -> Slot:
    """``(b t h k)`` read as ``(b h t k)`` where there are as many tokens as heads."""
    token, feature = _LETTERS[letter]

    def split(at: Site, flat: Expr) -> Expr:
        apart = rearrange(flat, f"b {token} (h {feature}) -> b {token} h {feature}")
        return read_as_each_other(apart, at.d.t if token == "t" else at.d.s, at.d.h)

    return split


def _channels_first(letter: str) -> Slot:
    """``(b (h k) t)``, as convolutions leave it, read as ``(b h t k)`` without moving an entry."""
    token, feature = _LETTERS[letter]

    def split(at: Site, flat: Expr) -> Expr:
        d = at.d
        turned = rearrange(flat, f"b {token} (h {feature}) -> b (h {feature}) {token}")
        return Reshape(turned, (d.b, d.h, d.t if token == "t" else d.s, d.k if feature == "k" else d.v))

    return split


def _each(make: Callable[[str], Slot], letters: str) -> Edits:
    return {f"split_{letter}": make(letter) for letter in letters}


_MEND = "rearrange({x}, 'b t (h k) -> b h t k', h=h)"
_WHO = {"qkv": "queries, keys and values", "kv": "keys and values", "q": "the queries",
        "k": "the keys", "v": "the values"}  # fmt: skip


def _mend(letters: str) -> str:
    return _MEND.format(x="x @ w" if len(letters) > 1 else f"x @ w_{letters}")


def _views() -> tuple[Fault, ...]:
    return tuple(
        Fault(
            name="split_by_view" if letters == "qkv" else f"split_by_view_of_{letters}",
            words=f"The projection of {_WHO[letters]} (B, T, h d) is reshaped straight to (B, h, T, d).",
            symptom="Heads mix tokens; right at h = 1 or T = 1 only; the model trains, but worse with more heads.",
            mend=_mend(letters), step=3, stage=letters[0], edits=_each(viewed, letters), family=_FAMILY,
            alone=letters == "kv",
        )
        for letters in ("qkv", "kv", "q", "k", "v")
    )  # fmt: skip


def _orders() -> tuple[Fault, ...]:
    return tuple(
        Fault(
            name="split_features_first" if letters == "qkv" else f"split_features_first_of_{letters}",
            words=f"The features of {_WHO[letters]} are split as (d, h) instead of (h, d): heads get strided columns.",
            symptom="Trains from scratch; trained weights give garbage.",
            mend=_mend(letters), step=3, stage=letters[0], edits=_each(features_first, letters), family=_FAMILY,
        )
        for letters in ("qkv", "q", "k", "v")
    )  # fmt: skip


def _left_out() -> tuple[Fault, ...]:
    return tuple(
        Fault(
            name="split_untransposed" if letters == "qkv" else f"split_untransposed_{letters}",
            words=f"The axes of tokens and heads of {_WHO[letters]} are not exchanged: (B, T, h, d) passes for "
            "(B, h, T, d) where T = h.",
            symptom="Runs only where there are as many tokens as heads.",
            mend=_mend(letters), step=3, stage=letters[0], edits=_each(untransposed, letters),
            ties={"T": "h", "S": "T"} if letters != "q" else {"T": "h"}, family=_FAMILY,
            alone=letters == "kv",
        )
        for letters in ("qkv", "kv", "q", "k", "v")
    )  # fmt: skip


# ---------------------------------------------------------------- heads attend to heads


def _apart(token: str, feature: str) -> Slot:
    return lambda at, flat: rearrange(flat, f"b {token} (h {feature}) -> b {token} h {feature}")


def _between_heads(at: Site, q: Expr, k: Expr) -> Expr:
    other = axis("g", at.d.h.size)
    mine = Rename(k, at.d.s, at.d.t)
    return einsum("b t h k, b t g k -> b t h g", q, Rename(mine, at.d.h, other))


def _over_heads(at: Site, scores: Expr) -> Expr:
    return Softmax(scores, (axis("g", at.d.h.size),))


def _of_heads(at: Site, weights: Expr, v: Expr) -> Expr:
    other = axis("g", at.d.h.size)
    mine = Rename(v, at.d.s, at.d.t)
    return einsum("b t h g, b t g v -> b t h v", weights, Rename(mine, at.d.h, other))


def _sum_of_heads(at: Site, weights: Expr, v: Expr) -> Expr:
    """``bthg,btuv->bthv``: the heads of the values have another letter, so that each is summed alone."""
    mine = Rename(Rename(v, at.d.s, at.d.t), at.d.h, axis("u", at.d.h.size))
    return einsum("b t h g, b t u v -> b t h v", weights, mine)


_BETWEEN: Edits = {
    "split_q": _apart("t", "k"), "split_k": _apart("s", "k"), "split_v": _apart("s", "v"),
    "product": _between_heads, "softmax": _over_heads, "mix": _of_heads,
}  # fmt: skip


def _join_straight(at: Site, z: Expr) -> Expr:
    return rearrange(z, "b t h v -> b t (h v)")


def _join_after_transpose(at: Site, z: Expr) -> Expr:
    return Reshape(rearrange(z, "b t h v -> b h t v"), (at.d.b, at.d.t, at.d.hv))


# ---------------------------------------------------------------- features attend to features


def _between_features(at: Site, q: Expr, k: Expr) -> Expr:
    other = axis("j", at.d.k.size)
    mine = Rename(Rename(k, at.d.s, at.d.t), at.d.k, other)
    return einsum("b t h k, b t h j -> b t k j", q, mine)


def _over_features(at: Site, scores: Expr) -> Expr:
    return Softmax(scores, (axis("j", at.d.k.size),))


def _of_features(at: Site, weights: Expr, v: Expr) -> Expr:
    other = axis("j", at.d.k.size)
    mine = Rename(Rename(v, at.d.s, at.d.t), at.d.v, other)
    return Rename(einsum("b t k j, b t h j -> b t k h", weights, mine), at.d.k, at.d.v)


def _scale_of_heads(at: Site) -> Site:
    """The scale of code that divides by the root of the last axis, which is h here."""
    return replace(at, scale=1 / sympy.sqrt(at.d.h.size)) if at.scale == at.d.scale else at


_FEATURES: Edits = {
    "split_q": _apart("t", "k"), "split_k": _apart("s", "k"), "split_v": _apart("s", "v"),
    "product": _between_features, "softmax": _over_features, "mix": _of_features,
}  # fmt: skip


def _left_turned(at: Site, z: Expr) -> Expr:
    return Reshape(z, (at.d.b, at.d.t, at.d.hv))


def _turned_back(at: Site, z: Expr) -> Expr:
    return rearrange(z, "b t v h -> b t (h v)")


def _usual_way_out(at: Site, z: Expr) -> Expr:
    return Reshape(rearrange(z, "b t v h -> b v t h"), (at.d.b, at.d.t, at.d.hv))


def _features_attend() -> tuple[Fault, ...]:
    ways = {
        "": ("", _left_turned), "_turned_back": (", and back after it", _turned_back),
        "_transposed_after": (", and tokens with the first of them after it", _usual_way_out),
    }  # fmt: skip
    scales: dict[str, tuple[str, Edits]] = {
        "": ("", {}), "_scaled_by_heads": ("; the scale is 1/sqrt(h)", {"before": _scale_of_heads}),
    }  # fmt: skip
    return tuple(
        Fault(
            name=f"features_attend_to_features{way}{scale}",
            words=f"(B, T, h, d) becomes (B, T, d, h): the last two axes are exchanged{out} instead of tokens and "
            f"heads, and every token's features attend to one another{factor}.",
            symptom="No token sees another one; the weights are (d, d) for each token.",
            mend=_mend("qkv"), step=3, stage="q", edits={**_FEATURES, **edits, "join": join}, needs=("unmasked",),
            ties={"S": "T", "d_v": "d_k"}, family=_FAMILY, alone=True,
        )
        for way, (out, join) in ways.items()
        for scale, (factor, edits) in scales.items()
    )  # fmt: skip


# ---------------------------------------------------------------- K


def _k_by_reshape(at: Site, q: Expr, k: Expr) -> Expr:
    turned = Reshape(k, (at.d.b, at.d.h, at.d.k, at.d.s))
    return einsum("b h t k, b h k s -> b h t s", q, turned)


def _k_flat_by_view(at: Site, flat: Expr) -> Expr:
    d = at.d
    return rearrange(Reshape(flat, (d.b, d.h, d.k, d.s)), "b h k s -> b h s k")


FAULTS: tuple[Fault, ...] = (
    *_views(),
    *_orders(),
    *_left_out(),
    Fault(
        name="heads_attend_to_heads",
        words="Heads are split but never moved in front of the tokens: every token's heads attend to one another.",
        symptom="No token sees another one; the influence map over tokens is the identity.",
        mend=_mend("qkv"), step=3, stage="q", edits={**_BETWEEN, "join": _join_straight}, needs=("unmasked",),
        ties={"S": "T"}, family=_FAMILY,
    ),
    Fault(
        name="heads_attend_to_heads_transposed_after",
        words="Heads are split but not moved in front of the tokens; only the way out exchanges the axes.",
        symptom="Tokens are mixed on the way out only, by position.",
        mend=_mend("qkv"), step=3, stage="q", edits={**_BETWEEN, "join": _join_after_transpose}, needs=("unmasked",),
        ties={"S": "T"}, family=_FAMILY,
    ),
    Fault(
        name="heads_summed_in_every_token",
        words="Heads are not moved in front of the tokens, and the einsum of weights and values has two names for one "
        "axis: every head gets the sum of the values of all heads of its own token.",
        symptom="No token sees another one; the output does not depend on queries and keys.",
        mend=_mend("qkv"), step=3, stage="q", edits={**_BETWEEN, "mix": _sum_of_heads, "join": _join_straight},
        needs=("unmasked",), ties={"S": "T"}, family=_FAMILY,
    ),
    *_features_attend(),
    Fault(
        name="split_channels_first_by_view",
        words="Projections (B, h d, T), as a 1x1 convolution gives them, are viewed as (B, h, T, d).",
        symptom="Heads mix tokens and features; right where T = 1 or d = 1.",
        mend="rearrange(x, 'b (h k) t -> b h t k', h=h)", step=3, stage="q", edits=_each(_channels_first, "qkv"),
        family=_FAMILY,
    ),
    Fault(
        name="keys_transposed_by_reshape",
        words="K (B, h, S, d_k) is reshaped to (B, h, d_k, S) instead of transposed.",
        symptom="Scores of the right shape that mix features of different keys.",
        mend="scores = einsum(q, k, 'b h t k, b h s k -> b h t s')", step=4, stage="scores",
        edits={"product": _k_by_reshape}, family=_FAMILY,
    ),
    Fault(
        name="keys_viewed_as_transposed",
        words="The projected keys (B, S, h d_k) are viewed straight as (B, h, d_k, S).",
        symptom="Scores of the right shape that mix features, keys and heads.",
        mend="rearrange(x @ w_k, 'b s (h k) -> b h k s', h=h)", step=3, stage="k",
        edits={"split_k": _k_flat_by_view}, family=_FAMILY,
    ),
)  # fmt: skip
