"""Faults of the scale of the scores, and the places to which it may be moved."""

from __future__ import annotations

from collections.abc import Callable

import sympy

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site, Slot
from mha_sym.expr import Expr, Scalar

_FAMILY = "scale"

#: what should stand there
MEND = "scores = q @ k.swapaxes(-1, -2) / d_k**0.5"

Factor = Callable[[Site], sympy.Expr]


def scaled_by(factor: Factor) -> Slot:
    """The slot ``masked`` with another factor: ``q . k`` times it, then the mask."""

    def masked(at: Site, raw: Expr) -> Expr:
        value = factor(at)
        scores = raw if value == 1 else raw * Scalar(value)
        return scores if at.mask is None else scores + at.mask

    return masked


_UNSCALED = scaled_by(lambda at: sympy.Integer(1))


def _width(at: Site) -> sympy.Expr:
    """The number whose root the specification divides by, if it does."""
    return at.d.k.size


def _after(at: Site, weights: Expr) -> Expr:
    return weights * Scalar(at.scale)


def _mask_too(at: Site, raw: Expr) -> Expr:
    scores = raw if at.mask is None else raw + at.mask
    return scores * Scalar(at.scale)


def _split_between(q: sympy.Rational | int, k: sympy.Rational | int) -> Slot:
    """Queries and keys times these powers of the scale."""

    def heads(at: Site, qkv: tuple[Expr, Expr, Expr]) -> tuple[Expr, Expr, Expr]:
        one, other, v = qkv
        return (one * Scalar(at.scale**q) if q else one, other * Scalar(at.scale**k) if k else other, v)

    return heads


def _wrong(name: str, factor: Factor, words: str, symptom: str) -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=MEND, step=4, stage="scores",
        edits={"masked": scaled_by(factor)}, family=_FAMILY,
    )  # fmt: skip


def _moved(name: str, q: sympy.Rational | int, k: sympy.Rational | int, words: str) -> Fault:
    return Fault(
        name=name, words=words, symptom="None: the scores are the same.", mend="nothing to mend", step=4,
        stage="q" if q else "k", edits={"heads": _split_between(q, k), "masked": _UNSCALED},
        theorem="scale_moves_between_queries_and_keys", family=_FAMILY,
    )  # fmt: skip


_HALF = sympy.Rational(1, 2)

FAULTS: tuple[Fault, ...] = (
    _wrong(
        "scale_missing", lambda at: sympy.Integer(1), "The scores are not scaled.",
        "Scores are sqrt(d_k) times too large; the softmax is too peaked.",
    ),
    _wrong(
        "scale_by_d_k", lambda at: 1 / _width(at), "The scores are divided by d_k instead of sqrt(d_k).",
        "Scores are sqrt(d_k) times too small; the softmax is too flat.",
    ),
    _wrong(
        "scale_applied_twice", lambda at: at.scale**2, "The scores are scaled twice.",
        "Scores are too small; often q is scaled and the attention routine scales again.",
    ),
    _wrong(
        "scale_by_d_model", lambda at: 1 / sympy.sqrt(at.d.m.size),
        "The scores are divided by sqrt(d_model) instead of sqrt(d_k).",
        "Scores are sqrt(d_model / d_k) times too small; right where d_k = d_model only.",
    ),
    _wrong(
        "scale_by_joined_width", lambda at: 1 / sympy.sqrt(at.d.h.size * at.d.k.size),
        "The scores are divided by sqrt(h d_k) instead of sqrt(d_k).",
        "Scores are sqrt(h) times too small; right at h = 1.",
    ),
    _wrong(
        "scale_inverted", lambda at: 1 / at.scale, "The scores are multiplied by sqrt(d_k) instead of divided.",
        "Scores are d_k times too large; nearly one-hot weights.",
    ),
    _wrong(
        "scale_squared_inverted", lambda at: _width(at), "The scores are multiplied by d_k.",
        "Scores are far too large; one-hot weights.",
    ),
    _wrong(
        "scale_on_one_of_two", lambda at: sympy.sqrt(at.scale),
        "The fourth root of d_k divides only one of q and k instead of both.",
        "Scores are d_k^(1/4) times too large.",
    ),
    _wrong(
        "scale_by_d_v", lambda at: 1 / sympy.sqrt(at.d.v.size),
        "The scores are divided by sqrt(d_v) instead of sqrt(d_k).",
        "Right where values are as wide as keys.",
    ),
    _wrong(
        "scale_by_heads", lambda at: 1 / sympy.sqrt(at.d.h.size),
        "The scores are divided by the root of the number of heads.", "Right where h = d_k.",
    ),
    _wrong(
        "scale_by_keys", lambda at: 1 / sympy.sqrt(at.d.s.size),
        "The scores are divided by the root of the number of keys.", "The weights change with the length.",
    ),
    _wrong(
        "scale_default_for_own", lambda at: at.d.scale,
        "The scores are divided by sqrt(d_k) although another scale is declared.", "The declared scale has no effect.",
    ),
    Fault(
        name="scale_after_softmax",
        words="The weights are scaled after the softmax instead of the scores before it.",
        symptom="Rows of the weights sum to 1/sqrt(d_k).",
        mend=MEND, step=4, stage="scores",
        edits={"masked": _UNSCALED, "reweighted": _after}, family=_FAMILY,
    ),
    Fault(
        name="mask_scaled_too",
        words="The additive mask is added before the scores are scaled, and is scaled with them.",
        symptom="Masks of minus infinity work; finite ones, such as position biases, are too weak.",
        mend=f"{MEND} + mask", step=4, stage="scores", edits={"masked": _mask_too},
        needs=("additive",), family=_FAMILY,
    ),
    _moved("scale_on_queries", 1, 0, "The scale is applied to q instead of to the scores."),
    _moved("scale_on_keys", 0, 1, "The scale is applied to k instead of to the scores."),
    _moved("scale_in_fourth_roots", _HALF, _HALF, "Half of the scale is applied to q and half to k, as fourth roots."),
)  # fmt: skip
