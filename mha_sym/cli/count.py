"""``mha-sym count``: parameters, stored scores, multiply-adds and bytes moved of a layer, each by its name.

The counting is in `mha_sym.count`, the showing in `mha_sym.render.count_text`.
"""

from __future__ import annotations

from typing import Any

import click

from mha_sym.cli.common import json_option, traceback_option, write, write_json
from mha_sym.cli.layer import Sizes, layer_options, stages


@click.command(short_help="Count parameters, scores, multiply-adds and bytes of a layer.")
@layer_options
@click.option("--bias/--no-bias", default=False, show_default=True, help="Whether all four projections have a bias.")
@click.option(
    "--itemsize", type=click.IntRange(min=1), default=4, show_default=True, metavar="BYTES", help="Bytes of one entry."
)
@json_option
@traceback_option
def count(form: str, bias: bool, itemsize: int, as_json: bool, **sizes: Any) -> None:
    """Count a layer: separate quantities, as formulas and, where the sizes are given, in numbers."""
    from mha_sym.count import count as count_of
    from mha_sym.render import count_text

    given = Sizes(**sizes)
    known = given.known()
    counts = count_of(stages(form, given.keys is not None, bias).y, itemsize)
    if as_json:
        write_json(count_text.count_json(counts, known, bias))
    else:
        write(count_text.count_table(counts, known, bias))
