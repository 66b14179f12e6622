"""Public reports of attention that runs at some sizes only, or cannot be compared, each as a small input of our own.

Defines `LIMITED` (it agrees where it runs, and the report says where that is) and `REFUSED` (it cannot be compared, and
one line says why), by the numbers of the cases, as `tests.audit.public_cases` does for all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from mha_sym.audit import Implementation
from tests.audit.corpus import Convention, implementation
from tests.audit.public_case import Public
from tests.audit.right import masked, matmul_and_transpose, softmax

GROUPED = Convention("grouped")

# ---------------------------------------------------------------- what runs at some sizes only


def heads_cut(x: Any, heads: int, width: int) -> Any:
    return x.reshape(*x.shape[:2], heads, width).swapaxes(1, 2)


def attended(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v


def joined_by_the_width_of_keys(x, w_q, w_k, w_v, w_o, heads):
    d = w_q.shape[1] // heads
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    return attended(q, k, v).swapaxes(1, 2).reshape(*x.shape[:2], heads * d) @ w_o


def values_cut_by_the_width_of_keys(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (heads_cut(x @ w, heads, w_q.shape[1] // heads) for w in (w_q, w_k, w_v))
    return attended(q, k, v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def joined_by_the_width_of_the_input(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    return attended(q, k, v).swapaxes(1, 2).reshape(x.shape) @ w_o


def width_of_a_head_computed(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (heads_cut(x @ w, heads, x.shape[-1] // heads) for w in (w_q, w_k, w_v))
    return attended(q, k, v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def guarded(x, w_q, w_k, w_v, w_o, heads):
    if w_q.shape[1] != x.shape[-1]:
        raise ValueError("the heads together must be as wide as the input")
    return matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads)


_SAME_WIDTHS = "runs only where d_v = d_k and d_model = h d_k"

#: they agree where they run, and the report says where that is
LIMITED: dict[int, Public] = {
    130: Public(joined_by_the_width_of_keys, says="runs only where d_v = d_k,"),
    133: Public(width_of_a_head_computed, says=_SAME_WIDTHS),
    134: Public(joined_by_the_width_of_the_input, says=_SAME_WIDTHS),
    131: Public(
        implementation(GROUPED, {"join": lambda c, z: c.o.view(c.o.move(z, 0, 2, 1, 3), c.B, c.T, c.h * c.k)},
                       "torch", "as wide as queries"), says="runs only where d_v = d_k,",
    ),
    136: Public(values_cut_by_the_width_of_keys, says="runs only where d_v = d_k,"),
    137: Public(guarded, says=_SAME_WIDTHS),
}  # fmt: skip


# ---------------------------------------------------------------- what cannot be compared


def output_per_head_first(x, w_q, w_k, w_v, w_o, heads):
    """W_O on (B, H, T, d) before the heads are joined."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    return (softmax(q @ k.swapaxes(2, 3)) @ v @ w_o).reshape(*x.shape[:2], -1)


def groups_left_as_they_are(x, w_q, w_k, w_v, w_o, heads, kv_heads):
    q, k, v = (
        (x @ w).reshape(*x.shape[:2], n, -1).swapaxes(1, 2)
        for w, n in ((w_q, heads), (w_k, kv_heads), (w_v, kv_heads))
    )
    return (softmax(q @ k.swapaxes(2, 3)) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def all_axes_of_the_keys_reversed(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    return (softmax(q @ k.T) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def view_of_what_is_not_contiguous(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    a = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
    return (a @ v).transpose(1, 2).view(*x.shape[:2], -1) @ w_o


def plus_infinity_after_the_softmax(x, w_q, w_k, w_v, w_o, heads, keep=None):
    """Minus minus infinity, filled in after the softmax."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    a = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))
    a = a if keep is None else np.where(keep, a, np.inf)
    with np.errstate(invalid="ignore"):
        return (a @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def averaged_weights(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    a = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1)
    return (a @ v).transpose(1, 2).flatten(2) @ w_o, a.mean(1)


def dropout_of_the_weights(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    return functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1).transpose(1, 2).flatten(2) @ w_o


def dropout_of_the_output(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    z = functional.dropout(functional.scaled_dot_product_attention(q, k, v), 0.1)
    return z.transpose(1, 2).flatten(2) @ w_o


def buffer_of_the_width(x, w_q, w_k, w_v, w_o, heads):
    """The causal buffer is as long as the input is wide."""
    keep = np.tri(x.shape[-1], dtype=bool)[: x.shape[1], : x.shape[1]]
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    z = softmax(np.where(keep, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def keys_as_wide_as_queries(x, weights, heads, kv_heads):
    """The rows of the keys are counted by the width of the queries."""
    width = weights["w_o"].shape[1]
    q, k, v = (x @ part.T for part in np.split(weights["w_qkv"], [width, 2 * width]))
    q, k, v = (one.reshape(*x.shape[:2], n, -1) for one, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    k, v = (np.repeat(one, heads // kv_heads, axis=2) for one in (k, v))
    z = attended(*(one.swapaxes(1, 2) for one in (q, k, v)))
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ weights["w_o"].T


def each_head_as_wide_as_the_input(x, w_q, w_k, w_v, w_o, heads):
    """Every head has all of each projection, so that the heads together are h times as wide as W_O expects."""
    z = softmax((x @ w_q) @ (x @ w_k).swapaxes(1, 2)) @ (x @ w_v)
    return np.concatenate([z] * heads, axis=-1) @ w_o


def heads_of_before_pruning(x, w_q, w_k, w_v, w_o, heads):
    """Some heads are pruned from the weights, and the number of heads is the old one."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads + 1, w.shape[1] // heads) for w in (w_q, w_k, w_v))
    return attended(q, k, v).reshape(*x.shape[:2], -1) @ w_o


def bias_of_before_pruning(x, w_q, w_k, w_v, w_o, heads):
    """A bias for each head that has one head more than there are."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) + np.zeros((heads + 1, x.shape[1], x.shape[1]))
    return (softmax(scores) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def key_heads_of_each_rank(x, w_q, w_k, w_v, w_o, heads, kv_heads):
    """More ranks than key and value heads: each has none of them."""
    ranks = heads
    q = (x @ w_q).reshape(*x.shape[:2], heads, -1)
    k, v = ((x @ w).reshape(*x.shape[:2], ranks, kv_heads // ranks, -1) for w in (w_k, w_v))
    return attended(q, k, v).reshape(*x.shape[:2], -1) @ w_o


def batch_for_features(x, w_q, w_k, w_v, w_o, heads):
    """(B h, T, d) turned to (T, d, B h): the batch meets the queries."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    q, k = (one.reshape(-1, *one.shape[2:]) for one in (q, k))
    a = softmax(q @ k.transpose(1, 2, 0)).reshape(*v.shape[:3], -1)
    return (a @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


REFUSED: dict[int, Public] = {
    23: Public(output_per_head_first, says="raised ValueError"),
    52: Public(plus_infinity_after_the_softmax, says="returns (nan|inf) in y"),
    77: Public(Implementation(call=buffer_of_the_width, causal=True), options={"sizes": {"T": 9, "d_model": 6}},
               says="raised ValueError"),
    80: Public(masked, options={"sizes": {"B": 3, "T": 5, "S": 5}, "lengths": (4, 0, 2)}, says="keeps no key|no key"),
    97: Public(Implementation(call=keys_as_wide_as_queries, layout="grouped_packed_linear"), says="raised ValueError"),
    106: Public(groups_left_as_they_are, says="raised ValueError"),
    148: Public(each_head_as_wide_as_the_input, says="raised ValueError"),
    154: Public(key_heads_of_each_rank, says="raised ValueError"),
    163: Public(heads_of_before_pruning, says="raised ValueError"),
    166: Public(bias_of_before_pruning, says="raised ValueError"),
    187: Public(dropout_of_the_weights, says="random from call to call"),
    188: Public(dropout_of_the_output, says="random from call to call"),
    191: Public(Implementation(call=averaged_weights, returns=("y", "weights"), framework="torch"),
                says="returns weights in the wrong shape"),
    199: Public(batch_for_features, says="raised ValueError"),
    202: Public(all_axes_of_the_keys_reversed, says="raised ValueError"),
    203: Public(view_of_what_is_not_contiguous, says="raised RuntimeError"),
}  # fmt: skip
