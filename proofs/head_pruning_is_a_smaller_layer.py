"""Pruning heads: with their gates at zero, the layer is the one without them, and the saving is exact.

A layer of h + p heads is written with the weights of the h heads that stay and of the p that go side by side.  Every
head that stays has the queries, keys, values, weights and output that it has alone; with the others gated away, the
output is that of the layer of h heads with the same d_k and d_v.  What is saved is p times the parameters of one head:
the output bias stays.

Michel, Levy and Neubig (2019), Are Sixteen Heads Really Better than One?, prune heads by such gates.
"""

from dataclasses import replace

from mha_sym.attention.dims import Dims, Weights, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.variants import edited, keep_mask, some_key_kept, weight_name
from mha_sym.axes import Axis, axis, blocks
from mha_sym.count import number, parameter_expr
from mha_sym.expr import Block, Blocks, Expr, Input, Join, Named, Rename, Repeat, Split, as_expr
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
x, w, biased = cross_inputs(d), combined_weights(d), combined_weights(d, bias=True)
keep = keep_mask(d.b, d.t, d.s)
masks = Options(keep=keep)
layer, biased_layer = combined(d, x, w, masks), combined(d, x, biased, masks)

# ---------------------------------------------------------------- h heads stay, p go

stay, go = d.h, axis("pruned", "p")
both = Axis("h", stay.size + go.size, blocks=(stay, go))
gone, big = replace(d, h=go), replace(d, h=both)


def pruned_weights(bias: bool) -> Weights:
    """The weights of the heads that go, under other letters: U_Q, ..., c_Q, ..."""
    return Weights(
        w_q=Input("U_Q", (gone.m, gone.hk), "weight"), w_k=Input("U_K", (gone.m, gone.hk), "weight"),
        w_v=Input("U_V", (gone.m, gone.hv), "weight"), w_o=Input("U_O", (gone.hv, gone.m), "weight"),
        b_q=Input("c_Q", (gone.hk,), "bias") if bias else None,
        b_k=Input("c_K", (gone.hk,), "bias") if bias else None,
        b_v=Input("c_V", (gone.hv,), "bias") if bias else None,
    )  # fmt: skip


def end_to_end(first: Expr, second: Expr) -> Expr:
    """What belongs to the heads that stay, then what belongs to those that go, along the axis of all heads."""
    return Rename(Blocks((first, second), (stay, go)), blocks(stay, go), both)


def joined(of: Dims, name: str) -> Axis:
    """The axis of a weight on which the heads lie side by side."""
    return of.hv if name in ("w_v", "w_o", "b_v") else of.hk


def all_heads(few: Weights, more: Weights) -> Weights:
    """The weights of all h + p heads."""
    wide: dict[str, Expr] = {}
    for name, part in more.items().items():
        parts = Split(few.items()[name], joined(d, name)), Split(part, joined(gone, name))
        stacked = Join(end_to_end(*parts), joined(big, name).factors)
        whole_name, part_name = weight_name(name), f"{'c' if name.startswith('b') else 'U'}_{name[-1].upper()}"
        side = "above" if name == "w_o" else "beside"
        wide[name] = Named(stacked, f"{whole_name}'", f"{whole_name} {side} {part_name}")
    return replace(few, **wide)


many, many_biased = all_heads(w, pruned_weights(False)), all_heads(biased, pruned_weights(True))
whole, whole_biased = combined(big, x, many, masks), combined(big, x, many_biased, masks)


def kept(stage: Expr) -> Expr:
    """A stage of the wide layer, in the heads that stay."""
    return Block(Rename(stage, both, blocks(stay, go)), blocks(stay, go), 0)


on_and_off = end_to_end(Repeat(as_expr(1), (stay,)), Repeat(as_expr(0), (go,)))
gated = Named(whole_biased.z * on_and_off, "Z'", "the gate is 1 for heads that stay, else 0", "Z with the gates on it")
pruned = edited(big, whole_biased, many_biased, masks, z=gated)
m, d_k, d_v, h, p = d.m.size, d.k.size, d.v.size, stay.size, go.size
saved = p * (2 * m * d_k + 2 * m * d_v)

THEOREM = Theorem(
    name="head_pruning_is_a_smaller_layer",
    title="A layer with heads gated away is the layer without them",
    words=(
        "A layer of h + p heads with p of them gated away, those with the weights U_Q, U_K, U_V, U_O and the biases "
        "c_Q, c_K, c_V, equals the layer of the h heads that stay, which has exactly p (2 d_model d_k + 2 d_model d_v) "
        "fewer weights and, if there are biases, p (2 d_k + d_v) fewer biases."
    ),
    source="Michel, Levy and Neubig 2019, Are Sixteen Heads Really Better than One?",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim("kept_Q", kept(whole_biased.q), biased_layer.q, "The heads that stay have the queries they have alone."),
        Claim("kept_K", kept(whole_biased.k), biased_layer.k, "They have the same keys."),
        Claim("kept_V", kept(whole_biased.v), biased_layer.v, "They have the same values."),
        Claim("kept_weights", kept(whole_biased.weights), biased_layer.weights, "Their weights are the same."),
        Claim("kept_Z", kept(whole_biased.z), biased_layer.z, "Their outputs are as if there were no others."),
        Claim(
            "pruning", pruned.y, biased_layer.y,
            "The layer of h + p heads with p of them gated away is the layer of the h heads that stay.",
        ),
        Claim(
            "saving", parameter_expr(whole.y), parameter_expr(layer.y) + number(saved),
            "Without biases, p heads fewer are exactly p (2 d_model d_k + 2 d_model d_v) parameters fewer.",
        ),
        Claim(
            "saving_with_biases", parameter_expr(whole_biased.y),
            parameter_expr(biased_layer.y) + number(saved + p * (2 * d_k + d_v)),
            "With biases, p (2 d_k + d_v) more are saved: the output bias stays.",
        ),
    ),
    controls=(
        Control(
            "pruned_without_gate", whole_biased.y, biased_layer.y,
            "The heads that go are still on.",
        ),
        Control(
            "saving_in_proportion", parameter_expr(whole_biased.y) * number(h),
            parameter_expr(biased_layer.y) * number(h + p),
            "With biases, the parameters are said to shrink in proportion to the heads.",
        ),
        Control(
            "values_as_wide_as_keys", parameter_expr(whole.y),
            parameter_expr(layer.y) + number(p * 4 * m * d_k),
            "The saving is computed with d_k for d_v.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
