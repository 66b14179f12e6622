"""``mha-sym trace``: the axes of every value in a layer, in order.

The tracing is in `mha_sym.trace`, the showing in `mha_sym.render.trace_text`.
"""

from __future__ import annotations

from typing import Any

import click

from mha_sym.cli.common import json_option, traceback_option, write, write_json
from mha_sym.cli.layer import Sizes, layer_options, stages


@click.command(short_help="Trace the axes of a layer, step by step.")
@layer_options
@json_option
@traceback_option
def trace(form: str, as_json: bool, **sizes: Any) -> None:
    """Trace the axes of a layer, with names and sizes, step by step; sizes that are not given stay symbols."""
    from mha_sym.render import trace_text
    from mha_sym.trace import trace as trace_of

    given = Sizes(**sizes)
    known = given.known()
    steps = trace_of(stages(form, cross=given.keys is not None).y)
    if as_json:
        write_json(trace_text.trace_json(steps, known))
    else:
        write(trace_text.trace_table(steps, known))
