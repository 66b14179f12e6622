"""What code does that was not declared is named: masks, other numbers of heads, weights of its own, alignments."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import Implementation, check, check_target
from mha_sym.audit.dumps.dump import check_dump
from mha_sym.errors import Problem, TargetProblem
from tests.audit.mistakes import MISTAKES, Layer
from tests.audit.wrong import merge, softmax, split


def attend(q, k, v, keep=None, scale=None):
    scores = q @ k.swapaxes(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return softmax(scores if keep is None else np.where(keep, scores, -np.inf)) @ v


def layer(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads, keep=None, scale=None):
    q, k, v = split(x_q @ w_q, heads), split(x_k @ w_k, heads), split(x_v @ w_v, heads)
    return merge(attend(q, k, v, keep, scale)) @ w_o


# ---------------------------------------------------------------- masks that were not declared


def causal(x, w_q, w_k, w_v, w_o, heads):
    return layer(x, x, x, w_q, w_k, w_v, w_o, heads, np.tri(x.shape[1]) > 0)


def causal_whatever_it_is_handed(x, w_q, w_k, w_v, w_o, heads, key_keep=None):
    keep = np.tri(x.shape[1]) > 0
    return layer(x, x, x, w_q, w_k, w_v, w_o, heads, keep if key_keep is None else keep & key_keep[:, None, None, :])


def only_later_ones(x, w_q, w_k, w_v, w_o, heads):
    return layer(x, x, x, w_q, w_k, w_v, w_o, heads, np.tri(x.shape[1]).T > 0)


def causal_between_two_inputs(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads):
    keep = np.tri(x_q.shape[1], x_k.shape[1], x_k.shape[1] - x_q.shape[1]) > 0
    return layer(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads, keep)


@pytest.mark.parametrize(
    ("code", "name", "sizes"),
    [
        (causal, "causal_mask_not_declared", {}), (only_later_ones, "causal_mask_transposed", {}),
        (causal_between_two_inputs, "causal_mask_not_declared_from_the_end", {"T": 4, "S": 7}),
    ],
)  # fmt: skip
def test_a_mask_that_was_not_declared_is_named(code, name, sizes):
    (found,) = check(code, sizes=sizes).faults
    assert found.name == name and all(twin.proved for twin in found.twins)
    assert check(causal, causal=True).ok


def test_it_is_named_in_every_way_of_calling():
    # padding may leave a row none of the earlier keys: lengths say that the first key counts everywhere
    (found,) = check(causal_whatever_it_is_handed).faults
    assert found.name == "causal_mask_not_declared" and not found.cases and found.telling >= 6


# ---------------------------------------------------------------- numbers of heads


@pytest.mark.parametrize(("n", "name"), [(1, "one_head_for_all"), (2, "heads_taken_as_2"), (6, "heads_taken_as_6")])
def test_another_number_of_heads_is_named(n, name):
    def attention(x, w_q, w_k, w_v, w_o):
        return layer(x, x, x, w_q, w_k, w_v, w_o, n)

    report = check(attention, heads=3, sizes={"d_k": 4, "d_v": 8})
    (found,) = report.faults
    assert found.name == name and report.steps[0].status == "wrong"
    assert not [twin for twin in found.twins if not twin.proved]
    assert all(departure for departure in report.json()["faults"][0]["latex"])


def test_another_number_of_heads_with_the_scale_of_the_declared_one():
    def attention(x, w_q, w_k, w_v, w_o):
        return layer(x, x, x, w_q, w_k, w_v, w_o, 6, scale=4**-0.5)

    (found,) = check(attention, heads=3, sizes={"d_k": 4, "d_v": 8}).faults
    assert found.name == "heads_taken_as_6_scale_kept"


def test_another_number_of_heads_beside_another_fault():
    def attention(x, w_q, w_k, w_v, w_o):
        q, k, v = (split(x @ w, 2) for w in (w_q, w_k, w_v))
        return attend(q, k, v).reshape(*x.shape[:2], -1) @ w_o

    (found,) = check(attention, heads=4, sizes={"d_k": 3, "d_v": 5}).faults
    assert {one.name for one in found.faults} == {"heads_taken_as_2", "join_without_transpose"}


def test_heads_and_their_width_exchanged():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        return layer(x, x, x, w_q, w_k, w_v, w_o, w_q.shape[1] // heads)

    (found,) = check(attention).faults
    assert found.name == "heads_and_width_exchanged"


def test_a_dump_with_another_number_of_heads(tmp_path):
    rng = np.random.default_rng(3)
    w = {"w_q": (7, 12), "w_k": (7, 12), "w_v": (7, 24), "w_o": (24, 7)}
    arrays = {name: rng.normal(size=shape) / 3 for name, shape in w.items()}
    x = rng.normal(size=(2, 5, 7))
    np.savez(tmp_path / "six.npz", x=x, **arrays, y=layer(x, x, x, **arrays, heads=6))
    (found,) = check_dump(tmp_path / "six.npz", heads=3).faults
    assert found.name == "heads_taken_as_6" and check_dump(tmp_path / "six.npz", heads=6).ok


# ---------------------------------------------------------------- where a causal mask starts


def flagged(corner):
    def attention(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads, causal=False):
        T, S = x_q.shape[1], x_k.shape[1]
        keep = np.tri(T, S, S - T if corner == "bottom-right" else 0) > 0
        return layer(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads, keep if causal else None)

    return attention


@pytest.mark.parametrize("corner", ["top-left", "bottom-right"])
def test_the_corner_of_a_causal_mask_is_found_checked_and_named_where_it_is_wrong(corner):
    code, other = flagged(corner), {"top-left": "bottom-right", "bottom-right": "top-left"}[corner]
    report = check(code)
    assert report.ok and any(f"say aligned='{corner}'" in note for note in report.notes), report.notes
    report = check(code, aligned=corner)
    assert report.ok and {one.sizes["T"] == one.sizes["S"] for one in report.compared} == {False}
    (found,) = check(code, aligned=other, sizes={"T": 4, "S": 7}).faults
    assert found.name == f"causal_aligned_{corner.replace('-', '_')}"


def test_a_causal_mask_from_neither_corner_is_noted():
    def attention(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads, causal=False):
        T, S = x_q.shape[1], x_k.shape[1]
        return layer(x_q, x_k, x_v, w_q, w_k, w_v, w_o, heads, np.tri(T, S, (S - T) // 3) > 0 if causal else None)

    assert any("neither s <= t nor s <= t + S - T" in note for note in check(attention).notes)


def test_alignments_are_known_words():
    with pytest.raises(TargetProblem, match="cannot be aligned 'left'"):
        Implementation(call=causal, aligned="left")


@pytest.mark.parametrize("corner", ["top-left", "bottom-right"])
def test_the_corner_in_a_dump(tmp_path, corner):
    rng = np.random.default_rng(4)
    w = {"w_q": (7, 12), "w_k": (7, 12), "w_v": (7, 15), "w_o": (15, 7)}
    w = {name: rng.normal(size=shape) / 3 for name, shape in w.items()}
    x = {"x_q": rng.normal(size=(2, 4, 7)), "x_k": rng.normal(size=(2, 7, 7)), "x_v": rng.normal(size=(2, 7, 7))}
    keep = np.tri(4, 7, 3 if corner == "bottom-right" else 0) > 0
    np.savez(tmp_path / "d.npz", **x, **w, y=layer(**x, **w, heads=3, keep=keep))
    assert check_dump(tmp_path / "d.npz", heads=3, causal=corner).ok
    other = "top-left" if corner == "bottom-right" else "bottom-right"
    (found,) = check_dump(tmp_path / "d.npz", heads=3, causal=other).faults
    assert found.name == f"causal_aligned_{corner.replace('-', '_')}"


# ---------------------------------------------------------------- weights and parameters that are not known


def own_weights(x):
    return x * 2


def no_values(x, w_q, w_k, w_o, heads):
    return x


@pytest.mark.parametrize(
    ("code", "said"), [(own_weights, "takes no weights"), (no_values, "takes no w_v")]
)
def test_weights_are_not_drawn_for_code_that_does_not_take_them(code, said):
    with pytest.raises(TargetProblem, match=said) as raised:
        check(code, heads=3)
    assert "weights={" in raised.value.hint


def packed(x, w_qkv, b_qkv, w_o, b_o, heads):
    q, k, v = (split(part, heads) for part in np.split(x @ w_qkv.T + b_qkv, 3, axis=-1))
    return merge(attend(q, k, v)) @ w_o.T + b_o


def test_a_layout_is_heard_before_parameters_are_read():
    report = check(packed, layout="packed_linear")
    assert report.ok and {one.name: one.value for one in report.conventions}["bias"] == "b_Q, b_K, b_V, b_O"
    (found,) = check(packed, layout="packed_by_head_linear", sizes={"h": 4}).faults
    assert found.words.startswith("Weights packed per head") and found.words.endswith("are read as blocks [Q; K; V].")
    with pytest.raises(TargetProblem, match="'w_qkv' of packed is a weight of another layout") as raised:
        check(packed)
    assert "packed_linear" in raised.value.hint


def test_parameters_without_a_known_name_get_a_description_to_paste():
    def attention(x, alpha, beta, gamma, delta, heads):
        return layer(x, x, x, alpha, beta, gamma, delta, heads)

    with pytest.raises(TargetProblem, match="parameter 'alpha'") as raised:
        check(attention)
    stub = raised.value.hint.partition(": ")[2]
    assert stub.startswith("Implementation(call=") and "takes=('x', 'w_q', 'w_k', 'w_v', 'w_o', 'heads')" in stub
    assert "(x, alpha, beta, gamma, delta, heads)" in raised.value.got
    assert check(Implementation(call=attention, takes=("x", "w_q", "w_k", "w_v", "w_o", "heads"))).ok


def test_names_have_one_direction_everywhere(tmp_path):
    rng = np.random.default_rng(5)
    w = {"w_q": (7, 12), "w_k": (7, 12), "w_v": (7, 15), "w_o": (15, 7)}
    w = {name: rng.normal(size=shape) / 3 for name, shape in w.items()}
    x = rng.normal(size=(2, 5, 7))
    theirs = {"Wq" if name == "w_q" else name: value for name, value in w.items()}
    np.savez(tmp_path / "d.npz", x=x, **theirs, y=layer(x, x, x, **w, heads=3))
    settings = tmp_path / "d.toml"
    settings.write_text('heads = 3\n[names]\nw_q = "Wq"\n')
    assert check_dump(tmp_path / "d.npz", settings).ok

    def attention(weights, x, heads):
        return layer(x, x, x, weights["Wq"], weights["w_k"], weights["w_v"], weights["w_o"], heads)

    takes = ("weights", "x", "heads")
    assert check(Implementation(call=attention, takes=takes, names={"w_q": "Wq"})).ok
    settings.write_text('heads = 3\n[names]\nWq = "w_q"\n')
    with pytest.raises(Problem, match="no array 'w_q'") as raised:
        check_dump(tmp_path / "d.npz", settings)
    assert "comes first" in raised.value.hint


# ---------------------------------------------------------------- code that runs only in some places


def test_code_that_needs_coinciding_sizes_under_one_mask_only_is_run_there():
    def attention(x, w_q, w_k, w_v, w_o, heads, key_keep=None):
        keep = None if key_keep is None else key_keep[None, :, None, :]  # as many heads as samples
        return layer(x, x, x, w_q, w_k, w_v, w_o, heads, keep)

    report = check(attention)
    assert any(note.startswith("padding (boolean): it runs only where B = h") for note in report.notes)
    assert "padding_read_per_head" in report.faults[0].names
    free = {one.case: one.sizes["B"] == one.sizes["h"] for one in report.compared}
    assert free == {"no mask": False, "padding (boolean)": True}


def test_a_target_that_has_weights_of_its_own_ends_with_one_line(tmp_path):
    (tmp_path / "own.py").write_text("def attention(x):\n    return x\n")
    report = check_target(f"{tmp_path}/own.py:attention")
    assert report.exit_code == 2 and "takes no weights" in str(report.problem)


def test_an_undeclared_mask_is_what_the_catalogue_makes_of_it():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(2, 5, 6))
    w = {name: rng.normal(size=(6, 6)) for name in ("w_q", "w_k", "w_v", "w_o")}
    by_hand = MISTAKES["causal_mask_not_declared"](Layer(x, x, x, w, 3))
    assert np.abs(by_hand - causal(x, **w, heads=3)).max() < 1e-12
