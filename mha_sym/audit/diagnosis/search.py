"""The search for faults that explain runs: single ones, other numbers of heads, pairs, sets of three.

Defines `Search`.  It finds what fits every run; what is told of it is decided in `mha_sym.audit.diagnosis.diagnose`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, product

import numpy as np

from mha_sym.audit.catalogue.heads import cut_into
from mha_sym.audit.catalogue.mask_numbers import FILLS
from mha_sym.audit.catalogue.scale_at_sizes import SCALES_AT_SIZES, constant_scale
from mha_sym.audit.diagnosis.course import Course, course_of
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.diagnosis.fit import NEARER, fit, near, orders
from mha_sym.audit.diagnosis.scales import fitted_fill, fitted_scale, simple_numbers
from mha_sym.audit.diagnosis.staged import Staged, of_singles, turning
from mha_sym.audit.evidence import Evidence, largest, predicted
from mha_sym.audit.faults import FAMILIES, Fault, faults_of_positions, find_fault, name_of
from mha_sym.audit.recipe import compatible
from mha_sym.expr import Expr

#: how many sets of faults are evaluated at a time; after each lot, what has been found ends the search
_LOT = 700
#: families of which two faults are tried together; of the others one fault excludes the rest
_PAIR_WITHIN = ("mask", "biases", "inputs", "weights", "values")
#: how many faults of each family take part in sets of three, and how many sets are tried at most
_OF_EACH, _TRIPLES = 4, 3000
#: outputs that differ by less of their largest entry are taken for one when sets are put together
_ALIKE = 1e-11

Which = tuple[Fault, ...]


@dataclass(eq=False)
class Search:
    """A search for the faults that explain some runs.

    Attributes:
        evidence: all runs, those that agree as well.
        tried: the single faults that were tried.
        matching: those that explain one way of calling, by its name.
        alone: the single faults that explain everything, once they were looked for.
        alike: faults that give the same output as another here, by the name of the other; one of them is tried.
        pairs: how many pairs were tried.
        triples: how many sets of three were tried.
        explained: what was told of what was found, which is asked for more than once.
    """

    evidence: tuple[Evidence, ...]
    tried: set[str] = field(default_factory=set)
    matching: dict[str, list[Which]] = field(default_factory=dict)
    alone: list[Which] | None = None
    alike: dict[str, list[str]] = field(default_factory=dict)
    pairs: int = 0
    triples: int = 0
    explained: dict[tuple[Which, ...], Explanation] = field(default_factory=dict)

    def one_or_two(self, two: bool) -> list[Which]:
        """What explains everything: single faults if there are any, else pairs, if ``two`` says so."""
        if self.alone is None:
            steps = (self._singles, self._at_sizes, self._other_heads, self._constant, self._fills)
            self.alone = next((found for step in steps if (found := step())), [])
        return self.alone or (self._pairs() if two else [])

    def explains(self, which: Which, cases: Iterable[str] | None = None) -> bool:
        """Whether faults reproduce the output in every run, or in those of some ways of calling.

        They must also come far nearer than the correct form does: in short formats, bounds admit much.
        """
        runs = self.evidence if cases is None else [one for one in self.evidence if one.case in set(cases)]
        left = most = 0.0
        for one in runs:
            found = fit(one, which)
            if found is None:
                return False
            left = max(left, found.difference)
            most = max(most, float("inf") if one.nan is not None else one.off(one.found["y"]))
        return left * NEARER <= most

    @property
    def bad(self) -> list[Evidence]:
        """The runs whose output is wrong."""
        return [one for one in self.evidence if "y" in one.wrong]

    # ------------------------------------------------------------ one fault

    def _singles(self) -> list[Which]:
        """The single faults that explain everything; those that explain one way of calling are remembered."""
        firsts = {one.case: one for one in reversed(self.bad)}
        for case in dict.fromkeys(one.case for one in self.bad):
            self.tried |= set(course_of(firsts[case].forms).singles)
            self.matching[case] = [(find_fault(name),) for name in _alone(firsts[case])]
        every = dict.fromkeys(which for found in self.matching.values() for which in found)
        return [which for which in every if self.explains(which)]

    def _at_sizes(self) -> list[Which]:
        """Faults of scales and of positions that are built at the sizes of a run."""
        sized = (*SCALES_AT_SIZES, *(one for one in faults_of_positions() if one.at_sizes))
        known = [one for one in sized if one.possible(self.evidence[0].forms.at)]
        return [(one,) for one in known if self.explains((one,))]

    def _other_heads(self) -> list[Which]:
        """Other numbers of heads, into which the widths of every run divide."""
        return [(one,) for one in self._cuts() if self.explains((one,))]

    def _cuts(self) -> Iterator[Fault]:
        sizes = [one.setting.sizes for one in self.evidence]
        widths = [n["h"] * n[width] for n in sizes for width in ("d_k", "d_v")]
        for n in range(1, math.gcd(*widths) + 1):
            if all(width % n == 0 for width in widths) and any(one["h"] != n for one in sizes):
                yield cut_into(n)
                yield cut_into(n, follows=False)

    def _constant(self) -> list[Which]:
        """A scale that is the same number in every run."""
        found = fitted_scale(min(self.bad, key=lambda one: one.found["scores"].size))
        if found is None:
            return []
        widths = sorted({one.setting.sizes["d_k"] for one in self.evidence})
        declared = self.evidence[0].spec.options.scale
        each: Iterator[Which] = ((constant_scale(one, widths, declared),) for one in simple_numbers(*found))
        return list(islice((which for which in each if self.explains(which)), 1))

    def _fills(self) -> list[Which]:
        """A number that stands where scores are hidden, or is added there, the same in every run."""
        masked = [one for one in self.bad if one.forms.at.keep is not None]
        if not masked or len(masked) < len(self.bad):
            return []
        on = min(masked, key=lambda one: one.found["scores"].size)
        fitted = ((fill, found) for fill in FILLS if (found := fitted_fill(on, fill)) is not None)
        each: Iterator[Which] = ((fill(one),) for fill, found in fitted for one in simple_numbers(*found))
        return list(islice((which for which in each if self.explains(which)), 1))

    # ------------------------------------------------------------ several together

    def _pairs(self) -> list[Which]:
        """The pairs that explain everything."""
        on = self._telling()
        distinct = self._distinct(on)
        found, self.pairs = self._together(on, self._candidates(distinct))
        if found:
            return found
        cuts = [one for one in self._cuts() if one.name != "heads_taken_as_1"]
        found, count = self._together(on, (pair for pair in product(cuts, distinct) if _go_together(*pair)))
        self.pairs += count
        return found

    def _telling(self) -> Evidence:
        """The wrong run in which most faults are possible, the smallest of these: many forms are evaluated on it."""
        return min(self.bad, key=lambda one: (-len(course_of(one.forms).singles), one.found["scores"].size))

    def three(self) -> list[Which]:
        """The sets of three that explain everything, of the first few faults of three families each."""
        on = self._telling()
        distinct = self._distinct(on)
        families = [[one for one in distinct if one.family == family][:_OF_EACH] for family in FAMILIES]
        sets = (which for three in combinations(families, 3) for which in product(*three))
        wanted = (which for which in sets if _go_together(*which))
        found, self.triples = self._together(on, islice(wanted, _TRIPLES))
        return found

    def _together(self, on: Evidence, sets: Iterable[Which]) -> tuple[list[Which], int]:
        """The sets of faults that explain everything, looked for on one run lot by lot; and how many were tried."""
        count, rest = 0, iter(sets)
        here = Lots(on)
        while lot := list(islice(rest, _LOT)):
            close, possible = here.near(lot)
            count += possible
            found = [which for which in close if self.explains(which)]
            if found:
                return found, count
        return [], count

    def _candidates(self, distinct: Sequence[Fault]) -> Iterator[Which]:
        """Pairs, those first of which one explains a way of calling."""
        partly = dict.fromkeys(which[0] for found in self.matching.values() for which in found)
        for one, other in combinations(dict.fromkeys([*partly, *distinct]), 2):
            within = one.family == other.family and one.family not in _PAIR_WITHIN
            if compatible(one.edits, other.edits) and (one in partly or not within):
                yield one, other

    def _distinct(self, on: Evidence) -> list[Fault]:
        """The single faults that can be seen here, one for all that give the same output; those looked for in sets."""
        values = of_singles(on)
        slack = max(_ALIKE, 4 * on.rounding) * largest([on.found["y"]])
        kept: list[str] = []
        right = on.found["y"]
        self.alike = {}
        for name, value in values.items():
            if find_fault(name).alone or not np.isfinite(value).all() or np.abs(value - right).max() <= slack:
                continue
            like = next((other for other in kept if np.abs(values[other] - value).max() <= slack), None)
            if like is None:
                kept.append(name)
            else:
                self.alike.setdefault(like, []).append(name)
        return [find_fault(name) for name in kept]


def _go_together(*which: Fault) -> bool:
    return compatible(*(one.edits for one in which))


def _alone(on: Evidence) -> list[str]:
    """The single faults whose output is that of the implementation, roughly; `fit` judges."""
    found = {name for name, value in of_singles(on).items() if near(on, value)}
    found |= set(_in_some_order(on, turning(on)))
    return [name for name in course_of(on.forms).singles if name in found]


def _in_some_order(on: Evidence, turned: Mapping[str, Expr]) -> list[str]:
    """Those outputs that are that of the implementation with heads in some order."""
    found: list[str] = []
    for order in orders(on.setting.sizes["h"]) if turned else ():
        left = {key: y for key, y in turned.items() if key not in found}
        found += [key for key, y in predicted(on, left, {"pi": order}).items() if near(on, y)]
    return found


class Lots:
    """Which of many sets of faults come near to the output of one run.

    Args:
        on: the run.
    """

    def __init__(self, on: Evidence) -> None:
        self.on, course = on, course_of(on.forms)
        self._turning = course.turning
        self._usual = Staged(on, course)
        self._usual.outputs({name: (find_fault(name),) for name in of_singles(on)}, keep=True)
        names = [name for name in on.setting.sizes if name != "B"]  # samples are batched where they are a symbol
        self._numbered = Staged(on, Course(on.numbered(*names)))

    def near(self, sets: Sequence[Which]) -> tuple[list[Which], int]:
        """Those that are near, and how many could be made at all."""
        found, count = set[Which](), 0
        for at_sizes, staged in ((False, self._usual), (True, self._numbered)):
            mine = [which for which in sets if any(one.at_sizes for one in which) == at_sizes]
            plain = [which for which in mine if not any(one.name in self._turning for one in which)]
            values, possible = staged.outputs({which: which for which in plain})
            count += possible
            found |= {which for which, value in values.items() if near(self.on, value)}
        turned = self._turned(sets)
        orderly = set(_in_some_order(self.on, turned))
        return [which for which in sets if which in found or name_of(which) in orderly], count + len(turned)

    def _turned(self, sets: Sequence[Which]) -> dict[str, Expr]:
        """The outputs of those in which heads have an order; it is that of heads whose number is the declared one."""
        made = {}
        for which in sets:
            if any(one.name in self._turning for one in which):
                form = self.on.forms_for(which).form(*which)
                if form is not None and not any(one.family == "heads" for one in which):
                    made[name_of(which)] = form.y
        return made
