"""Public cases of wrong attention are named, what was reported and is right is not flagged, the rest is refused."""

from __future__ import annotations

import warnings

import pytest

from mha_sym.audit import CheckReport, check
from mha_sym.audit.faults import find_fault
from mha_sym.errors import Problem
from tests.audit.public_cases import FAULTY, LIMITED, REFUSED, RIGHT, Public


def report_of(case: Public) -> CheckReport:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # wrong code makes NaN
        return check(case.code, draws=2, **case.options)


@pytest.mark.parametrize("number", FAULTY)
def test_the_fault_of_a_public_case_is_named(number: int) -> None:
    case = FAULTY[number]
    report = report_of(case)
    assert report.verdict == "disagree", report.text()
    named = {frozenset(name.split(" + ")) for found in report.faults for name in found.names}
    assert frozenset(case.names) in named, (named, report.text())
    assert all(find_fault(name).mend in report.text() for name in case.names[:1] if len(named) == 1)


@pytest.mark.parametrize("number", RIGHT)
def test_what_was_reported_and_is_right_is_not_flagged(number: int) -> None:
    report = check(RIGHT[number])
    assert report.ok and not report.faults, report.text()


@pytest.mark.parametrize("number", LIMITED)
def test_what_runs_at_some_sizes_only_is_said_to(number: int) -> None:
    report = report_of(LIMITED[number])
    assert report.ok and LIMITED[number].says in " ".join(report.notes), report.text()


@pytest.mark.parametrize("number", REFUSED)
def test_what_cannot_be_compared_is_said_in_one_line(number: int) -> None:
    with pytest.raises(Problem, match=REFUSED[number].says) as caught:
        report_of(REFUSED[number])
    assert "\n" not in caught.value.one_line()
