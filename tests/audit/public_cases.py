"""Public reports of wrong attention, each as a small input of our own: a formula over axes with one step as reported.

Defines `FAULTY` (what must be named), `RELAID` (what would be right under another layout) and `RIGHT` (what was
reported and is right), by the numbers of the cases; no code is taken from anybody.  What runs at some sizes only, or
not at all, is in `tests.audit.public_limits`, and what is no input, and why, in `tests.audit.public_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from mha_sym.audit import Implementation
from tests.audit import corpus_right, public_positions
from tests.audit.corpus import (
    NEOX_NAMES,
    STEPS,
    TORCH_NAMES,
    Convention,
    Given,
    Step,
    by_group,
    grouped_blocks,
    hide,
    implementation,
    unpacked,
)
from tests.audit.corpus_faults import (
    activated,
    inputs,
    only,
    over,
    read_sequence_first,
    unmoved,
    viewed,
    viewed_out,
    viewed_sequence_first,
    visible,
)
from tests.audit.corpus_masks import masks, ones, repeated, scores_with, tiled, with_pad
from tests.audit.corpus_weights import (
    each_head_its_own,
    in_halves,
    in_turn,
    misread,
    per_head,
    picked,
    taken_from,
    turned,
    with_weights,
)
from tests.audit.public_case import Public
from tests.audit.right import masked, matmul_and_transpose, softmax

PLAIN, CROSS, BIASED = Convention(), Convention("linear", "", True), Convention("linear", "qkvo")
KEPT, PADDED = Convention("combined", "", False, ("keep",)), Convention("combined", "", False, ("key_keep",))
LATER, GROUPED = Convention("combined", "", causal=True), Convention("grouped")
IN_BLOCKS, BY_GROUP = Convention("grouped_packed_linear"), Convention("grouped_by_group_linear")


def faulty(
    names: str, convention: Convention = PLAIN, framework: str = "torch", tied: tuple[str, ...] | None = None,
    sizes: dict[str, int] | None = None, **steps: Step,
) -> Public:  # fmt: skip
    options = {"sizes": sizes} if sizes else {}
    return Public(implementation(convention, steps, framework, names, tied), tuple(names.split()), options)


def times(factor: Callable[[Given], float]) -> Step:
    return lambda c, raw: raw * factor(c)


def unscaled(c: Given, raw: Any) -> Any:
    return raw


def untouched(c: Given, scores: Any) -> Any:
    return scores


def batch_for_heads(c: Given, z: Any) -> Any:
    """(B H) read as (H B)."""
    return c.o.view(c.o.move(c.o.view(z, c.h, c.B, c.T, -1), 1, 2, 0, 3), c.B, c.T, -1)


def head_major(c: Given, z: Any) -> Any:
    return c.o.view(c.o.move(z, 1, 0, 2, 3), c.B, c.T, -1)


def one_more_key(c: Given, scores: Any) -> Any:
    """A key of score zero, whose value is zero, too."""
    none = 0 * scores[..., :1]
    return c.o.softmax(c.o.cat([scores, none], -1), -1)[..., :-1]


def two_names_for_the_keys(c: Given, a: Any, v: Any, qkv: Any) -> Any:
    return c.o.einsum("bhqk,bhsd->bhqd", a, v)


def wrong_with_weights(x, w_q, w_k, w_v, w_o, heads, causal, need_weights):
    """The causal flag is lost where the weights are asked for."""
    keep = np.tri(x.shape[1], dtype=bool) if causal and not need_weights else None
    return masked(x, w_q, w_k, w_v, w_o, heads, keep=keep)


def attention_of_queries_split_alone(x, w_q, w_k, w_v, w_o, heads):
    """The queries are viewed as (B, H, T, d) and then transposed; divided by d. Runs where there are T = H tokens."""
    b, t, _ = x.shape
    q = (x @ w_q).reshape(b, heads, t, -1).swapaxes(1, 2)
    k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_k, w_v))
    z = softmax(q @ k.swapaxes(2, 3) / q.shape[-1]) @ v
    return z.swapaxes(1, 2).reshape(b, t, -1) @ w_o


def swapped_arguments(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, causal):
    """What is meant as the causal flag arrives as the scale."""
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    z = functional.scaled_dot_product_attention(q, k, v, scale=1.0, is_causal=False)
    return z.transpose(1, 2).flatten(2) @ w_o


def causal_from_the_start(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads):
    """One query after a cache of keys sees the first key only."""
    keep = np.tri(x_q.shape[1], x_k.shape[1], dtype=bool)
    q, k, v = (
        (x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for x, w in ((x_q, w_q), (x_k, w_k), (x_v, w_v))
    )
    z = softmax(np.where(keep, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)) @ v
    return z.swapaxes(1, 2).reshape(*x_q.shape[:2], -1) @ w_o


def lost_by_the_slow_path(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, causal, need_weights):
    """The fused path makes the causal mask itself; the other one, taken for the weights, was to be handed one."""
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    if need_weights:
        z = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    else:
        z = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return z.transpose(1, 2).flatten(2) @ w_o


def projected_twice(c: Given, x: Any, letter: str) -> Any:
    return STEPS["project"](c, STEPS["project"](c, x, letter), letter)


def features_of_frames(c: Given) -> Given:
    """(B, m, T) viewed as (B, T, m)."""
    return replace(c, x=tuple(c.o.view(c.o.move(one, 0, 2, 1), *one.shape) for one in c.x))


def channels_first(c: Given, flat: Any, letter: str) -> Any:
    return c.o.view(c.o.move(flat, 0, 2, 1), c.B, c.h, flat.shape[1], -1)


def by_columns(c: Given) -> Any:
    """Packed per head [q1 k1 v1 q2 ...], cut at thirds."""
    return unpacked(c, ("three", "h", "k"), NEOX_NAMES)


def diagonal_hidden(x, w_q, w_k, w_v, w_o, heads):
    with np.errstate(invalid="ignore"):
        return masked(x, w_q, w_k, w_v, w_o, heads, keep=np.tri(x.shape[1], k=-1, dtype=bool))


FAULTY: dict[int, Public] = {
    74: Public(Implementation(call=diagonal_hidden, causal=True), ("causal_hides_diagonal",)),
    1: faulty("split_by_view", framework="numpy", split=viewed),
    2: faulty("viewed_in_and_out", split=viewed, join=viewed_out),
    4: faulty("split_by_view", Convention("linear", "qkvo", True), split=viewed),
    5: faulty("all_split_by_view join_without_transpose", GROUPED, split=viewed, join=viewed_out),
    7: faulty("inputs_viewed_features_first", BIASED, enter=features_of_frames),
    8: Public(attention_of_queries_split_alone, ("scale_by_d_k",)),
    10: faulty("split_channels_first_by_view", split=channels_first),
    11: faulty("heads_attend_to_heads", split=unmoved, join=viewed_out),
    13: faulty("join_without_transpose", KEPT, join=viewed_out),
    14: faulty("join_without_transpose", BIASED, join=viewed_out),
    16: faulty("join_batch_and_heads_exchanged", join=batch_for_heads),
    17: faulty("join_heads_before_batch", framework="numpy", join=head_major),
    19: faulty("scale_missing join_without_transpose", GROUPED, scaled=unscaled, join=viewed_out),
    20: faulty("join_heads_before_batch", KEPT, join=head_major),
    22: faulty(
        "batch_and_tokens_exchanged_by_view", enter=viewed_sequence_first,
        leave=lambda c, y: c.o.view(y, y.shape[1], y.shape[0], -1),
    ),
    25: faulty("softmax_over_queries", softmax=over(-2)),
    26: faulty("softmax_over_batch_and_queries", softmax=over(0, 2)),
    28: faulty("softmax_over_queries", CROSS, "numpy", softmax=over(2)),
    29: faulty("softmax_over_queries", Convention("separate"), softmax=over(2)),
    31: faulty("softmax_over_batch_and_heads", framework="numpy", softmax=over(0, 1)),
    32: faulty("scale_by_joined_width", BIASED, scaled=times(lambda c: (c.h * c.k) ** -0.5)),
    34: faulty("scale_by_d_model", framework="numpy", scaled=times(lambda c: c.x[0].shape[-1] ** -0.5)),
    35: faulty("scale_inverted", scaled=lambda c, raw: raw / c.factor),
    37: faulty("scale_default_for_own", Convention(scale=1.0), scaled=times(lambda c: c.k**-0.5)),
    38: faulty("scale_default_for_own", Convention("linear", "qkvo", scale=0.3), scaled=times(lambda c: c.k**-0.5)),
    40: faulty("scale_after_softmax", scaled=unscaled, reweigh=lambda c, a: a * c.factor),
    41: faulty("scale_by_d_k", scaled=times(lambda c: 1 / c.k)),
    43: Public(swapped_arguments, ("scale_missing", "causal_mask_ignored")),
    44: faulty("scale_missing", CROSS, "numpy", scaled=unscaled),
    46: faulty("causal_mask_inverted", KEPT, hide=masks(keep=lambda c: ~c.keep, low=-1e9)),
    47: faulty("padding_mask_inverted", PADDED, hide=masks(pad=lambda c: ~c.pad, low=-1e9)),
    49: faulty("padding_mask_inverted", Convention("linear", "qkvo", True, ("key_drop",)), "numpy",
               hide=masks(pad=lambda c: ~c.pad, low=-1e9)),
    50: faulty("mask_fill_tiny_positive", KEPT, hide=scores_with(None, 1e-9)),
    53: faulty("mask_added_as_number", KEPT, hide=scores_with(lambda s, keep: s + keep)),
    55: faulty("mask_after_softmax", PADDED, hide=untouched, reweigh=visible),
    56: faulty("padding_mask_ignored", Convention("linear", "qkvo", False, ("mask", "key_keep")),
               hide=lambda c, s: hide(replace(c, pad=None), s)),
    58: faulty("padding_mask_inverted", Convention("torch_packed", "qkvo", False, ("key_drop",)),
               hide=masks(pad=lambda c: ~c.pad, low=-1e9)),
    59: faulty("padding_tiled_over_heads", PADDED, hide=with_pad(tiled)),
    61: faulty("padding_repeated_for_heads_first", PADDED, "numpy", hide=with_pad(repeated)),
    62: faulty("padding_repeated_for_heads_first", Convention("linear", "qkvo", True, ("key_keep",)),
               hide=with_pad(repeated)),
    65: faulty("padding_on_queries", PADDED, hide=with_pad(lambda c: c.pad[:, None, :, None], -1e9)),
    67: faulty("causal_aligned_bottom_right", Convention("combined", "", True, ("keep",)),
               hide=masks(lambda c: c.o.tril(c.T, c.S, c.S - c.T), low=-1e9)),
    68: Public(Implementation(call=causal_from_the_start, causal=True, aligned="bottom-right"),
               ("causal_aligned_top_left",)),
    70: faulty("causal_alignment_switches_to_more", Convention("combined", "", True, ("keep",)),
               hide=masks(lambda c: c.o.tril(c.T, c.S, max(c.S - c.T, 0)), low=-1e9)),
    71: Public(wrong_with_weights, ("causal_mask_ignored",)),
    73: Public(lost_by_the_slow_path, ("causal_mask_ignored",)),
    76: faulty("causal_mask_ignored", LATER, "numpy", hide=masks(keep=ones)),
    82: faulty("grouped_blocks_taken_for_groups", IN_BLOCKS, read=by_group),
    85: faulty("packed_blocks_taken_for_per_head", Convention("gpt_neox", "qkvo"), read=by_columns),
    88: faulty("grouped_by_group_taken_for_blocks", BY_GROUP, read=grouped_blocks),
    92: faulty("grouped_by_group_taken_for_blocks", BY_GROUP, "numpy", read=grouped_blocks),
    94: faulty("packed_per_head_taken_for_blocks", Convention("torch_packed", "qkvo"),
               read=lambda c: unpacked(c, ("h", "three", "k"), TORCH_NAMES)),
    95: faulty("grouped_by_group_taken_for_blocks", BY_GROUP, read=grouped_blocks, sizes={"G": 2, "R": 3}),
    100: faulty("groups_tiled", GROUPED, share=only("kv", in_turn, "share")),
    101: faulty("groups_tiled weights_ignored_by_einsum", GROUPED, share=only("kv", in_turn, "share"),
                mix=two_names_for_the_keys),
    103: faulty("groups_taken_in_turns_of_their_number", GROUPED, sizes={"G": 2, "R": 3},
                share=only("kv", picked(lambda r, g, n: r // g % g), "share")),
    104: faulty("groups_by_tiles_of_2", GROUPED,
                share=only("kv", picked(lambda r, g, n: r // 2 * 2 // n), "share")),
    107: faulty("value_matrix_zero", Convention("linear", "qkvo"),
                weights=with_weights(lambda c: {name: 0 * c.w[name] for name in ("w_k", "w_v")})),
    121: faulty("relu_on_projections", Convention("linear", "qkvo"), project=activated("relu")),
    122: faulty("softmax_with_a_zero_key", softmax=one_more_key),
    124: faulty("projections_transposed", Convention("linear"), weights=turned("w_q", "w_k", "w_v")),
    125: faulty("output_matrix_transposed", Convention("linear", "qkvo"), "numpy", weights=turned("w_o")),
    127: faulty("projections_transposed", PLAIN, "numpy", weights=turned("w_q", "w_k", "w_v")),
    128: faulty("output_matrix_reshaped", weights=with_weights(
        lambda c: {"w_o": c.o.view(c.o.move(c.w["w_o"], 1, 0), *c.w["w_o"].shape)}
    )),  # of scales of quantised weights there, here of a matrix
    139: faulty("inputs_split_before_projection", tied=("d_v", "d_model"), project=each_head_its_own),
    140: faulty("keys_used_as_values", weights=taken_from(v="k")),
    142: Public(implementation(PLAIN, {"output": lambda c, joined: joined}, "torch", "no W_O", ("d_v", "d_model")),
                ("output_projection_missing",)),
    143: faulty("values_not_projected", project=only("v", lambda c, x, letter: x, "project")),
    145: faulty("projections_applied_twice", Convention("linear", "qkvo"), project=projected_twice),
    146: faulty("keys_used_as_values", framework="numpy", mix=lambda c, a, v, qkv: a @ qkv[1]),
    149: faulty("queries_and_values_from_key_input", CROSS, enter=inputs("kkk")),
    152: faulty("keys_and_values_per_head_taken_for_blocks", GROUPED, weights=misread(per_head, in_halves)),
    160: faulty("mask_after_softmax", KEPT, hide=untouched, reweigh=visible),
    178: faulty("batch_and_tokens_exchanged", BIASED, enter=read_sequence_first,
                leave=lambda c, y: c.o.move(y, 1, 0, 2)),
    179: faulty("heads_attend_to_heads", BIASED, split=unmoved, join=viewed_out),
    181: faulty("heads_attend_to_heads", framework="numpy", split=unmoved, join=viewed_out),
    182: faulty("split_untransposed_kv", split=only("kv", unmoved, "split")),
    185: faulty("batch_and_tokens_exchanged", framework="numpy", enter=read_sequence_first,
                leave=lambda c, y: c.o.move(y, 1, 0, 2)),
    190: faulty("averaged_weights_for_each_head", reweigh=lambda c, a: a.mean(1)[:, None] + 0 * a),
    196: faulty("weights_ignored_by_einsum", CROSS, mix=two_names_for_the_keys),
    197: faulty("heads_summed_in_every_token", split=unmoved, join=viewed_out,
                mix=lambda c, a, v, qkv: c.o.einsum("bthg,btuv->bthv", a, v)),
    200: faulty("weights_not_applied", mix=lambda c, a, v, qkv: c.o.einsum("bhts,bhtv->bhtv", a, v)),
    211: faulty("join_without_transpose", framework="numpy", join=viewed_out),
    **public_positions.FAULTY,
}  # fmt: skip


# ---------------------------------------------------------------- what would be right under another layout


def read_by_rank(ranks: int) -> Step:
    """Rows [Q; K; V] cut into pieces, one for each rank, which takes its own for [q; k; v]."""

    def read(c: Given) -> Any:
        w, w_o = c.stored["w_qkv"], c.stored["w_o"]
        own = [c.o.chunk(piece, 3, 0) for piece in c.o.chunk(w, ranks, 0)]
        parts = (c.o.cat([piece[n] for piece in own], 0).T for n in range(3))
        return {**dict(zip(("w_q", "w_k", "w_v"), parts, strict=True)), "w_o": w_o.T}

    return read


def by_rank(ranks: int, framework: str) -> Public:
    code = implementation(Convention("packed_linear"), {"read": read_by_rank(ranks)}, framework, f"{ranks} ranks")
    says = f"packed_linear, {ranks} shards of [Q; K; V]"
    return Public(replace(code, tied=("d_v",)), options={"sizes": {"h": 8}}, says=says)


#: no fault of the catalogue: the report says under which layout of the stored weights the output would be right
RELAID: dict[int, Public] = {83: by_rank(4, "torch"), 86: by_rank(4, "numpy"), 151: by_rank(2, "torch")}


# ---------------------------------------------------------------- what must not be flagged


def key_bias_is_garbage(c: Given) -> Any:
    """A buffer that nobody filled is added to the keys: it cancels in the softmax."""
    return {"b_k": 1e3 + 0 * c.w["b_k"]}


def biased_keys(**steps: Step) -> Implementation:
    return implementation(BIASED, steps, "torch", "key bias")


def project_once(x, w_q, w_k, w_v, w_o, heads):
    """A projection for each head, stacked: projecting once and splitting is the same."""
    q, k, v = (np.stack([x @ part for part in np.split(w, heads, axis=1)], 1) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v
    return np.concatenate([z[:, r] for r in range(heads)], -1) @ w_o


RIGHT: dict[int, Any] = {
    118: biased_keys(weights=with_weights(key_bias_is_garbage)),
    205: implementation(
        BIASED, {"split": lambda c, flat, letter: STEPS["split"](c, flat, letter) * (c.factor if letter == "q" else 1),
                 "scaled": unscaled}, "torch", "only q is scaled",
    ),
    206: matmul_and_transpose,
    208: implementation(CROSS, {"softmax": over(3)}, "torch", "softmax over the last axis"),
    **public_positions.RIGHT,
    212: corpus_right.STYLES["one key for all heads"],
    214: corpus_right.keys_transposed_first,
    215: corpus_right.sum_over_heads,
    217: corpus_right.STYLES["strict upper triangle hidden"],
    218: project_once,
    220: biased_keys(weights=with_weights(lambda c: {"b_k": 0 * c.w["b_k"]})),
}  # fmt: skip
