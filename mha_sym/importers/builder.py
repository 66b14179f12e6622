"""Building a graph value by value, refusing what does not fit with the place in the user's source.

Defines `Builder`.  Each method checks what its operation needs: the product of a reshape, sizes that are equal, the
bounds of a slice, parts that fill an axis.  What depends on the values of the sizes is recorded as a condition.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import numpy as np
import sympy

from mha_sym.importers.graph import (
    SCALAR,
    TRUTHS,
    Attention,
    Broadcast,
    Concat,
    Condition,
    Constant,
    Contract,
    Dtype,
    Gather,
    Graph,
    ImportProblem,
    Input,
    Iota,
    Map,
    Node,
    Notes,
    Op,
    Permute,
    Place,
    Reduce,
    Ref,
    Reshape,
    Role,
    Shape,
    SizeValue,
    Slice,
    Softmax,
    Take,
)
from mha_sym.importers.sizes import as_size, nonnegative, quotient, same, total


@dataclass
class Builder:
    """Makes a graph value by value.  ``place`` is the place of what is made next; ``refused`` is what was refused.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> g = Builder()
        >>> x = g.input("x", (size_symbol("B"), 6))
        >>> g.shape(g.reshape(x, (-1, 2, 3)))
        (B, 2, 3)
    """

    nodes: list[Node] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    place: Place = field(default_factory=Place)
    refused: list[ImportProblem] = field(default_factory=list)

    def graph(self, **outputs: Ref) -> Graph:
        """The graph of these outputs."""
        return Graph(tuple(self.nodes), dict(outputs), self.notes)

    def shape(self, ref: Ref) -> Shape:
        """The shape of a value."""
        return self.nodes[ref].shape

    def dtype(self, ref: Ref) -> Dtype:
        """``bool``, ``int64``, ``float32``, ``float64``, ..."""
        return self.nodes[ref].dtype

    def note(self, **more: Sequence[Any]) -> None:
        """Add to the `Notes`."""
        self.notes = self.notes.plus(**more)

    def condition(self, relation: Any) -> None:
        """Record what must hold of the sizes.

        Raises:
            ImportProblem: if it never does.
        """
        if relation in (True, sympy.true):
            return
        if relation in (False, sympy.false):
            self.refuse("this cannot hold for any sizes")
        self.note(conditions=(Condition(relation, self.place),))

    def refuse(self, what: str, **more: str) -> NoReturn:
        """Complain about the code at the present place."""
        self.refused.append(ImportProblem(what, where=str(self.place), **more))
        raise self.refused[-1]

    def _add(self, op: Op, args: Sequence[Ref], shape: Sequence[sympy.Expr | int], dtype: Dtype) -> Ref:
        self.nodes.append(Node(op, tuple(args), tuple(map(as_size, shape)), dtype, self.place))
        return len(self.nodes) - 1

    # ------------------------------------------------------------ leaves

    def input(
        self, name: str, shape: Sequence[sympy.Expr | int], dtype: Dtype = "float64", role: Role = "user"
    ) -> Ref:
        """An array from outside; names are unique."""
        if any(isinstance(node.op, Input) and node.op.name == name for node in self.nodes):
            self.refuse(f"two inputs are called {name!r}")
        return self._add(Input(name, role), (), shape, dtype)

    def constant(self, value: Any) -> Ref:
        """A constant array."""
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            self.refuse(f"a constant of type {array.dtype} is not a number")
        kept = array.copy()
        kept.flags.writeable = False
        return self._add(Constant(kept), (), array.shape, str(array.dtype))

    def size(self, value: sympy.Expr | int) -> Ref:
        """An exact number made of sizes."""
        number = sympy.Integer(value) if isinstance(value, int) else value
        return self._add(SizeValue(number), (), (), "int64" if number.is_integer else "float64")

    def iota(self, length: sympy.Expr | int) -> Ref:
        """``0, 1, ..., length - 1``."""
        return self._add(Iota(), (), (length,), "int64")

    # ------------------------------------------------------------ entry by entry

    def map(self, f: str, *args: Ref) -> Ref:
        """A scalar function, its arguments broadcast against each other as arrays are."""
        if SCALAR.get(f) != len(args):
            self.refuse(f"{f!r} of {len(args)} arguments is not in the vocabulary", expected=", ".join(SCALAR))
        shape = self.broadcast_shapes([self.shape(a) for a in args])
        ready = [a if not self.shape(a) else self.broadcast(a, shape) for a in args]
        return self._add(Map(f), ready, shape, self._result(f, args))

    def _result(self, f: str, args: Sequence[Ref]) -> Dtype:
        if f in TRUTHS:
            return "bool"
        kinds = [np.dtype(self.dtype(a)) for a in (args[1:] if f == "where" else args)]
        if f in ("div", "exp", "sqrt", "log", "sin", "cos", "tanh", "float") and not any(k.kind == "f" for k in kinds):
            return "float64"
        return str(np.result_type(*kinds))

    def broadcast_shapes(self, shapes: Sequence[Shape]) -> Shape:
        """The common shape: sizes are equal or the number 1.

        Raises:
            ImportProblem: for sizes that are different, or not known to be equal.
        """
        found: list[sympy.Expr] = []
        for n in range(1, max(map(len, shapes), default=0) + 1):
            here = [shape[-n] for shape in shapes if len(shape) >= n and shape[-n] != 1]
            for other in here[1:]:
                if not same(here[0], other):
                    self._unlike(here[0], other, shapes)
            found.insert(0, here[0] if here else sympy.Integer(1))
        return tuple(found)

    def _unlike(self, one: sympy.Expr, other: sympy.Expr, shapes: Sequence[Shape]) -> NoReturn:
        self.refuse(
            f"sizes {one} and {other} do not fit together", got=" and ".join(map(str, shapes)),
            expected="sizes that are equal for all values of the symbols, or 1",
        )  # fmt: skip

    def cast(self, arg: Ref, dtype: Dtype) -> Ref:
        """Another precision: nothing over the real numbers, and recorded; from float to integer it rounds toward 0."""
        before, after = np.dtype(self.dtype(arg)).kind, np.dtype(dtype).kind
        if after in "iu" and before == "f":
            return self._add(Map("trunc"), (arg,), self.shape(arg), dtype)
        if after == "b" and before != "b":
            return self.map("ne", arg, self.size(0))
        if self.dtype(arg) == dtype:
            return arg
        if before == after == "f":
            self.note(casts=(f"{self.dtype(arg)} to {dtype} at {self.place}",))
        return self._add(Map("float"), (arg,), self.shape(arg), dtype)

    # ------------------------------------------------------------ sums

    def contract(self, labels: Sequence[Sequence[Hashable]], out: Sequence[Hashable], args: Sequence[Ref]) -> Ref:
        """An einsum; a label that occurs twice in one argument (a diagonal) is refused."""
        numbers: dict[Hashable, int] = {}
        sizes: dict[Hashable, sympy.Expr] = {}
        for row, arg in zip(labels, args, strict=True):
            shape = self.shape(arg)
            if len(row) != len(shape) or len(set(row)) != len(row):
                self.refuse("labels and axes do not fit", got=f"{' '.join(map(str, row))} for {shape}")
            for label, size in zip(row, shape, strict=True):
                numbers.setdefault(label, len(numbers))
                if not same(sizes.setdefault(label, size), size):
                    self._unlike(sizes[label], size, [self.shape(a) for a in args])
        if not set(out) <= set(sizes) or len(set(out)) != len(out):
            self.refuse("a label of the result is in no operand", got=" ".join(map(str, out)))
        op = Contract(tuple(tuple(numbers[n] for n in row) for row in labels), tuple(numbers[n] for n in out))
        kind = str(np.result_type(*(np.dtype(self.dtype(a)) for a in args)))
        return self._add(op, args, [sizes[n] for n in out], kind)

    def matmul(self, left: Ref, right: Ref) -> Ref:
        """``left @ right`` with leading axes broadcast."""
        if not self.shape(left) or not self.shape(right):
            self.refuse("a matrix product needs arrays, not numbers")
        rows, columns = len(self.shape(left)) > 1, len(self.shape(right)) > 1
        lead_l = self.shape(left)[: -1 - rows]
        lead_r = self.shape(right)[: -1 - columns]
        self.broadcast_shapes([lead_l, lead_r])
        # axes of size 1 are left out rather than copied: a weight then stays what it is
        ref_l, names_l = self._lead(left, lead_l, lead_r)
        ref_r, names_r = self._lead(right, lead_r, lead_l)
        lead = sorted({*names_l, *names_r})
        row, column = (["row"] if rows else []), (["column"] if columns else [])
        labels = [[*names_l, *row, "sum"], [*names_r, "sum", *column]]
        made = self.contract(labels, [*lead, *row, *column], [ref_l, ref_r])
        shape = [*self.broadcast_shapes([lead_l, lead_r]), *self.shape(made)[len(lead) :]]
        return self.reshape(made, shape)

    def _lead(self, arg: Ref, mine: Shape, others: Shape) -> tuple[Ref, list[int]]:
        """An operand without leading axes of size 1, and the places of the axes that stay, counted from the end."""
        places = range(-len(mine), 0)
        stay = [n for n in places if mine[n] != 1]
        if len(stay) < len(mine):
            arg = self.reshape(arg, [*(mine[n] for n in stay), *self.shape(arg)[len(mine) :]])
        return arg, stay

    def reduce(self, op: Literal["sum", "max"], arg: Ref, axes: Sequence[int], keep: bool = False) -> Ref:
        """``sum`` or ``max`` over axes; ``keep`` leaves axes of size 1 behind."""
        shape = self.shape(arg)
        over = sorted(self.axis(arg, a) for a in axes)
        if len(set(over)) != len(over):
            self.refuse("an axis is reduced twice", got=str(tuple(axes)))
        if op == "sum" and self.dtype(arg) == "bool":
            arg = self.cast(arg, "int64")
        if over:
            arg = self._add(Reduce(op, tuple(over)), (arg,), [s for n, s in enumerate(shape) if n not in over],
                            self.dtype(arg))  # fmt: skip
        return self.reshape(arg, [1 if n in over else s for n, s in enumerate(shape)]) if keep else arg

    def mean(self, arg: Ref, axes: Sequence[int], keep: bool = False) -> Ref:
        """The sum divided by the number of entries."""
        count = total(self.shape(arg)[self.axis(arg, a)] for a in axes)
        return self.map("div", self.reduce("sum", arg, axes, keep), self.size(count))

    # ------------------------------------------------------------ axes

    def axis(self, arg: Ref, axis: int) -> int:
        """An axis counted from the front."""
        rank = len(self.shape(arg))
        if not -rank <= axis < rank:
            self.refuse(f"there is no axis {axis}", got=f"shape {self.shape(arg)}")
        return axis % rank

    def reshape(self, arg: Ref, shape: Sequence[sympy.Expr | int]) -> Ref:
        """Row-major; one size may be -1."""
        before = self.shape(arg)
        after = [as_size(s) for s in shape]
        if after.count(sympy.Integer(-1)) == 1:
            rest = total(s for s in after if s != -1)
            missing = quotient(total(before), rest)
            if missing is None:
                self.refuse(f"{total(before)} entries do not divide by {rest}", got=f"reshape of {before} to {shape}")
            after[after.index(sympy.Integer(-1))] = missing
        if not same(total(before), total(after)):
            self.refuse(
                "a reshape keeps the number of entries", expected=f"{total(before)} entries, shape {before}",
                got=f"{total(after)} entries, shape {tuple(after)}",
            )  # fmt: skip
        if tuple(after) == before:
            return arg
        return self._add(Reshape(), (arg,), after, self.dtype(arg))

    def permute(self, arg: Ref, order: Sequence[int]) -> Ref:
        """Axes in another order."""
        places = tuple(self.axis(arg, n) for n in order)
        if sorted(places) != list(range(len(self.shape(arg)))):
            self.refuse("a transpose names every axis once", got=f"{tuple(order)} for shape {self.shape(arg)}")
        if places == tuple(range(len(places))):
            return arg
        return self._add(Permute(places), (arg,), [self.shape(arg)[n] for n in places], self.dtype(arg))

    def swap(self, arg: Ref, one: int, other: int) -> Ref:
        """Two axes exchanged."""
        order = list(range(len(self.shape(arg))))
        a, b = self.axis(arg, one), self.axis(arg, other)
        order[a], order[b] = order[b], order[a]
        return self.permute(arg, order)

    def broadcast(self, arg: Ref, shape: Sequence[sympy.Expr | int]) -> Ref:
        """Copies along new leading axes and along axes of size 1."""
        before, after = self.shape(arg), tuple(map(as_size, shape))
        if len(before) > len(after):
            self.refuse("a broadcast cannot drop axes", got=f"{before} to {after}")
        for one, other in zip(before[::-1], after[::-1], strict=False):
            if one != 1 and not same(one, other):
                self._unlike(one, other, [before, after])
        return arg if before == after else self._add(Broadcast(), (arg,), after, self.dtype(arg))

    def slice(self, arg: Ref, axis: int, start: sympy.Expr | int, length: sympy.Expr | int) -> Ref:
        """``length`` positions from ``start``; what the bounds need of the sizes is checked, or recorded."""
        axis, first, count = self.axis(arg, axis), as_size(start), as_size(length)
        whole = self.shape(arg)[axis]
        room = sympy.expand(whole - first - count)
        for value, relation in ((first, first >= 0), (room, sympy.Le(first + count, whole)), (count - 1, count >= 1)):
            if not nonnegative(value):
                if not value.free_symbols:
                    self.refuse("a slice leaves the axis", got=f"{first}:{first + count} of {whole} positions")
                self.condition(relation)
        if first == 0 and same(count, whole):
            return arg
        shape = [count if n == axis else s for n, s in enumerate(self.shape(arg))]
        return self._add(Slice(axis, first, count), (arg,), shape, self.dtype(arg))

    def select(self, arg: Ref, axis: int, at: sympy.Expr | int) -> Ref:
        """One position of an axis, which is gone afterwards."""
        axis = self.axis(arg, axis)
        shape = [s for n, s in enumerate(self.shape(arg)) if n != axis]
        return self.reshape(self.slice(arg, axis, at, 1), shape)

    def split(self, arg: Ref, axis: int, parts: int | Sequence[sympy.Expr | int]) -> list[Ref]:
        """Equal parts, or parts of given lengths that fill the axis."""
        axis = self.axis(arg, axis)
        whole = self.shape(arg)[axis]
        if isinstance(parts, int):
            each = quotient(whole, sympy.Integer(parts))
            if each is None:
                self.refuse(f"an axis of size {whole} does not split into {parts} equal parts")
            parts = [each] * parts
        lengths = [as_size(one) for one in parts]
        if not same(sympy.Add(*lengths), whole):
            self.refuse(f"parts of lengths {lengths} do not fill an axis of size {whole}")
        starts = [sympy.expand(sympy.Add(*lengths[:n])) for n in range(len(lengths))]
        return [self.slice(arg, axis, start, length) for start, length in zip(starts, lengths, strict=True)]

    def concat(self, args: Sequence[Ref], axis: int) -> Ref:
        """Arrays end to end along an axis."""
        axis = self.axis(args[0], axis)
        for other in args[1:]:
            one, two = self.shape(args[0]), self.shape(other)
            if len(one) != len(two) or not all(same(a, b) for a, b in _besides(axis, one, two)):
                self.refuse("arrays end to end agree in their other axes", got=f"{one} and {two}")
        if len(args) == 1:
            return args[0]
        shape = list(self.shape(args[0]))
        shape[axis] = sympy.expand(sympy.Add(*(self.shape(a)[axis] for a in args)))
        kind = str(np.result_type(*(np.dtype(self.dtype(a)) for a in args)))
        return self._add(Concat(axis), args, shape, kind)

    def stack(self, args: Sequence[Ref], axis: int = 0) -> Ref:
        """Arrays of one shape along a new axis."""
        shape = list(self.shape(args[0]))
        place = axis % (len(shape) + 1)
        return self.concat([self.reshape(a, [*shape[:place], 1, *shape[place:]]) for a in args], place)

    def gather(self, arg: Ref, axis: int, positions: Sequence[int]) -> Ref:
        """The listed positions of an axis; negative ones count from the end of an axis of fixed size."""
        axis = self.axis(arg, axis)
        whole = self.shape(arg)[axis]
        if not whole.is_Integer:
            self.refuse("positions are picked from an axis of symbolic size", got=f"{list(positions)} of {whole}")
        size = int(whole)
        if any(not -size <= p < size for p in positions):
            self.refuse("a position is not in the axis", got=f"{list(positions)} of {size}")
        shape = [len(positions) if n == axis else s for n, s in enumerate(self.shape(arg))]
        return self._add(Gather(axis, tuple(p % size for p in positions)), (arg,), shape, self.dtype(arg))

    def take(self, arg: Ref, axis: int, at: Ref) -> Ref:
        """The positions of an axis that an array of whole numbers lists; its axes stand where the axis was."""
        axis, index, shape = self.axis(arg, axis), self.nodes[at], self.shape(arg)
        if np.dtype(index.dtype).kind not in "iu":
            self.refuse("positions that are picked are whole numbers", got=index.dtype)
        after = [*shape[:axis], *index.shape, *shape[axis + 1 :]]
        if isinstance(index.op, Constant):
            return self.reshape(self.gather(arg, axis, [int(n) for n in np.ravel(index.op.value)]), after)
        self.note(assumed=(f"the positions that are looked up are in the table at {self.place}",))
        return self._add(Take(axis), (arg, at), after, self.dtype(arg))

    # ------------------------------------------------------------ definitions that keep their name

    def softmax(self, arg: Ref, axis: int) -> Ref:
        """Softmax along an axis."""
        kind = self.dtype(arg) if np.dtype(self.dtype(arg)).kind == "f" else "float64"
        return self._add(Softmax(self.axis(arg, axis)), (arg,), self.shape(arg), kind)

    def attention(
        self, q: Ref, k: Ref, v: Ref, mask: Ref | None = None, causal: bool = False,
        scale: sympy.Expr | None = None, grouped: bool = False,
    ) -> Ref:  # fmt: skip
        """Scaled dot-product attention on ``(..., tokens, features)``, ``scale`` 1/sqrt(features) if omitted."""
        if mask is not None and causal:
            self.refuse("a mask and is_causal exclude each other")
        sq, sk, sv = map(self.shape, (q, k, v))
        if not (len(sq) == len(sk) == len(sv) >= 2 and same(sq[-1], sk[-1]) and same(sk[-2], sv[-2])):
            self.refuse("queries, keys and values do not fit together", got=f"{sq}, {sk}, {sv}")
        for n, (one, two, three) in enumerate(zip(sq[:-2], sk[:-2], sv[:-2], strict=True)):
            shared = grouped and n == len(sq) - 3
            if not same(two, three) or (not shared and not same(one, two)):
                self.refuse("queries, keys and values differ in a leading axis", got=f"{sq}, {sk}, {sv}")
            if shared and quotient(one, two) is None:
                self.refuse(f"{one} query heads are no multiple of {two} key heads")
        if mask is not None:
            self.broadcast_shapes([self.shape(mask), (*sq[:-1], sk[-2])])
        factor = 1 / sympy.sqrt(sq[-1]) if scale is None else scale
        args = (q, k, v) if mask is None else (q, k, v, mask)
        return self._add(Attention(factor, causal, grouped), args, (*sq[:-1], sv[-1]), self.dtype(q))


def _besides(axis: int, one: Shape, two: Shape) -> list[tuple[sympy.Expr, sympy.Expr]]:
    """The sizes of all axes but one, in pairs."""
    return [pair for n, pair in enumerate(zip(one, two, strict=True)) if n != axis]
