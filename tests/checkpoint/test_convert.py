"""Conversions of files against weights packed by plain loops, and what is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from mha_sym import convert
from mha_sym.attention.conversion import Conversion
from mha_sym.checkpoint.compared import Differs
from mha_sym.checkpoint.convert import _Entries
from mha_sym.checkpoint.report import Converted
from mha_sym.checkpoint.tensor import Tensor
from mha_sym.errors import Problem
from mha_sym.expr import Expr
from tests.checkpoint import packed_by_hand as by_hand

PREFIXES = ("model.layers.0.attn.", "model.layers.1.attn.")
OTHERS = {"model.norm.weight": np.arange(7, dtype="f8"), "model.layers.0.mlp.c_proj.weight": np.ones((3, 2), "f2")}


def saved(path: Path, *layers: by_hand.Arrays) -> Path:
    arrays = {p + name: value for p, layer in zip(PREFIXES, layers, strict=False) for name, value in layer.items()}
    np.savez(path, **arrays, **OTHERS)
    return path


def loaded(path: Path) -> by_hand.Arrays:
    with np.load(path, allow_pickle=False) as found:
        return dict(found)


def converted(place: Path, given: str, wanted: str, *layers: by_hand.Arrays, **options: object) -> by_hand.Arrays:
    """What a file of these layers becomes, layer by layer."""
    run(place, given, wanted, *layers, **options)
    return loaded(place / "out.npz")


def run(place: Path, given: str, wanted: str, *layers: by_hand.Arrays, **options: object) -> Converted:
    source = saved(place / "in.npz", *layers)
    return convert(source, place / "out.npz", given, wanted, **options)  # type: ignore[arg-type]


def expected(*layers: by_hand.Arrays) -> by_hand.Arrays:
    found = {p + name: value for p, layer in zip(PREFIXES, layers, strict=False) for name, value in layer.items()}
    return found | OTHERS


def assert_same(found: by_hand.Arrays, wanted: by_hand.Arrays) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype, name
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def around(names: list[str]) -> list[tuple[str, str]]:
    """Each layout to the first and back, and to the one after it: from these all others follow."""
    pairs = [*((name, names[0]) for name in names), *((names[0], name) for name in names), *itertools.pairwise(names)]
    return list(dict.fromkeys(pairs))


def groups_of(given: str) -> dict[str, int]:
    """The number of key heads, where shapes leave it open: rows of three heads may be those of one with wide values."""
    return {"kv_heads": 3} if given == "phi3" else {}


@pytest.mark.parametrize(("given", "wanted"), around(list(by_hand.ALIKE)))
def test_against_loops(given: str, wanted: str, tmp_path: Path) -> None:
    """Two layers of unlike sizes, with and without biases; values as wide as keys."""
    layers = [by_hand.Heads(m=10, h=3, g=3, k=4, v=4), by_hand.Heads(m=7, h=3, g=3, k=2, v=2, biased="", seed=1)]
    pack, other = by_hand.ALIKE[given], by_hand.ALIKE[wanted]
    found = converted(tmp_path, given, wanted, *map(pack, layers), heads=3, **groups_of(given))
    assert_same(found, expected(*map(other, layers)))


@pytest.mark.parametrize(("given", "wanted"), around(list(by_hand.PLAIN)))
def test_values_of_their_own_width_against_loops(given: str, wanted: str, tmp_path: Path) -> None:
    layer = by_hand.Heads()
    found = converted(tmp_path, given, wanted, by_hand.PLAIN[given](layer), heads=3, **groups_of(given))
    assert_same(found, expected(by_hand.PLAIN[wanted](layer)))


@pytest.mark.parametrize(("given", "wanted"), around(list(by_hand.GROUPED)))
def test_grouped_heads_against_loops(given: str, wanted: str, tmp_path: Path) -> None:
    layer = by_hand.Heads(m=11, h=6, g=2, k=5, v=5)
    found = converted(tmp_path, given, wanted, by_hand.GROUPED[given](layer), heads=6, kv_heads=2)
    assert_same(found, expected(by_hand.GROUPED[wanted](layer)))


def test_key_heads_are_copied_where_that_is_asked_for_and_joined_again(tmp_path: Path) -> None:
    layer = by_hand.Heads(h=6, g=2, v=4)
    copied = by_hand.Heads(h=6, g=6, v=4)
    copied.parts.update(layer.parts)
    for name in ("k", "v", "bk", "bv"):
        copied.parts[name] = np.stack([layer[name][i // 3] for i in range(6)])
    with pytest.raises(Problem, match="a key and value head for every head, and the layer has 2 for 6") as refused:
        run(tmp_path, "llama", "gpt2", by_hand.llama(layer), heads=6)
    assert "--repeat-kv" in refused.value.hint
    found = converted(tmp_path, "llama", "gpt2", by_hand.llama(layer), heads=6, repeat_kv=True)
    assert_same(found, expected(by_hand.gpt2(copied)))
    back = converted(tmp_path, "gpt2", "llama", by_hand.gpt2(copied), heads=6, kv_heads=2, force=True)
    assert_same(back, expected(by_hand.llama(layer)))


def test_unlike_key_heads_are_not_made_one(tmp_path: Path) -> None:
    layer = by_hand.Heads(h=6, g=6, v=4)
    layer.parts["k"][1] = layer["k"][0]
    with pytest.raises(Problem, match=r"head [12] of w_k is not head 0"):
        run(tmp_path, "gpt2", "llama", by_hand.gpt2(layer), heads=6, kv_heads=2)
    assert [one.name for one in tmp_path.iterdir()] == ["in.npz"]


def test_zeros_are_stored_for_biases_where_that_is_asked_for(tmp_path: Path) -> None:
    layer = by_hand.Heads(biased="qv", v=4)
    with pytest.raises(Problem, match="stores b_k with others in in_proj_bias, and there is none") as refused:
        run(tmp_path, "opt", "torch_packed", by_hand.opt(layer), heads=3)
    assert "--zero-biases" in refused.value.hint
    full = by_hand.Heads(v=4)
    full.parts.update(layer.parts, bk=np.zeros_like(layer["bk"]), bo=np.zeros_like(layer["bo"]))
    found = converted(tmp_path, "opt", "torch_packed", by_hand.opt(layer), heads=3, zero_biases=True)
    assert_same(found, expected(by_hand.torch_packed(full)))


def test_own_inputs_of_keys_and_values(tmp_path: Path) -> None:
    """torch.nn.MultiheadAttention with kdim and vdim: as wide as the queries' input, or refused."""
    layer = by_hand.Heads(v=4)
    apart = {f"{c}_proj_weight": np.concatenate(list(layer[c]), axis=1).T for c in "qkv"}
    apart |= {name: value for name, value in by_hand.torch_packed(layer).items() if name != "in_proj_weight"}
    assert_same(
        converted(tmp_path, "torch_separate", "opt", apart, heads=3), expected(by_hand.opt(layer))
    )
    assert_same(converted(tmp_path, "opt", "torch_separate", by_hand.opt(layer), heads=3, force=True), expected(apart))
    with pytest.raises(Problem, match="one width for all inputs") as refused:
        run(tmp_path, "torch_separate", "opt", apart | {"k_proj_weight": np.ones((12, 5), "f4")}, heads=3, force=True)
    assert refused.value.got == "d_key=5, d_model=11"


def test_names_with_other_marks_between(tmp_path: Path) -> None:
    """Flax writes query/kernel or query.kernel, as trees are flattened; both are found."""
    layer = by_hand.Heads(v=4)
    slashed = {name.replace(".", "/"): value for name, value in by_hand.flax(layer).items()}
    assert_same(converted(tmp_path, "flax", "opt", slashed, heads=3), expected(by_hand.opt(layer)))


@pytest.mark.parametrize("inside", ["self", "attention"])
def test_parts_in_modules_of_their_own(inside: str, tmp_path: Path) -> None:
    """BERT keeps the output matrix apart, with one of that name in the perceptron; vision transformers did, too."""
    layer = by_hand.Heads()
    places = {f"{name[0]}_proj": f"{inside}.{name}" for name in ("query", "key", "value")}
    places["out_proj"] = "output.dense"
    arrays = {f"{places[name.split('.')[0]]}.{name.split('.')[1]}": value for name, value in by_hand.opt(layer).items()}
    np.savez(tmp_path / "in.npz", **{f"l.0.attention.{name}": value for name, value in arrays.items()},
             **{"l.0.output.dense.weight": np.ones((3, 2)), "l.0.attention.output.LayerNorm.weight": np.ones(11)})
    done = convert(tmp_path / "in.npz", tmp_path / "out.npz", "bert", "opt", heads=3)
    found = loaded(tmp_path / "out.npz")
    assert done.carried == ("l.0.output.dense.weight", "l.0.attention.output.LayerNorm.weight")
    assert done.beside == ["output.LayerNorm.weight"]
    became = {name.removeprefix("l.0.attention."): found[name] for name in found if name not in done.carried}
    assert_same(became, by_hand.opt(layer))
    back = convert(tmp_path / "out.npz", tmp_path / "back.npz", "opt", "bert", heads=3)
    assert {name for plan in back.plans for name in (one.name for one in plan.wanted.values())} == {
        f"l.0.attention.{name.replace('attention.', 'self.')}" for name in arrays
    }


def test_the_layers_that_are_meant(tmp_path: Path) -> None:
    one, two = by_hand.gpt2(by_hand.Heads(v=4)), by_hand.gpt2(by_hand.Heads(v=4, seed=1))
    done = run(tmp_path, "gpt2", "opt", one, two, heads=3, at=("model.layers.1",))
    assert [plan.layer.prefix for plan in done.plans] == [PREFIXES[1]]
    wanted = expected(one, by_hand.opt(by_hand.Heads(v=4, seed=1)))
    assert_same(loaded(tmp_path / "out.npz"), wanted)
    assert set(done.carried) == {*OTHERS, *expected(one)}
    with pytest.raises(Problem, match=r"no layer is at 'model\.layers\.7'") as refused:
        run(tmp_path, "gpt2", "opt", one, two, heads=3, at=("model.layers.7",), force=True)
    assert "2 layers, among them 'model.layers." in refused.value.got


# ---------------------------------------------------------------- the layout that is given


@pytest.mark.parametrize("name", ["gpt2", "torch_packed", "opt", "flax"])
def test_a_layout_that_names_and_shapes_leave_alone_is_found(name: str, tmp_path: Path) -> None:
    layer = by_hand.Heads(v=4)
    done = run(tmp_path, "auto", "llama", by_hand.ALIKE[name](layer), heads=3)
    assert done.wish.source.name == name
    assert_same(loaded(tmp_path / "out.npz"), expected(by_hand.llama(layer)))


def test_layouts_that_names_and_shapes_leave_are_listed(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="do not say in which layout") as refused:
        run(tmp_path, "auto", "llama", by_hand.packed_by_head(by_hand.Heads(v=4)), heads=3)
    assert refused.value.got == "packed, packed_by_head all fit"
    assert "mha-sym identify" in refused.value.hint
    with pytest.raises(Problem, match="do not say in which layout") as refused:
        run(tmp_path, "auto", "llama", {"wte": np.ones((3, 4))}, heads=3)
    assert refused.value.got == "none fits"


# ---------------------------------------------------------------- what is refused

GPT2, OPT = by_hand.gpt2(by_hand.Heads(v=4)), by_hand.opt(by_hand.Heads(v=4))
LLAMA = by_hand.llama(by_hand.Heads(h=6, g=2, v=4))
QUANTISED = by_hand.llama(by_hand.Heads()) | {"q_proj.weight_scale": np.ones(3, "f4")}
REFUSED: dict[str, tuple[str, str, by_hand.Arrays, dict[str, object], str]] = {
    "no heads": ("gpt2", "opt", GPT2, {}, "the number of heads cannot be told from the shapes"),
    "heads that do not divide": ("gpt2", "opt", GPT2, {"heads": 5}, "36 positions, which no size d_k makes"),
    "key heads that do not divide": ("llama", "phi3", LLAMA, {"heads": 6, "kv_heads": 4}, "heads do not divide into 4"),
    "heads that make no groups": ("gpt2", "llama", GPT2, {"heads": 3, "kv_heads": 2}, "3 heads do not divide into 2"),
    "no groups at all": ("gpt2", "opt", GPT2, {"heads": 3, "kv_heads": 1}, "neither layout has fewer"),
    "a weight is missing": (
        "gpt2", "opt", {name: value for name, value in GPT2.items() if name != "c_proj.weight"}, {"heads": 3},
        r"model.layers.0.attn.c_proj.weight is missing",
    ),
    "no such layer": ("gpt_neox", "opt", GPT2, {"heads": 3}, "no layer has the names of layout gpt_neox"),
    "a wrong shape": (
        "gpt2", "opt", GPT2 | {"c_proj.weight": np.ones((11, 12), "f4")}, {"heads": 3},
        "axis 'm' of c_proj.weight has 12",
    ),
    "a wrong number of axes": (
        "gpt2", "opt", GPT2 | {"c_attn.bias": np.ones((1, 36), "f4")}, {"heads": 3}, "'c_attn.bias' has 2 axes, not 1",
    ),
    "biases that would be lost": ("gpt2", "t5", GPT2, {"heads": 3}, "would have to be multiplied by sqrt"),
    "biases that have no place": ("gpt2", "x_transformers", GPT2, {"heads": 3}, "stores no b_q, b_k, b_v, b_o"),
    "wide values": (
        "opt", "gpt2", by_hand.opt(by_hand.Heads()), {"heads": 3}, "layout gpt2 has values as wide as keys",
    ),
    "two formats": (
        "opt", "gpt2", OPT | {"k_proj.weight": OPT["k_proj.weight"].astype("f2")}, {"heads": 3},
        "c_attn.weight would be made of two formats",
    ),
    "quantised weights": ("llama", "opt", QUANTISED, {"heads": 3}, "q_proj.weight_scale goes with .*q_proj.weight"),
    "one key head": ("gpt2", "falcon_7b", GPT2, {"heads": 3}, "has one key and value head, and the layer has 3"),
    "an unknown layout": ("gpt", "opt", GPT2, {"heads": 3}, "no layout 'gpt'"),
    "an unknown target": ("gpt2", "lama", GPT2, {"heads": 3}, "no layout 'lama'"),
    "complex numbers": (
        "gpt2", "opt", {name: value.astype("c16") for name, value in GPT2.items()}, {"heads": 3},
        "not moved one by one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    given, wanted, layer, options, words = REFUSED[case]
    with pytest.raises(Problem, match=words) as refused:
        run(tmp_path, given, wanted, layer, **options)
    assert [one.name for one in tmp_path.iterdir()] == ["in.npz"]
    assert "\n" not in refused.value.one_line()
    about_a_layer = not re.search("no layout|has the names|sqrt", refused.value.what)
    assert not about_a_layer or "layer model.layers.0.attn." in refused.value.where


def test_a_name_that_is_taken_is_not_written_over(tmp_path: Path) -> None:
    taken = GPT2 | {"q_proj.weight": np.ones(2, "f4")}
    with pytest.raises(Problem, match=r"attn\.q_proj\.weight is there already"):
        run(tmp_path, "gpt2", "opt", taken, heads=3)


def test_places_that_are_refused(tmp_path: Path) -> None:
    source = saved(tmp_path / "in.npz", GPT2)
    (tmp_path / "there.npz").write_bytes(b"the old one")
    (tmp_path / "again.npz").symlink_to(source)
    cases = {
        "there.npz": "there.npz exists", "in.npz": "are one file", "again.npz": "are one file",
        "no/out.npz": "there is no directory", "out.pt": "is not written", "out": "is not written",
        "model.safetensors.index.json": "is not written",
    }  # fmt: skip
    for name, words in cases.items():
        with pytest.raises(Problem, match=words):
            convert(source, tmp_path / name, "gpt2", "opt", heads=3)
    with pytest.raises(Problem, match="are one file"):
        convert(source, tmp_path / "again.npz", "gpt2", "opt", heads=3, force=True)
    assert (tmp_path / "there.npz").read_bytes() == b"the old one"
    with pytest.raises(Problem, match=r"save it with safetensors\.torch\.save_file"):
        convert(tmp_path / "pytorch_model.bin", tmp_path / "out.npz", "gpt2", "opt", heads=3)
    with pytest.raises(Problem, match=r"cannot be read: No such file"):
        convert(tmp_path / "none.npz", tmp_path / "out.npz", "gpt2", "opt", heads=3)
    convert(source, tmp_path / "there.npz", "gpt2", "opt", heads=3, force=True)
    assert "model.norm.weight" in loaded(tmp_path / "there.npz")


# ---------------------------------------------------------------- what is written wrongly


def _changed(pieces: Iterable[bytes | memoryview]) -> list[bytes]:
    whole = b"".join(bytes(piece) for piece in pieces)
    return [bytes([whole[0] ^ 1]) + whole[1:]]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.norm.weight", "model.norm.weight was not carried over as it was"),
        (f"{PREFIXES[0]}k_proj.weight", r"w_k of model.layers.0.attn. was not written as it was given"),
        (f"{PREFIXES[0]}out_proj.bias", r"b_o of model.layers.0.attn. was not written as it was given"),
        (f"{PREFIXES[0]}k_proj.bias", r"b_k of model.layers.0.attn. is not zero"),
    ],
)
def test_one_bit_that_is_wrong_on_the_disk_is_seen(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the converter, or the disk, were at fault: the file does not come to be."""
    right = _Entries.__call__

    def wrong(self: _Entries, tensor: Tensor) -> Iterable[bytes | memoryview]:
        pieces = right(self, tensor)
        return _changed(pieces) if tensor.name == name else pieces

    monkeypatch.setattr(_Entries, "__call__", wrong)
    with pytest.raises(Differs, match=said):
        run(tmp_path, "opt", "opt", by_hand.opt(by_hand.Heads(biased="qvo")), heads=3, zero_biases=True)
    assert [one.name for one in tmp_path.iterdir()] == ["in.npz"]


@pytest.fixture
def wrong_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion whose way back gives the keys for the queries."""
    right = Conversion.back

    def wrong(self: Conversion, stored: Mapping[str, Expr]) -> dict[str, Expr]:
        found = right(self, stored)
        return found | {"q_proj.weight": found["k_proj.weight"]}

    monkeypatch.setattr(Conversion, "back", wrong)


@pytest.mark.usefixtures("wrong_back")
@pytest.mark.parametrize("asked", [True, False])
def test_a_way_back_that_is_wrong(asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prover refutes it before anything is written; were it not asked, what is read back would show it."""
    said = "opt_to_packed_by_head is false" if asked else r"q_proj\.weight does not come back from what was written"
    if not asked:
        monkeypatch.setattr("mha_sym.checkpoint.convert._proved", lambda plan, wish: None)
    with pytest.raises(Differs, match=said):
        run(tmp_path, "opt", "packed_by_head", by_hand.opt(by_hand.Heads()), heads=3)
    assert [one.name for one in tmp_path.iterdir()] == ["in.npz"]


# ---------------------------------------------------------------- what a reader should know


def fused(*shape: int) -> by_hand.Arrays:
    """A layer of 4 heads under the names that GPT-2 and nanoGPT share."""
    rng = np.random.default_rng(3)
    return {"c_attn.weight": rng.normal(size=shape), "c_proj.weight": rng.normal(size=(24, 24))}


def test_a_file_of_another_layout_with_the_same_names_is_told_by_its_shapes(tmp_path: Path) -> None:
    with pytest.raises(Problem) as told:
        run(tmp_path, "gpt2", "bert", fused(72, 24), heads=4)
    assert "--from nanogpt" in told.value.hint and "these shapes fit it" in told.value.hint
    with pytest.raises(Problem) as told:
        run(tmp_path, "gpt2", "bert", fused(70, 24), heads=4)  # nothing fits this
    assert "--from" not in told.value.hint


def test_that_nothing_tells_the_number_of_heads_is_said(tmp_path: Path) -> None:
    words = "heads is as you said"
    assert any(words in note for note in run(tmp_path, "gpt2", "nanogpt", fused(24, 72), heads=4).notes())
    layer = {name: np.ones(shape) for name, shape in {
        "query/kernel": (24, 4, 6), "key/kernel": (24, 4, 6), "value/kernel": (24, 4, 6), "out/kernel": (4, 6, 24),
    }.items()}  # fmt: skip
    done = convert(saved(tmp_path / "flax.npz", layer), tmp_path / "b.npz", "flax", "linear")
    assert not any(words in note for note in done.notes())


def test_layers_that_differ_in_their_biases_are_told(tmp_path: Path) -> None:
    biased = {**fused(24, 72), "c_attn.bias": np.ones(72), "c_proj.bias": np.ones(24)}
    told = "layers differ in their biases"
    unlike = run(tmp_path, "gpt2", "nanogpt", biased, fused(24, 72), heads=4)
    assert any(told in note for note in unlike.notes())
    alike = run(tmp_path, "gpt2", "nanogpt", biased, biased, heads=4, force=True)
    assert not any(told in note for note in alike.notes())
