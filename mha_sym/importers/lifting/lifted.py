"""Values on the way from a graph to an expression: an expression, and which of its axes each array axis is made of.

Defines `Lifted`, and the moves between axes that need no arithmetic: `relabel`, `fit` and `regroup`.  Every axis of a
lifted value is *plain*: a product ``(h k)`` is kept as the pair of axes h and k, so that a reshape that only splits and
joins, and a transpose, are bookkeeping; a reshape that crosses axes becomes the raw `Reshape` node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy

from mha_sym.axes import Axis
from mha_sym.expr import Expr, Rename, Repeat, Reshape, Transpose
from mha_sym.importers.sizes import same, total

Leaves = tuple[Axis, ...]


@dataclass(frozen=True)
class Lifted:
    """A value: its entries, and the leaves of each array axis, the slowest first.

    Attributes:
        dims: for each axis of the array the plain axes it is made of; none for an axis of size 1.
        expr: the entries.  It may lack axes of ``dims``: it is the same at all their positions.
        keep: where this is 0 the value is minus infinity, and ``expr`` is of no account.
    """

    dims: tuple[Leaves, ...]
    expr: Expr
    keep: Expr | None = None

    @property
    def leaves(self) -> Leaves:
        """All plain axes in row-major order."""
        return tuple(axis for dim in self.dims for axis in dim)


@dataclass
class Names:
    """Names for new axes: the letter that an axis of this size has elsewhere, then letters with numbers.

    Example:
        >>> from mha_sym.axes import axis
        >>> names = Names({axis("t", "T").size: ("t", "s")})
        >>> [names.fresh(axis("t", "T").size, taken).name for taken in ((), ("t",), ("t", "s"))]
        ['t', 's', 't2']
    """

    letters: dict[sympy.Expr, tuple[str, ...]] = field(default_factory=dict)
    #: blocks of concatenated axes that are products: what is laid end to end is known to be made of heads
    products: Mapping[Axis, Axis] = field(default_factory=dict)

    def learn(self, axes: Iterable[Axis]) -> None:
        """Remember what axes of these sizes are called."""
        for one in axes:
            known = self.letters.get(one.size, ())
            if one.name not in known:
                self.letters[one.size] = (*known, one.name)

    def fresh(self, size: sympy.Expr, taken: Iterable[str]) -> Axis:
        """A new plain axis with a name that is not taken."""
        used = set(taken)
        known = self.letters.setdefault(size, (f"a{len(self.letters)}",))
        numbered = (f"{known[0].rstrip('0123456789')}{n}" for n in range(2, len(used) + len(self.letters) + 3))
        foreign = {name for other, names in self.letters.items() if other != size for name in names}
        return Axis(next(name for name in (*known, *numbered) if name not in used | foreign), size)


def relabel(expr: Expr, pairs: Sequence[tuple[Axis, Axis]]) -> Expr:
    """The axes of an expression under other names, all at once; sizes stay."""
    have = {axis.name for axis in expr.axes}
    todo = [(old, new) for old, new in pairs if old != new and old.name in have]
    leaving = {old.name for old, _ in todo}
    if any(new.name in have for _, new in todo):
        aside = [Axis(f"{old.name}_", old.size) for old, _ in todo]
        while {one.name for one in aside} & (have | {new.name for _, new in todo}):
            aside = [Axis(f"{one.name}_", one.size) for one in aside]
        for (old, _), one in zip(todo, aside, strict=True):
            expr = Rename(expr, old, one)
        todo = [(one, new) for one, (_, new) in zip(aside, todo, strict=True)]
    assert not (have - leaving) & {new.name for _, new in todo}, "axes of one value have names of their own"
    for old, new in todo:
        expr = Rename(expr, old, new)
    return expr


def recut(value: Lifted, first: int, last: int, new: Leaves) -> Lifted:
    """Leaves ``first .. last - 1`` in row-major order read as other leaves of the same number of positions.

    ``dims`` are left to the caller: those of the result hold all leaves as one axis.
    """
    old = value.leaves
    group, rest = old[first:last], (*old[:first], *new, *old[last:])
    made = replace(value, expr=_reread(value.expr, old, group, new), dims=(rest,))
    return made if value.keep is None else replace(made, keep=_reread(value.keep, old, group, new))


def _reread(expr: Expr, leaves: Leaves, group: Leaves, new: Leaves) -> Expr:
    if len(group) == len(new) and all(same(a.size, b.size) for a, b in zip(group, new, strict=True)):
        return relabel(expr, list(zip(group, new, strict=True)))
    have = set(expr.axes)
    if not have & set(group):
        return expr
    order = tuple(a for a in leaves if a in have or a in group)
    ready = in_order(expr, order)
    start = order.index(group[0])
    return Reshape(ready, (*order[:start], *new, *order[start + len(group) :]))


def in_order(expr: Expr, order: Leaves) -> Expr:
    """An expression with exactly these axes: copied along those it lacks, transposed if need be."""
    if expr.axes == order:
        return expr
    if len(expr.axes) < len(order):
        return Repeat(expr, order)
    return Transpose(expr, order)


def fit(value: Lifted, dims: Sequence[Leaves]) -> Lifted:
    """The same value over other leaves, array axis by array axis; an axis of size 1 is copied along new ones."""
    flat, start = value, 0
    pairs: list[tuple[Axis, Axis]] = []
    for have, want in zip(value.dims, dims, strict=True):
        if not have:
            continue
        if len(have) == len(want) and all(same(a.size, b.size) for a, b in zip(have, want, strict=True)):
            pairs += zip(have, want, strict=True)
        else:
            # under names of their own first: other axes may still be called as these are to be called
            aside = tuple(Axis(f"{axis.name}__{start}", axis.size) for axis in want)
            flat = recut(flat, start, start + len(have), aside)
            pairs += zip(aside, want, strict=True)
            start += len(want)
            continue
        start += len(have)
    keep = None if flat.keep is None else relabel(flat.keep, pairs)
    return Lifted(tuple(map(tuple, dims)), relabel(flat.expr, pairs), keep)


@dataclass(frozen=True)
class Regrouped:
    """A reshape as bookkeeping: the value, and the groups of leaves that crossed on the way."""

    value: Lifted
    crossed: tuple[tuple[Leaves, Leaves], ...] = ()


def regroup(value: Lifted, shape: Sequence[sympy.Expr], names: Names) -> Regrouped:
    """Row-major reshape: leaves are joined and split where the sizes allow it, and read anew where axes cross."""
    dims: list[Leaves] = []
    crossed: list[tuple[Leaves, Leaves]] = []
    left, done = list(shape), 0
    while left or done < len(value.leaves):
        rest = value.leaves[done:]
        i, j = _shortest([a.size for a in rest], left)
        group, sizes = rest[:i], left[:j]
        if j == 1 or not group:
            dims += [group] if j == 1 else [()] * j
        else:
            new: Leaves = ()
            for size in sizes:
                taken = [a.name for a in (*value.leaves, *new)]
                new = (*new, names.fresh(size, taken)) if size != 1 else new
            value = recut(value, done, done + i, new)
            crossed.append((group, new))
            by_size = iter(new)
            dims += [(next(by_size),) if size != 1 else () for size in sizes]
            group = new
        done, left = done + len(group), left[j:]
    return Regrouped(replace(value, dims=tuple(dims)), tuple(crossed))


def _shortest(old: Sequence[sympy.Expr], new: Sequence[sympy.Expr]) -> tuple[int, int]:
    """The shortest leading groups with as many entries; all that is left where there are none."""
    if new and new[0] == 1:
        return 0, 1
    for length in range(2, len(old) + len(new) + 1):
        for i in range(1, min(length, len(old) + 1)):
            j = length - i
            if 1 <= j <= len(new) and same(total(old[:i]), total(new[:j])):
                return i, j
    return len(old), len(new)
