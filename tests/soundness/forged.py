"""Forged certificates: what the checker accepts of files that were changed in one place and signed again must be true.

``python -m tests.soundness.forged --most 20000`` changes numbers and names in the certificates of the library for
others of the same file, and prints how many were refused, and how many accepted; of these every statement is evaluated
with plain loops at sizes of 2 and 3 (`tests.proof.engine`).  It fails if one is false.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from mha_sym.library import load, theorem_names
from mha_sym.proof.certificate_file import write
from mha_sym.proof.checker import Goal
from mha_sym.proof.prover import prove
from mha_sym.proof.reader import digest, read
from mha_sym.proof.recheck import recheck
from mha_sym.proof.rules import Context
from mha_sym.proof.schema import Statement
from mha_sym.proof.terms import Size
from tests.controls.mutants import within
from tests.proof.engine import Unclear, World, agree, ball, value

#: how many positions of a goal are looked at, in each of so many worlds
PLACES, WORLDS = 6, 4
#: what evaluation meets in statements without a meaning: sizes that are not whole, entries of no table, or with more
#: positions than their definition has
UNCLEAR = (Unclear, AssertionError, KeyError, IndexError, ValueError)
#: seconds after which a statement counts as not evaluated
PATIENCE = 5


@cache
def certificates() -> tuple[str, ...]:
    """The certificates of the library, as text."""
    return tuple(write(prove(replace(load(name), controls=()), recheck=False)) for name in theorem_names())


def signed(value: Any) -> bytes:
    """A document with the digest that it should have."""
    if isinstance(value, dict):
        value = {**value, "sha256": digest({name: one for name, one in value.items() if name != "sha256"})}
    return json.dumps(value).encode()


def forged(rng: Random) -> bytes:
    """A certificate with one leaf, or two, changed for another of its kind."""
    found = json.loads(rng.choice(certificates()))
    places = [place for place in _leaves(found, ()) if place[0] in ("nodes", "context", "goals")]
    for _ in range(rng.choice([1, 1, 2])):
        path = rng.choice(places)
        here = _at(found, path)
        others = [one for one in (_at(found, place) for place in rng.sample(places, min(40, len(places))))
                  if type(one) is type(here) and one != here]  # fmt: skip
        if isinstance(here, int):
            others += [here + 1, here - 1]
        if others:
            _at(found, path[:-1])[path[-1]] = rng.choice(others)
    return signed(found)


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(one, (*path, key))
    elif path:
        yield path


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


# ---------------------------------------------------------------- what is accepted must be true


def false_goal(statement: Statement) -> str:
    """The name of a goal that is false somewhere, if one is; what cannot be evaluated says nothing."""
    names = sorted(sizes_of((statement.goals, statement.context)))
    for seed in range(WORLDS):
        rng = Random(seed)
        world = World({name: rng.choice([2, 3]) for name in names}, statement.context, seed)
        for goal in statement.goals:
            try:
                if assumed(statement.context, world) and not _holds(goal, world, rng):
                    return goal.name
            except UNCLEAR:
                continue
    return ""


def sizes_of(value: Any) -> set[str]:
    if isinstance(value, Size):
        return set() if value.name.isdigit() else {value.name}
    if is_dataclass(value):
        return {name for one in fields(value) for name in sizes_of(getattr(value, one.name))}
    if isinstance(value, dict):
        return {name for one in value.values() for name in sizes_of(one)}
    return {name for one in value for name in sizes_of(one)} if isinstance(value, tuple | list) else set()


def assumed(context: Context, world: World) -> bool:
    """Whether the assumptions hold everywhere in a world."""
    for variables, term in context.positive:
        for at in product(*(range(world.size(one.domain)) for one in variables)):
            found = value(term, world, dict(zip((one.name for one in variables), at, strict=True)))
            if not ball(found) > 0:
                return False
    return True


def _holds(goal: Goal, world: World, rng: Random) -> bool:
    names = [one.name for one in goal.variables]
    for _ in range(PLACES):
        env = {one.name: rng.randrange(world.size(one.domain)) for one in goal.variables}
        assert len(env) == len(names)
        if not agree(value(goal.left, world, env), value(goal.right, world, env)):
            return False
    return True


def tried(seed: int) -> tuple[int, str]:
    """What became of one forged file."""
    text = forged(Random(seed))
    verdict = within(PATIENCE, lambda: str(recheck(text)["verdict"]), "slow")
    return seed, verdict if verdict != "accepted" else within(PATIENCE, lambda: _truth(text), "accepted, not evaluated")


def _truth(text: bytes) -> str:
    return "accepted and false" if false_goal(read(text).statement) else "accepted and true"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
        for seed, verdict in pool.imap_unordered(tried, range(given.first, given.first + given.most), chunksize=50):
            found[verdict] += 1
            if verdict in ("accepted and false", "slow"):
                Path(f"forged-{seed}.json").write_bytes(forged(Random(seed)))
                print(f"{verdict}: seed {seed}, written to forged-{seed}.json", flush=True)
    print(f"{found.total()} forged certificates: {', '.join(f'{n} {what}' for what, n in found.most_common())}")
    return int(bool(found["accepted and false"] + found["slow"]))


if __name__ == "__main__":
    sys.exit(main())
