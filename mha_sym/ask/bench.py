"""Asking the library: a claim proved, a control refuted, an expression counted, run or refused, each as a `Finding`.

Defines `Bench`, which loads each theorem once and proves only what is asked for, and `refusal` and `shape_text`.  Every
result is computed when it is asked for, or is that of a report that was made just now; what cannot be had is reported
as a finding that does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mha_sym.errors import Problem
from mha_sym.library import load
from mha_sym.proof.prover import Prover
from mha_sym.proof.theorem import Counterexample, Outcome, Report, Theorem, Verdict
from mha_sym.render.questions.question import Finding
from mha_sym.render.report_json import scope
from mha_sym.render.sentences import in_order, numbers

Reports = Mapping[str, Report]

#: which head: h is how many there are
HEAD = "r"


class Bench:
    """Theorems that are loaded, and what was proved of them.

    Args:
        reports: what is known already, by the names of theorems.

    Example:
        >>> bench = Bench()
        >>> bench.proved("parameter_count", "without_biases").result
        'proved for all sizes'
    """

    def __init__(self, reports: Reports = MappingProxyType({})) -> None:
        self._theorems = {name: one.theorem for name, one in reports.items()}
        self._provers: dict[str, Prover] = {}
        self._known = {
            name: {found.claim.name: found for found in one.claims + one.controls} for name, one in reports.items()
        }

    def _theorem(self, name: str) -> Theorem:
        if name not in self._theorems:
            self._theorems[name] = theorem = load(name)
            self._provers[name] = Prover(theorem, recheck=False)
            self._known[name] = {}
        return self._theorems[name]

    def proved(self, theorem: str, claim: str, words: str = "") -> Finding:
        """A claim, with those before it that its proof may use."""
        known = self._known.get(theorem, {})
        for one in self._theorem(theorem).claims:
            if claim in known:
                break
            known = self._known[theorem]
            known[one.name] = self._provers[theorem].claim(one)
        found = known[claim]
        held = found.verdict is Verdict.PROVED
        result = f"proved {_sizes(found)}" if held else found.verdict.value
        return Finding("prove", words or found.claim.words, result, held, theorem, claim)

    def refuted(self, theorem: str, control: str, words: str = "") -> Finding:
        """A control of a theorem, tried on its own."""
        stated = self._theorem(theorem)
        one = next(found for found in stated.controls if found.name == control)
        known = self._known[theorem]
        if control not in known:
            known[control] = Prover(replace(stated, claims=(), controls=()), recheck=False).control(one)
        found = known[control]
        held = found.verdict is Verdict.REFUTED and found.counterexample is not None
        result = found.verdict.value
        if found.counterexample is not None:
            result += f": {counterexample_text(found.counterexample)}"
        return Finding("refute", words or one.words, result, held, theorem, control)


def _sizes(found: Outcome) -> str:
    told = scope([found.claim])
    return f"for {told}" if told.startswith("all") else told


def counterexample_text(found: Counterexample) -> str:
    """Both values and where they are.

    Example:
        >>> counterexample_text(Counterexample({"T": 2}, {"t": 0}, "1/2", "[0.33333333 +/- 1e-9]"))
        'left 1/2, right ≈ 0.333333 at entry t=0, with T=2'
    """
    place = numbers({HEAD if name == "h" else name: n for name, n in found.index.items()})
    sizes = numbers(in_order(found.sizes))
    told = f"left {_value(found.left)}, right {_value(found.right)}" + (f" at entry {place}" if place else "")
    return told + (f", with {sizes}" if sizes else "")


def _value(text: str) -> str:
    """An exact number as it is, an enclosure by its middle."""
    if not text.startswith("["):
        return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
    middle = text.strip("[]").split()[0]
    try:
        return f"≈ {float(middle):.6g}"
    except ValueError:
        return f"≈ {text}"


def refusal(words: str, attempt: Callable[[], Any]) -> Finding:
    """What the library says to something that cannot be; that it says nothing does not hold."""
    try:
        attempt()
    except Problem as problem:
        return Finding("build", words, f"refused: {problem.what}")
    return Finding("build", words, "not refused", holds=False)


def shape_text(array: Any) -> str:
    """The shape of an array: ``(2, 5)``."""
    return "(" + ", ".join(str(int(n)) for n in array.shape) + ")"
