"""What does writing all derivations cost?  Seconds of the processor, one run: proving, computing lines, and each form.

Prints what proving costs, what making the derivations costs with every line computed, how much of it computing is,
and what each form costs beyond that.  The bar is for making and writing together: under 3 s for HTML, and for LaTeX.

Run as ``python benchmarks/derivations.py``.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy: threads beside a busy machine would be measured instead

import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from mha_sym.library import load, theorem_names
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Report
from mha_sym.render.book import Chapter, html_book, latex_book, related
from mha_sym.render.computed.line_check import check_lines
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.derive import FORMATS


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What comes out, and how many seconds of the processor it took."""
    start = time.process_time()
    return run(), time.process_time() - start


def derivations(reports: Sequence[Report]) -> tuple[list[Derivation], float, float]:
    """The derivations, what they cost, and how much of it goes into computing lines."""
    spent: list[float] = []

    def check(*given: Any) -> Any:
        checked, seconds = timed(lambda: check_lines(*given))
        spent.append(seconds)
        return checked

    with patch("mha_sym.render.derivation.check_lines", check):
        found, seconds = timed(lambda: [derivation(one) for one in reports])
    return found, seconds, sum(spent)


def main() -> None:
    """Everything once, and what the forms of `mha-sym derive --all` come to."""
    reports, proving = timed(lambda: [prove(load(name), recheck=True) for name in theorem_names()])
    print(f"{len(reports)} theorems proved and rechecked{proving:10.2f} s")
    found, made, computed = derivations(reports)
    print(f"derivations{made:31.2f} s, {computed:.2f} s of it for computing every line")
    others = related(reports)
    chapters = [Chapter(one, others[one.name]) for one in found]
    for name, book in (("html", html_book), ("latex", latex_book)):
        _, seconds = timed(lambda book=book: book(chapters))  # type: ignore[misc]
        print(f"  book in {name:10}{seconds:23.2f} s, {made + seconds:.2f} s after proving")
    for name, form in FORMATS.items():
        _, seconds = timed(lambda form=form: [form(one) for one in found])  # type: ignore[misc]
        print(f"  alone in {name:16}{seconds:16.2f} s")


if __name__ == "__main__":
    main()
