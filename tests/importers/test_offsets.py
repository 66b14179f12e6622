"""Causal masks where there are more keys than queries, and entries of a mask put in by position or by another mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from mha_sym.audit import Implementation
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import CodeProof
from mha_sym.audit.proving.report import assumptions
from mha_sym.proof.theorem import Verdict

Keep = Callable[[Any, Any], Any]
Fix = Callable[[Any, Any], Any]
BOTTOM, TOP = "bottom-right", "top-left"
FREE = ("B", "S", "T", "d_k", "d_model", "d_v", "h")


def cross(keep: Keep) -> Callable[..., Any]:
    """Attention of queries to keys of their own, hidden where ``keep`` of both lengths is false."""

    def attention(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads):
        pairs = ((x_q, w_q), (x_k, w_k), (x_v, w_v))
        q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for x, w in pairs)
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        scores = np.where(keep(x_q.shape[1], x_k.shape[1]), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(*x_q.shape[:2], -1) @ w_o

    return attention


def proof(keep: Keep, aligned: str) -> CodeProof:
    return prove_code(Implementation(call=cross(keep), causal=True, aligned=aligned))


#: what people write, and how it is aligned
RIGHT: dict[str, tuple[Keep, str]] = {
    "tri": (lambda t, s: np.tri(t, s, s - t, dtype=bool), BOTTOM),
    "triu": (lambda t, s: ~np.triu(np.ones((t, s), bool), s - t + 1), BOTTOM),
    "positions": (lambda t, s: np.arange(s)[None] <= np.arange(t)[:, None] + s - t, BOTTOM),
    "positions, turned": (lambda t, s: s - t + np.arange(t)[:, None] >= np.arange(s)[None], BOTTOM),
    "rows of a square": (lambda t, s: np.tril(np.ones((s, s), bool))[s - t :], BOTTOM),
    "top": (lambda t, s: np.tri(t, s, dtype=bool), TOP),
}
WRONG: dict[str, tuple[Keep, str]] = {
    "top for bottom": (RIGHT["top"][0], BOTTOM),
    "bottom for top": (RIGHT["tri"][0], TOP),
    "a key too few": (lambda t, s: np.tri(t, s, s - t - 1, dtype=bool), BOTTOM),
    "a key too many": (lambda t, s: np.tri(t, s, s - t + 1, dtype=bool), BOTTOM),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_causal_mask_is_proved_for_all_numbers_of_queries_and_keys(name: str) -> None:
    found = proof(*RIGHT[name])
    assert found.verdict is Verdict.PROVED, found.problem
    assert found.symbolic == FREE
    (case,) = found.cases
    assert [one.partition(" (")[0] for one in case.open] == (["S - T >= 0"] if name == "rows of a square" else [])
    assert bool(case.found.statement.assumptions) == (RIGHT[name][1] == BOTTOM)  # the first query may see no key


@pytest.mark.parametrize("name", WRONG)
def test_a_causal_mask_of_another_diagonal_is_refuted(name: str) -> None:
    assert proof(*WRONG[name]).verdict is Verdict.REFUTED


def test_a_diagonal_of_the_other_sign_is_not_proved() -> None:
    assert proof(lambda t, s: np.tri(t, s, t - s, dtype=bool), BOTTOM).verdict is not Verdict.PROVED


def test_every_other_position_is_no_mask_that_is_followed() -> None:
    found = proof(lambda t, s: np.arange(s)[None] <= 2 * np.arange(t)[:, None], TOP)
    assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    assert "mul of positions is not in the language" in found.problem.what and __file__ in found.problem.where


# ---------------------------------------------------------------- torch


def in_torch(flag: bool) -> Callable[..., torch.Tensor]:
    def attention(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads):
        pairs = ((x_q, w_q), (x_k, w_k), (x_v, w_v))
        q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for x, w in pairs)
        t, s = q.shape[-2], k.shape[-2]
        keep = None if flag else torch.ones(t, s, dtype=torch.bool).tril(diagonal=s - t)
        z = torch.nn.functional.scaled_dot_product_attention(q, k, v, keep, is_causal=flag)
        return z.transpose(1, 2).flatten(2) @ w_o

    return attention


@pytest.mark.parametrize(("flag", "aligned"), [(True, TOP), (False, BOTTOM), (True, BOTTOM)])
def test_torch_hides_from_the_top_where_it_is_only_told_to_be_causal(flag: bool, aligned: str) -> None:
    found = prove_code(Implementation(call=in_torch(flag), causal=True, aligned=aligned, framework="torch"))
    right = flag == (aligned == TOP)
    assert found.verdict is (Verdict.PROVED if right else Verdict.REFUTED), found.problem
    assert {"B", "S", "T"} <= set(found.symbolic)


# ---------------------------------------------------------------- entries that are put in


def self_attention(fix: Fix) -> Callable[..., Any]:
    """Causal attention whose scores go through ``fix``, which is given the length as well."""

    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
        scores = fix(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), x.shape[1])
        e = np.exp(scores)
        return (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

    return attention


def put(key: Callable[[Any], Any], value: float = -np.inf) -> Fix:
    """Scores in which a number is put where the causal mask, as a key, says so."""

    def fix(scores: Any, t: Any) -> Any:
        scores = scores.copy()
        scores[key(np.tri(t, dtype=bool))] = value
        return scores

    return fix


def placed(change: Callable[[Any], None]) -> Fix:
    def fix(scores: Any, t: Any) -> Any:
        keep = np.tri(t, dtype=bool)
        change(keep)
        return np.where(keep, scores, -np.inf)

    return fix


def again(keep: Any) -> None:
    keep[0, 0] = False
    keep[0, 0] = True


def first_column(keep: Any) -> None:
    keep[:, 0] = False
    keep[0, 0] = True


def later_corner(keep: Any) -> None:
    keep[:2, 1:] = True


@pytest.mark.parametrize("fix", [
    put(lambda keep: (..., ~keep)), put(lambda keep: (slice(None), slice(None), ~keep)),
    put(lambda keep: (..., ~keep), -1e9), placed(again),
])  # fmt: skip
def test_entries_that_are_picked_by_a_mask_or_a_position_are_followed(fix: Fix) -> None:
    found = prove_code(Implementation(call=self_attention(fix), causal=True))
    assert found.verdict is Verdict.PROVED, found.problem
    assert found.symbolic == tuple(one for one in FREE if one != "S")


@pytest.mark.parametrize("fix", [put(lambda keep: (..., ~keep.T)), placed(first_column), placed(later_corner)])
def test_other_entries_are_refuted(fix: Fix) -> None:
    assert prove_code(Implementation(call=self_attention(fix), causal=True)).verdict is Verdict.REFUTED


REFUSED: dict[str, tuple[Fix, str]] = {
    "two masks": (put(lambda keep: (0, ..., ~keep)), "one boolean mask"),
    "read by a mask": (lambda s, t: s * np.mean(s[s > 0]), "depends on the values"),
    "written by numbers": (lambda s, t: put(lambda keep: (..., ~keep), s[0, 0, 0])(s, t), "one boolean mask"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_values_is_refused_with_its_line(name: str) -> None:
    fix, words = REFUSED[name]
    found = prove_code(Implementation(call=self_attention(fix), causal=True, heads=2))
    assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    assert words in found.problem.what and __file__ in found.problem.where


# ---------------------------------------------------------------- rows without keys


def weights_of(divided: Callable[[Any, Any], Any], axis: int = -1) -> Callable[..., Any]:
    """Causal attention whose exponentials are ``divided`` by their sum in a way of its own."""

    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
        scores = np.where(np.tri(x.shape[1], dtype=bool), q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf)
        e = np.exp(scores - scores[np.isfinite(scores)].max())
        return (divided(e, e.sum(axis, keepdims=True)) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

    return attention


def or_zero(e: Any, total: Any) -> Any:
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def or_tiny(e: Any, total: Any) -> Any:
    return e / np.maximum(total, 1e-300)


def or_zero_elsewhere(e: Any, total: Any) -> Any:
    """Zeros where the sum of another row is zero: the transpose of what is asked."""
    return np.where((total > 0).swapaxes(-1, -2), e / total, 0.0)


@pytest.mark.parametrize("divided", [or_zero, or_tiny])
def test_zeros_for_rows_without_keys_are_what_the_division_gives(divided: Callable[[Any, Any], Any]) -> None:
    found = prove_code(Implementation(call=weights_of(divided), causal=True))
    assert found.verdict is Verdict.PROVED, found.problem
    said = [one for one in assumptions(found) if "1e-300" in one]
    assert bool(said) == (divided is or_tiny)
    wrong = prove_code(Implementation(call=weights_of(divided, axis=-2), causal=True))
    assert wrong.verdict is Verdict.REFUTED  # the largest of all scores cancels there, too


def test_zeros_for_other_rows_are_not_read_as_that() -> None:
    found = prove_code(Implementation(call=weights_of(or_zero_elsewhere), causal=True))
    assert found.verdict is Verdict.UNDECIDED and found.problem is not None
    assert "gt of these is not in the language" in found.problem.what
