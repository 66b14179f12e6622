"""Formulas as text: the order that is promised, and that the text still says the formula."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_sym.axes import size_symbol
from mha_sym.errors import DataProblem
from mha_sym.render.formulas.size_text import ORDER, at_sizes, size_text

B, T, S, d_model, h, d_k, d_v = (size_symbol(name) for name in ("B", "T", "S", "d_model", "h", "d_k", "d_v"))
n = size_symbol("n")


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (0, "0"),
        (sympy.Integer(7), "7"),
        (sympy.Rational(-3, 4), "-3/4"),
        (sympy.Integer(-1), "-1"),
        (d_k * h, "h·d_k"),
        (T**2 * h * B, "B·T²·h"),
        (T**12, "T¹²"),
        (2 * d_model * h * d_v + 2 * d_k * d_model * h, "2·d_model·h·d_k + 2·d_model·h·d_v"),
        (d_model + h * d_v + 2 * h * d_k, "2·h·d_k + h·d_v + d_model"),
        (1 - h, "-h + 1"),
        (h - 1, "h - 1"),
        (B * (T - h), "B·T - B·h"),
        (n * h * B, "B·h·n"),
        (1 / sympy.sqrt(d_k), "1/√d_k"),
        (-h / sympy.sqrt(d_k), "-h/√d_k"),
        (d_model / h, "d_model/h"),
        (d_model / (3 * h), "d_model/(3·h)"),
        (1 / (2 * h**2 * d_k), "1/(2·h²·d_k)"),
        (sympy.sqrt(3) / 6, "√3/6"),
        (d_k ** sympy.Rational(3, 2), "d_k^(3/2)"),
        (1 / sympy.sqrt(h + d_k), "1/√(h + d_k)"),
        (sympy.sqrt(h * d_k), "√h·√d_k"),
    ],
)
def test_text(formula: sympy.Expr | int, text: str) -> None:
    assert size_text(formula) == text


def read(text: str, sizes: dict[str, int]) -> Fraction:
    """The value of a polynomial written by `size_text`, read by its own small reader."""
    digits = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    total = Fraction(0)
    for term in text.replace(" - ", " + -").split(" + "):
        sign, factors = (-1, term[1:]) if term.startswith("-") else (1, term)
        value = Fraction(sign)
        for factor in factors.split("·"):
            base = factor.rstrip("⁰¹²³⁴⁵⁶⁷⁸⁹")
            power = int(factor[len(base) :].translate(digits) or 1)
            value *= Fraction(sizes.get(base) or int(base)) ** power
        total += value
    return total


terms = st.lists(st.tuples(st.integers(-4, 4), st.lists(st.sampled_from(ORDER), max_size=4)), min_size=1, max_size=5)


@settings(deadline=None, max_examples=80)
@given(terms)
def test_the_text_says_the_formula(parts: list[tuple[int, list[str]]]) -> None:
    sizes = dict(zip(ORDER, (2, 3, 5, 7, 11, 19, 13, 17), strict=True))
    formula = sympy.Add(*(c * sympy.Mul(*map(size_symbol, names)) for c, names in parts))
    assert read(size_text(formula), sizes) == at_sizes(formula, sizes)


@settings(deadline=None, max_examples=30)
@given(terms, st.data())
def test_the_text_does_not_depend_on_how_the_formula_was_made(
    parts: list[tuple[int, list[str]]], data: st.DataObject
) -> None:
    made = [c * sympy.Mul(*map(size_symbol, names)) for c, names in parts]
    shuffled = data.draw(st.permutations(made))
    assert size_text(sympy.Add(*made)) == size_text(sympy.Add(*shuffled))


def test_some_sizes_may_be_put_in() -> None:
    assert at_sizes(h * d_k + B, {"h": 3, "unused": 8}) == 3 * d_k + B
    assert at_sizes(h * d_k, {"h": 3, "d_k": 4}) == 12
    assert at_sizes(5, {"h": 3}) == 5
    assert at_sizes(h, None) == h


def test_a_size_of_zero_is_refused() -> None:
    with pytest.raises(DataProblem, match="h = 0 is not a size"):
        at_sizes(h * d_k, {"h": 0})
