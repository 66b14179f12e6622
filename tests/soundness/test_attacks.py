"""Forged proofs of false statements, one for every way in that we could think of: each is refused for its reason."""

from __future__ import annotations

import json
from itertools import product
from random import Random

import pytest

from mha_sym.proof.certificate_file import dump
from mha_sym.proof.checker import Rejected, check_all
from mha_sym.proof.reader import read
from mha_sym.proof.recheck import recheck
from mha_sym.proof.schema import Assumed, Document, Statement, Unreadable
from tests.proof.engine import World, agree, value
from tests.soundness.attacks import ATTACKS, Attack
from tests.soundness.forged import assumed, sizes_of


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_for_its_reason(name: str) -> None:
    one = ATTACKS[name]
    with pytest.raises(Rejected, match=one.reason):
        check_all(one.certificates, one.context)


@pytest.mark.parametrize("name", [name for name, one in ATTACKS.items() if not one.senseless])
def test_what_is_attacked_with_is_false(name: str) -> None:
    """By loops at small sizes, somewhere: otherwise nothing would be tried."""
    stated = document(ATTACKS[name]).statement
    goal, names = stated.goals[-1], sorted(sizes_of((stated.goals, stated.context)))
    for seed in range(100):
        rng = Random(seed)
        world = World({size: rng.randint(1, 3) for size in names}, stated.context, seed)
        if not assumed(stated.context, world):
            continue
        for places in product(*(range(world.size(one.domain)) for one in goal.variables)):
            env = dict(zip((one.name for one in goal.variables), places, strict=True))
            if not agree(value(goal.left, world, env), value(goal.right, world, env)):
                return
    pytest.fail("it is true")


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_by_file_is_refused(name: str) -> None:
    """The reader may refuse before the checker does; one of the two must."""
    assert recheck(written(ATTACKS[name]))["verdict"] in ("rejected", "unreadable")


def test_most_files_reach_the_checker() -> None:
    reached = 0
    for one in ATTACKS.values():
        try:
            read(written(one))
        except Unreadable:
            continue
        reached += 1
    assert reached > 0.8 * len(ATTACKS) > 50


def document(one: Attack) -> Document:
    assumed = tuple(Assumed("given", (pair,)) for pair in one.context.positive)
    goals = tuple(certificate.goal for certificate in one.certificates)
    return Document(Statement("attack", "", "", assumed, one.context, goals), one.certificates)


def written(one: Attack) -> str:
    text = dump(document(one))
    assert json.loads(text)["format"]
    return text
