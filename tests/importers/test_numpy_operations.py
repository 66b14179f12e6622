"""Every NumPy operation that is followed gives, as a graph, what NumPy gives; the documentation lists these tests."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import einops
import numpy as np
import pytest

from mha_sym.axes import size_symbol
from mha_sym.importers.fold import fold
from mha_sym.importers.from_numpy.array import UFUNCS
from mha_sym.importers.from_numpy.created import CREATED
from mha_sym.importers.from_numpy.functions import FUNCTIONS, METHODS
from mha_sym.importers.from_numpy.trace import following, new_input, trace
from mha_sym.importers.graph import ImportProblem
from mha_sym.importers.run import run
from mha_sym.importers.session import Dim, Leak, Session
from mha_sym.importers.vocabulary import markdown

SIZES = {"B": 2, "T": 5, "d_k": 4}

#: x (B, T, 6), w (6, 3), c (T, d_k) and the sizes T and d_k
Case = Callable[[Any, Any, Any, Any, Any], Any]

CASES: dict[str, Case] = {
    "sum": lambda x, w, c, t, k: np.sum(x, axis=(0, 2), keepdims=True),
    "max": lambda x, w, c, t, k: np.max(x, axis=1),
    "amax": lambda x, w, c, t, k: np.amax(x, axis=-1, keepdims=True),
    "mean": lambda x, w, c, t, k: np.mean(x, axis=1),
    "reshape": lambda x, w, c, t, k: np.reshape(x, (-1, 2, 3)),
    "transpose": lambda x, w, c, t, k: np.transpose(x, (2, 0, 1)),
    "permute_dims": lambda x, w, c, t, k: np.permute_dims(x, (1, 2, 0)),
    "swapaxes": lambda x, w, c, t, k: np.swapaxes(x, 0, -1),
    "moveaxis": lambda x, w, c, t, k: np.moveaxis(x, [0, 1], [-1, 0]),
    "expand_dims": lambda x, w, c, t, k: np.expand_dims(x, (0, -1)),
    "squeeze": lambda x, w, c, t, k: np.squeeze(x[:, :1], axis=1),
    "concatenate": lambda x, w, c, t, k: np.concatenate([x, 2 * x], axis=1),
    "concat": lambda x, w, c, t, k: np.concat([x, x], axis=-1),
    "stack": lambda x, w, c, t, k: np.stack([x, -x], axis=2),
    "hstack": lambda x, w, c, t, k: np.hstack([c, c]),
    "vstack": lambda x, w, c, t, k: np.vstack([c, 3 * c]),
    "split": lambda x, w, c, t, k: np.split(x, [1, 4], axis=2)[1],
    "array_split": lambda x, w, c, t, k: np.array_split(x, 3, axis=-1)[2],
    "where": lambda x, w, c, t, k: np.where(np.tril(np.ones((t, t))) > 0, x @ np.swapaxes(x, 1, 2), 0),
    "einsum": lambda x, w, c, t, k: np.einsum("...tm,mn,tk->...nk", x, w, c),
    "tensordot": lambda x, w, c, t, k: np.tensordot(x, c, axes=([1], [0])),
    "dot": lambda x, w, c, t, k: np.dot(x, w),
    "broadcast_to": lambda x, w, c, t, k: np.broadcast_to(w, (t, 6, 3)),
    "repeat": lambda x, w, c, t, k: np.repeat(c, 3, axis=0),
    "tile": lambda x, w, c, t, k: np.tile(c, (2, 3)),
    "take": lambda x, w, c, t, k: np.take(w, [2, 0], axis=1),
    "flip": lambda x, w, c, t, k: np.flip(w, axis=0),
    "roll": lambda x, w, c, t, k: np.roll(np.roll(x, 2, axis=1), (-1, 8), (1, 2)),
    "clip": lambda x, w, c, t, k: np.clip(x, -0.5, 0.25) + np.clip(x, None, 1),
    "nan_to_num": lambda x, w, c, t, k: np.nan_to_num(x, nan=1.0),
    ".clip": lambda x, w, c, t, k: x.clip(0.1, max=0.7),
    "tril": lambda x, w, c, t, k: np.tril(np.einsum("btm,bsm->bts", x, x), k=1),
    "triu": lambda x, w, c, t, k: np.triu(c[:, :3].T @ c[:, 1:]),
    "matrix_transpose": lambda x, w, c, t, k: np.matrix_transpose(x),
    "ravel": lambda x, w, c, t, k: np.ravel(c),
    "ones_like": lambda x, w, c, t, k: x * np.ones_like(x),
    "zeros_like": lambda x, w, c, t, k: x + np.zeros_like(x),
    "full_like": lambda x, w, c, t, k: x + np.full_like(x, 2.5),
    "empty_like": lambda x, w, c, t, k: 0 * np.empty_like(c) + c,
    "copy": lambda x, w, c, t, k: np.copy(x),
    "shape": lambda x, w, c, t, k: x * np.shape(x)[1],
    "ndim": lambda x, w, c, t, k: x * np.ndim(x),
    "size": lambda x, w, c, t, k: x / np.size(c) + np.size(w, 1),
    ".sum": lambda x, w, c, t, k: x.sum(-1),
    ".max": lambda x, w, c, t, k: x.max(axis=0),
    ".mean": lambda x, w, c, t, k: x.mean((0, 1)),
    ".swapaxes": lambda x, w, c, t, k: x.swapaxes(1, 2),
    ".squeeze": lambda x, w, c, t, k: x[:1].squeeze(0),
    ".repeat": lambda x, w, c, t, k: x.repeat(2, axis=1),
    ".take": lambda x, w, c, t, k: w.take([1, 1], axis=0),
    ".dot": lambda x, w, c, t, k: x.dot(w),
    ".ravel": lambda x, w, c, t, k: x.ravel(),
    ".copy": lambda x, w, c, t, k: x.copy() + 1,
    ".reshape": lambda x, w, c, t, k: x.reshape(x.shape[0], -1, 2),
    ".transpose": lambda x, w, c, t, k: x.transpose(1, 0, 2) @ w,
    ".flatten": lambda x, w, c, t, k: c.flatten(),
    ".astype": lambda x, w, c, t, k: x.astype(np.float64) * (c > 0).astype(float).sum(),
    "created ones": lambda x, w, c, t, k: np.ones((t, t)) @ c,
    "created zeros": lambda x, w, c, t, k: np.zeros((t, 1)) + c,
    "created empty": lambda x, w, c, t, k: 0 * np.empty((t, k)) + c,
    "created full": lambda x, w, c, t, k: np.full((t, t), 0.5) @ c,
    "outer": lambda x, w, c, t, k: np.outer(c, c[0]) + np.outer(np.arange(0, 2 * t * k, 2), np.arange(k) + 1.0),
    "created arange": lambda x, w, c, t, k: np.where(np.arange(t)[:, None] >= np.arange(k)[None, :] + 1, c, -c),
    "created tri": lambda x, w, c, t, k: np.tri(t, k=-1) @ c,
    "created eye": lambda x, w, c, t, k: np.eye(t) @ c,
    "created identity": lambda x, w, c, t, k: c @ np.identity(k),
    "created asarray": lambda x, w, c, t, k: np.asarray(c) + 1,
    "created array": lambda x, w, c, t, k: np.array([c, 2 * c]),
    "created ascontiguousarray": lambda x, w, c, t, k: np.ascontiguousarray(c.T),
    "created broadcast_to": lambda x, w, c, t, k: np.broadcast_to(w, (t, 6, 3)) + 1,
    "ufunc add": lambda x, w, c, t, k: x + 1, "ufunc subtract": lambda x, w, c, t, k: 1 - x,
    "ufunc multiply": lambda x, w, c, t, k: x * t, "ufunc divide": lambda x, w, c, t, k: x / math.sqrt(k),
    "ufunc true_divide": lambda x, w, c, t, k: np.true_divide(x, k), "ufunc negative": lambda x, w, c, t, k: -x,
    "ufunc exp": lambda x, w, c, t, k: np.exp(x), "ufunc sqrt": lambda x, w, c, t, k: np.sqrt(x * x + np.sqrt(k)),
    "ufunc power": lambda x, w, c, t, k: x**2 * k**-0.5,
    "ufunc float_power": lambda x, w, c, t, k: np.float_power(x, 2),
    "ufunc log": lambda x, w, c, t, k: np.log(x * x + 1), "ufunc absolute": lambda x, w, c, t, k: abs(x),
    "ufunc sin": lambda x, w, c, t, k: np.sin(x), "ufunc cos": lambda x, w, c, t, k: np.cos(x),
    "ufunc tanh": lambda x, w, c, t, k: np.tanh(x), "ufunc minimum": lambda x, w, c, t, k: np.minimum(x, 0),
    "ufunc maximum": lambda x, w, c, t, k: np.maximum(x, 0), "ufunc fmax": lambda x, w, c, t, k: np.fmax(x, 0),
    "ufunc equal": lambda x, w, c, t, k: np.where(x == 0, 1, x), "ufunc not_equal": lambda x, w, c, t, k: x * (x != 0),
    "ufunc less": lambda x, w, c, t, k: x * (x < 0), "ufunc less_equal": lambda x, w, c, t, k: x * (x <= 0),
    "ufunc greater": lambda x, w, c, t, k: x * (x > 0), "ufunc greater_equal": lambda x, w, c, t, k: x * (x >= 0),
    "ufunc logical_not": lambda x, w, c, t, k: x * np.logical_not(x > 0),
    "ufunc invert": lambda x, w, c, t, k: x * ~(x > 0),
    "ufunc logical_and": lambda x, w, c, t, k: x * np.logical_and(x > 0, x < 1),
    "ufunc bitwise_and": lambda x, w, c, t, k: x * ((x > 0) & (x < 1)),
    "ufunc logical_or": lambda x, w, c, t, k: x * np.logical_or(x > 1, x < 0),
    "ufunc bitwise_or": lambda x, w, c, t, k: x * ((x > 1) | (x < 0)),
    "ufunc isneginf": lambda x, w, c, t, k: x * np.isinf(np.where(x > 0, x, -np.inf)),
    "ufunc isinf": lambda x, w, c, t, k: x * np.isinf(np.where(x > 0, x, -np.inf)),
    "ufunc isfinite": lambda x, w, c, t, k: x * np.isfinite(np.where(x > 0, x, -np.inf)),
    "ufunc matmul": lambda x, w, c, t, k: x @ w, "ufunc square": lambda x, w, c, t, k: np.square(x) * np.square(k),
    "ufunc reciprocal": lambda x, w, c, t, k: np.reciprocal(x), "ufunc positive": lambda x, w, c, t, k: +x,
    "einops rearrange": lambda x, w, c, t, k: einops.rearrange(x, "b t (h d) -> (b h) t d", h=3),
    "einops reduce": lambda x, w, c, t, k: einops.reduce(x, "b t (h d) -> t h", "mean", h=2),
    "einops repeat": lambda x, w, c, t, k: einops.repeat(c, "t k -> b t (k two)", two=2, b=k),
    "einops einsum": lambda x, w, c, t, k: einops.einsum(x, w, "b t m, m n -> t n b"),
    "index": lambda x, w, c, t, k: x[0, :, None, 1:-2] + x[1][..., [4, 2, 0]][:, None],
    "index with a step": lambda x, w, c, t, k: w[::-2, 1],
    "written in place": lambda x, w, c, t, k: _written(x.copy(), c),
}  # fmt: skip


def _written(x: Any, c: Any) -> Any:
    x[..., :2] = 0
    x[:, :, -1] = 7.0
    x *= 2
    x[x > 3] = -1
    return x


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    return {"x": rng.normal(size=(2, 5, 6)), "w": rng.normal(size=(6, 3)), "c": rng.normal(size=(5, 4))}


def traced(case: Case) -> Any:
    b, t, k = (size_symbol(n) for n in SIZES)

    def work(session: Session) -> dict[str, Any]:
        made = [new_input(session, n, s) for n, s in {"x": (b, t, 6), "w": (6, 3), "c": (t, k)}.items()]
        return {"out": case(*made, session.dim(t), session.dim(k))}

    return trace(work)


@pytest.mark.parametrize("name", CASES)
def test_numpy_operation(name: str) -> None:
    graph, given = traced(CASES[name]), arrays()
    expected = CASES[name](*(given[n].copy() for n in ("x", "w", "c")), SIZES["T"], SIZES["d_k"])
    for one in (graph, fold(graph)):
        got = run(one, given, SIZES)["out"]
        assert got.shape == np.shape(expected)
        assert np.allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_every_operation_of_the_tables_has_a_case() -> None:
    wanted = {*FUNCTIONS, *(f".{n}" for n in METHODS), *(f"created {n}" for n in CREATED),
              *(f"ufunc {n}" for n in UFUNCS)}  # fmt: skip
    assert wanted <= set(CASES)


def test_the_documentation_lists_every_operation_with_its_test() -> None:
    page = Path(__file__).parents[2] / "docs" / "operations.md"
    text = page.read_text(encoding="utf-8")
    assert text == markdown(), "write it again: python -m mha_sym.importers.vocabulary > docs/operations.md"
    for name in (*FUNCTIONS, *CREATED, *UFUNCS):
        assert f"`{name}`" in text


@pytest.mark.parametrize("key", [([0, 1], [1, 2]), (0, slice(None), [1, 2])])
def test_lists_of_positions_are_followed_one_at_a_time(key: Any) -> None:
    """NumPy pairs them, and moves axes; one after the other is something else."""
    with pytest.raises(ImportProblem, match="several lists"):
        traced(lambda x, w, c, t, k: x[key])


def test_after_tracing_numpy_is_what_it_was() -> None:
    before = {name: getattr(np, name) for name in CREATED}
    traced(CASES["created ones"])
    assert all(getattr(np, name) is one for name, one in before.items()) and math.sqrt(4) == 2.0


# ---------------------------------------------------------------- sizes


def at_sizes(code: Callable[[Any], Any]) -> tuple[Any, Session]:
    session = Session()
    return code(session), session


LEAKS: dict[str, Callable[[Any], Any]] = {
    "range": lambda n: list(range(n)), "int": int, "float": float, "index": lambda n: [1, 2][n],
    "times": lambda n: [0] * n, "round": round, "math.floor": lambda n: math.floor(float(n)),
}  # fmt: skip


@pytest.mark.parametrize("name", LEAKS)
def test_asking_for_the_value_of_a_size_is_never_silent(name: str) -> None:
    session = Session()
    with pytest.raises(Leak) as caught:
        LEAKS[name](session.dim(size_symbol("T")))
    assert caught.value.symbols == {size_symbol("T")} and session.leaks == [caught.value]


def test_a_leak_that_the_code_catches_is_still_a_leak() -> None:
    def catches(x: Any) -> Any:
        try:
            return x * len(range(x.shape[0]))
        except Exception:  # noqa: BLE001
            return x

    with pytest.raises(Leak):
        trace(lambda s: {"y": catches(new_input(s, "x", (size_symbol("T"),)))})


def test_sizes_decide_only_what_holds_for_all_of_them() -> None:
    session = Session()
    t, h = session.dim(size_symbol("T")), session.dim(size_symbol("h"))
    assert t >= 1 and t + 1 > t and t == t and 2 * t != t and not t < 1 and t
    assert not session.builder.notes.conditions
    assert t != 1
    assert t > 1
    assert t != h
    assert h <= 100
    assert [str(one) for one in session.builder.notes.conditions] == ["T != 1", "T > 1", "T != h", "h <= 100"]


def test_arithmetic_of_sizes_is_exact() -> None:
    session = Session()
    h, k = session.dim(size_symbol("h")), session.dim(size_symbol("d_k"))
    assert (h * k) // h == k and (h * k) % k == 0 and divmod(h * k, h)[0] == k and isinstance(h // h, int)
    assert str(k**-0.5) == "1/sqrt(d_k)" and str(np.sqrt(k)) == "sqrt(d_k)"
    with following(session):
        assert str(1 / math.sqrt(k)) == "1/sqrt(d_k)" and math.sqrt(16) == 4.0
    assert repr(2 * h - h) == "h" and -h + 2 * h == h and abs(h) == h and isinstance(h - h, int)
    with pytest.raises(ImportProblem, match="does not divide by"):
        h // k
    with pytest.raises(TypeError):
        hash(h)
    assert isinstance(h, Dim)


def test_a_place_is_the_line_of_the_code() -> None:
    def code(x: Any) -> Any:
        return np.exp(
            x
        )

    graph = trace(lambda s: {"y": code(new_input(s, "x", (size_symbol("T"),)))})
    place = graph.nodes[-1].place
    assert place.file == __file__ and place.line in range(*_span(code)) and "np.exp" in place.what


def _span(code: Any) -> tuple[int, int]:
    lines, start = inspect.getsourcelines(code)
    return start, start + len(lines)
