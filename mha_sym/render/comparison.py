"""Code beside the form that it should compute, as a page: the right way, the way of the code, and where they part.

Defines `Comparison` and its parts, plain data that an audit fills, and `comparison_page`.  Nothing is found here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mha_sym.expr import Expr
from mha_sym.render.pictures.parts import escaped
from mha_sym.render.pictures.svg import axes_text, trace_svg
from mha_sym.render.pictures.ways import ways_svg
from mha_sym.render.questions.question import Table
from mha_sym.render.trace_text import words as step_words
from mha_sym.render.vocabulary import Vocabulary
from mha_sym.render.web.math import Writer
from mha_sym.render.web.page import page
from mha_sym.trace import Step, trace

#: how some text is written
Writing = Callable[[str], str]

#: what is said of a mistake in code
CODE = ("mend",)
#: after these a name may be broken
BREAKS = re.compile(r"(_|/|:(?!/))")


@dataclass(frozen=True)
class Fork:
    """A value that the code defines in another way.

    Attributes:
        name: what the value is called.
        right: how it should be made; None if it should not be there.
        wrong: how the code makes it.
        formulas: both definitions in LaTeX; an empty one cannot be written.
    """

    name: str
    right: Expr | None
    wrong: Expr
    formulas: tuple[str, str]


@dataclass(frozen=True)
class Mistake:
    """A fault that was named: what is said of it, row by row, and the values in which it shows."""

    name: str
    rows: tuple[tuple[str, str], ...]
    forks: tuple[Fork, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Everything that the page says.

    Attributes:
        title: what was compared.
        good: whether it agrees.
        verdict: the answer in a sentence.
        known: what else is to be said at the top, such as theorems by which something is the same.
        mistakes: the faults that were named.
        tables: what was looked at, and the numbers.
        text: the whole report in plain text.
    """

    title: str
    good: bool
    verdict: str
    known: tuple[str, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    tables: tuple[Table, ...] = ()
    text: str = ""


def comparison_page(found: Comparison) -> str:
    """The page; it needs no script and no network.

    Example:
        >>> text = comparison_page(Comparison("mine.py:attention", True, "It agrees."))
        >>> '<p class="verdict good">It agrees.</p>' in text
        True
    """
    lines = "\n".join(_lines(found, Writer(Vocabulary())))
    return page(found.title, f"<main>\n{lines}\n</main>\n")


def _lines(found: Comparison, writer: Writer) -> Iterator[str]:
    yield f"<h1>{_code(found.title)}</h1>"
    verdict = around(found.verdict, found.title, writer.prose, _code)
    yield f'<p class="verdict {"good" if found.good else "alarm"}">{verdict}</p>'
    yield from (f"<p>{_named(one, writer)}</p>" for one in found.known)
    for n, one in enumerate(found.mistakes):
        yield from _mistake(one, writer, str(n))
    for table in found.tables:
        yield from (f"<h2>{writer.prose(table.title)}</h2>", *_table(table))
    if found.text:
        yield f"<details><summary>The whole report</summary>{_scroll('The whole report', _plain(found.text))}</details>"


def _code(text: str) -> str:
    """As it is typed, with places where a narrow page may break a long name."""
    broken = BREAKS.sub(r"\1<wbr/>", escaped(text))
    return f"<code>{broken}</code>"


def around(text: str, typed: str, words: Writing, code: Writing) -> str:
    """A sentence in which one thing, such as the name of a file, stands as it is typed.

    Example:
        >>> around("Z of w.py:attention differs", "w.py:attention", str.upper, "`{}`".format)
        'Z OF `w.py:attention` DIFFERS'
    """
    before, found, after = text.partition(typed)
    return words(before) + (code(found) + words(after) if found else "")


def _named(text: str, writer: Writer) -> str:
    """A sentence in which the names of theorems stand as they are typed."""
    parts = re.split(r"\b([a-z0-9]+(?:_[a-z0-9]+){2,})\b", text)
    return "".join(_code(part) if n % 2 else writer.prose(part) for n, part in enumerate(parts))


def _plain(text: str) -> str:
    return f"<pre>{escaped(text)}</pre>"


def _scroll(label: str, inside: str) -> str:
    """Something that may be wider than the page."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escaped(label)}">{inside}</div>'


def _table(table: Table) -> Iterator[str]:
    head = "".join(f'<th scope="col">{escaped(one)}</th>' for one in table.header)
    rows = ("".join(f"<td>{escaped(one)}</td>" for one in row) for row in table.rows)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    yield _scroll(table.title, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


# ---------------------------------------------------------------- where they part


def _mistake(found: Mistake, writer: Writer, key: str) -> Iterator[str]:
    yield f"<h2>What is wrong: {_code(found.name)}</h2>"
    rows = [(name, _code(text) if name in CODE else writer.prose(text)) for name, text in found.rows]
    cells = "".join(f'<tr><th scope="row">{escaped(name)}</th><td>{text}</td></tr>' for name, text in rows)
    yield f"<table><tbody>{cells}</tbody></table>"
    for n, fork in enumerate(found.forks):
        yield f'<h3 class="below">How {writer.prose(fork.name)} is made</h3>'
        yield from _fork(fork, writer, f"{key}-{n}")


def _fork(fork: Fork, writer: Writer, key: str) -> Iterator[str]:
    for word, latex in zip(("As it should be:", "In the code:"), fork.formulas, strict=True):
        yield from [f"<p>{word}</p>{writer.latex(latex)}"] if latex else []
    if fork.right is None:
        yield f"<p>There should be no {writer.prose(fork.name)} here.</p>"
        return
    right, wrong = trace(fork.right), trace(fork.wrong)
    yield f"<p>{writer.prose(parting(right, wrong))}</p>"
    yield '<div class="beside">'
    for title, steps in (("The axes as they should be", right), ("The axes in the code", wrong)):
        yield _scroll(title, trace_svg(steps, title=f"{title}: {fork.name}", key=key))
    yield "</div>"
    title, words = f"Where the numbers of {fork.name} go", ("As it should be", "In the code")
    picture = ways_svg(fork.right, fork.wrong, title, key, words)
    yield from [_scroll("Which number lands in which cell", picture)] if picture else []


def with_roots(text: str) -> str:
    """Words about a step, with roots and products as a sentence writes them.

    Example:
        >>> with_roots("step 3 times 1/(√h·√d_k)")
        'step 3 times 1/(sqrt(h) sqrt(d_k))'
    """
    return re.sub(r"√(\w+)", r"sqrt(\1)", text).replace("·", " ")


def parting(right: Sequence[Step], wrong: Sequence[Step]) -> str:
    """Where two ways part, in a sentence.

    Example:
        >>> from mha_sym.trace import trace_pattern
        >>> ways = (trace_pattern((2, 5, 12), pattern, sizes={"h": 3}) for pattern in
        ...     ("b t (h k) -> b h t k", "b t (k h) -> b h t k"))
        >>> parting(*ways)
        'Their axes part at step 1: given (b: 2, t: 5, (h k): 12), and in the code: given (b: 2, t: 5, (k h): 12).'
    """
    for n, (one, other) in enumerate(zip(right, wrong, strict=False), 1):
        said = [step_words(step, steps) for step, steps in ((one, right), (other, wrong))]
        if said[0] != said[1] or one.axes != other.axes:
            told = [f"{words} ({axes_text(step.axes)})" for words, step in zip(said, (one, other), strict=True)]
            same = one.axes == other.axes
            what = "The two ways part" if same else "Their axes part"
            right_, wrong_ = said if same else told
            return with_roots(f"{what} at step {n}: {right_}, and in the code: {wrong_}.")
    longer, which = (right, "the right way") if len(right) > len(wrong) else (wrong, "the code")
    if len(right) == len(wrong):
        return "Step by step the axes are the same; what differs is what is done along them."
    common = min(len(right), len(wrong))
    return f"Their axes part after step {common}: {which} goes on with {step_words(longer[common], longer)}."
