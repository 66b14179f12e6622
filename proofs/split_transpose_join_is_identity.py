"""Split the features into heads, transpose, transpose back and join: nothing has changed.

This is the bookkeeping around attention with the attention left out: (B, T, h*d_v) is read as (B, T, h, d_v),
moved to (B, h, T, d_v), moved back, and read as (B, T, h*d_v).  Position r*d_v + j of the joined axis is the pair
(r, j) before and after.  The join alone does not undo the transpose: that is the most common mistake of all.
"""

from mha_sym.attention.dims import dims
from mha_sym.expr import Expr, Input, Join, Reshape, Split, Transpose
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims()
flat = Input("C", (d.b, d.t, d.hv))
heads = Input("Z", (d.b, d.h, d.t, d.v))


def split_transpose(expr: Expr) -> Expr:
    """``(b, t, (h v))`` to ``(b, h, t, v)``."""
    return Transpose(Split(expr, d.hv), (d.b, d.h, d.t, d.v))


def transpose_join(expr: Expr) -> Expr:
    """``(b, h, t, v)`` to ``(b, t, (h v))``."""
    return Join(Transpose(expr, (d.b, d.t, d.h, d.v)), (d.h, d.v))


there = split_transpose(flat)

THEOREM = Theorem(
    name="split_transpose_join_is_identity",
    title="Split, transpose, inverse transpose, join is the identity",
    words=(
        "On (B, T, h*d_v), splitting into heads and transposing, then the inverse transpose and the join, is the "
        "identity; on (B, h, T, d_v) so is the same in the other order."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2, read as code stores it",
    claims=(
        Claim("joined", transpose_join(there), flat, "Split, transpose, transpose back, join: C as it was."),
        Claim("heads", split_transpose(transpose_join(heads)), heads, "Transpose back, join, split, transpose: Z."),
    ),
    controls=(
        Control(
            "join_without_transpose", Reshape(there, (d.b, d.t, d.hv)), flat,
            "(B, h, T, d_v) is reshaped to (B, T, h*d_v) without the inverse transpose.",
        ),
        Control(
            "positions_merged_into_features", Reshape(Transpose(there, (d.b, d.h, d.v, d.t)), (d.b, d.t, d.hv)), flat,
            "The last two axes are swapped instead of head and position, so positions are merged into the features.",
        ),
        Control(
            "features_before_heads", Reshape(Transpose(there, (d.b, d.t, d.v, d.h)), (d.b, d.t, d.hv)), flat,
            "The inverse transpose puts the feature before the head: the joined axis is (d_v, h).",
        ),
        Control(
            "split_without_transpose", transpose_join(Reshape(flat, (d.b, d.h, d.t, d.v))), flat,
            "The way in is a raw reshape to (B, h, T, d_v), the way out is right.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
