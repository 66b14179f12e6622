"""``mha-sym derive``: write down why a theorem holds, for people.

The writing is in `mha_sym.render.derivation`; this finds the theorem, proves it and puts the text where it is wanted.
"""

from __future__ import annotations

from pathlib import Path

import click

from mha_sym.cli.common import Exit, complain, refuse_existing, traceback_option, write, write_file

FORMATS = ("unicode", "latex", "markdown")


@click.command(short_help="Write a derivation, step by step with reasons.")
@click.argument("theorem", metavar="NAME|PATH")
@click.option("--format", "style", type=click.Choice(FORMATS), default="unicode", show_default=True, help="Notation.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if there is one.")
@traceback_option
def derive(theorem: str, style: str, output: Path | None, force: bool) -> int:
    """Derive a theorem: statement, assumptions, steps with reasons, controls with counterexamples."""
    from mha_sym.library import load
    from mha_sym.proof import prover
    from mha_sym.render import derivation

    if output is not None:
        refuse_existing(output, force=force)
    report = prover.prove(load(theorem), recheck=True)
    text = derivation.derive(report, style)
    if output is None:
        write(text)
    else:
        write_file(output, text if text.endswith("\n") else text + "\n", force=force)
    if not report.holds:
        controls = f"{report.refuted} of {len(report.controls)} controls refuted"
        complain(f"{report.theorem.name}: {report.verdict.value}, {controls}")
    return Exit.OK if report.holds else Exit.FAILED
