"""False claims that try to slip through the language instead of the checker: none is ever called proved.

Names that stand for two things, shadowed families, wrong arithmetic, masks and inverses of nothing.  They are refuted,
left undecided or refused when they are made; each in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy

from mha_sym.axes import Index, Permutation, axis, blocks, product, size_symbol
from mha_sym.errors import Problem
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
    Transpose,
    as_expr,
)
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Assumption, Claim, Theorem, Verdict

T, S, H, K = axis("t", "T"), axis("s", "T"), axis("h"), axis("k", "d_k")
TWO, THREE = axis("t", 2), axis("t", 3)
x, y, e = Input("x", (T,)), Input("y", (T,)), Input("e", (T, S))
keep = Input("keep", (T, S), "mask", True)
heads = Input("w", (H, K))
r = Index("r", H)
pi = Permutation("pi", H)
one = as_expr(1)
d_k, h = size_symbol("d_k"), size_symbol("h")


def exp(arg: Expr) -> Expr:
    return Map("exp", (arg,))


def inv(arg: Expr) -> Expr:
    return Map("inv", (arg,))


def fn(name: str, arg: Expr) -> Expr:
    return Map(f"fn:{name}", (arg,))


def total(arg: Expr, *over: object) -> Expr:
    return Reduce("sum", arg, over)  # type: ignore[arg-type]


def member(index: Index) -> Expr:
    return Select(heads, H, index)


Sides = Callable[[], tuple[Expr, Expr]]
FALSE: dict[str, Sides] = {
    # names
    "one name, two inputs": lambda: (Input("x", (TWO,)) + Input("y", (TWO,)), Input("y", (TWO,)) * 2 + Input(
        "x", (axis("s", 2), TWO)) * 0),
    "an input said to be 0 or 1 on one side": lambda: (x * x, Input("x", (T,), boolean=True)),
    "an input called like a table": lambda: (Input("c", (TWO,)), Table("c", (TWO,), (1, 2))),
    "two tables of one name": lambda: (Table("c", (TWO,), (1, 2)), Table("c", (TWO,), (1, 3))),
    "two values of one name": lambda: (Named(x, "Q"), Named(y, "Q")),
    "a value called like an input": lambda: (Named(y, "x"), x),
    "a value called like an input that comes later": lambda: (Map("add", (Named(y, "x"), x)), x * 2),
    "a value called like a value with a mark": lambda: (Map("add", (Named(x, "Q"), Named(y, "Q"), Named(x, "Q'"))),
                                                       Map("add", (Named(x, "Q"), Named(y, "Q"), Named(y, "Q'")))),
    "two bijections of one name": lambda: (
        Permute(Input("a", (H, T)), pi), Permute(Input("a", (H, T)), Permutation("pi", T))),
    "an input called like a bijection": lambda: (Permute(Input("pi()", (H,)), pi), Input("pi()", (H,))),
    "a function called exp": lambda: (fn("exp", x + y), Map("mul", (fn("exp", x), fn("exp", y)))),
    "a function called inv": lambda: (Map("mul", (exp(x), fn("inv", exp(x)))), Repeat(one, (T,))),
    "a size that is not known to be positive": lambda: (Scalar(sympy.Symbol("n") ** -1) * sympy.Symbol("n"), one),
    "a size called by a number": lambda: (Scalar(size_symbol("2")), as_expr(2)),
    "sizes of other names": lambda: (Scalar(d_k), Scalar(h)),
    # families
    "the same index twice": lambda: (Total(Total(member(r) * 1, r), r), Total(member(r), r)),
    "an index that is shadowed": lambda: (
        Total(Map("mul", (member(r), Total(member(r), r))), r), Total(Map("mul", (member(r), member(r))), r)),
    "a family in another order": lambda: (Concat(member(r), r, K), Reshape(Transpose(heads, (K, H)), (product(H, K),))),
    "a value of one member used for all": lambda: (
        Stack(Named(member(r), "W"), r), Stack(Named(Select(heads, H, 0), "W"), r)),
    "blocks in another order": lambda: (
        Blocks((x, y_ := Input("z", (axis("n"),))), (T, axis("n"))), Blocks((x, y_ + y_), (T, axis("n")))),
    "the wrong block": lambda: (
        Block(Input("c", (blocks(T, axis("n", "T")),)), blocks(T, axis("n", "T")), 0),
        Rename(Block(Input("c", (blocks(T, axis("n", "T")),)), blocks(T, axis("n", "T")), 1), axis("n", "T"), T)),
    # axes
    "a raw reshape for a transpose": lambda: (Reshape(heads, (K, H)), Transpose(heads, (K, H))),
    "a split in another order": lambda: (
        Split(Input("c", (product(H, K),)), product(H, K)),
        Transpose(Split(Reshape(Input("c", (product(H, K),)), (product(K, H),)), product(K, H)), (H, K))),
    "a join in another order": lambda: (
        Reshape(Join(heads, (H, K)), (axis("c", d_k * h),)),
        Reshape(Join(Transpose(heads, (K, H)), (K, H)), (axis("c", d_k * h),))),
    "a bijection is its own inverse": lambda: (Permute(Input("a", (H,)), pi), Permute(Input("a", (H,)), pi.inverse())),
    "a bijection does nothing": lambda: (Permute(Input("a", (H,)), pi), Input("a", (H,))),
    "a bijection weighs the same": lambda: (
        total(Contract((Permute(Input("a", (H,)), pi), Input("b", (H,))), (H,)), H),
        total(Contract((Input("a", (H,)), Input("b", (H,))), (H,)), H)),
    "the first for the last": lambda: (Select(Input("c", (THREE,)), THREE, 0), Select(Input("c", (THREE,)), THREE, 2)),
    "equal sizes, other axes": lambda: (Rename(total(e, S), T, axis("u", "T")), Rename(total(e, T), S, axis("u", "T"))),
    # arithmetic
    "an inverse of what may be 0": lambda: (Map("mul", (x, inv(x))), Repeat(one, (T,))),
    "an inverse of a difference": lambda: (Map("mul", (x - x, inv(x - x))), Repeat(one, (T,))),
    "the inverse of a sum": lambda: (inv(x + y), Map("add", (inv(x), inv(y)))),
    "the exponential of a product": lambda: (exp(Map("mul", (x, y))), Map("mul", (exp(x), exp(y)))),
    "a square as itself": lambda: (Map("mul", (x, x)), x),
    "a sum of products": lambda: (total(Map("mul", (x, y)), T), Map("mul", (total(x, T), total(y, T)))),
    "the maximum of a sum": lambda: (
        Reduce("max", x + y, (T,)), Map("add", (Reduce("max", x, (T,)), Reduce("max", y, (T,))))),
    "a maximum as a sum": lambda: (Reduce("max", x, (T,)), total(x, T)),
    "a number of positions that is off by one": lambda: (total(Repeat(one, (T,)), T), Scalar(size_symbol("T") + 1)),
    "a root of another size": lambda: (x * (1 / sympy.sqrt(d_k)), x * (1 / sympy.sqrt(h))),
    # masks
    "rows that may keep nothing": lambda: (total(Softmax(e, (S,), keep), S), Repeat(one, (T,))),
    "a mask that does nothing": lambda: (Softmax(e, (S,), keep), Softmax(e, (S,))),
    "a mask after the softmax": lambda: (
        Map("mul", (Softmax(e, (S,)), Compare("le", S, T))), Softmax(e, (S,), Compare("le", S, T))),
    "an order for a strict one": lambda: (
        Softmax(e, (S,), Compare("le", S, T)), Softmax(e, (S,), Compare("le", S, T, 1))),
    "columns of a softmax over rows": lambda: (total(Softmax(e, (S,)), T), Repeat(one, (S,))),
    "a constant for each entry": lambda: (Softmax(Map("add", (e, Input("c", (T, S)))), (S,)), Softmax(e, (S,))),
}  # fmt: skip


def answered(sides: Callable[[], tuple[Expr, Expr]]) -> Verdict | None:
    """What is said of a claim; None if it cannot be said."""
    try:
        return prove(Theorem("false", "", "", (Claim("false", *sides()),)), recheck=False).verdict
    except Problem:
        return None


@pytest.mark.parametrize("name", FALSE)
def test_no_false_claim_is_proved(name: str) -> None:
    assert answered(FALSE[name]) is not Verdict.PROVED


def test_most_are_refuted() -> None:
    """Saying nothing would be no art."""
    refuted = sum(answered(sides) is Verdict.REFUTED for sides in FALSE.values())
    assert refuted > 0.6 * len(FALSE)


kept = total(keep, S)
#: assumptions that no values satisfy, each by itself or together with those beside it
NEVER: dict[str, tuple[Expr, ...]] = {
    "zero": (Repeat(as_expr(0), (T,)),),
    "a number and its negative": (x, Map("neg", (x,))),
    "a difference and its negative": (x - y, y - x),
    "some key and no key": (kept, Repeat(one, (T,)) - kept),
    "more keys than there are": (kept - Scalar(size_symbol("T")),),
    "a later key in every row": (total(Compare("lt", T, S), S),),
    "exponentials below zero": (Map("neg", (exp(x),)),),
    "weights above one": (Softmax(e, (S,)) - 1,),
}


@pytest.mark.parametrize("name", NEVER)
@pytest.mark.parametrize("used", [True, False], ids=["used", "beside"])
def test_what_rests_on_what_never_holds_is_not_proved(name: str, used: bool) -> None:
    """Anything follows from it, and it says nothing; the user is told, whether the proof uses it or not."""
    assumed = tuple(Assumption(f"number {n}", one) for n, one in enumerate(NEVER[name]))
    number = NEVER[name][0] if used else exp(x)
    claim = Claim("anything", Map("mul", (number, inv(number))), Repeat(one, number.axes))
    found = prove(Theorem("absurd", "", "", (claim,), assumptions=assumed), recheck=False)
    assert found.verdict is Verdict.UNDECIDED
    assert "no values were found" in found.claims[0].detail or found.claims[0].normal_forms


def test_what_may_hold_is_not_in_the_way() -> None:
    claim = Claim("kept", Map("mul", (kept, inv(kept))), Repeat(one, (T,)))
    for assumed in ((kept,), (kept, kept - 1), (kept, x, y - x), (x - 200, kept)):
        theorem = Theorem("kept", "", "", (claim,), assumptions=tuple(Assumption("", one) for one in assumed))
        assert prove(theorem, recheck=False).verdict is Verdict.PROVED
