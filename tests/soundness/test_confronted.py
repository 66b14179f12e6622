"""What the second engine does around the search: refutes ahead of it, and stops everything where it denies a proof."""

from __future__ import annotations

from pathlib import Path

import pytest

from mha_sym.axes import axis
from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.expr import Input, Softmax
from mha_sym.library import load
from mha_sym.proof import prover, witness
from mha_sym.proof.field import FieldResult
from mha_sym.proof.prover import Prover
from mha_sym.proof.theorem import Claim, Theorem, Verdict
from mha_sym.proof.witness import WitnessResult

NAME = "softmax_rows_sum_to_one"
DENIED = FieldResult(False, ({"T": 3},), 1.0, "the sides differ at t=1")


def test_what_is_denied_and_refuted_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Input("x", (axis("t"), axis("s")))
    claim = Claim("axes", Softmax(x, (axis("s"),)), Softmax(x, (axis("t"),)))
    monkeypatch.setattr(prover, "prove_goal", lambda *_: pytest.fail("the search was asked"))
    found = Prover(Theorem("axes", "", "", (claim,))).claim(claim)
    assert found.verdict is Verdict.REFUTED
    assert found.counterexample is not None


def test_what_is_denied_alone_is_searched_for_and_never_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Input("x", (axis("t"),))
    claim = Claim("not_equal", x, x * 2)
    monkeypatch.setattr(prover, "refute", lambda *_, **__: None)
    found = Prover(Theorem("not_equal", "", "", (claim,))).claim(claim)
    assert found.verdict is Verdict.UNDECIDED
    assert found.normal_forms is not None


@pytest.mark.parametrize("command", ["prove", "derive"])
def test_denied_proof_is_a_fault_with_a_report(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is called proved, and the file holds what is needed to see it again: both sides and the certificate."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prover.Points, "confirm", lambda *_: DENIED)
    (tmp_path / "mha_sym-fault-1.txt").write_text("an earlier one")
    assert main([command, NAME]) == Exit.FAULT
    out, err = capsys.readouterr()
    assert "proved" not in out
    assert "proved, but the engine of finite fields denies it: the sides differ at t=1" in err
    assert err.rstrip().endswith("please report it with mha_sym-fault-2.txt, which says what was tried")
    assert (tmp_path / "mha_sym-fault-1.txt").read_text() == "an earlier one"
    report = (tmp_path / "mha_sym-fault-2.txt").read_text()
    for part in ("mha_sym 0", "Python 3", "numpy ", "command: ", "ProverFault", "Claim(name=", "Certificate(", "Step("):
        assert part in report, part


def test_report_that_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prover.Points, "confirm", lambda *_: DENIED)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    assert main(["derive", NAME]) == Exit.FAULT
    said = "report it with the lines above (no file could be written: No space left on device)"
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [(), ("--no-recheck",)])
def test_an_engine_that_could_not_answer_is_told_below_the_table(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its reason, and unless nobody asked it; the theorem is proved all the same."""
    monkeypatch.setattr(witness.Witness, "recheck", lambda *_: WitnessResult(None, (), "at T=2: too large"))
    assert main(["prove", "split_transpose_join_is_identity", "--jobs", "1", *options]) == Exit.OK
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("split_transpose_join_is_identity  proved")
    said = rows[1:-1]
    assert len(said) == (0 if options else len(load("split_transpose_join_is_identity").claims))
    for row in said:
        assert row.endswith(" is proved, but not confirmed at explicit sizes: at T=2: too large")
        assert row.startswith("split_transpose_join_is_identity: claim ")
