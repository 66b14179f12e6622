"""Results for a person at a terminal: the table of theorems, the line below it, the progress display.

Defines `table`, `summary` and `progress`.  They take plain data (`mha_sym.render.report_json`) and know nothing of
proofs; the progress display appears on a terminal only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mha_sym.render.columns import columns

if TYPE_CHECKING:
    from mha_sym.render.report_json import TheoremResult


def table(results: Sequence[TheoremResult]) -> str:
    """One row a theorem: its name, the verdict, for which sizes, how many controls are refuted, the time it took.

    Example:
        >>> print(table([{"name": "rows_sum_to_one", "verdict": "proved", "scope": "all sizes", "seconds": 0.25,
        ...     "steps": 7, "controls": [{"name": "over_queries", "verdict": "refuted", "counterexample": None}]}]))
        theorem          verdict  scope      controls     seconds
        ───────────────  ───────  ─────────  ───────────  ───────
        rows_sum_to_one  proved   all sizes  1/1 refuted     0.25
    """
    rows = [
        [
            one["name"], one["verdict"], one["scope"] if one["verdict"] == "proved" else "",
            f"{refuted(one)}/{len(one['controls'])} refuted" if one["controls"] else "none", _seconds(one),
        ]
        for one in results
    ]  # fmt: skip
    return columns(["theorem", "verdict", "scope", "controls", "seconds"], rows, right=[4])


def _seconds(result: TheoremResult) -> str:
    return f"{result['seconds']:.2f}"


def refuted(result: TheoremResult) -> int:
    """How many controls of a theorem are refuted."""
    return sum(control["verdict"] == "refuted" for control in result["controls"])


def summary(results: Sequence[TheoremResult], failed: int = 0) -> str:
    """All results in one line.

    Example:
        >>> summary([]), summary([], failed=2)
        ('nothing was checked', 'nothing was checked, 2 could not be tried')
    """
    if not results:
        return "nothing was checked" + (f", {failed} could not be tried" if failed else "")
    found = [one["verdict"] for one in results]
    parts = [_proved(results)]
    parts += [f"{found.count(word)} {word}" for word in ("refuted", "undecided") if word in found]
    parts += [f"{failed} could not be tried"] if failed else []
    total = sum(len(one["controls"]) for one in results)
    parts.append(f"{sum(map(refuted, results))} of {total} controls refuted")
    return ", ".join(parts) + f"; {sum(one['seconds'] for one in results):.2f} s of processor time"


def _proved(results: Sequence[TheoremResult]) -> str:
    """How many theorems are proved, and how many of them at fixed sizes only."""
    proved = [one for one in results if one["verdict"] == "proved"]
    everywhere = sum(one["scope"] == "all sizes" for one in proved)
    words = f"{len(proved)} of {len(results)} theorems proved"
    if not proved or everywhere == len(proved):
        return words + (" for all sizes" if proved else "")
    return words + f" ({everywhere} for all sizes, {len(proved) - everywhere} at the sizes shown)"


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error while theorems are tried, if that is a terminal; yields what to call as each ends."""
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)
