"""Cosines and sines of positions that code makes or keeps by itself: arbitrary tables in their place.

Defines `opened`, and `Table`.  What is proved for a table of any numbers, one for every position and pair, holds for
the one that the code makes.  A cosine goes through copies and moves of entries to the angles themselves, and a kept
table that holds each number twice, exactly, is read as two copies, so that what stands in two places is one unknown.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sympy

from mha_sym.importers import graph as g
from mha_sym.importers.builder import Builder
from mha_sym.importers.closed import below, closed, content, part
from mha_sym.importers.run import value_of
from mha_sym.importers.sizes import same

#: operations through which a function entry by entry goes
_MOVES = (g.Reshape, g.Permute, g.Broadcast, g.Slice, g.Gather, g.Concat)
#: what a kept table goes through before it is used
_KEPT = (*_MOVES, g.Constant, g.Iota, g.SizeValue, g.Take)
#: a cosine is not larger, but for rounding
_ONE = 1 + 1e-6


@dataclass(frozen=True)
class Table:
    """A table that stands for any: its name, the node that it stands for, how many pairs it has, and where it is."""

    name: str
    node: int
    pairs: sympy.Expr
    place: g.Place

    def words(self) -> str:
        """What stands for what, in one sentence; nothing is taken for granted by it."""
        kind = "cosines" if "cos" in self.name else "sines"
        return f"any table {self.name} (position, pair) stands for the {kind} made at {self.place}: a proof is for all"


def opened(graph: g.Graph, length: sympy.Expr, called: str = "") -> tuple[g.Graph, tuple[Table, ...]]:
    """The graph with an arbitrary table in place of all cosines and sines of positions.

    Args:
        graph: a graph, not folded.
        length: the number of positions.
        called: what the names of tables begin with.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> t, b = size_symbol("T"), Builder()
        >>> angles = b.map("mul", b.reshape(b.iota(t), (t, 1)), b.constant([1.0, 0.1]))
        >>> twice = b.concat([angles, angles], 1)
        >>> graph, tables = opened(b.graph(y=b.map("mul", b.map("cos", twice), b.map("sin", twice))), t)
        >>> [(one.name, one.pairs) for one in tables]
        [('cos', 2), ('sin', 2)]
    """
    work = _Opener(graph, length, called)
    if not work.angles and not any(map(work.is_kept, sorted(work.known))):
        return graph, ()
    for number in range(len(graph.nodes)):
        work.node(number)
    made = work.builder.graph(**{name: work.new[ref] for name, ref in graph.outputs.items()})
    return made, tuple(work.tables.values())


@dataclass
class _Opener:
    graph: g.Graph
    length: sympy.Expr
    called: str = ""
    builder: Builder = field(init=False)
    new: dict[int, int] = field(default_factory=dict)
    tables: dict[Hashable, Table] = field(default_factory=dict)
    looked_at: dict[int, g.Array | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = Builder(notes=self.graph.notes)
        self.known = closed(self.graph)
        self.angles = {n for n in self.known if self.is_angle(n)}
        self.inside = {n for one in self.angles for n in below(self.graph, one)}
        self.kept: set[int] = set()

    def is_angle(self, number: int) -> bool:
        """Whether a value is cosines or sines, one for each position at least."""
        node = self.graph.nodes[number]
        return node.op in (g.Map("cos"), g.Map("sin")) and any(same(s, self.length) for s in node.shape)

    def node(self, number: int) -> None:
        """One value of the new graph."""
        node = self.graph.nodes[number]
        self.builder.place = node.place
        if number in self.angles:
            assert isinstance(node.op, g.Map)
            self.new[number] = self.pushed(node.op.f, node.args[0])
        elif self.is_kept(number):
            self.kept.add(number)
            self.new[number] = self.copies(number)
        else:
            self.kept |= {number} if self.kept.intersection(node.args) and number in self.known else set()
            self.new[number] = self.append(node, [self.new[a] for a in node.args])

    def append(self, node: g.Node, args: Sequence[int]) -> int:
        """A node as it is, of other values."""
        self.builder.nodes.append(replace(node, args=tuple(args)))
        return len(self.builder.nodes) - 1

    # ------------------------------------------------------------ made in the code

    def pushed(self, f: str, ref: int) -> int:
        """``f`` of a value, taken before the value is moved and copied."""
        node = self.graph.nodes[ref]
        if isinstance(node.op, _MOVES):
            return self.append(replace(node, dtype="float64"), [self.pushed(f, a) for a in node.args])
        if node.op == g.Map("float") and np.dtype(self.graph.nodes[node.args[0]].dtype).kind == "f":
            return self.pushed(f, node.args[0])
        return self.any_table(f, self.builder.map(f, self.new[ref]), content(part(self.graph, ref)))

    def any_table(self, f: str, ref: int, key: Hashable) -> int:
        """An arbitrary table in place of a value, of the same shape."""
        b, shape = self.builder, self.builder.shape(ref)
        flat, turned = self.flat(ref)
        before = sum(one.name.startswith(f"{self.called}{f}") for one in self.tables.values())
        name = f"{self.called}{f}{before + 1 if before else ''}"
        if (f, key) not in self.tables:
            self.tables[f, key] = Table(name, len(b.nodes), b.shape(flat)[1], b.place)
        table = self.append(g.Node(g.Given(self.tables[f, key].name), (), b.shape(flat), "float64", b.place), [flat])
        return b.reshape(b.swap(table, 0, 1) if turned else table, shape)

    def flat(self, ref: int) -> tuple[int, bool]:
        """A value as (positions, pairs), and whether they are the other way round in it."""
        b, shape = self.builder, self.builder.shape(ref)
        longer = [s for s in shape if s != 1]
        at = next((n for n, s in enumerate(longer) if same(s, self.length)), None)
        rest = [s for n, s in enumerate(longer) if n != at]
        if len(rest) > 1 or (at is None and self.length != 1):
            b.refuse("cosines or sines are not one for each position and pair", got=f"shape {shape}",
                     expected=f"({self.length}, pairs)")  # fmt: skip
        pairs = rest[0] if rest else sympy.Integer(1)
        if at == 1:
            return b.swap(b.reshape(ref, (pairs, self.length)), 0, 1), True
        return b.reshape(ref, (self.length, pairs)), False

    # ------------------------------------------------------------ kept in an array

    def is_kept(self, number: int) -> bool:
        """Whether a value is part of a kept table of cosines or sines, and was not looked at before."""
        node = self.graph.nodes[number]
        if number not in self.known or number in self.inside or self.kept.intersection(node.args):
            return False
        if np.dtype(node.dtype).kind != "f" or isinstance(node.op, g.Constant) or self.length == 1:
            return False
        return any(same(s, self.length) for s in node.shape) and self.kind(number) is not None

    def rows(self, number: int) -> g.Array | None:
        """All rows of a kept table, as many as there are; they are asked for several times."""
        if number not in self.looked_at:
            self.looked_at[number] = self._rows(number)
        return self.looked_at[number]

    def _rows(self, number: int) -> g.Array | None:
        nodes = part(self.graph, number)
        constants = [one.op.value for one in nodes if isinstance(one.op, g.Constant) and one.op.value.ndim > 1]
        plain = all(isinstance(one.op, _KEPT) or one.op in (g.Map("float"), g.Map("add")) for one in nodes)
        own = self.length.free_symbols  # what is spread over the batch is no table of positions
        if not plain or len(constants) != 1 or any(s.free_symbols - own for one in nodes for s in one.shape):
            return None
        symbols = [str(one) for one in self.length.free_symbols]
        for count in sorted(constants[0].shape, reverse=True):
            value = _at(nodes, dict.fromkeys(symbols, count))
            shape = [int(s.subs(dict.fromkeys(self.length.free_symbols, count))) for s in nodes[-1].shape]
            if value is not None and list(value.shape) == shape:
                return value.reshape(-1, value.shape[-1])
        return None

    def kind(self, number: int) -> str | None:
        """``cos`` or ``sin``, as the first row says."""
        rows = self.rows(number)
        if rows is None or len(rows) < 2 or np.abs(rows).max() > _ONE or (rows == rows[0]).all():
            return None
        return "cos" if (rows[0] == 1).all() else "sin" if (rows[0] == 0).all() else None

    def copies(self, number: int) -> int:
        """A kept table as an arbitrary one; where it holds each number twice, as two copies."""
        b, kind, rows = self.builder, self.kind(number), self.rows(number)
        assert kind is not None and rows is not None
        node = self.graph.nodes[number]
        b.condition(sympy.Le(self.length, len(rows)))
        whole = self.append(node, [self.new[a] for a in node.args])
        key, half = content(part(self.graph, number)), rows.shape[1] // 2
        if rows.shape[1] % 2:
            return self.any_table(kind, whole, key)
        if np.array_equal(rows[:, :half], rows[:, half:]):
            one = self.any_table(kind, b.slice(whole, -1, 0, half), key)
            b.note(readings=(f"a table that holds the same numbers in both halves, at {b.place}",))
            return b.concat([one, one], -1)
        if np.array_equal(rows[:, ::2], rows[:, 1::2]):
            apart = b.reshape(whole, (*node.shape[:-1], half, 2))
            one = self.any_table(kind, b.select(apart, -1, 0), key)
            b.note(readings=(f"a table that holds each number twice in a row, at {b.place}",))
            wide = b.broadcast(b.reshape(one, (*node.shape[:-1], half, 1)), (*node.shape[:-1], half, 2))
            return b.reshape(wide, node.shape)
        return self.any_table(kind, whole, key)


def _at(nodes: tuple[g.Node, ...], sizes: dict[str, int]) -> g.Array | None:
    try:
        return value_of(nodes, sizes)
    except (IndexError, ValueError):  # NumPy's complaint: there are fewer rows
        return None
