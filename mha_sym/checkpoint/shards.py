"""Files of weights in several parts, as a file of names says that belongs to them: ``model.safetensors.index.json``.

Defines `Shards`, which reads the parts as if they were one file, and `opened_shards`.  Only files beside the index are
read, whatever it names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mha_sym.checkpoint.safetensors_file import SafetensorsFile
from mha_sym.checkpoint.tensor import Array, Tensor
from mha_sym.errors import DataProblem

#: how the name of an index ends, and the most bytes that it may have
INDEX, MOST_INDEX = ".safetensors.index.json", 100_000_000


@dataclass(frozen=True)
class Shards:
    """The parts of a file, read as one.

    Attributes:
        tensors: what they hold, by name.
        metadata: words that the first part carries besides.
        parts: for each tensor, the part that holds it.
        paths: where the parts are.
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    parts: Mapping[str, SafetensorsFile]
    paths: tuple[Path, ...] = ()
    compressed = False

    def read(self, name: str) -> Array:
        """The entries of a tensor as unsigned integers, bit for bit."""
        return self.parts[name].read(name)

    def chunks(self, name: str) -> Iterator[bytes]:
        """The entries of a tensor as bytes, piece by piece."""
        return self.parts[name].chunks(name)


@contextmanager
def opened_shards(path: Path) -> Iterator[Shards]:
    """The parts that an index names, open for reading.

    Raises:
        DataProblem: if the index, or a part, cannot be read, or if they do not agree.
    """
    places = _places(path)
    with ExitStack() as stack:
        files: dict[str, SafetensorsFile] = {}
        for part in dict.fromkeys(places.values()):
            try:
                stream = stack.enter_context(open(path.parent / part, "rb"))
            except OSError as trouble:
                raise DataProblem(f"{part} cannot be read: {trouble.strerror or trouble}", where=str(path)) from trouble
            files[part] = SafetensorsFile.of(stream, path.parent / part)
        _refuse_others(places, files, path)
        parts = {name: files[part] for name, part in places.items()}
        metadata = next(iter(files.values())).metadata if files else {}
        paths = tuple(path.parent / part for part in files)
        yield Shards({name: one.tensors[name] for name, one in parts.items()}, metadata, parts, paths)


def _places(path: Path) -> dict[str, str]:
    """For each tensor, the name of the file that holds it."""
    try:
        with open(path, "rb") as stream:
            text = stream.read(MOST_INDEX + 1)
        if len(text) > MOST_INDEX:
            raise ValueError(f"longer than {MOST_INDEX:,} bytes")
        found = json.loads(text)
    except OSError as trouble:
        raise DataProblem(f"{path} cannot be read: {trouble.strerror or trouble}") from trouble
    except (ValueError, RecursionError) as trouble:
        raise DataProblem(f"{path} is no JSON: {' '.join(str(trouble).split())}") from trouble
    places = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(places, dict) or not all(isinstance(one, str) for one in places.values()):
        raise DataProblem(f"{path} names no parts", expected='"weight_map": {"NAME": "FILE.safetensors", ...}')
    for part in places.values():
        if Path(part).name != part or Path(part).suffix != ".safetensors":
            raise DataProblem(f"{path} names {part!r}", expected="a file .safetensors beside it")
    return places


def _refuse_others(places: Mapping[str, str], files: Mapping[str, SafetensorsFile], path: Path) -> None:
    """Refuse an index and parts that do not hold the same tensors."""
    for name, part in places.items():
        if name not in files[part].tensors:
            raise DataProblem(f"{part} does not hold {name}", where=str(path))
    for part, one in files.items():
        surplus = [name for name in one.tensors if places.get(name) != part]
        if surplus:
            raise DataProblem(f"{part} holds {surplus[0]}, which is not in the index", where=str(path))
