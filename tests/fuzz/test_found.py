"""What hostile inputs once brought up, each mended since."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mha_sym.audit.dumps.dump import check_dump
from mha_sym.errors import Problem
from tests.fuzz.readers import arrays, npz, read_dump


@pytest.mark.parametrize("name", ["x", "w_q", "w_v", "w_o"])
@pytest.mark.parametrize("value", [1e300, -1e308])
def test_numbers_whose_products_overflow(name: str, value: float, tmp_path: Path) -> None:
    """A warning of NumPy stood before the report; with warnings as errors the check ended there."""
    large = {one: np.full_like(array, value) if one == name else array for one, array in arrays().items()}
    try:
        assert read_dump(".npz")(tmp_path, npz(large))
    except Problem as problem:
        assert problem.what


def test_what_overflows_hides_nothing_else(tmp_path: Path) -> None:
    """Where reference and bound are infinite nothing is known; what stands beside is still wrong."""
    given = {name: array.copy() for name, array in arrays().items() if name not in ("q", "keep")}
    given["w_v"][:] = 1.0
    given["x"][:] = 1.0
    given["w_o"][:, 0] = 1e308
    (tmp_path / "dump.npz").write_bytes(npz(given))
    report = check_dump(tmp_path / "dump.npz", heads=3, explain=False)
    assert report.exit_code == 1
    assert not any("m=0" in one.place for one in report.compared)
