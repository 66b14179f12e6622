"""Layouts and conventions found again from outputs that plain loops computed; ambiguity told where there is some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_sym.audit.layouts.identify import identify
from mha_sym.errors import Problem
from tests.audit.test_dump import N, layer, run, saved


def names(found: Any) -> list[str]:
    return [one.layout.name for one in found.found]


@pytest.mark.parametrize("layout", ["combined", "linear"])
def test_orientation(tmp_path: Path, layout: str) -> None:
    a = layer(1, biases="qkvo")
    out = {"x": a["x"], "y": run(a)["y"]}
    stored = {name: value.T if layout == "linear" and name[0] == "w" else value for name, value in a.items()}
    found = identify(saved(tmp_path, {**stored, **out}), heads=6)
    assert names(found) == [layout] and found.exit_code == 0 and found.tried > 10


def packed(a: dict[str, np.ndarray], order: str, by_head: bool) -> np.ndarray:
    """Queries, keys and values in one matrix, (in, out), in some order; by head, or one after the other."""
    parts = [a[f"w_{x}"].reshape(N["m"], N["h"], -1) for x in order]
    if by_head:
        return np.concatenate(parts, 2).reshape(N["m"], -1)
    return np.concatenate([one.reshape(N["m"], -1) for one in parts], 1)


@pytest.mark.parametrize(
    ("order", "by_head", "linear", "expected"),
    [
        ("qkv", False, False, "packed"), ("qkv", True, True, "packed_by_head_linear"),
        ("kqv", False, True, "packed_linear [K; Q; V]"), ("qvk", False, False, "packed [Q; V; K]"),
    ],
)  # fmt: skip
def test_packing_order(tmp_path: Path, order: str, by_head: bool, linear: bool, expected: str) -> None:
    a = layer(2)
    a["w_v"], a["w_o"] = a["w_v"][:, : N["h"] * N["k"]], a["w_o"][: N["h"] * N["k"]]  # d_v = d_k
    w, o = packed(a, order, by_head), a["w_o"]
    y = heads_of_one_width(a)
    arrays = {"x": a["x"], "y": y, "w_qkv": w.T if linear else w, "w_o": o.T if linear else o}
    found = identify(saved(tmp_path, arrays), heads=6)
    assert names(found) == [expected]


def heads_of_one_width(a: dict[str, np.ndarray], scale: float = 0.5) -> np.ndarray:
    y = np.zeros((N["B"], N["T"], N["m"]))
    for i in range(N["h"]):
        block = slice(i * N["k"], (i + 1) * N["k"])
        s = a["x"] @ a["w_q"][:, block] @ (a["x"] @ a["w_k"][:, block]).swapaxes(1, 2) * scale
        e = np.exp(s - s.max(-1, keepdims=True))
        y += e / e.sum(-1, keepdims=True) @ (a["x"] @ a["w_v"][:, block]) @ a["w_o"][block]
    return y


def test_square_weights_of_either_orientation(tmp_path: Path) -> None:
    """Shapes alone say nothing here: d_model = h d_k = h d_v."""
    rng = np.random.default_rng(3)
    a = {name: rng.normal(size=(24, 24)) / 5 for name in ("w_q", "w_k", "w_v", "w_o")}
    a["x"] = rng.normal(size=(2, 5, 24))
    y = np.zeros((2, 5, 24))
    for i in range(6):
        block = slice(4 * i, 4 * i + 4)
        s = a["x"] @ a["w_q"][:, block] @ (a["x"] @ a["w_k"][:, block]).swapaxes(1, 2) / 2
        e = np.exp(s)
        y += e / e.sum(-1, keepdims=True) @ (a["x"] @ a["w_v"][:, block]) @ a["w_o"][block]
    assert names(identify(saved(tmp_path, {**a, "y": y}), heads=6)) == ["combined"]
    mixed = {**a, "w_o": a["w_o"].T, "y": y}
    assert names(identify(saved(tmp_path, mixed), heads=6)) == ["combined, W_O transposed"]
    linear = {name: value.T if name[0] == "w" else value for name, value in a.items()}
    assert names(identify(saved(tmp_path, {**linear, "y": y}), heads=6)) == ["linear"]
    a["w_o"] = a["w_o"] + a["w_o"].T  # now nothing can tell its orientation
    z = {**a, "y": np.zeros_like(y) + 0}
    assert names(identify(saved(tmp_path, z), heads=6)) == []


def test_scale_and_diagonal(tmp_path: Path) -> None:
    a = layer(4, cross=True)
    shown = run(a, np.tri(N["T"], N["S"], N["S"] - N["T"]) > 0)
    (one,) = identify(saved(tmp_path, {**a, "y": shown["y"]}), heads=6).found
    assert one.causal == "bottom-right" and one.scale == "1/sqrt(d_k)"
    twice = {**a, "w_q": a["w_q"] / np.sqrt(N["k"]), "y": run(a)["y"]}  # scaled before; nothing left to scale
    (one,) = identify(saved(tmp_path, twice), heads=6).found
    assert one.scale == "none" and one.causal == ""


def test_what_a_mask_means(tmp_path: Path) -> None:
    a, keep = layer(5), np.tri(N["T"]) > 0
    for given, meaning in ((keep, "kept"), (~keep, "dropped")):
        arrays = {**a, "keep": given, "y": run(a, keep)["y"]}
        if meaning == "dropped":
            assert not given.any(-1).all()  # a row that is hidden whole if it is read as kept
        (one,) = identify(saved(tmp_path, arrays), heads=6).found
        assert one.mask == meaning


def test_key_heads_in_turn_and_sequence_first(tmp_path: Path) -> None:
    a = layer(6, groups=2)
    y = run(a, stride=True)["y"]
    arrays = {**a, "x": a["x"].swapaxes(0, 1), "y": y.swapaxes(0, 1)}
    (one,) = identify(saved(tmp_path, arrays), heads=6, kv_heads=2).found
    assert one.layout.name == "grouped_strided" and not one.batch_first


def test_more_than_one_reading_is_told(tmp_path: Path) -> None:
    """One head: whether features come before heads cannot be seen, and is the same function; packing by head too."""
    rng = np.random.default_rng(7)
    w, o, x = rng.normal(size=(11, 12)) / 3, rng.normal(size=(4, 11)), rng.normal(size=(2, 5, 11))
    q, k, v = (x @ w[:, 4 * i : 4 * i + 4] for i in range(3))
    s = q @ k.swapaxes(1, 2)  # no scale, and a d_k of 4: 1/sqrt is another function
    e = np.exp(s - s.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True) @ v @ o
    found = identify(saved(tmp_path, {"x": x, "w_qkv": w, "w_o": o, "y": y}), heads=1)
    assert {one.scale for one in found.found} == {"none"} and found.exit_code == 0
    flat = {"x": x, "w_qkv": np.concatenate([w[:, :4], np.zeros((11, 4)), w[:, 8:]], 1), "w_o": o}
    means = np.broadcast_to((x @ w[:, 8:]).mean(1, keepdims=True), (2, 5, 4)) @ o
    found = identify(saved(tmp_path, {**flat, "y": means}), heads=1)  # all scores 0: any scale does
    assert len(found.found) > 1 and found.exit_code == 1 and "cannot be told apart" in found.text()


def test_nothing_reproduces_it(tmp_path: Path) -> None:
    a = layer(8)
    found = identify(saved(tmp_path, {**a, "y": 2 * run(a)["y"]}), heads=6)
    assert found.found == () and found.exit_code == 1 and "none of" in found.text()
    with pytest.raises(Problem, match="fit no known layout"):
        identify(saved(tmp_path, {"x": a["x"], "kernel": a["w_q"], "y": run(a)["y"]}), heads=6)


# ---------------------------------------------------------------- code


def out_in(x, w_q, w_k, w_v, w_o, heads):
    from tests.audit.right import matmul_and_transpose

    return matmul_and_transpose(x, w_q.T, w_k.T, w_v.T, w_o.T, heads)


def unscaled(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    e = np.exp(q @ k.swapaxes(2, 3))
    return (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def test_what_was_not_tried_is_not_told_as_not_found(tmp_path: Path) -> None:
    a = layer(4)
    arrays = {**a, "y": run(a)["y"]}
    with pytest.raises(Problem, match="how many heads") as wanting:
        identify(saved(tmp_path, arrays))
    assert "--heads N" in wanting.value.one_line()
    arrays["y"][1, 2, 0] = np.nan
    with pytest.raises(Problem, match=r"y holds nan"):
        identify(saved(tmp_path, arrays), heads=6)


def test_functions_are_identified() -> None:
    assert names(identify(out_in)) == ["linear"]
    (one,) = identify(unscaled).found
    assert one.layout.name == "combined" and one.scale == "none"


def test_the_command(tmp_path: Path, command: Any) -> None:
    a = layer(9)
    saved(tmp_path, {**a, "y": run(a)["y"]})
    done = command("identify", "dump.npz", "--heads", "6", "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["readings"][0]["layout"] == "combined"
    done = command("identify", "absent.npz", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
