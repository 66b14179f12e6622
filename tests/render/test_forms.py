"""Derivations as JSON with their certificate, as a fragment for a paper, and in a notebook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mha_sym.axes import axis
from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.count import count
from mha_sym.errors import Problem
from mha_sym.expr import Input
from mha_sym.library import theorem_names
from mha_sym.pattern import rearrange
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Claim, Control, Report, Theorem
from mha_sym.render.count_text import count_table
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.derive import derive
from mha_sym.render.latex import pdf as pdf_module
from mha_sym.render.latex.article import latex_document
from mha_sym.render.latex.fragment import latex_fragment
from mha_sym.render.sentences import SAME_FORMULA
from mha_sym.render.trace_text import trace_table
from mha_sym.trace import Trace, trace_pattern

X = Input("X", (axis("t", "T"),))
WRONG = Theorem("wrong", "Wrong", "x + x is 3 x.", (Claim("thrice", X + X, X * 3, "The sum is 3 X."),))


# ---------------------------------------------------------------- JSON


def test_json_says_what_the_other_forms_say(report: Report) -> None:
    found, data = derivation(report), json.loads(derive(report, "json"))
    assert (data["format"], data["version"], data["name"]) == ("mha_sym-derivation", 1, report.theorem.name)
    assert [one["name"] for one in data["claims"]] == [one.name for one in found.claims]
    assert [[len(p) for p in c["proofs"]] for c in data["claims"]] == [
        [len(p.steps) for p in c.proofs] for c in found.claims
    ]
    assert all(set(line["formula"]) == {"unicode", "latex"} for c in data["claims"] for p in c["proofs"] for line in p)
    assert len(data["controls"]) == len(report.controls)
    assert data["certificate"]["theorem"]["name"] == report.theorem.name


def test_the_certificate_in_it_can_be_checked_again(
    proved: Callable[[str], Report], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    file.write_text(derive(proved("softmax_rows_sum_to_one"), "json"), encoding="utf-8")
    assert main(["recheck", str(file)]) == Exit.OK
    assert "softmax_rows_sum_to_one: accepted" in capsys.readouterr().out
    data = json.loads(file.read_text(encoding="utf-8"))
    data["certificate"]["goals"][0]["left_steps"].pop()
    file.write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")
    assert main(["recheck", str(file)]) != Exit.OK


@pytest.mark.parametrize(
    ("content", "words"),
    [('{\n "format": "mha_sym-derivation",', "is no JSON"),
     ('{\n "format": "mha_sym-derivation", "certificate": null}', "holds no certificate"),
     ('{\n "format": "mha_sym-derivation", "a": ' + "[" * 100_000, "is no JSON"),
     ('{\n "format": "mha_sym-derivation", "certificate": [1]}', "unreadable")],
    ids=["cut", "open", "deep", "other"],
)  # fmt: skip
def test_what_holds_no_certificate(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.json"
    file.write_text(content, encoding="utf-8")
    assert main(["recheck", str(file)]) == Exit.UNUSABLE
    assert words in capsys.readouterr().err


def test_what_is_not_proved_has_no_certificate() -> None:
    data = json.loads(derive(prove(WRONG, recheck=False), "json"))
    assert data["verdict"] == "refuted"
    assert data["certificate"] is None
    assert data["claims"][0]["counterexample"].startswith("T=")


# ---------------------------------------------------------------- a fragment for a paper


def test_a_fragment_has_labels_and_no_preamble(proved: Callable[[str], Report]) -> None:
    text = latex_fragment(derivation(proved("combined_projection_eq_separate_heads")))
    assert not re.search(r"\\(documentclass|usepackage|newcommand|begin\{document\})", text)
    labels = re.findall(r"\\label\{([^}]*)\}", text)
    name = "combined-projection-eq-separate-heads"
    assert labels[:3] == [f"thm:{name}", f"lem:{name}:Q", f"eq:{name}:Q"]
    assert len(labels) == len(set(labels)) == 13
    assert set(re.findall(r"\\eqref\{([^}]*)\}", text)) < set(labels)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_all_fragments_compile_in_one_paper_of_two_columns(proved: Callable[[str], Report], tmp_path: Path) -> None:
    for name in theorem_names():
        (tmp_path / f"{name}.tex").write_text(latex_fragment(derivation(proved(name))), encoding="utf-8")
    (tmp_path / "wrong.tex").write_text(latex_fragment(derivation(prove(WRONG, recheck=False))), encoding="utf-8")
    inputs = "".join(rf"\input{{{name}}}" for name in (*theorem_names(), "wrong"))
    paper = r"\documentclass[twocolumn]{article}\usepackage{amsmath,amsthm}\begin{document}" + inputs
    name = "combined-projection-eq-separate-heads"
    end = rf"See \eqref{{eq:{name}:Q}} and \ref{{lem:{name}:Q}}.\cut\end{{document}}"
    (tmp_path / "paper.tex").write_text(paper + r"\newcommand{\cut}{uncut}" + end, encoding="utf-8")
    for _ in range(2):
        ended = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "paper.tex"], cwd=tmp_path, capture_output=True, timeout=120,
            check=False,
        )  # fmt: skip
    log = (tmp_path / "paper.log").read_text(encoding="latin-1")
    assert ended.returncode == 0
    assert not re.search(r"^!|undefined|multiply", log, re.MULTILINE)
    wide = [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide", log)]
    assert max(wide, default=0.0) <= 5
    assert "Overfull \\vbox" not in log, "a proof may go on in the next column"


# ---------------------------------------------------------------- a notebook


def test_what_a_notebook_shows() -> None:
    found = derivation(prove(Theorem("twice", "T", "W", (Claim("n", X + X, X * 2),)), recheck=False))
    bundle = found._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/latex", "text/markdown", "text/plain"}
    assert bundle["text/latex"] == r"$\displaystyle \begin{aligned} X[t] + X[t] &= X[t]\,\cdot 2 \end{aligned}$"
    root = ElementTree.fromstring(bundle["text/html"])
    assert (root.get("class"), root.get("lang")) == ("mha-sym", "en")
    ids = [one.get("id", "") for one in root.iter() if one.get("id")]
    assert ids == ["twice-claim-1"]


def test_a_report_is_shown_as_its_derivation_and_a_theorem_as_what_it_claims() -> None:
    theorem = Theorem("twice", "Twice", "x + x is 2 x.", (Claim("n", X + X, X * 2, "The sum is 2 X."),))
    report = prove(theorem, recheck=False)
    assert report._repr_mimebundle_() == derivation(report)._repr_mimebundle_()
    assert (report._repr_html_(), report._repr_latex_()) == (
        derivation(report)._repr_html_(), derivation(report)._repr_latex_(),
    )  # fmt: skip
    shown = theorem._repr_mimebundle_()
    assert set(shown) == {"text/html", "text/latex", "text/plain"}
    assert shown["text/plain"] == "twice: x + x is 2 x.\n  X[t] + X[t] = X[t] · 2"
    ElementTree.fromstring(shown["text/html"])
    assert "not tried yet" in shown["text/html"]
    assert not re.search("PROVED|UNDECIDED", shown["text/html"])


def test_counts_are_shown_as_their_table() -> None:
    counts = count(rearrange(X, "t -> t") * X)
    shown = counts._repr_mimebundle_()
    assert shown["text/plain"] == count_table(counts) and "pointwise operations" in shown["text/html"]
    assert r"d_{\mathrm{model}}" in count(Input("W", (axis("m", "d_model"),), "weight"))._repr_latex_()
    assert ElementTree.fromstring(shown["text/html"]).get("class") == "mha-sym"
    assert r"\text{pointwise} & T\\" in shown["text/latex"]


def test_a_trace_is_shown_as_its_picture() -> None:
    steps = trace_pattern((2, 5, 12), "b t (h k) -> b t h k", "b t h k -> b h t k", sizes={"h": 3})
    assert isinstance(steps, Trace) and len(steps) == 3
    shown = steps._repr_mimebundle_()
    assert shown["text/plain"] == trace_table(steps)
    root = ElementTree.fromstring(steps._repr_html_())
    assert root.get("class") == "mha-sym" and root.find("{http://www.w3.org/2000/svg}svg") is not None
    assert [row.count("&") for row in re.split(r"\\\\ ", shown["text/latex"])] == [3, 3, 3]
    assert r"b: 2,\allowbreak h: 3,\allowbreak t: 5,\allowbreak k: 4" in steps._repr_latex_()
    assert steps._repr_latex_().isascii()


def test_the_rules_of_a_cell_touch_nothing_else() -> None:
    found = derivation(prove(WRONG, recheck=False))
    rules = re.search(r"<style>(.*?)</style>", found._repr_html_(), re.DOTALL)
    assert rules is not None
    depth, outside = 0, ""
    for sign in rules[1]:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        outside += sign if depth == 0 and sign != "}" else ""
    assert set(outside.split()) <= {".mha-sym", "@media(prefers-color-scheme:dark)"}
    assert not re.search(r"(?m)^(html|body|main|nav)\b", rules[1])


# ---------------------------------------------------------------- PDF


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_a_document_becomes_a_pdf_the_same_each_time(proved: Callable[[str], Report]) -> None:
    text = derive(proved("split_transpose_join_is_identity"), "latex")
    first = pdf_module.pdf(text)
    assert first.startswith(b"%PDF")
    assert first == pdf_module.pdf(text)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_what_tex_does_not_accept() -> None:
    with pytest.raises(Problem, match="does not accept") as caught:
        pdf_module.pdf(r"\documentclass{article}\begin{document}\nonsense\end{document}")
    assert caught.value.got == "! Undefined control sequence."


def test_without_anything_that_makes_a_pdf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pdf_module, "engine", lambda: None)
    target = tmp_path / "rows.pdf"
    assert main(["derive", "split_transpose_join_is_identity", "--format", "pdf", "-o", str(target)]) == Exit.UNUSABLE
    assert [one.name for one in tmp_path.iterdir()] == ["rows.tex"]
    err = capsys.readouterr().err
    assert "apt-get install --no-install-recommends texlive-latex-base texlive-latex-recommended lmodern" in err
    assert "pip install typst" in err


def test_controls_are_counted_in_every_form() -> None:
    theorem = Theorem("t", "T", "W", (Claim("n", X + X, X * 2),), (Control("c", X + X, X * 3, "Three."),))
    assert all("Three." in derive(prove(theorem, recheck=False), form) for form in ("unicode", "json", "html", "latex"))


def test_in_latex_every_claim_is_a_lemma_with_its_proof(shown: Derivation) -> None:
    text = latex_document(shown)
    lemmas = re.findall(r"\\begin\{lemma\}.*?\\end\{lemma\}\n(.*?)(?=\\begin\{lemma\}|\\subsection)", text, re.DOTALL)
    assert len(lemmas) == len(shown.claims)
    for proof in lemmas:
        ends = proof.count(r"\done}") + proof.count(SAME_FORMULA)
        assert proof.count(r"\begin{proof}") == ends == proof.count(r"\end{proof}") == 1
    linked = set(re.findall(r"\\hyperlink\{(claim\.\w+\.\d+)\}", text))
    assert linked <= set(re.findall(r"\\hypertarget\{(claim\.\w+\.\d+)\}", text))


def test_what_is_not_proved_is_a_lemma_without_a_proof() -> None:
    text = latex_document(derivation(prove(WRONG, recheck=False)))
    assert text.count(r"\begin{lemma}") == 1
    assert r"\begin{proof}" not in text
    assert "NOT PROVED: lemma 1 (thrice) is refuted" in text
