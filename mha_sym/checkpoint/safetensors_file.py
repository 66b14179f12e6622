"""Files in the safetensors format: a header in JSON, then the entries of every tensor end to end.

Defines `SafetensorsFile` for reading and `write_safetensors`.  The header is not believed before it has been checked:
that it has a bounded size, and that the tensors fill the file without a gap or an overlap.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from mha_sym.checkpoint.tensor import BITS, Array, Tensor, words
from mha_sym.errors import DataProblem

#: the most bytes that a header may have, as in the library that defines the format
MOST_HEADER = 100_000_000
CHUNK = 1 << 20


@dataclass(frozen=True)
class SafetensorsFile:
    """A safetensors file that is open for reading.

    Attributes:
        tensors: what it holds, by name, in the order of the entries.
        metadata: words that the file carries besides.
        places: where the entries of each tensor begin.
    """

    stream: IO[bytes]
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    places: Mapping[str, int]
    compressed = False

    @staticmethod
    def of(stream: IO[bytes], path: Path) -> SafetensorsFile:
        """The file behind a stream.

        Raises:
            DataProblem: if it is no such file, or a damaged one.
        """
        size = stream.seek(0, 2)
        header, start = _header(stream, size, path)
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(one, str) for one in metadata.values()):
            raise _damaged(path, "its metadata are no words")
        spans = {name: _span(name, one, path) for name, one in header.items()}
        spans = dict(sorted(spans.items(), key=lambda item: item[1][1:]))
        _refuse_gaps(spans, size - start, path)
        tensors = {name: tensor for name, (tensor, _, _) in spans.items()}
        places = {name: start + begin for name, (_, begin, _) in spans.items()}
        return SafetensorsFile(stream, tensors, metadata, places)

    def read(self, name: str) -> Array:
        """The entries of a tensor as unsigned integers, bit for bit."""
        tensor = self.tensors[name]
        values = np.empty(math.prod(tensor.shape), words(tensor))
        place, room = 0, values.view(np.uint8)
        for piece in self.chunks(name):
            room[place : place + len(piece)] = np.frombuffer(piece, np.uint8)
            place += len(piece)
        return values.reshape(tensor.shape)

    def chunks(self, name: str) -> Iterator[bytes]:
        """The entries of a tensor as bytes, piece by piece."""
        left, place = self.tensors[name].bytes, self.places[name]
        while left:
            try:
                self.stream.seek(place)
                piece = self.stream.read(min(left, CHUNK))
            except OSError as trouble:
                raise DataProblem(f"{name} cannot be read: {trouble.strerror or trouble}") from trouble
            if not piece:
                raise DataProblem(f"the file ends within {name}")
            left, place = left - len(piece), place + len(piece)
            yield piece


# ---------------------------------------------------------------- the header


def _header(stream: IO[bytes], size: int, path: Path) -> tuple[dict[str, Any], int]:
    """The header, and where the entries begin."""
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little") if size >= 8 else size
    if size < 8 or length > size - 8:
        raise _damaged(path, f"it has {size:,} bytes, and its header would have {length:,}")
    if length > MOST_HEADER:
        raise DataProblem(f"the header of {path.name} has {length:,} bytes", expected=f"at most {MOST_HEADER:,}")
    try:
        found = json.loads(stream.read(length).decode(), object_pairs_hook=_once)
    except RecursionError:
        raise _damaged(path, "its header is nested too deeply") from None
    except ValueError as trouble:  # no JSON, no UTF-8, a name that occurs twice, or a number of thousands of digits
        raise _damaged(path, f"its header cannot be read: {' '.join(str(trouble).split())}") from trouble
    if not isinstance(found, dict):
        raise _damaged(path, "its header is no object")
    return found, 8 + length


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


def _span(name: str, entry: Any, path: Path) -> tuple[Tensor, int, int]:
    """A tensor and where its entries begin and end."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _damaged(path, f"{name!r} is not described by dtype, shape and data_offsets")
    kind, shape, ends = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (_counts(shape) and _counts(ends) and len(ends) == 2 and isinstance(kind, str)):
        raise _damaged(path, f"the dtype, shape or data_offsets of {name!r} are none")
    if kind not in BITS:
        raise DataProblem(f"{name} holds {kind}, which is not known", where=path.name, expected=", ".join(BITS))
    tensor = Tensor(name, kind, tuple(shape))
    if math.prod(shape) * BITS[kind] != 8 * (ends[1] - ends[0]):
        raise _damaged(path, f"{name!r} has {ends[1] - ends[0]:,} bytes, not those of shape {tensor.shape} in {kind}")
    return tensor, ends[0], ends[1]


def _counts(value: Any) -> bool:
    """Whether these are whole numbers, none negative."""
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 1 << 63 for one in value)


def _refuse_gaps(spans: Mapping[str, tuple[Tensor, int, int]], size: int, path: Path) -> None:
    end = 0
    for name, (_, begin, stop) in spans.items():
        if begin != end:
            raise _damaged(path, f"{name!r} begins at {begin:,}, where the one before it ends at {end:,}")
        end = stop
    if end != size:
        raise _damaged(path, f"its tensors end at {end:,} of {size:,} bytes")


def _damaged(path: Path, said: str) -> DataProblem:
    return DataProblem(f"{path.name} is no safetensors file, or a damaged one: {said}", where=str(path))


# ---------------------------------------------------------------- writing


def write_safetensors(
    stream: IO[bytes],
    tensors: Sequence[Tensor],
    data: Callable[[Tensor], Iterable[bytes | memoryview]],
    metadata: Mapping[str, str],
) -> None:
    """Write tensors, one after another, each piece by piece.

    Raises:
        DataProblem: for entries that the format does not have.
    """
    for one in tensors:
        if one.kind not in BITS:
            raise DataProblem(
                f"{one.name} holds {one.kind}, which safetensors has not", hint="write a file that ends in .npz"
            )
    ordered = sorted(tensors, key=lambda one: (-BITS[one.kind], one.name))  # wide ones first: all are aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for one in ordered:
        header[one.name] = {"dtype": one.kind, "shape": list(one.shape), "data_offsets": [end, end + one.bytes]}
        end += one.bytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    if len(text) > MOST_HEADER:
        raise DataProblem(f"the header would have {len(text):,} bytes", expected=f"at most {MOST_HEADER:,}")
    stream.write(len(text).to_bytes(8, "little") + text)
    for one in ordered:
        for piece in data(one):
            stream.write(piece)
