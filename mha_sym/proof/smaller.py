"""Counterexamples with fewer positions: no row, head or token stays that one can do without.

Defines `fewer_positions`, a search that asks whether what is left still differs.  Nothing is confirmed here: whoever
reports what comes out evaluates it exactly, as `mha_sym.proof.refute` does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mha_sym.arrays import size_value
from mha_sym.axes import Axis
from mha_sym.expr import Expr, Input, Permute, walk

#: arrays by the name of their input
Arrays = Mapping[str, np.ndarray[Any, Any]]
#: whether numbers of these sizes still make a counterexample
Differs = Callable[[Mapping[str, int], Arrays], bool]


def fewer_positions(
    sizes: Mapping[str, int],
    arrays: Arrays,
    given: Sequence[Input],
    least: Mapping[str, int],
    differs: Differs,
) -> tuple[Mapping[str, int], Arrays]:
    """The sizes and arrays without positions that they can do without, the last ones gone first.

    Args:
        sizes: the numbers to begin with; a size that `least` gives as large is not changed.
        arrays: the numbers of all inputs.
        given: the inputs, with their axes.
        least: by size, how many positions have to stay; one if it does not say.
        differs: whether these sizes and arrays still make a counterexample.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t", "T"),))
        >>> found = fewer_positions({"T": 3}, {"x": np.array([0, 2, 1])}, [x], {}, lambda _, one: 2 in one["x"])
        >>> found[0], found[1]["x"].tolist()
        ({'T': 1}, [2])
    """
    before = None
    while sizes != before:  # what goes may let go of what had to stay before
        before = sizes
        for name in sorted(sizes, key=lambda one: (-sizes[one], one)):
            sizes, arrays = _along(name, sizes, arrays, given, least.get(name, 1), differs)
    return sizes, arrays


def _along(
    name: str, sizes: Mapping[str, int], arrays: Arrays, given: Sequence[Input], least: int, differs: Differs
) -> tuple[Mapping[str, int], Arrays]:
    for position in reversed(range(sizes[name])):
        if sizes[name] <= least:
            break
        left = {**sizes, name: sizes[name] - 1}
        fewer = _without(name, position, sizes, left, arrays, given)
        if fewer is not None and differs(left, fewer):
            sizes, arrays = left, fewer
    return sizes, arrays


def settled(exprs: Collection[Expr]) -> set[str]:
    """The sizes of which no position can be taken out: of permuted axes, and all where axes are made of blocks."""
    nodes = [node for one in exprs for node in walk(one)]
    blocks = any(axis.blocks for node in nodes for axis in node.axes)
    axes = [axis for node in nodes for axis in node.axes] if blocks else []
    axes += [node.perm.axis for node in nodes if isinstance(node, Permute)]
    return {str(symbol) for axis in axes for symbol in axis.size.free_symbols}


def _without(
    name: str, position: int, sizes: Mapping[str, int], left: Mapping[str, int], arrays: Arrays, given: Sequence[Input]
) -> Arrays | None:
    """The arrays without one position in all axes of a size; None if an axis has that size inside another."""
    made = dict(arrays)
    for one in given:
        parts = [part for axis in one.over for part in _factors(axis)]
        array = arrays[one.name].reshape([size_value(part, sizes) for part in parts])
        for n in (n for n, part in enumerate(parts) if _is_size(part, name)):
            array = np.delete(array, position, n)
        shape = [size_value(axis, left) for axis in one.over]
        if array.size != np.prod(shape, dtype=int):
            return None
        made[one.name] = array.reshape(shape)
    return made


def _factors(axis: Axis) -> tuple[Axis, ...]:
    """The axes that an array can be split into: blocks lie end to end in one of them."""
    return tuple(part for one in axis.factors for part in _factors(one)) or (axis,)


def _is_size(axis: Axis, name: str) -> bool:
    return bool(axis.size.free_symbols) and str(axis.size) == name
