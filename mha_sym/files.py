"""Writing a file whole or not at all, whatever happens on the way.

Defines `refuse_existing` and `written_whole`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mha_sym.errors import Problem


def refuse_existing(path: Path, *, force: bool) -> None:
    """Complain, before any work is done for it, about a file that is there already.

    Raises:
        Problem: if there is such a file and ``force`` is not given, or a directory.
    """
    if path.is_dir():
        raise Problem(f"{path} is a directory", expected="the name of a file to write")
    if path.exists() and not force:
        raise Problem(f"{path} exists", hint="give --force to replace it")


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """A file beside ``path`` to write to, and the name by which it can be read; in the end it takes its place.

    If it does not come to a good end, nothing is left of it, and ``path`` is as it was: where the system can, the file
    has no name before it is whole, so that not even a killed process leaves one.

    Raises:
        OSError: if it cannot be written.

    Example:
        >>> place = Path(tempfile.mkdtemp()) / "a"
        >>> with written_whole(place) as (stream, name):
        ...     _ = stream.write(b"whole")
        >>> place.read_bytes()
        b'whole'
    """
    handle, name = _opened(path)
    try:
        with open(handle, "w+b") as stream:
            yield stream, name
            stream.flush()
            os.chmod(name, _mode(path))
            if not _is_named(name):
                name = _named(path, name)
        os.replace(name, path)
    except BaseException:
        if _is_named(name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
        raise


def _opened(path: Path) -> tuple[int, Path]:
    """A new file in the directory of ``path``, without a name if there are such files."""
    if hasattr(os, "O_TMPFILE"):
        with contextlib.suppress(OSError):  # a file system that has none; whatever else is the matter is told below
            handle = os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
            name = Path(f"/proc/self/fd/{handle}")
            if name.exists():
                return handle, name
            os.close(handle)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    return handle, Path(beside)


def _is_named(name: Path) -> bool:
    return not name.is_relative_to("/proc/self/fd")


def _named(path: Path, handle: Path) -> Path:
    """The file behind a handle, with a name beside ``path``."""
    name = f".{path.name}.{os.urandom(4).hex()}.part"
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.link(handle, name, dst_dir_fd=directory, follow_symlinks=True)
    finally:
        os.close(directory)
    return path.parent / name


def _mode(path: Path) -> int:
    """The permissions the file has, or those that a new file gets."""
    if path.exists():
        return path.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
