"""The part of ONNX's table that moves axes and sums over them.

Fills `mha_sym.importers.from_onnx.ops.OPERATORS`; defines nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import sympy

from mha_sym.importers.einsum_labels import labels_of
from mha_sym.importers.from_onnx import sizes as exact
from mha_sym.importers.from_onnx.ops import Lowering, Value, operator
from mha_sym.importers.graph import Ref
from mha_sym.importers.sizes import total

Attributes = Mapping[str, Any]
#: an end of a slice that is at least this means 'to the end'
_FAR = 1 << 30

# ---------------------------------------------------------------- sums


@operator("MatMul", words="contraction")
def _matmul(lo: Lowering, attributes: Attributes, x: Value, y: Value) -> Ref:
    return lo.g.matmul(lo.ref(x), lo.ref(y))


@operator("Gemm", words="contraction, mul and add")
def _gemm(lo: Lowering, attributes: Attributes, x: Value, y: Value, c: Value | None = None) -> Ref:
    one, two = lo.ref(x), lo.ref(y)
    one = lo.g.permute(one, (1, 0)) if attributes.get("transA") else one
    two = lo.g.permute(two, (1, 0)) if attributes.get("transB") else two
    made = _times(lo, lo.g.matmul(one, two), attributes.get("alpha", 1.0))
    return made if c is None else lo.map("add", made, _times(lo, lo.ref(c), attributes.get("beta", 1.0)))


def _times(lo: Lowering, ref: Ref, factor: float) -> Ref:
    return ref if factor == 1.0 else lo.g.map("mul", ref, lo.g.constant(np.float32(factor)))


@operator("Einsum", words="contraction")
def _einsum(lo: Lowering, attributes: Attributes, *args: Value) -> Ref:
    labels = labels_of(lo.g, attributes["equation"], [len(lo.shape(one)) for one in args])
    return lo.g.contract(labels.rows, labels.out, [lo.ref(one) for one in args])


def _axes(lo: Lowering, attributes: Attributes, x: Value, axes: Value | None) -> list[int]:
    """The axes of a reduction, an input or an attribute; all of them where there are none."""
    found = lo.numbers(axes, "the axes of a reduction") if axes is not None else list(attributes.get("axes", ()))
    if not found and not attributes.get("noop_with_empty_axes"):
        return list(range(len(lo.shape(x))))
    return found


def _reduction(op: Literal["sum", "max"]) -> Any:
    def make(lo: Lowering, attributes: Attributes, x: Value, axes: Value | None = None) -> Ref:
        return lo.g.reduce(op, lo.ref(x), _axes(lo, attributes, x, axes), bool(attributes.get("keepdims", 1)))

    return make


operator("ReduceSum", words="sum")(_reduction("sum"))
operator("ReduceMax", words="max")(_reduction("max"))


@operator("ReduceMean", words="sum and div")
def _mean(lo: Lowering, attributes: Attributes, x: Value, axes: Value | None = None) -> Ref:
    return lo.g.mean(lo.ref(x), _axes(lo, attributes, x, axes), bool(attributes.get("keepdims", 1)))


@operator("ReduceMin", words="max of the negative")
def _minimum(lo: Lowering, attributes: Attributes, x: Value, axes: Value | None = None) -> Ref:
    keep = bool(attributes.get("keepdims", 1))
    return lo.map("neg", lo.g.reduce("max", lo.map("neg", x), _axes(lo, attributes, x, axes), keep))


@operator("Softmax", words="softmax")
def _softmax(lo: Lowering, attributes: Attributes, x: Value) -> Ref:
    return lo.g.softmax(lo.ref(x), attributes.get("axis", -1))


# ---------------------------------------------------------------- axes


@operator("Transpose", words="permute")
def _transpose(lo: Lowering, attributes: Attributes, x: Value) -> Ref:
    return lo.g.permute(lo.ref(x), attributes.get("perm") or range(len(lo.shape(x)))[::-1])


@operator("Reshape", words="reshape", exact=exact.reshaped)
def _reshape(lo: Lowering, attributes: Attributes, x: Value, shape: Value) -> Ref:
    target, before = lo.sizes(shape, "the shape of a reshape"), lo.shape(x)
    if not attributes.get("allowzero"):
        target = [before[n] if size == 0 and n < len(before) else size for n, size in enumerate(target)]
    return lo.g.reshape(lo.ref(x), target)


@operator("Flatten", words="reshape")
def _flatten(lo: Lowering, attributes: Attributes, x: Value) -> Ref:
    shape = lo.shape(x)
    axis = attributes.get("axis", 1)
    return lo.g.reshape(lo.ref(x), [total(shape[:axis]), total(shape[axis:])])


@operator("Squeeze", words="reshape", exact=exact.squeezed)
def _squeeze(lo: Lowering, attributes: Attributes, x: Value, axes: Value | None = None) -> Ref:
    shape = lo.shape(x)
    if axes is None:
        gone = {n for n, size in enumerate(shape) if size == 1}
        for size in shape:
            if not size.is_Integer:
                lo.g.condition(sympy.Ne(size, 1))
    else:
        gone = {lo.g.axis(lo.ref(x), n) for n in lo.numbers(axes, "the axes of Squeeze")}
    if any(shape[n] != 1 for n in gone):
        lo.g.refuse("an axis that is longer than 1 is squeezed away", got=str(shape))
    return lo.g.reshape(lo.ref(x), [size for n, size in enumerate(shape) if n not in gone])


@operator("Unsqueeze", words="reshape", exact=exact.unsqueezed)
def _unsqueeze(lo: Lowering, attributes: Attributes, x: Value, axes: Value) -> Ref:
    places = lo.numbers(axes, "the axes of Unsqueeze")
    rank = len(lo.shape(x)) + len(places)
    shape = list(lo.shape(x))
    for place in sorted(n % rank for n in places):
        shape.insert(place, sympy.Integer(1))
    return lo.g.reshape(lo.ref(x), shape)


@operator("Expand", words="broadcast", exact=exact.expanded)
def _expand(lo: Lowering, attributes: Attributes, x: Value, shape: Value) -> Ref:
    target = tuple(lo.sizes(shape, "the shape of Expand"))
    return lo.g.broadcast(lo.ref(x), lo.g.broadcast_shapes([lo.shape(x), target]))


@operator("Tile", words="broadcast and reshape")
def _tile(lo: Lowering, attributes: Attributes, x: Value, repeats: Value) -> Ref:
    ref = lo.ref(x)
    for axis, times in enumerate(lo.sizes(repeats, "the copies of Tile")):
        shape = list(lo.g.shape(ref))
        if times != 1:
            apart = lo.g.reshape(ref, [*shape[:axis], 1, *shape[axis:]])
            wide = lo.g.broadcast(apart, [*shape[:axis], times, *shape[axis:]])
            ref = lo.g.reshape(wide, [*shape[:axis], sympy.expand(shape[axis] * times), *shape[axis + 1 :]])
    return ref


@operator("Concat", words="concat", exact=exact.concatenated)
def _concat(lo: Lowering, attributes: Attributes, *args: Value) -> Ref:
    return lo.g.concat([lo.ref(one) for one in args], attributes["axis"])


@operator("Split", words="slices", exact=exact.parted)
def _split(lo: Lowering, attributes: Attributes, x: Value, lengths: Value | None = None) -> list[Ref]:
    axis = attributes.get("axis", 0)
    parts = attributes.get("num_outputs", 0) if lengths is None else lo.sizes(lengths, "the lengths of Split")
    if not parts:
        lo.g.refuse("this Split does not say into how many parts")
    return lo.g.split(lo.ref(x), axis, parts)


@operator("Slice", words="slice; listed positions where there are steps", exact=exact.cut)
def _slice(
    lo: Lowering, attributes: Attributes, x: Value, starts: Value, ends: Value, axes: Value | None = None,
    steps: Value | None = None,
) -> Ref:  # fmt: skip
    first, last = lo.sizes(starts, "the start of a slice"), lo.sizes(ends, "the end of a slice")
    places = list(range(len(first))) if axes is None else lo.numbers(axes, "the axes of a slice")
    strides = [1] * len(first) if steps is None else lo.numbers(steps, "the steps of a slice")
    ref = lo.ref(x)
    for start, end, place, step in zip(first, last, places, strides, strict=True):
        ref = _cut(lo, ref, lo.g.axis(ref, place), start, end, step)
    return ref


def _cut(lo: Lowering, ref: Ref, axis: int, start: sympy.Expr, end: sympy.Expr, step: int) -> Ref:
    size = lo.g.shape(ref)[axis]
    if step != 1:
        if not (size.is_Integer and start.is_Integer and end.is_Integer and step):
            lo.g.refuse("every few positions of an axis of symbolic size are picked")
        return lo.g.gather(ref, axis, range(*slice(int(start), int(end), step).indices(int(size))))
    begin, stop = _counted(start, size), _counted(end, size)
    return lo.g.slice(ref, axis, begin, sympy.expand(stop - begin))


def _counted(at: sympy.Expr, size: sympy.Expr) -> sympy.Expr:
    """A position counted from the front; what lies beyond the end is the end."""
    if at.is_Integer and (at >= _FAR or (size.is_Integer and at > size)):
        return size
    if at.is_Integer and at < 0:
        return sympy.expand(size + at)
    return sympy.expand(size + at) if at.is_negative else at


@operator("Gather", words="slice, or listed positions, where they are known", exact=exact.gathered)
def _gather(lo: Lowering, attributes: Attributes, x: Value, indices: Value) -> Ref:
    axis = lo.g.axis(lo.ref(x), attributes.get("axis", 0))
    if indices.known is None or indices.known.ndim > 1:
        lo.g.refuse(
            "positions that depend on values are looked up, as an embedding does",
            hint="this is more than attention: point at the attention inside, as in model.onnx:h.0.attn",
        )
    size = lo.shape(x)[axis]
    if indices.known.ndim == 1 and size.is_Integer:
        return lo.g.gather(lo.ref(x), axis, lo.numbers(indices, "a list of positions"))
    found = [_counted(sympy.sympify(one), size) for one in indices.known.reshape(-1)]
    if indices.known.ndim == 0:
        return lo.g.select(lo.ref(x), axis, found[0])
    return lo.g.concat([lo.g.slice(lo.ref(x), axis, at, 1) for at in found], axis)


@operator("Trilu", words="where, comparison of positions")
def _trilu(lo: Lowering, attributes: Attributes, x: Value, k: Value | None = None) -> Ref:
    """Zero outside of the triangle."""
    b, shape = lo.g, lo.shape(x)
    (offset,) = [sympy.Integer(0)] if k is None else lo.sizes(k, "the diagonal of Trilu")
    down = b.map("add", b.reshape(b.iota(shape[-2]), (shape[-2], 1)), b.size(offset))
    across = b.reshape(b.iota(shape[-1]), (1, shape[-1]))
    keep = b.map("ge" if attributes.get("upper", 1) else "le", across, down)
    zero = b.constant(False) if b.dtype(lo.ref(x)) == "bool" else b.size(0)
    return b.map("where", keep, lo.ref(x), zero)


