"""Diagnosis: which faults reproduce what an implementation gives, on the same input and weights.

Defines `diagnose`, `told` and `effects`.  A fault is named only if its form gives the output within the bound on every
probe.  Where several do, new input and sizes are tried that tell them apart; of those that are left, those
that leave a far larger difference than the best are told as such, and the others are either proved to be the same
function or said to be alike here.  The search itself is in `mha_sym.audit.diagnosis.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from mha_sym.audit.diagnosis.explanation import Diagnosis, Explanation, Twin
from mha_sym.audit.diagnosis.fit import fit
from mha_sym.audit.diagnosis.search import Search, Which
from mha_sym.audit.diagnosis.staged import of_singles, turning
from mha_sym.audit.equality import same_function
from mha_sym.audit.evidence import Evidence, forms_of, largest, predicted
from mha_sym.audit.faults import faults, find_fault, name_of
from mha_sym.audit.hiding import hidden_at
from mha_sym.audit.precision import Array
from mha_sym.audit.setting import OF_SCALES

#: what fits within the bound but leaves so many times the difference that the best leaves is not what was done
_FARTHER = 10.0
#: of those that leave at most so many times the least difference, the first of the catalogue is named
_CLOSE = 3.0
#: a difference of so many roundings of the largest entry is as good as none
_ROUNDINGS = 2.0
#: two outputs that are apart by so much of their largest entry, in float64, are not one function
_APART = 1e-9

#: asks for a further run of the implementation, by its number
More = Callable[[int], Sequence[Evidence]]


def diagnose(evidence: Sequence[Evidence], more: More | None = None, pairs: bool = True) -> Diagnosis:
    """Which faults, up to three together, reproduce all that an implementation gives.

    Args:
        evidence: runs of the implementation; at least one of them wrong.
        more: gives further runs when several faults are left.
        pairs: whether several faults together are tried when no single one explains everything.
    """
    search = _search(tuple(evidence))
    if not search.bad:
        return Diagnosis()
    search, found = _told_apart(search, search.one_or_two(pairs), more, lambda wider: wider.one_or_two(pairs))
    single = () if found else _by_case(search)
    if pairs and not found and {name for one in single for name in one.cases} != {one.case for one in search.bad}:
        search, found = _told_apart(search, search.three(), more, lambda wider: [])
    figures = Diagnosis(singles=len(search.tried), pairs=search.pairs, triples=search.triples)
    if not found:
        return replace(figures, found=single)
    if tuple(found) not in search.explained:
        search.explained[tuple(found)] = told(found, search.evidence, search.alike)
    return replace(figures, found=(search.explained[tuple(found)],))


def _told_apart(
    search: Search, found: list[Which], more: More | None, again: Callable[[Search], list[Which]]
) -> tuple[Search, list[Which]]:
    """The search with further runs where those so far leave it open, and what is left; else what ``again`` finds."""
    open_ = len(found) > 1 or (_of_scale(found) and _same_widths(search.evidence))
    if more is None or not open_:
        return search, found
    further = tuple(one for number in range(2) for one in more(number))
    search = Search(
        (*search.evidence, *further), tried=set(search.tried), matching=dict(search.matching), alike=search.alike,
        pairs=search.pairs, triples=search.triples,
    )  # fmt: skip
    left = [one for one in found if search.explains(one)]
    return search, left or again(search)


def _of_scale(found: Sequence[Which]) -> bool:
    """Whether a scale is among them that sizes make."""
    return any(one.family == "scale" and set(one.edits) == {"masked"} for which in found for one in which)


def _same_widths(runs: Sequence[Evidence]) -> bool:
    """Whether all sizes of which a scale may be made are the same in all runs: a constant would look like it."""
    return len({tuple(one.setting.sizes[name] for name in OF_SCALES) for one in runs}) == 1


@lru_cache(maxsize=4)
def _search(evidence: tuple[Evidence, ...]) -> Search:
    """The search on some runs; the same for the same runs, of which single faults are asked for more than once."""
    return Search(evidence)


def _by_case(search: Search) -> tuple[Explanation, ...]:
    """Where nothing explains everything: what explains single ways of calling."""
    found = []
    for case, several in search.matching.items():
        kept = [which for which in several if search.explains(which, [case])]
        if kept:
            runs = [one for one in search.evidence if one.case == case]
            found.append(replace(told(kept, runs, {}), cases=(case,)))
    return tuple(found) if len({one.case for one in search.evidence}) > 1 else ()


# ---------------------------------------------------------------- which of several


def told(found: Sequence[Which], runs: Sequence[Evidence], alike: Mapping[str, Sequence[str]]) -> Explanation:
    """The best explanation, those that cannot be told from it, and those that fit less well."""
    left = {which: _left(which, runs) for which in found}
    first = min(found, key=lambda which: (left[which] > _CLOSE * min(left.values()), _of_any_order(which, runs[0])))
    others = [which for which in found if which is not first]
    twins, farther = list[Twin](), list[Twin]()
    for other in others:
        ratio = left[other] / left[first]
        if ratio > _FARTHER:
            farther.append(Twin((name_of(other),), False, f"leaves {ratio:.2g} times the difference"))
        else:
            twins.append(_twin(first, other, runs))
    for fault in first if len(first) > 1 else ():
        for name in alike.get(fault.name, ()):
            twins.append(_twin(first, tuple(find_fault(name) if one is fault else one for one in first), runs))
    best = _explanation(first, runs)
    return replace(best, twins=tuple(twins), farther=tuple(farther), hidden_at=hidden_at(first))


def _of_any_order(which: Which, on: Evidence) -> bool:
    """Whether it leaves open how heads are permuted: what says it is told before it."""
    found = fit(on, which)
    return found is not None and bool(found.order)


def _left(which: Which, runs: Sequence[Evidence]) -> float:
    """The largest difference that faults leave, in roundings of the largest entry; never less than a few."""
    most = _ROUNDINGS
    for on in runs:
        found = fit(on, which)
        unit = on.rounding * max(largest([np.nan_to_num(on.shown["y"])]), 1e-300)
        most = max(most, found.difference / unit if found is not None else 0.0)
    return most


def _explanation(which: Which, runs: Sequence[Evidence]) -> Explanation:
    """The figures of an explanation."""
    fits = [(one, found) for one in runs if (found := fit(one, which)) is not None]
    telling = [one for one, found in fits if found.moves]
    worst = max(fits, key=lambda pair: pair[1].difference / pair[1].bound)
    shows = next((pair for pair in fits if pair[1].moves), fits[0])
    width = runs[0].setting.sizes["d_k"]
    alike = f"d_k is {width} in all of them: another scale of that value is alike"
    fixed = _of_scale([which]) and _same_widths(runs) and which[0].name != "scale_missing"
    return Explanation(
        which, len(fits), len(telling), worst[1].difference, worst[1].bound, shows[0], order=shows[1].order,
        proviso=alike if fixed else "",
    )  # fmt: skip


def _twin(first: Which, other: Which, runs: Sequence[Evidence]) -> Twin:
    """What is known of two explanations that fit all runs."""
    on = next((one for one in runs if "y" in one.wrong), runs[0])
    name = (name_of(other),)
    apart = max(_apart(first, other, one) for one in runs)
    if apart > 0:
        return Twin(name, False, f"another function, but the two differ by {apart:.1g} of the bound at most here")
    if same_function(forms_of(on.spec, {}, on.same), first, other):
        return Twin(name, True, "the same function, proved for all sizes")
    if same_function(on.forms_for((*first, *other)), first, other):
        ties = ", ".join(f"{a} = {b if isinstance(b, str) else ' '.join(b)}" for a, b in on.ties.items())
        return Twin(name, True, f"the same function where {ties}, proved; this implementation was run only there")
    if not any(one.at_sizes for one in (*first, *other)) and same_function(on.numbered("h", "G", "R"), first, other):
        heads = ", ".join(f"{size} = {on.setting.sizes[size]}" for size in ("h", "G") if size in on.setting.sizes)
        return Twin(name, True, f"the same function where {heads}, proved; this implementation was run only there")
    fitted = fit(on, other)
    if fitted is not None and fitted.order:
        return Twin(name, False, f"gives the same output with heads in the order {', '.join(map(str, fitted.order))}")
    return Twin(name, False, "gives the same output at all sizes that this implementation was run at; not proved equal")


def _apart(first: Which, other: Which, on: Evidence) -> float:
    """How far two faulty outputs are from one another, in units of the bound; 0 if by rounding only."""
    one, another = (_output(which, on) for which in (first, other))
    if one is None or another is None:
        return 0.0
    gap = float(np.abs(one - another).max())
    return gap / on.bounds["y"].value if gap > _APART * largest([one]) else 0.0


def _output(which: Which, on: Evidence) -> Array | None:
    """What faults give on the arrays of a run, heads permuted as they fit best there."""
    form, found = on.forms_for(which).form(*which), fit(on, which)
    if form is None or found is None:
        return None
    return predicted(on, {"y": form.y}, {"pi": found.order} if found.order else None).get("y")


# ---------------------------------------------------------------- what would be seen


def effects(evidence: Sequence[Evidence]) -> dict[str, float]:
    """How far every known fault would move the output, in units of the bound: the most on any of these runs."""
    found: dict[str, float] = {}
    for on in evidence:
        order = tuple(range(on.setting.sizes["h"]))[::-1]
        for name, value in {**of_singles(on), **predicted(on, turning(on), {"pi": order})}.items():
            moved = float(np.abs(value - on.found["y"]).max()) / on.bounds["y"].value
            found[name] = max(found.get(name, 0.0), moved if np.isfinite(moved) else float("inf"))
    return {one.name: found[one.name] for one in faults() if one.name in found}
