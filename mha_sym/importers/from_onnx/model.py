"""An ONNX file as a graph, for all sizes that it leaves open and all values of its weights.

Defines `from_file` and `Imported`.  No code is run and no runtime is used.  Importing this file imports onnx.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import sympy

from mha_sym.axes import size_symbol
from mha_sym.errors import Problem, TargetProblem
from mha_sym.importers.from_onnx import attention as onnx_attention  # they fill the table
from mha_sym.importers.from_onnx import axes as onnx_axes  # they fill the table
from mha_sym.importers.from_onnx import sizes as onnx_sizes  # they fill the table
from mha_sym.importers.from_onnx.file import Limits, Source, array_of, read_model
from mha_sym.importers.from_onnx.ops import OPERATORS as OPERATORS
from mha_sym.importers.from_onnx.ops import Lowering, Value, dtype_of
from mha_sym.importers.from_onnx.part import Part, part_of
from mha_sym.importers.from_onnx.run import runner
from mha_sym.importers.graph import Array, Graph, Place
from mha_sym.importers.size_text import read_size

TABLES = (onnx_attention, onnx_axes, onnx_sizes)


@dataclass(frozen=True)
class Imported:
    """An ONNX file as a graph.

    Attributes:
        graph: its inputs are those of the file, and its weights, under the names in the file.
        weights: the values of the weights.
        run: the file by the definitions of ONNX in NumPy, in float64: takes every input of the graph by name.
    """

    graph: Graph
    weights: Mapping[str, Array]
    run: Callable[[Mapping[str, Array]], dict[str, Array]]


def from_file(
    path: str | os.PathLike[str], at: str = "", external: bool = False, limits: Limits | None = None
) -> Imported:
    """The graph in an ONNX file.

    Args:
        path: the file.
        at: the part of it that is wanted, by the names of modules that its exporter noted: ``h.0.attn``.
        external: whether tensors may be read from other files in its folder.
        limits: how much it may hold.

    Raises:
        TargetProblem: for a file that is damaged, too large, of another opset, or has its data elsewhere.
        ImportProblem: for an operator outside of the vocabulary.
    """
    bounds = limits or Limits()
    model = read_model(path, bounds)
    return from_model(model, Source(os.fspath(path), external, bounds), at)


def from_model(model: onnx.ModelProto, source: Source, at: str = "") -> Imported:
    """The graph in a model that was read."""
    part = part_of(model, at, source.path)
    lo = Lowering(source)
    lo.g.place = Place(source.path)
    for one in part.inputs:
        lo.made[one.name] = Value(_input(lo, one))
    weights = _initializers(lo, model, part)
    for node in part.nodes:
        lo.node(node)
    lo.g.place = Place(source.path)
    names = {"y" if n == 0 else f"y{n}": name for n, name in enumerate(part.outputs)}
    outputs = {}
    for word, name in names.items():
        value = lo.value(name)
        if value is None:
            lo.g.refuse("an output of the file has no name")
        outputs[word] = lo.ref(value)
    graph = lo.g.graph(**outputs)
    return Imported(graph, weights, runner(model, part, weights, graph, names))


def _input(lo: Lowering, one: onnx.ValueInfoProto) -> int:
    tensor = one.type.tensor_type
    if not one.type.HasField("tensor_type") or not tensor.HasField("shape"):
        lo.g.refuse(f"the input {one.name} has no shape", expected="tensors with shapes")
    try:
        dtype = dtype_of(tensor.elem_type)
        kind: str = np.dtype(dtype).kind
    except (KeyError, TypeError, ValueError):
        kind = ""
    if kind not in ("b", "i", "u", "f"):
        lo.g.refuse(f"the input {one.name} is no array of numbers")
    sizes = [_size(lo, one.name, n, dim) for n, dim in enumerate(tensor.shape.dim)]
    return lo.g.input(one.name, sizes, dtype)


def _size(lo: Lowering, name: str, number: int, dim: onnx.TensorShapeProto.Dimension) -> sympy.Expr:
    """A size: a number, an expression of names, or a symbol of its own where the file says nothing."""
    if dim.HasField("dim_value"):
        if dim.dim_value < 1:
            lo.g.refuse(f"the input {name} has an axis of size {dim.dim_value}", expected="sizes of at least 1")
        return sympy.Integer(dim.dim_value)
    text = dim.dim_param.strip()
    if not text:
        return size_symbol(f"{_word(name)}_{number}")
    try:
        return read_size(text)
    except Problem:
        lo.g.note(readings=(f"the size {text[:60]!r} of the input {name} read as a symbol of its own",))
        return size_symbol(_word(text[:60]))


def _word(text: str) -> str:
    return "n_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in text)


def _initializers(lo: Lowering, model: onnx.ModelProto, part: Part) -> dict[str, Array]:
    """The tensors that are used: floats of many values are weights of any value, all others are constants."""
    used = {name for node in part.nodes for name in node.input} | set(part.outputs)
    weights = {}
    for tensor in model.graph.initializer:
        if tensor.name not in used:
            continue
        array = array_of(tensor, lo.source)
        if array.dtype.kind != "f" or array.size == 1 or _two_valued(array):
            lo.made[tensor.name] = lo.array(array)
        else:
            weights[tensor.name] = array
            lo.made[tensor.name] = Value(lo.g.input(tensor.name, array.shape, str(array.dtype), "param"))
    return weights


def _two_valued(array: Array) -> bool:
    """Whether a table has at most two values, as a mask has."""
    if not array.size:
        raise TargetProblem("a tensor of the file has no entries", got=str(array.shape))
    low, high = array.min(), array.max()
    return bool(((array == low) | (array == high)).all())
