"""ONNX files as implementations: their weights found by shapes and a probe, and their graphs for proofs.

Defines `from_onnx`, `OnnxCall` and `onnx_graph`.  No code is run: a file is evaluated by the definitions of ONNX.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import sympy

from mha_sym.audit.cases import Case
from mha_sym.audit.frameworks.probe import Probed, found
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.statement import Statement
from mha_sym.errors import TargetProblem
from mha_sym.importers import graph as g
from mha_sym.importers.graph import Array
from mha_sym.importers.lifting.lift import Masked
from mha_sym.importers.sizes import same


@dataclass(frozen=True)
class OnnxCall:
    """A file as a function of its weights and of ``x (b,t,m)``.

    Attributes:
        graph: its graph.
        weights: the values of its weights.
        run: evaluates it.
        x: its input by the name in the file.
    """

    graph: g.Graph
    weights: Mapping[str, Array]
    run: Any
    x: str

    def __call__(self, weights: Mapping[str, Array], x: Array) -> Array:
        """The first output."""
        made: Array = self.run({**weights, self.x: x})["y"]
        return made


def is_onnx(target: str) -> bool:
    """Whether a target names an ONNX file, or a part of one.

    Example:
        >>> is_onnx("model.onnx"), is_onnx("model.onnx:h.0.attn"), is_onnx("model.py:f")
        (True, True, False)
    """
    return target.partition(".onnx")[2][:1] in ("", ":") and ".onnx" in target


def from_onnx(target: str, name: str = "") -> Implementation:
    """A file, or the part of it behind a colon, as an implementation.

    Args:
        target: ``model.onnx``, or ``model.onnx:h.0.attn`` for the nodes in a module.
        name: what reports call it.

    Raises:
        Problem: for a file that cannot be read, or of which no reading is attention.
    """
    try:
        from mha_sym.importers.from_onnx.model import from_file
    except ImportError as trouble:
        raise TargetProblem("onnx is not installed", hint="install mha_sym with the extra 'onnx'") from trouble
    file, _, at = target.partition(".onnx")
    made = from_file(f"{file}.onnx", at.removeprefix(":"))
    inputs = [one for one, node in made.graph.inputs().items() if one not in made.weights]
    if len(inputs) != 1 or len(made.graph.inputs()[inputs[0]].shape) != 3:
        raise TargetProblem(
            f"{target} does not take one input x (b, t, m)", got=", ".join(inputs) or "no inputs",
            expected="self-attention without masks from outside",
        )  # fmt: skip
    call = OnnxCall(made.graph, made.weights, made.run, inputs[0])
    width = made.graph.inputs()[inputs[0]].shape[2]
    widths = [int(width)] if width.is_Integer else [v.shape[0] for v in made.weights.values() if v.ndim > 1]
    hides = _compares_positions(made.graph)
    return found(Probed(call, made.weights, _heads(made.graph), tuple(widths), name or target, hides))


def _heads(graph: g.Graph) -> tuple[int, ...]:
    """Numbers that may be the number of heads: fixed sizes of arrays of four axes; one head comes last."""
    four = [node.shape for node in graph.nodes if len(node.shape) == 4]
    sizes = dict.fromkeys(int(size) for shape in four for size in shape[1:3] if size.is_Integer and size > 1)
    return (*sizes, 1)


def _compares_positions(graph: g.Graph) -> bool:
    """Whether keys are hidden by their positions, as far as that can be seen."""
    for node in graph.nodes:
        if isinstance(node.op, g.Attention) and node.op.causal:
            return True
        numbers = [graph.nodes[ref].dtype for ref in node.args]
        if node.op in (g.Map("le"), g.Map("lt"), g.Map("ge"), g.Map("gt")) and set(numbers) == {"int64"}:
            return len(node.shape) > 1
    return False


# ---------------------------------------------------------------- proofs


def onnx_graph(impl: Implementation, case: Case, statement: Statement) -> g.Graph:
    """The graph of a file, its inputs and sizes called like those of the statement.

    Raises:
        ImportProblem: if the file fixes a size that the statement leaves free.
    """
    call = impl.call
    assert isinstance(call, OnnxCall)
    nodes = list(call.graph.nodes)
    at: dict[sympy.Symbol, sympy.Expr] = {}
    for number, node in enumerate(nodes):
        if isinstance(node.op, g.Input):
            name = "x" if node.op.name == call.x else node.op.name
            nodes[number] = replace(node, op=replace(node.op, name=name))
            at |= dict(_matched(node, name, statement))
    made = tuple(_resized(node, at) for node in nodes)
    conditions = tuple(replace(one, relation=one.relation.subs(at)) for one in call.graph.notes.conditions)
    return replace(call.graph, nodes=made, notes=replace(call.graph.notes, conditions=conditions))


def _matched(node: g.Node, name: str, statement: Statement) -> Iterator[tuple[sympy.Symbol, sympy.Expr]]:
    """The symbols of the file that are sizes of an input, and what the statement calls these sizes."""
    one = statement.inputs.get(name)
    if one is None or isinstance(one, Masked):
        raise g.ImportProblem(f"the input {name} of the file has no meaning", where=str(node.place))
    for theirs, axis in zip(node.shape, one.axes, strict=True):
        if theirs.is_Symbol:
            yield theirs, axis.size
        elif not same(theirs, axis.size):
            raise g.ImportProblem(
                f"the file fixes axis {axis.name} of {name}: its size is {theirs}", where=str(node.place),
                expected="sizes that are left open", hint="export it with dynamic axes for batch and length",
            )  # fmt: skip


def _resized(node: g.Node, at: Mapping[sympy.Symbol, sympy.Expr]) -> g.Node:
    """A node with other sizes, in its shape and in what it does."""
    op = node.op
    if not isinstance(op, g.Constant):
        changed = {
            one.name: getattr(op, one.name).subs(at, simultaneous=True)
            for one in fields(op) if isinstance(getattr(op, one.name), sympy.Expr)
        }  # fmt: skip
        op = replace(op, **changed)
    return replace(node, op=op, shape=tuple(sympy.expand(s.subs(at, simultaneous=True)) for s in node.shape))
