"""NumPy's functions and array methods on arrays without values: one row each.

Defines `FUNCTIONS` (what `__array_function__` is asked for) and `METHODS`.  What has no row is refused by name with the
user's line.  Functions that make arrays from sizes are in `mha_sym.importers.from_numpy.created`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy

from mha_sym.importers.assumed import without_nan
from mha_sym.importers.einsum_labels import labels_of
from mha_sym.importers.from_numpy.array import Traced, as_ref
from mha_sym.importers.ranges import rolled
from mha_sym.importers.session import Dim, Session, exact


def call(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy that was given such an array."""
    name = func.__name__
    if name not in FUNCTIONS:
        session.here().refuse(
            f"numpy.{name} is not in the vocabulary", hint=f"known are {', '.join(sorted(FUNCTIONS))}"
        )
    try:
        return FUNCTIONS[name](session, *args, **kwargs)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        session.here().refuse(f"numpy.{name} is not followed with these arguments: {error}")


def array_of(session: Session, value: Any) -> Traced:
    """A value of any kind as an array of the graph."""
    return value if isinstance(value, Traced) else Traced(session, as_ref(session, value))


def sizes_of(session: Session, shape: Any) -> list[sympy.Expr]:
    """A shape as code gives it: one size or several."""
    found = [exact(s) for s in (shape if isinstance(shape, tuple | list) else (shape,))]
    if any(s is None for s in found):
        session.here().refuse(f"{shape!r} is no shape")
    return [s for s in found if s is not None]


def _axes(array: Traced, axis: Any) -> list[int]:
    if axis is None:
        return list(range(array.ndim))
    return [int(a) for a in axis] if isinstance(axis, tuple | list) else [int(axis)]


def reduced(op: Any, array: Any, axis: Any = None, keepdims: Any = False) -> Traced:
    """``sum`` or ``max`` over some axes."""
    made = array.session.here().reduce(op, array.ref, _axes(array, axis), bool(keepdims))
    return Traced(array.session, made)


# ---------------------------------------------------------------- sums


def _sum(session: Session, a: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Any:
    return reduced("sum", array_of(session, a), axis, keepdims)


def _max(session: Session, a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    return reduced("max", array_of(session, a), axis, keepdims)


def _mean(session: Session, a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    return Traced(session, session.here().mean(a.ref, _axes(a, axis), bool(keepdims)))


def _einsum(session: Session, pattern: str, *arrays: Any, optimize: Any = False, out: Any = None) -> Any:
    builder = session.here()
    if out is not None:
        builder.refuse("numpy.einsum is followed without out")
    labels = labels_of(builder, pattern, [array_of(session, a).ndim for a in arrays])
    return Traced(session, builder.contract(labels.rows, labels.out, [as_ref(session, a) for a in arrays]))


def _tensordot(session: Session, a: Any, b: Any, axes: Any = 2) -> Any:
    one, two = array_of(session, a), array_of(session, b)
    if isinstance(axes, int):
        pairs = [(one.ndim - axes + n, n) for n in range(axes)]
    else:
        pairs = list(zip(_axes(one, axes[0]), _axes(two, axes[1]), strict=True))
    left: list[Any] = [("a", n) for n in range(one.ndim)]
    right: list[Any] = [("b", n) for n in range(two.ndim)]
    for n, (i, j) in enumerate(pairs):
        left[i] = right[j] = ("sum", n)
    out = [x for x in (*left, *right) if x[0] != "sum"]
    return Traced(session, session.here().contract([left, right], out, [one.ref, two.ref]))


def _dot(session: Session, a: Any, b: Any) -> Any:
    one, two = array_of(session, a), array_of(session, b)
    if not one.ndim or not two.ndim:
        return Traced(session, session.here().map("mul", one.ref, two.ref))
    return _tensordot(session, one, two, ([one.ndim - 1], [max(two.ndim - 2, 0)]))


def _outer(session: Session, a: Any, b: Any) -> Any:
    one, other = (_reshape(session, array_of(session, v), -1) for v in (a, b))
    return Traced(session, session.here().contract([["row"], ["column"]], ["row", "column"], [one.ref, other.ref]))


# ---------------------------------------------------------------- axes


def _reshape(session: Session, a: Any, shape: Any = None, newshape: Any = None, order: str = "C") -> Any:
    if order != "C":
        session.here().refuse(f"a reshape in order {order!r} is not followed")
    return a.view_of(session.here().reshape(a.ref, sizes_of(session, newshape if shape is None else shape)))


def _transpose(session: Session, a: Any, axes: Any = None) -> Any:
    order = range(a.ndim)[::-1] if axes is None else [int(n) for n in axes]
    return a.view_of(session.here().permute(a.ref, order))


def _swapaxes(session: Session, a: Any, axis1: int, axis2: int) -> Any:
    return a.view_of(session.here().swap(a.ref, axis1, axis2))


def _moveaxis(session: Session, a: Any, source: Any, destination: Any) -> Any:
    sources = [n % a.ndim for n in _axes(a, source)]
    targets = [n % a.ndim for n in _axes(a, destination)]
    order = [n for n in range(a.ndim) if n not in sources]
    for target, one in sorted(zip(targets, sources, strict=True)):
        order.insert(target, one)
    return a.view_of(session.here().permute(a.ref, order))


def _expand_dims(session: Session, a: Any, axis: Any) -> Any:
    shape: list[Any] = list(a.sizes)
    rank = a.ndim + len(_axes(a, axis))
    for n in sorted(n % rank for n in _axes(a, axis)):
        shape.insert(n, 1)
    return a.view_of(session.here().reshape(a.ref, shape))


def _squeeze(session: Session, a: Any, axis: Any = None) -> Any:
    builder = session.here()
    if axis is None:
        gone = [n for n, s in enumerate(a.sizes) if s == 1 or (not s.is_Integer and session.decide(sympy.Eq(s, 1)))]
    else:
        gone = [builder.axis(a.ref, n) for n in _axes(a, axis)]
        if any(a.sizes[n] != 1 for n in gone):
            builder.refuse("an axis that is longer than 1 is squeezed away", got=str(a.sizes))
    return a.view_of(builder.reshape(a.ref, [s for n, s in enumerate(a.sizes) if n not in gone]))


def _broadcast_to(session: Session, a: Any, shape: Any) -> Any:
    array = array_of(session, a)
    return array.view_of(session.here().broadcast(array.ref, sizes_of(session, shape)))


# ---------------------------------------------------------------- parts and pieces


def _concatenate(session: Session, arrays: Any, axis: Any = 0) -> Any:
    return Traced(session, session.here().concat([as_ref(session, a) for a in arrays], int(axis)))


def _stack(session: Session, arrays: Any, axis: int = 0) -> Any:
    return Traced(session, session.here().stack([as_ref(session, a) for a in arrays], int(axis)))


def _hstack(session: Session, arrays: Any) -> Any:
    return _concatenate(session, arrays, 0 if array_of(session, arrays[0]).ndim == 1 else 1)


def _split(session: Session, a: Any, parts: Any, axis: int = 0) -> Any:
    builder = session.here()
    whole = a.sizes[builder.axis(a.ref, axis)]
    if isinstance(parts, Dim):
        session.leak(parts.expr)
    if exact(parts) is not None:
        return [a.view_of(r) for r in builder.split(a.ref, axis, int(parts))]
    ends = [exact(p) for p in parts]
    starts = [sympy.Integer(0), *ends]
    lengths = [sympy.expand(e - s) for s, e in zip(starts, [*ends, whole], strict=True)]
    return [a.view_of(r) for r in builder.split(a.ref, axis, lengths)]


def _repeat(session: Session, a: Any, repeats: Any, axis: Any = None) -> Any:
    """Each position several times: broadcast along a new axis behind, then join."""
    return _copies(session, a, repeats, axis, behind=True)


def _copies(session: Session, a: Any, times: Any, axis: Any, behind: bool) -> Any:
    builder, count = session.here(), exact(times)
    if axis is None or count is None:
        builder.refuse("copies along one axis, as many of each, are followed")
    axis = builder.axis(a.ref, axis)
    shape = list(a.sizes)
    place = axis + behind
    apart = builder.reshape(a.ref, [*shape[:place], 1, *shape[place:]])
    wide = builder.broadcast(apart, [*shape[:place], count, *shape[place:]])
    shape[axis] = sympy.expand(shape[axis] * count)
    return Traced(session, builder.reshape(wide, shape))


def _tile(session: Session, a: Any, reps: Any) -> Any:
    array = array_of(session, a)
    counts = list(reps) if isinstance(reps, tuple | list) else [reps]
    shape = [sympy.Integer(1)] * (len(counts) - array.ndim) + list(array.sizes)
    counts = [1] * (len(shape) - len(counts)) + counts
    array = Traced(session, session.here().reshape(array.ref, shape))
    for axis, count in enumerate(counts):
        if not (isinstance(count, int) and count == 1):
            array = _copies(session, array, count, axis, behind=False)
    return array


def _take(session: Session, a: Any, indices: Any, axis: Any = None) -> Any:
    if axis is None:
        session.here().refuse("numpy.take without an axis is not followed")
    return a[(*[slice(None)] * (int(axis) % a.ndim), indices)]


def _flip(session: Session, a: Any, axis: Any = None) -> Any:
    axes = [n % a.ndim for n in _axes(a, axis)]
    return a[tuple(slice(None, None, -1) if n in axes else slice(None) for n in range(a.ndim))]


def _roll(session: Session, a: Any, shift: Any, axis: Any = None) -> Any:
    builder = session.here()
    if axis is None:
        builder.refuse("numpy.roll without an axis is not followed")
    axes, shifts = (list(one) if isinstance(one, tuple | list) else [one] for one in (axis, shift))
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    ref = a.ref
    for one, places in zip(axes, shifts, strict=True):
        ref = rolled(builder, ref, int(one), sizes_of(session, places)[0])
    return Traced(session, ref)


# ---------------------------------------------------------------- entry by entry


def _clip(
    session: Session, a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Any:  # fmt: skip
    builder, made = session.here(), as_ref(session, a)
    for f, bound in (("max", min if a_min is None else a_min), ("min", max if a_max is None else a_max)):
        made = made if bound is None else builder.map(f, made, as_ref(session, bound))
    return Traced(session, made)


def _nan_to_num(
    session: Session, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:  # fmt: skip
    return Traced(session, without_nan(session.here(), as_ref(session, x), posinf, neginf))


# ---------------------------------------------------------------- masks


def _where(session: Session, condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        session.here().refuse("numpy.where with one argument depends on values")
    return Traced(session, session.here().map("where", *(as_ref(session, v) for v in (condition, x, y))))


def triangle(session: Session, m: Any, k: Any, lower: bool) -> Traced:
    """``tril`` or ``triu``: zero outside of the triangle."""
    builder = session.here()
    array, offset = array_of(session, m), exact(k)
    if offset is None:
        builder.refuse(f"a diagonal of {k!r}")
    rows, columns = array.sizes[-2:]
    place = builder.map("add", builder.reshape(builder.iota(rows), (rows, 1)), builder.size(offset))
    across = builder.reshape(builder.iota(columns), (1, columns))
    keep = builder.map("le" if lower else "ge", across, place)
    zero = builder.constant(False) if array.dtype == bool else builder.size(0)
    return Traced(session, builder.map("where", keep, array.ref, zero))


def full(session: Session, shape: Any, fill_value: Any, dtype: Any = None, **_: Any) -> Traced:
    """An array of one value."""
    builder = session.here()
    truth = dtype is not None and np.dtype(dtype) == bool
    value = builder.constant(bool(fill_value)) if truth else as_ref(session, fill_value)
    return Traced(session, builder.broadcast(value, sizes_of(session, shape)))


def _like(value: Any) -> Callable[..., Any]:
    def made(session: Session, a: Any, fill_value: Any = value, dtype: Any = None, shape: Any = None) -> Any:
        sizes = a.sizes if shape is None else sizes_of(session, shape)
        return full(session, tuple(map(session.dim, sizes)), fill_value, a.dtype if dtype is None else dtype)

    return made


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _sum, "max": _max, "amax": _max, "mean": _mean, "reshape": _reshape, "transpose": _transpose,
    "permute_dims": _transpose, "swapaxes": _swapaxes, "moveaxis": _moveaxis, "expand_dims": _expand_dims,
    "squeeze": _squeeze, "concatenate": _concatenate, "concat": _concatenate, "stack": _stack, "split": _split,
    "array_split": _split, "where": _where, "einsum": _einsum, "tensordot": _tensordot, "dot": _dot,
    "outer": _outer,
    "broadcast_to": _broadcast_to, "repeat": _repeat, "tile": _tile, "take": _take, "flip": _flip,
    "roll": _roll, "clip": _clip, "nan_to_num": _nan_to_num,
    "tril": lambda s, m, k=0: triangle(s, m, k, lower=True), "triu": lambda s, m, k=0: triangle(s, m, k, lower=False),
    "matrix_transpose": lambda s, a: a.mT, "ravel": lambda s, a: _reshape(s, a, -1), "hstack": _hstack,
    "vstack": lambda s, arrays: _concatenate(s, arrays, 0),
    "ones_like": _like(1), "zeros_like": _like(0), "full_like": _like(None), "empty_like": _like(0),
    "copy": lambda s, a, order="K": Traced(s, a.ref), "shape": lambda s, a: a.shape, "ndim": lambda s, a: a.ndim,
    "size": lambda s, a, axis=None: a.size if axis is None else a.shape[axis],
}  # fmt: skip


# ---------------------------------------------------------------- methods


def _flat(rest: Sequence[Any]) -> Any:
    """Arguments given one by one, or as one tuple."""
    return rest[0] if len(rest) == 1 and isinstance(rest[0], tuple | list) else tuple(rest)


def astype(array: Traced, dtype: Any, copy: bool = True, **_: Any) -> Traced:
    """Another precision."""
    return Traced(array.session, array.session.here().cast(array.ref, str(np.dtype(dtype))))


def _method(name: str) -> Callable[..., Any]:
    return lambda array, *args, **kwargs: FUNCTIONS[name](array.session, array, *args, **kwargs)


METHODS: dict[str, Callable[..., Any]] = {
    **{name: _method(name) for name in (
        "sum", "max", "mean", "swapaxes", "squeeze", "repeat", "take", "dot", "ravel", "copy", "clip",
    )},
    "reshape": lambda a, *shape, **kw: _reshape(a.session, a, _flat(shape), **kw),
    "transpose": lambda a, *axes: _transpose(a.session, a, _flat(axes) if axes and axes != (None,) else None),
    "flatten": lambda a: _reshape(a.session, a, -1), "astype": astype,
}  # fmt: skip
