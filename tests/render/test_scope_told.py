"""What is said of the sizes: where a claim speaks of head 2, there are at least three."""

from __future__ import annotations

from pathlib import Path

import pytest

from mha_sym.axes import axis
from mha_sym.cli import main
from mha_sym.expr import Input, Select
from mha_sym.proof.theorem import Claim
from mha_sym.render.report_json import scope

H, THREE = axis("h"), axis("u", 3)
x, y = Input("x", (H,)), Input("y", (THREE,))
THEOREM = """
from mha_sym import Claim, Input, Select, Theorem, axis
h = axis("h")
x = Input("x", (h, axis("k", "d_k")))
THEOREM = Theorem("third", "The third head", "", (Claim("third", Select(x * 2, h, 2), Select(x, h, 2) * 2),))
"""


@pytest.mark.parametrize(("at", "said"), [(0, "all sizes"), (2, "where h is at least 3")])
def test_a_position_that_is_named_exists(at: int, said: str) -> None:
    assert scope([Claim("one", x, x), Claim("other", Select(x, H, at), Select(x, H, at))]) == said


def test_beside_fixed_sizes() -> None:
    both = [Claim("fixed", y, y), Claim("large", Select(x, H, 4), Select(x, H, 4))]
    assert scope(both) == "at u=3 in fixed, otherwise all sizes, where h is at least 5"
    assert scope([Claim("fixed", Select(y, THREE, 2), Select(y, THREE, 2))]) == "at u=3"


def test_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "third.py").write_text(THEOREM)
    assert main(["prove", str(tmp_path / "third.py")]) == 0
    out = capsys.readouterr().out
    assert "where h is at least 3" in out and "for all sizes, 0" not in out
    assert main(["derive", str(tmp_path / "third.py")]) == 0
    assert "third. Proved where h is at least 3." in capsys.readouterr().out
