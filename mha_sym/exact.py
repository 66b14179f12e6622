"""Evaluation in exact arithmetic: elements of any commutative ring in NumPy object arrays.

Defines the protocol `Elements`, its example `Rationals`, and `exact_backend`.  A softmax is literally
``exp(x) / sum exp(x)`` here, without the shift by the maximum that floating point needs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import sympy

from mha_sym.backends import Array, Backend, SoftmaxResult
from mha_sym.errors import DataProblem, NotExact, NoValue


class Elements(Protocol):
    """Exact arithmetic: elements with ``+``, ``*`` and unary ``-``, and what else a layer needs of them.

    An optional method ``maximum(x, y)`` allows `Reduce` with ``max``.
    """

    @property
    def zero(self) -> Any:
        """The neutral element of addition."""

    @property
    def one(self) -> Any:
        """The neutral element of multiplication."""

    def exp(self, x: Any) -> Any:
        """The exponential of ``x``."""

    def inverse(self, x: Any) -> Any:
        """``1/x``."""

    def number(self, value: sympy.Expr) -> Any:
        """The element of a number: sums and products of rationals and their roots, such as ``sqrt(2)/2``."""


class Rationals:
    """Fractions as exact elements; only exp(0) and roots that come out even are among them.

    Example:
        >>> exact_backend(Rationals()).number(sympy.sqrt(sympy.Rational(9, 4)))
        array(Fraction(3, 2), dtype=object)
    """

    zero, one = Fraction(0), Fraction(1)

    def exp(self, x: Fraction) -> Fraction:
        """1 at 0, and no fraction elsewhere."""
        if x != 0:
            raise NotExact("an exponential of a fraction is not a fraction", where=f"exp({x})",
                           hint="compute in floating point, or give elements that have it")
        return self.one

    def inverse(self, x: Fraction) -> Fraction:
        """``1/x``."""
        if x == 0:
            raise NoValue("the inverse of 0 is asked for", where="exact elements")
        return 1 / x

    def number(self, value: sympy.Expr) -> Fraction:
        """A rational number of SymPy."""
        if not value.is_Rational:
            raise NotExact("a scalar is not a fraction", got=str(value),
                           hint="choose sizes whose roots come out even, such as d_k = 4")
        return Fraction(int(value.p), int(value.q))

    def maximum(self, x: Fraction, y: Fraction) -> Fraction:
        """The larger."""
        return max(x, y)


class _Exact(Backend):
    """NumPy object arrays whose elements are exact; softmax is literally ``exp(x) / sum exp(x)``."""

    name = "exact elements"
    exact = True

    def __init__(self, elements: Elements) -> None:
        super().__init__(np.dtype(object))
        self.elements = elements
        self._exp = np.frompyfunc(elements.exp, 1, 1)
        self._inverse = np.frompyfunc(elements.inverse, 1, 1)

    def wrap(self, x: Any) -> Array:
        if isinstance(x, np.ndarray):
            return x
        box = np.empty((), object)
        box[()] = x
        return box

    def number(self, value: sympy.Expr) -> Array:
        return self.wrap(self.elements.number(value))

    def constant(self, values: np.ndarray[Any, Any]) -> Array:
        known = {0: self.elements.zero, 1: self.elements.one}

        def element(value: Any) -> Any:
            return known[value] if value in known else self.elements.number(sympy.Rational(value))

        return self.wrap(np.frompyfunc(element, 1, 1)(values))

    def truth(self, x: Array) -> Array:
        return x != self.wrap(self.elements.zero)

    def exp(self, x: Array, into: bool = False) -> Array:
        return self._exp(x)

    def inv(self, x: Array, into: bool = False) -> Array:
        return self._inverse(x)

    def largest(self, x: Array, dims: tuple[int, ...]) -> Array:
        maximum = getattr(self.elements, "maximum", None)
        if maximum is None:
            raise DataProblem(
                "these exact elements have no order", where="max", hint="give the elements a method maximum(x, y)"
            )
        step = np.frompyfunc(maximum, 2, 1)
        for dim in sorted(dims, reverse=True):
            x = step.reduce(x, axis=dim)
        return x

    def softmax(self, x: Array, dims: tuple[int, ...], keep: Array | None, into: bool = False) -> SoftmaxResult:
        e = self.wrap(self.exp(x))
        rows = tuple(1 if n in dims else size for n, size in enumerate(x.shape))
        dead = np.zeros(rows, bool)
        if keep is not None:
            e = np.where(keep, e, self.wrap(self.elements.zero))
            dead = np.broadcast_to(~keep.any(axis=dims, keepdims=True), rows)
        below = np.where(dead, self.wrap(self.elements.one), self.wrap(e.sum(axis=dims, keepdims=True)))
        return SoftmaxResult(e * self._inverse(below), dead, np.zeros(rows, bool))


def exact_backend(elements: Elements) -> Backend:
    """The backend of NumPy object arrays of such elements."""
    return _Exact(elements)
