"""Reading dumps: arrays by name from ``.npz`` or ``.safetensors`` files, and settings from TOML.

Defines `read_arrays`, `read_config`, `SUFFIXES` and `LIMIT`.  Nothing is unpickled or run; sizes are bounded before
anything is read, whatever a file says of itself.  What the arrays mean is in `mha_sym.audit.dumps.dump`.
"""

from __future__ import annotations

import math
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mha_sym.audit.precision import Array
from mha_sym.checkpoint.npz_file import array_header
from mha_sym.errors import DataProblem

#: the most bytes that the arrays of one dump may have together, and the most arrays
LIMIT, MOST_ARRAYS = 2 * 1024**3, 256

#: the most bytes of a file of settings
MOST_SETTINGS = 1 << 20

#: formats of safetensors, and those of NumPy that hold them
_FORMATS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """One array of a dump and the format in which it was stored; the values of a bfloat16 are held in float64."""

    values: Array
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.values.shape)


def read_arrays(path: Path, limit: int = LIMIT) -> dict[str, Stored]:
    """All arrays of a dump, by name.

    Args:
        path: a file whose name ends in ``.npz`` or ``.safetensors``.
        limit: the most bytes that all arrays may have together.

    Raises:
        DataProblem: for another kind of file, one that cannot be read or is larger than the limit, and for objects.
    """
    if not path.is_file():
        raise DataProblem(f"there is no file {path}", expected="a dump: a file .npz or .safetensors")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DataProblem(
            f"{path.name} is no dump", expected=".npz or .safetensors", got=path.suffix or "no ending",
            hint="numpy.savez writes one",
        )  # fmt: skip
    return reader(path, limit)


# ---------------------------------------------------------------- .npz


def _read_npz(path: Path, limit: int) -> dict[str, Stored]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _refuse_large(path, {one.filename: one.file_size for one in members}, limit)
            return {one.filename.removesuffix(".npy"): _member(archive, one, path) for one in members}
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as trouble:
        raise DataProblem(f"{path.name} cannot be read as .npz: {trouble}", where=str(path)) from trouble


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Stored:
    """One array; its header must say as many bytes as the archive does."""
    where = f"{path.name}, {info.filename}"
    with archive.open(info) as stream:
        shape, fortran, dtype = array_header(stream, where)
        if dtype.hasobject:
            raise DataProblem("an array of Python objects is not read", where=where, expected="numbers or booleans")
        if not dtype.itemsize:
            raise DataProblem("an array of nothing is not read", where=where, expected="numbers or booleans")
        count = math.prod(shape)
        if stream.tell() + count * dtype.itemsize != info.file_size:
            raise DataProblem(
                "the header of an array does not agree with its size", where=where,
                expected=f"{count} entries of {dtype}", got=f"{info.file_size} bytes",
            )  # fmt: skip
        data = stream.read(count * dtype.itemsize)
    flat = np.frombuffer(data, dtype=dtype)
    values = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    return Stored(values, str(dtype.newbyteorder("=")))


# ---------------------------------------------------------------- .safetensors


def _read_safetensors(path: Path, limit: int) -> dict[str, Stored]:
    try:
        import safetensors
    except ImportError as trouble:
        raise DataProblem(
            "safetensors is not installed", where=str(path), hint="install mha_sym with the extra 'safetensors'"
        ) from trouble
    _refuse_large(path, {path.name: path.stat().st_size}, limit)
    try:
        found = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call, unused-ignore]  # it may carry no types
    except (safetensors.SafetensorError, OSError) as trouble:
        raise DataProblem(f"{path.name} cannot be read as .safetensors: {trouble}", where=str(path)) from trouble
    if len(found) > MOST_ARRAYS:
        raise _too_many(path, len(found))
    return {name: _tensor(name, one, path) for name, one in found}


def _tensor(name: str, one: Mapping[str, Any], path: Path) -> Stored:
    kind = _FORMATS.get(one["dtype"])
    if kind is None:
        raise DataProblem(f"{name} holds {one['dtype']}", where=str(path), expected=", ".join(_FORMATS))
    data = bytes(one["data"])
    if kind == "bfloat16":  # the upper half of a float32
        bits = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
        return Stored(bits.view(np.float32).astype(np.float64).reshape(one["shape"]), kind)
    values = np.frombuffer(data, dtype=np.dtype(kind).newbyteorder("<")).reshape(one["shape"])
    return Stored(values, kind)


_READERS = {".npz": _read_npz, ".safetensors": _read_safetensors}

#: how the names of dumps end
SUFFIXES = tuple(_READERS)


# ---------------------------------------------------------------- bounds


def _refuse_large(path: Path, sizes: Mapping[str, int], limit: int) -> None:
    if len(sizes) > MOST_ARRAYS:
        raise _too_many(path, len(sizes))
    total = sum(sizes.values())
    if total > limit:
        largest = max(sizes, key=lambda name: sizes[name])
        raise DataProblem(
            f"{path.name} would take {total:,} bytes", where=largest, expected=f"at most {limit:,} bytes",
            hint="dump fewer samples or positions; faults show at small sizes",
        )  # fmt: skip


def _too_many(path: Path, count: int) -> DataProblem:
    return DataProblem(f"{path.name} has {count} arrays", expected=f"at most {MOST_ARRAYS}: those of one layer")


# ---------------------------------------------------------------- settings


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, as written.

    Raises:
        DataProblem: if there is no such file, or if it is not TOML.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(MOST_SETTINGS + 1)
        if len(text) > MOST_SETTINGS:
            raise ValueError(f"longer than {MOST_SETTINGS} bytes")
        return _of_64_bits(tomllib.loads(text.decode()))
    except OSError as trouble:
        said = trouble.strerror
    except RecursionError:
        said = "values are nested too deeply"
    except ValueError as trouble:  # no TOML, no UTF-8, or a number of thousands of digits
        said = " ".join(str(trouble).split())
    raise DataProblem(f"{path} cannot be read: {said}", expected="a TOML file with settings of a dump")


def _of_64_bits(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings; TOML has whole numbers of 64 bits, which its reader does not mind."""
    waiting: list[Any] = [settings]
    while waiting:
        one = waiting.pop()
        if isinstance(one, int) and not -(1 << 63) <= one < 1 << 63:
            raise ValueError("a whole number has more than 64 bits")
        if isinstance(one, dict | list):
            waiting += one.values() if isinstance(one, dict) else one
    return settings
