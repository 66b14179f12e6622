"""Sums of products over named axes through matrix multiplication, two operands at a time.

Defines `contract`, on arrays of any backend with the names of their axes.  Knows nothing of expressions.
"""

from __future__ import annotations

import re
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


class _Pattern(NamedTuple):
    """A pattern of einops, and whether it changes nothing."""

    text: str
    identity: bool

    @classmethod
    def of(cls, left: str, right: str) -> _Pattern:
        """``left -> right``; an axis in brackets by itself is that axis."""
        sides = [re.sub(r"\((\S+)\)", r"\1", side).strip() for side in (left, right)]
        return cls(" -> ".join(sides), sides[0] == sides[1])


class _Recipe(NamedTuple):
    """Two operands as matrices: how their axes and those of the product are arranged, and whether they are swapped.

    ``result`` is None if nothing is summed.
    """

    swapped: bool
    left: _Pattern
    right: _Pattern
    result: _Pattern | None
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
    return _arranged(current.array, _reorder(current.names, out))


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
    x, y = _arranged(left.array, recipe.left), _arranged(right.array, recipe.right)
    if recipe.result is None:  # nothing is summed
        return Operand(backend.wrap(backend.mul(x, y)), recipe.names)
    size = {n: k for one in (left, right) for n, k in zip(one.names, one.array.shape, strict=True)}
    lengths = {f"x{n}": int(size[name]) for n, name in enumerate(recipe.names)}
    return Operand(_arranged(backend.matmul(x, y), recipe.result, **lengths), recipe.names)


def _arranged(array: Array, pattern: _Pattern, **lengths: int) -> Array:
    """The array rearranged by einops, unless nothing is to be done: for small arrays that is most of the time."""
    return array if pattern.identity else rearrange(array, pattern.text, **lengths)


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
        apart = " ".join(_spell(names, n) if n in left else "1" for n in names)
        other = " ".join(_spell(names, n) if n in right else "1" for n in names)
        patterns = _Pattern.of(_spell(names, *left), apart), _Pattern.of(_spell(names, *right), other)
        return _Recipe(swapped, *patterns, None, names)
    every = (*names, *summed)
    lead, rows, columns, inner = (_spell(every, *group) for group in (batch, only[0], only[1], summed))
    return _Recipe(
        swapped,
        _Pattern.of(_spell(every, *left), f"{lead} ({rows}) ({inner})"),
        _Pattern.of(_spell(every, *right), f"{lead} ({inner}) ({columns})"),
        _Pattern.of(f"{lead} ({rows}) ({columns})", _spell(every, *names)),
        names,
    )


def _spell(order: Sequence[str], *names: str) -> str:
    """Names as einops takes them; those of product axes are not words."""
    return " ".join(f"x{order.index(name)}" for name in names)


@lru_cache(maxsize=1024)
def _reorder(names: Names, out: Names) -> _Pattern:
    return _Pattern.of(_spell(names, *names), _spell(names, *out))
