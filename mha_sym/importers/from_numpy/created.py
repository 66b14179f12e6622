"""NumPy's functions that make arrays from sizes, where a size is a symbol: one row each in `CREATED`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from mha_sym.importers.from_numpy.array import Traced
from mha_sym.importers.from_numpy.functions import FUNCTIONS, array_of, astype, full, triangle
from mha_sym.importers.ranges import counted
from mha_sym.importers.session import Session, exact


def _arange(session: Session, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Traced:
    builder = session.here()
    first, last = (sympy.Integer(0), exact(start)) if stop is None else (exact(start), exact(stop))
    stride = exact(step)
    if not all(one is not None and one.is_integer for one in (first, last, stride)):
        builder.refuse("numpy.arange is followed between whole numbers", got=f"{start}, {stop}, {step}")
    made = Traced(session, counted(builder, first, last, stride))
    return made if dtype is None else astype(made, dtype)


def _tri(session: Session, rows: Any, columns: Any = None, k: Any = 0, dtype: Any = float) -> Traced:
    return triangle(session, full(session, (rows, rows if columns is None else columns), 1, dtype), k, lower=True)


def _eye(session: Session, rows: Any, columns: Any = None, k: Any = 0, dtype: Any = float) -> Traced:
    return triangle(session, _tri(session, rows, columns, k, dtype), k, lower=False)


def _asarray(session: Session, value: Any, dtype: Any = None, **_: Any) -> Any:
    array = array_of(session, value)
    return array if dtype is None else astype(array, dtype)


CREATED: dict[str, Callable[..., Any]] = {
    "ones": lambda s, shape, dtype=float, **_: full(s, shape, 1, dtype),
    "zeros": lambda s, shape, dtype=float, **_: full(s, shape, 0, dtype),
    "empty": lambda s, shape, dtype=float, **_: full(s, shape, 0, dtype),
    "full": full, "arange": _arange, "tri": _tri, "eye": _eye, "identity": _eye, "asarray": _asarray,
    "array": _asarray, "ascontiguousarray": _asarray, "broadcast_to": FUNCTIONS["broadcast_to"],
}  # fmt: skip
