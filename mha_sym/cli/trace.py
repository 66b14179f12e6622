"""``mha-sym trace``: the axes of every value in a layer, in order, as a table, as JSON or as a picture.

The tracing is in `mha_sym.trace`, the showing in `mha_sym.render.trace_text`, `mha_sym.render.pictures.svg` and
`mha_sym.render.pictures.cells`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from mha_sym.cli.common import json_option, refuse_existing, traceback_option, write, write_file
from mha_sym.cli.layer import Sizes, layer_options, stages
from mha_sym.errors import Problem

FORMATS = ("text", "json", "svg")
STAGES = ("q", "k", "v", "scores", "weights", "z", "c", "y")
WRONG = ("raw_reshape", "factors_swapped", "transpose_left_out", "join_without_transpose")


@click.command(short_help="Trace the axes of a layer, step by step.")
@layer_options
@click.option("--stage", type=click.Choice(STAGES), default="y", show_default=True, help="Stop at this stage.")
@click.option("--format", "style", type=click.Choice(FORMATS), help="Form; that of FILE's name if omitted, else text.")
@click.option("--wrong", type=click.Choice(WRONG), help="Draw the way into heads, and this wrong way beside it.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if there is one.")
@json_option
@traceback_option
def trace(
    form: str, stage: str, style: str | None, wrong: str | None, output: Path | None, force: bool, as_json: bool,
    **sizes: Any,
) -> None:  # fmt: skip
    """Trace the axes of a layer, with names and sizes, step by step; sizes that are not given stay symbols.

    With --format svg a picture in which every axis keeps its colour and pattern; with --wrong NAME besides, the
    right and the wrong way into heads (or back), number by number at small sizes.
    """
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    style = style or (ending if ending in FORMATS else "text")
    if as_json and style == "svg":
        raise click.UsageError("--json and --format svg are two different things.")
    if wrong and style != "svg":
        raise click.UsageError("--wrong draws a picture: give --format svg.")
    if output is not None:
        refuse_existing(output, force=force)
    given = Sizes(**sizes)
    text = _beside(wrong, given) if wrong else _layer(form, stage, "json" if as_json else style, given)
    if output is None:
        write(text)
    else:
        write_file(output, text if text.endswith("\n") else text + "\n", force=force)


def _layer(form: str, stage: str, style: str, given: Sizes) -> str:
    """The trace of one stage of a layer."""
    from mha_sym.render import trace_text
    from mha_sym.trace import trace as trace_of

    known = given.known()
    if form == "head_sum" and stage == "c":
        raise Problem(
            "the head_sum form has no stage c: it adds the heads up and joins nothing",
            expected=f"one of {', '.join(one for one in STAGES if one != 'c')}",
            hint="the separate form joins the heads: --form separate --stage c",
        )
    steps = trace_of(stages(form, cross=given.keys is not None).items()[stage])
    if style == "svg":
        from mha_sym.render.pictures.svg import trace_svg

        return trace_svg(steps, known, title=f"The axes of {stage} in the {form.replace('_', ' ')} form")
    if style == "json":
        return json.dumps(trace_text.trace_json(steps, known), indent=2, ensure_ascii=False)
    return trace_text.trace_table(steps, known)


def _beside(name: str, given: Sizes) -> str:
    """The right way into heads or back, and a wrong one beside it, at the sizes that are given or at small ones."""
    from mha_sym.attention.dims import dims
    from mha_sym.attention.head_paths import WRONG_PATHS, right_path, wrong_path
    from mha_sym.render.pictures.cells import Path as Way
    from mha_sym.render.pictures.cells import cells_svg

    wrong = WRONG_PATHS[name]
    sizes = {**wrong.sizes, **{n: size for n, size in given.known().items() if n in wrong.sizes}}
    d = dims(**sizes)
    paths = [right_path(d, wrong.back), wrong_path(name, d)]
    shape = ", ".join(f"{n}={size}" for n, size in sizes.items())
    return cells_svg([Way(one.title, one.expr, one.words) for one in paths], title=f"Where the numbers go at {shape}")
