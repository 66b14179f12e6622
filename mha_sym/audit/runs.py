"""All runs that a check makes: every way of calling, several draws of each, and what stands in the way.

Defines `Seen`, `seen_of`, `with_any_keys_seen` and `further`.  What the runs say is found out in
`mha_sym.audit.diagnosis.inquiry`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mha_sym.audit.call import NotFinite
from mha_sym.audit.cases import Case, with_any_keys
from mha_sym.audit.compare import witness
from mha_sym.audit.diagnosis.diagnose import More
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.masks.empty_rows import diagnosed
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.settle import Planned, Wishes, settled
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem


@dataclass(frozen=True)
class Seen:
    """What an implementation gave.

    Attributes:
        impl: the implementation, with what had to be found out to run it.
        plan: the ways of calling, and the sizes of each.
        evidence: the runs.
        notes: what a reader should know of them.
        problem: the first thing that stood in the way of some of them.
    """

    impl: Implementation
    plan: Sequence[Planned]
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...] = ()
    problem: Problem | None = None

    @property
    def right(self) -> bool:
        """Whether everything agrees."""
        return self.problem is None and not any(one.wrong for one in self.evidence)


def seen_of(impl: Implementation, cases: Sequence[Case], wishes: Wishes) -> Seen:
    """Every case and draw; the first problem comes with what was found wrong, and is raised otherwise.

    Rows of NaN are no problem where a fault of a mask explains them (`mha_sym.audit.masks.empty_rows`).

    Raises:
        Problem: if it cannot be run, or what it returns cannot be compared.
    """
    try:
        settled_at = settled(impl, cases, wishes)
    except NotFinite as problem:
        try:
            return _compared(*settled(impl, cases, replace(wishes, finite=False)))
        except Problem:
            raise problem from None
    return _compared(*settled_at)


def _compared(impl: Implementation, plan: Sequence[Planned], notes: Sequence[str] = ()) -> Seen:
    every: list[Evidence] = []
    trouble: Problem | None = None
    for one in plan:
        for draw in range(one.wishes.draws):
            try:
                every.append(_run(impl, one, draw, finite=False))
            except Problem as problem:  # what goes wrong under one mask says nothing of the other ways of calling
                trouble = trouble or _placed(problem, one.case)
                break
    empty = next((run for run in every if run.nan is not None), None)
    if empty is not None and not diagnosed(every).found:
        every, trouble = [run for run in every if run.nan is None], trouble or _refused(impl, plan, empty)
    if trouble is not None and not any(one.wrong for one in every):
        raise trouble
    return Seen(impl, plan, tuple(every), tuple(notes), trouble)


def _run(impl: Implementation, one: Planned, draw: int, finite: bool = True) -> Evidence:
    setting = draw_setting(impl, one.case, one.wishes.seed, draw, one.wishes.sizes, one.wishes.lengths)
    return witness(impl, specification(impl, one.case), setting, one.case.name, draw, finite)


def _refused(impl: Implementation, plan: Sequence[Planned], run: Evidence) -> Problem:
    """What is said of NaN that no fault explains."""
    one = next(one for one in plan if one.case.name == run.case)
    try:
        _run(impl, one, run.draw)
    except Problem as problem:
        return _placed(problem, one.case)
    raise AssertionError("it was NaN before, and what is random is refused")


def _placed(problem: Problem, case: Case) -> Problem:
    problem.where = f"{problem.where}; {case.name}" if problem.where else case.name
    return problem


def with_any_keys_seen(seen: Seen, causal: bool | None) -> Seen:
    """What was seen, and more with a boolean mask that hides any keys, at the sizes at which the causal one was tried.

    The first problem of that comes with it.
    """
    drawn = [
        Planned(case, next(one.wishes for one in seen.plan if one.case.causal == case.causal))
        for case in with_any_keys(seen.impl, causal)
    ]
    more = _compared(seen.impl, drawn)
    return replace(seen, plan=[*seen.plan, *drawn], evidence=(*seen.evidence, *more.evidence), problem=more.problem)


def further(seen: Seen) -> More:
    """Further draws, for telling apart what the first ones do not."""

    def more(number: int) -> list[Evidence]:
        found = []
        for one in seen.plan:
            with contextlib.suppress(Problem):  # what it does there tells nothing, then
                found.append(_run(seen.impl, one, one.wishes.draws + number, finite=False))
        return found

    return more


def agrees_tied(seen: Seen, tied: tuple[str, ...]) -> bool:
    """Whether it is right where widths are tied."""
    try:
        return _compared(replace(seen.impl, tied=tied), seen.plan).right
    except Problem:
        return False
