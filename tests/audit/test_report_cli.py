"""What a check says at the edges: another target that is not there, masks of a proof, sizes that cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mha_sym.audit import check
from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.errors import DataProblem, TargetProblem

CODE = """
import numpy as np


def attention(x, w_q, w_k, w_v, w_o, heads, mask=None):
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o
"""


@pytest.fixture()
def file(tmp_path: Path) -> Path:
    place = tmp_path / "mine.py"
    place.write_text(CODE, encoding="utf-8")
    return place


@pytest.mark.parametrize("other", ["nothing.py:f", "mine.py:nothing"])
def test_a_second_target_that_is_not_there_is_one_line(
    other: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert main(["check", "mine.py:attention", "--prove", "--against", other]) == Exit.UNUSABLE
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and "nothing" in err


def test_a_proof_with_a_mask_says_that_it_is_of_any_mask(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{file}:attention", "--prove"]) == Exit.OK
    out = " ".join(capsys.readouterr().out.split())
    assert "replayed by the checker; for any additive mask that leaves every query a key, the causal one" in out
    assert "case no mask: proved" in out


def dump(tmp_path: Path, b: int = 2, t: int = 5, m: int = 6, width: int = 8, **more: np.ndarray) -> str:
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((m, width)) for name in ("w_q", "w_k", "w_v")}
    arrays |= {"x": rng.standard_normal((b, t, m)), "y": np.zeros((b, t, m)), "w_o": rng.standard_normal((width, m))}
    place = tmp_path / "dump.npz"
    np.savez(place, **{**arrays, **more})  # type: ignore[arg-type]  # names of arrays, not of its own
    return str(place)


@pytest.mark.parametrize(
    ("arrays", "heads", "said"),
    [
        ({"t": 0}, 2, "x is empty: T = 0"), ({"b": 0}, 2, "x is empty: B = 0"),
        ({"m": 0}, 2, "axis 'm' of w_q is empty"), ({"width": 0}, 2, "axis '(h k)' of w_q is empty"),
        ({}, 3, "axis '(h k)' of w_q has 8 positions, which no size d_k makes"),
        ({"x": np.zeros((0,))}, 2, "x has the wrong axes"),
    ],
)  # fmt: skip
def test_empty_sizes_and_heads_that_do_not_divide_are_one_line(
    arrays: dict[str, int], heads: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = dump(tmp_path, **arrays)  # type: ignore[arg-type]
    assert main(["check", file, "--heads", str(heads)]) == Exit.UNUSABLE
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and said in err, err


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"T": 0}, "T cannot be 0"), ({"B": 0}, "B cannot be 0"), ({"d_k": -1}, "d_k cannot be -1"),
        ({"T": 2.5}, "T cannot be 2.5"), ({"Q": 3}, "there is no size 'Q'"), ({"h": True}, "h cannot be True"),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be_are_told(sizes: dict[str, int], said: str) -> None:
    space: dict[str, object] = {}
    exec(CODE, space)
    with pytest.raises(DataProblem, match=said):
        check(space["attention"], sizes=sizes)


def test_heads_that_divide_no_width_of_a_module_are_told() -> None:
    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.num_heads = 3
            self.q_proj, self.k_proj, self.v_proj, self.out_proj = (torch.nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):  # type: ignore[no-untyped-def]
            q, k, v = (one(x).view(*x.shape[:2], 3, -1) for one in (self.q_proj, self.k_proj, self.v_proj))
            return self.out_proj((q + k + v).flatten(2))

    with pytest.raises(TargetProblem, match=r"3 heads do not divide any width of the weights of .*Attention"):
        check(Attention())
