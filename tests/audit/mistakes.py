"""Every mistake of the catalogue made again in plain NumPy: no expression and no line of the package.

`MISTAKES` maps the name of a fault or symmetry to a function of a `Layer` (its arrays and sizes) that gives the output.
Each is attention written step by step, with one step written wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np


@dataclass
class Layer:
    """The arrays of a layer: inputs (b,t,m), weights, biases or None, masks or None, number of heads."""

    x_q: np.ndarray
    x_k: np.ndarray
    x_v: np.ndarray
    w: dict[str, np.ndarray]
    heads: int
    causal: bool = False
    pad: np.ndarray | None = None  # (b, s), true for keys that count
    mask: np.ndarray | None = None  # (t, s), added
    groups: int = 0
    scale: float | None = None
    order: tuple[int, ...] = ()

    @property
    def sizes(self) -> SimpleNamespace:
        B, T, m = self.x_q.shape
        h = self.heads
        return SimpleNamespace(
            B=B, T=T, S=self.x_k.shape[1], m=m, h=h, k=self.w["w_q"].shape[1] // h, v=self.w["w_v"].shape[1] // h
        )

    @property
    def factor(self) -> float:
        return self.sizes.k**-0.5 if self.scale is None else self.scale

    def keep(self, causal=None, pad=None):
        """Kept keys, (b, 1, t, s)."""
        n = self.sizes
        keep = np.ones((n.B, 1, n.T, n.S), bool)
        if self.causal or causal is not None:
            keep &= (tril(n.T, n.S) if causal is None else causal)[None, None]
        if self.pad is not None or pad is not None:
            rows = self.pad[:, None, None, :] if pad is None else pad
            keep = keep & rows
        return keep

    @property
    def hides(self) -> bool:
        return self.causal or self.pad is not None


def tril(t, s, offset=0):
    return np.arange(s)[None, :] <= np.arange(t)[:, None] + offset


def soft(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def soft_or_zero(scores):
    """Rows that keep no key are zero."""
    most = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(most), most, 0))
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)


def cut(flat, heads):
    return flat.reshape(*flat.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def glue(z):
    return z.transpose(0, 2, 1, 3).reshape(z.shape[0], z.shape[2], -1)


def project(a, letter, w=None):
    w = a.w if w is None else w
    flat = getattr(a, f"x_{letter}") @ w[f"w_{letter}"]
    return flat + w.get(f"b_{letter}", 0)


def heads_of(a, w=None, split=cut):
    return tuple(split(project(a, letter, w), a.heads) for letter in "qkv")


def hidden(a, scores, keep=None, fill=-np.inf):
    if keep is None:
        keep = a.keep()
    return np.where(keep, scores, fill)


def plus(a, scores):
    return scores if a.mask is None else scores + a.mask


def scores_of(a, q, k, factor=None):
    return plus(a, q @ k.swapaxes(-1, -2) * (a.factor if factor is None else factor))


def ending(a, z, w=None):
    w = a.w if w is None else w
    return glue(z) @ w["w_o"] + w.get("b_o", 0)


def whole(a, w=None, split=cut, factor=None, weights=None, q=None, k=None, v=None):
    """The layer, with some of its parts given."""
    mine = heads_of(a, w, split)
    q, k, v = (own if given is None else given for own, given in zip(mine, (q, k, v), strict=True))
    if weights is None:
        weights = soft(hidden(a, scores_of(a, q, k, factor)))
    return ending(a, weights @ v, w)


def changed(a, **weights):
    return {**a.w, **weights}


MISTAKES = {"right": whole}


def mistake(function):
    MISTAKES[function.__name__] = function
    return function


def named(name, function):
    MISTAKES[name] = function


# ---------------------------------------------------------------- heads


def recut(a, heads):
    """Attention with another number of heads."""
    return whole(Layer(a.x_q, a.x_k, a.x_v, a.w, heads, a.causal, a.pad, a.mask, a.groups, None, a.order))


named("one_head_for_all", lambda a: recut(a, 1))
named("heads_and_width_exchanged", lambda a: recut(a, a.sizes.k))


# ---------------------------------------------------------------- inputs


def with_inputs(a, q, k, v):
    return Layer(q, k, v, a.w, a.heads, a.causal, a.pad, a.mask, a.groups, a.scale, a.order)


@mistake
def batch_and_tokens_exchanged(a):
    x = [one.transpose(1, 0, 2) for one in (a.x_q, a.x_k, a.x_v)]
    return whole(with_inputs(a, *x)).transpose(1, 0, 2)


@mistake
def batch_and_tokens_exchanged_by_view(a):
    x = [one.reshape(one.shape[1], one.shape[0], -1) for one in (a.x_q, a.x_k, a.x_v)]
    return whole(with_inputs(a, *x)).reshape(a.x_q.shape[0], a.x_q.shape[1], -1)


@mistake
def output_left_sequence_first(a):
    y = whole(a)
    return y.transpose(1, 0, 2).reshape(y.shape)


for _name, _order in {
    "values_from_key_input": "qkk", "keys_from_value_input": "qvv", "key_and_value_inputs_exchanged": "qvk",
    "keys_and_values_from_query_input": "qqq", "queries_from_key_input": "kkv",
    "query_and_key_inputs_exchanged": "kqv", "values_from_query_input": "qkq", "keys_from_query_input": "qqv",
}.items():  # fmt: skip
    named(_name, lambda a, order=_order: whole(with_inputs(a, *(getattr(a, f"x_{one}") for one in order))))


# ---------------------------------------------------------------- weights

for _name, _which in {
    "query_matrix_transposed": ["w_q"], "key_matrix_transposed": ["w_k"], "value_matrix_transposed": ["w_v"],
    "output_matrix_transposed": ["w_o"], "projections_transposed": ["w_q", "w_k", "w_v"],
    "all_matrices_transposed": ["w_q", "w_k", "w_v", "w_o"],
}.items():  # fmt: skip
    named(_name, lambda a, which=_which: whole(a, changed(a, **{one: a.w[one].T for one in which})))

for _name, _one in {"query": "w_q", "key": "w_k", "value": "w_v", "output": "w_o"}.items():
    named(
        f"{_name}_matrix_reshaped",
        lambda a, one=_one: whole(a, changed(a, **{one: a.w[one].T.reshape(a.w[one].shape)})),
    )


def exchanged(order):
    """Queries, keys and values projected with the weights of these."""

    def function(a):
        places = list(zip("qkv", order, strict=True))
        pairs = [(kind + mine, kind + theirs) for kind in ("w_", "b_") for mine, theirs in places]
        return whole(a, changed(a, **{mine: a.w[theirs] for mine, theirs in pairs if theirs in a.w}))

    return function


for _order in ("kqv", "vkq", "qvk", "kvq", "vqk"):
    named(f"weights_in_order_{_order}", exchanged(_order))
for _name, _order in {
    "queries_projected_with_w_k": "kkv", "keys_projected_with_w_q": "qqv", "keys_projected_with_w_v": "qvv",
    "values_projected_with_w_k": "qkk", "values_projected_with_w_q": "qkq",
}.items():  # fmt: skip
    named(_name, exchanged(_order))


def repacked(stored, read):
    """Columns of [W_Q, W_K, W_V] laid down in one order of (three h k) and taken up in another."""

    def function(a):
        n, new = a.sizes, dict(a.w)
        size = {"three": 3, "h": n.h, "k": n.k}
        for kind in ("w_", "b_"):
            if kind + "q" in a.w:
                packed = np.stack([a.w[kind + one].reshape(-1, n.h, n.k) for one in "qkv"], axis=1)  # m three h k
                at = {"three": 1, "h": 2, "k": 3}
                flat = packed.transpose(0, *(at[one] for one in stored)).reshape(len(packed), -1)
                apart = flat.reshape(-1, *(size[one] for one in read))
                back = apart.transpose(0, *(1 + read.index(one) for one in ("three", "h", "k")))
                for place, letter in enumerate("qkv"):
                    new[kind + letter] = back[:, place].reshape(a.w[kind + letter].shape)
        return whole(a, new)

    return function


named("packed_per_head_taken_for_blocks", repacked(("three", "h", "k"), ("h", "three", "k")))
named("packed_blocks_taken_for_per_head", repacked(("h", "three", "k"), ("three", "h", "k")))
named("packed_read_three_last", repacked(("three", "h", "k"), ("h", "k", "three")))
named("packed_read_features_first", repacked(("three", "h", "k"), ("three", "k", "h")))


def reordered(a, *names):
    """Head blocks of some weights in the order ``a.order``."""
    new = {}
    for name in names:
        if name in a.w:
            value = a.w[name]
            blocks = np.split(value, a.heads, axis=0 if name == "w_o" else -1)
            new[name] = np.concatenate([blocks[r] for r in a.order], axis=0 if name == "w_o" else -1)
    return changed(a, **new)


ALL = ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v")
for _name, _which in {
    "heads_permuted_in_queries": ("w_q", "b_q"), "heads_permuted_in_keys": ("w_k", "b_k"),
    "heads_permuted_in_values": ("w_v", "b_v"), "heads_permuted_but_w_o": ALL,
    "heads_permuted_with_w_o": (*ALL, "w_o"),
}.items():  # fmt: skip
    named(_name, lambda a, which=_which: whole(a, reordered(a, *which)))


@mistake
def features_permuted_inside_heads(a):
    q, k, _ = heads_of(a)
    return whole(a, q=q[..., ::-1], k=k[..., ::-1])


# ---------------------------------------------------------------- biases

for _name, _one in {"query": "b_q", "key": "b_k", "value": "b_v", "output": "b_o"}.items():
    named(f"{_name}_bias_dropped", lambda a, one=_one: whole(a, changed(a, **{one: 0 * a.w[one]})))
    named(f"{_name}_bias_added_twice", lambda a, one=_one: whole(a, changed(a, **{one: a.w[one] + a.w[one]})))

named("projection_biases_dropped", lambda a: whole(a, {n: w for n, w in a.w.items() if n not in ("b_q", "b_k", "b_v")}))
named("all_biases_dropped", lambda a: whole(a, {n: w for n, w in a.w.items() if not n.startswith("b_")}))
named("output_bias_before_w_o", lambda a: whole(a) - a.w["b_o"] + a.w["b_o"] @ a.w["w_o"])


@mistake
def output_bias_in_every_head(a):
    q, k, v = heads_of(a)
    z = soft(hidden(a, scores_of(a, q, k))) @ v
    rows = np.split(a.w["w_o"], a.heads)
    return sum(z[:, r] @ rows[r] + a.w["b_o"] for r in range(a.heads))


@mistake
def query_bias_after_scale(a):
    q = cut(a.x_q @ a.w["w_q"] * a.factor + a.w["b_q"], a.heads)
    return whole(a, q=q, factor=1.0)


for _name, _one in {"query": "b_q", "value": "b_v"}.items():

    def _first_bias(a, one=_one):
        width = len(a.w[one]) // a.heads
        return whole(a, changed(a, **{one: np.tile(a.w[one][:width], a.heads)}))

    named(f"{_name}_bias_of_first_head", _first_bias)


@mistake
def value_bias_folded(a):
    return whole(a, changed(a, b_v=0 * a.w["b_v"])) + a.w["b_v"] @ a.w["w_o"]


# ---------------------------------------------------------------- split


def view(flat, heads):
    return flat.reshape(flat.shape[0], heads, flat.shape[1], -1)


def strided(flat, heads):
    return flat.reshape(*flat.shape[:2], -1, heads).transpose(0, 3, 1, 2)


def unmoved(flat, heads):
    return flat.reshape(*flat.shape[:2], heads, -1)


for _name, _split in {"by_view": view, "features_first": strided}.items():
    named(f"split_{_name}", lambda a, split=_split: whole(a, split=split))
    for _letters in ("q", "k", "v", "kv") if _split is view else "qkv":
        named(
            f"split_{_name}_of_{_letters}",
            lambda a, split=_split, letters=_letters: whole(a, **{
                letter: split(project(a, letter), a.heads) for letter in letters
            }),
        )  # fmt: skip
named("split_untransposed", lambda a: whole(a, split=unmoved))
for _letters in ("q", "k", "v", "kv"):
    named(
        f"split_untransposed_{_letters}",
        lambda a, letters=_letters: whole(a, **{
            letter: unmoved(project(a, letter), a.heads) for letter in letters
        }),
    )  # fmt: skip


def between_heads(a):
    q, k, v = heads_of(a, split=unmoved)
    return soft(q @ k.swapaxes(-1, -2) * a.factor) @ v  # (b, t, h, v)


@mistake
def heads_attend_to_heads(a):
    return between_heads(a).reshape(*a.x_q.shape[:2], -1) @ a.w["w_o"] + a.w.get("b_o", 0)


@mistake
def heads_attend_to_heads_transposed_after(a):
    z = between_heads(a).swapaxes(1, 2).reshape(*a.x_q.shape[:2], -1)
    return z @ a.w["w_o"] + a.w.get("b_o", 0)


@mistake
def keys_transposed_by_reshape(a):
    q, k, v = heads_of(a)
    scores = plus(a, q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) * a.factor)
    return ending(a, soft(hidden(a, scores)) @ v)


@mistake
def keys_viewed_as_transposed(a):
    n = a.sizes
    q, _, v = heads_of(a)
    scores = plus(a, q @ project(a, "k").reshape(n.B, n.h, n.k, n.S) * a.factor)
    return ending(a, soft(hidden(a, scores)) @ v)


# ---------------------------------------------------------------- shared keys and values


def regrouped(a, make, letters="kv"):
    """Weights of keys and values, one a group, brought to the heads by ``make``."""
    each, new = a.heads // a.groups, {}
    for name in ("w_k", "w_v", "b_k", "b_v"):
        if name in a.w and name[-1] in letters:
            value = a.w[name]
            apart = value.reshape(*value.shape[:-1], a.groups, each, -1)[..., 0, :]  # every head of a group is alike
            new[name] = make(apart, each).reshape(value.shape)
    return whole(a, changed(a, **new))


def tile(apart, each):
    return np.concatenate([apart] * each, axis=-2)


named("groups_tiled", lambda a: regrouped(a, tile))
named("groups_tiled_in_keys", lambda a: regrouped(a, tile, "k"))
named("groups_tiled_in_values", lambda a: regrouped(a, tile, "v"))
named("groups_all_first", lambda a: regrouped(a, lambda w, n: np.concatenate([w[..., :1, :]] * n * w.shape[-2], -2)))
named("groups_repeated_by_feature", lambda a: regrouped(a, lambda w, n: np.repeat(w, n, axis=-1)))


def packed_by_group(parts):
    """Columns (..., g, n, d), (..., g, d), (..., g, d) one group after the other."""
    q, k, v = parts
    return np.concatenate([q, k[..., None, :], v[..., None, :]], axis=-2).reshape(*q.shape[:-3], -1)


def packed_in_blocks(parts):
    return np.concatenate([one.reshape(*parts[0].shape[:-3], -1) for one in parts], axis=-1)


def read_by_group(flat, g, n, d):
    whole_ = flat.reshape(*flat.shape[:-1], g, n + 2, d)
    return whole_[..., :n, :], whole_[..., n, :], whole_[..., n + 1, :]


def read_in_blocks(flat, g, n, d):
    q, k, v = np.split(flat, [g * n * d, g * (n + 1) * d], axis=-1)
    lead = flat.shape[:-1]
    return q.reshape(*lead, g, n, d), k.reshape(*lead, g, d), v.reshape(*lead, g, d)


def grouped_repacked(pack, read):
    def function(a):
        g, n, new = a.groups, a.heads // a.groups, {}
        for kind in ("w_", "b_"):
            if kind + "q" in a.w:
                apart = [a.w[kind + one].reshape(*a.w[kind + one].shape[:-1], g, n, -1) for one in "qkv"]
                flat = pack((apart[0], apart[1][..., 0, :], apart[2][..., 0, :]))
                q, k, v = read(flat, g, n, apart[0].shape[-1])
                for letter, value in (("q", q), ("k", np.stack([k] * n, -2)), ("v", np.stack([v] * n, -2))):
                    new[kind + letter] = value.reshape(a.w[kind + letter].shape)
        return whole(a, changed(a, **new))

    return function


named("grouped_blocks_taken_for_groups", grouped_repacked(packed_in_blocks, read_by_group))
named("grouped_by_group_taken_for_blocks", grouped_repacked(packed_by_group, read_in_blocks))


def of_groups(a, letter):
    """Projected keys or values, one a group, (b, s, g d)."""
    flat = project(a, letter)
    each = a.heads // a.groups
    return flat.reshape(*flat.shape[:2], a.groups, each, -1)[:, :, :, 0].reshape(*flat.shape[:2], -1)


def groups_viewed(a, letter):
    return np.repeat(view(of_groups(a, letter), a.groups), a.heads // a.groups, axis=1)


def queries_by_place(a):
    """Query heads as (n g): slot (g, n) has the head that is stored at (n, g)."""
    order = np.arange(a.heads).reshape(a.heads // a.groups, a.groups).T.ravel()
    return whole(a, q=cut(project(a, "q"), a.heads)[:, order])


named("query_heads_taken_in_turns_by_groups", queries_by_place)
named("groups_split_by_view", lambda a: whole(a, k=groups_viewed(a, "k"), v=groups_viewed(a, "v")))
named("all_split_by_view", lambda a: whole(
    a, q=view(project(a, "q"), a.heads), k=groups_viewed(a, "k"), v=groups_viewed(a, "v")
))  # fmt: skip
named(
    "groups_split_features_first",
    lambda a: regrouped(a, lambda w, n: np.repeat(w.reshape(*w.shape[:-2], w.shape[-1], -1).swapaxes(-1, -2), n, -2)),
)


# ---------------------------------------------------------------- scale

for _name, _factor in {
    "scale_missing": lambda a, n: 1.0, "scale_by_d_k": lambda a, n: 1 / n.k,
    "scale_applied_twice": lambda a, n: a.factor * a.factor, "scale_by_d_model": lambda a, n: n.m**-0.5,
    "scale_by_joined_width": lambda a, n: (n.h * n.k) ** -0.5, "scale_inverted": lambda a, n: 1 / a.factor,
    "scale_squared_inverted": lambda a, n: float(n.k), "scale_on_one_of_two": lambda a, n: a.factor**0.5,
    "scale_by_d_v": lambda a, n: n.v**-0.5, "scale_by_heads": lambda a, n: n.h**-0.5,
    "scale_by_keys": lambda a, n: n.S**-0.5, "scale_default_for_own": lambda a, n: n.k**-0.5,
}.items():  # fmt: skip
    named(_name, lambda a, factor=_factor: whole(a, factor=factor(a, a.sizes)))


@mistake
def scale_after_softmax(a):
    q, k, v = heads_of(a)
    return ending(a, soft(hidden(a, scores_of(a, q, k, 1.0))) * a.factor @ v)


@mistake
def mask_scaled_too(a):
    q, k, v = heads_of(a)
    return ending(a, soft(hidden(a, (q @ k.swapaxes(-1, -2) + a.mask) * a.factor)) @ v)


named("scale_on_queries", lambda a: whole(a, q=heads_of(a)[0] * a.factor, factor=1.0))
named("scale_on_keys", lambda a: whole(a, k=heads_of(a)[1] * a.factor, factor=1.0))


@mistake
def scale_in_fourth_roots(a):
    q, k, _ = heads_of(a)
    root = np.sqrt(a.factor)
    return whole(a, q=q * root, k=k * root, factor=1.0)


# ---------------------------------------------------------------- masks


def with_keep(a, keep, fill=-np.inf):
    q, k, v = heads_of(a)
    return ending(a, soft(hidden(a, scores_of(a, q, k), keep, fill)) @ v)


def with_scores(a, edit):
    q, k, v = heads_of(a)
    return ending(a, soft(edit(scores_of(a, q, k))) @ v)


def own(a, causal=None, pad=None):
    """The mask with one part replaced; a part that the layer does not have is not put in."""
    return a.keep(causal if a.causal else None, pad if a.pad is not None else None)


LOW = -1e9
EVERY = np.ones((1, 1), bool)
named("causal_mask_ignored", lambda a: with_keep(a, own(a, causal=EVERY)))
named("padding_mask_ignored", lambda a: with_keep(a, own(a, pad=EVERY[None, None])))
named("additive_mask_ignored", lambda a: whole(Layer(a.x_q, a.x_k, a.x_v, a.w, a.heads, a.causal, a.pad)))
named("mask_inverted", lambda a: with_keep(a, ~a.keep(), LOW))
named("mask_inverted_added", lambda a: with_scores(a, lambda s: s + np.where(a.keep(), LOW, 0)))
named("causal_mask_inverted", lambda a: with_keep(a, own(a, causal=~tril(a.sizes.T, a.sizes.S)), LOW))
named("padding_mask_inverted", lambda a: with_keep(a, own(a, pad=~a.pad[:, None, None, :]), LOW))
named("causal_mask_transposed", lambda a: with_keep(a, own(a, causal=tril(a.sizes.S, a.sizes.T).T)))
named("additive_mask_transposed", lambda a: whole(
    Layer(a.x_q, a.x_k, a.x_v, a.w, a.heads, a.causal, a.pad, a.mask.T)
))  # fmt: skip
named("masks_transposed", lambda a: MISTAKES["causal_mask_transposed"](
    Layer(a.x_q, a.x_k, a.x_v, a.w, a.heads, a.causal, a.pad, None if a.mask is None else a.mask.T)
))  # fmt: skip
named("masks_ignored", lambda a: whole(Layer(a.x_q, a.x_k, a.x_v, a.w, a.heads)))
named("causal_sees_next_token", lambda a: with_keep(a, own(a, causal=tril(a.sizes.T, a.sizes.S, 1))))
named("causal_hides_diagonal", lambda a: with_keep(a, own(a, causal=tril(a.sizes.T, a.sizes.S, -1)), LOW))
named("causal_hides_two", lambda a: with_keep(a, own(a, causal=tril(a.sizes.T, a.sizes.S, -2)), LOW))


@mistake
def causal_hides_diagonal_but_first(a):
    keep = tril(a.sizes.T, a.sizes.S, -1)
    keep[0, 0] = True
    return with_keep(a, own(a, causal=keep))


named(
    "causal_aligned_bottom_right",
    lambda a: with_keep(a, own(a, causal=tril(a.sizes.T, a.sizes.S, a.sizes.S - a.sizes.T)), LOW),
)
named("causal_aligned_top_left", lambda a: with_keep(a, own(a, causal=tril(a.sizes.T, a.sizes.S))))



def zero_rows(a, keep):
    q, k, v = heads_of(a)
    return ending(a, soft_or_zero(hidden(a, scores_of(a, q, k), keep)) @ v)


named("causal_hides_diagonal_rows_zero", lambda a: zero_rows(a, own(a, causal=tril(a.sizes.T, a.sizes.S, -1))))
named("mask_inverted_rows_zero", lambda a: zero_rows(a, ~a.keep()))
named("causal_mask_not_declared", lambda a: with_keep(a, a.keep(causal=tril(a.sizes.T, a.sizes.S))))
named("earlier_keys_hidden", lambda a: with_keep(a, a.keep(causal=tril(a.sizes.S, a.sizes.T).T)))
named(
    "causal_mask_not_declared_from_the_end",
    lambda a: with_keep(a, a.keep(causal=tril(a.sizes.T, a.sizes.S, a.sizes.S - a.sizes.T))),
)
named("mask_added_as_number", lambda a: with_scores(a, lambda s: s + a.keep()))
named("mask_subtracted_as_number", lambda a: with_scores(a, lambda s: s - ~a.keep()))
for _name, _fill in {
    "mask_fill_tiny_positive": 1e-9, "mask_fill_tiny_negative": -1e-9, "mask_fill_tinier": -1e-12,
    "mask_fill_tinier_positive": 1e-12,
    "mask_multiplied_into_scores": 0.0, "mask_fill_too_small": -1.0, "mask_fill_hundred_thousandth": 1e-5,
}.items():  # fmt: skip
    named(_name, lambda a, fill=_fill: with_keep(a, None, fill))
named("mask_fill_ten", lambda a: with_scores(a, lambda s: np.where(a.keep(), s, s - 10)))


def bare(a, combine):
    q, k, v = heads_of(a)
    return ending(a, soft(hidden(a, combine(q @ k.swapaxes(-1, -2) * a.factor, a.mask))) @ v)


named("additive_mask_subtracted", lambda a: bare(a, lambda s, m: s - m))
named("additive_mask_multiplied", lambda a: bare(a, lambda s, m: s * m))


@mistake
def padding_tiled_over_heads(a):
    n = a.sizes
    rows = np.tile(a.pad, (n.h, 1)).reshape(n.B, n.h, 1, n.S)
    return with_keep(a, own(a, pad=rows))


named("padding_read_per_head", lambda a: with_keep(a, own(a, pad=a.pad[None, :, None, :])))
named("padding_of_first_sample", lambda a: with_keep(a, own(a, pad=a.pad[:1, None, None, :])))
named("padding_on_queries", lambda a: with_keep(a, own(a, pad=a.pad[:, None, :, None]), LOW))
named(
    "padding_on_queries_and_keys",
    lambda a: with_keep(a, own(a, pad=a.pad[:, None, :, None] & a.pad[:, None, None, :]), LOW),
)


# ---------------------------------------------------------------- softmax


def over(*axes):
    def function(a):
        q, k, v = heads_of(a)
        scores = hidden(a, scores_of(a, q, k))
        e = np.exp(scores - scores[np.isfinite(scores)].max())
        total = e.sum(axis=axes, keepdims=True)
        return ending(a, np.divide(e, total, out=np.zeros_like(e), where=total > 0) @ v)

    return function


for _name, _axes in {
    "softmax_over_queries": (2,), "softmax_over_heads": (1,), "softmax_over_batch": (0,),
    "softmax_over_batch_and_queries": (0, 2), "softmax_over_batch_and_heads": (0, 1),
    "softmax_over_heads_and_keys": (1, 3), "softmax_over_queries_and_keys": (2, 3), "softmax_over_all": (1, 2, 3),
    "softmax_over_everything": (0, 1, 2, 3),
}.items():  # fmt: skip
    named(_name, over(*_axes))


def weighted(make):
    """The layer whose weights are made of its scores by ``make(a, scores)``."""

    def function(a):
        q, k, v = heads_of(a)
        return ending(a, make(a, scores_of(a, q, k)) @ v)

    return function


named("softmax_missing", weighted(lambda a, s: s * a.keep()))
named("softmax_without_normalisation", weighted(lambda a, s: np.exp(s) * a.keep()))
named("softmax_twice", weighted(lambda a, s: soft(hidden(a, soft(hidden(a, s))))))
named("mask_after_softmax", weighted(lambda a, s: soft(s) * a.keep()))


def _one_more(a, s):
    e = np.exp(s) * a.keep()
    return e / (1 + e.sum(-1, keepdims=True))


named("softmax_with_a_zero_key", weighted(_one_more))
named("mask_added_after_softmax", weighted(lambda a, s: soft(hidden(a, s - a.mask)) + a.mask))


# ---------------------------------------------------------------- values


def right_weights(a):
    q, k, _ = heads_of(a)
    return soft(hidden(a, scores_of(a, q, k)))


@mistake
def weights_ignored_by_einsum(a):
    return ending(a, np.einsum("bhts,bhuv->bhtv", right_weights(a), heads_of(a)[2]))


@mistake
def values_averaged(a):
    v = heads_of(a)[2]
    return ending(a, np.repeat(v.mean(axis=2, keepdims=True), a.sizes.T, axis=2))


named("weights_not_applied", lambda a: ending(a, heads_of(a)[2]))
named("weights_applied_transposed", lambda a: whole(a, weights=right_weights(a).swapaxes(2, 3)))
named("values_used_as_keys", lambda a: whole(a, k=heads_of(a)[2]))
named("keys_used_as_values", lambda a: whole(a, v=heads_of(a)[1]))
named("queries_used_as_keys", lambda a: whole(a, k=heads_of(a)[0]))
named("keys_used_as_queries", lambda a: whole(a, q=heads_of(a)[1]))
named("queries_used_as_values", lambda a: whole(a, v=heads_of(a)[0]))
named("queries_and_keys_exchanged", lambda a: whole(a, q=heads_of(a)[1], k=heads_of(a)[0]))
named("values_not_projected", lambda a: whole(a, v=cut(a.x_v, a.heads)))
named("averaged_weights_for_each_head", lambda a: whole(a, weights=right_weights(a).mean(1, keepdims=True)))
named("weights_of_first_head_for_all", lambda a: whole(a, weights=right_weights(a)[:, :1]))
named("weights_summed_over_heads", lambda a: whole(a, weights=right_weights(a).sum(1, keepdims=True)))


# ---------------------------------------------------------------- join


def right_z(a, split=cut):
    q, k, v = heads_of(a, split=split)
    return soft(hidden(a, scores_of(a, q, k))) @ v


def joined(a, make, split=cut):
    z = right_z(a, split)
    return make(z).reshape(z.shape[0], z.shape[2], -1) @ a.w["w_o"] + a.w.get("b_o", 0)


named("join_without_transpose", lambda a: joined(a, lambda z: z))
named("join_features_first", lambda a: joined(a, lambda z: z.transpose(0, 2, 3, 1)))
named("join_positions_into_features", lambda a: joined(a, lambda z: z.transpose(0, 1, 3, 2)))
named("join_tokens_first", lambda a: joined(a, lambda z: z.transpose(2, 0, 1, 3)))
named("join_heads_before_batch", lambda a: joined(a, lambda z: z.transpose(1, 0, 2, 3)))
named(
    "join_batch_and_heads_exchanged",
    lambda a: joined(a, lambda z: z.reshape(z.shape[1], z.shape[0], *z.shape[2:]).transpose(1, 2, 0, 3)),
)
named("join_heads_permuted", lambda a: joined(a, lambda z: z[:, list(a.order)].transpose(0, 2, 1, 3)))
named("viewed_in_and_out", lambda a: joined(a, lambda z: z, view))
named("features_first_in_and_out", lambda a: joined(a, lambda z: z.transpose(0, 2, 3, 1), strided))
named("output_projection_missing", lambda a: glue(right_z(a)))
