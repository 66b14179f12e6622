"""Mistakes of the catalogue that public reports added, made again in plain NumPy as in `tests.audit.mistakes`.

Importing it adds them to `tests.audit.mistakes.MISTAKES`.
"""

from __future__ import annotations

import math

import numpy as np

from tests.audit.mistakes import (
    LOW,
    changed,
    cut,
    heads_of,
    mistake,
    named,
    own,
    project,
    regrouped,
    soft,
    tril,
    unmoved,
    whole,
    with_inputs,
    with_keep,
)

# ---------------------------------------------------------------- split


def channels_first(flat, heads):
    """(B, h d, T) viewed as (B, h, T, d)."""
    batch, tokens, _ = flat.shape
    return np.ascontiguousarray(flat.swapaxes(1, 2)).reshape(batch, heads, tokens, -1)


named("split_channels_first_by_view", lambda a: whole(a, split=channels_first))


@mistake
def heads_summed_in_every_token(a):
    v = unmoved(project(a, "v"), a.heads)
    z = np.repeat(v.sum(2, keepdims=True), a.heads, axis=2)
    return z.reshape(*z.shape[:2], -1) @ a.w["w_o"] + a.w.get("b_o", 0)


def between_features(a, factor, out):
    q, k, v = (one.swapaxes(2, 3) for one in heads_of(a, split=unmoved))  # (b, t, d, h)
    z = out(soft(q @ k.swapaxes(2, 3) * factor(a)) @ v)
    return z.reshape(*a.x_q.shape[:2], -1) @ a.w["w_o"] + a.w.get("b_o", 0)


for _way, _out in {
    "": lambda z: z, "_turned_back": lambda z: z.swapaxes(2, 3), "_transposed_after": lambda z: z.swapaxes(1, 2),
}.items():  # fmt: skip
    for _scale, _factor in {"": lambda a: a.factor, "_scaled_by_heads": lambda a: a.heads**-0.5}.items():
        named(
            f"features_attend_to_features{_way}{_scale}",
            lambda a, out=_out, factor=_factor: between_features(a, factor, out),
        )


# ---------------------------------------------------------------- inputs, weights

named("queries_and_values_from_key_input", lambda a: whole(with_inputs(a, a.x_k, a.x_k, a.x_k)))


@mistake
def inputs_viewed_features_first(a):
    return whole(with_inputs(a, *(one.swapaxes(1, 2).reshape(one.shape) for one in (a.x_q, a.x_k, a.x_v))))


named("value_matrix_zero", lambda a: whole(a, changed(a, w_v=0 * a.w["w_v"])))
named("projections_applied_twice", lambda a: whole(with_inputs(a, *(project(a, letter) for letter in "qkv"))))


@mistake
def inputs_split_before_projection(a):
    width = a.x_q.shape[-1] // a.heads

    def one(letter, r):
        mine = slice(r * width, (r + 1) * width)
        bias = a.w.get(f"b_{letter}")
        rows = getattr(a, f"x_{letter}")[..., mine] @ a.w[f"w_{letter}"][mine, mine]
        return rows if bias is None else rows + bias[mine]

    q, k, v = (np.stack([one(letter, r) for r in range(a.heads)], axis=1) for letter in "qkv")
    return whole(a, q=q, k=k, v=v)


# ---------------------------------------------------------------- shared keys and values


def chosen(pick):
    """Head r uses group ``pick(r, g, n)``."""
    return lambda w, n: np.stack([w[..., pick(r, w.shape[-2], n), :] for r in range(n * w.shape[-2])], -2)


named("groups_taken_in_turns_of_their_number", lambda a: regrouped(a, chosen(lambda r, g, n: r // g % g)))
for _size in (2, 4):
    named(
        f"groups_by_tiles_of_{_size}",
        lambda a, size=_size: regrouped(a, chosen(lambda r, g, n: r // size * size // n)),
    )


def pairs_repacked(pack, read):
    """Columns of W_K and W_V beside one another in one array, taken apart otherwise than they were put together."""

    def function(a):
        groups, new = a.groups or a.heads, {}
        for kind in (one for one in ("w_", "b_") if f"{one}k" in a.w):
            flat = pack(*(alone(a.w[kind + letter], a.heads, groups) for letter in "kv"))
            for letter, value in zip("kv", read(flat, groups), strict=True):
                each = value.reshape(*flat.shape[:-1], groups, -1)
                new[kind + letter] = np.repeat(each, a.heads // groups, axis=-2).reshape(a.w[kind + letter].shape)
        return whole(a, changed(a, **new))

    return function


def alone(w, heads, groups):
    """The columns of each group once, (..., g, d)."""
    return w.reshape(*w.shape[:-1], groups, heads // groups, -1)[..., 0, :]


def as_halves(k, v):
    return np.concatenate([one.reshape(*one.shape[:-2], -1) for one in (k, v)], axis=-1)


def head_by_head(k, v):
    return np.concatenate([k, v], axis=-1).reshape(*k.shape[:-2], -1)


def read_halves(flat, groups):
    return np.split(flat, 2, axis=-1)


def read_head_by_head(flat, groups):
    return np.split(flat.reshape(*flat.shape[:-1], groups, -1), 2, axis=-1)


named("keys_and_values_per_head_taken_for_blocks", pairs_repacked(head_by_head, read_halves))
named("key_and_value_blocks_taken_for_per_head", pairs_repacked(as_halves, read_head_by_head))


# ---------------------------------------------------------------- masks


@mistake
def padding_repeated_for_heads_first(a):
    n = a.sizes
    rows = np.repeat(a.pad, n.h, axis=0)  # (b h) s, read as (h b) s
    return with_keep(a, own(a, pad=rows.reshape(n.h, n.B, 1, n.S).swapaxes(0, 1)))


for _name, _offset in {"more": lambda gap: max(gap, 0), "less": lambda gap: min(gap, 0)}.items():
    named(
        f"causal_alignment_switches_to_{_name}",
        lambda a, offset=_offset: with_keep(
            a, own(a, causal=tril(a.sizes.T, a.sizes.S, offset(a.sizes.S - a.sizes.T))), LOW
        ),
    )


# ---------------------------------------------------------------- functions taken entry by entry


def normal(x):
    return np.array([0.5 + math.erf(float(one) / 2**0.5) / 2 for one in x.ravel()]).reshape(x.shape)


def logistic(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "relu": lambda x: x * (x > 0), "gelu": lambda x: x * normal(x), "silu": lambda x: x * logistic(x),
    "tanh": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)), "sigmoid": logistic,
}  # fmt: skip


def applied(function, letters="qkv"):
    def answer(a):
        return whole(a, **{one: FUNCTIONS[function](cut(project(a, one), a.heads)) for one in letters})

    return answer


for _name in FUNCTIONS:
    named(f"{_name}_on_projections", applied(_name))
for _name, _letter in {"queries": "q", "keys": "k", "values": "v"}.items():
    named(f"relu_on_{_name}", applied("relu", _letter))
named("relu_on_output", lambda a: FUNCTIONS["relu"](whole(a)))
named("relu_on_projections_and_output", lambda a: FUNCTIONS["relu"](applied("relu")(a)))
