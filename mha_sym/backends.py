"""What evaluation asks of an array library, for NumPy, torch, JAX and exact elements in NumPy object arrays.

Defines `Backend` (NumPy) with its variants, the protocol `Elements` of exact arithmetic, and `backend_for`, which
finds the one library that all given arrays come from.  Axes are split, joined and reordered with einops, which
works on all of them, so that is not here; neither are names of axes, nor checks of values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
import sympy

from mha_sym.errors import DataProblem

Array = Any  # an array of whichever library


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
        """The element of a number made of rationals and rational powers of integers."""


class SoftmaxResult(NamedTuple):
    """Weights; and, with the summed axes of size one, which rows keep no key and which hold a score that is no number.

    ``dead`` and ``wild`` are None where values cannot be looked at (under ``jax.jit``); weights of a dead row are 0.
    """

    weights: Array
    dead: np.ndarray[Any, Any] | None
    wild: np.ndarray[Any, Any] | None


def real_number(value: sympy.Expr) -> float:
    """A number of SymPy in floating point.

    Raises:
        DataProblem: if it is not a finite real number.

    Example:
        >>> real_number(1 / sympy.sqrt(16))
        0.25
    """
    if not (value.is_number and value.is_real and value.is_finite):
        raise DataProblem("a scalar is not a real number", got=str(value), expected="rationals and roots of sizes")
    return float(value)


class Backend:
    """NumPy in one floating dtype.

    ``into=True`` allows an operation to overwrite its first argument; only NumPy makes use of it.
    """

    name = "NumPy"

    def __init__(self, dtype: Any = np.float64, device: Any = None) -> None:
        self.dtype, self.device = dtype, device

    # ------------------------------------------------------------ in and out

    def wrap(self, x: Any) -> Array:
        """``x`` as an array; operations of NumPy return bare numbers where no axis is left."""
        return x if isinstance(x, np.ndarray) else np.asarray(x)

    def number(self, value: sympy.Expr) -> Array:
        """A scalar as an array without axes."""
        return np.asarray(real_number(value), self.dtype)

    def constant(self, values: np.ndarray[Any, Any]) -> Array:
        """A table of Booleans, integers or SymPy rationals in the backend's dtype."""
        return values.astype(self.dtype)

    def truth(self, x: Array) -> Array:
        """Booleans, true where ``x`` is not 0."""
        return x != 0

    def to_numpy(self, x: Array) -> np.ndarray[Any, Any]:
        """An array of Booleans or numbers as one of NumPy, to look at."""
        return np.asarray(x)

    def result(self, x: Array, given: Sequence[Array]) -> Array:
        """``x`` as it is handed out: writable, and sharing no memory with what was given."""
        if not x.flags.writeable or any(np.may_share_memory(x, one) for one in given):
            return x.copy()
        return x

    # ------------------------------------------------------------ entry by entry

    def add(self, x: Array, y: Array, into: bool = False) -> Array:
        """``x + y``, broadcast."""
        return np.add(x, y, out=x if into else None)

    def mul(self, x: Array, y: Array, into: bool = False) -> Array:
        """``x * y``, broadcast."""
        return np.multiply(x, y, out=x if into else None)

    def neg(self, x: Array, into: bool = False) -> Array:
        """``-x``."""
        return np.negative(x, out=x if into else None)

    def exp(self, x: Array, into: bool = False) -> Array:
        """The exponential."""
        return np.exp(x, out=x if into else None)

    def inv(self, x: Array, into: bool = False) -> Array:
        """``1/x``."""
        return np.reciprocal(x, out=x if into else None)

    # ------------------------------------------------------------ over axes

    def matmul(self, x: Array, y: Array) -> Array:
        """The matrix product over the last two axes, the others broadcast."""
        return np.matmul(x, y)

    def total(self, x: Array, dims: tuple[int, ...]) -> Array:
        """The sum over some axes."""
        return x.sum(axis=dims)

    def largest(self, x: Array, dims: tuple[int, ...]) -> Array:
        """The maximum over some axes."""
        return x.max(axis=dims)

    def take(self, x: Array, order: Sequence[int], dim: int) -> Array:
        """Entries of one axis in another order."""
        return np.take(x, list(order), axis=dim)

    def concat(self, parts: Sequence[Array], dim: int) -> Array:
        """Arrays end to end."""
        return np.concatenate(parts, axis=dim)

    def stack(self, parts: Sequence[Array]) -> Array:
        """Arrays along a new first axis."""
        return np.stack(parts)

    def expand(self, x: Array, shape: Sequence[int]) -> Array:
        """Axes of size one copied to ``shape``, as a view."""
        return np.broadcast_to(x, tuple(shape))

    def softmax(self, x: Array, dims: tuple[int, ...], keep: Array | None, into: bool = False) -> SoftmaxResult:
        """``exp(x - max) / sum exp(x - max)`` over ``dims``, 0 where ``keep`` (Booleans) is false."""
        if not into:
            x = x.copy()
        if keep is not None:
            np.copyto(x, -np.inf, where=np.logical_not(keep))
        top = x.max(axis=dims, keepdims=True)
        dead = np.isneginf(top)
        wild = ~(np.isfinite(top) | dead)
        top[dead | wild] = 0
        np.subtract(x, top, out=x)
        np.exp(x, out=x)
        below = x.sum(axis=dims, keepdims=True)
        below[dead] = 1
        np.multiply(x, np.reciprocal(below), out=x)
        return SoftmaxResult(x, dead, wild)


class _TorchBackend(Backend):
    """torch tensors of one dtype on one device; gradients flow, so nothing is overwritten."""

    name = "torch"

    def __init__(self, dtype: Any, device: Any) -> None:
        super().__init__(dtype, device)
        self.torch: Any = import_module("torch")

    def wrap(self, x: Any) -> Array:
        return x

    def number(self, value: sympy.Expr) -> Array:
        return self.torch.tensor(real_number(value), dtype=self.dtype, device=self.device)

    def constant(self, values: np.ndarray[Any, Any]) -> Array:
        return self.torch.as_tensor(values.astype(np.float64)).to(self.device, self.dtype)

    def to_numpy(self, x: Array) -> np.ndarray[Any, Any]:
        return np.asarray(x.detach().cpu().numpy())

    def result(self, x: Array, given: Sequence[Array]) -> Array:
        return x

    def add(self, x: Array, y: Array, into: bool = False) -> Array:
        return x + y

    def mul(self, x: Array, y: Array, into: bool = False) -> Array:
        return x * y

    def neg(self, x: Array, into: bool = False) -> Array:
        return -x

    def exp(self, x: Array, into: bool = False) -> Array:
        return x.exp()

    def inv(self, x: Array, into: bool = False) -> Array:
        return x.reciprocal()

    def matmul(self, x: Array, y: Array) -> Array:
        return self.torch.matmul(x, y)

    def total(self, x: Array, dims: tuple[int, ...]) -> Array:
        return x.sum(dim=dims)

    def largest(self, x: Array, dims: tuple[int, ...]) -> Array:
        return x.amax(dim=dims)

    def take(self, x: Array, order: Sequence[int], dim: int) -> Array:
        return x.index_select(dim, self.torch.tensor(list(order), device=self.device))

    def concat(self, parts: Sequence[Array], dim: int) -> Array:
        return self.torch.cat(list(parts), dim=dim)

    def stack(self, parts: Sequence[Array]) -> Array:
        return self.torch.stack(list(parts))

    def expand(self, x: Array, shape: Sequence[int]) -> Array:
        return x.expand(tuple(shape))

    def softmax(self, x: Array, dims: tuple[int, ...], keep: Array | None, into: bool = False) -> SoftmaxResult:
        if keep is not None:
            x = x.masked_fill(~keep, -math.inf)
        top = x.detach().amax(dim=dims, keepdim=True)
        dead = self.torch.isneginf(top)
        wild = ~(self.torch.isfinite(top) | dead)
        top = top.masked_fill(dead | wild, 0)
        e = (x - top).exp()
        below = e.sum(dim=dims, keepdim=True).masked_fill(dead, 1)
        return SoftmaxResult(e / below, self.to_numpy(dead), self.to_numpy(wild))


class _JaxBackend(Backend):
    """JAX arrays of one dtype; under ``jax.jit`` shapes are known and values are not looked at."""

    name = "JAX"

    def __init__(self, dtype: Any, device: Any = None) -> None:
        super().__init__(dtype, device)
        self.np: Any = import_module("jax.numpy")

    def wrap(self, x: Any) -> Array:
        return x

    def number(self, value: sympy.Expr) -> Array:
        return self.np.asarray(real_number(value), self.dtype)

    def constant(self, values: np.ndarray[Any, Any]) -> Array:
        return self.np.asarray(values.astype(np.float64), self.dtype)

    def result(self, x: Array, given: Sequence[Array]) -> Array:
        return x

    def add(self, x: Array, y: Array, into: bool = False) -> Array:
        return x + y

    def mul(self, x: Array, y: Array, into: bool = False) -> Array:
        return x * y

    def neg(self, x: Array, into: bool = False) -> Array:
        return -x

    def exp(self, x: Array, into: bool = False) -> Array:
        return self.np.exp(x)

    def inv(self, x: Array, into: bool = False) -> Array:
        return 1 / x

    def matmul(self, x: Array, y: Array) -> Array:
        return self.np.matmul(x, y)

    def take(self, x: Array, order: Sequence[int], dim: int) -> Array:
        return self.np.take(x, np.asarray(order), axis=dim)

    def concat(self, parts: Sequence[Array], dim: int) -> Array:
        return self.np.concatenate(list(parts), axis=dim)

    def stack(self, parts: Sequence[Array]) -> Array:
        return self.np.stack(list(parts))

    def expand(self, x: Array, shape: Sequence[int]) -> Array:
        return self.np.broadcast_to(x, tuple(shape))

    def softmax(self, x: Array, dims: tuple[int, ...], keep: Array | None, into: bool = False) -> SoftmaxResult:
        if keep is not None:
            x = self.np.where(keep, x, -self.np.inf)
        top = x.max(axis=dims, keepdims=True)
        dead = self.np.isneginf(top)
        wild = ~(self.np.isfinite(top) | dead)
        e = self.np.exp(x - self.np.where(dead | wild, 0, top))
        below = self.np.where(dead, 1, e.sum(axis=dims, keepdims=True))
        if is_traced(x):
            return SoftmaxResult(e / below, None, None)
        return SoftmaxResult(e / below, np.asarray(dead), np.asarray(wild))


class _ExactBackend(Backend):
    """NumPy object arrays whose elements are exact; softmax is literally ``exp(x) / sum exp(x)``."""

    name = "exact elements"

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
            dead = np.broadcast_to(~keep.any(axis=tuple(d for d in dims), keepdims=True), rows)
        below = np.where(dead, self.wrap(self.elements.one), self.wrap(e.sum(axis=dims, keepdims=True)))
        return SoftmaxResult(e * self._inverse(below), dead, np.zeros(rows, bool))


def is_traced(x: Array) -> bool:
    """Whether ``x`` stands for an unknown array inside a transformation of JAX."""
    return library(x) == "JAX" and not hasattr(x, "addressable_shards")


def library(array: Any) -> str:
    """The library an array comes from, by its type: ``"NumPy"``, ``"torch"``, ``"JAX"``, or ``""``.

    Example:
        >>> library(np.ones(3)), library([1, 2])
        ('NumPy', '')
    """
    if isinstance(array, (np.matrix, np.ma.MaskedArray)):
        return ""
    if isinstance(array, (np.ndarray, np.generic)):
        return "NumPy"
    home = type(array).__module__.split(".")[0]
    return {"torch": "torch", "jax": "JAX", "jaxlib": "JAX"}.get(home, "") if hasattr(array, "shape") else ""


def backend_for(arrays: Mapping[str, Any], exact: Elements | None) -> Backend:
    """The backend of all these arrays, which must come from one library; NumPy in float64 if there are none.

    Raises:
        DataProblem: for something that is no array, and for arrays of two libraries, dtypes or devices.
    """
    homes = {name: library(array) for name, array in arrays.items()}
    for name, home in homes.items():
        if not home:
            raise DataProblem(
                f"input {name!r} is not an array", expected="an array of NumPy, torch or JAX",
                got=f"{type(arrays[name]).__module__}.{type(arrays[name]).__name__}",
                hint="convert it, for instance with numpy.asarray",
            )
    _one(homes, "library", "convert them to one library")
    home = next(iter(homes.values()), "NumPy")
    if exact is not None:
        if home != "NumPy":
            raise DataProblem(f"exact elements live in NumPy object arrays, these arrays are of {home}")
        return _ExactBackend(exact)
    floating = {name: array for name, array in arrays.items() if dtype_kind(array) == "floating"}
    _one({name: str(array.dtype) for name, array in floating.items()}, "dtype", "cast them to one dtype")
    if home == "torch":
        _one({name: str(array.device) for name, array in arrays.items()}, "device", "move them to one device")
    if not floating:
        floating = dict(arrays)
    first = next(iter(floating.values()), None)
    dtype = None if first is None or dtype_kind(first) != "floating" else first.dtype
    if home == "torch":
        return _TorchBackend(dtype or import_module("torch").float64, next(iter(arrays.values())).device)
    return _JaxBackend(dtype or np.float32) if home == "JAX" else Backend(dtype or np.float64)


def _one(values: Mapping[str, str], what: str, hint: str) -> None:
    """Refuse two different values, naming an input of each."""
    for name, value in values.items():
        first = next(iter(values))
        if value != values[first]:
            raise DataProblem(
                f"inputs {first!r} and {name!r} differ in their {what}",
                expected=f"{first}: {values[first]}", got=f"{name}: {value}", hint=hint,
            )


def dtype_kind(array: Any) -> str:
    """``"floating"``, ``"integer"``, ``"complex"``, ``"bool"``, ``"object"``, or the dtype's own name.

    Example:
        >>> dtype_kind(np.ones(3, np.float32)), dtype_kind(np.arange(3))
        ('floating', 'integer')
    """
    dtype, text = array.dtype, str(array.dtype).removeprefix("torch.")
    if text == "object":
        return "object"
    for kind, stem in (("floating", ("float", "bfloat")), ("complex", ("complex",)), ("bool", ("bool",))):
        if text.startswith(stem):
            return kind
    return "integer" if text.startswith(("int", "uint")) else str(dtype)
