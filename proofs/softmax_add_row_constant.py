"""What is added to a whole row of scores cancels: softmax(S + c) = softmax(S).

exp(S + c) = exp(c) exp(S), and exp(c), which does not depend on the key, stands above and below.  So it is the
differences between the scores of a row that matter.  Code relies on it when it subtracts the largest score of the
row to keep the exponentials from overflowing.
"""

from mha_sym.attention.dims import dims
from mha_sym.attention.variants import keep_mask, some_key_kept
from mha_sym.expr import Expr, Input, Reduce, Softmax
from mha_sym.library import run
from mha_sym.proof.theorem import Claim, Control, Theorem

d = dims(S="S")
scores = Input("S", (d.b, d.h, d.t, d.s))
row, column = Input("c", (d.b, d.h, d.t)), Input("c", (d.b, d.h, d.s))
keep = keep_mask(d.b, d.h, d.t, d.s)


def softmax(of: Expr, kept: Expr | None = None) -> Softmax:
    """The softmax over the keys."""
    return Softmax(of, (d.s,), kept)


def less_maximum(of: Expr) -> Expr:
    """Scores minus the largest of their row."""
    return of - Reduce("max", of, (d.s,))


THEOREM = Theorem(
    name="softmax_add_row_constant",
    title="Adding a constant to a row of scores changes nothing",
    words=(
        "Adding to the scores anything that does not depend on the key leaves the softmax over the keys unchanged, "
        "with a mask and without; in particular the row maximum may be subtracted first."
    ),
    source="Milakov and Gimelshein 2018, Online normalizer calculation for softmax, section 2",
    assumptions=(some_key_kept(keep, d),),
    claims=(
        Claim("shift", softmax(scores + row), softmax(scores), "c[b,r,t] is added to every score of row (b, r, t)."),
        Claim("shift_masked", softmax(scores + row, keep), softmax(scores, keep), "The same under a mask."),
        Claim(
            "maximum_subtracted", softmax(less_maximum(scores)), softmax(scores),
            "The largest score of the row is subtracted first, as code does for the sake of range.",
        ),
        Claim(
            "maximum_subtracted_masked", softmax(less_maximum(scores), keep), softmax(scores, keep),
            "The same under a mask; the maximum may even belong to a key that is masked.",
        ),
    ),
    controls=(
        Control(
            "constant_along_the_queries", softmax(scores + column), softmax(scores),
            "c[b,r,s] is added, constant along the query axis instead of the key axis.",
        ),
        Control(
            "constant_along_the_queries_masked", softmax(scores + column, keep), softmax(scores, keep),
            "The same with a mask.",
        ),
        Control(
            "factor_instead_of_summand", softmax(scores * row), softmax(scores),
            "The scores of a row are multiplied by a constant instead.",
        ),
        Control(
            "column_maximum_subtracted", softmax(scores - Reduce("max", scores, (d.t,))), softmax(scores),
            "The maximum is taken over the queries.",
        ),
        Control(
            "joint_softmax", Softmax(scores + row, (d.h, d.s)), Softmax(scores, (d.h, d.s)),
            "The softmax runs over heads and keys jointly, and the constant differs from head to head.",
        ),
        Control(
            "added_after_softmax", softmax(scores) + row, softmax(scores),
            "The constant is added to the weights instead of the scores.",
        ),
    ),
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(run(THEOREM))
