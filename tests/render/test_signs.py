"""The table of notation: each letter once, and names explained that have something above, below or behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from mha_sym.attention.dims import dims
from mha_sym.axes import Permutation
from mha_sym.expr import Input, Join, Named, Permute, Split
from mha_sym.pattern import einsum
from mha_sym.proof.prover import prove
from mha_sym.proof.terms import Cmp, Entry, Perm, Size, Var
from mha_sym.proof.theorem import Claim, Report, Theorem
from mha_sym.render.convention import Convention, rewritten
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.formulas.scripts import Latex, Unicode
from mha_sym.render.signs import likened, naming, said, sign_rows


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
    assert said(rows["c"].meaning) == "c = r d_k + j; or c = r d_v + j"
    assert (rows["π(·)"].range, rows["b_O[m]"].range) == ("0, …, h - 1", "d_model")
    assert said(rows["keep[b,t,s]"].meaning) == "mask: 1 where a query may see a key, else 0"


def test_names_are_explained_where_they_occur(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("head_permutation_leaves_layer_unchanged"))
    assert [said(one) for one in naming(found, notation(found))] == [
        "Positions count from 0, and so do heads: r = 0 is what papers call head 1",
        "S alone is the number of keys; with positions or a head beside it, it is the tensor of that name",
        "Q'_r: the matrix of Q' in head r, for any sequence",
        "W_O^(r): the block of W_O that belongs to head r",
        "b_Q: in a sum with matrices, a bias is added at every position of a sequence",
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
    assert told[2:4] == ["Q_{i}: the matrix of Q in head i, for any sequence", "Q^{(i)}: belongs to head i alone, as in"
                        " the formula for one head"]  # fmt: skip


# ---------------------------------------------------------------- every sign is explained


def signs(node: Any) -> Iterator[tuple[str, str]]:
    """Every sign in a term, whatever it is made of: its kind and its name."""
    match node:
        case Entry(name, _) | Size(name, _) | Var(name, _) | Perm(name, _, _):
            yield type(node).__name__, name
        case Cmp():
            yield "Cmp", ""
    if is_dataclass(node):
        for one in fields(node):
            yield from signs(getattr(node, one.name))
    elif isinstance(node, tuple):
        for one in node:
            yield from signs(one)


def unexplained(found: Derivation) -> Iterator[tuple[str, tuple[str, str]]]:
    """Where a sign stands that no table has and nothing beside it defines."""
    words = found.vocabulary
    known = {("Entry", row.entry.name) for row in (*words.given, *words.defined, *words.named)}
    known |= {("Entry", name) for row in words.named for name in row.others}
    known |= {("Var", letter) for row in words.letters for letter in row.letters}
    known |= {("Size", row.name) for row in words.sizes} | {("Perm", row.name) for row in words.bijections}
    known |= {("Cmp", "")} if words.brackets else set()
    shown: dict[str, tuple[list[Any], set[tuple[str, str]]]] = {
        "assumptions": ([term for _, term in found.assumptions], set()),
        "definitions": ([(row.entry, row.body) for row in words.defined], set()),
    }
    for claim in found.claims:
        rows = [(row.entry, row.body) for row in (*claim.opened, *claim.defined)]
        lines = [step.term for proof in claim.proofs for step in proof.steps]
        shown[claim.name] = [claim.left, claim.right, *lines, *rows, *(one.term for one in claim.conditions)], set()
    for one in found.controls:
        if one.says is not None:
            beside = {row.entry.name for row in one.says.where} | set(one.says.untold)
            equations = [(row.entry, row.body) for row in one.says.where]
            told = {("Size", row.name) for row in words.sizes_besides if f"{row.name} is the number of" in one.words}
            shown[one.name] = [one.says.left, one.says.right, *equations], told | {("Entry", name) for name in beside}
    for place, (terms, beside_it) in shown.items():
        for term in terms:
            new = set(signs(term)) - known - beside_it
            yield from ((place, sign) for sign in new if not sign[1].isdigit())


def test_every_sign_is_in_the_table_or_defined_where_it_stands(shown: Derivation) -> None:
    assert set(unexplained(shown)) == set()
    rows = list(sign_rows(shown.vocabulary, notation(shown)))
    assert all(said(row.meaning).strip() for row in rows)
    text = said(tuple(piece for row in rows for piece in row.meaning))
    note = notation(shown)
    for row in shown.vocabulary.named:  # those of one name stand together, the first and the last of them
        assert all(note.name(note.names[name], [note.names[name].label] * bool(note.names[name].label)) in text
                   for name in row.others[-1:])  # fmt: skip


def test_how_a_joined_position_is_taken_apart_is_said_where_that_is_done() -> None:
    d = dims()
    a, w, pi = Input("a", (d.hv,)), Input("w", (d.hv,)), Permutation("pi", d.h)
    permuted = Join(Permute(Split(w, d.hv), pi), d.hv.factors)
    sides = (Named(einsum("(h v), (h v) ->", *pair), "y") for pair in ((a, permuted), (permuted, a)))
    found = derivation(prove(Theorem("n", "", "", (Claim("same", *sides),)), recheck=False))
    rows = {row.sign: row for row in sign_rows(found.vocabulary, notation(found))}
    assert said(rows["c"].meaning) == "c = r d_v + j, so r = ⌊c/d_v⌋, j = c mod d_v"


def test_sizes_that_one_false_statement_alone_has_are_told_there(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("combined_projection_eq_separate_heads"))
    assert [row.name for row in found.vocabulary.sizes] == ["B", "T", "S", "d_model", "h", "d_k", "d_v"]
    end = "n is the number of tokens and heads, equally many."
    told = [one.name for one in found.controls if one.words.endswith(end)]
    assert told == ["transpose_left_out"]


def test_what_the_paper_calls_the_weights_of_a_head(proved: Callable[[str], Report]) -> None:
    found = derivation(proved("combined_projection_eq_separate_heads"))
    told = [said(one) for one in naming(found, notation(found))]
    assert "W_Q^(r): what Vaswani et al. 2017 write W_i^Q, counting heads from 1" in told
    columns = rewritten(found, Convention(head="h", vectors="column"))
    told = [said(one) for one in naming(columns, notation(columns))]
    assert "W_Q^(h): the transpose of what Vaswani et al. 2017 write W_i^Q, counting heads from 1" in told
    softmax = derivation(proved("softmax_add_row_constant"))
    assert not [one for one in naming(softmax, notation(softmax)) if "Vaswani" in said(one)]


def test_a_sign_that_is_nowhere_is_noticed(proved: Callable[[str], Report]) -> None:
    from dataclasses import replace

    found = derivation(proved("combined_projection_eq_separate_heads"))
    less = replace(found, vocabulary=replace(found.vocabulary, letters=found.vocabulary.letters[1:]))
    assert ("Q", ("Var", "b")) in set(unexplained(less))
    less = replace(found, vocabulary=replace(found.vocabulary, defined=found.vocabulary.defined[1:]))
    assert ("Q", ("Entry", "Q_flat")) in set(unexplained(less))


def test_tensors_of_a_false_statement_are_told_or_likened(shown: Derivation) -> None:
    note = notation(shown)
    for one in shown.controls:
        says = one.says
        if says is None:
            continue
        told = {row.entry.name for row in says.where}
        alike = said(likened(says, note))
        for row in says.defined:
            if row.entry.name not in told:
                symbol = note.names[row.entry.name]
                assert note.name(symbol, [symbol.label] * bool(symbol.label)) in alike


@pytest.mark.parametrize(
    ("sign", "meaning"),
    [
        ("X_q[b,t,m]", "input that the queries are made of"), ("X_k[b,s,m]", "input that the keys are made of"),
        ("X_v[b,s,m]", "input that the values are made of"), ("W_O[c,m]", "weights of the output"),
        ("b_V[c]", "bias of the values"), ("Q[b,r,t,j]", "queries, head by head; also Q'"),
        ("A^(r)[b,t,s]", "attention weights of head r; also A'^(r)"),
    ],
)  # fmt: skip
def test_what_a_tensor_is_stands_in_the_table(proved: Callable[[str], Report], sign: str, meaning: str) -> None:
    found = derivation(proved("combined_layer_eq_separate_layer"))
    rows = {row.sign: said(row.meaning) for row in sign_rows(found.vocabulary, notation(found))}
    assert rows[sign] == meaning
