"""Grouped heads: proved equal to ordinary heads with copied keys and values, and run against plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mha_sym.attention.dims import cross_inputs
from mha_sym.attention.forms import Options, combined
from mha_sym.attention.grouped import as_heads, copied, grouped, grouped_dims, grouped_weights
from mha_sym.attention.variants import STAGE_NAMES, keep_mask, some_key_kept
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Input, Rename
from mha_sym.pattern import rearrange, repeat
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Claim, Control, Theorem, Verdict

A = grouped_dims()
D = A.d
KEEP = keep_mask(D.b, D.h, D.t, D.s)
OPTIONS = Options(Input("mask", (D.b, D.h, D.t, D.s), "mask"), KEEP)


def theorem() -> Theorem:
    """Grouped attention is attention with the weights of keys and values copied; a strided copy is another function."""
    w, x = grouped_weights(A, bias=True), cross_inputs(D)
    left, right = grouped(A, x, w, OPTIONS).items(), combined(D, x, copied(w, A), OPTIONS).items()
    claims = []
    for name, value in left.items():
        if name in ("k", "v"):
            order = " ".join(a.name for a in value.axes)
            value = repeat(value, f"{order} -> {order.replace('g', 'g r')}", [A.r])
        claims.append(Claim(STAGE_NAMES[name], joined(value), right[name]))
    wrong = combined(D, x, strided(w), OPTIONS)
    control = Control("strided", left["y"], wrong.y, "query head i reads key head i mod G")
    assumptions = (some_key_kept(KEEP, D),)
    return Theorem("grouped_eq_copied", "grouped", "", tuple(claims), (control,), assumptions)


def joined(value: Expr) -> Expr:
    return as_heads(value, A) if A.r in value.axes else value


def strided(w):
    """Keys and values copied in the other order: head (r g) instead of (g r)."""
    right = copied(w, A)
    parts = {}
    for name, feature in (("w_k", D.k), ("w_v", D.v)):
        one = rearrange(getattr(w, name), f"m (g {feature.name}) -> m g {feature.name}")
        one = repeat(one, f"m g {feature.name} -> m r g {feature.name}", [A.r])
        one = rearrange(one, f"m r g {feature.name} -> m (r g) {feature.name}")
        one = Rename(one, one.axis("(r g)"), D.h)
        parts[name] = rearrange(one, f"m h {feature.name} -> m (h {feature.name})")
    return replace(right, **parts)


def test_grouped_heads_are_ordinary_heads_with_copied_keys_and_values() -> None:
    report = prove(theorem())
    assert {one.claim.name: one.verdict for one in report.claims} == dict.fromkeys(STAGE_NAMES.values(), Verdict.PROVED)
    assert [one.verdict for one in report.controls] == [Verdict.REFUTED]


@pytest.mark.parametrize(("groups", "repeats"), [(2, 3), (3, 2), (1, 4), (4, 1)])
def test_numbers_against_loops(groups: int, repeats: int) -> None:
    rng = np.random.default_rng(groups)
    B, T, S, m, k, v = 2, 5, 7, 11, 6, 9
    a = {
        "X_q": rng.normal(size=(B, T, m)), "X_k": rng.normal(size=(B, S, m)), "X_v": rng.normal(size=(B, S, m)),
        "W_Q": rng.normal(size=(m, groups * repeats * k)), "W_K": rng.normal(size=(m, groups * k)),
        "W_V": rng.normal(size=(m, groups * v)), "W_O": rng.normal(size=(groups * repeats * v, m)),
    }  # fmt: skip
    stages = grouped(A, cross_inputs(D), grouped_weights(A))
    found = evaluate_all(stages.items(), a, sizes={"G": groups, "R": repeats})
    y = np.zeros((B, T, m))
    for i in range(groups * repeats):
        j = i // repeats
        q = a["X_q"] @ a["W_Q"][:, i * k : (i + 1) * k]
        scores = q @ (a["X_k"] @ a["W_K"][:, j * k : (j + 1) * k]).swapaxes(1, 2) / np.sqrt(k)
        e = np.exp(scores)
        z = e / e.sum(-1, keepdims=True) @ (a["X_v"] @ a["W_V"][:, j * v : (j + 1) * v])
        np.testing.assert_allclose(found["z"][:, i // repeats, i % repeats], z, atol=1e-12)
        y += z @ a["W_O"][i * v : (i + 1) * v]
    np.testing.assert_allclose(found["y"], y, atol=1e-11)
