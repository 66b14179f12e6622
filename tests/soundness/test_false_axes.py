"""More false claims that try to slip through the language: axes of one size, products, blocks, permutations, families.

None is ever called proved, and each is refuted or cannot be said; each in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy

from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product, size_symbol
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
from tests.soundness.test_false_claims import answered

T, U, S = axis("t", "T"), axis("u", "T"), axis("s", "T")
H, G, K, ONE = axis("h"), axis("g", "h"), axis("k", "d_k"), axis("o", 1)
TWO, THREE = axis("a", 2), axis("b", 3)
HK, KH = product(H, K), product(K, H)
P, N = axis("past", "P"), axis("new", "N")
PN, NP = blocks(P, N), blocks(N, P)
x, e, keep = Input("x", (T,)), Input("e", (T, S)), Input("keep", (T, S), "mask", True)
w, joined, cut, head = Input("w", (H, K)), Input("j", (HK,)), Input("c", (PN,)), Input("v", (H,))
pi, rho = Permutation("pi", H), Permutation("rho", H)
r, q = Index("r", H), Index("q", H)
square, spare = Input("z", (H, G)), axis("f", "h")


def mul(*args: Expr) -> Expr:
    return Map("mul", args)


def exp(arg: Expr) -> Expr:
    return Map("exp", (arg,))


def inv(arg: Expr) -> Expr:
    return Map("inv", (arg,))


def total(arg: Expr, *over: Axis) -> Expr:
    return Reduce("sum", arg, over)


def member(index: Index) -> Expr:
    return Select(head, H, index)


def exchanged(arg: Expr, one: Axis, two: Axis) -> Expr:
    """Two axes of one size, each read as the other."""
    return Rename(Rename(Rename(arg, one, spare), two, one), spare, two)


def alike() -> tuple[Expr, Expr]:
    """Two blocks of one size in the other order."""
    one, two = axis("i", "n"), axis("l", "n")
    whole = Input("y", (blocks(one, two),))
    first, second = (Block(whole, blocks(one, two), n) for n in (0, 1))
    return Blocks((Rename(second, two, one), Rename(first, one, two)), (one, two)), whole


Sides = Callable[[], tuple[Expr, Expr]]
FALSE: dict[str, Sides] = {
    # reshapes
    "across a product": lambda: (
        Reshape(Input("a", (HK, T)), (product(T, H), K)),
        Join(Transpose(Split(Input("a", (HK, T)), HK), (T, H, K)), (T, H))),
    "there, and back another way": lambda: (
        Reshape(Reshape(square, (H, G)), (G, H)), exchanged(Reshape(square, (G, H)), G, H)),
    "a product read as its mirror": lambda: (
        Split(Reshape(Input("a", (KH,)), (HK,)), HK), Transpose(Split(Input("a", (KH,)), KH), (H, K))),
    "factors grouped anew": lambda: (
        Reshape(Input("a", (HK, T)), (H, product(K, T))),
        Join(Transpose(Reshape(Input("a", (HK, T)), (H, T, K)), (H, K, T)), (K, T))),
    "factors of factors": lambda: (
        Reshape(Input("a", (product(HK, T),)), (H, K, T)),
        Transpose(Reshape(Input("a", (product(HK, T),)), (H, T, K)), (H, K, T))),
    "one position more": lambda: (
        Reshape(Input("a", (ONE, T)), (T,)), Repeat(Select(Select(Input("a", (ONE, T)), ONE, 0), T, 0), (T,))),
    "one position counted twice": lambda: (total(Repeat(x, (ONE, T)), ONE), x * 2),
    "a table reshaped": lambda: (
        Reshape(Table("a", (TWO, THREE), ((1, 2, 3), (4, 5, 6))), (THREE, TWO)),
        Transpose(Table("a", (TWO, THREE), ((1, 2, 3), (4, 5, 6))), (THREE, TWO))),
    # positions
    "outside": lambda: (Select(Input("a", (TWO,)), TWO, 2), Select(Input("a", (TWO,)), TWO, 0)),
    "from the end": lambda: (Select(Input("a", (TWO,)), TWO, -1), Select(Input("a", (TWO,)), TWO, 1)),
    "another position": lambda: (Select(x, T, 2), Select(x, T, 0)),
    "the first two are all": lambda: (total(x, T), Select(x, T, 0) + Select(x, T, 1)),
    "a shift by more than there is": lambda: (
        total(mul(Compare("eq", T, U, 5), Repeat(x, (T, U))), T), Repeat(Select(x, T, 0), (U,))),
    "a shift keeps the ends": lambda: (total(mul(Compare("eq", T, U, 1), Repeat(x, (T, U))), T), Rename(x, T, U)),
    "equal positions in axes of unlike size": lambda: (total(Compare("eq", T, H), T), Repeat(as_expr(1), (H,))),
    "ordered positions in axes of unlike size": lambda: (
        total(Compare("le", T, H), T), Repeat(Scalar(size_symbol("T")), (H,))),
    "earlier for later": lambda: (
        total(mul(Compare("le", S, T), e), T, S), total(mul(Compare("le", T, S), e), T, S)),
    "one position more in an axis": lambda: (
        total(Repeat(as_expr(1), (axis("n", size_symbol("T") + 1),)), axis("n", size_symbol("T") + 1)),
        Scalar(size_symbol("T"))),
    # families
    "the first member for each": lambda: (
        Total(mul(member(r), Select(head, H, 0)), r), Total(mul(member(r), member(r)), r)),
    "a sum inside a sum": lambda: (
        Total(mul(member(r), Total(member(q), q)), r), Total(Total(mul(member(r), member(r)), r), q)),
    "each divided by itself": lambda: (
        Total(mul(exp(member(r)), inv(Total(exp(member(r)), r))), r),
        Total(mul(exp(member(r)), inv(exp(member(r)))), r)),
    "indices of one name in the other order": lambda: (
        Stack(Stack(Select(Select(square, H, r), G, Index("r", G)), Index("r", G)), r),
        exchanged(Stack(Stack(Select(Select(square, H, r), G, Index("r", G)), Index("r", G)), r), H, G)),
    "members side by side in the other order": lambda: (
        Reshape(Concat(Select(w, H, r), r, K), (KH,)), Join(Transpose(w, (K, H)), (K, H))),
    "a value of another member": lambda: (
        Total(mul(member(r), Named(member(r), "N")), r), Total(mul(member(r), Named(Select(head, H, 0), "N")), r)),
    # permutations
    "of two the only one": lambda: (Permute(Input("a", (TWO,)), Permutation("two", TWO)), Input("a", (TWO,))),
    "one after the other": lambda: (Permute(Permute(head, pi), rho), Permute(Permute(head, rho), pi)),
    "undone in the order they were done": lambda: (
        Permute(Permute(Permute(Permute(head, pi), rho), pi.inverse()), rho.inverse()), head),
    "done twice": lambda: (Permute(Permute(head, pi), pi), head),
    "of the other factor": lambda: (
        Contract((Permute(head, pi), Input("b", (H,))), ()), Contract((head, Permute(Input("b", (H,)), pi)), ())),
    "of a product as of its factor": lambda: (
        Permute(joined, Permutation("all", HK)), Join(Permute(Split(joined, HK), pi), (H, K))),
    "of tokens under a causal mask": lambda: (
        Permute(Softmax(e, (S,), Compare("le", S, T)), Permutation("tau", T)),
        Softmax(Permute(e, Permutation("tau", T)), (S,), Compare("le", S, T))),
    # blocks
    "blocks of one size": alike,
    "blocks exchanged": lambda: (
        total(mul(cut, Input("a", (PN,))), PN),
        total(mul(Blocks((Block(cut, PN, 1), Block(cut, PN, 0)), (N, P)), Input("b", (NP,))), NP)),
    "weights block by block": lambda: (
        Softmax(cut, (PN,)), Blocks((Softmax(Block(cut, PN, 0), (P,)), Softmax(Block(cut, PN, 1), (N,))), (P, N))),
    "a block of a value for the other": lambda: (
        total(Block(Named(cut, "C"), PN, 0), P), total(Block(Named(cut, "C"), PN, 1), N)),
    # softmax over several axes
    "over both, over one": lambda: (Softmax(w, (H, K)), Softmax(w, (K,))),
    "over both, one after the other": lambda: (Softmax(w, (H, K)), Softmax(Softmax(w, (K,)), (H,))),
    "over a product, over a factor": lambda: (Split(Softmax(joined, (HK,)), HK), Softmax(Split(joined, HK), (K,))),
    "over both, shifted along one": lambda: (Softmax(Map("add", (w, head)), (H, K)), Softmax(w, (H, K))),
    # masks and numbers
    "no row without a key": lambda: (Reduce("max", keep, (S,)), Repeat(as_expr(1), (T,))),
    "two masks, one of them late": lambda: (
        Softmax(e, (S,), mul(keep, Input("m", (T, S), "mask", True))),
        mul(Softmax(e, (S,), keep), Input("m", (T, S), "mask", True))),
    "a mask that is a half": lambda: (mul(keep, inv(keep + 1)), keep),
    "what may be nothing, divided twice": lambda: (
        mul(total(keep, S), inv(total(keep, S))), mul(total(keep, S), inv(total(keep, S)), inv(total(keep, S)))),
    "an inverse that has no value at 1": lambda: (
        Scalar((size_symbol("T") - 1) ** -1) * Scalar(size_symbol("T") - 1), as_expr(1)),
    "a root of eight": lambda: (Scalar(sympy.sqrt(8)), Scalar(3 * sympy.sqrt(2))),
    "the exponential of a square": lambda: (mul(exp(x), exp(x)), exp(mul(x, x))),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_it_is_refuted_or_cannot_be_said(name: str) -> None:
    assert answered(FALSE[name]) in (Verdict.REFUTED, None)


def test_assumptions_used_for_what_they_do_not_say() -> None:
    """That all rows together keep a key is not that each does; that a sum is positive is not that each addend is."""
    rows, ones = total(keep, S), Repeat(as_expr(1), (T,))
    for assumed in (total(keep, T, S), total(keep, T), Select(rows, T, 0), x, Map("add", (x, rows))):
        theorem = Theorem("rows", "", "", (Claim("rows", mul(rows, inv(rows)), ones),), (), (Assumption("", assumed),))
        assert prove(theorem, recheck=False).verdict is not Verdict.PROVED
    beside = (Assumption("", x + exp(x)), Assumption("", x * x))
    claim = Claim("x", mul(x, inv(x)), ones)
    assert prove(Theorem("x", "", "", (claim,), (), beside), recheck=False).verdict is not Verdict.PROVED
