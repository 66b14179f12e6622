"""What a derivation says, and the three forms in which it is written."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sympy import Rational

from mha_sym.attention.dims import combined_weights, dims, self_inputs
from mha_sym.attention.forms import combined, separate
from mha_sym.attention.variants import head_blocks, keep_mask, some_key_kept
from mha_sym.axes import axis
from mha_sym.errors import Problem
from mha_sym.expr import Input, Map, Reduce, Repeat, Softmax, Table, Transpose, as_expr, inputs
from mha_sym.library import theorem_names
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Claim, Control, Counterexample, Outcome, Report, Theorem, Verdict
from mha_sym.render import sentences
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.derive import FORMATS, derive
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.scripts import Unicode

GOLDEN = Path(__file__).parent / "golden"
d = dims()
x, w = self_inputs(d), combined_weights(d)
keep = keep_mask(d.t, d.s)
SCORES = Input("E", (d.t, d.s))

PROJECTION = Theorem(
    "one_projection", "One projection for all heads", "Head r of Q is the product of X and block r of W_Q.",
    (Claim("Q", combined(d, x, w).q, separate(d, x, head_blocks(w, d)).q, "Slice r of Q is Q^(r)."),),
    (Control("half_more", combined(d, x, w).q, combined(d, x, w).q * as_expr(Rational(3, 2)), "Half of Q is added."),),
    source="Vaswani et al. 2017, Attention Is All You Need, section 3.2.2",
)  # fmt: skip
ROWS = Theorem(
    "rows_sum_to_one", "Rows sum to one", "The weights that a query gives sum to one, if it keeps a key.",
    (Claim("rows", Reduce("sum", Softmax(SCORES, (d.s,), keep), (d.s,)), Repeat(as_expr(1), (d.t,)), ""),),
    assumptions=(some_key_kept(keep, d),),
)  # fmt: skip
SHIFTED = Map("add", (SCORES, Repeat(Input("c", (d.t,)), (d.t, d.s))))
LARGEST = Theorem(
    "maximum_of_a_sum", "The maximum of a sum", "A maximum grows by what is added to all.",
    (Claim("same", SCORES, SCORES, ""),
     Claim("maximum", Reduce("max", SHIFTED, (d.s,)), Reduce("max", SCORES, (d.s,)) + Input("c", (d.t,)), "True."),
     Claim("wrong", Reduce("max", SHIFTED, (d.s,)), Reduce("max", SCORES, (d.s,)), "False.")),
)  # fmt: skip


def known(theorem: Theorem) -> Report:
    """What is proved of the claims; the one control has a counterexample that is set here."""
    found = prove(replace(theorem, controls=()), recheck=False)
    witness = Counterexample(
        {"d_k": 2, "T": 3, "B": 1}, {"b": 0, "h": 1, "t": 2, "k": 0}, "1/3", "[0.5000000 +/- 2e-9]",
        {"X": [[[1]]], "W_Q": [[0, 2]]}, {},
    )  # fmt: skip
    controls = [Outcome(one, Verdict.REFUTED, 0.0, counterexample=witness) for one in theorem.controls]
    return replace(found, theorem=theorem, controls=tuple(controls))


@pytest.mark.parametrize(
    ("theorem", "format", "name"),
    [
        (PROJECTION, "unicode", "one_projection.txt"),
        (PROJECTION, "markdown", "one_projection.md"),
        (PROJECTION, "latex", "one_projection.tex"),
        (ROWS, "unicode", "rows_sum_to_one.txt"),
        (LARGEST, "unicode", "maximum_of_a_sum.txt"),
    ],
)
def test_golden(theorem: Theorem, format: str, name: str) -> None:
    """Word for word; with MHA_SYM_GOLDEN=write the files are written anew, to be looked at."""
    text = derive(known(theorem), format)
    if format == "latex":
        text = text[text.index(r"\begin{document}") :]
    if os.environ.get("MHA_SYM_GOLDEN") == "write":
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


# ---------------------------------------------------------------- the model


def test_a_derivation_says_what_was_proved_and_how() -> None:
    found = derivation(known(PROJECTION))
    (claim,) = found.claims
    assert (found.verdict, found.scope, found.refuted, found.applications) == (Verdict.PROVED, "all sizes", 1, 4)
    assert [step.reason for step in claim.proofs[0].steps] == [
        "", "split of the feature axis, then transpose", "definition of the product", "column blocks",
        "definition of the product",
    ]  # fmt: skip
    assert claim.variables == ("b", "r", "t", "j")
    assert [one.name for one in found.vocabulary.sizes] == ["B", "T", "d_model", "h", "d_k"]
    assert [plain(Unicode(found.vocabulary.names).term(one.entry)) for one in found.vocabulary.given] == [
        "X[b,t,m]", "W_Q[m,c]",
    ]  # fmt: skip
    (control,) = found.controls
    assert (control.left, control.right) == ("1/3", "≈ 0.5")
    assert control.place == {"b": 0, "r": 1, "t": 2, "j": 0}


def test_assumptions_conditions_and_laws_are_told() -> None:
    found = derivation(known(ROWS))
    note = Unicode(found.vocabulary.names)
    assert [(words, plain(note.term(term))) for words, term in found.assumptions if term is not None] == [
        ("every query keeps at least one key", "Σ_s keep[t,s] > 0".removesuffix(" > 0"))
    ]
    (condition,) = found.claims[0].conditions
    assert plain(note.term(condition.term)) == "Σ_s keep[t,s] exp(E[t,s])"
    assert condition.assumed
    assert found.laws == ("factor", "cancel")


def test_an_assumption_that_was_not_needed_is_not_said_to_be_used() -> None:
    free = Claim("free", Reduce("sum", Softmax(SCORES, (d.s,)), (d.s,)), Repeat(as_expr(1), (d.t,)))
    theorem = replace(ROWS, claims=(free,))
    (condition,) = derivation(known(theorem)).claims[0].conditions
    assert not condition.assumed
    assert "since exponentials are positive." in derive(known(theorem))


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_not_proved_is_said_at_the_top(format: str) -> None:
    found = known(LARGEST)
    assert [one.verdict.value for one in found.claims] == ["proved", "undecided", "refuted"]
    text = derive(found, format)
    head = re.split("(?i)assumptions|the sizes are", text)[0]
    assert "NOT PROVED" in head
    assert re.search(r"(claim|lemma) 2 \(maximum\) is undecided", head)
    assert "neither a proof nor a counterexample" in text
    assert "REFUTED: it fails at" in text


def test_unknown_format() -> None:
    with pytest.raises(Problem) as caught:
        derive(known(ROWS), "word")
    assert caught.value.one_line() == (
        "there is no format 'word'; in: derive; expected: "
        "unicode, stages, latex, latex-fragment, markdown, html, json"
    )


def test_places_of_a_table_are_told_once() -> None:
    rows, columns = axis("i", 3), axis("k", 2)
    table = Table("P", (rows, columns), ((1, 2), (3, 4), (5, 6)))
    report = known(Theorem("t", "", "", (Claim("turned", Transpose(table, (columns, rows)), table, ""),)))
    (claim,) = derivation(report).claims
    assert len(report.claims[0].certificates) == 6
    assert (len(claim.proofs), claim.alike) == (1, 5)
    assert "The other 5 entries go in the same way." in derive(report)
    assert "constant [[1,2],[3,4],[5,6]]" in derive(report)


def test_axes_that_are_only_moved_show_their_way(proved: Callable[[str], Report]) -> None:
    first, _ = derivation(proved("split_transpose_join_is_identity")).claims
    note = Unicode()
    assert [one.words for one in first.moves] == ["given", "split", "transpose", "transpose", "join"]
    assert [note.at([note.index(i) for i in one.at]) for one in first.moves] == [
        "[b, t, r d_v + j]", "[b,t,r,j]", "[b,r,t,j]", "[b,t,r,j]", "[b, t, r d_v + j]",
    ]  # fmt: skip


def test_tensors_of_one_name_are_told_apart_in_the_order_of_reading(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("head_permutation_leaves_layer_unchanged"))
    note = Unicode(found.vocabulary.names)
    assert plain(note.equation(found.claims[0].left, found.claims[0].right)) == "Q[b,π(r),t,j] = Q'[b,r,t,j]"
    many = derivation(proved("head_ablation_locations"))
    assert not many.vocabulary.defined
    assert any(claim.defined for claim in many.claims)
    assert any("Y₁[b,t,m]" in plain(Unicode(many.vocabulary.names).term(c.right)) for c in many.claims)


def test_every_counterexample_says_with_which_inputs(report: Report, shown: Derivation) -> None:
    for outcome, control in zip(report.controls, shown.controls, strict=True):
        assert outcome.counterexample is not None
        used = {one.name for side in (outcome.claim.left, outcome.claim.right) for one in inputs(side)}
        told = sentences.witness(control)
        assert all(size <= outcome.counterexample.sizes[name] for name, size in control.sizes.items())
        for name, values in control.inputs.items():
            if name in used and np.any(np.asarray(values)):
                assert f"{name} = {sentences.nested(values)}" in told
            elif name in used:
                assert "input 0" in told


def test_many_numbers_are_left_to_json() -> None:
    many = Counterexample({"T": 200}, {"t": 0}, "0", "1", {"E": np.ones((200, 1))}, {})
    theorem = replace(ROWS, controls=(Control("c", SCORES, SCORES + SCORES, "Twice."),))
    report = replace(known(ROWS), controls=(Outcome(theorem.controls[0], Verdict.REFUTED, 0.0, counterexample=many),))
    (control,) = derivation(replace(report, theorem=theorem)).controls
    assert sentences.witness(control) == (
        "the left side is 0, the right side 1 at T=200, entry t=0, with 200 more numbers, which the JSON form has"
    )
    (told,) = json.loads(derive(replace(report, theorem=theorem), "json"))["controls"]
    assert len(told["inputs"]["E"]) == 200


# ---------------------------------------------------------------- every theorem


def test_every_line_of_every_theorem_has_the_value_of_the_line_before(
    report: Report, shown: Derivation, values: type
) -> None:
    """By plain loops over positions, at sizes far apart, on random numbers; nothing of the prover is used."""
    for outcome, claim in zip(report.claims, shown.claims, strict=True):
        for proof in claim.proofs:
            pool = values(outcome.context)
            for at in pool.places(proof.goal.variables):
                found = [pool.term(step.term, at) for step in proof.steps]
                for number, value in enumerate(found):
                    where = f"{claim.name}, line {number} at {at}"
                    assert math.isclose(value, found[0], rel_tol=1e-9, abs_tol=1e-9), where


def test_no_line_looks_like_the_line_before(shown: Derivation) -> None:
    note = Unicode(shown.vocabulary.names, shown.vocabulary.letters_for)
    for claim in shown.claims:
        for proof in claim.proofs:
            texts = [plain(note.term(step.term)) for step in proof.steps]
            assert len(texts) == 2 or all(one != two for one, two in pairwise(texts)), claim.name


def test_every_name_in_a_derivation_is_explained(shown: Derivation) -> None:
    explained = {one.entry.name for one in shown.vocabulary.given}
    explained |= {one.entry.name for one in shown.vocabulary.defined}
    explained |= {one.entry.name for claim in shown.claims for one in claim.defined}
    explained |= {s.subject for c in shown.claims for p in c.proofs for s in p.steps if s.rule in ("unfold", "table")}
    explained |= {row.entry.name for one in shown.controls if one.says for row in one.says.defined}
    assert set(shown.vocabulary.names) <= explained


@pytest.mark.parametrize("format", ["unicode", "latex", "markdown"])
def test_every_theorem_in_every_format(report: Report, shown: Derivation, format: str) -> None:
    text = FORMATS[format](shown)
    assert text.endswith("\n")
    assert not re.search("[\ue000-\uf8ff]", text)
    bare = re.sub(r"[\\_]|allowbreak|\{\}", "", text)
    assert all(outcome.claim.name.replace("_", "") in bare for outcome in report.controls)
    if format == "unicode":
        assert max(map(len, text.splitlines())) <= 100


PDFLATEX = shutil.which("pdflatex")


@pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not installed")
def test_every_document_compiles_and_nothing_sticks_out(shown: Derivation, tmp_path: Path) -> None:
    compiled(FORMATS["latex"](shown), tmp_path)


@pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("missing", ["lmodern", "microtype", "xcolor", "hyperref"])
def test_documents_do_without_packages_that_are_not_there(missing: str, tmp_path: Path) -> None:
    text = derive(known(PROJECTION), "latex")
    assert f"{{{missing}.sty}}" in text
    compiled(text.replace(f"{{{missing}.sty}}", "{there-is-no.sty}"), tmp_path)


def compiled(text: str, where: Path) -> None:
    """Compile once: there is nothing that a second run would know better."""
    (where / "document.tex").write_text(text, encoding="utf-8")
    line = [str(PDFLATEX), "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    run = subprocess.run(line, cwd=where, capture_output=True, check=False, timeout=120)
    log = (where / "document.log").read_text(encoding="utf-8", errors="replace")
    assert run.returncode == 0, log[-2000:]
    assert not re.findall(r"^.*Warning.*$", log, re.MULTILINE)
    wide = [float(found) for found in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide", log)]
    assert max(wide, default=0.0) <= 5


def test_all_theorems_are_written_in_three_seconds(proved: Callable[[str], Report], checking: list[float]) -> None:
    reports = [proved(name) for name in theorem_names()]
    start = time.process_time()
    for one in reports:
        derive(one, "latex")
    spent = time.process_time() - start
    proving = sum(report.seconds for report in reports)  # on the same machine, as busy as it is
    assert spent - checking[0] < max(3, 0.6 * proving), (spent, proving)
    assert spent < max(6, 0.8 * proving), (spent, proving)  # with every line computed


# ---------------------------------------------------------------- Markdown that survives Markdown


def test_formulas_in_markdown_hold_nothing_that_markdown_reads(shown: Derivation) -> None:
    text = FORMATS["markdown"](shown)
    displays = re.findall(r"^\$\$\n(.*?)\n\$\$$", text, re.DOTALL | re.MULTILINE)
    rest = re.sub(r"^\$\$\n.*?\n\$\$$", "", text, flags=re.DOTALL | re.MULTILINE)
    inline = re.findall(r"(?<!\\)\$([^$\n]+)(?<!\\)\$", rest)
    assert displays and inline
    for formula in (*displays, *inline):
        assert not re.search(r"\\[^A-Za-z]|\*|<|`", formula), formula
        assert balanced(formula), formula
    for formula in inline:
        assert "|" not in formula
        assert formula == formula.strip()


def balanced(formula: str) -> bool:
    depth = 0
    for sign in formula:
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return depth == 0
