"""The part of torch's table that moves axes: views, splits, joins, copies and picked positions.

Fills `mha_sym.importers.from_torch.ops.OPERATIONS`; defines nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import sympy

from mha_sym.importers.from_torch.cells import Cell, Size, expanded, permuted, reshaped, sliced
from mha_sym.importers.from_torch.ops import Empty, Lowering, operation
from mha_sym.importers.ranges import rolled
from mha_sym.importers.sizes import as_size, quotient

_END = 2**62  # torch writes "to the end" as the largest integer


# ---------------------------------------------------------------- the same entries in another shape


@operation("view", words="reshape")
def _view(lo: Lowering, self: Cell, size: Sequence[Size]) -> Cell:
    if not isinstance(size, list):
        lo.g.refuse("a view of the bytes of a tensor as another type is not in the vocabulary")
    return reshaped(lo.g, self, size)


@operation("reshape", words="reshape")
def _reshape(lo: Lowering, self: Cell, shape: Sequence[Size]) -> Cell:
    return self.perhaps_shared(lo.g.reshape(lo.ref(self), shape))


@operation("view_as", "reshape_as", words="reshape")
def _like(lo: Lowering, self: Cell, other: Cell) -> Cell:
    return _reshape(lo, self, lo.shape(other))


@operation("flatten", words="reshape")
def _flatten(lo: Lowering, self: Cell, start_dim: int = 0, end_dim: int = -1) -> Cell:
    shape = list(lo.shape(self))
    if not shape:
        return _reshape(lo, self, [1])
    first, last = lo.g.axis(self.ref, start_dim), lo.g.axis(self.ref, end_dim)
    joined = sympy.expand(sympy.Mul(*shape[first : last + 1]))
    return _reshape(lo, self, [*shape[:first], joined, *shape[last + 1 :]])


@operation("unflatten", words="reshape")
def _unflatten(lo: Lowering, self: Cell, dim: int, sizes: Sequence[Size]) -> Cell:
    shape, at = list(lo.shape(self)), lo.g.axis(self.ref, dim)
    known = [as_size(n) for n in sizes]
    if -1 in known:
        rest = quotient(shape[at], sympy.Mul(*(n for n in known if n != -1)))
        if rest is None:
            lo.g.refuse(f"an axis of size {shape[at]} does not split into {tuple(sizes)}")
        known[known.index(sympy.Integer(-1))] = rest
    return reshaped(lo.g, self, [*shape[:at], *known, *shape[at + 1 :]])


@operation("unsqueeze", words="reshape")
def _unsqueeze(lo: Lowering, self: Cell, dim: int) -> Cell:
    shape = list(lo.shape(self))
    at = dim if dim >= 0 else dim + len(shape) + 1
    return reshaped(lo.g, self, [*shape[:at], 1, *shape[at:]])


@operation("squeeze", words="reshape; an axis of symbolic size stays, and that it is not 1 becomes a condition")
def _squeeze(lo: Lowering, self: Cell, dim: int | Sequence[int] | None = None) -> Cell:
    shape = lo.shape(self)
    asked = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {lo.g.axis(self.ref, n) for n in asked if not lo.decide(shape[n] - 2)}
    return reshaped(lo.g, self, [size for n, size in enumerate(shape) if n not in gone])


# ---------------------------------------------------------------- the same entries in another order


@operation("transpose", "swapaxes", "swapdims", words="permute")
def _transpose(lo: Lowering, self: Cell, dim0: int, dim1: int) -> Cell:
    order = list(range(len(lo.shape(self))))
    one, other = lo.g.axis(self.ref, dim0), lo.g.axis(self.ref, dim1)
    order[one], order[other] = other, one
    return permuted(lo.g, self, order)


@operation("t", "mT", "numpy_T", words="permute")
def _turned(lo: Lowering, self: Cell) -> Cell:
    rank = len(lo.shape(self))
    return _transpose(lo, self, -1, -2) if rank > 1 else self


@operation("permute", words="permute")
def _permute(lo: Lowering, self: Cell, dims: Sequence[int]) -> Cell:
    return permuted(lo.g, self, dims)


@operation("movedim", "moveaxis", words="permute")
def _movedim(lo: Lowering, self: Cell, source: int | list[int], destination: int | list[int]) -> Cell:
    rank = len(lo.shape(self))
    moved = [lo.g.axis(self.ref, n) for n in (source if isinstance(source, list) else [source])]
    to = [n % rank for n in (destination if isinstance(destination, list) else [destination])]
    order = [n for n in range(rank) if n not in moved]
    for place, axis in sorted(zip(to, moved, strict=True)):
        order.insert(place, axis)
    return permuted(lo.g, self, order)


# ---------------------------------------------------------------- parts of an axis


@operation("slice", words="slice; with a step, reshape and slice")
def _slice(
    lo: Lowering, self: Cell, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Cell:
    axis = lo.g.axis(self.ref, dim)
    whole = lo.shape(self)[axis]
    first = _bound(lo, 0 if start is None else start, whole)
    last = whole if end is None or (isinstance(end, int) and end > _END) else _bound(lo, end, whole)
    if step == 1:
        return sliced(lo.g, self, axis, first, sympy.expand(last - first))
    count = quotient(whole, sympy.Integer(step))
    if count is None or last != whole or not first.is_Integer or first >= step:
        lo.g.refuse(f"every {step}th position is read where the size is no multiple of it", got=f"size {whole}")
    shape = list(lo.shape(self))
    pairs = reshaped(lo.g, self, [*shape[:axis], count, step, *shape[axis + 1 :]])
    return _select(lo, pairs, axis + 1, first)


def _bound(lo: Lowering, at: Size, whole: sympy.Expr) -> sympy.Expr:
    """A bound of a slice as Python counts it: from the end if negative, and no further than the axis goes."""
    bound = as_size(at)
    if not lo.decide(bound):
        bound = sympy.expand(bound + whole)
        if not lo.decide(bound):
            return sympy.Integer(0)
    return bound if lo.decide(sympy.expand(whole - bound)) else whole


@operation("narrow", words="slice")
def _narrow(lo: Lowering, self: Cell, dim: int, start: Size, length: Size) -> Cell:
    return sliced(lo.g, self, lo.g.axis(self.ref, dim), start, length)


@operation("select", words="slice and reshape")
def _select(lo: Lowering, self: Cell, dim: int, index: Size) -> Cell:
    axis = lo.g.axis(self.ref, dim)
    at = as_size(index)
    shape = lo.shape(self)
    at = at if lo.decide(at) else sympy.expand(at + shape[axis])
    one = sliced(lo.g, self, axis, at, 1)
    return reshaped(lo.g, one, [size for n, size in enumerate(shape) if n != axis])


@operation("unbind", words="slice and reshape")
def _unbind(lo: Lowering, self: Cell, dim: int = 0) -> list[Cell]:
    size = lo.shape(self)[lo.g.axis(self.ref, dim)]
    if not size.is_Integer:
        lo.g.refuse("an axis of symbolic size is taken apart", got=f"size {size}")
    return [_select(lo, self, dim, n) for n in range(int(size))]


@operation("split", "split_with_sizes", words="slice")
def _split(lo: Lowering, self: Cell, split_size: Size | Sequence[Size], dim: int = 0) -> list[Cell]:
    if isinstance(split_size, list):
        return _parts(lo, self, dim, split_size)
    whole, each = lo.shape(self)[lo.g.axis(self.ref, dim)], as_size(split_size)
    if whole.is_Integer and each.is_Integer:
        full, rest = divmod(int(whole), int(each))
        return _parts(lo, self, dim, [each] * full + [sympy.Integer(rest)] * bool(rest))
    number = quotient(whole, each)
    if number is None or not number.is_Integer:
        lo.g.refuse(f"an axis of size {whole} is split into parts of {each}, whose number is not fixed")
    return _parts(lo, self, dim, [each] * int(number))


@operation("chunk", words="slice")
def _chunk(lo: Lowering, self: Cell, chunks: int, dim: int = 0) -> list[Cell]:
    whole = lo.shape(self)[lo.g.axis(self.ref, dim)]
    if whole.is_Integer:
        return _split(lo, self, sympy.Integer(-(-int(whole) // chunks)), dim)
    each = quotient(whole, sympy.Integer(chunks))
    if each is None:
        lo.g.refuse(f"an axis of size {whole} does not split into {chunks} equal parts")
    return _parts(lo, self, dim, [each] * chunks)


@operation("tensor_split", words="slice")
def _tensor_split(lo: Lowering, self: Cell, sections: Size | list[Size], dim: int = 0) -> list[Cell]:
    whole = lo.shape(self)[lo.g.axis(self.ref, dim)]
    if isinstance(sections, list):
        cuts = [sympy.Integer(0), *(_bound(lo, at, whole) for at in sections), whole]
        return _parts(lo, self, dim, [sympy.expand(b - a) for a, b in itertools.pairwise(cuts)])
    each = quotient(whole, as_size(sections))
    if each is None or not as_size(sections).is_Integer:
        lo.g.refuse(f"an axis of size {whole} does not split into {sections} equal parts")
    return _parts(lo, self, dim, [each] * int(sections))


def _parts(lo: Lowering, cell: Cell, dim: int, lengths: Sequence[Size]) -> list[Cell]:
    axis, at, found = lo.g.axis(cell.ref, dim), sympy.Integer(0), []
    for length in map(as_size, lengths):
        found.append(sliced(lo.g, cell, axis, at, length))
        at = sympy.expand(at + length)
    return found


# ---------------------------------------------------------------- joins and copies


@operation("cat", "concat", "concatenate", words="concat")
def _cat(lo: Lowering, tensors: Sequence[Cell], dim: int = 0) -> Cell:
    return Cell(lo.g.concat([lo.ref(one) for one in tensors if not isinstance(one, Empty)], dim))


@operation("stack", words="reshape and concat")
def _stack(lo: Lowering, tensors: Sequence[Cell], dim: int = 0) -> Cell:
    return Cell(lo.g.stack([lo.ref(one) for one in tensors], dim))


@operation("roll", words="slice and concat")
def _roll(lo: Lowering, self: Cell, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Cell:
    if not dims:
        lo.g.refuse("a roll over all entries in a row is not in the vocabulary", hint="say dims=")
    ref = lo.ref(self)
    for shift, dim in zip(shifts, dims, strict=True):
        ref = rolled(lo.g, ref, dim, as_size(shift))
    return Cell(ref)


@operation("expand", "broadcast_to", words="broadcast")
def _expand(lo: Lowering, self: Cell, size: Sequence[Size], implicit: bool = False) -> Cell:
    shape = lo.shape(self)
    kept = [sympy.Integer(1)] * (len(size) - len(shape)) + [*shape]
    return expanded(lo.g, self, [old if new == -1 else new for old, new in zip(kept, size, strict=True)])


@operation("expand_as", words="broadcast")
def _expand_as(lo: Lowering, self: Cell, other: Cell) -> Cell:
    return expanded(lo.g, self, lo.shape(other))


@operation("repeat", "tile", words="broadcast and reshape: position i of the result is i modulo the size")
def _repeat(lo: Lowering, self: Cell, repeats: Sequence[Size]) -> Cell:
    missing = max(len(repeats) - len(lo.shape(self)), 0)
    shape = [sympy.Integer(1)] * missing + [*lo.shape(self)]
    times = [1] * (len(shape) - len(repeats)) + [*repeats]
    between = [size for n in shape for size in (1, n)]
    copies = [size for r, n in zip(times, shape, strict=True) for size in (r, n)]
    made = lo.g.broadcast(lo.g.reshape(lo.ref(self), between), copies)
    return Cell(lo.g.reshape(made, [sympy.expand(as_size(r) * n) for r, n in zip(times, shape, strict=True)]))


@operation(
    "repeat_interleave",
    words="broadcast and reshape: position i of the result is i divided by the number of copies",
)
def _repeat_interleave(
    lo: Lowering, self: Cell, repeats: Any, dim: int | None = None, output_size: Any = None
) -> Cell:
    if isinstance(repeats, Cell) or dim is None:
        lo.g.refuse("repeat_interleave is understood with a number of repeats and an axis")
    shape, at = list(lo.shape(self)), lo.g.axis(self.ref, dim)
    copies = lo.g.reshape(lo.ref(self), [*shape[: at + 1], 1, *shape[at + 1 :]])
    copies = lo.g.broadcast(copies, [*shape[: at + 1], repeats, *shape[at + 1 :]])
    return Cell(lo.g.reshape(copies, [*shape[:at], sympy.expand(shape[at] * repeats), *shape[at + 1 :]]))


# ---------------------------------------------------------------- positions from a list


@operation("index", words="gather or take, for one array of positions")
def _index(lo: Lowering, self: Cell, indices: Sequence[Cell | None]) -> Cell:
    given = [(n, one) for n, one in enumerate(indices) if one is not None]
    if len(given) != 1:
        lo.g.refuse("indexing with several tensors at once is not in the vocabulary")
    (axis, positions), = given
    return _index_select(lo, self, axis, positions)


@operation("index_select", words="gather; take, where the positions are computed")
def _index_select(lo: Lowering, self: Cell, dim: int, index: Cell) -> Cell:
    if lo.g.dtype(lo.ref(index)) == "bool":
        lo.g.refuse("which entries are picked depends on the entries of a tensor", hint="choose with torch.where")
    return Cell(lo.g.take(lo.ref(self), dim, lo.ref(index)))


@operation("embedding", words="gather; take, where the positions are computed")
def _embedding(lo: Lowering, weight: Cell, indices: Cell, *_: Any, **__: Any) -> Cell:
    return _index_select(lo, weight, 0, indices)


@operation("index_put", words="where, for one boolean mask and one number")
def _index_put(
    lo: Lowering, self: Cell, indices: Sequence[Cell | None], values: Cell, accumulate: bool = False
) -> Cell:
    given = [(n, one) for n, one in enumerate(indices) if one is not None]
    if len(given) != 1 or accumulate or lo.g.dtype(lo.ref(given[0][1])) != "bool" or lo.shape(values):
        lo.g.refuse(
            "assigning to picked positions is understood with one boolean mask and one number",
            hint="write it with torch.where or masked_fill",
        )
    (first, mask), = given
    rank, deep = len(lo.shape(self)), len(lo.shape(mask))
    after = rank - first - deep
    condition = lo.g.reshape(lo.ref(mask), [*lo.shape(mask), *[1] * after])
    return Cell(lo.g.map("where", condition, lo.ref(values), lo.ref(self)))
