"""The order of steps, detours, and letters: what is read is what was proved, and no longer than it need be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

from mha_sym.axes import axis
from mha_sym.proof.checker import Certificate, Goal, Rejected, Step, apply_step
from mha_sym.proof.meaning import domain
from mha_sym.proof.rules import Context, Definition
from mha_sym.proof.terms import Add, Apply, Bind, Entry, Mul, Num, Term, Var, children, equal, key
from mha_sym.proof.theorem import Report
from mha_sym.render.derivation import derivation
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.letters import tidy
from mha_sym.render.formulas.occurring import names_of
from mha_sym.render.formulas.scripts import Unicode
from mha_sym.render.reading import INTO_SUMS, OUT_OF_SUMS, RENAMED, Line, direct, ordered, read, seen

S, T, M, J = (Var(n, domain(axis(n, n.upper()))) for n in ("s", "t", "m", "j"))
a, b, c = (Entry(n, ()) for n in "abc")


def entry(name: str, *at: Var) -> Entry:
    return Entry(name, at)


def test_independent_steps_of_one_kind_come_together() -> None:
    steps = [Step("unfold", (0,)), Step("distribute", (0, 1)), Step("unfold", (1,)), Step("distribute", (1,))]
    labels = [("unfold", "S"), ("distribute", ""), ("unfold", "S"), ("distribute", "")]
    assert [steps.index(s) for s in ordered(steps, labels)] == [0, 2, 1, 3]


def test_steps_at_one_place_keep_their_order() -> None:
    steps = [Step("distribute", (0,)), Step("unfold", (0, 1)), Step("collect", ()), Step("unfold", (1,))]
    labels = [("distribute", ""), ("unfold", "S"), ("collect", ""), ("unfold", "S")]
    assert [steps.index(s) for s in ordered(steps, labels)] == [0, 1, 2, 3]


def test_names_are_opened_before_anything_is_calculated() -> None:
    steps = [Step("distribute", (0,)), Step("unfold", (1,)), Step("lemma", (2,))]
    labels = [("distribute", ""), ("unfold", "S"), ("lemma", "Q")]
    assert [steps.index(s) for s in ordered(steps, labels)] == [1, 2, 0]


def test_every_certificate_still_proves_its_goal(report: Report) -> None:
    for outcome in report.claims:
        for certificate in outcome.certificates[:2]:
            reading = read(certificate, outcome.context, outcome.reasons)
            assert reading.lines[0].term == certificate.goal.left
            assert key(reading.lines[-1].term) == key(certificate.goal.right)
            texts = [key(line.term) for line in reading.lines]
            assert len(reading.lines) == 2 or len(set(texts)) == len(texts), "a line says what an earlier one says"


def test_a_certificate_that_proves_nothing_is_refused() -> None:
    context = Context({"a": Definition((), b)})
    good = Certificate(Goal("g", (), a, b), (Step("unfold", ()),), ())
    assert [line.rule for line in read(good, context, {}).lines] == ["", "unfold"]
    with pytest.raises(Rejected):
        read(replace(good, goal=Goal("g", (), a, c)), context, {})
    with pytest.raises(Rejected):
        read(replace(good, left=(Step("unfold", ()), Step("unfold", ()))), context, {})


def test_both_copies_of_a_name_are_opened_in_one_line() -> None:
    context = Context({"a": Definition((), Add((b, c)))})
    goal = Goal("g", (), Mul((a, a)), Mul((Add((b, c)), Add((b, c)))))
    reading = read(Certificate(goal, (Step("unfold", (0,)), Step("unfold", (1,))), ()), context, {"a": "what a is"})
    assert [(line.rule, line.name, line.reason) for line in reading.lines[1:]] == [("unfold", "a", "what a is")]


def test_detours_are_cut_and_both_ends_stay() -> None:
    away = Line(Mul((c, b)), "lemma", "1")
    lines = (Line(a), Line(b, "unfold", "a"), away, Line(b, "lemma", "2"), Line(c, "lemma", "3"))
    assert [line.term for line in direct(lines)] == [a, b, c]
    assert [line.name for line in direct(lines)] == ["", "a", "3"]


def test_sides_that_are_one_thing_have_a_line_that_says_so() -> None:
    assert [line.reason for line in direct((Line(a), Line(a)))] == ["", "the same entry"]
    swapped = direct((Line(Bind("sum", S, Bind("sum", T, a))), Line(Bind("sum", T, Bind("sum", S, a)))))
    assert [line.reason for line in swapped] == ["", "the same in another order"]
    assert direct((Line(a), Line(a)))[1].term == a


def test_a_factor_in_front_of_a_sum_is_a_step() -> None:
    inside = Bind("sum", S, Mul((b, entry("E", S))))
    lines = direct((Line(a), Line(inside, "unfold", "a"), Line(Mul((b, Bind("sum", S, entry("E", S)))), "factor")))
    assert [line.rule for line in lines] == ["", "unfold", "factor"]


def test_what_was_taken_to_be_positive_is_told_once() -> None:
    weight = Bind("sum", S, Apply("exp", entry("E", S)))
    one = Mul((weight, Apply("inv", weight)))
    goal = Goal("g", (), Add((one, one)), Num(Fraction(2)))
    steps = [Step("cancel", (n,), {"value": 0, "inverse": 1}) for n in (0, 1)] + [Step("arithmetic", ())]
    (condition,) = read(Certificate(goal, tuple(steps), ()), Context(), {}).conditions
    assert equal(condition.term, weight)
    assert not condition.assumed


# ---------------------------------------------------------------- seen and tidy


def test_seen_does_not_tell_the_place_of_a_factor_but_tells_everything_else() -> None:
    e, f = entry("E", S), entry("F", S)
    inside, outside = Bind("sum", S, Mul((b, e))), Mul((Bind("sum", S, e), b))
    assert seen(inside) == seen(outside)
    assert seen(Mul((Bind("sum", S, e), Bind("sum", S, f)))) != seen(Bind("sum", S, Mul((e, f))))
    assert seen(Mul((Bind("max", S, e), b))) != seen(Bind("max", S, Mul((e, b))))
    assert seen(Mul((e, Bind("sum", S, e)))) != seen(Bind("sum", S, Mul((e, e))))


def test_tidy_hides_nothing_and_changes_nothing() -> None:
    shadowed = Mul((entry("E", S), Bind("sum", S, Mul((entry("F", S), Bind("max", S, entry("G", S, T)))))))
    told = tidy(shadowed)
    assert key(told) == key(shadowed)
    assert _binders(told) == ["u", "w"]
    assert _binders(tidy(Bind("sum", Var("m1", M.domain), entry("E", Var("m1", M.domain), M)))) == ["n"]
    assert _binders(tidy(Bind("sum", M, a), frozenset({"m", "n", "p"}))) == ["m1"]


def _binders(term: Term) -> list[str]:
    from mha_sym.proof.terms import children

    own = [term.var.name] if isinstance(term, Bind) else []
    return own + [name for child in children(term) for name in _binders(child)]


def test_reordered_steps_give_the_same_term(report: Report) -> None:
    for outcome in report.claims:
        for certificate in outcome.certificates[:1]:
            labels = [(step.rule, "") for step in certificate.left]
            left = certificate.goal.left
            again, before = left, left
            for moved, step in zip(ordered(certificate.left, labels), certificate.left, strict=True):
                again, before = (apply_step(*pair, outcome.context) for pair in ((again, moved), (before, step)))
            assert again == before


def test_factors_that_move_out_of_a_sum_are_a_line_of_their_own(proved: Callable[[str], Report]) -> None:
    """Sums changed places in the same line in which a definition was opened."""
    claim = derivation(proved("head_circuits_determine_layer")).claims[1]
    reasons = [step.reason for step in claim.proofs[0].steps]
    moved = ["order of summation", OUT_OF_SUMS]
    assert reasons[4:] == ["sum taken term by term", *moved, "blocks of the bias", "column blocks"]
    averages = derivation(proved("zeroed_scores_leave_the_average")).claims[0].proofs[0].steps
    assert [step.reason for step in averages][-3:] == ["value of the bracket", "exp(0) = 1", OUT_OF_SUMS]


def test_sums_that_change_places_are_a_line_of_their_own(proved: Callable[[str], Report]) -> None:
    """``W_Q[m, r d_k + i] G[r,i,j]`` became ``W_K[m, r d_k + i] G[r,j,i]`` beside another reason."""
    claims = derivation(proved("head_circuits_determine_layer")).claims
    told = [[step.reason for step in one.proofs[0].steps] for one in claims]
    assert "order of summation" in told[2] and RENAMED in told[5] and RENAMED in told[7]
    assert told[7][told[7].index(RENAMED) - 1] == INTO_SUMS and told[7][told[7].index(RENAMED) + 1] == OUT_OF_SUMS


def test_where_a_bracket_is_1_nothing_is_multiplied_out(proved: Callable[[str], Report]) -> None:
    """What is added where a bracket is 0 was multiplied out, added and put together again in 14 lines."""
    claim = derivation(proved("mask_broadcast_and_causality")).claims[5]
    steps = claim.proofs[0].steps
    assert len(steps) <= 11 and claim.checked.sizes and not claim.checked.wrong
    (n,) = [n for n, one in enumerate(steps) if one.rule == "guard"]
    assert sorted(set(names_of(steps[n].term)) - set(names_of(steps[n - 1].term))) == ["E"]


def test_the_distributive_law_is_applied_to_products_of_sums_too(proved: Callable[[str], Report]) -> None:
    """``(sum_m a) (sum_n b)`` became a double sum in the line that took a sum term by term."""
    steps = derivation(proved("head_circuits_determine_layer")).claims[0].proofs[0].steps
    (n,) = [n for n, one in enumerate(steps) if one.reason == "distributive law"]
    assert steps[n + 1].reason == "sum taken term by term"
    assert any(map(multiplies_sums, parts(steps[n - 1].term))) and not any(map(multiplies_sums, parts(steps[n].term)))


def multiplies_sums(term: Term) -> bool:
    sums = (Add, Bind)
    return isinstance(term, Mul) and sum(isinstance(one, sums) for one in term.args) > 1


def parts(term: Term) -> Iterator[Term]:
    yield term
    for child in children(term):
        yield from parts(child)


def test_factors_and_sums_move_in_lines_of_their_own() -> None:
    """``a sum_i sum_j x_i y_j`` as ``sum_j y_j sum_i a x_i``: in, in another order, out."""
    x, y = entry("x", M), entry("y", J)
    one = Mul((a, Bind("sum", M, Bind("sum", J, Mul((x, y))))))
    other = Bind("sum", J, Mul((y, Bind("sum", M, Mul((a, x))))))
    lines = direct([Line(one), Line(b, "unfold", "a"), Line(other, "unfold", "b"), Line(b, "lemma", "last")])
    assert [line.reason for line in lines[1:-1]] == [INTO_SUMS, "order of summation", OUT_OF_SUMS]
    assert lines[-2].term == other and all(seen(line.term) == seen(one) for line in lines[:-1])


def test_a_factor_one_is_not_written() -> None:
    one = Num(Fraction(1))
    assert tidy(Mul((one, a, one))) == a and tidy(Mul((a, one, b))) == Mul((a, b)) and tidy(Mul((one, one))) == one


def test_a_definition_that_is_used_at_a_joined_position_has_no_quotients(proved: Callable[[str], Report]) -> None:
    """``Q'[b,r,t,j]`` is opened as it is defined, and that is one step."""
    found = derivation(proved("head_permutation_leaves_layer_unchanged"))
    note = Unicode(found.vocabulary.names, found.vocabulary.letters_for)
    told = {plain(note.term(row.entry)): plain(note.term(row.body)) for row in found.vocabulary.defined}
    lines = [plain(note.term(step.term)) for step in found.claims[0].proofs[0].steps]
    assert lines[3] == lines[2].replace("b_Q[π(r) d_k + j]", "b_Q'[r d_k + j]") != lines[2]
    assert told["W_O'[r d_v + j, m]"] == "W_O[π(r) d_v + j, m]"
    assert not [body for entry, body in told.items() if "⌊" in body and "Σ_c" not in body]
