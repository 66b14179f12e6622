"""The mistakes of `tests.audit.mistakes` as implementations that ``check`` can run."""

from __future__ import annotations

import numpy as np

from mha_sym.audit import Implementation
from mha_sym.audit.faults import Fault, find_fault
from tests.audit import mistakes_public  # noqa: F401  adds to MISTAKES
from tests.audit.mistakes import MISTAKES, Layer

_MASKS = (
    ("causal", "keep"), ("from_the_end", "keep"), ("keep", "keep"), ("padding", "key_keep"), ("additive", "mask"),
    ("masked", "mask"),
)  # fmt: skip
_FROM_THE_END = ("causal_aligned_bottom_right", "causal_aligned_top_left", "causal_mask_not_declared_from_the_end")
_BASE = {"B": 3, "T": 5, "S": 7, "d_model": 11, "h": 4, "d_k": 2, "d_v": 3}


def implementation(name: str, fault: Fault | None = None, more: tuple[str, ...] = ()) -> Implementation:
    """A mistake as a function of inputs, weights and the masks that the fault is about."""
    fault = fault or find_fault(name)
    cross = "cross" in fault.needs or not {"S"} & set(fault.ties)
    inputs = ("x_q", "x_k", "x_v") if cross else ("x",)
    masks = tuple(
        word for need, word in _MASKS
        if need in fault.needs
    )  # fmt: skip
    masks += more

    scale = 0.37 if name == "scale_default_for_own" else None

    def call(**given):
        x = [given.get(word, given.get("x")) for word in ("x_q", "x_k", "x_v")]
        mask = given.get("mask")
        hides = mask is not None and bool(np.isinf(mask).any())  # the causal mask, handed over to be added
        layer = Layer(
            *x, given["weights"], given["heads"], given.get("keep") is not None or hides, given.get("key_keep"),
            None if hides else mask, scale=scale, order=tuple(range(given["heads"]))[::-1],
        )  # fmt: skip
        about = masks and not any(given.get(word) is not None for word in masks[: len(masks) - len(more)])
        about = about or ("additive" in fault.needs and hides)
        return MISTAKES["right" if about else name](layer)  # a fault of a mask shows only where there is one

    takes = (*inputs, "weights", "heads", *masks)
    biased = any(need.startswith("b_") for need in fault.needs)
    return Implementation(
        call=lambda *values: call(**dict(zip(takes, values, strict=True))), takes=takes, bias=biased, scale=scale,
        name=name, aligned="bottom-right" if "from_the_end" in fault.needs else "",
    )  # fmt: skip


def tied_sizes(fault: Fault) -> dict[str, int]:
    """The sizes that must coincide for the code to run, and those that they coincide with."""
    sizes = dict(_BASE)
    told: dict[str, int] = {}
    for name in ("T", "B", "S", "d_v", "d_model"):
        if name in fault.ties:
            other = fault.ties[name]
            sizes[name] = sizes[other] if isinstance(other, str) else sizes[other[0]] * sizes[other[1]]
            told |= {one: sizes[one] for one in (name, *((other,) if isinstance(other, str) else other))}
    if fault.name in _FROM_THE_END:
        return {"T": 5, "S": 8}  # with fewer keys than queries, rows would keep none
    return told if set(fault.ties) != {"S"} else {}
