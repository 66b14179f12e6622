"""What an expression means: at every tuple of positions, a scalar term of index notation.

Defines `Meaning`, which turns expressions into terms and gathers the definitions, constants and
bijections they rest on, and `goals`, which states a claim entry by entry.  Proving is not done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from itertools import product as pairs
from typing import Any

import sympy

from mha_sym.axes import Axis
from mha_sym.axes import Index as HeadIndex
from mha_sym.errors import AxisProblem
from mha_sym.expr import (
    Block,
    Blocks,
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Join,
    Map,
    Named,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Stack,
    Table,
    Total,
    Transpose,
    walk,
)
from mha_sym.proof import terms
from mha_sym.proof.checker import Goal
from mha_sym.proof.rules import Context, Definition
from mha_sym.proof.terms import ONE, Add, Apply, At, Bind, Cmp, Domain, Entry, Inj, Mul, Num, Size, Term, Var

#: how positions in an axis are called, first choice first
LETTERS: dict[str, tuple[str, ...]] = {
    "h": ("r", "q"), "k": ("j", "i", "l"), "v": ("j", "i", "l"), "s": ("s", "u", "w"), "m": ("m", "n", "p"),
}  # fmt: skip

Places = Mapping[str, terms.Index]
Heads = Mapping[HeadIndex, terms.Index]


def size_term(value: sympy.Expr) -> Term:
    """A size expression as a term: rationals, rational powers of symbols, sums and products of these.

    Raises:
        AxisProblem: for anything else, such as a power of a sum that is not an integer.
    """
    if value.is_Rational:
        return Num(Fraction(int(value.p), int(value.q)))
    if value.is_Symbol:
        return Size(_size_name(value))
    if value.is_Mul:
        return Mul(tuple(map(size_term, value.args)))
    if value.is_Add:
        return Add(tuple(map(size_term, value.args)))
    if value.is_Pow and value.exp.is_Rational:
        base, power = value.base, Fraction(int(value.exp.p), int(value.exp.q))
        if base.is_Symbol or (base.is_Integer and base > 0):
            return Size(_size_name(base) if base.is_Symbol else str(base), power)
        if power == -1:
            return Apply("inv", size_term(base))
        if power.denominator == 1 and power > 0:
            return Mul((size_term(base),) * int(power))
    raise AxisProblem(f"{value} is not a number that the proof language knows", expected="rationals and sizes")


def _size_name(symbol: sympy.Symbol) -> str:
    """The name of a size; one that reads like a number would be taken for it, and only sizes are positive."""
    if symbol.name.isdigit() or not (symbol.is_integer and symbol.is_positive):
        raise AxisProblem(
            f"{symbol.name!r} is not the name of a size", expected="a symbol declared as a positive integer",
            hint="make sizes with axis or size_symbol",
        )
    return str(symbol.name)


@lru_cache(maxsize=1 << 10)
def domain(axis: Axis) -> Domain:
    """The domain of positions in an axis, called by its first letter."""
    letter = LETTERS.get(axis.name, (axis.name if axis.is_plain else "c",))[0]
    return Domain(letter, size_term(axis.size), tuple(map(domain, axis.factors)), tuple(map(domain, axis.blocks)))


def _new_var(axis: Axis, taken: set[str], first: str = "") -> Var:
    letters = (first, *LETTERS.get(axis.name, (axis.name if axis.is_plain else "c",)))
    for letter in letters:
        if letter and letter not in taken:
            return Var(letter, domain(axis))
    return terms.fresh_var(Var(letters[1], domain(axis)), taken)


@dataclass(frozen=True)
class _Opened:
    """A position taken apart as far as its blocks: the blocks it lies in, and the positions inside, with axes."""

    blocks: tuple[str, ...]
    axes: tuple[Axis, ...]
    parts: tuple[terms.Index, ...]
    build: Callable[[Sequence[terms.Index]], terms.Index]


def _opened(axis: Axis, index: terms.Index) -> _Opened:
    if not _has_blocks(axis):
        return _Opened((), (axis,), (index,), lambda parts: parts[0])
    if axis.blocks:
        if not isinstance(index, Inj):
            raise AxisProblem(f"a position of {axis.name!r} must lie in a known block")
        number = index.number
        inner = _opened(axis.blocks[number], index.index)
        return _Opened(
            (axis.blocks[number].name, *inner.blocks), inner.axes, inner.parts,
            lambda parts: Inj(inner.build(parts), domain(axis), number),
        )
    every = [_opened(one, terms.part(index, domain(axis), n)) for n, one in enumerate(axis.factors)]
    ends = list(accumulate(len(one.axes) for one in every))

    def build(parts: Sequence[terms.Index]) -> terms.Index:
        pieces = zip(every, [0, *ends], ends, strict=False)
        return terms.join(domain(axis), tuple(one.build(parts[start:end]) for one, start, end in pieces))

    return _Opened(
        tuple(b for one in every for b in one.blocks), tuple(a for one in every for a in one.axes),
        tuple(p for one in every for p in one.parts), build,
    )  # fmt: skip


def _has_blocks(axis: Axis) -> bool:
    return bool(axis.blocks) or any(map(_has_blocks, axis.factors))


def _is_opened(axis: Axis) -> bool:
    """Whether a sum over an axis is written over its factors at once: they have blocks, or a single position."""
    return _has_blocks(axis) or any(one.size == 1 or _is_opened(one) for one in axis.factors)


@dataclass
class Meaning:
    """Terms of expressions, and what they rest on.

    Example:
        >>> from mha_sym.axes import axis
        >>> meaning = Meaning()
        >>> term = meaning.at(Input("X", (axis("t"),)), {"t": At(0)}, {})
        >>> term
        Entry(name='X', at=(At(number=0),))
    """

    definitions: dict[str, Definition] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    named: dict[str, Named] = field(default_factory=dict)
    booleans: set[str] = field(default_factory=set)
    tables: dict[str, dict[tuple[int, ...], Fraction]] = field(default_factory=dict)
    bijections: dict[str, Domain] = field(default_factory=dict)
    positive: list[tuple[tuple[Var, ...], Term]] = field(default_factory=list)

    def context(self) -> Context:
        """All that was gathered, for rules to rest on."""
        return Context(
            dict(self.definitions), frozenset(self.booleans), dict(self.tables), dict(self.bijections),
            tuple(self.positive),
        )  # fmt: skip

    def assume_positive(self, expr: Expr) -> None:
        """Take for granted that every entry of an expression is positive."""
        for goal in goals(self, "assumption", expr, Scalar(sympy.Integer(0))):
            self.positive.append((goal.variables, goal.left))

    def at(self, expr: Expr, places: Places, heads: Heads) -> Term:
        """The entry of ``expr`` at positions given by axis name; ``heads`` are the positions of family indices."""
        handler = _HANDLERS.get(type(expr))
        if handler is None:
            raise AxisProblem(f"{type(expr).__name__} has no meaning", where="mha_sym.proof.meaning")
        term: Term = handler(self, expr, places, heads)
        return term

    # ------------------------------------------------------------ one method a node

    def _input(self, expr: Input, places: Places, heads: Heads) -> Term:
        self._given(expr.name, expr)
        if expr.boolean:
            self.booleans.add(expr.name)
        return Entry(expr.name, tuple(places[a.name] for a in expr.over))

    def _scalar(self, expr: Scalar, places: Places, heads: Heads) -> Term:
        return size_term(expr.value)

    def _table(self, expr: Table, places: Places, heads: Heads) -> Term:
        self._given(expr.name, expr)
        self.tables.setdefault(expr.name, dict(_cells(expr.values, ())))
        return Entry(expr.name, tuple(places[a.name] for a in expr.over))

    def _compare(self, expr: Compare, places: Places, heads: Heads) -> Term:
        left, right, offset = places[expr.left.name], places[expr.right.name], expr.offset
        bracket: Term
        match expr.op:
            case "eq" | "ne":
                bracket = Cmp("eq", left, right, offset)
            case "le" | "gt":
                bracket = Cmp("le", left, right, offset)
            case _:
                bracket = Cmp("le", right, left, -offset)
        return bracket if expr.op in ("eq", "le", "ge") else Add((ONE, Mul((Num(Fraction(-1)), bracket))))

    def _map(self, expr: Map, places: Places, heads: Heads) -> Term:
        args = tuple(self.at(arg, places, heads) for arg in expr.args)
        match expr.op:
            case "add":
                return Add(args)
            case "mul":
                return Mul(args)
            case "neg":
                return Mul((Num(Fraction(-1)), *args))
            case _ if len(args) == 1:
                return Apply(expr.op, args[0])
            case _:
                raise AxisProblem(f"{expr.op} of several arguments is not in the proof language")

    def _bound(self, op: str, over: tuple[Axis, ...], places: Places, heads: Heads, body: Any) -> Term:
        """``op`` over all positions of some axes; ``body`` gives the term once the positions are added."""
        if not over:
            return body(places)  # type: ignore[no-any-return]
        addends = []
        for variables, index in positions(over[0], _names(places, heads), _is_opened(over[0])):
            inner = self._bound(op, over[1:], {**places, over[0].name: index}, heads, body)
            for var in reversed(variables):
                inner = Bind(op, var, inner)
            addends.append(inner)
        if op != "sum" and len(addends) > 1:
            raise AxisProblem(f"{op} over a concatenated axis is not in the proof language")
        return addends[0] if len(addends) == 1 else Add(tuple(addends))

    def _contract(self, expr: Contract, places: Places, heads: Heads) -> Term:
        def body(inner: Places) -> Term:
            return Mul(tuple(self.at(arg, inner, heads) for arg in expr.args))

        return self._bound("sum", expr.summed, places, heads, body)

    def _reduce(self, expr: Reduce, places: Places, heads: Heads) -> Term:
        return self._bound(expr.op, expr.over, places, heads, lambda inner: self.at(expr.arg, inner, heads))

    def _softmax(self, expr: Softmax, places: Places, heads: Heads) -> Term:
        def weight(inner: Places) -> Term:
            power: Term = Apply("exp", self.at(expr.arg, inner, heads))
            return power if expr.keep is None else Mul((self.at(expr.keep, inner, heads), power))

        total = self._bound("sum", expr.over, places, heads, weight)
        return Mul((weight(places), Apply("inv", total)))

    def _split(self, expr: Split, places: Places, heads: Heads) -> Term:
        parts = tuple(places[f.name] for f in expr.axis_.factors)
        return self.at(expr.arg, {**places, expr.axis_.name: terms.join(domain(expr.axis_), parts)}, heads)

    def _join(self, expr: Join, places: Places, heads: Heads) -> Term:
        (whole,) = (a for a in expr.axes if a.factors == expr.factors)
        parts = {f.name: terms.part(places[whole.name], domain(whole), n) for n, f in enumerate(whole.factors)}
        return self.at(expr.arg, {**places, **parts}, heads)

    def _same_places(self, expr: Transpose | Repeat, places: Places, heads: Heads) -> Term:
        return self.at(expr.arg, places, heads)

    def _rename(self, expr: Rename, places: Places, heads: Heads) -> Term:
        place = _read(places, (expr.new,), (expr.old,))[expr.old.name]
        return self.at(expr.arg, {**places, expr.old.name: place}, heads)

    def _reshape(self, expr: Reshape, places: Places, heads: Heads) -> Term:
        return self.at(expr.arg, _read(places, expr.shape, expr.arg.axes), heads)

    def _permute(self, expr: Permute, places: Places, heads: Heads) -> Term:
        perm, name = expr.perm, expr.perm.axis.name
        self._given(f"{perm.name}()", perm.axis)
        self.bijections[perm.name] = domain(perm.axis)
        return self.at(expr.arg, {**places, name: terms.perm(perm.name, perm.inverted, places[name])}, heads)

    def _select(self, expr: Select, places: Places, heads: Heads) -> Term:
        at = heads[expr.at] if isinstance(expr.at, HeadIndex) else At(expr.at)
        return self.at(expr.arg, {**places, expr.axis_.name: at}, heads)

    def _stack(self, expr: Stack, places: Places, heads: Heads) -> Term:
        return self.at(expr.body, places, {**heads, expr.index: places[expr.index.axis.name]})

    def _concat(self, expr: Concat, places: Places, heads: Heads) -> Term:
        (whole,) = (a for a in expr.axes if a.factors == (expr.index.axis, expr.along))
        head, inner = (terms.part(places[whole.name], domain(whole), n) for n in (0, 1))
        return self.at(expr.body, {**places, expr.along.name: inner}, {**heads, expr.index: head})

    def _total(self, expr: Total, places: Places, heads: Heads) -> Term:
        addends = []
        axis = expr.index.axis
        for variables, index in positions(axis, _names(places, heads), _is_opened(axis)):
            inner = self.at(expr.body, places, {**heads, expr.index: index})
            for var in reversed(variables):
                inner = Bind("sum", var, inner)
            addends.append(inner)
        return addends[0] if len(addends) == 1 else Add(tuple(addends))

    def _blocks(self, expr: Blocks, places: Places, heads: Heads) -> Term:
        (whole,) = (a for a in expr.axes if a.blocks == expr.parts)
        index = places[whole.name]
        if not isinstance(index, Inj):
            raise AxisProblem(f"a position of {whole.name!r} must lie in a known block", where="blocks")
        return self.at(expr.args[index.number], {**places, expr.parts[index.number].name: index.index}, heads)

    def _block(self, expr: Block, places: Places, heads: Heads) -> Term:
        piece = expr.axis_.blocks[expr.number]
        place = Inj(places[piece.name], domain(expr.axis_), expr.number)
        return self.at(expr.arg, {**places, expr.axis_.name: place}, heads)

    def _named(self, expr: Named, places: Places, heads: Heads) -> Term:
        """An entry of a defined tensor; where an axis is a concatenation, of the tensor that it is in one block."""
        used = _free_heads(expr.arg)
        opened = [_opened(i.axis, heads[i]) for i in used] + [_opened(a, places[a.name]) for a in expr.axes]
        name = expr.name + "".join(f".{block}" for one in opened for block in one.blocks)
        while name in self.given or self.named.setdefault(name, expr) != expr:
            name += "'"
        if name not in self.definitions:
            names = [i.name for i in used] + [""] * len(expr.axes)
            params: list[Var] = []
            made: list[terms.Index] = []
            for one, called in zip(opened, names, strict=True):
                inner: list[terms.Index] = []
                for axis in one.axes:
                    inner.append(_new_var(axis, {v.name for v in params}, called if not one.blocks else ""))
                    params.append(inner[-1])  # type: ignore[arg-type]
                made.append(one.build(inner))
            at_heads = dict(zip(used, made, strict=False))
            at_places = {a.name: index for a, index in zip(expr.axes, made[len(used) :], strict=True)}
            self.definitions[name] = Definition(tuple(params), self.at(expr.arg, at_places, at_heads))
        return Entry(name, tuple(index for one in opened for index in one.parts))

    def _given(self, name: str, what: Any) -> None:
        """Remember what a name of an input, a table or a bijection stands for.

        Raises:
            AxisProblem: if it already stands for something else; a proof could confuse the two.
        """
        if name in self.named or self.given.setdefault(name, what) != what:
            raise AxisProblem(
                f"the name {name!r} stands for two different things",
                got=f"{self.named.get(name, self.given.get(name))!r}", hint="rename one of them",
            )


_HANDLERS: dict[type[Expr], Any] = {
    Input: Meaning._input, Scalar: Meaning._scalar, Table: Meaning._table, Compare: Meaning._compare,
    Map: Meaning._map, Contract: Meaning._contract, Reduce: Meaning._reduce, Softmax: Meaning._softmax,
    Split: Meaning._split, Join: Meaning._join, Transpose: Meaning._same_places, Repeat: Meaning._same_places,
    Rename: Meaning._rename, Reshape: Meaning._reshape, Permute: Meaning._permute, Select: Meaning._select,
    Stack: Meaning._stack, Concat: Meaning._concat, Total: Meaning._total, Blocks: Meaning._blocks,
    Block: Meaning._block, Named: Meaning._named,
}  # fmt: skip


def _names(*places: Places | Heads) -> set[str]:
    return {name for one in places for index in one.values() for name in terms.free(index)}


def _cells(values: Any, place: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    if isinstance(values, tuple):
        for number, row in enumerate(values):
            yield from _cells(row, (*place, number))
    else:
        exact = sympy.Rational(values)
        yield place, Fraction(int(exact.p), int(exact.q))


def _free_heads(expr: Expr) -> tuple[HeadIndex, ...]:
    """The family indices that occur free, by name."""
    found: set[HeadIndex] = set()
    if isinstance(expr, Select) and isinstance(expr.at, HeadIndex):
        found.add(expr.at)
    for child in expr.children:
        found |= set(_free_heads(child))
    if isinstance(expr, Stack | Concat | Total):
        found.discard(expr.index)
    return tuple(sorted(found, key=lambda index: (index.name, index.axis.name)))


def positions(axis: Axis, taken: set[str], opened: bool = True) -> list[tuple[tuple[Var, ...], terms.Index]]:
    """All positions of an axis as variables and an index made of them: one row a block, products opened."""
    if axis.blocks:
        return [
            (variables, Inj(index, domain(axis), number))
            for number, one in enumerate(axis.blocks)
            for variables, index in positions(one, taken)
        ]
    if axis.factors and opened:
        rows: list[tuple[tuple[Var, ...], tuple[terms.Index, ...]]] = [((), ())]
        for one in axis.factors:
            rows = [
                ((*variables, *more), (*parts, index))
                for variables, parts in rows
                for more, index in positions(one, taken | {v.name for v in variables})
            ]
        return [(variables, terms.join(domain(axis), parts)) for variables, parts in rows]
    if axis.size == 1:  # a sum over one position is its one addend
        return [((), At(0))]
    var = _new_var(axis, taken)
    return [((var,), var)]


def _leaves(axis: Axis, index: terms.Index) -> list[tuple[Axis, terms.Index]]:
    """A position of an axis as positions of its innermost factors."""
    if not axis.factors:
        return [(axis, index)]
    found = []
    for number, one in enumerate(axis.factors):
        found += _leaves(one, terms.part(index, domain(axis), number))
    return found


def _read(places: Places, shape: tuple[Axis, ...], axes: tuple[Axis, ...]) -> dict[str, terms.Index]:
    """Where row-major order finds, in an array with other axes, what stands at places of a shape.

    Both lists are opened into their innermost factors and grouped where their sizes multiply to the same
    number, so that only what really crosses becomes arithmetic on positions.  Axes with one position do not cross.
    """
    new = [leaf for a in shape for leaf in _leaves(a, places[a.name]) if leaf[0].size != 1]
    every = [leaf for a in axes for leaf, _ in _leaves(a, At(0))]
    old = [leaf for leaf in every if leaf.size != 1]
    reached: list[terms.Index] = []
    while old:
        i, j = _group([a.size for a in old], [a.size for a, _ in new])
        reached += _reread(new[:j], old[:i])
        old, new = old[i:], new[j:]
    rest = iter(reached)
    found = [At(0) if leaf.size == 1 else next(rest) for leaf in every]
    result: dict[str, terms.Index] = {}
    for one in axes:
        count = len(_leaves(one, At(0)))
        result[one.name] = _regroup(one, found[:count])
        found = found[count:]
    return result


def _reread(new: list[tuple[Axis, terms.Index]], old: list[Axis]) -> list[terms.Index]:
    """The places in some axes of what stands, in row-major order, at places in others of the same size together."""
    if [a for a, _ in new] == old:
        return [index for _, index in new]
    whole = new[0][1] if len(new) == 1 else terms.join(_together([a for a, _ in new]), tuple(i for _, i in new))
    return [whole] if len(old) == 1 else [terms.part(whole, _together(old), n) for n in range(len(old))]


def _together(axes: list[Axis]) -> Domain:
    """The domain of positions in several axes at once."""
    factors = tuple(map(domain, axes))
    return Domain("c", Mul(tuple(one.size for one in factors)), factors)


def _regroup(axis: Axis, leaves: list[terms.Index]) -> terms.Index:
    if not axis.factors:
        return leaves[0]
    parts = []
    for one in axis.factors:
        count = len(_leaves(one, At(0)))
        parts.append(_regroup(one, leaves[:count]))
        leaves = leaves[count:]
    return terms.join(domain(axis), tuple(parts))


def _group(old: list[sympy.Expr], new: list[sympy.Expr]) -> tuple[int, int]:
    """The shortest leading groups with equal products; what cannot be grouped goes together."""
    for i, j in sorted(pairs(range(1, len(old) + 1), range(1, len(new) + 1)), key=sum):
        if sympy.expand(sympy.Mul(*old[:i]) - sympy.Mul(*new[:j])) == 0:
            rest_old, rest_new = old[i:], new[j:]
            if bool(rest_old) == bool(rest_new):
                return i, j
    return len(old), len(new)


def goals(meaning: Meaning, name: str, left: Expr, right: Expr) -> tuple[Goal, ...]:
    """A claim entry by entry: one goal for all positions, or one a block, or one a place of a constant table."""
    tabled = any(isinstance(node, Table) for side in (left, right) for node in walk(side))
    rows: list[tuple[tuple[Var, ...], dict[str, terms.Index]]] = [((), {})]
    for axis in left.axes:
        rows = [
            ((*variables, *more), {**places, axis.name: index})
            for variables, places in rows
            for more, index in _stated(axis, {v.name for v in variables}, tabled)
        ]
    made = []
    for number, (variables, places) in enumerate(rows):
        label = name if len(rows) == 1 else f"{name}#{number + 1}"
        right_term = meaning.at(right, places, {})
        made.append(Goal(label, variables, meaning.at(left, places, {}), right_term))
    return tuple(made)


def _stated(axis: Axis, taken: set[str], tabled: bool) -> list[tuple[tuple[Var, ...], terms.Index]]:
    if tabled and axis.is_plain and axis.size.is_Integer:
        return [((), At(n)) for n in range(int(axis.size))]
    if tabled and axis.factors and all(f.is_plain and f.size.is_Integer for f in axis.factors):
        places = pairs(*(range(int(f.size)) for f in axis.factors))
        return [((), terms.join(domain(axis), tuple(map(At, place)))) for place in places]
    return positions(axis, taken)
