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
from mha_sym.expr import Expr, Input, Named, Stack
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


def _done(gate: Expr) -> str:
    return "the gate that zeroes head r" if gate is alive else "the gate"


def put_on(expr: Expr, gate: Expr, name: str, joined: bool = False) -> Named:
    """What has this name with the gates of the heads on it, or on its blocks if the features of heads are joined."""
    product = on_blocks(expr, gate, d.hv) if joined else expr * gate
    return Named(product, f"{name}'", f"the gate on {name}", f"{name} with {_done(gate)} on it")


def output(expr: Expr, gate: Expr, place: str) -> Expr:
    """The output of a layer, with words that say where the gate is."""
    assert isinstance(expr, Named)
    return replace(expr, words=f"output with {_done(gate)} on {place}")


def gated(stage: str, gate: Expr, of: Stages = layer, weights: Weights = w) -> Expr:
    """The output of the layer with one stage multiplied by the gates of the heads."""
    name = {"z": "Z", "weights": "A", "v": "V"}[stage]
    return output(edited(d, of, weights, masks, **{stage: put_on(of.items()[stage], gate, name)}).y, gate, name)


def on_rows(gate: Expr) -> Expr:
    """The output of the layer with the row blocks of W_O multiplied by the gates."""
    return output(combined(d, x, replace(w, w_o=put_on(w.w_o, gate, "W_O", True)), masks).y, gate, "W_O")


def on_columns(gate: Expr) -> Expr:
    """The output of the layer with the column blocks of W_V multiplied by the gates."""
    return output(combined(d, x, replace(w, w_v=put_on(w.w_v, gate, "W_V", True)), masks).y, gate, "W_V")


assert biased.b_v is not None
columns_only = replace(biased, w_v=put_on(biased.w_v, g, "W_V", True))
columns_and_bias = replace(columns_only, b_v=put_on(biased.b_v, g, "b_V", True))
both = output(combined(d, x, columns_and_bias, masks).y, g, "W_V and on b_V")


def each_head(of: Expr) -> Expr:
    """Whatever is said of head r, for all r."""
    return Stack(of, r)


THEOREM = Theorem(
    name="head_ablation_locations",
    title="Where zeroing removes a head",
    words=(
        "A gate, a factor for each head, gives the same output on the head outputs Z, on the weights A, on the values "
        "V, on the row blocks of W_O or, without a value bias, on the column blocks of W_V. So zeroing Z^(r), A^(r), "
        "V^(r) or the block of head r in W_O or W_V gives the same output, too."
    ),
    source="Michel, Levy and Neubig 2019, Are Sixteen Heads Really Better than One?",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim(
            "gate_A", gated("z", g), gated("weights", g),
            "A gate on the weights A gives the output that a gate on Z gives.",
        ),
        Claim("gate_V", gated("z", g), gated("v", g), "So does a gate on the values V."),
        Claim("gate_rows_of_W_O", gated("z", g), on_rows(g), "So does a gate on the row blocks of W_O."),
        Claim("gate_columns_of_W_V", gated("z", g), on_columns(g), "So does a gate on the column blocks of W_V."),
        Claim(
            "gate_columns_and_bias", gated("z", g, biased_layer, biased), both,
            "With a value bias, the gate must be on the columns of W_V and on the bias.",
        ),
        Claim(
            "zero_A", each_head(gated("z", alive)), each_head(gated("weights", alive)),
            "Zeroing A^(r) gives the output that zeroing Z^(r) gives, for every head r.",
        ),
        Claim(
            "zero_V", each_head(gated("z", alive)), each_head(gated("v", alive)),
            "So does zeroing V^(r).",
        ),
        Claim(
            "zero_rows_of_W_O", each_head(gated("z", alive)), each_head(on_rows(alive)),
            "So does zeroing row block r of W_O.",
        ),
        Claim(
            "zero_columns_of_W_V", each_head(gated("z", alive)), each_head(on_columns(alive)),
            "So does zeroing column block r of W_V, as there is no value bias.",
        ),
    ),
    controls=(
        Control(
            "columns_without_value_bias", gated("z", g, biased_layer, biased), combined(d, x, columns_only, masks).y,
            "The gate is on the columns of W_V only, although there is a value bias.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
