"""One mask for all batches and heads is the same as a copy for each, and a causal mask hides later tokens for good.

Code stores a mask as (1, 1, T, T) and lets it broadcast; the statement says that nothing else is meant by it.  With
the causal mask, which keeps the keys s <= t, the weight of every later key is exactly zero, and not merely small;
and since the sum in the softmax leaves later keys out as well, the output at position t does not depend on them:
changing the input at all later positions, in any way, leaves it as it was.
"""

from mha_sym.attention.dims import combined_weights, dims, self_inputs
from mha_sym.attention.forms import Options, Stages, combined
from mha_sym.attention.variants import edited, position, read_as_each_other, some_key_kept
from mha_sym.axes import Index, axis
from mha_sym.expr import Compare, Expr, Input, Named, Rename, Repeat, Select, Stack, Transpose, as_expr
from mha_sym.library import run
from mha_sym.pattern import rearrange, repeat
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims()
x, w = self_inputs(d), combined_weights(d, bias=True)

# ---------------------------------------------------------------- broadcasting

one_batch, one_head = axis("one_batch", 1), axis("one_head", 1)
shared = Input("M", (one_batch, one_head, d.t, d.s), "mask")
shared_keep = Input("keep", (one_batch, one_head, d.t, d.s), "mask", boolean=True)


def broadcast(mask: Expr) -> Expr:
    """``(1, 1, t, s)`` as ``(b, h, t, s)`` by broadcasting."""
    return repeat(mask, "1 1 t s -> b h t s", [d.b, d.h])


def copied(mask: Input) -> Expr:
    """The same mask written out anew for every head of every batch."""
    each = Select(Select(mask, one_batch, 0), one_head, 0)
    copies = rearrange(Stack(Stack(each, Index("i", d.b)), Index("n", d.h)), "h b t s -> b h t s")
    words = f"copies of {mask.name}, one for each head of each sequence"
    return Named(copies, f"{mask.name}'", f"a copy of {mask.name}", words)


broadcast_layer = combined(d, x, w, Options(mask=broadcast(shared), keep=broadcast(shared_keep)))
copied_layer = combined(d, x, w, Options(mask=copied(shared), keep=copied(shared_keep)))
transposed = Transpose(read_as_each_other(shared, d.t, d.s), (one_batch, one_head, d.t, d.s))
mask_transposed = broadcast(transposed)
transposed_layer = combined(d, x, w, Options(mask=mask_transposed, keep=broadcast(shared_keep)))

# ---------------------------------------------------------------- causality

causal, anticausal = Compare("le", d.s, d.t), Compare("le", d.t, d.s)
later = Compare("lt", d.t, d.s)
nothing = Repeat(as_expr(0), (d.b, d.h, d.t, d.s))
p = Index("p", d.t)


def layer(keep: Expr, inputs: tuple[Expr, Expr, Expr] = x) -> Stages:
    """Self-attention in which each query sees the keys that ``keep`` leaves."""
    return combined(d, inputs, w, Options(keep=keep))


def masked_afterwards(inputs: tuple[Expr, Expr, Expr] = x) -> Stages:
    """Self-attention without a mask whose weights are multiplied by the causal mask, and not normalised again."""
    free = combined(d, inputs, w)
    return edited(d, free, w, weights=free.weights * causal)


def changed_after_p() -> tuple[Expr, Expr, Expr]:
    """The input with anything added at every position later than p."""
    new = x[0] + Input("E", (d.b, d.t, d.m)) * position("gt", d.t, p)
    return new, Rename(new, d.t, d.s), Rename(new, d.t, d.s)


def at_p(stage: Expr) -> Expr:
    """A stage at the query p, for every p."""
    return Stack(Select(stage, d.t, p), p)


def unmoved(name: str, before: Expr, after: Expr, words: str) -> Claim:
    """A stage at position p is the same before and after the later tokens were changed."""
    return Claim(name, at_p(before), at_p(after), words)


def moved(name: str, before: Expr, after: Expr, words: str) -> Control:
    """The same, of a layer of which it is not true."""
    return Control(name, at_p(before), at_p(after), words)


changed = changed_after_p()
before, after = layer(causal), layer(causal, changed)

THEOREM = Theorem(
    name="mask_broadcast_and_causality",
    title="A broadcast mask is a copied mask, and a causal mask hides later tokens",
    words=(
        "A (1, 1, T, T) mask broadcast over batch and heads gives the layer that a copy for each gives. Under the "
        "causal mask, which keeps the keys s <= t, and so the key t at least, every later key has weight exactly zero "
        "and the output at t does not depend on any later token."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.3",
    assumptions=(some_key_kept(broadcast(shared_keep), d),),
    claims=(
        Claim("broadcast_mask", broadcast(shared), copied(shared), "The mask broadcast is the mask copied."),
        Claim(
            "broadcast_weights", broadcast_layer.weights, copied_layer.weights,
            "The weights under a broadcast additive mask and a broadcast mask of keys are those under the copies.",
        ),
        Claim("broadcast_y", broadcast_layer.y, copied_layer.y, "So is the output."),
        Claim(
            "later_keys", before.weights * later, nothing,
            "Under the causal mask the weight of every key later than the query is zero.",
        ),
        unmoved("query", before.q, after.q, "Adding any E to the tokens later than t leaves the query at t as it is."),
        unmoved("weights", before.weights, after.weights, "It leaves the weights of that query as they are."),
        unmoved("Z", before.z, after.z, "It leaves the head outputs at t as they are."),
        unmoved("Y", before.y, after.y, "It leaves the output at t as it is."),
    ),
    controls=(
        Control(
            "mask_transposed", broadcast_layer.y, transposed_layer.y,
            "Queries and keys are exchanged in the additive mask.",
        ),
        Control(
            "transposed_causal_later_keys", layer(anticausal).weights * later, nothing,
            "The causal mask is transposed, t <= s: later keys get the weight.",
        ),
        moved(
            "transposed_causal_output", layer(anticausal).y, layer(anticausal, changed).y,
            "The causal mask is transposed: the output at t depends on the later tokens.",
        ),
        moved(
            "masked_after_softmax_output", masked_afterwards().y, masked_afterwards(changed).y,
            "The mask is applied after the softmax without normalising again: later tokens act through the sum.",
        ),
        Control(
            "masked_after_softmax_layer", masked_afterwards().y, before.y,
            "Applying the mask after the softmax without normalising again is said to be the causal layer.",
        ),
        moved(
            "off_by_one_output", layer(Compare("le", d.s, d.t, 1)).y, layer(Compare("le", d.s, d.t, 1), changed).y,
            "The mask keeps s <= t + 1: each position sees the next token.",
        ),
        Control(
            "own_key_hidden", before.weights * Compare("le", d.t, d.s), nothing,
            "The own position is said to be hidden too, t <= s instead of t < s.",
        ),
        Control(
            "small_scores_instead_of_none", combined(d, x, w, Options(mask=Repeat(as_expr(-9), (d.t, d.s)) * later)
                                                     ).weights * later, nothing,
            "Instead of being left out, later keys have a finite number subtracted from their scores.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
