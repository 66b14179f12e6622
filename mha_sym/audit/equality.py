"""Whether two edits of the correct form are provably one function.

Defines `same_function` and `proved_equal`.  The prover is imported when something is proved.
"""

from __future__ import annotations

from mha_sym.audit.evidence import Forms
from mha_sym.audit.faults import Fault
from mha_sym.expr import Expr
from mha_sym.proof.theorem import Assumption, Claim, Theorem, Verdict


def same_function(forms: Forms, one: tuple[Fault, ...], other: tuple[Fault, ...]) -> bool:
    """Whether two edits are provably the same function on the axes of these forms."""
    left, right = forms.form(*one), forms.form(*other)
    return left is not None and right is not None and proved_equal(forms, left.y, right.y)


def proved_equal(forms: Forms, left: Expr, right: Expr) -> bool:
    """Whether two outputs of the layer are proved to be equal, wherever every query keeps a key."""
    from mha_sym.attention.variants import some_key_kept
    from mha_sym.proof.prover import Prover  # only when something is proved

    keep = forms.at.keep
    assumed: tuple[Assumption, ...] = () if keep is None else (some_key_kept(keep, forms.at.d),)
    theorem = Theorem("same_output", "", "", (), assumptions=assumed)
    try:
        outcome = Prover(theorem, recheck=False).claim(Claim("y", left, right))
    except ValueError:  # a size that the proof language cannot say
        return False
    return outcome.verdict is Verdict.PROVED
