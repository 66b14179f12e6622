"""Coq accepts what is exported, rule by rule and for whole theorems, and refuses it with anything changed.

All of it is decided by ``coqc``; where there is none, these tests are skipped and say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from mha_sym.axes import Axis, axis, product
from mha_sym.errors import Problem
from mha_sym.export.coq import coq_file
from mha_sym.export.coq_rules import SCRIPTS, script
from mha_sym.export.coq_statement import Statement, preamble, writer_for
from mha_sym.export.coq_terms import NotExported
from mha_sym.expr import Contract, Input, Reduce, Repeat, Reshape, Scalar, Select, Softmax, Split, as_expr
from mha_sym.library import load, proofs_directory, theorem_names
from mha_sym.proof.checker import Step, apply_step
from mha_sym.proof.meaning import Meaning, domain
from mha_sym.proof.prover import prove
from mha_sym.proof.rules import RULES, Definition, Goal
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Entry,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Term,
    Var,
    sum_over,
)
from mha_sym.proof.terms import Domain as Positions
from mha_sym.proof.theorem import Claim, Theorem

LAWS = proofs_directory() / "coq" / "rules.v"
needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="coqc is not installed, so no Coq proof was checked"
)


def coqc(path: Path) -> subprocess.CompletedProcess[str]:
    line = ["coqc", "-q", "-w", "none", path.name]
    return subprocess.run(line, cwd=path.parent, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the laws are compiled, so that each file need not hold them."""
    place = tmp_path_factory.mktemp("coq")
    shutil.copy(LAWS, place / "rules.v")
    done = coqc(place / "rules.v")
    assert done.returncode == 0, done.stderr
    return place


def beside_the_laws(text: str) -> str:
    """An exported file without its copy of the laws."""
    laws = LAWS.read_text(encoding="utf-8")
    assert text.startswith(laws)
    head = laws[laws.index("From Coq") : laws.index("Local Open Scope ring_scope.")]
    return f"{head}Local Open Scope ring_scope.\nRequire Import rules.\n{text.removeprefix(laws)}"


def verdict(directory: Path, text: str, name: str = "tried") -> subprocess.CompletedProcess[str]:
    path = directory / f"{name}.v"
    path.write_text(text, encoding="utf-8")
    return coqc(path)


def exported(theorem: Theorem) -> str:
    return coq_file(prove(replace(theorem, controls=()), recheck=False))


# ---------------------------------------------------------------- whole theorems

SMALL = ("softmax_rows_sum_to_one", "head_permutation_leaves_layer_unchanged", "concat_output_eq_sum_over_heads")


@needs_coq
@pytest.mark.parametrize("name", SMALL)
def test_an_exported_theorem_stands_alone_and_rests_on_nothing_else(name: str, tmp_path: Path) -> None:
    text = exported(load(name))
    done = verdict(tmp_path, text)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Closed under the global context"
    assert f"Theorem {name} :" in text
    assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture|Abort)\b", text)


@needs_coq
@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("MHA_SYM_COQ") != "all", reason="minutes: set MHA_SYM_COQ=all for every theorem")
@pytest.mark.parametrize("name", [name for name in theorem_names() if name not in SMALL])
def test_every_other_theorem_is_accepted(name: str, directory: Path) -> None:
    done = verdict(directory, beside_the_laws(exported(load(name))), name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Closed under the global context"


def test_what_is_taken_for_granted_is_what_the_statement_declares() -> None:
    text = exported(load("head_permutation_leaves_layer_unchanged"))
    statement = text[text.index("Section Statement.") :]
    hypotheses = re.findall(r"^Hypothesis (\w+) : (.*)\.$", statement, re.MULTILINE)
    sizes = {f"{size}_gt0" for size in ("B", "S", "T", "d_k", "d_model", "d_v", "h")}
    granted = dict(hypotheses)
    assert set(granted) - sizes == {"sqrt_d_k_gt0", "sqrt_d_k_power", "exp_add", "exp_positive", "assumed0"}
    assert granted["sqrt_d_k_power"] == "sqrt_d_k ^+ 2 = d_k%:R"
    assert granted["exp_add"] == "forall x y, exp (x + y) = exp x * exp y"
    assert granted["assumed0"] == "(forall (b : 'I_B) (t : 'I_T), 0 < (\\sum_(s < S) (keep b t s)%:R) :> R)"
    assert "Variable keep : 'I_B -> 'I_T -> 'I_S -> bool." in statement
    assert "Variable pi : 'S_h." in statement


def test_each_step_of_the_certificate_is_a_lemma_of_its_rule() -> None:
    report = prove(replace(load("softmax_rows_sum_to_one"), controls=()), recheck=False)
    lemmas = re.findall(r"^Lemma \w+_(?:left|right)\d+_(\w+) ", coq_file(report), re.MULTILINE)
    steps = [s.rule for o in report.claims for c in o.certificates for s in (*c.left, *c.right)]
    assert lemmas == [rule for rule in steps if rule in lemmas]
    assert len(lemmas) >= len(steps) - 1  # a step that only opens nesting may be the same text in Coq


@needs_coq
def test_words_of_coq_and_equal_names_do_not_clash(directory: Path) -> None:
    t, u = axis("t", "exp"), axis("u", "Qed")
    names = ("fun", "t", "x0", "i", "E0", "pull", "R", "mulx", "known", "row", "S", "O", "nat_of_bool")
    inputs = [Input(name, (t, u)) for name in names]
    left = Contract(tuple(inputs[:6]), (u,)) + Softmax(inputs[6], (t,)) * Reduce("sum", inputs[7], (u,))
    right = Softmax(inputs[6], (t,)) * Reduce("sum", inputs[7], (u,)) + Contract(tuple(reversed(inputs[:6])), (u,))
    rest = Reduce("sum", inputs[8] * (inputs[9] + inputs[10]), (u,)), Reduce("sum", inputs[11] * inputs[12], (u,))
    claims = (Claim("exact", left, right), Claim("Lemma", rest[0] + rest[1], rest[1] + rest[0]))
    done = verdict(directory, beside_the_laws(exported(Theorem("forall", 'say "(* this *)"', "", claims))))
    assert done.returncode == 0, done.stderr


@needs_coq
def test_sizes_that_are_numbers(directory: Path) -> None:
    t, k, n, h = axis("t"), axis("k", 64), axis("n", 512), axis("h", 8)
    x, y = Input("x", (t, k)), Input("y", (k, n))
    table = Contract((x, y), (t, n))
    count = Reduce("sum", Repeat(as_expr(3), (h, k, n)), (h, k, n))
    claims = (
        Claim("ones", Reduce("sum", Contract((x, y * 0 + 1), (t, n)), (n,)), Reduce("sum", x, (k,)) * 512),
        Claim("scaled", Reduce("sum", table * 8 * 64 * Scalar(1 / n.size), (n,)), Reduce("sum", table, (n,))),
        Claim("counted", count, as_expr(3 * 8 * 64 * 512)),
        Claim("pairs", Reduce("sum", Input("z", (product(h, n),)), (product(h, n),)),
              Reduce("sum", Split(Input("z", (product(h, n),)), product(h, n)), (h, n))),
        Claim("first_and_last", Select(y, n, 0) + Select(y, n, 511), Select(y, n, 511) + Select(y, n, 0)),
    )  # fmt: skip
    done = verdict(directory, beside_the_laws(exported(Theorem("numbers", "", "", claims))))
    assert done.returncode == 0, done.stderr


def test_the_command_writes_the_same_file(tmp_path: Path, command: Callable[..., Any]) -> None:
    done = command("prove", SMALL[0], "--coq", str(tmp_path / "it.v"), "--no-recheck")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "it.v").read_text(encoding="utf-8") == exported(load(SMALL[0]))
    again = command("prove", SMALL[0], "--coq", str(tmp_path / "it.v"), "--no-recheck")
    assert again.returncode == 2 and "exists" in again.stderr


# ---------------------------------------------------------------- what cannot be exported


def test_only_proved_theorems_are_exported() -> None:
    x = Input("x", (axis("t"),))
    with pytest.raises(NotExported, match="only proved theorems are exported"):
        coq_file(prove(Theorem("wrong", "", "", (Claim("one", x, x * 2),)), recheck=False))


def test_a_raw_reshape_is_refused_in_words() -> None:
    a, b = axis("a"), axis("b")
    x = Input("x", (a, b))
    crossed = Reshape(x, (b, a))
    with pytest.raises(Problem, match="raw reshapes between unequal shapes are not exported"):
        coq_file(prove(Theorem("raw", "", "", (Claim("one", crossed + crossed, crossed * 2),)), recheck=False))


# ---------------------------------------------------------------- rule by rule


@dataclass
class Case:
    """A term, a step, and what they rest on."""

    name: str
    term: Term
    step: Step
    variables: tuple[Var, ...] = ()
    lemmas: dict[str, Goal] = field(default_factory=dict)


A, B, C = axis("a"), axis("b"), axis("c", "m")
AB = product(A, B)
THREE = axis("n", 3)
PAIRS, LINKED = domain(AB), Positions("l", Add((Size("a"), Size("b"))), (), (domain(A), domain(B)))
i, j, u = Var("i", domain(A)), Var("j", domain(B)), Var("u", domain(A))
k, c, n = Var("k", domain(B)), Var("c", PAIRS), Var("n", domain(THREE))
GIVEN: dict[str, tuple[Axis, ...]] = {
    "x": (A,), "y": (A,), "z": (B,), "w": (A, B), "v": (AB,), "q": (THREE,), "s": (), "r": (), "K": (A,), "L": (A, B),
}  # fmt: skip
x, y, w, z = Entry("x", (i,)), Entry("y", (i,)), Entry("w", (i, j)), Entry("z", (j,))
s, r, K, L, v = Entry("s", ()), Entry("r", ()), Entry("K", (i,)), Entry("L", (i, j)), Entry("v", (c,))
exp_x, half = Apply("exp", x), Num(Fraction(-1, 2))


def num(top: int, bottom: int = 1) -> Num:
    return Num(Fraction(top, bottom))


def inv(term: Term) -> Term:
    return Apply("inv", term)


def at(first: int, *more: int) -> tuple[int, ...]:
    return (first, *more)


def le(left: Any, right: Any, offset: int = 0) -> Cmp:
    return Cmp("le", left, right, offset)


def step(rule: str, *path: int, **args: Any) -> Step:
    return Step(rule, path, args)


CASES = [
    Case("unfold", Mul((s, Entry("D", (i, j)))), step("unfold", 1)),
    Case("unfold_pair", sum_over(j, Entry("P", (Join(PAIRS, (i, j)),))), step("unfold", 0)),
    Case("arithmetic", Mul((Mul((x, half)), Size("a"), Mul((y, num(4), inv(r), Size("a"))))), step("arithmetic")),
    Case("arithmetic_root", Mul((Size("a"), x, Size("a", Fraction(-1, 2)), num(2, 3))), step("arithmetic")),
    Case("arithmetic_cube", Mul((Size("b", Fraction(1, 3)), x, Size("b", Fraction(-4, 3)))), step("arithmetic")),
    Case("arithmetic_zero", Mul((x, num(0), y)), step("arithmetic")),
    Case("arithmetic_sum", Add((num(1, 3), x, Add((y, num(-2))))), step("arithmetic")),
    Case("arithmetic_inverse", inv(num(-3, 7)), step("arithmetic")),
    Case("arithmetic_inverse_of_zero", inv(num(0)), step("arithmetic")),
    Case("arithmetic_inverse_of_size", Add((s, inv(Size("a", Fraction(-1, 2))))), step("arithmetic", 1)),
    Case("arithmetic_inverse_of_power", inv(Size("a", Fraction(2))), step("arithmetic")),
    Case("arithmetic_inverse_twice", inv(inv(x)), step("arithmetic")),
    Case("arithmetic_exp", Apply("exp", num(0)), step("arithmetic")),
    Case("distribute", Mul((x, Add((y, s, r)), s)), step("distribute", position=1)),
    Case("distribute_last", Mul((x, Add((y, s)))), step("distribute", position=1)),
    Case(
        "take_out", Add((Mul((x, y, s)), Mul((r, Mul((y, x)))), Mul((y, s, x)))),
        step("take_out", positions=(at(0, 1), (1,), at(2, 0))),
    ),
    Case("take_out_all", Add((x, Mul((s, x)))), step("take_out", positions=((0,), (1,)))),
    Case("collect", Add((Mul((num(2), x, y)), s, Mul((y, x)))), step("collect", first=0, second=2)),
    Case("collect_only", Add((x, Mul((x, num(-1))))), step("collect", first=0, second=1)),
    Case("pull", Mul((s, sum_over(j, Mul((w, z))), r)), step("pull", position=1)),
    Case("pull_renamed", Mul((z, sum_over(j, w))), step("pull", position=1), (j, i)),
    Case("factor", sum_over(i, Mul((x, s, y, r))), step("factor", positions=(3, 1))),
    Case("factor_all", sum_over(i, Mul((s, r))), step("factor", positions=(0, 1))),
    Case("exchange", Apply("exp", sum_over(i, sum_over(j, Mul((w, x))))), step("exchange", 0)),
    Case("sum_of_sum", sum_over(i, Add((x, Mul((y, s)), s))), step("sum_of_sum")),
    Case("constant_sum", sum_over(i, Mul((s, r))), step("constant_sum")),
    Case("constant_sum_of_pairs", sum_over(c, s), step("constant_sum")),
    Case("constant_sum_of_number", sum_over(n, s), step("constant_sum")),
    Case("split_sum", sum_over(c, Mul((v, Entry("w", (Part(c, PAIRS, 0), Part(c, PAIRS, 1)))))), step("split_sum")),
    Case("enumerate_sum", sum_over(n, Mul((Entry("q", (n,)), s))), step("enumerate_sum")),
    Case("delta", sum_over(u, Mul((s, Cmp("eq", u, i), Entry("w", (u, j))))), step("delta", position=1)),
    Case("delta_back", sum_over(u, Mul((Cmp("eq", i, u), Entry("x", (u,))))), step("delta", position=0)),
    Case("delta_alone", sum_over(u, Cmp("eq", i, u)), step("delta", position=0)),
    Case(
        "delta_pair",
        sum_over(c, Mul((Entry("x", (Part(c, PAIRS, 0),)), Cmp("eq", c, Join(PAIRS, (i, j))), v))),
        step("delta", position=1),
    ),
    Case("reindex", sum_over(i, Mul((x, y))), step("reindex", name="pi", inverse=False)),
    Case(
        "reindex_back", sum_over(i, Mul((x, Entry("y", (Perm("pi", False, i),))))),
        step("reindex", name="pi", inverse=True),
    ),
    Case("exp_of_sum", inv(Apply("exp", Add((x, s, Mul((half, y)))))), step("exp_of_sum", 0)),
    Case("exp_product", Mul((s, exp_x, r, Apply("exp", s))), step("exp_product", first=3, second=1)),
    Case("exp_product_only", Mul((exp_x, exp_x)), step("exp_product", first=0, second=1)),
    Case("inverse_of_exp", inv(exp_x), step("inverse_of_exp")),
    Case("inverse_of_product", inv(Mul((x, exp_x, s))), step("inverse_of_product")),
    Case(
        "cancel", Mul((s, inv(sum_over(u, Apply("exp", Entry("x", (u,))))), r, sum_over(i, exp_x))),
        step("cancel", value=3, inverse=1),
    ),
    Case(
        "cancel_reordered",
        Mul((inv(Mul((Size("a"), exp_x, num(2, 3)))), Mul((num(2, 3), exp_x, Size("a"))))),
        step("cancel", value=1, inverse=0),
    ),
    Case(
        "cancel_root", Mul((Size("a", Fraction(-3, 2)), inv(Size("a", Fraction(-3, 2))))),
        step("cancel", value=0, inverse=1),
    ),
    Case(
        "cancel_sum", Mul((Add((exp_x, num(1), inv(exp_x))), inv(Add((num(1), exp_x, inv(exp_x)))), s)),
        step("cancel", value=0, inverse=1),
    ),
    Case(
        "cancel_pairs", Mul((sum_over(c, Apply("exp", v)), inv(sum_over(c, Apply("exp", v))))),
        step("cancel", value=0, inverse=1),
    ),
    Case(
        "cancel_causal_row",
        Mul((sum_over(u, Mul((exp_x, le(u, i), exp_x))), inv(sum_over(u, Mul((exp_x, le(u, i), exp_x)))))),
        step("cancel", value=0, inverse=1),
    ),
    Case(
        "cancel_row_of_two_brackets",
        Mul((sum_over(u, Mul((le(u, i), exp_x, le(u, u, 2)))), inv(sum_over(u, Mul((le(u, i), exp_x, le(u, u, 2))))))),
        step("cancel", value=0, inverse=1),
    ),
    Case(
        "cancel_kept_row",
        Mul((s, sum_over(u, Mul((Entry("L", (u, j)), exp_x))), inv(sum_over(u, Mul((exp_x, Entry("L", (u, j)))))))),
        step("cancel", value=1, inverse=2, given=((0, (j,)),)),
    ),
    Case(
        "cancel_row_kept_by_two",
        Mul((sum_over(u, Mul((Entry("L", (u, j)), exp_x, le(u, i)))),
             inv(sum_over(u, Mul((Entry("L", (u, j)), exp_x, le(u, i))))))),
        step("cancel", value=0, inverse=1, given=((1, (i, j)),)),
    ),
    Case("guard", Mul((s, Apply("exp", Add((y, Mul((K, x))))), K)), step("guard", brackets=(2,), where=(1, 0, 1, 0))),
    Case("guard_twice", Mul((x, K, s, K)), step("guard", brackets=(3,), where=(1,))),
    Case("guard_only", Mul((le(i, At(2), -1), le(i, At(2), -1))), step("guard", brackets=(0,), where=(1,))),
    Case(
        "guard_in_sum", Mul((L, sum_over(u, Mul((Entry("x", (u,)), L))))), step("guard", brackets=(0,), where=(1, 0, 1))
    ),
    Case(
        "guard_by_two", Mul((le(i, u, 5), x, le(j, u, 3), le(i, j, 2))), step("guard", brackets=(3, 2), where=(0,)),
        (i, j, u),
    ),
    Case(
        "guard_by_two_inside", Mul((le(j, u), Apply("exp", Mul((le(i, u, 1), x))), le(i, j, 1))),
        step("guard", brackets=(2, 0), where=(1, 0, 0)), (i, j, u),
    ),
    Case("spread", Mul((x, K, Apply("exp", x))), step("spread", brackets=(1,), where=(2, 0))),
    Case("spread_whole", Mul((K, x)), step("spread", brackets=(0,), where=(1,))),
    Case("spread_by_two", Mul((le(j, u, 3), y, le(i, j))), step("spread", brackets=(2, 0), where=(1,)), (i, j, u)),
    Case("compare_first", le(At(0), i), step("compare")),
    Case("compare_near", Mul((s, le(i, i, 2))), step("compare", 1)),
    Case("compare_itself", Cmp("eq", i, i), step("compare")),
    Case("compare_numbers", Cmp("eq", At(3), At(2), 1), step("compare")),
    Case("compare_numbers_apart", le(At(3), At(2)), step("compare")),
    Case("compare_pairs", Cmp("eq", Join(PAIRS, (i, j)), Join(PAIRS, (u, j))), step("compare"), (i, j, u)),
    Case("compare_permuted", Cmp("eq", Perm("pi", True, i), Perm("pi", True, u)), step("compare"), (i, u)),
    Case("compare_left", Cmp("eq", Inj(i, LINKED, 0), Inj(u, LINKED, 0)), step("compare"), (i, u)),
    Case("compare_right", Cmp("eq", Inj(j, LINKED, 1), Inj(k, LINKED, 1)), step("compare"), (j, k)),
    Case("compare_apart", Cmp("eq", Inj(i, LINKED, 0), Inj(j, LINKED, 1)), step("compare"), (i, j)),
    Case("compare_apart_back", Cmp("eq", Inj(j, LINKED, 1), Inj(i, LINKED, 0)), step("compare"), (i, j)),
    Case("inside_a_maximum", Bind("max", i, Mul((x, Add((y, s))))), step("distribute", 0, position=1)),
    Case("inside_an_unknown_function", Apply("relu", Mul((x, Add((y, s))))), step("distribute", 0, position=1)),
]  # fmt: skip


def declared() -> Meaning:
    """Tensors, definitions, a bijection and assumptions for the cases."""
    meaning = Meaning(booleans={"K", "L"}, bijections={"pi": domain(A)})
    meaning.given.update({name: Input(name, over) for name, over in GIVEN.items()})
    meaning.definitions["D"] = Definition((i, j), Mul((w, sum_over(u, Entry("w", (u, j))))))
    parts = Part(c, PAIRS, 1), Part(c, PAIRS, 0)
    meaning.definitions["P"] = Definition((c,), Mul((v, Entry("z", (parts[0],)), Entry("x", (parts[1],)))))
    row = sum_over(u, Entry("L", (u, j)))
    both = sum_over(u, Mul((Entry("L", (u, j)), le(u, i))))
    meaning.positive += [((j,), row), ((i, j), both)]
    return meaning


def free_in(case: Case) -> tuple[Var, ...]:
    return case.variables or (i, j)


def rule_file(cases: Sequence[Case]) -> str:
    """One lemma a case, in a file beside the laws."""
    meaning = declared()
    context = meaning.context()
    ends = [apply_step(case.term, case.step, context) for case in cases]
    terms = (
        *(d.body for d in meaning.definitions.values()),
        *(t for _, t in meaning.positive),
        *(c.term for c in cases),
        *ends,
    )
    writer = writer_for(Statement(meaning, terms), LAWS.read_text(encoding="utf-8"))
    for case, end in zip(cases, ends, strict=True):
        binders = " ".join(map(writer.printer.binder, free_in(case)))
        text = script(writer, context, [one.name for one in free_in(case)], case.term, end, case.step)
        writer.lines.append(
            f"Lemma case_{case.name} {binders} : {writer.equation(case.term, end)}.\nProof. {text}. Qed."
        )
    lines, laws = preamble(writer, Statement(meaning, terms)), LAWS.read_text(encoding="utf-8")
    return beside_the_laws("\n".join([laws, "Section Statement.", *lines, *writer.lines, "End Statement.", ""]))


def test_the_cases_are_for_every_rule_but_two_and_each_rule_has_a_script() -> None:
    assert set(SCRIPTS) == set(RULES)
    assert {case.step.rule for case in CASES} == set(RULES) - {"table", "lemma"}  # those are in whole theorems


@needs_coq
def test_every_rule_is_accepted_with_places_that_are_not_the_first(directory: Path) -> None:
    done = verdict(directory, rule_file(CASES))
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- nothing false is accepted

MUTANTS = [
    ("softmax_rows_sum_to_one", r"(Theorem softmax_rows_sum_to_one :.*?\)\) = )1( :> R\))", r"\g<1>2%:R\2"),
    ("softmax_rows_sum_to_one", r"(Definition A .*?exp \(S1 b r t )s", r"\1s0"),
    (
        "softmax_rows_sum_to_one",
        r"Hypothesis exp_positive : forall x, 0 < exp x",
        "Hypothesis exp_positive : forall x, 0 <= exp x",
    ),
    ("softmax_rows_sum_to_one", r"Hypothesis S_gt0 : \(0 < S\)", "Hypothesis S_gt0 : (0 <= S)"),
    ("softmax_rows_sum_to_one", r"Hypothesis assumed0 : .*?\n", "\n"),
    ("softmax_rows_sum_to_one", r"(Definition rows_line1 .*?:= \(\(\\sum_\(u < S\) )", r"\1 2%:R * "),
    (
        "concat_output_eq_sum_over_heads",
        r"(Theorem concat_output_eq_sum_over_heads :.*?W_O__r_ r j) m",
        r"\1 t",
    ),
    ("concat_output_eq_sum_over_heads", r"apply: \(etrans \(split_sum _\)\)", "apply: (etrans (exchange _))"),
    ("head_permutation_leaves_layer_unchanged", r"reindex_sum \(pi\^-1\)%g", "reindex_sum pi"),
    ("head_permutation_leaves_layer_unchanged", r"Variable pi : 'S_h", "Variable pi : 'I_h -> 'I_h"),
]


@pytest.fixture(scope="module")
def originals() -> dict[str, str]:
    return {name: beside_the_laws(exported(load(name))) for name in SMALL}


@needs_coq
@pytest.mark.parametrize(("name", "pattern", "new"), MUTANTS)
def test_a_change_is_refused(directory: Path, originals: dict[str, str], name: str, pattern: str, new: str) -> None:
    changed, count = re.subn(pattern, new, originals[name], count=1, flags=re.DOTALL)
    assert count == 1 and changed != originals[name]
    assert verdict(directory, changed).returncode != 0
