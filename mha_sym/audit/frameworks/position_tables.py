"""Modules that add a bias to their scores, looked up by position in a table of their own, as that of T5 does.

Defines `WithoutTables`, such a module with zeros in its tables, as numbers are compared, `whole`, with the tables as
they are, as it is proved, and `with_bias`, the specification with an arbitrary bias for every query, key and head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.imported import Import
from mha_sym.axes import Axis, axis
from mha_sym.expr import Contract, Expr, Input, Named, Repeat, Table
from mha_sym.importers.graph import ImportProblem
from mha_sym.importers.lifting.lookups import BIAS, Lookup, at, looked_up
from mha_sym.importers.resize import rebuilt
from mha_sym.importers.sizes import same


@dataclass(frozen=True)
class WithoutTables:
    """Code with zeros in its tables.

    Attributes:
        module: the code; takes weights by name, which may hold the tables, and the rest.
        tables: zeros for them, by name.
        drawn: values for them.
    """

    module: Callable[..., Any]
    tables: Mapping[str, Any]
    drawn: Mapping[str, Any]

    def __call__(self, weights: Mapping[str, Any], *values: Any, **named: Any) -> Any:
        """The code with zeros."""
        return self.module({**weights, **self.tables}, *values, **named)

    def with_tables(self, weights: Mapping[str, Any], *values: Any, **named: Any) -> Any:
        """The code with values in its tables."""
        return self.module({**weights, **self.drawn}, *values, **named)


def whole(impl: Implementation) -> Implementation:
    """An implementation with its tables as they are."""
    return replace(impl, call=impl.call.with_tables) if isinstance(impl.call, WithoutTables) else impl


def with_bias(found: Import, table: bool = False, name: str = BIAS) -> Import:
    """An import of which the specification adds to the scores what the code looks up, if it does.

    Args:
        found: an import with a folded graph.
        table: whether the bias comes of an arbitrary table, looked up as in the code; lengths are numbers then.
            Otherwise it is an arbitrary array.
        name: what it is called.

    Raises:
        ImportProblem: for what is looked up and is no bias, and for more than one.
    """
    lookups = looked_up(found.graph, name)[1]
    if not lookups:
        return found
    if len(lookups) > 1:
        raise ImportProblem("more than one table is looked up by position", where=str(lookups[1].place))
    statement = found.statement
    axes = _axes(lookups[0], found)
    inner = Input(lookups[0].name, tuple(one for one in axes if not one.name.startswith("unit")), "mask")
    bias = _from_table(inner, lookups[0], found) if table else inner
    given = Repeat(bias, axes) if axes != bias.axes else bias
    stages = rebuilt(statement.stages, lambda one: _plus(one, bias))
    notes = found.graph.notes.plus(assumed=(lookups[0].words(),))
    return replace(
        found, graph=replace(found.graph, notes=notes),
        statement=replace(statement, stages=stages, inputs={**statement.inputs, inner.name: given}),
    )  # fmt: skip


def _plus(expr: Any, bias: Expr) -> Expr | None:
    """The scores with a bias; nothing for other parts of the specification."""
    return replace(expr, arg=expr.arg + bias) if isinstance(expr, Named) and expr.name == "S" else None


def _from_table(bias: Input, lookup: Lookup, found: Import) -> Expr:
    """``B[t, s, r] = sum_n [n = place(t, s)] E[n, r]`` for an arbitrary table E, its rows in the order of their use."""
    places = np.unique(at(found.graph, lookup), return_inverse=True)[1].reshape([int(a.size) for a in bias.axes[:2]])
    row = axis("row", int(places.max()) + 1)
    chosen = tuple(tuple(tuple(int(n == one) for n in range(row.size)) for one in line) for line in places.tolist())
    own = tuple(a for a in bias.axes if a.name == "h")
    table = Input("position_table", (row, *own), "weight")
    return Contract((Table("looked_up", (*bias.axes[:2], row), chosen), table), (*bias.axes[:2], *own))


def _axes(lookup: Lookup, found: Import) -> tuple[Axis, ...]:
    """Query, key and head, in the order in which the code has them."""
    d = found.statement.dims
    rest = [n for n, size in enumerate(lookup.shape) if n not in lookup.counting and size != 1]
    named = dict(zip((*lookup.counting, *rest), (d.t, d.s, d.h), strict=False))
    axes = tuple(named.get(n, axis(f"unit{n}", 1)) for n in range(len(lookup.shape)))
    grouped = any(one.name == "g" for one in found.statement.stages.scores.axes)
    fits = len(lookup.counting) == 2 and len(rest) <= 1 and not grouped
    if not fits or not all(same(a.size, s) for a, s in zip(axes, lookup.shape, strict=True)):
        raise ImportProblem(
            f"{lookup.name} is no bias of scores", where=str(lookup.place), got=f"shape {lookup.shape}",
            expected=f"an entry for every query, key and head: {d.t.size}, {d.s.size}, and {d.h.size} before or behind",
        )  # fmt: skip
    return axes
