"""What a notebook shows of a theorem, of what is known of it, and of a trace.

Defines `Shown`.  How anything looks is decided in `mha_sym.render.notebook`; nothing of that is imported before it is
asked for.
"""

from __future__ import annotations

from importlib import import_module


class Shown:
    """Something that a notebook shows under the names that it looks for.

    The one call upward: who states or traces something need not know how it looks.
    """

    __slots__ = ()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """All forms at once; the notebook takes the best one that it can show."""
        found: dict[str, str] = import_module("mha_sym.render.notebook").bundle(self)
        return found

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def _repr_latex_(self) -> str:
        return self._repr_mimebundle_()["text/latex"]
