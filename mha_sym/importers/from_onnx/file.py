"""Reading an ONNX file from a stranger: no code is run, no other file is read unasked, and memory is bounded.

Defines `read_model`, `Limits`, `data_of` and `array_of`.  What a file holds is counted before it is parsed, since a
short file can stand for very many objects.  Importing this file imports onnx.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # it carries no types
from onnx import TensorProto, numpy_helper

from mha_sym.errors import TargetProblem
from mha_sym.importers.graph import Array

#: versions of the operators that are understood
OPSETS = (13, onnx.defs.onnx_opset_version())


@dataclass(frozen=True)
class Limits:
    """How much a file may hold.

    Attributes:
        size: bytes of the file, and of a file of external data.
        fields: entries of all kinds, tensors counted as one each.
        nodes: operations.
        entries: entries of one tensor.
    """

    size: int = 1 << 30
    fields: int = 500_000
    nodes: int = 20_000
    entries: int = 1 << 28


def read_model(path: str | os.PathLike[str], limits: Limits | None = None) -> onnx.ModelProto:
    """The model in a file, without its external data.

    Raises:
        TargetProblem: for a file that is missing, cut short, too large, no ONNX, or of another opset.
    """
    bounds, file = limits or Limits(), Path(path)
    try:
        size = file.stat().st_size
        if size > bounds.size or not file.is_file():
            raise TargetProblem(
                "this is too large to be read", where=str(path), expected=f"a file of at most {bounds.size} bytes",
                got=f"{size} bytes", hint="keep the weights in external data, or export the attention alone",
            )  # fmt: skip
        content = file.read_bytes()
    except OSError as trouble:
        raise TargetProblem(f"the file cannot be read: {trouble.strerror}", where=str(path)) from trouble
    _count(memoryview(content), onnx.ModelProto.DESCRIPTOR, _Budget(bounds.fields, str(path)), 0)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as trouble:
        raise _broken(str(path)) from trouble
    _check(model, bounds, str(path))
    return model


def _broken(path: str) -> TargetProblem:
    return TargetProblem(
        "this is no ONNX file, or it was cut short", where=path, expected="a model as onnx.save writes it",
        hint="export it again",
    )  # fmt: skip


def _check(model: onnx.ModelProto, bounds: Limits, path: str) -> None:
    if not model.HasField("graph") or not model.graph.output or not model.ir_version:
        raise _broken(path)
    versions = {one.domain: one.version for one in model.opset_import}
    version = versions.get("", versions.get("ai.onnx", 0))
    if not OPSETS[0] <= version <= OPSETS[1]:
        raise TargetProblem(
            f"opset {version} is not understood", where=path, expected=f"opset {OPSETS[0]} to {OPSETS[1]}",
            hint=f"export it with opset_version={min(20, OPSETS[1])}",
        )  # fmt: skip
    if len(model.graph.node) > bounds.nodes:
        raise TargetProblem(
            f"the graph has {len(model.graph.node)} operations", where=path, expected=f"at most {bounds.nodes}",
            hint="export the attention alone",
        )  # fmt: skip
    if model.graph.sparse_initializer:
        raise TargetProblem("sparse tensors are not understood", where=path, hint="store them dense")


# ---------------------------------------------------------------- counting before parsing


@dataclass
class _Budget:
    left: int
    path: str

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise TargetProblem(
                "this holds more entries than an attention layer has", where=self.path,
                hint="export the attention alone",
            )  # fmt: skip


#: what follows a field's number: a number, eight bytes, a length and as many bytes, four bytes
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_DEEPEST = 60


def _count(data: memoryview, kind: Any, budget: _Budget, depth: int) -> None:
    """Walk over a serialised message and spend one for each field; nothing is built."""
    at, end = 0, len(data)
    if depth > _DEEPEST:
        raise _broken(budget.path)
    while at < end:
        budget.spend()
        tag, at = _varint(data, at, budget)
        wire, field = tag & 7, kind.fields_by_number.get(tag >> 3)
        if wire == _VARINT:
            _, at = _varint(data, at, budget)
        elif wire == _BYTES:
            length, at = _varint(data, at, budget)
            if length > end - at:
                raise _broken(budget.path)
            if field is not None and field.message_type is not None:
                _count(data[at : at + length], field.message_type, budget, depth + 1)
            elif field is not None and field.type == field.TYPE_STRING:
                _readable(data[at : at + length], budget)
            at += length
        elif wire in (_EIGHT, _FOUR):
            at += 8 if wire == _EIGHT else 4
        else:
            raise _broken(budget.path)
    if at > end:
        raise _broken(budget.path)


def _readable(data: memoryview, budget: _Budget) -> None:
    """Refuse what is to be text and is none."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError as trouble:
        raise _broken(budget.path) from trouble


def _varint(data: memoryview, at: int, budget: _Budget) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise _broken(budget.path)


# ---------------------------------------------------------------- tensors


_KINDS = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL,
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.UINT16,
    TensorProto.UINT32, TensorProto.UINT64,
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """Where tensors come from: the folder of the file if external data may be read, and the limits."""

    path: str
    external: bool = False
    limits: Limits = Limits()


def array_of(tensor: onnx.TensorProto, source: Source) -> Array:
    """The entries of a tensor; floats that NumPy has no type for come as float32.

    Raises:
        TargetProblem: for entries that are missing, too many, or elsewhere.
    """
    name = tensor.name or "a constant"
    if tensor.data_type not in _KINDS:
        what = f"the type of {name} is not understood"
        raise TargetProblem(what, where=source.path, expected="numbers or truth values")
    count = 1
    for size in tensor.dims:
        count *= size
        if size < 0 or count > source.limits.entries:
            raise TargetProblem(
                f"{name} is too large", where=source.path, got="x".join(map(str, tensor.dims)),
                expected=f"at most {source.limits.entries} entries",
            )  # fmt: skip
    try:
        made = numpy_helper.to_array(_with_data(tensor, count, source))
        array = made.reshape(tuple(tensor.dims))
    except (ValueError, TypeError, OverflowError) as trouble:
        raise TargetProblem(
            f"the entries of {name} do not fit its shape", where=source.path, got="x".join(map(str, tensor.dims))
        ) from trouble
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)


def _with_data(tensor: onnx.TensorProto, count: int, source: Source) -> onnx.TensorProto:
    """The tensor with its entries inside; those of an outer file are read if that was asked for."""
    if tensor.data_location != TensorProto.EXTERNAL and not tensor.external_data:
        return tensor
    width = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
    raw = data_of({one.key: one.value for one in tensor.external_data}, count * width, tensor.name, source)
    return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)


def data_of(where: Mapping[str, str], length: int, name: str, source: Source) -> bytes:
    """Bytes of an outer file, which must lie in the folder of the model.

    Args:
        where: ``location``, and perhaps ``offset`` and ``length``, as the model has them.
        length: how many bytes the tensor needs.
        name: what messages call the tensor.
        source: where the model is.
    """
    location = where.get("location", "")
    if not source.external:
        raise TargetProblem(
            f"{name} is stored outside of the file, in {location!r}", where=source.path,
            hint="say that external data may be read, or save the model in one file",
        )  # fmt: skip
    folder = Path(source.path).resolve().parent
    file = Path(os.path.realpath(folder / location)) if "\0" not in location else folder
    if folder not in file.parents or not file.is_file():
        raise TargetProblem(
            f"the data of {name} is not in the folder of the model", where=source.path, got=repr(location),
            expected="a file beside the model", hint="put it there",
        )  # fmt: skip
    offset = _number(where.get("offset", "0"))
    if _number(where.get("length", str(length))) != length or offset + length > file.stat().st_size:
        raise TargetProblem(f"the data of {name} is cut short", where=str(file), expected=f"{length} bytes at {offset}")
    with file.open("rb") as stream:
        stream.seek(offset)
        return stream.read(length)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 20 else 1 << 62
