"""Biases that code computes from positions, such as those of ALiBi: right with any of them is proved, wrong is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from mha_sym.audit import check
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import CodeProof, with_audit
from mha_sym.audit.proving.report import assumptions, proof_text
from mha_sym.axes import size_symbol
from mha_sym.importers import graph as g
from mha_sym.importers.builder import Builder
from mha_sym.importers.closed import needed
from mha_sym.importers.lifting.biases import with_tables_of_biases
from mha_sym.importers.run import run
from mha_sym.proof.theorem import Verdict


def away(length):
    return np.arange(length)[None, :] - np.arange(length)[:, None]


def attends(x, w_q, w_k, w_v, w_o, heads, change, joined=lambda z: z.swapaxes(1, 2)):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    e = np.exp(change(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])))
    return joined(e / e.sum(-1, keepdims=True) @ v).reshape(*x.shape[:2], -1) @ w_o


def slopes(heads):
    return 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)


def alibi(x, w_q, w_k, w_v, w_o, heads):
    bias = -slopes(heads)[:, None, None] * np.abs(away(x.shape[1]))
    return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: scores + bias)


def by_key(x, w_q, w_k, w_v, w_o, heads):
    bias = slopes(heads)[:, None, None] * (np.arange(x.shape[1]) - x.shape[1])[None, None, :]
    return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: scores + bias)


def taken_away(x, w_q, w_k, w_v, w_o, heads):
    bias = 0.5 * np.abs(away(x.shape[1]))
    return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: scores - bias)


def causal(x, w_q, w_k, w_v, w_o, heads):
    keep = np.arange(x.shape[1])[None, :] <= np.arange(x.shape[1])[:, None]
    bias = np.where(keep, -0.5 * np.abs(away(x.shape[1])), -np.inf)
    return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: scores + bias)


def by_distance(first_hidden):
    def code(x, w_q, w_k, w_v, w_o, heads):
        rel = away(x.shape[1])
        bias = np.where(rel >= first_hidden, -np.inf, slopes(heads)[:, None, None] * rel)
        return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: scores + bias)

    return code


def multiplied(x, w_q, w_k, w_v, w_o, heads):
    return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: scores * np.abs(away(x.shape[1])))


def twice(x, w_q, w_k, w_v, w_o, heads):
    bias = 0.5 * np.abs(away(x.shape[1]))
    return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: 2 * scores - bias)


def unjoined(x, w_q, w_k, w_v, w_o, heads):
    bias = 0.5 * np.abs(away(x.shape[1]))
    return attends(x, w_q, w_k, w_v, w_o, heads, lambda scores: scores - bias, lambda z: z)


def proof(code: Callable[..., Any], **said: Any) -> CodeProof:
    return prove_code(Implementation(call=code, **said))


@pytest.mark.parametrize(
    ("code", "said"),
    [(alibi, False), (by_key, False), (taken_away, False), (causal, True), (by_distance(1), True)],
)  # fmt: skip
def test_a_bias_by_position_is_any_bias(code: Callable[..., Any], said: bool) -> None:
    found = proof(code, causal=said)
    assert found.verdict is Verdict.PROVED and {"B", "T", "h", "d_k"} <= set(found.symbolic)
    assert found.conventions.endswith("position_bias[query, key, head] added to the scores")
    (words,) = [one for one in assumptions(found) if one.startswith("position_bias is what the code computes")]
    assert __file__ in words and "any such numbers" in words


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (alibi, True), (causal, False), (multiplied, False), (twice, False), (unjoined, False), (by_distance(2), True),
        (by_distance(1), False),
    ],
)  # fmt: skip
def test_what_is_wrong_is_not_proved_with_any_bias(code: Callable[..., Any], said: bool) -> None:
    assert proof(code, causal=said).verdict is not Verdict.PROVED


def test_numbers_without_the_bias_do_not_overrule_the_proof() -> None:
    report, made = check(alibi, draws=1), proof(alibi)
    found = with_audit(made, report)
    assert report.verdict == "disagree" and found.verdict is Verdict.PROVED and not found.ran
    assert "is multi-head attention with a bias by position for all B, T" in proof_text(found).splitlines()[0]
    assert found.notes[-1].startswith("numbers were compared with those of attention without position_bias")


def test_the_graph_with_a_table_gives_the_same_numbers() -> None:
    t, s, h = (size_symbol(name) for name in "TSh")
    b = Builder()
    scores = b.input("x", (h, t, s))
    far = b.map("sub", b.reshape(b.iota(s), (1, s)), b.reshape(b.iota(t), (t, 1)))
    bias = b.map("mul", b.reshape(b.map("sin", b.iota(h)), (h, 1, 1)), b.map("cos", far))
    keys = b.map("sin", b.iota(s))
    graph = b.graph(y=b.map("sub", b.map("add", scores, b.swap(b.swap(bias, 0, 2), 0, 2)), keys))
    made = with_tables_of_biases(graph, t, s)
    assert made is not None and sum(isinstance(one.op, g.Take) for one in made.nodes) == 2
    for sizes in ({"T": 3, "S": 5, "h": 2}, {"T": 1, "S": 4, "h": 3}):
        x = np.random.default_rng(0).standard_normal((sizes["h"], sizes["T"], sizes["S"]))
        np.testing.assert_array_equal(run(graph, {"x": x}, sizes)["y"], run(made, {"x": x}, sizes)["y"])


def test_a_mask_is_no_bias() -> None:
    t = size_symbol("T")
    for hidden in (-sympy.oo, sympy.Integer(-(10**9))):
        b = Builder()
        keep = b.map("le", b.reshape(b.iota(t), (1, t)), b.reshape(b.iota(t), (t, 1)))
        mask = b.map("where", keep, b.size(sympy.Integer(0)), b.size(hidden))
        assert with_tables_of_biases(b.graph(y=b.map("add", b.input("x", (t, t)), mask)), t, t) is None


@pytest.mark.parametrize("f", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_distances_compared_with_a_number_are_comparisons_of_positions(f: str) -> None:
    t, s = (size_symbol(name) for name in "TS")
    b = Builder()
    x = b.input("x", (t, s))
    far = b.map("sub", b.reshape(b.iota(s), (1, s)), b.reshape(b.iota(t), (t, 1)))
    number = b.size(sympy.Integer(1))
    ways = [(far, number), (number, far), (far, b.map("neg", number))]
    ways += [] if f in ("eq", "ne") else [(b.map("abs", far), number), (number, b.map("abs", far))]
    graph = b.graph(**{f"y{n}": b.map("where", b.map(f, *way), x, b.map("neg", x)) for n, way in enumerate(ways)})
    made = with_tables_of_biases(graph, t, s)
    assert made is not None
    used = [made.nodes[n] for n in needed(made)]
    assert g.Map("sub") not in [one.op for one in used] and g.Map("abs") not in [one.op for one in used]
    values = np.random.default_rng(1).standard_normal((4, 6))
    before, after = (run(one, {"x": values}, {"T": 4, "S": 6}) for one in (graph, made))
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
