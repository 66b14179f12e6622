"""JAX code proved to be multi-head attention for all sizes, or refuted at the line where it goes wrong."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from mha_sym.audit.frameworks.jax_layers import from_jax
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.code import CodeProof, prove_code
from mha_sym.proof.theorem import Verdict

EVERY = ("B", "T", "d_k", "d_model", "d_v", "h")


def split(x: Any, heads: Any) -> Any:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def right(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    p = jax.nn.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))
    z = (p @ v).transpose(0, 2, 1, 3)
    return z.reshape(*z.shape[:2], -1) @ w_o


def masked(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    e = jnp.exp(scores - scores.max(-1, keepdims=True))
    z = (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)
    return z.reshape(*z.shape[:2], -1) @ w_o


def with_einsum(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1) for w in (w_q, w_k, w_v))
    p = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / jnp.sqrt(q.shape[-1]))
    z = jnp.einsum("bhts,bshd->bthd", p, v)
    return jnp.einsum("btm,mn->btn", z.reshape(*z.shape[:2], -1), w_o)


def by_jax(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1) for w in (w_q, w_k, w_v))
    z = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return z.reshape(*z.shape[:2], -1) @ w_o


def crossing(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = ((x @ w).reshape(x.shape[0], heads, x.shape[1], -1) for w in (w_q, w_k, w_v))  # wrong
    p = jax.nn.softmax(q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1]))
    return (p @ v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o


def unscaled(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(-1, -2)  # wrong
    p = jax.nn.softmax(scores)
    z = (p @ v).transpose(0, 2, 1, 3)
    return z.reshape(*z.shape[:2], -1) @ w_o


def over_queries(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
    p = jax.nn.softmax(scores, axis=-2)  # wrong
    z = (p @ v).transpose(0, 2, 1, 3)
    return z.reshape(*z.shape[:2], -1) @ w_o


def untransposed(x: Any, w_q: Any, w_k: Any, w_v: Any, w_o: Any, heads: Any) -> Any:
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    p = jax.nn.softmax(q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1]))
    z = p @ v
    return z.reshape(*x.shape[:2], -1) @ w_o  # wrong


def proved(impl: Implementation, cases: int = 1) -> CodeProof:
    started = time.process_time()
    found = prove_code(impl)
    assert found.verdict is Verdict.PROVED and found.problem is None
    assert len(found.cases) >= cases and not any(one.open for one in found.cases)
    assert time.process_time() - started < 5.0 * len(found.cases)
    return found


@pytest.mark.parametrize("code", [right, with_einsum])
def test_code_is_proved_for_every_size(code: Callable[..., Any]) -> None:
    found = proved(Implementation(call=code))
    assert found.symbolic == EVERY and not found.fixed


@pytest.mark.parametrize("code", [masked, by_jax])
def test_a_causal_layer_is_proved_for_every_size(code: Callable[..., Any]) -> None:
    found = proved(Implementation(call=code, causal=True))
    assert {"B", "T", "h", "d_k"} <= set(found.symbolic) and not found.fixed


@pytest.mark.parametrize("code", [crossing, unscaled, over_queries, untransposed])
def test_wrong_code_is_refuted_at_its_line(code: Callable[..., Any]) -> None:
    found = prove_code(Implementation(call=code))
    assert found.verdict is Verdict.REFUTED
    lines, start = inspect.getsourcelines(code)
    wrong = next(n for n, line in enumerate(lines, start) if line.endswith("# wrong\n"))
    departure = found.cases[0].departure
    assert departure is not None and (departure.place.file, departure.place.line) == (__file__, wrong)


# ---------------------------------------------------------------- layers


def filled(tree: Any) -> Any:
    """A tree whose floats are random; nothing is compiled to draw them."""
    rng = np.random.default_rng(0)

    def one(leaf: Any) -> Any:
        floats = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(rng.normal(size=leaf.shape).astype(leaf.dtype)) if floats else leaf

    return jax.tree.map(one, tree)


def linen_layer() -> Any:
    layer = linen.MultiHeadDotProductAttention(num_heads=4, qkv_features=24, out_features=20)
    return layer.bind(filled(jax.eval_shape(layer.init, jax.random.key(0), jnp.ones((2, 5, 20)))))


def nnx_layer() -> Any:
    layer = nnx.eval_shape(
        lambda: nnx.MultiHeadAttention(num_heads=4, in_features=20, qkv_features=24, decode=False, rngs=nnx.Rngs(0))
    )
    nnx.update(layer, filled(nnx.state(layer)))
    return layer


def equinox_layer() -> Any:
    every = dict.fromkeys((f"use_{name}_bias" for name in ("query", "key", "value", "output")), True)
    make = equinox.nn.MultiheadAttention
    return filled(equinox.filter_eval_shape(make, 4, 20, **every, key=jax.random.key(0)))


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (linen_layer, {"d_k": 6, "d_model": 20, "d_v": 6, "h": 4}),
        (nnx_layer, {"d_k": 6, "d_model": 20, "d_v": 6, "h": 4}),
        (equinox_layer, {"d_k": 5, "d_model": 20, "d_v": 5, "h": 4}),
    ],
)
def test_layers_of_flax_and_equinox_are_proved_for_every_batch_and_length(
    make: Callable[[], Any], sizes: dict[str, int]
) -> None:
    impl = from_jax(make())
    assert impl is not None
    found = proved(impl, cases=2)
    assert found.symbolic == ("B", "S", "T") and found.fixed == sizes
    assert any("counts as minus infinity" in words for one in found.cases for words in one.lifted.assumed)
