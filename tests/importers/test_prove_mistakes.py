"""Every mistake of the catalogue is refuted, at its line, in NumPy and in torch; none is proved.

The tests take some of them; ``python -m tests.importers.test_prove_mistakes [numpy|torch] [words of titles]`` tries all
of the corpus and prints the table.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from mha_sym.audit import CheckReport, Implementation, check
from mha_sym.audit.faults import faults
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import CodeProof, with_audit
from mha_sym.audit.proving.report import proof_json, proof_text
from mha_sym.errors import Problem
from mha_sym.proof.theorem import Verdict
from tests.audit.corpus import CONVENTIONS, implementation
from tests.audit.corpus_items import Item, corpus
from tests.audit.implementations import implementation as mistake
from tests.importers.wrong_lines import lines_of

ITEMS = tuple(corpus())
#: written by hand in NumPy, all in one style
NAMED = [one.name for one in faults() if not one.random and "groups" not in one.needs]


@dataclass(frozen=True)
class Told:
    """What is said of a mistake: how it is refuted, whether it is named where running it does, and where it stands."""

    title: str
    verdict: str
    named: bool
    lines: tuple[str, ...]

    @property
    def line(self) -> str:
        """Where the worst of its lines stands; the fault shows in every way of calling."""
        return max(self.lines, key=("wrong", "after", "elsewhere").index, default="none")


def judged(impl: Implementation, report: CheckReport | None = None) -> CodeProof:
    """What is proved of code, with what the audit adds: not where a proof refutes it, unless a report is given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # wrong code makes NaN
        try:
            made = prove_code(impl)
        except Problem as problem:
            made = CodeProof(impl.title, problem=problem)
        if made.verdict is Verdict.REFUTED and report is None:
            return made
        return with_audit(made, report or check(impl, draws=2))


def told(item: Item) -> Told:
    """What is said of an item; that the audit names it is tested in ``tests/audit/test_corpus.py``."""
    made = judged(item.code)
    how = "refuted by running" if made.only_ran else made.verdict.value
    lines, where = lines_of(item), [one.departure.place for one in made.cases if one.departure is not None]
    names = {frozenset(name.split(" + ")) for one in made.faults for name in one.names}
    return Told(item.title, how, item.truth in names, tuple(lines.found(place) for place in where))


def chosen(framework: str, every: int, first: int) -> list[Item]:
    return [one for one in ITEMS if one.code.framework == framework][first::every]


@pytest.mark.parametrize(
    "item", [*chosen("numpy", 24, 5), *chosen("torch", 60, 7)], ids=lambda item: item.title,
)  # fmt: skip
def test_a_mistake_of_the_corpus_is_refuted_at_its_line(item: Item) -> None:
    found = told(item)
    assert found.verdict == "refuted" or (found.verdict == "refuted by running" and found.named), found
    assert found.line in ("wrong", "after", "none"), found


@pytest.mark.parametrize("name", NAMED[::16])
def test_a_mistake_written_by_hand_is_refuted(name: str) -> None:
    found = judged(mistake(name))
    assert found.verdict is Verdict.REFUTED
    assert not found.ran or name in {name for one in found.faults for name in one.names}


def swapped(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    e = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    z = (e / e.sum(-1, keepdims=True)) @ v
    return z.reshape(*x.shape[:2], -1) @ w_o  # joined without a transpose


def one_by_one(x, w_q, w_k, w_v, w_o, heads):
    return swapped(np.vectorize(float)(x), w_q, w_k, w_v, w_o, heads)


def rectified(x, w_q, w_k, w_v, w_o, heads):
    return np.maximum(x @ w_q, 0) @ w_o


def test_the_report_says_fault_line_and_counterexample() -> None:
    found = judged(Implementation(call=swapped), check(swapped))
    (source, *_), text = proof_json(found)["source"], proof_text(found)
    code = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(n for n, one in enumerate(code, 1) if "without a transpose" in one)
    assert (source["file"], source["line"]) == (__file__, line)
    assert "fault     join_without_transpose" in text and f"{__file__}:{line}" in text.replace("\n            ", "")
    assert "counter   y[" in text and not proof_json(found)["ran"]
    assert [one["name"] for one in proof_json(found)["faults"]] == ["join_without_transpose"]


def test_what_is_found_by_running_is_said_to_be() -> None:
    found = judged(Implementation(call=one_by_one))
    assert found.verdict is Verdict.REFUTED and found.only_ran and found.problem is not None
    assert [one.name for one in found.faults] == ["join_without_transpose"]
    assert "running it shows it, not a proof" in proof_text(found).splitlines()[0]
    (entry,) = proof_json(found)["ran"]
    assert entry["difference"] > 1e3 * entry["bound"] > 0 and proof_json(found)["verdict"] == "refuted"


def test_what_is_proved_for_all_sizes_is_not_overruled_by_numbers() -> None:
    right = implementation(CONVENTIONS["plain"], {}, "numpy")
    proof = prove_code(right)
    assert proof.verdict is Verdict.PROVED
    wrong = replace(check(swapped), target=right.title)
    free = replace(proof, cases=tuple(replace(one, found=replace(one.found, leaks=())) for one in proof.cases))
    told = with_audit(free, wrong)
    assert (told.verdict, told.ran) == (Verdict.PROVED, ()) and told.notes[-1].startswith("run in float64 it is off by")
    at_sizes = with_audit(proof, wrong)  # this code wants numbers for sizes: the proof is for those alone
    assert at_sizes.verdict is Verdict.REFUTED and at_sizes.only_ran
    assert with_audit(replace(proof, against="another"), wrong).verdict is Verdict.PROVED


def test_the_larger_of_two_numbers_is_refuted_in_exact_numbers() -> None:
    found = judged(Implementation(call=rectified, tied=("d_v",)))
    assert found.verdict is Verdict.REFUTED and not found.only_ran
    assert found.cases[0].outcomes[0].counterexample is not None


def table(items: Iterable[Item]) -> None:
    """Print what is said of each, and how many of each kind there are."""
    every: list[Told] = []
    for item in items:
        every.append(told(item))
        print(f"{every[-1].verdict:<20} {every[-1].line:<10} {item.title}", flush=True)
    print(Counter(one.verdict for one in every), "lines:", Counter(one.line for one in every))


if __name__ == "__main__":
    _, framework, *words = [*sys.argv, "numpy"][: max(2, len(sys.argv))]
    table(one for one in chosen(framework, 1, 0) if all(word in one.title for word in words))
