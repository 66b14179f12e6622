"""Reading a reader's answer to an exercise, and saying which axis went wrong.

Defines `shapes`, `pattern` and `number`, each of which makes the function that marks answers of one form.  An answer is
read strictly, sign by sign, and never run; one that cannot be read is a `Problem`, one that is wrong is `Marked` so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from mha_sym.axes import Axis
from mha_sym.errors import AxisProblem, Problem
from mha_sym.pattern import members, sides
from mha_sym.render.questions.question import Marked

#: an answer longer than this is not read
LONGEST = 200
_SIZES = r"\s*[0-9]{1,9}\s*(?:,\s*[0-9]{1,9}\s*)*,?\s*"
_SHAPE = re.compile(rf"\({_SIZES}\)|\[{_SIZES}\]|{_SIZES}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,18}|[0-9]{1,3}(?:[, ][0-9]{3}){1,5}", re.ASCII)
_LETTERS = re.compile(r"(?=.*[A-Za-z]{2})\s*[A-Za-z]+\s*(?:,\s*[A-Za-z]+\s*)*->\s*[A-Za-z]+\s*")

Mark = Callable[[str], Marked]


def _bounded(text: str, expected: str) -> str:
    """The answer, if it is short and has no sign that no answer has."""
    if len(text) > LONGEST:
        raise Problem(f"the answer has {len(text)} signs", expected=f"at most {LONGEST}, such as {expected}")
    if not text.strip():
        raise Problem("the answer is empty", expected=expected)
    return text.strip().replace("→", "->")


# ---------------------------------------------------------------- shapes


def shapes(stations: Sequence[Sequence[Axis]], example: str = "(2,6)->(2,3,2)", told: bool = False) -> Mark:
    """A function that marks a chain of shapes against the axes at each station.

    If the task has ``told`` the first shape, an answer may leave it out.

    Example:
        >>> from mha_sym.axes import axis
        >>> t, h, k = axis("t", 5), axis("h", 3), axis("k", 4)
        >>> mark = shapes([(t, h, k), (h, t, k)])
        >>> mark("(5,3,4) -> (3,5,4)").right
        True
        >>> mark("(5,3,4) -> (3,4,5)").words
        ('Shape 2 is wrong at axis 2: it is t, of size 5, and you wrote 4.', 'The sizes are right, their order is not.')
    """
    wanted = [[(one.name, int(one.size)) for one in axes] for axes in stations]

    def mark(text: str) -> Marked:
        given = read_shapes(text, example)
        first = tuple(size for _, size in wanted[0])
        if told and len(given) == len(wanted) - 1 and given[:1] != [first]:
            given = [first, *given]
        for place, (shape, axes) in enumerate(zip(given, wanted, strict=False), start=1):
            found = _shape(place, shape, axes)
            if found is not None:
                return found
        if len(given) != len(wanted):
            where = f"there are {len(wanted)} shapes on the way, and you wrote {len(given)}"
            return Marked(False, (f"What you wrote is right as far as it goes, but {where}.",))
        return Marked(True, (f"Right: {' -> '.join(map(_told, stations))}.",))

    return mark


def read_shapes(text: str, expected: str = "(2,6)->(2,3,2)") -> list[tuple[int, ...]]:
    """A chain such as ``(2,5,12)->(2,5,3,4)`` as numbers; brackets may be square, or left out.

    Raises:
        Problem: for anything else.

    Example:
        >>> read_shapes("(2, 5, 12) -> (2, 5, 3, 4)")
        [(2, 5, 12), (2, 5, 3, 4)]
        >>> read_shapes("2,5,12 -> 2,5,3,4") == read_shapes("[2,5,12]->[2,5,3,4]")
        True
    """
    parts = [part.strip() for part in _bounded(text, expected).split("->")]
    for part in parts:
        if not _SHAPE.fullmatch(part):
            raise Problem(
                f"{part!r} is not a shape", expected=f"sizes with commas between them and -> between shapes: {expected}"
            )
    return [tuple(int(n) for n in re.findall("[0-9]+", part)) for part in parts]


def _shape(place: int, shape: tuple[int, ...], axes: Sequence[tuple[str, int]]) -> Marked | None:
    """What is wrong with one shape; None if nothing is."""
    want = tuple(size for _, size in axes)
    if shape == want:
        return None
    names = ", ".join(name for name, _ in axes)
    if len(shape) != len(want):
        told = f"Shape {place} has {len(want)} axes ({names}), and you wrote {len(shape)}."
        return Marked(False, (told, *_entries(shape, want)), next((n for n, s in axes if s not in shape), ""))
    at = next(n for n, (have, size) in enumerate(zip(shape, want, strict=True)) if have != size)
    name, size = axes[at]
    told = f"Shape {place} is wrong at axis {at + 1}: it is {name}, of size {size}, and you wrote {shape[at]}."
    if sorted(shape) == sorted(want):
        return Marked(False, (told, "The sizes are right, their order is not."), name)
    return Marked(False, (told, *_entries(shape, want)), name)


def _entries(shape: Sequence[int], want: Sequence[int]) -> tuple[str, ...]:
    have, need = _product(shape), _product(want)
    return () if have == need else (f"It would hold {have} numbers, and there are {need}.",)


def _product(sizes: Sequence[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def _told(axes: Sequence[Axis]) -> str:
    return "(" + ", ".join(f"{one.name}: {one.size}" for one in axes) + ")"


def shapes_text(stations: Sequence[Sequence[Axis]]) -> str:
    """Axes at each station as a reader would type them.

    Example:
        >>> from mha_sym.axes import axis
        >>> shapes_text([(axis("t", 5), axis("k", 4)), (axis("k", 4), axis("t", 5))])
        '(5,4)->(4,5)'
    """
    return "->".join("(" + ",".join(str(one.size) for one in axes) + ")" for axes in stations)


# ---------------------------------------------------------------- patterns


def pattern(solution: str) -> Mark:
    """A function that marks an einops pattern; other names for the axes are as good if they are used alike.

    Example:
        >>> mark = pattern("b t (h k) -> b h t k")
        >>> mark("n s (heads d) -> n heads s d").right
        True
        >>> mark("b t (k h) -> b h t k").words
        ('(k h) on the left: the first factor is the slowest, so the axis is (h k).',)
        >>> mark("b t (h k) -> b t h k").axis
        'h'
    """
    left, right = read_pattern(solution)

    def mark(text: str) -> Marked:
        have, result = read_pattern(text, solution)
        known = {name for operand in left for group in operand for name in members(group)}
        mine = {name for operand in have for group in operand for name in members(group)}
        if len(have) != len(left):
            return Marked(False, (f"The pattern has {len(left)} operands, and you wrote {len(have)}.",))
        if len(left) == 2 and mine == known and have == left[::-1]:
            have = left
        if mine != known:
            names = _renaming(have, left)
            if isinstance(names, Marked):
                return names
            have, result = [_renamed(one, names) for one in have], _renamed(result, names)
        for operand, want in zip(have, left, strict=True):
            found = _side(operand, want, "left")
            if found is not None:
                return found
        return _side(result, right, "right") or Marked(True, (f"Right: {solution}.",))

    return mark


def read_pattern(text: str, expected: str = "b t (h k) -> b h t k") -> tuple[list[list[str]], list[str]]:
    """The operands, and the result, as names and groups.

    Where no two names stand side by side, they are read as in NumPy's einsum: every letter is an axis.

    Raises:
        Problem: for anything that is not a pattern.

    Example:
        >>> read_pattern("t m, m k -> t k")
        ([['t', 'm'], ['m', 'k']], ['t', 'k'])
        >>> read_pattern("tm,mk->tk") == read_pattern("t m, m k -> t k")
        True
    """
    text = _bounded(text, "an einops pattern, such as 'a b -> b a'")
    if not text.isascii():
        raise Problem("an axis is named by plain letters, digits and _", expected="a pattern such as 'a b -> b a'")
    if "..." in text:
        raise Problem("every axis is to be named, so ... is no answer", expected="a pattern such as 'a b -> b a'")
    if _LETTERS.fullmatch(text):
        text = re.sub("[A-Za-z]+", lambda found: " ".join(found[0]), text)
    left, arrow, right = text.partition("->")
    if not arrow:
        raise AxisProblem(f"pattern {text!r} needs one arrow", expected="such as 'a b -> b a'")
    operands = [sides(f"{one} -> {right}") for one in left.split(",")]
    return [one for one, _ in operands], operands[0][1]


def _renaming(have: Sequence[Sequence[str]], want: Sequence[Sequence[str]]) -> Mapping[str, str] | Marked:
    """Which of our letters each of the reader's names stands for, by its place on the left side."""
    found: dict[str, str] = {}
    for operand, ours in zip(have, want, strict=True):
        if [len(members(group)) for group in operand] != [len(members(group)) for group in ours]:
            told = f"The left side has the axes {' '.join(ours)}, and you wrote {' '.join(operand) or 'nothing'}."
            return Marked(False, (told,), next((b for a, b in zip(operand, ours, strict=False) if a != b), ours[-1]))
        theirs = [name for group in operand for name in members(group)]
        for name, letter in zip(theirs, (n for group in ours for n in members(group)), strict=True):
            if found.setdefault(name, letter) != letter:
                return Marked(False, (f"{name} stands for {found[name]} and for {letter}.",), letter)
    for letter in found.values():
        names = [name for name, ours in found.items() if ours == letter]
        if len(names) > 1:
            return Marked(False, (f"{letter} has two names, {' and '.join(names)}.",), letter)
    return found


def _renamed(groups: Sequence[str], names: Mapping[str, str]) -> list[str]:
    return [re.sub(r"\w+", lambda found: names.get(found[0], found[0]), group) for group in groups]


def _side(have: Sequence[str], want: Sequence[str], side: str) -> Marked | None:
    """What is wrong with one side; None if nothing is."""
    mine, ours = ([name for group in part for name in members(group)] for part in (have, want))
    for name in mine:
        if mine.count(name) > 1:
            return Marked(False, (f"{name} stands twice on the {side}.",), name)
    missing, extra = [n for n in ours if n not in mine], [n for n in mine if n not in ours]
    if extra:
        return Marked(False, (f"{extra[0]} does not belong on the {side}.",), extra[0])
    if missing:
        return Marked(False, (f"{missing[0]} is missing on the {side}.",), missing[0])
    return _first_difference(have, want, side) if list(have) != list(want) else None


def _first_difference(have: Sequence[str], want: Sequence[str], side: str) -> Marked:
    for place, (mine, ours) in enumerate(zip(have, want, strict=False), start=1):
        if mine == ours:
            continue
        if sorted(members(mine)) == sorted(members(ours)):
            told = f"{mine} on the {side}: the first factor is the slowest, so the axis is {ours}."
            return Marked(False, (told,), members(ours)[0])
        if members(mine)[0] == members(ours)[0]:
            told = f"axis {place} on the {side} is {ours}, and you wrote {mine}"
        else:
            told = f"axis {place} on the {side} is {ours}, where you put {mine}"
        return Marked(False, (f"{told[0].upper()}{told[1:]}.",), members(ours)[0])
    return Marked(False, (f"The {side} ends too early or too late.",), members(want[-1])[0])


# ---------------------------------------------------------------- numbers


def number(solution: int, mistakes: Mapping[int, str]) -> Mark:
    """A function that marks a whole number; ``mistakes`` says what other numbers would be right for.

    Example:
        >>> mark = number(12, {16: "the biases are counted too"})
        >>> mark("12").right, mark("16").words
        (True, ('16 is not right: the biases are counted too.',))
    """

    def mark(text: str) -> Marked:
        plain = _bounded(text, "a whole number")
        if not _NUMBER.fullmatch(plain):
            raise Problem(f"{plain!r} is not a whole number", expected="digits, such as 1024 or 1,024")
        found = int(plain.replace(",", "").replace(" ", ""))
        if found == solution:
            return Marked(True, (f"Right: {solution}.",))
        why = mistakes.get(found)
        return Marked(False, (f"{found} is not right" + (f": {why}." if why else "."),))

    return mark
