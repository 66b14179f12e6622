"""The report of a check in plain text: short, or with all that was seen.

Defines `text_of`.  What is said of faults, steps and probes is in `mha_sym.audit.reports.findings`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from math import isnan

from mha_sym.audit.compared import Compared
from mha_sym.audit.precision import arithmetic, roundoff
from mha_sym.audit.reports.findings import WIDTH, answer_of, details_of, hints_of, steps_of
from mha_sym.audit.reports.reported import Reported
from mha_sym.errors import Problem

#: what bounds are made of
RULE = (
    "the worst case, entry by entry: growth(n) = n u/(1 - n u) over the n terms summed on the way, without"
    " cancellation, and what errors of the scores do to the weights"
)


def text_of(report: Reported, detail: bool = False) -> str:
    """The report for people: the answer, the nine steps, the bound; with ``detail`` all that was seen."""
    if not report.compared:
        return "\n".join([headline(report), *_problem(report.problem)])
    found = report.findings
    answer = [] if found is None else answer_of(found, report.verdict, detail)
    steps = [] if found is None else steps_of(found.steps, detail)
    if detail:
        more = [] if found is None else details_of(found)
        blocks = [_facts(report), steps, *more, _table(report.stages, bool(report.symmetries)), _reading(report)]
    else:
        hints = [] if found is None else hints_of(found, report.verdict)
        blocks = [steps, hints, _short(report)]
    every = [[headline(report)], *answer, *blocks, _problem(report.problem)]
    return "\n\n".join("\n".join(block) for block in every if block)


def headline(report: Reported) -> str:
    """The verdict in one line."""
    draws, cases = len(report.compared), len({one.case for one in report.compared})
    if report.verdict == "agree":
        ways = f"{cases} ways of calling" if cases > 1 else "one way of calling"
        some = f"{draws} comparison{'s' if draws > 1 else ''}"
        return f"AGREES      {report.target}: within the bound in {some} over {ways}"
    if report.verdict == "error":
        return f"COULD NOT BE CHECKED   {report.target}"
    wrong = report.first_wrong
    if wrong is None:  # nothing else disagrees
        return f"DISAGREES   {report.target}: {report.gates_badly}; without it, it agrees"
    meant = [fault.meant for one in report.faults for fault in one.faults]
    if meant and all(meant):
        return f"DISAGREES   {report.target}: right but for {' and '.join(meant)}; no fault if that is meant"
    off = sum(not one.ok for one in report.stages)
    return (
        f"DISAGREES   {report.target}: {off} of {len(report.stages)} stages;"
        f" first {wrong.stage} ({wrong.case}), {_apart(wrong)} at {wrong.place}"
    )


def _apart(one: Compared) -> str:
    """How far a stage is off: by a number, or NaN."""
    return "NaN" if isnan(one.got) else f"by {one.difference:.3g}"


def _largest(one: Compared) -> str:
    """The largest difference of a stage, or NaN."""
    return "rows of it NaN" if isnan(one.got) else f"largest difference {one.difference:.2g}"


# ---------------------------------------------------------------- short


def _short(report: Reported) -> list[str]:
    """What limits the answer: coincidences, notes, and the bound."""
    rows = [("note", note) for note in report.notes]
    if report.coincide:
        rows.append(("coincide", "; ".join(report.coincide)))
    worst = max(report.compared, key=lambda one: (not isnan(one.got), one.excess))
    rows.append((
        "bound", f"{worst.bound.value:.2g} on {worst.stage} ({worst.case}), {_largest(worst)};"
        f" the worst case in {report.dtype}, from the format and the sizes",
    ))  # fmt: skip
    rows.append(("more", "--detail: conventions, sizes, axes, probes, and every comparison with its bound"))
    return [line for name, text in rows for line in _row(name, text)]


def _row(name: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"  {name:<12} ", subsequent_indent=" " * 15)


# ---------------------------------------------------------------- in detail


def _facts(report: Reported) -> list[str]:
    rows = [(c.name, c.value + (f"  ({c.said_by})" if c.said_by else "")) for c in report.conventions]
    rows += [("sizes", text) for text in _sizes_in_words(report.draws)]
    rows += [("coincide", "; ".join(report.coincide) or "none: every size and product of sizes is distinct")]
    rows += [("note", note) for note in report.notes]
    return [f"  {name:<12} {value}" for name, value in rows]


def _sizes_in_words(draws: Sequence[Mapping[str, int]]) -> list[str]:
    """The sizes that all draws share, and the others draw by draw."""
    fixed = [name for name in draws[0] if len({sizes[name] for sizes in draws}) == 1]
    varied = [name for name in draws[0] if name not in fixed]
    lines = [", ".join(f"{name}={draws[0][name]}" for name in fixed)] if fixed else []
    if varied:
        each = [f"({', '.join(str(sizes[name]) for name in varied)})" for sizes in draws]
        lines.append(f"({', '.join(varied)}) = {' '.join(each)}")
    return lines


def _table(stages: Sequence[Compared], excused: bool = False) -> list[str]:
    head = ("case", "stage", "difference", "bound", "n", "where", "")
    rows = [
        (
            one.case, one.stage, f"{one.difference:.2e}", f"{one.bound.value:.2e}", str(one.bound.terms), one.place,
            "ok" if one.ok else "same function" if excused else "WRONG",
        )
        for one in stages
    ]  # fmt: skip
    width = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        ("  " + "  ".join(cell.ljust(width[n]) for n, cell in enumerate(row))).rstrip() for row in (head, *rows)
    ]


def _reading(report: Reported) -> list[str]:
    lines = [
        f"  specification: the combined form, by theorem {report.backing.theorem} the same as separate heads;",
        f"  with this layout, these biases and any masks: {report.backing.verdict} for all sizes,"
        f" {report.backing.steps} steps replayed",
        "  the comparison with it is of numbers, on these draws only",
        f"  bound: {RULE};",
        f"  {arithmetic(report.dtype).words};",
        f"  u = {roundoff(report.dtype):.2g} ({report.dtype}) for the implementation,"
        f" {roundoff('float64'):.2g} for this evaluation; both add up",
    ]
    wrong = report.first_wrong
    if wrong is not None:
        lines.append(
            f"  {wrong.stage}[{wrong.place}] is {wrong.got:.10g}, should be {wrong.expected:.10g}, at "
            + ", ".join(f"{name}={n}" for name, n in wrong.sizes.items())
        )
    return lines


def _problem(problem: Problem | None) -> list[str]:
    return [] if problem is None else [f"  {line}" for line in str(problem).split("\n")]
