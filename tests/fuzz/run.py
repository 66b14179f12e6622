"""Fuzzing in a process of its own: ``python -m tests.fuzz.run --inputs 100000``.

Prints how many inputs of each kind were tried.  A kind ends at the first input that crashes its reader without a
message, takes longer than 5 seconds or more than 1 GiB, touches a file that was not given, or runs something; it is
shown, and in the end the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: buffers of threads count as memory

from hypothesis import HealthCheck, Phase, given, seed, settings

from mha_sym.errors import Problem
from tests.fuzz.guard import Forbidden, Guard
from tests.fuzz.readers import KINDS, Kind


class Wrong(Exception):
    """An input on which a reader does what it must not; shown as it was made small."""


def fuzzed(name: str, kind: Kind, guard: Guard, inputs: int, start: int) -> Counter[str]:
    """Try so many inputs of one kind."""
    found: Counter[str] = Counter()
    place = Path(guard.place)

    @seed(start)
    @settings(
        max_examples=inputs, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(kind.inputs())
    def one(content: Any) -> None:
        found["inputs"] += 1
        try:
            answer = guard(kind.read, place, content)
        except (Exception, Forbidden) as fault:
            raise Wrong(f"{type(fault).__name__}: {fault}") from fault
        refused = isinstance(answer, Problem) or (isinstance(answer, dict) and answer["verdict"] != "accepted")
        found["refused" if refused else "taken"] += 1

    try:
        one()
    except Exception as fault:  # noqa: BLE001 - told and ended with, but not at the length of its input
        said = "".join(traceback.format_exception(fault, limit=-6))
        raise Wrong(f"{name}: {_short(said)}") from None
    return found


def _short(text: str, most: int = 6000) -> str:
    """The beginning and the end of a long text."""
    return text if len(text) <= most else f"{text[: most // 2]}\n...\n{text[-most // 2 :]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(KINDS))
    given_ = parser.parse_args()
    warnings.simplefilter("error")
    guard, total, begun = Guard(), 0, time.monotonic()
    chosen = {name: kind for name, kind in KINDS.items() if given_.only in (None, name)}
    for name, kind in chosen.items():
        fuzzed(name, kind, guard, 30, given_.seed)  # what is loaded late is loaded now
    guard.bound_memory()
    share, wrong = sum(kind.share for kind in chosen.values()), list[str]()
    for name, kind in chosen.items():
        try:
            found = fuzzed(name, kind, guard, given_.inputs * kind.share // share + 1, given_.seed + 1)
        except Wrong as fault:
            wrong.append(name)
            print(fault, file=sys.stderr, flush=True)
            continue
        total += found["inputs"]
        said = f"{found['refused']} refused with a message, {found['taken']} taken"
        print(f"  {found['inputs']} {name}: {said}", flush=True)
    outcome = f"faults in {', '.join(wrong)}" if wrong else "no crash, no hang, nothing touched, nothing run"
    print(f"{total} hostile inputs in {time.monotonic() - begun:.0f} s: {outcome}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
