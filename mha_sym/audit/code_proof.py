"""What is known of an implementation after trying to prove it, as data.

Defines `CaseProof`, one way of calling, and `CodeProof`, all of them.  How they come about is in
`mha_sym.audit.prove_code`, how they are shown in `mha_sym.audit.proof_report`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import sympy

from mha_sym.audit.proof_import import Import
from mha_sym.audit.proof_trace import Departure
from mha_sym.errors import Problem
from mha_sym.importers.lift import Lift, Masked
from mha_sym.proof.theorem import Outcome, Verdict

#: what every proof is about, and what it leaves out
OVER_THE_REALS = "over real numbers: rounding, overflow, NaN and infinities as values are left out"


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
        open: conditions on sizes that the proof needs.
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
    """

    target: str
    layout: str = ""
    cases: tuple[CaseProof, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    problem: Problem | None = None
    notes: tuple[str, ...] = ()
    against: str = ""
    conventions: str = ""

    @property
    def verdict(self) -> Verdict:
        """Refuted if a case is, proved if all are, undecided otherwise."""
        found = {one.verdict for one in self.cases}
        if Verdict.REFUTED in found:
            return Verdict.REFUTED
        proved = found == {Verdict.PROVED} and self.problem is None
        return Verdict.PROVED if proved else Verdict.UNDECIDED

    @property
    def fixed(self) -> dict[str, int]:
        """Sizes that the code, or the object, fixes."""
        sizes = [one.found.sizes for one in self.cases]
        pairs = {n: int(s) for found in sizes for n, s in found.items() if sympy.sympify(s).is_Integer}
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
