"""MathML of the formulas that this package writes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_sym.errors import Problem
from mha_sym.proof.cards import CARDS
from mha_sym.proof.theorem import Report
from mha_sym.render.derivation import derivation
from mha_sym.render.formulas.breaks import mark, plain
from mha_sym.render.formulas.latex_width import BEGIN, END
from mha_sym.render.formulas.scripts import Latex
from mha_sym.render.prose import latex_formula, pieces
from mha_sym.render.vocabulary import Vocabulary
from mha_sym.render.web.math import Writer
from mha_sym.render.web.mathml import formula, mathml

#: the elements of MathML Core, with how many children each must have, if that is fixed
CORE = {
    "math": None, "mrow": None, "mi": 0, "mn": 0, "mo": 0, "mtext": 0, "mspace": 0, "mfrac": 2, "msqrt": None,
    "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "munderover": 3,
}  # fmt: skip


def check(xml: str) -> ElementTree.Element:
    """Well-formed, elements of MathML Core only, each with as many children as it has to have."""
    root = ElementTree.fromstring(f"<div>{xml}</div>")
    for one in root.iter():
        if one.tag not in ("div", "span"):
            assert one.tag in CORE, one.tag
            assert CORE[one.tag] in (None, len(one)), ElementTree.tostring(one)
        if one.tag == "math":
            assert one.get("alttext")
    return root


@pytest.mark.parametrize(
    ("latex", "alt"),
    [
        (r"W_{Q}^{(r)}[m,j]", "W_Q^(r)[m,j]"),
        (r"\sum_{m} X[b,t,m]\,W_{Q}'^{(r)}[m,j]", "Σ_m X[b,t,m] W_Q'^(r)[m,j]"),
        (r"\frac{a}{b + c}", "a/(b + c)"),
        (r"\sqrt{d_{\mathrm{model}}}", "√d_model"),
        (r"-a - -b", "−a − −b"),
        (r"e^{S[t,s]}", "e^(S[t,s])"),
        (r"\lfloor c/d_{k}\rfloor", "⌊c/d_k⌋"),
        (r"\bigl(c \bmod d_{k}\bigr)", "(c mod d_k)"),
        (r"\max_{s} \operatorname{exp}(x)", "max_s exp(x)"),
        (r"\pi^{-1}(r) \le h", "π^(−1)(r) ≤ h"),
        (r"c_{3} := \text{its value}", "c_3 ≔ its value"),
        (r"\{0,\dots,h-1\}", "{0,…,h − 1}"),
        (r"\tfrac{1}{2}\cdot 2.5", "1/2 · 2.5"),
    ],
)
def test_what_is_said_instead_of_a_formula(latex: str, alt: str) -> None:
    assert check(mathml(latex))[0].get("alttext") == alt


def test_signs_know_whether_something_stands_before_them() -> None:
    signs = [one.get("form") for one in check(mathml("-a - (-b)")).iter("mo") if one.text == "−"]
    assert signs == ["prefix", "infix", "prefix"]


def test_a_sign_after_a_break_is_still_between_two_things() -> None:
    root = check(formula(f"a {mark(0)}+ b {mark(0)}- c"))
    assert [one.get("form") for one in root.iter("mo")] == ["infix", "infix"]
    assert len(list(root.iter("math"))) == 3


def test_outer_breaks_hold_inner_ones() -> None:
    root = check(formula(f"a {mark(1)}b {mark(0)}+ c"))
    assert [len(list(part.iter("math"))) for part in root] == [2, 1]


def test_what_is_new_has_a_class_and_nothing_else_has() -> None:
    root = check(mathml(rf"a\,{BEGIN}b_{{1}}{END}\,\frac{{c}}{{{BEGIN}d{END}}}"))
    new = ["".join(one.itertext()) for one in root.iter() if one.get("class") == "new"]
    assert new == ["b1", "d"]
    name = check(mathml(rf"{BEGIN}\mathit{{batch}}{END}"))[0][0]
    assert name.get("class") == "new it"


@pytest.mark.parametrize("latex", [r"\unknown{a}", "a}", "{a", r"\frac{a}", r"\text{a", "a_", r"\sqrt", "&"])
def test_what_is_not_known_is_refused(latex: str) -> None:
    with pytest.raises(Problem, match="expected"):
        mathml(latex)


@pytest.mark.parametrize("card", CARDS.values(), ids=lambda card: card.reason)
def test_every_law_can_be_drawn(card: object) -> None:
    check(mathml(card.law))  # type: ignore[attr-defined]


def test_every_formula_of_every_derivation(report: Report) -> None:
    """As MathML it has the letters of the LaTeX, in the same order."""
    found = derivation(report)
    notation = Latex(found.vocabulary.names, found.vocabulary.letters_for)
    for claim in found.claims:
        for term in [claim.left, claim.right, *(step.term for proof in claim.proofs for step in proof.steps)]:
            latex = plain(notation.term(term))
            words = re.sub(r"\\(?:b(?=mod)|(?=(?:max|exp)(?![a-z])))", "", latex)
            letters = re.sub(r"\\[a-zA-Z]+|\\.|[^A-Za-z0-9]", "", words)
            for drawn in (check(mathml(latex)), check(formula(notation.term(term)))):
                shown = "".join("".join(one.itertext()) for one in drawn)
                assert re.sub(r"[^A-Za-z0-9]", "", shown) == letters


def test_every_sentence_of_every_derivation(report: Report) -> None:
    found = derivation(report)
    for text in [found.words, found.title, *(claim.words for claim in found.claims)]:
        for piece in pieces(text):
            if piece.formula:
                check(mathml(latex_formula(piece.text)))


@given(st.text(alphabet="abWQrhπ_^()[]{}<>&\\'\"*/|.,:;!?#$%~+-= 0123456789xΣ\x00\n", max_size=40))
def test_any_sentence_can_be_drawn(text: str) -> None:
    check(Writer(Vocabulary()).prose(text))
