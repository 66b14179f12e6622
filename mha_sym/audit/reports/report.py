"""The report of a check: its data, its text, its JSON and its page in a notebook.

Defines `CheckReport`.  What it holds is in `mha_sym.audit.reports.reported`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mha_sym.audit.reports.html import html_of
from mha_sym.audit.reports.json import json_of
from mha_sym.audit.reports.page import comparison_of
from mha_sym.audit.reports.reported import Reported
from mha_sym.audit.reports.text import text_of
from mha_sym.render.comparison_forms import comparison_cell, comparison_markdown


@dataclass(frozen=True)
class CheckReport(Reported):
    """The result of checking an implementation; its fields are those of `mha_sym.audit.reports.reported.Reported`."""

    def text(self, detail: bool = False) -> str:
        """The report for people, in plain text.

        Args:
            detail: with conventions, sizes, formulas of every value, axes, probes and all that was compared.
        """
        return text_of(self, detail)

    def json(self) -> dict[str, Any]:
        """The report for programs, made of dicts, lists, strings and numbers."""
        return json_of(self)

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        return html_of(self)

    def _repr_latex_(self) -> str:
        """The verdict and both definitions of what the code defines otherwise, where a notebook shows no HTML."""
        return comparison_cell(comparison_of(self))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """All forms at once; the notebook takes the best one that it can show."""
        return {
            "text/html": self._repr_html_(), "text/latex": self._repr_latex_(),
            "text/markdown": comparison_markdown(comparison_of(self)), "text/plain": self.text(),
        }  # fmt: skip
