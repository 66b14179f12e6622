"""The second look at claims: it agrees with what is true, denies what is false, and says when it cannot tell."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import sympy

from mha_sym.attention.dims import combined_weights, cross_inputs, dims, head_weights, join_heads, self_inputs
from mha_sym.attention.forms import Options, combined, head_sum, separate
from mha_sym.attention.variants import head_blocks, interleaved, keep_mask, some_key_kept
from mha_sym.axes import Axis, Index, Permutation, axis, product
from mha_sym.errors import DataProblem
from mha_sym.expr import (
    Compare,
    Expr,
    Input,
    Join,
    Map,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Stack,
    Table,
    Transpose,
    as_expr,
)
from mha_sym.library import load, theorem_names
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof import witness
from mha_sym.proof.exp_rational import ExpField
from mha_sym.proof.theorem import Assumption, Claim, Theorem
from mha_sym.proof.witness import WitnessResult, _both, recheck

d = dims(S="S")
scores = Input("S_", (d.b, d.h, d.t, d.s))
keep = keep_mask(d.b, d.t, d.s)


def look(left: Expr, right: Expr, *assumptions: Assumption, **options: Any) -> WitnessResult:
    claim = Claim("claim", left, right)
    return recheck(Theorem("theorem", "", "", (claim,), assumptions=assumptions), claim, **options)


def softmax(of: Expr, *over: Axis, mask: Expr | None = None) -> Expr:
    return Softmax(of, over or (d.s,), mask)


# ---------------------------------------------------------------- all that is claimed


@pytest.mark.parametrize("name", theorem_names())
def test_every_claim_of_the_library_is_confirmed(name: str) -> None:
    theorem = load(name)
    results = {claim.name: recheck(theorem, claim) for claim in theorem.claims}
    assert {n: r.detail for n, r in results.items() if not r.agrees} == {}
    symbolic = [r for r in results.values() if r.sizes != ({},)]
    assert all(len(r.sizes) == 2 and r.sizes[0] != r.sizes[1] for r in symbolic)


@pytest.mark.parametrize("name", theorem_names())
def test_every_control_of_the_library_is_denied(name: str) -> None:
    theorem = load(name)
    results = {control.name: recheck(theorem, control) for control in theorem.controls}
    assert {n: r.detail for n, r in results.items() if r.agrees is not False} == {}


# ---------------------------------------------------------------- true claims


def test_shift_of_a_row_is_confirmed() -> None:
    row = Input("c", (d.b, d.h, d.t))
    assert look(softmax(scores + row), softmax(scores)).agrees is True
    masked = look(softmax(scores + row, mask=keep), softmax(scores, mask=keep), some_key_kept(keep, d))
    assert masked.agrees is True


def test_rows_sum_to_one() -> None:
    ones = Repeat(as_expr(1), (d.b, d.h, d.t))
    assert look(Reduce("sum", softmax(scores), (d.s,)), ones).agrees is True
    masked = Reduce("sum", softmax(scores, mask=keep), (d.s,))
    assert look(masked, ones, some_key_kept(keep, d)).agrees is True


def test_combined_and_separate_layers_agree() -> None:
    x, w = cross_inputs(d), combined_weights(d, bias=True)
    blocks = head_blocks(w, d)
    left = combined(d, x, w).items()
    for name, right in separate(d, x, blocks).items().items():
        result = look(left[name], right)
        assert result.agrees is True, (name, result)
        assert result.sizes[1]["h"] == 2 or "h" not in result.sizes[1]


def test_head_sum_agrees_with_concatenation_although_nothing_is_computed_alike() -> None:
    x, w = cross_inputs(d), head_weights(d, bias=True)
    result = look(separate(d, x, w).y, head_sum(d, x, w).y)
    assert result.agrees is True
    assert result.detail.startswith("0 entries computed alike")


def permuted_heads(pi: Permutation, *names: str) -> Expr:
    x, w = self_inputs(dims()), combined_weights(dims(), bias=True)
    e, given = dims(), w.items()
    for name in names:
        joined = e.hv if name in ("w_v", "b_v", "w_o") else e.hk
        given[name] = Join(Permute(Split(given[name], joined), pi), joined.factors)
    return combined(e, x, type(w)(**given)).y


def test_permuted_heads_agree_only_if_w_o_follows() -> None:
    pi = Permutation("pi", dims().h)
    projections = ("w_q", "w_k", "w_v", "b_q", "b_k", "b_v")
    assert look(permuted_heads(pi), permuted_heads(pi, *projections, "w_o")).agrees is True
    left_alone = look(permuted_heads(pi), permuted_heads(pi, *projections))
    assert left_alone.agrees is False
    assert "pi = (" in left_alone.detail


def test_key_bias_cancels() -> None:
    x, w = cross_inputs(d), combined_weights(d, bias=True)
    assert look(combined(d, x, w).y, combined(d, x, w.without("b_k")).y).agrees is True


def test_product_of_weights_regroups() -> None:
    a, b, c = Input("A", (d.t, d.m)), Input("B", (d.m, d.k)), Input("C", (d.k, d.s))
    left = einsum("t k, k s -> t s", einsum("t m, m k -> t k", a, b), c)
    right = einsum("t m, m s -> t s", a, einsum("m k, k s -> m s", b, c))
    assert look(left, right).agrees is True
    assert look(left, right * 2).agrees is False


def test_axes_may_come_in_another_order() -> None:
    left = softmax(scores)
    assert look(left, Transpose(left, (d.s, d.t, d.h, d.b))).agrees is True


def test_maximum_subtracted() -> None:
    assert look(softmax(scores - Reduce("max", scores, (d.s,))), softmax(scores)).agrees is True
    assert look(softmax(scores - Reduce("max", scores, (d.t,))), softmax(scores)).agrees is False


def test_fixed_sizes_and_tables() -> None:
    two = axis("n", 2)
    x, table = Input("x", (d.t, two)), Table("c", (two,), (sympy.Rational(1, 2), sympy.Rational(1, 3)))
    total = einsum("t n, n -> t", x, table)
    parts = Select(x, two, 0) * Scalar(sympy.Rational(1, 2)) + Select(x, two, 1) * Scalar(sympy.Rational(1, 3))
    result = look(total, parts)
    assert (result.agrees, result.sizes) == (True, ({"T": 1}, {"T": 3}))
    assert look(total, Select(x, two, 0) * Scalar(sympy.Rational(1, 2))).agrees is False


def test_without_symbolic_sizes_there_is_one_case() -> None:
    three = axis("n", 3)
    x = Input("x", (three,))
    said = "0 entries computed alike, 2 expanded and equal, 1 left out"
    assert look(x + x, x * 2) == WitnessResult(True, ({},), said)
    differs = look(x + x, x * 3)
    assert (differs.agrees, differs.sizes) == (False, ({},))
    assert "entry n=" in differs.detail


def test_unknown_functions_are_congruent() -> None:
    x, y = Input("x", (d.t,)), Input("y", (d.t,))
    left, right = Map("fn:norm", ((x + y) * x,)), Map("fn:norm", (x * x + x * y,))
    assert look(left, right).agrees is True
    assert look(left, Map("fn:norm", (x * x + y,))).agrees is False
    assert look(left, Map("fn:other", (x * x + x * y,))).agrees is False


# ---------------------------------------------------------------- false claims


def test_scale_dropped() -> None:
    x, w = cross_inputs(d), combined_weights(d)
    plain = combined(d, x, w)
    dropped = combined(d, x, w, Options(scale=sympy.Integer(1)))
    doubled = combined(d, x, w, Options(scale=2 / sympy.sqrt(d.k.size)))
    for stage in ("scores", "weights", "z", "y"):
        assert look(plain.items()[stage], dropped.items()[stage]).agrees is False, stage
        assert look(plain.items()[stage], doubled.items()[stage]).agrees is False, stage
    width = combined(d, x, w, Options(scale=1 / sympy.sqrt(d.m.size)))
    assert look(plain.scores, width.scores).agrees is False


def test_softmax_over_the_queries() -> None:
    result = look(softmax(scores, d.t), softmax(scores))
    assert result.agrees is False
    assert len(result.sizes) == 1
    assert "differs" in result.detail


def test_interleaved_split() -> None:
    x, w = cross_inputs(d), combined_weights(d)
    flat = einsum("b t m, m (h k) -> b t (h k)", x[0], w.w_q)
    right = rearrange(flat, "b t (h k) -> b h t k")
    assert look(rearrange(interleaved(flat, d, d.k), "b t h k -> b h t k"), right).agrees is False
    assert look(Reshape(flat, (d.b, d.h, d.t, d.k)), right).agrees is False
    assert look(Reshape(right, (d.b, d.t, d.hk)), flat).agrees is False


def test_joined_in_the_order_of_the_features() -> None:
    w = head_weights(d)
    wrong = Reshape(rearrange(w.w_q, "h m k -> m k h"), (d.m, d.hk))
    assert look(wrong, join_heads(w, d).w_q).agrees is False


def test_a_single_wrong_entry_among_many_is_found() -> None:
    x = Input("x", (d.t, d.s))
    first = Compare("eq", d.t, d.s)  # adds one on the diagonal, and only there
    result = look(x + first, x)
    assert result.agrees is False
    corner = Stack(Select(Stack(Select(first, d.t, 0), Index("u", axis("u", "U"))), axis("u", "U"), 0), Index("v", d.t))
    assert look(x + corner, x).agrees is False


def test_transposed_mask_of_equal_sizes() -> None:
    e = dims()
    x, w = self_inputs(e), combined_weights(e)
    right, wrong = Compare("le", e.s, e.t), Compare("ge", e.s, e.t)
    layers = [combined(e, x, w, Options(keep=mask)) for mask in (right, wrong)]
    assert look(layers[0].z, layers[1].z).agrees is False


# ---------------------------------------------------------------- draws


def test_masks_leave_every_row_a_key_where_that_is_assumed() -> None:
    ones = Repeat(as_expr(1), (d.b, d.t))
    some = Reduce("sum", keep, (d.s,)) * Map("inv", (Reduce("sum", keep, (d.s,)),))
    assert look(some, ones, some_key_kept(keep, d)).agrees is True
    assert look(some, ones).agrees is False, "without the assumption a row without a key, 0/0 = 0, is met"


def test_an_assumption_may_speak_of_axes_that_the_claim_has_not() -> None:
    own = keep_mask(d.t, d.s)
    wide = Repeat(own, (d.b, d.h, d.t, d.s))
    ones = Repeat(as_expr(1), (d.t,))
    total = Reduce("sum", own, (d.s,))
    result = look(total * Map("inv", (total,)), ones, some_key_kept(wide, d))
    assert result.agrees is True
    assert set(result.sizes[0]) == {"T", "S"}  # those of the claim


def test_masks_are_not_all_alike() -> None:
    every = look(softmax(scores, mask=keep), softmax(scores), some_key_kept(keep, d))
    none = look(Reduce("sum", keep, (d.s,)), Repeat(as_expr(0), (d.b, d.t)))
    assert every.agrees is False
    assert none.agrees is False


@pytest.mark.parametrize("seed", range(5))
def test_permutations_are_not_their_own_inverse(seed: int) -> None:
    pi = Permutation("pi", d.h)
    w = Input("W", (d.h, d.m))
    assert look(Permute(Permute(w, pi), pi.inverse()), w, seed=seed).agrees is True
    assert look(Permute(Permute(w, pi), pi), w, seed=seed).agrees is False
    assert look(Permute(w, pi), Permute(w, pi.inverse()), seed=seed).agrees is False


def test_assumptions_that_cannot_hold_are_reported() -> None:
    nothing = Assumption("a key that is kept and not kept", positive=keep * (as_expr(1) + -keep))
    result = look(softmax(scores, mask=keep), softmax(scores, mask=keep), nothing)
    assert result.agrees is None
    assert "no masks were found" in result.detail


# ---------------------------------------------------------------- sizes


def test_sizes_are_pairwise_distinct_and_heads_are_several() -> None:
    x, w = cross_inputs(d), combined_weights(d)
    layer = combined(d, x, w).y
    for sizes in look(layer, layer).sizes:
        assert set(sizes) == {"B", "T", "S", "d_model", "h", "d_k", "d_v"}
        assert all(sizes[m] != sizes[n] for m, n in combinations(sizes, 2))
        assert sizes["h"] >= 2
        assert sizes["T"] >= 2


def test_sizes_respect_what_is_fixed() -> None:
    seven = axis("n", 3)
    x = Input("x", (d.h, d.t, seven))
    result = look(Permute(x, Permutation("pi", d.h)), Permute(x, Permutation("pi", d.h)))
    for sizes in result.sizes:
        assert sizes["h"] > 3, "three is taken, and on two positions a permutation is its own inverse"
        assert 3 not in sizes.values()
    third = look(Select(x, d.t, 4), Select(x, d.t, 4))
    assert third.agrees is True
    assert all(sizes["T"] >= 5 for sizes in third.sizes)


def test_sizes_in_scalars_and_in_products() -> None:
    p, q = axis("p"), axis("q")
    joined = product(p, q)
    x = Input("x", (joined,))
    left = Reduce("sum", Repeat(as_expr(1), (p, q)), (p, q))
    assert look(left, Scalar(joined.size)).agrees is True
    assert look(left, Scalar(p.size**2)).agrees is False
    assert look(x * Scalar(sympy.sqrt(joined.size)) * Scalar(1 / sympy.sqrt(p.size)), x * Scalar(sympy.sqrt(q.size))
                ).agrees is True  # fmt: skip


# ---------------------------------------------------------------- when nothing can be said


def test_an_exponential_of_a_quotient_is_beyond_reach() -> None:
    weights = softmax(scores)
    total = Repeat(Reduce("sum", weights, (d.s,)), weights.axes)  # 1, but not before the quotient is opened
    assert look(softmax(weights + total), softmax(weights)).agrees is True, "what both sides share stays closed"
    result = look(softmax(weights * total), softmax(weights))
    assert result.agrees is None
    assert result.sizes == ()
    assert "exponential" in result.detail


def test_too_large_fixed_sizes_are_beyond_reach() -> None:
    big = axis("n", 10**6)
    x = Input("x", (d.t, big))
    result = look(x + x, x * 2)
    assert result.agrees is None
    assert "too many operations" in result.detail


def test_a_size_beyond_reach_is_replaced_by_another() -> None:
    big = axis("n", 3000)
    x = Input("x", (d.b, d.h, d.t, big))
    result = look(x * 2, x + x)
    assert result.agrees is True
    assert [sizes["T"] for sizes in result.sizes] == [3, 1]


def test_no_budget_still_compares_an_entry_or_says_so() -> None:
    x, w = cross_inputs(d), combined_weights(d, bias=True)
    claim = (combined(d, x, w).z, combined(d, x, w.without("b_k")).z)
    small = look(*claim, budget=0.002)
    assert small.agrees is True
    assert "2 expanded" in small.detail
    none = look(*claim, budget=0.0)
    assert (none.agrees, none.sizes) == (None, ())
    assert "too many terms" in none.detail


def test_the_result_is_the_same_in_every_run() -> None:
    x, w = cross_inputs(d), combined_weights(d, bias=True)
    claim = (combined(d, x, w).y, combined(d, x, w.without("b_k")).y)
    assert look(*claim) == look(*claim)
    false = (combined(d, x, w).y, combined(d, x, w.without("b_q")).y)
    assert look(*false) == look(*false)


def test_the_garbage_collector_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    assert gc.isenabled()
    x = Input("x", (d.t,))
    look(x, x)
    assert gc.isenabled()

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(witness, "_recheck", fail)
    with pytest.raises(RuntimeError):
        look(x, x)
    assert gc.isenabled()


def test_values_are_shown_where_they_are_short() -> None:
    t = axis("t", 2)
    x, y = Input("x", (t,)), Input("y", (t,))
    result = look(Map("exp", (x + y,)), Map("exp", (x,)))
    assert "exp(x[" in result.detail
    assert np.all([f"{name}[" in result.detail for name in "xy"])


def test_renamed_axes() -> None:
    other = axis("u", "T")
    x = Input("x", (d.t, d.m))
    gram = einsum("t m, u m -> t u", x, Rename(x, d.t, other))
    swapped = Rename(Rename(Rename(gram, d.t, axis("v", "T")), other, d.t), axis("v", "T"), other)
    assert look(gram, swapped).agrees is True
    assert look(gram * Compare("le", d.t, other), swapped * Compare("lt", d.t, other)).agrees is False


def test_what_was_found_is_counted_and_shown_while_it_is_short() -> None:
    x = Input("x", (axis("t", 3),))
    assert look(x, x).detail == "3 entries computed alike, 0 expanded and equal"
    field = ExpField([f"x{n}" for n in range(7)])
    six, seven = field.total(field.generators[:6]), field.total(field.generators)
    assert _both(six, six) == f": {six} and {six}"
    assert _both(six, seven) == ""


def test_a_claim_without_values_gets_no_answer_but_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DataProblem("no values here", where="x")

    monkeypatch.setattr(witness._Group, "case", fail)
    x = Input("x", (d.t,))
    found = look(x, x)
    assert found.agrees is None and "no values here" in found.detail


def test_permuted_axes_have_three_positions_or_more() -> None:
    x, pi = Input("x", (d.h,)), Permutation("pi", d.h)
    assert [one["h"] for one in look(Permute(Permute(x, pi), pi.inverse()), x).sizes] == [3]
