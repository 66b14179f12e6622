"""Everything that reads what comes from outside, each with the inputs it is tried on.

Defines `KINDS`: by name, a strategy for the inputs, and what is done with one in a directory of its own.  The valid
inputs that are changed are made here; what may not happen is in `tests.fuzz.guard`.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sympy import ZZ
from sympy.polys.rings import ring

from mha_sym.ask.marking import number, read_pattern, read_shapes
from mha_sym.audit.dumps.dump import check_dump
from mha_sym.audit.reports.report import CheckReport
from mha_sym.axes import axis, product
from mha_sym.cli.critique import read_sizes
from mha_sym.cli.recheck import _content
from mha_sym.expr import Input
from mha_sym.importers.size_text import read_size
from mha_sym.library import load
from mha_sym.pattern import einsum, rearrange, repeat
from mha_sym.proof.certificate_file import write
from mha_sym.proof.prover import prove
from mha_sym.proof.recheck import recheck
from mha_sym.trace import trace_pattern
from tests.fuzz.hostile import NUMBERS, TEXTS, changed_bytes, changed_json, json_values, texts
from tests.soundness.forged import signed


@dataclass(frozen=True)
class Kind:
    """Inputs of one kind, and what reads them; ``share`` is how many of a hundred inputs are of it."""

    inputs: Callable[[], st.SearchStrategy[Any]]
    read: Callable[[Path, Any], object]
    share: int


# ---------------------------------------------------------------- certificates and derivations


@cache
def certificate() -> Any:
    return json.loads(write(prove(load("split_transpose_join_is_identity"), recheck=False)))


@cache
def larger_certificate() -> Any:
    return json.loads(write(prove(load("softmax_rows_sum_to_one"), recheck=False)))


def _certificates() -> st.SearchStrategy[bytes]:
    texts_ = [json.dumps(one).encode() for one in (certificate(), larger_certificate())]
    trees = st.one_of(changed_json(certificate()), changed_json(larger_certificate()))
    return st.one_of(trees.map(signed), trees.map(signed), *map(changed_bytes, texts_), json_values.map(signed))


def _derivations() -> st.SearchStrategy[bytes]:
    def text(value: Any) -> bytes:
        return ('{\n "format": "mha_sym-derivation", "certificate": ' + json.dumps(value) + "}").encode()

    valid = text(certificate())
    resigned = changed_json(certificate()).map(lambda tree: text(json.loads(signed(tree))))
    return st.one_of(resigned, changed_bytes(valid), json_values.map(text))


def _recheck(place: Path, text: bytes) -> object:
    file = place / "proof.json"
    file.write_bytes(text)
    found = recheck(_content(file))
    assert found["verdict"] == "accepted" or found["why"]
    return found


# ---------------------------------------------------------------- dumps


@cache
def arrays() -> dict[str, np.ndarray[Any, Any]]:
    """A layer with 3 heads of 2 and 5 features; the values mean nothing."""
    rng = np.random.default_rng(0)
    shapes = {
        "x": (2, 4, 7), "w_q": (7, 6), "w_k": (7, 6), "w_v": (7, 15), "w_o": (15, 7), "y": (2, 4, 7), "q": (2, 3, 4, 2),
        "keep": (4, 4),
    }  # fmt: skip
    found: dict[str, np.ndarray[Any, Any]] = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    return {**found, "keep": np.tri(4, dtype=bool)}


def npz(of: dict[str, np.ndarray[Any, Any]]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **of)
    return stream.getvalue()


def _npz_files() -> st.SearchStrategy[bytes]:
    return st.one_of(changed_bytes(npz(arrays())), _changed_arrays().map(npz), _npz_with_headers())


@st.composite
def _changed_arrays(draw: st.DrawFn) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays with some of other kinds, other shapes, other names, or missing."""
    found = dict(arrays())
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from([*arrays(), "mask", "b_q", "weights", "w_qkv", "x_q", "unknown"]))
        shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 7, 15]), max_size=5)))
        kind = draw(st.sampled_from(["f8", "f4", "f2", "i8", "u1", "?", "c16", "U3", "M8[s]", "V7", ">f8"]))
        made: np.ndarray[Any, Any] = np.zeros(shape, kind)
        if draw(st.booleans()) and kind in ("f8", "f4"):
            made = np.full(shape, draw(st.sampled_from([np.nan, np.inf, 1e300, -1e-320])), "f8")
        found[name] = made
        if draw(st.booleans()):
            found.pop(draw(st.sampled_from(list(found))))
    return found


_MEMBERS = ("x.npy", "y.npy", "../y.npy", "/x.npy", "w_q", "a" * 300)
_SHAPES = ("(2,)", "(-1,)", "(10**9, 1)", "(1000000000, 1000000000)", "(2, 3", "True", "()", "(0,)", "(1e3,)", "[2]")
_TYPES = ("<f8", "|O", "O8", "<U99999999", "[('a', '<f8')]", "nonsense", "|V0", "__import__", "<f8, <f8", "")


@st.composite
def _npz_with_headers(draw: st.DrawFn) -> bytes:
    """Members whose headers say what they like."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as archive:
        for name in draw(st.lists(st.sampled_from(_MEMBERS), max_size=3, unique=True)):
            shape, kind = draw(st.sampled_from(_SHAPES)), draw(st.sampled_from(_TYPES))
            order = draw(st.sampled_from(["False", "True", "0", "print(1)"]))
            header = f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
            length = draw(st.sampled_from([len(header), 0, 65535]))
            version = draw(st.sampled_from([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"]))
            size = struct.pack("<H" if version == b"\x01\x00" else "<I", length)
            archive.writestr(name, b"\x93NUMPY" + version + size + header + draw(st.binary(max_size=40)))
    return stream.getvalue()


def safetensors(header: Any, data: bytes, length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@cache
def _tensors() -> tuple[Any, bytes]:
    return _in_safetensors(arrays())


def _in_safetensors(of: dict[str, np.ndarray[Any, Any]]) -> tuple[Any, bytes]:
    """The header, and the entries."""
    header, data = {}, b""
    for name, one in of.items():
        raw = one.tobytes()
        ends = [len(data), len(data) + len(raw)]
        kind = "BOOL" if name == "keep" else "F64"
        header[name] = {"dtype": kind, "shape": list(one.shape), "data_offsets": ends}
        data += raw
    return header, data


def _safetensors_files() -> st.SearchStrategy[bytes]:
    header, data = _tensors()
    lengths = st.sampled_from([None, None, None, 0, 1, 2**31, 2**63, 2**64 - 1])
    contents = st.sampled_from([data, data[:-1], b"", data + b"\0" * 9])
    changed = st.builds(safetensors, changed_json(header), contents, lengths)
    return st.one_of(changed, changed, changed_bytes(safetensors(header, data)))


def _told(report: CheckReport) -> object:
    """A report written out, as the command does."""
    return report.text(), json.dumps(report.json(), default=str)


def read_dump(suffix: str) -> Callable[[Path, bytes], object]:
    def read(place: Path, content: bytes) -> object:
        file = place / f"dump{suffix}"
        file.write_bytes(content)
        return _told(check_dump(file, heads=3, explain=False))

    return read


# ---------------------------------------------------------------- weights to convert


@cache
def weights() -> dict[str, np.ndarray[Any, Any]]:
    """Two layers with 3 heads of 2, and something else."""
    rng = np.random.default_rng(0)
    shapes = {"c_attn.weight": (6, 18), "c_attn.bias": (18,), "c_proj.weight": (6, 6), "c_proj.bias": (6,)}
    found = {f"h.{n}.{name}": rng.normal(size=shape) for n in range(2) for name, shape in shapes.items()}
    return {**found, "wte.weight": rng.normal(size=(4, 6))}


INDEX = {"metadata": {"total_size": 0}, "weight_map": dict.fromkeys(weights(), "part.safetensors")}


def _weights() -> st.SearchStrategy[tuple[str, bytes]]:
    header, data = _in_safetensors(weights())
    with TemporaryDirectory() as place:  # what is loaded late, such as the prover, is no matter of the inputs
        _convert(Path(place), ("in.safetensors", safetensors(header, data)))
    lengths = st.sampled_from([None, None, None, 0, 1, 2**31, 2**63, 2**64 - 1])
    changed = st.builds(safetensors, changed_json(header), st.sampled_from([data, data[:-1]]), lengths)
    compressed = io.BytesIO()
    np.savez_compressed(compressed, **weights())
    return st.one_of(
        st.tuples(st.just("in.safetensors"), st.one_of(changed, changed_bytes(safetensors(header, data)))),
        st.tuples(st.just("in.npz"), st.one_of(changed_bytes(npz(weights())), changed_bytes(compressed.getvalue()))),
        st.tuples(st.just("in.npz"), _npz_with_headers()),
        st.tuples(st.just("in.safetensors.index.json"), st.one_of(
            changed_json(INDEX).map(lambda tree: json.dumps(tree).encode()), changed_bytes(json.dumps(INDEX).encode()),
        )),
    )  # fmt: skip


@cache
def _conversions() -> Any:
    """The module, which proves that a conversion is right once, not anew for each file."""
    module = import_module("mha_sym.checkpoint.convert")
    known: dict[str, Any] = {}
    prove_it = module._proved

    def proved(plan: Any, wish: Any) -> Any:
        name = repr((plan.conversion, wish))
        if name not in known:
            known[name] = prove_it(plan, wish)
        return known[name]

    module._proved = proved
    return module


def _convert(place: Path, given: tuple[str, bytes]) -> object:
    name, content = given
    part = place / "part.safetensors"
    if not part.exists():
        part.write_bytes(safetensors(*_in_safetensors(weights())))
    (place / name).write_bytes(content)
    layout = "auto" if len(content) % 4 == 0 else "gpt2"
    done = _conversions().convert(place / name, place / "out.npz", layout, "opt", heads=3, force=True)
    return done.text(), json.dumps(done.json(), default=str)


# ---------------------------------------------------------------- settings in TOML

SETTINGS = """heads = 3
kv_heads = 3
causal = "top-left"
layout = "combined"
scale = 0.5
batch_first = true
dtype = "float64"
ignore = ["q"]

[names]
x = "x"

[axes]
q = "b h t k"
"""


@st.composite
def _settings(draw: st.DrawFn) -> bytes:
    lines = SETTINGS.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        name = lines[at].partition(" = ")[0]
        lines[at] = f"{name} = {draw(_toml_values())}"
    return draw(st.one_of(st.just("\n".join(lines).encode("utf-8", "replace")), changed_bytes(SETTINGS.encode())))


def _toml_values() -> st.SearchStrategy[str]:
    plain = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS), json_values).map(_toml)
    odd = ["[" * 2000, "{a=" * 500, "9" * 5000, "1_0", "+inf", "1979-05-27", "'''", '"\\ud800"', "0x" + "f" * 5000]
    names = ["'layer'", "'linear'", "'packed_linear'", "'bottom-right'", "'b t h k'", "'t b'", "'float16'", "{}"]
    return st.one_of(plain, st.sampled_from([*odd, *names]))


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read_settings(place: Path, text: bytes) -> object:
    dump, file = place / "valid.npz", place / "settings.toml"
    if not dump.exists():
        dump.write_bytes(npz(arrays()))
    file.write_bytes(text)
    return _told(check_dump(dump, file, explain=False))


# ---------------------------------------------------------------- patterns and sizes as text

_PIECES = ("b", "t", "(h k)", "(", ")", "h", "k", "->", ",", " ", "1", "...", "(k h)", "é", "_", "()", "m", "\n", "2")


_SIGNS = ("B", "T", "+", "-", "*", "/", "//", "**", "^", "(", ")", "2", "99999999", " ", "floordiv(", ",", "0", ".")


def _patterns() -> st.SearchStrategy[Any]:
    built = st.lists(st.sampled_from(_PIECES), max_size=14).map(" ".join)
    around = changed_bytes(b"b t (h k) -> b h t k").map(lambda raw: raw.decode("utf-8", "replace"))
    for unknowns in range(1, 13):  # SymPy makes functions of its own for polynomials in so many
        ring([f"x{n}" for n in range(unknowns)], ZZ)
    kinds = st.sampled_from(["rearrange", "repeat", "einsum", "sizes", "axis", "trace", "shapes", "answer", "number"])
    sizes = st.tuples(st.just("size"), st.lists(st.sampled_from(_SIGNS), max_size=12).map("".join))
    return st.one_of(st.tuples(kinds, st.one_of(built, around, texts)), sizes)


def _read_pattern(_: Path, given: tuple[str, str]) -> object:
    what, text = given
    b, t, h, k, m = axis("b"), axis("t", "T"), axis("h"), axis("k", "d_k"), axis("m", 5)
    x, w = Input("x", (b, t, product(h, k))), Input("w", (h, k, m))
    match what:
        case "rearrange":
            return rearrange(x, text)
        case "repeat":
            return repeat(x, text, (m,))
        case "einsum":
            return einsum(text, x, w)
        case "size":
            return read_size(text)
        case "sizes":
            return read_sizes(text)
        case "trace":
            return trace_pattern((2, 5, 12), text, sizes={"h": 3})
        case "shapes":
            return read_shapes(text)
        case "answer":
            return read_pattern(text)
        case "number":
            return number(42, {})(text)
        case _:
            return axis(text)


# ---------------------------------------------------------------- ONNX


def _onnx_files() -> st.SearchStrategy[bytes]:
    from tests.importers.test_onnx_files import layer

    return changed_bytes(layer().SerializeToString())


def _read_onnx(place: Path, content: bytes) -> object:
    from mha_sym.importers.from_onnx.model import from_file

    file = place / "model.onnx"
    file.write_bytes(content)
    return from_file(file)


KINDS: dict[str, Kind] = {
    "certificates": Kind(_certificates, _recheck, 30),
    "derivations": Kind(_derivations, _recheck, 10),
    "npz files": Kind(_npz_files, read_dump(".npz"), 15),
    "safetensors files": Kind(_safetensors_files, read_dump(".safetensors"), 15),
    "weights to convert": Kind(_weights, _convert, 15),
    "TOML files": Kind(_settings, _read_settings, 15),
    "patterns and sizes": Kind(_patterns, _read_pattern, 15),
}
if find_spec("onnx"):  # it is asked for by those who read ONNX
    KINDS["ONNX files"] = Kind(_onnx_files, _read_onnx, 10)
