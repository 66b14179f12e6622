"""Patterns in the style of einops, over named axes: `rearrange`, `repeat`, `einsum`.

A pattern is read once into nodes of the language (`Split`, `Transpose`, `Join`, `Repeat`, `Contract`).
A product axis opens only into its own factors in their own order; reading ``(h k)`` as ``(k h)`` is not
a rearrangement but a raw reshape, and is refused with that hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mha_sym.axes import Axis
from mha_sym.errors import AxisProblem, show_axes
from mha_sym.expr import Contract, Expr, Join, Repeat, Select, Split, Transpose

_TOKEN = re.compile(r"\s*(\(\s*\w+(?:\s+\w+)*\s*\)|\w+)")  # one way to read a group: others would be tried one by one


def _side(text: str, pattern: str) -> list[str]:
    """``'b t (h k)'`` as ``['b', 't', '(h k)']``."""
    names, rest = [], text.rstrip()
    while rest.strip():
        found = _TOKEN.match(rest)
        if found is None:
            raise AxisProblem(
                f"pattern {pattern!r} cannot be read at {rest.strip()!r}",
                expected="names and parenthesised groups, such as 'b t (h k) -> b h t k'",
            )
        names.append(" ".join(found.group(1).replace("(", "( ").replace(")", " )").split()))
        rest = rest[found.end() :]
    return [name.replace("( ", "(").replace(" )", ")") for name in names]


def sides(pattern: str) -> tuple[list[str], list[str]]:
    """The names and groups on both sides of the arrow.

    Example:
        >>> sides("b t (h k) -> b h t k")
        (['b', 't', '(h k)'], ['b', 'h', 't', 'k'])
    """
    if pattern.count("->") != 1:
        raise AxisProblem(f"pattern {pattern!r} needs one arrow", expected="'b t (h k) -> b h t k'")
    left, right = pattern.split("->")
    return _side(left, pattern), _side(right, pattern)


def members(group: str) -> list[str]:
    """The names in a group: ``'(h k)'`` as ``['h', 'k']``, a name alone as itself."""
    return group.strip("()").split()


def _open(expr: Expr, left: list[str], pattern: str) -> Expr:
    """``expr`` with the groups of the left side split, after checking that the left side describes it."""
    if len(left) != len(expr.axes):
        raise AxisProblem(
            f"the pattern names {len(left)} axes, the expression has {len(expr.axes)}",
            where=f"'{pattern}'", axes=[show_axes(expr.axes)],
        )
    for name, one in zip(left, expr.axes, strict=True):
        if name == one.name or (name == "1" and one.size == 1):
            continue
        inner = [f.name for f in one.factors]
        hint = ""
        if name.startswith("(") and sorted(members(name)) == sorted(inner):
            hint = f"{one.name} has the factors {' '.join(inner)} in this order; reading them otherwise is a reshape"
        raise AxisProblem(
            f"the pattern says {name!r} where the axis is {one.name!r}",
            where=f"'{pattern}'", axes=[show_axes(expr.axes)], hint=hint,
        )
    for name, one in zip(left, expr.axes, strict=True):
        if name == "1":
            expr = Select(expr, one, 0)
    return expr


def rearrange(expr: Expr, pattern: str) -> Expr:
    """Split, reorder and join axes by name.

    Args:
        expr: the expression.
        pattern: ``'b t (h k) -> b h t k'``; every axis of the left side occurs on the right.

    Raises:
        AxisProblem: if the left side does not describe the axes, or an axis appears or is lost.

    Example:
        >>> from mha_sym.axes import axis, product
        >>> from mha_sym.expr import Input
        >>> q = Input("Q", (axis("t"), product(axis("h"), axis("k"))))
        >>> rearrange(q, "t (h k) -> h t k").axes
        (h: h, t: t, k: k)
    """
    left, right = sides(pattern)
    opened = _open(expr, left, pattern)
    wanted = [name for group in right for name in members(group)]
    whole = {name for name in right if name in {a.name for a in opened.axes}}
    kept = whole | {name for group in right for name in members(group)}  # an axis of pairs called k stays one, too
    for one in opened.axes:
        if one.factors and one.name not in kept:
            opened = Split(opened, one)
    wanted = [n for group in right for n in ([group] if group in whole else members(group))]
    have = {a.name: a for a in opened.axes}
    if sorted(wanted) != sorted(have):
        raise AxisProblem(
            "a rearrangement keeps every axis", where=f"'{pattern}'",
            expected=" ".join(have), got=" ".join(wanted), hint="use repeat to add an axis, einsum to sum one away",
        )
    order = tuple(have[name] for name in wanted)
    result: Expr = opened if order == opened.axes else Transpose(opened, order)
    for group in right:
        if group.startswith("(") and group not in whole:
            result = Join(result, tuple(have[name] for name in members(group)))
    return result


def repeat(expr: Expr, pattern: str, new: Iterable[Axis]) -> Expr:
    """Copy along new axes; a ``1`` on the left is an axis of size one that is given up.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> mask = Input("M", (axis("t"), axis("s")))
        >>> repeat(mask, "t s -> b t s", [axis("b")]).axes
        (b: b, t: t, s: s)
    """
    left, right = sides(pattern)
    opened = _open(expr, left, pattern)
    have = {a.name: a for a in (*opened.axes, *new)}
    for name in right:
        if name not in have:
            raise AxisProblem(
                f"axis {name!r} is neither there nor new", where=f"'{pattern}'", axes=[show_axes(expr.axes)]
            )
    return Repeat(opened, tuple(have[name] for name in right))


def einsum(pattern: str, *args: Expr) -> Expr:
    """Sum of a product over the axes that the result does not name: ``'b t m, m c -> b t c'``.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> x, w = Input("X", (axis("t"), axis("m"))), Input("W", (axis("m"), axis("c")))
        >>> einsum("t m, m c -> t c", x, w).axes
        (t: t, c: c)
    """
    if pattern.count("->") != 1:
        raise AxisProblem(f"pattern {pattern!r} needs one arrow", expected="'t m, m c -> t c'")
    left, right = pattern.split("->")
    sides = [_side(part, pattern) for part in left.split(",")]
    if len(sides) != len(args):
        raise AxisProblem(
            f"the pattern has {len(sides)} operands, {len(args)} were given", where=f"'{pattern}'",
            axes=[show_axes(a.axes) for a in args],
        )
    have: dict[str, Axis] = {}
    for names, arg in zip(sides, args, strict=True):
        _open(arg, names, pattern)
        have.update({a.name: a for a in arg.axes})
    out = []
    for name in _side(right, pattern):
        if name not in have:
            raise AxisProblem(f"axis {name!r} of the result is in no operand", where=f"'{pattern}'",
                              axes=[show_axes(a.axes) for a in args])
        out.append(have[name])
    return Contract(tuple(args), tuple(out))
