"""NumPy code in the styles in which people write it: what is right is proved, what is wrong is refuted at its line."""

from __future__ import annotations

import inspect
import time
from typing import Any

import numpy as np
import pytest

from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import CodeProof
from mha_sym.audit.proving.report import assumptions
from mha_sym.audit.target import as_implementation
from mha_sym.errors import Problem
from mha_sym.proof.theorem import Verdict
from tests.audit.right import RIGHT, softmax
from tests.audit.wrong import WRONG

#: what cannot be followed: it takes numbers out of arrays one by one
NOT_FOLLOWED = {"loops over everything"}
#: sizes that the code fixes, where it loops over them
FIXED = {"a list of heads": {"h": 3}, "queries and keys folded": {"h": 3}, "owns its weights": "own", "factory": "own"}


def proof(code: Any, **options: Any) -> CodeProof:
    return prove_code(as_implementation(code, "code"), **options)


@pytest.mark.parametrize("name", [name for name in RIGHT if name not in NOT_FOLLOWED])
def test_right_code_is_proved_for_all_batch_sizes_and_lengths(name: str) -> None:
    found = proof(RIGHT[name])
    assert found.verdict is Verdict.PROVED, found
    assert {"B", "T"} <= set(found.symbolic)
    fixed = FIXED.get(name, {})
    assert found.fixed == fixed or (fixed == "own" and found.fixed["h"] == 3)
    assert all(one.agreed and not one.open for one in found.cases)
    assert all(outcome.steps for one in found.cases for outcome in one.outcomes)


@pytest.mark.parametrize("name", [name for name in WRONG if name not in NOT_FOLLOWED])
def test_wrong_code_is_refuted_and_never_proved(name: str) -> None:
    found = proof(WRONG[name])
    assert found.verdict is Verdict.REFUTED
    refuted = [one for one in found.cases if one.verdict is Verdict.REFUTED]
    assert all(o.counterexample for one in refuted for o in one.outcomes if o.verdict is Verdict.REFUTED)


@pytest.mark.parametrize("name", sorted(NOT_FOLLOWED))
def test_what_cannot_be_followed_is_said_with_its_line_and_never_proved(name: str) -> None:
    found = proof({**RIGHT, **WRONG}[name])
    assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    assert ".py:" in found.problem.where


CROSSED = {
    "reshaped without transpose": "reshape(B, heads, T, -1)", "joined without transpose": "z.reshape(*x.shape[:2], -1)",
    "features before heads": "reshape(B, T, -1, heads)", "reshaped in and out": "reshape(B, heads, T, -1)",
}  # fmt: skip


@pytest.mark.parametrize("name", CROSSED)
def test_crossing_axes_are_found_at_the_line_of_the_reshape(name: str) -> None:
    found = proof(WRONG[name])
    lines, start = inspect.getsourcelines(WRONG[name])
    crossing = found.cases[0].lifted.crossings[0]
    assert CROSSED[name] in lines[crossing.place.line - start]


DEPARTURES = {
    "no scale": "weights", "softmax over queries": "weights", "keys for values": "v", "weights transposed": "z",
    "heads attend to heads": "scores", "joined without transpose": "c", "output bias in every head": "y",
    "queries projected from keys": "q", "value bias dropped": "v",
}  # fmt: skip


@pytest.mark.parametrize("name", DEPARTURES)
def test_the_first_stage_that_differs_is_named(name: str) -> None:
    departure = proof(WRONG[name]).cases[0].departure
    assert departure is not None and departure.first == DEPARTURES[name]


# ---------------------------------------------------------------- further styles


def fused(x, w_qkv, w_o, heads):
    b, t, _ = x.shape
    q, k, v = np.moveaxis((x @ w_qkv).reshape(b, t, 3, heads, -1), 2, 0)
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
    z = softmax(np.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5) @ v
    return z.transpose(0, 2, 1, 3).reshape(b, t, -1) @ w_o


def split_apart(x, w_qkv, w_o, heads):
    q, k, v = np.split(x @ w_qkv, 3, axis=-1)
    b, t, d = q.shape
    q, k, v = (np.swapaxes(a.reshape(b, t, heads, d // heads), 1, 2) for a in (q, k, v))
    z = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(d // heads)) @ v
    return np.swapaxes(z, 1, 2).reshape(b, t, d) @ w_o


def heads_in_a_loop(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    d, e = q.shape[-1] // heads, v.shape[-1] // heads
    out = []
    for r in range(heads):
        mine, yours = slice(r * d, (r + 1) * d), slice(r * e, (r + 1) * e)
        scores = np.einsum("btd,bsd->bts", q[..., mine], k[..., mine]) / np.sqrt(d)
        out.append(softmax(scores) @ v[..., yours])
    return np.concatenate(out, -1) @ w_o


def heads_stacked(x, w_q, w_k, w_v, w_o, heads):
    m = x.shape[-1]
    per = [np.split(w, heads, axis=1) for w in (w_q, w_k, w_v)]
    z = [
        softmax((x @ q) @ (x @ k).transpose(0, 2, 1) / np.sqrt(q.shape[1])) @ (x @ v)
        for q, k, v in zip(*per, strict=True)
    ]
    return np.einsum("hbtv,hvm->btm", np.stack(z), w_o.reshape(heads, -1, m))


def causal_in_place(x, w_q, w_k, w_v, w_o, heads):
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3)
    scores /= np.sqrt(q.shape[-1])
    scores[np.broadcast_to(np.triu(np.ones((t, t)), k=1) == 1, scores.shape)] = -np.inf
    scores -= scores.max(-1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o


def causal_by_positions(x, w_q, w_k, w_v, w_o, heads):
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    later = np.arange(t)[None, :] > np.arange(t)[:, None]
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + later * -1e9
    return (softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o


def normalised_late(x, w_q, w_k, w_v, w_o, heads):
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return ((e @ v) / e.sum(-1, keepdims=True)).swapaxes(1, 2).reshape(b, t, -1) @ w_o


def keys_repeated(x, w_q, w_k, w_v, w_o, heads, kv_heads):
    b, t, _ = x.shape
    q = (x @ w_q).reshape(b, t, heads, -1).transpose(0, 2, 1, 3)
    k, v = ((x @ w).reshape(b, t, kv_heads, -1).transpose(0, 2, 1, 3) for w in (w_k, w_v))
    k, v = (np.repeat(a, heads // kv_heads, axis=1) for a in (k, v))
    z = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
    return z.transpose(0, 2, 1, 3).reshape(b, t, -1) @ w_o


def queries_in_groups(x, w_q, w_k, w_v, w_o, heads, kv_heads):
    b, t, _ = x.shape
    q = (x @ w_q).reshape(b, t, kv_heads, heads // kv_heads, -1)
    k, v = ((x @ w).reshape(b, t, kv_heads, -1) for w in (w_k, w_v))
    a = softmax(np.einsum("btgrk,bsgk->bgrts", q, k) / np.sqrt(q.shape[-1]))
    return np.einsum("bgrts,bsgv->btgrv", a, v).reshape(b, t, -1) @ w_o


STYLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "fused": (fused, {"layout": "packed"}),
    "split": (split_apart, {"layout": "packed", "tied": ("d_v",)}),
    "loop with slices": (heads_in_a_loop, {}),
    "stacked": (heads_stacked, {}),
    "in place": (causal_in_place, {"causal": True}),
    "positions": (causal_by_positions, {"causal": True}),
    "normalised late": (normalised_late, {}),
    "keys repeated": (keys_repeated, {"layout": "grouped"}),
    "queries in groups": (queries_in_groups, {"layout": "grouped"}),
}


@pytest.mark.parametrize("name", STYLES)
def test_further_styles_are_proved_in_under_five_seconds(name: str) -> None:
    code, described = STYLES[name]
    started = time.process_time()
    found = prove_code(Implementation(call=code, **described))
    assert found.verdict is Verdict.PROVED, (found.problem, [o.detail for c in found.cases for o in c.outcomes])
    assert time.process_time() - started < 5
    assert set(found.fixed) <= {"h"}


def keys_tiled(x, w_q, w_k, w_v, w_o, heads, kv_heads):
    """Query head i reads key head i mod G, not i div R."""
    b, t, _ = x.shape
    q = (x @ w_q).reshape(b, t, heads, -1).transpose(0, 2, 1, 3)
    k, v = ((x @ w).reshape(b, t, kv_heads, -1).transpose(0, 2, 1, 3) for w in (w_k, w_v))
    k, v = (np.tile(a, (1, heads // kv_heads, 1, 1)) for a in (k, v))
    z = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
    return z.transpose(0, 2, 1, 3).reshape(b, t, -1) @ w_o


def strictly_causal(x, w_q, w_k, w_v, w_o, heads):
    """One key too many: the mask is shifted to the next one."""
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    keep = np.tril(np.ones((t, t), bool), k=1)
    scores = np.where(keep, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)
    return (softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o


def maximum_over_queries(x, w_q, w_k, w_v, w_o, heads):
    """The maximum of a column is subtracted, which does not cancel in a row."""
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(-2, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o


@pytest.mark.parametrize(
    "code, described",
    [(keys_tiled, {"layout": "grouped"}), (strictly_causal, {"causal": True}), (maximum_over_queries, {})],
)
def test_further_mistakes_are_refuted(code: Any, described: dict[str, Any]) -> None:
    assert prove_code(Implementation(call=code, **described)).verdict is Verdict.REFUTED


# ---------------------------------------------------------------- sizes on which code decides


def other_at_one(x, w_q, w_k, w_v, w_o, heads):
    """Right but for batches of one, where the softmax is left out."""
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    a = scores if b == 1 else softmax(scores)
    return (a @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o


def same_at_one(x, w_q, w_k, w_v, w_o, heads):
    """One head needs no split, and is treated apart, rightly."""
    b, t, _ = x.shape
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    if heads == 1:
        return softmax(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])) @ v @ w_o
    q, k, v = (a.reshape(b, t, heads, -1).swapaxes(1, 2) for a in (q, k, v))
    z = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v
    return z.swapaxes(1, 2).reshape(b, t, -1) @ w_o


def short_only(x, w_q, w_k, w_v, w_o, heads):
    """A mask made for up to 64 positions."""
    b, t, _ = x.shape
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    keep = np.tril(np.ones((64, 64), bool))[:t, :t]
    scores = np.where(keep, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)
    return (softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o


def test_a_size_of_one_that_is_treated_apart_is_proved_apart() -> None:
    found = proof(same_at_one)
    assert found.verdict is Verdict.PROVED
    (one,) = found.cases
    assert len(one.discharged) == 1 and "h = 1" in one.discharged[0] and not one.open
    wrong = proof(other_at_one)
    assert wrong.verdict is Verdict.REFUTED
    assert "B = 1 is refuted" in wrong.cases[0].open[0]
    (shown,) = [one.counterexample for one in wrong.cases[0].outcomes if one.counterexample is not None]
    assert shown.sizes["B"] == 1  # the size at which it is wrong is said, though it is no symbol there


def test_a_size_whose_value_is_needed_is_fixed_and_said() -> None:
    """A table of numbers that is cut to the length can be cut only at a length: the proof is at that length."""
    found = prove_code(Implementation(call=short_only, causal=True))
    assert found.verdict is Verdict.PROVED
    assert found.fixed == {"T": 4} and "T" not in found.symbolic
    (leak,) = found.cases[0].found.leaks
    assert leak.startswith("T = 4, since its value is asked for at") and "[:t, :t]" in leak
    assert any("triangle" in words for words in found.cases[0].found.graph.notes.readings)


def range_of_lengths(x, w_q, w_k, w_v, w_o, heads):
    b, t, _ = x.shape
    assert t <= 64
    q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    return (softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o


def test_a_range_of_sizes_is_a_condition_of_the_proof() -> None:
    found = proof(range_of_lengths)
    assert found.verdict is Verdict.PROVED
    assert found.cases[0].open[0].startswith("T <= 64 (")
    assert all(sizes["T"] <= 64 for sizes in found.cases[0].agreed)


def test_a_fill_counts_as_minus_infinity_only_by_an_assumption() -> None:
    low = prove_code(Implementation(call=causal_by_positions, causal=True)).cases[0]
    assert low.lifted.assumed == ("a score of -1e+09 counts as minus infinity",)

    def not_low_enough(x, w_q, w_k, w_v, w_o, heads):
        b, t, _ = x.shape
        q, k, v = ((x @ w).reshape(b, t, heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
        later = np.arange(t)[None, :] > np.arange(t)[:, None]
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]) + later * -1e4
        return (softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, -1) @ w_o

    assert prove_code(Implementation(call=not_low_enough, causal=True)).verdict is not Verdict.PROVED


# ---------------------------------------------------------------- what cannot be followed


def attends(x, w_q, w_k, w_v, w_o, heads, of_scores=lambda one: one, of_weights=lambda one: one):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    z = of_weights(softmax(of_scores(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])))) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def without_nan(x, w_q, w_k, w_v, w_o, heads):
    return attends(x, w_q, w_k, w_v, w_o, heads, of_weights=np.nan_to_num)


def with_zeros_for_infinities(x, w_q, w_k, w_v, w_o, heads):
    return attends(x, w_q, w_k, w_v, w_o, heads, of_scores=lambda one: np.nan_to_num(one, neginf=0.0))


def clipped(x, w_q, w_k, w_v, w_o, heads):
    return attends(x, w_q, w_k, w_v, w_o, heads, of_scores=lambda one: np.clip(one, -50, 50))


def test_a_weight_that_would_be_nan_is_assumed_not_to_be() -> None:
    found = proof(without_nan)
    assert found.verdict is Verdict.PROVED
    assert any(one.startswith("no entry is NaN at ") and __file__ in one for one in assumptions(found))
    refused = proof(with_zeros_for_infinities)
    assert refused.verdict is Verdict.UNDECIDED and "of the code's own choice" in str(refused.problem)


def test_scores_that_are_cut_off_are_refuted_where_they_are_large() -> None:
    found = proof(clipped)
    assert found.verdict is Verdict.REFUTED and found.cases[0].outcomes[0].counterexample is not None


def decides_on_values(x, w_q, w_k, w_v, w_o, heads):
    return x if (x > 0).any() else -x


def writes_its_input(x, w_q, w_k, w_v, w_o, heads):
    x -= x.mean()
    return x @ w_q


def sorts(x, w_q, w_k, w_v, w_o, heads):
    return np.sort(x, axis=-1)


@pytest.mark.parametrize("code", [decides_on_values, writes_its_input, sorts])
def test_code_outside_of_the_vocabulary_is_refused_with_its_line(code: Any) -> None:
    found = None
    try:
        found = proof(code).problem
    except Problem as problem:  # what is no array, or raises, is refused as check does
        found = problem
    assert found is not None
    _, start = inspect.getsourcelines(code)
    assert f"{__file__}:{start + 1}" in str(found)
