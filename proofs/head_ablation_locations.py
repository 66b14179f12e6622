"""Where a head may be switched off.

Multiplying by a gate g (zero for the head that goes, one for the others) gives the same layer at five places: the head
outputs Z, the weights A after the softmax, the values V, the row blocks of W_O, and the column blocks of W_V if there
is no value bias.  Zeroing the scores, or Q, or K, is something else: see zeroed_scores_leave_the_average.  What taking
a head out altogether saves is in head_pruning_is_a_smaller_layer.

Michel, Levy and Neubig (2019), Are Sixteen Heads Really Better than One?, put the gate at the head output.
"""

from dataclasses import replace

from mha_sym.attention.dims import Weights, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, Stages, combined
from mha_sym.attention.variants import edited, keep_mask, on_blocks, position, some_key_kept
from mha_sym.expr import Expr, Input, Stack
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
x, w, biased = cross_inputs(d), combined_weights(d), combined_weights(d, bias=True)
keep = keep_mask(d.b, d.t, d.s)
masks = Options(keep=keep)
layer, biased_layer = combined(d, x, w, masks), combined(d, x, biased, masks)

# ---------------------------------------------------------------- a gate for each head

g = Input("g", (d.h,), "gate")
r = d.head
alive = position("ne", d.h, r)  # the gate that is 0 at head r and 1 elsewhere


def gated(stage: str, gate: Expr, of: Stages = layer, weights: Weights = w) -> Stages:
    """The layer with one stage multiplied by the gates of the heads."""
    return edited(d, of, weights, masks, **{stage: of.items()[stage] * gate})


def on_rows(gate: Expr) -> Expr:
    """The output of the layer with the row blocks of W_O multiplied by the gates."""
    return combined(d, x, replace(w, w_o=on_blocks(w.w_o, gate, d.hv)), masks).y


def on_columns(gate: Expr) -> Expr:
    """The output of the layer with the column blocks of W_V multiplied by the gates."""
    return combined(d, x, replace(w, w_v=on_blocks(w.w_v, gate, d.hv)), masks).y


assert biased.b_v is not None
columns_only = replace(biased, w_v=on_blocks(biased.w_v, g, d.hv))
columns_and_bias = replace(columns_only, b_v=on_blocks(biased.b_v, g, d.hv))


def each_head(of: Expr) -> Expr:
    """Whatever is said of head r, for all r."""
    return Stack(of, r)


THEOREM = Theorem(
    name="head_ablation_locations",
    title="Where zeroing removes a head",
    words=(
        "Zeroing a head's output Z^(r), its weights A^(r), its values V^(r), its row block of W_O or (without a value "
        "bias) its column block of W_V are the same."
    ),
    source="Michel, Levy and Neubig 2019, Are Sixteen Heads Really Better than One?",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim("gate_A", gated("z", g).y, gated("weights", g).y, "A gate on Z is a gate on the weights A."),
        Claim("gate_V", gated("z", g).y, gated("v", g).y, "A gate on Z is a gate on the values V."),
        Claim("gate_rows_of_W_O", gated("z", g).y, on_rows(g), "A gate on Z is a gate on the row blocks of W_O."),
        Claim("gate_columns_of_W_V", gated("z", g).y, on_columns(g), "A gate on Z is a gate on the columns of W_V."),
        Claim(
            "gate_columns_and_bias", gated("z", g, biased_layer, biased).y, combined(d, x, columns_and_bias, masks).y,
            "With a value bias, the gate must be on the columns of W_V and on the bias.",
        ),
        Claim(
            "zero_A", each_head(gated("z", alive).y), each_head(gated("weights", alive).y),
            "Zeroing Z^(r) is zeroing A^(r), for every head r.",
        ),
        Claim(
            "zero_V", each_head(gated("z", alive).y), each_head(gated("v", alive).y),
            "Zeroing Z^(r) is zeroing V^(r), for every head r.",
        ),
        Claim(
            "zero_rows_of_W_O", each_head(gated("z", alive).y), each_head(on_rows(alive)),
            "Zeroing Z^(r) is zeroing row block r of W_O, for every head r.",
        ),
        Claim(
            "zero_columns_of_W_V", each_head(gated("z", alive).y), each_head(on_columns(alive)),
            "Zeroing Z^(r) is zeroing column block r of W_V, for every head r, when there is no value bias.",
        ),
    ),
    controls=(
        Control(
            "columns_without_value_bias", gated("z", g, biased_layer, biased).y, combined(d, x, columns_only, masks).y,
            "The gate is on the columns of W_V only, although there is a value bias.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
