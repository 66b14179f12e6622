"""Weights of attention packed by plain loops, one function a layout, with nothing of the package in them.

A layer is given by its heads: ``q[h][m, k]``, ``k[g][m, k]``, ``v[g][m, v]``, ``o[h][v, m]`` and biases ``bq[h][k]``
and so on; query head i reads key and value head ``i // r``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Heads:
    """A layer head by head."""

    m: int = 11
    h: int = 3
    g: int = 3
    k: int = 4
    v: int = 5
    biased: str = "qkvo"
    seed: int = 0
    parts: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        shapes = {
            "q": (self.h, self.m, self.k), "k": (self.g, self.m, self.k), "v": (self.g, self.m, self.v),
            "o": (self.h, self.v, self.m), "bq": (self.h, self.k), "bk": (self.g, self.k), "bv": (self.g, self.v),
            "bo": (self.m,),
        }  # fmt: skip
        self.parts.update({name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()})

    def __getitem__(self, name: str) -> np.ndarray:
        return self.parts[name]


def _columns(heads: np.ndarray) -> np.ndarray:
    """(in, out): the columns of head 0, then those of head 1."""
    return np.concatenate([heads[i] for i in range(len(heads))], axis=-1)


def _rows(heads: np.ndarray) -> np.ndarray:
    return np.concatenate([heads[i] for i in range(len(heads))], axis=0)


def _separate_linears(names: tuple[str, str, str, str]) -> Callable[[Heads], Arrays]:
    def pack(x: Heads) -> Arrays:
        q, k, v, o = names
        found = {f"{n}.weight": _columns(x[c]).T for n, c in ((q, "q"), (k, "k"), (v, "v"))}
        found[f"{o}.weight"] = _rows(x["o"]).T
        for name, letter in ((q, "q"), (k, "k"), (v, "v"), (o, "o")):
            if letter in x.biased:
                found[f"{name}.bias"] = x["bo"] if letter == "o" else _columns(x["b" + letter])
        return found

    return pack


def gpt2(x: Heads) -> Arrays:
    found = {
        "c_attn.weight": np.concatenate([_columns(x[c]) for c in "qkv"], axis=1), "c_proj.weight": _rows(x["o"]),
    }  # fmt: skip
    if x.biased:
        found |= {"c_attn.bias": np.concatenate([_columns(x["b" + c]) for c in "qkv"]), "c_proj.bias": x["bo"]}
    return found


def torch_packed(x: Heads) -> Arrays:
    one = gpt2(x)
    found = {"in_proj_weight": one["c_attn.weight"].T, "out_proj.weight": one["c_proj.weight"].T}
    return found | ({"in_proj_bias": one["c_attn.bias"], "out_proj.bias": x["bo"]} if x.biased else {})


def gpt_neox(x: Heads) -> Arrays:
    rows, bias = [], []
    for i in range(x.h):
        for c in "qkv":
            for j in range(x.k):
                rows.append(x[c][i][:, j])
                bias.append(x["b" + c][i][j])
    found = {"query_key_value.weight": np.stack(rows), "dense.weight": _rows(x["o"]).T}
    return found | ({"query_key_value.bias": np.stack(bias), "dense.bias": x["bo"]} if x.biased else {})


def packed_innermost_linear(x: Heads) -> Arrays:
    rows, bias = [], []
    for i in range(x.h):
        for j in range(x.k):
            for c in "qkv":
                rows.append(x[c][i][:, j])
                bias.append(x["b" + c][i][j])
    found = {"w_qkv": np.stack(rows), "w_o": _rows(x["o"]).T}
    return found | ({"b_qkv": np.stack(bias), "b_o": x["bo"]} if x.biased else {})


def packed_by_head(x: Heads) -> Arrays:
    columns = [x[c][i][:, j] for i in range(x.h) for c in "qkv" for j in range(x[c].shape[2])]
    bias = [x["b" + c][i][j] for i in range(x.h) for c in "qkv" for j in range(x[c].shape[2])]
    found = {"w_qkv": np.stack(columns, axis=1), "w_o": _rows(x["o"])}
    return found | ({"b_qkv": np.stack(bias), "b_o": x["bo"]} if x.biased else {})


def separate(x: Heads) -> Arrays:
    return {f"w_{c}": x[c] for c in "qkvo"} | {f"b_{c}": x["b" + c] for c in x.biased}


def flax(x: Heads) -> Arrays:
    names = {"q": "query", "k": "key", "v": "value"}
    found = {f"{name}.kernel": np.stack([x[c][i] for i in range(x.h)], axis=1) for c, name in names.items()}
    found["out.kernel"] = x["o"]
    biases = {f"{name}.bias": x["b" + c] for c, name in names.items() if c in x.biased}
    return found | biases | ({"out.bias": x["bo"]} if "o" in x.biased else {})


def phi3(x: Heads) -> Arrays:
    found = {
        "qkv_proj.weight": np.concatenate([_columns(x[c]).T for c in "qkv"]), "o_proj.weight": _rows(x["o"]).T,
    }  # fmt: skip
    if x.biased:
        found |= {"qkv_proj.bias": np.concatenate([_columns(x["b" + c]) for c in "qkv"]), "o_proj.bias": x["bo"]}
    return found


def falcon_grouped(x: Heads) -> Arrays:
    rows: list[np.ndarray] = []
    bias: list[np.ndarray] = []
    for group in range(x.g):
        for part, head in _of_group(x, group):
            rows += list(x[part][head].T)
            bias += list(x["b" + part][head])
    found = {"query_key_value.weight": np.stack(rows), "dense.weight": _rows(x["o"]).T}
    return found | ({"query_key_value.bias": np.array(bias), "dense.bias": x["bo"]} if x.biased else {})


def _of_group(x: Heads, group: int) -> Iterator[tuple[str, int]]:
    repeats = x.h // x.g
    for r in range(repeats):
        yield "q", group * repeats + r
    yield "k", group
    yield "v", group


def grouped_strided(x: Heads) -> Arrays:
    """Query head i reads key head i mod g, so that the heads stand in another order."""
    repeats = x.h // x.g
    order = [group * repeats + r for r in range(repeats) for group in range(x.g)]
    found = {"w_q": _columns(x["q"][order]), "w_k": _columns(x["k"]), "w_v": _columns(x["v"])}
    found["w_o"] = _rows(x["o"][order])
    biases = {"b_q": _columns(x["bq"][order]), "b_k": _columns(x["bk"]), "b_v": _columns(x["bv"]), "b_o": x["bo"]}
    return found | {name: value for name, value in biases.items() if name[-1] in x.biased}


llama = _separate_linears(("q_proj", "k_proj", "v_proj", "o_proj"))
opt = _separate_linears(("q_proj", "k_proj", "v_proj", "out_proj"))

#: layouts whose values may be of another width than keys, those where they may not, and those of grouped heads
PLAIN: dict[str, Callable[[Heads], Arrays]] = {
    "opt": opt, "packed_by_head": packed_by_head, "separate": separate, "flax": flax, "llama": llama, "phi3": phi3,
}  # fmt: skip
ALIKE: dict[str, Callable[[Heads], Arrays]] = {
    "gpt2": gpt2, "torch_packed": torch_packed, "gpt_neox": gpt_neox,
    "packed_innermost_linear": packed_innermost_linear, **PLAIN,
}  # fmt: skip
GROUPED: dict[str, Callable[[Heads], Arrays]] = {
    "llama": llama, "phi3": phi3, "grouped_strided": grouped_strided, "falcon_grouped": falcon_grouped,
}  # fmt: skip
