"""The public way of torch to the same graphs: what ``torch.export`` records, read with the same table, is the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import sympy
import torch
from torch import nn
from torch.export import Dim, export
from torch.export.graph_signature import InputKind

from mha_sym.importers.fold import fold
from mha_sym.importers.from_torch.code import array_of
from mha_sym.importers.from_torch.module import Call, Tensor, from_module, weights_of
from mha_sym.importers.from_torch.ops import lowered
from mha_sym.importers.from_torch.trace import Trace
from mha_sym.importers.graph import Graph
from tests.importers import torch_modules as zoo
from tests.importers.test_torch import HINTS, B, S, T, tensor

ROLES = {InputKind.PARAMETER: "param", InputKind.BUFFER: "buffer", InputKind.USER_INPUT: "user"}


def exported(module: nn.Module, inputs: tuple[Tensor, ...], **named: Any) -> Graph:
    """The graph of what torch exports with batch and lengths left open."""
    found = _export(module, inputs, named)
    tensors = {node.name: node.meta["val"] for node in found.graph.nodes if node.op == "placeholder"}
    specs = [one for one in found.graph_signature.input_specs if isinstance(tensors[one.arg.name], torch.Tensor)]
    users = iter(inputs)
    names, symbols = [], {}
    for one in specs:
        given = None if one.target else next(users)
        names.append(one.target or given.name)
        for ours, theirs in zip(given.shape if given else (), tensors[one.arg.name].shape, strict=False):
            if isinstance(theirs, torch.SymInt):
                symbols[theirs.node._expr] = ours
    held = {**found.state_dict, **found.constants}
    free = weights_of(module)
    values = {n: array_of(held[n]) for n in names if n in held and n not in free}
    for node in found.graph.nodes:  # numbers and None that were given by name
        if node.op == "placeholder" and not isinstance(tensors[node.name], torch.Tensor):
            found.graph.erase_node(node)
    returned = found.graph.find_nodes(op="output")[0].args[0]
    outputs = tuple(f"y{n}" if n else "y" for n, one in enumerate(returned) if isinstance(one, torch.fx.Node))
    roles = {name: ROLES.get(one.kind, "buffer") for name, one in zip(names, specs, strict=True)}
    return lowered(Trace(found.graph, {}, tuple(names), (), (), symbols, outputs), HINTS, roles, values)


def _export(module: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Any]) -> Any:
    """Sample inputs are objects of their own, and no size of them is 1."""
    dims = {B: Dim("B", min=2), T: Dim("T", min=2, max=15), S: Dim("S", min=2, max=15)}
    samples = []
    for one in inputs:
        numbers = [int(sympy.sympify(n).subs(HINTS)) for n in one.shape]
        samples.append(torch.ones(numbers, dtype=torch.bool if one.dtype == "bool" else torch.float64))
    shapes = [{place: dims[n] for place, n in enumerate(one.shape) if n in dims} for one in inputs]
    words = module.forward.__code__.co_varnames[1 : 1 + len(inputs)]
    dynamic = {**dict(zip(words, shapes, strict=True)), **dict.fromkeys(named)}
    with torch.no_grad(), torch.backends.opt_einsum.flags(enabled=False):
        return export(copy.deepcopy(module).double(), tuple(samples), named, dynamic_shapes=dynamic)


def rows(graph: Graph) -> list[Any]:
    """What a graph does, apart from places."""
    return [(str(one.op), one.args, one.shape) for one in fold(graph).nodes]


@pytest.mark.parametrize("name", zoo.RIGHT)
def test_export_gives_the_same_graph(name: str) -> None:
    module, more = zoo.RIGHT[name]
    inputs = (Tensor("x", (B, T, zoo.M)), *(tensor(key, shape) for key, shape in more.items()))
    ours = from_module(module, Call(inputs), HINTS, name).graph
    assert rows(exported(module, inputs)) == rows(ours)


@pytest.mark.parametrize("need_weights", [True, False])
def test_export_of_torchs_own_layer_gives_the_same_graph(need_weights: bool) -> None:
    layer = nn.MultiheadAttention(24, 4, batch_first=True)
    inputs = tuple(Tensor(n, (B, size, 24)) for n, size in zip("qkv", (T, S, S), strict=True))
    ours = from_module(layer, Call(inputs, {"need_weights": need_weights}), HINTS).graph
    assert rows(exported(layer, inputs, need_weights=need_weights)) == rows(ours)
