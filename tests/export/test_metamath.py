"""Metamath files: every theorem verified by a verifier of our own making, and refused with anything changed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sympy

from mha_sym.axes import axis
from mha_sym.export.metamath import NotWritten, metamath_file
from mha_sym.expr import Input
from mha_sym.library import load, theorem_names
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Claim, Report, Theorem
from tests.export.metamath_verifier import Wrong, verify

SMALL = ("softmax_rows_sum_to_one", "concat_output_eq_sum_over_heads", "head_permutation_leaves_layer_unchanged")


@cache
def report(name: str) -> Report:
    return prove(replace(load(name), controls=()), recheck=False)


@cache
def text(name: str) -> str:
    return metamath_file(report(name))


@pytest.mark.parametrize("name", theorem_names())
def test_every_theorem_is_verified(name: str) -> None:
    goals = sum(len(outcome.certificates) for outcome in report(name).claims)
    assert len(verify(text(name))) == goals
    assert text(name).isascii()


def test_goals_say_what_the_theorem_says() -> None:
    said = re.findall(r"goal\.\w+ \$p (.*?) \$=", text("softmax_rows_sum_to_one"))
    assert len(said) == 3 and all(one.startswith("|- sum s. s:") and one.endswith(" = 1") for one in said)
    assert " A[ 'b , 'r , 't , s. ] = 1" in said[2]


def test_only_proved_theorems_are_written() -> None:
    x = Input("x", (axis("t"),))
    with pytest.raises(NotWritten, match="only proved theorems are written"):
        metamath_file(prove(Theorem("wrong", "", "", (Claim("one", x, x * 2),)), recheck=False))


def test_names_do_not_clash() -> None:
    t = axis("t", "exp")
    names = ("$x", "x[", "R0", "V0", "P0", "sum", "'T1", "real", "x y", "ä", "ö", "law.pull.0", "|-", "=", "+")
    inputs = [Input(name, (t,)) for name in names]
    claims = tuple(Claim(f"c{n}", one + other, other + one * 1) for n, (one, other) in enumerate(pairwise(inputs)))
    made = metamath_file(prove(Theorem("$) names", "$( ä", "", claims), recheck=False))
    assert len(verify(made)) == len(claims)


def test_the_command_writes_the_same_file(tmp_path: Path, command: Callable[..., Any]) -> None:
    done = command("prove", SMALL[0], "--metamath", str(tmp_path / "it.mm"), "--no-recheck")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "it.mm").read_text(encoding="utf-8") == text(SMALL[0])


# ---------------------------------------------------------------- nothing changed is accepted


def changes(name: str, rng: random.Random, count: int) -> list[tuple[str, str]]:
    """One symbol of a goal or one letter or label of a proof changed, or a condition on variables left out."""
    lines, found = text(name).split("\n"), list[tuple[str, str]]()
    places = [n for n, line in enumerate(lines) if " $p " in line]
    while len(found) < count:
        n = rng.choice(places)
        start, proof = lines[n].split(" $= ")
        head, statement = start.split(" $p ")
        labels, letters = proof.split(" ) ")
        match rng.choice(["statement", "letter", "label", "condition"]):
            case "statement":
                symbols = statement.split()
                place = rng.randrange(1, len(symbols))
                symbols[place] = rng.choice([one for one in symbols if one != symbols[place]])
                statement = " ".join(symbols)
            case "letter":
                place = rng.choice([m for m, one in enumerate(letters) if one in "ABCDEFGHIJKLMNOPQRST"])
                letters = letters[:place] + rng.choice("ABCDEFGHIJKLMNOPQRST") + letters[place + 1 :]
            case "label":
                words = labels.split()
                place = rng.randrange(1, len(words))
                words[place] = rng.choice([one for one in words[1:] if one != words[place]] or ["eq.refl"])
                labels = " ".join(words)
            case "condition" if "$d" in head:
                head = re.sub(r"\$d [^$]* \$\. ", "", head)
        line = f"{head} $p {statement} $= {labels} ) {letters}"
        if line != lines[n]:
            found.append(("\n".join([*lines[:n], line, *lines[n + 1 :]]), line))
    return found


@pytest.mark.parametrize("name", SMALL)
def test_a_change_is_refused(name: str) -> None:
    rng = random.Random(name)
    for changed, line in changes(name, rng, 60):
        if _says_the_same(changed, name):
            continue  # a letter for one that proves the same
        with pytest.raises(Wrong):
            verify(changed)
            print(line)


def _says_the_same(changed: str, name: str) -> bool:
    """Whether a changed proof is right and of the same statements: two subproofs may be alike."""
    said = [re.findall(r"\$p (.*?) \$=", one) for one in (changed, text(name))]
    if said[0] != said[1] or changed.count("$d") != text(name).count("$d"):
        return False
    try:
        return bool(verify(changed))
    except Wrong:
        return False


# ---------------------------------------------------------------- the laws

NUMBER_LAWS = "arithmetic|distribute|take_out|collect|exp_of_sum|exp_product|inverse_of_exp|inverse_of_product"


@pytest.mark.parametrize("name", theorem_names())
def test_laws_about_numbers_are_true(name: str) -> None:
    """Each law without a sum, read as a formula: both sides agree where unknowns are rational, and exp is one."""
    laws = re.findall(rf"law\.(?:{NUMBER_LAWS})\.\d+ \$a \|- (.*?) \$\.", text(name))
    for law in laws:
        if "sum" not in law.split() and "max" not in law.split():
            left, right = (formula(side.split()) for side in law.split(" = "))
            unknown = sorted(left.free_symbols | right.free_symbols, key=str)
            for seed in (1, 2):
                at = {one: sympy.Rational(seed * n * n + 3, n + 2) ** 2 for n, one in enumerate(unknown)}
                assert sympy.powdenest((left - right).subs(at)) == 0 or sympy.simplify(left - right) == 0, law


def formula(words: list[str]) -> sympy.Expr:
    """An expression of a file; entries and brackets are unknowns."""
    word = words.pop(0)
    if word in ("(", "(+", "(*"):
        found, sign = ([] if words[0] == ")" else [formula(words)]), word[1:]
        while words[0] != ")":
            sign = words.pop(0)
            found.append(formula(words))
        words.pop(0)
        return sympy.Add(*found) if sign == "+" else sympy.Mul(*found)
    if word in ("exp(", "inv("):
        inner = formula(words)
        words.pop(0)
        return sympy.exp(inner) if word == "exp(" else 1 / inner
    size = re.fullmatch(r"\|(\w+)\|\^(-?\d+(?:/\d+)?)", word)
    if size:
        base = sympy.Integer(size[1]) if size[1].isdigit() else sympy.Symbol(size[1], positive=True)
        return base ** sympy.Rational(size[2])
    if re.fullmatch(r"-?\d+(/\d+)?", word):
        return sympy.Rational(word)
    if word.endswith("["):
        end = words.index("]")
        word, words[: end + 1] = " ".join([word, *words[: end + 1]]), []
    return sympy.Symbol(word, positive=True)


# ---------------------------------------------------------------- the verifier

BASE = """$c ( ) = |- t v $. $v a b x y $. fa $f t a $. fb $f t b $. fx $f v x $. fy $f v y $.
${ $d x a $. bind $a t ( x a ) $. $} eq $a |- a = a $. ${ e $e |- a = b $. sym $a |- b = a $. $} """


@pytest.mark.parametrize(("text_", "right"), [
    (BASE + "p $p |- a = a $= fa eq $.", True),
    (BASE + "p $p |- a = a $= ( eq ) AB $.", True),
    (BASE + "${ $d x b $. p $p |- ( x b ) = ( x b ) $= ( bind eq ) ABCD $. $}", True),
    (BASE + "p $p |- ( x b ) = ( x b ) $= ( bind eq ) ABCD $.", False),
    (BASE + "p $p |- a = b $= fa eq $.", False),
    (BASE + "p $p |- a = a $= fb eq $.", False),
    (BASE + "p $p |- a = a $= fx eq $.", False),
    (BASE + "p $p |- a = a $= eq $.", False),
    (BASE + "p $p |- a = a $= fa fa eq $.", False),
    (BASE + "p $p |- a = a $= fa none $.", False),
    (BASE + "p $p |- a = a $= fa p $.", False),
    (BASE + "p $p |- b = a $= ( sym ) ABAC $.", False),
    (BASE + "${ h $e |- a = b $. p $p |- b = a $= ( sym ) ABCD $. $} q $p |- a = a $= ( eq p ) AAABZC $.", True),
    (BASE + "${ h $e |- a = b $. p $p |- b = a $= ( sym ) ABCD $. $} q $p |- a = b $= h $.", False),
    (BASE + "p $p |- a = c $= fa eq $.", False),
    (BASE + "eq $a |- a = b $.", False),
    (BASE + "${", False),
])  # fmt: skip
def test_the_verifier(text_: str, right: bool) -> None:
    if right:
        assert verify(text_)
    else:
        with pytest.raises(Wrong):
            verify(text_)
