"""The table of notation: each letter once, and names explained that have something above, below or behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from mha_sym.proof.theorem import Report
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.scripts import Latex, Unicode
from mha_sym.render.signs import naming, said, sign_rows


def notation(found: Derivation) -> Unicode:
    return Unicode(found.vocabulary.names, found.vocabulary.letters_for)


def test_no_sign_stands_in_two_rows(shown: Derivation) -> None:
    signs = Counter(row.sign for row in sign_rows(shown.vocabulary, notation(shown)))
    assert max(signs.values()) == 1


def test_a_letter_with_two_ranges_says_which_is_which(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("head_permutation_leaves_layer_unchanged"))
    rows = {row.sign: row for row in sign_rows(found.vocabulary, notation(found))}
    assert rows["j"].range == "0 ≤ j < d_k or d_v"
    assert said(rows["j"].meaning) == (
        "feature of a query or key in one head (d_k), feature of a value in one head (d_v)"
    )
    assert said(rows["c"].meaning) == (
        "c = r d_k + j, so r = ⌊c/d_k⌋, j = c mod d_k; or c = r d_v + j, so r = ⌊c/d_v⌋, j = c mod d_v"
    )
    assert (rows["π(·)"].range, rows["b_O[m]"].range) == ("0, …, h - 1", "d_model")
    assert said(rows["keep[b,t,s]"].meaning) == "mask: 1 where a query may see a key, else 0"


def test_names_are_explained_where_they_occur(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("head_permutation_leaves_layer_unchanged"))
    assert [said(one) for one in naming(found, notation(found))] == [
        "Positions count from 0, and so do heads: r = 0 is what papers call head 1",
        "Q'_r: the matrix of Q' in head r, for any sequence",
        "W_O^(r): the block of W_O that belongs to head r",
        "After a semicolon in softmax stands a mask: the keys count for which keep is 1",
        "Primes tell tensors of one name apart, such as Q and Q': made alike, of different parts, as their definitions "
        "say",
    ]
    plain = derivation(proved("split_transpose_join_is_identity"))
    assert len(list(naming(plain, notation(plain)))) == 1  # there are heads
    families = derivation(proved("mask_broadcast_and_causality"))
    assert any("which tensor of a family" in said(one) for one in naming(families, notation(families)))


def test_in_latex_with_another_letter_for_heads(proved: Callable[[str], Report]) -> None:
    from mha_sym.render.convention import Convention, rewritten

    found = rewritten(derivation(proved("combined_projection_eq_separate_heads")), Convention("i"))
    told = [said(one) for one in naming(found, Latex(found.vocabulary.names, found.vocabulary.letters_for))]
    assert told[1:3] == ["Q_{i}: the matrix of Q in head i, for any sequence", "Q^{(i)}: belongs to head i alone, as in"
                        " the formula for one head"]  # fmt: skip
