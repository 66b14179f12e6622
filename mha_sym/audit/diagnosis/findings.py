"""What an audit found besides the comparison of stages, as data.

Defines `Findings`.  It is made in `mha_sym.audit.diagnosis.inquiry` and shown in `mha_sym.audit.reports.findings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mha_sym.audit.diagnosis.explanation import Diagnosis
from mha_sym.audit.diagnosis.probes import Probe
from mha_sym.audit.diagnosis.steps import Step


@dataclass(frozen=True)
class Findings:
    """What an audit found besides the comparison of stages.

    Attributes:
        diagnosis: the faults that reproduce the output, and the symmetries that explain stages.
        steps: the nine steps of the audit.
        probes: what the probes that need no oracle showed; they are made only where something is wrong.
        head_mask: the locations at which a head mask may act; None if the implementation takes none.
        gates_badly: what is wrong with how its head mask acts; nothing if a head is removed by a 0.
    """

    diagnosis: Diagnosis = field(default_factory=Diagnosis)
    steps: tuple[Step, ...] = ()
    probes: tuple[Probe, ...] = ()
    head_mask: tuple[str, ...] | None = None
    gates_badly: str = ""
