"""What people write wrong about weights, biases and shared keys, as steps of `tests.audit.corpus` replaced.

Defines `weight_faults`, `bias_faults` and `group_faults`, and the steps of which public cases are made, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.audit.corpus import NEOX_NAMES, STEPS, TORCH_NAMES, by_group, grouped_blocks, in_blocks, unpacked
from tests.audit.corpus_faults import Faulty, fault, only, viewed, viewed_out

# ---------------------------------------------------------------- weights


def with_weights(make):
    """The weights, some of them replaced by those of ``make(c)``."""
    return lambda c: {**c.w, **make(c)}


def turned(*names):
    return with_weights(lambda c: {name: c.w[name].T for name in names})


def reshaped(name):
    """(out, in) brought to (in, out) by a reshape."""
    return with_weights(lambda c: {name: c.o.view(c.w[name].T, *c.w[name].shape)})


def heads_turned(*letters):
    """The heads of some projections in reverse order."""

    def make(c):
        found = {}
        for letter in letters:
            blocks = c.o.chunk(c.w[f"w_{letter}"], c.h, 1)
            found[f"w_{letter}"] = c.o.cat(list(blocks)[::-1], 1)
            if f"b_{letter}" in c.w:
                found[f"b_{letter}"] = c.o.cat(list(c.o.chunk(c.w[f"b_{letter}"], c.h, 0))[::-1], 0)
        return found

    return with_weights(make)


def taken_from(**theirs):
    """Projections that take each other's weights, biases too: ``q="k"`` gives the queries those of the keys."""

    def weights(c):
        kept = {name: w for name, w in c.w.items() if name[-1] not in theirs}
        pairs = [(kind + mine, kind + other) for mine, other in theirs.items() for kind in ("w_", "b_")]
        return kept | {mine: c.w[other] for mine, other in pairs if other in c.w}

    return weights


def each_head_its_own(c, x, letter):
    """Head r projects block r of the features with its own small matrix."""
    n = x.shape[-1] // c.h
    blocks = [slice(r * n, (r + 1) * n) for r in range(c.h)]
    flat = c.o.cat([x[..., one] @ c.w[f"w_{letter}"][one, one] for one in blocks], -1)
    return flat + c.w[f"b_{letter}"] if f"b_{letter}" in c.w else flat


def weight_faults() -> Iterator[Faulty]:
    square = {
        "query_matrix_transposed": ("w_q",), "key_matrix_transposed": ("w_k",), "value_matrix_transposed": ("w_v",),
        "output_matrix_transposed": ("w_o",), "projections_transposed": ("w_q", "w_k", "w_v"),
        "all_matrices_transposed": ("w_q", "w_k", "w_v", "w_o"),
    }  # fmt: skip
    for name, which in square.items():
        yield fault(name, "matrices", free=False, weights=turned(*which))
    for name in ("query", "key", "value", "output"):
        yield fault(f"{name}_matrix_reshaped", "ungrouped", weights=reshaped(f"w_{name[0]}"))
    yield fault("weights_in_order_kqv", "matrices", weights=taken_from(q="k", k="q"))
    copied = {"keys_projected_with_w_v": ("k", "v"), "values_projected_with_w_k": ("v", "k"),
              "values_projected_with_w_q": ("v", "q"), "keys_projected_with_w_q": ("k", "q"),
              "queries_projected_with_w_k": ("q", "k")}  # fmt: skip
    for name, (mine, theirs) in copied.items():
        yield fault(name, "matrices cross", free=False, weights=taken_from(**{mine: theirs}))
    yield fault(
        "values_used_as_keys", "ungrouped b_v self", free=False, weights=taken_from(k="v"), label="keys made by W_V"
    )
    for read, names in {"kqv": "kqv", "vkq": "vkq", "qvk": "qvk", "kvq": "vqk", "vqk": "kvq"}.items():
        # blocks called k, v, q in that order: the queries have the third block, which is V's
        yield fault(
            f"weights_in_order_{names}", "torch_packed", read=lambda c, read=read: in_blocks(c, read),
            label=f"blocks read as {read}",
        )  # fmt: skip
    orders = {
        "packed_per_head_taken_for_blocks": ("h", "three", "k"), "packed_read_three_last": ("h", "k", "three"),
        "packed_read_features_first": ("three", "k", "h"),
    }  # fmt: skip
    for name, order in orders.items():
        yield fault(name, "torch_packed", read=lambda c, order=order: unpacked(c, order, TORCH_NAMES))
    yield fault(
        "packed_blocks_taken_for_per_head", "gpt_neox", read=lambda c: unpacked(c, ("three", "h", "k"), NEOX_NAMES)
    )
    yield fault("value_matrix_zero", weights=with_weights(lambda c: {"w_v": 0 * c.w["w_v"]}))
    yield fault(
        "projections_applied_twice", "matrices", free=False,
        project=lambda c, x, letter: STEPS["project"](c, STEPS["project"](c, x, letter), letter),
    )
    yield fault("inputs_split_before_projection", "matrices", "d_v d_model", project=each_head_its_own)
    sides = {"queries": "q", "keys": "k", "values": "v"}
    for name, letters in sides.items():
        yield fault(f"heads_permuted_in_{name}", "ungrouped", weights=heads_turned(*letters))
    yield fault("heads_permuted_but_w_o", "ungrouped", weights=heads_turned(*"qkv"))


# ---------------------------------------------------------------- biases


def without(*names):
    return lambda c: {name: w for name, w in c.w.items() if name not in names}


def doubled(name):
    return with_weights(lambda c: {name: 2 * c.w[name]})


def bias_in_every_head(c, joined):
    rows, parts = c.o.chunk(c.w["w_o"], c.h, 0), c.o.chunk(joined, c.h, -1)
    return sum(part @ row + c.w["b_o"] for part, row in zip(parts, rows, strict=True))


def bias_before_w_o(c, joined):
    return (joined + c.w["b_o"]) @ c.w["w_o"]


def first_head_for_all(letter):
    name = f"b_{letter}"
    return with_weights(lambda c: {name: c.o.tile(c.w[name][: len(c.w[name]) // c.h], c.h, 0)})


def scaled_before_bias(c, x, letter):
    flat = x @ c.w[f"w_{letter}"]
    return (flat * c.factor if letter == "q" else flat) + c.w.get(f"b_{letter}", 0)


def bias_faults() -> Iterator[Faulty]:
    for letter, name in {"q": "query", "v": "value", "o": "output"}.items():
        yield fault(f"{name}_bias_dropped", f"b_{letter}", weights=without(f"b_{letter}"))
        yield fault(f"{name}_bias_added_twice", f"b_{letter}", weights=doubled(f"b_{letter}"))
    yield fault("projection_biases_dropped", "b_q b_v", weights=without("b_q", "b_k", "b_v"))
    yield fault("all_biases_dropped", "b_q b_o", weights=without("b_q", "b_k", "b_v", "b_o"))
    yield fault("output_bias_in_every_head", "b_o", output=bias_in_every_head)
    yield fault("output_bias_before_w_o", "b_o matrices", free=False, output=bias_before_w_o)
    yield fault("query_bias_after_scale", "b_q", project=scaled_before_bias, scaled=lambda c, raw: raw)
    for letter, name in {"q": "query", "v": "value"}.items():
        yield fault(f"{name}_bias_of_first_head", f"b_{letter} ungrouped", weights=first_head_for_all(letter))


# ---------------------------------------------------------------- fewer key and value heads


def in_turn(c, heads, letter):
    return c.o.tile(heads, c.h // c.g, 1)


def by_feature(c, flat, letter):
    """Each feature as often as there are heads in a group, then split into all heads."""
    return c.o.move(c.o.view(c.o.repeat(flat, c.h // c.g, -1), *flat.shape[:2], c.h, -1), 0, 2, 1, 3)


def strided(c, flat, letter):
    return c.o.move(c.o.view(flat, *flat.shape[:2], -1, c.g), 0, 3, 1, 2)


def picked(pick):
    """Head r uses group ``pick(r, g, n)``."""
    return lambda c, one, letter: c.o.stack([one[:, pick(r, c.g, c.h // c.g)] for r in range(c.h)], 1)


def in_halves(c, k, v):
    """Keys and values, (m, (g d)), beside one another, and which columns are those of the keys and of the values."""
    return c.o.cat([k, v], -1), lambda both: c.o.chunk(both, 2, -1)


def per_head(c, k, v):
    apart = c.o.stack([c.o.view(one, one.shape[0], c.g, -1) for one in (k, v)], 2)

    def read(both):
        again = c.o.view(both, both.shape[0], c.g, 2, -1)
        return tuple(c.o.view(again[:, :, n], both.shape[0], -1) for n in range(2))

    return c.o.view(apart, k.shape[0], -1), read


def misread(stored, taken):
    """Keys and values packed by ``stored`` and taken apart by ``taken``."""

    def weights(c):
        k, v = c.w["w_k"], c.w["w_v"]
        both, _ = stored(c, k, v)
        return dict(zip(("w_k", "w_v"), taken(c, k, v)[1](both), strict=True))

    return with_weights(weights)


def group_faults() -> Iterator[Faulty]:
    turns = {"groups_taken_in_turns_of_their_number": lambda r, g, n: r // g % g}
    tiles = {f"groups_by_tiles_of_{size}": lambda r, g, n, size=size: r // size * size // n for size in (2, 4)}
    for name, pick in (turns | tiles).items():
        yield fault(name, "groups", share=only("kv", picked(pick), "share"))
    ways = {"keys_and_values_per_head_taken_for_blocks": misread(per_head, in_halves),
            "key_and_value_blocks_taken_for_per_head": misread(in_halves, per_head)}  # fmt: skip
    for layout in ("plain_self", "groups"):
        for name, weights in ways.items():
            yield fault(name, f"unbiased {layout}", free=False, weights=weights, label=f"{name}, {layout}")
    yield fault("grouped_blocks_taken_for_groups", "grouped_packed_linear", free=False, read=by_group)
    yield fault("grouped_by_group_taken_for_blocks", "grouped_by_group_linear", free=False, read=grouped_blocks)
    yield fault("groups_tiled", "groups", share=only("kv", in_turn, "share"))
    yield fault("groups_tiled_in_keys", "groups", share=only("k", in_turn, "share"))
    yield fault("groups_tiled_in_values", "groups", share=only("v", in_turn, "share"))
    yield fault(
        "groups_all_first", "groups", share=only("kv", lambda c, one, letter: c.o.repeat(one[:, :1], c.h, 1), "share")
    )
    yield fault(
        "groups_repeated_by_feature", "groups", split=only("kv", by_feature, "split"), share=lambda c, one, letter: one
    )
    yield fault("groups_split_features_first", "groups", split=only("kv", strided, "split"))
    yield fault("all_split_by_view", "groups", split=viewed)
    yield fault("groups_split_by_view", "groups", split=only("kv", viewed, "split"))
    yield fault("join_without_transpose", "groups", join=viewed_out, label="grouped heads joined by view")
