"""What hostile inputs once brought up, each mended since."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
