"""Heads have no order: permuting them, with the row blocks of W_O to match, changes nothing.

Give head r the matrices and biases that head pi(r) had.  Then Q, K, V, the weights and Z are the old ones with the
heads permuted, and since W_O takes its row blocks in the new order too, the sum over heads is the same sum.  This is
the discrete part of the symmetry of a layer, and the reason why two checkpoints may hold one function in different
order.  It asks for whole blocks: features do not move between heads.
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
pi = Permutation("pi", d.h)
keep = keep_mask(d.b, d.t, d.s)
masks = Options(mask=Input("M", (d.b, d.t, d.s), "mask"), keep=keep)
layer = combined(d, x, w, masks)


def permuted(*names: str, by: Permutation = pi, weights: Weights = w) -> Weights:
    """The weights with the head blocks of some of them permuted."""
    parts: dict[str, Expr] = {}
    for name in names:
        joined = d.hv if name in ("w_v", "b_v", "w_o") else d.hk
        blocks = Join(Permute(Split(weights.items()[name], joined), by), joined.factors)
        parts[name] = changed_weight(name, blocks, "blocks permuted")
    return replace(weights, **parts)


PROJECTIONS = ("w_q", "w_k", "w_v", "b_q", "b_k", "b_v")


def with_weights(weights: Weights, options: Options = masks) -> Stages:
    """The layer with other weights."""
    return combined(d, x, weights, options)


moved = with_weights(permuted(*PROJECTIONS, "w_o"))


def heads_permuted(name: str, stage: Expr, new: Expr, words: str) -> Claim:
    """A stage of the new layer is the old one with its heads permuted."""
    return Claim(name, Permute(stage, pi), new, words)


def features_permuted(weights: Weights, names: tuple[str, ...], by: Permutation) -> Weights:
    """The weights with single features moved along the joined axis, across the borders of the heads."""
    return replace(weights, **{name: Permute(weights.items()[name], by) for name in names})


own_masks = Options(mask=Input("M_h", (d.b, d.h, d.t, d.s), "mask"), keep=keep)
own_layer = combined(d, x, w, own_masks)
sigma, tau = Permutation("sigma", d.hk), Permutation("tau", d.hv)
queries_keys = ("w_q", "w_k", "b_q", "b_k")

THEOREM = Theorem(
    name="head_permutation_leaves_layer_unchanged",
    title="Permuting the heads leaves the layer unchanged",
    words=(
        "Permuting the head blocks of W_Q, W_K, W_V and of their biases by any permutation pi, and the row blocks of "
        "W_O by the same pi, leaves the output of the layer unchanged, under every mask that the heads share."
    ),
    source="Symmetry of the sum over heads in Vaswani et al. 2017, section 3.2.2",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        heads_permuted("Q", layer.q, moved.q, "The queries of head r are now those that head pi(r) had."),
        heads_permuted("K", layer.k, moved.k, "The keys of head r are now those that head pi(r) had."),
        heads_permuted("V", layer.v, moved.v, "The values of head r are now those that head pi(r) had."),
        heads_permuted("weights", layer.weights, moved.weights, "The weights of head r are those that head pi(r) had."),
        heads_permuted("Z", layer.z, moved.z, "The output of head r is now the one that head pi(r) had."),
        Claim("Y", layer.y, moved.y, "The output of the layer is unchanged."),
    ),
    controls=(
        Control(
            "w_o_left_alone", layer.y, with_weights(permuted(*PROJECTIONS)).y,
            "The heads are permuted, the row blocks of W_O stay where they were.",
        ),
        Control(
            "inverse_on_w_o", layer.y, with_weights(permuted("w_o", by=pi.inverse(), weights=permuted(*PROJECTIONS))).y,
            "The row blocks of W_O are permuted by the inverse of pi.",
        ),
        Control(
            "only_queries_and_keys", layer.y, with_weights(permuted(*queries_keys)).y,
            "Only the blocks of the queries and keys are permuted: heads keep their values and get other weights.",
        ),
        Control(
            "features_across_heads", layer.y, with_weights(features_permuted(w, queries_keys, sigma)).y,
            "The features of queries and keys are permuted together, but across heads instead of in whole blocks.",
        ),
        Control(
            "value_features_across_heads",
            layer.y, with_weights(features_permuted(w, ("w_v", "b_v", "w_o"), tau)).y,
            "The features of the values and the rows of W_O are permuted together, but across heads.",
        ),
        Control(
            "one_permutation_each",
            layer.y, with_weights(permuted("w_v", "b_v", "w_o", by=Permutation("rho", d.h),
                                  weights=permuted(*queries_keys))).y,
            "Queries and keys are permuted by one permutation, values and W_O by another.",
        ),
        Control(
            "mask_of_each_head_left_alone",
            own_layer.y, with_weights(permuted(*PROJECTIONS, "w_o"), own_masks).y,
            "Every head has a mask of its own, and the masks are not permuted with the heads.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
