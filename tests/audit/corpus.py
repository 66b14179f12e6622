"""Attention in plain NumPy and plain torch, step by step, so that any step can be written wrong.

Defines `STEPS` (the correct steps), `attention` (which takes them, or others, in order), the `CONVENTIONS` in which
the same code is called, and `implementation`.  What people write wrong is in `tests.audit.corpus_faults`.  No line of
it is shared with the package: only `Implementation`, which describes it, is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from mha_sym.audit import Implementation

Step = Callable[..., Any]
Steps = Mapping[str, Step]


def _numpy_softmax(a, axis=-1):
    e = np.exp(a - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _torch_softmax(a, axis=-1):
    if isinstance(axis, int):
        return functional.softmax(a, dim=axis)
    e = (a - a.amax(dim=axis, keepdim=True)).exp()
    return e / e.sum(dim=axis, keepdim=True)


#: what the steps need of a framework, in its own words
NUMPY = SimpleNamespace(
    name="numpy", view=lambda a, *shape: a.reshape(shape), move=lambda a, *axes: a.transpose(axes),
    softmax=_numpy_softmax, fill=lambda a, keep, value: np.where(keep, a, value), exp=np.exp, einsum=np.einsum,
    repeat=lambda a, n, axis: np.repeat(a, n, axis), tile=lambda a, n, axis: np.concatenate([a] * n, axis),
    cat=np.concatenate, stack=np.stack, split=np.split, chunk=lambda a, n, axis: np.split(a, n, axis),
    number=lambda keep, like: keep.astype(like.dtype),
    tril=lambda t, s, offset=0, like=None: np.tri(t, s, offset, dtype=bool),
    normal=np.vectorize(lambda x: 0.5 + math.erf(x / math.sqrt(2)) / 2, otypes=[float]), tanh=np.tanh,
)  # fmt: skip
TORCH = SimpleNamespace(
    name="torch", view=lambda a, *shape: a.reshape(shape), move=lambda a, *axes: a.permute(axes),
    softmax=_torch_softmax, fill=lambda a, keep, value: a.masked_fill(~keep, value), exp=torch.exp,
    einsum=torch.einsum, repeat=lambda a, n, axis: torch.repeat_interleave(a, n, dim=axis),
    tile=lambda a, n, axis: torch.cat([a] * n, dim=axis), cat=torch.cat, stack=torch.stack,
    split=lambda a, at, axis: torch.tensor_split(a, at, dim=axis),
    chunk=lambda a, n, axis: torch.chunk(a, n, dim=axis), number=lambda keep, like: keep.to(like.dtype),
    tril=lambda t, s, offset=0, like=None: torch.ones(t, s, dtype=torch.bool).tril(offset),
    normal=torch.special.ndtr, tanh=torch.tanh,
)  # fmt: skip


@dataclass
class Given:
    """What one call is handed: inputs (b, t, m), stored weights, masks true where a key may be seen."""

    o: Any
    x: tuple[Any, Any, Any]
    stored: dict[str, Any]
    h: int
    g: int
    layout: str
    keep: Any = None  # (t, s)
    pad: Any = None  # (b, s)
    add: Any = None  # (t, s)
    scale: float | None = None
    w: dict[str, Any] = field(default_factory=dict)

    @property
    def B(self) -> int:
        return int(self.x[0].shape[0])

    @property
    def T(self) -> int:
        return int(self.x[0].shape[1])

    @property
    def S(self) -> int:
        return int(self.x[1].shape[1])

    @property
    def k(self) -> int:
        return int(self.w["w_q"].shape[1]) // self.h

    @property
    def v(self) -> int:
        return int(self.w["w_o"].shape[0]) // self.h

    @property
    def factor(self) -> float:
        return float(self.k) ** -0.5 if self.scale is None else self.scale


# ---------------------------------------------------------------- stored weights


def _as_they_are(c):
    return dict(c.stored)


def _out_in(c):
    return {name: w.T if w.ndim == 2 else w for name, w in c.stored.items()}


def _one_a_head(c):
    found = {}
    for name, w in c.stored.items():
        if name == "w_o":
            found[name] = c.o.view(w, -1, w.shape[-1])
        else:
            found[name] = c.o.view(c.o.move(w, 1, 0, 2), w.shape[1], -1) if w.ndim == 3 else c.o.view(w, -1)
    return found


def _blocks(c):
    """[Q; K; V] in one (out, in) matrix, values as wide as keys."""
    return in_blocks(c, "qkv")


def in_blocks(c, order):
    """The rows of the packed matrix are read as blocks in this order."""
    names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    w, b, w_o, b_o = (c.stored.get(name) for name in names)
    found = dict(zip((f"w_{one}" for one in order), (part.T for part in c.o.chunk(w, 3, 0)), strict=True))
    if b is not None:
        found |= dict(zip((f"b_{one}" for one in order), c.o.chunk(b, 3, 0), strict=True)) | {"b_o": b_o}
    return found | {"w_o": w_o.T}


def unpacked(c, order, names):
    """A packed matrix (out, in) whose rows are (a b c) for an ``order`` of the words three, h and k."""
    w, b, w_o, b_o = (c.stored.get(name) for name in names)
    size = {"three": 3, "h": c.h, "k": int(w.shape[0]) // (3 * c.h)}
    rows = [order.index(word) for word in ("three", "h", "k")]
    apart = c.o.move(c.o.view(w, *(size[word] for word in order), w.shape[1]), *rows, 3)
    found = {f"w_{letter}": c.o.view(apart[n], -1, w.shape[1]).T for n, letter in enumerate("qkv")}
    if b is not None:
        parts = c.o.move(c.o.view(b, *(size[word] for word in order)), *rows)
        found |= {f"b_{letter}": c.o.view(parts[n], -1) for n, letter in enumerate("qkv")} | {"b_o": b_o}
    return found | {"w_o": w_o.T}


TORCH_NAMES = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
NEOX_NAMES = ("query_key_value.weight", "query_key_value.bias", "dense.weight", "dense.bias")


def _by_head(c):
    return unpacked(c, ("h", "three", "k"), NEOX_NAMES)


def grouped_blocks(c):
    """[Q; K; V] with fewer key and value heads, (out, in)."""
    w = c.stored["w_qkv"]
    w_o = c.stored["w_o"].T
    width = int(w_o.shape[0]) // c.h
    rest = int(w.shape[0]) - c.g * width
    k = rest // (c.h + c.g)
    q_rows, k_rows, v_rows = c.o.split(w, [c.h * k, (c.h + c.g) * k], 0)
    return {"w_q": q_rows.T, "w_k": k_rows.T, "w_v": v_rows.T, "w_o": w_o}


def by_group(c):
    """Each group's queries with its key and its value, (out, in), values as wide as keys."""
    w, n = c.stored["w_qkv"], c.h // c.g
    apart = c.o.view(w, c.g, n + 2, -1, w.shape[1])
    parts = apart[:, :n], apart[:, n], apart[:, n + 1]
    return dict(zip(("w_q", "w_k", "w_v"), (c.o.view(one, -1, w.shape[1]).T for one in parts), strict=True)) | {
        "w_o": c.stored["w_o"].T
    }


READERS: dict[str, Step] = {
    "combined": _as_they_are, "grouped": _as_they_are, "linear": _out_in, "grouped_linear": _out_in,
    "separate": _one_a_head, "torch_packed": _blocks, "gpt_neox": _by_head,
    "grouped_packed_linear": grouped_blocks, "grouped_by_group_linear": by_group,
}  # fmt: skip

# ---------------------------------------------------------------- the steps, as they should be


def read(c):
    return READERS[c.layout](c)


def project(c, x, letter):
    flat = x @ c.w[f"w_{letter}"]
    return flat + c.w[f"b_{letter}"] if f"b_{letter}" in c.w else flat


def split(c, flat, letter):
    heads = c.h if letter == "q" else c.g
    return c.o.move(c.o.view(flat, *flat.shape[:2], heads, -1), 0, 2, 1, 3)


def share(c, heads, letter):
    return heads if letter == "q" or c.g == c.h else c.o.repeat(heads, c.h // c.g, 1)


def hidden(c):
    """Kept keys, broadcastable to (b, h, t, s), or None."""
    found = None if c.keep is None else c.keep[None, None]
    if c.pad is None:
        return found
    return c.pad[:, None, None, :] if found is None else found & c.pad[:, None, None, :]


def hide(c, scores, low=-float("inf")):
    keep = hidden(c)
    scores = scores if c.add is None else scores + c.add
    return scores if keep is None else c.o.fill(scores, keep, low)


def join(c, z):
    return c.o.view(c.o.move(z, 0, 2, 1, 3), c.B, c.T, -1)


def output(c, joined):
    y = joined @ c.w["w_o"]
    return y + c.w["b_o"] if "b_o" in c.w else y


STEPS: dict[str, Step] = {
    "enter": lambda c: c,
    "read": read,
    "weights": lambda c: c.w,
    "project": project,
    "split": split,
    "share": share,
    "product": lambda c, q, k: q @ c.o.move(k, 0, 1, 3, 2),
    "scaled": lambda c, raw: raw * c.factor,
    "hide": hide,
    "softmax": lambda c, scores: c.o.softmax(scores, -1),
    "reweigh": lambda c, a: a,
    "mix": lambda c, a, v, qkv: a @ v,
    "join": join,
    "output": output,
    "leave": lambda c, y: y,
}


def attention(c: Given, wrong: Steps) -> Any:
    """The layer, with some steps replaced."""
    do = SimpleNamespace(**{**STEPS, **wrong})
    c.w = do.read(c)
    c = do.enter(c)
    c.w = do.weights(c)
    flat = [do.project(c, x, letter) for x, letter in zip(c.x, "qkv", strict=True)]
    q, k, v = (do.share(c, do.split(c, one, letter), letter) for one, letter in zip(flat, "qkv", strict=True))
    scores = do.hide(c, do.scaled(c, do.product(c, q, k)))
    weights = do.reweigh(c, do.softmax(c, scores))
    return do.leave(c, do.output(c, do.join(c, do.mix(c, weights, v, (q, k, v)))))


# ---------------------------------------------------------------- how it is called


@dataclass(frozen=True)
class Convention:
    """How code is called: layout, biases, inputs, masks, order of axes, precision."""

    layout: str = "combined"
    bias: str = ""
    cross: bool = False
    masks: tuple[str, ...] = ()
    causal: bool = False
    batch_first: bool = True
    dtype: str = "float64"
    scale: float | None = None

    @property
    def has(self) -> set[str]:
        """The words by which faults say what they need."""
        found = {self.layout, "cross" if self.cross else "self", *self.masks, *(f"b_{one}" for one in self.bias)}
        found |= {"groups"} if "grouped" in self.layout else {"ungrouped"}
        found |= {"itself"} if self.causal else set()
        found |= {"double"} if self.dtype == "float64" else set()
        found |= {"later"} if self.causal or "causal" in self.masks else set()
        found |= {"keep"} if "drop" in self.masks else set()
        found |= {"pad"} if {"key_keep", "key_drop"} & set(self.masks) else set()
        found |= {"unmasked"} if not self.masks and not self.causal else {"masked"}
        found |= {"plain_cross" if self.cross else "plain_self"} if "unmasked" in found else set()
        found |= set() if self.bias else {"unbiased"}
        found |= {"matrices"} if self.layout in ("combined", "linear") else set()
        found |= {"boolean"} if {"keep", "pad"} & found else set()
        found |= {"standard"} if self.scale is None else {"own_scale"}
        return found | ({"batch_first"} if self.batch_first else set())


CONVENTIONS: dict[str, Convention] = {
    "plain": Convention(),
    "linear, biased": Convention("linear", "qkvo"),
    "linear, cross": Convention("linear", "qkvo", True),
    "combined, cross": Convention("combined", "", True),
    "one matrix a head": Convention("separate", "qv", True),
    "packed": Convention("torch_packed", "qkvo"),
    "packed, single": Convention("torch_packed", "", dtype="float32"),
    "by head": Convention("gpt_neox", "qkvo"),
    "by head, cross": Convention("gpt_neox", "", True),
    "sequence first": Convention("linear", "qkvo", True, batch_first=False),
    "sequence first, self": Convention("combined", "", batch_first=False),
    "kept keys": Convention("combined", "", False, ("keep", "key_keep")),
    "kept keys, cross": Convention("linear", "qkvo", True, ("keep",)),
    "dropped keys": Convention("torch_packed", "qkvo", False, ("drop", "key_drop")),
    "dropped keys, cross": Convention("combined", "vo", True, ("drop", "key_drop")),
    "padding": Convention("combined", "", False, ("key_keep",)),
    "padding, cross": Convention("linear", "qkvo", True, ("key_drop",)),
    "added": Convention("combined", "", False, ("mask",)),
    "added, cross": Convention("linear", "qkvo", True, ("mask",)),
    "causal itself": Convention("combined", "", causal=True),
    "causal itself, linear": Convention("linear", "qkvo", causal=True),
    "causal flag": Convention("linear", "qkvo", False, ("causal",)),
    "causal flag, single": Convention("combined", "", False, ("causal",), dtype="float32"),
    "grouped": Convention("grouped"),
    "grouped, linear": Convention("grouped_linear", "qkvo", True, ("key_keep",)),
    "grouped, packed": Convention("grouped_packed_linear"),
    "grouped, by group": Convention("grouped_by_group_linear"),
    "own scale": Convention("combined", "", scale=0.37),
    "own scale, cross": Convention("linear", "qkvo", True, scale=0.21),
    "single": Convention("linear", "qkvo", dtype="float32"),
}

_KEYS = {"key_keep": 1, "key_drop": -1, "keep": 1, "drop": -1}


def implementation(
    convention: Convention, wrong: Steps, framework: str, name: str = "", tied: tuple[str, ...] | None = None
) -> Implementation:
    """The code under a convention, with some steps replaced."""
    o = {"numpy": NUMPY, "torch": TORCH}[framework]
    inputs = ("x_q", "x_k", "x_v") if convention.cross else ("x",)
    grouped = "grouped" in convention.layout
    takes = (*inputs, "weights", "heads", *(("kv_heads",) if grouped else ()), *convention.masks)

    def call(*values):
        given = dict(zip(takes, values, strict=True))
        x = [given[word] for word in (inputs if convention.cross else inputs * 3)]
        x = x if convention.batch_first else [o.move(one, 1, 0, 2) for one in x]
        heads = given["heads"]
        c = Given(o, tuple(x), given["weights"], heads, given.get("kv_heads", heads), convention.layout)
        c = replace(c, scale=convention.scale, add=given.get("mask"), **_masks(given))
        if convention.causal or given.get("causal"):
            c.keep = o.tril(c.T, c.S)
        y = attention(c, wrong)
        return y if convention.batch_first else o.move(y, 1, 0, 2)

    return Implementation(
        call=call, takes=takes, layout=convention.layout, bias=convention.bias, causal=convention.causal,
        scale=convention.scale, batch_first=convention.batch_first, framework=framework, dtype=convention.dtype,
        name=name, tied=tied,
    )  # fmt: skip


def _masks(given):
    found = {}
    for word, sign in _KEYS.items():
        if given.get(word) is not None:
            found["pad" if word.startswith("key") else "keep"] = given[word] if sign > 0 else ~given[word]
    return found
