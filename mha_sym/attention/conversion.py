"""Weights stored in one layout as weights stored in another: expressions that only move entries.

Defines `Conversion` and `conversion`, which makes one for two layouts.  The expressions are what a converter runs
(`mha_sym.checkpoint`) and what is stated and proved of it (`mha_sym.attention.conversion_theorem`).  Nothing here reads
a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import sympy

from mha_sym.attention.dims import Dims
from mha_sym.attention.inverse import joined, renamed, split, transposed, undone
from mha_sym.attention.layouts import CANONICAL, Layout
from mha_sym.attention.rows import GROUPS
from mha_sym.attention.spelled import group_order, spelled, ungrouped, with_one_input
from mha_sym.axes import axis, product
from mha_sym.errors import Problem
from mha_sym.expr import Expr, Input, Repeat, Scalar, find_axis


@dataclass(frozen=True)
class Conversion:
    """From the stored parameters of one layout to those of another, for all sizes.

    Attributes:
        source: the layout that is given, spelled as `mha_sym.attention.spelled` does.
        target: the layout that is wanted.
        d: the axes of the layer.
        biases: those that the source stores, e.g. ``"qkvo"``.
        zeros: those that only the target stores, as zeros.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> made = conversion(LAYOUTS["gpt2"], LAYOUTS["linear"], "qkvo").made
        >>> {name: value.axes for name, value in made.items() if name in ("w_q", "b_o")}
        {'w_q': ((h k): d_k*h, m: d_model), 'b_o': (m: d_model,)}
    """

    source: Layout
    target: Layout
    d: Dims
    biases: str
    zeros: str = ""

    @cached_property
    def given(self) -> dict[str, Input]:
        """The stored parameters of the source, as inputs."""
        return self.source.parameters(self.d, self.biases)

    @cached_property
    def wanted(self) -> dict[str, Input]:
        """The stored parameters of the target, as inputs."""
        return self.target.parameters(self.d, self.biases + self.zeros)

    @cached_property
    def made(self) -> dict[str, Expr]:
        """The stored parameters of the target, each as an expression of the stored parameters of the source."""
        return put(self.target, self.d, self.biases + self.zeros, self.weights(self.given))

    def weights(self, stored: Mapping[str, Expr]) -> dict[str, Expr]:
        """The canonical weights as the source has them, with heads in the order of the target, and biases of zero."""
        taken = self.source.taken(stored, self.d, self.biases).items()
        orders = group_order(self.source), group_order(self.target)
        found = {name: in_order(value, self.d, *orders) for name, value in taken.items()}
        return found | {f"b_{letter}": self._zero(f"b_{letter}") for letter in self.zeros}

    def back(self, stored: Mapping[str, Expr]) -> dict[str, Expr]:
        """The stored parameters of the source, from those of the target."""
        taken = self.target.taken(stored, self.d, self.biases).items()
        orders = group_order(self.target), group_order(self.source)
        return put(self.source, self.d, self.biases, {n: in_order(w, self.d, *orders) for n, w in taken.items()})

    def _zero(self, name: str) -> Expr:
        over = {"(h k)": self.d.hk, "(h v)": self.d.hv, "m": self.d.m}[CANONICAL[name]]
        return Repeat(Scalar(sympy.Integer(0)), (over,))


def conversion(
    source: Layout, target: Layout, biases: str, zeros: str = "", *, own_heads: bool = True
) -> Conversion:
    """The conversion between two layouts.

    Args:
        source: the layout of what is given.
        target: the layout of what is wanted.
        biases: those that are given, e.g. ``"qkv"``; the target must be able to store them.
        zeros: those that the target is to store besides, as zeros.
        own_heads: where one of the layouts has grouped heads and the other has not: whether each query head has a key
            and value head of its own.  If not, key and value heads are copied for the query heads that read them, or
            the first of the copies is taken.

    Raises:
        Problem: if the target cannot store the weights.
    """
    one, other = spelled(source), spelled(target)
    if one.grouped != other.grouped and own_heads:
        one, other = (ungrouped(layout) if layout.grouped else layout for layout in (one, other))
    one, other = with_one_input(one, other), with_one_input(other, one)
    _refuse_lost_biases(one, other, biases + zeros)
    values = {"d_v": "d_k"} if "v" in {**one.same, **other.same} else {}
    return Conversion(one, other, _with_heads(one, other).dims(**values), biases, zeros)


def _with_heads(one: Layout, other: Layout) -> Layout:
    """The layout by which heads are counted."""
    counting = [layout for layout in (one, other) if layout.grouped or layout.shards is not None]
    if len({layout.heads for layout in counting}) > 1:
        raise Problem(
            "heads are counted in groups by one layout and in shards by the other", where=f"{one.name} to {other.name}",
            hint="go by way of linear",
        )
    return counting[0] if counting else other


def _refuse_lost_biases(source: Layout, target: Layout, biases: str) -> None:
    lost = [f"b_{letter}" for letter in biases if f"b_{letter}" not in target.rows]
    if lost:
        raise Problem(
            f"layout {target.name} stores no {', '.join(lost)}", where=f"{source.name} to {target.name}",
            hint="without them the layer is another one",
        )
    for name in target.stored(biases):
        absent = [row for row in target.rows if target.row(row).stored == name and row not in target.targets(biases)]
        if absent:
            raise Problem(
                f"layout {target.name} stores {', '.join(absent)} with others in {name}, and there is none",
                where=f"{source.name} to {target.name}", hint="zeros can be stored in its place",
            )


def put(layout: Layout, d: Dims, biases: str, weights: Mapping[str, Expr]) -> dict[str, Expr]:
    """What a layout stores, from canonical weights; of copied heads it takes the first."""
    reading = layout.weights(d, biases).items()
    together: dict[str, list[str]] = {}
    for target in layout.targets(biases):
        together.setdefault(layout.row(target).stored, []).append(target)
    return {
        name: undone([reading[one] for one in targets], [weights[one] for one in targets])
        for name, targets in together.items()
    }


def in_order(value: Expr, d: Dims, before: str, after: str) -> Expr:
    """Query heads that go round the key and value heads in one order, put into another."""
    whole = next((one for one in value.axes if one.factors and one.factors[0] == d.h), None)
    if whole is None or not (before and after) or before == after:
        return value
    pair = [product(*(axis(letter, GROUPS[letter]) for letter in order.split())) for order in (before, after)]
    value = split(renamed(split(value, whole), d.h, pair[0]), pair[0])
    place = value.axes.index(pair[0].factors[0])
    order = (*value.axes[:place], *pair[1].factors, *value.axes[place + 2 :])
    value = renamed(joined(transposed(value, order), pair[1].factors), pair[1], d.h)
    return joined(value, (d.h, find_axis(value, whole.factors[1].name, "heads")))
