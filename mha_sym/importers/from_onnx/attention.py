"""ONNX's operator Attention, in opset 23 and later, as our own definition of scaled dot-product attention.

Fills `mha_sym.importers.from_onnx.ops.OPERATORS`; defines nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy

from mha_sym.importers.from_onnx.ops import Lowering, Value, operator
from mha_sym.importers.graph import Ref
from mha_sym.importers.sizes import quotient

Attributes = Mapping[str, Any]


@operator("Attention", words="scaled dot-product attention; heads split and joined where they lie in the features")
def _attention(
    lo: Lowering, attributes: Attributes, q: Value, k: Value, v: Value, mask: Value | None = None,
    past_key: Value | None = None, past_value: Value | None = None, lengths: Value | None = None,
) -> list[Ref]:  # fmt: skip
    """``softmax(scale q k^T + mask) v``; a boolean mask keeps, and causal counts from the first key of the past."""
    if lengths is not None:
        lo.g.refuse("an Attention with lengths of samples is not in the vocabulary", hint="give a boolean mask")
    heads, groups = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    flat = len(lo.shape(q)) == 3
    query, key, value = (
        _split(lo, lo.ref(one), count) if flat else lo.ref(one) for one, count in ((q, heads), (k, groups), (v, groups))
    )
    before = sympy.Integer(0)
    if past_key is not None and past_value is not None:
        before = lo.shape(past_key)[2]
        key, value = lo.g.concat([lo.ref(past_key), key], 2), lo.g.concat([lo.ref(past_value), value], 2)
    made = _attended(lo, attributes, (query, key, value), mask, before)
    if flat:
        made = lo.g.permute(made, (0, 2, 1, 3))
        batch, tokens, count, width = lo.g.shape(made)
        made = lo.g.reshape(made, (batch, tokens, sympy.expand(count * width)))
    return [made, key, value]


def _split(lo: Lowering, ref: Ref, heads: int | None) -> Ref:
    """``(batch, tokens, heads * width)`` as ``(batch, heads, tokens, width)``."""
    batch, tokens, features = lo.g.shape(ref)
    width = quotient(features, sympy.Integer(heads or 0))
    if width is None:
        lo.g.refuse(f"{features} features do not split into {heads} heads", got=f"shape {lo.g.shape(ref)}")
    return lo.g.permute(lo.g.reshape(ref, (batch, tokens, heads or 0, width)), (0, 2, 1, 3))


def _attended(
    lo: Lowering, attributes: Attributes, args: tuple[Ref, Ref, Ref], mask: Value | None, before: sympy.Expr
) -> Ref:
    query, key, value = args
    shapes = lo.g.shape(query), lo.g.shape(key)
    grouped = shapes[0][1] != shapes[1][1]
    scale = None
    if "scale" in attributes:
        scale = sympy.Float(float(attributes["scale"]), 17)
        lo.g.note(casts=(f"the scale to float32 at {lo.g.place}",))
    causal = bool(attributes.get("is_causal"))
    windows = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    softcap = float(attributes.get("softcap", 0.0))
    alone = mask is None and before == 0 and windows == (-1, -1) and not softcap
    if alone:
        return lo.g.attention(query, key, value, causal=causal, scale=scale, grouped=grouped)
    keep = _kept(lo, shapes[0][2], shapes[1][2], before, causal, windows)
    whole = _whole(lo, mask, keep)
    if not softcap:
        return lo.g.attention(query, key, value, mask=whole, scale=scale, grouped=grouped)
    if grouped:
        lo.g.refuse("an Attention with fewer key heads and softcap is not in the vocabulary")
    factor = 1 / sympy.sqrt(shapes[0][3]) if scale is None else scale
    scores = lo.g.map("mul", lo.g.matmul(query, lo.g.swap(key, -1, -2)), lo.g.size(factor))
    cap = lo.g.constant(np.float32(softcap))
    scores = lo.g.map("mul", lo.g.map("tanh", lo.g.map("div", scores, cap)), cap)
    if whole is not None and lo.g.dtype(whole) == "bool":
        scores = lo.g.map("where", whole, scores, lo.g.size(-sympy.oo))
    elif whole is not None:
        scores = lo.g.map("add", scores, whole)
    return lo.g.matmul(lo.g.softmax(scores, -1), value)


def _kept(
    lo: Lowering, queries: sympy.Expr, keys: sympy.Expr, before: sympy.Expr, causal: bool, windows: tuple[int, int]
) -> Ref | None:
    """Which key a query may see by its position, None if all of them."""
    b = lo.g
    left, right = windows
    bounds = [("le", 0)] * causal + [("ge", -left)] * (left >= 0) + [("le", right)] * (right >= 0)
    found: Ref | None = None
    for relation, offset in bounds:
        down = b.reshape(b.iota(queries), (queries, 1))
        shifted = sympy.expand(before + offset)
        down = down if shifted == 0 else b.map("add", down, b.size(shifted))
        one = b.map(relation, b.reshape(b.iota(keys), (1, keys)), down)
        found = one if found is None else b.map("and", found, one)
    return found


def _whole(lo: Lowering, mask: Value | None, keep: Ref | None) -> Ref | None:
    """Both masks as one: truth values that keep, or numbers to be added."""
    if mask is None or keep is None:
        return keep if mask is None else lo.ref(mask)
    given = lo.ref(mask)
    if lo.g.dtype(given) == "bool":
        return lo.g.map("and", keep, given)
    return lo.g.map("where", keep, given, lo.g.size(-sympy.oo))
