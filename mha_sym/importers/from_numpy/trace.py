"""Running NumPy code on arrays without values, with every size a symbol.

Defines `trace`.  While the code runs, those functions of NumPy and `math` that take sizes and no array (``ones``,
``arange``, ``sqrt``, ...) understand symbolic sizes as well; for everything else they are what they were.  This runs
the user's code.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import sympy
from einops._backends import AbstractBackend

from mha_sym.importers.from_numpy.array import Traced
from mha_sym.importers.from_numpy.created import CREATED
from mha_sym.importers.from_numpy.functions import FUNCTIONS
from mha_sym.importers.graph import Graph, ImportProblem
from mha_sym.importers.session import Dim, Session


def trace(run: Callable[[Session], Mapping[str, Any]], session: Session | None = None) -> Graph:
    """The graph of what code returns.

    Args:
        run: makes its inputs with `new_input`, calls the code, and gives the outputs by name.
        session: where decisions on sizes are kept, a new one if omitted.

    Raises:
        ImportProblem: for what is outside the vocabulary, with the line of the code.
        Leak: if the code needs the value of a size; the caller fixes the size and tries again.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> n = size_symbol("n")
        >>> graph = trace(lambda s: {"y": np.exp(new_input(s, "x", (n, 3))).sum(-1)})
        >>> graph.nodes[graph.outputs["y"]].shape
        (n,)
    """
    session = session or Session()
    with following(session):
        outputs = run(session)
    if session.leaks:
        raise session.leaks[0]
    for problem in session.builder.refused:  # which the code caught, and went another way than it goes with values
        raise problem
    refs = {}
    for name, value in outputs.items():
        if not isinstance(value, Traced):
            raise ImportProblem(
                f"{name} is {type(value).__name__}, not made of the inputs", expected="an array",
            )  # fmt: skip
        refs[name] = value.ref
    return session.builder.graph(**refs)


def new_input(session: Session, name: str, shape: tuple[sympy.Expr | int, ...], dtype: str = "float64") -> Traced:
    """An array from outside."""
    made = Traced(session, session.builder.input(name, shape, dtype))
    made.relatives.given = True
    return made


@contextlib.contextmanager
def following(session: Session) -> Iterator[None]:
    """While this lasts, functions that take sizes understand symbolic ones."""
    saved = [(np, name, getattr(np, name)) for name in CREATED] + [(math, "sqrt", math.sqrt), (math, "pow", math.pow)]
    try:
        for module, name, original in saved:
            setattr(module, name, _either(session, module, name, original))
        yield
    finally:
        for module, name, original in saved:
            setattr(module, name, original)


def _either(session: Session, module: Any, name: str, original: Any) -> Callable[..., Any]:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if not any(map(_symbolic, (*args, *kwargs.values()))):
            return original(*args, **kwargs)
        if module is math:
            return args[0].sqrt() if name == "sqrt" else args[0] ** args[1]
        return CREATED[name](session, *args, **kwargs)

    return chosen


def _symbolic(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_symbolic, value))
    return isinstance(value, Traced | Dim)


class EinopsBackend(AbstractBackend):
    """What einops needs to rearrange arrays without values; einops finds it by itself."""

    framework_name = "mha_sym"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether it is one of ours."""
        return isinstance(tensor, Traced)

    def reshape(self, x: Any, shape: Any) -> Any:
        """Row-major."""
        return x.reshape(tuple(shape))

    def transpose(self, x: Any, axes: Any) -> Any:
        """Axes in another order."""
        return x.transpose(tuple(axes))

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        """Sum, mean or maximum."""
        if operation not in ("sum", "max", "mean"):
            x.session.here().refuse(f"a reduction by {operation} is not in the vocabulary")
        return FUNCTIONS[operation](x.session, x, tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: Any) -> Any:
        """A list of arrays."""
        return FUNCTIONS["stack"](tensors[0].session, tensors)

    def add_axes(self, x: Any, n_axes: int, pos2len: Any) -> Any:
        """Copies along new axes."""
        shape: list[Any] = list(x.shape)
        for position in range(n_axes):
            if position in pos2len:
                shape.insert(position, 1)
        x = self.reshape(x, shape)
        for position, length in pos2len.items():
            shape[position] = length
        return FUNCTIONS["broadcast_to"](x.session, x, tuple(shape))

    def is_float_type(self, x: Any) -> bool:
        """Whether a mean may be taken."""
        return bool(x.dtype.kind == "f")

    def einsum(self, pattern: str, *x: Any) -> Any:
        """A contraction."""
        return FUNCTIONS["einsum"](x[0].session, pattern, *x)
