"""Torch's table: every entry is traced in a small program, and its graph gives what torch gives at many sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
import torch
import torch.nn.functional as F

from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.code import prove_code
from mha_sym.axes import size_symbol
from mha_sym.importers.from_torch import code
from mha_sym.importers.from_torch.code import Imported, Spec, Tracer, from_code
from mha_sym.importers.from_torch.ops import OPERATIONS
from mha_sym.importers.from_torch.trace import trace
from mha_sym.importers.graph import ImportProblem
from mha_sym.importers.run import run

B, T, S = map(size_symbol, ("B", "T", "S"))
HINTS = {B: 3, T: 5, S: 7}
#: pairwise distinct sizes, and sizes of 1, alone and together
SIZES = ((2, 5, 7), (3, 4, 2), (1, 6, 3), (2, 1, 5), (4, 3, 1), (1, 1, 1))

#: what a program may be given: x and y of one shape, a matrix, rows, truth values, a stack of images
SPECS = {
    "x": Spec((B, T, 6)), "y": Spec((B, T, 6)), "w": Spec((4, 6), role="param"), "b": Spec((4,), role="param"),
    "row": Spec((6,)), "a": Spec((B, 4, T, S)), "k": Spec((B, 4, S, 6)), "q": Spec((B, 4, T, 6)),
    "keep": Spec((T, S), torch.bool), "other": Spec((T, S), torch.bool), "image": Spec((B, 3, T)),
    "maps": Spec((2, 3, 1), role="param"), "g": Spec((B, 2, S, 6)), "m": Spec((B, T, T)),
}  # fmt: skip
Program = Callable[..., Any]


def arrays(specs: dict[str, Spec], sizes: dict[sympy.Symbol, int], seed: int) -> dict[str, np.ndarray]:
    """Random entries away from zero; a mask keeps the first key."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, spec in specs.items():
        shape = [int(sympy.sympify(n).subs(sizes)) for n in spec.shape]
        found[name] = rng.normal(size=shape)
        if spec.dtype == torch.bool:
            found[name] = rng.random(shape) < 0.6
            found[name][..., 0] = True
    return found


def agree(made: Imported, specs: dict[str, Spec], sizes: Any = SIZES, close: float = 1e-12) -> None:
    """The graph gives what the code gives, wherever its conditions hold; and that is somewhere."""
    compared = 0
    for seed, (b, t, s) in enumerate(sizes):
        at = {B: b, T: t, S: s}
        if not all(one.relation.subs(at) for one in made.graph.notes.conditions):
            continue
        given = arrays(specs, at, seed)
        expected = made.run(given, at)
        found = run(made.graph, given, {str(name): n for name, n in at.items()})
        assert list(found) == list(expected)
        for name, one in expected.items():
            assert found[name].shape == one.shape
            np.testing.assert_allclose(found[name], one, rtol=close, atol=close)
        compared += 1
    assert compared >= 3


def imported(program: Program) -> tuple[Imported, dict[str, Spec]]:
    """A program on the tensors that its parameters name."""
    names = program.__code__.co_varnames[: program.__code__.co_argcount]
    specs = {name: SPECS[name] for name in names}
    return from_code(lambda given, _: program(**given), specs, HINTS), specs


def in_place(change: Callable[[torch.Tensor], Any]) -> Program:
    def program(x: torch.Tensor) -> torch.Tensor:
        made = x * 2
        change(made)
        return made

    return program


#: for each entry, a program in which torch records it
PROGRAMS: dict[str, Program] = {
    # ------------------------------------------------------------ axes
    "view": lambda x: x.view(x.shape[0], -1, 2, 3),
    "reshape": lambda x: x.transpose(1, 2).reshape(x.shape[0] * 6, -1),
    "view_as": lambda x, y: x.view_as(y),
    "reshape_as": lambda x, y: x.mT.reshape_as(y),
    "flatten": lambda x: (x.flatten(), x.flatten(1), x.flatten(0, 1), x.sum().flatten()),
    "unflatten": lambda x: x.unflatten(-1, (2, -1)),
    "unsqueeze": lambda x: (x.unsqueeze(1), x.unsqueeze(-1)),
    "squeeze": lambda x: (x[:, :, :1].squeeze(-1), x.sum(0, keepdim=True).squeeze(0)),
    "transpose": lambda x: x.transpose(0, -1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "swapdims": lambda x: x.swapdims(0, 1),
    "t": lambda w: w.t(),
    "mT": lambda x: x.mT,
    "numpy_T": lambda w: w.T,
    "permute": lambda x: x.permute(2, 0, 1),
    "movedim": lambda x: (x.movedim(2, 0), x.movedim((0, 2), (1, 0))),
    "moveaxis": lambda x: x.moveaxis(0, -1),
    "slice": lambda x: (x[:, 1:], x[..., :-2], x[..., 2:4], x[..., ::2], x[..., 1::3])[1:],
    "narrow": lambda x: x.narrow(2, 1, 3),
    "select": lambda x: (x[:, 0], x[:, -1], x[..., 4]),
    "unbind": lambda x: x.view(-1, 3, 2).unbind(1),
    "split": lambda x: (*x.split(2, -1), *x.split(4, -1), *x.split(x.shape[1], 1)),
    "split_with_sizes": lambda x: x.split_with_sizes([1, 2, 3], dim=2),
    "chunk": lambda x: (*x.chunk(3, -1), *x.chunk(4, -1), *torch.cat([x, x], 1).chunk(2, 1)),
    "tensor_split": lambda x: (*x.tensor_split(2, -1), *x.tensor_split((1, 4), -1)),
    "cat": lambda x, y: torch.cat([x, y[:, :1], x], 1),
    "concat": lambda x, y: torch.concat([x, y]),
    "concatenate": lambda x, y: torch.concatenate([x, y], -1),
    "stack": lambda x, y: (torch.stack([x, y]), torch.stack([x, y], -1)),
    "roll": lambda x: (x.roll(1, 1), x.roll((-1, 9), (1, 2))),
    "nan_to_num": lambda x: x.nan_to_num(3.0),
    "expand": lambda x, row: (row.expand(x.shape[0], 3, -1), x[:, :, None].expand(-1, -1, 2, -1)),
    "broadcast_to": lambda x, row: row.broadcast_to(x.shape),
    "expand_as": lambda x, row: row.expand_as(x),
    "repeat": lambda x: x.repeat(2, 1, 3, 1),
    "tile": lambda x: x.tile(2, 3),
    "repeat_interleave": lambda x: x.repeat_interleave(3, dim=2),
    "index": lambda x: (x[..., [-2]], x[..., torch.tensor([[0, 3], [5, 0]])]),
    "index_select": lambda x: x.index_select(2, torch.tensor([1, 1, 4])),
    "embedding": lambda x, w: (
        F.embedding(torch.tensor([[0, 3], [2, 2]]), w),
        F.embedding((torch.arange(x.shape[1])[:, None] - 2).abs().clamp(max=3), w),
        w[:, (torch.arange(x.shape[1]).double() ** 0.5).long().clamp(max=5)],
    ),
    "index_put": in_place(lambda x: x.index_put_((torch.ones(x.shape[:2]).tril().bool(),), torch.tensor(0.5))),
    # ------------------------------------------------------------ nothing
    "alias": lambda x: torch.ops.aten.alias(x),
    "detach": lambda x: x.detach() + 1,
    "lift_fresh_copy": lambda x: x + torch.tensor(2.0),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.mT.contiguous(),
    "dropout": lambda x: F.dropout(x, 0.1, training=False) + F.dropout(x, 0.0, training=True),
    "feature_dropout": lambda image: torch.feature_dropout(image, 0.5, False),
    "_set_grad_enabled": lambda x: _without_gradients(x),
    "_enter_autocast": lambda x, w: _autocast(x, w),
    "_exit_autocast": lambda x, w: _autocast(x, w),
    # ------------------------------------------------------------ precision
    "to": lambda x, keep: (x.to(torch.float64), keep.to(x), keep.to("cpu", torch.float64)),
    "type_as": lambda x, keep: keep.type_as(x),
    # ------------------------------------------------------------ entry by entry
    "mul": lambda x, y: x * y * 3,
    "multiply": lambda x, y: torch.multiply(x, y),
    "neg": lambda x: -x,
    "negative": lambda x: torch.negative(x),
    "exp": lambda x: x.exp(),
    "sqrt": lambda x: (x * x).sqrt(),
    "log": lambda x: (x * x + 1).log(),
    "abs": lambda x: x.abs(),
    "absolute": lambda x: torch.absolute(x),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "tanh": lambda x: x.tanh(),
    "minimum": lambda x, y: torch.minimum(x, y),
    "maximum": lambda x, y: torch.maximum(x, y),
    "eq": lambda keep: keep == 0,
    "ne": lambda keep, other: keep != other,
    "not_equal": lambda keep: torch.not_equal(keep, 1),
    "lt": lambda x, y: x < y,
    "less": lambda x, y: torch.less(x, y),
    "le": lambda x: x <= 0.5,
    "less_equal": lambda x: torch.less_equal(x, 0.5),
    "gt": lambda x, y: x > y,
    "greater": lambda x, y: torch.greater(x, y),
    "ge": lambda x: x >= 0.5,
    "greater_equal": lambda x, y: torch.greater_equal(x, y),
    "add": lambda x, y: torch.add(x + y + 1, y, alpha=2),
    "sub": lambda x, y: torch.sub(x - y, y, alpha=0.5),
    "subtract": lambda x, y: torch.subtract(x, y),
    "rsub": lambda x: 1 - x,
    "div": lambda x, y: x / y / 3,
    "divide": lambda x: torch.divide(x, 3),
    "true_divide": lambda x: torch.true_divide(x, 7),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "pow": lambda x: (x**2, (x * x) ** 0.5, (x * x) ** -0.5, x**-1, x**3, 2**x, (x * x) ** x),
    "square": lambda x: x.square(),
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: x.relu(),
    "clamp": lambda x: x.clamp(-0.5, 0.5) + x.clamp(max=0.1),
    "clamp_min": lambda x: torch.clamp_min(x, 0.2),
    "clamp_max": lambda x: torch.clamp_max(x, 0.2),
    "logical_not": lambda keep: keep.logical_not(),
    "bitwise_not": lambda keep: ~keep,
    "logical_and": lambda keep, other: keep.logical_and(other),
    "bitwise_and": lambda keep, other: keep.bitwise_and(other),
    "__and__": lambda keep, other: keep & other,
    "logical_or": lambda keep, other: keep.logical_or(other),
    "bitwise_or": lambda keep, other: keep.bitwise_or(other),
    "__or__": lambda keep, other: keep | other,
    "logical_xor": lambda keep, other: keep.logical_xor(other),
    "bitwise_xor": lambda keep, other: keep.bitwise_xor(other),
    "__xor__": lambda keep, other: keep ^ other,
    "where": lambda a, keep: (torch.where(keep, a, 0.0), torch.where(keep, 1.0, a)),
    "masked_fill": lambda a, keep: a.masked_fill(~keep, -1e9),
    "copy": in_place(lambda x: x[:, :1].copy_(x[:, -1:])),
    "fill": in_place(lambda x: x[..., 2:].fill_(4.0)),
    "zero": in_place(lambda x: x[..., 1].zero_()),
    # ------------------------------------------------------------ arrays made anew
    "full": lambda x: torch.full((x.shape[1], 3), 0.25),
    "zeros": lambda x: torch.zeros(x.shape[1], 2, dtype=torch.bool),
    "ones": lambda x: torch.ones(x.shape[1], 2),
    "empty": lambda x: torch.empty(x.shape).fill_(1.0),
    "scalar_tensor": lambda x: x * torch.scalar_tensor(3.0),
    "full_like": lambda x: torch.full_like(x, 3),
    "zeros_like": lambda x: torch.zeros_like(x),
    "ones_like": lambda keep: torch.ones_like(keep),
    "empty_like": lambda x: torch.empty_like(x).copy_(x),
    "new_full": lambda x: x.new_full((2, x.shape[1]), 0.5),
    "new_zeros": lambda x: x.new_zeros(x.shape[1]),
    "new_ones": lambda keep: keep.new_ones(3),
    "new_empty": lambda x: x.new_empty(x.shape[1]).zero_(),
    "arange": lambda x: (torch.arange(x.shape[1]), torch.arange(2, 9, 3), torch.arange(1, 2 * x.shape[1] + 1, 2)),
    "tril": lambda m: (m.tril(), m.tril(1), torch.ones(4, 6, dtype=torch.bool).tril(-1)),
    "triu": lambda m: (m.triu(), m.triu(diagonal=1), m.triu(-2)),
    "eye": lambda x: (torch.eye(x.shape[1]), torch.eye(2, x.shape[1])),
    # ------------------------------------------------------------ sums
    "sum": lambda x: (x.sum(), x.sum(-1), x.sum((0, 2), keepdim=True)),
    "mean": lambda x: (x.mean(), x.mean(1, keepdim=True)),
    "amax": lambda x: x.amax(-1, keepdim=True),
    "amin": lambda x: x.amin((1, 2)),
    "max": lambda x, y: (torch.max(x, y), x.max(), x.max(-1, keepdim=True)[0], x.max(dim=1).values),
    "min": lambda x, y: (torch.min(x, y), x.min(), x.min(-1)[0]),
    "logsumexp": lambda x: x.logsumexp(-1),
    "linalg_vector_norm": lambda x: F.normalize(x, dim=-1),
    "layer_norm": lambda x, row: (F.layer_norm(x, (6,)), F.layer_norm(x, (6,), row, row)),
    "rms_norm": lambda x, row: (F.rms_norm(x, (6,), row), F.rms_norm(x, (6,), eps=1e-3)),
    "softmax": lambda x: (x.softmax(-1), F.softmax(x, 1, dtype=torch.float64)),
    "matmul": lambda q, k, w, row: (q @ k.mT, q @ w.T, q @ row, row @ w.T),
    "mm": lambda w: torch.mm(w, w.T),
    "bmm": lambda x, y: torch.bmm(x, y.mT),
    "mv": lambda w, row: torch.mv(w, row),
    "dot": lambda row: torch.dot(row, row),
    "outer": lambda row, b: torch.outer(row, b),
    "linear": lambda x, w, b: (F.linear(x, w), F.linear(x, w, b)),
    "addmm": lambda w, b: torch.addmm(b, w, w.T, beta=0.5, alpha=2),
    "baddbmm": lambda m, x, y: (torch.baddbmm(m, x, y.mT), torch.baddbmm(m, x, y.mT, beta=0)),
    "addmv": lambda w, b, row: torch.addmv(b, w, row),
    "einsum": lambda q, k, w: (
        torch.einsum("bhtd,bhsd->bhts", q, k), torch.einsum("...d,ed->...e", q, w), torch.einsum("bhtd,bhsd", q, k),
        torch.einsum("bhtd,bhsd,ed->bhtse", q, k, w), torch.einsum("bhtd,bhse->hd", q[:1], k),
    ),
    "scaled_dot_product_attention": lambda q, k, g, keep, a: (
        F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.3),
        F.scaled_dot_product_attention(q, k, k, keep), F.scaled_dot_product_attention(q, k, k, attn_mask=a),
        F.scaled_dot_product_attention(q, g, g, enable_gqa=True), F.scaled_dot_product_attention(q, k[:, :1], k),
    ),
    "conv1d": lambda image, maps: F.conv1d(image, maps, torch.tensor([1.0, 2.0], dtype=torch.float64)),
    "conv2d": lambda image, maps: F.conv2d(image[..., None], maps[..., None]),
}  # fmt: skip


def _without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return x + 1


def _autocast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", enabled=False):
        return x @ w.T


@pytest.mark.parametrize("name", PROGRAMS)
def test_operation_is_recorded_and_gives_what_torch_gives(name: str) -> None:
    program = PROGRAMS[name]
    names = program.__code__.co_varnames[: program.__code__.co_argcount]
    specs = {n: SPECS[n] for n in names}
    tracer = Tracer(lambda given, _: program(**given), specs, name)
    found = tracer.run(HINTS)
    recorded = {str(getattr(node.target, "__name__", "")).partition(".")[0] for node in found.graph.nodes}
    assert {name, f"{name}_"} & recorded
    agree(Imported(tracer.graph(found, HINTS), tracer.numbers, {}), specs)


def test_every_operation_of_the_table_is_tested() -> None:
    assert set(PROGRAMS) == set(OPERATIONS)


# ---------------------------------------------------------------- refusals


REFUSED: dict[str, tuple[Program, str]] = {
    "not in the table": (lambda x: torch.special.i0(x), "special_i0 is not in the vocabulary"),
    "random": (lambda x: x + torch.rand(6), "rand is not in the vocabulary"),
    "active dropout": (lambda x: F.dropout(x, 0.1, training=True), "dropout of 0.1 is active here"),
    "dropout in attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, dropout_p=0.2), "dropout of 0.2"),
    "shape from entries": (lambda x: x[x > 0], "depends on the entries of a tensor"),
    "branch on entries": (lambda x: x if x.sum() > 0 else -x, "depends on the entries of a tensor"),
    "rounding division": (lambda x: torch.div(x, 2, rounding_mode="floor"), "rounds"),
    "integer bits": (lambda x: torch.arange(4) & 1, "truth values"),
    "several indices": (lambda x: x[[0], [0]], "several tensors at once"),
    "wide convolution": (lambda image: F.conv1d(image, image[:1, :, :2]), "kernel of size 1"),
    "other norm": (lambda x: torch.linalg.vector_norm(x, 1), "order 1"),
    "steps that do not fit": (lambda x: x[..., ::4], "every 4th position"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused_with_its_place(name: str) -> None:
    program, words = REFUSED[name]
    with pytest.raises(ImportProblem, match=words) as problem:
        imported(program)
    assert "test_torch_ops.py:" in problem.value.where


def test_what_nothing_depends_on_is_not_refused() -> None:
    made, specs = imported(lambda x: (x + 1, torch.special.i0(x))[0])
    agree(made, specs)


def test_an_unknown_operation_that_writes_is_refused_even_if_nothing_depends_on_it() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        made = x + 1
        made.cumsum_(0)
        return x

    with pytest.raises(ImportProblem, match="cumsum_"):
        imported(program)


def test_numbers_of_sizes_stay_exact() -> None:
    made = from_code(lambda t, size: t["x"] * math.sqrt(size(T)) / size(T * S), {"x": Spec((T, S))}, {T: 5, S: 7})
    values = {node.op.value for node in made.graph.nodes if hasattr(node.op, "value")}
    assert values == {sympy.sqrt(T), T * S}


def test_what_is_refused_at_any_sizes_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def sorts(x: torch.Tensor, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> torch.Tensor:
        return torch.sort(x @ w_q, -1)[0]

    runs: list[Any] = []
    monkeypatch.setattr(code, "trace", lambda *given: runs.append(given) or trace(*given))
    found = prove_code(Implementation(call=sorts, framework="torch"))
    assert found.problem is not None and found.problem.where is not None and __file__ in found.problem.where
    assert "sort is not in the vocabulary" in found.problem.what and len(runs) == 1
