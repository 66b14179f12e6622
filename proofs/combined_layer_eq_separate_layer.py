"""The layer with combined matrices equals the layer with separate heads, from input to output.

Everything a layer may carry is in: an arbitrary mask added to the scores and an arbitrary mask of allowed keys
(minus infinity in code), each its own for every batch, head, query and key; different inputs for queries, keys
and values; and all four biases, or none.  Vaswani et al. (2017), section 3.2.2, describe the separate heads; PyTorch's
nn.MultiheadAttention and most code compute the combined form.
"""

from dataclasses import replace

from mha_sym.attention.dims import combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, combined, separate
from mha_sym.attention.variants import head_blocks, interleaved, keep_mask, some_key_kept, stage_claims
from mha_sym.axes import Permutation
from mha_sym.expr import Input, Permute
from mha_sym.library import run
from mha_sym.proof.theorem import Control, Theorem

d = dims(S="S")
x = cross_inputs(d)
plain, biased = combined_weights(d), combined_weights(d, bias=True)
mask, keep = Input("M", (d.b, d.h, d.t, d.s), "mask"), keep_mask(d.b, d.h, d.t, d.s)
masks = Options(mask=mask, keep=keep)

# the heads have matrices of their own, and one W_O behind their concatenation
heads, blocks = (replace(head_blocks(w, d), w_o=w.w_o) for w in (plain, biased))
together, apart = combined(d, x, plain, masks), separate(d, x, heads, masks)
biased_together, biased_apart = combined(d, x, biased, masks), separate(d, x, blocks, masks)

STAGES = {
    "q": "The queries of every head agree.",
    "k": "The keys of every head agree.",
    "v": "The values of every head agree.",
    "scores": "The masked scores of every head agree.",
    "weights": "The weights of every head agree.",
    "z": "The outputs of every head agree.",
    "c": "The joined heads are the concatenation of the heads.",
    "y": "The layers have the same output.",
}
BIASED = {stage: f"With biases: {words[:1].lower()}{words[1:]}" for stage, words in STAGES.items()}


def without(bias: str, word: str, stage: str = "y") -> Control:
    """The combined layer that forgets one bias, against the separate layer that has all four."""
    forgetful = combined(d, x, biased.without(bias), masks)
    return Control(
        f"{word}_bias_dropped", forgetful.items()[stage], biased_apart.items()[stage],
        f"The {word} bias is missing from the combined form.",
    )  # fmt: skip


assert biased.b_q is not None
misread = separate(d, x, replace(blocks, b_q=interleaved(biased.b_q, d, d.k)), masks)
exchanged = Options(mask=Permute(mask, Permutation("pi", d.h)), keep=keep)

THEOREM = Theorem(
    name="combined_layer_eq_separate_layer",
    title="The combined layer equals the layer of separate heads",
    words=(
        "The layer that projects once, splits, attends, joins and multiplies by W_O equals the layer that runs every "
        "head on its own and concatenates, for every mask that is added to the scores and every mask of allowed keys, "
        "with all four biases and without any."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        *stage_claims(together, apart, STAGES),
        *stage_claims(biased_together, biased_apart, BIASED, suffix="_biased"),
    ),
    controls=(
        without("b_q", "query"),
        # The weights forget the key bias (key_bias_cancels_value_bias_folds), so it is looked for in the scores.
        without("b_k", "key", stage="scores"),
        without("b_v", "value"),
        without("b_o", "output"),
        Control(
            "query_bias_interleaved", biased_together.y, misread.y,
            "The matrices are cut into blocks, but head r takes the entries r, r + h, r + 2h, ... of the query bias.",
        ),
        Control(
            "masks_of_other_heads", combined(d, x, biased, exchanged).y, biased_apart.y,
            "The masks of the heads are handed out in another order.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
