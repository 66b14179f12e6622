"""Masks of torch modules: handed over under the meaning that fits, or said to be left out where none does."""

from __future__ import annotations

import pytest
import torch

from mha_sym.audit import Implementation, check
from mha_sym.audit.frameworks.torch_found import from_module
from mha_sym.audit.proving.code import prove_code
from mha_sym.errors import TargetProblem
from mha_sym.proof.theorem import Verdict


class Plain(torch.nn.Module):
    """Four heads of width 6; ``masked`` says what becomes of the scores."""

    def __init__(self, width=24, heads=4):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (torch.nn.Linear(width, width) for _ in range(4))

    def attend(self, x, scores_to_weights):
        b, t, _ = x.shape
        q, k, v = (one(x).view(b, t, self.heads, -1).transpose(1, 2) for one in (self.q_proj, self.k_proj, self.v_proj))
        weights = scores_to_weights(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(b, t, -1))


class Kept(Plain):
    def forward(self, x, keep=None):
        return self.attend(x, lambda s: (s if keep is None else s.masked_fill(~keep, -torch.inf)).softmax(-1))


class Dropped(Plain):
    def forward(self, x, attn_mask=None):
        return self.attend(x, lambda s: (s if attn_mask is None else s.masked_fill(attn_mask, -1e30)).softmax(-1))


class Added(Plain):
    def forward(self, x, attention_mask=None):
        return self.attend(x, lambda s: (s if attention_mask is None else s + attention_mask).softmax(-1))


class Padded(Plain):
    def forward(self, x, key_padding_mask=None):
        pad = key_padding_mask
        return self.attend(
            x, lambda s: (s if pad is None else s.masked_fill(pad[:, None, None, :], -torch.inf)).softmax(-1)
        )


class AddedAsNumbers(Plain):
    def forward(self, x, keep=None):
        return self.attend(x, lambda s: (s if keep is None else s + keep).softmax(-1))


class PaddingOfQueries(Plain):
    def forward(self, x, key_keep=None):
        hidden = None if key_keep is None else ~key_keep[:, None, :, None]
        return self.attend(x, lambda s: (s if hidden is None else s.masked_fill(hidden, -1e9)).softmax(-1))


class AfterTheSoftmax(Plain):
    def forward(self, x, mask=None):
        return self.attend(x, lambda s: s.softmax(-1) if mask is None else s.softmax(-1) + mask)


class OwnPositions(Plain):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", 0.1 ** torch.arange(3.0))

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1], dtype=x.dtype), self.inv_freq.to(x.dtype)).sum(-1)
        return self.attend(x, lambda s: (s * torch.cos(angles)[:, None]).softmax(-1))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Kept, "its keep was found to be true where a query may attend"),
        (Dropped, "its attn_mask was found to be true where a query may not attend"),
        (Added, "its attention_mask was found to be added to the scores"),
        (Padded, "its key_padding_mask was found to be true for keys that are padding"),
    ],
)
def test_a_mask_of_a_module_is_handed_over_and_its_meaning_found(kind, words):
    report = check(kind(), draws=1)
    assert report.ok, report.text()
    assert words in report.notes
    assert any("causal" in one.case or "padding" in one.case for one in report.compared)
    assert not any("nothing is said of" in note for note in report.notes)


def test_a_mask_of_a_module_is_proved_with_it():
    made = prove_code(from_module(Added()))
    assert made.verdict is Verdict.PROVED and "masks as they are handed over" in made.conventions
    assert {case.case for case in made.cases} >= {"no mask", "causal (additive)"}


@pytest.mark.parametrize(
    ("kind", "fault"), [(AddedAsNumbers, "mask_added_as_number"), (PaddingOfQueries, "padding_on_queries")]
)
def test_a_mask_whose_name_says_what_it_is_is_taken_at_its_word(kind, fault):
    report = check(kind(), draws=2)
    assert not report.ok
    assert any(fault in one.names for one in report.faults), report.text()


def test_a_mask_that_fits_no_meaning_is_said_to_be_left_out_in_the_headline():
    report = check(AfterTheSoftmax(), draws=1, name="after")
    assert report.target == "after called without mask"
    assert any(note.startswith("with its mask it gives what attention gives under no meaning") for note in report.notes)
    made = prove_code(from_module(AfterTheSoftmax(), "after"))
    assert made.target == "after called without mask" and "no mask" in made.conventions


class Gated(Plain):
    def forward(self, x, head_mask=None, cache=None):
        if head_mask is not None and self.spread:
            head_mask = head_mask + torch.zeros(1, self.heads, 1, 1)  # of another shape it refuses it
        y = self.attend(x, lambda s: s.softmax(-1) if head_mask is None else self.gated(s, head_mask))
        return y if cache is None else 0 * y

    spread = True

    def gated(self, s, head_mask):
        return s.softmax(-1) * head_mask


class GatedBadly(Gated):
    spread = False

    def gated(self, s, head_mask):
        return s.softmax(-1) * head_mask.mean()


def test_what_a_module_takes_and_is_never_handed_is_left_out_in_the_headline():
    made = prove_code(from_module(Gated(), "gated"))
    assert made.verdict is Verdict.PROVED and made.target == "gated called without head_mask, cache"


def test_where_the_head_mask_of_a_module_acts_is_found_by_handing_it_over():
    right, wrong = (check(kind(), draws=1, name="gated") for kind in (Gated, GatedBadly))
    assert right.ok and right.target == "gated called without cache" and "weights A" in right.findings.head_mask
    assert wrong.exit_code == 1 and wrong.findings.head_mask == ()


class WithStates(Plain):
    def forward(self, x):
        y = self.attend(x, lambda s: s.softmax(-1))
        return y, (x, None)


def test_that_only_the_first_output_is_looked_at_is_said_in_the_headline():
    assert prove_code(from_module(WithStates(), "states")).target == "states (the first of its outputs)"


class Ignored(Plain):
    def forward(self, x, attention_mask=None, head_mask=None):
        gates = 1 if head_mask is None else head_mask.view(1, -1, 1, 1)
        return self.attend(x, lambda s: s.softmax(-1) * gates)


def test_a_mask_that_has_no_effect_is_wrong_and_no_mask_of_another_kind():
    report = check(Ignored(), draws=1)
    assert "its attention_mask has no effect" in report.notes and report.exit_code == 1
    assert any("masks_ignored" in one.names for one in report.faults)
    assert "weights A" in (report.findings.head_mask or ()) and not report.findings.gates_badly


def test_undecided_code_that_hides_by_a_number_is_told_why():
    def code(x, w_q, w_k, w_v, w_o, heads):
        q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
        later = torch.ones(x.shape[1], x.shape[1]).tril() == 0
        s = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(later, -1e4)
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(*x.shape[:2], -1) @ w_o

    made = prove_code(Implementation(call=code, causal=True, framework="torch"))
    assert made.verdict is Verdict.UNDECIDED and any("hide keys by -10000" in one for one in made.notes)


def test_modules_with_positions_of_their_own_are_not_called_wrong():
    with pytest.raises(TargetProblem, match="tables of rotary positions by itself") as refused:
        check(OwnPositions())
    assert "inv_freq" in str(refused.value)
