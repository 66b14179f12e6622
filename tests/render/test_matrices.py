"""Claims at the height of matrices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mha_sym.axes import axis
from mha_sym.expr import Input
from mha_sym.pattern import einsum
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Claim, Report, Theorem
from mha_sym.render.convention import Convention, rewritten
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.scripts import Latex, Unicode
from mha_sym.render.matrices import stage


def lines(found: Derivation, script: type[Unicode] | type[Latex] = Unicode) -> list[str]:
    notation = script(found.vocabulary.names, found.vocabulary.letters_for)
    return [plain(stage(claim, notation)) for claim in found.claims]


def test_the_stages_of_a_layer(proved: Callable[[str], Report]) -> None:
    assert lines(derivation(proved("combined_projection_eq_separate_heads"))) == [
        "Q_r = X_q W_Q^(r) = Q^(r)",
        "K_r = X_k W_K^(r) = K^(r)",
        "V_r = X_v W_V^(r) = V^(r)",
        "S_r = Q_r K_rᵀ / √d_k = Q^(r) K^(r)ᵀ / √d_k = S^(r)",
        "A_r = softmax(S_r) = softmax(S^(r)) = A^(r)",
        "Z_r = A_r V_r = A^(r) V^(r) = Z^(r)",
    ]


def test_masks_biases_and_primes(proved: Callable[[str], Report]) -> None:
    found = lines(derivation(proved("combined_layer_eq_separate_layer")))
    assert found[3:5] == [
        "S_r = Q_r K_rᵀ / √d_k + M_r = Q^(r) K^(r)ᵀ / √d_k + M_r = S^(r)",
        "A_r = softmax(S_r; keep_r) = softmax(S^(r); keep_r) = A^(r)",
    ]
    assert found[8] == "Q'_r = X_q W_Q^(r) + b_Q^(r) = Q'^(r)"
    assert found[-1] == "Y' = C' W_O + b_O = Concat' W_O + b_O = Y_sep'"


def test_in_latex(proved: Callable[[str], Report]) -> None:
    found = lines(derivation(proved("combined_projection_eq_separate_heads")), Latex)
    assert found[3].startswith(r"S_{r} = \frac{Q_{r}\,K_{r}^{\mathsf{T}}}{\sqrt{d_{k}}} = ")
    assert found[3].endswith(r"= \frac{Q^{(r)}\,K^{(r)\mathsf{T}}}{\sqrt{d_{k}}} = S^{(r)}")


def test_a_sum_over_heads_and_heads_in_another_order(proved: Callable[[str], Report]) -> None:
    layer = lines(derivation(proved("concat_output_eq_sum_over_heads")))[1]
    assert layer == "Y_sep = Concat' W_O + b_O = Σ_r Z'^(r) W_O^(r) + b_O = Σ_r H^(r) + b_O = Y_sum"


def test_parts_of_given_matrices_go_by_their_head(proved: Callable[[str], Report]) -> None:
    found = lines(derivation(proved("head_permutation_leaves_layer_unchanged")))
    assert found[0] == "Q_(π(r)) = X_q W_Q^(π(r)) + b_Q^(π(r)) = Q'_r"
    moved = "Σ_r Z_r W_O^(r) + b_O = Σ_r Z_(π(r)) W_O^(π(r)) + b_O = Σ_r Z'_r W_O^(π(r)) + b_O"
    assert found[5] == f"Y = C W_O + b_O = {moved} = C' W_O' + b_O = Y'"


def test_columns_stand_in_the_other_order(proved: Callable[[str], Report]) -> None:
    found = rewritten(derivation(proved("combined_projection_eq_separate_heads")), Convention("h", "column"))
    assert [lines(found)[n] for n in (0, 3, 5)] == [
        "Q_h = W_Q^(h) X_q = Q^(h)", "S_h = K_hᵀ Q_h / √d_k = K^(h)ᵀ Q^(h) / √d_k = S^(h)",
        "Z_h = V_h A_h = V^(h) A^(h) = Z^(h)",
    ]  # fmt: skip


def test_another_tensor_for_every_row_is_written_entry_by_entry(proved: Callable[[str], Report]) -> None:
    """Row t of Y'' is row t of Y'''[t], which is not the same as Y'' = Y'''[t]."""
    found = lines(derivation(proved("mask_broadcast_and_causality")))
    assert found[-1] == "Y''[b,t,m] = Y'''[t; b,t,m]"
    assert "A''[b,r,t,s]" in found[3]


X, W, U = Input("X", (axis("t"), axis("m"))), Input("W", (axis("m"), axis("s"))), Input("U", (axis("t"), axis("s")))
C = Input("c", (axis("t"),))


@pytest.mark.parametrize(
    ("pattern", "terms"),
    [
        ("t s, t s -> t s", (U, U)),  # entry by entry
        ("t s, t -> t s", (U, C)),  # rows scaled
    ],
)
def test_what_is_no_product_is_not_taken_for_one(pattern: str, terms: tuple[Input, ...]) -> None:
    side = einsum(pattern, *terms)
    theorem = Theorem("n", "", "", (Claim("same", U + side, side + U),))
    (line,) = lines(derivation(prove(theorem, recheck=False)))
    assert "[t,s]" in line


def test_products_of_more_than_two_and_rows_that_are_added(proved: Callable[[str], Report]) -> None:
    found = lines(derivation(proved("head_circuits_determine_layer")))
    assert found[1] == "V_r W_O^(r) = X_v W_V^(r) W_O^(r) + b_V^(r) W_O^(r)"
    assert found[2] == "Y = Σ_r A_r (X_v W_V^(r) W_O^(r) + b_V^(r) W_O^(r)) + b_O"
    assert found[3:5] == ["Q'_r = Q_r G_r", "K'_r = K_r G_rᵀ"] and found[6] == "V'_r = V_r F_r"
    moved = "Q'_r K_rᵀ / √d_k + M_r = Q_r G_r K_rᵀ / √d_k + M_r = Q_r K'_rᵀ / √d_k + M_r"
    assert found[5] == f"S'_r = {moved} = S''_r"
    assert found[7] == "V'_r W_O^(r) = V_r W_O'^(r)"


def test_numbers_of_heads_stand_before_matrices(proved: Callable[[str], Report]) -> None:
    found = lines(derivation(proved("head_ablation_locations")))
    gated = "Σ_r Z₁^(r) W_O^(r) = Σ_r g_r Z^(r) W_O^(r) = Σ_r g_r A_r V^(r) W_O^(r) = Σ_r A'_r V^(r) W_O^(r)"
    assert found[0] == f"Y = C W_O = {gated} = Σ_r Z₂^(r) W_O^(r) = C₁ W_O = Y₁"
    zeroed = "Σ_q (1 - [q = r]) Z^(q) W_O^(q) = Σ_q (1 - [q = r]) A_q V^(q) W_O^(q)"
    assert found[5] == f"Y₇[r] = C₇[r] W_O = {zeroed} = C₈[r] W_O = Y₈[r]"
    assert lines(derivation(proved("concat_output_eq_sum_over_heads")))[0] == "Concat W_O = Σ_r Z^(r) W_O^(r)"


def test_a_side_that_is_no_entry_has_its_rows_where_its_tensors_have_them(proved: Callable[[str], Report]) -> None:
    found = rewritten(derivation(proved("concat_output_eq_sum_over_heads")), Convention(vectors="column"))
    assert lines(found)[0] == "W_O Concat = Σ_r W_O^(r) Z^(r)"
    side = einsum("t m, m s -> t s", X, W)
    theorem = Theorem("n", "", "", (Claim("same", U + side, side + U),))
    assert lines(derivation(prove(theorem, recheck=False))) == ["U + X W = X W + U"]
