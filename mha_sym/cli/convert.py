"""``mha-sym convert``: attention weights in one layout written in another.

Everything is in `mha_sym.checkpoint.convert`; this passes the options on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mha_sym.cli.common import (
    Exit,
    complain,
    json_option,
    refuse_existing,
    traceback_option,
    write,
    write_file,
    write_json,
)
from mha_sym.errors import Problem

if TYPE_CHECKING:
    from mha_sym.checkpoint.report import Converted
    from mha_sym.proof.theorem import Report


def _list(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from mha_sym.checkpoint.layers import listed

        write(listed())
        context.exit()


@click.command(short_help="Store attention weights in another layout.")
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--from", "given", required=True, metavar="LAYOUT", help="How the weights are stored, or auto.")
@click.option("--to", "wanted", required=True, metavar="LAYOUT", help="How to store them.")
@click.option("--heads", type=click.IntRange(min=1), metavar="N", help="Number of heads, if shapes do not tell it.")
@click.option("--kv-heads", type=click.IntRange(min=1), metavar="N", help="Number of key and value heads, if fewer.")
@click.option("--at", multiple=True, metavar="PREFIX", help="Only layers behind this prefix; may be repeated.")
@click.option("--repeat-kv", is_flag=True, help="Copy key and value heads for the heads that read them.")
@click.option("--zero-biases", is_flag=True, help="Store zeros for biases that the layer has not.")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="FILE", help="Write the proof, for recheck.")
@click.option("--coq", type=click.Path(path_type=Path), metavar="FILE.v", help="Write the proof for coqc.")
@click.option("--force", is_flag=True, help="Replace OUT, and FILE, if there is one.")
@click.option("--layouts", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="List all layouts.")
@json_option
@traceback_option
def convert(as_json: bool, certificate: Path | None, coq: Path | None, **options: Any) -> int:
    """Write the attention weights in IN to OUT in another layout.

    IN and OUT are .safetensors or .npz files; IN may also be the .safetensors.index.json of a file in parts. All layers
    whose names are those of LAYOUT are converted, every other tensor is carried over. Entries are moved and never
    computed with. OUT takes its place after it was read back, and its weights compared with those of IN, head by head,
    bit for bit.
    """
    from mha_sym.checkpoint.convert import convert as run

    for file in (certificate, coq):
        if file is not None:
            refuse_existing(file, force=options["force"])
    done = run(**options)
    for file, text in ((certificate, _certificate), (coq, _coq)):
        if file is not None:
            write_file(file, text(_only(done)), force=options["force"])
            complain(f"{file} is written: {_goals(done)}")
    if as_json:
        write_json(done.json())
    else:
        write(done.text())
    return Exit.OK


def _goals(done: Converted) -> str:
    """How many goals the proof has, which are more than equalities where a packed matrix is proved block by block."""
    [one] = done.proofs
    goals = sum(len(outcome.certificates) for outcome in one.report.claims)
    blocks = ", as packed parameters are proved block by block" if goals > one.claims else ""
    return f"{one.claims} equalities in {goals} goals{blocks}"


def _only(done: Converted) -> Report:
    """What the prover said, if all layers are converted alike."""
    if len(done.proofs) != 1:
        raise Problem(
            f"{done.target} is written, and its proof is not: the layers need {len(done.proofs)} theorems",
            expected="layers that have the same biases", hint="--at PREFIX picks layers",
        )
    return done.proofs[0].report


def _certificate(report: Report) -> str:
    from mha_sym.proof.certificate_file import write as text

    return text(report)


def _coq(report: Report) -> str:
    from mha_sym.export.coq import coq_file
    from mha_sym.export.coq_terms import NotExported

    try:
        return coq_file(report)
    except NotExported as problem:
        raise Problem(
            f"the new file is written, and its proof for Coq is not: {problem.what}", got=problem.got,
            hint="--certificate writes it for mha-sym recheck; query heads that take turns have no Coq export yet",
        ) from problem
