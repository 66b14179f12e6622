"""What a theorem is, and what is known of it after trying: statements and results as frozen data.

Defines `Claim`, `Control`, `Assumption`, `Theorem`, and the results `Outcome` and `Report`.  Proving is
in `mha_sym.proof.prover`, refuting in `mha_sym.proof.refute`, showing in `mha_sym.render`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mha_sym.errors import AxisProblem, show_axes
from mha_sym.expr import Expr
from mha_sym.shown import Shown


class Verdict(StrEnum):
    """Three different words; none is ever reported as another."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Assumption:
    """What the statement takes for granted, in words and, where a proof uses it, as an expression.

    Attributes:
        words: one sentence, printed with the theorem.
        positive: an expression each of whose entries is assumed to be positive, such as the number of
            keys that a row keeps.
    """

    words: str
    positive: Expr | None = None


@dataclass(frozen=True)
class Claim:
    """``left = right`` at every entry, for all values of the inputs and all sizes that are symbols.

    Attributes:
        name: a word for the stage or part, e.g. ``Q`` or ``weights``.
        left: an expression.
        right: an expression with the same axes, in any order.
        words: the claim as a sentence.
    """

    name: str
    left: Expr
    right: Expr
    words: str = ""

    def __post_init__(self) -> None:
        if set(self.left.axes) != set(self.right.axes):
            raise AxisProblem(
                "the two sides have different axes",
                where=f"claim {self.name}",
                axes=[show_axes(self.left.axes), show_axes(self.right.axes)],
            )


@dataclass(frozen=True)
class Control(Claim):
    """A false neighbour of a theorem: the same shape, wrong, and to be refuted.

    ``words`` says what was done wrong.  ``sizes`` fixes symbolic sizes, by symbol name, for a control that is
    about coinciding sizes, such as ``{"T": "h"}``.
    """

    sizes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Theorem(Shown):
    """A theorem: claims proved in order (later ones may use earlier ones), assumptions, and controls.

    Attributes:
        name: snake_case, spells the conclusion, e.g. ``combined_eq_separate``.
        title: the same in words, short.
        words: the statement for a reader, one to three sentences.
        claims: what is proved, in order.
        controls: what must be refuted.
        assumptions: what is taken for granted beyond positive sizes.
        source: paper, standard or textbook that states or uses it.
    """

    name: str
    title: str
    words: str
    claims: tuple[Claim, ...]
    controls: tuple[Control, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Counterexample:
    """Where two sides differ: sizes, the inputs' exact values, the position, and both values there.

    ``left`` and ``right`` are exact rationals or rigorous enclosures (``[1.0986 +/- 2e-15]``), as text.
    """

    sizes: dict[str, int]
    index: dict[str, int]
    left: str
    right: str
    inputs: dict[str, Any] = field(default_factory=dict)
    permutations: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What is known of one claim or control.

    ``certificates`` holds one `mha_sym.proof.checker.Certificate` a goal, each replayed by the checker in
    ``context``; ``reasons`` says in words why a name may be opened.  ``normal_forms`` are the terms at which
    an undecided claim stuck.  ``detail`` says why it was given up, or which engine could not confirm a proved
    claim; ``rechecked`` names the sizes at which the explicit SymPy forms agreed, and ``bound`` is at most the
    probability with which a false claim would have agreed at the random points of finite fields.  ``seconds`` are
    those of the processor.
    """

    claim: Claim
    verdict: Verdict
    seconds: float
    certificates: tuple[Any, ...] = ()
    context: Any = None
    counterexample: Counterexample | None = None
    detail: str = ""
    rechecked: tuple[dict[str, int], ...] = ()
    bound: float = 1.0
    normal_forms: tuple[Any, Any] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of rule applications in the certificates."""
        return sum(len(c.left) + len(c.right) for c in self.certificates)


@dataclass(frozen=True)
class Report(Shown):
    """What is known of a theorem: proved only if every claim is.  ``seconds`` are those of the processor."""

    theorem: Theorem
    claims: tuple[Outcome, ...]
    controls: tuple[Outcome, ...]
    seconds: float

    @property
    def verdict(self) -> Verdict:
        """Refuted if a claim is, proved if all are, undecided otherwise."""
        found = [o.verdict for o in self.claims]
        if Verdict.REFUTED in found:
            return Verdict.REFUTED
        return Verdict.PROVED if set(found) == {Verdict.PROVED} else Verdict.UNDECIDED

    @property
    def refuted(self) -> int:
        """How many controls were refuted."""
        return sum(o.verdict is Verdict.REFUTED for o in self.controls)

    @property
    def holds(self) -> bool:
        """Proved, and every control refuted."""
        return self.verdict is Verdict.PROVED and self.refuted == len(self.controls)

    @property
    def steps(self) -> int:
        """Rule applications over all claims."""
        return sum(o.steps for o in self.claims)
