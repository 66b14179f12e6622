"""Conversions interrupted, killed, or out of room: no half file, the right word and exit code, a rerun works."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mha_sym.cli.common import Exit

ROOT = Path(__file__).parent.parent.parent
LINE = ("convert", "in.npz", "out.npz", "--from", "gpt2", "--to", "opt", "--heads", "3")
RUN = "import sys\nfrom mha_sym.cli import main\nraise SystemExit(main(sys.argv[1:]))"
#: the second layer waits, when the first has been written
SLOW = """
import time
from pathlib import Path
from mha_sym.checkpoint import convert
moved, count = convert.moved, [0]
def slow(*given):
    count[0] += 1
    if count[0] == 10 and not Path("go").exists():
        Path("waiting").touch()
        time.sleep(60)
    return moved(*given)
convert.moved = slow
"""
#: every write of more bytes than this fails, as on a full disk
FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
FORCE = "import sys\nsys.argv.append('--force')\n"
#: a file system on which a file has a name from the beginning
NAMED = "import os\nif hasattr(os, 'O_TMPFILE'): del os.O_TMPFILE\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shapes = {"c_attn.weight": (24, 72), "c_attn.bias": (72,), "c_proj.weight": (24, 24), "c_proj.bias": (24,)}
    arrays = {f"h.{n}.{name}": np.ones(shape) for n in range(3) for name, shape in shapes.items()}
    np.savez(tmp_path / "in.npz", **arrays)
    return tmp_path


def start(place: Path, code: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code + RUN, *LINE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def ended(place: Path, code: str = "") -> tuple[int, str, str]:
    process = start(place, code)
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def stopped(place: Path, number: int, code: str) -> tuple[int, str]:
    process = start(place, code)
    end = time.monotonic() + 60
    while not (place / "waiting").exists():
        assert time.monotonic() < end, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    (place / "waiting").unlink()
    return process.returncode, err


def names(place: Path) -> list[str]:
    return sorted(one.name for one in place.iterdir())


def assert_a_rerun_works(place: Path) -> None:
    code, out, err = ended(place)
    assert (code, err) == (Exit.OK, ""), err
    assert out.startswith("CONVERTED   in.npz to out.npz: 3 layers\n")
    assert names(place) == ["in.npz", "out.npz"]
    with np.load(place / "out.npz") as found:
        assert len(found) == 24


@pytest.mark.parametrize(
    ("number", "code", "word", "before"),
    [
        (signal.SIGINT, Exit.INTERRUPTED, "interrupted", ""),
        (signal.SIGTERM, Exit.TERMINATED, "terminated", NAMED),
    ],
    ids=["SIGINT", "SIGTERM"],
)
def test_signal(place: Path, number: int, code: int, word: str, before: str) -> None:
    assert stopped(place, number, before + SLOW) == (code, f"mha-sym: {word}\n")
    assert names(place) == ["in.npz"]
    assert_a_rerun_works(place)


def test_killed(place: Path) -> None:
    """As for want of memory: not even a file beside it is left."""
    (place / "out.npz").write_text("the old one")
    assert stopped(place, signal.SIGKILL, FORCE + SLOW) == (-signal.SIGKILL, "")
    assert names(place) == ["in.npz", "out.npz"]
    assert (place / "out.npz").read_text() == "the old one"
    (place / "out.npz").unlink()
    assert_a_rerun_works(place)


@pytest.mark.parametrize("before", ["", NAMED], ids=["unnamed", "named"])
def test_full_disk(place: Path, before: str) -> None:
    code, out, err = ended(place, FULL + before)
    assert (code, out, err) == (Exit.UNUSABLE, "", "mha-sym: out.npz cannot be written: File too large\n")
    assert names(place) == ["in.npz"]
    assert_a_rerun_works(place)


def test_directory_that_cannot_be_written(place: Path) -> None:
    if os.geteuid() == 0:
        (place / "sub").mkdir()
        target = "/proc/out.npz"  # root may write anywhere else
    else:
        (place / "sub").mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
        target = "sub/out.npz"
    line = [sys.executable, "-m", "mha_sym", *LINE[:2], target, *LINE[3:]]
    found = subprocess.run(
        line, cwd=place, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert (found.returncode, found.stdout) == (Exit.UNUSABLE, "")
    assert found.stderr.startswith(f"mha-sym: {target} cannot be written: ")
    assert found.stderr.count("\n") == 1


def test_what_a_file_may_be_read_by(place: Path) -> None:
    """A new file has the usual permissions, and one that is replaced keeps its own."""
    assert ended(place)[0] == Exit.OK
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((place / "out.npz").stat().st_mode) == 0o666 & ~mask
    (place / "out.npz").chmod(0o640)
    assert ended(place, FORCE)[0] == Exit.OK
    assert stat.S_IMODE((place / "out.npz").stat().st_mode) == 0o640
