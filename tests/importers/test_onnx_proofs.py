"""ONNX files proved to be multi-head attention for every batch and length, or refuted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from mha_sym.audit.frameworks.onnx_files import from_onnx
from mha_sym.audit.proving.code import CodeProof, prove_code
from mha_sym.audit.target import load
from mha_sym.errors import Problem
from mha_sym.proof.theorem import Verdict

RNG = np.random.default_rng(3)

#: heads of width 6 in a fused projection with biases, a causal mask, an output projection
LAYER = """
<ir_version: 10, opset_import: ["" : 18]>
mha (float[batch,seq,24] hidden) => (float[batch,seq,24] out)
<float[24,72] w_qkv, float[72] b_qkv, float[24,24] w_o>
{
  zero = Constant<value_int=0>()
  one = Constant<value_int=1>()
  first = Constant<value_ints=[0]>()
  flat = MatMul(hidden, w_qkv)
  qkv = Add(flat, b_qkv)
  q0, k0, v0 = Split<axis=-1, num_outputs=3>(qkv)
  heads = Constant<value_ints=[0,0,4,6]>()
  q1 = Reshape(q0, heads)
  k1 = Reshape(k0, heads)
  v1 = Reshape(v0, heads)
  q = Transpose<perm=[0,2,1,3]>(q1)
  k = Transpose<perm=[0,2,3,1]>(k1)
  v = Transpose<perm=[0,2,1,3]>(v1)
  raw = MatMul(q, k)
  factor = Constant<value_float=0.40824830532073975>()
  scores = Mul(raw, factor)
  shape = Shape(hidden)
  seq = Gather(shape, one)
  places = Range(zero, seq, one)
  row = Unsqueeze(places, first)
  last = Constant<value_ints=[1]>()
  column = Unsqueeze(places, last)
  keep = LessOrEqual(row, column)
  low = Constant<value_float=-3.0e38>()
  masked = Where(keep, scores, low)
  weights = Softmax<axis=-1>(masked)
  z = MatMul(weights, v)
  back = Transpose<perm=[0,2,1,3]>(z)
  together = Constant<value_ints=[0,0,24]>()
  c = Reshape(back, together)
  out = MatMul(c, w_o)
}
"""

#: one node for all of attention, weights without a meaning in their names, as exporters leave them
OPERATOR = """
<ir_version: 10, opset_import: ["" : 24]>
mha (float[B,T,24] x) => (float[B,T,24] y)
<float[24,24] val_1, float[24,24] val_2, float[24,24] val_3, float[24,24] val_4>
{
  q = MatMul(x, val_1)
  k = MatMul(x, val_2)
  v = MatMul(x, val_3)
  z = Attention<q_num_heads=3, kv_num_heads=3, is_causal=1>(q, k, v)
  y = MatMul(z, val_4)
}
"""


PERCEPTRON = """
<ir_version: 10, opset_import: ["" : 18]>
two (float[B,T,24] x) => (float[B,T,24] y) <float[24,24] val_1, float[24,24] val_2>
{ a = MatMul(x, val_1) b = Tanh(a) y = MatMul(b, val_2) }
"""


def saved(folder: Path, text: str) -> str:
    made = parser.parse_model(text)
    weights: dict[str, Any] = {"w_qkv": (24, 72), "b_qkv": (72,), "w_o": (24, 24)}
    if "val_1" in text:
        weights = {f"val_{n}": (24, 24) for n in range(1, 5) if f"val_{n}" in text}
    for name, shape in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(RNG.normal(size=shape).astype(np.float32), name))
    onnx.save(made, folder / "layer.onnx")
    return str(folder / "layer.onnx")


def proof(folder: Path, text: str) -> CodeProof:
    return prove_code(from_onnx(saved(folder, text)))


@pytest.mark.parametrize(("text", "heads", "width"), [(LAYER, 4, 6), (OPERATOR, 3, 8)])
def test_a_file_is_proved_for_every_batch_and_length(tmp_path: Path, text: str, heads: int, width: int) -> None:
    started = time.process_time()
    found = proof(tmp_path, text)
    assert found.verdict is Verdict.PROVED and found.symbolic == ("B", "T")
    assert found.fixed == {"d_k": width, "d_model": 24, "d_v": width, "h": heads}
    assert time.process_time() - started < 5.0


def test_what_was_found_of_a_file_is_said(tmp_path: Path) -> None:
    impl = load(saved(tmp_path, OPERATOR))
    assert (impl.how_stored.name, impl.heads, impl.causal) == ("combined", 3, True)
    assert impl.notes[0] == "w_q is val_1, w_k is val_2, w_v is val_3, w_o is val_4"
    assert set(impl.said.values()) == {"found by shapes and a probe in numbers"}


WRONG = {
    "softmax over queries": LAYER.replace("Softmax<axis=-1>", "Softmax<axis=-2>"),
    "no transpose before the join": LAYER.replace("Transpose<perm=[0,2,1,3]>(z)", "Identity(z)")
    .replace("[0,0,24]", "[0,-1,24]"),
    "heads by a reshape that crosses": LAYER.replace("[0,0,4,6]", "[0,4,-1,6]")
    .replace("q = Transpose<perm=[0,2,1,3]>(q1)", "q = Identity(q1)")
    .replace("k = Transpose<perm=[0,2,3,1]>(k1)", "k = Transpose<perm=[0,1,3,2]>(k1)")
    .replace("v = Transpose<perm=[0,2,1,3]>(v1)", "v = Identity(v1)"),
    "another scale": LAYER.replace("0.40824830532073975", "0.408"),
}  # fmt: skip


#: the first stage that each of them does not compute
WHERE = {
    "softmax over queries": "weights", "no transpose before the join": "c", "heads by a reshape that crosses": "q",
    "another scale": "weights",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refuted(tmp_path: Path, name: str) -> None:
    impl = from_onnx(saved(tmp_path, WRONG[name]))
    assert set(impl.said.values()) == {"the names of its weights"} and impl.causal
    found = prove_code(impl)
    assert found.verdict is Verdict.REFUTED and found.cases[0].departure is not None
    assert found.cases[0].departure.first == WHERE[name]


def test_a_scale_that_is_missing_is_found_and_named(tmp_path: Path) -> None:
    impl = from_onnx(saved(tmp_path, LAYER.replace("Mul(raw, factor)", "Identity(raw)")))
    assert impl.scale == 1 and prove_code(impl).verdict is Verdict.PROVED


def test_a_file_with_fixed_sizes_is_refused_with_what_to_do(tmp_path: Path) -> None:
    found = proof(tmp_path, OPERATOR.replace("[B,T,24] x", "[B,5,24] x"))
    assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    assert found.problem.what == "the file fixes axis t of x: its size is 5" and "dynamic axes" in found.problem.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OPERATOR.replace("x) =>", "x, float[B,T,24] more) =>").replace("v = MatMul(x,", "v = MatMul(more,"),
         "does not take one input"),
        (PERCEPTRON, "not found to be attention"),
    ],
)  # fmt: skip
def test_what_is_no_attention_is_one_problem(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(Problem, match=words):
        from_onnx(saved(tmp_path, text))
