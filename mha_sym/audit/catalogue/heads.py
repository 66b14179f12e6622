"""Faults of the number of heads: another one than declared, heads and their width exchanged."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy

from mha_sym.attention.dims import Weights
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site, Slot
from mha_sym.axes import axis
from mha_sym.errors import AxisProblem
from mha_sym.expr import Rename

_FAMILY = "heads"
_MEND = "rearrange(x @ w, 'b t (h k) -> b h t k', h=heads), with the number of heads that is declared"


def _recut(at: Site, h: sympy.Expr, k: sympy.Expr, v: sympy.Expr, follows: bool) -> Site:
    """The same flat projections cut into ``h`` heads of widths ``k`` and ``v``; the scale follows, or stays."""
    if at.kv is not None:
        raise AxisProblem("heads that share keys and values cannot be cut otherwise")
    old = at.d
    d = replace(old, h=axis("h", h), k=axis("k", k), v=axis("v", v))
    moved = {old.hk: d.hk, old.hv: d.hv}
    parts = {}
    for name, value in at.w.items().items():
        for one, new in moved.items():
            value = Rename(value, one, new) if one in value.axes and one != new else value
        parts[name] = value
    own = follows and at.scale == old.scale
    return replace(at, d=d, w=Weights(**parts), scale=d.scale if own else at.scale)


def _one(at: Site) -> Site:
    return _recut(at, sympy.Integer(1), at.d.hk.size, at.d.hv.size, follows=True)


def _exchanged(at: Site) -> Site:
    return _recut(at, at.d.k.size, at.d.h.size, at.d.h.size, follows=True)


def _into(n: int, follows: bool) -> Slot:
    def before(at: Site) -> Site:
        widths = [at.d.hk.size / n, at.d.hv.size / n]
        if not all(one.is_Integer for one in widths):
            raise AxisProblem(f"these widths do not divide into {n} heads")
        return _recut(at, sympy.Integer(n), widths[0], widths[1], follows)

    return before


@lru_cache(maxsize=256)
def cut_into(n: int, follows: bool = True) -> Fault:
    """The fault of code that computes ``n`` heads, whatever is declared; it is built at sizes that are numbers.

    Args:
        n: the number of heads that the code has.
        follows: whether its scale is that of its own heads.

    Example:
        >>> cut_into(6).name, cut_into(6, follows=False).name
        ('heads_taken_as_6', 'heads_taken_as_6_scale_kept')
    """
    scale = "" if follows else ", and the scale of those that are declared"
    return Fault(
        name=f"heads_taken_as_{n}" + ("" if follows else "_scale_kept"),
        words=f"The code computes {n} head{'s' if n > 1 else ''}, another number than is declared{scale}.",
        symptom="Shapes agree; heads mix features of others, or attend with part of their features.",
        mend=f"heads={n} in its description if {n} is meant; if not, {_MEND}", step=1, stage="q",
        edits={"before": _into(n, follows)}, family=_FAMILY, at_sizes=True,
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    Fault(
        name="one_head_for_all", words="All features are one head: the split into heads is left out.",
        symptom="Every head has the same weights; right at h = 1.", mend=_MEND, step=1, stage="q",
        edits={"before": _one}, needs=("ungrouped",), family=_FAMILY,
    ),
    Fault(
        name="heads_and_width_exchanged", words="The number of heads and the width of one are exchanged.",
        symptom="Shapes agree; right where h = d_k.", mend=_MEND, step=1, stage="q", edits={"before": _exchanged},
        needs=("ungrouped",), ties={"d_v": "d_k"}, family=_FAMILY,
    ),
)  # fmt: skip
