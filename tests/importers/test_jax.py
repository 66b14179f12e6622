"""JAX code as a graph: what it computes at many sizes, every primitive of the table, what JAX keeps silent about."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
from jax import lax

from mha_sym.axes import size_symbol
from mha_sym.errors import Problem, TargetProblem
from mha_sym.importers.from_jax import trace as jax_trace
from mha_sym.importers.from_jax.module import Imported, from_function
from mha_sym.importers.from_jax.ops import PRIMITIVES
from mha_sym.importers.from_jax.trace import Spec
from mha_sym.importers.graph import ImportProblem
from mha_sym.importers.run import run
from mha_sym.importers.session import Leak

B, T, S, H, K = map(size_symbol, ("B", "T", "S", "h", "d_k"))
#: pairwise distinct sizes, and sizes of 1, alone and together
SIZES = ((2, 5, 7), (3, 4, 2), (1, 6, 3), (2, 1, 5), (4, 3, 1), (1, 1, 1))
Arrays = Mapping[str, Any]


def values(specs: Mapping[str, Spec], sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Random entries; a mask keeps the first key."""
    rng = np.random.default_rng(seed)
    at = {size_symbol(name): number for name, number in sizes.items()}
    found = {}
    for name, spec in specs.items():
        shape = [int(sympy.sympify(s).subs(at)) for s in spec.shape]
        found[name] = rng.normal(size=shape)
        if spec.dtype == "bool":
            found[name] = rng.random(shape) < 0.6
            found[name][..., 0] = True
    return found


def agree(made: Imported, specs: Mapping[str, Spec], close: float = 1e-11, sizes: Any = SIZES) -> None:
    """The graph gives what the code gives."""
    for number, (b, t, s) in enumerate(sizes):
        named = {"B": b, "T": t, "S": s, "h": 3, "d_k": 2}
        arrays = {**values(specs, named, number), **made.captured}
        expected, found = made.run(arrays, named), run(made.graph, arrays, named)
        assert set(expected) == set(found)
        for name, one in expected.items():
            assert found[name].shape == one.shape
            np.testing.assert_allclose(found[name], one, rtol=close, atol=close)


# ---------------------------------------------------------------- attention

W = {name: Spec((24, 24), role="param") for name in ("w_q", "w_k", "w_v", "w_o")}
FREE = {name: Spec((H * K, H * K), role="param") for name in W}


def heads_of(x: Any, heads: Any) -> Any:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def joined(z: Any) -> Any:
    swapped = z.transpose(0, 2, 1, 3)
    return swapped.reshape(*swapped.shape[:2], -1)


def by_hand(a: Arrays, heads: Any = 4, root: Callable[[Any], Any] = jnp.sqrt, causal: bool = False) -> Any:
    x = a["x"]
    q, k, v = (heads_of(x @ a[name], heads) for name in ("w_q", "w_k", "w_v"))
    scores = q @ k.swapaxes(-1, -2) / root(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool)), scores, -jnp.inf)
    return joined(jax.nn.softmax(scores, -1) @ v) @ a["w_o"]


def with_einsum(a: Arrays) -> Any:
    x, y = a["x"], a["xk"]
    q, k, v = ((z @ a[n]).reshape(*z.shape[:2], 4, 6) for z, n in ((x, "w_q"), (y, "w_k"), (y, "w_v")))
    scores = jnp.where(a["keep"][:, None], jnp.einsum("bthd,bshd->bhts", q, k) * 6**-0.5, -1e9)
    e = jnp.exp(scores - scores.max(-1, keepdims=True))
    z = jnp.einsum("bhts,bshd->bthd", e / e.sum(-1, keepdims=True), v)
    return {"y": jnp.einsum("bthd,hdm->btm", z, a["w_o"].reshape(4, 6, 24)), "weights": jax.nn.softmax(scores)}


def fused(a: Arrays) -> Any:
    qkv = a["x"] @ a["w"]
    q, k, v = (heads_of(one, 4) for one in jnp.split(qkv, 3, axis=-1))
    z = jax.nn.dot_product_attention(*(one.swapaxes(1, 2) for one in (q, k, v)), is_causal=True)
    return z.reshape(*z.shape[:2], -1)


def grouped(a: Arrays) -> Any:
    q = (a["x"] @ a["w_q"]).reshape(*a["x"].shape[:2], 6, 4)
    k, v = ((a["x"] @ a[n][:, :8]).reshape(*a["x"].shape[:2], 2, 4) for n in ("w_k", "w_v"))
    z = jax.nn.dot_product_attention(q, k, v, scale=0.5)
    return z.reshape(*z.shape[:2], -1) @ a["w_o"]


def rotated(a: Arrays) -> Any:
    q = heads_of(a["x"] @ a["w_q"], 4)
    angle = jnp.arange(q.shape[2])[:, None] * 10.0 ** -jnp.arange(3.0)
    c, s = jnp.cos(angle), jnp.sin(angle)
    one, two = q[..., :3], q[..., 3:]
    return jnp.concatenate([one * c - two * s, two * c + one * s], -1)


X = {"x": Spec((B, T, 24))}
CODE: dict[str, tuple[Callable[[Arrays], Any], dict[str, Spec], float]] = {
    "by hand": (by_hand, X | W, 1e-11),
    "causal": (lambda a: by_hand(a, causal=True), X | W, 1e-11),
    "einsum, masked, two outputs": (
        with_einsum, X | W | {"xk": Spec((B, S, 24)), "keep": Spec((B, T, S), "bool")}, 1e-11
    ),
    "split, JAX's own attention": (fused, X | {"w": Spec((24, 72))}, 1e-5),  # which computes softmax in float32
    "grouped": (grouped, X | W, 1e-5),
    "rotary": (rotated, X | W, 1e-11),
}  # fmt: skip


@pytest.mark.parametrize("name", CODE)
def test_attention_by_hand_agrees(name: str) -> None:
    code, specs, close = CODE[name]
    made = from_function(lambda arrays, size: code(arrays), specs)
    assert not made.graph.notes.conditions
    assert bool(made.graph.notes.casts) == (close > 1e-10)
    agree(made, specs, close)


def test_inputs_and_weights_have_their_names_and_roles() -> None:
    made = from_function(lambda arrays, size: by_hand(arrays), X | W)
    roles = {name: node.op.role for name, node in made.graph.inputs().items()}  # type: ignore[union-attr]
    assert roles == {"x": "user"} | dict.fromkeys(W, "param")


@pytest.mark.parametrize(
    "root",
    [jnp.sqrt, lambda d: math.sqrt(d), np.sqrt, lambda d: d**0.5, lambda d: 1 / d**-0.5, lambda d: d / d * d**0.5],
)
def test_every_size_is_a_symbol_and_roots_of_sizes_are_exact(root: Callable[[Any], Any]) -> None:
    specs = {"x": Spec((B, T, H * K))} | FREE
    made = from_function(lambda arrays, size: by_hand(arrays, size(H), root), specs)
    assert not made.graph.notes.conditions and not made.graph.notes.readings
    agree(made, specs, sizes=SIZES[:2])


def test_a_size_whose_value_is_asked_for_is_named_with_the_line() -> None:
    def loop(arrays: Arrays, size: Any) -> Any:
        y = arrays["x"]
        for _ in range(y.shape[1]):
            y = y + 1
        return y

    with pytest.raises(Leak) as caught:
        from_function(loop, X)
    assert caught.value.symbols == {T} and caught.value.place.what == "for _ in range(y.shape[1]):"


def test_sizes_that_jax_itself_cannot_follow_are_to_be_fixed() -> None:
    def wide(arrays: Arrays, size: Any) -> Any:
        return arrays["x"] @ jnp.linspace(0.0, 1.0, size(K))

    with pytest.raises(Leak) as caught:
        from_function(wide, {"x": Spec((B, T, K))})
    assert caught.value.symbols == {K}


def test_arrays_from_elsewhere_are_weights_under_their_names_and_masks_are_constants() -> None:
    table = np.arange(24.0) / 7
    triangle = np.tril(np.ones((24, 24)))

    def code(x: Any) -> Any:
        return x @ jnp.asarray(triangle) * table

    made = from_function(lambda arrays, size: code(arrays["x"]), X, owner=code)
    assert list(made.captured) == ["table"]
    agree(made, X)


# ---------------------------------------------------------------- what JAX keeps silent about


def special_at_one(arrays: Arrays, size: Any) -> Any:
    return arrays["x"] * 2 if arrays["x"].shape[1] == 1 else arrays["x"] * 3


@jax.jit
def special_in_jit(x: Any) -> Any:
    return x * 2 if x.shape[1] == 1 else x * 3


def conditions(code: Callable[..., Any]) -> list[str]:
    return sorted(map(str, from_function(code, X).graph.notes.conditions))


def test_a_size_of_one_is_told_apart_and_named_with_its_line() -> None:
    found = from_function(special_at_one, X).graph.notes.conditions
    assert [str(one) for one in found] == ["T != 1"]
    lines, start = inspect.getsourcelines(special_at_one)
    assert found[0].place.line == start + 1 and found[0].place.what == lines[1].strip()


def test_it_is_told_apart_inside_of_jit_however_often_it_was_compiled() -> None:
    for _ in range(3):
        assert conditions(lambda a, size: special_in_jit(a["x"])) == ["T != 1"]


def test_it_is_told_apart_in_the_numbers_where_no_question_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_trace, "is_jax", lambda file: True)  # as if the code were part of JAX
    found = from_function(special_at_one, X).graph.notes.conditions
    assert [str(one) for one in found] == ["T != 1"] and not found[0].place.line


def test_a_size_is_not_one_of_another_trace_which_jax_finds_in_its_caches() -> None:
    t = size_symbol("T")
    one, other = (jax_trace._Scope({t: 7}, ()) for _ in range(2))
    with one.listening():
        mine, theirs = one.dims["T"], other.dims["T"]
        assert mine == one.dims["T"] and (mine != one.dims["T"]) is False
        assert mine != theirs and (mine == theirs) is False and 20 * mine != 20 * theirs
    assert not one.branches


def test_a_branch_that_makes_no_difference_is_no_condition() -> None:
    def code(a: Arrays, size: Any) -> Any:
        seen = [a["x"].shape[1] == 1, a["x"].shape[0] == a["x"].shape[1]]
        return by_hand(a) if not all(seen) else by_hand(a, causal=False)

    assert not from_function(code, X | W).graph.notes.conditions


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (lambda a, size: a["x"] * 2 if a["x"].shape[0] > 2 else a["x"], ["B > 2"]),
        (lambda a, size: a["x"] * 2 if a["x"].shape[1] in (4, 9) else a["x"], ["T != 4", "T != 9"]),
        (lambda a, size: a["x"] * 2 if a["x"].shape[0] != a["x"].shape[1] else a["x"], ["B != T"]),
        (lambda a, size: a["x"] * 2 if a["x"].shape[1] >= 1 else a["x"], []),
        (lambda a, size: a["x"][:, :8], ["8 <= T"]),
        (lambda a, size: a["x"] + jnp.ones((64, 24))[: a["x"].shape[1]], ["T <= 64"]),
    ],
)
def test_what_the_code_decides_on_sizes_is_a_condition(code: Callable[..., Any], expected: list[str]) -> None:
    assert conditions(code) == expected


# ---------------------------------------------------------------- what is refused


def drawn(x: Any) -> Any:
    return x * jax.random.bernoulli(jax.random.key(0), 0.5, (24,))


def summed_up(x: Any) -> Any:
    return jnp.cumsum(x, 1)


def looped(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda n, y: y + 1, x)


def looked_up(x: Any) -> Any:
    return jnp.ones((5, 24))[jnp.argmax(x, -1)]


def written(x: Any) -> Any:
    return x.at[:, 0].set(0.0)


def halved(x: Any) -> Any:
    return jnp.arange(x.shape[1]) // 2


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (drawn, "random numbers are drawn here"), (summed_up, "cumsum"), (looped, "lax."), (looked_up, "argmax"),
        (written, "scatter"), (halved, "rounded"),
    ],
)  # fmt: skip
def test_what_is_outside_of_the_vocabulary_is_named_with_its_line(code: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ImportProblem) as caught:
        from_function(lambda arrays, size: code(arrays["x"]), X)
    assert words in caught.value.what
    lines, start = inspect.getsourcelines(code)
    assert caught.value.where == f"{__file__}:{start + 1}, {lines[1].strip()}"


def test_a_line_is_that_of_this_call_also_where_jax_has_compiled_the_function_before() -> None:
    def first(x: Any) -> Any:
        return jnp.cumsum(x, 1)

    def second(x: Any) -> Any:
        y = x + 1
        return jnp.cumsum(y, 1)

    for code, offset in ((first, 1), (second, 2), (first, 1)):
        with pytest.raises(ImportProblem) as caught:
            from_function(lambda arrays, size, code=code: code(arrays["x"]), X)
        assert f":{inspect.getsourcelines(code)[1] + offset}," in caught.value.where


def test_what_is_refused_is_no_matter_where_it_is_of_no_effect() -> None:
    def code(arrays: Arrays, size: Any) -> Any:
        jnp.cumsum(arrays["x"], 1)
        return arrays["x"] * 2

    agree(from_function(code, X), X)


def test_a_branch_on_entries_is_one_line_with_the_place() -> None:
    def code(arrays: Arrays, size: Any) -> Any:
        return arrays["x"] if arrays["x"].sum() > 0 else -arrays["x"]

    with pytest.raises(TargetProblem) as caught:
        from_function(code, X)
    assert "TracerBoolConversionError" in caught.value.what and "branch on the entries" in caught.value.hint
    assert caught.value.where == f"{__file__}:{inspect.getsourcelines(code)[1] + 1}"


def test_a_branch_on_entries_inside_a_try_is_refused_too() -> None:
    """The code catches that there are no entries, and what it does without them is not what it does with them."""

    def code(arrays: Arrays, size: Any) -> Any:
        try:
            return arrays["x"] if arrays["x"].sum() > 0 else -arrays["x"]
        except TypeError:
            return arrays["x"]

    with pytest.raises(TargetProblem) as caught:
        from_function(code, X)
    assert "TracerBoolConversionError" in caught.value.what
    assert caught.value.where == f"{__file__}:{inspect.getsourcelines(code)[1] + 2}"


def test_jax_is_left_as_it_was() -> None:
    dim = jax.export.symbolic_shape("n")[0]
    before, root = dict(vars(type(dim))), math.sqrt
    for code in (special_at_one, lambda a, size: 1 / 0):
        with contextlib.suppress(Problem):
            from_function(code, X)
    assert dict(vars(type(dim))) == before and math.sqrt is root and not jax.config.jax_enable_x64


# ---------------------------------------------------------------- the table

ROW = {"x": Spec((B, T, 6)), "y": Spec((B, T, 6)), "m": Spec((B, T, 6), "bool")}


@jax.custom_jvp
def custom(x: Any) -> Any:
    return x * 2


custom.defjvp(lambda p, t: (custom(*p), t[0]))


@jax.custom_vjp
def backward(x: Any) -> Any:
    return x * 3


backward.defvjp(lambda x: (backward(x), None), lambda saved, g: (g,))

ROWS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arithmetic": lambda x, y, m: (x + y) * (x - y) / (-y),
    "functions": lambda x, y, m: jnp.sin(x) + jnp.cos(y) + jnp.tanh(x) + jnp.abs(y) + jnp.exp(x),
    "roots": lambda x, y, m: jnp.sqrt(x * x + 1) + lax.rsqrt(y * y + 1) + jnp.log(x * x + 1),
    "powers": lambda x, y, m: x**3 + lax.integer_pow(y, 2) + (x * x + 1) ** 0.3 + 1 / (1 + y**2) + lax.square(x),
    "negative power": lambda x, y, m: lax.integer_pow(x * x + 1, -1),
    "extremes": lambda x, y, m: jnp.maximum(x, y) + jnp.minimum(x, 2 * y) + lax.clamp(-0.3, x, 0.4),
    "sigmoid": lambda x, y, m: jax.nn.sigmoid(x),
    "comparisons": lambda x, y, m: (x < y) + 2 * (x <= y) + 4 * (x > y) + 8 * (x >= y) + 16 * (x == y) + 32 * (x != y),
    "logic": lambda x, y, m: jnp.where((m & (x > y)) | ~m ^ (y > 0), x, y),
    "xor": lambda x, y, m: jnp.where(jnp.logical_xor(m, y > 0), x, y),
    "casts": lambda x, y, m: x.astype(jnp.float32).astype(jnp.float64) + m.astype(float),
    "precision": lambda x, y, m: lax.reduce_precision(x, 11, 52),
    "nothing": lambda x, y, m: lax.stop_gradient(x) + lax.optimization_barrier(y) + jnp.copy(x),
    "sums": lambda x, y, m: x.sum(-1) + y.max(1).sum(-1)[:, None] + x.min((0, 1)).sum() + m.sum(-1),
    "contraction": lambda x, y, m: lax.dot_general(x, y, (((2,), (2,)), ((0,), (0,)))),
    "einsum": lambda x, y, m: jnp.einsum("bti,bsi,bsj->tjb", x, y, x),
    "axes": lambda x, y, m: jnp.squeeze(x[:, None].transpose(0, 1, 3, 2), 1) + lax.expand_dims(y, (1,))[:, 0].mT,
    "merge and split": lambda x, y, m: x.reshape(x.shape[0], -1, 3).reshape(*x.shape[:2], 2, 3).swapaxes(1, 2),
    "broadcast": lambda x, y, m: x + jnp.arange(6) + jnp.arange(x.shape[1])[:, None],
    "pieces": lambda x, y, m: jnp.concatenate([*jnp.split(x, 3, axis=-1)[::-1], y[..., 1:4]], axis=-1),
    "steps": lambda x, y, m: x[..., ::2] + y[..., 5::-2],
    "turned": lambda x, y, m: lax.rev(x, (2,)) + jnp.flip(y, -1),
    "position": lambda x, y, m: x[..., 3] + y[..., -2] + x[:, 0, :1],
    "positions": lambda x, y, m: x[..., jnp.array([4, 0, 4])] + y[..., jnp.array([1, -1, 2])],
    "positions from 1 on": lambda x, y, m: x * jnp.cumsum(jnp.ones(x.shape, int), 1) + jnp.cumsum(jnp.ones(6), 0),
    "positions in front": lambda x, y, m: lax.gather(
        x, jnp.array([[4], [1]]), lax.GatherDimensionNumbers((1, 2), (2,), (2,)), (*x.shape[:2], 1)
    ),
    "from a position": lambda x, y, m: lax.dynamic_slice(x, (0, 0, 2), (*x.shape[:2], 3)),
    "padding": lambda x, y, m: jnp.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=0.5),
    "sizes": lambda x, y, m: x / jnp.sqrt(x.shape[1]) + x.shape[0] * y,
    "inside": lambda x, y, m: jax.jit(lambda z: z + 1)(x) + jax.checkpoint(lambda z: z * y)(x),
    "with derivatives of their own": lambda x, y, m: custom(x) + backward(y),
    "positions as numbers": lambda x, y, m: x * lax.broadcasted_iota(float, (6,), 0) + jnp.eye(6)[1],
}  # fmt: skip

#: names that other versions of JAX have for the same
ALIASES = {"pjit", "closed_call", "checkpoint", "custom_vjp_call_jaxpr"}


@pytest.mark.parametrize("name", ROWS)
def test_every_row_of_the_table_computes_what_jax_computes(name: str) -> None:
    made = from_function(lambda a, size: ROWS[name](a["x"], a["y"], a["m"]), ROW)
    assert not made.graph.notes.conditions
    agree(made, ROW, 1e-6 if name == "casts" else 1e-11, SIZES[::2])


def test_every_primitive_of_the_table_is_met_above() -> None:
    met: set[str] = set()

    def walk(jaxpr: Any) -> None:
        for equation in jaxpr.eqns:
            met.add(equation.primitive.name)
            for value in equation.params.values():
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    walk(inner)

    for code in ROWS.values():
        walk(jax_trace.trace(lambda a, size, code=code: code(a["x"], a["y"], a["m"]), ROW, {B: 2, T: 5}).jaxpr.jaxpr)
    assert set(PRIMITIVES) - met <= ALIASES, "say with which code it is met"
