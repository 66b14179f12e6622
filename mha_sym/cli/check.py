"""``mha-sym check``: run an implementation against the proven form.

Everything is in `mha_sym.audit`; this passes the options on.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from mha_sym.cli.common import (
    complain,
    json_option,
    refuse_existing,
    traceback_option,
    wants_traceback,
    write,
    write_file,
    write_json,
)
from mha_sym.cli.limit import timeout_option, within


@click.command(short_help="Run an implementation, or a dump of one, against the proven form.")
@click.argument("target", metavar="TARGET")
@click.option("--at", metavar="PATH", help="The part of a model that is meant, such as transformer.h.0.attn.")
@click.option("--heads", type=click.IntRange(min=1), metavar="N", help="Number of heads, if the target does not say.")
@click.option("--kv-heads", type=click.IntRange(min=1), metavar="N", help="Number of key and value heads, if fewer.")
@click.option("--layout", metavar="NAME", help="How weights are stored; found, or 'combined', if omitted.")
@click.option("--config", metavar="FILE.toml", help="Settings of a dump: heads, layout, names, axes, dtype, ...")
@click.option("--causal/--no-causal", default=None, help="Only causal calls, or none; every way it has if omitted.")
@click.option("--aligned", type=click.Choice(["top-left", "bottom-right"]), help="Causal mask where T and S differ.")
@click.option("--batch-first/--no-batch-first", default=None, help="Order of the axes, if the target does not say.")
@click.option("--draws", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="Random inputs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Their seed.")
@click.option("--prove", is_flag=True, help="Prove it, too: for all sizes that its code leaves open, and all weights.")
@click.option("--against", metavar="TARGET", help="With --prove: prove it equal to this one, not to the specification.")
@click.option("-v", "--detail", is_flag=True, help="All that was seen, besides verdict, steps, faults and bound.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write a page: .html, .md, ...")
@click.option("--force", is_flag=True, help="Replace FILE if there is one.")
@timeout_option
@json_option
@traceback_option
def check(
    target: str, at: str | None, as_json: bool, timeout: float | None, prove: bool, against: str | None, detail: bool,
    output: Path | None, force: bool, **options: Any,
) -> int:
    """Check an implementation of multi-head attention.

    TARGET is FILE.py:OBJECT or MODULE:OBJECT, whose code is run: a function, a module, or what makes one.  A dump, a
    file .npz or .safetensors with x, the weights, y and any intermediates, and a file .onnx are read and not run.

    Ends with 0 if it agrees, 1 if it disagrees, 2 if it could not be run; with --prove, 0 needs a proof as well, and
    with --against it needs nothing else.
    """
    if timeout is not None:
        return within(timeout, target)
    if against is not None and not prove:
        raise click.UsageError("--against says what to prove it equal to; give --prove as well")
    if output is not None:
        refuse_page(output, force=force)
    target = _part(target, at)
    if against is not None:
        _loadable(against)
    with contextlib.redirect_stdout(sys.stderr):  # what the target itself prints is not the report
        report = _checked(target, options)
    if report.problem is not None and not report.compared and not as_json:
        raise report.problem
    if report.problem is not None and wants_traceback():
        traceback.print_exception(report.problem)
    proof = _proof(target, against, options, report) if prove and report.compared else None
    if output is not None:
        write_page(output, report, None if proof is None else proof.text(), force=force)
    if as_json:
        write_json(report.json() if proof is None else {**report.json(), "proof": proof.json()})
    else:
        write("\n\n".join(_answers(report.text(detail), None if proof is None else proof.text(), against)))
    if proof is None or against is None:
        return int(report.exit_code) or int(proof is not None and proof.exit_code)
    return int(proof.exit_code)  # it answers what was asked


def _loadable(target: str) -> None:
    """Complain about the other target before the first is run for long.

    Raises:
        Problem: if there is no such file, or nothing of that name in it.
    """
    from mha_sym.audit.target import load

    with contextlib.redirect_stdout(sys.stderr):
        load(target)


def _answers(report: str, proof: str | None, against: str | None) -> list[str]:
    """What is asked first: whether it is attention, or whether it is equal to another one."""
    if proof is None:
        return [report]
    return [report, proof] if against is None else [proof, "Beside that, against the specification in numbers:", report]


def refuse_page(output: Path, *, force: bool) -> None:
    """Complain, before anything is run, about a page that cannot be written.

    Raises:
        UsageError: for a form that nobody knows.
        Problem: if there is such a file and ``force`` is not given.
    """
    if output.suffix.lower() not in PAGES:
        raise click.UsageError(f"give -o a name that ends in .html, .tex, .md or .json, not {output.name!r}")
    refuse_existing(output, force=force)


def write_page(output: Path, report: Any, proof: str | None, *, force: bool, format: str = "") -> None:
    """Write the page about a report, and say so; its form is that of the name unless it is given."""
    from mha_sym.audit.reports.page import page_of

    write_file(output, page_of(report, proof, format or PAGES[output.suffix.lower()]), force=force)
    complain(f"{output} is written: {report.target} {SAID[report.verdict]}")


#: the forms of a page about code, by how its file is called
PAGES = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".tex": "latex", ".md": "markdown", ".json": "json",
}  # fmt: skip
#: what is said of a verdict
SAID = {"agree": "agrees", "disagree": "disagrees", "error": "could not be checked to the end"}


def _part(target: str, at: str | None) -> str:
    """The target, or the part of it that is meant."""
    from mha_sym.audit.target import part_of

    return target if at is None else part_of(target, at)


def _proof(target: str, against: str | None, options: dict[str, Any], report: Any) -> Any:
    """What can be proved of an implementation, and what the report on it adds."""
    from mha_sym.audit.dumps.dump import is_dump
    from mha_sym.audit.proving.report import proved
    from mha_sym.errors import Problem

    if is_dump(target):
        raise Problem("a dump holds numbers, of which nothing can be proved", hint="give the code that computes them")
    words = ("heads", "kv_heads", "layout", "causal", "batch_first")
    with contextlib.redirect_stdout(sys.stderr):
        return proved(target, against, report, **{word: options[word] for word in words})


def _checked(target: str, options: dict[str, Any]) -> Any:
    """The report on a dump, or on an implementation."""
    from mha_sym.audit.check import check_target
    from mha_sym.audit.dumps.dump import check_dump_target, is_dump

    if not is_dump(target):
        return check_target(target, **{name: value for name, value in options.items() if name != "config"})
    unused = ("draws", "seed", "aligned")
    given = {name: value for name, value in options.items() if name not in unused}
    return check_dump_target(target, **{**given, "causal": options["aligned"] or options["causal"]})
