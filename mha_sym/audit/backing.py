"""The proof behind a comparison: that the very expression compared with is separate-heads attention, for all sizes.

Defines `Backing` and `prove_specification`.  The theorem `BACKED_BY` states it for the canonical weights and inputs of
one width; here it is proved again for the layout, the biases, the scale and the input widths of one implementation,
under arbitrary masks.  What the implementation itself computes is not proved by this; it is compared with numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy

from mha_sym.attention.forms import Options, combined, separate
from mha_sym.attention.layouts import Layout
from mha_sym.attention.variants import head_blocks, keep_mask, some_key_kept, stage_claims
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.specification import BACKED_BY, exact_scale, inputs_of
from mha_sym.expr import Input
from mha_sym.proof.theorem import Theorem


@dataclass(frozen=True)
class Backing:
    """What is known of the specification itself.

    Attributes:
        theorem: the theorem that states it in general.
        verdict: the verdict on this very specification, ``proved`` unless something is wrong with the prover.
        steps: how many steps the proof has; all of them were replayed.
    """

    theorem: str = BACKED_BY
    verdict: str = ""
    steps: int = 0


def prove_specification(impl: Implementation) -> Backing:
    """Prove, for all sizes, that the specification of an implementation is the layer of separate heads.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     return x
        >>> prove_specification(Implementation(call=attention, layout="linear")).verdict
        'proved'
    """
    layout = impl.how_stored
    rows, same = (tuple(sorted(table.items())) for table in (layout.rows, layout.same))
    return _proved(rows, same, impl.biases, exact_scale(impl))


@lru_cache(maxsize=256)
def _proved(
    rows: tuple[tuple[str, str], ...], same: tuple[tuple[str, str], ...], biases: str, scale: sympy.Expr | None
) -> Backing:
    from mha_sym.proof.prover import prove  # only when something is proved

    report = prove(_statement(dict(rows), dict(same), biases, scale), recheck=False)
    return Backing(BACKED_BY, report.verdict.value, report.steps)


def _statement(
    rows: Mapping[str, str], same: Mapping[str, str], biases: str, scale: sympy.Expr | None
) -> Theorem:
    """Every stage of the combined form equals that of the separate heads whose weights are the blocks."""
    layout = Layout("stated", "", rows, same)
    d = layout.dims()
    w = layout.weights(d, biases)
    keep = keep_mask(d.b, d.h, d.t, d.s)
    options = Options(Input("mask", (d.b, d.h, d.t, d.s), "mask"), keep, scale)
    x = inputs_of(w, d)
    together, apart = combined(d, x, w, options), separate(d, x, head_blocks(w, d), options)
    claims = stage_claims(together, apart, dict.fromkeys(STAGES, ""))
    words = "The specification of this implementation is the layer of separate heads."
    return Theorem(f"{BACKED_BY}_here", words, words, claims, assumptions=(some_key_kept(keep, d),))
