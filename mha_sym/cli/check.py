"""``mha-sym check``: run an implementation against the proven form.

Everything is in `mha_sym.audit`; this passes the options on.
"""

from __future__ import annotations

import json
from typing import Any

import click

from mha_sym.cli.common import traceback_option, write


@click.command(short_help="Run an implementation against the proven form.")
@click.argument("target", metavar="FILE.py:OBJECT|MODULE:OBJECT")
@click.option("--heads", type=click.IntRange(min=1), metavar="N", help="Number of heads, if the target does not say.")
@click.option("--causal", is_flag=True, help="Check with a causal mask.")
@click.option("--batch-first/--no-batch-first", default=None, help="Order of the axes, if the target does not say.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random input.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object to standard output and nothing else.")
@traceback_option
def check(target: str, as_json: bool, **options: Any) -> int:
    """Check an implementation of multi-head attention.  This runs the code of TARGET.

    Ends with 0 if it agrees, 1 if it disagrees, 2 if it could not be run.
    """
    from mha_sym.audit.check import check_target

    report = check_target(target, **options)
    write(json.dumps(report.json(), indent=2, ensure_ascii=False) if as_json else report.text())
    return int(report.exit_code)
