"""Code under test that ends the process: it is told as a problem, and no process ends as if all were well."""

from __future__ import annotations

import subprocess
import sys

_ENDS = """
import os, sys
from mha_sym.blame import guarded
from mha_sym.errors import Problem
before = os._exit
def forks():
    child = os.fork()
    if not child:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert guarded(forks, "f raised") == 7
try:
    guarded(lambda: os._exit(0), "f raised")
except Problem as problem:
    assert problem.what == "f raised SystemExit: os._exit(0)", problem.what
    assert os._exit is before
    sys.exit(3)
"""


def test_code_that_ends_the_process_at_once_is_a_problem() -> None:
    """In a process of its own: without the mend it ends with 0, and so would these tests."""
    assert subprocess.run([sys.executable, "-c", _ENDS], check=False, timeout=60).returncode == 3
