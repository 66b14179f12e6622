"""The corpus: every fault in NumPy and in torch, under several conventions, at several sizes, and pairs of faults.

Defines `FAULTS`, `corpus` and `pairs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from mha_sym.audit import Implementation
from tests.audit.corpus import CONVENTIONS, implementation
from tests.audit.corpus_faults import (
    Faulty,
    input_faults,
    join_faults,
    pointwise_faults,
    scale_faults,
    softmax_faults,
    split_faults,
    value_faults,
)
from tests.audit.corpus_masks import mask_faults
from tests.audit.corpus_weights import bias_faults, group_faults, weight_faults

FAULTS: tuple[Faulty, ...] = tuple(
    one
    for family in (
        split_faults, join_faults, softmax_faults, scale_faults, mask_faults, weight_faults, bias_faults, group_faults,
        value_faults, input_faults, pointwise_faults,
    )
    for one in family()
)  # fmt: skip



@dataclass(frozen=True)
class Item:
    """A faulty implementation, the sizes it is checked at (the rest is drawn), and the names of its faults."""

    truth: frozenset[str]
    title: str
    code: Implementation
    sizes: dict[str, int] | None


#: sizes that are given, pairwise distinct and distinct from their products; the others are drawn like that
SIZES = (None, {"B": 2, "T": 7, "h": 3}, {"B": 3, "T": 5, "h": 4}, {"B": 5, "T": 11, "d_k": 3})


def suiting(needs: tuple[str, ...]) -> list[str]:
    """The conventions that have what a fault needs, by name."""
    return [name for name, one in CONVENTIONS.items() if set(needs) <= one.has]


def corpus() -> list[Item]:
    """Every fault in NumPy and in torch, under conventions taken in turn; what is called alike stands together.

    Where a fault is written in several ways, each way is in one of the two.
    """
    found, seen = [], Counter[str]()
    for number, one in enumerate(FAULTS):
        able, ways = suiting(one.needs), [other.truth for other in FAULTS].count(one.truth)
        for place, framework in enumerate(("numpy", "torch")):
            if ways == 1 or place == seen[one.truth] % 2:
                name = able[(number + place * (len(able) // 2 or 1)) % len(able)]
                found.append((name, item((one,), name, framework, number + place)))
        seen[one.truth] += 1
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


#: faults of different steps, by title, that are made together
PAIRS: tuple[tuple[str, str], ...] = (
    ("split_by_view_of_q", "scale_missing"), ("split_by_view_of_v", "softmax_over_queries"),
    ("softmax_over_heads", "join_tokens_first"), ("join_features_first", "scale_by_d_k"),
    ("value_bias_dropped", "scale_missing"), ("query_bias_dropped", "output_bias_in_every_head"),
    ("key_and_value_inputs_exchanged", "scale_missing"), ("output_matrix_reshaped", "scale_by_heads"),
    ("padding_tiled_over_heads", "scale_inverted"), ("mask_after_softmax", "join_without_transpose"),
)  # fmt: skip


def pairs() -> Iterator[Item]:
    """Two faults together, in NumPy and torch by turns."""
    known = {one.title: one for one in FAULTS}
    for number, titles in enumerate(PAIRS):
        both = (known[titles[0]], known[titles[1]])
        able = suiting((*both[0].needs, *both[1].needs))
        yield item(both, able[number % len(able)], ("numpy", "torch")[number % 2], number + 1)


def item(faults: tuple[Faulty, ...], name: str, framework: str, number: int) -> Item:
    """Some faults together under one convention."""
    convention = CONVENTIONS[name]
    steps = {key: step for one in faults for key, step in one.steps.items()}
    tied = next((one.tied for one in faults if one.tied), None)
    sizes = SIZES[number % len(SIZES)] if all(one.free and not one.tied for one in faults) else None
    if sizes and "groups" in convention.has:
        sizes = {word: n for word, n in sizes.items() if word != "h"}
    title = f"{' + '.join(one.title for one in faults)} ({framework}, {name})"
    code = implementation(convention, steps, framework, title, tied)
    return Item(frozenset(one.truth for one in faults), title, code, sizes)
