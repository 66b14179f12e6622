"""The report of a check as plain data: dicts, lists, strings and numbers.

Defines `json_of`.
"""

from __future__ import annotations

from typing import Any

from mha_sym.audit.compared import Compared
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.diagnosis.findings import Findings
from mha_sym.audit.formulas import departures
from mha_sym.audit.precision import arithmetic, roundoff
from mha_sym.audit.reports.reported import Reported
from mha_sym.audit.reports.text import RULE


def json_of(report: Reported) -> dict[str, Any]:
    """The report for programs; the keys are there even if nothing was found."""
    return {
        "target": report.target,
        "verdict": report.verdict,
        "theorem": {
            "name": report.backing.theorem, "verdict": report.backing.verdict, "steps": report.backing.steps,
        },
        "dtype": report.dtype,
        "seed": report.seed,
        "seconds": round(report.seconds, 3),
        "sizes": [dict(sizes) for sizes in report.draws],
        "coincide": list(report.coincide),
        "conventions": {c.name: {"value": c.value, "said_by": c.said_by} for c in report.conventions},
        **_findings(report.findings),
        "stages": [_stage(one) for one in report.stages],
        "bounds": {
            "unit_roundoff": roundoff(report.dtype), "rule": RULE, "arithmetic": arithmetic(report.dtype).words,
        },
        "notes": list(report.notes),
        "problem": None if report.problem is None else report.problem.one_line(),
    }  # fmt: skip


def _stage(one: Compared) -> dict[str, Any]:
    return {
        "case": one.case,
        "stage": one.stage,
        "ok": one.ok,
        "difference": one.difference,
        "bound": one.bound.value,
        "terms": one.bound.terms,
        "magnitude": one.bound.magnitude,
        "where": one.place,
        "expected": one.expected,
        "got": one.got,
        "sizes": dict(one.sizes),
        "weights": one.weights,
    }


def _findings(found: Findings | None) -> dict[str, Any]:
    """The findings as plain data; the keys are there even if nothing was found."""
    if found is None:
        return {"steps": [], "faults": [], "symmetries": [], "layouts": [], "probes": []}
    told = {
        "steps": [
            {"step": one.step, "name": one.name, "status": one.status, "detail": one.detail} for one in found.steps
        ],
        "faults": [_fault(one) for one in found.diagnosis.found],
        "symmetries": [
            {"name": one.name, "theorem": one.faults[0].theorem, "words": one.words}
            for one in found.diagnosis.symmetries
        ],
        "layouts": [{"name": one.name, "words": one.words, "how": one.how} for one in found.diagnosis.layouts],
        "probes": [
            {"name": one.name, "ok": one.ok, "cause": one.cause, "key": one.key, "figure": list(one.figure)}
            for one in found.probes
        ],
        "tried": {
            "faults": found.diagnosis.singles, "pairs": found.diagnosis.pairs, "triples": found.diagnosis.triples,
        },
        "invisible": list(found.diagnosis.invisible),
    }  # fmt: skip
    if found.head_mask is None:
        return told
    return {**told, "head_mask": list(found.head_mask), "head_mask_wrong": found.gates_badly}


def _fault(one: Explanation) -> dict[str, Any]:
    shown = departures(*one.forms)
    both = [(departure.formulas(), departure.formulas("latex"), departure.traces()) for departure in shown]
    return {
        "name": one.name,
        "words": one.words,
        "formula": "; ".join(plain[1] for plain, _, _ in both),
        "formula_right": "; ".join(plain[0] for plain, _, _ in both),
        "latex": [latex[1] for _, latex, _ in both],
        "latex_right": [latex[0] for _, latex, _ in both],
        "traces": [{"right": right, "faulty": faulty} for _, _, (right, faulty) in both],
        "mend": one.mend,
        "where": one.where,
        "symptom": one.symptom,
        "probes": one.probes,
        "telling": one.telling,
        "difference": one.difference,
        "bound": one.bound,
        "cases": list(one.cases),
        "order_of_heads": list(one.order),
        "hidden_at": list(one.hidden_at),
        "same_as": [{"names": list(twin.names), "proved": twin.proved, "words": twin.words} for twin in one.twins],
        "fits_less_well": [{"names": list(twin.names), "words": twin.words} for twin in one.farther],
    }
