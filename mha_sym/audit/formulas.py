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
from mha_sym.expr import Blocks, Expr, Input, Named, Reshape, walk
from mha_sym.graph import graph
from mha_sym.importers.resize import rebuilt
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.terms import TermError

Script = Literal["unicode", "latex"]

#: a definition of no more characters is shown whole
_SHORT = 120


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
    try:
        return _written(name, expr, script)
    except (AxisProblem, TermError):  # a position in a concatenation whose block is not known: it is named, then
        pass
    try:
        return _written(name, _with_stored(expr), script)
    except (AxisProblem, TermError):
        return ""


def _written(name: str, expr: Expr, script: Script) -> str:
    from mha_sym.render.formulas.short import definition_line

    meaning = Meaning()
    goal = goals(meaning, name, Input(name, expr.axes), expr)[0]
    return definition_line(goal, meaning.context(), latex=script == "latex")


def _with_stored(expr: Expr) -> Expr:
    """The same with arrays that are put together from others, and then read as one, under one name: ``W_Q;W_K;W_V``."""

    def visit(node: Any) -> Expr | None:
        if not isinstance(node, Reshape) or not isinstance(node.arg, Blocks):
            return None
        names = dict.fromkeys(one.name for one in walk(node) if isinstance(one, Input))
        return Input("stored" if not names else f"[{'; '.join(names)}]", node.axes)

    return rebuilt(expr, visit)


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
            found += _departures(defined.get(vertex.node.name), vertex.node)
        if below or isinstance(vertex.node, Named):
            fresh.add(vertex.number)
    return tuple(found)


def _departures(right: Named | None, faulty: Named) -> list[Departure]:
    """Where two definitions of one name part: at values of other names in them, if nowhere else."""
    if right is None:
        return [Departure(faulty.name, None, _cut(faulty))]
    inner = _parts(right.arg, faulty.arg, Named, right.name)
    if not inner:
        return [Departure(faulty.name, _cut(right), _cut(faulty))]
    return [found for one, other in inner for found in _inside(one, other)]


def _inside(right: Expr, faulty: Expr) -> list[Departure]:
    """Where a value parts from what stands in its place: if that is long, at arrays that are handed to both."""
    assert isinstance(right, Named)
    whole = Departure(right.name, _cut(right), _cut(replace(right, arg=faulty)))
    arrays = _parts(right.arg, faulty, Input, right.name) if len(whole.formulas()[1]) > _SHORT else None
    if not arrays:
        return [whole]
    pairs = [(one, other) for one, other in arrays if isinstance(one, Input)]
    return [Departure(f"{one.name}'", one, _cut(replace(right, arg=other))) for one, other in pairs]


def _parts(right: Expr, faulty: Expr, kind: type[Named | Input], name: str) -> list[tuple[Expr, Expr]] | None:
    """The parts of one kind that another definition has otherwise, and how; None if it differs elsewhere, too."""
    if right is faulty or right == faulty or (isinstance(right, Named) and right.arg == faulty):
        return []
    if isinstance(right, kind):
        mentions = {one.name for one in walk(faulty) if isinstance(one, Named)}
        whole = right.name != name and right.axes == faulty.axes and right.name not in mentions
        return [(right, faulty)] if whole else None
    if type(right) is not type(faulty):
        return None
    found = []
    for one in fields(right):
        mine, theirs = (value if isinstance(value, tuple) else (value,) for value in (
            getattr(right, one.name), getattr(faulty, one.name)
        ))  # fmt: skip
        if len(mine) != len(theirs):
            return None
        for this, that in zip(mine, theirs, strict=True):
            inner = _parts(this, that, kind, name) if isinstance(this, Expr) else [] if this == that else None
            if inner is None:
                return None
            found += [pair for pair in inner if pair not in found]
    return found if len({id(one) for one, _ in found}) == len(found) else None


def _cut(named: Named) -> Expr:
    """A definition with every named value in it left as a name, but for an earlier value of the same name."""

    def visit(node: Any) -> Any:
        if isinstance(node, Named):
            return rebuilt(node.arg, visit) if node.name == named.name else Input(node.name, node.axes)
        return None if isinstance(node, Expr) and any(isinstance(one, Named) for one in walk(node)) else node

    return rebuilt(named.arg, visit)
