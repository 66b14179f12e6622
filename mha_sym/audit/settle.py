"""The sizes at which an implementation is run: the freest at which it runs at all.

Defines `Wishes` (what the user asks for), `Planned`, `settled`, `refuse_unreached` and `TIED`.  Code that runs only
where sizes coincide is run there, and the report says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mha_sym.audit.call import Narrower, run
from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.setting import draw_setting, ties_of
from mha_sym.errors import DataProblem, Problem, TargetProblem


@dataclass(frozen=True)
class Wishes:
    """What the user asks of a check besides the implementation itself; ``finite``: whether NaN is not running."""

    seed: int = 0
    draws: int = 3
    causal: bool | None = None
    sizes: Mapping[str, int] | None = None
    lengths: Sequence[int] | None = None
    finite: bool = True


@dataclass(frozen=True)
class Planned:
    """One way of calling, and what is asked for there: code may need other sizes in one case than in another."""

    case: Case
    wishes: Wishes


def settled(
    impl: Implementation, cases: Sequence[Case], wishes: Wishes
) -> tuple[Implementation, list[Planned], list[str]]:
    """The implementation at the freest sizes at which it runs, the sizes for each case, and notes for the report.

    Raises:
        Problem: if it runs nowhere in the first case.
    """
    try:
        impl, wishes, notes = _somewhere(impl, cases[0], wishes)
    except Narrower as problem:
        impl, wishes, notes = _somewhere(replace(impl, dtype=problem.dtype), cases[0], wishes)
        notes = [f"{problem.what}, and is judged as {problem.dtype}", *notes]
    plan = [Planned(cases[0], wishes)]
    for case in cases[1:]:
        found = _elsewhere(impl, case, wishes)
        plan.append(Planned(case, wishes if found is None else found[0]))
        notes += [] if found is None else [found[1]]
    return impl, plan, notes


def _elsewhere(impl: Implementation, case: Case, wishes: Wishes) -> tuple[Wishes, str] | None:
    """Coinciding sizes and a note, where a case raises at free ones and runs there; what it raises is told later."""
    try:
        _run_once(impl, case, wishes)
    except TargetProblem as problem:
        if problem.__cause__ is None:
            return None
        for words, tried in _meeting(impl, wishes):
            try:
                _run_once(impl, case, tried)
            except Problem:
                continue
            return tried, f"{case.name}: {_only_at(words, problem)}"
    except Problem:
        return None
    return None


def _run_once(impl: Implementation, case: Case, wishes: Wishes) -> None:
    setting = draw_setting(impl, case, wishes.seed, 0, wishes.sizes, wishes.lengths)
    run(impl, setting.arguments, setting.sizes, wishes.finite)


def _somewhere(impl: Implementation, case: Case, wishes: Wishes) -> tuple[Implementation, Wishes, list[str]]:
    """The implementation at the freest sizes at which it runs; code that needs coinciding sizes gets them."""
    try:
        found, notes = _freest(impl, case, wishes)
    except (TargetProblem, DataProblem) as problem:
        for words, tried in _meeting(impl, wishes):
            try:
                found, notes = _freest(impl, case, tried)
            except Problem:
                continue
            return found, tried, [_only_at(words, problem), *notes]
        raise
    return found, wishes, notes


def _meeting(impl: Implementation, wishes: Wishes) -> list[tuple[str, Wishes]]:
    """Sizes that coincide, as wrong code may need it, in words and as wishes."""
    heads = impl.heads or 4
    meetings = [
        ("S = T", {"T": 6, "S": 6}), ("T = h", {"T": heads, "S": heads, "h": heads}),
        ("B = h", {"B": heads, "h": heads}),
    ]  # fmt: skip
    said = dict(wishes.sizes or {})
    free = [(words, sizes) for words, sizes in meetings if not set(said) & set(sizes)]
    return [(words, replace(wishes, sizes={**said, **sizes})) for words, sizes in free]


def _freest(impl: Implementation, case: Case, wishes: Wishes) -> tuple[Implementation, list[str]]:
    """The implementation with its ties known: the freest sizes at which it runs without raising."""
    ladder = ties_of(impl)
    refused: TargetProblem | None = None
    for tied in ladder:
        tried = replace(impl, tied=tied)
        try:
            _run_once(tried, case, wishes)
        except TargetProblem as problem:
            refused = refused or problem
            if tied == ladder[-1] or problem.__cause__ is None:
                raise
        else:
            return tried, [] if refused is None else [_only_at(TIED[tied], refused)]
    raise AssertionError("the ladder of ties is never empty")


#: ties of sizes in words
TIED = {(): "free sizes", ("d_v",): "d_v = d_k", ("d_v", "d_model"): "d_v = d_k and d_model = h d_k"}


def _only_at(words: str, problem: Problem) -> str:
    return f"it runs only where {words}, and was checked there; at other sizes {problem.what}"


def refuse_unreached(impl: Implementation) -> None:
    """Refuse an implementation that computes with weights that are neither handed over nor known.

    Raises:
        TargetProblem: naming them, and how to make them known.
    """
    missing = impl.unreached
    if not missing:
        return
    every = len(missing) == len(impl.how_stored.stored(impl.biases))
    raise TargetProblem(
        f"{impl.title} takes no weights" if every else f"{impl.title} takes no {', '.join(missing)}",
        got=f"parameters {', '.join(impl.by_parameter if impl.takes is None else impl.takes)}",
        expected=f"{', '.join(missing)} among them, or the weights that it has of its own",
        hint="hand them over: Implementation(call=..., layout=..., weights={" + f"{missing[0]!r}: ..., " + "...})",
    )  # fmt: skip
