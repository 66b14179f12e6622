"""The part of torch's table that works entry by entry, changes the precision, or does nothing at all.

Fills `mha_sym.importers.from_torch.ops.OPERATIONS`; defines nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mha_sym.importers.assumed import without_nan
from mha_sym.importers.from_torch.cells import Cell
from mha_sym.importers.from_torch.ops import Lowering, operation

# ---------------------------------------------------------------- nothing


@operation("alias", "detach", words="nothing")
def _itself(lo: Lowering, self: Cell, *_: Any, **__: Any) -> Cell:
    return self


@operation("clone", "lift_fresh_copy", words="nothing; the copy has memory of its own")
def _clone(lo: Lowering, self: Cell, *_: Any, **__: Any) -> Cell:
    return Cell(lo.ref(self))


@operation("contiguous", words="nothing; the copy may share memory")
def _contiguous(lo: Lowering, self: Cell, *_: Any, **__: Any) -> Cell:
    return self.perhaps_shared(lo.ref(self))


@operation("dropout", "feature_dropout", words="nothing where it is off, which is noted; refused where it is active")
def _dropout(lo: Lowering, input: Cell, p: float, train: bool) -> Cell:
    if p > 0 and train:
        lo.g.refuse(
            f"dropout of {p} is active here, and the result is random", expected="a module in evaluation mode",
            hint="call .eval() on the module, or build it with dropout=0",
        )  # fmt: skip
    lo.g.note(assumed=(f"dropout is off at {lo.g.place}",))
    return input


@operation("_set_grad_enabled", words="nothing; gradients are not what is proved")
def _gradients(lo: Lowering, *_: Any) -> None:
    return None


# ---------------------------------------------------------------- precision


@operation("_enter_autocast", "_exit_autocast", words="cast; operations choose their precision, which is noted")
def _autocast(lo: Lowering, *_: Any) -> None:
    lo.g.note(casts=(f"automatic choice of precision at {lo.g.place}",))


@operation("to", words="cast")
def _to(lo: Lowering, self: Cell, *args: Any, dtype: torch.dtype | None = None, **_: Any) -> Cell:
    for one in args:
        if isinstance(one, torch.dtype):
            dtype = one
        elif isinstance(one, Cell):
            return _type_as(lo, self, one)
    made = lo.cast(self, dtype)
    return made if made is not self else self.perhaps_shared(lo.ref(self))


@operation("type_as", words="cast")
def _type_as(lo: Lowering, self: Cell, other: Cell) -> Cell:
    return Cell(lo.g.cast(lo.ref(self), lo.g.dtype(other.ref)))


# ---------------------------------------------------------------- entry by entry


def _enter(f: str, *names: str) -> None:
    """Functions of one or two arguments that the graph has under a name of its own."""

    def make(lo: Lowering, *args: Any) -> Cell:
        return lo.map(f, *args)

    operation(*names, words=f)(make)


for _f, *_names in (
    ("mul", "mul", "multiply"), ("neg", "neg", "negative"), ("exp", "exp"), ("sqrt", "sqrt"), ("log", "log"),
    ("abs", "abs", "absolute"), ("sin", "sin"), ("cos", "cos"), ("tanh", "tanh"), ("min", "minimum"),
    ("max", "maximum"), ("eq", "eq"), ("ne", "ne", "not_equal"), ("lt", "lt", "less"), ("le", "le", "less_equal"),
    ("gt", "gt", "greater"), ("ge", "ge", "greater_equal"),
):  # fmt: skip
    _enter(_f, *_names)


@operation("add", words="add")
def _add(lo: Lowering, self: Any, other: Any, alpha: Any = 1) -> Cell:
    return lo.map("add", self, other if alpha == 1 else lo.map("mul", other, alpha))


@operation("sub", "subtract", words="sub")
def _sub(lo: Lowering, self: Any, other: Any, alpha: Any = 1) -> Cell:
    return lo.map("sub", self, other if alpha == 1 else lo.map("mul", other, alpha))


@operation("rsub", words="sub")
def _rsub(lo: Lowering, self: Any, other: Any, alpha: Any = 1) -> Cell:
    return _sub(lo, other, self, alpha)


@operation("div", "divide", "true_divide", words="div")
def _div(lo: Lowering, self: Any, other: Any, rounding_mode: str | None = None) -> Cell:
    if rounding_mode is not None:
        lo.g.refuse("a division that rounds is not in the vocabulary")
    return lo.map("div", self, other)


@operation("reciprocal", words="div")
def _reciprocal(lo: Lowering, self: Cell) -> Cell:
    return lo.map("div", 1.0, self)


@operation("rsqrt", words="sqrt and div")
def _rsqrt(lo: Lowering, self: Cell) -> Cell:
    return lo.map("div", 1.0, lo.map("sqrt", self))


@operation("pow", words="pow; sqrt, mul and div for the exponents that are these")
def _pow(lo: Lowering, self: Any, exponent: Any) -> Cell:
    special: dict[Any, Callable[[], Cell]] = {
        2: lambda: lo.map("mul", self, self), 0.5: lambda: lo.map("sqrt", self),
        -0.5: lambda: _rsqrt(lo, self), -1: lambda: _reciprocal(lo, self),
    }  # fmt: skip
    known = special.get(exponent) if isinstance(exponent, int | float) else None
    return lo.map("pow", self, exponent) if known is None else known()


@operation("square", words="mul")
def _square(lo: Lowering, self: Cell) -> Cell:
    return lo.map("mul", self, self)


@operation("sigmoid", words="exp, add and div")
def _sigmoid(lo: Lowering, self: Cell) -> Cell:
    return lo.map("div", 1.0, lo.map("add", 1.0, lo.map("exp", lo.map("neg", self))))


@operation("relu", words="max")
def _relu(lo: Lowering, self: Cell) -> Cell:
    return lo.map("max", self, 0.0)


@operation("clamp", "clamp_min", words="min and max")
def _clamp(lo: Lowering, self: Cell, min: Any = None, max: Any = None) -> Cell:
    made = self if min is None else lo.map("max", self, min)
    return made if max is None else lo.map("min", made, max)


@operation("clamp_max", words="min")
def _clamp_max(lo: Lowering, self: Cell, max: Any) -> Cell:
    return lo.map("min", self, max)


@operation("nan_to_num", words="nothing, under the assumption that no entry is NaN")
def _nan_to_num(lo: Lowering, self: Cell, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Cell:
    return Cell(without_nan(lo.g, lo.ref(self), posinf, neginf))


@operation("logical_not", "bitwise_not", words="not")
def _not(lo: Lowering, self: Cell) -> Cell:
    return lo.map("not", _truth(lo, self))


@operation("logical_and", "bitwise_and", "__and__", words="and")
def _and(lo: Lowering, self: Cell, other: Any) -> Cell:
    return lo.map("and", _truth(lo, self), _truth(lo, other))


@operation("logical_or", "bitwise_or", "__or__", words="or")
def _or(lo: Lowering, self: Cell, other: Any) -> Cell:
    return lo.map("or", _truth(lo, self), _truth(lo, other))


@operation("logical_xor", "bitwise_xor", "__xor__", words="ne")
def _xor(lo: Lowering, self: Cell, other: Any) -> Cell:
    return lo.map("ne", _truth(lo, self), _truth(lo, other))


def _truth(lo: Lowering, value: Any) -> Any:
    """A truth value; bits of integers are another thing."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, Cell) or lo.g.dtype(lo.ref(value)) != "bool":
        lo.g.refuse("a logical operation is understood on truth values", hint="compare with 0 first: x != 0")
    return value


@operation("where", words="where")
def _where(lo: Lowering, condition: Cell, self: Any = None, other: Any = None) -> Cell:
    if self is None or other is None:
        lo.g.refuse("where with a condition alone depends on the entries")
    return lo.map("where", lo.cast(condition, torch.bool), self, other)


@operation("masked_fill", words="where")
def _masked_fill(lo: Lowering, self: Cell, mask: Cell, value: Any) -> Cell:
    return lo.map("where", lo.cast(mask, torch.bool), value, self)


@operation("copy", words="broadcast")
def _copy(lo: Lowering, self: Cell, src: Any, non_blocking: bool = False) -> Cell:
    return Cell(lo.g.broadcast(lo.ref(src), lo.shape(self)))


@operation("fill", words="a constant, broadcast")
def _fill(lo: Lowering, self: Cell, value: Any) -> Cell:
    return Cell(lo.g.broadcast(lo.g.cast(lo.ref(value), lo.g.dtype(self.ref)), lo.shape(self)))


@operation("zero", words="a constant, broadcast")
def _zero(lo: Lowering, self: Cell) -> Cell:
    return _fill(lo, self, 0.0)
