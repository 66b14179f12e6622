"""Values that depend on no input, as exact numbers: cosines and sines of positions without rounding.

Defines `exact_value`.  It is for refuting in real balls, at a few positions; for anything more it is too slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy

from mha_sym.importers import graph as g
from mha_sym.importers.graph import Array, ImportProblem
from mha_sym.importers.run import Runner

_FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "neg": lambda a: -a, "pow": lambda a, b: a**b, "float": lambda a: a, "cos": sympy.cos, "sin": sympy.sin,
    "exp": sympy.exp, "log": sympy.log, "sqrt": sympy.sqrt,
}  # fmt: skip


def exact_value(nodes: tuple[g.Node, ...], sizes: Mapping[str, int]) -> Array:
    """The last of some values, as an array of SymPy numbers; floats are the fractions that they are.

    Raises:
        ImportProblem: for what has no exact value here.

    Example:
        >>> from mha_sym.importers.builder import Builder
        >>> b = Builder()
        >>> row = b.map("cos", b.map("mul", b.iota(3), b.constant(0.5)))
        >>> exact_value(tuple(b.nodes), {}).tolist()
        [1, cos(1/2), cos(1)]
    """
    work = _Exactly({}, sizes)
    values: list[Array] = []
    for node in nodes:
        values.append(_numbers(work.node(node, [values[n] for n in node.args])))
    return values[-1]


def _numbers(values: Array) -> Array:
    return values if values.dtype == object else np.asarray(np.frompyfunc(_number, 1, 1)(values), object)


def _number(value: Any) -> sympy.Expr:
    return sympy.Rational(*float(value).as_integer_ratio()) if isinstance(value, float) else sympy.Integer(int(value))


class _Exactly(Runner):
    """Exact numbers in NumPy's arrays of objects."""

    def node(self, node: g.Node, args: list[Array]) -> Array:
        """The value of one node."""
        match node.op:
            case g.SizeValue(value):
                made = value.subs(self.sizes)
                floats = {one: sympy.Rational(one) for one in made.atoms(sympy.Float)}
                return np.asarray(made.xreplace(floats), object)
            case g.Map(f):
                if f not in _FUNCTIONS:
                    raise ImportProblem(f"{f} has no exact value here", where=str(node.place))
                return np.asarray(np.frompyfunc(_FUNCTIONS[f], len(args), 1)(*args), object)
            case g.Contract(labels, out):
                interleaved = [part for pair in zip(args, map(list, labels), strict=True) for part in pair]
                return np.asarray(np.einsum(*interleaved, list(out)), object)
            case g.Reduce() | g.Softmax() | g.Attention():
                raise ImportProblem(f"{type(node.op).__name__} has no exact value here", where=str(node.place))
        return super().node(node, args)
