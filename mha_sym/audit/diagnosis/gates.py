"""Where a head mask acts, and whether a 0 in it removes the head, which is what a head mask is for.

Defines `Gates` and `gates_of`.  The places are those of `mha_sym.audit.diagnosis.heads.LOCATIONS`; what acts there is
compared in numbers, and nothing is proved of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mha_sym.audit.diagnosis.heads import locate_head_mask
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import Implementation
from mha_sym.errors import Problem

#: a gate of 0 here leaves nothing of the head; on the columns of W_V alone it leaves the bias of the values
_REMOVING = {"weights A", "head output Z", "values V", "row blocks of W_O"}
_NOWHERE = "nowhere: it has no effect"


@dataclass(frozen=True)
class Gates:
    """Where a head mask acts.

    Attributes:
        located: the places at which it may act; several are one function.
    """

    located: tuple[str, ...]

    @property
    def badly(self) -> str:
        """What is wrong with that; nothing if a 0 removes the head.

        Example:
            >>> Gates(("weights A", "values V")).badly
            ''
            >>> Gates(("scores S", "queries Q")).badly
            'its head mask acts on scores S = queries Q, where a 0 does not remove the head'
        """
        if _REMOVING & set(self.located):
            return ""
        if self.located == (_NOWHERE,):
            return "its head mask has no effect, where a 0 should remove the head"
        if not self.located:
            return "its head mask acts at none of the known places, at each of which a 0 removes the head"
        return f"its head mask acts on {' = '.join(self.located)}, where a 0 does not remove the head"


def gates_of(readings: Sequence[Implementation], on: Evidence) -> Gates | None:
    """Where the head mask of an implementation acts; None if it takes none, or none that it can be handed.

    Args:
        readings: the implementation with a head mask among its arguments, in every way in which it may take one.
        on: a run of it.

    Raises:
        Problem: if there is one way, and it cannot be run so.
    """
    found: list[Gates] = []
    for read in readings:
        try:
            found.append(Gates(locate_head_mask(read, on)))
        except Problem:  # another shape is wanted
            if len(readings) == 1:
                raise
    return next(iter([one for one in found if not one.badly] + found), None)
