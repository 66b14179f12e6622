"""The chance that a false claim passes at random points is larger with inverses, with more terms, with more factors."""

from __future__ import annotations

from collections.abc import Callable

from mha_sym.axes import axis
from mha_sym.expr import Expr, Input, Map
from mha_sym.proof.field import confirm
from mha_sym.proof.theorem import Claim

T = axis("t", 3)
GIVEN = tuple(Input(f"x{n}", (T,)) for n in range(16))


def bound(op: str, of: Callable[[Expr], Expr], count: int = 16) -> float:
    """That of a sum or a product of so many terms against the same in another order."""
    terms = tuple(of(one) for one in GIVEN[:count])
    found = confirm(Claim("same", Map(op, terms), Map(op, terms[::-1])))
    assert found.agrees
    return found.bound


def test_fractions_add_their_degrees() -> None:
    """Over one denominator a sum of fractions is of all their degrees together, and what is divided by may be 0."""
    plain = bound("add", lambda x: x)
    assert bound("add", lambda x: Map("inv", (x,))) > 1e6 * plain
    assert bound("add", lambda x: Map("inv", (x + 1,))) > 1e6 * plain


def test_more_factors_are_of_a_higher_degree() -> None:
    few, many = (bound("mul", lambda x: x, count) for count in (2, 16))
    assert many > 100 * few
    assert bound("mul", lambda x: Map("mul", (x, x))) > 2 * many
