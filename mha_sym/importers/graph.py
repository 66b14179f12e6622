"""The graph that every front end makes of a user's code: few array operations, symbolic sizes, a place for each value.

Defines the operations, `Node`, and `Graph` with its `Notes`.  Graphs are made by `mha_sym.importers.builder`, which
checks what each operation needs.  Nothing here knows a framework, and nothing here says what a graph means as an
expression: that is `mha_sym.importers.lifting.lift`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import sympy

from mha_sym.errors import Problem

Role = Literal["user", "param", "buffer"]
Dtype: TypeAlias = str
Shape: TypeAlias = tuple[sympy.Expr, ...]
Array: TypeAlias = np.ndarray[Any, Any]
#: a value of the graph under construction: its number
Ref: TypeAlias = int


class ImportProblem(Problem):
    """Code that cannot be imported as an expression, with the place in the user's source."""


class Unfollowed(ImportProblem):
    """Code that cannot be read as a graph whatever the sizes are, as it uses what is outside of the vocabulary."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the user's source a value is made: file, line (0 if not known), and what is written there.

    ``callers`` are the user's lines from which that one was called, the nearest first, where they are known.
    """

    file: str = ""
    line: int = 0
    what: str = ""
    callers: tuple[Place, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}, {self.what}" if where and self.what else where or self.what


# ---------------------------------------------------------------- operations


@dataclass(frozen=True, slots=True)
class Input:
    """An array from outside: ``user`` input, ``param`` (any weights), or ``buffer`` (any values, too)."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A constant array of numbers."""

    value: Array


@dataclass(frozen=True, slots=True)
class SizeValue:
    """An exact number made of sizes, such as ``1/sqrt(d_k)``, as a value without axes."""

    value: sympy.Expr


@dataclass(frozen=True, slots=True)
class Iota:
    """``0, 1, ..., n - 1``."""


@dataclass(frozen=True, slots=True)
class Map:
    """A scalar function of `SCALAR` entry by entry; all arguments have the shape of the result, or none."""

    f: str


@dataclass(frozen=True, slots=True)
class Contract:
    """Sum of products over the labels that the result lacks, as in einsum; a label occurs once in an argument."""

    labels: tuple[tuple[int, ...], ...]
    out: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """``sum`` or ``max`` over axes, which are gone afterwards."""

    op: Literal["sum", "max"]
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """Row-major reshape to the shape of the node."""


@dataclass(frozen=True, slots=True)
class Permute:
    """Axis ``n`` of the result is axis ``order[n]`` of the argument."""

    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Copies: new axes in front, and axes of size 1 made as long as in the shape of the node."""


@dataclass(frozen=True, slots=True)
class Slice:
    """``length`` positions of an axis from ``start``."""

    axis: int
    start: sympy.Expr
    length: sympy.Expr


@dataclass(frozen=True, slots=True)
class Concat:
    """Arguments end to end along an axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Gather:
    """The listed positions of an axis, in the order of the list."""

    axis: int
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """The positions of an axis that a second argument lists; its axes stand where the axis was.

    ``whole`` says that it lists all of them, and that the table is no table in the code.
    """

    axis: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """Its argument in numbers, and an arbitrary array of this name in the proof: what holds for any holds for it."""

    name: str


@dataclass(frozen=True, slots=True)
class Softmax:
    """``exp(x) / sum exp(x)`` along an axis."""

    axis: int


@dataclass(frozen=True, slots=True)
class Attention:
    """``softmax(scale q k^T + mask) v`` on ``(..., tokens, features)``: arguments q, k, v and perhaps a mask.

    ``causal`` keeps key s for query t where s <= t, counted from the first of each.  ``grouped``: the axis before the
    tokens has fewer keys and values, each read by adjacent heads.  A boolean mask keeps, a float mask is added.
    A ``scale`` that is a SymPy float is a literal that is still to be read as an exact number.
    """

    scale: sympy.Expr
    causal: bool = False
    grouped: bool = False


Op: TypeAlias = (
    Input | Constant | SizeValue | Iota | Map | Contract | Reduce | Reshape | Permute | Broadcast | Slice | Concat
    | Gather | Take | Given | Softmax | Attention
)  # fmt: skip

#: scalar functions and their number of arguments
SCALAR: dict[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "neg": 1, "exp": 1, "sqrt": 1, "pow": 2, "log": 1, "abs": 1, "sin": 1,
    "cos": 1, "tanh": 1, "min": 2, "max": 2, "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2, "not": 1, "and": 2,
    "or": 2, "where": 3, "isneginf": 1, "float": 1, "trunc": 1,
}  # fmt: skip
#: those whose result is true or false
TRUTHS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "not", "and", "or", "isneginf"})


@dataclass(frozen=True, slots=True)
class Node:
    """One value: how it is made, of which other values, its shape and dtype, and where."""

    op: Op
    args: tuple[Ref, ...]
    shape: Shape
    dtype: Dtype
    place: Place


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of the sizes for the graph to be what the code does, e.g. ``T <= 64`` or ``B != 1``."""

    relation: Any
    place: Place = Place()

    def __str__(self) -> str:
        signs = {"Ne": "!=", "Eq": "=", "Le": "<=", "Lt": "<", "Ge": ">=", "Gt": ">"}
        sign = next((s for n, s in signs.items() if isinstance(self.relation, getattr(sympy, n))), "")
        return f"{self.relation.lhs} {sign} {self.relation.rhs}" if sign else str(self.relation)


@dataclass(frozen=True)
class Notes:
    """What an import took for granted or left out, for the report.

    Attributes:
        casts: changes of precision, which are nothing over the real numbers.
        readings: numbers and constants that were identified, such as ``0.5 read as 1/sqrt(4)``.
        assumed: sentences that the proof assumes, such as that a fill of -1e9 acts as minus infinity.
        conditions: what must hold of the sizes.
    """

    casts: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def plus(self, **more: Sequence[Any]) -> Notes:
        """The same with further entries, each once."""
        return replace(self, **{
            name: tuple(dict.fromkeys((*getattr(self, name), *found))) for name, found in more.items()
        })  # fmt: skip


@dataclass(frozen=True)
class Graph:
    """Values, each after those it is made of, the outputs by name, and what was noted on the way."""

    nodes: tuple[Node, ...]
    outputs: dict[str, Ref]
    notes: Notes = Notes()

    def inputs(self) -> dict[str, Node]:
        """The inputs by name."""
        return {node.op.name: node for node in self.nodes if isinstance(node.op, Input)}
