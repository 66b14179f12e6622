"""Stored scores, parameters, multiply-adds and bytes moved: four formulas, none of which stands for another.

Every head has a score for each pair of a query and a key: B h T^2 in all, and so for every way of cutting a fixed
width into heads.  More heads of smaller width leave the parameters and the multiply-adds of the layer as they were,
and raise the stored scores and the bytes moved.  All four are read off the same expression.  The running time is a
fifth quantity and no formula in the sizes: it depends on machine and implementation, so it has to be measured.
"""

from mha_sym.attention.dims import Dims, combined_weights, dims, self_inputs
from mha_sym.attention.forms import combined
from mha_sym.axes import size_symbol
from mha_sym.count import bytes_moved, multiply_adds, number, parameter_expr, score_expr
from mha_sym.expr import Expr
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem


def layer(d: Dims) -> Expr:
    """Self-attention without biases and masks."""
    return combined(d, self_inputs(d), combined_weights(d)).y


def work(d: Dims) -> Expr:
    """Its multiply-adds."""
    return number(multiply_adds(layer(d)))


def traffic(d: Dims) -> Expr:
    """The bytes that an unfused run moves, four for each entry."""
    return number(bytes_moved(layer(d), itemsize=4))


def scores(d: Dims) -> Expr:
    """Its stored scores."""
    return score_expr(layer(d))


d = dims()
B, T, m, h, d_k, d_v = (axis.size for axis in (d.b, d.t, d.m, d.h, d.k, d.v))
pairs = B * h * T**2

# one width p*q*e, cut into p heads and into p*q heads
p, q, e = map(size_symbol, ("p", "q", "e"))
few = dims(d_model=p * q * e, h=p, d_k=q * e, d_v=q * e)
many = dims(d_model=p * q * e, h=p * q, d_k=e, d_v=e)

projections = 2 * B * T * m * h * d_k + B * T * m * h * d_v
multiplied = projections + pairs * d_k + pairs * d_v + B * T * h * d_v * m

queries, values, tokens = B * T * h * d_k, B * T * h * d_v, B * T * m
moved = (
    2 * (tokens + m * h * d_k + queries) + (tokens + m * h * d_v + values)  # three projections
    + (2 * queries + pairs) + 2 * pairs + 2 * pairs  # Q K^T, the scale, the softmax
    + (pairs + values + values) + (values + h * d_v * m + tokens)  # A V, then W_O
)  # fmt: skip

THEOREM = Theorem(
    name="score_entries_and_costs",
    title="Stored scores and the other costs of a layer",
    words=(
        "Self-attention stores B h T^2 scores, for every split of a fixed width into heads. Its parameters, stored "
        "scores, multiply-adds and bytes moved are four different formulas in the sizes; cutting the same width into "
        "more heads changes the second and the fourth and leaves the first and the third."
    ),
    source="Vaswani et al. 2017, section 3.2.2, on the total cost; Dao et al. 2022, FlashAttention, on traffic",
    claims=(
        Claim("stored_scores", scores(d), number(pairs), "B h T^2 scores."),
        Claim("stored_scores_p_heads", scores(few), number(B * p * T**2), "A width of p q e in p heads: B p T^2."),
        Claim(
            "stored_scores_pq_heads", scores(many), number(B * p * q * T**2),
            "The same width in p q heads: B p q T^2, q times as many.",
        ),
        Claim(
            "parameters", parameter_expr(layer(d)), number(2 * m * h * d_k + 2 * m * h * d_v),
            "2 d_model h d_k + 2 d_model h d_v parameters.",
        ),
        Claim(
            "multiply_adds", work(d), number(multiplied),
            "B T d_model h (2 d_k + d_v) for Q, K, V; B h T^2 (d_k + d_v) in the heads; B T h d_v d_model for W_O.",
        ),
        Claim(
            "bytes_moved", traffic(d), number(4 * moved),
            "Bytes: each product, the scale and the softmax read their operands and write their result, 4 bytes each.",
        ),
        Claim("same_parameters", parameter_expr(layer(few)), parameter_expr(layer(many)), "p or p q heads: as many."),
        Claim("same_multiply_adds", work(few), work(many), "p or p q heads of one width: as many multiply-adds."),
    ),
    controls=(
        Control("one_score_for_all_heads", scores(d), number(B * T**2), "The heads are said to share their scores."),
        Control(
            "same_stored_scores", scores(few), scores(many),
            "Cutting a fixed width into q times as many heads is said to leave the stored scores as they were.",
        ),
        Control(
            "same_bytes_moved", traffic(few), traffic(many),
            "Cutting a fixed width into q times as many heads is said to leave the bytes moved as they were.",
        ),
        Control("scores_are_parameters", scores(d), parameter_expr(layer(d)), "Stored scores for parameters."),
        Control("scores_are_multiply_adds", scores(d), work(d), "Stored scores for multiply-adds."),
        Control("parameters_are_multiply_adds", parameter_expr(layer(d)), work(d), "Parameters for multiply-adds."),
        Control("multiply_adds_are_bytes", work(d), traffic(d), "Multiply-adds for bytes moved."),
        Control(
            "scores_for_every_feature", scores(d), number(pairs * d_k),
            "A score is said to be stored for each feature of the key.",
        ),
        Control(
            "work_without_projections", work(d), number(pairs * (d_k + d_v)),
            "Only the products with T^2 are counted, not the projections.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
