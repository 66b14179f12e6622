"""A jaxpr as a graph: the loop over its equations, and the part of the table that works entry by entry.

Defines `PRIMITIVES`, the table, `Lowering`, and `lowered`.  The rest of the table is in
`mha_sym.importers.from_jax.axes`. An equation outside of the table is refused where its result is used, with the user's
line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import jax
import jax.extend.core
import numpy as np
import sympy

from mha_sym.importers.builder import Builder
from mha_sym.importers.from_jax.places import of_jax, place_of
from mha_sym.importers.from_jax.trace import Trace, size_of
from mha_sym.importers.graph import Graph, ImportProblem, Place, Ref, Role, Shape

#: small whole numbers and truth values that are known while the graph is made: entries are numbers made of sizes
Known: TypeAlias = "np.ndarray[Any, Any]"
MANY = 1 << 10


@dataclass(frozen=True)
class Value:
    """What an equation makes: a value of the graph, and its entries where they are known."""

    ref: Ref
    known: Known | None = None


@dataclass(frozen=True)
class _Refused:
    """What stands for a result that is not understood; a complaint once somebody wants it."""

    problem: ImportProblem


@dataclass(frozen=True)
class Primitive:
    """A row of the table.

    Attributes:
        words: what it is in the graph.
        make: takes the `Lowering`, the parameters of the equation and its arguments.
    """

    words: str
    make: Callable[..., Ref | Value | list[Value]]


#: the table, by JAX's name of the primitive
PRIMITIVES: dict[str, Primitive] = {}
Handler: TypeAlias = Callable[..., Any]


def primitive(*names: str, words: str) -> Callable[[Handler], Handler]:
    """Enter a function into the table under these names."""

    def enter(make: Handler) -> Handler:
        PRIMITIVES.update(dict.fromkeys(names, Primitive(words, make)))
        return make

    return enter


class Lowering:
    """A graph under construction from a jaxpr.

    Attributes:
        g: builds the graph.
        at: values for some of the symbols, put in wherever they occur.
    """

    def __init__(self, at: Mapping[sympy.Symbol, sympy.Expr] | None = None) -> None:
        self.g = Builder()
        self.at = dict(at or {})

    # ------------------------------------------------------------ sizes and numbers

    def size(self, dim: Any) -> sympy.Expr:
        """A size of JAX."""
        found = size_of(dim, self.g.place)
        return sympy.expand(found.subs(self.at)) if self.at else found

    def sizes(self, dims: Sequence[Any]) -> list[sympy.Expr]:
        """A shape of JAX."""
        return [self.size(dim) for dim in dims]

    def shape(self, value: Value) -> Shape:
        """The shape of a value."""
        return self.g.shape(value.ref)

    def number(self, array: Any) -> Value:
        """A constant array."""
        made = np.asarray(array)
        small = made.size <= MANY and made.dtype.kind in "biu"
        return Value(self.g.constant(made), made.astype(object) if small else None)

    def exact(self, value: sympy.Expr) -> Value:
        """A number made of sizes."""
        return Value(self.g.size(value), np.array(value, dtype=object))

    # ------------------------------------------------------------ the loop

    def run(self, jaxpr: Any, consts: Sequence[Value], args: Sequence[Value], place: Place) -> list[Value]:
        """The results of a jaxpr; equations whose stack does not lead to the user are at ``place``."""
        made: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        made |= dict(zip(jaxpr.invars, args, strict=True))
        for equation in jaxpr.eqns:
            self.g.place = place if of_jax(jaxpr) and place.line else place_of(equation.source_info, place)
            results = self.equation(equation, made)
            for variable, result in zip(equation.outvars, results, strict=True):
                made[variable] = result
                self.agrees(equation, variable, result)
        return [self.read(one, made) for one in jaxpr.outvars]

    def read(self, atom: Any, made: Mapping[Any, Any]) -> Value:
        """An argument of an equation: a literal, or what was made before."""
        if isinstance(atom, jax.extend.core.Literal):
            kind: Any = atom.aval
            return self.number(np.asarray(atom.val, kind.dtype))
        found = made[atom]
        if isinstance(found, _Refused):
            raise found.problem
        return found  # type: ignore[no-any-return]

    def equation(self, equation: Any, made: Mapping[Any, Any]) -> Sequence[Value | _Refused]:
        """The results of one equation."""
        name, count = equation.primitive.name, len(equation.outvars)
        entry = PRIMITIVES.get(name)
        try:
            make = self.unknown(name) if entry is None else entry.make
            found = make(self, equation.params, *(self.read(one, made) for one in equation.invars))
        except ImportProblem as problem:
            return [_Refused(problem)] * count
        if isinstance(found, list):
            return found
        return [found if isinstance(found, Value) else Value(found)]

    def unknown(self, name: str) -> NoReturn:
        """Refuse a primitive that is not in the table."""
        if name.startswith(("random", "threefry", "rng")):
            self.g.refuse(
                "random numbers are drawn here, as dropout does", expected="code without chance",
                hint="turn dropout off: deterministic=True, inference=True, or a rate of 0",
            )  # fmt: skip
        if name in ("scan", "while", "cond"):
            self.g.refuse(
                f"a loop or branch on values (lax.{name}) is not in the vocabulary",
                hint="write it without, as one expression of whole arrays",
            )
        if name in ("sign", "rem", "floor", "ceil", "round"):
            self.g.refuse(f"a number is rounded here ({name}), which is not in the vocabulary")
        self.g.refuse(
            f"the primitive {name} of JAX is not in the vocabulary",
            hint="the table of operations in the docs says which are; see whether the code can do without it",
        )

    def agrees(self, equation: Any, variable: Any, result: Value | _Refused) -> None:
        """Compare the shape with JAX's: the second opinion is free."""
        if isinstance(result, _Refused) or not hasattr(variable.aval, "shape"):
            return
        theirs, ours = tuple(self.sizes(variable.aval.shape)), self.shape(result)
        if theirs != ours and [sympy.expand(s) for s in ours] != list(theirs):
            name = equation.primitive.name
            self.g.refuse(f"{name} was not read as JAX means it", expected=str(theirs), got=str(ours))

    def inlined(self, closed: Any, args: Sequence[Value]) -> list[Value]:
        """A jaxpr inside of an equation, opened."""
        place = self.g.place
        inner = getattr(closed, "jaxpr", closed)
        consts = [self.number(one) for one in getattr(closed, "consts", ())]
        outer = place if of_jax(inner) else Place()
        found = self.run(inner, consts, args, outer if outer.line else Place(place.file, 0, place.what))
        self.g.place = place
        return found


def lowered(
    trace: Trace, roles: Mapping[str, Role], captured: Callable[[Any, int], tuple[str, bool]],
    at: Mapping[sympy.Symbol, sympy.Expr] | None = None,
) -> Graph:  # fmt: skip
    """The graph of a trace; its branches are left to the caller.

    Args:
        trace: what ran.
        roles: the role of every input.
        captured: for an array that the code has from elsewhere, its name, and whether it counts as a constant.
        at: values for some symbols.

    Raises:
        ImportProblem: for an equation that is not understood, with the user's line.
    """
    work = Lowering(at)
    args = []
    for name, variable in zip(trace.inputs, trace.jaxpr.jaxpr.invars, strict=True):
        shape = work.sizes(variable.aval.shape)
        args.append(Value(work.g.input(name, shape, str(variable.aval.dtype), roles[name])))
    consts = []
    for number, array in enumerate(trace.jaxpr.consts):
        name, fixed = captured(array, number)
        kind = str(np.asarray(array).dtype)
        consts.append(work.number(array) if fixed else Value(work.g.input(name, np.shape(array), kind, "param")))
    results = work.run(trace.jaxpr.jaxpr, consts, args, Place())
    return work.g.graph(**{name: value.ref for name, value in zip(trace.outputs, results, strict=True)})


# ---------------------------------------------------------------- calls


@primitive("jit", "pjit", "closed_call", words="its inside")
def _call(lo: Lowering, params: Mapping[str, Any], *args: Value) -> list[Value]:
    return lo.inlined(params.get("jaxpr", params.get("call_jaxpr")), args)


@primitive("remat2", "checkpoint", words="its inside")
def _remat(lo: Lowering, params: Mapping[str, Any], *args: Value) -> list[Value]:
    return lo.inlined(params["jaxpr"], args)


@primitive("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", words="its inside")
def _custom(lo: Lowering, params: Mapping[str, Any], *args: Value) -> list[Value]:
    return lo.inlined(next(params[n] for n in ("call_jaxpr", "fun_jaxpr") if n in params), args)


# ---------------------------------------------------------------- nothing, and precision


@primitive("stop_gradient", "copy", "optimization_barrier", words="nothing")
def _itself(lo: Lowering, params: Mapping[str, Any], *args: Value) -> list[Value]:
    return list(args)


@primitive("convert_element_type", words="cast")
def _cast(lo: Lowering, params: Mapping[str, Any], x: Value) -> Value:
    return Value(lo.g.cast(x.ref, numpy_dtype(params["new_dtype"])), x.known)


@primitive("reduce_precision", words="nothing, and noted as a cast")
def _precision(lo: Lowering, params: Mapping[str, Any], x: Value) -> Value:
    lo.g.note(casts=(f"{lo.g.dtype(x.ref)} to {params['mantissa_bits']} bits at {lo.g.place}",))
    return x


def numpy_dtype(dtype: Any) -> str:
    """NumPy's name of a dtype; the short floats that NumPy lacks count as the one it has."""
    return "float16" if jax.numpy.issubdtype(dtype, jax.numpy.floating) and np.dtype(dtype).kind != "f" else str(dtype)


# ---------------------------------------------------------------- entry by entry


def _enter(f: str, *names: str) -> None:
    """Functions that the graph has, too; whole numbers that are known stay known."""
    exact = _EXACT.get(f)

    def make(lo: Lowering, params: Mapping[str, Any], *args: Value) -> Value:
        return Value(lo.g.map(f, *(one.ref for one in args)), known_map(exact, args))

    primitive(*names, words=f)(make)


def known_map(exact: Callable[..., Any] | None, args: Sequence[Value]) -> Known | None:
    """A function of known entries, None where one of them is not known, or the result is not decided."""
    arrays = [one.known for one in args if one.known is not None]
    if exact is None or len(arrays) < len(args):
        return None
    made = np.asarray(np.frompyfunc(exact, len(args), 1)(*arrays), dtype=object)
    return None if any(entry is None for entry in made.flat) else made


def _decided(relation: Any) -> bool | None:
    return bool(relation) if relation in (True, False, sympy.true, sympy.false) else None


_EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
    "lt": lambda a, b: _decided(a < b), "le": lambda a, b: _decided(a <= b), "gt": lambda a, b: _decided(a > b),
    "ge": lambda a, b: _decided(a >= b), "eq": lambda a, b: _decided(sympy.Eq(a, b)),
    "ne": lambda a, b: _decided(sympy.Ne(a, b)),
}  # fmt: skip

for _f, *_names in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("neg", "neg"), ("exp", "exp"), ("sqrt", "sqrt"),
    ("log", "log"), ("abs", "abs"), ("sin", "sin"), ("cos", "cos"), ("tanh", "tanh"), ("min", "min"), ("max", "max"),
    ("eq", "eq"), ("ne", "ne"), ("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge"), ("pow", "pow"),
):  # fmt: skip
    _enter(_f, *_names)


@primitive("div", words="div")
def _div(lo: Lowering, params: Mapping[str, Any], x: Value, y: Value) -> Ref:
    if np.dtype(lo.g.dtype(x.ref)).kind != "f":
        lo.g.refuse("a division of whole numbers rounds, which is not in the vocabulary")
    return lo.g.map("div", x.ref, y.ref)


@primitive("rsqrt", words="sqrt and div")
def _rsqrt(lo: Lowering, params: Mapping[str, Any], x: Value) -> Ref:
    return lo.g.map("div", lo.g.size(1), lo.g.map("sqrt", x.ref))


@primitive("integer_pow", words="mul, div or pow")
def _integer_pow(lo: Lowering, params: Mapping[str, Any], x: Value) -> Ref:
    power = int(params["y"])
    if power == -1:
        return lo.g.map("div", lo.g.size(1), x.ref)
    return lo.g.map("mul", x.ref, x.ref) if power == 2 else lo.g.map("pow", x.ref, lo.g.size(power))


@primitive("square", words="mul")
def _square(lo: Lowering, params: Mapping[str, Any], x: Value) -> Ref:
    return lo.g.map("mul", x.ref, x.ref)


@primitive("logistic", words="exp, add and div")
def _logistic(lo: Lowering, params: Mapping[str, Any], x: Value) -> Ref:
    one = lo.g.size(1)
    return lo.g.map("div", one, lo.g.map("add", one, lo.g.map("exp", lo.g.map("neg", x.ref))))


@primitive("clamp", words="min and max")
def _clamp(lo: Lowering, params: Mapping[str, Any], low: Value, x: Value, high: Value) -> Ref:
    return lo.g.map("min", lo.g.map("max", x.ref, low.ref), high.ref)




def _logical(f: str, name: str) -> None:
    def make(lo: Lowering, params: Mapping[str, Any], *args: Value) -> Value:
        if any(lo.g.dtype(one.ref) != "bool" for one in args):
            lo.g.refuse("bits of whole numbers are not in the vocabulary", expected="truth values")
        return Value(lo.g.map(f, *(one.ref for one in args)), known_map(_LOGIC.get(f), args))

    primitive(name, words=f)(make)


_LOGIC: dict[str, Callable[..., Any]] = {
    "and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b), "not": lambda a: not a,
}  # fmt: skip
for _f, _name in (("and", "and"), ("or", "or"), ("not", "not"), ("ne", "xor")):
    _logical(_f, _name)


@primitive("select_n", words="where")
def _select(lo: Lowering, params: Mapping[str, Any], which: Value, *cases: Value) -> Value:
    if len(cases) != 2 or lo.g.dtype(which.ref) != "bool":
        lo.g.refuse("a choice among several cases is not in the vocabulary")
    no, yes = cases
    ref = lo.g.map("where", which.ref, yes.ref, no.ref)
    return Value(ref, known_map(lambda w, n, y: y if w else n, (which, no, yes)))


@primitive("dim_as_value", words="a size")
def _dim(lo: Lowering, params: Mapping[str, Any]) -> Value:
    return lo.exact(lo.size(params["dim"]))
