"""From a torch trace to the graph: the loop over ATen calls, and the table that the files beside this one fill.

Defines `operation`, with which an entry of the table is made, `OPERATIONS`, the table, and `lowered`.  An operation
that is not in the table is refused with its place in the user's source as soon as something depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensor

from mha_sym.importers.builder import Builder
from mha_sym.importers.from_torch.cells import Cell
from mha_sym.importers.from_torch.trace import Trace, place_of
from mha_sym.importers.graph import Constant, Graph, ImportProblem, Ref, Role, Unfollowed
from mha_sym.importers.sizes import nonnegative, same

#: what an entry makes of its arguments: a tensor, several, or nothing
Made: TypeAlias = Any
Handler = TypeVar("Handler", bound=Callable[..., Made])


@dataclass(frozen=True)
class Operation:
    """An entry of the table.

    Attributes:
        names: ATen names without ``aten.`` and overload.
        words: what it is in the graph.
        make: takes the `Lowering` and the arguments by the names of ATen's schema.
    """

    names: tuple[str, ...]
    words: str
    make: Callable[..., Made]


#: the table, by ATen name
OPERATIONS: dict[str, Operation] = {}


def operation(*names: str, words: str) -> Callable[[Handler], Handler]:
    """Enter a function into the table under these names."""

    def enter(make: Handler) -> Handler:
        OPERATIONS.update(dict.fromkeys(names, Operation(names, words, make)))
        return make

    return enter


@dataclass(frozen=True)
class Empty:
    """A tensor without entries, such as the features after the last: it may be joined to others, and no more."""


@dataclass
class Lowering:
    """A graph under construction from a trace.

    Attributes:
        g: builds the graph.
        hints: the sizes with which the trace was made; they decide between cases, and the case is recorded.
    """

    g: Builder
    hints: Mapping[sympy.Symbol, int]
    made: dict[torch.fx.Node, Any] = field(default_factory=dict)

    def ref(self, value: Any) -> Ref:
        """A tensor's present value, or a number as a value without axes."""
        if isinstance(value, Cell):
            return value.read(self.g)
        if isinstance(value, sympy.Expr):
            return self.g.size(value)
        if isinstance(value, Empty):
            self.g.refuse("a tensor without entries is used here", hint="leave the operation out where nothing is left")
        return self.g.constant(np.asarray(value))

    def shape(self, cell: Cell | Empty) -> tuple[sympy.Expr, ...]:
        """The shape of a tensor."""
        return self.g.shape(cell.ref if isinstance(cell, Cell) else self.ref(cell))

    def map(self, f: str, *args: Any) -> Cell:
        """A scalar function entry by entry, as a new tensor."""
        return Cell(self.g.map(f, *(self.ref(one) for one in args)))

    def constant(self, value: Any) -> Any:
        """The numbers of a tensor that holds constants, None of another."""
        op = self.g.nodes[self.ref(value)].op
        return op.value if isinstance(op, Constant) else None

    def decide(self, value: sympy.Expr) -> bool:
        """Whether ``value >= 0``; where that depends on the sizes, the case of the hints is taken, and recorded."""
        if nonnegative(value):
            return True
        if nonnegative(-value - 1):
            return False
        held = bool(value.subs(self.hints) >= 0)
        number, rest = sympy.expand(value).as_coeff_Add()
        if rest.could_extract_minus_sign():
            self.g.condition(sympy.Le(-rest, number) if held else sympy.Gt(-rest, number))
        else:
            self.g.condition(sympy.Ge(rest, -number) if held else sympy.Lt(rest, -number))
        return held

    def cast(self, cell: Any, dtype: torch.dtype | None) -> Cell:
        """The tensor in another precision; the same one where there is nothing to do."""
        ref = self.ref(cell)
        new = ref if dtype is None else self.g.cast(ref, numpy_dtype(dtype))
        return cell if new == ref and isinstance(cell, Cell) else Cell(new)


def numpy_dtype(dtype: torch.dtype) -> str:
    """NumPy's name of a dtype; bfloat16, which NumPy lacks, counts as another short float."""
    return "float16" if dtype == torch.bfloat16 else str(dtype).removeprefix("torch.")


# ---------------------------------------------------------------- the loop


@dataclass(frozen=True)
class _Refused:
    """What stands for the result of an operation that is not understood; a complaint once somebody wants it."""

    problem: ImportProblem


def lowered(
    trace: Trace, hints: Mapping[sympy.Symbol, int], roles: Mapping[str, Role], values: Mapping[str, Any]
) -> Graph:
    """The graph of a trace.

    Args:
        trace: what ran.
        hints: the sizes at which it ran.
        roles: for every tensor that was given, whether it is an input, a parameter or a buffer.
        values: for buffers that are to be constants, their values.

    Raises:
        ImportProblem: for an operation that is not understood, with its place.
    """
    lo = Lowering(Builder(), hints)
    exact = not any(branch.fixes for branch in trace.branches)
    waiting = [None] * len(trace.sizes) + [*trace.tensors]
    outputs: list[Cell] = []
    for node in trace.graph.nodes:
        lo.g.place = place_of(node)
        if node.op == "placeholder":
            name = waiting.pop(0)
            lo.made[node] = _size(trace, node) if name is None else _given(lo, trace, node, name, roles, values)
        elif node.op == "get_attr":
            lo.made[node] = _kept(lo, trace.constants[str(node.target)])
        elif node.op == "output":
            outputs = _tensors(_resolved(lo, node.args))
        else:
            lo.made[node] = _called(lo, trace, node)
            _agree(lo, trace, node, exact)
    for branch in trace.branches:
        lo.g.place = branch.place
        lo.g.condition(branch.relation)
    return lo.g.graph(**{name: cell.read(lo.g) for name, cell in zip(trace.outputs, outputs, strict=True)})


def _kept(lo: Lowering, tensor: torch.Tensor) -> Cell:
    """A tensor that the code holds on to and that was no argument."""
    if isinstance(tensor, FakeTensor):
        lo.g.refuse("a tensor is used that came about unseen, by another way than operations of torch on its arguments")
    return Cell(lo.g.constant(tensor.detach().cpu().numpy()), protected="a tensor that the code keeps")


def _tensors(value: Any) -> list[Cell]:
    """The tensors in what was returned, in order."""
    if isinstance(value, list | dict):
        return [cell for one in (value.values() if isinstance(value, dict) else value) for cell in _tensors(one)]
    return [value] if isinstance(value, Cell) else []


def _size(trace: Trace, node: torch.fx.Node) -> Any:
    return trace.exact(node.meta["val"])


def _given(
    lo: Lowering, trace: Trace, node: torch.fx.Node, name: str, roles: Mapping[str, Role], values: Mapping[str, Any]
) -> Cell:
    if name in values:
        return Cell(lo.g.constant(values[name]), protected=f"the buffer {name}")
    tensor = node.meta["val"]
    shape = [sympy.sympify(trace.exact(n)) for n in tensor.shape]
    kind = {"param": "parameter", "buffer": "buffer", "user": "input"}[roles[name]]
    ref = lo.g.input(name, shape, numpy_dtype(tensor.dtype), roles[name])
    return Cell(ref, protected=f"the {kind} {name}")


def _called(lo: Lowering, trace: Trace, node: torch.fx.Node) -> Any:
    """The result of one call."""
    val = node.meta.get("val")
    if isinstance(val, torch.SymInt | torch.SymFloat | torch.SymBool):
        return _size(trace, node)
    if isinstance(val, torch.Tensor) and any(trace.exact(n) == 0 for n in val.shape):
        return Empty()
    name = str(getattr(node.target, "__name__", node.target)).partition(".")[0]
    schema = getattr(node.target, "_schema", None)
    args, kwargs = _resolved(lo, node.args), _resolved(lo, node.kwargs)
    if name == "getitem":
        return args[0][args[1]]
    if schema is not None and not str(schema.name).startswith("aten::"):
        raise Unfollowed(f"{schema.name} is not an operation of torch's own", where=str(lo.g.place), hint=_HINT)
    entry = OPERATIONS.get(name)
    if entry is not None:
        return entry.make(lo, *args, **kwargs)
    functional = OPERATIONS.get(name.removesuffix("_"))
    if name.endswith("_") and not name.endswith("__") and functional is not None:
        return _in_place(lo, functional, args, kwargs)
    problem = Unfollowed(
        f"the operation {_title(node)} is not in the vocabulary", where=str(lo.g.place), hint=_HINT
    )
    if schema is None or schema.is_mutable:
        raise problem  # what it changes is not known
    return _Refused(problem)


_HINT = "the table of operations in the docs says which are; see whether the code can do without it"


def _title(node: torch.fx.Node) -> str:
    return str(node.target).removesuffix(".default")


def _in_place(lo: Lowering, entry: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Cell:
    """An operation with ``_`` at the end of its name: the same one, written into its first argument."""
    target: Cell = args[0]
    new = entry.make(lo, *args, **kwargs)
    ref = lo.g.broadcast(lo.ref(new), lo.shape(target))
    target.write(lo.g, lo.g.cast(ref, lo.g.dtype(target.ref)))
    return target


def _resolved(lo: Lowering, value: Any) -> Any:
    """Arguments with what was made in place of the nodes of the trace."""
    if isinstance(value, torch.fx.Node):
        found = lo.made[value]
        if isinstance(found, _Refused):
            raise found.problem
        return found
    if isinstance(value, list | tuple):
        return [_resolved(lo, one) for one in value]
    if isinstance(value, Mapping):
        return {name: _resolved(lo, one) for name, one in value.items()}
    return value


def _agree(lo: Lowering, trace: Trace, node: torch.fx.Node, exact: bool) -> None:
    """Compare the shape with the one that torch found: the second opinion is free."""
    made, val = lo.made[node], node.meta.get("val")
    if not exact or not isinstance(made, Cell) or not isinstance(val, torch.Tensor):
        return
    theirs = [sympy.sympify(trace.exact(n)) for n in val.shape]
    ours = lo.g.shape(made.ref)
    if len(ours) != len(theirs) or not all(same(*pair) for pair in zip(ours, theirs, strict=True)):
        lo.g.refuse(f"{_title(node)} was not read as torch means it", expected=str(tuple(theirs)), got=str(ours))
