"""The conventions of counting: sharing, families, the cost of each node, sizes, complaints."""

from __future__ import annotations

import copy
import itertools

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_sym.attention.dims import (
    Weights,
)
from mha_sym.attention.forms import Options
from mha_sym.axes import Axis, Index, axis, product, size_symbol
from mha_sym.costs import COSTS, cost_of
from mha_sym.count import (
    bytes_moved,
    count,
    multiply_adds,
    parameter_rows,
    parameters,
    pointwise,
    stored_scores,
)
from mha_sym.errors import AxisProblem, DataProblem
from mha_sym.expr import (
    NODES,
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Map,
    Named,
    Reduce,
    Rename,
    Repeat,
    Select,
    Softmax,
    Stack,
    Total,
)
from mha_sym.pattern import einsum
from tests.counted import FORMS, SIZES, B, D, S, T, d_k, d_model, d_v, each_form, h, layer

# ---------------------------------------------------------------- contractions


def test_three_operands_are_taken_two_at_a_time_and_axes_dropped_at_once() -> None:
    i, j, k, n = axis("i", 2), axis("j", 3), axis("k", 5), axis("n", 7)
    a, b, c = Input("a", (i, j)), Input("b", (j, k)), Input("c", (k, n))
    macs = sum(1 for _ in itertools.product(range(2), range(3), range(5)))  # ab[i, k]
    macs += sum(1 for _ in itertools.product(range(2), range(5), range(7)))  # (ab)c[i, n]
    assert multiply_adds(Contract((a, b, c), (i, n))) == macs == 30 + 70
    assert bytes_moved(Contract((a, b, c), (i, n)), itemsize=1) == (6 + 15 + 10) + (10 + 35 + 14)
    # j is not dropped, since the last operand needs it; k is summed before the first product
    d = Input("d", (j, n))
    assert multiply_adds(Contract((a, b, d), (i, n))) == 2 * 3 + 2 * 3 * 7
    assert multiply_adds(Contract((a, b, d), (i, k, n))) == 30 + 2 * 3 * 5 * 7


def test_an_axis_of_one_operand_alone_is_summed_before_the_product() -> None:
    i, j, k = axis("i", 2), axis("j", 3), axis("k", 5)
    product_ = Contract((Input("a", (i, j)), Input("b", (i, k))), (k,))
    assert (multiply_adds(product_), pointwise(product_)) == (2 * 5, 2 * 3)
    assert bytes_moved(product_, itemsize=1) == (6 + 2) + (2 + 10 + 5)


def test_one_operand_is_summed_and_not_multiplied() -> None:
    i, j = axis("i", 2), axis("j", 3)
    a = Input("a", (i, j))
    assert (multiply_adds(Contract((a,), (i,))), pointwise(Contract((a,), (i,)))) == (0, 6)
    assert (pointwise(Contract((a,), (j, i))), bytes_moved(Contract((a,), (j, i)))) == (0, 0)


# ---------------------------------------------------------------- sharing and families


@each_form
def test_values_written_alike_are_one_value(form: str) -> None:
    y = layer(form, True).y
    assert count((y, copy.deepcopy(y))) == count(y)
    assert count(y + copy.deepcopy(y)).multiply_adds == count(y).multiply_adds


@each_form
def test_all_stages_together_cost_what_the_output_costs(form: str) -> None:
    stages = layer(form, True)
    both = count(stages.items().values()), count(stages.y)
    assert both[0].multiply_adds == both[1].multiply_adds
    assert both[0].pointwise == both[1].pointwise


def test_what_does_not_depend_on_the_head_is_computed_once() -> None:
    """One matrix of keys for all heads: its projection is not repeated for every head."""
    r = D.head
    x = Input("X", (D.b, D.s, D.m))
    keys = einsum("b s m, m k -> b s k", x, Input("W_K", (D.m, D.k), "weight"))
    queries = Select(Input("Q", (D.b, D.h, D.t, D.k)), D.h, r)
    scores = einsum("b t k, b s k -> b t s", queries, keys)
    found = multiply_adds(Stack(Softmax(scores, (D.s,)), r))
    assert found == sympy.expand(B * S * d_model * d_k + h * B * T * S * d_k)


def test_one_head_alone_counts_once() -> None:
    head = Select(Input("A", (D.h, D.t, D.s)), D.h, D.head)
    z = einsum("t s, s v -> t v", Softmax(head, (D.s,)), Input("V", (D.s, D.v)))
    assert (multiply_adds(z), stored_scores(z)) == (T * S * d_v, T * S)
    assert (multiply_adds(Stack(z, D.head)), stored_scores(Stack(z, D.head))) == (h * T * S * d_v, h * T * S)
    assert multiply_adds((Stack(z, D.head), z)) == h * T * S * d_v


def test_nested_families_multiply() -> None:
    groups, heads = Index("g", axis("g", "G")), Index("r", axis("h"))
    x = Input("x", (groups.axis, heads.axis, D.t))
    one = Map("exp", (Select(Select(x, groups.axis, groups), heads.axis, heads),))
    both = Total(Total(one, heads), groups)
    g = size_symbol("G")
    assert pointwise(both) == sympy.expand(g * h * T + g * h * T + g * T)
    assert pointwise(Total(Total(Map("exp", (Input("y", (D.t,)),)), heads), groups)) == T + h * T + g * T


def test_a_copied_operand_is_read_without_its_copies() -> None:
    mask = Input("M", (D.t, D.s), "mask")
    scores = Input("S", (D.b, D.t, D.s))
    copied = scores + Repeat(mask, (D.b, D.t, D.s))
    assert bytes_moved(copied, 1) == bytes_moved(scores + mask, 1) == sympy.expand(2 * B * T * S + T * S)


@pytest.mark.parametrize(
    ("expr", "operations"),
    [
        (Input("a", (D.t,)) + Input("b", (D.t,)) + Input("c", (D.t,)), 2 * T),
        (Map("mul", (Input("a", (D.t,)), Input("b", (D.t,)), Input("c", (D.t,)))), 2 * T),
        (Map("mul", (Input("a", (D.t,)),)), 0),
        (-Input("a", (D.t,)), T),
        (Map("fn:gelu", (Input("a", (D.t,)),)), T),
        (Reduce("max", Input("a", (D.t, D.s)), (D.s,)), T * S),
        (Reduce("sum", Input("a", (D.t, D.s)), ()), 0),
        (Compare("le", D.s, D.t), T * S),
        (Softmax(Input("a", (D.t, D.s)), (D.s,)), 3 * T * S),
        (Softmax(Input("a", (D.t, D.s)), (D.s,), Input("keep", (D.t, D.s), "mask", boolean=True)), 4 * T * S),
        (Named(Rename(Input("a", (D.t,)), D.t, axis("q", "T")), "A"), 0),
    ],
)
def test_pointwise_operations_of_a_node(expr: Expr, operations: sympy.Expr) -> None:
    assert pointwise(expr) == operations
    assert multiply_adds(expr) == 0


# ---------------------------------------------------------------- rows, sizes, complaints


def test_parameter_rows_say_name_role_axes() -> None:
    rows = parameter_rows(layer("combined", True).y)
    assert [(row.name, row.role) for row in rows] == [
        ("W_Q", "weight"), ("b_Q", "bias"), ("W_K", "weight"), ("b_K", "bias"), ("W_V", "weight"), ("b_V", "bias"),
        ("W_O", "weight"), ("b_O", "bias"),
    ]  # fmt: skip
    assert rows[0].axes == (D.m, D.hk)
    assert sum(row.count for row in rows) == parameters(layer("combined", True).y)


def test_data_masks_and_gates_are_not_parameters() -> None:
    mask = Input("M", (D.t, D.s), "mask")
    assert parameters(layer("combined", False, options=Options(mask=mask)).y) == parameters(layer("combined", False).y)
    assert parameters(Input("G", (D.h,), "gate")) == 0


def test_one_name_for_two_weights_is_refused() -> None:
    with pytest.raises(AxisProblem, match="input 'W' is two different things"):
        parameters((Input("W", (D.m, D.k), "weight"), Input("W", (D.m, D.v), "weight")))


def test_at_gives_integers_and_keeps_the_itemsize() -> None:
    found = count(layer("combined", False).y, itemsize=2).at(SIZES | {"unused": 9})
    assert all(type(value) is int for value in vars(found).values())
    assert found.itemsize == 2
    assert found.at({}) == found


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({k: v for k, v in SIZES.items() if k != "h"}, "no number for the size h"),
        (SIZES | {"h": 0}, "h = 0 is not a size"),
        (SIZES | {"T": -2}, "T = -2 is not a size"),
        (SIZES | {"T": True}, "T = True is not a size"),
        (SIZES | {"T": 2.5}, "T = 2.5 is not a size"),
    ],
)
def test_sizes_that_are_none_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(DataProblem, match=message):
        count(layer("combined", False).y).at(sizes)


def test_itemsize_must_be_a_size() -> None:
    with pytest.raises(DataProblem, match="itemsize = 0 is not a size"):
        count(layer("combined", False).y, itemsize=0)


def test_every_node_has_a_cost() -> None:
    assert set(COSTS) == set(NODES)


def test_an_unknown_node_is_not_free() -> None:
    class Other(Expr):
        def _axes(self) -> tuple[Axis, ...]:
            return ()

    with pytest.raises(NotImplementedError, match="Other has no row in mha_sym"):
        cost_of(Other())


# ---------------------------------------------------------------- properties


small = st.integers(1, 4)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=2, max_size=4),
    st.lists(small, min_size=5, max_size=5),
)
def test_contractions_against_loops(operands: list[set[int]], sizes: list[int]) -> None:
    axes = [axis(f"a{n}", size) for n, size in enumerate(sizes)]
    out = {n for n in operands[0] | operands[-1] if n % 2 == 0}
    args = tuple(Input(f"x{n}", tuple(axes[a] for a in sorted(one))) for n, one in enumerate(operands))
    macs, additions, have = 0, 0, operands[0]

    def loops(over: set[int]) -> int:
        return sum(1 for _ in itertools.product(*(range(sizes[a]) for a in over)))

    for place, one in enumerate(operands[1:], start=2):
        needed = out.union(*operands[place:])
        alone = (have ^ one) - needed  # summed away before the product
        additions += loops(have) if alone & have else 0
        additions += loops(one) if alone & one else 0
        macs += loops((have | one) - alone)
        have = (have | one) & needed
    found = Contract(args, tuple(axes[a] for a in sorted(out)))
    assert (multiply_adds(found), pointwise(found)) == (macs, additions)


@settings(deadline=None, max_examples=30)
@given(st.fixed_dictionaries(dict.fromkeys(SIZES, small)))
def test_forms_differ_in_no_quantity_but_traffic_and_the_sum_of_heads(sizes: dict[str, int]) -> None:
    one, two, three = (count(layer(form, True).y).at(sizes) for form in FORMS)
    for name in ("parameters", "stored_scores", "multiply_adds"):
        assert getattr(one, name) == getattr(two, name) == getattr(three, name)
    added = sizes["h"] * sizes["B"] * sizes["T"] * sizes["d_model"]
    assert one.pointwise == two.pointwise == three.pointwise - added
    assert one.bytes_moved <= two.bytes_moved <= three.bytes_moved


def test_weights_are_counted_whatever_reads_them() -> None:
    w = Weights(*(Input(name, (D.m, product(D.h, D.k)), "weight") for name in ("Q", "K", "V", "O")))
    r = D.head
    shape = Concat(Select(Input("Q3", (D.h, D.m, D.k), "weight"), D.h, r), r, D.k)
    assert parameters((*w.items().values(), shape)) == 5 * d_model * h * d_k
