"""The same expressions on torch tensors: against `torch.nn.MultiheadAttention`, and with gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mha_sym.arrays import size_value
from mha_sym.attention.dims import combined_weights, cross_inputs, dims, head_weights, join_heads, self_inputs
from mha_sym.attention.forms import Options, combined, head_sum, separate
from mha_sym.axes import Permutation, axis, blocks, product
from mha_sym.errors import DataProblem
from mha_sym.evaluate import evaluate, evaluate_all
from mha_sym.expr import (
    Block,
    Blocks,
    Compare,
    Expr,
    Input,
    Map,
    Permute,
    Reduce,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Table,
    inputs,
)
from mha_sym.pattern import einsum

torch = pytest.importorskip("torch")

SIZES = {"B": 2, "h": 3, "d_k": 4, "T": 5, "d_v": 6, "S": 7, "d_model": 12}
B, T, S, H, K = axis("b", "B"), axis("t", "T"), axis("s", "S"), axis("h"), axis("k", "d_k")
X = Input("X", (T, S))


def draw(*exprs: Expr, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {one.name: one for expr in exprs for one in inputs(expr)}
    shapes = {name: tuple(size_value(a, SIZES) for a in one.axes) for name, one in found.items()}
    return {
        name: rng.random(shapes[name]) < 0.7 if one.boolean else rng.standard_normal(shapes[name])
        for name, one in found.items()
    }


def tensors(arrays: dict[str, np.ndarray], gradient: bool = False) -> dict[str, Any]:
    found = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    return {name: t.requires_grad_(gradient and t.is_floating_point()) for name, t in found.items()}


def module_weights(module: Any) -> dict[str, Any]:
    """The packed parameters of the module as combined weights, which multiply from the right."""
    w_q, w_k, w_v = (w.T for w in module.in_proj_weight.chunk(3))
    b_q, b_k, b_v = module.in_proj_bias.chunk(3)
    return {
        "W_Q": w_q, "W_K": w_k, "W_V": w_v, "W_O": module.out_proj.weight.T,
        "b_Q": b_q, "b_K": b_k, "b_V": b_v, "b_O": module.out_proj.bias,
    }  # fmt: skip


def module(heads: int = 3) -> Any:
    torch.manual_seed(0)
    made = torch.nn.MultiheadAttention(12, heads, bias=True, batch_first=True, dtype=torch.float64)
    torch.nn.init.normal_(made.in_proj_bias)
    torch.nn.init.normal_(made.out_proj.bias)
    return made


def close(x: Any, y: Any, atol: float = 1e-12) -> None:
    torch.testing.assert_close(x, y, rtol=0, atol=atol)


@pytest.mark.parametrize("masked", [False, True])
def test_multihead_attention_of_torch(masked: bool) -> None:
    d = dims(S="S")
    keep = Map("mul", (Repeat(Input("pad", (B, S), boolean=True), (B, T, S)), Compare("le", S, T, 2)))
    stages = combined(d, cross_inputs(d), combined_weights(d, bias=True), Options(keep=keep if masked else None))
    layer = module()
    arrays = {name: torch.randn(2, n, 12, dtype=torch.float64) for name, n in (("X_q", 5), ("X_k", 7), ("X_v", 7))}
    options: dict[str, Any] = {}
    if masked:
        pad = torch.tensor([[1, 1, 1, 0, 1, 0, 1], [1, 0, 1, 1, 1, 1, 0]], dtype=torch.bool)
        options = {"key_padding_mask": ~pad, "attn_mask": torch.ones(5, 7, dtype=torch.bool).triu(3)}
        arrays["pad"] = pad
    y, weights = layer(arrays["X_q"], arrays["X_k"], arrays["X_v"], average_attn_weights=False, **options)
    wanted = {"y": stages.y, "weights": stages.weights}
    got = evaluate_all(wanted, {**arrays, **module_weights(layer)}, sizes={"h": 3})
    close(got["y"], y)
    close(got["weights"], weights)


def test_heads_are_not_interchangeable_with_features() -> None:
    """With another number of heads the same weights are another layer: the comparison above can fail."""
    d = dims()
    stages = combined(d, self_inputs(d), combined_weights(d, bias=True))
    layer = module(heads=3)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    y = evaluate(stages.y, {"X": x, **module_weights(layer)}, sizes={"h": 4})
    assert (y - layer(x, x, x)[0]).abs().max() > 1e-3


def test_torch_and_numpy_agree_on_every_form() -> None:
    d = dims(S="S")
    w, x = head_weights(d, bias=True), cross_inputs(d)
    o = Options(mask=Input("mask", (H, T, S), "mask"), keep=Compare("le", S, T, 3))
    forms = {"c": combined(d, x, join_heads(w, d), o).y, "s": separate(d, x, w, o).y, "h": head_sum(d, x, w, o).y}
    arrays = draw(*forms.values())
    expected = evaluate_all(forms, arrays)
    for name, y in evaluate_all(forms, tensors(arrays)).items():
        assert y.dtype == torch.float64
        np.testing.assert_allclose(y.numpy(), expected[name], rtol=0, atol=1e-12)


SMALL = axis("i", 2), axis("j", 3)
NODES: dict[str, Expr] = {
    "table": Map("mul", (Input("c", SMALL), Table("P", SMALL, ((1, 2, 3), (4, 5, 6))))),
    "compare": Map("mul", (X, Compare("ge", T, S, -1))),
    "arithmetic": Map("inv", (Map("exp", (-X + Scalar(1 / K.size),)),)),
    "exp then add": Map("exp", (X,)) + Scalar(K.size),
    "exp then mul": Map("exp", (X,)) * Scalar(K.size),
    "max": Reduce("max", Input("Q", (B, T, S)), (B, S)),
    "sum": Reduce("sum", Input("Q", (B, T, S)), (S, B)),
    "softmax over two": Softmax(Input("Q", (B, T, S)), (S, B), Compare("le", S, T)),
    "permute": Permute(X, Permutation("pi", T).inverse()),
    "reshape": Reshape(Input("Q", (B, product(H, K), T)), (B, T, H, K)),
    "repeat": Repeat(X, (S, B, T)),
    "select": Select(Input("Q", (B, T, S)), T, 3),
    "blocks": Blocks((X, Input("N", (T, axis("n", "B")))), (S, axis("n", "B"))),
    "block": Block(Input("C", (T, blocks(S, axis("n", "B")))), blocks(S, axis("n", "B")), 1),
    "outer product": einsum("t, s -> t s", Input("a", (T,)), Input("c", (S,))),
}  # fmt: skip
#: sizes that no array tells
UNTOLD = {
    "reshape": "h", "repeat": "B", "block": "B", "arithmetic": "d_k", "exp then add": "d_k", "exp then mul": "d_k",
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_node_agrees_with_numpy_and_has_its_gradient(name: str) -> None:
    expr = NODES[name]
    arrays = draw(expr)
    options: dict[str, Any] = {"permutations": {"pi": (3, 0, 4, 1, 2)}}
    options["sizes"] = {UNTOLD[name]: SIZES[UNTOLD[name]]} if name in UNTOLD else {}
    given = tensors(arrays, gradient=True)
    y = evaluate(expr, given, **options)
    np.testing.assert_allclose(y.detach().numpy(), evaluate(expr, arrays, **options), rtol=0, atol=1e-13)
    names = list(given)
    assert torch.autograd.gradcheck(
        lambda *t: evaluate(expr, dict(zip(names, t, strict=True)), **options), tuple(given.values())
    )


def test_gradients_are_those_of_the_module() -> None:
    d = dims()
    y = combined(d, self_inputs(d), combined_weights(d, bias=True), Options(keep=Compare("le", d.s, d.t))).y
    layer = module()
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(2, 5, 12, dtype=torch.float64)
    parameters = [x, *layer.parameters()]
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = torch.autograd.grad((layer(x, x, x, attn_mask=causal)[0] * direction).sum(), parameters)
    ours = evaluate(y, {"X": x, **module_weights(layer)}, sizes={"h": 3})
    for got, wanted in zip(torch.autograd.grad((ours * direction).sum(), parameters), expected, strict=True):
        close(got, wanted)


def test_gradients_through_masked_rows_are_finite() -> None:
    expr = Softmax(X, (S,), Input("keep", (T, S), boolean=True))
    keep = torch.ones(5, 7, dtype=torch.bool)
    keep[2] = False
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    with pytest.raises(DataProblem, match=r"a row keeps no key(.|\n)*at t=2"):
        evaluate(expr, {"X": x, "keep": keep})
    weights = evaluate(expr, {"X": x, "keep": keep}, masked_rows="zero")
    assert not weights[2].any()
    (gradient,) = torch.autograd.grad((weights * torch.randn_like(weights)).sum(), x)
    assert gradient.isfinite().all()
    assert not gradient[2].any()


def test_minus_infinity_in_an_additive_mask() -> None:
    mask = torch.zeros(5, 7, dtype=torch.float64)
    mask[:, 3] = -torch.inf
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    weights = evaluate(Softmax(X + Input("mask", (T, S), "mask"), (S,)), {"X": x, "mask": mask})
    close(weights, torch.softmax(x + mask, dim=1), 1e-15)
    (gradient,) = torch.autograd.grad((weights**2).sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_dtype_is_kept(dtype: str) -> None:
    expr = Softmax(X + Scalar(K.size), (S,), Compare("le", S, T))
    x = torch.randn(5, 7).to(getattr(torch, dtype))
    weights = evaluate(expr, {"X": x}, sizes={"d_k": 4})
    assert weights.dtype == x.dtype
    torch.testing.assert_close(weights.float().sum(dim=1), torch.ones(5), rtol=0, atol=0.02)


def problem(expr: Expr, arrays: Any, **options: Any) -> str:
    with pytest.raises(DataProblem) as found:
        evaluate(expr, arrays, **options)
    return str(found.value)


def test_bad_tensors() -> None:
    ones = torch.ones(5, 7)
    spoilt = ones.clone()
    spoilt[3, 2] = torch.nan
    assert "input 'X' holds NaN\n  in:       X[t=3, s=2]" in problem(X, {"X": spoilt})
    assert "X[t=3, s=2]" in problem(X, {"X": spoilt.bfloat16()})
    assert "input 'X' holds torch.int64" in problem(X, {"X": ones.long()})
    assert "cast it to float64" in problem(X, {"X": ones.long()})
    assert "input 'X' holds torch.complex64" in problem(X, {"X": ones.cfloat()})
    assert "input 'X' holds torch.bool" in problem(X, {"X": ones.bool()})
    assert "axis 's' of X is empty" in problem(X, {"X": torch.ones(5, 0)})
    assert "input 'X' has 1 axes, not 2" in problem(X, {"X": torch.ones(35)})


def test_libraries_dtypes_and_devices_are_not_mixed() -> None:
    both = Map("add", (X, Input("Z", (T, S))))
    x = torch.ones(5, 7, dtype=torch.float64)
    assert "inputs 'X' and 'Z' differ in library" in problem(both, {"X": x, "Z": np.ones((5, 7))})
    assert "X: torch, Z: NumPy" in problem(both, {"X": x, "Z": np.ones((5, 7))})
    assert "X: torch.float64, Z: torch.float32" in problem(both, {"X": x, "Z": x.float()})
    assert "X: cpu, Z: meta" in problem(both, {"X": x, "Z": x.to("meta")})


def test_exact_elements_are_not_tensors() -> None:
    from mha_sym.exact import Rationals

    assert "these arrays are of torch" in problem(X, {"X": torch.ones(5, 7)}, exact=Rationals())


def test_parameters_of_a_module_are_left_alone() -> None:
    layer = module()
    d = dims()
    y = combined(d, self_inputs(d), combined_weights(d, bias=True)).y
    before = [p.detach().clone() for p in layer.parameters()]
    evaluate(y, {"X": torch.randn(2, 5, 12, dtype=torch.float64), **module_weights(layer)}, sizes={"h": 3})
    assert all(torch.equal(p, old) for p, old in zip(layer.parameters(), before, strict=True))
