"""An ONNX graph as a graph of ours: the loop over its nodes, and the part of the table that works entry by entry.

Defines `OPERATORS`, the table, `Lowering`, `Value`, and `lowered`.  The rest of the table is in
`mha_sym.importers.from_onnx.axes`, `onnx_sizes` and `onnx_attention`.  A node outside of the table is refused where its
result is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import numpy as np
import onnx
import sympy

from mha_sym.importers.builder import Builder
from mha_sym.importers.from_onnx.file import Source, array_of
from mha_sym.importers.graph import Array, ImportProblem, Place, Ref, Shape
from mha_sym.importers.sizes import quotient, same

#: small arrays of whole numbers, truth values and numbers made of sizes, known while the graph is made
Known: TypeAlias = "np.ndarray[Any, Any]"
MANY = 1 << 10


@dataclass(eq=False)
class Value:
    """A value: in the graph, or known entry by entry, or both."""

    ref: Ref | None = None
    known: Known | None = None


@dataclass(frozen=True)
class _Refused:
    """What stands for a result that is not understood; a complaint once somebody wants it."""

    problem: ImportProblem


Handler: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """A row of the table.

    Attributes:
        words: what it is in the graph.
        make: takes the `Lowering`, the attributes and the inputs; gives a `Ref`, a `Value`, or a list of values.
        exact: what it does to known entries, on arrays of objects; takes the attributes and the arrays.
    """

    words: str
    make: Handler
    exact: Handler | None = None


#: the table, by the name of the operator
OPERATORS: dict[str, Operator] = {}


def operator(*names: str, words: str, exact: Handler | None = None) -> Callable[[Handler], Handler]:
    """Enter a function into the table under these names."""

    def enter(make: Handler) -> Handler:
        OPERATORS.update(dict.fromkeys(names, Operator(words, make, exact)))
        return make

    return enter


@dataclass
class Lowering:
    """A graph under construction from the nodes of a file.

    Attributes:
        source: where tensors are.
        g: builds the graph.
        made: values by their names in the file; the empty name is an input that is left out.
    """

    source: Source
    g: Builder = field(default_factory=Builder)
    made: dict[str, Any] = field(default_factory=lambda: {"": None})

    # ------------------------------------------------------------ values

    def ref(self, value: Value) -> Ref:
        """A value in the graph."""
        if value.ref is None:
            assert value.known is not None  # a value is one or the other
            value.ref = self.entered(value.known)
        return value.ref

    def entered(self, known: Known) -> Ref:
        """Known entries as a value of the graph."""
        if known.ndim == 0:
            entry: Any = known[()]
            return self.g.constant(entry) if isinstance(entry, bool) else self.g.size(sympy.sympify(entry))
        if all(isinstance(one, bool) for one in known.flat):
            return self.g.constant(known.astype(bool))
        if all(sympy.sympify(one).is_Integer for one in known.flat):
            return self.g.constant(np.array([int(one) for one in known.flat], np.int64).reshape(known.shape))
        if known.ndim == 1 and known.size:
            return self.g.stack([self.g.size(sympy.sympify(one)) for one in known])
        return self.g.refuse("a table of sizes is used as numbers")

    def array(self, array: Array) -> Value:
        """A constant array."""
        small = array.size <= MANY and array.dtype.kind in "biu"
        return Value(self.g.constant(array), array.astype(object) if small else None)

    def shape(self, value: Value) -> Shape:
        """The shape of a value."""
        if value.ref is None and value.known is not None:
            return tuple(map(sympy.Integer, value.known.shape))
        return self.g.shape(self.ref(value))

    def map(self, f: str, *args: Value | Ref) -> Ref:
        """A scalar function entry by entry."""
        return self.g.map(f, *(self.ref(one) if isinstance(one, Value) else one for one in args))

    def sizes(self, value: Value | None, what: str) -> list[sympy.Expr]:
        """A list of sizes that must be known."""
        if value is None or value.known is None or value.known.ndim > 1:
            self.g.refuse(f"{what} depends on values", expected="sizes and numbers alone")
        return [sympy.sympify(one) for one in value.known.reshape(-1)]

    def numbers(self, value: Value | None, what: str) -> list[int]:
        """A list of whole numbers that must be known."""
        found = self.sizes(value, what)
        if not all(one.is_Integer for one in found):
            self.g.refuse(f"{what} depends on sizes", expected="numbers")
        return [int(one) for one in found]

    # ------------------------------------------------------------ the loop

    def node(self, node: onnx.NodeProto) -> None:
        """Make what a node makes."""
        self.g.place = place_of(node, self.source.path)
        try:
            results = self.results(node)
        except ImportProblem as problem:
            results = [_Refused(problem)] * len(node.output)
        for name, result in zip(node.output, results, strict=False):
            if name:
                self.made[name] = result

    def results(self, node: onnx.NodeProto) -> Sequence[Any]:
        """What a node makes, by the table."""
        entry = OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if entry is None:
            self.unknown(node)
        attributes = {one.name: self.attribute(one) for one in node.attribute}
        args = [self.value(name) for name in node.input]
        known = [one.known for one in args if one is not None and one.known is not None]
        if entry.exact is not None and args and len(known) == len(args):
            exact = self.exactly(entry.exact, attributes, known)
            if exact is not None:
                return exact
        try:
            found = entry.make(self, attributes, *args)
        except (TypeError, KeyError, IndexError, AttributeError, ValueError) as trouble:
            # a file from outside may leave out inputs and attributes, and may have them of any type
            raise ImportProblem(
                "the inputs or attributes of this node are not those of its operator", where=str(self.g.place)
            ) from trouble
        if isinstance(found, list):
            return [one if isinstance(one, Value) else Value(one) for one in found]
        return [found if isinstance(found, Value) else Value(found)]

    def exactly(self, exact: Handler, attributes: Mapping[str, Any], known: Sequence[Known]) -> list[Value] | None:
        """The results for known entries, None where some entry is not decided, or where there are very many."""
        try:
            made = exact(attributes, *known)
        except (TypeError, KeyError, IndexError, ValueError, ZeroDivisionError, OverflowError):
            return None
        results = [np.asarray(one, dtype=object) for one in (made if isinstance(made, list) else [made])]
        plain = all(one.size <= MANY and not any(entry is None for entry in one.flat) for one in results)
        return [Value(known=one) for one in results] if plain else None

    def value(self, name: str) -> Value | None:
        """A value by its name in the file."""
        if name not in self.made:
            self.g.refuse(f"{name!r} is used and not made before", hint="the file is damaged; export it again")
        found = self.made[name]
        if isinstance(found, _Refused):
            raise found.problem
        return found  # type: ignore[no-any-return]

    def attribute(self, one: onnx.AttributeProto) -> Any:
        """The value of an attribute; text as str, a tensor as an array."""
        if one.type == onnx.AttributeProto.TENSOR:
            return array_of(one.t, self.source)
        if one.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            self.g.refuse("a graph inside of a node, as of a loop or a condition, is not in the vocabulary")
        found = onnx.helper.get_attribute_value(one)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def unknown(self, node: onnx.NodeProto) -> NoReturn:
        """Refuse an operator that is not in the table."""
        name = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        if node.domain not in ("", "ai.onnx"):
            hint = "inline the functions of the file with onnx.inliner, or export without custom operators"
        elif node.op_type in _ELSEWHERE:
            hint = "this is more than attention: point at the attention inside, as in model.onnx:h.0.attn"
        else:
            hint = "the table of operations in the docs says which are"
        self.g.refuse(f"the operator {name} is not in the vocabulary", hint=hint)


#: operators of whole models
_ELSEWHERE = frozenset({
    "LayerNormalization", "RMSNormalization", "BatchNormalization", "GroupNormalization", "Gelu", "Erf", "Conv", "Relu",
    "HardSwish", "Swish", "GlobalAveragePool", "MaxPool", "ArgMax", "TopK", "GatherND", "ScatterND",
})  # fmt: skip


def place_of(node: onnx.NodeProto, path: str) -> Place:
    """Where a node comes from: the line that its exporter noted, as text, or its name in the file."""
    label = f"{node.op_type} {node.name}".strip()
    lines = next((one.value for one in node.metadata_props if one.key == "pkg.torch.onnx.stack_trace"), "").splitlines()
    for number in range(len(lines) - 1, -1, -1):
        head = lines[number].strip()
        if head.startswith('File "') and '", line ' in head and "/site-packages/" not in head:
            file, _, rest = head[6:].partition('", line ')
            line = rest.partition(",")[0]
            code = lines[number + 1].strip() if number + 1 < len(lines) else label
            return Place(file, int(line) if line.isdecimal() and len(line) < 9 else 0, code)
    return Place(path, 0, label)


def dtype_of(kind: int) -> str:
    """NumPy's name of a type of ONNX; bfloat16, which NumPy lacks, counts as another short float."""
    if kind == onnx.TensorProto.BFLOAT16:
        return "float16"
    return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)))


# ---------------------------------------------------------------- entry by entry


def _whole(f: Callable[..., Any]) -> Handler:
    """A function of entries for arrays of known entries."""

    def exact(attributes: Mapping[str, Any], *arrays: Known) -> Known:
        return np.asarray(np.frompyfunc(f, len(arrays), 1)(*arrays), dtype=object)

    return exact


def _decided(relation: Any) -> bool | None:
    return bool(relation) if relation in (True, False, sympy.true, sympy.false) else None


def _equal(one: Any, other: Any) -> bool | None:
    """Whether two sizes are equal: for all values of the symbols, or for none."""
    if same(sympy.sympify(one), sympy.sympify(other)):
        return True
    return _decided(sympy.Eq(sympy.sympify(one), sympy.sympify(other)))


_EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: sympy.expand(a + b), "sub": lambda a, b: sympy.expand(a - b),
    "mul": lambda a, b: sympy.expand(a * b), "neg": lambda a: -a, "sqrt": lambda a: sympy.sqrt(a),
    "lt": lambda a, b: _decided(sympy.sympify(a) < b), "le": lambda a, b: _decided(sympy.sympify(a) <= b),
    "gt": lambda a, b: _decided(sympy.sympify(a) > b), "ge": lambda a, b: _decided(sympy.sympify(a) >= b),
    "eq": _equal, "not": lambda a: not a, "and": lambda a, b: bool(a and b), "or": lambda a, b: bool(a or b),
}  # fmt: skip


def _enter(name: str, f: str) -> None:
    def make(lo: Lowering, attributes: Mapping[str, Any], *args: Value) -> Ref:
        return lo.map(f, *args)

    operator(name, words=f, exact=_whole(_EXACT[f]) if f in _EXACT else None)(make)


for _name, _f in (
    ("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Neg", "neg"), ("Exp", "exp"), ("Sqrt", "sqrt"), ("Log", "log"),
    ("Abs", "abs"), ("Sin", "sin"), ("Cos", "cos"), ("Tanh", "tanh"), ("Equal", "eq"), ("Less", "lt"),
    ("LessOrEqual", "le"), ("Greater", "gt"), ("GreaterOrEqual", "ge"), ("Not", "not"), ("And", "and"), ("Or", "or"),
    ("Xor", "ne"), ("Pow", "pow"),
):  # fmt: skip
    _enter(_name, _f)


def _quotient(one: Any, by: Any) -> Any:
    return quotient(sympy.sympify(one), sympy.sympify(by))


@operator("Div", words="div", exact=_whole(_quotient))
def _div(lo: Lowering, attributes: Mapping[str, Any], x: Value, y: Value) -> Ref:
    if all(np.dtype(lo.g.dtype(lo.ref(one))).kind != "f" for one in (x, y)):
        lo.g.refuse("a division of whole numbers that does not come out even rounds, which is not in the vocabulary")
    return lo.map("div", x, y)


@operator("Reciprocal", words="div")
def _reciprocal(lo: Lowering, attributes: Mapping[str, Any], x: Value) -> Ref:
    return lo.map("div", lo.g.size(1), x)


def _folded(f: str) -> Handler:
    def make(lo: Lowering, attributes: Mapping[str, Any], first: Value, *rest: Value) -> Ref:
        made = lo.ref(first)
        for one in rest:
            made = lo.map(f, made, one)
        return made

    return make


for _name, _f in (("Max", "max"), ("Min", "min"), ("Sum", "add")):
    operator(_name, words=f"{_f}, one after the other")(_folded(_f))


@operator("Sigmoid", words="exp, add and div")
def _sigmoid(lo: Lowering, attributes: Mapping[str, Any], x: Value) -> Ref:
    one = lo.g.size(1)
    return lo.map("div", one, lo.map("add", one, lo.map("exp", lo.map("neg", x))))


@operator("Clip", words="min and max")
def _clip(
    lo: Lowering, attributes: Mapping[str, Any], x: Value, low: Value | None = None, high: Value | None = None
) -> Ref:
    made = lo.ref(x) if low is None else lo.map("max", x, low)
    return made if high is None else lo.map("min", made, high)


@operator("Where", words="where", exact=_whole(lambda c, x, y: x if c else y))
def _where(lo: Lowering, attributes: Mapping[str, Any], condition: Value, x: Value, y: Value) -> Ref:
    return lo.map("where", condition, x, y)


@operator("IsNaN", words="false, which is noted")
def _is_nan(lo: Lowering, attributes: Mapping[str, Any], x: Value) -> Ref:
    lo.g.note(assumed=(f"no entry is NaN at {lo.g.place}: every query keeps a key",))
    return lo.g.broadcast(lo.g.constant(False), lo.shape(x))


@operator("Identity", words="nothing", exact=lambda attributes, x: x)
def _identity(lo: Lowering, attributes: Mapping[str, Any], x: Value) -> Value:
    return x


@operator("Dropout", words="nothing where it is off, which is noted; refused where it is active")
def _dropout(
    lo: Lowering, attributes: Mapping[str, Any], x: Value, ratio: Value | None = None, training: Value | None = None
) -> Value:
    if training is not None and (training.known is None or bool(training.known.reshape(-1)[0])):
        lo.g.refuse("dropout is active here, and the result is random", hint="export the model in evaluation mode")
    lo.g.note(assumed=(f"dropout is off at {lo.g.place}",))
    return x


@operator("Cast", words="cast")
def _cast(lo: Lowering, attributes: Mapping[str, Any], x: Value) -> Value:
    name = dtype_of(attributes["to"])
    kind_of = np.dtype(name).kind
    known = None if x.known is None else _cast_known(lo, x.known, kind_of)
    if known is not None and x.ref is None:
        return Value(known=known)
    return Value(lo.g.cast(lo.ref(x), name), known if kind_of in "iub" else None)


def _cast_known(lo: Lowering, known: Known, kind: str) -> Known:
    """Known entries as whole numbers, truth values or reals."""
    flat = [sympy.Integer(one) if isinstance(one, bool) else sympy.sympify(one) for one in known.flat]
    if kind in "iu" and not all(one.is_integer for one in flat):
        lo.g.refuse("a cast from float to integer rounds, which is not in the vocabulary")
    found: list[Any] = [_equal(one, 0) is False for one in flat] if kind == "b" else flat
    made = np.empty(len(found), dtype=object)
    made[:] = found
    return made.reshape(known.shape)


@operator("CastLike", words="cast")
def _cast_like(lo: Lowering, attributes: Mapping[str, Any], x: Value, target: Value) -> Ref:
    return lo.g.cast(lo.ref(x), lo.g.dtype(lo.ref(target)))
