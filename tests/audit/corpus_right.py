"""Correct attention in many styles, in NumPy and torch, besides `tests.audit.right`: none of it may be flagged.

Defines `STYLES`, by name.  Those of JAX and Keras are in `tests.audit.corpus_jax`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from einops import rearrange, repeat
from torch import nn
from torch.nn import functional

from mha_sym.audit import Implementation
from tests.audit.corpus import CONVENTIONS, Step, hidden, implementation, split
from tests.audit.corpus_weights import bias_in_every_head, heads_turned, with_weights, without
from tests.audit.right import RIGHT, softmax

# ---------------------------------------------------------------- NumPy


def tensordot_and_moveaxis(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (np.moveaxis(np.tensordot(x, w.reshape(len(w), heads, -1), 1), 2, 1) for w in (w_q, w_k, w_v))
    z = softmax(np.matmul(q, np.swapaxes(k, 2, 3)) / np.sqrt(q.shape[-1])) @ v
    return np.tensordot(np.moveaxis(z, 1, 2), w_o.reshape(heads, -1, w_o.shape[1]), 2)


def one_axis_of_batch_and_heads(x, w_q, w_k, w_v, w_o, heads, key_keep=None):
    """Batch and heads in one axis, as torch does inside; the padding mask repeated to it."""
    b = len(x)
    q, k, v = (rearrange(x @ w, "b t (h d) -> (b h) t d", h=heads) for w in (w_q, w_k, w_v))
    scores = q @ rearrange(k, "n s d -> n d s") * q.shape[-1] ** -0.5
    if key_keep is not None:
        scores = np.where(repeat(key_keep, "b s -> (b h) 1 s", h=heads), scores, -1e30)
    return rearrange(softmax(scores) @ v, "(b h) t d -> b t (h d)", b=b) @ w_o


def heads_before_batch(x, w_q, w_k, w_v, w_o, heads):
    """Head-major all the way: stacked by head, cut by batch, side by side at the end."""
    b = len(x)
    q, k, v = (np.concatenate(np.split(x @ w, heads, axis=-1)) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])) @ v
    return np.concatenate([z[r * b : (r + 1) * b] for r in range(heads)], axis=-1) @ w_o


def streaming_softmax(x, w_q, w_k, w_v, w_o, heads):
    """Keys one by one, with a running maximum and a running sum."""
    q, k, v = (rearrange(x @ w, "b t (h d) -> b h t d", h=heads) for w in (w_q, w_k, w_v))
    top, total, mixed = np.full(q.shape[:3], -np.inf), np.zeros(q.shape[:3]), np.zeros((*q.shape[:3], v.shape[-1]))
    for s in range(k.shape[2]):
        score = (q * k[:, :, s : s + 1]).sum(-1) / np.sqrt(q.shape[-1])
        new = np.maximum(top, score)
        old, fresh = np.exp(top - new), np.exp(score - new)
        total = total * old + fresh
        mixed = mixed * old[..., None] + fresh[..., None] * v[:, :, s : s + 1]
        top = new
    return rearrange(mixed / total[..., None], "b h t d -> b t (h d)") @ w_o


def sum_over_heads(x, w_q, w_k, w_v, w_o, b_o, heads):
    """No concatenation: what every head adds to the output, and the bias once."""
    y = b_o + np.zeros((*x.shape[:2], w_o.shape[1]))
    rows = np.split(w_o, heads)
    for r, (p, k, v) in enumerate(zip(*(np.split(x @ w, heads, -1) for w in (w_q, w_k, w_v)), strict=True)):
        y = y + softmax(p @ k.transpose(0, 2, 1) / np.sqrt(p.shape[-1])) @ v @ rows[r]
    return y


def keys_transposed_first(x, w_q, w_k, w_v, w_o, heads):
    """K^T Q with the softmax down its columns, as in column-major code."""
    q, k, v = (rearrange(x @ w, "b t (h d) -> b h d t", h=heads) for w in (w_q, w_k, w_v))
    scores = k.swapaxes(2, 3) @ q / np.sqrt(q.shape[2])  # (b, h, s, t)
    return rearrange(v @ (np.exp(scores) / np.exp(scores).sum(2, keepdims=True)), "b h d t -> b t (h d)") @ w_o


def renormalised_after_the_mask(x, w_q, w_k, w_v, w_o, heads, keep=None):
    """Masked after the softmax, and the rows divided by what is left: the same function."""
    q, k, v = (rearrange(x @ w, "b t (h d) -> b h t d", h=heads) for w in (w_q, w_k, w_v))
    a = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))
    if keep is not None:
        a = a * keep
        a = a / a.sum(-1, keepdims=True)
    return rearrange(a @ v, "b h t d -> b t (h d)") @ w_o


def strict_upper_triangle_hidden(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (rearrange(x @ w, "b t (h d) -> b h t d", h=heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + np.triu(np.full((x.shape[1],) * 2, -1e9), k=1)
    return rearrange(softmax(scores) @ v, "b h t d -> b t (h d)") @ w_o


def shared_keys_by_einsum(x, w_q, w_k, w_v, w_o, heads, kv_heads):
    """Grouped heads without a copy of the keys: the group is an axis of its own."""
    q = rearrange(x @ w_q, "b t (g r d) -> b g r t d", g=kv_heads, r=heads // kv_heads)
    k, v = (rearrange(x @ w, "b s (g d) -> b g s d", g=kv_heads) for w in (w_k, w_v))
    a = softmax(np.einsum("bgrtd,bgsd->bgrts", q, k) / np.sqrt(q.shape[-1]))
    return rearrange(np.einsum("bgrts,bgsd->bgrtd", a, v), "b g r t d -> b t (g r d)") @ w_o


def one_key_for_all_heads(x, w_q, w_k, w_v, w_o, heads):
    """Multi-query attention: broadcasting over the heads does the sharing."""
    q = rearrange(x @ w_q, "b t (h d) -> b h t d", h=heads)
    k, v = (x @ w_k)[:, None], (x @ w_v)[:, None]
    return rearrange(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v, "b h t d -> b t (h d)") @ w_o


# ---------------------------------------------------------------- torch functions


def sdpa(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, keep=None):
    q, k, v = (rearrange(x @ w, "b t (h d) -> b h t d", h=heads) for w in (w_q, w_k, w_v))
    z = functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    return rearrange(z, "b h t d -> b t (h d)") @ w_o


def sdpa_added_mask(x_q: torch.Tensor, x_k, x_v, w_q, w_k, w_v, w_o, heads, mask=None):
    q, k, v = (
        (x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for x, w in ((x_q, w_q), (x_k, w_k), (x_v, w_v))
    )
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2) @ w_o


def sdpa_causal(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, causal):
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2) @ w_o


def sdpa_grouped(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, kv_heads):
    q, k, v = (
        (x @ w).unflatten(-1, (n, -1)).transpose(1, 2) for w, n in ((w_q, heads), (w_k, kv_heads), (w_v, kv_heads))
    )
    return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).flatten(2) @ w_o


def baddbmm_and_masked_fill(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, key_drop=None):
    b, t, _ = x.shape
    q, k, v = ((x @ w).view(b, t, heads, -1).transpose(1, 2).reshape(b * heads, t, -1) for w in (w_q, w_k, w_v))
    none = torch.zeros(b * heads, t, t, dtype=x.dtype)
    scores = torch.baddbmm(none, q, k.mT, alpha=1 / math.sqrt(q.shape[-1]))
    if key_drop is not None:
        hidden = key_drop[:, None, None, :].expand(b, heads, t, t).reshape(b * heads, t, t)
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    z = torch.bmm(scores.softmax(-1), v).view(b, heads, t, -1)
    return z.permute(0, 2, 1, 3).contiguous().view(b, t, -1) @ w_o


def list_of_linear_maps(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
    parts = zip(*(torch.chunk(w, heads, dim=1) for w in (w_q, w_k, w_v)), strict=True)
    found = [torch.softmax(x @ q @ (x @ k).mT / q.shape[1] ** 0.5, dim=-1) @ (x @ v) for q, k, v in parts]
    return torch.cat(found, dim=-1) @ w_o


def einsum_of_torch(x: torch.Tensor, weights):
    q, k, v = (torch.einsum("btm,hmd->bhtd", x, weights[name]) for name in ("w_q", "w_k", "w_v"))
    a = torch.einsum("bhtd,bhsd->bhts", q / q.shape[-1] ** 0.5, k).softmax(dim=3)
    return torch.einsum("bhts,bhsd,hdm->btm", a, v, weights["w_o"])


def vmap_over_heads(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
    def one(q, k, v):
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v

    q, k, v = ((x @ w).unflatten(-1, (heads, -1)) for w in (w_q, w_k, w_v))
    return torch.vmap(one, in_dims=2, out_dims=2)(q, k, v).flatten(2) @ w_o


# ---------------------------------------------------------------- torch modules


class Blocks(nn.Module):
    """One layer for Q, K and V, read as blocks."""

    def __init__(self, width: int = 20, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (
            one.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for one in self.c_attn(x).split(x.shape[-1], -1)
        )
        keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        a = (q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])).masked_fill(~keep, -math.inf).softmax(-1)
        return self.c_proj((self.drop(a) @ v).transpose(1, 2).reshape(x.shape))


class ByHead(nn.Module):
    """One layer for Q, K and V, the three of a head together."""

    def __init__(self, width: int = 18, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value, self.dense = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query_key_value(x).unflatten(-1, (self.heads, 3, -1)).transpose(1, 2).unbind(3)
        return self.dense(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class ThreeLayers(nn.Module):
    """A layer each; the scale goes into the queries before they are split."""

    def __init__(self, width: int = 14, heads: int = 3, features: int = 5) -> None:
        super().__init__()
        self.heads, self.features = heads, features
        self.query, self.key, self.value = (nn.Linear(width, heads * features) for _ in range(3))
        self.dense = nn.Linear(heads * features, width)

    def forward(self, x_q, x_k, x_v):
        q = self.query(x_q) * self.features**-0.5
        q, k, v = (rearrange(one, "b t (h d) -> b h t d", h=self.heads) for one in (q, self.key(x_k), self.value(x_v)))
        return self.dense(rearrange(torch.softmax(q @ k.mT, -1) @ v, "b h t d -> b t (h d)"))


def module(made: nn.Module, layout: str, names: dict[str, str] | None = None, **more) -> Implementation:
    return Implementation(
        call=made, heads=made.heads, layout=layout, names=names or {}, framework="torch",
        name=type(made).__name__, **more,
    )  # fmt: skip


# ---------------------------------------------------------------- the same function by a theorem


def half_each(c, flat, letter):
    return split(c, flat, letter) * (c.factor**0.5 if letter in "qk" else 1)


def on_one(which: str) -> Step:
    return lambda c, flat, letter: split(c, flat, letter) * (c.factor if letter == which else 1)


def reversed_features(c, flat, letter):
    heads = split(c, flat, letter)
    return heads[..., list(reversed(range(heads.shape[-1])))] if letter in "qk" else heads


def folded(c):
    return {"b_v": 0 * c.w["b_v"], "b_o": c.w["b_o"] + c.w["b_v"] @ c.w["w_o"]}


def rows_turned_too(c):
    c.w = heads_turned(*"qkv")(c)
    return {**c.w, "w_o": c.o.cat(list(c.o.chunk(c.w["w_o"], c.h, 0))[::-1], 0)}


def added_for_boolean(c, scores):
    keep = hidden(c)
    return scores if keep is None else scores - 1e30 * (1 - c.o.number(keep, scores))


def shared_bias(c, joined):
    """The output bias in every head, divided by their number."""
    w = c.w
    c.w = {**w, "b_o": w["b_o"] / c.h}
    return bias_in_every_head(c, joined)


def unscaled(c, raw):
    return raw


#: steps, and the convention under which they stand for others
_SAME: dict[str, tuple[str, dict[str, Step]]] = {
    "key bias left out": ("linear, cross", {"weights": without("b_k")}),
    "key bias twice": ("packed", {"weights": with_weights(lambda c: {"b_k": 2 * c.w["b_k"]})}),
    "value bias in the output bias": ("sequence first", {"weights": with_weights(folded)}),
    "scale on the queries": ("linear, biased", {"split": on_one("q"), "scaled": unscaled}),
    "scale on the keys": ("padding, cross", {"split": on_one("k"), "scaled": unscaled}),
    "scale in fourth roots of both": ("own scale, cross", {"split": half_each, "scaled": unscaled}),
    "features in another order": ("combined, cross", {"split": reversed_features}),
    "heads in another order, rows too": ("kept keys, cross", {"weights": rows_turned_too}),
    "added for boolean": ("dropped keys", {"hide": added_for_boolean}),
    "shared output bias": ("linear, biased", {"output": shared_bias}),
    "no maximum taken off": ("plain", {"softmax": lambda c, s: c.o.exp(s) / c.o.exp(s).sum(-1)[..., None]}),
}  # fmt: skip
SAME = {
    f"{name}, {framework}": implementation(CONVENTIONS[convention], steps, framework, name)
    for name, (convention, steps) in _SAME.items()
    for framework in ("numpy", "torch")
}


def shipped(**arguments) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    return nn.MultiheadAttention(24, 4, **arguments)


STYLES = {
    **RIGHT,
    "tensordot and moveaxis": tensordot_and_moveaxis,
    "one axis of batch and heads": one_axis_of_batch_and_heads,
    "heads before batch": heads_before_batch,
    "streaming softmax": streaming_softmax,
    "sum over heads": sum_over_heads,
    "keys transposed first": keys_transposed_first,
    "renormalised after the mask": renormalised_after_the_mask,
    "strict upper triangle hidden": Implementation(call=strict_upper_triangle_hidden, causal=True),
    "shared keys by einsum": shared_keys_by_einsum,
    "one key for all heads": Implementation(call=one_key_for_all_heads, layout="grouped", kv_heads=1),
    "sdpa": sdpa,
    "sdpa, added mask": sdpa_added_mask,
    "sdpa, causal": sdpa_causal,
    "sdpa, grouped": sdpa_grouped,
    "baddbmm and masked_fill": baddbmm_and_masked_fill,
    "list of linear maps": list_of_linear_maps,
    "einsum of torch": Implementation(call=einsum_of_torch, layout="separate", framework="torch"),
    "vmap over heads": vmap_over_heads,
    "blocks in one layer": module(Blocks(), "nanogpt", causal=True),
    "by head in one layer": module(ByHead(), "gpt_neox"),
    "a layer each": module(ThreeLayers(), "bert"),
    "shipped": shipped(batch_first=True),
    "shipped, sequence first": shipped(),
    "shipped, no bias": shipped(bias=False, batch_first=True),
    "shipped, widths of its own": shipped(kdim=10, vdim=14, batch_first=True),
    "shipped, dropout": shipped(dropout=0.2, batch_first=True),
    **SAME,
}
