"""Formulas of faults are short and simple, and folding them changes no value: compared at numbers, fault by fault."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
import sympy

from mha_sym.attention.dims import combined_weights, dims, self_inputs
from mha_sym.attention.forms import Options
from mha_sym.attention.rotary import Angles, Rotary, tables, turned_dims
from mha_sym.audit.evidence import Forms
from mha_sym.audit.faults import faults_of_positions, find_fault
from mha_sym.audit.formulas import Departure, departures, formula
from mha_sym.audit.recipe import build, site
from mha_sym.axes import axis, product
from mha_sym.errors import AxisProblem
from mha_sym.expr import Compare, Input, Scalar, as_expr
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.terms import Add, Apply, At, Bind, Cmp, Domain, Entry, Join, Mul, Num, Part, Size, Var
from mha_sym.render.computed.term_values import Floats, Numbers
from mha_sym.render.formulas.folded import Folder
from mha_sym.render.formulas.places import merged
from tests.audit.test_faults import EVERY, claim_of, sizes_for

#: what nobody needs to read: a factor of one, an addend of zero, a root over a root, a fraction of fractions
UNSIMPLIFIED = re.compile(
    r"(?<![\w.])1 ?· |· ?1(?!\w)|[+-] 0\b|(?<![\w⌊/])0 \w|√\w+ √|1/\d+ \w|√\d+ / \(\d|\(-\d+\)|(?<![\wπ])\(\w\) "
)
LONGEST = 200
#: tables of angles that are put together from sums of products: left to --json, and said so
TOO_LONG = {"positions_all_ahead_in_queries", "positions_all_ahead_in_keys"}


def shown(name):
    fault = find_fault(name)
    at, _, _ = claim_of(fault)
    return departures(build(at), build(at, fault.edits))


@pytest.mark.parametrize("name", EVERY)
def test_a_formula_is_short_and_simplified(name):
    for departure in shown(name):
        for text in departure.formulas():
            assert 0 < len(text) <= LONGEST, text
            assert not UNSIMPLIFIED.search(text), text
            assert text.count("(") == text.count(")") and text.count("[") == text.count("]")
        assert all(one.count("{") == one.count("}") for one in departure.formulas("latex"))


class Roots(Numbers):
    """Numbers that know the square root."""

    def _apply(self, name, value):
        return np.sqrt(value) if name == "sqrt" else super()._apply(name, value)


def stacked(arrays, folder):
    """The arrays, and those that are put together from them."""
    return arrays | {one.name: np.stack([arrays[part] for part in one.parts]) for one in folder.stacks.values()}


def entries(departure, sizes, rng):
    """The term of a definition, folded and as it was, at random places; pairs of arrays."""
    meaning = Meaning()
    for goal in goals(meaning, departure.name, Input(departure.name, departure.faulty.axes), departure.faulty):
        folder = Folder(meaning.tables, frozenset(meaning.booleans))
        left, right = folder.folded(goal.left), folder.folded(goal.right)
        arrays = {
            name: rng.standard_normal([size_of(a, sizes) for a in one.over]) ** (2 if name in meaning.booleans else 1)
            for name, one in meaning.given.items() if isinstance(one, Input)
        }  # fmt: skip
        arrays |= {name: arrays[name] > 0.5 for name in meaning.booleans if name in arrays}
        orders = {name: tuple(range(size_of_domain(one, sizes)))[::-1] for name, one in meaning.bijections.items()}
        numbers = Roots(Floats(), meaning.context(), sizes, stacked(arrays, folder), orders)
        places = {v.name: rng.integers(0, size_of_domain(v.domain, sizes), 20) for v in goal.variables}
        with np.errstate(all="ignore"):
            yield numbers.at(goal.right, places), numbers.at(right, places)
        yield numbers.at(goal.left, places), numbers.at(left, places)


def size_of(one, sizes):
    return int(one.size.subs({symbol: sizes[symbol.name] for symbol in one.size.free_symbols}))


def size_of_domain(domain, sizes):
    return int(Numbers(Floats(), Meaning().context(), sizes, {}).size(domain))


@pytest.mark.parametrize("name", EVERY)
def test_folding_changes_no_value(name):
    fault, rng = find_fault(name), np.random.default_rng(1)
    for departure in shown(name):
        try:
            for before, after in entries(departure, sizes_for(fault), rng):
                np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)
        except AxisProblem:
            assert name in ("grouped_blocks_taken_for_groups", "grouped_by_group_taken_for_blocks")


@pytest.mark.parametrize("rotary", [Rotary(), Rotary("interleaved")], ids=str)
def test_formulas_of_positions_say_what_stands_for_the_turned_values(rotary):
    d = turned_dims(dims(), rotary)
    at = site(d, self_inputs(d), combined_weights(d, bias=True), Options(angles=Angles(**tables(d, rotary))))
    forms, names = Forms(at), set()
    for fault in faults_of_positions():
        form = forms.form(fault)
        for departure in () if form is None else departures(forms.right, form):
            names.add(departure.name)
            for text in departure.formulas():
                assert len(text) <= LONGEST or fault.name in TOO_LONG, text
                assert not UNSIMPLIFIED.search(text), text
    assert "S" not in names and {"Q_rot", "K_rot", "cos'", "sin'"} <= names
    backwards = departures(forms.right, forms.form(find_fault("positions_backwards_in_keys")))
    (right, faulty), = (one.formulas() for one in backwards)  # queries are turned as they should be, and not shown
    assert right.replace(" - ", " + ").replace(" + K", " - K") in (faulty, faulty.replace(" + K", " - K"))
    assert re.match(r"K_rot\[b, ?r, ?s,", right) and right != faulty


# ---------------------------------------------------------------- rules, each at one term

J = Var("j", Domain("j", Size("d_k")))
R = Var("r", Domain("r", Size("h")))
X, Y = Entry("x", ()), Entry("y", ())


def number(n, of=1):
    return Num(Fraction(n, of))


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        (Mul((number(1, 2), Size("2", Fraction(1, 2)), Size("d", Fraction(-1, 2)))), "1 / √(2 d)"),
        (Mul((X, number(3), Size("2", Fraction(1, 2)), Size("d", Fraction(-1, 2)))), "3 x √2 / √d"),
        (Mul((X, Size("12", Fraction(1, 2)))), "2 x √3"),
        (Mul((X, Size("8", Fraction(-1, 2)))), "x / (2 √2)"),
        (Mul((Add((X, Y)), number(1))), "x + y"),
        (Add((number(1), Mul((number(-1), Add((number(1), Mul((number(-1), X)))))))), "x"),
        (Add((X, X, Mul((number(-1), Y)), number(0))), "2 x - y"),
        (Add((number(1), Mul((number(-1), Cmp("le", J, R))))), "[r < j]"),
        (Mul((X, number(0))), "0"),
        (Bind("sum", J, Mul((Cmp("eq", J, J), number(0)))), "0"),
        (Apply("inv", Mul((number(2), X))), "1 / (2 x)"),
    ],
)  # fmt: skip
def test_terms_are_folded(term, wanted):
    from mha_sym.render.formulas.breaks import plain
    from mha_sym.render.formulas.short import _ShortUnicode

    assert plain(_ShortUnicode().term(Folder().folded(term))) == wanted


def test_a_sum_over_one_position_is_taken_only_where_the_position_is_in_range():
    place = Domain("c", Mul((Size("n"), number(4))), (Domain("tile", Size("n")), Domain("place", number(4))))
    tile, inside = Var("tile", place.factors[0]), Var("p", place.factors[1])
    digit = Bind("sum", inside, Cmp("eq", R, Join(place, (tile, inside))))
    assert Folder().folded(digit) == Cmp("eq", Part(R, place, 0), tile)  # of any r
    chosen = Bind("sum", J, Mul((Cmp("eq", J, R), Entry("z", (J,)))))
    assert Folder().folded(chosen) == chosen  # r may be larger than d_k
    own = Var("q", R.domain)
    assert Folder().folded(Bind("sum", own, Mul((Cmp("eq", own, R), Entry("z", (own,)))))) == Entry("z", (R,))


def test_digits_side_by_side_become_one():
    h, k, three = (Domain(*one) for one in (("h", Size("h")), ("k", Size("d_k")), ("three", number(3))))
    shape = Domain("c", Mul((three.size, h.size, k.size)), (three, h, k))
    c = Var("c", Domain("c", shape.size))
    both = Join(Domain("c", Mul((h.size, k.size)), (h, k)), (Part(c, shape, 1), Part(c, shape, 2)))
    wide = merged(both)
    assert isinstance(wide, Part) and wide.index == c and len(wide.domain.factors) == 2
    crossed = Join(Domain("c", Mul((h.size, k.size)), (k, h)), (Part(c, shape, 2), Part(c, shape, 1)))
    assert merged(crossed).parts == crossed.parts
    assert merged(Join(shape, (At(0), R, J))) == Join(both.domain, (R, J))


def test_a_condition_is_written_in_words():
    t, s = axis("t", "T"), axis("s", "S")

    keep = Compare("le", s, t)
    filled = Input("s", (t, s)) * keep + (as_expr(1) - keep) * Scalar(sympy.Integer(-(10**9)))
    assert formula("S", filled) == "S[t,s] = s[t,s] where s ≤ t, else -10⁹"
    assert formula("S", filled, "latex") == r"S[t,s] = s[t,s]\text{ where }s \le t\text{, else }-10^{9}"


def test_a_position_that_occurs_twice_has_a_name():
    b, t, h, k = axis("b", "B"), axis("t", "T"), axis("h", "h"), axis("k", "d_k")
    flat = Input("Q", (b, t, product(h, k)))
    text = formula("Q'", rearrange(flat, "b t (h k) -> b t h k"))
    assert text == "Q'[b,t,r,j] = Q[b, t, r d_k + j]"
    assert Departure("Q", None, einsum("b t c -> b t c", Input("Q", (b, t, axis("c", 3))))).formulas()[0] == ""
