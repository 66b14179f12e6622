"""The reading "numbers": the expression that is proved, run on arrays of NumPy, torch or JAX, or on exact elements.

Defines `evaluate`, `evaluate_all` and `read_sizes`.  What happens at each node is in `mha_sym.compute`, checks of what
is given in `mha_sym.arrays`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypedDict, Unpack, overload

from mha_sym.arrays import backend_for, check_arrays, prepare, read_sizes, solve_sizes
from mha_sym.backends import Array
from mha_sym.compute import MaskedRows, Run
from mha_sym.errors import DataProblem
from mha_sym.exact import Elements
from mha_sym.expr import Expr
from mha_sym.plan import plan_of

__all__ = ["evaluate", "evaluate_all", "read_sizes"]


class _Given(TypedDict, total=False):
    """What may be given besides expressions and arrays; explained at `evaluate`."""

    sizes: Mapping[str, int] | None
    permutations: Mapping[str, Sequence[int]] | None
    indices: Mapping[str, int] | None
    functions: Mapping[str, Callable[..., Array]] | None
    exact: Elements | None
    masked_rows: MaskedRows


@overload
def evaluate_all(
    exprs: Mapping[str, Expr], arrays: Mapping[str, Array], **given: Unpack[_Given]
) -> dict[str, Array]: ...


@overload
def evaluate_all(exprs: Sequence[Expr], arrays: Mapping[str, Array], **given: Unpack[_Given]) -> list[Array]: ...


def evaluate_all(
    exprs: Mapping[str, Expr] | Sequence[Expr],
    arrays: Mapping[str, Array],
    *,
    sizes: Mapping[str, int] | None = None,
    permutations: Mapping[str, Sequence[int]] | None = None,
    indices: Mapping[str, int] | None = None,
    functions: Mapping[str, Callable[..., Array]] | None = None,
    exact: Elements | None = None,
    masked_rows: MaskedRows = "refuse",
) -> dict[str, Array] | list[Array]:
    """Several expressions on the same arrays; what is written alike in several places is computed once.

    Args and errors are those of `evaluate`.  The results may share memory with one another.

    Example:
        >>> import numpy as np
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> x = Input("x", (axis("t"),))
        >>> evaluate_all({"twice": x + x, "negative": -x}, {"x": np.array([1.0, 2.0])})
        {'twice': array([2., 4.]), 'negative': array([-1., -2.])}
    """
    roots = list(exprs.values()) if isinstance(exprs, Mapping) else list(exprs)
    plan = plan_of(roots)
    check_arrays(plan.inputs, arrays)
    _refuse_unknown(sizes or {}, plan.sizes)
    backend = backend_for(plan.inputs, arrays, exact)
    run = Run(
        backend=backend,
        sizes=solve_sizes(plan.inputs, arrays, sizes or {}),
        arrays={name: prepare(node, arrays[name], backend) for name, node in plan.inputs.items()},
        permutations=permutations or {},
        functions=functions or {},
        masked_rows=masked_rows,
        plan=plan,
    )
    env = run.free_positions(roots, indices or {})
    run.prepare(env)
    values = [backend.result(run.take(root, env).array, list(run.arrays.values())) for root in roots]
    return dict(zip(exprs, values, strict=True)) if isinstance(exprs, Mapping) else values


def _refuse_unknown(sizes: Mapping[str, int], known: Collection[str]) -> None:
    for name in sizes:
        if name not in known:
            raise DataProblem(
                f"no size is called {name}", expected=", ".join(sorted(known)) or "none: all sizes are fixed",
                got=", ".join(sizes), hint="a size that is a number in the expression is not given again",
            )


def evaluate(
    expr: Expr,
    arrays: Mapping[str, Array],
    *,
    sizes: Mapping[str, int] | None = None,
    permutations: Mapping[str, Sequence[int]] | None = None,
    indices: Mapping[str, int] | None = None,
    functions: Mapping[str, Callable[..., Array]] | None = None,
    exact: Elements | None = None,
    masked_rows: MaskedRows = "refuse",
) -> Array:
    """The value of an expression on arrays, with the axes ``expr.axes`` in order.

    Args:
        expr: the expression.
        arrays: one array an input, by name, its axes in the order of the input's; a product axis is one axis.
        sizes: sizes that no array tells, by the name of their symbol.
        permutations: for each permutation by name, where it takes 0, 1, ...: entry i becomes entry ``order[i]``.
        indices: positions of indices that nothing binds, such as ``{"r": 2}`` for what belongs to head 2.
        functions: what ``fn:NAME`` computes, by NAME, entry by entry on arrays broadcast against each other.
        exact: exact arithmetic for NumPy object arrays, instead of floating point.
        masked_rows: what a softmax does with a row that keeps no key, which has no value (0/0): refuse it, or
            return weights 0.

    Raises:
        DataProblem: if arrays, sizes or permutations do not fit, hold NaN, or leave a row without a key.

    Example:
        >>> import numpy as np
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input, Softmax
        >>> x = Input("x", (axis("t"), axis("s")))
        >>> evaluate(Softmax(x, (axis("s"),)), {"x": np.zeros((2, 4))})
        array([[0.25, 0.25, 0.25, 0.25],
               [0.25, 0.25, 0.25, 0.25]])
    """
    return evaluate_all(
        [expr], arrays, sizes=sizes, permutations=permutations, indices=indices, functions=functions, exact=exact,
        masked_rows=masked_rows,
    )[0]
