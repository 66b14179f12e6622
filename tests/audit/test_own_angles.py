"""Rotary tables that code makes itself: of which angles they are is told, and wrong code with single ones is named."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit.check import check
from mha_sym.audit.frameworks.own_angles import of_which_angles
from mha_sym.audit.functions import from_function
from tests.importers.rotary_modules import Neighbours
from tests.importers.test_rotary import attend, halves, heads


def angles(base, length=7, width=10, sign=-1):
    return np.array([[t * base ** (sign * 2 * i / width) for i in range(width // 2)] for t in range(length)])


def said(table):
    return of_which_angles(np.cos(table), np.sin(table))


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_a_right_base_is_told_and_a_wrong_one_is_asked_about(kind):
    assert said(angles(10000.0).astype(kind)) == "its tables are those of base 10000"
    assert said(angles(500000.0, width=128).astype(kind)) == "its tables are those of base 500000"
    assert said(1 + angles(23456.0).astype(kind)).startswith("its tables are those of base 234")
    assert "do not begin with position 0" in said(angles(100.0, 9)[2:].astype(kind))
    assert "not t times a frequency" in said(angles(10000.0).astype(kind) ** 2)
    assert "10000^(2i/d), which grow with i" in said(angles(10000.0, sign=1).astype(kind))
    assert "base^(-2i/d) but -1, " in said(-angles(10000.0).astype(kind))
    assert "one pair" in said(angles(10000.0, width=2).astype(kind))


def test_frequencies_of_which_only_the_slowest_are_others_are_of_no_base():
    table = angles(10000.0)
    table[:, -1] /= 8
    assert "not base^(-2i/d) but 1, 0.1585, 0.02512, 0.003981, ..." in said(table)


def in_single(x, w_q, w_k, w_v, w_o, heads_):
    q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
    every = np.outer(np.arange(x.shape[1]), 1 / 10000 ** (np.arange(0, q.shape[-1], 2) / q.shape[-1]))
    every = np.concatenate([every, every], -1)
    cos, sin = np.cos(every).astype("float32"), np.sin(every).astype("float32")
    return attend(halves(q, cos, sin), halves(k, cos, sin), v, w_o)


def test_right_code_with_tables_in_single_precision_agrees():
    takes = ("x", "w_q", "w_k", "w_v", "w_o", "heads")
    report = check(from_function(in_single, takes=takes, heads=3))
    assert report.verdict == "agree"
    assert "its tables are those of base 10000" in report.notes


def test_a_wrong_module_with_tables_in_single_precision_is_named():
    report = check(Neighbours("pairs"))
    assert report.findings.diagnosis.found[0].faults[0].name == "positions_tables_of_other_pairs"
