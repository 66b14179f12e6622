"""The part of JAX's table that moves axes, sums over them, or makes arrays.

Fills `mha_sym.importers.from_jax.ops.PRIMITIVES`; defines nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from mha_sym.importers.from_jax.ops import MANY, Known, Lowering, Value, numpy_dtype, primitive
from mha_sym.importers.graph import Broadcast, Constant, Map, Ref, Reshape
from mha_sym.importers.sizes import nonnegative

Params = Mapping[str, Any]

# ---------------------------------------------------------------- sums


@primitive("dot_general", words="contraction")
def _dot_general(lo: Lowering, params: Params, left: Value, right: Value) -> Ref:
    """Axes of the result: those shared, those of the left operand alone, those of the right one alone."""
    (sum_l, sum_r), (batch_l, batch_r) = params["dimension_numbers"]
    labels_l: list[Any] = [("l", n) for n in range(len(lo.shape(left)))]
    labels_r: list[Any] = [("r", n) for n in range(len(lo.shape(right)))]
    for kind, places_l, places_r in (("sum", sum_l, sum_r), ("batch", batch_l, batch_r)):
        for n, (i, j) in enumerate(zip(places_l, places_r, strict=True)):
            labels_l[i] = labels_r[j] = (kind, n)
    free = [one for one in (*labels_l, *labels_r) if one[0] in "lr"]
    out = [*(("batch", n) for n in range(len(batch_l))), *free]
    return lo.g.contract([labels_l, labels_r], out, [left.ref, right.ref])


@primitive("reduce_sum", words="sum")
def _reduce_sum(lo: Lowering, params: Params, x: Value) -> Ref:
    return lo.g.reduce("sum", x.ref, params["axes"])


@primitive("reduce_max", words="max")
def _reduce_max(lo: Lowering, params: Params, x: Value) -> Ref:
    return lo.g.reduce("max", x.ref, params["axes"])


@primitive("reduce_min", words="max of the negative")
def _reduce_min(lo: Lowering, params: Params, x: Value) -> Ref:
    return lo.g.map("neg", lo.g.reduce("max", lo.g.map("neg", x.ref), params["axes"]))


# ---------------------------------------------------------------- axes


@primitive("reshape", words="reshape")
def _reshape(lo: Lowering, params: Params, x: Value, *sizes: Value) -> Value:
    if params.get("dimensions") is not None:
        lo.g.refuse("a reshape that also transposes is not in the vocabulary")
    new = lo.sizes(params["new_sizes"])
    return Value(lo.g.reshape(x.ref, new), _shaped(x.known, new))


def _shaped(known: Known | None, sizes: Sequence[sympy.Expr]) -> Known | None:
    fixed = all(s.is_Integer for s in sizes)
    return known.reshape([int(s) for s in sizes]) if known is not None and fixed else None


@primitive("transpose", words="permute")
def _transpose(lo: Lowering, params: Params, x: Value) -> Value:
    order = params["permutation"]
    return Value(lo.g.permute(x.ref, order), None if x.known is None else x.known.transpose(order))


@primitive("squeeze", words="reshape")
def _squeeze(lo: Lowering, params: Params, x: Value) -> Value:
    gone = {n % len(lo.shape(x)) for n in params["dimensions"]}
    new = [s for n, s in enumerate(lo.shape(x)) if n not in gone]
    return Value(lo.g.reshape(x.ref, new), _shaped(x.known, new))


@primitive("broadcast_in_dim", words="reshape and broadcast")
def _broadcast_in_dim(lo: Lowering, params: Params, x: Value, *sizes: Value) -> Value:
    shape, places = lo.sizes(params["shape"]), params["broadcast_dimensions"]
    between = [sympy.Integer(1)] * len(shape)
    for place, size in zip(places, lo.shape(x), strict=True):
        between[place] = size
    ref = lo.g.broadcast(lo.g.reshape(x.ref, between), shape)
    known = _shaped(x.known, between)
    return Value(ref, _wide(known, shape))


def _wide(known: Known | None, shape: Sequence[sympy.Expr]) -> Known | None:
    """Known entries copied, where they are few afterwards."""
    if known is None or not all(s.is_Integer for s in shape) or sympy.Mul(*shape) > MANY:
        return None
    return np.asarray(np.broadcast_to(known, [int(s) for s in shape]), dtype=object)


@primitive("split", words="slices")
def _split(lo: Lowering, params: Params, x: Value) -> list[Value]:
    return [Value(one) for one in lo.g.split(x.ref, params["axis"], lo.sizes(params["sizes"]))]


@primitive("slice", words="slice; listed positions where there are steps")
def _slice(lo: Lowering, params: Params, x: Value) -> Value:
    ref, known = x.ref, x.known
    strides = params["strides"] or (1,) * len(params["start_indices"])
    cuts = list(zip(params["start_indices"], params["limit_indices"], strides, strict=True))
    for axis, (first, last, step) in enumerate(cuts):
        start, stop = lo.size(first), lo.size(last)
        if step == 1:
            ref = lo.g.slice(ref, axis, start, sympy.expand(stop - start))
        elif start.is_Integer and stop.is_Integer:
            ref = lo.g.gather(ref, axis, range(int(start), int(stop), int(step)))
        else:
            lo.g.refuse("every few positions of an axis of symbolic size are picked")
    if known is not None:
        known = known[tuple(slice(*map(int, one)) for one in cuts)]
    return Value(ref, known)


@primitive("rev", words="listed positions")
def _rev(lo: Lowering, params: Params, x: Value) -> Value:
    ref = x.ref
    for axis in params["dimensions"]:
        size = lo.g.shape(ref)[axis]
        if not size.is_Integer:
            lo.g.refuse("an axis of symbolic size is turned around")
        ref = lo.g.gather(ref, axis, range(int(size))[::-1])
    return Value(ref, None if x.known is None else np.flip(x.known, params["dimensions"]))


@primitive("concatenate", words="concat")
def _concatenate(lo: Lowering, params: Params, *args: Value) -> Value:
    known = [one.known for one in args if one.known is not None]
    axis = params["dimension"]
    whole: Known | None = np.concatenate(known, axis=axis) if len(known) == len(args) else None
    return Value(lo.g.concat([one.ref for one in args], axis), whole)


@primitive("pad", words="concat with the padding")
def _pad(lo: Lowering, params: Params, x: Value, padding: Value) -> Ref:
    ref = x.ref
    for axis, row in enumerate(params["padding_config"]):
        low, high, inside = lo.sizes(row)
        if inside != 0 or not (nonnegative(low) and nonnegative(high)):
            lo.g.refuse("padding between the positions, or of a negative number, is not in the vocabulary")
        for count, front in ((low, True), (high, False)):
            if count != 0:
                shape = [count if n == axis else s for n, s in enumerate(lo.g.shape(ref))]
                filled = lo.g.broadcast(padding.ref, shape)
                ref = lo.g.concat([filled, ref] if front else [ref, filled], axis)
    return ref


# ---------------------------------------------------------------- positions


@primitive("iota", words="positions")
def _iota(lo: Lowering, params: Params) -> Value:
    shape, axis = lo.sizes(params["shape"]), params["dimension"]
    row = [s if n == axis else sympy.Integer(1) for n, s in enumerate(shape)]
    made = lo.g.broadcast(lo.g.reshape(lo.g.iota(shape[axis]), row), shape)
    known = None
    if shape[axis].is_Integer and shape[axis] <= MANY:
        known = _shaped(np.arange(int(shape[axis])).astype(object), row)
    return Value(lo.g.cast(made, numpy_dtype(params["dtype"])), _wide(known, shape))


@primitive("cumsum", words="positions from 1 on, where ones are summed up")
def _cumsum(lo: Lowering, params: Params, x: Value) -> Ref:
    if params["reverse"] or not _all_ones(lo, x.ref):
        lo.g.refuse("a running sum (cumsum) of anything but ones is not in the vocabulary")
    shape, axis = lo.shape(x), params["axis"]
    row = [s if n == axis else sympy.Integer(1) for n, s in enumerate(shape)]
    made = lo.g.map("add", lo.g.iota(shape[axis]), lo.g.size(1))
    return lo.g.cast(lo.g.broadcast(lo.g.reshape(made, row), shape), lo.g.dtype(x.ref))


def _all_ones(lo: Lowering, ref: Ref) -> bool:
    """Whether every entry is the number 1."""
    node = lo.g.nodes[ref]
    while isinstance(node.op, Broadcast | Reshape) or node.op == Map("float"):
        node = lo.g.nodes[node.args[0]]
    return isinstance(node.op, Constant) and bool((node.op.value == 1).all())


@primitive("dynamic_slice", words="slice, where it begins at a known position")
def _dynamic_slice(lo: Lowering, params: Params, x: Value, *starts: Value) -> Ref:
    ref = x.ref
    for axis, length in enumerate(lo.sizes(params["slice_sizes"])):
        if length == lo.g.shape(ref)[axis]:
            continue  # the start is clamped to 0, whatever it is
        ref = lo.g.slice(ref, axis, _position(lo, starts[axis].known), length)
    return ref


def _position(lo: Lowering, known: Known | None) -> sympy.Expr:
    if known is None or known.size != 1:
        lo.g.refuse("a position that depends on values is read", expected="positions that depend on sizes alone")
    return sympy.sympify(known.reshape(-1)[0])


@primitive("gather", words="slices and listed positions, where the positions are known")
def _gather(lo: Lowering, params: Params, x: Value, indices: Value) -> Ref:
    """One start position for every axis of ``start_index_map``, or a list of positions of one axis."""
    numbers = params["dimension_numbers"]
    mapped, sizes = numbers.start_index_map, lo.sizes(params["slice_sizes"])
    if indices.known is None or numbers.operand_batching_dims:
        lo.g.refuse(
            "positions that depend on values are looked up", expected="positions that are known",
            hint="if this is an embedding, give the attention its result as an input",
        )  # fmt: skip
    if indices.known.ndim == 1:
        return _picked(lo, x.ref, dict(zip(mapped, indices.known, strict=True)), sizes, numbers.collapsed_slice_dims)
    if indices.known.ndim != 2 or len(mapped) != 1 or numbers.collapsed_slice_dims != mapped:
        lo.g.refuse("positions of several axes are looked up at once")
    return _listed(lo, x.ref, mapped[0], indices.known[:, 0], sizes, numbers.offset_dims)


def _picked(
    lo: Lowering, ref: Ref, starts: Mapping[int, Any], sizes: Sequence[sympy.Expr], collapsed: Sequence[int]
) -> Ref:
    for axis, length in enumerate(sizes):
        ref = lo.g.slice(ref, axis, sympy.sympify(starts.get(axis, 0)), length)
    return lo.g.reshape(ref, [s for n, s in enumerate(sizes) if n not in collapsed])


def _listed(
    lo: Lowering, ref: Ref, axis: int, positions: Known, sizes: Sequence[sympy.Expr], offset: Sequence[int]
) -> Ref:
    if any(not sympy.sympify(p).is_Integer for p in positions):
        lo.g.refuse("positions that depend on sizes are listed")
    for n, length in enumerate(sizes):
        ref = ref if n == axis else lo.g.slice(ref, n, 0, length)
    made = lo.g.gather(ref, axis, [int(p) for p in positions])
    place = next(n for n in range(len(sizes)) if n not in offset)  # where the list's own axis goes
    order = [n for n in range(len(sizes)) if n != axis]
    return lo.g.permute(made, [*order[:place], axis, *order[place:]])
