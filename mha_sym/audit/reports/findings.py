"""What an audit found, in plain text: faults and symmetries, the nine steps, what probes showed.

Defines `answer_of`, `steps_of`, `hints_of` and `details_of`, lines of text.  Nothing is found here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.diagnosis.findings import Findings
from mha_sym.audit.diagnosis.probes import Probe
from mha_sym.audit.diagnosis.steps import Step
from mha_sym.audit.formulas import Departure, departures

WIDTH = 118
#: how many departures of one explanation are written out, in detail
_SHOWN = 3
#: a formula of more characters is left to ``--json``
_LONGEST = 200
#: how many lines of a figure are shown
_LINES = 24


def answer_of(found: Findings, verdict: str, detail: bool) -> list[list[str]]:
    """What is wrong, or the same by a theorem, as blocks of lines: what a reader came for."""
    blocks = [_explained(one, detail) for one in found.diagnosis.found]
    if verdict == "disagree" and not found.diagnosis.found and (_wrong(found) or not found.gates_badly):
        blocks.append(_unexplained(found))
    blocks += [_symmetry(one) for one in found.diagnosis.symmetries]
    if found.head_mask is not None:
        blocks.append(_head_mask(found.head_mask))
    return [block for block in blocks if block]


def _wrong(found: Findings) -> tuple[Step, ...]:
    return tuple(one for one in found.steps if one.status == "wrong")


def steps_of(steps: tuple[Step, ...], detail: bool) -> list[str]:
    """The nine steps, a line each, or with all that is known of each."""
    lines = ["  step  status"] if steps else []
    for one in steps:
        status = {"ok": "ok", "wrong": "WRONG"}.get(one.status, "hidden")
        start = f"  {one.step:>4}  {status:<7} "
        text = one.name if one.status == "ok" and not detail else f"{one.name}: {one.detail}"
        if detail:
            lines += textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start))
        else:
            lines.append(start + textwrap.shorten(text, WIDTH - len(start), placeholder=" ..."))
    return lines


def hints_of(found: Findings, verdict: str) -> list[str]:
    """What probes say, a line each, where no fault says more."""
    if verdict != "disagree" or found.diagnosis.found:
        return []
    return [line for one in found.probes if one.cause for line in _said(one)]


def details_of(found: Findings) -> list[list[str]]:
    """The probes that show something, each with its figure, as blocks of lines."""
    return [_probe(one) for one in found.probes if one.cause]


# ---------------------------------------------------------------- faults


def _explained(one: Explanation, detail: bool) -> list[str]:
    where = f" in the case {', '.join(one.cases)}" if one.cases else ""
    label = "FOUND" if all(fault.meant for fault in one.faults) else "FAULT"
    lines = [f"  {label}  {one.name}{where}", *_rows(one)]
    shown = departures(*one.forms)
    for departure in shown[: _SHOWN if detail else len(one.faults)]:
        lines += _side_by_side(departure)
    if not detail:
        return lines
    if len(shown) > _SHOWN:
        lines.append(f"    likewise {', '.join(departure.name for departure in shown[_SHOWN:])}")
    return lines + (_traces(shown[0]) if shown else [])


def _rows(one: Explanation) -> Iterator[str]:
    rows = [
        ("what", one.words), ("where", one.where), ("symptom", one.symptom), ("mend", one.mend),
        ("sure", f"{one.confidence}; largest difference left {one.difference:.2g}, bound {one.bound:.2g}"),
        *(("hidden at", f"{text}: a test there does not see it") for text in [", ".join(one.hidden_at)] if text),
        *(("same as", f"{', '.join(twin.names)}: {twin.words}") for twin in one.twins),
        *_farther(one),
    ]  # fmt: skip
    for name, text in rows:
        yield from textwrap.wrap(text, WIDTH, initial_indent=f"    {name:<11}", subsequent_indent=" " * 15)


def _farther(one: Explanation) -> Iterator[tuple[str, str]]:
    """What fits less well, in one row: there may be many in a short format."""
    if one.farther:
        names = [name for twin in one.farther for name in twin.names]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield "not", f"{', '.join(names[:3])}{more}: within the bound, too, but {one.farther[0].words}"


def _side_by_side(departure: Departure) -> list[str]:
    both = zip(("should be", "is"), departure.formulas(), strict=True)
    return [f"    {word:<11}{text if len(text) <= _LONGEST else _left_out(text)}" for word, text in both if text]


def _left_out(text: str) -> str:
    """What stands for a formula that nobody would read."""
    return f"{text.partition(' = ')[0]} = ... ({len(text)} characters, which --json has)"


def _traces(departure: Departure) -> list[str]:
    """Both traces, beside one another where they fit, else one after the other."""
    right, faulty = (text.splitlines() for text in departure.traces())
    if not right or not faulty:
        return []
    width = max(map(len, right))
    if width + 3 + max(map(len, faulty)) <= WIDTH + 40:
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
    first = next(iter(_wrong(found)), None)
    several = [f"{n:,} {word} of them" for n, word in ((d.pairs, "pairs"), (d.triples, "sets of three")) if n]
    text = f"wrong, and none of the {' and '.join([f'{d.singles} known faults', *several])} explains it"
    where = "" if first is None else f": the first differing step is {first.step}, {first.detail}"
    return textwrap.wrap(text + where, WIDTH, initial_indent="  ", subsequent_indent="  ")


# ---------------------------------------------------------------- symmetries, head masks, probes


def _symmetry(one: Explanation) -> list[str]:
    theorems = " and ".join(dict.fromkeys(fault.theorem for fault in one.faults))
    text = f"the same function, by theorem {theorems}: {one.words}"
    return textwrap.wrap(text, WIDTH, initial_indent="  SAME   ", subsequent_indent="         ")


def _head_mask(located: tuple[str, ...]) -> list[str]:
    if not located:
        return ["  HEAD MASK  acts at none of the known locations"]
    theorem = "scale_moves_between_queries_and_keys" if "scores S" in located else "head_ablation_locations"
    same = f" (the same function there, by theorem {theorem})" if len(located) > 1 else ""
    return textwrap.wrap(f"acts on {' = '.join(located)}{same}", WIDTH, initial_indent="  HEAD MASK  ")


def _probe(one: Probe) -> list[str]:
    key = textwrap.wrap(one.key, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return [*_said(one), *key, *(f"    {line}" for line in one.figure[:_LINES])]


def _said(one: Probe) -> list[str]:
    return textwrap.wrap(f"{one.name}: {one.cause}", WIDTH, initial_indent="  PROBE  ", subsequent_indent=" " * 9)
