"""The table in the README that says what each verdict rests on, worked out from the code and the library.

``python -m tests.soundness.trust`` writes it between its two marks; a test compares.  Lines are lines of code, without
comments and docstrings.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mha_sym.export.coq import coq_file
from mha_sym.export.coq_terms import NotExported
from mha_sym.library import load, theorem_names
from mha_sym.proof.prover import prove
from mha_sym.proof.rules import RULES
from mha_sym.proof.theorem import Outcome, Report
from tests.soundness.attacks import ATTACKS
from tests.soundness.run import PARTS
from tests.test_layers import TRUSTED, code_lines, path_of

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- trust table: made by python -m tests.soundness.trust -->", "<!-- end of the trust table -->"

MEANING = ("axes", "expr", "proof.meaning")
FIELD = ("proof.field", "proof.field_facts", "proof.field_nodes", "proof.exponential_sums", "proof.denominators")
SYMPY = ("proof.witness", "proof.deferred", "proof.exp_rational")
EXACT = ("evaluate", "compute", "arrays", "exact", "proof.balls", "proof.refute")
FILES = ("proof.schema", "proof.reader", "proof.recheck")


@dataclass(frozen=True)
class Evidence:
    """What the engines say of the theorems of the library."""

    theorems: int
    claims: tuple[Outcome, ...]
    exported: int

    @property
    def steps(self) -> int:
        return sum(one.steps for one in self.claims)

    @property
    def in_fields(self) -> tuple[Outcome, ...]:
        """The claims that agreed at random points."""
        return tuple(one for one in self.claims if one.bound < 1)


def evidence() -> Evidence:
    """Prove every theorem of the library, its controls aside."""
    reports = [prove(replace(load(name), controls=())) for name in theorem_names()]
    claims = tuple(one for report in reports for one in report.claims)
    return Evidence(len(reports), claims, sum(map(_exported, reports)))


def _exported(report: Report) -> bool:
    try:
        coq_file(report)
    except NotExported:
        return False
    return True


def lines(modules: Sequence[str]) -> str:
    return f"{sum(code_lines(path_of(one)) for one in modules)} lines"


def files(modules: Sequence[str]) -> str:
    return ", ".join(f"`{one.removeprefix('proof.')}`" for one in modules)


def table(found: Evidence) -> str:
    """The table in Markdown."""
    claims, bound = len(found.claims), max(one.bound for one in found.in_fields)
    explicit = sum(bool(one.rechecked) for one in found.claims)
    rows = [
        ("*proved*", f"the checker, which replays the proof: {files(TRUSTED)}",
         f"{lines(TRUSTED)}, {len(RULES)} laws; {found.steps:,} steps in the library"),
        ("", f"how the statement is read: {files(MEANING)}", lines(MEANING)),
        ("", f"not denied at random points of finite fields: {files(FIELD)}",
         f"{lines(FIELD)}; agrees with {len(found.in_fields)} of {claims} claims, a false one would at "
         f"the sizes drawn with probability at most {bound:.0e}"),
        ("", f"not denied by SymPy at small sizes: {files(SYMPY)}",
         f"{lines(SYMPY)}; agrees with {explicit} of {claims} claims"),
        ("*proved*, with `--coq`", "Coq, mathcomp and `proofs/coq/rules.v`; of the exponential only that "
         "exp(a + b) = exp(a) exp(b) and that it is positive",
         f"one lemma a step, {found.exported} of {found.theorems} theorems"),
        ("*refuted*", f"both sides evaluated in fractions, or in real balls that are disjoint: {files(EXACT)}",
         lines(EXACT)),
        ("*undecided*", "nothing, and nothing is claimed", ""),
        ("*accepted* by `recheck`", f"the checker, and what reads the file: {files(FILES)}",
         f"{lines(FILES)}; no search, no installed package"),
        ("*agrees* by `check`", "numbers at some draws, within a bound on rounding", "evidence, not a proof"),
        ("outside all of these", "the statement itself; real numbers for floats; what reads other people's code and "
         "weights; Python and the machine", ""),
    ]  # fmt: skip
    head = ["| said | rests on | how much that is |", "|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)])


def attempts() -> str:
    """What `make soundness` tries."""
    number = {name: f"{part.most:,}" for name, part in PARTS.items()}
    return (
        "`make soundness` tries to make the engines contradict each other: on "
        f"{number['mutants']} false neighbours of the theorems, {number['rewrites']} random expressions and correct "
        f"rewrites of them, every field of every certificate changed, {number['forged']} certificates forged at random "
        f"and {number['hostile']} hostile files; it changes the prover itself in {number['edits']} places, of which "
        f"tests have to notice nine in ten.  CI tries some of each, and forged proofs of {len(ATTACKS)} false or "
        "senseless statements."
    )


def section(found: Evidence) -> str:
    """All that stands between the marks, lines of text no longer than elsewhere in the README."""
    return f"{table(found)}\n\n{textwrap.fill(attempts(), 120)}"


def shown() -> str:
    """What stands between the marks."""
    return README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def main() -> int:
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{README.name} has no place for the table: {BEGIN} ... {END}")
    README.write_text(f"{before}{BEGIN}\n\n{section(evidence())}\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
