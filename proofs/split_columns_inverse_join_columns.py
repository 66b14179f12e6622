"""Cutting combined matrices into head blocks and laying head blocks side by side undo each other.

W_Q = [W_Q^(0) | ... | W_Q^(h-1)] has the entry W_Q[m, r*d_k + j] = W_Q^(r)[m, j]; W_K and W_V likewise, W_O by rows:
W_O[r*d_v + j, m] = W_O^(r)[j, m]; the biases b_Q, b_K, b_V as rows of h blocks.  So a layer may be stored in
either shape, and a conversion loses nothing, whichever way it goes.
"""

from dataclasses import replace

from mha_sym.attention.dims import Weights, combined_weights, dims, head_weights, join_heads
from mha_sym.attention.variants import head_blocks, interleaved
from mha_sym.axes import Permutation
from mha_sym.expr import Expr, Input, Permute, Reshape
from mha_sym.library import run
from mha_sym.pattern import rearrange
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims()
matrices = combined_weights(d, bias=True)


def _separate_letter(weight: Expr) -> Expr:
    assert isinstance(weight, Input)
    return replace(weight, name={"W": "U", "b": "c"}[weight.name[0]] + weight.name[1:])


#: separate matrices that have nothing to do with W: U_Q, U_K, U_V, U_O and their biases c_Q, c_K, c_V
heads = Weights(**{name: _separate_letter(weight) for name, weight in head_weights(d, bias=True).items().items()})

CUT = ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v")
there_and_back = join_heads(head_blocks(matrices, d), d).items()
back_and_there = head_blocks(join_heads(heads, d), d).items()


def _claims() -> tuple[Claim, ...]:
    found = []
    for name in CUT:
        symbol = f"{name[0].upper() if name[0] == 'w' else 'b'}_{name[-1].upper()}"
        block = "row blocks" if name == "w_o" else "column blocks" if name[0] == "w" else "blocks"
        found.append(
            Claim(
                f"join_split_{symbol}", there_and_back[name], matrices.items()[name],
                f"The {block} of {symbol}, laid out again, give {symbol}.",
            )
        )  # fmt: skip
        separate = heads.items()[name]
        found.append(
            Claim(
                f"split_join_{symbol}", back_and_there[name], separate,
                f"Block r of the joined matrices is the matrix of head r, for {symbol}.",
            )
        )  # fmt: skip
    return tuple(found)


pi = Permutation("pi", d.h)
joined = join_heads(heads, d)
interleaved_columns = Reshape(rearrange(heads.w_q, "h m k -> m k h"), (d.m, d.hk))
interleaved_rows = Reshape(rearrange(heads.w_o, "h v m -> v h m"), (d.hv, d.m))

THEOREM = Theorem(
    name="split_columns_inverse_join_columns",
    title="Splitting into head blocks and joining them are inverse to each other",
    words=(
        "Cutting W_Q, W_K, W_V into h column blocks, W_O into h row blocks and b_Q, b_K, b_V into h blocks, and laying "
        "such blocks out again in order, are inverse to each other, both ways and block by block."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2, read as code stores it",
    claims=_claims(),
    controls=(
        Control(
            "interleaved_columns_read", rearrange(interleaved(joined.w_q, d, d.k), "m h k -> h m k"), heads.w_q,
            "The columns of head r are read at r, r + h, r + 2h, ... although they were laid out as blocks.",
        ),
        Control(
            "interleaved_columns_written", interleaved_columns, joined.w_q,
            "The columns of the heads are laid out in turn, one column of each, instead of block after block.",
        ),
        Control(
            "interleaved_rows_written", interleaved_rows, joined.w_o,
            "The rows of W_O are laid out in turn, one row of each head, instead of block after block.",
        ),
        Control(
            "blocks_in_another_order", join_heads(Weights(**{n: Permute(e, pi) for n, e in heads.items().items()
                                                             if n != "b_o"}), d).w_v, joined.w_v,
            "The column blocks are laid out in another order of the heads.",
        ),
        Control(
            "reshaped_without_transpose", Reshape(heads.w_v, (d.m, d.hv)), joined.w_v,
            "(h, d_model, d_v) is reshaped to (d_model, h*d_v) without moving the head axis to the columns.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
