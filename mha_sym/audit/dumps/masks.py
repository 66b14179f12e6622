"""The masks of a dump: additive and boolean arrays and the causal flag, as one additive mask and one of kept keys.

Defines `Masks` and `read_masks`.  An entry of an additive mask that is so far below the largest of its row that its
weight would be smaller than any number, such as minus infinity or -1e9, hides its key; it is then not added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mha_sym.attention.dims import Dims
from mha_sym.audit.call import letters
from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.implementation import ALIGNED
from mha_sym.audit.precision import Array
from mha_sym.axes import Axis
from mha_sym.errors import DataProblem
from mha_sym.expr import Compare, Expr, Input
from mha_sym.pattern import repeat

#: an additive entry that is this much below the largest of its row hides its key: exp(-5000) is 0 in every format,
#: even after scores that differ by thousands
_FAR = 5000.0



@dataclass(frozen=True)
class Masks:
    """What is added to the scores, and which keys are kept.

    Attributes:
        mask: the additive mask with the axes b, h, t, s, of which those that it lacks have size one; or None.
        own: the kept keys that arrays say, likewise.
        causal: the offset of the causal mask ``s <= t + offset``, if there is one.
        shape: T and S.
        said_by: who said so.
    """

    mask: Array | None
    own: Array | None
    causal: int | None
    shape: tuple[int, int]
    said_by: str

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays that the expressions read, by name."""
        named = {"mask": self.mask, "key_keep": self.own}
        return {name: value.reshape(_shape(value)) for name, value in named.items() if value is not None}

    @property
    def keep(self) -> Array | None:
        """All kept keys together, broadcastable to ``(b, h, t, s)``."""
        if self.causal is None:
            return self.own
        later = (np.arange(self.shape[1])[None, :] <= np.arange(self.shape[0])[:, None] + self.causal)[None, None]
        return later if self.own is None else later & self.own

    @property
    def words(self) -> str:
        """For the report."""
        aligned = "" if self.causal is None else "causal" if self.shape[0] == self.shape[1] else "causal, s <= t"
        offset = f" + {self.causal}" if self.causal and aligned.endswith("t") else ""
        parts = (aligned + offset, self.own is not None and "kept keys", self.mask is not None and "additive")
        return ", ".join(part for part in parts if part) or "none"

    def additive(self, d: Dims) -> Expr | None:
        """The additive mask as an expression."""
        return None if self.mask is None else Input("mask", _axes(self.mask, d), "mask")

    def kept(self, d: Dims) -> Expr | None:
        """The kept keys as an expression: ``s <= t + offset``, an input, or both."""
        later = None if self.causal is None else Compare("le", d.s, d.t, self.causal)
        if self.own is None:
            return later
        own = Input("key_keep", _axes(self.own, d), "mask", boolean=True)
        if later is None:
            return own
        every = [one for one in (d.b, d.h, d.t, d.s) if one in own.axes or one in (d.t, d.s)]
        return _wide(later, every) * _wide(own, every)


def _wide(expr: Expr, every: list[Axis]) -> Expr:
    new = [one for one in every if one not in expr.axes]
    left, right = (" ".join(one.name for one in axes) for axes in (expr.axes, every))
    return repeat(expr, f"{left} -> {right}", new) if left != right else expr


def _shape(value: Array) -> list[int]:
    return [n for n in value.shape[:3] if n != 1] + [value.shape[3]]


def _axes(value: Array, d: Dims) -> tuple[Axis, ...]:
    leading = zip((d.b, d.h, d.t), value.shape[:3], strict=True)
    return (*(one for one, n in leading if n != 1), d.s)


def read_masks(
    arrays: Mapping[str, Stored], causal: bool | str, sizes: Mapping[str, int], axes: Mapping[str, str]
) -> Masks:
    """The masks of a dump.

    Args:
        arrays: ``mask`` (added to the scores) and ``keep`` (true where a query may attend), as far as they are there.
        causal: whether later keys are hidden, or how the diagonal lies where there are more or fewer keys.
        sizes: all sizes.
        axes: the order of axes of a mask where its shape does not tell: ``{"keep": "b t s"}``.

    Raises:
        DataProblem: for a mask that does not fit the sizes, holds NaN or plus infinity, or leaves a row no key.
    """
    shape = (sizes["T"], sizes["S"])
    mask, kept = None, None
    if "keep" in arrays:
        kept = _four("keep", _booleans(arrays["keep"].values), sizes, axes)
    if "mask" in arrays:
        values = arrays["mask"].values.astype(np.float64)
        _additive_values(values)
        mask, seen = _split(_four("mask", values, sizes, axes))
        kept = seen if kept is None else kept if seen is None else kept & seen
    offset = _offset(causal, shape)
    said_by = "the user" if offset is not None else "the dump" if arrays else "by default"
    if offset is None and kept is not None and kept.shape[:2] == (1, 1) and kept.shape[2:] == shape:
        offset = next((n for n in {0, shape[1] - shape[0]} if np.array_equal(kept[0, 0], np.tri(*shape, n) > 0)), None)
        kept = kept if offset is None else None  # a mask that hides exactly the later keys is said as such
    found = Masks(mask, kept, offset, shape, said_by)
    _no_empty_row(found.keep)
    return found


def _offset(causal: bool | str, shape: tuple[int, int]) -> int | None:
    if causal is False:
        return None
    queries, keys = shape
    if causal is True:
        if queries != keys:
            raise DataProblem(
                f"which keys are later, with {queries} queries and {keys} keys?", expected=" or ".join(ALIGNED),
                hint='say --aligned top-left or bottom-right, in a TOML file causal = "..."',
            )  # fmt: skip
        return 0
    if causal not in ALIGNED:
        raise DataProblem(f"causal cannot be {causal!r}", expected=f"true, false, {' or '.join(ALIGNED)}")
    return 0 if causal == "top-left" else keys - queries


def _booleans(values: Array) -> Array:
    if values.dtype == bool:
        return values
    if values.dtype.kind not in "iu" or not np.isin(values, (0, 1)).all():
        raise DataProblem(
            f"keep holds {values.dtype}", expected="booleans, true where a query may attend",
            hint="a mask that is added to the scores is called mask",
        )  # fmt: skip
    return values.astype(bool)


def _additive_values(values: Array) -> None:
    bad = np.argwhere(np.isnan(values) | np.isposinf(values))
    if len(bad):
        place = ", ".join(str(int(i)) for i in bad[0])
        raise DataProblem(
            f"mask holds {values[tuple(bad[0])]}", where=f"mask[{place}], the first of {len(bad)}",
            expected="numbers, or minus infinity where a key is hidden",
        )  # fmt: skip


def _four(word: str, values: Array, sizes: Mapping[str, int], axes: Mapping[str, str]) -> Array:
    """A mask with the axes b, h, t, s."""
    size = letters(sizes)
    order = axes[word].split() if word in axes else _order(word, values.shape, sizes)
    if len(order) != values.ndim or not set(order) <= {"b", "h", "t", "s", "1"}:
        raise DataProblem(f"{' '.join(order)!r} is no order of the axes of {word}", got=str(values.shape))
    for name, n in zip(order, values.shape, strict=True):
        if n not in (1, size.get(name, 1)):
            raise DataProblem(
                f"{word} has the wrong axes", got=str(values.shape),
                expected="(" + ", ".join(f"{one}: {size.get(one, 1)}" for one in order) + "), or ones",
            )  # fmt: skip
    named = [name for name in order if name != "1"]
    plain = values.reshape([n for name, n in zip(order, values.shape, strict=True) if name != "1"])
    moved = plain.transpose([named.index(name) for name in "bhts" if name in named])
    return moved.reshape([moved.shape[sorted(named, key="bhts".index).index(name)] if name in named else 1
                          for name in "bhts"])  # fmt: skip


def _order(word: str, shape: tuple[int, ...], sizes: Mapping[str, int]) -> list[str]:
    """The axes of a mask as its shape tells them."""
    if len(shape) == 2:
        return ["t", "s"]
    if len(shape) == 4:
        return ["b", "h", "t", "s"]
    if len(shape) == 3 and (shape[0] == 1 or sizes["B"] != sizes["h"]):
        return ["h" if shape[0] == sizes["h"] else "b", "t", "s"]
    raise DataProblem(
        f"{word} has axes that its shape does not tell", got=str(shape), expected="(t, s) or (b, h, t, s)",
        hint=f'say {word} = "b t s" under [axes] in a TOML file',
    )  # fmt: skip


def _split(mask: Array) -> tuple[Array | None, Array | None]:
    """The finite part of an additive mask, and the keys that it does not hide."""
    with np.errstate(invalid="ignore"):
        seen = mask > mask.max(axis=-1, keepdims=True) - _FAR
    finite = np.where(seen, mask, 0.0)
    return (finite if finite.any() else None), (None if seen.all() else seen)


def _no_empty_row(keep: Array | None) -> None:
    if keep is None:
        return
    empty = np.argwhere(~keep.any(axis=-1))
    if len(empty):
        place = ", ".join(f"{name}={int(i)}" for name, i in zip("bht", empty[0], strict=True))
        raise DataProblem(
            "a query may attend to no key", where=f"row {place}, the first of {len(empty)}",
            expected="at least one key a row", hint="softmax has no value there (0/0); leave the row out of the dump",
        )  # fmt: skip
