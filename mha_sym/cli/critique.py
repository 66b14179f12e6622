"""``mha-sym critique``: which faults of attention a test at given sizes, or a test function, would let pass.

Everything is in `mha_sym.audit.critique`; this reads the options.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from mha_sym.cli.common import Exit, json_option, traceback_option, write, write_json
from mha_sym.cli.limit import timeout_option, within
from mha_sym.errors import Problem


@click.command(short_help="Say which faults a test would let pass.")
@click.argument("test", required=False, metavar="[FILE.py:TEST|MODULE:TEST]")
@click.option("--sizes", metavar="B=1,T=8,h=8,d_k=8", help="Judge sizes alone: B, T, h, d_k; S, d_v, d_model, G.")
@click.option("--target", metavar="MODULE:OBJECT", help="The implementation that the test finds by itself.")
@click.option("--only", multiple=True, metavar="FAULT", help="Try this fault; may be repeated.  All if omitted.")
@timeout_option
@json_option
@traceback_option
def critique(
    test: str | None, sizes: str | None, target: str | None, only: tuple[str, ...], timeout: float | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Say which faults of multi-head attention a test lets pass, why, and which sizes would catch each.

    A TEST takes the implementation and raises if that is wrong.  It is run, against every faulty form.

    Ends with 0 if every fault is caught, 1 if one is let pass, 2 if nothing could be judged.
    """
    if (test is None) == (sizes is None):
        raise Problem("give a test, or sizes alone", expected="mha-sym critique --sizes B=1,T=8,h=8,d_k=8")
    if timeout is not None:
        return within(timeout, test or "critique")
    with contextlib.redirect_stdout(sys.stderr):  # what the test itself prints is not the report
        found = _judged(test, sizes, target or "", only)
    if as_json:
        write_json(found.json())
    else:
        write(found.text())
    return Exit.OK if found.ok else Exit.FAILED


def _judged(test: str | None, sizes: str | None, target: str, only: tuple[str, ...]) -> Any:
    from mha_sym.audit.critique import critique, critique_sizes
    from mha_sym.audit.target import load

    if test is None:
        return critique_sizes(read_sizes(sizes or ""), only)
    return critique(load(test), target=target, only=only)


def read_sizes(text: str) -> dict[str, int]:
    """Sizes as they are written on the command line.

    Raises:
        Problem: for anything that is not NAME=NUMBER.

    Example:
        >>> read_sizes("B=1, T=8")
        {'B': 1, 'T': 8}
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = (one.strip() for one in part.partition("="))
        if not equals or not number.isdecimal() or not name or name in found:
            raise Problem(f"sizes cannot be read at {part.strip()!r}", expected="B=1,T=8,h=8,d_k=8")
        found[name] = int(number)
    return found
