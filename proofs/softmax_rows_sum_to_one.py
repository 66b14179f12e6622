"""The weights with which one query looks at the keys add up to one, in every head separately.

Softmax over the last axis divides exp(E[b,h,t,s]), whatever the scores E are, by its sum over s and nothing else: the
heads do not share the sum, nor do the queries.  Masked keys count as zero both above and below, so the sum is one
over the keys that are left, as long as there are any.
"""

from mha_sym.attention.dims import combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.variants import keep_mask, some_key_kept
from mha_sym.expr import Expr, Input, Reduce, Repeat, Scalar, Softmax, as_expr
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
scores = Input("E", (d.b, d.h, d.t, d.s))
keep = keep_mask(d.b, d.h, d.t, d.s)
masks = Options(mask=Input("M", (d.b, d.h, d.t, d.s), "mask"), keep=keep)
layer = combined(d, cross_inputs(d), combined_weights(d, bias=True), masks)


def row_sums(weights: Expr) -> Expr:
    """``sum_s weights[b,h,t,s]``."""
    return Reduce("sum", weights, (d.s,))


ones = Repeat(as_expr(1), (d.b, d.h, d.t))

THEOREM = Theorem(
    name="softmax_rows_sum_to_one",
    title="Every row of the weights sums to one",
    words=(
        "The softmax over the keys gives, for every batch, head and query, weights that sum to one over the keys: for "
        "arbitrary scores, also under a mask that leaves each query a key, and hence in every layer."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.1",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim("rows", row_sums(Softmax(scores, (d.s,))), ones, "The softmax of arbitrary scores over the keys."),
        Claim("masked_rows", row_sums(Softmax(scores, (d.s,), keep)), ones, "The same under a mask of allowed keys."),
        Claim("layer", row_sums(layer.weights), ones, "The weights of every head of a layer, with masks and biases."),
    ),
    controls=(
        Control(
            "over_the_query_axis", row_sums(Softmax(scores, (d.t,))), ones,
            "The softmax runs over the queries: columns sum to one, rows do not.",
        ),
        Control(
            "over_heads_and_keys_jointly", row_sums(Softmax(scores, (d.h, d.s))), ones,
            "One softmax runs over the heads and keys together: all heads share one unit of weight.",
        ),
        Control(
            "over_the_head_axis", row_sums(Softmax(scores, (d.h,))), ones,
            "The softmax runs over the heads.",
        ),
        Control(
            "columns", Reduce("sum", Softmax(scores, (d.s,)), (d.t,)), Repeat(as_expr(1), (d.b, d.h, d.s)),
            "The softmax is right, but its columns are said to sum to one.",
        ),
        Control(
            "summed_over_heads", Reduce("sum", Softmax(scores, (d.s,)), (d.h, d.s)), Repeat(as_expr(1), (d.b, d.t)),
            "The heads are said to share one unit of weight, where each has its own: the sum is h.",
        ),
        Control(
            "masked_after_softmax", row_sums(Softmax(scores, (d.s,)) * keep), ones,
            "The mask is multiplied onto the weights after the softmax, and the rows are not normalised again.",
        ),
        Control(
            "average", Softmax(scores, (d.s,)), Repeat(Scalar(1 / d.s.size), (d.b, d.h, d.t, d.s)),
            "Rows that sum to one are said to be the plain average.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
