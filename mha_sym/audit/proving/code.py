"""Proving an implementation: its code as an expression, equal to the specification for all sizes and all weights.

Defines `prove_code`.  For every way of calling, the code is run once on arrays without
values; the graph that this gives is compared with the code in numbers, lifted to an expression, and handed to the same
prover, checker and refuter as every theorem.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import sympy

from mha_sym.audit.cases import Case, cases_of
from mha_sym.audit.frameworks.joined import without_projection
from mha_sym.audit.frameworks.own_tables import at_few_positions, with_own_tables, with_tables
from mha_sym.audit.frameworks.position_tables import whole, with_bias
from mha_sym.audit.implementation import MASKS, Implementation
from mha_sym.audit.masks.mask_word import mask_as_meant
from mha_sym.audit.proving.claims import against_specification, refuted, together
from mha_sym.audit.proving.conditions import by_a_number, excluded, in_words, once, one_by_one
from mha_sym.audit.proving.imported import Import, any_setting, fixed_sizes, imported, numbers, validate
from mha_sym.audit.proving.outcome import CaseProof, CodeProof
from mha_sym.audit.proving.stages import in_stages
from mha_sym.audit.proving.trace import Departure, departure
from mha_sym.audit.setting import Setting, ties_of
from mha_sym.audit.settle import Wishes
from mha_sym.axes import size_symbol
from mha_sym.errors import Problem, TargetProblem
from mha_sym.importers.fold import fold
from mha_sym.importers.graph import Given, ImportProblem, Unfollowed
from mha_sym.importers.lifting.biases import with_tables_of_biases
from mha_sym.importers.lifting.lift import Lift, lift
from mha_sym.importers.lifting.lifted import Names
from mha_sym.importers.lifting.lookups import BIAS, looked_up
from mha_sym.proof.theorem import Outcome, Verdict

Sizes = Mapping[str, sympy.Expr | int]


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
    impl = gates_left(with_own_tables(impl))
    read, meant = mask_as_meant(impl, Wishes(draws=1, causal=causal))
    made = _proof(replace(read, notes=(*read.notes, *meant)), causal, sizes)
    if made.verdict is not Verdict.UNDECIDED or len(read.arguments) == len(impl.arguments):
        return made
    note = "with its mask neither a proof nor a counterexample was found"  # what can be said without it is said
    plain = replace(impl, without=("its mask", *impl.without), notes=(*impl.notes, note))
    found = _proof(plain, causal, sizes)
    return found if found.verdict is Verdict.PROVED else made


def gates_left(impl: Implementation) -> Implementation:
    """The same with its head mask among what is never handed over: no proof is about that."""
    named = {word: name for name, word in impl.by_parameter.items()} if impl.takes is None else {}
    name = named.get("head_mask", "head_mask")
    left = "head_mask" in impl.arguments and name not in impl.without
    return replace(impl, without=(*impl.without, name)) if left else impl


def _proof(impl: Implementation, causal: bool | None, sizes: Sizes | None) -> CodeProof:
    """The proof of an implementation as it is described."""
    impl = whole(impl)
    cases = distinct(cases_of(impl, causal))
    if not cases:
        raise TargetProblem("nothing is left to prove", where=impl.title, got=f"causal={causal}")
    if impl.module is not None and not sizes:
        from mha_sym.audit.proving.widths import for_all_widths  # which does the same work on another implementation

        wide = for_all_widths(impl, cases)
        if wide is not None:
            return wide
    return for_any_tables(impl, lambda one: Work(one, dict(sizes or {})).all(cases))


def for_any_tables(impl: Implementation, prove: Callable[[Implementation], CodeProof]) -> CodeProof:
    """A proof for tables of any numbers, or else for such as rotary positions have: one number for both of a pair."""
    made, rotary = prove(impl), impl.positions
    if made.verdict is Verdict.PROVED or rotary is None or rotary.tables != "feature":
        return made
    return prove(replace(impl, rotary=replace(rotary, tables="twice")))


def conventions(impl: Implementation) -> str:
    """The specification in words: scale, biases, mask, heads."""
    scale = "1/sqrt(d_k)" if impl.scale is None else str(impl.scale)
    biases = ", ".join(f"b_{letter.upper()}" for letter in impl.biases) or "no biases"
    handed = set(MASKS) & set(impl.arguments)
    mask = "causal by itself" if impl.causal else "masks as they are handed over" if handed else "no mask"
    grouped = ", several query heads to a key head" if impl.how_stored.grouped else ""
    rotary = "" if impl.positions is None else f", {impl.positions}"
    rotary += "" if impl.own is None else ", with tables of its own"
    bare = " without W_O (the heads side by side)" if without_projection(impl) else ""
    return f"multi-head attention{bare} with scale {scale}, {biases}, {mask}{grouped}{rotary}"


def added(cases: Sequence[CaseProof]) -> str:
    """What is added to the scores, in words."""
    names = {one.name: None for case in cases for one in looked_up(case.found.graph)[1]}
    return f", {' and '.join(names)}[query, key, head] added to the scores" if names else ""


def masks_of(case: Case) -> tuple[frozenset[str], bool]:
    """What a way of calling hands over besides inputs and weights."""
    return frozenset({case.causal, case.padding, "mask" if case.additive else ""}) - {""}, case.need_weights


def distinct(cases: Sequence[Case]) -> list[Case]:
    """Ways of calling that hand over different masks: a proof is about arbitrary masks, and about any inputs."""
    found: dict[tuple[frozenset[str], bool], Case] = {}
    for one in cases:
        found.setdefault(masks_of(one), one)
    return list(found.values())


@dataclass
class Work:
    """The work on one implementation, and the time it takes."""

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
                made, note = self.freest(case)
                done.append(made)
            except Problem as trouble:
                problem = problem or trouble
                done += [] if isinstance(trouble, Unfollowed) else self.unread(case)
                continue
            notes += [] if note in notes or not note else [note]
        if problem is not None and not isinstance(problem, ImportProblem) and not any(one.outcomes for one in done):
            raise problem
        layout = self.impl.how_stored
        return CodeProof(
            self.impl.headline, f"{layout.name}: {layout.words}", tuple(done), self.seconds, problem,
            (*self.impl.notes, *notes), conventions=conventions(self.impl) + added(done),
        )  # fmt: skip

    def freest(self, case: Case) -> tuple[CaseProof, str]:
        """What is known of one way of calling, with as few sizes tied to each other as the code allows."""
        refused: Problem | None = None
        before = self.impl
        for words, tied, sizes in self.ladder(case):
            started = time.perf_counter()
            self.impl = replace(before, tied=tied)
            leaks: tuple[str, ...] = ()
            try:
                found = imported(self.impl, case, {**sizes, **fixed_sizes(before), **self.sizes})
                leaks = found.leaks
                self.seconds["import"] += time.perf_counter() - started
                made = self.case(case, found)
            except Problem as problem:
                refused = refused or one_by_one(leaks, problem) or problem
                if isinstance(problem, Unfollowed) or (refused is not problem and leaks):
                    break  # with other ties it does the same, or goes through positions one by one, too
                continue
            where = words if refused is not None or before.tied else ""
            note = f"it was followed only where {words}: {refused.what}" if refused else ""
            if made.verdict is Verdict.UNDECIDED:
                note = note or by_a_number(made.found.graph)
            return replace(made, tied=where), note
        self.impl = before
        assert refused is not None
        raise refused

    def unread(self, case: Case) -> list[CaseProof]:
        """Where code that cannot be lifted departs, if it can be followed at all: whatever it is, it is not proved."""
        for _, tied, sizes in self.ladder(case):
            impl = replace(self.impl, tied=tied)
            try:
                found = imported(impl, case, {**sizes, **fixed_sizes(self.impl), **self.sizes})
                found = replace(found, graph=fold(found.graph))
                departs = replace(self, impl=impl).departs(case, found, any_setting(impl, case, found))
            except Problem:
                continue
            return [CaseProof(case.name, Verdict.UNDECIDED, (), found, Lift({}, (), {}), departure=departs)]
        return []

    def ladder(self, case: Case) -> Iterator[tuple[str, tuple[str, ...], dict[str, sympy.Expr]]]:
        """Sizes to try, the freest first: widths as code ties them, then sizes that wrong code may need to coincide."""
        for tied in ties_of(self.impl):
            yield " and ".join(_TIED[one] for one in tied), tied, _ties(tied)
        t, h = size_symbol("T"), size_symbol("h")
        own = self.impl.is_cross and not case.as_many_keys
        yield from [("S = T", (), {"S": t})] if own else []
        heads = size_symbol("G") * size_symbol("R") if self.impl.how_stored.grouped else h
        yield "T = h", (), {"T": heads, **({"S": heads} if own else {})}
        yield "B = h", (), {"B": heads}

    def case(self, case: Case, found: Import, depth: int = 0) -> CaseProof:
        """One way of calling: validated in numbers, lifted, proved or refuted."""
        started = time.perf_counter()
        found, lifted, agreed = as_expression(self.impl, case, found)
        self.seconds["import"] += time.perf_counter() - started
        started = time.perf_counter()
        staged = in_stages(self.impl, case, found, agreed[0], _lifted)
        outcomes = tuple(staged or against_specification(self.impl, found.statement, lifted))
        if lifted.assumed and together(outcomes) is Verdict.UNDECIDED:  # as it stands, fills and all, it may be refuted
            plain = _lifted(found, literal=True)
            again = tuple(against_specification(self.impl, found.statement, plain))
            outcomes = again if together(again) is Verdict.REFUTED else outcomes
        if together(outcomes) is Verdict.UNDECIDED:
            apart = self.at_lengths(case, found) or self.with_own_tables(found, lifted)
            found, lifted, outcomes = apart or (found, lifted, outcomes)
        self.seconds["prove"] += time.perf_counter() - started
        verdict = together(outcomes)
        biased = any(one.name in found.statement.inputs for one in looked_up(found.graph)[1])
        blames = verdict is not Verdict.PROVED and not biased  # in numbers, the specification has no such bias
        departs = self.departs(case, found, agreed[0]) if blames else None
        sizes = tuple(dict(one.sizes) for one in agreed)
        made = CaseProof(case.name, verdict, outcomes, found, lifted, sizes, departs)
        return self.with_conditions(case, made, depth)

    def departs(self, case: Case, found: Import, setting: Setting) -> Departure | None:
        """Where the code departs, with this mask or with other values of the same mask."""
        made = departure(self.impl, case, found, setting)
        for other in () if made is not None else cases_of(self.impl):
            if other != case and masks_of(other) == masks_of(case):
                with contextlib.suppress(Problem):
                    made = made or departure(self.impl, other, found, any_setting(self.impl, other, found))
        return made

    def with_own_tables(self, found: Import, lifted: Lift) -> tuple[Import, Lift, tuple[Outcome, ...]] | None:
        """A refutation at a few positions, with the tables that the code makes; None if there is none."""
        here = at_few_positions(self.impl, found, lifted)
        outcomes = () if here is None else tuple(refuted(self.impl, here[0].statement, here[1]))
        return None if here is None or not outcomes else (*here, outcomes)

    def at_lengths(self, case: Case, found: Import) -> tuple[Import, Lift, tuple[Outcome, ...]] | None:
        """A refutation at a few positions, with tables in place of what may be any array; None if there is none."""
        lookups = looked_up(found.graph)[1]
        if not lookups or any(one.computed for one in lookups) or "T" in found.sizes:
            return None
        try:
            here = imported(self.impl, case, {**found.sizes, "T": _FEW, "S": _FEW})
            here, lifted, _ = as_expression(self.impl, case, here, table=True)
        except Problem:
            return None
        outcomes = tuple(against_specification(self.impl, here.statement, replace(lifted, opaque=())))
        return (here, lifted, outcomes) if together(outcomes) is Verdict.REFUTED else None

    # ------------------------------------------------------------ conditions on sizes

    def with_conditions(self, case: Case, made: CaseProof, depth: int) -> CaseProof:
        """The same, the excluded sizes proved apart where that can be done."""
        proved, left, needs, against = [], [], [], []
        verdict = made.verdict
        for one in once(made.found.graph.notes.conditions):
            other = excluded(one)
            apart = self.apart(case, made.found, other, depth) if other is not None else None
            if apart is None or apart.verdict is not Verdict.PROVED:
                needs.append(str(one))
            where = str(one.place)
            placed = f"{one} ({where})" if where else f"{one}"
            if apart is None:
                left.append(placed)
            elif apart.verdict is Verdict.PROVED:
                why = f", as the code decides on it at {where}" if where else ""
                proved.append(f"{in_words(other)} was proved apart{why}")
            else:
                verdict = apart.verdict if verdict is Verdict.PROVED else verdict
                left.append(f"{placed}; {in_words(other)} is {apart.verdict.value}")
                against += [_at(other or {}, outcome) for outcome in apart.outcomes]
        return replace(
            made, verdict=verdict, outcomes=(*made.outcomes, *against), discharged=tuple(proved), open=tuple(left),
            needs=tuple(needs),
        )  # fmt: skip

    def apart(self, case: Case, found: Import, other: Sizes | None, depth: int) -> CaseProof | None:
        """The proof at the sizes that a condition excludes."""
        if other is None or depth > 2 or set(other) & set(found.sizes):
            return None
        try:
            return self.case(case, imported(self.impl, case, {**found.sizes, **other}), depth + 1)
        except Problem:
            return None


def _at(sizes: Sizes, outcome: Outcome) -> Outcome:
    """What came out where some sizes were numbers, with these sizes in its counterexample."""
    found = outcome.counterexample
    if found is None:
        return outcome
    return replace(outcome, counterexample=replace(found, sizes={**numbers(sizes), **found.sizes}))


def as_expression(
    impl: Implementation, case: Case, found: Import, unknown: str = "max", table: bool = False, bias: str = BIAS,
    called: str = "",
) -> tuple[Import, Lift, tuple[Setting, ...]]:  # fmt: skip
    """An import with its graph folded, its outputs as expressions, and the draws on which graph and code agreed."""
    agreed = validate(impl, case, found)
    found = with_tables(impl, found, called)
    plain = replace(found, graph=fold(found.graph))
    try:
        folded = with_bias(plain, table, bias)
        return folded, _lifted(folded, unknown, bias=bias), agreed
    except ImportProblem:  # positions may be used in a way for which there is no word, in what is added to scores
        d = found.statement.dims
        graph = with_tables_of_biases(plain.graph, d.t.size, d.s.size)
        if graph is None or table:
            raise
        folded = with_bias(replace(plain, graph=graph), table, bias)
        return folded, _lifted(folded, unknown, bias=bias), agreed


def _lifted(found: Import, unknown: str = "max", literal: bool = False, bias: str = BIAS) -> Lift:
    """The outputs of an import as expressions; what is looked up by position may be anything."""
    d = found.statement.dims
    names = Names(products=dict(found.statement.products))
    names.learn(a for a in (d.b, d.h, d.t, d.s, d.k, d.v, d.m) if a.size != 1)
    graph, lookups = looked_up(found.graph, bias)
    made = lift(graph, found.statement.inputs, names, unknown, literal)
    given = (node.op.name for node in graph.nodes if isinstance(node.op, Given))
    return replace(made, opaque=(*made.opaque, *(one.name for one in lookups), *dict.fromkeys(given)))


#: so many queries and keys that three distances are apart
_FEW = 3
_TIED = {"d_v": "d_v = d_k", "d_model": "d_model = h d_k"}


def _ties(tied: Sequence[str]) -> dict[str, sympy.Expr]:
    k, h = size_symbol("d_k"), size_symbol("h")
    every: dict[str, sympy.Expr] = {"d_v": k, "d_model": h * k}
    return {name: every[name] for name in tied}
