"""Refuting: values of the inputs, at small sizes, where the two sides of a claim certainly differ.

Candidates are looked for and made smaller in floating point; a counterexample is reported only when exact
rationals or disjoint real balls confirm it.  Finding none says nothing.  Defines `refute`, and `possible`, which says
whether values are found for which assumptions hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from mha_sym.arrays import size_value
from mha_sym.errors import NotExact, NoValue
from mha_sym.evaluate import evaluate_all
from mha_sym.exact import Elements, Rationals
from mha_sym.expr import Expr, Input, Permute, Transpose, as_expr, inputs, walk
from mha_sym.plan import least_sizes, plan_of
from mha_sym.proof.balls import REAL, Balls, surely_different
from mha_sym.proof.smaller import Arrays, fewer_positions, settled
from mha_sym.proof.theorem import Assumption, Claim, Counterexample

#: sizes tried first: pairwise distinct, and three heads or more, since wrong permutations may be right at two
FIRST: dict[str, int] = {"B": 2, "T": 4, "S": 5, "d_model": 6, "h": 3, "d_k": 2, "d_v": 7}
SPARE = (3, 2, 5, 4, 7)
#: how densely masks keep at the third draw and in turn after it, since where a row keeps nothing there is no value
DENSER = (0.8, 1.0)
#: the draw at which there is one token: with a causal mask, a softmax over another axis has a value only there
ONE_TOKEN = 5


@dataclass(frozen=True)
class Trial:
    """Concrete sizes, inputs (small integers) and permutations; and which of `DESIGNS` made the masks."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, np.ndarray[Any, Any]]
    permutations: Mapping[str, tuple[int, ...]]
    design: int = 0


def _some_empty(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Nothing is kept in the first row along any axis, nor anywhere if there is one row."""
    kept = mask.copy() if mask.ndim > 1 else np.zeros_like(mask)
    for axis in range(kept.ndim):
        np.moveaxis(kept, axis, 0)[:1] = 0
    return kept


def _one_each(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Each row keeps its last position alone."""
    kept = np.zeros_like(mask)
    kept[..., -1:] = 1
    return kept


#: what is made of random masks: themselves, or what they seldom are
DESIGNS: tuple[Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], ...] = (np.copy, _some_empty, _one_each)


def refute(
    claim: Claim, assumptions: Sequence[Assumption] = (), fixed: Mapping[str, int] | None = None, draws: int = 4
) -> Counterexample | None:
    """A confirmed counterexample, made small, or None.

    Args:
        claim: the two sides.
        assumptions: only inputs that satisfy them count.
        fixed: sizes that may not be changed, by symbol.
        draws: how many random inputs are tried before giving up.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t"),))
        >>> found = refute(Claim("double", x + x, x))
        >>> found.sizes, found.left, found.right
        ({'t': 1}, '4', '2')
    """
    search = _Search(claim, _positive(assumptions), dict(fixed or {}))
    for draw, design in search.turns(draws):
        trial = search.draw(search.first_sizes(draw), draw, design=design)
        if trial is None or not search.differs(trial):
            continue
        small = search.shrink(trial)
        for one in (search.fewer(small), small, trial):
            found = search.confirm(one)
            if found is not None:
                return found
    return None


def possible(assumptions: Sequence[Assumption]) -> bool:
    """Whether values are found for which all assumptions hold; from what never holds anything follows.

    Example:
        >>> from mha_sym.axes import axis
        >>> x = Input("x", (axis("t"),))
        >>> possible([Assumption("x > 9", x - 9)]), possible([Assumption("x > 0", x), Assumption("x < 0", -x)])
        (True, False)
    """
    search = _Search(Claim("assumed", as_expr(0), as_expr(0)), _positive(assumptions), {})
    least = {name: search.least.get(name, 1) for name in search.names}
    wanted = ((search.first_sizes(0), 0, 3), (least, -2, 3), (least, -1000, 1001))
    with np.errstate(over="ignore", invalid="ignore"):  # of large numbers
        return any(search.draw(sizes, n, low, high) is not None for sizes, low, high in wanted for n in range(3))


def _positive(assumptions: Sequence[Assumption]) -> tuple[Expr, ...]:
    return tuple(one.positive for one in assumptions if one.positive is not None)


def _used(exprs: Sequence[Expr]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the inputs and of the size symbols in some expressions."""
    return tuple(dict.fromkeys(one.name for expr in exprs for one in inputs(expr))), tuple(sorted(plan_of(exprs).sizes))


class _Search:
    """A search for one claim."""

    def __init__(self, claim: Claim, positive: tuple[Expr, ...], fixed: dict[str, int]) -> None:
        order = claim.left.axes
        right = claim.right if claim.right.axes == order else Transpose(claim.right, order)
        self.sides = (claim.left, right)
        self.positive = positive
        self.fixed = fixed
        self.used = _used(self.sides)
        every = (*self.sides, *positive)
        self.names = tuple(sorted(plan_of(every).sizes))
        found = {one.name: one for expr in every for one in inputs(expr)}
        self.inputs: tuple[Input, ...] = tuple(found.values())
        self.permutations = {
            n.perm.name: n.perm.axis for expr in every for n in walk(expr) if isinstance(n, Permute)
        }
        self.least = least_sizes(every)

    def first_sizes(self, draw: int) -> dict[str, int]:
        """Sizes to begin with: those of `FIRST`, then unused small ones; larger at each new draw."""
        first = FIRST if draw < 2 else FIRST | {"B": 1}  # at first B is d_k, and they may be taken for each other
        spare = [n for n in SPARE if n not in {first.get(name) for name in self.names}] + list(range(8, 40))
        sizes = {name: first.get(name) or spare.pop(0) for name in self.names}
        more = {name: size + (draw if draw > 1 else 0) for name, size in sizes.items()}
        if draw == ONE_TOKEN:
            more |= {name: 1 for name in ("T", "S") if name in more}
        more = {name: max(size, self.least.get(name, 1)) for name, size in more.items()}
        return more | {name: size for name, size in self.fixed.items() if name in more}

    def turns(self, draws: int) -> list[tuple[int, int]]:
        """Draws by number, each with the number of the design of its masks."""
        masks = any(one.boolean and one.over for one in self.inputs)
        return [(n, 0) for n in range(draws)] + [(0, n) for n in range(1, len(DESIGNS)) if masks]

    def draw(self, sizes: Mapping[str, int], seed: int, low: int = -2, high: int = 3, design: int = 0) -> Trial | None:
        """Random small integers as inputs that satisfy the assumptions; None if ten tries do not."""
        rng = np.random.default_rng(seed)
        perms = {name: _shuffle(rng, size_value(axis, sizes)) for name, axis in self.permutations.items()}
        shapes = [tuple(size_value(a, sizes) for a in one.over) for one in self.inputs]
        for attempt in range(10):
            arrays = {}
            for one, shape in zip(self.inputs, shapes, strict=True):
                values = rng.integers(*((0, 2) if one.boolean else (low, high)), shape)
                if one.boolean and seed > 1:
                    values = (rng.random(shape) < DENSER[seed % len(DENSER)]).astype(np.int64)
                if one.boolean and shape:
                    values = DESIGNS[design](values)
                arrays[one.name] = np.ones(shape) if one.boolean and attempt == 9 else values.astype(float)
            trial = Trial(sizes, arrays, perms, design)
            if self.allowed(trial):
                return trial
        return None

    def allowed(self, trial: Trial) -> bool:
        """Whether the assumptions hold."""
        values = self.values(trial, self.positive) if self.positive else []
        return values is not None and all((v > 0).all() for v in values)

    def values(self, trial: Trial, exprs: Sequence[Expr], exact: Any = None) -> list[Any] | None:
        """The values of some expressions, or None where they have none, as in a row that keeps no key."""
        names, symbols = self.used if exprs is self.sides else _used(exprs)
        arrays = {n: trial.arrays[n] if exact is None else _exact_array(trial.arrays[n], exact) for n in names}
        sizes = {n: trial.sizes[n] for n in symbols}
        try:
            return evaluate_all(
                list(exprs), arrays, sizes=sizes, permutations=trial.permutations, exact=exact,
                functions=_functions(exact),
            )  # fmt: skip
        except NoValue:
            return None

    def gap(self, trial: Trial) -> float:
        """How far apart the sides are in floating point, relative to their size; 0 where they have no value."""
        values = self.values(trial, self.sides)
        if values is None:
            return 0.0
        left, right = (np.asarray(v, float) for v in values)
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            return 0.0
        return float(np.abs(left - right).max() / (1 + np.abs(left).max()))

    def differs(self, trial: Trial) -> bool:
        """Whether the sides seem to differ; a guess that only saves work."""
        return self.gap(trial) > 1e-6

    # ------------------------------------------------------------ making it small

    def shrink(self, trial: Trial) -> Trial:
        """Smaller sizes, then whole inputs zero, as long as the sides differ clearly."""
        trial = self._smaller_sizes(trial)
        for name in trial.arrays:
            trial = self._without(trial, name)
        return trial

    def _smaller_sizes(self, trial: Trial) -> Trial:
        for name in sorted(self.names, key=lambda n: -trial.sizes[n]):
            if name in self.fixed:
                continue
            for size in (n for n in (1, 2, 3) if self.least.get(name, 1) <= n < trial.sizes[name]):
                smaller = self._redraw(trial, {**trial.sizes, name: size})
                if smaller is not None:
                    trial = smaller
                    break
        return trial

    def _redraw(self, trial: Trial, sizes: Mapping[str, int]) -> Trial | None:
        for seed in range(3 if any(one.boolean for one in self.inputs) else 2):
            new = self.draw(sizes, seed, low=0, design=trial.design)
            if new is not None and self.gap(new) > 1e-3:
                return new
        return None

    def _without(self, trial: Trial, name: str) -> Trial:
        """The same with one input zero, if the sides still differ and the assumptions hold."""
        new = replace(trial, arrays={**trial.arrays, name: np.zeros_like(trial.arrays[name])})
        return new if self.gap(new) > 1e-3 and self.allowed(new) else trial

    def fewer(self, trial: Trial) -> Trial:
        """The same without positions that it can do without."""
        if all(size <= self.least.get(name, 1) for name, size in trial.sizes.items()):
            return trial
        kept = settled((*self.sides, *self.positive)) | self.fixed.keys()
        least = {**self.least, **{name: size for name, size in trial.sizes.items() if name in kept}}

        def differs(sizes: Mapping[str, int], arrays: Arrays) -> bool:
            new = replace(trial, sizes=sizes, arrays=arrays)
            return self.gap(new) > 1e-3 and self.allowed(new)

        sizes, arrays = fewer_positions(trial.sizes, trial.arrays, self.inputs, least, differs)
        return replace(trial, sizes=sizes, arrays=arrays)

    # ------------------------------------------------------------ confirming it

    def confirm(self, trial: Trial) -> Counterexample | None:
        """The counterexample, if exact arithmetic agrees that the sides differ."""
        floats = self.values(trial, self.sides)
        if floats is None:
            return None
        gaps = np.abs(np.asarray(floats[0], float) - np.asarray(floats[1], float))
        place = tuple(int(n) for n in np.unravel_index(int(gaps.argmax()), gaps.shape))
        pair = self._exact_pair(trial, place)
        if pair is None:
            return None
        index = {axis.name: n for axis, n in zip(self.sides[0].axes, place, strict=True)}
        shown = {name: _nested(array) for name, array in trial.arrays.items()}
        return Counterexample(dict(trial.sizes), index, *pair, shown, dict(trial.permutations))

    def _exact_pair(self, trial: Trial, place: tuple[int, ...]) -> tuple[str, str] | None:
        """Both values at a place, if they are certainly different: as fractions, else as balls."""
        elements: Elements
        for elements in (Rationals(), Balls()):
            try:
                values = self.values(trial, self.sides, elements)
            except NotExact:  # an exponential or a root: not a fraction
                continue
            if values is None:
                return None
            left, right = (_item(v, place) for v in values)
            if isinstance(elements, Rationals):
                return (str(left), str(right)) if left != right else None
            return (left.str(12), right.str(12)) if surely_different(left, right) else None
        return None


def _functions(exact: Any) -> dict[str, Callable[..., Any]]:
    """Functions of a real number by name, as they are computed here."""
    if exact is None:
        return REAL
    return {name: exact.function(name) if isinstance(exact, Balls) else partial(_no_fraction, name) for name in REAL}


def _no_fraction(name: str, *args: Any) -> Any:
    raise NotExact("its value is no fraction", where=name)


def _item(values: Any, place: tuple[int, ...]) -> Any:
    item = np.asarray(values, object)[place]
    return item.item() if isinstance(item, np.ndarray) else item


def _exact_array(array: np.ndarray[Any, Any], exact: Any) -> np.ndarray[Any, Any]:
    made = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        value = Fraction(int(array[place]))
        made[place] = exact.ball(value) if isinstance(exact, Balls) else value
    return made


def _shuffle(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """A permutation that is not its own inverse, where there is one."""
    if size < 3:
        return tuple(range(size))[::-1]
    while True:
        order = rng.permutation(size)
        if (order[order] != np.arange(size)).any():
            return tuple(int(n) for n in order)


def _nested(array: np.ndarray[Any, Any]) -> Any:
    return array.astype(int).tolist()
