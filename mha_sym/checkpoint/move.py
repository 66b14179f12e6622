"""Expressions that only move entries, run on arrays of any format bit for bit.

Defines `moved`.  It is the evaluation of `mha_sym.evaluate` on unsigned integers; whatever would compute with them is
refused, so that NaN, infinities and the last bit of every number come out as they went in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mha_sym.backends import Backend
from mha_sym.checkpoint.tensor import Array
from mha_sym.compute import Run
from mha_sym.errors import Problem
from mha_sym.expr import Block, Blocks, Expr, Input, Join, Rename, Repeat, Scalar, Select, Split, Transpose
from mha_sym.plan import plan_of

#: what moves entries, or copies them, and what stands for no entry: a zero
_MOVES = (Input, Split, Join, Transpose, Rename, Repeat, Block, Blocks, Select)


def moved(expr: Expr, arrays: Mapping[str, Array], sizes: Mapping[str, int], dtype: np.dtype[Any]) -> Array:
    """The value of an expression that moves entries.

    Args:
        expr: the expression.
        arrays: its inputs by name, as unsigned integers.
        sizes: all sizes by symbol.
        dtype: the integers that the result is to have, for an expression without inputs.

    Raises:
        Problem: if the expression computes.

    Example:
        >>> from mha_sym.axes import axis
        >>> w = Input("W", (axis("m"), axis("k")))
        >>> bits = np.array([[1, 2, 3], [4, 5, 6]], np.uint16)
        >>> moved(Transpose(w, w.axes[::-1]), {"W": bits}, {"m": 2, "k": 3}, bits.dtype)
        array([[1, 4],
               [2, 5],
               [3, 6]], dtype=uint16)
    """
    plan = plan_of([expr])
    for node in plan.nodes:
        if not isinstance(node, _MOVES) and not (isinstance(node, Scalar) and node.value == 0):
            raise Problem(f"a conversion moves entries, and {node.where} computes with them")
    run = Run(
        backend=Backend(dtype), sizes=sizes, arrays=arrays, permutations={}, functions={},
        masked_rows="refuse", plan=plan,
    )  # fmt: skip
    found: Array = run.take(expr, {}).array
    return found
