"""Real balls: numbers for exact evaluation that are known to hold the true value.

Defines `Balls`, elements for `mha_sym.evaluate(..., exact=...)`, `REAL`, functions by name, and `surely_different`.
A ball (python-flint's ``arb``) is a midpoint with a radius; two values are certainly different when their balls do not
meet.  No floating-point tolerance occurs here.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from flint import arb, ctx, fmpq


class Balls:
    """Real balls of some bits of precision.

    Example:
        >>> Balls().exp(Balls().number(sympy.Integer(0))) == 1
        True
    """

    def __init__(self, bits: int = 128) -> None:
        ctx.prec = bits
        self.zero = arb(0)
        self.one = arb(1)

    def exp(self, x: Any) -> Any:
        """The exponential."""
        return x.exp()

    def inverse(self, x: Any) -> Any:
        """``1/x``; not a number if the ball holds zero."""
        return 1 / x

    def number(self, value: sympy.Expr) -> Any:
        """A number of SymPy made of rationals, their rational powers, and cosines and sines."""
        if value.is_Rational:
            return arb(fmpq(int(value.p), int(value.q)))
        if value.is_Mul or value.is_Add:
            total = self.number(value.args[0])
            for arg in value.args[1:]:
                total = total * self.number(arg) if value.is_Mul else total + self.number(arg)
            return total
        if value.is_Pow and value.exp.is_Rational:
            return self.number(value.base) ** self.number(value.exp)
        if isinstance(value, sympy.cos | sympy.sin):
            angle = self.number(value.args[0])
            return angle.cos() if isinstance(value, sympy.cos) else angle.sin()
        raise ValueError(f"{value} is not made of rationals, roots, cosines and sines")

    def maximum(self, x: Any, y: Any) -> Any:
        """A ball that holds the larger one."""
        return x.max(y)

    def ball(self, value: Fraction) -> Any:
        """A rational as a ball."""
        return arb(fmpq(value.numerator, value.denominator))

    def function(self, name: str) -> Callable[..., Any]:
        """A function of `REAL` on arrays of balls; not a number where it has no value.

        Example:
            >>> Balls().function("abs")(np.array([arb(-2)], object)).tolist() == [2]
            True
        """
        made: Callable[..., Any] = np.frompyfunc(_MAPS[name], 1, 1)
        return made


#: functions of a real number that are what they are called, in floating point
REAL: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "tanh": np.tanh, "sqrt": np.sqrt, "log": np.log, "sin": np.sin, "cos": np.cos,
}  # fmt: skip
_MAPS: dict[str, Callable[[Any], Any]] = {name: getattr(arb, name, abs) for name in REAL}


def surely_different(left: Any, right: Any) -> bool:
    """Whether two balls, both finite, do not meet.

    Example:
        >>> surely_different(arb(1), arb(2)), surely_different(arb(1), arb(1))
        (True, False)
    """
    return bool(left.is_finite() and right.is_finite() and not left.overlaps(right))
