"""Masks that code applies unasked, and that nobody declared: judged as causal ones where that explains what it does.

Defines `as_causal`.  Code that is right but for a causal mask is named by the catalogue, since nothing was said of the
mask; this is for code of which something else is wrong, be it the mask, of which a reader wants to know what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mha_sym.audit.cases import cases_of
from mha_sym.audit.diagnosis.diagnose import diagnose
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.masks.alignment import found_alignment
from mha_sym.audit.masks.empty_rows import diagnosed
from mha_sym.audit.runs import Seen, seen_of
from mha_sym.audit.settle import Wishes
from mha_sym.errors import Problem

#: what is said of a transposed mask where nothing was said of one
_TRANSPOSED = "earlier_keys_hidden"
#: as many keys as queries
_AS_MANY = {"T": 7, "S": 7}
#: said where code is judged as causal
NOTE = (
    "nothing was said of a causal mask, and it hides keys by their positions: it was judged as causal (--causal, or"
    " causal=True); if it should hide nothing, take its mask out"
)


def as_causal(impl: Implementation, wishes: Wishes, evidence: Sequence[Evidence]) -> Seen | None:
    """What is seen of code as one that is causal by itself, where one fault explains the rest; else None.

    Args:
        impl: the implementation, of which nothing was said of a causal mask.
        wishes: what was asked for.
        evidence: runs of it without a mask, those that are wrong among them; none if they could not be compared.
    """
    takes_one = {"causal", "mask", "keep", "drop"} & set(impl.arguments)
    if wishes.causal is not None or impl.causal or takes_one:
        return None
    if evidence and (all("y" not in one.wrong for one in evidence) or _explained(evidence)):
        return None
    causal = replace(impl, causal=True, said={**impl.said, "mask": "what it does"})
    try:
        seen = seen_of(causal, cases_of(causal), wishes)
    except Problem:
        return None
    if seen.right:
        return _not_declared(impl, seen, wishes)
    found = _found(seen.evidence)
    if not found or any(one.cases for one in found):
        return None
    return replace(seen, notes=(*seen.notes, NOTE))


def _not_declared(impl: Implementation, causal: Seen, wishes: Wishes) -> Seen | None:
    """Of code that is causal and right, what is seen where there are as many keys as queries: that it was not said."""
    sizes = dict(wishes.sizes or {})
    if not impl.is_cross or {"T", "S"} & set(sizes):
        return None
    try:
        seen = seen_of(impl, cases_of(impl), replace(wishes, sizes={**sizes, **_AS_MANY}))
    except Problem:
        return None
    where = found_alignment(causal.impl, causal.plan)
    return replace(seen, notes=(*seen.notes, *([where] if where else []))) if _explained(seen.evidence) else None


def _explained(evidence: Sequence[Evidence]) -> bool:
    """Whether one fault explains all, and is not one of which nothing is known but that keys are hidden."""
    return any(not one.cases and one.name != _TRANSPOSED for one in _found(evidence))


def _found(evidence: Sequence[Evidence]) -> tuple[Explanation, ...]:
    if any(one.nan is not None for one in evidence):
        return diagnosed(evidence).found
    return diagnose(evidence, pairs=False).found if any("y" in one.wrong for one in evidence) else ()
