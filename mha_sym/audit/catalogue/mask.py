"""Faults of masks: meaning, orientation, value, order in the batch, and where they are put; causal ones are apart."""

from __future__ import annotations

from dataclasses import replace

import sympy

from mha_sym.attention.variants import read_as_each_other
from mha_sym.audit.catalogue.scale import MEND as SCORES
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits, Site, Slot, both, there, without
from mha_sym.expr import Expr, Rename, Repeat, Reshape, Scalar, Select, Softmax, Transpose
from mha_sym.pattern import rearrange

_FAMILY = "mask"
#: what should stand there
MEND = "scores = where(keep, scores, -inf), keep = True where query t may attend to key s"
_PADDING = "keep[:, None, None, :] for a padding mask keep of shape (B, S)"

#: what code puts where a key is hidden if it does not leave the key out
_LOW = sympy.Integer(-(10**9))


# ---------------------------------------------------------------- how hidden scores are hidden


def filled(value: sympy.Expr) -> Edits:
    """Hidden scores are replaced by a number."""

    def masked(at: Site, raw: Expr) -> Expr:
        scores = _plain(at, raw)
        if at.keep is None:
            return scores
        kept = scores * at.keep
        return kept if value == 0 else kept + without(at.keep) * Scalar(value)

    return {"masked": masked, "softmax": _bare}


def added(value: sympy.Expr) -> Edits:
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
HIDDEN = filled(_LOW)


def _added_as_number(at: Site, raw: Expr) -> Expr:
    scores = _plain(at, raw)
    return scores if at.keep is None else scores + at.keep


# ---------------------------------------------------------------- which keys are hidden


def _padding(make: Slot) -> Slot:
    return lambda at: at if at.padding is None else replace(at, padding=make(at))


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


def _repeated(at: Site) -> Expr:
    """The mask of sample b is repeated h times in a row, ``(b h)``, and read head by head, ``(h b)``."""
    padding = there(at.padding, "padding")
    d = at.d
    read = Reshape(Repeat(padding, (d.b, d.h, d.s)), (d.h, d.b, d.s))
    return Transpose(read, (d.b, d.h, d.s))


def _per_head(at: Site) -> Expr:
    """The mask of sample b goes to head b where there are as many heads as samples."""
    padding = there(at.padding, "padding")
    d = at.d
    return Repeat(Rename(padding, d.b, d.h), (d.b, d.h, d.s))


def _first_sample(at: Site) -> Expr:
    padding = there(at.padding, "padding")
    return Select(padding, at.d.b, 0)


def additive_transposed(at: Site) -> Site:
    """The additive mask with queries and keys exchanged."""
    if at.mask is None:
        return at
    turned = read_as_each_other(at.mask, at.d.t, at.d.s)
    names = " ".join(one.name for one in turned.axes)
    wanted = " ".join(one.name for one in at.mask.axes)
    return replace(at, mask=rearrange(turned, f"{names} -> {wanted}"))


def ignored(*which: str) -> Slot:
    """Masks that have no effect."""
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


def mask_fault(name: str, words: str, symptom: str, mend: str, edits: Edits, needs: str, **more: object) -> Fault:
    """A fault of a mask: it is seen in the weights."""
    return Fault(
        name=name, words=words, symptom=symptom, mend=mend, step=4, stage="weights", edits=edits,
        needs=tuple(needs.split()), **{"family": _FAMILY, **more},  # type: ignore[arg-type]
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    mask_fault(
        "padding_mask_ignored", "Padding is not hidden.", "A sentence changes with the padding behind it.", _PADDING,
        {"before": ignored("padding")}, "padding",
    ),
    mask_fault(
        "additive_mask_ignored", "The additive mask has no effect.", "Position biases do nothing.",
        f"{SCORES} + mask", {"before": ignored("mask")}, "additive",
    ),
    mask_fault(
        "masks_ignored", "No mask has any effect.", "Masked tokens influence the output.", MEND,
        {"before": ignored("causal", "padding", "kept", "mask")}, "masked",
    ),
    mask_fault(
        "mask_inverted", "The mask means the opposite: the keys that it keeps are hidden, the hidden ones are seen.",
        "Attention goes to padding, or to later tokens only; rows that keep no key are uniform.", MEND,
        {"before": _inverted, **HIDDEN}, "keep",
    ),
    mask_fault(
        "mask_inverted_rows_zero",
        "The mask means the opposite, and rows that keep no key are zero, as scaled_dot_product_attention makes them.",
        "Attention goes to padding, or to later tokens only; queries that keep no key get the output bias alone.",
        "keep = ~drop: True means 'may attend' in scaled_dot_product_attention, 'may not' in MultiheadAttention",
        {"before": _inverted}, "keep",
    ),
    mask_fault(
        "mask_inverted_added", "The mask means the opposite, and a large negative number is added where it keeps.",
        "Attention goes to padding, or to later tokens only.", MEND,
        {"before": _inverted, **added(_LOW)}, "keep",
    ),
    mask_fault(
        "padding_mask_inverted", "The padding mask means the opposite: only padding is seen.",
        "Attention goes to padding.", _PADDING,
        {"before": _padding(lambda at: without(there(at.padding, "padding"))), **HIDDEN}, "padding",
    ),
    mask_fault(
        "additive_mask_transposed", "Queries and keys are exchanged in the additive mask.",
        "Position biases point the wrong way.", f"{SCORES} + mask, mask of shape (T, S)",
        {"before": additive_transposed}, "additive", ties={"S": "T"},
    ),
    mask_fault(
        "mask_added_as_number", "A boolean mask is added to the scores as 0 and 1.",
        "Masked keys keep most of their weight.", MEND, {"masked": _added_as_number, "softmax": _bare}, "keep",
    ),
    mask_fault(
        "mask_subtracted_as_number", "One is subtracted from hidden scores instead of minus infinity added.",
        "Masked keys keep a third of their weight.", MEND, added(sympy.Integer(-1)), "keep",
    ),
    mask_fault(
        "mask_fill_tiny_positive", "Hidden scores are filled with 1e-9 where -1e9 is meant.",
        "Masked keys keep most of their weight.", MEND, filled(sympy.Rational(1, 10**9)), "keep",
    ),
    mask_fault(
        "mask_fill_tiny_negative", "Hidden scores are filled with -1e-9 where -1e9 is meant.",
        "Masked keys keep most of their weight.", MEND, filled(sympy.Rational(-1, 10**9)), "keep", alone=True,
    ),
    mask_fault(
        "mask_fill_tinier", "Hidden scores are filled with -1e-12 where -1e12 is meant.",
        "Masked keys keep most of their weight.", MEND, filled(sympy.Rational(-1, 10**12)), "keep", alone=True,
    ),
    mask_fault(
        "mask_fill_tinier_positive", "Hidden scores are filled with 1e-12 where -1e12 is meant.",
        "Masked keys keep most of their weight.", MEND, filled(sympy.Rational(1, 10**12)), "keep", alone=True,
    ),
    mask_fault(
        "mask_multiplied_into_scores", "Hidden scores become zero: the scores are multiplied by the mask.",
        "Masked keys keep the weight exp(0).", MEND, filled(sympy.Integer(0)), "keep",
    ),
    mask_fault(
        "mask_fill_too_small", "Hidden scores are filled with -1 instead of minus infinity.",
        "Masked keys keep part of their weight.", MEND, filled(sympy.Integer(-1)), "keep",
    ),
    mask_fault(
        "mask_fill_hundred_thousandth", "Hidden scores are filled with 1e-5 where -1e5 is meant.",
        "Masked keys keep most of their weight.", MEND, filled(sympy.Rational(1, 10**5)), "keep", alone=True,
    ),
    mask_fault(
        "mask_fill_ten", "Ten is subtracted from hidden scores, which is not enough to hide them.",
        "Masked keys keep a little of their weight.", MEND, added(sympy.Integer(-10)), "keep",
    ),
    mask_fault(
        "additive_mask_subtracted", "The additive mask is subtracted from the scores.",
        "Position biases have the wrong sign.", f"{SCORES} + mask", {"masked": _subtracted},
        "additive",
    ),
    mask_fault(
        "additive_mask_multiplied", "The scores are multiplied by the additive mask.",
        "Scores where the mask is zero are lost.", f"{SCORES} + mask", {"masked": _multiplied},
        "additive",
    ),
    mask_fault(
        "padding_tiled_over_heads",
        "The padding mask is tiled to (h B) where the scores are (B h): samples get the masks of others.",
        "Right at B = 1 or with equal lengths.", "repeat(keep, 'b s -> (b h) 1 s', h=h)",
        {"before": _padding(_tiled)}, "padding",
    ),
    mask_fault(
        "padding_repeated_for_heads_first",
        "The padding mask is repeated to (B h) where the scores are (h B): samples get the masks of others.",
        "Right at B = 1 or with equal lengths.", "repeat(keep, 'b s -> (h b) 1 s', h=h) where heads come first",
        {"before": _padding(_repeated)}, "padding",
    ),
    mask_fault(
        "padding_read_per_head", "The padding mask (B, S) is broadcast as (h, S): head r gets the mask of sample r.",
        "Runs only where there are as many heads as samples.", _PADDING, {"before": _padding(_per_head)}, "padding",
        ties={"B": "h"},
    ),
    mask_fault(
        "padding_of_first_sample", "The padding mask of the first sample is used for all.",
        "Right at B = 1 or with equal lengths.", _PADDING, {"before": _padding(_first_sample)}, "padding",
    ),
    mask_fault(
        "padding_on_queries", "The padding mask is laid over the queries instead of the keys.",
        "Rows of padded queries are uniform; padded keys are seen.", _PADDING,
        {"before": _padding(_on_queries), **HIDDEN}, "padding", ties={"S": "T"},
    ),
    mask_fault(
        "padding_on_queries_and_keys", "The padding mask is laid over the queries, too.",
        "Rows of padded queries are uniform or NaN; the others are right.", _PADDING,
        {"before": _padding(_on_both), **HIDDEN}, "padding", ties={"S": "T"},
    ),
)  # fmt: skip
