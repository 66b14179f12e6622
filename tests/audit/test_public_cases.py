"""Public cases of wrong attention are named, what was reported and is right is not flagged, the rest is refused.

Every number is an input, or is tested in another way, or is told why it is none.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from mha_sym import count
from mha_sym.attention.dims import combined_weights, dims, self_inputs
from mha_sym.attention.forms import combined
from mha_sym.audit import CheckReport, check
from mha_sym.audit.faults import find_fault
from mha_sym.axes import size_symbol
from mha_sym.errors import Problem
from tests.audit.public_case import Public
from tests.audit.public_cases import FAULTY, RELAID, RIGHT
from tests.audit.public_limits import LIMITED, REFUSED
from tests.audit.public_numbers import COUNTED, ELSEWHERE, INPUTS, NO_INPUTS, NUMBERS


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


@pytest.mark.parametrize("number", RELAID)
def test_weights_that_are_read_in_another_order_are_told_by_layout(number: int) -> None:
    report = report_of(RELAID[number])
    assert report.verdict == "disagree" and not report.faults, report.text()
    assert [one["name"] for one in report.json()["layouts"]] == [RELAID[number].says]


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


@pytest.mark.parametrize("number", COUNTED)
def test_parameters_are_as_many_as_they_are(number: int) -> None:
    sizes, bias, many = COUNTED[number]
    d = dims()
    y = combined(d, self_inputs(d), combined_weights(d, bias=bias)).y
    assert count(y).parameters.subs({size_symbol(name): n for name, n in sizes.items()}) == many


def test_every_number_is_an_input_or_is_told_why_not() -> None:
    told = [*INPUTS.values(), frozenset(COUNTED), frozenset(ELSEWHERE), frozenset(NO_INPUTS)]
    assert sum(map(len, told)) == len(NUMBERS) == 148  # none stands in two places
    assert frozenset().union(*told) == NUMBERS
    assert sum(map(len, INPUTS.values())) == len(NUMBERS) - 20


@pytest.mark.parametrize("number", ELSEWHERE)
def test_what_is_tested_elsewhere_is_there(number: int) -> None:
    file, name = ELSEWHERE[number].split("::")
    assert f"def {name}(" in (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
