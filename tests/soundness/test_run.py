"""The long run: its table, a part that fails, and that every part is there and can be asked for alone."""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.soundness import run
from tests.soundness.mutation import changes
from tests.soundness.run import PARTS, Part, main, table
from tests.soundness.sampled import EXPLAINED, TESTS, functions, source_of, spoken, untested

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PARTS)
def test_every_part_can_be_run(name: str) -> None:
    part = PARTS[name]
    assert callable(importlib.import_module(part.module).main)
    assert part.option in Path(importlib.import_module(part.module).__file__ or "").read_text(encoding="utf-8")


def test_a_part_that_fails_does_not_keep_the_others_from_running(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"good": "print('  of this\\n12 things: 12 as they should')", "bad": "raise SystemExit(3)",
             "odd": "print('7 others: 1 wrong'); raise SystemExit(1)", "last": "print('1 thing: fine')"}  # fmt: skip
    for name, code in parts.items():
        (tmp_path / f"{name}.py").write_text(f"import sys; assert sys.argv[1:] == ['--most', '5']; {code}")
    monkeypatch.setattr(run, "PARTS", {name: Part(name, "--most", 5) for name in parts})
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main([]) == 1
    out = capsys.readouterr().out
    assert re.findall(r"^(\w+): \d+ s of the processor, \d+ s by the clock$", out, re.MULTILINE) == list(parts)
    rows = out.split("\n\n")[-1].splitlines()
    assert [row.split()[0] for row in rows] == ["tried", "ok", "FAILED", "FAILED", "ok", "2"]
    assert rows[1].split()[:-1] == ["ok", "12", "things", "12", "as", "they", "should"]
    assert "ended with 3" in rows[2] and "1 wrong" in rows[3]
    assert rows[-1] == "2 of 4 parts found nothing wrong; not so: bad, odd"
    assert main(["last", "--one-in", "1"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 parts found nothing wrong\n")


def test_a_part_of_it_can_be_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "part.py").write_text("import sys; print(sys.argv[2], 'things: fine')")
    monkeypatch.setattr(run, "PARTS", {"part": Part("part", "--most", 1234)})
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for one_in, tried in ((1, 1234), (100, 12), (5000, 1)):
        assert main(["--one-in", str(one_in)]) == 0
        assert f"ok  {tried:>5}" in capsys.readouterr().out


def test_ctrl_c_ends_a_part_after_its_summary_and_those_that_wait(tmp_path: Path) -> None:
    """Sent to all, as a terminal does; what was tried so far is told."""
    (tmp_path / "long.py").write_text("""
import contextlib, time
from pathlib import Path
with contextlib.suppress(KeyboardInterrupt):
    Path("waiting").touch()
    time.sleep(60)
print("7 things: fine so far")
""")
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.soundness import run
run.ROOT, run.PARTS = Path({str(tmp_path)!r}), {{n: run.Part("long", "--most", 1) for n in ("one", "two")}}
raise SystemExit(run.main([]))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
                               start_new_session=True)  # fmt: skip
    end = time.monotonic() + 60
    while not (tmp_path / "waiting").exists() and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "7 things: fine so far" in out and "stopped      7  things  fine so far" in out
    assert out.endswith("0 of 2 parts found nothing wrong; not so: one, two\n")


def test_no_such_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "no such part: nonsense; there are mutants, " in capsys.readouterr().err


def test_an_empty_table_has_its_head() -> None:
    assert table([]).split() == ["tried", "what", "outcome", "seconds"]


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_is_explained_can_still_be_changed(name: str) -> None:
    source = source_of(name)
    where = functions(source)
    assert set(EXPLAINED[name]) <= {said for line, change in changes(source) for said in spoken(line, change, where)}
    assert all(EXPLAINED[name].values())


def test_every_file_of_the_prover_has_tests_that_are_run_on_changes() -> None:
    assert untested() == {"cards"}, "cards holds words and no code"
    for files in TESTS.values():
        assert all((ROOT / "tests" / one.partition("::")[0]).exists() for one in files)
