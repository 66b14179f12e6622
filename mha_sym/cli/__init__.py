"""The command ``mha-sym``: the group of commands, and how every run of it ends.

Defines `app` and `main`.  Each command is a file of its own beside this one and imports what it needs when it runs, so
that ``mha-sym --help`` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from mha_sym import __version__
from mha_sym.cli.ask import ask
from mha_sym.cli.check import check
from mha_sym.cli.common import Exit, Unwritable, complain, traceback_option, wants_traceback, write
from mha_sym.cli.convert import convert
from mha_sym.cli.count import count
from mha_sym.cli.critique import critique
from mha_sym.cli.derive import derive
from mha_sym.cli.fault import written
from mha_sym.cli.identify import identify
from mha_sym.cli.prove import prove
from mha_sym.cli.recheck import recheck
from mha_sym.cli.trace import trace
from mha_sym.errors import Problem


@click.group(
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all is well, 1 something is false or disagrees, 2 something could not be run.",
)
@click.version_option(__version__, prog_name="mha-sym")
@traceback_option
@click.pass_context
def app(context: click.Context) -> int:
    """Prove, refute, recheck, derive, trace, count, check and convert multi-head attention, and ask about it."""
    if context.invoked_subcommand is None:
        write(context.get_help())
    return Exit.UNUSABLE


for _command in (prove, recheck, derive, trace, count, check, identify, convert, critique, ask):
    app.add_command(_command)


class Terminated(BaseException):
    """The process was asked to end by SIGTERM: unwound like Ctrl-C, so that nothing half done is left behind."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; ``args`` are those of the process if omitted."""
    try:
        with _terminated_by_signal():
            code = _run(list(sys.argv[1:] if args is None else args))
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        return Exit.PIPE
    except OSError as error:
        _forget_output()
        complain(f"standard output cannot be written: {error.strerror or error}")
        return Exit.UNUSABLE
    except KeyboardInterrupt:
        complain("interrupted")
        return Exit.INTERRUPTED
    except Terminated:
        complain("terminated")
        return Exit.TERMINATED
    return code


def _forget_output() -> None:
    """Give what was not written another place: Python would complain again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _terminated_by_signal() -> Iterator[None]:
    """Turn SIGTERM into `Terminated`, where signals can be handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(args: list[str]) -> int:
    """The exit code of one command; problems are shown here."""
    try:
        with app.make_context("mha-sym", args) as context:
            return _invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        command = getattr(error, "ctx", None)
        complain(error.format_message(), command.command_path if command else "mha-sym")
        return Exit.UNUSABLE


def _invoke(context: click.Context) -> int:
    try:
        return int(app.invoke(context) or 0)
    except Problem as problem:
        if wants_traceback(context):
            traceback.print_exc()
        complain(problem.one_line())
        return Exit.UNUSABLE
    except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError, Unwritable):
        raise
    except Exception:  # noqa: BLE001 - the outermost frame: a fault of ours must not end with the code of a false theorem
        traceback.print_exc()
        complain(f"this is a fault of mha_sym itself; {written(traceback.format_exc())}")
        return Exit.FAULT
