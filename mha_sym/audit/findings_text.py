"""What an audit found, in plain text, as JSON, and for a notebook.

Defines `blocks_of`, `findings_json` and `html_of`.  Nothing is found here.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from typing import Any

from mha_sym.audit.diagnose import Explanation
from mha_sym.audit.formulas import Departure, departures
from mha_sym.audit.inquiry import Findings
from mha_sym.audit.probes import Probe
from mha_sym.audit.steps import Step

_WIDTH = 118
#: how many departures of one explanation are written out
_SHOWN = 3


def answer_of(found: Findings, verdict: str) -> list[list[str]]:
    """What is wrong, or the same by a theorem, as blocks of lines: what a reader came for."""
    blocks = [_explained(one) for one in found.diagnosis.found]
    if verdict == "disagree" and not found.diagnosis.found:
        blocks.append(_unexplained(found))
    blocks += [_symmetry(one) for one in found.diagnosis.symmetries]
    return [block for block in blocks if block]


def evidence_of(found: Findings) -> list[list[str]]:
    """The nine steps, and the probes that show something, as blocks of lines."""
    blocks = [_steps(found.steps)]
    if found.head_mask is not None:
        blocks.append(_head_mask(found.head_mask))
    blocks += [_probe(one) for one in found.probes if one.cause]
    return [block for block in blocks if block]


def _steps(steps: tuple[Step, ...]) -> list[str]:
    lines = ["  step  status"] if steps else []
    for one in steps:
        status = {"ok": "ok", "wrong": "WRONG"}.get(one.status, "hidden")
        start = f"  {one.step:>4}  {status:<7} "
        text = f"{one.name}: {one.detail}"
        lines += textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
    return lines


def _explained(one: Explanation) -> list[str]:
    where = f" in the case {', '.join(one.cases)}" if one.cases else ""
    lines = [f"  FAULT  {one.name}{where}", *_rows(one)]
    shown = departures(*one.forms)
    for departure in shown[:_SHOWN]:
        lines += _side_by_side(departure)
    if len(shown) > _SHOWN:
        lines.append(f"    likewise {', '.join(departure.name for departure in shown[_SHOWN:])}")
    if shown:
        lines += _traces(shown[0])
    return lines


def _rows(one: Explanation) -> Iterator[str]:
    rows = [
        ("what", one.words), ("where", one.where), ("symptom", one.symptom), ("mend", one.mend),
        ("sure", f"{one.confidence}; largest difference left {one.difference:.2g}, bound {one.bound:.2g}"),
        *(("same as", f"{', '.join(twin.names)}: {twin.words}") for twin in one.twins),
    ]  # fmt: skip
    for name, text in rows:
        yield from textwrap.wrap(text, _WIDTH, initial_indent=f"    {name:<11}", subsequent_indent=" " * 15)


def _side_by_side(departure: Departure) -> list[str]:
    right, faulty = departure.formulas()
    return [f"    {word:<11}{text}" for word, text in (("should be", right), ("is", faulty)) if text]


def _traces(departure: Departure) -> list[str]:
    """Both traces, beside one another where they fit, else one after the other."""
    right, faulty = (text.splitlines() for text in departure.traces())
    if not right or not faulty:
        return []
    width = max(map(len, right))
    if width + 3 + max(map(len, faulty)) <= _WIDTH + 40:
        rows = max(len(right), len(faulty))
        pairs = zip(right + [""] * (rows - len(right)), faulty + [""] * (rows - len(faulty)), strict=True)
        return [f"    {'axes, as they should be':<{width}}   axes, as they are"] + [
            f"    {left:<{width}}   {other}".rstrip() for left, other in pairs
        ]
    return [
        "    axes, as they should be", *(f"      {line}" for line in right), "    axes, as they are",
        *(f"      {line}" for line in faulty),
    ]  # fmt: skip


def _unexplained(found: Findings) -> list[str]:
    d = found.diagnosis
    first = next((one for one in found.steps if one.status == "wrong"), None)
    pairs = f" and {d.pairs} pairs of them" if d.pairs else ""
    text = f"wrong, and none of the {d.singles} known faults{pairs} explains it"
    where = "" if first is None else f": the first differing step is {first.step}, {first.detail}"
    return textwrap.wrap(text + where, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _symmetry(one: Explanation) -> list[str]:
    text = f"the same function, by theorem {one.faults[0].theorem}: {one.words}"
    return textwrap.wrap(text, _WIDTH, initial_indent="  SAME   ", subsequent_indent="         ")


def _head_mask(located: tuple[str, ...]) -> list[str]:
    if not located:
        return ["  HEAD MASK  acts at none of the known locations"]
    same = " (the same function there, by theorem head_ablation_locations)" if len(located) > 1 else ""
    return textwrap.wrap(f"acts on {' = '.join(located)}{same}", _WIDTH, initial_indent="  HEAD MASK  ")


def _probe(one: Probe) -> list[str]:
    head = textwrap.wrap(f"{one.name}: {one.cause}", _WIDTH, initial_indent="  PROBE  ", subsequent_indent="         ")
    return [*head, *(f"    {line}" for line in one.figure[:24])]


# ---------------------------------------------------------------- JSON


def findings_json(found: Findings | None) -> dict[str, Any]:
    """The findings as plain data; the keys are there even if nothing was found."""
    if found is None:
        return {"steps": [], "faults": [], "symmetries": [], "probes": []}
    told = {
        "steps": [
            {"step": one.step, "name": one.name, "status": one.status, "detail": one.detail} for one in found.steps
        ],
        "faults": [_fault_json(one) for one in found.diagnosis.found],
        "symmetries": [
            {"name": one.name, "theorem": one.faults[0].theorem, "words": one.words}
            for one in found.diagnosis.symmetries
        ],
        "probes": [
            {"name": one.name, "ok": one.ok, "cause": one.cause, "figure": list(one.figure)} for one in found.probes
        ],
        "tried": {"faults": found.diagnosis.singles, "pairs": found.diagnosis.pairs},
        "invisible": list(found.diagnosis.invisible),
    }  # fmt: skip
    return told if found.head_mask is None else {**told, "head_mask": list(found.head_mask)}


def _fault_json(one: Explanation) -> dict[str, Any]:
    shown = departures(*one.forms)
    both = [(departure.formulas(), departure.formulas("latex"), departure.traces()) for departure in shown]
    return {
        "name": one.name,
        "words": one.words,
        "formula": "; ".join(plain[1] for plain, _, _ in both),
        "formula_right": "; ".join(plain[0] for plain, _, _ in both),
        "latex": [latex[1] for _, latex, _ in both],
        "latex_right": [latex[0] for _, latex, _ in both],
        "traces": [{"right": right, "faulty": faulty} for _, _, (right, faulty) in both],
        "mend": one.mend,
        "where": one.where,
        "symptom": one.symptom,
        "probes": one.probes,
        "telling": one.telling,
        "difference": one.difference,
        "bound": one.bound,
        "cases": list(one.cases),
        "order_of_heads": list(one.order),
        "same_as": [{"names": list(twin.names), "proved": twin.proved, "words": twin.words} for twin in one.twins],
    }


# ---------------------------------------------------------------- notebooks


def html_of(text: str, verdict: str, found: Findings | None) -> str:
    """The report for a notebook: verdict, steps and faults as tables, the whole text folded."""
    colour = {"agree": "#1a7f37", "disagree": "#b42318"}.get(verdict, "#9a6700")
    first, _, rest = text.partition("\n")
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
