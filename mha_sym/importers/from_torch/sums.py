"""The part of torch's table that sums: reductions, norms, softmax, products of matrices, einsum, and attention.

Fills `mha_sym.importers.from_torch.ops.OPERATIONS`; defines nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy

from mha_sym.importers.einsum_labels import Label, labels_of
from mha_sym.importers.from_torch.cells import Cell, Size
from mha_sym.importers.from_torch.ops import Lowering, operation


def _axes(lo: Lowering, cell: Cell, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or dim == []:
        return list(range(len(lo.shape(cell))))
    return [dim] if isinstance(dim, int) else list(dim)


@operation("sum", words="reduce")
def _sum(
    lo: Lowering, self: Cell, dim: int | list[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Cell:
    return Cell(lo.g.reduce("sum", lo.ref(lo.cast(self, dtype)), _axes(lo, self, dim), keepdim))


@operation("mean", words="reduce and div")
def _mean(
    lo: Lowering, self: Cell, dim: int | list[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Cell:
    return Cell(lo.g.mean(lo.ref(lo.cast(self, dtype)), _axes(lo, self, dim), keepdim))


@operation("amax", words="reduce")
def _amax(lo: Lowering, self: Cell, dim: int | list[int] | None = None, keepdim: bool = False) -> Cell:
    return Cell(lo.g.reduce("max", lo.ref(self), _axes(lo, self, dim), keepdim))


@operation("amin", words="neg and reduce")
def _amin(lo: Lowering, self: Cell, dim: int | list[int] | None = None, keepdim: bool = False) -> Cell:
    return lo.map("neg", _amax(lo, lo.map("neg", self), dim, keepdim))


@operation("max", words="max of two tensors; reduce along an axis, whose positions are not understood")
def _max(lo: Lowering, self: Cell, other: Any = None, keepdim: bool = False) -> Any:
    if isinstance(other, Cell):
        return lo.map("max", self, other)
    found = _amax(lo, self, other, keepdim)
    return found if other is None else [found, None]


@operation("min", words="min of two tensors; neg and reduce along an axis")
def _min(lo: Lowering, self: Cell, other: Any = None, keepdim: bool = False) -> Any:
    if isinstance(other, Cell):
        return lo.map("min", self, other)
    found = _amin(lo, self, other, keepdim)
    return found if other is None else [found, None]


@operation("logsumexp", words="exp, reduce and log")
def _logsumexp(lo: Lowering, self: Cell, dim: int | list[int], keepdim: bool = False) -> Cell:
    return lo.map("log", _sum(lo, lo.map("exp", self), dim, keepdim))


@operation("linalg_vector_norm", words="mul, reduce and sqrt")
def _norm(
    lo: Lowering, self: Cell, ord: Any = 2, dim: int | list[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Cell:
    if ord != 2:
        lo.g.refuse(f"a norm of order {ord} is not in the vocabulary")
    cell = lo.cast(self, dtype)
    return lo.map("sqrt", _sum(lo, lo.map("mul", cell, cell), dim, keepdim))


@operation("layer_norm", words="reduce, sub, mul, add, sqrt and div")
def _layer_norm(
    lo: Lowering, input: Cell, normalized_shape: Sequence[Size], weight: Cell | None = None, bias: Cell | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Cell:  # fmt: skip
    axes = list(range(-len(normalized_shape), 0))
    centred = lo.map("sub", input, _mean(lo, input, axes, True))
    return _scaled(lo, centred, axes, eps, weight, bias)


@operation("rms_norm", words="mul, reduce, add, sqrt and div")
def _rms_norm(
    lo: Lowering, input: Cell, normalized_shape: Sequence[Size], weight: Cell | None = None, eps: float | None = None
) -> Cell:
    axes = list(range(-len(normalized_shape), 0))
    small = float(np.finfo(lo.g.dtype(input.ref)).eps) if eps is None else eps
    return _scaled(lo, input, axes, small, weight, None)


def _scaled(lo: Lowering, cell: Cell, axes: list[int], eps: float, weight: Cell | None, bias: Cell | None) -> Cell:
    square = _mean(lo, lo.map("mul", cell, cell), axes, True)
    made = lo.map("div", cell, lo.map("sqrt", lo.map("add", square, eps)))
    made = made if weight is None else lo.map("mul", made, weight)
    return made if bias is None else lo.map("add", made, bias)


@operation("softmax", words="softmax")
def _softmax(lo: Lowering, self: Cell, dim: int, dtype: Any = None) -> Cell:
    cell = self if isinstance(dtype, bool) else lo.cast(self, dtype)
    return Cell(lo.g.softmax(lo.ref(cell), dim))


@operation("matmul", "mm", "bmm", "mv", "dot", words="contract")
def _matmul(lo: Lowering, self: Cell, other: Cell) -> Cell:
    return Cell(lo.g.matmul(lo.ref(self), lo.ref(other)))


@operation("outer", words="contract")
def _outer(lo: Lowering, self: Cell, vec2: Cell) -> Cell:
    return Cell(lo.g.contract(["i", "j"], ["i", "j"], [lo.ref(self), lo.ref(vec2)]))


@operation("linear", words="contract, and add for the bias")
def _linear(lo: Lowering, input: Cell, weight: Cell, bias: Cell | None = None) -> Cell:
    lead = [f"lead{n}" for n in range(len(lo.shape(input)) - 1)]
    made = lo.g.contract([[*lead, "in"], ["out", "in"]], [*lead, "out"], [lo.ref(input), lo.ref(weight)])
    return Cell(made) if bias is None else lo.map("add", Cell(made), bias)


@operation("addmm", "baddbmm", "addmv", words="contract and add")
def _addmm(lo: Lowering, self: Cell, mat1: Cell, mat2: Cell, beta: Any = 1, alpha: Any = 1) -> Cell:
    product = _matmul(lo, mat1, mat2)
    product = product if alpha == 1 else lo.map("mul", product, alpha)
    if beta == 0:  # torch does not read the tensor then, whatever stands in it
        return product
    return lo.map("add", self if beta == 1 else lo.map("mul", self, beta), product)


@operation("einsum", words="contract")
def _einsum(lo: Lowering, equation: str, tensors: Sequence[Cell], path: Any = None) -> Cell:
    refs = [lo.ref(one) for one in tensors]
    labels = labels_of(lo.g, equation, [len(lo.g.shape(ref)) for ref in refs])
    return Cell(_contracted(lo, labels.rows, labels.out, refs))


def _contracted(lo: Lowering, rows: Sequence[Sequence[Label]], out: Sequence[Label], refs: Sequence[int]) -> int:
    """A contraction in which an axis of size 1 may stand for a longer one, as in einsum."""
    longest: dict[Label, sympy.Expr] = {}
    for row, ref in zip(rows, refs, strict=True):
        for label, size in zip(row, lo.g.shape(ref), strict=False):
            if longest.get(label, sympy.Integer(1)) == 1:
                longest[label] = size
    kept_rows, kept_refs = [], []
    for row, ref in zip(rows, refs, strict=True):
        pairs = list(zip(row, lo.g.shape(ref), strict=True))
        stays = [(label, size) for label, size in pairs if size == longest[label]]
        kept_rows.append([label for label, _ in stays])
        kept_refs.append(lo.g.reshape(ref, [size for _, size in stays]) if len(stays) < len(pairs) else ref)
    return lo.g.contract(kept_rows, out, kept_refs)


@operation("scaled_dot_product_attention", words="attention")
def _attention(
    lo: Lowering, query: Cell, key: Cell, value: Cell, attn_mask: Cell | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Cell:  # fmt: skip
    if dropout_p > 0:
        lo.g.refuse(
            f"dropout of {dropout_p} is active in this attention, and the result is random",
            hint="pass dropout_p=self.dropout if self.training else 0.0, and call .eval() on the module",
        )
    q, k, v = lo.ref(query), lo.ref(key), lo.ref(value)
    if not enable_gqa:
        lead = lo.g.broadcast_shapes([lo.g.shape(one)[:-2] for one in (q, k, v)])
        q, k, v = (lo.g.broadcast(one, [*lead, *lo.g.shape(one)[-2:]]) for one in (q, k, v))
    exact = sympy.Float(scale) if isinstance(scale, float) else scale
    mask = None if attn_mask is None else lo.ref(attn_mask)
    return Cell(lo.g.attention(q, k, v, mask, bool(is_causal), exact, enable_gqa))


@operation("conv1d", "conv2d", words="contract, for a kernel of size 1")
def _conv(
    lo: Lowering, input: Cell, weight: Cell, bias: Cell | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Cell:  # fmt: skip
    kernel = lo.shape(weight)[2:]
    plain = {*np.ravel(stride), *np.ravel(dilation), groups} == {1} and padding not in ("same",) and not np.any(padding)
    if any(n != 1 for n in kernel) or not plain:
        lo.g.refuse("a convolution is understood with a kernel of size 1, stride 1, and no padding or groups")
    matrix = lo.g.reshape(lo.ref(weight), lo.shape(weight)[:2])
    rest = [f"place{n}" for n in range(len(kernel))]
    made = Cell(lo.g.contract([["b", "in", *rest], ["out", "in"]], ["b", "out", *rest], [lo.ref(input), matrix]))
    if bias is None:
        return made
    return lo.map("add", made, Cell(lo.g.reshape(lo.ref(bias), [*lo.shape(bias), *[1] * len(kernel)])))
