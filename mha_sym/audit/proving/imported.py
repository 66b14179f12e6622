"""An implementation as a graph, for one way of calling, and the comparison of the two in numbers.

Defines `imported`, `validate` and `any_setting`.  Code that needs the value of a size is run again with that size
fixed; what it decides on sizes is noted in the graph.  This runs the user's code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from mha_sym.attention.rotary import PAIR_COUNT, REST
from mha_sym.audit.call import _bound, _named, _stages, run
from mha_sym.audit.cases import Case
from mha_sym.audit.frameworks.onnx_files import OnnxCall, onnx_graph
from mha_sym.audit.implementation import KEEPS, Implementation
from mha_sym.audit.proving.jax import compiled, jax_graph, uses_jax
from mha_sym.audit.proving.statement import Statement, arguments, state
from mha_sym.audit.setting import Setting, _fixed, draw_setting
from mha_sym.axes import size_symbol
from mha_sym.blame import guarded
from mha_sym.errors import DataProblem, Problem, TargetProblem
from mha_sym.importers import graph as g
from mha_sym.importers.from_numpy.trace import new_input, trace
from mha_sym.importers.lifting.lift import Masked
from mha_sym.importers.run import run as run_graph
from mha_sym.importers.session import Leak, Session

#: the values that sizes get where code needs values, pairwise distinct and none of them 1
FIXED: dict[str, int] = {"B": 2, "T": 4, "S": 5, "d_model": 6, "h": 3, "G": 3, "R": 2, "d_k": 2, "d_v": 7,
                         "d_key": 5, "d_value": 8,
                         PAIR_COUNT: 2, REST: 3}  # fmt: skip

#: how far apart the graph and the code may be in float64, relative to the largest entry; this proves nothing
_CLOSE = 1e-8
#: the same where the code itself rounds on the way, by the precision to which it does
_ROUNDED = {"float32": 1e-4, "float16": 5e-2, "bits": 5e-2}


@dataclass(frozen=True)
class Import:
    """A graph of an implementation called in one way.

    Attributes:
        graph: its inputs are called like the entries of ``statement.inputs``.
        statement: what it is to be proved equal to, at the same sizes.
        sizes: sizes that are not free, by name.
        leaks: where the code needed the value of a size, one sentence each.
    """

    graph: g.Graph
    statement: Statement
    sizes: Mapping[str, sympy.Expr | int]
    leaks: tuple[str, ...] = ()

    @property
    def numbers(self) -> dict[str, int]:
        """The sizes that are numbers."""
        return numbers(self.sizes)


def numbers(sizes: Mapping[str, sympy.Expr | int]) -> dict[str, int]:
    """Those of some sizes that are numbers.

    Example:
        >>> numbers({"h": 3, "d_v": size_symbol("d_k"), "T": sympy.Integer(5)})
        {'h': 3, 'T': 5}
    """
    return {name: int(size) for name, size in sizes.items() if sympy.sympify(size).is_Integer}


def imported(impl: Implementation, case: Case, sizes: Mapping[str, sympy.Expr | int]) -> Import:
    """The graph of an implementation, by the front end for its framework.

    Raises:
        ImportProblem: for what is outside the vocabulary, and for sizes that do not fit together.
        TargetProblem: if the code itself raises.
    """
    known, leaks = dict(sizes), list[str]()
    if impl.positions is not None and impl.positions.width is not None and not {"d_k", REST} & set(known):
        known[REST] = FIXED[REST]
        leaks.append(f"{REST} = {FIXED[REST]}, since the proof language has no root of a sum of sizes")
    for _ in range(len(FIXED) + 1):
        known = _resolved(known)
        statement = state(impl, case, known)
        try:
            graph = _front_end(impl)(impl, case, statement)
        except Leak as leak:
            for symbol in leak.symbols:
                known[symbol.name] = FIXED.get(symbol.name, 3)
                leaks.append(f"{symbol} = {known[symbol.name]}, since its value is asked for at {leak.place}")
            continue
        return Import(graph, statement, known, tuple(leaks))
    raise TargetProblem("the code asks for sizes again and again", where=impl.title)


def _resolved(sizes: Mapping[str, sympy.Expr | int]) -> dict[str, sympy.Expr | int]:
    """Sizes with those that are numbers put into those that are expressions."""
    known = {size_symbol(name): size for name, size in numbers(sizes).items()}
    return {name: sympy.sympify(size).subs(known) for name, size in sizes.items()}


def fixed_sizes(impl: Implementation) -> dict[str, int]:
    """The sizes that the description of an implementation, or its weights, fix.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     return x
        >>> fixed_sizes(Implementation(call=attention, heads=3))
        {'h': 3}
    """
    found = _fixed(impl)
    return {name: size for name, size in found.items() if name != "h" or not impl.how_stored.grouped}


def _front_end(impl: Implementation) -> Callable[[Implementation, Case, Statement], g.Graph]:
    """What reads code of this framework; a framework is imported only for code that has imported it."""
    if isinstance(impl.call, OnnxCall):
        return onnx_graph
    if impl.framework == "torch":
        from mha_sym.audit.proving.torch import traced

        return traced
    if uses_jax(impl):
        return jax_graph
    return _traced


def _traced(impl: Implementation, case: Case, statement: Statement) -> g.Graph:
    session = Session()

    def work(session: Session) -> Mapping[str, Any]:
        arrays = {name: _array(session, name, one) for name, one in statement.inputs.items()}
        for name, value in (impl.weights or {}).items():
            session.owned.append((value, arrays[name].ref))
        result = _bound(impl, arguments(impl, case, statement, arrays, session.dim))()
        return {word: value for word, value in _named(impl, result).items() if value is not None}

    try:
        return guarded(lambda: trace(work, session), f"{impl.title}, run on arrays without values, raised")
    except TargetProblem as problem:
        if session.leaks:
            raise session.leaks[0] from problem
        raise


def _array(session: Session, name: str, one: Any) -> Any:
    expr = one.value if isinstance(one, Masked) else one
    boolean = not isinstance(one, Masked) and name in KEEPS
    shape = tuple(axis.size for axis in expr.axes)
    return new_input(session, name, shape, "bool" if boolean else "float64")


# ---------------------------------------------------------------- validation


def validate(impl: Implementation, case: Case, found: Import) -> tuple[Setting, ...]:
    """Run the graph beside the code, in float64, at several sizes, those of 1 among them.

    Returns:
        The draws on which they agreed, first one whose sizes are apart.

    Raises:
        TargetProblem: if they differ, or if there is nothing to compare.
    """
    agreed: list[Setting] = []
    refused: Problem | None = None
    code = compiled(impl) if impl.framework != "torch" and uses_jax(impl) else impl
    for draw, wanted in enumerate(_settings(found, impl.positions is not None)):
        try:
            setting = draw_setting(impl, case, 0, draw, wanted)
            shown = run(code, setting.arguments, setting.sizes)
        except (DataProblem, TargetProblem) as problem:  # it does not run there; the other sizes tell
            refused = refused or problem
            continue
        if not _holds(found.graph, setting):
            continue
        _compare(impl, found.graph, setting, shown)
        agreed.append(setting)
    if not agreed:
        raise refused or TargetProblem(f"{impl.title} runs at no size at which its graph holds")
    return tuple(agreed)


def any_setting(impl: Implementation, case: Case, found: Import) -> Setting:
    """A draw at which a graph holds, whatever the code does there.

    Raises:
        Problem: if there is none.
    """
    drawn = (draw_setting(impl, case, 0, draw, at) for draw, at in enumerate(_settings(found)))
    setting = next((one for one in drawn if _holds(found.graph, one)), None)
    if setting is None:
        raise TargetProblem(f"the graph of {impl.title} holds at no size that was drawn")
    return setting


def _settings(found: Import, pairs: bool = False) -> list[dict[str, int]]:
    """Sizes to run at: drawn ones, and some that are 1, but never against what is fixed or tied."""
    numbers = found.numbers
    tied = {n: sympy.sympify(s) for n, s in found.sizes.items() if n not in numbers and n in ("T", "S", "B")}
    ones: list[tuple[str, ...]] = [("B",), ("T", "S"), ("h",), ("d_k",), ("B", "T", "S")]
    others = {name for name in found.sizes if name not in numbers} | ({"d_k"} if pairs else set())
    free = [dict.fromkeys(names, 1) for names in ones if not set(names) & (set(numbers) | others)]
    if tied:  # sizes that coincide: as many positions as heads, or as many keys as queries
        each = [{"h": n, "G": 2, "R": n, "T": 2 * n + 1} for n in (3, 4, 5, 6, 7, 2)]
        drawn = [{str(s): at[str(s)] for size in tied.values() for s in size.free_symbols} for at in each]
        meeting = [{**at, **{name: int(size.subs(_symbols(at))) for name, size in tied.items()}} for at in drawn]
        return [{**at, **numbers} for at in meeting]
    return [{**one, **numbers} for one in [{}, {}, {}, *free]]


def _symbols(sizes: Mapping[str, int]) -> dict[sympy.Symbol, int]:
    return {size_symbol(name): size for name, size in sizes.items()}


def _holds(graph: g.Graph, setting: Setting) -> bool:
    """Whether the conditions of the graph hold at these sizes."""
    values = {size_symbol(name): size for name, size in setting.sizes.items()}
    return all(bool(one.relation.subs(values)) for one in graph.notes.conditions)


def graph_arguments(impl: Implementation, graph: g.Graph, setting: Setting) -> dict[str, Any]:
    """The arrays of a draw by the names of the inputs of a graph."""
    stored = {theirs: setting.arrays[ours] for ours, theirs in impl.stored.items() if ours in setting.arrays}
    arrays = {**stored, **setting.arguments}
    arrays.update(arrays.pop("weights", None) or {})
    return {name: np.asarray(arrays[name]) for name in graph.inputs()}


def _room(graph: g.Graph, dtype: str) -> float:
    """How far apart the numbers may be, relatively, of code that computes in this precision."""
    rounded = (room for cast in graph.notes.casts for kind, room in _ROUNDED.items() if f"{kind} at " in cast)
    return max(rounded, default=_ROUNDED.get(dtype, _CLOSE))


def _compare(impl: Implementation, graph: g.Graph, setting: Setting, shown: Mapping[str, Any]) -> None:
    again = run_graph(graph, graph_arguments(impl, graph, setting), setting.sizes)
    for word, value in _stages(impl, dict(again), setting.sizes).items():
        expected = shown[word]
        finite = np.isfinite(expected)
        gap = np.abs(np.where(finite, value, 0.0) - np.where(finite, expected, 0.0))
        room = _room(graph, impl.dtype) * (1 + np.abs(expected[finite]).max(initial=0.0))
        if not (np.isfinite(value) == finite).all() or gap.max(initial=0.0) > room:
            raise TargetProblem(
                f"the import of {impl.title} does not give what the code gives: {word} differs by {gap.max():.2g}",
                where=f"sizes {setting.sizes}", hint="this is a fault of the import; the code may still be right",
            )  # fmt: skip
