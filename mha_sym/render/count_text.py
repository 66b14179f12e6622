"""Counts as a table of text or as JSON: each quantity by its name, with its formula, number and meaning.

Defines `count_table` and `count_json`; the counts come from `mha_sym.count`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mha_sym.axes import Size
from mha_sym.count import Counts, number_at
from mha_sym.render.columns import columns
from mha_sym.render.formulas.size_text import rank, size_text

_WIDTH = 64


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A quantity: its field in `Counts` (none for running time), its name, its unit, and a line about it."""

    field: str
    name: str
    unit: str
    meaning: str


_QUANTITIES = (
    _Quantity("parameters", "parameters", "entries", "entries of all weights and biases that occur"),
    _Quantity("weights", "  weights", "entries", "entries of the weight matrices"),
    _Quantity("biases", "  biases", "entries", "entries of the bias vectors"),
    _Quantity("stored_scores", "stored scores", "entries", "entries of the arrays that softmax is applied to"),
    _Quantity("multiply_adds", "multiply-adds", "operations", "one multiplication and one addition each, in products"),
    _Quantity("pointwise", "pointwise operations", "operations", "all other arithmetic: biases, scale, masks, softmax"),
    _Quantity("bytes_moved", "bytes moved", "bytes", "every operation reads its operands, writes its result; unfused"),
    _Quantity("", "running time", "", "does not follow from the expression: it depends on the machine; measure it"),
)


def count_table(counts: Counts, sizes: Mapping[str, int] | None = None, bias: bool | None = None) -> str:
    """The quantities as a table, with a line of explanation each.

    Args:
        counts: from `mha_sym.count.count`.
        sizes: numbers for the symbolic sizes, by name; a quantity that needs more says which.
        bias: whether the expression was made with biases; found from the counts if omitted.

    Raises:
        ValueError: if ``bias`` is not what was counted.
        DataProblem: if a size is not a positive integer.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> from mha_sym.count import count
        >>> print(count_table(count(combined_weights(dims()).w_q), {"d_model": 12, "h": 3, "d_k": 4}))
        Without biases; 4 bytes an entry; at d_model=12, h=3, d_k=4.
        <BLANKLINE>
        quantity              number  formula
        ────────────────────  ──────  ─────────────────────────────...
        parameters               144  d_model·h·d_k
                                      entries of all weights and biases that occur
        ...
    """
    rows = [_row(one, counts, sizes) for one in _QUANTITIES]
    head = ["quantity", "number", "formula"]
    if not sizes:
        rows, head = [[row[0], row[2]] for row in rows], [head[0], head[2]]
    return f"{_convention(counts, sizes, bias)}\n\n{columns(head, rows, right=[1] if sizes else [])}"


def count_json(counts: Counts, sizes: Mapping[str, int] | None = None, bias: bool | None = None) -> dict[str, Any]:
    """The quantities as plain data; ``value`` is null where a size is missing, and for running time.

    Raises:
        ValueError: if ``bias`` is not what was counted.
        DataProblem: if a size is not a positive integer.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> from mha_sym.count import count
        >>> found = count_json(count(combined_weights(dims()).w_q), {"d_model": 12, "h": 3, "d_k": 4})
        >>> found["quantities"]["parameters"]["formula"], found["quantities"]["parameters"]["value"]
        ('d_model·h·d_k', 144)
    """
    return {
        "bias": _has_bias(counts, bias),
        "itemsize": counts.itemsize,
        "sizes": dict(sizes or {}),
        "quantities": {one.field or "running_time": _quantity_json(one, counts, sizes) for one in _QUANTITIES},
    }


def _quantity_json(one: _Quantity, counts: Counts, sizes: Mapping[str, int] | None) -> dict[str, Any]:
    formula = getattr(counts, one.field) if one.field else None
    return {
        "formula": None if formula is None else size_text(formula),
        "value": None if formula is None or _missing(formula, sizes) else number_at(formula, sizes or {}),
        "unit": one.unit or None,
        "meaning": one.meaning,
    }


def _has_bias(counts: Counts, bias: bool | None) -> bool:
    found = counts.biases != 0
    if bias is not None and bias != found:
        raise ValueError(f"bias={bias}, but {counts.biases} bias entries were counted")
    return found


def _convention(counts: Counts, sizes: Mapping[str, int] | None, bias: bool | None) -> str:
    text = "With biases" if _has_bias(counts, bias) else "Without biases"
    text += f"; {counts.itemsize} byte{'s' if counts.itemsize != 1 else ''} an entry"
    return text + (f"; at {', '.join(f'{name}={size}' for name, size in sizes.items())}." if sizes else ".")


def _missing(formula: Size | int, sizes: Mapping[str, int] | None) -> list[str]:
    if isinstance(formula, int):
        return []
    symbols = sorted(formula.free_symbols, key=rank)
    return [str(one) for one in symbols if str(one) not in (sizes or {})]


def _row(one: _Quantity, counts: Counts, sizes: Mapping[str, int] | None) -> list[str]:
    if not one.field:
        return [one.name, "", one.meaning]
    formula = getattr(counts, one.field)
    missing = _missing(formula, sizes)
    shown = f"needs {', '.join(missing)}" if missing else f"{number_at(formula, sizes or {}):,}"
    return [one.name, shown, "\n".join([*_folded(size_text(formula)), one.meaning])]


def _folded(text: str) -> Sequence[str]:
    """A sum over several lines, each of which ends or begins between two terms."""
    lines = [""]
    for part in text.replace(" + ", "\n+ ").replace(" - ", "\n- ").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) >= _WIDTH:
            lines.append(part)
        else:
            lines[-1] = f"{lines[-1]} {part}".strip()
    return lines
