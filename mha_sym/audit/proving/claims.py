"""From lifted code to claims, and from claims to verdicts.

Defines `against_specification`, `against_each_other`, `refuted` and `refuted_pair`, and `together`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.statement import Statement
from mha_sym.axes import Axis
from mha_sym.expr import Expr, Repeat, Select, Split, inputs
from mha_sym.importers.graph import ImportProblem
from mha_sym.importers.lifting.lift import Lift
from mha_sym.importers.lifting.lifted import Leaves, Lifted, fit, in_order
from mha_sym.importers.lifting.scalars import ZERO
from mha_sym.importers.resize import filled
from mha_sym.importers.sizes import same, total
from mha_sym.proof.prover import Prover
from mha_sym.proof.refute import refute
from mha_sym.proof.theorem import Claim, Outcome, Theorem, Verdict


def against_specification(impl: Implementation, statement: Statement, lifted: Lift) -> list[Outcome]:
    """Each output beside the stage of its name."""
    claims = [_claim(impl, statement, word, value) for word, value in lifted.outputs.items()]
    theorem = Theorem("code_eq_specification", "", "", tuple(claims), assumptions=statement.assumptions)
    return _decided(theorem, lifted.opaque)


def refuted(impl: Implementation, statement: Statement, lifted: Lift) -> list[Outcome]:
    """The outputs that certainly differ from the stages of their names, with numbers that a proof may not know."""
    return _refuted([_claim(impl, statement, word, value) for word, value in lifted.outputs.items()], statement)


def refuted_pair(
    one: tuple[Implementation, Lift], other: tuple[Implementation, Lift], statement: Statement
) -> list[Outcome]:
    """The outputs of two that certainly differ."""
    return _refuted(_beside(one, other, statement), statement)


def _refuted(claims: Sequence[Claim], statement: Statement) -> list[Outcome]:
    found = ((claim, refute(claim, statement.assumptions)) for claim in claims)
    return [Outcome(claim, Verdict.REFUTED, 0.0, counterexample=one) for claim, one in found if one is not None]


def _decided(theorem: Theorem, opaque: Sequence[str]) -> list[Outcome]:
    """What the prover says of each claim; where a row's maximum stands for any number, a refutation is none."""
    known = next((name for name in opaque if "max" not in name), "a row's maximum")
    prover = Prover(theorem, recheck=False)
    done = []
    for claim in theorem.claims:
        outcome = prover.claim(claim)
        if outcome.verdict is Verdict.REFUTED and opaque:
            outcome = _at_zero(theorem, claim, opaque) or outcome
        if outcome.verdict is Verdict.REFUTED and opaque and outcome.claim is claim:
            why = f"the code uses {known} in a way in which it does not cancel"
            if known in opaque:
                why = f"it is refuted where {known} may be any array, and the code has one of its own"
            outcome = replace(outcome, verdict=Verdict.UNDECIDED, counterexample=None, detail=why)
        done.append(outcome)
    return done


def _at_zero(theorem: Theorem, claim: Claim, opaque: Sequence[str]) -> Outcome | None:
    """The refutation with zeros for numbers of which nothing is known, where it is proved that they do not matter."""
    known = [one for one in (*inputs(claim.left), *inputs(claim.right)) if one.name in opaque]
    zeros = {one.name: Repeat(ZERO, one.over) if one.over else ZERO for one in known}
    plain = replace(claim, left=filled(claim.left, zeros), right=filled(claim.right, zeros))
    moved = [Claim("moved", *pair) for pair in ((claim.left, plain.left), (claim.right, plain.right))]
    if not all(Prover(theorem, recheck=False).claim(one).verdict is Verdict.PROVED for one in moved):
        return None
    outcome = Prover(theorem, recheck=False).claim(plain)
    return outcome if outcome.verdict is Verdict.REFUTED else None


def against_each_other(
    one: tuple[Implementation, Lift], other: tuple[Implementation, Lift], statement: Statement
) -> list[Outcome]:
    """The outputs that both have, beside each other."""
    claims = tuple(_beside(one, other, statement))
    theorem = Theorem("code_eq_code", "", "", claims, assumptions=statement.assumptions)
    return _decided(theorem, (*one[1].opaque, *other[1].opaque))


def _beside(
    one: tuple[Implementation, Lift], other: tuple[Implementation, Lift], statement: Statement
) -> list[Claim]:
    claims = []
    for word in one[1].outputs:
        if word in other[1].outputs:
            sides = [_claim(impl, statement, word, lifted.outputs[word]) for impl, lifted in (one, other)]
            claims.append(Claim(word, sides[0].left, sides[1].left))
    return claims


def _claim(impl: Implementation, statement: Statement, word: str, value: Lifted) -> Claim:
    """An output beside its stage, over the plain axes of the stage; axes of size 1 are gone."""
    right: Expr = getattr(statement.stages, word)
    for one in right.axes:
        if one.factors:
            right = Split(right, one)
    places = _places(impl.order(word), right, statement)
    for one in right.axes:
        if one.size == 1:
            right = Select(right, one, 0)
    dims = [tuple(a for a in dim if a.size != 1) for dim in places]
    if len(dims) != len(value.dims):
        raise ImportProblem(f"{word} has {len(value.dims)} axes", expected=impl.order(word))
    shape, wanted = ([total(a.size for a in dim) for dim in side] for side in (value.dims, dims))
    if not all(map(same, shape, wanted)):
        raise ImportProblem(f"{word} has the wrong shape", expected=impl.order(word), got=str(tuple(shape)))
    left = fit(value, dims)
    if left.keep is not None:
        raise ImportProblem(f"{word} has entries that are minus infinity")
    return Claim(word, in_order(left.expr, right.axes), right)


def _places(order: str, stage: Expr, statement: Statement) -> list[Leaves]:
    """The plain axes of each array axis, from the order in which the code has them: ``b t (h v)``."""
    d = statement.dims
    named = {one.name: one for one in (*stage.axes, d.b, d.t, d.s, d.m, d.k, d.v)}
    heads = tuple(named[n] for n in ("g", "r") if n in named) or (d.h,)
    if len(heads) == 2 and [a.name for a in stage.axes if a in heads] == ["r", "g"]:
        heads = heads[::-1]
    found: list[Leaves] = []
    for group in re.findall(r"\([^)]*\)|\S+", order):
        letters = re.findall(r"\w+", group)
        found.append(tuple(a for n in letters if n != "1" for a in (heads if n == "h" else opened(named[n]))))
    return found


def opened(one: Axis) -> Leaves:
    """An axis as the plain ones and concatenations it is the product of."""
    return tuple(leaf for factor in one.factors for leaf in opened(factor)) or (one,)


def together(outcomes: Sequence[Outcome]) -> Verdict:
    """Refuted if one is, proved if all are, undecided otherwise."""
    found = {one.verdict for one in outcomes}
    if Verdict.REFUTED in found:
        return Verdict.REFUTED
    return Verdict.PROVED if found == {Verdict.PROVED} else Verdict.UNDECIDED
