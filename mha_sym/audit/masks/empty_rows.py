"""Rows of NaN: which fault of a mask leaves just these queries without a key, and gives all other rows.

Defines `diagnosed` and `by_minus_infinity`.  Whether rows are empty under a fault is read off its expression, not off
the numbers; what no fault explains is refused as any other NaN is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mha_sym.audit.catalogue.mask import HIDDEN
from mha_sym.audit.diagnosis.diagnose import told
from mha_sym.audit.diagnosis.explanation import Diagnosis, Explanation
from mha_sym.audit.diagnosis.fit import fit
from mha_sym.audit.diagnosis.search import Search, Which
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.faults import Fault, faults

#: the families whose faults may leave a query without a key
_FAMILIES = ("mask", "causal")
#: how faults are called that say that empty rows are zero
_ZEROS = "_rows_zero"


def diagnosed(runs: Sequence[Evidence]) -> Diagnosis:
    """The faults of masks that explain runs of which some have rows of NaN; of all ways of calling, or of some."""
    tried = [by_minus_infinity(one) for one in faults() if one.family in _FAMILIES and not one.name.endswith(_ZEROS)]
    tried = [one for one in tried if set(one.edits) == {"before"}]  # others put numbers there
    empty = [one for one in runs if one.nan is not None]
    fitting: list[Which] = [(one,) for one in tried if all(fit(run, (one,)) for run in empty)]
    search = Search(tuple(runs))
    whole = [which for which in fitting if search.explains(which)]
    found = (told(whole, runs, {}),) if whole else _of_cases(runs, tried)
    return Diagnosis(found, singles=len(tried))


def _of_cases(runs: Sequence[Evidence], tried: Sequence[Fault]) -> tuple[Explanation, ...]:
    """What explains the ways of calling that have rows of NaN, each by itself; none if one is left over."""
    found = []
    for case in dict.fromkeys(one.case for one in runs if one.nan is not None):
        mine = [one for one in runs if one.case == case]
        search = Search(tuple(mine))
        kept: list[Which] = [(one,) for one in tried if search.explains((one,))]
        if not kept:
            return ()
        found.append(replace(told(kept, mine, {}), cases=(case,)))
    return tuple(found)


def by_minus_infinity(fault: Fault) -> Fault:
    """The same fault in code that hides scores with minus infinity: rows that keep no key are NaN there.

    Example:
        >>> from mha_sym.audit.faults import find_fault
        >>> by_minus_infinity(find_fault("causal_mask_inverted")).symptom
        'NaN in every row that keeps no key, since its softmax is 0/0.'
    """
    edits = {slot: edit for slot, edit in fault.edits.items() if HIDDEN.get(slot) is not edit}
    return replace(fault, edits=edits, symptom="NaN in every row that keeps no key, since its softmax is 0/0.")
