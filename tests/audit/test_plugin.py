"""The pytest plugin in test runs of its own: what passes, and what the message of a failure says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mha_sym.pytest_plugin import assert_attention, assert_catches_faults
from tests.audit import right, wrong
from tests.audit.test_critique import at_sizes
from tests.audit.test_dump import layer, run, saved
from tests.conftest import ROOT

TESTS = """
import numpy as np

def attention(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    a = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return (a / a.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

def unscaled(x, w_q, w_k, w_v, w_o, heads):
    return attention(x, w_q * np.sqrt(w_q.shape[1] // heads), w_k, w_v, w_o, heads)

def test_right(assert_attention):
    assert assert_attention(attention).ok

def test_wrong(assert_attention):
    assert_attention(unscaled)

def test_weak(assert_catches_faults):
    def only_shapes(attention):
        x, w = np.ones((2, 5, 12)), np.ones((12, 12))
        assert attention(x, w, w, w, w, 3).shape == x.shape
    assert_catches_faults(only_shapes, only=["scale_missing"])
"""


def test_fixtures_in_a_test_run(tmp_path: Path) -> None:
    (tmp_path / "test_layer.py").write_text(TESTS)
    options = ("-p", "mha_sym.pytest_plugin", "-p", "no:cacheprovider", "-q", str(tmp_path))
    line = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "DISAGREES   unscaled" in done.stdout and "WRONG" in done.stdout
    assert "only_shapes: 0 of 1 faults are caught" in done.stdout
    assert "pytest_plugin.py" not in done.stdout  # the failure is shown at the line of the test


def test_assertions(tmp_path: Path) -> None:
    assert assert_attention(right.matmul_and_transpose).ok
    with pytest.raises(AssertionError, match="DISAGREES"):
        assert_attention(wrong.joined_without_transpose)
    with pytest.raises(AssertionError, match="it could not be checked: "):
        assert_attention(lambda x, w_q, w_k, w_v, w_o, heads: None)
    a = layer(0)
    assert assert_attention(saved(tmp_path, {**a, "y": run(a)["y"]}), heads=6).ok
    with pytest.raises(AssertionError, match="DISAGREES"):
        assert_attention(saved(tmp_path, {**a, "y": -run(a)["y"]}), heads=6)


def test_critique_as_an_assertion() -> None:
    only = ["scale_missing", "join_tokens_first"]
    assert assert_catches_faults(at_sizes(), only=only).judged == 2
    with pytest.raises(AssertionError, match="because of B = 1"):
        assert_catches_faults(at_sizes(B=1), only=only)


def test_the_plugin_is_light() -> None:
    code = "import mha_sym.pytest_plugin, sys; print([m for m in ('numpy', 'sympy', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
