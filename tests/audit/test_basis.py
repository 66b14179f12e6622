"""Another basis inside heads, shown in stages: the same function by its theorem, and what is nearly that is wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mha_sym.audit import Implementation, check
from mha_sym.audit.cases import cases_of
from mha_sym.audit.compare import witness
from mha_sym.audit.diagnosis.basis import in_another_basis
from mha_sym.audit.diagnosis.symmetry import shown_symmetries
from mha_sym.audit.dumps.dump import check_dump
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.specification import specification
from mha_sym.audit.target import as_implementation
from mha_sym.library import theorem_names
from tests.audit.right import softmax
from tests.audit.wrong import merge, split

THEOREM = "head_circuits_determine_layer"
NAME = "basis_changed_inside_heads"


def matrices(heads, features, seed):
    """A matrix for every head, none of them special."""
    return np.random.default_rng([seed, heads, features]).standard_normal((heads, features, features))


def mixed(a, g):
    return np.einsum("bhtk,hkj->bhtj", a, g)


def attend(q, k, v, w_o, b_o=0, keep=None):
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    a = softmax(scores if keep is None else np.where(keep, scores, -np.inf))
    z = a @ v
    stages = {"q": q, "k": k, "v": v, "scores": scores, "weights": a, "z": z, "c": merge(z)}
    return {**stages, "y": merge(z) @ w_o + b_o}


def in_bases(q, k, v, w_o, heads, on_keys=lambda g: np.linalg.inv(g).swapaxes(1, 2)):
    """Queries, keys, values and rows of W_O, each head in a basis of its own."""
    g, g_v = matrices(heads, q.shape[-1], 1), matrices(heads, v.shape[-1], 2)
    rows = np.linalg.inv(g_v) @ w_o.reshape(heads, v.shape[-1], -1)
    return mixed(q, g), mixed(k, on_keys(g)), mixed(v, g_v), rows.reshape(w_o.shape)


def only(*names):
    """Code that shows some of its stages."""

    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        found = attend(*in_bases(q, k, v, w_o, heads))
        return {name: found[name] for name in (*names, "y")}

    return attention


def with_biases_and_a_mask(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, heads, keep):
    q, k, v = (split(x @ w + b, heads) for w, b in ((w_q, b_q), (w_k, b_k), (w_v, b_v)))
    return attend(*in_bases(q, k, v, w_o, heads), b_o, keep)


def scale_moved_and_heads_in_reverse(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads)[:, ::-1] for w in (w_q, w_k, w_v))
    rows = np.concatenate(np.split(w_o, heads)[::-1])
    q, k, v, rows = in_bases(q, k, v, rows, heads)
    return attend(q, k, v, rows)


def scale_on_the_queries(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    q, k, v, rows = in_bases(q, k, v, w_o, heads)
    shown = attend(q, k, v, rows)
    return {**shown, "q": q / np.sqrt(q.shape[-1])}


def shared_keys(x, w_q, w_k, w_v, w_o, heads, kv_heads):
    """Two query heads and more to a key head: heads that share keys share the basis."""
    q, k, v = split(x @ w_q, heads), split(x @ w_k, kv_heads), split(x @ w_v, kv_heads)
    g = matrices(kv_heads, q.shape[-1], 3)
    copies = heads // kv_heads
    q = mixed(q, np.repeat(g, copies, 0))
    k = np.repeat(mixed(k, np.linalg.inv(g).swapaxes(1, 2)), copies, 1)
    return attend(q, k, np.repeat(v, copies, 1), w_o)


class Rotated(torch.nn.Module):
    """A module of torch with an orthogonal matrix in every head, in float32."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        torch.manual_seed(0)
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (torch.nn.Linear(width, width, bias=False) for _ in range(4))
        for name in ("turn", "turn_v"):
            self.register_buffer(name, torch.linalg.qr(torch.randn(heads, width // heads, width // heads))[0])

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (w(x).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v = q @ self.turn, k @ self.turn, v @ self.turn_v
        z = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        back = z @ self.turn_v.transpose(-1, -2)
        return {"q": q, "k": k, "v": v, "z": z, "y": self.w_o(back.transpose(1, 2).reshape(b, t, -1))}


def torch_layer():
    names = {f"w_{letter}": f"w_{letter}.weight" for letter in "qkvo"}
    return Implementation(call=Rotated(), heads=3, layout="linear", names=names, dtype="float32")


RIGHT = {
    "every stage": (only("q", "k", "v", "scores", "weights", "z", "c"), "Q^(r) G, keys are K^(r) G^-T, values"),
    "queries and keys": (only("q", "k"), "queries are Q^(r) G, keys are K^(r) G^-T, with"),
    "queries alone": (only("q"), "queries are Q^(r) G, with"),
    "values and joined heads": (only("v", "c"), "values are V^(r) G, joined heads are Z^(r) G, with"),
    "head outputs alone": (only("z"), "head outputs are Z^(r) G, with"),
    "biases and a mask": (with_biases_and_a_mask, "joined heads are Z^(r) G"),
    "shared keys": (shared_keys, "queries are Q^(r) G, keys are K^(r) G^-T, with"),
    "a torch module": (torch_layer, "queries are Q^(r) G"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_another_basis_is_the_same_function_by_theorem(name):
    code, words = RIGHT[name]
    report = check(code() if code is torch_layer else code, draws=2)
    assert report.ok and report.exit_code == 0 and not report.faults
    assert [one.name for one in report.symmetries] == [NAME] and words in report.symmetries[0].words
    assert f"the same function, by theorem {THEOREM}" in " ".join(report.text().split())
    assert "wrong" not in {one.status for one in report.steps}
    assert any(f"is the same function by theorem {THEOREM}" in one.detail for one in report.steps)
    assert report.json()["symmetries"][0]["theorem"] == THEOREM


def test_the_theorem_is_one_of_the_library():
    assert THEOREM in theorem_names()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (scale_on_the_queries, "scale_on_queries"), (scale_moved_and_heads_in_reverse, "heads_permuted_with_w_o"),
    ],
)  # fmt: skip
def test_another_basis_and_another_symmetry_at_once(code, name):
    report = check(code, draws=2)
    (found,) = report.symmetries
    assert report.ok and [one.name for one in found.faults] == [name, NAME]


def test_an_order_of_features_is_still_called_that():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        return attend(q[..., ::-1], k[..., ::-1], v, w_o)

    assert [one.name for one in check(attention, draws=2).symmetries] == ["features_permuted_inside_heads"]


def by_hand(seed=3):
    """Arrays and stages of a layer in another basis, made without code that is checked."""
    rng, h, sizes = np.random.default_rng(seed), 3, {"w_q": 12, "w_k": 12, "w_v": 6, "x": 0}
    arrays = {name: rng.standard_normal((7, n)) / 2 for name, n in sizes.items() if n}
    arrays |= {"w_o": rng.standard_normal((6, 7)), "x": rng.standard_normal((2, 5, 7))}
    q, k, v = (split(arrays["x"] @ arrays[f"w_{letter}"], h) for letter in "qkv")
    return arrays, attend(*in_bases(q, k, v, arrays["w_o"], h))


def test_a_dump_in_another_basis_is_the_same_function(tmp_path):
    arrays, stages = by_hand()
    np.savez(tmp_path / "dump.npz", **arrays, **{name: stages[name] for name in ("q", "k", "v", "scores", "z", "y")})
    report = check_dump(tmp_path / "dump.npz", heads=3)
    assert report.ok and [one.name for one in report.symmetries] == [NAME]


# ---------------------------------------------------------------- nearly that


def shows(**edits):
    """Code that is right and shows stages that were changed behind its back."""

    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        found = attend(q, k, v, w_o)
        found |= {name: edit(found[name]) for name, edit in edits.items()}
        return {**found, "c": merge(found["z"])}

    return attention


def turned(seed, inverse=False, heads=slice(None)):
    """Features of some heads mixed."""

    def edit(a):
        g = matrices(a.shape[1], a.shape[-1], seed)
        found = np.array(a)
        found[:, heads] = mixed(a, np.linalg.inv(g).swapaxes(1, 2) if inverse else g)[:, heads]
        return found

    return edit


def singular(a):
    found = np.array(mixed(a, matrices(a.shape[1], a.shape[-1], 1)))
    found[..., 0] = found[..., 1]
    return found


def in_each_sample(a):
    return np.stack([one @ matrices(*one.shape[::2], number) for number, one in enumerate(a)])


NEARLY = {
    "G on the queries only": (shows(q=turned(1)), "q"),
    "G on the queries, G on the keys": (shows(q=turned(1), k=turned(1)), "q"),
    "one head of the keys left": (shows(q=turned(1), k=turned(1, True, slice(1, None))), "q"),
    "keys with G^-T of another G": (shows(q=turned(1), k=turned(2, True)), "q"),
    "head outputs in another basis than values": (shows(v=turned(1), z=turned(2)), "v"),
    "values turned, head outputs not": (shows(v=turned(1)), "v"),
    "no inverse": (shows(v=singular, z=singular), "v"),
    "a shift besides": (shows(q=lambda q: turned(1)(q) + 1, k=turned(1, True)), "q"),
    "another matrix in each sample": (shows(v=in_each_sample, z=in_each_sample), "v"),
    "scores, which have no basis": (shows(scores=lambda s: s @ s.swapaxes(2, 3)), "scores"),
}  # fmt: skip


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_nearly_another_basis_is_wrong(name):
    code, stage = NEARLY[name]
    report = check(code, draws=2)
    assert report.verdict == "disagree" and not report.symmetries
    assert report.first_wrong is not None and report.first_wrong.stage == stage
    assert "wrong" in {one.status for one in report.steps}


@pytest.mark.parametrize("on_keys", [lambda g: g, lambda g: np.linalg.inv(g), lambda g: np.eye(g.shape[-1]) + 0 * g])
def test_a_matrix_that_the_keys_do_not_undo_changes_the_output(on_keys):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        return attend(*in_bases(q, k, v, w_o, heads, on_keys))

    impl = as_implementation(attention, "")
    (case,) = cases_of(impl)
    run = witness(impl, specification(impl, case), draw_setting(impl, case, 0, 0))
    assert {"q", "k", "scores", "y"} & set(run.wrong) >= {"q", "scores", "y"}
    assert not shown_symmetries([run]) and in_another_basis(run, run.found, ["q", "k"]) is False


def test_a_dump_with_one_head_in_another_basis_only_in_its_keys_is_wrong(tmp_path):
    arrays, stages = by_hand()
    stages["k"] = turned(5, heads=slice(1, 2))(stages["k"])
    np.savez(tmp_path / "dump.npz", **arrays, **{name: stages[name] for name in ("q", "k", "scores", "y")})
    report = check_dump(tmp_path / "dump.npz", heads=3)
    assert report.verdict == "disagree" and not report.symmetries


def test_too_few_tokens_say_nothing():
    code = only("v")
    report = check(code, draws=1, sizes={"B": 1, "T": 2, "S": 2, "d_v": 5})
    assert report.verdict == "disagree" and not report.symmetries


def test_with_rotary_positions_nothing_is_said_of_queries_and_keys():
    def turn(a, cos, sin):
        half = a.shape[-1] // 2
        swapped = np.concatenate([-a[..., half:], a[..., :half]], -1)
        return a * cos + swapped * sin

    def layer(factor):
        def attention(x, w_q, w_k, w_v, w_o, cos, sin, heads):
            q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
            return attend(factor * turn(q, cos, sin), turn(k, cos, sin) / factor, v, w_o)

        return Implementation(call=attention, rotary="halves")

    assert check(layer(1.0), draws=1).ok
    report = check(layer(2.0), draws=1)
    assert report.verdict == "disagree" and not report.symmetries
