"""Every command and every example in the README runs, and prints what the README says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def sessions() -> list[tuple[str, str, tuple[str, ...]]]:
    """The commands in ``console`` blocks, each with the output that follows it and the commands before it."""
    found = []
    for language, body in FENCE.findall(README):
        before: tuple[str, ...] = ()
        for part in re.split(r"^\$ ", body, flags=re.M)[1:] if language == "console" else []:
            command, _, output = part.partition("\n")
            found.append((command, output.rstrip("\n"), before))
            before = (*before, command)
    return found


def files() -> dict[str, str]:
    """The files that the README tells a reader to write: blocks whose first line is ``# NAME.py``."""
    blocks = [body for language, body in FENCE.findall(README) if language == "python"]
    return {body.split("\n")[0][2:]: body for body in blocks if re.match(r"# \w+\.py\n", body)}


def normal(text: str) -> str:
    """Without what a machine decides: seconds, and trailing blanks."""
    return "\n".join(re.sub(r" *\b\d+\.\d\d\b( s\b)?", " SECONDS", line).rstrip() for line in text.strip().split("\n"))


def matches(expected: str, got: str) -> bool:
    """Whether the lines agree in order; a line ``...`` stands for any lines."""
    lines, place, skipped = normal(got).split("\n"), 0, False
    for wanted in normal(expected).split("\n"):
        if wanted == "...":
            skipped = True
            continue
        here = lines.index(wanted, place) if skipped and wanted in lines[place:] else place
        if here >= len(lines) or lines[here] != wanted:
            return False
        place, skipped = here + 1, False
    return skipped or place == len(lines)


def test_the_readme_has_sessions_and_files() -> None:
    assert len(sessions()) >= 5
    assert files()


@pytest.mark.parametrize(("command", "expected", "before"), sessions(), ids=[command for command, _, _ in sessions()])
def test_command_prints_what_the_readme_says(
    command: str, expected: str, before: tuple[str, ...], tmp_path: Path
) -> None:
    for name, body in files().items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    (tmp_path / "proofs").symlink_to(ROOT / "proofs")
    for earlier in before:
        run(earlier, tmp_path)
    shown = run(command, tmp_path)
    assert matches(expected, shown), f"{command} printed\n{shown}"


def run(command: str, place: Path) -> str:
    """All that a command prints."""
    argv = command.split()
    if argv[0] == "make":
        argv = {"prove": ["mha-sym", "prove"]}.get(argv[1], [])
        if not argv:
            pytest.fail(f"no output can be shown for {command}")
    program = [sys.executable, "-m", "mha_sym"] if argv[0] == "mha-sym" else [sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(
        [*program, *argv[1:]], cwd=place, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout + done.stderr


def test_python_examples_run() -> None:
    test = doctest.DocTestParser().get_doctest(
        "\n".join(body for language, body in FENCE.findall(README) if language == "pycon"), {}, "README", None, 0
    )
    assert test.examples
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0
