"""Words and lines of the terminal forms: no line too long, no sign that means two things, nothing left undefined."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise

import pytest

from mha_sym.ask import find_question
from mha_sym.library import load
from mha_sym.proof.theorem import Report
from mha_sym.render.book import related
from mha_sym.render.convention import Convention, rewritten
from mha_sym.render.derivation import derivation
from mha_sym.render.formulas.notation import Symbol
from mha_sym.render.formulas.occurring import names_of
from mha_sym.render.formulas.scripts import Unicode
from mha_sym.render.prose import latex_prose
from mha_sym.render.questions.text import question_text
from mha_sym.render.report_json import scope
from mha_sym.render.sentences import SAME_FORMULA
from mha_sym.render.unicode import WIDTH, unicode_text


def test_what_is_used_is_wrapped(proved: Callable[[str], Report]) -> None:
    found = rewritten(derivation(proved("softmax_rows_sum_to_one")), Convention(axes=True))
    used = [line for line in unicode_text(found).splitlines() if "positive and a key is kept" in line]
    assert used
    assert max(map(len, unicode_text(found).splitlines())) <= WIDTH


def test_sides_written_alike_stand_once(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("score_entries_and_costs"))
    for detail in (False, True):
        lines = unicode_text(found, detail=detail).splitlines()
        assert any(SAME_FORMULA in line for line in lines)
        assert not [line for line in lines if len(set(line.split(" = "))) < len(line.split(" = "))]


def test_what_no_line_opens_is_defined_before(proved: Callable[[str], Report]) -> None:
    """A line in which a product is given its name does not define that for a reader who comes from above."""
    found = derivation(proved("head_ablation_locations"))
    told: Collection[str] = set()
    for claim in found.claims:
        told = {*told, *(row.entry.name for row in claim.defined)}
        lines = [pair for proof in claim.proofs for pair in pairwise(proof.steps)]
        for row in claim.opened:
            assert any(b.subject == row.entry.name and row.entry.name in names_of(a.term) for a, b in lines)
            told = {*told, row.entry.name}
    assert "  Y₁[b,t,m]           = Σ_c C₁[b,t,c] W_O[c,m]" in unicode_text(found)
    assert {row.entry.name for row in found.vocabulary.named} <= {*told}


def test_sizes_go_by_their_names() -> None:
    words = scope(load("numerical_axis_trace").claims)
    assert words == "at B=2, T=3 or 5, d_model=4, h=2 or 3, d_k=2 or 4"


def test_a_sum_above_a_name_is_set_as_one() -> None:
    assert latex_prose("W_Q^(h - 1)") == "$W_{Q}^{(h - 1)}$"
    assert latex_prose("[W_Q^(0) | W_Q^(h - 1)]").count("^{(") == 2


def test_greek_names_are_greek_letters() -> None:
    assert Unicode().name(Symbol("alpha", "", 1)) == "α'"


@pytest.mark.parametrize(("number", "shown", "typed"), [(4, "4 d_model²", "d_model^2"), (6, "≠ refutation", "✓ refut")])
def test_answers_are_written_as_derivations_are(number: int, shown: str, typed: str) -> None:
    question = find_question(number)
    text = question_text(question, question.answer())
    assert shown in text
    assert typed not in text


def test_three_tensors_are_named_at_most(proved: Callable[[str], Report]) -> None:
    reports = [proved(n) for n in ("head_ablation_locations", "zeroed_scores_leave_the_average")]
    words = [why for rows in related(reports).values() for _, why in rows]
    assert words
    assert all(why.startswith("also about ") and why.count(", ") == 1 for why in words)
