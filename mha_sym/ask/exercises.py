"""Making exercises whose solutions are computed: shapes from a trace, patterns, numbers.

Defines `shapes_exercise`, `pattern_exercise`, `number_exercise` and `stations`.  Marking is in `mha_sym.ask.marking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mha_sym.ask import marking
from mha_sym.axes import Axis
from mha_sym.render.questions.question import Exercise
from mha_sym.trace import Step


def stations(steps: Sequence[Step], *names: str) -> tuple[tuple[Axis, ...], ...]:
    """The axes of the steps of these names, and of every split or transpose between the first and the last of them.

    Example:
        >>> from mha_sym.trace import trace_pattern
        >>> found = stations(trace_pattern((2, 5, 12), "b t (h k) -> b h t k", sizes={"h": 3}), "x", "pattern 1")
        >>> [len(axes) for axes in found]
        [3, 4, 4]
    """
    places = [next(n for n, step in enumerate(steps) if step.name == name) for name in names]
    inside = range(min(places), max(places) + 1)
    moves = [n for n in inside if steps[n].operation in ("split", "transpose", "join") and _leads_on(steps, n, places)]
    return tuple(steps[n].axes for n in sorted({*places, *moves}))


def _leads_on(steps: Sequence[Step], place: int, names: Sequence[int]) -> bool:
    """Whether a step without a name reads one of those named, and is read by the next of them."""
    read = set(steps[place].reads) & {n + 1 for n in names}
    return bool(read) and any(place + 1 in steps[n].reads for n in names)


def shapes_exercise(number: int, prompt: str, found: Sequence[Sequence[Axis]], told: bool = False) -> Exercise:
    """An exercise on a chain of shapes; if the prompt has ``told`` the first, an answer may leave it out."""
    example = "(2,6)->(2,3,2)"
    mark = marking.shapes(found, example, told)
    return Exercise(number, prompt, "shapes", example, marking.shapes_text(found), mark)


def pattern_exercise(number: int, prompt: str, solution: str) -> Exercise:
    """An exercise on an einops pattern."""
    return Exercise(number, prompt, "pattern", "a b -> b a", solution, marking.pattern(solution))


def number_exercise(number: int, prompt: str, solution: int, mistakes: Mapping[int, str]) -> Exercise:
    """An exercise on a whole number; ``mistakes`` says what other numbers count."""
    wrong = {n: why for n, why in mistakes.items() if n != solution}
    return Exercise(number, prompt, "number", "1024", str(solution), marking.number(solution, wrong))
