"""``mha-sym recheck``: check a certificate file with the trusted checker alone, and say what was checked.

Checking is in `mha_sym.proof.recheck`, in a process of its own.  Only then, and apart from it, the statement is
compared with the theorem of that name in the library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from mha_sym.cli.common import Exit, complain, json_option, traceback_option, write, write_json
from mha_sym.errors import Problem


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--seconds", type=click.FloatRange(min=0.1, max=3600), default=5.0, show_default=True, help="Time limit.")
@json_option
@traceback_option
def recheck(file: Path, seconds: float, as_json: bool) -> int:
    """Replay a certificate FILE step by step, with nothing but the checker.

    FILE may also be what derive --format json wrote; the certificate in it is checked.

    Ends with 0 if it is accepted, whether the library has a theorem of its name or not, 1 if it is rejected or states
    something else than the library's theorem of its name, 2 if it cannot be read or not be checked in time.
    """
    from mha_sym.proof.recheck import ACCEPTED, CODES, recheck_apart

    text = _content(file)
    result = recheck_apart(text, seconds)
    if result["verdict"] == ACCEPTED:
        result["statement"] = _comparison(text, result["theorem"])
    if as_json:
        write_json({"file": str(file), **result})
    elif "theorem" in result:
        write("\n".join(_lines(result)))
    if result["verdict"] != ACCEPTED:
        complain(f"{file}: {result['verdict']}: {_place(result)}{result['why']}")
    elif result["statement"].startswith(DIFFERS):
        complain(f"{file}: its steps are right, but its statement {result['statement']}")
        return Exit.FAILED
    return Exit(CODES[result["verdict"]])


#: what is said of a statement that is not the library's
DIFFERS = "differs from the library in "
#: what is said of one of a name that the library does not have: it is replayed, and what it says is for the reader
UNKNOWN = "not in the library"


_OF_NO_NAME = "; the library has no theorem of this name, and nothing else says what it states"


def _content(file: Path) -> bytes:
    from mha_sym.proof.schema import MAX_BYTES

    try:
        with file.open("rb") as stream:
            text = stream.read(DERIVATION_BYTES + 1)
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror or error}", expected="a certificate file") from error
    return _embedded(file, text) if text.startswith(_DERIVATION) else text[: MAX_BYTES + 1]


#: how the text of a derivation begins, and how long it may be
_DERIVATION, DERIVATION_BYTES = b'{\n "format": "mha_sym-derivation"', 16 << 20


def _embedded(file: Path, text: bytes) -> bytes:
    """The certificate in a derivation: the text of a certificate file, which alone is checked."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(f"{file} is no JSON: {error}", expected="what derive --format json writes") from error
    certificate = found.get("certificate")
    if certificate is None:
        raise Problem(f"{file} holds no certificate", expected="the derivation of a theorem that is proved")
    return json.dumps(certificate, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _comparison(text: bytes, name: str) -> str:
    """Whether the statement of an accepted file is that of the library's theorem of the same name."""
    from mha_sym.library import load, theorem_names
    from mha_sym.proof.certificate_file import difference, read, statement

    if name not in theorem_names():  # never a path: a name in a file must not choose what is run
        return UNKNOWN
    found = difference(read(text).statement, statement(load(name)))
    return f"{DIFFERS}{found}" if found else "as in the library"


def _lines(result: dict[str, Any]) -> Iterator[str]:
    """What was checked; words of the file stay on one line, so that they cannot pass for lines of ours."""
    unknown = result.get("statement") == UNKNOWN
    yield f"{result['theorem']}: {result['verdict']}{_OF_NO_NAME if unknown else ''}"
    yield f"  {' '.join(result['title'].split())}"
    yield f"  goals: {len(result['goals'])} ({', '.join(result['goals'])})"
    yield f"  steps: {result['steps']}"
    if result["rules"]:
        yield f"  rules: {', '.join(f'{name} {count}' for name, count in result['rules'].items())}"
    for one in result["assumptions"]:
        uses = f" (steps that use it: {one['uses']})" if one["uses"] else ""
        yield f"  assumes: {' '.join(one['words'].split())}{uses}"
    for part, names in result["context"].items():
        if names:
            yield f"  {part}: {', '.join(names)}"
    if "statement" in result:
        yield f"  statement: {result['statement']}"


def _place(result: dict[str, Any]) -> str:
    """Which goal and step are wrong."""
    if "goal" not in result:
        return ""
    step = f", step {result['step']} on the {result['side']}" if "step" in result else ""
    return f"goal {result['goal']}{step}: "
