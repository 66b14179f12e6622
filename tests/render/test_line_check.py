"""Lines as numbers: every line of every theorem is computed, and one that is spoilt on purpose is found and said."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_sym.cli import main
from mha_sym.cli.common import Exit
from mha_sym.errors import NotExact
from mha_sym.expr import Scalar
from mha_sym.library import theorem_names
from mha_sym.proof.meaning import Meaning
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Add, Apply, Bind, Entry, Mul, Num, Term, children, rebuild
from mha_sym.proof.theorem import Claim, Report, Theorem
from mha_sym.render import derivation as writing
from mha_sym.render.computed.line_check import check_lines
from mha_sym.render.computed.matrix_values import value
from mha_sym.render.computed.samples import samples
from mha_sym.render.computed.term_values import Floats, Fractions, Numbers
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.derive import FORMATS
from mha_sym.render.matrices import matrices_of
from mha_sym.render.matrix_kinds import Name, Product
from mha_sym.render.sentences import verdict


class TestEveryTheorem:
    def test_every_line_is_computed_at_two_choices_of_sizes(self, shown: Derivation) -> None:
        for claim in shown.claims:
            found = claim.checked
            expected = 2 if shown.scope == "all sizes" else 1
            assert (found.wrong, found.left_out, len(found.sizes)) == ((), (), expected), claim.name
            assert found.lines == (len(claim.moves) or sum(len(one.steps) for one in claim.proofs))
            assert found.digits is not None and found.digits >= 9

    def test_no_two_sizes_coincide(self, shown: Derivation) -> None:
        for claim in shown.claims:
            sizes = claim.checked.sizes
            assert all(len(set(one.values())) == len(one) for one in sizes)
            assert len({tuple(sorted(one.items())) for one in sizes}) == len(sizes)

    def test_the_document_says_so(self, shown: Derivation) -> None:
        lines = sum(one.checked.lines for one in shown.claims)
        matrices = sum(one.checked.matrices for one in shown.claims)
        more = f", and the {matrices} written in matrices," if matrices else ""
        assert f"{lines} lines{more} were computed in fractions at " in " ".join(FORMATS["unicode"](shown).split())

    def test_terms_are_what_plain_loops_make_of_them(self, report: Report, shown: Derivation, values: Any) -> None:
        """The same arrays, but entry by entry and sum by sum."""
        context = next(one.context for one in reversed(report.claims) if one.context)
        sides = [side for one in report.theorem.claims for side in (one.left, one.right)]
        assumed = [one.positive for one in report.theorem.assumptions if one.positive is not None]
        sample = samples(sides, assumed, "other")[-1]
        loops = values(context, sample.sizes)
        loops.orders = {name: list(order) for name, order in sample.orders.items()}
        loops.known = {(name, at): array[at] for name, array in sample.normal.items() for at in np.ndindex(array.shape)}
        numbers = Numbers(Floats(), context, sample.sizes, sample.normal, sample.orders)
        for claim in shown.claims[-2:]:
            for proof in claim.proofs[:1]:
                place = loops.places(proof.goal.variables)[0]
                for step in proof.steps[1:-1][:4]:
                    got = numbers.at(step.term, place, depth=0)
                    assert math.isclose(float(got), loops.term(step.term, place), rel_tol=1e-9, abs_tol=1e-9)


# ---------------------------------------------------------------- broken on purpose


def spoilt(term: Term) -> Term | None:
    """The term with the first number, size or sum in it made wrong."""
    if isinstance(term, Bind) and term.op == "sum":
        return Add((term, Num(Fraction(1))))
    if isinstance(term, Mul):
        return Mul((*term.args, Num(Fraction(2))))
    inside = [spoilt(one) for one in children(term)]
    for n, one in enumerate(inside):
        if one is not None:
            return rebuild(term, (*children(term)[:n], one, *children(term)[n + 1 :]))
    return None


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, proved: Callable[[str], Report]) -> Derivation:
    """A derivation whose claim 4 has a wrong line."""
    told = writing._told_apart

    def wrong(claim: Any, notation: Any) -> Any:
        claim = told(claim, notation)
        if claim.name != "scores":
            return claim
        (proof,) = claim.proofs
        bad = spoilt(proof.steps[1].term)
        assert bad is not None
        return replace(claim, proofs=(replace(proof, steps=(proof.steps[0], replace(proof.steps[1], term=bad),
                                                            *proof.steps[2:])),))  # fmt: skip

    monkeypatch.setattr(writing, "_told_apart", wrong)
    return derivation(proved("combined_projection_eq_separate_heads"))


def test_a_wrong_line_is_found_by_both(broken: Derivation) -> None:
    wrong = next(one.checked.wrong for one in broken.claims if one.name == "scores")
    assert any("line 1 does not equal the line before it at B=2" in one for one in wrong)
    assert any("line 2 does not equal the line before it" in one for one in wrong)  # the right one after it
    assert any("line 1 agrees with einops to" in one for one in wrong)
    assert all(one.good for one in broken.claims if one.name != "scores") and not broken.good


@pytest.mark.parametrize("style", sorted(FORMATS))
def test_every_form_says_at_the_top_that_a_line_is_wrong(style: str, broken: Derivation) -> None:
    text = FORMATS[style](broken)
    assert text.index("NOT CONFIRMED") < len(text) / 3
    assert "Proved for all sizes" not in text


def test_a_web_page_says_it_in_red(broken: Derivation) -> None:
    page = FORMATS["html"](broken)
    assert '<p class="verdict alarm">NOT CONFIRMED' in page and "verdict good" not in page


@pytest.mark.parametrize("line", [(), ("--format", "html", "-o", "page"), ("--all", "--format", "latex", "-o", "book")])
def test_the_command_fails_and_says_so(
    line: tuple[str, ...], broken: Derivation, proved: Callable[[str], Report], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mha_sym.proof.prover.prove", lambda theorem, recheck: proved(theorem.name))
    monkeypatch.setattr("mha_sym.library.theorem_names", lambda: (broken.name,))
    monkeypatch.setattr("mha_sym.ask.questions", lambda: ())
    assert main(["derive", *([] if "--all" in line else [broken.name]), *line]) == Exit.FAILED
    out, err = capsys.readouterr()
    assert err == f"mha-sym: {broken.name}: {verdict(broken)}\n"
    assert err.endswith("numbers deny lines of claim 4 (scores).\n")
    assert "NOT CONFIRMED" in "".join([out, *(one.read_text() for one in tmp_path.rglob("*") if one.is_file())])


def test_a_matrix_of_another_name_is_found(
    monkeypatch: pytest.MonkeyPatch, proved: Callable[[str], Report]
) -> None:
    report = proved("combined_projection_eq_separate_heads")
    shown = derivation(report)
    height = matrices_of(shown.claims[3], shown.vocabulary.names)
    assert height is not None

    def other(claim: Any, names: Any) -> Any:
        found = matrices_of(claim, names)
        if found is None or claim.name != "Q":
            return found
        lines = [(matrix, term) for matrix, term in found.lines]
        n = next(n for n, (matrix, _) in enumerate(lines) if isinstance(matrix, Product))
        product = lines[n][0]
        assert isinstance(product, Product) and isinstance(product.right, Name)
        wrong = replace(product.right, entry=Entry("W_K^(r)", product.right.entry.at))
        lines[n] = (Product(product.left, wrong), lines[n][1])
        return replace(found, lines=tuple(lines))

    monkeypatch.setattr("mha_sym.render.derivation.matrices_of", other)
    wrong = {one.name: one.checked.wrong for one in derivation(report).claims}
    assert "line 1 in matrices is not what its entries are at" in wrong["Q"][0]
    assert not any(found for name, found in wrong.items() if name != "Q")


def test_a_matrix_is_what_numpy_makes_of_it(proved: Callable[[str], Report]) -> None:
    """softmax(Q K^T / sqrt(d_k)) of one head, written anew."""
    report = proved("combined_projection_eq_separate_heads")
    shown, context = derivation(report), report.claims[-1].context
    height = matrices_of(shown.claims[4], shown.vocabulary.names)
    assert height is not None
    sample = samples([side for one in report.theorem.claims for side in (one.left, one.right)], [], "n")[0]
    numbers = Numbers(Floats(), context, sample.sizes, sample.normal, sample.orders)
    b, r, k = 1, 2, sample.sizes["d_k"]
    x = sample.normal
    q, key = (x[f"X_{n}"][b] @ x[f"W_{n.upper()}"][:, r * k : (r + 1) * k] for n in "qk")
    powers = np.exp(q @ key.T / math.sqrt(k))
    expected = powers / powers.sum(1, keepdims=True)
    for matrix, _ in height.lines:
        assert np.allclose(value(matrix, numbers, {"b": b, "r": r}), expected)


# ---------------------------------------------------------------- numbers


def test_what_fractions_do_not_have_is_said() -> None:
    with pytest.raises(NotExact):
        Numbers(Fractions(), Context(), {}, {}).at(Apply("cos", Num(Fraction(1))), {})
    with pytest.raises(NotExact):
        Fractions().root(2, Fraction(1, 2))


def test_lines_beyond_fractions_are_named(proved: Callable[[str], Report]) -> None:
    """An exponential of an exponential is no power of two."""
    from mha_sym.axes import axis
    from mha_sym.expr import Input, Map
    from mha_sym.proof.prover import prove

    x = Input("x", (axis("t", "T"),))
    side = Map("exp", (Map("exp", (x,)),))
    theorem = Theorem("tower", "", "", (Claim("tower", side * 2, side + side),))
    (claim,) = derivation(prove(theorem, recheck=False)).claims
    assert claim.good and claim.checked.sizes == () and claim.checked.digits == 12
    assert "not a fraction" in claim.checked.left_out[0] or "too large" in claim.checked.left_out[0]


def test_a_fourth_root_comes_out_even() -> None:
    from mha_sym.axes import size_symbol

    found = samples([Scalar(size_symbol("d_k") ** Fraction(-1, 4))], [], "n")
    assert [one.sizes["d_k"] for one in found] == [16, 81]


def test_nothing_is_computed_of_nothing() -> None:
    assert check_lines([], Theorem("none", "", "", ()), Meaning().context()) == []


def test_all_theorems_are_here() -> None:
    assert len(theorem_names()) >= 19
