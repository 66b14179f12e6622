"""The theorem files are not mistyped: at small sizes claims agree in float64 and controls differ.

A sanity test of the statements only.  It decides no theorem; that is for the prover, in exact arithmetic.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import sympy

from mha_sym.arrays import substituted
from mha_sym.evaluate import evaluate
from mha_sym.expr import Expr, Input, Named, Permute, Scalar, Table, inputs, walk
from mha_sym.library import load, theorem_names
from mha_sym.proof.theorem import Claim, Theorem

#: a size for every symbol that occurs in a theorem file: pairwise distinct in each claim, and never one
SIZES = (
    {"B": 2, "T": 5, "S": 7, "d_model": 8, "h": 3, "d_k": 4, "d_v": 6, "n": 3, "p": 9, "q": 4, "e": 3, "d": 7},
    {"B": 3, "T": 4, "S": 6, "d_model": 5, "h": 7, "d_k": 10, "d_v": 8, "n": 7, "p": 9, "q": 2, "e": 5, "d": 9},
)
#: what separates agreement from difference; rounding is near 1e-15, and the differences are near 1
AGREE, DIFFER = 1e-11, 1e-6

NAMES = theorem_names()


@cache
def theorem(name: str) -> Theorem:
    return load(name)


def symbols(claim: Claim) -> set[str]:
    found: set[str] = set()
    for side in (claim.left, claim.right):
        for node in walk(side):
            sizes = [one.size for one in node.axes] + ([node.value] if isinstance(node, Scalar) else [])
            found |= {str(symbol) for size in sizes for symbol in size.free_symbols}
    return found


def draw(node: Input, sizes: dict[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = tuple(int(substituted(sympy.sympify(one.size), sizes)) for one in node.over)
    if not node.boolean:
        return rng.normal(size=shape)
    kept = rng.random(shape) < 0.5
    kept[..., 0] |= ~kept.any(axis=-1)  # each row keeps a key
    return kept.astype(float)


def draw_permutations(
    sides: tuple[Expr, Expr], sizes: dict[str, int], rng: np.random.Generator
) -> dict[str, tuple[int, ...]]:
    """For each permutation a cycle through all positions, each another one; an axis needs four positions for two."""
    perms = {node.perm.name: node.perm for side in sides for node in walk(side) if isinstance(node, Permute)}
    found: dict[str, tuple[int, ...]] = {}
    for name, perm in sorted(perms.items()):
        size = int(substituted(perm.axis.size, sizes))
        while name not in found or found[name] in (found[other] for other in found if other != name):
            tour = rng.permutation(size)
            order = np.empty(size, dtype=int)
            order[tour] = np.roll(tour, 1)
            found[name] = tuple(int(i) for i in order)
    return found


def values(claim: Claim, sizes: dict[str, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Both sides on random inputs, the right side with its axes in the order of the left."""
    rng = np.random.default_rng(seed)
    both = (claim.left, claim.right)
    arrays = {node.name: draw(node, sizes, rng) for side in both for node in inputs(side)}
    perms = draw_permutations(both, sizes, rng)
    left, right = (run(side, arrays, sizes, perms) for side in both)
    order = [[one.name for one in claim.right.axes].index(one.name) for one in claim.left.axes]
    return left, right.transpose(order)


def run(
    side: Expr, arrays: dict[str, np.ndarray], sizes: dict[str, int], perms: dict[str, tuple[int, ...]]
) -> np.ndarray:
    used = {node.name for node in inputs(side)}
    known = {name: size for name, size in sizes.items() if name in symbols(Claim("", side, side))}
    given = {name: array for name, array in arrays.items() if name in used}
    return np.asarray(evaluate(side, given, sizes=known, permutations=perms), dtype=float)


@pytest.mark.parametrize("sizes", SIZES, ids=("first", "second"))
@pytest.mark.parametrize("name", NAMES)
def test_both_sides_of_every_claim_agree(name: str, sizes: dict[str, int]) -> None:
    for claim in theorem(name).claims:
        left, right = values(claim, sizes)
        assert np.abs(left - right).max() <= AGREE * max(1.0, np.abs(left).max()), f"{name}: {claim.name}"


@pytest.mark.parametrize("sizes", SIZES, ids=("first", "second"))
@pytest.mark.parametrize("name", NAMES)
def test_both_sides_of_every_control_differ(name: str, sizes: dict[str, int]) -> None:
    for control in theorem(name).controls:
        left, right = values(control, sizes)
        assert np.abs(left - right).max() > DIFFER, f"{name}: {control.name}"


@pytest.mark.parametrize("sizes", SIZES, ids=("first", "second"))
def test_no_two_sizes_of_a_claim_are_equal(sizes: dict[str, int]) -> None:
    for name in NAMES:
        for part in (*theorem(name).claims, *theorem(name).controls):
            drawn = [sizes[symbol] for symbol in symbols(part)]
            assert len(set(drawn)) == len(drawn) and 1 not in drawn, f"{name}: {part.name}"


@pytest.mark.parametrize("name", NAMES)
def test_every_part_has_a_name_of_its_own_and_words(name: str) -> None:
    parts = (*theorem(name).claims, *theorem(name).controls)
    assert theorem(name).name == name
    assert len({part.name for part in parts}) == len(parts)
    assert all(part.words.endswith(".") for part in parts)
    assert theorem(name).words.endswith(".") and theorem(name).source


@pytest.mark.parametrize("name", NAMES)
def test_one_name_is_one_thing(name: str) -> None:
    """No name stands for two inputs, tables or bijections, nor for an input and a stage, in the claims of a theorem."""
    assumed = [one.positive for one in theorem(name).assumptions if one.positive is not None]
    given: dict[str, object] = {}
    stages = set()
    for root in (*assumed, *(side for claim in theorem(name).claims for side in (claim.left, claim.right))):
        for node in walk(root):
            if isinstance(node, Input | Table):
                assert given.setdefault(node.name, node) == node
            if isinstance(node, Permute):
                assert given.setdefault(node.perm.name, node.perm.axis) == node.perm.axis
            if isinstance(node, Named):
                stages.add(node.name)
    assert not stages & given.keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_about_all_sizes(name: str) -> None:
    """But for the trace in numbers and the head of width 128, no size that a theorem speaks of is a number."""
    fixed = {"numerical_axis_trace": None, "one_weight_per_key_for_every_value_coordinate": {"128"}}.get(name, set())
    for claim in theorem(name).claims:
        numbers = {str(one.size) for one in claim.left.axes if one.size.is_Integer and one.size != 1}
        assert fixed is None or numbers <= fixed, f"{name}: {claim.name}"


def test_no_theorem_is_lost() -> None:
    assert len(NAMES) >= 18
