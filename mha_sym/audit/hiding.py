"""Why sizes hide a fault, and the smallest change of sizes that shows it.

Defines `Sizes` (the sizes of a test, completed), `why`, `hidden_at` and `smallest_change`.  All try sizes out with
`mha_sym.audit.effect.effect`; nothing is known here of any particular fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from mha_sym.audit.draw import coincidences
from mha_sym.audit.effect import Surroundings, effect
from mha_sym.audit.faults import Fault, faults, faults_of_positions
from mha_sym.errors import DataProblem

#: sizes of which no two coincide, nor their products, and three heads: wrong orders of two may be right
_APART = {"B": 2, "T": 5, "S": 7, "d_model": 11, "h": 3, "d_k": 4, "d_v": 9}

#: what a size is where a test does not say it
_FOLLOWS = {"S": ("T",), "d_v": ("d_k",), "d_model": ("h", "d_k")}

#: what is added to a size, the smallest change first
_STEPS = (1, 2, -1, 3)


@dataclass(frozen=True)
class Sizes:
    """Sizes that a test says, and those that follow from them unless it says otherwise.

    Example:
        >>> Sizes.read({"B": 1, "T": 8, "h": 8, "d_k": 8}).all["d_model"]
        64
    """

    given: Mapping[str, int]
    all: Mapping[str, int]

    @staticmethod
    def read(given: Mapping[str, int]) -> Sizes:
        """The sizes of a test, completed: B = 2, S = T, d_v = d_k and d_model = h d_k where it does not say.

        Raises:
            DataProblem: for a size that is not known, missing, or less than one.
        """
        known = (*_APART, "G")
        for name, value in given.items():
            if name not in known:
                raise DataProblem(f"no size is called {name}", expected=", ".join(known), got=", ".join(given))
            if value < 1:
                raise DataProblem(f"size {name} cannot be {value}", expected="at least 1")
        found = {"B": 2, **given}
        if "d_k" not in found and {"d_model", "h"} <= set(found) and found["d_model"] % found["h"] == 0:
            found["d_k"] = found["d_model"] // found["h"]
        for name in ("T", "h", "d_k"):
            if name not in found:
                raise DataProblem(f"size {name} is missing", expected="T, h and d_k", got=", ".join(given) or "none")
        if "G" in found and found["h"] % found["G"]:
            raise DataProblem(f"{found['h']} heads do not divide into {found['G']} key and value heads")
        for name, others in _FOLLOWS.items():
            if name not in found:
                found[name] = _product(found, others)
        return Sizes(dict(given), found)

    def changed(self, changes: Mapping[str, int]) -> dict[str, int] | None:
        """All sizes after some changes; what the test does not say follows.  None if that cannot be."""
        found = {**self.all, **changes}
        for name, others in _FOLLOWS.items():
            if name not in self.given and name not in changes:
                found[name] = _product(found, others)
        return None if min(found.values()) < 1 or ("G" in found and found["h"] % found["G"]) else found


def _product(sizes: Mapping[str, int], names: tuple[str, ...]) -> int:
    value = 1
    for name in names:
        value *= sizes[name]
    return value


# ---------------------------------------------------------------- why


def why(fault: Fault, sizes: Mapping[str, int], around: Surroundings) -> str:
    """The coincidence of sizes, or the two, that alone hide a fault: ``h = 1``, ``T = h``, ``d_v = d_k``.

    Example:
        >>> from mha_sym.audit.faults import find_fault
        >>> sizes = Sizes.read({"B": 3, "T": 5, "h": 1, "d_k": 4}).all
        >>> why(find_fault("scale_by_joined_width"), sizes, Surroundings())
        'h = 1'
    """
    here = _coincidences(sizes)
    for count in (0, 1, 2):
        for which in combinations(here, count):
            made = _with(fault, sizes, around, which)
            if made is not None and effect(fault, made, around) == 0.0:
                return " and ".join(which) or _beyond(fault, around)
    return "these sizes together"


#: coincidences at which people test, and that hide faults
_USUAL = ("B = 1", "T = 1", "h = 1", "d_k = 1", "T = h", "B = h", "h = d_k", "d_k = d_v", "d_model = h*d_k")


def hidden_at(which: Sequence[Fault]) -> tuple[str, ...]:
    """At which coincidences of sizes a user's own test would see none of these faults.

    Example:
        >>> from mha_sym.audit.faults import find_fault
        >>> hidden_at([find_fault("split_by_view")])
        ('T = 1', 'h = 1')
    """
    known = {one.name for one in (*faults(), *faults_of_positions())}
    if any(one.at_sizes or one.random or one.name not in known for one in which):
        return ()
    each = [_hides(one) for one in which]
    return tuple(text for text in ("S = T", *_USUAL) if all(text in hides for hides in each))


def _hides(fault: Fault) -> set[str]:
    """The coincidences at which a fault changes nothing, in the least layer in which it does at other sizes."""
    around, found = Surroundings.of(fault), set[str]()
    if not _shows(fault, around, ()):
        found.add("S = T")
        around = replace(around, cross=True)
    if not _shows(fault, around, ()):
        return set()
    return found | {text for text in _USUAL if _shows(fault, around, (text,)) is False}


def _shows(fault: Fault, around: Surroundings, which: tuple[str, ...]) -> bool | None:
    """Whether a fault shows at some coincidences; None if they cannot be, or its code cannot run there."""
    made = _with(fault, {}, around, which)
    if made is None or made["h"] % made.get("G", 1):
        return None
    found = effect(fault, made, around)
    return None if found is None else found > 0


def _beyond(fault: Fault, around: Surroundings) -> str:
    """What hides a fault that no sizes of self-attention with the usual scale show."""
    apart = {**_APART, **({"h": 6, "G": 2} if around.groups else {})}
    for name, other in fault.ties.items():
        apart[name] = _product(apart, (other,) if isinstance(other, str) else other)
    turned = {**apart, "T": apart["S"], "S": apart["T"]}  # with more queries than keys
    if not around.cross and any(effect(fault, one, replace(around, cross=True)) for one in (apart, turned)):
        return "S = T"
    apart["S"] = apart["T"]
    if effect(fault, apart, replace(around, own_scale=True)):
        return "the scale, which is 1/sqrt(d_k)"
    return "what is handed over: no sizes show it"


def _coincidences(sizes: Mapping[str, int]) -> list[str]:
    """Equal sizes, the plainest first: one, then two sizes, then products."""
    found = coincidences({name: n for name, n in sizes.items() if name in _APART})
    return sorted(found, key=lambda text: (not text.endswith(" = 1"), text.count("*"), text))


def _with(
    fault: Fault, sizes: Mapping[str, int], around: Surroundings, which: tuple[str, ...]
) -> dict[str, int] | None:
    """Sizes that are apart but for these coincidences and those that the fault needs to run."""
    made = dict(_APART)
    if around.groups:
        made |= {"h": 6, "G": 2}
    if not around.cross:
        made["S"] = made["T"]
    changed = set()
    for text in which:
        left, right = text.split(" = ")
        if right == "1":
            made[left] = 1
            changed.add(left)
            continue
        # one side must be a size alone, which then gets the value of the other
        if "*" in left:
            left, right = right, left
        if "*" in left or left in changed:
            left, right = right, left
        if "*" in left:
            return None
        made[left] = _product(made, tuple(right.split("*")))
        changed.add(left)
    for name, other in fault.ties.items():
        made[name] = _product(made, (other,) if isinstance(other, str) else other)
    if not around.cross and made["S"] != made["T"]:
        made["S"] = made["T"]
    held = set(coincidences({name: made[name] for name in _APART}))
    return made if set(which) <= held else None


# ---------------------------------------------------------------- what would show it


def smallest_change(fault: Fault, sizes: Sizes, around: Surroundings) -> dict[str, int] | None:
    """The fewest and smallest changes of sizes at which a fault shows, or its code cannot run; None if none is found.

    Example:
        >>> from mha_sym.audit.faults import find_fault
        >>> smallest_change(find_fault("scale_by_joined_width"), Sizes.read({"T": 5, "h": 1, "d_k": 4}), Surroundings())
        {'h': 2}
    """
    for changes in _changes(sizes, around):
        after = sizes.changed(changes)
        if after is not None and (around.cross or after["S"] == after["T"]) and effect(fault, after, around) != 0.0:
            return changes
    longer = {"S": sizes.all["T"] + 1}
    if not around.cross and effect(fault, {**sizes.all, **longer}, replace(around, cross=True)):
        return longer
    return None


def _changes(sizes: Sizes, around: Surroundings) -> Iterator[dict[str, int]]:
    names = ["B", "T", "h", "d_k", "d_v", "d_model", *(["S"] if around.cross else [])]
    if around.groups:
        names = ["G", *names]
    single = [{name: sizes.all[name] + step} for step in _STEPS for name in names if name in sizes.all]
    yield from single
    for one, other in combinations(single[: 2 * len(names)], 2):
        if set(one).isdisjoint(other):
            yield {**one, **other}
