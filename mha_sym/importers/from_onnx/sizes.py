"""The part of ONNX's table that makes arrays, and computes shapes.

Fills `mha_sym.importers.from_onnx.ops.OPERATORS`; defines nothing else.  Targets of Reshape and Expand are arrays that
the file computes with Shape, Gather, Concat and so on; as long as their entries are known, so are the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from mha_sym.importers.from_onnx.ops import MANY, Known, Lowering, Value, operator
from mha_sym.importers.graph import Ref
from mha_sym.importers.sizes import nonnegative

Attributes = Mapping[str, Any]

# ---------------------------------------------------------------- arrays from nothing


@operator("Constant", words="a constant")
def _constant(lo: Lowering, attributes: Attributes) -> Value:
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    name = next((one for one in ("value", *kinds) if one in attributes), None)
    if name is None:
        lo.g.refuse("this constant is no array of numbers")
    return lo.array(np.asarray(attributes[name], kinds.get(name)))


@operator("ConstantOfShape", words="a constant, broadcast")
def _constant_of_shape(lo: Lowering, attributes: Attributes, shape: Value) -> Value:
    sizes = lo.sizes(shape, "the shape of an array")
    value = np.asarray(attributes.get("value", np.zeros(1, np.float32))).reshape(-1)[0]
    count = sympy.Mul(*sizes)
    if value.dtype.kind in "biu" and count.is_Integer and 0 <= count <= MANY:
        return Value(known=np.full([int(s) for s in sizes], value.item(), dtype=object))
    return Value(_filled(lo, value, sizes))


def _filled(lo: Lowering, value: Any, sizes: Sequence[sympy.Expr]) -> Ref:
    if any(size.is_Integer and size < 1 for size in sizes):
        lo.g.refuse("an axis has no positions", got=str(tuple(sizes)))
    return lo.g.broadcast(lo.g.constant(value), sizes)


@operator("Range", words="positions")
def _range(lo: Lowering, attributes: Attributes, start: Value, limit: Value, delta: Value) -> Value:
    (first,), (last,), (step,) = (lo.sizes(one, "a range") for one in (start, limit, delta))
    count = sympy.expand(last - first)
    if step == 1 and count.is_Integer and 0 <= count <= MANY:
        return Value(known=np.array([first + n for n in range(int(count))], dtype=object))
    if step != 1 or not nonnegative(count - 1):
        lo.g.refuse("a range in steps, or one that may be empty, is not in the vocabulary")
    made = lo.g.iota(count)
    return Value(made if first == 0 else lo.g.map("add", made, lo.g.size(first)))


# ---------------------------------------------------------------- shapes


@operator("Shape", words="sizes")
def _shape(lo: Lowering, attributes: Attributes, x: Value) -> Value:
    sizes = lo.shape(x)[attributes.get("start", 0) : attributes.get("end")]
    return Value(known=np.array([_plain(s) for s in sizes], dtype=object))


@operator("Size", words="sizes")
def _size(lo: Lowering, attributes: Attributes, x: Value) -> Value:
    return Value(known=np.array(sympy.expand(sympy.Mul(*lo.shape(x))), dtype=object))


def _plain(size: sympy.Expr) -> Any:
    return int(size) if size.is_Integer else size


def numbers(known: Known) -> list[int]:
    """Known entries that must be whole numbers; an error of Python's otherwise, which the caller expects."""
    return [int(one) for one in known.reshape(-1)]


# ---------------------------------------------------------------- what the operators on axes do to known entries


def gathered(attributes: Attributes, x: Known, indices: Known) -> Known:
    """Gather."""
    return np.asarray(np.take(x, indices.astype(np.int64), axis=attributes.get("axis", 0)), dtype=object)


def concatenated(attributes: Attributes, *args: Known) -> Known:
    """Concat."""
    return np.concatenate(args, axis=attributes["axis"])


def cut(attributes: Attributes, x: Known, starts: Known, ends: Known, *more: Known) -> Known:
    """Slice."""
    first, last = numbers(starts), numbers(ends)
    axes = numbers(more[0]) if more else list(range(len(first)))
    steps = numbers(more[1]) if len(more) > 1 else [1] * len(first)
    for begin, end, axis, step in zip(first, last, axes, steps, strict=True):
        x = x[(slice(None),) * (axis % x.ndim) + (slice(begin, end, step),)]
    return x


def unsqueezed(attributes: Attributes, x: Known, axes: Known) -> Known:
    """Unsqueeze."""
    return np.expand_dims(x, tuple(numbers(axes)))


def squeezed(attributes: Attributes, x: Known, *axes: Known) -> Known:
    """Squeeze."""
    return np.squeeze(x, tuple(numbers(axes[0])) if axes else None)


def reshaped(attributes: Attributes, x: Known, shape: Known) -> Known:
    """Reshape."""
    target = [x.shape[n] if s == 0 and not attributes.get("allowzero") else s for n, s in enumerate(numbers(shape))]
    return x.reshape(target)


def expanded(attributes: Attributes, x: Known, shape: Known) -> Known:
    """Expand."""
    target = np.broadcast_shapes(x.shape, tuple(numbers(shape)))
    if np.prod(target, dtype=object) > MANY:
        raise ValueError("this is not kept entry by entry")
    return np.asarray(np.broadcast_to(x, target), dtype=object)


def parted(attributes: Attributes, x: Known, *lengths: Known) -> list[Known]:
    """Split."""
    axis = attributes.get("axis", 0)
    parts: Any = attributes.get("num_outputs")
    if lengths:
        parts = np.cumsum(numbers(lengths[0]))[:-1].tolist()
    return [np.asarray(one, dtype=object) for one in np.split(x, parts, axis=axis)]


def product(attributes: Attributes, x: Known, *axes: Known) -> Known:
    """ReduceProd."""
    if (axes and numbers(axes[0]) not in ([0], [-1])) or x.ndim > 1:
        raise ValueError("this is not kept entry by entry")
    made = sympy.expand(sympy.Mul(*x.reshape(-1)))
    return np.full((1,) if attributes.get("keepdims", 1) else (), made, dtype=object)


@operator("ReduceProd", words="the product of sizes", exact=product)
def _reduce_prod(lo: Lowering, attributes: Attributes, x: Value, axes: Value | None = None) -> Value:
    lo.g.refuse("a product over an axis is not in the vocabulary")


@operator("Mod", words="the remainder of sizes that divide", exact=lambda attributes, x, y: _remainder(x, y))
def _mod(lo: Lowering, attributes: Attributes, x: Value, y: Value) -> Value:
    lo.g.refuse("a remainder is not in the vocabulary")


def _remainder(x: Known, y: Known) -> Known:
    one, by = sympy.sympify(x.reshape(-1)[0]), sympy.sympify(y.reshape(-1)[0])
    if x.size != 1 or y.size != 1 or not (one.is_Integer and by.is_Integer):
        raise ValueError("not decided")
    return np.array(int(one % by), dtype=object).reshape(x.shape)
