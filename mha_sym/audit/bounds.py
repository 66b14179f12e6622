"""How far two correct computations of attention may lie apart: bounds from the format and the lengths of the sums.

Defines `Bound` and `stage_bounds`.  They judge floating-point implementations and nothing else; no theorem is ever
decided by them.

The model is the usual one: every operation has relative error at most the unit roundoff u, and nothing is said of how
errors are distributed: the bounds are for the worst case, entry by entry.  A chain of sums of n_1, n_2, ... products,
contracted in any order, differs from the exact value by at most ``growth(n_1 + n_2 + ..., u)`` times the value that
the same expression has on absolute values, where nothing cancels.  Errors e of the scores of a row make the weight w_s
wrong by the factor ``exp(e_s) / (1 - sum_j w_j e_j)``.  In float16 and bfloat16 that would say nothing; there sums are
assumed to be taken in float32 and stages in their order (`mha_sym.audit.precision.Arithmetic.words`, which reports
print), and errors are carried on from stage to stage.  The bound on a difference is the bound of the implementation
plus that of our own float64 evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from einops import rearrange

from mha_sym.audit.precision import Arithmetic, Array, arithmetic

#: roundings besides those in sums: product and bias of a projection; product, mask and scale (fourth roots and their
#: products) of the scores; sum, quotient and result of a softmax; product of Z; product and bias of the output
_PROJECTED, _SCORED, _SOFTMAX, _MIXED, _OUTPUT = 2, 6, 3, 1, 2
#: the terms of a turned feature
_TURNED = 2


@dataclass(frozen=True)
class Bound:
    """A bound on the difference of two computations of one stage.

    Attributes:
        value: the bound; the largest of all entries, or that of the entry in question.
        terms: the number of terms on the way to an entry, lengths of sums added up.
        magnitude: the largest entry of the stage with absolute values everywhere.
        entries: the bound of every entry.
    """

    value: float
    terms: int
    magnitude: float
    entries: Array = field(default_factory=lambda: np.zeros(()), repr=False, compare=False)

    def at(self, place: Any) -> Bound:
        """The bound of one entry.

        Example:
            >>> Bound(2.0, 5, 1.0, np.array([1.0, 2.0])).at((0,)).value
            1.0
        """
        return replace(self, value=float(self.entries[place]))


def stage_bounds(
    found: Mapping[str, Array],
    inputs: tuple[Array, Array, Array],
    sizes: Mapping[str, int],
    scale: float,
    mask: Array | None,
    dtype: str,
    accumulate: str | None = None,
    turned: bool = False,
) -> dict[str, Bound]:
    """The bound for every stage.

    Args:
        found: the stages and canonical weights as our evaluation gives them.
        inputs: X_q, X_k, X_v.
        sizes: all sizes.
        scale: what ``q . k`` is multiplied by.
        mask: the finite additive mask, broadcastable to ``(b, h, t, s)``, if there is one.
        dtype: the format in which the implementation computes.
        accumulate: the format in which it adds up, if it is another than usual.
        turned: whether positions are turned into queries and keys.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        layer = _Layer(found, inputs, sizes["h"], abs(scale), mask, turned)
        here = layer.errors(arithmetic("float64"))
        there = layer.errors(arithmetic(dtype, accumulate))
        return {name: _bound(here[name] + there[name], layer, name) for name in there}


def _bound(entries: Array, layer: _Layer, name: str) -> Bound:
    entries = np.where(np.isnan(entries), np.inf, entries)  # infinity times zero: nothing is known
    magnitude = 1.0 if name == "weights" else float(layer.large[name].max())
    return Bound(float(entries.max()), layer.terms[name], magnitude, entries)


class _Layer:
    """The values that bounds are made of: stages as they are, and with absolute values everywhere."""

    def __init__(
        self, found: Mapping[str, Array], inputs: tuple[Array, Array, Array], heads: int, scale: float,
        mask: Array | None, turned: bool = False,
    ) -> None:  # fmt: skip
        self.heads, self.scale = heads, scale
        self.plain = {name: np.abs(found[name]) for name in ("q", "k", "v", "weights", "z")}
        self.spread = _spread(found)
        self.mask = np.zeros(()) if mask is None else np.abs(mask)
        self.w_o, self.b_o = np.abs(found["w_o"]), np.abs(found.get("b_o", np.zeros(())))
        q, k, v = (_heads(_projected(x, found, letter), heads) for x, letter in zip(inputs, "qkv", strict=True))
        # a turned feature is one of two, times numbers of at most 1: its partner is at most the largest of the head
        q, k = (one + one.max(-1, keepdims=True) if turned else one for one in (q, k))
        z = self.plain["weights"] @ v
        self.large = {"q": q, "k": k, "v": v, "scores": scale * (q @ k.swapaxes(-1, -2)) + self.mask, "z": z}
        self.large |= {"c": _joined(z), "y": self.output(z)}
        more = (_TURNED, _TURNED, 0) if turned else (0, 0, 0)
        self.widths = {n: x.shape[-1] + extra for n, x, extra in zip("qkv", inputs, more, strict=True)}
        self.n = {"scores": q.shape[-1], "keys": k.shape[-2], "joined": self.w_o.shape[0]}

    def output(self, z: Array) -> Array:
        """``z W_O + b_O`` on absolute values."""
        return np.asarray(_joined(z) @ self.w_o + self.b_o)

    @property
    def terms(self) -> dict[str, int]:
        """The terms on the way to an entry of each stage."""
        n = dict(self.widths)
        n["scores"] = n["q"] + n["k"] + self.n["scores"]
        n["weights"] = n["scores"] + self.n["keys"]
        n["z"] = n["c"] = n["weights"] + n["v"] + self.n["keys"]
        return {**n, "y": n["z"] + self.n["joined"]}

    def errors(self, rule: Arithmetic) -> dict[str, Array]:
        """The largest error of every entry of every stage."""
        found = {name: rule.error(self.widths[name], _PROJECTED) * self.large[name] for name in "qkv"}
        found["scores"] = self._scores_in_order(rule, found) if rule.wider else self._scores(rule)
        found["weights"] = self._weights(rule, found["scores"])
        found["z"] = self._mixed_in_order(rule, found) if rule.wider else self._mixed(rule, found["weights"])
        found["c"] = _joined(found["z"])
        found["y"] = self._output_in_order(rule, found) if rule.wider else self._output(rule, found["weights"])
        return {name: found[name] for name in ("q", "k", "v", "scores", "weights", "z", "c", "y")}

    def _weights(self, rule: Arithmetic, scores: Array) -> Array:
        """Wrong scores, then the roundings of the softmax itself; a row is shifted by its maximum before it."""
        weights = self.plain["weights"]
        shifted = scores + rule.u * (self.spread + scores)
        shifted = np.where(weights > 0, shifted, 0.0)  # a hidden key has weight 0 however its score is rounded
        room = 1 - (weights * shifted).sum(-1, keepdims=True)
        own = rule.error(self.n["keys"], rule.exponential + _SOFTMAX)
        factor = np.where(room > 0, np.exp(shifted) / np.where(room > 0, room, 1.0) * (1 + own), np.inf)
        wrong = np.where(weights > 0, weights * (factor - 1), 0.0)
        return np.minimum(wrong + 2 * rule.underflow, 1.0)

    # ------------------------------------------------------------ sums in any order

    def _scores(self, rule: Arithmetic) -> Array:
        return np.asarray(rule.error(self.terms["scores"], 2 * _PROJECTED + _SCORED) * self.large["scores"])

    def _mixed(self, rule: Arithmetic, weights: Array) -> Array:
        """Wrong weights act on the values as they are; roundings count without cancellation."""
        own = rule.error(self.widths["v"] + self.n["keys"], _PROJECTED + _MIXED)
        return np.asarray(weights @ self.plain["v"] + own * ((self.plain["weights"] + weights) @ self.large["v"]))

    def _output(self, rule: Arithmetic, weights: Array) -> Array:
        n = self.widths["v"] + self.n["keys"] + self.n["joined"]
        own = rule.error(n, _PROJECTED + _MIXED + _OUTPUT)
        return self._through(weights @ self.plain["v"]) + own * self.output(
            (self.plain["weights"] + weights) @ self.large["v"]
        )

    def _through(self, z: Array) -> Array:
        return np.asarray(_joined(z) @ self.w_o)

    # ------------------------------------------------------------ stage by stage

    def _scores_in_order(self, rule: Arithmetic, wrong: Mapping[str, Array]) -> Array:
        q, k = self.plain["q"], self.plain["k"]
        carried = wrong["q"] @ (k + wrong["k"]).swapaxes(-1, -2) + q @ wrong["k"].swapaxes(-1, -2)
        whole = (q + wrong["q"]) @ (k + wrong["k"]).swapaxes(-1, -2)
        own = rule.error(self.n["scores"], _SCORED) * (self.scale * whole + self.mask)
        return np.asarray(self.scale * carried + own)

    def _mixed_in_order(self, rule: Arithmetic, wrong: Mapping[str, Array]) -> Array:
        a, v = self.plain["weights"], self.plain["v"]
        carried = wrong["weights"] @ (v + wrong["v"]) + a @ wrong["v"]
        own = rule.error(self.n["keys"], _MIXED)
        return np.asarray(carried + own * ((a + wrong["weights"]) @ (v + wrong["v"])))

    def _output_in_order(self, rule: Arithmetic, wrong: Mapping[str, Array]) -> Array:
        own = rule.error(self.n["joined"], _OUTPUT)
        return self._through(wrong["z"]) + own * self.output(self.plain["z"] + wrong["z"])


def _spread(found: Mapping[str, Array]) -> Array:
    """How far each score lies below the largest of its row, over the keys that count."""
    counted = np.where(found["weights"] > 0, found["scores"], -np.inf)
    return np.where(found["weights"] > 0, counted.max(-1, keepdims=True) - found["scores"], 0.0)


def _projected(x: Array, found: Mapping[str, Array], letter: str) -> Array:
    bias = found.get(f"b_{letter}", np.zeros(()))
    return np.asarray(np.abs(x) @ np.abs(found[f"w_{letter}"]) + np.abs(bias))


def _heads(value: Array, heads: int) -> Array:
    return np.asarray(rearrange(value, "b t (h k) -> b h t k", h=heads))


def _joined(value: Array) -> Array:
    return np.asarray(rearrange(value, "b h t v -> b t (h v)"))
