"""What was written, read back and compared with what was given: weight by weight, head by head, bit for bit.

Defines `compare_layer` and `Differs`.  The weights are read by the layouts of the table, not by the expressions that
were run to convert them, and heads are put in order by NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mha_sym.attention.layouts import CANONICAL, Layout
from mha_sym.attention.spelled import group_order
from mha_sym.checkpoint.files import TensorFile
from mha_sym.checkpoint.move import moved
from mha_sym.checkpoint.plan import Planned, Wish
from mha_sym.checkpoint.tensor import Array, Tensor
from mha_sym.errors import DataProblem
from mha_sym.expr import Expr, inputs


class Differs(Exception):
    """What was written is not what was given: a fault of mha_sym, or of the disk."""


def compare_layer(plan: Planned, wish: Wish, given: TensorFile, made: TensorFile) -> int:
    """Compare a layer in two files; the number of weights and biases that were compared.

    Raises:
        DataProblem: if heads that were to become one differ.
        Differs: if anything else does.
    """
    biases = plan.conversion.biases
    one = _Reading(wish.source, plan.given, biases, given, plan.sizes)
    other = _Reading(wish.target, plan.wanted, biases + plan.conversion.zeros, made, plan.sizes)
    for target in wish.source.targets(biases):
        if not np.array_equal(other.heads(target, _order(wish, plan.sizes)), one.heads(target)):
            raise _unlike(target, plan, one, other)
    for letter in plan.conversion.zeros:
        if other.heads(f"b_{letter}").any():
            raise Differs(f"b_{letter} of {plan.layer.prefix} is not zero")
    _compare_back(plan, given, made)
    return len(wish.target.targets(biases + plan.conversion.zeros))


class _Reading:
    """The canonical weights of a layer in a file, as its layout reads them."""

    def __init__(
        self, layout: Layout, tensors: Mapping[str, Tensor], biases: str, file: TensorFile, sizes: Mapping[str, int]
    ) -> None:
        self.tensors, self.file, self.sizes = tensors, file, sizes
        self.weights = layout.weights(layout.dims(), biases).items()
        if layout.grouped and sizes["h"] != sizes["G"] * sizes["R"]:
            raise Differs(f"layout {layout.name} at {sizes}")  # they are made to agree

    def heads(self, target: str, order: list[int] | None = None) -> Array:
        """A weight with an axis of its own for the heads, first, in an order if one is given."""
        value = read(self.weights[target], self.tensors, self.file, self.sizes)
        if target == "b_o":
            return value
        place = CANONICAL[target].replace(" (", "(").find("(h") and 1  # (h k) stands first or second
        shape = (*value.shape[:place], self.sizes["h"], -1, *value.shape[place + 1 :])
        parted = np.moveaxis(value.reshape(shape), place, 0)
        return parted if order is None else parted[order]


def read(expr: Expr, tensors: Mapping[str, Tensor], file: TensorFile, sizes: Mapping[str, int]) -> Array:
    """The value of an expression of stored parameters, read from a file."""
    arrays = {one.name: file.read(tensors[one.name].name) for one in inputs(expr)}
    return moved(expr, arrays, sizes, next(iter(arrays.values())).dtype)


def _order(wish: Wish, sizes: Mapping[str, int]) -> list[int] | None:
    """Where the source's head 0, 1, ... stands in the target, if groups go round their heads in another way."""
    orders = group_order(wish.source), group_order(wish.target)
    if not all(orders) or orders[0] == orders[1]:
        return None
    numbers = np.arange(sizes["h"])
    shape = [sizes["G"], sizes["R"]] if orders[1] == "g r" else [sizes["R"], sizes["G"]]
    return [int(n) for n in numbers.reshape(shape).T.reshape(-1)]


def _unlike(target: str, plan: Planned, one: _Reading, other: _Reading) -> Exception:
    """What to say of a weight that differs."""
    if plan.copies == 1 or plan.conversion.source.grouped:
        return Differs(f"{target} of {plan.layer.prefix} was not written as it was given")
    left, right = one.heads(target), other.heads(target)
    head = next(n for n in range(len(left)) if not np.array_equal(left[n], right[n]))
    first = head // plan.copies * plan.copies
    return DataProblem(
        f"head {head} of {target} is not head {first}, so they are not one key and value head",
        where=f"layer {plan.layer.prefix}", expected=f"heads that are alike bit for bit, {plan.copies} at a time",
        hint="to make one head of unlike ones is another model, which would have to be trained",
    )


def _compare_back(plan: Planned, given: TensorFile, made: TensorFile) -> None:
    """What was given, made again from what was written."""
    for name, expr in plan.conversion.back(plan.conversion.wanted).items():
        if not np.array_equal(read(expr, plan.wanted, made, plan.sizes), given.read(plan.given[name].name)):
            raise Differs(f"{plan.given[name].name} does not come back from what was written")
