"""Rotary positions: what the form computes, against complex numbers, and what is proved of it for all sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy

from mha_sym.attention.dims import combined_weights, dims, head_weights, join_heads, self_inputs
from mha_sym.attention.forms import Options, combined, head_sum, separate
from mha_sym.attention.grouped import copied, grouped, grouped_dims, grouped_weights
from mha_sym.attention.rotary import Angles, Rotary, handed_over, tables, turned, turned_dims
from mha_sym.errors import Problem
from mha_sym.evaluate import evaluate
from mha_sym.expr import Input, Rename
from mha_sym.pattern import einsum
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Claim, Control, Theorem, Verdict

EVERY = [Rotary(pairs, width, kind) for pairs in ("halves", "interleaved") for width in (None, 4)
         for kind in ("feature", "twice", "pair")]  # fmt: skip
B, T, H, M, D_V = 2, 5, 3, 7, 4


def sizes(rotary: Rotary) -> dict[str, int]:
    return {"d_pairs": 2, "d_rest": 3} if rotary.width else {"d_pairs": 3}


def by_complex_numbers(x: np.ndarray, angles: np.ndarray, rotary: Rotary) -> np.ndarray:
    """Every pair as a complex number, times the number of modulus 1 that has the angle of its position."""
    made = x.astype(float).copy()
    pairs = angles.shape[-1]
    for f in range(pairs):
        one, other = (f, f + pairs) if rotary.pairs == "halves" else (2 * f, 2 * f + 1)
        number = (x[..., one] + 1j * x[..., other]) * np.exp(1j * angles[..., f])
        made[..., one], made[..., other] = number.real, number.imag
    return made


def as_table(angles: np.ndarray, rotary: Rotary) -> np.ndarray:
    if rotary.tables != "feature":
        return angles
    return np.concatenate([angles, angles], -1) if rotary.pairs == "halves" else np.repeat(angles, 2, -1)


@pytest.mark.parametrize("rotary", EVERY, ids=str)
def test_layer_is_that_of_complex_numbers(rotary: Rotary) -> None:
    rng = np.random.default_rng(0)
    d = turned_dims(dims(), rotary)
    layer = combined(d, self_inputs(d), combined_weights(d), Options(angles=Angles(**tables(d, rotary))))
    width = 2 * sizes(rotary)["d_pairs"] + sizes(rotary).get("d_rest", 0)
    w = {n: rng.normal(size=s) for n, s in (("W_Q", (M, H * width)), ("W_K", (M, H * width)),
                                            ("W_V", (M, H * D_V)), ("W_O", (H * D_V, M)))}  # fmt: skip
    x, angles = rng.normal(size=(B, T, M)) / 3, rng.normal(size=(T, sizes(rotary)["d_pairs"])) * 3
    arrays = {"X": x, **w, "cos": np.cos(as_table(angles, rotary)), "sin": np.sin(as_table(angles, rotary))}
    got = evaluate(layer.y, arrays, sizes={"h": H, **sizes(rotary)})
    expected = np.zeros((B, T, M))
    for b in range(B):
        for r in range(H):
            q, k = (x[b] @ w[n][:, r * width : (r + 1) * width] for n in ("W_Q", "W_K"))
            q, k = (by_complex_numbers(one, angles, rotary) for one in (q, k))
            e = np.exp(q @ k.T / np.sqrt(width))
            z = e / e.sum(-1, keepdims=True) @ x[b] @ w["W_V"][:, r * D_V : (r + 1) * D_V]
            expected[b] += z @ w["W_O"][r * D_V : (r + 1) * D_V]
    assert np.abs(got - expected).max() < 1e-12


@pytest.mark.parametrize("rotary", EVERY[::3], ids=str)
def test_forms_are_one_function_for_all_sizes(rotary: Rotary) -> None:
    d = turned_dims(dims(), rotary)
    # the root of a sum of sizes is no number of the proof language; any other scale will do
    scale = None if rotary.width is None else sympy.Rational(1, 3)
    o = Options(scale=scale, angles=Angles(**tables(d, rotary)))
    x, w = self_inputs(d), head_weights(d, bias=True)
    forms = [separate(d, x, w, o), head_sum(d, x, w, o)]
    one = combined(d, x, join_heads(w, d), o)
    found = prove(Theorem("forms", "", "", tuple(Claim("scores", one.scores, other.scores) for other in forms)), False)
    assert found.verdict is Verdict.PROVED


def test_grouped_heads_are_turned_alike() -> None:
    a = grouped_dims()
    a = replace(a, d=turned_dims(replace(a.d, s=replace(a.d.s, size=a.d.t.size)), Rotary()))
    o, x, w = Options(angles=Angles(**tables(a.d, Rotary()))), self_inputs(a.d), grouped_weights(a)
    groups, copies = grouped(a, x, w, o), combined(a.d, x, copied(w, a), o)
    assert prove(Theorem("groups", "", "", (Claim("Y", groups.y, copies.y),)), False).verdict is Verdict.PROVED


@pytest.mark.parametrize("rotary", EVERY[::3], ids=str)
def test_false_neighbours_are_refuted(rotary: Rotary) -> None:
    d = turned_dims(dims(), rotary)
    angles = Angles(**tables(d, rotary))
    back = Angles(angles.cos, -angles.sin)
    q, k = Input("Q", (d.b, d.h, d.t, d.k)), Input("K", (d.b, d.h, d.s, d.k))

    def scores(one: object, other: object) -> object:
        return einsum("b h t k, b h s k -> b h t s", one, other)

    right = scores(turned(q, d.t, angles), turned(k, d.s, angles))
    swapped = Angles(angles.sin, angles.cos)
    wrong = {
        "keys left": scores(turned(q, d.t, angles), k), "queries left": scores(q, turned(k, d.s, angles)),
        "backwards": scores(turned(q, d.t, back), turned(k, d.s, angles)),
        "queries twice": scores(turned(turned(q, d.t, angles), d.t, angles), turned(k, d.s, angles)),
        "swapped": scores(turned(q, d.t, swapped), turned(k, d.s, swapped)),
        "none": scores(q, k),
    }  # fmt: skip
    controls = tuple(Control(name, right, side, "") for name, side in wrong.items())
    found = prove(Theorem("neighbours", "", "", (Claim("same", right, right),), controls), False)
    assert [one.verdict for one in found.controls] == [Verdict.REFUTED] * len(wrong)


def test_turning_back_is_nothing_only_where_the_tables_are_those_of_angles() -> None:
    d = turned_dims(dims(), Rotary(tables="pair"))
    angles = Angles(**tables(d, Rotary(tables="pair")))
    q = Input("Q", (d.b, d.h, d.t, d.k))
    there_and_back = turned(turned(q, d.t, angles), d.t, Angles(angles.cos, -angles.sin))
    rng = np.random.default_rng(0)
    x, at = rng.normal(size=(2, 3, 5, 8)), rng.normal(size=(5, 4))
    arrays = {"Q": x, "cos": np.cos(at), "sin": np.sin(at)}
    assert np.abs(evaluate(there_and_back, arrays) - x).max() < 1e-14
    found = prove(Theorem("back", "", "", (Claim("Q", there_and_back, q),)), False)
    assert found.verdict is Verdict.REFUTED  # the tables of the theorem hold any numbers


def test_a_table_twice_has_the_number_of_a_pair_for_both() -> None:
    for rotary in (Rotary(tables="twice"), Rotary("interleaved", tables="twice")):
        d = turned_dims(dims(), rotary)
        table = handed_over(tables(d, rotary)["cos"], d, rotary)
        got = evaluate(Rename(table, table.axes[-1], d.k), {"cos": np.arange(6.0).reshape(2, 3)})
        expected = [0, 1, 2, 0, 1, 2] if rotary.pairs == "halves" else [0, 0, 1, 1, 2, 2]
        assert got[0].tolist() == expected


def test_what_is_no_convention_is_refused() -> None:
    for bad in ({"pairs": "thirds"}, {"tables": "row"}, {"width": 3}, {"width": 0}):
        with pytest.raises(Problem):
            Rotary(**bad)
    for rotary, d_k in ((Rotary(), 5), (Rotary(width=4), 3), (Rotary(width=4), 4)):
        with pytest.raises(Problem, match="cannot be turned"):
            rotary.sizes(d_k)
