"""One projection, split and transposed, gives exactly every head's own Q, K, V, scores, weights and output.

Vaswani et al. (2017), section 3.2.2, give each head its own matrices: Q^(r) = X W_Q^(r), and likewise for K
and V.  Code multiplies once by W_Q = [W_Q^(0) | ... | W_Q^(h-1)], splits the h*d_k columns of the result into
(h, d_k) and moves the head axis forward.  Both are the same, entry by entry,

    Q[b,r,t,j] = sum_m X[b,t,m] W_Q[m, r*d_k + j] = sum_m X[b,t,m] W_Q^(r)[m,j] = Q^(r)[b,t,j],

so the heads agree at every stage before W_O.  Queries, keys and values may come from different inputs.
"""

from mha_sym.attention.dims import combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, combined, project, separate
from mha_sym.attention.variants import edited, head_blocks, interleaved, read_as_each_other, stage_claims
from mha_sym.axes import axis
from mha_sym.expr import Expr, Rename, Reshape, Scalar, Softmax
from mha_sym.library import run
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.theorem import Control, Theorem

d = dims(S="S")
x, w = cross_inputs(d), combined_weights(d)
together = combined(d, x, w)
apart = separate(d, x, head_blocks(w, d))

q_flat = project(x[0], d.t, w.w_q, d.hk, None, d)
k_flat = project(x[1], d.s, w.w_k, d.hk, None, d)
v_flat = project(x[2], d.s, w.w_v, d.hv, None, d)

reshaped = edited(
    d, together, w,
    q=Reshape(q_flat, (d.b, d.h, d.t, d.k)),
    k=Reshape(k_flat, (d.b, d.h, d.s, d.k)),
    v=Reshape(v_flat, (d.b, d.h, d.s, d.v)),
)  # fmt: skip


def swapped(flat: Expr, pattern: str) -> Expr:
    """The flat projection split as (feature, head) instead of (head, feature), then transposed."""
    return rearrange(interleaved(flat, d, d.v if flat is v_flat else d.k), pattern)


mixed = edited(
    d, together, w,
    q=swapped(q_flat, "b t h k -> b h t k"),
    k=swapped(k_flat, "b s h k -> b h s k"),
    v=swapped(v_flat, "b s h v -> b h s v"),
)  # fmt: skip

# As many positions as heads: now (b, t, h, k) passes for (b, h, t, k) and nothing complains.
e = dims(T="n", S="S", h="n")
square_x, square_w = cross_inputs(e), combined_weights(e)
square = separate(e, square_x, head_blocks(square_w, e))
untransposed = rearrange(project(square_x[0], e.t, square_w.w_q, e.hk, None, e), "b t (h k) -> b t h k")


def heads_attend_to_heads() -> Expr:
    """Self-attention without any transpose: within one token, each head attends to the other heads."""
    one = dims()
    token, weights = cross_inputs(one)[0], combined_weights(one)
    other = axis("g", one.h.size)
    q = rearrange(project(token, one.t, weights.w_q, one.hk, None, one), "b t (h k) -> b t h k")
    k = rearrange(project(token, one.t, weights.w_k, one.hk, None, one), "b t (h k) -> b t h k")
    v = rearrange(project(token, one.t, weights.w_v, one.hv, None, one), "b t (h v) -> b t h v")
    scores = einsum("b t h k, b t g k -> b t h g", q, Rename(k, one.h, other)) * Scalar(one.scale)
    return einsum("b t h g, b t g v -> b h t v", Softmax(scores, (other,)), Rename(v, one.h, other))


def self_attention_heads() -> Expr:
    """The outputs of the heads of self-attention on the input of `heads_attend_to_heads`."""
    one = dims()
    token = cross_inputs(one)[0]
    keys = Rename(token, one.t, one.s)
    return separate(one, (token, keys, keys), head_blocks(combined_weights(one), one), Options()).z


THEOREM = Theorem(
    name="combined_projection_eq_separate_heads",
    title="One projection for all heads equals a projection for each head",
    words=(
        "Projecting once with W_Q, W_K, W_V, splitting the feature axis into (h, d_k) or (h, d_v) and moving the "
        "head axis forward gives exactly the Q, K, V, scores, weights and output of every separate head, whose "
        "matrices are the column blocks of W_Q, W_K, W_V."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2",
    claims=stage_claims(
        together,
        apart,
        {
            "q": "Slice r of Q is the query matrix Q^(r) of head r.",
            "k": "Slice r of K is the key matrix K^(r) of head r.",
            "v": "Slice r of V is the value matrix V^(r) of head r.",
            "scores": "Slice r of the scores is Q^(r) K^(r)^T / sqrt(d_k).",
            "weights": "Slice r of the weights is the row-wise softmax of the scores of head r.",
            "z": "Slice r of Z is the output A^(r) V^(r) of head r.",
        },
    ),
    controls=(
        Control(
            "raw_reshape", reshaped.q, apart.q,
            "The flat projection (B, T, h*d_k) is reshaped straight to (B, h, T, d_k), without a transpose.",
        ),
        Control(
            "raw_reshape_output", reshaped.z, apart.z,
            "Q, K and V are all reshaped straight to (B, h, T, ...): the mistakes do not cancel in the head outputs.",
        ),
        Control(
            "factors_swapped", mixed.q, apart.q,
            "The feature axis is split into (d_k, h) instead of (h, d_k): heads are read from interleaved columns.",
        ),
        Control(
            "factors_swapped_output", mixed.z, apart.z,
            "Q, K and V are all split with head and feature swapped: the head outputs are wrong too.",
        ),
        Control(
            "transpose_left_out", read_as_each_other(untransposed, e.t, e.h), square.q,
            "With as many positions as heads the transpose is left out, and (B, T, h, d_k) is read as (B, h, T, d_k).",
        ),
        Control(
            "heads_attend_to_heads", heads_attend_to_heads(), self_attention_heads(),
            "In self-attention, X_q being X_k and X_v too and S = T, the transpose is left out everywhere, so that "
            "heads attend to heads within one token.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
