"""What people write wrong about masks, as steps of `tests.audit.corpus` replaced.

Defines `mask_faults`, and the steps of which public cases are made, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.audit.corpus import hidden, hide
from tests.audit.corpus_faults import Faulty, fault

LOW = -1e9  # what is written where minus infinity is meant
INF = float("inf")



def masks(keep=None, pad=None, low=-INF):
    """Masks made otherwise before they are applied: functions of the call."""

    def hide_otherwise(c, scores):
        return hide(replace(c, keep=keep(c) if keep and c.keep is not None else c.keep,
                            pad=pad(c) if pad and c.pad is not None else c.pad), scores, low)  # fmt: skip

    return hide_otherwise


def scores_with(make, value=None):
    """Hidden scores are treated by ``make(scores, keep)``, or filled with ``value``."""

    def step(c, scores):
        keep = hidden(c)
        scores = scores if c.add is None else scores + c.add
        if keep is None:
            return scores
        return make(scores, c.o.number(keep, scores)) if value is None else c.o.fill(scores, keep, value)

    return step


def with_pad(make, low=-INF):
    """The padding mask brought to the scores, (b, h, t, s) or broadcastable, by ``make(c)``."""

    def step(c, scores):
        if c.keep is not None:
            scores = c.o.fill(scores, c.keep[None, None], low)
        return scores if c.pad is None else c.o.fill(scores, make(c), low)

    return step


def tiled(c):
    return c.o.view(c.o.tile(c.pad, c.h, 0), c.B, c.h, 1, c.S)


def repeated(c):
    """Each sample's mask h times in a row where the scores of all samples stand together, head by head."""
    return c.o.move(c.o.view(c.o.repeat(c.pad, c.h, 0), c.h, c.B, 1, c.S), 1, 0, 2, 3)


def ones(c):
    return c.o.tril(c.T, c.S, c.S)


def rows_left_empty(c, scores):
    keep = hidden(c)
    return scores if keep is None else c.o.fill(scores, ~keep, -INF)


def zero_where_empty(c, scores):
    """Rows that keep no key are zero, as in torch's own attention."""
    e = c.o.exp(scores)
    total = e.sum(-1)[..., None]
    return e / (total + c.o.number(total == 0, e))


def mask_faults() -> Iterator[Faulty]:
    yield fault("causal_mask_ignored", "later", hide=masks(keep=ones))
    yield fault("causal_mask_ignored", "keep", hide=masks(keep=ones), label="kept keys ignored")
    yield fault("padding_mask_ignored", "pad", hide=lambda c, s: hide(replace(c, pad=None), s))
    yield fault("masks_ignored", "keep pad", hide=lambda c, s: s, label="both masks ignored")
    yield fault("masks_ignored", "mask", hide=lambda c, s: s, label="added mask ignored")
    yield fault("mask_inverted", "boolean", hide=lambda c, s: s if hidden(c) is None else c.o.fill(s, ~hidden(c), LOW))
    yield fault("mask_inverted_added", "boolean", hide=scores_with(lambda s, keep: s + LOW * keep))
    yield fault(
        "mask_inverted_added", "later double", label="flag inverted, added",
        hide=scores_with(lambda s, keep: s + LOW * keep),
    )  # fmt: skip
    yield fault("causal_mask_inverted", "keep", hide=masks(keep=lambda c: ~c.keep, low=LOW))
    yield fault("causal_mask_inverted", "later", hide=masks(keep=lambda c: ~c.keep, low=LOW), label="flag inverted")
    yield fault("padding_mask_inverted", "pad", hide=masks(pad=lambda c: ~c.pad, low=LOW))
    yield fault("causal_mask_transposed", "keep", free=False, hide=masks(keep=lambda c: c.keep.T))
    yield fault("causal_mask_transposed", "later", hide=masks(keep=lambda c: c.keep.T), label="upper for lower")
    yield fault(
        "masks_transposed", "mask", free=False, hide=lambda c, s: s if c.add is None else s + c.add.T,
        label="added mask transposed",
    )  # fmt: skip
    for words in ("later", "keep"):
        kind = "flag" if words == "later" else "array"
        shifts = {"causal_sees_next_token": 1, "causal_hides_diagonal": -1, "causal_hides_two": -2}
        for name, offset in shifts.items():
            yield fault(
                name, words, label=f"{name}, {kind}",
                hide=masks(lambda c, offset=offset: c.o.tril(c.T, c.S, offset), low=LOW),
            )  # fmt: skip
    yield fault(
        "causal_hides_diagonal_but_first", "later",
        hide=masks(lambda c: c.o.cat([c.o.tril(1, c.S), c.o.tril(c.T, c.S, -1)[1:]], 0)),
    )  # fmt: skip
    yield fault(
        "causal_aligned_bottom_right", "keep cross", free=False,
        hide=masks(lambda c: c.o.tril(c.T, c.S, c.S - c.T), low=LOW),
    )  # fmt: skip
    for name, start in {"more": lambda gap: max(gap, 0), "less": lambda gap: min(gap, 0)}.items():
        yield fault(
            f"causal_alignment_switches_to_{name}", "keep cross", free=False,
            hide=masks(lambda c, start=start: c.o.tril(c.T, c.S, start(c.S - c.T)), low=LOW),
        )  # fmt: skip
    for needs in ("boolean", "later"):
        after = "" if needs == "boolean" else ", causal"
        yield fault("mask_added_as_number", needs, hide=scores_with(lambda s, keep: s + keep),
                    label=f"0 and 1 added{after}")  # fmt: skip
        yield fault("mask_subtracted_as_number", needs, hide=scores_with(lambda s, keep: s - (1 - keep)),
                    label=f"1 taken from hidden scores{after}")  # fmt: skip
        yield fault("mask_fill_ten", needs, hide=scores_with(lambda s, keep: s - 10 * (1 - keep)),
                    label=f"10 taken from hidden scores{after}")  # fmt: skip
        yield fault("mask_multiplied_into_scores", needs, hide=scores_with(lambda s, keep: s * keep),
                    label=f"scores times mask{after}")  # fmt: skip
        fills = {
            "mask_fill_tiny_positive": 1e-9, "mask_fill_tiny_negative": -1e-9, "mask_fill_too_small": -1.0,
            "mask_fill_hundred_thousandth": 1e-5,
        }  # fmt: skip
        for name, value in fills.items():
            yield fault(name, f"{needs}", hide=scores_with(None, value), label=f"{name}{after}")
    yield fault("mask_fill_tinier", "boolean", hide=scores_with(None, -1e-12))
    for words in ("plain_self", "plain_cross"):
        # hidden where nothing was asked for
        yield fault(
            "causal_mask_not_declared", words, label=f"causal unasked, {words}",
            hide=lambda c, s: c.o.fill(s, c.o.tril(c.T, c.S)[None, None], -INF),
        )  # fmt: skip
    yield fault(  # judged as a causal mask, of which nothing was said
        "causal_mask_transposed", "plain_self", label="earlier keys hidden unasked",
        hide=lambda c, s: c.o.fill(s, ~c.o.tril(c.T, c.S, -1)[None, None], -INF),
    )  # fmt: skip
    yield fault("mask_inverted_rows_zero", "boolean", hide=rows_left_empty, softmax=zero_where_empty)
    yield fault("additive_mask_multiplied", "mask", hide=lambda c, s: s if c.add is None else s * c.add)
    yield fault(
        "additive_mask_ignored", "mask", hide=lambda c, s: s if c.add is None else c.o.fill(s, c.add > -1e4, LOW),
    )  # fmt: skip
    yield fault("additive_mask_subtracted", "mask", hide=lambda c, s: s if c.add is None else s - c.add)
    yield fault("padding_tiled_over_heads", "pad", hide=with_pad(tiled))
    yield fault("padding_repeated_for_heads_first", "pad", hide=with_pad(repeated))
    yield fault("padding_read_per_head", "pad self", free=False, hide=with_pad(lambda c: c.pad[None, :, None, :]))
    yield fault("padding_of_first_sample", "pad", hide=with_pad(lambda c: c.pad[:1, None, None, :]))
    yield fault("padding_on_queries", "pad", free=False, hide=with_pad(lambda c: c.pad[:, None, :, None], LOW))
    yield fault(
        "padding_on_queries_and_keys", "pad", free=False,
        hide=with_pad(lambda c: c.pad[:, None, :, None] & c.pad[:, None, None, :], LOW),
    )  # fmt: skip
