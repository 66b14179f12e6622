"""What a file says of one tensor, and the formats of its entries.

Defines `Tensor`, `words` (the unsigned integers that hold entries of a format bit for bit) and `count_nan`.  Formats
are called as in safetensors (``F16``, ``BF16``); what only NumPy knows is called as NumPy does (``<U5``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mha_sym.errors import DataProblem

Array = np.ndarray[Any, Any]

#: bits of one entry in the formats of safetensors
BITS: dict[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip

#: those that NumPy has as well
NUMPY: dict[str, str] = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip

#: infinity without its sign: a larger pattern is no number
_INFINITY = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F800000, "F64": 0x7FF0000000000000}
_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in a file.

    Attributes:
        name: its name.
        kind: the format of its entries.
        shape: its shape.

    Example:
        >>> Tensor("w", "BF16", (3, 4)).bytes
        24
    """

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes of its entries; entries of less than a byte are packed."""
        bits = BITS[self.kind] if self.kind in BITS else np.dtype(self.kind).itemsize * 8
        return math.prod(self.shape) * bits // 8


def words(tensor: Tensor) -> np.dtype[Any]:
    """The unsigned integers that hold the entries of a tensor bit for bit.

    Raises:
        DataProblem: for entries that are no whole bytes, or no numbers.

    Example:
        >>> words(Tensor("w", "BF16", (3, 4)))
        dtype('uint16')
    """
    bits = BITS[tensor.kind] if tensor.kind in BITS else np.dtype(tensor.kind).itemsize * 8
    if bits not in (8, 16, 32, 64):
        raise DataProblem(
            f"entries of {tensor.kind} are not moved one by one", where=tensor.name,
            expected="1, 2, 4 or 8 bytes an entry",
        )
    return np.dtype(f"<u{bits // 8}")


def count_nan(values: Array, kind: str) -> int:
    """How many entries are no number; ``values`` are their words.  None are found in formats that are not known.

    Example:
        >>> count_nan(np.array([1.0, np.nan, -np.inf], "f4").view("u4"), "F32")
        1
    """
    infinity = _INFINITY.get(kind)
    if infinity is None:
        return 0
    flat, top = values.reshape(-1), values.dtype.type(2 ** (8 * values.dtype.itemsize - 1) - 1)
    starts = range(0, flat.size, _AT_ONCE)
    return sum(int(np.count_nonzero((flat[n : n + _AT_ONCE] & top) > infinity)) for n in starts)
