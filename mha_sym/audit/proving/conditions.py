"""Conditions that code puts on sizes, and what each leaves out.

Defines `once`, `excluded` and `in_words`; `one_by_one`, for code that was followed at one length only, and
`by_a_number`, for masks of finite numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from mha_sym.errors import Problem
from mha_sym.importers.graph import Condition, Constant, Graph, ImportProblem, Op, SizeValue
from mha_sym.importers.lifting.scalars import FILL

Sizes = Mapping[str, sympy.Expr | int]


def once(conditions: Sequence[Condition]) -> list[Condition]:
    """Conditions of which none says the same as another."""
    found: dict[tuple[type, Any], Condition] = {}
    for one in conditions:
        relation = one.relation.reversed if isinstance(one.relation, sympy.Ge | sympy.Gt) else one.relation
        found.setdefault((type(relation), sympy.expand(relation.lhs - relation.rhs)), one)
    return list(found.values())


def excluded(condition: Condition) -> Sizes | None:
    """The sizes that a condition leaves out, if it is one value of one size: ``B != 1`` leaves out B = 1.

    A product of sizes is 1 where all of them are: ``B h != 1`` leaves out B = 1, h = 1.
    """
    relation = condition.relation
    if isinstance(relation, sympy.Ne) and relation.rhs == 1 and relation.lhs.is_Mul:
        factors = relation.lhs.as_powers_dict()
        if all(one.is_Symbol and power.is_Integer for one, power in factors.items()):
            return {one.name: 1 for one in sorted(factors, key=str)}
    for one, other in ((relation.lhs, relation.rhs), (relation.rhs, relation.lhs)):
        if not one.is_Symbol or one in other.free_symbols:
            continue
        if isinstance(relation, sympy.Ne):
            return {one.name: other}
        least = relation.subs(one, 1)
        if other.is_Integer and least in (False, sympy.false) and relation.subs(one, 2) in (True, sympy.true):
            return {one.name: 1}
    return None


def in_words(sizes: Sizes | None) -> str:
    """``B = 1, T = h``."""
    return ", ".join(f"{name} = {size}" for name, size in (sizes or {}).items())


def by_a_number(graph: Graph) -> str:
    """What to say of undecided code that hides keys by a number that is too large to stand for minus infinity."""
    fills = [one for node in graph.nodes for one in _numbers(node.op) if FILL < one <= _HIDES]
    if not fills:
        return ""
    return (
        f"it seems to hide keys by {max(fills):g} and not by minus infinity: over the real numbers they keep a weight, "
        "if a small one, so that this is attention with that mask in numbers only; -1e9 and less is read as infinite"
    )


def _numbers(op: Op) -> list[float]:
    """The number that an operation of a graph is, if it is one."""
    if isinstance(op, SizeValue):
        return [float(op.value)] if op.value.is_number else []
    single = isinstance(op, Constant) and op.value.size == 1 and op.value.dtype.kind in "if"
    return [float(op.value.item())] if single and isinstance(op, Constant) else []


#: what is this small is there to hide a key
_HIDES = -100


def one_by_one(leaks: Sequence[str], problem: Problem) -> Problem | None:
    """What to say of code that loops over positions and could not be read; None of other code.

    Example:
        >>> told = one_by_one(("T = 4, since its value is asked for at a.py:7, for t in range(n):",), Problem("no"))
        >>> print(told.what)
        the code goes through positions one by one, so it was followed at T = 4 only, and there: no
    """
    leak = next((one for one in leaks if one.startswith(("T = ", "S = "))), None)
    if leak is None:
        return None
    size, _, place = leak.partition(", since its value is asked for at ")
    return ImportProblem(
        f"the code goes through positions one by one, so it was followed at {size} only, and there: {problem.what}",
        where=place, hint="compute all positions at once, as a product over the whole axis; without --prove, check "
        "compares it in numbers as it is",
    )  # fmt: skip
