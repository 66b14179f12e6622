"""Formulas in sentences: what is a formula, what is not, and how they are written."""

from __future__ import annotations

import pytest

from mha_sym.library import load, theorem_names
from mha_sym.render.prose import latex_formula, latex_prose, latex_words, markdown_prose, pieces, unicode_prose

SENTENCES = [
    ("A head uses W_Q and W_O^(r).", ["W_Q", "W_O^(r)"]),
    ("A (1, 1, T, T) mask", ["(1, 1, T, T)"]),
    ("the weights A.", ["A"]),
    ("the head's output Z^(r), which is I of it", ["Z^(r)"]),
    ("4 d^2 when h d_k = d_model = d.", ["4 d^2", "h d_k = d_model = d"]),
    ("p (2 d_model d_k + 2 d_k) weights (without a bias) less", ["p (2 d_model d_k + 2 d_k)"]),
    ("the 128 coordinates and features 1 and 2", []),
    ("keys s <= t + 1: rows r, r + h, r + 2h, ...", ["s <= t + 1", "r", "r + h", "r + 2h"]),
    ("Slice r is Q^(r) K^(r)^T / sqrt(d_k).", ["r", "Q^(r) K^(r)^T / sqrt(d_k)"]),
    ("Concat(Z^(1), ..., Z^(h)) W_O", ["Concat(Z^(1), ..., Z^(h)) W_O"]),
    ("layer(P X) = P layer(X).", ["layer(P X) = P layer(X)"]),
    ("multiply-adds, key-value pairs and row-wise sums", []),
    ("by the inverse of pi, of pi(r)", ["pi", "pi(r)"]),
    ("[P_1 | P_2] is the 4 x 4 identity", ["[P_1 | P_2]", "4 x 4"]),
    ("the product (XW)U = X(WU), in (ABC)", ["(XW)U = X(WU)"]),
    ("softmax(QK^T / sqrt(d_k))V of a CPU", ["softmax(QK^T / sqrt(d_k))V"]),
    ("by combined_layer_eq_separate_layer and a_b", ["a_b"]),
    ("states without_biases, W_Q too", ["W_Q"]),
    ("what mha_sym knows: exp(a + b) = exp(a) exp(b), (a head)", ["exp(a + b) = exp(a) exp(b)"]),
    ("at B=1, T=2, with X_q = [[[2],[1]]]", ["B=1", "T=2", "X_q = [[[2],[1]]]"]),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "formulas"), SENTENCES)
def test_formulas_are_found(sentence: str, formulas: list[str]) -> None:
    assert [one.text for one in pieces(sentence) if one.formula] == formulas
    assert "".join(one.text for one in pieces(sentence)) == sentence


def test_unicode_signs() -> None:
    text = "keys s <= t, pi(r), d^2, K^T, sqrt(d_k), h*d_k, 4 x 4, sum_r Z^(r)"
    assert unicode_prose(text) == "keys s ≤ t, π(r), d², Kᵀ, √d_k, h d_k, 4 × 4, Σ_r Z^(r)"


@pytest.mark.parametrize(
    ("plain", "latex"),
    [
        ("W_O^(r)", "W_{O}^{(r)}"),
        ("K^(r)^T / sqrt(d_k)", r"K^{(r)\mathsf{T}} / \sqrt{d_{k}}"),
        ("2 d_model^2", r"2\,d_{\mathrm{model}}^{2}"),
        ("(B, T, h*d_v)", r"(B,\allowbreak T,\allowbreak h\,d_{v})"),
        ("s <= t", r"s \le t"),
        ("pi(r)", r"\pi(r)"),
        ("4 x 4", r"4\times 4"),
        ("(XW)U = X(WU)", "(XW)U = X(WU)"),
        ("Z^(1..h)", r"Z^{(1\dots h)}"),
    ],
)
def test_latex_of_formulas(plain: str, latex: str) -> None:
    assert latex_formula(plain) == latex


def test_words_are_escaped() -> None:
    assert latex_words("100% of a_b & {c} ^ ~ \\") == (
        r"100\% of a\_b \& \{c\} \textasciicircum{} \textasciitilde{} \textbackslash{}"
    )
    assert latex_prose('"50% more" of W_Q, ...') == r"``50\% more'' of $W_{Q}$, \dots{}"
    assert markdown_prose("50 | more *or* less of W_Q") == r"50 \| more \*or\* less of $W_{Q}$"


def test_sentences_of_all_theorems_keep_their_words() -> None:
    for name in theorem_names():
        theorem = load(name)
        for one in (*theorem.claims, *theorem.controls):
            assert "".join(piece.text for piece in pieces(one.words)) == one.words
            assert latex_prose(one.words).count("$") % 2 == 0
