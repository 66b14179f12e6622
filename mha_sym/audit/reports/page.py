"""The report of a check as a page: what should be computed, what the code computes, and where the ways part.

Defines `comparison_of`, and `page_of`, which writes it.  What is on the page is found elsewhere; how it looks is in
`mha_sym.render.comparison` and `mha_sym.render.comparison_forms`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.formulas import Departure, departures
from mha_sym.audit.reports.reported import Reported
from mha_sym.audit.reports.text import headline, text_of
from mha_sym.render.comparison import Comparison, Fork, Mistake
from mha_sym.render.comparison_forms import COMPARISONS
from mha_sym.render.questions.question import Table

#: how many departures of one fault are drawn
_SHOWN = 3


def page_of(report: Reported, proof: str | None = None, format: str = "html") -> str:
    """The page in one of `COMPARISONS`; ``proof`` is the text about what could be proved of the code, if any."""
    return COMPARISONS[format](comparison_of(report, proof))


def comparison_of(report: Reported, proof: str | None = None) -> Comparison:
    """What the page says."""
    said = [] if proof is None else [" ".join(proof.partition("\n")[0].split())]
    return Comparison(
        title=report.target, good=report.ok, verdict=" ".join(headline(report).split()),
        known=(*said, *_known(report)), mistakes=tuple(map(_mistake, report.faults)),
        tables=tuple(_tables(report)),
        text="\n\n".join([text_of(report, detail=True), *([] if proof is None else [proof])]),
    )  # fmt: skip


def _known(report: Reported) -> Iterator[str]:
    if report.problem is not None:
        yield report.problem.one_line()
    if report.first_wrong is None and report.verdict == "disagree":
        yield f"{report.gates_badly[:1].upper()}{report.gates_badly[1:]}; without it, it agrees."
    elif report.verdict == "disagree" and not report.faults:
        yield "None of the known faults explains it."
    for one in report.symmetries:
        theorems = " and ".join(dict.fromkeys(fault.theorem for fault in one.faults))
        yield f"The same function, by theorem {theorems}: {one.words}"
    if report.compared:
        yield (
            "The code was run beside multi-head attention with one matrix for all heads. That this is the same as "
            f"separate heads is theorem {report.backing.theorem}, {report.backing.verdict} for all sizes with this "
            "layout, these biases and any masks. What was compared are numbers, on a few random inputs: that is "
            "evidence about the code, and no proof."
        )
    if report.coincide:
        yield f"Sizes that coincide, so that their axes cannot be told apart: {'; '.join(report.coincide)}."


def _mistake(one: Explanation) -> Mistake:
    where = one.where.replace("step ", "audit step ") + (f", in the case {','.join(one.cases)}" if one.cases else "")
    rows = [("what", one.words), ("where", where), ("symptom", one.symptom), ("mend", one.mend)]
    rows += [("sure", one.confidence), *(("same as", f"{', '.join(t.names)}: {t.words}") for t in one.twins)]
    forks = [
        Fork(found.name, found.right, found.faulty, found.formulas("latex"))
        for found in _departures(one)
    ]
    return Mistake(one.name, tuple(rows), tuple(forks))


def _departures(one: Explanation) -> Iterator[Departure]:
    """Where the ways part: the first places; and of several faults those of each that these places do not show."""
    known: set[str] = set()
    for forms in [one.forms] if len(one.faults) == 1 else [one.forms, *one.apart]:
        for found in departures(*forms)[:_SHOWN]:
            if found.name not in known:
                known.add(found.name)
                yield found


def _tables(report: Reported) -> Iterator[Table]:
    if report.steps:
        steps = tuple((str(one.step), str(one.status), one.name, one.detail) for one in report.steps)
        yield Table("The nine steps of the audit", ("step", "status", "what", "seen"), steps)
    if report.stages:
        rows = tuple(
            (one.case, one.stage, f"{one.difference:.2e}", f"{one.bound.value:.2e}", one.place,
             "ok" if one.ok else "same function" if report.symmetries else "wrong")
            for one in report.stages
        )  # fmt: skip
        yield Table("What was compared", ("call", "stage", "difference", "bound", "where", ""), rows)
    if report.conventions:
        told = tuple((one.name, one.value, one.said_by) for one in report.conventions)
        yield Table("Conventions", ("what", "declared", "said by"), told)
