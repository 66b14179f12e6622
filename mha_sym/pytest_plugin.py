"""The pytest plugin: an assertion on implementations of attention, one on tests of them, and both as fixtures.

The assertions are those of `mha_sym.assertions`.  Pytest finds this module by itself where mha_sym is installed;
everything else is imported when it is used, so that test runs without attention pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mha_sym.assertions import assert_attention, assert_catches_faults

__all__ = ["assert_attention", "assert_catches_faults"]


@pytest.fixture(name="assert_attention")
def _assert_attention() -> Callable[..., Any]:
    """`assert_attention`, without an import."""
    return assert_attention


@pytest.fixture(name="assert_catches_faults")
def _assert_catches_faults() -> Callable[..., Any]:
    """`assert_catches_faults`, without an import."""
    return assert_catches_faults
