"""Mutants of the theorems: every edit of one side at every place, judged by all engines.

``python -m tests.controls.mutants --most 6000`` prints how many were tried and what became of them, and fails if one
engine proves what another denies, if more than one in a hundred stays undecided, or if one takes longer than a minute.
The tests take a sample.  The edits are in `tests.controls.edits`.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice
from random import Random

from mha_sym.errors import AxisProblem
from mha_sym.expr import Expr, Map, Reduce, Repeat, Softmax, as_expr, walk
from mha_sym.library import load, theorem_names
from mha_sym.proof.checker import Certificate, Goal, check
from mha_sym.proof.field import confirm
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.prover import Prover, prove_goal
from mha_sym.proof.refute import refute
from mha_sym.proof.rewrite import TooLong
from mha_sym.proof.terms import TermError
from mha_sym.proof.theorem import Claim, Theorem
from mha_sym.proof.witness import recheck
from tests.controls.edits import Around, edits
from tests.proof.random_exprs import at, paths, put

#: what must never be found, and what may be found only now and then
FAULTS = ("contradiction", "slow")
OPEN = ("undecided", "proved alone", "denied by the field alone")
EMPTY_ROWS = "different at most where rows keep nothing"
#: seconds after which a mutant counts as one that hangs
SLOW = 60


@dataclass(frozen=True)
class Mutant:
    """A claim with one thing changed."""

    theorem: str
    claim: Claim
    edit: str
    place: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Answer:
    """What became of a mutant, and how long that took."""

    theorem: str
    claim: str
    edit: str
    place: tuple[tuple[str, int], ...]
    verdict: str
    seconds: float


def mutants(theorem: Theorem) -> dict[str, list[Mutant]]:
    """All distinct mutants of a theorem, by edit."""
    found: dict[str, dict[Claim, Mutant]] = {}
    for claim in theorem.claims:
        around = Around.of([claim.left, claim.right])
        for name in ("left", "right"):
            side: Expr = getattr(claim, name)
            for path in paths(side):
                for edit, new in edits(at(side, path), around):
                    try:
                        made = replace(claim, **{name: put(side, path, new)})
                    except AxisProblem:
                        continue
                    mutant = Mutant(theorem.name, made, edit, ((name, -1), *path))
                    found.setdefault(edit, {}).setdefault(made, mutant)
    return {edit: list(some.values()) for edit, some in found.items()}


def sample(theorem: Theorem, rng: Random) -> Iterator[Mutant]:
    """The mutants of a theorem, each kind of edit in turn as long as there are any."""
    kinds = list(mutants(theorem).values())
    for some in kinds:
        rng.shuffle(some)
    while kinds:
        kinds = [some for some in kinds if some]
        for some in kinds:
            yield some.pop()


def library_sample(seed: int) -> Iterator[Mutant]:
    """The mutants of all theorems, each theorem in turn."""
    sources = [sample(load(name), Random(f"{seed} {name}")) for name in theorem_names()]
    while sources:
        for source in list(sources):
            mutant = next(source, None)
            if mutant is None:
                sources.remove(source)
            else:
                yield mutant


# ---------------------------------------------------------------- judging


@cache
def _theorem(name: str) -> Theorem:
    return load(name)


@cache
def _known(name: str) -> tuple[Meaning, dict[str, Goal]]:
    """What is proved of a theorem: its assumptions, and its claims as lemmas, which a false neighbour may misuse."""
    prover = Prover(_theorem(name), recheck=False)
    for claim in prover.theorem.claims:
        prover._search(claim)
    return prover.meaning, prover.lemmas


def proved_equal(claim: Claim, meaning: Meaning, lemmas: Mapping[str, Goal]) -> bool | None:
    """Whether search and checker prove a claim; None if one name would stand for two things."""
    own = Meaning(**{one.name: copy(getattr(meaning, one.name)) for one in fields(Meaning)})
    try:
        for goal in goals(own, "mutant", claim.left, claim.right):
            context = replace(own.context(), lemmas=lemmas)
            result = prove_goal(goal, context)
            if not isinstance(result, Certificate):
                return False
            check(result, context)
    except AxisProblem:
        return None
    except (TermError, TooLong):
        return False
    return True


def judged(mutant: Mutant, explicit: bool = True) -> str:
    """What all engines together make of a mutant: refuted, equal, refused, one of `OPEN`, or a contradiction.

    Where a row keeps nothing a softmax has no value.  Refuting passes over such rows; in finite fields they are 0, and
    may be all that makes a difference there: `EMPTY_ROWS`.
    """
    theorem = _theorem(mutant.theorem)
    by_kernel = proved_equal(mutant.claim, *_known(mutant.theorem))
    if by_kernel is None:
        return "refused"
    by_field = confirm(mutant.claim, theorem.assumptions).agrees
    found = refute(mutant.claim, theorem.assumptions, draws=2 if by_kernel else 6)
    if not by_kernel and found is None and by_field is False:
        return EMPTY_ROWS if may_keep_nothing(mutant.claim, theorem) else "denied by the field alone"
    if not by_kernel:
        return "refuted" if found is not None else "undecided"
    by_sympy = recheck(theorem, mutant.claim).agrees if explicit else None
    if found is not None or by_field is False or by_sympy is False:
        return "contradiction"
    return "equal" if by_field or by_sympy else "proved alone"


def may_keep_nothing(claim: Claim, theorem: Theorem) -> bool:
    """Whether some softmax of a claim has rows that keep nothing, though all is as the theorem assumes."""
    masked = [node for side in (claim.left, claim.right) for node in walk(side) if isinstance(node, Softmax)]
    for node in masked:
        if node.keep is not None:
            kept = Reduce("sum", node.keep, tuple(one for one in node.over if one in node.keep.axes))
            some = Claim("kept", kept * Map("inv", (kept,)), Repeat(as_expr(1), kept.axes))  # 0 (1/0) is 0 there
            if any(confirm(some, theorem.assumptions, seed=n).agrees is False for n in range(20)):
                return True
    return False


class _TooSlow(BaseException):
    """Past every handler of the engines."""


def _ring(*_: object) -> None:
    raise _TooSlow


def within(seconds: int, answer: Callable[[], str], otherwise: str) -> str:
    """An answer, or another word if it takes too long, by the time of the processor."""
    signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return answer()
    except _TooSlow:
        return otherwise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def answered(mutant: Mutant) -> Answer:
    """What became of a mutant, within a minute."""
    start = time.monotonic()
    verdict = within(SLOW, lambda: judged(mutant), "slow")
    return Answer(mutant.theorem, mutant.claim.name, mutant.edit, mutant.place, verdict, time.monotonic() - start)


# ---------------------------------------------------------------- the long run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    slowest = Answer("", "", "", (), "", 0.0)
    some = islice(library_sample(given.seed), given.most)
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
        for one in pool.imap_unordered(answered, some, chunksize=20):
            found[one.verdict] += 1
            slowest = max(slowest, one, key=lambda answer: answer.seconds)
            if one.verdict in (*FAULTS, *OPEN):
                print(f"{one.verdict}: {one.theorem}, {one.claim}, {one.edit}, {_text(one.place)}", flush=True)
    return _summary(found, slowest)  # of what was tried until Ctrl-C


def _text(place: tuple[tuple[str, int], ...]) -> str:
    return ".".join(name if n < 0 else f"{name}[{n}]" for name, n in place)


def _summary(found: Counter[str], slowest: Answer) -> int:
    tried, open_ = sum(found.values()), sum(found[one] for one in OPEN)
    where = f"{slowest.theorem}, {slowest.claim}, {slowest.edit}"
    print(f"  undecided {open_ / tried:.2%}; the slowest took {slowest.seconds:.1f} s ({where})")
    print(f"{tried} distinct mutants of the theorems: " + ", ".join(f"{n} {what}" for what, n in found.most_common()))
    return int(any(found[one] for one in FAULTS) or open_ >= tried / 100)


if __name__ == "__main__":
    sys.exit(main())
