"""Variants of the layouts of the table that have no row of their own: other orders, other orientations.

Defines `variants`.  Whether anything is stored like that is found out elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from mha_sym.attention.layouts import Layout


def variants(layout: Layout) -> Iterator[Layout]:
    """A layout with the packed parts in another order; heads and features exchanged; W_O in the other orientation.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> [one.name for one in variants(LAYOUTS["linear"])]
        ['linear, features before heads', 'linear, W_O transposed']
    """
    if len({layout.row(f"w_{letter}").stored for letter in "qkv"}) == 1 and not layout.grouped:
        for order in itertools.permutations("qkv"):
            if order != ("q", "k", "v"):
                yield _reordered(layout, "".join(order))
    if not layout.grouped and all("(h k)" in layout.row(f"w_{letter}").left for letter in "qk"):
        swapped = {t: row.replace("(h k) m ->", "(k h) m ->").replace("m (h k) ->", "m (k h) ->")
                   .replace("(h v) m -> m", "(v h) m -> m").replace("m (h v) -> m", "m (v h) -> m")
                   .replace(": (h k) ->", ": (k h) ->").replace(": (h v) ->", ": (v h) ->")
                   for t, row in layout.rows.items()}  # fmt: skip
        yield Layout(f"{layout.name}, features before heads", layout.words, swapped, layout.same)
    other = {"(h v) m -> (h v) m": "m (h v) -> (h v) m", "m (h v) -> (h v) m": "(h v) m -> (h v) m"}
    for before, after in other.items():
        if layout.rows["w_o"].endswith(f": {before}"):
            rows = {**layout.rows, "w_o": layout.rows["w_o"].replace(before, after)}
            yield Layout(f"{layout.name}, W_O transposed", layout.words, rows, layout.same)


def _reordered(layout: Layout, order: str) -> Layout:
    """The packed parts read in another order, all as wide as one another: ``order`` says what lies first."""
    rows = dict(layout.rows)
    for kind in "wb":
        sources = [layout.rows.get(f"{kind}_{letter}") for letter in "qkv"]
        for place, letter in enumerate(order):
            source = sources[place]
            if source is not None:
                rows[f"{kind}_{letter}"] = source.replace("h v", "h k").replace("+ v)", "+ k)")
    return Layout(f"{layout.name} [{'; '.join(order.upper())}]", layout.words, rows, {"v": "k"})
