"""The operations that imported code may use, as a page for the documentation, made from the tables that are used.

Defines `markdown`.  ``python -m mha_sym.importers.vocabulary > docs/operations.md`` writes the page again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mha_sym.importers.from_numpy.array import UFUNCS
from mha_sym.importers.from_numpy.created import CREATED
from mha_sym.importers.from_numpy.functions import FUNCTIONS, METHODS
from mha_sym.importers.graph import SCALAR

_TESTS = "tests/importers/test_numpy_operations.py"

_HEAD = """\
# Operations that imported code may use

`mha-sym check TARGET --prove` runs code once on arrays without values and follows what it does to them. What is in
these tables is followed; anything else is refused by name, with the line on which it stands. The tables are made from
those that the program uses, and every row names the test that compares it with NumPy.
"""

#: what each operation of a graph is, for a reader
_STRUCTURE: tuple[tuple[str, str, str], ...] = (
    ("input", "an array from outside: data, a weight, a buffer", "`lift_values`, `Input`"),
    ("constant", "an array of numbers; triangles, identities and equal entries are recognised", "`constants`"),
    ("size", "an exact number made of sizes, such as 1/sqrt(d_k)", "`Scalar`"),
    ("iota", "the positions 0, 1, ... of an axis", "`Compare`, once two are compared"),
    ("map", "a scalar function entry by entry: " + ", ".join(SCALAR), "`Map`, masks"),
    ("contract", "a sum of products over labels (matmul, einsum, tensordot)", "`Contract`"),
    ("reduce", "sum or maximum over axes", "`Reduce`"),
    ("reshape", "row-major", "nothing where axes are split and joined, `Reshape` where they cross"),
    ("permute", "axes in another order", "nothing: axes have names"),
    ("broadcast", "copies along axes", "nothing: the expression lacks these axes"),
    ("slice", "consecutive positions of an axis", "`Select`, `Block`"),
    ("concat", "arrays end to end", "sums over the pieces, or `Blocks`"),
    ("gather", "listed positions of an axis of fixed size", "pieces end to end"),
    ("take", "positions of an axis that a formula of positions gives", "an arbitrary array: `looked_up`"),
    ("given", "cosines and sines of positions that code makes or keeps by itself", "an arbitrary array: `angles`"),
    ("softmax", "exp(x) / sum exp(x) along an axis, also where it is written out", "`Softmax`"),
    ("attention", "scaled dot-product attention, opened by its definition", "contraction, mask, softmax, contraction"),
)


def markdown() -> str:
    """The page.

    Example:
        >>> markdown().splitlines()[0]
        '# Operations that imported code may use'
    """
    parts = [
        _HEAD, "## Of a graph\n", _table(("operation", "meaning", "expression"), _STRUCTURE),
        "## NumPy: ufuncs and operators\n", _operations(UFUNCS, "ufunc {}"),
        "## NumPy: functions\n", _operations(FUNCTIONS, "{}"),
        "## NumPy: methods of arrays\n", _operations(METHODS, ".{}"),
        "## NumPy: arrays made from sizes\n", _operations(CREATED, "created {}"),
        *_frameworks(),
    ]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


def _frameworks() -> Iterator[str]:
    """The tables of PyTorch, JAX and ONNX; what they are in a graph stands beside each name."""
    from mha_sym.importers.from_jax.module import PRIMITIVES  # frameworks are imported only for this page
    from mha_sym.importers.from_onnx.model import OPERATORS
    from mha_sym.importers.from_torch.code import OPERATIONS

    pages: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
        ("PyTorch", "operations of ATen, also with _ at the end, where they write", "torch_ops", OPERATIONS),
        ("JAX", "primitives of a jaxpr", "jax", PRIMITIVES),
        ("ONNX", "operators, opset 13 and later", "onnx", OPERATORS),
    )
    for name, what, tests, rows in pages:
        test = f"`tests/importers/test_{tests}.py`"
        compared = f"Every row is compared with {name} in {test}, which fails if it meets a row nowhere."
        yield f"## {name}: {what}\n\n{compared}\n"
        yield _table(("operation", "in the graph"), ((f"`{one}`", rows[one].words) for one in sorted(rows)))


def _operations(names: Iterable[str], case: str) -> str:
    rows = [(f"`{name}`", f"`{_TESTS}::test_numpy_operation[{case.format(name)}]`") for name in sorted(names)]
    return _table(("operation", "test"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(markdown())
