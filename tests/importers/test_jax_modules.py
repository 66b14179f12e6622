"""Modules of Flax and Equinox of any make: opened, read, and proved."""

from __future__ import annotations

from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.target import as_implementation
from mha_sym.errors import Problem
from mha_sym.importers.from_jax.layers import opened
from mha_sym.importers.graph import ImportProblem
from mha_sym.proof.theorem import Verdict


def filled(tree: Any) -> Any:
    """A tree whose floats are random; nothing is compiled to draw them."""
    rng = np.random.default_rng(0)

    def one(leaf: Any) -> Any:
        floats = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(rng.normal(size=leaf.shape).astype(leaf.dtype)) if floats else leaf

    return jax.tree.map(one, tree)


def attend(q: Any, k: Any, v: Any, axis: int = -1) -> Any:
    scores = jnp.einsum("...thd,...shd->...hts", q, k) / jnp.sqrt(q.shape[-1])
    return jnp.einsum("...hts,...shd->...thd", jax.nn.softmax(scores, axis), v)


class Linen(linen.Module):
    num_heads: int
    axis: int = -1

    @linen.compact
    def __call__(self, x: Any) -> Any:
        qkv = linen.Dense(3 * x.shape[-1], name="to_qkv")(x)
        q, k, v = (z.reshape(*x.shape[:-1], self.num_heads, -1) for z in jnp.split(qkv, 3, axis=-1))
        return linen.Dense(x.shape[-1], name="proj")(attend(q, k, v, self.axis).reshape(x.shape))


class Nnx(nnx.Module):
    def __init__(self, width: int, heads: int, rngs: Any) -> None:
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nnx.Linear(width, width, use_bias=False, rngs=rngs) for _ in range(4))

    def __call__(self, x: Any) -> Any:
        q, k, v = (f(x).reshape(*x.shape[:2], self.heads, -1) for f in (self.wq, self.wk, self.wv))
        return self.wo(attend(q, k, v).reshape(x.shape))


class Equinox(equinox.Module):
    query: equinox.nn.Linear
    key: equinox.nn.Linear
    value: equinox.nn.Linear
    out: equinox.nn.Linear
    n_heads: int = equinox.field(static=True)

    def __init__(self, width: int, heads: int, key: Any) -> None:
        self.query, self.key, self.value, self.out = (equinox.nn.Linear(width, width, key=key) for _ in range(4))
        self.n_heads = heads

    def __call__(self, x: Any) -> Any:  # one sample
        q, k, v = (jax.vmap(f)(x).reshape(x.shape[0], self.n_heads, -1) for f in (self.query, self.key, self.value))
        return jax.vmap(self.out)(attend(q, k, v).reshape(x.shape))


def linen_module(axis: int = -1) -> Any:
    module = Linen(3, axis)
    return module.bind(filled(jax.eval_shape(module.init, jax.random.key(0), jnp.ones((2, 5, 12)))))


def nnx_module() -> Any:
    module = nnx.eval_shape(lambda: Nnx(12, 3, nnx.Rngs(0)))
    nnx.update(module, filled(nnx.state(module)))
    return module


def equinox_module() -> Any:
    return filled(equinox.filter_eval_shape(Equinox, 12, 3, key=jax.random.key(0)))


@pytest.mark.parametrize(
    ("make", "layout"), [(linen_module, "packed"), (nnx_module, "combined"), (equinox_module, "linear")]
)
def test_a_module_with_names_of_its_own_is_read_and_proved(make: Any, layout: str) -> None:
    impl = as_implementation(make())
    assert (impl.how_stored.name, impl.heads) == (layout, 3)
    assert set(impl.said.values()) == {"found by shapes and a probe in numbers"}
    found = prove_code(impl)
    assert found.verdict is Verdict.PROVED and found.symbolic == ("B", "T")
    assert found.fixed == {"d_k": 4, "d_model": 12, "d_v": 4, "h": 3}


def test_a_wrong_module_is_refuted() -> None:
    impl = as_implementation(linen_module(axis=-2))
    assert set(impl.said.values()) == {"the names of its weights"}
    found = prove_code(impl)
    assert found.verdict is Verdict.REFUTED and found.cases[0].departure is not None
    assert (found.cases[0].departure.place.file, found.cases[0].departure.first) == (__file__, "weights")


def test_a_module_called_with_other_weights_is_that_module() -> None:
    for module, x in ((linen_module(), np.ones((2, 5, 12))), (nnx_module(), np.ones((2, 5, 12)))):
        layer = opened(module)
        expected = module(jnp.asarray(x, jnp.float32))
        np.testing.assert_allclose(layer.call(layer.weights, jnp.asarray(x, jnp.float32)), expected, rtol=1e-4)
        doubled = {name: 2 * value for name, value in layer.weights.items()}
        assert not np.allclose(layer.call(doubled, jnp.asarray(x, jnp.float32)), expected)


def test_a_linen_module_without_weights_and_what_is_no_module_are_refused() -> None:
    with pytest.raises(ImportProblem, match="has no weights yet"):
        opened(Linen(3))
    with pytest.raises(ImportProblem, match="is no layer that is known"):
        opened(3)


def test_a_module_that_does_not_say_its_heads_is_refused() -> None:
    with pytest.raises(Problem, match="does not say how many heads"):
        as_implementation(equinox.nn.Linear(3, 3, key=jax.random.key(0)))
