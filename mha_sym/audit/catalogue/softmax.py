"""Faults of the softmax: over which axes, how often, and what is done to its rows."""

from __future__ import annotations

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site, Slot
from mha_sym.expr import Expr, Map, Reduce, Scalar, Softmax, as_expr

_FAMILY = "softmax"
_MEND = "weights = softmax(scores, axis=-1), over the keys"


def _over(*names: str) -> Slot:
    def softmax(at: Site, scores: Expr) -> Expr:
        return Softmax(scores, tuple(getattr(at.d, name) for name in names), at.keep)

    return softmax


def _none(at: Site, scores: Expr) -> Expr:
    return scores if at.keep is None else scores * at.keep


def _before_mask(at: Site, scores: Expr) -> Expr:
    """The softmax sees all keys; hidden ones lose their weight afterwards."""
    weights = Softmax(scores, (at.d.s,))
    return weights if at.keep is None else weights * at.keep


def _no_scores_left(at: Site, raw: Expr) -> Expr:
    return raw * Scalar(at.scale)


def _mask_added_after(at: Site, weights: Expr) -> Expr:
    return weights if at.mask is None else weights + at.mask


def _twice(at: Site, weights: Expr) -> Expr:
    return Softmax(weights, (at.d.s,), at.keep)


def _with_one_more(at: Site, scores: Expr) -> Expr:
    """``exp(s) / (1 + sum exp(s))``: a further key of score zero and value zero."""
    power: Expr = Map("exp", (scores,))
    power = power if at.keep is None else power * at.keep
    return power * Map("inv", (Reduce("sum", power, (at.d.s,)) + as_expr(1),))


def _unnormalised(at: Site, scores: Expr) -> Expr:
    power: Expr = Map("exp", (scores,))
    return power if at.keep is None else power * at.keep


def _wrong_axes(name: str, over: tuple[str, ...], words: str, symptom: str) -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=_MEND, step=4, stage="weights",
        edits={"softmax": _over(*over)}, family=_FAMILY,
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    _wrong_axes(
        "softmax_over_queries", ("t",), "The softmax runs over the queries instead of the keys.",
        "Columns of the weights sum to one, rows do not.",
    ),
    _wrong_axes(
        "softmax_over_heads", ("h",), "The softmax runs over the heads instead of the keys.",
        "The weights of one query and key sum to one over the heads; at h = 1 all weights are one.",
    ),
    _wrong_axes(
        "softmax_over_batch", ("b",), "The softmax runs over the samples instead of the keys.",
        "A sample changes with its batch mates.",
    ),
    _wrong_axes(
        "softmax_over_batch_and_queries", ("b", "t"), "The softmax runs over samples and queries together.",
        "Weights of a key sum to one over all samples; a sample changes with its batch mates.",
    ),
    _wrong_axes(
        "softmax_over_batch_and_heads", ("b", "h"), "The softmax runs over samples and heads, flattened to one axis.",
        "The first axis of (B h, T, S) is taken, as some libraries do where none is named.",
    ),
    _wrong_axes(
        "softmax_over_heads_and_keys", ("h", "s"), "The softmax runs over heads and keys together.",
        "Rows sum to less than one; their sum over the heads is one.",
    ),
    _wrong_axes(
        "softmax_over_queries_and_keys", ("t", "s"), "The softmax runs over queries and keys together, flattened.",
        "Each head's weights sum to one altogether; outputs are too small by about T.",
    ),
    _wrong_axes(
        "softmax_over_all", ("h", "t", "s"), "The softmax runs over heads, queries and keys together, flattened.",
        "All weights of a sample sum to one; outputs are far too small.",
    ),
    _wrong_axes(
        "softmax_over_everything", ("b", "h", "t", "s"), "The softmax runs over the whole flattened array.",
        "All weights sum to one; a sample changes with its batch mates.",
    ),
    Fault(
        name="softmax_missing",
        words="There is no softmax: the scores are the weights.",
        symptom="Weights are negative and rows do not sum to one; the layer is a polynomial of its input.",
        mend=_MEND, step=4, stage="weights", edits={"softmax": _none}, family=_FAMILY,
    ),
    Fault(
        name="softmax_without_normalisation",
        words="The exponentials of the scores are the weights; they are not divided by their sum.",
        symptom="Rows do not sum to one.",
        mend=_MEND, step=4, stage="weights", edits={"softmax": _unnormalised}, family=_FAMILY,
    ),
    Fault(
        name="softmax_twice",
        words="The softmax is applied twice.",
        symptom="Weights are nearly uniform, and remain so in training.",
        mend=_MEND, step=4, stage="weights", edits={"reweighted": _twice}, family=_FAMILY,
    ),
    Fault(
        name="softmax_with_a_zero_key",
        words="One is added to the sum below the exponentials, as if there were one more key of score and value zero.",
        symptom="Rows sum to less than one.",
        mend=_MEND, step=4, stage="weights", edits={"softmax": _with_one_more}, family=_FAMILY,
    ),
    Fault(
        name="mask_after_softmax",
        words="Hidden keys lose their weight after the softmax, and the rows are not normalised again.",
        symptom="Rows with hidden keys sum to less than one; hidden tokens act through the sum.",
        mend="weights = softmax(where(keep, scores, -inf), axis=-1)", step=4, stage="weights",
        edits={"softmax": _before_mask}, needs=("keep",), family=_FAMILY,
    ),
    Fault(
        name="mask_added_after_softmax",
        words="The additive mask is added to the weights instead of to the scores.",
        symptom="Weights are negative and rows do not sum to one.",
        mend="weights = softmax(scores + mask, axis=-1)", step=4, stage="weights",
        edits={"masked": _no_scores_left, "reweighted": _mask_added_after}, needs=("additive",), family=_FAMILY,
    ),
)  # fmt: skip
