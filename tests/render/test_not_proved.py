"""A theorem that is not proved: every form says so at its top, with what is known; what is not refuted is not false."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from mha_sym.attention.dims import dims
from mha_sym.expr import Input, Map
from mha_sym.proof.prover import prove
from mha_sym.proof.terms import Mul, Num
from mha_sym.proof.theorem import Claim, Control, Theorem, Verdict
from mha_sym.render import sentences
from mha_sym.render.convention import Convention, rewritten
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.derive import FORMATS

d = dims(S="S")
SCORES = Input("S", (d.b, d.h, d.t, d.s))


@pytest.fixture(scope="module")
def wrong() -> Derivation:
    """One claim proved, one refuted, and a control that is true."""
    claims = (
        Claim("same", SCORES + SCORES, SCORES * 2, "Twice."),
        Claim("twice", Map("neg", (SCORES,)), SCORES, "Scores are what they are with the other sign."),
    )
    controls = (Control("true", SCORES + SCORES, SCORES * 2, "True, so it cannot be refuted."),)
    return derivation(prove(Theorem("odd", "An odd theorem", "Nothing.", claims, controls), recheck=False))


@pytest.mark.parametrize(
    ("format", "known"),
    [
        ("unicode", "Claim 2: REFUTED: it fails at"), ("stages", "Claim 2: REFUTED: it fails at"),
        ("markdown", "**Claim 2: REFUTED: it fails at"), ("latex", r"\color{alarm} Lemma 2: REFUTED: it fails at"),
        ("latex-fragment", r"\textbf{Claim 2: REFUTED: it fails at"), ("html", 'Claim 2</a>: REFUTED: it fails at'),
    ],
)  # fmt: skip
def test_it_stands_before_everything_else(wrong: Derivation, format: str, known: str) -> None:
    text = FORMATS[format](wrong)
    text = text[text.find(r"\begin{document}") + 1 :]
    verdict, what = text.index("NOT PROVED"), text.index(known)
    assert verdict < what < text.index("positive integers")


def test_what_refutes_it_is_told_once_with_its_inputs(wrong: Derivation) -> None:
    (found,) = [one.counterexample for one in wrong.claims if one.counterexample]
    told = sentences.undecided(wrong.claims[1])
    assert f"with S = {sentences.nested(found.inputs['S'])}" in told
    text = " ".join(FORMATS["unicode"](wrong).split())
    assert text.count(f"left {found.left}, right {found.right}") == 1
    assert "REFUTED, by the numbers at the top." in text


def test_values_are_rounded_and_nothing_is_said_of_lines_there_are_not() -> None:
    theorem = Theorem("odd", "", "", (Claim("exp", Map("exp", (SCORES + 1,)), SCORES),))
    found = derivation(prove(theorem, recheck=False))
    (known,) = sentences.known(found)
    assert "+/-" not in known and "≈ " in known
    assert next(sentences.checks(found)) == "0 of 1 claims proved."
    page = FORMATS["html"](found)
    assert "Claimed for all" in page and ">For all" not in page


@pytest.mark.parametrize(
    ("format", "told"),
    [
        ("unicode", "The sides came down to S[b,r,t,s] and 2 S[b,r,t,s]."),
        ("stages", "The sides came down to S[b,r,t,s] and 2 S[b,r,t,s]."),
        ("markdown", "The sides came down to `S[b,r,t,s]` and `2 S[b,r,t,s]`."),
        ("latex", r"The sides came down to $S[b,r,t,s]$ and $2\,S[b,r,t,s]$."),
        ("latex-fragment", r"The sides came down to $S[b,r,t,s]$ and $2\,S[b,r,t,s]$."),
        ("html", "The sides came down to <code>S[b,r,t,s]</code> and <code>2 S[b,r,t,s]</code>."),
    ],
)
def test_where_an_undecided_claim_stuck_is_told_in_every_form(wrong: Derivation, format: str, told: str) -> None:
    claim = wrong.claims[1]
    stuck = claim.left.args[1], Mul((Num(Fraction(2)), claim.left.args[1]))  # type: ignore[union-attr]
    open_ = replace(claim, verdict=Verdict.UNDECIDED, counterexample=None, stuck=stuck)  # type: ignore[arg-type]
    found = replace(wrong, verdict=Verdict.UNDECIDED, claims=(wrong.claims[0], open_))
    assert told in re.sub(r"\s+", " ", FORMATS[format](found))


def test_it_is_red(wrong: Derivation) -> None:
    assert '<p class="verdict alarm">NOT PROVED' in FORMATS["html"](wrong)
    latex = FORMATS["latex"](wrong)
    assert r"\color{alarm}" in next(line for line in latex.splitlines() if "NOT PROVED" in line)


@pytest.mark.parametrize("format", ["unicode", "markdown", "latex", "html", "json"])
def test_what_is_not_refuted_is_not_called_false(wrong: Derivation, format: str) -> None:
    text = FORMATS[format](wrong)
    assert "proved, not refuted" in text.replace("Proved", "proved") and "their sides differ" not in text
    assert "NOT REFUTED: true" in text or format == "json"
    assert "Not for all" not in text


def test_where_it_fails_is_told_by_the_letters_of_the_page(wrong: Derivation) -> None:
    (index,) = [one.counterexample.index for one in wrong.claims if one.counterexample]
    assert set(index) == {"b", "r", "t", "s"}
    other = rewritten(wrong, Convention("h"))
    (found,) = [one.counterexample for one in other.claims if one.counterexample]
    assert set(found.index) == {"b", "h", "t", "s"} and "n_h" in found.sizes and "h" not in found.sizes
    assert "r=" in json.loads(FORMATS["json"](wrong))["claims"][1]["counterexample"]
