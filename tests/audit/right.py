"""Correct attention in the styles in which people write it: plain NumPy, einops and torch, no code of the package.

Each function is what a user might hand to ``check``.  None of them shares a line of computation with the package.
"""

from __future__ import annotations

import math

import numpy as np
from einops import einsum, rearrange

from mha_sym.audit import Implementation


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def loops_over_everything(x, w_q, w_k, w_v, w_o, heads):
    B, T, _ = x.shape
    d_k, d_v = w_q.shape[1] // heads, w_v.shape[1] // heads
    y = np.zeros((B, T, w_o.shape[1]))
    for b in range(B):
        for r in range(heads):
            q = [x[b, t] @ w_q[:, r * d_k : (r + 1) * d_k] for t in range(T)]
            k = [x[b, t] @ w_k[:, r * d_k : (r + 1) * d_k] for t in range(T)]
            v = [x[b, t] @ w_v[:, r * d_v : (r + 1) * d_v] for t in range(T)]
            for t in range(T):
                e = [math.exp(float(q[t] @ k[s]) / math.sqrt(d_k)) for s in range(T)]
                z = sum(e[s] / sum(e) * v[s] for s in range(T))
                y[b, t] += z @ w_o[r * d_v : (r + 1) * d_v]
    return y


def matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads):
    def split(a):
        return a.reshape(*a.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w_q), split(x @ w_k), split(x @ w_v)
    z = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])) @ v
    return z.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o


def one_einsum_after_the_other(x_q, x_k, x_v, w_q, w_k, w_v, w_o, num_heads):
    q = np.einsum("btm,mhk->bhtk", x_q, w_q.reshape(w_q.shape[0], num_heads, -1))
    k = np.einsum("bsm,mhk->bhsk", x_k, w_k.reshape(w_k.shape[0], num_heads, -1))
    v = np.einsum("bsm,mhv->bhsv", x_v, w_v.reshape(w_v.shape[0], num_heads, -1))
    a = softmax(np.einsum("bhtk,bhsk->bhts", q, k) * q.shape[-1] ** -0.5)
    return np.einsum("bhts,bhsv,hvm->btm", a, v, w_o.reshape(num_heads, -1, w_o.shape[1]))


def with_einops(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (rearrange(x @ w, "b t (h d) -> b h t d", h=heads) for w in (w_q, w_k, w_v))
    a = softmax(einsum(q, k, "b h t d, b h s d -> b h t s") / math.sqrt(q.shape[-1]))
    return rearrange(einsum(a, v, "b h t s, b h s d -> b h t d"), "b h t d -> b t (h d)") @ w_o


def list_of_heads(x, weights):
    """Weights of every head apart, as in the paper."""
    out = []
    for w_q, w_k, w_v in zip(weights["w_q"], weights["w_k"], weights["w_v"], strict=True):
        scores = (x @ w_q) @ (x @ w_k).swapaxes(1, 2) / np.sqrt(w_q.shape[1])
        out.append(softmax(scores) @ (x @ w_v))
    return np.concatenate(out, axis=-1) @ weights["w_o"].reshape(-1, weights["w_o"].shape[-1])


def queries_and_keys_folded(x, w_q, w_k, w_v, w_o, heads):
    """The same function in another order of contraction: X (W_Q W_K^T) X^T, and W_V W_O first."""
    m = w_q.shape[0]
    per = [w.reshape(m, heads, -1) for w in (w_q, w_k, w_v)]
    qk = np.einsum("mhk,nhk->hmn", per[0], per[1]) / np.sqrt(per[0].shape[-1])
    vo = np.einsum("mhv,hvn->hmn", per[2], w_o.reshape(heads, -1, w_o.shape[1]))
    return sum(softmax(x @ qk[r] @ x.swapaxes(1, 2)) @ (x @ vo[r]) for r in range(heads))


def scale_in_fourth_roots(x, w_q, w_k, w_v, w_o, heads):
    def split(a):
        return a.reshape(*a.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w_q), split(x @ w_k), split(x @ w_v)
    root = q.shape[-1] ** -0.25
    z = softmax((q * root) @ (k * root).transpose(0, 1, 3, 2)) @ v
    return z.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o


def all_biases(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, heads):
    def split(a):
        return a.reshape(*a.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w_q + b_q), split(x @ w_k + b_k), split(x @ w_v + b_v)
    z = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])) @ v
    return z.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o + b_o


def value_bias_folded_into_the_output(x, w_q, w_k, w_v, w_o, b_q, b_v, b_o, heads):
    return matmul_and_transpose_biased(x, w_q, w_k, w_v, w_o, b_q, b_v @ w_o + b_o, heads)


def matmul_and_transpose_biased(x, w_q, w_k, w_v, w_o, b_q, b_o, heads):
    def split(a):
        return a.reshape(*a.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(x @ w_q + b_q), split(x @ w_k), split(x @ w_v)
    z = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])) @ v
    return z.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o + b_o


def masked(x, w_q, w_k, w_v, w_o, heads, keep=None, key_keep=None):
    """Both masks, either of which may be None; hidden scores are minus infinity."""
    B, T, _ = x.shape
    q, k, v = ((x @ w).reshape(B, T, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    if key_keep is not None:
        scores = np.where(key_keep[:, None, None, :], scores, -np.inf)
    return (softmax(scores) @ v).swapaxes(1, 2).reshape(B, T, -1) @ w_o


def additive_mask(x, w_q, w_k, w_v, w_o, heads, mask=None):
    B, T, _ = x.shape
    q, k, v = ((x @ w).reshape(B, T, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    return (softmax(scores if mask is None else scores + mask) @ v).swapaxes(1, 2).reshape(B, T, -1) @ w_o


def causal_by_itself(x, w_q, w_k, w_v, w_o, heads):
    T = x.shape[1]
    return masked(x, w_q, w_k, w_v, w_o, heads, keep=np.tril(np.ones((T, T), bool)))


def sequence_first(x, w_q, w_k, w_v, w_o, heads):
    """(t, b, m) in and out."""
    T, B, _ = x.shape
    q, k, v = ((x @ w).reshape(T, B * heads, -1).swapaxes(0, 1) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])) @ v
    return z.swapaxes(0, 1).reshape(T, B, -1) @ w_o


def all_stages(x, w_q, w_k, w_v, w_o, heads):
    B, T, _ = x.shape
    q, k, v = ((x @ w).reshape(B, T, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    a = softmax(scores)
    z = a @ v
    c = z.swapaxes(1, 2).reshape(B, T, -1)
    return {"q": q, "k": k, "v": v, "scores": scores, "weights": a, "z": z, "c": c, "y": c @ w_o}


def narrow_heads(x, w_q, w_k, w_v, w_o, heads):
    """Runs only where d_model = h d_k, as most teaching code does."""
    B, T, m = x.shape
    q, k, v = ((x @ w).reshape(B, T, heads, m // heads).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.swapaxes(2, 3) / np.sqrt(m // heads)) @ v
    return z.swapaxes(1, 2).reshape(B, T, m) @ w_o


def packed(x, in_proj_weight, out_proj_weight, heads):
    """Packed as torch does, in NumPy: the rows are [Q; K; V], every matrix is (out, in)."""
    q, k, v = np.split(x @ in_proj_weight.T, 3, axis=-1)
    B, T, _ = x.shape
    q, k, v = (a.reshape(B, T, heads, -1).swapaxes(1, 2) for a in (q, k, v))
    z = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v
    return z.swapaxes(1, 2).reshape(B, T, -1) @ out_proj_weight.T


class Linear:
    """A layer that owns its weights, stored (out, in)."""

    def __init__(self, m=10, heads=3, d_k=4, d_v=5):
        rng = np.random.default_rng(7)
        self.heads = heads
        self.parameters = {
            "to_q": rng.normal(size=(heads * d_k, m)),
            "to_k": rng.normal(size=(heads * d_k, m)),
            "to_v": rng.normal(size=(heads * d_v, m)),
            "to_out": rng.normal(size=(m, heads * d_v)),
        }

    def __call__(self, x):
        p = self.parameters
        return matmul_and_transpose(x, p["to_q"].T, p["to_k"].T, p["to_v"].T, p["to_out"].T, self.heads)


def linear_layer() -> Implementation:
    layer = Linear()
    names = {"w_q": "to_q", "w_k": "to_k", "w_v": "to_v", "w_o": "to_out"}
    return Implementation(
        call=layer, takes=("x",), heads=3, layout="linear", weights=layer.parameters, names=names, name="Linear"
    )


#: what is handed to check, by name
RIGHT = {
    "loops over everything": loops_over_everything,
    "matmul and transpose": matmul_and_transpose,
    "einsum, three inputs": one_einsum_after_the_other,
    "einops": with_einops,
    "a list of heads": Implementation(call=list_of_heads, layout="separate"),
    "queries and keys folded": queries_and_keys_folded,
    "scale in fourth roots": scale_in_fourth_roots,
    "all biases": all_biases,
    "value bias folded": value_bias_folded_into_the_output,
    "boolean masks": masked,
    "additive mask": additive_mask,
    "causal by itself": Implementation(call=causal_by_itself, causal=True),
    "sequence first": Implementation(call=sequence_first, batch_first=False),
    "all stages": all_stages,
    "d_model = h d_k only": narrow_heads,
    "packed": Implementation(
        call=packed, layout="torch_packed", takes=("x", "in_proj_weight", "out_proj.weight", "heads")
    ),
    "owns its weights": linear_layer(),
    "factory": linear_layer,
    "scale of its own": Implementation(
        call=lambda x, w_q, w_k, w_v, w_o, heads: matmul_and_transpose(
            x, w_q * 0.25 * (w_q.shape[1] // heads) ** 0.5, w_k, w_v, w_o, heads
        ),
        scale=0.25,
    ),
}
