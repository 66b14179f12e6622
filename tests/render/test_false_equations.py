"""What controls say as equations: true to their counterexamples, in the signs of their theorem."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mha_sym.proof.rules import Context, Definition
from mha_sym.proof.terms import Join, Part, Var, subst
from mha_sym.proof.theorem import Report
from mha_sym.render.convention import Convention, rewritten
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.derive import FORMATS
from mha_sym.render.false_equations import FalseEquation
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.occurring import names_of
from mha_sym.render.formulas.scripts import Unicode


def written(found: Derivation) -> dict[str, list[str]]:
    """The equation of every control, and what it speaks of."""
    note, every = Unicode(found.vocabulary.names, found.vocabulary.letters_for), {}
    for one in found.controls:
        assert one.says is not None
        sides = [(one.says.left, one.says.right), *((row.entry, row.body) for row in one.says.where)]
        every[one.name] = [plain(note.equation(*both)) for both in sides]
    return every


def context_of(report: Report, says: FalseEquation, orders: Iterable[str]) -> Context:
    known = next((one.context for one in reversed(report.claims) if one.context), Context())
    new = {}
    for row in says.defined:
        whole = [one if isinstance(one, Var) else Var(f"whole{n}", one.domain) for n, one in enumerate(row.entry.at)]
        back = {
            part.name: Part(var, one.domain, place)
            for var, one in zip(whole, row.entry.at, strict=True) if isinstance(one, Join)
            for place, part in enumerate(one.parts) if isinstance(part, Var)
        }  # fmt: skip
        new[row.entry.name] = Definition(tuple(whole), subst(row.body, back))
    every: Any = {**known.bijections, **dict.fromkeys(orders)}  # the orders are given
    return Context({**known.definitions, **new}, known.booleans, known.tables, every)


def number(text: str) -> float:
    """The middle of an enclosure, or a fraction."""
    found = re.match(r"\[?(-?[0-9.e+-]+)(?:/(\d+))?", text)
    assert found is not None, text
    return float(found[1]) / int(found[2] or 1)


def test_both_sides_are_what_the_counterexample_says(report: Report, shown: Derivation, values: Any) -> None:
    """Computed by plain loops from the equation that is shown, with the definitions that belong to it."""
    done = 0
    for outcome, part in zip(report.controls, shown.controls, strict=True):
        found, says, axes = outcome.counterexample, part.says, outcome.claim.left.axes
        assert found is not None and says is not None
        if not all(axis.is_plain for axis in axes) or len(says.variables) != len(axes):
            continue
        loops = values(context_of(report, says, found.permutations), found.sizes)
        loops.orders = {name: list(order) for name, order in found.permutations.items()}
        for name, array in found.inputs.items():
            exact = np.asarray(array, dtype=object)
            loops.known |= {(name, at): float(exact[at]) for at in np.ndindex(exact.shape)}
        place = dict(zip(says.variables, (found.index[axis.name] for axis in axes), strict=True))
        for side, text in ((says.left, found.left), (says.right, found.right)):
            assert math.isclose(loops.term(side, place), number(text), rel_tol=1e-6, abs_tol=1e-9), part.name
        done += 1
    joined = any(not axis.is_plain for one in report.controls for axis in one.claim.left.axes)
    assert done or joined or not report.controls


def test_what_is_told(proved: Callable[[str], Report]) -> None:
    found = written(derivation(proved("combined_layer_eq_separate_layer")))
    assert found["output_bias_dropped"] == ["Y_false[b,t,m] = Y_sep'[b,t,m]", "Y_false[b,t,m] = Σ_c C'[b,t,c] W_O[c,m]"]
    assert found["masks_of_other_heads"][1:] == [
        "S_false[b,r,t,s] = (Σ_j Q'[b,r,t,j] K'[b,r,s,j]) / √d_k + M[b,π(r),t,s]"
    ]
    rows = written(derivation(proved("softmax_rows_sum_to_one")))
    assert rows["over_the_query_axis"] == ["Σ_s exp(E[b,r,t,s]) / (Σ_t₁ exp(E[b,r,t₁,s])) = 1"]


def test_what_a_tensor_is_likened_to_is_made_of_the_same(report: Report, shown: Derivation) -> None:
    """Outputs of heads under the weights of a layer with biases were likened to those of a layer that has none."""
    context = next((one.context for one in reversed(report.claims) if one.context), Context())
    for one in shown.controls:
        for row in one.says.defined if one.says else ():
            model = one.says.untold.get(row.entry.name) if one.says else None
            if model is not None:
                own = set(names_of(row.body)) & set(context.definitions)
                assert own <= set(names_of(context.definitions[model].body)), (one.name, row.entry.name, model)


def test_vectors_as_columns(proved: Callable[[str], Report]) -> None:
    shown = derivation(proved("head_permutation_leaves_layer_unchanged"))
    found = written(rewritten(shown, Convention("h", "column")))["w_o_left_alone"]
    assert found[1] == "Y_false[b,m,t] = Σ_c W_O[m,c] C'[b,c,t] + b_O[m]"


def test_every_form_shows_them(shown: Derivation) -> None:
    texts = {style: FORMATS[style](shown) for style in ("unicode", "stages", "html", "markdown", "latex", "json")}
    for style, word in (("unicode", "    False: "), ("stages", "    False: "), ("html", '<p class="range">Not '),
                        ("markdown", "  Not "), ("json", '"where": ')):  # fmt: skip
        assert texts[style].count(word) >= 1, style


def test_signs_that_only_they_have_are_explained(proved: Callable[[str], Report]) -> None:
    words = derivation(proved("head_permutation_leaves_layer_unchanged")).vocabulary
    assert {row.name for row in words.bijections} >= {"pi", "sigma"} or len(words.bijections) >= 3
    assert any(row.entry.name == "M_h" for row in words.given)
    first = derivation(proved("combined_projection_eq_separate_heads")).vocabulary
    assert any("g" in row.letters for row in first.letters)  # a letter of one false statement alone
