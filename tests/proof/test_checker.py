"""Forged certificates: whatever the steps say, a false equation is never returned as proved."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from mha_sym.proof.checker import Certificate, Goal, Rejected, Step, check, check_all
from mha_sym.proof.rules import Context, Definition, Lemma
from mha_sym.proof.terms import (
    ONE,
    ZERO,
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Digit,
    Domain,
    Entry,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Term,
    Var,
    sum_over,
)


def number(n: int | Fraction) -> Num:
    return Num(Fraction(n))


ONE_PLACE, TWO, THREE = (Domain(f"f{n}", number(n)) for n in (1, 2, 3))
H, K, T = Domain("h", Size("h")), Domain("k", Size("d")), Domain("t", Size("T"))
HK = Domain("c", Mul((Size("d"), Size("h"))), (H, K))
SIX = Domain("c", number(6), (TWO, THREE))


def proved(
    left: Term,
    right: Term,
    left_steps: list[Step],
    right_steps: list[Step],
    context: Context | None = None,
    variables: tuple[Var, ...] = (),
    name: str = "goal",
) -> Lemma:
    goal = Goal(name, variables, left, right)
    return check(Certificate(goal, tuple(left_steps), tuple(right_steps)), context or Context())


def step(rule: str, path: tuple[int, ...] = (), **args: Any) -> Step:
    return Step(rule, path, args)


def always_one(domain: Domain) -> Lemma:
    """``1 = sum_i [i = k]`` for every ``k`` of a domain, by the checker itself."""
    k, i = Var("k", domain), Var("i", domain)
    bracket = sum_over(i, Cmp("eq", i, k))
    return proved(ONE, bracket, [], [step("delta", position=0)], variables=(k,))


# ---------------------------------------------------------------- what lemmas may be used for


def test_a_lemma_is_not_used_at_a_variable_read_in_a_smaller_axis() -> None:
    """Else 2 = sum_{s<2} 1 = sum_{s<2} sum_{i<1} [i = s] = [0 = 0] + [0 = 1] = 1."""
    s = Var("s", TWO)
    context = Context(lemmas={"one": always_one(ONE_PLACE)})
    forged = [
        step("lemma", (0,), name="one", at=(Var("s", ONE_PLACE),)),
        step("enumerate_sum"),
        *(step("enumerate_sum", (n,)) for n in (0, 1)),
        *(step("compare", (n, 0)) for n in (0, 1)),
        step("arithmetic"),
    ]
    with pytest.raises(Rejected):
        proved(sum_over(s, ONE), ONE, forged, [], context)
    with pytest.raises(Rejected):
        proved(ONE, ONE, [step("lemma", name="one", at=(Var("free", ONE_PLACE),))], [], context)


@pytest.mark.parametrize(
    "at",
    [
        Join(SIX, (At(5), At(0))),
        Join(SIX, (At(0), At(3))),
        Join(HK, (At(7), At(0))),
        Join(HK, (At(0), At(7))),
        Join(SIX, (At(0),)),
        At(6),
        At(-1),
        Var("unstated", SIX),
        Part(Join(SIX, (At(0), At(0))), SIX, 7),
        Inj(At(5), Domain("b", number(6), (), (TWO, Domain("f4", number(4)))), 0),
        Perm("no such", False, At(0)),
        Digit((At(7),), (TWO,), (SIX,), 0),
    ],
    ids=lambda index: repr(index)[:40],
)
@pytest.mark.parametrize("domain", [SIX, HK], ids=["6", "hk"])
def test_a_lemma_is_not_used_outside_its_axis(at: Any, domain: Domain) -> None:
    with pytest.raises(Rejected):
        proved(
            sum_over(Var("i", domain), Cmp("eq", Var("i", domain), at)), ONE,
            [step("lemma", name="one", at=(at,), back=True)], [], Context(lemmas={"one": always_one(domain)}),
        )  # fmt: skip


def test_a_lemma_needs_as_many_positions_as_it_has_variables() -> None:
    context = Context(lemmas={"one": always_one(TWO)})
    for at in ((), (At(0), At(0))):
        with pytest.raises(Rejected):
            proved(ONE, ONE, [step("lemma", name="one", at=at)], [], context)


def test_no_goal_proves_itself_or_an_earlier_one() -> None:
    """Lemmas are only what was checked before: neither the goal itself nor one further down."""
    x, y = Entry("x", ()), Entry("y", ())

    def by(name: str, uses: str) -> Certificate:
        return Certificate(Goal(name, (), x, y), (step("lemma", name=uses, at=()),), ())

    for circle in ([by("a", "a")], [by("a", "b"), by("b", "a")]):
        with pytest.raises(Rejected, match="no such lemma"):
            check_all(circle, Context())


# ---------------------------------------------------------------- step arguments of the wrong kind


def test_a_direction_is_a_truth_value() -> None:
    """2 counts as true but is not True: half of the body would be renumbered, the other half not."""
    v = Var("v", H)
    here, there = Entry("f", (Perm("pi", True, v),)), Entry("g", (v,))
    swapped = Mul((Entry("f", (v,)), Entry("g", (Perm("pi", True, v),))))
    with pytest.raises(Rejected):
        proved(
            sum_over(v, Mul((here, there))), sum_over(v, swapped),
            [step("reindex", name="pi", inverse=2)], [], Context(bijections={"pi": H}),
        )  # fmt: skip


@pytest.mark.parametrize(
    "forged",
    [
        step("no such rule"),
        step("delta", (0, 0, 0), position=0),
        step("delta", (-1,), position=0),
        step("delta", position=-1),
        step("delta", position=5),
        step("delta", position="0"),
        step("delta", position=0.0),
        step("delta", position=None),
        step("delta"),
        step("delta", position=0, extra=1),
        step("delta", position=0, term=ONE),
        step("delta", ("0",), position=0),
        step("lemma", name="one", at=("k",)),
        step("lemma", name="one", at=5),
        step("lemma", name=None, at=()),
    ],
    ids=repr,
)
def test_malformed_steps_are_rejected(forged: Step) -> None:
    i, k = Var("i", TWO), Var("k", TWO)
    with pytest.raises(Rejected):
        proved(
            sum_over(i, Cmp("eq", i, k)), ONE, [forged], [],
            Context(lemmas={"one": always_one(TWO)}), variables=(k,),
        )  # fmt: skip


# ---------------------------------------------------------------- statements that are no statements


def test_a_goal_states_all_its_variables_once_and_with_their_axes() -> None:
    s = Var("s", TWO)
    entry = Entry("x", (s,))
    for variables in ((), (Var("s", THREE),), (s, Var("s", THREE))):
        with pytest.raises(Rejected):
            proved(entry, entry, [], [], variables=variables)
    assert proved(entry, entry, [], [], variables=(s,)).left == entry


def test_a_bound_variable_is_read_in_its_own_axis() -> None:
    """Else 2 = sum_{s<2} sum_{i<1} [i = s] by delta, and 1 by writing the sums out."""
    s, i = Var("s", TWO), Var("i", ONE_PLACE)
    mixed = sum_over(s, sum_over(i, Cmp("eq", i, Var("s", ONE_PLACE))))
    with pytest.raises(Rejected):
        proved(mixed, number(2), [step("delta", (0,), position=0), step("constant_sum"), step("arithmetic")], [])


BAD_TERMS: dict[str, Term] = {
    "a sum over nothing": sum_over(Var("i", Domain("e", number(0))), Entry("x", (Var("i", Domain("e", number(0))),))),
    "half a position": sum_over(Var("i", Domain("e", number(Fraction(5, 2)))), ONE),
    "a product axis of another size": sum_over(Var("c", Domain("c", number(7), (TWO, THREE))), ONE),
    "a concatenation of another size": sum_over(Var("c", Domain("c", number(7), (), (TWO, THREE))), ONE),
    "an unknown bracket": Cmp("lt", At(0), At(1)),
    "an unknown binder": Bind("min", Var("i", TWO), ONE),
    "a pair outside its axis": Entry("x", (Join(SIX, (At(2), At(0))),)),
    "a pair of one": Entry("x", (Join(SIX, (At(1),)),)),
    "a pair of variables of other axes": sum_over(Var("i", THREE), Entry("x", (Join(SIX, (Var("i", THREE), At(0))),))),
    "a part of a plain axis": Entry("x", (Part(At(0), TWO, 0),)),
    "a part that is not there": Entry("x", (Part(At(0), SIX, -1),)),
    "a bijection that is not declared": Entry("x", (Perm("pi", False, At(0)),)),
    "a bijection of another axis": sum_over(Var("t", T), Entry("x", (Perm("of h", False, Var("t", T)),))),
    "a reshape that loses entries": Entry("x", (Digit((At(0),), (SIX,), (TWO,), 0),)),
    "a negative place": Entry("x", (At(-1),)),
    "a float": Num(0.1),  # type: ignore[arg-type]
    "a size of zero": Size("0"),
}


@pytest.mark.parametrize("term", BAD_TERMS.values(), ids=BAD_TERMS)
def test_malformed_goals_are_rejected(term: Term) -> None:
    with pytest.raises(Rejected):
        proved(term, term, [], [], Context(bijections={"of h": H}))


def test_fresh_kinds_of_brackets_do_not_read_like_others() -> None:
    """``le1`` with offset 2 and ``le`` with offset 12 must not be written alike."""
    with pytest.raises(Rejected):
        proved(Cmp("le1", At(0), At(0), 2), Cmp("le", At(0), At(0), 12), [], [])


# ---------------------------------------------------------------- contexts that prove too much


def test_a_definition_may_not_mention_itself() -> None:
    """``D := D + 1`` would prove 0 = -D + D = -D + D + 1 = 1."""
    d, e = Entry("D", ()), Entry("E", ())
    for definitions in (
        {"D": Definition((), Add((d, ONE)))},
        {"D": Definition((), Add((e, ONE))), "E": Definition((), d)},
    ):
        with pytest.raises(Rejected):
            proved(d, definitions["D"].body, [step("unfold")], [], Context(definitions=definitions))


def test_a_definition_has_no_variables_but_its_own() -> None:
    """Else a sum around an entry would bind what the entry alone leaves free."""
    s = Var("s", TWO)
    context = Context(definitions={"D": Definition((), Entry("x", (s,)))})
    with pytest.raises(Rejected):
        proved(
            sum_over(s, Entry("D", ())), Mul((number(2), Entry("x", (s,)))), [step("unfold", (0,))],
            [step("constant_sum")], context, variables=(s,),
        )  # fmt: skip
    with pytest.raises(Rejected):
        proved(Entry("D", ()), Entry("D", ()), [], [], context)


def test_one_name_is_one_thing() -> None:
    d, half = Entry("D", ()), number(Fraction(1, 2))
    for context in (
        Context(definitions={"D": Definition((), half)}, booleans=frozenset({"D"})),
        Context(definitions={"D": Definition((), half)}, tables={"D": {(): Fraction(1)}}),
        Context(booleans=frozenset({"D"}), tables={"D": {(): Fraction(1, 2)}}),
    ):
        with pytest.raises(Rejected):
            proved(d, d, [], [], context)


def test_an_assumption_has_no_variables_but_its_own() -> None:
    """``x[s] > 0`` for one s is not ``x[s] > 0`` for all s."""
    s = Var("s", TWO)
    total = sum_over(s, Entry("x", (s,)))
    context = Context(positive=(((), Entry("x", (s,))),))
    with pytest.raises(Rejected):
        proved(
            Mul((total, Apply("inv", total))), ONE, [step("cancel", value=0, inverse=1, given=((0, ()),))], [],
            context, variables=(s,),
        )  # fmt: skip


# ---------------------------------------------------------------- positivity


def test_what_may_be_zero_does_not_cancel() -> None:
    x, keep = Entry("x", ()), Entry("keep", (Var("s", TWO),))
    row = sum_over(Var("s", TWO), Mul((keep, Apply("exp", Entry("x", (Var("s", TWO),))))))
    late = sum_over(Var("s", TWO), Cmp("le", At(1), Var("s", TWO)))
    other = Entry("count", ())
    context = Context(
        booleans=frozenset({"keep"}), positive=(((Var("s", TWO),), Entry("keep", (Var("s", TWO),))), ((), other))
    )
    largest = Bind("max", Var("s", TWO), ONE)
    for value in (x, ZERO, number(-1), Add(()), Add((x, ONE)), Mul((x, ONE)), row, late, largest):
        with pytest.raises(Rejected):
            proved(
                Mul((value, Apply("inv", value))), ONE, [step("cancel", value=0, inverse=1, given=((1, ()),))], [],
                replace(context, positive=(*context.positive[1:], ((), other))),
            )  # fmt: skip


def test_a_row_is_kept_only_by_its_own_assumption() -> None:
    """An assumption about row 0 says nothing of row t."""
    t, s = Var("t", T), Var("s", TWO)

    def row(at: Any) -> Term:
        return sum_over(s, Mul((Entry("keep", (at, s)), Apply("exp", Entry("x", (s,))))))

    def count(at: Any) -> Term:
        return sum_over(s, Entry("keep", (at, s)))

    context = Context(booleans=frozenset({"keep"}), positive=(((), count(At(0))), ((t,), count(t))))
    goal = (Mul((row(t), Apply("inv", row(t)))), ONE)
    for given in ((), ((0, ()),), ((1, (At(0),)),), ((1, (Var("t", H),)),), ((1, ()),), ((2, ()),), ((-1, (t,)),)):
        with pytest.raises(Rejected):
            proved(*goal, [step("cancel", value=0, inverse=1, given=given)], [], context, variables=(t,))
    assert proved(*goal, [step("cancel", value=0, inverse=1, given=((1, (t,)),))], [], context, variables=(t,))


# ---------------------------------------------------------------- a real proof, tampered with


def shift() -> tuple[Goal, list[Step], Context]:
    """``exp(x + c) / sum exp(x + c) = exp(x) / sum exp(x)``, step by step."""
    s, u = Var("s", T), Var("u", T)
    c = Entry("c", ())

    def weight(at: Var, *more: Term) -> Term:
        return Apply("exp", Add((Entry("x", (at,)), *more)) if more else Entry("x", (at,)))

    left = Mul((weight(s, c), Apply("inv", sum_over(u, weight(u, c)))))
    right = Mul((weight(s), Apply("inv", sum_over(u, weight(u)))))
    steps = [
        step("exp_of_sum", (0,)),
        step("exp_of_sum", (1, 0, 0)),
        step("factor", (1, 0), positions=(1,)),
        step("inverse_of_product", (1,)),
        step("inverse_of_exp", (1, 0)),
        step("arithmetic"),
        step("exp_product", first=1, second=2),
        step("take_out", (2, 0), positions=((), ())),
        step("collect", (2, 0, 0), first=0, second=1),
        step("arithmetic", (2, 0)),
        step("arithmetic", (2,)),
        step("arithmetic"),
    ]
    return Goal("shift", (s,), left, right), steps, Context()


def test_the_honest_proof_passes() -> None:
    goal, steps, context = shift()
    assert check(Certificate(goal, tuple(steps), ()), context) == Lemma(goal.variables, goal.left, goal.right)
