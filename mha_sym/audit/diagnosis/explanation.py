"""Explanations as data: faults that reproduce an output, what cannot be told from them, and all that was found.

Defines `Twin`, `Explanation` and `Diagnosis`.  Nothing is searched here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mha_sym.attention.forms import Stages
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.faults import Fault, name_of
from mha_sym.audit.layouts.others import OtherLayout


@dataclass(frozen=True)
class Twin:
    """Other faults that give the same output, and what is known of that."""

    names: tuple[str, ...]
    proved: bool
    words: str


@dataclass(frozen=True, eq=False)
class Explanation:
    """Faults that together reproduce what the implementation gives.

    Attributes:
        faults: one fault, two or three.
        probes: on how many independent draws the output is reproduced.
        telling: on how many of these the faults change the output at all.
        difference: the largest difference that is left.
        bound: the bound at that place.
        cases: the ways of calling that are explained, empty if all are.
        twins: other faults that cannot be told from these.
        farther: other faults that fit within the bound, too, but leave a much larger difference.
        evidence: a run that shows it.
        order: the order of heads, where heads are permuted.
        hidden_at: coincidences of sizes at which a test would not see it: ``h = 1``, ``T = h``, ...
        proviso: what is alike at the sizes of all runs, where these are fixed.
    """

    faults: tuple[Fault, ...]
    probes: int
    telling: int
    difference: float
    bound: float
    evidence: Evidence = field(repr=False)
    cases: tuple[str, ...] = ()
    twins: tuple[Twin, ...] = ()
    farther: tuple[Twin, ...] = ()
    order: tuple[int, ...] = ()
    hidden_at: tuple[str, ...] = ()
    proviso: str = ""

    @property
    def name(self) -> str:
        """The names, joined by a plus sign."""
        return name_of(self.faults)

    @property
    def names(self) -> frozenset[str]:
        """All names under which it is known: its own and those of its twins."""
        return frozenset({self.name, *(name for twin in self.twins for name in twin.names)})

    @property
    def words(self) -> str:
        """What is wrong, in sentences."""
        order = f" (order of heads: {', '.join(map(str, self.order))})" if self.order else ""
        return " ".join(one.words for one in self.faults) + order

    @property
    def symptom(self) -> str:
        """What people see."""
        return " ".join(one.symptom for one in self.faults)

    @property
    def mend(self) -> str:
        """What should stand there."""
        return "; ".join(one.mend for one in self.faults)

    @property
    def where(self) -> str:
        """The steps and stages."""
        return "; ".join(one.where for one in self.faults)

    @property
    def confidence(self) -> str:
        """How sure this is."""
        probes = f"{self.probes} independent probe{'s' if self.probes != 1 else ''}"
        rows = ", NaN in the same rows" if self.evidence.nan is not None else ""
        proviso = f"; {self.proviso}" if self.proviso else ""
        return f"exact to rounding on {probes} ({self.telling} of which show the fault){rows}{proviso}"

    @property
    def forms(self) -> tuple[Stages, Stages]:
        """The correct form and the faulty one, on the axes of the evidence."""
        forms = self.evidence.forms_for(self.faults)
        faulty = forms.form(*self.faults)
        assert faulty is not None  # it was evaluated
        return forms.right, faulty

    @property
    def apart(self) -> tuple[tuple[Stages, Stages], ...]:
        """The same for each of the faults alone, where that is possible."""
        forms = self.evidence.forms_for(self.faults)
        alone = [forms.form(one) for one in self.faults]
        return tuple((forms.right, one) for one in alone if one is not None)


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        found: what reproduces the output, best first.
        singles: how many single faults were tried.
        pairs: how many pairs were tried.
        triples: how many sets of three were tried.
        symmetries: what the implementation does differently with the same result, seen in the stages it shows.
        layouts: other layouts under which the output is right, where no fault explains it.
        effects: how far each fault would move the output on these draws, in units of the bound.
    """

    found: tuple[Explanation, ...] = ()
    singles: int = 0
    pairs: int = 0
    triples: int = 0
    symmetries: tuple[Explanation, ...] = ()
    layouts: tuple[OtherLayout, ...] = ()
    effects: Mapping[str, float] = field(default_factory=dict)

    @property
    def invisible(self) -> tuple[str, ...]:
        """Faults that would change the output by less than the bound on every draw."""
        return tuple(name for name, effect in self.effects.items() if effect <= 1)
