"""The option ``--timeout`` of commands that run other people's code: the command again, in a process that can be ended.

Defines `timeout_option` and `within`.  Code that hangs in a library cannot be interrupted from inside its process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mha_sym.cli.common import Exit, complain, wants_traceback, write_json

F = TypeVar("F", bound=Callable[..., Any])


def timeout_option(command: F) -> F:
    """The option ``--timeout``."""
    words = "Give up after this many seconds."
    kind = click.FloatRange(min=0, min_open=True)
    return click.option("--timeout", type=kind, metavar="SECONDS", help=words)(command)


def within(seconds: float, target: str) -> int:
    """Run the command that is running now, without its time limit, in a process of its own; its exit code.

    A run that takes longer is ended, with one line on standard error, and a report under ``--json``.
    """
    context = click.get_current_context()
    assert context.info_name is not None  # it is a command of the group
    line = [sys.executable, "-m", "mha_sym", *(["--traceback"] if wants_traceback() else []), context.info_name]
    sys.stdout.flush()
    with subprocess.Popen([*line, *_arguments(context)], start_new_session=True) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return _gave_up(seconds, target, bool(context.params.get("as_json")))
        except BaseException:
            _end(process)
            raise


def _arguments(context: click.Context) -> list[str]:
    """The arguments and options that were given, but for the time limit."""
    found: list[str] = []
    for one in context.command.params:
        value = context.params.get(one.name or "")
        if one.name == "timeout" or value is None or value == ():
            continue
        if isinstance(one, click.Argument):
            found += ["--", str(value)]
        elif isinstance(one, click.Option) and one.is_flag:
            found += one.opts[:1] if value else one.secondary_opts[:1]
        else:
            values = value if isinstance(value, tuple) else (value,)
            found += [word for each in values for word in (one.opts[0], str(each))]
    return sorted_with_arguments_last(found)


def sorted_with_arguments_last(line: list[str]) -> list[str]:
    """A command line with what stands behind ``--`` at its end.

    Example:
        >>> sorted_with_arguments_last(["--", "a.py:f", "--heads", "3"])
        ['--heads', '3', '--', 'a.py:f']
    """
    if "--" not in line:
        return line
    start = line.index("--")
    return [*line[:start], *line[start + 2 :], *line[start : start + 2]]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _gave_up(seconds: float, target: str, as_json: bool) -> int:
    said = f"{target} ran over the time limit of {seconds:g} seconds"
    if as_json:
        write_json({"target": target, "verdict": "error", "problem": said})
    else:
        complain(said)
    return Exit.UNUSABLE
