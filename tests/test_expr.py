"""The language refuses what does not fit, at construction, with the axes on both sides in the message."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import sympy

from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product
from mha_sym.errors import AxisProblem
from mha_sym.expr import (
    NODES,
    Block,
    Blocks,
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Join,
    Map,
    Named,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Stack,
    Table,
    Total,
    Transpose,
    inputs,
    is_boolean,
    walk,
)

b, t, s, h, k, m = (axis(n, size) for n, size in [("b", "B"), ("t", "T"), ("s", "S"), ("h", None), ("k", "d_k"),
                                                 ("m", "d_model")])  # fmt: skip
hk = product(h, k)
x = Input("X", (b, t, m))
q = Input("Q", (b, t, hk))
scores = Input("S", (b, h, t, s))
r = Index("r", h)

REFUSED: list[tuple[str, Callable[[], Expr], str]] = [
    (
        "two axes of one name",
        lambda: Input("X", (t, axis("t", "S"))),
        "axis 't' would occur twice\n  in:       input\n  got:      (t: T, t: S)",
    ),
    (
        "one name, two sizes",
        lambda: x + Input("Y", (b, axis("t", "S"), m)),
        "axis 't' has size T on one side and S on the other\n  in:       add\n"
        "  axes:     (b: B, t: T, m: d_model)\n  axes:     (b: B, t: S, m: d_model)",
    ),
    (
        "equal sizes do not unify",
        lambda: Contract((Input("A", (t, axis("p", "n"))), Input("B", (axis("q", "n"), m))), (t, s)),
        "axis 's' of the result is in no operand\n  in:       contract\n  got:      (t: T, s: S)\n"
        "  axes:     (t: T, p: n)\n  axes:     (q: n, m: d_model)",
    ),
    (
        "outer product by accident",
        lambda: Input("u", (t,)) * Input("v", (s,)),
        "no operand carries all the axes, so the result would be an outer product\n  in:       mul\n"
        "  axes:     (t: T)\n  axes:     (s: S)\n"
        "  hint:     copy an operand along the missing axes with repeat, or use einsum",
    ),
    ("unknown operation", lambda: Map("cbrt", (x,)), "no pointwise operation 'cbrt'\n  expected: add, mul, neg, exp, "
     "inv, fn:NAME"),
    ("wrong number of arguments", lambda: Map("exp", (x, x)), "exp takes 1 arguments\n  got:      2"),
    (
        "softmax over an axis that is not there",
        lambda: Softmax(x, (s,)),
        "axis 's' is not there\n  in:       softmax\n  got:      (b: B, t: T, m: d_model)",
    ),
    ("softmax over nothing", lambda: Softmax(x, ()), "softmax needs an axis\n  in:       softmax\n  axes:     (b: B, "
     "t: T, m: d_model)"),
    (
        "a mask that is not 0 or 1",
        lambda: Softmax(scores, (s,), Input("M", (t, s), "mask")),
        "the mask of a softmax must be 0 or 1 everywhere\n  in:       softmax\n  hint:     declare the input with "
        "boolean=True, or add it to the scores if it is an additive mask",
    ),
    (
        "a mask with an axis of its own",
        lambda: Softmax(scores, (s,), Input("M", (m, s), "mask", boolean=True)),
        "axis 'm' is not there\n  in:       softmax, its mask\n  got:      (b: B, h: h, t: T, s: S)",
    ),
    (
        "one name, two meanings",
        lambda: Reduce("sum", scores, (axis("s", "T"),)),
        "axis 's' has two meanings\n  in:       sum\n  expected: s: T\n  got:      s: S\n"
        "  hint:     axes agree by name and size and factors, never by size alone",
    ),
    (
        "split of a plain axis",
        lambda: Split(x, m),
        "axis 'm' is not a product axis\n  in:       split\n  axes:     (b: B, t: T, m: d_model)",
    ),
    (
        "join of axes that are not adjacent",
        lambda: Join(Input("Q", (h, t, k)), (h, k)),
        "only adjacent axes, in order, can be joined\n  in:       join\n  expected: (h: h, k: d_k)\n"
        "  axes:     (h: h, t: T, k: d_k)\n  hint:     transpose first",
    ),
    (
        "transpose that loses an axis",
        lambda: Transpose(x, (t, b)),
        "a transpose keeps every axis\n  in:       transpose\n  got:      (t: T, b: B)\n"
        "  axes:     (b: B, t: T, m: d_model)",
    ),
    (
        "repeat that loses an axis",
        lambda: Repeat(x, (b, t)),
        "repeat would lose axis 'm'\n  in:       repeat\n  got:      (b: B, t: T)\n"
        "  axes:     (b: B, t: T, m: d_model)",
    ),
    (
        "rename to another size",
        lambda: Rename(x, t, s),
        "renaming keeps the size\n  in:       rename\n  expected: t: T\n  got:      s: S",
    ),
    (
        "reshape to another number of entries",
        lambda: Reshape(q, (b, h, t)),
        "a reshape keeps the number of entries\n  in:       reshape\n  expected: B*T*d_k*h entries in (b: B, t: T, "
        "(h k): d_k*h)\n  got:      B*T*h entries in (b: B, h: h, t: T)",
    ),
    (
        "permutation of an axis that is not there",
        lambda: Permute(x, Permutation("pi", h)),
        "axis 'h' is not there\n  in:       permute\n  got:      (b: B, t: T, m: d_model)",
    ),
    (
        "an index of another axis",
        lambda: Select(scores, t, r),
        "index 'r' runs over another axis\n  in:       select\n  expected: t: T\n  got:      h: h",
    ),
    (
        "a position that is not there",
        lambda: Select(Input("W", (axis("h", 3), k)), axis("h", 3), 3),
        "no position 3\n  in:       select\n  axes:     (h: 3, k: d_k)",
    ),
    (
        "concatenation along an axis that is not there",
        lambda: Concat(x, r, k),
        "axis 'k' is not there\n  in:       concat\n  got:      (b: B, t: T, m: d_model)",
    ),
    ("a family over an axis of the body", lambda: Stack(scores, r), "axis 'h' would occur twice\n  in:       stack\n"
     "  got:      (h: h, b: B, h: h, t: T, s: S)"),
    (
        "blocks that differ elsewhere",
        lambda: Blocks((Input("A", (t, m)), Input("B", (s, k))), (t, s)),
        "the blocks differ in another axis\n  in:       blocks\n  axes:     ((t + s): S + T, m: d_model)\n"
        "  axes:     ((t + s): S + T, k: d_k)",
    ),
    ("blocks without an axis", lambda: Blocks((x,), (t, s)), "one block axis an argument\n  in:       blocks\n"
     "  got:      1 arguments"),
    (
        "a block that is not there",
        lambda: Block(Input("A", (blocks(t, s), m)), blocks(t, s), 2),
        "axis '(t + s)' has no block 2\n  in:       block",
    ),
    (
        "a table of another size",
        lambda: Table("P", (axis("m", 3),), (1, 2)),
        "axis 'm' has size 3\n  in:       table P\n  got:      2 entries\n  axes:     (m: 3)",
    ),
    ("a table of floats", lambda: Table("P", (axis("m", 1),), (0.5,)), "a table holds exact rationals\n"
     "  in:       table P\n  got:      0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("build", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_with_the_axes_shown(build: Callable[[], Expr], message: str) -> None:
    with pytest.raises(AxisProblem) as caught:
        build()
    assert str(caught.value) == message


def test_every_node_is_refused_somewhere_or_cannot_be_malformed() -> None:
    cannot = {Scalar, Compare, Total, Named}
    seen = " ".join(message for _, _, message in REFUSED).lower()
    by_operation = {Map: "mul", Reduce: "sum", Table: "table", Input: "input"}
    places = {node: f"in:       {by_operation.get(node, node.__name__.lower())}" for node in NODES}
    missing = [node for node in NODES if node not in cannot and places[node] not in seen]
    assert not missing


def test_expressions_are_frozen_and_compare_by_structure() -> None:
    same = Softmax(Input("S", (t, s)), (s,))
    assert same == Softmax(Input("S", (t, s)), (s,))
    assert same != Softmax(Input("S", (t, s)), (t,))
    assert hash(same) == hash(Softmax(Input("S", (t, s)), (s,)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        same.arg = x  # type: ignore[misc]


def test_axes_of_equal_size_stay_apart() -> None:
    """Two axes of size n: neither addition nor a product may take one for the other."""
    n1, n2 = axis("t", "n"), axis("h", "n")
    left, right = Input("A", (n1, m)), Input("B", (n2, m))
    with pytest.raises(AxisProblem, match="outer product"):
        left + right
    both = Contract((left, right), (n1, n2))
    assert both.axes == (n1, n2)
    assert both.summed == (m,)


def test_product_axis_keeps_the_order_of_its_factors() -> None:
    assert product(h, k) != product(k, h)
    with pytest.raises(AxisProblem, match="not there"):
        Split(q, product(k, h))


def test_a_boolean_is_known_only_where_it_is_certain() -> None:
    keep = Input("keep", (t, s), "mask", boolean=True)
    assert is_boolean(keep)
    assert is_boolean(keep * Compare("le", s, t))
    assert is_boolean(Map("add", (Scalar(sympy.Integer(1)), -keep)))
    assert is_boolean(Repeat(keep, (b, t, s)))
    assert not is_boolean(keep + keep)
    assert not is_boolean(-keep)
    assert not is_boolean(Input("M", (t, s), "mask"))
    assert not is_boolean(Scalar(sympy.Integer(2)))


def test_walk_gives_each_shared_node_once_and_children_first() -> None:
    twice = x + x
    nodes = walk(twice * twice)
    assert [type(n).__name__ for n in nodes] == ["Input", "Map", "Map"]


def test_inputs_of_one_name_must_be_one_input() -> None:
    with pytest.raises(AxisProblem, match="two different things"):
        inputs(Map("add", (Reduce("sum", Input("X", (t,)), (t,)), Reduce("sum", Input("X", (s,)), (s,)))))


def test_axis_refuses_what_is_no_size() -> None:
    for size in (0, -3, sympy.Rational(1, 2), sympy.Symbol("n")):
        with pytest.raises(AxisProblem, match="cannot have size"):
            axis("t", size)
    with pytest.raises(AxisProblem, match="not a name"):
        axis("t s")
    with pytest.raises(AxisProblem, match="twice"):
        product(h, h)
    with pytest.raises(AxisProblem, match="at least two"):
        blocks(h)


def test_primitive_axes() -> None:
    assert product(product(b, h), k).primitive() == (b, h, k)
    assert isinstance(hk, Axis)
    assert not hk.is_plain


def test_a_scalar_is_exact() -> None:
    assert Scalar(2) == Scalar(sympy.Integer(2))  # type: ignore[arg-type]
    for value in (0.5, "2", sympy.Float("0.5"), None):
        with pytest.raises(AxisProblem, match="a scalar is an exact number"):
            Scalar(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("symbol", [sympy.Symbol("alpha"), sympy.Symbol("alpha", real=True), sympy.Dummy("alpha")])
def test_a_scalar_has_no_symbols_but_sizes(symbol: sympy.Symbol) -> None:
    with pytest.raises(AxisProblem, match="'alpha' in a scalar is not a size") as caught:
        Scalar(symbol * axis("k", "d_k").size)
    assert "Input('alpha', ())" in caught.value.hint


def test_an_input_has_a_role_that_there_is() -> None:
    with pytest.raises(AxisProblem, match="there is no role 'the scores'") as caught:
        Input("x", (h,), "the scores")  # type: ignore[arg-type]
    assert caught.value.expected.startswith("one of data, ")


def test_a_name_is_no_axis() -> None:
    with pytest.raises(AxisProblem) as caught:
        Softmax(scores, "s")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "'s' is not an axis\n  in:       softmax\n  expected: Axis objects, in a tuple\n  got:      str\n"
        "  axes:     (b: B, h: h, t: T, s: S)\n  hint:     write (x.axis('s'),) for the axis of x that is called s"
    )
