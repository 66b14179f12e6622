"""What was compared, as data: conventions, and one stage beside the same stage of the specification.

Defines `Convention` and `Compared`.  Nothing here runs or compares anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mha_sym.audit.bounds import Bound


@dataclass(frozen=True)
class Convention:
    """Something that differs between implementations, what it is in this one, and who says so."""

    name: str
    value: str
    said_by: str


@dataclass(frozen=True)
class Compared:
    """One stage of the implementation beside the same stage of the specification, on one draw.

    Attributes:
        case: the way of calling.
        stage: the stage, a word of `mha_sym.audit.implementation.STAGES`.
        draw: the number of the draw.
        difference: the largest absolute difference.
        bound: how large it may be.
        place: where it is, by axis names: ``b=1, t=0, m=4``.
        expected: the entry of the specification there.
        got: the entry of the implementation there.
        sizes: all sizes of this draw.
        weights: where the weights came from: ``drawn`` or ``its own``.
    """

    case: str
    stage: str
    draw: int
    difference: float
    bound: Bound
    place: str
    expected: float
    got: float
    sizes: Mapping[str, int]
    weights: str

    @property
    def ok(self) -> bool:
        """Whether the difference is within the bound."""
        return self.difference <= self.bound.value

    @property
    def excess(self) -> float:
        """The difference in units of the bound."""
        return self.difference / self.bound.value if self.bound.value else float("inf") * (self.difference > 0)
