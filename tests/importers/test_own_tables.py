"""Code that makes its own rotary tables: right code is proved for every table, wrong code is refuted with its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from torch import nn

from mha_sym.audit.functions import from_function
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import CodeProof
from mha_sym.audit.proving.pair import prove_equal
from mha_sym.audit.proving.report import proof_text
from mha_sym.audit.target import as_implementation
from mha_sym.errors import TargetProblem
from mha_sym.importers.angles import opened
from mha_sym.importers.builder import Builder
from mha_sym.importers.exact_run import exact_value
from mha_sym.importers.graph import Given
from mha_sym.proof.theorem import Verdict
from tests.importers.rotary_modules import InHalves, Kept, Neighbours
from tests.importers.test_rotary import attend, half_turned, halves, heads


def angles(length, width, first=0, base=10000):
    return np.outer(np.arange(length) + first, 1.0 / base ** (np.arange(0, width, 2) / width))


def tables(length, width, first=0):
    every = angles(length, width, first)
    return [np.concatenate([one, one], -1) for one in (np.cos(every), np.sin(every))]


def in_halves(x, w_q, w_k, w_v, w_o, heads_):
    q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
    cos, sin = tables(x.shape[1], q.shape[-1])
    return attend(halves(q, cos, sin), halves(k, cos, sin), v, w_o)


def neighbours(x, w_q, w_k, w_v, w_o, heads_):
    q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
    every = angles(x.shape[1], q.shape[-1])
    cos, sin = np.cos(every), np.sin(every)

    def turned(y):
        one, other = y[..., 0::2], y[..., 1::2]
        return np.stack([one * cos - other * sin, one * sin + other * cos], -1).reshape(y.shape)

    return attend(turned(q), turned(k), v, w_o)


def first_four(x, w_q, w_k, w_v, w_o, heads_):
    q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
    cos, sin = tables(x.shape[1], 4)
    q, k = (np.concatenate([halves(y[..., :4], cos, sin), y[..., 4:]], -1) for y in (q, k))
    return attend(q, k, v, w_o)


RIGHT = {
    in_halves: ("d_pairs", "halves (j with j + d_k/2)"),
    neighbours: ("d_pairs", "interleaved pairs (2j with 2j + 1)"),
    first_four: ("d_v", "on the first 4 features of a head, halves (j with j + 2)"),
}


def described(code: Callable[..., Any]) -> Any:
    return from_function(code, takes=("x", "w_q", "w_k", "w_v", "w_o", "heads"))


def told(found: CodeProof) -> str:
    return " ".join(proof_text(found).split())


@pytest.mark.parametrize("code", RIGHT)
def test_numpy_code_is_proved_for_every_length_and_width(code: Callable[..., Any]) -> None:
    size, words = RIGHT[code]
    found = prove_code(described(code))
    assert found.verdict is Verdict.PROVED, proof_text(found)
    assert {"B", "T", "d_model", "h", size} <= set(found.symbolic) and words in found.conventions
    assert "any table cos (position, pair) stands for the cosines made at" in told(found)
    assert "any table sin (position, pair) stands for the sines made at" in told(found)


def in_jax(x, w_q, w_k, w_v, w_o, heads_):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads_, -1).transpose(0, 2, 1, 3) for w in (w_q, w_k, w_v))
    width = q.shape[-1]
    every = jnp.arange(x.shape[1])[:, None] / 10000 ** (jnp.arange(0, width, 2) / width)[None]
    cos, sin = (jnp.concatenate([one, one], -1) for one in (jnp.cos(every), jnp.sin(every)))

    def turned(y):
        one, other = jnp.split(y, 2, -1)
        return y * cos + jnp.concatenate([-other, one], -1) * sin

    weights = jax.nn.softmax(turned(q) @ turned(k).swapaxes(-1, -2) / jnp.sqrt(width), -1)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o


def test_jax_code_is_proved() -> None:
    found = prove_code(described(in_jax))
    assert found.verdict is Verdict.PROVED, proof_text(found)
    assert {"B", "T", "d_model", "h", "d_pairs"} <= set(found.symbolic)


MODULES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "halves": (InHalves, "rotary positions, halves (j with j + d_k/2)"),
    "kept and cut": (Kept, "rotary positions on the first 4 features of a head, halves (j with j + 2)"),
    "kept and looked up": (lambda: Kept(looked_up=True), "on the first 4 features of a head"),
    "neighbours": (Neighbours, "rotary positions, interleaved pairs (2j with 2j + 1)"),
}


@pytest.mark.parametrize("name", MODULES)
def test_module_is_proved_and_a_kept_table_is_good_as_far_as_it_goes(name: str) -> None:
    make, words = MODULES[name]
    found = prove_code(as_implementation(make()))
    assert found.verdict is Verdict.PROVED, proof_text(found)
    assert {"B", "T"} <= set(found.symbolic) and words in found.conventions
    limits = {one.split(" (")[0] for case in found.cases for one in case.open}
    assert limits == ({"T <= 32"} if "kept" in name else set())


# ---------------------------------------------------------------- false neighbours


def wrong(name: str) -> Callable[..., Any]:
    def attention(x, w_q, w_k, w_v, w_o, heads_):
        q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
        length, width = x.shape[1], q.shape[-1]
        cos, sin = tables(length, width)
        if name == "tables of neighbours":
            every = angles(length, width)
            cos, sin = np.repeat(np.cos(every), 2, -1), np.repeat(np.sin(every), 2, -1)
        if name == "cosines and sines exchanged":
            cos, sin = sin, cos
        turned = halves(q, cos, sin)
        if name == "keys of the next position":
            cos, sin = tables(length, width, 1)
        return attend(turned, k if name == "keys left" else halves(k, cos, sin), v, w_o)

    return attention


WRONG = ("tables of neighbours", "cosines and sines exchanged", "keys of the next position", "keys left")


@pytest.mark.parametrize("name", WRONG)
def test_wrong_numpy_code_is_refuted_with_its_own_tables(name: str) -> None:
    found = prove_code(described(wrong(name)))
    assert found.verdict is Verdict.REFUTED, proof_text(found)
    shown = found.cases[0].outcomes[0].counterexample
    assert shown is not None and "+/-" in shown.left  # disjoint real balls: cosines are no fractions


def test_both_queries_and_keys_of_a_later_position_are_no_mistake() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads_):
        q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
        cos, sin = tables(x.shape[1], q.shape[-1], 7)
        return attend(halves(q, cos, sin), halves(k, cos, sin), v, w_o)

    assert prove_code(described(attention)).verdict is Verdict.PROVED


@pytest.mark.parametrize("name", ["pairs", "keys left"])
def test_wrong_module_is_refuted(name: str) -> None:
    found = prove_code(as_implementation(Neighbours(name)))
    assert found.verdict is Verdict.REFUTED, proof_text(found)


def test_tables_of_another_base_are_not_the_same_tables() -> None:
    one, same, other = (as_implementation(Neighbours(base=base)) for base in (10000, 10000, 500))
    assert prove_equal(one, same).verdict is Verdict.PROVED
    assert prove_equal(one, other).verdict is Verdict.REFUTED


def test_tables_that_are_handed_over_are_not_those_of_code_that_makes_some() -> None:
    def handed(x, w_q, w_k, w_v, w_o, heads_, cos, sin):
        q, k, v = (heads(x, w, heads_) for w in (w_q, w_k, w_v))
        return attend(halves(q, cos, sin), halves(k, cos, sin), v, w_o)

    takes = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "cos", "sin")
    with pytest.raises(TargetProblem, match="other positions"):
        prove_equal(from_function(handed, takes=takes, rotary="halves"), described(in_halves))


def test_a_description_that_speaks_of_tables_needs_some() -> None:
    def plain(x, w_q, w_k, w_v, w_o, heads_):
        return attend(*(heads(x, w, heads_) for w in (w_q, w_k, w_v)), w_o)

    with pytest.raises(TargetProblem, match="none were found in its code"):
        takes = ("x", "w_q", "w_k", "w_v", "w_o", "heads")
        prove_code(from_function(plain, takes=takes, rotary="halves"))


# ---------------------------------------------------------------- what stands for what


def test_cosines_are_taken_before_angles_are_copied() -> None:
    t, b = sympy.Symbol("T", integer=True, positive=True), Builder()
    frequencies = b.constant([1.0, 0.5, 0.25])
    every = b.map("mul", b.reshape(b.iota(t), (t, 1)), frequencies)
    twice = b.reshape(b.broadcast(b.reshape(every, (t, 3, 1)), (t, 3, 2)), (t, 6))
    both = b.map("mul", b.reshape(b.map("cos", twice), (t, 3, 2)), b.reshape(b.map("cos", every), (t, 3, 1)))
    graph, found = opened(b.graph(y=both), t)
    assert [(one.name, one.pairs) for one in found] == [("cos", 3)]  # one table, before and behind the copies
    assert {one.op.name for one in graph.nodes if isinstance(one.op, Given)} == {"cos"}


def test_exact_values_are_those_of_numpy() -> None:
    b = Builder()
    power = b.map("pow", b.constant(10000.0), b.map("div", b.map("mul", b.iota(3), b.size(2)), b.size(6)))
    b.map("sin", b.map("div", b.reshape(b.iota(4), (4, 1)), b.reshape(power, (1, 3))))
    exact = exact_value(tuple(b.nodes), {})
    assert exact[0, 0] == 0 and exact[1, 0] == sympy.sin(1)
    expected = np.sin(np.arange(4)[:, None] / 10000 ** (np.arange(3) / 3))
    assert np.allclose(exact.astype(float), expected, 1e-14) and math.isclose(float(exact[3, 0]), math.sin(3))


def test_half_turned_is_what_it_says() -> None:
    assert half_turned(np.arange(4.0)).tolist() == [-2, -3, 0, 1]


def test_a_mask_copied_along_the_batch_is_no_table_of_positions() -> None:
    b, length = Builder(), sympy.Symbol("T", integer=True, positive=True)
    kept = b.constant(np.triu(np.full((5, 5), -np.inf), 1)[1:])
    part = b.slice(b.slice(kept, 0, 0, length), 1, 0, length)
    wide = b.broadcast(part, (sympy.Symbol("B", integer=True, positive=True), length, length))
    graph = b.graph(y=wide)
    assert opened(graph, length)[0] == graph
