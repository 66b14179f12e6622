"""Faults of the causal mask: off by one, on the wrong side, from the wrong corner, or there without being declared."""

from __future__ import annotations

from dataclasses import replace

from mha_sym.audit.catalogue.mask import HIDDEN, additive_transposed, ignored, mask_fault
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits, Site, Slot, both, bottom_right, without
from mha_sym.axes import axis
from mha_sym.errors import AxisProblem
from mha_sym.expr import Compare, Expr, Select

_FAMILY = "causal"
_MEND = "keep = arange(S)[None, :] <= arange(T)[:, None]"
_END = "keep = arange(S)[None, :] <= arange(T)[:, None] + S - T"
_EITHER = f"{_MEND} for T < S and T > S alike, or + S - T in both"
_DECLARE = "declare it, causal=True, or take the mask out"


def _causal(make: Slot) -> Slot:
    return lambda at: at if at.causal is None else replace(at, causal=make(at))


def _later(make: Slot) -> Edits:
    return {"before": _causal(make)}


def _moved(op: str, offset: int) -> Slot:
    """The causal mask as it is declared, its diagonal moved."""

    def make(at: Site) -> Expr:
        if isinstance(at.causal, Compare):
            return Compare(op, at.d.s, at.d.t, at.causal.offset + offset)  # type: ignore[arg-type]
        return bottom_right(at.d, op, offset)

    return make


def _from_the_wider(at: Site) -> Expr:
    """``s <= t + max(S - T, 0)``: what either corner keeps."""
    return without(both(without(_from_the_start(at)), without(bottom_right(at.d))))


def _from_the_narrower(at: Site) -> Expr:
    """``s <= t + min(S - T, 0)``: what both corners keep."""
    return both(_from_the_start(at), bottom_right(at.d))


def _from_the_start(at: Site) -> Expr:
    """``s <= t``, as it is declared; counted from the end, queries are never more than keys, and nothing switches."""
    if not isinstance(at.causal, Compare):
        raise AxisProblem("a causal mask that is counted from the end does not switch")
    return Compare("le", at.d.s, at.d.t)


def _first_row_kept(at: Site) -> Expr:
    """``s < t``, and the first query sees the first key."""
    # s + 1 <= t or (t = 0 and s = 0): t = 0 admits no s of the first kind
    zero_s, zero_t = (_first(one) for one in (at.d.s, at.d.t))
    return without(both(without(_moved("lt", 0)(at)), without(both(zero_s, zero_t))))


def _first(of: object) -> Expr:
    """``[position = 0]``."""
    one = Compare("eq", of, axis("one", 1))  # type: ignore[arg-type]
    return Select(one, one.axes[1], 0)


def _transposed(at: Site) -> Expr:
    turned: Expr = _moved("ge", 0)(at)
    return turned


def _all_transposed(at: Site) -> Site:
    return additive_transposed(_causal(_transposed)(at))


def _undeclared(make: Slot) -> Edits:
    return {"before": lambda at: replace(at, causal=make(at))}


def _fault(
    name: str, words: str, symptom: str, mend: str, edits: Edits, needs: str = "causal", **more: object
) -> Fault:  # fmt: skip
    return mask_fault(name, words, symptom, mend, edits, needs, family=_FAMILY, **more)


_FROM_THE_END = "Right where there are as many queries as keys."

FAULTS: tuple[Fault, ...] = (
    _fault(
        "causal_mask_not_declared", "Later keys are hidden although nothing was said of a causal mask.",
        "Only the last row is right.", _DECLARE, _undeclared(lambda at: Compare("le", at.d.s, at.d.t)), "uncausal",
    ),
    _fault(
        "causal_mask_not_declared_from_the_end",
        "Later keys are hidden, s <= t + S - T, although nothing was said of a causal mask.",
        "Only the last row is right.", _DECLARE, _undeclared(lambda at: bottom_right(at.d)), "uncausal",
    ),
    _fault(
        "earlier_keys_hidden", "Earlier keys are hidden although nothing was said of such a mask.",
        "Only the first row is right.", _DECLARE, _undeclared(lambda at: Compare("ge", at.d.s, at.d.t)),
        "uncausal", ties={"S": "T"},
    ),
    _fault(
        "causal_mask_ignored", "Later keys are not hidden.",
        "Only the last row is right; the loss is too good to be true.", _MEND, {"before": ignored("causal")},
    ),
    _fault(
        "causal_mask_inverted", "The causal mask means the opposite: only later keys are seen.",
        "Attention goes to later tokens only; the last row is uniform.", _MEND,
        {**_later(_moved("gt", 0)), **HIDDEN},
    ),
    _fault(
        "causal_mask_transposed", "The causal mask is transposed: every query sees itself and later keys.",
        "The first row sees all keys, the last one only itself.", _MEND, _later(_transposed), ties={"S": "T"},
    ),
    _fault(
        "masks_transposed", "Queries and keys are exchanged in every mask that has both.",
        "Position biases and hidden keys are on the wrong side of the diagonal.",
        "scores = where(keep, scores, -inf), keep = True where query t may attend to key s",
        {"before": _all_transposed}, "masked", ties={"S": "T"},
    ),
    _fault(
        "causal_aligned_bottom_right",
        "The causal mask is aligned with the last query and key instead of the first: s <= t + S - T.",
        _FROM_THE_END, _MEND, {**_later(lambda at: bottom_right(at.d)), **HIDDEN},
    ),
    _fault(
        "causal_aligned_top_left",
        "The causal mask is aligned with the first query and key instead of the last: s <= t.",
        _FROM_THE_END, _END, _later(lambda at: Compare("le", at.d.s, at.d.t)), "from_the_end",
    ),
    _fault(
        "causal_alignment_switches_to_more",
        "The corner from which the causal mask is counted depends on which is longer: s <= t + max(S - T, 0).",
        _FROM_THE_END, _EITHER, {**_later(_from_the_wider), **HIDDEN}, alone=True,
    ),
    _fault(
        "causal_alignment_switches_to_less",
        "The corner from which the causal mask is counted depends on which is longer: s <= t + min(S - T, 0).",
        _FROM_THE_END, _EITHER, {**_later(_from_the_narrower), **HIDDEN}, alone=True,
    ),
    _fault(
        "causal_sees_next_token", "The causal mask is off by one: every query sees the next key, too.",
        "The loss of a language model falls to almost nothing.", _MEND, _later(_moved("le", 1)),
    ),
    _fault(
        "causal_hides_diagonal", "The causal mask is off by one: no query sees its own key.",
        "The first row is empty: NaN with minus infinity, uniform with a large negative number.", _MEND,
        {**_later(_moved("lt", 0)), **HIDDEN},
    ),
    _fault(
        "causal_hides_diagonal_rows_zero",
        "The causal mask is off by one: no query sees its own key; the first row, which keeps none, is zero.",
        "The first position gets the output bias alone.", _MEND, _later(_moved("lt", 0)),
    ),
    _fault(
        "causal_hides_diagonal_but_first", "No query sees its own key, except the first one, whose row would be empty.",
        "Every row but the first sees one key too few.", _MEND, _later(_first_row_kept),
    ),
    _fault(
        "causal_hides_two", "The causal mask is off by two: no query sees its own key or the one before.",
        "The first two rows are empty.", _MEND, {**_later(_moved("le", -2)), **HIDDEN},
    ),
)  # fmt: skip
