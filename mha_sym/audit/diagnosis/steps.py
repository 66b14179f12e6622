"""The nine steps of the audit, each ok, wrong, or not visible from outside with what would make it visible.

Defines `Step`, `STEP_NAMES` and `nine_steps`.  Nothing is run here: a step is read off the stages that were compared,
the diagnosis, and the checks of heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from einops import rearrange

from mha_sym.audit.call import at as place_of
from mha_sym.audit.diagnosis.explanation import Diagnosis
from mha_sym.audit.diagnosis.heads import HeadCheck
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.faults import find_fault
from mha_sym.audit.precision import Array

Status = Literal["ok", "wrong", "not visible from outside"]
HIDDEN: Status = "not visible from outside"

STEP_NAMES: dict[int, str] = {
    1: "sizes and bias convention",
    2: "combined projection widths",
    3: "axis labels before split and transpose",
    4: "scores, masks, softmax rows and values inside each head",
    5: "separate against combined head results",
    6: "inverse transpose",
    7: "concatenation along the head-feature axis",
    8: "W_O: (h d_v, d_model), and selected rows",
    9: "head zeroing and head permutation",
}  # fmt: skip

#: the stages that show a step
_SHOWN_BY: dict[int, tuple[str, ...]] = {
    3: ("q", "k", "v"), 4: ("scores", "weights", "z"), 5: ("z",), 6: ("c",), 7: ("c",), 8: ("y",),
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One step of the audit.

    Attributes:
        step: its number, 1 to 9.
        name: what is looked at.
        status: ``ok``, ``wrong``, or ``not visible from outside``.
        detail: what was seen, or what would make it visible.
    """

    step: int
    name: str
    status: Status
    detail: str


def nine_steps(
    evidence: Sequence[Evidence], diagnosis: Diagnosis, heads: Sequence[HeadCheck], conventions: Mapping[str, str],
    heads_problem: str = "", unseen: str = "",
) -> tuple[Step, ...]:  # fmt: skip
    """All nine steps, in order; none is left out.

    Args:
        evidence: what was compared; nothing if the implementation could not be run.
        diagnosis: the faults that were found.
        heads: what was found of single heads.
        conventions: what is known of the implementation and who says so, in words, by name.
        heads_problem: what went wrong when single heads were looked at.
        unseen: why they were not.
    """
    if not evidence:
        return tuple(Step(n, name, HIDDEN, "it could not be run") for n, name in STEP_NAMES.items())
    agrees = all("y" in one.shown and "y" not in one.wrong for one in evidence)
    view = _View(evidence, diagnosis, conventions)
    judged = [view.explained(n) or (view.agreeing(n) if agrees else view.unexplained(n)) for n in range(1, 9)]
    return (*judged, _ninth(heads, heads_problem, diagnosis, unseen))


class _View:
    """What all steps are read off."""

    def __init__(self, evidence: Sequence[Evidence], diagnosis: Diagnosis, conventions: Mapping[str, str]) -> None:
        self.evidence, self.diagnosis, self.conventions = evidence, diagnosis, conventions
        self.shown = {name for one in evidence for name in one.shown}
        self.wrong = {name for one in evidence for name in one.wrong}
        self.excused = self.wrong - {"y"} if diagnosis.symmetries else set[str]()
        self.wrong -= self.excused
        self.by_step: dict[int, dict[str, str]] = {}
        for fault in (fault for one in diagnosis.found for fault in one.faults):
            self.by_step.setdefault(fault.step, {})[fault.name] = fault.words

    # ------------------------------------------------------------ a fault was found

    def explained(self, n: int) -> Step | None:
        """A step when faults explain the output: theirs are wrong, all others are right."""
        if not self.diagnosis.found:
            return None
        if n in self.by_step:
            return _step(n, "wrong", " ".join(f"{name}: {words}" for name, words in self.by_step[n].items()))
        names = " or ".join(one.name for one in self.diagnosis.found)
        whole = not self.diagnosis.found[0].cases
        first = next(one for one in STEP_NAMES if one not in self.by_step)
        detail = f"{names} alone reproduces the output to rounding"
        if n != first:
            detail = f"nothing more, as in step {first}"
        if not whole:
            detail = "where a fault was found, it explains the output; the other ways of calling are not explained"
        return _step(n, "ok" if whole else HIDDEN, self._fact(n) + detail)

    # ------------------------------------------------------------ the output is right

    def agreeing(self, n: int) -> Step:
        """A step when the output agrees on every draw."""
        seen = [name for name in _SHOWN_BY.get(n, ()) if name in self.shown]
        off = [name for name in seen if name in self.wrong]
        if off:
            return _step(n, "wrong", f"{', '.join(off)} differs although the output agrees: {self._first(off[0])}")
        if n <= 2:
            return _step(n, "ok", self._fact(n).rstrip("; "))
        faults = {name: effect for name, effect in self.diagnosis.effects.items() if _belongs(name, n)}
        hidden = [name for name, effect in faults.items() if effect <= 1]
        told = {name: effect for name, effect in faults.items() if effect > 1}
        detail = f"compared: {', '.join(seen)}; " if seen else ""
        detail += self._excuse([name for name in seen if name in self.excused])
        if told:
            least = min(told, key=lambda name: told[name])
            detail += (
                f"the output agrees, and each of {len(told)} known faults of this step would move it by at least"
                f" {told[least]:.2g} times the bound"
            )
        elif n == 5:
            detail += "the output agrees with that of separate heads, which the specification is proved to be"
        else:
            detail += "the output agrees"
        if not hidden:
            return _step(n, "ok", detail)
        status: Status = "ok" if self._coincide(hidden) or set(seen) else HIDDEN
        return _step(n, status, f"{detail}; invisible here: {', '.join(hidden)} ({self._why(hidden)})")

    def _excuse(self, stages: Sequence[str]) -> str:
        """By which theorem stages are right although they differ."""
        if not stages:
            return ""
        theorems = dict.fromkeys(fault.theorem for one in self.diagnosis.symmetries for fault in one.faults)
        return f"{', '.join(stages)} differs, but is the same function by theorem {' and '.join(theorems)}; "

    def _coincide(self, names: Sequence[str]) -> bool:
        """Whether faults are no faults at these sizes, rather than too small to be seen."""
        unit = self.evidence[0].bounds["y"].value
        return all(self.diagnosis.effects[name] * unit < self._rounding() for name in names)

    def _rounding(self) -> float:
        return 1e-11 * max(1.0, float(np.abs(self.evidence[0].found["y"]).max()))

    def _why(self, hidden: Sequence[str]) -> str:
        return "the same at these sizes" if self._coincide(hidden) else "they move the output by less than the bound"

    # ------------------------------------------------------------ nothing explains the output

    def unexplained(self, n: int) -> Step:
        """A step when the output is wrong and no known fault explains it."""
        if self.diagnosis.layouts:
            return self.under_another_layout(n)
        if n <= 2:
            return _step(n, "ok", self._fact(n) + "every array has the shape that follows from it")
        seen = [name for name in _SHOWN_BY.get(n, ()) if name in self.shown]
        off = [name for name in seen if name in self.wrong]
        if not seen:
            wanted = ", ".join(_SHOWN_BY[n])
            return _step(n, HIDDEN, f"return a dict that has {wanted} besides y, and it is compared")
        if not off:
            return _step(n, "ok", f"compared: {', '.join(seen)}")
        local = self._local(off[0])
        if local is not None and local:
            return _step(n, "ok", f"{off[0]} follows from what is shown before it, which is wrong already")
        if local is None and self._earlier_wrong(off[0]):
            return _step(n, HIDDEN, f"{off[0]} differs, but so does a stage before it")
        before = "" if self._all_before(off[0]) else "; earlier stages are not shown, so the cause may lie before"
        return _step(n, "wrong", f"{self._first(off[0])}{before}")

    def under_another_layout(self, n: int) -> Step:
        """A step when the output is right if only the weights are read in another way."""
        found = self.diagnosis.layouts
        names = " or ".join(one.name for one in found)
        if n != 2:
            return _step(n, "ok", f"under layout {names} the output is right")
        stored = self.conventions.get("layout", "otherwise").partition(":")[0]
        how = "; or ".join(one.how for one in found)
        return _step(n, "wrong", f"the weights are read as {stored}; under layout {names} the output is right: {how}")

    def _earlier_wrong(self, stage: str) -> bool:
        order = ["q", "k", "v", "scores", "weights", "z", "c", "y"]
        return bool(set(order[: order.index(stage)]) & self.wrong)

    def _all_before(self, stage: str) -> bool:
        order = ["q", "k", "v", "scores", "weights", "z", "c", "y"]
        return stage in "qkv" or order[order.index(stage) - 1] in self.shown

    def _local(self, stage: str) -> bool | None:
        """Whether a stage follows from the shown stages right before it; None if they are not shown."""
        verdicts = [_follows(one, stage) for one in self.evidence if stage in one.wrong]
        return None if not verdicts or None in verdicts else all(verdicts)

    # ------------------------------------------------------------ words

    def _first(self, stage: str) -> str:
        """Where a stage is first off."""
        on = next(one for one in self.evidence if stage in one.wrong)
        gap = np.abs(np.where(np.isfinite(on.shown[stage]), on.shown[stage] - on.found[stage], 0))
        place = np.argwhere(gap > on.bounds[stage].value)
        spot = tuple(place[0]) if len(place) else np.unravel_index(int(gap.argmax()), gap.shape)
        shown, right = _in_digits(float(on.shown[stage][spot]), float(on.found[stage][spot]))
        return f"first at {stage}[{place_of(stage, spot)}] ({on.case}): {shown} where {right} is right"

    def _fact(self, n: int) -> str:
        """Sizes and widths."""
        sizes = self.evidence[0].setting.sizes
        if n == 1:
            told = [f"{name} {self.conventions[name]}" for name in ("heads", "bias") if name in self.conventions]
            return "; ".join([", ".join(f"{name}={size}" for name, size in sizes.items()), *told]) + "; "
        if n == 2:
            found = self.evidence[0].found
            shapes = {name: found[name].shape for name in ("w_q", "w_k", "w_v", "w_o")}
            return ", ".join(f"{name.upper()} {shape}" for name, shape in shapes.items()) + "; "
        return ""


def _in_digits(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart, six at least.

    Example:
        >>> _in_digits(0.5, 0.25), _in_digits(2.07285, 2.07285 + 3e-8)
        (('0.5', '0.25'), ('2.07285', '2.07285003'))
    """
    digits = next((n for n in (6, 9, 12) if f"{one:.{n}g}" != f"{other:.{n}g}"), 17)
    return f"{one:.{digits}g}", f"{other:.{digits}g}"


def _step(n: int, status: Status, detail: str) -> Step:
    return Step(n, STEP_NAMES[n], status, detail)


def _belongs(name: str, n: int) -> bool:
    return find_fault(name).step == n


def _follows(on: Evidence, stage: str) -> bool | None:
    """Whether a shown stage is what the shown stages before it give; None if these are not shown."""
    s = on.shown
    expected: Array
    if stage == "z" and {"weights", "v"} <= set(s):
        expected = s["weights"] @ s["v"]
    elif stage == "c" and "z" in s:
        expected = rearrange(s["z"], "b h t v -> b t (h v)")
    elif stage == "y" and ("c" in s or "z" in s):
        c = s["c"] if "c" in s else rearrange(s["z"], "b h t v -> b t (h v)")
        expected = c @ on.found["w_o"] + on.found.get("b_o", np.zeros(()))
    else:
        return None
    wider = max(1.0, float(np.abs(expected).max()) / max(float(np.abs(on.found[stage]).max()), 1e-300))
    return bool(np.abs(expected - s[stage]).max() <= 2 * wider * on.bounds[stage].value)


def _ninth(heads: Sequence[HeadCheck], problem: str, diagnosis: Diagnosis, unseen: str) -> Step:
    if problem:
        return _step(9, "wrong", problem)
    if not heads:
        wanted = "let the function take its weights as arguments, or a head_mask"
        return _step(9, HIDDEN, unseen or f"its weights cannot be changed from outside: {wanted}")
    detail = "; ".join(one.words for one in heads)
    ok = all(one.ok for one in heads)
    if not ok and diagnosis.found:
        detail += f"; as {diagnosis.found[0].name} makes it"
    return _step(9, "ok" if ok else "wrong", detail)
