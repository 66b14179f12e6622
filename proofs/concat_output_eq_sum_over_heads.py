"""The output projection of the concatenated heads is a sum of one term for each head.

Concat(Z^(0), ..., Z^(h-1)) W_O = sum_r Z^(r) W_O^(r), where W_O^(r) is the r-th block of d_v rows of W_O: the sum over
the h*d_v joined features is a sum over heads of sums over d_v features.  It is why the effect of a head on the
output can be looked at by itself.  Vaswani et al. (2017), section 3.2.2, write the left side; Elhage et al. (2021),
A Mathematical Framework for Transformer Circuits, read it as the right side.
"""

from dataclasses import replace

from mha_sym.attention.dims import combined_weights, cross_inputs, dims
from mha_sym.attention.forms import head_sum, separate
from mha_sym.attention.variants import head_blocks, interleaved
from mha_sym.axes import Permutation
from mha_sym.expr import Concat, Expr, Input, Named, Permute, Scalar, Select, Total
from mha_sym.library import run
from mha_sym.pattern import einsum
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
r = d.head
w = combined_weights(d, bias=True)
blocks = head_blocks(w, d)

heads = Input("Z", (d.h, d.b, d.t, d.v))
head = Named(Select(heads, d.h, r), "Z^(r)", "head r")
concat = Named(Concat(head, r, d.v), "Concat", "concatenation of the heads")
output = einsum("b t (h v), (h v) m -> b t m", concat, w.w_o)


def sum_over_heads(rows: Expr) -> Expr:
    """``sum_r Z^(r) rows^(r)`` for row blocks ``(h, v, m)``."""
    return Total(einsum("b t v, v m -> b t m", head, Select(rows, d.h, r)), r)


x = cross_inputs(d)
term = einsum("b t v, v m -> b t m", head, Select(blocks.w_o, d.h, r))
assert w.b_o is not None

THEOREM = Theorem(
    name="concat_output_eq_sum_over_heads",
    title="The output projection of the concatenated heads is a sum over heads",
    words=(
        "Concat(Z^(0), ..., Z^(h-1)) W_O equals the sum over heads of Z^(r) W_O^(r), W_O^(r) being row block r of W_O, "
        "whatever the head outputs are; so a whole layer, with its biases, equals the layer that adds up its heads."
    ),
    source="Vaswani et al. 2017, section 3.2.2; Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
    claims=(
        Claim("output", output, sum_over_heads(blocks.w_o), "Concat(Z^(0), ..., Z^(h-1)) W_O = sum_r Z^(r) W_O^(r)."),
        Claim(
            "layer", separate(d, x, replace(blocks, w_o=w.w_o)).y, head_sum(d, x, blocks).y,
            "The layer that concatenates its heads equals the layer that adds up their contributions.",
        ),
    ),
    controls=(
        Control(
            "row_blocks_in_another_order", output, sum_over_heads(Permute(blocks.w_o, Permutation("pi", d.h))),
            "The row blocks of W_O are given to the heads in another order.",
        ),
        Control(
            "row_blocks_interleaved", output, sum_over_heads(interleaved(w.w_o, d, d.v)),
            "Head r is given the rows r, r + h, r + 2h, ... of W_O instead of a block of d_v rows.",
        ),
        Control(
            "output_bias_in_every_head", output + w.b_o, Total(term + w.b_o, r),
            "The output bias is added once for each head instead of once.",
        ),
        Control(
            "heads_averaged", output, sum_over_heads(blocks.w_o) * Scalar(1 / d.h.size),
            "The contributions of the heads are averaged instead of added.",
        ),
        Control(
            "first_row_block_for_all", output, Total(
                einsum("b t v, v m -> b t m", head, Select(blocks.w_o, d.h, 0)), r),
            "Every head uses the first row block of W_O.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
