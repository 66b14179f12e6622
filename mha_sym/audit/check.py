"""Checking an implementation against the form that is proved, stage by stage, on drawn input.

Defines `check` (an object) and `check_target` (a TARGET, for the command).  Sizes are drawn so that no two axes can be
confused, several times over; the specification is evaluated in float64 from the same expression that the theorem is
about; differences are judged by a bound that follows from the format and the sizes.  What is compared is numbers on
these draws: a check never proves anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mha_sym.attention.layouts import Layout, find_layout
from mha_sym.audit.backing import prove_specification
from mha_sym.audit.bounds import stage_bounds
from mha_sym.audit.call import at, run
from mha_sym.audit.cases import Case, cases_of
from mha_sym.audit.diagnose import More
from mha_sym.audit.draw import classes, coincidences
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.inquiry import inquire
from mha_sym.audit.precision import Array
from mha_sym.audit.report import CheckReport, Compared, Convention
from mha_sym.audit.setting import Setting, draw_setting, ties_of
from mha_sym.audit.specification import Specification, specification
from mha_sym.audit.target import as_implementation, load
from mha_sym.errors import DataProblem, Problem, TargetProblem


@dataclass(frozen=True)
class Wishes:
    """What the user asks of a check besides the implementation itself."""

    seed: int = 0
    draws: int = 3
    causal: bool | None = None
    sizes: Mapping[str, int] | None = None
    lengths: Sequence[int] | None = None


def check(
    target: Any,
    *,
    seed: int = 0,
    draws: int = 3,
    heads: int | None = None,
    kv_heads: int | None = None,
    causal: bool | None = None,
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
    said = {"heads": heads, "kv_heads": kv_heads, "batch_first": batch_first, "layout": layout}
    impl = _described(target, said, causal, name)
    cases = cases_of(impl, causal)
    if not cases or draws < 1:
        raise TargetProblem(
            "nothing is left to check", where=impl.title, got=f"causal={causal}, draws={draws}",
            hint="it takes no causal mask; say causal=True in its Implementation if it hides later keys by itself",
        )  # fmt: skip
    impl, wishes, notes = _settled_somewhere(impl, cases[0], wishes)
    evidence, problem = _compare_all(impl, cases, wishes)
    compared = tuple(one for run_ in evidence for one in run_.compared)
    conventions = _conventions(impl, cases)
    report = CheckReport(
        target=impl.title, compared=compared, conventions=conventions, notes=(*impl.notes, *notes),
        coincide=_coincide(compared), dtype=impl.dtype, seed=seed, problem=problem, backing=prove_specification(impl),
        findings=inquire(evidence, conventions, impl, _further(impl, cases, wishes)),
    )  # fmt: skip
    notes = [*report.notes, *_where_it_agrees(impl, cases, wishes, report)]
    return replace(report, notes=tuple(notes), seconds=time.perf_counter() - started)


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
        if field not in ("heads", "kv_heads") or own is not None:
            who = impl.said.get(field, "its description")
            raise TargetProblem(f"{field} is {own}, says {who}, not {value}", where=impl.title)
        impl = replace(impl, **{field: value})
    impl = replace(impl, said={**impl.said, **{field: "the user" for field in given if field not in impl.said}})
    takes_mask = set(impl.arguments) & {"mask", "keep", "drop", "causal"}
    if causal and not takes_mask and not impl.causal:
        impl = replace(impl, causal=True, said={**impl.said, "mask": "the user"})
    return impl


def _settled_somewhere(
    impl: Implementation, case: Case, wishes: Wishes
) -> tuple[Implementation, Wishes, list[str]]:
    """The implementation at the freest sizes at which it runs; code that needs coinciding sizes gets them."""
    try:
        settled, notes = _settled(impl, case, wishes)
    except (TargetProblem, DataProblem) as problem:
        for words, sizes in _meeting(impl, wishes):
            tried = replace(wishes, sizes={**(wishes.sizes or {}), **sizes})
            try:
                settled, notes = _settled(impl, case, tried)
            except Problem:
                continue
            note = f"it runs only where {words}, and was checked there; at other sizes {problem.what}"
            return settled, tried, [note, *notes]
        raise
    return settled, wishes, notes


def _meeting(impl: Implementation, wishes: Wishes) -> list[tuple[str, dict[str, int]]]:
    """Sizes that coincide, as wrong code may need it, in words and in numbers."""
    heads = impl.heads or 4
    meetings = [
        ("S = T", {"T": 6, "S": 6}), ("T = h", {"T": heads, "S": heads, "h": heads}),
        ("B = h", {"B": heads, "h": heads}),
    ]  # fmt: skip
    said = set(wishes.sizes or {})
    return [(words, sizes) for words, sizes in meetings if not said & set(sizes)]


def _settled(impl: Implementation, case: Case, wishes: Wishes) -> tuple[Implementation, list[str]]:
    """The implementation with its ties known: the freest sizes at which it runs without raising."""
    ladder = ties_of(impl)
    refused: TargetProblem | None = None
    for tied in ladder:
        tried = replace(impl, tied=tied)
        try:
            setting = draw_setting(tried, case, wishes.seed, 0, wishes.sizes, wishes.lengths)
            run(tried, setting.arguments, setting.sizes)
        except TargetProblem as problem:
            refused = refused or problem
            if tied == ladder[-1] or problem.__cause__ is None:
                raise
        else:
            return tried, [] if refused is None else [_only_where(tied, refused)]
    raise AssertionError("the ladder of ties is never empty")


_TIES = {(): "free sizes", ("d_v",): "d_v = d_k", ("d_v", "d_model"): "d_v = d_k and d_model = h d_k"}


def _only_where(tied: tuple[str, ...], refused: Problem) -> str:
    return f"it runs only where {_TIES[tied]}, and was checked there; at other sizes {refused.what}"


# ---------------------------------------------------------------- comparing


def _compare_all(
    impl: Implementation, cases: Sequence[Case], wishes: Wishes
) -> tuple[tuple[Evidence, ...], Problem | None]:
    """Every case and draw; the first problem is reported beside what was found wrong, and otherwise raised."""
    found: list[Evidence] = []
    trouble: Problem | None = None
    for case in cases:
        spec = specification(impl, case)
        for draw in range(wishes.draws):
            try:
                setting = draw_setting(impl, case, wishes.seed, draw, wishes.sizes, wishes.lengths)
                found.append(witness(impl, spec, setting, case.name, draw))
            except Problem as problem:  # NaN under one mask says nothing of the other ways of calling
                if trouble is None:
                    problem.where = f"{problem.where}; {case.name}" if problem.where else case.name
                    trouble = problem
                break
    if trouble is not None and not any(one.wrong for one in found):
        raise trouble
    return tuple(found), trouble


def _further(impl: Implementation, cases: Sequence[Case], wishes: Wishes) -> More:
    """Further draws, for telling apart what the first ones do not."""

    def more(number: int) -> list[Evidence]:
        found = []
        for case in cases:
            setting = draw_setting(impl, case, wishes.seed, wishes.draws + number, wishes.sizes, wishes.lengths)
            found.append(witness(impl, specification(impl, case), setting, case.name, wishes.draws + number))
        return found

    return more


def compare(
    impl: Implementation, spec: Specification, setting: Setting, case: str = "", draw: int = 0
) -> list[Compared]:
    """The stages that an implementation shows beside those of the specification, on one setting.

    Raises:
        Problem: if the implementation or the specification has no value there.
    """
    return list(witness(impl, spec, setting, case, draw).compared)


def witness(
    impl: Implementation, spec: Specification, setting: Setting, case: str = "", draw: int = 0
) -> Evidence:
    """One run of an implementation, compared; what `compare` gives, and all that it was made of."""
    found = spec.values(setting.arrays, setting.sizes)  # first: where it has no value there is nothing to compare with
    shown = run(impl, setting.arguments, setting.sizes)
    return evidence_of(impl, spec, setting, found, shown, case, draw)


def compare_shown(
    impl: Implementation, spec: Specification, setting: Setting, found: Mapping[str, Array],
    shown: Mapping[str, Array], case: str = "", draw: int = 0,
) -> list[Compared]:  # fmt: skip
    """Stages that were obtained somehow, in the order of axes of `STAGES`, beside those of the specification."""
    return list(evidence_of(impl, spec, setting, found, shown, case, draw).compared)


def evidence_of(
    impl: Implementation, spec: Specification, setting: Setting, found: Mapping[str, Array],
    shown: Mapping[str, Array], case: str = "", draw: int = 0,
) -> Evidence:  # fmt: skip
    """The same, with all that it was made of."""
    inputs = (setting.arrays["X_q"], setting.arrays["X_k"], setting.arrays["X_v"])
    bounds = stage_bounds(found, inputs, setting.sizes, spec.scale(setting.sizes), setting.mask, impl.dtype)
    results = []
    for word in STAGES:
        if word in shown:
            expected, got = _visible(word, found[word], shown[word], setting)
            entries = bounds[word].entries
            _worth_comparing(entries, expected, word, impl)
            difference = np.abs(got - expected)
            excess = np.where(difference > 0, difference / np.maximum(entries, np.finfo(float).tiny), 0.0)
            place = np.unravel_index(int(np.argmax(excess)), difference.shape)
            results.append(
                Compared(
                    case, word, draw, float(difference[place]), bounds[word].at(place), at(word, place),
                    float(expected[place]), float(got[place]), setting.sizes, setting.weights,
                )
            )  # fmt: skip
    return Evidence(case, draw, spec, setting, found, shown, bounds, tuple(results))


def _visible(word: str, expected: Array, got: Array, setting: Setting) -> tuple[Array, Array]:
    """Both sides, scores of hidden keys left out: code fills them as it likes before its softmax."""
    if word != "scores" or setting.keep is None:
        return expected, got
    keep = np.broadcast_to(setting.keep, expected.shape)
    return np.where(keep, expected, 0.0), np.where(keep, got, 0.0)


def _worth_comparing(bounds: Array, expected: Array, word: str, impl: Implementation) -> None:
    """Refuse to say anything where no entry of a stage could be told from zero."""
    if not (bounds < np.abs(expected)).any():
        least, largest = float(bounds.min()), float(np.abs(expected).max())
        raise DataProblem(
            f"nothing can be seen of {word} at {impl.dtype}: the bound {least:.2g} is as large as the values",
            expected=f"a bound well below {largest:.2g}", hint="check in float64, or at smaller sizes",
        )  # fmt: skip


def _where_it_agrees(impl: Implementation, cases: Sequence[Case], wishes: Wishes, report: CheckReport) -> list[str]:
    """For code that is wrong at free sizes: whether it is right where widths are tied, as its author may assume."""
    for tied in ties_of(replace(impl, tied=None)):
        if report.verdict != "disagree" or len(tied) <= len(impl.tied or ()):
            continue
        try:
            found, problem = _compare_all(replace(impl, tied=tied), cases, wishes)
        except Problem:
            continue
        if problem is None and not any(one.wrong for one in found):
            return [f"it agrees where {_TIES[tied]}; if that is all it is for, say Implementation(tied={tied!r})"]
    return []


# ---------------------------------------------------------------- what was found


def _conventions(impl: Implementation, cases: Sequence[Case]) -> tuple[Convention, ...]:
    by = "its description" if impl.takes is not None else "the names of its parameters"
    weights = "its weights" if impl.weights is not None else by
    masks = [word for word in ("mask", "keep", "drop", "key_keep", "key_drop", "causal") if word in impl.arguments]
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

