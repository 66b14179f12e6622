"""An expression with parts of it replaced: at other sizes, with other expressions for inputs.

Defines `resized` (size symbols in axes, scalars and indices alike), `filled` and `rebuilt`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import sympy

from mha_sym.axes import size_symbol
from mha_sym.expr import Expr, Input

T = TypeVar("T")


def resized(value: T, sizes: Mapping[str, sympy.Expr | int]) -> T:
    """The same expression, or dataclass of expressions, with size symbols replaced all at once, by name.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> resized(Input("x", (axis("t", "T"),)), {"T": 3}).axes
        (t: 3,)
    """
    at = {size_symbol(name): sympy.sympify(size) for name, size in sizes.items()}
    return rebuilt(value, lambda one: one.subs(at, simultaneous=True) if isinstance(one, sympy.Basic) and at else None)


def filled(value: T, inputs: Mapping[str, Expr]) -> T:
    """The same expression, or dataclass of expressions, with others in place of inputs, by name.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input, Map
        >>> t = axis("t")
        >>> filled(Map("exp", (Input("x", (t,)),)), {"x": Input("y", (t,))}).args[0].name
        'y'
    """
    return rebuilt(value, lambda one: inputs.get(one.name) if isinstance(one, Input) else None)


def rebuilt(value: T, change: Callable[[Any], Any]) -> T:
    """A value with everything inside it for which ``change`` gives something replaced by that."""
    made: T = _Rebuilding(change).take(value)
    return made


class _Rebuilding:
    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change
        self.done: dict[int, tuple[Any, Any]] = {}

    def take(self, value: Any) -> Any:
        """A value with everything inside it replaced; a part that occurs twice is one object again."""
        if isinstance(value, tuple):
            return tuple(map(self.take, value))
        plain = not is_dataclass(value) or isinstance(value, type)
        if plain and not isinstance(value, sympy.Basic):
            return value
        if id(value) not in self.done:
            new = self.change(value)
            if new is None and not plain:
                parts = {one.name: self.take(getattr(value, one.name)) for one in fields(value) if one.init}
                new = type(value)(**parts)
            self.done[id(value)] = (value, value if new is None else new)  # the old one is kept so that its id stays
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
