"""Sizes of imported code: exact arithmetic on polynomials of symbols that are at least one.

Defines `as_size`, `same`, `nonnegative` and `quotient`.  What cannot be decided is never guessed: the callers refuse it
or record it as a condition.
"""

from __future__ import annotations

from collections.abc import Iterable

import sympy

from mha_sym.errors import Problem

Size = sympy.Expr


def as_size(value: int | sympy.Expr) -> sympy.Expr:
    """A size as a SymPy expression.

    Example:
        >>> as_size(3) + 1
        4
    """
    if isinstance(value, bool) or not isinstance(value, int | sympy.Expr):
        raise Problem(f"{value!r} is not a size", expected="an integer or an expression of sizes")
    return sympy.Integer(value) if isinstance(value, int) else value


def total(sizes: Iterable[sympy.Expr]) -> sympy.Expr:
    """The number of entries of an array of these sizes."""
    return sympy.expand(sympy.Mul(*sizes))


def same(left: sympy.Expr, right: sympy.Expr) -> bool:
    """Whether two sizes are equal whatever the symbols are: their polynomials are one.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> h, k = size_symbol("h"), size_symbol("d_k")
        >>> same(h * (k + 1), h * k + h), same(h, k)
        (True, False)
    """
    return bool(left == right or sympy.expand(left - right) == 0)


def nonnegative(value: sympy.Expr) -> bool:
    """Whether a polynomial of sizes is at least zero for all sizes, as far as its coefficients tell.

    Every size is one more than a number that is at least zero; if no coefficient is negative then, it is.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> n = size_symbol("n")
        >>> nonnegative(3 * n - 3), nonnegative(n - 2)
        (True, False)
    """
    symbols = sorted(value.free_symbols, key=str)
    shifted = sympy.expand(value.subs({one: one + 1 for one in symbols}, simultaneous=True))
    if not symbols:
        return bool(shifted >= 0)
    try:
        return all(bool(c >= 0) for c in sympy.Poly(shifted, *symbols).coeffs())
    except sympy.PolynomialError:
        return False


def quotient(value: sympy.Expr, by: sympy.Expr) -> sympy.Expr | None:
    """The exact quotient of two sizes, None if it does not divide whatever the symbols are.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> h, k = size_symbol("h"), size_symbol("d_k")
        >>> quotient(3 * h * k, h * k), quotient(h, k)
        (3, None)
    """
    if by == 0:
        return None
    found = sympy.cancel(value / by)
    symbols = sorted(value.free_symbols | by.free_symbols, key=str)
    if not symbols:
        return found if found.is_Integer else None
    if not found.is_polynomial(*symbols):
        return None
    whole = all(c.is_Integer for c in sympy.Poly(found, *symbols).coeffs())
    return sympy.expand(found) if whole else None
