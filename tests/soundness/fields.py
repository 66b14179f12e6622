"""Every field of every certificate of the library changed in turn: refused, or it states something else that is true.

``python -m tests.soundness.fields --most 40000`` changes each text, number and truth value once as it stands, and once
with the digest made to fit, as a forger would.  It fails if a change of anything but a step is accepted for what the
file said before, or if what is accepted is false at sizes of 2 and 3.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random
from typing import Any

from mha_sym.proof.certificate_file import difference
from mha_sym.proof.reader import read
from mha_sym.proof.recheck import recheck
from tests.controls.mutants import within
from tests.proof.test_certificate_file import flips, is_step, put, scalars
from tests.soundness.forged import PATIENCE, certificates, false_goal, signed

FAULTS = ("accepted as it was", "accepted and false", "slow")
Place = tuple[Any, ...]


@cache
def fields(number: int) -> tuple[tuple[Place, Any], ...]:
    """Every text, number and truth value of a certificate, with its place; what is signed, not the signature."""
    return tuple((path, value) for path, value in scalars(json.loads(certificates()[number])) if path != ("sha256",))


def every() -> Iterator[tuple[int, int]]:
    """The fields of all certificates: which certificate, and which of its fields; in an order that mixes them."""
    places = [(number, at) for number in range(len(certificates())) for at in range(len(fields(number)))]
    Random(0).shuffle(places)
    yield from places


def tried(place: tuple[int, int]) -> tuple[str, Place, str]:
    """What became of one changed field."""
    number, at = place
    path, value = fields(number)[at]
    original = json.loads(certificates()[number])
    changed = put(original, path, Random(f"{place}").choice(flips(value)))
    verdict = within(PATIENCE, lambda: _judged(original, changed, path), "slow")
    if verdict == "another statement":
        verdict = within(PATIENCE, lambda: _truth(changed), "another statement, not evaluated")
    return original["theorem"]["name"], path, verdict


def _judged(original: Any, changed: Any, path: Place) -> str:
    if recheck(json.dumps(changed))["verdict"] != "unreadable":
        return "accepted as it was"
    text = signed(changed)
    verdict = str(recheck(text)["verdict"])
    if verdict != "accepted":
        return verdict
    if difference(read(text).statement, read(json.dumps(original)).statement):
        return "another statement"
    return "another proof of the same" if is_step(path) else "accepted as it was"


def _truth(changed: Any) -> str:
    return "accepted and false" if false_goal(read(signed(changed)).statement) else "another statement"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=40_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
        for name, path, verdict in pool.imap_unordered(tried, islice(every(), given.most), chunksize=100):
            found[verdict] += 1
            if verdict in FAULTS:
                print(f"{verdict}: {name}, {path}", flush=True)
    said = ", ".join(f"{n} {what}" for what, n in found.most_common())  # of what was tried until Ctrl-C
    print(f"{found.total()} fields of certificates changed: {said}")
    return int(any(found[one] for one in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
