"""check on plain functions: right ones agree in every style, wrong ones disagree, and where is told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mha_sym import library
from mha_sym.audit import Implementation, check
from mha_sym.audit.implementation import STAGES
from mha_sym.audit.specification import BACKED_BY
from tests.audit import right, wrong
from tests.audit.right import RIGHT
from tests.audit.wrong import WRONG


@pytest.mark.parametrize("name", RIGHT)
def test_correct_implementations_agree(name: str) -> None:
    report = check(RIGHT[name])
    assert report.ok and report.exit_code == 0, report.text()
    assert report.first_wrong is None


@pytest.mark.parametrize("name", WRONG)
def test_wrong_implementations_disagree(name: str) -> None:
    report = check(WRONG[name])
    assert report.exit_code == 1, report.text()
    found = report.first_wrong
    assert found is not None and found.difference > 1e6 * found.bound.value


@pytest.mark.parametrize("seed", range(1, 6))
def test_other_seeds_say_the_same(seed: int) -> None:
    assert check(right.matmul_and_transpose, seed=seed).ok
    assert check(wrong.joined_without_transpose, seed=seed).exit_code == 1


def test_biases_that_a_described_function_takes_need_not_be_said() -> None:
    def packed(x, w_qkv, b_qkv, w_o, b_o, heads):
        parts = np.split(x @ w_qkv.T + b_qkv, 3, -1)
        q, k, v = (part.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for part in parts)
        weights = right.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
        return (weights @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o.T + b_o

    for bias in (False, True, "qkvo"):
        impl = Implementation(call=packed, layout="packed_linear", bias=bias)
        assert impl.biases == "qkvo"
        assert check(impl).ok


def test_a_mask_fault_is_found_in_the_case_with_that_mask() -> None:
    cases = {
        "mask transposed": "causal (boolean)", "mask inverted": "padding (boolean)",
        "mask scaled too": "additive mask, finite", "mask ignored": "causal (boolean)",
    }  # fmt: skip
    for name, case in cases.items():
        found = check(WRONG[name]).first_wrong
        assert found is not None and found.case == case


def stages_with(**wrong_stage: Any) -> Any:
    """All stages of a correct computation, one of them replaced after the fact."""

    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = right.all_stages(x, w_q, w_k, w_v, w_o, heads)
        return {**shown, **{name: edit(shown[name]) for name, edit in wrong_stage.items()}}

    return attention


@pytest.mark.parametrize("stage", STAGES)
def test_the_stage_that_is_wrong_is_named(stage: str) -> None:
    def edit(value: np.ndarray) -> np.ndarray:
        moved = value.copy()
        moved.reshape(-1)[5] += 1e-6
        return moved

    report = check(stages_with(**{stage: edit}))
    assert [one.stage for one in report.stages if not one.ok] == [stage]
    found = report.first_wrong
    assert found is not None
    assert found.difference == pytest.approx(1e-6, rel=1e-3)
    assert found.got - found.expected == pytest.approx(1e-6, rel=1e-3)


def test_where_the_difference_is() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        y = right.matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads)
        y[1, 2, 3] += 0.5
        return y

    found = check(attention).first_wrong
    assert found is not None
    assert found.place == "b=1, t=2, m=3"


def test_stages_may_have_another_order_of_axes() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = right.all_stages(x, w_q, w_k, w_v, w_o, heads)
        q = shown["q"].transpose(0, 2, 1, 3)
        return {"y": shown["y"], "q": q, "weights": shown["weights"].reshape(-1, *shown["weights"].shape[2:])}

    impl = Implementation(call=attention, axes={"q": "b t h k", "weights": "(b h) t s"})
    report = check(impl)
    assert report.ok and {one.stage for one in report.stages} == {"q", "weights", "y"}


def test_the_fill_of_hidden_scores_does_not_matter() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads, keep=None):
        shown = right.all_stages(x, w_q, w_k, w_v, w_o, heads)
        scores = shown["scores"] if keep is None else np.where(keep, shown["scores"], -1e30)
        y = (right.softmax(scores) @ shown["v"]).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o
        return {"scores": scores, "y": y}

    assert check(attention).ok


def test_coinciding_sizes_hide_a_fault_and_the_report_says_which() -> None:
    def transposed_only_by_luck(x, w_q, w_k, w_v, w_o, heads):
        B, T, _ = x.shape
        q, k, v = ((x @ w).reshape(B, heads, T, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
        return (wrong.attend(q, k, v)).swapaxes(1, 2).reshape(B, T, -1) @ w_o

    hidden = check(transposed_only_by_luck, sizes={"T": 4, "S": 4, "h": 4})
    assert hidden.ok and any("T" in text and "h" in text for text in hidden.coincide)
    assert "coincide     T = S = h" in hidden.text()
    assert check(transposed_only_by_luck).exit_code == 1


def test_one_head_hides_a_wrong_split() -> None:
    hidden = check(wrong.reshaped_without_transpose, sizes={"h": 1})
    assert hidden.ok and any("h" in text.split(" = ") and "1" in text.split(" = ") for text in hidden.coincide)
    assert check(wrong.reshaped_without_transpose).exit_code == 1


def test_queries_and_keys_exchanged_are_seen_with_one_input_and_with_three() -> None:
    assert check(wrong.queries_projected_from_keys).exit_code == 1

    def of_one_input(x, w_q, w_k, w_v, w_o, heads):
        return wrong.queries_projected_from_keys(x, x, x, w_q, w_k, w_v, w_o, heads)

    assert check(of_one_input).exit_code == 1  # the scores come out transposed, and softmax sees it


def test_right_only_where_widths_are_tied_is_said() -> None:
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (wrong.split(x @ w, heads) for w in (w_q, w_k, w_v))
        a = right.softmax(q @ k.swapaxes(2, 3) / np.sqrt(x.shape[-1] // heads))
        return wrong.merge(a @ v) @ w_o

    report = check(attention)
    assert report.exit_code == 1
    assert "it agrees where d_v = d_k and d_model = h d_k" in report.text()
    assert check(Implementation(call=attention, tied=("d_v", "d_model"))).ok


def test_code_that_runs_only_at_tied_widths_is_checked_there_and_it_is_said() -> None:
    report = check(right.narrow_heads)
    assert report.ok
    assert any(note.startswith("it runs only where d_v = d_k and d_model = h d_k") for note in report.notes)


def test_sizes_in_force_are_distinct_in_every_comparison() -> None:
    report = check(right.one_einsum_after_the_other)
    assert report.coincide == ()
    for one in report.compared:
        n = one.sizes
        assert len({n[name] for name in ("B", "T", "S", "d_model", "h", "d_k", "d_v")}) == 7


def test_lower_precision_gets_its_own_arrays_and_a_wider_bound() -> None:
    seen = []

    def attention(x, w_q, w_k, w_v, w_o, heads):
        seen.append((x.dtype, w_o.dtype))
        return right.matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads)

    single, double = check(Implementation(call=attention, dtype="float32")), check(right.matmul_and_transpose)
    assert single.ok and set(seen) == {(np.dtype("float32"), np.dtype("float32"))}
    assert single.stages[0].bound.value > 1e7 * double.stages[0].bound.value
    assert single.stages[0].difference > 1e3 * double.stages[0].difference
    assert "u = 6e-08 (float32)" in single.text(detail=True)


def test_only_causal_cases_when_asked() -> None:
    cases = {one.case for one in check(right.masked, causal=True).compared}
    assert cases == {"causal (boolean)", "causal and padding"}
    assert {one.case for one in check(right.masked, causal=False).compared} == {"no mask", "padding (boolean)"}


def test_a_function_without_a_mask_is_causal_if_the_user_says_so() -> None:
    assert check(right.causal_by_itself, causal=True).ok
    assert check(right.causal_by_itself).exit_code == 1
    assert check(right.matmul_and_transpose, causal=True).exit_code == 1


def test_the_report_says_what_it_rests_on() -> None:
    report = check(RIGHT["owns its weights"])
    text = report.text(detail=True)
    for part in (
        "AGREES", "layout       linear: torch.nn.Linear style, (out, in)", "heads        3", "bias         none",
        "batch_first  yes", "scale        1/sqrt(d_k)", "h=3, d_k=4, d_v=5", "T, S) = (", BACKED_BY, "u = 1.1e-16",
    ):  # fmt: skip
        assert part in text, part
    assert BACKED_BY in library.theorem_names()


@pytest.mark.parametrize("name", ["all biases", "a list of heads", "packed", "owns its weights", "scale of its own"])
def test_the_specification_itself_is_proved_for_all_sizes(name: str) -> None:
    backing = check(RIGHT[name], draws=1).backing
    assert (backing.theorem, backing.verdict) == (BACKED_BY, "proved") and backing.steps > 10


def test_json_is_plain_data_and_says_the_same() -> None:
    report = check(wrong.no_scale)
    data = json.loads(json.dumps(report.json()))
    assert data["verdict"] == "disagree" and data["theorem"]["name"] == BACKED_BY
    assert {"case", "stage", "ok", "difference", "bound", "where", "expected", "got", "sizes"} <= set(data["stages"][0])
    assert data["stages"][0]["ok"] is False
    assert data["conventions"]["scale"] == {"value": "1/sqrt(d_k)", "said_by": "by default"}
    assert data["problem"] is None


def test_the_bound_is_never_reached_by_correct_code_and_far_below_a_fault() -> None:
    for name, impl in RIGHT.items():
        worst = max(check(impl).compared, key=lambda one: one.excess)
        assert worst.excess < 0.1, (name, worst)
