"""How far two correct computations of attention may lie apart: bounds from the format and the lengths of the sums.

Defines `Bound` and `stage_bounds`.  They judge floating-point implementations and nothing else; no theorem is ever
decided by them.

The model is the usual one: every operation has relative error at most the unit roundoff u.  A chain of sums of
n_1, n_2, ... products, contracted in any order, then differs from the exact value by at most
``growth(n_1 + n_2 + ..., u)`` times the value that the same expression has on absolute values, where nothing cancels
(written Q|, K|, V| below).  Softmax turns an absolute error e of its scores into the relative error
``exp(2 e) - 1`` of its weights.  The bound on a difference is the bound of the implementation plus that of our own
float64 evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from einops import rearrange

from mha_sym.audit.precision import ROUNDOFF, Array, growth, roundoff

#: roundings besides those in sums: bias, scale, mask; and in softmax: shift, exponential (some units), sum, quotient
_EXTRA, _SOFTMAX = 4, 16


@dataclass(frozen=True)
class Bound:
    """A bound on the difference of two computations of one stage.

    Attributes:
        value: the bound.
        terms: the number of terms on the way to an entry, lengths of sums added up.
        magnitude: the largest entry of the stage with absolute values everywhere.
    """

    value: float
    terms: int
    magnitude: float


def stage_bounds(
    found: Mapping[str, Array],
    inputs: tuple[Array, Array, Array],
    sizes: Mapping[str, int],
    scale: float,
    mask: Array | None,
    dtype: str,
) -> dict[str, Bound]:
    """The bound for every stage.

    Args:
        found: the stages and canonical weights as our evaluation gives them.
        inputs: X_q, X_k, X_v.
        sizes: all sizes.
        scale: what ``q . k`` is multiplied by.
        mask: the finite additive mask, broadcastable to ``(b, h, t, s)``, if there is one.
        dtype: the format in which the implementation computes.
    """
    largest = _magnitudes(found, inputs, sizes["h"], scale, mask)
    widths = tuple(x.shape[-1] for x in inputs)
    here, there = (_one_side(largest, widths, sizes, u) for u in (ROUNDOFF["float64"], roundoff(dtype)))
    return {
        name: Bound(here[name].value + there[name].value, there[name].terms, there[name].magnitude) for name in there
    }


def _magnitudes(
    found: Mapping[str, Array], inputs: tuple[Array, Array, Array], heads: int, scale: float, mask: Array | None
) -> dict[str, float]:
    """The largest entry of every stage with absolute values everywhere but in the weights, which are positive."""
    q, k, v = (_heads(_projected(x, found, letter), heads) for x, letter in zip(inputs, "qkv", strict=True))
    scores = abs(scale) * (q @ k.swapaxes(-1, -2)) + (0 if mask is None else np.abs(mask))
    z = found["weights"] @ v
    c = rearrange(z, "b h t v -> b t (h v)")
    y = c @ np.abs(found["w_o"]) + np.abs(found.get("b_o", np.zeros(())))
    stages = {"q": q, "k": k, "v": v, "scores": scores, "z": z, "c": c, "y": y}
    return {name: float(value.max()) for name, value in stages.items()}


def _one_side(
    largest: Mapping[str, float], widths: tuple[int, ...], sizes: Mapping[str, int], u: float
) -> dict[str, Bound]:
    """The bounds of one computation in a format of unit roundoff ``u``."""
    n_q, n_k, n_v = (width + _EXTRA for width in widths)
    n_scores = n_q + n_k + sizes["d_k"] + _EXTRA
    terms = {"q": n_q, "k": n_k, "v": n_v, "scores": n_scores}
    bounds = {name: Bound(growth(n, u) * largest[name], n, largest[name]) for name, n in terms.items()}
    n_weights = n_scores + sizes["S"] + _SOFTMAX
    with np.errstate(over="ignore"):
        # shifting by the maximum costs one more rounding of values up to twice the scores
        relative = float(np.expm1(2 * (bounds["scores"].value + 4 * u * largest["scores"])))
    relative += growth(sizes["S"] + _SOFTMAX, u)
    bounds["weights"] = Bound(min(relative, 1.0), n_weights, 1.0)
    n_z = n_v + sizes["S"]
    n_y = n_z + sizes["h"] * sizes["d_v"] + _EXTRA
    for name, n in (("z", n_z), ("c", n_z), ("y", n_y)):
        bounds[name] = Bound((growth(n, u) + relative) * largest[name], n_weights + n, largest[name])
    return bounds


def _projected(x: Array, found: Mapping[str, Array], letter: str) -> Array:
    bias = found.get(f"b_{letter}", np.zeros(()))
    return np.asarray(np.abs(x) @ np.abs(found[f"w_{letter}"]) + np.abs(bias))


def _heads(value: Array, heads: int) -> Array:
    return np.asarray(rearrange(value, "b t (h k) -> b h t k", h=heads))
