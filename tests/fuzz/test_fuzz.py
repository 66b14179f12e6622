"""A short run of `tests.fuzz.run`, in a process of its own; and what the guard there would see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *line], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)


def test_hostile_inputs_are_refused_with_a_message() -> None:
    found = run("-m", "tests.fuzz.run", "--inputs", "1000")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "no crash, no hang, nothing touched, nothing run" in found.stdout
    assert all(" 0 taken" not in line for line in found.stdout.splitlines()), "what is only refused is not read"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("open('/tmp/elsewhere', 'w')", "opens"),
        ("open('/etc/passwd')", "opens"),
        ("os.system('true')", "os.system"),
        ("subprocess.run(['true'])", "subprocess.Popen"),
        ("eval('1 + 1')", "runs <string>"),
        ("pickle.loads(b'cos\\nsystem\\n.')", "pickle.find_class"),
        ("socket.socket()", "socket"),
        ("os.remove('/tmp/elsewhere')", "os.remove"),
        ("time.sleep(60)", "takes longer than"),
        ("bytearray(1 << 31)", "MemoryError"),
        ("raise Problem(' ')", "no message of one line"),
    ],
)
def test_guard_sees(what: str, said: str) -> None:
    code = f"""
import os, pickle, socket, subprocess, time
from mha_sym.errors import Problem
from tests.fuzz import guard
guard.SECONDS = 0.5
def bad():
    {what}
try:
    watch = guard.Guard()
    watch.bound_memory()
    watch(bad)
except BaseException as fault:
    print(type(fault).__name__, fault)
"""
    assert said in run("-c", code).stdout


def test_guard_lets_a_reader_do_its_work() -> None:
    code = """
from pathlib import Path
from mha_sym.errors import Problem
from tests.fuzz.guard import Guard
watch = Guard()
def good(place):
    (place / "x").write_text("here")
    raise Problem("no such axis")
print(repr(watch(good, Path(watch.place))))
"""
    assert run("-c", code).stdout == "Problem('no such axis')\n"
