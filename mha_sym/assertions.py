"""Assertions for test suites of any kind: on implementations of attention, and on tests of them.

Defines `assert_attention` and `assert_catches_faults`.  Everything is imported when it is used; pytest is not needed,
and finds both as fixtures through `mha_sym.pytest_plugin`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mha_sym.audit.critique import Critique
    from mha_sym.audit.reports.report import CheckReport

__all__ = ["assert_attention", "assert_catches_faults"]


def assert_attention(impl: Any, **options: Any) -> CheckReport:
    """Assert that an implementation is multi-head attention; the message of a failure is the audit.

    Args:
        impl: whatever `mha_sym.check` takes: a function, an ``nn.MultiheadAttention``, an `Implementation`; or the path
            of a dump, a file ``.npz`` or ``.safetensors``.
        options: those of `mha_sym.check`, or of `mha_sym.audit.dumps.dump.check_dump`.

    Returns:
        The report of an implementation that agrees.

    Raises:
        AssertionError: if it disagrees, or cannot be run.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     return x @ w_v @ w_o
        >>> assert_attention(attention)
        Traceback (most recent call last):
            ...
        AssertionError: DISAGREES   attention: ...
    """
    __tracebackhide__ = True
    from mha_sym.errors import Problem

    try:
        report = _report(impl, options)
    except Problem as problem:
        raise AssertionError(f"it could not be checked: {problem}") from None
    if not report.ok:
        raise AssertionError(report.text())
    return report


def _report(impl: Any, options: dict[str, Any]) -> CheckReport:
    from os import PathLike, fspath

    from mha_sym.audit.check import check
    from mha_sym.audit.dumps.dump import check_dump

    return check_dump(fspath(impl), **options) if isinstance(impl, str | PathLike) else check(impl, **options)


def assert_catches_faults(test: Callable[..., Any], **options: Any) -> Critique:
    """Assert that a test function fails for every faulty form of attention that its sizes can show.

    Args:
        test: a function that takes an implementation and raises if it is wrong.
        options: those of `mha_sym.audit.critique.critique`.

    Returns:
        The critique of a test that lets nothing pass.

    Raises:
        AssertionError: with the faults that the test lets pass, why, and the smallest sizes that would catch each.
    """
    __tracebackhide__ = True
    from mha_sym.audit.critique import critique
    from mha_sym.errors import Problem

    try:
        found = critique(test, **options)
    except Problem as problem:
        raise AssertionError(f"the test could not be judged: {problem}") from None
    if not found.ok:
        raise AssertionError(found.text())
    return found
