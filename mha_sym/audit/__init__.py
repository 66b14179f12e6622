"""Checking other people's implementations of attention against the form that is proved.

Public: `Implementation` (how code is described) and `check` (run it beside the combined form).
"""

from mha_sym.audit.check import check, check_target
from mha_sym.audit.functions import from_function
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.reports.report import CheckReport

__all__ = ["CheckReport", "Implementation", "check", "check_target", "from_function"]
