"""What code does to its scores by itself, whatever the input is: a bias (ALiBi, T5), or a window of keys.

Defines `own_bias`.  It is measured, as the weights that are left when queries and keys are zero, and told only if
attention with just that bias or window reproduces every run (`mha_sym.audit.diagnosis.own_bias_named` says what it is).
It is no fault if it is meant, which nobody said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mha_sym.audit.diagnosis.diagnose import told
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.diagnosis.heads import Stored
from mha_sym.audit.diagnosis.own_bias_named import BIAS, KEPT, STRAIGHT, named_bias, named_window
from mha_sym.audit.diagnosis.search import Search
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import MASKS, Implementation
from mha_sym.audit.precision import Array
from mha_sym.errors import Problem

#: weights below this are those of hidden keys
_NONE = 1e-30


def own_bias(impl: Implementation, evidence: Sequence[Evidence]) -> Explanation | None:
    """What explains runs of code that is right but for a bias or a window of its own; None if it is not that.

    Args:
        impl: the implementation, whose weights can be changed.
        evidence: its runs.
    """
    try:
        runs = [_with_bias(impl, one) for one in evidence]
    except Problem:  # it does not run with these weights
        return None
    known = [one for one in runs if one is not None]
    if len(known) < len(evidence):
        return None
    fault = named_bias(known) if any(map(_varies, known)) else named_window(known)
    if fault is None:
        return None
    return told([(fault,)], known, {}) if Search(tuple(known)).explains((fault,)) else None


# ---------------------------------------------------------------- what is measured


def _with_bias(impl: Implementation, on: Evidence) -> Evidence | None:
    """A run with the bias that the code adds there, and which keys it hides, among its arrays."""
    if "x" not in impl.arguments or not Stored.possible(impl) or not Stored(impl, on).distinct:
        return None
    weights = _weights(impl, on)
    if np.abs(weights.sum(-1) - 1).max() > STRAIGHT * on.rounding * (1 + weights.shape[-1]):
        return None
    kept = weights > _NONE
    bias = np.log(np.where(kept, weights, 1.0))
    arrays = {**on.setting.arrays, BIAS: bias - bias.max(-1, keepdims=True, where=kept, initial=-np.inf), KEPT: kept}
    arrays[BIAS] = np.where(kept, arrays[BIAS], 0.0)
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
    kept = on.setting.arrays[KEPT]
    return bool(np.abs(on.setting.arrays[BIAS][kept]).max(initial=0.0) > STRAIGHT * on.rounding)
