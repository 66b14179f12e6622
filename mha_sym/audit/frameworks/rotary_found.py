"""Which convention of rotary positions code has, found by running it.

Defines `found`.  A convention counts if the specification that has it gives what the code gives,
within the bound, on two draws.  This runs the code.
"""

from __future__ import annotations

from collections.abc import Iterable

from mha_sym.audit.cases import cases_of
from mha_sym.audit.compare import compare
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem

_DRAWS = 2


def found(described: Iterable[Implementation]) -> Implementation | None:
    """The first of some descriptions of code under which it is right, None if there is none."""
    return next((impl for impl in described if _agrees(impl)), None)


def _agrees(impl: Implementation) -> bool:
    """Whether the code gives what its specification gives."""
    case = cases_of(impl)[0]
    try:
        runs = [draw_setting(impl, case, 0, draw) for draw in range(_DRAWS)]
        return all(one.ok for setting in runs for one in compare(impl, specification(impl, case), setting))
    except Problem:  # it does not run with tables of that width
        return False
