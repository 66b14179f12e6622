"""Code that is right where sizes coincide, or but for rounding: the report says where, and why numbers are off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import with_audit
from mha_sym.audit.proving.report import proof_json, proof_text
from mha_sym.proof.theorem import Verdict


def softmax(scores):
    e = np.exp(scores)
    return e / e.sum(-1, keepdims=True)


def loop(x, w_q, w_k, w_v, w_o, heads):
    """Cuts the values as wide as the queries: what is left over is never looked at."""
    d, found = w_q.shape[1] // heads, []
    for r in range(heads):
        q, k, v = (x @ w[:, r * d : (r + 1) * d] for w in (w_q, w_k, w_v))
        found.append(softmax(q @ k.swapaxes(-1, -2) / np.sqrt(d)) @ v)
    return np.concatenate(found, -1) @ w_o[: heads * d]


def split(x, w_q, w_k, w_v, w_o, heads):
    """Does not run where values are of another width."""
    d = w_q.shape[1] // heads
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, d).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    return (softmax(q @ k.swapaxes(-1, -2) / np.sqrt(d)) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def free(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    z = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


@pytest.mark.parametrize(
    ("code", "said", "where"),
    [(split, None, "where d_v = d_k"), (free, ("d_v",), "where d_v = d_k"), (free, None, ""),
     (free, ("d_v", "d_model"), "where d_v = d_k and d_model = h d_k")],
)  # fmt: skip
def test_what_is_proved_says_where(code: Callable[..., Any], said: tuple[str, ...] | None, where: str) -> None:
    found = prove_code(Implementation(call=code, tied=said))
    assert found.verdict is Verdict.PROVED
    headline = proof_text(found).splitlines()[0]
    assert headline.partition("all weights")[2] == (f", {where}" if where else "")
    assert (f"the sizes satisfy {where[6:]}" in proof_json(found)["assumptions"]) == bool(where)


def test_what_is_wrong_elsewhere_says_where_it_is_proved() -> None:
    proof = prove_code(Implementation(call=loop))
    found = with_audit(proof, check(loop, draws=1))
    text = proof_text(found)
    assert (proof.verdict, found.verdict) == (Verdict.PROVED, Verdict.REFUTED)
    assert text.splitlines()[0].endswith("not a proof; it is proved where d_v = d_k and h = 3 only")
    assert "proved where d_v = d_k, " in text and found.ran[0].sizes["d_v"] != found.ran[0].sizes["d_k"]


def halved(x, w_q, w_k, w_v, w_o, heads):
    """Rounds its queries, keys and values to half precision, whatever it is handed."""
    q, k, v = ((x @ w).astype(np.float16).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    z = (softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v).astype(x.dtype)
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def test_right_code_that_rounds_on_the_way_is_proved_and_told_why_its_numbers_are_off() -> None:
    report = check(halved, draws=1)
    assert report.verdict == "disagree" and any("dtype='float16'" in note for note in report.notes)
    found = with_audit(prove_code(Implementation(call=halved)), report)
    assert found.verdict is Verdict.PROVED
    assert found.notes[-1].endswith("it rounds to float16 on the way, which explains it; say dtype='float16' and it is "
                                    "judged in that")  # fmt: skip
    assert check(Implementation(call=halved, dtype="float16"), draws=1).verdict == "agree"
