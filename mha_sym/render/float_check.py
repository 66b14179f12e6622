"""A claim once more in ordinary floating point: both sides run on arrays of random numbers, and how far they agree.

Defines `digits`.  It decides no theorem; it tells a reader that the formulas on the page are those that run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import numpy as np

from mha_sym.arrays import size_value
from mha_sym.errors import Problem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Input, Permute, inputs, walk
from mha_sym.plan import plan_of
from mha_sym.proof.theorem import Claim

#: agreement beyond this is not told apart: it is what rounding leaves
MOST = 12


def digits(claim: Claim, sizes: Mapping[str, int], seed: int = 0) -> int | None:
    """To how many digits of the largest entry the sides of a claim agree in float64, at most `MOST`.

    Args:
        claim: what is compared.
        sizes: numbers for all its sizes.
        seed: of the random numbers; every row of a Boolean input keeps a key.

    Returns:
        None if the sides cannot be run, such as for functions that are not known.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t", "T"),))
        >>> digits(Claim("twice", x + x, x * 2), {"T": 5}), digits(Claim("twice", x + x, x * 3), {"T": 5})
        (12, 0)
    """
    sides = [claim.left, claim.right]
    try:
        left, right = evaluate_all(
            sides, {node.name: _drawn(node, sizes, seed) for side in sides for node in inputs(side)},
            sizes={name: size for name, size in sizes.items() if name in plan_of(sides).sizes},
            permutations=_orders(sides, sizes, seed),
        )  # fmt: skip
    except Problem:
        return None
    order = [[axis.name for axis in claim.right.axes].index(axis.name) for axis in claim.left.axes]
    apart = float(np.max(np.abs(np.subtract(left, np.transpose(right, order)))))
    largest = float(np.max(np.abs(left)))
    return MOST if not apart else max(0, min(MOST, math.floor(-math.log10(apart / largest)))) if largest else 0


def _drawn(node: Input, sizes: Mapping[str, int], seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    rng = np.random.default_rng([seed, *node.name.encode()])
    shape = tuple(size_value(axis, sizes) for axis in node.over)
    if not node.boolean:
        return rng.normal(size=shape)
    kept = rng.random(shape) < 0.5
    kept[..., 0] = True
    return kept.astype(float)


def _orders(sides: list[Expr], sizes: Mapping[str, int], seed: int) -> dict[str, list[int]]:
    """An order for every permutation."""
    found = {node.perm.name: node.perm for side in sides for node in walk(side) if isinstance(node, Permute)}
    orders = {}
    for name, perm in found.items():
        size = size_value(perm.axis, sizes)
        orders[name] = random.Random(f"{seed}{name}").sample(range(size), size)
    return orders
