"""The formula of an entry, computed by SymPy at small sizes, against evaluation and against loops."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product as pairs
from typing import Any

import numpy as np
import pytest
import sympy
from sympy.core.function import AppliedUndef

from mha_sym.arrays import size_value
from mha_sym.attention.dims import combined_weights, cross_inputs, dims, head_weights, self_inputs
from mha_sym.attention.forms import Options, combined, head_sum, separate
from mha_sym.attention.variants import interleaved, keep_mask
from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product, size_symbol
from mha_sym.errors import AxisProblem
from mha_sym.evaluate import evaluate
from mha_sym.exact import Rationals
from mha_sym.expr import (
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
    as_expr,
    inputs,
)
from mha_sym.library import load, theorem_names
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.entry import entry

d = dims(S="S")
SIZES = {"B": 2, "T": 3, "S": 4, "d_model": 2, "h": 3, "d_k": 4, "d_v": 2, "P": 2, "N": 3}
PI = {"pi": (2, 0, 1)}


# ---------------------------------------------------------------- computing with a formula


def computed(formula: sympy.Expr, arrays: Mapping[str, Any], sizes: Mapping[str, int], orders: Any = None) -> Any:
    """The value of a formula: sizes put in, sums added up, then permutations and entries looked up."""
    formula = formula.subs({size_symbol(name): n for name, n in sizes.items()}).doit()

    def image(call: Any) -> sympy.Expr:
        order = list((orders or {})[call.func.__name__.removesuffix("^{-1}")])
        at = int(call.args[0])
        return sympy.Integer(order.index(at) if call.func.__name__.endswith("^{-1}") else order[at])

    formula = formula.replace(lambda e: isinstance(e, AppliedUndef) and e.func.__name__.startswith("pi"), image)

    def looked_up(one: Any) -> sympy.Expr:
        return sympy.sympify(arrays[one.base.label.name][tuple(int(i) for i in one.indices)])

    scalars = {sympy.Symbol(n): sympy.sympify(a[()]) for n, a in arrays.items() if np.ndim(a) == 0}
    return formula.replace(lambda e: isinstance(e, sympy.Indexed), looked_up).subs(scalars).doit()


def drawn(expr: Expr, sizes: Mapping[str, int], seed: int = 3) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of small fractions, and masks of 0 and 1 in which no row is empty."""
    numbers = np.random.default_rng(seed)
    arrays = {}
    for node in inputs(expr):
        shape = tuple(size_value(a, sizes) for a in node.axes)
        if node.boolean:
            arrays[node.name] = numbers.integers(0, 2, shape)
            arrays[node.name][..., 0] = 1
        else:
            values = numbers.integers(-6, 7, shape)
            arrays[node.name] = np.asarray(np.frompyfunc(lambda n: sympy.Rational(int(n), 4), 1, 1)(values), object)
    return arrays


def check(expr: Expr, sizes: Mapping[str, int] | None = None, most: int = 14, **options: Any) -> None:
    """Compare the formula with evaluation at some positions: exactly, or to rounding where there are exponentials."""
    used = {s.name for node in [expr] for s in _symbols(node)}
    known = {name: n for name, n in (sizes or SIZES).items() if name in used}
    arrays = drawn(expr, known)
    formula = entry(expr)
    names = _positions(expr.axes)
    exact = not formula.has(sympy.exp)
    given = {n: a.astype(float) if a.dtype == object and not exact else a for n, a in arrays.items()}
    if exact:
        fractions = np.frompyfunc(lambda q: Fraction(int(q.p), int(q.q)), 1, 1)
        given = {n: np.asarray(fractions(a), object) if a.dtype == object else a for n, a in given.items()}
    orders = {"permutations": PI} if options.pop("permuted", False) else {}
    value = evaluate(expr, given, sizes=known, exact=Rationals() if exact else None, **orders, **options)
    places = list(np.ndindex(*value.shape))
    for place in random.Random(1).sample(places, min(most, len(places))):
        here = entry(expr, dict(zip([a.name for a in expr.axes], map(int, place), strict=True)))
        general = formula.subs(_split_up(names, place, known))
        got = [computed(f, arrays, known, PI) for f in (here, general)]
        if exact:
            assert got == [sympy.Rational(value[place].numerator, value[place].denominator)] * 2, place
        else:
            assert [float(g) for g in got] == pytest.approx([float(value[place])] * 2, rel=1e-12), place


def _symbols(expr: Expr) -> set[sympy.Symbol]:
    found = {s for a in expr.axes for s in a.size.free_symbols}
    found |= expr.value.free_symbols if isinstance(expr, Scalar) else set()
    if isinstance(expr, Stack | Concat | Total):
        found |= expr.index.axis.size.free_symbols
    return found.union(*map(_symbols, expr.children))


def _positions(axes: Sequence[Axis]) -> list[tuple[str, Axis]]:
    letters = {"h": "r", "k": "j", "v": "j", "s": "s", "m": "m", "b": "b", "t": "t"}
    found: list[tuple[str, Axis]] = []
    taken: list[str] = []
    for whole in axes:
        for one in whole.factors or (whole,):
            letter = letters.get(one.name, "c" if not one.is_plain else one.name)
            found.append((letter if letter not in taken else "i", one))
            taken.append(letter)
    return found


def _split_up(names: list[tuple[str, Axis]], place: tuple[int, ...], sizes: Mapping[str, int]) -> dict[Any, int]:
    """The values of the letters of a general formula at a place."""
    flat = [int(n) for n in place]
    result = {}
    if len(flat) < len(names):  # product axes: only the last axis is one in these tests
        whole = [size_value(a, sizes) for _, a in names[len(flat) - 1 :]]
        flat = [*flat[:-1], *map(int, np.unravel_index(flat[-1], whole))]
    for (name, _), n in zip(names, flat, strict=True):
        result[sympy.Symbol(name, integer=True, nonnegative=True)] = n
    return result


# ---------------------------------------------------------------- forms against evaluation

x, w = cross_inputs(d), combined_weights(d, bias=True)
flat = einsum("b t m, m (h k) -> b t (h k)", x[0], w.w_q)
layer = combined(d, x, w)
past, new = axis("past", "P"), axis("new", "N")
both = Blocks((Input("A", (past, d.m)), Input("C", (new, d.m))), (past, new))
pi = Permutation("pi", d.h)


@pytest.mark.parametrize("expr", [
    flat, layer.q, layer.v, layer.scores,
    Reshape(flat, (d.b, d.h, d.t, d.k)),
    interleaved(flat, d, d.k),
    rearrange(flat, "b t (h k) -> t h b k"),
    Join(Input("Z", (d.t, d.h, d.v)), (d.h, d.v)),
    Reshape(Input("Z", (d.h, d.t, d.v)), (d.t, product(d.h, d.v))),
    Split(Input("C", (d.t, d.hv)), d.hv),
    separate(d, x, head_weights(d)).q,
    Concat(Input("Z", (d.t, d.v)) * Scalar(d.v.size), d.head, d.v),
    Total(Select(Input("Z", (d.t, d.h)), d.h, d.head), d.head),
    einsum("t (h v), (h v) m -> t m", Concat(Select(Input("Z", (d.h, d.t, d.v)), d.h, d.head), d.head, d.v), w.w_o),
    both, Contract((both, Input("g", (d.m,))), both.axes[:1]),
    Reduce("sum", both, (both.axes[0],)), Block(Input("A", (blocks(past, new), d.m)), blocks(past, new), 1),
    Input("A", (d.t,)) * Scalar(sympy.Rational(3, 7) * d.t.size),
    Map("inv", (Input("keep", (d.t, d.s), boolean=True) + as_expr(1),)),
    Repeat(Input("A", (d.t,)), (d.t, d.s)), Rename(Input("A", (d.t, d.m)), d.t, axis("u", "T")),
    Stack(Select(Input("A", (d.t, d.s)), d.t, Index("u", d.t)), Index("u", d.t)),
    Reduce("sum", Input("A", (d.t, d.hk)), (d.hk,)),
    Input("c", ()) * Input("A", (d.t,)),
], ids=lambda expr: type(expr).__name__)  # fmt: skip
def test_formulas_without_exponentials_are_exact(expr: Expr) -> None:
    check(expr)


@pytest.mark.parametrize("op", ["le", "lt", "ge", "gt", "eq", "ne"])
@pytest.mark.parametrize("offset", [0, 1, -2])
def test_comparisons(op: Any, offset: int) -> None:
    check(Compare(op, d.t, d.s, offset))


@pytest.mark.parametrize("perm", [pi, pi.inverse()])
def test_permutations_are_functions(perm: Permutation) -> None:
    check(Permute(Input("A", (d.h, d.m)), perm), permuted=True)
    once = entry(Permute(Input("A", (d.h,)), perm))
    assert str(once) == ("A[pi^{-1}(r)]" if perm.inverted else "A[pi(r)]")
    there_and_back = Permute(Permute(Input("A", (d.h,)), pi), pi.inverse())
    assert str(entry(there_and_back)) == "A[r]"


def test_tables() -> None:
    two, three = axis("n", 2), axis("p", 3)
    table = Table("c", (two, three), ((1, 2, sympy.Rational(1, 3)), (4, 5, -6)))
    check(table)
    check(einsum("n p, p m -> n m", table, Input("A", (three, d.m))))
    assert entry(table, {"n": 0, "p": 2}) == sympy.Rational(1, 3)


def test_maximum_over_a_fixed_and_over_an_unknown_size() -> None:
    check(Reduce("max", Input("A", (d.t, axis("n", 3))), (axis("n", 3),)))
    formula = entry(Reduce("max", Input("A", (d.t, d.s)), (d.s,)))
    s, t = (sympy.Symbol(n, integer=True, nonnegative=True) for n in "st")
    assert formula == sympy.Function("max")(sympy.IndexedBase("A")[t, s], sympy.Tuple(s, 0, size_symbol("S") - 1))


def test_unknown_functions() -> None:
    formula = entry(Map("fn:norm", (Input("A", (d.t,)) + Input("A", (d.t,)),)))
    assert str(formula) == "norm(2*A[t])"


SMALL = {"B": 1, "T": 2, "S": 3, "d_model": 2, "h": 2, "d_k": 3, "d_v": 2}
keep = keep_mask(d.b, d.t, d.s)


@pytest.mark.parametrize("expr", [
    Softmax(Input("A", (d.t, d.s)), (d.s,)),
    Softmax(Input("A", (d.t, d.s)), (d.t, d.s)),
    Softmax(Input("A", (d.t, d.s)), (d.s,), Compare("le", d.s, d.t)),
    Softmax(Input("A", (d.t, d.hk)), (d.hk,)),
    Softmax(both, (both.axes[0],)),
    combined(d, x, w, Options(mask=Input("M", (d.t, d.s), "mask"), keep=keep)).weights,
    layer.z,
], ids=lambda expr: type(expr).__name__)  # fmt: skip
def test_softmax_agrees_to_rounding(expr: Expr) -> None:
    check(expr, {**SMALL, "P": 2, "N": 1}, most=5)


@pytest.mark.parametrize("form", [combined, separate, head_sum])
def test_whole_layers_agree_to_rounding(form: Any) -> None:
    sizes = {"B": 1, "T": 2, "S": 3, "d_model": 2, "h": 2, "d_k": 1, "d_v": 2}
    weights = w if form is combined else head_weights(d, bias=True)
    check(form(d, x, weights).y, sizes, most=5)


# ---------------------------------------------------------------- against loops


def test_raw_reshape_against_loops() -> None:
    z = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    e = dims(B=2, T=3, h=4)
    formula = entry(Reshape(Input("Z", (e.b, e.t, e.h)), (e.h, e.b, e.t)))
    for r, b, t in pairs(range(4), range(2), range(3)):
        names = {sympy.Symbol(n, integer=True, nonnegative=True): v for n, v in zip("rbt", (r, b, t), strict=True)}
        assert computed(formula.subs(names), {"Z": z}, {}) == z.ravel()[(r * 2 + b) * 3 + t]


def test_one_head_against_loops() -> None:
    e = dims(B=1, T=2, d_model=2, h=1, d_k=2, d_v=2)
    rng = np.random.default_rng(8)
    arrays = {n: rng.integers(-3, 4, s) for n, s in
              (("X", (1, 2, 2)), ("W_Q", (2, 2)), ("W_K", (2, 2)), ("W_V", (2, 2)), ("W_O", (2, 2)))}
    formula = entry(combined(e, self_inputs(e), combined_weights(e)).z, {"b": 0, "h": 0, "t": 1, "v": 0})
    q, k, v = (arrays["X"][0] @ arrays[n] for n in ("W_Q", "W_K", "W_V"))
    powers = [math.exp(sum(int(q[1, i]) * int(k[s, i]) for i in range(2)) / math.sqrt(2)) for s in range(2)]
    expected = sum(p * int(v[s, 0]) for s, p in enumerate(powers)) / sum(powers)
    assert float(computed(formula, arrays, {})) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("compared", [Compare("le", d.h, d.t), Compare("le", d.t, d.h)])
def test_sums_over_a_position_whose_part_is_compared(compared: Expr) -> None:
    """The head of a joined position stands in a comparison only; the sum is written over heads and features."""
    heads = Repeat(compared, (d.h, d.k, d.t))
    joined = Join(heads, (d.h, d.k))
    total = Reduce("sum", joined, tuple(a for a in joined.axes if a != d.t))
    check(total)
    assert "floor" not in str(entry(total)) and "Mod" not in str(entry(total))


# ---------------------------------------------------------------- how it reads


def test_joined_positions_are_written_as_products() -> None:
    plain = combined_weights(d)
    assert str(entry(combined(d, x, plain).k)) == "Sum(W_K[m, d_k*r + j]*X_k[b, s, m], (m, 0, d_model - 1))"
    total = entry(Reduce("sum", rearrange(Input("Z", (d.h, d.t, d.v)), "h t v -> t (h v)"), (d.hv,)))
    assert str(total) == "Sum(Z[r, t, j], (j, 0, d_v - 1), (r, 0, h - 1))"
    assert str(entry(plain.w_q, {"(h k)": "c"})) == "W_Q[m, c]"
    assert str(entry(Join(Input("Z", (d.h, d.k)), (d.h, d.k)), {"(h k)": "c"})) == "Z[floor(c/d_k), Mod(c, d_k)]"


def test_only_what_is_taken_apart_is_summed_part_by_part() -> None:
    """A position in a product axis that all take as it is stays one."""
    h, k, t = axis("h"), axis("k", "d_k"), axis("t", "T")
    hk = product(h, k)
    a, w, both = Input("a", (hk,)), Input("w", (h, k)), Input("b", (hk, t))
    assert str(entry(Contract((a, both), (t,)))) == "Sum(a[c]*b[c, t], (c, 0, d_k*h - 1))"
    assert str(entry(Reduce("sum", Map("exp", (a,)), (hk,)))) == "Sum(exp(a[c]), (c, 0, d_k*h - 1))"
    assert str(entry(Contract((a, Join(w, (h, k))), ()))) == (
        "Sum(a[d_k*r + j]*w[r, j], (j, 0, d_k - 1), (r, 0, h - 1))")
    compared = entry(Contract((Compare("le", hk, t), both), (t,)))
    assert [len(one.limits) for one in compared.atoms(sympy.Sum)] == [1]


def test_names_are_kept_when_folded() -> None:
    assert str(entry(layer.z, fold=True)) == "Sum(A[b, r, t, s]*V[b, r, s, j], (s, 0, S - 1))"
    assert str(entry(layer.weights, fold=True)) == "exp(S[b, r, t, s])/Sum(exp(S[b, r, t, u]), (u, 0, S - 1))"
    named = Named(Input("A", (d.t,)) * 2, "N")
    assert str(entry(named * named, fold=True)) == "N[t]**2"
    assert str(entry(named * named)) == "4*A[t]**2"


def test_free_indices_are_named_or_given() -> None:
    q = Select(layer.q, d.h, d.head)
    plain = Select(Input("A", (d.h, d.t)), d.h, d.head)
    assert str(entry(plain)) == "A[r, t]"
    assert str(entry(plain, {"r": 1, "t": "p"})) == "A[1, p]"
    assert "d_k*r + j" in str(entry(q))


def test_summed_names_avoid_those_in_use() -> None:
    m, s = (sympy.Symbol(n, integer=True) for n in "ms")
    product_of = einsum("t m, m c -> t c", Input("X", (d.t, d.m)), Input("W", (d.m, axis("c"))))
    assert str(entry(product_of, {"t": m, "c": s})) == "Sum(W[n, s]*X[m, n], (n, 0, d_model - 1))"
    same = Reduce("sum", Input("X", (axis("t"), axis("s"))), (axis("s"),))
    assert str(entry(same)) == "Sum(X[t1, u], (u, 0, s - 1))", "s and t are sizes here"
    p, n = axis("p", "d_model"), axis("n")
    inner = Named(einsum("m p, p n -> m n", Input("Y", (d.m, p)), Input("Z", (p, n))), "N")
    square = einsum("t m, m n -> t n", Input("X", (d.t, d.m)), inner)
    formula = entry(square, {"t": 0, "n": 0})
    arrays = {"X": np.array([[1, 2]]), "Y": np.array([[3, 4], [5, 6]]), "Z": np.array([[7], [8]])}
    assert computed(formula, arrays, {"d_model": 2, "T": 1, "n": 1}) == (arrays["X"] @ arrays["Y"] @ arrays["Z"])[0, 0]


def test_sums_beside_one_another_use_the_same_name() -> None:
    sums = [Reduce("sum", Input(name, (d.t, d.s)), (d.s,)) for name in "AC"]
    assert str(entry(sums[0] * sums[1])) == "Sum(A[t, s], (s, 0, S - 1))*Sum(C[t, s], (s, 0, S - 1))"


def test_nested_sums_of_the_same_name_do_not_meet() -> None:
    inner = Named(Reduce("sum", Input("A", (d.t, d.s)), (d.s,)), "I")
    outer = Reduce("sum", Repeat(inner, (d.t, d.s)) * Input("C", (d.t, d.s)), (d.s,))
    assert str(entry(outer)) == "Sum(C[t, s]*Sum(A[t, u], (u, 0, S - 1)), (s, 0, S - 1))"
    check(outer)


def test_a_position_in_a_concatenation_runs_through_the_blocks() -> None:
    c, size = sympy.Symbol("c", integer=True, nonnegative=True), size_symbol("P")
    base = {n: sympy.IndexedBase(n) for n in "AC"}
    m = sympy.Symbol("m", integer=True, nonnegative=True)
    assert entry(both) == sympy.Piecewise((base["A"][c, m], c < size), (base["C"][c - size, m], True))
    assert entry(both, {"(past + new)": size + 1, "m": 0}) == base["C"][1, 0]
    paired = Join(Blocks((Input("A", (past, d.k)), Input("C", (new, d.k))), (past, new)), (blocks(past, new), d.k))
    check(paired)
    assert entry(paired, {paired.axes[0].name: c}).has(sympy.Piecewise), "the block is told by the position"
    three = Blocks((Input("A", (past,)), Input("C", (new,)), Input("D", (d.t,))), (past, new, d.t))
    check(three)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("indices", [{"q": 0}, {"t": 0, "(h k)": 1, "h": 0}, {"r": 0}])
def test_unknown_axes_are_refused(indices: dict[str, object]) -> None:
    with pytest.raises(AxisProblem, match="there is no axis"):
        entry(flat, indices)


@pytest.mark.parametrize("value", [-1, 3, 7, 1.5, sympy.Rational(1, 2), None, [0], sympy.sqrt(2)])
def test_positions_that_are_none_are_refused(value: object) -> None:
    with pytest.raises(AxisProblem, match="position"):
        entry(Input("A", (axis("n", 3),)), {"n": value})


def test_sizes_that_are_unknown_allow_any_number() -> None:
    assert str(entry(Input("A", (d.t,)), {"t": 5})) == "A[5]"
    with pytest.raises(AxisProblem, match="no position T"):
        entry(Input("A", (d.t,)), {"t": d.t.size})


@pytest.mark.parametrize("name", theorem_names())
def test_every_claim_of_the_library_has_formulas(name: str) -> None:
    for claim in load(name).claims:
        sides = [entry(side, {}) for side in (claim.left, claim.right)]
        folded = [entry(side, fold=True) for side in (claim.left, claim.right)]
        assert all(isinstance(one, sympy.Expr) for one in (*sides, *folded))
