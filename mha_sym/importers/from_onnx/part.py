"""Which nodes of an ONNX file are imported: what the outputs need, or the part under one scope.

Defines `Part` and `part_of`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from mha_sym.errors import TargetProblem

_FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}


@dataclass(frozen=True)
class Part:
    """Nodes in their order, and the values that come in and go out.

    Attributes:
        nodes: what is imported.
        inputs: values that come from outside, with their types.
        outputs: names of values that go out.
    """

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[onnx.ValueInfoProto, ...]
    outputs: tuple[str, ...]


def part_of(model: onnx.ModelProto, at: str, path: str) -> Part:
    """The whole graph, or the nodes under the scope ``at``, such as ``h.0.attn``; nothing that is of no effect.

    A float that comes into a scope from outside is an input; whole numbers and truth values are computed as in the
    file.

    Raises:
        TargetProblem: if no node is under the scope, or if the shape of a value that comes in is not in the file.
    """
    graph = model.graph
    fixed = {one.name for one in graph.initializer}
    types = {one.name: one for one in (*graph.value_info, *graph.input, *graph.output)}
    given = {one.name for one in graph.input} - fixed
    if not at:
        outputs = tuple(one.name for one in graph.output)
        return _needed(graph, outputs, {name: types[name] for name in given})
    inside = [n for n, node in enumerate(graph.node) if _is_under(node, at)]
    if not inside:
        raise _nowhere(graph, at, path)
    outputs = tuple(_leaving(graph, set(inside)))
    entering = {name: types[name] for name in given}
    made = {name: n for n, node in enumerate(graph.node) for name in node.output}
    for n in inside:
        for name in graph.node[n].input:
            if name in made and made[name] not in inside and _is_float(types.get(name)):
                entering[name] = types[name]
            elif name in made and made[name] not in inside and name not in types and not _computable(graph, made, name):
                raise TargetProblem(
                    f"the shape of {name!r}, which goes into {at}, is not in the file", where=path,
                    hint="write the shapes into it with onnx.shape_inference, or export the attention alone",
                )  # fmt: skip
    return _needed(graph, outputs, entering)


def _is_float(type_of: onnx.ValueInfoProto | None) -> bool:
    return type_of is not None and type_of.type.tensor_type.elem_type in _FLOATS


def _computable(graph: onnx.GraphProto, made: Mapping[str, int], name: str) -> bool:
    return graph.node[made[name]].op_type in ("Shape", "Constant", "Concat", "Gather", "Unsqueeze", "Range", "Slice")


def _needed(graph: onnx.GraphProto, outputs: tuple[str, ...], entering: Mapping[str, onnx.ValueInfoProto]) -> Part:
    """What the outputs are made of, back to what comes in."""
    made = {name: n for n, node in enumerate(graph.node) for name in node.output if name}
    waiting, nodes, used = list(outputs), set[int](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in entering:
            used.add(name)
        elif name in made and made[name] not in nodes:
            nodes.add(made[name])
            waiting += [one for one in graph.node[made[name]].input if one]
    kept = tuple(entering[name] for name in entering if name in used)
    return Part(tuple(graph.node[n] for n in sorted(nodes)), kept, outputs)


def _leaving(graph: onnx.GraphProto, inside: set[int]) -> Iterator[str]:
    """Values made inside that are used outside, or nowhere."""
    outer = {name for n, node in enumerate(graph.node) if n not in inside for name in node.input}
    outer |= {one.name for one in graph.output}
    for n in sorted(inside):
        yield from (name for name in graph.node[n].output if name in outer)


# ---------------------------------------------------------------- scopes


def _is_under(node: onnx.NodeProto, at: str) -> bool:
    return any(scope == at or scope.startswith(f"{at}.") for scope in scopes(node))


def scopes(node: onnx.NodeProto) -> tuple[str, ...]:
    """The modules that a node was made in, as its exporter noted them: ``h.0``, ``h.0.attn``."""
    for one in node.metadata_props:
        if one.key == "pkg.torch.onnx.name_scopes":
            return tuple(word.strip(" '\"") for word in one.value.strip("[]").split(",")[:-1] if word.strip(" '\""))
    path = node.name.strip("/").split("/")[:-1]
    return (".".join(path),) if path else ()


def _nowhere(graph: onnx.GraphProto, at: str, path: str) -> TargetProblem:
    known = sorted({scope for node in graph.node for scope in scopes(node)})
    near = difflib.get_close_matches(at, known, 1) or [one for one in known if "att" in one.lower()][:1]
    return TargetProblem(
        f"no node of the file is in {at!r}", where=path, expected=", ".join(known[:6]) or "names with scopes",
        hint=f"did you mean {near[0]}?" if near else "export the attention alone",
    )  # fmt: skip
