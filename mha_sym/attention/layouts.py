"""Layouts: how implementations store the weights of attention, as patterns to the canonical ones.

Defines `Layout`, the table `LAYOUTS` (one row a layout) and `find_layout`.  A layout is data: for every canonical
weight the stored parameter it lies in and the einops pattern that takes it out.  Read symbolically
(`Layout.weights`) it gives the canonical weights as expressions of the stored parameters, so that the form that is
proved is evaluated on the very arrays that the implementation keeps.  Nothing here reads a file or a framework.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import sympy

from mha_sym.arrays import check_arrays, solve_sizes
from mha_sym.attention.dims import Dims, Weights
from mha_sym.axes import Axis, axis, product
from mha_sym.errors import DataProblem, Problem, show_axes
from mha_sym.expr import Expr, Input, Rename, Select, find_axis
from mha_sym.pattern import rearrange

#: the canonical weights and their axes, in the order in which messages list them
CANONICAL: dict[str, str] = {
    "w_q": "m (h k)", "w_k": "m (h k)", "w_v": "m (h v)", "w_o": "(h v) m",
    "b_q": "(h k)", "b_k": "(h k)", "b_v": "(h v)", "b_o": "m",
}  # fmt: skip

#: letters that count parts of a packed parameter and have a fixed size
COUNTS: dict[str, int] = {"two": 2, "three": 3}

#: letters of the widths of the key and value inputs where they differ from that of the query input
INPUT_WIDTHS: dict[str, str] = {"n": "d_key", "p": "d_value"}

_ROW = re.compile(r"\s*(?P<stored>[\w.]+)\s*:\s*(?P<left>[^>]+?)\s*->\s*(?P<right>[^\[]+?)\s*(\[(?P<pick>\d+)\])?\s*")
_GROUP = re.compile(r"\([\w\s]+\)|\w+")


@dataclass(frozen=True, slots=True)
class Row:
    """Where one canonical weight lies: a stored parameter, a pattern, and which part of the first axis of the result.

    Example:
        >>> Row.read("in_proj_weight: (three h k) m -> three m (h k) [1]").pick
        1
    """

    stored: str
    left: str
    right: str
    pick: int | None = None

    @staticmethod
    def read(text: str) -> Row:
        """A row from its one-line form ``stored: axes -> axes [part]``.

        Raises:
            Problem: if the line has another form.
        """
        found = _ROW.fullmatch(text)
        if found is None:
            raise Problem(
                f"the row {text!r} of a layout cannot be read",
                expected="'in_proj_weight: (three h k) m -> three m (h k) [0]'",
            )
        pick = found["pick"]
        return Row(found["stored"], found["left"], found["right"], None if pick is None else int(pick))

    def __str__(self) -> str:
        part = "" if self.pick is None else f" [{self.pick}]"
        return f"{self.stored}: {self.left} -> {self.right}{part}"


@dataclass(frozen=True)
class Layout:
    """One way of storing the weights.

    Attributes:
        name: how commands and `Implementation` call it.
        words: who stores weights like that.
        rows: for every canonical weight (see `CANONICAL`) its `Row` in one-line form.  The letters are those of
            `Dims` (m model feature, h head, k and v head features), those of `COUNTS`, and n and p for the widths
            of key and value inputs of their own.
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
        return any("h" in _GROUP.findall(self.row(target).left) for target in self.rows)

    def input_widths(self) -> tuple[str, ...]:
        """The sizes of key and value inputs with a width of their own, such as ``('d_key', 'd_value')``."""
        rows = " ".join(self.row(target).left for target in self.rows)
        used = {name for group in _GROUP.findall(rows) for name in _words(group)}
        return tuple(size for letter, size in INPUT_WIDTHS.items() if letter in used)

    def dims(self, **sizes: str | int | sympy.Expr) -> Dims:
        """The axes of a layer stored like that, with ``d_v`` as wide as ``d_k`` where the layout says so.

        Example:
            >>> LAYOUTS["torch_packed"].dims().hv
            (h v): d_k*h
        """
        given = {"B": "B", "T": "T", "S": "S", "d_model": "d_model", "h": "h", "d_k": "d_k", "d_v": "d_v", **sizes}
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
            one = Input(row.stored, _axes(row.left, d), role)  # type: ignore[arg-type]
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
        parameters = self.parameters(d, biases)
        parts = {target: self._canonical(target, parameters, d) for target in self.targets(biases)}
        return Weights(**parts)

    def _canonical(self, target: str, parameters: Mapping[str, Input], d: Dims) -> Expr:
        row = self.row(target)
        value: Expr = parameters[row.stored]
        if row.left != row.right:
            value = rearrange(value, f"{row.left} -> {row.right}")
        if row.pick is not None:
            value = Select(value, value.axes[0], row.pick)
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
        return solve_sizes(parameters, arrays, known)


_LETTERS = {"B": "b", "T": "t", "S": "s", "d_model": "m", "h": "h", "d_k": "k", "d_v": "v"}


def _words(group: str) -> list[str]:
    return group.strip("()").split()


def _axes(left: str, d: Dims) -> tuple[Axis, ...]:
    """The stored axes of a row: ``'(three h k) m'`` as axes."""
    return tuple(
        product(*(_letter(name, d) for name in _words(group))) if "(" in group else _letter(group, d)
        for group in _GROUP.findall(left)
    )


def _letter(name: str, d: Dims) -> Axis:
    if name in COUNTS:
        return axis(name, COUNTS[name])
    if name in INPUT_WIDTHS:
        return axis(name, INPUT_WIDTHS[name])
    known = {one.name: one for one in (d.m, d.h, d.k, d.v)}
    if name not in known:
        raise Problem(f"no letter {name!r} in layouts", expected=", ".join([*known, *INPUT_WIDTHS, *COUNTS]))
    return known[name]


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


_HEADS_SIDE_BY_SIDE = {
    "w_q": "w_q: m (h k) -> m (h k)", "w_k": "w_k: m (h k) -> m (h k)", "w_v": "w_v: m (h v) -> m (h v)",
    "w_o": "w_o: (h v) m -> (h v) m", "b_q": "b_q: (h k) -> (h k)", "b_k": "b_k: (h k) -> (h k)",
    "b_v": "b_v: (h v) -> (h v)", "b_o": "b_o: m -> m",
}  # fmt: skip

_TORCH_BIASES = {
    "b_q": "in_proj_bias: (three h k) -> three (h k) [0]",
    "b_k": "in_proj_bias: (three h k) -> three (h k) [1]",
    "b_v": "in_proj_bias: (three h k) -> three (h k) [2]",
    "b_o": "out_proj.bias: m -> m",
}

#: every layout that is known; a further one is one more row
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("combined", "one matrix for all heads, (in, out), the columns of a head together", _HEADS_SIDE_BY_SIDE),
        Layout(
            "separate", "one matrix a head, as in the paper",
            {
                "w_q": "w_q: h m k -> m (h k)", "w_k": "w_k: h m k -> m (h k)", "w_v": "w_v: h m v -> m (h v)",
                "w_o": "w_o: h v m -> (h v) m", "b_q": "b_q: h k -> (h k)", "b_k": "b_k: h k -> (h k)",
                "b_v": "b_v: h v -> (h v)", "b_o": "b_o: m -> m",
            },
        ),
        Layout(
            "linear", "torch.nn.Linear style, (out, in)",
            {
                **_HEADS_SIDE_BY_SIDE,
                "w_q": "w_q: (h k) m -> m (h k)", "w_k": "w_k: (h k) m -> m (h k)",
                "w_v": "w_v: (h v) m -> m (h v)", "w_o": "w_o: m (h v) -> (h v) m",
            },
        ),
        Layout(
            "torch_packed", "torch.nn.MultiheadAttention with one in_proj_weight",
            {
                "w_q": "in_proj_weight: (three h k) m -> three m (h k) [0]",
                "w_k": "in_proj_weight: (three h k) m -> three m (h k) [1]",
                "w_v": "in_proj_weight: (three h k) m -> three m (h k) [2]",
                "w_o": "out_proj.weight: m (h v) -> (h v) m",
                **_TORCH_BIASES,
            },
            same={"v": "k"},
        ),
        Layout(
            "torch_separate", "torch.nn.MultiheadAttention with kdim or vdim of its own",
            {
                "w_q": "q_proj_weight: (h k) m -> m (h k)",
                "w_k": "k_proj_weight: (h k) n -> n (h k)",
                "w_v": "v_proj_weight: (h v) p -> p (h v)",
                "w_o": "out_proj.weight: m (h v) -> (h v) m",
                **_TORCH_BIASES,
            },
            same={"v": "k"},
        ),
    )
}  # fmt: skip


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
