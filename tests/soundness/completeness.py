"""How much of what is true the prover proves: random expressions against random correct rewrites of them.

``python -m tests.soundness.completeness --most 3000`` prints how many were proved and the seeds of those that were not,
and fails below 99 in a hundred, or if a rewrite is denied by the second engine.  Expressions and rewrites are in
`tests.proof.random_exprs`, rewrites are there and in `tests.soundness.rewrites`.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from random import Random

from mha_sym.proof.field import confirm
from mha_sym.proof.meaning import Meaning
from mha_sym.proof.theorem import Claim
from tests.controls.mutants import SLOW, proved_equal, within
from tests.proof.random_exprs import Names, axes_of, expression
from tests.soundness.rewrites import rewritten

#: the largest expression, and the most rewrites of each side
NODES, REWRITES = 12, 4
ENOUGH = 0.99


@dataclass(frozen=True)
class Tried:
    """What became of one pair."""

    seed: int
    verdict: str
    rewrites: tuple[str, ...]
    seconds: float


def pair(seed: int) -> tuple[Claim, tuple[str, ...]]:
    """An expression and a rewrite of it, or two rewrites of one expression."""
    rng, names = Random(seed), Names()
    base = expression(rng, axes_of(rng), rng.randint(2, NODES), names)
    left, first = rewritten(rng, base, rng.choice([0, 0, rng.randint(1, REWRITES)]), names)
    right, second = rewritten(rng, base, rng.randint(1, REWRITES), names)
    return Claim("rewritten", left, right), (*first, *second)


def tried(seed: int) -> Tried:
    """Whether the prover proves a pair, within a minute, and what the second engine says if it does not."""
    claim, rewrites = pair(seed)
    start = time.monotonic()
    verdict = within(SLOW, lambda: _verdict(claim), "slow")
    return Tried(seed, verdict, rewrites, time.monotonic() - start)


def _verdict(claim: Claim) -> str:
    by_field = confirm(claim).agrees
    if proved_equal(claim, Meaning(), {}):
        return "contradiction" if by_field is False else "proved"
    return "wrong rewrite" if by_field is False else "missed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
        for one in pool.imap_unordered(tried, range(given.first, given.first + given.most), chunksize=20):
            found[one.verdict] += 1
            if one.verdict != "proved":
                print(f"{one.verdict}: seed {one.seed}, {', '.join(one.rewrites)}", flush=True)
    said = ", ".join(f"{n} {what}" for what, n in found.most_common())
    print(f"{found.total()} random expressions of up to {NODES} nodes against rewrites of them: {said}")
    return int(found["proved"] < ENOUGH * found.total() or bool(found["contradiction"] + found["wrong rewrite"]))


if __name__ == "__main__":
    sys.exit(main())
