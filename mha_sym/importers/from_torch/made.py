"""The part of torch's table that makes arrays anew: filled, counted, and cut to a triangle.

Fills `mha_sym.importers.from_torch.ops.OPERATIONS`; defines nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy
import torch

from mha_sym.importers.from_torch.cells import Cell, Size
from mha_sym.importers.from_torch.ops import Lowering, numpy_dtype, operation
from mha_sym.importers.ranges import counted
from mha_sym.importers.sizes import as_size


def _filled(lo: Lowering, shape: Sequence[Size], value: Any, dtype: torch.dtype | None) -> Cell:
    one = lo.ref(value)
    if dtype is not None:
        one = lo.g.cast(one, numpy_dtype(dtype))
    return Cell(lo.g.broadcast(one, shape))


@operation("full", words="a constant, broadcast")
def _full(lo: Lowering, size: Sequence[Size], fill_value: Any, *, dtype: Any = None, **_: Any) -> Cell:
    return _filled(lo, size, fill_value, dtype)


@operation("zeros", words="a constant, broadcast")
def _zeros(lo: Lowering, size: Sequence[Size], *, dtype: Any = None, **_: Any) -> Cell:
    return _filled(lo, size, 0.0, dtype)


@operation("ones", words="a constant, broadcast")
def _ones(lo: Lowering, size: Sequence[Size], *, dtype: Any = None, **_: Any) -> Cell:
    return _filled(lo, size, 1.0, dtype)


@operation("empty", words="a constant, broadcast: not a number, until something is written there")
def _empty(lo: Lowering, size: Sequence[Size], *, dtype: Any = None, **_: Any) -> Cell:
    return _filled(lo, size, np.nan, dtype)


@operation("scalar_tensor", words="a constant")
def _scalar(lo: Lowering, s: Any, *, dtype: Any = None, **_: Any) -> Cell:
    return _filled(lo, (), s, dtype)


@operation("full_like", words="a constant, broadcast")
def _full_like(lo: Lowering, self: Cell, fill_value: Any, *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, lo.shape(self), fill_value, dtype)


@operation("zeros_like", words="a constant, broadcast")
def _zeros_like(lo: Lowering, self: Cell, *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, lo.shape(self), 0.0, dtype)


@operation("ones_like", words="a constant, broadcast")
def _ones_like(lo: Lowering, self: Cell, *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, lo.shape(self), 1.0, dtype)


@operation("empty_like", words="a constant, broadcast: not a number, until something is written there")
def _empty_like(lo: Lowering, self: Cell, *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, lo.shape(self), np.nan, dtype)


@operation("new_full", words="a constant, broadcast")
def _new_full(lo: Lowering, self: Cell, size: Sequence[Size], fill_value: Any, *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, size, fill_value, dtype)


@operation("new_zeros", words="a constant, broadcast")
def _new_zeros(lo: Lowering, self: Cell, size: Sequence[Size], *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, size, 0.0, dtype)


@operation("new_ones", words="a constant, broadcast")
def _new_ones(lo: Lowering, self: Cell, size: Sequence[Size], *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, size, 1.0, dtype)


@operation("new_empty", words="a constant, broadcast: not a number, until something is written there")
def _new_empty(lo: Lowering, self: Cell, size: Sequence[Size], *, dtype: Any = None, **_: Any) -> Cell:
    return _alike(lo, self, size, np.nan, dtype)


def _alike(lo: Lowering, like: Cell, shape: Sequence[Size], value: Any, dtype: torch.dtype | None) -> Cell:
    made = _filled(lo, (), value, dtype)
    if dtype is None:
        made = Cell(lo.g.cast(made.ref, lo.g.dtype(like.ref)))
    return Cell(lo.g.broadcast(made.ref, shape))


@operation("arange", words="iota; mul and add where it does not count from 0 in ones")
def _arange(lo: Lowering, start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, **_: Any) -> Cell:
    if end is None:
        start, end = 0, start
    if not all(isinstance(one, int | sympy.Expr) for one in (start, end, step)):
        lo.g.refuse("a range is understood between integers", got=f"{start} to {end} in steps of {step}")
    return lo.cast(Cell(counted(lo.g, *map(as_size, (start, end, step)))), dtype)


@operation("tril", words="iota, le and where")
def _tril(lo: Lowering, self: Cell, diagonal: Size = 0) -> Cell:
    return _triangle(lo, self, "le", diagonal)


@operation("triu", words="iota, ge and where")
def _triu(lo: Lowering, self: Cell, diagonal: Size = 0) -> Cell:
    return _triangle(lo, self, "ge", diagonal)


def _triangle(lo: Lowering, cell: Cell, relation: str, diagonal: Size) -> Cell:
    """Entries with ``column <= row + diagonal`` or ``column >= row + diagonal``, and zero elsewhere."""
    rows, columns = lo.shape(cell)[-2:]
    row: Any = Cell(lo.g.reshape(lo.g.iota(rows), (rows, 1)))
    row = row if diagonal == 0 else lo.map("add", row, diagonal)
    kept = lo.map(relation, Cell(lo.g.reshape(lo.g.iota(columns), (1, columns))), row)
    zero = Cell(lo.g.cast(lo.ref(0), lo.g.dtype(lo.ref(cell))))
    return lo.map("where", kept, cell, zero)


@operation("eye", words="iota and eq")
def _eye(lo: Lowering, n: Size, m: Size | None = None, *, dtype: Any = None, **_: Any) -> Cell:
    row = Cell(lo.g.reshape(lo.g.iota(n), (n, 1)))
    column = Cell(lo.g.reshape(lo.g.iota(n if m is None else m), (1, n if m is None else m)))
    return lo.cast(lo.map("eq", row, column), torch.float64 if dtype is None else dtype)
