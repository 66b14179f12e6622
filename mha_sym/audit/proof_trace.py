"""Where refuted code departs from the specification: the first stage that it does not compute, and the user's line.

Defines `departure`.  A proof or a counterexample decides that the code is wrong; this only helps to find where, by
looking in numbers for each stage among all values of the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, takewhile

import numpy as np

from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.proof_import import Import, graph_arguments
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import specification
from mha_sym.importers import graph as g
from mha_sym.importers.graph import Array
from mha_sym.importers.run import run

#: operations that only move entries
_MOVES = (g.Reshape, g.Permute, g.Broadcast, g.Slice, g.Concat, g.Gather)


@dataclass(frozen=True)
class Departure:
    """The stages that the code computes, the first that it does not, and the line after the last right one."""

    right: tuple[str, ...]
    first: str
    place: g.Place


def departure(impl: Implementation, case: Case, found: Import, setting: Setting) -> Departure | None:
    """Where the code departs, None if it computes every stage."""
    expected = specification(impl, case).values(setting.arrays, setting.sizes)
    everything = g.Graph(found.graph.nodes, {str(n): n for n in range(len(found.graph.nodes))})
    values = run(everything, graph_arguments(impl, found.graph, setting), setting.sizes)
    floats = {int(n): value for n, value in values.items() if value.size > 1 and value.dtype.kind == "f"}
    where = {stage: [n for n, one in floats.items() if _same(one, expected[stage])] for stage in STAGES}
    missing = [stage for stage in STAGES if not where[stage]]
    if not missing:
        return None
    right = tuple(takewhile(where.__getitem__, STAGES))
    last = max((where[stage][-1] for stage in right), default=-1)
    return Departure(right, missing[0], _after(found.graph, last))


def _same(value: Array, wanted: Array) -> bool:
    """Whether an array is a stage but for the order of its axes, batch and heads in one axis, and a positive factor."""
    if value.ndim == 3 and wanted.ndim == 4 and value.shape[0] == wanted.shape[0] * wanted.shape[1]:
        value = value.reshape(wanted.shape[0], wanted.shape[1], *value.shape[1:])
    if sorted(value.shape) != sorted(wanted.shape):
        return False
    orders = permutations(range(value.ndim))
    fitting = (value.transpose(order) for order in orders if tuple(value.shape[n] for n in order) == wanted.shape)
    return any(_proportional(one, wanted) for one in fitting)


def _proportional(one: Array, other: Array) -> bool:
    finite = np.isfinite(one) & np.isfinite(other)
    norms = [float(np.linalg.norm(array[finite])) for array in (one, other)]
    if not all(norms):
        return False
    return bool(np.allclose(one[finite] / norms[0], other[finite] / norms[1], rtol=1e-9, atol=1e-12))


def _after(graph: g.Graph, ref: int) -> g.Place:
    """The place of the first computation with a value, or with what is only a rearrangement of it."""
    if ref < 0:
        return next((n.place for n in graph.nodes if isinstance(n.op, g.Contract)), g.Place())
    same = {ref}
    for number, node in enumerate(graph.nodes):
        if same & set(node.args):
            if not isinstance(node.op, _MOVES):
                return node.place
            same.add(number)
    return graph.nodes[ref].place
