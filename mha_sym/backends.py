"""What evaluation asks of an array library, for NumPy, torch and JAX.

Defines `Backend` (NumPy), `backend` for any of the three, and `library`, `dtype_kind` and `is_traced`, which tell
arrays apart.  Axes are split, joined and reordered with einops, which works on all of them, so that is not here;
neither are names of axes, nor checks of values.  torch and JAX are imported only where an array of theirs is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import sympy

from mha_sym.errors import DataProblem

Array = Any  # an array of whichever library


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
    exact = False

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
        with np.errstate(over="ignore", invalid="ignore"):  # only in wild rows, which are reported
            np.exp(np.subtract(x, top, out=x), out=x)
            below = x.sum(axis=dims, keepdims=True)
            below[dead] = 1
            np.multiply(x, np.reciprocal(below), out=x)
        return SoftmaxResult(x, dead, wild)


class _Functional(Backend):
    """What torch and JAX share: functions of the same names, and arrays that are never overwritten."""

    def __init__(self, module: str, dtype: Any, device: Any = None) -> None:
        super().__init__(dtype, device)
        self.lib: Any = import_module(module)

    def wrap(self, x: Any) -> Array:
        return x

    def result(self, x: Array, given: Sequence[Array]) -> Array:
        return x

    def add(self, x: Array, y: Array, into: bool = False) -> Array:
        return x + y

    def mul(self, x: Array, y: Array, into: bool = False) -> Array:
        return x * y

    def neg(self, x: Array, into: bool = False) -> Array:
        return -x

    def exp(self, x: Array, into: bool = False) -> Array:
        return self.lib.exp(x)

    def inv(self, x: Array, into: bool = False) -> Array:
        return self.lib.reciprocal(x)

    def matmul(self, x: Array, y: Array) -> Array:
        return self.lib.matmul(x, y)

    def total(self, x: Array, dims: tuple[int, ...]) -> Array:
        return self.lib.sum(x, dims)

    def largest(self, x: Array, dims: tuple[int, ...]) -> Array:
        return self.lib.amax(x, dims)

    def concat(self, parts: Sequence[Array], dim: int) -> Array:
        return self.lib.concatenate(list(parts), dim)

    def stack(self, parts: Sequence[Array]) -> Array:
        return self.lib.stack(list(parts))

    def expand(self, x: Array, shape: Sequence[int]) -> Array:
        return self.lib.broadcast_to(x, tuple(shape))

    def softmax(self, x: Array, dims: tuple[int, ...], keep: Array | None, into: bool = False) -> SoftmaxResult:
        if keep is not None:
            x = self.lib.where(keep, x, -math.inf)
        rows = tuple(1 if n in dims else size for n, size in enumerate(x.shape))
        top = self.frozen(self.lib.amax(x, dims).reshape(rows))  # the shift cancels, so it needs no gradient
        dead = top == -math.inf
        wild = ~(self.lib.isfinite(top) | dead)
        e = self.lib.exp(x - self.lib.where(dead | wild, 0.0, top))
        weights = e / self.lib.where(dead, 1.0, self.lib.sum(e, dims).reshape(rows))
        if is_traced(x):
            return SoftmaxResult(weights, None, None)
        return SoftmaxResult(weights, self.to_numpy(dead), self.to_numpy(wild))

    def frozen(self, x: Array) -> Array:
        """``x`` as a constant, through which no gradient flows."""
        raise NotImplementedError


class _Torch(_Functional):
    """torch tensors of one dtype on one device; gradients flow."""

    name = "torch"

    def __init__(self, dtype: Any, device: Any) -> None:
        super().__init__("torch", dtype, device)

    def number(self, value: sympy.Expr) -> Array:
        return self.lib.tensor(real_number(value), dtype=self.dtype, device=self.device)

    def constant(self, values: np.ndarray[Any, Any]) -> Array:
        return self.lib.as_tensor(values.astype(np.float64)).to(self.device, self.dtype)

    def to_numpy(self, x: Array) -> np.ndarray[Any, Any]:
        x = x.detach().cpu()
        return np.asarray((x.double() if x.is_floating_point() else x).numpy())  # NumPy has no bfloat16

    def take(self, x: Array, order: Sequence[int], dim: int) -> Array:
        return x.index_select(dim, self.lib.tensor(list(order), device=self.device))

    def add(self, x: Array, y: Array, into: bool = False) -> Array:
        return x.add_(y) if into and not self._followed(x, y) else x + y

    def mul(self, x: Array, y: Array, into: bool = False) -> Array:
        return x.mul_(y) if into and not self._followed(x, y) else x * y

    def frozen(self, x: Array) -> Array:
        return x.detach()

    def _followed(self, *arrays: Array) -> bool:
        """Whether a gradient may need an argument unchanged."""
        return bool(self.lib.is_grad_enabled()) and any(one.requires_grad for one in arrays)

    def softmax(self, x: Array, dims: tuple[int, ...], keep: Array | None, into: bool = False) -> SoftmaxResult:
        kept = x if keep is None else self.lib.where(keep, x, -math.inf)
        top = kept.detach().amax(dims, keepdim=True)
        if len(dims) > 1 or not self.lib.isfinite(top).all():
            return super().softmax(x, dims, keep)
        none = np.zeros(tuple(top.shape), bool)
        return SoftmaxResult(self.lib.softmax(kept, dims[0]), none, none)  # fused: twice as fast


class _Jax(_Functional):
    """JAX arrays of one dtype; under ``jax.jit`` shapes are known and values are not looked at."""

    name = "JAX"

    def __init__(self, dtype: Any) -> None:
        super().__init__("jax.numpy", dtype)

    def number(self, value: sympy.Expr) -> Array:
        return self.lib.asarray(real_number(value), self.dtype)

    def constant(self, values: np.ndarray[Any, Any]) -> Array:
        return self.lib.asarray(values.astype(np.float64), self.dtype)

    def take(self, x: Array, order: Sequence[int], dim: int) -> Array:
        return self.lib.take(x, np.asarray(order), axis=dim)

    def frozen(self, x: Array) -> Array:
        return import_module("jax").lax.stop_gradient(x)


def is_traced(x: Array) -> bool:
    """Whether ``x`` stands for an array not yet known, inside a transformation of JAX."""
    return library(x) == "JAX" and isinstance(x, import_module("jax").core.Tracer)


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


def dtype_kind(array: Any) -> str:
    """``"floating"``, ``"integer"``, ``"complex"``, ``"bool"``, ``"object"``, or the dtype's own name.

    Example:
        >>> dtype_kind(np.ones(3, np.float32)), dtype_kind(np.arange(3))
        ('floating', 'integer')
    """
    kinds = {"f": "floating", "i": "integer", "u": "integer", "c": "complex", "b": "bool", "O": "object"}
    letter = getattr(array.dtype, "kind", "")
    if letter in kinds:
        return kinds[letter]
    text = str(array.dtype).removeprefix("torch.")  # torch, and the narrow floats of JAX
    for kind in ("float", "bfloat", "complex", "bool", "int", "uint"):
        if text.startswith(kind):
            return {"float": "floating", "bfloat": "floating", "int": "integer", "uint": "integer"}.get(kind, kind)
    return text


def backend(home: str, dtype: Any = None, device: Any = None) -> Backend:
    """The backend of a library, in a dtype (float64, float32 with JAX, if omitted) and on a device of torch.

    Example:
        >>> backend("NumPy").number(sympy.Rational(1, 4))
        array(0.25)
    """
    if home == "torch":
        return _Torch(dtype or import_module("torch").float64, device)
    return _Jax(dtype or np.float32) if home == "JAX" else Backend(dtype or np.float64)
