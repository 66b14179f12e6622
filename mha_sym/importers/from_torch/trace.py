"""Tracing a torch callable with sizes that stay symbols; with the two files that it uses, all that knows torch inside.

Defines `trace`, and what it gives: a `Trace` of ATen calls, their places in the user's source, and the `Branch`es that
the code took on a size; `Asked`, where a number was wanted of a size and there is no trace.  Nothing here knows what an
ATen operation means.  Importing this file imports torch.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias
from unittest import mock

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, GuardOnDataDependentSymNode, ShapeEnv

from mha_sym.importers.from_torch.expressions import plain
from mha_sym.importers.from_torch.quiet import quiet
from mha_sym.importers.graph import ImportProblem, Place

#: parts of the names of files whose lines are not the user's
_LIBRARIES = ("/torch/", "/einops/", "/opt_einsum/", "/contextlib.py", "/mock.py", "<")
#: so many of the user's lines, one called from the other, are kept
_LINES = 5
_HERE = __file__
_PACKAGE = str(Path(__file__).resolve().parents[2])
Size: TypeAlias = sympy.Expr | int
Sizes: TypeAlias = Mapping[sympy.Symbol, int]


@dataclass(frozen=True, slots=True)
class Branch:
    """What was asked of the sizes while the code ran, and the answer, as a relation that held.

    Attributes:
        relation: what holds of the sizes wherever this trace is the right one.
        place: where it was asked.
        fixes: whether the answer was a number, so that the code is good for this number only.
    """

    relation: Any
    place: Place
    fixes: bool = False


class Asked(ImportProblem):
    """Code that took sizes for numbers, and cannot be followed with the others as symbols; ``branches`` say where."""

    branches: tuple[Branch, ...] = ()

    @classmethod
    def at(cls, branches: Sequence[Branch], what: str) -> Asked | None:
        """The complaint about the branches that fix a size, if there are any."""
        fixing = tuple(one for one in branches if one.fixes)
        if not fixing:
            return None
        made = cls(what, where=str(fixing[0].place))
        made.branches = fixing
        return made


@dataclass(frozen=True)
class Trace:
    """The operations that ran, from the arguments of ``trace`` to what was returned.

    Attributes:
        graph: torch's own record of them.
        constants: tensors that the code held on to and that were no arguments, by the name in the graph.
        tensors: the keys of the tensors that were given, in the order of the graph's tensor placeholders.
        sizes: the symbols, in the order of the placeholders before those.
        branches: what was asked of the sizes, in order.
        symbols: torch's symbols, and ours.
        outputs: the names of the tensors that were returned, in order.
    """

    graph: torch.fx.Graph
    constants: Mapping[str, torch.Tensor]
    tensors: tuple[str, ...]
    sizes: tuple[sympy.Symbol, ...]
    branches: tuple[Branch, ...]
    symbols: Mapping[sympy.Symbol, sympy.Expr]
    outputs: tuple[str, ...] = ()

    def specialised(self, sizes: Mapping[sympy.Symbol, sympy.Expr]) -> Trace:
        """The same with numbers in place of some sizes."""
        return replace(self, symbols={theirs: sizes.get(ours, ours) for theirs, ours in self.symbols.items()})

    def exact(self, value: Any) -> Any:
        """A size, number or truth value of torch's, as SymPy has it in our symbols; anything else as it is."""
        node = getattr(value, "node", None)
        return value if node is None else plain(node._expr, self.symbols)


def trace(
    call: Callable[[Mapping[str, torch.Tensor], Callable[[Size], Any]], Any],
    tensors: Mapping[str, tuple[Sequence[Size], torch.dtype]],
    hints: Sizes,
) -> Trace:
    """Run a callable once on tensors that have sizes and no entries.

    Args:
        call: takes the tensors by key, and a function that gives a size of ours as torch has it.
        tensors: the shape and dtype of each.
        hints: a number for every symbol.  It decides which branches the code takes; each is recorded.

    Raises:
        Asked: if that comes of a size that it took for a number.
        Exception: whatever the callable raises, and torch's own complaints about what cannot be traced.
    """
    env = _Env()
    sizes = {symbol: env.size(symbol, hint) for symbol, hint in hints.items()}

    names: list[str] = []

    def size(value: Size) -> Any:
        return _symint(value, sizes)

    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    mode.cache_enabled = False  # with symbolic sizes, looking up costs more than it saves
    with mode:
        fakes = [torch.empty([size(n) for n in shape], dtype=kind) for shape, kind in tensors.values()]

    def run(given: list[Any], arrays: list[torch.Tensor]) -> Any:
        del given  # sizes are arguments so that the graph can name them
        with env.listening():
            result = call(dict(zip(tensors, arrays, strict=True)), size)
        names[:] = output_names(result)
        return result

    follow = make_fx(
        run, tracing_mode="symbolic", pre_dispatch=True, _allow_non_fake_inputs=True, record_stack_traces=True
    )
    try:
        with quiet(_users_frame):
            made = follow(list(sizes.values()), fakes)
        for problem in env.refused:  # which the code caught, and went another way than it goes with values
            raise problem
    except Exception as trouble:  # with those sizes as numbers it may be followed
        asked = Asked.at((*env.asked, *env.assumed()), f"the code wants numbers for sizes: {trouble}")
        raise asked or trouble from trouble
    kept = {name: value for name, value in vars(made).items() if isinstance(value, torch.Tensor)}
    kept |= {**dict(made.named_buffers()), **dict(made.named_parameters())}  # torch keeps a parameter as one
    return Trace(made.graph, kept, tuple(tensors), tuple(hints), (*env.asked, *env.assumed()), env.ours, tuple(names))


def output_names(result: Any) -> list[str]:
    """The names of the tensors in what code returns: the keys of a dict of tensors, ``y``, ``y1``, ``y2`` otherwise.

    Example:
        >>> output_names((torch.ones(2), None, torch.ones(3)))
        ['y', 'y1']
    """
    if isinstance(result, Mapping) and all(isinstance(one, torch.Tensor | None) for one in result.values()):
        return [str(key) for key, one in result.items() if one is not None]
    count = sum(isinstance(one, torch.Tensor) for one in torch.utils._pytree.tree_leaves(result))
    return [f"y{n}" if n else "y" for n in range(count)]


def _symint(size: Size, sizes: Mapping[sympy.Symbol, Any]) -> Any:
    """A size as torch counts it: sums and products of its symbolic integers."""
    if not isinstance(size, sympy.Expr):
        return size
    if size.is_Integer:
        return int(size)
    if size.is_Symbol:
        return sizes[size]
    if not (size.is_Add or size.is_Mul):
        raise ValueError(f"{size} is no sum or product of sizes")
    parts = [_symint(one, sizes) for one in size.args]
    made = parts[0]
    for one in parts[1:]:
        made = made + one if size.is_Add else made * one
    return made


# ---------------------------------------------------------------- listening to what is asked of sizes


class _Env(ShapeEnv):
    """A `ShapeEnv` in which no size is special, and that keeps what was asked of sizes."""

    def __init__(self) -> None:
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self.ours: dict[sympy.Symbol, sympy.Symbol] = {}
        self.asked: list[Branch] = []
        self.refused: list[Exception] = []
        self._on = False

    def size(self, symbol: sympy.Symbol, hint: int) -> Any:
        """A symbolic integer for one of our symbols."""
        source = ConstantSource(str(symbol))
        theirs = self.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
        self.ours[theirs] = symbol
        return self.create_symintnode(theirs, hint=hint, source=source)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Keep what is asked from here on, and what is refused: entries, which there are none of."""
        self._on, numpy = True, torch.Tensor.numpy

        def entries(tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
            try:
                return numpy(tensor, *args, **more)
            except (RuntimeError, TypeError) as problem:
                self.refused.append(problem)
                raise

        try:
            with mock.patch.object(torch.Tensor, "numpy", entries):
                yield
        finally:
            self._on = False

    def evaluate_expr(self, orig_expr: Any, *args: Any, **more: Any) -> Any:
        """Torch calls this whenever a truth or a number is wanted of an expression of sizes."""
        try:
            answer = super().evaluate_expr(orig_expr, *args, **more)
        except GuardOnDataDependentSymNode as problem:
            self.refused.append(problem)
            raise
        if self._on and getattr(orig_expr, "free_symbols", None):
            self._keep(orig_expr, answer)
        return answer

    def _keep(self, asked: Any, answer: Any) -> None:
        inside, spoken, frame = _asker(sys._getframe(2))
        truth = isinstance(answer, bool) or answer in (sympy.true, sympy.false)  # 0 and 1 are numbers
        if inside or (not spoken and truth):
            return  # layouts in memory and broadcasting, which the graph checks again; but see `assumed`
        relation = plain(asked, self.ours)
        if truth:
            fixes, held = False, relation if answer else sympy.Not(relation)
        else:
            fixes, held = True, sympy.Eq(relation, sympy.nsimplify(answer, rational=True))
        if held != sympy.true:
            self.asked.append(Branch(held, _place(frame), fixes))

    def assumed(self) -> list[Branch]:
        """Sizes that an operation made into a number or into another size."""
        pairs = [(ours, self.replacements[theirs]) for theirs, ours in self.ours.items() if theirs in self.replacements]
        return [Branch(sympy.Eq(one, plain(other, self.ours)), Place(), fixes=True) for one, other in pairs]


def _asker(frame: FrameType | None) -> tuple[bool, bool, FrameType | None]:
    """Whether an operation asks, whether Python code does, and the frame of the user or of a module of torch's.

    Python code asks through the methods of its symbolic numbers.  Torch asks in C++ how a tensor lies in memory, and
    for the value of a number that it cannot take as a symbol.
    """
    inside, spoken, user, modules = False, False, None, None
    while frame is not None and user is None and frame.f_code.co_filename != _HERE:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        spoken = spoken or file.endswith("/torch/__init__.py") or _says_guard(frame)
        inside = inside or name == "__torch_dispatch__" or "/torch/_prims_common/" in file
        user = frame if _is_users(file) else None
        modules = frame if modules is None and _is_module(file) else modules
        frame = frame.f_back
    return inside, spoken, user or modules


def _says_guard(frame: FrameType) -> bool:
    """Whether Python code calls one of torch's public questions about a size, ``guard_or_false`` and the like."""
    caller = "" if frame.f_back is None else frame.f_back.f_code.co_filename
    internal = caller.endswith(("/sym_node.py", "/symbolic_shapes.py"))
    return frame.f_code.co_name.startswith("guard_") and frame.f_code.co_filename.endswith("/symbolic_shapes.py") and (
        not internal
    )


def _is_module(filename: str) -> bool:
    """Whether a file defines modules of torch's own, such as ``nn.MultiheadAttention``."""
    return "/torch/nn/" in filename and not filename.endswith("/modules/module.py")


def _is_users(filename: str) -> bool:
    return not filename.startswith(_PACKAGE) and not any(part in filename for part in _LIBRARIES)


def _place(frame: FrameType | None) -> Place:
    if frame is None:
        return Place()
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Place(file, line, linecache.getline(file, line).strip())


# ---------------------------------------------------------------- where an operation comes from


def place_of(node: torch.fx.Node) -> Place:
    """The user's line from which an operation came: the innermost one that is not a library's, and its callers."""
    found: list[Place] = []
    for text in (node.meta.get("stack_trace") or "").split('File "')[:0:-1]:
        head, _, what = text.strip().partition("\n")
        file, _, rest = head.partition('", line ')
        one = Place(file, int(rest.partition(",")[0]), what.strip().partition("\n")[0])
        found += [] if one in found[-1:] else [one]
    return replace(found[0], callers=tuple(found[1:])) if found else Place()


def blamed(trouble: BaseException) -> Place:
    """The user's line in which an exception was raised."""
    found = _innermost(traceback.extract_tb(trouble.__traceback__))
    return Place(found[0].filename, found[0].lineno or 0, found[0].line or "") if found else Place()


def _users_frame(_: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
    """The innermost frames that are the user's, in place of torch's choice: frames of methods called ``forward``."""
    return traceback.StackSummary.from_list(_innermost(frames, _LINES))


def _innermost(frames: Sequence[traceback.FrameSummary], most: int = 1) -> list[traceback.FrameSummary]:
    """The innermost frames of the traced code that are the user's, or else of a module of torch's; or none."""
    start = max((n for n, one in enumerate(frames) if one.filename == _HERE and one.name == "run"), default=-1)
    inside = frames[start + 1 :]
    users = [frame for frame in inside if _is_users(frame.filename)]
    return users[-most:] or [frame for frame in inside if _is_module(frame.filename)][-1:]
