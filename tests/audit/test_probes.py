"""Probes that need no oracle: each names its cause on code that has it, and is silent on right code."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.cases import cases_of
from mha_sym.audit.compare import witness
from mha_sym.audit.diagnosis.heads import LOCATIONS, locate_head_mask
from mha_sym.audit.diagnosis.probes import run_probes
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.proving.outcome import with_audit
from mha_sym.audit.proving.report import proof_text
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.specification import specification
from mha_sym.audit.target import as_implementation
from mha_sym.errors import TargetProblem
from tests.audit import right
from tests.audit.implementations import implementation
from tests.audit.right import all_stages
from tests.audit.wrong import WRONG, merge, softmax, split


def evidence_of(code, case=0, sizes=None):
    impl = as_implementation(code)
    chosen = cases_of(impl)[case]
    setting = draw_setting(impl, chosen, 0, 0, sizes)
    return impl, witness(impl, specification(impl, chosen), setting, chosen.name)


def probes(code, case=0, sizes=None):
    impl, on = evidence_of(code, case, sizes)
    return {one.name: one for one in run_probes(impl, on)}


def cause(code, words, case=0, sizes=None):
    """The cause that the probe whose name begins with some words names, and its figure."""
    (found,) = (one for name, one in probes(code, case, sizes).items() if name.startswith(words))
    return found.cause, found.figure


TOKENS = "influence of tokens"
SIX = {"T": 6, "h": 3, "S": 6}


def test_right_code_is_met_with_silence():
    assert all(one.ok for one in probes(right.matmul_and_transpose).values())
    assert all(one.ok for case in range(4) for one in probes(right.masked, case).values())
    assert all(one.ok for one in probes(all_stages).values())


def test_viewed_in_and_out_is_block_diagonal():
    said, figure = cause(WRONG["reshaped in and out"], TOKENS, sizes=SIX)
    assert "viewed in and viewed out" in said
    assert figure == ("##....", "##....", "..##..", "..##..", "....##", "....##")


@pytest.mark.parametrize(("first", "last", "words"), [(-2, 0, "from t - 2 to t"), (-1, 3, "from t - 1 to t + 3")])
def test_a_sliding_window_is_no_block(first, last, words):
    def code(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        distance = np.arange(x.shape[1]) - np.arange(x.shape[1])[:, None]
        near = (first <= distance) & (distance <= last)
        return merge(softmax(np.where(near, q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf)) @ v) @ w_o

    said, figure = cause(code, TOKENS, sizes={"T": 8, "h": 3, "S": 8})
    assert "a sliding window" in said and words in said and figure[4][4 + first : 5 + last] == "#" * (last - first + 1)


def test_heads_that_attend_to_heads_leave_tokens_alone():
    said, figure = cause(WRONG["heads attend to heads"], TOKENS, sizes=SIX)
    assert "no token sees another one" in said and figure[1] == ".#...."


def test_later_tokens_show_a_causal_fault():
    said, figure = cause(WRONG["mask ignored"], TOKENS, case=1)
    assert said == "later tokens act: the causal mask fails" and set(figure) == {"#" * len(figure)}
    assert "hidden tokens act" in cause(WRONG["mask inverted"], TOKENS, case=1)[0]


def test_batch_mates_show():
    assert "changes with its batch mates" in cause(implementation("softmax_over_batch"), "influence of samples")[0]
    assert not cause(WRONG["no scale"], "influence of samples")[0]


def test_only_the_last_row_right_says_that_the_causal_mask_is_missing():
    said, figure = cause(WRONG["mask ignored"], "positions that agree", case=1)
    assert "only the last position is right: the causal mask is missing" in said
    assert figure[0].endswith("#") and figure[0].count("#") == 1


def showing(**changed):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = all_stages(x, w_q, w_k, w_v, w_o, heads)
        s, v = changed.get("scores", lambda s: s)(shown["scores"]), shown["v"]
        a = changed.get("weights", softmax)(s)
        return {"scores": s, "weights": a, "y": merge(a @ v) @ w_o}

    return attention


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: softmax(s.swapaxes(2, 3)).swapaxes(2, 3), "columns sum to one: the softmax runs over the queries"),
        (lambda s: np.moveaxis(softmax(np.moveaxis(s, 1, -1)), -1, 1), "the softmax runs over the heads"),
        (lambda s: softmax(s) * 0.9, "rows sum to less than one"),
    ],
)
def test_sums_of_the_weights_name_the_axis(make, words):
    assert words in cause(showing(weights=make), "sums of the weights")[0]


def test_weights_that_are_stored_keys_first_say_so():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = all_stages(x, w_q, w_k, w_v, w_o, heads)
        return {"weights": shown["weights"].swapaxes(2, 3), "y": shown["y"]}

    said = cause(attention, "sums of the weights")[0]
    assert "with s and t exchanged" in said and "weights = 'b h s t'" in said


def test_rows_that_sum_to_the_scale_say_so():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        shown = all_stages(x, w_q, w_k, w_v, w_o, heads)
        a = shown["weights"] / np.sqrt(shown["q"].shape[-1])
        return {"weights": a, "y": merge(a @ shown["v"]) @ w_o}

    assert "rows sum to 1/sqrt(d_k)" in cause(attention, "sums of the weights")[0]


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (lambda k, m, h: k**0.5, "sqrt(d_k): not scaled"),
        (lambda k, m, h: k**-0.5, "1/sqrt(d_k)"),
        (lambda k, m, h: k, "d_k: multiplied instead of divided"),
        (lambda k, m, h: (k / m) ** 0.5, "divided by sqrt(d_model)"),
    ],
)
def test_a_constant_ratio_of_scores_names_the_scale(factor, words):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        k = w_q.shape[1] // heads
        return showing(scores=lambda s: s * factor(k, x.shape[-1], heads))(x, w_q, w_k, w_v, w_o, heads)

    assert words in cause(attention, "ratio of the scores")[0]


def test_a_ratio_that_is_not_constant_is_no_matter_of_scale():
    assert "not constant" in cause(showing(scores=np.sin), "ratio of the scores")[0]


def test_parameters_without_influence_are_named():
    said, figure = cause(WRONG["keys for values"], "change of the output", sizes={"d_k": 3, "d_v": 3})
    assert said.startswith("w_v without influence") and any(line.startswith("w_v: 0") for line in figure)


def test_an_output_equal_at_every_position_is_seen():
    said, _ = cause(implementation("weights_ignored_by_einsum"), "spread of the output")
    assert "the same at every position" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("joined without transpose", "the inverse transpose is missing"),
        ("joined, features first", "(d_v, h) where (h, d_v) is meant"),
        ("features before heads", "blocks hold features of several heads"),
    ],
)
def test_one_hot_weights_show_from_which_head_a_feature_comes(name, words):
    said, figure = cause(WRONG[name], "heads in the joined", sizes={"h": 3})
    assert words in said and figure


def test_the_ablation_identity_and_the_permutation_are_reported():
    report = check(WRONG["reshaped without transpose"])
    (identity,) = (one for one in report.probes if "what each head adds" in one.name)
    (order,) = (one for one in report.probes if "reverse order" in one.name)
    assert identity.ok and not order.ok  # the view mixes heads before W_O, so they have an order


# ---------------------------------------------------------------- where a head mask acts


def gated(place):
    def attention(x, w_q, w_k, w_v, w_o, heads, head_mask=None):
        g = np.ones(heads) if head_mask is None else head_mask
        row = g[:, None, None]
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        q = q * row if place == "q" else q
        k = k * row if place == "k" else k
        v = v * row if place == "v" else v
        s = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        s = s * row if place == "scores" else s
        a = softmax(s) * row if place == "weights" else softmax(s)
        z = a @ v * row if place == "z" else a @ v
        y = merge(z) @ w_o
        if place == "output":
            y = (y.reshape(*y.shape[:2], heads, -1) * g[:, None]).reshape(y.shape)
        return y

    return attention


ONE = {"weights A", "head output Z", "values V", "row blocks of W_O", "column blocks of W_V"}


@pytest.mark.parametrize(
    ("place", "locations"),
    [
        ("weights", ONE), ("z", ONE), ("v", ONE), ("scores", {"scores S", "queries Q", "keys K"}),
        ("q", {"scores S", "queries Q", "keys K"}), ("k", {"scores S", "queries Q", "keys K"}),
        ("nowhere", {"nowhere: it has no effect"}),
    ],
)  # fmt: skip
def test_the_location_of_a_head_mask_is_found(place, locations):
    report = check(gated(place))
    assert report.findings is not None and report.findings.head_mask is not None
    assert report.ok is (locations == ONE) and report.first_wrong is None  # a 0 must remove the head
    assert report.ok or "its head mask" in report.text().splitlines()[0]
    assert set(report.findings.head_mask) == locations
    assert set(report.json()["head_mask"]) == locations and "HEAD MASK" in report.text()


def test_a_head_mask_at_no_known_place_is_wrong_and_left_out_of_what_is_proved():
    def attention(x, w_q, w_k, w_v, w_o, heads, gates=None):
        return right.matmul_and_transpose(x, w_q, w_k, w_v, w_o * 0 if gates is not None else w_o, heads)

    words = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "head_mask")
    impl = Implementation(call=attention, takes=words, name="mine")
    report, proof = check(impl, draws=1), prove_code(impl)
    assert report.exit_code == 1 and report.json()["head_mask"] == []
    assert "none of the known places" in report.text().splitlines()[0] and "known faults" not in report.text()
    assert proof_text(with_audit(proof, report)).startswith("PROVED      mine called without head_mask is multi-head")
    assert not any("off by" in one for one in with_audit(proof, report).notes)


def test_an_input_that_is_added_to_the_output_is_seen():
    def code(x, w_q, w_k, w_v, w_o, heads):
        return x + right.matmul_and_transpose(x, w_q, w_k, w_v, w_o, heads)

    assert "residual" in cause(code, "what is left")[0]


def test_a_head_mask_behind_w_o_is_told_from_one_before_it():
    impl, on = evidence_of(gated("output"), sizes={"h": 4, "d_k": 3, "d_v": 3, "d_model": 12})
    assert locate_head_mask(impl, on) == ("output Y behind W_O, in blocks of d_v",)
    assert set(locate_head_mask(impl, on)) <= set(LOCATIONS)


def pruned(axis):
    """Heads are pruned in W_O, stored (out, in): in its columns, or, by mistake, in its rows."""

    def attention(x, w_q, w_k, w_v, w_o, heads, head_mask=None):
        gates = np.ones(heads) if head_mask is None else head_mask
        kept = w_o * np.expand_dims(np.repeat(gates, w_o.shape[axis] // heads), 1 - axis)
        q, k, v = (split(x @ w.T, heads) for w in (w_q, w_k, w_v))
        return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v) @ kept.T

    return Implementation(call=attention, layout="linear")


def test_heads_pruned_in_the_rows_of_a_stored_w_o_are_found_behind_it():
    impl, on = evidence_of(pruned(0), sizes={"h": 4, "d_k": 3, "d_v": 3, "d_model": 12})
    assert locate_head_mask(impl, on) == ("output Y behind W_O, in blocks of d_v",)
    report = check(pruned(1))
    assert report.ok and report.findings is not None and set(report.findings.head_mask or ()) == ONE


def test_code_without_a_head_mask_has_no_location():
    impl, on = evidence_of(right.matmul_and_transpose)
    with pytest.raises(TargetProblem, match="takes no head mask"):
        locate_head_mask(impl, on)
    assert check(Implementation(call=right.matmul_and_transpose)).findings.head_mask is None
