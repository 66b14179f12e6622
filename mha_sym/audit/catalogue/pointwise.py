"""Faults of functions that are taken entry by entry where there should be none, such as a ReLU after a projection."""

from __future__ import annotations

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Edits, Site, Slot
from mha_sym.expr import Expr, Map

_FAMILY = "pointwise"
_TITLES = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "tanh", "sigmoid": "sigmoid"}
_WHO = {"qkv": "queries, keys and values", "q": "the queries", "k": "the keys", "v": "the values"}


def _of_heads(function: str, letters: str) -> Slot:
    """The function of q, k and v, as far as they are among ``letters``."""

    def heads(at: Site, qkv: tuple[Expr, Expr, Expr]) -> tuple[Expr, Expr, Expr]:
        q, k, v = (
            Map(f"fn:{function}", (one,)) if letter in letters else one for letter, one in zip("qkv", qkv, strict=True)
        )
        return q, k, v

    return heads


def _of_output(function: str) -> Slot:
    return lambda at, y: Map(f"fn:{function}", (y,))


def _fault(name: str, what: str, mend: str, stage: str, edits: Edits, alone: bool = True) -> Fault:
    return Fault(
        name=name, words=f"{what}.", symptom="Shapes and the number of parameters agree; trained weights do not fit.",
        mend=mend, step=8 if stage == "y" else 2, stage=stage, edits=edits, family=_FAMILY,
        alone=alone,
    )  # fmt: skip


def _on_projections(function: str, letters: str) -> Fault:
    where = "projections" if letters == "qkv" else _WHO[letters].removeprefix("the ")
    return _fault(
        f"{function}_on_{where}", f"{_TITLES[function]} is taken of {_WHO[letters]}",
        "q, k, v = x @ w_q + b_q, x @ w_k + b_k, x @ w_v + b_v, without an activation", letters[0],
        {"heads": _of_heads(function, letters)}, alone=(function, letters) != ("relu", "qkv"),
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    *(_on_projections("relu", letters) for letters in _WHO),
    *(_on_projections(function, "qkv") for function in _TITLES if function != "relu"),
    _fault(
        "relu_on_output", "ReLU is taken of the output", "y = z @ w_o + b_o, without an activation", "y",
        {"after": _of_output("relu")},
    ),
    _fault(
        "relu_on_projections_and_output", "ReLU is taken of queries, keys, values and the output",
        "q = x @ w_q + b_q and so on, y = z @ w_o + b_o, without activations", "q",
        {"heads": _of_heads("relu", "qkv"), "after": _of_output("relu")},
    ),
)  # fmt: skip
