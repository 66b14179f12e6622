"""Randomness is refused, and dropout is named where it is the reason; what a module does in training mode is said."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.call import Unsteady
from tests.audit.wrong import merge, softmax, split

torch = pytest.importorskip("torch")
F = torch.nn.functional


def numpy_code(change):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        return merge(change(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))) @ v) @ w_o

    return attention


def dropped(a):
    return a * (np.random.default_rng().random(a.shape) > 0.2) / 0.8


def shuffled(a):
    return a * np.random.default_rng().random()


def refused(code):
    with pytest.raises(Unsteady) as raised:
        check(code)
    return raised.value


def test_dropout_in_numpy_is_named_by_its_average():
    found = refused(numpy_code(dropped))
    assert "is random from call to call" in found.what and "dropout_active: its average over" in found.what
    assert "eval()" in found.hint


def noisy(a):
    return a + 0.1 * np.random.default_rng().standard_normal(a.shape)


def jittered(a):
    return a * (1 + 0.3 * np.random.default_rng().standard_normal(a.shape))


@pytest.mark.parametrize("change", [shuffled, noisy, jittered])
def test_other_randomness_is_not_called_dropout(change):
    found = refused(numpy_code(change))  # of two of these the average is the right output, too
    assert "dropout_active" not in found.what and "is random from call to call" in found.what


def torch_code(attend):
    def attention(x: torch.Tensor, w_q, w_k, w_v, w_o, heads):
        q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
        return attend(q, k, v).transpose(1, 2).flatten(2) @ w_o

    return attention


@pytest.mark.parametrize(
    ("attend", "said"),
    [
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.1), "agrees"),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, None, 0.1, scale=1.0), "disagrees"),
        (lambda q, k, v: F.dropout(F.scaled_dot_product_attention(q, k, v), 0.3), "agrees"),
    ],
)  # fmt: skip
def test_dropout_of_torch_is_named_by_switching_it_off(attend, said):
    before = F.dropout, F.scaled_dot_product_attention
    assert refused(torch_code(attend)).what.endswith(f"switched off it {said}")
    assert (F.dropout, F.scaled_dot_product_attention) == before


def test_noise_in_torch_is_not_called_dropout():
    found = refused(torch_code(lambda q, k, v: F.scaled_dot_product_attention(q, k, v) + torch.rand(())))
    assert "dropout_active" not in found.what


class Layer(torch.nn.Module):
    """Attention that does something else in training mode if ``other`` is given."""

    def __init__(self, other=None):
        super().__init__()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(8, 8, bias=False) for _ in range(4))
        self.other = other

    def forward(self, x):
        q, k, v = (one(x).unflatten(-1, (2, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
        y = self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return self.other(y) if self.training and self.other is not None else y


class Found(torch.nn.Module):
    """Attention of which nothing is described, with dropout."""

    def __init__(self, rate=0.25):
        super().__init__()
        self.num_heads = 2
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (torch.nn.Linear(8, 8) for _ in range(4))
        self.drop = torch.nn.Dropout(rate)

    def forward(self, x, mask=None):
        q, k, v = (one(x).unflatten(-1, (2, 4)).transpose(1, 2) for one in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.transpose(-2, -1) / 2
        weights = self.drop((scores if mask is None else scores + mask).softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


def test_dropout_of_a_module_that_was_found_by_its_names_is_noted():
    report = check(Found())
    assert report.ok and [note for note in report.notes if "dropout_active: in training mode its output" in note]
    for quiet in (Found().eval(), Found(0.0)):
        assert not [note for note in check(quiet).notes if "training" in note]


NAMES = {f"w_{letter}": f"{letter}.weight" for letter in "qkvo"}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (None, ""), (lambda y: F.dropout(y, 0.5), "dropout_active: in training mode its output differs"),
        (lambda y: 2 * y, "in training mode it computes something else"),
    ],
)  # fmt: skip
def test_what_a_module_does_in_training_mode_is_noted(other, said):
    made = Layer(other)
    description = {"heads": 2, "layout": "linear", "names": NAMES, "framework": "torch"}
    report = check(Implementation(call=made, **description))
    assert report.ok and made.training
    assert any(said in note for note in report.notes) if said else not report.notes
    assert not check(Implementation(call=made.eval(), **description)).notes


def test_a_module_that_takes_positions_first_is_noted():
    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.num_heads, self.inner = 2, torch.nn.MultiheadAttention(8, 2)

        def forward(self, x):
            return self.inner(x, x, x)[0]

    assert [note for note in check(Wrapped()).notes if "found to be (t, b, m), positions first" in note]


# ---------------------------------------------------------------- rows of NaN


def hides(make):
    def attention(x, w_q, w_k, w_v, w_o, heads, keep=None):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        with np.errstate(invalid="ignore"):
            return merge(softmax(scores if keep is None else np.where(make(keep), scores, -np.inf)) @ v) @ w_o

    return attention


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda keep: ~keep, "causal_mask_inverted"),
        (lambda keep: np.tri(*keep.shape, -1) > 0, "causal_hides_diagonal"),
        (lambda keep: np.tri(*keep.shape, -2) > 0, "causal_hides_two"),
    ],
)  # fmt: skip
def test_rows_of_nan_are_explained_by_the_fault_that_keeps_no_key_there(make, name):
    report = check(hides(make))
    (found,) = report.faults
    assert report.verdict == "disagree" and found.name == name and found.telling == 3
    assert "NaN in the same rows" in found.confidence and "NaN in every row" in found.symptom
    assert "causal (boolean), NaN at" in report.text().replace("(causal (boolean))", "causal (boolean)")
    assert report.steps[3].status == "wrong" and "10⁹" not in report.json()["faults"][0]["formula"]
    assert all(twin.proved for twin in found.twins)


def causal_by_itself(make, low=-np.inf):
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
        with np.errstate(invalid="ignore"):
            return merge(softmax(np.where(make(x.shape[1]), scores, low)) @ v) @ w_o

    return attention


@pytest.mark.parametrize("said", [True, None], ids=["said to be causal", "not said"])
@pytest.mark.parametrize(
    ("make", "low", "name"),
    [
        (lambda t: np.tri(t) == 0, -np.inf, "causal_mask_inverted"),
        (lambda t: np.tri(t) == 0, -1e9, "causal_mask_inverted"),
        (lambda t: np.tri(t).T > 0, -np.inf, "causal_mask_transposed"),
        (lambda t: np.tri(t, k=1) > 0, -np.inf, "causal_sees_next_token"),
        (lambda t: np.tri(t, k=-1) > 0, -np.inf, "causal_hides_diagonal"),
        (lambda t: np.tri(t) > 0, 0.0, "mask_multiplied_into_scores"),
    ],
)  # fmt: skip
def test_a_wrong_causal_mask_has_the_same_name_whether_it_was_declared_or_not(make, low, name, said):
    report = check(causal_by_itself(make, low), causal=said)
    (found,) = report.faults
    assert found.name == name and not found.cases and report.exit_code == 1
    assert any("nothing was said of a causal mask" in note for note in report.notes) == (said is None)
    assert "declare" not in found.mend


def test_what_is_no_mask_is_not_judged_as_a_causal_one():
    def attention(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
        weights = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))
        return {"y": merge(weights @ v) @ w_o, "weights": weights.swapaxes(2, 3).swapaxes(2, 3) + 1e-3}

    report = check(attention)  # the output is right, as it is not under a causal mask
    assert report.first_wrong.stage == "weights" and not report.faults and not report.notes


def test_rows_of_nan_of_no_known_fault_are_only_told():
    def odd(keep):
        rows = np.arange(len(keep))[:, None] % 3 > 0
        return keep & rows

    with pytest.raises(Exception, match="returns nan in y") as raised:
        check(hides(odd))
    assert "makes them" not in raised.value.hint
