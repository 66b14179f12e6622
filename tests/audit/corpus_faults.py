"""What people write wrong about heads, scores, softmax, values and inputs, as steps of `tests.audit.corpus` replaced.

Defines `Faulty`, a fault with its name in the catalogue, and families of faults, one function each.  Those of masks
are in `tests.audit.corpus_masks`, those of weights in `tests.audit.corpus_weights`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.audit.corpus import STEPS, Step, Steps, hidden, hide


@dataclass(frozen=True)
class Faulty:
    """A fault: its name in the catalogue, the steps that are wrong, what a convention must have for it.

    ``tied`` are sizes that must be equal for the code to run, as `Implementation` says them; ``free`` says whether
    sizes may be given: not where the fault needs others to coincide, which ``check`` finds out, or fewer queries than
    keys and more.
    """

    truth: str
    steps: Steps
    needs: tuple[str, ...] = ()
    tied: tuple[str, ...] | None = None
    free: bool = True
    label: str = ""

    @property
    def title(self) -> str:
        """What the tests call it."""
        return self.label or self.truth


def fault(truth: str, needs: str = "", tied: str = "", free: bool = True, label: str = "", **steps: Step) -> Faulty:
    return Faulty(truth, steps, tuple(needs.split()), tuple(tied.split()) or None, free, label)


def only(letters: str, step: Step, usual: str) -> Step:
    """A step that is wrong for some of q, k and v; its last argument says for which it is taken."""
    return lambda c, value, letter: (step if letter in letters else STEPS[usual])(c, value, letter)


# ---------------------------------------------------------------- split


def viewed(c, flat, letter):
    return c.o.view(flat, c.B, c.h if letter == "q" else c.g, flat.shape[1], -1)


def features_first(c, flat, letter):
    return c.o.move(c.o.view(flat, *flat.shape[:2], -1, c.h), 0, 3, 1, 2)


def unmoved(c, flat, letter):
    return c.o.view(flat, *flat.shape[:2], c.h, -1)


def split_faults() -> Iterator[Faulty]:
    yield fault("split_by_view", "ungrouped", split=viewed)
    yield fault("split_features_first", "ungrouped", split=features_first)
    yield fault("split_untransposed", "itself", free=False, split=unmoved)
    yield fault("split_by_view_of_kv", "ungrouped", split=only("kv", viewed, "split"))
    yield fault("split_untransposed_kv", "ungrouped self", free=False, split=only("kv", unmoved, "split"))
    for letter in "qkv":
        yield fault(f"split_by_view_of_{letter}", "ungrouped", split=only(letter, viewed, "split"))
        yield fault(f"split_features_first_of_{letter}", "ungrouped", split=only(letter, features_first, "split"))
        yield fault(
            f"split_untransposed_{letter}", "ungrouped self", free=False, split=only(letter, unmoved, "split")
        )
    yield fault(
        "heads_attend_to_heads", "ungrouped self unmasked", split=unmoved,
        join=lambda c, z: c.o.view(z, c.B, c.T, -1),
    )  # fmt: skip
    yield fault(
        "heads_attend_to_heads_transposed_after", "ungrouped self unmasked", split=unmoved,
        join=lambda c, z: c.o.view(c.o.move(z, 0, 2, 1, 3), c.B, c.T, -1),
    )  # fmt: skip
    yield fault(
        "heads_summed_in_every_token", "ungrouped self unmasked", split=unmoved,
        mix=lambda c, a, v, qkv: c.o.einsum("bthg,btuv->bthv", a, v), join=lambda c, z: c.o.view(z, c.B, c.T, -1),
    )  # fmt: skip
    outs = {"": (0, 1, 2, 3), "_turned_back": (0, 1, 3, 2), "_transposed_after": (0, 2, 1, 3)}
    for way, axes in outs.items():
        for scale, factor in {"": lambda c: c.factor, "_scaled_by_heads": lambda c: c.h**-0.5}.items():
            yield fault(
                f"features_attend_to_features{way}{scale}", "ungrouped self unmasked standard", free=False,
                split=lambda c, flat, letter: c.o.move(unmoved(c, flat, letter), 0, 1, 3, 2),
                scaled=lambda c, raw, factor=factor: raw * factor(c), join=moved_out(*axes),
            )  # fmt: skip
    yield fault(
        "split_channels_first_by_view", "ungrouped",
        split=lambda c, flat, letter: c.o.view(c.o.move(flat, 0, 2, 1), c.B, c.h, flat.shape[1], -1),
    )
    yield fault(
        "heads_and_width_exchanged", "ungrouped standard unmasked", free=False,
        split=lambda c, flat, letter: c.o.move(c.o.view(flat, *flat.shape[:2], c.k, c.h), 0, 2, 1, 3),
        scaled=lambda c, raw: raw * c.h**-0.5,
    )  # fmt: skip
    yield fault(
        "one_head_for_all", "ungrouped standard", split=lambda c, flat, letter: flat[:, None],
        scaled=lambda c, raw: raw * (c.h * c.k) ** -0.5,
    )  # fmt: skip
    yield fault(
        "keys_transposed_by_reshape", "ungrouped", product=lambda c, q, k: q @ c.o.view(k, c.B, c.h, c.k, c.S)
    )
    yield fault(
        "keys_viewed_as_transposed", "ungrouped", product=lambda c, q, k: q @ k,
        split=only("k", lambda c, flat, letter: c.o.view(flat, c.B, c.h, c.k, c.S), "split"),
    )  # fmt: skip


# ---------------------------------------------------------------- join


def viewed_out(c, z):
    return c.o.view(z, c.B, c.T, -1)


def features_out(c, z):
    return c.o.view(c.o.move(z, 0, 2, 3, 1), c.B, c.T, -1)


def rows_by_feature(c, joined):
    w = c.o.move(c.o.view(c.w["w_o"], c.v, c.h, -1), 1, 0, 2)
    y = joined @ c.o.view(w, c.h * c.v, -1)
    return y + c.w["b_o"] if "b_o" in c.w else y


def moved_out(*axes):
    return lambda c, z: c.o.view(c.o.move(z, *axes), c.B, c.T, -1)


def join_faults() -> Iterator[Faulty]:
    yield fault("join_without_transpose", join=viewed_out)
    yield fault("join_features_first", join=features_out)
    yield fault("join_features_first", "ungrouped", output=rows_by_feature, label="rows of W_O by feature")
    yield fault("join_positions_into_features", join=moved_out(0, 1, 3, 2))
    yield fault("join_tokens_first", join=moved_out(2, 0, 1, 3))
    yield fault("join_heads_before_batch", join=moved_out(1, 0, 2, 3))
    yield fault(
        "join_batch_and_heads_exchanged",
        join=lambda c, z: c.o.view(c.o.move(c.o.view(z, c.h, c.B, c.T, -1), 1, 2, 0, 3), c.B, c.T, -1),
    )
    yield fault(
        "join_heads_permuted", "ungrouped",
        join=lambda c, z: c.o.cat([z[:, r] for r in reversed(range(c.h))], -1),
    )  # fmt: skip
    yield fault("viewed_in_and_out", "ungrouped", split=viewed, join=viewed_out)
    yield fault("features_first_in_and_out", "ungrouped", split=features_first, join=features_out)
    yield fault(
        "output_projection_missing", "matrices", "d_v d_model", output=lambda c, joined: joined,
        label="W_O missing",
    )  # fmt: skip


# ---------------------------------------------------------------- softmax


def over(*axes):
    return lambda c, scores: c.o.softmax(scores, axes if len(axes) > 1 else axes[0])


def one_more(c, scores):
    e = c.o.exp(scores)
    return e / (1 + e.sum(-1)[..., None])


def visible(c, weights):
    keep = hidden(c)
    return weights if keep is None else weights * c.o.number(keep, weights)


def bare(c, scores):
    """Scores that no mask has touched."""
    return scores


def softmax_faults() -> Iterator[Faulty]:
    axes = {
        "queries": (-2,), "heads": (1,), "batch": (0,), "heads_and_keys": (1, 3), "queries_and_keys": (2, 3),
        "all": (1, 2, 3), "everything": (0, 1, 2, 3),
    }  # fmt: skip
    for name, over_axes in axes.items():
        yield fault(f"softmax_over_{name}", "unmasked", softmax=over(*over_axes))
    yield fault("softmax_over_queries", "later", softmax=over(2), label="causal, softmax over queries")
    yield fault(
        "softmax_over_queries_and_keys", "unmasked", label="softmax over a flattened axis",
        softmax=lambda c, s: c.o.view(c.o.softmax(c.o.view(s, c.B, c.h, -1), -1), *s.shape),
    )  # fmt: skip
    yield fault("softmax_missing", "unmasked", softmax=lambda c, scores: scores)
    yield fault("softmax_without_normalisation", softmax=lambda c, scores: c.o.exp(scores))
    yield fault("softmax_twice", "unmasked", softmax=lambda c, scores: c.o.softmax(c.o.softmax(scores)))
    yield fault("softmax_with_a_zero_key", softmax=one_more)
    yield fault("mask_after_softmax", "boolean", hide=lambda c, s: s, reweigh=visible)
    yield fault(
        "mask_after_softmax", "later", hide=lambda c, s: s, reweigh=visible, label="causal mask after the softmax"
    )
    yield fault(
        "mask_added_after_softmax", "mask", hide=lambda c, s: s, reweigh=lambda c, a: a if c.add is None else a + c.add
    )


# ---------------------------------------------------------------- scale


def times(factor):
    return lambda c, raw: raw * factor(c)


def scale_faults() -> Iterator[Faulty]:
    factors = {
        "scale_missing": lambda c: 1, "scale_by_d_model": lambda c: c.x[0].shape[-1] ** -0.5,
        "scale_by_d_k": lambda c: 1 / c.k, "scale_inverted": lambda c: c.k**0.5,
        "scale_squared_inverted": lambda c: c.k, "scale_by_joined_width": lambda c: (c.h * c.k) ** -0.5,
        "scale_on_one_of_two": lambda c: c.k**-0.25, "scale_by_d_v": lambda c: c.v**-0.5,
        "scale_by_heads": lambda c: c.h**-0.5, "scale_by_keys": lambda c: c.S**-0.5,
    }  # fmt: skip
    for name, factor in factors.items():
        # packed weights have values as wide as keys
        yield fault(name, "standard matrices" if name == "scale_by_d_v" else "standard", scaled=times(factor))
    yield fault("scale_applied_twice", "standard", scaled=lambda c, raw: raw * c.factor * c.factor)
    yield fault("scale_default_for_own", "own_scale", scaled=times(lambda c: c.k**-0.5))
    yield fault("scale_missing", "own_scale", scaled=times(lambda c: 1), label="own scale missing")
    yield fault("scale_after_softmax", scaled=lambda c, raw: raw, reweigh=lambda c, a: a * c.factor)
    yield fault(
        "mask_scaled_too", "mask", scaled=lambda c, raw: raw, hide=lambda c, s: hide(c, s) * c.factor,
        label="mask scaled too",
    )  # fmt: skip


# ---------------------------------------------------------------- values


def mixed(make):
    return lambda c, a, v, qkv: make(a, qkv)


def value_faults() -> Iterator[Faulty]:
    yield fault(
        "weights_ignored_by_einsum", mix=lambda c, a, v, qkv: c.o.einsum("bhqk,bhsd->bhqd", a, v)
    )
    yield fault("values_averaged", "unmasked", mix=lambda c, a, v, qkv: 0 * (a @ v) + v.mean(-2)[:, :, None])
    yield fault("weights_not_applied", "self", mix=mixed(lambda a, qkv: qkv[2]))
    yield fault("weights_applied_transposed", "self unmasked", mix=lambda c, a, v, qkv: c.o.move(a, 0, 1, 3, 2) @ v)
    yield fault("keys_used_as_values", "ungrouped", free=False, mix=mixed(lambda a, qkv: a @ qkv[1]))
    yield fault("queries_used_as_values", "ungrouped self", free=False, mix=mixed(lambda a, qkv: a @ qkv[0]))
    yield fault("queries_used_as_keys", "self ungrouped", product=lambda c, q, k: q @ c.o.move(q, 0, 1, 3, 2))
    yield fault("keys_used_as_queries", "self ungrouped", product=lambda c, q, k: k @ c.o.move(k, 0, 1, 3, 2))
    yield fault(
        "queries_and_keys_exchanged", "self", product=lambda c, q, k: k @ c.o.move(q, 0, 1, 3, 2)
    )
    yield fault(
        "values_not_projected", "matrices", free=False, project=only("v", lambda c, x, letter: x, "project")
    )
    means = {"averaged_weights_for_each_head": lambda a: a.mean(1), "weights_of_first_head_for_all": lambda a: a[:, 0],
             "weights_summed_over_heads": lambda a: a.sum(1)}  # fmt: skip
    for name, make in means.items():
        yield fault(name, reweigh=lambda c, a, make=make: make(a)[:, None] + 0 * a)


# ---------------------------------------------------------------- functions taken entry by entry

POINTWISE: dict[str, Step] = {
    "relu": lambda c, x: (x + abs(x)) / 2, "gelu": lambda c, x: x * c.o.normal(x), "tanh": lambda c, x: c.o.tanh(x),
    "sigmoid": lambda c, x: 1 / (1 + c.o.exp(-x)), "silu": lambda c, x: x / (1 + c.o.exp(-x)),
}  # fmt: skip


def activated(function, letters="qkv"):
    def step(c, x, letter):
        flat = STEPS["project"](c, x, letter)
        return POINTWISE[function](c, flat) if letter in letters else flat

    return step


def pointwise_faults() -> Iterator[Faulty]:
    for function in POINTWISE:
        yield fault(f"{function}_on_projections", project=activated(function))
    for letter, name in {"q": "queries", "k": "keys", "v": "values"}.items():
        yield fault(f"relu_on_{name}", project=activated("relu", letter))
    rectified = {"leave": lambda c, y: POINTWISE["relu"](c, y)}
    yield fault("relu_on_output", **rectified)
    yield fault("relu_on_projections_and_output", project=activated("relu"), **rectified)


# ---------------------------------------------------------------- inputs


def inputs(order):
    """Which input each projection gets: ``qkk`` makes the values of the keys' input."""
    return lambda c: replace(c, x=tuple(c.x["qkv".index(one)] for one in order))


def read_sequence_first(c):
    return replace(c, x=tuple(c.o.move(one, 1, 0, 2) for one in c.x))


def viewed_sequence_first(c):
    return replace(c, x=tuple(c.o.view(one, one.shape[1], one.shape[0], -1) for one in c.x))


def input_faults() -> Iterator[Faulty]:
    swaps = {"values_from_key_input": "qkk", "keys_from_value_input": "qvv", "key_and_value_inputs_exchanged": "qvk"}
    for name, order in swaps.items():
        yield fault(name, "cross", enter=inputs(order))
    others = {"queries_from_key_input": "kkv", "query_and_key_inputs_exchanged": "kqv",
              "queries_and_values_from_key_input": "kkk", "values_from_query_input": "qkq",
              "keys_from_query_input": "qqv"}  # fmt: skip
    for name, order in others.items():
        yield fault(name, "cross unmasked", free=False, enter=inputs(order))
    yield fault("keys_and_values_from_query_input", "cross unmasked", enter=inputs("qqq"))
    yield fault(
        "batch_and_tokens_exchanged", "self unmasked", enter=read_sequence_first,
        leave=lambda c, y: c.o.move(y, 1, 0, 2),
    )  # fmt: skip
    yield fault(
        "batch_and_tokens_exchanged_by_view", "self unmasked", enter=viewed_sequence_first,
        leave=lambda c, y: c.o.view(y, y.shape[1], y.shape[0], -1),
    )  # fmt: skip
    yield fault(
        "inputs_viewed_features_first", "batch_first",
        enter=lambda c: replace(c, x=tuple(c.o.view(c.o.move(one, 0, 2, 1), *one.shape) for one in c.x)),
    )
    yield fault(
        "output_left_sequence_first", "batch_first", leave=lambda c, y: c.o.view(c.o.move(y, 1, 0, 2), *y.shape)
    )
