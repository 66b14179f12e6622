"""Several explanations: which is named, which is said to be the same, what three faults or two symmetries make."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.diagnosis.diagnose import diagnose
from mha_sym.audit.dumps.dump import check_dump
from mha_sym.audit.faults import faults
from tests.audit.implementations import implementation
from tests.audit.wrong import merge, softmax, split

PACKED = ("grouped_blocks_taken_for_groups", "grouped_by_group_taken_for_blocks")
GROUPED = [one.name for one in faults() if "groups" in one.needs and one.name not in PACKED]


# ---------------------------------------------------------------- the nearest of several


def masked(fill):
    def attention(x, w_q, w_k, w_v, w_o, heads, keep=None):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        return merge(softmax(scores if keep is None else np.where(keep, scores, fill)) @ v) @ w_o

    return attention


@pytest.mark.parametrize(
    ("fill", "name"),
    [
        (0.0, "mask_multiplied_into_scores"), (-1e-12, "mask_fill_tinier"), (1e-12, "mask_fill_tinier_positive"),
        (1e-9, "mask_fill_tiny_positive"),
        (-1e-9, "mask_fill_tiny_negative"), (1e-5, "mask_fill_hundred_thousandth"),
    ],
)  # fmt: skip
def test_the_nearest_fill_of_a_mask_is_named_alone(fill, name):
    (found,) = check(masked(fill)).faults
    assert found.name == name and not found.twins, (found.twins, found.farther)


def test_a_fill_that_cannot_be_told_from_minus_infinity_is_none():
    assert check(masked(-1e4)).ok


def test_padding_that_is_inverted_is_told_from_rows_of_zero_by_a_sample_that_keeps_all():
    def attention(x, w_q, w_k, w_v, w_o, heads, key_keep=None):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        scores = scores if key_keep is None else np.where(~key_keep[:, None, None, :], scores, -1e9)
        return merge(softmax(scores) @ v) @ w_o

    report = check(attention, sizes={"B": 2, "T": 7})
    (found,) = report.faults
    assert found.names == {"mask_inverted", "padding_mask_inverted"} and found.twins[0].proved


def test_orders_of_a_packed_matrix_are_one_at_three_heads_and_said_to_be():
    def attention(x, w_qkv, w_o, heads):
        q, k, v = (split(part, heads) for part in np.split(x @ w_qkv, 3, axis=-1))
        return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v) @ w_o

    (found,) = check(attention, layout="packed_by_head", sizes={"h": 3}).faults
    assert [twin.proved for twin in found.twins] == [True] and "h = 3" in found.twins[0].words
    (found,) = check(attention, layout="packed_by_head", sizes={"h": 4}).faults
    assert not found.twins


def test_in_a_short_format_the_nearest_is_named_and_nothing_where_none_is_near():
    torch = pytest.importorskip("torch")

    def attention(odd):
        def call(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
            q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
            scores = q @ k.transpose(2, 3)
            return (torch.softmax(torch.sin(scores) if odd else scores, -1) @ v).transpose(1, 2).flatten(2) @ w_o

        return Implementation(call=call, framework="torch", dtype="bfloat16", d_model=5, heads=3, d_k=2, d_v=4)

    (found,) = check(attention(odd=False)).faults
    assert found.name == "scale_missing" and not found.twins
    report = check(attention(odd=True))
    assert report.verdict == "disagree" and not report.faults


# ---------------------------------------------------------------- three at once


def test_three_faults_together_are_named():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        b, t, _ = x.shape
        q, k, v = (np.reshape(x @ w, (b, heads, t, -1)) for w in (w_q, w_k, w_v))
        weights = softmax((q @ k.swapaxes(2, 3)).swapaxes(2, 3)).swapaxes(2, 3)  # over the queries, and not scaled
        return merge(weights @ v) @ w_o

    report = check(attention)
    (found,) = report.faults
    assert {one.name for one in found.faults} == {"split_by_view", "scale_missing", "softmax_over_queries"}
    assert report.json()["tried"]["triples"] > 0


def test_pairs_and_sets_of_three_are_not_tried_where_one_fault_explains_all():
    diagnosis = check(masked(0.0)).findings.diagnosis
    assert diagnosis.pairs == diagnosis.triples == 0
    assert diagnose([]).found == ()


# ---------------------------------------------------------------- two symmetries at once


def test_two_symmetries_together_are_no_fault():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        w_q, w_k, w_v = (np.concatenate(np.split(w, heads, axis=1)[::-1], axis=1) for w in (w_q, w_k, w_v))
        rows = np.concatenate(np.split(w_o, heads)[::-1])
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        q = q / np.sqrt(q.shape[-1])
        return {"q": q, "k": k, "v": v, "y": merge(softmax(q @ k.swapaxes(2, 3)) @ v) @ rows}

    report = check(attention)
    (found,) = report.symmetries
    assert report.ok and not report.faults
    assert {one.name for one in found.faults} == {"heads_permuted_with_w_o", "scale_on_queries"}
    assert "head_permutation_leaves_layer_unchanged and scale_moves" in " ".join(report.text().split())


def test_two_symmetries_do_not_excuse_a_stage_that_is_wrong():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        y = merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v) @ w_o
        return {"q": q / np.sqrt(q.shape[-1]), "k": k + 1, "y": y}

    report = check(attention)
    assert report.verdict == "disagree" and not report.symmetries


# ---------------------------------------------------------------- heads that share keys and values


def cut(a, n):
    return a.reshape(*a.shape[:2], n, -1).swapaxes(1, 2)


def viewed(a, n):
    return a.reshape(a.shape[0], n, a.shape[1], -1)


def strided(a, n):
    return a.reshape(*a.shape[:2], -1, n).transpose(0, 3, 1, 2)


def repeated(a, heads):
    return np.repeat(a, heads // a.shape[1], axis=1)


def tiled(a, heads):
    return np.tile(a, (1, heads // a.shape[1], 1, 1))


def first(a, heads):
    return np.repeat(a[:, :1], heads, axis=1)


def by_feature(a, heads):
    wide = np.repeat(a.swapaxes(1, 2).reshape(a.shape[0], a.shape[2], -1), heads // a.shape[1], axis=-1)
    return cut(wide, heads)


def picked(pick):
    """Head r gets group ``pick(r, g, n)``."""
    return lambda a, heads: a[:, [pick(r, a.shape[1], heads // a.shape[1]) for r in range(heads)]]


in_turns_of_their_number = picked(lambda r, g, n: r // g % g)
by_twos, by_fours = picked(lambda r, g, n: r // 2 * 2 // n), picked(lambda r, g, n: r // 4 * 4 // n)


def by_place(groups):
    """Query heads split as (n g), so that those of a group are ``groups`` apart."""

    def split_(a, heads):
        each = cut(a, heads)
        order = [r % (heads // groups) * groups + r // (heads // groups) for r in range(heads)]
        return each[:, order]

    return split_


#: how queries are split, keys and values are split, keys are brought to the heads, and values
WRONG = {
    "groups_tiled": (cut, cut, tiled, tiled), "groups_tiled_in_keys": (cut, cut, tiled, repeated),
    "groups_tiled_in_values": (cut, cut, repeated, tiled), "groups_all_first": (cut, cut, first, first),
    "groups_repeated_by_feature": (cut, cut, by_feature, by_feature),
    "groups_split_features_first": (cut, strided, repeated, repeated),
    "groups_split_by_view": (cut, viewed, repeated, repeated),
    "all_split_by_view": (viewed, viewed, repeated, repeated),
    "groups_taken_in_turns_of_their_number": (cut, cut, in_turns_of_their_number, in_turns_of_their_number),
    "groups_by_tiles_of_2": (cut, cut, by_twos, by_twos), "groups_by_tiles_of_4": (cut, cut, by_fours, by_fours),
    "query_heads_taken_in_turns_by_groups": (by_place(2), cut, repeated, repeated),
}  # fmt: skip


def grouped(name, x, w_q, w_k, w_v, w_o, heads, kv_heads):
    of_q, of_kv, to_k, to_v = WRONG[name]
    q, k, v = of_q(x @ w_q, heads), to_k(of_kv(x @ w_k, kv_heads), heads), to_v(of_kv(x @ w_v, kv_heads), heads)
    return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v) @ w_o


def test_every_fault_of_groups_is_made_here():
    assert set(WRONG) == set(GROUPED)


@pytest.mark.parametrize("name", GROUPED)
def test_faults_of_shared_heads_are_named_in_functions_and_in_dumps(name, tmp_path):
    def attention(x, w_q, w_k, w_v, w_o, heads, kv_heads):
        return grouped(name, x, w_q, w_k, w_v, w_o, heads, kv_heads)

    (found,) = check(attention, heads=10, kv_heads=2).faults
    assert found.name == name and all(twin.proved for twin in found.twins), found.twins
    rng = np.random.default_rng(7)
    shapes = {"w_q": (11, 20), "w_k": (11, 4), "w_v": (11, 6), "w_o": (30, 11)}
    w = {one: rng.normal(size=shape) / 3 for one, shape in shapes.items()}
    x = rng.normal(size=(2, 5, 11))
    np.savez(tmp_path / "d.npz", x=x, **w, y=attention(x, **w, heads=10, kv_heads=2))
    (found,) = check_dump(tmp_path / "d.npz", heads=10, kv_heads=2).faults
    assert found.name == name


def in_blocks(rows, heads, kv_heads):
    d = len(rows) // (heads + 2 * kv_heads)
    return np.split(rows, [heads * d, (heads + kv_heads) * d])


def by_group(rows, heads, kv_heads):
    slots = rows.reshape(kv_heads, heads // kv_heads + 2, -1, rows.shape[-1])
    return [part.reshape(-1, rows.shape[-1]) for part in (slots[:, :-2], slots[:, -2], slots[:, -1])]


@pytest.mark.parametrize(
    ("read", "layout", "name"),
    [(by_group, "grouped_packed_linear", PACKED[0]), (in_blocks, "grouped_by_group_linear", PACKED[1])],
)
def test_grouped_weights_that_are_packed_otherwise_are_named(read, layout, name):
    def attention(x, w_qkv, w_o, heads, kv_heads):
        w_q, w_k, w_v = (w.T for w in read(w_qkv, heads, kv_heads))
        q, k, v = cut(x @ w_q, heads), repeated(cut(x @ w_k, kv_heads), heads), repeated(cut(x @ w_v, kv_heads), heads)
        return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v) @ w_o.T

    alike = {"d_k": 4, "d_v": 4}
    (found,) = check(attention, layout=layout, heads=6, kv_heads=3, sizes=alike).faults
    assert found.name == name and not [twin for twin in found.twins if not twin.proved]
    right = {by_group: "grouped_by_group_linear", in_blocks: "grouped_packed_linear"}[read]
    assert check(attention, layout=right, heads=6, kv_heads=3, sizes=alike).ok


# ---------------------------------------------------------------- projections that share weights


@pytest.mark.parametrize(
    "name", ["values_projected_with_w_k", "keys_projected_with_w_v", "keys_projected_with_w_q",
             "queries_projected_with_w_k", "values_projected_with_w_q"],
)  # fmt: skip
def test_a_projection_with_the_weights_of_another_is_named_between_two_inputs(name):
    (found,) = check(implementation(name, more=())).faults
    assert found.name == name and all(twin.proved for twin in found.twins)


# ---------------------------------------------------------------- faults of some ways of calling


def test_a_fault_of_one_way_of_calling_is_told_for_that_one():
    def attention(x, w_q, w_k, w_v, w_o, heads, causal, need_weights):
        hide = causal and not need_weights  # the flag is lost where weights are asked for
        return masked(-np.inf)(x, w_q, w_k, w_v, w_o, heads, np.tri(x.shape[1], dtype=bool) if hide else None)

    report = check(attention)
    (found,) = report.faults
    assert found.cases == ("causal (flag)",) and "causal_mask_ignored" in found.names
    assert "FAULT  causal_mask_ignored in the case causal (flag)" in report.text()


def test_a_causal_mask_from_the_other_corner_is_named_where_rows_keep_no_key():
    def attention(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads, keep=None):
        q, k, v = split(x_q @ w_q, heads), split(x_k @ w_k, heads), split(x_v @ w_v, heads)
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        T, S = scores.shape[2:]
        scores = scores if keep is None else np.where(np.tri(T, S, S - T) > 0, scores, -1e9)
        return merge(softmax(scores) @ v) @ w_o

    for sizes in ({"T": 7, "S": 4}, {"T": 4, "S": 7}):
        (found,) = check(attention, sizes=sizes).faults
        assert found.name == "causal_aligned_bottom_right"
        switch = "less" if sizes["T"] > sizes["S"] else "more"  # of keys; it differs at other sizes only
        assert [twin.names for twin in found.twins] == [(f"causal_alignment_switches_to_{switch}",)]
    (found,) = check(attention).faults
    assert found.name == "causal_aligned_bottom_right" and not found.twins


def test_code_that_answers_in_a_shorter_format_is_judged_in_it():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        return masked(0.0)(x, w_q, w_k, w_v, w_o, heads).astype(np.float32)

    report = check(attention)
    assert report.ok and report.dtype == "float32" and "is judged as float32" in report.notes[0]
