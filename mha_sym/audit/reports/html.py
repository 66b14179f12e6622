"""The report of a check as HTML, for a notebook.

Defines `html_of`.
"""

from __future__ import annotations

import html

from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.formulas import departures
from mha_sym.audit.reports.reported import Reported
from mha_sym.audit.reports.text import text_of

#: how many departures of one explanation are written out
_SHOWN = 3


def html_of(report: Reported) -> str:
    """The report for a notebook: verdict, steps and faults as tables, the whole text folded."""
    found, verdict = report.findings, report.verdict
    colour = {"agree": "#1a7f37", "disagree": "#b42318"}.get(verdict, "#9a6700")
    first, _, rest = text_of(report, detail=True).partition("\n")
    parts = [f'<p><b style="color:{colour}">{html.escape(first)}</b></p>']
    if found is not None:
        parts += [_html_fault(one) for one in found.diagnosis.found]
        rows = "".join(
            f"<tr><td>{one.step}</td><td>{html.escape(one.status)}</td><td>{html.escape(one.name)}</td>"
            f"<td>{html.escape(one.detail)}</td></tr>"
            for one in found.steps
        )
        parts.append(f"<table><tr><th>step</th><th>status</th><th>name</th><th>detail</th></tr>{rows}</table>")
    parts.append(f"<details><summary>all of it</summary><pre>{html.escape(rest)}</pre></details>")
    return "".join(parts)


def _html_fault(one: Explanation) -> str:
    rows = [("fault", one.name), ("what", one.words), ("where", one.where), ("mend", one.mend)]
    rows.append(("sure", one.confidence))
    for departure in departures(*one.forms)[:_SHOWN]:
        right, faulty = departure.formulas()
        rows += [("should be", right), ("is", faulty)]
    cells = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows)
    return f"<table>{cells}</table>"
