"""What is left of a head whose scores, queries or keys are zero: the plain average of its values.

The softmax of zeros is uniform over the allowed keys, so that the head is not removed (head_ablation_locations says
which zeros remove it) but goes on without looking: it returns the mean of its values.
"""

from dataclasses import replace

from mha_sym.attention.dims import Weights, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, Stages, combined
from mha_sym.attention.variants import edited, keep_mask, on_blocks, position, some_key_kept
from mha_sym.expr import Expr, Map, Named, Reduce, Repeat, Select, Stack, as_expr
from mha_sym.library import run
from mha_sym.pattern import einsum
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
x, w, biased = cross_inputs(d), combined_weights(d), combined_weights(d, bias=True)
keep = keep_mask(d.b, d.t, d.s)
masks = Options(keep=keep)
layer, biased_layer = combined(d, x, w, masks), combined(d, x, biased, masks)

r = d.head
alive = position("ne", d.h, r)  # the gate that is 0 at head r and 1 elsewhere


def zeroed(stage: str, of: Stages = layer, weights: Weights = w) -> Stages:
    """The layer with one stage of head r zero."""
    name = {"q": "Q", "k": "K", "scores": "S", "z": "Z"}[stage]
    zero = Named(of.items()[stage] * alive, f"{name}'", f"{name} zeroed in head r", f"{name}, zeroed in head r")
    return edited(d, of, weights, masks, **{stage: zero})


def each_head(of: Expr) -> Expr:
    """Whatever is said of head r, for all r."""
    return Stack(of, r)


def head_left(stage: str) -> Expr:
    """The output of head r when this stage of head r is zero, for all r."""
    return each_head(Select(zeroed(stage).z, d.h, r))


def head_of(stage: Expr) -> Expr:
    """Head r of a stage, for all r."""
    return each_head(Select(stage, d.h, r))


allowed = Reduce("sum", keep, (d.s,))
average = einsum("b t s, b h s v -> b h t v", keep, layer.v) * Map("inv", (allowed,))
average_of_all = einsum("b h s v -> b h v", layer.v) * Map("inv", (as_expr(d.s.size),))

assert biased.b_q is not None
query_columns = replace(biased, w_q=on_blocks(biased.w_q, alive, d.hk))

THEOREM = Theorem(
    name="zeroed_scores_leave_the_average",
    title="A head whose scores are zero is not removed: it returns the average of its values",
    words=(
        "Zeroing a head's scores, its queries Q^(r) or its keys K^(r) leaves the plain average of its values V^(r) "
        "over the allowed keys, for every head r, if no mask is added to the scores. That is not the removal of the "
        "head."
    ),
    source="Michel, Levy and Neubig 2019, Are Sixteen Heads Really Better than One?",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim(
            "zero_scores", head_left("scores"), head_of(average),
            "With its scores zero, head r returns the plain average of V^(r) over the allowed keys.",
        ),
        Claim("zero_Q", head_left("q"), head_of(average), "With Q^(r) zero, it returns the same plain average."),
        Claim("zero_K", head_left("k"), head_of(average), "With K^(r) zero, it returns the same plain average."),
    ),
    controls=(
        Control(
            "zero_scores_is_zero_Z", each_head(zeroed("z").y), each_head(zeroed("scores").y),
            "Zeroing the scores of head r is said to remove it.",
        ),
        Control(
            "zero_Q_is_zero_Z", each_head(zeroed("z").y), each_head(zeroed("q").y),
            "Zeroing Q^(r) is said to remove head r.",
        ),
        Control(
            "zero_K_is_zero_Z", each_head(zeroed("z").y), each_head(zeroed("k").y),
            "Zeroing K^(r) is said to remove head r.",
        ),
        Control(
            "query_columns_with_query_bias", each_head(zeroed("q", biased_layer, biased).y),
            each_head(combined(d, x, query_columns, masks).y),
            "Zeroing the column block of W_Q is said to zero Q^(r), although there is a query bias.",
        ),
        Control(
            "average_over_all_keys", head_left("scores"),
            head_of(Repeat(average_of_all, (d.b, d.h, d.t, d.v))),
            "The average that is left is taken over all keys, the masked ones too.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
