"""``mha-sym prove``: try theorems and their controls, show a table or print JSON.

It decides the exit code and nothing else: trying is in `mha_sym.cli.workers`, showing in `mha_sym.render.terminal`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mha_sym.cli.common import (
    Exit,
    complain,
    json_option,
    refuse_existing,
    traceback_option,
    wants_traceback,
    write,
    write_file,
    write_json,
)
from mha_sym.cli.fault import written

if TYPE_CHECKING:
    from mha_sym.cli.workers import Answer, Failed


@click.command()
@click.argument("theorems", nargs=-1, metavar="[NAME|PATH]...")
@json_option
@click.option("--no-recheck", is_flag=True, help="Skip the independent comparison at small explicit sizes.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="How many at a time; all processors if omitted.")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="FILE", help="Write the proof of one theorem.")
@click.option("--coq", type=click.Path(path_type=Path), metavar="FILE.v", help="Write it for coqc, one lemma a step.")
@click.option("--metamath", type=click.Path(path_type=Path), metavar="FILE.mm", help="Write it for Metamath verifiers.")
@click.option("--force", is_flag=True, help="Replace FILE if there is one.")
@traceback_option
def prove(
    theorems: tuple[str, ...],
    as_json: bool,
    no_recheck: bool,
    jobs: int | None,
    certificate: Path | None,
    coq: Path | None,
    metamath: Path | None,
    force: bool,
) -> int:
    """Prove theorems for all sizes and refute their controls.

    A PATH is a theorem file or a directory of them.  Without any NAME or PATH, every theorem that comes with mha-sym.
    Ends with 0 only if every theorem is proved and every control refuted.
    """
    from mha_sym.cli.workers import Proved, Task, attempt_all
    from mha_sym.library import spread, theorem_names
    from mha_sym.render.terminal import progress

    names = list(dict.fromkeys(file for one in theorems for file in spread(one))) or list(theorem_names())
    for option, file in (("--certificate", certificate), ("--coq", coq), ("--metamath", metamath)):
        if file is not None:
            if len(names) != 1:
                raise click.UsageError(f"{option} takes one theorem at a time.")
            refuse_existing(file, force=force)
    asked = (certificate is not None, coq is not None, metamath is not None)
    tasks = [Task(name, not no_recheck, *asked) for name in names]
    with progress(len(tasks)) as done:
        answers = attempt_all(tasks, jobs or os.cpu_count() or 1, lambda task: done(task.name))
    for one in answers:
        if isinstance(one, Proved):
            for file, text in ((certificate, one.certificate), (coq, one.coq), (metamath, one.metamath)):
                if file is not None and text:
                    write_file(file, text, force=force)
                elif file is not None:
                    complain(f"{file} is not written: {one.result['name']} is {one.result['verdict']}, not proved")
    if as_json:
        write_json(_object(answers))
    else:
        _show(answers)
    return _exit_code(answers)


def _object(answers: Sequence[Answer]) -> dict[str, object]:
    """What ``--json`` prints; theorems that could not be tried stand apart, since nothing is known of them."""
    from mha_sym.cli.workers import Failed, Proved

    found: dict[str, object] = {"theorems": [a.result for a in answers if isinstance(a, Proved)]}
    failed = [{"name": a.task.name, "message": a.message} for a in answers if isinstance(a, Failed)]
    return {**found, "errors": failed} if failed else found


def _show(answers: Sequence[Answer]) -> None:
    from mha_sym.cli.workers import Proved
    from mha_sym.render.terminal import summary, table

    tried = [a for a in answers if isinstance(a, Proved)]
    results = [a.result for a in tried]
    if answers and not results:
        return  # why nothing was tried is told instead, line by line
    if results:
        write(table(results))
    for one in tried:
        for line in one.remarks:
            write(f"{one.result['name']}: {line}")
    write(summary(results, len(answers) - len(tried)))


def _exit_code(answers: Sequence[Answer]) -> int:
    from mha_sym.cli.workers import Failed

    failed = [a for a in answers if isinstance(a, Failed)]
    _tell(failed)
    if failed:
        return Exit.FAULT if any(one.fault for one in failed) else Exit.UNUSABLE
    if not answers:
        complain("nothing was checked")
    return Exit.OK if answers and all(a.holds for a in answers if not isinstance(a, Failed)) else Exit.FAILED


def _tell(failed: Sequence[Failed]) -> None:
    """One line each; before it where it happened, if that is wanted or a fault of ours, but the same place once."""
    shown = set()
    for one in failed:
        if one.trace not in shown and (one.fault or wants_traceback()):
            click.echo(one.trace, err=True)
            shown.add(one.trace)
        words = "a fault of mha_sym itself, " if one.fault else ""
        named = one.message.startswith((f"{one.task.name} ", f"there is no theorem {one.task.name!r}"))
        complain(f"{words if named else f'{one.task.name}: {words}'}{one.message}")
    faults = dict.fromkeys(one.trace for one in failed if one.fault)
    if faults:
        complain(written("\n".join(faults)))
