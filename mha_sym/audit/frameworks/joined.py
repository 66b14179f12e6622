"""Code without an output projection: it gives the heads side by side, and here its output is multiplied by a W_O.

Defines `with_output`, for functions, `first_changed`, `without_projection`, which tells, and `NOTE`, what is said of
such code.  With every W_O the output is right exactly where the heads side by side are right, so that nothing is lost.
Torch modules are in `mha_sym.audit.frameworks.torch_joined`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mha_sym.audit.implementation import Implementation

NOTE = (
    "it has no output projection and gives the heads side by side; a matrix W_O was multiplied to what it gives, on "
    "both sides, and y is what comes of that for every W_O"
)
#: an attribute of what has been given its projection here
MARK = "_gives_heads_side_by_side"


def without_projection(impl: Implementation) -> bool:
    """Whether the projection of an implementation is not its own, but was added here."""
    return hasattr(type(impl.module), MARK) or hasattr(impl.call, MARK)


def with_output(impl: Implementation) -> Implementation:
    """A function that takes every weight but W_O as one that takes it, too; any other implementation as it is.

    Example:
        >>> def heads_only(x, w_q, w_k, w_v, heads):
        ...     return x
        >>> with_output(Implementation(call=heads_only)).arguments
        ('x', 'w_q', 'w_k', 'w_v', 'heads', 'w_o')
    """
    row = impl.how_stored.row("w_o")
    if impl.takes is not None or impl.unreached != (row.stored,) or len(row.groups) != 2 or row.stored in impl.names:
        return impl
    transposed = row.groups[0] == "m"

    @functools.wraps(impl.call)
    def call(*, w_o: Any, **given: Any) -> Any:
        matrix = w_o.swapaxes(0, 1) if transposed else w_o
        return first_changed(impl.call(**given), lambda one: one @ matrix)

    taken = inspect.signature(impl.call)
    names = [replaced for replaced in taken.parameters.values() if replaced.kind is not replaced.VAR_KEYWORD]
    own = inspect.Parameter(row.stored, inspect.Parameter.KEYWORD_ONLY)
    call.__signature__ = taken.replace(parameters=[*names, own])  # type: ignore[attr-defined]
    setattr(call, MARK, True)
    return replace(impl, call=call, name=impl.title, notes=(*impl.notes, NOTE))


def first_changed(made: Any, change: Callable[[Any], Any]) -> Any:
    """What code gives, with y changed: the first of several, or the one of that name."""
    if isinstance(made, Mapping):
        return {word: change(one) if word == "y" else one for word, one in made.items()}
    if isinstance(made, tuple | list):
        return (first_changed(made[0], change), *made[1:])
    return change(made)
