"""How many parameters a layer has, counted from the weights that occur in it.

W_Q and W_K have d_model x h d_k entries, W_V has d_model x h d_v, W_O has h d_v x d_model.  That is
2 d_model h d_k + 2 d_model h d_v without biases, and 2 h d_k + h d_v + d_model more with all four.  Only when
h d_k = h d_v = d_model = d is it 4 d^2, and then it does not depend on how many heads the width d is cut into.
The left sides below are the entries of the inputs of the form, added up one by one; no formula is typed in.
"""

from sympy import Expr as Size

from mha_sym.attention.dims import Dims, combined_weights, dims, head_weights, self_inputs
from mha_sym.attention.forms import combined, separate
from mha_sym.axes import size_symbol
from mha_sym.count import number, parameter_expr
from mha_sym.expr import Expr
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem


def counted(d: Dims, bias: bool = False) -> Expr:
    """The number of parameters of self-attention with these sizes."""
    return parameter_expr(combined(d, self_inputs(d), combined_weights(d, bias)).y)


def widths(d: Dims) -> tuple[Size, Size, Size, Size]:
    """``d_model, h, d_k, d_v``."""
    return d.m.size, d.h.size, d.k.size, d.v.size


d = dims()
d_model, h, d_k, d_v = widths(d)
without_bias = 2 * d_model * h * d_k + 2 * d_model * h * d_v
biases = 2 * h * d_k + h * d_v + d_model

# the usual layer: the width d_model is cut into h heads of d_k = d_v = d_model / h features
usual = dims(d_model=h * d_k, d_v=d_k)
width = usual.m.size

# one width p*q*e, cut into p heads and into p*q heads
p, q, e = map(size_symbol, ("p", "q", "e"))
few = dims(d_model=p * q * e, h=p, d_k=q * e, d_v=q * e)
many = dims(d_model=p * q * e, h=p * q, d_k=e, d_v=e)

# heads as wide as the model
full = dims(d_model="d", d_k="d", d_v="d")

THEOREM = Theorem(
    name="parameter_count",
    title="The number of parameters of a layer",
    words=(
        "A layer has 2 d_model h d_k + 2 d_model h d_v parameters without biases and 2 h d_k + h d_v + d_model more "
        "with them. When h d_k = h d_v = d_model = d it has 4 d^2 without biases, whatever h is."
    ),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2, for the shapes of the matrices",
    claims=(
        Claim("without_biases", counted(d), number(without_bias), "2 d_model h d_k + 2 d_model h d_v weights."),
        Claim(
            "separate_heads", parameter_expr(separate(d, self_inputs(d), head_weights(d)).y), number(without_bias),
            "Separate matrices for each head are as many numbers.",
        ),
        Claim(
            "with_biases", counted(d, bias=True), counted(d) + number(biases),
            "The biases are 2 h d_k + h d_v + d_model more.",
        ),
        Claim("usual_width", counted(usual), number(4 * width**2), "4 d^2 when h d_k = h d_v = d_model = d."),
        Claim(
            "usual_width_with_biases", counted(usual, bias=True), number(4 * width**2 + 4 * width),
            "4 d^2 + 4 d with the biases.",
        ),
        Claim(
            "independent_of_heads", counted(few), counted(many),
            "A width of p q e has as many parameters cut into p heads as cut into p q heads.",
        ),
    ),
    controls=(
        Control(
            "biases_forgotten", counted(usual, bias=True), number(4 * width**2),
            "4 d^2 is said to count the biases too.",
        ),
        Control(
            "heads_as_wide_as_the_model", counted(full), number(4 * full.m.size**2),
            "4 d^2 is said to hold when d_k = d_v = d: there are h times as many.",
        ),
        Control("output_projection_forgotten", counted(usual), number(3 * width**2), "3 d^2: W_O is not counted."),
        Control(
            "grows_with_heads", counted(many), counted(few) * number(q),
            "With the width fixed, q times as many heads are said to have q times as many parameters.",
        ),
        Control(
            "keys_as_wide_as_values", counted(d), number(4 * d_model * h * d_k),
            "d_v is taken for d_k.",
        ),
        Control(
            "bias_of_every_head", counted(d, bias=True), number(without_bias + h * (2 * d_k + d_v + d_model)),
            "The output bias is counted once for each head.",
        ),
        Control(
            "square_matrices", counted(d), number(4 * d_model**2),
            "4 d_model^2 although h d_k and h d_v may differ from d_model.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
