"""Constants of imported code, read as what they stand for: roots of sizes, triangles, identities, positions.

Defines `read_number` and `read_array`.  A float is read as another number only if it is that number to within two units
in the last place; a table only if every entry is.  Each reading is reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import sympy

from mha_sym.importers.builder import Builder
from mha_sym.importers.graph import Array

#: the largest denominator of a fraction that a float is read as
_DENOMINATOR = 64


def read_number(value: float, dtype: str, sizes: Sequence[int]) -> tuple[sympy.Expr, str]:
    """The exact number that a float stands for, and how that was read, in words; no words where it is that number.

    Args:
        value: the float.
        dtype: the precision in which it was computed.
        sizes: the sizes that are known numbers; it may be a power of one, or of a product of two.

    Example:
        >>> read_number(0.40824829046386296, "float64", [6])
        (sqrt(6)/6, '0.40824829046386296 read as sqrt(6)/6')
        >>> read_number(0.4082, "float64", [6])[1]
        ''
    """
    if math.isinf(value) or math.isnan(value):
        return {math.inf: sympy.oo, -math.inf: -sympy.oo}.get(value, sympy.nan), ""
    exact = sympy.Rational(*value.as_integer_ratio())
    if exact.q <= 1 << 12:
        return exact, ""
    near = Fraction(value).limit_denominator(_DENOMINATOR)
    candidates = [sympy.Rational(near.numerator, near.denominator)] if near else []
    bases = {*sizes, *(a * b for a in sizes for b in sizes)}
    for base in sorted(bases):
        for quarter in (-2, 2, -1, 1):
            number = sympy.Integer(base) ** sympy.Rational(quarter, 4)
            candidates += [number, -number]
    for candidate in candidates:
        if _is_near(value, candidate, dtype):
            return candidate, f"{value!r} read as {candidate}"
    return exact, ""


def _is_near(value: float, exact: sympy.Expr, dtype: str) -> bool:
    kind = np.float32 if dtype == "float32" or float(np.float32(value)) == value else np.float64
    unit = float(np.spacing(kind(abs(value))))
    return abs(value - float(exact)) <= 2 * unit


def read_array(builder: Builder, value: Array) -> int | None:
    """A table as comparisons of positions, None if it is none that is known.

    Known are tables whose entries are all equal, ``tril`` and ``triu`` of two values, the identity, and ``arange``,
    in the last axes of an array whose other axes have size 1.

    Example:
        >>> builder = Builder()
        >>> builder.shape(read_array(builder, np.tril(np.ones((1, 3, 3), bool))))
        (1, 3, 3)
    """
    if value.size == 0:
        return None
    first = value.flat[0]
    if np.array_equal(value, np.full_like(value, first), equal_nan=True):
        return builder.broadcast(_entry(builder, first), value.shape)
    core = value.reshape([n for n in value.shape if n != 1])
    if core.ndim == 1 and core.dtype.kind in "iu" and np.array_equal(core, np.arange(len(core))):
        _note(builder, value, "the positions 0, 1, ...")
        return builder.reshape(builder.iota(len(core)), value.shape)
    if core.ndim != 2:
        return None
    made = _triangle(builder, core)
    return None if made is None else builder.reshape(made, value.shape)


def _note(builder: Builder, value: Array, words: str) -> None:
    builder.note(readings=(f"a table of shape {value.shape} read as {words} at {builder.place}",))


def _entry(builder: Builder, value: np.generic) -> int:
    if value.dtype.kind == "b":
        return builder.constant(bool(value))
    number = float(value)
    if math.isinf(number):
        return builder.size(sympy.oo if number > 0 else -sympy.oo)
    return builder.size(sympy.Rational(*number.as_integer_ratio()))


def _triangle(builder: Builder, core: Array) -> int | None:
    """A table of two values, one of them where ``column <= row + k`` or ``column = row``."""
    places = np.indices(core.shape)
    rows, columns = places[0], places[1]
    inside, outside = core[-1, 0], core[0, -1]
    for name, words, holds, offset in _shapes(core, rows, columns):
        where = holds(offset)
        yes, no = (inside, outside) if name != "eq" else (core[0, 0], outside)
        if where.any() and not where.all() and np.array_equal(core, np.where(where, yes, no)):
            _note(builder, core, f"{words} with {yes} inside and {no} outside")
            down = builder.reshape(builder.iota(core.shape[0]), (core.shape[0], 1))
            across = builder.reshape(builder.iota(core.shape[1]), (1, core.shape[1]))
            keep = builder.map(name, across, builder.map("add", down, builder.size(offset)))
            if core.dtype.kind == "b":
                return keep if yes else builder.map("not", keep)
            return builder.map("where", keep, _entry(builder, yes), _entry(builder, no))
    return None


def _shapes(core: Array, rows: Array, columns: Array) -> list[tuple[str, str, Callable[[int], Array], int]]:
    """The ways in which a table may be cut in two: under a diagonal, or on it."""
    first = core[0]
    change = np.flatnonzero(first != first[0])
    offsets = [int(change[0]) - 1] if len(change) else []
    below = np.flatnonzero(core[:, 0] != core[0, 0])
    offsets += [-int(below[0])] if len(below) and not len(change) else []

    def lower(offset: int) -> Array:
        return np.asarray(columns <= rows + offset)

    def diagonal(offset: int) -> Array:
        return np.asarray(columns == rows + offset)

    made: list[tuple[str, str, Callable[[int], Array], int]] = [
        ("le", f"a triangle (diagonal {k})", lower, k) for k in dict.fromkeys([*offsets, 0])
    ]
    return [*made, ("eq", "the identity", diagonal, 0)]
