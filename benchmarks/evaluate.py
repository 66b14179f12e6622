"""How much slower than code written by hand is `evaluate` on NumPy?  One run, both ways interleaved, one thread.

Prints, for each size, the median time of the code written by hand and the median ratio to it of the combined form,
of the separate heads and of the sum over heads.  Also says what one call costs where the arrays are tiny.

Run as ``python benchmarks/evaluate.py [repetitions]``.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy: threads beside a busy machine would be measured instead

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mha_sym.attention.dims import combined_weights, dims, self_inputs, split_heads
from mha_sym.attention.forms import combined, head_sum, separate
from mha_sym.evaluate import evaluate

Array = np.ndarray[Any, Any]
SIZES = ((2, 5, 12, 3), (1, 128, 256, 8), (4, 256, 512, 8), (2, 512, 1024, 16))


def by_hand(a: Mapping[str, Array], h: int) -> Array:
    """Multi-head attention as it is usually written: matmul, reshape, transpose; softmax in place."""
    batch, length, width = a["X"].shape

    def heads(w: Array) -> Array:
        return (a["X"] @ w).reshape(batch, length, h, -1).transpose(0, 2, 1, 3)

    q, k, v = heads(a["W_Q"]), heads(a["W_K"]), heads(a["W_V"])
    scores = q @ k.swapaxes(-1, -2)
    scores *= 1 / np.sqrt(width // h).astype(scores.dtype)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    z: Array = (scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ a["W_O"]
    return z


def draw(batch: int, length: int, width: int) -> dict[str, Array]:
    """Input and combined weights in float32."""
    rng = np.random.default_rng(0)
    shapes = {"X": (batch, length, width), **dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), (width, width))}
    return {name: (rng.standard_normal(shape) / width**0.5).astype(np.float32) for name, shape in shapes.items()}


def ways(h: int, length: int) -> dict[str, Callable[[dict[str, Array]], Array]]:
    """The code written by hand first, then the three forms."""
    d = dims(T=length)
    w = combined_weights(d)
    forms = {
        "combined": combined(d, self_inputs(d), w).y,
        "separate": separate(d, self_inputs(d), split_heads(w, d)).y,
        "head sum": head_sum(d, self_inputs(d), split_heads(w, d)).y,
    }
    runs: dict[str, Callable[[dict[str, Array]], Array]] = {"by hand": lambda a: by_hand(a, h)}
    for name, form in forms.items():
        runs[name] = lambda a, form=form: evaluate(form, a, sizes={"h": h})  # type: ignore[misc]
    return runs


def seconds(run: Callable[[dict[str, Array]], Array], arrays: dict[str, Array], inner: int) -> float:
    """Time of one call, averaged over ``inner`` calls."""
    start = time.perf_counter()
    for _ in range(inner):
        run(arrays)
    return (time.perf_counter() - start) / inner


def measure(size: tuple[int, int, int, int], repetitions: int) -> str:
    """One line: median milliseconds by hand, and median ratios of the forms to the neighbouring run by hand."""
    batch, length, width, h = size
    arrays, runs = draw(batch, length, width), ways(h, length)
    expected = runs["by hand"](arrays)
    for run in runs.values():
        np.testing.assert_allclose(run(arrays), expected, rtol=0, atol=1e-4)
    inner = max(1, int(0.005 / seconds(runs["by hand"], arrays, 3)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            times[name].append(seconds(run, arrays, inner))
    base = times.pop("by hand")
    ratios = {
        name: statistics.median(t / b for t, b in zip(taken, base, strict=True)) for name, taken in times.items()
    }
    shown = "  ".join(f"{name} {ratio:6.2f}" for name, ratio in ratios.items())
    return f"{size!s:>20}  by hand {statistics.median(base) * 1e3:8.3f} ms   ratio to it: {shown}"


def main() -> None:
    """All sizes."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print("(B, T, d_model, h), float32, one thread")
    for size in SIZES:
        print(measure(size, repetitions))


if __name__ == "__main__":
    main()
