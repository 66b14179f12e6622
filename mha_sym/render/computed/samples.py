"""Numbers at which a theorem is tried: sizes that differ pairwise, and arrays, orders and masks that it allows.

Defines `Sample`, `samples`, which draws them, and `Sample.values`, which runs expressions on them through einops.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sympy

from mha_sym.arrays import size_value
from mha_sym.axes import Axis
from mha_sym.errors import DataProblem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Input, Map, Permute, Scalar
from mha_sym.plan import Plan, least_sizes, plan_of
from mha_sym.render.computed.term_values import Floats, opaque

#: the sizes in the order in which they get small numbers; at the second sample from the other end
ORDER = ("B", "h", "T", "d_model", "d_k", "S", "d_v")
#: how densely masks are drawn, until the assumptions hold; at the last, numbers are positive too
DENSITIES = (0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: the integers that are drawn
LEAST, MOST = -3, 3


@dataclass(frozen=True)
class Sample:
    """One set of sizes, with arrays twice: of integers, and of normal numbers.

    ``roots`` is what the roots of sizes, as far as they are taken, make of denominators.
    """

    sizes: Mapping[str, int]
    integers: Mapping[str, Any]
    normal: Mapping[str, Any]
    orders: Mapping[str, Sequence[int]]
    functions: frozenset[str]
    roots: int = 1

    def values(self, exprs: Sequence[Expr]) -> list[Any]:
        """What `mha_sym.evaluate` makes of some expressions and the normal numbers.

        Raises:
            DataProblem: if they have no values.
        """
        plan = plan_of(exprs)
        return evaluate_all(
            exprs, {name: self.normal[name] for name in plan.inputs},
            sizes={name: self.sizes[name] for name in plan.sizes}, permutations=self.orders,
            functions={name: partial(opaque, name, kind=Floats()) for name in self.functions}, masked_rows="zero",
        )  # fmt: skip


def samples(exprs: Sequence[Expr], assumed: Sequence[Expr], seed: str) -> list[Sample]:
    """Two samples for some expressions, or one if they have no size that is a symbol.

    Args:
        exprs: what will be computed.
        assumed: expressions that are to be positive.
        seed: of what is drawn.

    Raises:
        DataProblem: if no arrays are found for which the assumptions hold.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t", "T"), axis("m", "d_model")))
        >>> [one.sizes for one in samples([x], [], "seed")]
        [{'T': 2, 'd_model': 3}, {'d_model': 2, 'T': 3}]
    """
    plan = plan_of(exprs)
    assumed = [one for one in assumed if set(plan_of([one]).inputs) <= set(plan.inputs)]
    facts = _Facts.of([plan, *(plan_of([one]) for one in assumed)], exprs)
    found = [_sample(facts, assumed, sizes, f"{seed}{n}") for n, sizes in enumerate(_sizes(facts))]
    return found if found[0].sizes else found[:1]


# ---------------------------------------------------------------- sizes


@dataclass(frozen=True)
class _Facts:
    """What is drawn for: inputs, permutations and functions by name, and how small every size may be.

    ``axes`` are those of all values, one for each size, and ``powers`` the roots that are taken of sizes.
    """

    inputs: Mapping[str, Input]
    orders: Mapping[str, Axis]
    functions: frozenset[str]
    least: Mapping[str, int]
    axes: tuple[Axis, ...]
    powers: Mapping[str, int]

    @staticmethod
    def of(plans: Sequence[Plan], exprs: Sequence[Expr]) -> _Facts:
        """Gathered from the plans of what is computed."""
        nodes = [node for plan in plans for node in plan.nodes]
        orders = {node.perm.name: node.perm.axis for node in nodes if isinstance(node, Permute)}
        least = {name: 2 for plan in plans for name in plan.sizes}
        least |= {name: max(2, n) for name, n in least_sizes(exprs).items()}
        for axis in orders.values():
            if axis.size.is_Symbol:  # on two a permutation is its own inverse
                least[axis.size.name] = max(least[axis.size.name], 3)
        return _Facts(
            {name: node for plan in plans for name, node in plan.inputs.items()}, orders,
            frozenset(node.op[3:] for node in nodes if isinstance(node, Map) and node.op.startswith("fn:")), least,
            tuple({axis.size: axis for node in nodes for axis in node.axes}.values()), _powers(nodes),
        )  # fmt: skip


def _sizes(facts: _Facts) -> Iterator[dict[str, int]]:
    """Two assignments, not the same, in which no two axes of different sizes have equally many positions."""
    names = sorted(facts.least, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    sizes: dict[str, int] = {}
    for turn, order in enumerate((names, names[::-1])):
        before = sizes
        for more in range(8):
            sizes = _assigned(order, {n: facts.least[n] + more for n in names}, facts.powers, 2 + turn)
            values = [size_value(axis, sizes) for axis in facts.axes]
            if len(set(values)) == len(values) and sizes != before:
                break
        yield sizes


def _assigned(names: Sequence[str], least: Mapping[str, int], powers: Mapping[str, int], base: int) -> dict[str, int]:
    """The smallest numbers not taken, in order; sizes of which a root is taken first, so that it comes out even."""
    sizes: dict[str, int] = {}
    for name in sorted(names, key=lambda n: n not in powers):
        number = base if name in powers else least[name]
        while (size := number ** powers.get(name, 1)) in sizes.values() or size < least[name]:
            number += 1
        sizes[name] = size
    return {name: sizes[name] for name in names}


def _powers(nodes: Sequence[Expr]) -> dict[str, int]:
    """The roots that are taken of sizes."""
    found: dict[str, int] = {}
    for node in nodes:
        for power in node.value.atoms(sympy.Pow) if isinstance(node, Scalar) else ():
            if power.base.is_Symbol and power.exp.is_Rational and not power.exp.is_Integer:
                found[power.base.name] = math.lcm(found.get(power.base.name, 1), int(power.exp.q))
    return found


# ---------------------------------------------------------------- draws


def _sample(facts: _Facts, assumed: Sequence[Expr], sizes: Mapping[str, int], seed: str) -> Sample:
    drawn, rng = random.Random(seed), np.random.default_rng(list(seed.encode()))
    taken = {name: _order(size_value(axis, sizes), drawn) for name, axis in sorted(facts.orders.items())}
    roots = math.prod(math.isqrt(sizes[name]) for name in facts.powers)
    for density in DENSITIES:
        integers, normal = {}, {}
        for name, node in sorted(facts.inputs.items()):
            integers[name], normal[name] = _arrays(node, sizes, rng, density)
        sample = Sample(sizes, integers, normal, taken, facts.functions, roots)
        if not assumed or all((one > 0).all() for one in sample.values(assumed)):
            return sample
    raise DataProblem("no numbers were found for which the assumptions hold")


def _arrays(node: Input, sizes: Mapping[str, int], rng: np.random.Generator, density: float) -> tuple[Any, Any]:
    """Integers and normal numbers; the same zeros and ones twice for a mask."""
    shape, positive = tuple(size_value(axis, sizes) for axis in node.over), density == DENSITIES[-1]
    if node.boolean:
        kept = np.asarray(rng.random(shape) < density)
        return kept.astype(np.int64), kept.astype(float)
    integers = np.asarray(rng.integers(1 if positive else LEAST, MOST + 1, shape))
    normal = np.asarray(rng.normal(size=shape))
    return integers, np.abs(normal) if positive else normal


def _order(size: int, drawn: random.Random) -> list[int]:
    """An order of some positions, not its own inverse if there are three or more of them."""
    order = list(range(size))
    while size > 2 and all(order[order[n]] == n for n in range(size)):
        drawn.shuffle(order)
    return order if size != 2 else [1, 0]
