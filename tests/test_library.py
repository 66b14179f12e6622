"""Finding and loading theorem files, good ones and broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from mha_sym import library
from mha_sym.axes import axis
from mha_sym.errors import AxisProblem, TheoremProblem
from mha_sym.expr import Input
from mha_sym.library import find, load, proofs_directory, run, spread, theorem_names
from mha_sym.proof.theorem import Claim, Outcome, Report, Theorem, Verdict

GOOD = '''
from mha_sym.axes import axis
from mha_sym.expr import Input
from mha_sym.proof.theorem import Claim, Theorem

X = Input("X", (axis("t", "T"), axis("m", 12)))


def theorem():
    return Theorem("{name}", "the same", "X equals X.", (Claim("X", X, X),))
'''


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def problem(path: Path) -> TheoremProblem:
    with pytest.raises(TheoremProblem) as caught:
        load(path)
    return caught.value


def test_theorems_are_in_the_clone() -> None:
    assert proofs_directory() == Path(library.__file__).parent.parent / "proofs"
    assert list(theorem_names()) == sorted(path.stem for path in proofs_directory().glob("[!_]*.py"))


def test_there_are_theorems() -> None:
    assert len(theorem_names()) >= 16


@pytest.mark.parametrize("name", theorem_names())
def test_every_theorem_loads_under_its_own_name(name: str) -> None:
    theorem = load(name)
    assert theorem.name == name
    assert theorem.claims, "a theorem claims something"
    assert theorem.controls, "a theorem has false neighbours"


def test_unknown_name_shows_the_closest() -> None:
    with pytest.raises(TheoremProblem) as caught:
        load("softmax_row_sums_to_one")
    assert caught.value.what == "there is no theorem 'softmax_row_sums_to_one'"
    assert caught.value.hint.startswith("did you mean softmax_rows_sum_to_one")


def test_unknown_name_that_is_close_to_none() -> None:
    with pytest.raises(TheoremProblem) as caught:
        find("zzz")
    assert caught.value.hint == f"mha-sym derive without a name lists all {len(theorem_names())}"


def test_part_of_a_name_finds_the_name() -> None:
    with pytest.raises(TheoremProblem, match="there is no theorem 'softmax'") as caught:
        find("softmax")
    assert "softmax_rows_sum_to_one" in caught.value.hint


def test_file_by_path(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", GOOD.format(name="mine"))
    assert load(path).name == load(str(path)).name == "mine"


def test_file_by_bare_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "mine.py", GOOD.format(name="mine"))
    monkeypatch.chdir(tmp_path)
    assert load("mine.py").name == "mine"


def test_no_such_file(tmp_path: Path) -> None:
    assert problem(tmp_path / "none.py").what == f"there is no file {tmp_path / 'none.py'}"


def test_directory(tmp_path: Path) -> None:
    assert problem(tmp_path).what == f"{tmp_path} is a directory"


def test_a_directory_stands_for_its_theorem_files(tmp_path: Path) -> None:
    for name in ("second", "first", "_helper"):
        write(tmp_path / f"{name}.py", GOOD.format(name=name))
    (tmp_path / "notes.txt").write_text("no theorem")
    assert spread(str(tmp_path)) == (str(tmp_path / "first.py"), str(tmp_path / "second.py"))
    assert spread(str(tmp_path / "first.py")) == (str(tmp_path / "first.py"),)
    assert spread("parameter_count") == ("parameter_count",)
    (tmp_path / "none").mkdir()
    with pytest.raises(TheoremProblem, match="holds no theorem file"):
        spread(str(tmp_path / "none"))


def test_file_that_raises_is_blamed_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "broken.py", "import json\n\n\njson.loads('{')\n")
    found = problem(path)
    assert found.what == "broken.py does not load"
    assert found.where == f"{path}, line 4"
    assert found.got.startswith("json.decoder.JSONDecodeError: ")


def test_function_that_raises_is_blamed_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "late.py", "def theorem():\n    return 1 / 0\n")
    found = problem(path)
    assert (found.where, found.got) == (f"{path}, line 2", "ZeroDivisionError: division by zero")


def test_axes_of_a_malformed_expression_are_shown(tmp_path: Path) -> None:
    text = GOOD.format(name="x") + "\nX.axis('q')\n"
    found = problem(write(tmp_path / "axes.py", text))
    assert found.got == "AxisProblem: axis 'q' is not there; in: input; got: (t: T, m: 12)"
    assert isinstance(found.__cause__, AxisProblem)


def test_syntax_error_is_blamed_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "syntax.py", "x = 1\ny = (\n")
    found = problem(path)
    assert (found.where, found.got) == (f"{path}, line 2", "SyntaxError: '(' was never closed")


def test_file_that_exits(tmp_path: Path) -> None:
    found = problem(write(tmp_path / "leaves.py", "import sys\nsys.exit(3)\n"))
    assert found.got == "SystemExit: 3"
    assert found.where.endswith("line 2")


@pytest.mark.parametrize(("text", "got"), [("x = 1\n", "neither"), ("THEOREM = 7\n", "int")])
def test_file_without_a_theorem(tmp_path: Path, text: str, got: str) -> None:
    found = problem(write(tmp_path / "empty.py", text))
    assert (found.what, found.got) == ("empty.py holds no theorem", got)


def test_missing_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "__file__", str(tmp_path / "package" / "library.py"))
    with pytest.raises(TheoremProblem, match="the theorem files are missing"):
        proofs_directory()


def test_installed_proofs_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (tmp_path / "package" / "_proofs", tmp_path / "proofs"):
        place.mkdir(parents=True)
    monkeypatch.setattr(library, "__file__", str(tmp_path / "package" / "library.py"))
    assert proofs_directory() == tmp_path / "package" / "_proofs"


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.PROVED, 0), (Verdict.REFUTED, 1), (Verdict.UNDECIDED, 1)])
def test_run_writes_the_derivation(
    verdict: Verdict, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    x = Input("X", (axis("t", "T"),))
    claim = Claim("X", x, x)
    report = Report(Theorem("same", "", "", (claim,)), (Outcome(claim, verdict, 0.0),), (), 0.0)
    monkeypatch.setattr("mha_sym.proof.prover.prove", lambda theorem, recheck: report)
    monkeypatch.setattr("mha_sym.render.derive.derive", lambda report, style: f"{report.theorem.name} in {style}")
    assert run(report.theorem) == code
    assert capsys.readouterr().out == "same in unicode\n"


def test_run_tells_a_problem_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(theorem: Theorem, recheck: bool) -> Report:
        raise AxisProblem("axis 'q' is not there", got="(t: T)")

    monkeypatch.setattr("mha_sym.proof.prover.prove", refuse)
    assert run(Theorem("same", "", "", ())) == 2
    assert capsys.readouterr() == ("", "same: axis 'q' is not there; got: (t: T)\n")


def test_the_line_is_that_of_the_file_even_when_its_path_is_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "late.py").write_text("a = 1\n\nb = a.nothing\n", encoding="utf-8")
    (tmp_path / "odd.py").write_text("a = 1\nb = 2\nc = (\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("late.py", "odd.py"):
        with pytest.raises(TheoremProblem) as caught:
            load(name)
        assert caught.value.where == f"{name}, line 3"
