"""What is known of an implementation after trying to prove it, as data.

Defines `CaseProof`, one way of calling, `CodeProof`, all of them, and `with_audit`, which adds what the audit in
numbers found of code that is not proved: the names of faults, and entries that running it got wrong.  How they come
about is in `mha_sym.audit.proving.code`, how they are shown in `mha_sym.audit.proving.report`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mha_sym.audit.compared import Compared
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.precision import ROUNDOFF, coarser
from mha_sym.audit.proving.imported import Import
from mha_sym.audit.proving.trace import Departure
from mha_sym.audit.reports.reported import Reported
from mha_sym.errors import Problem
from mha_sym.importers.lifting.lift import Lift, Masked
from mha_sym.importers.lifting.lookups import looked_up
from mha_sym.proof.theorem import Outcome, Verdict

#: what every proof is about, and what it leaves out
OVER_THE_REALS = "over real numbers: rounding, overflow, NaN and infinities as values are left out"
#: code may ask for these, and a trace does not show that it did
SAME_WAY = "in evaluation mode; and the code goes the same way in all formats of numbers, with gradients and without"


@dataclass(frozen=True)
class CaseProof:
    """What is known of one way of calling.

    Attributes:
        case: its name.
        verdict: of all outputs together.
        outcomes: what the prover says, one for each output.
        found: the import.
        lifted: the import as expressions.
        agreed: the sizes at which graph and code agreed in numbers.
        departure: where the code departs from the specification, if it is not proved.
        discharged: conditions on sizes whose other side was proved as well, one sentence each.
        open: conditions on sizes that the proof needs, with their places.
        needs: the same without.
        tied: sizes that are taken for equal, since the code runs or can be followed only there: ``d_v = d_k``.
    """

    case: str
    verdict: Verdict
    outcomes: tuple[Outcome, ...]
    found: Import
    lifted: Lift
    agreed: tuple[dict[str, int], ...] = ()
    departure: Departure | None = None
    discharged: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    tied: str = ""


@dataclass(frozen=True)
class CodeProof:
    """What is known of an implementation.

    Attributes:
        target: what it is called.
        layout: how its weights are stored.
        cases: one for each way of calling.
        seconds: how long it took, by part: ``import``, ``prove``.
        problem: why the code could not be read as an expression.
        notes: what else a reader should know.
        against: the other implementation that it is compared with, if it is not the specification.
        conventions: what the specification is, in one line.
        faults: what the catalogue says of code that is refuted: faults that reproduce what it gives.
        ran: where nothing could be decided on the code, an entry for every way of calling that running it got wrong,
            farther off than rounding can make it.  This refutes the code as it runs; it is found, not proved.
    """

    target: str
    layout: str = ""
    cases: tuple[CaseProof, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    problem: Problem | None = None
    notes: tuple[str, ...] = ()
    against: str = ""
    conventions: str = ""
    faults: tuple[Explanation, ...] = ()
    ran: tuple[Compared, ...] = ()

    @property
    def only_ran(self) -> bool:
        """Whether it is refuted by running it and not by a proof."""
        return bool(self.ran)

    @property
    def where(self) -> tuple[str, ...]:
        """What sizes must satisfy for it to be proved, as far as it is."""
        every = (words for one in self.cases for words in (*one.needs, one.tied) if words)
        return tuple(dict.fromkeys(every))

    @property
    def biased(self) -> bool:
        """Whether the specification has a bias that the code computes from positions."""
        return any(found.computed for one in self.cases for found in looked_up(one.found.graph)[1])

    @property
    def verdict(self) -> Verdict:
        """Refuted if a case is, proved if all are, undecided otherwise."""
        found = {one.verdict for one in self.cases}
        if Verdict.REFUTED in found or self.ran:
            return Verdict.REFUTED
        proved = found == {Verdict.PROVED} and self.problem is None
        return Verdict.PROVED if proved else Verdict.UNDECIDED

    @property
    def fixed(self) -> dict[str, int]:
        """Sizes that the code, or the object, fixes."""
        pairs = {name: size for one in self.cases for name, size in one.found.numbers.items()}
        return dict(sorted(pairs.items()))

    @property
    def symbolic(self) -> tuple[str, ...]:
        """Sizes for all values of which the statement is made."""
        used: set[str] = set()
        for one in self.cases:
            axes = [a for o in one.outcomes for a in (*o.claim.left.axes, *o.claim.right.axes)]
            arrays = [e.value if isinstance(e, Masked) else e for e in one.found.statement.inputs.values()]
            inputs = [a for e in arrays for a in e.axes]
            used |= {s.name for a in (*axes, *inputs) for s in a.size.free_symbols}
        return tuple(sorted(used))


def with_audit(proof: CodeProof, report: Reported) -> CodeProof:
    """A proof of code that is not proved for all its sizes, with what the audit in numbers found.

    What is proved for all sizes stays proved whatever the numbers are: they may be off by more than the bound where the
    code rounds more than it should, which a note says.

    Args:
        proof: of the implementation, against the specification.
        report: of a check of the same implementation.
    """
    if proof.against or report.first_wrong is None:
        return proof
    if proof.verdict is Verdict.REFUTED:
        return replace(proof, faults=report.faults)
    if proof.verdict is Verdict.PROVED and proof.biased:
        note = "numbers were compared with those of attention without position_bias, from which they differ"
        return replace(proof, notes=(*proof.notes, note))
    if proof.verdict is Verdict.PROVED and all(map(_for_all, proof.cases)):
        return replace(proof, notes=(*proof.notes, _numbers_are_off(proof, report)))
    decided = {one.case for one in proof.cases if _for_all(one)}
    wrong = {one.case: one for one in reversed(report.stages) if not one.ok and one.case not in decided}
    return replace(proof, faults=report.faults, ran=tuple(reversed(wrong.values())))


def _for_all(one: CaseProof) -> bool:
    """Whether a way of calling is proved, and at no sizes that were chosen because the code wants numbers."""
    return one.verdict is Verdict.PROVED and not one.found.leaks


def _numbers_are_off(proof: CodeProof, report: Reported) -> str:
    """Why the numbers of code that is proved may be wrong all the same."""
    worst = max(report.compared, key=lambda one: one.excess)
    room = f"where that rounds by {worst.bound.value:.2g} at most"
    off = f"run in {report.dtype} it is off by {worst.difference:.2g}, {room}"
    kind = coarser(report.dtype, worst.excess)
    short = [] if kind is None else [name for name, unit in ROUNDOFF.items() if unit >= ROUNDOFF[kind]]
    casts = [cast for one in proof.cases for cast in one.found.graph.notes.casts]
    kind = next((name for name in short for cast in casts if f"to {name} at " in cast), None)
    if kind is None:
        return f"{off}: a proof over the real numbers says nothing of overflow, and of digits that are lost"
    return f"{off}: it rounds to {kind} on the way, which explains it; say dtype={kind!r} and it is judged in that"
