"""What untrusted input may not do: crash, hang, take memory, touch other files, run anything.

Defines `Guard`, under which a reader is called.  It watches the process by an audit hook, which cannot be removed, so
it is meant for a process of its own (`tests.fuzz.run`).
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from mha_sym.errors import Problem

#: seconds for one input, and bytes beyond what the process has when it starts
SECONDS, MEMORY = 5.0, 1 << 30

_ROOT = str(Path(__file__).parents[2])
#: where code that is loaded late may come from
_CODE = tuple({_ROOT, sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()})
#: files that are open already, such as one that has no name before it is whole
_HANDLES = "/proc/self/fd/"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: events that nothing which reads a file has a reason for
_NEVER = (
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.listxattr", "os.posix_spawn", "os.putenv", "os.spawn",
    "os.system", "subprocess.Popen", "pty.spawn", "pickle.find_class", "code.__new__", "shutil.copyfile",
    "shutil.move", "shutil.rmtree", "shutil.unpack_archive", "ctypes.dlopen", "webbrowser.open",
)  # fmt: skip
_PATHS = (
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
)  # fmt: skip


class Forbidden(BaseException):
    """Something that no input may lead to; past every handler of what is tested."""


class Guard:
    """Calls readers and raises `Forbidden` for what they must not do; a `Problem` is a proper answer."""

    def __init__(self) -> None:
        self.place = tempfile.mkdtemp(prefix="fuzz-")
        self.active = False
        sys.addaudithook(self._see)
        signal.signal(signal.SIGALRM, self._ring)

    def bound_memory(self) -> None:
        """From now on the process gets no more than 1 GiB beyond what it has."""
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def __call__(self, reader: Callable[..., object], *given: Any) -> object:
        """The answer of a reader, or the problem that it had with what it was given."""
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        self.active = True
        try:
            return reader(*given)
        except Problem as problem:
            if not problem.what.strip() or len(problem.one_line().splitlines()) != 1:
                raise Forbidden(f"no message of one line: {problem!r}") from problem
            return problem
        finally:
            self.active = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *_: object) -> None:
        if self.active:
            raise Forbidden(f"takes longer than {SECONDS:g} seconds")

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in _NEVER or event.startswith("socket."):
            raise Forbidden(f"{event} {args!r}")
        if event == "exec" and isinstance(args[0], CodeType):
            where = args[0].co_filename
            if not where.startswith((*_CODE, "<frozen")):
                raise Forbidden(f"runs {where}")
        if event == "open" and not self._may_open(*args):
            raise Forbidden(f"opens {args!r}")
        if event in _PATHS and not str(args[0]).startswith((self.place, _HANDLES)):
            raise Forbidden(f"{event} {args!r}")

    def _may_open(self, path: Any, _: Any, flags: int) -> bool:
        if isinstance(path, int):
            return True
        where = os.path.abspath(os.fsdecode(path))
        return where.startswith((self.place, _HANDLES)) or (not flags & _WRITES and where.startswith(_CODE))
