"""Checking an implementation against the form that is proved, stage by stage, on drawn input.

Defines `check` (an object) and `check_target` (a TARGET, for the command).  Sizes are drawn so that no two axes can be
confused, several times over; the specification is evaluated in float64 from the same expression that the theorem is
about; differences are judged by a bound that follows from the format and the sizes.  What is compared is numbers on
these draws: a check never proves anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mha_sym.attention.layouts import Layout, find_layout
from mha_sym.audit.backing import prove_specification
from mha_sym.audit.call import NotFinite, Unsteady
from mha_sym.audit.cases import Case, cases_of
from mha_sym.audit.compared import Compared, Convention
from mha_sym.audit.diagnosis.inquiry import inquire
from mha_sym.audit.draw import classes, coincidences
from mha_sym.audit.dropout import explained, training_note
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.frameworks.joined import with_output
from mha_sym.audit.frameworks.own_tables import with_own_tables
from mha_sym.audit.frameworks.position_tables import WithoutTables
from mha_sym.audit.functions import handing
from mha_sym.audit.implementation import MASKS, Implementation
from mha_sym.audit.masks.alignment import found_alignment
from mha_sym.audit.masks.mask_word import mask_as_meant, with_gates
from mha_sym.audit.masks.own_mask import as_causal
from mha_sym.audit.reports.report import CheckReport
from mha_sym.audit.rounding import likely_format
from mha_sym.audit.runs import Seen, agrees_tied, further, seen_of, with_any_keys_seen
from mha_sym.audit.setting import ties_of
from mha_sym.audit.settle import TIED, Wishes, refuse_unreached
from mha_sym.audit.target import as_implementation, load
from mha_sym.errors import Problem, TargetProblem


def check(
    target: Any,
    *,
    seed: int = 0,
    draws: int = 3,
    heads: int | None = None,
    kv_heads: int | None = None,
    causal: bool | None = None,
    aligned: str | None = None,
    batch_first: bool | None = None,
    layout: Layout | str | None = None,
    sizes: Mapping[str, int] | None = None,
    lengths: Sequence[int] | None = None,
    name: str = "",
) -> CheckReport:
    """Run an implementation beside the combined form and compare every stage that it shows.

    Args:
        target: an `Implementation`, a torch ``nn.MultiheadAttention``, a function whose parameters have the names
            that `Implementation` understands, or a factory of one of these.
        seed: determines all draws.
        draws: how many draws for every way of calling, each at sizes of its own.
        heads: the number of heads of a plain function.
        kv_heads: the number of its key and value heads, if fewer.
        causal: True for causal calls only (a plain function without a mask is then causal by itself), False for
            none, None for all ways of calling that the implementation has.
        aligned: how its causal mask lies where there are more or fewer keys than queries, ``top-left`` or
            ``bottom-right``.
        batch_first: False for a plain function whose inputs are ``(t, b, m)``.
        layout: how the weights of a plain function are stored, `combined` if omitted.
        sizes: sizes to use instead of drawn ones, by name (``B``, ``T``, ``S``, ``h``, ``d_k``, ...).
        lengths: how many keys count in each sample, where padding is used, instead of drawn ones.
        name: what the report calls it.

    Raises:
        Problem: if it cannot be run, or what it returns cannot be compared.

    Example:
        >>> import numpy as np
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
        ...     a = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
        ...     z = a / a.sum(-1, keepdims=True) @ v
        ...     return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o
        >>> check(attention).verdict
        'agree'
    """
    started, wishes = time.perf_counter(), Wishes(seed, draws, causal, sizes, lengths)
    said = {
        "heads": heads, "kv_heads": kv_heads, "batch_first": batch_first, "layout": layout, "aligned": aligned,
    }  # fmt: skip
    impl = _described(target, said, causal, name)
    cases = cases_of(impl, causal)
    if not cases or draws < 1:
        raise TargetProblem(
            "nothing is left to check", where=impl.title, got=f"causal={causal}, draws={draws}",
            hint="it takes no causal mask; say causal=True in its Implementation if it hides later keys by itself",
        )  # fmt: skip
    impl, meant = mask_as_meant(impl, wishes)
    cases = cases_of(impl, causal) if meant else cases
    try:
        seen = _seen(impl, cases, wishes)
    except Unsteady as unsteady:
        raise explained(unsteady, impl, cases[0], wishes) from None
    impl, evidence = seen.impl, seen.evidence
    compared = tuple(one for run_ in evidence for one in run_.compared)
    conventions = _conventions(impl)
    findings = inquire(evidence, conventions, impl, further(seen), gated=with_gates(impl))
    impl = impl if findings.head_mask is None else handing(impl, "head_mask")
    notes = (*impl.notes, *seen.notes, *meant, *training_note(impl, seen.plan[0].case, seen.plan[0].wishes))
    report = CheckReport(
        target=_title(impl), compared=compared, conventions=conventions, notes=notes, coincide=_coincide(compared),
        dtype=impl.dtype, seed=seed, problem=seen.problem, backing=prove_specification(impl),
        findings=findings,
    )  # fmt: skip
    where = found_alignment(impl, seen.plan) if report.ok else _where_it_agrees(seen, report)
    notes = (*report.notes, *(one for one in (where, _if_it_rounds(report, evidence)) if one))
    return replace(report, notes=notes, seconds=time.perf_counter() - started)


def _seen(impl: Implementation, cases: Sequence[Case], wishes: Wishes) -> Seen:
    """All runs; of code that applies a wrong causal mask unasked, those in which it is judged as causal."""
    try:
        seen = seen_of(impl, cases, wishes)
    except NotFinite as problem:
        own = as_causal(impl, wishes, ())
        if own is None:
            raise problem from None
        return own
    if seen.right:
        return with_any_keys_seen(seen, wishes.causal)
    return as_causal(impl, wishes, seen.evidence) or seen


def _title(impl: Implementation) -> str:
    """What was compared, with what was left out of it."""
    if not isinstance(impl.call, WithoutTables):
        return impl.headline
    return f"{impl.headline} with zeros in {', '.join(impl.call.tables)}"


def check_target(target: str, **options: Any) -> CheckReport:
    """Check what a TARGET of the command line names; a problem becomes part of the report.

    Args:
        target: ``file.py:object`` or ``module:object``.  It is imported and run: it is the user's code.
        options: those of `check`; None counts as not given, and so does ``causal=False``: a flag left out.
    """
    unsaid = {"causal": False}
    given = {name: value for name, value in options.items() if value is not None and value is not unsaid.get(name)}
    try:
        return check(load(target), **{"name": target, **given})
    except Problem as problem:
        return CheckReport(target=target, problem=problem, seed=given.get("seed", 0))


# ---------------------------------------------------------------- what is to be checked


def _described(target: Any, said: Mapping[str, Any], causal: bool | None, name: str) -> Implementation:
    """The target as an implementation, with what the user says about a plain function."""
    given = {field: value for field, value in said.items() if value is not None}
    impl = as_implementation(target, name, **given)
    impl = replace(impl, name=name or impl.name)
    for field, value in given.items():
        own = getattr(impl, field)
        if field == "layout":
            own, value = impl.how_stored, find_layout(value)
        if own == value:
            continue
        if field not in ("heads", "kv_heads", "aligned") or own:
            who = impl.said.get(field, "its description")
            raise TargetProblem(f"{field} is {own}, says {who}, not {value}", where=impl.title)
        impl = replace(impl, **{field: value})
    impl = with_output(with_own_tables(impl))
    impl = replace(impl, said={**impl.said, **{field: "the user" for field in given if field not in impl.said}})
    takes_mask = set(impl.arguments) & {"mask", "keep", "drop", "causal"}
    if causal and not takes_mask and not impl.causal:
        impl = replace(impl, causal=True, said={**impl.said, "mask": "the user"})
    refuse_unreached(impl)
    return impl


def _where_it_agrees(seen: Seen, report: CheckReport) -> str:
    """For code that is wrong at free sizes: whether it is right where widths are tied, as its author may assume."""
    for tied in ties_of(replace(seen.impl, tied=None)):
        free = report.first_wrong is not None and len(tied) > len(seen.impl.tied or ())
        if free and agrees_tied(seen, tied):
            return f"it agrees where {TIED[tied]}; if that is all it is for, say Implementation(tied={tied!r})"
    return ""


def _if_it_rounds(report: CheckReport, evidence: Sequence[Evidence]) -> str:
    """For code that no fault explains: in which format it may compute on the way, if that would explain it."""
    if report.verdict != "disagree" or report.faults:
        return ""
    kind = likely_format(evidence)
    if kind is None:
        return ""
    return (
        f"it is off by no more than {kind} rounds: if it computes in that on the way, say Implementation(dtype="
        f"{kind!r}), and it is judged in that"
    )


# ---------------------------------------------------------------- what was found


def _conventions(impl: Implementation) -> tuple[Convention, ...]:
    by = "its description" if impl.takes is not None else "the names of its parameters"
    weights = "its weights" if impl.weights is not None else by
    masks = [word for word in MASKS if word in impl.arguments]
    scale = "1/sqrt(d_k)" if impl.scale is None else str(impl.scale)
    combined = impl.layout == find_layout("combined")
    heads = "drawn" if impl.heads is None else str(impl.heads)
    if impl.how_stored.grouped:
        heads += f", key and value heads {impl.kv_heads or 'drawn'}"
    found = [
        ("layout", f"{impl.how_stored.name}: {impl.how_stored.words}", "by default" if combined else by),
        ("heads", heads, by),
        ("bias", ", ".join(f"b_{letter.upper()}" for letter in impl.biases) or "none", weights),
        ("batch_first", "yes, (b, t, m)" if impl.batch_first else "no, (t, b, m)", "by default"),
        ("scale", scale, "by default" if impl.scale is None else by),
        ("mask", "causal by itself" if impl.causal else ", ".join(masks) or "none", by),
        ("computed in", f"{impl.dtype}, {impl.framework}", ""),
    ]
    return tuple(Convention(name, value, impl.said.get(name, who)) for name, value, who in found)


def _coincide(compared: Sequence[Compared]) -> tuple[str, ...]:
    """Coincidences that all draws have in common; what one hides another may show."""
    each = [coincidences(one.sizes) for one in compared]
    return classes(text for text in each[0] if all(text in other for other in each)) if each else ()

