"""Tracing a function with JAX while sizes are symbols, and what its decisions on sizes mean for the proof.

Defines `Trace` and `trace`.  JAX answers ``T == 1`` with False for a symbolic size and says nothing; here every
question that the code asks and that does not follow for all sizes is answered as at the hints, and kept as a `Branch`.
Importing this file imports JAX.
"""

from __future__ import annotations

import contextlib
import linecache
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeAlias

import jax
import numpy as np
import sympy
from jax import export

from mha_sym.importers.graph import ImportProblem, Place
from mha_sym.importers.jax_places import is_jax
from mha_sym.importers.size_text import read_size

Sizes: TypeAlias = Mapping[sympy.Symbol, int]
Shape: TypeAlias = Sequence[sympy.Expr | int]

_RELATIONS: dict[str, tuple[Callable[[Any, Any], bool], Any]] = {
    "__eq__": (operator.eq, sympy.Eq), "__ne__": (operator.ne, sympy.Ne), "__lt__": (operator.lt, sympy.Lt),
    "__le__": (operator.le, sympy.Le), "__gt__": (operator.gt, sympy.Gt), "__ge__": (operator.ge, sympy.Ge),
}  # fmt: skip


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
        outputs: the paths of the results in what is returned.
    """

    jaxpr: Any
    branches: tuple[Branch, ...]
    outputs: tuple[str, ...]


def trace(function: Callable[..., Any], tree: Any, hints: Sizes) -> Trace:
    """The jaxpr of a function of one pytree, in double precision.

    Args:
        function: takes the tree.
        tree: a pytree of ``(shape, dtype)`` pairs made by `Spec`.
        hints: a value for every symbol, which decides questions on sizes.
    """
    scope = _Scope(hints)
    given = jax.tree.map(scope.struct, tree, is_leaf=lambda one: isinstance(one, Spec))
    with jax.enable_x64(True), scope.listening():
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(given)
    named = jax.tree_util.tree_flatten_with_path(shape)[0]
    return Trace(jaxpr, tuple(scope.branches), tuple(path_name(path) for path, _ in named))


@dataclass(frozen=True)
class Spec:
    """An array of which only shape and dtype are known."""

    shape: tuple[sympy.Expr | int, ...]
    dtype: str = "float64"


def path_name(path: Sequence[Any]) -> str:
    """A path in a pytree with dots: ``params.query.kernel``."""
    keys = [getattr(one, "key", getattr(one, "name", getattr(one, "idx", one))) for one in path]
    return ".".join(map(str, keys))


class _Scope:
    """The symbols of one trace as JAX has them, and what was asked of them."""

    def __init__(self, hints: Sizes) -> None:
        self.hints = hints
        self.branches: list[Branch] = []
        names = ", ".join(sorted(one.name for one in hints))
        dims = export.symbolic_shape(names) if names else ()
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

    def struct(self, spec: Spec) -> jax.ShapeDtypeStruct:
        """A placeholder of these sizes."""
        return jax.ShapeDtypeStruct(tuple(map(self.size, spec.shape)), np.dtype(spec.dtype))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While this lasts, questions that code outside of JAX asks of sizes are recorded."""
        kind: Any = type(next(iter(self.dims.values()))) if self.dims else None
        saved = {name: getattr(kind, name) for name in _RELATIONS} if kind else {}
        for name, original in saved.items():
            setattr(kind, name, self._asked(original, *_RELATIONS[name]))
        try:
            yield
        finally:
            for name, original in saved.items():
                setattr(kind, name, original)

    def _asked(self, original: Any, python: Callable[[Any, Any], bool], relation: Any) -> Any:
        def asked(one: Any, other: Any) -> Any:
            frame = sys._getframe(1)
            number = export.is_symbolic_dim(other) or (isinstance(other, int) and not isinstance(other, bool))
            if is_jax(frame.f_code.co_filename) or not number:
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


def _line(frame: FrameType) -> Place:
    name, line = frame.f_code.co_filename, frame.f_lineno
    return Place(name, line, linecache.getline(name, line).strip())


def size_of(dim: Any, place: Place) -> sympy.Expr:
    """A size of JAX as SymPy has it.

    Raises:
        ImportProblem: for one that is no polynomial, such as ``mod(T, 2)``.
    """
    if isinstance(dim, int | np.integer):
        return sympy.Integer(int(dim))
    try:
        return read_size(str(dim))
    except ImportProblem:
        raise
    except Exception as trouble:
        raise ImportProblem(f"a size of {dim} is made here", where=str(place)) from trouble
