"""The scale may stand on the scores, on the queries, on the keys, or half on each.

Code divides the product Q K^T by sqrt(d_k), or the queries before it, or the keys, or both by the fourth root of d_k,
which keeps the numbers small in low precision.  The scores are linear in Q and in K, so all four are the same layer
under every mask.  What is not the same: the root on one of the two only, the whole scale on both, or the scale on
weights, behind the softmax.
"""

import sympy

from mha_sym.attention.dims import combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, Stages, combined
from mha_sym.attention.variants import edited, keep_mask, some_key_kept
from mha_sym.expr import Input, Named, Scalar
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
x, w = cross_inputs(d), combined_weights(d, bias=True)
keep, mask = keep_mask(d.b, d.h, d.t, d.s), Input("M", (d.b, d.h, d.t, d.s), "mask")
masks, unscaled = Options(mask, keep), Options(mask, keep, sympy.Integer(1))
layer = combined(d, x, w, masks)
whole, root = Scalar(d.scale), Scalar(sympy.sqrt(d.scale))


def scaled(q: Scalar | None = None, k: Scalar | None = None) -> Stages:
    """The layer whose scores are not scaled, and whose queries and keys are."""
    free = combined(d, x, w, unscaled)
    queries = free.q if q is None else Named(free.q * q, "Q'", "the queries scaled", "queries, scaled")
    keys = free.k if k is None else Named(free.k * k, "K'", "the keys scaled", "keys, scaled")
    return edited(d, free, w, unscaled, q=queries, k=keys)


def claims(name: str, other: Stages, where: str) -> tuple[Claim, ...]:
    """Scores, weights and output of the layer with the scale somewhere else."""
    return (
        Claim(f"scores_{name}", layer.scores, other.scores, f"With the scale {where} the scores are the same."),
        Claim(f"weights_{name}", layer.weights, other.weights, "So are the weights."),
        Claim(f"output_{name}", layer.y, other.y, "And so is the output."),
    )


behind = combined(d, x, w, unscaled)

THEOREM = Theorem(
    name="scale_moves_between_queries_and_keys",
    title="The scale may be moved between queries, keys and scores",
    words=(
        "Dividing the queries by sqrt(d_k), or the keys, or both by the fourth root of d_k, gives the scores and the "
        "output that dividing the scores by sqrt(d_k) gives, under every additive mask and every mask of keys."
    ),
    source="Scaled dot-product attention, Vaswani et al. 2017, section 3.2.1; the scores are bilinear in Q and K",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        *claims("on_queries", scaled(q=whole), "on the queries"),
        *claims("on_keys", scaled(k=whole), "on the keys"),
        *claims("in_roots", scaled(root, root), "half on the queries and half on the keys"),
    ),
    controls=(
        Control("one_root_only", layer.y, scaled(q=root).y, "The fourth root is on the queries and not on the keys."),
        Control("on_both", layer.y, scaled(whole, whole).y, "The whole scale is on the queries and on the keys."),
        Control(
            "behind_the_softmax", layer.y, edited(d, behind, w, unscaled, weights=behind.weights * whole).y,
            "The weights are scaled instead of the scores.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
