"""The key bias never matters, and the value bias is an output bias.

With b_K the score of query t and key s grows by Q[t] . b_K / sqrt(d_k), the same for all keys of the row, so the
softmax does not see it.  With b_V every value grows by the same vector, and since the weights of a row sum to one, so
does the head output; behind W_O it is the constant vector b_V W_O.  Both hold under any mask that leaves each query
a key.  A query bias does matter: Q + b_Q meets each key differently.
"""

from dataclasses import replace

from mha_sym.attention.dims import Weights, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, Stages, combined
from mha_sym.attention.variants import edited, keep_mask, some_key_kept
from mha_sym.expr import Input, Reduce, Repeat, Scalar, Split, as_expr
from mha_sym.library import run
from mha_sym.pattern import einsum
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
x, w = cross_inputs(d), combined_weights(d, bias=True)
assert w.b_v is not None
assert w.b_o is not None
keep = keep_mask(d.b, d.h, d.t, d.s)
masks = Options(mask=Input("M", (d.b, d.h, d.t, d.s), "mask"), keep=keep)


def layer(*dropped: str) -> Stages:
    """The layer without some of its biases."""
    return combined(d, x, w.without(*dropped), masks)


folded = replace(w.without("b_v"), b_o=w.b_o + einsum("(h v), (h v) m -> m", w.b_v, w.w_o))
whole, no_key_bias, no_value_bias = layer(), layer("b_k"), layer("b_v")


def masked_afterwards(weights: Weights) -> Stages:
    """The layer whose mask is applied after the softmax, so that rows do not sum to one."""
    free = combined(d, x, weights)
    return edited(d, free, weights, weights=free.weights * keep)


def without_softmax(weights: Weights) -> Stages:
    """The layer that uses its scores as weights."""
    free = combined(d, x, weights)
    return edited(d, free, weights, weights=free.scores)


assert w.b_k is not None
key_bias, scale = Split(w.b_k, d.hk), Scalar(d.scale)

THEOREM = Theorem(
    name="key_bias_cancels_value_bias_folds",
    title="The key bias never matters, and the value bias is an output bias",
    words=(
        "Dropping b_K leaves the weights and the output unchanged. Dropping b_V and adding b_V W_O to b_O leaves the "
        "output unchanged. Both hold for every additive mask and every mask that leaves each query a key."
    ),
    source="Folklore; the key bias is left out of Whisper's attention for this reason (Radford et al. 2022)",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim("K", whole.k, no_key_bias.k + key_bias, "With b_K every key of a head is shifted by the same vector."),
        Claim(
            "scores", whole.scores, no_key_bias.scores + einsum("b h t k, h k -> b h t", whole.q, key_bias) * scale,
            "With b_K the scores of a query are shifted by a number that does not depend on the key.",
        ),
        Claim("weights", whole.weights, no_key_bias.weights, "The weights are the same with b_K and without."),
        Claim("key_bias", whole.y, no_key_bias.y, "The output is the same with b_K and without."),
        Claim(
            "rows", Reduce("sum", whole.weights, (d.s,)), Repeat(as_expr(1), (d.b, d.h, d.t)),
            "The weights of a query add up to one, in every head.",
        ),
        Claim(
            "V", whole.v, no_value_bias.v + Split(w.b_v, d.hv),
            "With b_V every value of a head is shifted by the same vector.",
        ),
        Claim(
            "Z", whole.z, no_value_bias.z + Split(w.b_v, d.hv),
            "So is the output of a head, at every query.",
        ),
        Claim("value_bias", whole.y, combined(d, x, folded, masks).y, "b_V can go if b_V W_O is added to b_O."),
    ),
    controls=(
        Control("query_bias_weights", whole.weights, layer("b_q").weights, "The query bias is dropped: other weights."),
        Control("query_bias", whole.y, layer("b_q").y, "The query bias is dropped: another output."),
        Control("value_bias_dropped", whole.y, no_value_bias.y, "The value bias is dropped and not made up for."),
        Control("key_bias_scores", whole.scores, no_key_bias.scores, "The key bias is said not to change the scores."),
        Control(
            "rows_that_do_not_sum_to_one", masked_afterwards(w).y, masked_afterwards(folded).y,
            "The value bias is folded although the mask comes after the softmax, so that rows do not sum to one.",
        ),
        Control(
            "key_bias_without_softmax", without_softmax(w).y, without_softmax(w.without("b_k")).y,
            "The key bias is dropped from a layer that uses its scores as weights.",
        ),
        Control(
            "value_bias_for_every_key", whole.z, no_value_bias.z + Split(w.b_v, d.hv) * Scalar(d.s.size),
            "The value bias is said to be added once for each key.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
