"""From runs of an implementation to what is told of it: diagnosis, nine steps, probes.

Defines `inquire`, the one place that decides what is looked into.  Whether an implementation agrees is
decided before, by the comparison of stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mha_sym.audit.compared import Convention
from mha_sym.audit.diagnosis.course import course_of
from mha_sym.audit.diagnosis.diagnose import More, diagnose, effects
from mha_sym.audit.diagnosis.explanation import Diagnosis
from mha_sym.audit.diagnosis.findings import Findings
from mha_sym.audit.diagnosis.gates import Gates, gates_of
from mha_sym.audit.diagnosis.heads import HeadCheck, check_heads
from mha_sym.audit.diagnosis.own_bias import own_bias
from mha_sym.audit.diagnosis.probes import Probe, run_probes
from mha_sym.audit.diagnosis.steps import nine_steps
from mha_sym.audit.diagnosis.symmetry import shown_symmetries
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.layouts.others import other_layouts
from mha_sym.audit.masks.empty_rows import diagnosed
from mha_sym.errors import Problem
from mha_sym.proof.collector import collector_off


def inquire(
    evidence: Sequence[Evidence], conventions: Sequence[Convention] = (), impl: Implementation | None = None,
    more: More | None = None, pairs: bool = True, gated: Sequence[Implementation] = (),
) -> Findings:  # fmt: skip
    """Look into what runs of an implementation gave.

    Args:
        evidence: the runs.
        conventions: what is known of the implementation.
        impl: the implementation, if it can be run again, which a dump cannot.
        more: gives further runs.
        pairs: whether pairs of faults are tried.
        gated: the implementation with a head mask among its arguments, in every way in which it may take one.
    """
    said = {one.name: one.value + (f" ({one.said_by})" if one.said_by else "") for one in conventions}
    if not evidence:
        return Findings(steps=nine_steps(evidence, Diagnosis(), (), said))
    wrong = [one for one in evidence if one.wrong]
    diagnosis = _diagnosis(evidence, impl, more, pairs)
    clean = next((one for one in evidence if not one.wrong), None)  # where a head mask acts is seen in right code
    if any(one.nan is not None for one in evidence):
        return Findings(diagnosis, nine_steps(evidence, diagnosis, (), said, unseen="not tried where rows are NaN"))
    heads, trouble, gates = _heads(impl, gated, wrong[0] if wrong else evidence[0], clean or evidence[0])
    if any(fault.meant for one in diagnosis.found for fault in one.faults):  # a bias is that of a head
        heads = tuple(one for one in heads if one.theorem != "head_permutation_leaves_layer_unchanged")
    probes: tuple[Probe, ...] = ()
    if any("y" in one.wrong for one in evidence) or (wrong and not diagnosis.symmetries):
        probes = run_probes(impl, wrong[0], heads)
    steps = nine_steps(evidence, diagnosis, heads, said, trouble)
    found = Findings(diagnosis, steps, probes)
    return found if gates is None else replace(found, head_mask=gates.located, gates_badly=gates.badly if clean else "")


def _diagnosis(
    evidence: Sequence[Evidence], impl: Implementation | None, more: More | None, pairs: bool
) -> Diagnosis:  # fmt: skip
    if any(one.nan is not None for one in evidence):
        return diagnosed(evidence)
    if any("y" in one.wrong for one in evidence):
        with collector_off():  # thousands of forms are made and all are kept until the last is compared
            return _explained(evidence, impl, more, pairs)
    telling = _telling(evidence)
    return replace(Diagnosis(effects=effects(telling)), symmetries=shown_symmetries(evidence))


def _explained(
    evidence: Sequence[Evidence], impl: Implementation | None, more: More | None, pairs: bool
) -> Diagnosis:  # fmt: skip
    """One fault, else a bias, else another layout, else several faults, else a layout that has no name."""
    found = diagnose(evidence, more, pairs=False)
    if any(not one.cases for one in found.found):
        return found
    bias = None if impl is None else own_bias(impl, evidence)
    if bias is not None:
        return replace(found, found=(bias,))
    layouts = other_layouts(evidence)
    if layouts or not pairs:
        return replace(found, found=() if layouts else found.found, layouts=layouts)
    found = diagnose(evidence, more)
    return found if found.found else replace(found, layouts=other_layouts(evidence, more=True))


def _telling(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Few runs that show most faults: the first, and the one in which most are possible."""
    firsts = {one.case: one for one in reversed(evidence)}
    most = max(firsts.values(), key=lambda one: len(course_of(one.forms).singles))
    return [evidence[0]] if most is evidence[0] else [evidence[0], most]


def _heads(
    impl: Implementation | None, gated: Sequence[Implementation], on: Evidence, gating: Evidence
) -> tuple[tuple[HeadCheck, ...], str, Gates | None]:
    """What was found of single heads, what went wrong, and where a head mask acts."""
    if impl is None:
        return (), "", None
    try:
        gates = gates_of(gated, gating)
        return check_heads(impl, on), "", gates
    except Problem as problem:
        return (), f"with other weights: {problem.one_line()}", None

