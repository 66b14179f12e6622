"""Proving a torch module for every number of heads and every width, where its attributes let it be followed so.

Defines `for_all_widths`.  It may prove, and nothing else: a module that cannot be followed with symbols for its numbers
is looked at as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from mha_sym.audit.cases import Case
from mha_sym.audit.frameworks.torch_widths import TIES, widened
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.code import Work, conventions
from mha_sym.audit.proving.imported import fixed_sizes, imported
from mha_sym.audit.proving.outcome import CodeProof
from mha_sym.errors import Problem
from mha_sym.proof.theorem import Verdict


def for_all_widths(impl: Implementation, cases: Sequence[Case]) -> CodeProof | None:
    """The proof of every way of calling with heads and widths as symbols, None if there is none.

    Args:
        impl: a torch module; anything else has no attributes to look at.
        cases: the ways of calling.  The first that is not proved ends the attempt.
    """
    wide = None if impl.module is None else widened(impl.module, impl, fixed_sizes(impl))
    if wide is None:
        return None
    work, done = Work(wide, {}), []
    for case in cases:
        started = time.perf_counter()
        try:
            found = imported(wide, case, TIES)
            work.seconds["import"] += time.perf_counter() - started
            made = work.case(case, found)
        except Problem:
            return None
        if made.verdict is not Verdict.PROVED:
            return None
        done.append(made)
    layout = impl.how_stored
    return CodeProof(
        impl.headline, f"{layout.name}: {layout.words}", tuple(done), work.seconds, notes=wide.notes,
        conventions=conventions(impl),
    )  # fmt: skip
