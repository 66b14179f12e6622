"""Rows of NaN: which fault of a mask leaves queries without a key, read off the rows that are numbers.

Defines `explained`.  Output with NaN is refused before anything is compared; this only says why it may be so.
"""

from __future__ import annotations

import numpy as np

from mha_sym.audit.call import NotFinite, run_once
from mha_sym.audit.cases import Case
from mha_sym.audit.compare import evidence_of
from mha_sym.audit.evidence import Evidence, predicted
from mha_sym.audit.faults import find_fault
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.precision import Array
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem

#: the families whose faults may leave a query without a key
_FAMILIES = ("mask", "causal")
#: how much more than the bound of the correct form rows may be off
_SLACK = 8.0


def explained(problem: NotFinite, impl: Implementation, case: Case, setting: Setting) -> NotFinite:
    """The problem of an output that holds NaN, which names the fault that gives the rows that do not."""
    spec = specification(impl, case)
    try:
        shown = run_once(impl, setting.arguments, setting.sizes, finite=False)["y"]
        found = spec.values(setting.arrays, setting.sizes)
    except Problem:
        return problem
    rows = np.asarray(np.isfinite(shown).all(axis=-1))
    if 0 < rows.sum() < rows.size:
        numbers = np.where(rows[..., None], shown, found["y"])
        name = _fault(evidence_of(impl, spec, setting, found, {"y": numbers}, case.name), rows)
        if name:
            fault = find_fault(name)
            problem.hint = f"the other rows are as {fault.name} makes them: {fault.words} Mend: {fault.mend}"
    return problem


def _fault(on: Evidence, rows: Array) -> str:
    """The first fault of a mask that gives these rows, which the correct form does not; empty if none does."""
    bound = _SLACK * on.bounds["y"].value
    if np.abs(on.shown["y"] - on.found["y"]).max() <= bound:
        return ""
    forms = {name: form.y for name, form in on.forms.singles.items() if find_fault(name).family in _FAMILIES}
    values = predicted(on, forms)
    return next((name for name, y in values.items() if np.abs(y - on.shown["y"])[rows].max() <= bound), "")
