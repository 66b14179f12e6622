"""Where the causal mask of an implementation starts if there are more keys than queries, found out by running it.

Defines `found_alignment`.  An implementation that says it (``aligned``) is checked there, like anywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mha_sym.audit.compare import witness
from mha_sym.audit.implementation import ALIGNED, Implementation
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.settle import Planned
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem

#: fewer queries than keys, so that no row is empty however the mask lies
_SIZES = {"T": 4, "S": 7}


def found_alignment(impl: Implementation, plan: Sequence[Planned]) -> str:
    """A sentence on the causal mask at T = 4, S = 7; nothing where that is said, or cannot be seen.

    Where the code makes the mask itself from a flag, or unasked, and takes queries and keys apart, the usual draws have
    as many keys as queries, since "later" means nothing else.
    """
    made = [one for one in plan if one.case.causal in ("itself", "causal") and not one.case.padding]
    if impl.aligned or not impl.is_cross or not made or {"T", "S"} & set(made[0].wishes.sizes or {}):
        return ""
    fitting = [aligned for aligned in ALIGNED if _fits(impl, made[0], aligned)]
    if len(fitting) != 1:
        return "" if fitting else (
            f"with {_SIZES['T']} queries and {_SIZES['S']} keys its causal mask is neither s <= t nor s <= t + S - T,"
            " or it does not run there"
        )
    formula = "s <= t" if fitting[0] == "top-left" else "s <= t + S - T"
    return f"where T and S differ its causal mask is {formula}; say aligned={fitting[0]!r} to have it checked there"


def _fits(impl: Implementation, planned: Planned, aligned: str) -> bool:
    case, wishes = replace(planned.case, aligned=aligned), planned.wishes
    try:
        setting = draw_setting(impl, case, wishes.seed, 0, {**(wishes.sizes or {}), **_SIZES}, wishes.lengths)
        return not witness(impl, specification(impl, case), setting, case.name).wrong
    except Problem:
        return False
