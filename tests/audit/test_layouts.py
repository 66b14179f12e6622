"""Layouts against slices written by hand, and the sizes that shapes fix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from transformers import CodeGenConfig
from transformers.models.codegen.modeling_codegen import CodeGenAttention

from mha_sym.arrays import size_value
from mha_sym.attention.layouts import CANONICAL, LAYOUTS, Layout, Row, find_layout
from mha_sym.attention.rotary import Rotary
from mha_sym.audit.check import check
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.target import as_implementation
from mha_sym.errors import DataProblem, Problem
from mha_sym.evaluate import evaluate
from mha_sym.expr import inputs
from mha_sym.plan import plan_of
from mha_sym.proof.theorem import Verdict

SIZES = {"d_model": 11, "h": 3, "d_k": 4, "d_v": 5, "d_key": 7, "d_value": 13}
GROUPED = {"d_model": 11, "G": 2, "R": 3, "h": 6, "d_k": 4, "d_v": 5}
SHARDED = {**SIZES, "h": 12, "L": 3}


def stored(layout: Layout, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random parameters of the shapes that the layout states."""
    rng = np.random.default_rng(3)
    named = layout.parameters(layout.dims(), "qkvo")
    return {name: rng.normal(size=[size_value(a, sizes) for a in one.axes]) for name, one in named.items()}


def canonical(layout: Layout, arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> dict[str, np.ndarray]:
    found = {}
    for name, expr in layout.weights(layout.dims(), "qkvo").items().items():
        read = {one.name: arrays[one.name] for one in inputs(expr)}
        known = {name: sizes[name] for name in plan_of([expr]).sizes}
        found[name] = evaluate(expr, read, sizes=known)
    return found


def head(w: dict[str, np.ndarray], r: int, name: str, width: int) -> np.ndarray:
    """Head r of a canonical weight: columns, or rows of W_O."""
    block = slice(r * width, (r + 1) * width)
    return w[name][block] if name == "w_o" else w[name][..., block]


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_stored_number_lies_at_exactly_one_canonical_place(name: str) -> None:
    layout = LAYOUTS[name]
    sizes = dict(GROUPED if layout.grouped else SHARDED if layout.shards else SIZES)
    sizes["d_v"] = sizes["d_k"] if layout.same else sizes["d_v"]
    arrays = stored(layout, sizes)
    found = np.concatenate([value.ravel() for value in canonical(layout, arrays, sizes).values()])
    places, times = np.unique(found, return_counts=True)
    np.testing.assert_array_equal(places, np.sort(np.concatenate([value.ravel() for value in arrays.values()])))
    assert set(times) == ({1, 3} if layout.grouped else {1})  # keys and values once a query head that reads them


#: where queries, keys and values lie in w_qkv ((in, out), the axes of the columns), for head i and feature j
PLACES = {
    "packed": lambda x, i, j, n: x * n["h"] * n["d_k"] + i * (n["d_v"] if x == 2 else n["d_k"]) + j,
    "packed_by_head": lambda x, i, j, n: i * (2 * n["d_k"] + n["d_v"]) + x * n["d_k"] + j,
    "packed_innermost": lambda x, i, j, n: (i * n["d_k"] + j) * 3 + x,
    "grouped_packed": lambda x, i, j, n: (
        i * n["d_k"] + j if x == 0 else n["h"] * n["d_k"] + (i // n["R"]) * n["d_k"] + j if x == 1
        else (n["h"] + n["G"]) * n["d_k"] + (i // n["R"]) * n["d_v"] + j
    ),
    "grouped_by_group": lambda x, i, j, n: (
        ((i // n["R"]) * (n["R"] + 2) + (i % n["R"] if x == 0 else n["R"] + x - 1)) * n["d_k"] + j
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if "w_qkv" in layout.stored("")])
def test_packed_layouts_against_positions_counted_by_hand(name: str) -> None:
    layout, place = LAYOUTS[name], PLACES[name.removesuffix("_linear")]
    n = dict(GROUPED if layout.grouped else SIZES)
    n["d_v"] = n["d_k"] if layout.same else n["d_v"]
    arrays = stored(layout, n)
    columns = arrays["w_qkv"].T if name.endswith("linear") else arrays["w_qkv"]
    w = canonical(layout, arrays, n)
    for x, letter in enumerate("qkv"):
        width = n["d_v"] if x == 2 else n["d_k"]
        for i in range(n["h"]):
            for j in range(width):
                at = place(x, i, j, n)
                np.testing.assert_array_equal(w[f"w_{letter}"][:, i * width + j], columns[:, at])
                assert w[f"b_{letter}"][i * width + j] == arrays["b_qkv"][at]


@pytest.mark.parametrize("name", ["grouped", "grouped_strided", "llama", "x_transformers", "keras_grouped"])
def test_grouped_layouts_copy_keys_and_values(name: str) -> None:
    layout = LAYOUTS[name]
    arrays = stored(layout, GROUPED)
    w = canonical(layout, arrays, GROUPED)
    k, v, groups, repeats = 4, 5, 2, 3
    for letter, width in (("k", k), ("v", v)):
        own = arrays[layout.row(f"w_{letter}").stored]
        own = own.T if name in ("llama", "x_transformers") else own.reshape(11, -1)
        for i in range(groups * repeats):
            source = i % groups if name in ("grouped_strided", "x_transformers") else i // repeats
            expected = own[:, source * width : (source + 1) * width]
            np.testing.assert_array_equal(head(w, i, f"w_{letter}", width), expected)


def test_the_number_of_key_heads_is_read_off_the_shapes() -> None:
    layout = LAYOUTS["llama"]
    arrays = stored(layout, GROUPED)
    arrays = {name: value for name, value in arrays.items() if name.endswith("weight")}
    assert layout.sizes(arrays, {"h": 6}) == GROUPED
    with pytest.raises(DataProblem, match="6 heads do not divide into 4 key and value heads"):
        layout.sizes(arrays, {"h": 6, "G": 4})
    with pytest.raises(DataProblem, match="positions"):
        layout.sizes(arrays, {"h": 6, "G": 3})


def test_a_number_of_key_heads_that_shapes_leave_open_is_asked_for() -> None:
    apart = {"w_q": (5, 8), "w_k": (5, 4), "w_v": (5, 6), "w_o": (12, 5)}
    assert LAYOUTS["grouped"].sizes({name: np.ones(n) for name, n in apart.items()}, {"h": 4})["G"] == 2
    packed = {"w_qkv": np.ones((5, 64)), "w_o": np.ones((16, 5))}  # 4 d_k + G d_k + 4 G: d_k = 12 or d_k = 6
    with pytest.raises(DataProblem, match="number of key and value heads cannot be told") as raised:
        LAYOUTS["grouped_packed"].sizes(packed, {"h": 4})
    assert raised.value.got == "1, 4 all fit"
    assert LAYOUTS["grouped_packed"].sizes(packed, {"h": 4, "G": 4})["d_k"] == 6


def test_shards_against_slices() -> None:
    """In each of four shards lie the queries of three heads, then their values, then their keys."""
    layout, k = LAYOUTS["codegen"], 4
    sizes = {**SHARDED, "d_v": k}
    arrays = stored(layout, sizes)
    w = canonical(layout, arrays, sizes)
    rows = arrays["qkv_proj.weight"]
    for r in range(12):
        start = (r // 3) * 3 * 3 * k + (r % 3) * k  # of its shard, of its place in there
        for place, letter in enumerate("qvk"):
            first = start + place * 3 * k
            np.testing.assert_array_equal(head(w, r, f"w_{letter}", k), rows[first : first + k].T)
    np.testing.assert_array_equal(w["w_o"], arrays["out_proj.weight"].T)


def test_heads_that_do_not_divide_into_shards_are_refused() -> None:
    arrays = {"qkv_proj.weight": np.ones((72, 5)), "out_proj.weight": np.ones((5, 24))}
    layout = LAYOUTS["codegen"]
    assert layout.sizes(arrays, {"h": 12}) == {"h": 12, "L": 3, "d_k": 2, "d_model": 5}
    assert layout.sizes(arrays, {"d_k": 3}) == {"h": 8, "L": 2, "d_k": 3, "d_model": 5}
    with pytest.raises(DataProblem, match="6 heads do not divide into 4 shards"):
        layout.sizes(arrays, {"h": 6})


def in_four_shards(order: str) -> Callable[..., np.ndarray]:
    """Attention that reads its packed rows shard by shard."""

    def attention(x, w_qkv, w_o, heads):
        shards = (x @ w_qkv.T).reshape(*x.shape[:2], 4, -1)
        part = dict(zip(order, np.split(shards, 3, -1), strict=True))
        q, k, v = (part[letter].reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for letter in "qkv")
        e = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))
        z = e / e.sum(-1, keepdims=True) @ v
        return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o.T

    return attention


def test_code_that_stores_its_weights_in_shards_is_checked_and_proved() -> None:
    names = {"qkv_proj.weight": "w_qkv", "out_proj.weight": "w_o"}
    takes = ("x", "w_qkv", "w_o", "heads")
    right, wrong = (
        Implementation(call=in_four_shards(order), takes=takes, layout="codegen", names=names)
        for order in ("qvk", "qkv")
    )
    assert check(right).ok and not check(wrong).ok
    found = prove_code(right)
    assert found.verdict is Verdict.PROVED and {"B", "T", "L", "d_k"} <= set(found.symbolic), found.problem
    assert prove_code(wrong).verdict is Verdict.REFUTED


def test_codegen_of_transformers_stores_its_weights_like_that() -> None:
    config = CodeGenConfig(n_embd=48, n_head=8, rotary_dim=4, n_layer=1, attn_pdrop=0.0, resid_pdrop=0.0)
    config._attn_implementation = "eager"
    found = as_implementation(CodeGenAttention(config, 0).eval())
    assert found.how_stored.name == "codegen" and str(found.rotary) == str(Rotary("interleaved", 4))
    assert "position_embeddings holds the sines first" in found.notes
    assert check(found).ok


def test_torch_packed_against_slices() -> None:
    layout, h, k = LAYOUTS["torch_packed"], 3, 4
    sizes = {**SIZES, "d_v": k}
    arrays = stored(layout, sizes)
    w = canonical(layout, arrays, sizes)
    packed, bias = arrays["in_proj_weight"], arrays["in_proj_bias"]
    for place, name in enumerate("qkv"):
        for r in range(h):
            rows = slice(place * h * k + r * k, place * h * k + (r + 1) * k)
            np.testing.assert_array_equal(head(w, r, f"w_{name}", k), packed[rows].T)
            np.testing.assert_array_equal(head(w, r, f"b_{name}", k), bias[rows])
    np.testing.assert_array_equal(w["w_o"], arrays["out_proj.weight"].T)


def test_linear_and_separate_against_slices() -> None:
    for name in ("linear", "separate"):
        layout = LAYOUTS[name]
        arrays = stored(layout, SIZES)
        w = canonical(layout, arrays, SIZES)
        for r in range(3):
            for target, width in (("w_q", 4), ("w_k", 4), ("w_v", 5), ("w_o", 5)):
                own = arrays[target]
                block = slice(r * width, (r + 1) * width)
                linear = own[:, block].T if target == "w_o" else own[block].T
                np.testing.assert_array_equal(head(w, r, target, width), linear if name == "linear" else own[r])


def test_a_new_layout_is_one_row_a_weight() -> None:
    """GPT-2 style: (in, out), q, k and v packed by head."""
    rows = {f"w_{x}": f"c_attn: m (h three k) -> three m (h k) [{n}]" for n, x in enumerate("qkv")}
    layout = Layout("by_head", "packed head by head", {**rows, "w_o": "c_proj: (h v) m -> (h v) m"}, same={"v": "k"})
    sizes = {**SIZES, "d_v": 4}
    arrays = {"c_attn": np.arange(11 * 36.0).reshape(11, 36), "c_proj": np.ones((12, 11))}
    w = {
        name: evaluate(expr, {i.name: arrays[i.name] for i in inputs(expr)}, sizes={"h": 3})
        for name, expr in layout.weights(layout.dims(), "").items().items()
    }
    np.testing.assert_array_equal(w["w_k"][:, 4:8], arrays["c_attn"][:, 12 + 4 : 12 + 8])
    assert layout.sizes(arrays, {"h": 3}) == {name: sizes[name] for name in ("h", "d_model", "d_k")}


def test_rows_name_every_canonical_weight() -> None:
    for layout in LAYOUTS.values():
        assert set(layout.rows) in (set(CANONICAL), {"w_q", "w_k", "w_v", "w_o"})
        for target in layout.rows:
            assert Row.read(str(layout.row(target))) == layout.row(target)


@pytest.mark.parametrize(
    ("arrays", "known", "message"),
    [
        ({"w_q": (6, 5), "w_k": (6, 5), "w_o": (5, 6)}, {"h": 3}, "weight 'w_v' is missing"),
        ({"w_q": (6, 5), "w_k": (6, 5), "w_v": (6, 5), "w_o": (5, 6), "g": (1,)}, {"h": 3}, "weight 'g' has no place"),
        ({"w_q": (7, 5), "w_k": (7, 5), "w_v": (6, 5), "w_o": (5, 6)}, {"h": 3}, "axis '(h k)' of w_q has 7"),
        ({"w_q": (6, 5), "w_k": (6, 5), "w_v": (6, 5), "w_o": (4, 6)}, {"h": 3}, "axis 'm' of w_"),
        ({"w_q": (6, 5), "w_k": (6, 5), "w_v": (6, 5), "w_o": (5, 6)}, {}, "cannot be told apart"),
        ({"w_q": (6,), "w_k": (6, 5), "w_v": (6, 5), "w_o": (5, 6)}, {"h": 3}, "'w_q' has 1 axes, not 2"),
    ],
)
def test_shapes_that_do_not_fit_are_told(
    arrays: dict[str, tuple[int, ...]], known: dict[str, int], message: str
) -> None:
    with pytest.raises(DataProblem) as raised:
        LAYOUTS["linear"].sizes({name: np.ones(shape) for name, shape in arrays.items()}, known)
    assert message in str(raised.value)


def test_an_unknown_layout_names_the_closest() -> None:
    with pytest.raises(Problem) as raised:
        find_layout("torch_pack")
    assert raised.value.hint == "did you mean torch_packed or torch_separate?"


@pytest.mark.parametrize(
    ("row", "message"),
    [("in_proj_weight m -> m", "cannot be read"), ("w: m (h u) -> m (h u)", "no letter 'u' in layouts")],
)
def test_a_row_that_means_nothing_is_refused(row: str, message: str) -> None:
    with pytest.raises(Problem) as raised:
        layout = Layout("mine", "", {"w_q": row})
        layout.weights(layout.dims(), "")
    assert message in str(raised.value)
