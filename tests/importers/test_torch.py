"""Torch modules as graphs: what they compute at many sizes, and the traps of tracing, each shown to be closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as own_attention

from mha_sym.axes import size_symbol
from mha_sym.errors import TargetProblem
from mha_sym.importers.from_torch.code import Imported, Spec, from_code
from mha_sym.importers.from_torch.module import Call, Tensor, from_module, weights_of
from mha_sym.importers.graph import Attention, Constant, ImportProblem, Input
from mha_sym.importers.run import run
from tests.importers import torch_modules as zoo

B, T, S, H, K = map(size_symbol, ("B", "T", "S", "h", "d_k"))
WORDS = {"B": B, "T": T, "S": S}
HINTS = {B: 3, T: 5, S: 7}
#: pairwise distinct sizes, and sizes of 1, alone and together
SIZES = ((2, 5, 7), (3, 4, 2), (1, 6, 3), (2, 1, 5), (4, 3, 1), (1, 1, 1))


def tensor(name: str, shape: tuple[object, ...]) -> Tensor:
    sizes = tuple(WORDS.get(n, n) for n in shape if n is not bool)
    return Tensor(name, sizes, "bool" if bool in shape else "float")


def agree(made: Imported, at: Any = SIZES, close: float = 1e-12, more: Mapping[sympy.Symbol, int] | None = None) -> int:
    """The graph gives what the module gives, at all sizes at which its conditions hold."""
    compared = 0
    for seed, (b, t, s) in enumerate(at):
        sizes = {B: b, T: t, S: s, **(more or {})}
        if not all(one.relation.subs(sizes) for one in made.graph.notes.conditions):
            continue
        rng = np.random.default_rng(seed)
        arrays = {}
        for name, node in made.graph.inputs().items():
            shape = [int(sympy.sympify(n).subs(sizes)) for n in node.shape]
            arrays[name] = rng.normal(size=shape)
            if node.dtype == "bool":
                arrays[name] = rng.random(shape) < 0.6
                arrays[name][..., 0] = True
        expected = made.run(arrays, sizes)
        found = run(made.graph, arrays, {str(name): n for name, n in sizes.items()})
        assert list(found) == list(expected)
        for name, one in expected.items():
            np.testing.assert_allclose(found[name], one, rtol=close, atol=close)
        compared += 1
    return compared


def read(module: nn.Module, *more: Tensor, **named: Any) -> Imported:
    call = Call((Tensor("x", (B, T, zoo.M)), *more), named)
    return from_module(module, call, HINTS)


# ---------------------------------------------------------------- modules


@pytest.mark.parametrize("name", zoo.RIGHT)
def test_hand_written_module_gives_what_it_gives(name: str) -> None:
    module, more = zoo.RIGHT[name]
    made = read(module, *(tensor(key, shape) for key, shape in more.items()))
    assert not made.fixed
    assert agree(made) == len(SIZES)
    free = {key for key, node in made.graph.inputs().items() if node.op.role != "user"}
    assert free == set(weights_of(module))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("widths", [(24, 24), (10, 14)])
def test_layer_that_torch_ships(widths: tuple[int, int], batch_first: bool, bias: bool, need_weights: bool) -> None:
    layer = nn.MultiheadAttention(24, 4, 0.1, bias, kdim=widths[0], vdim=widths[1], batch_first=batch_first).eval()
    lead = {"T": (B, T), "S": (B, S)} if batch_first else {"T": (T, B), "S": (S, B)}
    inputs = [
        Tensor(n, (*lead[word], width)) for n, word, width in zip("qkv", "TSS", (24, *widths), strict=True)
    ]
    made = from_module(layer, Call(tuple(inputs), {"need_weights": need_weights}), HINTS)
    assert list(made.graph.outputs) == (["y", "y1"] if need_weights else ["y"])
    assert agree(made) == len(SIZES) and not made.graph.notes.conditions


def test_heads_and_widths_are_symbols_where_attributes_are_replaced() -> None:
    layer, m = nn.MultiheadAttention(24, 4, batch_first=True), H * K
    shapes = {"in_proj_weight": (3 * m, m), "in_proj_bias": (3 * m,), "out_proj.weight": (m, m), "out_proj.bias": (m,)}
    made = from_module(
        layer, Call(tuple(Tensor(n, (B, size, m)) for n, size in zip("qkv", (T, S, S), strict=True))),
        {**HINTS, H: 2, K: 11}, attributes={"embed_dim": m, "kdim": m, "vdim": m, "num_heads": H, "head_dim": K},
        shapes=shapes,
    )  # fmt: skip
    assert not made.fixed and not made.graph.notes.conditions
    for heads, features in ((4, 6), (1, 2), (5, 1)):
        assert agree(made, SIZES[:2], more={H: heads, K: features}) == 2
    assert layer.num_heads == 4


def test_three_inputs_are_three_even_if_they_are_alike() -> None:
    """A trace whose samples are one object would know of no keys."""
    layer = nn.MultiheadAttention(zoo.M, zoo.H, batch_first=True)
    made = from_module(layer, Call(tuple(Tensor(n, (B, T, zoo.M)) for n in "qkv")), HINTS)
    used = {ref for node in made.graph.nodes for ref in node.args}
    assert all(n in used for n, node in enumerate(made.graph.nodes) if isinstance(node.op, Input))
    assert agree(made) == len(SIZES)


def test_values_have_places_in_the_users_file() -> None:
    made = read(zoo.RIGHT["fused, split, buffer"][0])
    places = [node.place for node in made.graph.nodes if not isinstance(node.op, Input | Constant)]
    assert {place.file for place in places} == {zoo.__file__}
    assert any(place.what == "z = F.softmax(scores, dim=-1) @ v" and place.line for place in places)


def test_torchs_own_layer_has_places_in_torch() -> None:
    layer = nn.MultiheadAttention(zoo.M, zoo.H, batch_first=True)
    made = from_module(layer, Call(tuple(Tensor(n, (B, T, zoo.M)) for n in "qkv")), HINTS)
    assert any(node.place.file.endswith("nn/functional.py") for node in made.graph.nodes)


# ---------------------------------------------------------------- sizes


def test_a_parameter_that_is_no_argument_is_a_constant() -> None:
    held = nn.Parameter(torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64))
    x, b = np.arange(12.0).reshape(4, 3), size_symbol("B")
    made = from_code(lambda given, _: {"y": given["x"] * held}, {"x": Spec((b, 3), torch.float64)}, {b: 4}, "held")
    assert set(made.graph.inputs()) == {"x"}
    np.testing.assert_array_equal(run(made.graph, {"x": x}, {"B": 4})["y"], x * [2, 3, 5])


def test_a_branch_on_a_batch_of_one_is_a_condition_and_the_other_side_a_case() -> None:
    made = read(zoo.DoubledWhenAlone())
    (condition,) = made.graph.notes.conditions
    assert str(condition) == "B != 1" and condition.place.file == zoo.__file__
    (case,) = made.cases
    assert case.where == (sympy.Eq(B, 1),) and case.graph is not None
    x = np.arange(48.0).reshape(1, 2, 24)
    assert np.array_equal(run(case.graph, {"x": x}, {"B": 1, "T": 2, "S": 1})["y"], 2 * x)
    assert np.array_equal(run(made.graph, {"x": x}, {"B": 1, "T": 2, "S": 1})["y"], 3 * x)  # so it is not right there


def test_a_branch_with_equal_sides_is_no_condition() -> None:
    made = read(zoo.SameEitherWay())
    assert not made.graph.notes.conditions and not made.cases
    assert agree(made, [(2, 101, 1), *SIZES]) == 1 + len(SIZES)


def test_a_squeeze_that_depends_on_a_size_is_a_condition() -> None:
    class Squeezing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.squeeze(1)

    assert [str(one) for one in read(Squeezing()).graph.notes.conditions] == ["T >= 2"]


def test_a_loop_over_positions_fixes_the_length_and_says_where() -> None:
    made = read(zoo.LoopOverPositions())
    assert list(made.fixed) == [T] and "T = 5" in made.fixed[T] and "torch_modules.py" in made.fixed[T]
    assert sympy.Eq(T, 5) in [one.relation for one in made.graph.notes.conditions]
    assert agree(made) == 1


class Padded(nn.Module):
    """Asks for a number that is 0 at the sizes of the trace, and 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * int(x.shape[0] // 4 + 1) + int(x.shape[1] // 100)


def test_a_number_that_happens_to_be_0_or_1_is_no_truth_value() -> None:
    made = from_module(Padded(), Call((Tensor("x", (B, T, 24)),)), {B: 3, T: 5})
    assert set(made.fixed) == {B, T}


def test_a_mask_in_a_buffer_is_good_as_far_as_it_goes() -> None:
    made = read(zoo.Fused(block=6))
    assert [str(one) for one in made.graph.notes.conditions] == ["T <= 6"]
    assert agree(made) == len(SIZES)
    with pytest.raises(TargetProblem, match="raised"):
        agree(read(zoo.Fused(block=3)))


def test_sizes_that_an_operation_makes_equal_are_a_condition() -> None:
    class Adding(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    call = Call((Tensor("x", (B, T, 3)), Tensor("y", (B, S, 3))))
    with pytest.raises(ImportProblem, match="do not fit together"):
        from_module(Adding(), call, {B: 3, T: 5, S: 5})
    with pytest.raises(TargetProblem, match="must match"):
        from_module(Adding(), call, HINTS)


def test_a_number_that_torch_asks_for_in_its_core_is_not_frozen_silently() -> None:
    """Only the name ``functional.scaled_dot_product_attention`` is looked after; this one was taken before."""
    specs = {"q": Spec((B, T, K))}
    sizes = {B: 2, T: 3, K: 5}
    made = from_code(lambda given, size: own_attention(*[given["q"]] * 3, scale=size(K) ** -0.25), specs, sizes)
    assert list(made.fixed) == [K]


def test_a_scale_made_of_sizes_stays_exact() -> None:
    def code(given: Mapping[str, torch.Tensor], size: Any) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(*[given["q"]] * 3, scale=size(K) ** -0.25)

    made = from_code(code, {"q": Spec((B, T, K))}, {B: 2, T: 3, K: 5})
    assert not made.fixed and not made.graph.notes.conditions
    for features in (1, 2, 7):
        assert agree(made, SIZES[:2], more={K: features}) == 2


def test_causal_attention_counts_from_the_first_query_and_the_first_key() -> None:
    class Causal(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)

    made = from_module(Causal(), Call((Tensor("q", (B, T, 6)), Tensor("k", (B, S, 6)))), HINTS)
    assert [node.op.causal for node in made.graph.nodes if isinstance(node.op, Attention)] == [True]
    assert agree(made) == len(SIZES)  # with fewer and with more queries than keys


# ---------------------------------------------------------------- precision, dropout, state


class PassedBy(nn.Module):
    """Reads a tensor past whoever listens to what it does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1).data * 2


def test_entries_read_past_autograd_are_followed() -> None:
    assert agree(read(PassedBy())) == len(SIZES)


def test_casts_are_recorded_with_their_places() -> None:
    class Casting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x, -1, dtype=torch.float32).to(x.dtype)

    made = read(Casting())
    casts = [cast.partition(" at ")[0] for cast in made.graph.notes.casts]
    assert casts == ["float64 to float32", "float32 to float64"]
    assert agree(made, close=1e-6) == len(SIZES)


def test_dropout_is_nothing_in_evaluation_and_refused_in_training() -> None:
    module = zoo.Dropping().eval()
    made = read(module)
    assert agree(made) == len(SIZES)
    (said,) = made.graph.notes.assumed
    assert said.startswith("dropout is off at ") and "torch_modules.py" in said
    with pytest.raises(ImportProblem, match=r"dropout of 0\.1 is active") as problem:
        read(module.train())
    assert "torch_modules.py" in problem.value.where and ".eval()" in problem.value.hint


def test_a_module_in_training_mode_without_dropout_is_not_changed() -> None:
    module = zoo.Flash().train()
    assert agree(read(module)) == len(SIZES) and module.training


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (zoo.OnEntries(), "depends on the entries"),
        (zoo.Counting(), "writes into the buffer calls"),
        (zoo.WritesInput(), "writes into the input x"),
        (zoo.Remembering(), "keeps something of a call"),
    ],
    ids=["entries", "buffer", "input", "state"],
)
def test_what_is_not_a_function_of_its_inputs_is_refused_on_one_line(module: nn.Module, words: str) -> None:
    with pytest.raises(ImportProblem, match=words) as problem:
        read(module)
    assert "\n" not in problem.value.one_line()


def test_what_is_kept_but_never_read_is_no_state() -> None:
    assert agree(read(zoo.Showing())) == len(SIZES)


def test_exceptions_of_the_module_are_told_with_their_line() -> None:
    class Wrong(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(7, 7)

    with pytest.raises(TargetProblem, match=r"tracing .*Wrong raised") as problem:
        read(Wrong())
    assert "test_torch.py:" in problem.value.where


def test_a_scripted_module_is_refused() -> None:
    with pytest.warns(DeprecationWarning):
        scripted = torch.jit.script(nn.Linear(3, 3))
    with pytest.raises(ImportProblem, match="TorchScript"):
        read(scripted)


# ---------------------------------------------------------------- writing in place


class Writes(nn.Module):
    """A program that writes, as a module."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self.work = work

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.work(x * 1)


def through_two_views(x: torch.Tensor) -> torch.Tensor:
    whole, part = x.view(*x.shape[:2], 4, 6), x[..., 4:9]
    whole[..., 2, :] = 7.0
    part *= 2
    return whole.sum(-1) + x.unflatten(-1, (4, 6))[..., 0]


def through_a_permuted_view(x: torch.Tensor) -> torch.Tensor:
    x.permute(2, 0, 1)[3:5] += 1
    return x


def through_what_may_be_a_copy(x: torch.Tensor) -> torch.Tensor:
    flat = x.mT.reshape(-1)
    flat += 1
    return x


def test_writes_are_seen_through_all_views() -> None:
    for work in (through_two_views, through_a_permuted_view):
        assert agree(read(Writes(work))) == len(SIZES)


def test_a_write_that_may_or_may_not_be_seen_is_refused() -> None:
    with pytest.raises(ImportProblem, match="lies in memory"):
        read(Writes(through_what_may_be_a_copy))
