"""Where in the user's source an equation of a jaxpr was made.

Defines `place_of`.  JAX keeps the stack of every equation.  A function that JAX has compiled before, such as
``jnp.einsum``, keeps the stack of its first call; its equations are then placed where it is called now.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax

from mha_sym.importers.graph import Place

_JAX = str(Path(jax.__file__).parent)
_OURS = str(Path(__file__).parent.parent)
#: libraries whose lines are shown only where there is no other
_LIBRARIES = ("site-packages", "dist-packages", os.sep + "lib" + os.sep + "python", "<frozen")


def place_of(source_info: Any, otherwise: Place) -> Place:
    """The innermost line of the user's code, or of a library other than JAX, or ``otherwise``."""
    traceback = getattr(source_info, "traceback", None)
    frames = [] if traceback is None else list(_before_ours(traceback.frames))
    outside = [frame for frame in frames if not frame.file_name.startswith(_JAX)]
    theirs = [frame for frame in outside if not any(part in frame.file_name for part in _LIBRARIES)]
    for frame in (*theirs, *outside):
        line = linecache.getline(frame.file_name, frame.line_num).strip()
        return Place(frame.file_name, frame.line_num, line)
    return otherwise


def _before_ours(frames: Iterable[Any]) -> Iterable[Any]:
    """The frames inside of our call."""
    for frame in frames:
        if frame.file_name.startswith(_OURS):
            return
        yield frame


def of_jax(jaxpr: Any) -> bool:
    """Whether the function that an inner jaxpr was made of is JAX's own, and not the user's."""
    words = str(getattr(jaxpr.debug_info, "func_src_info", "") or "")
    return _JAX in words or not words


def is_jax(file: str) -> bool:
    """Whether a file is part of JAX."""
    return file.startswith(_JAX)
