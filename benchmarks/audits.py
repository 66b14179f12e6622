"""What does one audit cost?  Seconds of the processor after imports, for every kind of code that is audited.

Prints one line a kind: right code, one fault, two faults, and code that no known fault explains, which is where all
single faults, their pairs, sets of three, other layouts and all probes are tried.  The sizes are those of the bar,
(B, T, d_model, h) = (2, 7, 24, 3): under 2 s, and under 10 s where pairs are tried.

Run as ``python benchmarks/audits.py``, or with words of the kinds that are to be run; with ``--drawn`` at the sizes
that a check draws where none are given.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy: threads beside a busy machine would be measured instead

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from mha_sym.audit import CheckReport, Implementation, check

Array = np.ndarray[Any, Any]
SIZES = {"B": 2, "T": 7, "S": 7, "d_model": 24, "h": 3, "d_k": 8, "d_v": 8}


def split(x: Array, heads: int) -> Array:
    """From ``b t (h k)`` to ``b h t k``."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def split_features_first(x: Array, heads: int) -> Array:
    """A mistake: from ``b t (k h)`` to ``b h t k``."""
    return x.reshape(*x.shape[:2], -1, heads).transpose(0, 3, 1, 2)


def softmax(scores: Array) -> Array:
    """Over the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def cubed(scores: Array) -> Array:
    """What no fault of the catalogue explains."""
    return np.asarray(softmax(scores**3))


def attend(qkv: Sequence[Array], weigh: Callable[[Array], Array] = softmax, hidden: Any = None) -> Array:
    """Scaled dot-product attention, joined again."""
    q, k, v = qkv
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if hidden is not None:
        scores = np.where(hidden, -1e9 if weigh is softmax else -1e3, scores)
    z = weigh(scores) @ v
    return np.asarray(z.swapaxes(1, 2).reshape(z.shape[0], z.shape[2], -1))


# ---------------------------------------------------------------- code of all kinds


def plain(weigh: Callable[[Array], Array], cut: Callable[[Array, int], Array] = split) -> Any:
    """Self-attention without a mask."""

    def attention(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, heads: int) -> Array:
        return attend([cut(x @ w, heads) for w in (w_q, w_k, w_v)], weigh) @ w_o

    return attention


def two_faults(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, b_o: Array, heads: int) -> Array:
    """Features before heads, and the output bias left out."""
    return attend([split_features_first(x @ w, heads) for w in (w_q, w_k, w_v)]) @ w_o


def masked(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, heads: int, keep: Array | None = None) -> Array:
    """Scores cubed, with a boolean mask."""
    hidden = None if keep is None else ~keep
    return attend([split(x @ w, heads) for w in (w_q, w_k, w_v)], cubed, hidden) @ w_o


def causal(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, heads: int) -> Array:
    """Scores cubed, later keys hidden unasked."""
    hidden = np.triu(np.ones((x.shape[1], x.shape[1]), bool), 1)
    return attend([split(x @ w, heads) for w in (w_q, w_k, w_v)], cubed, hidden) @ w_o


def grouped(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, heads: int, kv_heads: int) -> Array:
    """Scores cubed, keys and values shared by groups of heads."""
    q, k, v = split(x @ w_q, heads), split(x @ w_k, kv_heads), split(x @ w_v, kv_heads)
    k, v = (one.repeat(heads // kv_heads, axis=1) for one in (k, v))
    return attend((q, k, v), cubed) @ w_o


def rotary(
    x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, heads: int, cos: Array, sin: Array
) -> Array:  # fmt: skip
    """Scores cubed, rotary positions in halves."""
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    half = cos.shape[-1] // (2 if cos.shape[-1] == q.shape[-1] else 1)
    c, s = cos[..., :half], sin[..., :half]
    q, k = (
        np.concatenate([a[..., :half] * c - a[..., half:] * s, a[..., half:] * c + a[..., :half] * s], -1)
        for a in (q, k)
    )
    return attend((q, k, v), cubed) @ w_o


class Cubed(torch.nn.MultiheadAttention):
    """A module of another kind: scores cubed, masks as they must be."""

    def forward(self, query: Any, key: Any, value: Any, **given: Any) -> Any:  # type: ignore[override]
        """The output, and the weights of every head."""
        blocks = zip((query, key, value), self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3), strict=True)
        parts = (torch.nn.functional.linear(*one) for one in blocks)
        q, k, v = (one.reshape(*one.shape[:2], self.num_heads, -1).transpose(1, 2) for one in parts)
        scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5) ** 3
        if (hidden := given.get("attn_mask")) is not None:
            scores = scores.masked_fill(hidden, -torch.inf) if hidden.dtype == torch.bool else scores + hidden
        if (padding := given.get("key_padding_mask")) is not None:
            scores = scores.masked_fill(padding[:, None, None], -torch.inf)
        weights = torch.softmax(scores, -1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


def module(kind: Any) -> Any:
    """A module at the sizes of the bar."""
    torch.manual_seed(0)
    return kind(SIZES["d_model"], SIZES["h"], batch_first=True)


def _sized(call: Any, **more: Any) -> Implementation:
    return Implementation(call=call, name=getattr(call, "__name__", ""), **more)


#: what is audited, by kind: the code, and whether pairs are tried on it
KINDS: Mapping[str, tuple[Callable[[], Any], bool]] = {
    "right function": (lambda: plain(softmax), False),
    "right nn.MultiheadAttention": (lambda: module(torch.nn.MultiheadAttention), False),
    "one fault": (lambda: plain(softmax, split_features_first), False),
    "two faults": (lambda: two_faults, True),
    "unexplained, scores cubed": (lambda: plain(cubed), True),
    "unexplained, tanh of scores": (lambda: plain(lambda scores: softmax(np.tanh(scores))), True),
    "unexplained, sines instead of a softmax": (lambda: plain(np.sin), True),
    "unexplained, boolean mask": (lambda: masked, True),
    "unexplained, causal by itself": (lambda: _sized(causal, causal=True), True),
    "unexplained, grouped": (lambda: _sized(grouped, layout="grouped"), True),
    "unexplained, rotary": (lambda: _sized(rotary, rotary="halves"), True),
    "unexplained torch module": (lambda: module(Cubed), True),
}  # fmt: skip

#: sizes that a module has by itself, and those that follow where key and value heads are fewer
_OWN, _FEWER = {"B": 2, "T": 7}, {**{n: SIZES[n] for n in ("B", "T", "d_model", "d_k")}, "G": 3, "R": 2}


#: whether sizes are those of the bar; those that are drawn are up to three times as large
DRAWN = "--drawn" in sys.argv


def audited(kind: str) -> tuple[CheckReport, float]:
    """The report on code of one kind, and how many seconds of the processor it took."""
    target = KINDS[kind][0]()
    at = _OWN if isinstance(target, torch.nn.Module) else _FEWER if "grouped" in kind else SIZES
    start = time.process_time()
    return check(target, sizes=None if DRAWN else at), time.process_time() - start


def line(kind: str) -> str:
    """What is printed of one kind."""
    report, seconds = audited(kind)
    found = report.findings.diagnosis if report.findings else None
    tried = f"{found.singles} single faults, {found.pairs} pairs, {found.triples} of three" if found else ""
    named = ", ".join(one.name for one in report.faults) or ("" if report.ok else tried)
    bar = 10 if KINDS[kind][1] else 2
    return f"{kind:40}{seconds:7.2f} s  (bar {bar:2} s)  {report.verdict:8}  {named}".rstrip()


def main() -> None:
    """One line a kind, each in a process of its own, so that none finds anything ready but imports."""
    words = [word for word in sys.argv[1:] if word != "--drawn"]
    for kind in KINDS:
        if not words or any(word in kind for word in words):
            with get_context("fork").Pool(1) as pool:
                print(pool.apply(line, (kind,)), flush=True)


if __name__ == "__main__":
    main()
