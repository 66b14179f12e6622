"""Running an ONNX file by the definitions that the onnx package gives in NumPy, to validate its import.

Defines `runner`.  What runs is only what was imported, at sizes at which no array is large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import sympy
from onnx import TensorProto, helper, numpy_helper

from mha_sym.blame import guarded
from mha_sym.errors import TargetProblem
from mha_sym.importers.from_onnx.part import Part
from mha_sym.importers.graph import Array, Graph

#: entries of all arrays together
_ENTRIES = 1 << 26


def runner(
    model: onnx.ModelProto, part: Part, weights: Mapping[str, Array], graph: Graph, names: Mapping[str, str]
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """A function of the inputs of ``graph`` by name, which gives its outputs."""
    inputs = [one.name for one in part.inputs]

    def run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        from onnx.reference import ReferenceEvaluator  # it takes a while to load, and importing needs it not

        _refuse_large(graph, arrays)
        given = {name: np.asarray(arrays[name]) for name in (*inputs, *weights)}
        small = _doubled(model, part, [*inputs, *weights])
        made = guarded(lambda: ReferenceEvaluator(small).run(None, given), "running the file raised")
        return dict(zip(names, map(np.asarray, made), strict=True))

    return run


def _refuse_large(graph: Graph, arrays: Mapping[str, Array]) -> None:
    at: dict[sympy.Expr, int] = {}
    for name, node in graph.inputs().items():
        at |= {s: n for s, n in zip(node.shape, np.shape(arrays[name]), strict=True) if isinstance(s, sympy.Symbol)}
    if sum(int(sympy.Mul(*(s.subs(at) for s in node.shape))) for node in graph.nodes) > _ENTRIES:
        raise TargetProblem("the arrays of this file are too large to run it", hint="validate at smaller sizes")


def _doubled(model: onnx.ModelProto, part: Part, free: list[str]) -> onnx.ModelProto:
    """The part as a model whose weights are inputs and whose constants are float64."""
    used = {name for node in part.nodes for name in node.input} | set(part.outputs)
    constants = [one for one in model.graph.initializer if one.name in used and one.name not in free]
    plain = [
        numpy_helper.from_array(numpy_helper.to_array(one).astype(np.float64), one.name)
        if one.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16) else one for one in constants
    ]  # fmt: skip
    nodes = [_double(node) for node in part.nodes]
    inputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in free]
    outputs = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in part.outputs]
    graph = helper.make_graph(nodes, "part", inputs, outputs, plain)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _double(node: onnx.NodeProto) -> onnx.NodeProto:
    """A node with constants in float64, and casts to another precision as casts to float64."""
    if node.op_type not in ("Cast", "Constant", "ConstantOfShape"):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for one in copy.attribute:
        if one.name == "value" and one.t.data_type in (TensorProto.FLOAT, TensorProto.FLOAT16):
            one.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one.t).astype(np.float64)))
        elif one.name == "to" and one.i in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16):
            one.i = TensorProto.DOUBLE
        elif one.name == "value_float":
            one.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(np.array(one.f, np.float64))))
    return copy
