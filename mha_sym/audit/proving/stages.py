"""Proving code in two steps: queries, keys and values are those of the specification; with any such, so is the rest.

Defines `in_stages`.  Which values of the code are its queries, keys and values is guessed in numbers; that they are is
proved, and then arbitrary arrays stand in their place on both sides.  A product of sums is never multiplied out where
both sides have the same sums.  It may prove and nothing else: what is refuted is refuted as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from einops import rearrange as reordered

from mha_sym.attention.forms import Stages
from mha_sym.attention.rotary import Angles
from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.precision import Array
from mha_sym.audit.proving.claims import against_specification, together
from mha_sym.audit.proving.imported import Import, graph_arguments
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem
from mha_sym.expr import Expr, Input, Named, walk
from mha_sym.importers import graph as g
from mha_sym.importers.fold import pruned
from mha_sym.importers.lifting.lift import Lift
from mha_sym.importers.run import run
from mha_sym.pattern import rearrange
from mha_sym.proof.theorem import Outcome, Verdict

#: how code may have queries, keys and values, by stage
_ORDERS = {
    stage: (f"b {token} (h {feature})", f"{token} b (h {feature})", f"b {token} h {feature}", f"b h {token} {feature}")
    for stage, token, feature in (("q", "t", "k"), ("k", "s", "k"), ("v", "s", "v"))
}


@dataclass(frozen=True)
class _Cut:
    """A value of the code that is queries, keys or values: the stage, the node, and the order of its axes."""

    stage: str
    node: int
    order: str


def in_stages(
    impl: Implementation, case: Case, found: Import, setting: Setting, lifted: Callable[[Import], Lift]
) -> list[Outcome] | None:
    """What is proved of queries, keys, values and each output; None if anything is not.

    Args:
        impl: the implementation.
        case: the way of calling.
        found: the import, its graph folded.
        setting: a draw on which graph and code agree.
        lifted: gives the outputs of an import as expressions.
    """
    try:
        return _proved(impl, found, tuple(_cuts(impl, case, found, setting)), lifted)
    except Problem:  # what is done with heads of any kind may be no expression, and then the whole is looked at
        return None


def _proved(
    impl: Implementation, found: Import, cuts: tuple[_Cut, ...], lifted: Callable[[Import], Lift]
) -> list[Outcome] | None:
    """What is proved on both sides of the cuts, if all is."""
    if len(cuts) < len(_ORDERS):
        return None
    ordered = replace(impl, axes={**impl.axes, **{cut.stage: cut.order for cut in cuts}})
    outcomes = list[Outcome]()
    for code, part in ((ordered, _before(found, cuts)), (impl, _after(found, cuts))):
        made = against_specification(code, part.statement, lifted(part))
        if together(made) is not Verdict.PROVED:
            return None
        outcomes += [one for one in made if one.steps or not outcomes]  # heads that are shown were proved before
    return outcomes


def _before(found: Import, cuts: tuple[_Cut, ...]) -> Import:
    """The import as far as queries, keys and values."""
    graph = replace(found.graph, outputs={cut.stage: cut.node for cut in cuts})
    stages = replace(found.statement.stages, **_heads(found.statement.stages))
    return replace(found, graph=pruned(graph), statement=replace(found.statement, stages=stages))


def _after(found: Import, cuts: tuple[_Cut, ...]) -> Import:
    """The import from queries, keys and values on, which are arbitrary arrays."""
    heads, inputs = _heads(found.statement.stages), dict(found.statement.inputs)
    nodes, arbitrary = list(found.graph.nodes), dict[str, Input]()
    for cut in cuts:
        stage = heads[cut.stage]
        name = f"any_{stage.name}"
        arbitrary[stage.name] = Input(name, stage.axes)
        inputs[name] = _in_order(arbitrary[stage.name], cut.order)
        nodes[cut.node] = replace(nodes[cut.node], op=g.Input(name, "user"), args=())
    stages = _Standing(arbitrary).take(found.statement.stages)
    graph = replace(found.graph, nodes=tuple(nodes))
    return replace(
        found, graph=pruned(graph), statement=replace(found.statement, stages=stages, inputs=inputs)
    )  # fmt: skip


def _heads(stages: Stages) -> dict[str, Named]:
    """Queries, keys and values as they are before positions are turned into them."""
    named = {one.name: one for one in walk(stages.y) if isinstance(one, Named)}
    return {stage: named[stage.upper()] for stage in _ORDERS}


def _in_order(value: Input, order: str) -> Expr:
    """Queries, keys or values ``(b, heads, token, feature)`` with their axes as the code has them."""
    have = [one.name for one in value.axes]
    heads = " ".join(have[1:-2])
    wanted = re.sub(r"(?<!\()\bh\b", f"({heads})" if " " in heads else heads, order)  # alone they are one axis
    wanted = re.sub(r"\bh\b", heads, wanted)
    return rearrange(value, f"{' '.join(have)} -> {wanted}")


class _Standing:
    """Stages in which arbitrary arrays stand for some named values."""

    def __init__(self, arbitrary: Mapping[str, Input]) -> None:
        self.arbitrary = arbitrary
        self.done: dict[int, tuple[Any, Any]] = {}

    def take(self, value: Any) -> Any:
        """A value with what is named inside it replaced; a part that occurs twice is one object again."""
        if isinstance(value, tuple):
            return tuple(map(self.take, value))
        if not isinstance(value, Expr | Stages | Angles):
            return value
        if isinstance(value, Named) and value.name in self.arbitrary:
            return self.arbitrary[value.name]
        if id(value) not in self.done:
            parts = {one.name: self.take(getattr(value, one.name)) for one in fields(value) if one.init}
            self.done[id(value)] = (value, type(value)(**parts))  # the old one is kept so that its id stays its own
        return self.done[id(value)][1]


# ---------------------------------------------------------------- which values they are


def _cuts(impl: Implementation, case: Case, found: Import, setting: Setting) -> Iterator[_Cut]:
    """The first value of the code that is, in numbers, each of queries, keys and values."""
    spec = specification(impl, case)
    heads = replace(spec, stages=replace(spec.stages, **_heads(spec.stages)))
    wanted = heads.values(setting.arrays, setting.sizes)
    everything = replace(found.graph, outputs={str(n): n for n in range(len(found.graph.nodes))})
    values = run(everything, graph_arguments(impl, found.graph, setting), setting.sizes)
    for stage, orders in _ORDERS.items():
        array = _apart(impl, stage, wanted[stage], setting.sizes)
        looks = {order: reordered(array, f"{STAGES[stage]} -> {order}") for order in orders}
        for number, node in enumerate(found.graph.nodes):
            value = values[str(number)]
            order = next((order for order, look in looks.items() if _same(value, look)), None)
            if order is not None and not isinstance(node.op, g.Input):
                yield _Cut(stage, number, order)
                break


def _apart(impl: Implementation, stage: str, value: Array, sizes: Mapping[str, int]) -> Array:
    """Keys or values of every key and value head once, where query heads share them."""
    if not impl.how_stored.grouped or stage == "q":
        return value
    in_turn = "(r g" in impl.how_stored.row(f"w_{stage}").right
    return value[:, : sizes["G"]] if in_turn else value[:, :: sizes["R"]]


def _same(value: Array, look: Array) -> bool:
    return value.shape == look.shape and value.dtype.kind == "f" and bool(np.allclose(value, look, 1e-9, 1e-11))
