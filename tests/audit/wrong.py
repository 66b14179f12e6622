"""Attention with one thing wrong, as found in public code: plain NumPy, no code of the package.

Each returns an output of the right shape, so that only its numbers give it away.
"""

from __future__ import annotations

import numpy as np

from mha_sym.audit import Implementation
from tests.audit.right import softmax


def split(a, heads):
    return a.reshape(*a.shape[:2], heads, -1).swapaxes(1, 2)


def attend(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


def merge(z):
    return z.swapaxes(1, 2).reshape(z.shape[0], z.shape[2], -1)


def reshaped_without_transpose(x, w_q, w_k, w_v, w_o, heads):
    B, T, _ = x.shape
    q, k, v = ((x @ w).reshape(B, heads, T, -1) for w in (w_q, w_k, w_v))
    return merge(attend(q, k, v)) @ w_o


def reshaped_in_and_out(x, w_q, w_k, w_v, w_o, heads):
    B, T, _ = x.shape
    q, k, v = ((x @ w).reshape(B, heads, T, -1) for w in (w_q, w_k, w_v))
    return attend(q, k, v).reshape(B, T, -1) @ w_o


def joined_without_transpose(x, w_q, w_k, w_v, w_o, heads):
    z = attend(*(split(x @ w, heads) for w in (w_q, w_k, w_v)))
    return z.reshape(*x.shape[:2], -1) @ w_o


def features_before_heads(x, w_q, w_k, w_v, w_o, heads):
    B, T, _ = x.shape
    q, k, v = ((x @ w).reshape(B, T, -1, heads).transpose(0, 3, 1, 2) for w in (w_q, w_k, w_v))
    return merge(attend(q, k, v)) @ w_o


def joined_features_first(x, w_q, w_k, w_v, w_o, heads):
    z = attend(*(split(x @ w, heads) for w in (w_q, w_k, w_v)))
    return z.transpose(0, 2, 3, 1).reshape(*x.shape[:2], -1) @ w_o


def heads_attend_to_heads(x, w_q, w_k, w_v, w_o, heads):
    B, T, _ = x.shape
    q, k, v = ((x @ w).reshape(B, T, heads, -1) for w in (w_q, w_k, w_v))
    return attend(q, k, v).reshape(B, T, -1) @ w_o


def no_scale(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return merge(softmax(q @ k.swapaxes(2, 3)) @ v) @ w_o


def scale_of_the_model(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(w_q.shape[1])) @ v) @ w_o


def softmax_over_queries(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    return merge(softmax(scores.swapaxes(2, 3)).swapaxes(2, 3) @ v) @ w_o


def softmax_over_heads(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    return merge(np.moveaxis(softmax(np.moveaxis(scores, 1, -1)), -1, 1) @ v) @ w_o


def weights_transposed(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])).swapaxes(2, 3) @ v) @ w_o


def keys_for_values(x, w_q, w_k, w_v, w_o, heads):
    q, k = (split(x @ w, heads) for w in (w_q, w_k))
    return merge(attend(q, k, k)) @ w_o


def output_matrix_transposed(x, w_q, w_k, w_v, w_o, heads):
    """Nothing complains where h d_v = d_model."""
    z = attend(*(split(x @ w, heads) for w in (w_q, w_k, w_v)))
    return merge(z) @ w_o.T


def query_matrix_transposed(x, w_q, w_k, w_v, w_o, heads):
    return merge(attend(*(split(x @ w, heads) for w in (w_q.T, w_k, w_v)))) @ w_o


def heads_exchanged_in_queries(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return merge(attend(q[:, ::-1], k, v)) @ w_o


def mask_transposed(x, w_q, w_k, w_v, w_o, heads, keep=None):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    if keep is not None:
        scores = np.where(keep.T, scores, -np.inf)
    return merge(softmax(scores) @ v) @ w_o


def mask_inverted(x, w_q, w_k, w_v, w_o, heads, key_keep=None):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    if key_keep is not None:
        scores = np.where(key_keep[:, None, None, :], -1e9, scores)
    return merge(softmax(scores) @ v) @ w_o


def mask_after_softmax(x, w_q, w_k, w_v, w_o, heads, keep=None):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    a = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))
    return merge((a if keep is None else a * keep) @ v) @ w_o


def mask_ignored(x, w_q, w_k, w_v, w_o, heads, keep=None):
    return merge(attend(*(split(x @ w, heads) for w in (w_q, w_k, w_v)))) @ w_o


def mask_scaled_too(x, w_q, w_k, w_v, w_o, heads, mask=None):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) + (0 if mask is None else mask)
    return merge(softmax(scores / np.sqrt(q.shape[-1])) @ v) @ w_o


def diagonal_masked_too(x, w_q, w_k, w_v, w_o, heads):
    """Causal by itself, but no query sees its own key; the first row sees only itself, so that it is not empty."""
    T = x.shape[1]
    keep = np.tril(np.ones((T, T), bool), -1)
    keep[0, 0] = True
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = np.where(keep, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)
    return merge(softmax(scores) @ v) @ w_o


def value_bias_dropped(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, heads):
    q, k, v = split(x @ w_q + b_q, heads), split(x @ w_k + b_k, heads), split(x @ w_v, heads)
    return merge(attend(q, k, v)) @ w_o + b_o


def output_bias_in_every_head(x, w_q, w_k, w_v, w_o, b_o, heads):
    return merge(attend(*(split(x @ w, heads) for w in (w_q, w_k, w_v)))) @ w_o + heads * b_o


def queries_projected_from_keys(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads):
    q, k, v = split(x_q @ w_k, heads), split(x_k @ w_q, heads), split(x_v @ w_v, heads)
    return merge(attend(q, k, v)) @ w_o


#: what is handed to check, and the first stage and case in which it differs where that is known
WRONG = {
    "reshaped without transpose": reshaped_without_transpose,
    "reshaped in and out": reshaped_in_and_out,
    "joined without transpose": joined_without_transpose,
    "features before heads": features_before_heads,
    "joined, features first": joined_features_first,
    "heads attend to heads": heads_attend_to_heads,
    "no scale": no_scale,
    "scale of the model": scale_of_the_model,
    "softmax over queries": softmax_over_queries,
    "softmax over heads": softmax_over_heads,
    "weights transposed": weights_transposed,
    "keys for values": keys_for_values,
    "output matrix transposed": output_matrix_transposed,
    "query matrix transposed": query_matrix_transposed,
    "heads exchanged in queries": heads_exchanged_in_queries,
    "mask transposed": mask_transposed,
    "mask inverted": mask_inverted,
    "mask after softmax": mask_after_softmax,
    "mask ignored": mask_ignored,
    "mask scaled too": mask_scaled_too,
    "diagonal masked too": Implementation(call=diagonal_masked_too, causal=True),
    "value bias dropped": value_bias_dropped,
    "output bias in every head": output_bias_in_every_head,
    "queries projected from keys": queries_projected_from_keys,
}
