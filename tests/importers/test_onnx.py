"""ONNX files as graphs: what they compute at many sizes by ONNX's own definitions, and every operator of the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import sympy
from onnx import TensorProto, helper, numpy_helper, parser

from mha_sym.axes import size_symbol
from mha_sym.errors import Problem
from mha_sym.importers.from_onnx.file import Source
from mha_sym.importers.from_onnx.model import Imported, from_file, from_model
from mha_sym.importers.from_onnx.ops import OPERATORS
from mha_sym.importers.graph import Graph, ImportProblem
from mha_sym.importers.run import run

#: pairwise distinct sizes, and sizes of 1, alone and together
SIZES = ((2, 5, 7), (3, 4, 2), (1, 6, 3), (2, 1, 5), (4, 3, 1), (1, 1, 1))
RNG = np.random.default_rng(0)


def model(text: str, opset: int = 18, **weights: Any) -> onnx.ModelProto:
    """A model from ONNX's text format, whose header is added, with weights."""
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')
    for name, array in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


def imported(made: onnx.ModelProto, at: str = "") -> Imported:
    return from_model(made, Source("file.onnx"), at)


def arrays_of(found: Imported, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """The weights, and random inputs; a mask keeps the first key."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {name: value.astype(float) for name, value in found.weights.items()}
    at = {size_symbol(name): number for name, number in sizes.items()}
    for name, node in found.graph.inputs().items():
        if name not in arrays:
            shape = [int(s.subs(at)) for s in node.shape]
            arrays[name] = rng.normal(size=shape) if node.dtype != "bool" else rng.random(shape) < 0.6
            if node.dtype == "bool":
                arrays[name][..., 0] = True
    return arrays


def agree(found: Imported, close: float = 1e-11, sizes: Any = SIZES) -> None:
    """The graph gives what the file gives."""
    for number, (b, t, s) in enumerate(sizes):
        named = {"B": b, "T": t, "S": s}
        arrays = arrays_of(found, named, number)
        expected, got = found.run(arrays), run(found.graph, arrays, named)
        assert set(expected) == set(got)
        for name, one in expected.items():
            assert got[name].shape == one.shape
            np.testing.assert_allclose(got[name].astype(float), one.astype(float), rtol=close, atol=close)


def shape_of(graph: Graph) -> tuple[Any, ...]:
    return graph.nodes[graph.outputs["y"]].shape


# ---------------------------------------------------------------- attention

CAUSAL = """
mha (float[B,T,24] x) => (float[B,T,24] y)
<float[24,72] w_qkv, float[72] b_qkv, float[24,24] w_o>
{
  flat = MatMul(x, w_qkv)
  qkv = Add(flat, b_qkv)
  q0, k0, v0 = Split<axis=-1, num_outputs=3>(qkv)
  shape = Shape(x)
  zero = Constant<value_int=0>()
  one = Constant<value_int=1>()
  b = Gather(shape, zero)
  t = Gather(shape, one)
  first = Constant<value_ints=[0]>()
  b1 = Unsqueeze(b, first)
  t1 = Unsqueeze(t, first)
  four = Constant<value_ints=[4]>()
  rest = Constant<value_ints=[-1]>()
  target = Concat<axis=0>(b1, t1, four, rest)
  q1 = Reshape(q0, target)
  k1 = Reshape(k0, target)
  v1 = Reshape(v0, target)
  q = Transpose<perm=[0,2,1,3]>(q1)
  k = Transpose<perm=[0,2,3,1]>(k1)
  v = Transpose<perm=[0,2,1,3]>(v1)
  raw = MatMul(q, k)
  width = Shape<start=3>(q)
  exact = Cast<to=1>(width)
  root = Sqrt(exact)
  scores = Div(raw, root)
  square = Concat<axis=0>(t1, t1)
  ones = ConstantOfShape<value = float[1] {1.0}>(square)
  lower = Trilu<upper=0>(ones)
  nought = Constant<value_float=0.0>()
  hidden = Equal(lower, nought)
  low = Constant<value = float {-3.4e38}>()
  masked = Where(hidden, low, scores)
  weights = Softmax<axis=-1>(masked)
  z = MatMul(weights, v)
  back = Transpose<perm=[0,2,1,3]>(z)
  width_of_all = Constant<value_ints=[24]>()
  joined = Concat<axis=0>(b1, t1, width_of_all)
  c = Reshape(back, joined)
  y = MatMul(c, w_o)
}
"""


def weight(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def causal() -> onnx.ModelProto:
    return model(CAUSAL, w_qkv=weight(24, 72), b_qkv=weight(72), w_o=weight(24, 24))


def test_a_causal_layer_with_a_fused_projection_agrees(tmp_path: Path) -> None:
    onnx.save(causal(), tmp_path / "a.onnx")
    found = from_file(tmp_path / "a.onnx")
    agree(found)
    roles = {name: node.op.role for name, node in found.graph.inputs().items()}  # type: ignore[union-attr]
    assert roles == {"x": "user", "w_qkv": "param", "b_qkv": "param", "w_o": "param"}
    assert shape_of(found.graph) == (size_symbol("B"), size_symbol("T"), 24)
    assert not found.graph.notes.conditions


def test_the_root_of_a_size_that_the_file_computes_is_exact() -> None:
    text = """f (float[B,T,S] x) => (float[B,T,S] y) {
        shape = Shape<start=2>(x)  real = Cast<to=1>(shape)  root = Sqrt(real)  y = Div(x, root) }"""
    graph = imported(model(text)).graph
    values = [getattr(node.op, "value", None) for node in graph.nodes]
    assert sympy.sqrt(size_symbol("S")) in values


HEADS = """
f (float[B,T,24] q, float[B,S,{kv}] k, float[B,S,{kv}] v{inputs}) => (float[B,T,24] y) {{
   y = Attention<q_num_heads=6, kv_num_heads={heads}{attributes}>(q, k, v{args}) }}
"""
FOUR = """
f (float[B,6,T,4] q, float[B,{g},S,4] k, float[B,{g},S,5] v{inputs}) => (float[B,6,T,5] y) {{
   y = Attention{attributes}(q, k, v{args}) }}
"""


def heads(attributes: str = "", inputs: str = "", args: str = "", groups: int = 6) -> str:
    return HEADS.format(attributes=attributes, inputs=inputs, args=args, heads=groups, kv=4 * groups)


def four(attributes: str = "", inputs: str = "", args: str = "", groups: int = 6) -> str:
    return FOUR.format(attributes=attributes and f"<{attributes}>", inputs=inputs, args=args, g=groups)


PAST = ", float[B,6,3,4] pk, float[B,6,3,5] pv"
ATTENTION = {
    "three axes": heads(), "three axes, grouped": heads(groups=2), "one key head": heads(groups=1),
    "scale": heads(", scale=0.3"), "causal": heads(", is_causal=1"), "four axes": four(),
    "four axes, grouped and causal": four("is_causal=1", groups=3),
    "mask that keeps": four(inputs=", bool[T,S] m", args=", m"),
    "mask of each head": four(inputs=", bool[B,6,T,S] m", args=", m"),
    "mask that is added": four(inputs=", float[B,1,T,S] m", args=", m"),
    "both masks": four("is_causal=1", ", bool[T,S] m", ", m"),
    "causal and an added mask": four("is_causal=1", ", float[T,S] m", ", m"),
    "past": four(inputs=PAST, args=", , pk, pv"), "causal with a past": four("is_causal=1", PAST, ", , pk, pv"),
    "softcap": four("softcap=2.0, is_causal=1"),
    "softcap with masks": four("softcap=2.0", ", float[T,S] m", ", m"),
    "window": four("left_window_size=2, right_window_size=1"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTENTION)
def test_the_operator_attention_agrees_with_its_definition(name: str) -> None:
    found = imported(model(ATTENTION[name], 25))
    sizes = SIZES if name != "window" else ((2, 5, 5), (3, 4, 4), (1, 1, 1))  # no query without a key
    agree(found, 1e-6 if name == "scale" else 1e-11, sizes)  # the definition takes the root of the scale in float32


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_the_operator_is_the_same_in_each_opset_that_has_it(opset: int) -> None:
    agree(imported(model(heads(", is_causal=1"), opset)), sizes=SIZES[:2])


def test_heads_that_do_not_divide_are_one_problem() -> None:
    with pytest.raises(ImportProblem, match="do not split into 6 heads"):
        imported(model(heads().replace("24] q", "25] q"), 25))


# ---------------------------------------------------------------- the table

ROW = "f (float[B,T,6] x, float[B,T,6] z, bool[B,T,6] m) => (float[B,T,N] y) {"
ROWS = {
    "arithmetic": "a = Add(x, z) b = Sub(x, z) c = Mul(a, b) d = Neg(z) y = Div(c, d)",
    "functions": "a = Sin(x) b = Cos(z) c = Tanh(a) d = Abs(b) e = Exp(c) g = Sigmoid(d) y = Sum(c, d, e, g)",
    "roots": "a = Abs(x) b = Sqrt(a) c = Exp(z) d = Log(c) e = Reciprocal(c) y = Sum(b, d, e)",
    "powers":
        "p = Constant<value_float=2.0>() h = Constant<value_float=3.0>() a = Pow(x, p) b = Pow(z, h) "
        "y = Add(a, b)",
    "extremes":
        "l = Constant<value_float=-0.3>() h = Constant<value_float=0.4>() a = Clip(x, l, h) b = Max(x, z) "
        "c = Min(x, z, a) y = Sum(a, b, c)",
    "comparisons":
        "a = Less(x, z) b = LessOrEqual(x, z) c = Greater(x, z) d = GreaterOrEqual(x, z) e = Equal(x, z) "
        "k = And(a, b) i = Or(c, d) j = Xor(k, i) n = Not(e) o = And(j, n) y = Where(o, x, z)",
    "casts": "a = Cast<to=11>(m) b = CastLike(m, x) y = Sum(a, b, x)",
    "nothing": "a = Identity(x) b, bm = Dropout(a) y = Identity(b)",
    "not a number": "a = IsNaN(x) y = Where(a, z, x)",
    "sums":
        "l = Constant<value_ints=[-1]>() a = ReduceSum(x, l) b = ReduceMax(x, l) c = ReduceMin(x, l) "
        "d = ReduceMean(x, l) y = Sum(a, b, c, d)",
    "contraction": "a = Transpose<perm=[0,2,1]>(z) b = MatMul(x, a) y = Softmax(b)",
    "einsum": 'y = Einsum<equation="bti, bsi -> bts">(x, z)',
    "einsum with dots": 'y = Einsum<equation="...i,...i->...">(x, z)',
    "einsum without arrow": 'y = Einsum<equation="bti,bsi">(x, z)',
    "gemm":
        "k = Constant<value_ints=[0]>() h = Constant<value_float=0.7>() t = Gather<axis=0>(x, k) "
        "u = Squeeze(t, k) v = Gather<axis=0>(z, k) w = Squeeze(v, k) "
        "y = Gemm<alpha=0.5, beta=2.0, transB=1>(u, w, h)",
    "reshape": "s = Constant<value_ints=[0,-1,3]>() a = Reshape(x, s) y = Transpose(a)",
    "flatten": "y = Flatten<axis=2>(x)",
    "axes": "i = Constant<value_ints=[1]>() a = Unsqueeze(x, i) b = Squeeze(a, i) y = Add(b, z)",
    "expand":
        "k = Constant<value_ints=[0]>() two = Constant<value_ints=[2]>() s = Shape(x) a = Unsqueeze(x, k) "
        "l = Concat<axis=0>(two, s) b = Expand(a, l) y = ReduceSum(b, k)",
    "tile": "r = Constant<value_ints=[1,2,3]>() y = Tile(x, r)",
    "pieces":
        "a, b = Split<axis=2, num_outputs=2>(x) l = Constant<value_ints=[2,4]>() c, d = Split<axis=2>(z, l) "
        "y = Concat<axis=-1>(d, b, a, c)",
    "slices":
        "s = Constant<value_ints=[1]>() e = Constant<value_ints=[-1]>() a = Constant<value_ints=[2]>() "
        "y = Slice(x, s, e, a)",
    "steps":
        "s = Constant<value_ints=[5]>() e = Constant<value_ints=[-9223372036854775807]>() "
        "a = Constant<value_ints=[2]>() p = Constant<value_ints=[-2]>() y = Slice(x, s, e, a, p)",
    "to the end":
        "s = Constant<value_ints=[-2,0]>() "
        "e = Constant<value_ints=[9223372036854775807,9223372036854775807]>() "
        "a = Constant<value_ints=[-1,1]>() y = Slice(x, s, e, a)",
    "the last of them":
        "s = Shape<start=1, end=2>(x) n = Neg(s) e = Constant<value_ints=[9223372036854775807]>() "
        "a = Constant<value_ints=[1]>() t = Concat<axis=1>(x, z) y = Slice(t, n, e, a)",
    "positions":
        "i = Constant<value_ints=[4,-1,0]>() j = Constant<value_ints=[0,-1]>() a = Gather<axis=2>(x, i) "
        "y = Gather<axis=1>(a, j)",
    "position":
        "i = Constant<value_int=-2>() j = Constant<value_int=0>() a = Gather<axis=-1>(x, i) "
        "y = Gather<axis=1>(a, j)",
    "triangle": "k = Constant<value_int=-1>() a = Trilu(x) b = Trilu<upper=0>(z, k) y = Add(a, b)",
    "range":
        "k = Constant<value_ints=[0]>() w = Constant<value_ints=[1]>() o = Constant<value_int=0>() "
        "i = Constant<value_int=1>() s = Shape<start=1, end=2>(x) t = Squeeze(s, k) r = Range(o, t, i) "
        "a = Unsqueeze(r, w) c = Cast<to=1>(a) y = Mul(x, c)",
    "shape of nothing": "s = Shape(x) a = ConstantOfShape<value = float[1] {0.5}>(s) y = Add(a, x)",
    "numbers of sizes":
        "k = Constant<value_ints=[0]>() six = Constant<value_int=6>() four = Constant<value_int=4>() "
        "n = Size(x) s = Shape(x) p = ReduceProd<keepdims=0>(s) q = Div(n, p) r = Mod(six, four) "
        "o = Add(q, r) t = Unsqueeze(o, k) f = Cast<to=1>(t) y = Mul(x, f)",
    "a size less one":
        "k = Constant<value_ints=[0]>() w = Constant<value_ints=[1]>() l = Constant<value_ints=[2]>() "
        "s = Shape<start=2>(x) e = Sub(s, w) y = Slice(x, k, e, l)",
}  # fmt: skip


def row(name: str) -> onnx.ModelProto:
    return model(f"{ROW} {ROWS[name]} }}")


@pytest.mark.parametrize("name", ROWS)
def test_every_row_of_the_table_computes_what_onnx_computes(name: str) -> None:
    found = imported(row(name))
    agree(found, 1e-6 if name == "gemm" else 1e-11, SIZES[::2])


def test_every_operator_of_the_table_is_met_above() -> None:
    met = {node.op_type for name in ROWS for node in row(name).graph.node}
    assert set(OPERATORS) - met == {"Attention"}


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "s = Constant<value_ints=[0]>() e = Constant<value_ints=[3]>() a = Constant<value_ints=[1]>() "
            "y = Slice(x, s, e, a)", ["3 <= T"],
        ),
        ("y = Squeeze(x)", ["B != 1", "T != 1"]),
        ("s = Constant<value_ints=[-1,6]>() y = Reshape(x, s)", []),
    ],
)  # fmt: skip
def test_what_the_sizes_must_be_is_a_condition(text: str, expected: list[str]) -> None:
    found = imported(model(f"{ROW} {text} }}")).graph.notes.conditions
    assert sorted(map(str, found)) == expected


def test_sizes_of_the_file_are_read_and_named() -> None:
    made = model("f (float[2,4,6] x) => (float y) { y = Identity(x) }")
    dims = made.graph.input[0].type.tensor_type.shape.dim
    dims[0].dim_param, dims[1].dim_param = "4*B + 1", "batch size"
    dims[2].ClearField("dim_value")
    graph = imported(made).graph
    assert list(map(str, shape_of(graph))) == ["4*B + 1", "n_batch_size", "n_x_2"]
    assert "'batch size'" in graph.notes.readings[0]


def test_what_is_of_no_effect_is_no_matter() -> None:
    text = f"{ROW} bad = NonZero(x) other = Shape(bad) y = Add(x, z) }}"
    agree(imported(model(text)), sizes=SIZES[:1])


def test_tables_of_two_values_are_constants_and_all_others_are_weights() -> None:
    text = """f (float[B,T,6] x) => (float[B,T,6] y) <float[6,6] w, float[6,6] mask> {
        a = MatMul(x, w) y = MatMul(a, mask) }"""
    found = imported(model(text, w=weight(6, 6), mask=np.tril(np.ones((6, 6), np.float32))))
    assert list(found.weights) == ["w"]
    agree(found)


# ---------------------------------------------------------------- places and parts


def test_a_place_is_the_line_that_the_exporter_noted_or_the_node() -> None:
    made = model(f"{ROW} a = CumSum(x, k) k = Constant<value_int=1>() y = Add(a, z) }}")
    nodes = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend([nodes[1], nodes[0], nodes[2]])
    made.graph.node[1].name = "sum_1"
    with pytest.raises(ImportProblem) as caught:
        imported(made)
    assert caught.value.where == "file.onnx, CumSum sum_1" and "CumSum is not in the vocabulary" in caught.value.what
    trace = 'File "/home/me/attention.py", line 12, in forward\n    x = x.cumsum(1)\n'
    trace += 'File "/l/site-packages/t.py", line 3, in f\n    g()'
    made.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    with pytest.raises(ImportProblem) as caught:
        imported(made)
    assert caught.value.where == "/home/me/attention.py:12, x = x.cumsum(1)"


WHOLE = """
gpt (int64[B,T] ids) => (float[B,T,24] y)
<float[50,24] table, float[24] g, float[24] bias, float[24,24] w>
{
  x = Gather(table, ids)
  n = LayerNormalization(x, g, bias)
  shape = Shape(n)
  a = MatMul(n, w)
  heads = Constant<value_ints=[0,0,4,6]>()
  q = Reshape(a, heads)
  c = Reshape(q, shape)
  y = Add(x, c)
}
"""


def whole() -> onnx.ModelProto:
    made = model(WHOLE, table=weight(50, 24), g=weight(24), bias=weight(24), w=weight(24, 24))
    for node in made.graph.node:
        node.name = f"/h.0/attn/{node.op_type}" if node.output[0] in "a heads q c" else f"/h.0/{node.op_type}"
    return onnx.shape_inference.infer_shapes(made)


def test_a_whole_model_is_refused_with_the_way_to_its_part() -> None:
    with pytest.raises(ImportProblem) as caught:
        imported(whole())
    assert "model.onnx:h.0.attn" in caught.value.hint


def test_a_part_of_a_model_is_imported_by_its_scope() -> None:
    found = imported(whole(), "h.0.attn")
    assert list(found.graph.inputs()) == ["n", "w"] and list(map(str, shape_of(found.graph))) == ["B", "T", "24"]
    agree(found)


def test_scopes_are_read_from_what_torch_notes() -> None:
    made = whole()
    for node in made.graph.node:
        inner = "'h.0.attn', " if "/attn/" in node.name else ""
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['', 'h.0', {inner}'{node.op_type}']")
        node.name = ""
    agree(imported(made, "h.0.attn"), sizes=SIZES[:2])


@pytest.mark.parametrize(("at", "hint"), [("h.0.atn", "did you mean h.0.attn?"), ("decoder", "did you mean h.0.attn?")])
def test_a_part_that_is_not_there_is_refused_with_one_that_is(at: str, hint: str) -> None:
    with pytest.raises(Problem) as caught:
        imported(whole(), at)
    assert caught.value.hint == hint


def test_a_part_needs_the_shape_of_what_comes_in() -> None:
    made = whole()
    del made.graph.value_info[:]
    with pytest.raises(Problem, match="the shape of 'n'"):
        imported(made, "h.0.attn")


def test_helper_made_graphs_need_no_types_of_inner_values() -> None:
    nodes: list[Any] = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "T", 24])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(weight(24, 8), "w")])
    agree(imported(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])))
