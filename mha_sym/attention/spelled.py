"""Layouts spelled alike, so that any two of them can be put together: blocks end to end, the same letters in both.

Defines `spelled` (three parameters of one size in one are three blocks), `ungrouped` (as many key and value heads as
query heads), `with_one_input` (one width for all inputs) and `group_order`.  Each gives another `Layout` for the same
stored numbers; nothing is converted here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mha_sym.attention.layouts import Layout
from mha_sym.attention.rows import COUNTS, INPUT_WIDTHS, Row

_AXIS = re.compile(r"\([^()]*\)|\w+")
#: blocks that stand inside a product, as in ``(g (r + 1 + 1) k)``
_INSIDE = re.compile(r"(?<=\w )\(([^()]*\+[^()]*)\)")
_TWO_AXES = re.compile(r"\b(g r|r g)\b")


def spelled(layout: Layout) -> Layout:
    """The layout with packed parameters as blocks, each as wide as what it holds.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> print(LAYOUTS["gpt_neox"].row("w_k"))
        query_key_value.weight: (h three k) m -> three m (h k) [1]
        >>> print(spelled(LAYOUTS["gpt_neox"]).row("w_k"))
        query_key_value.weight: (h (k + k + k)) m [1] -> m (h k)
        >>> print(spelled(LAYOUTS["falcon_grouped"]).row("w_k"))
        query_key_value.weight: (g (r k + k + k)) m [1] -> m (g r k)
    """
    return replace(layout, rows={target: str(_in_blocks(layout.row(target))) for target in layout.rows})


def _in_blocks(row: Row) -> Row:
    if row.pick is not None:
        count = row.right.split()[0]
        left = _spread(row.left, count, ["1"] * COUNTS[count])
        return Row(row.stored, left, row.right.removeprefix(count).strip(), part=row.pick)
    inside = _INSIDE.search(row.left)
    if inside is None:
        return row
    parts = [part.strip() for part in inside[1].split("+")]
    return replace(row, left=_spread(row.left.replace(inside[0], "inside"), "inside", parts))


def _spread(left: str, word: str, parts: Sequence[str]) -> str:
    """A word that counts or stands for parts, as blocks that take in the axes behind it.

    Example:
        >>> _spread("(h three k) m", "three", ["1", "1", "1"])
        '(h (k + k + k)) m'
    """

    def one(found: re.Match[str]) -> str:
        names = found[0].strip("()").split()
        if word not in names:
            return found[0]
        place = names.index(word)
        before, behind = names[:place], names[place + 1 :]
        widths = [" ".join([*([part] if part != "1" else []), *behind]) or "1" for part in parts]
        blocks = f"({' + '.join(widths)})"
        return f"({' '.join(before)} {blocks})" if before else blocks

    return _AXIS.sub(one, left)


def ungrouped(layout: Layout) -> Layout:
    """A layout of grouped heads where each query head has a key and value head of its own.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> print(ungrouped(spelled(LAYOUTS["phi3"])).row("w_v"))
        qkv_proj.weight: (h k + h k + h v) m [2] -> m (h v)
        >>> print(ungrouped(spelled(LAYOUTS["falcon_grouped"])).row("w_q"))
        query_key_value.weight: (h (k + k + k)) m [0] -> m (h k)
    """
    rows = {target: _heads_alone(layout.row(target)) for target in layout.rows}
    return replace(layout, rows={target: str(row) for target, row in rows.items()})


def _heads_alone(row: Row) -> Row:
    left, right = (re.sub(r"\bg\b", "h", _TWO_AXES.sub("h", side)) for side in (row.left, row.right))
    return replace(row, left=re.sub(r"\br k\b", "k", left), right=right)


def with_one_input(layout: Layout, other: Layout) -> Layout:
    """The layout without widths of key and value inputs of their own where ``other`` has none.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> print(with_one_input(LAYOUTS["torch_separate"], LAYOUTS["linear"]).row("w_k"))
        k_proj_weight: (h k) m -> m (h k)
    """
    own = [letter for letter, size in INPUT_WIDTHS.items() if size not in other.input_widths()]
    word = re.compile(rf"\b({'|'.join(own)})\b" if own else r"(?!)")
    rows = {target: layout.row(target) for target in layout.rows}
    one = {t: replace(row, left=word.sub("m", row.left), right=word.sub("m", row.right)) for t, row in rows.items()}
    return replace(layout, rows={target: str(row) for target, row in one.items()})


def group_order(layout: Layout) -> str:
    """How query heads go round the key and value heads: ``g r``, ``r g``, or nothing where each has its own.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> group_order(LAYOUTS["llama"]), group_order(LAYOUTS["x_transformers"]), group_order(LAYOUTS["bert"])
        ('g r', 'r g', '')
    """
    found = _TWO_AXES.search(layout.row("w_k").right)
    return found[0] if found else ""
