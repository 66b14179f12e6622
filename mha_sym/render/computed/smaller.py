"""Counterexamples with fewer positions: what is shown has no row, head or token that it can do without.

Defines `smaller`.  Every candidate is looked at in floating point first; what comes out was evaluated again, in
fractions or in disjoint real balls, as the one before it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mha_sym.arrays import size_value
from mha_sym.errors import NotExact, NoValue
from mha_sym.evaluate import evaluate_all
from mha_sym.exact import Elements, Rationals
from mha_sym.expr import Expr, Input, Map, Permute, Transpose, walk
from mha_sym.plan import least_sizes, plan_of
from mha_sym.proof.balls import Balls, surely_different
from mha_sym.proof.theorem import Claim, Control, Counterexample

#: sides of which the difference is less, in floating point, are not looked at exactly
CLEAR = 1e-3


def smaller(claim: Claim, assumed: Sequence[Expr], found: Counterexample) -> Counterexample:
    """The counterexample without positions that it can do without, along axes whose size is a symbol of its own.

    Args:
        claim: what it refutes; sizes that a control fixes stay.
        assumed: expressions that are to be positive.
        found: with numbers for all inputs of the claim and of what is assumed.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t", "T"),))
        >>> found = Counterexample({"T": 3}, {"t": 1}, "4", "2", {"x": [0, 2, 1]})
        >>> found = smaller(Claim("double", x + x, x), [], found)
        >>> found.sizes, found.index, found.inputs
        ({'T': 1}, {'t': 0}, {'x': [2]})
    """
    fixed = claim.sizes if isinstance(claim, Control) else {}
    if all(size == 1 or name in fixed for name, size in found.sizes.items()):
        return found
    search = _Search(claim, assumed, fixed)
    start = _Numbers(found.sizes, {name: np.asarray(values, float) for name, values in found.inputs.items()})
    if search.opaque or not start.complete(search.names, search.given):
        return found
    numbers = start
    for name in sorted(found.sizes, key=lambda one: (-found.sizes[one], one)):
        numbers = search.along(name, numbers, found.permutations)
    return (numbers is not start and search.confirmed(numbers, found.permutations)) or found


@dataclass(frozen=True)
class _Numbers:
    """Sizes, and inputs of these sizes."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, Any]

    def complete(self, names: Set[str], given: Sequence[Input]) -> bool:
        """Whether there is a number for every size and every entry."""
        if not (names <= self.sizes.keys() and {one.name for one in given} <= self.arrays.keys()):
            return False
        shapes = {one.name: tuple(size_value(axis, self.sizes) for axis in one.over) for one in given}
        return all(self.arrays[name].shape == shape for name, shape in shapes.items())

    def without(self, name: str, position: int, given: Sequence[Input]) -> _Numbers | None:
        """The numbers without one position in all axes of a size; None if an axis has that size inside another."""
        sizes = {**self.sizes, name: self.sizes[name] - 1}
        arrays = dict(self.arrays)
        for one in given:
            plain = [part for axis in one.over for part in axis.primitive()]
            within = [n for n, part in enumerate(plain) if part.size.free_symbols and str(part.size) == name]
            array = arrays[one.name].reshape([size_value(part, self.sizes) for part in plain])
            for n in within:
                array = np.delete(array, position, n)
            shape = [size_value(axis, sizes) for axis in one.over]
            if array.size != np.prod(shape, dtype=int):
                return None
            arrays[one.name] = array.reshape(shape)
        return _Numbers(sizes, arrays)


class _Search:
    """What is computed for one claim, and what may not change."""

    def __init__(self, claim: Claim, assumed: Sequence[Expr], fixed: Mapping[str, int]) -> None:
        order = claim.left.axes
        self.sides = (claim.left, claim.right if claim.right.axes == order else Transpose(claim.right, order))
        self.assumed = tuple(assumed)
        nodes = [node for side in (*self.sides, *assumed) for node in walk(side)]
        self.opaque = any(isinstance(one, Map) and one.op.startswith("fn:") for one in nodes)
        self.opaque = self.opaque or any(axis.blocks for one in nodes for axis in one.axes)
        self.given = tuple({one.name: one for one in nodes if isinstance(one, Input)}.values())
        self.names = plan_of(self.sides).sizes | (plan_of(self.assumed).sizes if assumed else frozenset())
        self.least = least_sizes((*self.sides, *assumed))
        self.kept = set(fixed)
        permuted = [one.perm.axis for one in nodes if isinstance(one, Permute)]
        self.kept |= {symbol.name for axis in permuted for symbol in axis.size.free_symbols}

    def along(self, name: str, numbers: _Numbers, orders: Mapping[str, Any]) -> _Numbers:
        """The numbers with no more positions of one size than are needed, the last ones gone first."""
        if name in self.kept:
            return numbers
        position = numbers.sizes[name] - 1
        while position >= 0 and numbers.sizes[name] > self.least.get(name, 1):
            fewer = numbers.without(name, position, self.given)
            if fewer is not None and self.differ(fewer, orders):
                numbers = fewer
            position -= 1
        return numbers

    def values(
        self, exprs: Sequence[Expr], numbers: _Numbers, orders: Mapping[str, Any], exact: Elements | None = None
    ) -> list[Any] | None:
        """Some expressions; None where they have no value."""
        plan = plan_of(exprs)
        arrays = {name: numbers.arrays[name] for name in plan.inputs}
        if exact is not None:
            arrays = {name: _exactly(array, exact) for name, array in arrays.items()}
        sizes = {name: numbers.sizes[name] for name in plan.sizes}
        try:
            return evaluate_all(list(exprs), arrays, sizes=sizes, permutations=orders, exact=exact)
        except NoValue:
            return None

    def differ(self, numbers: _Numbers, orders: Mapping[str, Any]) -> bool:
        """Whether the sides seem to differ, and what is assumed holds."""
        values = self.values(self.sides, numbers, orders)
        if values is None or not np.max(np.abs(np.subtract(*values))) > CLEAR:
            return False
        positive = self.values(self.assumed, numbers, orders) if self.assumed else []
        return positive is not None and all((one > 0).all() for one in positive)

    def confirmed(self, numbers: _Numbers, orders: Mapping[str, Any]) -> Counterexample | None:
        """The counterexample, if exact values say so."""
        values = self.values(self.sides, numbers, orders)
        assert values is not None
        apart = np.abs(np.subtract(*values))
        place = tuple(map(int, np.unravel_index(int(apart.argmax()), apart.shape)))
        index = {axis.name: n for axis, n in zip(self.sides[0].axes, place, strict=True)}
        given = {name: array.astype(int).tolist() for name, array in numbers.arrays.items()}
        for left, right in self.exact(numbers, place, orders):
            return Counterexample(dict(numbers.sizes), index, left, right, given, dict(orders))
        return None

    def exact(
        self, numbers: _Numbers, place: tuple[int, ...], orders: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Both values at a place if they are certainly different: as fractions, or else as balls."""
        for elements in (Rationals(), Balls()):
            try:
                values = self.values(self.sides, numbers, orders, elements)
            except NotExact:
                continue
            if values is None:
                return
            left, right = (np.asarray(one, object)[place] for one in values)
            if isinstance(elements, Rationals):
                yield from [(str(left), str(right))] if left != right else []
            else:
                yield from [(left.str(12), right.str(12))] if surely_different(left, right) else []
            return


def _exactly(array: Any, exact: Elements) -> Any:
    made = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        value = Fraction(int(array[place]))
        made[place] = exact.ball(value) if isinstance(exact, Balls) else value
    return made
