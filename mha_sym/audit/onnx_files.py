"""ONNX files as implementations: their weights found by shapes and a probe, and their graphs for proofs.

Defines `from_onnx`, `OnnxCall` and `onnx_graph`.  No code is run: a file is evaluated by the definitions of ONNX.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import sympy

from mha_sym.attention.layouts import LAYOUTS
from mha_sym.audit.cases import Case
from mha_sym.audit.dump_file import Stored
from mha_sym.audit.dump_settings import DumpSettings
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proof_statement import Statement
from mha_sym.audit.readings import Reading, Seen, fits, matching, read, without_equals
from mha_sym.audit.torch_found import _exact, _letter, _namings
from mha_sym.errors import Problem, TargetProblem
from mha_sym.importers import graph as g
from mha_sym.importers.graph import Array
from mha_sym.importers.lift import Masked

#: batch, length
_RUN_AT = ((2, 5), (3, 7))
#: the names of an input that is the input of self-attention
_FOUND = "found by shapes and a probe in numbers"


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
        from mha_sym.importers.onnx_model import from_file
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
    runs = [_run(call, seed, *sizes) for seed, sizes in enumerate(_RUN_AT)]
    for heads in _heads(made.graph):
        for names in _namings({one: value.shape for one, value in made.weights.items()}):
            readings = _readings(runs, names, heads, target)
            if readings:
                return _implementation(call, heads, names, readings, name or target)
    supposed = _supposed(call, name or target)
    if supposed is not None:
        return supposed
    raise TargetProblem(
        f"{target} is not found to be attention under any layout of its weights",
        got=", ".join(f"{one} {value.shape}" for one, value in made.weights.items()),
        hint="load it in Python, and describe it with Implementation(call=..., layout=..., names=...)",
    )  # fmt: skip


def _heads(graph: g.Graph) -> list[int]:
    """Numbers that may be the number of heads: fixed sizes of arrays of four axes; one head comes last."""
    four = [node.shape for node in graph.nodes if len(node.shape) == 4]
    found = dict.fromkeys(int(size) for shape in four for size in shape[1:3] if size.is_Integer and size > 1)
    return [*found, 1]


def _run(call: OnnxCall, seed: int, batch: int, length: int) -> tuple[dict[str, Array], Array, Array]:
    """Random weights, an input, and what the file gives."""
    rng = np.random.default_rng(seed)
    weights = {n: rng.normal(size=v.shape) / np.sqrt(v.shape[0]) for n, v in call.weights.items()}
    shape = [
        int(size) if size.is_Integer else number
        for size, number in zip(call.graph.inputs()[call.x].shape, (batch, length, 0), strict=True)
    ]
    if not shape[2]:
        shape[2] = max((v.shape[0] for v in weights.values() if v.ndim > 1), default=1)
    x = rng.normal(size=shape)
    return weights, x, call(weights, x)


def _readings(
    runs: Sequence[tuple[dict[str, Array], Array, Array]], names: Mapping[str, str], heads: int, title: str
) -> list[Reading]:
    """The readings under these names that reproduce both outputs."""
    seen = []
    for weights, x, y in runs:
        arrays = {ours: Stored(weights[theirs], "float64") for ours, theirs in names.items()}
        arrays |= {"x": Stored(x, "float64"), "y": Stored(np.asarray(y, float), "float64")}
        seen.append(Seen(arrays, DumpSettings(heads=heads, dtype="float32"), title))
    try:
        fitting = [reading for reading, _, ok in matching(seen[0]) if ok]
    except Problem:  # no layout has these names and shapes
        return []
    return list(without_equals([one for one in fitting if fits(read(seen[1], one))], seen[0]))


def _supposed(call: OnnxCall, title: str) -> Implementation | None:
    """What the names say, where no reading gives what the file gives: it may be wrong, and then it is shown."""
    letters = sorted(_letter(name) or "" for name, value in call.weights.items() if value.ndim > 1)
    layout = {("k", "o", "q", "v"): "combined", ("o", "qkv"): "packed"}.get(tuple(letters))
    names = next(_namings({one: value.shape for one, value in call.weights.items()}), None)
    if layout is None or names is None:
        return None
    reading = Reading(LAYOUTS[layout], causal="top-left" if _compares_positions(call.graph) else "")
    made = _implementation(call, _heads(call.graph)[0], names, [reading], title)
    note = "its layout is what the names say; under no layout that fits it gives what the specification gives"
    return replace(made, notes=(*made.notes, note), said=dict.fromkeys(made.said, "the names of its weights"))


def _compares_positions(graph: g.Graph) -> bool:
    """Whether keys are hidden by their positions, as far as that can be seen."""
    for node in graph.nodes:
        if isinstance(node.op, g.Attention) and node.op.causal:
            return True
        numbers = [graph.nodes[ref].dtype for ref in node.args]
        if node.op in (g.Map("le"), g.Map("lt"), g.Map("ge"), g.Map("gt")) and set(numbers) == {"int64"}:
            return len(node.shape) > 1
    return False


def _implementation(
    call: OnnxCall, heads: int, names: Mapping[str, str], readings: Sequence[Reading], title: str
) -> Implementation:
    one = readings[0]
    others = "; ".join(str(other) for other in readings[1:])
    matched = ", ".join(f"{ours} is {theirs}" for ours, theirs in names.items() if ours != theirs)
    return Implementation(
        call=call, heads=heads, layout=one.layout, takes=("weights", "x"), weights=call.weights,
        names={ours: theirs for ours, theirs in names.items() if ours != theirs},
        scale=None if one.scale == "1/sqrt(d_k)" else _exact(one.scale), causal=bool(one.causal),
        batch_first=one.batch_first, name=title,
        said=dict.fromkeys(("layout", "heads", "scale", "mask", "batch_first"), _FOUND),
        notes=tuple(n for n in (matched, f"these would do as well: {others}" if others else "") if n),
    )  # fmt: skip


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
        elif theirs.is_Integer and not axis.size.is_Integer:
            raise g.ImportProblem(
                f"the file fixes {axis.size} = {theirs}", where=str(node.place), expected="sizes that are left open",
                hint="export it with dynamic axes for batch and length",
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
