"""The page about code: what is right, what the code does, where they part."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import sympy

from mha_sym.audit.check import check_target
from mha_sym.audit.reports.page import comparison_of, page_of
from mha_sym.axes import axis, size_symbol
from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.expr import Input, Scalar
from mha_sym.render.comparison import Comparison, Fork, Mistake, comparison_page, parting
from mha_sym.render.comparison_forms import comparison_json, comparison_latex, comparison_markdown
from mha_sym.trace import trace, trace_pattern

XHTML = "{http://www.w3.org/1999/xhtml}"
CODE = """
import numpy as np


def attention(x, w_q, w_k, w_v, w_o, heads):
    b, t, _ = x.shape
    q, k, v = (SPLIT for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    return (weights @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o
"""
RIGHT = "(x @ w).reshape(b, t, heads, -1).swapaxes(1, 2)"
VIEWED = "(x @ w).reshape(b, heads, t, -1)"


def target(directory: Path, split: str) -> str:
    (directory / "mine.py").write_text(CODE.replace("SPLIT", split), encoding="utf-8")
    return f"{directory / 'mine.py'}:attention"


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(check_target(target(tmp_path_factory.mktemp("wrong"), VIEWED)))


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page))


def test_both_ways_and_where_they_part(wrong: str) -> None:
    assert re.search(r'<p class="verdict alarm">DISAGREES', wrong)
    shown = words(wrong)
    assert "What is wrong: split_by_view" in shown
    assert "Their axes part at step 2: (hk) of Qflat becomes h, k" in shown
    assert "in the code: raw reshape: the entries of Q" in shown
    assert "18 of 24 numbers in a wrong cell" in shown
    boxes = (one for one in ElementTree.fromstring(wrong).iter(f"{XHTML}span") if one.get("class") == "formula")
    formulas = [" ".join(part.get("alttext", "") for part in one.iter(f"{XHTML}math")) for one in boxes]
    assert "Q[b,r,t,j] = Q_flat[b,t, r d_k + j]" in formulas
    assert "Q[b,r,t,j] = Q_flat[b, ⌊(r T + t)/h⌋, ((r T + t) mod h) d_k + j]" in formulas


def test_the_name_of_the_code_is_no_formula_and_long_names_may_be_broken() -> None:
    """In `w.py:f` nothing is a letter of mathematics; a page of 390 px is narrower than some names of faults."""
    found = Comparison("w.py:f", False, "DISAGREES w.py:f: first y", mistakes=(Mistake("wrong_by_far", ()),))
    page = comparison_page(found)
    assert "DISAGREES <code>w.py:<wbr/>f</code>: first <math" in page
    assert "<code>wrong_<wbr/>by_<wbr/>far</code>" in page
    assert r"DISAGREES \texttt{w.py:" in comparison_latex(found)
    assert "**DISAGREES `w.py:f`: " in comparison_markdown(found)


def test_where_axes_agree_the_factors_are_told_with_typeset_roots() -> None:
    q, h, width = Input("q", (axis("t", "T"),)), size_symbol("h"), size_symbol("d_k")
    ways = (trace(q * Scalar(1 / sympy.sqrt(one))) for one in (width, h * width))
    said = parting(*ways)
    assert said.startswith("The two ways part at step 2: q times 1/sqrt(d_k), and in the code: q times 1/(")
    assert "sqrt(h)" in said and "√" not in said and "T" not in said.removeprefix("The")


def test_it_can_be_read_by_anyone(wrong: str) -> None:
    root = ElementTree.fromstring(wrong)
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    levels = [int(one.tag[-1]) for one in root.iter() if re.fullmatch(rf"{re.escape(XHTML)}h\d", one.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    boxes = [one for one in root.iter() if one.get("tabindex")]
    assert boxes and all(one.get("role") == "group" and one.get("aria-label") for one in boxes)
    assert all(one.get("scope") for one in root.iter(f"{XHTML}th"))


def test_in_a_browser(wrong: str, browser: Any, tmp_path: Path) -> None:
    shown, console = browser.look([wrong], (390, 1280), tmp_path)
    assert not console
    for one in shown:
        assert (one["loaded"], one["flat"]) == ([], 0)
        assert one["formulas"] and one["opened"]
        assert max(one["closed"], one["open"]) <= one["width"], one


def test_code_that_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "page.html"
    line = ["derive", "--from", target(tmp_path, RIGHT), "-o", str(place)]
    assert main(line) == Exit.OK
    assert re.search(r"page\.html is written: .*mine\.py:attention agrees\n", capsys.readouterr().err)
    page = place.read_text(encoding="utf-8")
    assert re.search(r'<p class="verdict good">AGREES', page)
    assert "combined_layer_eq_separate_layer" in page
    assert "What is wrong" not in page
    assert main(line) == Exit.UNUSABLE  # the page is there already
    assert main([*line, "--force"]) == Exit.OK


def test_code_that_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["derive", "--from", target(tmp_path, VIEWED)]) == Exit.FAILED
    assert "split_by_view" in capsys.readouterr().out
    assert main(["derive", "--from", f"{tmp_path / 'no.py'}:f", "--format", "html"]) == Exit.UNUSABLE
    assert main(["derive", "softmax_rows_sum_to_one", "--from", target(tmp_path, RIGHT)]) == Exit.UNUSABLE


def test_a_check_writes_the_same_page(tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    place = tmp_path / "page.html"
    line = ["check", target(tmp_path, VIEWED), "-o", str(place)]
    assert main(line) == Exit.FAILED
    told = capsys.readouterr()
    assert told.out.startswith("DISAGREES") and re.search(r"page\.html is written: .* disagrees\n", told.err)
    page = place.read_text(encoding="utf-8")
    parts = [one[one.index("What is wrong") : one.index("The whole report")] for one in map(words, (page, wrong))]
    assert parts[0] == parts[1] and len(parts[0]) > 1000
    assert main(line) == Exit.UNUSABLE
    assert "give --force" in capsys.readouterr().err


def test_a_page_about_a_proof_says_what_was_proved(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    assert main(["check", target(tmp_path, RIGHT), "--prove", "-o", str(place)]) == Exit.OK
    shown = words(place.read_text(encoding="utf-8"))
    assert re.search(r"PROVED .*mine\.py:attention is multi-head attention for all B, T, .*h, and all weights", shown)


@pytest.mark.parametrize(
    ("line", "told"),
    [(["check", "-o", "page.pdf"], "ends in .html, .tex, .md or .json, not 'page.pdf'"),
     (["derive", "--format", "unicode", "--from"], "a page about code is html, latex, markdown or json, not unicode")],
)  # fmt: skip
def test_other_forms_are_refused_before_anything_is_run(
    line: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*line, f"{tmp_path / 'no.py'}:f"]) == Exit.UNUSABLE
    assert told in capsys.readouterr().err


# ---------------------------------------------------------------- the same in other forms


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return comparison_of(check_target(target(tmp_path_factory.mktemp("compared"), VIEWED)))


def test_json_says_both_ways_and_where_they_part(compared: Comparison) -> None:
    data = json.loads(comparison_json(compared))
    assert (data["agrees"], [one["name"] for one in data["mistakes"]]) == (False, ["split_by_view"])
    first, *_ = data["mistakes"][0]["values"]
    right, wrong = first["should_be"]["steps"], first["is"]["steps"]
    assert [one["axes"] for one in right][1:] == ["(b: B, t: T, h: h, k: d_k)", "(b: B, h: h, t: T, k: d_k)"]
    assert [one["axes"] for one in wrong][1:] == ["(b: B, h: h, t: T, k: d_k)"]
    assert first["part"].startswith("Their axes part at step 2")
    assert {one["title"] for one in data["tables"]} >= {"The nine steps of the audit", "What was compared"}


def test_markdown_has_what_the_page_has(compared: Comparison, wrong: str) -> None:
    text = comparison_markdown(compared)
    assert text.startswith("# `") and "**DISAGREES" in text
    headings = re.findall(r"(?m)^#{2,3} (.*)$", text)
    for title in re.findall(r"<h[23][^>]*>(.*?)</h[23]>", wrong):
        plain = words(title).replace("Qflat", "")
        assert any(plain.split()[0] in one for one in headings), plain
    assert text.count("$$") % 2 == 0 and text.count("| --- |") >= 5
    assert r"\lfloor (r\thinspace T + t)/h\rfloor" in text and "whatever the axes meant" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_latex_compiles(compared: Comparison, tmp_path: Path) -> None:
    (tmp_path / "page.tex").write_text(comparison_latex(compared), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-800:]
    wide = [float(one) for one in re.findall(r"Overfull \\hbox \(([\d.]+)pt", ended.stdout)]
    assert max(wide, default=0) <= 5


def test_a_notebook_shows_every_form(tmp_path: Path) -> None:
    report = check_target(target(tmp_path, VIEWED))
    shown = report._repr_mimebundle_()
    assert set(shown) == {"text/html", "text/latex", "text/markdown", "text/plain"}
    assert shown["text/html"] == report._repr_html_() and shown["text/plain"] == report.text()
    assert report._repr_latex_() == shown["text/latex"]
    assert r"\text{In the code:}\quad Q[b,r,t,j] = Q_{\mathrm{flat}}[b,\," in shown["text/latex"]


@pytest.mark.parametrize("name", ["page.md", "page.tex", "page.json", "page.html"])
def test_the_name_of_the_file_says_the_form(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    assert main(["derive", "--from", target(tmp_path, RIGHT), "-o", str(place)]) == Exit.OK
    begins = {".md": "# `", ".tex": r"\documentclass", ".json": "{", ".html": "<!DOCTYPE html>"}
    text = place.read_text(encoding="utf-8")
    assert text.startswith(begins[place.suffix]) and "AGREES" in text


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "none" / "page.html"
    assert main(["check", target(tmp_path, RIGHT), "-o", str(place)]) == Exit.UNUSABLE
    assert "cannot be written" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir() if not one.name.startswith("__")] == ["mine.py"]


def test_where_ways_part() -> None:
    right = trace_pattern((2, 5, 12), "b t (h k) -> b h t k", sizes={"h": 3})
    short = trace_pattern((2, 5, 12), "b t (h k) -> b t h k", sizes={"h": 3})
    told = "Their axes part after step 2: the right way goes on with t and h of step 2 change places."
    assert parting(right, short) == told
    assert parting(right, right).startswith("Step by step the axes are the same")


def test_words_of_others_are_text() -> None:
    odd = '<script>alert("1")</script> & more'
    fork = Fork(odd, None, trace_pattern, ("", ""))  # type: ignore[arg-type]
    page = comparison_page(Comparison(odd, False, odd, (odd,), (Mistake(odd, ((odd, odd),), (fork,)),), (), odd))
    assert "<script" not in page
    ElementTree.fromstring(page)


TWO = """
import numpy as np

def attention(x, w_q, w_k, w_v, w_o, h):
    b, t, _ = x.shape
    q, k, v = (np.reshape(x @ w, (b, h, t, -1)) for w in (w_q, w_k, w_v))
    s = q @ k.swapaxes(-1, -2)
    a = np.exp(s - s.max(-1, keepdims=True))
    z = (a / a.sum(-1, keepdims=True)) @ v
    return z.transpose(0, 2, 1, 3).reshape(b, t, -1) @ w_o
"""


def test_two_faults_show_the_formulas_of_both(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO)
    (mistake,) = comparison_of(check_target(f"{tmp_path / 'two.py'}:attention")).mistakes
    assert mistake.name == "split_by_view + scale_missing"
    assert [one.name for one in mistake.forks] == ["Q", "K", "V", "S"]
    assert dict(mistake.rows)["where"] == "audit step 3, stage q; audit step 4, stage scores"
