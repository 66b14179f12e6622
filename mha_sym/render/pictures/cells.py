"""Paths of one array beside one another, down to which number lands in which cell.

Defines `Path` and `cells_svg`.  The first path is the right one; every path is run by `mha_sym.evaluate` on the numbers
0, 1, 2, ..., and a cell of another path is marked where it holds another number than the right one.  A number keeps the
colour and the pattern of the head that it belongs to, wherever it goes; what is wrong has a cross as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product, takewhile
from math import ceil, prod
from typing import Any

import numpy as np

from mha_sym.arrays import size_value
from mha_sym.axes import Axis
from mha_sym.errors import AxisProblem, DataProblem, show_axes
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Input, inputs
from mha_sym.render.pictures.parts import HEADS, Look, Picture, element, folded, label, looks_of
from mha_sym.render.pictures.svg import axes_text, strip
from mha_sym.render.trace_text import words
from mha_sym.trace import Step, trace

#: more numbers than this in one array are no picture
MOST = 240
_CELL = 22
_MARGIN = 12
_COLUMN = 172
_BETWEEN = 14
_PANEL = 8


@dataclass(frozen=True)
class Path:
    """One way of the array: what it is called, the expression at its end, and what is done in it.

    ``expr`` has one input and only moves numbers about.
    """

    title: str
    expr: Expr
    words: str = ""


@dataclass(frozen=True)
class _Run:
    """A path with its steps, the numbers after each, and where the last ones are wrong."""

    path: Path
    steps: tuple[Step, ...]
    values: tuple[np.ndarray[Any, Any], ...]
    wrong: np.ndarray[Any, Any]


def cells_svg(
    paths: Sequence[Path],
    sizes: Mapping[str, int] | None = None,
    *,
    heads: str = "h",
    title: str = "Right and wrong",
    key: str = "",
) -> str:
    """The paths side by side as one SVG element: after each step, the axes and every number in its cell.

    Args:
        paths: the right one first; all end in the same axes, in any order.
        sizes: numbers for the symbolic sizes.
        heads: the axis of the right path that says to which head a number belongs.
        title: what the picture is called.
        key: tells it apart from an equal picture in the same page.

    Raises:
        AxisProblem: if the paths end in different axes, or there is no axis ``heads``.
        DataProblem: if a size is missing, or there are too many numbers to draw.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> from mha_sym.expr import Reshape
        >>> from mha_sym.pattern import rearrange
        >>> t, h, k = axis("t", 4), axis("h", 2), axis("k", 3)
        >>> x = Input("x", (t, product(h, k)))
        >>> right = Path("split, then transpose", rearrange(x, "t (h k) -> h t k"))
        >>> picture = cells_svg([right, Path("raw reshape", Reshape(x, (h, t, k)))])
        >>> picture.count('class="mark"'), "18 of 24 numbers in a wrong cell" in picture
        (19, True)

        The nineteenth cross is that of the legend.
    """
    runs = _runs(paths, sizes or {})
    owner = _owner(runs[0], heads)
    names = [one.name for run in runs for s in run.steps for whole in s.axes for one in whole.primitive()]
    count = int(owner.max()) + 1
    picture = Picture(
        title, _describe(runs, sizes or {}),
        [*looks_of(names).items(), *((f"head {n}", _head_look(n)) for n in range(count))], key,
    )  # fmt: skip
    drawing = _Drawing(picture, runs, owner, heads, sizes or {})
    drawing.draw(title, count)
    return picture.svg(drawing.width, drawing.y)


def _head_look(number: int) -> Look:
    return HEADS[number % len(HEADS)]


# ---------------------------------------------------------------- running the paths


def _runs(paths: Sequence[Path], sizes: Mapping[str, int]) -> list[_Run]:
    if not paths:
        raise DataProblem("there is no path to draw", where="cells_svg")
    given = [inputs(path.expr) for path in paths]
    if any(len(found) != 1 or found != given[0] for found in given):
        raise AxisProblem("all paths start from one and the same input", where="cells_svg")
    start = _numbers(given[0][0], sizes)
    goal = paths[0].expr.axes
    found: list[_Run] = []
    right: np.ndarray[Any, Any] | None = None
    for path in paths:
        if set(path.expr.axes) != set(goal):
            raise AxisProblem(
                "the paths end in different axes", where="cells_svg", axes=[show_axes(goal), show_axes(path.expr.axes)]
            )
        steps = trace(path.expr)
        values = tuple(np.asarray(one).astype(int) for one in _evaluated(steps, start, sizes))
        aligned = values[-1].transpose([path.expr.axes.index(one) for one in goal])
        right = aligned if right is None else right
        back = [goal.index(one) for one in path.expr.axes]
        found.append(_Run(path, steps, values, (aligned != right).transpose(back)))
    return found


def _evaluated(steps: Sequence[Step], numbers: np.ndarray[Any, Any], sizes: Mapping[str, int]) -> list[Any]:
    """The array after each step; the first step is the input."""
    symbols = {str(one) for step in steps for axis in step.axes for one in axis.size.free_symbols}
    known = {name: size for name, size in sizes.items() if name in symbols}
    return evaluate_all([step.node for step in steps], {steps[0].name: numbers}, sizes=known)


def _numbers(start: Input, sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """The numbers 0, 1, 2, ... in the shape of the input; small integers are exact in floating point."""
    shape = tuple(size_value(one, sizes) for one in start.axes)
    if prod(shape) > MOST:
        raise DataProblem(
            f"{prod(shape)} numbers are too many to draw one by one", where="cells_svg", expected=f"at most {MOST}",
            got=f"({', '.join(map(str, shape))})", hint="give smaller sizes, all of them different",
        )
    return np.arange(prod(shape), dtype=float).reshape(shape)


def _owner(right: _Run, heads: str) -> np.ndarray[Any, Any]:
    """For each number, the head that it belongs to on the right path, as its last array with a head axis says."""
    for step, value in zip(reversed(right.steps), reversed(right.values), strict=True):
        names = [one.name for one in step.axes]
        if heads in names:
            found = np.zeros(value.size, int)
            found[value] = np.indices(value.shape)[names.index(heads)]
            return found
    raise AxisProblem(
        f"the right path never has an axis {heads!r}", where="cells_svg", axes=[show_axes(right.path.expr.axes)]
    )


def _together(one: _Run, other: _Run) -> int:
    """How many steps two paths begin with alike."""
    pairs = zip(one.steps, other.steps, one.values, other.values, strict=False)
    alike = (a.axes == b.axes and np.array_equal(x, y) for a, b, x, y in pairs)
    return sum(1 for _ in takewhile(bool, alike))


def _describe(runs: Sequence[_Run], sizes: Mapping[str, int]) -> str:
    """The picture in words."""
    told = []
    for run in runs:
        names = [one.name for one in run.path.expr.axes]
        steps = "; ".join(f"{words(s, run.steps, sizes)}, axes {axes_text(s.axes, sizes)}" for s in run.steps)
        cells = "; ".join(f"{place}: {row}" for place, row in _rows(run.values[-1], names))
        told.append(f"{run.path.title}: {steps}. {_verdict(run)}. The numbers: {cells}.")
    return " ".join(told)


def _verdict(run: _Run) -> str:
    wrong, every = int(run.wrong.sum()), run.wrong.size
    return f"{wrong} of {every} numbers in a wrong cell" if wrong else "every number in its cell"


def _rows(values: np.ndarray[Any, Any], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every row along the last axis, with where it is."""
    for place in np.ndindex(values.shape[:-1]):
        where = ", ".join(f"{name} = {n}" for name, n in zip(names, place, strict=False)) or "the row"
        yield where, " ".join(map(str, values[place]))


# ---------------------------------------------------------------- drawing


@dataclass
class _Drawing:
    """What is needed to draw, and how far down it has come."""

    picture: Picture
    runs: Sequence[_Run]
    owner: np.ndarray[Any, Any]
    heads: str
    sizes: Mapping[str, int]
    y: float = 0

    @property
    def column(self) -> float:
        """The width of one path: that of its widest panel, and enough for its words."""
        widest: int = max((value.shape or (1,))[-1] for run in self.runs for value in run.values)
        return float(max(_COLUMN, widest * _CELL + 16))

    @property
    def width(self) -> float:
        """The width of the picture."""
        return 2 * _MARGIN + len(self.runs) * self.column + (len(self.runs) - 1) * _BETWEEN

    def draw(self, title: str, count: int) -> None:
        """Everything, from the title to the legend."""
        self.y = 14
        for line in folded(title, self.width - 2 * _MARGIN, 15, bold=True):
            self.picture.add(label(line, _MARGIN, self.y + 10, 15, self.width - 2 * _MARGIN, class_="bold"))
            self.y += 18
        self._each(self._heading)
        for row in range(max(len(run.steps) for run in self.runs)):
            self._each(partial(self._stage, row))
        self._each(self._result)
        self._legend(count)

    def _each(self, part: Callable[[_Run, float, float], float]) -> None:
        """One part of every path, side by side; the next part begins below the longest."""
        top = self.y + 8
        places = [_MARGIN + n * (self.column + _BETWEEN) for n in range(len(self.runs))]
        self.y = max(part(run, x, top) for run, x in zip(self.runs, places, strict=True))

    def _heading(self, run: _Run, x: float, y: float) -> float:
        for line in folded(run.path.title, self.column, 13, bold=True):
            self.picture.add(label(line, x, y + 10, 13, self.column, class_="bold"))
            y += 16
        for line in folded(run.path.words, self.column, 11.5):
            self.picture.add(label(line, x, y + 9, 11.5, self.column))
            y += 14
        return y

    def _stage(self, row: int, run: _Run, x: float, y: float) -> float:
        """The axes after one step, what was done, and the numbers; a shorter path waits where it leaves the longest."""
        longest = max(self.runs, key=lambda one: len(one.steps))
        together, late = _together(run, longest), len(longest.steps) - len(run.steps)
        if together <= row < together + late:
            return y
        at = row if row < together else row - late
        step, values = run.steps[at], run.values[at]
        told = words(step, run.steps, self.sizes) if at else "the numbers 0, 1, 2, … as given"
        for line in folded(f"{at + 1}. {told}", self.column, 11.5):
            self.picture.add(label(line, x, y + 9, 11.5, self.column))
            y += 14
        strip(self.picture, step.axes, x, y + 3, self.column, self.sizes)
        last = at == len(run.steps) - 1
        return self._panels(values, run.wrong if last else None, step.axes, x, y + 50)

    def _panels(
        self, values: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any] | None, axes: Sequence[Axis], x: float, y: float
    ) -> float:
        """The last two axes as grids of cells, one for each position along the others."""
        lead, (rows, columns) = values.shape[:-2], (values.shape[-2:] if values.ndim > 1 else (1, values.size))
        wide, high = columns * _CELL + 16, rows * _CELL + (16 if prod(lead) > 1 else 2)
        across = max(1, int((self.column + _PANEL) // (wide + _PANEL)))
        for number, place in enumerate(np.ndindex(lead)):
            left = x + (number % across) * (wide + _PANEL)
            top = y + (number // across) * (high + _PANEL)
            name = ", ".join(f"{one.name} = {n}" for one, n in zip(axes, place, strict=False) if self._size(one) > 1)
            if name:
                self.picture.add(label(name, left + 14, top + 9, 11, wide))
                top += 14
            self._grid(values[place], None if wrong is None else wrong[place], left + 14, top)
            self._sides(axes, rows, left, top)
        return y + float(ceil(prod(lead) / across) * (high + _PANEL))

    def _size(self, one: Axis) -> int:
        return size_value(one, self.sizes)

    def _sides(self, axes: Sequence[Axis], rows: int, x: float, y: float) -> None:
        """The name of the axis that runs down, beside its grid."""
        if len(axes) > 1:
            self.picture.add(label(axes[-2].name, x + 5, y + rows * _CELL / 2 + 4, 11, 10, text_anchor="middle"))

    def _grid(self, values: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any] | None, x: float, y: float) -> None:
        table = np.atleast_2d(values)
        marks = np.zeros(table.shape, bool) if wrong is None else np.atleast_2d(wrong)
        for row, column in product(*map(range, table.shape)):
            self._cell(int(table[row, column]), bool(marks[row, column]), x + column * _CELL, y + row * _CELL)
        wide, high = table.shape[1] * _CELL, table.shape[0] * _CELL
        self.picture.add(element("rect", x=x, y=y, width=wide, height=high, class_="frame"))

    def _cell(self, number: int, wrong: bool, x: float, y: float) -> None:
        name = f"head {self.owner[number]}"
        self.picture.patch(name, x, y, _CELL, _CELL, band=6)
        self.picture.add(element("rect", x=x, y=y, width=_CELL, height=_CELL, class_="faint", stroke_width=0.7))
        size = 11 if number < 100 else 9.5
        self.picture.add(label(str(number), x + _CELL / 2 - (1.6 if wrong else 0), y + 14, size, text_anchor="middle"))
        if wrong:
            d = f"M{x + _CELL - 5:g} {y + 1.4:g}l3.8 3.8m0 -3.8l-3.8 3.8"
            self.picture.add(element("path", d=d, class_="mark"))

    def _result(self, run: _Run, x: float, y: float) -> float:
        text = ("✗ " if run.wrong.any() else "✓ ") + _verdict(run)
        for line in folded(text, self.column, 12, bold=True):
            css = "bold wrong" if run.wrong.any() else "bold"
            self.picture.add(label(line, x, y + 6, 12, self.column, class_=css))
            y += 15
        return y

    def _legend(self, count: int) -> None:
        """The heads, and the cross."""
        x, self.y = float(_MARGIN), self.y + 8
        for number in range(count):
            if x + 66 > self.width:
                x, self.y = float(_MARGIN), self.y + 22
            self.picture.patch(f"head {number}", x, self.y, 16, 16, band=8)
            self.picture.add(element("rect", x=x, y=self.y, width=16, height=16, class_="faint", stroke_width=0.7))
            self.picture.add(label(f"{self.heads} = {number}", x + 20, self.y + 12, 11.5))
            x += 66
        self.y += 26
        if any(run.wrong.any() for run in self.runs):
            self.picture.add(element("path", d=f"M{_MARGIN + 4} {self.y - 2:g}l7 7m0 -7l-7 7", class_="mark"))
            told = "another number than the right path puts there"
            self.picture.add(label(told, _MARGIN + 20, self.y + 6, 11.5, self.width - 2 * _MARGIN - 20))
            self.y += 18
        told = "A number has the colour and pattern of the head it belongs to."
        for line in folded(told, self.width - 2 * _MARGIN, 11.5):
            self.picture.add(label(line, _MARGIN, self.y + 6, 11.5))
            self.y += 15
        self.y += 6
