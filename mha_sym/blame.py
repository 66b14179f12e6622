"""Exceptions of the code under test, told as one problem: what was raised, and at which of the user's lines.

Defines `guarded`, the one place that catches whatever foreign code may raise, and `missing_extra`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mha_sym.errors import Problem, TargetProblem

Result = TypeVar("Result")

_OURS = str(Path(__file__).resolve().parent)
_EXTRAS = ("torch", "jax", "flax", "equinox", "keras")
_LIBRARIES = ("site-packages", "dist-packages", "importlib", "<frozen")


def guarded(work: Callable[[], Result], what: str, hint: str = "") -> Result:
    """The result of ``work``, which runs somebody's code; what it prints goes to standard error.

    Args:
        work: what to run.
        what: the beginning of the complaint, such as ``"mymodule.attention raised"``.
        hint: what to do about it.

    Raises:
        TargetProblem: with the type and message of whatever was raised, and the user's file and line.

    Example:
        >>> guarded(lambda: 1 // 0, "f raised")
        Traceback (most recent call last):
            ...
        mha_sym.errors.TargetProblem: f raised ZeroDivisionError: integer division or modulo by zero
        ...
    """
    try:
        with contextlib.redirect_stdout(sys.stderr), _alive():
            return work()
    except Problem:
        raise
    except (Exception, SystemExit) as trouble:  # the code under test may raise anything
        message = " ".join(str(trouble).split())
        kind = type(trouble).__name__
        said = f"{what} {kind}: {message}" if message else f"{what} {kind}"
        raise TargetProblem(said, where=_line(trouble), hint=hint or missing_extra(trouble)) from trouble


@contextlib.contextmanager
def _alive() -> Iterator[None]:
    """While this lasts, ``os._exit`` raises: code under test that ends the process would end it as one that agrees.

    In processes that it forks, ``os._exit`` is what it was.
    """
    leave, here = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != here:
            leave(status)
        raise SystemExit(f"os._exit({status})")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


def _line(trouble: BaseException) -> str:
    """The last line of the traceback that is in the user's own code, ``file:line``."""
    if isinstance(trouble, SyntaxError) and trouble.filename:
        return f"{trouble.filename}:{trouble.lineno}"
    frames = [frame for frame in traceback.extract_tb(trouble.__traceback__) if not frame.filename.startswith(_OURS)]
    own = [frame for frame in frames if not any(part in frame.filename for part in _LIBRARIES)]
    chosen = own or frames
    return f"{chosen[-1].filename}:{chosen[-1].lineno}" if chosen else ""


def missing_extra(trouble: BaseException) -> str:
    """The extra to install when a framework is not there.

    Example:
        >>> missing_extra(ModuleNotFoundError("No module named 'torch'", name="torch"))
        "install mha_sym with the extra 'torch'"
    """
    name = (trouble.name or "").split(".")[0] if isinstance(trouble, ImportError) else ""
    return f"install mha_sym with the extra {name!r}" if name in _EXTRAS else ""


def import_torch() -> Any:
    """The module torch.

    Raises:
        TargetProblem: naming the extra to install, if torch is not there.
    """
    try:
        import torch
    except ImportError as trouble:
        raise TargetProblem("torch is not installed", hint="install mha_sym with the extra 'torch'") from trouble
    return torch
