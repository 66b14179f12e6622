"""A target that does not come to an end is ended, in one line; one that does is not disturbed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

TARGETS = """
import time
import numpy as np

def slow(x, w_q, w_k, w_v, w_o, heads):
    while True:
        time.sleep(1)

def quick(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    a = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return (a / a.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o
"""


def test_a_target_over_the_time_limit(tmp_path: Path, command: Any) -> None:
    (tmp_path / "layers.py").write_text(TARGETS)
    started = time.perf_counter()
    done = command("check", "layers.py:slow", "--timeout", "3", cwd=tmp_path)
    assert time.perf_counter() - started < 20
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "mha-sym: layers.py:slow ran over the time limit of 3 seconds\n"
    done = command("check", "layers.py:slow", "--timeout", "3", "--json", cwd=tmp_path)
    assert done.returncode == 2 and json.loads(done.stdout)["verdict"] == "error"


def test_a_target_within_the_time_limit_is_checked_as_ever(tmp_path: Path, command: Any) -> None:
    (tmp_path / "layers.py").write_text(TARGETS)
    options = ("--heads", "3", "--no-causal", "--seed", "7", "--json")
    reports = []
    for limit in ((), ("--timeout", "100")):
        done = command("check", "layers.py:quick", *options, *limit, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        reports.append({**json.loads(done.stdout), "seconds": 0})
    assert reports[0] == reports[1] and reports[0]["seed"] == 7
    assert command("check", "layers.py:quick", "--timeout", "0", cwd=tmp_path).returncode == 2
