"""Which convention of rotary positions code has, found by running it.

Defines `candidates` and `found`.  A convention counts if the specification that has it gives what the code gives,
within the bound, on two draws.  This runs the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mha_sym.attention.rotary import Rotary
from mha_sym.audit.cases import cases_of
from mha_sym.audit.compare import compare
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem

_DRAWS = 2


def candidates(width: int | None = None, pair: bool = True) -> Iterator[Rotary]:
    """Conventions to try, the usual one first.

    Args:
        width: how many features are turned, None for all.
        pair: whether tables with one number for each pair are to be tried.
    """
    for tables in ("feature", "pair") if pair else ("feature",):
        for pairs in ("halves", "interleaved"):
            yield Rotary(pairs, width, tables)  # type: ignore[arg-type]  # these are the words


def found(make: Callable[[Rotary], Implementation], tried: Sequence[Rotary]) -> Implementation | None:
    """The code under the first convention that it has, None if it has none of them."""
    return next((impl for impl in map(make, tried) if _agrees(impl)), None)


def _agrees(impl: Implementation) -> bool:
    """Whether the code gives what its specification gives."""
    case = cases_of(impl)[0]
    try:
        runs = [draw_setting(impl, case, 0, draw) for draw in range(_DRAWS)]
        return all(one.ok for setting in runs for one in compare(impl, specification(impl, case), setting))
    except Problem:  # it does not run with tables of that width
        return False
