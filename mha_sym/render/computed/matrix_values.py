"""Lines at the height of matrices as numbers: whether products of matrices are what the lines say entry by entry.

Defines `differing`.  What is a matrix was read by `mha_sym.render.matrices`; here it is multiplied as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from mha_sym.proof.terms import Index
from mha_sym.render.computed.term_values import Numbers, Values, variables
from mha_sym.render.matrices import Height
from mha_sym.render.matrix_kinds import Heads, Matrix, Name, Plus, Product, Scaled, Weights


def differing(height: Height, places: Mapping[str, int], numbers: Numbers) -> list[int]:
    """The lines whose matrices are not, in one row and all its columns, what the entries of the first line are there.

    Args:
        height: the lines.
        places: a position for every variable but those of columns.
        numbers: what they are made of; the comparison is exact, so that these must be fractions.

    Raises:
        NotExact: for what the numbers do not have.
    """
    row = {one.name: places[one.name] for one in variables(height.row)}
    entries = numbers.at(height.lines[0][1], {**places, **_spread(height.column, numbers, 1)}, depth=2)
    rows = (value(matrix, numbers, {**places, **row}, frozenset(row)) for matrix, _ in height.lines)
    return [number for number, one in enumerate(rows) if not np.all(one == entries)]


def value(matrix: Matrix, numbers: Numbers, places: Mapping[str, int], fixed: frozenset[str] = frozenset()) -> Values:
    """The matrix as an array of rows, or the one row in which the variables that are ``fixed`` are."""

    def inner(one: Matrix, more: Mapping[str, int] = {}) -> Values:
        return value(one, numbers, {**places, **more}, fixed)

    match matrix:
        case Name(entry, axes, turned=turned):
            spread = [_spread(one, numbers, n + 2 - len(axes), fixed) for n, one in enumerate(axes)]
            array = numbers.at(entry, {**places, **{name: at for one in spread for name, at in one.items()}}, depth=2)
            return array.T if turned else array
        case Plus(args):
            return reduce(np.add, map(inner, args))
        case Heads(var, body):
            every = range(numbers.size(var.domain))
            return reduce(np.add, (inner(body, {var.name: head}) for head in every))
        case Product(left, right):
            return inner(left) @ inner(right)
        case Scaled(factors, arg):
            return reduce(np.multiply, (numbers.at(one, places) for one in factors), inner(arg))
        case Weights(scores, keep):
            powers = numbers.kind.exponentials(inner(scores))
            kept = powers if keep is None else powers * inner(keep)
            return kept * numbers.kind.inverses(kept.sum(axis=1, keepdims=True))


def _spread(index: Index, numbers: Numbers, axis: int, fixed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """All positions of the variables in a position, along one of two axes, but for those that are fixed."""
    free = [one for one in variables(index) if one.name not in fixed]
    shape = [numbers.size(one.domain) for one in free]
    ends = (-1, 1) if axis == 0 else (1, -1)
    if len(shape) == 1:
        return {free[0].name: numbers.every(shape[0], 0).reshape(ends)}
    flat = np.indices(shape).reshape(len(shape), -1) if shape else ()
    return {one.name: row.reshape(ends) for one, row in zip(free, flat, strict=True)}
