"""Making a graph simpler before it is lifted: dead code, constants that are masks, open softmax, kept definitions.

Defines `fold`.  Each change keeps the value over the real numbers; what is identified on the way (a table that is a
triangle, a float that is the root of a size) is listed in the notes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from typing import Any

import sympy

from mha_sym.importers import graph as g
from mha_sym.importers.builder import Builder
from mha_sym.importers.constants import read_array, read_number
from mha_sym.importers.run import constant_value
from mha_sym.importers.sizes import quotient

#: constants with more entries are not computed with
_LARGE = 1 << 22

#: below this a number is there to keep a sum from being 0
_TINY = sympy.Rational(1, 10**20)

_SHIFT = "a softmax with the row's maximum subtracted is the softmax: the shift cancels (softmax_add_row_constant)"


def fold(graph: g.Graph) -> g.Graph:
    """The same function of the inputs, simpler, with what was identified added to the notes.

    Example:
        >>> b = Builder()
        >>> x = b.input("x", (sympy.Symbol("n", integer=True, positive=True),))
        >>> e = b.map("exp", b.map("sub", x, b.reduce("max", x, [0], keep=True)))
        >>> folded = fold(b.graph(y=b.map("div", e, b.reduce("sum", e, [0], keep=True))))
        >>> [type(node.op).__name__ for node in folded.nodes]
        ['Input', 'Softmax']
    """
    work = _Folder(graph)
    alive = _alive(graph)
    for number, node in enumerate(graph.nodes):
        if number in alive:
            work.new[number] = work.node(node)
    made = Builder(work.builder.nodes, work.builder.notes).graph(**{n: work.new[r] for n, r in graph.outputs.items()})
    return pruned(made)


def pruned(graph: g.Graph) -> g.Graph:
    """A graph without values that nothing needs; inputs stay."""
    alive = sorted(_alive(graph))
    place = {old: new for new, old in enumerate(alive)}
    nodes = (replace(graph.nodes[n], args=tuple(place[a] for a in graph.nodes[n].args)) for n in alive)
    return g.Graph(tuple(nodes), {name: place[ref] for name, ref in graph.outputs.items()}, graph.notes)


def _alive(graph: g.Graph) -> set[int]:
    found: set[int] = {n for n, node in enumerate(graph.nodes) if isinstance(node.op, g.Input)}
    waiting = list(graph.outputs.values())
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += graph.nodes[one].args
    return found


@dataclass
class _Folder:
    graph: g.Graph

    def __post_init__(self) -> None:
        self.builder = Builder(notes=self.graph.notes)
        self.new: dict[int, int] = {}
        self.known: dict[Hashable, int] = {}
        sizes = {int(s) for node in self.graph.nodes for s in node.shape if s.is_Integer}
        self.sizes = sorted(n for n in sizes if n > 1)

    def node(self, node: g.Node) -> int:
        """The new number of an old node."""
        self.builder.place = node.place
        args = tuple(self.new[a] for a in node.args)
        match node.op:
            case g.Constant(value) if value.size == 1 and value.dtype.kind == "f":
                return self.builder.broadcast(self.literal(float(value.flat[0]), str(value.dtype)), node.shape)
            case g.Constant(value):
                found = read_array(self.builder, value)
                return found if found is not None else self.plain(node, args)
            case g.SizeValue(value) if value.has(sympy.Float):
                return self.literal_size(value)
            case g.Attention():
                return self.attention(node.op, args)
            case g.Map("max") if any(_is_minus_infinity(self.builder.nodes[a]) for a in args):
                return next((a for a in args if not _is_minus_infinity(self.builder.nodes[a])), args[0])
            case g.Slice(axis, start, length) if self.without_inputs(args[0]):
                return self.sliced(args[0], axis, start, length)
            case g.Map("where"):
                return args[1] if self.of_empty_rows(*args) else self.plain(node, args)
            case g.Map("div"):
                args = (args[0], self.without_floor(*args))
                found = self.softmax(*args)
                return found if found is not None else self.plain(node, args)
        return self.plain(node, args)

    def plain(self, node: g.Node, args: tuple[int, ...]) -> int:
        """The node itself, each once, computed if all it is made of is constant."""
        inside = [self.builder.nodes[a].op for a in args]
        small = all(s.is_Integer for s in node.shape) and sympy.Mul(*node.shape) <= _LARGE
        stays = isinstance(node.op, g.Take | g.Given)  # so that the table may be any
        if args and small and not stays and all(isinstance(op, g.Constant) for op in inside):
            value = constant_value(node, [op.value for op in inside if isinstance(op, g.Constant)])
            again = replace(node, op=g.Constant(value), args=(), dtype=str(value.dtype))
            return self.node(again)
        key = (type(node.op), _key(node.op), args, node.shape, node.dtype)
        if isinstance(node.op, g.Constant) or key not in self.known:
            self.builder.nodes.append(replace(node, args=args))
            self.known[key] = len(self.builder.nodes) - 1
        return self.known[key]

    # ------------------------------------------------------------ parts of masks

    def without_inputs(self, ref: int) -> bool:
        """Whether a value is made of positions and numbers alone, as masks are."""
        node = self.builder.nodes[ref]
        moved = isinstance(node.op, g.Broadcast) or (isinstance(node.op, g.Reshape) and self.only_ones(node))
        if isinstance(node.op, g.Iota | g.SizeValue):
            return True
        constant = isinstance(node.op, g.Constant) and node.op.value.size == 1
        return constant or ((moved or isinstance(node.op, g.Map)) and all(map(self.without_inputs, node.args)))

    def sliced(self, ref: int, axis: int, start: sympy.Expr, length: sympy.Expr) -> int:
        """Part of a mask: a mask of as many positions.  Where it is made for more, the rest is never made."""
        b, node = self.builder, self.builder.nodes[ref]
        shape = tuple(length if n == axis else s for n, s in enumerate(node.shape))
        if node.shape[axis] == 1 and length == 1:
            return ref
        if isinstance(node.op, g.Iota):
            made = b.iota(length)
            return made if start == 0 else b.map("add", made, b.size(start))
        if isinstance(node.op, g.Map):
            args = [a if not b.shape(a) else self.sliced(a, axis, start, length) for a in node.args]
            return self.plain(replace(node, shape=shape), tuple(args))
        (inner,) = node.args
        if isinstance(node.op, g.Broadcast):
            place = axis - (len(node.shape) - len(b.shape(inner)))
            if place >= 0 and b.shape(inner)[place] != 1:
                inner = self.sliced(inner, place, start, length)
            return b.broadcast(inner, shape)
        longer = [n for n, s in enumerate(node.shape) if s != 1]
        place = [n for n, s in enumerate(b.shape(inner)) if s != 1][longer.index(axis)]
        return b.reshape(self.sliced(inner, place, start, length), shape)

    # ------------------------------------------------------------ numbers

    def literal(self, value: float, dtype: str = "float64") -> int:
        """A float as the exact number that it stands for."""
        exact, words = read_number(value, dtype, self.sizes)
        if words:
            self.builder.note(readings=(f"{words} at {self.builder.place}",))
        return self.once(g.SizeValue(exact), "float64")

    def literal_size(self, value: sympy.Expr) -> int:
        """A number of sizes in which floats are left."""
        floats = {one: read_number(float(one), "float64", self.sizes) for one in value.atoms(sympy.Float)}
        self.builder.note(readings=[f"{words} at {self.builder.place}" for _, words in floats.values() if words])
        exact = value.xreplace({one: number for one, (number, _) in floats.items()})
        return self.once(g.SizeValue(exact), "float64")

    def once(self, op: g.Op, dtype: str) -> int:
        return self.plain(g.Node(op, (), (), dtype, self.builder.place), ())

    # ------------------------------------------------------------ definitions

    def softmax(self, top: int, bottom: int) -> int | None:
        """``exp(x - m) / sum exp(x - m)`` as the softmax of x, where m does not vary along the axis."""
        nodes = self.builder.nodes
        source = self.stripped(bottom)
        total, power = nodes[source], nodes[top]
        if total.op.__class__ is not g.Reduce or power.op != g.Map("exp") or total.args != (top,):
            return None
        assert isinstance(total.op, g.Reduce)
        if total.op.op != "sum" or len(total.op.axes) != 1 or not self.spread(bottom, source, total.op.axes, top):
            return None
        axis, inner = total.op.axes[0], power.args[0]
        scores = nodes[inner]
        if scores.op == g.Map("sub") and self.row_maximum(scores.args[1], scores.args[0], axis):
            self.builder.note(readings=(_SHIFT,))
            inner = scores.args[0]
        return self.plain(replace(power, op=g.Softmax(axis)), (inner,))

    def sum_of_powers(self, ref: int) -> tuple[int, g.Reduce] | None:
        """The exponentials that a value, axes of size 1 aside, is the sum of, and how they are summed."""
        node = self.builder.nodes[self.stripped(ref)]
        if not isinstance(node.op, g.Reduce) or node.op.op != "sum":
            return None
        return (node.args[0], node.op) if self.builder.nodes[node.args[0]].op == g.Map("exp") else None

    def of_empty_rows(self, chosen: int, weights: int, otherwise: int) -> bool:
        """Whether weights are replaced by zeros where they are zeros: where the exponentials that they are sum to 0."""
        nodes = self.builder.nodes
        asked, zero = nodes[self.copied_from(chosen)], nodes[self.stripped(otherwise)].op
        if asked.op not in (g.Map("gt"), g.Map("ne")) or not _is_zero(zero):
            return False
        total, bound = asked.args
        found, made, source = self.sum_of_powers(total), nodes[weights], self.stripped(total)
        if found is None or not _is_zero(nodes[self.stripped(bound)].op):
            return False
        whole = nodes[found[0]].shape
        kept = tuple(sympy.Integer(1) if n in found[1].axes else s for n, s in enumerate(whole))
        if asked.shape not in ((), kept) or not self.spread(total, source, found[1].axes, found[0]):
            return False
        if made.op == g.Map("div"):
            below = made.args[1]
            same = self.stripped(below) == source and self.spread(below, source, found[1].axes, found[0])
            return made.args[0] == found[0] and same
        inner = nodes[found[0]].args[0]
        shifted = nodes[inner].args[0] if nodes[inner].op == g.Map("sub") else inner
        return isinstance(made.op, g.Softmax) and found[1].axes == (made.op.axis,) and made.args[0] in (inner, shifted)

    def without_floor(self, top: int, bottom: int) -> int:
        """The sum of exponentials in place of its maximum with a tiny number, by which they are divided."""
        node = self.builder.nodes[self.copied_from(bottom)]
        if node.op != g.Map("max"):
            return bottom
        for one, other in (node.args, node.args[::-1]):
            found, floor = self.sum_of_powers(one), self.builder.nodes[self.stripped(other)].op
            if found is not None and found[0] == top and isinstance(floor, g.SizeValue) and 0 < floor.value < _TINY:
                self.builder.note(assumed=(
                    f"a sum of exponentials is at least {float(floor.value):.6g}, or 0, at {self.builder.place}",
                ))  # fmt: skip
                return self.builder.broadcast(one, self.builder.nodes[bottom].shape)
        return bottom

    def copied_from(self, ref: int) -> int:
        """What a value is copied from, its axes in place."""
        while isinstance(self.builder.nodes[ref].op, g.Broadcast):
            ref = self.builder.nodes[ref].args[0]
        return ref

    def stripped(self, ref: int) -> int:
        """What a value is copied from, axes of size 1 aside."""
        node = self.builder.nodes[ref]
        while isinstance(node.op, g.Broadcast | g.Reshape) and self.only_ones(node):
            ref = node.args[0]
            node = self.builder.nodes[ref]
        return ref

    def only_ones(self, node: g.Node) -> bool:
        """Whether a node adds or drops axes of size 1, or copies along them."""
        if isinstance(node.op, g.Broadcast):
            return True
        before = self.builder.nodes[node.args[0]].shape
        return [s for s in before if s != 1] == [s for s in node.shape if s != 1]

    def spread(self, ref: int, source: int, axes: tuple[int, ...], like: int) -> bool:
        """Whether ``ref`` is ``source``, reduced over axes, copied back along them with every other axis in its place.

        It is if on the way there was the shape of ``like`` with 1 in these axes, and only copies came after that.
        """
        target = self.builder.nodes[like].shape
        kept = tuple(sympy.Integer(1) if n in axes else s for n, s in enumerate(target))
        while ref != source:
            node = self.builder.nodes[ref]
            if node.shape == kept:
                return True
            if not isinstance(node.op, g.Broadcast):
                return False
            ref = node.args[0]
        return self.builder.nodes[source].shape in ((), kept)

    def row_maximum(self, ref: int, scores: int, axis: int) -> bool:
        """Whether a value is the maximum of the scores over axes with the one of the softmax among them."""
        nodes = self.builder.nodes
        source = self.stripped(ref)
        op = nodes[source].op
        if not isinstance(op, g.Reduce) or op.op != "max" or axis not in op.axes:
            return False
        return nodes[source].args == (scores,) and self.spread(ref, source, op.axes, scores)

    def attention(self, op: g.Attention, args: tuple[int, ...]) -> int:
        """Scaled dot-product attention, opened by its definition."""
        b, (q, k, v) = self.builder, args[:3]
        if op.grouped:
            k, v = (self.for_every_query_head(one, b.shape(q)[-3]) for one in (k, v))
        scores = b.matmul(q, b.swap(k, -1, -2))
        scores = b.map("mul", scores, self.literal_size(op.scale))
        if op.causal:
            keys, queries = b.iota(b.shape(k)[-2]), b.reshape(b.iota(b.shape(q)[-2]), (b.shape(q)[-2], 1))
            keep = b.map("le", b.reshape(keys, (1, b.shape(k)[-2])), queries)
            scores = b.map("where", keep, scores, b.size(-sympy.oo))
        if len(args) > 3:
            boolean = b.dtype(args[3]) == "bool"
            hidden = b.size(-sympy.oo)
            scores = b.map("where", args[3], scores, hidden) if boolean else b.map("add", scores, args[3])
        return b.matmul(b.softmax(scores, -1), v)

    def for_every_query_head(self, ref: int, heads: sympy.Expr) -> int:
        """Each key and value head copied for the adjacent query heads that read it."""
        b = self.builder
        shape = list(b.shape(ref))
        copies = quotient(heads, shape[-3])
        assert copies is not None  # the builder made sure
        if copies == 1:
            return ref
        apart = b.reshape(ref, [*shape[:-2], 1, *shape[-2:]])
        wide = b.broadcast(apart, [*shape[:-2], copies, *shape[-2:]])
        return b.reshape(wide, [*shape[:-3], heads, *shape[-2:]])


def _is_zero(op: g.Op) -> bool:
    return (isinstance(op, g.SizeValue) and op.value == 0) or (isinstance(op, g.Constant) and not op.value.any())


def _is_minus_infinity(node: g.Node) -> bool:
    return isinstance(node.op, g.SizeValue) and node.op.value == -sympy.oo


def _key(op: Any) -> Hashable:
    return tuple(getattr(op, one.name) for one in fields(op)) if not isinstance(op, g.Constant) else id(op)
