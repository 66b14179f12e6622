"""What a check found, as data, with its text and its JSON.

Defines `Compared`, `Convention` and `CheckReport`.  Nothing here runs or compares anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from mha_sym.audit.backing import Backing
from mha_sym.audit.bounds import Bound
from mha_sym.audit.precision import arithmetic, roundoff
from mha_sym.errors import Problem

if TYPE_CHECKING:
    from mha_sym.audit.diagnose import Explanation
    from mha_sym.audit.inquiry import Findings
    from mha_sym.audit.probes import Probe
    from mha_sym.audit.steps import Step

Verdict = Literal["agree", "disagree", "error"]

#: what the exit code of the command says
EXIT_CODES: dict[Verdict, int] = {"agree": 0, "disagree": 1, "error": 2}


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


@dataclass(frozen=True)
class CheckReport:
    """The result of checking an implementation.

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

    def text(self) -> str:
        """The report for people, in plain text."""
        if not self.compared:
            return "\n".join([self._headline(), *_problem(self.problem)])
        from mha_sym.audit.findings_text import answer_of, evidence_of  # it reads this file's data

        answer = [] if self.findings is None else answer_of(self.findings, self.verdict)
        evidence = [] if self.findings is None else evidence_of(self.findings)
        blocks = [
            [self._headline()], *answer, self._facts(), *evidence, _table(self.stages, bool(self.symmetries)),
            self._reading(), _problem(self.problem),
        ]  # fmt: skip
        return "\n\n".join("\n".join(block) for block in blocks if block)

    def json(self) -> dict[str, Any]:
        """The report for programs, made of dicts, lists, strings and numbers."""
        from mha_sym.audit.findings_text import findings_json

        return {
            "target": self.target,
            "verdict": self.verdict,
            "theorem": {"name": self.backing.theorem, "verdict": self.backing.verdict, "steps": self.backing.steps},
            "dtype": self.dtype,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "sizes": _draws(self.compared),
            "coincide": list(self.coincide),
            "conventions": {c.name: {"value": c.value, "said_by": c.said_by} for c in self.conventions},
            **findings_json(self.findings),
            "stages": [_stage_json(one) for one in self.stages],
            "bounds": {
                "unit_roundoff": roundoff(self.dtype), "rule": _RULE, "arithmetic": arithmetic(self.dtype).words,
            },
            "notes": list(self.notes),
            "problem": None if self.problem is None else self.problem.one_line(),
        }

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        from mha_sym.audit.findings_text import html_of

        return html_of(self.text(), self.verdict, self.findings)

    def _headline(self) -> str:
        draws, cases = len(self.compared), len({one.case for one in self.compared})
        if self.verdict == "agree":
            ways = f"{cases} ways of calling" if cases > 1 else "one way of calling"
            return f"AGREES      {self.target}: within the bound in {draws} comparisons over {ways}"
        if self.verdict == "error":
            return f"COULD NOT BE CHECKED   {self.target}"
        wrong = self.first_wrong
        assert wrong is not None  # a report that disagrees has a stage that does
        off = sum(not one.ok for one in self.stages)
        return (
            f"DISAGREES   {self.target}: {off} of {len(self.stages)} stages;"
            f" first {wrong.stage} ({wrong.case}), by {wrong.difference:.3g} at {wrong.place}"
        )

    def _facts(self) -> list[str]:
        rows = [(c.name, c.value + (f"  ({c.said_by})" if c.said_by else "")) for c in self.conventions]
        rows += [("sizes", text) for text in _sizes_in_words(_draws(self.compared))]
        rows += [("coincide", "; ".join(self.coincide) or "none: every size and product of sizes is distinct")]
        rows += [("note", note) for note in self.notes]
        return [f"  {name:<12} {value}" for name, value in rows]

    def _reading(self) -> list[str]:
        lines = [
            f"  specification: the combined form, by theorem {self.backing.theorem} the same as separate heads;",
            f"  with this layout, these biases and any masks: {self.backing.verdict} for all sizes,"
            f" {self.backing.steps} steps replayed",
            "  the comparison with it is of numbers, on these draws only",
            f"  bound: {_RULE};",
            f"  {arithmetic(self.dtype).words};",
            f"  u = {roundoff(self.dtype):.2g} ({self.dtype}) for the implementation,"
            f" {roundoff('float64'):.2g} for this evaluation; both add up",
        ]
        wrong = self.first_wrong
        if wrong is not None:
            lines.append(
                f"  {wrong.stage}[{wrong.place}] is {wrong.got:.10g}, should be {wrong.expected:.10g}, at "
                + ", ".join(f"{name}={n}" for name, n in wrong.sizes.items())
            )
        return lines


_RULE = (
    "the worst case, entry by entry: growth(n) = n u/(1 - n u) over the n terms summed on the way, without"
    " cancellation, and what errors of the scores do to the weights"
)


def _draws(compared: Sequence[Compared]) -> list[dict[str, int]]:
    """The sizes of the draws, each once."""
    return [dict(sizes) for sizes in {tuple(one.sizes.items()): None for one in compared}]


def _sizes_in_words(draws: Sequence[Mapping[str, int]]) -> list[str]:
    """The sizes that all draws share, and the others draw by draw."""
    fixed = [name for name in draws[0] if len({sizes[name] for sizes in draws}) == 1]
    varied = [name for name in draws[0] if name not in fixed]
    lines = [", ".join(f"{name}={draws[0][name]}" for name in fixed)] if fixed else []
    if varied:
        each = [f"({', '.join(str(sizes[name]) for name in varied)})" for sizes in draws]
        lines.append(f"({', '.join(varied)}) = {' '.join(each)}")
    return lines


def _stage_json(one: Compared) -> dict[str, Any]:
    return {
        "case": one.case,
        "stage": one.stage,
        "ok": one.ok,
        "difference": one.difference,
        "bound": one.bound.value,
        "terms": one.bound.terms,
        "magnitude": one.bound.magnitude,
        "where": one.place,
        "expected": one.expected,
        "got": one.got,
        "sizes": dict(one.sizes),
        "weights": one.weights,
    }


def _table(stages: Sequence[Compared], excused: bool = False) -> list[str]:
    head = ("case", "stage", "difference", "bound", "n", "where", "")
    rows = [
        (
            one.case, one.stage, f"{one.difference:.2e}", f"{one.bound.value:.2e}", str(one.bound.terms), one.place,
            "ok" if one.ok else "same function" if excused else "WRONG",
        )
        for one in stages
    ]  # fmt: skip
    width = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        ("  " + "  ".join(cell.ljust(width[n]) for n, cell in enumerate(row))).rstrip() for row in (head, *rows)
    ]


def _problem(problem: Problem | None) -> list[str]:
    return [] if problem is None else [f"  {line}" for line in str(problem).split("\n")]
