"""What the commands share: exit codes, complaints, the options ``--json`` and ``--traceback``, and writing.

Nothing here knows what a theorem is.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

import click

from mha_sym.errors import Problem
from mha_sym.files import refuse_existing as refuse_existing
from mha_sym.files import written_whole

F = TypeVar("F", bound=Callable[..., Any])


class Exit(IntEnum):
    """How a run ends."""

    OK = 0
    FAILED = 1
    UNUSABLE = 2
    FAULT = 70
    INTERRUPTED = 130
    PIPE = 141
    TERMINATED = 143


class Unwritable(OSError):
    """Standard output cannot be written, as on a full disk."""


def complain(message: str, who: str = "mha-sym") -> None:
    """One line to standard error."""
    sys.stderr.write(f"{who}: {message}\n")


def write(text: str) -> None:
    """Text to standard output, ended by one newline.

    Raises:
        Unwritable: if that is not possible; but a reader who is gone is a BrokenPipeError.
    """
    try:
        sys.stdout.write(text.rstrip("\n") + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error.errno, error.strerror) from error
    except UnicodeEncodeError as error:
        raise Problem(
            f"standard output cannot show {error.object[error.start]!r} in its encoding, {error.encoding}",
            hint="set PYTHONIOENCODING=utf-8, or write to a file with -o where there is that option",
        ) from error


def write_json(data: Any) -> None:
    """Data as one JSON object on standard output; JSON has no infinities, so they become text."""
    write(json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def json_option(command: F) -> F:
    """The option ``--json``."""
    words = "Print one JSON object to standard output and nothing else."
    return click.option("--json", "as_json", is_flag=True, help=words)(command)


def _remember(context: click.Context, _: click.Parameter, value: bool) -> bool:
    root = context.find_root()
    root.meta["traceback"] = value or root.meta.get("traceback", False)
    return value


def traceback_option(command: F) -> F:
    """The option ``--traceback``, before or after the command's name.  `wants_traceback` reads it."""
    words = "Show where in the code a problem arose."
    return click.option("--traceback", is_flag=True, expose_value=False, callback=_remember, help=words)(command)


def wants_traceback(context: click.Context | None = None) -> bool:
    """Whether ``--traceback`` was given, before or after the command's name."""
    return bool((context or click.get_current_context()).find_root().meta.get("traceback", False))


def write_file(path: Path, content: str | bytes, *, force: bool) -> None:
    """Write a file whole or not at all.

    Raises:
        Problem: if there is such a file and ``force`` is not given, or if it cannot be written.
    """
    refuse_existing(path, force=force)
    data = content.encode() if isinstance(content, str) else content
    place = path.resolve()  # what a link points to, not the link
    try:
        if place.exists() and not place.is_file():
            place.write_bytes(data)  # a device or pipe stays what it is
            return
        with written_whole(place) as (stream, _):
            stream.write(data)
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error.strerror or error}") from error
