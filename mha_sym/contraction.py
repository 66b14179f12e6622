"""Sums of products over named axes through matrix multiplication, two operands at a time.

Defines `contract`, on arrays of any backend with the names of their axes.  Knows nothing of expressions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from einops import rearrange

from mha_sym.backends import Array, Backend

Names = tuple[str, ...]


class Operand(NamedTuple):
    """An array and the names of its axes."""

    array: Array
    names: Names


class _Recipe(NamedTuple):
    """Two operands as matrices: patterns of einops, and whether the operands are swapped."""

    swapped: bool
    left: str
    right: str
    result: str
    names: Names


def contract(backend: Backend, operands: Sequence[Operand], out: Names) -> Array:
    """The sum of the product of the operands over every axis that ``out`` does not name.

    Example:
        >>> import numpy as np
        >>> x, w = np.ones((2, 3)), np.ones((3, 4))
        >>> contract(Backend(), [Operand(x, ("t", "m")), Operand(w, ("m", "c"))], ("c", "t")).shape
        (4, 2)
    """
    current, *others = operands
    for n, other in enumerate(others):
        needed = {*out, *(name for one in others[n + 1 :] for name in one.names)}
        current = _pair(backend, current, other, needed, out)
    current = _without(backend, current, out)
    return rearrange(current.array, _reorder(current.names, out))


def _without(backend: Backend, one: Operand, needed: Collection[str]) -> Operand:
    """The operand summed over the axes that are not needed."""
    dims = tuple(n for n, name in enumerate(one.names) if name not in needed)
    if not dims:
        return one
    return Operand(backend.wrap(backend.total(one.array, dims)), tuple(n for n in one.names if n in needed))


def _pair(backend: Backend, left: Operand, right: Operand, needed: set[str], out: Names) -> Operand:
    left = _without(backend, left, needed | set(right.names))
    right = _without(backend, right, needed | set(left.names))
    recipe = _recipe(left.names, right.names, frozenset(needed), out)
    if recipe.swapped:
        left, right = right, left
    x, y = rearrange(left.array, recipe.left), rearrange(right.array, recipe.right)
    if not recipe.result:  # nothing is summed
        return Operand(backend.wrap(backend.mul(x, y)), recipe.names)
    size = {n: k for one in (left, right) for n, k in zip(one.names, one.array.shape, strict=True)}
    lengths = {f"x{n}": int(size[name]) for n, name in enumerate(recipe.names)}
    return Operand(rearrange(backend.matmul(x, y), recipe.result, **lengths), recipe.names)


@lru_cache(maxsize=1024)
def _recipe(left: Names, right: Names, needed: frozenset[str], out: Names) -> _Recipe:
    both = [name for name in left if name in right]
    summed = [name for name in both if name not in needed]
    batch = sorted((name for name in both if name in needed), key=lambda n: out.index(n) if n in out else len(out))
    only = [[name for name in side if name not in both] for side in (left, right)]
    swapped = bool(out) and out[-1] in only[0]  # so that the last axis of the result is the one that lies dense
    if swapped:
        left, right, only = right, left, only[::-1]
    names = (*batch, *only[0], *only[1])
    if not summed:
        apart = "".join(f" {_spell(names, n)}" if n in left else " 1" for n in names)
        other = "".join(f" {_spell(names, n)}" if n in right else " 1" for n in names)
        return _Recipe(swapped, f"{_spell(names, *left)} ->{apart}", f"{_spell(names, *right)} ->{other}", "", names)
    every = (*names, *summed)
    lead, rows, columns, inner = (_spell(every, *group) for group in (batch, only[0], only[1], summed))
    return _Recipe(
        swapped,
        f"{_spell(every, *left)} -> {lead} ({rows}) ({inner})",
        f"{_spell(every, *right)} -> {lead} ({inner}) ({columns})",
        f"{lead} ({rows}) ({columns}) -> {_spell(every, *names)}",
        names,
    )


def _spell(order: Sequence[str], *names: str) -> str:
    """Names as einops takes them; those of product axes are not words."""
    return " ".join(f"x{order.index(name)}" for name in names)


@lru_cache(maxsize=1024)
def _reorder(names: Names, out: Names) -> str:
    return f"{_spell(names, *names)} -> {_spell(names, *out)}"
