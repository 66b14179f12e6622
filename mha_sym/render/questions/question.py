"""What a question with its answer is, as data to be shown: in a terminal, in JSON, or as a chapter of a book.

Defines `Question`, `Answer` and their parts.  The questions themselves are in `mha_sym.ask`, the text that a terminal
shows in `mha_sym.render.questions.text`; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mha_sym.proof.theorem import Report


@dataclass(frozen=True)
class Finding:
    """One result that the library gave when it was asked.

    Attributes:
        how: which reading gave it: ``prove``, ``refute``, ``count``, ``trace``, ``evaluate`` or ``build``.
        words: what was asked, as a sentence or the beginning of one.
        result: what came out.
        holds: whether that is what the answer rests on; an answer with a finding that does not hold is no answer.
        theorem: the theorem that it belongs to, if any.
        claim: the claim or control of the theorem.
    """

    how: str
    words: str
    result: str
    holds: bool = True
    theorem: str = ""
    claim: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a header, with a title."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Answer:
    """An answer: the short one, the reasons, what the library said of them, and tables."""

    short: str
    paragraphs: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    tables: tuple[Table, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether there are findings and all of them hold."""
        return bool(self.findings) and all(one.holds for one in self.findings)


@dataclass(frozen=True)
class Marked:
    """What is said of a reader's answer.

    Attributes:
        right: whether it is right.
        words: why not, one sentence each; what is right, if it is.
        axis: the axis that went wrong first, if one did.
    """

    right: bool
    words: tuple[str, ...]
    axis: str = ""


@dataclass(frozen=True)
class Exercise:
    """A task whose answer is checked.

    Attributes:
        number: its place among the exercises of its question, from 1.
        prompt: what is asked.
        form: what an answer looks like: ``shapes``, ``pattern`` or ``number``.
        example: an answer of that form to something else.
        solution: the right answer, computed when the question was made.
        mark: reads an answer as text and says what is right or wrong in it.
    """

    number: int
    prompt: str
    form: str
    example: str
    solution: str
    mark: Callable[[str], Marked] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Question:
    """A question, the theorems that answer it, and exercises; `answer` asks the library anew each time."""

    number: int
    name: str
    title: str
    theorems: tuple[str, ...]
    exercises: tuple[Exercise, ...]
    make: Callable[[Mapping[str, Report]], Answer] = field(repr=False, compare=False)

    def answer(self, reports: Mapping[str, Report] = MappingProxyType({})) -> Answer:
        """The answer, with results computed now; what ``reports`` say of theorems is not proved again."""
        return self.make(reports)
