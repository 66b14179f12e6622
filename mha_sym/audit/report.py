"""The report of a check: its data, its text, its JSON and its page in a notebook.

Defines `CheckReport`.  What it holds is in `mha_sym.audit.reported`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mha_sym.audit.report_html import html_of
from mha_sym.audit.report_json import json_of
from mha_sym.audit.report_text import text_of
from mha_sym.audit.reported import Reported


@dataclass(frozen=True)
class CheckReport(Reported):
    """The result of checking an implementation; its fields are those of `mha_sym.audit.reported.Reported`."""

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
