"""Rechecks a certificate file with the trusted checker alone, in a process of its own.

Defines `recheck`, which reads and checks a text here, and `recheck_apart`, which does so in a fresh interpreter that
loads the reader, the checker and what they stand on, and nothing else: no search, no attention, no package that is
installed.  Whether the statement is the one that somebody has in mind is not decided here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mha_sym.proof.checker import Certificate, Rejected, apply_step, check, check_all
from mha_sym.proof.reader import read
from mha_sym.proof.rules import Context, Goal
from mha_sym.proof.schema import MAX_BYTES, Document, Unreadable

ACCEPTED, REJECTED, UNREADABLE = "accepted", "rejected", "unreadable"
CODES = {ACCEPTED: 0, REJECTED: 1, UNREADABLE: 2}
MAX_MEMORY = 1 << 30

#: what replaying forged steps may raise besides a rejection: terms too deep, numbers too long
_FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

#: no directory of the user and no installed package is searched before the standard library
_COMMAND = "import sys; sys.path.append(sys.argv[1]); from mha_sym.proof.recheck import main; raise SystemExit(main())"


def recheck(text: str | bytes) -> dict[str, Any]:
    """What is known of a certificate file after it was read and checked.

    Returns:
        ``verdict`` (accepted, rejected or unreadable); with a file that could be read ``theorem``, ``title``,
        ``words``, ``goals`` (names), ``steps`` (how many), ``rules`` (uses of each), ``assumptions`` (words and
        uses), ``context`` (names); if not accepted ``why``, and where known ``goal``, ``side`` and ``step``.

    Example:
        >>> recheck("{}")
        {'verdict': 'unreadable', 'why': "$: no member 'format'"}
    """
    try:
        found = read(text)
    except Unreadable as fault:
        return {"verdict": UNREADABLE, "why": str(fault)}
    try:
        proved = check_all(found.certificates, found.statement.context)
    except Rejected as fault:
        return {"verdict": REJECTED, **_summary(found), **_blame(found, str(fault))}
    except _FAULTS as fault:
        return {"verdict": REJECTED, **_summary(found), "why": f"cannot be replayed: {type(fault).__name__}: {fault}"}
    if list(proved) != [goal.name for goal in found.statement.goals]:
        return {"verdict": REJECTED, **_summary(found), "why": "the checker proved other goals"}
    return {"verdict": ACCEPTED, **_summary(found)}


def _summary(found: Document) -> dict[str, Any]:
    """What the file holds."""
    stated, steps = found.statement, [step for one in found.certificates for step in one.left + one.right]
    given = Counter(number for step in steps for number, _ in step.args.get("given", ()))
    assumptions, first = [], 0
    for one in stated.assumptions:
        numbers = range(first, first + len(one.positive))
        assumptions.append({"words": one.words, "uses": sum(given[number] for number in numbers)})
        first = numbers.stop
    context = {part: sorted(getattr(stated.context, part)) for part in _PARTS}
    return {
        "theorem": stated.name, "title": stated.title, "words": stated.words,
        "goals": [goal.name for goal in stated.goals],
        "steps": len(steps), "rules": dict(Counter(step.rule for step in steps).most_common()),
        "assumptions": assumptions, "context": context,
    }  # fmt: skip


_PARTS = ("definitions", "booleans", "tables", "bijections")


def _blame(found: Document, why: str) -> dict[str, Any]:
    """The goal and the step that are wrong; the checker only says that one is."""
    lemmas: dict[str, Goal] = {}
    for certificate in found.certificates:
        context = replace(found.statement.context, lemmas=lemmas)
        try:
            lemmas[certificate.goal.name] = check(certificate, context)
        except Rejected as fault:
            return {"goal": certificate.goal.name, **_step(certificate, context), "why": str(fault)}
    return {"why": why}


def _step(certificate: Certificate, context: Context) -> dict[str, Any]:
    """The first step that does not apply, counted from 1."""
    goal = certificate.goal
    for side, term, steps in (("left", goal.left, certificate.left), ("right", goal.right, certificate.right)):
        for number, step in enumerate(steps, 1):
            try:
                term = apply_step(term, step, context)
            except Rejected:
                return {"side": side, "step": number}
    return {}


# ---------------------------------------------------------------- in a process of its own


def recheck_apart(text: bytes, seconds: float = 5.0) -> dict[str, Any]:
    """The same as `recheck`, in a fresh interpreter; ``modules`` names those of this package that it loaded.

    It is given up after ``seconds``, and on 1 GiB of memory where the system can tell.
    """
    package = str(Path(__file__).parents[2])
    command = [sys.executable, "-I", "-S", "-c", _COMMAND, package]
    try:
        ended = subprocess.run(command, input=text, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"verdict": UNREADABLE, "why": f"not checked within {seconds:g} seconds"}
    with suppress(ValueError):
        result = json.loads(ended.stdout)
        if isinstance(result, dict) and CODES.get(result.get("verdict", "")) == ended.returncode:
            return result
    last = ended.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return {"verdict": UNREADABLE, "why": f"the checking process ended with {ended.returncode}: {last}"}


def main() -> int:
    """Recheck standard input, print what is known as JSON, and return 0, 1 or 2 for the three verdicts."""
    _bound_memory()
    try:
        result = recheck(sys.stdin.buffer.read(MAX_BYTES + 1))
    except MemoryError:
        result = {"verdict": UNREADABLE, "why": f"needs more than {MAX_MEMORY >> 20} MiB"}
    modules = sorted(name for name in sys.modules if name.split(".")[0] == "mha_sym")
    sys.stdout.write(json.dumps({**result, "modules": modules}))
    return CODES[result["verdict"]]


def _bound_memory() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
