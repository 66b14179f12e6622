"""Where a faulty form departs from the correct one: both formulas and both axis traces, from the same expressions.

Defines `Departure` and `departures`.  Only the definitions that differ are shown, each in terms of the values before
it: ``Q[b,r,t,j] = ...`` beside ``Q[b,r,t,j] = ...``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from mha_sym.attention.forms import Stages
from mha_sym.errors import AxisProblem
from mha_sym.expr import Expr, Input, Named, walk
from mha_sym.graph import graph
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.terms import TermError

Script = Literal["unicode", "latex"]


@dataclass(frozen=True)
class Departure:
    """One definition in which two forms differ.

    Attributes:
        name: the value that is defined, such as ``Q``.
        right: its definition in the correct form, in terms of the values before it; None if it has none.
        faulty: its definition in the faulty form.
    """

    name: str
    right: Expr | None
    faulty: Expr

    def formulas(self, script: Script = "unicode") -> tuple[str, str]:
        """The correct formula and the faulty one, in index notation."""
        right = "" if self.right is None else formula(self.name, self.right, script)
        return right, formula(self.name, self.faulty, script)

    def traces(self, sizes: Mapping[str, int] | None = None) -> tuple[str, str]:
        """The axes on the way to the value, in the correct form and in the faulty one, as tables."""
        from mha_sym.render.trace_text import trace_table
        from mha_sym.trace import trace

        both = (self.right, self.faulty)
        right, faulty = ("" if one is None else trace_table(trace(one), sizes) for one in both)
        return right, faulty


def formula(name: str, expr: Expr, script: Script = "unicode") -> str:
    """``name[...] = ...``, the value of an expression at every position, in index notation.

    Example:
        >>> from mha_sym.axes import axis
        >>> x, w = Input("X", (axis("t"), axis("m"))), Input("W", (axis("m"), axis("c")))
        >>> from mha_sym.pattern import einsum
        >>> formula("Q", einsum("t m, m c -> t c", x, w))
        'Q[t,c] = Σ_m X[t,m] W[m,c]'
    """
    from mha_sym.render.breaks import plain
    from mha_sym.render.reading import tidy
    from mha_sym.render.scripts import Latex, Unicode

    try:
        goal = goals(Meaning(), name, Input(f"{name}", expr.axes), expr)[0]
        write = Latex() if script == "latex" else Unicode()
        left, right = (plain(write.term(tidy(side))) for side in (goal.left, goal.right))
    except (AxisProblem, TermError):  # a position in a concatenation whose block is not known
        return ""
    return f"{left} = {right}"


def departures(right: Stages, faulty: Stages) -> tuple[Departure, ...]:
    """The definitions of a faulty form that the correct one does not have, and that rest on none such.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, cross_inputs, dims
        >>> from mha_sym.attention.forms import combined
        >>> from mha_sym.audit.faults import find_fault
        >>> d = dims(S="S")
        >>> x, w = cross_inputs(d), combined_weights(d)
        >>> [one.name for one in departures(combined(d, x, w), find_fault("scale_missing").form(d, x, w))]
        ['S']
    """
    roots = tuple(right.items().values())
    known = len(graph(roots).vertices)
    both = graph((*roots, faulty.y))
    defined = {vertex.node.name: vertex.node for vertex in both.vertices[:known] if isinstance(vertex.node, Named)}
    numbers = {id(vertex.node): vertex.number for vertex in both.vertices}
    fresh: set[int] = set()
    found = []
    for vertex in both.vertices[known:]:
        below = any(child in fresh for child in vertex.children)
        if isinstance(vertex.node, Named) and not below and numbers[id(vertex.node)] >= known:
            counterpart = defined.get(vertex.node.name)
            found.append(
                Departure(
                    vertex.node.name, None if counterpart is None else _cut(counterpart), _cut(vertex.node)
                )
            )
        if below or isinstance(vertex.node, Named):
            fresh.add(vertex.number)
    return tuple(found)


def _cut(named: Named) -> Expr:
    """A definition with every named value in it left as a name, but for an earlier value of the same name."""
    made: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        if id(node) not in made:
            made[id(node)] = cut(node)
        return made[id(node)]

    def cut(node: Expr) -> Expr:
        if isinstance(node, Named):
            return visit(node.arg) if node.name == named.name else Input(node.name, node.axes)
        if not any(isinstance(one, Named) for one in walk(node)):
            return node
        return replace(node, **{one.name: inside(getattr(node, one.name)) for one in fields(node) if one.init})

    def inside(value: Any) -> Any:
        if isinstance(value, Expr):
            return visit(value)
        return tuple(inside(one) for one in value) if isinstance(value, tuple) else value

    return visit(named.arg)
