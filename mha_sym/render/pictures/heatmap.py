"""Attention weights as heat maps, one a head, with the numbers in their cells while there is room for them.

Defines `weights_figure`.  It needs matplotlib, the extra ``plot``, which is loaded when a figure is made; no window is
opened, and no setting of matplotlib is touched.  The weights are shown as they are: nothing is normalised or rounded
but the text in the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mha_sym.errors import DataProblem, Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Weights = np.ndarray[Any, Any]

#: maps with more cells than this have no numbers in them
_NUMBERS = 12 * 12
#: inches: a cell with its number, the least and the most of a map without numbers, and the room of a label
_CELL, _LEAST, _MOST, _LABEL = 0.42, 2.0, 3.4, 0.2


def weights_figure(
    weights: Any,
    tokens: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    sequence: int | None = None,
    columns: int | None = None,
    title: str = "Attention weights",
    numbers: bool | None = None,
) -> Figure:
    """Heat maps ``A[r, t, s]`` of all heads r side by side: query position t down, key position s across.

    Args:
        weights: an array of NumPy, torch or JAX with the axes ``(t, s)``, ``(h, t, s)`` or ``(b, h, t, s)``.
        tokens: what stands at each query position; the positions themselves if omitted.
        keys: what stands at each key position; ``tokens`` if omitted and there are as many.
        sequence: which position of b is shown; needed if there is more than one.
        columns: how many heads stand side by side; about a square if omitted.
        title: the title of the figure.
        numbers: whether each cell shows its weight; if omitted, where there is room.

    Raises:
        Problem: if matplotlib is not installed.
        DataProblem: if the array is not weights with such axes, or tokens do not fit.

    Example:
        >>> figure = weights_figure(np.full((2, 3, 3), 1 / 3), ["the", "cat", "sat"])
        >>> [place.get_title() for place in figure.axes][:2]  # figure.savefig("weights.png") writes it to a file
        ['head r = 0', 'head r = 1']
    """
    figure_class = _figure_class()
    heads = _heads(weights, sequence)
    count, queries, positions = heads.shape
    rows = _names(tokens, queries, "tokens")
    other = tokens if keys is None and tokens is not None and len(tokens) == positions else keys
    cols = _names(other, positions, "keys")
    across = _across(count, columns)
    down = -(-count // across)
    shown = heads.size // count <= _NUMBERS if numbers is None else numbers
    wide, high = (_inches(n, shown) for n in (positions, queries))
    size = (across * (wide + 0.9) + 0.8, down * (high + 1.1) + 0.6)
    figure: Figure = figure_class(figsize=size, layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(down, across, squeeze=False)
    top = max(1.0, float(heads.max()))
    for number, place in enumerate(grid.flat):
        if number >= count:
            place.set_axis_off()
            continue
        image = _map(place, heads[number], f"head r = {number}", rows, cols, top)
        if shown:
            _write(place, heads[number], top)
    bar = figure.colorbar(image, ax=list(grid.flat), shrink=0.8)
    bar.set_label("weight A[r, t, s]")
    return figure


def _inches(count: int, numbers: bool) -> float:
    """How long the side of a map with so many positions is."""
    return max(_LEAST, _CELL * min(count, 32) if numbers else min(_MOST, _CELL * count))


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Problem(
            "heat maps need matplotlib, which is not installed", where="weights_figure",
            hint="install mha_sym with the extra 'plot'",
        ) from error
    return Figure


def _heads(weights: Any, sequence: int | None) -> Weights:
    """The weights of one sequence as ``(h, t, s)``, checked."""
    if hasattr(weights, "detach"):
        weights = weights.detach().cpu()
        weights = weights.float() if str(weights.dtype) == "torch.bfloat16" else weights
    array = np.asarray(weights)
    if array.dtype.kind not in "fiub" or not 2 <= array.ndim <= 4 or 0 in array.shape:
        raise DataProblem(
            "this is no array of weights", where="weights_figure",
            expected="real numbers with the axes (t, s), (h, t, s) or (b, h, t, s)",
            got=f"{array.dtype}, shape {array.shape}",
        )  # fmt: skip
    array = array.astype(float).reshape((1,) * (4 - array.ndim) + array.shape)
    chosen = _chosen(array, sequence)
    wrong = ~(np.isfinite(chosen) & (chosen >= 0))
    if wrong.any():
        r, t, s = (int(n) for n in np.argwhere(wrong)[0])
        raise DataProblem(
            "a weight is a number of at least 0", where="weights_figure",
            got=f"{chosen[r, t, s]} at [r={r}, t={t}, s={s}]",
            hint="give the weights after the softmax, not the scores",
        )  # fmt: skip
    return chosen


def _chosen(array: Weights, sequence: int | None) -> Weights:
    count = len(array)
    if sequence is None and count > 1:
        raise DataProblem(f"there are {count} sequences", where="weights_figure", hint="say which one: sequence=0")
    if sequence is not None and not 0 <= sequence < count:
        raise DataProblem(f"there is no sequence {sequence}", where="weights_figure", expected=f"0 to {count - 1}")
    found: Weights = array[sequence or 0]
    return found


def _names(names: Sequence[str] | None, count: int, what: str) -> list[str]:
    if names is None:
        return [str(n) for n in range(count)]
    if isinstance(names, str) or len(names) != count:
        raise DataProblem(
            f"there are {count} positions and {len(names)} {what}", where="weights_figure",
            hint=f"give {what} as a list, one for each position",
        )  # fmt: skip
    return [str(one).replace("$", r"\$") for one in names]  # a dollar would begin a formula


def _across(count: int, columns: int | None) -> int:
    if columns is not None and columns < 1:
        raise DataProblem(f"there cannot be {columns} columns", where="weights_figure")
    return min(count, columns or -(-count // max(1, round(count**0.5))))


def _map(place: Axes, head: Weights, title: str, rows: Sequence[str], cols: Sequence[str], top: float) -> Any:
    """One head."""
    image = place.imshow(head, vmin=0, vmax=top, cmap="cividis", aspect="auto", interpolation="nearest")
    place.set_title(title, fontsize=10)
    place.set_xlabel("key position s")
    place.set_ylabel("query position t")
    slanted = any(len(name) > 3 for name in cols)
    for names, set_ticks in ((cols, place.set_xticks), (rows, place.set_yticks)):
        step = -(-len(names) // int(_MOST / _LABEL)) if len(names) * _CELL > _MOST else 1
        set_ticks(range(0, len(names), step), names[::step], fontsize=8)
    if slanted:
        place.tick_params(axis="x", labelrotation=45)
    return image


def _write(place: Axes, head: Weights, top: float) -> None:
    """The weight in each cell; a weight that is exactly zero is a point, so that a mask shows."""
    for (t, s), weight in np.ndenumerate(head):
        text = "·" if weight == 0 else f"{weight:.2f}".removeprefix("0")
        place.text(s, t, text, ha="center", va="center", fontsize=8, color="black" if weight > top / 2 else "white")
