"""Layouts: how implementations store the weights of attention, as patterns to the canonical ones.

Defines `Layout`, `LAYOUTS` (those of `mha_sym.attention.layout_table`, one row a layout) and `find_layout`.  A layout
is data: for every canonical weight the stored parameter it lies in and the pattern that takes it out.  Read
symbolically (`Layout.weights`) it gives the canonical weights as expressions of the stored parameters, so that the form
that is proved is evaluated on the very arrays that the implementation keeps.  Nothing here reads a file or a framework.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import sympy

from mha_sym.arrays import check_arrays, solve_sizes
from mha_sym.attention.dims import Dims, Weights
from mha_sym.attention.layout_table import TABLE
from mha_sym.attention.rows import GROUPS, INPUT_WIDTHS, SHARDS, Row
from mha_sym.axes import axis, size_symbol
from mha_sym.errors import DataProblem, Problem, show_axes
from mha_sym.expr import Expr, Input, Rename, find_axis

__all__ = ["CANONICAL", "INPUT_WIDTHS", "LAYOUTS", "Layout", "Row", "find_layout"]

#: the canonical weights and their axes, in the order in which messages list them
CANONICAL: dict[str, str] = {
    "w_q": "m (h k)", "w_k": "m (h k)", "w_v": "m (h v)", "w_o": "(h v) m",
    "b_q": "(h k)", "b_k": "(h k)", "b_v": "(h v)", "b_o": "m",
}  # fmt: skip

@dataclass(frozen=True)
class Layout:
    """One way of storing the weights.

    Attributes:
        name: how commands and `Implementation` call it.
        words: who stores weights like that.
        rows: for every canonical weight (see `CANONICAL`) its `Row` in one-line form.
        same: head features that this layout cannot tell apart, e.g. ``{"v": "k"}`` for values as wide as keys.

    Example:
        >>> print(LAYOUTS["torch_packed"].row("w_k"))
        in_proj_weight: (three h k) m -> three m (h k) [1]
    """

    name: str
    words: str
    rows: Mapping[str, str]
    same: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for target in self.rows:
            if target not in CANONICAL:
                known = ", ".join(CANONICAL)
                raise Problem(f"no canonical weight {target!r}", where=f"layout {self.name}", expected=known)
            self.row(target)

    def row(self, target: str) -> Row:
        """The row of a canonical weight."""
        return Row.read(self.rows[target])

    def targets(self, biases: str) -> tuple[str, ...]:
        """The canonical weights of a layer with these biases, e.g. ``"qkvo"``, ``"qv"`` or none.

        Example:
            >>> LAYOUTS["combined"].targets("vo")
            ('w_q', 'w_k', 'w_v', 'w_o', 'b_v', 'b_o')
        """
        return tuple(name for name in self.rows if name.startswith("w_") or name[-1] in biases)

    def stored(self, biases: str) -> tuple[str, ...]:
        """The parameters that hold those weights, each once."""
        return tuple(dict.fromkeys(self.row(target).stored for target in self.targets(biases)))

    def biases(self, names: Iterable[str]) -> str:
        """Which biases a layer has whose stored parameters are these, e.g. ``"qkvo"``.

        Example:
            >>> LAYOUTS["torch_packed"].biases(["in_proj_weight", "out_proj.weight", "in_proj_bias"])
            'qkv'
        """
        have = set(names)
        return "".join(t[-1] for t in self.rows if t.startswith("b_") and self.row(t).stored in have)

    def heads_are_an_axis(self) -> bool:
        """Whether the number of heads can be read off a stored parameter: ``h`` is an axis of its own."""
        return any("h" in self.row(target).groups for target in self.rows)

    @property
    def grouped(self) -> bool:
        """Whether several query heads read one key and value head.

        Example:
            >>> LAYOUTS["grouped"].grouped, LAYOUTS["combined"].grouped
            (True, False)
        """
        return bool(self._letters & GROUPS.keys())

    @property
    def shards(self) -> int | None:
        """How many shards the weights lie in, if they lie shard by shard; a whole number of heads is in each.

        Example:
            >>> LAYOUTS["codegen"].shards, LAYOUTS["linear"].shards
            (4, None)
        """
        return next((n for target in self.rows if (n := self.row(target).shards) is not None), None)

    @property
    def heads(self) -> sympy.Expr:
        """The number of heads, by the sizes that the layout has: h, ``G R``, or a number of shards times L.

        Example:
            >>> LAYOUTS["linear"].heads, LAYOUTS["grouped"].heads, LAYOUTS["codegen"].heads
            (h, G*R, 4*L)
        """
        if self.grouped:
            return size_symbol("G") * size_symbol("R")
        return size_symbol("h") if self.shards is None else self.shards * size_symbol(SHARDS["l"])

    def with_parts(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes with the number of heads in a shard, where weights lie shard by shard.

        Raises:
            DataProblem: if the heads do not divide into the shards.

        Example:
            >>> LAYOUTS["codegen"].with_parts({"h": 8})
            {'h': 8, 'L': 2}
        """
        if self.shards is None:
            return dict(sizes)
        if sizes["h"] % self.shards:
            raise DataProblem(
                f"{sizes['h']} heads do not divide into {self.shards} shards", where=f"layout {self.name}",
                expected=f"h = {self.shards} L",
            )  # fmt: skip
        return {**sizes, SHARDS["l"]: sizes["h"] // self.shards}

    @property
    def _letters(self) -> frozenset[str]:
        return frozenset().union(*(self.row(target).letters for target in self.rows))

    def input_widths(self) -> tuple[str, ...]:
        """The sizes of key and value inputs with a width of their own, such as ``('d_key', 'd_value')``."""
        return tuple(size for letter, size in INPUT_WIDTHS.items() if letter in self._letters)

    def dims(self, **sizes: str | int | sympy.Expr) -> Dims:
        """The axes of a layer stored like that: ``d_v = d_k`` and ``h = G R`` where the layout says so.

        Example:
            >>> LAYOUTS["torch_packed"].dims().hv, LAYOUTS["grouped"].dims().h
            ((h v): d_k*h, h: G*R)
        """
        given = {name: name for name in _LETTERS} | {"h": self.heads} | sizes
        one = {name: axis(letter, given[name]) for name, letter in _LETTERS.items()}
        if self.same.get("v") == "k":
            one["d_v"] = axis("v", one["d_k"].size)
        return Dims(one["B"], one["T"], one["S"], one["d_model"], one["h"], one["d_k"], one["d_v"])

    def parameters(self, d: Dims, biases: str) -> dict[str, Input]:
        """The stored parameters as inputs, by name, with the axes in which they are stored.

        Example:
            >>> layout = LAYOUTS["torch_packed"]
            >>> layout.parameters(layout.dims(), "")["in_proj_weight"].axes
            ((three h k): 3*d_k*h, m: d_model)
        """
        found: dict[str, Input] = {}
        for target in self.targets(biases):
            row = self.row(target)
            role = "weight" if target.startswith("w_") else "bias"
            one = Input(row.stored, row.axes(d), role)  # type: ignore[arg-type]
            if found.setdefault(row.stored, one).axes != one.axes:
                raise Problem(
                    f"parameter {row.stored!r} has two sets of axes", where=f"layout {self.name}",
                    axes=[show_axes(found[row.stored].axes), show_axes(one.axes)],
                )  # fmt: skip
        return found

    def weights(self, d: Dims, biases: str) -> Weights:
        """The canonical weights as expressions of the stored parameters.

        Example:
            >>> layout = LAYOUTS["torch_separate"]
            >>> layout.weights(layout.dims(), "qkvo").w_k.axes
            (n: d_key, (h k): d_k*h)
        """
        return self.taken(self.parameters(d, biases), d, biases)

    def taken(self, stored: Mapping[str, Expr], d: Dims, biases: str) -> Weights:
        """The canonical weights, taken out of expressions that stand for the stored parameters.

        Example:
            >>> layout = LAYOUTS["linear"]
            >>> layout.taken(layout.parameters(layout.dims(), ""), layout.dims(), "").w_o.axes
            ((h v): d_v*h, m: d_model)
        """
        return Weights(**{target: self._canonical(target, stored, d) for target in self.targets(biases)})

    def _canonical(self, target: str, stored: Mapping[str, Expr], d: Dims) -> Expr:
        row = self.row(target)
        value = row.take(stored[row.stored], d)
        if "v" in CANONICAL[target] and self.same.get("v") == "k" and d.hk in value.axes:
            value = Rename(value, find_axis(value, d.hk.name, target), d.hv)
        return value

    def sizes(self, arrays: Mapping[str, Any], known: Mapping[str, int]) -> dict[str, int]:
        """The sizes that the shapes of the stored parameters fix, together with those that are known.

        Args:
            arrays: the stored parameters, or anything with their shapes.
            known: sizes by symbol (``h``, ``d_k``, ...) that are known from elsewhere, such as the number of heads.

        Raises:
            DataProblem: for a missing or unknown parameter, a wrong number of axes, a size that does not divide, or
                one that contradicts another.

        Example:
            >>> import numpy as np
            >>> w = {"w_q": np.ones((6, 5)), "w_k": np.ones((6, 5)), "w_v": np.ones((9, 5)), "w_o": np.ones((5, 9))}
            >>> LAYOUTS["linear"].sizes(w, {"h": 3})
            {'h': 3, 'd_model': 5, 'd_k': 2, 'd_v': 3}
        """
        parameters = self.parameters(self.dims(), self.biases(arrays))
        _same_names(self, parameters, arrays)
        check_arrays(parameters, arrays)
        if self.shards is not None:
            rest = self.with_parts(known) if "h" in known else known
            found = solve_sizes(parameters, arrays, {name: n for name, n in rest.items() if name != "h"})
            return {**found, "h": self.shards * found[SHARDS["l"]]}
        if not self.grouped:
            return solve_sizes(parameters, arrays, known)
        return _grouped_sizes(parameters, arrays, known)


_LETTERS = {"B": "b", "T": "t", "S": "s", "d_model": "m", "h": "h", "d_k": "k", "d_v": "v"}


def _grouped_sizes(
    parameters: Mapping[str, Input], arrays: Mapping[str, Any], known: Mapping[str, int]
) -> dict[str, int]:
    """The sizes where ``h = G R``: every number of key and value heads that divides h is tried if none is known."""
    heads = known.get("h")
    rest = {name: n for name, n in known.items() if name not in ("h", "G", "R")}
    if heads is None:
        found = solve_sizes(parameters, arrays, known)
        return {**found, "h": found["G"] * found["R"]}
    tried = [known["G"]] if "G" in known else [n for n in range(1, heads + 1) if heads % n == 0]
    fitting, refused = [], None
    for groups in tried:
        if heads % groups:
            raise DataProblem(f"{heads} heads do not divide into {groups} key and value heads", expected="h = G R")
        try:
            fitting.append(solve_sizes(parameters, arrays, {**rest, "G": groups, "R": heads // groups}))
        except DataProblem as problem:
            refused = refused or problem
    if len(fitting) > 1:
        several = ", ".join(str(sizes["G"]) for sizes in fitting)
        raise DataProblem(
            "the number of key and value heads cannot be told", got=f"{several} all fit",
            hint="give it, on the command line --kv-heads N",
        )  # fmt: skip
    if not fitting:
        assert refused is not None  # one is a divisor of every number
        raise refused
    return {**fitting[0], "h": heads}


def _same_names(layout: Layout, parameters: Mapping[str, Input], arrays: Mapping[str, Any]) -> None:
    missing, surplus = set(parameters) - set(arrays), set(arrays) - set(parameters)
    if missing or surplus:
        first = sorted(missing or surplus)[0]
        raise DataProblem(
            f"weight {first!r} is missing" if missing else f"weight {first!r} has no place in this layout",
            where=f"layout {layout.name} ({layout.words})",
            expected=", ".join(parameters),
            got=", ".join(sorted(arrays)),
        )


#: every layout that is known; a further one is one more row of the table
LAYOUTS: dict[str, Layout] = {
    name: Layout(name, words, rows, same) for name, (words, rows, same) in TABLE.items()
}


def find_layout(layout: Layout | str) -> Layout:
    """The layout of that name, or the layout itself.

    Raises:
        Problem: for a name that is not known, with the closest ones.

    Example:
        >>> find_layout("linear").words
        'torch.nn.Linear style, (out, in)'
    """
    if isinstance(layout, Layout):
        return layout
    if layout not in LAYOUTS:
        close = get_close_matches(layout, LAYOUTS, 2)
        hint = f"did you mean {' or '.join(close)}?" if close else ""
        raise Problem(f"no layout {layout!r}", expected=", ".join(LAYOUTS), hint=hint)
    return LAYOUTS[layout]
