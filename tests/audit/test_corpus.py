"""The corpus judges the audit: every fault is found, nearly all are named alone, and right code is never flagged.

The tests take one of three faults, each in one of the two frameworks; ``python -m tests.audit.test_corpus`` tries all
in both and prints the figures.  The code of the corpus knows the catalogue only by the names of its faults.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from mha_sym.audit import CheckReport, Implementation, check
from mha_sym.audit.faults import faults, find_fault
from mha_sym.errors import TargetProblem
from tests.audit.corpus import CONVENTIONS, NUMPY, TORCH, implementation
from tests.audit.corpus_items import FAULTS, Item, corpus, pairs
from tests.audit.corpus_right import STYLES

ITEMS, PAIRS = tuple(corpus()), tuple(pairs())


@dataclass(frozen=True)
class Judged:
    """Whether the fault is among what is reported, and whether everything reported is it or provably the same."""

    title: str
    contained: bool
    alone: bool
    named: tuple[frozenset[str], ...]


def parts(name: str) -> frozenset[str]:
    return frozenset(name.split(" + "))


def judged(one: Item, draws: int = 2) -> Judged:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # wrong code makes NaN
        report = check(one.code, sizes=one.sizes, draws=draws)
    named = {parts(name) for found in report.faults for name in found.names}
    proved = {
        parts(name)
        for found in report.faults
        for name in (found.name, *(name for twin in found.twins if twin.proved for name in twin.names))
    }
    return Judged(one.title, one.truth in named, one.truth in proved and named == proved, tuple(named))


def test_what_is_judged_alone_is_contained() -> None:
    one = PAIRS[0]
    wrong = judged(replace(one, truth=frozenset({"scale_inverted"})))
    assert not wrong.contained and not wrong.alone and judged(one).alone


def figures(items: Iterable[Item]) -> tuple[int, list[Judged], list[Judged]]:
    """How many, those whose fault is not found, and those that are not named alone."""
    found = [judged(one) for one in items]
    missed = [one for one in found if not one.contained]
    return len(found), missed, [one for one in found if not one.alone]


def told(what: str, n: int, missed: list[Judged], crowded: list[Judged]) -> str:
    contains, alone = n - len(missed), n - len(crowded)
    return f"{what}: n {n}, contains {contains} ({contains / n:.1%}), alone {alone} ({alone / n:.1%})"


#: which faults are tried in which framework, in turn; the command tries those that are left out here, too
TURNS = ("numpy", "", "", "torch", "", "")


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_every_fault_is_found_and_nearly_all_alone(framework: str) -> None:
    turns = {one.truth: TURNS[n % len(TURNS)] for n, one in enumerate(FAULTS)}
    mine = [one for one in ITEMS if turns[next(iter(one.truth))] == framework]
    n, missed, crowded = figures(one for one in mine if one.code.framework == framework)
    assert n > 30
    print(told(framework, n, missed, crowded))
    assert not missed
    assert len(crowded) <= 0.05 * n, crowded


def test_two_faults_together_are_found() -> None:
    n, missed, crowded = figures(PAIRS)
    print(told("pairs", n, missed, crowded))
    assert not missed
    assert len(crowded) <= 0.05 * n, crowded


@pytest.mark.parametrize("name", STYLES)
def test_no_fault_is_reported_of_right_code(name: str) -> None:
    report: CheckReport = check(STYLES[name])
    assert report.ok and not report.faults, report.text()


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_code_of_the_corpus_is_right_where_no_step_is_wrong(convention: str, framework: str) -> None:
    assert check(implementation(CONVENTIONS[convention], {}, framework), draws=1).ok


def test_the_corpus_is_large_and_covers_the_catalogue() -> None:
    assert len(ITEMS) >= 240 and len(STYLES) >= 60 and len({one.title for one in ITEMS}) == len(ITEMS)
    for framework in ("numpy", "torch"):
        made = {name for one in ITEMS if one.code.framework == framework for name in one.truth}
        assert made == {one.truth for one in FAULTS}
    covered = {find_fault(one.truth).name for one in FAULTS}
    assert len(covered) >= 120 and covered <= {one.name for one in faults()}
    assert {find_fault(name).family for name in covered} == {one.family for one in faults()}


def thinned(a, o):  # type: ignore[no-untyped-def]
    """Weights of which a tenth is set to zero at random."""
    keep = np.random.default_rng().random(tuple(a.shape)) >= 0.1
    return a * (o.number(keep, a) if o is NUMPY else a.new_tensor(keep)) / 0.9


@pytest.mark.parametrize("o", [NUMPY, TORCH], ids=["numpy", "torch"])
def test_active_dropout_is_said_to_be_random(o) -> None:  # type: ignore[no-untyped-def]
    code: Implementation = implementation(CONVENTIONS["plain"], {"reweigh": lambda c, a: thinned(a, o)}, o.name)
    with pytest.raises(TargetProblem, match="random from call to call") as caught:
        check(code)
    assert "dropout" in caught.value.hint


if __name__ == "__main__":
    for what, items in (("single faults", ITEMS), ("pairs", PAIRS)):
        n, missed, crowded = figures(items)
        print(told(what, n, missed, crowded))
        for one in crowded:
            names = [" + ".join(sorted(name)) for name in one.named]
            print("  not found:" if one in missed else "  not alone:", one.title, names)
