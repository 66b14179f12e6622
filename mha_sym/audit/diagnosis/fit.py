"""Whether faults reproduce the output of one run, within the bound that their own values have.

Defines `Fit`, `fit`, `near` (a first look) and `orders` (the orders of heads that are tried).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np

from mha_sym.audit.evidence import Evidence, empty_rows, largest, permutes, predicted
from mha_sym.audit.faults import Fault
from mha_sym.audit.precision import Array

#: all orders of heads are tried up to this many heads, beyond it only rotations, the reverse and exchanges of two
_ALL_ORDERS = 4
#: what the bound of the correct form is multiplied by for a faulty one, whose values are of another size
SLACK = 4.0
#: how many roundings of the largest entry an output is usually off by at most, for scores of the order of one
_USUAL = 32.0
#: how many times nearer than the correct form what is named must come
NEARER = 8.0


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


@lru_cache(maxsize=1024)
def fit(on: Evidence, which: tuple[Fault, ...]) -> Fit | None:
    """How faults fit one run; None if they do not, or if the code could not have run at these sizes.

    What explains all is asked several times: whether it fits, how well, and how far it is from what else does.
    """
    form = on.forms_for(which).form(*which)
    if form is None:
        return None
    if on.nan is not None and not np.array_equal(empty_rows(on, form), on.nan):
        return None
    wanted = {"y": form.y, "scores": form.scores}
    for order in orders(on.setting.sizes["h"]) if any(map(permutes, wanted.values())) else ((),):
        found = predicted(on, wanted, {"pi": order} if order else None)
        if "y" not in found or "scores" not in found:
            continue
        bound = _bound(on, found)
        difference = on.off(found["y"])
        if difference <= bound:
            seen_at = min(on.bounds["y"].value, max(NEARER * difference, _USUAL * on.rounding * largest([found["y"]])))
            moves = float(np.abs(found["y"] - on.found["y"]).max()) > seen_at
            return Fit(difference, bound, order, moves)
    return None


def _bound(on: Evidence, found: Mapping[str, Array]) -> float:
    """How far an implementation of a faulty form may be from it, which is larger where its values are.

    The worst case says little in short formats, where it would admit any output; so no more is granted than what
    roundings leave that do not all point one way.
    """
    scores = np.abs(found["scores"])
    largest_score = float(scores[scores < 1e5].max(initial=0.0))
    wider = max(1.0, largest_score / max(seen(on.found["scores"]), 1e-300))
    larger = max(1.0, largest([found["y"]]) / max(largest([on.found["y"]]), 1e-300))
    usual = _USUAL * on.rounding * (1 + largest_score) * on.bounds["y"].magnitude * larger
    return min(SLACK * on.bounds["y"].value * wider * larger, usual)


def seen(scores: Array) -> float:
    """The largest finite entry."""
    finite = np.abs(scores[np.isfinite(scores)])
    return float(finite.max(initial=0.0))


def near(on: Evidence, value: Array) -> bool:
    """A first look, with far more room than `fit` allows; what is no nearer than the correct form is far."""
    scale = max(1.0, largest([value]) / max(largest([on.found["y"]]), 1e-300))
    wrong = on.off(on.found["y"])
    return bool(on.off(value) <= min(1e3 * on.bounds["y"].value * scale, wrong / 2))


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

