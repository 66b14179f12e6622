"""The bound against errors that were measured: in float32 and float16 it holds, and it is not absurdly wide."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.bounds import stage_bounds
from tests.audit import right

SIZES = {"B": 2, "T": 5, "S": 7, "d_model": 9, "h": 3, "d_k": 4, "d_v": 2}


def layer(rng: np.random.Generator, scale: float = 1.0) -> dict[str, np.ndarray]:
    n = SIZES
    return {
        "x_q": rng.normal(size=(n["B"], n["T"], n["d_model"])), "x_k": rng.normal(size=(n["B"], n["S"], n["d_model"])),
        "w_q": scale * rng.normal(size=(n["d_model"], n["h"] * n["d_k"])), "w_k": rng.normal(size=(n["d_model"], 12)),
        "w_v": rng.normal(size=(n["d_model"], n["h"] * n["d_v"])), "w_o": rng.normal(size=(6, n["d_model"])),
    }  # fmt: skip


def computed(p: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    """Every stage in a format, from values that the format holds exactly."""
    a = {name: value.astype("float16").astype(dtype) for name, value in p.items()}
    q, k, v = (
        (a[x] @ a[w]).reshape(2, -1, 3, n).swapaxes(1, 2)
        for x, w, n in (("x_q", "w_q", 4), ("x_k", "w_k", 4), ("x_k", "w_v", 2))
    )
    scores = q @ k.swapaxes(2, 3) / np.asarray(np.sqrt(4), dtype)
    weights = right.softmax(scores)
    z = weights @ v
    c = z.swapaxes(1, 2).reshape(2, 5, 6)
    return {"q": q, "k": k, "v": v, "scores": scores, "weights": weights, "z": z, "c": c, "y": c @ a["w_o"]}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_measured_errors_stay_within_the_bound(dtype: str, scale: float) -> None:
    closest: dict[str, float] = {}
    for seed in range(30):
        p = layer(np.random.default_rng(seed), scale)
        exact, rough = computed(p, "float64"), computed(p, dtype)
        halved = {name: value.astype("float16").astype("float64") for name, value in p.items()}
        inputs = (halved["x_q"], halved["x_k"], halved["x_k"])
        bounds = stage_bounds({**exact, **halved}, inputs, SIZES, 0.5, None, dtype)
        for name, bound in bounds.items():
            ratio = float(np.abs(rough[name] - exact[name]).max()) / bound.value
            assert ratio < 1, (name, seed)
            closest[name] = max(closest.get(name, 0), ratio)
    assert min(closest[name] for name in ("q", "k", "v")) > 0.01, closest  # a bound that says nothing is no bound


def test_the_bound_grows_with_the_roundoff_and_the_sums() -> None:
    p = layer(np.random.default_rng(0))
    exact = computed(p, "float64")
    inputs = (p["x_q"], p["x_k"], p["x_k"])
    of = {d: stage_bounds({**exact, **p}, inputs, SIZES, 0.5, None, d)["q"] for d in ("float64", "float32", "bfloat16")}
    assert of["float32"].value == pytest.approx(2**28 * of["float64"].value, rel=1e-3)
    assert of["float64"].terms == 9  # nine products; two roundings more for the product and the bias
    u = 2.0**-8  # sums of bfloat16 are taken in float32: what remains are its two roundings
    assert of["bfloat16"].value == pytest.approx(2 * u / (1 - 2 * u) * of["bfloat16"].magnitude, rel=1e-4)


def test_correct_code_in_another_order_of_contraction_is_within_the_bound() -> None:
    impl = Implementation(call=right.queries_and_keys_folded, dtype="float32")
    for seed in range(5):
        assert check(impl, seed=seed).ok
