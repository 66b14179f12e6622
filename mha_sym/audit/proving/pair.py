"""Proving what a command names, and two implementations equal to each other.

Defines `prove_target` and `prove_equal`.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from mha_sym.audit.cases import Case, cases_of
from mha_sym.audit.check import _described
from mha_sym.audit.frameworks.own_tables import at_few_positions, made_as, with_own_tables, with_tables
from mha_sym.audit.frameworks.position_tables import whole
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.masks.made_causal import made_causal
from mha_sym.audit.masks.mask_word import mask_as_meant
from mha_sym.audit.proving.claims import against_each_other, refuted_pair, together
from mha_sym.audit.proving.code import Work, as_expression, distinct, for_any_tables, gates_left, masks_of, prove_code
from mha_sym.audit.proving.imported import Import, imported
from mha_sym.audit.proving.outcome import CaseProof, CodeProof
from mha_sym.audit.settle import Wishes
from mha_sym.audit.specification import exact_scale
from mha_sym.audit.target import load
from mha_sym.errors import Problem, TargetProblem
from mha_sym.importers.fold import fold
from mha_sym.importers.graph import Graph
from mha_sym.importers.lifting.lift import Lift
from mha_sym.importers.lifting.lookups import BIAS, looked_up
from mha_sym.proof.theorem import Outcome, Verdict

#: what is said where one of two takes masks that the other does not
_ALIKE = "in the ways of calling that both have"


def prove_target(
    target: str, causal: bool | None = None, against: str | None = None, **said: Any
) -> CodeProof:
    """Prove what a TARGET of the command line names.  It is imported and run: it is the user's code.

    Args:
        target: ``file.py:object`` or ``module:object``.
        causal: as for `prove_code`.
        against: another target, to which the first is to be proved equal.
        said: what the user says of a plain function: ``heads``, ``kv_heads``, ``batch_first``, ``layout``.
    """
    impl = _described(load(target), said, causal, target)
    layout = f"{impl.how_stored.name}: {impl.how_stored.words}"
    try:
        if against is None:
            return prove_code(impl, causal)
        return prove_equal(impl, _described(load(against), said, causal, against), causal)
    except Problem as problem:
        return CodeProof(target, layout, problem=problem, against=against or "")


def prove_equal(one: Implementation, other: Implementation, causal: bool | None = None) -> CodeProof:
    """Try to prove that two implementations compute the same, for every way of calling that both have.

    They are compared with each other, on the same arrays, if their weights are stored alike or their parameters have
    the same names and shapes; otherwise each with the specification, and what is proved is equality once the weights
    are brought from one layout into the other, which the proof says.

    Example:
        >>> import numpy as np
        >>> def one(x, w_q, w_k, w_v, w_o, heads):
        ...     return np.einsum("btm,mn->btn", x, w_q @ w_o)
        >>> def other(x, w_q, w_k, w_v, w_o, heads):
        ...     return x @ w_q @ w_o
        >>> pair = (Implementation(call=code, tied=("d_v",)) for code in (one, other))
        >>> prove_equal(*pair).verdict.value
        'proved'
    """
    one, other = (gates_left(with_own_tables(side)) for side in (one, other))
    if _same_parameters(one, other):
        other = replace(other, layout=one.layout, names=one.names)
    elif one.how_stored.rows != other.how_stored.rows or one.biases != other.biases:
        return _both(prove_code(one, causal), prove_code(other, causal), one, other)
    one, other = (whole(_with_its_mask(side, causal)) for side in (one, other))
    one, other = _alike(one, other, causal)
    ways, others = ({masks_of(case) for case in cases_of(side, causal)} for side in (one, other))
    cases = [case for case in distinct(cases_of(one, causal)) if masks_of(case) in others]
    if not cases:
        raise TargetProblem(
            f"{one.title} and {other.title} are called in no way alike", where=one.title,
            got="; ".join(", ".join(case.name for case in cases_of(side, causal)) for side in (one, other)),
            hint="with the same masks as arguments, or causal=True in the description of one that needs none",
        )  # fmt: skip
    if one.rotary != other.rotary or (one.own is None) != (other.own is None):
        raise TargetProblem(
            f"{one.title} and {other.title} have other positions", got=f"{_positions(one)}; {_positions(other)}"
        )

    def prove(tables: Implementation) -> CodeProof:
        return _Pair(tables, {}, other=replace(other, rotary=tables.rotary)).all(cases)

    told = other.headline if ways == others else f"{other.headline} {_ALIKE}"
    return replace(for_any_tables(one, prove), against=told)


def _alike(one: Implementation, other: Implementation, causal: bool | None) -> tuple[Implementation, Implementation]:
    """Both, the other with a causal mask made for it where one is causal by itself and they have no way in common."""
    ways = [{masks_of(case) for case in cases_of(side, causal)} for side in (one, other)]
    if ways[0] & ways[1] or one.causal == other.causal:
        return one, other
    made = made_causal(other if one.causal else one)
    if made is None:
        return one, other
    return (one, made) if one.causal else (made, other)


def _with_its_mask(impl: Implementation, causal: bool | None) -> Implementation:
    """A module that is handed its mask, if it has one that fits; that it has none or another is told with it."""
    if impl.module is None:
        return impl
    read, meant = mask_as_meant(impl, Wishes(draws=1, causal=causal))
    return replace(read, notes=(*read.notes, *meant))


def _same_parameters(one: Implementation, other: Implementation) -> bool:
    """Whether the parameters of one can be handed to the other as they are, whatever each is found to mean by them."""
    shapes = [
        {name: tuple(value.shape) for name, value in side.module.named_parameters()}
        for side in (one, other) if side.module is not None
    ]  # fmt: skip
    if len(shapes) < 2 or shapes[0] != shapes[1]:
        return False
    return all(set(shapes[0]) <= set(side.stored.values()) for side in (one, other))


def _both(left: CodeProof, right: CodeProof, one: Implementation, other: Implementation) -> CodeProof:
    """Two proofs against the specification as one: equal if both are proved, and the specification is the same.

    Where a bias is looked up by position, the specification has that of the code, and is not the same.
    """
    have = [{case.case for case in proof.cases} for proof in (left, right)]
    left, right = (
        replace(proof, cases=tuple(case for case in proof.cases if case.case in have[0] & have[1]))
        for proof in (left, right)
    )
    looked = any(biases_of(case.found.graph) for proof in (left, right) for case in proof.cases)
    made = [[made_as(case.found.graph) for case in proof.cases] for proof in (left, right)]
    alike = _specified(one) == _specified(other) and not looked and made[0] == made[1]
    found = {left.verdict, right.verdict}
    verdicts = " and ".join(f"{proof.target} is {proof.verdict.value}" for proof in (left, right))
    words = f"{verdicts} against the specification"
    if looked:
        words += ", which has a bias of the code's own, looked up by position"
    seconds = {name: left.seconds[name] + right.seconds[name] for name in left.seconds}
    brought = f"{right.target}, once its weights are brought from {one.how_stored.name} to {other.how_stored.name},"
    equal = replace(
        left, cases=(*_named(left), *_named(right)), seconds=seconds, problem=left.problem or right.problem,
        notes=(*left.notes, f"their weights are stored differently: {words}"),
        against=brought if have[0] == have[1] else f"{brought} {_ALIKE},",
    )  # fmt: skip
    if alike and Verdict.PROVED in found and Verdict.UNDECIDED not in found:
        return equal
    return replace(equal, cases=(), problem=equal.problem or TargetProblem(f"this says nothing of both: {words}"))


def _specified(impl: Implementation) -> tuple[Hashable, ...]:
    """What the specification of an implementation rests on, but for how it is called."""
    own = impl.own is not None
    return exact_scale(impl), impl.biases, impl.causal, impl.how_stored.grouped, impl.positions, own


def _positions(impl: Implementation) -> str:
    """The positions of one of two, and where its tables come from."""
    made = "" if impl.positions is None else ", tables of its own" if impl.own is not None else ", tables handed over"
    return f"{impl.positions}{made}"


def biases_of(graph: Graph) -> list[Hashable]:
    """What is looked up by position: equal only where it is the same table at the same formula."""
    return [one.same for one in looked_up(graph)[1]]


def _named(proof: CodeProof) -> list[CaseProof]:
    """The cases of one of two, under its name."""
    return [replace(case, case=f"{proof.target} and the specification, {case.case}") for case in proof.cases]


@dataclass
class _Pair(Work):
    """Two implementations beside each other, at sizes at which both can be followed."""

    other: Implementation = field(kw_only=True)

    def case(self, case: Case, found: Import, depth: int = 0) -> CaseProof:
        """One way of calling, the other code in place of the specification."""
        started = time.perf_counter()
        second = imported(self.other, case, found.sizes)
        if second.sizes != found.sizes:  # the other code fixes sizes that this one leaves open
            found = imported(self.impl, case, second.sizes)
        found, lifted, agreed = as_expression(self.impl, case, found)
        apart = biases_of(fold(second.graph)) != biases_of(found.graph)
        tables = made_as(fold(with_tables(self.other, second).graph)) != made_as(found.graph)
        second, theirs, _ = as_expression(
            self.other, case, second, "other_max", bias=f"{'other_' * apart}{BIAS}", called="other_" * tables
        )
        self.seconds["import"] += time.perf_counter() - started
        started = time.perf_counter()
        pair = ((self.impl, lifted), (self.other, theirs))
        outcomes = tuple(against_each_other(*pair, found.statement))
        if together(outcomes) is Verdict.UNDECIDED:
            outcomes = self.with_their_tables(found, second, lifted, theirs) or outcomes
        self.seconds["prove"] += time.perf_counter() - started
        notes = found.graph.notes
        more = {n: getattr(second.graph.notes, n) for n in ("casts", "readings", "assumed", "conditions")}
        found = replace(found, graph=replace(found.graph, notes=notes.plus(**more)))
        sizes = tuple(dict(one.sizes) for one in agreed)
        made = CaseProof(case.name, together(outcomes), outcomes, found, lifted, sizes)
        return self.with_conditions(case, made, depth)

    def with_their_tables(self, found: Import, second: Import, lifted: Lift, theirs: Lift) -> tuple[Outcome, ...]:
        """A refutation at a few positions, with the tables that both make; nothing if there is none."""
        here, there = at_few_positions(self.impl, found, lifted), at_few_positions(self.other, second, theirs)
        if here is None or there is None:
            return ()
        return tuple(refuted_pair((self.impl, here[1]), (self.other, there[1]), here[0].statement))
