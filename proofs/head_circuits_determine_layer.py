"""A head acts through two products of its weights: the query-key circuit and the output-value circuit.

The scores of head r see W_Q^(r) and W_K^(r) only in W_Q^(r) W_K^(r)^T, a matrix over pairs of model features, and what
a token gives to the output through head r sees W_V^(r) and W_O^(r) only in W_V^(r) W_O^(r).  Biases come in as vectors:
W_K^(r) b_Q^(r) and W_Q^(r) b_K^(r) in the scores, with the number b_Q^(r) . b_K^(r), and b_V^(r) W_O^(r) behind the
values.  A matrix G_r may therefore be moved: W_Q^(r) G_r with W_K^(r) has the scores of W_Q^(r) with W_K^(r) G_r^T, and
W_V^(r) F_r with W_O^(r) gives what W_V^(r) with F_r W_O^(r) gives.  Where they have inverses this is another basis
inside the head: W_Q^(r) G_r with W_K^(r) G_r^-T, W_V^(r) F_r with F_r^-1 W_O^(r).
"""

from dataclasses import dataclass, replace

from mha_sym.attention.dims import Weights, combined_weights, cross_inputs, dims
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.variants import head_blocks, keep_mask, read_as_each_other, some_key_kept, weight_name
from mha_sym.axes import Permutation, axis
from mha_sym.expr import Expr, Input, Join, Named, Permute, Rename, Repeat, Scalar, Split
from mha_sym.library import run
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
n = axis("n", d.m.size)  # a model feature of the key or the value, beside one of the query or the output
x, w = cross_inputs(d), combined_weights(d, bias=True)
x_k, x_v = Rename(x[1], d.m, n), Rename(x[2], d.m, n)
keep, mask = keep_mask(d.b, d.h, d.t, d.s), Input("M", (d.b, d.h, d.t, d.s), "mask")
masks = Options(mask, keep)
layer, b_o = combined(d, x, w, masks), Input("b_O", (d.m,), "bias")


@dataclass(frozen=True)
class Circuits:
    """What a layer sees of the weights of its heads.

    ``qk (h,m,n) = W_Q^(r) W_K^(r)^T``, ``ov (h,n,m) = W_V^(r) W_O^(r)``, and of the biases ``by_key (h,m) = W_K^(r)
    b_Q^(r)``, ``by_query (h,m) = W_Q^(r) b_K^(r)``, ``constant (h) = b_Q^(r) . b_K^(r)``, ``added (h,m) = b_V^(r)
    W_O^(r)``.
    """

    qk: Expr
    ov: Expr
    by_key: Expr | None
    by_query: Expr
    constant: Expr
    added: Expr

    @staticmethod
    def of(weights: Weights) -> "Circuits":
        """The products of combined weights that have all biases."""
        p = head_blocks(weights, d)
        assert p.b_q is not None
        assert p.b_k is not None
        assert p.b_v is not None
        return Circuits(
            qk=einsum("h m k, h n k -> h m n", p.w_q, Rename(p.w_k, d.m, n)),
            ov=einsum("h n v, h v m -> h n m", Rename(p.w_v, d.m, n), p.w_o),
            by_key=einsum("h m k, h k -> h m", p.w_k, p.b_q), by_query=einsum("h m k, h k -> h m", p.w_q, p.b_k),
            constant=einsum("h k, h k -> h", p.b_q, p.b_k), added=einsum("h v, h v m -> h m", p.b_v, p.w_o),
        )  # fmt: skip


circuits = Circuits.of(w)


def scores(c: Circuits = circuits) -> Expr:
    """``(X_q qk X_k^T + X_k by_key + X_q by_query + constant) / sqrt(d_k) + M``, axes ``(b, h, t, s)``."""
    pairs = einsum("b t m, h m n, b s n -> b h t s", x[0], c.qk, x_k)
    keys = [] if c.by_key is None else [einsum("b s m, h m -> b h s", x[1], c.by_key)]
    queries = einsum("b t m, h m -> b h t", x[0], c.by_query)
    return (sum(keys, pairs) + queries + c.constant) * Scalar(d.scale) + mask


def moved(c: Circuits = circuits) -> Expr:
    """What a token gives to the output of those that attend to it, ``X_v ov + added``, axes ``(b, h, s, m)``."""
    return einsum("b s n, h n m -> b h s m", x_v, c.ov) + c.added


def through_rows(of: Weights) -> Expr:
    """The same from values and rows of W_O, ``V^(r) W_O^(r)``."""
    return einsum("b h s v, h v m -> b h s m", combined(d, x, of).v, head_blocks(of, d).w_o)


def by_heads(expr: Expr, matrix: Input, transposed: bool = False) -> Expr:
    """Something head by head times ``G^(r)``, or times its transpose."""
    _, feature, j = matrix.over
    old = " ".join(one.name for one in expr.axes)
    new = old.replace(feature.name, "j")
    if transposed:
        return einsum(f"{new}, h {feature.name} j -> {old}", Rename(expr, feature, j), matrix)
    return Rename(einsum(f"{old}, h {feature.name} j -> {new}", expr, matrix), j, feature)


def times(names: str, matrix: Input, transposed: bool = False) -> Weights:
    """The weights with ``W^(r) G^(r)`` for some of them, or ``W^(r) G^(r)T``; for W_O^(r) that is ``G^(r) W_O^(r)``."""
    parts: dict[str, Expr] = {}
    for name in names.split():
        joined = d.hv if name in ("w_v", "b_v", "w_o") else d.hk
        factors = [f"{weight_name(name)}^(r)", f"{matrix.name}_r{'^T' if transposed and name != 'w_o' else ''}"]
        product = " ".join(reversed(factors) if name == "w_o" else factors)
        turned = Join(by_heads(Split(w.items()[name], joined), matrix, transposed), joined.factors)
        parts[name] = Named(
            turned, f"{weight_name(name)}'", f"the product {product}", f"{product}, the heads r side by side"
        )
    return replace(w, **parts)


g = Input("G", (d.h, d.k, axis("j", d.k.size)))
f = Input("F", (d.h, d.v, axis("j", d.v.size)))
QUERIES, KEYS, VALUES = "w_q b_q", "w_k b_k", "w_v b_v"
on_queries, on_keys = combined(d, x, times(QUERIES, g), masks), combined(d, x, times(KEYS, g, True), masks)
on_values = combined(d, x, times(VALUES, f), masks)

# for the controls
exchanged = Circuits.of(replace(w, w_q=w.w_k, w_k=w.w_q))
summed = Repeat(einsum("h m n -> m n", circuits.qk), circuits.qk.axes)
turned = rearrange(read_as_each_other(circuits.ov, d.m, n), "h m n -> h n m")
other_rows = Permute(Split(w.w_o, d.hv), Permutation("pi", d.h))
of_another_head = Circuits.of(replace(w, w_o=Join(other_rows, (d.h, d.v))))

THEOREM = Theorem(
    name="head_circuits_determine_layer",
    title="A layer depends on its heads through their circuits",
    words=(
        "The scores of head r depend on W_Q^(r) and W_K^(r) only through W_Q^(r) W_K^(r)^T, its query-key circuit, and "
        "what it gives to the output on W_V^(r) and W_O^(r) only through W_V^(r) W_O^(r), its output-value circuit, "
        "with biases in products of the same kind. So a matrix may be moved from the queries of a head to its keys, "
        "and from its values to its rows of W_O: another basis inside the head, where the matrix has an inverse."
    ),
    source="Elhage et al. 2021, A Mathematical Framework for Transformer Circuits",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim("scores", layer.scores, scores(), "The scores are those of the query-key circuit."),
        Claim(
            "values", through_rows(w), moved(),
            "What a token gives to the output is its product with the output-value circuit.",
        ),
        Claim(
            "output", layer.y, einsum("b h t s, b h s m -> b t m", layer.weights, moved()) + b_o,
            "The output is the sum of that over heads and over the tokens attended to.",
        ),
        Claim(
            "matrix_on_queries", on_queries.q, by_heads(layer.q, g),
            "W_Q^(r) G_r and b_Q^(r) G_r make queries Q_r G_r of the queries Q_r of a head.",
        ),
        Claim(
            "matrix_on_keys", on_keys.k, by_heads(layer.k, g, True),
            "W_K^(r) G_r^T and b_K^(r) G_r^T make keys K_r G_r^T of the keys K_r of a head.",
        ),
        Claim(
            "matrix_moves_to_keys", on_queries.scores, on_keys.scores,
            "So G_r on the queries has the same scores as G_r^T on the keys.",
        ),
        Claim(
            "matrix_on_values", on_values.v, by_heads(layer.v, f),
            "W_V^(r) F_r and b_V^(r) F_r make values V_r F_r of the values V_r of a head.",
        ),
        Claim(
            "matrix_moves_to_output", through_rows(times(VALUES, f)), through_rows(times("w_o", f, True)),
            "So F_r on the values gives to the output what F_r W_O^(r) for the rows of W_O gives.",
        ),
    ),
    controls=(
        Control(
            "keys_and_queries_exchanged", layer.scores, scores(replace(circuits, qk=exchanged.qk)),
            "The query-key circuit is transposed: W_K^(r) W_Q^(r)^T.",
        ),
        Control(
            "one_circuit_for_all_heads", layer.scores, scores(replace(circuits, qk=summed)),
            "All heads share the sum of their query-key circuits, which is W_Q W_K^T.",
        ),
        Control(
            "query_bias_left_out", layer.scores, scores(replace(circuits, by_key=None)),
            "The query bias is left out, although it meets each key differently.",
        ),
        Control(
            "output_value_circuit_transposed", through_rows(w), moved(replace(circuits, ov=turned)),
            "The output-value circuit is transposed.",
        ),
        Control(
            "rows_of_another_head", through_rows(w), moved(replace(circuits, ov=of_another_head.ov)),
            "The values of a head meet the rows of W_O of another head.",
        ),
        Control("matrix_on_queries_only", layer.scores, on_queries.scores, "The matrix is on the queries only."),
        Control(
            "matrix_not_transposed", on_queries.scores, combined(d, x, times(KEYS, g), masks).scores,
            "The matrix is moved to the keys without being transposed.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
