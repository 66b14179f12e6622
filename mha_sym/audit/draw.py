"""Drawing what an implementation is run on: sizes of which no two coincide, inputs, weights, lengths.

Defines `draw_sizes`, `coincidences` and the draws of values.  Everything is determined by the generator that is
handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from mha_sym.audit.precision import Array, rounded
from mha_sym.errors import DataProblem, Problem

#: sizes that are another one, or the product of two others
Same = Mapping[str, str | tuple[str, str]]

#: the sizes of a layer, in the order in which they are shown
SIZES: tuple[str, ...] = ("B", "T", "S", "d_model", "d_key", "d_value", "h", "G", "R", "d_k", "d_v")

#: where small sizes are drawn from, both ends included
_RANGES: dict[str, tuple[int, int]] = {
    "B": (2, 5), "T": (4, 13), "S": (4, 13), "d_model": (5, 31), "d_key": (5, 31), "d_value": (5, 31),
    "h": (3, 5), "G": (2, 4), "R": (3, 5), "d_k": (2, 9), "d_v": (2, 9),
}  # fmt: skip

#: sizes that are odd where they are drawn: what takes an even number of heads at a time must meet the end of a group
_ODD = ("R",)

#: what code may mistake for one another when it reshapes, besides the sizes themselves
_PRODUCTS: tuple[tuple[str, str], ...] = (
    ("h", "d_k"), ("h", "d_v"), ("B", "h"), ("B", "T"), ("B", "S"), ("h", "T"), ("h", "S"),
)  # fmt: skip

_TRIES = 20_000


def quantities(sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes and the products of two of them that occur as sizes of joined axes.

    Example:
        >>> quantities({"h": 3, "d_k": 4})
        {'h': 3, 'd_k': 4, 'h*d_k': 12}
    """
    found = {name: sizes[name] for name in SIZES if name in sizes}
    found.update({f"{a}*{b}": sizes[a] * sizes[b] for a, b in _PRODUCTS if a in sizes and b in sizes})
    return found


def coincidences(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Which sizes are equal, or one: what a comparison at these sizes may hide.

    Example:
        >>> coincidences({"T": 4, "h": 4, "d_k": 1})
        ('T = h', 'T = h*d_k', 'h = h*d_k', 'd_k = 1')
    """
    named = quantities(sizes)
    equal = [f"{a} = {b}" for a, b in combinations(named, 2) if named[a] == named[b]]
    return (*equal, *(f"{name} = 1" for name in SIZES if sizes.get(name) == 1))


def classes(pairs: Iterable[str]) -> tuple[str, ...]:
    """Coincidences put together, and those left out that follow from others.

    Example:
        >>> classes(coincidences({"T": 7, "S": 7, "d_model": 12, "h": 3, "d_k": 4, "d_v": 4}))
        ('T = S', 'd_model = h*d_k = h*d_v', 'd_k = d_v')
    """
    groups: list[list[str]] = []
    for pair in pairs:
        ends = pair.split(" = ")
        touched = [group for group in groups if set(group) & set(ends)]
        merged = list(dict.fromkeys([*(name for group in touched for name in group), *ends]))
        groups = [group for group in groups if group not in touched] + [merged]
    order = [*quantities(dict.fromkeys(SIZES, 1)), "1"]
    groups = [sorted(group, key=order.index) for group in groups]
    telling = [group for group in groups if any("*" not in name for name in group)]
    return tuple(" = ".join(group) for group in sorted(telling, key=lambda group: order.index(group[0])))


def draw_sizes(
    rng: np.random.Generator, names: Iterable[str], fixed: Mapping[str, int], same: Same
) -> dict[str, int]:
    """Sizes of which no two coincide, except where they must.

    Args:
        rng: the source of randomness.
        names: the sizes that are wanted, of `SIZES`.
        fixed: sizes that are given.
        same: sizes that are another one, or the product of two others: ``{"d_v": "d_k", "d_model": ("h", "d_k")}``.

    Raises:
        Problem: if a fixed size is not a positive integer, or if no sizes are found.

    Example:
        >>> sizes = draw_sizes(np.random.default_rng(0), SIZES, {"h": 4}, {})
        >>> sizes["h"], coincidences(sizes)
        (4, ())
    """
    unknown = [name for name in fixed if name not in SIZES]
    if unknown:
        raise DataProblem(f"there is no size {unknown[0]!r}", expected=", ".join(SIZES))
    for name, value in fixed.items():
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise DataProblem(
                f"{name} cannot be {value}", expected="whole sizes of at least 1",
                hint="an empty axis has no rows to attend to, and no head is no attention",
            )  # fmt: skip
    wanted = [name for name in SIZES if name in set(names)]
    unavoidable = set(coincidences(_far_apart(wanted, fixed, same)))
    for number in range(_TRIES):
        wider = number // 2_000
        drawn = {name: int(rng.integers(_RANGES[name][0], _RANGES[name][1] + 1 + 4 * wider)) for name in wanted}
        drawn |= {name: size - 1 + size % 2 for name, size in drawn.items() if name in _ODD}
        sizes = _with(drawn, fixed, same)
        if set(coincidences(sizes)) <= unavoidable:
            return sizes
    raise Problem("no sizes were found of which no two coincide", got=str(dict(fixed)))


def _far_apart(names: Sequence[str], fixed: Mapping[str, int], same: Same) -> dict[str, int]:
    """Sizes so far apart that they and their products coincide only where they must."""
    return _with({name: 10**6 + 3 * 7**place for place, name in enumerate(names, 3)}, fixed, same)


def _with(drawn: Mapping[str, int], fixed: Mapping[str, int], same: Same) -> dict[str, int]:
    sizes = {**drawn, **{name: value for name, value in fixed.items() if name in drawn}}
    for name, other in same.items():
        if name in sizes and name not in fixed:
            sizes[name] = sizes[other] if isinstance(other, str) else sizes[other[0]] * sizes[other[1]]
    return sizes


def draw_values(rng: np.random.Generator, shape: Sequence[int], dtype: str, fan: int = 1) -> Array:
    """Normally distributed values divided by ``sqrt(fan)``, exactly representable in ``dtype``.

    Dividing by the root of the number of terms keeps the scores of the order of one, so that no softmax is so
    peaked that a fault would be hidden.
    """
    return rounded(rng.standard_normal(tuple(shape)) / np.sqrt(fan), dtype)


def draw_lengths(rng: np.random.Generator, batch: int, keys: int, whole: bool = False) -> tuple[int, ...]:
    """Unequal numbers of keys that count, each at least one, not all of them ``keys``.

    Args:
        rng: the source of randomness.
        batch: how many.
        keys: how many keys there are.
        whole: whether one sample is to keep all keys, so that it keeps none where the mask is inverted.

    Example:
        >>> lengths = draw_lengths(np.random.default_rng(0), 3, 7)
        >>> len(set(lengths)), min(lengths) >= 1, max(lengths) <= 7
        (3, True, True)
    """
    if batch == 1:
        return (int(rng.integers(1, max(keys, 2))),)
    drawn = rng.permutation(batch) % keys if batch > keys else rng.choice(keys, size=batch, replace=False)
    if whole:
        drawn[np.argmax(drawn)] = keys - 1
    return tuple(int(n) for n in 1 + drawn)
