"""Given arrays against the inputs of expressions: which are there, their axes, the sizes they fix, their values.

Defines `read_sizes`, `check_arrays`, `backend_for`, `prepare`, `check_permutation` and `size_value`.  Computes nothing
with the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy

from mha_sym.axes import Axis, Permutation
from mha_sym.backends import Array, Backend, backend, dtype_kind, is_traced, library
from mha_sym.errors import AxisProblem, DataProblem, show_axes
from mha_sym.exact import Elements, exact_backend
from mha_sym.expr import Expr, Input, inputs


def all_inputs(exprs: Iterable[Expr]) -> dict[str, Input]:
    """The inputs of several expressions by name.

    Raises:
        AxisProblem: if one name stands for two different inputs.
    """
    found: dict[str, Input] = {}
    for expr in exprs:
        for one in inputs(expr):
            if found.setdefault(one.name, one) != one:
                raise AxisProblem(
                    f"input {one.name!r} is two different things",
                    axes=[show_axes(found[one.name].axes), show_axes(one.axes)],
                )
    return found


# ---------------------------------------------------------------- sizes


@dataclass(frozen=True)
class _Fact:
    """An axis of an array has so many positions."""

    size: sympy.Expr
    value: int
    axis: str
    input_: str

    def __str__(self) -> str:
        return f"axis {self.axis!r} of {self.input_}"


@lru_cache(maxsize=4096)
def _substituted(expr: sympy.Expr, known: frozenset[tuple[sympy.Symbol, int]]) -> sympy.Expr:
    return expr.xreplace({symbol: sympy.Integer(value) for symbol, value in known})


def substituted(expr: sympy.Expr, sizes: Mapping[str, int], where: str = "") -> sympy.Expr:
    """``expr`` with every size symbol replaced by its number.

    Raises:
        DataProblem: naming the size that is not known.
    """
    for symbol in expr.free_symbols:
        if symbol.name not in sizes:
            raise DataProblem(
                f"size {symbol.name} is not known", where=where, expected="an array that has it, or sizes=",
                hint=f"give sizes={{{symbol.name!r}: ...}}",
            )
    return _substituted(expr, frozenset((s, sizes[s.name]) for s in expr.free_symbols))


def size_value(axis: Axis, sizes: Mapping[str, int]) -> int:
    """The number of positions of an axis.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> size_value(product(axis("h"), axis("k", "d_k")), {"h": 3, "d_k": 4})
        12
    """
    if axis.size.is_Symbol and axis.size.name in sizes:  # most often; what follows takes ten times as long
        return sizes[axis.size.name]
    return int(substituted(axis.size, sizes, f"axis {axis.name}"))


def whole(value: Any, what: str, least: int, most: float = math.inf) -> int:
    """``value`` if it is an integer in range.

    Raises:
        DataProblem: if it is not.

    Example:
        >>> whole(3, "size h", 1)
        3
    """
    integral = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integral or not least <= value <= most:
        span = f"at least {least}" if most == math.inf else f"{least} to {most}"
        raise DataProblem(f"{what} cannot be {value!r}", expected=f"an integer, {span}", got=repr(value))
    return int(value)


def read_sizes(
    exprs: Expr | Iterable[Expr], arrays: Mapping[str, Any], sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The size symbols, by name, read off the shapes of the arrays.

    Plain symbols first, then products and sums in which one symbol is left.  ``sizes`` adds those that no array
    tells, and is checked against those that one does.

    Raises:
        DataProblem: for arrays that are missing, surplus, empty or of wrong rank, for two sizes of one axis, and for
            sizes that cannot be told.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims
        >>> read_sizes(combined_weights(dims()).w_q, {"W_Q": np.ones((5, 12))}, {"h": 3})
        {'h': 3, 'd_model': 5, 'd_k': 4}
    """
    found = all_inputs([exprs] if isinstance(exprs, Expr) else exprs)
    check_arrays(found, arrays)
    return solve_sizes(found, arrays, sizes or {})


def solve_sizes(found: Mapping[str, Input], arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, int]:
    """The work of `read_sizes` after the arrays were matched with the inputs."""
    known = {name: whole(value, f"size {name}", 1) for name, value in sizes.items()}
    source = dict.fromkeys(known, "sizes=")
    facts = [
        _Fact(one.size, int(n), one.name, name)
        for name, node in found.items()
        for one, n in zip(node.axes, arrays[name].shape, strict=True)
    ]
    waiting = sorted(facts, key=lambda fact: not fact.size.is_Symbol)
    while waiting:
        later = [fact for fact in waiting if not _use(fact, known, source)]
        if len(later) == len(waiting):
            raise _undetermined(later[0], known)
        waiting = later
    return known


def _use(fact: _Fact, known: dict[str, int], source: dict[str, str]) -> bool:
    """Check a fact, or solve it for its one unknown; False if it has more than one."""
    unknown = [s for s in fact.size.free_symbols if s.name not in known]
    if len(unknown) > 1:
        return False
    if not unknown:
        _check(fact, known, source)
        return True
    value = fact.value if fact.size.is_Symbol else _solve(fact, unknown[0], known)
    known[unknown[0].name], source[unknown[0].name] = value, str(fact)
    return True


def _check(fact: _Fact, known: Mapping[str, int], source: Mapping[str, str]) -> None:
    value = known[fact.size.name] if fact.size.is_Symbol else int(substituted(fact.size, known))
    if value == fact.value:
        return
    names = sorted(s.name for s in fact.size.free_symbols)
    because = ", ".join(f"{n} = {known[n]} by {source[n]}" for n in names) or "the expression fixes it"
    raise DataProblem(
        f"{fact} has {fact.value} positions, not {value}",
        expected=f"{fact.size} = {value}, since {because}" if len(names) > 1 else because,
        got=str(fact.value),
    )


def _solve(fact: _Fact, symbol: sympy.Symbol, known: Mapping[str, int]) -> int:
    """The positive integer that the one unknown symbol of a fact must be."""
    given = frozenset((s, known[s.name]) for s in fact.size.free_symbols if s.name in known)
    values = _roots(_substituted(fact.size, given), fact.value, symbol)
    if len(values) != 1:
        raise DataProblem(
            f"{fact} has {fact.value} positions, which no size {symbol.name} makes", got=str(fact.value),
            expected=f"{fact.size}" + "".join(f", {s} = {n}" for s, n in sorted(given, key=str)),
            hint=_not_divisible(fact, symbol, given),
        )
    return values[0]


def _not_divisible(fact: _Fact, symbol: sympy.Symbol, given: frozenset[tuple[sympy.Symbol, int]]) -> str:
    """That a number is not divisible by another one, where the size is a multiple of the unknown one."""
    factor = _substituted(fact.size, given) / symbol
    if not factor.is_Integer or fact.value % int(factor) == 0:
        return ""
    return f"{fact.value} is not divisible by " + " ".join(f"{s} = {n}" for s, n in sorted(given, key=str))


@lru_cache(maxsize=4096)
def _roots(size: sympy.Expr, value: int, symbol: sympy.Symbol) -> tuple[int, ...]:
    """The positive integers that make ``size`` the given value."""
    difference = sympy.expand(size - value)
    roots = sympy.Poly(difference, symbol).ground_roots() if difference.is_polynomial(symbol) else {}
    return tuple(int(root) for root in roots if root.is_Integer and root > 0)


def _undetermined(fact: _Fact, known: Mapping[str, int]) -> DataProblem:
    names = sorted(s.name for s in fact.size.free_symbols if s.name not in known)
    return DataProblem(
        f"the sizes {' and '.join(names)} cannot be told apart", where=str(fact),
        expected=f"{fact.size} = {fact.value}",
        hint=f"give one of them, as in sizes={{{names[0]!r}: ...}}",
    )


# ---------------------------------------------------------------- arrays


def check_arrays(found: Mapping[str, Input], arrays: Mapping[str, Any]) -> None:
    """Refuse missing, surplus and empty arrays, and arrays of wrong rank.

    Raises:
        DataProblem: naming the inputs and showing their axes.
    """
    missing = [name for name in found if name not in arrays]
    if missing:
        raise DataProblem(
            "no array for " + ", ".join(missing), expected=", ".join(found), got=", ".join(arrays) or "none",
            axes=[f"{name}{show_axes(found[name].axes)}" for name in missing],
        )
    surplus = [name for name in arrays if name not in found]
    if surplus:
        raise DataProblem(
            "nothing reads the arrays " + ", ".join(map(str, surplus)), expected=", ".join(found) or "none",
            got=", ".join(map(str, arrays)), hint="arrays are given by the names of the inputs",
        )
    for name, node in found.items():
        shape = tuple(getattr(arrays[name], "shape", ()))
        if len(shape) != len(node.axes):
            raise DataProblem(
                f"input {name!r} has {len(shape)} axes, not {len(node.axes)}", got=f"shape {shape}",
                axes=[f"{name}{show_axes(node.axes)}"], hint="a product axis such as (h k) is one axis of the array",
            )
        for one, size in zip(node.axes, shape, strict=True):
            if size == 0:
                raise DataProblem(
                    f"axis {one.name!r} of {name} is empty", got=f"shape {shape}",
                    axes=[f"{name}{show_axes(node.axes)}"], hint="sizes start at 1",
                )


def backend_for(found: Mapping[str, Input], arrays: Mapping[str, Any], exact: Elements | None) -> Backend:
    """The backend of all these arrays, which must come from one library and have one floating dtype.

    NumPy in float64 if there are none; masks of 0 and 1 may have a dtype of their own.

    Raises:
        DataProblem: for something that is no array, and for arrays of two libraries, dtypes or devices.
    """
    for name, array in arrays.items():
        if not library(array):
            raise DataProblem(
                f"input {name!r} is not an array", expected="an array of NumPy, torch or JAX",
                got=f"{type(array).__module__}.{type(array).__name__}",
                hint="convert it, for instance with numpy.asarray",
            )
    home = _one("library", {name: library(array) for name, array in arrays.items()}) or "NumPy"
    if exact is not None:
        if home != "NumPy":
            raise DataProblem(f"exact elements live in NumPy object arrays, and these arrays are of {home}")
        return exact_backend(exact)
    numbers = {n: a.dtype for n, a in arrays.items() if not found[n].boolean and dtype_kind(a) == "floating"}
    device = _one("device", {name: array.device for name, array in arrays.items()}) if home == "torch" else None
    return backend(home, _one("dtype", numbers), device)


def _one(what: str, values: Mapping[str, Any]) -> Any:
    """The value that all inputs share (None if there are no inputs); two are refused, naming an input of each."""
    first = next(iter(values), "")
    for name, value in values.items():
        if value != values[first]:
            raise DataProblem(
                f"inputs {first!r} and {name!r} differ in {what}", expected=f"one {what} for all inputs",
                got=f"{first}: {values[first]}, {name}: {value}",
            )
    return values.get(first)


def prepare(node: Input, array: Array, backend: Backend) -> Array:
    """The array of an input after its dtype and values were checked; 0/1 in the backend's dtype if it is boolean.

    Raises:
        DataProblem: for a dtype that is not computed with, NaN, infinities, or values of a mask other than 0 and 1.
    """
    kind = dtype_kind(array)
    if node.boolean:
        return _boolean(node, array, backend)
    if backend.exact:
        return _elements(node, array, kind, backend)
    if kind != "floating":
        raise _dtype_problem(node, array, kind)
    if not is_traced(array):
        _check_finite(node, array, backend)
    return backend.wrap(array)


def _dtype_problem(node: Input, array: Array, kind: str) -> DataProblem:
    hints = {
        "integer": "cast it to float64",
        "complex": "attention is over the reals; give the real part",
        "bool": "declare the input with boolean=True, or cast it to float64",
        "object": "for exact elements say which, as in exact=Rationals()",
    }
    return DataProblem(
        f"input {node.name!r} holds {array.dtype}", expected="a floating dtype", got=str(array.dtype),
        hint=hints.get(kind, "cast it to float64"),
    )


def _boolean(node: Input, array: Array, backend: Backend) -> Array:
    if is_traced(array):
        return backend.wrap(array).astype(backend.dtype)
    values = backend.to_numpy(array)
    zero, one = (backend.constant(np.asarray(n)) if dtype_kind(array) == "object" else n for n in (0, 1))
    ones = np.asarray(values == one, bool)  # not astype(bool): an exact zero may count as true
    other = ~(ones | np.asarray(values == zero, bool))
    _refuse_first(node, other, values, "other values than 0 and 1", "a mask of what is kept is 0 or 1")
    return backend.constant(ones)


def _elements(node: Input, array: Array, kind: str, backend: Backend) -> Array:
    if kind == "integer":
        return backend.constant(array.astype(object))
    if kind != "object":
        raise DataProblem(
            f"input {node.name!r} holds {array.dtype}", expected="an object array of exact elements, or integers",
            got=str(array.dtype), hint="a rounded number is not exact; convert its entries to fractions first",
        )
    inexact = np.frompyfunc(lambda x: isinstance(x, (float, complex)), 1, 1)(array)
    _refuse_first(node, np.asarray(inexact, bool), array, "a rounded number", "convert the entries to fractions first")
    return backend.wrap(array)


def _check_finite(node: Input, array: Array, backend: Backend) -> None:
    """Refuse NaN, and infinities but for -inf in an additive mask."""
    with np.errstate(all="ignore"):
        if np.isfinite(backend.to_numpy(array.sum())):
            return  # one infinity or NaN would have spoilt the sum
    values = backend.to_numpy(array)
    _refuse_first(node, np.isnan(values), values, "NaN", "")
    allowed = np.isneginf(values) if node.role == "mask" else np.zeros((), bool)
    hint = "an additive mask may hold -inf" if node.role == "mask" else "only an additive mask may hold -inf"
    _refuse_first(node, np.isinf(values) & ~allowed, values, "an infinity", hint)


def _refuse_first(node: Input, bad: np.ndarray[Any, Any], values: np.ndarray[Any, Any], what: str, hint: str) -> None:
    """Refuse the first entry that is bad, saying where it is and how many there are."""
    places = np.argwhere(bad)
    if len(places):
        at = ", ".join(f"{one.name}={i}" for one, i in zip(node.axes, places[0], strict=True))
        count = f"; {len(places)} such entries" if len(places) > 1 else ""
        raise DataProblem(
            f"input {node.name!r} holds {what}", where=f"{node.name}[{at}]", got=f"{values[tuple(places[0])]}{count}",
            axes=[f"{node.name}{show_axes(node.axes)}"], hint=hint,
        )


def check_permutation(perm: Permutation, given: Mapping[str, Sequence[int]], size: int) -> tuple[int, ...]:
    """The positions that a permutation, or its inverse, takes 0, 1, ... to.

    Raises:
        DataProblem: if none is given by that name, or what is given is no bijection of the axis.
    """
    if perm.name not in given:
        raise DataProblem(
            f"no permutation {perm.name!r} is given", expected=f"the order of {size} positions of {perm.axis.name!r}",
            got=", ".join(given) or "none", hint=f"give permutations={{{perm.name!r}: [...]}}",
        )
    order = tuple(whole(i, f"an entry of permutation {perm.name!r}", 0, size - 1) for i in given[perm.name])
    if sorted(order) != list(range(size)):
        raise DataProblem(
            f"permutation {perm.name!r} is no bijection of axis {perm.axis.name!r}",
            expected=f"each of 0 to {size - 1} once", got=str(order),
        )
    return tuple(sorted(range(size), key=order.__getitem__)) if perm.inverted else order
