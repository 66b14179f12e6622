"""Proving an implementation: its code as an expression, equal to the specification for all sizes and all weights.

Defines `prove_code` and what it returns, `CodeProof`.  For every way of calling, the code is run once on arrays without
values; the graph that this gives is compared with the code in numbers, lifted to an expression, and handed to the same
prover, checker and refuter as every theorem.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from mha_sym.audit.cases import Case, cases_of
from mha_sym.audit.check import _described
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proof_import import Import, fixed_sizes, imported, validate
from mha_sym.audit.proof_statement import Statement
from mha_sym.audit.proof_trace import Departure, departure
from mha_sym.audit.setting import ties_of
from mha_sym.audit.target import load
from mha_sym.axes import size_symbol
from mha_sym.errors import Problem, TargetProblem
from mha_sym.expr import Expr, Select, Split
from mha_sym.importers.fold import fold
from mha_sym.importers.graph import Condition, ImportProblem
from mha_sym.importers.lift import Lift, Masked, lift
from mha_sym.importers.lifted import Leaves, Lifted, Names, fit, in_order
from mha_sym.proof.prover import Prover
from mha_sym.proof.theorem import Claim, Outcome, Theorem, Verdict

Sizes = Mapping[str, sympy.Expr | int]

#: what every proof is about, and what it leaves out
OVER_THE_REALS = "over real numbers: rounding, overflow, NaN and infinities as values are left out"


@dataclass(frozen=True)
class CaseProof:
    """What is known of one way of calling.

    Attributes:
        case: its name.
        verdict: of all outputs together.
        outcomes: what the prover says, one for each output.
        found: the import.
        lifted: the import as expressions.
        agreed: the sizes at which graph and code agreed in numbers.
        departure: where the code departs from the specification, if it is not proved.
        discharged: conditions on sizes whose other side was proved as well, one sentence each.
        open: conditions on sizes that the proof needs.
    """

    case: str
    verdict: Verdict
    outcomes: tuple[Outcome, ...]
    found: Import
    lifted: Lift
    agreed: tuple[dict[str, int], ...] = ()
    departure: Departure | None = None
    discharged: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodeProof:
    """What is known of an implementation.

    Attributes:
        target: what it is called.
        layout: how its weights are stored.
        cases: one for each way of calling.
        seconds: how long it took, by part: ``import``, ``prove``.
        problem: why the code could not be read as an expression.
    """

    target: str
    layout: str = ""
    cases: tuple[CaseProof, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    problem: Problem | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Refuted if a case is, proved if all are, undecided otherwise."""
        found = {one.verdict for one in self.cases}
        if Verdict.REFUTED in found:
            return Verdict.REFUTED
        proved = found == {Verdict.PROVED} and self.problem is None
        return Verdict.PROVED if proved else Verdict.UNDECIDED

    @property
    def fixed(self) -> dict[str, int]:
        """Sizes that the code, or the object, fixes."""
        sizes = [one.found.sizes for one in self.cases]
        pairs = {n: int(s) for found in sizes for n, s in found.items() if sympy.sympify(s).is_Integer}
        return dict(sorted(pairs.items()))

    @property
    def symbolic(self) -> tuple[str, ...]:
        """Sizes for all values of which the statement is made."""
        used: set[str] = set()
        for one in self.cases:
            axes = [a for o in one.outcomes for a in (*o.claim.left.axes, *o.claim.right.axes)]
            arrays = [e.value if isinstance(e, Masked) else e for e in one.found.statement.inputs.values()]
            inputs = [a for e in arrays for a in e.axes]
            used |= {s.name for a in (*axes, *inputs) for s in a.size.free_symbols}
        return tuple(sorted(used))


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
    try:
        return prove_code(impl, causal)
    except Problem as problem:
        return CodeProof(target, f"{impl.how_stored.name}: {impl.how_stored.words}", problem=problem)


def prove_code(
    impl: Implementation, causal: bool | None = None, sizes: Sizes | None = None
) -> CodeProof:
    """Try to prove, for every way of calling, that an implementation is multi-head attention.

    Args:
        impl: the implementation.
        causal: True for causal calls only, False for none, None for all.
        sizes: sizes to fix or to tie to each other.

    Raises:
        Problem: if the code raises.

    Example:
        >>> import numpy as np
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
        ...     a = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
        ...     z = a / a.sum(-1, keepdims=True) @ v
        ...     return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o
        >>> found = prove_code(Implementation(call=attention))
        >>> found.verdict.value, found.symbolic
        ('proved', ('B', 'T', 'd_k', 'd_model', 'd_v', 'h'))
    """
    cases = _distinct(cases_of(impl, causal))
    if not cases:
        raise TargetProblem("nothing is left to prove", where=impl.title, got=f"causal={causal}")
    work = _Work(impl, dict(sizes or {}))
    return work.all(cases)


def _distinct(cases: Sequence[Case]) -> list[Case]:
    """Ways of calling that hand over different masks: a proof is about arbitrary masks, and about any inputs."""
    found: dict[Any, Case] = {}
    for one in cases:
        masks = frozenset({one.causal, one.padding, "mask" if one.additive else ""}) - {""}
        found.setdefault((masks, one.need_weights), one)
    return list(found.values())


@dataclass
class _Work:
    impl: Implementation
    sizes: dict[str, sympy.Expr | int]
    seconds: dict[str, float] = field(default_factory=lambda: {"import": 0.0, "prove": 0.0})

    def all(self, cases: Sequence[Case]) -> CodeProof:
        """Every case, at the freest sizes at which the code can be followed."""
        done: list[CaseProof] = []
        notes: list[str] = []
        problem: Problem | None = None
        for case in cases:
            try:
                found, note = self.freest(case)
            except ImportProblem as trouble:
                problem = problem or trouble
                continue
            notes += [] if note in notes or not note else [note]
            done.append(self.case(case, found))
        layout = self.impl.how_stored
        return CodeProof(
            self.impl.title, f"{layout.name}: {layout.words}", tuple(done), self.seconds, problem, tuple(notes)
        )

    def freest(self, case: Case) -> tuple[Import, str]:
        """The import with as few sizes tied to each other as the code allows."""
        refused: Problem | None = None
        started = time.perf_counter()
        try:
            for tied in ties_of(self.impl):
                try:
                    found = imported(self.impl, case, {**_ties(tied), **fixed_sizes(self.impl), **self.sizes})
                except Problem as problem:
                    refused = refused or problem
                    continue
                self.impl = replace(self.impl, tied=tied)
                needs = " and ".join(_TIED[one] for one in tied)
                return found, f"it was followed only where {needs}: {refused.what}" if refused else ""
        finally:
            self.seconds["import"] += time.perf_counter() - started
        assert refused is not None
        raise refused

    def case(self, case: Case, found: Import, depth: int = 0) -> CaseProof:
        """One way of calling: validated in numbers, lifted, proved or refuted."""
        started = time.perf_counter()
        agreed = validate(self.impl, case, found)
        folded = fold(found.graph)
        names = Names(products=dict(found.statement.products))
        d = found.statement.dims
        names.learn(a for a in (d.b, d.h, d.t, d.s, d.k, d.v, d.m) if a.size != 1)
        lifted = lift(folded, found.statement.inputs, names)
        found = replace(found, graph=folded)
        self.seconds["import"] += time.perf_counter() - started
        started = time.perf_counter()
        outcomes = tuple(_prove(self.impl, found.statement, lifted))
        self.seconds["prove"] += time.perf_counter() - started
        verdict = _together(outcomes)
        departs = departure(self.impl, case, found, agreed[0]) if verdict is not Verdict.PROVED else None
        sizes = tuple(dict(one.sizes) for one in agreed)
        made = CaseProof(case.name, verdict, outcomes, found, lifted, sizes, departs)
        return self.with_conditions(case, made, depth)

    # ------------------------------------------------------------ conditions on sizes

    def with_conditions(self, case: Case, made: CaseProof, depth: int) -> CaseProof:
        """The same, the excluded sizes proved apart where that can be done."""
        proved, left = [], []
        verdict = made.verdict
        for one in made.found.graph.notes.conditions:
            other = _excluded(one)
            apart = self.apart(case, made.found, other, depth) if other is not None else None
            if apart is None:
                left.append(f"{one} ({one.place})")
            elif apart.verdict is Verdict.PROVED:
                proved.append(f"{_words(other)} was proved apart, as the code decides on it at {one.place}")
            else:
                verdict = apart.verdict if verdict is Verdict.PROVED else verdict
                left.append(f"{one} ({one.place}); {_words(other)} is {apart.verdict.value}")
        return replace(made, verdict=verdict, discharged=tuple(proved), open=tuple(left))

    def apart(self, case: Case, found: Import, other: Sizes | None, depth: int) -> CaseProof | None:
        """The proof at the sizes that a condition excludes."""
        if other is None or depth > 2 or set(other) & set(found.sizes):
            return None
        try:
            return self.case(case, imported(self.impl, case, {**found.sizes, **other}), depth + 1)
        except Problem:
            return None


_TIED = {"d_v": "d_v = d_k", "d_model": "d_model = h d_k"}


def _ties(tied: Sequence[str]) -> dict[str, sympy.Expr]:
    k, h = size_symbol("d_k"), size_symbol("h")
    every: dict[str, sympy.Expr] = {"d_v": k, "d_model": h * k}
    return {name: every[name] for name in tied}


def _excluded(condition: Condition) -> Sizes | None:
    """The sizes that a condition leaves out, if it is one value of one size: ``B != 1`` leaves out B = 1."""
    relation = condition.relation
    for one, other in ((relation.lhs, relation.rhs), (relation.rhs, relation.lhs)):
        if not one.is_Symbol or one in other.free_symbols:
            continue
        if isinstance(relation, sympy.Ne):
            return {one.name: other}
        least = relation.subs(one, 1)
        if other.is_Integer and least in (False, sympy.false) and relation.subs(one, 2) in (True, sympy.true):
            return {one.name: 1}
    return None


def _words(sizes: Sizes | None) -> str:
    return ", ".join(f"{name} = {size}" for name, size in (sizes or {}).items())


# ---------------------------------------------------------------- the claims


def _prove(impl: Implementation, statement: Statement, lifted: Lift) -> list[Outcome]:
    """Each output beside the stage of its name."""
    claims = [_claim(impl, statement, word, value) for word, value in lifted.outputs.items()]
    assumptions = statement.assumptions
    theorem = Theorem("code_eq_specification", "", "", tuple(claims), assumptions=assumptions)
    prover = Prover(theorem, recheck=False)
    done = []
    for claim in claims:
        outcome = prover.claim(claim)
        if outcome.verdict is Verdict.REFUTED and lifted.opaque:
            why = "the code uses a row's maximum in a way in which it does not cancel"
            outcome = replace(outcome, verdict=Verdict.UNDECIDED, counterexample=None, detail=why)
        done.append(outcome)
    return done


def _claim(impl: Implementation, statement: Statement, word: str, value: Lifted) -> Claim:
    """An output beside its stage, over the plain axes of the stage; axes of size 1 are gone."""
    right: Expr = getattr(statement.stages, word)
    for one in right.axes:
        if one.factors:
            right = Split(right, one)
    for one in right.axes:
        if one.size == 1:
            right = Select(right, one, 0)
    dims = [tuple(a for a in dim if a.size != 1) for dim in _places(impl.order(word), right, statement)]
    if len(dims) != len(value.dims):
        raise ImportProblem(f"{word} has {len(value.dims)} axes", expected=impl.order(word))
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
        found.append(tuple(a for n in letters if n != "1" for a in (heads if n == "h" else (named[n],))))
    return found


def _together(outcomes: Sequence[Outcome]) -> Verdict:
    found = {one.verdict for one in outcomes}
    if Verdict.REFUTED in found:
        return Verdict.REFUTED
    return Verdict.PROVED if found == {Verdict.PROVED} else Verdict.UNDECIDED

