"""The order of summands and factors: what a line keeps stands where it stood in the line before."""

from __future__ import annotations

from random import Random

from mha_sym.axes import axis
from mha_sym.proof.meaning import domain
from mha_sym.proof.order import canonical_key
from mha_sym.proof.terms import Add, Apply, Bind, Entry, Mul, Num, Size, Term, Var, key
from mha_sym.render.formulas.aligned import aligned
from mha_sym.render.formulas.letters import tidy

M, J = (Var(n, domain(axis(n, n.upper()))) for n in "mj")
a, b, c, d, e = (Entry(n, ()) for n in "abcde")


def total(var: Var, body: Term) -> Bind:
    return Bind("sum", var, body)


def test_summands_and_factors_stay_where_they_were() -> None:
    assert aligned(Add((a, b, c)), Add((c, d, a))) == Add((a, d, c))
    assert aligned(Add((a, b)), Add((b, c, d))) == Add((c, d, b)), "what one became stands where it stood"
    assert aligned(Mul((a, b, c)), Mul((c, a, b))) == Mul((a, b, c))
    nested = Add((Add((d, c)), a))
    assert aligned(Add((a, c, b)), nested) == Add((a, c, d))
    deep = aligned(Apply("exp", Mul((Size("n"), Add((a, b))))), Apply("exp", Mul((Size("n"), Add((b, c))))))
    assert deep == Apply("exp", Mul((Size("n"), Add((c, b)))))


def test_sums_in_another_order_keep_their_factors() -> None:
    one = total(M, total(J, Mul((Entry("x", (M,)), Entry("y", (J,)), a))))
    other = total(J, total(M, Mul((a, Entry("y", (J,)), Entry("x", (M,))))))
    assert aligned(one, other) == total(J, total(M, Mul((Entry("x", (M,)), Entry("y", (J,)), a))))


def test_nothing_else_changes() -> None:
    """Random terms made of the same parts: the same but for the order."""
    rng = Random(7)

    def drawn(depth: int) -> Term:
        if not depth:
            return rng.choice([a, b, c, Num(rng.choice([2, 3])), Entry("x", (M,))])  # type: ignore[arg-type]
        kind = rng.choice(["add", "mul", "sum", "exp"])
        if kind == "sum":
            return total(rng.choice([M, J]), drawn(depth - 1))
        if kind == "exp":
            return Apply("exp", drawn(depth - 1))
        return (Add if kind == "add" else Mul)(tuple(drawn(depth - 1) for _ in range(rng.randint(2, 3))))

    for _ in range(300):
        before, after = drawn(3), drawn(3)
        found = aligned(before, after)
        assert sorted(canonical_key(found, {})) == sorted(canonical_key(after, {}))
        assert key(aligned(before, before)) == key(before)


def test_sizes_stand_in_front_of_sums() -> None:
    """``exp(sum_j a_j / n)`` looked like a sum of which one summand is divided."""
    y = Entry("y", (J,))
    told = tidy(total(M, total(J, Mul((Entry("x", (M,)), y, Size("n"))))))
    assert told == Mul((Size("n"), total(M, total(J, Mul((Entry("x", (M,)), y))))))
    assert tidy(total(J, Mul((Size("n"), Size("k"))))) == total(J, Mul((Size("n"), Size("k"))))
