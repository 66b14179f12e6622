"""Bounds of every format against errors that torch makes; what they show, and what they hide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.bounds import stage_bounds
from mha_sym.audit.precision import ROUNDOFF, arithmetic, growth, rounded
from mha_sym.errors import TargetProblem
from tests.audit import right, wrong

torch = pytest.importorskip("torch")

#: pairwise distinct, as are their products
SIZES = {"B": 2, "T": 5, "S": 7, "d_model": 9, "h": 3, "d_k": 4, "d_v": 8}


def drawn(seed: int, dtype: str) -> dict[str, np.ndarray]:
    """Inputs, weights and biases that the format holds exactly."""
    n, rng = SIZES, np.random.default_rng(seed)
    shapes = {
        "x_q": (n["B"], n["T"], n["d_model"]), "x_k": (n["B"], n["S"], n["d_model"]), "w_q": (n["d_model"], 12),
        "w_k": (n["d_model"], 12), "w_v": (n["d_model"], 24), "w_o": (24, n["d_model"]), "b_q": (12,), "b_v": (24,),
    }  # fmt: skip
    fans = {"w": 3.0, "x": 1.0, "b": 2.0}
    return {name: rounded(rng.normal(size=shape) / fans[name[0]], dtype) for name, shape in shapes.items()}


def by_hand(scores):
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def stages(p: dict[str, np.ndarray], dtype: str, softmax: Callable) -> dict[str, np.ndarray]:
    """Every stage as torch computes it in a format."""
    a = {name: torch.from_numpy(value).to(getattr(torch, dtype)) for name, value in p.items()}
    heads = lambda value: value.unflatten(-1, (3, -1)).transpose(1, 2)  # noqa: E731
    q, k, v = heads(a["x_q"] @ a["w_q"] + a["b_q"]), heads(a["x_k"] @ a["w_k"]), heads(a["x_k"] @ a["w_v"] + a["b_v"])
    scores = q @ k.mT * 0.5
    weights = softmax(scores)
    z = weights @ v
    c = z.transpose(1, 2).flatten(2)
    found = {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "z": z, "c": c, "y": c @ a["w_o"]}
    return {name: value.double().numpy() for name, value in found.items()}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("softmax", [by_hand, lambda scores: torch.softmax(scores, -1)], ids=["by hand", "library"])
def test_errors_that_torch_makes_stay_within_the_bound(dtype: str, softmax: Callable) -> None:
    closest: dict[str, float] = {}
    for seed in range(25):
        p = drawn(seed, dtype)
        exact, rough = stages(p, "float64", by_hand), stages(p, dtype, softmax)
        bounds = stage_bounds({**exact, **p}, (p["x_q"], p["x_k"], p["x_k"]), SIZES, 0.5, None, dtype)
        for name, bound in bounds.items():
            assert bound.entries.shape == exact[name].shape and bound.value == bound.entries.max()
            ratio = float((np.abs(rough[name] - exact[name]) / bound.entries).max())
            assert ratio < 1, (name, seed)
            closest[name] = max(closest.get(name, 0), ratio)
    assert min(closest[name] for name in "qkv") > 0.1, closest
    assert dtype == "float32" or closest["weights"] > 0.05, closest


@pytest.mark.parametrize(("dtype", "least"), [("float32", 1e-4), ("float16", 0.1), ("bfloat16", 0.8)])
def test_bounds_are_tight_enough_to_be_of_use(dtype: str, least: float) -> None:
    p = drawn(0, dtype)
    exact = stages(p, "float64", by_hand)
    bounds = stage_bounds({**exact, **p}, (p["x_q"], p["x_k"], p["x_k"]), SIZES, 0.5, None, dtype)
    assert float(np.median(bounds["y"].entries)) < least * float(np.abs(exact["y"]).max())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_faults_show_in_every_format(dtype: str) -> None:
    assert check(Implementation(call=wrong.joined_without_transpose, dtype=dtype)).exit_code == 1
    assert check(Implementation(call=right.matmul_and_transpose, dtype=dtype)).ok


def test_sums_in_float32_are_an_assumption_that_is_said() -> None:
    rule = arithmetic("bfloat16")
    assert rule.wider and "assumed: sums and exponentials are computed in float32" in rule.words
    assert rule.error(1000, 2) < 1.1 * growth(2, ROUNDOFF["bfloat16"])
    assert arithmetic("bfloat16", "bfloat16").error(1000, 2) == float("inf")
    report = check(Implementation(call=right.matmul_and_transpose, dtype="float16"))
    assert "assumed: sums and exponentials are computed in float32" in report.text(detail=True)
    assert "float32" in report.json()["bounds"]["arithmetic"]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(TargetProblem, match="no floating-point format 'float8'"):
        arithmetic("float8")


def test_weights_that_underflow_are_within_the_bound() -> None:
    """In float16 a weight below 6e-8 is 0; without an absolute term the bound would be smaller than that."""
    p = {**drawn(3, "float16")}
    p["w_q"] = rounded(12 * p["w_q"], "float16")
    exact, rough = stages(p, "float64", by_hand), stages(p, "float16", by_hand)
    bounds = stage_bounds({**exact, **p}, (p["x_q"], p["x_k"], p["x_k"]), SIZES, 0.5, None, "float16")
    lost = (rough["weights"] == 0) & (exact["weights"] > 0)
    assert lost.any()
    assert (np.abs(rough["weights"] - exact["weights"])[lost] <= bounds["weights"].entries[lost]).all()


def scores_otherwise(make):
    """Attention in torch with scores changed by ``make(scores, keep)``."""

    def attention(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, keep=None):
        q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
        scores = make(q @ k.mT / q.shape[-1] ** 0.5, keep)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ w_o

    return attention


def ten_below(scores, keep):
    return scores if keep is None else torch.where(keep, scores, scores - 10)


def a_little_larger(scores, keep):
    return 1.004 * (scores if keep is None else scores.masked_fill(~keep, float("-inf")))


@pytest.mark.parametrize("dtype, make", [
    ("bfloat16", ten_below), ("float16", ten_below), ("bfloat16", a_little_larger),
])  # fmt: skip
def test_a_fault_below_the_bound_is_called_invisible_and_not_ok(dtype: str, make: Callable) -> None:
    code = Implementation(call=scores_otherwise(make), dtype=dtype, framework="torch")
    assert check(replace(code, dtype="float64"), draws=1).verdict == "disagree"
    report = check(code, draws=2)
    step = report.steps[3]
    assert report.ok and step.status == "not visible from outside", step
    assert "they move the output by less than the bound" in step.detail
