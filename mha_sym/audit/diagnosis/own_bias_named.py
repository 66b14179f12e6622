"""What a bias or a window that code has of its own is called, and how it differs from what people mean by it.

Defines `named_bias`, `named_window`, `alibi` (the slopes of ALiBi), and the names of the arrays in which what was
measured stands among those of a run.  Nothing is run here: `mha_sym.audit.diagnosis.own_bias` measures and judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mha_sym.audit.evidence import Evidence
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site, both
from mha_sym.expr import Expr, Input, Repeat

#: the arrays of what was measured, ``(h, t, s)``, by name
BIAS, KEPT = "bias", "seen"
#: how far a bias may be from a straight line, and the weights of all keys from one another, relative to roundings
STRAIGHT = 1e3
#: how alike slopes are that are told as one
_ALIKE = 1e-6

Slopes = tuple[float, ...]


# ---------------------------------------------------------------- a bias


def named_bias(runs: Sequence[Evidence]) -> Fault:
    """The bias as an edit of the correct form, and in words."""
    slopes = [one for one in map(_slopes, runs) if one is not None]
    kind = "distance" if len(slopes) == len(runs) else "position"
    said = all(one.forms.at.causal is not None for one in runs)
    what, causal = f"a bias by {kind}", not said and all(map(_is_causal, runs))
    if causal:
        what += " and a causal mask"
    elif not said and not all(one.setting.arrays[KEPT].all() for one in runs):
        what += " and a mask"
    line = off = ""
    if kind == "distance":
        each = ", ".join(f"{one:.4g}" for one in slopes[0])
        off = _off_alibi(runs, slopes)
        line = f": -m |t - s| with m = {each} at h = {len(slopes[0])}, {off or _AS_ALIBI}"
    slip = next((mend for words, mend in _SLIPS.items() if off.endswith(words)), "")
    return Fault(
        name=f"bias_by_{kind}", words=f"The code adds {what} to the scores{line}; all else is right.",
        meant="" if slip else f"{what} that nobody declared{f' ({off})' if off.startswith(_TIMES) else ''}",
        mend=slip or f"{_TAKE}{'; and say --causal' if causal else ''}; if not, take it out",
        symptom="None, if it is meant: the specification has no bias unless one is handed over." if not slip else
        "Far keys have other weights than in a model that was trained with ALiBi.",
        step=4, stage="scores", edits={"before": _biased}, family="mask",
    )  # fmt: skip


#: how code with a bias is checked
_TAKE = (
    "if it is meant, --prove proves it with any bias in its place; or let the code take it as a mask of axes"
    " (h, t, s), Implementation(..., axes={'mask': 'h t s'}), and it is checked with any bias"
)
_AS_ALIBI = "as ALiBi has it"
_TIMES = "slopes of ALiBi times"
_SCALED = "1/sqrt(d_k): they are added before the scores are scaled"
_TURNED = ": keys that are far are favoured"
#: what to do about slopes that nobody means, by what is said of them
_SLIPS = {
    _SCALED: "scale first: scores = q @ k.swapaxes(-1, -2) / d_k**0.5 + bias",
    _TURNED: "take the distance away: scores - m * abs(t - s)",
}


def alibi(heads: int) -> Slopes:
    """The slopes of ALiBi: ``2^(-8 (i + 1) / h)``; between powers of two, those of the power below and every other one.

    Example:
        >>> alibi(4), alibi(3)
        ((0.25, 0.0625, 0.015625, 0.00390625), (0.0625, 0.00390625, 0.25))
    """
    below = 1 << (heads.bit_length() - 1)
    return (*_powers(below), *_powers(2 * below)[::2][: heads - below])


def _powers(heads: int) -> Slopes:
    return tuple(2.0 ** (-8 * (i + 1) / heads) for i in range(heads))


def _off_alibi(runs: Sequence[Evidence], slopes: Sequence[Slopes]) -> str:
    """How the slopes differ from those of ALiBi; nothing if they do not."""
    own = [np.array(one) for one in slopes]
    for kind in (alibi, _powers):
        known = [np.array(kind(len(one))) for one in own]
        ratios = [one / other for one, other in zip(own, known, strict=True)]
        if any(np.ptp(one) > _ALIKE * np.abs(one).max() for one in ratios):
            continue
        factors = [float(one.mean()) for one in ratios]
        if all(abs(one - 1) <= _ALIKE for one in factors):
            return ""
        roots = [run.setting.sizes["d_k"] ** 0.5 for run in runs]
        if all(abs(one * root - 1) <= _ALIKE for one, root in zip(factors, roots, strict=True)):
            return f"{_TIMES} {factors[0]:.4g} = {_SCALED}"
        if np.ptp(factors) <= _ALIKE * max(map(abs, factors)):
            return f"{_TIMES} {factors[0]:.4g}{_TURNED if factors[0] < 0 else ''}"
    return "which are not the slopes of ALiBi"


def _is_causal(on: Evidence) -> bool:
    """Whether later keys are hidden, and no others."""
    kept = on.setting.arrays[KEPT]
    return bool((kept == (np.tri(*kept.shape[1:]) > 0)).all())


def _slopes(on: Evidence) -> Slopes | None:
    """The slope of every head where the bias falls by it with every step of distance; None if it does not."""
    bias, kept = on.setting.arrays[BIAS], on.setting.arrays[KEPT]
    one, before = (np.diagonal(bias, n, 1, 2)[:, 1 - abs(n) :] for n in (0, -1))  # (h, t), t from 1
    seen = (np.diagonal(kept, 0, 1, 2)[:, 1:] & np.diagonal(kept, -1, 1, 2)).all(axis=0)
    if not seen.any():
        return None
    found = (one - before)[:, seen].mean(axis=1)
    distance = np.abs(np.arange(bias.shape[1])[:, None] - np.arange(bias.shape[2]))
    line = np.where(kept, -found[:, None, None] * distance, -np.inf)
    line = np.where(kept, line - line.max(-1, keepdims=True), 0)  # as it was measured: a row is known up to a constant
    straight = np.abs(bias - line).max() <= STRAIGHT * on.rounding * (1 + np.abs(line).max())
    return tuple(map(float, found)) if straight else None


def _biased(at: Site) -> Site:
    over = (at.d.h, at.d.t, at.d.s)
    bias = Input(BIAS, over, "mask")
    mask: Expr = bias
    if at.mask is not None:
        mask = Repeat(bias, tuple(dict.fromkeys((*over, *at.mask.axes)))) + at.mask
    return replace(_seen(at), mask=mask)


# ---------------------------------------------------------------- a window


def named_window(runs: Sequence[Evidence]) -> Fault | None:
    """The window of keys that every position sees as an edit of the correct form, and in words; None if it is none."""
    window = _window(runs)
    if window is None:
        return None
    first, last = window
    sees = f"a position t sees the keys from {_place(first)} to {_place(last)} only"
    leaks = last > 0 and any(one.forms.at.causal is not None for one in runs)
    count = f"a sliding window of {last - first + 1} keys"
    after = f", {last} of them later than the position" if last > 0 else ""
    return Fault(
        name="window_sees_later_keys" if leaks else "sliding_window",
        words=f"The code hides keys by their distance: {sees}, {count}{after}; all else is right.",
        meant="" if leaks else f"{count}{after}{',' if after else ''} that nobody declared",
        mend=f"hide later keys, too: keep = (s <= t) & (s >= t - {-first})" if leaks else _KEEP,
        symptom="Later tokens act: a decoder sees what it is to predict." if last > 0 else
        "None, if it is meant: the specification hides no keys unless a mask is handed over.",
        step=4, stage="scores", edits={"before": _all_seen if leaks else _seen}, family="mask",
    )  # fmt: skip


#: how code with a window is checked
_KEEP = (
    "if it is meant, let the code take it as a mask: a parameter keep of axes (t, s), True where a query may attend,"
    " and it is checked with any keys hidden; if not, take it out"
)


def _place(n: int) -> str:
    return "t" if n == 0 else f"t {'-' if n < 0 else '+'} {abs(n)}"


def _window(runs: Sequence[Evidence]) -> tuple[int, int] | None:
    """How far before and behind its position a query sees keys, the same in all runs; None if that is no window."""
    kept = [one.setting.arrays[KEPT] for one in runs]
    far = [np.broadcast_to(np.arange(one.shape[2]) - np.arange(one.shape[1])[:, None], one.shape) for one in kept]
    seen = [away[one] for one, away in zip(kept, far, strict=True)]
    if not all(one.size for one in seen):
        return None
    first, last = min(int(one.min()) for one in seen), max(int(one.max()) for one in seen)
    most = max(one.shape[2] for one in kept) - 1
    if not -most < first <= 0 <= last < most:
        return None
    inside = all(np.array_equal(one, (first <= away) & (away <= last)) for one, away in zip(kept, far, strict=True))
    return (first, last) if inside else None


def _seen(at: Site) -> Site:
    kept = Input(KEPT, (at.d.h, at.d.t, at.d.s), "mask", boolean=True)
    return replace(at, kept=kept if at.kept is None else both(at.kept, kept))


def _all_seen(at: Site) -> Site:
    return _seen(replace(at, causal=None))
