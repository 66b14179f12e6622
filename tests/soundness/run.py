"""The long run, ``make soundness``: everything that could make the engines contradict each other, and one table of it.

``python -m tests.soundness.run [PART]...`` runs the parts that are named, or all, one after the other and each in a
process of its own.  A part that fails does not keep the others from running.  Each ends with a line
``COUNT WHAT: OUTCOME``, of which the table is made, and then the seconds that it took are told; the table says which
part failed, and then the exit code is 1.  After Ctrl-C the part that runs says what it has tried, and no other begins.
With ``--one-in 100`` each tries a hundredth of what it would.
"""

from __future__ import annotations

import argparse
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: the code of a part that Ctrl-C ended
STOPPED = 130
_SUMMARY = re.compile(r"([0-9]+) (\S[^:]*): (.+)")


@dataclass(frozen=True)
class Part:
    """A module that is run, and how often it tries."""

    module: str
    option: str
    most: int


PARTS = {
    "mutants": Part("tests.controls.mutants", "--most", 6000),
    "rewrites": Part("tests.soundness.completeness", "--most", 3000),
    "fields": Part("tests.soundness.fields", "--most", 40_000),
    "forged": Part("tests.soundness.forged", "--most", 20_000),
    "hostile": Part("tests.fuzz.run", "--inputs", 100_000),
    "edits": Part("tests.soundness.sampled", "--most", 400),
}


@dataclass(frozen=True)
class Row:
    """What became of a part: what was tried and how often, the outcome, seconds of the processor, the exit code."""

    name: str
    what: str
    count: str
    outcome: str
    seconds: float
    code: int


def run(name: str, part: Part, one_in: int = 1) -> Row:
    """Run a part, and show what it says meanwhile."""
    command = [part.module, part.option, str(max(1, part.most // one_in))]
    print(f"{name}: python -m {' '.join(command)}", flush=True)
    before, begun, summary = _seconds(), time.monotonic(), None
    line = [sys.executable, "-u", "-m", *command]
    with _noted() as stopped, subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        for text in process.stdout or ():
            print(f"  {text}", end="", flush=True)
            summary = _SUMMARY.fullmatch(text.rstrip("\n")) or summary
    count, what, outcome = summary.groups() if summary else ("-", name, f"ended with {process.returncode}")
    used = _seconds() - before
    print(f"{name}: {used:.0f} s of the processor, {time.monotonic() - begun:.0f} s by the clock", flush=True)
    return Row(name, what, count, outcome, used, STOPPED if stopped else process.returncode)


@contextmanager
def _noted() -> Iterator[list[int]]:
    """Ctrl-C is noted and interrupts nothing: the line being read just then would be lost.  The part has it, too."""
    found: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: found.append(number))
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, before)


def _seconds() -> float:
    """Of the processor, by all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(rows: Sequence[Row]) -> str:
    """One line a part."""
    cells = [("", "tried", "what", "outcome", "seconds")]
    for one in rows:
        word = {0: "ok", STOPPED: "stopped"}.get(one.code, "FAILED")
        cells.append((word, one.count, one.what, one.outcome, f"{one.seconds:.0f}"))
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    right = {1, 4}
    return "\n".join(
        "  ".join(text.rjust(width) if n in right else text.ljust(width) for n, (text, width) in enumerate(zip(
            row, widths, strict=True))).rstrip() for row in cells
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"One of {', '.join(PARTS)}; all if none is named.")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="Try an N-th of what is to be tried.")
    given = parser.parse_args(arguments)
    chosen = given.parts or list(PARTS)
    if unknown := [one for one in chosen if one not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    rows: list[Row] = []
    for name in chosen:
        if not rows or rows[-1].code != STOPPED:
            rows.append(run(name, PARTS[name], given.one_in))
    print(f"\n{table(rows)}")
    failed = [one.name for one in rows if one.code] + chosen[len(rows) :]
    print(f"{len(rows) - sum(bool(one.code) for one in rows)} of {len(chosen)} parts found nothing wrong"
          + (f"; not so: {', '.join(failed)}" if failed else ""))  # fmt: skip
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
