"""The commands: what they print and where, how they end, what they do with bad input."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import mha_sym
from mha_sym.axes import axis
from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.errors import DataProblem, Problem
from mha_sym.expr import Input
from mha_sym.proof.theorem import Claim, Control, Counterexample, Outcome, Report, Theorem, Verdict
from mha_sym.render.terminal import summary

ROOT = Path(__file__).parent.parent
COMMANDS = ("prove", "recheck", "derive", "trace", "count", "check", "identify", "convert", "critique", "ask")
THEOREM_FILE = '''
from mha_sym.axes import axis
from mha_sym.expr import Input
from mha_sym.proof.theorem import Claim, Control, Theorem

X, Y = (Input(name, (axis("t", "T"), axis("m", "d_model"))) for name in "XY")
{extra}
THEOREM = Theorem("{name}", "the same", "X equals X.", (Claim("X", X, X),), (Control("Y", X, Y, "Y for X"),))
'''

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Capture = pytest.CaptureFixture[str]


def theorem_file(directory: Path, name: str, extra: str = "") -> str:
    """A small true theorem with one control, in a file."""
    path = directory / f"{name}.py"
    path.write_text(THEOREM_FILE.format(name=name, extra=extra), encoding="utf-8")
    return str(path)


# ---------------------------------------------------------------- the package and the group


def test_importing_the_package_is_light() -> None:
    heavy = "{'sympy', 'numpy', 'torch', 'einops', 'flint', 'rich', 'click'}"
    for statement, allowed in (("import mha_sym", set()), ("import mha_sym.cli", {"click"})):
        code = f"import sys; {statement}; print(*sorted({heavy} & set(sys.modules)))"
        line = [sys.executable, "-c", code]
        found = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=True).stdout.split()
        assert set(found) == allowed, statement


def test_help_is_quick() -> None:
    """Against a bare interpreter on the same machine: SymPy alone would make it about thirty times."""

    def best(*args: str) -> float:
        spans = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, *args], capture_output=True, cwd=ROOT, check=True)
            spans.append(time.perf_counter() - start)
        return min(spans)

    assert best("-m", "mha_sym", "--help") < 0.3 + 10 * best("-c", "pass")


def test_public_names_resolve() -> None:
    for name in mha_sym.__all__:
        assert not isinstance(getattr(mha_sym, name), ModuleType), name


def test_type_checkers_see_the_same_public_names() -> None:
    tree = ast.parse(Path(mha_sym.__file__).read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    typed = {alias.name: node.module for node in nodes for alias in node.names if node.module.startswith("mha_sym.")}
    assert typed == {name: f"mha_sym.{module}" for name, module in mha_sym._HOME.items()}


def test_public_names_stay_when_modules_are_loaded() -> None:
    code = (
        "import mha_sym.trace, mha_sym.count, mha_sym.evaluate, mha_sym as m; "
        "print(callable(m.trace), callable(m.count), callable(m.evaluate), m.trace.__module__)"
    )
    line = [sys.executable, "-c", code]
    found = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert found == "True True True mha_sym.trace\n"


def test_unknown_public_name() -> None:
    with pytest.raises(AttributeError, match="module 'mha_sym' has no attribute 'nonsense'"):
        _ = mha_sym.nonsense  # type: ignore[attr-defined]


def test_help_lists_the_commands(capsys: Capture) -> None:
    assert main(["--help"]) == Exit.OK
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.split("Commands:\n")[1].split("\n\n")[0].splitlines()] == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == Exit.OK
    assert capsys.readouterr().out.startswith(f"Usage: mha-sym {name} [OPTIONS]")


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == Exit.OK
    assert capsys.readouterr().out == f"mha-sym, version {mha_sym.__version__}\n"


BOOK = "--all writes a book into a directory: give -o DIRECTORY and --format html, latex or pdf."


def test_no_command_shows_the_help_and_is_no_success(capsys: Capture) -> None:
    assert main([]) == Exit.UNUSABLE
    assert capsys.readouterr().out.startswith("Usage: mha-sym [OPTIONS] COMMAND [ARGS]...")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nonsense"], "mha-sym: No such command 'nonsense'."),
        (["prove", "--jobs", "0"], "mha-sym prove: Invalid value for '--jobs': 0 is not in the range x>=1."),
        (["trace", "--length", "0"], "mha-sym trace: Invalid value for '--length': 0 is not in the range x>=1."),
        (["count", "--heads", "0"], "mha-sym count: Invalid value for '--heads': 0 is not in the range x>=1."),
        (["count", "--heads", "two"], "mha-sym count: Invalid value for '--heads': 'two' is not a valid integer"),
        (["derive"], "mha-sym derive: Give the NAME or PATH of one theorem, or --all, or --from. The theorems are "),
        (["derive", "one", "--detail", "--format", "html"], "mha-sym derive: --detail is about Unicode: html has the "),
        (["derive", "one", "-o", "x.docx"], "mha-sym derive: x.docx names no form that is known: end it with "),
        (["derive", "--all", "--detail"], f"mha-sym derive: {BOOK}"),
        (["derive", "--all", "-o", "x"], f"mha-sym derive: {BOOK}"),
        (["derive", "one", "two"], "mha-sym derive: One theorem at a time: give one NAME or PATH, or --all "),
        (["derive", "one", "--from", "x.py:f"], "mha-sym derive: NAME and --from are different things to write: "),
        (["derive", "one", "--heads", "3"], "mha-sym derive: --heads is about code: it goes with --from."),
        (["trace", "--form", "head_sum", "--stage", "c"], "mha-sym: the head_sum form has no stage c: it adds the "),
        (["derive", "--format", "pdf", "softmax_rows_sum_to_one"], "mha-sym derive: A PDF is not shown in a terminal"),
        (["ask", "2", "--exercise", "3"], "mha-sym ask: --exercise says which exercise --answer is meant for: "),
        (["prove", "nonsense"], "mha-sym: there is no theorem 'nonsense'; hint: mha-sym derive without a name "),
        (["derive", "nonsense"], "mha-sym: there is no theorem 'nonsense'; hint: mha-sym derive without "),
    ],
)
def test_usage_errors_are_one_line(args: list[str], message: str, capsys: Capture) -> None:
    assert main(args) == Exit.UNUSABLE
    out, err = capsys.readouterr()
    assert err.startswith(message) and not out
    assert err.count("\n") == 1


# ---------------------------------------------------------------- prove, with a prover that says what it is told to

T, M = axis("t", "T"), axis("m", "d_model")
CLAIM = Claim("X", Input("X", (T, M)), Input("X", (T, M)))
CONTROL = Control("Y", Input("X", (T, M)), Input("Y", (T, M)), "Y for X")
WITNESS = Counterexample({"T": 2, "d_model": 3}, {"t": 1, "m": 0}, "1/3", "0", {"X": ((0, 1), (2, 3))}, {"pi": (1, 0)})


def report(name: str, claim: Verdict = Verdict.PROVED, control: Verdict = Verdict.REFUTED) -> Report:
    found = WITNESS if control is Verdict.REFUTED else None
    return Report(
        Theorem(name, "", "", (CLAIM,), (CONTROL,)),
        (Outcome(CLAIM, claim, 0.1, counterexample=WITNESS if claim is Verdict.REFUTED else None),),
        (Outcome(CONTROL, control, 0.1, counterexample=found, detail="" if found else "no difference was found"),),
        0.25,
    )


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Report | Exception]], None]:
    """Let `prove` answer by the theorem's name; the theorems are those names."""

    def tell(answers: dict[str, Report | Exception]) -> None:
        def prove(theorem: Theorem, recheck: bool = True) -> Report:
            answer = answers[theorem.name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr("mha_sym.library.theorem_names", lambda: tuple(answers))
        monkeypatch.setattr("mha_sym.library.load", lambda name: Theorem(name, "", "", (CLAIM,)))
        monkeypatch.setattr("mha_sym.proof.prover.prove", prove)

    return tell


Tell = Callable[[dict[str, Report | Exception]], None]


def test_all_proved(told: Tell, capsys: Capture) -> None:
    told({"first": report("first"), "second_one": report("second_one")})
    assert main(["prove", "--jobs", "1"]) == Exit.OK
    out, err = capsys.readouterr()
    assert out == (
        "theorem     verdict  scope      controls     seconds\n"
        "──────────  ───────  ─────────  ───────────  ───────\n"
        "first       proved   all sizes  1/1 refuted     0.25\n"
        "second_one  proved   all sizes  1/1 refuted     0.25\n"
        "2 of 2 theorems proved for all sizes, 2 of 2 controls refuted; 0.50 s of processor time\n"
    )
    assert err == ""


@pytest.mark.parametrize(
    ("claim", "control", "line"),
    [
        (Verdict.UNDECIDED, Verdict.REFUTED, "bad: claim X is undecided"),
        (
            Verdict.REFUTED, Verdict.REFUTED,
            "bad: claim X is refuted: 1/3 against 0 at [t=1, m=0] with T=2, d_model=3, X = ((0, 1), (2, 3)), "
            "pi = (1, 0)",
        ),
        (Verdict.PROVED, Verdict.PROVED, "bad: control Y is proved, not refuted: no difference was found"),
        (Verdict.PROVED, Verdict.UNDECIDED, "bad: control Y is undecided, not refuted: no difference was found"),
    ],
)
def test_one_failure_fails_all(told: Tell, capsys: Capture, claim: Verdict, control: Verdict, line: str) -> None:
    told({"bad": report("bad", claim, control), "good": report("good")})
    assert main(["prove", "--jobs", "1"]) == Exit.FAILED
    assert line in capsys.readouterr().out.splitlines()


def test_nothing_to_prove_is_a_failure(told: Tell, capsys: Capture) -> None:
    told({})
    assert main(["prove"]) == Exit.FAILED
    assert capsys.readouterr() == ("nothing was checked\n", "mha-sym: nothing was checked\n")


def test_a_theorem_without_claims_is_a_failure(told: Tell, capsys: Capture) -> None:
    told({"empty": Report(Theorem("empty", "", "", ()), (), (), 0.0)})
    assert main(["prove"]) == Exit.FAILED
    assert "empty: it claims nothing, so nothing was checked\n" in capsys.readouterr().out


def test_json_is_one_object_and_nothing_else(told: Tell, capsys: Capture) -> None:
    told({"first": report("first"), "open": report("open", Verdict.UNDECIDED, Verdict.UNDECIDED)})
    assert main(["prove", "--json", "--jobs", "1"]) == Exit.FAILED
    witness = {
        "sizes": {"T": 2, "d_model": 3}, "index": {"t": 1, "m": 0}, "left": "1/3", "right": "0",
        "inputs": {"X": [[0, 1], [2, 3]]}, "permutations": {"pi": [1, 0]},
    }  # fmt: skip
    common = {"scope": "all sizes", "seconds": 0.25, "steps": 0, "bound": 1.0}
    refuted = {"name": "Y", "verdict": "refuted", "counterexample": witness}
    open_ = {"name": "Y", "verdict": "undecided", "counterexample": None}
    assert json.loads(capsys.readouterr().out) == {
        "theorems": [
            {"name": "first", "verdict": "proved", **common, "controls": [refuted]},
            {"name": "open", "verdict": "undecided", **common, "controls": [open_]},
        ]
    }


def test_problem_in_one_theorem_lets_the_others_run(told: Tell, capsys: Capture) -> None:
    told({"bad": DataProblem("no such axis", got="(t: T)"), "good": report("good")})
    assert main(["prove", "--jobs", "1"]) == Exit.UNUSABLE
    out, err = capsys.readouterr()
    assert "good     proved" in out
    assert "1 of 1 theorems proved for all sizes, 1 could not be tried, 1 of 1 controls refuted" in out
    assert err == "mha-sym: bad: no such axis; got: (t: T)\n"


def test_crash_in_one_theorem_is_called_a_fault(
    told: Tell, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    told({"bad": ZeroDivisionError("division by zero"), "good": report("good")})
    assert main(["prove", "--json", "--jobs", "1"]) == Exit.FAULT
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [one["name"] for one in found["theorems"]] == ["good"]
    assert found["errors"] == [{"name": "bad", "message": "ZeroDivisionError: division by zero"}]
    assert "Traceback (most recent call last)" in err
    assert err.endswith(
        "mha-sym: bad: a fault of mha_sym itself, ZeroDivisionError: division by zero\n"
        "mha-sym: please report it with mha_sym-fault-1.txt, which says what was tried\n"
    )
    assert "ZeroDivisionError" in (tmp_path / "mha_sym-fault-1.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("args", [["--traceback", "prove"], ["prove", "--traceback"]])
def test_traceback_on_demand(told: Tell, capsys: Capture, args: list[str]) -> None:
    told({"bad": DataProblem("no such axis")})
    assert main(args) == Exit.UNUSABLE
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_names_given_twice_are_proved_once(told: Tell, capsys: Capture) -> None:
    told({"a": report("a"), "b": report("b")})
    assert main(["prove", "b", "b", "--json"]) == Exit.OK
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["theorems"]] == ["b"]


@pytest.mark.parametrize(("args", "recheck"), [([], True), (["--no-recheck"], False)])
def test_recheck_is_passed_on(monkeypatch: pytest.MonkeyPatch, told: Tell, args: list[str], recheck: bool) -> None:
    told({"a": report("a")})
    seen: list[bool] = []
    monkeypatch.setattr(
        "mha_sym.proof.prover.prove", lambda theorem, recheck: seen.append(recheck) or report(theorem.name)
    )
    assert main(["prove", *args]) == Exit.OK
    assert seen == [recheck]


def test_summary_tells_fixed_sizes_apart() -> None:
    one = {"name": "a", "verdict": "proved", "scope": "all sizes", "seconds": 1.0, "steps": 1, "controls": []}
    two = one | {"scope": "at h=3"}
    line = summary([one, two, one | {"verdict": "undecided"}])  # type: ignore[list-item]
    assert line.startswith("2 of 3 theorems proved (1 for all sizes, 1 at the sizes shown), 1 undecided, 0 of 0 ")


# ---------------------------------------------------------------- prove, for real and in processes


def test_several_processes_keep_the_order(tmp_path: Path, command: Run) -> None:
    slow = theorem_file(tmp_path, "slow", "import time; time.sleep(1.0)")
    files = [slow, theorem_file(tmp_path, "quick"), theorem_file(tmp_path, "again")]
    found = command("prove", "--json", "--jobs", "2", *files)
    assert (found.returncode, found.stderr) == (Exit.OK, "")
    theorems = json.loads(found.stdout)["theorems"]
    assert [(one["name"], one["verdict"]) for one in theorems] == [
        ("slow", "proved"), ("quick", "proved"), ("again", "proved")
    ]  # fmt: skip
    witness = theorems[1]["controls"][0]["counterexample"]
    assert witness["left"] != witness["right"]


def test_file_that_raises_lets_the_others_run(tmp_path: Path, command: Run) -> None:
    broken = theorem_file(tmp_path, "broken", "X.axis('q')")
    found = command("prove", "--jobs", "2", broken, theorem_file(tmp_path, "good"), "nonsense")
    assert found.returncode == Exit.UNUSABLE
    assert "good     proved" in found.stdout
    first, second = found.stderr.splitlines()
    assert first.startswith(f"mha-sym: {broken}: broken.py does not load; in: {broken}, line 7; got: AxisProblem: ")
    assert second.startswith("mha-sym: there is no theorem 'nonsense'")


def test_what_a_theorem_file_prints_is_not_the_result(tmp_path: Path, command: Run) -> None:
    # one write each: both processes have the same standard error
    files = [theorem_file(tmp_path, name, f"print({name + chr(10)!r}, end='')") for name in ("one", "two")]
    for jobs in ("1", "2"):
        found = command("prove", "--json", "--jobs", jobs, *files)
        assert len(json.loads(found.stdout)["theorems"]) == 2
        assert sorted(found.stderr.split()) == ["one", "two"]


def test_process_that_dies_is_told(tmp_path: Path, command: Run) -> None:
    killer = theorem_file(tmp_path, "killer", "import os; os._exit(3)")
    found = command("prove", "--jobs", "2", killer, theorem_file(tmp_path, "good"))
    assert found.returncode == Exit.UNUSABLE
    assert f"mha-sym: {killer}: the process that worked on it" in found.stderr


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to_main_process", "to_all"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupt_ends_at_once_with_one_line(tmp_path: Path, jobs: str, send: Callable[[int, int], None]) -> None:
    mark = tmp_path / "started"
    extra = f"import pathlib, time; pathlib.Path({str(mark)!r}).touch(); time.sleep(60)"
    files = [theorem_file(tmp_path, "first", extra), theorem_file(tmp_path, "second", extra)]
    line = [sys.executable, "-m", "mha_sym", "prove", "--jobs", jobs, *files]
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 30
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        send(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)  # would not end while a worker holds the pipe
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, err) == (Exit.INTERRUPTED, "", "mha-sym: interrupted\n")


def test_reader_that_leaves_is_no_error() -> None:
    read, written = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "mha_sym", "trace"]
    found = subprocess.run(line, stdout=written, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    os.close(written)
    assert (found.returncode, found.stderr) == (Exit.PIPE, "")


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    line = [sys.executable, "-m", "mha_sym", "prove", "--json", theorem_file(tmp_path, "shown")]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    found = subprocess.run(line, stdout=subprocess.PIPE, stderr=slave, cwd=ROOT, env=environment, check=True)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # which says that there is no more; one reading may bring a part
        while part := os.read(master, 100_000):
            shown += part
    os.close(master)
    assert json.loads(found.stdout)["theorems"][0]["verdict"] == "proved"
    assert b"1/1" in shown


# ---------------------------------------------------------------- derive


@pytest.fixture
def derivable(told: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    told({"same": report("same"), "open": report("open", Verdict.UNDECIDED)})
    monkeypatch.setattr(
        "mha_sym.render.derive.derive", lambda found, style, rewrite: f"∀ {found.theorem.name}: {style}"
    )


@pytest.mark.usefixtures("derivable")
class TestDerive:
    """Where the text goes; the text itself is tested with `mha_sym.render.derivation`."""

    @pytest.mark.parametrize("style", ["unicode", "latex", "latex-fragment", "markdown", "html", "json"])
    def test_to_standard_output(self, style: str, capsys: Capture) -> None:
        assert main(["derive", "same", "--format", style, *["--detail"] * (style == "unicode")]) == Exit.OK
        assert capsys.readouterr() == (f"∀ same: {style}\n", "")

    def test_a_pipe_is_written_into_and_not_replaced(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True, encoding="utf-8")
        assert main(["derive", "same", "--detail", "-o", str(pipe), "--force"]) == Exit.OK
        assert reader.communicate(timeout=60)[0] == "∀ same: unicode\n"
        assert pipe.is_fifo()

    def test_what_does_not_hold(self, capsys: Capture) -> None:
        assert main(["derive", "open"]) == Exit.FAILED
        out, err = capsys.readouterr()
        assert out == "∀ open: stages\n"
        assert err == "mha-sym: open: undecided, 1 of 1 controls refuted\n"

    def test_to_a_file(self, tmp_path: Path, capsys: Capture) -> None:
        target = tmp_path / "d.txt"
        assert main(["derive", "same", "-o", str(target)]) == Exit.OK
        assert target.read_text(encoding="utf-8") == "∀ same: stages\n"
        assert capsys.readouterr() == ("", "")
        assert list(tmp_path.iterdir()) == [target]

    @pytest.mark.parametrize(
        ("name", "style"), [("d.html", "html"), ("d.TEX", "latex"), ("d.md", "markdown"), ("d.json", "json")]
    )
    def test_a_file_is_written_as_it_is_called(self, name: str, style: str, tmp_path: Path) -> None:
        assert main(["derive", "same", "-o", str(tmp_path / name)]) == Exit.OK
        assert (tmp_path / name).read_text(encoding="utf-8") == f"∀ same: {style}\n"
        assert main(["derive", "same", "-o", str(tmp_path / name), "--format", "unicode", "--force"]) == Exit.OK
        assert (tmp_path / name).read_text(encoding="utf-8") == "∀ same: stages\n"

    def test_file_that_exists_is_kept(self, tmp_path: Path, capsys: Capture) -> None:
        target = tmp_path / "d.txt"
        target.write_text("mine")
        assert main(["derive", "same", "-o", str(target)]) == Exit.UNUSABLE
        assert target.read_text() == "mine"
        assert capsys.readouterr().err == f"mha-sym: {target} exists; hint: give --force to replace it\n"

    def test_file_that_exists_is_replaced_by_force(self, tmp_path: Path) -> None:
        target = tmp_path / "d.txt"
        target.write_text("mine")
        target.chmod(0o640)
        assert main(["derive", "same", "-o", str(target), "--force"]) == Exit.OK
        assert target.read_text(encoding="utf-8") == "∀ same: stages\n"
        assert target.stat().st_mode & 0o777 == 0o640

    def test_link_stays_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real.txt").write_text("mine")
        (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
        assert main(["derive", "same", "-o", str(tmp_path / "link.txt"), "--force"]) == Exit.OK
        assert (tmp_path / "link.txt").is_symlink()
        assert (tmp_path / "real.txt").read_text(encoding="utf-8") == "∀ same: stages\n"

    def test_place_that_cannot_be_written(self, tmp_path: Path, capsys: Capture) -> None:
        target = tmp_path / "none" / "d.txt"
        assert main(["derive", "same", "-o", str(target)]) == Exit.UNUSABLE
        assert capsys.readouterr().err == f"mha-sym: {target} cannot be written: No such file or directory\n"

    def test_directory(self, tmp_path: Path, capsys: Capture) -> None:
        assert main(["derive", "same", "-o", str(tmp_path), "--force"]) == Exit.UNUSABLE
        assert capsys.readouterr().err.startswith(f"mha-sym: {tmp_path} is a directory")

    def test_write_that_breaks_off_leaves_the_old_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
    ) -> None:
        target = tmp_path / "d.txt"
        target.write_text("mine")

        def full(source: str, destination: Path) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.replace", full)
        assert main(["derive", "same", "-o", str(target), "--force"]) == Exit.UNUSABLE
        assert capsys.readouterr().err == f"mha-sym: {target} cannot be written: No space left on device\n"
        assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("d.txt", "mine")]


# ---------------------------------------------------------------- trace and count


def test_a_trace_is_written_as_its_file_is_called(tmp_path: Path) -> None:
    for name, begins in (("t.svg", "<svg "), ("t.json", "{"), ("t.txt", "step ")):
        assert main(["trace", "-o", str(tmp_path / name)]) == Exit.OK
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


@pytest.mark.parametrize("form", ["combined", "separate", "head_sum"])
@pytest.mark.parametrize("sizes", [[], ["--batch=2", "--length=5", "--keys=7", "--d-model=12", "--heads=3"]])
def test_trace_in_text_and_json(form: str, sizes: Sequence[str], capsys: Capture) -> None:
    assert main(["trace", "--form", form, *sizes]) == Exit.OK
    text = capsys.readouterr().out
    assert main(["trace", "--form", form, "--json", *sizes]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert found
    assert ("d_model" in text) is (not sizes)


def test_head_width_is_filled_in(capsys: Capture) -> None:
    assert main(["count", "--d-model", "12", "--heads", "3", "--json"]) == Exit.OK
    filled = capsys.readouterr().out
    assert main(["count", "--d-model", "12", "--heads", "3", "--d-k", "4", "--d-v", "4", "--json"]) == Exit.OK
    assert capsys.readouterr().out == filled


def test_head_width_that_is_not_whole_is_asked_for(capsys: Capture) -> None:
    assert main(["trace", "--d-model", "7", "--heads", "3"]) == Exit.UNUSABLE
    assert capsys.readouterr().err == (
        "mha-sym: d_model / h = 7/3 is not whole, so it cannot be the default of d_k; "
        "hint: that h divides d_model is a convention of interfaces, not of attention: give --d-k\n"
    )
    assert main(["trace", "--d-model", "7", "--heads", "3", "--d-k", "5"]) == Exit.UNUSABLE
    assert capsys.readouterr().err.endswith("give --d-v\n")
    assert main(["trace", "--d-model", "7", "--heads", "3", "--d-k", "5", "--d-v", "2"]) == Exit.OK


def test_biases_and_itemsize_count(capsys: Capture) -> None:
    found = {}
    for args in ((), ("--bias",), ("--itemsize", "8")):
        sizes = ("--batch", "2", "--length", "5", "--d-model", "12", "--heads", "3")
        assert main(["count", *sizes, *args]) == Exit.OK
        found[args] = capsys.readouterr().out
    assert len(set(found.values())) == 3
    assert "576" in found[()]  # 4 * 12 * 12
    assert "624" in found["--bias",]  # and 4 * 12 biases


# ---------------------------------------------------------------- check


def test_check_passes_the_options_on(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    seen: list[object] = []

    class Found:
        exit_code = 1
        problem = None
        compared = ("something",)

        def text(self, detail: bool = False) -> str:
            return "they disagree, in detail" if detail else "they disagree"

        def json(self) -> dict[str, object]:
            return {"verdict": "they disagree", "off": [float("inf"), 1.5]}

    def check_target(target: str, **options: object) -> Found:
        seen.extend([target, options])
        return Found()

    monkeypatch.setattr(import_module("mha_sym.audit.check"), "check_target", check_target)
    args = ["check", "a.py:f", "--heads", "3", "--causal", "--no-batch-first", "--seed", "5"]
    assert main(args) == Exit.FAILED
    assert capsys.readouterr().out == "they disagree\n"
    options = {"heads": 3, "causal": True, "batch_first": False, "layout": None, "draws": 3, "seed": 5}
    assert seen == ["a.py:f", {**options, "kv_heads": None, "aligned": None}]
    assert main([*args, "-v"]) == Exit.FAILED and capsys.readouterr().out == "they disagree, in detail\n"
    assert main([*args, "--json"]) == Exit.FAILED
    assert json.loads(capsys.readouterr().out) == {"verdict": "they disagree", "off": ["inf", 1.5]}


def test_check_that_cannot_run(capsys: Capture) -> None:
    assert main(["check", "no_such_module_at_all:thing"]) == Exit.UNUSABLE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mha-sym: ")
    assert err.count("\n") == 1
    assert main(["check", "no_such_module_at_all:thing", "--json"]) == Exit.UNUSABLE
    assert "no_such_module_at_all" in json.loads(capsys.readouterr().out)["problem"]
    assert main(["check", "no_such_module_at_all:thing", "--traceback"]) == Exit.UNUSABLE
    assert "Traceback (most recent call last)" in capsys.readouterr().err


IMPLEMENTATION = """
import numpy as np

print("loaded")

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def attention(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

def without_transpose(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(x.shape[0], heads, x.shape[1], -1) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o
"""


@pytest.mark.parametrize(("name", "code"), [("attention", Exit.OK), ("without_transpose", Exit.FAILED)])
def test_check_for_real(name: str, code: int, tmp_path: Path, command: Run) -> None:
    (tmp_path / "mine.py").write_text(IMPLEMENTATION)
    found = command("check", f"mine.py:{name}", "--heads", "3", "--json", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (code, "loaded\n")
    assert json.loads(found.stdout)["verdict"] == ("agree" if code == Exit.OK else "disagree")


# ---------------------------------------------------------------- problems in general


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Problem("no such axis", hint="name it"), Exit.UNUSABLE, "mha-sym: no such axis; hint: name it\n"),
        (KeyboardInterrupt(), Exit.INTERRUPTED, "mha-sym: interrupted\n"),
        (RuntimeError("oh"), Exit.FAULT, "mha-sym: this is a fault of mha_sym itself; please report it with mha_"),
    ],
)
def test_how_a_command_ends(
    error: BaseException, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def fail() -> tuple[str, ...]:
        raise error

    monkeypatch.setattr("mha_sym.library.theorem_names", fail)
    assert main(["prove"]) == code
    err = capsys.readouterr().err
    assert words in err
    assert ("Traceback" in err) is (code == Exit.FAULT)


def test_output_that_cannot_show_the_signs(tmp_path: Path) -> None:
    code = "from mha_sym.cli.common import write; write('∀')"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-c", code]
    found = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert "Problem: standard output cannot show '\\u2200' in its encoding, ascii" in found.stderr
