"""Named axes: a name, a size, and the structure of a product or of a concatenation.

Defines `Axis`, `Index` (a position in an axis that a family binds, "head r"), `Permutation` and
the constructors `axis`, `product` and `blocks`.  Two axes of equal size are different axes: nothing
here, and nothing built on it, ever unifies axes because their sizes agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import sympy

from mha_sym.errors import AxisProblem

Size: TypeAlias = sympy.Expr


def size_symbol(name: str) -> sympy.Symbol:
    """A symbolic size: an integer of at least one.

    Example:
        >>> size_symbol("d_k").is_positive
        True
    """
    return sympy.Symbol(name, integer=True, positive=True)


@dataclass(frozen=True, slots=True)
class Axis:
    """A named axis.

    Attributes:
        name: how patterns and messages call it, e.g. ``t`` or ``(h k)``.
        size: number of positions, a positive integer expression of SymPy.
        factors: for a product axis, its factors, the slowest first: position ``r*d_k + j`` of
            ``(h k)`` is the pair ``(r, j)``.
        blocks: for a concatenation of unlike blocks, the blocks in order.

    Example:
        >>> product(axis("h"), axis("k", "d_k"))
        (h k): d_k*h
    """

    name: str
    size: Size
    factors: tuple[Axis, ...] = ()
    blocks: tuple[Axis, ...] = ()

    def __repr__(self) -> str:
        return f"{self.name}: {self.size}"

    @property
    def is_plain(self) -> bool:
        """Whether the axis is neither a product nor a concatenation."""
        return not self.factors and not self.blocks

    def primitive(self) -> tuple[Axis, ...]:
        """The plain axes inside, in order."""
        parts = self.factors or self.blocks
        return (self,) if not parts else tuple(p for part in parts for p in part.primitive())


def axis(name: str, size: str | int | sympy.Expr | None = None) -> Axis:
    """A plain axis.

    Args:
        name: its name in patterns: letters, digits and underscores.
        size: an integer, a size expression, or the name of a symbolic size; the axis' own name if omitted.

    Raises:
        AxisProblem: for a name that is not a word, or a size that is not a positive integer.

    Example:
        >>> axis("t", "T"), axis("m", 12)
        (t: T, m: 12)
    """
    if not name.isidentifier():
        raise AxisProblem(f"{name!r} is not a name for an axis", expected="a word such as t or head")
    value = size_symbol(size or name) if size is None or isinstance(size, str) else _as_size(size)
    if not (value.is_integer and value.is_positive):
        raise AxisProblem(
            f"axis {name!r} cannot have size {value}",
            expected="a positive integer, or an expression of symbolic sizes that is one",
            got=str(value),
            hint="an empty axis has no rows to attend to; sizes start at 1",
        )
    return Axis(name, value)


def _as_size(size: int | sympy.Expr) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size


def product(*factors: Axis) -> Axis:
    """The product axis ``(h k)``, first factor slowest, as in einops.

    Example:
        >>> product(axis("h"), axis("k", "d_k")).factors
        (h: h, k: d_k)
    """
    _refuse_repeats(factors, "product axis")
    if len(factors) < 2:
        raise AxisProblem("a product axis needs at least two factors", got=str(len(factors)))
    name = "(" + " ".join(f.name for f in factors) + ")"
    return Axis(name, sympy.Mul(*(f.size for f in factors)), factors=tuple(factors))


def blocks(*parts: Axis) -> Axis:
    """The axis ``(a + b)`` made by laying unlike blocks end to end.

    Example:
        >>> blocks(axis("past", "P"), axis("new", "N"))
        (past + new): N + P
    """
    _refuse_repeats(parts, "concatenated axis")
    if len(parts) < 2:
        raise AxisProblem("a concatenated axis needs at least two blocks", got=str(len(parts)))
    name = "(" + " + ".join(p.name for p in parts) + ")"
    return Axis(name, sympy.Add(*(p.size for p in parts)), blocks=tuple(parts))


def _refuse_repeats(parts: Iterable[Axis], where: str) -> None:
    names = [part.name for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise AxisProblem(f"axis {name!r} occurs twice", where=where, got=" ".join(names))


@dataclass(frozen=True, slots=True)
class Index:
    """A named position in an axis: the ``r`` of "head r", bound by `stack`, `concat` or `total`.

    Example:
        >>> Index("r", axis("h"))
        r in h: h
    """

    name: str
    axis: Axis

    def __repr__(self) -> str:
        return f"{self.name} in {self.axis!r}"


@dataclass(frozen=True, slots=True)
class Permutation:
    """An arbitrary bijection of an axis onto itself, known only by name.

    Example:
        >>> pi = Permutation("pi", axis("h"))
        >>> pi.inverse().inverse() == pi
        True
    """

    name: str
    axis: Axis
    inverted: bool = field(default=False)

    def inverse(self) -> Permutation:
        """The inverse bijection."""
        return Permutation(self.name, self.axis, not self.inverted)
