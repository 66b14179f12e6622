"""Documents as Typst: what the LaTeX says, made into a PDF where there is no TeX."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typst

from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.errors import Problem
from mha_sym.proof.theorem import Report
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.latex import pdf as pdf_module
from mha_sym.render.latex.article import latex_document, latex_frame
from mha_sym.render.latex.plain import latex_text
from mha_sym.render.latex.typst import PREAMBLE, typst_text
from mha_sym.render.latex.typst_math import typst_math
from mha_sym.render.prose import latex_prose


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x", "$x$"),
        (r"d_{\mathrm{model}}", '$attach(d, b: upright("model"))$'),
        (r"K_{r}^{\mathsf{T}}", '$attach(K, b: r, t: sans("T"))$'),
        ("Q'_{r}", "$attach(Q, b: r, t: prime)$"),
        (r"\sum_{c<h\,d_{k}} f", "$attach(sum, b: c < h thin attach(d, b: k)) f$"),
        (r"\tfrac{1}{2}", "$inline(frac(1, 2))$"),
        (r"\Bigl(a/b\Bigr)", r"$lr(size: #1.8em, \() a \/ b lr(size: #1.8em, \))$"),
        (r"\lfloor c/d\rfloor", r"$⌊ c \/ d ⌋$"),
        (r"0\text{ or }1", '$0 " or " 1$'),
        (r"\new a \cut{40}+ b\old  c", '$#new[$ a$]$ $#new[$ + b$] c$'),
    ],
)
def test_formulas(latex: str, expected: str) -> None:
    assert typst_math(latex) == expected


@pytest.mark.parametrize("latex", [r"\nonsense", "{a", "a}", r"\frac{a}", r"\text{a", "a_"])
def test_what_is_no_formula(latex: str) -> None:
    with pytest.raises(Problem, match="not expected here"):
        typst_math(latex)


@pytest.mark.parametrize("text", ["*a* _b_ #c $d <e> @f [g] // h", "https://x.org", "- one\n+ two\n= three", 'a "b" ~'])
def test_words_mean_nothing_to_typst(text: str, tmp_path: Path) -> None:
    found = typst_text(latex_frame("T", [latex_prose(text)]))
    assert typst.compile(found.encode()).startswith(b"%PDF")
    body = found[found.index(PREAMBLE) + len(PREAMBLE) :]
    assert not re.search(r"[#@*_<]", re.sub(r"\$.*?\$", "", re.sub(r"\\.", "", body))), body


def test_a_root_with_nothing_below_it() -> None:
    """Its sign alone is an operator without an operand to Typst."""
    found = typst_text(latex_frame("T", [latex_text("times 1/√d_k")]))
    assert typst.compile(found.encode()).startswith(b"%PDF")


def test_a_command_that_no_document_has() -> None:
    with pytest.raises(Problem, match=r"\\input is not known"):
        typst_text(latex_frame("T", [r"\input{file}"]))


def test_every_document_can_be_written(shown: Derivation) -> None:
    text = typst_text(latex_document(shown))
    assert text.count("#claim[") == len(shown.claims)
    assert text.count("#control[") == len(shown.controls)
    assert not re.search(r"\\[A-Za-z]{2}", text.replace("\\u{a0}", ""))


@pytest.mark.parametrize("name", ["head_permutation_leaves_layer_unchanged", "numerical_axis_trace"])
def test_without_tex_typst_makes_the_pdf(
    name: str, proved: Callable[[str], Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    assert pdf_module.engine() == "typst"
    text = latex_document(derivation(proved(name)))
    found = pdf_module.pdf(text)
    assert found.startswith(b"%PDF")
    assert found == pdf_module.pdf(text)


def test_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    monkeypatch.setattr(pdf_module, "find_spec", lambda module: None)
    with pytest.raises(Problem, match="neither pdflatex nor Typst") as caught:
        pdf_module.pdf(latex_frame("T", []))
    assert "pip install typst" in str(caught.value)


def test_a_document_that_typst_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_module, "typst_text", lambda latex: "#nonsense")
    monkeypatch.setattr(pdf_module, "engine", lambda: "typst")
    with pytest.raises(Problem, match="Typst does not accept the document"):
        pdf_module.pdf("")


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    target = tmp_path / "a.pdf"
    assert main(["derive", "split_transpose_join_is_identity", "--format", "pdf", "-o", str(target)]) == Exit.OK
    assert target.read_bytes().startswith(b"%PDF")
    assert [one.name for one in tmp_path.iterdir()] == ["a.pdf"]
