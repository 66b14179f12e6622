"""Ctrl-C, SIGTERM, a full disk and a killed process: the right word and exit code, nothing half done, a rerun works."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mha_sym.cli.common import Exit

ROOT = Path(__file__).parent.parent
#: how the library is made small, so that `--all` takes a second: a theorem that is proved, then one that waits
FEW = """
import sys, time
from pathlib import Path
from mha_sym import ask, library
from mha_sym.cli import main
ask.questions = lambda: ()
known, names = library.load, ["split_transpose_join_is_identity", "softmax_rows_sum_to_one"]
def load(name):
    if name == names[1] and not Path("go").exists():
        Path("waiting").touch()
        time.sleep(60)
    return known(name)
library.load, library.theorem_names = load, lambda: names
"""
RUN = "raise SystemExit(main(sys.argv[1:]))"
#: every write of more bytes than this fails, as on a full disk
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
FOUR = {"first": "", "second": "", "third": "", "fourth": ""}
THEOREM = """
from mha_sym import Claim, Input, Theorem, axis
import time
from pathlib import Path
{wait}
x = Input("x", (axis("t"),))
THEOREM = Theorem("{name}", "", "", (Claim("twice", x + x, x * 2),))
"""


def start(place: Path, *args: str, code: str = "") -> subprocess.Popen[str]:
    """The command in a session of its own, so that what it leaves behind can be found."""
    program = ["-c", code, *args] if code else ["-m", "mha_sym", *args]
    return subprocess.Popen(
        [sys.executable, *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}, start_new_session=True,
    )  # fmt: skip


@contextlib.contextmanager
def running(place: Path, *args: str, code: str = "") -> Iterator[subprocess.Popen[str]]:
    process = start(place, *args, code=code)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ended(place: Path, *args: str, code: str = "") -> tuple[int, str, str]:
    with running(place, *args, code=code) as process:
        out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def theorem(place: Path, name: str, wait: str = "") -> str:
    (place / f"{name}.py").write_text(THEOREM.format(name=name, wait=wait))
    return str(place / f"{name}.py")


SIGNALS = [(signal.SIGINT, Exit.INTERRUPTED, "interrupted"), (signal.SIGTERM, Exit.TERMINATED, "terminated")]


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_signal_while_the_library_is_proved(tmp_path: Path, number: int, code: int, word: str) -> None:
    """The real command with its workers; one line, and no process is left."""
    with running(tmp_path, "prove", "--jobs", "2", "--json") as process:
        wait_for(lambda: len(members(process.pid)) >= 3)  # this one, the workers, and what multiprocessing starts
        time.sleep(0.5)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (code, "", f"mha-sym: {word}\n")
        wait_for(lambda: not members(process.pid), 10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "code", "word"), SIGNALS)
def test_signal_while_a_book_is_derived(tmp_path: Path, number: int, code: int, word: str) -> None:
    book = ("derive", "--all", "--format", "html", "-o", "book")
    with running(tmp_path, *book, code=FEW + RUN) as process:
        wait_for((tmp_path / "waiting").exists)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (code, "", f"mha-sym: {word}\n")
    assert [one.name for one in tmp_path.iterdir()] == ["waiting"]


def test_signal_while_a_book_is_written_and_a_rerun(tmp_path: Path) -> None:
    """Ended between two files of a directory that exists already: whole files only, and nothing beside it."""
    (tmp_path / "go").touch()
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "index.html").write_text("the old one")
    book = ("derive", "--all", "--format", "html", "-o", "book", "--force")
    slow = """
import os
replace = os.replace
def slow(a, b):
    if Path("waiting").exists():
        time.sleep(60)
    Path("waiting").touch()
    replace(a, b)
if not Path("fast").exists():
    os.replace = slow
"""
    with running(tmp_path, *book, code=FEW + slow + RUN) as process:
        wait_for((tmp_path / "waiting").exists)
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (Exit.TERMINATED, "mha-sym: terminated\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["book", "go", "waiting"]
    texts = [one.read_text() for one in (tmp_path / "book").iterdir()]
    assert all(text == "the old one" or "</html>" in text for text in texts)
    (tmp_path / "fast").touch()
    code, out, err = ended(tmp_path, *book, code=FEW + slow + RUN)
    assert (code, out, err) == (Exit.OK, "", "")
    assert all("</html>" in one.read_text() for one in (tmp_path / "book").glob("*.html"))


@pytest.mark.parametrize("module", ["mha_sym.cli", "click", "mha_sym.errors", "mha_sym.library"])
def test_ctrl_c_while_modules_are_loaded(tmp_path: Path, module: str) -> None:
    """From the first module that the command asks for, also those that it loads when it runs."""
    code = f"""
import os, signal, sys
class Impatient:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Impatient())
from mha_sym.__main__ import main
raise SystemExit(main())
"""
    line = ("prove", "split_transpose_join_is_identity")
    assert ended(tmp_path, *line, code=code) == (Exit.INTERRUPTED, "", "mha-sym: interrupted\n")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- a full disk


@pytest.mark.parametrize(
    "args",
    [
        ("prove", "split_transpose_join_is_identity", "--certificate", "out"),
        ("prove", "split_transpose_join_is_identity", "--coq", "out"),
        ("derive", "split_transpose_join_is_identity", "--format", "html", "-o", "out"),
        ("derive", "--all", "--format", "html", "-o", "out"),
    ],
    ids=["certificate", "coq", "derivation", "book"],
)
def test_full_disk(tmp_path: Path, args: tuple[str, ...]) -> None:
    (tmp_path / "go").touch()
    code, out, err = ended(tmp_path, *args, code=FULL + FEW + RUN)
    assert (code, out, err) == (Exit.UNUSABLE, "", "mha-sym: out cannot be written: File too large\n")
    assert [one.name for one in tmp_path.iterdir()] == ["go"]
    assert ended(tmp_path, *args, code=FEW + RUN)[0] == Exit.OK
    assert (tmp_path / "out").exists()


def test_full_disk_under_an_earlier_file(tmp_path: Path) -> None:
    """What is there is not touched before the new one is whole."""
    (tmp_path / "out").write_text("the old one")
    line = ("prove", "split_transpose_join_is_identity", "--certificate", "out", "--force")
    code, _, err = ended(tmp_path, *line, code=FULL + FEW + RUN)
    assert (code, err) == (Exit.UNUSABLE, "mha-sym: out cannot be written: File too large\n")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("out", "the old one")]


@pytest.mark.parametrize("args", [("trace",), ("prove", "split_transpose_join_is_identity", "--json"), ("--help",)])
def test_full_disk_under_standard_output(args: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        line = [sys.executable, "-m", "mha_sym", *args]
        found = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    said = "mha-sym: standard output cannot be written: No space left on device\n"
    assert (found.returncode, found.stderr) == (Exit.UNUSABLE, said)


# ---------------------------------------------------------------- killed processes


def test_killed_worker_takes_no_theorem_along(tmp_path: Path) -> None:
    """Killed once, as for want of memory: what it worked on is tried again, and all is proved."""
    once = 'if not Path("killed").exists():\n    Path("killed").touch()\n    import os, signal; os.kill(os.getpid(), 9)'
    files = [theorem(tmp_path, "first", once), *(theorem(tmp_path, name) for name in ("second", "third", "fourth"))]
    code, out, err = ended(tmp_path, "prove", "--jobs", "2", "--json", *files)
    assert (code, err) == (Exit.OK, "")
    assert [one["verdict"] for one in json.loads(out)["theorems"]] == ["proved"] * 4


def test_theorem_that_always_ends_its_worker_is_the_only_one_lost(tmp_path: Path) -> None:
    always = "import os, signal; os.kill(os.getpid(), 9)"
    files = [theorem(tmp_path, "first"), theorem(tmp_path, "killer", always), theorem(tmp_path, "third")]
    code, out, err = ended(tmp_path, "prove", "--jobs", "2", "--json", *files)
    assert code == Exit.UNUSABLE
    assert [one["name"] for one in json.loads(out)["theorems"]] == ["first", "third"]
    assert err == f"mha-sym: {files[1]}: the process that worked on it ended without an answer\n"


def test_workers_end_with_a_killed_main_process(tmp_path: Path) -> None:
    wait = 'Path("waiting").touch(); time.sleep(60)'
    with running(tmp_path, "prove", "--jobs", "2", *(theorem(tmp_path, name, wait) for name in "ab")) as process:
        wait_for((tmp_path / "waiting").exists)
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: members(process.pid) in ([], [process.pid]), 10)


def test_killed_while_a_book_is_derived_and_a_rerun(tmp_path: Path) -> None:
    """As for want of memory: no book, not half of one, and the next run is not in the way of anything."""
    book = ("derive", "--all", "--format", "html", "-o", "book")
    with running(tmp_path, *book, code=FEW + RUN) as process:
        wait_for((tmp_path / "waiting").exists)
        os.kill(process.pid, signal.SIGKILL)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (-signal.SIGKILL, "")
    assert [one.name for one in tmp_path.iterdir()] == ["waiting"]
    (tmp_path / "go").touch()
    assert ended(tmp_path, *book, code=FEW + RUN) == (Exit.OK, "", "")
    pages = list((tmp_path / "book").glob("*.html"))
    assert pages and all("</html>" in one.read_text() for one in pages)
