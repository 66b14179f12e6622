"""Critique of a test: which faults of attention it would let pass, why, and which sizes would catch them.

Defines `critique` (a test function, run against every faulty form in place of the implementation), `critique_sizes`
(sizes alone) and `Critique`.  How a faulty form stands in for an implementation is in `mha_sym.audit.substitute`; why
sizes hide a fault in `mha_sym.audit.hiding`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mha_sym.audit.effect import Surroundings, hidden
from mha_sym.audit.effect import effect as effect_of
from mha_sym.audit.faults import Fault, faults, find_fault
from mha_sym.audit.hiding import Sizes, smallest_change, why
from mha_sym.audit.substitute import Call, Outcome, Substitute, attempt
from mha_sym.errors import TargetProblem

#: what a fault needs, in the words of a test
_NEEDS = {
    "causal": "a causal mask", "padding": "a padding mask", "additive": "an additive mask with finite entries",
    "keep": "a mask", "cross": "keys and values of another input than the queries", "groups": "shared key heads",
    "b_q": "a query bias", "b_k": "a key bias", "b_v": "a value bias", "b_o": "an output bias",
    "self": "one input for queries, keys and values", "unmasked": "a call without a mask",
    "unpadded": "a call without padding",
}  # fmt: skip

#: a change of the output, relative to its largest entry, that no sensible tolerance allows
_PLAIN = 0.1


@dataclass(frozen=True)
class Passed:
    """A fault that a test lets pass.

    Attributes:
        fault: its name.
        words: what is done wrong.
        reason: why it is not seen.
        change: the smallest change of sizes that would show it, empty if sizes are not what hides it.
        sure: how sure it is that these sizes hide it: proved, exact arithmetic, numbers; empty where a run showed it.
    """

    fault: str
    words: str
    reason: str
    change: Mapping[str, int] = field(default_factory=dict)
    sure: str = ""

    def __str__(self) -> str:
        advice = ", ".join(f"{name}={value}" for name, value in self.change.items())
        sure = f" ({self.sure})" if self.sure else ""
        return f"{self.fault}: {self.reason}{sure}" + (f"; {advice} would show it" if advice else "")


@dataclass(frozen=True)
class Critique:
    """What a test catches and what it lets pass.

    Attributes:
        subject: the test, or the sizes.
        judged: how many faults were tried.
        raised: how many of those caught cannot even run at these sizes.
        passed: those that it lets pass.
        unjudged: faults that were not tried, and why.
        seconds: the time it took.
    """

    subject: str
    judged: int
    raised: int
    passed: tuple[Passed, ...]
    unjudged: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every fault that was tried is caught."""
        return self.judged > 0 and not self.passed

    @property
    def exit_code(self) -> int:
        """0 if every fault is caught, 1 otherwise."""
        return 0 if self.ok else 1

    def text(self) -> str:
        """For people, in plain text."""
        caught = self.judged - len(self.passed)
        head = f"{self.subject}: {caught} of {self.judged} faults are caught"
        lines = [head + (f", {self.raised} of them because such code cannot run there" if self.raised else "")]
        groups: dict[str, list[Passed]] = {}
        for one in self.passed:
            groups.setdefault(one.reason, []).append(one)
        for reason, members in groups.items():
            lines += ["", f"  let pass, because of {reason}:"]
            lines += [f"    {one.fault}{_advice(one)}" for one in members]
            lines += [f"      {one.words}" for one in members[:1]]
        if self.unjudged:
            lines += ["", *(f"  not tried: {name}: {reason}" for name, reason in self.unjudged.items())]
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "subject": self.subject, "judged": self.judged, "raised": self.raised,
            "passed": [
                {"fault": one.fault, "words": one.words, "reason": one.reason, "change": dict(one.change),
                 "sure": one.sure} for one in self.passed
            ],
            "unjudged": dict(self.unjudged), "seconds": round(self.seconds, 3),
        }  # fmt: skip


def _advice(one: Passed) -> str:
    advice = ", ".join(f"{name}={value}" for name, value in one.change.items())
    return (f"  [{one.sure}]" if one.sure else "") + (f"  -> {advice} would show it" if advice else "")


def _wanted(only: Sequence[str]) -> list[Fault]:
    return [find_fault(name) for name in only] if only else list(faults())


# ---------------------------------------------------------------- sizes alone


def critique_sizes(sizes: Mapping[str, int], only: Sequence[str] = ()) -> Critique:
    """Which faults cannot be seen at these sizes, whatever the values are.

    For each fault its needs are granted: masks, biases, another input for keys and values.

    Args:
        sizes: ``B``, ``T``, ``h``, ``d_k`` and, where they are others than usual, ``S``, ``d_v``, ``d_model``; ``G``
            for the number of key and value heads.
        only: names of faults to judge, all if omitted.

    Raises:
        DataProblem: for sizes that cannot be.
    """
    started = time.perf_counter()
    read = Sizes.read(sizes)
    passed, unjudged, judged, raised = [], {}, 0, 0
    for fault in _wanted(only):
        around = Surroundings.of(fault)
        if fault.random or (around.groups and "G" not in read.all):
            unjudged[fault.name] = "it makes the output random" if fault.random else "say G, the number of key heads"
            continue
        judged += 1
        sure = hidden(fault, read.all, around)
        if sure is not None:
            reason = why(fault, read.all, around)
            passed.append(Passed(fault.name, fault.words, reason, smallest_change(fault, read, around) or {}, sure))
        elif effect_of(fault, read.all, around) is None:
            raised += 1
    subject = ", ".join(f"{name}={read.all[name]}" for name in read.all)
    return Critique(subject, judged, raised, tuple(passed), unjudged, time.perf_counter() - started)


# ---------------------------------------------------------------- a test function


def critique(
    test: Callable[..., Any], *, target: str = "", like: Any = None, only: Sequence[str] = (), **described: Any
) -> Critique:
    """Run a test function against every faulty form in place of the implementation that it tests.

    Args:
        test: it takes the implementation and raises if that is wrong; or, with ``target``, takes nothing.
        target: ``module:object``, the implementation that the test finds by itself and that is replaced meanwhile.
        like: an implementation that is called in the same way, or its `Implementation`; that of ``target`` if that is
            given.  If omitted, calls are understood as ``(x, w_q, w_k, w_v, w_o, heads)``, and by the names of
            keyword arguments.
        only: names of faults to try, all if omitted.
        described: what is known of ``like``, as for `Implementation`.

    Raises:
        TargetProblem: if the test fails for the correct form, or never calls the implementation.

    Example:
        >>> import numpy as np
        >>> def test(attention):
        ...     x, w = np.ones((1, 4, 6)), np.ones((6, 6))
        ...     assert attention(x, w, w, w, w, 2).shape == (1, 4, 6)
        >>> found = critique(test, only=["scale_missing"])
        >>> found.passed[0].reason
        'the values of the test, which are such that it makes no difference'
    """
    started = time.perf_counter()
    substitute = Substitute.like(like, target, described)
    _must_pass(test, substitute)
    wanted = _wanted(only)
    unjudged = {one.name: "it makes the output random" for one in wanted if one.random}
    passed, raised, judged = [], 0, 0
    for fault in wanted:
        if fault.random:
            continue
        judged += 1
        outcome = attempt(test, replace(substitute, fault=fault))
        if not outcome.caught:
            again = attempt(test, replace(substitute, fault=fault))
            passed.append(_judged(fault, outcome, again))
        elif outcome.impossible:
            raised += 1
    name = getattr(test, "__qualname__", repr(test))
    return Critique(name, judged, raised, tuple(passed), unjudged, time.perf_counter() - started)


def _must_pass(test: Callable[..., Any], substitute: Substitute) -> None:
    outcome = attempt(test, substitute)
    if outcome.caught:
        raise TargetProblem(
            "the test fails for the correct form", got=outcome.message, where=getattr(test, "__qualname__", ""),
            hint="say how the implementation is called, with like=..., on the command line --target; or the "
            "test compares with something else",
        )  # fmt: skip
    if not outcome.calls:
        raise TargetProblem(
            "the test never calls the implementation", where=getattr(test, "__qualname__", ""),
            hint="let it take the implementation, or name it: target='module:object'",
        )  # fmt: skip


def _judged(fault: Fault, outcome: Outcome, again: Outcome) -> Passed:
    """Why a fault was let pass."""
    if again.caught:
        return Passed(fault.name, fault.words, "the seed: run again, the test caught it")
    possible = [call for call in outcome.calls if call.possible]
    if not possible:
        return Passed(fault.name, fault.words, _missing(fault))
    most = max(possible, key=lambda call: call.difference)
    if most.difference > 0:
        return Passed(fault.name, fault.words, _tolerated(most.difference))
    return _hidden(fault, most)


def _missing(fault: Fault) -> str:
    needs = [_NEEDS.get(need, need) for need in fault.needs]
    return f"the calls: the test hands over no {' and no '.join(one.removeprefix('a ') for one in needs)}".replace(
        "no an ", "no "
    )


def _tolerated(difference: float) -> str:
    if difference > _PLAIN:
        return "what it looks at: the output changes by more than a tenth, and the test does not see it"
    return f"a tolerance that is too wide: the output changes by {difference:.1g} of its largest entry or less"


def _hidden(fault: Fault, call: Call) -> Passed:
    sure = hidden(fault, call.sizes, call.around) if effect_of(fault, call.sizes, call.around) == 0.0 else None
    if sure is None:
        reason = "the values of the test, which are such that it makes no difference"
        return Passed(fault.name, fault.words, reason)
    sizes = Sizes({}, call.sizes)
    given = Sizes({name: n for name, n in call.sizes.items() if name in ("B", "T", "h", "d_k")}, sizes.all)
    change = smallest_change(fault, given, call.around) or {}
    return Passed(fault.name, fault.words, why(fault, call.sizes, call.around), change, sure)
