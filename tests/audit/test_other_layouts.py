"""Weights that are read under the wrong layout: check says under which one the output is right, where no fault does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from einops import rearrange

from mha_sym.audit import Implementation, check
from mha_sym.audit.dumps.dump import check_dump
from mha_sym.audit.layouts.identify import identify
from mha_sym.audit.layouts.others import other_layouts
from mha_sym.audit.layouts.shards import shards_of
from tests.audit.right import softmax
from tests.audit.test_dump import N, layer, run, saved
from tests.audit.wrong import merge, split


def narrow(seed: int = 3, biases: str = "") -> dict[str, np.ndarray]:
    """A layer whose values are as wide as its keys."""
    a = layer(seed, biases=biases)
    width = N["h"] * N["k"]
    cut = {name: value[..., :width] for name, value in a.items() if name in ("w_v", "b_v")}
    return {**a, **cut, "w_o": a["w_o"][:width]}


def output(a: dict[str, np.ndarray], keep: Any = None, heads: int = N["h"]) -> np.ndarray:
    """The output of separate matrices, head by head."""
    flat = [a["x"] @ a[f"w_{one}"] + a.get(f"b_{one}", 0) for one in "qkv"]
    copies = heads * a["w_k"].shape[1] // a["w_q"].shape[1]
    groups = copies
    q, k, v = split(flat[0], heads), split(flat[1], groups), split(flat[2], groups)
    k, v = np.repeat(k, heads // groups, 1), np.repeat(v, heads // groups, 1)
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    scores = scores if keep is None else np.where(keep, scores, -np.inf)
    return merge(softmax(scores) @ v) @ a["w_o"] + a.get("b_o", 0)


def in_shards(a: dict[str, np.ndarray], count: int, order: str, kind: str = "w") -> np.ndarray:
    """The parts of every shard, one shard behind the other; (out, in) for weights."""
    parts = {letter: np.split(a[f"{kind}_{letter}"], count, axis=-1) for letter in order}
    flat = np.concatenate([parts[letter][n] for n in range(count) for letter in order], axis=-1)
    return flat.T if kind == "w" else flat


def told(report: Any) -> list[str]:
    return [one.name for one in report.findings.diagnosis.layouts]


# ---------------------------------------------------------------- shard by shard


@pytest.mark.parametrize(("count", "order"), [(2, "qkv"), (3, "qvk"), (2, "vkq")])
def test_shards_of_a_dump_are_found_and_put_together(tmp_path: Path, count: int, order: str) -> None:
    a = narrow(biases="qkvo")
    packed = {"w_qkv": in_shards(a, count, order), "b_qkv": in_shards(a, count, order, "b")}
    arrays = {**packed, "w_o": a["w_o"].T, "b_o": a["b_o"], "x": a["x"], "y": output(a)}
    report = check_dump(saved(tmp_path, arrays), heads=6, layout="packed_linear")
    assert report.verdict == "disagree" and not report.faults and report.findings is not None
    assert told(report) == [f"packed_linear, {count} shards of [{'; '.join(order.upper())}]"]
    assert [one.step for one in report.steps if one.status == "wrong"] == [2]
    names = ", ".join(f"w_{letter}" for letter in order)
    mend = f"{names} = einops.rearrange(w_qkv, '(p three k) m -> three (p k) m', p={count}, three=3)"
    assert mend in report.steps[1].detail and mend in " ".join(report.text().split())
    apart = rearrange(packed["w_qkv"], "(p three k) m -> three (p k) m", p=count, three=3)
    for name, value in zip(order, apart, strict=True):
        assert np.array_equal(value.T, a[f"w_{name}"])  # the mend does what it says


def test_three_orders_of_one_shape_are_told_apart(tmp_path: Path) -> None:
    """Eight heads: per head, in blocks, and in four blocks of blocks; the first two have names in the table."""
    rng, h, k, m = np.random.default_rng(8), 8, 3, 11
    a = {f"w_{letter}": rng.normal(size=(m, h * k)) / 3 for letter in "qkv"}
    a |= {"w_o": rng.normal(size=(h * k, m)) / 5, "x": rng.normal(size=(2, 5, m))}
    y = output(a, heads=h)
    found = {}
    for count in (1, 4, 8):
        arrays = {"w_qkv": in_shards(a, count, "qkv"), "w_o": a["w_o"].T, "x": a["x"], "y": y}
        path = saved(tmp_path, arrays, f"in{count}.npz")
        found[count] = [one.layout.name for one in identify(path, heads=h).found]
        report = check_dump(path, heads=h, layout="packed_linear")
        assert report.ok is (count == 1)
        assert [one.name for one in report.faults] == (["packed_per_head_taken_for_blocks"] if count == 8 else [])
    assert found == {
        1: ["packed_linear"], 4: ["packed_linear, 4 shards of [Q; K; V]"], 8: ["packed_by_head_linear"],
    }  # fmt: skip


def test_shards_of_shared_keys(tmp_path: Path) -> None:
    a = layer(5, groups=2)
    a["w_v"] = a["w_v"][:, : 2 * N["k"]]
    a["w_o"] = a["w_o"][: N["h"] * N["k"]]
    arrays = {"w_qkv": in_shards(a, 2, "qkv"), "w_o": a["w_o"].T, "x": a["x"], "y": output(a)}
    path = saved(tmp_path, arrays)
    (found,) = identify(path, heads=6, kv_heads=2).found
    assert found.layout.name in ("grouped_by_group_linear",)  # one group a shard is that layout
    a = layer(5, groups=6)
    arrays = {"w_qkv": in_shards(a, 2, "qkv"), "w_o": a["w_o"].T, "x": a["x"], "y": run(a)["y"]}
    report = check_dump(saved(tmp_path, arrays), heads=6, layout="packed_linear")
    assert told(report) == ["packed_linear, 2 shards of [Q; K; V]"]
    words = "each of 2 parts of w_qkv holds its part of w_q, then its part of w_k, then its part of w_v; put in order"
    assert words in report.steps[1].detail


def test_shards_of_two_groups_each(tmp_path: Path) -> None:
    rng, h, g, k, m = np.random.default_rng(9), 8, 4, 3, 11
    shapes = {"w_q": (m, h * k), "w_k": (m, g * k), "w_v": (m, g * k), "w_o": (h * k, m), "x": (2, 5, m)}
    a = {name: rng.normal(size=shape) / 3 for name, shape in shapes.items()}
    arrays = {"w_qkv": in_shards(a, 2, "qkv"), "w_o": a["w_o"].T, "x": a["x"], "y": output(a, heads=h)}
    report = check_dump(saved(tmp_path, arrays), heads=h, kv_heads=g, layout="grouped_packed_linear")
    assert told(report) == ["grouped_packed_linear, 2 shards of [Q; K; V]"]
    assert "put in order they are layout grouped_packed_linear" in report.steps[1].detail


def test_every_way_to_put_shards_together_is_undone() -> None:
    a = narrow()
    arrays = {"w_qkv": in_shards(a, 1, "qkv"), "w_o": a["w_o"].T}
    ways = list(shards_of(arrays, 6))
    assert {(one.count, one.order) for one in ways} >= {(2, "qkv"), (6, "vkq")} and len(ways) == 18
    for way in ways:
        there = way.together({**arrays, "w_qkv": in_shards(a, way.count, way.order)})
        assert np.array_equal(there["w_qkv"], arrays["w_qkv"])


# ---------------------------------------------------------------- layouts of the table


def a_feature_after_the_other(a: dict[str, np.ndarray]) -> np.ndarray:
    """The three rows of a feature of a head beside one another, as old code stored them."""
    return np.stack([a[f"w_{letter}"].T for letter in "qkv"], 1).reshape(-1, N["m"])


def test_another_layout_of_the_table_is_named(tmp_path: Path) -> None:
    a = narrow(6)
    arrays = {"w_qkv": a_feature_after_the_other(a), "w_o": a["w_o"].T, "x": a["x"], "y": output(a)}
    report = check_dump(saved(tmp_path, arrays), heads=6, layout="packed_by_head_linear")
    assert told(report) == ["packed_innermost_linear"] and not report.faults
    assert "say --layout packed_innermost_linear" in report.steps[1].detail
    (one,) = report.json()["layouts"]
    assert one["name"] == "packed_innermost_linear" and one["how"] == "say --layout packed_innermost_linear"
    text = " ".join(report.text().split())
    assert "the first differing step is 2, the weights are read as packed_by_head_linear" in text
    assert "under layout packed_innermost_linear the output is right" in text
    assert check_dump(saved(tmp_path, arrays), heads=6, layout="packed_innermost_linear").ok


def test_layouts_of_other_names_say_what_their_names_stand_for(tmp_path: Path) -> None:
    a = narrow(7)
    w = a_feature_after_the_other(a)
    arrays = {"query_key_value.weight": w, "dense.weight": a["w_o"].T, "x": a["x"], "y": output(a)}
    report = check_dump(saved(tmp_path, arrays), heads=6, layout="gpt_neox")
    assert told(report) == ["packed_innermost_linear"]
    assert "where w_qkv = query_key_value.weight, w_o = dense.weight" in report.steps[1].detail


def test_masks_and_scale_are_left_as_they_are_declared(tmp_path: Path) -> None:
    a = narrow(8)
    keep = np.tri(N["T"], dtype=bool)
    shards = {"w_qkv": in_shards(a, 3, "qkv"), "w_o": a["w_o"].T, "x": a["x"]}
    right = saved(tmp_path, {**shards, "keep": keep, "y": output(a, keep)})
    assert told(check_dump(right, heads=6, layout="packed_linear")) == ["packed_linear, 3 shards of [Q; K; V]"]
    unmasked = saved(tmp_path, {**shards, "keep": keep, "y": output(a)}, "other.npz")
    evidence = check_dump(unmasked, heads=6, layout="packed_linear", explain=False)
    assert not evidence.ok  # and with the mask that was declared, no layout makes it right:
    assert not other_layouts(_evidence(unmasked))


def _evidence(path: Path) -> Any:
    from mha_sym.audit.compare import evidence_of
    from mha_sym.audit.dumps.dump import load_dump

    one = load_dump(path, heads=6, layout="packed_linear")
    found = one.spec.values(one.setting.arrays, one.setting.sizes)
    return [evidence_of(one.impl, one.spec, one.setting, found, one.shown, "dump")]


# ---------------------------------------------------------------- code


def of_two_ranks(x, w_qkv, w_o, heads):
    """Each half of the matrix holds the queries, keys and values of half of the heads."""
    ranks = np.split(x @ w_qkv, 2, axis=-1)
    parts = zip(*(np.split(rank, 3, axis=-1) for rank in ranks), strict=True)
    q, k, v = (split(np.concatenate(both, -1), heads) for both in parts)
    return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v) @ w_o


def test_code_that_reads_its_weights_shard_by_shard() -> None:
    report = check(Implementation(call=of_two_ranks, heads=4, layout="packed", tied=("d_v",)), draws=2)
    assert report.verdict == "disagree" and not report.faults
    assert told(report) == ["packed, 2 shards of [Q; K; V]"]
    assert "rearrange(w_qkv, 'm (p three k) -> three m (p k)', p=2, three=3)" in report.steps[1].detail
    assert {one.status for one in report.steps[:8]} == {"ok", "wrong"} and report.steps[1].status == "wrong"


def test_a_single_fault_goes_before_a_layout_and_a_layout_before_two_faults() -> None:
    def per_head(x, w_qkv, w_o, heads):
        flat = rearrange(x @ w_qkv, "b t (h three k) -> three b h t k", h=heads, three=3)
        return merge(softmax(flat[0] @ flat[1].swapaxes(2, 3) / np.sqrt(flat.shape[-1])) @ flat[2]) @ w_o

    report = check(Implementation(call=per_head, heads=3, layout="packed", tied=("d_v",)), draws=1)
    assert [one.name for one in report.faults] == ["packed_per_head_taken_for_blocks"] and not told(report)
    shards = check(Implementation(call=of_two_ranks, heads=4, layout="packed", tied=("d_v",)), draws=1)
    assert told(shards) and shards.findings is not None and shards.findings.diagnosis.pairs == 0


def test_where_no_layout_makes_it_right_none_is_told(tmp_path: Path) -> None:
    a = narrow(9)
    arrays = {"w_qkv": in_shards(a, 1, "qkv"), "w_o": a["w_o"].T, "x": a["x"], "y": np.sin(output(a))}
    assert not other_layouts(_evidence(saved(tmp_path, arrays)), more=True)
    assert identify(saved(tmp_path, arrays), heads=6).found == ()
