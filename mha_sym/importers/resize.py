"""An expression at other sizes: every size symbol replaced, in axes, scalars and indices alike.

Defines `resized`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import sympy

from mha_sym.axes import size_symbol
from mha_sym.expr import Expr

T = TypeVar("T")


def resized(value: T, sizes: Mapping[str, sympy.Expr | int]) -> T:
    """The same expression, or dataclass of expressions, with size symbols replaced all at once, by name.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> resized(Input("x", (axis("t", "T"),)), {"T": 3}).axes
        (t: 3,)
    """
    made: T = _Resizer({size_symbol(name): sympy.sympify(size) for name, size in sizes.items()}).take(value)
    return made


class _Resizer:
    def __init__(self, sizes: Mapping[sympy.Symbol, sympy.Expr]) -> None:
        self.sizes = sizes
        self.done: dict[int, tuple[Any, Any]] = {}

    def take(self, value: Any) -> Any:
        """A value with everything inside it replaced; a part that occurs twice is one object again."""
        if isinstance(value, sympy.Basic):
            return value.subs(self.sizes, simultaneous=True) if self.sizes else value
        if isinstance(value, tuple):
            return tuple(map(self.take, value))
        if not is_dataclass(value) or isinstance(value, type):
            return value
        if id(value) not in self.done:
            parts = {one.name: self.take(getattr(value, one.name)) for one in fields(value) if one.init}
            self.done[id(value)] = (value, type(value)(**parts))  # the old one is kept so that its id stays its own
        return self.done[id(value)][1]


def size_names(expr: Expr) -> frozenset[str]:
    """The size symbols of the axes of an expression.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> sorted(size_names(Input("x", (axis("t", "T"), axis("m", 4)))))
        ['T']
    """
    return frozenset(symbol.name for one in expr.axes for symbol in one.size.free_symbols)
