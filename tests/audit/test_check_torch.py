"""The main job on real input: ``torch.nn.MultiheadAttention`` in its constructor variants, right and made wrong."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from mha_sym.audit import Implementation, check, check_target
from mha_sym.errors import Problem, TargetProblem
from tests.audit.right import softmax

torch = pytest.importorskip("torch", reason="torch is the extra 'torch'")
nn = torch.nn

WIDTHS = {"packed": {}, "kdim and vdim": {"kdim": 7, "vdim": 11}, "kdim": {"kdim": 10}, "vdim": {"vdim": 10}}
VARIANTS = list(itertools.product(WIDTHS, (True, False), (True, False)))


def module(widths: str = "packed", bias: bool = True, batch_first: bool = True, **more: Any) -> Any:
    torch.manual_seed(0)
    return nn.MultiheadAttention(24, 3, bias=bias, batch_first=batch_first, **WIDTHS[widths], **more)


@pytest.mark.parametrize(("widths", "bias", "batch_first"), VARIANTS)
def test_multihead_attention_agrees(widths: str, bias: bool, batch_first: bool) -> None:
    report = check(module(widths, bias, batch_first))
    assert report.ok, report.text()
    assert {one.case for one in report.compared} == {
        "no mask", "causal (boolean)", "causal (additive)", "padding (boolean)", "causal and padding",
        "additive mask, finite", "no weights asked for", "no weights asked for, causal",
        "no weights asked for, padding", "boolean mask, any keys",
    }  # fmt: skip
    assert {one.stage for one in report.compared if one.case == "causal and padding"} == {"weights", "y"}
    assert {one.stage for one in report.compared if one.case == "no weights asked for"} == {"y"}
    said = {c.name: c.value for c in report.conventions}
    assert said["bias"] == ("b_Q, b_K, b_V, b_O" if bias else "none")
    assert said["batch_first"].startswith("yes" if batch_first else "no")
    assert said["layout"].startswith("torch_packed" if widths == "packed" else "torch_separate")
    sizes = report.compared[0].sizes
    assert (sizes["d_model"], sizes["h"], sizes["d_k"], sizes["d_v"]) == (24, 3, 8, 8)
    assert sizes.get("d_key", 24) == WIDTHS[widths].get("kdim", 24)


@pytest.mark.parametrize(("width", "heads"), [(12, 1), (16, 2), (10, 5), (36, 4), (64, 8)])
def test_other_sizes_agree(width: int, heads: int) -> None:
    assert check(nn.MultiheadAttention(width, heads), seed=width, draws=2).ok


def test_the_size_that_is_free_never_coincides_with_one_that_is_fixed() -> None:
    for one in check(module()).compared:
        n = one.sizes
        free, fixed = {n["B"], n["T"], n["S"]}, {3, 8, 24}
        assert not free & fixed
        assert len(free) == (2 if n["T"] == n["S"] else 3)
        assert n["B"] * 3 not in free


def test_against_a_plain_numpy_computation_of_the_same_module() -> None:
    """The specification and this NumPy computation, written apart, say the same of a module."""
    made = module("packed", True, True).double()
    p = {name: value.detach().numpy() for name, value in made.state_dict().items()}
    x = np.random.default_rng(0).normal(size=(2, 5, 24))
    w, b = np.split(p["in_proj_weight"], 3), np.split(p["in_proj_bias"], 3)
    q, k, v = ((x @ w[n].T + b[n]).reshape(2, 5, 3, 8).swapaxes(1, 2) for n in range(3))
    a = softmax(q @ k.swapaxes(2, 3) / np.sqrt(8))
    y = (a @ v).swapaxes(1, 2).reshape(2, 5, 24) @ p["out_proj.weight"].T + p["out_proj.bias"]
    with torch.no_grad():
        theirs, weights = made(*[torch.from_numpy(x)] * 3, average_attn_weights=False)
    np.testing.assert_allclose(theirs.numpy(), y, atol=1e-13)
    np.testing.assert_allclose(weights.numpy(), a, atol=1e-13)


# ---------------------------------------------------------------- modules made wrong


class Edited(nn.MultiheadAttention):
    """The module with its call bent: what goes in, what comes out."""

    def __init__(self, bend: Any) -> None:
        super().__init__(24, 3, batch_first=True)
        self.bend = bend

    def forward(self, query: Any, key: Any, value: Any, **options: Any) -> Any:
        return self.bend(super().forward, query, key, value, options)


def mask_transposed(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    mask = options["attn_mask"]
    return call(q, k, v, **{**options, "attn_mask": mask.T.contiguous() if _square(mask) else mask})


def _square(mask: Any) -> bool:
    return mask is not None and mask.shape[0] == mask.shape[1]


def padding_ignored(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    return call(q, k, v, **{**options, "key_padding_mask": None})


def causal_ignored(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    return call(q, k, v, **{**options, "attn_mask": None})


def causal_off_by_one(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    mask = options["attn_mask"]
    if mask is not None and mask.dtype == torch.bool:
        mask = mask & ~torch.ones_like(mask).triu(1).tril(1)
    return call(q, k, v, **{**options, "attn_mask": mask})


def weights_averaged_and_copied(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    y, weights = call(q, k, v, **{**options, "average_attn_weights": True})
    return y, None if weights is None else weights[:, None].expand(-1, 3, -1, -1)


def keys_and_values_exchanged(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    return call(q, v, k, **options)


def dropout_always(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    y, weights = call(nn.functional.dropout(q, 0.5), k, v, **options)
    return y, weights


def untouched(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
    return call(q, k, v, **options)


@pytest.mark.parametrize(
    ("bend", "case", "stage"),
    [
        (mask_transposed, "no weights asked for, causal", "y"),
        (padding_ignored, "padding (boolean)", "weights"),
        (causal_ignored, "causal (boolean)", "weights"),
        (causal_off_by_one, "causal (boolean)", "weights"),
        (weights_averaged_and_copied, "no mask", "weights"),
        (keys_and_values_exchanged, "no mask", "weights"),
    ],
)
def test_a_module_made_wrong_disagrees(bend: Any, case: str, stage: str) -> None:
    report = check(Edited(bend))
    found = report.first_wrong
    assert report.exit_code == 1 and found is not None
    assert (found.case, found.stage) == (case, stage), report.text()


def test_a_module_left_alone_agrees_and_one_that_is_random_is_refused() -> None:
    assert check(Edited(untouched)).ok
    with pytest.raises(TargetProblem, match="random from call to call"):
        check(Edited(dropout_always))


def test_a_bias_that_is_zero_in_a_fresh_module_is_drawn_as_well() -> None:
    """A fresh module has biases of zero; that this one forgets b_V shows only with drawn weights."""

    class Forgetful(nn.MultiheadAttention):
        def forward(self, query: Any, key: Any, value: Any, **options: Any) -> Any:
            bias = torch.cat([self.in_proj_bias[:48], torch.zeros(24, dtype=query.dtype)])
            return nn.functional.multi_head_attention_forward(
                query, key, value, 24, 3, self.in_proj_weight, bias, None, None, False, 0.0,
                self.out_proj.weight, self.out_proj.bias, training=False, **options,
            )  # fmt: skip

    assert check(Forgetful(24, 3), draws=1).ok
    found = check(Forgetful(24, 3)).first_wrong
    assert found is not None and (found.stage, found.weights) == ("y", "drawn")


# ---------------------------------------------------------------- what is said, and what is refused


def test_the_module_is_left_alone() -> None:
    made = module(dropout=0.25)
    made.train()
    before = {name: value.clone() for name, value in made.state_dict().items()}
    report = check(made)
    assert report.ok and made.training
    assert all(torch.equal(before[name], value) for name, value in made.state_dict().items())
    assert next(made.parameters()).dtype == torch.float32
    assert any("dropout_active: in training mode" in note for note in report.notes)
    made.eval()
    assert not check(made).notes


def test_the_report_says_by_whom() -> None:
    text = check(module("kdim and vdim", batch_first=False)).text(detail=True)
    for part in (
        "heads        3  (its attribute num_heads)", "batch_first  no, (t, b, m)  (its attribute batch_first)",
        "d_model=24, d_key=7, d_value=11, h=3, d_k=8, d_v=8", "coincide     d_model = h*d_k = h*d_v; d_k = d_v",
        "computed in  float64, torch",
    ):  # fmt: skip
        assert part in text, text


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_appended_keys_are_refused(option: str) -> None:
    with pytest.raises(TargetProblem, match=f"{option}=True appends a key of its own"):
        check(nn.MultiheadAttention(12, 3, **{option: True}))


def test_contradicting_the_module_is_refused() -> None:
    with pytest.raises(TargetProblem, match="heads is 3, says its attribute num_heads, not 4"):
        check(module(), heads=4)
    with pytest.raises(TargetProblem, match="batch_first is True, says its attribute batch_first"):
        check(module(), batch_first=False)
    assert check(module(), heads=3, batch_first=True, draws=1).ok


def test_a_module_that_is_not_known_is_refused_with_a_way_out() -> None:
    with pytest.raises(Problem) as raised:
        check(nn.Linear(3, 3))
    assert "Linear is a torch module whose weights I do not know" in raised.value.what
    assert "weight (3, 3), bias (3,)" in raised.value.got and "names=" in raised.value.hint


def test_a_module_that_returns_something_else_is_refused() -> None:
    def only_y(call: Any, q: Any, k: Any, v: Any, options: Any) -> Any:
        return call(q, k, v, **options)[0]

    with pytest.raises(TargetProblem, match="does not return"):
        check(Edited(only_y))


# ---------------------------------------------------------------- other torch code


class Own(nn.Module):
    """Attention as people write it in torch, with fused scaled dot-product attention."""

    def __init__(self, width: int = 20, heads: int = 5, wrong: bool = False) -> None:
        super().__init__()
        self.heads, self.wrong = heads, wrong
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.to_out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any, keep: Any = None) -> Any:
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        z = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        z = z if self.wrong else z.transpose(1, 2)
        return self.drop(self.to_out(z.reshape(B, T, -1)))


NAMES = {f"w_{x}": f"to_{x}.weight" for x in "qkv"} | {"w_o": "to_out.weight", "b_o": "to_out.bias"}


@pytest.mark.parametrize("wrong", [False, True])
def test_any_module_through_a_description(wrong: bool) -> None:
    report = check(Implementation(call=Own(wrong=wrong), heads=5, layout="linear", names=NAMES))
    assert report.exit_code == wrong, report.text()
    assert any("dropout_active: in training mode" in note for note in report.notes)
    assert {one.weights for one in report.compared} == {"its own", "drawn"}


def sdpa(x: torch.Tensor, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: int, keep: Any = None) -> torch.Tensor:
    B, T, _ = x.shape
    q, k, v = ((x @ w).view(B, T, heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    z = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    return z.transpose(1, 2).reshape(B, T, -1) @ w_o


def unscaled(x: torch.Tensor, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: int) -> torch.Tensor:
    B, T, _ = x.shape
    q, k, v = ((x @ w).view(B, T, heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    return (torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).reshape(B, T, -1) @ w_o


def in_place(x: torch.Tensor, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: int) -> torch.Tensor:
    y = sdpa(x, w_q, w_k, w_v, w_o, heads)
    x.mul_(2)
    return y


def test_torch_functions() -> None:
    assert check(sdpa).ok
    assert check(unscaled).exit_code == 1
    with pytest.raises(TargetProblem, match="changes its input 'x' in place"):
        check(in_place)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_lower_precision_in_torch(dtype: str) -> None:
    sizes = {"d_model": 5, "heads": 3, "d_k": 2, "d_v": 4}
    assert check(Implementation(call=sdpa, framework="torch", dtype=dtype, **sizes)).ok
    assert check(Implementation(call=unscaled, framework="torch", dtype=dtype, **sizes)).exit_code == 1


def test_targets_in_files(tmp_path: Any) -> None:
    path = tmp_path / "layers.py"
    path.write_text(
        "import torch\n"
        "instance = torch.nn.MultiheadAttention(12, 3, batch_first=True)\n"
        "def factory():\n    return torch.nn.MultiheadAttention(12, 2, kdim=5, bias=False)\n"
        "klass = torch.nn.MultiheadAttention\n"
    )
    assert check_target(f"{path}:instance").ok
    assert check_target(f"{path}:factory", heads=2).ok
    report = check_target(f"{path}:klass")
    assert report.exit_code == 2 and "needs arguments to be made: embed_dim, num_heads" in report.text()


def test_without_torch_the_extra_is_named(tmp_path: Any) -> None:
    """In a process in which torch cannot be imported."""
    path = tmp_path / "layers.py"
    path.write_text("import torch\nlayer = torch.nn.MultiheadAttention(12, 3)\n")
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from mha_sym.audit import check_target\n"
        f"print(check_target({str(path)!r} + ':layer').problem.one_line())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "install mha_sym with the extra 'torch'" in done.stdout


def test_a_numpy_check_does_not_import_torch() -> None:
    script = (
        "import sys\nfrom mha_sym.audit import check\nfrom tests.audit.right import matmul_and_transpose\n"
        "assert check(matmul_and_transpose).ok\nassert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
