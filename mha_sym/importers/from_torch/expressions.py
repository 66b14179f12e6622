"""Torch's expressions of sizes, with SymPy's own functions in place of torch's.

Defines `plain`.  Torch itself is not needed: its functions are known by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy

from mha_sym.importers.sizes import quotient


def plain(expr: Any, symbols: Mapping[sympy.Symbol, sympy.Expr]) -> Any:
    """One of torch's expressions of sizes with SymPy's own functions, exact, in our symbols.

    Floats are read as the fractions that they are; what torch calls ``FloorDiv`` is the exact quotient where there is
    one, and a floor otherwise.
    """
    if expr in symbols:
        return symbols[expr]
    if not isinstance(expr, sympy.Basic) or not expr.args:
        return sympy.Rational(float(expr)) if isinstance(expr, sympy.Float) else expr
    args = [plain(one, symbols) for one in expr.args]
    meaning = _FUNCTIONS.get(type(expr).__name__)
    return expr.func(*args) if meaning is None else meaning(*args)


def _floor(value: sympy.Expr, by: sympy.Expr) -> sympy.Expr:
    whole = quotient(value, by)
    return sympy.floor(value / by) if whole is None else whole


def _ratio(value: sympy.Expr, by: sympy.Expr) -> sympy.Expr:
    return value / by


def _itself(value: sympy.Expr) -> sympy.Expr:
    return value


def _truncated(value: sympy.Expr) -> sympy.Expr:
    return value if value.is_integer else sympy.floor(value)  # sizes are positive


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "FloorDiv": _floor, "CleanDiv": _floor, "IntTrueDiv": _ratio, "FloatTrueDiv": _ratio, "ToFloat": _itself,
    "Identity": _itself, "PowByNatural": sympy.Pow, "FloatPow": sympy.Pow, "OpaqueUnaryFn_sqrt": sympy.sqrt,
    "Mod": sympy.Mod, "PythonMod": sympy.Mod, "Max": sympy.Max, "Min": sympy.Min, "TruncToInt": _truncated,
    "FloorToInt": _truncated, "TruncToFloat": _truncated, "CeilToInt": sympy.ceiling, "CeilDiv": lambda a, b:
    sympy.ceiling(a / b),
}  # fmt: skip
