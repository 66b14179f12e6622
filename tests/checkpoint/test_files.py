"""Files of weights: every format bit for bit, damaged ones refused in one line, one tensor in memory at a time."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mha_sym import convert
from mha_sym.checkpoint.files import opened, same_bytes
from mha_sym.errors import Problem

HEADS, M, K = 3, 5, 2
SHAPES = {"attn.c_attn.weight": (M, 3 * HEADS * K), "attn.c_proj.weight": (HEADS * K, M), "attn.c_attn.bias": (18,)}
FORMATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int8"]


def patterns(shape: tuple[int, ...], kind: str, seed: int) -> torch.Tensor:
    """Entries of any bits: NaN of every kind, infinities, zeros of both signs, numbers below the normal ones."""
    dtype = getattr(torch, kind)
    size = torch.empty((), dtype=dtype).element_size()
    bits = np.random.default_rng(seed).integers(0, 256, (*shape[:-1], shape[-1] * size), dtype="u1")
    return torch.from_numpy(bits).view(dtype)


def bits(tensor: torch.Tensor) -> np.ndarray:
    size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(size).numpy()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_bit_for_bit(kind: str, tmp_path: Path) -> None:
    """GPT-2 to separate matrices, against torch's own chunk and transpose on the bits."""
    state = {name: patterns(shape, kind, n) for n, (name, shape) in enumerate(SHAPES.items())}
    state["wte"] = patterns((4, 3), "float64", 9)
    save_file(state, tmp_path / "in.safetensors", {"format": "pt"})
    done = convert(tmp_path / "in.safetensors", tmp_path / "out.safetensors", "gpt2", "opt", heads=HEADS)
    found = load_file(tmp_path / "out.safetensors")
    for name, packed, bias in zip(
        "qkv", np.split(bits(state["attn.c_attn.weight"]), 3, axis=1), np.split(bits(state["attn.c_attn.bias"]), 3),
        strict=True,
    ):
        assert found[f"attn.{name}_proj.weight"].dtype == getattr(torch, kind)
        np.testing.assert_array_equal(bits(found[f"attn.{name}_proj.weight"]), packed.T)
        np.testing.assert_array_equal(bits(found[f"attn.{name}_proj.bias"]), bias)
    np.testing.assert_array_equal(bits(found["attn.out_proj.weight"]), bits(state["attn.c_proj.weight"]).T)
    np.testing.assert_array_equal(bits(found["wte"]), bits(state["wte"]))
    assert len(found) == 8
    expected = sum(int(value.isnan().sum()) for name, value in state.items() if name != "wte")
    if kind in ("float16", "bfloat16", "float32", "float64"):
        assert sum(done.nan.values()) == expected
        assert bool(expected) == any("NaN, moved as stored" in note for note in done.notes())
    with opened(tmp_path / "out.safetensors") as file:
        assert file.metadata == {"format": "pt"}


def test_back_gives_the_same_file(tmp_path: Path) -> None:
    state = {name: patterns(shape, "bfloat16", n) for n, (name, shape) in enumerate(SHAPES.items())}
    save_file(state | {"wte": torch.ones(3)}, tmp_path / "a.safetensors")
    for one, other, given, wanted in (("a", "b", "gpt2", "opt"), ("b", "c", "opt", "gpt2")):
        paths = [tmp_path / f"{name}.safetensors" for name in (one, other)]
        convert(*paths, given, wanted, heads=HEADS)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()


def test_between_the_two_kinds_of_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {name: rng.standard_normal(shape).astype("f2") for name, shape in SHAPES.items()}
    arrays["attn.c_proj.weight"] = np.asfortranarray(arrays["attn.c_proj.weight"])
    arrays |= {"steps": np.arange(6).reshape(2, 3), "seen": np.array([True, False]), "one": np.array(7.5)}
    arrays["columns"] = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    convert(tmp_path / "a.npz", tmp_path / "b.safetensors", "gpt2", "gpt2", heads=HEADS)
    convert(tmp_path / "b.safetensors", tmp_path / "c.npz", "gpt2", "gpt2", heads=HEADS)
    convert(tmp_path / "a.npz", tmp_path / "d.npz", "gpt2", "gpt2", heads=HEADS)
    for name in ("c.npz", "d.npz"):
        with np.load(tmp_path / name) as found:
            assert set(found) == set(arrays)
            for one, value in arrays.items():
                assert found[one].dtype == value.dtype
                np.testing.assert_array_equal(found[one], value)
    with zipfile.ZipFile(tmp_path / "d.npz") as archive:
        assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_DEFLATED}


def test_formats_that_the_other_kind_of_file_has_not(tmp_path: Path) -> None:
    state = {name: patterns(shape, "bfloat16", n) for n, (name, shape) in enumerate(SHAPES.items())}
    save_file(state, tmp_path / "a.safetensors")
    with pytest.raises(Problem, match=r"attn\..* holds BF16, which NumPy has not"):
        convert(tmp_path / "a.safetensors", tmp_path / "b.npz", "gpt2", "opt", heads=HEADS)
    plain = {name: np.ones(shape) for name, shape in SHAPES.items()}
    np.savez(tmp_path / "a.npz", **plain, words=np.array(["a", "bc"]), other=np.ones(2, ">f4"))
    with pytest.raises(Problem, match="words holds <U2, which safetensors has not"):
        convert(tmp_path / "a.npz", tmp_path / "b.safetensors", "gpt2", "opt", heads=HEADS)
    convert(tmp_path / "a.npz", tmp_path / "b.npz", "gpt2", "opt", heads=HEADS)
    with np.load(tmp_path / "b.npz") as found:
        assert list(found["words"]) == ["a", "bc"]
        assert found["other"].dtype == np.dtype(">f4")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.npz", "a.safetensors", "b.npz"]


# ---------------------------------------------------------------- damaged files


def header(**tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def entry(shape: list[int], begin: int, end: int, kind: str = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it has 0 bytes"),
    "cut": (struct.pack("<Q", 50) + b"{", "its header would have 50"),
    "huge header": (struct.pack("<Q", 1 << 62) + b"{}", "4,611,686,018,427,387,904"),
    "no json": (struct.pack("<Q", 3) + b"{a}", "its header cannot be read"),
    "no object": (struct.pack("<Q", 2) + b"[]", "its header is no object"),
    "no text": (struct.pack("<Q", 2) + b"\xff\xfe", "its header cannot be read"),
    "nested": (struct.pack("<Q", 200_000) + b"[" * 200_000, "nested too deeply|cannot be read"),
    "huge number": (struct.pack("<Q", 9_006) + b'{"a":' + b"9" * 9_000 + b"}", "its header cannot be read"),
    "twice": (struct.pack("<Q", 14) + b'{"a":1,"a":2} ', "'a' occurs twice"),
    "no entry": (header(a=3), "'a' is not described"),
    "other fields": (header(a={"dtype": "F32"}), "'a' is not described"),
    "shape of words": (header(a=entry(["2"], 0, 8)), "of 'a' are none"),  # type: ignore[list-item]
    "negative shape": (header(a=entry([-2], 0, 8)) + bytes(8), "of 'a' are none"),
    "true as a number": (header(a=entry([True], 0, 4)) + bytes(4), "of 'a' are none"),
    "unknown format": (header(a=entry([2], 0, 8, "F31")) + bytes(8), "a holds F31, which is not known"),
    "wrong bytes": (header(a=entry([2], 0, 4)) + bytes(4), "'a' has 4 bytes, not those of shape"),
    "gap": (header(a=entry([1], 4, 8)) + bytes(8), "'a' begins at 4"),
    "overlap": (header(a=entry([1], 0, 4), b=entry([1], 0, 4)) + bytes(4), "'b' begins at 0"),
    "too short": (header(a=entry([2], 0, 8)) + bytes(4), "its tensors end at 8 of 4"),
    "too long": (header(a=entry([1], 0, 4)) + bytes(5), "its tensors end at 4 of 5"),
    "huge shape": (header(a=entry([1 << 40, 1 << 40], 0, 8)) + bytes(8), "'a' has 8 bytes"),
    "metadata": (header(__metadata__={"a": 1}), "its metadata are no words"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_safetensors(case: str, tmp_path: Path) -> None:
    content, words = DAMAGED[case]
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(Problem, match=words) as refused:
        convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", "gpt2", "opt", heads=HEADS)
    assert "\n" not in refused.value.one_line()
    assert [one.name for one in tmp_path.iterdir()] == ["a.safetensors"]


def test_damaged_npz(tmp_path: Path) -> None:
    plain = {name: np.ones(shape) for name, shape in SHAPES.items()}
    np.savez(tmp_path / "whole.npz", **plain)
    whole = (tmp_path / "whole.npz").read_bytes()
    records, objects = np.zeros(2, [("a", "f4")]), np.array([{"a": 1}, None], object)
    np.savez(tmp_path / "records.npz", **plain, more=records)
    np.savez(tmp_path / "objects.npz", **plain, more=objects)
    (tmp_path / "cut.npz").write_bytes(whole[:-30])
    (tmp_path / "flipped.npz").write_bytes(whole[:400] + bytes([whole[400] ^ 1]) + whole[401:])
    (tmp_path / "text.npz").write_text("no archive")
    for name, words in {
        "records": "is not read", "objects": "Python objects is not read", "cut": "cannot be read as .npz",
        "flipped": "Bad CRC-32", "text": "cannot be read as .npz",
    }.items():  # fmt: skip
        with pytest.raises(Problem, match=words):
            convert(tmp_path / f"{name}.npz", tmp_path / "out.npz", "gpt2", "opt", heads=HEADS)
        assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(("suffix", "step"), [("safetensors", 2), ("npz", 5), ("compressed.npz", 3)])
def test_any_byte_changed(suffix: str, step: int, tmp_path: Path) -> None:
    """Each byte of the headers, and each place to cut at: refused, or converted as what it then says."""
    plain = {name: np.arange(np.prod(shape), dtype="f4").reshape(shape) for name, shape in SHAPES.items()}
    path = tmp_path / f"a.{suffix}"
    if suffix == "safetensors":
        save_file({name: torch.from_numpy(value) for name, value in plain.items()}, path)
    else:
        {"npz": np.savez, "compressed.npz": np.savez_compressed}[suffix](path, **plain)
    whole = path.read_bytes()
    refused, places = 0, range(0, len(whole), step)
    for place in places:
        changed = whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :]
        for content in (changed, whole[:place]):
            path.write_bytes(content)
            try:
                with opened(path) as file:
                    for name in file.tensors:
                        assert same_bytes(file.chunks(name), file.chunks(name))
            except Problem as problem:
                assert "\n" not in problem.one_line()
                refused += 1
    assert refused >= len(places)  # every cut, and most changes


# ---------------------------------------------------------------- files in parts


def in_parts(place: Path, **changes: Any) -> Path:
    """A layer cut in two: its input matrix in one part, its output matrix in the other."""
    save_file({"attn.c_attn.weight": torch.arange(90.0).reshape(5, 18)}, place / "m-1.safetensors", {"format": "pt"})
    save_file({"attn.c_proj.weight": torch.ones(6, 5), "wte": torch.ones(2)}, place / "m-2.safetensors")
    names = {"attn.c_attn.weight": "m-1.safetensors", "attn.c_proj.weight": "m-2.safetensors", "wte": "m-2.safetensors"}
    index = place / "m.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": names | changes}))
    return index


def test_a_layer_in_two_parts(tmp_path: Path) -> None:
    convert(in_parts(tmp_path), tmp_path / "out.safetensors", "gpt2", "opt", heads=HEADS)
    found = load_file(tmp_path / "out.safetensors")
    assert len(found) == 5
    torch.testing.assert_close(found["attn.k_proj.weight"], torch.arange(90.0).reshape(5, 18)[:, 6:12].T)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wte": "../m-2.safetensors"}, "a file .safetensors beside it"),
        ({"wte": "m-3.safetensors"}, "m-3.safetensors cannot be read: No such file"),
        ({"more": "m-1.safetensors"}, "m-1.safetensors does not hold more"),
        ({"wte": "m-1.safetensors"}, "m-1.safetensors does not hold wte"),
        ({"wte": 3}, "names no parts"),
    ],
)
def test_an_index_that_does_not_fit(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(Problem) as refused:
        convert(in_parts(tmp_path, **changes), tmp_path / "out.safetensors", "gpt2", "opt", heads=HEADS)
    assert words in refused.value.one_line()


def test_parts_are_not_written_over(tmp_path: Path) -> None:
    index = in_parts(tmp_path)
    with pytest.raises(Problem, match="is a part of what is read"):
        convert(index, tmp_path / "m-2.safetensors", "gpt2", "opt", heads=HEADS, force=True)
    for text, words in (("[" * 100_000, "is no JSON"), ("{", "is no JSON"), ("[]", "names no parts")):
        index.write_text(text)
        with pytest.raises(Problem, match=words):
            convert(index, tmp_path / "out.safetensors", "gpt2", "opt", heads=HEADS)
    with pytest.raises(Problem, match=r"attn\.c_proj\.weight is missing") as refused:
        convert(tmp_path / "m-1.safetensors", tmp_path / "out.safetensors", "gpt2", "opt", heads=HEADS)
    assert "give the index that names them" in refused.value.hint


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
def test_one_tensor_at_a_time(suffix: str, tmp_path: Path) -> None:
    """Twelve layers and as much beside them: what is held does not grow with the file."""
    wide, path = 200, tmp_path / f"a.{suffix}"
    layer = {"c_attn.weight": (wide, 3 * wide), "c_proj.weight": (wide, wide)}
    arrays = {f"h.{n}.{name}": np.ones(shape, "f4") for n in range(12) for name, shape in layer.items()}
    arrays["wte"] = np.ones((8_000, 500), "f4")
    if suffix == "npz":
        np.savez(path, **arrays)
    else:
        save_file({name: torch.from_numpy(value) for name, value in arrays.items()}, path)
    total = sum(value.nbytes for value in arrays.values())
    del arrays
    tracemalloc.start()
    done = convert(path, tmp_path / f"b.{suffix}", "gpt2", "opt", heads=5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(done.plans) == 12
    assert done.json()["bytes_held"] == wide * wide * 4 * 4  # q, made of q, k and v
    assert total > 23e6
    assert peak < 10e6, peak
