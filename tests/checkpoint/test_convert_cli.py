"""What `mha-sym convert` prints, for people and for programs, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mha_sym.attention.layouts import LAYOUTS
from mha_sym.cli import main
from mha_sym.cli.common import Exit
from tests.checkpoint import packed_by_hand as by_hand


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    layers = [by_hand.Heads(m=10, h=6, g=2, k=4, v=5, biased="qkv", seed=n) for n in range(2)]
    stored = [by_hand.llama(layer) for layer in layers]
    arrays = {f"h.{n}.attn.{name}": value for n, layer in enumerate(stored) for name, value in layer.items()}
    arrays["h.0.attn.k_proj.weight"][3, 2] = np.nan
    np.savez(tmp_path / "in.npz", **arrays, **{"h.0.attn.q_norm": np.ones(4), "wte": np.ones((9, 10))})
    return tmp_path


REPORT = """\
CONVERTED   in.npz to out.npz: 2 layers
  from      llama: Llama, Mistral, Qwen2, Gemma: q_proj to o_proj, fewer key and value heads
  to        grouped_strided: fewer key and value heads, (in, out), query head i reading head i mod G
  layers    h.0.attn. to h.1.attn.: d_model=10, h=6, G=2, d_k=4, d_v=5, biases q, k, v
  carried   2 other tensors, unchanged
  compared  read back, equal bit for bit: 14 weights and biases head by head, 14 tensors converted back, 2 carried over
  proved    for all G, R, d_k, d_model, d_v: every head keeps its matrices, and back is the identity (14 equalities)
  see       split_columns_inverse_join_columns and head_permutation_leaves_layer_unchanged
  memory    at most 2.3 KiB of tensors at a time, to make one
  note      h.0.attn.w_k holds 1 NaN, moved as stored
  note      query heads changed their order with their rows of W_O; whatever else is kept by head must follow
  note      that there are 6 heads is as you said: nothing in the file tells it, so check it
  note      carried over from beside the layers: q_norm
  note      scale, masks, positions and the order of features in a head stay: what loads it must have the same
"""


def run(*words: str) -> int:
    return main(["convert", "in.npz", "out.npz", *words])


def test_report(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--from", "llama", "--to", "grouped_strided", "--heads", "6") == Exit.OK
    assert capsys.readouterr().out == REPORT


def test_report_for_programs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--from", "auto", "--to", "phi3", "--heads", "6", "--at", "h.1", "--json") == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert [said[name] for name in ("source", "target", "from", "to")] == ["in.npz", "out.npz", "llama", "phi3"]
    assert [said[name] for name in ("converted", "compared", "nan")] == [7, 7, {}]
    assert said["layers"] == [
        {
            "prefix": "h.1.attn.", "sizes": {"d_model": 10, "h": 6, "G": 2, "d_k": 4, "d_v": 5}, "biases": "qkv",
            "from": {
                "h.1.attn.q_proj.weight": [24, 10], "h.1.attn.k_proj.weight": [8, 10],
                "h.1.attn.v_proj.weight": [10, 10], "h.1.attn.o_proj.weight": [10, 30],
                "h.1.attn.q_proj.bias": [24], "h.1.attn.k_proj.bias": [8], "h.1.attn.v_proj.bias": [10],
            },
            "to": {
                "h.1.attn.qkv_proj.weight": [42, 10], "h.1.attn.o_proj.weight": [10, 30],
                "h.1.attn.qkv_proj.bias": [42],
            },
        }
    ]  # fmt: skip
    [theorem] = said["theorems"]
    sizes = ["G", "R", "d_k", "d_model", "d_v"]
    assert theorem == {"name": "llama_to_phi3", "proved": True, "claims": 14, "sizes": sizes}
    assert len(said["carried"]) == 9


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("--from", "lama", "--to", "phi3"), "no layout 'lama'; expected: combined, "),
    (
        ("--from", "llama", "--to", "phi3"),
        "the number of heads cannot be told from the shapes; in: layer h.0.attn.; hint: give --heads N\n",
    ),
    (
        ("--from", "llama", "--to", "flax", "--heads", "6"),
        "flax has a key and value head for every head, and the layer has 2 for 6; in: layer h.0.attn.; hint: ",
    ),
    (
        ("--from", "gpt2", "--to", "phi3", "--heads", "6"),
        "no layer has the names of layout gpt2; expected: c_attn.weight, c_proj.weight, c_attn.bias, c_proj.bias; "
        "got: those of llama; hint: mha-sym identify finds ",
    ),
    (
        ("--from", "llama", "--to", "phi3", "--heads", "4"),
        "axis '(g k)' of k_proj.weight has 8 positions, not 6; in: layer h.0.attn.; ",
    ),
    (
        ("--from", "llama", "--to", "t5", "--heads", "6", "--repeat-kv"),
        "queries would have to be multiplied by sqrt(d_k) or its inverse, which is no conversion of a layout; "
        "in: llama to t5; hint: linear only says how weights lie",
    ),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_exit_code_2(
    words: tuple[str, ...], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == Exit.UNUSABLE
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith(f"mha-sym: {said}"), shown.err
    assert [one.name for one in place.iterdir()] == ["in.npz"]


def test_a_pickle_is_refused_unread(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "model.pt", "out.npz", "--from", "gpt2", "--to", "opt"]) == Exit.UNUSABLE
    said = "mha-sym: model.pt is not read; expected: .safetensors or .npz; got: .pt; hint: loading it would "
    assert capsys.readouterr().err.startswith(said)


def test_the_proof_can_be_checked_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ("--from", "llama", "--to", "phi3", "--heads", "6", "--certificate", "proof.json", "--coq", "proof.v")
    assert run(*line) == Exit.OK
    written = capsys.readouterr().err.splitlines()[0]
    assert main(["recheck", "proof.json"]) == Exit.OK
    checked = capsys.readouterr().out
    goals = checked.partition("goals: ")[2].partition(" ")[0]
    assert "llama_to_phi3: accepted" in checked
    assert written == f"mha-sym: proof.json is written: 14 equalities in {goals} goals"
    assert "kept_W_K" in (place / "proof.v").read_text()
    (place / "out.npz").unlink()
    assert run(*line) == Exit.UNUSABLE  # the proofs are there
    assert not (place / "out.npz").exists()


def test_a_proof_of_layers_that_are_not_alike(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with np.load("in.npz") as found:
        np.savez("in.npz", **{name: value for name, value in found.items() if not name.startswith("h.1.attn.q_proj.b")})
    line = ("--from", "llama", "--to", "grouped", "--heads", "6", "--certificate", "proof.json")
    assert run(*line) == Exit.UNUSABLE
    assert "out.npz is written, and its proof is not: the layers need 2 theorems" in capsys.readouterr().err
    assert sorted(one.name for one in place.iterdir()) == ["in.npz", "out.npz"]


def test_heads_that_take_turns_have_no_proof_for_coq(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--from", "llama", "--to", "grouped_strided", "--heads", "6", "--coq", "proof.v") == Exit.UNUSABLE
    shown = capsys.readouterr().err
    assert shown.startswith("mha-sym: the new file is written, and its proof for Coq is not: ")
    assert "--certificate writes it for mha-sym recheck" in shown and shown.count("\n") == 1
    assert sorted(one.name for one in place.iterdir()) == ["in.npz", "out.npz"]


def test_layouts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--layouts"]) == Exit.OK
    shown = capsys.readouterr().out
    for name, layout in LAYOUTS.items():
        assert f"\n{name} " in f"\n{shown}"
        assert layout.words in shown
    assert "self.query.weight, self.key.weight, self.value.weight, output.dense.weight" in shown
