"""Writing several files as one thing: all of them, or none.

Defines `refuse_taken` and `write_directory`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mha_sym.errors import Problem


def refuse_taken(path: Path, *, force: bool) -> None:
    """Complain, before any work is done for it, about a place that is taken.

    Raises:
        Problem: if there is a file, or a directory that is not empty and ``force`` is not given, or nowhere to put it.
    """
    if not path.parent.is_dir():
        raise Problem(f"{path} cannot be written: No such file or directory")
    if path.exists() and not path.is_dir():
        raise Problem(f"{path} is a file", expected="the name of a directory to write")
    if path.is_dir() and any(path.iterdir()) and not force:
        raise Problem(f"{path} exists", hint="give --force to replace the files in it that have the same names")


def write_directory(path: Path, files: Mapping[str, str | bytes], *, force: bool) -> None:
    """Write files into a directory, whole or not at all; other files in it stay as they are.

    Everything is written beside the directory first, so that a full disk is found out before anything is replaced.

    Raises:
        Problem: if the place is taken and ``force`` is not given, or if it cannot be written.
    """
    refuse_taken(path, force=force)
    try:
        _write(path.resolve(), files)
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error.strerror or error}") from error


def _write(path: Path, files: Mapping[str, str | bytes]) -> None:
    beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        for name, content in files.items():
            (beside / name).write_bytes(content.encode() if isinstance(content, str) else content)
        if not path.exists():
            beside.chmod(0o777 & ~_mask())
            os.replace(beside, path)
            return
        for name in files:
            os.replace(beside / name, path / name)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
