"""Self-attention without a mask does not know the order of the tokens.

Let P reorder the tokens by any permutation.  Then layer(P X) = P layer(X): the outputs are reordered in the same way
and are otherwise what they were.  Scores are inner products of pairs of tokens and the sums run over all keys, so
nothing refers to a position.  This is the precise sense in which positions are missing from the layer, and why they are
added to the input; a causal mask brings an order in by itself.
"""

from mha_sym.attention.dims import combined_weights, cross_inputs, dims, self_inputs
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.variants import read_as_each_other
from mha_sym.axes import Permutation
from mha_sym.expr import Compare, Expr, Input, Permute, Rename
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims()
w = combined_weights(d, bias=True)
x = self_inputs(d)
pi = Permutation("pi", d.t)


def seen(tokens: Expr) -> tuple[Expr, Expr, Expr]:
    """Tokens ``(b, t, m)`` as queries, keys and values see them."""
    return tokens, Rename(tokens, d.t, d.s), Rename(tokens, d.t, d.s)


def as_keys(expr: Expr) -> Expr:
    """Keys or values ``(..., s, ...)`` reordered by pi."""
    return Rename(Permute(Rename(expr, d.s, d.t), pi), d.t, d.s)


def as_both(expr: Expr) -> Expr:
    """Scores or weights ``(b, h, t, s)`` with rows and columns reordered by pi."""
    rows = Permute(expr, pi)
    return read_as_each_other(Permute(read_as_each_other(rows, d.t, d.s), pi), d.t, d.s)


reordered = Permute(x[0], pi)
before, after = combined(d, x, w), combined(d, seen(reordered), w)

# Keys of a layer of their own: their order does not matter at all.
c = dims(S="S")
cross, weights = cross_inputs(c), combined_weights(c, bias=True)
rho = Permutation("rho", c.s)
shuffled_keys = Permute(cross[1], rho)
one_order = combined(c, cross, weights)
other_order = combined(c, (cross[0], shuffled_keys, Permute(cross[2], rho)), weights)

causal = Options(keep=Compare("le", d.s, d.t))
distance = Options(mask=Input("M", (d.t, d.s), "mask"))
where = Input("P", (d.t, d.m))

THEOREM = Theorem(
    name="token_permutation_equivariance",
    title="Without a mask the layer commutes with every permutation of the tokens",
    words=(
        "Reordering the tokens of self-attention by any permutation reorders its outputs likewise and changes nothing "
        "else, as long as there is no mask and no position; the order of the keys and values that go together does not "
        "matter at all."
    ),
    source="Lee et al. 2019, Set Transformer, property 1 (permutation equivariance)",
    claims=(
        Claim("Q", Permute(before.q, pi), after.q, "The queries are reordered like the tokens."),
        Claim("K", as_keys(before.k), after.k, "So are the keys."),
        Claim("V", as_keys(before.v), after.v, "So are the values."),
        Claim("weights", as_both(before.weights), after.weights, "The weights are, in rows and columns alike."),
        Claim("Z", Permute(before.z, pi), after.z, "The head outputs are reordered like the tokens."),
        Claim("Y", Permute(before.y, pi), after.y, "layer(P X) = P layer(X)."),
        Claim("reordered_keys", other_order.k, Permute(one_order.k, rho), "Reordered inputs give reordered keys."),
        Claim("reordered_values", other_order.v, Permute(one_order.v, rho), "They give reordered values."),
        Claim(
            "reordered_weights", other_order.weights, Permute(one_order.weights, rho),
            "The weights of each query are reordered like the keys.",
        ),
        Claim("same_outputs", other_order.z, one_order.z, "The head outputs stay as they are."),
        Claim(
            "keys_in_any_order", other_order.y, one_order.y,
            "Reordering keys and values together leaves the output of cross-attention unchanged.",
        ),
    ),
    controls=(
        Control(
            "causal_mask", Permute(combined(d, x, w, causal).y, pi), combined(d, seen(reordered), w, causal).y,
            "The layer has a causal mask.",
        ),
        Control(
            "mask_left_alone", Permute(combined(d, x, w, distance).y, pi), combined(d, seen(reordered), w, distance).y,
            "The layer has a mask or bias of its own for each pair of positions, and it is not reordered.",
        ),
        Control(
            "positions_added",
            Permute(combined(d, seen(x[0] + where), w).y, pi), combined(d, seen(reordered + where), w).y,
            "Position vectors are added to the input after the tokens are reordered.",
        ),
        Control("invariance", before.y, after.y, "The outputs are said not to move at all."),
        Control(
            "inverse_permutation", Permute(before.y, pi.inverse()), after.y,
            "The outputs are reordered by the inverse permutation.",
        ),
        Control(
            "keys_without_values", one_order.y, combined(c, (cross[0], shuffled_keys, cross[2]), weights).y,
            "The keys are reordered, their values are not.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
