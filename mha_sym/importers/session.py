"""One run of a user's Python code on sizes without values: what its decisions and leaks mean for the proof.

Defines `Session`, which keeps the graph that is being built and what the code asked of its sizes, `Dim`, a size that
behaves like a number, and `Leak`, raised where code wants the value of a size.  A decision that does not follow for all
sizes is taken as at the sizes of `HINTS` and recorded as a condition of the proof.
"""

from __future__ import annotations

import linecache
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import sympy

from mha_sym.importers.builder import Builder
from mha_sym.importers.graph import Place
from mha_sym.importers.sizes import nonnegative, quotient, same

#: values that decide a question about sizes, pairwise distinct and none of them 1
HINTS: dict[str, int] = {
    "B": 3, "T": 11, "S": 13, "d_model": 34, "d_key": 35, "d_value": 37, "h": 5, "G": 2, "R": 3, "d_k": 8, "d_v": 7,
    "d_pairs": 4, "d_rest": 6,
}  # fmt: skip

_PACKAGE = str(Path(__file__).resolve().parents[1])
#: so many of the user's lines, one called from the other, are kept
_LINES = 5
#: parts of paths that are not the user's code
_NOT_THEIRS = ("/numpy/", "/einops/", "/mha_sym/importers/", "/functools.py", "<__array_function__", "<frozen")


class Leak(Exception):
    """Code needs the value of a size: a loop over it, an index, a conversion."""

    def __init__(self, symbols: frozenset[sympy.Symbol], place: Place) -> None:
        super().__init__(", ".join(sorted(map(str, symbols))))
        self.symbols = symbols
        self.place = place


@dataclass
class Session:
    """The graph under construction, and what the code asked of sizes.

    Attributes:
        builder: makes the graph.
        leaks: every leak there was, also those that the user's code caught.
    """

    builder: Builder = field(default_factory=Builder)
    leaks: list[Leak] = field(default_factory=list)
    hints: Mapping[str, int] = field(default_factory=lambda: HINTS)
    #: arrays with values that stand for any values: the weights that an object owns, and the inputs for them
    owned: list[tuple[Any, int]] = field(default_factory=list)

    def here(self) -> Builder:
        """The builder, its place set to the user's line that is being run."""
        self.builder.place = _user_place(sys._getframe(1))
        return self.builder

    def dim(self, value: sympy.Expr | int) -> Any:
        """A size as code sees it: an int if it is one."""
        number = sympy.Integer(value) if isinstance(value, int) else value
        return int(number) if number.is_Integer else Dim(number, self)

    def leak(self, value: sympy.Expr) -> NoReturn:
        """Say that the code needs the value of a size."""
        leak = Leak(frozenset(value.free_symbols), _user_place(sys._getframe(1)))
        self.leaks.append(leak)
        raise leak

    def decide(self, relation: Any) -> bool:
        """Whether a relation of sizes holds: for all of them, for none, or as at the hints, which is recorded."""
        known = _follows(relation)
        if known is not None:
            return known
        values = {s: self._hint(s) for s in relation.free_symbols}
        holds = bool(relation.subs(values))
        self.here().condition(relation if holds else sympy.Not(relation))
        return holds

    def _hint(self, symbol: sympy.Symbol) -> int:
        return self.hints.get(symbol.name, 4 + sum(map(ord, symbol.name)) % 50)


def _follows(relation: Any) -> bool | None:
    """Whether a relation holds for all sizes (True), for none (False), or for some."""
    if relation in (True, False, sympy.true, sympy.false):
        return bool(relation)
    gap = sympy.expand(relation.lhs - relation.rhs)
    above, below = nonnegative(gap - 1), nonnegative(-gap - 1)
    if isinstance(relation, sympy.Eq | sympy.Ne):
        equal = True if same(gap, sympy.Integer(0)) else False if above or below else None
        return equal if equal is None or isinstance(relation, sympy.Eq) else not equal
    if isinstance(relation, sympy.Lt | sympy.Ge):
        less = True if below else False if nonnegative(gap) else None
        return less if less is None or isinstance(relation, sympy.Lt) else not less
    more = True if above else False if nonnegative(-gap) else None
    return more if more is None or isinstance(relation, sympy.Gt) else not more


def _user_place(frame: FrameType | None) -> Place:
    """The innermost line that is neither ours nor a library's, and those from which it was called."""
    found: list[Place] = []
    while frame is not None and len(found) < _LINES:
        name = frame.f_code.co_filename
        if not any(part in name.replace("\\", "/") for part in _NOT_THEIRS):
            if found and name.startswith(_PACKAGE):
                break
            one = Place(name, frame.f_lineno, linecache.getline(name, frame.f_lineno).strip())
            found += [] if one in found[-1:] else [one]  # a generator is called from its own line
        frame = frame.f_back
    return replace(found[0], callers=tuple(found[1:])) if found else Place()


def exact(value: Any) -> sympy.Expr | None:
    """A number of Python, NumPy or this module as SymPy has it; a float that is no short fraction stays a float."""
    if isinstance(value, Dim):
        return value.expr
    if isinstance(value, np.generic | np.ndarray) and value.shape == ():
        value = value.item()
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return sympy.Integer(value)
    if isinstance(value, Fraction):
        return sympy.Rational(value.numerator, value.denominator)
    if isinstance(value, float):
        if math.isinf(value) or math.isnan(value):
            return {math.inf: sympy.oo, -math.inf: -sympy.oo}.get(value, sympy.nan)
        short = Fraction(value)
        plain = short.denominator <= 1 << 12
        return sympy.Rational(short.numerator, short.denominator) if plain else sympy.Float(value, 17)
    return None


class Dim:
    """A size, or a number made of sizes, without a value.  It counts, divides and compares like a number."""

    __slots__ = ("expr", "session")
    __hash__ = None  # type: ignore[assignment]  # nothing may be remembered under a size

    def __init__(self, expr: sympy.Expr, session: Session) -> None:
        self.expr = expr
        self.session = session

    def __repr__(self) -> str:
        return str(self.expr)

    def _with(self, other: Any, op: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        number = exact(other)
        if number is None:
            return NotImplemented
        return self.session.dim(op(number, self.expr) if swapped else op(self.expr, number))

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: sympy.expand(a + b))

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: sympy.expand(a - b))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: sympy.expand(a - b), swapped=True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, list | tuple):
            self.session.leak(self.expr)
        return self._with(other, lambda a, b: sympy.expand(a * b))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a / b, swapped=True)

    def __pow__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a**b)

    def __rpow__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a**b, swapped=True)

    def __neg__(self) -> Any:
        return self.session.dim(-self.expr)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, self._divided)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, self._divided, swapped=True)

    def _divided(self, one: sympy.Expr, by: sympy.Expr) -> sympy.Expr:
        found = quotient(one, by)
        if found is None:
            self.session.here().refuse(
                f"{one} does not divide by {by} for all sizes", expected="a product of sizes divided by one of them",
                hint="if the model width is the number of heads times their width, say tied=('d_v', 'd_model')",
            )  # fmt: skip
        return found

    def __mod__(self, other: Any) -> Any:
        return self._with(other, self._remainder)

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, self._remainder, swapped=True)

    def _remainder(self, one: sympy.Expr, by: sympy.Expr) -> sympy.Expr:
        if quotient(one, by) is None:
            self._divided(one, by)
        return sympy.Integer(0)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def _compared(self, other: Any, relation: Any) -> Any:
        number = exact(other)
        return NotImplemented if number is None else self.session.decide(relation(self.expr, number))

    def __eq__(self, other: object) -> Any:
        return self._compared(other, sympy.Eq)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, sympy.Ne)

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, sympy.Lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, sympy.Le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, sympy.Gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, sympy.Ge)

    def __bool__(self) -> bool:
        return self.session.decide(sympy.Ne(self.expr, 0))

    def __index__(self) -> int:
        self.session.leak(self.expr)

    def __int__(self) -> int:
        self.session.leak(self.expr)

    def __float__(self) -> float:
        self.session.leak(self.expr)

    def __round__(self, digits: int | None = None) -> int:
        self.session.leak(self.expr)

    def sqrt(self) -> Any:
        """The square root, exactly."""
        return self.session.dim(sympy.sqrt(self.expr))

    def astype(self, dtype: Any) -> Any:
        """The same number: precision is nothing over the reals."""
        self.session.here().note(casts=(f"to {dtype} at {self.session.builder.place}",))
        return self

    def item(self) -> Any:
        """The same number."""
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        from mha_sym.importers.from_numpy.array import apply_ufunc  # which itself needs sizes

        return apply_ufunc(self.session, ufunc, method, inputs, options)
