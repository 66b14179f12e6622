"""Code that makes the tables of its rotary positions by itself: which they are, and which convention they go with.

Defines `Own`, tables in a graph, `with_own_tables`, a function that makes some as an implementation, `conventions_of`,
and `with_tables`, an import in which any tables stand for them.  That a convention fits is found by running the code;
that the code computes it is what is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import numpy as np
import sympy

from mha_sym.attention.rotary import PAIR_COUNT, PAIRS, Rotary
from mha_sym.audit.cases import cases_of
from mha_sym.audit.frameworks.own_angles import at_a_few
from mha_sym.audit.frameworks.rotary_found import found as fitting
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.imported import Import, fixed_sizes, imported
from mha_sym.audit.setting import ties_of
from mha_sym.axes import axis, size_symbol
from mha_sym.errors import Problem, TargetProblem
from mha_sym.expr import Expr, Input, Map, Repeat, Scalar, Table
from mha_sym.importers import angles
from mha_sym.importers import graph as g
from mha_sym.importers.closed import content, part
from mha_sym.importers.exact_run import exact_value
from mha_sym.importers.fold import pruned
from mha_sym.importers.graph import Array
from mha_sym.importers.lifting.lift import Lift
from mha_sym.importers.lifting.scalars import ZERO
from mha_sym.importers.resize import filled, resized
from mha_sym.importers.run import run, value_of

#: how far from 1 the squares of a cosine and a sine of one angle may add up in numbers
_CLOSE = 1e-3
#: names by which code is known to make tables
_NAMES = ("cos", "sin", "rope", "rotary", "cosine", "sine")


@dataclass(frozen=True)
class Own:
    """The tables that a graph makes.

    Attributes:
        graph: with `mha_sym.importers.graph.Given` in the place of each.
        tables: which they are, those of queries first.
    """

    graph: g.Graph
    tables: tuple[angles.Table, ...]

    def __call__(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """The cosines and sines (position, pair) at some sizes."""
        return {name: self.value(name, sizes) for name in ("cos", "sin")}

    def value(self, name: str, sizes: Mapping[str, int]) -> Array:
        """One table in numbers, in doubles as all that is handed to a specification."""
        nodes = part(self.graph, next(one.node for one in self.tables if one.name == name))
        return np.asarray(value_of(nodes, sizes), np.float64)

    @property
    def pairs(self) -> sympy.Expr:
        """How many angles there are at each position."""
        return self.tables[0].pairs

    def angles(self) -> tuple[str, ...]:
        """What angles they are of, a note."""
        words = at_a_few(self.value, {str(one): 8 for one in self.pairs.free_symbols})
        return (words,) if words else ()

    def turning_nothing(self, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
        """What the code gives with cosines of 1 and sines of 0: attention without positions."""
        nodes = list(self.graph.nodes)
        filled = dict(arrays)
        for number, node in enumerate(nodes):
            if isinstance(node.op, g.Given):
                shape = [int(s.subs({size_symbol(n): size for n, size in sizes.items()})) for s in node.shape]
                filled[node.op.name] = np.ones(shape) if node.op.name.startswith("cos") else np.zeros(shape)
                nodes[number] = replace(node, op=g.Input(node.op.name, "buffer"), args=())
        return run(g.Graph(tuple(nodes), self.graph.outputs), filled, sizes)


def own_of(graph: g.Graph, length: sympy.Expr) -> Own | None:
    """The tables that a graph makes, None if it makes none, or such as are not of one angle."""
    made = Own(*angles.opened(pruned(graph), length))
    have = {one.name for one in made.tables}
    if not {"cos", "sin"} <= have:
        return None
    some = {str(one): 5 for table in made.tables for one in (table.pairs * length).free_symbols}
    cos, sin = (made.value(name, some) for name in ("cos", "sin"))
    return made if cos.shape == sin.shape and np.abs(cos**2 + sin**2 - 1).max() < _CLOSE else None


def with_own_tables(impl: Implementation) -> Implementation:
    """A function as it is, or with the tables of rotary positions that it makes, under the convention that fits.

    Raises:
        TargetProblem: if a convention is described, no tables are handed over, and none are found.
    """
    if impl.own is not None or impl.module is not None or {"cos", "sin"} & set(impl.arguments):
        return impl
    if impl.positions is None and not _mentions(impl.call):
        return impl
    found = _traced(impl)
    if found is None:
        if impl.positions is None:
            return impl
        raise TargetProblem(
            f"{impl.title} takes no tables of rotary positions, and none were found in its code", where=impl.title,
            expected="arguments cos and sin, or cosines and sines of positions that it computes or keeps",
        )  # fmt: skip
    described = turning(*found)
    if impl.positions is None and fitting([found[0]]) is not None:
        return impl  # what it makes turns nothing
    if impl.positions is not None:
        described = [one for one in described if str(one.positions) == str(impl.positions)] or described
    return replace(first_fitting(_in_single(described)), tied=impl.tied)


def _in_single(described: list[Implementation]) -> list[Implementation]:
    """The descriptions in single precision, where one fits so and none does in doubles: some keep such tables."""
    single = [replace(one, dtype="float32") for one in described]
    doubles = described[0].dtype == "float64"
    return single if doubles and fitting(described) is None and fitting(single) is not None else described


def turning(impl: Implementation, own: Own, features: sympy.Expr | int) -> list[Implementation]:
    """Code that makes some tables, under every convention that they may go with in heads of so many features."""
    notes = (*impl.notes, _NOTE, *own.angles())
    return [replace(impl, rotary=one, own=own, notes=notes) for one in conventions_of(own, features)]


def first_fitting(described: Sequence[Implementation]) -> Implementation:
    """The first of some descriptions under which code is right, or else the first, under which it is shown wrong."""
    made = fitting(described)
    if made is not None:
        return made
    said = f"under no convention that was tried it gives what attention gives; it is judged by {described[0].positions}"
    return replace(described[0], notes=(*described[0].notes, said))


_NOTE = "it makes cosines and sines of positions by itself; which features they turn was looked for by running it"


def conventions_of(own: Own, features: sympy.Expr | int) -> list[Rotary]:
    """The conventions that tables of this width may go with: of all features of a head, or of the first ones."""
    width = 2 * own.pairs
    every = not width.is_Integer or width == features
    return [Rotary(one, None if every else int(width), "pair") for one in PAIRS]


def _traced(impl: Implementation) -> tuple[Implementation, Own, sympy.Expr] | None:
    """The tables of a function, the ties of sizes at which it can be followed, and the features of a head there."""
    h, k = size_symbol("h"), size_symbol("d_k")
    for tied in ties_of(impl):
        sizes: dict[str, Any] = {name: {"d_v": k, "d_model": h * k}[name] for name in tied}
        supposed = replace(impl, rotary=Rotary(tables="pair"), own=_unknown, tied=tied)
        try:
            found = imported(supposed, cases_of(impl)[0], {**sizes, **fixed_sizes(impl)})
            own = own_of(found.graph, found.statement.dims.t.size)
        except Problem:
            continue
        return None if own is None else (replace(impl, tied=tied, rotary=None), own, found.statement.dims.k.size)
    return None


def _unknown(sizes: Mapping[str, int]) -> Mapping[str, Any]:
    raise AssertionError(f"tables are asked for at {sizes} before they are known")


def _mentions(call: Callable[..., Any]) -> bool:
    """Whether code, or a function of the same file that it calls, speaks of cosines."""
    every = _codes(getattr(call, "__code__", None), getattr(call, "__globals__", {}), set())
    return any(name.lower().strip("_") in _NAMES or "cos" in name.lower() for code in every for name in code.co_names)


def _codes(code: CodeType | None, names: Mapping[str, Any], seen: set[CodeType]) -> Iterator[CodeType]:
    if code is None or code in seen:
        return
    seen.add(code)
    yield code
    for one in code.co_consts:
        yield from _codes(one if isinstance(one, CodeType) else None, names, seen)
    for name in code.co_names:
        called = names.get(name)
        if getattr(called, "__globals__", None) is names:
            yield from _codes(getattr(called, "__code__", None), names, seen)


# ---------------------------------------------------------------- in a proof


def with_tables(impl: Implementation, found: Import, called: str = "") -> Import:
    """An import with any tables in place of those that the code makes, the first cosines and sines in its statement.

    What they are called begins with ``called``.
    """
    if impl.own is None:
        return found
    statement = found.statement
    graph, tables = angles.opened(pruned(found.graph), statement.dims.t.size, called)
    words = tuple(one.words() for one in tables)
    axes = {one.name: (statement.dims.t, axis(f"f_{one.name}", one.pairs)) for one in tables}
    given: dict[str, Expr] = {
        one.name: statement.tables.get(one.name) or Input(one.name, axes[one.name], "mask") for one in tables
    }
    return replace(
        found, graph=replace(graph, notes=graph.notes.plus(readings=words)),
        statement=replace(statement, inputs={**statement.inputs, **given}),
    )  # fmt: skip


def made_as(graph: g.Graph) -> dict[str, Hashable]:
    """How the tables of an import are made: two are one only where that is equal."""
    given = [n for n, node in enumerate(graph.nodes) if isinstance(node.op, g.Given)]
    return {_name(graph.nodes[n].op): content(part(graph, graph.nodes[n].args[0])) for n in given}


def _name(op: g.Op) -> str:
    assert isinstance(op, g.Given)
    return op.name


#: so many positions and pairs are enough to tell tables apart
_FEW = {"T": 3, "S": 3, PAIR_COUNT: 2}


def at_few_positions(impl: Implementation, found: Import, lifted: Lift) -> tuple[Import, Lift] | None:
    """The same at three positions with the tables that the code makes, exactly, in place of any; None if it makes none.

    What is refuted there is refuted of the code; with arbitrary tables it would be so of other code only.
    """
    if impl.own is None or {"T", "S"} & set(found.sizes):
        return None
    sizes = {name: size for name, size in _FEW.items() if name not in found.sizes}
    numbers = {**_FEW, **found.numbers}
    graph, statement = found.graph, resized(found.statement, sizes)
    tables: dict[str, Expr] = {}
    for number, node in enumerate(graph.nodes):
        if isinstance(node.op, g.Given) and node.op.name not in tables:
            stands = resized(found.statement.inputs[node.op.name], sizes)
            assert isinstance(stands, Input)
            tables[node.op.name] = _entry_by_entry(stands, exact_value(part(graph, number), numbers))
    outputs = {word: filled(resized(one, sizes), tables) for word, one in lifted.outputs.items()}
    stages = filled(statement.stages, tables)
    opaque = tuple(name for name in lifted.opaque if name not in tables)
    made = replace(found, statement=replace(statement, stages=stages), sizes={**found.sizes, **sizes})
    return made, replace(lifted, outputs=outputs, opaque=opaque)


def _entry_by_entry(table: Input, values: Array) -> Expr:
    """An array of exact numbers as an expression: each number times where it stands."""
    made: Expr = Repeat(ZERO, table.axes)
    for number, value in enumerate(dict.fromkeys(values.ravel().tolist())):
        where = tuple(tuple(int(entry == value) for entry in row) for row in values.tolist())
        made = made + Map("mul", (Scalar(value), Table(f"{table.name}_{number}", table.axes, where)))
    return made
