"""The steps of a certificate as somebody would write them down: together what belongs together, without detours.

Defines `Line`, `ordered`, which moves independent steps past each other so that one law is applied everywhere at once,
and `read`, which gives the lines of a proof.  The steps in their new order are checked again; nothing else here is a
proof, and nothing is printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from mha_sym.proof.cards import CARDS
from mha_sym.proof.checker import Certificate, Goal, Step, apply_step, check
from mha_sym.proof.order import canonical_key
from mha_sym.proof.rules import Context, product
from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Entry,
    Mul,
    Num,
    Size,
    Term,
    Var,
    at_path,
    children,
    flat_args,
    free,
    key,
    rebuild,
    rename_apart,
    sum_over,
)
from mha_sym.render.formulas.letters import tidy
from mha_sym.render.formulas.occurring import entries_of, names_of

#: which steps come first where there is a choice: open names and use what is known, then calculate
PRECEDENCE = {"arithmetic": 0, "unfold": 1, "table": 1, "lemma": 2, "pull": 3, "exchange": 3, "spread": 3}

#: why a line is what it is after arithmetic that is a step to a reader
EXP_OF_ZERO = "exp(0) = 1"
#: why a tensor is a product of matrices, and why if a bias is added to that
PRODUCT, PRODUCT_AND_BIAS = "definition of the product", "product plus bias"
#: why two lines are equal in which factors stand inside other sums
INTO_SUMS, OUT_OF_SUMS = "factors moved into sums", "factors moved out of sums"
REGROUPED = "factors moved into sums or out of them"
#: why they are if nothing but the order of sums and the letters of their positions is another one
RENAMED = "order of summation, and other letters for the positions"


@dataclass(frozen=True)
class Condition:
    """A term that had to be positive for a step; ``assumed`` if that rests on an assumption of the theorem."""

    term: Term
    assumed: bool


@dataclass(frozen=True)
class Line:
    """A term, and why it equals the one before: the law, and what was opened or used.

    ``name`` is the tensor whose definition was opened, or the claim that was used; ``reason`` is in words, and
    ``positive`` what had to be so.
    """

    term: Term
    rule: str = ""
    name: str = ""
    reason: str = ""
    positive: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Reading:
    """A proof to be read: the goal, the lines from its left to its right side, and what had to be positive."""

    goal: Goal
    lines: tuple[Line, ...]
    conditions: tuple[Condition, ...] = ()


def read(certificate: Certificate, context: Context, reasons: Mapping[str, str]) -> Reading:
    """The lines of a proof, from a certificate.

    Raises:
        Rejected: if the steps do not prove the goal; a fault of the prover.

    Example:
        >>> from mha_sym.proof.checker import Goal
        >>> a = Entry("a", ())
        >>> [line.reason for line in read(Certificate(Goal("same", (), a, a), (), ()), Context(), {}).lines]
        ['', 'the same entry']
    """
    goal = certificate.goal
    left = _Side(goal.left, certificate.left, context, reasons)
    right = _Side(goal.right, certificate.right, context, reasons)
    check(Certificate(goal, left.steps, right.steps), context)
    lines = direct([*left.lines, *_backwards(right.lines, left.lines[-1].term), Line(goal.right)])
    return Reading(goal, lines, tuple(_distinct(one for line in lines for one in line.positive)))


class _Side:
    """One side of a goal, followed down to where it meets the other."""

    def __init__(self, term: Term, steps: Sequence[Step], context: Context, reasons: Mapping[str, str]) -> None:
        self.context, self.reasons = context, reasons
        replayed = list(self._replayed(term, steps))
        self.steps = ordered(steps, [self._label(step, before) for step, before, _ in replayed])
        self.lines = [Line(term)]
        self._write(replayed if self.steps == tuple(steps) else self._replayed(term, self.steps))

    def _replayed(self, term: Term, steps: Sequence[Step]) -> Iterator[tuple[Step, Term, Term]]:
        """Every step, with what it is applied to and the whole term after it."""
        for step in steps:
            place = at_path(term, step.path)
            term = apply_step(term, step, self.context)
            yield step, place, term

    def _label(self, step: Step, place: Term) -> tuple[str, str]:
        """The law of a step, and what it opens or uses."""
        if step.rule in ("lemma", "reindex"):
            return step.rule, str(step.args["name"]).partition("#")[0]
        if step.rule == "arithmetic" and isinstance(place, Apply) and place.name == "exp":
            return step.rule, EXP_OF_ZERO
        return step.rule, place.name if isinstance(place, Entry) else ""

    def _opening(self, name: str) -> str:
        """Why a tensor is what its definition says."""
        reason = self.reasons.get(name, CARDS["unfold"].reason)
        biased = reason == PRODUCT and isinstance(self.context.definitions[name].body, Add)
        return PRODUCT_AND_BIAS if biased else reason

    def _write(self, replayed: Iterable[tuple[Step, Term, Term]]) -> None:
        """One line a law and subject, as the term stands before factors are moved and sums are put in order."""
        waits = False
        for step, place, after in replayed:
            last, card = self.lines[-1], CARDS[step.rule]
            positive = tuple(_needed(step, place))
            if step.rule == "pull" and last.rule == "distribute" and not waits and _multiplies(place):
                self.lines[-1] = replace(last, term=after)  # a factor times a sum is the distributive law
                continue
            rule, name = label = self._label(step, place)
            if _silent(label) or _only_numbers(step, place):
                waits = waits or step.rule != "arithmetic" or len(self.lines) == 1
                if not waits:
                    self.lines[-1] = replace(last, term=after)
                continue
            waits = False
            if (last.rule, last.name) == (rule, name):
                self.lines[-1] = replace(last, term=after, positive=(*last.positive, *positive))
            else:
                reason = self._opening(name) if rule == "unfold" else name if rule == "arithmetic" else card.reason
                self.lines.append(Line(after, rule, name, reason, positive))


def _needed(step: Step, place: Term) -> Iterator[Condition]:
    """What has to be positive for a step."""
    if step.rule == "cancel":
        yield Condition(children(place)[step.args["value"]], bool(step.args.get("given")))


def _only_numbers(step: Step, place: Term) -> bool:
    """Whether nothing but numbers and sizes is put in front of a sum."""
    factors = flat_args(place.body) if step.rule == "factor" and isinstance(place, Bind) else ()
    return bool(factors) and all(isinstance(factors[n], Num | Size) for n in step.args["positions"])


def _multiplies(product: Term) -> bool:
    """Whether there is more in a product than one sum, sizes and numbers."""
    return sum(not isinstance(one, Size | Num | Apply) for one in flat_args(product)) > 1


def _backwards(lines: Sequence[Line], meets: Term) -> Iterator[Line]:
    """The lines of the right side from its end, where it says what ``meets`` says, to its beginning."""
    rule, reason = ("exchange", REGROUPED) if seen(meets) == seen(lines[-1].term) else ("arithmetic", "arithmetic")
    yield Line(lines[-1].term, rule, "", reason)
    for before, line in zip(reversed(lines[:-1]), reversed(lines[1:]), strict=True):
        yield replace(line, term=before.term)


def _distinct(conditions: Iterable[Condition]) -> Iterator[Condition]:
    known = set()
    for one in conditions:
        found = (seen(one.term), one.assumed)
        if found not in known:
            known.add(found)
            yield one


# ---------------------------------------------------------------- detours


def direct(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines without those between two that say the same but for the order of factors and sums.

    Example:
        >>> a, b = Entry("a", ()), Entry("b", ())
        >>> direct((Line(a), Line(b, "unfold", "a"), Line(a, "unfold", "b"), Line(b, "lemma", "last")))
        (Line(term=Entry(name='a', at=()), ...), Line(term=Entry(name='b', at=()), rule='lemma', ...))
    """
    keys = _keys([line.term for line in lines])
    last = {key: n for n, key in enumerate(keys)}
    kept: list[Line] = []
    n = 0
    while n < len(lines):
        end = last[keys[n]]
        detour = any(key != keys[n] for key in keys[n:end])
        run = lines[n : n + 1] if detour else lines[n : end + 1]
        kept += [line for m, line in enumerate(run) if not m or line.rule == "factor"]
        if n < end:
            kept += _bridge(kept[-1].term, lines[end].term, last=end + 1 == len(lines))
        n = end + 1
    kept[-1] = replace(kept[-1], term=lines[-1].term) if len(kept) > 1 else kept[-1]
    if len(kept) == 1:
        reason = "the same entry" if key(lines[0].term) == key(lines[-1].term) else "the same in another order"
        kept.append(Line(lines[-1].term, "arithmetic", "", reason))
    return tuple(kept)


def _bridge(one: Term, other: Term, last: bool) -> Iterator[Line]:
    """The lines between two that say the same, if a reader would not see that; at the end of a proof nothing goes on.

    Where sums change places and factors leave them for others, all factors go into the sums first.
    """
    inside, outside = _pulled_apart(one, other), _pulled_apart(other, one)
    moved = key(inside) != key(outside)
    if not regrouped(one, other):
        if moved and not last:
            yield Line(other, "exchange", "", _order(one, other))
    elif not moved:
        into, out = not regrouped(inside, other), not regrouped(one, inside)
        yield Line(other, "exchange", "", INTO_SUMS if into else OUT_OF_SUMS if out else REGROUPED)
    else:
        if regrouped(one, inside):
            yield Line(inside, "exchange", "", INTO_SUMS)
        if not regrouped(outside, other):
            outside = other
        yield Line(outside, "exchange", "", _order(inside, outside))
        if outside is not other:
            yield Line(other, "exchange", "", OUT_OF_SUMS)


def _order(one: Term, other: Term) -> str:
    """Why two lines are equal in which sums stand in another order."""
    letters, others = (Counter((e.name, free(e)) for e in entries_of(tidy(term))) for term in (one, other))
    return CARDS["exchange"].reason if letters == others else RENAMED


def _pulled_apart(term: Term, other: Term) -> Term:
    """The term with sums in front of products where it is not as another that says the same."""
    if key(term) == key(other):
        return term
    inside, others = children(term), children(other)
    alike = type(term) is type(other) and len(inside) == len(others) and not isinstance(term, Mul)
    if isinstance(term, Bind) and isinstance(other, Bind):
        alike = term.var == other.var
    if alike and all(seen(a) == seen(b) for a, b in zip(inside, others, strict=True)):
        return rebuild(term, tuple(map(_pulled_apart, inside, others)))
    return _pulled(term)


def _keys(terms: Sequence[Term]) -> list[object]:
    """What tells the terms apart as `seen` does, which is asked only where they have the same tensors in them."""
    made_of = [tuple(sorted(names_of(one))) for one in terms]
    count = Counter(made_of)
    known: dict[int, str] = {}  # the last lines are often the same object
    for term, names in zip(terms, made_of, strict=True):
        if count[names] > 1 and id(term) not in known:
            known[id(term)] = seen(term)
    return [known.get(id(term), names) for term, names in zip(terms, made_of, strict=True)]


def seen(term: Term) -> str:
    """A text equal for terms that differ in the order of factors and sums, or in where a factor stands, only."""
    return canonical_key(_pulled(term), {})


def regrouped(one: Term, other: Term) -> bool:
    """Whether factors that are no sizes stand inside other sums."""
    return one is not other and canonical_key(_without_sizes(one), {}) != canonical_key(_without_sizes(other), {})


def _without_sizes(term: Term) -> Term:
    """The term without sizes and numbers as factors."""
    term = rebuild(term, tuple(map(_without_sizes, children(term))))
    if not isinstance(term, Mul):
        return term
    return product([one for one in flat_args(term) if not isinstance(one, Size | Num)])


def _pulled(term: Term) -> Term:
    """The term with every sum over an index moved in front of the product in which it is a factor."""
    term = rebuild(term, tuple(map(_pulled, children(term))))
    if not isinstance(term, Mul):
        return term
    factors: list[Term] = []
    variables: list[Var] = []
    waiting = list(flat_args(term))
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, Bind) and one.op == "sum":
            taken = frozenset().union(*map(free, (*factors, *waiting)), (v.name for v in variables))
            one = rename_apart(one, taken)
            variables.append(one.var)
            waiting = [*(flat_args(one.body) if isinstance(one.body, Mul) else (one.body,)), *waiting]
        else:
            factors.append(one)
    return reduce(lambda body, var: sum_over(var, body), reversed(variables), product(factors))


# ---------------------------------------------------------------- order


def ordered(steps: Sequence[Step], labels: Sequence[tuple[str, str]]) -> tuple[Step, ...]:
    """The same steps, those with equal labels together as far as they do not depend on each other.

    Two steps depend on each other if the place of one lies inside the place of the other.

    Args:
        steps: in an order in which they apply.
        labels: the rule of each, and its subject.

    Example:
        >>> steps = [Step("unfold", (0,)), Step("collect", (0,)), Step("unfold", (1,))]
        >>> [step.path for step in ordered(steps, [("unfold", "S"), ("collect", ""), ("unfold", "S")])]
        [(0,), (1,), (0,)]
    """
    waiting = {n: {m for m in range(n) if _meet(steps[m].path, one.path)} for n, one in enumerate(steps)}
    order: list[int] = []
    current: tuple[str, str] | None = None
    while waiting:
        ready = [n for n, before in waiting.items() if not before]
        chosen = min(ready, key=lambda n: (_rank(labels[n], current), n))
        if not _silent(labels[chosen]):
            current = labels[chosen]
        order.append(chosen)
        del waiting[chosen]
        for before in waiting.values():
            before.discard(chosen)
    return tuple(steps[n] for n in order)


def _rank(label: tuple[str, str], current: tuple[str, str] | None) -> int:
    """More of the same first, then arithmetic, then by `PRECEDENCE`; factors are moved when names are open."""
    if label == current:
        return -1
    return PRECEDENCE.get(label[0], 4) if label[1] != EXP_OF_ZERO else 4


def _silent(label: tuple[str, str]) -> bool:
    """Whether a step is none to a reader, by its rule and subject."""
    return CARDS[label[0]].silent and label[1] != EXP_OF_ZERO


def _meet(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
