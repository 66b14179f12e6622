"""A bias that code adds to the scores by itself, the same whatever the input is: by distance (ALiBi) or position (T5).

Defines `own_bias`.  It is measured, as the weights that are left when queries and keys are zero, and told only if
attention with just that bias reproduces every run.  It is no fault if it is meant, which nobody said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mha_sym.audit.diagnosis.diagnose import told
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.diagnosis.heads import Stored
from mha_sym.audit.diagnosis.search import Search
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.faults import Fault
from mha_sym.audit.implementation import MASKS, Implementation
from mha_sym.audit.precision import Array
from mha_sym.audit.recipe import Site, both
from mha_sym.errors import Problem
from mha_sym.expr import Expr, Input, Repeat

#: the arrays of what was measured, ``(h, t, s)``, by name
_BIAS, _KEPT = "bias", "seen"
#: weights below this are those of hidden keys
_NONE = 1e-30
#: how far a bias may be from a straight line, and the weights of all keys from one another, relative to roundings
_STRAIGHT = 1e3


def own_bias(impl: Implementation, evidence: Sequence[Evidence]) -> Explanation | None:
    """What explains runs of code that is right but for a bias of its own; None if it is not that.

    Args:
        impl: the implementation, whose weights can be changed.
        evidence: its runs.
    """
    try:
        runs = [_with_bias(impl, one) for one in evidence]
    except Problem:  # it does not run with these weights
        return None
    known = [one for one in runs if one is not None]
    if len(known) < len(evidence) or not any(map(_varies, known)):
        return None
    fault = _named(known)
    return told([(fault,)], known, {}) if Search(tuple(known)).explains((fault,)) else None


# ---------------------------------------------------------------- what is measured


def _with_bias(impl: Implementation, on: Evidence) -> Evidence | None:
    """A run with the bias that the code adds there, and which keys it hides, among its arrays."""
    if "x" not in impl.arguments or not Stored.possible(impl) or not Stored(impl, on).distinct:
        return None
    weights = _weights(impl, on)
    if np.abs(weights.sum(-1) - 1).max() > _STRAIGHT * on.rounding * (1 + weights.shape[-1]):
        return None
    kept = weights > _NONE
    bias = np.log(np.where(kept, weights, 1.0))
    arrays = {**on.setting.arrays, _BIAS: bias - bias.max(-1, keepdims=True, where=kept, initial=-np.inf), _KEPT: kept}
    arrays[_BIAS] = np.where(kept, arrays[_BIAS], 0.0)
    return replace(on, setting=replace(on.setting, arrays=arrays))


def _weights(impl: Implementation, on: Evidence) -> Array:
    """``(h, t, s)``, the weights with queries and keys of zero and no mask handed over.

    Token s alone has a value, of 1 in every head, and W_O shows one head in a feature of the output.
    """
    stored, n = Stored(impl, on), on.setting.sizes
    found = np.zeros((n["h"], n["T"], n["S"]))
    for start in range(0, n["h"], n["d_model"]):
        heads = range(start, min(start + n["d_model"], n["h"]))
        changed = {name: np.zeros_like(on.found[name]) for name in on.spec.weights.items()}
        for head in heads:
            changed["w_v"][0, head * n["d_v"]] = 1.0
            changed["w_o"][head * n["d_v"], head - start] = 1.0
        for token in range(n["S"]):
            y = stored.output(impl, _with_one_value(impl, on, token), changed)[0]
            found[heads, :, token] = y[:, : len(heads)].T
    return found


def _with_one_value(impl: Implementation, on: Evidence, token: int) -> Evidence:
    """The run without masks, the first feature of one token set to 1 and that of all others to 0."""
    arguments = {**on.setting.arguments, **{word: None for word in MASKS if word in on.setting.arguments}}
    if "causal" in arguments:
        arguments["causal"] = False
    x = np.moveaxis(arguments["x"].copy(), [impl.order("x").split().index(name) for name in "tm"], [0, 1])
    x[:, 0] = 0.0
    x[token, 0] = 1.0
    arguments["x"] = np.ascontiguousarray(
        np.moveaxis(x, [0, 1], [impl.order("x").split().index(name) for name in "tm"])
    )
    return replace(on, setting=replace(on.setting, arguments=arguments))


def _varies(on: Evidence) -> bool:
    """Whether keys that are seen have unlike weights."""
    kept = on.setting.arrays[_KEPT]
    return bool(np.abs(on.setting.arrays[_BIAS][kept]).max(initial=0.0) > _STRAIGHT * on.rounding)


# ---------------------------------------------------------------- what it is called


def _named(runs: Sequence[Evidence]) -> Fault:
    """The bias as an edit of the correct form, and in words."""
    slopes = [_slopes(one) for one in runs]
    kind = "position" if None in slopes else "distance"
    what, causal = f"a bias by {kind}", all(map(_is_causal, runs))
    if causal:
        what += " and a causal mask"
    elif not all(one.setting.arrays[_KEPT].all() for one in runs):
        what += " and a mask"
    line = ""
    if kind == "distance" and slopes[0] is not None:
        each = ", ".join(f"{one:.4g}" for one in slopes[0])
        line = f": -m |t - s| with m = {each} at h = {len(slopes[0])}, as ALiBi has it"
    return Fault(
        name=f"bias_by_{kind}", words=f"The code adds {what} to the scores{line}; all else is right.",
        meant=f"{what} that nobody declared",
        mend=f"{_TAKE}{'; and say --causal' if causal else ''}; if not, take it out",
        symptom="None, if it is meant: the specification has no bias unless one is handed over.",
        step=4, stage="scores", edits={"before": _biased}, family="mask",
    )  # fmt: skip


#: how code with a bias is checked
_TAKE = (
    "if it is meant, let the code take it as a mask of axes (h, t, s), Implementation(..., axes={'mask': 'h t s'}),"
    " and it is checked with any bias"
)


def _is_causal(on: Evidence) -> bool:
    """Whether later keys are hidden, and no others."""
    kept = on.setting.arrays[_KEPT]
    return bool((kept == (np.tri(*kept.shape[1:]) > 0)).all())


def _slopes(on: Evidence) -> tuple[float, ...] | None:
    """The slope of every head where the bias falls by it with every step of distance; None if it does not."""
    bias, kept = on.setting.arrays[_BIAS], on.setting.arrays[_KEPT]
    distance = np.abs(np.arange(bias.shape[1])[:, None] - np.arange(bias.shape[2]))
    far = kept & (distance == 1)
    if not far.any(axis=(1, 2)).all():
        return None
    found = tuple(float(-bias[head][far[head]].mean()) for head in range(len(bias)))
    line = -np.asarray(found)[:, None, None] * distance
    apart = np.abs(np.where(kept, bias - line, 0)).max()
    return found if apart <= _STRAIGHT * on.rounding * (1 + np.abs(line).max()) else None


def _biased(at: Site) -> Site:
    over = (at.d.h, at.d.t, at.d.s)
    kept = Input(_KEPT, over, "mask", boolean=True)
    bias = Input(_BIAS, over, "mask")
    mask: Expr = bias
    if at.mask is not None:
        mask = Repeat(bias, tuple(dict.fromkeys((*over, *at.mask.axes)))) + at.mask
    return replace(at, mask=mask, kept=kept if at.kept is None else both(at.kept, kept))
