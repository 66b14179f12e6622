"""Forged certificates: whatever the steps say, a false equation is never returned as proved."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from mha_sym.library import load
from mha_sym.proof.checker import Certificate, Rejected, Step, check, check_all
from mha_sym.proof.prover import Prover
from mha_sym.proof.rules import RULES, Context, Definition, Goal
from mha_sym.proof.terms import (
    ONE,
    ZERO,
    Add,
    Apply,
    At,
    Bind,
    Cmp,
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
    children,
    put_path,
    sum_over,
)
from tests.proof.engine import Unclear, World, agree, value


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
) -> Goal:
    goal = Goal(name, variables, left, right)
    return check(Certificate(goal, tuple(left_steps), tuple(right_steps)), context or Context())


def step(rule: str, path: tuple[int, ...] = (), **args: Any) -> Step:
    return Step(rule, path, args)


def always_one(domain: Domain) -> Goal:
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
    deep = Mul((ONE, sum_over(s, Add((ONE, ONE)))))
    for path in ((0,), (1, 0, 0), (1, 0, 1)):
        with pytest.raises(Rejected, match="a variable that is not in scope"):
            proved(deep, deep, [step("lemma", path, name="one", at=(Var("s", ONE_PLACE),))], [], context)


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
        Part(At(7), Domain("o", number(6), (SIX, ONE_PLACE)), 0),
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
    "a reshape that loses entries": Entry(
        "x", (Part(Join(SIX, (At(0), At(0))), Domain("c", number(4), (TWO, TWO)), 0),)
    ),
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


def test_a_bijection_is_one_of_an_axis() -> None:
    for domain in (Domain("e", number(0)), Domain("c", number(7), (TWO, THREE))):
        with pytest.raises(Rejected):
            proved(ONE, ONE, [], [], Context(bijections={"pi": domain}))


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
    for one in (x, ZERO, number(-1), Add(()), Add((x, ONE)), Mul((x, ONE)), row, late, largest):
        with pytest.raises(Rejected):
            proved(
                Mul((one, Apply("inv", one))), ONE, [step("cancel", value=0, inverse=1, given=((1, ()),))], [],
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


# ---------------------------------------------------------------- real proofs, tampered with

SIZES = {"B": 2, "T": 4, "S": 5, "d_model": 6, "h": 3, "d_k": 7, "d_v": 8}
CLAIMS = {
    "softmax_add_row_constant": (0,),
    "softmax_rows_sum_to_one": (0, 1),
    "split_transpose_join_is_identity": (0,),
    "split_columns_inverse_join_columns": (0,),
    "concat_output_eq_sum_over_heads": (0,),
    "numerical_axis_trace": (0, 3),
}


@cache
def proofs() -> tuple[tuple[Certificate, Context], ...]:
    """Certificates of the library, as the search finds them."""
    found = []
    for name, numbers in CLAIMS.items():
        prover = Prover(load(name), recheck=False)
        outcomes = [prover.claim(one) for one in prover.theorem.claims[: max(numbers) + 1]]
        for n in numbers:
            found += [(one, outcomes[n].context) for one in outcomes[n].certificates if one.left or one.right]
    return tuple(found)


def holds(goal: Goal, context: Context, seed: int) -> bool:
    """Whether a goal is true at one place of one world, by loops."""
    world = World(SIZES, context, seed)
    env = {v.name: seed % world.size(v.domain) for v in goal.variables}
    try:
        return agree(value(goal.left, world, env), value(goal.right, world, env))
    except Unclear:
        return True


@pytest.mark.parametrize("n", range(7))
def test_honest_proofs_pass(n: int) -> None:
    certificate, context = proofs()[n]
    goal = certificate.goal
    assert check(certificate, context) == goal
    assert all(holds(goal, context, seed) for seed in range(3))


def forged(certificate: Certificate, rng: random.Random) -> Certificate:
    """The certificate with one thing changed: a step left out, doubled, moved, renamed, with other arguments."""
    sides = [list(certificate.left), list(certificate.right)]
    side = sides[rng.randrange(2)] or sides[0] or sides[1]
    if not side:
        return certificate
    at = rng.randrange(len(side))
    one = side[at]
    match rng.choice(["drop", "double", "swap", "path", "rule", "args"]):
        case "drop":
            del side[at]
        case "double":
            side.insert(at, one)
        case "swap":
            other = rng.randrange(len(side))
            side[at], side[other] = side[other], side[at]
        case "path":
            path = (*one.path[:-1],) if one.path and rng.random() < 0.5 else (*one.path, rng.randrange(2))
            side[at] = replace(one, path=path)
        case "rule":
            side[at] = replace(one, rule=rng.choice(sorted(RULES)))
        case "args":
            args = dict(one.args)
            for name in list(args):
                args[name] = rng.choice([0, 1, 2, -1, True, (), (0,), (1, 0), ((0,), (1,)), "x", None, args[name]])
            side[at] = replace(one, args=args)
    return Certificate(certificate.goal, tuple(sides[0]), tuple(sides[1]))


def changed(term: Term, rng: random.Random) -> Term:
    """The term with one leaf, factor, addend, order of positions or function changed."""
    inside = children(term)
    if inside and rng.random() < 0.85:
        n = rng.randrange(len(inside))
        return put_path(term, (n,), changed(inside[n], rng))
    match term:
        case Entry(name, at) if len(at) > 1 and rng.random() < 0.5:
            return Entry(name, at[::-1])
        case Entry(name, at):
            return rng.choice([Entry(name + "2", at), Mul((number(2), term)), ZERO])
        case Add(args) | Mul(args) if len(args) > 1:
            return rng.choice([Add(args[1:]), Mul(args[1:]), Mul(args) if isinstance(term, Add) else Add(args)])
        case Cmp(op, left, right, offset):
            return rng.choice([Cmp(op, right, left, offset), Cmp(op, left, right, offset + 1), ONE])
        case Bind(op, var, body):
            return Bind("max" if op == "sum" else "sum", var, body)
        case Apply(name, arg):
            return arg if rng.random() < 0.5 else Apply("exp" if name == "inv" else "inv", arg)
    return Add((term, ONE))


@pytest.mark.parametrize("seed", range(6))
def test_forged_steps_never_prove_a_changed_goal(seed: int) -> None:
    """Whatever is done to goal and steps, what the checker returns is true at small sizes."""
    rng = random.Random(seed)
    rejected = accepted = 0
    for certificate, context in proofs():
        for _ in range(40):
            new = certificate
            for _ in range(rng.randrange(3)):
                new = forged(new, rng)
            goal = certificate.goal
            if rng.random() < 0.7:
                left = changed(goal.left, rng) if rng.random() < 0.6 else goal.left
                goal = replace(goal, left=left, right=changed(goal.right, rng) if left is goal.left else goal.right)
            try:
                lemma = check(replace(new, goal=goal), context)
            except Rejected:
                rejected += 1
                continue
            accepted += 1
            assert (lemma.left, lemma.right) == (goal.left, goal.right)
            assert all(holds(goal, context, n) for n in range(4))
    assert rejected > 200
    assert accepted


def test_most_single_changes_of_steps_are_rejected() -> None:
    """A doubled 'arithmetic' may do no harm; but a certificate with a step left out seldom ends where it should."""
    rng = random.Random(1)
    tried = rejected = 0
    for certificate, context in proofs():
        for n in range(len(certificate.left + certificate.right)):
            left = certificate.left[:n] + certificate.left[n + 1 :]
            right = certificate.right if n < len(certificate.left) else tuple(
                one for m, one in enumerate(certificate.right, len(certificate.left)) if m != n
            )
            tried += 1
            try:
                check(Certificate(certificate.goal, left, right), context)
            except Rejected:
                rejected += 1
        for _ in range(20):
            tried += 1
            try:
                check(forged(certificate, rng), context)
            except Rejected:
                rejected += 1
    assert rejected > 0.7 * tried
