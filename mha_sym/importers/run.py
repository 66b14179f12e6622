"""Running a graph on NumPy arrays: what it must agree with is the user's own code.

Defines `run`, and `constant_value` for folding.  This shares nothing with the proof: it is how an import is validated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy

from mha_sym.importers import graph as g
from mha_sym.importers.graph import Array

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "neg": np.negative, "exp": np.exp,
    "sqrt": np.sqrt, "pow": np.power, "log": np.log, "abs": np.abs, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "min": np.minimum, "max": np.maximum, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "not": np.logical_not, "and": np.logical_and, "or": np.logical_or,
    "where": np.where, "isneginf": np.isneginf, "float": lambda x: x,
    "trunc": lambda x: np.trunc(x).astype(np.int64),
}  # fmt: skip


def run(graph: g.Graph, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    """The outputs on arrays, in float64.

    Args:
        graph: the graph.
        arrays: a value for every input, by name.
        sizes: the sizes, by the name of their symbol.

    Example:
        >>> from mha_sym.importers.builder import Builder
        >>> b = Builder()
        >>> x = b.input("x", (2,))
        >>> run(b.graph(y=b.softmax(x, 0)), {"x": np.zeros(2)}, {})["y"].tolist()
        [0.5, 0.5]
    """
    work = Runner(arrays, sizes)
    values: dict[int, Array] = {}
    last = {ref: n for n, node in enumerate(graph.nodes) for ref in node.args}
    with np.errstate(all="ignore"):  # what the code itself would do: infinities are how masks are written
        for number, node in enumerate(graph.nodes):
            values[number] = work.node(node, [values[ref] for ref in node.args])
            for ref in set(node.args) - set(graph.outputs.values()):
                if last[ref] == number:
                    del values[ref]
    return {name: values[ref] for name, ref in graph.outputs.items()}


def value_of(nodes: Sequence[g.Node], sizes: Mapping[str, int]) -> Array:
    """The last of some values that depend on no input.

    Example:
        >>> from mha_sym.importers.builder import Builder
        >>> b = Builder()
        >>> row = b.iota(sympy.Symbol("T", integer=True, positive=True))
        >>> value_of(b.nodes, {"T": 3}).tolist()
        [0, 1, 2]
    """
    return run(g.Graph(tuple(nodes), {"last": len(nodes) - 1}), {}, sizes)["last"]


def constant_value(node: g.Node, args: list[Array]) -> Array:
    """The value of a node without sizes whose arguments are known."""
    with np.errstate(all="ignore"):
        return Runner({}, {}).node(node, args)


class Runner:
    """The values of nodes on arrays, at some sizes."""

    def __init__(self, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        self.arrays = arrays
        self.sizes = {sympy.Symbol(name, integer=True, positive=True): value for name, value in sizes.items()}

    def number(self, value: sympy.Expr) -> float:
        """A number made of sizes."""
        return float(value.subs(self.sizes))

    def shape(self, node: g.Node) -> tuple[int, ...]:
        """The shape of a node at these sizes."""
        return tuple(int(s.subs(self.sizes)) for s in node.shape)

    def node(self, node: g.Node, args: list[Array]) -> Array:
        """The value of one node."""
        match node.op:
            case g.Input(name, _):
                return np.asarray(self.arrays[name])
            case g.Constant(value):
                return value
            case g.Given():
                return args[0]
            case g.SizeValue(value):
                return np.asarray(self.number(value))
            case g.Iota():
                return np.arange(self.shape(node)[0])
            case g.Map("float"):
                return args[0].astype(node.dtype if np.dtype(node.dtype).kind != "f" else np.float64)
            case g.Map(f):
                return np.asarray(_FUNCTIONS[f](*(a.astype(float) if f in ("pow", "sub", "neg") else a for a in args)))
            case g.Contract(labels, out):
                return _contract(args, labels, out)
            case g.Reduce("sum", axes):
                return np.asarray(args[0].sum(axis=axes))
            case g.Reduce(_, axes):
                return np.asarray(args[0].max(axis=axes))
            case _:
                return self.moved(node, args)

    def moved(self, node: g.Node, args: list[Array]) -> Array:
        """The operations on axes, and the named definitions."""
        match node.op:
            case g.Reshape():
                return args[0].reshape(self.shape(node))
            case g.Permute(order):
                return args[0].transpose(order)
            case g.Broadcast():
                return np.broadcast_to(args[0], self.shape(node))
            case g.Slice(axis, start, length):
                first = int(start.subs(self.sizes))
                cut = slice(first, first + int(length.subs(self.sizes)))
                return args[0][(slice(None),) * axis + (cut,)]
            case g.Concat(axis):
                return np.concatenate(args, axis=axis)
            case g.Gather(axis, positions):
                return np.take(args[0], positions, axis=axis)
            case g.Take(axis):
                return np.take(args[0], args[1].astype(np.int64), axis=axis)
            case g.Softmax(axis):
                return _softmax(args[0], axis)
            case g.Attention():
                return _attention(node.op, args, self.number(node.op.scale))
        raise TypeError(type(node.op).__name__)


def _contract(args: list[Array], labels: tuple[tuple[int, ...], ...], out: tuple[int, ...]) -> Array:
    interleaved: list[Any] = []
    for arg, row in zip(args, labels, strict=True):
        interleaved += [arg.astype(float), list(row)]
    return np.asarray(np.einsum(*interleaved, list(out), optimize=len(args) > 2))


def _softmax(x: Array, axis: int) -> Array:
    top = x.max(axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def _attention(op: g.Attention, args: list[Array], scale: float) -> Array:
    q, k, v = args[:3]
    if op.grouped:
        copies = q.shape[-3] // k.shape[-3]
        k, v = (np.repeat(one, copies, axis=-3) for one in (k, v))
    scores = q @ k.swapaxes(-1, -2) * scale
    if op.causal:
        keep = np.arange(scores.shape[-1])[None, :] <= np.arange(scores.shape[-2])[:, None]
        scores = np.where(keep, scores, -np.inf)
    if len(args) > 3:
        scores = np.where(args[3], scores, -np.inf) if args[3].dtype == bool else scores + args[3]
    return np.asarray(_softmax(scores, -1) @ v)
