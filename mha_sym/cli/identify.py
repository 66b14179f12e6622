"""``mha-sym identify``: find the layout and conventions under which a dump or an implementation is attention.

Everything is in `mha_sym.audit.layouts.identify`; this passes the options on.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from mha_sym.cli.common import json_option, traceback_option, write, write_json
from mha_sym.cli.limit import timeout_option, within


@click.command(short_help="Find the layout and conventions that reproduce an output.")
@click.argument("target", metavar="FILE.py:OBJECT|MODULE:OBJECT|DUMP")
@click.option("--heads", type=click.IntRange(min=1), metavar="N", help="Number of heads, if the target does not say.")
@click.option("--kv-heads", type=click.IntRange(min=1), metavar="N", help="Number of key and value heads, if fewer.")
@click.option("--config", metavar="FILE.toml", help="Settings of a dump.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Of random inputs.")
@timeout_option
@json_option
@traceback_option
def identify(target: str, as_json: bool, timeout: float | None, **options: Any) -> int:
    """Find the layout, scale, mask and order of axes that reproduce the output of TARGET.

    An implementation is run; a dump is only read.

    Ends with 0 if exactly one reading does, 1 if none or several do, 2 if nothing could be tried.
    """
    if timeout is not None:
        return within(timeout, target)
    from mha_sym.audit.layouts.identify import identify as find

    with contextlib.redirect_stdout(sys.stderr):  # what the target itself prints is not the report
        found = find(target, **{name: value for name, value in options.items() if value is not None})
    if as_json:
        write_json(found.json())
    else:
        write(found.text())
    return found.exit_code
