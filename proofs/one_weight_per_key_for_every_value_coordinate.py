"""A head has one weight for each key, and uses it for every coordinate of the value.

Z[b,r,t,j] = sum_s A[b,r,t,s] V[b,r,s,j]: the weight does not depend on j.  However wide d_v is, 128 say, a row of
weights is one row.  More coordinates carry more from the same places; looking at other places takes another head.
So heads whose score rows are equal are one wide head under another name, and heads whose score rows differ are
not: a wide head gives equal results for equal values, and several heads do not.
"""

from dataclasses import replace

import sympy

from mha_sym.attention.dims import Weights, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, combined, project
from mha_sym.attention.variants import keep_mask, some_key_kept
from mha_sym.axes import Axis, Index, axis
from mha_sym.count import number, score_expr
from mha_sym.expr import Contract, Expr, Input, Join, Named, Reduce, Repeat, Scalar, Select, Softmax, Split, Stack
from mha_sym.library import run
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
x, w = cross_inputs(d), combined_weights(d)
keep = keep_mask(d.b, d.t, d.s)
mask = Input("M", (d.b, d.t, d.s), "mask")
masks = Options(mask=mask, keep=keep)
layer = combined(d, x, w, masks)

# ---------------------------------------------------------------- a head of one coordinate for each column of W_V

j = Index("j", d.v)
narrow = replace(d, v=axis("v", 1))
column = Repeat(Select(Split(w.w_v, d.hv), d.v, j), (d.m, d.h, narrow.v))
rows_of_one = Input("U_O", (narrow.hv, d.m), "weight")
narrow_layer = combined(narrow, x, Weights(w.w_q, w.w_k, Join(column, (d.h, narrow.v)), rows_of_one), masks)
by_coordinate = Stack(Select(narrow_layer.z, narrow.v, 0), j)

# ---------------------------------------------------------------- how many weights are stored

wide = dims(S="S", d_v=128)
wide_layer = combined(wide, cross_inputs(wide), combined_weights(wide))
entries = sympy.Mul(d.b.size, d.h.size, d.t.size, d.s.size)

# ---------------------------------------------------------------- one wide head

v_flat = Named(project(x[2], d.s, w.w_v, d.hv, None, d), "V_flat", "definition of the product")
one_q, one_k = Input("U_Q", (d.m, d.k), "weight"), Input("U_K", (d.m, d.k), "weight")


def wide_head(weights: Expr) -> Expr:
    """One row of weights ``(b, t, s)`` for all h*d_v coordinates of the values."""
    return einsum("b t s, b s (h v) -> b t (h v)", weights, v_flat)


def one_row() -> Expr:
    """The weights of the one wide head, ``(b, t, s)``."""
    q, k = project(x[0], d.t, one_q, d.k, None, d), project(x[1], d.s, one_k, d.k, None, d)
    scores = einsum("b t k, b s k -> b t s", q, k) * Scalar(d.scale) + mask
    return Named(Softmax(scores, (d.s,), keep), "A_wide", "softmax over the keys")


def for_every_head(weight: Expr, feature: Axis) -> Expr:
    """The same ``(m, feature)`` matrix for each head."""
    return Join(Repeat(weight, (d.m, d.h, feature)), (d.h, feature))


alike = combined(d, x, replace(w, w_q=for_every_head(one_q, d.k), w_k=for_every_head(one_k, d.k)), masks)
first = Select(layer.weights, d.h, 0)
average = Contract((layer.weights, Scalar(1 / d.h.size)), (d.b, d.t, d.s))

one_v = Input("U_V", (d.m, d.v), "weight")
same_values = combined(d, x, replace(w, w_v=for_every_head(one_v, d.v)), masks)
sum_of_scores = Softmax(Reduce("sum", layer.scores, (d.h,)), (d.s,), keep)

THEOREM = Theorem(
    name="one_weight_per_key_for_every_value_coordinate",
    title="A head uses one weight per key for every coordinate of the value",
    words=(
        "Coordinate j of the output of a head is the output of the head of width one with the same queries and keys "
        "and column j of W_V: the row of weights is the same for all j, one row whatever d_v is. Heads with equal "
        "score rows together are one wide head; in general heads are not."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2, on several heads against a single one",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim(
            "weights", layer.weights, narrow_layer.weights,
            "The head that is given one column of W_V has the weights of the whole head.",
        ),
        Claim(
            "coordinate", layer.z, by_coordinate,
            "Coordinate j of the head output is the output of the head with column j of W_V alone.",
        ),
        Claim(
            "stored_weights_128", score_expr(wide_layer.y), number(entries),
            "With d_v = 128 a layer holds B h T S weights: one row of S for each query of each head.",
        ),
        Claim("stored_weights", score_expr(layer.y), number(entries), "So it does for every other d_v."),
        Claim(
            "equal_rows", alike.weights, Repeat(one_row(), (d.b, d.h, d.t, d.s)),
            "Heads that share W_Q and W_K have the weights of one head.",
        ),
        Claim(
            "one_wide_head", alike.c, wide_head(one_row()),
            "Heads that share W_Q and W_K, side by side, are one head with h*d_v value coordinates.",
        ),
    ),
    controls=(
        Control(
            "weights_for_every_coordinate", score_expr(wide_layer.y), number(128 * entries),
            "A row of weights is said to be stored for each of the 128 value coordinates.",
        ),
        Control(
            "first_head_for_all", layer.c, wide_head(first),
            "Heads with different score rows are replaced by one wide head with the weights of the first.",
        ),
        Control(
            "average_head", layer.c, wide_head(average),
            "Heads with different score rows are replaced by one wide head with their average weights.",
        ),
        Control(
            "scores_added", layer.c, wide_head(sum_of_scores),
            "The scores of the heads are added up, as one head with h*d_k query features would do.",
        ),
        Control(
            "equal_values_equal_outputs",
            same_values.z, rearrange(Repeat(Select(same_values.z, d.h, 0), (d.h, d.b, d.t, d.v)), "h b t v -> b h t v"),
            "Heads with equal values are said to have equal outputs, as they would if any one wide head could do.",
        ),
        Control(
            "coordinate_with_own_weights", Reduce("sum", layer.z, (d.v,)), Select(layer.z, d.v, 0) * Scalar(d.v.size),
            "Since the weights are the same, all coordinates of the output are said to be the same.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
