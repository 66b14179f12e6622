"""Files in NumPy's .npz format: an archive of arrays, each with a header of its own.

Defines `NpzFile` for reading and `write_npz`.  Nothing is unpickled: arrays of Python objects are refused.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from mha_sym.checkpoint.tensor import NUMPY, Array, Tensor, words
from mha_sym.errors import DataProblem

CHUNK = 1 << 20
_KINDS = {dtype: kind for kind, dtype in NUMPY.items()}
#: what reading a damaged archive leads to
_TROUBLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True)
class NpzFile:
    """An archive that is open for reading.

    Attributes:
        tensors: what it holds, by name.
        members: what the archive says of each.
        columns: those that are stored column by column.
        compressed: whether its arrays are.
    """

    archive: zipfile.ZipFile
    path: Path
    tensors: Mapping[str, Tensor]
    members: Mapping[str, zipfile.ZipInfo]
    columns: frozenset[str]
    compressed: bool
    metadata: Mapping[str, str]

    @staticmethod
    def of(stream: IO[bytes], path: Path) -> NpzFile:
        """The archive behind a stream.

        Raises:
            DataProblem: if it is none, a damaged one, or holds something else than arrays of numbers or words.
        """
        with _understood(path):
            archive = zipfile.ZipFile(stream)
            members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
            if len(members) != len(archive.infolist()):
                raise DataProblem(f"two arrays of {path.name} have one name")
            found = {name: _described(archive, name, one, path) for name, one in members.items()}
        tensors = {name: tensor for name, (tensor, _) in found.items()}
        columns = frozenset(name for name, (_, fortran) in found.items() if fortran)
        compressed = any(one.compress_type != zipfile.ZIP_STORED for one in members.values())
        return NpzFile(archive, path, tensors, members, columns, compressed, {})

    def read(self, name: str) -> Array:
        """The entries of an array as unsigned integers, bit for bit."""
        tensor = self.tensors[name]
        flat = np.frombuffer(b"".join(self._stored(name)), words(tensor))
        return flat.reshape(tensor.shape[::-1]).T if name in self.columns else flat.reshape(tensor.shape)

    def chunks(self, name: str) -> Iterator[bytes]:
        """The entries of an array row by row as bytes, piece by piece."""
        if name not in self.columns:
            yield from self._stored(name)
            return
        tensor = self.tensors[name]
        flat = np.frombuffer(b"".join(self._stored(name)), np.dtype((np.void, max(1, _width(tensor)))))
        yield flat.reshape(tensor.shape[::-1]).T.tobytes()

    def _stored(self, name: str) -> Iterator[bytes]:
        """What lies behind the header of an array."""
        with _understood(self.path), self.archive.open(self.members[name]) as stream:
            array_header(stream, f"{self.path.name}, {name}")
            while piece := stream.read(CHUNK):
                yield piece


def _width(tensor: Tensor) -> int:
    return tensor.bytes // max(1, math.prod(tensor.shape))


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Say what is the matter with an archive."""
    try:
        yield
    except _TROUBLE as trouble:
        said = " ".join(str(trouble).split())
        raise DataProblem(f"{path.name} cannot be read as .npz: {said}", where=str(path)) from trouble


def _described(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo, path: Path) -> tuple[Tensor, bool]:
    """An array, and whether it is stored column by column; its header must say as many bytes as the archive does."""
    where = f"{path.name}, {name}"
    with archive.open(info) as stream:
        shape, fortran, dtype = array_header(stream, where)
        start = stream.tell()
    if dtype.hasobject:
        raise DataProblem("an array of Python objects is not read", where=where, expected="numbers or booleans")
    if dtype.names or dtype.subdtype or not dtype.itemsize:
        raise DataProblem(f"an array of {dtype} is not read", where=where, expected="numbers or booleans")
    if start + math.prod(shape) * dtype.itemsize != info.file_size:
        raise DataProblem(
            "the header of an array does not agree with its size", where=where,
            expected=f"{math.prod(shape)} entries of {dtype}", got=f"{info.file_size} bytes",
        )  # fmt: skip
    return Tensor(name, _KINDS.get(dtype.str, dtype.str), tuple(shape)), bool(fortran and len(shape) > 1)


def array_header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The shape, whether it lies column by column, and the format that the header of an array states.

    Raises:
        DataProblem: if it is no header.
    """
    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        return read(stream)
    except (ValueError, TypeError, SyntaxError, RecursionError, TokenError) as trouble:  # what a forged header leads to
        raise DataProblem(f"this is no array: {' '.join(str(trouble).split())}", where=where) from trouble


def write_npz(
    stream: IO[bytes],
    tensors: Sequence[Tensor],
    data: Callable[[Tensor], Iterable[bytes | memoryview]],
    compressed: bool,
) -> None:
    """Write arrays, one after another, each piece by piece.

    Raises:
        DataProblem: for entries that NumPy does not have.
    """
    how = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    formats = [_numpy(one) for one in tensors]
    with zipfile.ZipFile(stream, "w", how) as archive:
        for one, dtype in zip(tensors, formats, strict=True):
            with archive.open(f"{one.name}.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, {"descr": dtype, "fortran_order": False, "shape": one.shape})
                for piece in data(one):
                    member.write(piece)


def _numpy(tensor: Tensor) -> str:
    """The format of the entries as NumPy calls it."""
    if tensor.kind in NUMPY or tensor.kind[0] in "<>|":
        return NUMPY.get(tensor.kind, tensor.kind)
    raise DataProblem(
        f"{tensor.name} holds {tensor.kind}, which NumPy has not", hint="write a file that ends in .safetensors"
    )
