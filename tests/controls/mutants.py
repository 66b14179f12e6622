"""Mutants of the theorems: every edit of one side at every place, judged by all engines.

``python -m tests.controls.mutants --seconds 600`` prints how many were tried and what became of them, and
fails if one engine proves what another denies.  The tests take a sample.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random

from mha_sym.errors import AxisProblem
from mha_sym.expr import Expr, Transpose
from mha_sym.library import load, theorem_names
from mha_sym.proof.checker import Certificate, check
from mha_sym.proof.field import confirm
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.prover import prove_goal
from mha_sym.proof.refute import refute
from mha_sym.proof.terms import TermError
from mha_sym.proof.theorem import Claim, Theorem
from tests.proof.random_exprs import EDITS, Names, at, paths, put


@dataclass(frozen=True)
class Mutant:
    """A claim with one thing changed."""

    theorem: Theorem
    claim: Claim
    edit: str


def mutants(theorem: Theorem, rng: Random) -> Iterator[Mutant]:
    """Mutants of a theorem without end, each edit as likely as another."""
    names = Names()
    names.numbers = count(1000)  # names that the theorem does not have
    while True:
        claim = rng.choice(theorem.claims)
        left = rng.random() < 0.5
        side: Expr = claim.left if left else claim.right
        edit, change = rng.choice(EDITS)
        places = paths(side)
        rng.shuffle(places)
        for path in places:
            node = at(side, path)
            try:
                new = change(rng, node, names)
                if new is None or new == node:
                    continue
                wrong = put(side, path, new if new.axes == node.axes else Transpose(new, node.axes))
                made = Claim(claim.name, *((wrong, claim.right) if left else (claim.left, wrong)))
            except AxisProblem:
                continue
            yield Mutant(theorem, made, edit)
            break


def proved(mutant: Mutant) -> bool | None:
    """Whether search and checker prove it; None if one name would stand for two things."""
    meaning = Meaning()
    for one in mutant.theorem.assumptions:
        if one.positive is not None:
            meaning.assume_positive(one.positive)
    try:
        for goal in goals(meaning, "mutant", mutant.claim.left, mutant.claim.right):
            result = prove_goal(goal, meaning.context())
            if not isinstance(result, Certificate):
                return False
            check(result, meaning.context())
    except AxisProblem:
        return None
    except TermError:
        return False
    return True


def judged(mutant: Mutant) -> str:
    """What all engines together make of a mutant: refuted, equal, undecided, refused, or a contradiction."""
    by_kernel = proved(mutant)
    if by_kernel is None:
        return "refused"
    by_field = confirm(mutant.claim, mutant.theorem.assumptions).agrees
    if by_kernel:
        return "contradiction" if by_field is False else "equal" if by_field else "proved alone"
    found = refute(mutant.claim, mutant.theorem.assumptions, draws=3)
    if found is not None:
        return "refuted"
    return "denied by the field alone" if by_field is False else "undecided"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, end = Random(given.seed), time.monotonic() + given.seconds
    sources = [mutants(load(name), rng) for name in theorem_names()]
    found: Counter[str] = Counter()
    while time.monotonic() < end:
        mutant = next(rng.choice(sources))
        verdict = judged(mutant)
        found[verdict] += 1
        if verdict not in ("refuted", "equal", "refused"):
            print(f"{verdict}: {mutant.theorem.name}, {mutant.claim.name}, {mutant.edit}", flush=True)
    print(f"{sum(found.values())} mutants: " + ", ".join(f"{n} {verdict}" for verdict, n in found.most_common()))
    return int(bool(found["contradiction"]))


if __name__ == "__main__":
    sys.exit(main())
