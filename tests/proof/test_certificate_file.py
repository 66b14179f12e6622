"""Certificate files: written and read without loss, rechecked apart, and refused wherever they were tampered with."""

from __future__ import annotations

import copy
import inspect
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_sym.axes import Permutation, axis, product
from mha_sym.errors import TheoremProblem
from mha_sym.expr import (
    Compare,
    Contract,
    Input,
    Named,
    Permute,
    Reduce,
    Repeat,
    Reshape,
    Softmax,
    Split,
    Table,
    as_expr,
)
from mha_sym.library import load, theorem_names
from mha_sym.proof import schema, scope, terms
from mha_sym.proof.certificate_file import difference, dump, read, statement, write
from mha_sym.proof.checker import Rejected, check_all
from mha_sym.proof.prover import prove
from mha_sym.proof.reader import _check_size, digest
from mha_sym.proof.recheck import CODES, recheck, recheck_apart
from mha_sym.proof.rules import RULES
from mha_sym.proof.schema import Unreadable
from mha_sym.proof.theorem import Assumption, Claim, Report, Theorem, Verdict

Json = Any
Command = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parent.parent.parent


def small() -> Theorem:
    """A theorem that needs every part of a file: a bijection, tables, a 0/1 tensor, assumptions, definitions."""
    h, t, s, two, three = axis("h"), axis("t", "T"), axis("s", "S"), axis("u", 2), axis("w", 3)
    x, scores, keep = Input("x", (h, t)), Input("scores", (t, s)), Input("keep", (t, s), boolean=True)
    wide, earlier, both = Input("y", (product(h, s),)), Compare("le", s, t), product(h, s)
    sums = (
        Claim("renumbered", Reduce("sum", Permute(x, Permutation("pi", h)), (h,)), Reduce("sum", x, (h,))),
        Claim(
            "in_numbers", Reduce("sum", Table("c", (two, three), ((1, 2, 3), (4, 5, 6))), (three,)),
            Table("d", (two,), (6, 15)),
        ),
        Claim("rows", Reduce("sum", Softmax(scores, (s,), keep), (s,)), Repeat(as_expr(1), (t,))),
        Claim("once", Contract((earlier, earlier, scores), (t, s)), Contract((scores, earlier), (t, s))),
        Claim("named", Reduce("sum", Named(wide, "Y"), (both,)), Reduce("sum", Split(wide, both), (h, s))),
        Claim("reshaped", Reshape(x, (t, h)), Reshape(x, (t, h))),
    )  # fmt: skip
    assumptions = (
        Assumption("every row keeps a key", Reduce("sum", keep, (s,))), Assumption("pi is a bijection"),
    )  # fmt: skip
    return Theorem("small", "A small theorem", "Several things at once.", sums, assumptions=assumptions)


@cache
def report(name: str) -> Report:
    """A theorem proved without its controls, which no certificate has a word about."""
    theorem = small() if name == "small" else load(name)
    return prove(replace(theorem, controls=()), recheck=False)


@cache
def text(name: str) -> str:
    return write(report(name))


def body(name: str = "small") -> dict[str, Json]:
    """All members of a file but its digest."""
    members: dict[str, Json] = json.loads(text(name))
    del members["sha256"]
    return members


def sealed(members: dict[str, Json]) -> str:
    """A file with a digest that fits, as a forger would write it."""
    return json.dumps({**members, "sha256": digest(members)})


# ---------------------------------------------------------------- writing and reading


@pytest.mark.parametrize("name", theorem_names())
def test_library_is_written_read_and_accepted(name: str) -> None:
    found = read(text(name))
    assert dump(found) == text(name)
    assert found.certificates == tuple(c for outcome in report(name).claims for c in outcome.certificates)
    assert found.statement == statement(load(name))
    assert difference(found.statement, statement(load(name))) == ""
    result = recheck(text(name))
    assert result["verdict"] == "accepted", result
    assert result["steps"] == report(name).steps
    assert len(result["goals"]) == sum(len(outcome.certificates) for outcome in report(name).claims)


def test_small_theorem_covers_the_schema() -> None:
    members = body()
    kinds = {row[0] for row in members["nodes"]}
    assert set(schema.NODES) - kinds == {"inj", "add"}
    assert {"part", "add"} <= {row[0] for name in theorem_names() for row in body(name)["nodes"]}
    assert all(members["context"].values())


def test_position_in_a_block_is_read_and_written() -> None:
    members = json.loads(with_nodes(
        ["size", "h", "1"], ["num", "1"], ["add", [0, 1]], ["domain", "r", 0, [], []], ["domain", "one", 1, [], []],
        ["domain", "c", 2, [], [3, 4]], ["var", "r", 3], ["inj", 6, 5, 0], ["entry", "x", [7]],
    ))  # fmt: skip
    del members["sha256"]
    members["goals"][0]["variables"] = [6]
    assert recheck(sealed(members))["verdict"] == "accepted"
    assert read(dump(read(sealed(members)))) == read(sealed(members))
    wrong = recheck(sealed(put(members, ("nodes", 7), ["inj", 6, 5, 1])))  # a position of block 0 in block 1
    assert (wrong["verdict"], "outside its axis" in wrong["why"]) == ("rejected", True)


def test_unproved_theorem_has_no_certificate() -> None:
    x, y = Input("x", (axis("t", "T"),)), Input("y", (axis("t", "T"),))
    refuted = prove(Theorem("wrong", "", "", (Claim("same", x, y),)), recheck=False)
    assert refuted.verdict is Verdict.REFUTED
    with pytest.raises(TheoremProblem, match="wrong has no certificate"):
        write(refuted)


def test_schema_names_every_rule_with_its_arguments() -> None:
    assert set(schema.ARGUMENTS) == set(RULES)
    for name, rule in RULES.items():
        named = list(inspect.signature(rule).parameters.values())[2:]
        assert set(schema.ARGUMENTS[name]) <= {one.name for one in named}, name
        assert all(one.name in schema.ARGUMENTS[name] for one in named if one.default is one.empty), name


def test_schema_names_every_kind_of_node_with_its_fields() -> None:
    makers = {make for make, _ in schema.NODES.values()}
    assert makers == {terms.Domain, *get_args(terms.Index), *get_args(terms.Term)}
    for make, holds in schema.NODES.values():
        assert list(holds) == [field.name for field in fields(make)]
    assert set(schema.SORTS["index"]) == set(get_args(terms.Index))
    assert set(schema.SORTS["term"]) == set(get_args(terms.Term))


def test_nodes_and_steps_stand_on_lines_of_their_own() -> None:
    """So that a change of a proof is a change of a few lines."""
    members, lines = body(), [line.strip().rstrip(",") for line in text("small").splitlines()]
    steps = [step for goal in members["goals"] for side in ("left_steps", "right_steps") for step in goal[side]]
    assert all(json.dumps(row, ensure_ascii=False) in lines for row in (*members["nodes"], *steps))
    assert lines[0] == "{" and lines[-1] == "}"


def test_shared_terms_are_written_once() -> None:
    rows = [json.dumps(row) for row in body("head_ablation_locations")["nodes"]]
    assert len(rows) == len(set(rows))
    assert max(len(text(name)) for name in theorem_names()) < 200_000


# ---------------------------------------------------------------- tampering


def scalars(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Json]]:
    """Every text, number and truth value in JSON, with its path."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from scalars(item, (*path, key))
    else:
        yield path, value


def flips(value: Json) -> list[Json]:
    """Other values of the same type, near enough to be plausible."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, value + 2]
    words = {"sum": "max", "max": "sum", "le": "eq", "eq": "le"}
    near = [words[value]] if value in words else []
    try:
        return [one for one in (str(Fraction(value) + 1), str(-Fraction(value))) if one != value]
    except ValueError:
        return [*near, value + "x", value[1:]]


def put(value: Json, path: tuple[Any, ...], new: Json) -> Json:
    """JSON with the value at a path replaced."""
    value = copy.copy(value)
    value[path[0]] = put(value[path[0]], path[1:], new) if len(path) > 1 else new
    return value


TAMPERED = ("small", "split_transpose_join_is_identity", "softmax_rows_sum_to_one", "softmax_add_row_constant")


@pytest.mark.parametrize("name", TAMPERED)
def test_every_scalar_matters(name: str) -> None:
    """Any one value changed, the digest left alone: refused."""
    members = json.loads(text(name))
    for path, value in scalars(members):
        for new in flips(value):
            assert recheck(json.dumps(put(members, path, new)))["verdict"] != "accepted", (path, value, new)


@pytest.mark.parametrize("name", theorem_names())
def test_every_kind_of_value_matters_in_every_theorem(name: str) -> None:
    """One of each kind, drawn anew in every theorem: changed, and left out."""
    members, kinds = json.loads(text(name)), dict[tuple[Any, ...], list[tuple[Any, ...]]]()
    for path in parts(members):
        kinds.setdefault(kind_of(members, path), []).append(path)
    draw = random.Random(name)
    for path in (draw.choice(paths) for paths in kinds.values()):
        value = members
        for step in path:
            value = value[step]
        changes = [without(members, path)]
        changes += [put(members, path, new) for new in flips(value)] if not isinstance(value, dict | list) else []
        for changed_ in changes:
            assert recheck(json.dumps(changed_))["verdict"] == "unreadable", path


def kind_of(members: Json, path: tuple[Any, ...]) -> tuple[Any, ...]:
    """A path without its numbers; rows of nodes and steps go by their first word."""
    kind: list[Any] = []
    for step in path:
        members = members[step]
        kind.append("" if isinstance(step, int) and len(kind) < 2 else step if isinstance(step, str) else "#")
        if isinstance(members, list) and members and isinstance(members[0], str):
            kind.append(members[0])
    return tuple(kind)


def is_step(path: tuple[Any, ...]) -> bool:
    return path[0] == "goals" and path[2] in ("left_steps", "right_steps")


@pytest.mark.parametrize("name", TAMPERED)
def test_forged_scalars_are_rejected_or_state_something_else(name: str) -> None:
    """Any one value changed and the digest made to fit: refused, or another statement; steps may prove it otherwise."""
    members, original = body(name), read(text(name)).statement
    found: Counter[str] = Counter()
    for path, value in scalars(members):
        for new in flips(value):
            forged = sealed(put(members, path, new))
            result = recheck(forged)
            if result["verdict"] == "accepted" and not difference(read(forged).statement, original):
                assert is_step(path), (path, value, new)
                result["verdict"] = "another proof of the same"
            found[result["verdict"]] += 1
            assert result["verdict"] == "accepted" or is_step(path) or result["why"]
    print(name, dict(found))
    assert found["rejected"] > 0 and found["unreadable"] > 0
    assert found["another proof of the same"] <= 3, found


def parts(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values but the whole."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from parts(item, (*path, key))


def without(value: Json, path: tuple[Any, ...]) -> Json:
    value = copy.copy(value)
    if len(path) == 1:
        del value[path[0]]
    else:
        value[path[0]] = without(value[path[0]], path[1:])
    return value


@pytest.mark.parametrize("name", TAMPERED)
def test_forged_omissions_are_rejected_or_state_something_else(name: str) -> None:
    """Any one item or member left out."""
    members, original = body(name), read(text(name)).statement
    for path in parts(members):
        forged = sealed(without(members, path))
        if recheck(forged)["verdict"] == "accepted" and not is_step(path):
            assert difference(read(forged).statement, original), path


@pytest.mark.parametrize(("old", "new", "what"), [
    ('"W_Q"', '"W_Z"', "goal scores"),
    ('["var", "j", ', '["var", "k", ', "goal scores"),
    ("Every row of the weights", "No row of the weights", "the title of the theorem"),
    ("every query keeps", "some query keeps", "the assumptions"),
    ('"name": "softmax_rows_sum_to_one"', '"name": "softmax_columns"', "the name of the theorem"),
    ('"name": "layer"', '"name": "stack"', "goal stack for layer"),
    ('"keep"', '"kept"', ""),
])  # fmt: skip
def test_another_true_statement_is_told(old: str, new: str, what: str) -> None:
    name = "softmax_rows_sum_to_one"
    members = json.loads(text(name).replace(old, new))
    del members["sha256"]
    assert members != body(name)
    forged = sealed(members)
    assert recheck(forged)["verdict"] == "accepted"
    found = difference(read(forged).statement, statement(load(name)))
    assert found and (found == what or what in ("", "goal scores")), found


# ---------------------------------------------------------------- bad files


def changed(*path: Any, to: Json) -> str:
    return sealed(put(body(), path, to))


def goal_0(*path: Any, to: Json) -> str:
    return changed("goals", 0, *path, to=to)


def step_0(*path: Any, to: Json) -> str:
    return goal_0("left_steps", 0, *path, to=to)


def node(number: int, *row: Json) -> str:
    return changed("nodes", number, to=list(row))


def with_nodes(*rows: Json) -> str:
    """A file that states ``t = t`` of its last row."""
    return sealed({
        "format": "mha_sym-certificate", "version": 1,
        "theorem": {"name": "n", "title": "", "words": "", "assumptions": []}, "nodes": list(rows),
        "context": {"definitions": {}, "booleans": [], "tables": {}, "bijections": {}},
        "goals": [{"name": "g", "variables": [], "left": len(rows) - 1, "right": len(rows) - 1, "left_steps": [],
                   "right_steps": []}],
    })  # fmt: skip


DOUBLED = [["num", "2"], *(["add", [n, n]] for n in range(60))]
LARGE = [["num", "1"], ["add", [0] * 1001]]
POWER = [["size", "a", "1"], ["size", "b", "1"], *(["add", [0, 1]],), ["mul", [2] * 40], ["domain", "x", 3, [], []]]

BAD: list[tuple[str | bytes, str]] = [
    ("", r"\$: line 1, column 1: Expecting value"),
    (b"\xff\xfe", r"\$: byte 0 is not UTF-8"),
    ("[" * 100_000, r"\$: too many levels of brackets"),
    ("1" * 10_000_000, r"\$: longer than 2097152 bytes"),
    ("[]", r"\$: expected an object, got a list"),
    ("1.0", r"\$: expected whole numbers of at most 12 digits, got '1.0'"),
    ("NaN", r"\$: expected whole numbers .*, got 'NaN'"),
    ("-Infinity", r"\$: expected whole numbers"),
    ("1" * 5000, r"\$: expected whole numbers of at most 12 digits, got '1111"),
    ('{"a": 1, "b": 2, "a": 3}', r"\$: the name 'a' occurs twice in one object"),
    (text("small")[:-200], r"\$: line \d+, column \d+: "),
    (text("small").replace("Several", "Many"), r"\$\.sha256: not the digest of the rest"),
    (changed("format", to="mha"), r"\$\.format: expected 'mha_sym-certificate', got 'mha'"),
    (changed("version", to=2), r"\$\.version: expected 1, got 2"),
    (changed("version", to=True), r"\$\.version: expected 1, got True"),
    (sealed({**body(), "extra": 1}), r"\$: unknown member 'extra'"),
    (goal_0("note", to="x"), r"\$\.goals\[0\]: unknown member 'note'"),
    (sealed(without(body(), ("goals", 1, "left"))), r"\$\.goals\[1\]: no member 'left'"),
    (changed("goals", to=[]), r"\$\.goals: no goals"),
    (changed("goals", 1, "name", to="renumbered"), r"\$\.goals: two goals of one name"),
    (goal_0("left", to=2), r"\$\.goals\[0\]\.left: row 2 is no term but a Var"),
    (goal_0("left", to=1000), r"\$\.goals\[0\]\.left: expected a whole number from 0 to 60, got 1000"),
    (goal_0("left", to=-1), r"\$\.goals\[0\]\.left: expected a whole number from 0"),
    (goal_0("left", to="17"), r"\$\.goals\[0\]\.left: expected a whole number from 0 to 60, got '17'"),
    (goal_0("left", to=True), r"\$\.goals\[0\]\.left: expected a whole number from 0 to 60, got True"),
    (step_0(0, to="simplify"), r"left_steps\[0\]\[0\]: expected the name of a rule, got 'simpl"),
    (step_0(0, to=["reindex"]), r"left_steps\[0\]\[0\]: expected the name of a rule, got a list"),
    (step_0(2, to={}), r"left_steps\[0\]\[2\]: no member 'name'"),
    (step_0(2, "inverse", to=1), r"left_steps\[0\]\[2\]\.inverse: expected true or false, got 1"),
    (step_0(1, to=[True]), r"left_steps\[0\]\[1\]\[0\]: expected a whole number"),
    (step_0(1, to=[0] * 201), r"left_steps\[0\]\[1\]: expected a list of at most 200 items"),
    (node(0, "size", "T"), r"\$\.nodes\[0\]: expected a list of 3, got a list"),
    (node(0, "eval", "T", "1"), r"\$\.nodes\[0\]: expected a list that begins with a kind of node, got 'eval'"),
    (node(0, "size", "0", "1"), r"\$\.nodes\[0\]\[1\]: expected a symbol, or a whole number from 1"),
    (node(0, "size", "²", "1"), r"\$\.nodes\[0\]\[1\]: expected a symbol"),
    (node(0, "size", "T", "2/4"), r"\$\.nodes\[0\]\[2\]: expected a rational in lowest terms"),
    (node(0, "size", "T", "1/0"), r"\$\.nodes\[0\]\[2\]: expected a rational in lowest terms"),
    (node(0, "size", "T", 1), r"\$\.nodes\[0\]\[2\]: expected a rational .*, got 1"),
    (node(0, "size", "T", "65"), r"\$\.nodes\[0\]\[2\]: expected a power of at most 64, got '65'"),
    (node(1, "domain", "t", 1, [], []), r"\$\.nodes\[1\]\[2\]: expected a whole number from 0 to 0, got 1"),
    (node(6, "entry", "a b", [2, 5]), r"\$\.nodes\[6\]\[1\]: expected a name of at most 100 signs"),
    (node(6, "entry", "\x1b[2J", [2, 5]), r"\$\.nodes\[6\]\[1\]: expected a name"),
    (node(6, "entry", "\ud800", [2, 5]), r"\$\.nodes\[6\]\[1\]: expected a name"),
    (node(6, "entry", "k" * 101, [2, 5]), r"\$\.nodes\[6\]\[1\]: expected a name"),
    (node(7, "bind", "prod", 5, 6), r"\$\.nodes\[7\]\[1\]: expected 'sum' or 'max', got 'prod'"),
    (sealed(put(body(), ("nodes",), [*body()["nodes"], ["num", "7"]])), r"\$\.nodes\[61\]: a node that nothing uses"),
    (with_nodes(["num", "1"], ["num", "1"], ["add", [0, 1]]), r"\$\.nodes\[1\]: the same node as an earlier one"),
    (with_nodes(["num", "1" * 200]), r"\$\.nodes\[0\]\[1\]: expected a rational"),
    (with_nodes(*DOUBLED), r"\$\.nodes\[15\]: too large or too deep a term"),
    (with_nodes(["num", "1"], *(["apply", "exp", n] for n in range(130))), r"\$\.nodes\[120\]: too large or too deep"),
    (with_nodes(["num", "5000"], ["domain", "x", 0, [], []]), r"\$\.nodes\[1\]: expected a whole number from 1 to 4"),
    (with_nodes(["num", "0"], ["domain", "x", 0, [], []]), r"\$\.nodes\[1\]: expected a whole number from 1"),
    (with_nodes(*LARGE), r"\$\.nodes\[1\]\[1\]: expected a list of at most 1000 items"),
    (with_nodes(*POWER), r"\$\.nodes\[4\]: too large a size"),
    (changed("theorem", "name", to=""), r"\$\.theorem\.name: expected a name"),
    (changed("theorem", "title", to="\x07"), r"\$\.theorem\.title: expected a text"),
    (changed("theorem", "words", to="x" * 10_001), r"\$\.theorem\.words: expected a text of at most 10000 signs"),
    (changed("theorem", "words", to=None), r"\$\.theorem\.words: expected a text of .*, got None"),
    (changed("context", "booleans", to=["keep", "keep"]), r"\$\.context\.booleans: not in alphabetical order"),
    (changed("context", "tables", "d", to=[[[0], "6"], [[0], "7"]]), r"tables\.d\[1\]\[0\]: a place that has a value"),
    (changed("context", "bijections", "pi", to=0), r"\$\.context\.bijections\.pi: row 0 is no domain but a Size"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=range(len(BAD)))
def test_unreadable_files_say_where(bad: str | bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=f"^{message}" if message.startswith(r"\$") else message):
        read(bad)
    assert recheck(bad)["verdict"] == "unreadable"


def test_sizes_up_to_the_bounds_are_read() -> None:
    full = terms.Mul((terms.Add((terms.Size("a"), terms.Size("b"))),) * 6)  # 64 products when multiplied out
    more = terms.Add((full, terms.Size("c")))
    _check_size(terms.Domain("x", full), schema.MAX_DOMAIN, "$")
    for size, tree in ((full, schema.MAX_DOMAIN + 1), (more, 9)):
        with pytest.raises(Unreadable, match="too large a size"):
            _check_size(terms.Domain("x", size), tree, "$")


def test_no_depth_of_brackets_escapes() -> None:
    whole = text("small")
    for depth in (*range(900, 1010), 5000):  # just below and above what Python's decoder and encoder can nest
        deep = whole.replace('"goals": [', '"goals": ' + "[" * depth + "]" * depth + ', "more": [')
        assert recheck(deep)["verdict"] == "unreadable", depth
        assert recheck(deep.replace('"more"', '"context"', 1))["verdict"] == "unreadable", depth


MEANINGLESS: list[tuple[str, str]] = [
    (goal_0("variables", to=[]), "a variable that is not in scope"),
    (changed("context", "definitions", "Y", "params", to=[]), "a variable that is not in scope"),
    (sealed(put(put(body(), ("nodes", 13), ["entry", "Y", [12, 12]]), ("nodes", 47), ["entry", "Y", [12]])),
     "a definition that rests on itself"),
    (changed("context", "booleans", to=["Y", "keep"]), "one name"),
    (changed("nodes", 9, to=["add", [3, 8]]), "the axes inside have another size"),
    (changed("context", "bijections", to={"rho": 10}), "no such bijection"),
]


@pytest.mark.parametrize(("bad", "why"), MEANINGLESS, ids=range(len(MEANINGLESS)))
def test_statements_that_say_nothing_are_rejected(bad: str, why: str) -> None:
    result = recheck(bad)
    assert (result["verdict"], why in result["why"]) == ("rejected", True), result


def test_rejection_names_goal_side_and_step() -> None:
    result = recheck(changed("goals", 1, "left_steps", 2, 1, to=[0]))
    assert result["verdict"] == "rejected"
    assert (result["goal"], result["side"], result["step"]) == ("in_numbers#1", "left", 3)
    result = recheck(changed("goals", 4, "left_steps", to=[]))
    assert (result["verdict"], result["goal"], result["why"]) == (
        "rejected", "once", "the two sides end in different terms"
    )  # fmt: skip
    assert "step" not in result


def test_what_the_checker_cannot_follow_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises, and whatever else it proved."""

    def fails(*_: object) -> dict[str, object]:
        raise KeyError("no such domain")

    module = sys.modules["mha_sym.proof.recheck"]
    monkeypatch.setattr(module, "check_all", fails)
    found = recheck(text("small"))
    assert found["verdict"] == "rejected"
    assert found["why"] == "cannot be replayed: KeyError: 'no such domain'"
    def rejects(*_: object) -> dict[str, object]:
        raise Rejected("for a reason of its own")

    monkeypatch.setattr(module, "check_all", rejects)
    assert recheck(text("small"))["why"] == "for a reason of its own"
    monkeypatch.setattr(module, "check_all", lambda *_: {"another goal": None})
    found = recheck(text("small"))
    assert found["verdict"] == "rejected"
    assert found["why"] == "the checker proved other goals"


def test_no_lemma_may_be_used_before_it_is_proved() -> None:
    step = ["lemma", [], {"name": "once", "at": [2, 5], "back": False}]
    assert recheck(changed("goals", 4, "left_steps", to=[step]))["verdict"] == "rejected"


# ---------------------------------------------------------------- fuzzing

#: inputs of each kind; a long run sets more, e.g. MHA_SYM_FUZZ=100000
EXAMPLES = int(os.environ.get("MHA_SYM_FUZZ", "200"))

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 60) | st.integers() | st.text(max_size=5)
    | st.sampled_from([*schema.NODES, *schema.ARGUMENTS, "1/2", "sum", "le"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=8,
)  # fmt: skip


def judged(bad: str | bytes) -> dict[str, Any]:
    """The result, which is one of three words, with a reason unless accepted, within 5 seconds."""
    start = time.perf_counter()
    result = recheck(bad)
    assert time.perf_counter() - start < 5
    assert result["verdict"] in CODES and (result["verdict"] == "accepted" or result["why"])
    return result


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=300))
def test_random_bytes_are_unreadable(noise: bytes) -> None:
    assert judged(noise)["verdict"] == "unreadable"


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_damaged_bytes_are_never_accepted(data: st.DataObject) -> None:
    whole = text("small").encode()
    at = data.draw(st.integers(0, len(whole) - 1))
    cut = data.draw(st.integers(0, 20))
    noise = data.draw(st.binary(max_size=5))
    damaged = whole[:at] + noise + whole[at + cut :]
    try:
        same = json.loads(damaged) == json.loads(whole)
    except ValueError:
        same = False
    assert same or judged(damaged)["verdict"] != "accepted"


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_forged_json_is_judged(data: st.DataObject) -> None:
    members = body()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(parts(members))))
        members = put(members, path, data.draw(JSON_VALUES))
    try:
        forged = sealed(members)
    except UnicodeEncodeError:
        return
    judged(forged)


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_forged_steps_prove_nothing_false(data: st.DataObject) -> None:
    """Steps of all goals in any order, over a false statement: never accepted."""
    members = body()
    members["goals"][3]["right"] = 30  # the sum of a row of weights is said to be d[1]
    steps = [step for goal in body()["goals"] for side in ("left_steps", "right_steps") for step in goal[side]]
    for side in ("left_steps", "right_steps"):
        members["goals"][3][side] = data.draw(st.lists(st.sampled_from(steps), max_size=6))
    assert judged(sealed(members))["verdict"] != "accepted"


# ---------------------------------------------------------------- in a process of its own


def test_recheck_loads_nothing_but_reader_and_checker() -> None:
    result = recheck_apart(text("small").encode())
    assert result["verdict"] == "accepted"
    own = ("checker", "reader", "recheck", "rules", "schema", "scope", "terms")
    assert result["modules"] == ["mha_sym", "mha_sym.proof", *(f"mha_sym.proof.{name}" for name in own)]


def test_recheck_imports_no_package_and_no_search() -> None:
    code = (
        "import sys, mha_sym.proof.recheck as r; print(r.recheck(sys.stdin.buffer.read())['verdict']);"
        "print(*sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'__main__'}));"
        "print(*sorted(m for m in sys.modules if m.startswith('mha_sym.')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], input=text("small").encode(), capture_output=True, cwd=ROOT, check=True
    )
    verdict, packages, modules = ended.stdout.decode().splitlines()
    assert verdict == "accepted"
    assert {name for name in packages.split() if not name.startswith(("_", "sitecustomize"))} == {"mha_sym"}
    search = {"normal", "rewrite", "prover", "meaning", "cancelling", "monomial", "refute", "witness"}
    assert not {name.split(".")[-1] for name in modules.split()} & search
    assert "attention" not in modules


#: three sums over 4096 positions each, written out from the inside: as many terms as no memory holds
EXPLOSION = with_nodes(
    ["num", "4096"], ["domain", "a", 0, [], []], ["var", "a", 1], ["var", "b", 1], ["var", "c", 1],
    ["entry", "x", [2, 3, 4]], ["bind", "sum", 4, 5], ["bind", "sum", 3, 6], ["bind", "sum", 2, 7],
)  # fmt: skip


def test_explosion_is_given_up() -> None:
    members = json.loads(EXPLOSION)
    del members["sha256"]
    members["goals"][0]["left_steps"] = [["enumerate_sum", path, {}] for path in ([0, 0], [0], [])]
    start = time.perf_counter()
    result = recheck_apart(sealed(members).encode(), seconds=3)
    assert result["verdict"] == "unreadable"
    assert "not checked within 3 seconds" in result["why"] or "MiB" in result["why"], result
    assert time.perf_counter() - start < 5


# ---------------------------------------------------------------- the commands


def test_commands_write_and_recheck(tmp_path: Path, command: Command) -> None:
    file, name = tmp_path / "c.json", "softmax_rows_sum_to_one"
    made = command("prove", name, "--no-recheck", "--certificate", str(file), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert file.read_text(encoding="utf-8") == text(name)
    again = command("prove", name, "--no-recheck", "--certificate", str(file), cwd=tmp_path)
    assert again.returncode == 2 and "exists; hint: give --force" in again.stderr
    checked = command("recheck", str(file), cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout == (
        "softmax_rows_sum_to_one: accepted\n"
        "  Every row of the weights sums to one\n"
        "  goals: 3 (rows, masked_rows, layer)\n"
        "  steps: 9\n"
        "  rules: factor 3, cancel 3, arithmetic 2, unfold 1\n"
        "  assumes: every query keeps at least one key (steps that use it: 2)\n"
        "  definitions: A, K, K_flat, Q, Q_flat, S\n"
        "  booleans: keep\n"
        "  statement: as in the library\n"
    )


@pytest.mark.parametrize(("change", "code", "line"), [
    (("theorem", "name", "elsewhere"), 0, "  statement: not in the library\n"),
    (("theorem", "name", "elsewhere"), 0, "elsewhere: accepted; the library has no theorem of this name, and nothing"),
    (("theorem", "title", "Rows\n  statement: as in the library"), 1,
     "its steps are right, but its statement differs from the library in the title of the theorem\n"),
    (("theorem", "assumptions", 0, "words", "keys are kept"), 1, "its statement differs from the library in the assu"),
    (("goals", 1, "left_steps", []), 1, "rejected: goal masked_rows: the two sides end in different terms\n"),
    (("goals", 1, "left_steps", 1, 0, "pull"), 2, "unreadable: $.goals[1].left_steps[1][2]: no member 'position'\n"),
    (("goals", 1, "left_steps", 1, 1, [0]), 1, "rejected: goal masked_rows, step 2 on the left: factor at (0,): "),
])  # fmt: skip
def test_recheck_tells_how_it_ends(
    change: tuple[Any, ...], code: int, line: str, tmp_path: Path, command: Command
) -> None:
    file = tmp_path / "c.json"
    file.write_text(sealed(put(body("softmax_rows_sum_to_one"), change[:-1], change[-1])), encoding="utf-8")
    ended = command("recheck", str(file), cwd=tmp_path)
    assert ended.returncode == code
    assert line in (ended.stderr if code else ended.stdout)
    assert ended.stdout.count("\n  statement:") == (1 if "statement" in line or not code else 0)


def test_recheck_as_json(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "c.json"
    file.write_text(text("small"), encoding="utf-8")
    ended = command("recheck", str(file), "--json", cwd=tmp_path)
    result = json.loads(ended.stdout)
    assert (ended.returncode, result["verdict"], result["statement"]) == (0, "accepted", "not in the library")
    assert result["rules"]["table"] == 8


def test_recheck_of_no_file(tmp_path: Path, command: Command) -> None:
    for place in (tmp_path / "none.json", tmp_path):
        ended = command("recheck", str(place), cwd=tmp_path)
        assert ended.returncode == 2
        assert ended.stderr.startswith(f"mha-sym: {place} cannot be read: ")


def test_one_certificate_at_a_time(tmp_path: Path, command: Command) -> None:
    ended = command("prove", "small", "smaller", "--certificate", str(tmp_path / "c.json"), cwd=tmp_path)
    assert (ended.returncode, "one theorem at a time" in ended.stderr) == (2, True)


# ---------------------------------------------------------------- speed


#: seconds that `_loop` took where the 20 ms were measured; a slower machine gets more
REFERENCE = 0.0045


def _loop() -> int:
    return sum(number * number % 7 for number in range(100_000))


@pytest.mark.parametrize("name", theorem_names())
def test_checking_is_a_fraction_of_finding(name: str) -> None:
    """Less than a tenth of the time in which the claims were proved, or 20 ms, whichever is more."""
    finding = sum(outcome.seconds for outcome in report(name).claims)
    found = read(text(name))
    checking = _best(lambda: check_all(found.certificates, found.statement.context))
    slow = max(1.0, _best(_loop) / REFERENCE)
    print(f"{name}: finding {1e3 * finding:.0f} ms, reading {1e3 * _best(lambda: read(text(name))):.1f} ms,"
          f" checking {1e3 * checking:.1f} ms, machine {slow:.2f}")
    assert checking <= max(finding / 10, 0.020 * slow)


def _best(work: Callable[[], object]) -> float:
    """The least processor time of several runs, with nothing remembered from the one before."""
    seconds = []
    for _ in range(7):
        for module in (terms, scope):
            for function in vars(module).values():
                if hasattr(function, "cache_clear"):
                    function.cache_clear()
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)
