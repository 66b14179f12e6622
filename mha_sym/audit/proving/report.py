"""What is said of a proof of an implementation: as text, and as plain data.

Defines `ProofReport`, `proved`, `proof_text` and `proof_json`.  How a proof is found is in
`mha_sym.audit.proving.code`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mha_sym.audit.compared import Compared
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.proving.outcome import OVER_THE_REALS, SAME_WAY, CaseProof, CodeProof, with_audit
from mha_sym.audit.proving.pair import prove_target
from mha_sym.audit.reports.reported import Reported
from mha_sym.axes import Axis
from mha_sym.importers.graph import Place
from mha_sym.proof.theorem import Outcome, Verdict
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.scripts import Unicode
from mha_sym.render.report_json import witness

_WIDTH = 118
#: how much of a normal form is shown
_SHOWN = 300
#: the way of calling with a boolean mask that is causal in numbers, and any in a proof
_BOOLEAN = "causal (boolean)"
#: from how many lines a line is shown to be called
_CALLERS = 2


@dataclass(frozen=True)
class ProofReport:
    """A proof of an implementation, ready to be shown."""

    proof: CodeProof

    def text(self) -> str:
        """For people."""
        return proof_text(self.proof)

    def json(self) -> dict[str, Any]:
        """For programs."""
        return proof_json(self.proof)

    @property
    def exit_code(self) -> int:
        """0 if it is proved, 1 if it is refuted or undecided, 2 if the code could not be read as an expression."""
        if self.proof.verdict is Verdict.PROVED:
            return 0
        unread = self.proof.problem is not None and self.proof.verdict is not Verdict.REFUTED
        return 2 if unread else 1


def proved(target: str, against: str | None = None, audited: Reported | None = None, **said: Any) -> ProofReport:
    """What can be proved of a TARGET; see `mha_sym.audit.proving.pair.prove_target`.

    ``audited`` is what a check of it gave; it names the faults of code that is refuted.
    """
    made = prove_target(target, against=against, **said)
    return ProofReport(made if audited is None else with_audit(made, audited))


def proof_json(proof: CodeProof) -> dict[str, Any]:
    """The proof for programs: verdict, sizes, assumptions, layout, lines of the source, and the cases."""
    return {
        "verdict": proof.verdict.value,
        "symbolic": list(proof.symbolic),
        "fixed": proof.fixed,
        "assumptions": assumptions(proof),
        "layout": proof.layout,
        "specification": proof.conventions,
        "against": proof.against or None,
        "source": [
            {"file": p.file, "line": p.line, "what": what,
             "called_from": [{"file": one.file, "line": one.line} for one in p.callers]}
            for p, what in sources(proof)
        ],
        "cases": [_case(one) for one in proof.cases],
        "faults": [_fault(one) for one in proof.faults],
        "ran": [_ran(one) for one in proof.ran],
        "notes": list(proof.notes),
        "seconds": {name: round(value, 3) for name, value in proof.seconds.items()},
        "problem": None if proof.problem is None else proof.problem.one_line(),
    }


def _case(one: CaseProof) -> dict[str, Any]:
    return {
        "case": one.case, "verdict": one.verdict.value, "excluded": list(one.open),
        "first_wrong": None if one.departure is None else one.departure.first,
        "outputs": [_outcome(outcome) for outcome in one.outcomes],
        "validated_at": [dict(sizes) for sizes in one.agreed],
    }  # fmt: skip


def _fault(one: Explanation) -> dict[str, Any]:
    return {
        "name": one.name, "words": one.words, "mend": one.mend, "where": one.where, "cases": list(one.cases),
    }  # fmt: skip


def _ran(one: Compared) -> dict[str, Any]:
    return {
        "case": one.case, "stage": one.stage, "where": one.place, "got": one.got, "expected": one.expected,
        "difference": one.difference, "bound": one.bound.value, "sizes": dict(one.sizes),
    }  # fmt: skip


def _outcome(one: Outcome) -> dict[str, Any]:
    return {
        "stage": one.claim.name, "verdict": one.verdict.value, "steps": one.steps, "detail": one.detail,
        "counterexample": witness(one.counterexample), "normal_forms": normal_forms(one),
    }  # fmt: skip


def normal_forms(one: Outcome) -> list[str] | None:
    """What both sides came down to, shortened, where neither proof nor counterexample was found."""
    if one.verdict is not Verdict.UNDECIDED or one.normal_forms is None:
        return None
    notation = Unicode()
    texts = [plain(notation.term(side)) for side in one.normal_forms]
    return [text if len(text) <= _SHOWN else text[:_SHOWN].rstrip() + " ..." for text in texts]


def assumptions(proof: CodeProof) -> list[str]:
    """Everything that the verdict rests on, one sentence each."""
    found = [OVER_THE_REALS, "every size is at least 1", SAME_WAY]
    for one in proof.cases:
        found += [f"{a.words} ({one.case})" for a in one.found.statement.assumptions]
        found += [f"{words} ({one.case})" for words in one.lifted.assumed]
        notes = one.found.graph.notes
        found += [*notes.assumed, *notes.readings]
        found += [f"a cast is taken for nothing: {cast}" for cast in notes.casts]
        found += [f"the sizes satisfy {words}" for words in (*one.open, *([one.tied] if one.tied else []))]
        found += [*one.discharged, *(f"proved at {words}" for words in one.found.leaks)]
    return list(dict.fromkeys(found))


def sources(proof: CodeProof) -> list[tuple[Place, str]]:
    """The user's lines that matter: where axes cross, and where a refuted case departs."""
    found: dict[tuple[Place, str], None] = {}
    for one in proof.cases:
        for crossing in one.lifted.crossings:
            before, after = map(_letters, (crossing.before, crossing.after))
            what = f"axes ({before}) are read as ({after}): {crossing.place.what}"
            found[crossing.place, what] = None
        if one.departure is not None and one.departure.place.file:
            right = ", ".join(one.departure.right) or "none"
            what = f"from here on no value is {one.departure.first} (right so far: {right}): {one.departure.place.what}"
            found[one.departure.place, what] = None
    return list(found)


def _letters(axes: tuple[Axis, ...]) -> str:
    return " ".join(axis.name.rstrip("0123456789") for axis in axes)


# ---------------------------------------------------------------- text


def proof_text(proof: CodeProof) -> str:
    """The proof for people."""
    lines = [_headline(proof)]
    lines += _row("as", proof.conventions) if proof.conventions and not proof.against else []
    lines += _row("layout", proof.layout)
    for fault in proof.faults:
        lines += list(_fault_lines(fault))
    for place, what in sources(proof) if proof.verdict is not Verdict.PROVED else []:
        lines += _row("line", f"{_spot(place)}  {what}")
        for caller in place.callers[:_CALLERS]:
            lines += _row("", f"called from {_spot(caller)}  {caller.what}")
    for one in proof.cases:
        lines += list(_case_lines(one))
    for found in proof.ran:
        lines += list(_ran_lines(found))
    if proof.problem is not None:
        lines += _row("not read", proof.problem.one_line())
    for words in assumptions(proof):
        lines += _row("assumed", words)
    for words in proof.notes:
        lines += _row("note", words)
    spent = ", ".join(f"{name} {value:.2f} s" for name, value in proof.seconds.items())
    return "\n".join([*lines, *(_row("time", spent) if spent else [])])


def _headline(proof: CodeProof) -> str:
    sizes = ", ".join(proof.symbolic)
    at = "".join(f", {name} = {value}" for name, value in proof.fixed.items())
    scope = f"for all {sizes}{at}, and all weights" if sizes else f"at{at[1:]}, for all weights"
    scope += f", where {' and '.join(proof.where)}" if proof.where else ""
    what = f"equal to {proof.against}" if proof.against else "multi-head attention"
    if proof.verdict is Verdict.PROVED:
        what += " with a bias by position" if proof.biased and not proof.against else ""
        return f"PROVED      {proof.target} is {what} {scope}"
    if proof.verdict is Verdict.REFUTED:
        by = f": running it shows it, not a proof{_only_where(proof)}" if proof.only_ran else ""
        return f"REFUTED     {proof.target} is not {what}{by}"
    asked = f"is it equal to {proof.against}? " if proof.against else ""
    return f"UNDECIDED   {proof.target}: {asked}neither a proof nor a counterexample was found"


def _only_where(proof: CodeProof) -> str:
    """Where code is proved that is wrong elsewhere."""
    proved = bool(proof.cases) and all(one.verdict is Verdict.PROVED for one in proof.cases)
    at = [f"{name} = {value}" for name, value in proof.fixed.items()]
    where = " and ".join((*proof.where, *at))
    return f"; it is proved where {where} only" if proved and where else ""


def _fault_lines(one: Explanation) -> Iterator[str]:
    where = f" ({', '.join(one.cases)})" if one.cases else ""
    yield from _row("fault", f"{one.name}{where}: {one.words}")
    yield from _row("mend", one.mend)


def _ran_lines(one: Compared) -> Iterator[str]:
    sizes = ", ".join(f"{name}={size}" for name, size in one.sizes.items())
    text = f"{one.case}: {one.stage}[{one.place}] is {one.got:.10g}, not {one.expected:.10g}, at {sizes}"
    yield from _row("run", f"{text}; off by {one.difference:.2g}, rounding by {one.bound.value:.2g} at most")


def _spot(place: Place) -> str:
    return f"{place.file}:{place.line}" if place.line else place.file


def _covers(case: str) -> str:
    """What a proof of a way of calling covers besides what its name says: a mask that is handed over stands for any."""
    if case.startswith("causal (additive)"):
        return "; for any additive mask that leaves every query a key, the causal one among them"
    return "; for any mask that leaves every query a key, the causal one among them" if case == _BOOLEAN else ""


def _case_lines(one: CaseProof) -> Iterator[str]:
    steps = sum(o.steps for o in one.outcomes)
    said = f"{one.case}: {one.verdict.value}"
    if one.verdict is Verdict.PROVED:
        said += f" where {one.tied}" if one.tied else ""
        said += f", {steps} steps replayed by the checker{_covers(one.case)}"
    yield from _row("case", said)
    for outcome in one.outcomes:
        found = outcome.counterexample
        if found is not None:
            sizes = ", ".join(f"{name}={size}" for name, size in {**found.sizes, **one.found.numbers}.items())
            index = ", ".join(f"{name}={position}" for name, position in found.index.items())
            yield from _row("counter", f"{outcome.claim.name}[{index}] is {found.left}, not {found.right}, at {sizes}")
        forms = normal_forms(outcome)
        if forms is not None:
            yield from _row("code", forms[0])
            yield from _row("wanted", forms[1])
        elif outcome.verdict is Verdict.UNDECIDED and outcome.detail:
            yield from _row("why", outcome.detail)


def _row(name: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"  {name:<9} ", subsequent_indent=" " * 12) or [f"  {name}"]
