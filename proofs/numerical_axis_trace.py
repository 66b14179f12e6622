"""The axes followed in exact numbers: two projections side by side, and one reshape done right and wrong.

P_0 keeps the first two of four features and P_1 the last two.  Side by side they are the 4 x 4 identity, so that one
projection by [P_0 | P_1] returns the features as they were; split into two heads of width two, it returns X P_0 and
X P_1 both.  Then the exercise: (2, 5, 12) with three heads of width four becomes (2, 5, 3, 4) and, transposed,
(2, 3, 5, 4).  Two other orders give the same shape and other numbers.  All sizes here are fixed.
"""

from mha_sym.attention.dims import dims
from mha_sym.axes import Axis
from mha_sym.expr import Concat, Expr, Input, Join, Named, Reshape, Select, Stack, Table, Transpose
from mha_sym.library import run
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.theorem import Claim, Control, Theorem

# ---------------------------------------------------------------- two heads of width two

d = dims(B=1, T=3, d_model=4, h=2, d_k=2, d_v=2)


def four_columns(name: str, rows: Axis, values: tuple[tuple[int, ...], ...]) -> Expr:
    """A table of four columns: column 2r + j is the pair (r, j)."""
    return Join(Table(name, (rows, d.h, d.k), tuple((row[:2], row[2:]) for row in values)), (d.h, d.k))


tokens = Table("X", (d.t, d.m), ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12)))
projections = Table(
    "P", (d.h, d.m, d.k),
    (((1, 0), (0, 1), (0, 0), (0, 0)),
     ((0, 0), (0, 0), (1, 0), (0, 1))),
)  # fmt: skip
r = d.head
p_r = Named(Select(projections, d.h, r), "P^(r)", "projection of head r")
side_by_side = Named(Concat(p_r, r, d.k), "P_flat", "side by side")
identity = four_columns("I", d.m, ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))

projected = einsum("t m, m (h k) -> t (h k)", tokens, side_by_side)
features = four_columns("X_features", d.t, tokens.values)
two_heads = rearrange(projected, "t (h k) -> h t k")
separately = Stack(einsum("t m, m k -> t k", tokens, p_r), r)
expected = Table(
    "X_split", (d.h, d.t, d.k),
    (((1, 2), (5, 6), (9, 10)),
     ((3, 4), (7, 8), (11, 12))),
)  # fmt: skip
other_order = Reshape(rearrange(projections, "h m k -> m k h"), (d.m, d.hk))
exchanged = Table("P_exchanged", (d.h, d.m, d.k), projections.values[::-1])

# ---------------------------------------------------------------- (2, 5, 12) to (2, 3, 5, 4)

e = dims(B=2, T=5, d_model=12, h=3, d_k=4)
flat = Input("Q_flat", (e.b, e.t, e.hk))
heads = rearrange(flat, "b t (h k) -> b h t k")


def reshaped(*shape: str) -> Expr:
    """The flat projection, row by row, in another shape."""
    return Reshape(flat, tuple(getattr(e, letter) for letter in shape))


THEOREM = Theorem(
    name="numerical_axis_trace",
    title="The axes followed in exact numbers",
    words=(
        "P^(0) and P^(1) side by side are the 4 x 4 identity; one projection by them returns the four features, and "
        "its split into two heads of width two returns both separate results. The array (2, 5, 12) with h = 3 and "
        "d_k = 4 becomes (2, 5, 3, 4) by a reshape and (2, 3, 5, 4) by a transpose of the middle axes."
    ),
    source="A worked example at fixed sizes; the shapes are those of Vaswani et al. 2017, section 3.2.2",
    claims=(
        Claim("identity", side_by_side, identity, "[P^(0) | P^(1)] is the 4 x 4 identity."),
        Claim("four_features", projected, features, "X [P^(0) | P^(1)] returns the four features of each token."),
        Claim("two_results", two_heads, separately, "Split into two heads of width two, it is X P^(0) and X P^(1)."),
        Claim("in_numbers", two_heads, expected, "In numbers: features 0 and 1 in head 0, features 2 and 3 in head 1."),
        Claim(
            "exercise", heads, Transpose(reshaped("b", "t", "h", "k"), (e.b, e.h, e.t, e.k)),
            "(2, 5, 12) reshaped to (2, 5, 3, 4) and transposed to (2, 3, 5, 4) is the split into heads.",
        ),
        Claim(
            "exercise_joined", Reshape(Transpose(heads, (e.b, e.t, e.h, e.k)), (e.b, e.t, e.hk)), flat,
            "The transpose undone and (2, 5, 3, 4) reshaped to (2, 5, 12), it is what it was.",
        ),
    ),
    controls=(
        Control(
            "reshaped_straight", heads, reshaped("b", "h", "t", "k"),
            "(2, 5, 12) is reshaped straight to (2, 3, 5, 4).",
        ),
        Control(
            "feature_before_head", heads, Transpose(reshaped("b", "t", "k", "h"), (e.b, e.h, e.t, e.k)),
            "(2, 5, 12) is reshaped to (2, 5, 4, 3) and then transposed to (2, 3, 5, 4).",
        ),
        Control("columns_interleaved", other_order, identity, "The columns of P^(0) and P^(1) are laid out in turn."),
        Control(
            "projections_exchanged", Concat(Select(exchanged, d.h, r), r, d.k), identity,
            "P^(1) stands before P^(0).",
        ),
        Control(
            "heads_exchanged", two_heads, Stack(einsum("t m, m k -> t k", tokens, Select(exchanged, d.h, r)), r),
            "Head 0 is said to return X P^(1).",
        ),
        Control(
            "results_reshaped_straight", Reshape(projected, (d.h, d.t, d.k)), expected,
            "The projected features (3, 4) are reshaped straight to (2, 3, 2).",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
