"""Faults of masks: meaning, orientation, alignment, value, order in the batch, and where they are put."""

from __future__ import annotations

from dataclasses import replace

import sympy

from mha_sym.attention.variants import read_as_each_other
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits, Site, Slot, both, there, without
from mha_sym.axes import axis, blocks
from mha_sym.expr import Block, Compare, Expr, Rename, Repeat, Reshape, Scalar, Select, Softmax
from mha_sym.pattern import rearrange

_FAMILY = "mask"
_MEND = "scores = where(keep, scores, -inf), keep = True where query t may attend to key s"
_CAUSAL = "keep = arange(S)[None, :] <= arange(T)[:, None]"
_PADDING = "keep[:, None, None, :] for a padding mask keep of shape (B, S)"

#: what code puts where a key is hidden if it does not leave the key out
_LOW = sympy.Integer(-(10**9))


# ---------------------------------------------------------------- how hidden scores are hidden


def _filled(value: sympy.Expr) -> Edits:
    """Hidden scores are replaced by a number."""

    def masked(at: Site, raw: Expr) -> Expr:
        scores = _plain(at, raw)
        if at.keep is None:
            return scores
        kept = scores * at.keep
        return kept if value == 0 else kept + without(at.keep) * Scalar(value)

    return {"masked": masked, "softmax": _bare}


def _added(value: sympy.Expr) -> Edits:
    """A number is added to hidden scores."""

    def masked(at: Site, raw: Expr) -> Expr:
        scores = _plain(at, raw)
        return scores if at.keep is None else scores + without(at.keep) * Scalar(value)

    return {"masked": masked, "softmax": _bare}


def _plain(at: Site, raw: Expr) -> Expr:
    scores: Expr = raw * Scalar(at.scale)
    return scores if at.mask is None else scores + at.mask


def _bare(at: Site, scores: Expr) -> Expr:
    return Softmax(scores, (at.d.s,))


#: what code does that knows no minus infinity; the same function wherever a row keeps a key
_HIDDEN = _filled(_LOW)


def _added_as_number(at: Site, raw: Expr) -> Expr:
    scores = _plain(at, raw)
    return scores if at.keep is None else scores + at.keep


# ---------------------------------------------------------------- which keys are hidden


def _causal(make: Slot) -> Slot:
    return lambda at: at if at.causal is None else replace(at, causal=make(at))


def _padding(make: Slot) -> Slot:
    return lambda at: at if at.padding is None else replace(at, padding=make(at))


def _shifted(op: str, offset: int) -> Slot:
    return lambda at: Compare(op, at.d.s, at.d.t, offset)  # type: ignore[arg-type]


def _bottom_right(at: Site) -> Expr:
    """``s <= t + S - T``, that is ``T + s <= S + t``: positions counted from the other axis' end."""
    later, earlier = blocks(at.d.t, at.d.s), blocks(at.d.s, at.d.t)
    return Block(Block(Compare("le", later, earlier), later, 1), earlier, 1)


def _first_row_kept(at: Site) -> Expr:
    """``s < t``, and the first query sees the first key."""
    strict = Compare("lt", at.d.s, at.d.t)
    # s + 1 <= t or (t = 0 and s = 0): t = 0 admits no s of the first kind
    first = Compare("eq", at.d.s, axis("one", 1)), Compare("eq", at.d.t, axis("one", 1))
    zero_s, zero_t = (_only(one) for one in first)
    corner = both(zero_s, zero_t)
    return without(both(without(strict), without(corner)))


def _only(expr: Expr) -> Expr:
    return Select(expr, expr.axes[1], 0)


def _on_queries(at: Site) -> Expr:
    """The padding mask (b, s) laid over the queries: ``[b, t, s]`` kept where token t is."""
    padding = there(at.padding, "padding")
    return Repeat(Rename(padding, at.d.s, at.d.t), (at.d.b, at.d.t, at.d.s))


def _on_both(at: Site) -> Expr:
    padding = there(at.padding, "padding")
    return both(_on_queries(at), padding)


def _tiled(at: Site) -> Expr:
    """The mask of sample b goes to batch-times-head ``h b`` where ``b h`` is meant."""
    padding = there(at.padding, "padding")
    d = at.d
    tiled = Repeat(padding, (d.h, d.b, d.s))
    return Reshape(tiled, (d.b, d.h, d.s))


def _per_head(at: Site) -> Expr:
    """The mask of sample b goes to head b where there are as many heads as samples."""
    padding = there(at.padding, "padding")
    d = at.d
    return Repeat(Rename(padding, d.b, d.h), (d.b, d.h, d.s))


def _first_sample(at: Site) -> Expr:
    padding = there(at.padding, "padding")
    return Select(padding, at.d.b, 0)


def _transposed(at: Site) -> Expr:
    return Compare("ge", at.d.s, at.d.t)


def _additive_transposed(at: Site) -> Site:
    if at.mask is None:
        return at
    turned = read_as_each_other(at.mask, at.d.t, at.d.s)
    names = " ".join(one.name for one in turned.axes)
    wanted = " ".join(one.name for one in at.mask.axes)
    return replace(at, mask=rearrange(turned, f"{names} -> {wanted}"))


def _ignored(*which: str) -> Slot:
    return lambda at: replace(at, **dict.fromkeys(which))


def _inverted(at: Site) -> Site:
    every = at.keep
    return at if every is None else replace(at, causal=None, padding=None, kept=without(every))


def _subtracted(at: Site, raw: Expr) -> Expr:
    scores: Expr = raw * Scalar(at.scale)
    return scores if at.mask is None else scores - at.mask


def _multiplied(at: Site, raw: Expr) -> Expr:
    scores: Expr = raw * Scalar(at.scale)
    return scores if at.mask is None else scores * at.mask


def _later(make: Slot) -> Edits:
    return {"before": _causal(make)}


def _fault(name: str, words: str, symptom: str, mend: str, edits: Edits, needs: str, **more: object) -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=mend, step=4, stage="weights", edits=edits,
        needs=tuple(needs.split()), family=_FAMILY, **more,  # type: ignore[arg-type]
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    _fault(
        "causal_mask_ignored", "Later keys are not hidden.",
        "Only the last row is right; the loss is too good to be true.", _CAUSAL, {"before": _ignored("causal")},
        "causal",
    ),
    _fault(
        "padding_mask_ignored", "Padding is not hidden.", "A sentence changes with the padding behind it.", _PADDING,
        {"before": _ignored("padding")}, "padding",
    ),
    _fault(
        "additive_mask_ignored", "The additive mask has no effect.", "Position biases do nothing.",
        "scores = q @ k^T / sqrt(d_k) + mask", {"before": _ignored("mask")}, "additive",
    ),
    _fault(
        "masks_ignored", "No mask has any effect.", "Masked tokens influence the output.", _MEND,
        {"before": _ignored("causal", "padding", "kept", "mask")}, "masked",
    ),
    _fault(
        "mask_inverted", "The mask means the opposite: the keys that it keeps are hidden, the hidden ones are seen.",
        "Attention goes to padding, or to later tokens only; rows that keep no key are uniform.", _MEND,
        {"before": _inverted, **_HIDDEN}, "keep",
    ),
    _fault(
        "mask_inverted_added", "The mask means the opposite, and a large negative number is added where it keeps.",
        "Attention goes to padding, or to later tokens only.", _MEND,
        {"before": _inverted, **_added(_LOW)}, "keep",
    ),
    _fault(
        "causal_mask_inverted", "The causal mask means the opposite: only later keys are seen.",
        "Attention goes to later tokens only; the last row is uniform.", _CAUSAL,
        {"before": _causal(lambda at: Compare("gt", at.d.s, at.d.t)), **_HIDDEN}, "causal",
    ),
    _fault(
        "padding_mask_inverted", "The padding mask means the opposite: only padding is seen.",
        "Attention goes to padding.", _PADDING,
        {"before": _padding(lambda at: without(there(at.padding, "padding"))), **_HIDDEN}, "padding",
    ),
    _fault(
        "causal_mask_transposed", "The causal mask is transposed: every query sees itself and later keys.",
        "The first row sees all keys, the last one only itself.", _CAUSAL, {"before": _causal(_transposed)}, "causal",
        ties={"S": "T"},
    ),
    _fault(
        "additive_mask_transposed", "Queries and keys are exchanged in the additive mask.",
        "Position biases point the wrong way.", "scores = q @ k^T / sqrt(d_k) + mask, mask of shape (T, S)",
        {"before": _additive_transposed}, "additive", ties={"S": "T"},
    ),
    _fault(
        "masks_transposed", "Queries and keys are exchanged in every mask that has both.",
        "Position biases and hidden keys are on the wrong side of the diagonal.", _MEND,
        {"before": lambda at: _additive_transposed(_causal(_transposed)(at))}, "masked", ties={"S": "T"},
    ),
    _fault(
        "causal_sees_next_token", "The causal mask is off by one: every query sees the next key, too.",
        "The loss of a language model falls to almost nothing.", _CAUSAL, _later(_shifted("le", 1)), "causal",
    ),
    _fault(
        "causal_hides_diagonal", "The causal mask is off by one: no query sees its own key.",
        "The first row is empty: NaN with minus infinity, uniform with a large negative number.", _CAUSAL,
        {**_later(_shifted("lt", 0)), **_HIDDEN}, "causal",
    ),
    _fault(
        "causal_hides_diagonal_but_first", "No query sees its own key, except the first one, whose row would be empty.",
        "Every row but the first sees one key too few.", _CAUSAL, _later(_first_row_kept), "causal",
    ),
    _fault(
        "causal_hides_two", "The causal mask is off by two: no query sees its own key or the one before.",
        "The first two rows are empty.", _CAUSAL, {**_later(_shifted("le", -2)), **_HIDDEN}, "causal",
    ),
    _fault(
        "causal_aligned_bottom_right",
        "The causal mask is aligned with the last query and key instead of the first: s <= t + S - T.",
        "Right where there are as many queries as keys.", _CAUSAL, _later(_bottom_right), "causal",
    ),
    _fault(
        "mask_added_as_number", "A boolean mask is added to the scores as 0 and 1.",
        "Masked keys keep most of their weight.", _MEND, {"masked": _added_as_number, "softmax": _bare}, "keep",
    ),
    _fault(
        "mask_subtracted_as_number", "One is subtracted from hidden scores instead of minus infinity added.",
        "Masked keys keep a third of their weight.", _MEND, _added(sympy.Integer(-1)), "keep",
    ),
    _fault(
        "mask_fill_tiny_positive", "Hidden scores are filled with 1e-9 where -1e9 is meant.",
        "Masked keys keep most of their weight.", _MEND, _filled(sympy.Rational(1, 10**9)), "keep",
    ),
    _fault(
        "mask_fill_tiny_negative", "Hidden scores are filled with -1e-9 where -1e9 is meant.",
        "Masked keys keep most of their weight.", _MEND, _filled(sympy.Rational(-1, 10**9)), "keep",
    ),
    _fault(
        "mask_fill_tinier", "Hidden scores are filled with 1e-12, or -1e-12, where -1e12 is meant.",
        "Masked keys keep most of their weight.", _MEND, _filled(sympy.Rational(-1, 10**12)), "keep",
    ),
    _fault(
        "mask_multiplied_into_scores", "Hidden scores become zero: the scores are multiplied by the mask.",
        "Masked keys keep the weight exp(0).", _MEND, _filled(sympy.Integer(0)), "keep",
    ),
    _fault(
        "mask_fill_too_small", "Hidden scores are filled with -1 instead of minus infinity.",
        "Masked keys keep part of their weight.", _MEND, _filled(sympy.Integer(-1)), "keep",
    ),
    _fault(
        "mask_fill_hundred_thousandth", "Hidden scores are filled with 1e-5 where -1e5 is meant.",
        "Masked keys keep most of their weight.", _MEND, _filled(sympy.Rational(1, 10**5)), "keep",
    ),
    _fault(
        "mask_fill_ten", "Ten is subtracted from hidden scores, which is not enough to hide them.",
        "Masked keys keep a little of their weight.", _MEND, _added(sympy.Integer(-10)), "keep",
    ),
    _fault(
        "additive_mask_subtracted", "The additive mask is subtracted from the scores.",
        "Position biases have the wrong sign.", "scores = q @ k^T / sqrt(d_k) + mask", {"masked": _subtracted},
        "additive",
    ),
    _fault(
        "additive_mask_multiplied", "The scores are multiplied by the additive mask.",
        "Scores where the mask is zero are lost.", "scores = q @ k^T / sqrt(d_k) + mask", {"masked": _multiplied},
        "additive",
    ),
    _fault(
        "padding_tiled_over_heads",
        "The padding mask is tiled to (h B) where the scores are (B h): samples get the masks of others.",
        "Right at B = 1 or with equal lengths.", "repeat(keep, 'b s -> (b h) 1 s', h=h)",
        {"before": _padding(_tiled)}, "padding",
    ),
    _fault(
        "padding_read_per_head", "The padding mask (B, S) is broadcast as (h, S): head r gets the mask of sample r.",
        "Runs only where there are as many heads as samples.", _PADDING, {"before": _padding(_per_head)}, "padding",
        ties={"B": "h"},
    ),
    _fault(
        "padding_of_first_sample", "The padding mask of the first sample is used for all.",
        "Right at B = 1 or with equal lengths.", _PADDING, {"before": _padding(_first_sample)}, "padding",
    ),
    _fault(
        "padding_on_queries", "The padding mask is laid over the queries instead of the keys.",
        "Rows of padded queries are uniform; padded keys are seen.", _PADDING,
        {"before": _padding(_on_queries), **_HIDDEN}, "padding", ties={"S": "T"},
    ),
    _fault(
        "padding_on_queries_and_keys", "The padding mask is laid over the queries, too.",
        "Rows of padded queries are uniform or NaN; the others are right.", _PADDING,
        {"before": _padding(_on_both), **_HIDDEN}, "padding", ties={"S": "T"},
    ),
)  # fmt: skip
