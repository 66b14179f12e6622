"""Other conventions of notation: the same values by other signs."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mha_sym.axes import axis
from mha_sym.expr import Input
from mha_sym.proof.prover import prove
from mha_sym.proof.terms import Index, Perm
from mha_sym.proof.theorem import Claim, Report, Theorem
from mha_sym.render.convention import USUAL, Convention, _Writing, rewritten
from mha_sym.render.derivation import derivation
from mha_sym.render.derive import FORMATS
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.occurring import variables_in
from mha_sym.render.formulas.scripts import Unicode
from mha_sym.render.matrices import stage
from mha_sym.render.unicode import unicode_text

CONVENTIONS = (Convention("h"), Convention("i", "column"), Convention("h", "column", axes=True))


def test_the_usual_one_changes_nothing(report: Report) -> None:
    found = derivation(report)
    assert rewritten(found, USUAL) is found


def test_matrices_are_turned_over_where_vectors_are_columns(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("combined_layer_eq_separate_layer"))
    turned = rewritten(found, Convention(vectors="column"))
    note = Unicode(turned.vocabulary.names, turned.vocabulary.letters_for)
    told = [plain(stage(one, note)) for one in turned.claims]
    assert "A_r = softmax(S_r; keep_r) = softmax(S^(r); keep_r) = A^(r)" in told
    assert "Q'_r = W_Q^(r) X_q + b_Q^(r) = Q'^(r)" in told and "Y' = W_O C' + b_O = W_O Concat' + b_O = Y_sep'" in told
    lines = [len(one.height.lines) if one.height else 0 for one in found.claims]
    assert [len(one.height.lines) if one.height else 0 for one in turned.claims] == lines


@pytest.mark.parametrize("convention", CONVENTIONS, ids=str)
def test_every_line_keeps_its_value(report: Report, convention: Convention, values: Callable[..., Any]) -> None:
    """Both are evaluated by loops; where matrices are transposed, entries are drawn for the transposed places."""
    found = derivation(report)
    other = rewritten(found, convention)
    letters = {"h": {"r": "h"}, "i": {"r": "i"}, "r": {}}[convention.head]
    turned = _Writing(found, convention).turned
    loops = values(report.claims[-1].context)

    class Turned(values):  # type: ignore[valid-type, misc]
        def entry(self, name: str, place: tuple[int, ...]) -> Any:
            back = (*place[: -1 - turned[name]], place[-1], *place[-1 - turned[name] : -1]) if name in turned else place
            return loops.entry(name, back)

        def number(self, index: Index, at: Mapping[str, int]) -> int:
            if isinstance(index, Perm) and index.name not in loops.context.bijections:
                return self.number(index.index, at)  # only the name of an axis
            return int(super().number(index, at))

        def order(self, name: str, domain: Any) -> list[int]:
            return loops.order(name, loops.context.bijections[name])

    sizes = {**loops.sizes, "n_h": loops.sizes["h"]}
    again = Turned(loops.context, sizes=sizes)
    drawn = random.Random(0)
    for claim, changed in zip(found.claims, other.claims, strict=True):
        for proof, new_proof in zip(claim.proofs[:1], changed.proofs[:1], strict=True):
            place = {v.name: drawn.randrange(loops.size(v.domain)) for v in proof.goal.variables}
            moved = {letters.get(name, name): number for name, number in place.items()}
            for step, new_step in list(zip(proof.steps, new_proof.steps, strict=True))[:6]:
                expected, got = loops.term(step.term, place), again.term(new_step.term, moved)
                assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


def text(proved: Callable[[str], Report], name: str, convention: Convention) -> str:
    return unicode_text(rewritten(derivation(proved(name)), convention))


def test_heads_by_h(proved: Callable[[str], Report]) -> None:
    shown = text(proved, "combined_projection_eq_separate_heads", Convention("h"))
    assert "Claim 1, Q: Slice h of Q is the query matrix Q^(h) of head h." in shown
    assert re.search(r"(?m)^  h, g, g₁ +0 ≤ h < n_h +head$", shown)
    assert "c = h d_k + j" in shown
    assert "n_h (heads)" in shown
    assert "splitting the feature axis into (n_h, d_k)" in shown
    assert "^(r)" not in shown


def test_vectors_as_columns(proved: Callable[[str], Report]) -> None:
    shown = text(proved, "combined_projection_eq_separate_heads", Convention(vectors="column"))
    assert "= Σ_m W_Q^(r)[j,m] X_q[b,m,t]" in shown
    assert "Slice r of the scores is K^(r)ᵀ Q^(r) / √d_k." in shown
    assert "whose matrices are the row blocks of W_Q, W_K, W_V." in shown
    assert "Vectors are columns here:" in shown
    assert "column-wise softmax" in shown
    assert "W_Q = [[1],[0]]" in shown


#: a position called r: between signs of a formula, or the letter of a sum
INDEX_R = re.compile(r"(?<![\w^])r(?=[,;\]]| d_)|\^\(r\)|\(r\)|_r\b")


def test_with_heads_by_h_no_position_is_called_r(report: Report) -> None:
    """Definitions that stand with a claim and those that a line opens are rewritten as the claims are."""
    found = rewritten(derivation(report), Convention("h"))
    for format in ("unicode", "stages", "markdown", "latex-fragment"):
        shown = FORMATS[format](found)
        lines = [line for line in shown.splitlines() if "Laws used" not in line and "of summation" not in line]
        assert not [line for line in lines if INDEX_R.search(line)]
    for claim in found.claims:
        used = {var.name for row in (*claim.opened, *claim.defined) for var in variables_in(row.entry)}
        assert "r" not in used


def test_definitions_of_a_stage_are_transposed(proved: Callable[[str], Report]) -> None:
    found = rewritten(derivation(proved("head_pruning_is_a_smaller_layer")), Convention(vectors="column"))
    shown = FORMATS["stages"](found)
    shown = re.sub(" +", " ", shown)
    assert "W_Q'_h[r,j,m] = W_Q[r d_k + j, m]" in shown
    assert "Q_flat_h[b,r,j,t] = Σ_m W_Q'_h[r,j,m] X_q[b,m,t] + b_Q'_h[r,j]" in shown
    assert "Q_flat_pruned[b,a,j,t] = Σ_m W_Q'_pruned[a,j,m] X_q[b,m,t] + b_Q'_pruned[a,j]" in shown
    assert "S_h[b,r,s,t] = (Σ_j K_h[b,r,j,s] Q_h[b,r,j,t]) / √d_k" in shown
    assert "[b,r,t,j]" not in shown


def test_a_block_of_heads_is_not_called_as_a_head(proved: Callable[[str], Report]) -> None:
    shown = text(proved, "head_pruning_is_a_smaller_layer", Convention("h"))
    assert "Q_n_h: the part of Q in block n_h of an axis made of blocks." in shown
    assert "Q_h[" not in shown


def test_columns_that_are_permuted_are_rows_of_the_transpose(proved: Callable[[str], Report]) -> None:
    name = "head_permutation_leaves_layer_unchanged"
    assert "permutation of the columns of all" in text(proved, name, USUAL)
    assert "permutation of the rows of all" in text(proved, name, Convention(vectors="column"))


def test_axes_by_name(proved: Callable[[str], Report]) -> None:
    shown = text(proved, "combined_projection_eq_separate_heads", Convention(axes=True))
    assert "Q[batch(b),head(r),query(t),feature(j)] = Q^(r)[batch(b),query(t),feature(j)]" in shown
    assert "W_Q[model(m), joined(r d_k + j)]" in shown


def test_a_letter_that_is_taken_gives_way() -> None:
    x = Input("x", (axis("h"), axis("k"), axis("t")))
    y = Input("y", (axis("h"), axis("i")))
    theorem = Theorem("n", "", "", (Claim("first", x + x, x * 2), Claim("second", y + y, y * 2)))
    found = rewritten(derivation(prove(theorem, recheck=False)), Convention("i"))
    letters = [letter for row in found.vocabulary.letters for letter in row.letters]
    assert len(set(letters)) == len(letters)
    assert "y[i,l]" in unicode_text(found)


@pytest.mark.parametrize("format", FORMATS)
def test_every_form_can_be_written(format: str, proved: Callable[[str], Report]) -> None:
    found = derivation(proved("key_bias_cancels_value_bias_folds"))
    for convention in CONVENTIONS:
        assert FORMATS[format](rewritten(found, convention))


@pytest.mark.parametrize("name", ["combined_layer_eq_separate_layer", "head_ablation_locations"])
def test_tensors_that_a_line_defines_are_transposed_too(proved: Callable[[str], Report], name: str) -> None:
    """With many definitions they stand with the claims, in the lines that open them."""
    found = derivation(proved(name))
    assert not found.vocabulary.defined
    turned = _Writing(found, Convention(vectors="column")).turned
    flat = {one for one in found.vocabulary.names if one.startswith(("Q_flat", "C", "Y", "S", "A"))}
    assert flat <= set(turned)
    shown = text(proved, name, Convention(vectors="column"))
    assert "= Q_flat[b, r d_k + j, t]" in shown
    assert "Q_flat[b, t, " not in shown and "C[b,t,c]" not in shown
    assert not re.search(r"Y\S*\[b,t,m\]", shown)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex")
def test_named_axes_fit_on_the_page(proved: Callable[[str], Report], tmp_path: Path) -> None:
    found = rewritten(derivation(proved("combined_layer_eq_separate_layer")), Convention("i", axes=True))
    (tmp_path / "page.tex").write_text(FORMATS["latex"](found), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-500:]
    assert max(map(float, re.findall(r"Overfull \\hbox \(([\d.]+)pt", ended.stdout)), default=0.0) <= 5
