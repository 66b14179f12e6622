"""In which lines of the corpus a fault stands: those of the steps that are wrong, or of the ones that miss something.

Defines `lines_of` and `Lines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from mha_sym.importers.graph import Place
from tests.audit import corpus
from tests.audit.corpus import STEPS
from tests.audit.corpus_items import FAULTS, Item

#: steps that leave something out, or call a right value by another name, and those that compute wrong from then on
AFTER = {
    "enter": ("project",), "read": ("project", "output"), "weights": ("project", "output"), "share": ("product", "mix"),
    "scaled": ("product", "softmax"), "hide": ("scaled", "softmax"), "softmax": ("mix",), "reweigh": ("mix", "softmax"),
    "split": ("product", "mix"), "mix": ("join", "output"), "join": ("output",), "product": ("scaled",),
    "output": ("leave", "output"), "project": ("split",),
}  # fmt: skip

Range = tuple[str, int, int]


@dataclass(frozen=True)
class Lines:
    """Ranges of lines of the wrong steps, and of those that come after them."""

    wrong: frozenset[Range]
    after: frozenset[Range]

    def found(self, place: Place) -> str:
        """``wrong``, ``after`` or ``elsewhere``: where a line stands, or one from which it was called."""
        for name in ("wrong", "after"):
            if any(_inside(one, getattr(self, name)) for one in (place, *place.callers)):
                return name
        return "elsewhere"


def lines_of(item: Item) -> Lines:
    """The lines of the fault of an item."""
    title = item.title.partition(" (")[0]
    fault = next(one for one in FAULTS if one.title == title and one.truth in item.truth)
    wrong = [part for step in fault.steps.values() for part in _ranges(step)]
    after = [part for name in fault.steps for other in AFTER.get(name, ()) for part in _ranges(STEPS[other], True)]
    return Lines(frozenset(wrong), frozenset(after))


def _inside(place: Place, ranges: frozenset[Range]) -> bool:
    return any(place.file == file and first <= place.line <= last for file, first, last in ranges)


def _ranges(step: Any, common: bool = False) -> list[Range]:
    """The lines of a function, of those that it holds on to, and of helpers in its file; ``common`` code if asked."""
    found: list[Range] = []
    waiting, seen = [step], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, FunctionType) and (common or one.__code__.co_filename != corpus.__file__):
            waiting += [one.__code__, *(cell.cell_contents for cell in one.__closure__ or ())]
            waiting += [*(one.__defaults__ or ()), *_helpers(one)]
        elif isinstance(one, CodeType):
            lines = [line for _, _, line in one.co_lines() if line]
            found.append((one.co_filename, min(lines), max(lines)))
            waiting += one.co_consts
    return found


def _helpers(function: FunctionType) -> list[FunctionType]:
    """The functions of the same file that it calls."""
    known = (function.__globals__.get(name) for name in function.__code__.co_names)
    return [one for one in known if isinstance(one, FunctionType) and one.__module__ == function.__module__]
