"""Tracing a function with JAX while sizes are symbols, and what its decisions on sizes mean for the proof.

Defines `Trace` and `trace`.  JAX answers ``T == 1`` with False for a symbolic size and says nothing; here every
question that the code asks and that does not follow for all sizes is answered as at the hints, and kept as a `Branch`.
Importing this file imports JAX.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeAlias
from unittest import mock

import jax
import numpy as np
import sympy
from jax import export

from mha_sym.errors import Problem
from mha_sym.importers.from_jax.places import is_jax
from mha_sym.importers.graph import ImportProblem, Place, Role
from mha_sym.importers.session import Leak
from mha_sym.importers.size_text import read_size

Sizes: TypeAlias = Mapping[sympy.Symbol, int]

_RELATIONS: dict[str, tuple[Callable[[Any, Any], bool], Any]] = {
    "__eq__": (operator.eq, sympy.Eq), "__ne__": (operator.ne, sympy.Ne), "__lt__": (operator.lt, sympy.Lt),
    "__le__": (operator.le, sympy.Le), "__gt__": (operator.gt, sympy.Gt), "__ge__": (operator.ge, sympy.Ge),
}  # fmt: skip
#: arithmetic whose result need not be a size
_REAL: dict[str, Callable[[Any, Any], Any]] = {
    "__pow__": lambda one, other: jax.numpy.power(one * 1.0, other),
    "__truediv__": operator.truediv, "__rtruediv__": lambda one, other: other / one,
}  # fmt: skip
#: what Python asks for where code wants a number
_VALUES = ("__int__", "__index__", "__float__")


@dataclass(frozen=True)
class Branch:
    """A question on sizes that the code asked, as the relation that was taken to hold, and where."""

    relation: Any
    place: Place


@dataclass(frozen=True)
class Trace:
    """What ran.

    Attributes:
        jaxpr: the closed jaxpr.
        branches: decisions that do not follow for all sizes.
        outputs: names of what is returned.
        inputs: names of the arguments of the jaxpr, in order.
    """

    jaxpr: Any
    branches: tuple[Branch, ...]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Spec:
    """An array of which only shape and dtype are known: an input of the code, a weight, or a table of any values."""

    shape: tuple[sympy.Expr | int, ...]
    dtype: str = "float64"
    role: Role = "user"


#: code under trace: takes arrays by name, and a function that gives a size as JAX has it
Code: TypeAlias = Callable[[Mapping[str, Any], Callable[[Any], Any]], Any]


def trace(code: Code, specs: Mapping[str, Spec], hints: Sizes, taken: Sequence[Any] = ()) -> Trace:
    """The jaxpr of code, in double precision.

    Args:
        code: what runs.
        specs: the arrays that it is given.
        hints: a value for every symbol, which decides questions on sizes.
        taken: relations of sizes that JAX is to take for granted.

    Raises:
        Leak: if the code needs the value of a size.
        JAXTypeError: if it needs entries, also where it catches that: with entries it goes another way.
    """
    scope = _Scope(hints, taken)
    with jax.enable_x64(True), scope.listening(), _kept() as refused:
        given = {name: scope.struct(one) for name, one in specs.items()}
        jaxpr, result = jax.make_jaxpr(lambda arrays: code(arrays, scope.size), return_shape=True)(given)
    for problem in refused:
        raise problem
    return Trace(jaxpr, tuple(scope.branches), output_names(result), tuple(sorted(specs)))


@contextlib.contextmanager
def _kept() -> Iterator[list[Exception]]:
    """Every complaint of JAX's about a value that an array under trace has not."""
    kept: list[Exception] = []
    original = jax.errors.JAXTypeError.__init__

    def made(one: jax.errors.JAXTypeError, *args: Any) -> None:
        original(one, *args)
        kept.append(one)

    with mock.patch.object(jax.errors.JAXTypeError, "__init__", made):
        yield kept


def output_names(result: Any) -> tuple[str, ...]:
    """Names for the arrays that are returned: the keys of a dict, or ``y``, ``y1``, ``y2``, ..."""
    if isinstance(result, Mapping):
        return tuple(path_name(path) for path, _ in jax.tree_util.tree_flatten_with_path(result)[0])
    return tuple(f"y{n}" if n else "y" for n in range(len(jax.tree.leaves(result))))


def path_name(path: Sequence[Any]) -> str:
    """A path in a pytree with dots: ``params.query.kernel``."""
    keys = [getattr(one, "key", getattr(one, "name", getattr(one, "idx", one))) for one in path]
    return ".".join(map(str, keys))


@functools.cache
def _quick() -> dict[str, bool | int] | None:
    """Options with which XLA compiles in a quarter of the time, None where it does not know them."""
    options: dict[str, bool | int] = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda x: x, compiler_options=options)(1.0)
    except jax.errors.JaxRuntimeError:
        return None
    return options


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays, compiled as a whole and in haste: it is run once at each of several sizes."""
    made: Callable[..., Any] = jax.jit(function, compiler_options=_quick())
    return made


class _Scope:
    """The symbols of one trace as JAX has them, and what was asked of them."""

    def __init__(self, hints: Sizes, taken: Sequence[Any]) -> None:
        self.hints = hints
        self.branches: list[Branch] = []
        names = ", ".join(sorted(one.name for one in hints))
        dims = export.symbolic_shape(names, constraints=[_constraint(one) for one in taken]) if names else ()
        self.dims = {str(dim): dim for dim in dims}

    def size(self, value: sympy.Expr | int) -> Any:
        """A size as JAX has it."""
        whole = sympy.sympify(value)
        if whole.is_Integer:
            return int(whole)
        symbols = sorted(whole.free_symbols, key=str)
        result: Any = 0
        for powers, factor in sympy.Poly(whole, *symbols).terms():
            term: Any = int(factor)
            for symbol, power in zip(symbols, powers, strict=True):
                for _ in range(power):
                    term = term * self.dims[symbol.name]
            result = result + term
        return result

    def shape(self, sizes: Sequence[sympy.Expr | int]) -> tuple[Any, ...]:
        """A shape as JAX has it."""
        return tuple(map(self.size, sizes))

    def struct(self, spec: Spec) -> Any:
        """A placeholder of these sizes."""
        placeholder: Any = jax.ShapeDtypeStruct
        return placeholder(self.shape(spec.shape), np.dtype(spec.dtype))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, questions that code outside of JAX asks of sizes are recorded."""
        def roots(one: Any) -> Any:
            return jax.numpy.sqrt(jax.numpy.asarray(one))

        if not self.dims:  # no size is a symbol, and nothing is asked of one
            yield
            return
        kind: Any = type(next(iter(self.dims.values())))
        ours = {
            **{name: self._asked(getattr(kind, name), *_RELATIONS[name]) for name in _RELATIONS},
            **{name: self._value(vars(kind).get(name)) for name in _VALUES},
            **{name: _real(getattr(kind, name), _REAL[name]) for name in _REAL},
            "sqrt": roots,  # NumPy asks objects for it
        }
        saved = {name: vars(kind).get(name) for name in ours}
        square_root = math.sqrt
        try:
            for name, special in ours.items():
                setattr(kind, name, special)
            math.sqrt = lambda one: roots(one) if isinstance(one, kind) else square_root(one)
            yield
        finally:
            math.sqrt = square_root
            for name, original in saved.items():
                if original is None:
                    delattr(kind, name)
                else:
                    setattr(kind, name, original)

    def _value(self, original: Any) -> Any:
        def wanted(one: Any) -> Any:
            frame = sys._getframe(1)
            if not is_jax(frame.f_code.co_filename):
                raise Leak(frozenset(read_size(str(one)).free_symbols), _line(frame))
            if original is None:
                raise TypeError(f"the size {one} has no value")
            return original(one)

        return wanted

    def _asked(self, original: Any, python: Callable[[Any, Any], bool], relation: Any) -> Any:
        def asked(one: Any, other: Any) -> Any:
            frame = sys._getframe(1)
            number = export.is_symbolic_dim(other) or (isinstance(other, int) and not isinstance(other, bool))
            # A size of another trace comes out of JAX's caches, which compare from the line that called JAX.
            foreign = getattr(other, "scope", one.scope) is not one.scope
            if is_jax(frame.f_code.co_filename) or not number or foreign:
                return original(one, other)
            left, right = read_size(str(one)), read_size(str(other))
            return self._decided(original, one, other, relation(left, right), python, frame)

        return asked

    def _decided(
        self, original: Any, one: Any, other: Any, relation: Any, python: Callable[[Any, Any], bool], frame: FrameType
    ) -> bool:
        if relation in (sympy.true, sympy.false):
            return bool(relation)
        if not isinstance(relation, sympy.Eq | sympy.Ne):
            with contextlib.suppress(jax.errors.InconclusiveDimensionOperation):
                return bool(original(one, other))
        held = bool(python(*(side.subs(self.hints) for side in (relation.lhs, relation.rhs))))
        taken = relation if held else sympy.Not(relation)
        self.branches.append(Branch(taken, _line(frame)))
        return held


def _real(original: Any, otherwise: Callable[[Any, Any], Any]) -> Any:
    """Arithmetic on sizes whose result is no size: JAX refuses it, as an array it is exact."""

    def computed(one: Any, other: Any) -> Any:
        try:
            return original(one, other)
        except (TypeError, ValueError, jax.errors.InconclusiveDimensionOperation):
            return otherwise(jax.numpy.asarray(one), other)

    return computed


def _line(frame: FrameType) -> Place:
    name, line = frame.f_code.co_filename, frame.f_lineno
    return Place(name, line, linecache.getline(name, line).strip())


_LEAST = re.compile(r"\b(min|max)\(([^(),]*), ([^(),]*)\)")
_ASKED = re.compile(r"comparison '([^']*)' ([<>]=?) '([^']*)' is inconclusive")


def undecided(text: str, hints: Sizes) -> Any:
    """The relation on which a size that JAX prints depends, as it holds at the hints; None where there is none.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> undecided("an axis of size min(T, 64)", {size_symbol("T"): 11})
        T <= 64
    """
    for pattern, places in ((_LEAST, (2, 3)), (_ASKED, (1, 3))):
        found = pattern.search(text)
        with contextlib.suppress(Problem):
            if found is not None:
                one, other = (read_size(found[n]) for n in places)
                below = bool((one - other).subs(hints) <= 0)
                return (sympy.Le(one, other) if below else sympy.Ge(one, other)).canonical
    return None


def _constraint(relation: Any) -> str:
    return str(relation).replace("**", "^")


def size_of(dim: Any, place: Place) -> sympy.Expr:
    """A size of JAX as SymPy has it.

    Raises:
        ImportProblem: for one that is no polynomial, such as ``mod(T, 2)``.
    """
    if isinstance(dim, int | np.integer):
        return sympy.Integer(int(dim))
    try:
        return read_size(str(dim))
    except Problem as trouble:
        raise ImportProblem(
            f"an axis has size {dim} here, which is no polynomial of the sizes", where=str(place),
            hint="give one of the sizes as a number",
        ) from trouble  # fmt: skip
