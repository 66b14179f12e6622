"""The order of summands and factors from line to line: what stays the same stays where it was.

Defines `aligned`.  Only the order of arguments changes, never what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mha_sym.proof.order import nest
from mha_sym.proof.terms import Add, Mul, Num, Size, Term, children, flat_args, key, rebuild, sum_over


def aligned(before: Term, after: Term) -> Term:
    """The second term with its summands and factors in the order of those of the first, as far as they are the same.

    Example:
        >>> from mha_sym.proof.terms import Entry
        >>> a, b, c = (Entry(name, ()) for name in "abc")
        >>> [one.name for one in aligned(Add((a, b)), Add((c, a))).args]
        ['a', 'c']
    """
    if key(before) == key(after):
        return before  # which is the same but for the order
    if type(before) is not type(after):
        return after
    if nest(before)[0] and nest(after)[0]:
        return _below_sums(before, after)
    inside, others = (flat_args(one) if isinstance(one, Add | Mul) else children(one) for one in (after, before))
    if isinstance(after, Add):
        return Add(tuple(_matched(others, inside)))
    if isinstance(after, Mul):
        factors = _matched(*([one for one in args if not isinstance(one, Num | Size)] for args in (others, inside)))
        return Mul((*(one for one in inside if isinstance(one, Num | Size)), *factors))
    if len(inside) != len(others) or not inside:
        return after
    return rebuild(after, tuple(aligned(one, other) for one, other in zip(others, inside, strict=True)))


def _below_sums(before: Term, after: Term) -> Term:
    """The same in what stands below sums, if these are over the same positions in any order."""
    (above, body), (over, inner) = nest(before), nest(after)
    if sorted(one.name for one in above) != sorted(one.name for one in over):
        return after
    return reduce(lambda found, one: sum_over(one, found), reversed(over), aligned(body, inner))


def _matched(before: Sequence[Term], after: Sequence[Term]) -> list[Term]:
    """The arguments in the order of those before; new ones stand where one went, and more at the first place."""
    left = list(after)
    places: list[Term | None] = []
    for one in before:
        same = next((n for n, other in enumerate(left) if key(other) == key(one)), None)
        places.append(None if same is None else left.pop(same))
    gone = places.count(None)
    found: list[Term] = []
    for old, new in zip(before, places, strict=True):
        if new is not None:
            found.append(new)
            continue
        more = len(left) - gone + 1 if len(left) > gone else 1
        taken, left, gone = left[:more], left[more:], gone - 1
        found += [aligned(old, one) for one in taken] if len(taken) == 1 else taken
    return found + left
