"""A trace as a picture: one row a step, its axes as fields, and threads that follow every axis from step to step.

Defines `trace_svg`, and `strip`, the axes of one array as fields, which `mha_sym.render.pictures.cells` uses too.  An
axis keeps its colour, its pattern and the dashes of its thread through splits, joins and transposes.  The words of a
step are those of `mha_sym.render.trace_text`; nothing about axes is worked out here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from mha_sym.axes import Axis, Index, Size
from mha_sym.errors import DataProblem
from mha_sym.render.formulas.size_text import at_sizes, size_text
from mha_sym.render.pictures.parts import Picture, element, folded, label, looks_of
from mha_sym.render.trace_text import Sizes, words
from mha_sym.trace import Step

#: how wide a picture is: it fits a telephone held upright
WIDTH = 380
_MARGIN = 12
#: a plain axis is as wide as this, if there is room
_UNIT = 52
_BOX = 38
_BAND = 8
_GAP = 34
_STRIP = 214
_WORDS = 11.5


@dataclass(frozen=True, slots=True)
class Field:
    """Where a plain axis stands in a strip: the axis that it is, or is a factor or block of, and its place."""

    axis: Axis
    whole: Axis
    x: float
    width: float

    @property
    def middle(self) -> float:
        """Where its threads begin and end."""
        return self.x + self.width / 2


def trace_svg(steps: Sequence[Step], sizes: Sizes = None, title: str = "Axis trace", *, key: str = "") -> str:
    """The steps as one SVG element, which is a file and can stand in a page.

    Args:
        steps: from `mha_sym.trace`, at least one.
        sizes: numbers for symbolic sizes, by name; sizes that are not given stay symbols.
        title: what the picture is called, for those who see it and those who hear it.
        key: tells it apart from an equal picture in the same page.

    Raises:
        DataProblem: if there is no step to draw.

    Example:
        >>> from mha_sym.trace import trace_pattern
        >>> steps = trace_pattern((2, 5, 12), "b t (h k) -> b t h k", "b t h k -> b h t k", sizes={"h": 3})
        >>> picture = trace_svg(steps, title="Heads of 12 features")
        >>> picture.startswith("<svg ") and "Heads of 12 features</title>" in picture
        True
    """
    if not steps:
        raise DataProblem("a trace without steps cannot be drawn", where="trace_svg")
    names = (one.name for step in steps for whole in step.axes for one in whole.primitive())
    picture = Picture(title, describe(steps, sizes), list(looks_of(names).items()), key)
    lines = folded(title, WIDTH - 2 * _MARGIN, 15, bold=True)
    y: float = 14
    for line in lines:
        y += 18
        picture.add(label(line, _MARGIN, y - 8, 15, WIDTH - 2 * _MARGIN, class_="bold"))
    rows = _Rows(picture, steps, sizes, y + 12)
    for step in steps:
        rows.draw(step)
    rows.legend()
    return picture.svg(WIDTH, rows.y + _MARGIN)


def describe(steps: Sequence[Step], sizes: Sizes = None) -> str:
    """The picture in words: every step with its axes.

    Example:
        >>> from mha_sym.trace import trace_pattern
        >>> print(describe(trace_pattern((4, 6), "t (h k) -> t h k", sizes={"h": 2})))
        Step 1, x: given; axes t: 4, (h k): 6. Step 2, pattern 1: (h k) of x becomes h, k; axes t: 4, h: 2, k: 3.
    """
    found = []
    for step in steps:
        each = "".join(f" for each {one.name} in {one.axis.name}" for one in step.family)
        found.append(f"{_head(step)}{each}: {words(step, steps, sizes)}; axes {axes_text(step.axes, sizes)}.")
    return " ".join(found)


def axes_text(axes: Iterable[Axis], sizes: Sizes = None) -> str:
    """Axes with their sizes: ``b: 2, t: 5``; ``none`` for a single number."""
    return ", ".join(f"{one.name}: {_size(one, sizes)}" for one in axes) or "none"


def _size(one: Axis, sizes: Sizes) -> str:
    return _size_text(one.size, tuple((sizes or {}).items()))


@lru_cache(maxsize=1024)
def _size_text(size: Size, sizes: tuple[tuple[str, int], ...]) -> str:
    """The same few sizes stand in every row, and SymPy takes its time to write one."""
    return size_text(at_sizes(size, dict(sizes)))


def _head(step: Step) -> str:
    name = step.name or ", ".join(step.stages)
    return f"Step {step.number}" + (f", {name}" if name else "")


# ---------------------------------------------------------------- the axes of one array


def strip(picture: Picture, axes: Sequence[Axis], x: float, y: float, width: float, sizes: Sizes) -> list[Field]:
    """Draw axes as fields side by side, factors of one axis in one frame; where each plain axis came to stand."""
    count = max(1, sum(len(one.primitive()) for one in axes))
    unit = min(_UNIT, (width - 6 * max(0, len(axes) - 1)) / count)
    found: list[Field] = []
    for one in axes:
        parts = one.primitive()
        wide = unit * len(parts)
        fields = [Field(part, one, x + n * unit, unit) for n, part in enumerate(parts)]
        for part in fields:
            picture.patch(part.axis.name, part.x, y, unit, _BOX, band=_BAND)
            room = unit - 12 if one.blocks else unit
            picture.add(_centred(part.axis.name, part.middle, y + 13, 12.5, room, class_="bold"))
        for part, sign in zip(fields[1:], _signs(one), strict=False):
            picture.add(label(sign, part.x, y + 13, 11, text_anchor="middle"))
        picture.add(_centred(_size(one, sizes), x + wide / 2, y + 26, 10.5, wide))
        picture.add(element("rect", x=x, y=y, width=wide, height=_BOX, rx=3, class_="frame"))
        found += fields
        x += wide + 6
    if not axes:
        picture.add(label("a number", x, y + 20, 11))
    return found


def _signs(one: Axis) -> list[str]:
    """What stands between the parts of an axis: nothing between factors that the frame holds, + between blocks."""
    return ["+"] * (len(one.primitive()) - 1) if one.blocks else []


def _centred(text: str, x: float, y: float, size: float, width: float, **attributes: str) -> str:
    return label(text, x, y, size, width - 4, text_anchor="middle", **attributes)


# ---------------------------------------------------------------- the rows of a trace


class _Rows:
    """The rows drawn so far, and where the axes of the last one stand."""

    def __init__(self, picture: Picture, steps: Sequence[Step], sizes: Sizes, y: float) -> None:
        self.picture, self.steps, self.sizes, self.y = picture, steps, sizes, y
        self.last: list[Field] = []
        self.foot = y
        self.family: tuple[Index, ...] = ()
        self.signs: dict[str, str] = {}

    def draw(self, step: Step) -> None:
        """The row of one step below those before it."""
        if step.family != self.family and step.family:
            self._family(step.family)
        self.family = step.family
        indent = 8 * len(step.family)
        above = self._above(step)
        if any(self._source(step, one, above) for whole in step.axes for one in whole.primitive()):
            self.y += 14  # room for the numbers of the steps that are read from farther up
        top = self.y
        fields = strip(self.picture, step.axes, _MARGIN + indent, top, _STRIP - indent, self.sizes)
        self._threads(step, fields, top, above)
        bottom = self._words(step, top)
        self.last, self.foot = fields, top + _BOX
        self.y = max(top + _BOX + _GAP, bottom + 14)
        if step.family:
            self.picture.add(element("path", d=f"M{_MARGIN} {top - 4}V{self.y - 6}", class_="faint", stroke_width=2))

    def legend(self) -> None:
        """What the signs mean that were drawn."""
        for line in (line for words_ in self.signs.values() for line in folded(words_, WIDTH - 2 * _MARGIN, _WORDS)):
            self.picture.add(label(line, _MARGIN, self.y + 8, _WORDS, WIDTH - 2 * _MARGIN))
            self.y += 14

    def _family(self, family: Sequence[Index]) -> None:
        told = ", ".join(f"{one.name} in {one.axis.name}" for one in family)
        self.picture.add(label(f"for each {told}:", _MARGIN, self.y + 2, 12, class_="bold"))
        self.y += 12
        self.last = []

    def _words(self, step: Step, top: float) -> float:
        """Number, name and what happened, beside the axes; where they end."""
        x, y = _MARGIN + _STRIP + 10, top + 9
        width = WIDTH - _MARGIN - x
        name = step.name or ", ".join(step.stages)
        for line in folded(f"{step.number}. {name or _operation(step)}", width, 12.5, bold=True):
            self.picture.add(label(line, x, y, 12.5, width, class_="bold"))
            y += 14
        for line in folded(words(step, self.steps, self.sizes), width, _WORDS):
            self.picture.add(label(line, x, y, _WORDS, width))
            y += 13.5
        return y - 13.5

    def _above(self, step: Step) -> int:
        """The number of the row before, if it is read and nothing stands between; 0 otherwise."""
        return step.number - 1 if self.last and step.number - 1 in step.reads else 0

    def _threads(self, step: Step, fields: Sequence[Field], top: float, above: int) -> None:
        """Threads from the row before, if it is read; from farther steps a stub with the number of the step."""
        ends = {field.axis.name: field for field in self.last} if above else {}
        mixed = _mixed(self.last, fields) if above and step.change.reread else []
        for origin, field in mixed:
            ends.pop(origin.axis.name, None)
            self._thread(origin, field, top)
            self.signs["mixed"] = "lines that fan out: every one of these axes gets parts of each of those above"
        for field in (one for one in fields if all(one is not drawn for _, drawn in mixed)):
            start = ends.pop(field.axis.name, None)
            if start is not None:
                self._thread(start, field, top)
            elif far := self._source(step, field.axis, above):
                self.picture.thread(field.axis.name, f"M{field.middle:g} {top - 8:g}V{top:g}")
                self.picture.add(label(str(far), field.middle, top - 9, 10.5, text_anchor="middle", class_="halo"))
                self.signs["far"] = "a small number above an axis: the step farther up from which it comes"
        for name, field in ends.items():
            self._end(step, name, field)

    def _thread(self, start: Field, field: Field, top: float) -> None:
        """A thread from a field of the row before."""
        half = (top + self.foot) / 2
        a, b = start.middle, field.middle
        self.picture.thread(start.axis.name, f"M{a:g} {self.foot:g}C{a:g} {half:g} {b:g} {half:g} {b:g} {top:g}")

    def _source(self, step: Step, one: Axis, above: int) -> int:
        """The first step farther up from which an axis comes; 0 if it is new here."""
        for number, axes in zip(step.reads, step.inputs, strict=True):
            if number != above and any(one in whole.primitive() for whole in axes):
                return number
        return 0

    def _end(self, step: Step, name: str, field: Field) -> None:
        """An axis that goes no farther: a short thread to a sum sign, or to nothing."""
        summed = {part.name for one in step.change.summed for part in one.primitive()}
        self.picture.thread(name, f"M{field.middle:g} {self.foot:g}v9")
        sign = "Σ" if name in summed else "–"
        self.signs[sign] = f"{sign}: the axis {'is summed' if name in summed else 'goes no farther'}"
        self.picture.add(label(sign, field.middle, self.foot + 18, 11, text_anchor="middle", class_="halo"))


def _mixed(before: Sequence[Field], after: Sequence[Field]) -> list[tuple[Field, Field]]:
    """Which fields give to which where all entries are read anew: all to all between those that stay at the ends."""
    first, last = 0, 0
    while first < min(len(before), len(after)) and before[first].axis == after[first].axis:
        first += 1
    while last < min(len(before), len(after)) - first and before[-1 - last].axis == after[-1 - last].axis:
        last += 1
    return list(product(before[first : len(before) - last], after[first : len(after) - last]))


def _operation(step: Step) -> str:
    return {"mul": "multiply", "neg": "negate", "inv": "invert"}.get(step.operation, step.operation)
