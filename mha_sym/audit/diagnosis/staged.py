"""Outputs of many sets of faults on the arrays of one run, computed step by step: what sets have in common once.

Defines `Staged`, `of_singles` and `turning`, the outputs of single faults.  The same step of many sets is computed as
one batch (`mha_sym.audit.diagnosis.program`).  Outputs are those of `mha_sym.audit.evidence.Forms.form` up to rounding,
and what comes near is looked at there again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

import numpy as np

from mha_sym.audit.diagnosis.course import Course, course_of
from mha_sym.audit.diagnosis.program import Program, run_on
from mha_sym.audit.evidence import Evidence, predicted
from mha_sym.audit.faults import Fault, find_fault
from mha_sym.audit.precision import Array
from mha_sym.expr import Expr

Key = TypeVar("Key")


class Staged:
    """The outputs of sets of faults on the arrays of one run.

    Args:
        on: the run.
        course: what the outputs are made of.
    """

    def __init__(self, on: Evidence, course: Course) -> None:
        self._on, self._course = on, course
        self._values: dict[int, Array | None] = {}
        #: values that are infinite or NaN somewhere, and all that is made of them: they are no arguments of a step
        self._wild: set[int] = set()

    def outputs(self, sets: Mapping[Key, tuple[Fault, ...]], keep: bool = False) -> tuple[dict[Key, Array], int]:
        """The outputs of those that have a value, and how many could be made at all.

        Args:
            sets: sets of faults by any key.
            keep: whether the values of all steps are kept for later sets, which may share them.
        """
        numbers = {key: n for key, which in sets.items() if (n := self._course.number(which)) is not None}
        before = dict(self._values)
        with np.errstate(all="ignore"):
            self._fill(numbers.values())
        found = {key: value for key, number in numbers.items() if (value := self._values[number]) is not None}
        left = {key: number for key, number in numbers.items() if key not in found and number in self._wild}
        found |= self._whole({key: sets[key] for key in left})
        if not keep:
            self._values = before
        return found, len(numbers)

    def _fill(self, wanted: Iterable[int]) -> None:
        """The values with these numbers, and all that they are made of, those of one step together."""
        nodes, missing = self._course.nodes, self._missing(wanted)
        leaves = {str(n): nodes[n].program.expr for n in missing if not nodes[n].depth}
        values = predicted(self._on, leaves)
        self._values.update({int(name): values.get(name) for name in leaves})
        steps: dict[tuple[int, int], list[int]] = {}
        for n in missing:
            if nodes[n].depth:
                steps.setdefault((nodes[n].depth, id(nodes[n].program)), []).append(n)
        for _, numbers in sorted(steps.items(), key=lambda step: step[0][0]):
            self._run(nodes[numbers[0]].program, numbers)

    def _missing(self, wanted: Iterable[int]) -> list[int]:
        found, waiting = dict[int, None](), list(wanted)
        while waiting:
            n = waiting.pop()
            if n not in self._values and n not in found:
                found[n] = None
                waiting.extend(self._course.nodes[n].reads)
        return list(found)

    def _run(self, program: Program, numbers: list[int]) -> None:
        self._values.update(dict.fromkeys(numbers))
        whole: dict[int, tuple[Array, ...]] = {}
        for n in numbers:
            reads = self._course.nodes[n].reads
            there = tuple(value for m in reads if (value := self._values[m]) is not None)
            if not self._wild.isdisjoint(reads):
                self._wild.add(n)
            elif len(there) == len(reads):
                whole[n] = there
        found = run_on(program, self._on.setting, list(whole.values()))
        self._values.update(zip(whole, found, strict=True))
        self._wild.update(n for n, value in zip(whole, found, strict=True) if value is not None and _is_wild(value))

    def _whole(self, sets: Mapping[Key, tuple[Fault, ...]]) -> dict[Key, Array]:
        """The outputs of those in which a step gives what is no number, from their whole forms."""
        found = {}
        for key, which in sets.items():
            form = self._course.forms.form(*which)
            value = predicted(self._on, {"y": form.y}).get("y") if form is not None else None
            if value is not None:
                found[key] = value
        return found


def _is_wild(value: Array) -> bool:
    return not np.isfinite(value.sum()) and bool((np.isnan(value) | np.isposinf(value)).any())


@lru_cache(maxsize=16)
def of_singles(on: Evidence) -> dict[str, Array]:
    """The outputs of all single faults that are possible on a run, but for those that put heads into some order."""
    course = course_of(on.forms)
    sets = {name: (find_fault(name),) for name in course.singles if name not in course.turning}
    return Staged(on, course).outputs(sets)[0]


def turning(on: Evidence) -> dict[str, Expr]:
    """The outputs of the others, as expressions."""
    forms = {name: on.forms.form(find_fault(name)) for name in sorted(course_of(on.forms).turning)}
    return {name: form.y for name, form in forms.items() if form is not None}
