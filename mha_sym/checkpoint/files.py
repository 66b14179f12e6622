"""Files of weights by the ending of their name: opened for reading, and written whole or not at all.

Defines `opened`, `save`, `refuse_other` and `SUFFIXES`.  Files that would have to be unpickled are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mha_sym.checkpoint.npz_file import NpzFile, write_npz
from mha_sym.checkpoint.safetensors_file import SafetensorsFile, write_safetensors
from mha_sym.checkpoint.shards import INDEX, Shards, opened_shards
from mha_sym.checkpoint.tensor import Tensor
from mha_sym.errors import DataProblem

TensorFile = SafetensorsFile | NpzFile | Shards

_READERS: dict[str, Callable[[IO[bytes], Path], TensorFile]] = {
    ".safetensors": SafetensorsFile.of, ".npz": NpzFile.of,
}  # fmt: skip

#: how the names of files of weights end
SUFFIXES = tuple(_READERS)

#: endings of files that only unpickling reads
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")


def refuse_other(path: Path, written: bool = False) -> None:
    """Refuse a name with an ending that is not read, or not written.

    Raises:
        DataProblem: which says how to come by such a file.
    """
    suffix = path.suffix.lower()
    if suffix in SUFFIXES or (path.name.endswith(INDEX) and not written):
        return
    hint = ""
    if suffix in _PICKLES:
        hint = "loading it would run code in it; where it is trusted, save it with safetensors.torch.save_file"
    if path.name.endswith(INDEX):
        hint = "the parts that it names are written as one file"
    raise DataProblem(
        f"{path.name} is not {'written' if written else 'read'}", expected=" or ".join(SUFFIXES),
        got=suffix or "no ending", hint=hint,
    )  # fmt: skip


@contextmanager
def opened(path: Path, name: Path | None = None) -> Iterator[TensorFile]:
    """A file of weights, open for reading.

    Args:
        path: what it is called.
        name: by which it is opened, if that is another one.

    Raises:
        DataProblem: if there is none, if it has another ending, or if it is damaged.
    """
    refuse_other(path)
    if path.name.endswith(INDEX):
        with opened_shards(path) as shards:
            yield shards
        return
    try:
        stream = open(name or path, "rb")  # noqa: SIM115 - closed below; only opening is to be told as this
    except OSError as trouble:
        raise DataProblem(f"{path} cannot be read: {trouble.strerror or trouble}") from trouble
    with stream:
        yield _READERS[path.suffix.lower()](stream, path)


def save(
    stream: IO[bytes],
    path: Path,
    tensors: Sequence[Tensor],
    data: Callable[[Tensor], Iterable[bytes | memoryview]],
    like: TensorFile,
) -> None:
    """Write tensors in the format that the ending of ``path`` says.

    Args:
        stream: where to write.
        path: what the file will be called.
        tensors: what it is to hold.
        data: the entries of each, piece by piece, row by row.
        like: the file whose words and compression are kept where the format has them.

    Raises:
        DataProblem: for a tensor that the format cannot hold.
    """
    if path.suffix.lower() == ".npz":
        write_npz(stream, tensors, data, like.compressed)
    else:
        write_safetensors(stream, tensors, data, like.metadata)


def same_bytes(one: Iterable[bytes], other: Iterable[bytes]) -> bool:
    """Whether two streams of pieces are the same bytes, however they are cut.

    Example:
        >>> same_bytes([b"ab", b"c"], [b"a", b"bc"]), same_bytes([b"ab"], [b"abc"])
        (True, False)
    """
    left, right = iter(one), iter(other)
    have, want = b"", b""
    while True:
        have, want = have or next(left, b""), want or next(right, b"")
        count = min(len(have), len(want))
        if not count or have[:count] != want[:count]:
            return not have and not want
        have, want = have[count:], want[count:]

