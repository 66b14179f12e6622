"""All theorems as one book, and writing it as one thing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.cli.output import write_directory
from mha_sym.errors import Problem
from mha_sym.library import theorem_names
from mha_sym.proof.theorem import Report
from mha_sym.render.book import PARTS, Chapter, html_book, in_parts, latex_book, related
from mha_sym.render.derivation import derivation
from mha_sym.render.questions.question import Answer, Exercise, Finding, Marked, Question, Table

XHTML = "{http://www.w3.org/1999/xhtml}"

ANSWER = Answer(
    "Because d_v does not come in.", ("A weight is one number.",),
    (Finding("prove", "Z^(r) is A^(r) V^(r).", "proved for all sizes", True, "softmax_rows_sum_to_one", "rows"),
     Finding("count", "Entries:", "2·d_model² & √d_k", False)),
    (Table("Steps", ("step", "axes"), (("1", "(b: B, t: T)"),)),),
)  # fmt: skip
EXERCISE = Exercise(
    1, "Write the shape of W_O_ & more.", "shapes", "(2,6)->(2,3,2)", "(15,12)->(10,12)", lambda _: Marked(True, ()),
)  # fmt: skip
QUESTION = Question(1, "why", "Why one row for d_v = 128?", ("softmax_rows_sum_to_one",), (EXERCISE,), lambda _: ANSWER)


@pytest.fixture(scope="module")
def chapters(proved: Callable[[str], Report]) -> list[Chapter]:
    reports = [proved(name) for name in theorem_names()]
    others = related(reports)
    return [Chapter(derivation(one), others[one.theorem.name]) for one in reports]


# ---------------------------------------------------------------- what stands in it


def test_theorems_that_belong_together(proved: Callable[[str], Report]) -> None:
    found = related([proved(name) for name in theorem_names()])
    assert ("combined_projection_eq_separate_heads", "states Q, K, V too") in found["combined_layer_eq_separate_layer"]
    assert any(other == "key_bias_cancels_value_bias_folds" for other, _ in found["combined_layer_eq_separate_layer"])
    for name, others in found.items():
        assert all(name in dict(found[other]) for other, _ in others), "both ways"


def test_pages_and_their_links(chapters: list[Chapter]) -> None:
    files = html_book(chapters, [(QUESTION, ANSWER)])
    assert set(files) == {"index.html", "questions.html", *(f"{name}.html" for name in theorem_names())}
    roots = {name: ElementTree.fromstring(page) for name, page in files.items()}
    places = {name: {one.get("id") for one in root.iter()} for name, root in roots.items()}
    linked = set()
    for name, root in roots.items():
        for one in root.iter(f"{XHTML}a"):
            page, _, place = str(one.get("href")).partition("#")
            assert (page or name) in files
            assert not place or place in places[page or name]
            linked.add(page)
    assert linked >= set(files)
    read, at = ["index.html"], "combined_projection_eq_separate_heads.html"
    while at:
        before = [one.get("href") for one in roots[at].iter(f"{XHTML}a") if one.get("rel") == "prev"]
        assert before == [page for page in read[-1:] if page != "index.html" and at != "questions.html"]
        read.append(at)
        at = next((str(one.get("href")) for one in roots[at].iter(f"{XHTML}a") if one.get("rel") == "next"), "")
    assert sorted(read) == sorted(files), "one page after another leads through the whole book"
    assert not any(re.search(r"<script|<img", page) for page in files.values())


def test_every_theorem_has_its_place_in_the_order_of_reading(chapters: list[Chapter]) -> None:
    assert sorted(name for names in PARTS.values() for name in names) == sorted(theorem_names())
    shown = html_book(chapters)["index.html"]
    titles = [f"{n}. " + one.found.title for part in in_parts(chapters).values() for n, one in part]
    assert titles[5] == "6. Permuting the heads leaves the layer unchanged"
    text = re.sub(r"\s+", " ", "".join(ElementTree.fromstring(shown).itertext()))
    places = [text.index(f" {n}. ") for n in range(1, len(titles) + 1)]
    assert places == sorted(places) and "Others" not in text
    strange = replace(chapters[0], found=replace(chapters[0].found, name="mine"))
    assert list(in_parts([strange, *chapters]))[-1] == "Others"


def test_the_chapter_of_questions(chapters: list[Chapter]) -> None:
    page = html_book(chapters, [(QUESTION, ANSWER)])["questions.html"]
    shown = re.sub(r"\s+", " ", "".join(ElementTree.fromstring(page).itertext()))
    assert "mha-sym ask 1 --answer '...'" in shown and "the dots are, written as in (2,6)->(2,3,2)." in shown
    assert "Not all of this holds" in shown
    assert '<a href="softmax_rows_sum_to_one.html">' in page
    levels = [int(found) for found in re.findall(r"<h(\d)", page)]
    assert levels == [1, 2, 3]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_one_document_compiles(chapters: list[Chapter], tmp_path: Path) -> None:
    files = latex_book(chapters, [(QUESTION, ANSWER)])
    assert set(files) == {"book.tex", *(f"{name}.tex" for name in theorem_names())}
    (tmp_path / "book.tex").write_text(files["book.tex"], encoding="utf-8")
    for _ in range(2):
        command = ["pdflatex", "-interaction=nonstopmode", "book.tex"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    log = (tmp_path / "book.log").read_text(encoding="latin-1")
    assert ended.returncode == 0
    assert not re.search(r"^!|undefined|multiply|destination with the same", log, re.MULTILINE)
    assert not [float(width) for width in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log) if float(width) > 5]
    outline = (tmp_path / "book.out").read_text(encoding="latin-1")
    assert outline.count("\\BOOKMARK") == len(chapters) + 1, "the theorems and the questions"


# ---------------------------------------------------------------- writing it


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mha_sym.library.theorem_names", lambda: ("split_transpose_join_is_identity",))
    monkeypatch.setattr("mha_sym.ask.questions", lambda: (QUESTION,))


@pytest.mark.usefixtures("small")
class TestCommand:
    @pytest.mark.parametrize(
        ("style", "files"),
        [("html", ["index.html", "questions.html", "split_transpose_join_is_identity.html"]),
         ("latex", ["book.tex", "split_transpose_join_is_identity.tex"])],
    )  # fmt: skip
    def test_writes_a_directory(self, style: str, files: list[str], tmp_path: Path) -> None:
        target = tmp_path / "book"
        assert main(["derive", "--all", "--format", style, "-o", str(target)]) == Exit.OK
        assert sorted(one.name for one in target.iterdir()) == files
        assert [one.name for one in tmp_path.iterdir()] == ["book"]

    def test_in_another_convention(self, tmp_path: Path) -> None:
        target = tmp_path / "book"
        assert main(["derive", "--all", "--format", "latex", "--head", "h", "-o", str(target)]) == Exit.OK
        assert r"n_{h}" in (target / "book.tex").read_text(encoding="utf-8")

    def test_without_anything_that_makes_a_pdf(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("mha_sym.render.latex.pdf.engine", lambda: None)
        target = tmp_path / "book"
        assert main(["derive", "--all", "--format", "pdf", "-o", str(target)]) == Exit.UNUSABLE
        assert (target / "book.tex").exists() and not (target / "book.pdf").exists()
        assert "apt-get install" in capsys.readouterr().err

    def test_refuses_what_is_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mine.txt").write_text("mine")
        line = ["derive", "--all", "--format", "html", "-o", str(tmp_path)]
        assert main(line) == Exit.UNUSABLE
        assert "exists; hint: give --force" in capsys.readouterr().err
        assert main([*line, "--force"]) == Exit.OK
        assert (tmp_path / "mine.txt").read_text() == "mine"
        assert (tmp_path / "index.html").exists()


def test_a_place_that_is_none_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mha_sym.library.theorem_names", lambda: pytest.fail("work was begun"))
    target = tmp_path / "none" / "book"
    assert main(["derive", "--all", "--format", "html", "-o", str(target)]) == Exit.UNUSABLE
    assert capsys.readouterr().err == f"mha-sym: {target} cannot be written: No such file or directory\n"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, write = tmp_path / "book", Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if self.name == "b":
            raise OSError(28, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(Problem, match="cannot be written: No space left on device"):
        write_directory(target, {"a": "1", "b": "2"}, force=False)
    assert list(tmp_path.iterdir()) == []
    target.mkdir()
    (target / "a").write_text("old")
    with pytest.raises(Problem):
        write_directory(target, {"a": "1", "b": "2"}, force=True)
    assert [(one.name, one.read_text()) for one in target.iterdir()] == [("a", "old")]
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("line", [("--format", "html"), ("--detail",)], ids=["html", "text"])
def test_a_file_that_gets_too_long_leaves_nothing(line: tuple[str, ...], tmp_path: Path) -> None:
    """In a process that may write no more than a kibibyte, with no part of the program replaced."""
    target = tmp_path / "page"
    short = (
        "import resource, runpy\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "runpy.run_module('mha_sym', run_name='__main__')"
    )
    ended = subprocess.run(
        [sys.executable, "-B", "-c", short, "derive", "split_transpose_join_is_identity", *line, "-o", str(target)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (Exit.UNUSABLE, f"mha-sym: {target} cannot be written: File too large\n")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="cannot be written: No such file or directory"):
        write_directory(tmp_path / "none" / "book", {"a": ""}, force=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="is a file"):
        write_directory(tmp_path / "file", {"a": ""}, force=True)
