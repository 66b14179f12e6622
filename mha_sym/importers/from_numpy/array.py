"""Arrays without values: what NumPy code does to them becomes a graph.

Defines `Traced`, an object that NumPy, its functions and einops take for an array.  Functions are in
`mha_sym.importers.from_numpy.functions`; here are the methods, operators, indexing, and writing in place, which is
followed only where no other array can see it.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy
from numpy.lib.mixins import NDArrayOperatorsMixin

from mha_sym.importers.from_numpy.slices import counted, sliced
from mha_sym.importers.graph import Ref
from mha_sym.importers.session import Dim, Session, exact
from mha_sym.importers.sizes import same

#: ufuncs by name, and the scalar function each is
UFUNCS: dict[str, str] = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg",
    "exp": "exp", "sqrt": "sqrt", "power": "pow", "float_power": "pow", "log": "log", "absolute": "abs", "sin": "sin",
    "cos": "cos", "tanh": "tanh", "minimum": "min", "maximum": "max", "fmax": "max", "equal": "eq", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "logical_not": "not", "invert": "not",
    "isneginf": "isneginf", "isinf": "isneginf",
    "logical_and": "and", "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or",
}  # fmt: skip


class Relatives(weakref.WeakSet["Traced"]):
    """Arrays that may share memory, and whether the memory is the caller's."""

    given = False


class Traced(NDArrayOperatorsMixin):
    """An array of a graph: a shape, a dtype, no values."""

    __array_priority__ = 1000

    def __init__(self, session: Session, ref: Ref, relatives: Relatives | None = None) -> None:
        self.session = session
        self.ref = ref
        self.relatives = Relatives() if relatives is None else relatives
        self.relatives.add(self)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"array of shape {self.shape}"

    # ------------------------------------------------------------ what it is

    @property
    def sizes(self) -> tuple[sympy.Expr, ...]:
        """The shape in SymPy's terms."""
        return self.session.builder.shape(self.ref)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape as code sees it."""
        return tuple(map(self.session.dim, self.sizes))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return np.dtype(self.session.builder.dtype(self.ref))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.sizes)

    @property
    def size(self) -> Any:
        """The number of entries."""
        return self.session.dim(sympy.expand(sympy.Mul(*self.sizes)))

    def __len__(self) -> int:
        first = self.sizes[0]
        return int(first) if first.is_Integer else self.session.leak(first)

    def __iter__(self) -> Any:
        return (self[n] for n in range(len(self)))

    def __bool__(self) -> bool:
        self.session.here().refuse("the code decides on the values of an array", hint="what is proved has no branches")

    def __array__(self, *args: Any, **options: Any) -> Any:
        self.session.here().refuse(
            "a function outside the vocabulary wants the values of an array",
            hint="operations that are followed are listed in the documentation",
        )  # fmt: skip

    __float__ = __int__ = __index__ = __array__

    # ------------------------------------------------------------ NumPy's protocols

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return apply_ufunc(self.session, ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from mha_sym.importers.from_numpy.functions import call  # which makes arrays of this kind

        return call(self.session, func, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        from mha_sym.importers.from_numpy.functions import METHODS

        if name in METHODS:
            return lambda *args, **kwargs: METHODS[name](self, *args, **kwargs)
        if not name.startswith("_") and hasattr(np.ndarray, name):
            self.session.here().refuse(f"the method {name!r} of arrays is not in the vocabulary")
        raise AttributeError(f"an array has no attribute {name!r}")

    @property
    def T(self) -> Traced:
        """All axes reversed."""
        return self.view_of(self.session.here().permute(self.ref, range(self.ndim)[::-1]))

    @property
    def mT(self) -> Traced:
        """The last two axes exchanged."""
        return self.view_of(self.session.here().swap(self.ref, -1, -2))

    def view_of(self, ref: Ref) -> Traced:
        """An array that may share memory with this one."""
        return Traced(self.session, ref, self.relatives)

    # ------------------------------------------------------------ indexing

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Traced) and key.dtype == bool and key.sizes == self.sizes:
            return Picked(self, key)
        return self.view_of(index(self.session, self.ref, key if isinstance(key, tuple) else (key,)))

    def __setitem__(self, key: Any, value: Any) -> None:
        builder = self.session.here()
        new = as_ref(self.session, value)
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(one, Traced) and one.dtype == bool for one in parts):
            made = masked(self.session, self.ref, parts, new)
        elif key is Ellipsis or key == slice(None):
            made = builder.broadcast(new, self.sizes)
        else:
            made = written(self.session, self.ref, parts, new)
        self.write(made)

    def write(self, ref: Ref) -> None:
        """Become another value in place, if nothing else can see it."""
        builder = self.session.here()
        if any(other is not self for other in self.relatives):
            builder.refuse("an array is written to that another array may share", hint="copy it before writing")
        if self.relatives.given:
            builder.refuse("an input is written to", hint="copy it before writing")
        self.ref = builder.broadcast(ref, self.sizes)


class Picked:
    """The entries where a mask is true, in no order: their sum and their maximum can be followed."""

    def __init__(self, array: Traced, keep: Traced) -> None:
        self.array, self.keep = array, keep

    def _over(self, op: Any, otherwise: Any) -> Traced:
        session, array = self.array.session, self.array
        builder = session.here()
        kept = builder.map("where", self.keep.ref, array.ref, builder.size(otherwise))
        return Traced(session, builder.reduce(op, kept, range(array.ndim)))

    def max(self) -> Traced:
        """The largest of them."""
        return self._over("max", -sympy.oo)

    def sum(self) -> Traced:
        """Their sum."""
        return self._over("sum", sympy.Integer(0))

    def __array__(self, *args: Any, **options: Any) -> Any:
        self.array.session.here().refuse(
            "which entries are picked depends on the values of an array", hint="choose with np.where"
        )

    def __getattr__(self, name: str) -> Any:
        return self.__array__()


def as_ref(session: Session, value: Any) -> Ref:
    """A value of Python or NumPy as one of the graph."""
    if isinstance(value, Traced):
        return value.ref
    builder = session.here()
    if isinstance(value, Dim):
        return builder.size(value.expr)
    if isinstance(value, bool | np.bool_):
        return builder.constant(np.bool_(value))
    number = exact(value)
    if number is not None:
        return builder.size(number)
    if isinstance(value, np.ndarray):
        known = _owned(session, value)
        if known is not None:
            return known
    if isinstance(value, list | tuple) and any(isinstance(v, Traced | Dim) for v in value):
        return builder.stack([as_ref(session, v) for v in value])
    return builder.constant(value)


def _owned(session: Session, value: Any) -> Ref | None:
    """A weight that the code owns, or its transpose, as the input that stands for it."""
    for array, ref in session.owned:
        if value is array or (value.shape == array.shape and value.strides == array.strides and _starts(value, array)):
            return ref
        if value.shape == array.T.shape and value.strides == array.T.strides and _starts(value, array):
            return session.here().permute(ref, range(array.ndim)[::-1])
        if np.may_share_memory(value, array):
            session.here().refuse(
                "a part of a weight is taken in a way that is not followed", hint="hand weights over as arguments"
            )
    return None


def _starts(one: Any, other: Any) -> bool:
    return bool(one.__array_interface__["data"] == other.__array_interface__["data"])


def apply_ufunc(session: Session, ufunc: Any, method: str, inputs: Any, options: dict[str, Any]) -> Any:
    """A ufunc of NumPy on arrays and sizes."""
    builder, name = session.here(), ufunc.__name__
    target, chosen = options.pop("out", (None,))[0], options.pop("where", True)
    options.pop("dtype", None)
    if method == "reduce" and name in ("add", "maximum"):
        from mha_sym.importers.from_numpy.functions import reduced

        return reduced("sum" if name == "add" else "max", inputs[0], options.get("axis", 0), options.get("keepdims"))
    if method != "__call__" or options:
        builder.refuse(f"numpy.{name} called as {method} with {', '.join(options) or 'nothing'} is not followed")
    if all(exact(v) is not None for v in inputs) and name in ("sqrt", "exp", "square"):
        return _of_number(session, name, inputs[0])
    refs = [as_ref(session, v) for v in inputs]
    if name in ("matmul", "vecdot"):
        made = builder.matmul(*refs)
    elif name == "isfinite":  # there is no other infinity, and no NaN, over the reals
        made = builder.map("not", builder.map("isneginf", refs[0]))
    elif name in ("square", "reciprocal", "positive"):
        one = builder.size(1)
        made = {"square": lambda: builder.map("mul", refs[0], refs[0]), "positive": lambda: refs[0],
                "reciprocal": lambda: builder.map("div", one, refs[0])}[name]()  # fmt: skip
    elif name in UFUNCS:
        made = builder.map(UFUNCS[name], *refs)
    else:
        builder.refuse(f"numpy.{name} is not in the vocabulary", expected=", ".join(sorted(UFUNCS)))
    if chosen is not True:
        if not isinstance(target, Traced):
            builder.refuse(f"numpy.{name} with where is followed with out", hint="say out=np.zeros_like(x)")
        made = builder.map("where", as_ref(session, chosen), made, target.ref)
    if isinstance(target, Traced):
        target.write(made)
        return target
    return Traced(session, made)


def _of_number(session: Session, name: str, value: Any) -> Any:
    number = exact(value)
    if number is not None and name in ("sqrt", "square"):
        return session.dim(sympy.sqrt(number) if name == "sqrt" else number**2)
    return Traced(session, session.here().map(name, as_ref(session, value)))


# ---------------------------------------------------------------- basic indexing


def index(session: Session, ref: Ref, key: Sequence[Any]) -> Ref:
    """``x[key]`` for whole numbers, slices, None, an ellipsis, and one array of whole numbers."""
    builder = session.here()
    rank = len(builder.shape(ref))
    named = sum(k is not None and k is not Ellipsis for k in key)
    if not any(k is Ellipsis for k in key):
        key = [*key, Ellipsis]
    place = next(n for n, k in enumerate(key) if k is Ellipsis)
    if named > rank:
        builder.refuse(f"{named} positions for an array of {rank} axes")
    lists = sum(isinstance(k, list | np.ndarray | Traced) for k in key)
    if lists > 1 or (lists and any(exact(k) is not None for k in key)):
        builder.refuse("several lists of positions at once are not followed", hint="take them one after the other")
    full = [*key[:place], *[slice(None)] * (rank - named), *key[place + 1 :]]
    axis = 0
    for one in full:
        if isinstance(one, Traced) and one.dtype.kind in "iu":
            ref, axis = builder.take(ref, axis, one.ref), axis + one.ndim
        elif isinstance(one, Traced):
            builder.refuse("which entries are picked depends on the values of an array", hint="choose with np.where")
        elif one is None:
            shape = builder.shape(ref)
            ref = builder.reshape(ref, [*shape[:axis], 1, *shape[axis:]])
            axis += 1
        elif isinstance(one, slice):
            ref, axis = sliced(session, ref, axis, one), axis + 1
        elif exact(one) is not None:
            ref = builder.select(ref, axis, counted(session, exact(one), builder.shape(ref)[axis]))
        elif isinstance(one, list | np.ndarray) and np.asarray(one).dtype.kind in "iu" and np.ndim(one) == 1:
            ref, axis = builder.gather(ref, axis, [int(n) for n in one]), axis + 1
        else:
            builder.refuse(f"an index of type {type(one).__name__} is not followed")
    return ref


def masked(session: Session, ref: Ref, key: Sequence[Any], new: Ref) -> Ref:
    """``x[..., keep] = number``: the axes of a boolean mask are axes of the array, in place."""
    builder = session.here()
    (mask,) = [k for k in key if isinstance(k, Traced)] if sum(isinstance(k, Traced) for k in key) == 1 else [None]
    others = [k for k in key if k is not mask and k is not Ellipsis]
    if mask is None or any(not isinstance(k, slice) or k != slice(None) for k in others) or builder.shape(new):
        builder.refuse(
            "writing to picked entries is followed with one boolean mask and one number", hint="write it with np.where"
        )
    place = next(n for n, k in enumerate(key) if k is mask)
    rank, behind = len(builder.shape(ref)), len(key) - place - 1
    ahead = rank - mask.ndim - behind if any(k is Ellipsis for k in key[:place]) else place
    whole = builder.shape(ref)[ahead : ahead + mask.ndim]
    if len(whole) != mask.ndim or not all(map(same, whole, mask.sizes)):
        builder.refuse("a mask has the sizes of the axes that it picks from", got=f"{mask.sizes}", expected=f"{whole}")
    keep = builder.reshape(mask.ref, [*mask.sizes, *[1] * (rank - ahead - mask.ndim)])
    return builder.map("where", keep, new, ref)


def placed(session: Session, ref: Ref, key: Mapping[int, Any], new: Ref) -> Ref:
    """``x[..., 2:, ..., 0] = number``, by axis: where positions are these."""
    builder, shape, here = session.here(), session.builder.shape(ref), session.builder.constant(True)
    for axis, one in key.items():
        place = builder.reshape(builder.iota(shape[axis]), [shape[axis], *[1] * (len(shape) - axis - 1)])
        if isinstance(one, slice):
            if one.step not in (None, 1):
                builder.refuse("writing to every few positions is not followed")
            ends = {"ge": one.start, "lt": one.stop}
            tests = [(f, counted(session, exact(at), shape[axis])) for f, at in ends.items() if at is not None]
        else:
            tests = [("eq", counted(session, exact(one), shape[axis]))]
        for f, at in tests:
            here = builder.map("and", here, builder.map(f, place, builder.size(at)))
    return builder.map("where", here, new, ref)


def written(session: Session, ref: Ref, key: Sequence[Any], new: Ref) -> Ref:
    """``x[key] = new`` where the key is one slice or position along one axis: the parts end to end."""
    builder = session.here()
    rank = len(builder.shape(ref))
    if any(k is Ellipsis for k in key):
        place = next(n for n, k in enumerate(key) if k is Ellipsis)
        key = (*key[:place], *[slice(None)] * (rank - len(key) + 1), *key[place + 1 :])
    cuts = [n for n, k in enumerate(key) if not (isinstance(k, slice) and k == slice(None))]
    if not builder.shape(new) and all(isinstance(key[n], slice) or exact(key[n]) is not None for n in cuts):
        return placed(session, ref, {n: key[n] for n in cuts}, new)
    if len(cuts) != 1:
        builder.refuse("writing to a part that is cut along several axes is not followed")
    axis, one = cuts[0], key[cuts[0]]
    size = builder.shape(ref)[axis]
    if isinstance(one, slice):
        start = sympy.Integer(0) if one.start is None else counted(session, exact(one.start), size)
        stop = size if one.stop is None else counted(session, exact(one.stop), size)
    elif exact(one) is not None:
        start = counted(session, exact(one), size)
        stop = start + 1
        if len(builder.shape(new)) == rank - 1:
            shape = builder.shape(new)
            new = builder.reshape(new, [*shape[:axis], 1, *shape[axis:]])
    else:
        builder.refuse(f"writing at an index of type {type(one).__name__} is not followed")
    target = [sympy.expand(stop - start) if n == axis else s for n, s in enumerate(builder.shape(ref))]
    parts = [builder.broadcast(new, target)]
    if start != 0:
        parts.insert(0, builder.slice(ref, axis, 0, start))
    if sympy.expand(size - stop) != 0:
        parts.append(builder.slice(ref, axis, stop, sympy.expand(size - stop)))
    return builder.concat(parts, axis)
