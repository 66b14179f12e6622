"""Diagnosis: which faults reproduce what an implementation gives, on the same input and weights.

Defines `diagnose`, `Explanation` and `Diagnosis`.  Single faults are tried first, then pairs.  A fault is named only
if its form gives the implementation's output within the bound on every probe; where several do, new input and sizes
are tried that tell them apart, and what is left is either proved to be the same function or said to coincide at the
sizes that the implementation allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations

import numpy as np

from mha_sym.attention.forms import Stages
from mha_sym.audit.evidence import Evidence, Forms, forms_of, largest, predicted
from mha_sym.audit.faults import Fault, faults, find_fault, symmetries
from mha_sym.audit.precision import Array
from mha_sym.audit.recipe import compatible
from mha_sym.expr import Expr, Permute, walk
from mha_sym.proof.theorem import Assumption, Claim, Theorem

#: how many pairs are evaluated at a time; after each lot, what has been found ends the search
_LOT = 350
#: all orders of heads are tried up to this many heads, beyond it only rotations, the reverse and exchanges of two
_ALL_ORDERS = 4
#: what the bound of the correct form is multiplied by for a faulty one, whose values are of another size
_SLACK = 4.0
#: families of which two faults are tried together; of the others one fault excludes the rest
_PAIR_WITHIN = ("mask", "biases", "inputs", "weights", "values")


@dataclass(frozen=True)
class Twin:
    """Other faults that give the same output, and what is known of that."""

    names: tuple[str, ...]
    proved: bool
    words: str


@dataclass(frozen=True, eq=False)
class Explanation:
    """Faults that together reproduce what the implementation gives.

    Attributes:
        faults: one fault, or two.
        probes: on how many independent draws the output is reproduced.
        telling: on how many of these the faults change the output at all.
        difference: the largest difference that is left.
        bound: the bound at that place.
        cases: the ways of calling that are explained, empty if all are.
        twins: other faults that cannot be told from these.
        evidence: a run that shows it.
        order: the order of heads, where heads are permuted.
    """

    faults: tuple[Fault, ...]
    probes: int
    telling: int
    difference: float
    bound: float
    evidence: Evidence = field(repr=False)
    cases: tuple[str, ...] = ()
    twins: tuple[Twin, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The names, joined by a plus sign."""
        return _name(self.faults)

    @property
    def names(self) -> frozenset[str]:
        """All names under which it is known: its own and those of its twins."""
        return frozenset({self.name, *(name for twin in self.twins for name in twin.names)})

    @property
    def words(self) -> str:
        """What is wrong, in sentences."""
        order = f" (order of heads: {', '.join(map(str, self.order))})" if self.order else ""
        return " ".join(one.words for one in self.faults) + order

    @property
    def symptom(self) -> str:
        """What people see."""
        return " ".join(one.symptom for one in self.faults)

    @property
    def mend(self) -> str:
        """What should stand there."""
        return "; ".join(one.mend for one in self.faults)

    @property
    def where(self) -> str:
        """The steps and stages."""
        return "; ".join(one.where for one in self.faults)

    @property
    def confidence(self) -> str:
        """How sure this is."""
        probes = f"{self.probes} independent probe{'s' if self.probes != 1 else ''}"
        return f"exact to rounding on {probes} ({self.telling} of which show the fault)"

    @property
    def forms(self) -> tuple[Stages, Stages]:
        """The correct form and the faulty one, on the axes of the evidence."""
        forms = self.evidence.forms
        faulty = forms.form(*self.faults)
        assert faulty is not None  # it was evaluated
        return forms.right, faulty


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        found: what reproduces the output, best first.
        singles: how many single faults were tried.
        pairs: how many pairs were tried.
        symmetries: what the implementation does differently with the same result, seen in the stages it shows.
        effects: how far each fault would move the output on these draws, in units of the bound.
    """

    found: tuple[Explanation, ...] = ()
    singles: int = 0
    pairs: int = 0
    symmetries: tuple[Explanation, ...] = ()
    effects: Mapping[str, float] = field(default_factory=dict)

    @property
    def invisible(self) -> tuple[str, ...]:
        """Faults that would change the output by less than the bound on every draw."""
        return tuple(name for name, effect in self.effects.items() if effect <= 1)


#: asks for a further run of the implementation, by its number
More = Callable[[int], Sequence[Evidence]]


def diagnose(evidence: Sequence[Evidence], more: More | None = None, pairs: bool = True) -> Diagnosis:
    """Which faults, one or two together, reproduce all that an implementation gives.

    Args:
        evidence: runs of the implementation; at least one of them wrong.
        more: gives further runs when several faults are left.
        pairs: whether pairs are tried when no single fault explains everything.
    """
    bad = [one for one in evidence if "y" in one.wrong]
    if not bad:
        return Diagnosis()
    search = _Search(evidence)
    found = search.singles(bad)
    tried = search.pairs(bad) if pairs and not found else ((), 0)
    found = found or list(tried[0])
    partial = () if found else search.by_case(bad)
    further = () if more is None or len(found) < 2 else tuple(one for number in range(2) for one in more(number))
    if further:
        before, search = search, _Search([*evidence, *further])
        search.tried, search.twins_in_pairs = before.tried, before.twins_in_pairs
        kept = [one for one in found if search.explains(one)]
        found = kept or found
    grouped = _grouped(found, search.evidence, search.twins_in_pairs)
    explained = tuple(search.explanation(which, twins) for which, twins in grouped)
    return Diagnosis(explained or partial, len(search.tried), tried[1])


class _Search:
    """A search for the faults that explain some runs."""

    def __init__(self, evidence: Sequence[Evidence]) -> None:
        self.evidence = tuple(evidence)
        self.tried: set[str] = set()
        self.matching: dict[str, list[tuple[Fault, ...]]] = {}
        self.twins_in_pairs: dict[str, list[str]] = {}

    # ------------------------------------------------------------ single faults

    def singles(self, bad: Sequence[Evidence]) -> list[tuple[Fault, ...]]:
        """The single faults that explain everything; those that explain one way of calling are remembered."""
        for case in dict.fromkeys(one.case for one in bad):
            first = next(one for one in bad if one.case == case)
            names = list(first.forms.singles)
            self.tried |= set(names)
            self.matching[case] = [(find_fault(name),) for name in self._matches(first, _outputs(first.forms.singles))]
        every = dict.fromkeys(which for found in self.matching.values() for which in found)
        return [which for which in every if self.explains(which)]

    def _matches(self, on: Evidence, forms: Mapping[str, Expr]) -> list[str]:
        """Which of some outputs are that of the implementation, roughly; `fits` judges."""
        plain = {name: y for name, y in forms.items() if not _permutes(y)}
        values = predicted(on, plain)
        found = [name for name, value in values.items() if _near(on, value)]
        for order in orders(on.setting.sizes["h"]):
            turned = {name: y for name, y in forms.items() if name not in plain and name not in found}
            found += [name for name, y in predicted(on, turned, {"pi": order}).items() if _near(on, y)]
        return [name for name in forms if name in found]

    def explains(self, which: tuple[Fault, ...], cases: Iterable[str] | None = None) -> bool:
        """Whether faults reproduce the output in every run, or in those of some ways of calling."""
        chosen = set(cases) if cases is not None else None
        return all(fit(one, which) is not None for one in self.evidence if chosen is None or one.case in chosen)

    # ------------------------------------------------------------ pairs

    def pairs(self, bad: Sequence[Evidence]) -> tuple[tuple[tuple[Fault, ...], ...], int]:
        """The pairs that explain everything, and how many were tried."""
        on = max((_first_of(bad, case) for case in self.matching), key=lambda one: len(one.forms.singles))
        count = 0
        for lot in _lots(self._candidates(on)):
            built = {pair: form.y for pair in lot if (form := on.forms.form(*pair)) is not None}
            count += len(built)
            named = {_name(pair): pair for pair in built}
            near = self._matches(on, {name: built[pair] for name, pair in named.items()})
            found = tuple(named[name] for name in near if self.explains(named[name]))
            if found:
                return found, count
        return (), count

    def _candidates(self, on: Evidence) -> Iterator[tuple[Fault, Fault]]:
        """Pairs, those first of which one explains a way of calling; of faults that are alike here, one is tried."""
        distinct = self._distinct(on)
        partly = dict.fromkeys(which[0] for found in self.matching.values() for which in found)
        every = dict.fromkeys([*partly, *distinct])
        for one, other in combinations(every, 2):
            within = one.family == other.family and one.family not in _PAIR_WITHIN
            if compatible(one.edits, other.edits) and (one in partly or not within):
                yield one, other

    def _distinct(self, on: Evidence) -> list[Fault]:
        """The single faults that can be seen here, one for all that give the same output."""
        values = predicted(on, {name: y for name, y in _outputs(on.forms.singles).items() if not _permutes(y)})
        slack = 10 * on.bounds["y"].value
        kept: list[str] = []
        right = on.found["y"]
        for name, value in values.items():
            if not np.isfinite(value).all() or np.abs(value - right).max() <= slack:
                continue
            like = next((other for other in kept if np.abs(values[other] - value).max() <= slack), None)
            if like is None:
                kept.append(name)
            else:
                self.twins_in_pairs.setdefault(like, []).append(name)
        return [find_fault(name) for name in kept]

    # ------------------------------------------------------------ what is told

    def by_case(self, bad: Sequence[Evidence]) -> tuple[Explanation, ...]:
        """Where nothing explains everything: what explains single ways of calling."""
        found = []
        for case, several in self.matching.items():
            kept = [which for which in several if self.explains(which, [case])]
            grouped = _grouped(kept, [one for one in self.evidence if one.case == case], {})
            found += [replace(self.explanation(which, twins, case), cases=(case,)) for which, twins in grouped]
        return tuple(found) if len(self.matching) > 1 else ()

    def explanation(self, which: tuple[Fault, ...], twins: tuple[Twin, ...], case: str | None = None) -> Explanation:
        """The figures of an explanation."""
        runs = [one for one in self.evidence if case is None or one.case == case]
        fits = [(one, found) for one in runs if (found := fit(one, which)) is not None]
        telling = [one for one, found in fits if found.moves]
        worst = max(fits, key=lambda pair: pair[1].difference / pair[1].bound)
        shows = next((pair for pair in fits if pair[1].moves), fits[0])
        return Explanation(
            which, len(fits), len(telling), worst[1].difference, worst[1].bound, shows[0], twins=twins,
            order=shows[1].order,
        )  # fmt: skip


# ---------------------------------------------------------------- fitting one run


@dataclass(frozen=True)
class Fit:
    """Faults reproduce the output of one run.

    Attributes:
        difference: the largest difference.
        bound: what it may be.
        order: the order of heads, if there is one.
        moves: whether the faults change the output here.
    """

    difference: float
    bound: float
    order: tuple[int, ...]
    moves: bool


def fit(on: Evidence, which: tuple[Fault, ...]) -> Fit | None:
    """How faults fit one run; None if they do not, or if the code could not have run at these sizes."""
    form = on.forms.form(*which)
    if form is None:
        return None
    wanted = {"y": form.y, "scores": form.scores}
    for order in orders(on.setting.sizes["h"]) if _permutes(form.y) else ((),):
        found = predicted(on, wanted, {"pi": order})
        if "y" not in found or "scores" not in found:
            continue
        bound = _bound(on, found)
        difference = float(np.abs(found["y"] - on.shown["y"]).max())
        if difference <= bound:
            moves = float(np.abs(found["y"] - on.found["y"]).max()) > bound
            return Fit(difference, bound, order, moves)
    return None


def _bound(on: Evidence, found: Mapping[str, Array]) -> float:
    """How far an implementation of a faulty form may be from it, which is larger where its values are."""
    scores = np.abs(found["scores"])
    seen = float(scores[scores < 1e5].max(initial=0.0))
    wider = max(1.0, seen / max(_seen(on.found["scores"]), 1e-300))
    larger = max(1.0, largest([found["y"]]) / max(largest([on.found["y"]]), 1e-300))
    return _SLACK * on.bounds["y"].value * wider * larger


def _seen(scores: Array) -> float:
    finite = np.abs(scores[np.isfinite(scores)])
    return float(finite.max(initial=0.0))


def _near(on: Evidence, value: Array) -> bool:
    """A first look, with far more room than `fit` allows."""
    scale = max(1.0, largest([value]) / max(largest([on.found["y"]]), 1e-300))
    return bool(np.abs(value - on.shown["y"]).max() <= 1e3 * on.bounds["y"].value * scale)


def orders(heads: int) -> tuple[tuple[int, ...], ...]:
    """The orders of heads that are tried, the unchanged one left out.

    Example:
        >>> orders(2)
        ((1, 0),)
    """
    plain = tuple(range(heads))
    if heads <= _ALL_ORDERS:
        return tuple(one for one in permutations(plain) if one != plain)
    turns = [plain[n:] + plain[:n] for n in range(1, heads)]
    swaps = [_swapped(plain, i, j) for i, j in combinations(plain, 2)]
    return tuple(dict.fromkeys([plain[::-1], *turns, *swaps]))


def _swapped(order: tuple[int, ...], i: int, j: int) -> tuple[int, ...]:
    new = list(order)
    new[i], new[j] = new[j], new[i]
    return tuple(new)


def _permutes(y: Expr) -> bool:
    return any(isinstance(node, Permute) for node in walk(y))


def _outputs(forms: Mapping[str, Stages]) -> dict[str, Expr]:
    return {name: form.y for name, form in forms.items()}


def _name(which: Iterable[Fault]) -> str:
    return " + ".join(one.name for one in which)


def _first_of(bad: Sequence[Evidence], case: str) -> Evidence:
    return next(one for one in bad if one.case == case)


def _lots(pairs: Iterable[tuple[Fault, Fault]]) -> Iterator[list[tuple[Fault, Fault]]]:
    lot: list[tuple[Fault, Fault]] = []
    for pair in pairs:
        lot.append(pair)
        if len(lot) == _LOT:
            yield lot
            lot = []
    if lot:
        yield lot


# ---------------------------------------------------------------- what cannot be told apart


def _grouped(
    found: Sequence[tuple[Fault, ...]], evidence: Sequence[Evidence], alike: Mapping[str, Sequence[str]]
) -> list[tuple[tuple[Fault, ...], tuple[Twin, ...]]]:
    """Each explanation that is a function of its own, with those that are the same function, or seem to be."""
    if not found:
        return []
    first, *others = found
    twins = [_twin(first, other, evidence) for other in others]
    for fault in first if len(first) > 1 else ():
        for name in alike.get(fault.name, ()):
            twins.append(_twin(first, tuple(find_fault(name) if one is fault else one for one in first), evidence))
    return [(first, tuple(twins))]


def _twin(first: tuple[Fault, ...], other: tuple[Fault, ...], evidence: Sequence[Evidence]) -> Twin:
    """What is known of two explanations that fit all runs."""
    on = next((one for one in evidence if "y" in one.wrong), evidence[0])
    name = (_name(other),)
    free = forms_of(on.spec, {}, on.same)
    if same_function(free, first, other):
        return Twin(name, True, "the same function, proved for all sizes")
    if same_function(on.forms, first, other):
        ties = ", ".join(f"{a} = {b if isinstance(b, str) else ' '.join(b)}" for a, b in on.ties.items())
        return Twin(name, True, f"the same function where {ties}, proved; this implementation was run only there")
    return Twin(name, False, "gives the same output at all sizes that this implementation was run at; not proved equal")


def same_function(forms: Forms, one: tuple[Fault, ...], other: tuple[Fault, ...]) -> bool:
    """Whether two edits are provably the same function on the axes of these forms."""
    left, right = forms.form(*one), forms.form(*other)
    return left is not None and right is not None and proved_equal(forms, left.y, right.y)


def proved_equal(forms: Forms, left: Expr, right: Expr) -> bool:
    """Whether two outputs of the layer are proved to be equal, wherever every query keeps a key."""
    from mha_sym.attention.variants import some_key_kept
    from mha_sym.proof.prover import Prover  # only when something is proved
    from mha_sym.proof.theorem import Verdict

    keep = forms.at.keep
    assumed: tuple[Assumption, ...] = () if keep is None else (some_key_kept(keep, forms.at.d),)
    theorem = Theorem("same_output", "", "", (), assumptions=assumed)
    try:
        outcome = Prover(theorem, recheck=False).claim(Claim("y", left, right))
    except ValueError:  # a size that the proof language cannot say
        return False
    return outcome.verdict is Verdict.PROVED


# ---------------------------------------------------------------- what is the same, and what would be seen


def shown_symmetries(evidence: Sequence[Evidence]) -> tuple[Explanation, ...]:
    """What explains stages that differ although the output does not: the same function, done differently."""
    odd = [one for one in evidence if one.wrong and "y" not in one.wrong]
    if not odd or any("y" in one.wrong for one in evidence):
        return ()
    return tuple(
        Explanation((one,), len(odd), len(odd), 0.0, odd[0].bounds["y"].value, odd[0])
        for one in symmetries()
        if all(_shows(run, one) for run in odd)
    )


def _shows(on: Evidence, symmetry: Fault) -> bool:
    """Whether a symmetry gives every stage that is shown, those included that differ."""
    form = on.forms.same.get(symmetry.name)
    if form is None:
        return False
    stages = {name: expr for name, expr in form.items().items() if name in on.shown}
    usual = on.forms.right.items()
    perms = _orders_of(on, form)
    return any(
        all(
            expr.axes == usual[name].axes
            and np.abs(_visible(on, name, values[name]) - _visible(on, name, on.shown[name])).max()
            <= _SLACK * on.bounds[name].value * max(1.0, largest([values[name]]) / max(_seen(on.found[name]), 1e-300))
            for name, expr in stages.items()
        )
        for order in perms
        for values in [predicted(on, stages, order)]
        if len(values) == len(stages)
    )


def _orders_of(on: Evidence, form: Stages) -> list[dict[str, tuple[int, ...]]]:
    names = {node.perm.name: node.perm.axis for node in walk(form.y) if isinstance(node, Permute)}
    names |= {node.perm.name: node.perm.axis for node in walk(form.q) if isinstance(node, Permute)}
    if "pi" in names:
        return [{"pi": order} for order in orders(on.setting.sizes["h"])]
    if "pi_k" in names:
        return [{"pi_k": order} for order in orders(on.setting.sizes["d_k"])]
    return [{}]


def _visible(on: Evidence, name: str, value: Array) -> Array:
    """Scores of hidden keys do not count: code fills them as it likes."""
    if name != "scores" or on.setting.keep is None:
        return value
    return np.where(np.broadcast_to(on.setting.keep, value.shape), value, 0.0)


def effects(evidence: Sequence[Evidence]) -> dict[str, float]:
    """How far every known fault would move the output, in units of the bound: the most on any of these runs."""
    found: dict[str, float] = {}
    for on in evidence:
        outputs = _outputs(on.forms.singles)
        order = tuple(range(on.setting.sizes["h"]))[::-1]
        for name, value in predicted(on, outputs, {"pi": order}).items():
            moved = float(np.abs(value - on.found["y"]).max()) / on.bounds["y"].value
            found[name] = max(found.get(name, 0.0), moved if np.isfinite(moved) else float("inf"))
    return {one.name: found[one.name] for one in faults() if one.name in found}
