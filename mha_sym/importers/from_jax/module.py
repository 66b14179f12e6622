"""JAX code as a graph, for all sizes and all values of its weights.

Defines `from_function`, and `Imported`, what comes of it.  This runs the user's code.  Importing this file imports JAX.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import jax
import numpy as np
import sympy

from mha_sym.axes import size_symbol
from mha_sym.blame import guarded
from mha_sym.errors import TargetProblem
from mha_sym.importers.from_jax import axes as jax_axes  # it fills the table
from mha_sym.importers.from_jax.ops import PRIMITIVES as PRIMITIVES
from mha_sym.importers.from_jax.ops import lowered
from mha_sym.importers.from_jax.trace import Branch, Code, Spec, Trace, compiled, output_names, trace, undecided
from mha_sym.importers.graph import Array, Condition, Constant, Graph, ImportProblem, Place, Role
from mha_sym.importers.run import run as run_graph
from mha_sym.importers.session import HINTS, Leak

TABLES = (jax_axes,)
#: sizes that stay symbols where JAX cannot follow others
_TOKENS = ("B", "T", "S")


@dataclass(frozen=True)
class Imported:
    """JAX code as a graph.

    Attributes:
        graph: its inputs are those of the code, and arrays that the code has from elsewhere.
        captured: the values of the latter.
        run: the code itself, in float64: takes every input by name, and sizes by name that are not those of an input;
            gives the outputs by name.
        seconds: how long JAX took to trace the code, all runs together.
        lowering: how long the rest took.
    """

    graph: Graph
    captured: Mapping[str, Array]
    run: Callable[..., dict[str, Array]]
    seconds: float = 0.0
    lowering: float = 0.0


def from_function(
    code: Code, specs: Mapping[str, Spec], hints: Mapping[str, int] = HINTS, name: str = "", owner: Any = None
) -> Imported:
    """Code as a graph: inputs and weights are free, sizes are symbols.

    Args:
        code: takes arrays by name, and a function that gives a SymPy size as JAX has it; returns arrays.
        specs: sizes, dtype and role of every array.
        hints: by the names of symbols, sizes at which the code runs, which decide its questions on sizes.
        name: what messages call it.
        owner: the user's function, whose globals and closure name the arrays that it has from there.

    Raises:
        ImportProblem: for code that cannot be read as a graph, with its place.
        Leak: if the code needs the value of a size; the caller fixes the size and tries again.
        TargetProblem: if the code itself raises.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> n = size_symbol("n")
        >>> made = from_function(lambda a, size: a["x"] @ a["w"], {"x": Spec((n, 3)), "w": Spec((3, 2))})
        >>> made.graph.nodes[made.graph.outputs["y"]].shape
        (n, 2)
    """
    started = time.perf_counter()
    work = _Traced(code, dict(specs), _hinted(specs, hints), name or getattr(owner, "__name__", "the function"), owner)
    graph = work.graph()
    whole = time.perf_counter() - started
    return Imported(graph, work.captured, work.run, work.seconds, whole - work.seconds)


def _hinted(specs: Mapping[str, Spec], hints: Mapping[str, int]) -> dict[sympy.Symbol, int]:
    """A size for every symbol; sizes that are apart show what must be equal."""
    symbols = {s for one in specs.values() for size in one.shape for s in sympy.sympify(size).free_symbols}
    ordered = sorted(symbols, key=str)
    return {s: hints.get(s.name, 40 + 3 * n) for n, s in enumerate(ordered)}


@dataclass
class _Traced:
    code: Code
    specs: dict[str, Spec]
    hints: dict[sympy.Symbol, int]
    title: str
    owner: Any = None
    captured: dict[str, Array] = field(default_factory=dict)
    taken: list[Any] = field(default_factory=list)
    seconds: float = 0.0

    def graph(self) -> Graph:
        """The graph, with what must hold of the sizes."""
        found = self.traced({})
        made = self.lowered(found)
        taken = [Condition(b.relation, b.place) for b in found.branches if not self.idle(b, found)]
        known = {one.relation.canonical for one in made.notes.conditions}
        taken += [Condition(relation) for relation in self.taken if relation not in known]
        silent = self.apart_at_one(made, [one.relation for one in taken])
        return replace(made, notes=made.notes.plus(conditions=[*taken, *silent]))

    def traced(self, at: Mapping[sympy.Symbol, sympy.Expr]) -> Trace:
        """The trace with values for some symbols; what JAX cannot decide is taken as at the hints, and kept."""
        while True:
            try:
                found = self.once(at)
                text = next((str(n) for n in _odd_sizes(found.jaxpr.jaxpr)), "")
                problem: TargetProblem | None = None
            except TargetProblem as trouble:
                problem, text = trouble, trouble.what
            relation = undecided(text, self.hints)
            if relation is None or relation in self.taken or at:
                if problem is not None:
                    return self.gave_up(problem, at)
                return found
            self.taken.append(relation)

    def quietly(self, at: Mapping[sympy.Symbol, sympy.Expr]) -> Trace:
        """The trace at sizes that the user did not ask for: what libraries have to say about these is no matter."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.traced(at)

    def gave_up(self, problem: TargetProblem, at: Mapping[sympy.Symbol, sympy.Expr]) -> NoReturn:
        """Ask for numbers in place of heads and widths, which JAX's own layers need."""
        inner = frozenset(s for s in self.hints if s.name not in _TOKENS and s not in at)
        if not inner:
            raise problem
        raise Leak(inner, Place(problem.where)) from problem  # if that is not it, it will raise again

    def once(self, at: Mapping[sympy.Symbol, sympy.Expr]) -> Trace:
        """One run."""
        specs = {name: replace(one, shape=_put(one.shape, at)) for name, one in self.specs.items()}
        left = {symbol: value for symbol, value in self.hints.items() if symbol not in at}
        taken = [one for one in (relation.subs(at) for relation in self.taken) if one.free_symbols]
        leaks: list[Leak] = []

        def code(arrays: Mapping[str, Any], size: Callable[[Any], Any]) -> Any:
            return self.code(arrays, lambda wanted: size(_put((wanted,), at)[0]))

        def tracing() -> Trace | None:
            try:
                return trace(code, specs, left, taken)
            except Leak as leak:
                leaks.append(leak)
                return None

        started = time.perf_counter()
        try:
            found = guarded(tracing, f"tracing {self.title} raised", _HINT)
        finally:
            self.seconds += time.perf_counter() - started
        if found is None:
            raise leaks[0]
        return found

    def lowered(self, found: Trace, at: Mapping[sympy.Symbol, sympy.Expr] | None = None) -> Graph:
        """The graph of a trace."""
        roles: dict[str, Role] = {name: one.role for name, one in self.specs.items()}
        return lowered(found, roles, self.elsewhere, at)

    def elsewhere(self, array: Any, number: int) -> tuple[str, bool]:
        """An array that the code has from outside of its arguments: floats of many values are weights."""
        value = np.asarray(array)
        fixed = value.dtype.kind != "f" or len(np.unique(value)) <= 2
        name = _own_name(self.owner, array) or f"captured{number}"
        if not fixed:
            self.captured[name] = value
        return name, fixed

    def run(self, arrays: Mapping[str, Array], numbers: Mapping[str, int] | None = None) -> dict[str, Array]:
        """The code itself on arrays; ``numbers`` says sizes by name that are no array's own."""
        with jax.enable_x64(True):
            given = {name: jax.numpy.asarray(arrays[name]) for name in self.specs}
            sizes = {size_symbol(name): n for name, n in (numbers or {}).items()} | _sizes(self.specs, arrays)
            code = compiled(lambda arrays: self.code(arrays, lambda s: int(_put((s,), sizes)[0])))
            made = guarded(lambda: code(given), f"{self.title} raised")
        return dict(zip(output_names(made), map(np.asarray, jax.tree.leaves(made)), strict=True))

    # ------------------------------------------------------------ questions on sizes

    def idle(self, branch: Branch, found: Trace) -> bool:
        """Whether the code does the same where two sizes that it takes for different are equal."""
        at = _equal(branch.relation)
        if not at:
            return False
        try:
            return _bones(self.lowered(found, at)) == _bones(self.lowered(self.quietly(at)))
        except ImportProblem:
            return False

    def apart_at_one(self, made: Graph, known: list[Any]) -> Iterator[Condition]:
        """Sizes of 1 that JAX has taken for not 1, unasked, where that makes a difference.

        JAX answers ``T == 1`` with False for a symbol; code of its own may have asked.  The numbers of both graphs
        are compared, as whenever an import is validated.
        """
        for symbol in self.hints:
            one = {symbol: sympy.Integer(1)}
            if any(relation.subs(one) == sympy.false for relation in known):
                continue
            try:
                same = self.equal_at(made, self.lowered(self.quietly(one)), symbol)
            except (ImportProblem, TargetProblem):
                same = False
            if not same:
                yield Condition(sympy.Ne(symbol, 1))

    def equal_at(self, made: Graph, other: Graph, one: sympy.Symbol) -> bool:
        """Whether two graphs give the same numbers where a size is 1."""
        sizes = {**self.hints, one: 1}
        rng = np.random.default_rng(0)
        arrays = {name: np.asarray(rng.normal(size=one.shape)) for name, one in self.captured.items()}
        for name, spec in self.specs.items():
            shape = [int(n) for n in _put(spec.shape, sizes)]
            arrays[name] = np.ones(shape, bool) if spec.dtype == "bool" else np.asarray(rng.normal(size=shape))
        named = {symbol.name: value for symbol, value in sizes.items()}
        ours, theirs = run_graph(made, arrays, named), run_graph(other, arrays, named)
        return all(
            ours[n].shape == theirs[n].shape and np.allclose(ours[n], theirs[n], 1e-9, 1e-9, equal_nan=True)
            for n in ours
        )


_HINT = "JAX knows no values while it traces: do not branch on the entries of arrays"


def _put(shape: Any, at: Mapping[Any, Any]) -> tuple[Any, ...]:
    return tuple(sympy.sympify(s).subs(at) for s in shape)


def _sizes(specs: Mapping[str, Spec], arrays: Mapping[str, Array]) -> dict[sympy.Symbol, int]:
    """The values of the symbols that are a size of some array."""
    pairs = [p for name, one in specs.items() for p in zip(one.shape, arrays[name].shape, strict=True)]
    return {size: number for size, number in pairs if isinstance(size, sympy.Symbol)}


def _equal(relation: Any) -> dict[sympy.Symbol, sympy.Expr]:
    """Values of symbols for which ``left != right`` does not hold, for a symbol and a number or another symbol."""
    left, right = relation.lhs, relation.rhs
    left, right = (left, right) if left.is_Symbol else (right, left)
    known = left.is_Symbol and (right.is_Integer or right.is_Symbol)
    return {left: right} if isinstance(relation, sympy.Ne) and known else {}


def _bones(graph: Graph) -> list[Any]:
    """What a graph does, without places."""
    return [
        (node.op.value.tobytes() if isinstance(node.op, Constant) else node.op, node.args, node.shape)
        for node in graph.nodes
    ]


def _odd_sizes(jaxpr: Any) -> Iterator[Any]:
    """Sizes of values that are no polynomials, such as ``min(T, 64)``."""
    for equation in jaxpr.eqns:
        for one in (n for v in equation.outvars for n in getattr(v.aval, "shape", ()) if not isinstance(n, int)):
            if "(" in str(one):
                yield one


def _own_name(owner: Any, array: Any) -> str:
    """The name under which a function has an array, if it has it as a global or in its closure."""
    if not inspect.isfunction(owner):
        return ""
    found = inspect.getclosurevars(owner)
    return next((name for name, value in {**found.globals, **found.nonlocals}.items() if _is_same(value, array)), "")


def _is_same(value: Any, array: Any) -> bool:
    """Whether an object is an array, or what JAX makes of it."""
    plain = isinstance(value, np.ndarray | jax.Array) and value.shape == np.shape(array)
    return value is array or (plain and np.array_equal(np.asarray(value), np.asarray(array)))
