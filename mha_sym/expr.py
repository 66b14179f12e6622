"""The language: immutable expressions over named axes, refused at construction when malformed.

Defines the closed set of nodes (`NODES`) and nothing that reads them: meaning, numbers, trace, counts
and writing are modules of their own that dispatch on the node type.  Patterns in the style of einops
are in `mha_sym.pattern`; forms of attention are in `mha_sym.attention`.

Every node has ``axes`` (the axes of its value, in order) and ``children`` (the expressions it reads, in order).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import sympy

from mha_sym.axes import Axis, Index, Permutation, product
from mha_sym.axes import blocks as blocks_axis
from mha_sym.errors import AxisProblem, show_axes

Role = Literal["data", "weight", "bias", "mask", "gate"]


@dataclass(frozen=True)
class Expr:
    """Base of all nodes; ``axes`` is worked out, and the node validated, at construction."""

    axes: tuple[Axis, ...] = field(init=False, repr=False, compare=False)
    children: tuple[Expr, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        axes = self._axes()
        for position, one in enumerate(axes):
            if any(one.name == other.name for other in axes[:position]):
                raise AxisProblem(
                    f"axis {one.name!r} would occur twice", where=self.where, got=show_axes(axes)
                )
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "children", self._children())

    def _axes(self) -> tuple[Axis, ...]:
        raise NotImplementedError(type(self).__name__)

    def _children(self) -> tuple[Expr, ...]:
        found: list[Expr] = []
        for one in fields(self):
            value = getattr(self, one.name, None) if one.init else None
            if isinstance(value, Expr):
                found.append(value)
            elif isinstance(value, tuple):
                found.extend(item for item in value if isinstance(item, Expr))
        return tuple(found)

    @property
    def where(self) -> str:
        """The node's name in messages."""
        return type(self).__name__.lower()

    def __add__(self, other: Expr | int) -> Expr:
        return Map("add", (self, as_expr(other)))

    def __mul__(self, other: Expr | int) -> Expr:
        return Map("mul", (self, as_expr(other)))

    def __sub__(self, other: Expr | int) -> Expr:
        return Map("add", (self, Map("neg", (as_expr(other),))))

    def __neg__(self) -> Expr:
        return Map("neg", (self,))

    def axis(self, name: str) -> Axis:
        """The axis of that name.

        Raises:
            AxisProblem: if the expression has none.
        """
        return find_axis(self, name, self.where)


def as_expr(value: Expr | int | sympy.Expr) -> Expr:
    """A number as a scalar expression; an expression as itself."""
    return value if isinstance(value, Expr) else Scalar(sympy.Integer(value) if isinstance(value, int) else value)


def find_axis(expr: Expr, name: str, where: str) -> Axis:
    """The axis of ``expr`` called ``name``, or a complaint that shows what there is."""
    for one in expr.axes:
        if one.name == name:
            return one
    raise AxisProblem(f"axis {name!r} is not there", where=where, got=show_axes(expr.axes))


def _need(expr: Expr, axes: Iterable[Any], where: str) -> None:
    for one in axes:
        if not isinstance(one, Axis):
            raise AxisProblem(
                f"{one!r} is not an axis", where=where, expected="Axis objects, in a tuple", got=type(one).__name__,
                axes=[show_axes(expr.axes)], hint="write (x.axis('s'),) for the axis of x that is called s",
            )
        have = find_axis(expr, one.name, where)
        if have != one:
            raise AxisProblem(
                f"axis {one.name!r} has two meanings",
                where=where,
                expected=f"{one!r}",
                got=f"{have!r}",
                hint="axes agree by name and size and factors, never by size alone",
            )


def _union(args: Sequence[Expr], where: str) -> tuple[Axis, ...]:
    """All axes of the arguments in order of appearance; one name, one axis."""
    seen: dict[str, Axis] = {}
    for arg in args:
        for one in arg.axes:
            if seen.setdefault(one.name, one) != one:
                raise AxisProblem(
                    f"axis {one.name!r} has size {seen[one.name].size} on one side and {one.size} on the other",
                    where=where,
                    axes=[show_axes(a.axes) for a in args],
                )
    return tuple(seen.values())


# ---------------------------------------------------------------- leaves


@dataclass(frozen=True)
class Input(Expr):
    """An array given from outside: the data, a weight, a bias, a mask.

    ``boolean`` says that every entry is 0 or 1 (a mask of what is kept).
    """

    name: str
    over: tuple[Axis, ...]
    role: Role = "data"
    boolean: bool = False

    def _axes(self) -> tuple[Axis, ...]:
        if self.role not in get_args(Role):
            roles = ", ".join(get_args(Role))
            raise AxisProblem(
                f"there is no role {self.role!r}", where=f"input {self.name}", expected=f"one of {roles}",
                axes=[show_axes(self.over)], hint="the third part of an input says what it is, data if omitted",
            )
        return self.over


@dataclass(frozen=True)
class Scalar(Expr):
    """An exact number made of rationals, sizes and rational powers of sizes, such as ``1/sqrt(d_k)``.

    An integer of Python may be given; it becomes one of SymPy.
    """

    value: sympy.Expr

    def _axes(self) -> tuple[Axis, ...]:
        if isinstance(self.value, int):
            object.__setattr__(self, "value", sympy.Integer(self.value))
        if not isinstance(self.value, sympy.Expr) or self.value.has(sympy.Float):
            raise AxisProblem(
                "a scalar is an exact number", where="scalar", expected="an integer or a SymPy expression of sizes",
                got=repr(self.value), hint="write Scalar(sympy.Rational(1, 2)) for one half",
            )
        for symbol in sorted(self.value.free_symbols, key=str):
            if not (symbol.is_integer and symbol.is_positive):
                raise AxisProblem(
                    f"{symbol.name!r} in a scalar is not a size", where="scalar",
                    expected="a symbol declared as a positive integer, as by axis or size_symbol", got=repr(self.value),
                    hint=f"a number that may be anything is an input without axes: Input({symbol.name!r}, ())",
                )
        return ()


@dataclass(frozen=True)
class Table(Expr):
    """A constant array of exact rationals, given row by row, over axes of fixed size."""

    name: str
    over: tuple[Axis, ...]
    values: tuple[Any, ...]

    def _axes(self) -> tuple[Axis, ...]:
        _check_table(self.values, self.over, f"table {self.name}")
        return self.over


def _check_table(values: Any, over: tuple[Axis, ...], where: str) -> None:
    if not over:
        if not (isinstance(values, int) or getattr(values, "is_Rational", False)):
            raise AxisProblem("a table holds exact rationals", where=where, got=repr(values))
        return
    if not isinstance(values, tuple) or over[0].size != len(values):
        got = len(values) if isinstance(values, tuple) else repr(values)
        raise AxisProblem(
            f"axis {over[0].name!r} has size {over[0].size}", where=where, got=f"{got} entries", axes=[show_axes(over)]
        )
    for row in values:
        _check_table(row, over[1:], where)


@dataclass(frozen=True)
class Compare(Expr):
    """The 0/1 array ``[position in left  op  position in right + offset]``, e.g. causal: ``s <= t``."""

    op: Literal["le", "lt", "ge", "gt", "eq", "ne"]
    left: Axis
    right: Axis
    offset: int = 0

    def _axes(self) -> tuple[Axis, ...]:
        return (self.left, self.right)


# ---------------------------------------------------------------- arithmetic

#: operations of `Map`: number of arguments (None for any number)
MAP_OPS: dict[str, int | None] = {"add": None, "mul": None, "neg": 1, "exp": 1, "inv": 1}


@dataclass(frozen=True)
class Map(Expr):
    """An operation entry by entry; one argument must carry all the axes, the others are broadcast by name.

    ``op`` is one of `MAP_OPS`, or ``fn:NAME`` for a function of which only congruence is known.
    """

    op: str
    args: tuple[Expr, ...]

    @property
    def where(self) -> str:
        """The operation."""
        return self.op

    def _axes(self) -> tuple[Axis, ...]:
        if self.op not in MAP_OPS and not self.op.startswith("fn:"):
            raise AxisProblem(f"no pointwise operation {self.op!r}", expected=", ".join(MAP_OPS) + ", fn:NAME")
        arity = MAP_OPS.get(self.op)
        if not self.args or (arity is not None and len(self.args) != arity):
            raise AxisProblem(f"{self.op} takes {arity or 'some'} arguments", got=str(len(self.args)))
        union = _union(self.args, self.op)
        for arg in self.args:
            if len(arg.axes) == len(union):
                return arg.axes
        raise AxisProblem(
            "no operand carries all the axes, so the result would be an outer product",
            where=self.op,
            axes=[show_axes(a.axes) for a in self.args],
            hint="copy an operand along the missing axes with repeat, or use einsum",
        )


@dataclass(frozen=True)
class Contract(Expr):
    """Sum of the product of the arguments over every axis that is not in ``out``."""

    args: tuple[Expr, ...]
    out: tuple[Axis, ...]

    @property
    def summed(self) -> tuple[Axis, ...]:
        """The axes that are summed away."""
        return tuple(a for a in _union(self.args, "contract") if a not in self.out)

    def _axes(self) -> tuple[Axis, ...]:
        union = _union(self.args, "contract")
        for one in self.out:
            if one not in union:
                raise AxisProblem(
                    f"axis {one.name!r} of the result is in no operand",
                    where="contract",
                    axes=[show_axes(a.axes) for a in self.args],
                    got=show_axes(self.out),
                )
        return self.out


@dataclass(frozen=True)
class Reduce(Expr):
    """``sum`` or ``max`` over some axes."""

    op: Literal["sum", "max"]
    arg: Expr
    over: tuple[Axis, ...]

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, self.over, self.op)
        return tuple(a for a in self.arg.axes if a not in self.over)


@dataclass(frozen=True)
class Softmax(Expr):
    """``exp(x) / sum exp(x)``, the sum over the axes ``over``; where ``keep`` is 0 both count as 0."""

    arg: Expr
    over: tuple[Axis, ...]
    keep: Expr | None = None

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, self.over, "softmax")
        if not self.over:
            raise AxisProblem("softmax needs an axis", where="softmax", axes=[show_axes(self.arg.axes)])
        if self.keep is not None:
            _need(self.arg, self.keep.axes, "softmax, its mask")
            if not is_boolean(self.keep):
                raise AxisProblem(
                    "the mask of a softmax must be 0 or 1 everywhere",
                    where="softmax",
                    hint="declare the input with boolean=True, or add it to the scores if it is an additive mask",
                )
        return self.arg.axes


# ---------------------------------------------------------------- axes: split, join, reorder


@dataclass(frozen=True)
class Split(Expr):
    """A product axis ``(h k)`` becomes its own factors ``h k``, in place."""

    arg: Expr
    axis_: Axis

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, (self.axis_,), "split")
        if not self.axis_.factors:
            raise AxisProblem(
                f"axis {self.axis_.name!r} is not a product axis", where="split", axes=[show_axes(self.arg.axes)]
            )
        return tuple(p for a in self.arg.axes for p in (a.factors if a == self.axis_ else (a,)))


@dataclass(frozen=True)
class Join(Expr):
    """Adjacent axes ``h k`` become the product axis ``(h k)``."""

    arg: Expr
    factors: tuple[Axis, ...]

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, self.factors, "join")
        start = self.arg.axes.index(self.factors[0])
        if self.arg.axes[start : start + len(self.factors)] != self.factors:
            raise AxisProblem(
                "only adjacent axes, in order, can be joined",
                where="join",
                expected=show_axes(self.factors),
                axes=[show_axes(self.arg.axes)],
                hint="transpose first",
            )
        end = start + len(self.factors)
        return (*self.arg.axes[:start], product(*self.factors), *self.arg.axes[end:])


@dataclass(frozen=True)
class Transpose(Expr):
    """The same axes in another order."""

    arg: Expr
    order: tuple[Axis, ...]

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, self.order, "transpose")
        if len(self.order) != len(self.arg.axes):
            raise AxisProblem(
                "a transpose keeps every axis", where="transpose", axes=[show_axes(self.arg.axes)],
                got=show_axes(self.order),
            )
        return self.order


@dataclass(frozen=True)
class Repeat(Expr):
    """Copies along new axes; ``out`` is the order of old and new axes together."""

    arg: Expr
    out: tuple[Axis, ...]

    @property
    def added(self) -> tuple[Axis, ...]:
        """The axes along which the argument is copied."""
        return tuple(a for a in self.out if a not in self.arg.axes)

    def _axes(self) -> tuple[Axis, ...]:
        for one in self.arg.axes:
            if one not in self.out:
                raise AxisProblem(
                    f"repeat would lose axis {one.name!r}", where="repeat",
                    axes=[show_axes(self.arg.axes)], got=show_axes(self.out),
                )
        return self.out


@dataclass(frozen=True)
class Rename(Expr):
    """Axis ``old`` read as the axis ``new`` of the same size: the stated place where axes may be identified."""

    arg: Expr
    old: Axis
    new: Axis

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, (self.old,), "rename")
        if sympy.expand(self.old.size - self.new.size) != 0:
            raise AxisProblem(
                "renaming keeps the size", where="rename", expected=repr(self.old), got=repr(self.new)
            )
        return tuple(self.new if a == self.old else a for a in self.arg.axes)


@dataclass(frozen=True)
class Reshape(Expr):
    """A raw row-major reshape, as arrays do it: only the number of entries must agree, names do not matter."""

    arg: Expr
    shape: tuple[Axis, ...]

    def _axes(self) -> tuple[Axis, ...]:
        before, after = (sympy.Mul(*(a.size for a in axes)) for axes in (self.arg.axes, self.shape))
        if sympy.expand(before - after) != 0:
            raise AxisProblem(
                "a reshape keeps the number of entries", where="reshape",
                expected=f"{before} entries in {show_axes(self.arg.axes)}",
                got=f"{after} entries in {show_axes(self.shape)}",
            )
        return self.shape


@dataclass(frozen=True)
class Permute(Expr):
    """Entry ``i`` along ``perm.axis`` is the argument's entry ``perm(i)``."""

    arg: Expr
    perm: Permutation

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, (self.perm.axis,), "permute")
        return self.arg.axes


# ---------------------------------------------------------------- families and blocks


@dataclass(frozen=True)
class Select(Expr):
    """The slice at one position of an axis: at ``r``, an index, or at a fixed position."""

    arg: Expr
    axis_: Axis
    at: Index | int

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, (self.axis_,), "select")
        if isinstance(self.at, Index) and self.at.axis != self.axis_:
            raise AxisProblem(
                f"index {self.at.name!r} runs over another axis", where="select",
                expected=repr(self.axis_), got=repr(self.at.axis),
            )
        if isinstance(self.at, int) and (self.at < 0 or (self.axis_.size - self.at).is_positive is False):
            raise AxisProblem(f"no position {self.at}", where="select", axes=[show_axes(self.arg.axes)])
        return tuple(a for a in self.arg.axes if a != self.axis_)


@dataclass(frozen=True)
class Stack(Expr):
    """The family ``(body for r)`` as an array whose first axis is that of ``r``."""

    body: Expr
    index: Index

    def _axes(self) -> tuple[Axis, ...]:
        return (self.index.axis, *self.body.axes)


@dataclass(frozen=True)
class Concat(Expr):
    """``Concat_r body``: the members of a family side by side along ``along``, giving the axis ``(h k)``."""

    body: Expr
    index: Index
    along: Axis

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.body, (self.along,), "concat")
        return tuple(product(self.index.axis, a) if a == self.along else a for a in self.body.axes)


@dataclass(frozen=True)
class Total(Expr):
    """``sum_r body``: the sum of a family."""

    body: Expr
    index: Index

    def _axes(self) -> tuple[Axis, ...]:
        return self.body.axes


@dataclass(frozen=True)
class Blocks(Expr):
    """Unlike blocks end to end: argument ``n`` has the axis ``parts[n]`` where the result has their concatenation."""

    args: tuple[Expr, ...]
    parts: tuple[Axis, ...]

    def _axes(self) -> tuple[Axis, ...]:
        if len(self.args) != len(self.parts):
            raise AxisProblem("one block axis an argument", where="blocks", got=f"{len(self.args)} arguments")
        whole = blocks_axis(*self.parts)
        shapes = []
        for arg, part in zip(self.args, self.parts, strict=True):
            _need(arg, (part,), "blocks")
            shapes.append(tuple(whole if a == part else a for a in arg.axes))
        if any(shape != shapes[0] for shape in shapes):
            raise AxisProblem("the blocks differ in another axis", where="blocks", axes=[show_axes(s) for s in shapes])
        return shapes[0]


@dataclass(frozen=True)
class Block(Expr):
    """One block of a concatenated axis: a slice."""

    arg: Expr
    axis_: Axis
    number: int

    def _axes(self) -> tuple[Axis, ...]:
        _need(self.arg, (self.axis_,), "block")
        if not 0 <= self.number < len(self.axis_.blocks):
            raise AxisProblem(f"axis {self.axis_.name!r} has no block {self.number}", where="block")
        return tuple(a.blocks[self.number] if a == self.axis_ else a for a in self.arg.axes)


@dataclass(frozen=True)
class Named(Expr):
    """A value with a name (Q, K, V, S, A, Z, Y): derivations keep it folded until a step needs it open.

    ``reason`` is what a reader is told when the name is replaced by its definition, and ``words`` what it stands for,
    if its name does not say.
    """

    arg: Expr
    name: str
    reason: str = "definition"
    words: str = ""

    def _axes(self) -> tuple[Axis, ...]:
        return self.arg.axes


#: every node there is; a reading must say what it does with each
NODES: tuple[type[Expr], ...] = (
    Input, Scalar, Table, Compare, Map, Contract, Reduce, Softmax, Split, Join, Transpose, Repeat, Rename,
    Reshape, Permute, Select, Stack, Concat, Total, Blocks, Block, Named,
)  # fmt: skip


def is_boolean(expr: Expr) -> bool:
    """Whether every entry is 0 or 1 by construction.

    Example:
        >>> from mha_sym.axes import axis
        >>> is_boolean(Compare("le", axis("s", "T"), axis("t", "T")))
        True
    """
    match expr:
        case Input(boolean=boolean):
            return boolean
        case Compare():
            return True
        case Scalar(value=value):
            return value in (0, 1)
        case Map(op="mul", args=args):
            return all(is_boolean(a) for a in args)
        case Map(op="add", args=(Scalar(value=one), Map(op="neg", args=(arg,)))):
            return one == 1 and is_boolean(arg)
        case Split() | Join() | Transpose() | Repeat() | Rename() | Reshape() | Permute() | Select() | Block():
            return is_boolean(expr.arg)
        case Named():
            return is_boolean(expr.arg)
        case Stack(body=body) | Concat(body=body):
            return is_boolean(body)
        case Blocks(args=args):
            return all(is_boolean(a) for a in args)
        case _:
            return False


def inputs(expr: Expr) -> tuple[Input, ...]:
    """The distinct inputs, in order of first occurrence.

    Raises:
        AxisProblem: if one name stands for two different inputs.
    """
    found: dict[str, Input] = {}
    for node in walk(expr):
        if isinstance(node, Input) and found.setdefault(node.name, node) != node:
            raise AxisProblem(
                f"input {node.name!r} is two different things",
                axes=[show_axes(found[node.name].axes), show_axes(node.axes)],
            )
    return tuple(found.values())


def walk(expr: Expr) -> tuple[Expr, ...]:
    """Every distinct node below and including ``expr``, children before parents, shared nodes once."""
    seen: dict[int, Expr] = {}

    def visit(node: Expr) -> None:
        if id(node) not in seen:
            for child in node.children:
                visit(child)
            seen[id(node)] = node

    visit(expr)
    return tuple(seen.values())
