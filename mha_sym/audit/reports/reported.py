"""The result of a check as data, and what follows from it: the verdict, the worst draw of each stage.

Defines `Reported`.  How it is shown is in `mha_sym.audit.reports.text` and beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mha_sym.audit.backing import Backing
from mha_sym.audit.compared import Compared, Convention
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.diagnosis.findings import Findings
from mha_sym.audit.diagnosis.probes import Probe
from mha_sym.audit.diagnosis.steps import Step
from mha_sym.errors import Problem

Verdict = Literal["agree", "disagree", "error"]

#: what the exit code of the command says
EXIT_CODES: dict[Verdict, int] = {"agree": 0, "disagree": 1, "error": 2}


@dataclass(frozen=True)
class Reported:
    """The result of checking an implementation, as data; `mha_sym.audit.reports.report.CheckReport` can be shown.

    Attributes:
        target: what was checked.
        compared: every comparison, in the order in which they were made.
        conventions: what was found or said of the implementation.
        coincide: sizes that are equal although different axes have them: what this check cannot tell apart.
        notes: what else a reader should know, one sentence each.
        dtype: the format in which the implementation computed.
        seed: the seed of all draws.
        seconds: the time it took.
        backing: what is proved of the specification.
        problem: why it could not be run, or not to the end.
        findings: the faults that reproduce its output, the nine steps of the audit, and what probes showed.
    """

    target: str
    compared: tuple[Compared, ...] = ()
    conventions: tuple[Convention, ...] = ()
    coincide: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dtype: str = "float64"
    seed: int = 0
    seconds: float = 0.0
    backing: Backing = field(default_factory=Backing)
    problem: Problem | None = None
    findings: Findings | None = None

    @property
    def faults(self) -> tuple[Explanation, ...]:
        """The faults that reproduce the output, best first; none if it agrees or nothing known explains it."""
        return () if self.findings is None else self.findings.diagnosis.found

    @property
    def gates_badly(self) -> str:
        """What is wrong with how its head mask acts, without which it is not in question here."""
        return "" if self.findings is None else self.findings.gates_badly

    @property
    def symmetries(self) -> tuple[Explanation, ...]:
        """What it does differently with the same result, where the stages that it shows tell."""
        return () if self.findings is None else self.findings.diagnosis.symmetries

    @property
    def steps(self) -> tuple[Step, ...]:
        """The nine steps of the audit."""
        return () if self.findings is None else self.findings.steps

    @property
    def probes(self) -> tuple[Probe, ...]:
        """What the probes that need no oracle showed."""
        return () if self.findings is None else self.findings.probes

    @property
    def verdict(self) -> Verdict:
        """``disagree`` if any stage does; ``error`` if it could not be run to the end, or nothing was compared.

        Stages that differ only because the same function is computed differently do not count.
        """
        if not all(one.ok for one in self.compared) and not self.symmetries:
            return "disagree"
        if self.compared and self.gates_badly:
            return "disagree"
        return "error" if self.problem is not None or not self.compared else "agree"

    @property
    def ok(self) -> bool:
        """Whether it agrees with the specification everywhere."""
        return self.verdict == "agree"

    @property
    def exit_code(self) -> int:
        """0 agree, 1 disagree, 2 could not be run."""
        return EXIT_CODES[self.verdict]

    @property
    def stages(self) -> tuple[Compared, ...]:
        """For every case and stage the draw that was farthest off, in order."""
        worst: dict[tuple[str, str], Compared] = {}
        for one in self.compared:
            key = (one.case, one.stage)
            if key not in worst or one.excess > worst[key].excess:
                worst[key] = one
        return tuple(worst.values())

    @property
    def first_wrong(self) -> Compared | None:
        """The first stage that disagrees, in the order of the computation, in the first case where one does."""
        return None if self.symmetries else next((one for one in self.stages if not one.ok), None)

    @property
    def draws(self) -> list[Mapping[str, int]]:
        """The sizes of the draws, each once."""
        return [dict(sizes) for sizes in {tuple(one.sizes.items()): None for one in self.compared}]
