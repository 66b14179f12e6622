"""``mha-sym derive``: write down why theorems hold, for people: one of them, or all as a book.

The writing is in `mha_sym.render`; this finds the theorems, proves them and puts the text where it is wanted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mha_sym.cli.check import PAGES, write_page
from mha_sym.cli.common import Exit, complain, refuse_existing, traceback_option, write, write_file
from mha_sym.cli.output import refuse_taken, write_directory
from mha_sym.errors import Problem

if TYPE_CHECKING:
    from mha_sym.proof.theorem import Report
    from mha_sym.render.convention import Convention
    from mha_sym.render.derivation import Derivation

FORMATS = ("unicode", "latex", "latex-fragment", "markdown", "html", "json", "pdf")
BOOKS = ("html", "latex", "pdf")
_BOOKS = ", ".join(BOOKS[:-1]) + f" or {BOOKS[-1]}"


@click.command(short_help="Write a derivation, step by step with reasons, or a book of all.")
@click.argument("theorems", metavar="[NAME|PATH]", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All theorems as a book in the directory of -o: html, latex or pdf.")
@click.option("--format", "style", type=click.Choice(FORMATS), help="Form; that of FILE's name if omitted.")
@click.option("--detail", is_flag=True, help="In Unicode: open every claim into its steps.")
@click.option("--head", type=click.Choice(["r", "h", "i"]), default="r", show_default=True, help="Letter of a head.")
@click.option("--vectors", type=click.Choice(["row", "column"]), default="row", show_default=True, help="x W, or W x.")
@click.option("--axes", is_flag=True, help="Name the axes of every entry.")
@click.option("--from", "code", metavar="FILE.py:OBJECT", help="Instead of a theorem: code, as for mha-sym check.")
@click.option("--heads", type=click.IntRange(min=1), metavar="N", help="With --from: its heads, if it does not say.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if there is one.")
@traceback_option
def derive(
    theorems: tuple[str, ...], every: bool, style: str | None, detail: bool, head: Literal["r", "h", "i"],
    vectors: Literal["row", "column"], axes: bool, code: str | None, heads: int | None, output: Path | None,
    force: bool,
) -> int:  # fmt: skip
    """Derive a theorem: statement, assumptions, steps with reasons, controls with counterexamples.

    With --all, an index and a page (or chapter) for every theorem, and questions with exercises.  With --from, a page
    about code: what it should compute, what it computes, and where they part; this runs the code.
    """
    from mha_sym.render.convention import Convention

    _refuse_mixed(theorems, every, code, heads)
    if code is not None:
        return _from_code(code, heads, style or _form(output, "html"), output, force)
    style = style or _form(None if every else output, "unicode")
    if every and (output is None or style not in BOOKS):
        raise click.UsageError(f"--all writes a book into a directory: give -o DIRECTORY and --format {_BOOKS}.")
    if output is None and style == "pdf":
        raise click.UsageError("A PDF is not shown in a terminal: give -o FILE.pdf, which says where to write it.")
    if detail and style != "unicode":
        raise click.UsageError(f"--detail is about Unicode: {style} has the steps of every claim in any case.")
    convention = Convention(head, vectors, axes)
    if every:
        assert output is not None
        return _book(style, convention, output, force)
    return _one(theorems[0], style, convention, detail, output, force)


def _refuse_mixed(theorems: tuple[str, ...], every: bool, code: str | None, heads: int | None) -> None:
    """Refuse what is not one thing to write, and an option that would say nothing."""
    if len(theorems) > 1:
        raise click.UsageError("One theorem at a time: give one NAME or PATH, or --all for a book of all.")
    given = [name for name, one in (("NAME", theorems), ("--all", every), ("--from", code is not None)) if one]
    if not given:
        raise click.UsageError(f"Give the NAME or PATH of one theorem, or --all, or --from. {_names()}")
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} are different things to write: give one of them.")
    if heads is not None and code is None:
        raise click.UsageError("--heads is about code: it goes with --from.")


def _names() -> str:
    """The theorems that may be named."""
    from mha_sym.library import theorem_names

    return f"The theorems are {', '.join(theorem_names())}."


# ---------------------------------------------------------------- one theorem


def _one(theorem: str, style: str, convention: Convention, detail: bool, output: Path | None, force: bool) -> int:
    from mha_sym.library import load
    from mha_sym.proof import prover
    from mha_sym.render.convention import rewritten
    from mha_sym.render.derive import derive as written

    if output is not None:
        refuse_existing(output, force=force)
    report = prover.prove(load(theorem), recheck=True)
    known = {"unicode": "unicode" if detail else "stages", "pdf": "latex"}
    shown: list[Derivation] = []

    def rewrite(found: Derivation) -> Derivation:
        shown.append(rewritten(found, convention))
        return shown[-1]

    text = written(report, known.get(style, style), rewrite)
    if output is None:
        write(text)
    elif style == "pdf":
        _pdf_file(output, text, force)
    else:
        write_file(output, text if text.endswith("\n") else text + "\n", force=force)
    return _verdict([report], shown)


def _pdf_file(output: Path, latex: str, force: bool) -> None:
    """The PDF; without a TeX engine the LaTeX beside it, and the complaint that says what is missing."""
    from mha_sym.render.latex.pdf import pdf

    try:
        content = pdf(latex)
    except Problem:
        beside = output.with_suffix(".tex")
        write_file(beside, latex, force=force)
        complain(f"{beside} is written")
        raise
    write_file(output, content, force=force)


def _verdict(reports: Iterable[Report], shown: Iterable[Derivation]) -> int:
    """The exit code, and a line for every theorem that does not hold, or of which numbers deny what is written."""
    from mha_sym.proof.theorem import Verdict
    from mha_sym.render import sentences

    failed = [one for one in reports if not one.holds]
    for report in failed:
        controls = f"{report.refuted} of {len(report.controls)} controls refuted"
        complain(f"{report.theorem.name}: {report.verdict.value}, {controls}")
    denied = [one for one in shown if one.verdict is Verdict.PROVED and not one.good]
    for found in denied:
        complain(f"{found.name}: {sentences.verdict(found)}")
    return Exit.FAILED if failed or denied else Exit.OK


def _form(output: Path | None, otherwise: str) -> str:
    """The form that is meant by the name of a file; ``otherwise`` if that says nothing."""
    known = {**PAGES, ".pdf": "pdf", ".txt": otherwise, "": otherwise}
    if output is not None and output.suffix.lower() not in known:
        endings = ", ".join(sorted(known)[1:])
        raise click.UsageError(f"{output.name} names no form that is known: end it with {endings}, or give --format.")
    return otherwise if output is None else known[output.suffix.lower()]


def _from_code(target: str, heads: int | None, style: str, output: Path | None, force: bool) -> int:
    """A page about an implementation; it ends as ``mha-sym check`` does."""
    from mha_sym.audit.check import check_target
    from mha_sym.audit.reports.page import page_of

    if style not in PAGES.values():
        raise click.UsageError(f"a page about code is html, latex, markdown or json, not {style}")
    if output is not None:
        refuse_existing(output, force=force)
    with contextlib.redirect_stdout(sys.stderr):  # what the code itself prints is not the page
        report = check_target(target, heads=heads)
    if report.problem is not None and not report.compared:
        raise report.problem
    if output is None:
        write(page_of(report, None, style))
    else:
        write_page(output, report, None, force=force, format=style)
    return report.exit_code


# ---------------------------------------------------------------- all of them


def _book(style: str, convention: Convention, output: Path, force: bool) -> int:
    from mha_sym.ask import questions
    from mha_sym.library import load, theorem_names
    from mha_sym.proof import prover
    from mha_sym.render.book import Chapter, html_book, latex_book, related
    from mha_sym.render.convention import rewritten
    from mha_sym.render.derivation import derivation
    from mha_sym.render.terminal import progress

    refuse_taken(output, force=force)
    names, asked = theorem_names(), questions()
    reports, answered = [], []
    with progress(len(names) + len(asked)) as done:
        for name in names:
            reports.append(prover.prove(load(name), recheck=True))
            done(name)
        for question in asked:
            answered.append((question, question.answer({one.theorem.name: one for one in reports})))
            done(question.name)
    others = related(reports)
    chapters = [Chapter(rewritten(derivation(one), convention), others[one.theorem.name]) for one in reports]
    files: dict[str, str | bytes] = dict((html_book if style == "html" else latex_book)(chapters, answered))
    missing = _with_pdf(files) if style == "pdf" else None
    write_directory(output, files, force=force)
    if missing is not None:
        complain(f"the LaTeX is in {output}")
        raise missing
    return _verdict(reports, [one.found for one in chapters])


def _with_pdf(files: dict[str, str | bytes]) -> Problem | None:
    """Put the PDF of a book beside its LaTeX, or say why that is not possible."""
    from mha_sym.render.latex.pdf import pdf

    try:
        files["book.pdf"] = pdf(str(files["book.tex"]))
    except Problem as problem:
        return problem
    return None
