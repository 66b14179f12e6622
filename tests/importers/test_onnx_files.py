"""ONNX files from strangers: damaged, hostile or large ones end in one problem, and nothing else happens."""

from __future__ import annotations

import contextlib
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mha_sym.errors import Problem
from mha_sym.importers.from_onnx.file import Limits, read_model
from mha_sym.importers.from_onnx.model import from_file


def layer(opset: int = 20) -> onnx.ModelProto:
    """Scores of one head, with shapes that the file computes."""
    nodes: list[Any] = [
        helper.make_node("MatMul", ["x", "w"], ["q"], name="q"),
        helper.make_node("Shape", ["q"], ["s"]),
        helper.make_node("Constant", [], ["i"], value_ints=[0, 1]),
        helper.make_node("Gather", ["s", "i"], ["bt"]),
        helper.make_node("Constant", [], ["hd"], value_ints=[2, 3]),
        helper.make_node("Concat", ["bt", "hd"], ["target"], axis=0),
        helper.make_node("Reshape", ["q", "target"], ["heads"]),
        helper.make_node("Transpose", ["heads"], ["k"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["heads"], ["p"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["p", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"], axis=-1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "T", 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 2, "T", "T"])
    w = np.arange(36, dtype=np.float32).reshape(6, 6)
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def saved(folder: Path, made: onnx.ModelProto | bytes) -> Path:
    file = folder / "model.onnx"
    file.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return file


def complaint(file: Path, **options: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        from_file(file, **options)
    assert "\n" not in caught.value.one_line() and len(caught.value.one_line()) < 700
    return caught.value


def test_a_file_is_read(tmp_path: Path) -> None:
    assert from_file(saved(tmp_path, layer())).weights["w"].shape == (6, 6)


# ---------------------------------------------------------------- damaged files


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    assert "No such file" in complaint(tmp_path / "no.onnx").what
    complaint(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b"PK\3\4 a zip file", b"\xff" * 64, b"import os\n", b"\x0a\xff"])
def test_what_is_no_onnx_file(tmp_path: Path, content: bytes) -> None:
    assert "no ONNX file" in complaint(saved(tmp_path, content)).what


def test_a_file_cut_short_anywhere(tmp_path: Path) -> None:
    whole = layer().SerializeToString()
    for length in range(0, len(whole) - 1, 7):
        complaint(saved(tmp_path, whole[:length]))


def test_four_hundred_mutated_files_end_in_a_graph_or_in_a_problem(tmp_path: Path) -> None:
    whole = layer().SerializeToString()
    rng = np.random.default_rng(7)
    ends = {"graph": 0, "problem": 0}
    for _ in range(400):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            data[place] = rng.integers(0, 256)
        if rng.random() < 0.2:
            first, last = sorted(rng.integers(0, len(data), 2))
            del data[first : first + min(last - first, 9)]
        try:
            from_file(saved(tmp_path, bytes(data)))
            ends["graph"] += 1
        except Problem as problem:
            assert problem.one_line()
            ends["problem"] += 1
    assert min(ends.values()) > 40, ends


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.opset_import[0].__setattr__("version", 9), "opset 9 is not understood"),
        (lambda m: m.opset_import[0].__setattr__("version", 999), "opset 999"),
        (lambda m: m.graph.node[0].__setattr__("domain", "com.example"), "com.example.MatMul"),
        (lambda m: m.graph.node[0].__setattr__("op_type", "Loop"), "the operator Loop"),
        (lambda m: m.graph.node[0].input.__setitem__(1, "nobody"), "'nobody' is used and not made"),
        (lambda m: m.graph.node[7].attribute[0].ints.__setitem__(0, 3), "names every axis once"),
        (lambda m: m.graph.node[7].attribute[0].ints.append(0), "names every axis once"),
        (lambda m: m.graph.node[5].attribute.pop(), "inputs or attributes"),
        (lambda m: m.graph.node[0].input.pop(), "inputs or attributes"),
        (lambda m: m.graph.initializer[0].dims.append(5), "do not fit its shape"),
        (lambda m: m.graph.initializer[0].dims.__setitem__(0, -6), "is too large"),
        (lambda m: m.graph.initializer[0].__setattr__("data_type", TensorProto.STRING), "the type of w"),
        (lambda m: m.graph.initializer[0].__setattr__("data_type", 77), "the type of w"),
        (lambda m: m.graph.input[0].type.Clear(), "has no shape"),
        (lambda m: m.graph.input[0].type.tensor_type.shape.dim[0].__setattr__("dim_value", 0), "an axis of size 0"),
        (lambda m: m.graph.input[0].type.tensor_type.__setattr__("elem_type", 8), "no array of numbers"),
        (lambda m: m.graph.output.pop(), "no ONNX file"),
        (lambda m: m.graph.node[9].input.__setitem__(0, "y"), "used and not made before"),
        (lambda m: m.graph.sparse_initializer.add(), "sparse"),
    ],
)
def test_each_thing_that_may_be_wrong_is_one_problem(tmp_path: Path, change: Any, words: str) -> None:
    made = layer()
    change(made)
    assert words in complaint(saved(tmp_path, made)).what


# ---------------------------------------------------------------- other files


def outside(location: str, offset: int = 0, length: int = 144) -> onnx.ModelProto:
    made = layer()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return made


def test_external_data_is_read_from_the_folder_and_only_if_that_was_said(tmp_path: Path) -> None:
    values = np.arange(36, dtype=np.float32)
    (tmp_path / "data.bin").write_bytes(b"12345678" + values.tobytes())
    file = saved(tmp_path, outside("data.bin", 8))
    assert "stored outside of the file" in complaint(file).what
    np.testing.assert_array_equal(from_file(file, external=True).weights["w"].reshape(-1), values)


@pytest.mark.parametrize("offset", [0, 1, 10**6])
def test_external_data_that_is_cut_short(tmp_path: Path, offset: int) -> None:
    (tmp_path / "data.bin").write_bytes(b"\0" * 143)
    assert "is cut short" in complaint(saved(tmp_path, outside("data.bin", offset)), external=True).what


def test_no_file_outside_of_the_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    secret = tmp_path / "secret"
    secret.write_bytes(b"s" * 4096)
    (inner / "link").symlink_to(secret)
    (inner / "folder").symlink_to(tmp_path)
    read: list[str] = []
    original = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **k: (read.append(str(self)), original(self, *a, **k))[1])
    places = ["../secret", str(secret), "link", "folder/secret", "inner/../../secret", "/etc/passwd", "", ".", "a\0b",
              "no", "../inner/../secret"]  # fmt: skip
    for place in places:
        found = complaint(saved(inner, outside(place)), external=True)
        assert "is not in the folder of the model" in found.what
    assert all(os.path.basename(name) == "model.onnx" for name in read), read


def test_a_place_in_another_file_is_text_and_is_not_opened(tmp_path: Path) -> None:
    made = layer()
    made.graph.node[0].op_type = "CumSum"
    trace = 'File "/etc/passwd", line 1, in forward'
    made.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    assert complaint(saved(tmp_path, made)).where == "/etc/passwd:1, CumSum q"


# ---------------------------------------------------------------- memory and time


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    file = saved(tmp_path, layer())
    assert "too large" in complaint(file, limits=Limits(size=100)).what
    with file.open("r+b") as stream:
        stream.truncate(1 << 34)  # sparse: it takes no room
    assert "too large" in complaint(file).what


def test_a_short_file_that_stands_for_very_many_objects_is_not_parsed(tmp_path: Path) -> None:
    nodes = b"\x0a\x00" * 600_000  # as many nodes, each of them empty
    file = saved(tmp_path, b"\x3a" + _varint(len(nodes)) + nodes)
    started = time.process_time()
    assert "more entries than an attention layer has" in complaint(file).what
    assert time.process_time() - started < 5.0


def test_many_nodes_and_deep_nesting_are_refused(tmp_path: Path) -> None:
    assert "operations" in complaint(saved(tmp_path, layer()), limits=Limits(nodes=5)).what
    inner = b""
    for _ in range(200):  # a graph in an attribute of a node of a graph in an attribute ...
        for tag in (b"\x32", b"\x2a", b"\x0a"):
            inner = tag + _varint(len(inner)) + inner
    assert "no ONNX file" in complaint(saved(tmp_path, b"\x3a" + _varint(len(inner)) + inner)).what


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


@pytest.mark.parametrize("dims", [[1 << 40], [1 << 31, 1 << 31], [1 << 62, 4, 4]])
def test_a_tensor_that_claims_very_many_entries_takes_no_memory(tmp_path: Path, dims: list[int]) -> None:
    made = layer()
    made.graph.initializer[0].dims[:] = dims
    assert "is too large" in complaint(saved(tmp_path, made)).what


N = 1 << 40
HUGE = {
    "ConstantOfShape": [("Constant", [], "n", {"value_ints": [N, N]}), ("ConstantOfShape", ["n"], "b", {}),
                        ("Add", ["x", "b"], "y", {})],
    "Expand": [("Constant", [], "n", {"value_ints": [N, 1, 6]}), ("Expand", ["x", "n"], "y", {})],
    "Range": [("Constant", [], "a", {"value_int": 0}), ("Constant", [], "n", {"value_int": N}),
              ("Constant", [], "d", {"value_int": 1}), ("Range", ["a", "n", "d"], "r", {}),
              ("Cast", ["r"], "f", {"to": 1}), ("Add", ["x", "f"], "y", {})],
    "Tile": [("Constant", [], "n", {"value_ints": [N, N, 1]}), ("Tile", ["x", "n"], "y", {})],
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_shapes_of_any_size_take_no_memory(tmp_path: Path, name: str) -> None:
    made = layer()
    del made.graph.node[:]
    made.graph.node.extend(helper.make_node(op, given, [out], **rest) for op, given, out, rest in HUGE[name])
    tracemalloc.start()
    with contextlib.suppress(Problem):
        from_file(saved(tmp_path, made))
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_an_import_runs_nothing_that_the_file_names(tmp_path: Path) -> None:
    made = layer()
    made.graph.node[0].domain = "os"
    made.graph.node[0].op_type = "system"
    made.graph.node[0].attribute.append(helper.make_attribute("command", "touch /tmp/was_here"))
    made.opset_import.append(helper.make_opsetid("os", 1))
    assert "os.system" in complaint(saved(tmp_path, made)).what


def test_the_model_that_is_read_is_the_one_that_was_written(tmp_path: Path) -> None:
    made = layer()
    assert read_model(saved(tmp_path, made)) == made
