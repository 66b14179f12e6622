"""The features inside a head have no order: not those of queries and keys, and not those of values.

Scores see queries and keys only through the sum over their features, so these may be put in any order inside every
head, the same for both.  Values meet the outside only through the head's rows of W_O, so their features may be put in
any order if the rows follow.  This is the part of the change of basis inside a head that needs no inverse matrix, and
the reason why the two conventions of rotary positions hold the same weights in different order.
"""

from dataclasses import replace

from mha_sym.attention.dims import Weights, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, Stages, combined
from mha_sym.attention.variants import changed_weight, keep_mask, some_key_kept
from mha_sym.axes import Permutation
from mha_sym.expr import Expr, Input, Join, Permute, Split
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
x, w = cross_inputs(d), combined_weights(d, bias=True)
keep = keep_mask(d.b, d.h, d.t, d.s)
masks = Options(mask=Input("M", (d.b, d.h, d.t, d.s), "mask"), keep=keep)
layer = combined(d, x, w, masks)
pi, sigma, tau = Permutation("pi", d.k), Permutation("sigma", d.k), Permutation("tau", d.v)


def permuted(names: str, by: Permutation, weights: Weights = w) -> Weights:
    """The weights with the features of every head permuted in some of them."""
    parts: dict[str, Expr] = {}
    for name in names.split():
        joined = d.hv if by.axis == d.v else d.hk
        features = Join(Permute(Split(weights.items()[name], joined), by), joined.factors)
        parts[name] = changed_weight(name, features, "features permuted")
    return replace(weights, **parts)


def with_weights(weights: Weights) -> Stages:
    """The layer with other weights."""
    return combined(d, x, weights, masks)


QUERIES, KEYS, VALUES = "w_q b_q", "w_k b_k", "w_v b_v"
together = with_weights(permuted(f"{QUERIES} {KEYS}", pi))
values = with_weights(permuted(f"{VALUES} w_o", tau))

THEOREM = Theorem(
    name="feature_order_inside_heads_is_free",
    title="Features inside a head may be put in any order",
    words=(
        "Permuting the features of queries and keys inside every head, the same way for both, leaves the scores and "
        "the output unchanged. Permuting the features of the values inside every head, and the rows of W_O with "
        "them, leaves the output unchanged."
    ),
    source="Symmetry of the sums over features in Vaswani et al. 2017, section 3.2",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim("queries", Permute(layer.q, pi), together.q, "The queries are the old ones in the new order."),
        Claim("keys", Permute(layer.k, pi), together.k, "So are the keys."),
        Claim("scores", layer.scores, together.scores, "The scores are unchanged."),
        Claim("weights", layer.weights, together.weights, "So are the weights."),
        Claim("output", layer.y, together.y, "And so is the output."),
        Claim("values", Permute(layer.v, tau), values.v, "The values are the old ones in the new order."),
        Claim("head_outputs", Permute(layer.z, tau), values.z, "So are the head outputs."),
        Claim("output_of_values", layer.y, values.y, "The output is unchanged, since the rows of W_O follow."),
    ),
    controls=(
        Control("only_queries", layer.y, with_weights(permuted(QUERIES, pi)).y, "Only the queries are permuted."),
        Control(
            "one_order_each", layer.y, with_weights(permuted(KEYS, sigma, permuted(QUERIES, pi))).y,
            "Queries and keys are permuted in different orders.",
        ),
        Control(
            "w_o_left_alone", layer.y, with_weights(permuted(VALUES, tau)).y,
            "The features of the values are permuted, the rows of W_O are not.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
