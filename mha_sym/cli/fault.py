"""A fault of mha_sym itself, written down in a file that can be sent with a report of it.

Defines `written`.  The file holds the versions, the command line and where it happened, with the statement and the
proof if two engines contradict each other; nothing of it is sent anywhere.
"""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from itertools import count
from pathlib import Path

from mha_sym import __version__

#: what results may depend on
PACKAGES = ("numpy", "sympy", "einops", "python-flint")


def written(trace: str) -> str:
    """What to do about a fault, in one line, after it was written to a new file in the current directory."""
    try:
        name = _new_file(_report(trace))
    except OSError as error:
        return f"please report it with the lines above (no file could be written: {error.strerror or error})"
    return f"please report it with {name}, which says what was tried"


def _new_file(text: str) -> str:
    for number in count(1):
        path = Path(f"mha_sym-fault-{number}.txt")
        try:
            with path.open("x", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
        except FileExistsError:
            continue
        except OSError:
            path.unlink(missing_ok=True)  # half a report is none
            raise
        return str(path)
    raise AssertionError("there is always another number")


def _report(trace: str) -> str:
    versions = [f"mha_sym {__version__}", f"Python {platform.python_version()} on {platform.platform()}"]
    versions += [f"{name} {_version(name)}" for name in PACKAGES]
    return "\n".join([*versions, f"command: {sys.argv}", "", trace.rstrip(), ""])


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "is not installed"
